//! The storage options of new arrays, for `zaro create` and `zaro write --create`.

use clap::Args;
use zaro::internal::dtype;
use zaro::meta::{ChunkKeys, DataType, Endian, Format, Json, NewArray, default_chunks};
use zaro::{Error, Result};

use crate::path::word;
use crate::storage::{Shards, Storage, lengths};

/// How an array is stored.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Making {
    /// Data type: float32, uint16, string, '<i2', datetime64[s], or JSON
    #[arg(long, value_name = "TYPE", help_heading = "How it is stored")]
    pub(crate) dtype: Option<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
    /// Fill value for elements that were never written: a number, NaN, bits such as 0x7fc00000, a text, a date [default: 0]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, help_heading = "How it is stored")]
    pub(crate) fill: Option<String>,
    /// Byte order [default: little, or what TYPE says]
    #[arg(long, value_parser = word(ORDERS), value_name = "little|big", hide_possible_values = true, help_heading = "How it is stored")]
    pub(crate) endian: Option<Endian>,
    /// Separator in chunk keys [default: / in V3, . in V2]
    #[arg(long, value_name = "/|.", value_parser = parse_separator, help_heading = "How it is stored")]
    pub(crate) separator: Option<char>,
    /// Chunk key encoding: default (c/0/0) or v2 (0.0) [default: that of the version]
    #[arg(long, value_parser = word(PREFIXED), value_name = "default|v2", hide_possible_values = true, help_heading = "How it is stored")]
    pub(crate) key_encoding: Option<bool>,
    /// Dimension names, e.g. time,lat,lon; leave one empty for none
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "How it is stored")]
    pub(crate) dims: Option<Vec<String>>,
    /// Attributes: a JSON object, or @FILE to take it from a file
    #[arg(long, value_name = "JSON|@FILE", help_heading = "How it is stored")]
    pub(crate) attrs: Option<String>,
}

/// The values of `--endian`.
const ORDERS: &[(&str, &str, Endian)] = &[("little", "", Endian::Little), ("big", "", Endian::Big)];

/// The values of `--key-encoding`: whether keys begin with `c`.
pub(crate) const PREFIXED: &[(&str, &str, bool)] = &[("default", "", true), ("v2", "", false)];

/// Extents as a single argument, so that a path after them is not taken as another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extents(pub(crate) Vec<u64>);

/// `6,4`; nothing, or `()`, for a scalar.
pub(crate) fn parse_extents(text: &str) -> std::result::Result<Extents, String> {
    let text = text.trim();
    if matches!(text, "" | "()") {
        return Ok(Extents(Vec::new()));
    }
    let extent = |n: &str| {
        n.trim().parse().map_err(|_| "expected one whole number per dimension, such as 365,180,360".into())
    };
    text.split(',').map(extent).collect::<std::result::Result<_, String>>().map(Extents)
}

pub(crate) fn parse_separator(text: &str) -> std::result::Result<char, String> {
    match text {
        "/" => Ok('/'),
        "." => Ok('.'),
        _ => Err("the separator must be / or .".into()),
    }
}

impl Making {
    /// The data type asked for, and the byte order its name gives.
    pub(crate) fn data_type(&self) -> Result<Option<(DataType, Option<Endian>)>> {
        self.dtype.as_deref().map(dtype::parse).transpose()
    }

    /// Applies these options to `new`, whose shape and type are set.
    pub(crate) fn apply(&self, new: &mut NewArray) -> Result<()> {
        if let Some(dims) = &self.dims {
            let name = |n: &String| (!n.is_empty()).then(|| n.clone());
            new.dimension_names = Some(dims.iter().map(name).collect());
        }
        let names = new.dimension_names.clone().unwrap_or_default();
        let usual = new.chunks.clone().unwrap_or_else(|| default_chunks(&new.shape, &new.data_type));
        if let Some(chunks) = &self.storage.chunks {
            new.chunks = Some(lengths(chunks, &names, usual.clone())?);
        }
        if let Some(Shards(shards)) = &self.storage.shards {
            let usual = new.shards.clone().or_else(|| new.chunks.clone()).unwrap_or(usual);
            new.shards = shards.as_ref().map(|s| lengths(s, &names, usual)).transpose()?;
        }
        if let Some(codecs) = self.storage.codecs()? {
            new.codecs = Some(codecs);
        }
        if let Some(fill) = &self.fill {
            new.fill = Some(dtype::fill(&new.data_type, fill)?);
        }
        if let Some(endian) = self.endian {
            new.endian = endian;
        }
        if self.separator.is_some() || self.key_encoding.is_some() {
            let prefixed = self.key_encoding.unwrap_or(new.format == Format::V3);
            let usual = if prefixed { '/' } else { '.' };
            new.keys = Some(ChunkKeys { prefixed, separator: self.separator.unwrap_or(usual) });
        }
        if let Some(attributes) = &self.attrs {
            new.attributes = attributes_of(attributes)?;
        }
        Ok(())
    }
}

/// Parses a JSON object, or the file after an `@`.
pub(crate) fn attributes_of(text: &str) -> Result<Vec<(String, Json)>> {
    let value = match text.strip_prefix('@') {
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|e| Error::from(e).within(path))?;
            Json::parse(&bytes).map_err(|e| e.within(path))?.value
        }
        None => {
            Json::parse(text.as_bytes())
                .map_err(|e| Error::usage(e.message()).with_field("attributes"))?
                .value
        }
    };
    match value {
        Json::Object(members) => Ok(members),
        other => Err(Error::usage(format!(
            "attributes must be an object such as {{\"units\": \"K\"}}, not {}",
            other.kind()
        ))),
    }
}
