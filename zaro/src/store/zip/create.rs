//! Creating ZIP archives: a store that appends each put, and writes the central directory last.
//!
//! Entries are stored uncompressed, since chunks are compressed already, one after another in a temporary file beside
//! the final archive. [`Store::finish`] adds the directory and renames the file. Without it there is no archive.
//!
//! Nothing written is removed: the bytes of an entry that is replaced or deleted stay in the file, but not in the
//! directory. Documents, which are small and often put more than once, are therefore kept in memory until the end:
//! names that end in `.json` or begin with `.z`. Except if the archive is to be written [in order](ZipForm::in_order), for
//! callers that know what they put.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};

use super::directory::{self, Record};
pub use super::directory::{Arrangement, ZipForm};
use crate::error::{Error, Result};
use crate::num::{u64_of, usize_of};
use crate::store::list::{failed, of_sorted};
use crate::store::local::Temporary;
use crate::store::local::sys::{Folder, read_exact_at, write_all_at};
use crate::store::memory::slice;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, Entry, GetOptions, ListOptions, Object, ObjectMeta, Put,
    Site, Store, StoreFacts, check_key, check_prefix, join,
};

/// Up to this size, an entry is assembled in memory and written at once: 1 MiB.
const MAX_JOINED: u64 = 1 << 20;

/// A ZIP archive being created, as a readable and writable store. Conditions hold among all users of this store; nobody
/// else sees the archive before it is finished.
pub struct ZipCreateStore {
    path: PathBuf,
    file: Arc<File>,
    form: ZipForm,
    state: Mutex<ArchiveState>,
}

struct ArchiveState {
    /// The temporary file; `None` when the archive is finished.
    temporary: Option<Temporary>,
    entries: BTreeMap<String, StoredEntry>,
    /// Offset of the next entry.
    end: u64,
    /// Number of puts so far.
    puts: u64,
}

/// An entry, and the number of its put, which identifies its state.
#[derive(Clone)]
struct StoredEntry {
    content: EntryContent,
    put: u64,
}

#[derive(Clone)]
enum EntryContent {
    InMemory(Bytes),
    Written { record: Record, start: u64 },
}

impl StoredEntry {
    fn meta(&self) -> ObjectMeta {
        ObjectMeta::of_put(self.put, self.size())
    }

    fn size(&self) -> u64 {
        match &self.content {
            EntryContent::InMemory(bytes) => u64_of(bytes.len()),
            EntryContent::Written { record, .. } => record.size,
        }
    }
}

/// Whether a key is that of a metadata document.
fn is_document(key: &str) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    name.ends_with(".json") || name.starts_with(".z")
}

