//! Formats one element of any type as JSON or text.

use std::fmt::Write as _;

use base64::Engine as _;

use super::calendar;
use crate::meta::dtype::{DataType, Float};
use crate::meta::float;
use crate::meta::json::{self, Json};
use crate::num;

/// How elements are formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// As JSON values; else as plain text for tables and CSV.
    pub json: bool,
    /// datetime64 and timedelta64 as ISO 8601; else as integers in their unit.
    pub iso: bool,
}

impl Style {
    /// JSON, times as integers.
    pub(crate) const JSON: Self = Self { json: true, iso: false };
    /// Text, times as integers.
    pub(crate) const TEXT: Self = Self { json: false, iso: false };
}

/// Appends the element of type `t` in `bytes` (little-endian; the content, for variable-length types) to `out`.
///
/// Too few bytes for the type give `null`; the library never returns such elements.
pub(crate) fn write(t: &DataType, bytes: &[u8], style: Style, out: &mut String) {
    if element(t, bytes, style, out).is_none() {
        out.push_str("null");
    }
}

/// The element as its own string.
#[must_use]
pub(crate) fn text_of(t: &DataType, bytes: &[u8], style: Style) -> String {
    let mut out = String::new();
    write(t, bytes, style, &mut out);
    out
}

fn element(t: &DataType, bytes: &[u8], style: Style, out: &mut String) -> Option<()> {
    match t {
        DataType::Bool => out.push_str(if *bytes.first()? != 0 { "true" } else { "false" }),
        DataType::Int(_) => put(out, format_args!("{}", signed(bytes.get(..t.size())?)?)),
        DataType::UInt(_) => put(out, format_args!("{}", unsigned(bytes.get(..t.size())?)?)),
        DataType::Float(f) => float_text(*f, bytes, style, out)?,
        DataType::Complex(f) => complex(*f, bytes, style, out)?,
        DataType::Raw(n) => string(&base64(bytes.get(..*n)?), style, out),
        DataType::FixedBytes(n) => {
            let content = trim_nul(bytes.get(..*n)?);
            match std::str::from_utf8(content) {
                Ok(s) => string(s, style, out),
                Err(_) => string(&base64(content), style, out),
            }
        }
        DataType::FixedUtf32(n) => string(&utf32(bytes.get(..n.checked_mul(4)?)?), style, out),
        DataType::DateTime(unit, scale) | DataType::TimeDelta(unit, scale) => {
            let n = i64::from_le_bytes(*bytes.first_chunk::<8>()?);
            let text = match t {
                _ if !style.iso => None,
                DataType::DateTime(..) => calendar::datetime64(n, *unit, *scale),
                _ => calendar::timedelta64(n, *unit, *scale),
            };
            match text {
                Some(s) => string(&s, style, out),
                None => put(out, format_args!("{n}")),
            }
        }
        DataType::Struct(fields) => {
            out.push(if style.json { '{' } else { '(' });
            for (i, field) in fields.iter().enumerate() {
                if i > 0 {
                    out.push_str(if style.json { "," } else { ", " });
                }
                if style.json {
                    string(&field.name, style, out);
                    out.push(':');
                }
                let part = bytes.get(field.offset..field.offset.checked_add(field.data_type.size())?)?;
                element(&field.data_type, part, style, out)?;
            }
            out.push(if style.json { '}' } else { ')' });
        }
        DataType::SubArray(inner, shape) => sub_array(inner, shape, bytes, style, out)?,
        DataType::String => match std::str::from_utf8(bytes) {
            Ok(s) => string(s, style, out),
            Err(_) => string(&String::from_utf8_lossy(bytes), style, out),
        },
        DataType::Bytes => string(&base64(bytes), style, out),
        DataType::Json => json_element(bytes, style, out),
        DataType::List(inner) => {
            let size = inner.size().max(1);
            out.push('[');
            for (i, part) in bytes.chunks_exact(size).enumerate() {
                if i > 0 {
                    out.push_str(if style.json { "," } else { ", " });
                }
                element(inner, part, style, out)?;
            }
            out.push(']');
        }
    }
    Some(())
}

