//! Converts elements from the type of an input to that of the target array.
//!
//! Types must be the same, except for what numpy cannot express: its text has one width, small integers are whole
//! bytes, and unknown formats are raw bytes. If casting is allowed, numbers are converted. None may be out of range of
//! the new type, and only whole numbers become integers; floats are rounded to the nearest.

use super::npy::loses_its_type;
use super::value::{self, trim_nul};
use crate::array::{Order, Slab};
use crate::error::{Error, Result, invalid, usage};
use crate::meta::dtype::{DataType, Float};
use crate::meta::float::{self, Rounding};
use crate::num;

/// The kind of conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// None: the bytes are the same.
    Same,
    /// Fixed-width to variable-length text.
    Text,
    /// Fixed-width to variable-length bytes.
    Bytes,
    /// Fixed-width text or bytes to another width.
    Width,
    /// Numbers to numbers.
    Number,
}

/// A conversion.
#[derive(Debug, Clone)]
pub struct Cast {
    from: DataType,
    to: DataType,
    how: How,
}

impl Cast {
    /// The conversion from one type to another; numbers change type only if `allowed`.
    pub fn new(from: &DataType, to: &DataType, allowed: bool) -> Result<Self> {
        use DataType as T;
        let how = match (from, to) {
            (a, b) if a == b => How::Same,
            (T::FixedUtf32(_), T::String) => How::Text,
            (T::FixedBytes(_), T::Bytes) => How::Bytes,
            (T::FixedUtf32(_), T::FixedUtf32(_)) | (T::FixedBytes(_), T::FixedBytes(_)) => How::Width,
            (T::Raw(n), b) if loses_its_type(b) && b.size() == *n => How::Same,
            (T::Int(8), T::Int(2 | 4)) | (T::UInt(8), T::UInt(2 | 4)) => How::Number,
            (a, b) if allowed && parts(a) > 0 && parts(b) >= parts(a) => How::Number,
            (a, b) => {
                let e = usage!("the input has type {a}, but the array has type {b}");
                let helps = !allowed && parts(a) > 0 && parts(b) >= parts(a);
                return Err(if helps { e.with_hint("cast", "converts") } else { e });
            }
        };
        Ok(Self { from: from.clone(), to: to.clone(), how })
    }

    /// The memory per element during conversion.
    #[must_use]
    pub fn item_size(&self) -> usize {
        match self.how {
            How::Same => self.from.size(),
            _ => self.from.size().saturating_add(self.to.size()),
        }
    }

    /// Converts elements to a slab.
    pub fn apply(&self, bytes: Vec<u8>, shape: &[u64], order: Order) -> Result<Slab> {
        let size = self.from.size().max(1);
        match self.how {
            How::Same => Slab::new(&self.to, shape, order, bytes),
            How::Bytes => Slab::variable(&self.to, shape, order, bytes.chunks_exact(size).map(trim_nul)),
            How::Text => {
                let text = |item: &[u8]| {
                    let text = value::utf32(item);
                    // Reading replaces invalid code points by U+FFFD; writing must not.
                    let faulty = item.chunks_exact(4).any(|c| {
                        c.first_chunk().is_none_or(|c| char::from_u32(u32::from_le_bytes(*c)).is_none())
                    });
                    if faulty { Err(invalid!("{text:?} has an invalid UTF-32 code point")) } else { Ok(text) }
                };
                let texts = bytes.chunks_exact(size).map(text).collect::<Result<Vec<String>>>()?;
                Slab::variable(&self.to, shape, order, texts.iter().map(String::as_bytes))
            }
            How::Width => {
                let wanted = self.to.size();
                let mut out = Vec::with_capacity(bytes.len() / size * wanted);
                for item in bytes.chunks_exact(size) {
                    let kept = item.get(..wanted).unwrap_or(item);
                    if trim_nul(item).len() > wanted {
                        return Err(self.unfit(item));
                    }
                    out.extend_from_slice(kept);
                    out.extend(std::iter::repeat_n(0, wanted - kept.len()));
                }
                Slab::new(&self.to, shape, order, out)
            }
            How::Number => {
                let mut out = Vec::with_capacity(bytes.len() / size * self.to.size());
                for item in bytes.chunks_exact(size) {
                    self.number(item, &mut out).ok_or_else(|| self.unfit(item))?;
                }
                Slab::new(&self.to, shape, order, out)
            }
        }
    }

    fn unfit(&self, item: &[u8]) -> Error {
        let text = value::text_of(&self.from, item, value::Style::TEXT);
        usage!("{text} does not fit into {}", self.to)
    }

    fn number(&self, item: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (from, to) = (part(&self.from), part(&self.to));
        for number in item.chunks_exact(from.size()) {
            put(&to, number_of(&from, number)?, out)?;
        }
        let missing = parts(&self.to).checked_sub(parts(&self.from))?;
        out.extend(std::iter::repeat_n(0, missing.checked_mul(to.size())?));
        Some(())
    }
}

