//! Where data go: standard output, or a file that appears whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zaro::{Error, Result};

/// A buffered destination.
pub(crate) struct Output {
    writer: BufWriter<Sink>,
    /// What the file is to be called in the end, and what it is called until then.
    pending: Option<(PathBuf, PathBuf)>,
}

impl Output {
    /// Standard output, or the file at `path`.
    ///
    /// A file is written under another name beside it and renamed when whole. A device or a pipe is written as it is.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|p| *p != Path::new("-")) else {
            return Ok(Self {
                writer: BufWriter::with_capacity(1 << 16, Sink::Stdout(std::io::stdout())),
                pending: None,
            });
        };
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let special = path.metadata().is_ok_and(|m| !m.is_file());
        let (target, pending) = if special {
            (path.to_owned(), None)
        } else {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.part", std::process::id()));
            let part = path.with_file_name(name);
            (part.clone(), Some((path.to_owned(), part)))
        };
        let file = File::create(&target).map_err(fault)?;
        Ok(Self { writer: BufWriter::with_capacity(1 << 16, Sink::File(file)), pending })
    }

    /// Ends well: everything is written, the file gets its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.writer.flush()?;
        if let Some((path, part)) = self.pending.take() {
            std::fs::rename(&part, &path).map_err(|e| Error::from(e).within(path.display()))?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.writer.write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

/// Back to where something has to be filled in; files can, pipes cannot.
impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.writer.seek(to)
    }
}

/// What is behind the buffer.
enum Sink {
    Stdout(std::io::Stdout),
    File(File),
}

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(buf),
            Self::File(file) => file.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

impl Seek for Sink {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        match self {
            Self::Stdout(_) => Err(std::io::ErrorKind::NotSeekable.into()),
            Self::File(file) => file.seek(to),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((_, part)) = &self.pending {
            // Half a file is worse than none.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Writes `text` to standard output at once.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
