//! Selection by coordinate values, like xarray's `sel`: `time=2000-07,lat=-10:10,lon=150.5`.
//!
//! The coordinate of a dimension is the array of that name and of that one dimension, in the group of the array or in
//! one above it. [`LabelValues`] are the values to select, [`indexes`] resolves them to positions, [`CoordinateAxis`] holds the values
//! of one coordinate. [`read_points`] selects one element per point, [`Query`] the same part of all arrays of a data
//! set, and [`DatasetSummary`] describes a data set.
//!
//! Where xarray's rules vary or are silent:
//!
//! * A single value drops its dimension; a slice, a list, and a date that stands for many times keep it.
//! * A slice includes both ends, which may be given in either order, whatever the direction of the axis.
//! * A decimal number is rounded to the coordinate's type before it is compared.
//! * Selecting nothing is an error that names the range of values.

mod axis;
mod find;
mod order;
mod part;
mod points;
mod summary;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::array::windows::ArrayView;
use crate::array::{Array, Index};
use crate::boxed;
use crate::error::{Error, Result};
use crate::format::csv::Column;
use crate::group::Zarr;
use crate::meta::path::{join, shown};
use crate::meta::{ArrayMeta, NodeMeta};

pub use axis::CoordinateAxis;
pub use part::{ArrayPart, DatasetPart, Query};
pub use points::{Points, read_at, read_points};
pub use summary::{DatasetSummary, Range, Variable};

/// What to select if no value equals a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MatchMethod {
    /// Nothing: it is an error.
    #[default]
    Exact,
    /// The nearest value; on a tie, the larger.
    Nearest,
    /// The last value before it, in the order of the axis.
    Pad,
    /// The next value after it, in the order of the axis.
    Backfill,
}

/// Options for looking up labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lookup {
    /// What to select if no value equals a label.
    pub method: MatchMethod,
    /// The maximum distance of that value: a number, or a duration such as `12h` for times.
    pub tolerance: Option<String>,
}

/// A selection by coordinate values: dimension names and labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelValues {
    items: Vec<(String, String)>,
    lookup: Lookup,
}

impl LabelValues {
    /// Parses texts such as `time=2000-07,lat=-10:10`.
    pub fn parse<T: AsRef<str>>(texts: &[T], lookup: Lookup) -> Result<Self> {
        let items = texts.iter().map(|t| text::pairs(t.as_ref())).collect::<Result<Vec<_>>>()?.concat();
        let mut names = BTreeSet::new();
        match items.iter().find(|(name, _)| !names.insert(name.as_str())) {
            Some((name, _)) => Err(named_twice(name)),
            None => Ok(Self { items, lookup }),
        }
    }

    /// Whether nothing is selected, so that everything is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// The text for each position along a dimension.
type Labels = Box<dyn Fn(u64) -> String + Send + Sync>;

/// Coordinates of a hierarchy, each read once.
pub(crate) struct Coordinates<'a> {
    zarr: &'a Zarr,
    /// By path.
    known: HashMap<String, Arc<CoordinateAxis>>,
}

impl<'a> Coordinates<'a> {
    pub(crate) fn new(zarr: &'a Zarr) -> Self {
        Self { zarr, known: HashMap::new() }
    }

    /// The coordinate of the dimension `name`, which has `extent` positions in the array at `path`.
    pub(crate) async fn axis(&mut self, path: &str, name: &str, extent: u64) -> Result<Arc<CoordinateAxis>> {
        let Some(array) = coordinate(self.zarr, path, name).await? else {
            let what = format!("the dimension {name:?} has no coordinate (an array of that name)");
            return Err(Error::usage(what).with_hint("isel", "selects by index"));
        };
        if let Some(axis) = self.known.get(array.path()) {
            return Ok(axis.clone());
        }
        if array.meta().shape.first() != Some(&extent) {
            return Err(Error::invalid(format!(
                "the coordinate {} has shape {:?}, but the dimension has {extent} positions",
                shown(array.path()),
                array.meta().shape
            )));
        }
        let axis = Arc::new(CoordinateAxis::read(self.zarr, &array, name).await?);
        self.known.insert(array.path().to_owned(), axis.clone());
        Ok(axis)
    }

    /// The text for each position along dimension `d` of `array`: the value of its coordinate, or the position if it has
    /// none.
    async fn labels(&mut self, array: &Array, d: usize) -> Result<Labels> {
        let extent = array.shape().get(d).copied().unwrap_or(0);
        let axis = match array.meta().dimension_name(d) {
            Some(name) if coordinate(self.zarr, array.path(), name).await?.is_some() => {
                self.axis(array.path(), name, extent).await?
            }
            _ => return Ok(Box::new(|at: u64| at.to_string())),
        };
        // All times of a column have one form: if one has a time of day, midnight is shown, too.
        let timed = axis.has_time_of_day();
        Ok(Box::new(move |at: u64| match usize::try_from(at).map(|at| axis.text(at)) {
            Ok(day) if timed && !day.contains('T') => format!("{day}T00:00:00"),
            Ok(text) => text.into_owned(),
            Err(_) => at.to_string(),
        }))
    }

