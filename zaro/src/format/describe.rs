//! Describes an array for display: codecs, chunks, size.

use std::collections::BTreeSet;

use super::text::human_bytes;
use crate::group::Node;
use crate::meta::{ArrayMeta, CodecMeta, DataType, Json, NodeMeta};

/// Bytes of all elements, before compression.
#[must_use]
pub fn byte_size(a: &ArrayMeta) -> u128 {
    a.shape.iter().fold(1u128, |acc, n| acc.saturating_mul(u128::from(*n))).saturating_mul(size_of_item(a))
}

/// Bytes of one element.
#[must_use]
pub fn size_of_item(a: &ArrayMeta) -> u128 {
    u128::try_from(a.data_type.size()).unwrap_or(u128::MAX)
}

/// `1.2 GiB`; `varying size` for elements without a fixed size.
#[must_use]
pub fn size_text(a: &ArrayMeta) -> String {
    if a.data_type.is_variable() { "varying size".into() } else { human_bytes(byte_size(a)) }
}

/// `12 × 180 × 360`.
#[must_use]
pub fn times(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ")
}

/// Names of codecs without those that only set the byte layout.
#[must_use]
pub fn codec_names(codecs: &[CodecMeta]) -> Vec<String> {
    let mut out = Vec::new();
    for c in codecs {
        match inner_names(c) {
            Some(inner) => out.extend(inner.filter(|n| *n != "bytes").map(str::to_owned)),
            None if c.name == "bytes" => {}
            None => out.push(codec_name(c)),
        }
    }
    out
}

/// The names of the codecs inside shards.
fn inner_names(c: &CodecMeta) -> Option<impl Iterator<Item = &str>> {
    let inner = c.get("codecs").filter(|_| c.name == "sharding_indexed")?.items()?;
    Some(inner.iter().filter_map(|c| c.as_str().or_else(|| c.get("name")?.as_str())))
}

/// `zstd`; for blosc, with its compressor.
fn codec_name(c: &CodecMeta) -> String {
    let name = c.name.strip_prefix("v2.").unwrap_or(&c.name);
    match c.get("cname").and_then(Json::as_str) {
        Some(inside) => format!("{name}-{inside}"),
        None => name.to_owned(),
    }
}

/// `zstd (level 3)`.
#[must_use]
pub fn codec_text(c: &CodecMeta) -> String {
    let name = c.name.strip_prefix("v2.").unwrap_or(&c.name);
    let settings: Vec<String> = c
        .configuration
        .iter()
        .filter(|(_, v)| {
            v.members().is_none() && !v.items().is_some_and(|i| i.iter().any(|x| x.members().is_some()))
        })
        .map(|(n, v)| format!("{n} {}", v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
        .collect();
    let inner: Vec<&str> = inner_names(c).map(Iterator::collect).unwrap_or_default();
    match (settings.is_empty(), inner.is_empty()) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{name} ({})", settings.join(", ")),
        _ => format!("{name} [{}]", inner.join(" → ")),
    }
}

/// How an array is stored, in short: `chunks 90 × 180`, `shards 180 × 360`, codecs and size.
#[must_use]
pub fn storage(a: &ArrayMeta) -> Vec<String> {
    let mut facts = Vec::new();
    match (a.inner_chunks(), a.grid.regular_shape()) {
        (Some(inner), Some(shard)) => {
            facts.push(format!("chunks {}", times(&inner)));
            facts.push(format!("shards {}", times(&shard)));
        }
        (_, Some(chunk)) if !chunk.is_empty() => facts.push(format!("chunks {}", times(&chunk))),
        (_, None) => facts.push(format!("chunks up to {}", times(&a.grid.largest()))),
        _ => {}
    }
    facts.extend(codec_names(&a.codecs));
    facts.push(size_text(a));
    facts
}

/// The main array of a data set: the largest that is not a coordinate.
#[must_use]
pub fn main_array(below: &[Node]) -> Option<&Node> {
    let arrays =
        || below.iter().filter_map(|n| if let NodeMeta::Array(a) = &n.meta { Some((n, a)) } else { None });
    // Arrays that others name as their coordinates, bounds, masks and the like.
    let mut beside: BTreeSet<&str> = BTreeSet::new();
    for (_, a) in arrays() {
        beside.extend(a.dimension_names.iter().flatten().flatten().map(String::as_str));
        for (name, value) in a.attributes.members().unwrap_or_default() {
            if matches!(name.as_str(), "coordinates" | "bounds" | "grid_mapping" | "ancillary_variables") {
                beside.extend(value.as_str().unwrap_or_default().split_whitespace());
            }
        }
    }
    let worth = |(n, a): &(&Node, &ArrayMeta)| {
        let numbers = matches!(a.data_type, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_));
        let field = !beside.contains(n.name());
        (a.shape.len().min(2), numbers && field, field, byte_size(a))
    };
    // The first of equals.
    arrays().rev().max_by_key(worth).map(|(n, _)| n)
}
