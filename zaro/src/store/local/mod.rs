//! A local folder as a store.

mod folders;
mod rings;
pub(crate) mod sys;
mod temporary;
mod write;

use std::fmt;
use std::fs::File;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

pub(crate) use self::folders::replace_folder;
use self::rings::Rings;
pub(crate) use self::temporary::temporary_folder;
pub use self::temporary::{Temporary, keep_mode, remove_temporaries};
pub(crate) use self::temporary::{is_temporary, read_dir};
use self::write::identity;
use super::list::{FolderNames, failed, walk};
use super::{
    Condition, Direct, DirectObject, Entry, GetOptions, KeptOpen, KeyEntry, ListOptions, LocalMeta, Object,
    ObjectMeta, ObjectStream, Put, Site, Store, StoreFacts, changed, check_key, check_prefix, stream,
};
use crate::error::{Error, Result};
use crate::num;

/// How many names of one folder a listing keeps in memory (twice as many for a moment); a larger folder is read again
/// for the rest.
const NAMES: usize = 1 << 18;

/// A folder as a store: a key is a path below it.
///
/// A put writes a temporary file and renames it, creating parent folders; a symlink is replaced, not followed.
/// Conditions hold among all processes of this machine. Deleting removes folders that become empty.
#[derive(Debug, Clone)]
pub struct LocalStore {
    root: PathBuf,
    durable: bool,
}

impl LocalStore {
    /// The folder `root`, or the current folder if it is empty. It need not exist: then every key is missing.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = Some(root.into()).filter(|r| !r.as_os_str().is_empty());
        Self { root: root.unwrap_or_else(|| PathBuf::from(".")), durable: false }
    }

    /// The root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a key or prefix. On systems with drive letters, a key could name a place outside the root.
    fn path(&self, key: &str) -> Result<PathBuf> {
        let path = self.root.join(key);
        match cfg!(unix) || path.starts_with(&self.root) {
            true => Ok(path),
            false => {
                Err(Error::invalid("the key leads outside the store's folder").with_key(key).with_store(self))
            }
        }
    }

    /// A folder in place of a chunk: the chunk is not simply missing.
    fn folder_at(&self, key: &str) -> Error {
        Error::invalid("found a folder where an object is expected").with_key(key).with_store(self)
    }

    fn fault(&self, key: &str, e: std::io::Error) -> Error {
        Error::from(e).with_key(key).with_store(self)
    }

    fn file(&self, key: &str) -> Result<Option<OpenFile>> {
        check_key(key).map_err(|e| e.with_store(self))?;
        if key.split('/').any(is_temporary) {
            return Ok(None);
        }
        let path = self.path(key)?;
        let file = match sys::open(&path) {
            Ok(f) => f,
            Err(e) if is_missing(&e) => return self.absent(key, &path),
            Err(e) if e.kind() == IoKind::IsADirectory => return Err(self.folder_at(key)),
            Err(e) => return Err(self.fault(key, e)),
        };
        let meta = file.metadata().map_err(|e| self.fault(key, e))?;
        if meta.is_dir() {
            return Err(self.folder_at(key));
        }
        if !meta.is_file() {
            return Err(Error::io("neither a file nor a folder").with_key(key).with_store(self));
        }
        Ok(Some(OpenFile { file, meta: identity(&meta) }))
    }

    /// The entry of a file in a listing; `None` if it no longer exists.
    fn look(&self, key: String) -> Result<Option<Entry>> {
        let path = self.path(&key)?;
        match std::fs::metadata(&path) {
            Ok(meta) if meta.is_file() => {
                Ok(Some(Entry::Object(KeyEntry::new(key, ObjectMeta::Local(identity(&meta))))))
            }
            Ok(meta) if meta.is_dir() => Ok(None),
            Ok(_) => Err(Error::io("neither a file nor a folder").with_key(key).with_store(self)),
            Err(e) if is_missing(&e) => self.absent(&key, &path).map(|_| None),
            Err(e) => Err(self.fault(&key, e)),
        }
    }

    /// The names in a folder, or those after a name: of a very large folder not all are kept in memory.
    fn level(&self, prefix: &str, after: Option<&str>) -> Result<FolderNames> {
        let mut out = FolderNames::default();
        let entries = match read_dir(self.path(prefix)?) {
            Ok(entries) => entries,
            Err(e) if is_missing(&e) => return Ok(out),
            Err(e) => return Err(self.fault(prefix, e)),
        };
        let mut rings = Rings::new(&self.root, prefix);
        for entry in entries {
            let entry = entry.map_err(|e| self.fault(prefix, e))?;
            // A name that is not Unicode cannot be a key.
            let Ok(name) = entry.file_name().into_string() else { continue };
            if is_temporary(&name) {
                continue;
            }
            let mut kind = entry.file_type().map_err(|e| self.fault(prefix, e))?;
            let linked = kind.is_symlink();
            let mut lost = false;
            if linked {
                // A broken or circular symlink stands for an object or a folder: whoever reads it gets an error.
                match std::fs::metadata(entry.path()) {
                    Ok(m) => kind = m.file_type(),
                    Err(_) => lost = true,
                }
            }
            if kind.is_dir() && rings.closes(&entry.path(), linked) {
                continue;
            }
            let folder = (kind.is_dir() || lost).then(|| format!("{name}/"));
            let names = [Some(name).filter(|_| !kind.is_dir()), folder].into_iter().flatten();
            out.names.extend(names.filter(|name| after.is_none_or(|after| name.as_str() > after)));
            if out.names.len() >= 2 * NAMES {
                out.shorten(NAMES);
            }
        }
        out.shorten(NAMES);
        Ok(out)
    }

    /// `None`, unless there is a broken symlink in its place or on the way: its target exists, but was not fetched.
    fn absent(&self, key: &str, path: &Path) -> Result<Option<OpenFile>> {
        for at in path.ancestors().take_while(|at| at.starts_with(&self.root)) {
            match std::fs::symlink_metadata(at) {
                Ok(m) if m.is_symlink() && !at.exists() => {
                    return Err(Error::io("broken symbolic link: it leads nowhere")
                        .with_key(key)
                        .with_store(self));
                }
                Ok(_) => break,
                Err(_) => {}
            }
        }
        Ok(None)
    }
}

