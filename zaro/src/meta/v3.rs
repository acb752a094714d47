//! Parses Zarr V3 metadata (`zarr.json`) into the model.

use std::sync::Arc;

use super::dtype::{DataType, Float, MAX_ELEMENT, TimeUnit};
use super::fill::{self, Dialect};
use super::finding::Findings;
use super::grid::Grid;
use super::json::Json;
use super::keys::ChunkKeys;
use super::path::{name_fault, normal};
use super::{ArrayMeta, CodecMeta, Documents, Format, GroupMeta, NodeMeta};
use crate::error::{Error, Result, invalid, unsupported};
use crate::num;

/// Reads a `zarr.json` document. Consolidated metadata are moved out, not copied.
pub fn node(mut document: Json, f: &mut Findings) -> Result<NodeMeta> {
    let consolidated = consolidated(&mut document, f)?;
    let mut node = shared(Arc::new(document), f)?;
    if let NodeMeta::Group(group) = &mut node {
        group.consolidated = consolidated;
    }
    Ok(node)
}

/// Reads a `zarr.json` document without consolidated metadata.
pub fn shared(document: Arc<Json>, f: &mut Findings) -> Result<NodeMeta> {
    let Json::Object(_) = *document else {
        return Err(invalid!("zarr.json must hold an object, not {}", document.kind()));
    };
    let format = need(&document, "zarr_format")?;
    if format.number_text() != Some("3") {
        return Err(invalid!("\"zarr_format\" must be 3, not {format}").with_field("zarr_format"));
    }
    match need(&document, "node_type")?.as_str() {
        Some("array") => array(document, f).map(NodeMeta::Array),
        Some("group") => group(document).map(NodeMeta::Group),
        _ => Err(Error::invalid("\"node_type\" must be \"array\" or \"group\"").with_field("node_type")),
    }
}

pub(super) fn need<'a>(document: &'a Json, name: &str) -> Result<&'a Json> {
    document.get(name).ok_or_else(|| invalid!("{name:?} is missing").with_field(name))
}

/// Fails on a member outside `known`, unless it has `"must_understand": false`.
fn refuse_unknown(document: &Json, known: &[&str]) -> Result<()> {
    for (name, value) in document.members().unwrap_or_default() {
        let excused = value.get("must_understand").and_then(Json::as_bool) == Some(false);
        if !known.contains(&name.as_str()) && !excused {
            return Err(unsupported!(
                "the field {name:?} is not known, and lacks \"must_understand\": false"
            )
            .with_field(name));
        }
    }
    Ok(())
}

fn attributes(document: &Json) -> Result<Arc<Json>> {
    match document.get("attributes") {
        None => Ok(Arc::new(Json::object())),
        Some(a @ Json::Object(_)) => Ok(Arc::new(a.clone())),
        Some(other) => {
            Err(invalid!("\"attributes\" must be an object, not {}", other.kind()).with_field("attributes"))
        }
    }
}

fn group(document: Arc<Json>) -> Result<GroupMeta> {
    refuse_unknown(&document, &["zarr_format", "node_type", "attributes", "consolidated_metadata"])?;
    Ok(GroupMeta { format: Format::V3, attributes: attributes(&document)?, consolidated: None, document })
}

/// Takes the consolidated metadata out of a group's document.
fn consolidated(document: &mut Json, f: &mut Findings) -> Result<Option<Documents>> {
    let field = "consolidated_metadata";
    if document.get("node_type").and_then(Json::as_str) != Some("group") {
        return Ok(None);
    }
    let Json::Object(members) = document else { return Ok(None) };
    let Some((_, value)) = members.iter_mut().find(|(n, _)| n == field) else { return Ok(None) };
    if *value == Json::Null {
        f.tolerated(
            "v3/consolidated-null",
            field,
            "must be an object, not null",
            "read as if it were not there",
        )?;
        return Ok(None);
    }
    if value.get("kind").and_then(Json::as_str) != Some("inline") {
        f.tolerated("v3/consolidated-kind", field, "\"kind\" must be \"inline\"", "not used")?;
        return Ok(None);
    }
    if value.get("must_understand").and_then(Json::as_bool) != Some(false) {
        let wrong = "\"must_understand\" must be false";
        f.tolerated("v3/consolidated-must-understand", field, wrong, "used all the same")?;
    }
    let Json::Object(inner) = value else { return Ok(None) };
    match inner.iter_mut().find(|(n, _)| n == "metadata") {
        Some((_, Json::Object(documents))) => {
            for (path, _) in documents.iter() {
                consolidated_path(path, f)?;
            }
            Ok(Some(std::mem::take(documents).into_iter().map(|(p, d)| (p, Arc::new(d))).collect()))
        }
        _ => {
            f.tolerated("v3/consolidated-metadata", field, "\"metadata\" must be an object", "not used")?;
            Ok(None)
        }
    }
}

