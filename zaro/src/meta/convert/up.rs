//! Converts array metadata from Zarr V2 to V3.

use std::sync::Arc;

use super::{Reasons, SAME, configuration, with};
use crate::meta::create::{blosc, element, to_bytes};
use crate::meta::dtype::{DataType, Endian, Float};
use crate::meta::json::Json;
use crate::meta::typestr::{self, TypeStr};
use crate::meta::{ArrayMeta, CodecMeta};

/// Changes `draft`, a copy of the V2 array `meta`, to V3.
pub(super) fn array(meta: &ArrayMeta, draft: &mut ArrayMeta, reasons: &mut Reasons) {
    draft.codecs = chain(meta, reasons);
    draft.fill_undefined = false;
    let named = meta.attributes.get("_ARRAY_DIMENSIONS").and_then(Json::items).map(<[Json]>::len);
    if meta.dimension_names.is_some() && named == Some(meta.shape.len()) {
        let mut attributes = (*meta.attributes).clone();
        attributes.remove("_ARRAY_DIMENSIONS");
        draft.attributes = Arc::new(attributes);
    }
}

/// A chain that is being converted.
struct ChainProgress {
    /// The type of the values after the filters so far, and their byte order in V2.
    data_type: DataType,
    endian: Endian,
    /// Array-to-array codecs.
    values: Vec<CodecMeta>,
    /// The array-to-bytes codec, if it is not `bytes`.
    to_bytes: Option<CodecMeta>,
    /// Bytes-to-bytes codecs.
    bytes: Vec<CodecMeta>,
}

fn chain(meta: &ArrayMeta, reasons: &mut Reasons) -> Vec<CodecMeta> {
    let mut at = ChainProgress {
        data_type: meta.data_type.clone(),
        endian: Endian::Little,
        values: Vec::new(),
        to_bytes: None,
        bytes: Vec::new(),
    };
    for codec in &meta.codecs {
        match codec.name.strip_prefix("v2.") {
            Some(id) => {
                if let Err(reason) = at.step(id, codec) {
                    reasons.add(reason);
                }
            }
            None if codec.name == "bytes" => {
                if codec.get("mixed").is_some() {
                    reasons.add("V3 cannot mix byte orders in one element");
                }
                if codec.get("endian").and_then(Json::as_str) == Some("big") {
                    at.endian = Endian::Big;
                }
            }
            None => at.values.push(codec.clone()),
        }
    }
    let to_bytes = at.to_bytes.unwrap_or_else(|| to_bytes(&at.data_type, at.endian));
    at.values.into_iter().chain([to_bytes]).chain(at.bytes).collect()
}

impl ChainProgress {
    /// Adds a filter or compressor, or returns why it cannot be converted.
    fn step(&mut self, id: &str, codec: &CodecMeta) -> Result<(), String> {
        let lacking = || format!("V3 has no codec {id:?}");
        // Still values in V3's eyes: no codec has made other bytes of them.
        let values = self.to_bytes.is_none() && self.bytes.is_empty();
        let size = if values { element(&self.data_type) } else { 1 };
        match id {
            "vlen-utf8" | "vlen-bytes" if values => self.to_bytes = Some(CodecMeta::new(id, Vec::new())),
            "zfpy" if values && self.values.iter().all(|c| c.name == "transpose") => {
                self.to_bytes = Some(with(codec, "numcodecs.zfpy", []));
            }
            "pcodec" if values => {
                let plain = match &self.data_type {
                    DataType::Int(_) | DataType::UInt(_) => true,
                    DataType::Float(f) => is_numpy(*f),
                    _ => false,
                };
                if !plain || self.endian == Endian::Big && self.data_type.has_byte_order() {
                    return Err("V3's pcodec takes plain numbers, little-endian".into());
                }
                self.to_bytes = Some(with(codec, "numcodecs.pcodec", []));
            }
            "delta" | "fixedscaleoffset" | "quantize" | "astype" | "packbits" | "bitround" => {
                if !values {
                    return Err(format!("V3's {id} cannot follow a codec over bytes"));
                }
                self.filter(id, codec)?;
            }
            "zstd" => {
                let level = codec.get("level").and_then(Json::as_i64).unwrap_or(0).clamp(-131_072, 22);
                let checksum = codec.get("checksum").and_then(Json::as_bool).unwrap_or(false);
                let settings = [("level", Some(Json::int(level))), ("checksum", Some(Json::Bool(checksum)))];
                self.bytes.push(CodecMeta::new("zstd", configuration(settings)));
            }
            "gzip" => {
                let level = codec.get("level").and_then(Json::as_i64).unwrap_or(1);
                // -1 is what zlib calls its default.
                let level = if (0..=9).contains(&level) { level } else { 6 };
                self.bytes.push(CodecMeta::new("gzip", configuration([("level", Some(Json::int(level)))])));
            }
            "blosc" => {
                let shuffle = match codec.get("shuffle") {
                    Some(Json::String(word)) => word.as_str(),
                    number => match number.and_then(Json::as_i64) {
                        Some(0) => "noshuffle",
                        Some(2) => "bitshuffle",
                        Some(-1) if size == 1 => "bitshuffle",
                        _ => "shuffle",
                    },
                };
                let settings = [
                    ("cname", Some(codec.get("cname").cloned().unwrap_or_else(|| Json::string("lz4")))),
                    ("clevel", codec.get("clevel").cloned()),
                    ("shuffle", Some(Json::string(shuffle))),
                    ("blocksize", codec.get("blocksize").cloned()),
                ];
                self.bytes.push(blosc(&CodecMeta::new("blosc", configuration(settings)), size));
            }
            "crc32c" if matches!(codec.get("location").map(Json::as_str), None | Some(Some("end"))) => {
                self.bytes.push(CodecMeta::new("crc32c", Vec::new()));
            }
            "crc32c" => self.bytes.push(with(codec, "numcodecs.crc32c", [])),
            id if SAME.contains(&id) => self.bytes.push(with(codec, &format!("numcodecs.{id}"), [])),
            _ => return Err(lacking()),
        }
        Ok(())
    }

