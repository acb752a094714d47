//! [`NewArray`] from the metadata of an existing array.

use super::create::{MemoryLayout, NewArray};
use super::dtype::Endian;
use super::json::Json;
use super::write::write_codecs;
use super::{ArrayMeta, CodecMeta, Format, v3};
use crate::error::{Result, invalid};
use crate::num;

impl NewArray {
    /// The description of an array with these metadata. A rectilinear grid becomes a regular one of its largest chunk.
    pub fn like(meta: &ArrayMeta) -> Result<Self> {
        let outer = meta.grid.largest();
        let mut new = Self {
            format: meta.format,
            shape: meta.shape.clone(),
            data_type: meta.data_type.clone(),
            fill: (!meta.fill_undefined).then(|| meta.fill.clone()),
            fill_undefined: meta.fill_undefined,
            keys: Some(meta.keys),
            dimension_names: meta.dimension_names.clone(),
            attributes: meta.attributes.members().unwrap_or_default().to_vec(),
            ..Self::default()
        };
        let rank = meta.shape.len();
        let (order, mut codecs) = innermost(&meta.codecs, (0..rank).collect())?;
        new.layout = layout(order, rank);
        new.chunks = Some(outer.clone());
        if let [shard] = codecs.as_slice()
            && shard.name == "sharding_indexed"
        {
            let inner = shard.get("codecs").cloned().unwrap_or(Json::Null);
            let extents = shard.get("chunk_shape").and_then(Json::items).unwrap_or_default();
            new.shards = Some(outer);
            new.chunks = Some(extents.iter().map(|n| n.as_u64().unwrap_or(0)).collect());
            codecs = v3::codecs(&inner, "codecs")?;
        }
        // The order of bytes is said apart, as that of elements is, so that V2's codecs, which go without, can be taken
        // over.
        if let Some(at) = codecs.iter().position(|c| c.name == "bytes") {
            if codecs.get(at).and_then(|c| c.get("endian")).and_then(Json::as_str) == Some("big") {
                new.endian = Endian::Big;
            }
            codecs.remove(at);
        }
        if meta.format == Format::V2 && !codecs.iter().any(|c| c.name.starts_with("v2.")) {
            codecs.clear();
        }
        new.codecs = Some(codecs);
        Ok(new)
    }
}

impl ArrayMeta {
    /// Of a sharded array: the shape of the chunks inside a shard, in the order of the array's dimensions.
    #[must_use]
    pub fn inner_chunks(&self) -> Option<Vec<u64>> {
        // Which dimension of the array each dimension is at this point of the chain.
        let mut order: Vec<usize> = (0..self.shape.len()).collect();
        for codec in &self.codecs {
            let list = |name: &str| -> Option<Vec<u64>> {
                codec.get(name)?.items()?.iter().map(Json::as_u64).collect()
            };
            match codec.name.as_str() {
                "transpose" => {
                    let axes = list("order")?;
                    let moved = axes.iter().map(|d| order.get(num::usize_of(*d).ok()?).copied());
                    order = moved.collect::<Option<Vec<usize>>>().filter(|m| m.len() == order.len())?;
                }
                "sharding_indexed" => {
                    let shape = list("chunk_shape").filter(|s| s.len() == order.len())?;
                    let mut inner = vec![1; shape.len()];
                    for (d, n) in order.iter().zip(shape) {
                        *inner.get_mut(*d)? = n;
                    }
                    return Some(inner);
                }
                _ => {}
            }
        }
        None
    }
}

fn layout(axes: Vec<usize>, rank: usize) -> MemoryLayout {
    if axes.is_sorted() {
        MemoryLayout::C
    } else if axes.iter().copied().eq((0..rank).rev()) {
        MemoryLayout::F
    } else {
        MemoryLayout::Axes(axes)
    }
}

/// A chain without its transposes, which are combined into one order of the elements in the innermost chunks: dimension
/// `i` of those is the array's dimension `order[i]`. Shapes of inner chunks are put in the array's order.
///
/// `order` is the combined order of the outer chains.
fn innermost(codecs: &[CodecMeta], order: Vec<usize>) -> Result<(Vec<usize>, Vec<CodecMeta>)> {
    // What elements lie where is another matter after these.
    if codecs.iter().any(|c| c.name == "reshape") {
        return Ok((order, codecs.to_vec()));
    }
    let mut order = order;
    let mut out = Vec::with_capacity(codecs.len());
    for codec in codecs {
        match codec.name.as_str() {
            "transpose" => order = composed(&order, codec)?,
            "sharding_indexed" => {
                let chunks = codec.get("chunk_shape").and_then(Json::items).unwrap_or_default();
                let mut turned = vec![Json::Null; chunks.len()];
                for (d, n) in order.iter().zip(chunks) {
                    if let Some(slot) = turned.get_mut(*d) {
                        slot.clone_from(n);
                    }
                }
                let inside = v3::codecs(codec.get("codecs").unwrap_or(&Json::Null), "codecs")?;
                let (inner, inside) = innermost(&inside, order)?;
                order = inner;
                let mut codec = codec.clone();
                for (name, value) in &mut codec.configuration {
                    match name.as_str() {
                        "chunk_shape" => *value = Json::Array(turned.clone()),
                        "codecs" => *value = write_codecs(&inside),
                        _ => {}
                    }
                }
                out.push(codec);
            }
            _ => out.push(codec.clone()),
        }
    }
    Ok((order, out))
}

/// Applies `transpose` to `order`.
fn composed(order: &[usize], transpose: &CodecMeta) -> Result<Vec<usize>> {
    let rank = order.len();
    let axes: Vec<usize> = match transpose.get("order") {
        Some(Json::String(word)) if word == "F" => (0..rank).rev().collect(),
        Some(Json::String(word)) if word == "C" => (0..rank).collect(),
        given => {
            let given = given.and_then(Json::items).unwrap_or_default();
            given.iter().filter_map(Json::as_u64).filter_map(|n| num::usize_of(n).ok()).collect()
        }
    };
    let turned: Option<Vec<usize>> = axes.iter().map(|i| order.get(*i).copied()).collect();
    turned
        .filter(|t| t.len() == rank)
        .ok_or_else(|| invalid!("{axes:?} is not an order of {rank} dimensions").with_field("order"))
}
