//! `imagecodecs_lzf`: LibLZF, HDF5's filter 32000.
//!
//! V2: `{"id": "imagecodecs_lzf", "header": true}`; the header is the length of the data (32-bit, little-endian),
//! which HDF5 does not write.
//!
//! A control byte below 32 is a run of that many literals plus one. Another is a match: its upper three bits say the
//! length minus 2, where 7 says that one more byte is to be added; its lower five bits and the byte after that are
//! the distance minus 1.

use super::config::Config;
use super::{BytesToBytes, OutputSize, output};
use crate::error::{Error, Result};
use crate::num;

/// The most literals in a run.
const MAX_RUN: usize = 32;
const MAX_MATCH: usize = 264;
/// The greatest distance minus 1.
const MAX_DISTANCE: usize = 8191;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lzf {
    header: Option<bool>,
}

impl Lzf {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        Ok(Self { header: config.bool("header")? })
    }
}

/// Decodes to at most `limit` bytes.
fn decompress(bytes: &[u8], limit: usize) -> Result<Vec<u8>> {
    let damaged = || Error::invalid("the LZF stream is damaged");
    let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(4)));
    let mut rest = bytes;
    while let Some((control, after)) = rest.split_first() {
        let control = usize::from(*control);
        if control < MAX_RUN {
            let (run, after) = after.split_at_checked(control + 1).ok_or_else(damaged)?;
            out.extend_from_slice(run);
            rest = after;
        } else {
            let mut length = (control >> 5) + 2;
            rest = after;
            if length == 9 {
                let (more, after) = rest.split_first().ok_or_else(damaged)?;
                length += usize::from(*more);
                rest = after;
            }
            let (low, after) = rest.split_first().ok_or_else(damaged)?;
            rest = after;
            let distance = ((control & 31) << 8 | usize::from(*low)) + 1;
            let from = out.len().checked_sub(distance).ok_or_else(damaged)?;
            // What overlaps is repeated.
            while length > 0 {
                let n = length.min(out.len() - from);
                out.extend_from_within(from..from + n);
                length -= n;
            }
        }
        if out.len() > limit {
            return Err(output::too_long(limit));
        }
    }
    Ok(out)
}

impl BytesToBytes for Lzf {
    fn name(&self) -> &'static str {
        "lzf"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let headed = bytes.split_first_chunk::<4>();
        let out = match (self.header, headed) {
            (Some(false), _) => decompress(bytes, size.limit())?,
            (header, Some((length, stream))) => {
                let length = num::usize_of(u64::from(u32::from_le_bytes(*length)))?;
                if header.is_none() && size.check(length).is_err() {
                    // References to HDF5 files do not always say that there is no header.
                    decompress(bytes, size.limit())?
                } else {
                    size.check(length)?;
                    let out = decompress(stream, length)?;
                    OutputSize::Exact(length).check(out.len())?;
                    out
                }
            }
            (_, None) => return Err(Error::invalid("the LZF header is truncated")),
        };
        size.check(out.len())?;
        Ok(out)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 32 + 8);
        if self.header != Some(false) {
            let length =
                u32::try_from(bytes.len()).map_err(|_| Error::unsupported("LZF is limited to 4 GiB"))?;
            out.extend_from_slice(&length.to_le_bytes());
        }
        let mut table = vec![usize::MAX; 1 << 13];
        let (mut literals, mut at) = (0, 0);
        while let Some(three) = bytes.get(at..).and_then(|b| b.first_chunk::<3>()) {
            let [a, b, c] = three.map(usize::from);
            let slot = table.get_mut((a << 5 ^ b << 3 ^ c) & 0x1fff);
            let candidate = slot.map_or(usize::MAX, |slot| std::mem::replace(slot, at));
            let same = bytes.get(candidate..).map_or(0, |before| {
                let pairs = before.iter().zip(bytes.get(at..).unwrap_or_default()).take(MAX_MATCH);
                pairs.take_while(|(a, b)| a == b).count()
            });
            let distance = at.wrapping_sub(candidate).wrapping_sub(1);
            if same < 3 || distance > MAX_DISTANCE {
                at += 1;
                continue;
            }
            put_literals(&mut out, bytes.get(literals..at).unwrap_or_default());
            let byte = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
            let high = byte(distance >> 8);
            if same < 9 {
                out.push(byte(same - 2) << 5 | high);
            } else {
                out.extend_from_slice(&[7 << 5 | high, byte(same - 9)]);
            }
            out.push(byte(distance & 255));
            at += same;
            literals = at;
        }
        put_literals(&mut out, bytes.get(literals..).unwrap_or_default());
        Ok(out)
    }
}

fn put_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(MAX_RUN) {
        out.push(u8::try_from(run.len() - 1).unwrap_or(31));
        out.extend_from_slice(run);
    }
}
