//! LZ4 blocks in three framings.
//!
//! * `lz4`: the length of the data (32-bit, little-endian), then one block. V2: `{"id": "lz4", "acceleration": 1}`.
//! * `imagecodecs_lz4`: the same if `header` is true, else the block alone.
//! * `imagecodecs_lz4h5`: HDF5's filter 32004. Length of the data (64-bit) and of a block (32-bit), both big-endian,
//!   then blocks, each behind its length (32-bit, big-endian); one that is as long as its data is not compressed.

use super::config::Config;
use super::lz4_block::{self, RATIO};
use super::{BytesToBytes, OutputSize, output};
use crate::error::{Error, Result};
use crate::num;

/// The framing around LZ4 blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    None,
    Hdf5 { block: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lz4 {
    framing: Framing,
    acceleration: i32,
}

impl Lz4 {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        // The library takes 0 and less as 1, and has an upper end of its own.
        let acceleration = config.int("acceleration")?.unwrap_or(1).clamp(1, 65537);
        Ok(Self { framing: Framing::Length, acceleration: i32::try_from(acceleration).unwrap_or(1) })
    }

    pub(super) fn imagecodecs(config: &Config<'_>) -> Result<Self> {
        let header = config.bool("header")?.unwrap_or(false);
        Ok(Self { framing: if header { Framing::Length } else { Framing::None }, acceleration: 1 })
    }

    pub(super) fn hdf5(config: &Config<'_>) -> Result<Self> {
        let block = match config.uint("blocksize")? {
            None | Some(0) => 1 << 30,
            Some(n) => num::usize_of(n)?.min(1 << 30),
        };
        Ok(Self { framing: Framing::Hdf5 { block }, acceleration: 1 })
    }
}

/// Decodes the blocks of HDF5's framing, whose header says they hold `out.len()` bytes.
fn hdf5_blocks(bytes: &[u8], block: usize, out: &mut [u8]) -> Result<()> {
    let mut rest = bytes;
    for part in out.chunks_mut(block.max(1)) {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = num::usize_of(u64::from(u32::from_be_bytes(*length)))?;
        let (stream, after) = after.split_at_checked(length).ok_or_else(cut)?;
        rest = after;
        if stream.len() == part.len() {
            part.copy_from_slice(stream);
        } else {
            let n = lz4_block::decompress(stream, part)?;
            OutputSize::Exact(part.len()).check(n)?;
        }
    }
    Ok(())
}

/// The length of the data, that of a block, and the blocks.
fn hdf5_header(bytes: &[u8]) -> Result<(usize, usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
    let (block, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = num::usize_of(u64::from_be_bytes(*length))?;
    let block = num::usize_of(u64::from(u32::from_be_bytes(*block)))?;
    if block == 0 && length > 0 {
        return Err(Error::invalid("the LZ4 blocks have no bytes"));
    }
    Ok((length, block, rest))
}

/// The length of the data, and the block.
fn length_header(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
    Ok((num::usize_of(u64::from(u32::from_le_bytes(*length)))?, rest))
}

fn one_block(block: &[u8], out: &mut [u8]) -> Result<()> {
    let n = lz4_block::decompress(block, out)?;
    OutputSize::Exact(out.len()).check(n)
}

fn cut() -> Error {
    Error::invalid("the LZ4 data are truncated")
}

impl BytesToBytes for Lz4 {
    fn name(&self) -> &'static str {
        match self.framing {
            Framing::Hdf5 { .. } => "lz4h5",
            _ => "lz4",
        }
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let length = match self.framing {
            Framing::Length => length_header(bytes)?.0,
            Framing::Hdf5 { .. } => hdf5_header(bytes)?.0,
            Framing::None => {
                // A block that is too long for its room looks like a damaged one; so the room grows to its limit.
                return output::whole(size, bytes.len(), RATIO, bytes.len().saturating_mul(4), |out| {
                    match lz4_block::decompress(bytes, out) {
                        Ok(n) => Ok(Some(n)),
                        Err(_) if out.len() < size.limit() => Ok(None),
                        Err(e) => Err(e),
                    }
                });
            }
        };
        size.check(length)?;
        output::whole(OutputSize::Exact(length), bytes.len(), RATIO, 0, |out| {
            self.decode_into(bytes, out)?;
            Ok(Some(length))
        })
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        match self.framing {
            Framing::Length => {
                let (length, block) = length_header(bytes)?;
                OutputSize::Exact(out.len()).check(length)?;
                one_block(block, out)
            }
            Framing::None => one_block(bytes, out),
            Framing::Hdf5 { .. } => {
                let (length, block, blocks) = hdf5_header(bytes)?;
                OutputSize::Exact(out.len()).check(length)?;
                hdf5_blocks(blocks, block, out)
            }
        }
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let too_long = |_| Error::unsupported("LZ4 is limited to 2 GiB");
        match self.framing {
            Framing::None => lz4_block::compress(bytes, self.acceleration),
            Framing::Length => {
                let length = i32::try_from(bytes.len()).map_err(too_long)?.to_le_bytes();
                Ok([&length[..], &lz4_block::compress(bytes, self.acceleration)?].concat())
            }
            Framing::Hdf5 { block } => {
                let block = block.min(bytes.len()).max(1);
                let mut out = num::u64_of(bytes.len()).to_be_bytes().to_vec();
                out.extend_from_slice(&i32::try_from(block).map_err(too_long)?.to_be_bytes());
                for part in bytes.chunks(block) {
                    let stream = lz4_block::compress(part, 1)?;
                    let stream = if stream.len() < part.len() { &stream } else { part };
                    out.extend_from_slice(&i32::try_from(stream.len()).map_err(too_long)?.to_be_bytes());
                    out.extend_from_slice(stream);
                }
                Ok(out)
            }
        }
    }
}
