//! Every codec of the registry, with configurations and types that take it down different paths.

use zaro::Result;
use zaro::codec::{Buffer, Codec, CodecRequest, OutputSize, Repr};
use zaro::internal::codec::build;
use zaro::internal::meta::{typestr, v3};
use zaro::meta::{DataType, Fill, Findings, Json, Mode};

use crate::{Noise, Seed};

/// One way to use a codec: its name, its configuration, and the type of the elements (a V3 or a V2 type).
pub struct Case {
    /// The registry's name.
    pub name: &'static str,
    /// Its configuration.
    pub config: &'static str,
    /// The type of the elements.
    pub data_type: &'static str,
}

const fn case(name: &'static str, config: &'static str, data_type: &'static str) -> Case {
    Case { name, config, data_type }
}

/// The cases. An input's first byte picks one, so there may be 256 of them. Append, so that old findings stay what
/// they are.
pub const CASES: &[Case] = &[
    // Compressors.
    case(
        "blosc",
        r#"{"cname":"blosclz","clevel":9,"shuffle":"shuffle","typesize":4,"blocksize":0}"#,
        "int32",
    ),
    case(
        "blosc",
        r#"{"cname":"lz4","clevel":1,"shuffle":"bitshuffle","typesize":2,"blocksize":256}"#,
        "int16",
    ),
    case("blosc", r#"{"cname":"lz4hc","clevel":1,"shuffle":"noshuffle","blocksize":0}"#, "int8"),
    case("blosc", r#"{"cname":"snappy","clevel":1,"shuffle":"shuffle","typesize":8,"blocksize":0}"#, "int64"),
    case("blosc", r#"{"cname":"zlib","clevel":1,"shuffle":"shuffle","typesize":3,"blocksize":0}"#, "r24"),
    case(
        "blosc",
        r#"{"cname":"zstd","clevel":1,"shuffle":"bitshuffle","typesize":1,"blocksize":0}"#,
        "uint8",
    ),
    case("gzip", r#"{"level":1}"#, "uint8"),
    case("zstd", r#"{"level":1,"checksum":true}"#, "uint8"),
    case("numcodecs.zstd", r#"{"level":1}"#, "uint8"),
    case("v2.zlib", r#"{"level":1}"#, "uint8"),
    case("v2.deflate", "{}", "uint8"),
    case("imagecodecs_deflate", "{}", "uint8"),
    case("imagecodecs_zlib", "{}", "uint8"),
    case("v2.lz4", r#"{"acceleration":1}"#, "uint8"),
    case("imagecodecs_lz4", r#"{"header":true}"#, "uint8"),
    case("imagecodecs_lz4", "{}", "uint8"),
    case("imagecodecs_lz4h5", r#"{"blocksize":64}"#, "uint8"),
    case("v2.bz2", r#"{"level":1}"#, "uint8"),
    case("v2.lzma", r#"{"format":1,"preset":0}"#, "uint8"),
    case("v2.lzma", r#"{"format":2,"preset":0}"#, "uint8"),
    case("v2.lzma", r#"{"format":0,"preset":0}"#, "uint8"),
    case("v2.lzma", r#"{"format":3,"filters":[{"id":3,"dist":2},{"id":33,"preset":0}]}"#, "uint8"),
    case("imagecodecs_lzma", "{}", "uint8"),
    case("imagecodecs_lzf", r#"{"header":true}"#, "uint8"),
    case("imagecodecs_lzf", r#"{"header":false}"#, "uint8"),
    case("imagecodecs_lzf", "{}", "uint8"),
    case("imagecodecs_lzw", "{}", "uint8"),
    case("imagecodecs_packbits", "{}", "uint8"),
    case("base64", "{}", "uint8"),
    // Checksums.
    case("crc32c", "{}", "uint8"),
    case("v2.crc32c", r#"{"location":"start"}"#, "uint8"),
    case("v2.crc32", r#"{"location":"end"}"#, "uint8"),
    case("v2.adler32", "{}", "uint8"),
    case("fletcher32", "{}", "uint8"),
    case("v2.jenkins_lookup3", r#"{"initval":7,"prefix":"AAEC"}"#, "uint8"),
    // Filters.
    case("v2.shuffle", r#"{"elementsize":4}"#, "int32"),
    case("v2.shuffle", r#"{"elementsize":7}"#, "uint8"),
    case("imagecodecs_delta", r#"{"dtype":"<u2","shape":[4,6],"axis":-1}"#, "uint16"),
    case("imagecodecs_delta", r#"{"dtype":"|u1","shape":[3,5,2],"axis":0}"#, "uint8"),
    case("imagecodecs_floatpred", r#"{"dtype":"<f4","shape":[4,6],"axis":-1}"#, "float32"),
    case("v2.delta", r#"{"dtype":"<i4"}"#, "int32"),
    case("v2.delta", r#"{"dtype":">f8","astype":"|i1"}"#, "float64"),
    case("v2.fixedscaleoffset", r#"{"scale":10,"offset":1000,"dtype":"<f8","astype":"|u1"}"#, "float64"),
    case("v2.fixedscaleoffset", r#"{"scale":0,"offset":1e308,"dtype":">i2"}"#, "int16"),
    case("v2.quantize", r#"{"digits":2,"dtype":"<f8","astype":"<f2"}"#, "float64"),
    case("v2.astype", r#"{"encode_dtype":"<f4","decode_dtype":">u8"}"#, "uint64"),
    case("v2.bitround", r#"{"keepbits":3}"#, "float32"),
    case("v2.packbits", "{}", "bool"),
    case("numcodecs.delta", r#"{"dtype":"<i2","astype":"|i1"}"#, "int16"),
    case("numcodecs.fixedscaleoffset", r#"{"scale":3,"offset":-7,"astype":"|u1"}"#, "float32"),
    case("numcodecs.quantize", r#"{"digits":1}"#, "float16"),
    case("numcodecs.astype", r#"{"encode_dtype":"|u1"}"#, "float64"),
    case("numcodecs.packbits", "{}", "bool"),
    case("bitround", r#"{"keepbits":5}"#, "complex64"),
    case("bitround", r#"{"keepbits":5}"#, "int64"),
    case("scale_offset", r#"{"scale":2,"offset":-3}"#, "int8"),
    case("scale_offset", r#"{"scale":0.1,"offset":5}"#, "float32"),
    case(
        "cast_value",
        r#"{"data_type":"uint8","rounding":"nearest-even","out_of_range":"clamp"}"#,
        "float64",
    ),
    case("cast_value", r#"{"data_type":"int16","out_of_range":"wrap"}"#, "uint64"),
    case(
        "cast_value",
        r#"{"data_type":"float8_e4m3fn","rounding":"towards-zero","scalar_map":{"encode":[["NaN",0]],"decode":[[0,"NaN"]]}}"#,
        "float32",
    ),
    case("transpose", r#"{"order":[1,0]}"#, "int16"),
    case("transpose", r#"{"order":[2,0,1]}"#, "string"),
    case("reshape", r#"{"shape":[-1]}"#, "int16"),
    // Values to bytes.
    case("bytes", r#"{"endian":"big"}"#, "complex128"),
    case("bytes", r#"{"endian":"big"}"#, "[[\"a\",\"<i2\"],[\"b\",\"<f8\",[2,3]],[\"c\",\"|S3\"]]"),
    case("vlen-utf8", "{}", "string"),
    case("vlen-bytes", "{}", "bytes"),
    case("v2.vlen-array", r#"{"dtype":">i4"}"#, "list:>i4"),
    case("v2.json2", "{}", "json"),
    case("v2.json2", r#"{"encoding":"latin-1"}"#, "string"),
    case("v2.json", "{}", "float32"),
    case("v2.msgpack2", "{}", "json"),
    case("v2.msgpack2", "{}", "int64"),
    case("v2.msgpack", r#"{"use_bin_type":false}"#, "null_terminated_bytes:5"),
    case("v2.categorize", r#"{"labels":["a","bb",""],"dtype":"|O","astype":"|u1"}"#, "string"),
    case("v2.categorize", r#"{"labels":["a","bb"],"dtype":"<U4","astype":">i4"}"#, "\"<U4\""),
    case("packbits", r#"{"padding_encoding":"first_byte"}"#, "bool"),
    case("packbits", r#"{"padding_encoding":"last_byte","first_bit":1,"last_bit":2}"#, "int4"),
    case("packbits", r#"{"first_bit":3,"last_bit":11}"#, "complex64"),
    case("packbits", "{}", "float6_e2m3fn"),
    case("v2.pcodec", "{}", "int32"),
    case("numcodecs.pcodec", r#"{"level":3}"#, "float64"),
    case("numcodecs.pcodec", r#"{"equal_pages_up_to":10}"#, "uint8"),
    case("numcodecs.pcodec", "{}", "float16"),
    case(
        "n5_default",
        r#"{"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}}]}"#,
        "uint16",
    ),
    case(
        "n5_default",
        r#"{"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes"},{"name":"gzip","configuration":{"level":1}}]}"#,
        "uint8",
    ),
    case("zfp", r#"{"mode":"reversible"}"#, "int32"),
    case("zfp", r#"{"mode":"reversible"}"#, "float64"),
    case("zfp", r#"{"mode":"fixed_rate","rate":7.5}"#, "float32"),
    case("zfp", r#"{"mode":"fixed_accuracy","tolerance":0.01}"#, "float64"),
    case("zfp", r#"{"mode":"fixed_precision","precision":11}"#, "uint8"),
    case("zfp", r#"{"mode":"expert","minbits":1,"maxbits":13,"maxprec":9,"minexp":-4}"#, "float16"),
    case("v2.zfpy", r#"{"mode":4,"tolerance":0.1,"rate":-1,"precision":-1}"#, "float32"),
    case("v2.zfpy", r#"{"mode":2,"tolerance":-1,"rate":9,"precision":-1}"#, "int64"),
    case("v2.pickle", "{}", "json"),
];

/// Shapes a chunk may have; an input's second byte picks one.
pub const SHAPES: &[&[u64]] = &[
    &[4, 6],
    &[],
    &[1],
    &[7],
    &[100],
    &[3, 5, 2],
    &[64, 64],
    &[2, 3, 4, 5],
    &[1, 1],
    &[3, 100_000],
    &[1, 1, 1, 1, 1, 1, 1, 1, 1],
    &[1 << 20],
    &[1 << 21, 1 << 21],
];

/// Sizes that bytes may be asked to decode to; an input's second byte picks one.
pub const SIZES: &[OutputSize] = &[
    OutputSize::Exact(48),
    OutputSize::AtMost(48),
    OutputSize::Exact(0),
    OutputSize::AtMost(0),
    OutputSize::Exact(1),
    OutputSize::Exact(100),
    OutputSize::AtMost(4096),
    OutputSize::Exact(4096),
    OutputSize::Exact(60),
    OutputSize::AtMost(1 << 20),
    OutputSize::Exact(1 << 20),
    OutputSize::AtMost(1 << 30),
    OutputSize::Exact(1 << 42),
    OutputSize::AtMost(usize::MAX),
    OutputSize::Exact(usize::MAX),
];

/// The type a case names.
pub fn data_type(text: &str) -> Result<DataType> {
    Ok(match text.split_once(':') {
        Some(("list", inner)) => {
            DataType::List(typestr::parse(&Json::string(inner))?.fixed()?.clone().into())
        }
        Some((_, n)) if text.starts_with("null") => DataType::FixedBytes(n.parse().unwrap_or(1)),
        _ if text == "json" => DataType::Json,
        _ if text.starts_with(['[', '"']) => {
            typestr::parse(&Json::parse(text.as_bytes())?.value)?.fixed()?.clone()
        }
        _ => v3::data_type(&Json::string(text), "", &mut Findings::new(Mode::Tolerant, "/"))?.0,
    })
}

impl Case {
    /// The codec, for elements of this type. An error is a mistake in [`CASES`], but for pickles.
    pub fn build(&self, strict: bool) -> Result<(Codec, DataType)> {
        let data_type = data_type(self.data_type)?;
        let config = Json::parse(self.config.as_bytes())?.value;
        let config = config.members().unwrap_or_default();
        let codec = build(&CodecRequest { name: self.name, config, strict, data_type: &data_type })?;
        Ok((codec, data_type))
    }
}

/// A chunk of `shape`.
pub fn repr(shape: &[u64], data_type: &DataType) -> Repr {
    Repr { shape: shape.to_vec(), data_type: data_type.clone(), fill: Fill::zero(data_type) }
}

/// An encoding of some data with each case.
pub fn seeds() -> Vec<Seed> {
    let mut out = Vec::new();
    for (i, case) in CASES.iter().enumerate() {
        let (codec, data_type) = match case.build(false) {
            Ok(built) => built,
            Err(e) => {
                assert!(case.name.contains("pickle"), "{} {}: {e}", case.name, case.config);
                continue;
            }
        };
        let head = u8::try_from(i).unwrap_or(u8::MAX);
        let mut add = |variant: usize, bytes: Vec<u8>| {
            let mut seed = vec![head, u8::try_from(variant).unwrap_or(0)];
            seed.extend(bytes);
            out.push((format!("{}-{i}-{variant}", case.name.replace(['/', ':'], "_")), seed));
        };
        let mut noise = Noise(u64::try_from(i).unwrap_or(0));
        match codec {
            Codec::Bytes(codec) => {
                for variant in [0, 5, 7, 8, 10] {
                    let n = SIZES.get(variant).map_or(0, |s| s.limit()).min(1 << 16);
                    if let Ok(bytes) = codec.encode(&noise.bytes(n)) {
                        if bytes.len() < 5000 {
                            add(variant, bytes);
                        }
                    }
                }
                if let Ok(bytes) = codec.encode(&vec![0; 1 << 20]) {
                    if bytes.len() < 5000 {
                        add(10, bytes);
                    }
                }
            }
            Codec::ToBytes(codec) => {
                for (variant, shape) in SHAPES.iter().enumerate().take(8) {
                    let repr = repr(shape, &data_type);
                    if let Some(chunk) = chunk(&mut noise, &repr)
                        && let Ok(bytes) = codec.encode(&chunk, &repr)
                        && bytes.len() < 5000
                    {
                        add(variant, bytes);
                    }
                }
            }
            Codec::Array(codec) => {
                for (variant, shape) in SHAPES.iter().enumerate().take(6) {
                    let repr = repr(shape, &data_type);
                    if let Ok(encoded) = codec.encoded(&repr)
                        && let Some(chunk) = chunk(&mut noise, &repr)
                        && let Ok(bytes) = codec.encode(chunk, &repr, &encoded)
                    {
                        add(variant, bytes.bytes);
                    }
                }
            }
        }
    }
    out
}

/// A chunk of plausible values.
pub fn chunk(noise: &mut Noise, repr: &Repr) -> Option<Buffer> {
    let count = repr.count().ok()?;
    let text: &[&[u8]] = match repr.data_type {
        DataType::Json => &[b"null", b"[1,{\"a\":2.5}]", b"\"x\""],
        DataType::String => &[b"a", b"", b"bb"],
        DataType::Bytes => &[b"\0\xff", b""],
        DataType::List(_) => &[b"", b"\x01\0\0\0\x02\0\0\0"],
        DataType::FixedUtf32(n) => {
            let one: Vec<u8> = std::iter::repeat_n([97u8, 0, 0, 0], n).flatten().collect();
            return Some(Buffer::fixed(one.repeat(count)));
        }
        DataType::FixedBytes(_) => return Some(Buffer::fixed(vec![97; repr.byte_size().ok()?])),
        DataType::Bool => return Some(Buffer::fixed((0..count).map(|i| u8::from(i % 3 == 0)).collect())),
        _ => return Some(Buffer::fixed(noise.bytes(repr.byte_size().ok()?))),
    };
    Buffer::variable(text.iter().copied().cycle().take(count)).ok()
}
