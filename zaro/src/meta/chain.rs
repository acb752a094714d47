//! Where in a chain a codec stands, by its name: what writing metadata needs to know of codecs.
//!
//! What they do is the codec layer's knowledge. A name that is neither listed here nor declared works on
//! bytes, as most do.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// What a codec turns into what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecKind {
    /// Values into values.
    Array,
    /// Values into bytes; a chain has one.
    ToBytes,
    /// Bytes into bytes.
    Bytes,
}

/// The kinds of codecs of users.
static DECLARED: RwLock<BTreeMap<String, CodecKind>> = RwLock::new(BTreeMap::new());

/// Says of what kind a codec is that is not in the list below.
pub(crate) fn declare(name: &str, kind: CodecKind) {
    DECLARED.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), kind);
}

/// The kind of the codec that has this V3 name.
pub(crate) fn kind(name: &str) -> CodecKind {
    match name {
        "transpose"
        | "reshape"
        | "scale_offset"
        | "cast_value"
        | "bitround"
        | "numcodecs.bitround"
        | "numcodecs.delta"
        | "numcodecs.fixedscaleoffset"
        | "numcodecs.quantize"
        | "numcodecs.astype"
        | "numcodecs.packbits" => CodecKind::Array,
        "bytes"
        | "vlen-utf8"
        | "vlen-bytes"
        | "numcodecs.vlen-utf8"
        | "numcodecs.vlen-bytes"
        | "numcodecs.vlen-array"
        | "numcodecs.json2"
        | "numcodecs.msgpack2"
        | "packbits"
        | "zfp"
        | "zarrs.zfp"
        | "numcodecs.zfpy"
        | "numcodecs.pcodec"
        | "sharding_indexed"
        | "n5_default" => CodecKind::ToBytes,
        name => {
            let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
            declared.get(name).copied().unwrap_or(CodecKind::Bytes)
        }
    }
}
