//! NIfTI-1 files: numbers of up to seven dimensions with the size of a pixel, as neuroimaging programs read them.

use zaro::meta::{DataType, Float};

/// The extent and the size of a pixel along one dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Side {
    pub(crate) extent: u64,
    pub(crate) pixel: f64,
}

/// The code of a data type and its bits; `None` if a file cannot hold it.
fn code(data_type: &DataType) -> Option<(i16, i16)> {
    Some(match data_type {
        DataType::Bool | DataType::UInt(8) => (2, 8),
        DataType::Int(16) => (4, 16),
        DataType::Int(32) => (8, 32),
        DataType::Float(Float::F32) => (16, 32),
        DataType::Float(Float::F64) => (64, 64),
        DataType::Int(8) => (256, 8),
        DataType::UInt(16) => (512, 16),
        DataType::UInt(32) => (768, 32),
        DataType::Int(64) => (1024, 64),
        DataType::UInt(64) => (1280, 64),
        _ => return None,
    })
}

/// The code of a unit of length.
pub(crate) fn unit_code(unit: Option<&str>) -> u8 {
    match unit {
        Some("meter" | "m") => 1,
        Some("millimeter" | "mm") => 2,
        Some("micrometer" | "micron" | "um" | "µm") => 3,
        _ => 0,
    }
}

/// A file of little-endian elements in C order. `sides` are those of the elements, the slowest first; in the file the
/// fastest is first, which is the same order of bytes.
pub(crate) fn file(
    data_type: &DataType,
    sides: &[Side],
    unit: u8,
    (scale, offset): (f64, f64),
    bytes: &[u8],
) -> zaro::Result<Vec<u8>> {
    let (code, bits) = code(data_type).ok_or_else(|| {
        zaro::Error::usage(format!("a NIfTI file cannot hold elements of type {data_type}"))
    })?;
    if sides.is_empty() || sides.len() > 7 {
        return Err(zaro::Error::usage("a NIfTI file has one to seven dimensions"));
    }
    let mut header = Header(vec![0; 352]);
    header.put(0, &348i32.to_le_bytes());
    header.put(40, &i16::try_from(sides.len()).unwrap_or(7).to_le_bytes());
    // What is not used is 1.
    for i in 1..8 {
        header.put(40 + 2 * i, &1i16.to_le_bytes());
        header.put(76 + 4 * i, &1f32.to_le_bytes());
    }
    for (i, side) in sides.iter().rev().enumerate() {
        let extent = i16::try_from(side.extent)
            .map_err(|_| zaro::Error::usage("a NIfTI file has at most 32767 pixels along a side"))?;
        header.put(42 + 2 * i, &extent.to_le_bytes());
        header.put(80 + 4 * i, &single(side.pixel).to_le_bytes());
    }
    header.put(70, &code.to_le_bytes());
    header.put(72, &bits.to_le_bytes());
    header.put(76, &1f32.to_le_bytes());
    header.put(108, &352f32.to_le_bytes());
    header.put(112, &single(scale).to_le_bytes());
    header.put(116, &single(offset).to_le_bytes());
    header.put(123, &[unit]);
    // Where the pixels lie: scaled only, as nothing more is known.
    header.put(254, &1i16.to_le_bytes());
    for (row, at) in [280usize, 296, 312].into_iter().enumerate() {
        let pixel = sides.iter().rev().nth(row).map_or(1.0, |side| side.pixel);
        header.put(at + 4 * row, &single(pixel).to_le_bytes());
    }
    header.put(344, b"n+1\0");
    let mut out = header.0;
    out.extend_from_slice(bytes);
    Ok(out)
}

struct Header(Vec<u8>);

impl Header {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (slot, byte) in self.0.iter_mut().skip(at).zip(bytes) {
            *slot = *byte;
        }
    }
}

#[allow(clippy::as_conversions, reason = "the format has single floats")]
fn single(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_dimension_is_first() {
        let sides = [Side { extent: 2, pixel: 2.0 }, Side { extent: 3, pixel: 0.5 }];
        let file = file(&DataType::UInt(8), &sides, 3, (1.0, 0.0), &[1, 2, 3, 4, 5, 6]).unwrap();
        let short = |at: usize| i16::from_le_bytes([file[at], file[at + 1]]);
        assert_eq!((short(40), short(42), short(44), short(46), short(70)), (2, 3, 2, 1, 2));
        assert_eq!(&file[80..84], 0.5f32.to_le_bytes());
        assert_eq!((file.len(), &file[344..348]), (358, b"n+1\0".as_slice()));
        assert!(super::file(&DataType::String, &sides, 0, (1.0, 0.0), &[]).is_err());
    }
}
