//! Downsampling kernels, row by row: mean, mode and decimation.
//!
//! A row of the smaller level is computed from several rows of the larger one (two of a plane, four of a volume), with
//! `step` pixels of each per pixel. The common case, two by two, has separate loops that the compiler vectorizes.

use super::Downsampling;
use crate::codec::shard::advance;
use crate::error::{Error, Hint, Result};
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// The maximum number of pixels per downsampled pixel, so that sums do not overflow.
pub(super) const MOST: u64 = 1 << 24;

/// Computes a row: the source rows, the step along them, the output.
type Row = fn(&[&[u8]], usize, &mut [u8]);

/// A downsampling kernel for a data type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    size: usize,
    row: Row,
}

impl Kernel {
    /// The kernel for a method, except Gaussian, which needs neighbours.
    pub(super) fn of(method: Downsampling, data_type: &DataType) -> Result<Self> {
        let row = match method {
            Downsampling::Mean => mean(data_type),
            Downsampling::Mode => mode(data_type),
            Downsampling::Decimate => decimate(data_type),
            Downsampling::Gaussian => None,
        };
        let size = data_type.size();
        row.map(|row| Self { size, row }).ok_or_else(|| refused(method, data_type))
    }

    /// Downsamples the region `input` of `shape`, in C order, by `step` to `count` pixels. At the end of the region,
    /// fewer pixels contribute.
    pub(super) fn reduce(
        &self,
        input: &[u8],
        shape: &[u64],
        step: &[u64],
        count: &[u64],
        out: &mut [u8],
    ) -> Result<()> {
        let rank = shape.len();
        let (Some(width), Some(across), Some(wide)) =
            (shape.last(), step.last().filter(|f| **f > 0), count.last())
        else {
            return Err(Error::invalid("a level has no dimensions"));
        };
        let (width, across, wide) = (num::usize_of(*width)?, num::usize_of(*across)?, num::usize_of(*wide)?);
        // Pixels of full steps, and perhaps one of the rest.
        let full = wide.min(width.checked_div(across).unwrap_or(0));
        let strides = strides(shape, self.size)?;
        let lines = num::product_usize(count.get(..rank - 1).unwrap_or_default())?;
        let line = wide.saturating_mul(self.size);
        if out.len() != lines.saturating_mul(line)
            || input.len() != num::product_usize(shape)?.saturating_mul(self.size)
        {
            return Err(Error::invalid("the size of a region differs from that of its buffer"));
        }
        let mut rows: Vec<&[u8]> = Vec::new();
        let mut starts: Vec<usize> = Vec::new();
        let mut at = vec![0u64; rank - 1];
        for made in out.chunks_exact_mut(line.max(1)).take(lines) {
            starts.clear();
            starts.push(0);
            for (d, o) in at.iter().enumerate() {
                let of = |list: &[u64]| list.get(d).copied().unwrap_or(1);
                let first = o.saturating_mul(of(step));
                let last = first.saturating_add(of(step)).min(of(shape));
                let stride = strides.get(d).copied().unwrap_or(0);
                let old = std::mem::take(&mut starts);
                for base in old {
                    for i in first..last {
                        starts.push(base.saturating_add(num::usize_of(i)?.saturating_mul(stride)));
                    }
                }
            }
            rows.clear();
            for start in &starts {
                let end = start.saturating_add(width.saturating_mul(self.size));
                rows.push(input.get(*start..end).ok_or_else(|| Error::invalid("a region is too small"))?);
            }
            let (whole, rest) = made.split_at_mut(full.saturating_mul(self.size));
            (self.row)(&rows, across, whole);
            if !rest.is_empty() {
                let from = full.saturating_mul(across).saturating_mul(self.size);
                for row in &mut rows {
                    *row = row.get(from..).unwrap_or_default();
                }
                (self.row)(&rows, width.saturating_sub(full.saturating_mul(across)).max(1), rest);
            }
            advance(&mut at, count);
        }
        Ok(())
    }
}

pub(super) fn refused(method: Downsampling, data_type: &DataType) -> Error {
    Error::unsupported(format!(
        "pixels of type {data_type} cannot be downsampled by {}",
        if method == Downsampling::Gaussian { "Gaussian" } else { method.text() }
    ))
    .or_hint(Hint::option("method", "takes the first pixel").set_to("decimate"))
}

/// Bytes between neighbours, for each dimension.
pub(super) fn strides(shape: &[u64], size: usize) -> Result<Vec<usize>> {
    let mut stride = size;
    let mut all = Vec::with_capacity(shape.len());
    for n in shape.iter().rev() {
        all.push(stride);
        stride = stride.saturating_mul(num::usize_of(*n)?);
    }
    all.reverse();
    Ok(all)
}

