//! CCSDS 121.0-B: the lossless coder of GRIB packing 5.42, known by the name of its library, libaec.
//!
//! Numbers are mapped to differences that are small and not negative, and coded in blocks. Each block begins with an
//! option: zeros, pairs in unary ("second extension"), `k` low bits apart from the rest in unary, or plain. Every so
//! many blocks ("reference sample interval") a plain number starts the differences anew.

use super::bits::{Bits, u8_at, u16_at};
use super::pack::{cut, short};
use crate::error::{Error, Result};
use crate::num;

/// What a stream does not say of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct AecSettings {
    /// Bits of a number, 1 to 32.
    pub(super) bits: u32,
    pub(super) block: usize,
    /// Blocks between plain numbers.
    pub(super) interval: usize,
    /// Whether the numbers are coded as differences.
    pub(super) differences: bool,
    /// Whether the options take fewer bits, for numbers of few bits.
    pub(super) restricted: bool,
    /// Whether each interval begins with a whole byte.
    pub(super) padded: bool,
}

impl AecSettings {
    /// From octets 22 to 25 of section 5.
    pub(super) fn grib(packing: &[u8], bits: u32) -> Result<Self> {
        let read = || Some((u8_at(packing, 21)?, u8_at(packing, 22)?, u16_at(packing, 23)?));
        let (flags, block, interval) = read().ok_or_else(short)?;
        if flags & 1 != 0 {
            return Err(Error::unsupported("GRIB packing 5.42 of signed numbers is not supported"));
        }
        if block == 0 || interval == 0 || !(1..=32).contains(&bits) {
            return Err(Error::invalid("the settings of GRIB packing 5.42 are invalid"));
        }
        Ok(Self {
            bits,
            block: block.into(),
            interval: interval.into(),
            differences: flags & 8 != 0,
            restricted: flags & 16 != 0,
            padded: flags & 32 != 0,
        })
    }

    /// How many bits an option takes.
    fn option_bits(&self) -> Result<u32> {
        Ok(match self.bits {
            17.. => 5,
            9.. => 4,
            _ if !self.restricted => 3,
            0..=2 => 1,
            3 | 4 => 2,
            _ => return Err(Error::invalid("the restricted options of CCSDS are for 4 bits at most")),
        })
    }
}

/// More zero blocks than this in a row are coded by their number plus one; this very number means all that are left.
const REST: u64 = 5;

/// Hands out `n` numbers.
pub(super) fn decode(data: &[u8], settings: &AecSettings, n: usize, mut put: impl FnMut(u64)) -> Result<()> {
    let damaged = || Error::invalid("the CCSDS stream is damaged");
    let option_bits = settings.option_bits()?;
    let plain = (1u64 << option_bits) - 1;
    let mut bits = Bits::new(data);
    let mut left = n;
    let mut block = 0;
    let mut line = Line { top: (1u64 << settings.bits) - 1, last: 0, settings };
    let mut unary = vec![0u64; settings.block];
    while left > 0 {
        let start = settings.differences && block == 0;
        let mut emit = |v: u64| {
            if left > 0 {
                left -= 1;
                put(v);
            }
        };
        let first = usize::from(start);
        let option = bits.read(option_bits).ok_or_else(cut)?;
        let pairs = option == 0 && bits.read(1).ok_or_else(cut)? == 1;
        if start {
            line.last = bits.read(settings.bits).ok_or_else(cut)?;
            emit(line.last);
        }
        let mut blocks = 1;
        if pairs {
            let mut at = first;
            while at < settings.block {
                let (a, b) = pair(bits.zeros().ok_or_else(cut)?).ok_or_else(damaged)?;
                if at.is_multiple_of(2) {
                    emit(line.next(a).ok_or_else(damaged)?);
                    at += 1;
                }
                emit(line.next(b).ok_or_else(damaged)?);
                at += 1;
            }
        } else if option == 0 {
            let remaining = settings.interval - block;
            let run = match bits.zeros().ok_or_else(cut)? + 1 {
                REST => remaining.min(64 - block % 64),
                more if more > REST => num::usize_of(more - 1)?,
                few => num::usize_of(few)?,
            };
            blocks = Some(run).filter(|r| *r <= remaining).ok_or_else(damaged)?;
            for _ in first..blocks.saturating_mul(settings.block) {
                emit(line.next(0).ok_or_else(damaged)?);
            }
        } else if option == plain {
            for _ in first..settings.block {
                let v = bits.read(settings.bits).ok_or_else(cut)?;
                emit(line.next(v).ok_or_else(damaged)?);
            }
        } else {
            let low = u32::try_from(option - 1).unwrap_or(0);
            let unary = unary.get_mut(first..).unwrap_or_default();
            for high in unary.iter_mut() {
                *high = bits.zeros().ok_or_else(cut)?;
            }
            for high in unary.iter() {
                let high = high.checked_mul(1 << low).filter(|h| *h <= line.top).ok_or_else(damaged)?;
                emit(line.next(high | bits.read(low).ok_or_else(cut)?).ok_or_else(damaged)?);
            }
        }
        block += blocks;
        if block >= settings.interval {
            block = 0;
            if settings.padded {
                bits.align();
            }
        }
    }
    Ok(())
}

/// The two numbers that `m` stands for: all pairs in the order of their sum.
fn pair(m: u64) -> Option<(u64, u64)> {
    let sum = (0..13).rev().find(|s| s * (s + 1) / 2 <= m)?;
    let second = m - sum * (sum + 1) / 2;
    Some((sum.checked_sub(second)?, second))
}

/// The numbers that differences lead to.
struct Line<'a> {
    top: u64,
    last: u64,
    settings: &'a AecSettings,
}

impl Line<'_> {
    /// The number that a mapped difference leads to: even ones go up, odd ones down, as far as there is room both ways;
    /// beyond that, all go the one way that is left.
    fn next(&mut self, d: u64) -> Option<u64> {
        if d > self.top {
            return None;
        }
        if !self.settings.differences {
            return Some(d);
        }
        let (below, above) = (self.last, self.top.checked_sub(self.last)?);
        self.last = if d.div_ceil(2) > below.min(above) {
            if below <= above { d } else { self.top - d }
        } else if d.is_multiple_of(2) {
            self.last + d / 2
        } else {
            self.last - d.div_ceil(2)
        };
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_by_their_sum() {
        let got: Vec<_> = (0..6).map(|m| pair(m).unwrap()).collect();
        assert_eq!(got, [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]);
        assert_eq!(pair(90), Some((0, 12)));
        assert_eq!(pair(91), None);
    }

    #[test]
    fn differences_fold_at_the_borders() {
        let settings = AecSettings {
            bits: 3,
            block: 8,
            interval: 1,
            differences: true,
            restricted: false,
            padded: false,
        };
        // Every number is reached from every other by exactly one difference.
        for last in 0..8 {
            let mut seen = [false; 8];
            for d in 0..8 {
                let mut line = Line { top: 7, last, settings: &settings };
                seen[usize::try_from(line.next(d).unwrap()).unwrap()] = true;
            }
            assert_eq!(seen, [true; 8], "{last}");
        }
        let mut line = Line { top: 7, last: 1, settings: &settings };
        assert_eq!(line.next(8), None);
        assert_eq!((line.next(1), line.next(2), line.next(3)), (Some(0), Some(2), Some(0)));
    }
}
