//! Unpacks the values of a GRIB message: section 7, by the template of section 5.
//!
//! | template | packing | where |
//! |---|---|---|
//! | 5.0 | simple: integers of equal width | here |
//! | 5.2, 5.3 | complex: groups of integers, or of their differences | `complex.rs` |
//! | 5.4 | floats | here |
//! | 5.40 | the integers as a JPEG 2000 image | `../image.rs` |
//! | 5.41 | the integers as a PNG image | `../image.rs` |
//! | 5.42 | the integers in CCSDS 121 | `aec.rs` |
//! | 5.200 | runs of levels | here |
//!
//! An integer `n` stands for `(R + n 2^E) 10^-D`, calculated in the order that eccodes does, so that all bits agree.
//! Zero bits a value mean that all values are `R`, whatever `D` says; complex packing says the same by having no groups.
//! That, too, is how eccodes reads them.

use super::bits::{Bits, i16_at, octets, u8_at, u16_at, u32_at};
use super::message::GribField;
use super::{aec, complex};
use crate::codec::image;
use crate::error::{Error, Result, invalid, unsupported};
use crate::num;

/// How integers become values.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackScale {
    reference: f64,
    binary: f64,
    decimal: f64,
    pub(super) bits: u32,
}

impl PackScale {
    /// From octets 12 to 20 of section 5.
    fn parse(packing: &[u8]) -> Result<Self> {
        let read = || {
            let reference = f32::from_be_bytes(octets(packing, 11)?);
            Some((reference, i16_at(packing, 15)?, i16_at(packing, 17)?, u8_at(packing, 19)?))
        };
        let (reference, binary, decimal, bits) = read().ok_or_else(short)?;
        Ok(Self::new(reference.into(), binary, decimal, bits.into()))
    }

    /// From its parts, as edition 1 has them.
    pub(super) fn new(reference: f64, binary: i32, decimal: i32, bits: u32) -> Self {
        Self { reference, binary: power(2.0, binary), decimal: power(10.0, -decimal), bits }
    }

    #[inline]
    pub(super) fn value(&self, n: f64) -> f64 {
        (n * self.binary + self.reference) * self.decimal
    }

    /// What all values are if there are no bits.
    pub(super) fn constant(&self) -> f64 {
        self.reference
    }
}

/// The section that describes the packing is too short for its template.
pub(super) fn short() -> Error {
    Error::invalid("section 5 of the GRIB message is too short")
}

/// The data end too early.
pub(super) fn cut() -> Error {
    Error::invalid("the data of the GRIB message are truncated")
}

/// `base` to the power of `n`, by one multiplication or division after another: what eccodes does, and not always what
/// a power function gives.
fn power(base: f64, n: i32) -> f64 {
    let step = |x: f64| if n < 0 { x / base } else { x * base };
    (0..n.unsigned_abs()).fold(1.0, |x, _| step(x))
}

/// An integer as a float, rounded once.
#[inline]
pub(super) fn float(n: u64) -> f64 {
    match u32::try_from(n) {
        Ok(n) => f64::from(n),
        Err(_) => {
            let high = u32::try_from(n >> 32).unwrap_or(u32::MAX);
            let low = u32::try_from(n & 0xffff_ffff).unwrap_or(u32::MAX);
            f64::from(high) * 4_294_967_296.0 + f64::from(low)
        }
    }
}

/// The values of section 7, as many as section 5 says. Missing ones are `missing`.
///
/// The caller has checked their number.
pub(super) fn unpack(field: &GribField<'_>, missing: f64) -> Result<Vec<f64>> {
    let (packing, data, n) = (field.packing, field.data, field.values);
    let template = field.packing_template()?;
    match template {
        4 => return ieee(packing, data, n),
        200 => return run_length(packing, data, n, missing),
        0 | 2 | 3 | 40 | 41 | 42 => {}
        50 | 51 | 53 => {
            return Err(unsupported!("GRIB packing 5.{template}, of spectral data, is not supported"));
        }
        _ => return Err(unsupported!("GRIB packing 5.{template} is not supported")),
    }
    let scale = PackScale::parse(packing)?;
    // Groups have widths of their own.
    if scale.bits == 0 && !matches!(template, 2 | 3) {
        return Ok(vec![scale.constant(); n]);
    }
    match template {
        0 => simple(data, n, scale),
        2 => complex::unpack(packing, data, n, scale, false, missing),
        3 => complex::unpack(packing, data, n, scale, true, missing),
        42 => {
            let settings = aec::AecSettings::grib(packing, scale.bits)?;
            let mut out = Vec::with_capacity(n);
            aec::decode(data, &settings, n, |v| out.push(scale.value(float(v))))?;
            Ok(out)
        }
        40 => {
            let samples = image::jpeg2k(data, n).map_err(|e| e.within("JPEG 2000"))?;
            Ok(samples.into_iter().map(|v| scale.value(v.into())).collect())
        }
        _ => {
            let samples = image::png_numbers(data, n).map_err(|e| e.within("PNG"))?;
            Ok(samples.into_iter().map(|v| scale.value(v.into())).collect())
        }
    }
}