/// Free disk space at `path`, which need not exist. `None` where the file system does not report it.
#[must_use]
pub fn free_space(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|p| p.exists())?;
    sys::free_space(there)
}

/// Fails if `bytes` exceeds the `free` space. Small amounts are not checked.
pub fn check_space(free: Option<u64>, bytes: u64) -> Result<()> {
    match free {
        Some(free) if bytes > LARGE && bytes > free => Err(Error::io(format!(
            "not enough space: {bytes} bytes are needed, {free} are free; nothing was written"
        ))),
        _ => Ok(()),
    }
}

/// Sizes from which free space is checked: 1 MiB.
const LARGE: u64 = 1 << 20;

/// No such file, a file where a folder should be, or a name the file system rejects: the key does not exist.
fn is_missing(e: &std::io::Error) -> bool {
    matches!(e.kind(), IoKind::NotFound | IoKind::NotADirectory | IoKind::InvalidFilename)
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root.display())
    }
}

#[async_trait]
impl Store for LocalStore {
    /// Files have no versions. The `ETag` of a pin is checked if it is an MD5 and the whole file is read.
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let Some(file) = self.file(key)? else { return Ok(None) };
        file.get(options).map(Some).map_err(|e| e.with_key(key).with_store(self))
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let Some(file) = self.file(key)? else { return Ok(None) };
        let opened = file.stream(options).map_err(|e| e.with_key(key).with_store(self))?;
        Ok(Some(opened.at(key, self)))
    }

    /// Asks for the file by its name, without opening it: one system call instead of three.
    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        check_key(key).map_err(|e| e.with_store(self))?;
        if key.split('/').any(is_temporary) {
            return Ok(None);
        }
        let path = self.path(key)?;
        match std::fs::metadata(&path) {
            Ok(meta) if meta.is_file() => Ok(Some(ObjectMeta::Local(identity(&meta)))),
            Ok(meta) if meta.is_dir() => Err(self.folder_at(key)),
            Ok(_) => Err(Error::io("neither a file nor a folder").with_key(key).with_store(self)),
            Err(e) if is_missing(&e) => self.absent(key, &path).map(|_| None),
            Err(e) => Err(self.fault(key, e)),
        }
    }

    /// Walks the folders, and reads the metadata of each file if requested.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        if let Err(e) = check_prefix(prefix) {
            return failed(e.with_store(self));
        }
        let entries = walk(prefix, options, move |folder, after| {
            std::future::ready(self.level(&folder, after.as_deref()))
        });
        if !options.facts {
            return entries;
        }
        let looked = entries.try_filter_map(move |entry| {
            std::future::ready(match entry {
                Entry::Object(object) => self.look(object.key),
                folder => Ok(Some(folder)),
            })
        });
        looked.boxed()
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: true, is_remote: false }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.write(key, &[&value], &when)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.remove(key)
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        self.remove_unchanged(key, state)
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.remove_below(prefix)
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        self.exchange(prefix, inner)
    }

    fn free_space(&self) -> Option<u64> {
        free_space(&self.root)
    }

    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        let folder = self.root.join(prefix);
        let first = check_prefix(prefix).map_err(|e| e.with_store(self)).and_then(|()| Site::file(&folder));
        // Symlinks are searched only if the caller asks for more than the first.
        let links = futures::stream::once(async move {
            let found = super::site::linked_from(&folder);
            futures::stream::iter(match found {
                Ok(sites) => sites.into_iter().skip(1).map(Ok).collect::<Vec<_>>(),
                Err(e) => vec![Err(e)],
            })
        });
        futures::stream::iter([first]).chain(links.flatten()).boxed()
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}

