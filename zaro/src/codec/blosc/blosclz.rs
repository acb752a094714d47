//! BloscLZ, blosc's own compressor: a byte-oriented LZ77.
//!
//! A stream is a row of instructions. A control byte below 32 is a run of that many literals plus one, which follow.
//! Another is a match: its upper three bits say the length minus 2, where 7 says that bytes follow which are added
//! up to the first that is not 255; its lower five bits and the next byte are the distance minus 1. If those 13 bits
//! are all ones, two bytes follow (the larger first), to which 8191 is added. The first control byte is always one of
//! literals; its upper bits are a mark.

use crate::error::{Error, Result};

/// The most literals in a run.
const MAX_RUN: usize = 32;
/// The stored distance that says that a longer one follows.
const FAR: usize = 8191;
/// The greatest stored distance.
const MAX_DISTANCE: usize = FAR + 0xffff;
/// The bits of a position in the compressor's table.
const HASH_BITS: u32 = 14;

/// Decompresses into `out`; returns how much was written.
pub(crate) fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize> {
    run(input, out).ok_or_else(|| Error::invalid("the BloscLZ stream is damaged"))
}

fn run(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let (first, mut rest) = input.split_first()?;
    let mut control = usize::from(first & 31);
    let mut at = 0;
    loop {
        if control < MAX_RUN {
            let n = control + 1;
            // Whole runs are copied where there is room: a fixed length is a few moves, and what is written beyond
            // the run is overwritten by the next instruction.
            match (
                rest.first_chunk::<MAX_RUN>(),
                out.get_mut(at..).and_then(|o| o.first_chunk_mut::<MAX_RUN>()),
            ) {
                (Some(from), Some(to)) => *to = *from,
                _ => out.get_mut(at..at + n)?.copy_from_slice(rest.get(..n)?),
            }
            at += n;
            rest = rest.get(n..)?;
        } else {
            let mut length = (control >> 5) + 2;
            if length == 9 {
                loop {
                    let more;
                    (more, rest) = byte(rest)?;
                    length += more;
                    if more < 255 {
                        break;
                    }
                }
            }
            let low;
            (low, rest) = byte(rest)?;
            let mut distance = (control & 31) << 8 | low;
            if distance == FAR {
                let (high, low);
                (high, rest) = byte(rest)?;
                (low, rest) = byte(rest)?;
                distance = (high << 8 | low) + FAR;
            }
            copy_match(out, at, distance + 1, length)?;
            at += length;
        }
        match rest.split_first() {
            Some((next, after)) => {
                control = usize::from(*next);
                rest = after;
            }
            None => return Some(at),
        }
    }
}

#[inline]
fn byte(input: &[u8]) -> Option<(usize, &[u8])> {
    input.split_first().map(|(b, rest)| (usize::from(*b), rest))
}

/// Repeats, at `at`, the `length` bytes that start `distance` before; they may overlap.
#[inline]
fn copy_match(out: &mut [u8], at: usize, distance: usize, length: usize) -> Option<()> {
    let from = at.checked_sub(distance)?;
    let end = at.checked_add(length).filter(|end| *end <= out.len())?;
    if distance == 1 {
        let value = *out.get(from)?;
        out.get_mut(at..end)?.fill(value);
        return Some(());
    }
    // Steps of a fixed length are a move each. One no longer than the distance reads only what is written, and what
    // the last writes beyond the match is overwritten later, see above.
    if distance >= 16 && end + 16 <= out.len() {
        steps::<16>(out, from, at, length)
    } else if distance >= 8 && end + 8 <= out.len() {
        steps::<8>(out, from, at, length)
    } else {
        // The first copy makes one period, each further one doubles what can be copied from.
        let mut done = 0;
        while done < length {
            let n = (distance + done).min(length - done);
            if n <= 8 {
                for i in 0..n {
                    *out.get_mut(at + done + i)? = *out.get(from + i)?;
                }
            } else {
                out.copy_within(from..from + n, at + done);
            }
            done += n;
        }
        Some(())
    }
}

