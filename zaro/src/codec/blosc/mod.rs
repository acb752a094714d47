//! `blosc`: blocks, shuffled and compressed with one of several compressors, in the frame of blosc 1.
//!
//! V3: `{"name": "blosc", "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 2,
//! "blocksize": 0}}`; `cname` is `blosclz`, `lz4`, `lz4hc`, `snappy`, `zlib` or `zstd`, `shuffle` is `noshuffle`,
//! `shuffle` or `bitshuffle`, `typesize` is needed unless nothing is shuffled. V2: `{"id": "blosc", "cname": "lz4",
//! "clevel": 5, "shuffle": 1, "blocksize": 0}`, with 0, 1, 2 for V3's words, and -1 for bits of bytes and bytes of
//! all else; the element is that of the array.
//!
//! The configuration matters for writing only: a frame says itself how it is to be decoded.

pub(crate) mod blosclz;
mod frame;
mod lanes;
pub(crate) mod shuffle;
#[cfg(test)]
mod tests;

use self::frame::BloscFrame;
use super::config::Config;
use super::{BytesToBytes, OutputSize, gzip, lz4_block, output, zstd};
use crate::error::{Error, Result, unsupported};
use crate::meta::json::Json;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blosc {
    cname: Cname,
    clevel: i32,
    shuffle: BloscShuffle,
    typesize: u8,
    blocksize: usize,
}

/// What a frame is compressed with, as a writer chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cname {
    BloscLz,
    Lz4,
    Lz4Hc,
    Snappy,
    Zlib,
    Zstd,
}

/// The format of a frame's streams, as its header says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameFormat {
    BloscLz,
    Lz4,
    Snappy,
    Zlib,
    Zstd,
}

