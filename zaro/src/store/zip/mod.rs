//! A ZIP archive, which itself is an object of another store, as a read-only store.
//!
//! Opening reads the end of the archive and, if it is longer than that, the central directory: two or three requests,
//! however large the archive is. Reading an entry is one request. A range of an uncompressed entry (usual for Zarr)
//! reads only that range. Whole entries are verified by their checksum.
//!
//! An existing archive is never changed; [`create`] makes new ones.

pub(crate) mod create;
mod directory;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use self::directory::{DirectoryLocation, Entries, MAX_DIRECTORY, TAIL, ZipEntry, u32_at};
use super::list::of_sorted;
use super::memory::slice;
use super::{
    ByteRange, Direct, DirectObject, Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream,
    SharedStore, Site, Store, StoreExt, StoreFacts, check_key, check_prefix, stream,
};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::num::{u64_of, usize_of};

/// The largest compressed entry that is decompressed: 1 GiB of content.
pub(crate) const MAX_INFLATED: u64 = 1 << 30;

/// A decompressed entry up to this size is kept until another is read, so that ranges of it do not decompress it each
/// time.
const MAX_KEPT: u64 = 64 << 20;

/// The maximum compression ratio of deflate.
const MAX_RATIO: u64 = 1032;

/// The expected maximum length of the extra fields of a local header, to read it with its data in one request.
const EXTRA: u64 = 64;

/// How many local headers are read concurrently.
const NAMES_AT_ONCE: usize = 1000;

/// The documents that make a folder a Zarr.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zmetadata", ".zattrs"];

fn the_only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

/// An entry of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// The size of its content.
    pub size: u64,
    /// The checksum of its content.
    pub crc: u32,
    /// Whether it is stored uncompressed.
    pub stored: bool,
}

/// A ZIP archive as a store: a key is the name of an entry.
pub struct ZipStore {
    inner: SharedStore,
    key: String,
    /// The state of the archive when its directory was read: everything else must be of the same state.
    state: ObjectMeta,
    entries: Entries,
    /// The archive comment.
    comment: Vec<u8>,
    zip64: bool,
    /// Entries whose names are not valid keys.
    strange: Entries,
    /// The archive file, if it is local.
    file: Option<Arc<dyn DirectObject>>,
    /// The last decompressed entry, by its index.
    kept: Mutex<Option<(u64, Bytes)>>,
}

impl ZipStore {
    /// Opens the archive behind `key` of `inner`; `None` if the key does not exist.
    #[boxed]
    pub async fn open(inner: SharedStore, key: &str) -> Result<Option<Self>> {
        let opened = Self::read(&inner, key).await;
        let opened = match opened {
            // It was replaced between the requests for its directory.
            Err(e) if e.kind() == ErrorKind::Conflict => Self::read(&inner, key).await,
            opened => opened,
        };
        let Some(OpenedArchive { entries: (entries, strange), location, file, state }) =
            opened.map_err(|e| e.with_key(key).with_store(&inner))?
        else {
            return Ok(None);
        };
        let DirectoryLocation { comment, zip64, .. } = location;
        let (key, kept) = (key.to_owned(), Mutex::default());
        let archive = Self { inner, key, state, entries, comment, zip64, strange, file, kept };
        // A damaged name that is not a valid key would make a chunk seem missing.
        archive.check_names(&archive.strange).await?;
        Ok(Some(archive))
    }

    /// The comment of the archive.
    #[must_use]
    pub fn comment(&self) -> &[u8] {
        &self.comment
    }

    /// Whether the archive is in ZIP64 format.
    #[must_use]
    pub fn is_zip64(&self) -> bool {
        self.zip64
    }

