//! What a read or write asks for, in a form that can be cut into windows and thinned out.
//!
//! The library takes a selection and gives an answer; this cuts a selection too large for memory into smaller ones
//! whose answers, one after the other, are the same bytes.

use zaro::array::{Index, Order, Selection};
use zaro::meta::ArrayMeta;
use zaro::meta::grid::Axis;
use zaro::{Error, Result, num};

/// What is wanted along one dimension of the array.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pick {
    /// One position; the dimension is not in the answer.
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

    /// Positions `from .. from + count` of those picked.
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

/// What is wanted of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    picks: Vec<Pick>,
}

impl View {
    /// The selection `indexes` of an array with these metadata; dimensions left out at the end are taken whole.
    pub(crate) fn new(indexes: &[Index], meta: &ArrayMeta) -> Result<Self> {
        let resolved = Selection::new(indexes.to_vec()).resolve(meta)?;
        let mut counts = resolved.shape.iter();
        let mut picks = Vec::with_capacity(meta.shape.len());
        for (d, extent) in meta.shape.iter().enumerate() {
            let index = indexes.get(d).unwrap_or(&Index::All);
            if let Index::At(i) = index {
                picks.push(Pick::At(*i));
                continue;
            }
            let count = *counts.next().unwrap_or(&0);
            picks.push(match index {
                Index::Span(start, _) => Pick::Range { start: *start, step: 1, count },
                Index::Slice(start, _, step) => {
                    Pick::Range { start: first_of(*start, *step, *extent), step: *step, count }
                }
                Index::List(items) => {
                    // Counted from the start, as `place` gives them.
                    let extent = i64::try_from(*extent).unwrap_or(i64::MAX);
                    let from_start = |i: &i64| if *i < 0 { i.saturating_add(extent) } else { *i };
                    Pick::List(items.iter().map(from_start).collect())
                }
                _ => Pick::Range { start: 0, step: 1, count },
            });
        }
        Ok(Self { picks })
    }

    /// This view without the array's last dimension, along which the letters of texts lie, and how many letters a text
    /// has; `None` if that dimension is not in the answer.
    pub(crate) fn folded(&self) -> Option<(Self, usize)> {
        let (last, rest) = self.picks.split_last()?;
        let letters =
            usize::try_from(last.count()).ok().filter(|n| *n > 0 && !matches!(last, Pick::At(_)))?;
        let picks = rest.iter().cloned().chain([Pick::At(0)]).collect();
        Some((Self { picks }, letters))
    }

    /// A part of a view that was [folded](Self::folded), with the last dimension of `whole` again.
    pub(crate) fn unfolded(&self, whole: &Self) -> Self {
        let mut picks = self.picks.clone();
        if let (Some(slot), Some(last)) = (picks.last_mut(), whole.picks.last()) {
            slot.clone_from(last);
        }
        Self { picks }
    }

    /// The dimensions of the array that are in the answer.
    fn kept(&self) -> impl DoubleEndedIterator<Item = (usize, &Pick)> {
        self.picks.iter().enumerate().filter(|(_, p)| !matches!(p, Pick::At(_)))
    }

    /// The dimensions of the array that are those of the answer.
    pub(crate) fn dimensions(&self) -> Vec<usize> {
        self.kept().map(|(d, _)| d).collect()
    }

    /// Where in the array position `i` of the answer lies, along dimension `d` of the array.
    pub(crate) fn place(&self, d: usize, i: u64) -> u64 {
        match self.picks.get(d).map(|p| p.narrow(i, 1)) {
            Some(Pick::Range { start, .. }) => start,
            Some(Pick::List(one)) => one.first().and_then(|at| u64::try_from(*at).ok()).unwrap_or(i),
            _ => i,
        }
    }

