//! Splits a selection that is larger than memory into windows.
//!
//! A [`ArrayView`] splits a large selection into smaller ones whose results, one after another, are the same elements; and
//! likewise for writes.

use super::{Index, Order, Selection};
use crate::error::{Error, Result};
use crate::meta::ArrayMeta;
use crate::meta::grid::ChunkAxis;
use crate::num;

/// The selection along one dimension of the array.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pick {
    /// One position; the dimension is not in the result.
    At(i64),
    /// `count` positions from `start` on.
    Range { start: u64, step: i64, count: u64 },
    /// These positions.
    List(Vec<i64>),
}

impl Pick {
    fn count(&self) -> u64 {
        match self {
            Self::At(_) => 1,
            Self::Range { count, .. } => *count,
            Self::List(items) => num::u64_of(items.len()),
        }
    }

    /// Positions `from .. from + count` of the selected ones.
    fn narrow(&self, from: u64, count: u64) -> Self {
        match self {
            Self::At(i) => Self::At(*i),
            Self::Range { start, step, .. } => {
                let moved = step.unsigned_abs().saturating_mul(from);
                let start = if *step > 0 { start.saturating_add(moved) } else { start.saturating_sub(moved) };
                Self::Range { start, step: *step, count }
            }
            Self::List(items) => {
                let skip = usize::try_from(from).unwrap_or(usize::MAX);
                Self::List(
                    items
                        .iter()
                        .skip(skip)
                        .take(usize::try_from(count).unwrap_or(usize::MAX))
                        .copied()
                        .collect(),
                )
            }
        }
    }

    /// The first and the last `edge` positions.
    fn edges(&self, edge: u64) -> Result<Self> {
        let n = self.count();
        let mut items = Vec::new();
        for i in (0..edge).chain(n.saturating_sub(edge)..n) {
            match self.narrow(i, 1) {
                Self::At(at) => items.push(at),
                Self::Range { start, .. } => items.push(i64::try_from(start).map_err(|_| too_large())?),
                Self::List(one) => items.extend(one),
            }
        }
        Ok(Self::List(items))
    }

    fn index(&self) -> Result<Index> {
        Ok(match self {
            Self::At(i) => Index::At(*i),
            Self::List(items) => Index::List(items.clone()),
            Self::Range { count: 0, .. } => Index::Span(0, 0),
            Self::Range { start, step: 1, count } => Index::Span(*start, *count),
            Self::Range { start, step, count } => {
                let first = i64::try_from(*start).map_err(|_| too_large())?;
                let moved = i64::try_from(*count).ok().and_then(|n| n.checked_mul(*step));
                let stop = moved.and_then(|m| first.checked_add(m)).filter(|stop| *stop >= 0);
                Index::Slice(Some(first), stop, *step)
            }
        })
    }
}

fn too_large() -> Error {
    Error::unsupported("a position beyond 2^63 cannot be selected")
}

/// A selection of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayView {
    picks: Vec<Pick>,
}

impl ArrayView {
    /// The selection `indexes` of an array with this metadata; missing dimensions at the end are selected whole.
    pub fn new(indexes: &[Index], meta: &ArrayMeta) -> Result<Self> {
        let resolved = Selection::new(indexes.to_vec()).resolve(meta)?;
        let mut counts = resolved.shape.iter();
        let mut picks = Vec::with_capacity(meta.shape.len());
        for (d, extent) in meta.shape.iter().enumerate() {
            let index = indexes.get(d).unwrap_or(&Index::All);
            // Counted from the start, as returned by `place`.
            let from_start = |i: &i64| if *i < 0 { i.saturating_add_unsigned(*extent) } else { *i };
            if let Index::At(i) = index {
                picks.push(Pick::At(from_start(i)));
                continue;
            }
            let count = *counts.next().unwrap_or(&0);
            picks.push(match index {
                Index::Span(start, _) => Pick::Range { start: *start, step: 1, count },
                Index::Slice(start, _, step) => {
                    Pick::Range { start: first_of(*start, *step, *extent), step: *step, count }
                }
                Index::List(items) => Pick::List(items.iter().map(from_start).collect()),
                _ => Pick::Range { start: 0, step: 1, count },
            });
        }
        Ok(Self { picks })
    }