/// The function that sums two neighbours of a type.
macro_rules! pair {
    ($type:ty, $sum:ty) => {{
        fn pair(two: &[u8; 2 * size_of::<$type>()]) -> $sum {
            match (two.first_chunk(), two.last_chunk()) {
                (Some(a), Some(b)) => {
                    <$sum>::from(<$type>::from_le_bytes(*a)) + <$sum>::from(<$type>::from_le_bytes(*b))
                }
                _ => 0,
            }
        }
        pair
    }};
}

/// The mean, rounded half up.
macro_rules! integer_mean {
    ($type:ty, $wide:ty, $pair:expr) => {{
        #[allow(clippy::as_conversions, reason = "a mean lies between its values, so it fits their type")]
        fn mean(rows: &[&[u8]], step: usize, out: &mut [u8]) {
            const SIZE: usize = size_of::<$type>();
            const PAIR: usize = 2 * SIZE;
            let sum = $pair;
            let (out, _) = out.as_chunks_mut::<SIZE>();
            match (rows, step) {
                ([a, b], 2) => {
                    let ((a, _), (b, _)) = (a.as_chunks::<PAIR>(), b.as_chunks::<PAIR>());
                    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
                        *o = (((sum(a) + sum(b) + 2) >> 2) as $type).to_le_bytes();
                    }
                }
                ([a, b, c, d], 2) => {
                    let ((a, _), (b, _)) = (a.as_chunks::<PAIR>(), b.as_chunks::<PAIR>());
                    let ((c, _), (d, _)) = (c.as_chunks::<PAIR>(), d.as_chunks::<PAIR>());
                    for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                        *o = (((sum(a) + sum(b) + sum(c) + sum(d) + 4) >> 3) as $type).to_le_bytes();
                    }
                }
                _ => {
                    let n = <$wide>::from(pixels(rows, step));
                    let mut sums = vec![0 as $wide; out.len()];
                    for row in rows {
                        for (sum, several) in sums.iter_mut().zip(row.chunks_exact(SIZE * step.max(1))) {
                            let (several, _) = several.as_chunks::<SIZE>();
                            *sum += several
                                .iter()
                                .map(|v| <$wide>::from(<$type>::from_le_bytes(*v)))
                                .sum::<$wide>();
                        }
                    }
                    for (o, sum) in out.iter_mut().zip(&sums) {
                        // Rounded down, also below zero.
                        *o = ((2 * sum + n).div_euclid(2 * n) as $type).to_le_bytes();
                    }
                }
            }
        }
        mean
    }};
}

/// The mean, summed in double precision. A NaN makes it NaN.
macro_rules! float_mean {
    ($type:ty, $to:expr, $from:expr) => {{
        fn mean(rows: &[&[u8]], step: usize, out: &mut [u8]) {
            const SIZE: usize = size_of::<$type>();
            let (to, from): (fn($type) -> f64, fn(f64) -> $type) = ($to, $from);
            let value = |bytes: &[u8; SIZE]| to(<$type>::from_le_bytes(*bytes));
            let pair = |two: &[u8; 2 * SIZE]| match (two.first_chunk(), two.last_chunk()) {
                (Some(a), Some(b)) => value(a) + value(b),
                _ => 0.0,
            };
            let (out, _) = out.as_chunks_mut::<SIZE>();
            if let ([a, b], 2) = (rows, step) {
                let ((a, _), (b, _)) = (a.as_chunks(), b.as_chunks());
                for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
                    *o = from((pair(a) + pair(b)) * 0.25).to_le_bytes();
                }
                return;
            }
            let n = f64::from(pixels(rows, step));
            let mut sums = vec![0.0; out.len()];
            for row in rows {
                for (sum, several) in sums.iter_mut().zip(row.chunks_exact(SIZE * step.max(1))) {
                    let (several, _) = several.as_chunks::<SIZE>();
                    *sum += several.iter().map(value).sum::<f64>();
                }
            }
            for (o, sum) in out.iter_mut().zip(&sums) {
                *o = from(sum / n).to_le_bytes();
            }
        }
        mean
    }};
}

