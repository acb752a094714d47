//! Hashes the files of a local folder on all cores: size, digest and timestamp of each.
//!
//! The same threads read folders and hash files: a folder becomes tasks, one per subfolder and its files in batches,
//! which idle threads steal. So a large folder is shared as well as many small ones, and hashing begins with the first
//! file that is found.

use std::cell::RefCell;
use std::fs::{File, FileType};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::build::Builder;
use super::cache::{HashCache, Stamp};
use super::digest::{ETag, Hasher, Hashing, hash_reader};
use super::lanes;
use super::model::{EntryRef, Fields, Manifest};
use crate::context::Context;
use crate::error::{Error, Result, invalid};
use crate::num;
use crate::store::local::{is_temporary, sys};
use crate::store::{DELETING, JOURNAL, REPLACEMENT, WRITING};
use crate::task::{Meter, Task, Unit};
use crate::time::Time;

/// Names of files and folders that the archive's own client excludes from the checksum.
pub(crate) const EXCLUDED: [&str; 5] = [".dandi", ".datalad", ".git", ".gitattributes", ".gitmodules"];

/// Files hashed per task.
const BATCH: usize = 16;

/// Buffer size for large files: fits into a core's own cache.
const BUFFER: usize = 1 << 18;

/// Files up to this size are read whole and hashed several at once.
const SMALL: usize = 1 << 18;

/// How digests of files are computed.
#[derive(Debug, Clone, Copy, Default)]
pub enum Digesting<'m> {
    /// None: sizes only.
    None,
    /// MD5.
    #[default]
    Whole,
    /// Multipart ETags.
    Parts,
    /// As in the entry of a manifest; MD5 if it has none.
    As(&'m Manifest),
}

/// Which files belong to the Zarr, and how they are hashed.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct LocalOptions<'m> {
    /// Include files and folders with the names in `EXCLUDED`, and temporary files of interrupted writes.
    pub all_files: bool,
    /// How digests are computed.
    pub digesting: Digesting<'m>,
    /// Cache file for digests of unchanged files; it is created and updated.
    pub cache: Option<PathBuf>,
    /// Files in this manifest are included whatever their names.
    pub named: Option<&'m Manifest>,
    /// The context whose threads are used.
    pub context: Context,
    /// Progress, in bytes of files, and cancellation.
    pub task: Task,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    /// Its path below the folder.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its digest, if requested.
    pub digest: Option<ETag>,
    /// Its modification time, in whole seconds.
    pub modified: Time,
}

/// All files below `root`, sorted by key. Links to folders are skipped; links to files count as the files.
///
/// # Errors
/// `Io` if a file is modified while it is read, or files are added or removed in a folder meanwhile.
pub fn files(root: &Path, options: &LocalOptions<'_>) -> Result<Vec<LocalFile>> {
    let place = |e: std::io::Error| Error::from(e).with_store(root.display());
    if !std::fs::metadata(root).map_err(place)?.is_dir() {
        return Err(Error::usage("not a folder").with_store(root.display()));
    }
    let cache = match &options.cache {
        Some(path) => Some(HashCache::load(path, root)?),
        None => None,
    };
    let job = HashJob {
        root,
        options,
        cache: cache.as_ref(),
        found: Mutex::default(),
        stamps: Mutex::default(),
        folders: Mutex::default(),
        failed: AtomicBool::new(false),
        fault: Mutex::default(),
        meter: options.task.meter(Unit::Bytes, None::<u64>),
    };
    options.context.install(|| rayon::scope(|scope| job.folder(scope, String::new())));
    job.compare_folders();
    if let Some(e) = job.fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(e);
    }
    let mut found = job.found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let stamps = job.stamps.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(cache) = cache {
        cache.save(stamps)?;
    }
    found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// A folder as a manifest: sizes, digests and times, but no versions.
pub fn manifest(root: &Path, options: &LocalOptions<'_>) -> Result<Manifest> {
    let mut builder = Builder::new(Fields::LOCAL);
    let mut etag = String::new();
    for file in files(root, options)? {
        use std::fmt::Write as _;
        etag.clear();
        if let Some(digest) = file.digest {
            // Writing to a string does not fail.
            let _ = write!(etag, "{digest}");
        }
        let entry = EntryRef {
            version: None,
            modified: Some(file.modified),
            size: file.size,
            etag: file.digest.is_some().then_some(etag.as_str()),
        };
        builder.push(&file.key, &entry)?;
    }
    builder.finish()
}

/// Whether a file or folder of this name is excluded by default.
fn is_left_out(name: &str) -> bool {
    EXCLUDED.contains(&name) || is_temporary(name)
}

/// Names that mark unfinished operations of zaro.
const UNFINISHED: [&str; 4] = [JOURNAL, DELETING, REPLACEMENT, WRITING];

fn unfinished(key: &str, root: &Path) -> Error {
    Error::conflict(
        "an unfinished operation of zaro is here, so this Zarr is incomplete; finish or wait for it first",
    )
    .with_key(key)
    .with_store(root.display())
}

