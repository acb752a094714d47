//! Conversions of all floating-point formats: bits to `f64` and back, and from decimal text.
//!
//! Every format narrower than `f64` is a subset of it, so `f64` is the common ground. Each conversion rounds once,
//! half to even. What lies beyond a format's range becomes infinity where the format has one, NaN where it has only
//! that (`fn`, `fnuz`), and the greatest number where it has neither (4 and 6 bits); that is what the `ml_dtypes`
//! package does, whose names these are.
//!
//! `float8_e8m0fnu` is a bare power of two: it has no zero and no sign. Zero and negative numbers become NaN, positive
//! numbers too small the smallest, and ties go up.
#![allow(
    clippy::as_conversions,
    reason = "widening, or cutting to bits just masked; no length is converted here"
)]

use super::dtype::Float;

/// What a format does with the bit patterns at the top.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Top {
    /// The greatest exponent is for infinity and NaNs.
    Ieee,
    /// All exponent and mantissa bits set is NaN; no infinity.
    Fn,
    /// Minus zero is NaN; no infinity, no minus zero.
    Fnuz,
    /// Only finite numbers.
    Finite,
    /// All bits set is NaN; no sign, no zero.
    Power,
}

struct FloatLayout {
    mantissa: u32,
    bias: i32,
    top: Top,
    /// All bits below the sign.
    magnitude: u64,
    sign: u64,
}

fn layout(float: Float) -> FloatLayout {
    let (exponent, mantissa, bias, top): (u32, u32, i32, Top) = match float {
        Float::F4E2M1FN => (2, 1, 1, Top::Finite),
        Float::F6E2M3FN => (2, 3, 1, Top::Finite),
        Float::F6E3M2FN => (3, 2, 3, Top::Finite),
        Float::F8E3M4 => (3, 4, 3, Top::Ieee),
        Float::F8E4M3 => (4, 3, 7, Top::Ieee),
        Float::F8E4M3FN => (4, 3, 7, Top::Fn),
        Float::F8E4M3B11FNUZ => (4, 3, 11, Top::Fnuz),
        Float::F8E4M3FNUZ => (4, 3, 8, Top::Fnuz),
        Float::F8E5M2 => (5, 2, 15, Top::Ieee),
        Float::F8E5M2FNUZ => (5, 2, 16, Top::Fnuz),
        Float::F8E8M0FNU => (8, 0, 127, Top::Power),
        Float::BF16 => (8, 7, 127, Top::Ieee),
        Float::F16 => (5, 10, 15, Top::Ieee),
        Float::F32 => (8, 23, 127, Top::Ieee),
        Float::F64 => (11, 52, 1023, Top::Ieee),
    };
    let sign = 1u64 << (exponent + mantissa);
    FloatLayout { mantissa, bias, top, magnitude: sign - 1, sign: if top == Top::Power { 0 } else { sign } }
}

impl FloatLayout {
    /// The greatest magnitude that is a number.
    fn greatest(&self) -> u64 {
        match self.top {
            Top::Ieee => self.infinity() - 1,
            Top::Fn | Top::Power => self.magnitude - 1,
            Top::Fnuz | Top::Finite => self.magnitude,
        }
    }

    fn infinity(&self) -> u64 {
        self.magnitude >> self.mantissa << self.mantissa
    }

    fn nan(&self) -> Option<u64> {
        match self.top {
            Top::Ieee => Some(self.infinity() | 1 << (self.mantissa - 1)),
            Top::Fn | Top::Power => Some(self.magnitude),
            Top::Fnuz => Some(self.sign),
            Top::Finite => None,
        }
    }
}

