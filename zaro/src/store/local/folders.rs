//! Moving, exchanging and removing whole folders. Each is one rename, so that nobody sees a partial state.

use std::io::{Error as IoError, ErrorKind as IoKind};
use std::path::Path;

use super::sys::{cannot_exchange, cannot_rename, exchange};
use super::temporary::temporary_folder;

/// How often the removal of a folder is retried because something was put into it.
const ATTEMPTS: usize = 1000;

/// Moves a folder into a temporary one, so that it disappears at once for everybody, and then removes it. Inside its
/// own temporary folder it is not mistaken for a node when the parent is listed. A symlink to a folder is removed, not
/// its target.
pub(super) fn put_aside_and_remove(path: &Path) -> std::io::Result<()> {
    let aside = match path.parent() {
        Some(folder) => temporary_folder(folder),
        None => return Err(IoKind::InvalidInput.into()),
    };
    if path.is_symlink() {
        return std::fs::remove_file(path);
    }
    let moved = match std::fs::create_dir(&aside) {
        // On a full disk no folder can be created, and deleting is what helps.
        Err(e) if matches!(e.kind(), IoKind::StorageFull | IoKind::QuotaExceeded) => {
            std::fs::rename(path, &aside)
        }
        made => made.and_then(|()| std::fs::rename(path, aside.join("0"))),
    };
    match moved {
        Ok(()) => remove(&aside),
        Err(e) => {
            let _ = std::fs::remove_dir(&aside);
            if e.kind() == IoKind::NotFound { Ok(()) } else { Err(e) }
        }
    }
}

/// Removes a folder. Each of several concurrent writers may add to it once more.
fn remove(folder: &Path) -> std::io::Result<()> {
    let mut removed = std::fs::remove_dir_all(folder);
    for _ in 0..ATTEMPTS {
        if !matches!(&removed, Err(e) if e.kind() == IoKind::DirectoryNotEmpty) {
            break;
        }
        removed = std::fs::remove_dir_all(folder);
    }
    removed
}

/// Renames the folder `new`, which lies somewhere inside `path`, to `path`, and removes the old one. `parent` is the
/// parent of `path`. `false` if that is not possible here: nothing has changed then.
pub(super) fn put_in_place(new: &Path, path: &Path, parent: &Path) -> std::io::Result<bool> {
    let aside = temporary_folder(parent);
    // Not the new one itself: it must not be mistaken for a node when the parent is listed.
    let moved = aside.join("0");
    let prepared = std::fs::metadata(path)
        .and_then(|old| std::fs::set_permissions(new, old.permissions()))
        .and_then(|()| std::fs::create_dir(&aside))
        .and_then(|()| std::fs::rename(new, &moved));
    if let Err(e) = prepared {
        let _ = std::fs::remove_dir(&aside);
        return if impossible(&e) { Ok(false) } else { Err(e) };
    }
    match exchange(&moved, path) {
        Ok(()) => match remove(&aside) {
            Ok(()) => Ok(true),
            Err(e) => {
                let name = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let what = format!(
                    "the replacement is in place, but the old folder, {name} beside it, cannot be deleted: {e}"
                );
                Err(IoError::new(e.kind(), what))
            }
        },
        Err(e) => {
            let back = std::fs::rename(&moved, new).and_then(|()| std::fs::remove_dir(&aside));
            if impossible(&e) && back.is_ok() { Ok(false) } else { Err(e) }
        }
    }
}

fn impossible(e: &IoError) -> bool {
    cannot_exchange(e) || cannot_rename(e)
}

/// Renames the folder `new` to `path`, replacing and removing the old one. Where the file system can exchange names,
/// one of them exists at every moment.
pub(crate) fn replace_folder(new: &Path, path: &Path) -> std::io::Result<()> {
    if !path.exists() {
        return std::fs::rename(new, path);
    }
    match exchange(new, path) {
        Err(e) if cannot_exchange(&e) => {
            let old = path.with_extension(format!("{}.old", std::process::id()));
            std::fs::rename(path, &old)?;
            std::fs::rename(new, path)?;
            std::fs::remove_dir_all(old)
        }
        exchanged => exchanged.and_then(|()| std::fs::remove_dir_all(new)),
    }
}
