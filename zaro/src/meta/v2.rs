//! Parses Zarr V2 metadata (`.zarray`, `.zgroup`, `.zattrs`) into the model.
//!
//! V2 is lowered to V3's terms here and nowhere else:
//!
//! | V2 | becomes |
//! |---|---|
//! | `dtype` | the data type, and a `bytes` codec with its byte order |
//! | `order: "F"` | a `transpose` codec that reverses the dimensions |
//! | `filters`, then `compressor` | `v2.<id>` codecs after `bytes` |
//! | an object codec (`vlen-utf8`, `json2`, …) | the array-to-bytes codec, in the place of `bytes`; it decides the type |
//! | `dimension_separator` | the `v2` key encoding |
//! | `_ARRAY_DIMENSIONS` in `.zattrs` | dimension names |

use std::sync::Arc;

use super::dtype::{DataType, Endian, TimeUnit};
use super::fill::{self, Dialect};
use super::finding::Findings;
use super::grid::Grid;
use super::json::Json;
use super::keys::ChunkKeys;
use super::typestr::{self, TypeStr};
use super::v3::need;
use super::{ArrayMeta, CodecMeta, Format, GroupMeta};
use crate::error::{Error, Result, invalid, unsupported};

/// Codecs that turn values, not bytes, into bytes.
pub(super) const ARRAY_TO_BYTES: [&str; 10] = [
    "vlen-utf8",
    "vlen-bytes",
    "vlen-array",
    "json2",
    "json",
    "msgpack2",
    "msgpack",
    "pickle",
    "categorize",
    "zfpy",
];

/// Reads a group from `.zgroup` and `.zattrs`.
pub fn group(document: Arc<Json>, attributes: Option<Arc<Json>>, f: &mut Findings) -> Result<GroupMeta> {
    format(&document, f)?;
    let attributes = self::attributes(attributes, f)?;
    Ok(GroupMeta { format: Format::V2, attributes, consolidated: None, document })
}

/// Reads an array from `.zarray` and `.zattrs`.
pub fn array(document: Arc<Json>, attributes: Option<Arc<Json>>, f: &mut Findings) -> Result<ArrayMeta> {
    format(&document, f)?;
    let shape = extents(&document, "shape")?;
    let chunks = extents(&document, "chunks")?;
    if chunks.len() != shape.len() {
        return Err(
            invalid!("{} dimensions, the array has {}", chunks.len(), shape.len()).with_field("chunks")
        );
    }
    // zarr-python 2 wrote chunks of 0 for empty dimensions; there are no chunks to read then.
    let zero_ok: Vec<u64> =
        chunks.iter().zip(&shape).map(|(c, n)| if *n == 0 { (*c).max(1) } else { *c }).collect();
    let grid = Grid::regular(&zero_ok).map_err(|e| e.with_field("chunks"))?;
    let order = order(&document, f)?;
    let separator = match document.get("dimension_separator") {
        None => '.',
        Some(Json::Null) => {
            f.tolerated(
                "v2/separator",
                "dimension_separator",
                "must be \".\" or \"/\", not null",
                "read as \".\"",
            )?;
            '.'
        }
        Some(s) => match s.as_str() {
            Some(".") => '.',
            Some("/") => '/',
            _ => {
                return Err(invalid!("must be \".\" or \"/\", not {s}").with_field("dimension_separator"));
            }
        },
    };
    let steps = steps(&document, f)?;
    let dtype = typestr::parse(need(&document, "dtype")?).map_err(|e| e.with_field("dtype"))?;
    if let Some(DataType::DateTime(TimeUnit::Generic, _) | DataType::TimeDelta(TimeUnit::Generic, _)) =
        dtype.data_type
    {
        f.deviation("v2/time-unit", "dtype", "a time needs a unit, such as [ns]")?;
    }
    let (data_type, codecs) = lower(&dtype, &steps, order, shape.len())?;
    let fill_undefined = matches!(document.get("fill_value"), None | Some(Json::Null));
    let fill = match document.get("fill_value") {
        Some(v @ Json::String(_)) if matches!(data_type, DataType::Struct(_)) => {
            // The bytes of an element as it is stored, each field in its own order.
            let mut bytes = fill::read(v, &data_type, Dialect::V2, f)?.0.to_vec();
            dtype.swap(&mut bytes);
            fill::Fill(bytes.into())
        }
        Some(v) => fill::read(v, &data_type, Dialect::V2, f)?,
        None => {
            f.tolerated("v2/fill-value", "fill_value", "\"fill_value\" is missing", "read as null")?;
            fill::Fill::undefined(&data_type)
        }
    };
    let attributes = self::attributes(attributes, f)?;
    let dimension_names = dimension_names(&attributes, &document, shape.len());
    Ok(ArrayMeta {
        format: Format::V2,
        shape,
        data_type,
        grid,
        keys: ChunkKeys { prefixed: false, separator },
        fill,
        fill_undefined,
        codecs,
        dimension_names,
        attributes,
        document,
    })
}

