//! Downloads the objects of a version into a folder, each checked by size and digest and written atomically.
//!
//! A rerun resumes: files that already have the right bytes are not fetched again.
//!
//! Chunks come first and metadata documents last, those of the root at the very end and only if nothing else failed: an
//! incomplete version does not open as a Zarr with chunks missing.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;

use super::digest::{ETag, Hasher};
use super::local;
use super::model::{Entry, Manifest};
use super::place::PendingFile;
use crate::blocking;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::hierarchy::{self, Existing};
use crate::num::usize_of;
use crate::store::local::sys::read_exact_at;
use crate::store::local::{LocalStore, check_space, free_space};
use crate::store::{ByteRange, Condition, Pin, SharedStore, Store as _, StoreExt as _, join};
use crate::task::{self, Meter, Operation, Task, Unit};

/// Where the bytes of entries come from.
#[async_trait]
pub trait FetchSource: Send + Sync {
    /// Reads bytes of the version of `key` that `entry` describes; `None` if it does not exist.
    async fn read(&self, key: &str, entry: &Entry, range: Option<ByteRange>) -> Result<Option<Bytes>>;
}

/// The current files of a folder.
#[derive(Debug, Clone)]
pub struct FolderSource(pub PathBuf);

#[async_trait]
impl FetchSource for FolderSource {
    async fn read(&self, key: &str, _: &Entry, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        let file = match File::open(self.0.join(key)) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::from(e).with_key(key).with_store(self.0.display())),
        };
        let read = || -> Result<Vec<u8>> {
            let size = file.metadata()?.len();
            let (offset, length) = range.map_or(Ok((0, size)), |range| range.resolve(size))?;
            let mut bytes = vec![0; usize_of(length)?];
            read_exact_at(&file, &mut bytes, offset)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|e| e.with_key(key).with_store(self.0.display()))?;
        Ok(Some(bytes.into()))
    }
}

/// The objects of a store below a prefix.
#[derive(Debug, Clone)]
pub struct StoreSource {
    store: SharedStore,
    prefix: String,
    pinned: bool,
}

impl StoreSource {
    /// The current objects, such as files of a folder.
    #[must_use]
    pub fn present(store: SharedStore, prefix: impl Into<String>) -> Self {
        Self { store, prefix: prefix.into(), pinned: false }
    }

    /// The versions named by entries.
    #[must_use]
    pub fn versioned(store: SharedStore, prefix: impl Into<String>) -> Self {
        Self { store, prefix: prefix.into(), pinned: true }
    }
}

#[async_trait]
impl FetchSource for StoreSource {
    async fn read(&self, key: &str, entry: &Entry, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        let key = join(&self.prefix, key);
        if !self.pinned {
            return self.store.get(&key, range).await;
        }
        let pin = Pin {
            version: entry.version.clone(),
            etag: entry.etag.clone(),
            size: Some(entry.size),
            unmodified_since: None,
        };
        self.store.get_pinned(&key, range, &pin).await
    }
}

/// Counts of a fetch.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Files that were fetched.
    pub files: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Files that already existed.
    pub there: AtomicU64,
    /// Files whose `ETag` is not a digest: only their size was checked.
    pub unchecked: AtomicU64,
    /// Objects that could not be fetched.
    pub failed: AtomicU64,
    /// Start no more fetches.
    stop: AtomicBool,
}

/// Stop after this many failures.
const MAX_FAILED: u64 = 1000;

/// Objects larger than this are fetched in parts of this size.
const PIECE: u64 = 32 << 20;

/// How to fetch.
#[derive(Debug, Clone, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct FetchOptions {
    /// What to do with existing files that are not of this version.
    pub existing: Existing,
    /// Objects fetched concurrently.
    pub at_once: usize,
    /// Progress, in bytes, and cancellation. The same call resumes later.
    pub task: Task,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { existing: Existing::Refuse, at_once: 16, task: Task::default() }
    }
}

