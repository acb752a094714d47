//! What limits the bits of a block, and the header that says so.
//!
//! All modes of zfp come down to four numbers ([`Params`]). The header that `zfpy` writes has 32 bits of magic (`zfp`
//! and the version of the format, 5), 52 of type and shape, and 12 or 64 of parameters: the short form names one of
//! the simple modes, the long one spells the four numbers out. The first block follows at the next bit.

use super::Mode;
use super::stream::{Reader, Writer};
use crate::error::{Error, Result};

/// The least exponent of a lossy mode; anything below means reversible.
const MIN_EXP: i32 = -1074;
/// More bits than the largest block can need; "no limit".
const MAX_BITS: u32 = 16658;
/// All bit planes.
const MAX_PREC: u32 = 64;
/// More bits than this for each block are refused: nothing uses them, and they would have to be padded.
const MOST_BITS: u32 = 1 << 20;

/// The types zfp knows, in the order of their numbers in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `int32`
    I32,
    /// `int64`
    I64,
    /// `float32`
    F32,
    /// `float64`
    F64,
}

impl Kind {
    const ALL: [Self; 4] = [Self::I32, Self::I64, Self::F32, Self::F64];

    /// Bits before the coefficients of a block, at most: flags, exponent, precision.
    fn overhead(self, reversible: bool) -> u32 {
        match (self, reversible) {
            (Self::I32 | Self::I64, false) => 0,
            (Self::I32, true) => 5,
            (Self::I64, true) => 6,
            (Self::F32, false) => 9,
            (Self::F32, true) => 15,
            (Self::F64, false) => 12,
            (Self::F64, true) => 19,
        }
    }

    /// Bits of a value.
    fn bits(self) -> u32 {
        match self {
            Self::I32 | Self::F32 => 32,
            Self::I64 | Self::F64 => 64,
        }
    }

    /// The most bits a block of `values` takes, whatever the parameters, but for padding.
    pub(super) fn most_bits(self, values: u32) -> u32 {
        self.overhead(true) + values - 1 + values * self.bits()
    }

    /// The name of the type, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }
}

/// The limits of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Params {
    /// The fewest bits; blocks are padded to it.
    pub(super) min_bits: u32,
    /// The most bits.
    pub(super) max_bits: u32,
    /// The most bit planes.
    pub(super) max_prec: u32,
    /// The exponent of the lowest bit plane kept; for floats only.
    pub(super) min_exp: i32,
}

impl Params {
    const OPEN: Self = Self { min_bits: 1, max_bits: MAX_BITS, max_prec: MAX_PREC, min_exp: MIN_EXP };

    /// Those of `mode` for arrays of `rank` dimensions.
    pub(super) fn of(mode: Mode, kind: Kind, rank: u32) -> Result<Self> {
        match mode {
            Mode::Reversible => Ok(Self { min_exp: MIN_EXP - 1, ..Self::OPEN }),
            Mode::Expert { min_bits, max_bits, max_prec, min_exp } => {
                Self { min_bits, max_bits, max_prec, min_exp }.checked()
            }
            Mode::Accuracy(tolerance) => {
                if !tolerance.is_finite() {
                    return Err(Error::invalid(format!("a tolerance of {tolerance} makes no sense")));
                }
                Ok(Self { min_exp: exponent(tolerance), ..Self::OPEN })
            }
            Mode::Rate(rate) => {
                let bits = (rate * f64::from(1u32 << (2 * rank)) + 0.5).floor();
                let bits = if bits >= 0.0 && bits <= f64::from(MOST_BITS) { whole(bits) } else { 0 };
                if bits == 0 {
                    return Err(Error::invalid(format!("a rate of {rate} bits a value makes no sense")));
                }
                let bits = bits.max(kind.overhead(false));
                Ok(Self { min_bits: bits, max_bits: bits, ..Self::OPEN })
            }
            Mode::Precision(0) => Ok(Self::OPEN),
            Mode::Precision(p) => Ok(Self { max_prec: p.min(MAX_PREC), ..Self::OPEN }),
        }
    }

    fn checked(self) -> Result<Self> {
        if self.min_bits > self.max_bits || self.max_bits == 0 || self.min_bits > MOST_BITS {
            return Err(Error::invalid(format!(
                "a block cannot have at least {} and at most {} bits",
                self.min_bits, self.max_bits
            )));
        }
        if !(1..=MAX_PREC).contains(&self.max_prec) {
            return Err(Error::invalid(format!("a precision of {} is not among 1 to 64", self.max_prec)));
        }
        Ok(self)
    }

    /// Whether the reversible transform is used.
    pub(super) fn reversible(&self) -> bool {
        self.min_exp < MIN_EXP
    }

