//! Selections: which elements of an array to read or write.

use crate::error::{Error, Result};
use crate::meta::ArrayMeta;
use crate::meta::grid::ChunkAxis;
use crate::num;

/// The selection along one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Index {
    /// Everything.
    All,
    /// `start`, `count`: exactly that many positions, which must exist.
    Span(u64, u64),
    /// As in Python: `start:stop:step`, each optional, negative positions from the end, clamped to the array.
    Slice(Option<i64>, Option<i64>, i64),
    /// One position, negative from the end; the dimension is dropped from the result.
    At(i64),
    /// These positions, in this order, with repetitions; negative from the end.
    List(Vec<i64>),
}

/// A selection of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(IndexKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum IndexKind {
    All,
    /// For the first dimensions, and for the last; those between are [`Index::All`].
    ByPosition(Vec<Index>, Vec<Index>),
    /// For named dimensions; the others are [`Index::All`].
    ByName(Vec<(String, Index)>),
}

impl Selection {
    /// The whole array.
    #[must_use]
    pub fn all() -> Self {
        Self(IndexKind::All)
    }

    /// A block: `count` positions from `start` on, in each dimension.
    #[must_use]
    pub fn start_count(start: &[u64], count: &[u64]) -> Self {
        // A missing number on either side becomes an error when the rank is known.
        let n = start.len().max(count.len());
        let get = |v: &[u64], i: usize| v.get(i).copied().unwrap_or(u64::MAX);
        Self::new((0..n).map(|i| Index::Span(get(start, i), get(count, i))).collect())
    }

    /// One index per dimension; missing dimensions at the end are selected whole.
    #[must_use]
    pub fn new(indexes: Vec<Index>) -> Self {
        Self(IndexKind::ByPosition(indexes, Vec::new()))
    }

    /// Parses text such as `0:10:2, :, 5, [1,4,2], ::-1`. As in numpy, one `...` stands for as many `:` as are missing;
    /// without it they are missing at the end.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = split_outside_brackets(text);
        let is_ellipsis = |part: &&str| part.trim() == "...";
        let indexes =
            |parts: &[&str]| parts.iter().map(|part| Index::parse(part)).collect::<Result<Vec<_>>>();
        let mut sides = parts.split(is_ellipsis);
        let (before, after) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        if sides.next().is_some() {
            return Err(Error::usage(format!("{text:?}: only one ... is allowed")));
        }
        Ok(Self(IndexKind::ByPosition(indexes(before)?, indexes(after)?)))
    }

    /// Parses dimension names and indexes such as `time=0,lat=3:9`.
    pub fn parse_named<T: AsRef<str>>(texts: &[T]) -> Result<Vec<(String, Index)>> {
        let item = |text: &str| match text.split_once('=') {
            Some((name, index)) => {
                let name = name.trim();
                let index = Index::parse(index);
                let by_value =
                    |e: Error| e.within(name).with_hint("sel", "selects by the values of coordinates");
                Ok((name.to_owned(), index.map_err(by_value)?))
            }
            None => Err(Error::usage(format!("{text:?} does not have the form NAME=INDEX"))),
        };
        texts.iter().flat_map(|text| split_outside_brackets(text.as_ref())).map(item).collect()
    }

    /// For named dimensions, each with text as in [`Selection::parse`].
    pub fn named(items: &[(String, String)]) -> Result<Self> {
        let items = items.iter().map(|(n, t)| Ok((n.clone(), Index::parse(t)?))).collect::<Result<_>>()?;
        Ok(Self(IndexKind::ByName(items)))
    }

    /// The index for each dimension of an array with this metadata: exactly one per dimension.
    pub fn indexes(&self, meta: &ArrayMeta) -> Result<Vec<Index>> {
        let rank = meta.shape.len();
        match &self.0 {
            IndexKind::All => Ok(vec![Index::All; rank]),
            IndexKind::ByPosition(before, after) => {
                let given = before.len().saturating_add(after.len());
                let Some(missing) = rank.checked_sub(given) else {
                    return Err(Error::usage(format!(
                        "the selection has {given} dimensions, the array {rank}; use ... for the remaining dimensions"
                    )));
                };
                let between = std::iter::repeat_n(&Index::All, missing);
                Ok(before.iter().chain(between).chain(after).cloned().collect())
            }
            IndexKind::ByName(items) => by_name(items, meta),
        }
    }

    /// Resolves to positions in an array with this metadata.
    pub fn resolve(&self, meta: &ArrayMeta) -> Result<Resolved> {
        let rank = meta.shape.len();
        let mut dims = Vec::with_capacity(rank);
        let mut shape = Vec::with_capacity(rank);
        for (d, (index, extent)) in self.indexes(meta)?.iter().zip(&meta.shape).enumerate() {
            let wanted = index.resolve(*extent).map_err(|e| match meta.dimension_name(d) {
                Some(name) => e.within(format_args!("dimension {d} ({name})")),
                None => e.within(format_args!("dimension {d}")),
            })?;
            if !matches!(index, Index::At(_)) {
                shape.push(wanted.count());
            }
            dims.push(wanted);
        }
        Ok(Resolved { shape, dims })
    }
}

