//! `zlib`: RFC 1950, and raw `deflate`, RFC 1951.
//!
//! V2: `{"id": "zlib", "level": 1}`, level 0 to 9 or -1; V3 writers name it `numcodecs.zlib`. TIFF references say
//! `imagecodecs_zlib` or `imagecodecs_deflate` and mean the same. Bytes after the stream are padding.
//!
//! kerchunk's `deflate` is a member of a zip archive, local header included; without that header, bare deflate.

use super::config::Config;
use super::inflate::{InflateOutcome, RATIO, Wrapper, inflate};
use super::{BytesToBytes, OutputSize, gzip, output};
use crate::error::{Error, Result, unsupported};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zlib {
    level: i32,
    bare: bool,
}

impl Zlib {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        Ok(Self { level: gzip::level(config, 1, -1)?, bare: false })
    }

    /// `imagecodecs_deflate`, whose levels reach further, and which `raw` makes bare.
    pub(super) fn imagecodecs(config: &Config<'_>) -> Result<Self> {
        let level = i32::try_from(config.int("level")?.unwrap_or(6).clamp(0, 9)).unwrap_or(6);
        Ok(Self { level, bare: config.bool("raw")?.unwrap_or(false) })
    }

    /// Without zlib's header and checksum; there is nothing to configure.
    pub(super) fn deflate(config: &Config<'_>) -> Result<Self> {
        Ok(Self { level: gzip::level(config, 6, -1)?, bare: true })
    }

    fn run(&self, bytes: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
        let (wrapper, bytes) = if self.bare {
            match zip_member(bytes)? {
                Member::Stored(inside) => {
                    return Ok(out.get_mut(..inside.len()).map(|out| {
                        out.copy_from_slice(inside);
                        inside.len()
                    }));
                }
                Member::Deflated(inside) => (Wrapper::Raw, inside),
            }
        } else {
            (Wrapper::Zlib, bytes)
        };
        Ok(match inflate(wrapper, bytes, out)? {
            InflateOutcome::Done { written, .. } => Some(written),
            InflateOutcome::Full => None,
        })
    }
}

enum Member<'a> {
    Stored(&'a [u8]),
    Deflated(&'a [u8]),
}

/// What is behind a zip local header, if there is one.
fn zip_member(bytes: &[u8]) -> Result<Member<'_>> {
    let Some(header) = bytes.strip_prefix(b"PK\x03\x04") else { return Ok(Member::Deflated(bytes)) };
    let short =
        |at: usize| header.get(at..).and_then(|b| b.first_chunk::<2>()).map(|b| u16::from_le_bytes(*b));
    let broken = || Error::invalid("the zip header is truncated");
    let method = short(4).ok_or_else(broken)?;
    let name = usize::from(short(22).ok_or_else(broken)?);
    let extra = usize::from(short(24).ok_or_else(broken)?);
    let inside = header.get(26 + name + extra..).ok_or_else(broken)?;
    match method {
        0 => Ok(Member::Stored(inside)),
        8 => Ok(Member::Deflated(inside)),
        m => Err(unsupported!("zip compression method {m} is not supported")),
    }
}

impl BytesToBytes for Zlib {
    fn name(&self) -> &'static str {
        if self.bare { "deflate" } else { "zlib" }
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        output::whole(size, bytes.len(), RATIO, bytes.len().saturating_mul(4), |out| self.run(bytes, out))
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        output::whole_into(out, |out| self.run(bytes, out))
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut compressor = gzip::compressor(self.level);
        let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
        let done = if self.bare {
            compressor.deflate_compress(bytes, &mut out)
        } else {
            compressor.zlib_compress(bytes, &mut out)
        };
        let n = done.map_err(|e| Error::invalid("zlib compression failed").with_source(e))?;
        out.truncate(n);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{bytes, hex};

    #[test]
    fn a_false_checksum_is_an_error() {
        assert!(
            bytes("zlib", "{}").decode(&hex("789cab4a2ccaaf82620020f60535"), OutputSize::Exact(12)).is_err()
        );
    }

    #[test]
    fn reads_zip_members() {
        let deflate = Zlib { level: 6, bare: true };
        let header = |method: u8| {
            let mut h = b"PK\x03\x04\x14\0\0\0".to_vec();
            h.extend([method, 0]);
            h.extend([0; 16]);
            h.extend([3, 0, 2, 0]);
            h.extend(b"abcxx");
            h
        };
        let mut stored = header(0);
        stored.extend(b"plain");
        assert_eq!(deflate.decode(&stored, OutputSize::Exact(5)).unwrap(), b"plain");
        assert!(deflate.decode(&stored, OutputSize::Exact(4)).is_err());
        let mut deflated = header(8);
        deflated.extend(deflate.encode(b"plain").unwrap());
        assert_eq!(deflate.decode(&deflated, OutputSize::Exact(5)).unwrap(), b"plain");
        assert!(deflate.decode(&header(9), OutputSize::Exact(5)).is_err());
        for n in 4..30 {
            assert!(deflate.decode(&deflated[..n], OutputSize::Exact(5)).is_err());
        }
    }
}
