//! Writes `zarr.json`.

use crate::error::{Error, Result, unsupported};
use crate::meta::dtype::DataType;
use crate::meta::fill::Dialect;
use crate::meta::grid::{ChunkAxis, Grid};
use crate::meta::json::Json;
use crate::meta::{ArrayMeta, CodecMeta, GroupMeta, v3};

use super::{lawful, lawful_node};

/// `{"name": …, "configuration": …}`
fn extension(name: &str, configuration: Json) -> Json {
    Json::from([("name", Json::string(name)), ("configuration", configuration)])
}

pub(super) fn array(meta: &ArrayMeta) -> Result<Json> {
    let keys = Json::from([("separator", Json::string(meta.keys.separator))]);
    let codecs = canonical(&meta.codecs, meta.shape.len())?;
    let mut data_type = self::data_type(&meta.data_type)?;
    let mut fill = super::fill::write(&meta.fill, &meta.data_type, Dialect::V3)?;
    if let (DataType::Raw(_), Some(name)) = (&meta.data_type, old_name(&meta.document))
        && name == meta.data_type.to_string()
    {
        data_type = Json::string(name);
        fill = Json::Array(meta.fill.0.iter().map(Json::int).collect());
    }
    let mut document = Json::from([
        ("zarr_format", Json::int(3)),
        ("node_type", Json::string("array")),
        ("shape", Json::from(&meta.shape)),
        ("data_type", data_type),
        ("chunk_grid", grid(&meta.grid)),
        ("chunk_key_encoding", extension(meta.keys.name(), keys)),
        ("fill_value", fill),
        ("codecs", self::codecs(&codecs)),
        ("attributes", Json::clone(&meta.attributes)),
    ]);
    if let Some(names) = &meta.dimension_names {
        let name = |n: &Option<String>| n.as_ref().map_or(Json::Null, |n| Json::string(n.as_str()));
        document.set("dimension_names", Json::Array(names.iter().map(name).collect()));
    }
    // Transformers that were read over may be ignored; what they say is kept all the same.
    if let Some(list) = meta.document.get("storage_transformers").and_then(Json::items)
        && !list.is_empty()
    {
        document.set("storage_transformers", lawful(&Json::Array(list.to_vec())));
    }
    keep(&mut document, &meta.document);
    Ok(document)
}

pub(super) fn group(meta: &GroupMeta) -> Json {
    let mut document = Json::from([
        ("zarr_format", Json::int(3)),
        ("node_type", Json::string("group")),
        ("attributes", Json::clone(&meta.attributes)),
    ]);
    if let Some(below) = &meta.consolidated {
        let documents = below.iter().map(|(p, d)| (p.clone(), lawful_node(d))).collect();
        document.set("consolidated_metadata", super::super::consolidate::inline(documents));
    }
    keep(&mut document, &meta.document);
    document
}

/// Adds the unknown members of `old` that a reader may ignore, so that they are not lost.
fn keep(document: &mut Json, old: &Json) {
    for (name, value) in old.members().unwrap_or_default() {
        let excused = value.get("must_understand").and_then(Json::as_bool) == Some(false);
        if excused && name != "consolidated_metadata" && document.get(name).is_none() {
            document.set(name, lawful(value));
        }
    }
}

fn grid(grid: &Grid) -> Json {
    if let Some(shape) = grid.regular_shape() {
        return extension("regular", Json::from([("chunk_shape", Json::from(&shape))]));
    }
    let axis = |axis: &ChunkAxis| match axis {
        ChunkAxis::Regular(n) => Json::int(n),
        ChunkAxis::Varying(runs) => Json::Array(
            runs.iter()
                .map(|r| if r.count == 1 { Json::int(r.length) } else { vec![r.length, r.count].into() })
                .collect(),
        ),
    };
    let shapes = Json::Array(grid.axes().iter().map(axis).collect());
    extension("rectilinear", Json::from([("kind", Json::string("inline")), ("chunk_shapes", shapes)]))
}

