//! Opens the arrays of an image, and reads blocks of pixels.

use std::ops::Range;

use crate::array::{Array, Index, ReadOptions, Selection};
use crate::error::{Error, ErrorKind, Result, invalid, usage};
use crate::group::Zarr;
use crate::image::model::{Axis, AxisKind, Level};
use crate::image::render::samples::SampleKind;
use crate::num;

/// Which dimension of the arrays of an image each axis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes {
    /// Time.
    pub t: Option<usize>,
    /// Channels.
    pub c: Option<usize>,
    /// Planes.
    pub z: Option<usize>,
    /// Rows.
    pub y: usize,
    /// Columns.
    pub x: usize,
}

impl Axes {
    /// Those of arrays of `rank` dimensions. If the document has another number of axes, as before axes had names, they
    /// are the last of t, c, z, y, x.
    pub fn of(axes: &[Axis], rank: usize) -> Result<Self> {
        if rank < 2 {
            return Err(invalid!("an image needs two or more dimensions, this array has {rank}"));
        }
        let usual = Axis::usual(rank);
        if axes.len() != rank && usual.len() != rank {
            return Err(invalid!("the image has {} axes, but its array has {rank} dimensions", axes.len()));
        }
        let axes = if axes.len() == rank { axes } else { &usual };
        let named = |name: &str| axes.iter().position(|a| a.name.eq_ignore_ascii_case(name));
        let of_kind = |kind: AxisKind| axes.iter().position(|a| a.kind == kind);
        let space: Vec<usize> =
            axes.iter().enumerate().filter(|(_, a)| a.kind == AxisKind::Space).map(|(i, _)| i).collect();
        // By name; else the last spatial axes, else the last of all.
        let from_end = |n: usize| {
            let of_space = space.len().checked_sub(n).and_then(|i| space.get(i)).copied();
            of_space.filter(|_| space.len() >= 2)
        };
        let (y, x) = match (named("y"), named("x")) {
            (Some(y), Some(x)) => (y, x),
            _ => match (from_end(2), from_end(1)) {
                (Some(y), Some(x)) => (y, x),
                _ => (rank - 2, rank - 1),
            },
        };
        let free = |i: &usize| *i != y && *i != x;
        Ok(Self {
            t: named("t").or_else(|| of_kind(AxisKind::Time)).filter(free),
            c: named("c").or_else(|| of_kind(AxisKind::Channel)).filter(free),
            z: named("z").or_else(|| from_end(3)).filter(free),
            y,
            x,
        })
    }

    /// The length along an axis; 1 if there is no such axis.
    pub(super) fn extent(array: &Array, axis: Option<usize>) -> u64 {
        axis.and_then(|i| array.shape().get(i)).copied().unwrap_or(1)
    }
}

/// The levels of a multiscale, the largest first.
#[derive(Debug, Clone)]
pub(super) struct LevelStack {
    pub(super) axes: Axes,
    pub(super) levels: Vec<Array>,
}

impl LevelStack {
    /// Opens the arrays of levels, with paths from the root. Missing smaller levels are skipped.
    pub(super) async fn open(zarr: &Zarr, levels: &[Level], axes: &[Axis]) -> Result<Self> {
        let opened = futures::future::join_all(levels.iter().map(|level| zarr.array(&level.path))).await;
        let mut levels: Vec<Array> = Vec::new();
        for array in opened {
            match array {
                Ok(array) => levels.push(array),
                Err(e) if e.kind() == ErrorKind::NotFound && !levels.is_empty() => break,
                Err(e) => return Err(e),
            }
        }
        let Some(first) = levels.first() else { return Err(Error::invalid("the image has no levels")) };
        let rank = first.shape().len();
        let named = |e: Error, array: &Array| e.with_node(crate::meta::path::shown(array.path()));
        for array in &levels {
            SampleKind::of(&array.meta().data_type).map_err(|e| named(e, array))?;
            if array.shape().len() != rank {
                let other =
                    format!("this level has {} dimensions, but the first has {rank}", array.shape().len());
                return Err(named(Error::invalid(other), array));
            }
        }
        let axes = Axes::of(axes, rank).map_err(|e| named(e, first))?;
        Ok(Self { axes, levels })
    }

