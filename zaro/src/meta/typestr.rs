//! V2 data types: numpy's type strings and lists of fields.
//!
//! `"<f4"` is byte order (`<` little, `>` big, `|` none), kind and bytes; `"<M8[10us]"` adds a unit; a struct is a list
//! of `[name, type]` or `[name, type, shape]`, nested as need be, and each field has a byte order of its own. `"|O"`
//! says only that a codec knows the type.
//!
//! Deviations with an unambiguous meaning are accepted: a byte order for types that have none (`<u1`, as NCZarr
//! writes). `|u2` is ambiguous and an error.

use std::sync::Arc;

use super::dtype::{DataType, Endian, Float, MAX_ELEMENT, TimeUnit};
use super::json::Json;
use crate::error::{Error, Result, invalid, unsupported};

/// Maximum parts with a byte order in one element; guards against a sub-array of absurd extent.
const MAX_UNITS: usize = 1 << 20;

/// A V2 data type and its byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStr {
    /// The type; none for `|O`.
    pub data_type: Option<DataType>,
    /// The order of all numbers in an element, if they have one.
    pub endian: Option<Endian>,
    /// If numbers in one element differ in their order: for each unit of [`DataType::each_unit`], whether it is
    /// big-endian. Else empty.
    pub mixed: Vec<bool>,
}

impl TypeStr {
    /// The type, if it is not `|O`.
    pub fn fixed(&self) -> Result<&DataType> {
        self.data_type.as_ref().ok_or_else(|| Error::invalid("object types are not allowed here"))
    }

    /// Converts one element between stored and in-memory byte order, either way.
    pub fn swap(&self, element: &mut [u8]) {
        let Some(data_type) = &self.data_type else { return };
        let mut unit = 0;
        data_type.each_unit(0, &mut |at, width, count| {
            let big = self.mixed.get(unit).copied().unwrap_or(self.endian == Some(Endian::Big));
            unit += 1;
            if let Some(run) = element.get_mut(at..at + width * count).filter(|_| big) {
                run.chunks_exact_mut(width.max(1)).for_each(<[u8]>::reverse);
            }
        });
    }

    fn new(data_type: DataType, orders: &[Option<Endian>]) -> Self {
        let mut given = orders.iter().flatten();
        let endian = given.next().copied();
        let mixed = if given.any(|e| Some(*e) != endian) {
            orders.iter().map(|e| *e == Some(Endian::Big)).collect()
        } else {
            Vec::new()
        };
        Self { data_type: Some(data_type), endian: if mixed.is_empty() { endian } else { None }, mixed }
    }
}

/// Reads the `dtype` of V2 metadata.
pub fn parse(json: &Json) -> Result<TypeStr> {
    parse_with(json, false)
}

/// Reads the `dtype` of a codec's configuration, which may also be one of numpy's names (`"float32"`, `"bool"`) or
/// lack the byte order (`"f4"`: little-endian).
pub fn parse_config(json: &Json) -> Result<TypeStr> {
    parse_with(json, true)
}

fn parse_with(json: &Json, names: bool) -> Result<TypeStr> {
    if matches!(json.as_str(), Some("|O")) || names && matches!(json.as_str(), Some("O" | "object")) {
        return Ok(TypeStr { data_type: None, endian: None, mixed: Vec::new() });
    }
    let mut orders = Vec::new();
    let data_type = any(json, names, &mut orders)?;
    if data_type.size() > MAX_ELEMENT {
        return Err(invalid!("elements of {} bytes are too large", data_type.size()));
    }
    Ok(TypeStr::new(data_type, &orders))
}

/// One type; `orders` gets an entry for each unit of it.
fn any(json: &Json, names: bool, orders: &mut Vec<Option<Endian>>) -> Result<DataType> {
    match json {
        Json::String(text) => {
            let (data_type, order) = plain(text, names)?;
            data_type.each_unit(0, &mut |_, _, _| orders.push(order));
            Ok(data_type)
        }
        Json::Array(fields) => structure(fields, names, orders),
        other => Err(invalid!("a data type must be a string or a list of fields, not {}", other.kind())),
    }
}