impl FrameFormat {
    fn from_code(code: u8) -> Result<Self> {
        Ok(match code {
            0 => Self::BloscLz,
            1 => Self::Lz4,
            2 => Self::Snappy,
            3 => Self::Zlib,
            4 => Self::Zstd,
            _ => return Err(unsupported!("unknown compressor {code} of blosc")),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BloscShuffle {
    None,
    Bytes,
    Bits,
}

impl Blosc {
    /// From its configuration. `element` is the size of the array's elements; `strict` asks for all that V3's text
    /// asks for.
    pub(super) fn from_config(config: &Config<'_>, element: usize, strict: bool) -> Result<Self> {
        if strict {
            for name in ["cname", "clevel", "shuffle", "blocksize"] {
                config.need(name)?;
            }
        }
        let cname = match config.str("cname")?.unwrap_or("lz4") {
            "blosclz" => Cname::BloscLz,
            "lz4" => Cname::Lz4,
            "lz4hc" => Cname::Lz4Hc,
            "snappy" => Cname::Snappy,
            "zlib" => Cname::Zlib,
            "zstd" => Cname::Zstd,
            other => return Err(wrong("cname", format!("{other:?} is not a compressor of blosc"))),
        };
        let clevel = match config.uint("clevel")?.map(i32::try_from) {
            None => 5,
            Some(Ok(n)) if n <= 9 => n,
            Some(_) => return Err(wrong("clevel", "\"clevel\" must be 0 to 9")),
        };
        let given = match config.uint("typesize")? {
            Some(0) => return Err(wrong("typesize", "\"typesize\" must be positive")),
            Some(n) => Some(usize::try_from(n).unwrap_or(usize::MAX)),
            None => None,
        };
        let typesize = given.unwrap_or(element);
        let shuffle = match config.get("shuffle") {
            None => BloscShuffle::Bytes,
            Some(Json::String(word)) => match word.as_str() {
                "noshuffle" => BloscShuffle::None,
                "shuffle" => BloscShuffle::Bytes,
                "bitshuffle" => BloscShuffle::Bits,
                other => return Err(wrong("shuffle", format!("{other:?} is not a shuffle of blosc"))),
            },
            Some(number) => match number.as_i64() {
                _ if strict => return Err(wrong("shuffle", "\"shuffle\" must be a word")),
                Some(-1) if typesize == 1 => BloscShuffle::Bits,
                Some(-1 | 1) => BloscShuffle::Bytes,
                Some(0) => BloscShuffle::None,
                Some(2) => BloscShuffle::Bits,
                _ => return Err(wrong("shuffle", format!("{number} is not a shuffle of blosc"))),
            },
        };
        if strict && given.is_none() && shuffle != BloscShuffle::None {
            return Err(wrong("typesize", "\"typesize\" is missing, and shuffling needs it"));
        }
        let blocksize = usize::try_from(config.uint("blocksize")?.unwrap_or(0)).unwrap_or(usize::MAX);
        // The header has one byte for it; blosc takes larger elements as bytes.
        let typesize = u8::try_from(typesize).unwrap_or(1).max(1);
        Ok(Self { cname, clevel, shuffle, typesize, blocksize })
    }

    /// The length of a block, much as c-blosc chooses it: so that a block fits the second cache, more for the
    /// compressors that need more to look at.
    fn block(&self, length: usize) -> usize {
        const L1: usize = 32 << 10;
        let typesize = usize::from(self.typesize);
        let thorough = matches!(self.cname, Cname::Lz4Hc | Cname::Zlib | Cname::Zstd);
        let mut block = if self.blocksize > 0 {
            self.blocksize.clamp(128, 1 << 30)
        } else {
            let base = if thorough { 2 * L1 } else { L1 };
            match self.clevel {
                0 => base / 4,
                1 => base / 2,
                2 => base,
                3 => base * 2,
                4 | 5 => base * 4,
                9 if thorough => base * 16,
                _ => base * 8,
            }
        };
        if self.blocksize == 0 && self.cname != Cname::Zstd && frame::splits(typesize, block) {
            block = (block.min(1 << 18) * typesize).clamp(1 << 16, 1 << 20);
        }
        block = block.min(length);
        if block > typesize { block / typesize * typesize } else { block.max(1) }
    }

    fn compress(&self, stream: &[u8]) -> Result<Option<Vec<u8>>> {
        let level = self.clevel;
        Ok(match self.cname {
            Cname::BloscLz => blosclz::compress(stream),
            Cname::Lz4 => Some(lz4_block::compress(stream, 10 - level)?),
            Cname::Lz4Hc => Some(lz4_block::compress_hc(stream, level)?),
            Cname::Zstd => Some(zstd::compress(stream, if level < 9 { level * 2 - 1 } else { 22 }, false)?),
            Cname::Snappy => snap::raw::Encoder::new().compress_vec(stream).ok(),
            Cname::Zlib => {
                let mut compressor = gzip::compressor(level);
                let mut out = vec![0; compressor.zlib_compress_bound(stream.len())];
                compressor.zlib_compress(stream, &mut out).ok().map(|n| {
                    out.truncate(n);
                    out
                })
            }
        })
    }
}

impl BytesToBytes for Blosc {
    fn name(&self) -> &'static str {
        "blosc"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let frame = BloscFrame::parse(bytes)?;
        size.check(frame.length)?;
        // Zstd's is the strongest expansion of the six.
        let mut out = output::zeroed(output::justified(frame.length, bytes.len(), 1 << 15)?)?;
        frame.decode(&mut out)?;
        Ok(out)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        BloscFrame::parse(bytes)?.decode(out)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let number = |n: usize| i32::try_from(n).map(i32::to_le_bytes);
        let too_long = |_| Error::unsupported("blosc is limited to 2 GiB");
        let typesize = usize::from(self.typesize);
        let block = self.block(bytes.len());
        let split = self.cname != Cname::Zstd && frame::splits(typesize, block);
        let code = match self.cname {
            Cname::BloscLz => 0u8,
            Cname::Lz4 | Cname::Lz4Hc => 1,
            Cname::Snappy => 2,
            Cname::Zlib => 3,
            Cname::Zstd => 4,
        };
        let mut flags = code << 5 | if split { 0 } else { frame::FLAG_WHOLE };
        flags |= match self.shuffle {
            BloscShuffle::None => 0,
            BloscShuffle::Bytes => frame::FLAG_SHUFFLE,
            BloscShuffle::Bits => frame::FLAG_BIT_SHUFFLE,
        };
        let header = |flags: u8, total: usize| -> Result<Vec<u8>> {
            let mut header = vec![2, 1, flags, self.typesize];
            for n in [bytes.len(), block, total] {
                header.extend_from_slice(&number(n).map_err(too_long)?);
            }
            Ok(header)
        };
        let plain = frame::HEADER + bytes.len();
        number(plain).map_err(too_long)?;
        if self.clevel > 0 && bytes.len() >= 128 {
            let (mut table, mut body) = (Vec::new(), Vec::new());
            let start = frame::HEADER + 4 * bytes.len().div_ceil(block);
            let mut shuffled = vec![0; block];
            for part in bytes.chunks(block) {
                table.extend_from_slice(&number(start + body.len()).map_err(too_long)?);
                let room = shuffled.get_mut(..part.len()).unwrap_or_default();
                let part = match self.shuffle {
                    BloscShuffle::Bytes if typesize > 1 => {
                        shuffle::shuffle(typesize, part, room);
                        room
                    }
                    BloscShuffle::Bits if part.len() >= typesize => {
                        shuffle::bit_shuffle(typesize, part, room);
                        room
                    }
                    _ => part,
                };
                let streams = if split && part.len() == block { typesize } else { 1 };
                for stream in part.chunks_exact(part.len() / streams) {
                    let compressed = self.compress(stream)?.filter(|c| c.len() < stream.len());
                    let stream = compressed.as_deref().unwrap_or(stream);
                    body.extend_from_slice(&number(stream.len()).map_err(too_long)?);
                    body.extend_from_slice(stream);
                }
                if start + body.len() >= plain {
                    break;
                }
            }
            if start + body.len() < plain {
                let mut out = header(flags, start + body.len())?;
                out.extend_from_slice(&table);
                out.extend_from_slice(&body);
                return Ok(out);
            }
        }
        let mut out = header(flags | frame::FLAG_PLAIN, plain)?;
        out.extend_from_slice(bytes);
        Ok(out)
    }
}

fn wrong(field: &str, message: impl Into<String>) -> Error {
    Error::invalid(message).with_field(field)
}
