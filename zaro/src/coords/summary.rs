//! Summarizes a data set, like `ncdump -h`: dimensions, variables, and the ranges of coordinates.

use std::collections::BTreeMap;
use std::fmt;

use futures::stream::{self, StreamExt as _};

use super::axis::{AxisBuilder, CoordinateAxis, decoded};
use super::order::Direction;
use super::part::coordinate_names;
use crate::array::windows::ArrayView;
use crate::array::{Index, ReadOptions};
use crate::cf::{Lost, Related, undecoded_times};
use crate::error::Result;
use crate::format::model;
use crate::group::{Node, Zarr};
use crate::meta::{ArrayMeta, Json, NodeMeta};
use crate::num;

/// Coordinates read concurrently.
const AT_ONCE: usize = 16;

/// The maximum number of coordinates whose ranges are read, and the largest decoded chunk that is read for one.
const MOST_RANGES: usize = 64;
const LARGEST_CHUNK: u64 = 16 << 20;

/// The first and the last value of a sorted coordinate as text, and the step if all values were read and it is constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first value.
    pub first: String,
    /// The last one.
    pub last: String,
    /// The step.
    pub step: Option<String>,
}

/// An array as part of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its path.
    pub path: String,
    /// Whether it is a coordinate.
    pub is_coordinate: bool,
    /// `standard_name`, or `long_name`; both, if they differ.
    pub names: Vec<String>,
    /// `units`, unless they are time units that can be decoded, since such times are shown as dates.
    pub units: Option<String>,
    /// The calendar of dates, if declared.
    pub calendar: Option<String>,
    /// The range of values, for a one-dimensional coordinate; none if the values that were read are not sorted.
    pub range: Option<Range>,
}

/// The dimensions and variables of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetSummary {
    /// The dimensions and their lengths, in the order in which arrays name them; those of groups with the path of the group.
    pub dimensions: Vec<(String, u64)>,
    /// The arrays with dimension names, by path.
    pub variables: BTreeMap<String, Variable>,
}

impl DatasetSummary {
    /// Summarizes the hierarchy of these nodes. Only the first and the last chunk of each coordinate are read, several
    /// concurrently; if there are very many coordinates, only some are read.
    pub async fn of(zarr: &Zarr, nodes: &[Node]) -> Self {
        let coordinates = coordinate_names(nodes);
        let mut summary = Self::default();
        for node in nodes {
            let NodeMeta::Array(meta) = &node.meta else { continue };
            let names = meta.dimension_names.as_deref().unwrap_or_default();
            let group = node.path.rsplit_once('/').map_or("", |(group, _)| group);
            for (name, n) in names.iter().zip(&meta.shape) {
                let Some(name) = name else { continue };
                // A dimension of a group is visible below it.
                let known = summary.dimensions.iter().any(|(known, length)| {
                    let (at, known) = known.rsplit_once('/').unwrap_or(("", known));
                    known == name
                        && length == n
                        && (at.is_empty() || group == at || group.starts_with(&format!("{at}/")))
                });
                if !known {
                    summary.dimensions.push((crate::meta::path::join(group, name), *n));
                }
            }
            if !names.is_empty() || meta.attributes.get("units").is_some() {
                let is_coordinate = coordinates.contains(&node.path);
                summary.variables.insert(node.path.clone(), variable(&node.path, meta, is_coordinate));
            }
        }
        let ranged = nodes.iter().filter_map(|node| match &node.meta {
            NodeMeta::Array(meta) if coordinates.contains(&node.path) && meta.shape.len() == 1 => {
                Some((node.path.clone(), meta.clone()))
            }
            _ => None,
        });
        let ranges = stream::iter(ranged.take(MOST_RANGES))
            .map(|(path, meta)| async move {
                // Unreadable coordinates are reported when they are read for their data.
                let range = range(zarr, &path, meta).await.ok().flatten();
                (path, range)
            })
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        for (path, range) in ranges {
            if let Some(variable) = summary.variables.get_mut(&path) {
                variable.range = range;
            }
        }
        summary
    }

    /// All of it as JSON: the first of `nodes`, its dimensions, and the nodes below it, each as [`model::node`] gives
    /// it, with its summary as a variable.
    #[must_use]
    pub fn json(&self, nodes: &[Node], consolidated: bool) -> Json {
        let one = |node: &Node| {
            let mut json = model::node(node);
            let facts = self.variables.get(&node.path).map(Variable::json);
            for (name, value) in facts.iter().flat_map(|facts| facts.members().unwrap_or_default()) {
                json.set(name, value.clone());
            }
            json
        };
        let Some((top, below)) = nodes.split_first() else { return Json::object() };
        let mut json = one(top);
        if matches!(top.meta, NodeMeta::Group(_)) {
            let dimensions = self.dimensions.iter().map(|(name, n)| (name.clone(), Json::int(n))).collect();
            json.set("consolidated", consolidated);
            json.set("dimensions", Json::Object(dimensions));
            json.set("nodes", below.iter().map(one).collect::<Json>());
        }
        json
    }
}

