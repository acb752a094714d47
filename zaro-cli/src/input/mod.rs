//! What `zaro write` reads: one file a format, the way back from [`format`](crate::format).
//!
//! numpy's files and bare elements are read box by box, so that nothing larger than a box is in memory; JSON and CSV
//! are read whole, since their shape shows only at their end.

pub(crate) mod cast;
pub(crate) mod csv;
pub(crate) mod held;
pub(crate) mod json;
pub(crate) mod stream;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::ValueEnum;
use zaro::{Error, Result};

/// The formats of `--input-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// A numpy file
    Npy,
    /// The bare elements, little-endian
    Raw,
    /// One line per row
    Csv,
    /// Nested lists
    Json,
}

impl InputFormat {
    /// The format that a file's name says.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "npy" => Self::Npy,
            "raw" | "bin" => Self::Raw,
            "csv" => Self::Csv,
            "json" => Self::Json,
            _ => return None,
        })
    }
}

/// Where an input comes from.
pub(crate) enum Origin {
    /// A file, and its size: any part of it can be read.
    File(File, u64),
    /// A pipe: only what comes next can be read.
    Pipe(Box<dyn Read>),
}

impl Origin {
    /// The file at `path`; standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Pipe(Box::new(std::io::stdin().lock())));
        }
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let file = File::open(path).map_err(fault)?;
        let metadata = file.metadata().map_err(fault)?;
        if metadata.is_dir() {
            return Err(Error::usage(format!("{} is a folder, not a file of elements", path.display())));
        }
        // A named pipe or a device has no size and cannot be gone back in.
        Ok(if metadata.is_file() { Self::File(file, metadata.len()) } else { Self::Pipe(Box::new(file)) })
    }

    /// All of it.
    pub(crate) fn read_all(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::File(mut file, _) => file.read_to_end(&mut bytes)?,
            Self::Pipe(mut pipe) => pipe.read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    }
}

impl Read for Origin {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::File(file, _) => file.read(buf),
            Self::Pipe(pipe) => pipe.read(buf),
        }
    }
}
