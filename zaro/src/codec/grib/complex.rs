//! Complex packing (templates 5.2 and 5.3): the integers in groups, each with a reference and a width of its own, and
//! perhaps as differences of the first or second order along the field.
//!
//! Section 7 holds, each part from a whole byte on: the first values and the least difference (5.3 only), the groups'
//! references, their widths, their lengths, and then all numbers. A number with all bits set may stand for a missing
//! value, and one less for a second kind of missing.

use super::bits::{Bits, signed, u8_at};
use super::pack::{PackScale, count_at, cut, float, short};
use crate::error::{Error, Result, unsupported};

/// Stands for a missing value; no sum that is allowed reaches it.
const MISSING: i64 = i64::MAX;

struct Groups {
    count: usize,
    /// Added to each width, and the bits a width takes.
    width: (u64, u32),
    /// Added to each length, what it is multiplied by, and the bits it takes.
    length: (usize, usize, u32),
    last: usize,
    /// How many kinds of missing values there are.
    kinds: u64,
}

impl Groups {
    fn parse(packing: &[u8]) -> Result<Self> {
        let octet = |at: usize| u8_at(packing, at).ok_or_else(short);
        let kinds = match octet(22)? {
            n @ 0..=2 => u64::from(n),
            n => return Err(unsupported!("GRIB missing value management {n} is not supported")),
        };
        Ok(Self {
            count: count_at(packing, 31)?,
            width: (octet(35)?.into(), octet(36)?.into()),
            length: (count_at(packing, 37)?, usize::from(octet(41)?), octet(46)?.into()),
            last: count_at(packing, 42)?,
            kinds,
        })
    }
}

fn damaged() -> Error {
    Error::invalid("the groups of the GRIB message do not fit together")
}

pub(super) fn unpack(
    packing: &[u8],
    data: &[u8],
    n: usize,
    scale: PackScale,
    differences: bool,
    missing: f64,
) -> Result<Vec<f64>> {
    let groups = Groups::parse(packing)?;
    if groups.count == 0 {
        return Ok(vec![scale.constant(); n]);
    }
    let (mut rest, mut order) = (data, DifferenceOrder::None);
    if differences {
        (order, rest) = DifferenceOrder::parse(packing, data)?;
    }
    let mut values = grouped(rest, n, &groups, scale.bits)?;
    order.undo(&mut values)?;
    let value = |v: i64| {
        let magnitude = float(v.unsigned_abs());
        scale.value(if v < 0 { -magnitude } else { magnitude })
    };
    Ok(values.into_iter().map(|v| if v == MISSING { missing } else { value(v) }).collect())
}

/// `count` numbers of `bits` bits, which fill whole bytes; and what is behind them.
fn part(data: &[u8], count: usize, bits: u32) -> Result<(Bits<'_>, &[u8])> {
    let length = usize::try_from(bits).ok().and_then(|b| count.checked_mul(b)).ok_or_else(cut)?;
    let (here, behind) = data.split_at_checked(length.div_ceil(8)).ok_or_else(cut)?;
    Ok((Bits::new(here), behind))
}

fn grouped(data: &[u8], n: usize, groups: &Groups, bits: u32) -> Result<Vec<i64>> {
    if groups.count > n {
        return Err(damaged());
    }
    let (mut references, data) = part(data, groups.count, bits)?;
    let (mut widths, data) = part(data, groups.count, groups.width.1)?;
    let (mut lengths, data) = part(data, groups.count, groups.length.2)?;
    let mut numbers = Bits::new(data);
    let mut out = Vec::with_capacity(n);
    // The number with all its bits set. Of no bits that is 0, which can be missing too.
    let full = |bits: u32| 1u64.checked_shl(bits).map_or(u64::MAX, |n| n - 1);
    let is_missing = |v: u64, bits: u32| full(bits) - v < groups.kinds;
    for i in 0..groups.count {
        let reference = references.read(bits).ok_or_else(cut)?;
        let width = widths.read(groups.width.1).and_then(|w| w.checked_add(groups.width.0));
        let width = width.and_then(|w| u32::try_from(w).ok()).filter(|w| *w <= 56).ok_or_else(damaged)?;
        let length = lengths.read(groups.length.2).ok_or_else(cut)?;
        let length = if i + 1 == groups.count {
            groups.last
        } else {
            let length = usize::try_from(length).ok().and_then(|l| l.checked_mul(groups.length.1));
            length.and_then(|l| l.checked_add(groups.length.0)).ok_or_else(damaged)?
        };
        if length > n - out.len() {
            return Err(damaged());
        }
        let reference = i64::try_from(reference).ok().filter(|r| *r < 1 << 56).ok_or_else(damaged)?;
        if width == 0 {
            let all = u64::try_from(reference).is_ok_and(|r| is_missing(r, bits));
            out.resize(out.len() + length, if all { MISSING } else { reference });
            continue;
        }
        for _ in 0..length {
            let number = numbers.read(width).ok_or_else(cut)?;
            out.push(match i64::try_from(number) {
                Ok(v) if !is_missing(number, width) => reference + v,
                _ => MISSING,
            });
        }
    }
    if out.len() == n { Ok(out) } else { Err(damaged()) }
}

/// What the integers are differences of.
enum DifferenceOrder {
    None,
    First { first: i64, least: i64 },
    Second { first: i64, second: i64, least: i64 },
}

impl DifferenceOrder {
    /// What stands at the head of section 7, and what is behind it.
    fn parse<'a>(packing: &[u8], data: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let (order, octets) = u8_at(packing, 47).zip(u8_at(packing, 48)).ok_or_else(short)?;
        let bits = u32::from(octets) * 8;
        if bits > 56 {
            return Err(damaged());
        }
        let (head, rest) =
            data.split_at_checked(usize::from(octets) * (usize::from(order) + 1)).ok_or_else(cut)?;
        let mut head = Bits::new(head);
        let mut value = || head.read(bits).and_then(|v| i64::try_from(v).ok()).ok_or_else(cut);
        let first = value()?;
        let order = match order {
            1 => Self::First { first, least: signed(value()?.unsigned_abs(), bits) },
            2 => Self::Second { first, second: value()?, least: signed(value()?.unsigned_abs(), bits) },
            n => return Err(unsupported!("GRIB spatial differences of order {n} are not supported")),
        };
        Ok((order, rest))
    }

    fn undo(&self, values: &mut [i64]) -> Result<()> {
        let mut present = values.iter_mut().filter(|v| **v != MISSING);
        match *self {
            Self::None => {}
            Self::First { first, least } => {
                let mut last = first;
                if let Some(v) = present.next() {
                    *v = first;
                }
                for v in present {
                    *v = v.checked_add(last).and_then(|v| v.checked_add(least)).ok_or_else(damaged)?;
                    last = *v;
                }
            }
            Self::Second { first, second, least } => {
                let (mut before, mut last) = (first, second);
                for start in [first, second] {
                    if let Some(v) = present.next() {
                        *v = start;
                    }
                }
                for v in present {
                    let sum = last.checked_mul(2).and_then(|l| l.checked_sub(before));
                    let sum = sum.and_then(|s| s.checked_add(least)).and_then(|s| s.checked_add(*v));
                    (before, last) = (last, sum.filter(|s| *s != MISSING).ok_or_else(damaged)?);
                    *v = last;
                }
            }
        }
        Ok(())
    }
}
