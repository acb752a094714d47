//! `fixedscaleoffset`: floats as scaled integers.
//!
//! V2: `{"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"}`, over bytes; V3
//! spelling `numcodecs.fixedscaleoffset`, over values. Decodes as `x / scale + offset`, encodes as
//! `round((x - offset) * scale)`, then casts; all in the types numpy 2 calculates in: floats in their own, integers
//! (but for differences and products with an integer offset or scale) in `f64`.

use super::Codec;
use super::config::Config;
use super::filter::{self, Filter, Side};
use super::number::{self, NumberOp, Scalar};
use super::registry::CodecRequest;
use crate::error::Result;
use crate::meta::dtype::{DataType, Float};

#[derive(Debug)]
struct FixedScaleOffset {
    scale: Scalar,
    offset: Scalar,
    decoded: DataType,
    encoded: DataType,
}

pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let scale = Scalar::from_json(config.need("scale")?, "scale")?;
    let offset = Scalar::from_json(config.need("offset")?, "offset")?;
    let decoded = Side::from_config(config, "dtype", Side::of_array(request).as_ref())?;
    let encoded = Side::from_config(config, "astype", Some(&decoded))?;
    // Refused here rather than at the first chunk.
    number::plain(&decoded.data_type)?;
    number::plain(&encoded.data_type)?;
    let filter = FixedScaleOffset {
        scale,
        offset,
        decoded: decoded.data_type.clone(),
        encoded: encoded.data_type.clone(),
    };
    Ok(filter::make(request, filter, decoded, encoded))
}

impl Filter for FixedScaleOffset {
    fn name(&self) -> &'static str {
        "fixedscaleoffset"
    }

    fn decode(&self, encoded: &[u8]) -> Result<Vec<u8>> {
        let f = number::float_of(&self.encoded).unwrap_or(Float::F64);
        let (scale, offset) = (number::round(f, self.scale.as_f64()), number::round(f, self.offset.as_f64()));
        let mut v = floats(number::load(encoded, &self.encoded)?);
        if f == Float::F64 {
            v.iter_mut().for_each(|x| *x = *x / scale + offset);
        } else {
            v.iter_mut().for_each(|x| *x = number::round(f, number::round(f, *x / scale) + offset));
        }
        number::store(NumberOp::Float(v), &self.decoded)
    }

    fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        let mut numbers = number::load(decoded, &self.decoded)?;
        let mut scaled = false;
        // Integers stay integers as long as they meet integers, and wrap.
        if let Scalar::Int(offset) = self.offset
            && !matches!(numbers, NumberOp::Float(_))
        {
            numbers = wrapping(numbers, &self.decoded, |x| x.wrapping_sub(offset))?;
            if let Scalar::Int(scale) = self.scale {
                numbers = wrapping(numbers, &self.decoded, |x| x.wrapping_mul(scale))?;
                scaled = true;
            }
        }
        if scaled {
            return number::store(numbers, &self.encoded);
        }
        let subtracted = matches!(self.offset, Scalar::Int(_)) && !matches!(numbers, NumberOp::Float(_));
        let f = number::float_of(&self.decoded).unwrap_or(Float::F64);
        let (scale, offset) = (number::round(f, self.scale.as_f64()), number::round(f, self.offset.as_f64()));
        let mut v = floats(numbers);
        for x in &mut v {
            let difference = if subtracted { *x } else { number::round(f, *x - offset) };
            *x = number::round(f, difference * scale).round_ties_even();
        }
        number::store(NumberOp::Float(v), &self.encoded)
    }
}

#[allow(clippy::as_conversions, reason = "rounds to the nearest f64, as numpy does")]
fn floats(numbers: NumberOp) -> Vec<f64> {
    match numbers {
        NumberOp::Int(v) => v.into_iter().map(|x| x as f64).collect(),
        NumberOp::UInt(v) => v.into_iter().map(|x| x as f64).collect(),
        NumberOp::Float(v) => v,
    }
}

/// Integer arithmetic that wraps at the width of `data_type`.
#[allow(clippy::as_conversions, reason = "keeps the low 64 bits, which is what wrapping means")]
fn wrapping(numbers: NumberOp, data_type: &DataType, f: impl Fn(i128) -> i128) -> Result<NumberOp> {
    let wrapped = match numbers {
        NumberOp::Int(v) => NumberOp::Int(v.into_iter().map(|x| f(i128::from(x)) as i64).collect()),
        NumberOp::UInt(v) => NumberOp::UInt(v.into_iter().map(|x| f(i128::from(x)) as u64).collect()),
        floats @ NumberOp::Float(_) => floats,
    };
    number::load(&number::store(wrapped, data_type)?, data_type)
}
