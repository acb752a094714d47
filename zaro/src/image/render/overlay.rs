//! Draws labels and masks over a picture.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::array::{Array, Selection};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::group::Zarr;
use crate::image::model::{Axis, Labels, Level};
use crate::image::render::frame::{AxisSpan, PictureFrame};
use crate::image::render::picture::Picture;
use crate::image::render::quantum::byte;
use crate::image::render::samples::SampleKind;
use crate::image::render::source::{
    Axes, LevelStack, PixelBlock, PixelPick, WantedPixels, scaled, scaled_range,
};
use crate::num;
use crate::num::{f64_of_u64 as real, u64_of_f64 as whole};

/// The opacity of values without a colour.
const UNNAMED: f64 = 0.5;

/// A colour and its opacity; `None` if invisible.
type Paint = Option<([u8; 3], f64)>;

/// The pixel size of a level along an axis, and the centre of the first pixel.
type Ruler = (f64, f64);

/// The pixel grid of a level in physical coordinates, along y and x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PixelGrid {
    y: Ruler,
    x: Ruler,
}

impl PixelGrid {
    /// That of a level, if its metadata states it.
    pub(super) fn of(level: &Level, axes: &Axes) -> Option<Self> {
        let scale = level.scale.as_ref()?;
        let at = |i: usize| {
            let moved = level.translation.as_ref().and_then(|t| t.get(i)).copied().unwrap_or(0.0);
            let size = scale.get(i).copied().filter(|s| s.is_finite() && *s > 0.0)?;
            moved.is_finite().then_some((size, moved))
        };
        Some(Self { y: at(axes.y)?, x: at(axes.x)? })
    }
}

/// Labels that are drawn over an image.
#[derive(Debug, Clone)]
pub(super) struct Overlay {
    pyramid: LevelStack,
    grids: Vec<Option<PixelGrid>>,
    colors: HashMap<i128, [u8; 4]>,
    opacity: f64,
    /// Whether there is no image below, and all colours are opaque.
    alone: bool,
}

/// The picture that the overlay is drawn on.
pub(super) struct Under<'a> {
    pub(super) image: &'a LevelStack,
    /// The pixel grid of its largest level.
    pub(super) grid: Option<PixelGrid>,
    /// The whole picture.
    pub(super) frame: &'a PictureFrame,
    /// The rows to draw.
    pub(super) rows: std::ops::Range<usize>,
    /// The planes of the largest level that are shown.
    pub(super) z: std::ops::Range<u64>,
    pub(super) t: u64,
    /// The channels that are shown.
    pub(super) channels: Vec<u64>,
    pub(super) memory: usize,
}

impl Overlay {
    /// Opens labels; the paths of `levels` are from the root.
    pub(super) async fn open(
        zarr: &Zarr,
        axes: &[Axis],
        levels: &[Level],
        labels: &Labels,
        opacity: f64,
        alone: bool,
    ) -> Result<Self> {
        let pyramid = LevelStack::open(zarr, levels, axes).await?;
        for array in &pyramid.levels {
            if SampleKind::of(&array.meta().data_type)?.is_float() {
                let other = format!("labels must be integers, these are {}", array.meta().data_type);
                return Err(Error::invalid(other).with_node(crate::meta::path::shown(array.path())));
            }
        }
        let grids = levels.iter().map(|level| PixelGrid::of(level, &pyramid.axes)).collect();
        let colors = labels.colors.iter().map(|c| (c.value, c.rgba)).collect();
        Ok(Self { pyramid, grids, colors, opacity, alone })
    }

    pub(super) fn pyramid(&self) -> &LevelStack {
        &self.pyramid
    }

    fn paint(&self, value: i128) -> Paint {
        let (rgb, alpha) = match self.colors.get(&value) {
            // Without an image below, translucent colours would be dark.
            Some([r, g, b, a]) if self.alone && *a > 0 => ([*r, *g, *b], 1.0),
            Some([r, g, b, a]) => ([*r, *g, *b], f64::from(*a) / 255.0),
            None if value == 0 => return None,
            None => (derived(value), if self.alone { 1.0 } else { UNNAMED }),
        };
        let alpha = alpha * self.opacity;
        (alpha > 0.0).then_some((rgb, alpha))
    }

