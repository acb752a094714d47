//! Samples of images: PNG and JPEG 2000, as GRIB packs its integers and TIFF its tiles.
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

use super::{BytesToBytes, Size, output};
use crate::error::{Error, Result};
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
    Error::invalid(format!("the image has {got} samples where {want} were expected"))
}

fn not_written() -> Error {
    Error::unsupported("zaro does not write images")
}

/// An open PNG file.
struct Png<'a> {
    reader: png::Reader<Cursor<&'a [u8]>>,
    pixels: usize,
    size: usize,
    line: usize,
}

impl<'a> Png<'a> {
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
    let mut png = Png::open(data, Transformations::IDENTITY, n.saturating_mul(4).saturating_add(4096))?;
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
        other => return Err(Error::invalid(format!("numbers are not kept as {other:?} of {depth:?} bits"))),
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

    fn decode(&self, bytes: &[u8], size: Size) -> Result<Vec<u8>> {
        let mut png = Png::open(bytes, Transformations::EXPAND, size.limit())?;
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
        let (first, each) = read().ok_or_else(|| Error::invalid("this is no JPEG 2000 image"))?;
        if each.iter().any(|c| *c != first) || first.get(1..) != Some(&[1, 1]) {
            return Err(Error::unsupported("JPEG 2000 images whose components differ"));
        }
        let [depth, ..] = first;
        let bits = (depth & 0x7f) + 1;
        if bits > MAX_JPEG2K_BITS {
            return Err(Error::unsupported(format!("JPEG 2000 images of {bits} bits")));
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
        return Err(Error::invalid("the image has other components than its header says"));
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
        return Err(Error::invalid("numbers are kept in one component without a sign"));
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
    /// From its configuration.
    pub(super) fn from_config(config: &super::config::Config<'_>) -> Result<Self> {
        Ok(Self { planar: config.bool("planar")?.unwrap_or(false) })
    }
}

impl BytesToBytes for Jpeg2k {
    fn name(&self) -> &'static str {
        "imagecodecs_jpeg2k"
    }

    fn decode(&self, bytes: &[u8], size: Size) -> Result<Vec<u8>> {
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
    use super::super::testing::{Noise, hex};
    use super::*;

    /// What imagecodecs 2026.3 writes, and the samples that it wrote.
    const IMAGES: [(&str, &str, &str); 7] = [
        (
            "png_g8",
            "89504e470d0a1a0a0000000d49484452000000060000000508000000004333c23a000000134944415408996364600701\
             465e30c5828d0200100300f21769bcfc0000000049454e44ae426082",
            "00070e151c230d141b2229301a21282f363d272e353c434a343b42495057",
        ),
        (
            "j2k_g8",
            "ff4fff510029000000000006000000050000000000000000000000060000000500000000000000000001070101ff5200\
             0c00000001000004040001ff5c00044040ff640025000143726561746564206279204f70656e4a504547207665727369\
             6f6e20322e352e34ff90000a00000000002e0001ff93df80e8121e85745f2f5a819e45a338720b3f974c2b4278b27bb4\
             02e0664aea5fffd9",
            "00070e151c230d141b2229301a21282f363d272e353c434a343b42495057",
        ),
        (
            "j2k_g16",
            "ff4fff5100290000000000060000000500000000000000000000000600000005000000000000000000010f0101ff5200\
             0c00000001000004040001ff5c00044080ff640025000143726561746564206279204f70656e4a504547207665727369\
             6f6e20322e352e34ff90000a00000000004a0001ff93dff891c0121e85745f2f5a819e45a2491aa5e3559899629768e5\
             d62e1c648ab9bd606f9ddd1892a616fd54b2d4ff85af12b436f24a4922abba6de813ffd9",
            "00000807100e1815201c28230d0d15141d1b25222d2935301a1a22212a28322f3a36423d27272f2e37353f3c47434f4a\
             34343c3b44424c4954505c57",
        ),
        (
            "j2k_rgb",
            "ff4fff51002f000000000006000000050000000000000000000000060000000500000000000000000003070101070101\
             070101ff52000c00000001010004040001ff5c00044040ff640025000143726561746564206279204f70656e4a504547\
             2076657273696f6e20322e352e34ff90000a00000000006a0001ff93cfb474114f07b3b562206a745f3b547a0014e2e3\
             d9bd22ff1e09eabef18e016bcfb46c2ec30568d90d3165239eacbb659180497563bdb7a5eaae05cad2c9cfb46c29d4b8\
             5fabbcbccf71dbb15d51428404cf356e7a5b20af7c8e626effd9",
            "000005070e0c0e1c13152a1a1c38212346280d1a121428191b362022442729522e3060351a341f21422628502d2f5e34\
             366c3b3d7a42274e2c2e5c33356a3a3c78414386484a944f3468393b764042844749924e50a05557ae5c",
        ),
        (
            "png_rgb16",
            "89504e470d0a1a0a0000000d4948445200000006000000051002000000b9aad6f2000000204944415408996364606760\
             67656767e0033170902cbc0c520cbc38a507441100587603b8e53b34ad0000000049454e44ae426082",
            "0700070007050707070e070c070e071c07130715072a071a071c07380721072307460728070d071a0712071407280719\
             071b0736072007220744072707290752072e073007600735071a0734071f07210742072607280750072d072f075e0734\
             0736076c073b073d077a07420727074e072c072e075c07330735076a073a073c07780741074307860748074a0794074f\
             073407680739073b0776074007420784074707490792074e075007a00755075707ae075c",
        ),
        (
            "jp2_g8",
            "0000000c6a5020200d0a870a00000014667479706a703220000000006a7032200000002d6a7032680000001669686472\
             00000005000000060001070700000000000f636f6c7201000000000011000000a06a703263ff4fff5100290000000000\
             06000000050000000000000000000000060000000500000000000000000001070101ff52000c00000001000004040001\
             ff5c00044040ff640025000143726561746564206279204f70656e4a5045472076657273696f6e20322e352e34ff9000\
             0a00000000002e0001ff93df80e8121e85745f2f5a819e45a338720b3f974c2b4278b27bb402e0664aea5fffd9",
            "00070e151c230d141b2229301a21282f363d272e353c434a343b42495057",
        ),
        (
            "j2k_i16",
            "ff4fff5100290000000000060000000500000000000000000000000600000005000000000000000000018f0101ff5200\
             0c00000001000004040001ff5c00044080ff640025000143726561746564206279204f70656e4a504547207665727369\
             6f6e20322e352e34ff90000a00000000004a0001ff93cffc30e044a2e85f06bc2b2e999c320c17a6b34e4e6df5753893\
             5e5b101dc7f56f53ed4ef13f2eba4d741c8d00aeaaa5650100a054649ce903894013ffd9",
            "48f450fb580260096810701755015d08650f6d16751d7d24620e6a15721c7a23822a8a316f1b77227f2987308f37973e\
             7c28842f8c36943d9c44a44b",
        ),
    ];

    fn codec(name: &str) -> Box<dyn BytesToBytes> {
        if name.starts_with("png") { Box::new(PngImage) } else { Box::new(Jpeg2k { planar: false }) }
    }

    #[test]
    fn reads_what_imagecodecs_writes() {
        for (name, image, samples) in IMAGES {
            let (image, samples) = (hex(image), hex(samples));
            let n = samples.len();
            for size in [Size::Exact(n), Size::AtMost(n), Size::AtMost(10 * n)] {
                assert_eq!(codec(name).decode(&image, size).unwrap(), samples, "{name} {size:?}");
            }
            for size in [Size::Exact(n - 1), Size::Exact(n + 1), Size::AtMost(n - 1)] {
                assert!(codec(name).decode(&image, size).is_err(), "{name} {size:?}");
            }
            assert!(codec(name).encode(&samples).is_err());
        }
    }

    #[test]
    fn components_may_lie_apart() {
        let (_, image, samples) = IMAGES.into_iter().find(|(name, ..)| *name == "j2k_rgb").unwrap();
        let (image, samples) = (hex(image), hex(samples));
        let apart: Vec<u8> = (0..3).flat_map(|c| samples.iter().skip(c).step_by(3).copied()).collect();
        assert_eq!(Jpeg2k { planar: true }.decode(&image, Size::Exact(apart.len())).unwrap(), apart);
    }

    #[test]
    fn damaged_images_never_panic() {
        let mut noise = Noise(5);
        for (name, image, samples) in IMAGES {
            let (image, n) = (hex(image), samples.len() / 2);
            let attempt = |bytes: &[u8]| {
                for size in [Size::Exact(n), Size::AtMost(1000)] {
                    if let Ok(out) = codec(name).decode(bytes, size) {
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
