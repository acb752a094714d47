//! The boxes in which an input is read and written: whole chunks of the array where they fit into memory.

use zaro::array::Order;
use zaro::meta::ArrayMeta;
use zaro::num;

use crate::view::View;

/// A box of the input: for each dimension the first position, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile(pub(crate) Vec<(u64, u64)>);

impl Tile {
    /// Its shape.
    pub(crate) fn count(&self) -> Vec<u64> {
        self.0.iter().map(|(_, n)| *n).collect()
    }
}

/// How an input is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cutting {
    /// What one element takes in memory.
    pub(crate) item_size: usize,
    /// What a box may take.
    pub(crate) budget: usize,
    /// The order of the input's elements.
    pub(crate) order: Order,
    /// Whether boxes must follow one another without a gap, as a pipe gives them.
    pub(crate) sequential: bool,
}

/// The boxes of an input that goes to `view` of an array, in the input's order.
#[derive(Debug)]
pub(crate) struct Tiles {
    cuts: Vec<Vec<(u64, u64)>>,
    order: Order,
    at: Vec<usize>,
    over: bool,
}

impl Tiles {
    pub(crate) fn new(view: &View, meta: &ArrayMeta, cutting: Cutting) -> Self {
        let shape = view.shape();
        let chunks = view.kept_of(&meta.grid.largest());
        let cuts = view.cuts(&extents(&shape, &chunks, cutting), meta.grid.axes());
        let over = cuts.iter().any(Vec::is_empty);
        Self { at: vec![0; cuts.len()], cuts, order: cutting.order, over }
    }
}

/// The shape of a box.
fn extents(shape: &[u64], chunks: &[u64], cutting: Cutting) -> Vec<u64> {
    let budget = num::u64_of(cutting.budget.max(1));
    let item = num::u64_of(cutting.item_size.max(1));
    let fastest_first: Vec<usize> = match cutting.order {
        Order::C => (0..shape.len()).rev().collect(),
        Order::F => (0..shape.len()).collect(),
    };
    let mut extents: Vec<u64> = shape.iter().zip(chunks).map(|(n, c)| (*c).min(*n).max(1)).collect();
    let bytes = |extents: &[u64]| extents.iter().fold(item, |a, n| a.saturating_mul(*n));
    if cutting.sequential || bytes(&extents) > budget {
        // Where not even one chunk fits, chunks are written in parts.
        extents.fill(1);
    }
    for d in fastest_first {
        let room = (budget / bytes(&extents).max(1)).max(1);
        let (Some(extent), Some(n)) = (extents.get_mut(d), shape.get(d)) else { continue };
        *extent = extent.saturating_mul(room).min((*n).max(1));
        if *extent < *n {
            break;
        }
    }
    extents
}

impl Iterator for Tiles {
    type Item = Tile;

    fn next(&mut self) -> Option<Tile> {
        if self.over {
            return None;
        }
        let here = self.cuts.iter().zip(&self.at).map(|(c, i)| c.get(*i).copied());
        let tile = here.collect::<Option<Vec<_>>>().map(Tile);
        self.over = true;
        let mut dims: Vec<(&mut usize, usize)> =
            self.at.iter_mut().zip(self.cuts.iter().map(Vec::len)).collect();
        if self.order == Order::C {
            dims.reverse();
        }
        for (i, n) in dims {
            *i += 1;
            if *i < n {
                self.over = false;
                break;
            }
            *i = 0;
        }
        tile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutting(budget: usize, order: Order, sequential: bool) -> Cutting {
        Cutting { item_size: 1, budget, order, sequential }
    }

    #[test]
    fn boxes_are_whole_chunks_if_they_fit() {
        let e =
            |budget, order, sequential| extents(&[100, 60], &[10, 20], cutting(budget, order, sequential));
        assert_eq!(e(10_000, Order::C, false), [100, 60]);
        assert_eq!(e(1300, Order::C, false), [20, 60]);
        assert_eq!(e(500, Order::C, false), [10, 40]);
        assert_eq!(e(500, Order::F, false), [20, 20]);
        assert_eq!(e(199, Order::C, false), [3, 60]);
        assert_eq!(e(500, Order::C, true), [8, 60]);
        assert_eq!(e(7, Order::F, true), [7, 1]);
        assert_eq!(extents(&[], &[], cutting(1, Order::C, true)), Vec::<u64>::new());
    }
}
