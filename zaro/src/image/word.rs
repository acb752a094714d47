//! One-line descriptions of OME-Zarr groups, from their attributes. `zaro image info` has more.

use super::model::{Axis, Level};
use super::parse;
use crate::format::text::plural;
use crate::meta::Json;

/// A one-line description: `OME-Zarr image 0.5 "cells": z, y, x (micrometer), 3 levels`.
#[derive(Debug, PartialEq)]
pub struct Word {
    /// The line.
    pub text: String,
    /// The arrays of an image, from the largest to the smallest.
    pub levels: Vec<Level>,
}

/// The images, the plate or the well described by the attributes.
#[must_use]
pub fn words(attributes: &Json) -> Vec<Word> {
    let group = parse::group(attributes);
    let version = group.version.map_or(String::new(), |v| format!(" {v}"));
    let name = |name: Option<String>| match name {
        Some(name) if !name.is_empty() && name != "/" => format!(" {name:?}"),
        _ => String::new(),
    };
    let mut words: Vec<Word> = group
        .multiscales
        .into_iter()
        .map(|m| {
            let kind = if group.label.is_some() { "labels" } else { "image" };
            let axes = axes_text(&m.axes);
            let levels = plural(m.levels.len(), "level");
            Word {
                text: format!("OME-Zarr {kind}{version}{}: {axes}, {levels}", name(m.name)),
                levels: m.levels,
            }
        })
        .collect();
    let mut add = |text: String| words.push(Word { text, levels: Vec::new() });
    if let Some(plate) = group.plate {
        let (rows, columns) = (plural(plate.rows.len(), "row"), plural(plate.columns.len(), "column"));
        let wells = plural(plate.wells.len(), "well");
        add(format!("OME-Zarr plate{version}{}: {rows}, {columns}, {wells}", name(plate.name)));
    }
    if let Some(well) = group.well {
        add(format!("OME-Zarr well{version}: {}", plural(well.fields.len(), "field")));
    }
    if group.layout {
        add(format!("OME-Zarr collection{version} (bioformats2raw)"));
    }
    words
}

/// `z, y, x (micrometer)`.
fn axes_text(axes: &[Axis]) -> String {
    let names: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
    let mut units: Vec<&str> = axes.iter().filter_map(|a| a.unit.as_deref()).collect();
    units.dedup();
    if units.is_empty() { names.join(", ") } else { format!("{} ({})", names.join(", "), units.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn both_places_of_multiscales_are_seen() {
        let inner = r#"{"name":"cells","axes":[{"name":"y","unit":"micrometer"},"x"],
            "datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,1]}]}]}"#;
        for (text, version) in [
            (format!(r#"{{"multiscales":[{inner}]}}"#), ""),
            (format!(r#"{{"ome":{{"version":"0.5","multiscales":[{inner}]}}}}"#), " 0.5"),
        ] {
            let found = words(&json(&text));
            assert_eq!(
                found[0].text,
                format!("OME-Zarr image{version} \"cells\": y, x (micrometer), 1 level")
            );
            assert_eq!(found[0].levels[0].scale, Some(vec![0.5, 1.0]));
        }
        assert!(words(&Json::object()).is_empty());
    }
}
