//! Selects the same part of every array of a data set, with the coordinates that belong to it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Coordinates, LabelValues, several};
use crate::array::Index;
use crate::boxed;
use crate::error::{Error, Result};
use crate::group::{Node, Zarr};
use crate::meta::path::join;
use crate::meta::{ArrayMeta, Json, NodeMeta};
use crate::suggest;

/// The selected part of one array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayPart {
    /// One index per dimension; a single position drops its dimension.
    pub indexes: Vec<Index>,
    /// The new attribute `coordinates`, if dimensions became single values: it tells readers which arrays are not data.
    pub coordinates: Option<String>,
}

/// A selection of a hierarchy: variables, and parts of their dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// The arrays, by their paths below the node; the coordinates of their dimensions are included. Empty for all.
    pub variables: Vec<String>,
    /// Positions by dimension name.
    pub by_index: Vec<(String, Index)>,
    /// Values of coordinates by dimension name.
    pub labels: LabelValues,
}

impl Query {
    /// Whether nothing is given, so that everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty() && self.by_index.is_empty() && self.labels.is_empty()
    }
}

/// A part of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetPart {
    /// Its arrays by path.
    pub arrays: BTreeMap<String, ArrayPart>,
    /// The paths of its groups.
    pub groups: BTreeSet<String>,
    /// The new attribute `coordinates` of groups, for coordinates that no array of the part can name.
    pub named_by_groups: BTreeMap<String, String>,
    /// Coordinates of the part's dimensions that are in groups above it, and so not part of it.
    pub above: BTreeSet<String>,
}

impl DatasetPart {
    /// The part of the node at `top` that `query` selects; `nodes` are all nodes of it.
    ///
    /// # Errors
    /// `Usage` if no array has a given dimension or value, `NotFound` if a variable does not exist.
    #[boxed]
    pub async fn of(zarr: &Zarr, top: &str, nodes: &[Node], query: &Query) -> Result<Self> {
        let Query { variables, by_index, labels } = query;
        let arrays: BTreeMap<&str, &ArrayMeta> = nodes.iter().filter_map(array_of).collect();
        let wanted = chosen(top, &arrays, variables, &coordinate_names(nodes))?;
        let named: BTreeSet<&str> = by_index
            .iter()
            .map(|(n, _)| n.as_str())
            .chain(labels.items.iter().map(|(n, _)| n.as_str()))
            .collect();
        let known: BTreeSet<&str> = wanted
            .iter()
            .filter_map(|path| arrays.get(path.as_str()))
            .flat_map(|meta| meta.dimension_names.iter().flatten().flatten().map(String::as_str))
            .collect();
        if let Some(name) = named.difference(&known).next() {
            let elsewhere =
                |meta: &&ArrayMeta| meta.dimension_names.iter().flatten().flatten().any(|n| n == name);
            let what = match arrays.values().any(elsewhere) {
                true => "none of the selected variables has a dimension",
                false => "no array has a dimension",
            };
            let instead = suggest::instead(name, known.iter().copied());
            let e = Error::usage(format!("{what} {name:?}{instead}"));
            return Err(several(zarr, &join(top, "x"), name).await.unwrap_or(e));
        }
        let mut coordinates = Coordinates::new(zarr);
        let mut part = Self::default();
        for path in &wanted {
            let Some(meta) = arrays.get(path.as_str()) else { continue };
            let indexes = coordinates.known_indexes(path, meta, by_index, labels).await?;
            part.arrays.insert(path.clone(), ArrayPart { indexes, coordinates: None });
        }
        part.above =
            coordinates.known.into_keys().filter(|path| !arrays.contains_key(path.as_str())).collect();
        let groups = nodes.iter().filter(|node| matches!(node.meta, NodeMeta::Group(_)));
        let is_around = |path: &str| {
            let inside = |array: &String| path.is_empty() || array.starts_with(&format!("{path}/"));
            variables.is_empty() || path == top || wanted.iter().any(inside)
        };
        part.groups = groups.map(|node| node.path.clone()).filter(|path| is_around(path)).collect();
        part.name_coordinates(nodes, &arrays, &coordinate_names(nodes));
        Ok(part)
    }

