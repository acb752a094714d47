//! `cast_value`: converts values to another type.
//!
//! V3: `{"name": "cast_value", "configuration": {"data_type": "uint8", "rounding": "towards-zero", "out_of_range":
//! "clamp", "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}}`, for integers and floats. Only
//! `data_type` is required. An element is looked up in the map first; if it is not there, it is rounded (to the nearest,
//! ties to even, unless `rounding` says otherwise), and then what lies beyond the range of the type is an error, or
//! clamped, or (integers only) wraps. NaN stays NaN, and is an error for types that have none. Decoding does the same
//! the other way round. The fill value has to survive both.

use super::config::Config;
use super::number::{self, NumberOp};
use super::registry::CodecRequest;
use super::{ArrayToArray, Buffer, OutputSize, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::{DataType, Float};
use crate::meta::fill::Fill;
use crate::meta::float::{self, Rounding};
use crate::meta::json::Json;
use crate::meta::v3;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CastValue {
    decoded: DataType,
    encoded: DataType,
    rounding: Rounding,
    beyond: Beyond,
    encode_map: Vec<(ExactValue, Vec<u8>)>,
    decode_map: Vec<(ExactValue, Vec<u8>)>,
}

/// What becomes of a value beyond the range of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Error,
    Clamp,
    Wrap,
}

/// An element, exactly.
#[derive(Debug, Clone, Copy)]
enum ExactValue {
    Int(i128),
    Float(f64),
}

/// The same number; all NaNs are alike.
impl PartialEq for ExactValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b || a.is_nan() && b.is_nan(),
            _ => false,
        }
    }
}

impl CastValue {
    /// From its configuration, for elements of the type that the request says.
    pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Self> {
        let decoded = request.data_type.clone();
        let encoded = number_type(config.need("data_type")?)?;
        if !matches!(decoded, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_)) {
            return Err(invalid!("is for numbers, not {decoded}"));
        }
        let rounding = match config.str("rounding")? {
            None | Some("nearest-even") => Rounding::NearestEven,
            Some("nearest-away") => Rounding::NearestAway,
            Some("towards-zero") => Rounding::Zero,
            Some("towards-positive") => Rounding::Positive,
            Some("towards-negative") => Rounding::Negative,
            Some(other) => return Err(invalid!("\"rounding\" {other:?} is not known")),
        };
        let beyond = match config.str("out_of_range")? {
            None => Beyond::Error,
            // So it was called in drafts of the specification.
            Some("error") if !request.strict => Beyond::Error,
            Some("clamp") => Beyond::Clamp,
            Some("wrap") if matches!(encoded, DataType::Float(_)) => {
                return Err(invalid!("\"out_of_range\" \"wrap\" is not possible for {encoded}"));
            }
            Some("wrap") => Beyond::Wrap,
            Some(other) => return Err(invalid!("\"out_of_range\" {other:?} is not known")),
        };
        let (mut encode_map, mut decode_map) = (Vec::new(), Vec::new());
        if let Some(maps) = config.get("scalar_map") {
            let members = maps.members().ok_or_else(|| Error::invalid("\"scalar_map\" must be an object"))?;
            for (name, map) in members {
                match name.as_str() {
                    "encode" => encode_map = scalar_map(map, &decoded, &encoded)?,
                    "decode" => decode_map = scalar_map(map, &encoded, &decoded)?,
                    other => {
                        return Err(invalid!("{other:?} is not a member of \"scalar_map\""));
                    }
                }
            }
        }
        config.finish()?;
        Ok(Self { decoded, encoded, rounding, beyond, encode_map, decode_map })
    }

    fn cast(&self, bytes: &[u8], encode: bool) -> Result<Vec<u8>> {
        let (from, to, map) = if encode {
            (&self.decoded, &self.encoded, &self.encode_map)
        } else {
            (&self.encoded, &self.decoded, &self.decode_map)
        };
        if from == to && map.is_empty() {
            return Ok(bytes.to_vec());
        }
        let size = to.size();
        let mut out = Vec::with_capacity(bytes.len() / from.size().max(1) * size);
        let mut one = |value: ExactValue| -> Result<()> {
            if let Some((_, mapped)) = map.iter().find(|(key, _)| *key == value) {
                out.extend_from_slice(mapped);
                return Ok(());
            }
            out.extend(self.convert(value, to)?.to_le_bytes().into_iter().take(size));
            Ok(())
        };
        match number::load(bytes, from)? {
            NumberOp::Int(v) => v.into_iter().try_for_each(|x| one(ExactValue::Int(i128::from(x))))?,
            NumberOp::UInt(v) => v.into_iter().try_for_each(|x| one(ExactValue::Int(i128::from(x))))?,
            NumberOp::Float(v) => v.into_iter().try_for_each(|x| one(ExactValue::Float(x)))?,
        }
        Ok(out)
    }

    /// The bits of a value in type `to`.
    fn convert(&self, value: ExactValue, to: &DataType) -> Result<u64> {
        let cannot = || match value {
            ExactValue::Int(n) => invalid!("{n} is no {to}"),
            ExactValue::Float(x) => invalid!("{x} is no {to}"),
        };
        match to {
            DataType::Int(bits) => {
                let half = 1i128 << (bits - 1);
                self.convert_int(value, -half, half - 1).ok_or_else(cannot)
            }
            DataType::UInt(bits) => self.convert_int(value, 0, (1i128 << bits) - 1).ok_or_else(cannot),
            DataType::Float(f) => self.convert_float(value, *f).ok_or_else(cannot),
            _ => Err(cannot()),
        }
    }

    #[allow(clippy::as_conversions, reason = "integers of at most 64 bits to their bits")]
    fn convert_int(&self, value: ExactValue, least: i128, greatest: i128) -> Option<u64> {
        let count = greatest - least + 1;
        let n = match value {
            ExactValue::Int(n) => n,
            ExactValue::Float(x) if x.is_nan() => return None,
            ExactValue::Float(x) => {
                let whole = match self.rounding {
                    Rounding::NearestEven => x.round_ties_even(),
                    Rounding::NearestAway => x.round(),
                    Rounding::Zero => x.trunc(),
                    Rounding::Positive => x.ceil(),
                    Rounding::Negative => x.floor(),
                };
                match self.beyond {
                    // Exact: the remainder by a power of two, of at most 64 bits.
                    Beyond::Wrap if whole.is_infinite() => return None,
                    Beyond::Wrap => (whole % count as f64) as i128,
                    // Saturates far outside of every type.
                    _ => whole as i128,
                }
            }
        };
        let n = match self.beyond {
            _ if (least..=greatest).contains(&n) => n,
            Beyond::Error => return None,
            Beyond::Clamp => n.clamp(least, greatest),
            Beyond::Wrap => n.wrapping_sub(least).rem_euclid(count) + least,
        };
        Some(n as u64)
    }

    fn convert_float(&self, value: ExactValue, f: Float) -> Option<u64> {
        let (negative, units, exponent) = match value {
            ExactValue::Int(n) => (n < 0, u64::try_from(n.unsigned_abs()).ok()?, 0),
            ExactValue::Float(x) if x.is_nan() => {
                return float::canonical_nan(f).map(|_| float::from_f64(f, x));
            }
            ExactValue::Float(x) if x.is_infinite() => {
                return float::infinity(f, x < 0.0).or_else(|| self.clamped(f, x < 0.0));
            }
            ExactValue::Float(x) => {
                let (units, exponent) = float::parts(x);
                (x.is_sign_negative(), units, exponent)
            }
        };
        float::round(f, negative, units, exponent, self.rounding).or_else(|| self.clamped(f, negative))
    }

    /// The end of the range, if values beyond it are clamped.
    fn clamped(&self, f: Float, negative: bool) -> Option<u64> {
        let top = float::greatest(f);
        let end = match negative {
            false => Some(top),
            true if float::is_signed(f) => Some(top | 1 << (f.bits() - 1)),
            true => Some(0),
        };
        end.filter(|_| self.beyond == Beyond::Clamp)
    }
}