/// The number that `bits` stand for; bits beyond the format's width are ignored. A NaN keeps as much of its payload
/// as both formats have room for.
pub(crate) fn to_f64(float: Float, bits: u64) -> f64 {
    let l = layout(float);
    let sign = if bits & l.sign != 0 { 1u64 << 63 } else { 0 };
    let magnitude = bits & l.magnitude;
    match l.top {
        Top::Power if magnitude == l.magnitude => return f64::NAN,
        Top::Power => return power(magnitude as i32 - l.bias),
        Top::Fnuz if sign != 0 && magnitude == 0 => return f64::NAN,
        Top::Fn if magnitude == l.magnitude => return f64::from_bits(sign | f64::NAN.to_bits()),
        Top::Ieee if magnitude >= l.infinity() => {
            let payload = (magnitude - l.infinity()) << (52 - l.mantissa);
            return f64::from_bits(sign | 0x7ff << 52 | payload);
        }
        _ => {}
    }
    if float == Float::F64 {
        return f64::from_bits(bits);
    }
    let exponent = (magnitude >> l.mantissa) as i32;
    let fraction = magnitude & ((1 << l.mantissa) - 1);
    let (units, at) = if exponent == 0 { (fraction, 1) } else { (fraction | 1 << l.mantissa, exponent) };
    // Both factors and the product are exact: at most 24 bits, and an exponent far inside that of f64.
    let value = units as f64 * power(at - l.bias - l.mantissa as i32);
    f64::from_bits(value.to_bits() | sign)
}

/// Two to the power of `e`, for the normal range of f64.
fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// The nearest number of the format, ties to even; see the module for what lies outside. NaN keeps its sign and the
/// top of its payload where the format has room. A format without NaN gives zero of the other sign, as `ml_dtypes`
/// does; ask [`canonical_nan`] first if that matters.
pub(crate) fn from_f64(float: Float, x: f64) -> u64 {
    let l = layout(float);
    let bits = x.to_bits();
    if float == Float::F64 {
        return bits;
    }
    let sign = if x.is_sign_negative() { l.sign } else { 0 };
    if x.is_nan() {
        return match (l.top, l.nan()) {
            (Top::Ieee, Some(nan)) => {
                let payload = (bits & ((1 << 52) - 1)) >> (52 - l.mantissa);
                sign | nan | payload
            }
            (Top::Fn, Some(nan)) => sign | nan,
            (_, Some(nan)) => nan,
            (_, None) => l.sign ^ sign,
        };
    }
    let beyond = match l.top {
        Top::Ieee => sign | l.infinity(),
        Top::Finite => sign | l.greatest(),
        Top::Fn => sign | l.magnitude,
        Top::Fnuz => l.sign,
        Top::Power => l.magnitude,
    };
    if x.is_infinite() {
        return beyond;
    }
    if l.top == Top::Power && x <= 0.0 {
        return l.magnitude;
    }
    if x == 0.0 {
        return if l.top == Top::Fnuz { 0 } else { sign };
    }
    let (units, exponent) = parts(x);
    round(float, sign != 0, units, exponent, Rounding::NearestEven).unwrap_or(beyond)
}

/// Rounding mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearer one; a tie to the even one.
    NearestEven,
    /// To the nearer one; a tie away from zero.
    NearestAway,
    /// Towards zero.
    Zero,
    /// Upwards.
    Positive,
    /// Downwards.
    Negative,
}

