//! Decoders of Parquet's value and level encodings.
//!
//! Everything returns `None` if the bytes are invalid. A value becomes a *cell*: an integer as it is, a string or bytes
//! as their number in a [`Heap`], or [`NULL`].

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::footer::Physical;
use crate::num::{u64_of, usize_of};

/// The cell of a null value.
pub(super) const NULL: i64 = i64::MIN;

/// The cell of a number that cannot be an offset or size, such as a fraction.
pub(super) const ABSURD: i64 = -1;

/// The RLE/bit-packing hybrid encoding, of levels and dictionary indices.
#[derive(Debug, Clone)]
pub(super) struct Hybrid<'a> {
    bytes: &'a [u8],
    width: u32,
    run: RunLength<'a>,
}

#[derive(Debug, Clone)]
enum RunLength<'a> {
    Same { left: u64, value: u32 },
    Packed { bytes: &'a [u8], at: u64, left: u64 },
}

impl<'a> Hybrid<'a> {
    /// Values of `width` bits, 32 at most.
    pub(super) fn new(bytes: &'a [u8], width: u32) -> Option<Self> {
        (width <= 32).then_some(Self { bytes, width, run: RunLength::Same { left: 0, value: 0 } })
    }

    /// The same value repeated without end.
    pub(super) fn constant(value: u32) -> Self {
        Self { bytes: &[], width: 0, run: RunLength::Same { left: u64::MAX, value } }
    }

    /// The next value and how often it repeats: at least once, at most `most` times.
    pub(super) fn take(&mut self, most: u64) -> Option<(u64, u32)> {
        loop {
            match &mut self.run {
                RunLength::Same { left, value } if *left > 0 => {
                    let n = most.min(*left);
                    *left -= n;
                    return Some((n, *value));
                }
                RunLength::Packed { bytes, at, left } if *left > 0 => {
                    let value = bits(bytes, *at, self.width)?;
                    *at += u64::from(self.width);
                    *left -= 1;
                    return Some((1, u32::try_from(value).ok()?));
                }
                _ => self.next_run()?,
            }
        }
    }

    fn next_run(&mut self) -> Option<()> {
        // Writers may leave out what has no bits.
        if self.width == 0 && self.bytes.is_empty() {
            self.run = RunLength::Same { left: u64::MAX, value: 0 };
            return Some(());
        }
        let head = varint(&mut self.bytes)?;
        let count = head >> 1;
        if head & 1 == 0 {
            let (value, rest) =
                self.bytes.split_at_checked(usize_of(u64::from(self.width.div_ceil(8))).ok()?)?;
            self.bytes = rest;
            let value = value.iter().rev().fold(0u32, |acc, b| (acc << 8) | u32::from(*b));
            self.run = RunLength::Same { left: count, value };
        } else {
            let length = usize_of(count.checked_mul(u64::from(self.width))?).ok()?;
            // The last group may be cut off where its values end.
            let (packed, rest) = self.bytes.split_at(length.min(self.bytes.len()));
            self.bytes = rest;
            self.run = RunLength::Packed { bytes: packed, at: 0, left: count.checked_mul(8)? };
        }
        Some(())
    }
}

/// `width` bits from bit `at` on, the lowest first.
fn bits(bytes: &[u8], at: u64, width: u32) -> Option<u64> {
    let first = usize_of(at / 8).ok()?;
    let shift = at % 8;
    let last = usize_of((at + u64::from(width)).div_ceil(8)).ok()?;
    let part = bytes.get(first..last)?;
    let all = part.iter().rev().fold(0u128, |acc, b| (acc << 8) | u128::from(*b));
    let mask = (1u128 << width) - 1;
    u64::try_from((all >> shift) & mask).ok()
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut out = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        out |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(out);
        }
    }
    None
}

fn zigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

/// `DELTA_BINARY_PACKED`: differences, bit-packed in blocks.
#[derive(Debug, Clone)]
pub(super) struct DeltaDecoder<'a> {
    bytes: &'a [u8],
    /// Values in a part of a block.
    part: u64,
    parts: usize,
    /// Values not yet taken.
    left: u64,
    value: i64,
    /// Whether `value` is itself the next one: the first value is not stored as a difference.
    fresh: bool,
    least: i64,
    widths: &'a [u8],
    packed: &'a [u8],
    at: u64,
    in_part: u64,
    width: u32,
}

/// Maximum values per block; no writer makes larger ones.
const MAX_DELTA_BLOCK: u64 = 1 << 24;

