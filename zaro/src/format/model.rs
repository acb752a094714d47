//! The version-free model of a node as JSON; `docs/book/meta-json.md` describes it.

use super::value::{self, Style};
use crate::group::Node;
use crate::meta::dtype::{DataType, StructField, TimeUnit};
use crate::meta::float;
use crate::meta::grid::ChunkAxis;
use crate::meta::json::Json;
use crate::meta::{ArrayMeta, CodecMeta, NodeMeta, path};

/// The full metadata of a node.
#[must_use]
pub fn node(node: &Node) -> Json {
    let mut out = head(node);
    match &node.meta {
        NodeMeta::Group(g) => out.set("attributes", (*g.attributes).clone()),
        NodeMeta::Array(a) => {
            out.set("shape", &a.shape);
            let inner = a.inner_chunks();
            match &inner {
                Some(shape) => out.set("chunk_shape", shape),
                None => match a.grid.regular_shape() {
                    Some(shape) => out.set("chunk_shape", &shape),
                    None => out.set("chunk_shapes", varying(a)),
                },
            }
            if inner.is_some() {
                match a.grid.regular_shape() {
                    Some(shape) => out.set("shard_shape", &shape),
                    None => out.set("shard_shapes", varying(a)),
                }
            }
            out.set("data_type", data_type(&a.data_type));
            out.set("fill_value", fill(a));
            out.set("codecs", a.codecs.iter().map(codec).collect::<Json>());
            out.set("dimension_names", a.dimension_names.as_deref());
            out.set("chunk_key_encoding", keys(a));
            out.set("attributes", (*a.attributes).clone());
        }
    }
    out
}

/// The short form of a node for listings.
#[must_use]
pub fn summary(node: &Node) -> Json {
    let mut out = head(node);
    if let NodeMeta::Array(a) = &node.meta {
        out.set("shape", &a.shape);
        out.set("data_type", data_type(&a.data_type));
    }
    out
}

fn head(node: &Node) -> Json {
    Json::from([
        ("path", path::shown(&node.path).into()),
        ("kind", node.meta.kind().into()),
        ("zarr_format", node.meta.format().number().into()),
    ])
}

/// For each dimension: the length of every chunk, or one number if they are equal. Long runs of equal chunks are
/// `[length, count]`, as in the metadata.
fn varying(a: &ArrayMeta) -> Json {
    let axis = |axis: &ChunkAxis| match axis {
        ChunkAxis::Regular(n) => Json::int(n),
        ChunkAxis::Varying(runs) => {
            let mut lengths = Vec::new();
            for run in runs.iter() {
                match run.count {
                    n @ ..=16 => lengths.extend((0..n).map(|_| Json::int(run.length))),
                    n => lengths.push([run.length, n].as_slice().into()),
                }
            }
            Json::Array(lengths)
        }
    };
    a.grid.axes().iter().map(axis).collect()
}

fn codec(c: &CodecMeta) -> Json {
    let mut out = Json::from([("name", c.name.as_str().into())]);
    if !c.configuration.is_empty() {
        out.set("configuration", Json::Object(c.configuration.clone()));
    }
    if !c.must_understand {
        out.set("must_understand", Json::Bool(false));
    }
    out
}

fn keys(a: &ArrayMeta) -> Json {
    let separator = Json::from([("separator", a.keys.separator.to_string().into())]);
    Json::from([("name", a.keys.name().into()), ("configuration", separator)])
}

/// The fill value as `value` writes an element; a NaN with a payload as its bits. Null if a V2 document has null: then
/// missing elements are undefined, though they read as zero.
#[must_use]
pub fn fill(a: &ArrayMeta) -> Json {
    if a.fill_undefined {
        return Json::Null;
    }
    let bytes = &a.fill.0;
    if let DataType::Float(f) = a.data_type
        && let Some(bits) = value::unsigned(bytes)
        && float::to_f64(f, bits).is_nan()
        && float::canonical_nan(f) != Some(bits)
    {
        return Json::string(format!("0x{bits:0width$x}", width = 2 * f.size()));
    }
    let text = value::text_of(&a.data_type, bytes, Style::JSON);
    Json::parse(text.as_bytes()).map_or(Json::Null, |d| d.value)
}

/// The type as V3 writes it: a name, or a name with a configuration.
#[must_use]
pub(crate) fn data_type(t: &DataType) -> Json {
    let named = |name: &str, configuration: Json| {
        Json::from([("name", name.into()), ("configuration", configuration)])
    };
    let bytes = |name: &str, n: usize| named(name, Json::from([("length_bytes", n.into())]));
    let time = |name: &str, unit: TimeUnit, scale: u32| {
        named(name, Json::from([("unit", unit.name().into()), ("scale_factor", scale.into())]))
    };
    match t {
        DataType::FixedBytes(n) => bytes("null_terminated_bytes", *n),
        DataType::FixedUtf32(n) => bytes("fixed_length_utf32", n.saturating_mul(4)),
        DataType::DateTime(unit, scale) => time("numpy.datetime64", *unit, *scale),
        DataType::TimeDelta(unit, scale) => time("numpy.timedelta64", *unit, *scale),
        DataType::Struct(fields) => {
            let field = |f: &StructField| {
                Json::from([("name", (&f.name).into()), ("data_type", data_type(&f.data_type))])
            };
            named("struct", Json::from([("fields", fields.iter().map(field).collect())]))
        }
        DataType::SubArray(inner, shape) => {
            named("subarray", Json::from([("data_type", data_type(inner)), ("shape", shape.as_ref().into())]))
        }
        DataType::List(inner) => named("list", Json::from([("data_type", data_type(inner))])),
        plain => plain.to_string().into(),
    }
}
