//! `json2` and `msgpack2`: a whole chunk as one JSON or MessagePack document.
//!
//! V2: filters `{"id": "json2", "encoding": "utf-8", …}` and `{"id": "msgpack2", "raw": false, …}`. The document is a
//! list of the items, nested by the shape of the chunk, then the data type, then the shape:
//! `["a", "b", "|O", [2]]`. The older ids `json` and `msgpack` lack the shape.
//!
//! Over `|O` the elements are [`DataType::Json`]: each is the text of one JSON value, so that the string `a` is `"a"`
//! with its quotes. `NaN`, `Infinity` and `-Infinity` are bare, at any depth, as in Python's JSON; bytes of MessagePack
//! become `{"base64": "…"}`. Over a fixed type each item is converted to it; one that it cannot hold exactly is an error.
//!
//! numcodecs keeps the nesting of the array even if the array is in Fortran order, where the chain reads this codec's
//! chunk with its dimensions reversed; a document whose shape is the reverse of the chunk's is turned around.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::config::Config;
use super::{ArrayToBytes, Buffer, OutputSize, Repr, output};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::{DataType, Endian};
use crate::meta::float;
use crate::meta::json::Json;
use crate::meta::typestr;
use crate::num;

/// Nesting in MessagePack beyond this is refused; a level counts twice or thrice.
const MAX_DEPTH: usize = 300;

/// The longest document that is read. Parsed, one takes some thirty times its length.
const MAX_DOCUMENT: usize = 1 << 26;

/// The `json2` and `msgpack2` codecs, and their predecessors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectsCodec {
    format: ObjectFormat,
    /// Whether the document ends with the shape.
    shaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectFormat {
    Json(TextEncoding),
    MsgPack { single: bool, bin: bool },
}

/// How a JSON text is made of bytes; Python's names for encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEncoding {
    Utf8,
    Latin1,
    /// Units of 2 or 4 bytes, with the order if the name gives one; else a byte-order mark does.
    Wide(usize, Option<Endian>),
}

impl TextEncoding {
    fn named(encoding: &str) -> Result<Self> {
        Ok(match encoding.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" | "ascii" | "us-ascii" => Self::Utf8,
            "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => Self::Latin1,
            "utf-16" | "utf16" => Self::Wide(2, None),
            "utf-16-le" => Self::Wide(2, Some(Endian::Little)),
            "utf-16-be" => Self::Wide(2, Some(Endian::Big)),
            "utf-32" | "utf32" => Self::Wide(4, None),
            "utf-32-le" => Self::Wide(4, Some(Endian::Little)),
            "utf-32-be" => Self::Wide(4, Some(Endian::Big)),
            other => return Err(unsupported!("JSON in the encoding {other:?} is not supported")),
        })
    }

    fn read(self, bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
        let (width, order) = match self {
            Self::Utf8 => return Ok(Cow::Borrowed(bytes)),
            Self::Latin1 => {
                let text: String = bytes.iter().map(|b| char::from(*b)).collect();
                return Ok(Cow::Owned(text.into_bytes()));
            }
            Self::Wide(width, order) => (width, order),
        };
        let bad = || invalid!("not text in UTF-{}", width * 8);
        if !bytes.len().is_multiple_of(width) {
            return Err(bad());
        }
        let number = |unit: &[u8], order: Endian| {
            let push = |n: u32, b: &u8| (n << 8) | u32::from(*b);
            match order {
                Endian::Big => unit.iter().fold(0, push),
                Endian::Little => unit.iter().rev().fold(0, push),
            }
        };
        let mark = bytes.get(..width).map(|unit| number(unit, Endian::Big));
        let swapped = if width == 2 { 0xfffe } else { 0xfffe_0000 };
        let (skip, order) = match (order, mark) {
            (Some(order), _) => (0, order),
            (None, Some(0xfeff)) => (1, Endian::Big),
            (None, Some(m)) if m == swapped => (1, Endian::Little),
            (None, _) => (0, Endian::Little),
        };
        let units = bytes.chunks_exact(width).skip(skip).map(|unit| number(unit, order));
        let text: Option<String> = if width == 2 {
            let units = units.map(|n| u16::try_from(n).unwrap_or(u16::MAX));
            char::decode_utf16(units).collect::<std::result::Result<_, _>>().ok()
        } else {
            units.map(char::from_u32).collect()
        };
        text.map(|t| Cow::Owned(t.into_bytes())).ok_or_else(bad)
    }

    fn write(self, text: String) -> Vec<u8> {
        let Self::Wide(width, order) = self else { return text.into_bytes() };
        let big = order == Some(Endian::Big);
        let mut out = Vec::new();
        let mut put = |n: u32| {
            let bytes = if big { n.to_be_bytes() } else { n.to_le_bytes() };
            let first = if big { 4 - width } else { 0 };
            out.extend(bytes.iter().skip(first).take(width));
        };
        if order.is_none() {
            put(0xfeff);
        }
        if width == 2 {
            text.encode_utf16().for_each(|u| put(u32::from(u)));
        } else {
            text.chars().for_each(|c| put(u32::from(c)));
        }
        out
    }
}

