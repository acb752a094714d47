//! Output buffers of decoders, limited to what an [`OutputSize`] allows.
//!
//! Two ways of decoding meet here. Whole-buffer decoders (deflate, LZ4) must have room for everything at once, so
//! when the size is not known they are run again with more room. Stream decoders (bzip2, LZMA, zstd without a stated
//! size) continue where they stopped.

use super::OutputSize;
use crate::error::{Error, Result, invalid, unsupported};

/// Exact sizes up to this are trusted without looking at the input: they come from the metadata, not from the data.
const TRUSTED: usize = 64 << 20;

/// More than the expansion of any codec that does not say otherwise. Zstd's is the strongest of these, some tens of
/// thousands to one for constant data.
pub(crate) const MAX_RATIO: usize = 1 << 17;

/// The first guess for an output whose size is unknown is not below this.
const FIRST: usize = 4 << 10;

pub(crate) fn zeroed(len: usize) -> Result<Vec<u8>> {
    if len <= TRUSTED {
        return Ok(vec![0; len]);
    }
    // `vec!` ends the program if there is no memory; ask first. The pages are not touched until written to.
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(len).map_err(|e| no_memory(len).with_source(e))?;
    drop(probe);
    Ok(vec![0; len])
}

/// `count` copies of an element, decoded from `input` bytes.
pub(crate) fn filled(element: &[u8], count: usize, input: usize) -> Result<Vec<u8>> {
    let len = element.len().checked_mul(count).ok_or_else(|| no_memory(usize::MAX))?;
    justified(len, input, MAX_RATIO)?;
    if element.iter().all(|b| *b == 0) {
        return zeroed(len);
    }
    let mut out = Vec::new();
    out.try_reserve_exact(len).map_err(|e| no_memory(len).with_source(e))?;
    out.extend(element.iter().cycle().take(len));
    Ok(out)
}

/// Runs a decoder that needs room for all its output at once.
///
/// `decode` answers how much it wrote, or `None` if the room was too small. `ratio` is the greatest expansion the
/// format can reach, `guess` a likely size where `size` does not say it.
pub(crate) fn whole(
    size: OutputSize,
    input: usize,
    ratio: usize,
    guess: usize,
    mut decode: impl FnMut(&mut [u8]) -> Result<Option<usize>>,
) -> Result<Vec<u8>> {
    let limit = size.limit();
    let mut room = match size {
        OutputSize::Exact(n) => justified(n, input, ratio)?,
        OutputSize::AtMost(n) => guess.max(FIRST).min(size.reserve(input, ratio)).min(n),
    };
    loop {
        let mut out = zeroed(room)?;
        if let Some(n) = decode(&mut out)? {
            size.check(n)?;
            out.truncate(n);
            return Ok(out);
        }
        // Damaged data may ask for more room for ever; what the input can reach at all is enough.
        let most = limit.min(size.reserve(input, ratio));
        if room >= most {
            return Err(too_long(most));
        }
        room = room.saturating_mul(4).min(most);
    }
}

/// Decodes with a whole-buffer decoder into `out`, which must be filled exactly.
pub(crate) fn whole_into(
    out: &mut [u8],
    decode: impl FnOnce(&mut [u8]) -> Result<Option<usize>>,
) -> Result<()> {
    let len = out.len();
    match decode(out)? {
        Some(n) => OutputSize::Exact(len).check(n),
        None => Err(too_long(len)),
    }
}

/// What one step of a stream decoder did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamStep {
    /// Bytes written to the start of the room it was given.
    pub(crate) written: usize,
    /// Whether there is nothing more to come.
    pub(crate) end: bool,
}

/// Runs a stream decoder to its end.
///
/// A `step` must write something or end: one that does neither is an error of its data, and must say so itself.
pub(crate) fn stream(
    size: OutputSize,
    input: usize,
    ratio: usize,
    mut step: impl FnMut(&mut [u8]) -> Result<StreamStep>,
) -> Result<Vec<u8>> {
    let limit = size.limit();
    let mut out = match size {
        OutputSize::Exact(n) => zeroed(justified(n, input, ratio)?)?,
        OutputSize::AtMost(_) => zeroed(size.reserve(input, 4).max(FIRST).min(limit))?,
    };
    let mut at = 0;
    loop {
        let (written, end) = run(out.get_mut(at..).unwrap_or_default(), &mut step)?;
        at += written;
        if end {
            size.check(at)?;
            out.truncate(at);
            return Ok(out);
        }
        if out.len() >= limit {
            expect_end(limit, &mut step)?;
            return Ok(out);
        }
        let more = out.len().saturating_mul(2).min(limit);
        out.try_reserve(more - out.len()).map_err(|e| no_memory(more).with_source(e))?;
        out.resize(more, 0);
    }
}