/// Fetches the entries of `m` that `wanted` selects into `folder`.
///
/// The folder may hold files of this version, such as from an earlier call. Others are an error, or with
/// [`Existing::Replace`] replaced, and deleted if the version does not have them: all of them must belong to a Zarr.
#[boxed]
pub async fn fetch(
    m: &Manifest,
    source: &dyn FetchSource,
    folder: &Path,
    wanted: &(dyn Fn(&str) -> bool + Sync),
    options: &FetchOptions,
    done: &Fetched,
) -> Result<()> {
    let _operation = Operation::begin("manifest fetch", folder.display());
    if !m.fields().size {
        return Err(Error::invalid("cannot fetch: the manifest has no sizes").with_field("fields"));
    }
    let (turns, missing) = survey(m, folder, wanted);
    if turns.is_empty() && !m.is_empty() {
        return Err(Error::not_found("no entry of the manifest matches"));
    }
    std::fs::create_dir_all(folder).map_err(|e| Error::from(e).within(folder.display()))?;
    // What earlier ones that were killed have left.
    LocalStore::new(folder).sweep()?;
    check_space(free_space(folder), missing).map_err(|e| e.within(folder.display()))?;
    let others = Others::in_folder(m, folder).await?;
    match options.existing {
        Existing::Refuse => others.refuse(folder)?,
        Existing::Replace => others.clear(m, source, folder, wanted).await?,
    }
    let meter = options.task.meter(Unit::Bytes, missing);
    for turn in turns {
        let fetching = Fetching { source, folder, options, meter: &meter, done };
        fetching.turn(m, &|key| FetchTurn::of(key) == turn && wanted(key)).await?;
    }
    LocalStore::new(folder).delete(CLEARING).await
}

/// Marker file in a folder while files in it are being replaced.
const CLEARING: &str = ".zaro-fetch.json";

/// Files of a folder that are not of a version.
#[derive(Default)]
struct Others {
    /// Files that the version does not have.
    strays: Vec<String>,
    /// A file that the version has with another size, or another root document.
    other: Option<String>,
}

impl Others {
    async fn in_folder(m: &Manifest, folder: &Path) -> Result<Self> {
        let store = LocalStore::new(folder);
        let mut found = Self::default();
        let mut keys = store.keys("");
        while let Some(entry) = keys.try_next().await? {
            let key = entry.key;
            match m.get(&key) {
                Some(leaf) if leaf.size() == entry.size => {
                    if !key.contains('/') && !is_there(&folder.join(&key), entry.size, leaf.digest())? {
                        found.other = Some(key);
                    }
                }
                Some(_) => found.other = Some(key),
                // What zaro leaves is no content.
                None if key.split('/').any(|name| name.starts_with(".zaro-")) => {}
                None => found.strays.push(key),
            }
        }
        drop(keys);
        Ok(found)
    }

    fn refuse(&self, folder: &Path) -> Result<()> {
        let what = match (self.strays.first(), &self.other) {
            (Some(key), _) => {
                format!("the folder contains files that are not in this version, such as {key}")
            }
            (None, Some(key)) => format!("the folder contains {key} with other bytes than in this version"),
            (None, None) => return Ok(()),
        };
        Err(Error::usage(what).with_hint("overwrite", "replaces them").with_store(folder.display()))
    }

    /// Deletes what is not of the version, once it is certain that there is something to replace it. The root documents
    /// are deleted first and fetched last: in between, no mixture can be opened.
    async fn clear(
        &self,
        m: &Manifest,
        source: &dyn FetchSource,
        folder: &Path,
        wanted: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<()> {
        if self.strays.is_empty() && self.other.is_none() {
            return Ok(());
        }
        let store: SharedStore = Arc::new(LocalStore::new(folder));
        hierarchy::prove_all(&store, "").await?;
        // What a kill leaves is known by it as what was a Zarr, though documents are gone.
        let _ = store.put(CLEARING, "{}\n".into(), Condition::Always).await?;
        for name in [".zmetadata", "zarr.json", ".zgroup", ".zarray", ".zattrs"] {
            let Some(leaf) = m.get(name).filter(|_| wanted(name)) else { continue };
            let there = source.read(name, &leaf.entry(), None).await?;
            if there.is_some() {
                store.delete(name).await?;
            }
        }
        // Chunks before the documents that tell what they are.
        let mut strays: Vec<&String> = self.strays.iter().collect();
        strays.sort_by_key(|key| FetchTurn::of(key));
        for key in strays {
            store.delete(key).await?;
        }
        Ok(())
    }
}

/// When a key is fetched: all keys of one turn are complete before the next begins. In order: everything but documents,
/// then documents from the deepest up, and at each depth those that define a node after those that only describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FetchTurn {
    Data,
    Document { depth: Reverse<usize>, makes_node: bool },
}

impl FetchTurn {
    fn of(key: &str) -> Self {
        let makes_node = match key.rsplit('/').next() {
            Some("zarr.json" | ".zarray" | ".zgroup") => true,
            Some(".zattrs" | ".zmetadata") => false,
            _ => return Self::Data,
        };
        Self::Document { depth: Reverse(key.matches('/').count()), makes_node }
    }
}