fn structure(items: &[Json], names: bool, orders: &mut Vec<Option<Endian>>) -> Result<DataType> {
    if items.is_empty() {
        return Err(Error::invalid("a structured data type must have at least one field"));
    }
    let mut fields: Vec<(String, DataType)> = Vec::with_capacity(items.len());
    let mut seen = std::collections::HashSet::new();
    for item in items {
        let bad = || invalid!("a field must be [name, type] or [name, type, shape], not {item}");
        let (name, data_type, shape) = match item.items().ok_or_else(bad)? {
            [name, data_type] => (name, data_type, None),
            [name, data_type, shape] => (name, data_type, Some(shape)),
            _ => return Err(bad()),
        };
        // numpy writes a field with a title as [[title, name], ...].
        let name = match name {
            Json::Array(pair) => pair.get(1).and_then(Json::as_str).ok_or_else(bad)?,
            name => name.as_str().ok_or_else(bad)?,
        };
        if !seen.insert(name.to_owned()) {
            return Err(invalid!("two fields are named {name:?}"));
        }
        let field =
            field(data_type, shape, names, orders).map_err(|e| e.within(format_args!("field {name:?}")))?;
        fields.push((name.to_owned(), field));
    }
    Ok(DataType::structure(fields))
}

fn field(
    data_type: &Json,
    shape: Option<&Json>,
    names: bool,
    orders: &mut Vec<Option<Endian>>,
) -> Result<DataType> {
    if matches!(data_type.as_str(), Some("|O")) {
        return Err(Error::unsupported("an object as a field of a struct is not supported"));
    }
    let first = orders.len();
    let data_type = any(data_type, names, orders)?;
    let Some(shape) = shape else { return Ok(data_type) };
    let bad = || invalid!("the shape of a field must be a list of positive integers, not {shape}");
    let extent =
        |j: &Json| j.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).ok_or_else(bad);
    let extents: Vec<usize> = match shape {
        Json::Array(items) => items.iter().map(extent).collect::<Result<_>>()?,
        one => vec![extent(one)?],
    };
    if extents.is_empty() {
        return Ok(data_type);
    }
    let inner = orders.get(first..).unwrap_or_default().to_vec();
    let count = extents.iter().try_fold(1usize, |a, n| a.checked_mul(*n)).filter(|n| *n <= MAX_UNITS);
    let count = count.filter(|n| inner.len().saturating_mul(*n).saturating_add(first) <= MAX_UNITS);
    let count = count.ok_or_else(|| unsupported!("a field of shape {extents:?} is too large"))?;
    orders.truncate(first);
    orders.extend(inner.iter().copied().cycle().take(inner.len() * count));
    Ok(DataType::SubArray(Arc::new(data_type), extents.into()))
}

fn plain(text: &str, names: bool) -> Result<(DataType, Option<Endian>)> {
    let bad = || invalid!("{text:?} is not a data type");
    if names && let Some(data_type) = named(text) {
        let order = data_type.has_byte_order().then_some(Endian::Little);
        return Ok((data_type, order));
    }
    let (order, rest) = match text.split_at_checked(1) {
        Some(("<", rest)) => (Some(Endian::Little), rest),
        Some((">", rest)) => (Some(Endian::Big), rest),
        Some(("|", rest)) => (None, rest),
        Some(("=", rest)) if names => (Some(Endian::Little), rest),
        Some(_) if names => (Some(Endian::Little), text),
        _ => return Err(bad()),
    };
    let (kind, rest) = rest.split_at_checked(1).ok_or_else(bad)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = rest.split_at_checked(digits).ok_or_else(bad)?;
    let time = matches!(kind, "m" | "M");
    if number.is_empty() || number.len() > 1 && number.starts_with('0') || !time && !unit.is_empty() {
        return Err(bad());
    }
    let n: usize = number.parse().map_err(|_| bad())?;
    let bits = |bytes: usize| u8::try_from(bytes.saturating_mul(8)).unwrap_or(64);
    let data_type = match (kind, n) {
        ("b", 1) => DataType::Bool,
        ("i", 1 | 2 | 4 | 8) => DataType::Int(bits(n)),
        ("u", 1 | 2 | 4 | 8) => DataType::UInt(bits(n)),
        ("f", 2) => DataType::Float(Float::F16),
        ("f", 4) => DataType::Float(Float::F32),
        ("f", 8) => DataType::Float(Float::F64),
        ("c", 8) => DataType::Complex(Float::F32),
        ("c", 16) => DataType::Complex(Float::F64),
        ("f", 12 | 16) | ("c", 24 | 32) => {
            return Err(unsupported!(
                "{text:?}: long double is not supported, since its format depends on the machine"
            ));
        }
        ("S" | "U" | "V", 0) => return Err(unsupported!("{text:?}: elements of no bytes are not supported")),
        ("S" | "U" | "V", n) if n > MAX_ELEMENT => return Err(bad()),
        ("S", n) => DataType::FixedBytes(n),
        ("U", n) => DataType::FixedUtf32(n),
        ("V", n) => DataType::Raw(n),
        ("m" | "M", 8) => {
            let (unit, scale) = time_unit(unit).ok_or_else(bad)?;
            if kind == "M" { DataType::DateTime(unit, scale) } else { DataType::TimeDelta(unit, scale) }
        }
        _ => return Err(bad()),
    };
    match (data_type.has_byte_order(), order) {
        (true, None) => Err(invalid!("{text:?} lacks a byte order")),
        (true, order) => Ok((data_type, order)),
        (false, _) => Ok((data_type, None)),
    }
}

