//! Converts array metadata from Zarr V3 to V2.

use super::up::is_numpy;
use super::{Reasons, SAME, configuration, with};
use crate::error::{Error, Result};
use crate::meta::chain::{CodecKind, kind};
use crate::meta::dtype::{DataType, Endian};
use crate::meta::grid::Grid;
use crate::meta::json::Json;
use crate::meta::typestr;
use crate::meta::{ArrayMeta, CodecMeta, v3};

/// Changes `draft`, a copy of the V3 array `meta`, to V2.
pub(super) fn array(meta: &ArrayMeta, draft: &mut ArrayMeta, reasons: &mut Reasons) -> Result<()> {
    if typestr::write(&meta.data_type, Some(Endian::Little)).is_none()
        && !matches!(meta.data_type, DataType::String | DataType::Bytes)
    {
        let message = format!("V2 has no data type for {}", meta.data_type);
        return Err(Error::unsupported(message).with_field("data_type"));
    }
    if meta.grid.regular_shape().is_none() {
        reasons.add("V2 has no chunks of different shapes");
        draft.grid = Grid::regular(&meta.grid.largest())?;
    }
    let mut codecs = meta.codecs.clone();
    // The inner chunks of shards are what readers want to have apart.
    while let Some(at) = codecs.iter().position(|c| c.name == "sharding_indexed") {
        reasons.add("V2 has no shards");
        let inside = codecs.swap_remove(at);
        codecs.truncate(at);
        let chunk = inside.get("chunk_shape").and_then(Json::items);
        let chunk = chunk.and_then(|items| items.iter().map(Json::as_u64).collect::<Option<Vec<_>>>());
        let chunk = chunk.filter(|c| c.len() == meta.shape.len() && codecs.is_empty());
        if let Some(chunk) = chunk {
            draft.grid = Grid::regular(&chunk)?;
        }
        codecs.extend(v3::codecs(inside.get("codecs").unwrap_or(&Json::Array(Vec::new())), "codecs")?);
    }
    draft.codecs = chain(&codecs, &meta.data_type, meta.shape.len(), reasons);
    Ok(())
}

fn chain(codecs: &[CodecMeta], t: &DataType, rank: usize, reasons: &mut Reasons) -> Vec<CodecMeta> {
    let mut out = Vec::new();
    let (values, rest) =
        codecs.split_at(codecs.iter().take_while(|c| kind(&c.name) == CodecKind::Array).count());
    let to_bytes = rest.first().filter(|c| kind(&c.name) == CodecKind::ToBytes);
    let endian = match to_bytes.and_then(|c| c.get("endian")).and_then(Json::as_str) {
        Some("big") => Endian::Big,
        _ => Endian::Little,
    };
    let lacking = |codec: &CodecMeta| format!("V2 has no codec {:?}", codec.name);

    let mut filters = Vec::new();
    let mut data_type = t.clone();
    for (i, codec) in values.iter().enumerate() {
        let order = codec.get("order").and_then(Json::items);
        let order = order.map(|o| o.iter().filter_map(Json::as_u64).collect::<Vec<_>>());
        match (codec.name.as_str(), order) {
            ("transpose", Some(order)) if order.is_sorted() => {}
            ("transpose", Some(order)) if i == 0 && order.iter().rev().is_sorted() && order.len() == rank => {
                out.push(codec.clone());
            }
            ("transpose", _) => reasons.add("V2 knows the orders C and F, and no other transposition"),
            _ => match filter(codec, &data_type, endian) {
                Some((filter, after)) => {
                    filters.push(filter);
                    data_type = after;
                }
                None => reasons.add(lacking(codec)),
            },
        }
    }

    // V2's reader notes an order for every type, big only for those that have one.
    let bytes = |endian: Endian| {
        let word = if endian == Endian::Big && t.has_byte_order() { "big" } else { "little" };
        CodecMeta::new("bytes", vec![("endian".into(), Json::string(word))])
    };
    let vlen = match t {
        DataType::String => Some("v2.vlen-utf8"),
        DataType::Bytes => Some("v2.vlen-bytes"),
        _ => None,
    };
    let name = to_bytes.map(|c| c.name.as_str()).unwrap_or_default();
    match (name, vlen, to_bytes) {
        (name, Some(own), _) => {
            if name.strip_prefix("numcodecs.").unwrap_or(name) != own.trim_start_matches("v2.") {
                reasons.add(format!("V2 has no codec {name:?}"));
            }
            out.push(CodecMeta::new(own, Vec::new()));
        }
        ("numcodecs.zfpy", None, Some(codec)) if filters.is_empty() => {
            out.push(with(codec, "v2.zfpy", []));
        }
        ("numcodecs.pcodec", None, Some(codec)) => {
            out.push(bytes(Endian::Little));
            out.append(&mut filters);
            out.push(with(codec, "v2.pcodec", []));
        }
        (name, None, codec) => {
            if name != "bytes" {
                reasons.add(codec.map_or_else(|| "there is no array-to-bytes codec".into(), lacking));
            }
            out.push(bytes(endian));
            out.append(&mut filters);
        }
    }
    for codec in rest.iter().skip(usize::from(to_bytes.is_some())) {
        match over_bytes(codec) {
            Some(codec) => out.push(codec),
            None => reasons.add(lacking(codec)),
        }
    }
    out
}