impl ObjectsCodec {
    /// `json2` (`shaped`) or `json`.
    pub(super) fn json(config: &Config<'_>, shaped: bool) -> Result<Self> {
        let text = TextEncoding::named(config.str("encoding")?.unwrap_or("utf-8"))?;
        Ok(Self { format: ObjectFormat::Json(text), shaped })
    }

    /// `msgpack2` (`shaped`) or `msgpack`.
    pub(super) fn msgpack(config: &Config<'_>, shaped: bool) -> Result<Self> {
        let single = config.bool("use_single_float")?.unwrap_or(false);
        let bin = config.bool("use_bin_type")?.unwrap_or(true);
        config.bool("raw")?;
        Ok(Self { format: ObjectFormat::MsgPack { single, bin }, shaped })
    }

    fn document(&self, bytes: &[u8]) -> Result<Json> {
        match self.format {
            ObjectFormat::Json(text) => Ok(Json::parse(&text.read(bytes)?)?.value),
            ObjectFormat::MsgPack { .. } => {
                let mut rest = bytes;
                let value = rmpv::decode::read_value_with_max_depth(&mut rest, MAX_DEPTH)
                    .map_err(|e| Error::invalid("not MessagePack").with_source(e))?;
                if !rest.is_empty() {
                    return Err(invalid!("{} bytes are left over", rest.len()));
                }
                unpack(value)
            }
        }
    }
}

impl ArrayToBytes for ObjectsCodec {
    fn name(&self) -> &'static str {
        match (self.format, self.shaped) {
            (ObjectFormat::Json(_), true) => "json2",
            (ObjectFormat::Json(_), false) => "json",
            (ObjectFormat::MsgPack { .. }, true) => "msgpack2",
            (ObjectFormat::MsgPack { .. }, false) => "msgpack",
        }
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        if holds(&decoded.data_type) {
            return Ok(OutputSize::AtMost(MAX_DOCUMENT));
        }
        Err(unsupported!("{} elements", decoded.data_type))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        output::justified(decoded.byte_size()?, bytes.len(), output::MAX_RATIO)?;
        let document = self.document(bytes)?;
        let (items, shape) = self.split(&document, decoded)?;
        let mut flat = Vec::new();
        match shape.as_slice() {
            [] => flat.push(items.first().ok_or_else(|| Error::invalid("the document has no item"))?),
            // Some writers do not nest.
            shape
                if num::product_usize(shape).ok() == Some(items.len())
                    && !items.iter().all(|i| i.items().is_some()) =>
            {
                flat.extend(items)
            }
            shape => flatten(items, shape, &mut flat)?,
        }
        if flat.len() != decoded.count()? {
            let (got, want) = (flat.len(), decoded.count()?);
            return Err(invalid!("{got} elements where {want} were expected"));
        }
        if shape != decoded.shape && shape.iter().rev().eq(&decoded.shape) {
            flat = turned(&flat, &shape)?;
        }
        let mut out = Buffer::default();
        for (i, item) in flat.into_iter().enumerate() {
            put(item, &decoded.data_type, &mut out).map_err(|e| e.within(format_args!("element {i}")))?;
        }
        Ok(out)
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let mut items = values(chunk, &decoded.data_type)?.into_iter();
        let mut document = match decoded.shape.as_slice() {
            [] => items.next().into_iter().collect(),
            shape => nest(&mut items, shape)?,
        };
        let order = decoded.data_type.has_byte_order().then_some(Endian::Little);
        document.push(match decoded.data_type {
            DataType::Json | DataType::String => Json::string("|O"),
            ref t => typestr::write(t, order).ok_or_else(|| unsupported!("{t} elements"))?,
        });
        if self.shaped {
            document.push(Json::Array(decoded.shape.iter().map(Json::int).collect()));
        }
        match self.format {
            ObjectFormat::Json(encoding) => {
                // Unlike in metadata, `NaN` is bare, as numcodecs writes and wants it.
                let text = Json::Array(document).compact();
                Ok(encoding.write(if encoding == TextEncoding::Latin1 { ascii(&text) } else { text }))
            }
            ObjectFormat::MsgPack { single, bin } => {
                let mut out = Vec::new();
                rmpv::encode::write_value(&mut out, &pack(Json::Array(document), single, bin)?)
                    .map_err(|e| Error::invalid("cannot be written as MessagePack").with_source(e))?;
                Ok(out)
            }
        }
    }
}

