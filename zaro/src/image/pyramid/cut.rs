//! How the work is cut: which levels are made in one go, and in which order their pixels come.

use crate::array::Array;
use crate::copy::Blocks;
use crate::error::Result;
use crate::image::pyramid::LevelPlan;
use crate::num;

/// The largest part of a level, in bytes of what it is made of, that is begun anew after a kill.
const LARGEST_BLOCK: u64 = 256 << 20;

/// What is read at once is not to be smaller, if chunks are.
const SMALLEST_CELL: u64 = 1 << 20;

/// A level that is being made.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) array: Array,
    pub(super) plan: LevelPlan,
    /// What is encoded at once: a chunk, or an inner one of a shard.
    pub(super) unit: Vec<u64>,
    /// What is put at once.
    pub(super) whole: Vec<u64>,
    /// Whether that are shards, whose inner chunks are gathered.
    pub(super) gathers: bool,
}

impl Stage {
    pub(super) fn new(array: Array, plan: LevelPlan) -> Self {
        let whole = array.chain().decoded().shape.clone();
        // Below a transpose, inner chunks have other lengths than the array's.
        let inner = array.chain().shard().filter(|_| array.chain().order().is_none());
        let unit = inner.map_or_else(|| whole.clone(), |shard| shard.inner().decoded().shape.clone());
        let gathers = inner.is_some();
        Self { array, plan, unit, whole, gathers }
    }

    /// How much of a box of `size` at `start` lies inside.
    pub(super) fn clipped(&self, start: &[u64], size: &[u64]) -> Vec<u64> {
        let sides = start.iter().zip(size).zip(&self.plan.shape);
        sides.map(|((s, t), n)| (*t).min(n.saturating_sub(*s))).collect()
    }

    /// The numbers, along each dimension, of the units that a box touches: the first, and how many.
    pub(super) fn touched(&self, start: &[u64], count: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let along = |((s, n), t): ((&u64, &u64), &u64)| {
            let t = (*t).max(1);
            (s / t, s.saturating_add(*n).div_ceil(t).saturating_sub(s / t))
        };
        start.iter().zip(count).zip(&self.unit).map(along).unzip()
    }

    /// Whether the next level can be made of this one's units while they are in memory: none of its pixels is made of two.
    fn feeds(&self, next: &Self) -> bool {
        let alone = |((unit, n), step): ((&u64, &u64), &u64)| unit >= n || unit.checked_rem(*step) == Some(0);
        self.unit.iter().zip(&self.plan.shape).zip(&next.plan.step).all(alone)
    }
}

/// Levels that are made in one go of the level above them.
#[derive(Debug)]
pub(super) struct Pass {
    /// How many levels there are above, without the largest; `0` if it is made of the largest.
    pub(super) first: usize,
    /// How many are made.
    pub(super) levels: usize,
    /// What is read and made smaller at once, in pixels of the first level made.
    pub(super) cell: Vec<u64>,
    /// What consists of whole chunks and shards of all levels, in the same pixels.
    pub(super) block: Vec<u64>,
}

/// What passes need to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassPlan<'a> {
    pub(super) base: &'a Array,
    pub(super) stages: &'a [Stage],
    /// Whether pixels need their neighbours, so that each level is a pass of its own.
    pub(super) neighbours: bool,
    /// How much may be read at once, in bytes.
    pub(super) cell_bytes: u64,
}

