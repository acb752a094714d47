//! Gaussian downsampling: a weighted mean of pixels around the centre of each block.
//!
//! For a factor k the variance is (k² − 1) / (8 ln 2), so that the full width at half maximum is that of the blur
//! between both levels. The kernel is Lindeberg's discrete Gaussian, e^−t I_n(t), truncated to 99 % of its weight, and
//! centred on the block: on its middle pixel or, if k is even, half on either of the two middle pixels. Border pixels
//! are replicated outside the image. ngff-zarr's default method gives identical results.

use super::Downsampling;
use super::kernel::{refused, strides};
use crate::codec::shard::advance;
use crate::error::{Error, Result};
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// The share of the kernel's weight that is kept.
const KEPT: f64 = 0.99;

/// Weights of pixels along one axis.
#[derive(Debug, Clone, PartialEq)]
struct Weights {
    /// The offset of the first weight before the first pixel of the block.
    before: u64,
    weights: Vec<f64>,
}

impl Weights {
    fn of(step: u64) -> Self {
        if step < 2 {
            return Self { before: 0, weights: vec![1.0] };
        }
        let k = f64::from(u32::try_from(step).unwrap_or(u32::MAX));
        let bell = bell((k * k - 1.0) / (8.0 * std::f64::consts::LN_2));
        let radius = num::u64_of(bell.len() / 2);
        let middle = (step - 1) / 2;
        if step % 2 == 1 {
            return Self { before: radius.saturating_sub(middle), weights: trimmed(bell, radius, middle) };
        }
        // Half on either of the two middle pixels.
        let mut both = vec![0.0; bell.len() + 1];
        for (i, w) in bell.iter().enumerate() {
            for slot in both.iter_mut().skip(i).take(2) {
                *slot += w / 2.0;
            }
        }
        Self { before: radius.saturating_sub(middle), weights: trimmed(both, radius, middle) }
    }

    /// The offset of the last weight after the first pixel of the block.
    fn after(&self) -> u64 {
        num::u64_of(self.weights.len()).saturating_sub(self.before).saturating_sub(1)
    }
}

/// Pads weights to start at the first pixel of the block, if they would start later.
fn trimmed(weights: Vec<f64>, radius: u64, middle: u64) -> Vec<f64> {
    let zeros = usize::try_from(middle.saturating_sub(radius)).unwrap_or(0);
    std::iter::repeat_n(0.0, zeros).chain(weights).collect()
}

/// e^−t I_n(t) for n from −r to r, normalised.
fn bell(t: f64) -> Vec<f64> {
    // Downwards, where the recurrence is stable; normalized to a sum of one.
    let mut n = 16.0 + (8.0 * t.sqrt()).ceil();
    let (mut above, mut here) = (0.0, 1e-280);
    let mut half = vec![here];
    while n > 0.5 {
        let below = above + 2.0 * n / t * here;
        (above, here) = (here, below);
        half.push(here);
        n -= 1.0;
        if here > 1e200 {
            half.iter_mut().for_each(|x| *x *= 1e-200);
            (above, here) = (above * 1e-200, here * 1e-200);
        }
    }
    half.reverse();
    let total = 2.0 * half.iter().skip(1).sum::<f64>() + half.first().copied().unwrap_or(1.0);
    let mut kept = Vec::new();
    let mut sum = 0.0;
    for w in half {
        sum += if kept.is_empty() { w } else { 2.0 * w } / total;
        kept.push(w);
        if sum >= KEPT {
            break;
        }
    }
    let inside = sum * total;
    kept.iter().skip(1).rev().chain(&kept).map(|w| w / inside).collect()
}

/// The nearest single-precision number.
#[allow(clippy::as_conversions, reason = "the nearest one is what is wanted")]
pub(super) fn narrow(x: f64) -> f32 {
    x as f32
}

/// Adds the pixels of a row, times a weight.
type Add = fn(&[u8], f64, &mut [f64]);
/// Stores a row.
type Store = fn(&[f64], &mut [u8]);

/// The Gaussian method for a type of pixels.
#[derive(Debug, Clone)]
pub(super) struct Gaussian {
    size: usize,
    add: Add,
    store: Store,
    along: Vec<Weights>,
}

