//! The one list of codec names.
//!
//! Three spellings meet here: V3 names (`gzip`), the `numcodecs.*` names that V3 writers use for V2's codecs, and
//! `v2.*`, the names `meta` gives to V2's filters and compressors when it lowers them. V2's typed filters (`v2.delta`)
//! work on bytes with a byte order of their own, which is what they are in V2; `numcodecs.delta` works on values.

use super::blosc::Blosc;
use super::checksum::Checksum;
use super::config::Config;
use super::gzip::Gzip;
use super::zlib::Zlib;
use super::zstd::Zstd;
use super::{BytesToBytes, Codec, bytes, delta, fixed_scale_offset, objects, quantize, transpose, vlen};
use crate::error::{Error, Result};
use crate::meta::dtype::DataType;
use crate::meta::json::Json;

/// What the metadata says of one codec.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
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
pub fn build(request: &Request<'_>) -> Result<Codec> {
    let config = Config::new(request.config);
    make(request, &config).map_err(|e| e.within(format_args!("codec {}", shown(request.name))))
}

fn make(request: &Request<'_>, config: &Config<'_>) -> Result<Codec> {
    Ok(match request.name {
        "bytes" => Codec::ToBytes(Box::new(bytes::Bytes::from_config(config)?)),
        "transpose" => Codec::Array(Box::new(transpose::Transpose::from_config(config, request.strict)?)),
        // Elements of variable length.
        "vlen-utf8" | "v2.vlen-utf8" | "numcodecs.vlen-utf8" => to_bytes(vlen::Vlen::utf8()),
        "vlen-bytes" | "v2.vlen-bytes" | "numcodecs.vlen-bytes" => to_bytes(vlen::Vlen::bytes()),
        "v2.vlen-array" | "numcodecs.vlen-array" => to_bytes(vlen::Vlen::array(config)?),
        "v2.json2" | "numcodecs.json2" => to_bytes(objects::Objects::json(config, true)?),
        "v2.json" => to_bytes(objects::Objects::json(config, false)?),
        "v2.msgpack2" | "numcodecs.msgpack2" => to_bytes(objects::Objects::msgpack(config, true)?),
        "v2.msgpack" => to_bytes(objects::Objects::msgpack(config, false)?),

        // Filters over numbers.
        "v2.delta" | "numcodecs.delta" => delta::from_config(request, config)?,
        "v2.fixedscaleoffset" | "numcodecs.fixedscaleoffset" => {
            fixed_scale_offset::from_config(request, config)?
        }
        "v2.quantize" | "numcodecs.quantize" => quantize::quantize(request, config)?,
        "v2.astype" | "numcodecs.astype" => quantize::astype(request, config)?,

        "v2.pickle" | "numcodecs.pickle" => {
            return Err(Error::unsupported("pickles can run any program when read; zaro never reads them"));
        }
        name => match bytes_codec(request, config)? {
            Some(codec) => Codec::Bytes(codec),
            None => return Err(Error::unsupported(format!("{:?} is not a codec zaro knows", shown(name)))),
        },
    })
}

fn to_bytes(codec: impl super::ArrayToBytes + 'static) -> Codec {
    Codec::ToBytes(Box::new(codec))
}

/// The codecs between byte strings, which are the same under all their spellings: V3's own, `numcodecs.<id>` and
/// `v2.<id>`. Where V3's text asks for more than numcodecs does, it does so of V3's own spelling alone.
fn bytes_codec(request: &Request<'_>, config: &Config<'_>) -> Result<Option<Box<dyn BytesToBytes>>> {
    let foreign = request.name.strip_prefix("v2.").or_else(|| request.name.strip_prefix("numcodecs."));
    let strict = request.strict && foreign.is_none();
    Ok(Some(match foreign.unwrap_or(request.name) {
        "blosc" => Box::new(Blosc::from_config(config, request.data_type.size(), strict)?),
        "gzip" => Box::new(Gzip::from_config(config, strict)?),
        "zstd" | "imagecodecs_zstd" => Box::new(Zstd::from_config(config, strict && request.name == "zstd")?),
        "crc32c" if foreign.is_none() => Box::new(Checksum::crc32c()),
        "crc32c" => Box::new(Checksum::crc32c_at(config)?),
        "crc32" => Box::new(Checksum::crc32(config)?),
        "adler32" => Box::new(Checksum::adler32(config)?),
        "fletcher32" => Box::new(Checksum::fletcher32()),
        "jenkins_lookup3" => Box::new(Checksum::jenkins(config)?),
        "zlib" | "imagecodecs_zlib" | "imagecodecs_deflate" => Box::new(Zlib::from_config(config)?),
        "deflate" => Box::new(Zlib::deflate(config)?),
        _ => return Ok(None),
    }))
}

/// A codec's name as its writer spelled it.
#[must_use]
pub fn shown(name: &str) -> &str {
    name.strip_prefix("v2.").unwrap_or(name)
}
