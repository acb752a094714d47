//! Bulk conversion of numbers: from the bytes of any numeric type to a common form and back, by numpy's rules.
//!
//! Signed integers are held as `i64`, unsigned ones and booleans as `u64`, floats of every format as `f64`; each form
//! holds its types exactly. Arithmetic of a narrower float format is done in `f64` and rounded to the format after
//! each operation: with at least `2p + 2` bits at hand, that is the same as doing it in the format.
#![allow(clippy::as_conversions, reason = "the casts are the point: each is the C cast that numpy makes")]

use std::borrow::Cow;

use crate::error::{Result, invalid, unsupported};
use crate::meta::dtype::{DataType, Float};
use crate::meta::fill::{self, Dialect};
use crate::meta::float;
use crate::meta::json::Json;
use crate::meta::{Findings, Mode};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum NumberOp {
    Int(Vec<i64>),
    UInt(Vec<u64>),
    Float(Vec<f64>),
}

/// The type whose bits `data_type` is made of, if it is a number: times are integers.
pub(super) fn plain(data_type: &DataType) -> Result<Cow<'_, DataType>> {
    match data_type {
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) | DataType::Float(_) => {
            Ok(Cow::Borrowed(data_type))
        }
        DataType::DateTime(..) | DataType::TimeDelta(..) => Ok(Cow::Owned(DataType::Int(64))),
        other => Err(unsupported!("{other} elements")),
    }
}

/// Whether arithmetic on this type is that of floats; if so, of which.
pub(super) fn float_of(data_type: &DataType) -> Option<Float> {
    if let DataType::Float(f) = data_type { Some(*f) } else { None }
}

macro_rules! read {
    ($bytes:expr, $t:ty, $wide:ty) => {
        $bytes.as_chunks::<{ size_of::<$t>() }>().0.iter().map(|c| <$t>::from_le_bytes(*c) as $wide).collect()
    };
}

macro_rules! write_as {
    ($values:expr, $t:ty, $cast:expr) => {
        $values.into_iter().flat_map(|v| <$t>::to_le_bytes($cast(v))).collect()
    };
}

/// Reads little-endian elements.
pub(super) fn load(bytes: &[u8], data_type: &DataType) -> Result<NumberOp> {
    Ok(match *plain(data_type)? {
        DataType::Bool => NumberOp::UInt(bytes.iter().map(|b| u64::from(*b != 0)).collect()),
        DataType::Int(16) => NumberOp::Int(read!(bytes, i16, i64)),
        DataType::Int(32) => NumberOp::Int(read!(bytes, i32, i64)),
        DataType::Int(64) => NumberOp::Int(read!(bytes, i64, i64)),
        DataType::Int(_) => NumberOp::Int(read!(bytes, i8, i64)),
        DataType::UInt(16) => NumberOp::UInt(read!(bytes, u16, u64)),
        DataType::UInt(32) => NumberOp::UInt(read!(bytes, u32, u64)),
        DataType::UInt(64) => NumberOp::UInt(read!(bytes, u64, u64)),
        DataType::UInt(_) => NumberOp::UInt(read!(bytes, u8, u64)),
        DataType::Float(Float::F64) => NumberOp::Float(read!(bytes, f64, f64)),
        DataType::Float(Float::F32) => NumberOp::Float(read!(bytes, f32, f64)),
        DataType::Float(f) => NumberOp::Float(match f.size() {
            2 => {
                bytes.as_chunks().0.iter().map(|c| float::to_f64(f, u16::from_le_bytes(*c).into())).collect()
            }
            _ => bytes.iter().map(|b| float::to_f64(f, u64::from(*b))).collect(),
        }),
        _ => return Err(unsupported!("{data_type} elements")),
    })
}

/// Writes numbers as little-endian elements, with the casts C makes: integers wrap, floats lose their fraction. C says
/// nothing of floats that do not fit an integer, and numpy's answer varies even along one array; ours is that of x86
/// for single numbers.
pub(super) fn store(numbers: NumberOp, data_type: &DataType) -> Result<Vec<u8>> {
    let data_type = plain(data_type)?;
    Ok(match (numbers, &*data_type) {
        (NumberOp::Int(v), t) => store_bits(v.into_iter().map(|x| (x as u64, x as f64, x as f32)), t),
        (NumberOp::UInt(v), t) => store_bits(v.into_iter().map(|x| (x, x as f64, x as f32)), t),
        (NumberOp::Float(v), DataType::Float(Float::F64)) => write_as!(v, f64, |x: f64| x),
        (NumberOp::Float(v), DataType::Float(Float::F32)) => write_as!(v, f32, |x: f64| x as f32),
        (NumberOp::Float(v), DataType::Float(f)) => v
            .into_iter()
            .flat_map(|x| float::from_f64(*f, x).to_le_bytes().into_iter().take(f.size()))
            .collect(),
        (NumberOp::Float(v), DataType::Bool) => v.into_iter().map(|x| u8::from(x != 0.0)).collect(),
        (NumberOp::Float(v), DataType::Int(64)) => write_as!(v, i64, to_i64),
        (NumberOp::Float(v), DataType::UInt(64)) => write_as!(v, u64, to_u64),
        (NumberOp::Float(v), DataType::Int(32)) => write_as!(v, i32, to_i32),
        (NumberOp::Float(v), DataType::UInt(32)) => write_as!(v, u32, |x| to_i64(x) as u32),
        (NumberOp::Float(v), DataType::Int(16) | DataType::UInt(16)) => {
            write_as!(v, i16, |x| to_i32(x) as i16)
        }
        (NumberOp::Float(v), _) => v.into_iter().map(|x| to_i32(x) as u8).collect(),
    })
}

