//! Maps the pixels of a picture to pixels of a level.

use std::ops::Range;

use crate::error::{Error, Result, invalid, usage};
use crate::image::render::settings::{Region, Size};
use crate::num;
use crate::num::f64_of_u64 as real;

/// The mapping of picture pixels to level pixels along one axis. In integers, so that it is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AxisSpan {
    /// The length of a pixel of the level.
    unit: u128,
    /// The start of the picture, in the same measure.
    start: u128,
    /// The length of a pixel of the picture.
    step: u128,
    pub(super) count: usize,
    extent: u64,
}

/// The pixels of a level that contribute to one pixel of the picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tap {
    /// The first.
    pub(super) first: u64,
    /// Their weights.
    pub(super) weights: Vec<f64>,
}

impl AxisSpan {
    /// Whether each pixel of the picture is one pixel of the level.
    pub(super) fn is_exact(&self) -> bool {
        self.step == self.unit && self.start.is_multiple_of(self.unit)
    }

    /// Whether no pixel of the picture depends on several of the level.
    pub(super) fn is_single(&self) -> bool {
        self.is_exact() || self.step < self.unit
    }

    /// Restricts it to these pixels of the picture.
    pub(super) fn part(&self, pixels: Range<usize>) -> Self {
        Self { start: self.edge(pixels.start), count: pixels.len(), ..*self }
    }

    /// The start of pixel `i` of the picture.
    fn edge(&self, i: usize) -> u128 {
        self.start.saturating_add(u128::from(num::u64_of(i)).saturating_mul(self.step))
    }

    /// The pixel of the level at `position`, at most the last.
    fn pixel(&self, position: u128) -> u64 {
        u64::try_from(position / self.unit).unwrap_or(u64::MAX).min(self.extent.saturating_sub(1))
    }

    /// The pixel of the level nearest to the centre of pixel `i` of the picture.
    pub(super) fn nearest(&self, i: usize) -> u64 {
        self.pixel(self.edge(i).saturating_add(self.step / 2))
    }

    /// The contributions to pixel `i` of the picture: the mean of all it covers, or the nearest if it covers less than
    /// one.
    pub(super) fn tap(&self, i: usize) -> Tap {
        if self.is_single() {
            return Tap { first: self.nearest(i), weights: vec![1.0] };
        }
        let (from, to) = (self.edge(i), self.edge(i.saturating_add(1)));
        let first = self.pixel(from);
        let mut weights = Vec::new();
        let mut left = u128::from(first).saturating_mul(self.unit);
        let end = to.min(u128::from(self.extent).saturating_mul(self.unit));
        while left < end {
            let right = left.saturating_add(self.unit);
            weights.push(ratio(right.min(end).saturating_sub(left.max(from)), 1));
            left = right;
        }
        if weights.is_empty() {
            weights.push(1.0);
        }
        Tap { first, weights }
    }

    /// The centre of pixel `i` of the picture, as a fraction of the level.
    pub(super) fn middle(&self, i: usize) -> f64 {
        let twice = self.edge(i).saturating_mul(2).saturating_add(self.step);
        ratio(twice, self.unit.saturating_mul(2)) / real(self.extent.max(1))
    }
}

#[allow(clippy::as_conversions, reason = "rounds to the nearest, which is meant")]
fn ratio(a: u128, b: u128) -> f64 {
    a as f64 / b as f64
}

/// The position of a picture in a level.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PictureFrame {
    /// The index of the level.
    pub(super) level: usize,
    pub(super) x: AxisSpan,
    pub(super) y: AxisSpan,
}

/// Width and height of a level.
pub(super) type Extent = (u64, u64);

impl PictureFrame {
    /// Chooses the level and pixels. `levels` are their extents, the largest first.
    pub(super) fn new(
        levels: &[Extent],
        region: Option<Region>,
        size: Option<Size>,
        level: Option<usize>,
    ) -> Result<Self> {
        let Some(&(width, height)) = levels.first().filter(|(w, h)| *w > 0 && *h > 0) else {
            return Err(Error::usage("nothing to render: the image has no pixels"));
        };
        let region = region.unwrap_or(Region { x: 0, y: 0, width, height });
        let (x, y) = (clip(region.x, region.width, width), clip(region.y, region.height, height));
        let (Some(x), Some(y)) = (x, y) else {
            return Err(usage!(
                "the region at {},{} is outside the image, which is {width} x {height}",
                region.x,
                region.y
            ));
        };
        let out = size.map(|size| match size {
            Size::Exactly(w, h) => (u64::from(w), u64::from(h)),
            Size::Longest(n) => {
                let n = u64::from(n);
                let other = |side: u64, longest: u64| {
                    let scaled = (u128::from(n) * u128::from(side) * 2 + u128::from(longest))
                        / (u128::from(longest) * 2);
                    u64::try_from(scaled).unwrap_or(n).max(1)
                };
                if x.1 >= y.1 { (n, other(y.1, x.1)) } else { (other(x.1, y.1), n) }
            }
        });
        let chosen = match (level, out) {
            (Some(level), _) => level,
            (None, None) => 0,
            (None, Some((w, h))) => {
                let fills = |&(lw, lh): &Extent| {
                    let enough = |part: u64, l: u64, out: u64, all: u64| {
                        u128::from(part) * u128::from(l) >= u128::from(out) * u128::from(all)
                    };
                    enough(x.1, lw, w, width) && enough(y.1, lh, h, height)
                };
                levels.iter().rposition(fills).unwrap_or(0)
            }
        };
        let Some(&(level_width, level_height)) = levels.get(chosen) else {
            return Err(usage!("no level {chosen}; the image has {}, from 0", levels.len()));
        };
        if level_width == 0 || level_height == 0 {
            return Err(invalid!("level {chosen} has no pixels"));
        }
        let (across, down) = (out.map(|o| o.0), out.map(|o| o.1));
        Ok(Self {
            level: chosen,
            x: span(x, width, level_width, across)?,
            y: span(y, height, level_height, down)?,
        })
    }
}