    /// This view without the array's last dimension, which holds the characters of texts, and the number of characters
    /// per text; `None` if that dimension is not in the result.
    #[must_use]
    pub fn folded(&self) -> Option<(Self, usize)> {
        let (last, rest) = self.picks.split_last()?;
        let letters =
            usize::try_from(last.count()).ok().filter(|n| *n > 0 && !matches!(last, Pick::At(_)))?;
        let picks = rest.iter().cloned().chain([Pick::At(0)]).collect();
        Some((Self { picks }, letters))
    }

    /// A part of a [folded](Self::folded) view, with the last dimension of `whole` restored.
    #[must_use]
    pub fn unfolded(&self, whole: &Self) -> Self {
        let mut picks = self.picks.clone();
        if let (Some(slot), Some(last)) = (picks.last_mut(), whole.picks.last()) {
            slot.clone_from(last);
        }
        Self { picks }
    }

    /// The dimensions of the array that are in the result.
    fn kept(&self) -> impl DoubleEndedIterator<Item = (usize, &Pick)> {
        self.picks.iter().enumerate().filter(|(_, p)| !matches!(p, Pick::At(_)))
    }

    /// The dimensions of the array that are in the result.
    #[must_use]
    pub fn dimensions(&self) -> Vec<usize> {
        self.kept().map(|(d, _)| d).collect()
    }

    /// The position in the array, along its dimension `d`, of position `i` of the result.
    #[must_use]
    pub fn place(&self, d: usize, i: u64) -> u64 {
        match self.picks.get(d).map(|p| p.narrow(i, 1)) {
            Some(Pick::Range { start, .. }) => start,
            Some(Pick::List(one)) => one.first().and_then(|at| u64::try_from(*at).ok()).unwrap_or(i),
            Some(Pick::At(at)) => u64::try_from(at).unwrap_or(i),
            None => i,
        }
    }

    /// The shape of the result.
    #[must_use]
    pub fn shape(&self) -> Vec<u64> {
        self.kept().map(|(_, p)| p.count()).collect()
    }

    /// The names of the result's dimensions.
    #[must_use]
    pub fn names(&self, meta: &ArrayMeta) -> Vec<Option<String>> {
        let names = meta.dimension_names.as_deref().unwrap_or_default();
        self.kept().map(|(d, _)| names.get(d).cloned().flatten()).collect()
    }

    /// The number of elements in the result.
    pub fn count(&self) -> Result<u64> {
        num::product(&self.shape())
    }

    /// As a [`Selection`].
    pub fn selection(&self) -> Result<Selection> {
        Ok(Selection::new(self.picks.iter().map(Pick::index).collect::<Result<_>>()?))
    }

    /// Only the first and the last `edge` positions of each dimension longer than twice that.
    pub fn edges(&self, edge: u64) -> Result<Self> {
        let picks = self
            .picks
            .iter()
            .map(|p| if p.count() > edge.saturating_mul(2) { p.edges(edge) } else { Ok(p.clone()) })
            .collect::<Result<_>>()?;
        Ok(Self { picks })
    }

    /// The part of this view covered by a window.
    #[must_use]
    pub fn narrowed(&self, window: &ArrayWindow) -> Self {
        let mut places = window.0.iter();
        let narrow = |p: &Pick| match p {
            Pick::At(i) => Pick::At(*i),
            kept => places.next().map_or_else(|| kept.clone(), |(from, count)| kept.narrow(*from, *count)),
        };
        Self { picks: self.picks.iter().map(narrow).collect() }
    }

