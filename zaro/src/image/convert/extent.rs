//! The least and the greatest value of each channel, found while pixels go by.

use std::sync::{Mutex, PoisonError};

use half::f16;

use crate::error::Result;
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// Between which values pixels are; nothing if there were none, or only such as are no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Extent(Option<(f64, f64)>);

impl Extent {
    fn join(&mut self, other: Self) {
        self.0 = match (self.0, other.0) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }

    /// Least and greatest; 0 and 1 if nothing is known.
    pub(super) fn between(self) -> (f64, f64) {
        self.0.unwrap_or((0.0, 1.0))
    }
}

#[allow(clippy::as_conversions, reason = "numbers beyond 2^53 may be rounded: this is what a window shows")]
fn of_u64(n: u64) -> f64 {
    n as f64
}

#[allow(clippy::as_conversions, reason = "numbers beyond 2^53 may be rounded: this is what a window shows")]
fn of_i64(n: i64) -> f64 {
    n as f64
}

macro_rules! integers {
    ($type:ty, $bytes:expr, $float:expr) => {{
        let numbers = $bytes.as_chunks().0.iter().map(|b| <$type>::from_le_bytes(*b));
        let (least, most) = numbers.fold((<$type>::MAX, <$type>::MIN), |(a, b), n| (a.min(n), b.max(n)));
        (least <= most).then(|| ($float(least.into()), $float(most.into())))
    }};
}

/// `min` and `max` pass over what is no number; infinities count as none here.
fn floats(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = numbers.filter(|x| x.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| {
        (if x < a { x } else { a }, if x > b { x } else { b })
    });
    (least <= most).then_some((least, most))
}

fn of(data_type: &DataType, bytes: &[u8]) -> Extent {
    Extent(match data_type {
        DataType::UInt(8) => integers!(u8, bytes, of_u64),
        DataType::UInt(16) => integers!(u16, bytes, of_u64),
        DataType::UInt(32) => integers!(u32, bytes, of_u64),
        DataType::UInt(64) => integers!(u64, bytes, of_u64),
        DataType::Int(8) => integers!(i8, bytes, of_i64),
        DataType::Int(16) => integers!(i16, bytes, of_i64),
        DataType::Int(32) => integers!(i32, bytes, of_i64),
        DataType::Int(64) => integers!(i64, bytes, of_i64),
        DataType::Float(Float::F16) => {
            floats(bytes.as_chunks().0.iter().map(|b| f64::from(f16::from_le_bytes(*b))))
        }
        DataType::Float(Float::F32) => {
            floats(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))))
        }
        DataType::Float(Float::F64) => floats(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
        _ => None,
    })
}

/// Widens the extents of channels by a block of t, c, z, y, x whose first channel is `first`.
pub(super) fn widen(
    extents: &Mutex<Vec<Extent>>,
    data_type: &DataType,
    first: u64,
    [_, channels, z, y, x]: [u64; 5],
    block: &[u8],
) -> Result<()> {
    let volume = num::product_usize(&[z, y, x, num::u64_of(data_type.size())])?;
    let channels = num::usize_of(channels)?.max(1);
    let first = num::usize_of(first)?;
    for (i, part) in block.chunks_exact(volume.max(1)).enumerate() {
        let found = of(data_type, part);
        let mut all = extents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(extent) = all.get_mut(first + i % channels) {
            extent.join(found);
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
        let f = |all: &[f32]| of(&DataType::FLOAT32, &bytes(all)).0;
        assert_eq!(f(&[f32::NAN, 2.0, -1.5, f32::INFINITY]), Some((-1.5, 2.0)));
        assert_eq!(f(&[f32::NAN]), None);
        assert_eq!(of(&DataType::Int(8), &[255, 3]).0, Some((-1.0, 3.0)));
        assert_eq!(of(&DataType::UINT8, &[]).0, None);
    }

    #[test]
    fn channels_are_told_apart() {
        let extents = Mutex::new(vec![Extent::default(); 3]);
        widen(&extents, &DataType::UINT8, 1, [2, 2, 1, 1, 2], &[1, 2, 30, 40, 0, 5, 60, 7]).unwrap();
        let all = extents.into_inner().unwrap();
        assert_eq!(all.iter().map(|e| e.0).collect::<Vec<_>>(), [None, Some((0.0, 5.0)), Some((7.0, 60.0))]);
    }
}