    pub(super) fn first(&self) -> Result<&Array> {
        self.levels.first().ok_or_else(|| Error::invalid("the image has no levels"))
    }

    pub(super) fn last(&self) -> Result<&Array> {
        self.levels.last().ok_or_else(|| Error::invalid("the image has no levels"))
    }

    /// Width and height of each level.
    pub(super) fn extents(&self) -> Vec<(u64, u64)> {
        let side = |array: &Array, i: usize| array.shape().get(i).copied().unwrap_or(0);
        self.levels.iter().map(|a| (side(a, self.axes.x), side(a, self.axes.y))).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PixelPick {
    /// Start and count.
    Run(u64, u64),
    /// Every nth, from 0 on.
    Every(u64),
    /// These.
    List(Vec<u64>),
}

impl PixelPick {
    /// These positions, in the simplest form.
    pub(super) fn of(positions: Vec<u64>) -> Self {
        match (
            positions.first(),
            positions.windows(2).all(|p| matches!(p, [a, b] if a.checked_add(1) == Some(*b))),
        ) {
            (Some(first), true) => Self::Run(*first, num::u64_of(positions.len())),
            _ => Self::List(positions),
        }
    }

    /// The number of positions; 0 if it depends on the array.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Run(_, count) => usize::try_from(*count).unwrap_or(usize::MAX),
            Self::List(list) => list.len(),
            Self::Every(_) => 0,
        }
    }

    fn index(&self) -> Result<Index> {
        let signed = |n: u64| i64::try_from(n).map_err(|_| usage!("position {n} is out of range"));
        Ok(match self {
            Self::Run(start, count) => Index::Span(*start, *count),
            Self::Every(step) => Index::Slice(None, None, signed(*step)?),
            Self::List(positions) => {
                Index::List(positions.iter().map(|n| signed(*n)).collect::<Result<_>>()?)
            }
        })
    }
}

/// The pixels to read from a level.
#[derive(Debug, Clone)]
pub(super) struct WantedPixels {
    pub(super) t: u64,
    pub(super) c: PixelPick,
    pub(super) z: PixelPick,
    pub(super) y: PixelPick,
    pub(super) x: PixelPick,
}

impl WantedPixels {
    /// The selection of `array`.
    pub(super) fn selection(&self, array: &Array, axes: &Axes) -> Result<Selection> {
        let mut indexes = vec![Index::Span(0, 1); array.shape().len()];
        let mut set = |axis: Option<usize>, index: Index| {
            if let Some(slot) = axis.and_then(|i| indexes.get_mut(i)) {
                *slot = index;
            }
        };
        set(axes.t, Index::Span(self.t, 1));
        set(axes.c, self.c.index()?);
        set(axes.z, self.z.index()?);
        set(Some(axes.y), self.y.index()?);
        set(Some(axes.x), self.x.index()?);
        Ok(Selection::new(indexes))
    }
}

#[derive(Debug)]
pub(super) struct PixelBlock {
    pub(super) kind: SampleKind,
    bytes: Vec<u8>,
    /// Strides in elements along c, z, y and x.
    steps: [usize; 4],
    /// Extents along z, y and x.
    pub(super) depth: usize,
    pub(super) rows: usize,
    pub(super) width: usize,
}