fn by_name(items: &[(String, Index)], meta: &ArrayMeta) -> Result<Vec<Index>> {
    let mut indexes = vec![Index::All; meta.shape.len()];
    for (name, index) in items {
        let d = meta.dimension(name)?;
        match indexes.get_mut(d) {
            Some(slot) if *slot == Index::All => *slot = index.clone(),
            _ => return Err(Error::usage(format!("the dimension {name:?} is named twice"))),
        }
    }
    Ok(indexes)
}

/// Splits at commas outside of brackets; a trailing comma is accepted.
#[must_use]
pub(crate) fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0u32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(start..i).unwrap_or_default());
                start = i + 1;
            }
            _ => {}
        }
    }
    let last = text.get(start..).unwrap_or_default();
    if !(last.trim().is_empty() && (start > 0 || text.trim().is_empty())) {
        parts.push(last);
    }
    parts
}

impl Index {
    /// Parses text such as `3:9`, `::-1`, `5`, `[1,4,2]` or `:`.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let bad = || {
            let what = "write positions, counted from 0, such as 3, 2:8, ::-1, [1,4] or :";
            Error::usage(format!("{text:?} is not an index; {what}"))
        };
        let number = |t: &str| -> Result<Option<i64>> {
            let t = t.trim();
            if t.is_empty() { Ok(None) } else { t.parse().map(Some).map_err(|_| bad()) }
        };
        if text == ":" {
            return Ok(Self::All);
        }
        if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            let items = list.split(',').filter(|t| !t.trim().is_empty());
            return items.map(|t| number(t)?.ok_or_else(bad)).collect::<Result<_>>().map(Self::List);
        }
        let mut parts = text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(at), None, None, None) => number(at)?.map(Self::At).ok_or_else(bad),
            (Some(start), Some(stop), step, None) => {
                let (start, stop) = (number(start)?, number(stop)?);
                let step = number(step.unwrap_or_default())?.unwrap_or(1);
                if step == 0 || step == i64::MIN {
                    return Err(Error::usage(format!("{text:?}: the step must not be {step}")));
                }
                Ok(Self::Slice(start, stop, step))
            }
            _ => Err(bad()),
        }
    }

    /// The single position of this index, in a dimension of this length.
    pub(crate) fn position(&self, extent: u64) -> Result<u64> {
        match (self, self.resolve(extent)?) {
            (Self::At(_), Sel::Range { start, .. }) => Ok(start),
            _ => Err(Error::usage("a point takes one position in each dimension")),
        }
    }

    fn resolve(&self, extent: u64) -> Result<Sel> {
        let n = i64::try_from(extent).unwrap_or(i64::MAX);
        let one = |i: i64| {
            let at = if i < 0 { i.checked_add(n) } else { Some(i) };
            at.filter(|at| (0..n).contains(at)).and_then(|at| u64::try_from(at).ok()).ok_or_else(|| {
                Error::usage(format!("position {i} lies outside the array, which has {extent} there"))
            })
        };
        Ok(match self {
            Self::All => Sel::range(0, 1, extent),
            Self::Span(start, count) => {
                if start.checked_add(*count).is_none_or(|end| end > extent) {
                    return Err(Error::usage(format!(
                        "start {start} and count {count} reach beyond the array, which has {extent} there"
                    )));
                }
                Sel::range(*start, 1, *count)
            }
            Self::Slice(start, stop, step) => {
                let clamp = |i: Option<i64>, default: i64, low: i64, high: i64| {
                    i.map_or(default, |i| if i < 0 { i.saturating_add(n) } else { i }.clamp(low, high))
                };
                let (start, stop) = if *step > 0 {
                    (clamp(*start, 0, 0, n), clamp(*stop, n, 0, n))
                } else {
                    (clamp(*start, n - 1, -1, n - 1), clamp(*stop, -1, -1, n - 1))
                };
                let span = if *step > 0 { stop - start } else { start - stop };
                let count =
                    if span > 0 { u64::try_from(span).unwrap_or(0).div_ceil(step.unsigned_abs()) } else { 0 };
                Sel::range(u64::try_from(start).unwrap_or(0), *step, count)
            }
            Self::At(i) => Sel::range(one(*i)?, 1, 1),
            Self::List(items) => {
                let pairs = items.iter().enumerate().map(|(dst, i)| Ok((one(*i)?, num::u64_of(dst))));
                Sel::Listed(pairs.collect::<Result<_>>()?)
            }
        })
    }
}

