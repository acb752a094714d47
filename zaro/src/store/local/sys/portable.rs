//! File operations on any system, with the standard library only. Untested except for the tests below, which run on
//! Unix.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Error as IoError, ErrorKind as IoKind, Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Held while moving the position of a file and then using it.
fn position() -> MutexGuard<'static, ()> {
    static POSITION: Mutex<()> = Mutex::new(());
    POSITION.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read_exact_at(mut file: &File, buf: &mut [u8], offset: u64) -> Result<()> {
    let _position = position();
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buf)
}

pub(crate) fn write_all_at(mut file: &File, buf: &[u8], offset: u64) -> Result<()> {
    let _position = position();
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(buf)
}

/// Some systems refuse to open a folder with an unspecific error.
pub(crate) fn open(path: &Path) -> Result<File> {
    if path.is_dir() { Err(IoKind::IsADirectory.into()) } else { File::open(path) }
}

/// Permissions are inherited from the parent folder.
pub(crate) fn create_new(path: &Path, _private: bool) -> Result<File> {
    File::options().read(true).write(true).create_new(true).open(path)
}

pub(crate) fn create_private_folder(path: &Path) -> Result<()> {
    std::fs::create_dir(path)
}

pub(crate) fn open_lock(path: &Path) -> Result<File> {
    if path.is_symlink() {
        return Err(IoKind::InvalidInput.into());
    }
    File::options().write(true).open(path)
}

/// Not known here, so always `false`.
pub(crate) fn is_ours(_: &Metadata) -> bool {
    false
}

/// The creation time: another file in its place has another one.
pub(crate) fn file_id(meta: &Metadata) -> [u64; 2] {
    let (seconds, nanos) = meta.created().map_or((0, 0), since_1970);
    [seconds.unsigned_abs(), nanos.unsigned_abs()]
}

/// A hash of the path with symlinks resolved.
pub(crate) fn id_at(path: &Path) -> Result<[u64; 2]> {
    let mut hasher = DefaultHasher::new();
    path.canonicalize()?.hash(&mut hasher);
    Ok([0, hasher.finish()])
}

pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(a), Ok(b)) => file_id(&a) == file_id(&b) && a.len() == b.len(),
        _ => false,
    }
}

pub(crate) fn modified(meta: &Metadata) -> (i64, i64) {
    meta.modified().map_or((0, 0), since_1970)
}

/// Not known: the caller has to read the file.
pub(crate) fn changed(_: &Metadata) -> Option<(i64, i64)> {
    None
}

fn since_1970(time: SystemTime) -> (i64, i64) {
    let (before, span) = match time.duration_since(UNIX_EPOCH) {
        Ok(span) => (false, span),
        Err(e) => (true, e.duration()),
    };
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let nanos = i64::from(span.subsec_nanos());
    match (before, nanos) {
        (false, _) => (seconds, nanos),
        (true, 0) => (-seconds, 0),
        (true, _) => (-1 - seconds, 1_000_000_000 - nanos),
    }
}

pub(crate) fn free_space(_: &Path) -> Option<u64> {
    None
}

pub(crate) fn longest_name(_: &Path) -> Option<u64> {
    None
}

pub(crate) fn exchange(_: &Path, _: &Path) -> Result<()> {
    Err(IoKind::Unsupported.into())
}

pub(crate) fn cannot_exchange(e: &IoError) -> bool {
    e.kind() == IoKind::Unsupported
}

pub(crate) fn cannot_rename(e: &IoError) -> bool {
    matches!(
        e.kind(),
        IoKind::CrossesDevices | IoKind::ResourceBusy | IoKind::PermissionDenied | IoKind::ReadOnlyFilesystem
    )
}

/// An existing folder. Without locks, operations that need one are refused.
#[derive(Debug)]
pub(crate) struct Folder;

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match std::fs::metadata(path)?.is_dir() {
            true => Ok(Self),
            false => Err(IoKind::NotADirectory.into()),
        }
    }

    pub(crate) fn lock(&self, _exclusive: bool) -> Result<Option<()>> {
        Ok(None)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// Both halves behave the same where both work.
#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::unix;
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_and_writes_anywhere_and_by_many_threads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = create_new(&path, true).unwrap();
        assert_eq!(create_new(&path, false).unwrap_err().kind(), IoKind::AlreadyExists);
        for n in (0..64u8).rev() {
            write_all_at(&file, &[n; 100], u64::from(n) * 100).unwrap();
        }
        std::thread::scope(|s| {
            for n in 0..64u8 {
                let (file, reader) = (&file, unix::open(&path).unwrap());
                s.spawn(move || {
                    let (mut a, mut b) = ([0; 100], [0; 100]);
                    read_exact_at(file, &mut a, u64::from(n) * 100).unwrap();
                    unix::read_exact_at(&reader, &mut b, u64::from(n) * 100).unwrap();
                    assert_eq!((a, b), ([n; 100], [n; 100]));
                });
            }
        });
        let end = read_exact_at(&file, &mut [0; 2], 6399).unwrap_err();
        assert_eq!(end.kind(), IoKind::UnexpectedEof);
        assert!(is_at(&file, &path) && unix::is_at(&file, &path));
    }

    #[test]
    fn files_and_folders_are_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let (file, folder) = (dir.path().join("f"), dir.path().join("d"));
        std::fs::write(&file, "x").unwrap();
        create_private_folder(&folder).unwrap();
        std::os::unix::fs::symlink("d", dir.path().join("l")).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!(modified(&meta), unix::modified(&meta));
        assert_eq!(file_id(&meta), file_id(&file.metadata().unwrap()));
        assert_eq!(id_at(&folder).unwrap(), id_at(&dir.path().join("l")).unwrap());
        assert_ne!(id_at(&folder).unwrap(), id_at(dir.path()).unwrap());
        assert!(open_lock(&dir.path().join("l")).is_err() && unix::open_lock(&dir.path().join("l")).is_err());
        assert!(Folder::open(&folder).unwrap().lock(true).is_ok_and(|locked| locked.is_none()));
        assert_eq!(Folder::open(&file).unwrap_err().kind(), IoKind::NotADirectory);
        assert!(Folder::open(&dir.path().join("none")).is_err_and(|e| e.kind() == IoKind::NotFound));
        let e = exchange(&folder, &file).unwrap_err();
        assert!(cannot_exchange(&e) && unix::cannot_exchange(&e));
    }

    #[test]
    fn times_before_1970_count_on() {
        let half = Duration::from_millis(500);
        assert_eq!(since_1970(UNIX_EPOCH + half), (0, 500_000_000));
        assert_eq!(since_1970(UNIX_EPOCH - half), (-1, 500_000_000));
        assert_eq!(since_1970(UNIX_EPOCH - Duration::from_secs(3)), (-3, 0));
    }
}