/// Checks a path in consolidated metadata: relative to the group, without a leading slash.
fn consolidated_path(path: &str, f: &mut Findings) -> Result<()> {
    let Some(fault) = path.split('/').find_map(name_fault).filter(|_| !path.is_empty()) else {
        return Ok(());
    };
    let read = match normal(path) {
        Ok(path) => format!("read as {path:?}"),
        Err(_) => "not used".to_owned(),
    };
    let wrong = format!("{path:?} is not a node path relative to the group: {fault}");
    f.tolerated("v3/consolidated-path", "consolidated_metadata.metadata", &wrong, &read)
}

/// A name with a configuration: `{"name": …, "configuration": …}` or the bare name.
struct Extension<'a> {
    name: &'a str,
    configuration: &'a [(String, Json)],
    must_understand: bool,
}

impl<'a> Extension<'a> {
    fn read(value: &'a Json, field: &str) -> Result<Self> {
        let fault = |m: String| Error::invalid(m).with_field(field);
        if let Some(name) = value.as_str() {
            return Ok(Self { name, configuration: &[], must_understand: true });
        }
        let Json::Object(_) = value else {
            return Err(fault(format!("must be a name or an object with a name, not {}", value.kind())));
        };
        let name = value
            .get("name")
            .and_then(Json::as_str)
            .ok_or_else(|| fault("must be a name or an object with a \"name\"".into()))?;
        let configuration = match value.get("configuration") {
            None => &[][..],
            Some(Json::Object(members)) => members,
            Some(other) => {
                return Err(fault(format!("\"configuration\" must be an object, not {}", other.kind())));
            }
        };
        let must_understand = match value.get("must_understand") {
            None => true,
            Some(Json::Bool(b)) => *b,
            Some(other) => {
                return Err(fault(format!("\"must_understand\" must be true or false, not {other}")));
            }
        };
        Ok(Self { name, configuration, must_understand })
    }

    /// For data types, chunk grids and key encodings, which must be understood.
    fn mandatory(value: &'a Json, field: &str, f: &mut Findings) -> Result<Self> {
        let e = Self::read(value, field)?;
        if !e.must_understand {
            f.deviation("v3/must-understand", field, "\"must_understand\" may not be false here")?;
        }
        Ok(e)
    }

    fn get(&self, name: &str) -> Option<&'a Json> {
        self.configuration.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}

fn array(document: Arc<Json>, f: &mut Findings) -> Result<ArrayMeta> {
    for name in ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"] {
        need(&document, name)?;
    }
    let shape = extents(need(&document, "shape")?, "shape")?;
    let (data_type, legacy) = self::data_type(need(&document, "data_type")?, "data_type", f)?;
    let grid = grid(need(&document, "chunk_grid")?, &shape, f).map_err(|e| e.with_field("chunk_grid"))?;
    let keys = keys(need(&document, "chunk_key_encoding")?, f)?;
    let fill = match need(&document, "fill_value")? {
        value if legacy.base64 => fill::read_legacy(value, &data_type, f)?,
        value => fill::read(value, &data_type, Dialect::V3, f)?,
    };
    let mut codecs = codecs(need(&document, "codecs")?, "codecs")?;
    if legacy.little {
        little_by_default(&mut codecs);
    }
    transformers(&document, f)?;
    let dimension_names = dimension_names(&document, shape.len(), f)?;
    let attributes = attributes(&document)?;
    if document.get("consolidated_metadata") == Some(&Json::Null) {
        let field = "consolidated_metadata";
        f.tolerated("v3/consolidated-null", field, "is no member of an array", "null is read over")?;
    } else {
        refuse_unknown(
            &document,
            &[
                "zarr_format",
                "node_type",
                "shape",
                "data_type",
                "chunk_grid",
                "chunk_key_encoding",
                "fill_value",
                "codecs",
                "attributes",
                "storage_transformers",
                "dimension_names",
            ],
        )?;
    }
    Ok(ArrayMeta {
        format: Format::V3,
        shape,
        data_type,
        grid,
        keys,
        fill,
        fill_undefined: false,
        codecs,
        dimension_names,
        attributes,
        document,
    })
}

