//! Codecs with invalid settings for writing: they decode, but refuse to encode.
//!
//! Most streams describe how they are decoded, so a level out of range, or one that is not a number, does not matter to
//! a reader. Such a codec is built with other settings, decodes, and reports the error when it has to encode.

use super::registry::{CodecRequest, shown};
use super::{ArrayToArray, ArrayToBytes, Buffer, BytesToBytes, Codec, OutputSize, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::json::Json;

/// The name of a member, and the number it has where there must be one.
type Member = (&'static str, Option<u8>);

/// The members that only encoding looks at, by the codec's name; with a number where there must be one.
const FOR_ENCODING: [(&str, &[Member]); 10] = [
    (
        "blosc",
        &[("cname", None), ("clevel", None), ("shuffle", None), ("typesize", None), ("blocksize", None)],
    ),
    ("gzip", &[("level", None)]),
    ("zlib", &[("level", None)]),
    ("zstd", &[("level", None), ("checksum", None)]),
    ("bz2", &[("level", None)]),
    ("lz4", &[("acceleration", None)]),
    ("lzma", &[("check", None), ("preset", None)]),
    (
        "pcodec",
        &[
            ("level", None),
            ("mode_spec", None),
            ("delta_spec", None),
            ("delta_encoding_order", None),
            ("equal_pages_up_to", None),
            ("paging_spec", None),
        ],
    ),
    ("bitround", &[("keepbits", Some(1))]),
    ("quantize", &[("digits", Some(1))]),
];

/// The configuration that `request` comes down to for reading; `None` if all of it matters.
pub(super) fn for_reading(request: &CodecRequest<'_>) -> Option<Vec<(String, Json)>> {
    let name = shown(request.name);
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    let (_, idle) = FOR_ENCODING.iter().find(|(codec, _)| *codec == name)?;
    let matters = |(member, _): &&(String, Json)| !idle.iter().any(|(n, _)| n == member);
    let mut config: Vec<(String, Json)> = request.config.iter().filter(matters).cloned().collect();
    config.extend(idle.iter().filter_map(|(n, default)| Some(((*n).to_owned(), Json::int((*default)?)))));
    Some(config)
}

/// `codec`, which refuses to encode because of `why`.
pub(super) fn decode_only(codec: Codec, why: &Error) -> Codec {
    let why = why.to_string();
    match codec {
        Codec::Array(codec) => Codec::Array(Box::new(DecodeOnly { codec, why })),
        Codec::ToBytes(codec) => Codec::ToBytes(Box::new(DecodeOnly { codec, why })),
        Codec::Bytes(codec) => Codec::Bytes(Box::new(DecodeOnly { codec, why })),
    }
}

#[derive(Debug)]
struct DecodeOnly<C> {
    codec: C,
    why: String,
}

impl<C> DecodeOnly<C> {
    fn refuse<T>(&self) -> Result<T> {
        Err(invalid!("can be read, but not written with these settings: {}", self.why))
    }
}

impl ArrayToArray for DecodeOnly<Box<dyn ArrayToArray>> {
    fn name(&self) -> &'static str {
        self.codec.name()
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        self.codec.encoded(decoded)
    }

    fn permutation(&self, rank: usize) -> Option<Vec<usize>> {
        self.codec.permutation(rank)
    }

    fn decode(&self, chunk: Buffer, decoded: &Repr, encoded: &Repr) -> Result<Buffer> {
        self.codec.decode(chunk, decoded, encoded)
    }

    fn encode(&self, _: Buffer, _: &Repr, _: &Repr) -> Result<Buffer> {
        self.refuse()
    }
}

impl ArrayToBytes for DecodeOnly<Box<dyn ArrayToBytes>> {
    fn name(&self) -> &'static str {
        self.codec.name()
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        self.codec.encoded_size(decoded)
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        self.codec.decode(bytes, decoded)
    }

    fn encode(&self, _: &Buffer, _: &Repr) -> Result<Vec<u8>> {
        self.refuse()
    }
}

impl BytesToBytes for DecodeOnly<Box<dyn BytesToBytes>> {
    fn name(&self) -> &'static str {
        self.codec.name()
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        self.codec.encoded_size(decoded)
    }

    fn expansion(&self) -> usize {
        self.codec.expansion()
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        self.codec.decode(bytes, size)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        self.codec.decode_into(bytes, out)
    }

    fn encode(&self, _: &[u8]) -> Result<Vec<u8>> {
        self.refuse()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::meta::DataType;

    fn codec(name: &str, config: &str, strict: bool) -> Result<Box<dyn BytesToBytes>> {
        match testing::codec(name, config, &DataType::UInt(16), strict)? {
            Codec::Bytes(codec) => Ok(codec),
            _ => panic!("{name}"),
        }
    }

    /// Each with a setting that its library refuses to write with.
    #[test]
    fn settings_of_the_writer_never_refuse_a_read() {
        let data = b"zaro".repeat(100);
        for (name, good, bad) in [
            ("v2.gzip", "{}", r#"{"level":77}"#),
            ("gzip", r#"{"level":5}"#, r#"{"level":-2}"#),
            ("numcodecs.zlib", "{}", r#"{"level":"six"}"#),
            ("zstd", r#"{"level":5}"#, r#"{"level":1.5}"#),
            ("v2.bz2", "{}", r#"{"level":0}"#),
            ("v2.lz4", "{}", r#"{"acceleration":"fast"}"#),
            ("v2.lzma", "{}", r#"{"preset":77,"check":3}"#),
            ("v2.blosc", "{}", r#"{"cname":"lz5","clevel":12,"shuffle":9,"typesize":0,"blocksize":-1}"#),
            ("v2.pcodec", "{}", r#"{"level":13,"mode_spec":"none such"}"#),
            ("v2.bitround", r#"{"keepbits":9,"endian":"little"}"#, r#"{"keepbits":-1,"endian":"little"}"#),
        ] {
            let encoded = codec(name, good, false).unwrap().encode(&data).unwrap();
            let decoded =
                codec(name, good, false).unwrap().decode(&encoded, OutputSize::Exact(data.len())).unwrap();
            let odd = codec(name, bad, false).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(odd.decode(&encoded, OutputSize::Exact(data.len())).unwrap(), decoded, "{name}");
            let why = odd.encode(&data).unwrap_err().to_string();
            assert!(why.contains("not written with these settings"), "{name}: {why}");
            // Nothing new is made with them, and the letter asks for more.
            assert!(codec(name, bad, true).is_err(), "{name}");
        }
        // As numcodecs has it: the default, and the highest level.
        for (name, config) in [
            ("v2.gzip", r#"{"level":-1}"#),
            ("v2.zstd", r#"{"level":100}"#),
            ("v2.zstd", r#"{"level":-999999}"#),
        ] {
            for strict in [false, true] {
                let odd = codec(name, config, strict).unwrap();
                let encoded = odd.encode(&data).unwrap();
                assert_eq!(
                    odd.decode(&encoded, OutputSize::Exact(data.len())).unwrap(),
                    data,
                    "{name} {config}"
                );
            }
        }
        // What a reader needs is still asked for.
        assert!(codec("v2.lzma", r#"{"format":3,"preset":77}"#, false).is_err());
    }
}
