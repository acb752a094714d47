//! Stored elements to R's: one pass, block by block, so that it can be done in place.

use zaro::internal::text::number;
use zaro::meta::{DataType, Float, TimeUnit};

use crate::r::{Kind, na_real};

/// Doubles are exact up to here.
const EXACT: u64 = 1 << 53;

/// What happens to each element.
#[derive(Debug, Clone)]
pub(crate) enum Widening {
    /// The bytes are R's already.
    Same,
    /// The same for 32-bit integers, where one value is R's missing one.
    Int32,
    Bool,
    I8,
    U8,
    I16,
    U16,
    U32,
    F32,
    Complex32,
    /// Doubles, exact or counted.
    I64,
    U64,
    /// The bits of `integer64`; below this value, they mean something else there.
    Bits64(i64),
    /// Any type of one or two bytes, by its bits; the flag is for complex numbers of two such parts.
    Table(std::sync::Arc<[f64]>, bool),
    /// Numpy's times: doubles times a factor over a divisor. `i64::MIN` is missing.
    Time(f64, f64),
    /// Months since 1970, as days.
    Months(i64),
}

/// What was seen on the way.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    /// R's missing integer among 32-bit integers.
    pub(crate) missing_int: bool,
    /// Integers that a double cannot hold, or `integer64`.
    pub(crate) beyond: u64,
}

/// The elements of type `t` as a vector of R: its kind, how to get there, and R's class.
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) widening: Widening,
    pub(crate) class: Class,
    /// Elements of R in one of Zarr.
    pub(crate) width: usize,
}

/// The class that R gives the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Plain,
    Integer64,
    PosixCt,
    Date,
    /// Seconds.
    Difftime,
}

/// How 64-bit integers and times are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) integer64: bool,
    pub(crate) raw_time: bool,
}

/// `None` for types that are no numbers of a fixed size.
pub(crate) fn target(t: &DataType, wanted: Wanted) -> Option<Target> {
    use Kind::{Complex, Double, Integer, Logical, Raw};
    let plain = |kind, widening| Some(Target { kind, widening, class: Class::Plain, width: 1 });
    let big = |widening| match wanted.integer64 {
        true => {
            // Its NA is the least value, which is also numpy's NaT; the upper half of `uint64` would be negative.
            let least = match t {
                DataType::Int(_) => i64::MIN + 1,
                DataType::UInt(_) => 0,
                _ => i64::MIN,
            };
            Some(Target {
                kind: Double,
                widening: Widening::Bits64(least),
                class: Class::Integer64,
                width: 1,
            })
        }
        false => plain(Double, widening),
    };
    match t {
        DataType::Bool => plain(Logical, Widening::Bool),
        DataType::Int(..=8) => plain(Integer, Widening::I8),
        DataType::UInt(..=8) => plain(Integer, Widening::U8),
        DataType::Int(16) => plain(Integer, Widening::I16),
        DataType::UInt(16) => plain(Integer, Widening::U16),
        DataType::Int(32) => plain(Integer, Widening::Int32),
        DataType::UInt(32) => plain(Double, Widening::U32),
        DataType::Int(64) => big(Widening::I64),
        DataType::UInt(64) => big(Widening::U64),
        DataType::Float(Float::F64) => plain(Double, Widening::Same),
        DataType::Float(Float::F32) => plain(Double, Widening::F32),
        DataType::Float(f) if f.size() <= 2 => plain(Double, Widening::Table(table(*f), false)),
        DataType::Complex(Float::F64) => plain(Complex, Widening::Same),
        DataType::Complex(Float::F32) => plain(Complex, Widening::Complex32),
        DataType::Complex(f) if f.size() <= 2 => plain(Complex, Widening::Table(table(*f), true)),
        DataType::Raw(n) if *n > 0 => {
            Some(Target { kind: Raw, widening: Widening::Same, class: Class::Plain, width: *n })
        }
        DataType::DateTime(..) | DataType::TimeDelta(..) if wanted.raw_time => big(Widening::I64),
        DataType::DateTime(unit, scale) => {
            let (widening, class) = match unit {
                TimeUnit::Generic => return big(Widening::I64),
                TimeUnit::Year => (Widening::Months(12 * i64::from(*scale)), Class::Date),
                TimeUnit::Month => (Widening::Months(i64::from(*scale)), Class::Date),
                TimeUnit::Week => (Widening::Time(7.0 * f64::from(*scale), 1.0), Class::Date),
                TimeUnit::Day => (Widening::Time(f64::from(*scale), 1.0), Class::Date),
                _ => (seconds(*unit, *scale)?, Class::PosixCt),
            };
            Some(Target { kind: Double, widening, class, width: 1 })
        }
        DataType::TimeDelta(unit, scale) => match seconds(*unit, *scale) {
            Some(widening) => Some(Target { kind: Double, widening, class: Class::Difftime, width: 1 }),
            // Months, years and numbers without a unit have no length.
            None => big(Widening::I64),
        },
        _ => None,
    }
}

