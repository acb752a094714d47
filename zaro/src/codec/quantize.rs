//! `quantize` and `astype`: reduce the precision, or convert to another type.
//!
//! V2: `{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f4"}` and
//! `{"id": "astype", "encode_dtype": "<i1", "decode_dtype": "<i4"}`, over bytes; V3 spellings `numcodecs.quantize` and
//! `numcodecs.astype`, over values. What quantize rounds away is gone, so that decoding either is a mere cast, by C's
//! rules.

use super::Codec;
use super::config::Config;
use super::filter::{self, Filter, Side};
use super::number::{self, NumberOp};
use super::registry::CodecRequest;
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::{DataType, Float};

/// A cast, perhaps after rounding.
#[derive(Debug)]
struct RoundingCast {
    name: &'static str,
    /// What `quantize` multiplies by before it rounds to integers.
    scale: Option<f64>,
    decoded: DataType,
    encoded: DataType,
}

/// `quantize`, from its configuration.
pub(super) fn quantize(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let digits = config.int("digits")?;
    let digits = digits.ok_or_else(|| Error::invalid("\"digits\" is missing"))?;
    let digits = i32::try_from(digits).ok().filter(|d| (-300..=300).contains(d));
    let digits = digits.ok_or_else(|| Error::invalid("\"digits\" is out of range"))?;
    let decoded = Side::from_config(config, "dtype", Side::of_array(request).as_ref())?;
    let encoded = Side::from_config(config, "astype", Some(&decoded))?;
    for side in [&decoded, &encoded] {
        if number::float_of(&side.data_type).is_none() {
            return Err(invalid!("is for floats, not {}", side.data_type));
        }
    }
    Ok(cast(request, "quantize", Some(power_for(digits)), decoded, encoded))
}

/// `astype`, from its configuration.
pub(super) fn astype(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let encoded = Side::from_config(config, "encode_dtype", None)?;
    let decoded = Side::from_config(config, "decode_dtype", Side::of_array(request).as_ref())?;
    number::plain(&decoded.data_type)?;
    number::plain(&encoded.data_type)?;
    Ok(cast(request, "astype", None, decoded, encoded))
}

fn cast(
    request: &CodecRequest<'_>,
    name: &'static str,
    scale: Option<f64>,
    decoded: Side,
    encoded: Side,
) -> Codec {
    let filter =
        RoundingCast { name, scale, decoded: decoded.data_type.clone(), encoded: encoded.data_type.clone() };
    filter::make(request, filter, decoded, encoded)
}

/// The power of two that keeps `digits` decimal digits.
fn power_for(digits: i32) -> f64 {
    let exponent = 10f64.powf(f64::from(-digits)).log10();
    let exponent = if exponent < 0.0 { exponent.floor() } else { exponent.ceil() };
    10f64.powf(-exponent).log2().ceil().exp2()
}

impl Filter for RoundingCast {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, encoded: &[u8]) -> Result<Vec<u8>> {
        number::cast(encoded, &self.encoded, &self.decoded)
    }

    fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        let numbers = match (self.scale, number::load(decoded, &self.decoded)?) {
            (Some(scale), NumberOp::Float(mut v)) => {
                let f = number::float_of(&self.decoded).unwrap_or(Float::F64);
                let scale = number::round(f, scale);
                let quantum =
                    |x: f64| number::round(f, number::round(f, scale * x).round_ties_even() / scale);
                v.iter_mut().for_each(|x| *x = quantum(*x));
                NumberOp::Float(v)
            }
            (_, numbers) => numbers,
        };
        number::store(numbers, &self.encoded)
    }

    fn fill(&self, fill: &[u8]) -> Result<Vec<u8>> {
        // Not rounded: decoding is a cast, so this comes back whole where it can.
        number::cast(fill, &self.decoded, &self.encoded)
    }
}