/// A part of a level.
#[derive(Debug, Clone)]
pub(super) struct LevelRegion {
    pub(super) start: Vec<u64>,
    pub(super) count: Vec<u64>,
}

/// The terms of a sum: the start of the run, and each position with its weight.
type Taps = (Option<usize>, Vec<(usize, f64)>);

/// Defines how pixels of a type are summed and stored.
macro_rules! pixels {
    ($type:ty, $to:expr, $from:expr) => {{
        #[allow(
            clippy::as_conversions,
            reason = "whole numbers beyond 2^53 are rounded; the way back clamps"
        )]
        fn add(row: &[u8], weight: f64, sums: &mut [f64]) {
            let to: fn($type) -> f64 = $to;
            for (sum, pixel) in sums.iter_mut().zip(row.as_chunks().0) {
                *sum += weight * to(<$type>::from_le_bytes(*pixel));
            }
        }

        #[allow(clippy::as_conversions, reason = "clamps")]
        fn store(values: &[f64], out: &mut [u8]) {
            let from: fn(f64) -> $type = $from;
            for (o, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                *o = from(*value).to_le_bytes();
            }
        }
        (add, store)
    }};
}

impl Gaussian {
    pub(super) fn of(data_type: &DataType, step: &[u64]) -> Result<Self> {
        let (add, store): (Add, Store) = match data_type {
            DataType::UInt(2 | 4 | 8) => pixels!(u8, |x| x.into(), |x| half_up(x) as u8),
            DataType::Int(2 | 4 | 8) => pixels!(i8, |x| x.into(), |x| half_up(x) as i8),
            DataType::UInt(16) => pixels!(u16, |x| x.into(), |x| half_up(x) as u16),
            DataType::Int(16) => pixels!(i16, |x| x.into(), |x| half_up(x) as i16),
            DataType::UInt(32) => pixels!(u32, |x| x.into(), |x| half_up(x) as u32),
            DataType::Int(32) => pixels!(i32, |x| x.into(), |x| half_up(x) as i32),
            DataType::UInt(64) => pixels!(u64, |x| x as f64, |x| half_up(x) as u64),
            DataType::Int(64) => pixels!(i64, |x| x as f64, |x| half_up(x) as i64),
            DataType::Float(Float::F16) => pixels!(half::f16, half::f16::to_f64, half::f16::from_f64),
            DataType::Float(Float::BF16) => pixels!(half::bf16, half::bf16::to_f64, half::bf16::from_f64),
            DataType::Float(Float::F32) => pixels!(f32, f64::from, narrow),
            DataType::Float(Float::F64) => pixels!(f64, |x| x, |x| x),
            _ => return Err(refused(Downsampling::Gaussian, data_type)),
        };
        Ok(Self { size: data_type.size(), add, store, along: step.iter().map(|f| Weights::of(*f)).collect() })
    }

    /// The region of a level of `shape` that is needed to build the region `made` of the smaller one.
    pub(super) fn needs(&self, made: &LevelRegion, step: &[u64], shape: &[u64]) -> LevelRegion {
        let mut start = Vec::new();
        let mut count = Vec::new();
        for (((o, n), (f, extent)), weights) in
            made.start.iter().zip(&made.count).zip(step.iter().zip(shape)).zip(&self.along)
        {
            let last = o.saturating_add(*n).saturating_sub(1).saturating_mul(*f);
            let first = o.saturating_mul(*f).saturating_sub(weights.before).min(extent.saturating_sub(1));
            let end = last.saturating_add(weights.after()).saturating_add(1).min(*extent);
            start.push(first);
            count.push(end.saturating_sub(first));
        }
        LevelRegion { start, count }
    }

