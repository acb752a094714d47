//! Pictures, and writers of PNG and TIFF files.

use std::io::{Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use libdeflater::{CompressionLvl, Compressor};
use rayon::prelude::*;

use crate::context::install;
use crate::error::{Error, Hint, Result, io, usage};
use crate::num;

/// The maximum number of pixels of a picture.
pub const MOST_PIXELS: u64 = 1 << 28;

/// An RGBA picture, one byte per component, row by row.
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
    /// A black picture.
    pub fn black(width: u64, height: u64) -> Result<Self> {
        let (w, h) = sides(width, height)?;
        let mut rgba = vec![0; num::product_usize(&[width, height, 4])?];
        for alpha in rgba.iter_mut().skip(3).step_by(4) {
            *alpha = 255;
        }
        Ok(Self { width: w, height: h, rgba })
    }

    pub(super) fn row_bytes(&self) -> usize {
        num::usize_of(u64::from(self.width) * 4).unwrap_or(usize::MAX)
    }

    /// Copies `other` onto this, with its corner at `x`, `y`; clipped at the borders.
    pub(super) fn put(&mut self, other: &Self, x: usize, y: usize) {
        let own = self.row_bytes();
        let rows = self.rgba.chunks_exact_mut(own).skip(y);
        for (to, from) in rows.zip(other.rgba.chunks_exact(other.row_bytes())) {
            for (a, b) in to.iter_mut().skip(x.saturating_mul(4)).zip(from) {
                *a = *b;
            }
        }
    }
}

/// The sides of a picture, if its size is allowed.
pub(super) fn sides(width: u64, height: u64) -> Result<(u32, u32)> {
    let side = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0);
    match (side(width), side(height), num::product(&[width, height])? <= MOST_PIXELS) {
        (Some(width), Some(height), true) => Ok((width, height)),
        _ => Err(usage!("a picture of {width} x {height} pixels is not possible")
            .or_hint(Hint::option("size", "scales it down").set_to(2048))
            .or_hint(Hint::option("crop", "selects a part of it"))
            .or_hint(Hint::option("level", "selects another level"))),
    }
}

/// A sink for a picture, some rows at a time from the top, so that it need not be in memory as a whole.
pub trait Rows: Send {
    /// Sets the width and height; called once, before the first rows.
    fn begin(&mut self, width: u32, height: u32) -> Result<()>;

    /// Takes the next whole rows, as RGBA.
    fn put(&mut self, rgba: &[u8]) -> Result<()>;
}

impl Rows for Picture {
    fn begin(&mut self, width: u32, height: u32) -> Result<()> {
        (self.width, self.height) = (width, height);
        self.rgba = Vec::with_capacity(num::product_usize(&[width.into(), height.into(), 4])?);
        Ok(())
    }

    fn put(&mut self, rgba: &[u8]) -> Result<()> {
        self.rgba.extend_from_slice(rgba);
        Ok(())
    }
}

/// Writes a PNG file, compressed for speed.
pub struct PngRows<W: Write + Send + 'static> {
    writer: SharedWriter<W>,
    encoder: Option<png::StreamWriter<'static, SharedWriter<W>>>,
}

impl<W: Write + Send> std::fmt::Debug for PngRows<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PngRows").finish_non_exhaustive()
    }
}

/// A writer that stays accessible while an encoder owns it.
struct SharedWriter<W>(Arc<Mutex<W>>);

impl<W: Write> Write for SharedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl<W: Write + Send> PngRows<W> {
    /// A PNG writer into `writer`.
    pub fn new(writer: W) -> Self {
        Self { writer: SharedWriter(Arc::new(Mutex::new(writer))), encoder: None }
    }

    /// Finishes the file after the last row, and returns the writer.
    pub fn finish(mut self) -> Result<W> {
        let encoder =
            self.encoder.take().ok_or_else(|| Error::usage("begin must be called before finish"))?;
        encoder.finish().map_err(png_fault)?;
        let writer = Arc::into_inner(self.writer.0).map(Mutex::into_inner);
        let writer = writer.ok_or_else(|| Error::io("the PNG is still being written"))?;
        Ok(writer.unwrap_or_else(PoisonError::into_inner))
    }
}

