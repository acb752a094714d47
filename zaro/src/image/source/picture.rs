//! Reads PNG and JPEG files.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use png::{BitDepth, ColorType, Decoder, Limits, Transformations};

use super::file::SourceFile;
use super::tiff::{self, rgb_channels};
use super::{ImageSource, ImageSourceOptions, Pixels, PlaneWindow, stem};
use crate::error::{Error, Result, invalid};
use crate::meta::DataType;
use crate::num;

/// The memory limit of the PNG decoder besides a row.
const PNG_MEMORY: usize = 64 << 20;

/// The maximum size of JPEG files, which have to be in memory as a whole.
const MAX_JPEG: u64 = 1 << 30;

fn damaged(e: png::DecodingError) -> Error {
    Error::invalid("the PNG image is damaged").with_source(e)
}

struct PngSource {
    input: SourceFile,
    /// Keep palette indexes.
    indexes: bool,
    width: u64,
    height: u64,
    samples: u64,
    size: usize,
    /// Bits per sample in the file, if fewer than eight.
    packed: Option<u32>,
}

impl PngSource {
    fn reader(input: &SourceFile, indexes: bool) -> Result<png::Reader<BufReader<File>>> {
        let file = File::open(&input.path)?;
        let mut decoder =
            Decoder::new_with_limits(BufReader::with_capacity(1 << 16, file), Limits { bytes: PNG_MEMORY });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.ignore_checksums(false);
        let info = decoder.read_header_info().map_err(damaged)?;
        // Samples of fewer bits are not scaled to eight.
        let kept = match info.color_type {
            ColorType::Indexed => indexes,
            ColorType::Grayscale => info.bit_depth != BitDepth::Sixteen && info.bit_depth != BitDepth::Eight,
            _ => false,
        };
        decoder.set_transformations(if kept { Transformations::IDENTITY } else { Transformations::EXPAND });
        decoder.read_info().map_err(damaged)
    }

    /// Unpacks a row to one byte per sample, the highest bits first.
    fn unpacked<'a>(&self, row: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let Some(bits) = self.packed else { return Ok(Cow::Borrowed(row)) };
        let mask = u8::MAX >> (8 - bits);
        let shifts = (0..8 / bits).rev().map(|i| i * bits);
        let numbers = row.iter().flat_map(|byte| shifts.clone().map(move |shift| byte >> shift & mask));
        Ok(Cow::Owned(numbers.take(num::usize_of(self.width)?).collect()))
    }
}

/// A PNG file as an image.
pub(super) fn png(input: SourceFile, options: &ImageSourceOptions) -> Result<ImageSource> {
    let reader = PngSource::reader(&input, options.indexes)?;
    let (color, depth) = reader.output_color_type();
    let samples = num::u64_of(color.samples());
    let size = if depth == BitDepth::Sixteen { 2 } else { 1 };
    let (width, height) = reader.info().size();
    let (width, height) = (u64::from(width), u64::from(height));
    let data_type = if size == 2 { DataType::UInt(16) } else { DataType::UINT8 };
    let name = stem(&input.path);
    let packed = match depth {
        BitDepth::One => Some(1),
        BitDepth::Two => Some(2),
        BitDepth::Four => Some(4),
        BitDepth::Eight | BitDepth::Sixteen => None,
    };
    let pixels = PngSource { input, indexes: options.indexes, width, height, samples, size, packed };
    let mut source = ImageSource::new(name, [1, samples, 1, height, width], data_type, Arc::new(pixels));
    source.is_rgb = samples >= 3;
    if source.is_rgb {
        source.channels = rgb_channels(samples, samples == 4);
    }
    Ok(source)
}

