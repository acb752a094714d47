//! File operations on Unix.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{Error as IoError, ErrorKind as IoKind, Result};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Fills `buf` from `offset` on, independently of other users of the file.
pub(crate) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buf, offset)
}

/// Writes all of `buf` at `offset`, independently of other users of the file.
pub(crate) fn write_all_at(file: &File, buf: &[u8], offset: u64) -> Result<()> {
    file.write_all_at(buf, offset)
}

/// Opens a file; a named pipe in its place does not block.
pub(crate) fn open(path: &Path) -> Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Creates a new file, readable by its owner alone or as the `umask` allows.
pub(crate) fn create_new(path: &Path, private: bool) -> Result<File> {
    let mode = if private { 0o600 } else { 0o666 };
    File::options().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// Creates a new folder for its owner alone.
pub(crate) fn create_private_folder(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Opens a lock file; a symlink in its place is an error.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Whether a file belongs to the user of this process; `false` if unknown.
pub(crate) fn is_ours(meta: &Metadata) -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == meta.uid())
}

/// Device and inode.
pub(crate) fn file_id(meta: &Metadata) -> [u64; 2] {
    [meta.dev(), meta.ino()]
}

/// The same for a path, following symlinks.
pub(crate) fn id_at(path: &Path) -> Result<[u64; 2]> {
    std::fs::metadata(path).map(|meta| file_id(&meta))
}

/// Whether an open file is still the one at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(a), Ok(b)) => file_id(&a) == file_id(&b),
        _ => false,
    }
}

/// Last modification of the content: seconds since 1970, and nanoseconds.
pub(crate) fn modified(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

/// Last change of content or metadata (ctime), which cannot be set back.
pub(crate) fn changed(meta: &Metadata) -> Option<(i64, i64)> {
    Some((meta.ctime(), meta.ctime_nsec()))
}

/// Free space in bytes. Some file systems, mostly remote ones, report none.
pub(crate) fn free_space(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Maximum length of a file name in bytes, where known.
pub(crate) fn longest_name(path: &Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|found| found.f_namemax)
}

/// Exchanges the names of two folders atomically.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn exchange(one: &Path, other: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) fn exchange(_: &Path, _: &Path) -> Result<()> {
    Err(IoKind::Unsupported.into())
}

fn is_one_of(e: &IoError, codes: &[i32]) -> bool {
    e.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Whether an error says that the file system, such as NFS, cannot exchange names.
pub(crate) fn cannot_exchange(e: &IoError) -> bool {
    e.kind() == IoKind::Unsupported || is_one_of(e, &[libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP])
}

/// Whether an error says that folders cannot be renamed here: a mount point, or no permission in the parent.
pub(crate) fn cannot_rename(e: &IoError) -> bool {
    is_one_of(e, &[libc::EXDEV, libc::EBUSY, libc::EPERM, libc::EACCES, libc::EROFS])
}

/// An open folder, for locking and syncing.
#[derive(Debug)]
pub(crate) struct Folder(File);

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        File::open(path).map(Self)
    }

    /// Locks it; `None` if its file system has no such locks.
    pub(crate) fn lock(&self, exclusive: bool) -> Result<Option<Locked<'_>>> {
        loop {
            let tried = if exclusive { self.0.lock() } else { self.0.lock_shared() };
            return match tried {
                Ok(()) => Ok(Some(Locked(&self.0))),
                Err(e) if e.kind() == IoKind::Interrupted => continue,
                Err(e) if lockless(&e) => Ok(None),
                Err(e) => Err(e),
            };
        }
    }

    /// Syncs the names in it to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.0.sync_all()
    }
}

/// A lock on an open folder. Released explicitly: closing the folder is not enough, since a child forked meanwhile has
/// it open too and would wait for itself.
pub(crate) struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Whether an error of `flock` means that locks are not supported: NFS answers EBADF for a folder, others the rest.
fn lockless(e: &IoError) -> bool {
    let codes = [
        libc::EOPNOTSUPP,
        libc::ENOTSUP,
        libc::ENOLCK,
        libc::ENOSYS,
        libc::EBADF,
        libc::EINVAL,
        libc::EISDIR,
    ];
    e.kind() == IoKind::Unsupported || is_one_of(e, &codes)
}
