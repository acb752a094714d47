//! How an array is cut into chunks.

use std::sync::Arc;

use super::json::Json;
use crate::error::{Error, Result};
use crate::num;

/// The chunk grid of an array: for each dimension, where its chunks begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    axes: Vec<Axis>,
}

/// The chunks along one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Axis {
    /// Every chunk has this length; the last one may reach beyond the array.
    Regular(u64),
    /// Chunks of these lengths: `(length, end of the chunk)` for each.
    Varying(Arc<[(u64, u64)]>),
}

impl Axis {
    /// The chunk that holds position `at`: `(number, first position, length)`.
    #[must_use]
    pub fn chunk_at(&self, at: u64) -> Option<(u64, u64, u64)> {
        match self {
            Self::Regular(n) => {
                let number = at.checked_div(*n)?;
                Some((number, number * n, *n))
            }
            Self::Varying(chunks) => {
                let number = chunks.partition_point(|(_, end)| *end <= at);
                let (length, end) = chunks.get(number)?;
                Some((num::u64_of(number), end - length, *length))
            }
        }
    }

    /// The length of chunk `number`.
    #[must_use]
    pub fn length(&self, number: u64) -> Option<u64> {
        match self {
            Self::Regular(n) => Some(*n),
            Self::Varying(chunks) => chunks.get(usize::try_from(number).ok()?).map(|(length, _)| *length),
        }
    }

    /// How many chunks cover `extent` positions.
    #[must_use]
    pub fn count(&self, extent: u64) -> u64 {
        match self {
            Self::Regular(n) => extent.div_ceil((*n).max(1)),
            Self::Varying(chunks) => {
                num::u64_of(chunks.partition_point(|(length, end)| end - length < extent))
            }
        }
    }
}

impl Grid {
    /// Chunks of one shape. Zero-length chunks are refused.
    pub fn regular(chunk_shape: &[u64]) -> Result<Self> {
        if chunk_shape.contains(&0) {
            return Err(Error::invalid(format!("the chunk shape {chunk_shape:?} has a zero")));
        }
        Ok(Self { axes: chunk_shape.iter().map(|n| Axis::Regular(*n)).collect() })
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
            return Err(Error::invalid(format!(
                "\"chunk_shapes\" has {} dimensions, the array {}",
                shapes.len(),
                shape.len()
            )));
        }
        let mut room = MAX_CHUNKS;
        let axes = shapes.iter().zip(shape).map(|(s, n)| varying(s, *n, &mut room)).collect::<Result<_>>()?;
        Ok(Self { axes })
    }

    /// The axes, one a dimension.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The chunk shape, if all chunks have one.
    #[must_use]
    pub fn regular_shape(&self) -> Option<Vec<u64>> {
        self.axes.iter().map(|a| if let Axis::Regular(n) = a { Some(*n) } else { None }).collect()
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
                Axis::Regular(n) => *n,
                Axis::Varying(chunks) => chunks.iter().map(|(n, _)| *n).max().unwrap_or(1),
            })
            .collect()
    }

    /// How many chunks lie along each dimension of an array of `shape`.
    #[must_use]
    pub fn counts(&self, shape: &[u64]) -> Vec<u64> {
        self.axes.iter().zip(shape).map(|(a, n)| a.count(*n)).collect()
    }
}

/// More chunks than this along all axes of a rectilinear grid cannot be meant, and would only cost memory: a few bytes
/// of metadata can ask for any number of them.
const MAX_CHUNKS: u64 = 1 << 22;

/// One axis of a rectilinear grid: a number, or a list of lengths and `[length, count]` runs.
///
/// `room` is how many more chunks there may be.
fn varying(spec: &Json, extent: u64, room: &mut u64) -> Result<Axis> {
    let positive = |v: &Json| {
        v.as_u64()
            .filter(|n| *n > 0)
            .ok_or_else(|| Error::invalid(format!("a chunk length must be a positive integer, not {v}")))
    };
    let Some(items) = spec.items() else { return positive(spec).map(Axis::Regular) };
    let mut chunks = Vec::new();
    let mut end = 0u64;
    for item in items {
        let (length, count) = match item.items() {
            Some([length, count]) => (positive(length)?, positive(count)?),
            Some(_) => return Err(Error::invalid(format!("a run must be [length, count], not {item}"))),
            None => (positive(item)?, 1),
        };
        *room = room
            .checked_sub(count)
            .ok_or_else(|| Error::invalid("a grid of too many chunks of their own"))?;
        for _ in 0..count {
            end =
                end.checked_add(length).ok_or_else(|| Error::invalid("chunk lengths add up beyond 2^64"))?;
            chunks.push((length, end));
        }
    }
    if end < extent {
        return Err(Error::invalid(format!("the chunks cover {end} positions of a dimension of {extent}")));
    }
    Ok(Axis::Varying(chunks.into()))
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
    }
}
