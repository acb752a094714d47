//! Draws a two-dimensional selection as PNG.
//!
//! Elements are averaged into pixels block by block, so that only the picture is in memory, whatever the size of the
//! array. Numbers become colours through a [`Colormap`]; `uint8` with a last dimension of 3 or 4 is RGB or RGBA.

use std::io::Write;

use super::colormap::Colormap;
use super::{Layout, Sink, value};
use crate::array::Slab;
use crate::error::{Error, Result, usage};
use crate::meta::{ArrayMeta, DataType};
use crate::num;

/// Options for drawing a picture.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// The colour map.
    pub colormap: Colormap,
    /// The values mapped to the first and the last colour; `None` to choose them from the data.
    pub range: Option<(f64, f64)>,
    /// The maximum number of pixels along a side.
    pub max_size: usize,
    /// Values that are transparent, besides NaN.
    pub transparent: Vec<f64>,
}

/// The values that are transparent in a picture of stored elements: missing values by the attributes, and a nonzero
/// fill value.
#[must_use]
pub fn transparent(meta: &ArrayMeta) -> Vec<f64> {
    let named =
        ["_FillValue", "missing_value"].into_iter().filter_map(|name| meta.attributes.get(name)?.as_f64());
    let counts = !meta.fill.is_zero() && meta.data_type != DataType::Bool;
    named.chain(value::number(&meta.data_type, &meta.fill.0).filter(|_| counts)).collect()
}

/// Draws a picture.
#[derive(Debug)]
pub struct Picture {
    drawing: Drawing,
    frame: Option<GrowingPicture>,
    next: u64,
}

/// A picture under construction.
#[derive(Debug)]
struct GrowingPicture {
    rows: u64,
    columns: u64,
    height: usize,
    width: usize,
    /// Values per element: 1, or 3 or 4 for colours.
    channels: usize,
    is_bool: bool,
    sums: Vec<f64>,
    counts: Vec<u32>,
}

impl Picture {
    /// A picture with these options.
    #[must_use]
    pub fn new(drawing: Drawing) -> Self {
        Self { drawing, frame: None, next: 0 }
    }
}

/// Rows, columns and channels of a result, if it can be drawn.
pub fn dimensions(layout: &Layout) -> Result<(u64, u64, usize)> {
    let colour = match layout.shape.last() {
        Some(3) if layout.data_type == DataType::UINT8 && layout.shape.len() > 2 => 3,
        Some(4) if layout.data_type == DataType::UINT8 && layout.shape.len() > 2 => 4,
        _ => 1,
    };
    let mut long: Vec<u64> = layout.shape.iter().copied().filter(|n| *n != 1).collect();
    let mut channels = 1;
    if colour > 1 && long.len() == 3 {
        long.pop();
        channels = colour;
    }
    // A single row or column is a picture too, if there are two dimensions.
    if long.len() < 2 && layout.shape.len() >= 2 {
        let n = layout.shape.len();
        long = layout.shape.get(n - 2..).unwrap_or_default().to_vec();
    }
    match long.as_slice() {
        [rows, columns] => Ok((*rows, *columns, channels)),
        _ => Err(usage!("a picture needs two dimensions, this has {}: {}", long.len(), layout.shape_text())),
    }
}

impl Sink for Picture {
    fn begin(&mut self, layout: &Layout, _: &mut dyn Write) -> Result<()> {
        if value::number(&layout.data_type, &[0; 8]).is_none() {
            return Err(usage!("elements of type {} cannot be drawn", layout.data_type));
        }
        let (rows, columns, channels) = dimensions(layout)?;
        if rows == 0 || columns == 0 {
            return Err(usage!("nothing to draw: the selection {} is empty", layout.shape_text()));
        }
        // Both sides shrink by the same factor, so that the picture keeps its proportions.
        let factor = rows.max(columns).div_ceil(num::u64_of(self.drawing.max_size.max(1)));
        let side = |n: u64| num::usize_of(n.div_ceil(factor));
        let (height, width) = (side(rows)?, side(columns)?);
        let pixels = height.saturating_mul(width).saturating_mul(channels);
        self.frame = Some(GrowingPicture {
            rows,
            columns,
            height,
            width,
            channels,
            is_bool: layout.data_type == DataType::Bool,
            sums: vec![0.0; pixels],
            counts: vec![0; pixels],
        });
        Ok(())
    }

