//! The registry of codec names, built-in and custom.
//!
//! Three spellings meet here: V3 names (`gzip`), the `numcodecs.*` names that V3 writers use for V2's codecs, and
//! `v2.*`, the names `meta` gives to V2's filters and compressors when it lowers them. V2's typed filters (`v2.delta`)
//! work on bytes with a byte order of their own, which is what they are in V2; `numcodecs.delta` works on values.
//!
//! Custom codecs ([`register`]) are looked up when a chain is built and the name is not built-in, so that they cost
//! nothing where they are not used.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::base64::Base64;
use super::blosc::Blosc;
use super::bz2::Bz2;
use super::checksum::ChecksumCodec;
use super::config::Config;
use super::gzip::Gzip;
use super::lz4::Lz4;
use super::lzf::Lzf;
use super::lzma::Lzma;
use super::lzw::Lzw;
use super::record_member::RecordMember;
use super::shuffle::Shuffle;
use super::tiff_packbits::TiffPackBits;
use super::tiff_predictor::TiffPredictor;
use super::zlib::Zlib;
use super::zstd::Zstd;
use super::{
    BytesToBytes, Codec, bitround, bool_bits, bytes, cast_value, categorize, decode_only, delta,
    fixed_scale_offset, n5_default, objects, packbits, pcodec, quantize, reshape, scale_offset, transpose,
    vlen, zfp,
};
use crate::error::{Error, Result, unsupported, usage};
use crate::meta::chain::{self, CodecKind};
use crate::meta::dtype::DataType;
use crate::meta::json::Json;

/// What the metadata says of one codec.
#[derive(Debug, Clone, PartialEq)]
pub struct CodecRequest<'a> {
    /// Its name.
    pub name: &'a str,
    /// The members of its configuration.
    pub config: &'a [(String, Json)],
    /// Whether the metadata are held to the letter.
    pub strict: bool,
    /// The type of the array's elements where this codec stands, for codecs whose form depends on it.
    pub data_type: &'a DataType,
}

/// Makes the codec that `request` names. An unknown name is [`ErrorKind::Unsupported`](crate::ErrorKind).
pub fn build(request: &CodecRequest<'_>) -> Result<Codec> {
    let within = |e: Error| e.within(format_args!("codec {}", shown(request.name)));
    let why = match make(request, &Config::new(request.config)) {
        Err(why) if !request.strict => why,
        made => return made.map_err(within),
    };
    // Settings that only a writer needs must not keep a reader out.
    let config = decode_only::for_reading(request);
    let made = config.and_then(|config| make(request, &Config::new(&config)).ok());
    made.map(|codec| decode_only::decode_only(codec, &why)).ok_or(why).map_err(within)
}

