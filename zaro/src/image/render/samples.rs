//! Samples of every type of number, as they come from arrays.

use crate::error::{Result, unsupported};
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// A type of number that can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
}

impl Kind {
    /// That of an array.
    pub(super) fn of(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Bool => Self::Bool,
            DataType::UInt(2 | 4 | 8) => Self::U8,
            DataType::Int(2 | 4 | 8) => Self::I8,
            DataType::UInt(16) => Self::U16,
            DataType::Int(16) => Self::I16,
            DataType::UInt(32) => Self::U32,
            DataType::Int(32) => Self::I32,
            DataType::UInt(64) => Self::U64,
            DataType::Int(64) => Self::I64,
            DataType::Float(Float::F16) => Self::F16,
            DataType::Float(Float::BF16) => Self::BF16,
            DataType::Float(Float::F32) => Self::F32,
            DataType::Float(Float::F64) => Self::F64,
            other => return Err(unsupported!("pixels of type {other} cannot be drawn")),
        })
    }

    /// Bytes of one.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether some values are no numbers.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// The least and the largest integer; `None` for the others.
    pub(super) fn range(self) -> Option<(f64, f64)> {
        Some(match self {
            Self::Bool => (0.0, 1.0),
            Self::U8 => (0.0, u8::MAX.into()),
            Self::I8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U16 => (0.0, u16::MAX.into()),
            Self::I16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U32 => (0.0, u32::MAX.into()),
            Self::I32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U64 => (0.0, num::f64_of_u64(u64::MAX)),
            Self::I64 => (num::f64_of_i64(i64::MIN), num::f64_of_i64(i64::MAX)),
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => return None,
        })
    }

    /// What to subtract from samples before they become real numbers, for a window that starts there: nothing, but of
    /// whole numbers that are too large to be real ones.
    pub(super) fn origin(self, start: f64) -> i128 {
        let large = matches!(self, Self::U64 | Self::I64) && start.abs() >= EXACT;
        if large { whole_part(start) } else { 0 }
    }

    /// The samples in `bytes`, less `origin`, as real numbers, into `out`. What `bytes` has too few of is left as it is.
    pub(super) fn decode(self, bytes: &[u8], origin: i128, out: &mut [f64]) {
        match self {
            Self::Bool => each(bytes, out, |[b]| f64::from(u8::from(b != 0))),
            Self::U8 => each(bytes, out, |b| u8::from_le_bytes(b).into()),
            Self::I8 => each(bytes, out, |b| i8::from_le_bytes(b).into()),
            Self::U16 => each(bytes, out, |b| u16::from_le_bytes(b).into()),
            Self::I16 => each(bytes, out, |b| i16::from_le_bytes(b).into()),
            Self::U32 => each(bytes, out, |b| u32::from_le_bytes(b).into()),
            Self::I32 => each(bytes, out, |b| i32::from_le_bytes(b).into()),
            Self::U64 if origin == 0 => each(bytes, out, |b| num::f64_of_u64(u64::from_le_bytes(b))),
            Self::I64 if origin == 0 => each(bytes, out, |b| num::f64_of_i64(i64::from_le_bytes(b))),
            Self::U64 => each(bytes, out, |b| num::f64_of_i128(i128::from(u64::from_le_bytes(b)) - origin)),
            Self::I64 => each(bytes, out, |b| num::f64_of_i128(i128::from(i64::from_le_bytes(b)) - origin)),
            Self::F16 => each(bytes, out, |b| half::f16::from_le_bytes(b).to_f64()),
            Self::BF16 => each(bytes, out, |b| half::bf16::from_le_bytes(b).to_f64()),
            Self::F32 => each(bytes, out, |b| f32::from_le_bytes(b).into()),
            Self::F64 => each(bytes, out, f64::from_le_bytes),
        }
    }

    /// The whole numbers in `bytes`, into `out`; `false` if this is no type of them.
    pub(super) fn decode_whole(self, bytes: &[u8], out: &mut [i128]) -> bool {
        match self {
            Self::Bool => each(bytes, out, |[b]| i128::from(b != 0)),
            Self::U8 => each(bytes, out, |b| u8::from_le_bytes(b).into()),
            Self::I8 => each(bytes, out, |b| i8::from_le_bytes(b).into()),
            Self::U16 => each(bytes, out, |b| u16::from_le_bytes(b).into()),
            Self::I16 => each(bytes, out, |b| i16::from_le_bytes(b).into()),
            Self::U32 => each(bytes, out, |b| u32::from_le_bytes(b).into()),
            Self::I32 => each(bytes, out, |b| i32::from_le_bytes(b).into()),
            Self::U64 => each(bytes, out, |b| u64::from_le_bytes(b).into()),
            Self::I64 => each(bytes, out, |b| i64::from_le_bytes(b).into()),
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => return false,
        }
        true
    }
}

fn each<T, const N: usize>(bytes: &[u8], out: &mut [T], f: impl Fn([u8; N]) -> T) {
    for (sample, x) in bytes.as_chunks::<N>().0.iter().zip(out) {
        *x = f(*sample);
    }
}

/// Up to here all whole numbers are real numbers, too: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn whole_part(x: f64) -> i128 {
    // Far beyond all samples there is nothing to tell apart.
    num::i128_of_f64(x.clamp(-2e19, 2e19).trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_decoded() {
        let cases: [(Kind, Vec<u8>, f64); 13] = [
            (Kind::Bool, vec![255], 1.0),
            (Kind::U8, vec![200], 200.0),
            (Kind::I8, vec![200], -56.0),
            (Kind::U16, 40_000u16.to_le_bytes().to_vec(), 40_000.0),
            (Kind::I16, (-5i16).to_le_bytes().to_vec(), -5.0),
            (Kind::U32, u32::MAX.to_le_bytes().to_vec(), 4_294_967_295.0),
            (Kind::I32, i32::MIN.to_le_bytes().to_vec(), -2_147_483_648.0),
            (Kind::U64, (1u64 << 63).to_le_bytes().to_vec(), 9_223_372_036_854_775_808.0),
            (Kind::I64, i64::MIN.to_le_bytes().to_vec(), -9_223_372_036_854_775_808.0),
            (Kind::F16, half::f16::from_f32(1.5).to_le_bytes().to_vec(), 1.5),
            (Kind::BF16, half::bf16::from_f32(-2.0).to_le_bytes().to_vec(), -2.0),
            (Kind::F32, 0.25f32.to_le_bytes().to_vec(), 0.25),
            (Kind::F64, 1e300f64.to_le_bytes().to_vec(), 1e300),
        ];
        for (kind, bytes, wanted) in cases {
            assert_eq!(bytes.len(), kind.size());
            let mut out = [0.0];
            kind.decode(&bytes, 0, &mut out);
            assert_eq!(out[0], wanted, "{kind:?}");
        }
        let mut out = [0i128];
        assert!(Kind::U64.decode_whole(&u64::MAX.to_le_bytes(), &mut out));
        assert_eq!(out[0], u64::MAX.into());
        assert!(!Kind::F32.decode_whole(&[0; 4], &mut out));
    }
}