/// A time unit in seconds.
fn seconds(unit: TimeUnit, scale: u32) -> Option<Widening> {
    let (factor, divisor) = match unit {
        TimeUnit::Week => (604_800.0, 1.0),
        TimeUnit::Day => (86_400.0, 1.0),
        TimeUnit::Hour => (3_600.0, 1.0),
        TimeUnit::Minute => (60.0, 1.0),
        TimeUnit::Second => (1.0, 1.0),
        TimeUnit::Millisecond => (1.0, 1e3),
        TimeUnit::Microsecond => (1.0, 1e6),
        TimeUnit::Nanosecond => (1.0, 1e9),
        TimeUnit::Picosecond => (1.0, 1e12),
        TimeUnit::Femtosecond => (1.0, 1e15),
        TimeUnit::Attosecond => (1.0, 1e18),
        TimeUnit::Year | TimeUnit::Month | TimeUnit::Generic => return None,
    };
    Some(Widening::Time(factor * f64::from(scale), divisor))
}

/// The value of each bit pattern of a small float.
fn table(f: Float) -> std::sync::Arc<[f64]> {
    let n: u32 = if f.size() == 1 { 256 } else { 65_536 };
    let value = |bits: u32| {
        let bytes = bits.to_le_bytes();
        number(&DataType::Float(f), bytes.get(..f.size()).unwrap_or_default()).unwrap_or(f64::NAN)
    };
    (0..n).map(value).collect()
}

impl Widening {
    /// The bytes of an element as stored, given those of R's.
    fn stored(&self, kind: Kind) -> usize {
        match self {
            Self::Same
            | Self::Int32
            | Self::I64
            | Self::U64
            | Self::Bits64(_)
            | Self::Time(..)
            | Self::Months(_) => kind.size(),
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::U32 | Self::F32 => 4,
            Self::Complex32 => 8,
            Self::Table(values, pairs) => {
                (if values.len() == 256 { 1 } else { 2 }) * (if *pairs { 2 } else { 1 })
            }
        }
    }
}

impl Target {
    /// The bytes of `n` elements as stored.
    pub(crate) fn stored_bytes(&self, n: usize) -> usize {
        n.saturating_mul(self.width).saturating_mul(self.widening.stored(self.kind))
    }

    /// The elements of R in `n` of Zarr.
    pub(crate) fn length(&self, n: usize) -> usize {
        n.saturating_mul(self.width)
    }

    /// Widens elements that lie at the end of `buffer`, to all of it. What is read was not overwritten yet: an element
    /// of R is at least as long as a stored one, so the place to write stays behind the place to read, a block of which
    /// is copied first.
    pub(crate) fn in_place(&self, buffer: &mut [u8], na: bool) -> Seen {
        const BLOCK: usize = 512;
        let (wide, narrow) = (self.kind.size(), self.widening.stored(self.kind));
        let n = buffer.len() / wide;
        let mut seen = Seen::default();
        if matches!(self.widening, Widening::Same) && !(na && self.kind == Kind::Double) {
            return seen;
        }
        let mut copy = [0u8; BLOCK * 16];
        let mut from = buffer.len() - n * narrow;
        let mut to = 0;
        while to < buffer.len() {
            let count = BLOCK.min((buffer.len() - to) / wide);
            let (Some(source), Some(held)) =
                (buffer.get(from..from + count * narrow), copy.get_mut(..count * narrow))
            else {
                break;
            };
            held.copy_from_slice(source);
            let Some(out) = buffer.get_mut(to..to + count * wide) else { break };
            self.convert(held, out, na, &mut seen);
            (from, to) = (from + count * narrow, to + count * wide);
        }
        seen
    }

