//! The description of an array like another one.

use super::create::{Layout, NewArray};
use super::dtype::Endian;
use super::json::Json;
use super::{ArrayMeta, CodecMeta, Format, v3};
use crate::error::Result;
use crate::num;

impl NewArray {
    /// A description that makes an array of these metadata. Where chunks differ in shape, all become as large as the
    /// largest.
    pub fn like(meta: &ArrayMeta) -> Result<Self> {
        new_array(meta)
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

fn new_array(meta: &ArrayMeta) -> Result<NewArray> {
    let outer = meta.grid.largest();
    let mut new = NewArray {
        format: meta.format,
        shape: meta.shape.clone(),
        data_type: meta.data_type.clone(),
        fill: Some(meta.fill.clone()),
        keys: Some(meta.keys),
        dimension_names: meta.dimension_names.clone(),
        attributes: meta.attributes.members().unwrap_or_default().to_vec(),
        ..NewArray::default()
    };
    let mut codecs = meta.codecs.clone();
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
    // The order of elements and bytes is said apart, so that V2's codecs, which go without, can be taken over.
    if let Some(at) = codecs.iter().position(|c| c.name == "transpose")
        && at == 0
    {
        new.layout = layout(&codecs.remove(at), meta.shape.len());
    }
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

fn layout(transpose: &CodecMeta, rank: usize) -> Layout {
    let order = transpose.get("order").and_then(Json::items).unwrap_or_default();
    let axes: Vec<usize> =
        order.iter().filter_map(Json::as_u64).filter_map(|n| num::usize_of(n).ok()).collect();
    if axes.iter().copied().eq((0..rank).rev()) { Layout::F } else { Layout::Axes(axes) }
}