    /// Declares coordinates that readers would otherwise take for data, as xarray does: those that are single values
    /// now, in all sibling data arrays; and those declared only by arrays outside the part, in data arrays that have
    /// their dimensions, or in the group.
    fn name_coordinates(
        &mut self,
        nodes: &[Node],
        arrays: &BTreeMap<&str, &ArrayMeta>,
        coordinates: &BTreeSet<String>,
    ) {
        let kept = nodes.iter().filter(|node| self.has(&node.path)).cloned().collect::<Vec<_>>();
        let known = coordinate_names(&kept);
        let mut unnamed: Vec<(String, BTreeSet<&str>)> = Vec::new();
        for (path, part) in self.arrays.iter().filter(|(path, _)| coordinates.contains(*path)) {
            let Some(meta) = arrays.get(path.as_str()) else { continue };
            let single = meta.shape.len() == 1 && part.indexes.iter().any(|i| matches!(i, Index::At(_)));
            if single || !known.contains(path) {
                let names = meta.dimension_names.iter().flatten().flatten().map(String::as_str);
                unnamed.push((path.clone(), if single { BTreeSet::new() } else { names.collect() }));
            }
        }
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for (path, part) in &mut self.arrays {
            let Some(meta) = arrays.get(path.as_str()).filter(|_| !coordinates.contains(path)) else {
                continue;
            };
            let has = |name: &&str| meta.dimension_names.iter().flatten().flatten().any(|n| n == name);
            let here = unnamed.iter().filter(|(coordinate, dimensions)| {
                split(coordinate).0 == split(path).0 && dimensions.iter().all(&has)
            });
            let here: Vec<&str> = here.map(|(coordinate, _)| coordinate.as_str()).collect();
            part.coordinates = with_names(&meta.attributes, &here);
            named.extend(here);
        }
        for node in kept.iter().filter(|node| matches!(node.meta, NodeMeta::Group(_))) {
            let here = unnamed.iter().map(|(coordinate, _)| coordinate.as_str());
            let here = here.filter(|path| split(path).0 == node.path && !named.contains(path));
            if let Some(names) = with_names(node.meta.attributes(), &here.collect::<Vec<_>>()) {
                self.named_by_groups.insert(node.path.clone(), names);
            }
        }
    }

    fn has(&self, path: &str) -> bool {
        self.arrays.contains_key(path) || self.groups.contains(path)
    }
}

/// The attribute `coordinates` with the names of these arrays added, if that changes it.
fn with_names(attributes: &Json, paths: &[&str]) -> Option<String> {
    let old = attributes.get("coordinates").and_then(Json::as_str).unwrap_or_default();
    let mut names: Vec<&str> = old.split_whitespace().collect();
    for name in paths.iter().map(|path| split(path).1) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let names = names.join(" ");
    (!names.is_empty() && names != old).then_some(names)
}

fn array_of(node: &Node) -> Option<(&str, &ArrayMeta)> {
    match &node.meta {
        NodeMeta::Array(meta) => Some((node.path.as_str(), meta)),
        NodeMeta::Group(_) => None,
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The paths of all coordinate arrays: named like a dimension beside them, or declared as coordinates by others.
pub(super) fn coordinate_names(nodes: &[Node]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for node in nodes {
        let (group, dimensions) = match &node.meta {
            NodeMeta::Array(meta) => (split(&node.path).0, meta.dimension_names.as_deref()),
            NodeMeta::Group(_) => (node.path.as_str(), None),
        };
        let said = node.meta.attributes().get("coordinates").and_then(Json::as_str).unwrap_or_default();
        let names = said.split_whitespace();
        let names = names.chain(dimensions.unwrap_or_default().iter().flatten().map(String::as_str));
        out.extend(names.map(|name| join(group, name)));
    }
    out
}

/// The paths of the selected arrays: those named, and the coordinates of their dimensions.
fn chosen(
    top: &str,
    arrays: &BTreeMap<&str, &ArrayMeta>,
    variables: &[String],
    coordinates: &BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    if variables.is_empty() {
        return Ok(arrays.keys().map(|path| (*path).to_owned()).collect());
    }
    let mut wanted = BTreeSet::new();
    for name in variables {
        let path = join(top, name.trim().trim_matches('/'));
        if !arrays.contains_key(path.as_str()) {
            let below = arrays.keys().map(|p| p.strip_prefix(top).unwrap_or(p).trim_start_matches('/'));
            let instead = suggest::instead(name, below);
            return Err(Error::not_found(format!("variable {name:?} not found{instead}")));
        }
        wanted.insert(path);
    }
    // As in xarray: all whose dimensions are among those of the variables, in their group and those above.
    for group in wanted.iter().map(|path| split(path).0.to_owned()).collect::<BTreeSet<_>>() {
        let dimensions: BTreeSet<&str> = wanted
            .iter()
            .filter(|path| split(path).0 == group)
            .filter_map(|path| arrays.get(path.as_str()))
            .flat_map(|meta| meta.dimension_names.iter().flatten().flatten().map(String::as_str))
            .collect();
        let above = |path: &str| {
            let at = split(path).0;
            at == group || at.is_empty() || group.strip_prefix(at).is_some_and(|rest| rest.starts_with('/'))
        };
        let along = |meta: &ArrayMeta| {
            let names = meta.dimension_names.as_deref().unwrap_or_default();
            names.len() == meta.shape.len() && names.iter().flatten().all(|n| dimensions.contains(n.as_str()))
        };
        let more =
            arrays.iter().filter(|(path, meta)| coordinates.contains(**path) && above(path) && along(meta));
        let more: Vec<String> = more.map(|(path, _)| (*path).to_owned()).collect();
        wanted.extend(more);
    }
    Ok(wanted)
}