    /// Names of entries that are not valid keys, such as `../a`, and are left out. Folders are not included.
    pub fn strange_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.strange.iter().map(|(name, _)| &**name)
    }

    /// The entries, in the order of their data in the archive.
    #[must_use]
    pub fn entries(&self) -> Vec<ArchiveEntry<'_>> {
        let mut all: Vec<(u64, ArchiveEntry<'_>)> = self
            .entries
            .iter()
            .map(|(name, e)| {
                let stored = e.method == 0;
                (e.header, ArchiveEntry { name, size: e.size, crc: e.crc, stored })
            })
            .collect();
        all.sort_by_key(|(header, _)| *header);
        all.into_iter().map(|(_, entry)| entry).collect()
    }

    async fn read(inner: &SharedStore, key: &str) -> Result<Option<OpenedArchive>> {
        let file = match inner.direct() {
            Some(direct) => match direct.open(key)? {
                Some(file) => Some(Arc::<dyn DirectObject>::from(file)),
                None => return Ok(None),
            },
            None => None,
        };
        let Object { bytes: tail, meta } = match &file {
            Some(file) => {
                let (offset, length) = ByteRange::Suffix(TAIL).resolve(file.size())?;
                Object { bytes: part_of(file, offset, length)?, meta: file.meta() }
            }
            None => match inner.get_opts(key, GetOptions::range(Some(ByteRange::Suffix(TAIL)))).await? {
                Some(tail) => tail,
                None => return Ok(None),
            },
        };
        let size = match meta.size() {
            Some(size) => size,
            None => match inner.size(key).await? {
                Some(size) => size,
                None => return Ok(None),
            },
        };
        let location = directory::locate(&tail, size)?;
        if location.length > MAX_DIRECTORY {
            return Err(Error::unsupported(format!(
                "the archive's directory has {} bytes; the limit is {MAX_DIRECTORY}",
                location.length
            )));
        }
        let held = size.saturating_sub(u64_of(tail.len()));
        let bytes = if location.start >= held {
            slice(&tail, Some(ByteRange::span(location.start.saturating_sub(held), location.length)))?
        } else {
            let range = Some(ByteRange::span(location.start, location.length));
            match &file {
                Some(file) => part_of(file, location.start, location.length)?,
                None => match inner.get_opts(key, GetOptions::range(range).of_state(&meta)).await? {
                    Some(object) => object.bytes,
                    None => return Ok(None),
                },
            }
        };
        Ok(Some(OpenedArchive { entries: directory::read(&bytes, &location)?, location, file, state: meta }))
    }

    /// The single top-level folder of the archive, if any: the only one, or else the only one that is a Zarr.
    ///
    /// Other additions are ignored: `__MACOSX`, hidden folders, files that are not Zarr metadata.
    #[must_use]
    pub fn common_folder(&self) -> Option<&str> {
        let mut folders: BTreeMap<&str, bool> = BTreeMap::new();
        for (name, _) in &self.entries {
            match name.split_once('/') {
                None if DOCUMENTS.contains(&&**name) => return None,
                None => {}
                Some((folder, _)) if folder == "__MACOSX" || folder.starts_with('.') => {}
                Some((folder, rest)) => *folders.entry(folder).or_default() |= DOCUMENTS.contains(&rest),
            }
        }
        let (all, zarrs) = (folders.keys().copied(), folders.iter().filter(|(_, is)| **is).map(|(n, _)| *n));
        the_only(all).or_else(|| the_only(zarrs))
    }

    fn find(&self, key: &str) -> Result<Option<(u64, &ZipEntry)>> {
        check_key(key)?;
        let found = self.entries.binary_search_by(|(name, _)| name.as_ref().cmp(key)).ok();
        let Some((place, (_, entry))) = found.and_then(|i| Some((i, self.entries.get(i)?))) else {
            return Ok(None);
        };
        if entry.encrypted {
            return Err(Error::unsupported("the entry is encrypted"));
        }
        let fits = match entry.method {
            0 => entry.packed == entry.size,
            8 => entry.size <= entry.packed.saturating_mul(MAX_RATIO).saturating_add(MAX_RATIO),
            other => return Err(Error::unsupported(format!("the entry uses ZIP method {other}"))),
        };
        if !fits {
            return Err(Error::invalid(format!(
                "the archive claims that {} bytes decompress to {} bytes, which is impossible",
                entry.packed, entry.size
            )));
        }
        if entry.method == 8 && entry.size > MAX_INFLATED {
            return Err(Error::unsupported(format!(
                "the entry decompresses to {} bytes; the limit is {MAX_INFLATED}",
                entry.size
            )));
        }
        Ok(Some((u64_of(place), entry)))
    }

    /// A text that identifies the state of the archive; empty where unknown.
    async fn archive_state(&self) -> Result<String> {
        match self.inner.state(&self.key).await {
            Ok(state) => Ok(state.unwrap_or_default()),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(String::new()),
            Err(e) => Err(e),
        }
    }

    /// Byte ranges of the archive.
    async fn archive(&self, ranges: &[(u64, u64)]) -> Result<Vec<Bytes>> {
        let spans: Vec<_> = ranges.iter().map(|&(offset, length)| ByteRange::span(offset, length)).collect();
        let parts = match spans.as_slice() {
            [one] => {
                let options = GetOptions::range(Some(*one)).of_state(&self.state);
                self.inner.get_opts(&self.key, options).await?.map(|object| vec![object.bytes])
            }
            all => self.inner.get_ranges(&self.key, all, Some(&self.state)).await?.map(|(parts, _)| parts),
        };
        parts.ok_or_else(|| Error::io("the archive no longer exists"))
    }

    /// Offset of the data of an entry, from its local header, which must have the same name.
    fn data_start(entry: &ZipEntry, local: &[u8]) -> Result<u64> {
        let lengths = u32_at(local, 26).filter(|_| local.starts_with(b"PK\x03\x04"));
        let (length, mark) = entry.name;
        let name =
            usize_of(entry.local()).ok().and_then(|end| local.get(end.checked_sub(length.into())?..end));
        if lengths.is_some_and(|n| n & 0xFFFF != u32::from(length) || name.map(crc32fast::hash) != Some(mark))
        {
            return Err(Error::invalid(
                "the entry's names in the archive's directory and its local header differ",
            ));
        }
        let start =
            lengths.and_then(|n| entry.header.checked_add(entry.local())?.checked_add(u64::from(n >> 16)));
        match start.filter(|s| s.checked_add(entry.packed).is_some_and(|end| end <= entry.end)) {
            Some(start) => Ok(*entry.data.get_or_init(|| start)),
            None => Err(Error::invalid("the entry's local header is damaged")),
        }
    }

    /// Fails if one of these entries, unless already read, has another name in its local header.
    async fn check_names(&self, entries: &[(Box<str>, ZipEntry)]) -> Result<()> {
        let unread: Vec<_> = entries.iter().filter(|(_, e)| e.data.get().is_none()).collect();
        for some in unread.chunks(NAMES_AT_ONCE) {
            let headers: Vec<_> = some.iter().map(|(_, e)| (e.header, e.local())).collect();
            let found = match &self.file {
                Some(file) => headers.iter().map(|&(at, length)| part_of(file, at, length)).collect(),
                None => self.archive(&headers).await,
            };
            for ((name, entry), local) in some.iter().zip(found.map_err(|e| e.with_store(self))?) {
                Self::data_start(entry, &local).map_err(|e| e.with_key(&**name).with_store(self))?;
            }
        }
        Ok(())
    }

    /// All stored bytes of an entry, in one request if its header has the usual length.
    async fn packed(&self, entry: &ZipEntry) -> Result<Bytes> {
        if let Some(&start) = entry.data.get() {
            return Ok(self.archive(&[(start, entry.packed)]).await?.pop().unwrap_or_default());
        }
        let room = entry.end.saturating_sub(entry.header);
        let guess = entry.local().saturating_add(EXTRA);
        let length = guess.saturating_add(entry.packed).min(room);
        let bytes = self.archive(&[(entry.header, length)]).await?.pop().unwrap_or_default();
        let start = Self::data_start(entry, &bytes)?;
        let skip = start.saturating_sub(entry.header);
        if skip.saturating_add(entry.packed) <= length {
            slice(&bytes, Some(ByteRange::span(skip, entry.packed)))
        } else {
            Ok(self.archive(&[(start, entry.packed)]).await?.pop().unwrap_or_default())
        }
    }

    /// A range of an uncompressed entry. The offset of its data is guessed from its end, and verified in the same round
    /// trip.
    async fn part(&self, entry: &ZipEntry, offset: u64, length: u64) -> Result<Bytes> {
        let at = |start: u64| (start.saturating_add(offset), length);
        if let Some(&start) = entry.data.get() {
            return Ok(self.archive(&[at(start)]).await?.pop().unwrap_or_default());
        }
        let guess = entry.end.checked_sub(entry.packed).filter(|_| !entry.trailer);
        let mut wanted = vec![(entry.header, entry.local())];
        wanted.extend(guess.map(at));
        let mut parts = self.archive(&wanted).await?.into_iter();
        let start = Self::data_start(entry, &parts.next().unwrap_or_default())?;
        match parts.next().filter(|_| guess == Some(start)) {
            Some(bytes) => Ok(bytes),
            None => Ok(self.archive(&[at(start)]).await?.pop().unwrap_or_default()),
        }
    }

    fn kept(&self, place: u64) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(p, _)| *p == place).map(|(_, bytes)| bytes.clone())
    }

    /// The verified content of an entry from its stored bytes.
    fn unpack(&self, place: u64, entry: &ZipEntry, packed: Bytes) -> Result<Bytes> {
        let content = match entry.method {
            0 => packed,
            _ => {
                let mut out = vec![0; usize_of(entry.size)?];
                let n = libdeflater::Decompressor::new()
                    .deflate_decompress(&packed, &mut out)
                    .map_err(|e| Error::invalid("the entry cannot be decompressed").with_source(e))?;
                if n != out.len() {
                    return Err(Error::invalid(format!(
                        "the entry decompresses to {n}, not {} bytes",
                        entry.size
                    )));
                }
                let content = Bytes::from(out);
                if entry.size <= MAX_KEPT {
                    let kept = Some((place, content.clone()));
                    *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
                }
                content
            }
        };
        check(entry, &content)?;
        Ok(content)
    }

    async fn fetch(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        let Some((place, entry)) = self.find(key)? else { return Ok(None) };
        if let Some(range) = range {
            let (offset, length) = range.resolve(entry.size)?;
            if length == 0 {
                return Ok(Some(Bytes::new()));
            }
            if entry.method == 0 && length < entry.size {
                return self.part(entry, offset, length).await.map(Some);
            }
        }
        let content = match self.kept(place) {
            Some(content) => content,
            None => self.unpack(place, entry, self.packed(entry).await?)?,
        };
        slice(&content, range).map(Some)
    }

    /// Offset of the data of an entry.
    async fn start_of(&self, entry: &ZipEntry) -> Result<u64> {
        if let Some(&start) = entry.data.get() {
            return Ok(start);
        }
        let local = match &self.file {
            Some(file) => part_of(file, entry.header, entry.local())?,
            None => self.archive(&[(entry.header, entry.local())]).await?.pop().unwrap_or_default(),
        };
        Self::data_start(entry, &local)
    }

    /// An uncompressed entry is a range of the archive; a compressed one is decompressed as a whole.
    async fn stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        options.refuse_pin()?;
        let Some((_, entry)) = self.find(key)? else { return Ok(None) };
        if entry.method != 0 {
            let object = self.get_opts(key, options).await?;
            return Ok(object.map(|object| ObjectStream::of(object, options.range)));
        }
        let (offset, length) = options.range.map_or(Ok((0, entry.size)), |r| r.resolve(entry.size))?;
        options.check_announced(length)?;
        let from = self.start_of(entry).await?.saturating_add(offset);
        let mut body = match &self.file {
            _ if length == 0 => stream::one(Bytes::new()),
            Some(file) => stream::read(Arc::clone(file), from, length),
            None => {
                let ask = GetOptions::range(Some(ByteRange::span(from, length))).of_state(&self.state);
                let got = self.inner.get_stream(&self.key, ask).await?;
                got.ok_or_else(|| Error::io("the archive no longer exists"))?.body
            }
        };
        if length == entry.size {
            let wanted = entry.crc;
            let update: fn(&mut crc32fast::Hasher, &[u8]) = crc32fast::Hasher::update;
            body = stream::checked(body, crc32fast::Hasher::new(), update, move |crc| {
                check_crc(wanted, crc.finalize())
            });
        }
        let range = Some(offset..offset.saturating_add(length));
        Ok(Some(ObjectStream { meta: ObjectMeta::Unknown, range, body }))
    }

    fn open_direct(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        let (Some(file), Some((place, entry))) = (&self.file, self.find(key)?) else { return Ok(None) };
        let start = match entry.data.get() {
            Some(&start) => start,
            None => {
                let mut local = vec![0; usize_of(entry.local())?];
                file.read_at(entry.header, &mut local)?;
                Self::data_start(entry, &local)?
            }
        };
        if entry.method == 0 {
            let window = StoredWindow { file: Arc::clone(file), start, size: entry.size, crc: entry.crc };
            return Ok(Some(Box::new(window)));
        }
        let content = match self.kept(place) {
            Some(content) => content,
            None => {
                let mut packed = vec![0; usize_of(entry.packed)?];
                file.read_at(start, &mut packed)?;
                self.unpack(place, entry, packed.into())?
            }
        };
        Ok(Some(Box::new(UnpackedEntry(content))))
    }
}