#[inline]
fn steps<const N: usize>(out: &mut [u8], from: usize, at: usize, length: usize) -> Option<()> {
    let window = out.get_mut(from..at + length + N)?;
    let gap = at - from;
    let mut done = 0;
    while done < length {
        let step: [u8; N] = *window.get(done..)?.first_chunk()?;
        *window.get_mut(gap + done..)?.first_chunk_mut()? = step;
        done += N;
    }
    Some(())
}

/// Compresses; `None` if that does not make `input` smaller.
pub(crate) fn compress(input: &[u8]) -> Option<Vec<u8>> {
    let mut out = LzOutput { bytes: Vec::with_capacity(input.len()), limit: input.len() };
    let mut table = vec![0u32; 1 << HASH_BITS];
    let mut literals = 0;
    let mut at = 1;
    // The first byte is a literal in any case; matches stop before the end so that literals come last.
    while at + 12 < input.len() {
        let word = word_at(input, at)?;
        let slot =
            table.get_mut(usize::try_from(word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)).ok()?)?;
        let candidate = usize::try_from(std::mem::replace(slot, u32::try_from(at).ok()?)).ok()?;
        let distance = at - candidate - 1;
        if distance > MAX_DISTANCE || word_at(input, candidate)? != word {
            at += 1;
            continue;
        }
        let same =
            input.get(at..input.len() - 2)?.iter().zip(input.get(candidate..)?).take_while(|(a, b)| a == b);
        let length = same.count();
        if length < if distance < FAR { 4 } else { 7 } {
            at += 1;
            continue;
        }
        out.literals(input.get(literals..at)?)?;
        out.emit(length, distance)?;
        at += length;
        literals = at;
    }
    out.literals(input.get(literals..)?)?;
    let first = out.bytes.first_mut()?;
    *first |= 1 << 5;
    Some(out.bytes)
}

struct LzOutput {
    bytes: Vec<u8>,
    limit: usize,
}

impl LzOutput {
    fn literals(&mut self, bytes: &[u8]) -> Option<()> {
        for run in bytes.chunks(MAX_RUN) {
            self.bytes.push(u8::try_from(run.len() - 1).ok()?);
            self.bytes.extend_from_slice(run);
        }
        self.room()
    }

    fn emit(&mut self, length: usize, distance: usize) -> Option<()> {
        let near = distance.min(FAR);
        let (high, low) = (u8::try_from(near >> 8).ok()?, u8::try_from(near & 255).ok()?);
        if length < 9 {
            self.bytes.push(u8::try_from((length - 2) << 5).ok()? | high);
        } else {
            self.bytes.push(7 << 5 | high);
            let mut more = length - 9;
            while more >= 255 {
                self.bytes.push(255);
                more -= 255;
            }
            self.bytes.push(u8::try_from(more).ok()?);
        }
        self.bytes.push(low);
        if distance >= FAR {
            self.bytes.extend_from_slice(&u16::try_from(distance - FAR).ok()?.to_be_bytes());
        }
        self.room()
    }

    fn room(&self) -> Option<()> {
        (self.bytes.len() < self.limit).then_some(())
    }
}

fn word_at(input: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*input.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Noise;
    use super::*;

    #[test]
    fn round_trips_whatever_gets_smaller() {
        let mut noise = Noise(4);
        let mut smaller = 0;
        for n in [0, 1, 5, 17, 66, 100, 1000, 9000, 70_000, 300_000] {
            let mut far = noise.bytes(n);
            far.extend_from_within(..n / 2);
            let period = |k: usize| b"abcdefghijklmnopqrstu"[..k].repeat(n / k + 1);
            let mut cases = vec![vec![0; n], noise.smooth(n), noise.bytes(n), far];
            cases.extend((1..21).map(period));
            for data in cases {
                let Some(stream) = compress(&data) else { continue };
                smaller += 1;
                assert!(stream.len() < data.len());
                let mut out = vec![0; data.len()];
                assert_eq!(decompress(&stream, &mut out).unwrap(), data.len());
                assert!(out == data);
                assert!(decompress(&stream, &mut out[1..]).is_err());
            }
        }
        assert!(smaller > 100);
    }
}