/// Writes integers, given as their bits and as the floats nearest to them.
fn store_bits(v: impl Iterator<Item = (u64, f64, f32)>, data_type: &DataType) -> Vec<u8> {
    match data_type {
        DataType::Bool => v.map(|(b, ..)| u8::from(b != 0)).collect(),
        DataType::Float(Float::F64) => v.flat_map(|(_, x, _)| x.to_le_bytes()).collect(),
        DataType::Float(Float::F32) => v.flat_map(|(.., x)| x.to_le_bytes()).collect(),
        // As numpy does it, by way of f32.
        DataType::Float(Float::F16) => v.flat_map(|(.., x)| half::f16::from_f32(x).to_le_bytes()).collect(),
        DataType::Float(f) => {
            v.flat_map(|(_, x, _)| float::from_f64(*f, x).to_le_bytes().into_iter().take(f.size())).collect()
        }
        other => {
            let size = other.size();
            v.flat_map(|(b, ..)| b.to_le_bytes().into_iter().take(size)).collect()
        }
    }
}

fn to_i32(x: f64) -> i32 {
    if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

fn to_i64(x: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x) { x as i64 } else { i64::MIN }
}

fn to_u64(x: f64) -> u64 {
    match x {
        x if x < 9_223_372_036_854_775_808.0 => to_i64(x) as u64,
        x if x < 18_446_744_073_709_551_616.0 => x as u64,
        x if x.is_nan() => 1 << 63,
        _ => 0,
    }
}

pub(super) fn cast(bytes: &[u8], from: &DataType, to: &DataType) -> Result<Vec<u8>> {
    if from == to { Ok(bytes.to_vec()) } else { store(load(bytes, from)?, to) }
}

/// The number of the format nearest to `x`, as an `f64`.
pub(super) fn round(f: Float, x: f64) -> f64 {
    match f {
        Float::F64 => x,
        Float::F32 => f64::from(x as f32),
        f => float::to_f64(f, float::from_f64(f, x)),
    }
}

/// The type that numpy calculates in when these two meet.
pub(super) fn promote(a: &DataType, b: &DataType) -> Result<DataType> {
    use DataType::{Bool, Int, UInt};
    Ok(match (&*plain(a)?, &*plain(b)?) {
        (a, b) if a == b => a.clone(),
        (Bool, t) | (t, Bool) => t.clone(),
        (Int(a), Int(b)) => Int(*a.max(b)),
        (UInt(a), UInt(b)) => UInt(*a.max(b)),
        (Int(i), UInt(u)) | (UInt(u), Int(i)) => match (*i).max(u.saturating_mul(2)) {
            bits @ ..=64 => Int(bits),
            _ => DataType::FLOAT64,
        },
        (DataType::Float(f), t) | (t, DataType::Float(f)) => {
            let bits = match t {
                DataType::Float(g) => g.bits(),
                Int(8) | UInt(8) => 16,
                Int(16) | UInt(16) => 32,
                _ => 64,
            };
            match f.bits().max(bits) {
                16 => DataType::Float(Float::F16),
                32 => DataType::FLOAT32,
                _ => DataType::FLOAT64,
            }
        }
        (a, b) => return Err(unsupported!("{a} together with {b} is not supported")),
    })
}

/// A number in a configuration, which numpy calculates with as Python would hand it over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Int(i128),
    Float(f64),
}

impl Scalar {
    pub(super) fn from_json(json: &Json, name: &'static str) -> Result<Self> {
        let read = json.as_i128().map(Self::Int).or_else(|| json.as_f64().map(Self::Float));
        read.ok_or_else(|| invalid!("{name:?} must be a number, not {json}").with_field(name))
    }

    pub(super) fn as_f64(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(x) => x,
        }
    }
}