impl ObjectsCodec {
    /// The items of a document and its shape.
    fn split<'a>(&self, document: &'a Json, decoded: &Repr) -> Result<(&'a [Json], Vec<u64>)> {
        let all = document.items().ok_or_else(|| Error::invalid("the document is not a list"))?;
        let bad = || Error::invalid("the document does not end with a data type and a shape");
        let (items, data_type, shape) = match (all, self.shaped) {
            ([items @ .., data_type, shape], true) => {
                let extents = shape.items().ok_or_else(bad)?.iter().map(Json::as_u64);
                (items, data_type, extents.collect::<Option<Vec<_>>>().ok_or_else(bad)?)
            }
            ([items @ .., data_type], false) => (items, data_type, decoded.shape.clone()),
            _ => return Err(bad()),
        };
        // The metadata say what the type is; what stands here must only be a type.
        data_type.as_str().ok_or_else(bad)?;
        Ok((items, shape))
    }
}

/// Whether elements of this type can be items.
fn holds(data_type: &DataType) -> bool {
    !matches!(
        data_type,
        DataType::Complex(_)
            | DataType::Raw(_)
            | DataType::Struct(_)
            | DataType::SubArray(..)
            | DataType::Bytes
            | DataType::List(_)
    )
}

/// Collects the items of a list nested by `shape`, which is not empty, in C order.
fn flatten<'a>(items: &'a [Json], shape: &[u64], out: &mut Vec<&'a Json>) -> Result<()> {
    let (extent, inner) = shape.split_first().unwrap_or((&0, &[]));
    if num::u64_of(items.len()) != *extent {
        return Err(invalid!("a list of {} items where the shape says {extent}", items.len()));
    }
    if inner.is_empty() {
        out.extend(items);
        return Ok(());
    }
    for item in items {
        let items =
            item.items().ok_or_else(|| Error::invalid("the items are nested less than the shape says"))?;
        flatten(items, inner, out)?;
    }
    Ok(())
}

/// `flat`, in C order of `shape`, in C order of the reversed shape.
fn turned<'a>(flat: &[&'a Json], shape: &[u64]) -> Result<Vec<&'a Json>> {
    let extents = shape.iter().map(|n| num::usize_of(*n)).collect::<Result<Vec<_>>>()?;
    let mut out = Vec::with_capacity(flat.len());
    for i in 0..flat.len() {
        // Position `i` of the result counts the first dimension fastest.
        let (mut rest, mut at, mut stride) = (i, 0, flat.len());
        for n in &extents {
            stride /= n;
            at += rest % n * stride;
            rest /= n;
        }
        out.push(*flat.get(at).ok_or_else(|| Error::invalid("the shape does not fit the items"))?);
    }
    Ok(out)
}

