//! Collects the value range of each channel during conversion, and a histogram for types of few bits.

use std::sync::{Mutex, PoisonError};

use half::f16;

use crate::error::Result;
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// The share of pixels that may be below the window, and above: a few hot pixels must not make the rest dark.
const BEYOND: f64 = 0.001;

/// The maximum number of channels with a histogram; each takes half a mebibyte.
const MOST_COUNTED: usize = 64;

/// The range of pixel values; empty if there were none, or only NaN.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ValueRange {
    range: Option<(f64, f64)>,
    /// The histogram, from the minimum of the type; empty for types of many values.
    counts: Vec<u64>,
    /// The minimum of the type.
    first: f64,
}

impl ValueRange {
    /// Empty ranges for `channels` channels.
    pub(super) fn of_channels(data_type: &DataType, channels: usize) -> Vec<Self> {
        let (values, first) = match data_type {
            DataType::UInt(8) => (1 << 8, 0.0),
            DataType::Int(8) => (1 << 8, -128.0),
            DataType::UInt(16) => (1 << 16, 0.0),
            DataType::Int(16) => (1 << 16, -32768.0),
            _ => (0, 0.0),
        };
        let values = if channels <= MOST_COUNTED { values } else { 0 };
        vec![Self { range: None, counts: vec![0; values], first }; channels]
    }

    fn join(&mut self, other: Option<(f64, f64)>) {
        self.range = match (self.range, other) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }

    /// Minimum and maximum; 0 and 1 if unknown.
    pub(super) fn between(&self) -> (f64, f64) {
        self.range.unwrap_or((0.0, 1.0))
    }

    /// The range of nearly all pixels, if there is a histogram; else minimum and maximum.
    pub(super) fn shown(&self) -> (f64, f64) {
        let total: u64 = self.counts.iter().sum();
        let beyond = num::f64_of_u64(total) * BEYOND;
        let low = past(self.counts.iter().enumerate(), beyond);
        let high = past(self.counts.iter().enumerate().rev(), beyond);
        match (low, high) {
            (Some(low), Some(high)) if low < high => {
                (self.first + num::f64_of_usize(low), self.first + num::f64_of_usize(high))
            }
            _ => self.between(),
        }
    }
}

/// The first position at which the cumulated count exceeds `beyond`.
fn past<'a>(mut counts: impl Iterator<Item = (usize, &'a u64)>, beyond: f64) -> Option<usize> {
    let mut sum = 0;
    let found = counts.find(|(_, n)| {
        sum += **n;
        num::f64_of_u64(sum) > beyond
    });
    found.map(|(place, _)| place)
}

/// Adds the histogram of `bytes` to `counts`, which starts at the minimum of the type.
fn count(data_type: &DataType, bytes: &[u8], counts: &mut [u32]) {
    let mut add = |i: usize| {
        if let Some(n) = counts.get_mut(i) {
            *n = n.saturating_add(1);
        }
    };
    match data_type {
        DataType::UInt(8) => bytes.iter().for_each(|b| add(usize::from(*b))),
        // With the sign bit flipped, the minimum comes first.
        DataType::Int(8) => bytes.iter().for_each(|b| add(usize::from(*b ^ 0x80))),
        DataType::UInt(16) => {
            bytes.as_chunks().0.iter().for_each(|b| add(usize::from(u16::from_le_bytes(*b))));
        }
        DataType::Int(16) => {
            bytes.as_chunks().0.iter().for_each(|b| add(usize::from(u16::from_le_bytes(*b) ^ 0x8000)));
        }
        _ => {}
    }
}

macro_rules! integers {
    ($type:ty, $bytes:expr, $float:expr) => {{
        let numbers = $bytes.as_chunks().0.iter().map(|b| <$type>::from_le_bytes(*b));
        let (least, most) = numbers.fold((<$type>::MAX, <$type>::MIN), |(a, b), n| (a.min(n), b.max(n)));
        (least <= most).then(|| ($float(least.into()), $float(most.into())))
    }};
}

/// Minimum and maximum, ignoring NaN and infinities.
fn floats(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = numbers.filter(|x| x.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| {
        (if x < a { x } else { a }, if x > b { x } else { b })
    });
    (least <= most).then_some((least, most))
}

