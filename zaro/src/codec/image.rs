//! Decodes PNG and JPEG 2000 images, as in GRIB messages and TIFF tiles.
//!
//! * `imagecodecs_png`, V2: `{"id": "imagecodecs_png"}`. The samples row by row, those of a pixel together; palettes
//!   and samples of less than a byte are expanded to bytes, samples of 16 bits become little-endian.
//! * `imagecodecs_jpeg2k`, V2: `{"id": "imagecodecs_jpeg2k"}`. The same, of a codestream or a JP2 file; one or two
//!   bytes a sample, four above 16 bits. What was compressed without loss comes out exactly; what was not may differ
//!   by one from another decoder's answer.
//!
//! Neither is written.

use std::io::Cursor;

use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};
use png::{ColorType, Decoder, Limits, Transformations};

use super::{BytesToBytes, OutputSize, output};
use crate::error::{Error, Result, invalid, unsupported};
use crate::num;

/// The JPEG 2000 decoder calculates in single precision. With 24 bits its answers are one off here and there, with more
/// than 22 its sums can be.
const MAX_JPEG2K_BITS: u8 = 22;

/// How much memory the PNG decoder may take for itself, beside the image.
const PNG_OWN: usize = 4 << 20;

fn damaged(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid("the image is damaged").with_source(cause)
}

fn wrong_count(got: usize, want: usize) -> Error {
    invalid!("the image has {got} samples where {want} were expected")
}

fn not_written() -> Error {
    Error::unsupported("writing images is not supported")
}

struct PngCodec<'a> {
    reader: png::Reader<Cursor<&'a [u8]>>,
    pixels: usize,
    size: usize,
    line: usize,
}

impl<'a> PngCodec<'a> {
    /// Opens a file whose image has at most `limit` bytes.
    fn open(data: &'a [u8], transformations: Transformations, limit: usize) -> Result<Self> {
        let bytes = limit.saturating_add(PNG_OWN);
        let mut decoder = Decoder::new_with_limits(Cursor::new(data), Limits { bytes });
        decoder.set_transformations(transformations);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let reader = decoder.read_info().map_err(damaged)?;
        let (width, height) = reader.info().size();
        let pixels = num::product_usize(&[width.into(), height.into()])?;
        let size = reader.output_buffer_size().filter(|s| *s <= limit);
        let size = size.ok_or_else(|| output::too_long(limit))?;
        let line = reader.output_line_size(width).ok_or_else(|| output::too_long(limit))?;
        Ok(Self { reader, pixels, size, line })
    }

    /// Its rows, one after the other.
    fn decode(&mut self) -> Result<Vec<u8>> {
        let mut out = output::zeroed(self.size)?;
        self.reader.next_frame(&mut out).map_err(damaged)?;
        Ok(out)
    }
}

/// An image of `n` pixels, each a number: grey of any depth, or the bytes of a colour as one number.
pub(super) fn png_numbers(data: &[u8], n: usize) -> Result<Vec<u32>> {
    let mut png = PngCodec::open(data, Transformations::IDENTITY, n.saturating_mul(4).saturating_add(4096))?;
    if png.pixels != n {
        return Err(wrong_count(png.pixels, n));
    }
    let (colour, depth) = png.reader.output_color_type();
    let bits = match colour {
        ColorType::Grayscale => match depth {
            png::BitDepth::One => 1,
            png::BitDepth::Two => 2,
            png::BitDepth::Four => 4,
            png::BitDepth::Eight => 8,
            png::BitDepth::Sixteen => 16,
        },
        ColorType::Rgb if depth == png::BitDepth::Eight => 24,
        ColorType::Rgba if depth == png::BitDepth::Eight => 32,
        other => return Err(invalid!("unexpected PNG format: {other:?} of {depth:?} bits")),
    };
    let (rows, line) = (png.decode()?, png.line.max(1));
    let width = num::usize_of(png.reader.info().width.into())?;
    let mut out = Vec::with_capacity(n);
    for row in rows.chunks_exact(line) {
        match bits {
            8 => out.extend(row.iter().map(|b| u32::from(*b))),
            16 => out.extend(row.as_chunks().0.iter().map(|c| u32::from(u16::from_be_bytes(*c)))),
            24 => out.extend(row.as_chunks().0.iter().map(|[a, b, c]| u32::from_be_bytes([0, *a, *b, *c]))),
            32 => out.extend(row.as_chunks().0.iter().map(|c| u32::from_be_bytes(*c))),
            few => {
                let mask = (1u32 << few) - 1;
                let in_byte = |b: &u8| {
                    let b = u32::from(*b);
                    (1..=8 / few).map(move |i| b >> (8 - i * few) & mask)
                };
                out.extend(row.iter().flat_map(in_byte).take(width));
            }
        }
    }
    if out.len() == n { Ok(out) } else { Err(wrong_count(out.len(), n)) }
}

