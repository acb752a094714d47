//! Temporary files: their names, their owners, and their cleanup.
//!
//! A file that must appear whole is first written under a temporary name beside its final one. It is removed if it is
//! not needed, also when a signal ends the process ([`remove_temporaries`]). Files left by a killed process are removed
//! by the next one that writes to or deletes in the same folder: the name tells whose they were.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::sys;
use crate::context::PerProcess;
use crate::process::{began, machine};

/// A temporary file of this age is abandoned.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// How many entries of a folder are checked for abandoned files, and how many folders.
const ENTRIES: usize = 10_000;
const FOLDERS: usize = 1 << 16;

const START: &str = ".zaro-";
const END: &str = ".tmp";

/// Whether a name is that of a temporary file or folder: `.zaro-….tmp`. Such names are never content.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(START) && name.ends_with(END)
}

/// A new name: `.zaro-PID-NUMBER-HOME.tmp`, where `HOME` identifies the machine, boot and container.
pub(super) fn temporary_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{START}{}-{number}-{}{END}", std::process::id(), *HOME)
}

/// Distinguishes the processes of this machine, boot and container from all others.
static HOME: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    machine().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// Whether a temporary file is abandoned: its process no longer exists, or it is a day old. For processes elsewhere
/// only the age counts.
pub(super) fn is_abandoned(name: &str, entry: &std::fs::DirEntry) -> bool {
    let parts: Vec<&str> =
        name.strip_prefix(START).and_then(|n| n.strip_suffix(END)).unwrap_or("").split('-').collect();
    let dead = match parts.as_slice() {
        [pid, _, home] if *home == *HOME && machine().is_some() => {
            pid.parse().is_ok_and(|pid| began(pid).is_none())
        }
        _ => false,
    };
    let old = || {
        let modified = entry.metadata().and_then(|m| m.modified()).ok();
        modified.and_then(|m| SystemTime::now().duration_since(m).ok()).is_some_and(|age| age > OLD)
    };
    dead || old()
}

/// Existing temporary files of this process; `None` when no more may be created. Those of its parent are not its own.
fn open() -> MutexGuard<'static, Option<Vec<PathBuf>>> {
    static OPEN: PerProcess<Mutex<Option<Vec<PathBuf>>>> = PerProcess::new();
    OPEN.get(|| Mutex::new(Some(Vec::new()))).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hashes of folders that were swept, or created by this process.
static SWEPT: PerProcess<Mutex<HashSet<u64>>> = PerProcess::new();

/// Removes all temporary files of this process and prevents new ones: for a process that exits at once, whatever its
/// threads are doing.
pub fn remove_temporaries() {
    let open = open().take();
    // A file that is being created right now is removed by the thread that creates it.
    for _ in 0..100 {
        if MAKING.load(Ordering::Acquire) == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for path in open.into_iter().flatten() {
        let _ = std::fs::remove_file(path);
    }
}

/// How many temporary files are being created and are not in the list yet.
static MAKING: AtomicU64 = AtomicU64::new(0);

/// A temporary file that is being created, until this is dropped.
struct PendingTemporary;

impl PendingTemporary {
    fn begin() -> Self {
        MAKING.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for PendingTemporary {
    fn drop(&mut self) {
        MAKING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether a folder is written to for the first time. The set of known folders is bounded.
pub(super) fn is_new_to_us(folder: &Path) -> bool {
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    let mut swept = SWEPT.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    swept.len() < FOLDERS && swept.insert(hasher.finish())
}

/// Removes files left by killed processes, the first time this process changes anything in a folder.
pub(super) fn sweep_once(folder: &Path) {
    if is_new_to_us(folder) {
        sweep(folder);
    }
}

/// Removes files left by killed processes in a folder.
fn sweep(folder: &Path) {
    let Ok(entries) = read_dir(folder) else { return };
    for entry in entries.take(ENTRIES).flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| is_temporary(n)) else { continue };
        if is_abandoned(name, &entry) {
            let _ = remove(&entry);
        }
    }
}

/// Removes a temporary file or folder. Symlinks are not followed.
pub(super) fn remove(entry: &std::fs::DirEntry) -> std::io::Result<()> {
    match entry.file_type()?.is_dir() {
        true => std::fs::remove_dir_all(entry.path()),
        false => std::fs::remove_file(entry.path()),
    }
}

/// A path in `folder` for a temporary folder, which is not created yet. If a killed process leaves it behind, the next
/// one that asks for such a path removes it.
#[must_use]
pub(crate) fn temporary_folder(folder: &Path) -> PathBuf {
    sweep(folder);
    folder.join(temporary_name())
}

/// Opens a folder for listing; retries when interrupted by a signal.
pub(crate) fn read_dir(path: impl AsRef<Path>) -> std::io::Result<std::fs::ReadDir> {
    loop {
        match std::fs::read_dir(path.as_ref()) {
            Err(e) if e.kind() == IoKind::Interrupted => {}
            opened => return opened,
        }
    }
}

/// A temporary file, removed unless it was renamed.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    moved: bool,
}

impl Temporary {
    /// A new file in `folder`.
    pub fn create(folder: &Path) -> std::io::Result<(Self, File)> {
        Self::create_with(folder, false)
    }

    /// The same, for its owner alone if `private`.
    pub(super) fn create_with(folder: &Path, private: bool) -> std::io::Result<(Self, File)> {
        let making = PendingTemporary::begin();
        loop {
            let path = folder.join(temporary_name());
            match sys::create_new(&path, private) {
                Ok(file) => {
                    let made = Self { path, moved: false };
                    let kept = open().as_mut().map(|open| open.push(made.path.clone())).is_some();
                    if !kept {
                        // The process is about to exit, and waits for this.
                        drop(made);
                        return Err(IoKind::Interrupted.into());
                    }
                    drop(making);
                    sweep_once(folder);
                    return Ok((made, file));
                }
                // Left by a process with the same PID: an earlier one, or one on another machine.
                Err(e) if e.kind() == IoKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to its final name, replacing an existing file.
    pub fn rename(&mut self, name: &Path) -> std::io::Result<()> {
        std::fs::rename(&self.path, name)?;
        self.moved = true;
        Ok(())
    }

    /// Renames the file to its final name unless that exists. Without hard links, this is a check followed by a rename.
    pub(crate) fn publish(&mut self, name: &Path) -> std::io::Result<()> {
        match std::fs::hard_link(&self.path, name) {
            Err(e) if e.kind() != IoKind::AlreadyExists && name.symlink_metadata().is_err() => {
                self.rename(name)
            }
            linked => linked,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.moved {
            // If it cannot be removed now, the next writer in this folder will.
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(open) = open().as_mut() {
            open.retain(|path| *path != self.path);
        }
    }
}

/// Gives a file that replaces the one at `path` the same mode, so that permissions are kept. The target of a symlink
/// has its own mode.
pub fn keep_mode(path: &Path, file: &File) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Ok(old) if old.is_file() => {
            let new = file.metadata()?.permissions();
            if new == old.permissions() { Ok(()) } else { file.set_permissions(old.permissions()) }
        }
        _ => Ok(()),
    }
}