impl<'a> DeltaDecoder<'a> {
    pub(super) fn new(mut bytes: &'a [u8]) -> Option<Self> {
        let block = varint(&mut bytes)?;
        let parts = varint(&mut bytes)?;
        let left = varint(&mut bytes)?;
        let value = zigzag(varint(&mut bytes)?);
        let part = block.checked_div(parts)?;
        if block > MAX_DELTA_BLOCK || part == 0 {
            return None;
        }
        Some(Self {
            bytes,
            part,
            parts: usize_of(parts).ok()?,
            left,
            value,
            fresh: true,
            least: 0,
            widths: &[],
            packed: &[],
            at: 0,
            in_part: 0,
            width: 0,
        })
    }

    fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        if self.fresh {
            self.fresh = false;
            return Some(self.value);
        }
        if self.in_part == 0 {
            self.next_part()?;
        }
        let step = bits(self.packed, self.at, self.width)?;
        self.at += u64::from(self.width);
        self.in_part -= 1;
        self.value = self.value.wrapping_add(self.least).wrapping_add(step.cast_signed());
        Some(self.value)
    }

    fn next_part(&mut self) -> Option<()> {
        if self.widths.is_empty() {
            self.least = zigzag(varint(&mut self.bytes)?);
            (self.widths, self.bytes) = self.bytes.split_at_checked(self.parts)?;
        }
        let (width, rest) = self.widths.split_first()?;
        self.widths = rest;
        self.width = u32::from(*width);
        if self.width > 64 {
            return None;
        }
        let length = usize_of(self.part.checked_mul(u64::from(self.width))?.div_ceil(8)).ok()?;
        // The last part may be cut off where its values end.
        (self.packed, self.bytes) = self.bytes.split_at(length.min(self.bytes.len()));
        self.at = 0;
        self.in_part = self.part;
        Some(())
    }

    /// The bytes after the last value; all values must have been taken.
    fn rest(mut self) -> Option<&'a [u8]> {
        while self.left > 0 {
            self.next()?;
        }
        Some(self.bytes)
    }
}

/// The values of one page, those that are not null.
#[derive(Debug)]
pub(super) enum PageValues<'a> {
    Plain {
        bytes: &'a [u8],
        physical: Physical,
    },
    Dictionary {
        ids: Hybrid<'a>,
        cells: &'a [i64],
    },
    Delta(DeltaDecoder<'a>),
    /// `DELTA_LENGTH_BYTE_ARRAY`: lengths first, then all bytes.
    Lengths {
        lengths: DeltaDecoder<'a>,
        bytes: &'a [u8],
    },
    /// `DELTA_BYTE_ARRAY`: lengths of the prefix shared with the previous value, then the suffixes.
    Prefixes {
        shared: DeltaDecoder<'a>,
        lengths: DeltaDecoder<'a>,
        bytes: &'a [u8],
        last: Vec<u8>,
    },
    /// `BYTE_STREAM_SPLIT`: the first byte of each value, the second of each, and so on.
    Split {
        bytes: &'a [u8],
        physical: Physical,
        at: usize,
    },
}

impl<'a> PageValues<'a> {
    /// The values in `bytes`, which have Parquet's encoding number `encoding`; the outer `None` for one that is not
    /// read, the inner for damage.
    pub(super) fn new(
        bytes: &'a [u8],
        encoding: i64,
        physical: Physical,
        cells: Option<&'a [i64]>,
    ) -> Option<Option<Self>> {
        let text = physical == Physical::Bytes;
        Some(match encoding {
            0 => Some(Self::Plain { bytes, physical }),
            2 | 8 => Self::dictionary(bytes, cells),
            5 if matches!(physical, Physical::Int32 | Physical::Int64) => {
                DeltaDecoder::new(bytes).map(Self::Delta)
            }
            6 if text => Self::lengths(bytes),
            7 if text => Self::prefixes(bytes),
            9 if !text => Some(Self::Split { bytes, physical, at: 0 }),
            _ => return None,
        })
    }

    fn dictionary(bytes: &'a [u8], cells: Option<&'a [i64]>) -> Option<Self> {
        // A page of nothing but nulls may have no bytes at all, and no dictionary.
        let (width, rest) = bytes.split_first().unwrap_or((&0, &[]));
        Some(Self::Dictionary {
            ids: Hybrid::new(rest, u32::from(*width))?,
            cells: cells.unwrap_or_default(),
        })
    }

