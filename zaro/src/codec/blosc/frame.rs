//! The frame of blosc 1: a header of 16 bytes, a table of block offsets, the blocks.
//!
//! | byte | what |
//! |---|---|
//! | 0, 1 | version of this format (1 or 2), version of the compressor's |
//! | 2 | flags: 1 byte shuffle, 2 stored plainly, 4 bit shuffle, 16 no splits; upper three bits: compressor |
//! | 3 | bytes in an element |
//! | 4, 8, 12 | length of the data, of a block, of the frame; 32-bit little-endian like all numbers here |
//!
//! A block is one stream, or, if it is split, one stream for each byte of an element. A stream is its length and its
//! bytes; where the length is what it decodes to, the bytes are the data themselves. The last block may be shorter,
//! and is not split then. Every number is checked: a frame is hostile until decoded.

use std::cell::RefCell;

use super::{BloscShuffle, FrameFormat, blosclz, shuffle};
use crate::codec::inflate::{InflateOutcome, Wrapper, inflate};
use crate::codec::{OutputSize, lz4_block, zstd};
use crate::error::{Error, Result, invalid};

pub(super) const HEADER: usize = 16;
pub(super) const FLAG_SHUFFLE: u8 = 1;
pub(super) const FLAG_PLAIN: u8 = 2;
pub(super) const FLAG_BIT_SHUFFLE: u8 = 4;
pub(super) const FLAG_WHOLE: u8 = 16;
/// The greatest element whose bytes get streams of their own.
const MAX_SPLITS: usize = 16;
/// The shortest stream that a split may make.
const MIN_STREAM: usize = 128;

/// Scratch memory larger than this is given back after use.
const KEPT: usize = 4 << 20;

/// A frame whose header and table are known to be sound.
#[derive(Debug)]
pub(super) struct BloscFrame<'a> {
    bytes: &'a [u8],
    version: u8,
    shuffle: BloscShuffle,
    inner: FrameFormat,
    split: bool,
    typesize: usize,
    pub(super) length: usize,
    block: usize,
    /// The data themselves, if they are stored plainly.
    plain: Option<&'a [u8]>,
}

impl<'a> BloscFrame<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = bytes.first_chunk::<HEADER>().ok_or_else(|| damaged("its header is truncated"))?;
        let [version, _, flags, typesize, ..] = *header;
        // Both shuffles at once are how blosc 2 marks its own, longer header.
        if flags & (FLAG_SHUFFLE | FLAG_BIT_SHUFFLE) == FLAG_SHUFFLE | FLAG_BIT_SHUFFLE {
            return Err(Error::unsupported("frames of blosc 2 are not supported"));
        }
        let number = |at| number(header, at).ok_or_else(|| damaged("a length is negative"));
        let (length, block, total) = (number(4)?, number(8)?, number(12)?);
        let bytes =
            bytes.get(..total).ok_or_else(|| damaged(format!("it has {} bytes of {total}", bytes.len())))?;
        // 3 to 5 are blosc 2's numbers, which it also gives to frames that blosc 1 would understand.
        if !(1..=5).contains(&version) {
            return Err(damaged(format!("unknown format version {version}")));
        }
        let shuffle = match (flags & FLAG_SHUFFLE != 0, flags & FLAG_BIT_SHUFFLE != 0) {
            (true, _) if typesize > 1 => BloscShuffle::Bytes,
            (false, true) => BloscShuffle::Bits,
            _ => BloscShuffle::None,
        };
        let typesize = usize::from(typesize);
        let plain = if flags & FLAG_PLAIN != 0 {
            let data = bytes.get(HEADER..).and_then(|d| d.get(..length));
            Some(data.ok_or_else(|| damaged("the data are truncated"))?)
        } else if length == 0 {
            Some(&[][..])
        } else {
            None
        };
        if plain.is_none() {
            if block == 0 || typesize == 0 {
                return Err(damaged("blocks or elements have no bytes"));
            }
            let table = length.div_ceil(block).checked_mul(4).and_then(|n| n.checked_add(HEADER));
            if table.is_none_or(|end| end > bytes.len()) {
                return Err(damaged("the table of blocks is truncated"));
            }
        }
        let split = flags & FLAG_WHOLE == 0 && splits(typesize, block);
        if split && plain.is_none() && block % typesize != 0 {
            return Err(damaged("blocks are split, but have no whole number of elements"));
        }
        let inner = FrameFormat::from_code(flags >> 5)?;
        Ok(Self { bytes, version, shuffle, inner, split, typesize, length, block, plain })
    }

    /// Decodes the data into `out`, which is as long as they are.
    pub(super) fn decode(&self, out: &mut [u8]) -> Result<()> {
        OutputSize::Exact(out.len()).check(self.length)?;
        if let Some(plain) = self.plain {
            out.copy_from_slice(plain);
            return Ok(());
        }
        thread_local! {
            static SCRATCH: RefCell<FrameScratch> = const { RefCell::new(FrameScratch::new()) };
        }
        let mut scratch = SCRATCH.take();
        let mut blocks = out.chunks_mut(self.block.max(1)).enumerate();
        let done = blocks.try_for_each(|(number, block)| self.block(number, block, &mut scratch));
        scratch.shrink();
        SCRATCH.set(scratch);
        done
    }

    /// Decodes block `number` of the data.
    fn block(&self, number: usize, out: &mut [u8], scratch: &mut FrameScratch) -> Result<()> {
        let start = self.number(HEADER + 4 * number)?;
        let mut streams = Streams { frame: self, at: start };
        let count = if self.split && out.len() == self.block { self.typesize } else { 1 };
        // The bit shuffle of a block without a whole element is none.
        let shuffle = if self.typesize > out.len() { BloscShuffle::None } else { self.shuffle };
        if shuffle == BloscShuffle::None {
            return streams.decode(count, out);
        }
        let stored = streams.peek(count, out.len())?;
        let shuffled = match stored {
            Some(stored) => stored,
            None => {
                let room = sized(&mut scratch.block, out.len());
                streams.decode(count, room)?;
                room
            }
        };
        if shuffle == BloscShuffle::Bytes {
            shuffle::unshuffle(self.typesize, shuffled, out);
        } else {
            let end = shuffle::bit_elements(self.version, self.typesize, out.len());
            if let (Some((a, b)), (to_a, to_b)) = (shuffled.split_at_checked(end), out.split_at_mut(end)) {
                shuffle::bit_unshuffle(self.typesize, a, to_a, &mut scratch.planes);
                to_b.copy_from_slice(b);
            }
        }
        Ok(())
    }

    fn number(&self, at: usize) -> Result<usize> {
        number(self.bytes, at).ok_or_else(|| damaged("a block starts or ends outside of it"))
    }
}