fn extents(value: &Json, field: &str) -> Result<Vec<u64>> {
    let items = value.items().ok_or_else(|| {
        invalid!("must be a list of non-negative integers, not {}", value.kind()).with_field(field)
    })?;
    items
        .iter()
        .map(|v| {
            v.as_u64().ok_or_else(|| {
                invalid!("must be a list of non-negative integers; {v} is not one").with_field(field)
            })
        })
        .collect()
}

fn grid(value: &Json, shape: &[u64], f: &mut Findings) -> Result<Grid> {
    let e = Extension::mandatory(value, "chunk_grid", f)?;
    match e.name {
        "regular" => {
            let chunk = e.get("chunk_shape").ok_or_else(|| Error::invalid("\"chunk_shape\" is missing"))?;
            let chunk = extents(chunk, "chunk_grid.configuration.chunk_shape")?;
            if chunk.len() != shape.len() {
                return Err(invalid!(
                    "\"chunk_shape\" has {} dimensions, but the array has {}",
                    chunk.len(),
                    shape.len()
                ));
            }
            Grid::regular(&chunk)
        }
        "rectilinear" => Grid::rectilinear(&Json::Object(e.configuration.to_vec()), shape),
        other => Err(unsupported!("the chunk grid {other:?} is not known")),
    }
}

/// Parses `chunk_key_encoding`.
pub(crate) fn keys(value: &Json, f: &mut Findings) -> Result<ChunkKeys> {
    let field = "chunk_key_encoding";
    let e = Extension::mandatory(value, field, f)?;
    let (prefixed, default) = match e.name {
        "default" => (true, '/'),
        "v2" => (false, '.'),
        other => {
            return Err(unsupported!("the chunk key encoding {other:?} is not known").with_field(field));
        }
    };
    let separator = match e.get("separator") {
        None => default,
        Some(s) => match s.as_str() {
            Some("/") => '/',
            Some(".") => '.',
            _ => {
                return Err(invalid!("\"separator\" must be \"/\" or \".\", not {s}").with_field(field));
            }
        },
    };
    Ok(ChunkKeys { prefixed, separator })
}

/// Reads a list of codecs.
pub fn codecs(value: &Json, field: &str) -> Result<Vec<CodecMeta>> {
    let items =
        value.items().ok_or_else(|| invalid!("must be a list, not {}", value.kind()).with_field(field))?;
    items
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let e = Extension::read(v, &format!("{field}[{i}]"))?;
            Ok(CodecMeta {
                name: e.name.to_owned(),
                configuration: e.configuration.to_vec(),
                must_understand: e.must_understand,
            })
        })
        .collect()
}

/// The `structured` type of zarr-python 3.1 was written with a `bytes` codec that names no byte order.
fn little_by_default(codecs: &mut [CodecMeta]) {
    for codec in codecs {
        if codec.name == "bytes" && !codec.configuration.iter().any(|(n, _)| n == "endian") {
            codec.configuration.push(("endian".into(), Json::string("little")));
        }
        if codec.name == "sharding_indexed"
            && let Some((_, Json::Array(inner))) = codec.configuration.iter_mut().find(|(n, _)| n == "codecs")
        {
            for c in inner.iter_mut().filter(|c| c.get("name").and_then(Json::as_str) == Some("bytes")) {
                if c.get("configuration").and_then(|c| c.get("endian")).is_none() {
                    c.set("configuration", Json::Object(vec![("endian".into(), Json::string("little"))]));
                }
            }
        }
    }
}

