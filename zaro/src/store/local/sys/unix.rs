//! Files on Unix.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{Error as IoError, ErrorKind as IoKind, Result};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Fills `buf` from `offset` on, whatever others do with the file meanwhile.
pub(crate) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buf, offset)
}

/// Writes all of `buf` at `offset`, whatever others do with the file meanwhile.
pub(crate) fn write_all_at(file: &File, buf: &[u8], offset: u64) -> Result<()> {
    file.write_all_at(buf, offset)
}

/// Opens a file. A pipe in its place must not make us wait for a writer.
pub(crate) fn open(path: &Path) -> Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Makes a file that is not there yet, for its owner alone or for whom the process lets (`umask`).
pub(crate) fn create_new(path: &Path, private: bool) -> Result<File> {
    let mode = if private { 0o600 } else { 0o666 };
    File::options().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// Makes a folder that is not there yet, for its owner alone.
pub(crate) fn create_private_folder(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Opens a file to be locked; a link in its place is an error.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Whether a file belongs to the user of this process: the one of what it makes. Not if that cannot be told.
pub(crate) fn is_ours(meta: &Metadata) -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == meta.uid())
}

/// Device and inode.
pub(crate) fn file_id(meta: &Metadata) -> [u64; 2] {
    [meta.dev(), meta.ino()]
}

/// The same of what a path leads to, for folders.
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

/// When the content was changed last: seconds since 1970, and nanoseconds.
pub(crate) fn modified(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

/// When anything was changed last, its times too: who puts those back cannot put back this one.
pub(crate) fn changed(meta: &Metadata) -> Option<(i64, i64)> {
    Some((meta.ctime(), meta.ctime_nsec()))
}

/// How many bytes there is room for. Some file systems, most of them remote, know no size at all.
pub(crate) fn free_space(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// How many bytes a name has at most, where that is known.
pub(crate) fn longest_name(path: &Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|found| found.f_namemax)
}

/// Gives each of two folders the name of the other, in one step.
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

/// Whether an error says that folders cannot be renamed here: a mount point, or a folder above that is not ours.
pub(crate) fn cannot_rename(e: &IoError) -> bool {
    is_one_of(e, &[libc::EXDEV, libc::EBUSY, libc::EPERM, libc::EACCES, libc::EROFS])
}

/// An open folder: locked and written to the disk as such.
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

    /// Returns when the names in it are on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.0.sync_all()
    }
}

/// A lock on an open folder. Given back in so many words: closing the folder is not enough, since a child that was forked
/// meanwhile has it open, too, and would wait for itself.
pub(crate) struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Whether an error of `flock` says that there are no locks here: NFS answers EBADF for a folder, others the rest.
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