    /// As the header has them: a number of 12 bits, or of 64 whose low 12 are set.
    fn code(&self) -> u64 {
        let unlimited = self.min_bits <= 1 && self.max_bits >= MAX_BITS;
        let all = self.max_prec >= MAX_PREC;
        // zfp asks in this order; all defaults together are none of its modes.
        if *self != Self::OPEN {
            let exp = self.min_exp;
            if self.min_bits == self.max_bits && self.max_bits <= 2048 && all && exp == MIN_EXP {
                return u64::from(self.max_bits - 1);
            }
            if unlimited && exp == MIN_EXP {
                return u64::from(self.max_prec - 1) + 2048;
            }
            if unlimited && all && exp < MIN_EXP {
                return 2048 + 128;
            }
            if unlimited && all && exp <= 843 {
                return u64::from(exp.abs_diff(MIN_EXP)) + 2048 + 128 + 1;
            }
        }
        let exp = u64::from(self.min_exp.saturating_add(16495).clamp(0, 0x7fff).unsigned_abs());
        let prec = u64::from(self.max_prec.clamp(1, 0x80) - 1);
        let [min, max] = [self.min_bits, self.max_bits].map(|b| u64::from(b.clamp(1, 0x8000) - 1));
        exp << 49 | prec << 42 | max << 27 | min << 12 | 0xfff
    }

    /// The inverse.
    fn from_code(code: u64) -> Result<Self> {
        let low = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let signed = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        match code {
            0..2048 => Self { min_bits: low(code) + 1, max_bits: low(code) + 1, ..Self::OPEN },
            2048..2176 => Self { max_prec: low(code) - 2047, ..Self::OPEN },
            2176 => Self { min_exp: MIN_EXP - 1, ..Self::OPEN },
            2177..0xfff => Self { min_exp: signed(code) - 2177 + MIN_EXP, ..Self::OPEN },
            _ => Self {
                min_bits: low(code >> 12 & 0x7fff) + 1,
                max_bits: low(code >> 27 & 0x7fff) + 1,
                max_prec: low(code >> 42 & 0x7f) + 1,
                min_exp: signed(code >> 49) - 16495,
            },
        }
        .checked()
    }
}

/// A positive whole number below 2^21 as an integer.
#[allow(clippy::as_conversions, reason = "the caller has checked the range")]
fn whole(x: f64) -> u32 {
    x as u32
}

/// The greatest `e` with `2^e <= x`; the least exponent of all for zero and below.
fn exponent(x: f64) -> i32 {
    if x <= 0.0 {
        return MIN_EXP;
    }
    let bits = x.to_bits();
    match i32::try_from(bits >> 52).unwrap_or(0) {
        0 => MIN_EXP + 63 - i32::try_from(bits.leading_zeros()).unwrap_or(0),
        biased => biased - 1023,
    }
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The extents, slowest first.
    pub(super) shape: Vec<u64>,
    pub(super) params: Params,
}

impl Header {
    /// Reads a header.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        if from.bits(24) != u64::from_le_bytes(*b"zfp\0\0\0\0\0") {
            return Err(Error::invalid("does not begin with \"zfp\""));
        }
        let version = from.bits(8);
        if version != 5 {
            return Err(Error::unsupported(format!("version {version} of the format; zaro knows version 5")));
        }
        let kind = Kind::ALL.into_iter().nth(small(from.bits(2))).unwrap_or(Kind::I32);
        let rank = u32::try_from(from.bits(2)).unwrap_or(0) + 1;
        let mut shape: Vec<u64> = (0..rank).map(|_| from.bits(48 / rank) + 1).collect();
        shape.reverse();
        let mut code = from.bits(12);
        if code == 0xfff {
            code |= from.bits(52) << 12;
        }
        if from.overrun() {
            return Err(Error::invalid("ends within its header"));
        }
        Ok(Self { kind, shape, params: Params::from_code(code)? })
    }

    /// Writes a header.
    pub(super) fn write(&self, to: &mut Writer) -> Result<()> {
        let rank = u32::try_from(self.shape.len()).unwrap_or(u32::MAX);
        let width = 48u32.checked_div(rank).unwrap_or(0);
        if !(1..=4).contains(&rank) || self.shape.iter().any(|n| *n == 0 || (n - 1) >> width != 0) {
            return Err(Error::unsupported(format!("a zfp header cannot hold the shape {:?}", self.shape)));
        }
        if self.params.min_bits > 0x8000 {
            return Err(Error::unsupported("a zfp header cannot hold a rate so high"));
        }
        to.put(u64::from_le_bytes(*b"zfp\x05\0\0\0\0"), 32);
        to.put(crate::num::u64_of(Kind::ALL.iter().position(|k| *k == self.kind).unwrap_or(0)), 2);
        to.put(u64::from(rank - 1), 2);
        for n in self.shape.iter().rev() {
            to.put(n - 1, width);
        }
        let code = self.params.code();
        to.put(code, if code < 0xfff { 12 } else { 64 });
        Ok(())
    }
}

/// A number of two bits as an index.
fn small(n: u64) -> usize {
    usize::try_from(n).unwrap_or(0)
}
