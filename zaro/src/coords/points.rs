//! Pointwise selection, one element per point, like xarray's vectorized indexing: stations at times, a track through a
//! field.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{Coordinates, Lookup, text};
use crate::array::windows::ArrayView;
use crate::array::{Array, Index, Order, ReadOptions, Selection, Slab};
use crate::boxed;
use crate::error::{Error, Result};
use crate::format::csv::Column;
use crate::group::Zarr;
use crate::meta::ArrayMeta;
use crate::num;

/// Chunks read concurrently.
const AT_ONCE: usize = 8;

/// Points, given by values along named dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Points {
    names: Vec<String>,
    /// One text per name for each point.
    rows: Vec<Vec<String>>,
    /// The line of each, if they come from a file.
    lines: Vec<usize>,
}

impl Points {
    /// Parses one point per text, such as `lat=10,lon=20.5`. All have the same names.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self> {
        let mut points = Self::default();
        for text in texts {
            let (names, row): (Vec<String>, Vec<String>) = text::pairs(text.as_ref())?.into_iter().unzip();
            if points.rows.is_empty() {
                points.names = names;
            } else if points.names != names {
                return Err(Error::usage("all points must have the same dimensions, in the same order"));
            }
            points.rows.push(row);
        }
        points.checked()
    }

    /// Fails if there are none, or a dimension is named twice.
    fn checked(self) -> Result<Self> {
        let mut names = BTreeSet::new();
        match self.names.iter().find(|name| !names.insert(name.as_str())) {
            Some(name) => Err(super::named_twice(name)),
            None if self.rows.is_empty() => Err(Error::usage("there are no points")),
            None => Ok(self),
        }
    }

    /// Reads CSV with a header of dimension names and a line per point.
    pub fn csv(input: &mut dyn Read) -> Result<Self> {
        let mut content = String::new();
        input.read_to_string(&mut content)?;
        let mut lines = content.lines().zip(1usize..).filter(|(line, _)| !line.trim().is_empty());
        let cells = |line: &str| -> Vec<String> {
            text::split(line, ',').into_iter().map(|c| text::unquoted(c.trim()).to_owned()).collect()
        };
        let (header, _) = lines.next().unwrap_or_default();
        let names = cells(header.trim_start_matches('\u{feff}'));
        let (rows, lines): (Vec<Vec<String>>, Vec<usize>) = lines.map(|(line, n)| (cells(line), n)).unzip();
        match rows.iter().zip(&lines).find(|(row, _)| row.len() != names.len()) {
            Some((_, line)) => Err(Error::usage(format!(
                "line {line} of the points does not have one value per name in the header ({})",
                names.join(", ")
            ))),
            None => Self { names, rows, lines }.checked(),
        }
    }

    /// The coordinates of each element: those of its point, and those of the other dimensions of `array`, of which
    /// `rest` is selected. `lookup` is as in [`read_points`]: the values are those that it selects.
    #[boxed]
    pub async fn columns(
        &self,
        zarr: &Zarr,
        array: &Array,
        lookup: Option<&Lookup>,
        rest: &[Index],
    ) -> Result<Vec<Column>> {
        let located = self.positions(zarr, array, lookup).await?;
        let mut coordinates = Coordinates::new(zarr);
        let mut columns = Vec::with_capacity(array.shape().len());
        for (i, (name, d)) in self.names.iter().zip(&located.dims).enumerate() {
            let places: Vec<u64> =
                located.places.iter().map(|place| place.get(i).copied().unwrap_or(0)).collect();
            let at = move |row: u64| {
                usize::try_from(row).ok().and_then(|row| places.get(row)).copied().unwrap_or(0)
            };
            let text = coordinates.labels(array, *d).await?;
            let label = Box::new(move |row: u64| text(at(row)));
            columns.push(Column { name: name.clone(), dimension: Some(0), label });
        }
        let mut dimension = 0;
        for mut other in super::columns(zarr, array, &ArrayView::new(rest, array.meta())?).await? {
            if self.names.contains(&other.name) {
                continue;
            }
            if other.dimension.is_some() {
                dimension += 1;
                other.dimension = Some(dimension);
            }
            columns.push(other);
        }
        Ok(columns)
    }

    /// The dimension names of the result: that of the points, then those of `array` that neither `rest` nor the points
    /// drop.
    #[must_use]
    pub fn dimensions(&self, array: &Array, rest: &[Index]) -> Vec<Option<String>> {
        let meta = array.meta();
        let is_left = |d: &usize| {
            let named = meta.dimension_name(*d).is_some_and(|name| self.names.iter().any(|n| n == name));
            !named && !matches!(rest.get(*d), Some(Index::At(_)))
        };
        let left = (0..meta.shape.len()).filter(is_left).map(|d| meta.dimension_name(d).map(str::to_owned));
        std::iter::once(Some("point".to_owned())).chain(left).collect()
    }

    /// The positions of the points in `array` along the named dimensions. Coordinate values are looked up; without a
    /// `lookup`, the values are positions.
    async fn positions(&self, zarr: &Zarr, array: &Array, lookup: Option<&Lookup>) -> Result<Located> {
        let meta = array.meta();
        let dims: Vec<usize> = self.names.iter().map(|name| meta.dimension(name)).collect::<Result<_>>()?;
        let mut places = vec![Vec::with_capacity(dims.len()); self.rows.len()];
        let mut coordinates = Coordinates::new(zarr);
        for (column, (name, d)) in self.names.iter().zip(&dims).enumerate() {
            let extent = meta.shape.get(*d).copied().unwrap_or(0);
            let axis = match lookup {
                Some(_) => Some(coordinates.axis(array.path(), name, extent).await?),
                None => None,
            };
            // Many points share a value.
            let mut known: HashMap<&str, u64> = HashMap::new();
            for (i, (row, place)) in self.rows.iter().zip(&mut places).enumerate() {
                let named = |e: Error| match self.lines.get(i) {
                    Some(line) => e.within(format_args!("line {line} of the points")),
                    None => e,
                };
                let value = row.get(column).map(String::as_str).unwrap_or_default();
                let at = match (known.get(value), &axis, lookup) {
                    (Some(at), ..) => *at,
                    (None, Some(axis), Some(lookup)) => axis.position(value, lookup).map_err(named)?,
                    _ => Index::parse(value)
                        .and_then(|index| index.position(extent).map_err(|e| e.within(name)))
                        .map_err(named)?,
                };
                known.insert(value, at);
                place.push(at);
            }
        }
        Ok(Located { dims, places })
    }
}

