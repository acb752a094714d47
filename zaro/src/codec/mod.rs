//! Layer 3: codecs, which decode bytes to values and encode them.
//!
//! A codec is a plain function over bytes, of one of three kinds. A chain is some
//! [`ArrayToArray`] codecs, exactly one [`ArrayToBytes`], some [`BytesToBytes`], as V3 has it; V2 is lowered to that.
//!
//! * Sizes are never guessed. The chain determines, before any data is seen, what each step must produce, as an
//!   [`OutputSize`]; a codec that would produce more stops, one that produces less has failed.
//! * Input is hostile until decoded. No codec panics, indexes unchecked or allocates on a number it read from the
//!   data beyond what [`OutputSize`] allows.
//! * In memory, elements are little-endian, in C order of the shape at that step ([`Repr`]).
//!
//! One file per codec; `registry.rs` is the one list of names, and [`register`] adds a codec of your own.

pub(crate) mod base64;
mod bitround;
mod blosc;
mod bool_bits;
mod bytes;
mod bz2;
mod cast_value;
mod categorize;
pub(crate) mod chain;
mod checksum;
pub(crate) mod config;
mod decode_only;
mod delta;
mod filter;
mod fixed_scale_offset;
mod fletcher32;
#[cfg(feature = "grib")]
mod grib;
pub(crate) mod gzip;
#[cfg(feature = "grib")]
mod image;
mod inflate;
mod jenkins;
mod lz4;
mod lz4_block;
mod lzf;
mod lzma;
pub(crate) mod lzw;
mod n5_default;
mod number;
mod objects;
mod output;
mod packbits;
mod pcodec;
mod quantize;
mod record_member;
pub(crate) mod registry;
mod reshape;
mod scale_offset;
pub(crate) mod shard;
mod shuffle;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod tiff_packbits;
pub(crate) mod tiff_predictor;
mod transpose;
mod vlen;
mod zfp;
mod zlib;
pub(crate) mod zstd;

use std::fmt::Debug;

pub use crate::meta::chain::CodecKind;
pub use registry::{CodecRequest, register};

use crate::error::{Error, Result, invalid};
use crate::meta::dtype::{DataType, VIEW_SIZE};
use crate::meta::fill::Fill;
use crate::num;

/// What a step of a chain sees: the shape, type and fill value of the chunk at that point.
#[derive(Debug, Clone, PartialEq)]
pub struct Repr {
    /// The chunk's extents.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub data_type: DataType,
    /// The fill value, as that type's bits.
    pub fill: Fill,
}

impl Repr {
    /// How many elements a chunk has.
    pub fn count(&self) -> Result<usize> {
        num::product_usize(&self.shape)
    }

    /// How many bytes a chunk takes in memory (views only, for variable-length types).
    pub fn byte_size(&self) -> Result<usize> {
        self.count()?
            .checked_mul(self.data_type.size())
            .ok_or_else(|| invalid!("a chunk of shape {:?} is too large", self.shape))
    }
}

/// How many bytes a step may produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSize {
    /// Exactly this many; anything else is an error.
    Exact(usize),
    /// Not known beforehand, but no more than this.
    AtMost(usize),
}

impl OutputSize {
    /// The most bytes that may be produced.
    #[must_use]
    pub fn limit(self) -> usize {
        match self {
            Self::Exact(n) | Self::AtMost(n) => n,
        }
    }

    /// Checks a produced length.
    pub fn check(self, got: usize) -> Result<()> {
        match self {
            Self::Exact(n) if got != n => Err(invalid!("decoded to {got} bytes where {n} were expected")),
            Self::AtMost(n) if got > n => {
                Err(invalid!("decoded to {got} bytes where at most {n} were expected"))
            }
            _ => Ok(()),
        }
    }

    /// A size to reserve at once: all of an exact size that the input can justify, little of an unknown one.
    ///
    /// `ratio` is the greatest expansion the format can reach.
    #[must_use]
    pub fn reserve(self, input: usize, ratio: usize) -> usize {
        self.limit().min(input.saturating_mul(ratio).saturating_add(64))
    }

    /// `f` applied to the number, exactness kept.
    #[must_use]
    pub fn map(self, f: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::Exact(n) => Self::Exact(f(n)),
            Self::AtMost(n) => Self::AtMost(f(n)),
        }
    }

    /// The size of a compressed form of this: unknown, and bounded generously (every format's worst case is below
    /// twice the input plus a header, whatever wrote it).
    #[must_use]
    pub fn compressed(self) -> Self {
        Self::AtMost(self.limit().saturating_mul(2).saturating_add(1 << 16))
    }
}

/// The most bytes a chunk of variable-length elements may decode to; a guard against bombs, since such a chunk has
/// no size of its own.
pub const MAX_VARIABLE: usize = 1 << 30;

/// A chunk in memory: elements of a fixed size, and the heap that variable-length ones point into.
///
/// The view of a variable-length element is 16 bytes: heap number (`u32`), length (`u32`), offset (`u64`), all
/// little-endian. Inside one chunk the heap number is 0; assembled slabs have many heaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The elements, C order.
    pub bytes: Vec<u8>,
    /// What variable-length elements point into; empty otherwise.
    pub heap: Vec<u8>,
}