fn png_fault(e: png::EncodingError) -> Error {
    match e {
        png::EncodingError::IoError(e) => e.into(),
        other => io!("the PNG could not be encoded: {other}"),
    }
}

impl<W: Write + Send> Rows for PngRows<W> {
    fn begin(&mut self, width: u32, height: u32) -> Result<()> {
        let mut encoder = png::Encoder::new(SharedWriter(self.writer.0.clone()), width, height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        // One filter for all rows: trying all takes longer than compressing.
        encoder.set_filter(png::Filter::Up);
        let header = encoder.write_header().map_err(png_fault)?;
        self.encoder = Some(header.into_stream_writer_with_size(1 << 16).map_err(png_fault)?);
        Ok(())
    }

    fn put(&mut self, rgba: &[u8]) -> Result<()> {
        match &mut self.encoder {
            Some(encoder) => Ok(encoder.write_all(rgba)?),
            None => Err(Error::usage("begin must be called before put")),
        }
    }
}

/// The approximate uncompressed bytes of a TIFF strip.
const STRIP: usize = 1 << 18;

/// Writes a TIFF file: deflated strips, straight alpha.
#[derive(Debug)]
pub struct TiffRows<W: Write + Seek + Send> {
    writer: W,
    width: u32,
    height: u32,
    /// The bytes of a whole strip.
    strip: usize,
    /// Rows that do not fill a strip yet.
    rest: Vec<u8>,
    /// The offset and length of each strip.
    strips: Vec<(u32, u32)>,
    at: u32,
}

impl<W: Write + Seek + Send> TiffRows<W> {
    /// A TIFF writer into `writer`, from its beginning.
    pub fn new(writer: W) -> Self {
        Self { writer, width: 0, height: 0, strip: 0, rest: Vec::new(), strips: Vec::new(), at: 0 }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes)?;
        let length = u32::try_from(bytes.len()).ok();
        let end = length.and_then(|n| self.at.checked_add(n));
        self.at =
            end.ok_or_else(|| Error::unsupported("TIFF pictures of more than 4 GiB cannot be written"))?;
        Ok(())
    }

    fn write_strips(&mut self, rows: &[u8]) -> Result<()> {
        let deflated: Vec<Vec<u8>> =
            install(|| rows.par_chunks(self.strip.max(1)).map(deflated).collect::<Result<_>>())?;
        for strip in deflated {
            self.strips.push((self.at, u32::try_from(strip.len()).unwrap_or(u32::MAX)));
            self.write(&strip)?;
        }
        Ok(())
    }

    /// Finishes the file after the last row, and returns the writer.
    pub fn finish(mut self) -> Result<W> {
        let rest = std::mem::take(&mut self.rest);
        self.write_strips(&rest)?;
        if !self.at.is_multiple_of(2) {
            self.write(&[0])?;
        }
        let numbers = |all: Vec<u32>| all.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let bits = [8u16; 4].into_iter().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let offsets = numbers(self.strips.iter().map(|s| s.0).collect());
        let lengths = numbers(self.strips.iter().map(|s| s.1).collect());
        let row = num::usize_of(u64::from(self.width) * 4)?.max(1);
        let rows = u32::try_from(self.strip / row).unwrap_or(1);
        let (short, long) = (3u16, 4u16);
        let one = |n: u32| n.to_le_bytes().to_vec();
        // Tag, type, values; sorted by tag.
        let entries: [(u16, u16, Vec<u8>); 11] = [
            (256, long, one(self.width)),
            (257, long, one(self.height)),
            (258, short, bits),
            (259, short, one(8)),
            (262, short, one(2)),
            (273, long, offsets),
            (277, short, one(4)),
            (278, long, one(rows)),
            (279, long, lengths),
            (284, short, one(1)),
            (338, short, one(2)),
        ];
        let mut directory = u16::try_from(entries.len()).unwrap_or(0).to_le_bytes().to_vec();
        for (tag, kind, values) in &entries {
            let is_one = values.len() == 4;
            let size = if *kind == short { 2 } else { 4 };
            let count = if is_one { 1 } else { u32::try_from(values.len() / size).unwrap_or(u32::MAX) };
            directory.extend(tag.to_le_bytes());
            directory.extend(kind.to_le_bytes());
            directory.extend(count.to_le_bytes());
            if is_one {
                directory.extend(values);
            } else {
                directory.extend(self.at.to_le_bytes());
                self.write(values)?;
            }
        }
        directory.extend([0; 4]);
        let begin = self.at;
        self.write(&directory)?;
        self.writer.seek(SeekFrom::Start(4))?;
        self.writer.write_all(&begin.to_le_bytes())?;
        self.writer.seek(SeekFrom::End(0))?;
        Ok(self.writer)
    }
}

