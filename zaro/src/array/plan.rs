//! The chunk plan of a read or write: a selection cut at chunk borders, and where its elements are in the slab.

use super::select::{ChunkPart, Sel, Selection, split};
use super::slab::Order;
use crate::error::{Error, Result};
use crate::meta::ArrayMeta;
use crate::num;

/// A selection of an array, cut into chunks.
pub(super) struct ChunkPlan {
    /// For each dimension, the selection cut at chunk borders.
    parts: Vec<Vec<ChunkPart>>,
    /// The number of chunks along each dimension of the array.
    grid: Vec<u64>,
    /// Whether every chunk of the grid has a unique number.
    numbered: bool,
    /// Byte strides of the slab, for each dimension.
    pub(super) strides: Vec<usize>,
    /// The shape of the slab, without dimensions indexed by a single position.
    pub(super) shape: Vec<u64>,
    /// The size of the slab in bytes.
    pub(super) bytes: usize,
}

/// One chunk of a plan.
pub(super) struct ChunkJob<'a> {
    /// The chunk's index in the grid.
    pub(super) index: Vec<u64>,
    /// Its number, for caches; `None` in a grid of more than 2^64 chunks, whose numbers would repeat.
    pub(super) number: Option<u64>,
    /// The selection within the chunk, for each dimension.
    pub(super) sels: Vec<&'a Sel>,
}

impl ChunkPlan {
    pub(super) fn new(meta: &ArrayMeta, selection: &Selection, order: Order) -> Result<Self> {
        let wanted = selection.resolve(meta)?;
        let size = meta.data_type.size();
        let extents: Vec<u64> = wanted.dims.iter().map(Sel::count).collect();
        let bytes = num::product_usize(&extents)?
            .checked_mul(size)
            .filter(|n| isize::try_from(*n).is_ok())
            .ok_or_else(|| {
            Error::usage("the slab is larger than the address space; select a part of it")
        })?;
        let mut strides = vec![0; extents.len()];
        let mut stride = size;
        let forwards: Vec<usize> = (0..extents.len()).collect();
        let dims: Box<dyn Iterator<Item = &usize>> =
            if order == Order::C { Box::new(forwards.iter().rev()) } else { Box::new(forwards.iter()) };
        for d in dims {
            if let (Some(slot), Some(n)) = (strides.get_mut(*d), extents.get(*d)) {
                *slot = stride;
                stride = stride.saturating_mul(usize::try_from(*n).unwrap_or(usize::MAX));
            }
        }
        let parts = if bytes == 0 && size > 0 {
            Vec::new()
        } else {
            wanted.dims.iter().zip(meta.grid.axes()).map(|(s, a)| split(s, a)).collect::<Result<_>>()?
        };
        let grid = meta.grid.counts(&meta.shape);
        Ok(Self { parts, numbered: num::product(&grid).is_ok(), grid, strides, shape: wanted.shape, bytes })
    }

    /// The number of touched chunks.
    pub(super) fn jobs(&self) -> usize {
        if self.bytes == 0 {
            return 0;
        }
        self.parts.iter().map(Vec::len).product()
    }

    /// Touched chunk `i`.
    pub(super) fn job(&self, i: usize) -> ChunkJob<'_> {
        let rank = self.parts.len();
        let mut job = ChunkJob { index: vec![0; rank], number: None, sels: Vec::with_capacity(rank) };
        let mut left = i;
        for (d, parts) in self.parts.iter().enumerate().rev() {
            let n = parts.len().max(1);
            if let (Some(p), Some(slot)) = (parts.get(left % n), job.index.get_mut(d)) {
                *slot = p.chunk;
                job.sels.push(&p.sel);
            }
            left /= n;
        }
        job.sels.reverse();
        if self.numbered {
            let number = |number: u64, (i, n): (&u64, &u64)| number.wrapping_mul(*n).wrapping_add(*i);
            job.number = Some(job.index.iter().zip(&self.grid).fold(0, number));
        }
        job
    }
}

/// The part of a chunk inside the array, for each dimension.
pub(super) fn inside(meta: &ArrayMeta, job: &ChunkJob<'_>) -> Vec<u64> {
    let axes = meta.grid.axes().iter().zip(&job.index).zip(&meta.shape);
    axes.map(|((axis, i), extent)| {
        let (first, length) = axis.place(*i).unwrap_or((0, 0));
        length.min(extent.saturating_sub(first))
    })
    .collect()
}
