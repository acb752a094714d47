//! `zstd`: RFC 8878.
//!
//! V3: `{"name": "zstd", "configuration": {"level": 3, "checksum": false}}`, level -131072 to 22, `checksum` may be
//! left out. V2: `{"id": "zstd", "level": 1}`. TIFF references say `imagecodecs_zstd`.
//!
//! Several frames decode to one string, skippable frames to nothing; frames need not state their size.

use std::cell::RefCell;

use zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::config::Config;
use super::output::{self, StreamStep};
use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result, invalid};
use crate::num;

/// The greatest expansion a frame can reach: blocks of 128 KiB in 4 bytes.
const RATIO: usize = 1 << 15;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zstd {
    level: i32,
    checksum: bool,
}

impl Zstd {
    /// From its configuration. `strict` asks for what V3's text asks for: the level must be there.
    pub(crate) fn from_config(config: &Config<'_>, strict: bool) -> Result<Self> {
        if strict {
            config.need("level")?;
        }
        let level = match config.int("level")?.map(i32::try_from) {
            None => 0,
            Some(Ok(n)) if (-131_072..=22).contains(&n) => n,
            // numcodecs takes the nearest one.
            Some(Ok(n)) if !strict => n.clamp(-131_072, 22),
            _ => return Err(Error::invalid("\"level\" must be -131072 to 22").with_field("level")),
        };
        Ok(Self { level, checksum: config.bool("checksum")?.unwrap_or(false) })
    }
}

/// Decompresses all frames of `bytes` into `out` with this thread's context; returns how much was written.
pub(crate) fn decompress(bytes: &[u8], out: &mut [u8]) -> Result<usize> {
    with_dctx(|dctx| dctx.decompress(out, bytes).map_err(fault))
}

/// Compresses into one frame with this thread's context.
pub(crate) fn compress(bytes: &[u8], level: i32, checksum: bool) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    compress_into(bytes, level, checksum, &mut out)?;
    Ok(out)
}

fn compress_into(bytes: &[u8], level: i32, checksum: bool, out: &mut Vec<u8>) -> Result<()> {
    thread_local! {
        static CCTX: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    }
    CCTX.with(|cell| {
        let mut slot = cell.borrow_mut();
        let cctx = match &mut *slot {
            Some(cctx) => cctx,
            none => none.insert(CCtx::try_create().ok_or_else(no_memory)?),
        };
        cctx.reset(ResetDirective::SessionAndParameters).map_err(fault)?;
        cctx.set_parameter(CParameter::CompressionLevel(level)).map_err(fault)?;
        cctx.set_parameter(CParameter::ChecksumFlag(checksum)).map_err(fault)?;
        out.clear();
        out.reserve(zstd_safe::compress_bound(bytes.len()));
        cctx.compress2(out, bytes).map_err(fault)?;
        Ok(())
    })
}

