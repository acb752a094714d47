//! The documents of images: V1, V4, V22, and what leads to axes and transformations.

use super::Judged;
use super::axes::{self, SeenAxis};
use super::report::{Level, Sink, at, nth, show, show_or};
use super::systems::{self, Target};
use super::transforms;
use crate::image::version::Version;
use crate::meta::Json;

/// A pyramid as far as it was understood.
#[derive(Debug, Clone, Default)]
pub(super) struct Pyramid {
    /// Where it is in the document.
    pub(super) place: String,
    pub(super) axes: Vec<SeenAxis>,
    pub(super) levels: Vec<SeenLevel>,
    /// The names of its coordinate systems, with the number of their axes (0.6).
    pub(super) systems: Vec<(String, usize)>,
    /// Nodes that transformations refer to (0.6).
    pub(super) targets: Vec<Target>,
}

/// A level as far as it was understood.
#[derive(Debug, Clone)]
pub(super) struct SeenLevel {
    /// Where its path is in the document.
    pub(super) place: String,
    pub(super) path: String,
    pub(super) placed: transforms::Placed,
}

/// `multiscales` of a group.
pub(super) fn multiscales(sink: &mut Sink, json: &Json, place: &str, judged: Judged) -> Vec<Pyramid> {
    let Some(items) = json.items().filter(|items| !items.is_empty()) else {
        sink.must("V1", place, show(json), "a list with at least one multiscale");
        return Vec::new();
    };
    for (i, item) in items.iter().enumerate() {
        if items.iter().take(i).any(|other| other == item) {
            sink.must("V1", nth(place, i), "the same multiscale once more", "each one once");
        }
    }
    items.iter().enumerate().filter_map(|(i, item)| multiscale(sink, item, &nth(place, i), judged)).collect()
}

fn multiscale(sink: &mut Sink, json: &Json, place: &str, judged: Judged) -> Option<Pyramid> {
    if json.members().is_none() {
        sink.must("V1", place, show(json), "an object with datasets");
        return None;
    }
    if judged.version <= Version::V04 {
        version_of(sink, json, place, judged);
    }
    advice(sink, json, place, judged);
    let mut pyramid = Pyramid { place: place.to_owned(), ..Pyramid::default() };
    pyramid.axes = match judged.version {
        Version::Seed | Version::V01 | Version::V02 => axes::implied(),
        Version::V03 => axes::strings(sink, json.get("axes"), &at(place, "axes")),
        Version::V04 | Version::V05 => {
            axes::objects(sink, json.get("axes"), &at(place, "axes"), judged, true)
        }
        Version::V06 => Vec::new(),
    };
    let items = datasets(sink, json, place);
    if judged.version >= Version::V06 {
        systems::multiscale(sink, json, place, &items, judged, &mut pyramid);
        return Some(pyramid);
    }
    let rank = Some(pyramid.axes.len()).filter(|n| *n > 0);
    for (place, item) in items {
        let placed = match judged.version {
            Version::V04 | Version::V05 => {
                let name = "coordinateTransformations";
                transforms::list(sink, "V16", item.get(name), &at(&place, name), rank, judged)
            }
            _ => transforms::Placed::default(),
        };
        if let Some(path) = item.get("path").and_then(Json::as_str) {
            pyramid.levels.push(SeenLevel { place: at(&place, "path"), path: path.to_owned(), placed });
        }
    }
    let name = "coordinateTransformations";
    if judged.version >= Version::V04
        && let Some(list) = json.get(name)
    {
        transforms::list(sink, "V17", Some(list), &at(place, name), rank, judged);
    }
    Some(pyramid)
}

/// V1: the datasets of a multiscale that are objects, with their places.
fn datasets<'a>(sink: &mut Sink, json: &'a Json, place: &str) -> Vec<(String, &'a Json)> {
    let place = at(place, "datasets");
    let Some(items) = json.get("datasets").and_then(Json::items).filter(|items| !items.is_empty()) else {
        sink.must("V1", place, show_or(json.get("datasets")), "a list with at least one dataset");
        return Vec::new();
    };
    let mut found = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let place = nth(&place, i);
        if item.members().is_none() {
            sink.must("V1", place, show(item), "an object with a path");
            continue;
        }
        if item.get("path").and_then(Json::as_str).is_none() {
            sink.must("V1", at(&place, "path"), show_or(item.get("path")), "the path of an array, a string");
        }
        found.push((place, item));
    }
    found
}

/// V4: the version that an object states, up to 0.4.
pub(super) fn version_of(sink: &mut Sink, json: &Json, place: &str, judged: Judged) {
    let place = at(place, "version");
    let wanted = judged.version.text();
    match json.get("version") {
        None if judged.version == Version::Seed => {}
        None => {
            sink.should("V4", place, "nothing", format!("{wanted:?}"));
            sink.fix(format!("add \"version\": {wanted:?}"));
        }
        Some(Json::String(text)) if text == wanted => {}
        Some(Json::String(text)) => match Version::parse(text) {
            Some(version) if version.text() == wanted => {
                sink.lint("V4", place, format!("{text:?}, a draft"), format!("{wanted:?}"));
            }
            _ => sink.must("V4", place, format!("{text:?}"), format!("{wanted:?}")),
        },
        Some(other) => {
            sink.must(
                "V4",
                place,
                format!("{}, {}", show(other), other.kind()),
                format!("{wanted:?}, a string"),
            );
            sink.fix(format!("write {wanted:?} in quotes"));
        }
    }
}

/// V22: what multiscales should have.
fn advice(sink: &mut Sink, json: &Json, place: &str, judged: Judged) {
    for (name, is_right, wanted) in [
        ("name", json.get("name").is_none_or(|v| v.as_str().is_some()), "a string"),
        ("metadata", json.get("metadata").is_none_or(|v| v.members().is_some()), "an object"),
        ("type", json.get("type").is_none_or(|v| v.as_str().is_some()), "a string"),
    ] {
        if is_right {
            continue;
        }
        // The schemas know the type of `name`, and 0.1's that of `metadata`.
        let is_must = name == "name" || (name == "metadata" && judged.version == Version::V01);
        let level = if is_must { Level::Must } else { Level::Should };
        sink.add("V22", level, at(place, name), show_or(json.get(name)), wanted);
    }
    let missing: Vec<&str> =
        ["name", "type", "metadata"].into_iter().filter(|name| json.get(name).is_none()).collect();
    if !missing.is_empty() {
        let level = if judged.version == Version::Seed { Level::Lint } else { Level::Should };
        let found = format!("no {}", missing.join(", no "));
        let wanted = "name, and type and metadata of the downsampling";
        sink.add("V22", level, place, found, wanted);
    }
}
