//! Decodes GRIB edition 1 messages: grids in simple packing.
//!
//! `GRIB`, a length of three bytes and the edition; then sections that begin with their length, of which the first
//! says whether there is a grid and a bitmap; then `7777`. Numbers are as in edition 2, but for the reference value,
//! which is a float of IBM's: a sign, a power of 16 and 24 bits.

use super::bits::{Bits, i16_at, octets, u8_at, u16_at};
use super::pack::{self, PackScale};
use crate::error::{Error, Result, invalid};
use crate::num;

fn cut() -> Error {
    Error::invalid("the GRIB message is truncated")
}

fn u24_at(section: &[u8], from: usize) -> Option<u32> {
    octets(section, from).map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
}

/// The section at the head of `rest`, which then goes on behind it.
fn section<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = num::usize_of(u24_at(rest, 0).ok_or_else(cut)?.into())?;
    let (here, behind) = rest.split_at_checked(length).filter(|_| length > 3).ok_or_else(cut)?;
    *rest = behind;
    Ok(here)
}

/// A float of IBM's, which a double holds exactly.
fn ibm(bytes: [u8; 4]) -> f64 {
    let [head, a, b, c] = bytes;
    let mantissa = f64::from(u32::from_be_bytes([0, a, b, c]));
    let value = mantissa * 16f64.powi(i32::from(head & 0x7f) - 70);
    if head & 0x80 == 0 { value } else { -value }
}

/// The number of points of a grid, by its rows and columns.
fn points(grid: &[u8]) -> Result<usize> {
    match u16_at(grid, 6).zip(u16_at(grid, 8)).ok_or_else(cut)? {
        (u16::MAX, _) | (_, u16::MAX) => {
            Err(Error::unsupported("GRIB 1 grids with rows of different lengths are not supported"))
        }
        (columns, rows) => Ok(usize::from(columns).saturating_mul(rows.into())),
    }
}

/// The values of a message of `n` points; missing ones are `missing`.
pub(super) fn values(message: &[u8], n: usize, missing: f64) -> Result<Vec<f64>> {
    let length = u24_at(message, 4).ok_or_else(cut)?;
    let message = message.get(..num::usize_of(length.into())?).ok_or_else(cut)?;
    let mut rest = message.get(8..).ok_or_else(cut)?;
    let product = section(&mut rest)?;
    let (flags, decimal) = u8_at(product, 7).zip(i16_at(product, 26)).ok_or_else(cut)?;
    if flags & 0x80 == 0 {
        return Err(Error::unsupported(
            "GRIB 1 messages without a description of their grid are not supported",
        ));
    }
    let grid = section(&mut rest)?;
    if u8_at(grid, 5).is_some_and(|kind| matches!(kind, 50 | 60 | 70 | 80)) {
        return Err(Error::unsupported("spectral data in GRIB 1 are not supported"));
    }
    if points(grid)? != n {
        return Err(invalid!("the GRIB message has {} points where {n} were expected", points(grid)?));
    }
    let bitmap = if flags & 0x40 == 0 { None } else { Some(section(&mut rest)?) };
    let bitmap = match bitmap {
        None => None,
        Some(b) if u16_at(b, 4) == Some(0) => {
            Some(b.get(6..).filter(|b| b.len() >= n.div_ceil(8)).ok_or_else(cut)?)
        }
        Some(_) => return Err(Error::unsupported("a bitmap of the originating centre is not supported")),
    };
    let data = section(&mut rest)?;
    let read = || Some((u8_at(data, 3)?, i16_at(data, 4)?, ibm(octets(data, 6)?), u8_at(data, 10)?));
    let (flags, binary, reference, bits) = read().ok_or_else(cut)?;
    if flags & 0xd0 != 0 {
        return Err(Error::unsupported(
            "GRIB 1 packings other than simple packing of a grid are not supported",
        ));
    }
    let scale = PackScale::new(reference, binary, decimal, bits.into());
    let numbers = data.get(11..).unwrap_or_default();
    let unpack = |n: usize| match bits {
        0 => Ok(vec![scale.constant(); n]),
        _ => pack::simple(numbers, n, scale),
    };
    let Some(bitmap) = bitmap else { return unpack(n) };
    let mut bits = Bits::new(bitmap);
    let present: Vec<bool> = (0..n).map(|_| bits.read(1) == Some(1)).collect();
    let mut given = unpack(present.iter().filter(|p| **p).count())?.into_iter();
    Ok(present.into_iter().map(|p| if p { given.next().unwrap_or(missing) } else { missing }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_ibm() {
        assert_eq!(ibm([0x42, 0x64, 0, 0]), 100.0);
        assert_eq!(ibm([0xc1, 0x10, 0, 0]), -1.0);
        assert_eq!(ibm([0xc2, 0x76, 0xa0, 0]), -118.625);
        assert_eq!(ibm([0, 0, 0, 0]), 0.0);
    }
}