/// Points as positions.
struct Located {
    /// The dimensions of the array.
    dims: Vec<usize>,
    /// For each point, its position along each of these.
    places: Vec<Vec<u64>>,
}

/// Reads the elements of `array` at `points`. The first dimension of the result is that of the points, then come those
/// that the points do not name. `rest` selects along these; it has one index per dimension of the array. Each chunk is
/// read once.
#[boxed]
pub async fn read_points(
    zarr: &Zarr,
    array: &Array,
    points: &Points,
    lookup: Option<&Lookup>,
    rest: &[Index],
    options: &ReadOptions,
) -> Result<Slab> {
    let located = points.positions(zarr, array, lookup).await?;
    let meta = array.meta();
    let (row, count) = (num::product_usize(&located.kept(rest, meta)?.1)?, located.places.len());
    let memory = zarr.options().store.context.memory().max(1 << 20);
    if row.saturating_mul(count).saturating_mul(size(meta)) > memory {
        return Err(Error::usage(format!(
            "{count} points of {row} elements each exceed the memory budget; use fewer points, or select less of the other dimensions"
        ))
        .with_hint("memory", "gives more"));
    }
    read_located(array, &located, rest, options).await
}

/// The same for points given by their positions: `places` has those of all points along each of the dimensions `dims`,
/// negative ones counted from the end. Arrays need no dimension names, and the result may be of any size.
#[boxed]
pub async fn read_at(
    array: &Array,
    dims: &[usize],
    places: &[Vec<i64>],
    rest: &[Index],
    options: &ReadOptions,
) -> Result<Slab> {
    let count = places.first().map_or(0, Vec::len);
    let mut located = Located { dims: dims.to_vec(), places: vec![Vec::with_capacity(dims.len()); count] };
    for (d, column) in dims.iter().zip(places) {
        let extent =
            *array.shape().get(*d).ok_or_else(|| Error::usage(format!("there is no dimension {d}")))?;
        if column.len() != count {
            return Err(Error::usage("there must be as many positions along each dimension"));
        }
        for (at, place) in column.iter().zip(&mut located.places) {
            place.push(Index::At(*at).position(extent).map_err(|e| e.within(format_args!("dimension {d}")))?);
        }
    }
    if dims.len() != places.len() || dims.is_empty() {
        return Err(Error::usage("points need positions along at least one dimension, once along each"));
    }
    read_located(array, &located, rest, options).await
}