/// Writing to a string cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn sub_array(inner: &DataType, shape: &[usize], bytes: &[u8], style: Style, out: &mut String) -> Option<()> {
    let Some((first, rest)) = shape.split_first() else { return element(inner, bytes, style, out) };
    let stride = rest.iter().fold(inner.size(), |a, n| a.saturating_mul(*n));
    out.push('[');
    for i in 0..*first {
        if i > 0 {
            out.push_str(if style.json { "," } else { ", " });
        }
        let at = i.checked_mul(stride)?;
        sub_array(inner, rest, bytes.get(at..at.checked_add(stride)?)?, style, out)?;
    }
    out.push(']');
    Some(())
}

/// A JSON element, parsed and written again so that the output is valid JSON.
fn json_element(bytes: &[u8], style: Style, out: &mut String) {
    match Json::parse(bytes) {
        Ok(document) => match document.value {
            Json::String(s) => string(&s, style, out),
            value if !style.json => out.push_str(&value.compact()),
            value => put(out, format_args!("{value}")),
        },
        Err(_) => string(&String::from_utf8_lossy(bytes), style, out),
    }
}

fn float_text(f: Float, bytes: &[u8], style: Style, out: &mut String) -> Option<()> {
    match f {
        // In text, the shortest decimal that reads back as the same float32. JSON readers parse numbers as
        // float64, so in JSON it is the shortest that reads back as exactly this value.
        Float::F32 if !style.json => {
            let x = f32::from_le_bytes(*bytes.first_chunk::<4>()?);
            if x.is_finite() { put(out, format_args!("{x:?}")) } else { special(f64::from(x), style, out) }
        }
        // Values of smaller formats are exact as short decimals.
        _ => {
            let x = float_value(f, bytes)?;
            if x.is_finite() { put(out, format_args!("{x:?}")) } else { special(x, style, out) }
        }
    }
    Some(())
}

fn special(x: f64, style: Style, out: &mut String) {
    let word = if x.is_nan() {
        "NaN"
    } else if x > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    string(word, style, out);
}

fn complex(f: Float, bytes: &[u8], style: Style, out: &mut String) -> Option<()> {
    let (re, im) = bytes.split_at_checked(f.size())?;
    if style.json {
        out.push('[');
        float_text(f, re, style, out)?;
        out.push(',');
        float_text(f, im, style, out)?;
        out.push(']');
    } else {
        float_text(f, re, style, out)?;
        let mut imaginary = String::new();
        float_text(f, im, style, &mut imaginary)?;
        if !imaginary.starts_with('-') {
            out.push('+');
        }
        out.push_str(&imaginary);
        out.push('j');
    }
    Some(())
}

/// A string: quoted in JSON, with all that is not [safe](is_safe) escaped; unchanged in text.
fn string(s: &str, style: Style, out: &mut String) {
    if style.json {
        let start = out.len();
        json::write_string(s, out);
        if !out.get(start..).unwrap_or_default().chars().all(is_safe) {
            for c in out.split_off(start).chars() {
                if is_safe(c) { out.push(c) } else { put(out, format_args!("\\u{:04x}", u32::from(c))) }
            }
        }
    } else {
        out.push_str(s);
    }
}

/// Whether a character is safe to print: it does not move the cursor, recolour a terminal, or change the direction of
/// the text around it.
#[must_use]
pub fn is_safe(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}'))
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Bytes without trailing NULs.
pub(crate) fn trim_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    bytes.get(..end).unwrap_or_default()
}

/// UTF-32 text without trailing NULs; invalid code points become U+FFFD.
pub(crate) fn utf32(bytes: &[u8]) -> String {
    let text: String = bytes
        .chunks_exact(4)
        .map(|c| {
            let code = c.first_chunk::<4>().map_or(0, |c| u32::from_le_bytes(*c));
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        })
        .collect();
    text.trim_end_matches('\0').to_owned()
}