    /// One index per dimension of the array at `path`; names that it does not have are ignored.
    async fn known_indexes(
        &mut self,
        path: &str,
        meta: &ArrayMeta,
        by_index: &[(String, Index)],
        labels: &LabelValues,
    ) -> Result<Vec<Index>> {
        let mut indexes = vec![Index::All; meta.shape.len()];
        for (name, index) in by_index {
            if let Some(d) = dimension(meta, name)? {
                set(&mut indexes, d, name, index.clone())?;
            }
        }
        for (name, text) in &labels.items {
            let Some(d) = dimension(meta, name)? else { continue };
            set(&mut indexes, d, name, Index::All)?;
            let axis = self.axis(path, name, meta.shape.get(d).copied().unwrap_or(0)).await?;
            set(&mut indexes, d, name, axis.find(text, &labels.lookup)?)?;
        }
        Ok(indexes)
    }
}

fn set(indexes: &mut [Index], d: usize, name: &str, index: Index) -> Result<()> {
    match indexes.get_mut(d) {
        Some(slot) if *slot == Index::All => *slot = index,
        _ => return Err(named_twice(name)),
    }
    Ok(())
}

fn named_twice(name: &str) -> Error {
    Error::usage(format!("the dimension {name:?} is named twice"))
}

fn dimension(meta: &ArrayMeta, name: &str) -> Result<Option<usize>> {
    let names = meta.dimension_names.as_deref().unwrap_or_default();
    if names.iter().flatten().any(|n| n == name) { meta.dimension(name).map(Some) } else { Ok(None) }
}

/// The coordinate of the dimension `name` of the array at `path`: beside it, or in a group above.
async fn coordinate(zarr: &Zarr, path: &str, name: &str) -> Result<Option<Array>> {
    let mut above = path.rsplit_once('/').map(|(group, _)| group).or((!path.is_empty()).then_some(""));
    while let Some(group) = above {
        let at = join(group, name);
        if let Some(node) = zarr.find(&at).await?
            && let NodeMeta::Array(meta) = node.meta
        {
            let names = meta.dimension_names.as_deref().unwrap_or_default();
            let first = names.first().and_then(Option::as_deref);
            if meta.shape.len() == 1 && first != Some(name) {
                let what = format!(
                    "{} is not a coordinate of the dimension {name:?}: it has another dimension",
                    shown(&at)
                );
                return Err(Error::usage(what).with_hint("isel", "selects by index"));
            }
            return zarr.array_of(&at, meta, node.findings).map(Some);
        }
        above = group.rsplit_once('/').map(|(group, _)| group).or((!group.is_empty()).then_some(""));
    }
    Ok(None)
}

/// Resolves a selection of `array` to one index per dimension: some given by index, some by coordinate values.
///
/// # Errors
/// `Usage` if a dimension or a value does not exist, or a coordinate cannot be looked up.
#[boxed]
pub async fn indexes(
    zarr: &Zarr,
    array: &Array,
    by_index: &[(String, Index)],
    labels: &LabelValues,
) -> Result<Vec<Index>> {
    let meta = array.meta();
    for name in by_index.iter().map(|(name, _)| name).chain(labels.items.iter().map(|(name, _)| name)) {
        if let Err(e) = meta.dimension(name) {
            return Err(several(zarr, array.path(), name).await.unwrap_or(e));
        }
    }
    Coordinates::new(zarr).known_indexes(array.path(), meta, by_index, labels).await
}

/// The coordinates of each element of the part `view` of `array`: a column per dimension with the values of its
/// coordinate, or with positions if it has none. A dimension selected by a single value has the same value in all rows.
#[boxed]
pub async fn columns(zarr: &Zarr, array: &Array, view: &ArrayView) -> Result<Vec<Column>> {
    let (meta, kept) = (array.meta(), view.dimensions());
    let mut coordinates = Coordinates::new(zarr);
    let mut columns = Vec::with_capacity(meta.shape.len());
    for d in 0..meta.shape.len() {
        let name = meta.dimension_name(d);
        let (text, view) = (coordinates.labels(array, d).await?, view.clone());
        let label = move |i: u64| text(view.place(d, i));
        let name = name.map_or_else(|| format!("dim{d}"), str::to_owned);
        let dimension = kept.iter().position(|of| *of == d);
        columns.push(Column { name, dimension, label: Box::new(label) });
    }
    Ok(columns)
}

/// The error for a name that is not a dimension but an array along others.
async fn several(zarr: &Zarr, path: &str, name: &str) -> Option<Error> {
    let group = path.rsplit_once('/').map_or("", |(group, _)| group);
    let node = zarr.find(&join(group, name)).await.ok()??;
    let NodeMeta::Array(meta) = node.meta else { return None };
    let names: Vec<&str> = meta.dimension_names.iter().flatten().flatten().map(String::as_str).collect();
    let names = names.join(", ");
    let what = match meta.shape.len() {
        0 => return None,
        1 if names == name => return None,
        1 => format!("{name:?} is a coordinate along {names}, not a dimension; select along {names}"),
        n => format!("{name:?} is a coordinate of {n} dimensions ({names}); select along these"),
    };
    Some(Error::usage(what).with_hint("isel", "selects by index"))
}