/// `imagecodecs_png`; it has no settings that matter for decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PngImage;

impl BytesToBytes for PngImage {
    fn name(&self) -> &'static str {
        "imagecodecs_png"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let mut png = PngCodec::open(bytes, Transformations::EXPAND, size.limit())?;
        size.check(png.size)?;
        output::justified(png.size, bytes.len(), super::inflate::RATIO)?;
        let (_, depth) = png.reader.output_color_type();
        let mut out = png.decode()?;
        if depth == png::BitDepth::Sixteen {
            out.as_chunks_mut().0.iter_mut().for_each(|[a, b]| std::mem::swap(a, b));
        }
        Ok(out)
    }

    fn encode(&self, _: &[u8]) -> Result<Vec<u8>> {
        Err(not_written())
    }
}

/// What the main header of a codestream says of its samples.
struct Samples {
    components: usize,
    bits: u8,
    signed: bool,
}

impl Samples {
    /// From the marker segment `SIZ`, which stands at the head of every codestream, also of one inside a file.
    fn of(data: &[u8]) -> Result<Self> {
        let read = || {
            let at = data.windows(4).position(|w| w == b"\xff\x4f\xff\x51")?;
            let size = data.get(at + 4..)?;
            let components = u16::from_be_bytes(*size.get(36..)?.first_chunk()?);
            let each = size.get(38..)?.as_chunks::<3>().0.get(..usize::from(components))?;
            Some((*each.first()?, each))
        };
        let (first, each) = read().ok_or_else(|| Error::invalid("not a JPEG 2000 image"))?;
        if each.iter().any(|c| *c != first) || first.get(1..) != Some(&[1, 1]) {
            return Err(Error::unsupported("JPEG 2000 images whose components differ are not supported"));
        }
        let [depth, ..] = first;
        let bits = (depth & 0x7f) + 1;
        if bits > MAX_JPEG2K_BITS {
            return Err(unsupported!("JPEG 2000 images of {bits} bits are not supported"));
        }
        Ok(Self { components: each.len(), bits, signed: depth & 0x80 != 0 })
    }
}

/// The samples of an image of `n` pixels, each component by itself, as numbers from 0: signed ones are raised by half
/// their range.
fn jpeg2k_components(
    data: &[u8],
    samples: &Samples,
    n: Option<usize>,
    limit: usize,
) -> Result<Vec<Vec<u32>>> {
    let settings = DecodeSettings { resolve_palette_indices: false, strict: true, target_resolution: None };
    let image = Image::new(data, &settings).map_err(damaged)?;
    let pixels = num::product_usize(&[image.width().into(), image.height().into()])?;
    if let Some(n) = n.filter(|n| *n != pixels) {
        return Err(wrong_count(pixels, n));
    }
    if pixels.checked_mul(samples.components).is_none_or(|n| n > limit) {
        return Err(output::too_long(limit));
    }
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(damaged)?;
    let top = (1u32 << samples.bits) - 1;
    let components: Vec<Vec<u32>> =
        decoded.components().iter().map(|c| c.samples().iter().map(|x| rounded(*x, top)).collect()).collect();
    if components.len() != samples.components || components.iter().any(|c| c.len() != pixels) {
        return Err(Error::invalid("the components of the image differ from its header"));
    }
    Ok(components)
}