/// An array-to-array codec as a V2 filter, and its output type.
fn filter(codec: &CodecMeta, t: &DataType, endian: Endian) -> Option<(CodecMeta, DataType)> {
    let typed = |t: &DataType| typestr::write(t, Some(endian));
    let parse = |name: &str| codec.get(name).and_then(|t| typestr::parse_config(t).ok()?.data_type);
    let (id, from, to) = match codec.name.as_str() {
        "numcodecs.delta" => ("v2.delta", "dtype", "astype"),
        "numcodecs.fixedscaleoffset" => ("v2.fixedscaleoffset", "dtype", "astype"),
        "numcodecs.quantize" => ("v2.quantize", "dtype", "astype"),
        "numcodecs.astype" => ("v2.astype", "decode_dtype", "encode_dtype"),
        "numcodecs.packbits" if *t == DataType::Bool => {
            return Some((CodecMeta::new("v2.packbits", Vec::new()), DataType::UINT8));
        }
        "bitround" | "numcodecs.bitround" if matches!(t, DataType::Float(f) if is_numpy(*f)) => {
            let keep = configuration([("keepbits", codec.get("keepbits").cloned())]);
            return Some((CodecMeta::new("v2.bitround", keep), t.clone()));
        }
        _ => return None,
    };
    let decoded = parse(from).unwrap_or_else(|| t.clone());
    if decoded != *t {
        return None;
    }
    let encoded = parse(to).unwrap_or_else(|| t.clone());
    Some((with(codec, id, [(from, typed(&decoded)?), (to, typed(&encoded)?)]), encoded))
}

fn over_bytes(codec: &CodecMeta) -> Option<CodecMeta> {
    let get = |name: &str| codec.get(name).cloned();
    Some(match codec.name.as_str() {
        "zstd" | "numcodecs.zstd" => {
            // Without `checksum`: tensorstore refuses the member, and no decoder needs it, since a frame says itself
            // whether it has one.
            let level = get("level").unwrap_or_else(|| Json::int(0));
            CodecMeta::new("v2.zstd", configuration([("level", Some(level))]))
        }
        "gzip" | "numcodecs.gzip" => CodecMeta::new(
            "v2.gzip",
            configuration([("level", Some(get("level").unwrap_or_else(|| Json::int(1))))]),
        ),
        "blosc" | "numcodecs.blosc" => {
            let shuffle = match codec.get("shuffle") {
                Some(Json::String(word)) => Json::int(match word.as_str() {
                    "noshuffle" => 0,
                    "bitshuffle" => 2,
                    _ => 1,
                }),
                Some(number) => number.clone(),
                None => Json::int(1),
            };
            let settings = [
                ("cname", Some(get("cname").unwrap_or_else(|| Json::string("lz4")))),
                ("clevel", Some(get("clevel").unwrap_or_else(|| Json::int(5)))),
                ("shuffle", Some(shuffle)),
                ("blocksize", Some(get("blocksize").unwrap_or_else(|| Json::int(0)))),
            ];
            CodecMeta::new("v2.blosc", configuration(settings))
        }
        name => {
            // V3's own `crc32c` is not among these: numcodecs has its like, but hardly a reader of V2 knows it.
            let id = name.strip_prefix("numcodecs.").filter(|id| SAME.contains(id) || *id == "crc32c")?;
            with(codec, &format!("v2.{id}"), [])
        }
    })
}
