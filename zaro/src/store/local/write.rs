//! Writing files atomically: a temporary file beside the final one, then a rename.
//!
//! The rename holds a lock on the folder: shared for an unconditional put or a delete, exclusive for comparing and
//! renaming. So nothing comes between the check and the rename, in this process or another, and unconditional writers
//! do not wait for each other. The lock is `flock` on the folder itself: nothing is left behind, and the system
//! releases it when a process is killed.

use std::fs::{File, Metadata};
use std::io::{Error as IoError, ErrorKind as IoKind, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::folders::{self, put_aside_and_remove};
use super::sys::{self, Folder};
use super::temporary::{self, Temporary, is_abandoned, is_temporary, keep_mode};
use super::{LocalStore, is_missing};
use crate::error::{Error, Result};
use crate::store::{
    Condition, DELETING, JOURNAL, KeptOpen, LocalMeta, ObjectMeta, Put, check_key, check_prefix,
};

/// How often a put is retried because its folder was deleted concurrently.
const ATTEMPTS: usize = 1000;

/// After this many attempts there is a pause between two.
const PATIENCE: usize = 8;

/// Identity of a file; size and time detect writers that change it in place.
pub(super) fn identity(meta: &Metadata) -> LocalMeta {
    LocalMeta {
        id: sys::file_id(meta),
        size: meta.len(),
        modified: Some(sys::modified(meta)),
        open: KeptOpen::default(),
    }
}

/// The outcome of a put besides failure.
enum Ended {
    Put(Put),
    /// The folder, or the temporary file in it, was deleted concurrently.
    Vanished,
}

/// Writes all parts with vectored writes.
fn write_parts(file: &mut File, parts: &[&[u8]]) -> std::io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
    let mut rest = slices.as_mut_slice();
    // Drops empty parts at the front, for which `write` would report that nothing was written.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match file.write_vectored(rest) {
            Ok(0) => return Err(IoKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut rest, n),
            Err(e) if e.kind() == IoKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl LocalStore {
    /// Whether a put returns only when file and folder are synced to disk (`fsync`), so that they survive a crash of
    /// the machine. Without it they survive a crash of the process. On network file systems it also reports late
    /// errors, such as an exceeded quota.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// The path of a writable key.
    fn target(&self, key: &str) -> Result<(PathBuf, PathBuf)> {
        check_key(key)?;
        if key.split('/').any(is_temporary) {
            return Err(Error::invalid("names like .zaro-*.tmp are reserved for temporary files"));
        }
        let path = self.path(key)?;
        match path.parent() {
            Some(folder) => Ok((folder.to_owned(), path)),
            None => Err(Error::invalid("the key is not a file path")),
        }
    }

    pub(super) fn write(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        let place = |e: Error| e.with_key(key).with_store(self);
        let (folder, path) = self.target(key).map_err(place)?;
        for tried in 0..ATTEMPTS {
            match self.attempt(&folder, &path, parts, when).map_err(place)? {
                Ended::Put(put) => return Ok(put),
                Ended::Vanished => self.make_folder(&folder).map_err(place)?,
            }
            // Gives concurrent deletions time to finish.
            if tried >= PATIENCE {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Err(place(Error::io("the folder keeps being deleted while it is written to")))
    }

    fn attempt(&self, folder: &Path, path: &Path, parts: &[&[u8]], when: &Condition) -> Result<Ended> {
        // An early check avoids writing what would be refused; the authoritative one is below.
        if !matches!(when, Condition::Always) && !holds(path, when)? {
            return Ok(Ended::Put(Put::Refused));
        }
        // A journal names the source of the data, so it is private.
        let private = path.file_name().is_some_and(|name| name == JOURNAL);
        let (mut temporary, mut file) = match Temporary::create_with(folder, private) {
            Ok(made) => made,
            Err(e) if e.kind() == IoKind::NotFound => return Ok(Ended::Vanished),
            Err(e) if e.kind() == IoKind::NotADirectory => return Err(blocked(e)),
            Err(e) => return Err(e.into()),
        };
        let unwritten = |e: IoError| Error::from(e).within("not written; the existing object is unchanged");
        write_parts(&mut file, parts).map_err(unwritten)?;
        if self.durable {
            file.sync_all().map_err(unwritten)?;
        }
        keep_mode(path, &file).map_err(unwritten)?;
        drop(file);
        // The temporary file is in the folder, so the folder is still the one that a rename would use, or the file is
        // gone.
        let opened = match Folder::open(folder) {
            Ok(opened) => opened,
            Err(e) if e.kind() == IoKind::NotFound => return Ok(Ended::Vanished),
            Err(e) => return Err(e.into()),
        };
        let locked = opened.lock(!matches!(when, Condition::Always))?;
        let moved = match when {
            Condition::Always => temporary.rename(path),
            _ if locked.is_some() => {
                if !holds(path, when)? {
                    return Ok(Ended::Put(Put::Refused));
                }
                temporary.rename(path)
            }
            // Without locks, a hard link fails if the name exists.
            Condition::Absent => match std::fs::hard_link(temporary.path(), path) {
                Err(e) if e.kind() == IoKind::AlreadyExists => return Ok(Ended::Put(Put::Refused)),
                linked => linked,
            },
            Condition::Unchanged(_) => {
                return Err(Error::unsupported(
                    "this file system has no locks (flock), so part of a chunk cannot be changed safely while \
                     others may write; write whole chunks, or write to another file system and copy",
                ));
            }
        };
        match moved {
            Ok(()) => {}
            Err(e) if e.kind() == IoKind::NotFound => return Ok(Ended::Vanished),
            Err(e) if path.is_dir() => {
                return Err(Error::invalid("found a folder where an object is expected").with_source(e));
            }
            Err(e) => return Err(e.into()),
        }
        if self.durable {
            opened.sync()?;
        }
        Ok(Ended::Put(Put::Done))
    }

    /// Creates a folder and its parents.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).collect();
        match std::fs::create_dir_all(folder) {
            // Folders created here need no sweep.
            Ok(()) => {
                let _ = temporary::is_new_to_us(folder);
            }
            // A file is in the way; or the folder existed when it was to be created, and was deleted right after.
            Err(e) if matches!(e.kind(), IoKind::AlreadyExists | IoKind::NotADirectory) => {
                let file = |f: &Path| f.symlink_metadata().is_ok() && !f.is_dir();
                return if folder.ancestors().any(file) { Err(blocked(e)) } else { Ok(()) };
            }
            // Deleted concurrently: the next attempt creates it again.
            Err(e) if e.kind() == IoKind::NotFound => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        if self.durable {
            for parent in missing.iter().filter_map(|f| f.parent()) {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                Folder::open(parent)?.sync()?;
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, key: &str) -> Result<()> {
        let place = |e: Error| e.with_key(key).with_store(self);
        let (folder, path) = self.target(key).map_err(place)?;
        let opened = match Folder::open(&folder) {
            Ok(opened) => opened,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(self.fault(key, e)),
        };
        let locked = opened.lock(false).map_err(|e| self.fault(key, e))?;
        temporary::sweep_once(&folder);
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            // A folder is not an object, so the object does not exist. A killed deletion may have left an empty folder.
            Err(e) if is_missing(&e) || path.is_dir() => {}
            Err(e) => return Err(self.fault(key, e)),
        }
        if self.durable {
            opened.sync().map_err(|e| self.fault(key, e))?;
        }
        drop(locked);
        drop(opened);
        self.prune(&folder);
        Ok(())
    }

    /// Deletes a file if it is unchanged; nothing comes between the check and the deletion.
    pub(super) fn remove_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let place = |e: Error| e.with_key(key).with_store(self);
        let (folder, path) = self.target(key).map_err(place)?;
        let opened = match Folder::open(&folder) {
            Ok(opened) => opened,
            Err(e) if is_missing(&e) => return Ok(Put::Refused),
            Err(e) => return Err(self.fault(key, e)),
        };
        let locked = opened.lock(true).map_err(|e| self.fault(key, e))?;
        if locked.is_none() {
            return Err(place(Error::unsupported("this file system has no locks (flock)")));
        }
        if !holds(&path, &Condition::Unchanged(state.clone())).map_err(place)? {
            return Ok(Put::Refused);
        }
        std::fs::remove_file(&path).map_err(|e| self.fault(key, e))?;
        if self.durable {
            opened.sync().map_err(|e| self.fault(key, e))?;
        }
        drop(locked);
        drop(opened);
        self.prune(&folder);
        Ok(Put::Done)
    }

    pub(super) fn remove_below(&self, prefix: &str) -> Result<()> {
        let place = |e: Error| e.with_key(prefix).with_store(self);
        check_prefix(prefix).map_err(place)?;
        if !prefix.is_empty() {
            let path = self.path(prefix)?;
            match std::fs::metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Ok(()),
                Err(e) if is_missing(&e) => return Ok(()),
                // What cannot be inspected is not deleted.
                Err(e) => return Err(self.fault(prefix, e)),
            }
            put_aside_and_remove(&path).map_err(|e| self.fault(prefix, e))?;
            path.parent().into_iter().for_each(|folder| self.prune(folder));
            return Ok(());
        }
        let entries = match super::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(self.fault(prefix, e)),
        };
        let remove = |removed: std::io::Result<()>| match removed {
            Err(e) if e.kind() != IoKind::NotFound => Err(self.fault(prefix, e)),
            _ => Ok(()),
        };
        for entry in entries {
            remove(entry.and_then(|entry| match entry.file_type()?.is_dir() {
                true => put_aside_and_remove(&entry.path()),
                false if entry.file_name() == DELETING => Ok(()),
                false => std::fs::remove_file(entry.path()),
            }))?;
        }
        remove(std::fs::remove_file(self.root.join(DELETING)))?;
        // The root is removed too, unless that fails: a mount point, or somebody wrote meanwhile.
        let _ = std::fs::remove_dir(&self.root);
        Ok(())
    }

    /// Renames the folder `prefix/inner` to `prefix` and removes the old one; `false` where the system does not allow
    /// it. A symlink to the folder stays, and points to the new one.
    pub(super) fn exchange(&self, prefix: &str, inner: &str) -> Result<bool> {
        let place = |e: Error| e.with_key(prefix).with_store(self);
        check_prefix(prefix).and_then(|()| check_key(inner)).map_err(place)?;
        let folder = if prefix.is_empty() { self.root.clone() } else { self.path(prefix)? };
        let folder = folder.canonicalize().map_err(|e| self.fault(prefix, e))?;
        // A process with its working directory in it, such as a shell, would be in a deleted folder.
        let stands = std::env::current_dir().is_ok_and(|here| here.starts_with(&folder));
        let Some(parent) = folder.parent().filter(|_| !stands) else { return Ok(false) };
        let exchanged = folders::put_in_place(&folder.join(inner), &folder, parent);
        if exchanged.as_ref().is_ok_and(|done| *done) && self.durable {
            Folder::open(parent).and_then(|f| f.sync()).map_err(|e| self.fault(prefix, e))?;
        }
        exchanged.map_err(|e| self.fault(prefix, e))
    }

    /// Removes empty folders up to the root: a store has no empty prefixes.
    fn prune(&self, folder: &Path) {
        let below = folder.ancestors().take_while(|f| *f != self.root && f.starts_with(&self.root));
        // It fails for folders that are not empty, which ends the loop.
        let _ = below.map(std::fs::remove_dir).find(std::result::Result::is_err);
    }

    /// Removes temporary files left by killed writers and returns their number: those of processes that no longer
    /// exist, and those older than a day. A writer on another machine whose file is removed writes it again.
    pub fn sweep(&self) -> Result<u64> {
        let mut removed = 0u64;
        let mut open = vec![self.root.clone()];
        while let Some(folder) = open.pop() {
            let entries = match super::read_dir(&folder) {
                Ok(entries) => entries,
                Err(e) if is_missing(&e) => continue,
                Err(e) => return Err(Error::from(e).with_store(folder.display())),
            };
            for entry in entries {
                let entry = entry.map_err(|e| Error::from(e).with_store(folder.display()))?;
                // Symlinks are not followed: their targets are not ours to sweep.
                let Ok(kind) = entry.file_type() else { continue };
                let name = entry.file_name();
                match name.to_str().filter(|n| is_temporary(n)) {
                    Some(name) if is_abandoned(name, &entry) => {
                        removed = removed.saturating_add(u64::from(temporary::remove(&entry).is_ok()));
                    }
                    Some(_) => {}
                    None if kind.is_dir() => open.push(entry.path()),
                    None => {}
                }
            }
        }
        Ok(removed)
    }
}

fn blocked(e: IoError) -> Error {
    Error::invalid("found a file where a folder is expected").with_source(e)
}

/// Whether the file at `path` meets the condition.
fn holds(path: &Path, when: &Condition) -> Result<bool> {
    let now = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            return Err(Error::invalid("found a folder where an object is expected"));
        }
        Ok(meta) => Some(identity(&meta)),
        // A broken symlink exists, though it has no content.
        Err(e) if is_missing(&e) && path.is_symlink() => return Ok(matches!(when, Condition::Always)),
        Err(e) if is_missing(&e) => None,
        Err(e) => return Err(e.into()),
    };
    Ok(match when {
        Condition::Always => true,
        Condition::Absent => now.is_none(),
        Condition::Unchanged(seen) => now.as_ref() == Some(seen.local()?),
    })
}
