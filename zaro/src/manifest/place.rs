//! Locations of manifest files, and storing them atomically.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::digest::Digest;
use super::parse;
use crate::error::{Error, Result, usage};
use crate::store::local::sys::Folder;
use crate::store::local::{Temporary, keep_mode};

/// The folder of all manifests.
pub(crate) const FOLDER: &str = "zarr-manifest";

/// Checks the id of a Zarr: at least six characters, only letters, digits, `-`, `_` and `.`, and no leading dot, which
/// would hide the folder. The archive's are UUIDs.
pub fn check_zarr_id(id: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if id.len() < 6 || id.len() > 255 || id.starts_with('.') || id.contains("..") || !id.bytes().all(plain) {
        return Err(usage!("{id:?} is not a Zarr id, such as a UUID"));
    }
    Ok(())
}

/// The folder of a Zarr's manifests: `zarr-manifest/{dir1}/{dir2}/{id}`.
pub(crate) fn folder_of(id: &str) -> Result<String> {
    check_zarr_id(id)?;
    let (first, second) = (id.get(..3).unwrap_or_default(), id.get(3..6).unwrap_or_default());
    Ok(format!("{FOLDER}/{first}/{second}/{id}"))
}

/// The key of a manifest: `zarr-manifest/{dir1}/{dir2}/{id}/{checksum}.json`.
pub fn key_of(id: &str, checksum: &Digest) -> Result<String> {
    Ok(format!("{}/{checksum}.json", folder_of(id)?))
}

/// The checksum in the file name of a manifest's address, if it is one: `…/{checksum}.json`.
#[must_use]
pub fn checksum_in(address: &str) -> Option<Digest> {
    let address = address.split(['?', '#']).next().unwrap_or(address);
    Digest::parse(address.rsplit('/').next()?.strip_suffix(".json")?)
}

/// The outcome of storing a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was created.
    New,
    /// One with this checksum already existed and was kept.
    Kept,
    /// In a bucket: one with this checksum was replaced because it lists objects that are gone, or no versions though
    /// there are some; or something else was replaced on request.
    Replaced,
}

impl Stored {
    /// `new`, `kept` or `replaced`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Kept => "kept",
            Self::Replaced => "replaced",
        }
    }
}

/// Stores a manifest at `path` atomically and durably, creating its folders. An existing one with the same checksum is
/// kept; anything else in its place is an error, unless `replace`.
pub fn store(
    path: &Path,
    checksum: &Digest,
    replace_other: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<Stored> {
    if path.symlink_metadata().is_ok() {
        if holds(path, checksum) {
            return Ok(Stored::Kept);
        }
        if !replace_other {
            return Err(occupied(path));
        }
        replace(path, write)?;
        return Ok(Stored::New);
    }
    let (folder, mut temporary) = written(path, write)?;
    match temporary.publish(path) {
        Ok(()) => {}
        // Somebody else was faster.
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            return if holds(path, checksum) { Ok(Stored::Kept) } else { Err(occupied(path)) };
        }
        Err(e) => return Err(Error::from(e).within(path.display())),
    }
    drop(temporary);
    folder.sync().map_err(|e| Error::from(e).within(path.display()))?;
    Ok(Stored::New)
}

/// Replaces the file at `path` atomically.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut new = PendingFile::begin(path)?;
    write(&mut new.out)?;
    new.replace(path)
}

/// A temporary file in the folder of `path`, written and synced.
fn written(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<(Folder, Temporary)> {
    let mut new = PendingFile::begin(path)?;
    write(&mut new.out)?;
    new.settle(path)
}

/// A file that is being written under a temporary name.
pub(crate) struct PendingFile {
    temporary: Temporary,
    pub(crate) out: BufWriter<File>,
}

impl PendingFile {
    /// In the folder of `path`.
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        let folder = folder(path);
        let made = std::fs::create_dir_all(folder).and_then(|()| Temporary::create(folder));
        let (temporary, file) = made.map_err(|e| Error::from(e).within(path.display()))?;
        Ok(Self { temporary, out: BufWriter::with_capacity(1 << 17, file) })
    }

    fn settle(self, path: &Path) -> Result<(Folder, Temporary)> {
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let file = self.out.into_inner().map_err(|e| fault(e.into_error()))?;
        keep_mode(path, &file).map_err(fault)?;
        file.sync_all().map_err(fault)?;
        Ok((Folder::open(folder(path)).map_err(fault)?, self.temporary))
    }

    /// Renames it to `path`, replacing what is there.
    pub(crate) fn replace(self, path: &Path) -> Result<()> {
        let (folder, mut temporary) = self.settle(path)?;
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        temporary.rename(path).map_err(fault)?;
        folder.sync().map_err(fault)
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// Whether the file is a valid manifest with this checksum.
fn holds(path: &Path, checksum: &Digest) -> bool {
    let read = || parse(File::open(path)?)?.checksum();
    read().is_ok_and(|found| found == *checksum)
}

fn occupied(path: &Path) -> Error {
    Error::conflict("something else exists in the place of the manifest; it was left unchanged")
        .with_hint("replace", "replaces it")
        .with_store(path.display())
}