fn transformers(document: &Json, f: &mut Findings) -> Result<()> {
    let field = "storage_transformers";
    let list = match document.get(field) {
        None => return Ok(()),
        Some(Json::Null) => {
            return f.tolerated("v3/storage-transformers", field, "must be a list, not null", "read as none");
        }
        Some(list) => codecs(list, field)?,
    };
    match list.iter().find(|t| t.must_understand) {
        Some(t) => Err(unsupported!("the storage transformer {:?} is not known", t.name).with_field(field)),
        None => Ok(()),
    }
}

fn dimension_names(document: &Json, rank: usize, f: &mut Findings) -> Result<Option<Vec<Option<String>>>> {
    let field = "dimension_names";
    let fault = |m: String| Error::invalid(m).with_field(field);
    let items = match document.get(field) {
        None => return Ok(None),
        Some(Json::Null) => {
            f.tolerated("v3/dimension-names", field, "must be a list, not null", "read as no names")?;
            return Ok(None);
        }
        Some(Json::Array(items)) => items,
        Some(other) => return Err(fault(format!("must be a list, not {}", other.kind()))),
    };
    if items.len() != rank {
        return Err(fault(format!("names {} dimensions, but the array has {rank}", items.len())));
    }
    let names = items
        .iter()
        .map(|v| match v {
            Json::Null => Ok(None),
            Json::String(s) => Ok(Some(s.clone())),
            other => Err(fault(format!("a dimension name must be a string or null, not {other}"))),
        })
        .collect::<Result<_>>()?;
    Ok(Some(names))
}

/// Peculiarities of types that zarr-python had before they were registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Legacy {
    /// Numbers are little-endian by default: `structured`.
    pub little: bool,
    /// Fill values are base64: `structured` and `raw_bytes`, also as a field.
    pub base64: bool,
}

/// Reads a data type, and its legacy peculiarities.
pub fn data_type(value: &Json, field: &str, f: &mut Findings) -> Result<(DataType, Legacy)> {
    let e = Extension::mandatory(value, field, f)?;
    let fault = |m: String| Error::invalid(m).with_field(field);
    if let Some(t) = plain(e.name) {
        return Ok((t, Legacy::default()));
    }
    let length = |unit: u64| -> Result<usize> {
        let n = e
            .get("length_bytes")
            .and_then(Json::as_u64)
            .ok_or_else(|| fault(format!("{} needs an integer \"length_bytes\"", e.name)))?;
        match usize::try_from(n / unit) {
            Ok(0) if n == 0 => {
                Err(Error::unsupported("elements of no bytes are not supported").with_field(field))
            }
            Ok(len) if n % unit == 0 && n <= num::u64_of(MAX_ELEMENT) => Ok(len),
            _ => Err(fault(format!("\"length_bytes\" cannot be {n} for {}", e.name))),
        }
    };
    let t = match e.name {
        "fixed_length_utf32" => DataType::FixedUtf32(length(4)?),
        "null_terminated_bytes" => DataType::FixedBytes(length(1)?),
        "raw_bytes" => {
            return Ok((DataType::Raw(length(1)?), Legacy { base64: true, ..Legacy::default() }));
        }
        "numpy.datetime64" | "numpy.timedelta64" => {
            let unit = e
                .get("unit")
                .and_then(Json::as_str)
                .and_then(TimeUnit::parse)
                .ok_or_else(|| fault(format!("{} needs a \"unit\" such as \"ns\"", e.name)))?;
            let scale = match e.get("scale_factor") {
                None => {
                    f.tolerated("v3/time-scale", field, "\"scale_factor\" is missing", "read as 1")?;
                    1
                }
                Some(v) => v
                    .as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .filter(|n| (1..=0x7fff_ffff).contains(n))
                    .ok_or_else(|| fault(format!("\"scale_factor\" must be in 1..2^31-1, not {v}")))?,
            };
            if e.name == "numpy.datetime64" {
                DataType::DateTime(unit, scale)
            } else {
                DataType::TimeDelta(unit, scale)
            }
        }
        "struct" | "structured" => return structure(&e, field, f),
        name => match name.strip_prefix('r').and_then(|n| n.parse::<u64>().ok()) {
            Some(bits) if bits > 0 && bits % 8 == 0 && bits / 8 <= num::u64_of(MAX_ELEMENT) => {
                DataType::Raw(usize::try_from(bits / 8).unwrap_or(usize::MAX))
            }
            Some(bits) => return Err(fault(format!("r{bits} is not a whole number of bytes"))),
            None => {
                return Err(unsupported!("the data type {name:?} is not known").with_field(field));
            }
        },
    };
    Ok((t, Legacy::default()))
}