/// The result of hashing a file.
enum FileOutcome {
    /// It is done: size, digest, time.
    Done(u64, Option<ETag>, Time),
    /// Its bytes are in the scratch memory, to be hashed with others.
    Held(Range<usize>, Time, Stamp),
}

/// Scratch memory of a thread.
struct HashScratch {
    /// The files of a batch, one after another, and their total size.
    small: Vec<u8>,
    used: usize,
    /// Buffer for a large file.
    large: Vec<u8>,
}

impl HashScratch {
    const fn new() -> Self {
        Self { small: Vec::new(), used: 0, large: Vec::new() }
    }

    /// Reads a file of `length` bytes; `None` if it turns out shorter.
    fn read(&mut self, mut file: &File, length: usize) -> Result<Option<Range<usize>>> {
        // One byte more shows whether the file is longer.
        let (start, end) = (self.used, self.used + length);
        if self.small.len() <= end {
            self.small.resize(end + 1, 0);
        }
        let place = self.small.get_mut(start..=end).unwrap_or_default();
        let mut at = 0;
        loop {
            match file.read(place.get_mut(at..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(n) => at += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.used = end;
        Ok((at == length).then_some(start..end))
    }
}

struct HashJob<'a> {
    root: &'a Path,
    options: &'a LocalOptions<'a>,
    cache: Option<&'a HashCache>,
    found: Mutex<Vec<LocalFile>>,
    stamps: Mutex<Vec<(String, Stamp, ETag)>>,
    /// The stamp of each folder before it was read.
    folders: Mutex<Vec<(String, Stamp)>>,
    failed: AtomicBool,
    fault: Mutex<Option<Error>>,
    meter: Meter,
}

impl<'a> HashJob<'a> {
    fn fail(&self, e: Error) {
        self.failed.store(true, Ordering::Relaxed);
        if let Ok(mut fault) = self.fault.lock() {
            fault.get_or_insert(e);
        }
    }

    /// Whether to stop: something failed, or the operation was cancelled.
    fn is_over(&self) -> bool {
        if let Err(e) = self.options.task.check() {
            self.fail(e);
        }
        self.failed.load(Ordering::Relaxed)
    }

    /// Reads a folder and makes tasks of what is in it.
    fn folder<'s>(&'s self, scope: &rayon::Scope<'s>, key: String) {
        if let Err(e) = self.read_folder(scope, &key) {
            self.fail(e.with_key(&key).with_store(self.root.display()));
        }
    }

    fn read_folder<'s>(&'s self, scope: &rayon::Scope<'s>, key: &str) -> Result<()> {
        let mut batch = Vec::new();
        let path = self.root.join(key);
        let before = Stamp::of(&std::fs::metadata(&path)?, Hashing::Whole);
        if let Ok(mut folders) = self.folders.lock() {
            folders.push((key.to_owned(), before));
        }
        let inside = key.split('/').any(is_left_out);
        for entry in crate::store::local::read_dir(path)? {
            if self.is_over() {
                return Ok(());
            }
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|name| {
                invalid!("a file name is not valid UTF-8 and cannot be a key: {}", name.display())
            })?;
            let below = crate::store::join(key, &name);
            if UNFINISHED.contains(&name.as_str()) && !self.options.all_files && !self.is_named(&below) {
                return Err(unfinished(&below, self.root));
            }
            let kind = entry.file_type()?;
            if (inside || is_left_out(&name)) && !self.options.all_files && !self.is_named(&below) {
                continue;
            }
            if kind.is_dir() {
                scope.spawn(move |scope| self.folder(scope, below));
            } else if self.is_file(kind, &below)? {
                batch.push(below);
                if batch.len() == BATCH {
                    let batch = std::mem::take(&mut batch);
                    scope.spawn(move |_| self.batch(batch));
                }
            }
        }
        self.batch(batch);
        Ok(())
    }

    /// Whether the given manifest lists the file, or files in the folder.
    fn is_named(&self, key: &str) -> bool {
        self.options.named.is_some_and(|m| m.get(key).is_some() || m.dir(key).is_some())
    }

    /// Checks every folder again: if files were added or removed meanwhile, the result is inconsistent.
    fn compare_folders(&self) {
        let folders =
            std::mem::take(&mut *self.folders.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let changed = |(key, before): &(String, Stamp)| {
            let now = std::fs::metadata(self.root.join(key));
            now.map_or(true, |meta| Stamp::of(&meta, Hashing::Whole) != *before)
        };
        if self.is_over() {
            return;
        }
        let found = self.options.context.install(|| folders.par_iter().find_any(|folder| changed(folder)));
        if let Some((key, _)) = found {
            let what = "files were added or removed in the folder while it was read, so the checksum would be \
                        inconsistent; retry when nothing writes to it";
            self.fail(Error::io(what).with_key(key).with_store(self.root.display()));
        }
    }

    /// Whether it is a file, or a link to one. A link to a folder is skipped; anything else is an error.
    fn is_file(&self, kind: FileType, key: &str) -> Result<bool> {
        let kind = if kind.is_symlink() {
            let target = std::fs::metadata(self.root.join(key)).map_err(|e| match e.kind() {
                // What it stands for exists, and was not fetched: as for all who read it, that is not "not found".
                std::io::ErrorKind::NotFound => Error::io("broken symbolic link: it leads nowhere"),
                _ => Error::from(e),
            });
            target.map_err(|e| e.with_key(key))?.file_type()
        } else {
            kind
        };
        if kind.is_file() || kind.is_dir() {
            return Ok(kind.is_file());
        }
        Err(Error::invalid("neither a file nor a folder").with_key(key))
    }

    fn batch(&self, keys: Vec<String>) {
        thread_local! {
            static SCRATCH: RefCell<HashScratch> = const { RefCell::new(HashScratch::new()) };
        }
        let mut out = Vec::with_capacity(keys.len());
        let done = SCRATCH.with_borrow_mut(|scratch| {
            scratch.used = 0;
            let mut held = Vec::new();
            for key in keys {
                if self.is_over() {
                    return Ok(());
                }
                let file = self.file(&key, scratch);
                match file.map_err(|e| e.with_key(&key).with_store(self.root.display()))? {
                    FileOutcome::Done(size, digest, modified) => {
                        self.count(size);
                        out.push(LocalFile { key, size, digest, modified });
                    }
                    FileOutcome::Held(range, modified, stamp) => held.push((key, range, modified, stamp)),
                }
            }
            let messages: Vec<&[u8]> =
                held.iter().map(|(_, r, ..)| scratch.small.get(r.clone()).unwrap_or_default()).collect();
            let digests = lanes::md5_all(&messages);
            for ((key, range, modified, stamp), md5) in held.into_iter().zip(digests) {
                let (size, digest) = (num::u64_of(range.len()), ETag::Md5(md5));
                self.count(size);
                self.remember(&key, stamp, digest);
                out.push(LocalFile { key, size, digest: Some(digest), modified });
            }
            Ok(())
        });
        if let Err(e) = done {
            return self.fail(e);
        }
        if let Ok(mut found) = self.found.lock() {
            found.append(&mut out);
        }
    }

    fn file(&self, key: &str, scratch: &mut HashScratch) -> Result<FileOutcome> {
        let path = self.root.join(key);
        // What it should have, if that is known: then parts may be of any size.
        let mut wanted = None;
        let hashing = match self.options.digesting {
            Digesting::None => {
                let meta = std::fs::metadata(&path)?;
                return Ok(FileOutcome::Done(meta.len(), None, Time::from_seconds(sys::modified(&meta).0)));
            }
            Digesting::Whole => Hashing::Whole,
            Digesting::Parts => Hashing::Parts,
            Digesting::As(manifest) => {
                wanted = manifest.get(key).and_then(|leaf| leaf.digest());
                if matches!(wanted, Some(ETag::Parts(..))) { Hashing::Parts } else { Hashing::Whole }
            }
        };
        let file = sys::open(&path)?;
        let meta = file.metadata()?;
        let (size, modified) = (meta.len(), Time::from_seconds(sys::modified(&meta).0));
        let stamp = Stamp::of(&meta, hashing);
        // What was remembered of other parts says nothing about these.
        let fits = |found: &ETag| hashing == Hashing::Whole || wanted.is_none_or(|w| w == *found);
        if let Some(digest) = self.cache.and_then(|c| c.get(key, &stamp)).filter(fits) {
            self.remember(key, stamp, digest);
            return Ok(FileOutcome::Done(size, Some(digest), modified));
        }
        let changed = || Error::io("the file was changed while it was read; retry when nothing writes to it");
        let same = |file: &File| match file.metadata() {
            Ok(now) if Stamp::of(&now, hashing) == stamp => Ok(()),
            Ok(_) => Err(changed()),
            Err(e) => Err(e.into()),
        };
        if hashing == Hashing::Whole
            && let Ok(length) = usize::try_from(size)
            && length <= SMALL
        {
            let range = scratch.read(&file, length)?.ok_or_else(changed)?;
            same(&file)?;
            return Ok(FileOutcome::Held(range, modified, stamp));
        }
        scratch.large.resize(BUFFER, 0);
        let hasher = match wanted {
            Some(_) => Hasher::wanting(wanted, size),
            None => Hasher::new(hashing, size),
        };
        let (digest, found) = hash_reader(&file, hasher, &mut scratch.large)?;
        if found != size {
            return Err(changed());
        }
        same(&file)?;
        self.remember(key, stamp, digest);
        Ok(FileOutcome::Done(size, Some(digest), modified))
    }

    fn count(&self, bytes: u64) {
        self.meter.advance(bytes);
    }

    fn remember(&self, key: &str, stamp: Stamp, digest: ETag) {
        if self.cache.is_some()
            && let Ok(mut stamps) = self.stamps.lock()
        {
            stamps.push((key.to_owned(), stamp, digest));
        }
    }
}

/// Digest and size of one file.
pub(crate) fn hash_file(path: &Path, hasher: Hasher) -> Result<(ETag, u64)> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let length = usize::try_from(size).unwrap_or(BUFFER).clamp(1, BUFFER);
    Ok(hash_reader(file, hasher, &mut vec![0; length])?)
}

#[cfg(test)]
#[cfg(unix)]
#[path = "local_tests.rs"]
mod tests;
