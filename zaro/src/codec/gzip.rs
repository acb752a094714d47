//! `gzip`: RFC 1952.
//!
//! V3: `{"name": "gzip", "configuration": {"level": 5}}`, level 0 to 9. V2: `{"id": "gzip", "level": 1}`.
//!
//! A file may have several members, which decode to one string; zeros after the last are padding.

use libdeflater::{CompressionLvl, Compressor};

use super::config::Config;
use super::inflate::{InflateOutcome, RATIO, Wrapper, inflate};
use super::{BytesToBytes, OutputSize, output};
use crate::error::{Error, Result, invalid};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gzip {
    level: i32,
}

impl Gzip {
    /// From its configuration. `strict` asks for what V3's text asks for: the level must be there.
    pub(crate) fn from_config(config: &Config<'_>, strict: bool) -> Result<Self> {
        if strict {
            config.need("level")?;
        }
        // V3's text has no -1; zlib, and numcodecs with it, has.
        Ok(Self { level: level(config, 1, if strict { 0 } else { -1 })? })
    }
}

/// The member `level`: `least` to 9, where -1 stands for what zlib calls its default, 6.
pub(crate) fn level(config: &Config<'_>, default: i32, least: i32) -> Result<i32> {
    match config.int("level")?.map(i32::try_from) {
        None => Ok(default),
        Some(Ok(-1)) if least < 0 => Ok(6),
        Some(Ok(n)) if (least.max(0)..=9).contains(&n) => Ok(n),
        _ => Err(invalid!("\"level\" must be {least} to 9").with_field("level")),
    }
}

/// A compressor for a level that [`level`] has checked.
pub(crate) fn compressor(level: i32) -> Compressor {
    Compressor::new(CompressionLvl::new(level).unwrap_or_default())
}

/// Decodes all members; `None` if `out` is too small.
fn members(bytes: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    let mut rest = bytes;
    let mut at = 0;
    loop {
        match inflate(Wrapper::Gzip, rest, out.get_mut(at..).unwrap_or_default())? {
            InflateOutcome::Full => return Ok(None),
            InflateOutcome::Done { read, written } => {
                at += written;
                rest = rest.get(read..).unwrap_or_default();
            }
        }
        if rest.iter().all(|b| *b == 0) {
            return Ok(Some(at));
        }
    }
}

/// The length the last member states; a good guess, since there is mostly one.
fn stated(bytes: &[u8]) -> usize {
    bytes.last_chunk::<4>().map_or(0, |n| usize::try_from(u32::from_le_bytes(*n)).unwrap_or(0))
}

impl BytesToBytes for Gzip {
    fn name(&self) -> &'static str {
        "gzip"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        output::whole(size, bytes.len(), RATIO, stated(bytes), |out| members(bytes, out))
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        output::whole_into(out, |out| members(bytes, out))
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut compressor = compressor(self.level);
        let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
        let n = compressor
            .gzip_compress(bytes, &mut out)
            .map_err(|e| Error::invalid("gzip compression failed").with_source(e))?;
        out.truncate(n);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_are_read_and_padding_is_not_one() {
        let gzip = Gzip { level: 5 };
        let mut file = gzip.encode(b"one ").unwrap();
        file.extend(gzip.encode(b"").unwrap());
        file.extend(gzip.encode(b"two").unwrap());
        for size in [OutputSize::Exact(7), OutputSize::AtMost(7), OutputSize::AtMost(1 << 20)] {
            assert_eq!(gzip.decode(&file, size).unwrap(), b"one two");
        }
        for size in [OutputSize::Exact(6), OutputSize::Exact(8), OutputSize::AtMost(6)] {
            assert!(gzip.decode(&file, size).is_err());
        }
        file.extend([0; 9]);
        assert_eq!(gzip.decode(&file, OutputSize::Exact(7)).unwrap(), b"one two");
        file.push(1);
        assert!(gzip.decode(&file, OutputSize::Exact(7)).is_err());
        assert!(gzip.decode(b"", OutputSize::Exact(0)).is_err());
    }
}
