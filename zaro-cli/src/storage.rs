//! Chunk, shard and codec options, shared by every command that creates arrays.

use clap::Args;
use zaro::copy::Sizes;
use zaro::meta::{CodecMeta, parse_codecs};
use zaro::{Error, Result};

/// Chunk shape, shard shape and codecs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Storage {
    /// Chunk shape: 10,64,64, or some dimensions by name: time=100,lat=10 [default: that of the source, or up to 1 MiB]
    #[arg(long, value_name = "SIZES", value_parser = parse_sizes, help_heading = "How it is stored")]
    pub(crate) chunks: Option<Sizes>,
    /// Shard shape, a multiple of the chunk shape, in the same form; none for no shards; V3 only
    #[arg(long, value_name = "SIZES|none", value_parser = parse_shards, help_heading = "How it is stored")]
    pub(crate) shards: Option<Shards>,
    /// Codecs: zstd:5, gzip, blosc:lz4:5:shuffle, zstd+crc32c, none, or JSON [default: those of the source, or zstd]
    #[arg(long, value_name = "CODECS", help_heading = "How it is stored")]
    pub(crate) codec: Option<String>,
}

/// Shards, or none.
#[derive(Debug, Clone)]
pub(crate) struct Shards(pub(crate) Option<Sizes>);

impl Storage {
    /// The codecs asked for.
    pub(crate) fn codecs(&self) -> Result<Option<Vec<CodecMeta>>> {
        self.codec.as_deref().map(parse_codecs).transpose()
    }

    /// The chunks asked for, of an image.
    pub(crate) fn chunk_list(&self) -> Result<Option<Vec<u64>>> {
        self.chunks.as_ref().map(list).transpose()
    }

    /// The shards asked for, of an image; `Some(None)` for no shards.
    pub(crate) fn shard_list(&self) -> Result<Option<Option<Vec<u64>>>> {
        self.shards.as_ref().map(|s| s.0.as_ref().map(list).transpose()).transpose()
    }
}

fn list(sizes: &Sizes) -> Result<Vec<u64>> {
    match sizes {
        Sizes::List(list) => Ok(list.clone()),
        Sizes::Named(_) => Err(Error::usage("for an image, give one length per axis, such as 1,512,512")),
    }
}

/// The lengths along dimensions of these names; `old` for those that are not given.
pub(crate) fn lengths(sizes: &Sizes, names: &[Option<String>], old: Vec<u64>) -> Result<Vec<u64>> {
    let named = match sizes {
        Sizes::List(list) => return Ok(list.clone()),
        Sizes::Named(named) => named,
    };
    let mut out = old;
    for (name, length) in named {
        let place = names.iter().position(|n| n.as_ref() == Some(name)).and_then(|d| out.get_mut(d));
        *place.ok_or_else(|| {
            Error::usage(format!("there is no dimension {name:?}; name them with --dims"))
        })? = *length;
    }
    Ok(out)
}

fn parse_sizes(text: &str) -> std::result::Result<Sizes, String> {
    let length = |n: &str| match n.trim().parse::<u64>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{n:?} is not a length")),
    };
    if !text.contains('=') {
        return text.split(',').map(length).collect::<std::result::Result<_, _>>().map(Sizes::List);
    }
    let named = text.split(',').map(|part| {
        let (name, n) = part.split_once('=').ok_or_else(|| format!("expected NAME=LENGTH, not {part:?}"))?;
        Ok((name.trim().to_owned(), length(n)?))
    });
    named.collect::<std::result::Result<_, String>>().map(Sizes::Named)
}

fn parse_shards(text: &str) -> std::result::Result<Shards, String> {
    if text == "none" { Ok(Shards(None)) } else { parse_sizes(text).map(|s| Shards(Some(s))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_or_names() {
        assert_eq!(parse_sizes("3,4").unwrap(), Sizes::List(vec![3, 4]));
        let named = parse_sizes("t=3").unwrap();
        assert_eq!(named, Sizes::Named(vec![("t".into(), 3)]));
        assert_eq!(lengths(&named, &[None, Some("t".into())], vec![7, 8]).unwrap(), [7, 3]);
        assert!(lengths(&named, &[None], vec![7]).is_err());
        for bad in ["", "0", "a", "t=", "3,t=4"] {
            assert!(parse_sizes(bad).is_err(), "{bad}");
        }
    }
}
