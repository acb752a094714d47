//! Where data go: standard output, or a file that appears whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zaro::store::local::{Temporary, keep_mode};
use zaro::{Error, Result};

/// A buffered destination.
pub(crate) struct Output {
    writer: BufWriter<Sink>,
    /// What the file is to be called in the end, and what it is until then.
    pending: Option<(PathBuf, Temporary)>,
}

impl Output {
    /// Standard output, or the file at `path`.
    ///
    /// A file is written under another name beside it and renamed when whole; it keeps the mode of the one it replaces. A
    /// link stays, and what it leads to is replaced. A device or a pipe is written as it is.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|p| *p != Path::new("-")) else {
            return Ok(Self {
                writer: BufWriter::with_capacity(1 << 16, Sink::Stdout(std::io::stdout())),
                pending: None,
            });
        };
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let special = path.metadata().is_ok_and(|m| !m.is_file());
        let (file, pending) = if special {
            (File::options().write(true).open(path).map_err(fault)?, None)
        } else {
            let target = followed(path).map_err(fault)?;
            let folder = target.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let (temporary, file) = Temporary::create(folder).map_err(fault)?;
            keep_mode(&target, &file).map_err(fault)?;
            (file, Some((target, temporary)))
        };
        Ok(Self { writer: BufWriter::with_capacity(1 << 16, Sink::File(file)), pending })
    }

    /// Ends well: everything is written, the file gets its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.writer.flush()?;
        if let Some((path, mut temporary)) = self.pending.take() {
            temporary.rename(&path).map_err(|e| Error::from(e).within(path.display()))?;
        }
        Ok(())
    }
}

/// The file that a name leads to, through as many links as there are; it need not exist.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    let mut at = path.to_owned();
    // As many as the system follows.
    for _ in 0..40 {
        match std::fs::read_link(&at) {
            Ok(to) => at = at.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(at),
        }
    }
    Err(std::io::Error::other("the links lead in a circle"))
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

/// Writes `text` to standard output at once.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
