//! Fill values, stored bit-exactly, and parsing them from metadata.
//!
//! A fill value never passes through a floating-point conversion between metadata and elements: the payload of a NaN,
//! the sign of a zero and all 64 bits of an integer survive. A decimal is rounded once, to its own type.

use std::sync::Arc;

use base64::Engine as _;

use super::dtype::{DataType, Float};
use super::finding::Findings;
use super::float;
use super::json::Json;
use crate::error::{Result, invalid};

/// A fill value: the bytes of one element (little-endian), or the content of one variable-length element.
///
/// Shared, not copied, when cloned: elements may have megabytes, and every step of a codec chain has a fill value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fill(pub Arc<[u8]>);

impl Fill {
    /// All bits zero; nothing, for variable-length types.
    #[must_use]
    pub fn zero(data_type: &DataType) -> Self {
        match data_type {
            DataType::Json => Self(b"null".to_vec().into()),
            t if t.is_variable() => Self::default(),
            t => Self(vec![0; t.size()].into()),
        }
    }

    /// What elements without a fill value (V2's null) read as. As in zarr-python, times are NaT, and a struct is what
    /// numpy makes of zero, which in text fields is the digit.
    #[must_use]
    pub fn undefined(data_type: &DataType) -> Self {
        match data_type {
            DataType::DateTime(..) | DataType::TimeDelta(..) => Self(i64::MIN.to_le_bytes().into()),
            DataType::Struct(fields) => {
                Self(fields.iter().flat_map(|field| of_zero(&field.data_type)).collect::<Vec<_>>().into())
            }
            t => Self::zero(t),
        }
    }

    /// Whether every bit is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|b| *b == 0)
    }
}

/// What numpy makes of zero in a field of a struct.
fn of_zero(t: &DataType) -> Vec<u8> {
    let mut bytes = Fill::zero(t).0.to_vec();
    match t {
        DataType::FixedBytes(_) | DataType::FixedUtf32(_) => bytes.iter_mut().take(1).for_each(|b| *b = b'0'),
        DataType::Struct(fields) => {
            bytes = fields.iter().flat_map(|field| of_zero(&field.data_type)).collect()
        }
        DataType::SubArray(inner, _) => {
            let inner = of_zero(inner);
            bytes = inner.repeat(bytes.len().checked_div(inner.len()).unwrap_or(0));
        }
        _ => {}
    }
    bytes
}

/// The rules that a fill value was written by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Zarr V3.
    V3,
    /// Zarr V2.
    V2,
}

/// Reads the fill value `value` of an array of `data_type`.
pub(crate) fn read(value: &Json, data_type: &DataType, dialect: Dialect, f: &mut Findings) -> Result<Fill> {
    read_with(value, data_type, dialect, dialect == Dialect::V2, f)
}

/// The same for a V3 array of a type that zarr-python had before it was registered: bytes are base64 there, as in V2.
pub(crate) fn read_legacy(value: &Json, data_type: &DataType, f: &mut Findings) -> Result<Fill> {
    read_with(value, data_type, Dialect::V3, true, f)
}

fn read_with(
    value: &Json,
    data_type: &DataType,
    dialect: Dialect,
    base64: bool,
    f: &mut Findings,
) -> Result<Fill> {
    if *value == Json::Null && *data_type != DataType::Json {
        if dialect == Dialect::V2 {
            return Ok(Fill::undefined(data_type));
        }
        f.tolerated("v3/fill-value", "fill_value", "the fill value is null", "read as zero")?;
        return Ok(Fill::zero(data_type));
    }
    let mut out = Vec::new();
    FillReader { dialect, base64, f }.element(value, data_type, &mut out)?;
    Ok(Fill(out.into()))
}

struct FillReader<'a> {
    dialect: Dialect,
    /// Whether the bytes of an element may be given as base64.
    base64: bool,
    f: &'a mut Findings,
}