/// A signed little-endian integer of 1 to 8 bytes.
pub(crate) fn signed(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        1 => i8::from_le_bytes(*bytes.first_chunk()?).into(),
        2 => i16::from_le_bytes(*bytes.first_chunk()?).into(),
        4 => i32::from_le_bytes(*bytes.first_chunk()?).into(),
        8 => i64::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

/// An unsigned little-endian integer of 1 to 8 bytes.
pub(crate) fn unsigned(bytes: &[u8]) -> Option<u64> {
    Some(match bytes.len() {
        1 => (*bytes.first()?).into(),
        2 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
        4 => u32::from_le_bytes(*bytes.first_chunk()?).into(),
        8 => u64::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

/// The value of a float of any format.
pub(crate) fn float_value(f: Float, bytes: &[u8]) -> Option<f64> {
    Some(match f {
        Float::F64 => f64::from_le_bytes(*bytes.first_chunk()?),
        Float::F32 => f32::from_le_bytes(*bytes.first_chunk()?).into(),
        small => float::to_f64(small, unsigned(bytes.get(..small.size())?)?),
    })
}

/// The element as a real number, for pictures and CF; `None` for types that are not numeric.
#[must_use]
pub fn number(t: &DataType, bytes: &[u8]) -> Option<f64> {
    Some(match t {
        DataType::Bool => f64::from(*bytes.first()?),
        DataType::Int(_) => num::f64_of_i128(signed(bytes)?.into()),
        DataType::UInt(_) => num::f64_of_u64(unsigned(bytes)?),
        DataType::Float(f) => float_value(*f, bytes)?,
        DataType::DateTime(..) | DataType::TimeDelta(..) => match signed(bytes)? {
            i64::MIN => f64::NAN,
            n => num::f64_of_i128(n.into()),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(t: &DataType, bytes: &[u8]) -> String {
        text_of(t, bytes, Style::JSON)
    }

    #[test]
    fn numbers_are_exact_and_short() {
        assert_eq!(json(&DataType::UINT64, &u64::MAX.to_le_bytes()), "18446744073709551615");
        assert_eq!(json(&DataType::Int(64), &i64::MIN.to_le_bytes()), "-9223372036854775808");
        assert_eq!(json(&DataType::Int(4), &(-3i8).to_le_bytes()), "-3");
        assert_eq!(json(&DataType::FLOAT32, &0.1f32.to_le_bytes()), "0.10000000149011612");
        assert_eq!(json(&DataType::FLOAT64, &1e300f64.to_le_bytes()), "1e300");
        assert_eq!(json(&DataType::FLOAT64, &(-0.0f64).to_le_bytes()), "-0.0");
        assert_eq!(json(&DataType::Float(Float::F16), &0x2e66u16.to_le_bytes()), "0.0999755859375");
        assert_eq!(json(&DataType::FLOAT32, &f32::NEG_INFINITY.to_le_bytes()), "\"-Infinity\"");
        assert_eq!(json(&DataType::Complex(Float::F32), &[0, 0, 128, 63, 0, 0, 192, 127]), "[1.0,\"NaN\"]");
    }

    #[test]
    fn text_and_bytes() {
        assert_eq!(json(&DataType::FixedBytes(4), b"xx\0\0"), "\"xx\"");
        assert_eq!(json(&DataType::FixedBytes(2), b"\xff\xfe"), "\"//4=\"");
        assert_eq!(json(&DataType::Raw(2), b"\0\x01"), "\"AAE=\"");
        assert_eq!(json(&DataType::FixedUtf32(2), b"\xe9\0\0\0\0\0\0\0"), "\"é\"");
        assert_eq!(json(&DataType::String, b"a\"\n"), "\"a\\\"\\n\"");
        assert_eq!(json(&DataType::Json, b"{\"a\": [1, NaN]}"), "{\"a\":[1,\"NaN\"]}");
        let text = text_of(&DataType::Json, b"{\"a\": [1, NaN]}", Style::TEXT);
        assert_eq!(text, "{\"a\":[1,NaN]}");
    }

    #[test]
    fn structs_nest() {
        let inner = DataType::structure([("x".to_owned(), DataType::Int(16))]);
        let pair = DataType::SubArray(DataType::UINT8.into(), [2].into());
        let t = DataType::structure([("s".to_owned(), inner), ("p".to_owned(), pair)]);
        assert_eq!(json(&t, &[255, 255, 1, 2]), r#"{"s":{"x":-1},"p":[1,2]}"#);
        assert_eq!(text_of(&t, &[255, 255, 1, 2], Style::TEXT), "((-1), [1, 2])");
    }
}
