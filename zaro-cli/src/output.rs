//! Output to standard output, or to a file that is replaced atomically.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zaro::internal::local::{Temporary, keep_mode};
use zaro::meta::Json;
use zaro::{Error, Result};

use crate::paint::{is_color, is_safe};
use crate::stdout;

/// A buffered destination.
pub(crate) struct Output {
    writer: BufWriter<File>,
    /// The file, for errors; none for standard output.
    name: Option<PathBuf>,
    /// The final name of the file, and the temporary file until then.
    pending: Option<(PathBuf, Temporary)>,
}

impl Output {
    /// Standard output, or the file at `path`.
    ///
    /// A file is written under a temporary name beside it and renamed when complete; it keeps the mode of the file it
    /// replaces. A link is followed and its target replaced. A device or a pipe is written directly.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|p| *p != Path::new("-")) else {
            let writer = BufWriter::with_capacity(1 << 16, stdout::open()?);
            return Ok(Self { writer, name: None, pending: None });
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
        let writer = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { writer, name: Some(path.to_owned()), pending })
    }

    /// Flushes everything and renames the temporary file to its final name.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()?;
        if let Some((path, mut temporary)) = self.pending.take() {
            temporary.rename(&path).map_err(|e| Error::from(e).within(path.display()))?;
        }
        Ok(())
    }
}

/// Resolves symbolic links; the file they end at need not exist.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    let mut at = path.to_owned();
    // As many as the system follows.
    for _ in 0..40 {
        match std::fs::read_link(&at) {
            Ok(to) => at = at.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(at),
        }
    }
    Err(std::io::Error::other("too many levels of symbolic links"))
}

/// An error that says which file could not be written.
fn named(name: Option<&Path>, e: std::io::Error) -> std::io::Error {
    match name {
        Some(name) => std::io::Error::new(e.kind(), format!("{}: {e}", name.display())),
        None => e,
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.writer.write(buf).map_err(|e| named(self.name.as_deref(), e))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush().map_err(|e| named(self.name.as_deref(), e))
    }
}

/// Files can seek, to fill in what was left open; standard output never can.
impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.writer.flush()?;
        if self.name.is_none() { Err(std::io::ErrorKind::NotSeekable.into()) } else { self.writer.seek(to) }
    }
}

/// Prints `text` (readable or JSON) to standard output and flushes. Control characters from untrusted data are escaped:
/// see [`safe`].
pub(crate) fn print(text: &str) -> Result<()> {
    Ok(stdout::open()?.write_all(safe(text).as_bytes())?)
}

/// Prints a report as indented JSON.
pub(crate) fn json(report: &Json) -> Result<()> {
    print(&format!("{}\n", report.pretty()))
}

/// Prints a report as JSON on one line.
pub(crate) fn json_line(report: impl Into<Json>) -> Result<()> {
    print(&format!("{}\n", report.into()))
}

/// Escapes every character that is not [safe](is_safe) as `\u001b`, which is valid in JSON, too. Newlines, tabs and our
/// own colours are kept.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    let stays = |c: char| is_safe(c) || matches!(c, '\n' | '\t');
    if text.chars().all(stays) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.char_indices() {
        if stays(c) || (c == '\x1b' && text.get(i..).is_some_and(is_color)) {
            out.push(c);
        } else {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_get_through() {
        let painted =
            |text: &str| crate::paint::Paint::stdout(crate::paint::Color::Always).blue(text).into_owned();
        assert_eq!(safe(&painted("a")), "\x1b[1;34ma\x1b[0m");
        // Hidden, which we never write.
        assert_eq!(safe("\x1b[8m"), "\\u001b[8m");
        assert_eq!(safe("\x1b]0;pwned\u{7}\x1b[2J"), "\\u001b]0;pwned\\u0007\\u001b[2J");
        assert_eq!(safe("{\"a\u{7f}\": \"\u{9b}\u{202e}\"}"), "{\"a\\u007f\": \"\\u009b\\u202e\"}");
    }
}
