//! CF metadata that sibling arrays contribute: bounds take the units of the variable they bound, and a character
//! dimension is one that only text arrays use.

use super::split_since;
use crate::array::Array;
use crate::boxed;
use crate::error::Result;
use crate::group::Zarr;
use crate::meta::json::Json;
use crate::meta::{ArrayMeta, DataType, NodeMeta};

/// CF metadata of an array that comes from other arrays of its group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Related {
    /// The units of the times that the array bounds.
    pub units: Option<String>,
    /// Their calendar.
    pub calendar: Option<String>,
    /// Whether the last dimension is a character dimension.
    pub letters: bool,
}

/// Inspects the siblings of `array`, if it could be bounds or characters.
#[boxed]
pub async fn related(zarr: &Zarr, array: &Array) -> Result<Related> {
    let meta = array.meta();
    let (letters, bounds) = (could_be_letters(meta), could_be_bounds(meta));
    // An array that was opened by itself has no siblings.
    if array.path().is_empty() || !(letters || bounds) {
        return Ok(Related::default());
    }
    let (group, name) = array.path().rsplit_once('/').unwrap_or(("", array.path()));
    let nodes = zarr.children(group).await?;
    let beside: Vec<(&str, &ArrayMeta)> = nodes
        .iter()
        .filter_map(|node| match &node.meta {
            NodeMeta::Array(a) => Some((node.name(), a)),
            NodeMeta::Group(_) => None,
        })
        .collect();
    if letters {
        return Ok(Related { letters: is_of_letters(meta, &beside), ..Related::default() });
    }
    Ok(bounded_by(name, &beside))
}

/// Whether the last dimension is a pair and the time units are not declared in full.
fn could_be_bounds(meta: &ArrayMeta) -> bool {
    let text = |name: &str| meta.attributes.get(name).and_then(Json::as_str);
    matches!(meta.data_type, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_))
        && meta.shape.last() == Some(&2)
        && text("units").is_none_or(|units| split_since(units).is_some() && text("calendar").is_none())
}

fn could_be_letters(meta: &ArrayMeta) -> bool {
    meta.data_type == DataType::FixedBytes(1) && last_dimension(meta).is_some()
}

fn last_dimension(meta: &ArrayMeta) -> Option<&str> {
    meta.dimension_names.as_deref()?.last()?.as_deref()
}

/// Whether the last dimension of `meta` is used only by text arrays, as their last one, and is not an array itself.
fn is_of_letters(meta: &ArrayMeta, beside: &[(&str, &ArrayMeta)]) -> bool {
    let Some(dimension) = last_dimension(meta) else { return false };
    beside.iter().all(|(name, other)| {
        let names = other.dimension_names.as_deref().unwrap_or_default();
        let uses = names.iter().filter(|n| n.as_deref() == Some(dimension)).count();
        let as_text =
            matches!(other.data_type, DataType::FixedBytes(_)) && last_dimension(other) == Some(dimension);
        *name != dimension && (uses == 0 || (uses == 1 && as_text))
    })
}

/// The units and calendar of the variable whose attribute `bounds` is `name`.
fn bounded_by(name: &str, beside: &[(&str, &ArrayMeta)]) -> Related {
    let text = |a: &ArrayMeta, name: &str| a.attributes.get(name).and_then(Json::as_str).map(str::to_owned);
    let found = beside.iter().find_map(|(_, a)| {
        let units = text(a, "units").filter(|units| split_since(units).is_some())?;
        (text(a, "bounds")? == name).then(|| (units, text(a, "calendar")))
    });
    let (units, calendar) = found.unzip();
    Related { units, calendar: calendar.flatten(), letters: false }
}