    /// Splits this view into windows of at most `cutting.budget` bytes, in the order of its elements.
    ///
    /// Windows end at chunk borders where possible, so that no chunk is decoded or written twice; a view that fits is
    /// one window, and an empty one has none.
    #[must_use]
    pub fn windows(&self, meta: &ArrayMeta, cutting: Cutting) -> Windows {
        let chunks = meta.grid.largest();
        let chunks: Vec<u64> = self.kept().map(|(d, _)| chunks.get(d).copied().unwrap_or(1)).collect();
        let extents = extents(&self.shape(), &chunks, cutting);
        let axis = |d| meta.grid.axes().get(d).cloned();
        let dims = self.kept().zip(extents).map(|((d, pick), extent)| Dim {
            pick: pick.clone(),
            axis: axis(d),
            extent,
            here: (0, 0),
        });
        let mut windows = Windows { dims: dims.collect(), order: cutting.order, over: false };
        windows.over = !windows.dims.iter_mut().all(|dim| dim.advance(0));
        windows
    }
}

/// The first position of a slice, as Python counts.
fn first_of(start: Option<i64>, step: i64, extent: u64) -> u64 {
    let n = i64::try_from(extent).unwrap_or(i64::MAX);
    let high = if step > 0 { n } else { n - 1 };
    let first =
        start.map_or(if step > 0 { 0 } else { high }, |i| if i < 0 { i.saturating_add(n) } else { i });
    u64::try_from(first.clamp(0, high.max(0))).unwrap_or(0)
}

/// Where a piece that starts at `from` ends: after `rows`, or at a chunk border shortly before.
fn end_of(pick: &Pick, axis: Option<&ChunkAxis>, from: u64, rows: u64, count: u64) -> u64 {
    let end = from.saturating_add(rows).min(count);
    let Pick::Range { start, step: 1, .. } = pick else { return end };
    if end == count {
        return end;
    }
    match axis.and_then(|a| a.chunk_at(start.saturating_add(end))) {
        Some((_, first, _)) if first > start.saturating_add(from) => first - start,
        _ => end,
    }
}

/// A part of a view: first position and count for each dimension of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayWindow(pub Vec<(u64, u64)>);

impl ArrayWindow {
    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Vec<u64> {
        self.0.iter().map(|(_, n)| *n).collect()
    }
}

/// How to split a view.
#[derive(Debug, Clone, Copy)]
pub struct Cutting {
    /// Memory per element.
    pub item_size: usize,
    /// Memory per window.
    pub budget: usize,
    /// The order of the elements.
    pub order: Order,
    /// Whether windows must be contiguous, as for a pipe; otherwise they are boxes of whole chunks.
    pub sequential: bool,
}

/// The shape of a window.
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
        // If not even one chunk fits, chunks are split.
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

/// One dimension that is split.
#[derive(Debug)]
struct Dim {
    pick: Pick,
    axis: Option<ChunkAxis>,
    /// Maximum number of positions in a window.
    extent: u64,
    /// First position and length of the window.
    here: (u64, u64),
}

impl Dim {
    /// Moves to the piece that starts at `from`; returns whether there is one.
    fn advance(&mut self, from: u64) -> bool {
        let count = self.pick.count();
        let end = end_of(&self.pick, self.axis.as_ref(), from, self.extent, count);
        self.here = (from, end.saturating_sub(from));
        from < count
    }
}

/// The windows of a view; see [`ArrayView::windows`].
#[derive(Debug)]
pub struct Windows {
    dims: Vec<Dim>,
    order: Order,
    over: bool,
}

impl Iterator for Windows {
    type Item = ArrayWindow;

