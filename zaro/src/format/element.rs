//! Parses one element of any type from JSON or text: the inverse of [`value`](super::value).

use base64::Engine as _;

use super::calendar;
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::{DataType, Float};
use crate::meta::float;
use crate::meta::json::Json;
use crate::num;

/// Appends the element given as a JSON value: its bytes, or the content of a variable-length one.
pub(crate) fn from_json(t: &DataType, value: &Json, out: &mut Vec<u8>) -> Result<()> {
    json(t, value, out).unwrap_or_else(|| Err(bad(&value.to_string(), t)))
}

/// Appends the element given as text: a CSV cell or an argument.
pub(crate) fn from_text(t: &DataType, word: &str, out: &mut Vec<u8>) -> Result<()> {
    text(t, word, out).unwrap_or_else(|| Err(bad(word, t)))
}

fn bad(text: &str, t: &DataType) -> Error {
    let shown: String = text.chars().take(60).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    invalid!("{shown:?}{dots} is not a value of type {t}")
}

/// `None` if the value is not an element of the type.
fn json(t: &DataType, value: &Json, out: &mut Vec<u8>) -> Option<Result<()>> {
    match t {
        DataType::Bool => match value {
            Json::Bool(b) => out.push(u8::from(*b)),
            other => t.put_integer(other.as_i128()?, out)?,
        },
        DataType::Int(_) | DataType::UInt(_) => t.put_integer(whole(value.number_text()?)?, out)?,
        DataType::Float(f) => match value {
            Json::Number(n) => put_float(*f, n, out)?,
            other => special(*f, other.as_str()?, out)?,
        },
        DataType::Complex(f) => match value.items() {
            Some([re, im]) => {
                for part in [re, im] {
                    if let Err(e) = json(&DataType::Float(*f), part, out)? {
                        return Some(Err(e));
                    }
                }
            }
            _ => return None,
        },
        DataType::Raw(n) => {
            let bytes = decode(value.as_str()?)?;
            (bytes.len() == *n).then(|| out.extend(bytes))?;
        }
        DataType::DateTime(..) | DataType::TimeDelta(..) => match value {
            Json::Number(n) => t.put_integer(whole(n)?, out)?,
            other => time(t, other.as_str()?, out)?,
        },
        DataType::Struct(fields) => {
            let members = value.members()?;
            (members.len() == fields.len()).then_some(())?;
            for field in fields.iter() {
                if let Err(e) = json(&field.data_type, value.get(&field.name)?, out)? {
                    return Some(Err(e));
                }
            }
        }
        DataType::SubArray(inner, shape) => return nested(inner, shape, value, out),
        DataType::Bytes => out.extend(decode(value.as_str()?)?),
        DataType::Json => out.extend(value.compact().as_bytes()),
        DataType::List(inner) => {
            for item in value.items()? {
                if let Err(e) = json(inner, item, out)? {
                    return Some(Err(e));
                }
            }
        }
        text_type => return text(text_type, value.as_str()?, out),
    }
    Some(Ok(()))
}

fn nested(inner: &DataType, shape: &[usize], value: &Json, out: &mut Vec<u8>) -> Option<Result<()>> {
    let Some((first, rest)) = shape.split_first() else { return json(inner, value, out) };
    let items = value.items().filter(|i| i.len() == *first)?;
    for item in items {
        if let Err(e) = nested(inner, rest, item, out)? {
            return Some(Err(e));
        }
    }
    Some(Ok(()))
}

fn text(t: &DataType, word: &str, out: &mut Vec<u8>) -> Option<Result<()>> {
    let trimmed = word.trim();
    match t {
        DataType::Bool => out.push(match trimmed {
            "true" | "True" | "TRUE" | "1" => 1,
            "false" | "False" | "FALSE" | "0" => 0,
            _ => return None,
        }),
        DataType::Int(_) | DataType::UInt(_) => {
            let n = match trimmed.strip_prefix("0x") {
                Some(digits) => i128::from_str_radix(digits, 16).ok()?,
                None => whole(trimmed)?,
            };
            t.put_integer(n, out)?;
        }
        DataType::Float(f) => real(*f, trimmed, out)?,
        DataType::Complex(f) => complex(*f, trimmed, out)?,
        DataType::FixedBytes(n) => {
            let start = out.len();
            out.extend(word.as_bytes());
            if word.len() > *n {
                return Some(Err(too_long(word, t)));
            }
            out.resize(start.checked_add(*n)?, 0);
        }
        DataType::FixedUtf32(n) => {
            let start = out.len();
            out.extend(word.chars().flat_map(|c| u32::from(c).to_le_bytes()));
            let end = start.checked_add(n.checked_mul(4)?)?;
            if out.len() > end {
                return Some(Err(too_long(word, t)));
            }
            out.resize(end, 0);
        }
        DataType::DateTime(..) | DataType::TimeDelta(..) => match trimmed.parse::<i64>() {
            // Four digits are a year only if the unit is years, and then both readings agree.
            Ok(n) => out.extend(n.to_le_bytes()),
            Err(_) => time(t, trimmed, out)?,
        },
        DataType::String => out.extend(word.as_bytes()),
        DataType::Raw(_) | DataType::Bytes => return json(t, &Json::string(trimmed), out),
        // Objects, lists and the like can only be written as JSON.
        other => return json(other, &Json::parse(trimmed.as_bytes()).ok()?.value, out),
    }
    Some(Ok(()))
}