    /// Draws it on the rows of the picture.
    pub(super) async fn draw(&self, picture: &mut Picture, under: &Under<'_>) -> Result<()> {
        let (level, across, down) = self.place(under)?;
        let Some(array) = self.pyramid.levels.get(level) else { return Ok(()) };
        let (Some(across), Some(down)) = (across, down) else { return Ok(()) };
        let axes = &self.pyramid.axes;
        let first = under.image.first()?;
        let depth = Axes::extent(first, under.image.axes.z);
        let z = scaled_range(&under.z, depth, Axes::extent(array, axes.z));
        let t = scaled(under.t, Axes::extent(first, under.image.axes.t), Axes::extent(array, axes.t));
        let channels = channels(array, axes, &under.channels);
        let per_row = num::u64_of(across.positions.len())
            .saturating_mul(num::u64_of(SampleKind::of(&array.meta().data_type)?.size()))
            .saturating_mul(z.end - z.start)
            .saturating_mul(num::u64_of(channels.len()));
        let rows = num::usize_of(num::u64_of(under.memory) / per_row.max(1))?.max(1);
        // Those of the rows to draw.
        let skipped = under.rows.start.saturating_sub(down.first).min(down.positions.len());
        let end = under.rows.end.saturating_sub(down.first).min(down.positions.len());
        let positions = down.positions.get(skipped..end).unwrap_or_default();
        let mut row = down.first.saturating_sub(under.rows.start);
        for part in positions.chunks(rows) {
            let wanted = WantedPixels {
                t,
                c: PixelPick::of(channels.clone()),
                z: PixelPick::Run(z.start, z.end - z.start),
                y: PixelPick::of(part.to_vec()),
                x: PixelPick::of(across.positions.clone()),
            };
            let block = PixelBlock::read(array, axes, &wanted).await?;
            self.blend(array.context(), &block, channels.len(), picture, (row, across.first));
            row += part.len();
        }
        Ok(())
    }

    /// What [`draw`](Self::draw) reads: the array, and the part of it.
    pub(super) fn reads(&self, under: &Under<'_>) -> Result<Option<(Array, Selection)>> {
        let (level, across, down) = self.place(under)?;
        let (Some(array), Some(across), Some(down)) = (self.pyramid.levels.get(level), across, down) else {
            return Ok(None);
        };
        let axes = &self.pyramid.axes;
        let first = under.image.first()?;
        let z = scaled_range(&under.z, Axes::extent(first, under.image.axes.z), Axes::extent(array, axes.z));
        let wanted = WantedPixels {
            t: scaled(under.t, Axes::extent(first, under.image.axes.t), Axes::extent(array, axes.t)),
            c: PixelPick::of(channels(array, axes, &under.channels)),
            z: PixelPick::Run(z.start, z.end - z.start),
            y: PixelPick::of(down.positions),
            x: PixelPick::of(across.positions),
        };
        Ok(Some((array.clone(), wanted.selection(array, axes)?)))
    }

    /// The level to use, and where its pixels are in the picture.
    fn place(&self, under: &Under<'_>) -> Result<(usize, Option<Hits>, Option<Hits>)> {
        let image = under.image;
        let (x, y) = (&under.frame.x, &under.frame.y);
        let extents = self.pyramid.extents();
        let whole = image.extents().first().copied().unwrap_or((1, 1));
        let own = extents.first().copied().unwrap_or((1, 1));
        // If both have the same shape, or one is stretched over the other, use the shapes; the scales are often wrong.
        let alike = |a: u64, b: u64| a == b || a == 1;
        let by_shape = alike(own.0, whole.0) && alike(own.1, whole.1);
        let steps = |level: usize, extent: (u64, u64)| {
            let grids = under.grid.zip(self.grids.get(level).copied().flatten()).filter(|_| !by_shape);
            (
                Steps::new(x, extent.0, grids.map(|(a, b)| (whole.0, a.x, b.x))),
                Steps::new(y, extent.1, grids.map(|(a, b)| (whole.1, a.y, b.y))),
            )
        };
        // The smallest level whose pixels are not larger than those of the picture.
        let fine = |(across, down): &(Steps, Steps), extent: (u64, u64)| {
            (across.by >= 1.0 - 1e-6 || extent.0 == 1) && (down.by >= 1.0 - 1e-6 || extent.1 == 1)
        };
        let level = extents.iter().enumerate().rposition(|(i, e)| fine(&steps(i, *e), *e)).unwrap_or(0);
        let extent = extents.get(level).copied().unwrap_or(own);
        let (across, down) = steps(level, extent);
        Ok((level, across.hits(x.count, extent.0), down.hits(y.count, extent.1)))
    }