    fn lengths(bytes: &'a [u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::Plain { bytes, physical: Physical::Bytes });
        }
        let lengths = DeltaDecoder::new(bytes)?;
        // Each length takes no bits if all are equal: more of them than bytes can stand for are not walked over.
        let bytes = bounded(&lengths, bytes)?.rest()?;
        Some(Self::Lengths { lengths, bytes })
    }

    fn prefixes(bytes: &'a [u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::Plain { bytes, physical: Physical::Bytes });
        }
        let shared = DeltaDecoder::new(bytes)?;
        let rest = bounded(&shared, bytes)?.rest()?;
        let lengths = DeltaDecoder::new(rest)?;
        let bytes = bounded(&lengths, rest)?.rest()?;
        Some(Self::Prefixes { shared, lengths, bytes, last: Vec::new() })
    }

    /// Fills `out` with the next values as cells, one per row.
    pub(super) fn fill(&mut self, out: &mut [i64], heap: &mut Heap) -> Option<()> {
        if let Self::Dictionary { ids, cells } = self {
            let mut out = out;
            while !out.is_empty() {
                let (n, id) = ids.take(u64_of(out.len()))?;
                let cell = *cells.get(usize::try_from(id).ok()?)?;
                let (now, later) = out.split_at_mut(usize_of(n).ok()?);
                now.fill(cell);
                out = later;
            }
            return Some(());
        }
        // Most numbers are stored so, and a partition has many.
        if let (Self::Plain { bytes, physical: Physical::Int64 }, Heap::Numbers) = (&mut *self, &*heap) {
            let (now, rest) = bytes.split_at_checked(out.len().checked_mul(8)?)?;
            *bytes = rest;
            for (cell, value) in out.iter_mut().zip(now.as_chunks::<8>().0) {
                *cell = i64::from_le_bytes(*value).max(ABSURD);
            }
            return Some(());
        }
        for cell in out {
            *cell = self.next(heap)?;
        }
        Some(())
    }

    pub(super) fn skip(&mut self, mut n: u64) -> Option<()> {
        match self {
            Self::Plain { bytes, physical } => match physical.width() {
                Some(width) => *bytes = bytes.get(usize_of(n).ok()?.checked_mul(width)?..)?,
                None => {
                    for _ in 0..n {
                        text(bytes)?;
                    }
                }
            },
            Self::Dictionary { ids, .. } => {
                while n > 0 {
                    n -= ids.take(n)?.0;
                }
            }
            Self::Delta(delta) => {
                for _ in 0..n {
                    delta.next()?;
                }
            }
            Self::Split { at, .. } => *at = at.checked_add(usize_of(n).ok()?)?,
            Self::Lengths { .. } | Self::Prefixes { .. } => {
                for _ in 0..n {
                    self.string()?;
                }
            }
        }
        Some(())
    }

    fn next(&mut self, heap: &mut Heap) -> Option<i64> {
        match self {
            Self::Plain { bytes, physical } => match physical.width() {
                Some(width) => {
                    let (value, rest) = bytes.split_at_checked(width)?;
                    *bytes = rest;
                    heap.number(value, *physical)
                }
                None => heap.text(text(bytes)?),
            },
            Self::Delta(delta) => heap.integer(delta.next()?),
            Self::Lengths { .. } | Self::Prefixes { .. } => heap.text(self.string()?),
            Self::Split { bytes, physical, at } => {
                let width = physical.width()?;
                let count = bytes.len() / width;
                if *at >= count {
                    return None;
                }
                let mut value = [0u8; 8];
                for (n, byte) in value.iter_mut().take(width).enumerate() {
                    *byte = *bytes.get(n * count + *at)?;
                }
                *at += 1;
                heap.number(value.get(..width)?, *physical)
            }
            Self::Dictionary { ids, cells } => cells.get(usize::try_from(ids.take(1)?.1).ok()?).copied(),
        }
    }

    fn string(&mut self) -> Option<&[u8]> {
        match self {
            Self::Lengths { lengths, bytes } => {
                let (now, rest) = bytes.split_at_checked(usize::try_from(lengths.next()?).ok()?)?;
                *bytes = rest;
                Some(now)
            }
            Self::Prefixes { shared, lengths, bytes, last } => {
                let shared = usize::try_from(shared.next()?).ok()?;
                let (now, rest) = bytes.split_at_checked(usize::try_from(lengths.next()?).ok()?)?;
                *bytes = rest;
                if shared > last.len() {
                    return None;
                }
                last.truncate(shared);
                last.extend_from_slice(now);
                Some(last)
            }
            _ => None,
        }
    }
}

