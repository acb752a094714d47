//! The description of an array like another one, for `zaro create --like`.

use zaro::meta::create::{Layout, NewArray};
use zaro::meta::dtype::Endian;
use zaro::meta::json::Json;
use zaro::meta::{ArrayMeta, CodecMeta, Format, v3};
use zaro::{Error, Result, num};

/// A description that makes an array of these metadata.
pub(crate) fn new_array(meta: &ArrayMeta) -> Result<NewArray> {
    let Some(outer) = meta.grid.regular_shape() else {
        return Err(Error::unsupported("an array whose chunks differ in shape cannot be copied with --like"));
    };
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