/// Compresses bytes as TIFF Deflate.
fn deflated(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
    let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
    let length = compressor.zlib_compress(bytes, &mut out);
    out.truncate(length.map_err(|e| io!("the TIFF could not be encoded: {e}"))?);
    Ok(out)
}

impl<W: Write + Seek + Send> Rows for TiffRows<W> {
    fn begin(&mut self, width: u32, height: u32) -> Result<()> {
        (self.width, self.height) = (width, height);
        let row = num::usize_of(u64::from(width) * 4)?.max(1);
        let rows = (STRIP / row).clamp(1, num::usize_of(u64::from(height))?.max(1));
        self.strip = rows.saturating_mul(row);
        // Little-endian; the offset of the directory is filled in later.
        self.write(&[b'I', b'I', 42, 0, 0, 0, 0, 0])
    }

    fn put(&mut self, rgba: &[u8]) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rest);
        rows.extend_from_slice(rgba);
        let whole = rows.len() / self.strip.max(1) * self.strip;
        self.write_strips(rows.get(..whole).unwrap_or_default())?;
        rows.drain(..whole);
        self.rest = rows;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::image::source;

    /// The pixels of a PNG file.
    fn png_pixels(file: Vec<u8>) -> Vec<u8> {
        let mut reader = png::Decoder::new(Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        pixels
    }

    /// Width, height and pixels of a TIFF file.
    fn tiff_pixels(path: &std::path::Path) -> (u64, u64, Vec<u8>) {
        let source =
            source::open(&[path.to_owned()], &source::ImageSourceOptions::default()).unwrap().remove(0);
        let [t, c, z, y, x] = source.sizes;
        assert_eq!((t, c, z), (1, 4, 1));
        let mut planes = vec![0; usize::try_from(4 * y * x).unwrap()];
        source.read_block([0; 5], source.sizes, &mut planes).unwrap();
        let plane = usize::try_from(y * x).unwrap();
        let rgba = (0..plane).flat_map(|i| [0, 1, 2, 3].map(|c| planes[c * plane + i])).collect();
        (x, y, rgba)
    }

    #[test]
    fn rows_come_in_any_number_at_a_time() {
        let (width, height) = (300u32, 700u32);
        let rgba: Vec<u8> =
            (0..width * height * 4).map(|i| (i.wrapping_mul(i) / 7).to_le_bytes()[0]).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        for rows in [1, 7, 256, 699, 700] {
            let mut sink = TiffRows::new(Cursor::new(Vec::new()));
            sink.begin(width, height).unwrap();
            rgba.chunks(rows * 1200).for_each(|part| sink.put(part).unwrap());
            std::fs::write(file.path(), sink.finish().unwrap().into_inner()).unwrap();
            assert_eq!(tiff_pixels(file.path()), (300, 700, rgba.clone()), "{rows}");
            let mut sink = PngRows::new(Vec::new());
            sink.begin(width, height).unwrap();
            rgba.chunks(rows * 1200).for_each(|part| sink.put(part).unwrap());
            assert!(png_pixels(sink.finish().unwrap()) == rgba, "{rows}");
        }
    }

    #[test]
    fn pictures_have_a_size() {
        assert!(Picture::black(0, 5).is_err());
        assert!(Picture::black(1 << 20, 1 << 20).is_err());
        let mut page = Picture::black(4, 4).unwrap();
        let tile = Picture { width: 3, height: 2, rgba: vec![9; 24] };
        page.put(&tile, 2, 3);
        assert_eq!(page.rgba[52..], [[0, 0, 0, 255], [9; 4], [9; 4]].concat());
    }
}
