//! Raw elements, little-endian without a header: written, and read window by window from a file or a pipe.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::{Layout, Sink};
use crate::array::windows::ArrayWindow;
use crate::array::{Order, Slab};
use crate::error::{Error, Result, invalid, usage};
use crate::meta::DataType;
use crate::meta::dtype::Endian;
use crate::meta::typestr::TypeStr;
use crate::num;

/// Writes raw elements.
#[derive(Debug, Default)]
pub struct Raw;

impl Sink for Raw {
    fn begin(&mut self, layout: &Layout, _: &mut dyn Write) -> Result<()> {
        if layout.data_type.is_variable() {
            return Err(no_fixed_size(&layout.data_type, "raw"));
        }
        Ok(())
    }

    fn block(&mut self, block: &Slab, out: &mut dyn Write) -> Result<()> {
        Ok(out.write_all(&block.bytes)?)
    }
}

pub(super) fn no_fixed_size(t: &DataType, form: &str) -> Error {
    usage!("elements of type {t} have no fixed size, so they cannot be written {form}")
        .with_hint("format", "json or csv writes them")
}

/// The source of elements.
pub enum RawOrigin {
    /// A file and its size; seekable.
    File(File, u64),
    /// A pipe; sequential.
    Pipe(Box<dyn Read + Send>),
}

impl std::fmt::Debug for RawOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::File(..)) { "File" } else { "Pipe" })
    }
}

impl RawOrigin {
    /// The file at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let file = File::open(path).map_err(fault)?;
        let metadata = file.metadata().map_err(fault)?;
        if metadata.is_dir() {
            return Err(usage!("{} is a directory, not a file", path.display()));
        }
        // A named pipe or a device has no size and is not seekable.
        Ok(if metadata.is_file() { Self::File(file, metadata.len()) } else { Self::Pipe(Box::new(file)) })
    }

    /// Reads all of it.
    pub fn read_all(mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for RawOrigin {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::File(file, _) => file.read(buf),
            Self::Pipe(pipe) => pipe.read(buf),
        }
    }
}

/// Elements of a fixed size, in a shape and an order.
#[derive(Debug)]
pub struct Stream {
    origin: RawOrigin,
    /// The byte at which the elements begin.
    begin: u64,
    /// The type, and the byte order of its numbers.
    stored: TypeStr,
    data_type: DataType,
    /// The order of the elements.
    pub order: Order,
    /// The extents.
    pub shape: Vec<u64>,
    /// Bytes of elements that a pipe has still to give.
    left: u64,
}

impl Stream {
    /// Elements at offset `begin` of the origin, which has been read that far. A file must hold all of them and, if
    /// `exact`, nothing else.
    pub fn new(
        origin: RawOrigin,
        begin: u64,
        stored: TypeStr,
        order: Order,
        shape: Vec<u64>,
        exact: bool,
    ) -> Result<Self> {
        let data_type = stored.fixed()?.clone();
        let wanted = num::product(&shape)?.checked_mul(num::u64_of(data_type.size()));
        let wanted = wanted.ok_or_else(|| invalid!("{shape:?} of {data_type} is too large for any file"))?;
        if let RawOrigin::File(_, size) = &origin {
            let held = size.saturating_sub(begin);
            if held < wanted || (exact && held != wanted) {
                return Err(usage!(
                    "the input has {held} bytes of elements, but {shape:?} of {data_type} needs {wanted}"
                ));
            }
        }
        Ok(Self { origin, begin, stored, data_type, order, shape, left: wanted })
    }

    /// Whether any part can be read; else only the next.
    #[must_use]
    pub fn is_seekable(&self) -> bool {
        matches!(self.origin, RawOrigin::File(..))
    }

    /// Reads a window, little-endian, in the stream's order. Windows of a pipe must be read in sequence.
    pub fn read(&mut self, window: &ArrayWindow) -> Result<Vec<u8>> {
        let size = self.data_type.size();
        let count = num::product_usize(&window.shape())?;
        let length =
            count.checked_mul(size).ok_or_else(|| Error::invalid("the window is too large for memory"))?;
        let mut bytes = vec![0; length];
        match &mut self.origin {
            RawOrigin::Pipe(pipe) => {
                pipe.read_exact(&mut bytes).map_err(short)?;
                self.left = self.left.saturating_sub(num::u64_of(length));
                if self.left == 0 {
                    // Before the last of it is used.
                    self.end()?;
                }
            }
            RawOrigin::File(file, _) => {
                for (from, out) in runs(&self.shape, window, self.order, size)?.zip_with(&mut bytes) {
                    file.seek(SeekFrom::Start(self.begin.saturating_add(from)))?;
                    file.read_exact(out).map_err(short)?;
                }
            }
        }
        if self.stored.endian != Some(Endian::Little) && self.data_type.has_byte_order() {
            for element in bytes.chunks_exact_mut(size.max(1)) {
                self.stored.swap(element);
            }
        }
        Ok(bytes)
    }

