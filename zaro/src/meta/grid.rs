//! Chunk grids: regular and rectilinear.

use std::sync::Arc;

use super::json::Json;
use crate::error::{Error, Result, invalid};

/// The chunk grid of an array: for each dimension, where its chunks begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    axes: Vec<ChunkAxis>,
}

/// The chunks along one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkAxis {
    /// Every chunk has this length; the last one may reach beyond the array.
    Regular(u64),
    /// Chunks of different lengths, as runs of equal ones: never expanded, since a few bytes can say `[1, 2^60]`.
    Varying(Arc<[ChunkRun]>),
}

/// Neighbouring chunks of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRun {
    /// The length of each.
    pub length: u64,
    /// How many there are.
    pub count: u64,
    /// The number of the first one.
    pub first: u64,
    /// The position it begins at.
    pub start: u64,
}

impl ChunkRun {
    /// The position after the last one. That it fits was checked when the run was made.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.length.saturating_mul(self.count))
    }
}

impl ChunkAxis {
    /// The chunk that holds position `at`: `(number, first position, length)`.
    #[must_use]
    pub fn chunk_at(&self, at: u64) -> Option<(u64, u64, u64)> {
        match self {
            Self::Regular(n) => {
                let number = at.checked_div(*n)?;
                Some((number, number * n, *n))
            }
            Self::Varying(runs) => {
                let run = runs.get(runs.partition_point(|r| r.end() <= at))?;
                let within = at.checked_sub(run.start)?.checked_div(run.length)?;
                Some((run.first + within, run.start + within * run.length, run.length))
            }
        }
    }

    /// The length of chunk `number`.
    #[must_use]
    pub fn length(&self, number: u64) -> Option<u64> {
        match self {
            Self::Regular(n) => Some(*n),
            Self::Varying(runs) => {
                runs.get(runs.partition_point(|r| r.first + r.count <= number)).map(|r| r.length)
            }
        }
    }

    /// The first position and the length of chunk `number`.
    #[must_use]
    pub fn place(&self, number: u64) -> Option<(u64, u64)> {
        match self {
            Self::Regular(n) => Some((number.saturating_mul(*n), *n)),
            Self::Varying(runs) => {
                let run = runs.get(runs.partition_point(|r| r.first + r.count <= number))?;
                Some((run.start + number.checked_sub(run.first)? * run.length, run.length))
            }
        }
    }

    /// How many chunks cover `extent` positions.
    #[must_use]
    pub fn count(&self, extent: u64) -> u64 {
        match self {
            Self::Regular(n) => extent.div_ceil((*n).max(1)),
            Self::Varying(runs) => {
                let reached = runs.partition_point(|r| r.start < extent);
                reached
                    .checked_sub(1)
                    .and_then(|i| runs.get(i))
                    .map_or(0, |r| r.first + (extent - r.start).div_ceil(r.length.max(1)).min(r.count))
            }
        }
    }
}

impl Grid {
    /// Chunks of one shape. Zero-length chunks are refused.
    pub fn regular(chunk_shape: &[u64]) -> Result<Self> {
        if chunk_shape.contains(&0) {
            return Err(invalid!("the chunk shape {chunk_shape:?} has a zero"));
        }
        Ok(Self { axes: chunk_shape.iter().map(|n| ChunkAxis::Regular(*n)).collect() })
    }

    /// A rectilinear grid from its configuration: `{"kind": "inline", "chunk_shapes": […]}`.
    pub fn rectilinear(config: &Json, shape: &[u64]) -> Result<Self> {
        if config.get("kind").and_then(Json::as_str) != Some("inline") {
            return Err(Error::invalid("a rectilinear grid must be of kind \"inline\""));
        }
        let shapes = config
            .get("chunk_shapes")
            .and_then(Json::items)
            .ok_or_else(|| Error::invalid("\"chunk_shapes\" must be a list"))?;
        if shapes.len() != shape.len() {
            return Err(invalid!(
                "\"chunk_shapes\" has {} dimensions, but the array has {}",
                shapes.len(),
                shape.len()
            ));
        }
        let axes = shapes.iter().zip(shape).map(|(s, n)| varying(s, *n)).collect::<Result<_>>()?;
        Ok(Self { axes })
    }

    /// The axes, one per dimension.
    #[must_use]
    pub fn axes(&self) -> &[ChunkAxis] {
        &self.axes
    }