/// Start and length of a part, clipped to `extent`; `None` if nothing is left.
fn clip(start: u64, length: u64, extent: u64) -> Option<(u64, u64)> {
    let left = extent.checked_sub(start).filter(|n| *n > 0)?;
    Some((start, length.min(left)))
}

fn span((start, length): (u64, u64), whole: u64, extent: u64, out: Option<u64>) -> Result<AxisSpan> {
    let scaled = |n: u64| u128::from(n) * u128::from(extent);
    let whole = u128::from(whole.max(1));
    let narrow = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    Ok(match out {
        // All pixels of the level that the part touches.
        None => {
            let first = narrow(scaled(start) / whole);
            let end = narrow(scaled(start.saturating_add(length)).div_ceil(whole)).min(extent);
            let count = num::usize_of(end.saturating_sub(first).max(1))?;
            AxisSpan { unit: 1, start: first.into(), step: 1, count, extent }
        }
        Some(out) => {
            let (unit, start) = (whole.saturating_mul(out.into()), scaled(start).saturating_mul(out.into()));
            let step = scaled(length);
            // Small integers are exact as weights.
            let common = divisor(divisor(unit, step), start).max(1);
            let count = num::usize_of(out)?;
            AxisSpan { unit: unit / common, start: start / common, step: step / common, count, extent }
        }
    })
}

fn divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [Extent; 5] = [(4096, 4096), (2048, 2048), (1024, 1024), (512, 512), (256, 256)];

    fn frame(region: Option<Region>, size: Option<Size>, level: Option<usize>) -> PictureFrame {
        PictureFrame::new(&LEVELS, region, size, level).unwrap()
    }

    #[test]
    fn the_smallest_level_that_fills_the_picture_is_taken() {
        for (size, wanted) in [
            (5000, 0),
            (4096, 0),
            (3500, 0),
            (2048, 1),
            (2047, 1),
            (1500, 1),
            (600, 2),
            (512, 3),
            (256, 4),
            (1, 4),
        ] {
            assert_eq!(frame(None, Some(Size::Longest(size)), None).level, wanted, "{size}");
        }
        // A part of an eighth needs a level that is eight times as large.
        let part = Region { x: 0, y: 0, width: 512, height: 512 };
        assert_eq!(frame(Some(part), Some(Size::Longest(256)), None).level, 1);
        assert_eq!(frame(None, None, None).level, 0);
    }

    #[test]
    fn parts_are_made_of_the_same_pixels() {
        for (extent, out) in [(10, 4), (4, 8), (7, 7), (1000, 333)] {
            let whole = PictureFrame::new(&[(extent, 9)], None, Some(Size::Exactly(out, 3)), None).unwrap().x;
            for from in 0..whole.count {
                let part = whole.part(from..whole.count);
                assert_eq!(part.count, whole.count - from);
                assert!((0..part.count).all(|i| part.tap(i) == whole.tap(from + i)), "{extent} {out} {from}");
            }
        }
    }

    #[test]
    fn sides_keep_their_proportion_and_rounding_is_fair() {
        let f = PictureFrame::new(&[(300, 200)], None, Some(Size::Longest(100)), None).unwrap();
        assert_eq!((f.x.count, f.y.count), (100, 67));
        let f = PictureFrame::new(&[(2, 3000)], None, Some(Size::Longest(100)), None).unwrap();
        assert_eq!((f.x.count, f.y.count), (1, 100));
        let f = PictureFrame::new(&[(300, 200)], None, Some(Size::Exactly(30, 40)), None).unwrap();
        assert_eq!((f.x.count, f.y.count), (30, 40));
    }

    #[test]
    fn parts_of_levels_are_whole_pixels() {
        let part = Region { x: 3, y: 0, width: 6, height: 5000 };
        let f = frame(Some(part), None, Some(1));
        assert!(f.x.is_exact() && f.y.is_exact());
        assert_eq!((f.x.nearest(0), f.x.count), (1, 4));
        assert_eq!((f.y.nearest(0), f.y.count), (0, 2048));
        let f = frame(Some(part), Some(Size::Exactly(6, 4096)), None);
        assert_eq!((f.level, f.x.is_exact(), f.x.nearest(0)), (0, true, 3));
        assert!(
            PictureFrame::new(&LEVELS, Some(Region { x: 4096, y: 0, width: 1, height: 1 }), None, None)
                .is_err()
        );
        assert!(PictureFrame::new(&LEVELS, None, None, Some(5)).is_err());
        assert!(PictureFrame::new(&[(0, 5)], None, None, None).is_err());
    }

    #[test]
    fn pixels_are_means_of_what_they_cover() {
        let f = PictureFrame::new(&[(10, 4)], None, Some(Size::Exactly(4, 8)), None).unwrap();
        assert_eq!(f.x.tap(0), Tap { first: 0, weights: vec![2.0, 2.0, 1.0] });
        assert_eq!(f.x.tap(1), Tap { first: 2, weights: vec![1.0, 2.0, 2.0] });
        assert_eq!(f.x.tap(3), Tap { first: 7, weights: vec![1.0, 2.0, 2.0] });
        // What is enlarged takes the nearest.
        let rows: Vec<u64> = (0..8).map(|i| f.y.nearest(i)).collect();
        assert_eq!(rows, [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}
