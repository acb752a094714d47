//! The pixel layout of a TIFF page, from its tags, validated.

use std::sync::Arc;

use super::ifd::{Ifd, Tiff};
use crate::error::{Error, Result, invalid, unsupported};
use crate::image::source::file::Handle;
use crate::meta::DataType;
use crate::meta::dtype::Float;
use crate::num;

/// The maximum length of a side.
const MAX_SIDE: u64 = 1 << 31;

pub(super) mod tag {
    pub(in super::super) const SUBFILE: u16 = 254;
    pub(in super::super) const WIDTH: u16 = 256;
    pub(in super::super) const HEIGHT: u16 = 257;
    pub(in super::super) const BITS: u16 = 258;
    pub(in super::super) const COMPRESSION: u16 = 259;
    pub(in super::super) const PHOTOMETRIC: u16 = 262;
    pub(in super::super) const FILL_ORDER: u16 = 266;
    pub(in super::super) const DESCRIPTION: u16 = 270;
    pub(in super::super) const STRIP_OFFSETS: u16 = 273;
    pub(in super::super) const SAMPLES: u16 = 277;
    pub(in super::super) const ROWS_PER_STRIP: u16 = 278;
    pub(in super::super) const STRIP_BYTES: u16 = 279;
    pub(in super::super) const X_RESOLUTION: u16 = 282;
    pub(in super::super) const Y_RESOLUTION: u16 = 283;
    pub(in super::super) const PLANAR: u16 = 284;
    pub(in super::super) const RESOLUTION_UNIT: u16 = 296;
    pub(in super::super) const PREDICTOR: u16 = 317;
    pub(in super::super) const COLOR_MAP: u16 = 320;
    pub(in super::super) const TILE_WIDTH: u16 = 322;
    pub(in super::super) const TILE_HEIGHT: u16 = 323;
    pub(in super::super) const TILE_OFFSETS: u16 = 324;
    pub(in super::super) const TILE_BYTES: u16 = 325;
    pub(in super::super) const EXTRA_SAMPLES: u16 = 338;
    pub(in super::super) const SAMPLE_FORMAT: u16 = 339;
    pub(in super::super) const JPEG_TABLES: u16 = 347;
    pub(in super::super) const IMAGE_DEPTH: u16 = 32997;
    pub(in super::super) const IJ_COUNTS: u16 = 50838;
    pub(in super::super) const IJ_METADATA: u16 = 50839;
}

/// Photometric interpretations.
pub(super) const WHITE_IS_ZERO: u64 = 0;
pub(super) const RGB: u64 = 2;
pub(super) const PALETTE: u64 = 3;
pub(super) const YCBCR: u64 = 6;

pub(super) const JPEG: u64 = 7;

pub(super) type Colors = Arc<[[u8; 3]]>;

/// The pixel layout of a page. Pages of one stack share it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PageLayout {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) samples: u64,
    /// Bits per stored sample.
    pub(super) bits: u64,
    pub(super) data_type: DataType,
    pub(super) photometric: u64,
    /// Whether each sample has its own plane.
    pub(super) is_planar: bool,
    pub(super) compression: u64,
    pub(super) predictor: u64,
    pub(super) is_tiled: bool,
    /// Columns and rows of a tile, or of a strip.
    pub(super) segment: (u64, u64),
    pub(super) is_big_endian: bool,
    /// Whether the bits in bytes are reversed.
    pub(super) is_reversed: bool,
    pub(super) colors: Option<Colors>,
    pub(super) jpeg_tables: Option<Arc<[u8]>>,
    /// Whether the last sample is alpha.
    pub(super) has_alpha: bool,
}

