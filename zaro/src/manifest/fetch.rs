//! The objects of a version into a folder: each checked by size and digest, each whole or not there.
//!
//! Running it again does what is left: a file that has the right bytes already is not fetched.
//!
//! Chunks come first and metadata documents last, those of the root at the very end and only if nothing else failed: a
//! version that is not all there is not a node, and opens nowhere with chunks missing.

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
    /// Bytes of the state of `key` that `entry` describes; `None` if it does not exist.
    async fn read(&self, key: &str, entry: &Entry, range: Option<ByteRange>) -> Result<Option<Bytes>>;
}

/// The files of a folder as they are now, whatever they are called.
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
    /// Whatever is there now, such as in a folder.
    #[must_use]
    pub fn present(store: SharedStore, prefix: impl Into<String>) -> Self {
        Self { store, prefix: prefix.into(), pinned: false }
    }

    /// The versions that entries name.
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

/// What was done.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Files that were fetched.
    pub files: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Files that were there already.
    pub there: AtomicU64,
    /// Files whose `ETag` told nothing of their bytes: only their size was checked.
    pub unchecked: AtomicU64,
    /// Objects that could not be fetched.
    pub failed: AtomicU64,
    /// Nothing more is to be begun.
    stop: AtomicBool,
}

/// After so many objects that could not be fetched the others are not tried.
const MAX_FAILED: u64 = 1000;

/// Objects larger than this are fetched in pieces.
const PIECE: u64 = 32 << 20;

/// How to fetch.
#[derive(Debug, Clone, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct FetchOptions {
    /// What to do with files that are there and are not of this version.
    pub existing: Existing,
    /// Objects that are fetched at the same time.
    pub at_once: usize,
    /// How it is watched, in bytes, and stopped. The same call goes on later.
    pub task: Task,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { existing: Existing::Refuse, at_once: 16, task: Task::default() }
    }
}

/// Fetches the entries of `m` that `wanted` picks into `folder`.
///
/// The folder may hold files of this very version, such as an earlier call left. Others are an error, or with
/// [`Existing::Replace`] replaced, and deleted if the version does not have them: all of them must be of a Zarr.
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
        return Err(Error::invalid("a manifest without sizes cannot be fetched by").with_field("fields"));
    }
    let (turns, missing) = survey(m, folder, wanted);
    if turns.is_empty() && !m.is_empty() {
        return Err(Error::not_found("no entry of the manifest is like that"));
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

/// What lies in a folder from when something in it is replaced until all is fetched.
const CLEARING: &str = ".zaro-fetch.json";

/// What a folder holds that is not of a version.
#[derive(Default)]
struct Others {
    /// Files that it does not have.
    strays: Vec<String>,
    /// One that it has with another size, or another document of the root.
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
                format!("the folder holds files that this version does not have, such as {key}")
            }
            (None, Some(key)) => format!("the folder holds {key} with other bytes than this version has"),
            (None, None) => return Ok(()),
        };
        Err(Error::usage(what).with_hint("overwrite", "replaces what is there").with_store(folder.display()))
    }

    /// Clears away what is not of the version, once it is sure that there is something to put in its place. The documents of
    /// the root go first, and come last: in between nothing mixed can be opened.
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

/// When a key is fetched: all keys of one turn are there before the next begins. In order: all that are no documents,
/// then documents from the deepest up, and of each depth those that make a node after those that only tell of it.
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

/// The turns that there are, and how many bytes the files have that are not there with that size.
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

/// A fetch under way.
struct Fetching<'a> {
    source: &'a dyn FetchSource,
    folder: &'a Path,
    options: &'a FetchOptions,
    meter: &'a Meter,
    done: &'a Fetched,
}

impl Fetching<'_> {
    /// Fetches the entries that `wanted` picks, in any order.
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
                Err(e.within(format!("{failed} objects were not fetched, the first of them")))
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
            return Err(Error::usage("a file with other bytes is here").with_hint("overwrite", "replaces it"));
        }
        let mut new = None;
        let mut from = 0;
        loop {
            let length = PIECE.min(size - from);
            let range = (length < size).then(|| ByteRange::span(from, length));
            let piece = self.source.read(key, entry, range).await?;
            let piece = piece.ok_or_else(|| Error::not_found("the object is not there any more"))?;
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
                    let message = format!("the object has {} bytes in place of {size}", hasher.size());
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
            Err(invalid!("the object has the digest {found} in place of {wanted}"))
        }
        _ => Ok(()),
    }
}

/// Whether the file has these bytes already.
fn is_there(path: &Path, size: u64, digest: Option<ETag>) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() == size => match digest {
            Some(digest) => Ok(local::hash_file(path, Hasher::wanting(Some(digest), size))?.0 == digest),
            None => Ok(false),
        },
        Ok(meta) if meta.is_dir() => Err(Error::invalid("a folder is in the place of the file")),
        _ => Ok(false),
    }
}