impl ZipCreateStore {
    /// Creates the archive `path`, which must not exist, and its parent folders.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        Self::create_as(path, ZipForm::default())
    }

    /// The same, in the given form.
    pub fn create_as(path: impl Into<PathBuf>, form: ZipForm) -> Result<Self> {
        let path = path.into();
        let place = |e: Error| e.with_store(path.display());
        if path.symlink_metadata().is_ok() {
            return Err(place(Error::not_permitted(
                "the file already exists, and archives can only be created, not changed; delete it first",
            )));
        }
        let folder = folder_of(&path);
        std::fs::create_dir_all(folder).map_err(|e| place(e.into()))?;
        let (temporary, file) = Temporary::create(folder).map_err(|e| place(e.into()))?;
        let state = ArchiveState { temporary: Some(temporary), entries: BTreeMap::new(), end: 0, puts: 0 };
        Ok(Self { path, file: Arc::new(file), form, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, ArchiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self, key: &str) -> Result<Option<StoredEntry>> {
        check_key(key)?;
        Ok(self.lock().entries.get(key).cloned())
    }

    fn put_parts(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        check_key(key)?;
        if !self.lock().allows(key, when)? {
            return Ok(Put::Refused);
        }
        let content = match is_document(key) && !self.form.in_order {
            true => EntryContent::InMemory(parts.concat().into()),
            false => self.append(key, parts)?,
        };
        let mut state = self.lock();
        // Others may have put meanwhile: then the bytes just written are not listed.
        if !state.allows(key, when)? {
            return Ok(Put::Refused);
        }
        state.puts += 1;
        let put = state.puts;
        state.entries.insert(key.to_owned(), StoredEntry { content, put });
        Ok(Put::Done)
    }

    /// Writes an entry to its own region, so that several can be written concurrently.
    fn append(&self, key: &str, parts: &[&[u8]]) -> Result<EntryContent> {
        let mut crc = crc32fast::Hasher::new();
        parts.iter().for_each(|part| crc.update(part));
        let size = parts.iter().fold(0u64, |sum, part| sum.saturating_add(u64_of(part.len())));
        let mut record = Record { header: 0, size, crc: crc.finalize() };
        let local = directory::local_header(key, &record, &self.form)?;
        let start = self.reserve(key, &mut record, u64_of(local.len()))?;
        if size <= MAX_JOINED {
            let mut all = local;
            parts.iter().for_each(|part| all.extend_from_slice(part));
            write_all_at(&self.file, &all, record.header)?;
        } else {
            write_all_at(&self.file, &local, record.header)?;
            let mut at = start;
            for part in parts {
                write_all_at(&self.file, part, at)?;
                at = at.saturating_add(u64_of(part.len()));
            }
        }
        Ok(EntryContent::Written { record, start })
    }

    /// Reserves the next region of the file for an entry; returns the offset of its data.
    fn reserve(&self, key: &str, record: &mut Record, header: u64) -> Result<u64> {
        let mut state = self.lock();
        // No entry may overlap the directory.
        state.allows(key, &Condition::Always)?;
        record.header = state.end;
        let start = record.header.saturating_add(header);
        state.end = start.saturating_add(record.size);
        Ok(start)
    }

    /// Starts an entry of `size` bytes that is written piece by piece. It becomes part of the archive when finished.
    pub fn entry(&self, key: &str, size: u64) -> Result<EntryWriter<'_>> {
        let begin = || {
            check_key(key)?;
            let mut record = Record { header: 0, size, crc: 0 };
            let length = directory::local_header(key, &record, &self.form)?.len();
            let start = self.reserve(key, &mut record, u64_of(length))?;
            Ok((record, start))
        };
        let (record, start) = begin().map_err(|e: Error| e.with_key(key).with_store(self))?;
        let crc = crc32fast::Hasher::new();
        Ok(EntryWriter { store: self, key: key.to_owned(), record, start, written: 0, crc })
    }

    fn read(&self, held: &StoredEntry, range: Option<ByteRange>) -> Result<Bytes> {
        match &held.content {
            EntryContent::InMemory(bytes) => slice(bytes, range),
            EntryContent::Written { record, start } => {
                let (offset, length) = match range {
                    Some(range) => range.resolve(record.size)?,
                    None => (0, record.size),
                };
                let mut buf = vec![0; usize_of(length)?];
                read_exact_at(&self.file, &mut buf, start.saturating_add(offset))?;
                Ok(buf.into())
            }
        }
    }

    /// Writes the documents, the directory and the end record; puts wait meanwhile.
    fn close(&self) -> Result<()> {
        let mut state = self.lock();
        if state.temporary.is_none() {
            return Ok(());
        }
        if let Some(arrangement) = self.form.arranged {
            self.publish(&mut self.arrange(&state, arrangement)?)?;
            state.temporary = None;
            return Ok(());
        }
        let mut tail = Vec::new();
        let mut records = Vec::with_capacity(state.entries.len());
        for (key, held) in &state.entries {
            let record = match &held.content {
                EntryContent::Written { record, .. } => record.clone(),
                EntryContent::InMemory(bytes) => {
                    let header = state.end.saturating_add(u64_of(tail.len()));
                    let record = Record { header, size: u64_of(bytes.len()), crc: crc32fast::hash(bytes) };
                    tail.extend_from_slice(&directory::local_header(key, &record, &self.form)?);
                    tail.extend_from_slice(bytes);
                    record
                }
            };
            records.push((key.as_str(), record));
        }
        let start = state.end.saturating_add(u64_of(tail.len()));
        if self.form.in_order {
            records.sort_by_key(|(_, record)| record.header);
        }
        tail.extend_from_slice(&directory::write(&records, start, &self.form)?);
        write_all_at(&self.file, &tail, state.end)?;
        self.file.sync_all()?;
        match state.temporary.take() {
            Some(mut temporary) => {
                let published = self.publish(&mut temporary);
                if published.is_err() {
                    // It is not finished, whoever asks again.
                    state.temporary = Some(temporary);
                }
                published
            }
            None => Ok(()),
        }
    }

    /// Renames the archive to its final name.
    fn publish(&self, temporary: &mut Temporary) -> Result<()> {
        temporary.publish(&self.path).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => Error::conflict(
                "a file of this name was created by somebody else meanwhile; it was left unchanged",
            ),
            _ => e.into(),
        })?;
        Folder::open(folder_of(&self.path))?.sync()?;
        Ok(())
    }

    /// Rewrites everything in the given arrangement.
    fn arrange(&self, state: &ArchiveState, arrangement: Arrangement) -> Result<Temporary> {
        let (temporary, file) = Temporary::create(folder_of(&self.path))?;
        let root = state.entries.get("zarr.json").map(|held| self.read(held, None)).transpose()?;
        let form = ZipForm { comment: (arrangement.comment)(root.as_deref()), ..self.form.clone() };
        let mut entries: Vec<(&String, &StoredEntry)> = state.entries.iter().collect();
        entries.sort_by_key(|(key, _)| (arrangement.place)(key));
        let mut records = Vec::with_capacity(entries.len());
        let mut end = 0u64;
        for (key, held) in entries {
            let crc = match &held.content {
                EntryContent::Written { record, .. } => record.crc,
                EntryContent::InMemory(bytes) => crc32fast::hash(bytes),
            };
            let record = Record { header: end, size: held.size(), crc };
            let local = directory::local_header(key, &record, &form)?;
            write_all_at(&file, &local, end)?;
            end = end.saturating_add(u64_of(local.len()));
            let mut offset = 0;
            while offset < record.size {
                let length = MAX_JOINED.min(record.size.saturating_sub(offset));
                let part = self.read(held, Some(ByteRange::span(offset, length)))?;
                write_all_at(&file, &part, end)?;
                (offset, end) = (offset.saturating_add(length), end.saturating_add(length));
            }
            records.push((key.as_str(), record));
        }
        write_all_at(&file, &directory::write(&records, end, &form)?, end)?;
        file.sync_all()?;
        Ok(temporary)
    }
}