impl FillReader<'_> {
    fn v2(&self) -> bool {
        self.dialect == Dialect::V2
    }

    fn bad<T>(&self, value: &Json, t: &DataType) -> Result<T> {
        Err(invalid!("{value} is not a fill value of {t}").with_field("fill_value"))
    }

    /// Tolerates a form that the specification does not allow, but whose meaning is clear.
    fn odd(&mut self, value: &Json, t: &DataType) -> Result<()> {
        let message = format!("{value} is not a fill value of {t} by the specification");
        self.f.deviation("fill-value", "fill_value", message)
    }

    fn element(&mut self, value: &Json, t: &DataType, out: &mut Vec<u8>) -> Result<()> {
        match t {
            DataType::Bool => {
                let b = match (value, value.as_f64()) {
                    (Json::Bool(b), _) => *b,
                    (_, Some(n)) if n == 0.0 || n == 1.0 => {
                        if !self.v2() {
                            self.odd(value, t)?;
                        }
                        n != 0.0
                    }
                    _ => return self.bad(value, t),
                };
                out.push(u8::from(b));
            }
            DataType::Int(_) | DataType::UInt(_) | DataType::DateTime(..) | DataType::TimeDelta(..) => {
                let is_time = matches!(t, DataType::DateTime(..) | DataType::TimeDelta(..));
                let n = match value.as_str() {
                    Some("NaT") if is_time => i64::MIN.into(),
                    _ => self.integer(value, t)?,
                };
                if t.put_integer(n, out).is_none() {
                    return self.bad(value, t);
                }
            }
            DataType::Float(format) => self.float(value, *format, t, out)?,
            DataType::Complex(format) => match value.items() {
                Some([re, im]) => {
                    self.float(re, *format, t, out)?;
                    self.float(im, *format, t, out)?;
                }
                Some(_) => return self.bad(value, t),
                None => {
                    if !self.v2() {
                        self.odd(value, t)?;
                    }
                    self.float(value, *format, t, out)?;
                    out.extend(std::iter::repeat_n(0, format.size()));
                }
            },
            DataType::Raw(n) | DataType::FixedBytes(n) => {
                let mut bytes = self.octets(value, t)?;
                if bytes.len() > *n
                    || (bytes.len() < *n && matches!(t, DataType::Raw(_)) && !bytes.is_empty())
                {
                    return self.bad(value, t);
                }
                bytes.resize(*n, 0);
                out.extend(bytes);
            }
            DataType::FixedUtf32(n) => {
                let text = match value {
                    Json::String(s) => s.as_str(),
                    Json::Number(z) if self.v2() && &**z == "0" => "",
                    _ => return self.bad(value, t),
                };
                let start = out.len();
                for c in text.chars() {
                    out.extend(u32::from(c).to_le_bytes());
                }
                if out.len() - start > n * 4 {
                    if !self.v2() {
                        return self.bad(value, t);
                    }
                    // numpy cuts it.
                    self.odd(value, t)?;
                    out.truncate(start + n * 4);
                }
                out.resize(start + n * 4, 0);
            }
            DataType::Struct(fields) => match value {
                Json::Object(members) => {
                    if let Some((name, _)) =
                        members.iter().find(|(n, _)| !fields.iter().any(|field| field.name == *n))
                    {
                        return Err(invalid!("the fill value has a field {name:?} that {t} does not have")
                            .with_field("fill_value"));
                    }
                    for field in fields.iter() {
                        let Some(member) = value.get(&field.name) else { return self.bad(value, t) };
                        self.element(member, &field.data_type, out)?;
                    }
                }
                // V2's scalar zero stands for "all zero".
                Json::Number(z) if self.v2() && &**z == "0" => out.extend(std::iter::repeat_n(0, t.size())),
                _ => {
                    let bytes = self.octets(value, t)?;
                    if bytes.len() != t.size() {
                        return self.bad(value, t);
                    }
                    out.extend(bytes);
                }
            },
            DataType::SubArray(item, shape) => {
                let count: usize = shape.iter().product();
                match value.items() {
                    Some(items) if items.len() == count => {
                        for v in items {
                            self.element(v, item, out)?;
                        }
                    }
                    Some(_) => return self.bad(value, t),
                    // One value for all; read once, so that what is odd about it is said once.
                    None => {
                        let mut one = Vec::new();
                        self.element(value, item, &mut one)?;
                        out.extend_from_slice(&one.repeat(count));
                    }
                }
            }
            DataType::String => match value {
                Json::String(s) => out.extend(s.as_bytes()),
                // zarr-python 2 wrote 0 where nothing was said, and never meant the empty text. zarr-python 3, and with it
                // xarray, makes the text "0" of it.
                Json::Number(digits) if self.v2() => out.extend(digits.as_bytes()),
                _ => return self.bad(value, t),
            },
            DataType::Bytes => match value {
                Json::Number(z) if self.v2() && z.parse() == Ok(0.0) => {}
                _ => out.extend(self.octets(value, t)?),
            },
            DataType::Json => out.extend(value.compact().as_bytes()),
            // No writer gives lists a fill value with a meaning.
            DataType::List(_) => {}
        }
        Ok(())
    }

    /// An integer; by the specification a number without fraction or exponent.
    fn integer(&mut self, value: &Json, t: &DataType) -> Result<i128> {
        if let Some(n) = value.as_i128() {
            return Ok(n);
        }
        let text = match value {
            Json::Number(text) => &**text,
            Json::String(text) if !self.v2() || text.parse::<i128>().is_ok() => {
                self.odd(value, t)?;
                text
            }
            Json::Bool(b) if self.v2() => {
                self.odd(value, t)?;
                return Ok(i128::from(*b));
            }
            _ => return self.bad(value, t),
        };
        if let Ok(n) = text.parse() {
            return Ok(n);
        }
        // `7.0` and `1e3`: whole numbers below 2^53 are exact in a float, and nobody writes larger ones so.
        match text.parse::<f64>() {
            Ok(x) if x.fract() == 0.0 && x.abs() < 9_007_199_254_740_992.0 => {
                if !self.v2() {
                    self.odd(value, t)?;
                }
                format!("{x:.0}").parse().or_else(|_| self.bad(value, t))
            }
            _ => self.bad(value, t),
        }
    }

    fn float(&mut self, value: &Json, format: Float, t: &DataType, out: &mut Vec<u8>) -> Result<()> {
        let special = |text: &str| match text {
            "NaN" => float::canonical_nan(format),
            "Infinity" => float::infinity(format, false),
            "-Infinity" => float::infinity(format, true),
            _ => None,
        };
        let bits = match value {
            Json::Number(text) => special(text).or_else(|| float::from_decimal(format, text)),
            Json::String(text) => match (special(text), text.strip_prefix("0x")) {
                (Some(bits), _) => Some(bits),
                (None, Some(digits)) => {
                    let fits =
                        digits.len() <= format.size() * 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                    let bits = u64::from_str_radix(digits, 16).ok().filter(|_| fits);
                    // V2 knows only the three words.
                    if bits.is_some() && self.v2() {
                        self.odd(value, t)?;
                    }
                    bits
                }
                (None, None) => {
                    let bits = match text.as_str() {
                        "nan" => float::canonical_nan(format),
                        "inf" | "+inf" => float::infinity(format, false),
                        "-inf" => float::infinity(format, true),
                        text if text.parse::<f64>().is_ok() => float::from_decimal(format, text),
                        _ => None,
                    };
                    if bits.is_some() {
                        self.odd(value, t)?;
                    }
                    bits
                }
            },
            _ => None,
        };
        let Some(bits) = bits else { return self.bad(value, t) };
        out.extend(bits.to_le_bytes().iter().take(format.size()));
        Ok(())
    }

    /// Bytes, as a list of integers 0 to 255 or as base64.
    fn octets(&mut self, value: &Json, t: &DataType) -> Result<Vec<u8>> {
        match value {
            Json::Array(items) => items
                .iter()
                .map(|i| i.as_u64().and_then(|n| u8::try_from(n).ok()))
                .collect::<Option<_>>()
                .map_or_else(|| self.bad(value, t), Ok),
            Json::String(text) => match base64::engine::general_purpose::STANDARD.decode(text) {
                Ok(bytes) => {
                    // A list of integers for `r*`, an object for `struct`: nothing else in V3's text.
                    if !self.base64 && matches!(t, DataType::Raw(_) | DataType::Struct(_)) {
                        self.odd(value, t)?;
                    }
                    Ok(bytes)
                }
                Err(_) if text.len() <= t.size() && self.v2() => {
                    self.odd(value, t)?;
                    Ok(text.as_bytes().to_vec())
                }
                Err(_) => self.bad(value, t),
            },
            Json::Number(z) if self.v2() && z.parse() == Ok(0.0) => Ok(Vec::new()),
            _ => self.bad(value, t),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Mode;
    use super::*;
    use crate::meta::json::json;

    fn fill(text: &str, t: &DataType, mode: Mode) -> Result<Vec<u8>> {
        let value = json(text);
        read(&value, t, Dialect::V3, &mut Findings::new(mode, "/")).map(|f| f.0.to_vec())
    }

    #[test]
    fn payloads_and_signs_survive() {
        let f32_bits = |t: &str| {
            fill(t, &DataType::FLOAT32, Mode::Strict).map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        };
        assert_eq!(f32_bits("\"0x7fa00000\"").unwrap(), 0x7fa0_0000);
        assert_eq!(f32_bits("\"NaN\"").unwrap(), 0x7fc0_0000);
        assert_eq!(f32_bits("-0.0").unwrap(), 0x8000_0000);
        assert_eq!(f32_bits("\"0x7fc0\"").unwrap(), 0x7fc0);
        assert!(f32_bits("\"nan\"").is_err());
        assert!(f32_bits("\"1.5\"").is_err());
        assert!(f32_bits("\"0x7fc000000\"").is_err());
        assert!(f32_bits("true").is_err());
    }

    #[test]
    fn integers_are_exact_and_checked() {
        let u64_fill = |t: &str, mode| fill(t, &DataType::UINT64, mode);
        assert_eq!(u64_fill("18446744073709551615", Mode::Strict).unwrap(), [255; 8]);
        for bad in ["-1", "18446744073709551616", "true", "1.5", "[1]"] {
            assert!(u64_fill(bad, Mode::Tolerant).is_err(), "{bad}");
        }
        for odd in ["7.0", "\"7\"", "7e0"] {
            assert!(u64_fill(odd, Mode::Strict).is_err(), "{odd}");
            assert_eq!(u64_fill(odd, Mode::Tolerant).unwrap()[0], 7, "{odd}");
        }
    }

    #[test]
    fn compound_values() {
        assert_eq!(fill("[1, 255]", &DataType::Raw(2), Mode::Strict).unwrap(), [1, 255]);
        assert!(fill("[1]", &DataType::Raw(2), Mode::Strict).is_err());
        assert!(fill("1", &DataType::Complex(Float::F32), Mode::Strict).is_err());
        let s = DataType::structure([("a".to_owned(), DataType::INT8), ("b".to_owned(), DataType::Bool)]);
        assert_eq!(fill(r#"{"b": true, "a": -1}"#, &s, Mode::Strict).unwrap(), [255, 1]);
        assert!(fill(r#"{"a": -1}"#, &s, Mode::Strict).is_err());
    }

    #[test]
    fn base64_is_for_legacy_types_only() {
        let s = DataType::structure([("a".to_owned(), DataType::INT8), ("b".to_owned(), DataType::Bool)]);
        let value = Json::string("AQI=");
        for t in [DataType::Raw(2), s] {
            assert!(fill(r#""AQI=""#, &t, Mode::Strict).is_err());
            assert_eq!(fill(r#""AQI=""#, &t, Mode::Tolerant).unwrap(), [1, 2]);
            let mut f = Findings::new(Mode::Strict, "/");
            assert_eq!(read_legacy(&value, &t, &mut f).unwrap().0.to_vec(), [1, 2]);
            assert_eq!(read(&value, &t, Dialect::V2, &mut f).unwrap().0.to_vec(), [1, 2]);
        }
    }

    #[test]
    fn v2_has_neither_hexadecimal_fills_nor_truths_for_integers() {
        for (text, t, bytes) in [
            (r#""0x7fc00001""#, DataType::FLOAT32, &[1, 0, 0xc0, 0x7f][..]),
            ("true", DataType::Int(16), &[1, 0]),
        ] {
            let value = json(text);
            assert!(read(&value, &t, Dialect::V2, &mut Findings::new(Mode::Strict, "/")).is_err());
            let mut f = Findings::new(Mode::Tolerant, "/");
            assert_eq!(read(&value, &t, Dialect::V2, &mut f).unwrap().0.to_vec(), bytes);
            assert_eq!(f.list().len(), 1);
        }
    }

    #[test]
    fn one_value_for_a_sub_array_is_judged_once() {
        let t = DataType::SubArray(Arc::new(DataType::Int(16)), Arc::from([1000, 1000]));
        let mut f = Findings::new(Mode::Tolerant, "/");
        let value = Json::string(format!("{}7", "0".repeat(10_000)));
        let fill = read(&value, &t, Dialect::V2, &mut f).unwrap();
        assert_eq!((fill.0.len(), &fill.0[..4]), (2_000_000, &[7, 0, 7, 0][..]));
        assert_eq!(f.list().len(), 1);
    }
}
