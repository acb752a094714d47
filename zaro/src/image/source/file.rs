//! Input files read at offsets. They are opened for each read, so that an image can have more files than open handles.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Hint, Result, invalid, unsupported};
use crate::num;
use crate::store::local::sys::read_exact_at;

/// An existing file.
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
                true => Error::usage("this is already a Zarr")
                    .or_hint(Hint::operation("image pyramid", "converts an array to an image"))
                    .or_hint(Hint::operation("image upgrade", "converts an image to another version"))
                    .or_hint(Hint::operation("copy", "changes chunks")),
                false => Error::usage(
                    "this is a directory; give the files in it, such as 'DIR/*.tif' or 'DIR/img_z{z}.tif'",
                ),
            };
            return Err(e.with_store(path.display()));
        }
        if !meta.is_file() {
            return Err(Error::usage("this is not a seekable file").with_store(path.display()));
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

    /// Reads the whole file; an error if it is larger than `limit`.
    pub(super) fn whole(&self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(unsupported!("files of this type larger than {limit} bytes are not supported"));
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
    /// Fails if a range is outside the file.
    pub(super) fn check(&self, offset: u64, length: u64) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(invalid!("bytes {offset}+{length} are outside the file, which has {}", self.len)),
        }
    }

    /// Reads `length` bytes; checks that they are in the file before allocating memory.
    pub(super) fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.check(offset, num::u64_of(length))?;
        let mut out = vec![0; length];
        read_exact_at(&self.file, &mut out, offset)?;
        Ok(out)
    }
}
