//! `imagecodecs_lzw`: LZW as TIFF has it.
//!
//! V2: `{"id": "imagecodecs_lzw"}`. Codes of 9 to 12 bits, most significant bit first; 256 empties the table, 257
//! ends. Codes grow by a bit one code early, as in all TIFF files since 1988.

use std::collections::HashMap;

use super::{BytesToBytes, Size, output};
use crate::error::{Error, Result};

const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;
const MAX_BITS: u32 = 12;

/// The `lzw` codec; it has no configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lzw;

/// The bits of a code read when the table will next get entry `next`: one more as soon as 2^bits - 1 is reached.
fn bits(next: usize) -> u32 {
    (next + 1).ilog2().max(8) + 1
}

/// Decodes to at most `limit` bytes.
fn decompress(bytes: &[u8], limit: usize) -> Result<Vec<u8>> {
    // Before 1988 some wrote the bits in the other order: the first code, 256, shows it.
    if let [0, second, ..] = bytes
        && second & 1 == 1
    {
        return Err(Error::unsupported("this is LZW of the old kind, least significant bit first"));
    }
    let damaged = || Error::invalid("the LZW stream is damaged");
    let mut out: Vec<u8> = Vec::with_capacity(limit.min(bytes.len().saturating_mul(4)));
    // Every entry of the table is a place in the output: what the code before it stood for, and the byte after that.
    let mut table: Vec<(usize, usize)> = Vec::with_capacity(1 << MAX_BITS);
    let mut last: Option<(usize, usize)> = None;
    let (mut held, mut count) = (0u64, 0u32);
    let mut input = bytes.iter();
    loop {
        let width = bits(FIRST + table.len()).min(MAX_BITS);
        while count < width {
            match input.next() {
                Some(byte) => held = held << 8 | u64::from(*byte),
                // Some writers leave the end code away.
                None => return Ok(out),
            }
            count += 8;
        }
        count -= width;
        let code = usize::try_from(held >> count & ((1 << width) - 1)).unwrap_or(END);
        match code {
            CLEAR => {
                table.clear();
                last = None;
                continue;
            }
            END => return Ok(out),
            _ => {}
        }
        let start = out.len();
        if let Ok(byte) = u8::try_from(code) {
            out.push(byte);
        } else if let Some((from, n)) = table.get(code - FIRST).copied() {
            out.extend_from_within(from..from + n);
        } else {
            // The entry being made just now: what the last code stood for, and its first byte again.
            let (from, n) = last.filter(|_| code - FIRST == table.len()).ok_or_else(damaged)?;
            out.extend_from_within(from..from + n);
            out.extend_from_within(from..=from);
        }
        if let Some((from, n)) = last
            && FIRST + table.len() < 1 << MAX_BITS
        {
            table.push((from, n + 1));
        }
        last = Some((start, out.len() - start));
        if out.len() > limit {
            return Err(output::too_long(limit));
        }
    }
}

struct Writer {
    out: Vec<u8>,
    held: u64,
    count: u32,
}

impl Writer {
    fn put(&mut self, code: usize, width: u32) {
        self.held = self.held << width | u64::try_from(code).unwrap_or(0);
        self.count += width;
        while self.count >= 8 {
            self.count -= 8;
            self.out.push(u8::try_from(self.held >> self.count & 255).unwrap_or(0));
        }
    }
}

impl BytesToBytes for Lzw {
    fn name(&self) -> &'static str {
        "lzw"
    }

    fn decode(&self, bytes: &[u8], size: Size) -> Result<Vec<u8>> {
        let out = decompress(bytes, size.limit())?;
        size.check(out.len())?;
        Ok(out)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut writer = Writer { out: Vec::with_capacity(bytes.len() / 2 + 8), held: 0, count: 0 };
        let mut table: HashMap<(usize, u8), usize> = HashMap::new();
        writer.put(CLEAR, 9);
        let mut prefix: Option<usize> = None;
        // The number of the next entry; the reader is always one behind.
        let mut next = FIRST;
        for byte in bytes {
            let Some(code) = prefix else {
                prefix = Some(usize::from(*byte));
                continue;
            };
            if let Some(longer) = table.get(&(code, *byte)) {
                prefix = Some(*longer);
                continue;
            }
            writer.put(code, bits(next - 1));
            table.insert((code, *byte), next);
            next += 1;
            prefix = Some(usize::from(*byte));
            if next == (1 << MAX_BITS) - 2 {
                writer.put(CLEAR, MAX_BITS);
                table.clear();
                next = FIRST;
            }
        }
        if let Some(code) = prefix {
            writer.put(code, bits(next - 1));
            next += 1;
        }
        writer.put(END, bits(next - 1).min(MAX_BITS));
        writer.put(0, 7);
        Ok(writer.out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Noise, hex, hostile, round_trip};
    use super::*;

    #[test]
    fn round_trips() {
        round_trip(&Lzw);
        hostile(&Lzw, &Noise(3).smooth(3000));
    }

    #[test]
    fn reads_what_imagecodecs_writes() {
        // imagecodecs.lzw_encode(b"zaro" * 20), and of nothing
        let bytes = hex("801e8c27237c0a090682c0e1307854221d0d88432250b8a43e271637c040");
        assert_eq!(Lzw.decode(&bytes, Size::Exact(80)).unwrap(), b"zaro".repeat(20));
        assert_eq!(Lzw.decode(&hex("804040"), Size::Exact(0)).unwrap(), b"");
        assert!(Lzw.decode(&hex("0001"), Size::AtMost(9)).is_err());
    }
}