/// The inverse of [`flatten`].
fn nest(items: &mut impl Iterator<Item = Json>, shape: &[u64]) -> Result<Vec<Json>> {
    let (extent, inner) = shape.split_first().unwrap_or((&0, &[]));
    (0..*extent)
        .map(|_| match inner {
            [] => items.next().ok_or_else(|| Error::invalid("the chunk has too few elements")),
            inner => nest(items, inner).map(Json::Array),
        })
        .collect()
}

/// Adds one item, converted, to a buffer.
fn put(item: &Json, data_type: &DataType, out: &mut Buffer) -> Result<()> {
    let cannot = || invalid!("{item} is not exactly a {data_type}");
    match data_type {
        DataType::Json => return out.push(item.compact().as_bytes()),
        DataType::String => {
            return match item {
                Json::String(s) => out.push(s.as_bytes()),
                Json::Null => out.push(b""),
                _ => Err(cannot()),
            };
        }
        DataType::Bool => {
            let value =
                item.as_bool().or_else(|| integer(item).filter(|n| matches!(n, 0 | 1)).map(|n| n == 1));
            out.bytes.push(u8::from(value.ok_or_else(cannot)?));
        }
        DataType::Int(_) | DataType::UInt(_) | DataType::DateTime(..) | DataType::TimeDelta(..) => {
            let is_time = matches!(data_type, DataType::DateTime(..) | DataType::TimeDelta(..));
            let n = if is_time && *item == Json::Null { Some(i64::MIN.into()) } else { integer(item) };
            n.and_then(|n| data_type.put_integer(n, &mut out.bytes)).ok_or_else(cannot)?;
        }
        DataType::Float(f) => {
            let bits = match item {
                Json::Bool(b) => Some(float::from_f64(*f, f64::from(u8::from(*b)))),
                Json::String(s) if matches!(s.as_str(), "NaN" | "Infinity" | "-Infinity") => {
                    float::from_decimal(*f, s)
                }
                item => item.number_text().and_then(|t| float::from_decimal(*f, t)),
            };
            out.bytes.extend(bits.ok_or_else(cannot)?.to_le_bytes().iter().take(f.size()));
        }
        DataType::FixedUtf32(n) => {
            let text = item.as_str().filter(|s| s.chars().count() <= *n).ok_or_else(cannot)?;
            let end = out.bytes.len() + data_type.size();
            out.bytes.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
            out.bytes.resize(end, 0);
        }
        DataType::FixedBytes(n) => {
            let content = match item {
                Json::String(s) => Some(s.clone().into_bytes()),
                item => item.get("base64").and_then(Json::as_str).and_then(|s| BASE64.decode(s).ok()),
            };
            let content = content.filter(|c| c.len() <= *n).ok_or_else(cannot)?;
            let end = out.bytes.len() + data_type.size();
            out.bytes.extend_from_slice(&content);
            out.bytes.resize(end, 0);
        }
        other => return Err(unsupported!("{other} elements")),
    }
    Ok(())
}

/// The integer that a number or boolean is, however it is written.
fn integer(item: &Json) -> Option<i128> {
    if let Json::Bool(b) = item {
        return Some(i128::from(*b));
    }
    item.as_i128().or_else(|| {
        // "7.0", "1e3": at most 2^53, so that the text is meant exactly.
        let x = item.as_f64().filter(|x| x.abs() <= 9_007_199_254_740_992.0 && x.fract() == 0.0)?;
        format!("{x:.0}").parse().ok()
    })
}