/// The most frequent value; on a tie, the smallest.
macro_rules! mode {
    ($type:ty) => {{
        fn mode(rows: &[&[u8]], step: usize, out: &mut [u8]) {
            const SIZE: usize = size_of::<$type>();
            let value = |bytes: &[u8; SIZE]| <$type>::from_le_bytes(*bytes);
            let pair = |two: &[u8; 2 * SIZE]| match (two.first_chunk(), two.last_chunk()) {
                (Some(a), Some(b)) => (value(a), value(b)),
                _ => (0, 0),
            };
            let (out, _) = out.as_chunks_mut::<SIZE>();
            if let ([a, b], 2) = (rows, step) {
                let ((a, _), (b, _)) = (a.as_chunks(), b.as_chunks());
                for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
                    let ((a, b), (c, d)) = (pair(a), pair(b));
                    // Sort, so that equal values are adjacent.
                    let (low, high, left, right) = (a.min(b), a.max(b), c.min(d), c.max(d));
                    let (first, last, x, y) =
                        (low.min(left), high.max(right), low.max(left), high.min(right));
                    let (second, third) = (x.min(y), x.max(y));
                    let behind = if third == last { third } else { first };
                    let middle = if second == third { second } else { behind };
                    *o = (if first == second { first } else { middle }).to_le_bytes();
                }
                return;
            }
            let mut all: Vec<$type> = Vec::new();
            for (i, o) in out.iter_mut().enumerate() {
                all.clear();
                for row in rows {
                    let several = row.chunks_exact(SIZE * step.max(1)).nth(i).unwrap_or_default();
                    all.extend(several.as_chunks::<SIZE>().0.iter().map(value));
                }
                all.sort_unstable();
                let most = all.chunk_by(|a, b| a == b).rev().max_by_key(|run| run.len());
                *o = most.and_then(<[$type]>::first).copied().unwrap_or_default().to_le_bytes();
            }
        }
        mode
    }};
}

fn mean(data_type: &DataType) -> Option<Row> {
    Some(match data_type {
        DataType::UInt(2 | 4 | 8) => integer_mean!(u8, i64, pair_u8),
        DataType::Int(2 | 4 | 8) => integer_mean!(i8, i64, pair_i8),
        DataType::UInt(16) => integer_mean!(u16, i64, pair!(u16, u32)),
        DataType::Int(16) => integer_mean!(i16, i64, pair!(i16, i32)),
        DataType::UInt(32) => integer_mean!(u32, i64, pair!(u32, u64)),
        DataType::Int(32) => integer_mean!(i32, i64, pair!(i32, i64)),
        DataType::UInt(64) => integer_mean!(u64, i128, pair!(u64, u128)),
        DataType::Int(64) => integer_mean!(i64, i128, pair!(i64, i128)),
        DataType::Float(Float::F16) => float_mean!(half::f16, half::f16::to_f64, half::f16::from_f64),
        DataType::Float(Float::BF16) => float_mean!(half::bf16, half::bf16::to_f64, half::bf16::from_f64),
        DataType::Float(Float::F32) => float_mean!(f32, f64::from, super::gaussian::narrow),
        DataType::Float(Float::F64) => float_mean!(f64, |x| x, |x| x),
        _ => return None,
    })
}

fn mode(data_type: &DataType) -> Option<Row> {
    Some(match data_type {
        DataType::Bool | DataType::UInt(2 | 4 | 8) => mode!(u8),
        DataType::Int(2 | 4 | 8) => mode!(i8),
        DataType::UInt(16) => mode!(u16),
        DataType::Int(16) => mode!(i16),
        DataType::UInt(32) => mode!(u32),
        DataType::Int(32) => mode!(i32),
        DataType::UInt(64) => mode!(u64),
        DataType::Int(64) => mode!(i64),
        _ => return None,
    })
}

fn decimate(data_type: &DataType) -> Option<Row> {
    if data_type.is_variable() {
        return None;
    }
    Some(match data_type.size() {
        1 => first::<1>,
        2 => first::<2>,
        4 => first::<4>,
        8 => first::<8>,
        16 => first::<16>,
        _ => return None,
    })
}

/// The first of each `step`.
fn first<const SIZE: usize>(rows: &[&[u8]], step: usize, out: &mut [u8]) {
    let Some(row) = rows.first() else { return };
    let (out, _) = out.as_chunks_mut::<SIZE>();
    for (o, pixels) in out.iter_mut().zip(row.chunks_exact(SIZE.saturating_mul(step.max(1)))) {
        if let Some(first) = pixels.first_chunk() {
            *o = *first;
        }
    }
}

/// The number of pixels per downsampled pixel.
fn pixels(rows: &[&[u8]], step: usize) -> u32 {
    u32::try_from(rows.len().saturating_mul(step)).unwrap_or(u32::MAX)
}

/// The sum of two neighbours, written so that compilers vectorize it.
fn pair_u8(two: &[u8; 2]) -> u16 {
    let both = u16::from_le_bytes(*two);
    (both & 0xff) + (both >> 8)
}

fn pair_i8(two: &[u8; 2]) -> i16 {
    let both = i16::from_le_bytes(*two);
    ((both << 8) >> 8) + (both >> 8)
}