fn with_dctx<T>(f: impl FnOnce(&mut DCtx<'static>) -> Result<T>) -> Result<T> {
    thread_local! {
        static DCTX: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }
    DCTX.with(|cell| {
        let mut slot = cell.borrow_mut();
        let dctx = match &mut *slot {
            Some(dctx) => dctx,
            none => none.insert(DCtx::try_create().ok_or_else(no_memory)?),
        };
        f(dctx)
    })
}

/// The sum of what the frames say they hold, if all say it.
fn stated(mut bytes: &[u8]) -> Option<u64> {
    let mut total = 0u64;
    while !bytes.is_empty() {
        total = total.checked_add(zstd_safe::get_frame_content_size(bytes).ok()??)?;
        let frame = zstd_safe::find_frame_compressed_size(bytes).ok().filter(|n| *n > 0)?;
        bytes = bytes.get(frame..)?;
    }
    Some(total)
}

/// Decodes frames that do not state their size.
fn stream(bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
    with_dctx(|dctx| {
        dctx.reset(ResetDirective::SessionOnly).map_err(fault)?;
        let mut input = InBuffer::around(bytes);
        // What the last call said: 0 at the end of a frame with everything flushed.
        let mut hint = 0;
        let out = output::stream(size, bytes.len(), RATIO, |out| {
            loop {
                if hint == 0 && input.pos() == bytes.len() {
                    return Ok(StreamStep { written: 0, end: true });
                }
                let before = input.pos();
                let mut buffer = OutBuffer::around(&mut *out);
                hint = dctx.decompress_stream(&mut buffer, &mut input).map_err(fault)?;
                let written = buffer.pos();
                if written > 0 {
                    return Ok(StreamStep { written, end: false });
                }
                if input.pos() == before && hint != 0 {
                    return Err(Error::invalid("the last zstd frame is truncated"));
                }
            }
        });
        // Nothing of a failed stream may be left for the next.
        dctx.reset(ResetDirective::SessionOnly).map_err(fault)?;
        out
    })
}

fn fault(code: usize) -> Error {
    invalid!("zstd: {}", get_error_name(code))
}

fn no_memory() -> Error {
    Error::unsupported("out of memory for a zstd context")
}

impl BytesToBytes for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        if bytes.is_empty() {
            return Err(Error::invalid("there is no zstd frame"));
        }
        let exact = match size {
            OutputSize::Exact(n) => n,
            OutputSize::AtMost(_) => match stated(bytes) {
                Some(n) => num::usize_of(n)?,
                None => return stream(bytes, size),
            },
        };
        size.check(exact)?;
        output::whole(OutputSize::Exact(exact), bytes.len(), RATIO, 0, |out| decompress(bytes, out).map(Some))
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        if bytes.is_empty() {
            return Err(Error::invalid("there is no zstd frame"));
        }
        output::whole_into(out, |out| decompress(bytes, out).map(Some))
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        compress(bytes, self.level, self.checksum)
    }

    fn encode_into(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        compress_into(bytes, self.level, self.checksum, out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Noise, hex};
    use super::*;

    const ZSTD: Zstd = Zstd { level: 1, checksum: true };

    /// A frame that does not say how much it holds.
    fn unsized_frame(bytes: &[u8]) -> Vec<u8> {
        let mut cctx = CCtx::create();
        cctx.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        cctx.compress2(&mut out, bytes).unwrap();
        assert_eq!(stated(&out), None);
        out
    }

    #[test]
    fn frames_with_and_without_a_size_and_skippable_ones_follow_each_other() {
        let data = Noise(1).smooth(300_000);
        let mut frames = ZSTD.encode(&data[..1000]).unwrap();
        frames.extend(hex("502a4d18030000006a756b"));
        frames.extend(unsized_frame(&data[1000..200_000]));
        frames.extend(ZSTD.encode(b"").unwrap());
        frames.extend(unsized_frame(&data[200_000..]));
        for size in [OutputSize::Exact(300_000), OutputSize::AtMost(300_000), OutputSize::AtMost(1 << 30)] {
            assert!(ZSTD.decode(&frames, size).unwrap() == data);
        }
        let mut out = vec![0; 300_000];
        ZSTD.decode_into(&frames, &mut out).unwrap();
        assert!(out == data);
        for size in [OutputSize::Exact(299_999), OutputSize::Exact(300_001), OutputSize::AtMost(299_999)] {
            assert!(ZSTD.decode(&frames, size).is_err());
        }
        for n in 1..200 {
            assert!(ZSTD.decode(&frames[..frames.len() - n], OutputSize::Exact(300_000)).is_err());
        }
        let last = frames.len() - 1;
        frames[last] ^= 1;
        assert!(ZSTD.decode(&[&frames[..], b"junk"].concat(), OutputSize::Exact(300_000)).is_err());
        assert!(ZSTD.decode(b"", OutputSize::Exact(0)).is_err());
    }

    #[test]
    fn a_false_checksum_is_an_error() {
        let mut frame = ZSTD.encode(b"some bytes").unwrap();
        let last = frame.len() - 1;
        frame[last] ^= 1;
        assert!(ZSTD.decode(&frame, OutputSize::Exact(10)).is_err());
    }

    #[test]
    fn damage_to_frames_without_a_size_never_panics() {
        let data = Noise(5).smooth(5000);
        let frame = unsized_frame(&data);
        let mut noise = Noise(6);
        for _ in 0..500 {
            let mut bytes = frame.clone();
            let at = noise.below(bytes.len());
            bytes[at] ^= 1 << noise.below(8);
            let _ = ZSTD.decode(&bytes, OutputSize::AtMost(5000));
        }
        // The context is not spoilt by all this.
        assert!(ZSTD.decode(&frame, OutputSize::Exact(5000)).unwrap() == data);
    }
}
