//! Temporary files: how they are called, whose they are, and who removes them.
//!
//! A file that must appear whole is written under a name of its own beside its place. It is removed when it is not
//! needed, also when a signal ends the process ([`remove_temporaries`]). What a process that was killed left is removed by
//! the next that writes to the same folder, or deletes in it: by the name one can tell whose it was.

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

/// A temporary file this old belongs to nobody any more.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// How many entries of a folder are looked at for what others left, and how many folders.
const ENTRIES: usize = 10_000;
const FOLDERS: usize = 1 << 16;

const START: &str = ".zaro-";
const END: &str = ".tmp";

/// Whether a name is that of a temporary file or folder: `.zaro-….tmp`. Nothing of that name is content.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(START) && name.ends_with(END)
}

/// A new name: `.zaro-PID-NUMBER-HOME.tmp`, where the last says in which of all systems the process is.
pub(super) fn temporary_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{START}{}-{number}-{}{END}", std::process::id(), *HOME)
}

/// What tells the processes of this machine, since it was started and in this container, from all others.
static HOME: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    machine().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// Whether nobody will finish a temporary file: its process is no more, or it is a day old. Of processes elsewhere only
/// the age tells.
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

/// The temporary files of this process that are there; `None` when no more may be made. Those of its parent are not its own.
fn open() -> MutexGuard<'static, Option<Vec<PathBuf>>> {
    static OPEN: PerProcess<Mutex<Option<Vec<PathBuf>>>> = PerProcess::new();
    OPEN.get(|| Mutex::new(Some(Vec::new()))).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folders that were swept, or made by this process, by their hashes.
static SWEPT: PerProcess<Mutex<HashSet<u64>>> = PerProcess::new();

/// Removes all temporary files of this process, and lets no more be made: for one that ends at once, whatever its threads
/// are doing.
pub fn remove_temporaries() {
    let open = open().take();
    // A file that is being made at this moment is removed by who makes it.
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

/// How many temporary files are being made, and are not in the list yet.
static MAKING: AtomicU64 = AtomicU64::new(0);

/// One that is being made, until this is dropped.
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

/// Whether this is the first time that a folder is written to. Of too many nothing is kept.
pub(super) fn is_new_to_us(folder: &Path) -> bool {
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    let mut swept = SWEPT.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    swept.len() < FOLDERS && swept.insert(hasher.finish())
}

/// Removes what killed processes left in a folder, the first time that this process changes anything there.
pub(super) fn sweep_once(folder: &Path) {
    if is_new_to_us(folder) {
        sweep(folder);
    }
}

/// Removes what killed processes left in a folder.
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

/// Removes a temporary file or folder. What a link leads to is not ours.
pub(super) fn remove(entry: &std::fs::DirEntry) -> std::io::Result<()> {
    match entry.file_type()?.is_dir() {
        true => std::fs::remove_dir_all(entry.path()),
        false => std::fs::remove_file(entry.path()),
    }
}

/// A path in `folder` for a temporary folder, which is not made yet. Left there by a killed process, it is removed by the
/// next that asks for one.
#[must_use]
pub(crate) fn temporary_folder(folder: &Path) -> PathBuf {
    sweep(folder);
    folder.join(temporary_name())
}

/// Opens a folder to be listed. A signal is no fault, though the library of the system says so.
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
                        // The process is about to end, and waits for this.
                        drop(made);
                        return Err(IoKind::Interrupted.into());
                    }
                    drop(making);
                    sweep_once(folder);
                    return Ok((made, file));
                }
                // Of a process with our number: an earlier one, or one on another machine.
                Err(e) if e.kind() == IoKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, replacing what has it.
    pub fn rename(&mut self, name: &Path) -> std::io::Result<()> {
        std::fs::rename(&self.path, name)?;
        self.moved = true;
        Ok(())
    }

    /// Gives the file its name, unless that is taken. Not every file system has links: there it is a look and a rename.
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
            // What cannot be removed now is left to the next that writes here.
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(open) = open().as_mut() {
            open.retain(|path| *path != self.path);
        }
    }
}

/// Gives a file that is to replace the one at `path` its mode: what was private stays so, and what others may write, too.
/// What a link leads to has a mode of its own.
pub fn keep_mode(path: &Path, file: &File) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Ok(old) if old.is_file() => {
            let new = file.metadata()?.permissions();
            if new == old.permissions() { Ok(()) } else { file.set_permissions(old.permissions()) }
        }
        _ => Ok(()),
    }
}