impl Pixels for PngSource {
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let place = |e: Error| e.with_store(self.input.path.display());
        let mut reader = Self::reader(&self.input, self.indexes).map_err(place)?;
        let line = match self.packed {
            Some(bits) => num::usize_of(self.width.saturating_mul(u64::from(bits)).div_ceil(8))?,
            None => num::product_usize(&[self.width, self.samples, num::u64_of(self.size)])?,
        };
        if reader.output_line_size(reader.info().width) != Some(line) {
            return Err(place(Error::io("the file changed while it was read")));
        }
        if reader.info().interlaced {
            // Interlaced: rows come in seven passes, so all are needed at once.
            let bytes = num::product(&[num::u64_of(line), self.height])?;
            let most = self.input.len.saturating_mul(1100).saturating_add(1 << 16);
            if bytes > most {
                return Err(place(invalid!("implausible PNG size: {bytes} bytes in {}", self.input.len)));
            }
            let mut whole = vec![0; num::usize_of(bytes)?];
            reader.next_frame(&mut whole).map_err(damaged).map_err(place)?;
            reader.finish().map_err(damaged).map_err(place)?;
            let rows = whole.chunks_exact(line.max(1));
            for (i, row) in rows.enumerate().skip(num::usize_of(window.y.start)?) {
                if num::u64_of(i) >= window.y.end {
                    break;
                }
                put(&self.unpacked(row)?, (self.samples, self.size), num::u64_of(i), window, out)?;
            }
            return Ok(());
        }
        for y in 0..window.y.end {
            let row = reader.next_row().map_err(damaged).map_err(place)?;
            let row = row.ok_or_else(|| place(Error::invalid("the PNG image is truncated")))?;
            if y >= window.y.start {
                put(&self.unpacked(row.data())?, (self.samples, self.size), y, window, out)?;
            }
        }
        if window.y.end >= self.height {
            // The checksums follow the last row.
            reader.finish().map_err(damaged).map_err(place)?;
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        [self.samples, self.height, self.width]
    }
}

/// Copies one row of `samples` samples of `size` bytes, big-endian, to its place in `out`.
fn put(
    row: &[u8],
    (samples, size): (u64, usize),
    y: u64,
    window: &PlaneWindow,
    out: &mut [u8],
) -> Result<()> {
    let [_, rows, columns] = window.counts();
    let (columns, rows) = (num::usize_of(columns)?, num::usize_of(rows)?);
    let samples = num::usize_of(samples)?;
    let y = num::usize_of(y - window.y.start)?;
    let first = num::usize_of(window.x.start)?;
    for (k, c) in window.c.clone().enumerate() {
        let c = num::usize_of(c)?;
        let at = (k * rows + y) * columns * size;
        let to = out.get_mut(at..at + columns * size).unwrap_or_default();
        let from = row.chunks_exact(size).skip(first * samples + c).step_by(samples.max(1));
        for (to, from) in to.chunks_exact_mut(size).zip(from) {
            to.copy_from_slice(from);
            to.reverse();
        }
    }
    Ok(())
}

struct Jpeg {
    input: SourceFile,
    width: u64,
    height: u64,
    samples: u64,
}

impl Jpeg {
    fn decode(input: &SourceFile) -> Result<(Vec<u8>, [u64; 2], u64)> {
        let stored = input.whole(MAX_JPEG)?;
        tiff::jpeg(&stored, true)
    }
}

/// A JPEG file as an image.
pub(super) fn jpeg(input: SourceFile) -> Result<ImageSource> {
    let ([width, height], samples) = tiff::jpeg_size(&input.whole(MAX_JPEG)?)?;
    let name = stem(&input.path);
    let pixels = Jpeg { input, width, height, samples };
    let mut source =
        ImageSource::new(name, [1, samples, 1, height, width], DataType::UINT8, Arc::new(pixels));
    source.is_rgb = samples == 3;
    if source.is_rgb {
        source.channels = rgb_channels(samples, false);
    }
    Ok(source)
}

impl Pixels for Jpeg {
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let (pixels, sides, samples) =
            Self::decode(&self.input).map_err(|e| e.with_store(self.input.path.display()))?;
        if (sides, samples) != ([self.width, self.height], self.samples) {
            return Err(Error::io("the file changed while it was read").with_store(self.input.path.display()));
        }
        let line = num::product_usize(&[self.width, samples])?;
        for y in window.y.clone() {
            let at = num::usize_of(y)?.saturating_mul(line);
            let row = pixels.get(at..at.saturating_add(line)).unwrap_or_default();
            put(row, (samples, 1), y, window, out)?;
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        [self.samples, self.height, self.width]
    }
}