    /// Builds the region `made` of the smaller level from `region` of the level of `shape`.
    pub(super) fn reduce(
        &self,
        input: &[u8],
        region: &LevelRegion,
        step: &[u64],
        shape: &[u64],
        made: &LevelRegion,
        out: &mut [u8],
    ) -> Result<()> {
        let rank = shape.len();
        let small = || Error::invalid("the size of a region differs from that of its buffer");
        let strides = strides(&region.count, self.size)?;
        let (Some(width), Some(wide)) = (region.count.last(), made.count.last()) else { return Err(small()) };
        let (width, wide) = (num::usize_of(*width)?, num::usize_of(*wide)?);
        // Along the last axis, the pixel for each weight of each new pixel.
        let whole = self.along.last().map(|w| w.weights.as_slice()).unwrap_or_default();
        let across: Vec<Taps> = self
            .places(rank - 1, region, step, shape, made)?
            .into_iter()
            .map(|places| {
                // Away from the borders they are adjacent, and need no lookup.
                let run = places.len() == whole.len()
                    && places.windows(2).all(|two| matches!(two, [a, b] if a.0.checked_add(1) == Some(b.0)));
                match places.first() {
                    Some((start, _)) if run => (Some(*start), Vec::new()),
                    _ => (None, places),
                }
            })
            .collect();
        let lines = num::product_usize(made.count.get(..rank - 1).unwrap_or_default())?;
        let line = wide.saturating_mul(self.size);
        if out.len() != lines.saturating_mul(line) {
            return Err(small());
        }
        let places: Vec<Vec<Vec<(usize, f64)>>> =
            (0..rank - 1).map(|d| self.places(d, region, step, shape, made)).collect::<Result<_>>()?;
        let mut at = vec![0u64; rank - 1];
        let mut sums = vec![0.0; width];
        let mut values = vec![0.0; wide];
        for row in out.chunks_exact_mut(line.max(1)).take(lines) {
            let mut rows: Vec<(usize, f64)> = vec![(0, 1.0)];
            for ((o, places), stride) in at.iter().zip(&places).zip(&strides) {
                let here = places.get(num::usize_of(*o)?).ok_or_else(small)?;
                let old = std::mem::take(&mut rows);
                for (base, weight) in old {
                    rows.extend(
                        here.iter()
                            .map(|(i, w)| (base.saturating_add(i.saturating_mul(*stride)), weight * w)),
                    );
                }
            }
            sums.fill(0.0);
            for (start, weight) in rows {
                let end = start.saturating_add(width.saturating_mul(self.size));
                (self.add)(input.get(start..end).ok_or_else(small)?, weight, &mut sums);
            }
            for (value, (window, weighted)) in values.iter_mut().zip(&across) {
                *value = match window.and_then(|start| sums.get(start..start.checked_add(whole.len())?)) {
                    Some(inside) => inside.iter().zip(whole).map(|(sum, w)| sum * w).sum(),
                    None => weighted.iter().map(|(i, w)| sums.get(*i).copied().unwrap_or(0.0) * w).sum(),
                };
            }
            (self.store)(&values, row);
            advance(&mut at, &made.count);
        }
        Ok(())
    }

    /// For each new position along dimension `d`: positions in the region, and their weights.
    fn places(
        &self,
        d: usize,
        region: &LevelRegion,
        step: &[u64],
        shape: &[u64],
        made: &LevelRegion,
    ) -> Result<Vec<Vec<(usize, f64)>>> {
        let of = |list: &[u64]| list.get(d).copied().unwrap_or(1);
        let (first, last) = (of(&region.start), of(shape).saturating_sub(1));
        let weights = self.along.get(d).ok_or_else(|| Error::invalid("a level has too many dimensions"))?;
        (of(&made.start)..of(&made.start).saturating_add(of(&made.count)))
            .map(|o| {
                let begin = o.saturating_mul(of(step));
                let weighted = weights.weights.iter().enumerate().filter(|(_, w)| **w != 0.0);
                weighted
                    .map(|(i, w)| {
                        // Border pixels are replicated.
                        let at =
                            begin.saturating_add(num::u64_of(i)).saturating_sub(weights.before).min(last);
                        Ok((num::usize_of(at.saturating_sub(first))?, *w))
                    })
                    .collect()
            })
            .collect()
    }
}

/// Rounds half up. Adds a billionth, so that a half with a rounding error counts as a half.
fn half_up(x: f64) -> f64 {
    (x + 0.5 + 1e-9).floor()
}
