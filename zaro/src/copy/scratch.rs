//! A directory for temporary chunks while an array is rechunked.
//!
//! Every run has its own, private to the user, with an unpredictable new name. It is never used by another run, and is
//! removed when the run ends, however it ends. Only a killed process leaves it behind; the next run of the same user
//! removes it. A lock shows whether a run is over: the system releases it when the process ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::journal::token;
use crate::store::local::sys;

const START: &str = "zaro-scratch-";
const LOCK: &str = "lock";

/// An unlocked directory of this age was left by a process that was killed as it started.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory of this run alone; removed when dropped.
#[derive(Debug)]
pub(super) struct ScratchFolder {
    path: PathBuf,
    /// Locked as long as the run lasts.
    _lock: File,
}

impl ScratchFolder {
    /// Creates one in `parent`, or in the system's temporary directory.
    pub(super) fn new(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let made = || {
            std::fs::create_dir_all(&parent)?;
            remove_abandoned(&parent);
            Self::make(&parent)
        };
        made().map_err(|e| {
            Error::from(e).with_store(parent.display()).within("the directory for temporary chunks")
        })
    }

    fn make(parent: &Path) -> std::io::Result<Self> {
        loop {
            let path = parent.join(format!("{START}{}", token()));
            // Fails if the name exists.
            sys::create_private_folder(&path)?;
            let lock = sys::create_new(&path.join(LOCK), true);
            match lock {
                Ok(lock) => match lock.try_lock() {
                    Err(TryLockError::WouldBlock) => {}
                    // Another run may have considered it abandoned in the moment before it was locked.
                    Ok(()) | Err(TryLockError::Error(_)) if sys::is_at(&lock, &path.join(LOCK)) => {
                        return Ok(Self { path, _lock: lock });
                    }
                    _ => {}
                },
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    let _ = std::fs::remove_dir(&path);
                    return Err(e);
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // A directory that cannot be removed is litter, not a failed copy.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of this user whose runs are over. What cannot be inspected, or is in doubt, stays.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let ours = |name: &str| name.strip_prefix(START).is_some_and(|rest| rest.len() == 32);
    for entry in entries.flatten().filter(|e| e.file_name().to_str().is_some_and(ours)) {
        let path = entry.path();
        // A symlink is not a directory.
        let Ok(meta) = path.symlink_metadata() else { continue };
        if !meta.is_dir() || !sys::is_ours(&meta) {
            continue;
        }
        let lock = sys::open_lock(&path.join(LOCK));
        match lock {
            Ok(lock) if lock.try_lock().is_ok() => {
                let _ = std::fs::remove_dir_all(&path);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let age = meta.modified().ok().and_then(|m| SystemTime::now().duration_since(m).ok());
                if age.is_some_and(|age| age > OLD) {
                    // Only if it is empty.
                    let _ = std::fs::remove_dir(&path);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn every_run_has_a_folder_of_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let (a, b) = (
            ScratchFolder::new(Some(parent.path())).unwrap(),
            ScratchFolder::new(Some(parent.path())).unwrap(),
        );
        assert_ne!(a.path(), b.path());
        for scratch in [&a, &b] {
            assert!(scratch.path().join(LOCK).is_file(), "one that is in use stays");
            assert_eq!(scratch.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        let path = a.path().to_owned();
        drop(a);
        assert!(!path.exists());
        assert!(b.path().exists());
    }

    #[test]
    fn what_dead_runs_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, lock: bool| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("c"), "x").unwrap();
            if lock {
                std::fs::write(path.join(LOCK), "").unwrap();
            }
            path
        };
        let name = |c: &str| format!("{START}{}", c.repeat(32));
        let dead = make(&name("a"), true);
        let young = make(&name("b"), false);
        let other = make("zaro-scratch-mine", true);
        let elsewhere = make("kept", true);
        let link = parent.path().join(name("c"));
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let scratch = ScratchFolder::new(Some(parent.path())).unwrap();
        assert!(!dead.exists());
        for kept in [&young, &other, &elsewhere, &link, &scratch.path().to_owned()] {
            assert!(
                kept.join(if kept == scratch.path() { LOCK } else { "c" }).exists(),
                "{}",
                kept.display()
            );
        }
    }
}
