//! Pictures: numbers to colours, and colours to PNG, JPEG and TIFF.

use std::io::Cursor;

use zaro::format::Colormap;
use zaro::image::render::{Picture, PngRows, Rows as _, TiffRows};
use zaro::internal::text::{f64_of_usize, u64_of_f64};

use super::made::Made;
use crate::answer::Fault;

/// A format of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    Png,
    Jpeg,
    Tiff,
}

impl PictureFormat {
    /// By the end of a name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "png" => Some(Self::Png),
            "jpg" | "jpeg" => Some(Self::Jpeg),
            "tif" | "tiff" => Some(Self::Tiff),
            _ => None,
        }
    }
}

/// Encodes a picture, on a thread of its own.
pub(crate) async fn encode(picture: Picture, format: PictureFormat) -> Result<Made, Fault> {
    super::apart(move || encode_now(&picture, format).map_err(|e| Fault::behind(&e))).await?
}

fn encode_now(picture: &Picture, format: PictureFormat) -> zaro::Result<Made> {
    Ok(match format {
        PictureFormat::Png => {
            let mut rows = PngRows::new(Vec::new());
            rows.begin(picture.width, picture.height)?;
            rows.put(&picture.rgba)?;
            Made::picture("image/png", rows.finish()?)
        }
        PictureFormat::Tiff => {
            let mut rows = TiffRows::new(Cursor::new(Vec::new()));
            rows.begin(picture.width, picture.height)?;
            rows.put(&picture.rgba)?;
            Made::picture("image/tiff", rows.finish()?.into_inner())
        }
        PictureFormat::Jpeg => Made::picture("image/jpeg", jpeg(picture)?),
    })
}

/// How well a JPEG keeps its picture.
const QUALITY: u8 = 85;

fn jpeg(picture: &Picture) -> zaro::Result<Vec<u8>> {
    let side = |n: u32| {
        u16::try_from(n).map_err(|_| zaro::Error::usage("a JPEG has at most 65535 pixels along a side"))
    };
    let (width, height) = (side(picture.width)?, side(picture.height)?);
    // A JPEG has no alpha: what is transparent is white, as on a page.
    let mut rgb = Vec::with_capacity(picture.rgba.len() / 4 * 3);
    for [r, g, b, a] in picture.rgba.as_chunks::<4>().0 {
        let over = |c: u8| {
            let mixed = (u32::from(c) * u32::from(*a) + 255 * (255 - u32::from(*a)) + 127) / 255;
            u8::try_from(mixed).unwrap_or(255)
        };
        rgb.extend([over(*r), over(*g), over(*b)]);
    }
    let mut out = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut out, QUALITY);
    encoder
        .encode(&rgb, width, height, jpeg_encoder::ColorType::Rgb)
        .map_err(|e| zaro::Error::io(format!("the JPEG could not be encoded: {e}")))?;
    Ok(out)
}

/// A colour map by its name.
pub(crate) fn colormap(name: Option<&str>) -> Result<Colormap, Fault> {
    match name {
        None | Some("viridis") => Ok(Colormap::Viridis),
        Some("magma") => Ok(Colormap::Magma),
        Some("gray" | "grey") => Ok(Colormap::Gray),
        Some(other) => Err(Fault::bad(format!("cmap={other:?}: viridis, magma or gray"))),
    }
}

/// Numbers as colours; what is missing is transparent.
pub(crate) fn colors(
    numbers: &[f64],
    (width, height): (usize, usize),
    map: Colormap,
    (low, high): (f64, f64),
) -> Picture {
    let span = high - low;
    let mut rgba = Vec::with_capacity(numbers.len().saturating_mul(4));
    for x in numbers {
        if x.is_finite() {
            rgba.extend(map.color(if span > 0.0 { (x - low) / span } else { 0.5 }));
            rgba.push(255);
        } else {
            rgba.extend([0; 4]);
        }
    }
    let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Picture { width: side(width), height: side(height), rgba }
}

/// A range that shows most of the numbers: without the lowest 1 % and the highest 0.1 %, as `zaro read` draws them.
pub(crate) fn usual_range(numbers: &[f64]) -> (f64, f64) {
    let mut sorted: Vec<f64> = numbers.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |part: f64| {
        let i = u64_of_f64((f64_of_usize(last) * part).round());
        usize::try_from(i).ok().and_then(|i| sorted.get(i)).copied().unwrap_or(0.0)
    };
    let (low, high) = (at(0.01), at(0.999));
    if low < high { (low, high) } else { (at(0.0), at(1.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_transparent_and_white_in_a_jpeg() {
        let picture = colors(&[0.0, f64::NAN], (2, 1), Colormap::Gray, (0.0, 1.0));
        assert_eq!(picture.rgba, [0, 0, 0, 255, 0, 0, 0, 0]);
        let made = encode_now(&picture, PictureFormat::Jpeg).unwrap();
        assert!(made.bytes.starts_with(&[0xFF, 0xD8, 0xFF]));
        assert_eq!(usual_range(&[f64::NAN, 1.0, 3.0]), (1.0, 3.0));
    }
}
