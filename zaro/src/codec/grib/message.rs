//! Parses the sections of a GRIB2 message.
//!
//! A message is `GRIB`, its edition and length, then sections that each begin with their own length and number, then
//! `7777`. Sections 3 to 7 make a field: grid, product, packing, bitmap, data. A message may go on with more fields,
//! by a section 2, 3 or 4; like eccodes, only the first is read.

use super::bits::{octets, u8_at, u16_at, u32_at};
use crate::error::{Error, Result, invalid, unsupported};
use crate::num;

/// The first field of a message.
#[derive(Debug)]
pub(super) struct GribField<'a> {
    /// Section 3, with its length and number, as all of these.
    pub(super) grid: &'a [u8],
    /// Section 5.
    pub(super) packing: &'a [u8],
    /// The bits of section 6, one a point, if there are any.
    pub(super) bitmap: Option<&'a [u8]>,
    /// What section 7 holds behind its number.
    pub(super) data: &'a [u8],
    /// The number of points of the grid.
    pub(super) points: usize,
    /// The number of values in section 7.
    pub(super) values: usize,
}

fn cut() -> Error {
    Error::invalid("the GRIB message is truncated")
}

/// The edition of a message, which begins with `GRIB`.
pub(super) fn edition(message: &[u8]) -> Result<u8> {
    if !message.starts_with(b"GRIB") {
        return Err(Error::invalid("not a GRIB message: it does not begin with \"GRIB\""));
    }
    u8_at(message, 7).ok_or_else(cut)
}

/// Takes a message of edition 2 apart.
pub(super) fn parse(message: &[u8]) -> Result<GribField<'_>> {
    let length = octets(message, 8).map(u64::from_be_bytes).ok_or_else(cut)?;
    let message = message.get(..num::usize_of(length)?).ok_or_else(cut)?;
    let mut rest = message.get(16..).ok_or_else(cut)?;
    let (mut grid, mut packing, mut bitmap) = (None, None, None);
    loop {
        if rest.starts_with(b"7777") {
            return Err(Error::invalid("the GRIB message has no data section"));
        }
        let (length, number) = u32_at(rest, 0).zip(u8_at(rest, 4)).ok_or_else(cut)?;
        let length = num::usize_of(length.into())?;
        let (section, after) = rest.split_at_checked(length).filter(|_| length >= 5).ok_or_else(cut)?;
        rest = after;
        match number {
            1 | 2 | 4 => {}
            3 => grid = Some(section),
            5 => packing = Some(section),
            6 => bitmap = Some(section),
            7 => {
                let data = section.get(5..).unwrap_or_default();
                let missing = |n: u8| invalid!("the GRIB message has no section {n} before its data");
                return field(
                    grid.ok_or_else(|| missing(3))?,
                    packing.ok_or_else(|| missing(5))?,
                    bitmap.ok_or_else(|| missing(6))?,
                    data,
                );
            }
            n => return Err(invalid!("the GRIB message has an unexpected section {n}")),
        }
    }
}

fn field<'a>(grid: &'a [u8], packing: &'a [u8], bitmap: &'a [u8], data: &'a [u8]) -> Result<GribField<'a>> {
    let points = num::usize_of(u32_at(grid, 6).ok_or_else(cut)?.into())?;
    let values = num::usize_of(u32_at(packing, 5).ok_or_else(cut)?.into())?;
    let bitmap = match u8_at(bitmap, 5).ok_or_else(cut)? {
        255 => None,
        0 => Some(bitmap.get(6..).filter(|b| b.len() >= points.div_ceil(8)).ok_or_else(cut)?),
        254 => return Err(Error::invalid("the bitmap refers to an earlier field, but there is none")),
        n => return Err(unsupported!("bitmap {n} of the originating centre is not supported")),
    };
    Ok(GribField { grid, packing, bitmap, data, points, values })
}

impl GribField<'_> {
    /// The number of the grid template.
    pub(super) fn grid_template(&self) -> Result<u16> {
        u16_at(self.grid, 12).ok_or_else(cut)
    }

    /// The number of the packing template.
    pub(super) fn packing_template(&self) -> Result<u16> {
        u16_at(self.packing, 9).ok_or_else(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = u32::try_from(content.len() + 5).unwrap().to_be_bytes().to_vec();
        out.push(number);
        out.extend_from_slice(content);
        out
    }

    fn message(sections: &[Vec<u8>]) -> Vec<u8> {
        let body = sections.concat();
        let mut out = b"GRIB\0\0\0\x02".to_vec();
        out.extend_from_slice(&u64::try_from(body.len() + 20).unwrap().to_be_bytes());
        out.extend_from_slice(&body);
        out.extend_from_slice(b"7777");
        out
    }

    #[test]
    fn the_first_field_is_found() {
        let grid = section(3, &[0, 0, 0, 0, 9, 0, 0, 0, 30]);
        let packing = section(5, &[0, 0, 0, 7, 0, 41]);
        let bits = section(6, &[0, 0xfe, 0]);
        let none = section(6, &[255]);
        let data = section(7, b"data");
        let whole = message(&[grid.clone(), packing.clone(), bits.clone(), data.clone(), section(4, b"")]);
        assert_eq!(edition(&whole).unwrap(), 2);
        let f = parse(&whole).unwrap();
        assert_eq!((f.points, f.values, f.data), (9, 7, &b"data"[..]));
        assert_eq!((f.grid_template().unwrap(), f.packing_template().unwrap()), (30, 41));
        assert_eq!(f.bitmap, Some(&[0xfe, 0][..]));
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err());
        }
        assert!(
            parse(&message(&[grid.clone(), packing.clone(), none, data.clone()])).unwrap().bitmap.is_none()
        );
        for bitmap in [section(6, &[254]), section(6, &[1]), section(6, &[0, 0]), section(6, &[])] {
            assert!(parse(&message(&[grid.clone(), packing.clone(), bitmap, data.clone()])).is_err());
        }
        assert!(parse(&message(&[grid.clone(), packing.clone(), data.clone()])).is_err());
        assert!(parse(&message(&[packing, bits.clone(), data.clone()])).is_err());
        assert!(parse(&message(&[grid.clone(), bits, data])).is_err());
        assert!(parse(&message(&[grid, section(9, b"")])).is_err());
        assert!(edition(b"PK\x03\x04").is_err() && edition(b"GRIB").is_err());
    }
}