impl fmt::Display for Range {
    /// `-89.5 … 89.5, step 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first)?;
        if self.first != self.last {
            write!(f, " … {}", self.last)?;
        }
        self.step.as_ref().map_or(Ok(()), |step| write!(f, ", step {step}"))
    }
}

impl Variable {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let mut json = Json::object();
        json.set("coordinate", self.is_coordinate);
        if !self.names.is_empty() {
            json.set("names", Json::Array(self.names.iter().map(Json::string).collect()));
        }
        for (name, value) in [("units", &self.units), ("calendar", &self.calendar)] {
            if let Some(value) = value {
                json.set(name, Json::string(value));
            }
        }
        if let Some(range) = &self.range {
            json.set("first", Json::string(&range.first));
            json.set("last", Json::string(&range.last));
            if let Some(step) = &range.step {
                json.set("step", Json::string(step));
            }
        }
        json
    }

    /// In one line: `latitude, degrees_north; -89.5 … 89.5, step 1`.
    #[must_use]
    pub fn line(&self) -> String {
        let mut facts = self.names.clone();
        facts.extend(self.units.clone());
        facts.extend(self.calendar.as_ref().map(|calendar| format!("calendar {calendar}")));
        let mut line = facts.join(", ");
        if let Some(range) = &self.range {
            line.push_str(if line.is_empty() { "" } else { "; " });
            line.push_str(&range.to_string());
        }
        line
    }
}

fn variable(path: &str, meta: &ArrayMeta, is_coordinate: bool) -> Variable {
    let text = |name: &str| meta.attributes.get(name).and_then(Json::as_str).map(str::to_owned);
    let mut names: Vec<String> = ["long_name", "standard_name"].into_iter().filter_map(text).collect();
    names.dedup();
    let units = text("units");
    let is_time = units.as_ref().is_some_and(|units| units.contains(" since "));
    Variable {
        path: path.to_owned(),
        is_coordinate,
        names,
        units: units
            .filter(|_| !is_time || !is_coordinate || undecoded_times(meta, &Related::default()).is_some()),
        calendar: text("calendar").filter(|_| is_time),
        range: None,
    }
}

/// Reads the range from the first and the last chunk.
async fn range(zarr: &Zarr, path: &str, meta: ArrayMeta) -> Result<Option<Range>> {
    let Some(n) = meta.shape.first().copied().filter(|n| *n > 0) else { return Ok(None) };
    let chunk = meta.inner_chunks().and_then(|c| c.first().copied());
    let chunk = chunk.or_else(|| meta.grid.largest().first().copied()).unwrap_or(n).clamp(1, n);
    let item = if meta.data_type.is_variable() { 64 } else { meta.data_type.size() };
    if chunk.saturating_mul(num::u64_of(item)) > LARGEST_CHUNK {
        return Ok(None);
    }
    let array = zarr.array_of(path, meta, Vec::new())?;
    let reading = decoded(zarr, &array).await?;
    let last = (n - 1) / chunk * chunk;
    let read = async |from: u64, count: u64| -> Result<CoordinateAxis> {
        let view = ArrayView::new(&[Index::Span(from, count)], array.meta())?;
        let slab = reading.read_packed(&view, &ReadOptions::default(), &mut Lost::default()).await?;
        let mut values = AxisBuilder::new(&reading);
        values.add(&slab)?;
        Ok(values.finish(""))
    };
    // The first and the last chunk are all there is.
    if last <= chunk {
        let axis = read(0, n).await?;
        return Ok(of(&axis, axis.step()));
    }
    let (first, end) = futures::try_join!(read(0, chunk), read(last, n - last))?;
    // What lies between was not seen, so there is no saying that the step is constant.
    let (head, tail) = (of(&first, None), of(&end, None));
    Ok(head.zip(tail).map(|(head, tail)| Range { first: head.first, last: tail.last, step: None }))
}

/// The range of an axis; none if it is not sorted, since its ends are not its bounds.
fn of(axis: &CoordinateAxis, step: Option<String>) -> Option<Range> {
    let last = axis.len().checked_sub(1).filter(|_| axis.direction != Direction::None)?;
    Some(Range { first: axis.text(0).into_owned(), last: axis.text(last).into_owned(), step })
}
