//! Parses names of data types, and fill values of a type.

use super::element;
use crate::error::{Error, ErrorKind, Result, usage};
use crate::meta::dtype::{DataType, Endian, StructField};
use crate::meta::finding::{Findings, Mode};
use crate::meta::json::Json;
use crate::meta::{Fill, typestr, v3};

/// Parses a data type, and the byte order if the name has one.
///
/// V3's names (`float32`, `string`), numpy's (`f4`, `>i2`, `S5`, `U10`, `datetime64[s]`), the forms `zaro info` shows
/// (`numpy.datetime64(s)`), V3's objects and numpy's lists of fields as JSON.
pub fn parse(text: &str) -> Result<(DataType, Option<Endian>)> {
    let text = text.trim();
    let usage = |e: &Error| Error::usage(e.message()).with_field("data_type");
    let value = if text.starts_with(['{', '[']) {
        Json::parse(text.as_bytes()).map_err(|e| usage(&e))?.value
    } else {
        Json::string(numpy_name(text))
    };
    if !matches!(value, Json::Array(_)) {
        match v3::data_type(&value, "data_type", &mut Findings::new(Mode::Strict, "/")) {
            Ok((t, _)) => return Ok((t, None)),
            Err(e) if e.kind() == ErrorKind::Unsupported && value.as_str().is_some() => {}
            Err(e) => return Err(usage(&e)),
        }
    }
    let found = typestr::parse_config(&value).map_err(|_| {
        usage!("{text:?} is not a data type; use a name such as float32, string, '<i2' or datetime64[s]")
    })?;
    match found.data_type {
        Some(t) if found.mixed.is_empty() => {
            let named = text.starts_with(['<', '>', '[']);
            Ok((t, found.endian.filter(|_| named)))
        }
        Some(_) => Err(Error::usage("the fields have different byte orders; an array has one")),
        None => Err(Error::usage("object is not a data type; use string, bytes or json")),
    }
}

/// The display name of a data type: numpy's if it is more familiar than V3's.
#[must_use]
pub fn for_people(data_type: &DataType) -> String {
    match data_type {
        DataType::FixedBytes(n) => format!("S{n}"),
        DataType::FixedUtf32(n) => format!("U{n}"),
        DataType::DateTime(..) | DataType::TimeDelta(..) => {
            data_type.to_string().replace("numpy.", "").replace('(', "[").replace(')', "]")
        }
        DataType::Struct(fields) => {
            let field = |f: &StructField| format!("{}: {}", f.name, for_people(&f.data_type));
            format!("struct({})", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        DataType::SubArray(t, shape) => format!("{}{shape:?}", for_people(t)),
        DataType::List(t) => format!("list({})", for_people(t)),
        other => other.to_string(),
    }
}

/// The short numpy form of a long numpy name.
fn numpy_name(text: &str) -> String {
    let inside = |name: &str| {
        let rest = text.strip_prefix("numpy.").unwrap_or(text).strip_prefix(name)?;
        rest.strip_prefix(['[', '('])?.strip_suffix([']', ')'])
    };
    if let Some(unit) = inside("datetime64") {
        return format!("<M8[{unit}]");
    }
    if let Some(unit) = inside("timedelta64") {
        return format!("<m8[{unit}]");
    }
    if let Some(n) = inside("null_terminated_bytes") {
        return format!("|S{n}");
    }
    if let Some(n) = inside("fixed_length_utf32").and_then(|n| n.parse::<u64>().ok()) {
        return format!("<U{}", n / 4);
    }
    match text {
        "str" => "string".into(),
        other => other.into(),
    }
}

/// Parses a fill value of this type.
pub fn fill(t: &DataType, text: &str) -> Result<Fill> {
    let mut out = Vec::new();
    element::from_text(t, text, &mut out).map_err(|e| Error::usage(e.message()).with_field("fill_value"))?;
    Ok(Fill(out.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::dtype::{Float, TimeUnit};

    #[test]
    fn types_have_many_names() {
        for (text, wanted, endian) in [
            ("float32", DataType::FLOAT32, None),
            ("f4", DataType::FLOAT32, None),
            (">f4", DataType::FLOAT32, Some(Endian::Big)),
            ("<i2", DataType::Int(16), Some(Endian::Little)),
            ("bfloat16", DataType::Float(Float::BF16), None),
            ("string", DataType::String, None),
            ("str", DataType::String, None),
            ("bytes", DataType::Bytes, None),
            ("U3", DataType::FixedUtf32(3), None),
            ("|S4", DataType::FixedBytes(4), None),
            ("r16", DataType::Raw(2), None),
            ("datetime64[s]", DataType::DateTime(TimeUnit::Second, 1), None),
            ("numpy.timedelta64(25ns)", DataType::TimeDelta(TimeUnit::Nanosecond, 25), None),
            ("fixed_length_utf32(12)", DataType::FixedUtf32(3), None),
            (r#"{"name":"raw_bytes","configuration":{"length_bytes":3}}"#, DataType::Raw(3), None),
        ] {
            assert_eq!(parse(text).unwrap(), (wanted, endian), "{text}");
        }
        let (t, endian) = parse(r#"[["a", "<i2"], ["b", "|u1"]]"#).unwrap();
        assert_eq!((t.size(), endian), (3, Some(Endian::Little)));
        for text in ["float31", "", "object", "{}", "[", "datetime64[parsec]", "|u2"] {
            assert_eq!(parse(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }

    #[test]
    fn fill_values_are_read_by_type() {
        assert_eq!(*fill(&DataType::FLOAT32, "NaN").unwrap().0, f32::NAN.to_le_bytes());
        assert_eq!(*fill(&DataType::String, "none").unwrap().0, *b"none");
        assert_eq!(fill(&DataType::UINT8, "300").unwrap_err().kind(), ErrorKind::Usage);
    }
}