    fn block(&mut self, block: &Slab, _: &mut dyn Write) -> Result<()> {
        let Some(frame) = &mut self.frame else { return Ok(()) };
        let channels = num::u64_of(frame.channels);
        let (height, width) = (num::u64_of(frame.height), num::u64_of(frame.width));
        let shrink = |n: u64, size: u64| n.div_ceil(size.max(1)).max(1);
        let (by_row, by_column) = (shrink(frame.rows, height), shrink(frame.columns, width));
        for item in block.items() {
            let (place, channel) = (self.next / channels, self.next % channels);
            self.next += 1;
            let x = value::number(&block.data_type, item).unwrap_or(f64::NAN);
            if !x.is_finite() || self.drawing.transparent.contains(&x) {
                continue;
            }
            let (row, column) = (place / frame.columns / by_row, place % frame.columns / by_column);
            let pixel = num::usize_of((row * width + column) * channels + channel)?;
            if let (Some(sum), Some(count)) = (frame.sums.get_mut(pixel), frame.counts.get_mut(pixel)) {
                *sum += x;
                *count = count.saturating_add(1);
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> Result<()> {
        let Some(frame) = self.frame.take() else { return Ok(()) };
        let means: Vec<Option<f64>> = frame
            .sums
            .iter()
            .zip(&frame.counts)
            .map(|(sum, count)| (*count > 0).then(|| sum / f64::from(*count)))
            .collect();
        let pixels =
            if frame.channels == 1 { self.colour(&frame, &means) } else { plain_colour(&frame, &means) };
        encode(&frame, &pixels, out)
    }
}

impl Picture {
    /// Maps numbers to pixels.
    fn colour(&self, frame: &GrowingPicture, means: &[Option<f64>]) -> Vec<u8> {
        let (low, high) = self.drawing.range.unwrap_or_else(|| range(frame, means));
        let span = high - low;
        let mut out = Vec::with_capacity(means.len() * 4);
        for mean in means {
            match mean {
                Some(x) => {
                    let at = if span > 0.0 { (x - low) / span } else { 0.5 };
                    out.extend(self.drawing.colormap.color(at));
                    out.push(255);
                }
                None => out.extend([0; 4]),
            }
        }
        out
    }
}

/// The default value range: without the lowest 1 % and the highest 0.1 %, so that a few outliers do not make everything
/// else one colour.
fn range(frame: &GrowingPicture, means: &[Option<f64>]) -> (f64, f64) {
    if frame.is_bool {
        return (0.0, 1.0);
    }
    let mut sorted: Vec<f64> = means.iter().flatten().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |part: f64| {
        let i = num::usize_of_f64((num::f64_of_usize(last) * part).round());
        sorted.get(i).copied().unwrap_or(0.0)
    };
    let (low, high) = (at(0.01), at(0.999));
    if low < high { (low, high) } else { (at(0.0), at(1.0)) }
}

/// Pixels that are colours already.
fn plain_colour(frame: &GrowingPicture, means: &[Option<f64>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frame.width * frame.height * 4);
    for pixel in means.chunks_exact(frame.channels) {
        out.extend(pixel.iter().map(|x| num::u8_of_f64(x.unwrap_or(0.0))));
        if frame.channels == 3 {
            out.push(255);
        }
    }
    out
}

fn encode(frame: &GrowingPicture, pixels: &[u8], out: &mut dyn Write) -> Result<()> {
    let side = |n: usize| u32::try_from(n).map_err(|_| Error::usage("the picture is too large"));
    let fault = |e: png::EncodingError| match e {
        png::EncodingError::IoError(e) => Error::from(e),
        e => Error::io(e.to_string()),
    };
    let mut encoder = png::Encoder::new(out, side(frame.width)?, side(frame.height)?);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(fault)?;
    writer.write_image_data(pixels).map_err(fault)?;
    writer.finish().map_err(fault)
}