    /// Widens `source` to `out`.
    pub(crate) fn convert(&self, source: &[u8], out: &mut [u8], na: bool, seen: &mut Seen) {
        let nan = |x: f64| if na && x.is_nan() { na_real() } else { x };
        match &self.widening {
            Widening::Same if na && self.kind == Kind::Double => {
                each(source, out, |b: [u8; 8]| nan(f64::from_le_bytes(b)).to_ne_bytes());
            }
            Widening::Same => out.copy_from_slice(source),
            Widening::Bits64(least) => {
                seen.beyond += count(source, |b: [u8; 8]| i64::from_le_bytes(b) < *least);
                out.copy_from_slice(source);
            }
            Widening::Int32 => {
                seen.missing_int |= count(source, |b: [u8; 4]| i32::from_le_bytes(b) == i32::MIN) > 0;
                out.copy_from_slice(source);
            }
            Widening::Bool => each(source, out, |b: [u8; 1]| i32::from(b != [0]).to_ne_bytes()),
            Widening::I8 => each(source, out, |b: [u8; 1]| i32::from(i8::from_le_bytes(b)).to_ne_bytes()),
            Widening::U8 => each(source, out, |b: [u8; 1]| i32::from(u8::from_le_bytes(b)).to_ne_bytes()),
            Widening::I16 => each(source, out, |b: [u8; 2]| i32::from(i16::from_le_bytes(b)).to_ne_bytes()),
            Widening::U16 => each(source, out, |b: [u8; 2]| i32::from(u16::from_le_bytes(b)).to_ne_bytes()),
            Widening::U32 => each(source, out, |b: [u8; 4]| f64::from(u32::from_le_bytes(b)).to_ne_bytes()),
            Widening::F32 => {
                each(source, out, |b: [u8; 4]| nan(f64::from(f32::from_le_bytes(b))).to_ne_bytes())
            }
            Widening::Complex32 => {
                each(source, out, |b: [u8; 4]| f64::from(f32::from_le_bytes(b)).to_ne_bytes());
            }
            Widening::I64 => {
                seen.beyond += count(source, |b: [u8; 8]| i64::from_le_bytes(b).unsigned_abs() > EXACT);
                each(source, out, |b: [u8; 8]| of_i64(i64::from_le_bytes(b)).to_ne_bytes());
            }
            Widening::U64 => {
                seen.beyond += count(source, |b: [u8; 8]| u64::from_le_bytes(b) > EXACT);
                each(source, out, |b: [u8; 8]| crate::value::real(u64::from_le_bytes(b)).to_ne_bytes());
            }
            Widening::Table(values, _) if values.len() == 256 => {
                let at =
                    |b: [u8; 1]| values.get(usize::from(u8::from_le_bytes(b))).copied().unwrap_or(f64::NAN);
                each(source, out, |b: [u8; 1]| nan(at(b)).to_ne_bytes());
            }
            Widening::Table(values, _) => {
                let at =
                    |b: [u8; 2]| values.get(usize::from(u16::from_le_bytes(b))).copied().unwrap_or(f64::NAN);
                each(source, out, |b: [u8; 2]| nan(at(b)).to_ne_bytes());
            }
            Widening::Time(factor, divisor) => {
                let time = |n: i64| if n == i64::MIN { na_real() } else { of_i64(n) * factor / divisor };
                each(source, out, |b: [u8; 8]| time(i64::from_le_bytes(b)).to_ne_bytes());
            }
            Widening::Months(months) => {
                let time =
                    |n: i64| if n == i64::MIN { na_real() } else { first_day(n.saturating_mul(*months)) };
                each(source, out, |b: [u8; 8]| time(i64::from_le_bytes(b)).to_ne_bytes());
            }
        }
    }
}

fn each<const N: usize, const M: usize>(source: &[u8], out: &mut [u8], f: impl Fn([u8; N]) -> [u8; M]) {
    for (a, b) in source.as_chunks::<N>().0.iter().zip(out.as_chunks_mut::<M>().0) {
        *b = f(*a);
    }
}

fn count<const N: usize>(source: &[u8], f: impl Fn([u8; N]) -> bool) -> u64 {
    source.as_chunks::<N>().0.iter().map(|b| u64::from(f(*b))).sum()
}

/// The nearest double.
#[allow(clippy::as_conversions)]
fn of_i64(n: i64) -> f64 {
    n as f64
}

/// Days from 1970-01-01 to the first day of the month that is `months` after January 1970.
fn first_day(months: i64) -> f64 {
    // Counted from March of the year 0 on, so that a leap day is the last day of its year.
    let from = i128::from(months) + 1970 * 12 - 2;
    let (year, month) = (from.div_euclid(12), from.rem_euclid(12));
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5;
    i64::try_from(days - 719_468).map_or(f64::NAN, of_i64)
}