    /// Draws the values of a block of that many channels, with its corner at `row` and `column`.
    fn blend(
        &self,
        context: &Context,
        block: &PixelBlock,
        channels: usize,
        picture: &mut Picture,
        (row, column): (usize, usize),
    ) {
        let row_bytes = picture.row_bytes();
        let rows = picture.rgba.par_chunks_exact_mut(row_bytes).skip(row).take(block.rows);
        context.install(|| {
            rows.enumerate().for_each_init(
                || (Vec::new(), vec![0i128; block.width], vec![0i128; block.width]),
                |(bytes, values, plane), (y, out)| {
                    block.kind.decode_whole(block.row(0, 0, y, bytes), values);
                    // Of several channels and planes, the first nonzero one: labels are drawn once.
                    let all = (0..channels).flat_map(|c| (0..block.depth).map(move |z| (c, z)));
                    for (c, z) in all.skip(1) {
                        block.kind.decode_whole(block.row(c, z, y, bytes), plane);
                        for (value, below) in values.iter_mut().zip(plane.iter()) {
                            if *value == 0 {
                                *value = *below;
                            }
                        }
                    }
                    let mut last: Option<(i128, Paint)> = None;
                    for (pixel, value) in
                        out.as_chunks_mut::<4>().0.iter_mut().skip(column).zip(values.iter())
                    {
                        let paint = match last {
                            Some((known, paint)) if known == *value => paint,
                            _ => self.paint(*value),
                        };
                        last = Some((*value, paint));
                        if let Some((rgb, alpha)) = paint {
                            let [r, g, b, _] = *pixel;
                            let [r, g, b] = over(rgb, alpha, [r, g, b]);
                            *pixel = [r, g, b, 255];
                        }
                    }
                },
            )
        });
    }
}

/// A colour over another: straight alpha.
fn over(rgb: [u8; 3], alpha: f64, under: [u8; 3]) -> [u8; 3] {
    let mix = |a: u8, b: u8| byte((alpha * f64::from(a) + (1.0 - alpha) * f64::from(b) + 0.5).floor());
    let ([r, g, b], [x, y, z]) = (rgb, under);
    [mix(r, x), mix(g, y), mix(b, z)]
}

/// The channels of labels to draw: the only one, or those of the image's visible channels.
fn channels(array: &Array, axes: &Axes, shown: &[u64]) -> Vec<u64> {
    let count = Axes::extent(array, axes.c);
    let shared: Vec<u64> = shown.iter().copied().filter(|c| *c < count).collect();
    if count == 1 || shared.is_empty() { vec![0] } else { shared }
}

/// The centres of the picture's pixels in a level of labels: `at` for the first, with step `by`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Steps {
    at: f64,
    by: f64,
}

/// Pixels of the picture that have labels: the first, and the label pixel for each.
#[derive(Debug, PartialEq)]
struct Hits {
    first: usize,
    positions: Vec<u64>,
}

impl Steps {
    /// By shape; or, with `grids`, by the extent of the image's largest level, its ruler, and that of the labels.
    fn new(span: &AxisSpan, extent: u64, grids: Option<(u64, Ruler, Ruler)>) -> Self {
        let (first, second) = (span.middle(0), span.middle(1));
        let place = |share: f64| match grids {
            None => share * real(extent),
            Some((whole, (size, zero), (label_size, label_zero))) => {
                let centre = (share * real(whole) - 0.5) * size + zero;
                (centre - label_zero) / label_size + 0.5
            }
        };
        Self { at: place(first), by: place(second) - place(first) }
    }