/// Types without a configuration.
pub(crate) fn plain(name: &str) -> Option<DataType> {
    let bits = |digits: &str| {
        let bits = digits.parse::<u8>().ok().filter(|n| matches!(n, 2 | 4 | 8 | 16 | 32 | 64))?;
        (bits.to_string() == digits).then_some(bits)
    };
    if let Some(bits) = name.strip_prefix("uint").and_then(bits) {
        return Some(DataType::UInt(bits));
    }
    if let Some(bits) = name.strip_prefix("int").and_then(bits) {
        return Some(DataType::Int(bits));
    }
    Some(match name {
        "bool" => DataType::Bool,
        "complex64" => DataType::Complex(Float::F32),
        "complex128" => DataType::Complex(Float::F64),
        "string" => DataType::String,
        "bytes" | "variable_length_bytes" | "binary" => DataType::Bytes,
        name => match name.strip_prefix("complex_") {
            Some(part) => DataType::Complex(Float::parse(part)?),
            None => DataType::Float(Float::parse(name)?),
        },
    })
}

fn structure(e: &Extension<'_>, field: &str, f: &mut Findings) -> Result<(DataType, Legacy)> {
    let fault = |m: String| Error::invalid(m).with_field(field);
    let items = e
        .get("fields")
        .and_then(Json::items)
        .filter(|items| !items.is_empty())
        .ok_or_else(|| fault(format!("{} needs a list of \"fields\"", e.name)))?;
    let mut fields: Vec<(String, DataType)> = Vec::new();
    let old = e.name == "structured";
    let mut legacy = Legacy { little: old, base64: old };
    for item in items {
        let (name, t) = match (item.items(), item) {
            (Some([name, t]), _) => {
                if !old {
                    f.deviation("v3/struct-fields", field, "a field must be an object, not a pair")?;
                }
                (name.as_str(), Some(t))
            }
            (_, Json::Object(_)) => (item.get("name").and_then(Json::as_str), item.get("data_type")),
            _ => (None, None),
        };
        let (Some(name), Some(t)) = (name, t) else {
            return Err(fault(format!("{item} is not a field: it needs a name and a data type")));
        };
        if fields.iter().any(|(n, _)| n == name) {
            return Err(fault(format!("the field {name:?} occurs twice")));
        }
        if name.is_empty() && !old {
            f.deviation("v3/struct-fields", field, "the name of a field must not be empty")?;
        }
        let (t, inner) = data_type(t, field, f)?;
        legacy.base64 |= inner.base64;
        if t.is_variable() {
            return Err(fault(format!("the field {name:?} has no fixed size")));
        }
        fields.push((name.to_owned(), t));
    }
    let total: usize = fields.iter().fold(0, |a, (_, t)| a.saturating_add(t.size()));
    if total > MAX_ELEMENT {
        return Err(fault("an element this large is not supported".into()));
    }
    Ok((DataType::structure(fields), legacy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn elements_have_bytes_but_not_absurdly_many() {
        for (name, n, good) in [
            ("raw_bytes", 0, false),
            ("null_terminated_bytes", 0, false),
            ("fixed_length_utf32", 0, false),
            ("fixed_length_utf32", 2, false),
            ("raw_bytes", 1, true),
            ("raw_bytes", (1 << 28) + 1, false),
            ("raw_bytes", u64::MAX, false),
        ] {
            let text = format!(r#"{{"name":"{name}","configuration":{{"length_bytes":{n}}}}}"#);
            let value = json(&text);
            let read = data_type(&value, "data_type", &mut Findings::default());
            assert_eq!(read.is_ok(), good, "{text}");
        }
    }
}