/// The name of the data type in a document.
fn old_name(document: &Json) -> Option<&str> {
    let t = document.get("data_type")?;
    t.as_str().or_else(|| t.get("name")?.as_str())
}

/// A data type: core types and others without a configuration by their name, the rest as objects.
pub(super) fn data_type(t: &DataType) -> Result<Json> {
    let time = |name, unit: crate::meta::dtype::TimeUnit, scale: u32| {
        let configuration = [("unit", Json::string(unit.name())), ("scale_factor", Json::int(scale))];
        extension(name, Json::from(configuration))
    };
    let bytes = |name, n: usize| extension(name, Json::from([("length_bytes", Json::int(n))]));
    Ok(match t {
        // The text has `r<bits>`, which zarr-python and tensorstore do not read as it stands there; this they do.
        DataType::Raw(n) => bytes("raw_bytes", *n),
        DataType::FixedBytes(n) => bytes("null_terminated_bytes", *n),
        DataType::FixedUtf32(n) => bytes("fixed_length_utf32", n.saturating_mul(4)),
        DataType::DateTime(unit, scale) => time("numpy.datetime64", *unit, *scale),
        DataType::TimeDelta(unit, scale) => time("numpy.timedelta64", *unit, *scale),
        DataType::Struct(fields) => {
            let field = |f: &crate::meta::dtype::StructField| {
                let t = data_type(&f.data_type)?;
                Ok(Json::from([("name", Json::string(f.name.as_str())), ("data_type", t)]))
            };
            let fields = fields.iter().map(field).collect::<Result<_>>()?;
            extension("struct", Json::from([("fields", Json::Array(fields))]))
        }
        DataType::SubArray(..) | DataType::Json | DataType::List(_) => {
            return Err(unsupported!("V3 has no data type for {t}").with_field("data_type"));
        }
        // The rest are named as they are shown.
        plain => Json::string(plain.to_string()),
    })
}

pub(crate) fn codecs(chain: &[CodecMeta]) -> Json {
    Json::Array(chain.iter().map(codec).collect())
}

fn codec(codec: &CodecMeta) -> Json {
    let mut out = Json::from([("name", Json::string(codec.name.as_str()))]);
    // zarr-python wants a configuration of `numcodecs.*`, be it empty, and writes none for `crc32c` and `bytes`.
    if !codec.configuration.is_empty() || codec.name.starts_with("numcodecs.") {
        out.set("configuration", Json::Object(codec.configuration.clone()));
    }
    if !codec.must_understand {
        out.set("must_understand", Json::Bool(false));
    }
    out
}

/// The chain in its full form: chains inside codecs without short-hand names, transpositions as permutations.
pub(super) fn canonical(chain: &[CodecMeta], rank: usize) -> Result<Vec<CodecMeta>> {
    chain.iter().map(|c| full(c, rank)).collect()
}

fn full(codec: &CodecMeta, rank: usize) -> Result<CodecMeta> {
    let mixed = codec.name == "bytes" && codec.configuration.iter().any(|(n, _)| n == "mixed");
    if mixed || codec.name.starts_with("v2.") {
        return Err(Error::unsupported(match codec.name.strip_prefix("v2.") {
            Some(id) => format!("{id:?} is a codec of V2"),
            None => "V3 cannot mix byte orders in one element".to_owned(),
        })
        .with_field("codecs"));
    }
    let mut out = codec.clone();
    for (name, value) in &mut out.configuration {
        match (codec.name.as_str(), name.as_str()) {
            ("sharding_indexed", "codecs" | "index_codecs") | ("n5_default", "codecs") => {
                *value = codecs(&canonical(&v3::codecs(value, "codecs")?, rank)?);
            }
            ("transpose", "order") => match value.as_str() {
                Some("C") => *value = Json::Array((0..rank).map(Json::int).collect()),
                Some("F") => *value = Json::Array((0..rank).rev().map(Json::int).collect()),
                _ => {}
            },
            _ => *value = lawful(value),
        }
    }
    Ok(out)
}
