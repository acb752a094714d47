//! `imagecodecs_packbits`: Apple's PackBits, as in TIFF.
//!
//! V2: `{"id": "imagecodecs_packbits"}`. Not to be confused with `packbits`, which packs booleans.
//!
//! A control byte of 0 to 127 says that one more literals follow; of 129 to 255, that the byte after it is repeated
//! 257 minus that many times; 128 says nothing.

use super::{BytesToBytes, OutputSize, output};
use crate::error::{Error, Result};

/// The longest run, of either kind.
const MAX_RUN: usize = 128;

/// The TIFF PackBits codec. `axis`, which a writer may give, only says where its rows ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TiffPackBits;

fn decompress(bytes: &[u8], limit: usize) -> Result<Vec<u8>> {
    let cut = || Error::invalid("the PackBits stream is truncated");
    let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(4)));
    let mut rest = bytes;
    while let Some((control, after)) = rest.split_first() {
        let n = usize::from(*control);
        rest = match n {
            0..MAX_RUN => {
                let (run, after) = after.split_at_checked(n + 1).ok_or_else(cut)?;
                out.extend_from_slice(run);
                after
            }
            MAX_RUN => after,
            _ => {
                let (value, after) = after.split_first().ok_or_else(cut)?;
                out.resize(out.len() + 257 - n, *value);
                after
            }
        };
        if out.len() > limit {
            return Err(output::too_long(limit));
        }
    }
    Ok(out)
}

impl BytesToBytes for TiffPackBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let out = decompress(bytes, size.limit())?;
        size.check(out.len())?;
        Ok(out)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / MAX_RUN + 1);
        let mut literals: Vec<u8> = Vec::new();
        let flush = |literals: &mut Vec<u8>, out: &mut Vec<u8>| {
            for run in literals.chunks(MAX_RUN) {
                out.push(u8::try_from(run.len() - 1).unwrap_or(0));
                out.extend_from_slice(run);
            }
            literals.clear();
        };
        for equal in bytes.chunk_by(|a, b| a == b) {
            for run in equal.chunks(MAX_RUN) {
                match (run, run.first()) {
                    ([_, _, _, ..], Some(value)) => {
                        flush(&mut literals, &mut out);
                        out.extend_from_slice(&[u8::try_from(257 - run.len()).unwrap_or(128), *value]);
                    }
                    _ => literals.extend_from_slice(run),
                }
            }
        }
        flush(&mut literals, &mut out);
        Ok(out)
    }
}