/// The V2 form of a type whose numbers all have the order `endian`; `None` if V2 has no such type.
#[must_use]
pub fn write(data_type: &DataType, endian: Option<Endian>) -> Option<Json> {
    write_units(data_type, &mut std::iter::repeat(endian))
}

/// The V2 form of a type, each of its numbers in the order that `order` says; `None` if V2 has no such type.
#[must_use]
pub fn write_as(data_type: &DataType, order: &TypeStr) -> Option<Json> {
    if order.mixed.is_empty() {
        return write(data_type, order.endian);
    }
    let mut orders = order.mixed.iter().map(|b| Some(if *b { Endian::Big } else { Endian::Little }));
    write_units(data_type, &mut orders)
}

/// Consumes as many of `orders` as the type has units.
fn write_units(data_type: &DataType, orders: &mut dyn Iterator<Item = Option<Endian>>) -> Option<Json> {
    if let DataType::Struct(fields) = data_type {
        let mut out = Vec::with_capacity(fields.len());
        for f in fields.iter() {
            let mut parts = vec![Json::string(f.name.as_str())];
            match &f.data_type {
                DataType::SubArray(inner, shape) => {
                    let mut units = 0;
                    inner.each_unit(0, &mut |_, _, _| units += 1);
                    parts.push(write_units(inner, orders)?);
                    let count: usize = shape.iter().product();
                    // All elements of a sub-array have the orders of its first.
                    for _ in 0..units * count.saturating_sub(1) {
                        orders.next()?;
                    }
                    parts.push(Json::Array(shape.iter().map(Json::int).collect()));
                }
                other => parts.push(write_units(other, orders)?),
            }
            out.push(Json::Array(parts));
        }
        return Some(Json::Array(out));
    }
    let mut endian = None;
    data_type.each_unit(0, &mut |_, _, _| endian = orders.next().flatten());
    let order = match endian {
        _ if !data_type.has_byte_order() || data_type.size() == 1 => '|',
        Some(Endian::Big) => '>',
        Some(Endian::Little) => '<',
        None => return None,
    };
    let (kind, size) = match data_type {
        DataType::Bool => ('b', 1),
        DataType::Int(bits @ (8 | 16 | 32 | 64)) => ('i', usize::from(bits / 8)),
        DataType::UInt(bits @ (8 | 16 | 32 | 64)) => ('u', usize::from(bits / 8)),
        DataType::Float(f @ (Float::F16 | Float::F32 | Float::F64)) => ('f', f.size()),
        DataType::Complex(f @ (Float::F32 | Float::F64)) => ('c', 2 * f.size()),
        DataType::Raw(n) => ('V', *n),
        DataType::FixedBytes(n) => ('S', *n),
        DataType::FixedUtf32(n) => ('U', *n),
        DataType::DateTime(unit, scale) => return Some(write_time(order, 'M', *unit, *scale)),
        DataType::TimeDelta(unit, scale) => return Some(write_time(order, 'm', *unit, *scale)),
        _ => return None,
    };
    Some(Json::string(format!("{order}{kind}{size}")))
}

