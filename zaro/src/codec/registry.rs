//! The one list of codec names.
//!
//! Three spellings meet here: V3 names (`gzip`), the `numcodecs.*` names that V3 writers use for V2's codecs, and
//! `v2.*`, the names `meta` gives to V2's filters and compressors when it lowers them. V2's typed filters (`v2.delta`)
//! work on bytes with a byte order of their own, which is what they are in V2; `numcodecs.delta` works on values.

use super::config::Config;
use super::{Codec, bytes, transpose, zfp};
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
        "zfp" | "zarrs.zfp" | "https://codec.zarrs.dev/array_to_bytes/zfp" => {
            Codec::ToBytes(Box::new(zfp::Zfp::from_config(config, request.strict)?))
        }
        "v2.zfpy" | "numcodecs.zfpy" | "https://codec.zarrs.dev/array_to_bytes/zfpy" => {
            Codec::ToBytes(Box::new(zfp::Zfp::from_numcodecs(config)?))
        }
        "v2.pickle" | "numcodecs.pickle" => {
            return Err(Error::unsupported("pickles can run any program when read; zaro never reads them"));
        }
        name => return Err(Error::unsupported(format!("{:?} is not a codec zaro knows", shown(name)))),
    })
}

/// A codec's name as its writer spelled it.
#[must_use]
pub fn shown(name: &str) -> &str {
    name.strip_prefix("v2.").unwrap_or(name)
}