    /// The chunk shape, if all chunks have one.
    #[must_use]
    pub fn regular_shape(&self) -> Option<Vec<u64>> {
        self.axes.iter().map(|a| if let ChunkAxis::Regular(n) = a { Some(*n) } else { None }).collect()
    }

    /// The shape of the chunk at `index`.
    #[must_use]
    pub fn chunk_shape(&self, index: &[u64]) -> Option<Vec<u64>> {
        self.axes.iter().zip(index).map(|(a, i)| a.length(*i)).collect()
    }

    /// The greatest length of a chunk along each dimension.
    #[must_use]
    pub fn largest(&self) -> Vec<u64> {
        self.axes
            .iter()
            .map(|a| match a {
                ChunkAxis::Regular(n) => *n,
                ChunkAxis::Varying(runs) => runs.iter().map(|r| r.length).max().unwrap_or(1),
            })
            .collect()
    }

    /// How many chunks lie along each dimension of an array of `shape`.
    #[must_use]
    pub fn counts(&self, shape: &[u64]) -> Vec<u64> {
        self.axes.iter().zip(shape).map(|(a, n)| a.count(*n)).collect()
    }
}

/// One axis of a rectilinear grid: a number, or a list of lengths and `[length, count]` runs.
fn varying(spec: &Json, extent: u64) -> Result<ChunkAxis> {
    let positive = |v: &Json| {
        v.as_u64()
            .filter(|n| *n > 0)
            .ok_or_else(|| invalid!("a chunk length must be a positive integer, not {v}"))
    };
    let Some(items) = spec.items() else { return positive(spec).map(ChunkAxis::Regular) };
    let mut runs = Vec::with_capacity(items.len());
    let (mut first, mut end) = (0u64, 0u64);
    for item in items {
        let (length, count) = match item.items() {
            Some([length, count]) => (positive(length)?, positive(count)?),
            Some(_) => return Err(invalid!("a run must be [length, count], not {item}")),
            None => (positive(item)?, 1),
        };
        runs.push(ChunkRun { length, count, first, start: end });
        let after = length.checked_mul(count).and_then(|n| end.checked_add(n));
        end = after.ok_or_else(|| Error::invalid("the sum of chunk lengths overflows"))?;
        // No more chunks than positions.
        first += count;
    }
    if end < extent {
        return Err(invalid!("the chunks cover {end} positions of a dimension of {extent}"));
    }
    Ok(ChunkAxis::Varying(runs.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_expanded_and_looked_up() {
        let config = Json::parse(br#"{"kind":"inline","chunk_shapes":[[2,[3,2]],4]}"#).unwrap().value;
        let grid = Grid::rectilinear(&config, &[7, 9]).unwrap();
        assert_eq!(grid.counts(&[7, 9]), [3, 3]);
        assert_eq!(grid.axes()[0].chunk_at(1), Some((0, 0, 2)));
        assert_eq!(grid.axes()[0].chunk_at(5), Some((2, 5, 3)));
        assert_eq!(grid.chunk_shape(&[1, 2]), Some(vec![3, 4]));
        assert!(Grid::rectilinear(&config, &[9, 9]).is_err());
        let axis = &grid.axes()[0];
        assert_eq!([0, 1, 2, 3, 5, 6, 8].map(|n| axis.count(n)), [0, 1, 1, 2, 2, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|n| axis.length(n)), [Some(2), Some(3), Some(3), None]);
        assert_eq!([4, 7, 8].map(|at| axis.chunk_at(at)), [Some((1, 2, 3)), Some((2, 5, 3)), None]);
    }

    #[test]
    fn absurd_runs_take_no_memory() {
        let text = br#"{"kind":"inline","chunk_shapes":[[[1,9223372036854775807],[3,3074457345618258602]]]}"#;
        let config = Json::parse(text).unwrap().value;
        let grid = Grid::rectilinear(&config, &[u64::MAX - 9]).unwrap();
        assert_eq!(grid.axes()[0].chunk_at(1 << 62), Some((1 << 62, 1 << 62, 1)));
        assert_eq!(grid.axes()[0].chunk_at((1 << 63) + 2), Some((1 << 63, (1 << 63) + 2, 3)));
        let text = br#"{"kind":"inline","chunk_shapes":[[[4294967296,4294967296]]]}"#;
        assert!(Grid::rectilinear(&Json::parse(text).unwrap().value, &[7]).is_err());
    }
}