/// Bytes of a local archive.
fn part_of(file: &Arc<dyn DirectObject>, offset: u64, length: u64) -> Result<Bytes> {
    let mut buf = vec![0; usize_of(length)?];
    file.read_at(offset, &mut buf)?;
    Ok(buf.into())
}

/// The result of opening an archive.
struct OpenedArchive {
    /// The entries, and those whose names are not valid keys.
    entries: (Entries, Entries),
    location: DirectoryLocation,
    file: Option<Arc<dyn DirectObject>>,
    state: ObjectMeta,
}

/// Metadata of an entry, in an archive of this state.
fn entry_meta(archive: &str, entry: &ZipEntry) -> ObjectMeta {
    let etag = format!("{:08x} {} {} {archive}", entry.crc, entry.size, entry.header);
    ObjectMeta::of_text(Some(etag), Some(entry.size))
}

/// Verifies content by the checksum of its entry.
fn check(entry: &ZipEntry, content: &[u8]) -> Result<()> {
    check_crc(entry.crc, crc32fast::hash(content))
}

fn check_crc(wanted: u32, found: u32) -> Result<()> {
    if found == wanted { Ok(()) } else { Err(Error::invalid("the entry's checksum does not match")) }
}

impl fmt::Display for ZipStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.inner, self.key)
    }
}