fn write_time(order: char, kind: char, unit: TimeUnit, scale: u32) -> Json {
    Json::string(match (unit, scale) {
        (TimeUnit::Generic, 1) => format!("{order}{kind}8"),
        (unit, 1) => format!("{order}{kind}8[{}]", unit.name()),
        (unit, scale) => format!("{order}{kind}8[{scale}{}]", unit.name()),
    })
}

/// `[ns]`, `[10us]`; nothing at all is numpy's "generic".
fn time_unit(text: &str) -> Option<(TimeUnit, u32)> {
    if text.is_empty() {
        return Some((TimeUnit::Generic, 1));
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    let (scale, unit) = inner.split_at_checked(digits)?;
    let scale = if scale.is_empty() { 1 } else { scale.parse().ok()? };
    let unit = TimeUnit::parse(unit)?;
    (1..=0x7fff_ffff).contains(&scale).then_some((unit, scale))
}

/// numpy's names of types, for configurations only.
fn named(text: &str) -> Option<DataType> {
    let name = match text {
        "?" => "bool",
        "int" => "int64",
        "uint" => "uint64",
        "float" => "float64",
        "complex" => "complex128",
        other => other,
    };
    // What V3 has besides, numpy has not.
    super::v3::plain(name).filter(|t| write(t, Some(Endian::Little)).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    fn read(text: &str) -> Result<TypeStr> {
        parse(&json(text))
    }

    #[test]
    fn plain_types() {
        use Endian::{Big, Little};
        for (text, data_type, endian) in [
            ("|b1", DataType::Bool, None),
            ("|u1", DataType::UINT8, None),
            ("<i1", DataType::INT8, None),
            ("<u2", DataType::UInt(16), Some(Little)),
            (">i8", DataType::Int(64), Some(Big)),
            (">f2", DataType::Float(Float::F16), Some(Big)),
            ("<c16", DataType::Complex(Float::F64), Some(Little)),
            ("|S12", DataType::FixedBytes(12), None),
            (">U3", DataType::FixedUtf32(3), Some(Big)),
            ("|V16", DataType::Raw(16), None),
            ("<V16", DataType::Raw(16), None),
            ("<M8[ns]", DataType::DateTime(TimeUnit::Nanosecond, 1), Some(Little)),
            ("<M8[10us]", DataType::DateTime(TimeUnit::Microsecond, 10), Some(Little)),
            (">m8[25s]", DataType::TimeDelta(TimeUnit::Second, 25), Some(Big)),
            ("<m8", DataType::TimeDelta(TimeUnit::Generic, 1), Some(Little)),
        ] {
            let got = parse(&Json::string(text)).unwrap();
            assert_eq!(got, TypeStr { data_type: Some(data_type), endian, mixed: vec![] }, "{text}");
        }
        assert_eq!(read("\"|O\"").unwrap().data_type, None);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for bad in [
            "",
            "<",
            "<f",
            "f4",
            "|u2",
            "|i8",
            "|f4",
            "|U3",
            "|M8[ns]",
            "<f3",
            "<i16",
            "<b2",
            "<M8[xx]",
            "<M8[0s]",
            "<M8[ns",
            "<M4[ns]",
            "<q8",
            "<f4 ",
            "<f04",
            "<f-4",
            "<U99999999999",
            "\u{e9}f4",
            "<\u{e9}4",
            "float32",
            "<S99999999999999999999999",
            "O",
            "<M8[2147483648s]",
            "|S268435457",
            "<U67108865",
            "<M8[]",
            "<f16",
            "|V0",
            "<u4[s]",
        ] {
            assert!(parse(&Json::string(bad)).is_err(), "{bad:?}");
        }
        for bad in [
            "3",
            "null",
            "[]",
            "[[]]",
            "[1]",
            r#"["a","<f4"]"#,
            r#"[["a"]]"#,
            r#"[["a","<f4"],["a","<f4"]]"#,
            r#"[["a","|O"]]"#,
            r#"[["a","<f4",[0]]]"#,
            r#"[["a","<f4",[-1]]]"#,
            r#"[["a","<f4",[1.5]]]"#,
            r#"[["a","<f4",[99999,99999]]]"#,
            r#"[["a","<f4",[1048576]],["b","<f4"],["c","<f4",[9]]]"#,
            r#"[["a","|S2000",[4294967296]]]"#,
            r#"[[3,"<f4"]]"#,
            r#"[["a","<f4",[1],1]]"#,
            r#"[["a","|S500000000"],["b","|S500000000"],["c","|S500000000"],["d","|S500000000"],["e","|S500000000"]]"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn structs_keep_the_order_of_each_field() {
        let t = read(r#"[["a","|u1"],["b","<i2"],["s","|S3"]]"#).unwrap();
        assert_eq!((t.endian, t.mixed.len()), (Some(Endian::Little), 0));
        assert_eq!(t.fixed().unwrap().size(), 6);

        let t = read(r#"[["a","|u1"],["b",">i2"],["in",[["x","<f4"],["y",">f4"]],[2]],["z",">c8",[2,2]]]"#)
            .unwrap();
        assert_eq!(t.endian, None);
        assert_eq!(t.mixed, [false, true, false, true, false, true, true, true, true, true]);
        let data_type = t.fixed().unwrap();
        let mut units = 0;
        data_type.each_unit(0, &mut |_, _, _| units += 1);
        assert_eq!(units, t.mixed.len());
        assert_eq!(data_type.size(), 1 + 2 + 16 + 32);

        let t = read(r#"[["a",">i4",3],["b",">f8",[]],[["title","n"],"|b1"]]"#).unwrap();
        assert_eq!((t.endian, t.mixed.len()), (Some(Endian::Big), 0));
        assert_eq!(t.fixed().unwrap().to_string(), "struct(a: int32[3], b: float64, n: bool)");
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            r#""|b1""#,
            r#""|i1""#,
            r#""<u2""#,
            r#"">f8""#,
            r#""<c8""#,
            r#""|S5""#,
            r#"">U7""#,
            r#""|V3""#,
            r#""<M8[ns]""#,
            r#"">m8[10us]""#,
            r#""<m8""#,
            r#"[["a",">i4"],["n",[["x","|u1"],["y",">f8",[2,3]]]],["s","|S2"]]"#,
        ] {
            let t = read(text).unwrap();
            assert_eq!(write(t.fixed().unwrap(), t.endian).unwrap().to_string(), text);
        }
        let mixed =
            r#"[["a","|u1"],["b",">i2"],["in",[["x","<f4"],["y",">f4"]],[2]],["z",">c8",[2,2]],["e","<i8"]]"#;
        let t = read(mixed).unwrap();
        assert_eq!(write_as(t.fixed().unwrap(), &t).unwrap().to_string(), mixed);
        let mut element: Vec<u8> = (0..=255).take(t.fixed().unwrap().size()).collect();
        t.swap(&mut element);
        assert_eq!(element[..12], [0, 2, 1, 3, 4, 5, 6, 10, 9, 8, 7, 11]);
        assert_eq!(write(&DataType::Float(Float::BF16), Some(Endian::Little)), None);
        assert_eq!(write(&DataType::String, None), None);
        assert_eq!(write(&DataType::Int(16), None), None);
    }

    #[test]
    fn configurations_may_use_names() {
        for (text, data_type) in [
            ("float32", DataType::FLOAT32),
            ("f4", DataType::FLOAT32),
            ("=f4", DataType::FLOAT32),
            ("bool", DataType::Bool),
            ("uint8", DataType::UINT8),
            ("u1", DataType::UINT8),
        ] {
            assert_eq!(parse_config(&Json::string(text)).unwrap().data_type, Some(data_type), "{text}");
        }
        assert_eq!(parse_config(&Json::string("f4")).unwrap().endian, Some(Endian::Little));
        assert_eq!(parse_config(&Json::string("u1")).unwrap().endian, None);
        assert!(parse_config(&Json::string("floof")).is_err());
    }
}