fn too_long(word: &str, t: &DataType) -> Error {
    let message = bad(word, t).message().to_owned();
    invalid!("{message}: it is too long")
}

fn decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// An integer, also in float notation: `7.0`, `1e3`.
fn whole(text: &str) -> Option<i128> {
    if let Ok(n) = text.parse() {
        return Some(n);
    }
    let x: f64 = text.parse().ok()?;
    let exact = x.fract() == 0.0 && x.abs() < 9_007_199_254_740_992.0;
    exact.then(|| num::i128_of_f64(x))
}

fn put_bits(f: Float, bits: u64, out: &mut Vec<u8>) {
    out.extend(bits.to_le_bytes().iter().take(f.size()));
}

/// A decimal, rounded once to the format.
fn put_float(f: Float, decimal: &str, out: &mut Vec<u8>) -> Option<()> {
    put_finite(f, float::from_decimal(f, decimal)?, out)
}

/// The bits of a number, unless it is out of range of the format.
fn put_finite(f: Float, bits: u64, out: &mut Vec<u8>) -> Option<()> {
    let finite = [false, true].iter().all(|negative| float::infinity(f, *negative) != Some(bits));
    finite.then(|| put_bits(f, bits, out))
}

/// NaN and infinities by name, and bits in hexadecimal.
fn special(f: Float, word: &str, out: &mut Vec<u8>) -> Option<()> {
    let bits = match word.to_ascii_lowercase().as_str() {
        "nan" => float::canonical_nan(f)?,
        "infinity" | "+infinity" | "inf" | "+inf" => float::infinity(f, false)?,
        "-infinity" | "-inf" => float::infinity(f, true)?,
        other => {
            let digits = other.strip_prefix("0x").filter(|d| d.len() == 2 * f.size())?;
            u64::from_str_radix(digits, 16).ok()?
        }
    };
    put_bits(f, bits, out);
    Some(())
}

fn real(f: Float, word: &str, out: &mut Vec<u8>) -> Option<()> {
    if special(f, word, out).is_some() || put_float(f, word, out).is_some() {
        return Some(());
    }
    // `.5`, `5.` and `+5` are not JSON, but unambiguous.
    let x: f64 = word.parse().ok()?;
    put_finite(
        f,
        if f == Float::F32 { word.parse::<f32>().ok()?.to_bits().into() } else { float::from_f64(f, x) },
        out,
    )
}

/// `1.5+2j`, `(1.5-2j)`, `2j`, `1.5`, or JSON's `[1.5, 2]`.
fn complex(f: Float, word: &str, out: &mut Vec<u8>) -> Option<()> {
    if word.starts_with('[') {
        let value = Json::parse(word.as_bytes()).ok()?.value;
        return json(&DataType::Complex(f), &value, out)?.ok();
    }
    let word = word.strip_prefix('(').and_then(|w| w.strip_suffix(')')).unwrap_or(word);
    let Some(parts) = word.strip_suffix(['j', 'J']) else {
        real(f, word, out)?;
        return real(f, "0", out);
    };
    // The sign of the imaginary part is the last one that is not an exponent's.
    let bytes = parts.as_bytes();
    let cut = (1..bytes.len()).rev().find(|i| {
        let before = i.checked_sub(1).and_then(|b| bytes.get(b));
        matches!(bytes.get(*i), Some(b'+' | b'-')) && !matches!(before, Some(b'e' | b'E'))
    });
    let (re, im) = parts.split_at_checked(cut.unwrap_or(0))?;
    real(f, if re.is_empty() { "0" } else { re }, out)?;
    real(f, im.strip_prefix('+').unwrap_or(im), out)
}

