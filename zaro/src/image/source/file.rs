//! Files that are read at places. They are opened for each read, so that ten thousand of them can be one image.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Hint, Result, invalid, unsupported};
use crate::num;
use crate::store::local::sys::read_exact_at;

/// A file that is there.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) len: u64,
}

impl SourceFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let at = |e: std::io::Error| Error::from(e).with_store(path.display());
        let meta = std::fs::metadata(path).map_err(at)?;
        if meta.is_dir() {
            let is_zarr = ["zarr.json", ".zgroup", ".zarray"].iter().any(|name| path.join(name).exists());
            let e = match is_zarr {
                true => Error::usage("this is a Zarr already")
                    .or_hint(Hint::operation("image pyramid", "makes an image of an array"))
                    .or_hint(Hint::operation("image upgrade", "another version of an image"))
                    .or_hint(Hint::operation("copy", "other chunks")),
                false => Error::usage(
                    "this is a folder; name the files in it, such as 'FOLDER/*.tif' or 'FOLDER/img_z{z}.tif'",
                ),
            };
            return Err(e.with_store(path.display()));
        }
        if !meta.is_file() {
            return Err(
                Error::usage("this is not a file that can be read at any place").with_store(path.display())
            );
        }
        Ok(Self { path: path.to_owned(), len: meta.len() })
    }

    pub(super) fn handle(&self) -> Result<Handle> {
        let file = File::open(&self.path).map_err(|e| Error::from(e).with_store(self.path.display()))?;
        Ok(Handle { file, len: self.len })
    }

    /// The first bytes, at most `n`.
    pub(super) fn head(&self, n: usize) -> Result<Vec<u8>> {
        let n = num::usize_of(self.len.min(num::u64_of(n)))?;
        self.handle()?.bytes(0, n)
    }

    /// All of it, if it is not beyond `limit`.
    pub(super) fn whole(&self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(unsupported!("files of this kind with more than {limit} bytes are not supported"));
        }
        self.handle()?.bytes(0, num::usize_of(self.len)?)
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    file: File,
    pub(super) len: u64,
}

impl Handle {
    /// Fails if bytes lie outside the file.
    pub(super) fn check(&self, offset: u64, length: u64) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(invalid!("bytes {offset}+{length} lie outside the file, which has {}", self.len)),
        }
    }

    /// `length` bytes, which must be in the file before memory is taken for them.
    pub(super) fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.check(offset, num::u64_of(length))?;
        let mut out = vec![0; length];
        read_exact_at(&self.file, &mut out, offset)?;
        Ok(out)
    }
}