    /// Adds a numeric filter, whose types must match the values.
    fn filter(&mut self, id: &str, codec: &CodecMeta) -> Result<(), String> {
        let odd = |what: &str| format!("the types of {id} do not fit V3: {what}");
        let parse =
            |name: &str| codec.get(name).map(|t| typestr::parse_config(t).map_err(|e| odd(e.message())));
        let name = format!("numcodecs.{id}");
        let (from, to) = match id {
            "packbits" => {
                if self.data_type != DataType::Bool {
                    return Err(odd("it packs booleans"));
                }
                self.data_type = DataType::UINT8;
                self.values.push(CodecMeta::new(name, Vec::new()));
                return Ok(());
            }
            "bitround" => {
                if !matches!(&self.data_type, DataType::Float(f) if is_numpy(*f)) {
                    return Err(odd("it rounds floats"));
                }
                let keep = configuration([("keepbits", codec.get("keepbits").cloned())]);
                self.values.push(CodecMeta::new(name, keep));
                return Ok(());
            }
            "astype" => ("decode_dtype", "encode_dtype"),
            _ => ("dtype", "astype"),
        };
        let decoded = parse(from).ok_or_else(|| odd("one is missing"))??;
        let encoded = parse(to).unwrap_or_else(|| Ok(decoded.clone()))?;
        let here = self.endian == Endian::Little || !self.data_type.has_byte_order();
        let same = decoded.data_type.as_ref() == Some(&self.data_type)
            && (decoded.endian != Some(Endian::Big)) == here;
        if !same || !is_number(&self.data_type) {
            return Err(odd("it works on another type than the array has there"));
        }
        // zarr-python's V3 codec takes no notice of a type that changes.
        if id == "quantize" && encoded != decoded {
            return Err(odd("it changes the type"));
        }
        // zarr-python hands the first filter values in this machine's order, and takes from the last what `bytes` says.
        let first = self.values.iter().all(|c| c.name == "transpose");
        let write = |t: &TypeStr, endian: Option<Endian>| {
            let written = t.data_type.as_ref().and_then(|t| typestr::write(t, endian));
            written.ok_or_else(|| odd("V3 has no name for one"))
        };
        let decoded = write(&decoded, if first { Some(Endian::Little) } else { decoded.endian })?;
        let written = write(&encoded, encoded.endian)?;
        self.values.push(with(codec, &name, [(from, decoded), (to, written)]));
        self.endian = encoded.endian.unwrap_or(Endian::Little);
        self.data_type = encoded.data_type.unwrap_or(DataType::UINT8);
        Ok(())
    }
}

/// Whether numpy has this format.
pub(super) fn is_numpy(float: Float) -> bool {
    matches!(float, Float::F16 | Float::F32 | Float::F64)
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) => true,
        DataType::Float(f) => is_numpy(*f),
        _ => false,
    }
}