/// `delta`, unless it claims more values than a page of `bytes` can reasonably hold.
fn bounded<'a>(delta: &DeltaDecoder<'a>, bytes: &[u8]) -> Option<DeltaDecoder<'a>> {
    (delta.left() <= u64_of(bytes.len()).saturating_mul(1 << 12)).then(|| delta.clone())
}

/// The next text of `PLAIN`: its length, then its bytes.
fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (now, rest) = rest.split_at_checked(usize_of(u64::from(u32::from_le_bytes(*length))).ok()?)?;
    *bytes = rest;
    Some(now)
}

/// Storage for the values of a column that are not numbers.
#[derive(Debug)]
pub(super) enum Heap {
    /// Offsets and sizes: none needed.
    Numbers,
    /// Addresses, each stored once.
    Urls { list: Vec<Arc<str>>, known: HashMap<Arc<str>, i64> },
    /// Bytes, all of them.
    Raws { bytes: Vec<u8>, ends: Vec<usize> },
}

impl Heap {
    fn number(&self, value: &[u8], physical: Physical) -> Option<i64> {
        let float = match physical {
            Physical::Int32 => return self.integer(i32::from_le_bytes(*value.first_chunk()?).into()),
            Physical::Int64 => return self.integer(i64::from_le_bytes(*value.first_chunk()?)),
            Physical::Float => f32::from_le_bytes(*value.first_chunk()?).into(),
            Physical::Double => f64::from_le_bytes(*value.first_chunk()?),
            Physical::Bytes => return None,
        };
        // Columns that pandas made of numbers and gaps: NaN is a gap.
        match self {
            _ if float.is_nan() => Some(NULL),
            Self::Numbers => Some(integral(float)),
            _ => None,
        }
    }

    fn integer(&self, n: i64) -> Option<i64> {
        match self {
            Self::Numbers => Some(n.max(ABSURD)),
            // A text column may be of any type as long as it is empty.
            _ => None,
        }
    }

    fn text(&mut self, value: &[u8]) -> Option<i64> {
        match self {
            Self::Numbers => None,
            Self::Urls { list, known } => {
                let value = std::str::from_utf8(value).ok()?;
                if value.is_empty() {
                    return Some(NULL);
                }
                if let Some(id) = known.get(value) {
                    return Some(*id);
                }
                let id = i64::try_from(list.len()).ok()?;
                let value: Arc<str> = value.into();
                list.push(value.clone());
                known.insert(value, id);
                Some(id)
            }
            Self::Raws { bytes, ends } => {
                let id = i64::try_from(ends.len()).ok()?;
                bytes.extend_from_slice(value);
                ends.push(bytes.len());
                Some(id)
            }
        }
    }

    /// The cells of a dictionary of `count` entries.
    pub(super) fn dictionary(&mut self, bytes: &[u8], count: u64, physical: Physical) -> Option<Vec<i64>> {
        let mut values = PageValues::Plain { bytes, physical };
        let least = u64_of(physical.width().unwrap_or(4));
        if count.checked_mul(least)? > u64_of(bytes.len()) {
            return None;
        }
        let mut cells = vec![NULL; usize_of(count).ok()?];
        values.fill(&mut cells, self)?;
        Some(cells)
    }
}

/// The integer that a float is, or [`ABSURD`].
fn integral(x: f64) -> i64 {
    if x.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&x) {
        // Exact, and through text since there is no checked cast from floats.
        format!("{x:.0}").parse().unwrap_or(ABSURD)
    } else {
        ABSURD
    }
}

/// The contents of [`Heap::Raws`], to be split into values.
#[derive(Debug, Clone, Default)]
pub(super) struct Raws {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Raws {
    pub(super) fn new(bytes: Vec<u8>, ends: Vec<usize>) -> Self {
        Self { bytes, ends }
    }

    pub(super) fn get(&self, id: usize) -> Option<Bytes> {
        let end = *self.ends.get(id)?;
        let start = match id.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before)?,
        };
        // A copy: a slice would keep all of them.
        self.bytes.get(start..end).map(Bytes::copy_from_slice)
    }

    pub(super) fn cost(&self) -> usize {
        self.bytes.len().saturating_add(self.ends.len().saturating_mul(size_of::<usize>()))
    }
}