    /// Fails if a pipe has more bytes than expected.
    pub fn end(&mut self) -> Result<()> {
        let mut one = [0u8];
        if let RawOrigin::Pipe(pipe) = &mut self.origin
            && pipe.read(&mut one)? > 0
        {
            let message =
                format!("the input has more bytes than {:?} of {} needs", self.shape, self.data_type);
            return Err(Error::usage(message));
        }
        Ok(())
    }
}

fn short(e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::usage("the input ends before all elements were read"),
        _ => e.into(),
    }
}

/// Contiguous runs of bytes, all of one length.
struct Runs {
    /// The position in the outer dimensions of the box, slowest first.
    at: Vec<u64>,
    /// For each outer dimension: its length and stride in bytes.
    outer: Vec<(u64, u64)>,
    first: u64,
    length: usize,
}

/// The runs of a box of elements of `size` bytes, in order.
fn runs(shape: &[u64], window: &ArrayWindow, order: Order, size: usize) -> Result<Runs> {
    let mut dims: Vec<(u64, u64, u64)> =
        shape.iter().zip(&window.0).map(|(n, (from, count))| (*n, *from, *count)).collect();
    if order == Order::F {
        dims.reverse();
    }
    let mut stride = num::u64_of(size);
    let (mut first, mut length, mut whole) = (0u64, stride, true);
    let mut outer = Vec::new();
    let too_large = || Error::invalid("the file would exceed 2^64 bytes");
    for (n, from, count) in dims.into_iter().rev() {
        first = from.checked_mul(stride).and_then(|b| b.checked_add(first)).ok_or_else(too_large)?;
        if whole {
            length = length.checked_mul(count).ok_or_else(too_large)?;
        } else {
            outer.push((count, stride));
        }
        // Slower dimensions are contiguous only if all of this one is selected.
        whole &= count == n;
        stride = stride.checked_mul(n).ok_or_else(too_large)?;
    }
    outer.reverse();
    Ok(Runs { at: vec![0; outer.len()], outer, first, length: num::usize_of(length)? })
}

impl Runs {
    /// Pairs each run's offset with its part of `bytes`.
    fn zip_with(mut self, bytes: &mut [u8]) -> impl Iterator<Item = (u64, &mut [u8])> {
        bytes.chunks_exact_mut(self.length.max(1)).map(move |out| {
            let steps = self.at.iter().zip(&self.outer).map(|(i, (_, stride))| i.saturating_mul(*stride));
            let from = steps.fold(self.first, u64::saturating_add);
            for (i, (count, _)) in self.at.iter_mut().zip(&self.outer).rev() {
                *i += 1;
                if *i < *count {
                    break;
                }
                *i = 0;
            }
            (from, out)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_they_can_be() {
        let list = |shape: &[u64], window: &[(u64, u64)], order| {
            let runs = runs(shape, &ArrayWindow(window.to_vec()), order, 2).unwrap();
            let count: u64 = window.iter().map(|(_, n)| n).product();
            let mut bytes = vec![0; usize::try_from(count * 2).unwrap()];
            let runs: Vec<_> = runs.zip_with(&mut bytes).map(|(from, out)| (from, out.len())).collect();
            runs
        };
        assert_eq!(list(&[3, 4], &[(0, 3), (0, 4)], Order::C), [(0, 24)]);
        assert_eq!(list(&[3, 4], &[(1, 2), (0, 4)], Order::C), [(8, 16)]);
        assert_eq!(list(&[3, 4], &[(1, 2), (1, 2)], Order::C), [(10, 4), (18, 4)]);
        assert_eq!(list(&[3, 4], &[(1, 2), (1, 2)], Order::F), [(8, 4), (14, 4)]);
        assert_eq!(list(&[], &[], Order::C), [(0, 2)]);
        assert_eq!(list(&[2, 2, 2], &[(0, 2), (1, 1), (0, 2)], Order::C), [(4, 4), (12, 4)]);
    }
}