/// The elements of a chunk as items.
fn values(chunk: &Buffer, data_type: &DataType) -> Result<Vec<Json>> {
    match data_type {
        DataType::Json => return chunk.items().map(|i| Ok(Json::parse(i)?.value)).collect(),
        DataType::String => {
            let text =
                |i: &[u8]| std::str::from_utf8(i).map(Json::string).map_err(|_| Error::invalid("not UTF-8"));
            return chunk.items().map(text).collect();
        }
        _ => {}
    }
    chunk
        .bytes
        .chunks_exact(data_type.size().max(1))
        .map(|e| {
            Ok(match data_type {
                DataType::Bool => Json::Bool(e != [0]),
                DataType::Int(_) => Json::int(num::signed(e)),
                DataType::UInt(_) => Json::int(num::unsigned(e)),
                DataType::DateTime(..) | DataType::TimeDelta(..) => match num::signed(e) {
                    i64::MIN => Json::Null,
                    n => Json::int(n),
                },
                DataType::Float(f) => number(float::to_f64(*f, num::unsigned(e))),
                DataType::FixedUtf32(_) => {
                    let units = e.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c));
                    let text: Option<String> = units.map(char::from_u32).collect();
                    let text = text.ok_or_else(|| Error::invalid("an element is not UTF-32"))?;
                    Json::string(text.trim_end_matches('\0'))
                }
                DataType::FixedBytes(_) => {
                    let end = e.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
                    bytes_item(e.get(..end).unwrap_or_default())
                }
                other => return Err(unsupported!("{other} elements")),
            })
        })
        .collect()
}

/// How bytes are written where JSON is all there is.
fn bytes_item(bytes: &[u8]) -> Json {
    Json::Object(vec![("base64".to_owned(), Json::string(BASE64.encode(bytes)))])
}

/// Escapes what is not ASCII, which in a JSON document is within strings.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(b) if b.is_ascii() => out.push(char::from(b)),
            _ => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out
}

fn unpack(value: rmpv::Value) -> Result<Json> {
    use rmpv::Value;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Boolean(b) => Json::Bool(b),
        Value::Integer(n) => Json::int(n),
        Value::F32(x) => number(f64::from(x)),
        Value::F64(x) => number(x),
        Value::String(s) => match s.into_str() {
            Some(s) => Json::String(s),
            None => return Err(Error::invalid("a string is not UTF-8")),
        },
        Value::Binary(bytes) => bytes_item(&bytes),
        Value::Array(items) => Json::Array(items.into_iter().map(unpack).collect::<Result<_>>()?),
        Value::Map(members) => {
            let mut object = Vec::with_capacity(members.len());
            for (name, value) in members {
                match unpack(name)? {
                    Json::String(name) => object.push((name, unpack(value)?)),
                    other => return Err(unsupported!("{} as a key of a map is not supported", other.kind())),
                }
            }
            Json::Object(object)
        }
        Value::Ext(kind, _) => {
            return Err(unsupported!("MessagePack's extension type {kind} is not supported"));
        }
    })
}

fn number(x: f64) -> Json {
    match x {
        x if x.is_finite() => Json::float(x),
        x if x.is_nan() => Json::Number("NaN".into()),
        x => Json::Number(if x > 0.0 { "Infinity" } else { "-Infinity" }.into()),
    }
}

fn pack(value: Json, single: bool, bin: bool) -> Result<rmpv::Value> {
    use rmpv::Value;
    if bin
        && let Some([(name, Json::String(text))]) = value.members()
        && name == "base64"
        && let Ok(bytes) = BASE64.decode(text)
    {
        return Ok(Value::Binary(bytes));
    }
    Ok(match value {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Boolean(b),
        Json::Number(_) => match (value.as_i64(), value.as_u64(), value.as_f64()) {
            (Some(n), ..) => Value::from(n),
            (None, Some(n), _) => Value::from(n),
            (None, None, Some(x)) if single => Value::F32(f32::from_bits(
                u32::try_from(float::from_f64(crate::meta::dtype::Float::F32, x)).unwrap_or_default(),
            )),
            (None, None, Some(x)) => Value::F64(x),
            _ => return Err(invalid!("{value} is not a number")),
        },
        Json::String(s) => Value::from(s),
        Json::Array(items) => {
            Value::Array(items.into_iter().map(|i| pack(i, single, bin)).collect::<Result<_>>()?)
        }
        Json::Object(members) => Value::Map(
            members
                .into_iter()
                .map(|(n, v)| Ok((Value::from(n), pack(v, single, bin)?)))
                .collect::<Result<_>>()?,
        ),
    })
}

#[cfg(test)]
mod tests;