/// A finite number's magnitude as `units * 2^exponent`, exactly.
pub(crate) fn parts(x: f64) -> (u64, i32) {
    let field = (x.to_bits() >> 52 & 0x7ff) as i32;
    let fraction = x.to_bits() & ((1 << 52) - 1);
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

/// The number `units * 2^exponent`, with a sign, rounded once to the format; `None` if what it is rounded to lies
/// beyond the format's range.
pub(crate) fn round(
    float: Float,
    negative: bool,
    units: u64,
    exponent: i32,
    rounding: Rounding,
) -> Option<u64> {
    let l = layout(float);
    let sign = if negative { l.sign } else { 0 };
    if units == 0 {
        return match l.top {
            Top::Power => None,
            Top::Fnuz => Some(0),
            _ => Some(sign),
        };
    }
    if l.top == Top::Power && negative {
        return None;
    }
    let place = exponent + 63 - units.leading_zeros() as i32;
    let least = if l.top == Top::Power { -l.bias } else { 1 - l.bias };
    let stands = place.max(least);
    // The value of the last bit kept is 2^last.
    let last = stands - l.mantissa as i32;
    let rounded = match last - exponent {
        // Nothing to drop: what is kept has at most 53 bits.
        drop @ ..=0 => units << drop.unsigned_abs(),
        drop => {
            let (kept, half) = match drop {
                1..=63 => {
                    let rest = units & ((1 << drop) - 1);
                    (units >> drop, rest.cmp(&(1 << (drop - 1))))
                }
                64 => (0, units.cmp(&(1 << 63))),
                _ => (0, std::cmp::Ordering::Less),
            };
            let inexact = drop > 63 || units & ((1 << drop) - 1) != 0;
            let up = match rounding {
                Rounding::NearestEven if l.top == Top::Power => half.is_ge(),
                Rounding::NearestEven => half.is_gt() || half.is_eq() && kept & 1 == 1,
                Rounding::NearestAway => half.is_ge(),
                Rounding::Zero => false,
                Rounding::Positive => inexact && !negative,
                Rounding::Negative => inexact && negative,
            };
            kept + u64::from(up)
        }
    };
    let magnitude = if l.top == Top::Power {
        // One mantissa bit, the hidden one: 1 stays, 2 is the next power; 0 was too small, and becomes the smallest.
        (stands + l.bias) as u64 + rounded.saturating_sub(1)
    } else {
        (((stands - least) as u64) << l.mantissa) + rounded
    };
    match magnitude {
        m if m > l.greatest() => None,
        0 if l.top == Top::Fnuz => Some(0),
        m => Some(sign | m),
    }
}

/// The NaN that `"NaN"` means: sign 0, the top mantissa bit set and no other, where the format has that choice.
pub(crate) fn canonical_nan(float: Float) -> Option<u64> {
    layout(float).nan()
}

/// Infinity, where the format has it.
pub(crate) fn infinity(float: Float, negative: bool) -> Option<u64> {
    let l = layout(float);
    (l.top == Top::Ieee).then(|| l.infinity() | if negative { l.sign } else { 0 })
}

/// The greatest number of the format, as bits.
pub(crate) fn greatest(float: Float) -> u64 {
    layout(float).greatest()
}

/// Whether the format has a sign bit.
pub(crate) fn is_signed(float: Float) -> bool {
    layout(float).sign != 0
}

/// How many bits of mantissa the format stores.
pub(crate) fn mantissa_bits(float: Float) -> u32 {
    layout(float).mantissa
}

/// The format's number nearest to a JSON number, rounded once; `None` if `text` is no JSON number. The bare words
/// `NaN`, `Infinity` and `-Infinity` are read where the format has them.
pub(crate) fn from_decimal(float: Float, text: &str) -> Option<u64> {
    match text {
        "NaN" => return canonical_nan(float),
        "Infinity" => return infinity(float, false),
        "-Infinity" => return infinity(float, true),
        _ => {}
    }
    // Rust's grammar has more words and signs than JSON's.
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        || text.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
    {
        return None;
    }
    match float {
        Float::F32 => return text.parse::<f32>().ok().map(|x| u64::from(x.to_bits())),
        Float::F64 => return text.parse::<f64>().ok().map(f64::to_bits),
        _ => {}
    }
    let near: f64 = text.parse().ok()?;
    if !near.is_finite() || near == 0.0 {
        return Some(from_f64(float, near));
    }
    // Rounding twice goes wrong only if the first rounding lands on a tie of the second: then a number a hair to the
    // side the text lies on settles it. A tie of a format of at most 11 significant bits has at most 12.
    let (below, above) = (near.next_down(), near.next_up());
    if near.to_bits() & 0xffff_ffff != 0 || from_f64(float, below) == from_f64(float, above) {
        return Some(from_f64(float, near));
    }
    let exact = Decimal::of(&format!("{near:.1074}"))?;
    let order = Decimal::of(text)?.magnitude_cmp(&exact);
    let settled = match (order, near > 0.0) {
        (std::cmp::Ordering::Equal, _) => near,
        (std::cmp::Ordering::Less, true) | (std::cmp::Ordering::Greater, false) => below,
        (std::cmp::Ordering::Greater, true) | (std::cmp::Ordering::Less, false) => above,
    };
    Some(from_f64(float, settled))
}

/// The magnitude of a decimal: `0.digits * 10^point`, without leading or trailing zeros.
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    fn of(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('-');
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((n, e)) => {
                (n, e.parse::<i64>().unwrap_or(if e.starts_with('-') { -1 << 40 } else { 1 << 40 }))
            }
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = all.iter().take_while(|b| **b == b'0').count();
        let end = all.iter().rposition(|b| *b != b'0').map_or(zeros, |i| i + 1);
        let digits = all.get(zeros..end)?.to_vec();
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        Some(Self { digits, point: point.checked_add(exponent)? })
    }

    fn magnitude_cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits))
    }
}

#[cfg(test)]
mod tests;
