//! Decodes samples of every numeric type to real numbers or integers.

use crate::error::{Result, unsupported};
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// A data type that can be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SampleKind(DataType);

impl SampleKind {
    /// That of an array with this data type.
    pub(super) fn of(data_type: &DataType) -> Result<Self> {
        Ok(Self(match data_type {
            // Types of few bits take a byte each.
            DataType::UInt(2 | 4) => DataType::UInt(8),
            DataType::Int(2 | 4) => DataType::Int(8),
            DataType::Bool
            | DataType::Int(8 | 16 | 32 | 64)
            | DataType::UInt(8 | 16 | 32 | 64)
            | DataType::Float(Float::F16 | Float::BF16 | Float::F32 | Float::F64) => data_type.clone(),
            other => return Err(unsupported!("pixels of type {other} cannot be rendered")),
        }))
    }

    /// Whether it is this data type.
    pub(super) fn is(&self, data_type: &DataType) -> bool {
        self.0 == *data_type
    }

    /// Bytes per sample.
    pub(super) fn size(&self) -> usize {
        self.0.size()
    }

    /// Whether values may be NaN.
    pub(super) fn is_float(&self) -> bool {
        matches!(self.0, DataType::Float(_))
    }

    /// The minimum and maximum of integer types; `None` for others.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let (least, most) = self.0.range()?;
        Some((num::f64_of_i128(least), num::f64_of_i128(most)))
    }

    /// The offset to subtract from samples before they become floats, for a window at `start`: 0, except for integers
    /// too large for exact floats.
    pub(super) fn origin(&self, start: f64) -> i128 {
        let large = matches!(self.0, DataType::UInt(64) | DataType::Int(64)) && start.abs() >= EXACT;
        if large { whole_part(start) } else { 0 }
    }

    /// Decodes samples, minus `origin`, to floats. If `bytes` is too short, the rest of `out` is unchanged.
    pub(super) fn decode(&self, bytes: &[u8], origin: i128, out: &mut [f64]) {
        let less = |n: i128| num::f64_of_i128(n - origin);
        match self.0 {
            DataType::UInt(64) if origin != 0 => each(bytes, out, |b| less(u64::from_le_bytes(b).into())),
            DataType::Int(64) if origin != 0 => each(bytes, out, |b| less(i64::from_le_bytes(b).into())),
            DataType::UInt(64) => each(bytes, out, |b| num::f64_of_u64(u64::from_le_bytes(b))),
            DataType::Int(64) => each(bytes, out, |b| num::f64_of_i64(i64::from_le_bytes(b))),
            DataType::Float(Float::F16) => each(bytes, out, |b| half::f16::from_le_bytes(b).to_f64()),
            DataType::Float(Float::BF16) => each(bytes, out, |b| half::bf16::from_le_bytes(b).to_f64()),
            DataType::Float(Float::F32) => each(bytes, out, |b| f32::from_le_bytes(b).into()),
            DataType::Float(_) => each(bytes, out, f64::from_le_bytes),
            _ => self.short(bytes, out),
        }
    }

    /// Decodes integers into `out`; `false` if this is not an integer type.
    pub(super) fn decode_whole(&self, bytes: &[u8], out: &mut [i128]) -> bool {
        match self.0 {
            DataType::UInt(64) => each(bytes, out, |b| u64::from_le_bytes(b).into()),
            DataType::Int(64) => each(bytes, out, |b| i64::from_le_bytes(b).into()),
            DataType::Float(_) => return false,
            _ => self.short(bytes, out),
        }
        true
    }

    /// Decodes integers of up to 32 bits, and booleans.
    fn short<T: From<u32> + From<i32>>(&self, bytes: &[u8], out: &mut [T]) {
        match self.0 {
            DataType::Bool => each(bytes, out, |[b]| i32::from(b != 0).into()),
            DataType::UInt(8) => each(bytes, out, |[b]| i32::from(b).into()),
            DataType::UInt(16) => each(bytes, out, |b| i32::from(u16::from_le_bytes(b)).into()),
            DataType::UInt(_) => each(bytes, out, |b| u32::from_le_bytes(b).into()),
            DataType::Int(8) => each(bytes, out, |b| i32::from(i8::from_le_bytes(b)).into()),
            DataType::Int(16) => each(bytes, out, |b| i32::from(i16::from_le_bytes(b)).into()),
            _ => each(bytes, out, |b| i32::from_le_bytes(b).into()),
        }
    }
}

fn each<T, const N: usize>(bytes: &[u8], out: &mut [T], f: impl Fn([u8; N]) -> T) {
    for (sample, x) in bytes.as_chunks::<N>().0.iter().zip(out) {
        *x = f(*sample);
    }
}

/// Up to here all integers are exact as floats: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn whole_part(x: f64) -> i128 {
    // Far beyond all samples, no precision is needed.
    num::i128_of_f64(x.clamp(-2e19, 2e19).trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_decoded() {
        let cases: [(DataType, Vec<u8>, f64); 13] = [
            (DataType::Bool, vec![255], 1.0),
            (DataType::UInt(8), vec![200], 200.0),
            (DataType::Int(8), vec![200], -56.0),
            (DataType::UInt(16), 40_000u16.to_le_bytes().to_vec(), 40_000.0),
            (DataType::Int(16), (-5i16).to_le_bytes().to_vec(), -5.0),
            (DataType::UInt(32), u32::MAX.to_le_bytes().to_vec(), 4_294_967_295.0),
            (DataType::Int(32), i32::MIN.to_le_bytes().to_vec(), -2_147_483_648.0),
            (DataType::UInt(64), (1u64 << 63).to_le_bytes().to_vec(), 9_223_372_036_854_775_808.0),
            (DataType::Int(64), i64::MIN.to_le_bytes().to_vec(), -9_223_372_036_854_775_808.0),
            (DataType::Float(Float::F16), half::f16::from_f32(1.5).to_le_bytes().to_vec(), 1.5),
            (DataType::Float(Float::BF16), half::bf16::from_f32(-2.0).to_le_bytes().to_vec(), -2.0),
            (DataType::FLOAT32, 0.25f32.to_le_bytes().to_vec(), 0.25),
            (DataType::FLOAT64, 1e300f64.to_le_bytes().to_vec(), 1e300),
        ];
        for (data_type, bytes, wanted) in cases {
            let kind = SampleKind::of(&data_type).unwrap();
            assert_eq!(bytes.len(), kind.size());
            let mut out = [0.0];
            kind.decode(&bytes, 0, &mut out);
            assert_eq!(out[0], wanted, "{kind:?}");
        }
        let mut out = [0i128];
        assert!(SampleKind(DataType::UInt(64)).decode_whole(&u64::MAX.to_le_bytes(), &mut out));
        assert_eq!(out[0], u64::MAX.into());
        assert!(!SampleKind(DataType::FLOAT32).decode_whole(&[0; 4], &mut out));
    }
}