impl PixelBlock {
    pub(super) async fn read(array: &Array, axes: &Axes, wanted: &WantedPixels) -> Result<Self> {
        let kind = SampleKind::of(&array.meta().data_type)?;
        let slab = array.read_slab(&wanted.selection(array, axes)?, &ReadOptions::default()).await?;
        let mut steps = vec![0usize; slab.shape.len()];
        let mut step = 1usize;
        for (slot, extent) in steps.iter_mut().zip(&slab.shape).rev() {
            *slot = step;
            step = step.saturating_mul(num::usize_of(*extent)?);
        }
        let at = |axis: Option<usize>| axis.and_then(|i| steps.get(i)).copied().unwrap_or(0);
        let extent = |axis: Option<usize>| -> Result<usize> {
            num::usize_of(axis.and_then(|i| slab.shape.get(i)).copied().unwrap_or(1))
        };
        Ok(Self {
            kind,
            steps: [at(axes.c), at(axes.z), at(Some(axes.y)), at(Some(axes.x))],
            depth: extent(axes.z)?,
            rows: extent(Some(axes.y))?,
            width: extent(Some(axes.x))?,
            bytes: slab.bytes,
        })
    }

    /// One row; `scratch` is for rows that are not contiguous.
    pub(super) fn row<'a>(&'a self, c: usize, z: usize, y: usize, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let [by_c, by_z, by_y, by_x] = self.steps;
        let size = self.kind.size();
        let start = (c * by_c + z * by_z + y * by_y) * size;
        if by_x == 1 {
            return self.bytes.get(start..start + self.width * size).unwrap_or_default();
        }
        scratch.clear();
        for x in 0..self.width {
            let at = start + x * by_x * size;
            scratch.extend_from_slice(self.bytes.get(at..at + size).unwrap_or_default());
        }
        scratch
    }
}

/// The plane of a level that shows plane `n` of `all` of the largest.
pub(super) fn scaled(n: u64, all: u64, extent: u64) -> u64 {
    let at = u128::from(n) * u128::from(extent) / u128::from(all.max(1));
    u64::try_from(at).unwrap_or(u64::MAX).min(extent.saturating_sub(1))
}

/// The planes of a level that show the planes `range` of `all` of the largest: at least one.
pub(super) fn scaled_range(range: &Range<u64>, all: u64, extent: u64) -> Range<u64> {
    let start = scaled(range.start, all, extent);
    let last = scaled(range.end.saturating_sub(1), all, extent);
    start..last.max(start).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(names: &[&str]) -> Vec<Axis> {
        names.iter().map(|n| Axis::named(n)).collect()
    }

    #[test]
    fn axes_are_found_in_any_order() {
        let a = Axes::of(&axes(&["t", "c", "z", "y", "x"]), 5).unwrap();
        assert_eq!(a, Axes { t: Some(0), c: Some(1), z: Some(2), y: 3, x: 4 });
        let a = Axes::of(&axes(&["y", "x", "c"]), 3).unwrap();
        assert_eq!(a, Axes { t: None, c: Some(2), z: None, y: 0, x: 1 });
        // Before axes had names.
        let a = Axes::of(&axes(&["t", "c", "z", "y", "x"]), 3).unwrap();
        assert_eq!(a, Axes { t: None, c: None, z: Some(0), y: 1, x: 2 });
        let own = |name: &str| Axis { name: name.to_owned(), kind: AxisKind::Space, unit: None };
        let a = Axes::of(&[own("depth"), own("lat"), own("lon")], 3).unwrap();
        assert_eq!(a, Axes { t: None, c: None, z: Some(0), y: 1, x: 2 });
        assert!(Axes::of(&axes(&["x"]), 1).is_err());
    }

    #[test]
    fn planes_are_scaled_down() {
        assert_eq!([0, 1, 2, 9].map(|z| scaled(z, 10, 5)), [0, 0, 1, 4]);
        assert_eq!(scaled_range(&(3..10), 10, 5), 1..5);
        assert_eq!(scaled_range(&(3..4), 10, 1), 0..1);
    }

    #[test]
    fn runs_are_seen() {
        assert_eq!(PixelPick::of(vec![3, 4, 5]), PixelPick::Run(3, 3));
        assert_eq!(PixelPick::of(vec![3, 5]), PixelPick::List(vec![3, 5]));
    }
}