impl PassPlan<'_> {
    /// All passes, in order.
    pub(super) fn passes(&self) -> Vec<Pass> {
        let mut passes: Vec<Pass> = Vec::new();
        for (i, stage) in self.stages.iter().enumerate() {
            let joined = passes.last().and_then(|pass| {
                let above = i.checked_sub(1).and_then(|i| self.stages.get(i))?;
                if self.neighbours || !above.feeds(stage) {
                    return None;
                }
                let pass = self.pass(pass.first, pass.levels.saturating_add(1));
                (self.bytes_above(&pass) <= LARGEST_BLOCK).then_some(pass)
            });
            match (joined, passes.last_mut()) {
                (Some(joined), Some(last)) => *last = joined,
                _ => passes.push(self.pass(i, 1)),
            }
        }
        passes
    }

    /// The array that a pass reads.
    pub(super) fn above(&self, first: usize) -> &Array {
        first.checked_sub(1).and_then(|i| self.stages.get(i)).map_or(self.base, |s| &s.array)
    }

    fn pass(&self, first: usize, levels: usize) -> Pass {
        let stages = self.stages.get(first..first.saturating_add(levels)).unwrap_or_default();
        let Some(top) = stages.first() else {
            return Pass { first, levels, cell: Vec::new(), block: Vec::new() };
        };
        let cell = self.cell(self.above(first), top);
        let mut block = cell.clone();
        for (stage, reach) in reaches(stages) {
            for ((b, (w, r)), (n, all)) in block
                .iter_mut()
                .zip(stage.whole.iter().zip(&reach))
                .zip(stage.plan.shape.iter().zip(&top.plan.shape))
            {
                *b = if w >= n { *all } else { lcm(*b, w.saturating_mul(*r)).unwrap_or(*all).min(*all) };
            }
        }
        for (b, n) in block.iter_mut().zip(&top.plan.shape) {
            *b = (*b).clamp(1, (*n).max(1));
        }
        Pass { first, levels, cell, block }
    }

    /// Bytes of the level above that a block is made of.
    fn bytes_above(&self, pass: &Pass) -> u64 {
        let step = self.stages.get(pass.first).map(|s| s.plan.step.as_slice()).unwrap_or_default();
        self.bytes(&pass.block, step)
    }

    fn bytes(&self, made: &[u64], step: &[u64]) -> u64 {
        let size = num::u64_of(self.base.meta().data_type.size());
        made.iter().zip(step).fold(size, |n, (a, f)| n.saturating_mul(*a).saturating_mul(*f))
    }

    /// What is read and made smaller at once: a chunk of the level above, if it gives whole pixels and fits to the chunks
    /// that are made; else what becomes one of those.
    fn cell(&self, above: &Array, made: &Stage) -> Vec<u64> {
        let step = &made.plan.step;
        let read = Stage::new(above.clone(), made.plan.clone()).unit;
        let fits = |a: u64, b: u64| a.checked_rem(b) == Some(0) || b.checked_rem(a) == Some(0);
        let regular = above.meta().grid.regular_shape().is_some() && above.chain().order().is_none();
        let along = |((c, f), unit): ((&u64, &u64), &u64)| match c.checked_div(*f) {
            Some(cell)
                if cell > 0
                    && regular
                    && !self.neighbours
                    && c.checked_rem(*f) == Some(0)
                    && fits(cell, *unit) =>
            {
                cell
            }
            _ => *unit,
        };
        let mut cell: Vec<u64> = read.iter().zip(step).zip(&made.unit).map(along).collect();
        let enough = if self.neighbours { self.cell_bytes } else { SMALLEST_CELL.min(self.cell_bytes) };
        // Neighbours are read twice, so cells that need some are better long in all directions, and large.
        let mut grown = true;
        while grown {
            grown = false;
            for d in (0..cell.len()).rev() {
                let mut larger = cell.clone();
                let (Some(slot), Some(unit), Some(n)) =
                    (larger.get_mut(d), made.unit.get(d), made.plan.shape.get(d))
                else {
                    continue;
                };
                let whole = self.neighbours || unit.checked_rem(slot.saturating_mul(2)) == Some(0);
                if *slot >= *n || !whole || (self.neighbours && step.get(d) == Some(&1)) {
                    continue;
                }
                *slot = slot.saturating_mul(2);
                if self.bytes(&larger, step) <= enough {
                    cell = larger;
                    grown = true;
                }
            }
        }
        cell
    }
}

impl Pass {
    /// Where in a block its cells begin, in an order that finishes chunks soon after they are begun.
    pub(super) fn order(&self, stages: &[Stage]) -> Result<Vec<Vec<u64>>> {
        let cells = Blocks::new(&self.block, self.cell.clone());
        let mut starts: Vec<Vec<u64>> = (0..cells.count()?).map(|i| cells.place(i).0).collect();
        let stages = stages.get(self.first..self.first.saturating_add(self.levels)).unwrap_or_default();
        let mut sizes: Vec<Vec<u64>> = Vec::new();
        for lengths in [|s: &Stage| s.whole.clone(), |s: &Stage| s.unit.clone()] {
            let size = |(stage, reach): &(&Stage, Vec<u64>)| -> Vec<u64> {
                lengths(stage).iter().zip(reach).map(|(w, r)| w.saturating_mul(*r)).collect()
            };
            sizes.extend(reaches(stages).iter().rev().map(size));
        }
        let key = |start: &Vec<u64>| -> Vec<u64> {
            let index = |size: &Vec<u64>| {
                start.iter().zip(size).map(|(s, n)| s.checked_div(*n).unwrap_or(0)).collect::<Vec<u64>>()
            };
            sizes.iter().flat_map(index).chain(start.iter().copied()).collect()
        };
        starts.sort_by_cached_key(key);
        Ok(starts)
    }
}

/// Levels one below the other, each with how many pixels of the first become one of its own.
fn reaches(stages: &[Stage]) -> Vec<(&Stage, Vec<u64>)> {
    let mut all: Vec<(&Stage, Vec<u64>)> = Vec::with_capacity(stages.len());
    for stage in stages {
        let reach = match all.last() {
            Some((_, above)) => {
                above.iter().zip(&stage.plan.step).map(|(r, f)| r.saturating_mul(*f)).collect()
            }
            None => vec![1; stage.plan.step.len()],
        };
        all.push((stage, reach));
    }
    all
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x.checked_rem(y)?);
    }
    a.checked_div(x)?.checked_mul(b)
}
