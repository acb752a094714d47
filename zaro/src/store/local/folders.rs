//! Whole folders: put aside, exchanged, removed. Each of these is one rename, so that nobody sees half of it.

use std::io::{Error as IoError, ErrorKind as IoKind};
use std::path::Path;

use super::sys::{cannot_exchange, cannot_rename, exchange};
use super::temporary::temporary_folder;

/// How often a folder is removed anew because somebody put something into it.
const ATTEMPTS: usize = 1000;

/// Moves a folder into a temporary one, so that it is gone at once for everybody, and then removes it. In a folder of its
/// own it is not taken for a node by who lists the one above. A link to a folder is removed, not what it leads to.
pub(super) fn put_aside_and_remove(path: &Path) -> std::io::Result<()> {
    let aside = match path.parent() {
        Some(folder) => temporary_folder(folder),
        None => return Err(IoKind::InvalidInput.into()),
    };
    if path.is_symlink() {
        return std::fs::remove_file(path);
    }
    let moved = match std::fs::create_dir(&aside) {
        // On a full disk there is no room for a folder, and a deletion is what helps.
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

/// Removes a folder. Somebody in the middle of a put may add to it once more, each of many writers once.
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

/// Gives the folder at `new`, which lies somewhere in the one at `path`, the name `path`, and removes the one that had
/// it. `parent` is what `path` lies in. `false` if that is not possible here: nothing has changed then.
pub(super) fn put_in_place(new: &Path, path: &Path, parent: &Path) -> std::io::Result<bool> {
    let aside = temporary_folder(parent);
    // Not the new one itself: nobody who lists the folder above is to take it for a node.
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
                    "the new is in its place, but what it replaced, {name} beside it, cannot be deleted: {e}"
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

/// Gives the folder at `new` the name `path`, in the place of one that has it and is removed then. At every moment one of
/// them has the name, where the file system can exchange names.
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