/// The nearest number from 0 to `top`.
#[allow(
    clippy::as_conversions,
    reason = "within the bounds of the type, and a cast of a float is saturating anyway"
)]
fn rounded(x: f32, top: u32) -> u32 {
    (x.round_ties_even().max(0.0) as u32).min(top)
}

/// A grey image of `n` pixels.
pub(super) fn jpeg2k(data: &[u8], n: usize) -> Result<Vec<u32>> {
    let samples = Samples::of(data)?;
    if samples.components != 1 || samples.signed {
        return Err(Error::invalid("expected a JPEG 2000 image of one unsigned component"));
    }
    let mut components = jpeg2k_components(data, &samples, Some(n), n)?;
    Ok(components.pop().unwrap_or_default())
}

/// `imagecodecs_jpeg2k`; only its setting `planar` matters for decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Jpeg2k {
    planar: bool,
}

impl Jpeg2k {
    pub(super) fn from_config(config: &super::config::Config<'_>) -> Result<Self> {
        Ok(Self { planar: config.bool("planar")?.unwrap_or(false) })
    }
}

impl BytesToBytes for Jpeg2k {
    fn name(&self) -> &'static str {
        "imagecodecs_jpeg2k"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let samples = Samples::of(bytes)?;
        let width = match samples.bits {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        };
        let components = jpeg2k_components(bytes, &samples, None, size.limit() / width)?;
        let pixels = components.first().map_or(0, Vec::len);
        let total = pixels.saturating_mul(samples.components).saturating_mul(width);
        size.check(total)?;
        let half = if samples.signed { 1u32 << (samples.bits - 1) } else { 0 };
        let mut out = Vec::with_capacity(total);
        let mut put = |v: &u32| out.extend(v.wrapping_sub(half).to_le_bytes().into_iter().take(width));
        if self.planar {
            components.iter().flatten().for_each(put);
        } else {
            (0..pixels).for_each(|i| components.iter().filter_map(|c| c.get(i)).for_each(&mut put));
        }
        Ok(out)
    }

    fn encode(&self, _: &[u8]) -> Result<Vec<u8>> {
        Err(not_written())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Noise, Row, bytes, rows};
    use super::*;

    fn images() -> Vec<Row> {
        rows("read").into_iter().filter(|r| r.name.ends_with("_png") || r.name.ends_with("_jpeg2k")).collect()
    }

    #[test]
    fn images_are_not_written() {
        assert!(images().iter().all(|row| row.bytes().encode(&row.plain).is_err()));
    }

    #[test]
    fn components_may_lie_apart() {
        // The one of three components: 90 samples.
        let row = images().into_iter().find(|r| r.plain.len() == 90).unwrap();
        let apart: Vec<u8> = (0..3).flat_map(|c| row.plain.iter().skip(c).step_by(3).copied()).collect();
        let planar = bytes("imagecodecs_jpeg2k", r#"{"planar": true}"#);
        assert_eq!(planar.decode(&row.encoded, OutputSize::Exact(apart.len())).unwrap(), apart);
    }

    #[test]
    fn damaged_images_never_panic() {
        let mut noise = Noise(5);
        for row in images() {
            let (codec, image, n) = (row.bytes(), &row.encoded, row.plain.len());
            let attempt = |bytes: &[u8]| {
                for size in [OutputSize::Exact(n), OutputSize::AtMost(1000)] {
                    if let Ok(out) = codec.decode(bytes, size) {
                        size.check(out.len()).unwrap();
                    }
                }
                let _ = (png_numbers(bytes, 30), jpeg2k(bytes, 30));
            };
            (0..image.len()).for_each(|end| attempt(&image[..end]));
            for at in 0..image.len() {
                let mut bytes = image.clone();
                for value in [0, 0x7f, 0xff, image[at] ^ (1 << noise.below(8))] {
                    bytes[at] = value;
                    attempt(&bytes);
                }
            }
            for _ in 0..200 {
                let mut bytes = image.clone();
                for _ in 0..4 {
                    let at = noise.below(bytes.len());
                    bytes[at] ^= 1 << noise.below(8);
                }
                attempt(&bytes);
            }
        }
    }
}