/// Integers of equal width, one after the other.
pub(super) fn simple(data: &[u8], n: usize, scale: PackScale) -> Result<Vec<f64>> {
    let width = num::usize_of(scale.bits.into())?;
    if width > 64 {
        return Err(invalid!("invalid width of values: {width} bits"));
    }
    let mut bits = Bits::new(data);
    if bits.left() / width < n {
        return Err(cut());
    }
    (0..n).map(|_| bits.read(scale.bits).map(|v| scale.value(float(v))).ok_or_else(cut)).collect()
}

fn ieee(packing: &[u8], data: &[u8], n: usize) -> Result<Vec<f64>> {
    let whole = |width: usize| n.checked_mul(width).and_then(|n| data.get(..n)).ok_or_else(cut);
    Ok(match u8_at(packing, 11).ok_or_else(short)? {
        1 => whole(4)?.as_chunks().0.iter().map(|c| f64::from(f32::from_be_bytes(*c))).collect(),
        2 => whole(8)?.as_chunks().0.iter().map(|c| f64::from_be_bytes(*c)).collect(),
        p => return Err(unsupported!("GRIB packing 5.4 of precision {p} is not supported")),
    })
}

/// Levels, each followed by the digits of how often it is repeated: numbers above the greatest level, lowest first.
fn run_length(packing: &[u8], data: &[u8], n: usize, missing: f64) -> Result<Vec<f64>> {
    let read =
        || Some((u8_at(packing, 11)?, u16_at(packing, 12)?, u16_at(packing, 14)?, u8_at(packing, 16)?));
    let (bits, greatest, count, decimal) = read().ok_or_else(short)?;
    let (bits, greatest) = (u32::from(bits), u64::from(greatest));
    let decimal = i32::from(decimal);
    let factor = power(10.0, if decimal > 127 { decimal - 128 } else { -decimal });
    let damaged = || Error::invalid("the runs of the GRIB message do not fit together");
    let base = 1u64.checked_shl(bits).and_then(|r| r.checked_sub(greatest + 1)).filter(|r| *r > 0);
    let base = base.filter(|_| (1..=32).contains(&bits) && greatest <= count.into()).ok_or_else(damaged)?;
    let mut levels = vec![missing];
    for i in 0..usize::from(count) {
        levels.push(f64::from(u16_at(packing, 17 + 2 * i).ok_or_else(short)?) * factor);
    }
    let mut source = Bits::new(data);
    let mut out = Vec::with_capacity(n);
    let mut next = source.read(bits);
    while out.len() < n {
        let level = next.filter(|v| *v <= greatest).ok_or_else(damaged)?;
        let level = usize::try_from(level).ok().and_then(|l| levels.get(l)).ok_or_else(damaged)?;
        let (mut length, mut weight) = (1u64, 1u64);
        loop {
            next = source.read(bits);
            let Some(digit) = next.and_then(|v| v.checked_sub(greatest + 1)) else { break };
            length = weight.checked_mul(digit).and_then(|d| length.checked_add(d)).ok_or_else(damaged)?;
            weight = weight.saturating_mul(base);
        }
        let room = n - out.len();
        let length = usize::try_from(length).ok().filter(|l| *l <= room).ok_or_else(damaged)?;
        out.resize(out.len() + length, *level);
    }
    Ok(out)
}

/// Four octets of section 5 as a count.
pub(super) fn count_at(packing: &[u8], from: usize) -> Result<usize> {
    num::usize_of(u32_at(packing, from).ok_or_else(short)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_repeated_products() {
        assert_eq!(power(2.0, -3), 0.125);
        assert_eq!(power(10.0, 0), 1.0);
        assert_eq!(power(10.0, -2), 1.0 / 10.0 / 10.0);
        assert_eq!(power(10.0, 22), 1e22);
    }

    #[test]
    fn integers_become_floats_with_one_rounding() {
        for n in [
            0,
            1,
            u64::from(u32::MAX),
            1 << 32,
            (1 << 53) + 1,
            (1 << 54) + 3,
            u64::MAX,
            0x1234_5678_9abc_def1,
        ] {
            assert_eq!(float(n), n.to_string().parse::<f64>().unwrap(), "{n}");
        }
    }

    #[test]
    fn runs_are_repeated() {
        // Levels 10, 25 in tenths; 4 bits, greatest level 2, so digits of base 13 begin at 3.
        let packing = [0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 200, 4, 0, 2, 0, 2, 1, 0, 10, 0, 25];
        let data = [0x1f, 0x24, 0x01, 0x34];
        let got = run_length(&packing, &data, 14 + 1 + 1 + 14, f64::NAN);
        // 1 then digit 12; 2 then digit 1; 0; 1 then digits 0 and 1.
        let want: Vec<f64> = [vec![1.0; 13], vec![2.5; 2], vec![f64::NAN], vec![1.0; 14]].concat();
        assert_eq!(format!("{:?}", got.unwrap()), format!("{want:?}"));
        assert!(run_length(&packing, &data, 29, 0.0).is_err());
        assert!(run_length(&packing, &data, 31, 0.0).is_err());
        assert!(run_length(&packing, &[0xff], 1, 0.0).is_err());
        assert!(run_length(&packing[..20], &data, 30, 0.0).is_err());
    }
}