impl fmt::Debug for ZipStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZipStore({self}, {} entries)", self.entries.len())
    }
}

#[async_trait]
impl Store for ZipStore {
    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        let prefix = prefix.to_owned();
        self.inner.sites(&self.key).map(move |site| site.map(|s| s.entry(&prefix))).boxed()
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let get = async {
            options.refuse_pin()?;
            let object = self.fetch(key, options.range).await?.map(Object::from);
            object.as_ref().map_or(Ok(()), |object| options.check(object))?;
            Ok(object)
        };
        get.await.map_err(|e: Error| e.with_key(key).with_store(self))
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let opened = self.stream(key, options).await.map_err(|e| e.with_key(key).with_store(self))?;
        Ok(opened.map(|opened| opened.at(key, self)))
    }

    /// All in the state in which the archive's directory was read.
    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        _: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        let place = |e: Error| e.with_key(key).with_store(self);
        let Some((_, entry)) = self.find(key).map_err(place)? else { return Ok(None) };
        // With its offset known, ranges of an uncompressed entry are ranges of the archive, which may coalesce them.
        if let (0, Some(&start)) = (entry.method, entry.data.get()) {
            let spans = ranges.iter().map(|r| {
                let (offset, length) = r.resolve(entry.size)?;
                Ok((start.saturating_add(offset), length))
            });
            let spans = spans.collect::<Result<Vec<_>>>().map_err(place)?;
            return if spans.is_empty() {
                Ok(Some((Vec::new(), ObjectMeta::Unknown)))
            } else {
                let parts = self.archive(&spans).await.map_err(place)?;
                Ok(Some((parts, ObjectMeta::Unknown)))
            };
        }
        let mut out = Vec::with_capacity(ranges.len());
        // The first range finds the offset of the entry, or decompresses it; then all is known.
        if let Some((first, rest)) = ranges.split_first() {
            let Some(part) = self.get(key, Some(*first)).await? else { return Ok(None) };
            out.push(part);
            let known = entry.data.get().is_some() && entry.method == 0;
            let rest = if known && !rest.is_empty() {
                self.get_ranges(key, rest, None).await?.map(|(parts, _)| parts)
            } else {
                futures::future::try_join_all(rest.iter().map(|r| self.get(key, Some(*r))))
                    .await?
                    .into_iter()
                    .collect()
            };
            match rest {
                Some(rest) => out.extend(rest),
                None => return Ok(None),
            }
        }
        Ok(Some((out, ObjectMeta::Unknown)))
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let found = self.find(key).map_err(|e| e.with_key(key).with_store(self))?;
        match found {
            Some((_, entry)) => Ok(Some(entry_meta(&self.archive_state().await?, entry))),
            None => Ok(None),
        }
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let (prefix, options) = (prefix.to_owned(), options.clone());
        let listed = async move {
            check_prefix(&prefix).map_err(|e| e.with_store(self))?;
            let archive = if options.facts { self.archive_state().await? } else { String::new() };
            Ok::<_, Error>(of_sorted(&prefix, &options.clone(), move |from, see| {
                let before = |name: &str| match from {
                    Bound::Included(from) => name < from,
                    Bound::Excluded(from) => name <= from,
                    Bound::Unbounded => false,
                };
                let first = self.entries.partition_point(|(name, _)| before(name));
                for (name, entry) in self.entries.get(first..).unwrap_or_default() {
                    if options.facts {
                        self.find(name).map_err(|e| e.with_key(&**name).with_store(self))?;
                    }
                    if !see(name, &|| entry_meta(&archive, entry)) {
                        break;
                    }
                }
                Ok(())
            }))
        };
        futures::stream::once(listed).try_flatten().boxed()
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { is_writable: false, ..self.inner.facts() }
    }

    /// Entries that were never read may be those that were missed, under damaged names.
    async fn finish(&self) -> Result<()> {
        self.check_names(&self.entries).await
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.file {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl Direct for ZipStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        self.open_direct(key).map_err(|e| e.with_key(key).with_store(self))
    }
}

/// An uncompressed entry of a local archive.
struct StoredWindow {
    file: Arc<dyn DirectObject>,
    start: u64,
    size: u64,
    crc: u32,
}

impl DirectObject for StoredWindow {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let length = u64_of(buf.len());
        ByteRange::span(offset, length).resolve(self.size)?;
        self.file.read_at(self.start.saturating_add(offset), buf)?;
        if length == self.size { check_crc(self.crc, crc32fast::hash(buf)) } else { Ok(()) }
    }

    fn meta(&self) -> ObjectMeta {
        self.file.meta()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.file.check_unchanged()
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        let start = usize::try_from(self.start).ok()?;
        let end = start.checked_add(usize::try_from(self.size).ok()?)?;
        self.file.as_bytes()?.get(start..end)
    }
}

/// A decompressed entry.
struct UnpackedEntry(Bytes);

impl DirectObject for UnpackedEntry {
    fn size(&self) -> u64 {
        u64_of(self.0.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let part = slice(&self.0, Some(ByteRange::span(offset, u64_of(buf.len()))))?;
        buf.copy_from_slice(&part);
        Ok(())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}