/// The turns, and the bytes of files that do not exist yet with their size.
fn survey(m: &Manifest, folder: &Path, wanted: &(dyn Fn(&str) -> bool + Sync)) -> (BTreeSet<FetchTurn>, u64) {
    let mut walk = m.walk();
    let (mut turns, mut bytes) = (BTreeSet::new(), 0u64);
    while let Some((key, leaf)) = walk.next() {
        if !wanted(key) {
            continue;
        }
        turns.insert(FetchTurn::of(key));
        let size = leaf.size();
        if !std::fs::symlink_metadata(folder.join(key)).is_ok_and(|m| m.len() == size) {
            bytes = bytes.saturating_add(size);
        }
    }
    (turns, bytes)
}

/// A running fetch.
struct Fetching<'a> {
    source: &'a dyn FetchSource,
    folder: &'a Path,
    options: &'a FetchOptions,
    meter: &'a Meter,
    done: &'a Fetched,
}

impl Fetching<'_> {
    /// Fetches the entries that `wanted` selects, in any order.
    async fn turn(&self, m: &Manifest, wanted: &(dyn Fn(&str) -> bool + Sync)) -> Result<()> {
        let done = self.done;
        let fault: &Mutex<Option<Error>> = &Mutex::new(None);
        let mut walk = m.walk();
        let entries = std::iter::from_fn(|| {
            while !done.stop.load(Ordering::Relaxed) {
                let (key, leaf) = walk.next()?;
                if wanted(key) {
                    return Some((key.to_owned(), leaf.entry()));
                }
            }
            None
        });
        task::each(self.options.at_once, entries, |(key, entry)| async move {
            let Err(e) = self.options.task.unless_cancelled(self.one(&key, &entry)).await else {
                return Ok(());
            };
            // One that is refused or gone does not keep the others; a network or a disk that fails does.
            let hopeless = !matches!(
                e.kind(),
                ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Usage
            );
            if hopeless || done.failed.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILED {
                done.stop.store(true, Ordering::Relaxed);
            }
            if let Ok(mut fault) = fault.lock() {
                fault.get_or_insert(e.with_key(key));
            }
            Ok(())
        })
        .await?;
        let failed = done.failed.load(Ordering::Relaxed);
        match fault.lock().ok().and_then(|mut fault| fault.take()) {
            Some(e) if failed > 1 => {
                Err(e.within(format!("{failed} objects were not fetched, the first one")))
            }
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    async fn one(&self, key: &str, entry: &Entry) -> Result<()> {
        let done = self.done;
        let path = self.folder.join(key);
        let digest = entry.etag.as_deref().and_then(ETag::parse);
        let (at, size) = (path.clone(), entry.size);
        if blocking::spawn_blocking(move || is_there(&at, size, digest)).await? {
            done.there.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if self.options.existing == Existing::Refuse && digest.is_some() && path.symlink_metadata().is_ok() {
            return Err(Error::usage("a file with other bytes exists").with_hint("overwrite", "replaces it"));
        }
        let mut new = None;
        let mut from = 0;
        loop {
            let length = PIECE.min(size - from);
            let range = (length < size).then(|| ByteRange::span(from, length));
            let piece = self.source.read(key, entry, range).await?;
            let piece = piece.ok_or_else(|| Error::not_found("the object no longer exists"))?;
            from += length;
            self.meter.advance(length);
            let (path, written) = (path.clone(), new.take());
            new = blocking::spawn_blocking(move || {
                let (mut file, mut hasher) = match written {
                    Some(new) => new,
                    None => (PendingFile::begin(&path)?, Hasher::wanting(digest, size)),
                };
                hasher.update(&piece);
                file.out.write_all(&piece)?;
                if from < size {
                    return Ok(Some((file, hasher)));
                }
                if hasher.size() != size {
                    let message = format!("the object has {} bytes instead of {size}", hasher.size());
                    return Err(Error::invalid(message));
                }
                check(hasher, digest)?;
                file.replace(&path).map(|()| None)
            })
            .await?;
            if from >= size {
                break;
            }
        }
        if digest.is_none() {
            done.unchecked.fetch_add(1, Ordering::Relaxed);
        }
        done.files.fetch_add(1, Ordering::Relaxed);
        done.bytes.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }
}

fn check(hasher: Hasher, wanted: Option<ETag>) -> Result<()> {
    let found = hasher.finish();
    match wanted {
        Some(wanted) if wanted != found => {
            Err(invalid!("the object has the digest {found} instead of {wanted}"))
        }
        _ => Ok(()),
    }
}

/// Whether the file already has these bytes.
fn is_there(path: &Path, size: u64, digest: Option<ETag>) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() == size => match digest {
            Some(digest) => Ok(local::hash_file(path, Hasher::wanting(Some(digest), size))?.0 == digest),
            None => Ok(false),
        },
        Ok(meta) if meta.is_dir() => Err(Error::invalid("a folder exists in the place of the file")),
        _ => Ok(false),
    }
}