/// A selection resolved to positions of one array.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The shape of the result, without dimensions indexed by a single position.
    pub shape: Vec<u64>,
    /// The selection along each dimension of the array.
    pub(crate) dims: Vec<Sel>,
}

/// Positions along one dimension (`src`) and where they go in the result (`dst`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sel {
    /// `start`, `start + step`, …, `count` of them, to `dst`, `dst + 1`, ….
    Range { start: u64, step: i64, count: u64, dst: u64 },
    /// Pairs `(src, dst)`.
    Listed(Vec<(u64, u64)>),
}

impl Sel {
    pub(crate) fn range(start: u64, step: i64, count: u64) -> Self {
        Self::Range { start, step, count, dst: 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Range { count, .. } => *count,
            Self::Listed(pairs) => num::u64_of(pairs.len()),
        }
    }

    /// Whether these are all `length` positions of a chunk, in order.
    pub(crate) fn is_all(&self, length: u64) -> bool {
        matches!(self, Self::Range { start: 0, step: 1, count, .. } if *count == length)
    }
}

/// The part of a selection that falls into one chunk along one dimension.
#[derive(Debug, Clone)]
pub(crate) struct ChunkPart {
    /// The chunk's number along the dimension.
    pub(crate) chunk: u64,
    /// The selection, with `src` counted from the chunk's first position.
    pub(crate) sel: Sel,
}

/// The selections of combination `i` of `parts`, counted in C order.
pub(crate) fn combination(parts: &[Vec<ChunkPart>], i: u64) -> Vec<&Sel> {
    let mut left = i;
    let mut sels: Vec<&Sel> = Vec::with_capacity(parts.len());
    for parts in parts.iter().rev() {
        let n = num::u64_of(parts.len()).max(1);
        if let Some(p) = usize::try_from(left % n).ok().and_then(|i| parts.get(i)) {
            sels.push(&p.sel);
        }
        left /= n;
    }
    sels.reverse();
    sels
}

/// The most chunks along one dimension that one read may touch: their list alone takes about two hundred megabytes.
const MAX_PARTS: usize = 1 << 22;