fn time(t: &DataType, word: &str, out: &mut Vec<u8>) -> Option<()> {
    let n = match t {
        DataType::DateTime(unit, scale) => calendar::parse_datetime64(word, *unit, *scale),
        _ if word == "NaT" => Some(i64::MIN),
        _ => None,
    };
    out.extend(n?.to_le_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::value::{Style, text_of};
    use crate::meta::dtype::TimeUnit;

    fn cases() -> Vec<(DataType, Vec<u8>)> {
        let pair = DataType::SubArray(DataType::Int(16).into(), [2].into());
        let mut cases = vec![
            (DataType::Bool, vec![1]),
            (DataType::Int(4), vec![0xf8]),
            (DataType::Int(64), i64::MIN.to_le_bytes().to_vec()),
            (DataType::UINT64, u64::MAX.to_le_bytes().to_vec()),
            (DataType::FLOAT64, f64::MIN_POSITIVE.to_le_bytes().to_vec()),
            (DataType::FLOAT64, (-0.0f64).to_le_bytes().to_vec()),
            (DataType::Float(Float::F16), vec![0x66, 0x2e]),
            (DataType::Float(Float::BF16), vec![0x80, 0xff]),
            (DataType::FixedUtf32(3), [0xe9u32, 0, 0].iter().flat_map(|c| c.to_le_bytes()).collect()),
            (DataType::FixedBytes(3), b"ab\0".to_vec()),
            (DataType::Raw(2), vec![0, 255]),
            (DataType::DateTime(TimeUnit::Second, 1), 5i64.to_le_bytes().to_vec()),
            (DataType::TimeDelta(TimeUnit::Day, 2), i64::MIN.to_le_bytes().to_vec()),
            (DataType::String, "a,\"b\"".as_bytes().to_vec()),
            (DataType::Bytes, vec![1, 2, 3]),
            (
                DataType::structure([("x".to_owned(), DataType::UINT8), ("p".to_owned(), pair)]),
                vec![1, 2, 0, 3, 0],
            ),
        ];
        for x in [0.1f32, -1e-45, 3.4e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            cases.push((DataType::FLOAT32, x.to_le_bytes().to_vec()));
            for y in [-2.5f32, 1e20, f32::NAN] {
                let bytes = [x.to_le_bytes(), y.to_le_bytes()].concat();
                cases.push((DataType::Complex(Float::F32), bytes));
            }
        }
        cases
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (t, bytes) in cases() {
            let text = text_of(&t, &bytes, Style::JSON);
            let mut back = Vec::new();
            from_json(&t, &Json::parse(text.as_bytes()).unwrap().value, &mut back).unwrap();
            assert_eq!(back, bytes, "{t}: {text}");
            if matches!(t, DataType::Struct(_)) {
                continue;
            }
            let text = text_of(&t, &bytes, Style::TEXT);
            let mut back = Vec::new();
            from_text(&t, &text, &mut back).unwrap();
            assert_eq!(back, bytes, "{t}: {text}");
        }
    }

    #[test]
    fn people_write_other_forms_too() {
        for (t, word, wanted) in [
            (DataType::FLOAT32, "+.5", 0.5f32.to_le_bytes().to_vec()),
            (DataType::FLOAT32, "0x7fc00001", vec![1, 0, 0xc0, 0x7f]),
            (DataType::Int(16), "0x10", vec![16, 0]),
            (DataType::Int(16), "7.0", vec![7, 0]),
            (DataType::DateTime(TimeUnit::Day, 1), "1970-01-03", 2i64.to_le_bytes().to_vec()),
            (DataType::Complex(Float::F32), "[1, 2]", [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat()),
            (
                DataType::Complex(Float::F32),
                "(1e-1-2j)",
                [0.1f32.to_le_bytes(), (-2f32).to_le_bytes()].concat(),
            ),
        ] {
            let mut out = Vec::new();
            from_text(&t, word, &mut out).unwrap();
            assert_eq!(out, wanted, "{word}");
        }
        for (t, word) in [
            (DataType::UINT8, "256"),
            (DataType::UINT8, "-1"),
            (DataType::UINT8, "1.5"),
            (DataType::Bool, "2"),
            (DataType::FLOAT32, "x"),
            (DataType::FixedBytes(2), "abc"),
            (DataType::Raw(2), "AA=="),
            (DataType::DateTime(TimeUnit::Day, 1), "yesterday"),
        ] {
            assert!(from_text(&t, word, &mut Vec::new()).is_err(), "{word}");
        }
    }
}