/// Whether blocks of this length are split, if splitting is on.
pub(super) fn splits(typesize: usize, block: usize) -> bool {
    (1..=MAX_SPLITS).contains(&typesize) && block / typesize >= MIN_STREAM
}

/// The streams of one block, read one after the other.
struct Streams<'a, 'b> {
    frame: &'b BloscFrame<'a>,
    at: usize,
}

impl<'a> Streams<'a, '_> {
    fn next(&mut self) -> Result<&'a [u8]> {
        let length = self.frame.number(self.at)?;
        let start = self.at + 4;
        let stream = self.frame.bytes.get(start..).and_then(|b| b.get(..length));
        self.at = start.saturating_add(length);
        stream.ok_or_else(|| damaged("a block ends outside of it"))
    }

    /// The bytes of a block of one stream that is not compressed.
    fn peek(&self, count: usize, length: usize) -> Result<Option<&'a [u8]>> {
        let mut ahead = Streams { frame: self.frame, at: self.at };
        Ok(if count == 1 { Some(ahead.next()?).filter(|s| s.len() == length) } else { None })
    }

    /// Decodes `count` streams into equal parts of `out`.
    fn decode(&mut self, count: usize, out: &mut [u8]) -> Result<()> {
        for part in out.chunks_exact_mut((out.len() / count).max(1)) {
            let stream = self.next()?;
            if stream.len() == part.len() {
                part.copy_from_slice(stream);
            } else {
                let n = decompress(self.frame.inner, stream, part)?;
                OutputSize::Exact(part.len()).check(n).map_err(|e| e.within("a block of the blosc frame"))?;
            }
        }
        Ok(())
    }
}

fn decompress(inner: FrameFormat, stream: &[u8], out: &mut [u8]) -> Result<usize> {
    match inner {
        FrameFormat::BloscLz => blosclz::decompress(stream, out),
        FrameFormat::Lz4 => lz4_block::decompress(stream, out),
        FrameFormat::Zstd => zstd::decompress(stream, out),
        FrameFormat::Zlib => match inflate(Wrapper::Zlib, stream, out)? {
            InflateOutcome::Done { written, .. } => Ok(written),
            InflateOutcome::Full => Err(damaged("a block holds more than it should")),
        },
        FrameFormat::Snappy => snap::raw::Decoder::new()
            .decompress(stream, out)
            .map_err(|e| damaged("a Snappy stream is damaged").with_source(e)),
    }
}

/// Memory that decoding needs besides its output, kept for the thread's next frame.
#[derive(Default)]
struct FrameScratch {
    /// A block before it is unshuffled.
    block: Vec<u8>,
    /// A block between the two steps of undoing a bit shuffle.
    planes: Vec<u8>,
}

impl FrameScratch {
    const fn new() -> Self {
        Self { block: Vec::new(), planes: Vec::new() }
    }

    fn shrink(&mut self) {
        for memory in [&mut self.block, &mut self.planes] {
            if memory.len() > KEPT {
                *memory = Vec::new();
            }
        }
    }
}

/// The first `len` bytes of `memory`, which grows if it must; what is in them is left over.
fn sized(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if memory.len() < len {
        *memory = vec![0; len];
    }
    memory.get_mut(..len).unwrap_or_default()
}

/// The signed 32-bit number at `at`, if it is there and not negative.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*four)).ok()
}

pub(super) fn damaged(why: impl std::fmt::Display) -> Error {
    invalid!("the blosc frame is damaged: {why}")
}