/// The bits, little-endian, of a number given as V3 gives fill values: integers without fraction, floats also as
/// `"NaN"`, `"Infinity"`, `"-Infinity"` or `"0x…"`.
pub(super) fn fill_scalar(json: &Json, data_type: &DataType) -> Result<Vec<u8>> {
    let read = fill::read(json, data_type, Dialect::V3, &mut Findings::new(Mode::Strict, ""));
    let read = read.map(|fill| fill.0.to_vec()).ok();
    // Floats of less than a byte have no more bits than they have.
    let fits = |bytes: &Vec<u8>| {
        float_of(data_type).is_none_or(|f| f.bits() >= 8 || bytes.iter().all(|b| *b >> f.bits() == 0))
    };
    read.filter(fits).ok_or_else(|| invalid!("{json} is not a {data_type}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::NUMBERS;
    use crate::meta::json::json;

    #[test]
    fn what_is_loaded_is_stored_again() {
        let bytes: Vec<u8> = (0..64).map(|i| if i % 8 < 4 { i } else { 0x21 }).collect();
        for t in NUMBERS.iter().skip(1) {
            assert_eq!(store(load(&bytes, t).unwrap(), t).unwrap(), bytes, "{t}");
        }
        assert!(load(&bytes, &DataType::String).is_err());
    }

    #[test]
    fn casts_are_those_of_numpy() {
        let x = NumberOp::Float(vec![1e10, -1e10, 300.7, -1.5, f64::NAN, 1e19, 70000.0]);
        let as_i64 = |t: &DataType| match load(&store(x.clone(), t).unwrap(), t).unwrap() {
            NumberOp::Int(v) => v,
            NumberOp::UInt(v) => v.into_iter().map(|x| x as i64).collect(),
            NumberOp::Float(_) => vec![],
        };
        assert_eq!(as_i64(&DataType::Int(8)), [0, 0, 44, -1, 0, 0, 112]);
        assert_eq!(as_i64(&DataType::UInt(16)), [0, 0, 300, 65535, 0, 0, 4464]);
        let low = i64::from(i32::MIN);
        assert_eq!(as_i64(&DataType::Int(32)), [low, low, 300, -1, low, low, 70000]);
        let min = i64::MIN;
        assert_eq!(as_i64(&DataType::Int(64)), [10_000_000_000, -10_000_000_000, 300, -1, min, min, 70000]);
        assert_eq!(as_i64(&DataType::Bool), [1; 7]);
        let wide = NumberOp::Int(vec![(1 << 53) + 1, (1 << 24) + 1, -5]);
        let f32s = store(wide, &DataType::FLOAT32).unwrap();
        assert_eq!(
            load(&f32s, &DataType::FLOAT32).unwrap(),
            NumberOp::Float(vec![9007199254740992.0, 16777216.0, -5.0])
        );
        let half = store(NumberOp::Int(vec![70000, 2049, 65519]), &DataType::Float(Float::F16)).unwrap();
        let half = load(&half, &DataType::Float(Float::F16)).unwrap();
        assert_eq!(half, NumberOp::Float(vec![f64::INFINITY, 2048.0, 65504.0]));
    }

    #[test]
    fn promotion_is_that_of_numpy() {
        for (i, a) in NUMBERS.iter().enumerate() {
            for (j, b) in NUMBERS.iter().enumerate() {
                let want = &NUMBERS[usize::from(PROMOTED[i][j])];
                assert_eq!(&promote(a, b).unwrap(), want, "{a} {b}");
            }
        }
    }

    /// `np.promote_types` of numpy 2.4 over the types above, as indices.
    const PROMOTED: [[u8; 12]; 12] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        [1, 1, 2, 3, 4, 2, 3, 4, 11, 9, 10, 11],
        [2, 2, 2, 3, 4, 2, 3, 4, 11, 10, 10, 11],
        [3, 3, 3, 3, 4, 3, 3, 4, 11, 11, 11, 11],
        [4, 4, 4, 4, 4, 4, 4, 4, 11, 11, 11, 11],
        [5, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        [6, 3, 3, 3, 4, 6, 6, 7, 8, 10, 10, 11],
        [7, 4, 4, 4, 4, 7, 7, 7, 8, 11, 11, 11],
        [8, 11, 11, 11, 11, 8, 8, 8, 8, 11, 11, 11],
        [9, 9, 10, 11, 11, 9, 10, 11, 11, 9, 10, 11],
        [10, 10, 10, 11, 11, 10, 10, 11, 11, 10, 10, 11],
        [11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11],
    ];

    #[test]
    fn scalars_are_read_as_fill_values_are() {
        let read = |text: &str, t: DataType| fill_scalar(&json(text), &t).ok();
        assert_eq!(read("-1", DataType::Int(16)), Some(vec![255, 255]));
        assert_eq!(read("255", DataType::UINT8), Some(vec![255]));
        assert_eq!(read("18446744073709551615", DataType::UINT64), Some(vec![255; 8]));
        assert_eq!(read("\"0x7fa00000\"", DataType::FLOAT32), Some(vec![0, 0, 0xa0, 0x7f]));
        assert_eq!(read("\"NaN\"", DataType::Float(Float::BF16)), Some(vec![0xc0, 0x7f]));
        for (text, t) in [
            ("256", DataType::UINT8),
            ("-1", DataType::UINT8),
            ("1.0", DataType::UINT8),
            ("\"1\"", DataType::UINT8),
            ("true", DataType::UINT8),
            ("\"0x\"", DataType::FLOAT32),
            ("\"0x100000000\"", DataType::FLOAT32),
            ("\"nan\"", DataType::FLOAT32),
            ("[1]", DataType::FLOAT32),
            ("8", DataType::Int(4)),
        ] {
            assert_eq!(read(text, t), None, "{text}");
        }
    }
}