impl Buffer {
    /// A buffer of fixed-size elements.
    #[must_use]
    pub fn fixed(bytes: Vec<u8>) -> Self {
        Self { bytes, heap: Vec::new() }
    }

    /// A buffer of variable-length elements.
    pub fn variable<'a>(items: impl IntoIterator<Item = &'a [u8]>) -> Result<Self> {
        let mut out = Self::default();
        for item in items {
            out.push(item)?;
        }
        Ok(out)
    }

    /// Adds one variable-length element.
    pub fn push(&mut self, item: &[u8]) -> Result<()> {
        let length = u32::try_from(item.len()).map_err(|_| Error::invalid("an element has 4 GiB or more"))?;
        self.bytes.extend_from_slice(&view(0, length, num::u64_of(self.heap.len())));
        self.heap.extend_from_slice(item);
        Ok(())
    }

    /// Element `i` of a variable-length buffer.
    #[must_use]
    pub fn item(&self, i: usize) -> Option<&[u8]> {
        let at = i.checked_mul(VIEW_SIZE)?;
        let (_, length, offset) = split_view(self.bytes.get(at..at + VIEW_SIZE)?)?;
        let start = usize::try_from(offset).ok()?;
        self.heap.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    /// All elements of a variable-length buffer.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.bytes.len() / VIEW_SIZE).map(|i| self.item(i).unwrap_or_default())
    }
}

/// The bytes of a view.
#[must_use]
pub fn view(heap: u32, length: u32, offset: u64) -> [u8; VIEW_SIZE] {
    let mut out = [0; VIEW_SIZE];
    let (a, rest) = out.split_at_mut(4);
    let (b, c) = rest.split_at_mut(4);
    a.copy_from_slice(&heap.to_le_bytes());
    b.copy_from_slice(&length.to_le_bytes());
    c.copy_from_slice(&offset.to_le_bytes());
    out
}

/// Heap number, length and offset of a view.
#[must_use]
pub fn split_view(bytes: &[u8]) -> Option<(u32, u32, u64)> {
    let (a, rest) = bytes.split_first_chunk::<4>()?;
    let (b, rest) = rest.split_first_chunk::<4>()?;
    let (c, _) = rest.split_first_chunk::<8>()?;
    Some((u32::from_le_bytes(*a), u32::from_le_bytes(*b), u64::from_le_bytes(*c)))
}

/// A codec between arrays: reorders or recomputes values.
pub trait ArrayToArray: Debug + Send + Sync {
    /// The codec's name, for messages.
    fn name(&self) -> &'static str;

    /// What the next step sees, given what this one does; an error if it cannot work on that.
    fn encoded(&self, decoded: &Repr) -> Result<Repr>;

    /// If all the codec does is to reorder dimensions: which dimension of the decoded chunk becomes dimension `i` of
    /// the encoded one.
    fn permutation(&self, rank: usize) -> Option<Vec<usize>> {
        let _ = rank;
        None
    }

    /// Turns a chunk as the next step sees it (`encoded`) into one as this step's caller does (`decoded`).
    fn decode(&self, chunk: Buffer, decoded: &Repr, encoded: &Repr) -> Result<Buffer>;

    /// The inverse.
    fn encode(&self, chunk: Buffer, decoded: &Repr, encoded: &Repr) -> Result<Buffer>;
}

/// The codec that turns values into bytes.
pub trait ArrayToBytes: Debug + Send + Sync {
    /// The codec's name, for messages.
    fn name(&self) -> &'static str;

    /// The encoded size of a chunk like `decoded`; an error if the codec cannot work on that.
    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize>;

    /// Decodes to exactly `decoded.count()` elements.
    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer>;

    /// The inverse.
    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>>;
}

/// A codec between byte strings: compressors, checksums, and V2's filters.
pub trait BytesToBytes: Debug + Send + Sync {
    /// The codec's name, for messages.
    fn name(&self) -> &'static str;

    /// The encoded size of something that has `decoded` bytes. The default is that of a compressor.
    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded.compressed())
    }

    /// How many bytes one byte can decode to at most, for constant data; more memory than that is not set aside on
    /// the word of the metadata. The default is generous for all formats but the few that say otherwise.
    fn expansion(&self) -> usize {
        output::MAX_RATIO
    }

    /// Decodes `bytes` to as many bytes as `size` says.
    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>>;

    /// Decodes into `out`, filling it exactly. Codecs that can write there directly do; the default copies.
    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let decoded = self.decode(bytes, OutputSize::Exact(out.len()))?;
        OutputSize::Exact(out.len()).check(decoded.len())?;
        out.copy_from_slice(&decoded);
        Ok(())
    }

    /// The inverse.
    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>>;

    /// The inverse, in place of what `out` holds. Its memory is used again by codecs that can.
    fn encode_into(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        *out = self.encode(bytes)?;
        Ok(())
    }
}

/// A codec of any kind, as the registry makes it.
#[derive(Debug)]
pub enum Codec {
    /// Array to array.
    Array(Box<dyn ArrayToArray>),
    /// Array to bytes.
    ToBytes(Box<dyn ArrayToBytes>),
    /// Bytes to bytes.
    Bytes(Box<dyn BytesToBytes>),
}