fn format(document: &Json, f: &mut Findings) -> Result<()> {
    let Json::Object(_) = document else {
        return Err(invalid!("must hold an object, not {}", document.kind()));
    };
    match document.get("zarr_format") {
        None => f.deviation("v2/zarr-format", "zarr_format", "\"zarr_format\" is missing"),
        Some(v) if v.number_text() == Some("2") => Ok(()),
        Some(v) => Err(invalid!("must be 2, not {v}").with_field("zarr_format")),
    }
}

fn extents(document: &Json, name: &str) -> Result<Vec<u64>> {
    let value = need(document, name)?;
    value
        .items()
        .and_then(|items| items.iter().map(Json::as_u64).collect())
        .ok_or_else(|| invalid!("must be a list of non-negative integers, not {value}").with_field(name))
}

fn attributes(value: Option<Arc<Json>>, f: &mut Findings) -> Result<Arc<Json>> {
    match value {
        None => Ok(Arc::new(Json::object())),
        Some(a) if matches!(*a, Json::Object(_)) => Ok(a),
        Some(other) => {
            f.deviation("v2/attributes", ".zattrs", format!("must hold an object, not {}", other.kind()))?;
            Ok(Arc::new(Json::object()))
        }
    }
}

/// Whether chunks are in column-major order.
fn order(document: &Json, f: &mut Findings) -> Result<bool> {
    match document.get("order") {
        None => {
            f.tolerated("v2/order", "order", "\"order\" is missing", "read as \"C\"")?;
            Ok(false)
        }
        Some(v) => match v.as_str() {
            Some("C") => Ok(false),
            Some("F") => Ok(true),
            _ => Err(invalid!("must be \"C\" or \"F\", not {v}").with_field("order")),
        },
    }
}

/// The filters and the compressor, in encoding order.
fn steps(document: &Json, f: &mut Findings) -> Result<Vec<CodecMeta>> {
    let mut steps = Vec::new();
    match document.get("filters") {
        None => f.tolerated("v2/filters", "filters", "\"filters\" is missing", "read as null")?,
        Some(Json::Null) => {}
        Some(Json::Array(items)) => {
            for item in items {
                steps.push(step(item, "filters")?);
            }
        }
        Some(other) => {
            return Err(invalid!("must be a list or null, not {other}").with_field("filters"));
        }
    }
    match document.get("compressor") {
        None => f.tolerated("v2/compressor", "compressor", "\"compressor\" is missing", "read as null")?,
        Some(Json::Null) => {}
        Some(value) => steps.push(step(value, "compressor")?),
    }
    Ok(steps)
}

fn step(value: &Json, field: &str) -> Result<CodecMeta> {
    let id = value
        .get("id")
        .and_then(Json::as_str)
        .ok_or_else(|| invalid!("{value} is not a codec: it has no \"id\"").with_field(field))?;
    let configuration =
        value.members().unwrap_or_default().iter().filter(|(n, _)| n != "id").cloned().collect();
    Ok(CodecMeta::new(format!("v2.{id}"), configuration))
}