/// Runs a stream decoder into `out`, which must be filled exactly.
pub(crate) fn stream_into(
    out: &mut [u8],
    mut step: impl FnMut(&mut [u8]) -> Result<StreamStep>,
) -> Result<()> {
    let len = out.len();
    let (written, end) = run(out, &mut step)?;
    OutputSize::Exact(len).check(written)?;
    if end { Ok(()) } else { expect_end(len, &mut step) }
}

/// Steps until `out` is full or the stream has ended.
fn run(out: &mut [u8], step: &mut impl FnMut(&mut [u8]) -> Result<StreamStep>) -> Result<(usize, bool)> {
    let mut at = 0;
    while at < out.len() {
        let s = step(out.get_mut(at..).unwrap_or_default())?;
        at = at.saturating_add(s.written).min(out.len());
        if s.end {
            return Ok((at, true));
        }
    }
    Ok((at, false))
}

/// Checks that a stream whose room is full has nothing more to say (its end mark may still be unread).
fn expect_end(limit: usize, step: &mut impl FnMut(&mut [u8]) -> Result<StreamStep>) -> Result<()> {
    let mut probe = [0; 1];
    let s = step(&mut probe)?;
    if s.end && s.written == 0 { Ok(()) } else { Err(too_long(limit)) }
}

/// An exact size that the input can reach at all.
pub(crate) fn justified(n: usize, input: usize, ratio: usize) -> Result<usize> {
    if n > TRUSTED && n > OutputSize::Exact(n).reserve(input, ratio) {
        return Err(invalid!("{input} bytes cannot decode to the {n} that were expected"));
    }
    Ok(n)
}

/// The error for data that decode to more than they may.
pub(crate) fn too_long(limit: usize) -> Error {
    invalid!("decodes to more than the {limit} bytes that were expected")
}

fn no_memory(len: usize) -> Error {
    unsupported!("out of memory for {len} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_sizes_grow_up_to_the_limit_and_no_further() {
        let mut rooms = Vec::new();
        let mut decode = |out: &mut [u8]| {
            rooms.push(out.len());
            Ok((out.len() >= 50_000).then_some(50_000))
        };
        assert_eq!(whole(OutputSize::AtMost(1 << 20), 100, 1000, 0, &mut decode).unwrap().len(), 50_000);
        assert_eq!(rooms, [4096, 16384, 65536]);
        assert!(whole(OutputSize::AtMost(40_000), 100, 1000, 0, |_| Ok(None)).is_err());
        let mut greatest = 0;
        let never = |out: &mut [u8]| {
            greatest = out.len();
            Ok(None)
        };
        assert!(whole(OutputSize::AtMost(usize::MAX), 100, 255, 0, never).is_err());
        assert!(greatest < 26_000);
    }

    #[test]
    fn a_size_the_input_cannot_reach_allocates_nothing() {
        assert!(whole(OutputSize::Exact(usize::MAX / 2), 10, 1000, 0, |_| panic!("not called")).is_err());
        assert!(stream(OutputSize::Exact(usize::MAX / 2), 10, 1000, |_| panic!("not called")).is_err());
    }

    #[test]
    fn a_stream_longer_than_its_room_is_an_error() {
        let ends_after = |total: usize| {
            let mut left = total;
            move |out: &mut [u8]| {
                let written = out.len().min(left).min(700);
                left -= written;
                Ok(StreamStep { written, end: written == 0 })
            }
        };
        assert_eq!(stream(OutputSize::AtMost(9000), 1, 2, ends_after(9000)).unwrap().len(), 9000);
        assert!(stream(OutputSize::AtMost(9000), 1, 2, ends_after(9001)).is_err());
        assert!(stream(OutputSize::Exact(9000), 1, 2, ends_after(9001)).is_err());
        assert!(stream(OutputSize::Exact(9000), 1, 2, ends_after(8999)).is_err());
        assert!(stream_into(&mut [0; 90], ends_after(90)).is_ok());
        assert!(stream_into(&mut [0; 90], ends_after(91)).is_err());
        assert!(stream_into(&mut [0; 90], ends_after(89)).is_err());
    }

    #[test]
    fn copies_of_an_element_must_be_within_reach() {
        assert_eq!(filled(&[1, 2], 3, 0).unwrap(), [1, 2, 1, 2, 1, 2]);
        assert_eq!(filled(&[0, 0], 3, 0).unwrap(), [0; 6]);
        assert!(filled(&[1], 1 << 40, 1000).is_err());
        assert!(filled(&[0], 1 << 40, 1000).is_err());
        assert!(filled(&[0; 8], usize::MAX, usize::MAX).is_err());
    }
}
