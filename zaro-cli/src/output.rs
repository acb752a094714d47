//! Where data go: standard output, or a file that appears whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use zaro::{Error, Result};

/// A buffered destination.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write>>,
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
                writer: BufWriter::with_capacity(1 << 16, Box::new(std::io::stdout())),
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
        Ok(Self { writer: BufWriter::with_capacity(1 << 16, Box::new(file)), pending })
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
