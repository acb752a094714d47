//! A short word on OME-Zarr images, from a group's attributes.

use zaro::meta::Json;

/// What the attributes of a group say of the image in it.
#[derive(Debug, PartialEq)]
pub(crate) struct Image {
    /// Its name, if it has one.
    pub(crate) name: Option<String>,
    /// The version of OME-Zarr.
    pub(crate) version: Option<String>,
    /// Its axes, with their units.
    pub(crate) axes: Vec<(String, Option<String>)>,
    /// The arrays from the largest to the smallest: path, and the scale of each axis.
    pub(crate) levels: Vec<(String, Option<Vec<f64>>)>,
}

impl Image {
    /// `OME-Zarr image 0.5 "cells": z, y, x (micrometer), 3 levels`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("OME-Zarr image");
        if let Some(version) = &self.version {
            text.push_str(&format!(" {version}"));
        }
        if let Some(name) = &self.name {
            text.push_str(&format!(" {name:?}"));
        }
        if !self.axes.is_empty() {
            text.push_str(&format!(": {}", axes_text(&self.axes)));
        }
        let n = self.levels.len();
        text.push_str(&format!(", {n} level{}", if n == 1 { "" } else { "s" }));
        text
    }
}

/// The images described by the attributes: `multiscales`, since version 0.5 below `ome`.
pub(crate) fn images(attributes: &Json) -> Vec<Image> {
    let ome = attributes.get("ome").unwrap_or(attributes);
    let all = ome.get("multiscales").and_then(Json::items).unwrap_or_default();
    let version = ome.get("version").and_then(Json::as_str);
    all.iter()
        .map(|m| Image {
            name: m
                .get("name")
                .and_then(Json::as_str)
                .filter(|n| !n.is_empty() && *n != "/")
                .map(str::to_owned),
            version: m.get("version").and_then(Json::as_str).or(version).map(str::to_owned),
            axes: m.get("axes").and_then(Json::items).unwrap_or_default().iter().filter_map(axis).collect(),
            levels: m
                .get("datasets")
                .and_then(Json::items)
                .unwrap_or_default()
                .iter()
                .filter_map(level)
                .collect(),
        })
        .collect()
}

fn axis(value: &Json) -> Option<(String, Option<String>)> {
    let name = value.as_str().or_else(|| value.get("name").and_then(Json::as_str))?;
    Some((name.to_owned(), value.get("unit").and_then(Json::as_str).map(str::to_owned)))
}

fn level(value: &Json) -> Option<(String, Option<Vec<f64>>)> {
    let path = value.get("path").and_then(Json::as_str)?;
    let steps = value.get("coordinateTransformations").and_then(Json::items).unwrap_or_default();
    let scale = steps.iter().find_map(|t| t.get("scale").and_then(Json::items));
    Some((path.to_owned(), scale.and_then(|s| s.iter().map(Json::as_f64).collect())))
}

/// `z, y, x (micrometer)`.
fn axes_text(axes: &[(String, Option<String>)]) -> String {
    let names: Vec<&str> = axes.iter().map(|(n, _)| n.as_str()).collect();
    let mut units: Vec<&str> = axes.iter().filter_map(|(_, u)| u.as_deref()).collect();
    units.dedup();
    if units.is_empty() { names.join(", ") } else { format!("{} ({})", names.join(", "), units.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_places_of_multiscales_are_seen() {
        let inner = r#"{"name":"cells","axes":[{"name":"y","unit":"micrometer"},"x"],
            "datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,1]}]}]}"#;
        for text in [
            format!(r#"{{"multiscales":[{inner}]}}"#),
            format!(r#"{{"ome":{{"version":"0.5","multiscales":[{inner}]}}}}"#),
        ] {
            let found = images(&Json::parse(text.as_bytes()).unwrap().value);
            assert_eq!(found[0].name.as_deref(), Some("cells"));
            assert_eq!(found[0].levels, [("0".to_owned(), Some(vec![0.5, 1.0]))]);
            assert_eq!(axes_text(&found[0].axes), "y, x (micrometer)");
        }
        assert!(images(&Json::object()).is_empty());
    }
}