/// The memory of an element, roughly.
fn size(meta: &ArrayMeta) -> usize {
    if meta.data_type.is_variable() { 64 } else { meta.data_type.size() }
}

async fn read_located(
    array: &Array,
    located: &Located,
    rest: &[Index],
    options: &ReadOptions,
) -> Result<Slab> {
    let meta = array.meta();
    let (kept, others) = located.kept(rest, meta)?;
    let row = num::product_usize(&others)?;
    let (count, size) = (located.places.len(), size(meta));
    let memory = array.context().memory().max(1 << 20);
    // The dimensions of the array that the result keeps, in their order.
    let is_read = |(d, index): &(usize, &Index)| located.dims.contains(d) || !matches!(index, Index::At(_));
    let dims: Vec<usize> = kept.iter().enumerate().filter(is_read).map(|(d, _)| d).collect();
    let groups = located.by_chunk(meta);
    let largest = groups.iter().map(ChunkPoints::volume).max().unwrap_or(0);
    let at_once = (memory / 2).checked_div(row.saturating_mul(largest).saturating_mul(size)).unwrap_or(1);
    let read = |group: ChunkPoints| {
        let selection = Selection::new(group.indexes(&kept, &located.dims));
        async move { Ok::<_, Error>((array.read_slab(&selection, options).await?, group)) }
    };
    let variable = meta.data_type.is_variable();
    let elements = count.saturating_mul(row);
    let (mut bytes, mut texts): (Vec<u8>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    let most = |_| Error::usage(format!("{elements} elements are more than this machine has memory for"));
    if variable {
        texts.try_reserve_exact(elements).map_err(most)?;
        texts.resize(elements, Vec::new());
    } else {
        bytes.try_reserve_exact(elements.saturating_mul(size)).map_err(most)?;
        bytes.resize(elements.saturating_mul(size), 0);
    }
    let mut found = stream::iter(groups).map(read).buffer_unordered(at_once.clamp(1, AT_ONCE));
    while let Some((slab, group)) = found.try_next().await? {
        for p in &group.points {
            let place = located.places.get(*p).map(Vec::as_slice).unwrap_or_default();
            let fixed = |d: usize| {
                let column = located.dims.iter().position(|of| *of == d)?;
                Some(place.get(column)? - group.bounds.get(column)?.0)
            };
            for k in 0..row {
                let item = offset(&dims, &slab.shape, &fixed, num::u64_of(k));
                let item = num::usize_of(item).ok().and_then(|i| slab.item(i)).unwrap_or_default();
                let at = p * row + k;
                if variable {
                    texts.get_mut(at).into_iter().for_each(|slot| *slot = item.to_vec());
                } else if let Some(slot) = bytes.get_mut(at * size..(at + 1) * size) {
                    slot.copy_from_slice(item);
                }
            }
        }
    }
    let shape: Vec<u64> = std::iter::once(num::u64_of(count)).chain(others).collect();
    if variable {
        Slab::variable(&meta.data_type, &shape, Order::C, texts.iter().map(Vec::as_slice))
    } else {
        Slab::new(&meta.data_type, &shape, Order::C, bytes)
    }
}

/// The offset of element `k` of a point in a slab of these dimensions; `fixed` gives the point's own positions.
fn offset(dims: &[usize], shape: &[u64], fixed: &dyn Fn(usize) -> Option<u64>, k: u64) -> u64 {
    let (mut left, mut index, mut stride) = (k, 0u64, 1u64);
    for (d, length) in dims.iter().zip(shape).rev() {
        let at = fixed(*d).unwrap_or_else(|| {
            let at = left.checked_rem(*length).unwrap_or(0);
            left = left.checked_div(*length).unwrap_or(0);
            at
        });
        index = index.saturating_add(at.saturating_mul(stride));
        stride = stride.saturating_mul(*length);
    }
    index
}

/// The points in one chunk, and their bounding box along their dimensions.
struct ChunkPoints {
    points: Vec<usize>,
    bounds: Vec<(u64, u64)>,
}

impl Located {
    /// The selection along the dimensions that the points leave, with one position along theirs; and its shape.
    fn kept(&self, rest: &[Index], meta: &ArrayMeta) -> Result<(Vec<Index>, Vec<u64>)> {
        let mut kept = rest.to_vec();
        kept.resize(meta.shape.len(), Index::All);
        for d in &self.dims {
            match kept.get_mut(*d) {
                Some(index) if *index == Index::All => *index = Index::At(0),
                _ => return Err(Error::usage("a dimension is used by both the points and the selection")),
            }
        }
        let others = Selection::new(kept.clone()).resolve(meta)?.shape;
        Ok((kept, others))
    }

    /// The points grouped by chunk.
    fn by_chunk(&self, meta: &ArrayMeta) -> Vec<ChunkPoints> {
        let inner = meta.inner_chunks();
        let chunk_of = |d: usize, at: u64| match inner.as_ref().and_then(|shape| shape.get(d)) {
            Some(n) => at.checked_div(*n).unwrap_or(0),
            None => meta.grid.axes().get(d).and_then(|axis| axis.chunk_at(at)).map_or(0, |(chunk, ..)| chunk),
        };
        let mut groups: BTreeMap<Vec<u64>, ChunkPoints> = BTreeMap::new();
        for (i, place) in self.places.iter().enumerate() {
            let chunk = self.dims.iter().zip(place).map(|(d, at)| chunk_of(*d, *at)).collect();
            let group = groups.entry(chunk).or_insert_with(|| ChunkPoints {
                points: Vec::new(),
                bounds: place.iter().map(|at| (*at, *at)).collect(),
            });
            group.points.push(i);
            for ((low, high), at) in group.bounds.iter_mut().zip(place) {
                (*low, *high) = ((*low).min(*at), (*high).max(*at));
            }
        }
        groups.into_values().collect()
    }
}

impl ChunkPoints {
    fn volume(&self) -> usize {
        let lengths =
            self.bounds.iter().map(|(low, high)| num::usize_of(high - low + 1).unwrap_or(usize::MAX));
        lengths.fold(1, usize::saturating_mul)
    }

    /// The selection to read: everything within the bounds.
    fn indexes(&self, kept: &[Index], dims: &[usize]) -> Vec<Index> {
        let mut indexes = kept.to_vec();
        for (d, (low, high)) in dims.iter().zip(&self.bounds) {
            if let Some(slot) = indexes.get_mut(*d) {
                *slot = Index::Span(*low, high - low + 1);
            }
        }
        indexes
    }
}
