//! Where in a chain a codec stands, by its name: what writing metadata needs to know of codecs.
//!
//! What they do is the codec layer's knowledge. A name that is not listed here works on bytes, as most do.

/// What a codec turns into what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Values into values.
    Array,
    /// Values into bytes; a chain has one.
    ToBytes,
    /// Bytes into bytes.
    Bytes,
}

/// The kind of the codec that has this V3 name.
pub(crate) fn kind(name: &str) -> Kind {
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
        | "numcodecs.packbits" => Kind::Array,
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
        | "n5_default" => Kind::ToBytes,
        _ => Kind::Bytes,
    }
}