/// The entries of a map, from values of one type to bits of the other.
fn scalar_map(json: &Json, from: &DataType, to: &DataType) -> Result<Vec<(ExactValue, Vec<u8>)>> {
    let bad = || Error::invalid("\"scalar_map\" must hold lists of [from, to]").with_field("scalar_map");
    json.items()
        .ok_or_else(bad)?
        .iter()
        .map(|entry| match entry.items() {
            Some([key, value]) => {
                let key = match number::load(&number::fill_scalar(key, from)?, from)? {
                    NumberOp::Int(v) => v.first().map(|x| ExactValue::Int(i128::from(*x))),
                    NumberOp::UInt(v) => v.first().map(|x| ExactValue::Int(i128::from(*x))),
                    NumberOp::Float(v) => v.first().map(|x| ExactValue::Float(*x)),
                };
                Ok((key.ok_or_else(bad)?, number::fill_scalar(value, to)?))
            }
            _ => Err(bad()),
        })
        .collect()
}

/// The V3 name of an integer or float type.
fn number_type(json: &Json) -> Result<DataType> {
    let name = json.as_str().or_else(|| json.get("name").and_then(Json::as_str));
    let name = name.ok_or_else(|| invalid!("\"data_type\" must be a type, not {json}"))?;
    let is_number = |t: &DataType| matches!(t, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_));
    v3::plain(name)
        .filter(is_number)
        .ok_or_else(|| invalid!("{name:?} is not a numeric type").with_field("data_type"))
}

impl ArrayToArray for CastValue {
    fn name(&self) -> &'static str {
        "cast_value"
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        if decoded.data_type != self.decoded {
            return Err(invalid!("is for {}, not {}", self.decoded, decoded.data_type));
        }
        let there = self.cast(&decoded.fill.0, true);
        let fill = there.map_err(|e| e.within("the fill value"))?;
        let back = self.cast(&fill, false).map_err(|e| e.within("the fill value"))?;
        let same = match (number::load(&back, &self.decoded)?, number::load(&decoded.fill.0, &self.decoded)?)
        {
            (NumberOp::Float(a), NumberOp::Float(b)) => {
                a.iter().zip(&b).all(|(a, b)| ExactValue::Float(*a) == ExactValue::Float(*b))
            }
            (a, b) => a == b,
        };
        if !same {
            return Err(invalid!("the fill value cannot be represented as {}", self.encoded));
        }
        Ok(Repr { shape: decoded.shape.clone(), data_type: self.encoded.clone(), fill: Fill(fill.into()) })
    }

    fn decode(&self, chunk: Buffer, _: &Repr, encoded: &Repr) -> Result<Buffer> {
        OutputSize::Exact(encoded.byte_size()?).check(chunk.bytes.len())?;
        self.cast(&chunk.bytes, false).map(Buffer::fixed)
    }

    fn encode(&self, chunk: Buffer, _: &Repr, _: &Repr) -> Result<Buffer> {
        self.cast(&chunk.bytes, true).map(Buffer::fixed)
    }
}

#[cfg(test)]
mod tests;
