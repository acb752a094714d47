//! Writes `.zarray`, `.zgroup` and `.zattrs`: the inverse of [`meta::v2`](crate::meta::v2).

use crate::error::{Error, Result};
use crate::meta::dtype::{DataType, Endian};
use crate::meta::fill::{Dialect, Fill};
use crate::meta::json::Json;
use crate::meta::typestr::{self, TypeStr};
use crate::meta::{ArrayMeta, CodecMeta, GroupMeta, v2};

use super::{Stored, lawful};

/// The known members of `.zarray`.
const KNOWN: [&str; 9] = [
    "zarr_format",
    "shape",
    "chunks",
    "dtype",
    "compressor",
    "fill_value",
    "order",
    "filters",
    "dimension_separator",
];

/// Codecs that belong under `compressor`, if one of them comes last.
const COMPRESSORS: [&str; 10] =
    ["blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma", "pcodec", "zfpy", "deflate"];

pub(super) fn array(meta: &ArrayMeta) -> Result<Stored> {
    let fault = |field: &str, m: String| Error::unsupported(m).with_field(field);
    let old = &*meta.document;
    let (fortran, order, steps) = chain(meta)?;
    let Some(chunks) = meta.grid.regular_shape() else {
        return Err(fault("chunks", "V2 has no chunks of different shapes".into()));
    };
    if meta.keys.prefixed {
        return Err(fault("dimension_separator", "V2 has no keys that begin with \"c\"".into()));
    }
    let dtype = match &order.data_type {
        None => Json::string("|O"),
        Some(t) => typestr::write_as(t, &order)
            .ok_or_else(|| fault("dtype", format!("V2 has no data type for {t}")))?,
    };
    let (filters, compressor) = split(&steps, old);
    // One dimension, or none, is the same in both orders; then a document keeps its word.
    let word = old.get("order").filter(|_| meta.shape.len() < 2).and_then(Json::as_str);
    let word = if fortran || word == Some("F") { "F" } else { "C" };
    let mut document = Json::from([
        ("zarr_format", Json::int(2)),
        ("shape", Json::from(&meta.shape)),
        ("chunks", Json::from(&chunks)),
        ("dtype", dtype),
        ("compressor", compressor),
        ("fill_value", fill(meta, &order)?),
        ("order", Json::string(word)),
        ("filters", filters),
        ("dimension_separator", Json::string(meta.keys.separator)),
    ]);
    if old.get("zarr_format").and_then(Json::as_u64) == Some(2) {
        for (name, value) in old.members().unwrap_or_default() {
            if !KNOWN.contains(&name.as_str()) {
                document.set(name, lawful(value));
            }
        }
    }
    let mut attributes = Json::clone(&meta.attributes);
    if v2::dimension_names(&attributes, &document, meta.shape.len()) != meta.dimension_names {
        match &meta.dimension_names {
            Some(names) => {
                let name = |n: &Option<String>| n.as_ref().map_or(Json::Null, |n| Json::string(n.as_str()));
                attributes.set("_ARRAY_DIMENSIONS", Json::Array(names.iter().map(name).collect()));
            }
            None => attributes.remove("_ARRAY_DIMENSIONS"),
        }
    }
    Ok(vec![(".zarray", document), (".zattrs", attributes)])
}

pub(super) fn group(meta: &GroupMeta) -> Stored {
    let mut document = Json::from([("zarr_format", Json::int(2))]);
    for (name, value) in meta.document.members().unwrap_or_default() {
        // V2 has one place for the documents of other nodes, and that is `.zmetadata`.
        if name != "zarr_format" && name != "consolidated_metadata" {
            document.set(name, lawful(value));
        }
    }
    vec![(".zgroup", document), (".zattrs", Json::clone(&meta.attributes))]
}

/// Whether chunks are column-major, the type with its byte order, and the filters and compressors.
fn chain(meta: &ArrayMeta) -> Result<(bool, TypeStr, Vec<CodecMeta>)> {
    let fault = |m: String| Error::unsupported(m).with_field("codecs");
    let mut rest = meta.codecs.as_slice();
    let mut fortran = false;
    if let Some((first, after)) = rest.split_first()
        && first.name == "transpose"
    {
        let order = Json::Array((0..meta.shape.len()).rev().map(Json::int).collect());
        if first.get("order") != Some(&order) {
            return Err(fault("V2 knows the orders C and F, and no other transposition".into()));
        }
        (fortran, rest) = (true, after);
    }
    let data_type = (!meta.data_type.is_variable()).then(|| meta.data_type.clone());
    let mut order = TypeStr { data_type, endian: Some(Endian::Little), mixed: Vec::new() };
    match rest.split_first() {
        Some((bytes, after)) if bytes.name == "bytes" => {
            rest = after;
            if bytes.get("endian").and_then(Json::as_str) == Some("big") {
                order.endian = Some(Endian::Big);
            }
            if let Some(mixed) = bytes.get("mixed").and_then(Json::items) {
                order.mixed = mixed.iter().map(|b| b.as_bool() == Some(true)).collect();
            }
        }
        // A codec that takes values does not say in which order they once were; the old document does.
        _ => {
            let old = meta.document.get("dtype").and_then(|t| typestr::parse(t).ok());
            if let Some(old) = old.filter(|old| old.data_type == order.data_type) {
                order = old;
            }
        }
    }
    match rest.iter().find(|c| !c.name.starts_with("v2.")) {
        Some(foreign) => Err(fault(format!("{:?} is not a codec of V2", foreign.name))),
        None => Ok((fortran, order, rest.to_vec())),
    }
}

fn step(codec: &CodecMeta) -> Json {
    let id = codec.name.strip_prefix("v2.").unwrap_or(&codec.name);
    let mut out = Json::from([("id", Json::string(id))]);
    for (name, value) in &codec.configuration {
        out.set(name, lawful(value));
    }
    out
}

/// `filters` and `compressor`, split as in the old document if that has the same steps.
fn split(steps: &[CodecMeta], old: &Json) -> (Json, Json) {
    let all: Vec<Json> = steps.iter().map(step).collect();
    let compressor = old.get("compressor").filter(|c| **c != Json::Null);
    let filters = old.get("filters").and_then(Json::items).unwrap_or_default();
    let same = filters.iter().chain(compressor).map(lawful).eq(all.iter().cloned());
    let last_compresses = if same && !all.is_empty() {
        compressor.is_some()
    } else {
        steps.last().is_some_and(|s| COMPRESSORS.iter().any(|id| s.name.strip_prefix("v2.") == Some(id)))
    };
    match all.split_last() {
        None => (Json::Null, Json::Null),
        Some((last, [])) if last_compresses => (Json::Null, last.clone()),
        Some((last, before)) if last_compresses => (Json::Array(before.to_vec()), last.clone()),
        Some(_) => (Json::Array(all), Json::Null),
    }
}

fn fill(meta: &ArrayMeta, order: &TypeStr) -> Result<Json> {
    if meta.fill_undefined && meta.fill == Fill::undefined(&meta.data_type) {
        return Ok(Json::Null);
    }
    if let DataType::Struct(_) = meta.data_type {
        let mut bytes = meta.fill.0.to_vec();
        order.swap(&mut bytes);
        return Ok(super::fill::base64(&bytes));
    }
    super::fill::write(&meta.fill, &meta.data_type, Dialect::V2)
}
