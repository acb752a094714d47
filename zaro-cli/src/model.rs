//! The version-free model of a node as JSON; `docs/book/meta-json.md` describes it for users.

use zaro::Node;
use zaro::meta::dtype::DataType;
use zaro::meta::float;
use zaro::meta::grid::Axis;
use zaro::meta::json::Json;
use zaro::meta::{ArrayMeta, CodecMeta, NodeMeta, path};

use crate::value::{self, Style};

/// Everything `zaro meta --json` says of a node.
pub(crate) fn node(node: &Node) -> Json {
    let mut out = head(node);
    match &node.meta {
        NodeMeta::Group(g) => out.set("attributes", (*g.attributes).clone()),
        NodeMeta::Array(a) => {
            out.set("shape", numbers(&a.shape));
            let inner = a.inner_chunks();
            match &inner {
                Some(shape) => out.set("chunk_shape", numbers(shape)),
                None => match a.grid.regular_shape() {
                    Some(shape) => out.set("chunk_shape", numbers(&shape)),
                    None => out.set("chunk_shapes", varying(a)),
                },
            }
            if inner.is_some() {
                match a.grid.regular_shape() {
                    Some(shape) => out.set("shard_shape", numbers(&shape)),
                    None => out.set("shard_shapes", varying(a)),
                }
            }
            out.set("data_type", data_type(&a.data_type));
            out.set("fill_value", fill(a));
            out.set("codecs", Json::Array(a.codecs.iter().map(codec).collect()));
            out.set("dimension_names", dimension_names(a));
            out.set("chunk_key_encoding", keys(a));
            out.set("attributes", (*a.attributes).clone());
        }
    }
    out
}

/// What `zaro list --json` says of a node.
pub(crate) fn summary(node: &Node) -> Json {
    let mut out = head(node);
    if let NodeMeta::Array(a) = &node.meta {
        out.set("shape", numbers(&a.shape));
        out.set("data_type", data_type(&a.data_type));
    }
    out
}

fn head(node: &Node) -> Json {
    let mut out = Json::object();
    out.set("path", Json::string(path::shown(&node.path)));
    out.set("kind", Json::string(node.meta.kind()));
    out.set("zarr_format", Json::int(node.meta.format().number()));
    out
}

fn numbers(list: &[u64]) -> Json {
    Json::Array(list.iter().map(Json::int).collect())
}

/// For each dimension: the length of every chunk, or one number if they are equal. Long runs of equal chunks are
/// `[length, count]`, as the metadata have them.
fn varying(a: &ArrayMeta) -> Json {
    let axis = |axis: &Axis| match axis {
        Axis::Regular(n) => Json::int(n),
        Axis::Varying(runs) => {
            let mut lengths = Vec::new();
            for run in runs.iter() {
                match run.count {
                    n @ ..=16 => lengths.extend((0..n).map(|_| Json::int(run.length))),
                    n => lengths.push(numbers(&[run.length, n])),
                }
            }
            Json::Array(lengths)
        }
    };
    Json::Array(a.grid.axes().iter().map(axis).collect())
}

fn codec(c: &CodecMeta) -> Json {
    let mut out = Json::object();
    out.set("name", Json::string(c.name.as_str()));
    if !c.configuration.is_empty() {
        out.set("configuration", Json::Object(c.configuration.clone()));
    }
    if !c.must_understand {
        out.set("must_understand", Json::Bool(false));
    }
    out
}

fn dimension_names(a: &ArrayMeta) -> Json {
    match &a.dimension_names {
        None => Json::Null,
        Some(names) => Json::Array(
            names.iter().map(|n| n.as_ref().map_or(Json::Null, |n| Json::string(n.as_str()))).collect(),
        ),
    }
}

fn keys(a: &ArrayMeta) -> Json {
    let mut out = Json::object();
    out.set("name", Json::string(a.keys.name()));
    let separator = Json::Object(vec![("separator".into(), Json::string(a.keys.separator))]);
    out.set("configuration", separator);
    out
}

/// The fill value as `zaro read --format json` writes an element; a NaN with a payload of its own as its bits.
/// Null where a V2 document says so: then nothing is said of missing elements, though they read as zero.
pub(crate) fn fill(a: &ArrayMeta) -> Json {
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
pub(crate) fn data_type(t: &DataType) -> Json {
    let named = |name: &str, configuration: Vec<(&str, Json)>| {
        let members = configuration.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        Json::Object(vec![
            ("name".into(), Json::string(name)),
            ("configuration".into(), Json::Object(members)),
        ])
    };
    match t {
        DataType::FixedBytes(n) => named("null_terminated_bytes", vec![("length_bytes", Json::int(n))]),
        DataType::FixedUtf32(n) => {
            named("fixed_length_utf32", vec![("length_bytes", Json::int(n.saturating_mul(4)))])
        }
        DataType::DateTime(unit, scale) => {
            let configuration = vec![("unit", Json::string(unit.name())), ("scale_factor", Json::int(scale))];
            named("numpy.datetime64", configuration)
        }
        DataType::TimeDelta(unit, scale) => {
            let configuration = vec![("unit", Json::string(unit.name())), ("scale_factor", Json::int(scale))];
            named("numpy.timedelta64", configuration)
        }
        DataType::Struct(fields) => {
            let field = |name: &str, t: &DataType| {
                Json::Object(vec![("name".into(), Json::string(name)), ("data_type".into(), data_type(t))])
            };
            let fields = fields.iter().map(|f| field(&f.name, &f.data_type)).collect();
            named("struct", vec![("fields", Json::Array(fields))])
        }
        DataType::SubArray(inner, shape) => {
            let shape = Json::Array(shape.iter().map(Json::int).collect());
            named("subarray", vec![("data_type", data_type(inner)), ("shape", shape)])
        }
        DataType::List(inner) => named("list", vec![("data_type", data_type(inner))]),
        plain => Json::string(plain.to_string()),
    }
}
