//! Decodes TIFF pages: strips and tiles to pixels.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::ifd::{Ifd, TagEntry, Tiff};
use super::layout::{JPEG, PageLayout, YCBCR, tag};
use crate::codec::config::Config;
use crate::codec::lzw::Lzw;
use crate::codec::registry::{self, CodecRequest};
use crate::codec::tiff_packbits::TiffPackBits;
use crate::codec::tiff_predictor::TiffPredictor;
use crate::codec::{BytesToBytes, Codec, OutputSize};
use crate::error::{Error, Result, invalid, unsupported};
use crate::image::source::file::Handle;
use crate::meta::{DataType, Json};
use crate::num;

/// The maximum size of compressed strips or tiles, which have to be in memory as a whole.
const MAX_SEGMENT: u64 = 1 << 32;

/// The maximum size of sparse strips or tiles.
const MAX_SPARSE: u64 = 1 << 26;

/// The maximum compression ratio of a JPEG image.
pub(in super::super) const JPEG_RATIO: u64 = 4096;

#[derive(Debug, Clone)]
pub(super) struct TiffPage {
    pub(super) tiff: Arc<Tiff>,
    pub(super) layout: Arc<PageLayout>,
    offsets: TagEntry,
    lengths: Option<TagEntry>,
    /// The offset of its pixels from those of the first page, in stacks with a single directory.
    shift: u64,
    places: Arc<OnceLock<SegmentPlaces>>,
}

/// The offsets and lengths of the segments.
#[derive(Debug)]
struct SegmentPlaces {
    offsets: Vec<u64>,
    lengths: Vec<u64>,
}

impl TiffPage {
    pub(super) fn new(tiff: &Arc<Tiff>, layout: Arc<PageLayout>, ifd: &Ifd) -> Result<Self> {
        let (offsets, lengths) = if layout.is_tiled {
            (
                ifd.get(tag::TILE_OFFSETS).or(ifd.get(tag::STRIP_OFFSETS)),
                ifd.get(tag::TILE_BYTES).or(ifd.get(tag::STRIP_BYTES)),
            )
        } else {
            (ifd.get(tag::STRIP_OFFSETS), ifd.get(tag::STRIP_BYTES))
        };
        let offsets =
            offsets.ok_or_else(|| Error::invalid("the page has no pixels (no strip or tile offsets)"))?;
        let count = layout.segment_count()?;
        if offsets.count < count {
            return Err(invalid!(
                "the page has {} strips or tiles, but its size needs {count}",
                offsets.count
            ));
        }
        Ok(Self {
            tiff: tiff.clone(),
            layout,
            offsets: *offsets,
            lengths: lengths.copied(),
            shift: 0,
            places: Arc::default(),
        })
    }

    fn places(&self, handle: &Handle) -> Result<&SegmentPlaces> {
        if let Some(places) = self.places.get() {
            return Ok(places);
        }
        let offsets = self.tiff.uints(handle, &self.offsets)?;
        let lengths = match &self.lengths {
            Some(lengths) => self.tiff.uints(handle, lengths)?,
            None => Vec::new(),
        };
        Ok(self.places.get_or_init(|| SegmentPlaces { offsets, lengths }))
    }

    /// The bytes of all its pixels, if they are contiguous and uncompressed.
    pub(super) fn contiguous(&self) -> Result<Option<u64>> {
        let layout = &self.layout;
        if layout.compression != 1 || layout.is_tiled || layout.predictor != 1 {
            return Ok(None);
        }
        let handle = self.tiff.input.handle()?;
        let places = self.places(&handle)?;
        let row = layout.row_bytes()?;
        let mut at = places.offsets.first().copied().unwrap_or(0);
        let planes = if layout.is_planar { layout.samples } else { 1 };
        let mut segments = places.offsets.iter();
        for _ in 0..planes {
            let mut left = layout.height;
            while left > 0 {
                if segments.next() != Some(&at) {
                    return Ok(None);
                }
                let rows = left.min(layout.segment.1.max(1));
                at = at.saturating_add(rows.saturating_mul(row));
                left -= rows;
            }
        }
        Ok(Some(num::product(&[layout.height, row, planes])?))
    }