impl Direct for LocalStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.file(key)? {
            Some(file) => Ok(Some(Box::new(file))),
            None => Ok(None),
        }
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        self.write(key, parts, when)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.remove(key)
    }
}

/// An open file.
struct OpenFile {
    file: File,
    meta: LocalMeta,
}

impl OpenFile {
    /// The requested bytes as `(offset, length)`, and the metadata of the file.
    fn locate(&self, options: GetOptions<'_>) -> Result<((u64, u64), ObjectMeta)> {
        self.meta().check(options.state)?;
        if let Some(pin) = options.pinned() {
            if pin.version.is_some() {
                return Err(Error::unsupported("files have no versions"));
            }
            pin.check_size(self.meta.size)?;
            pin.check_time(self.meta.modified.map_or(0, |(seconds, _)| seconds))?;
        }
        let span = options.range.map_or(Ok((0, self.meta.size)), |r| r.resolve(self.meta.size))?;
        options.check_announced(span.1)?;
        let meta = if options.for_update { self.meta_for_update()? } else { self.meta() };
        Ok((span, meta))
    }

    fn get(&self, options: GetOptions<'_>) -> Result<Object> {
        let ((offset, length), meta) = self.locate(options.held())?;
        let mut bytes = vec![0; num::usize_of(length)?];
        self.read_at(offset, &mut bytes)?;
        self.check_unchanged()?;
        if let Some(pin) = options.pinned().filter(|_| length == self.meta.size) {
            pin.check_whole(&bytes)?;
        }
        Ok(Object { bytes: bytes.into(), meta })
    }

    fn stream(self, options: GetOptions<'_>) -> Result<ObjectStream> {
        let ((offset, length), meta) = self.locate(options)?;
        let whole = length == self.meta.size;
        let mut body = stream::read(Arc::new(self), offset, length);
        if let Some(pin) = options.pinned().filter(|_| whole) {
            body = pin.check_stream(body);
        }
        Ok(ObjectStream { meta, range: Some(offset..offset.saturating_add(length)), body })
    }
}

impl DirectObject for OpenFile {
    fn size(&self) -> u64 {
        self.meta.size
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        sys::read_exact_at(&self.file, buf, offset).map_err(|e| match e.kind() {
            IoKind::UnexpectedEof => Error::invalid(format!(
                "the file ends before byte {}",
                offset.saturating_add(num::u64_of(buf.len()))
            )),
            _ => e.into(),
        })
    }

    fn meta(&self) -> ObjectMeta {
        ObjectMeta::Local(self.meta.clone())
    }

    fn meta_for_update(&self) -> Result<ObjectMeta> {
        let open = KeptOpen::from(self.file.try_clone()?);
        Ok(ObjectMeta::Local(LocalMeta { open, ..self.meta.clone() }))
    }

    fn check_unchanged(&self) -> Result<()> {
        if identity(&self.file.metadata()?) == self.meta { Ok(()) } else { Err(changed()) }
    }
}