/// How many numbers an element consists of; 0 if it is not numeric.
fn parts(t: &DataType) -> usize {
    match t {
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) | DataType::Float(_) => 1,
        DataType::Complex(_) => 2,
        _ => 0,
    }
}

/// The type of these numbers.
fn part(t: &DataType) -> DataType {
    if let DataType::Complex(f) = t { DataType::Float(*f) } else { t.clone() }
}

enum Number {
    Int(i128),
    Float(f64),
}

fn number_of(t: &DataType, bytes: &[u8]) -> Option<Number> {
    Some(match t {
        DataType::Bool => Number::Int(i128::from(*bytes.first()? != 0)),
        DataType::Int(_) => Number::Int(value::signed(bytes)?.into()),
        DataType::UInt(_) => Number::Int(value::unsigned(bytes)?.into()),
        DataType::Float(f) => Number::Float(value::float_value(*f, bytes)?),
        _ => return None,
    })
}

/// Appends a number; `None` if it does not fit.
fn put(t: &DataType, number: Number, out: &mut Vec<u8>) -> Option<()> {
    match (t, number) {
        (DataType::Float(f), Number::Int(n)) => put_float(*f, num::f64_of_i128(n), out),
        (DataType::Float(f), Number::Float(x)) => put_float(*f, x, out),
        (_, Number::Int(n)) => t.put_integer(n, out),
        // Beyond 2^100 every float is an integer, and none fits.
        (_, Number::Float(x)) if x.fract() == 0.0 && x.abs() < 1e30 => {
            t.put_integer(num::i128_of_f64(x), out)
        }
        _ => None,
    }
}

fn put_float(f: Float, x: f64, out: &mut Vec<u8>) -> Option<()> {
    let bits = if x.is_nan() {
        float::canonical_nan(f)?;
        float::from_f64(f, x)
    } else if x.is_infinite() {
        float::infinity(f, x < 0.0)?
    } else if x == 0.0 {
        float::from_f64(f, x)
    } else {
        let (units, exponent) = float::parts(x);
        float::round(f, x < 0.0, units, exponent, Rounding::NearestEven)?
    };
    out.extend(bits.to_le_bytes().iter().take(f.size()));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(from: &DataType, to: &DataType, bytes: &[u8]) -> Result<Vec<u8>> {
        let n = u64::try_from(bytes.len() / from.size()).unwrap();
        Ok(Cast::new(from, to, true)?.apply(bytes.to_vec(), &[n], Order::C)?.bytes)
    }

    #[test]
    fn numbers_that_fit_are_converted() {
        let (f32s, f64s) = (DataType::FLOAT32, DataType::FLOAT64);
        assert_eq!(cast(&f64s, &f32s, &0.1f64.to_le_bytes()).unwrap(), 0.1f32.to_le_bytes());
        assert_eq!(
            cast(&f64s, &f32s, &f64::NEG_INFINITY.to_le_bytes()).unwrap(),
            f32::NEG_INFINITY.to_le_bytes()
        );
        assert_eq!(cast(&f32s, &f64s, &(-0.0f32).to_le_bytes()).unwrap(), (-0.0f64).to_le_bytes());
        assert_eq!(cast(&f64s, &DataType::Int(16), &(-7f64).to_le_bytes()).unwrap(), [0xf9, 0xff]);
        assert_eq!(cast(&DataType::UINT8, &f64s, &[3]).unwrap(), 3f64.to_le_bytes());
        let complex = DataType::Complex(Float::F32);
        assert_eq!(
            cast(&f64s, &complex, &2f64.to_le_bytes()).unwrap(),
            [2f32.to_le_bytes(), [0; 4]].concat()
        );
        assert_eq!(cast(&DataType::FixedBytes(2), &DataType::FixedBytes(4), b"ab").unwrap(), b"ab\0\0");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let f64s = DataType::FLOAT64;
        for (to, x) in [
            (DataType::FLOAT32, 1e39),
            (DataType::UINT8, 256.0),
            (DataType::UINT8, -1.0),
            (DataType::UINT8, 0.5),
            (DataType::UINT8, f64::NAN),
            (DataType::Int(64), f64::INFINITY),
            (DataType::Bool, 2.0),
            (DataType::Float(Float::F4E2M1FN), f64::NAN),
        ] {
            assert!(cast(&f64s, &to, &x.to_le_bytes()).is_err(), "{x} as {to}");
        }
        assert!(Cast::new(&f64s, &DataType::FLOAT32, false).is_err());
        assert!(Cast::new(&DataType::Complex(Float::F64), &f64s, true).is_err());
        assert!(Cast::new(&DataType::String, &f64s, true).is_err());
        assert!(cast(&DataType::FixedBytes(3), &DataType::FixedBytes(2), b"abc").is_err());
        assert!(cast(&DataType::Int(8), &DataType::Int(4), &[8]).is_err());
        assert!(cast(&DataType::FixedUtf32(1), &DataType::String, &0xd800u32.to_le_bytes()).is_err());
    }
}
