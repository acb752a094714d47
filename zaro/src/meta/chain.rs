//! The kind of a codec by its name (array-to-array, array-to-bytes, bytes-to-bytes), as writing metadata needs it.
//!
//! What codecs do is known to the codec layer. A name that is neither listed here nor declared counts as
//! bytes-to-bytes, as most are.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The kind of a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecKind {
    /// Array to array.
    Array,
    /// Array to bytes; a chain has exactly one.
    ToBytes,
    /// Bytes to bytes.
    Bytes,
}

/// The kinds of custom codecs.
static DECLARED: RwLock<BTreeMap<String, CodecKind>> = RwLock::new(BTreeMap::new());

/// Declares the kind of a codec that is not in the list below.
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