/// Cuts a selection at the chunk borders of `axis`.
pub(crate) fn split(sel: &Sel, axis: &ChunkAxis) -> Result<Vec<ChunkPart>> {
    let outside = || Error::invalid("the chunk grid does not cover the array");
    let mut parts: Vec<ChunkPart> = Vec::new();
    match sel {
        Sel::Range { start, step, count, dst } => {
            let (mut at, mut done) = (*start, 0);
            while done < *count {
                let (chunk, first, length) = axis.chunk_at(at).ok_or_else(outside)?;
                let stride = step.unsigned_abs();
                let room = if *step > 0 {
                    // Nothing beyond 2^64 is part of an array.
                    (first.saturating_add(length) - at).div_ceil(stride)
                } else {
                    (at - first) / stride + 1
                };
                let n = room.min(count - done);
                let sel = Sel::Range { start: at - first, step: *step, count: n, dst: dst + done };
                if parts.len() >= MAX_PARTS {
                    return Err(Error::usage(format!(
                        "more than {MAX_PARTS} chunks along one dimension at once; read a part of it"
                    )));
                }
                parts.push(ChunkPart { chunk, sel });
                done += n;
                let moved = stride.saturating_mul(n);
                at = if *step > 0 { at.saturating_add(moved) } else { at.saturating_sub(moved) };
            }
        }
        Sel::Listed(pairs) => {
            let mut sorted = Vec::with_capacity(pairs.len());
            for (src, dst) in pairs {
                let (chunk, first, _) = axis.chunk_at(*src).ok_or_else(outside)?;
                sorted.push((chunk, src - first, *dst));
            }
            sorted.sort_unstable();
            for (chunk, src, dst) in sorted {
                match parts.last_mut() {
                    Some(ChunkPart { chunk: c, sel: Sel::Listed(list), .. }) if *c == chunk => {
                        list.push((src, dst))
                    }
                    _ => parts.push(ChunkPart { chunk, sel: Sel::Listed(vec![(src, dst)]) }),
                }
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
#[allow(clippy::as_conversions, reason = "small numbers of the tests' own")]
mod tests {
    use super::*;

    fn positions(text: &str, extent: u64) -> Vec<u64> {
        match Index::parse(text).unwrap().resolve(extent).unwrap() {
            Sel::Range { start, step, count, .. } => {
                (0..count).map(|k| start.wrapping_add_signed(step * i64::try_from(k).unwrap())).collect()
            }
            Sel::Listed(pairs) => pairs.iter().map(|p| p.0).collect(),
        }
    }

    #[test]
    fn slices_mean_what_python_means() {
        assert_eq!(positions("1:8:3", 10), [1, 4, 7]);
        assert_eq!(positions("::-1", 3), [2, 1, 0]);
        assert_eq!(positions("-2:", 5), [3, 4]);
        assert_eq!(positions("7:2:-2", 20), [7, 5, 3]);
        assert_eq!(positions("5:100", 7), [5, 6]);
        assert_eq!(positions("3:1", 7), [] as [u64; 0]);
        assert_eq!(positions("[4,-1,4]", 7), [4, 6, 4]);
        assert_eq!(positions("::-1", 0), [] as [u64; 0]);
    }

    #[test]
    fn an_ellipsis_stands_for_what_is_missing() {
        let kind = |before: &str, after: &str| {
            let side = |text: &str| {
                let parts = split_outside_brackets(text);
                parts.into_iter().map(|t| Index::parse(t).unwrap()).collect::<Vec<_>>()
            };
            IndexKind::ByPosition(side(before), side(after))
        };
        assert_eq!(Selection::parse("0:2, ... ,5").unwrap().0, kind("0:2", "5"));
        assert_eq!(Selection::parse("...").unwrap().0, kind("", ""));
        assert_eq!(Selection::parse("1,...,").unwrap().0, kind("1", ""));
        for text in ["...,...", "0,...,1,...", "....", "..", "[...]"] {
            assert!(Selection::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bad_indexes_are_usage_errors() {
        for text in ["a", "1:2:0", "1:2:3:4", "", "[1,x]"] {
            assert!(Index::parse(text).is_err(), "{text}");
        }
        assert!(Index::At(7).resolve(7).is_err());
        assert!(Index::Span(3, 5).resolve(7).is_err());
        assert!(Index::Span(u64::MAX, 5).resolve(7).is_err());
    }

    #[test]
    fn splitting_covers_each_position_once_in_order() {
        for (start, step, count) in [(0, 1, 10), (1, 3, 3), (9, -1, 10), (8, -3, 3), (9, -9, 2)] {
            let parts = split(&Sel::range(start, step, count), &ChunkAxis::Regular(4)).unwrap();
            let mut seen = Vec::new();
            for p in &parts {
                let Sel::Range { start, step, count, dst } = p.sel else { panic!() };
                for k in 0..count {
                    seen.push((dst + k, (p.chunk * 4 + start).wrapping_add_signed(step * k as i64)));
                }
            }
            let wanted: Vec<_> =
                (0..count).map(|k| (k, start.wrapping_add_signed(step * k as i64))).collect();
            assert_eq!(seen, wanted);
        }
    }

    #[test]
    fn chunks_may_reach_beyond_the_last_position() {
        let axis = ChunkAxis::Regular((1 << 63) + 5);
        let parts = split(&Sel::range(u64::MAX - 2, 1, 2), &axis).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].sel, Sel::range(u64::MAX - 2 - (1 << 63) - 5, 1, 2));
    }

    #[test]
    fn a_list_of_chunks_has_an_end() {
        assert!(split(&Sel::range(0, 1, 1 << 62), &ChunkAxis::Regular(1)).is_err());
    }
}
