//! Validates `multiscales`: V1, V4, V22, and dispatch to axes and transformations.

use super::axes::{self, SeenAxis};
use super::report::{FindingLevel, FindingSink, OBJECT, STRING, Spot};
use super::systems::{self, ParameterNode};
use super::transforms;
use crate::image::version::ImageVersion;
use crate::meta::Json;

/// The key of transformations.
pub(super) const TRANSFORMS: &str = "coordinateTransformations";

/// The parsed content of a multiscale.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedPyramid {
    /// Its position in the document.
    pub(super) place: String,
    pub(super) axes: Vec<SeenAxis>,
    pub(super) levels: Vec<SeenLevel>,
    /// The names of its coordinate systems, with the number of their axes (0.6).
    pub(super) systems: Vec<(String, usize)>,
    /// Nodes that transformations refer to (0.6).
    pub(super) targets: Vec<ParameterNode>,
}

/// The parsed content of a level.
#[derive(Debug, Clone)]
pub(super) struct SeenLevel {
    /// The position of its path in the document.
    pub(super) place: String,
    pub(super) path: String,
    pub(super) placed: transforms::Placed,
}

/// `multiscales` of a group.
pub(super) fn multiscales(sink: &mut FindingSink, list: &Spot<'_>) -> Vec<CheckedPyramid> {
    let items = sink.some("V1", list, "a list with at least one multiscale").unwrap_or_default();
    for (i, item) in items.iter().enumerate() {
        if items.iter().take(i).any(|other| other.json == item.json) {
            sink.must("V1", item, "a duplicate multiscale", "each one once");
        }
    }
    items.iter().filter_map(|item| multiscale(sink, item)).collect()
}

fn multiscale(sink: &mut FindingSink, multiscale: &Spot<'_>) -> Option<CheckedPyramid> {
    if !sink.object("V1", multiscale, "an object with datasets") {
        return None;
    }
    let version = sink.judged.version;
    if version <= ImageVersion::V04 {
        version_of(sink, multiscale);
    }
    advice(sink, multiscale);
    let mut pyramid = CheckedPyramid { place: multiscale.place.clone(), ..CheckedPyramid::default() };
    let axes = multiscale.get("axes");
    pyramid.axes = match version {
        ImageVersion::Seed | ImageVersion::V01 | ImageVersion::V02 => axes::implied(),
        ImageVersion::V03 => axes::strings(sink, &axes),
        ImageVersion::V04 | ImageVersion::V05 => axes::objects(sink, &axes, true),
        ImageVersion::V06 => Vec::new(),
    };
    let datasets = datasets(sink, multiscale);
    if version >= ImageVersion::V06 {
        systems::multiscale(sink, multiscale, &datasets, &mut pyramid);
        return Some(pyramid);
    }
    let rank = Some(pyramid.axes.len()).filter(|n| *n > 0);
    for dataset in datasets {
        let placed = match version {
            ImageVersion::V04 | ImageVersion::V05 => {
                transforms::list(sink, "V16", &dataset.get(TRANSFORMS), rank)
            }
            _ => transforms::Placed::default(),
        };
        let path = dataset.get("path");
        if let Some(text) = path.text() {
            pyramid.levels.push(SeenLevel { path: text.to_owned(), place: path.place, placed });
        }
    }
    if version >= ImageVersion::V04 && multiscale.has(TRANSFORMS) {
        transforms::list(sink, "V17", &multiscale.get(TRANSFORMS), rank);
    }
    Some(pyramid)
}

/// V1: the datasets of a multiscale that are objects.
fn datasets<'a>(sink: &mut FindingSink, multiscale: &Spot<'a>) -> Vec<Spot<'a>> {
    let wanted = "a list with at least one dataset";
    let mut items = sink.some("V1", &multiscale.get("datasets"), wanted).unwrap_or_default();
    items.retain(|item| sink.object("V1", item, "an object with a path"));
    for item in &items {
        sink.text("V1", &item.get("path"), "the path of an array, a string");
    }
    items
}

/// V4: the version that an object states, up to 0.4.
pub(super) fn version_of(sink: &mut FindingSink, object: &Spot<'_>) {
    let spot = object.get("version");
    let wanted = sink.judged.version.text();
    match spot.json {
        None if sink.judged.version == ImageVersion::Seed => {}
        None => {
            sink.should("V4", &spot, "nothing", format!("{wanted:?}"));
            sink.fix(format!("add \"version\": {wanted:?}"));
        }
        Some(Json::String(text)) if text == wanted => {}
        Some(Json::String(text)) => match ImageVersion::parse(text) {
            Some(version) if version.text() == wanted => {
                sink.lint("V4", &spot, format!("{text:?}, a draft"), format!("{wanted:?}"));
            }
            _ => sink.must("V4", &spot, format!("{text:?}"), format!("{wanted:?}")),
        },
        Some(other) => {
            let found = format!("{}, {}", spot.show(), other.kind());
            sink.must("V4", &spot, found, format!("{wanted:?}, a string"));
            sink.fix(format!("write {wanted:?} in quotes"));
        }
    }
}

/// V22: what multiscales should have.
fn advice(sink: &mut FindingSink, multiscale: &Spot<'_>) {
    // The schemas have the type of `name`, and that of 0.1 the type of `metadata`.
    let metadata =
        if sink.judged.version == ImageVersion::V01 { FindingLevel::Must } else { FindingLevel::Should };
    sink.typed("V22", FindingLevel::Must, multiscale, &[("name", STRING)]);
    sink.typed("V22", metadata, multiscale, &[("metadata", OBJECT)]);
    sink.typed("V22", FindingLevel::Should, multiscale, &[("type", STRING)]);
    let missing: Vec<&str> =
        ["name", "type", "metadata"].into_iter().filter(|name| !multiscale.has(name)).collect();
    if !missing.is_empty() {
        let level =
            if sink.judged.version == ImageVersion::Seed { FindingLevel::Lint } else { FindingLevel::Should };
        let found = format!("no {}", missing.join(", no "));
        sink.add("V22", level, multiscale, found, "name, and type and metadata of the downsampling");
    }
}