impl PageLayout {
    pub(super) fn read(tiff: &Tiff, handle: &Handle, ifd: &Ifd) -> Result<Self> {
        let number = |tag: u16| tiff.number(handle, ifd, tag);
        let need =
            |tag: u16, name: &str| number(tag)?.ok_or_else(|| invalid!("the page has no {name} (tag {tag})"));
        let side = |tag: u16, name: &str| match need(tag, name)? {
            n @ 1..=MAX_SIDE => Ok(n),
            n => Err(invalid!("the page has an invalid {name}: {n}")),
        };
        let (width, height) = (side(tag::WIDTH, "width")?, side(tag::HEIGHT, "height")?);
        let samples = number(tag::SAMPLES)?.unwrap_or(1);
        if samples == 0 || samples > 1 << 14 {
            return Err(invalid!("the page has {samples} samples per pixel"));
        }
        if number(tag::IMAGE_DEPTH)?.is_some_and(|n| n != 1) {
            return Err(Error::unsupported("TIFF pages with ImageDepth are not supported"));
        }
        // One number per sample, or one for all; none means 1.
        let same = |tag: u16, name: &str| -> Result<u64> {
            let all = match ifd.get(tag) {
                Some(entry) => tiff.uints(handle, entry)?,
                None => Vec::new(),
            };
            let first = all.first().copied().unwrap_or(1);
            if all.iter().any(|n| *n != first) {
                return Err(unsupported!("samples with different {name} are not supported: {all:?}"));
            }
            Ok(first)
        };
        let bits = same(tag::BITS, "bits")?;
        let format = same(tag::SAMPLE_FORMAT, "format")?;
        let photometric = number(tag::PHOTOMETRIC)?.unwrap_or(1);
        let compression = number(tag::COMPRESSION)?.unwrap_or(1);
        let is_tiled = ifd.get(tag::TILE_WIDTH).is_some();
        let segment = if is_tiled {
            (side(tag::TILE_WIDTH, "tile width")?, side(tag::TILE_HEIGHT, "tile height")?)
        } else {
            let rows = number(tag::ROWS_PER_STRIP)?.filter(|n| *n > 0).unwrap_or(height);
            (width, rows.min(height))
        };
        if photometric == YCBCR && compression != JPEG {
            return Err(Error::unsupported("TIFF files in YCbCr are supported only with JPEG compression"));
        }
        let data_type = data_type(format, bits)?;
        let jpeg_tables = match ifd.get(tag::JPEG_TABLES).filter(|_| compression == JPEG) {
            Some(entry) => Some(tiff.value(handle, entry)?.into()),
            None => None,
        };
        let extra = match ifd.get(tag::EXTRA_SAMPLES) {
            Some(entry) => tiff.uints(handle, entry)?,
            None => Vec::new(),
        };
        Ok(Self {
            width,
            height,
            samples,
            bits,
            data_type,
            photometric,
            is_planar: samples > 1 && number(tag::PLANAR)?.unwrap_or(1) == 2,
            compression,
            predictor: number(tag::PREDICTOR)?.unwrap_or(1),
            is_tiled,
            segment,
            is_big_endian: tiff.is_big_endian,
            is_reversed: number(tag::FILL_ORDER)? == Some(2),
            colors: if photometric == PALETTE { colors(tiff, handle, ifd)? } else { None },
            jpeg_tables,
            has_alpha: extra.last().is_some_and(|n| matches!(n, 1 | 2)),
        })
    }

    /// The number of segments along x and y.
    pub(super) fn segments(&self) -> (u64, u64) {
        let (w, h) = self.segment;
        (self.width.div_ceil(w.max(1)), self.height.div_ceil(h.max(1)))
    }

    /// The total number of segments.
    pub(super) fn segment_count(&self) -> Result<u64> {
        let (across, down) = self.segments();
        num::product(&[across, down, if self.is_planar { self.samples } else { 1 }])
    }

    /// Samples per pixel in one segment.
    pub(super) fn interleaved(&self) -> u64 {
        if self.is_planar { 1 } else { self.samples }
    }

    /// The bytes of a row of a segment as stored.
    pub(super) fn row_bytes(&self) -> Result<u64> {
        Ok(num::product(&[self.segment.0, self.interleaved(), self.bits])?.div_ceil(8))
    }

    /// The bytes of a row of a segment in memory.
    pub(super) fn row_in_memory(&self) -> Result<u64> {
        num::product(&[self.segment.0, self.interleaved(), num::u64_of(self.data_type.size())])
    }

    /// The colour of a palette that is a ramp from black to it: then the indexes are intensities, and the palette a
    /// lookup table.
    pub(super) fn ramp(&self) -> Option<[u8; 3]> {
        let colors = self.colors.as_ref()?;
        let (first, last) = (colors.first()?, colors.last()?);
        let steady = colors.windows(2).all(|pair| match pair {
            [a, b] => a.iter().zip(b).all(|(a, b)| a <= b),
            _ => true,
        });
        (steady && *first == [0; 3] && *last != [0; 3]).then_some(*last)
    }
}

fn data_type(format: u64, bits: u64) -> Result<DataType> {
    Ok(match (format, bits) {
        (1 | 4, 1..=8) => DataType::UInt(8),
        (1 | 4, 9..=16) => DataType::UInt(16),
        (1 | 4, 32) => DataType::UInt(32),
        (1 | 4, 64) => DataType::UInt(64),
        (2, 8) => DataType::Int(8),
        (2, 16) => DataType::Int(16),
        (2, 32) => DataType::Int(32),
        (2, 64) => DataType::Int(64),
        (3, 16) => DataType::Float(Float::F16),
        (3, 32) => DataType::FLOAT32,
        (3, 64) => DataType::FLOAT64,
        _ => {
            let kind = match format {
                1 | 4 => "unsigned integers",
                2 => "signed integers",
                3 => "floats",
                5 | 6 => "complex numbers",
                _ => "samples of an unknown format",
            };
            return Err(unsupported!("TIFF files with {kind} of {bits} bits are not supported"));
        }
    })
}

/// The palette: all red, all green, all blue, of 16 bits.
fn colors(tiff: &Tiff, handle: &Handle, ifd: &Ifd) -> Result<Option<Colors>> {
    let Some(entry) = ifd.get(tag::COLOR_MAP) else { return Ok(None) };
    let all = tiff.uints(handle, entry)?;
    let n = all.len() / 3;
    // Some writers use 8-bit values.
    let shift = if all.iter().any(|v| *v > 255) { 8 } else { 0 };
    let part =
        |i: usize, k: usize| all.get(k * n + i).and_then(|v| u8::try_from(v >> shift).ok()).unwrap_or(0);
    Ok((n > 0).then(|| (0..n).map(|i| [part(i, 0), part(i, 1), part(i, 2)]).collect()))
}