fn id(step: &CodecMeta) -> &str {
    step.name.strip_prefix("v2.").unwrap_or(&step.name)
}

/// The data type and the whole codec chain.
fn lower(
    dtype: &TypeStr,
    steps: &[CodecMeta],
    fortran: bool,
    rank: usize,
) -> Result<(DataType, Vec<CodecMeta>)> {
    let mut codecs = Vec::new();
    if fortran && rank > 1 {
        let order = (0..rank).rev().map(Json::int).collect();
        codecs.push(CodecMeta::new("transpose", vec![("order".into(), Json::Array(order))]));
    }
    let data_type = match &dtype.data_type {
        Some(t) => t.clone(),
        None => object_type(steps)?,
    };
    // Typed filters may stand before the codec that turns values into bytes only as values; in V2 they are bytes.
    if !steps.first().is_some_and(|s| ARRAY_TO_BYTES.contains(&id(s))) {
        let mut configuration = Vec::new();
        if dtype.mixed.is_empty() {
            let word = if dtype.endian == Some(Endian::Big) { "big" } else { "little" };
            configuration.push(("endian".to_owned(), Json::string(word)));
        } else {
            let mixed = dtype.mixed.iter().map(|b| Json::Bool(*b)).collect();
            configuration.push(("mixed".to_owned(), Json::Array(mixed)));
        }
        codecs.push(CodecMeta::new("bytes", configuration));
    }
    codecs.extend(steps.iter().cloned());
    Ok((data_type, codecs))
}

/// The type of an object array: its first codec decides.
fn object_type(steps: &[CodecMeta]) -> Result<DataType> {
    let Some(first) = steps.first() else {
        return Err(
            Error::invalid("an array of objects needs a codec that encodes objects").with_field("filters")
        );
    };
    match id(first) {
        "vlen-utf8" | "categorize" => Ok(DataType::String),
        "vlen-bytes" => Ok(DataType::Bytes),
        "json2" | "json" | "msgpack2" | "msgpack" => Ok(DataType::Json),
        "vlen-array" => {
            let needed = || Error::invalid("vlen-array needs a \"dtype\"").with_field("filters");
            let dtype = first.get("dtype").ok_or_else(needed)?;
            match typestr::parse(dtype)?.data_type {
                Some(t) => Ok(DataType::List(Arc::new(t))),
                None => Err(Error::unsupported("lists of objects are not supported").with_field("filters")),
            }
        }
        "pickle" => {
            Err(Error::unsupported("pickles can run arbitrary code and are never read").with_field("filters"))
        }
        other @ ("fill_hdf_strings" | "FITSVarBintable") => {
            Err(unsupported!("kerchunk's codec {other:?} is not supported").with_field("filters"))
        }
        other => {
            Err(invalid!("an array of objects cannot begin with the codec {other:?}").with_field("filters"))
        }
    }
}

/// Dimension names as xarray and netCDF write them.
pub(super) fn dimension_names(
    attributes: &Json,
    document: &Json,
    rank: usize,
) -> Option<Vec<Option<String>>> {
    if let Some(xarray) = attributes.get("_ARRAY_DIMENSIONS") {
        let names = xarray.items()?.iter().map(|v| v.as_str().map(str::to_owned));
        return (names.len() == rank).then(|| names.collect());
    }
    let netcdf = ["_nczarr_array", "_NCZARR_ARRAY"]
        .iter()
        .find_map(|n| attributes.get(n).or_else(|| document.get(n)))
        .and_then(|a| a.get("dimension_references").or_else(|| a.get("dimrefs")));
    // These are paths of dimensions.
    let name = |v: &Json| v.as_str().map(|s| s.rsplit('/').next().unwrap_or(s).to_owned());
    let names: Vec<Option<String>> = netcdf?.items()?.iter().map(name).collect();
    (names.len() == rank).then_some(names)
}