    fn next(&mut self) -> Option<ArrayWindow> {
        if self.over {
            return None;
        }
        let window = ArrayWindow(self.dims.iter().map(|dim| dim.here).collect());
        let next = |dim: &mut Dim| dim.advance(dim.here.0.saturating_add(dim.here.1)) || !dim.advance(0);
        // The fastest dimension that continues; those before it restart.
        self.over = !match self.order {
            Order::C => self.dims.iter_mut().rev().any(next),
            Order::F => self.dims.iter_mut().any(next),
        };
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::finding::{Findings, Mode};
    use crate::meta::json::Json;

    fn meta(shape: &[u64], chunks: &[u64]) -> ArrayMeta {
        let text = format!(
            r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{chunks:?},"dtype":"|u1","compressor":null,
                "fill_value":0,"order":"C","filters":null}}"#
        );
        let document = Json::parse(text.as_bytes()).unwrap().value;
        crate::meta::v2::array(document.into(), None, &mut Findings::new(Mode::Strict, "/")).unwrap()
    }

    fn cutting(budget: usize, order: Order, sequential: bool) -> Cutting {
        Cutting { item_size: 1, budget, order, sequential }
    }

    /// All positions of a view in the order of the answer.
    fn positions(view: &ArrayView, order: Order) -> Vec<Vec<u64>> {
        let mut all = vec![vec![]];
        let each = |pick: &Pick| -> Vec<u64> {
            (0..pick.count())
                .map(|i| match pick.narrow(i, 1) {
                    Pick::At(at) => u64::try_from(at).unwrap(),
                    Pick::Range { start, .. } => start,
                    Pick::List(one) => u64::try_from(one[0]).unwrap(),
                })
                .collect()
        };
        let picks: Vec<&Pick> = match order {
            Order::C => view.picks.iter().collect(),
            Order::F => view.picks.iter().rev().collect(),
        };
        for pick in picks {
            all = all
                .iter()
                .flat_map(|p| each(pick).into_iter().map(|i| [p.clone(), vec![i]].concat()))
                .collect();
        }
        all
    }

    #[test]
    fn windows_one_after_the_other_are_the_whole() {
        let meta = meta(&[5, 7, 6], &[2, 3, 6]);
        for text in [":,:,:", "::-1,2,:", "1:4,::2,[5,0,3]", "4,:,::-2", "1:1,:,:", ":,6:1:-1,-1"] {
            let indexes: Vec<Index> = match text {
                "1:4,::2,[5,0,3]" => vec![
                    Index::parse("1:4").unwrap(),
                    Index::parse("::2").unwrap(),
                    Index::parse("[5,0,3]").unwrap(),
                ],
                _ => text.split(',').map(|t| Index::parse(t).unwrap()).collect(),
            };
            let Ok(view) = ArrayView::new(&indexes, &meta) else { panic!("{text}") };
            if text.ends_with("-1") {
                continue;
            }
            for order in [Order::C, Order::F] {
                for budget in [1, 2, 5, 12, 40, 100, 1000] {
                    let windows: Vec<ArrayView> = view
                        .windows(&meta, cutting(budget, order, true))
                        .map(|w| view.narrowed(&w))
                        .collect();
                    assert!(windows.iter().all(|w| w.count().unwrap() <= budget.try_into().unwrap()));
                    let fits = view.count().unwrap() <= budget.try_into().unwrap();
                    assert!(!fits || windows.len() <= 1, "{text} {budget} {order:?}");
                    let pieces: Vec<_> = windows.iter().flat_map(|w| positions(w, order)).collect();
                    assert_eq!(pieces, positions(&view, order), "{text} {budget} {order:?}");
                    for w in &windows {
                        assert_eq!(w.selection().unwrap().resolve(&meta).unwrap().shape, w.shape());
                    }
                }
            }
        }
    }

    #[test]
    fn windows_end_at_chunk_borders() {
        let meta = meta(&[10, 10], &[4, 10]);
        let view = ArrayView::new(&[Index::parse("1:10").unwrap()], &meta).unwrap();
        let windows = view.windows(&meta, cutting(50, Order::C, true));
        let shapes: Vec<_> = windows.map(|w| w.shape()).collect();
        assert_eq!(shapes, [[3, 10], [4, 10], [2, 10]]);
    }

    #[test]
    fn a_scalar_is_one_window() {
        let meta = meta(&[], &[]);
        let view = ArrayView::new(&[], &meta).unwrap();
        assert_eq!(view.windows(&meta, cutting(50, Order::C, true)).count(), 1);
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