    /// The same page, `bytes` further on in the file.
    pub(super) fn shifted(&self, bytes: u64) -> Self {
        Self { shift: bytes, ..self.clone() }
    }

    pub(super) fn start(&self) -> Result<u64> {
        let handle = self.tiff.input.handle()?;
        Ok(self.places(&handle)?.offsets.first().copied().unwrap_or(0))
    }

    /// Reads these samples of these rows and columns: little-endian, sample by sample, row by row.
    pub(super) fn read(
        &self,
        samples: Range<u64>,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let handle = self.tiff.input.handle()?;
        let layout = &*self.layout;
        let (wide, high) = layout.segment;
        let (across, down) = layout.segments();
        let size = layout.data_type.size();
        let out_row = num::usize_of(columns.end - columns.start)?.saturating_mul(size);
        let out_plane = num::usize_of(rows.end - rows.start)?.saturating_mul(out_row);
        let planes = if layout.is_planar { samples.clone() } else { 0..1 };
        for plane in planes {
            for j in rows.start / high..rows.end.div_ceil(high) {
                for i in columns.start / wide..columns.end.div_ceil(wide) {
                    let (top, left) = (j * high, i * wide);
                    let within = rows.start.max(top)..rows.end.min(top + high).min(layout.height);
                    let sides = columns.start.max(left)..columns.end.min(left + wide);
                    let number = plane.saturating_mul(across * down) + j * across + i;
                    let local = within.start - top..within.end - top;
                    let place = |e: Error| {
                        e.within(format_args!("{} {number}", if layout.is_tiled { "tile" } else { "strip" }))
                    };
                    let decoded = self.rows(&handle, number, j, local).map_err(place)?;
                    let row_bytes = num::usize_of(layout.row_in_memory()?)?;
                    let wanted = if layout.is_planar { plane..plane + 1 } else { samples.clone() };
                    for sample in wanted {
                        let first = if layout.is_planar { 0 } else { num::usize_of(sample)? };
                        let at = num::usize_of(sample - samples.start)?.saturating_mul(out_plane)
                            + num::usize_of(within.start - rows.start)?.saturating_mul(out_row)
                            + num::usize_of(sides.start - columns.start)?.saturating_mul(size);
                        let length = num::usize_of(sides.end - sides.start)?.saturating_mul(size);
                        let skip = num::usize_of(sides.start - left)?;
                        let step = num::usize_of(layout.interleaved())?;
                        let count = num::usize_of(within.end - within.start)?;
                        for (r, row) in decoded.chunks_exact(row_bytes.max(1)).take(count).enumerate() {
                            let to = at + r * out_row;
                            let (Some(from), Some(to)) =
                                (row.get((skip * step + first) * size..), out.get_mut(to..to + length))
                            else {
                                return Err(Error::invalid("a row is outside its strip"));
                            };
                            pick(size, step, from, to);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Rows of a segment, little-endian, with whole bytes per sample. `band` is its index along y.
    fn rows(&self, handle: &Handle, number: u64, band: u64, rows: Range<u64>) -> Result<Vec<u8>> {
        let layout = &*self.layout;
        let places = self.places(handle)?;
        let i = num::usize_of(number)?;
        let missing = || Error::invalid("a strip or tile is missing");
        let offset = places.offsets.get(i).copied().ok_or_else(missing)?;
        let offset = offset.checked_add(self.shift).ok_or_else(missing)?;
        let row_bytes = layout.row_bytes()?;
        let high = layout.segment.1;
        let held = if layout.is_tiled { high } else { high.min(layout.height - band * high) };
        let length = places.lengths.get(i).copied();
        if offset == 0 || length == Some(0) {
            // A sparse tile, as GDAL writes them: nothing is stored. A huge one is an attack.
            if high.saturating_mul(layout.row_in_memory()?) > MAX_SPARSE {
                return Err(Error::invalid("a sparse strip or tile is too large"));
            }
            let bytes = num::product_usize(&[rows.end - rows.start, layout.row_in_memory()?])?;
            return Ok(vec![0; bytes]);
        }
        let mut swap = layout.is_big_endian;
        let bytes = if layout.compression == 1 && !layout.is_reversed {
            let at = offset.saturating_add(rows.start.saturating_mul(row_bytes));
            let mut bytes = handle.bytes(at, num::product_usize(&[rows.end - rows.start, row_bytes])?)?;
            if layout.predictor != 1 {
                bytes = self.unpredict(bytes, rows.end - rows.start, &mut swap)?;
            }
            bytes
        } else {
            let wanted = held.checked_mul(row_bytes).filter(|n| *n <= MAX_SEGMENT);
            let wanted = wanted
                .ok_or_else(|| Error::unsupported("strips or tiles of more than 4 GiB are not supported"))?;
            let length = match length {
                Some(length) => length,
                None if layout.segment_count()? == 1 => handle.len.saturating_sub(offset),
                None => return Err(Error::invalid("the lengths of strips or tiles are missing")),
            };
            handle.check(offset, length)?;
            let mut stored = handle.bytes(offset, num::usize_of(length)?)?;
            if layout.is_reversed {
                stored.iter_mut().for_each(|b| *b = b.reverse_bits());
            }
            let mut bytes = self.decompress(&stored, held, num::usize_of(wanted)?)?;
            if matches!(layout.compression, JPEG | 34712 | 33004 | 33005 | 34933) {
                // These are complete images, independent of the file's byte order.
                swap = false;
            }
            bytes.truncate(num::usize_of(wanted)?);
            if layout.predictor != 1 && layout.compression != JPEG {
                bytes = self.unpredict(bytes, held, &mut swap)?;
            }
            let row = num::usize_of(row_bytes)?;
            bytes.drain(..num::usize_of(rows.start)?.saturating_mul(row).min(bytes.len()));
            bytes.truncate(num::usize_of(rows.end - rows.start)?.saturating_mul(row));
            bytes
        };
        let mut bytes = if matches!(layout.bits, 8 | 16 | 32 | 64) { bytes } else { self.unpack(&bytes)? };
        let size = layout.data_type.size();
        if swap && size > 1 && matches!(layout.bits, 16 | 32 | 64) {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Ok(bytes)
    }

    /// Decompresses a segment of `rows` rows, which has `wanted` bytes or, padded, more.
    fn decompress(&self, stored: &[u8], rows: u64, wanted: usize) -> Result<Vec<u8>> {
        let layout = &*self.layout;
        let codec: Box<dyn BytesToBytes> = match layout.compression {
            1 => return enough(stored.to_vec(), wanted),
            5 => Box::new(Lzw),
            JPEG => return enough(self.jpeg(stored, rows)?, wanted),
            8 | 32946 => named("imagecodecs_zlib")?,
            32773 => Box::new(TiffPackBits),
            33004 | 33005 | 34712 => named("imagecodecs_jpeg2k")?,
            34925 => named("imagecodecs_lzma")?,
            34933 => named("imagecodecs_png")?,
            34926 | 50000 => named("imagecodecs_zstd")?,
            other => {
                return Err(Error::unsupported(match compression(other) {
                    Some(name) => format!("TIFF compression {other} ({name}) is not supported"),
                    None => format!("TIFF compression {other} is not supported"),
                }));
            }
        };
        // Some files pad their last strip.
        match codec.decode(stored, OutputSize::Exact(wanted)) {
            Ok(bytes) => enough(bytes, wanted),
            Err(first) => {
                let whole = layout.segment.1.saturating_mul(layout.row_bytes()?).saturating_add(1 << 16);
                let limit = num::usize_of(whole.min(MAX_SEGMENT))?;
                match codec.decode(stored, OutputSize::AtMost(limit)) {
                    Ok(bytes) if bytes.len() >= wanted => Ok(bytes),
                    _ => Err(first),
                }
            }
        }
    }

    fn jpeg(&self, stored: &[u8], rows: u64) -> Result<Vec<u8>> {
        let layout = &*self.layout;
        if layout.bits != 8 {
            return Err(unsupported!("JPEG of {} bits is not supported", layout.bits));
        }
        let mut whole = Vec::new();
        let stored = match &layout.jpeg_tables {
            // Tables shared by all segments: prepended to each, without the end marker.
            Some(tables) if tables.len() > 4 => {
                whole.extend_from_slice(tables.get(..tables.len() - 2).unwrap_or_default());
                whole.extend_from_slice(stored.get(2..).unwrap_or_default());
                whole.as_slice()
            }
            _ => stored,
        };
        let converted = layout.photometric == YCBCR;
        let (bytes, [wide, high], samples) = jpeg(stored, converted)?;
        if wide != layout.segment.0 || high < rows || samples != layout.interleaved() {
            return Err(invalid!(
                "the JPEG image is {wide} x {high} with {samples} samples, expected {} x {rows} with {}",
                layout.segment.0,
                layout.interleaved()
            ));
        }
        Ok(bytes)
    }

    /// Undoes TIFF predictors.
    fn unpredict(&self, bytes: Vec<u8>, rows: u64, swap: &mut bool) -> Result<Vec<u8>> {
        let layout = &*self.layout;
        let size = layout.data_type.size();
        let is_float = layout.predictor == 3;
        if !(layout.predictor == 2 || is_float) {
            return Err(unsupported!("TIFF predictor {} is not supported", layout.predictor));
        }
        if !matches!(layout.bits, 8 | 16 | 32 | 64)
            || (is_float && !matches!(layout.data_type, DataType::Float(_)))
        {
            return Err(unsupported!(
                "TIFF predictor {} is not supported for {} bits of {}",
                layout.predictor,
                layout.bits,
                layout.data_type
            ));
        }
        // The bytes of floats are big-endian, whatever the byte order of the file.
        let big = layout.is_big_endian && !is_float;
        if is_float {
            *swap = false;
        }
        let order = if size == 1 {
            '|'
        } else if big {
            '>'
        } else {
            '<'
        };
        let kind = if is_float { 'f' } else { 'u' };
        let extents = [rows, layout.segment.0, layout.interleaved()];
        let members = vec![
            ("dtype".to_owned(), Json::string(format!("{order}{kind}{size}"))),
            ("shape".to_owned(), Json::Array(extents.iter().map(Json::int).collect())),
            ("axis".to_owned(), Json::int(1)),
            ("dist".to_owned(), Json::int(1)),
        ];
        let config = Config::new(&members);
        let predictor =
            if is_float { TiffPredictor::float(&config)? } else { TiffPredictor::delta(&config)? };
        predictor.decode(&bytes, OutputSize::Exact(bytes.len()))
    }

    /// Unpacks samples of any number of bits to whole bytes, little-endian. Rows start at byte boundaries.
    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let layout = &*self.layout;
        let row = num::usize_of(layout.row_bytes()?)?.max(1);
        let in_row = num::product_usize(&[layout.segment.0, layout.interleaved()])?;
        let size = layout.data_type.size();
        let bits = u32::try_from(layout.bits).unwrap_or(8);
        let mask = (1u64 << bits) - 1;
        let mut out = Vec::with_capacity((bytes.len() / row).saturating_mul(in_row).saturating_mul(size));
        for row in bytes.chunks_exact(row) {
            let (mut held, mut count) = (0u64, 0u32);
            let mut input = row.iter();
            for _ in 0..in_row {
                while count < bits {
                    held = held << 8 | u64::from(input.next().copied().unwrap_or(0));
                    count += 8;
                }
                count -= bits;
                let value = held >> count & mask;
                out.extend(value.to_le_bytes().into_iter().take(size));
            }
        }
        Ok(out)
    }
}

/// The width and height of a JPEG image, and the samples per decoded pixel.
pub(in super::super) fn jpeg_size(stored: &[u8]) -> Result<([u64; 2], u64)> {
    let (_, sides, space) = jpeg_header(stored, true)?;
    Ok((sides, num::u64_of(space.num_components())))
}

/// A decoder that has read its header, the sides of its image, and what it will come out as.
type Begun<'a> = (JpegDecoder<ZCursor<&'a [u8]>>, [u64; 2], ColorSpace);

fn jpeg_header(stored: &[u8], converted: bool) -> Result<Begun<'_>> {
    let options =
        DecoderOptions::new_fast().set_strict_mode(false).set_max_width(1 << 16).set_max_height(1 << 16);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(stored), options);
    decoder.decode_headers().map_err(bad_jpeg)?;
    let (wide, high) = decoder.dimensions().ok_or_else(|| Error::invalid("the JPEG image has no size"))?;
    let space = match decoder.input_colorspace().unwrap_or(ColorSpace::Luma) {
        ColorSpace::YCbCr | ColorSpace::RGB if converted => ColorSpace::RGB,
        other => other,
    };
    let sides = [num::u64_of(wide), num::u64_of(high)];
    let bytes = num::product(&[sides[0], sides[1], num::u64_of(space.num_components())])?;
    if bytes > num::u64_of(stored.len()).saturating_mul(JPEG_RATIO) {
        return Err(invalid!("implausible JPEG size: {wide} x {high} in {} bytes", stored.len()));
    }
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    Ok((decoder, sides, space))
}

/// Whether there is an end-of-image marker after the last start of a scan. A scan cannot contain one, and that of an
/// embedded thumbnail comes before.
fn ends(stored: &[u8]) -> bool {
    let marker = |which: u8| stored.windows(2).rposition(|pair| pair == [0xFF, which]);
    marker(0xD9).is_some_and(|end| marker(0xDA).is_some_and(|scan| scan < end))
}

fn bad_jpeg(e: zune_jpeg::errors::DecodeErrors) -> Error {
    invalid!("the JPEG image is damaged: {e:?}")
}

/// Decodes a JPEG image: its samples, width and height, and samples per pixel. If `converted`, YCbCr becomes RGB; else
/// samples are returned as stored.
pub(in super::super) fn jpeg(stored: &[u8], converted: bool) -> Result<(Vec<u8>, [u64; 2], u64)> {
    // The decoder invents the missing part of a truncated image.
    if !ends(stored) {
        return Err(Error::invalid("the JPEG image is truncated"));
    }
    let (mut decoder, sides, space) = jpeg_header(stored, converted)?;
    let samples = num::u64_of(space.num_components());
    let pixels = decoder.decode().map_err(bad_jpeg)?;
    if pixels.len() != num::product_usize(&[sides[0], sides[1], samples])? {
        return Err(Error::invalid("the JPEG image does not have the size in its header"));
    }
    Ok((pixels, sides, samples))
}

fn enough(bytes: Vec<u8>, wanted: usize) -> Result<Vec<u8>> {
    if bytes.len() < wanted {
        return Err(invalid!("it has {} bytes, expected {wanted}", bytes.len()));
    }
    Ok(bytes)
}

/// A codec by its imagecodecs name, as in references to TIFF files.
fn named(name: &str) -> Result<Box<dyn BytesToBytes>> {
    let v2 = format!("v2.{name}");
    let request = CodecRequest { name: &v2, config: &[], strict: false, data_type: &DataType::UINT8 };
    match registry::build(&request)? {
        Codec::Bytes(codec) => Ok(codec),
        _ => Err(unsupported!("{name} is not supported in TIFF files")),
    }
}

fn compression(number: u64) -> Option<&'static str> {
    Some(match number {
        2..=4 => "fax",
        6 => "old-style JPEG",
        33003 => "JPEG 2000 in YCbCr",
        34887 => "LERC",
        34892 => "lossy DNG JPEG",
        22610 | 34934 => "JPEG XR",
        50001 | 34927 => "WebP",
        50002 | 52546 => "JPEG XL",
        _ => return None,
    })
}

/// Copies every `step`th element of `from` to `out`.
fn pick(size: usize, step: usize, from: &[u8], out: &mut [u8]) {
    fn each<const W: usize>(step: usize, from: &[u8], out: &mut [u8]) {
        let from = from.as_chunks::<W>().0.iter().step_by(step.max(1));
        for (to, from) in out.as_chunks_mut::<W>().0.iter_mut().zip(from) {
            *to = *from;
        }
    }
    if step == 1 {
        if let Some(from) = from.get(..out.len()) {
            out.copy_from_slice(from);
        }
        return;
    }
    match size {
        1 => each::<1>(step, from, out),
        2 => each::<2>(step, from, out),
        4 => each::<4>(step, from, out),
        _ => each::<8>(step, from, out),
    }
}