/// A codec of a user's, by what the metadata says of it.
type Make = Arc<dyn Fn(&CodecRequest<'_>) -> Result<Codec> + Send + Sync>;

static REGISTERED: RwLock<BTreeMap<String, Make>> = RwLock::new(BTreeMap::new());

/// Makes a codec of your own known to this process, for reading and for writing.
///
/// `name` is what V3's metadata call it, or the `id` of V2's. `kind` says where it stands in a chain. `make` is called
/// when an array is opened or made that uses it, with the configuration that its metadata hold; what it gives is shared
/// by all threads that decode.
///
/// # Errors
/// If the name is that of a codec of zaro's, or was registered before.
pub fn register(
    name: &str,
    kind: CodecKind,
    make: impl Fn(&CodecRequest<'_>) -> Result<Codec> + Send + Sync + 'static,
) -> Result<()> {
    let request = CodecRequest { name, config: &[], strict: false, data_type: &DataType::UINT8 };
    // Ours complain of missing settings, if of anything.
    let ours = builtin(&request, &Config::new(&[])).map_or(true, |codec| codec.is_some());
    if ours || name == "sharding_indexed" || name != shown(name) {
        return Err(usage!("{name:?} is the name of a built-in codec"));
    }
    let mut all = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if all.contains_key(name) {
        return Err(usage!("a codec {name:?} is already registered"));
    }
    let checked = move |request: &CodecRequest<'_>| {
        let codec = make(request)?;
        let found = match &codec {
            Codec::Array(_) => CodecKind::Array,
            Codec::ToBytes(_) => CodecKind::ToBytes,
            Codec::Bytes(_) => CodecKind::Bytes,
        };
        if found != kind {
            return Err(usage!("it was registered as {kind:?}, but is {found:?}"));
        }
        Ok(codec)
    };
    all.insert(name.to_owned(), Arc::new(checked));
    chain::declare(name, kind);
    Ok(())
}

fn make(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    if let Some(codec) = builtin(request, config)? {
        return Ok(codec);
    }
    let name = shown(request.name);
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    match registered {
        Some(make) => make(request),
        None => Err(unsupported!("unknown codec {name:?}")),
    }
}

/// A codec of ours; `None` if it is none.
fn builtin(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Option<Codec>> {
    Ok(Some(match request.name {
        "bytes" => Codec::ToBytes(Box::new(bytes::Bytes::from_config(config)?)),
        "transpose" => Codec::Array(Box::new(transpose::Transpose::from_config(config, request.strict)?)),
        // Elements of variable length.
        "vlen-utf8" | "v2.vlen-utf8" | "numcodecs.vlen-utf8" => to_bytes(vlen::Vlen::utf8()),
        "vlen-bytes" | "v2.vlen-bytes" | "numcodecs.vlen-bytes" => to_bytes(vlen::Vlen::bytes()),
        "v2.vlen-array" | "numcodecs.vlen-array" => to_bytes(vlen::Vlen::array(config)?),
        "v2.json2" | "numcodecs.json2" => to_bytes(objects::ObjectsCodec::json(config, true)?),
        "v2.json" => to_bytes(objects::ObjectsCodec::json(config, false)?),
        "v2.msgpack2" | "numcodecs.msgpack2" => to_bytes(objects::ObjectsCodec::msgpack(config, true)?),
        "v2.msgpack" => to_bytes(objects::ObjectsCodec::msgpack(config, false)?),

        // Filters over numbers.
        "v2.delta" | "numcodecs.delta" => delta::from_config(request, config)?,
        "v2.fixedscaleoffset" | "numcodecs.fixedscaleoffset" => {
            fixed_scale_offset::from_config(request, config)?
        }
        "v2.quantize" | "numcodecs.quantize" => quantize::quantize(request, config)?,
        "v2.astype" | "numcodecs.astype" => quantize::astype(request, config)?,
        "bitround" | "numcodecs.bitround" | "v2.bitround" => bitround::from_config(request, config)?,
        "v2.packbits" | "numcodecs.packbits" => bool_bits::make(request),
        "v2.categorize" => to_bytes(categorize::Categorize::from_config(config)?),

        // V3 over values.
        "packbits" => to_bytes(packbits::PackBits::from_config(config)?),
        "scale_offset" => Codec::Array(Box::new(scale_offset::ScaleOffset::from_config(request, config)?)),
        "cast_value" => Codec::Array(Box::new(cast_value::CastValue::from_config(request, config)?)),
        "v2.pcodec" | "numcodecs.pcodec" => pcodec::from_config(request, config)?,
        "n5_default" => to_bytes(n5_default::N5Default::from_config(request, config)?),
        "reshape" => Codec::Array(Box::new(reshape::Reshape::from_config(config)?)),

        "zfp" | "zarrs.zfp" | "https://codec.zarrs.dev/array_to_bytes/zfp" => {
            Codec::ToBytes(Box::new(zfp::Zfp::from_config(config, request.strict)?))
        }
        "v2.zfpy" | "numcodecs.zfpy" | "https://codec.zarrs.dev/array_to_bytes/zfpy" => {
            Codec::ToBytes(Box::new(zfp::Zfp::from_numcodecs(config)?))
        }

        "grib" | "numcodecs.grib" | "kerchunk.grib" | "v2.grib" => image::grib(request, config)?,
        "gribberish" | "numcodecs.gribberish" | "v2.gribberish" => image::grib(request, config)?,
        "v2.gribscan.rawgrib" | "v2.rawgrib" => image::grib(request, config)?,

        "v2.pickle" | "numcodecs.pickle" => {
            return Err(Error::unsupported("pickles can run arbitrary code and are never read"));
        }
        _ => match bytes_codec(request, config)? {
            Some(codec) => Codec::Bytes(codec),
            None => return Ok(None),
        },
    }))
}

/// The codecs of the feature `grib`.
#[cfg(feature = "grib")]
mod image {
    use super::{BytesToBytes, Config, Result};
    use crate::codec::image::{Jpeg2k, PngImage};

    pub(super) use crate::codec::grib::from_config as grib;

    pub(super) fn png() -> Result<Box<dyn BytesToBytes>> {
        Ok(Box::new(PngImage))
    }

    pub(super) fn jpeg2k(config: &Config<'_>) -> Result<Box<dyn BytesToBytes>> {
        Ok(Box::new(Jpeg2k::from_config(config)?))
    }
}

/// What is left of them without it.
#[cfg(not(feature = "grib"))]
mod image {
    use super::{BytesToBytes, Codec, CodecRequest, Config, Error, Result};

    fn left_out<T>() -> Result<T> {
        Err(Error::without("grib"))
    }

    pub(super) fn grib(_: &CodecRequest<'_>, _: &Config<'_>) -> Result<Codec> {
        left_out()
    }

    pub(super) fn png() -> Result<Box<dyn BytesToBytes>> {
        left_out()
    }

    pub(super) fn jpeg2k(_: &Config<'_>) -> Result<Box<dyn BytesToBytes>> {
        left_out()
    }
}

fn to_bytes(codec: impl super::ArrayToBytes + 'static) -> Codec {
    Codec::ToBytes(Box::new(codec))
}

/// The codecs between byte strings, which are the same under all their spellings: V3's own, `numcodecs.<id>` and
/// `v2.<id>`. Where V3's text asks for more than numcodecs does, it does so of V3's own spelling alone.
fn bytes_codec(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Option<Box<dyn BytesToBytes>>> {
    let foreign = request.name.strip_prefix("v2.").or_else(|| request.name.strip_prefix("numcodecs."));
    let strict = request.strict && foreign.is_none();
    Ok(Some(match foreign.unwrap_or(request.name) {
        "blosc" => {
            // Elements of variable length have become plain bytes by then.
            let element = if request.data_type.is_variable() { 1 } else { request.data_type.size() };
            Box::new(Blosc::from_config(config, element, strict)?)
        }
        "gzip" => Box::new(Gzip::from_config(config, strict)?),
        "zstd" | "imagecodecs_zstd" => Box::new(Zstd::from_config(config, strict && request.name == "zstd")?),
        "crc32c" if foreign.is_none() => Box::new(ChecksumCodec::crc32c()),
        "crc32c" => Box::new(ChecksumCodec::crc32c_at(config)?),
        "crc32" => Box::new(ChecksumCodec::crc32(config)?),
        "adler32" => Box::new(ChecksumCodec::adler32(config)?),
        "fletcher32" => Box::new(ChecksumCodec::fletcher32()),
        "jenkins_lookup3" => Box::new(ChecksumCodec::jenkins(config)?),
        "zlib" => Box::new(Zlib::from_config(config)?),
        "imagecodecs_zlib" | "imagecodecs_deflate" => Box::new(Zlib::imagecodecs(config)?),
        "deflate" => Box::new(Zlib::deflate(config)?),
        "lz4" => Box::new(Lz4::from_config(config)?),
        "imagecodecs_lz4" => Box::new(Lz4::imagecodecs(config)?),
        "imagecodecs_lz4h5" => Box::new(Lz4::hdf5(config)?),
        "bz2" | "imagecodecs_bz2" => Box::new(Bz2::from_config(config)?),
        "lzma" => Box::new(Lzma::from_config(config)?),
        "imagecodecs_lzma" => Box::new(Lzma::xz()),
        "imagecodecs_lzf" => Box::new(Lzf::from_config(config)?),
        "imagecodecs_lzw" => Box::new(Lzw),
        "imagecodecs_packbits" => Box::new(TiffPackBits),
        "imagecodecs_delta" => Box::new(TiffPredictor::delta(config)?),
        "imagecodecs_floatpred" => Box::new(TiffPredictor::float(config)?),
        "imagecodecs_png" => image::png()?,
        "imagecodecs_jpeg2k" => image::jpeg2k(config)?,
        "record_member" => Box::new(RecordMember::from_config(config)?),
        "shuffle" => Box::new(Shuffle::from_config(config)?),
        "base64" => Box::new(Base64),
        _ => return Ok(None),
    }))
}

/// A codec's name as its writer spelled it.
#[must_use]
pub(crate) fn shown(name: &str) -> &str {
    name.strip_prefix("v2.").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, strict: bool) -> Result<Codec> {
        build(&CodecRequest { name, config: &[], strict, data_type: &DataType::UInt(16) })
    }

    #[test]
    fn byte_codecs_have_three_spellings() {
        let names = "adler32 base64 blosc bz2 crc32 crc32c deflate fletcher32 gzip imagecodecs_bz2 imagecodecs_deflate \
                     imagecodecs_delta imagecodecs_lz4 imagecodecs_lz4h5 imagecodecs_lzf imagecodecs_lzma \
                     imagecodecs_lzw imagecodecs_packbits imagecodecs_zlib imagecodecs_zstd jenkins_lookup3 lz4 \
                     lzma shuffle zlib zstd";
        for name in names.split_whitespace() {
            for spelling in [name.to_owned(), format!("numcodecs.{name}"), format!("v2.{name}")] {
                assert!(matches!(kind(&spelling, false), Ok(Codec::Bytes(_))), "{spelling}");
            }
        }
        assert!(kind("v2.imagecodecs_floatpred", false).is_err_and(|e| e.message().contains("dtype")));
    }

    #[test]
    fn strictness_is_for_v3s_own_names() {
        for name in ["gzip", "zstd", "blosc"] {
            assert!(kind(name, true).is_err(), "{name}");
            assert!(kind(&format!("numcodecs.{name}"), true).is_ok());
            assert!(kind(&format!("v2.{name}"), true).is_ok());
        }
        assert!(kind("crc32c", true).is_ok());
        assert!(kind("no-such", true).is_err_and(|e| e.kind() == crate::ErrorKind::Unsupported));
    }
}
