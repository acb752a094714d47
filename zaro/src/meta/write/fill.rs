//! Writes fill values to JSON, bit-exactly.

use base64::Engine as _;

use crate::error::{Error, Result, unsupported};
use crate::meta::dtype::{DataType, Float};
use crate::meta::fill::{Dialect, Fill};
use crate::meta::float;
use crate::meta::json::Json;
use crate::num;

/// The JSON form of `fill`. The caller handles V2 structs, whose bytes are in the order of their fields.
pub(crate) fn write(fill: &Fill, t: &DataType, dialect: Dialect) -> Result<Json> {
    if !t.is_variable() && fill.0.len() != t.size() {
        return Err(fault(format!("{} bytes are not one element of {t}", fill.0.len())));
    }
    element(&fill.0, t, dialect)
}

pub(super) fn base64(bytes: &[u8]) -> Json {
    Json::string(base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn fault(message: String) -> Error {
    Error::invalid(message).with_field("fill_value")
}

fn element(bytes: &[u8], t: &DataType, dialect: Dialect) -> Result<Json> {
    Ok(match t {
        DataType::Bool => Json::Bool(bytes.iter().any(|b| *b != 0)),
        DataType::Int(_) | DataType::DateTime(..) | DataType::TimeDelta(..) => Json::int(num::signed(bytes)),
        DataType::UInt(_) => Json::int(num::unsigned(bytes)),
        DataType::Float(f) => number(*f, num::unsigned(bytes), dialect)?,
        DataType::Complex(f) => {
            let (re, im) = bytes.split_at_checked(f.size()).unwrap_or_default();
            Json::Array(vec![
                number(*f, num::unsigned(re), dialect)?,
                number(*f, num::unsigned(im), dialect)?,
            ])
        }
        // Padding and all: tensorstore wants every byte.
        DataType::Raw(_) | DataType::FixedBytes(_) | DataType::Bytes => base64(bytes),
        DataType::FixedUtf32(_) => {
            let units = bytes.as_chunks::<4>().0;
            let end = units.iter().rposition(|u| *u != [0; 4]).map_or(0, |last| last + 1);
            let units = units.iter().take(end);
            let text: Option<String> = units.map(|u| char::from_u32(u32::from_le_bytes(*u))).collect();
            Json::String(text.ok_or_else(|| fault("the fill value is not valid text".into()))?)
        }
        DataType::Struct(fields) => {
            let member = |field: &crate::meta::dtype::StructField| {
                let part = bytes.get(field.offset..).and_then(|b| b.get(..field.data_type.size()));
                let part = part.ok_or_else(|| fault(format!("the field {:?} is missing", field.name)))?;
                Ok((field.name.clone(), element(part, &field.data_type, dialect)?))
            };
            Json::Object(fields.iter().map(member).collect::<Result<_>>()?)
        }
        DataType::String => {
            let text = std::str::from_utf8(bytes);
            Json::string(text.map_err(|_| fault("the fill value is not valid UTF-8".into()))?)
        }
        DataType::Json => Json::parse(bytes).map_err(|e| e.with_field("fill_value"))?.value,
        // No writer gives lists a fill value with a meaning.
        DataType::List(_) => Json::Null,
        DataType::SubArray(..) => {
            return Err(unsupported!("fill values of {t} are not supported").with_field("fill_value"));
        }
    })
}

/// A float: a decimal that reads back to the same bits, `NaN` or an infinity, or the bits themselves.
///
/// The decimal must survive readers that parse it as `f64` first, so the shortest one is used only if it does.
fn number(format: Float, bits: u64, dialect: Dialect) -> Result<Json> {
    let is = |special: Option<u64>| special == Some(bits);
    if is(float::canonical_nan(format)) {
        return Ok(Json::string("NaN"));
    }
    if is(float::infinity(format, false)) {
        return Ok(Json::string("Infinity"));
    }
    if is(float::infinity(format, true)) {
        return Ok(Json::string("-Infinity"));
    }
    let wide = float::to_f64(format, bits);
    if wide.is_finite() {
        let short = match (format, u32::try_from(bits)) {
            (Float::F32, Ok(bits)) => format!("{:?}", f32::from_bits(bits)),
            _ => format!("{wide:?}"),
        };
        let exact = |text: &String| {
            float::from_decimal(format, text) == Some(bits)
                && text.parse().is_ok_and(|x| float::from_f64(format, x) == bits)
        };
        if let Some(text) = [short, format!("{wide:?}")].into_iter().find(exact) {
            return Ok(Json::Number(text.into()));
        }
    }
    let hex = format!("0x{bits:0width$x}", width = format.size() * 2);
    match dialect {
        Dialect::V3 => Ok(Json::String(hex)),
        // numpy's readers of V2 know one NaN only, and refuse hexadecimal digits.
        Dialect::V2 => {
            Err(unsupported!("V2 has no way to write the fill value {hex}").with_field("fill_value"))
        }
    }
}
