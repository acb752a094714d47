//! Pictures, and the files they are written to.

use std::io::Cursor;

use tiff::encoder::{Compression, TiffEncoder, colortype};
use tiff::tags::ExtraSamples;

use crate::error::{Error, Result};
use crate::num;

/// The most pixels a picture can have.
pub const MOST_PIXELS: u64 = 1 << 28;

/// A picture of red, green, blue and alpha, a byte each, row by row.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The pixels; the alpha is straight.
    pub rgba: Vec<u8>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picture").field("width", &self.width).field("height", &self.height).finish()
    }
}

impl Picture {
    /// A black one.
    pub fn black(width: u64, height: u64) -> Result<Self> {
        let pixels = num::product(&[width, height])?;
        let side = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0);
        let (Some(w), Some(h), true) = (side(width), side(height), pixels <= MOST_PIXELS) else {
            return Err(Error::usage(format!(
                "a picture of {width} x {height} pixels cannot be made; ask for a part of it, a smaller size or another \
                 level"
            )));
        };
        let mut rgba = vec![0; num::usize_of(pixels * 4)?];
        for alpha in rgba.iter_mut().skip(3).step_by(4) {
            *alpha = 255;
        }
        Ok(Self { width: w, height: h, rgba })
    }

    /// The pixel at column `x` of row `y`.
    #[must_use]
    pub fn pixel(&self, x: u32, y: u32) -> Option<[u8; 4]> {
        if x >= self.width {
            return None;
        }
        let at = num::usize_of((u64::from(y) * u64::from(self.width) + u64::from(x)) * 4).ok()?;
        self.rgba.get(at..)?.first_chunk().copied()
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        num::usize_of(u64::from(self.width) * 4).unwrap_or(usize::MAX)
    }

    /// Puts `other` on top, its corner at `x`, `y`. What reaches beyond is cut off.
    pub(super) fn put(&mut self, other: &Self, x: usize, y: usize) {
        let own = self.row_bytes();
        let rows = self.rgba.chunks_exact_mut(own).skip(y);
        for (to, from) in rows.zip(other.rgba.chunks_exact(other.row_bytes())) {
            for (a, b) in to.iter_mut().skip(x.saturating_mul(4)).zip(from) {
                *a = *b;
            }
        }
    }

    /// The bytes of a PNG file, compressed for speed.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let fault = |e: png::EncodingError| Error::io(format!("the PNG could not be made: {e}"));
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        // One filter for all rows: trying them all takes longer than compressing does.
        encoder.set_filter(png::Filter::Up);
        let mut writer = encoder.write_header().map_err(fault)?;
        writer.write_image_data(&self.rgba).map_err(fault)?;
        writer.finish().map_err(fault)?;
        Ok(bytes)
    }

    /// The bytes of a TIFF file: deflated strips, straight alpha.
    pub fn to_tiff(&self) -> Result<Vec<u8>> {
        let fault = |e: tiff::TiffError| Error::io(format!("the TIFF could not be made: {e}"));
        let mut bytes = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut bytes)
            .map_err(fault)?
            .with_compression(Compression::Deflate(tiff::encoder::DeflateLevel::Fast));
        let mut image = encoder.new_image::<colortype::RGB8>(self.width, self.height).map_err(fault)?;
        image.extra_samples(&[ExtraSamples::UnassociatedAlpha]).map_err(fault)?;
        image.write_data(&self.rgba).map_err(fault)?;
        Ok(bytes.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_keep_the_pixels() {
        let rgba: Vec<u8> = (0..5 * 3 * 4u8).map(|i| i.wrapping_mul(37)).collect();
        let picture = Picture { width: 5, height: 3, rgba: rgba.clone() };
        let mut reader = png::Decoder::new(Cursor::new(picture.to_png().unwrap())).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, rgba);
        let mut decoder = tiff::decoder::Decoder::new(Cursor::new(picture.to_tiff().unwrap())).unwrap();
        assert_eq!(decoder.colortype().unwrap(), tiff::ColorType::RGBA(8));
        let tiff::decoder::DecodingResult::U8(pixels) = decoder.read_image().unwrap() else { panic!() };
        assert_eq!(pixels, rgba);
    }

    #[test]
    fn pictures_have_a_size() {
        assert!(Picture::black(0, 5).is_err());
        assert!(Picture::black(1 << 20, 1 << 20).is_err());
        let mut page = Picture::black(4, 4).unwrap();
        let tile = Picture { width: 3, height: 2, rgba: vec![9; 24] };
        page.put(&tile, 2, 3);
        assert_eq!(page.pixel(2, 3), Some([9; 4]));
        assert_eq!(page.pixel(1, 3), Some([0, 0, 0, 255]));
        assert_eq!(page.pixel(4, 0), None);
    }
}
