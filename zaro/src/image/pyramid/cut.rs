//! Divides the work of a pyramid: which levels are built in one pass, in which blocks and in which order.

use crate::array::Array;
use crate::copy::Blocks;
use crate::error::Result;
use crate::image::pyramid::LevelPlan;
use crate::num;

/// The maximum block, in bytes of its source, that has to be redone after a kill.
const LARGEST_BLOCK: u64 = 256 << 20;

/// The minimum bytes read at once, if chunks are smaller.
const SMALLEST_CELL: u64 = 1 << 20;

/// A level being built.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) array: Array,
    pub(super) plan: LevelPlan,
    /// The unit of encoding: a chunk, or an inner chunk.
    pub(super) unit: Vec<u64>,
    /// The unit of a put: a chunk or a shard.
    pub(super) whole: Vec<u64>,
    /// Whether these are shards, whose inner chunks are gathered.
    pub(super) gathers: bool,
}

impl Stage {
    pub(super) fn new(array: Array, plan: LevelPlan) -> Self {
        let whole = array.chain().decoded().shape.clone();
        // Below a transpose codec, the dimensions of inner chunks are permuted.
        let inner = array.chain().shard().filter(|_| array.chain().order().is_none());
        let unit = inner.map_or_else(|| whole.clone(), |shard| shard.inner().decoded().shape.clone());
        let gathers = inner.is_some();
        Self { array, plan, unit, whole, gathers }
    }

    /// The part of a box of `size` at `start` that is inside the level.
    pub(super) fn clipped(&self, start: &[u64], size: &[u64]) -> Vec<u64> {
        let sides = start.iter().zip(size).zip(&self.plan.shape);
        sides.map(|((s, t), n)| (*t).min(n.saturating_sub(*s))).collect()
    }

    /// The units that a box touches: the first index and the count along each dimension.
    pub(super) fn touched(&self, start: &[u64], count: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let along = |((s, n), t): ((&u64, &u64), &u64)| {
            let t = (*t).max(1);
            (s / t, s.saturating_add(*n).div_ceil(t).saturating_sub(s / t))
        };
        start.iter().zip(count).zip(&self.unit).map(along).unzip()
    }

    /// Whether the next level can be built from this one's units while they are in memory: no pixel of it needs two
    /// units.
    fn feeds(&self, next: &Self) -> bool {
        let alone = |((unit, n), step): ((&u64, &u64), &u64)| unit >= n || unit.checked_rem(*step) == Some(0);
        self.unit.iter().zip(&self.plan.shape).zip(&next.plan.step).all(alone)
    }
}

/// Levels built in one pass over the level above them.
#[derive(Debug)]
pub(super) struct Pass {
    /// The number of smaller levels above; `0` if it is built from the largest.
    pub(super) first: usize,
    /// How many levels it builds.
    pub(super) levels: usize,
    /// What is read and downsampled at once, in pixels of the first level built.
    pub(super) cell: Vec<u64>,
    /// A block of whole chunks and shards of all levels, in the same pixels.
    pub(super) block: Vec<u64>,
}

/// The input of the division into passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassPlan<'a> {
    pub(super) base: &'a Array,
    pub(super) stages: &'a [Stage],
    /// Whether the method needs neighbouring pixels, so that each level is a pass of its own.
    pub(super) neighbours: bool,
    /// The maximum bytes read at once.
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

    /// The bytes of the level above that a block needs.
    fn bytes_above(&self, pass: &Pass) -> u64 {
        let step = self.stages.get(pass.first).map(|s| s.plan.step.as_slice()).unwrap_or_default();
        self.bytes(&pass.block, step)
    }

    fn bytes(&self, made: &[u64], step: &[u64]) -> u64 {
        let size = num::u64_of(self.base.meta().data_type.size());
        made.iter().zip(step).fold(size, |n, (a, f)| n.saturating_mul(*a).saturating_mul(*f))
    }

    /// The cell: a chunk of the level above, if it gives whole pixels and fits the chunks being built; else the source
    /// of one of these.
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
        // Neighbours are read twice, so cells that need them should be large and compact.
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
    /// The starts of the cells of a block, in an order that completes chunks soon after they are begun.
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

/// The levels, each with its total factor from the first.
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