fn of(data_type: &DataType, bytes: &[u8]) -> Option<(f64, f64)> {
    match data_type {
        DataType::UInt(8) => integers!(u8, bytes, num::f64_of_u64),
        DataType::UInt(16) => integers!(u16, bytes, num::f64_of_u64),
        DataType::UInt(32) => integers!(u32, bytes, num::f64_of_u64),
        DataType::UInt(64) => integers!(u64, bytes, num::f64_of_u64),
        DataType::Int(8) => integers!(i8, bytes, num::f64_of_i64),
        DataType::Int(16) => integers!(i16, bytes, num::f64_of_i64),
        DataType::Int(32) => integers!(i32, bytes, num::f64_of_i64),
        DataType::Int(64) => integers!(i64, bytes, num::f64_of_i64),
        DataType::Float(Float::F16) => {
            floats(bytes.as_chunks().0.iter().map(|b| f64::from(f16::from_le_bytes(*b))))
        }
        DataType::Float(Float::F32) => {
            floats(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))))
        }
        DataType::Float(Float::F64) => floats(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
        _ => None,
    }
}

/// Extends the ranges of channels by a block of t, c, z, y, x whose first channel is `first`.
pub(super) fn widen(
    extents: &Mutex<Vec<ValueRange>>,
    data_type: &DataType,
    first: u64,
    [_, channels, z, y, x]: [u64; 5],
    block: &[u8],
) -> Result<()> {
    let volume = num::product_usize(&[z, y, x, num::u64_of(data_type.size())])?;
    let channels = num::usize_of(channels)?.max(1);
    let first = num::usize_of(first)?;
    let values = extents.lock().unwrap_or_else(PoisonError::into_inner).first().map_or(0, |e| e.counts.len());
    let mut counts = vec![0; values];
    for (i, part) in block.chunks_exact(volume.max(1)).enumerate() {
        let found = of(data_type, part);
        counts.fill(0);
        if values > 0 {
            count(data_type, part, &mut counts);
        }
        let mut all = extents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(extent) = all.get_mut(first + i % channels) {
            extent.join(found);
            extent.counts.iter_mut().zip(&counts).for_each(|(sum, n)| *sum += u64::from(*n));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_does_not_count() {
        let bytes = |all: &[f32]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let f = |all: &[f32]| of(&DataType::FLOAT32, &bytes(all));
        assert_eq!(f(&[f32::NAN, 2.0, -1.5, f32::INFINITY]), Some((-1.5, 2.0)));
        assert_eq!(f(&[f32::NAN]), None);
        assert_eq!(of(&DataType::Int(8), &[255, 3]), Some((-1.0, 3.0)));
        assert_eq!(of(&DataType::UINT8, &[]), None);
    }

    #[test]
    fn channels_are_told_apart() {
        let extents = Mutex::new(ValueRange::of_channels(&DataType::UINT8, 3));
        widen(&extents, &DataType::UINT8, 1, [2, 2, 1, 1, 2], &[1, 2, 30, 40, 0, 5, 60, 7]).unwrap();
        let all = extents.into_inner().unwrap();
        assert_eq!(
            all.iter().map(|e| e.range).collect::<Vec<_>>(),
            [None, Some((0.0, 5.0)), Some((7.0, 60.0))]
        );
    }

    #[test]
    fn a_few_hot_pixels_do_not_make_the_rest_dark() {
        let shown = |data_type: DataType, bytes: &[u8]| {
            let extents = Mutex::new(ValueRange::of_channels(&data_type, 1));
            let n = num::u64_of(bytes.len() / data_type.size());
            widen(&extents, &data_type, 0, [1, 1, 1, 1, n], bytes).unwrap();
            let all = extents.into_inner().unwrap();
            (all[0].shown(), all[0].between())
        };
        let mut numbers: Vec<i16> = (0..5000).map(|i| i % 100 - 50).collect();
        numbers[7] = 30_000;
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(shown(DataType::Int(16), &bytes), ((-50.0, 49.0), (-50.0, 30_000.0)));
        let unsigned: Vec<u8> = numbers.iter().flat_map(|n| n.unsigned_abs().to_le_bytes()).collect();
        assert_eq!(shown(DataType::UInt(16), &unsigned), ((0.0, 50.0), (0.0, 30_000.0)));
        // Where all else is one value, the few are what there is to see.
        let mut dots = vec![0u8; 5000];
        dots[3] = 200;
        assert_eq!(shown(DataType::UINT8, &dots).0, (0.0, 200.0));
        assert_eq!(shown(DataType::Int(8), &[255, 3, 128, 127]).0, (-128.0, 127.0));
        assert_eq!(shown(DataType::FLOAT32, &[0; 8]).0, (0.0, 0.0));
    }
}