    fn hits(self, count: usize, extent: u64) -> Option<Hits> {
        let position = |i: usize| {
            // On the border of two pixels, take the first.
            let at = (self.at + self.by * real(num::u64_of(i)) - 1e-6).ceil() - 1.0;
            (at >= 0.0 && at < real(extent)).then(|| whole(at))
        };
        let first = (0..count).find(|i| position(*i).is_some())?;
        let positions = (first..count).map_while(position).collect();
        Some(Hits { first, positions })
    }
}

/// A bright colour for a value without one: deterministic, and distinct from those of nearby values.
fn derived(value: i128) -> [u8; 3] {
    // Steps of the golden ratio around the circle of hues.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let low = u64::from_le_bytes(value.to_le_bytes().first_chunk().copied().unwrap_or_default());
    let turned = low.wrapping_mul(GOLDEN);
    // Six parts of 256 hues each.
    let hue = u32::try_from((u128::from(turned) * 1536) >> 64).unwrap_or(0);
    let (part, within) = (hue / 256, u8::try_from(hue % 256).unwrap_or(0));
    let (rising, falling) = (within, 255 - within);
    let [r, g, b] = match part {
        0 => [255, rising, 0],
        1 => [falling, 255, 0],
        2 => [0, 255, rising],
        3 => [0, falling, 255],
        4 => [rising, 0, 255],
        _ => [255, 0, falling],
    };
    // Blue and red on black are dark: add some white.
    [r, g, b].map(|c: u8| c / 4 * 3 + 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::render::settings::Size;

    #[test]
    fn alpha_is_straight() {
        let half = 128.0 / 255.0;
        assert_eq!(over([0, 128, 0], half, [100, 100, 100]), [50, 114, 50]);
        assert_eq!(over([255, 0, 0], half, [0, 0, 255]), [128, 0, 127]);
        assert_eq!(over([1, 2, 3], 1.0, [9, 9, 9]), [1, 2, 3]);
    }

    #[test]
    fn derived_colours_are_stable_and_apart() {
        assert_eq!(derived(7), derived(7));
        let all: std::collections::HashSet<[u8; 3]> = (1..=100).map(derived).collect();
        assert!(all.len() > 95);
        assert_ne!(derived(-1), derived(1));
    }

    fn span(width: u64, out: u32) -> AxisSpan {
        PictureFrame::new(&[(width, width)], None, Some(Size::Longest(out)), None).unwrap().x
    }

    #[test]
    fn labels_are_sampled_at_the_nearest() {
        // The same shape, twice as large, half as large.
        let hits =
            |span: &AxisSpan, extent: u64| Steps::new(span, extent, None).hits(span.count, extent).unwrap();
        assert_eq!(hits(&span(4, 4), 4).positions, [0, 1, 2, 3]);
        assert_eq!(hits(&span(8, 4), 8).positions, [0, 2, 4, 6]);
        assert_eq!(hits(&span(4, 4), 2).positions, [0, 0, 1, 1]);
        assert_eq!(hits(&span(4, 4), 1).positions, [0; 4]);
        assert_eq!(hits(&span(4, 8), 4).positions, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn labels_of_another_grid_lie_where_their_scale_says() {
        // Pixels of 0.5 from 0; labels of 1.0 whose first centre is at 0.25, as means of two have it.
        let image = span(8, 8);
        let steps = Steps::new(&image, 4, Some((8, (0.5, 0.0), (1.0, 0.25))));
        assert_eq!(steps.hits(8, 4).unwrap().positions, [0, 0, 1, 1, 2, 2, 3, 3]);
        // Labels of a part only.
        let steps = Steps::new(&image, 3, Some((8, (0.5, 0.0), (0.5, 1.0))));
        assert_eq!(steps.hits(8, 3), Some(Hits { first: 2, positions: vec![0, 1, 2] }));
        let beyond = Steps::new(&image, 3, Some((8, (0.5, 0.0), (0.5, 100.0))));
        assert_eq!(beyond.hits(8, 3), None);
    }
}