/// An entry of a new archive that is written piece by piece.
#[derive(Debug)]
pub struct EntryWriter<'a> {
    store: &'a ZipCreateStore,
    key: String,
    record: Record,
    start: u64,
    written: u64,
    crc: crc32fast::Hasher,
}

impl EntryWriter<'_> {
    /// Writes the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let place = |e: Error| e.with_key(&self.key).with_store(self.store);
        let after = self.written.saturating_add(u64_of(bytes.len()));
        if after > self.record.size {
            return Err(place(Error::conflict("the entry has more bytes than announced")));
        }
        let at = self.start.saturating_add(self.written);
        write_all_at(&self.store.file, bytes, at).map_err(|e| place(e.into()))?;
        self.crc.update(bytes);
        self.written = after;
        Ok(())
    }

    /// Adds the entry to the archive, if it is complete.
    pub fn finish(mut self) -> Result<()> {
        let place = |e: Error| e.with_key(&self.key).with_store(self.store);
        if self.written != self.record.size {
            return Err(place(Error::conflict("the entry has fewer bytes than announced")));
        }
        self.record.crc = self.crc.finalize();
        let local = directory::local_header(&self.key, &self.record, &self.store.form).map_err(place)?;
        let written = write_all_at(&self.store.file, &local, self.record.header);
        written.map_err(|e| place(e.into()))?;
        let mut state = self.store.lock();
        state.allows(&self.key, &Condition::Always).map_err(place)?;
        state.puts += 1;
        let (put, start) = (state.puts, self.start);
        let content = EntryContent::Written { record: self.record.clone(), start };
        state.entries.insert(self.key.clone(), StoredEntry { content, put });
        Ok(())
    }
}

impl ArchiveState {
    /// Whether a put is allowed.
    fn allows(&self, key: &str, when: &Condition) -> Result<bool> {
        if self.temporary.is_none() {
            return Err(Error::unsupported("the archive is finished and cannot be added to"));
        }
        let now = self.entries.get(key).map(|held| held.put);
        Ok(match when {
            Condition::Always => true,
            Condition::Absent => now.is_none(),
            Condition::Unchanged(seen) => now == Some(seen.local()?.id[0]),
        })
    }
}

/// The parent folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl fmt::Display for ZipCreateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl fmt::Debug for ZipCreateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZipCreateStore({self})")
    }
}