    /// The shape of the answer.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.kept().map(|(_, p)| p.count()).collect()
    }

    /// The names of the answer's dimensions.
    pub(crate) fn names(&self, meta: &ArrayMeta) -> Vec<Option<String>> {
        let names = meta.dimension_names.as_deref().unwrap_or_default();
        self.kept().map(|(d, _)| names.get(d).cloned().flatten()).collect()
    }

    /// How many elements the answer has.
    pub(crate) fn count(&self) -> Result<u64> {
        num::product(&self.shape())
    }

    /// As the library takes it.
    pub(crate) fn selection(&self) -> Result<Selection> {
        Ok(Selection::new(self.picks.iter().map(Pick::index).collect::<Result<_>>()?))
    }

    /// Only the first and the last `edge` positions of each dimension longer than twice that.
    pub(crate) fn edges(&self, edge: u64) -> Result<Self> {
        let picks = self
            .picks
            .iter()
            .map(|p| if p.count() > edge.saturating_mul(2) { p.edges(edge) } else { Ok(p.clone()) })
            .collect::<Result<_>>()?;
        Ok(Self { picks })
    }

    /// Where to cut each dimension of the answer into pieces of at most `extents` positions: `(from, count)`. Cuts are at
    /// chunk borders where they can.
    pub(crate) fn cuts(&self, extents: &[u64], axes: &[Axis]) -> Vec<Vec<(u64, u64)>> {
        let cut = |((d, pick), extent): ((usize, &Pick), &u64)| {
            let (mut pieces, mut from, count) = (Vec::new(), 0, pick.count());
            while from < count {
                let end = end_of(pick, axes.get(d), from, (*extent).max(1), count);
                pieces.push((from, end - from));
                from = end;
            }
            pieces
        };
        self.kept().zip(extents).map(cut).collect()
    }

    /// The part of this view that is `(from, count)` in each dimension of the answer.
    pub(crate) fn narrowed(&self, places: &[(u64, u64)]) -> Self {
        let mut places = places.iter();
        let narrow = |p: &Pick| match p {
            Pick::At(i) => Pick::At(*i),
            kept => places.next().map_or_else(|| kept.clone(), |(from, count)| kept.narrow(*from, *count)),
        };
        Self { picks: self.picks.iter().map(narrow).collect() }
    }

    /// The numbers among `of_array`, one a dimension of the array, that belong to dimensions of the answer.
    pub(crate) fn kept_of(&self, of_array: &[u64]) -> Vec<u64> {
        self.kept().map(|(d, _)| of_array.get(d).copied().unwrap_or(1)).collect()
    }

    /// This view cut into windows whose answers have at most `budget` bytes, in the order in which they are written.
    ///
    /// Windows end at chunk borders where they can, so that no chunk is decoded twice; an answer that fits is one
    /// window, an empty one none.
    pub(crate) fn windows(
        &self,
        item_size: usize,
        budget: usize,
        order: Order,
        axes: &[Axis],
    ) -> Result<Windows> {
        let mut dims: Vec<usize> = self.kept().map(|(d, _)| d).collect();
        if order == Order::F {
            dims.reverse();
        }
        let budget = num::u64_of(budget.max(1));
        // From the fastest dimension on: as long as whole rows of it fit, go one slower.
        let mut inner = num::u64_of(item_size.max(1));
        let mut cut = dims.len();
        let mut rows = u64::MAX;
        while let Some(d) = cut.checked_sub(1).and_then(|i| dims.get(i)) {
            cut -= 1;
            let whole = inner.saturating_mul(self.picks.get(*d).map_or(1, Pick::count));
            if whole > budget {
                rows = (budget / inner.max(1)).max(1);
                break;
            }
            inner = whole;
        }
        Ok(Windows {
            view: self.clone(),
            rows,
            outer: dims.iter().take(cut).copied().collect(),
            cut: dims.get(cut).copied(),
            axes: axes.to_vec(),
            at: vec![0; cut],
            from: 0,
            over: self.count()? == 0,
        })
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

/// Where a piece that begins at `from` ends: after `rows`, or at a chunk border shortly before.
fn end_of(pick: &Pick, axis: Option<&Axis>, from: u64, rows: u64, count: u64) -> u64 {
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

/// The windows of a view; see [`View::windows`].
#[derive(Debug)]
pub(crate) struct Windows {
    view: View,
    /// How many positions of the dimension that is cut fit into a window.
    rows: u64,
    /// Slower dimensions, taken one position at a time, slowest first.
    outer: Vec<usize>,
    /// The dimension that is cut into pieces; none for a scalar.
    cut: Option<usize>,
    axes: Vec<Axis>,
    /// Where in the outer dimensions.
    at: Vec<u64>,
    /// Where in the dimension that is cut.
    from: u64,
    over: bool,
}

impl Windows {
    /// Where a piece that begins at `from` ends: after as many rows as fit, or at a chunk border shortly before.
    fn end(&self, d: usize, from: u64, count: u64) -> u64 {
        self.view.picks.get(d).map_or(count, |p| end_of(p, self.axes.get(d), from, self.rows, count))
    }

    /// Moves to the next piece; says whether there is one.
    fn advance(&mut self, end: u64, count: u64) -> bool {
        if end < count {
            self.from = end;
            return true;
        }
        self.from = 0;
        for (d, at) in self.outer.iter().zip(&mut self.at).rev() {
            *at += 1;
            if *at < self.view.picks.get(*d).map_or(0, Pick::count) {
                return true;
            }
            *at = 0;
        }
        false
    }
}

impl Iterator for Windows {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        if self.over {
            return None;
        }
        let mut window = self.view.clone();
        for (d, at) in self.outer.iter().zip(&self.at) {
            if let Some(pick) = window.picks.get_mut(*d) {
                *pick = pick.narrow(*at, 1);
            }
        }
        let (mut end, mut count) = (1, 1);
        if let Some(d) = self.cut
            && let Some(pick) = window.picks.get_mut(d)
        {
            count = pick.count();
            end = self.end(d, self.from, count);
            *pick = pick.narrow(self.from, end - self.from);
        }
        self.over = !self.advance(end, count);
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::meta::finding::{Findings, Mode};
    use zaro::meta::json::Json;

    fn meta(shape: &[u64], chunks: &[u64]) -> ArrayMeta {
        let text = format!(
            r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{chunks:?},"dtype":"|u1","compressor":null,
                "fill_value":0,"order":"C","filters":null}}"#
        );
        let document = Json::parse(text.as_bytes()).unwrap().value;
        zaro::meta::v2::array(document.into(), None, &mut Findings::new(Mode::Strict, "/")).unwrap()
    }

    /// All positions of a view in the order of the answer.
    fn positions(view: &View, order: Order) -> Vec<Vec<u64>> {
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
            let Ok(view) = View::new(&indexes, &meta) else { panic!("{text}") };
            if text.ends_with("-1") {
                continue;
            }
            for order in [Order::C, Order::F] {
                for budget in [1, 2, 5, 12, 40, 100, 1000] {
                    let windows: Vec<View> =
                        view.windows(1, budget, order, meta.grid.axes()).unwrap().collect();
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
        let view = View::new(&[Index::parse("1:10").unwrap()], &meta).unwrap();
        let shapes: Vec<_> =
            view.windows(1, 50, Order::C, meta.grid.axes()).unwrap().map(|w| w.shape()).collect();
        assert_eq!(shapes, [[3, 10], [4, 10], [2, 10]]);
    }

    #[test]
    fn a_scalar_is_one_window() {
        let meta = meta(&[], &[]);
        let view = View::new(&[], &meta).unwrap();
        assert_eq!(view.windows(1, 50, Order::C, &[]).unwrap().count(), 1);
    }
}
