//! A spool buffer: in memory while small, in an anonymous temporary file when large.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// More than this is moved to disk.
const IN_MEMORY: usize = 1 << 20;

/// Bytes to be read again, once, from the beginning.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    buffer: Vec<u8>,
    file: Option<File>,
}

fn fault(e: std::io::Error) -> Error {
    Error::from(e).within("a temporary file")
}

/// An anonymous temporary file, which is deleted when the process ends, however it ends.
pub(crate) fn nameless() -> Result<File> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let folder = std::env::temp_dir();
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".zaro-{}-spool{number}.tmp", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path).map_err(fault)?;
                return Ok(file);
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(fault(e)),
        }
    }
}

impl Spool {
    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.file.is_none()
    }

    /// The buffer to append to. Call [`Spool::settle`] now and then.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Moves the buffer to disk if it has become large.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.buffer.len() < IN_MEMORY {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        file.write_all(&self.buffer).map_err(fault)?;
        self.buffer.clear();
        Ok(())
    }

    /// Passes all bytes in blocks, in order, and clears the spool.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if let Some(mut file) = self.file.take() {
            file.rewind().map_err(fault)?;
            let mut piece = vec![0; 1 << 18];
            loop {
                let n = file.read(&mut piece).map_err(fault)?;
                if n == 0 {
                    break;
                }
                take(piece.get(..n).unwrap_or_default())?;
            }
        }
        take(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_comes_back_as_it_went() {
        let mut spool = Spool::default();
        assert!(spool.is_empty());
        let mut wanted = Vec::new();
        for i in 0..300_000u32 {
            spool.buffer().extend_from_slice(&i.to_le_bytes());
            wanted.extend_from_slice(&i.to_le_bytes());
            spool.settle().unwrap();
        }
        assert!(spool.file.is_some() && spool.buffer.len() < IN_MEMORY);
        let mut found = Vec::new();
        let keep = |piece: &[u8]| {
            found.extend_from_slice(piece);
            Ok(())
        };
        spool.drain(keep).unwrap();
        assert!(found == wanted);
        assert!(spool.is_empty());
    }
}