#[async_trait]
impl Store for ZipCreateStore {
    fn free_space(&self) -> Option<u64> {
        crate::store::local::free_space(&self.path)
    }

    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        futures::stream::iter([Site::file(&self.path).map(|s| s.entry(prefix))]).boxed()
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let read = || {
            options.refuse_pin()?;
            let Some(held) = self.held(key)? else { return Ok(None) };
            let object = Object { bytes: self.read(&held, options.range)?, meta: held.meta() };
            options.check(&object)?;
            Ok(Some(object))
        };
        read().map_err(|e: Error| e.with_key(key).with_store(self))
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let held = self.held(key).map_err(|e| e.with_store(self))?;
        Ok(held.map(|held| held.meta()))
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        if let Err(e) = check_prefix(prefix) {
            return failed(e.with_store(self));
        }
        of_sorted(prefix, options, |from, see| {
            let state = self.lock();
            let mut there = state.entries.range::<str, _>((from, Bound::Unbounded));
            while there.next().is_some_and(|(key, held)| see(key, &|| held.meta())) {}
            Ok(())
        })
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: true, is_remote: false }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        Direct::put(self, key, &[&value], &when)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        Direct::delete(self, key)
    }

    async fn delete_unchanged(&self, key: &str, seen: &ObjectMeta) -> Result<Put> {
        let mut state = self.lock();
        let when = Condition::Unchanged(seen.clone());
        let allowed = state.allows(key, &when).map_err(|e| e.with_key(key).with_store(self))?;
        if allowed {
            state.entries.remove(key);
        }
        Ok(if allowed { Put::Done } else { Put::Refused })
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        check_prefix(prefix).map_err(|e| e.with_store(self))?;
        let start = join(prefix, "");
        let mut state = self.lock();
        state.allows("", &Condition::Always).map_err(|e| e.with_key(prefix).with_store(self))?;
        state.entries.retain(|key, _| !key.starts_with(&start));
        Ok(())
    }

    async fn finish(&self) -> Result<()> {
        self.close().map_err(|e| e.with_store(self))
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}

impl Direct for ZipCreateStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.held(key).map_err(|e| e.with_store(self))? {
            Some(held) => Ok(Some(Box::new(ExistingEntry { held, file: Arc::clone(&self.file) }))),
            None => Ok(None),
        }
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        self.put_parts(key, parts, when).map_err(|e| e.with_key(key).with_store(self))
    }

    fn delete(&self, key: &str) -> Result<()> {
        let remove = || {
            check_key(key)?;
            let mut state = self.lock();
            state.allows(key, &Condition::Always)?;
            state.entries.remove(key);
            Ok(())
        };
        remove().map_err(|e: Error| e.with_key(key).with_store(self))
    }
}

/// An entry of the archive as it was when opened.
struct ExistingEntry {
    held: StoredEntry,
    file: Arc<File>,
}

impl DirectObject for ExistingEntry {
    fn size(&self) -> u64 {
        self.held.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let span = ByteRange::span(offset, u64_of(buf.len()));
        match &self.held.content {
            EntryContent::InMemory(bytes) => buf.copy_from_slice(&slice(bytes, Some(span))?),
            EntryContent::Written { record, start } => {
                span.resolve(record.size)?;
                read_exact_at(&self.file, buf, start.saturating_add(offset))?;
            }
        }
        Ok(())
    }

    fn meta(&self) -> ObjectMeta {
        self.held.meta()
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        match &self.held.content {
            EntryContent::InMemory(bytes) => Some(bytes),
            EntryContent::Written { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::local::LocalStore;
    use crate::store::zip::ZipStore;
    use crate::store::{SharedStore, StoreExt as _};

    /// Beyond 4 GiB every offset needs the long form. A hole in the file takes the place of the first entries.
    #[tokio::test]
    async fn far_entries_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let store = ZipCreateStore::create(dir.path().join("x.zip")).unwrap();
        assert!(Direct::put(&store, "first", &[b"1"], &Condition::Always).unwrap().is_done());
        store.lock().end = 5 << 30;
        assert!(Direct::put(&store, "a/far", &[b"2", b"3"], &Condition::Always).unwrap().is_done());
        store.finish().await.unwrap();
        let folder: SharedStore = Arc::new(LocalStore::new(dir.path()));
        let zip = ZipStore::open(folder, "x.zip").await.unwrap().unwrap();
        assert_eq!(zip.get("a/far", None).await.unwrap().unwrap(), "23");
        assert_eq!(zip.get("first", None).await.unwrap().unwrap(), "1");
        let python = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                      assert z.read('a/far') == b'23'";
        let status =
            std::process::Command::new("python3").args(["-c", python]).arg(dir.path().join("x.zip")).status();
        assert!(status.unwrap().success());
    }

    #[tokio::test]
    async fn more_entries_than_sixteen_bits_count() {
        let dir = tempfile::tempdir().unwrap();
        let store = ZipCreateStore::create(dir.path().join("x.zip")).unwrap();
        for i in 0..70_000u32 {
            let put = Direct::put(&store, &format!("c/{i}"), &[&i.to_le_bytes()], &Condition::Absent);
            assert!(put.unwrap().is_done());
        }
        store.finish().await.unwrap();
        let folder: SharedStore = Arc::new(LocalStore::new(dir.path()));
        let zip = ZipStore::open(folder, "x.zip").await.unwrap().unwrap();
        assert_eq!(zip.list("c").await.unwrap().objects.len(), 70_000);
        assert_eq!(zip.get("c/69999", None).await.unwrap().unwrap(), 69_999u32.to_le_bytes().as_slice());
    }
}
