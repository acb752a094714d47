//! One group's document: V2 to V4, and what leads to all other rules of documents.

use super::hcs::{self, SeenPlate, SeenWell};
use super::image::{self, Pyramid};
use super::report::{Level, Sink, at, nth, show, show_or};
use super::systems::{self, Reference, Target};
use super::{Judged, is_newer, labels, omero};
use crate::image::version::Version;
use crate::meta::{Format, Json};

/// What was understood of a group's document.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Where OME's metadata are in the attributes: `ome`, or empty.
    pub(super) base: &'static str,
    pub(super) pyramids: Vec<Pyramid>,
    pub(super) plate: Option<SeenPlate>,
    pub(super) well: Option<SeenWell>,
    /// Paths of labels with their places, if there is a list.
    pub(super) labels: Option<Vec<(String, String)>>,
    /// Whether there is a `bioformats2raw.layout`.
    pub(super) layout: bool,
    /// Paths of images with their places, if there is a list.
    pub(super) series: Option<Vec<(String, String)>>,
    pub(super) references: Vec<Reference>,
    pub(super) targets: Vec<Target>,
    /// `source.image` of a label image; the default if it has none.
    pub(super) source: Option<String>,
}

/// The keys of OME's metadata.
const KEYS: [&str; 9] = [
    "multiscales",
    "plate",
    "well",
    "labels",
    "image-label",
    "bioformats2raw.layout",
    "series",
    "scene",
    "omero",
];

/// Whether attributes have any of OME's metadata.
pub(super) fn carries(attributes: &Json) -> bool {
    let has = |json: &Json| KEYS.iter().any(|key| json.get(key).is_some());
    has(attributes) || attributes.get("ome").is_some_and(has)
}

/// The object with OME's metadata, and its place: `ome` if that is there and it is what has them.
pub(super) fn home(attributes: &Json) -> (&Json, &'static str) {
    match attributes.get("ome") {
        Some(ome @ Json::Object(_)) => (ome, "ome"),
        _ => (attributes, ""),
    }
}

/// Checks a group's attributes. `format` is the version of Zarr, if there is a store; `root` the version that the top
/// of the hierarchy states, if this is not the top.
pub(super) fn group(
    sink: &mut Sink,
    attributes: &Json,
    judged: Judged,
    format: Option<Format>,
    root: Option<&str>,
) -> Seen {
    let (ome, base) = home(attributes);
    envelope(sink, attributes, judged, format, root);
    let mut seen = Seen { base, ..Seen::default() };
    let place = |name: &str| at(base, name);
    if let Some(json) = ome.get("multiscales") {
        seen.pyramids = image::multiscales(sink, json, &place("multiscales"), judged);
    }
    if let Some(json) = ome.get("omero") {
        if ome.get("multiscales").is_none() {
            sink.must(
                "V1",
                place("multiscales"),
                "omero without multiscales",
                "the multiscales that it describes",
            );
        }
        omero::omero(sink, json, &place("omero"), judged);
    }
    if let Some(json) = ome.get("image-label") {
        labels::image_label(sink, json, &place("image-label"), judged);
        let source = json.get("source").and_then(|s| s.get("image"));
        seen.source = Some(source.and_then(Json::as_str).unwrap_or("../../").to_owned());
    }
    if let Some(json) = ome.get("labels") {
        seen.labels = paths(sink, "V25", json, &place("labels"));
    }
    if let Some(json) = ome.get("plate") {
        seen.plate = Some(hcs::plate(sink, json, &place("plate"), judged));
    }
    if let Some(json) = ome.get("well") {
        seen.well = Some(hcs::well(sink, json, &place("well"), judged));
    }
    if let Some(json) = ome.get("bioformats2raw.layout") {
        seen.layout = true;
        if json.as_f64() != Some(3.0) {
            sink.must("V36", place("bioformats2raw.layout"), show(json), "the number 3");
            if json.as_str() == Some("3") {
                sink.fix("write 3 without quotes");
            }
        }
    }
    if let Some(json) = ome.get("series") {
        seen.series = paths(sink, "V36", json, &place("series"));
    }
    if let Some(json) = ome.get("scene") {
        if judged.version >= Version::V06 {
            (seen.references, seen.targets) = systems::scene(sink, json, &place("scene"), judged);
        } else {
            sink.lint("V37", place("scene"), "a scene", format!("nothing: {} has no scenes", judged.version));
        }
    }
    seen
}

/// A list of paths, with their places.
fn paths(sink: &mut Sink, rule: &'static str, json: &Json, place: &str) -> Option<Vec<(String, String)>> {
    let Some(items) = json.items() else {
        sink.must(rule, place, show(json), "a list of paths");
        return None;
    };
    let mut found = Vec::new();
    for (i, item) in items.iter().enumerate() {
        match item.as_str() {
            Some(path) => found.push((nth(place, i), path.to_owned())),
            None => sink.must(rule, nth(place, i), show(item), "a path, a string"),
        }
    }
    Some(found)
}

/// V2 and V3: where the metadata are, and of which version they say they are.
fn envelope(sink: &mut Sink, attributes: &Json, judged: Judged, format: Option<Format>, root: Option<&str>) {
    let text = judged.version.text();
    let zarr = judged.version.format();
    if let Some(format) = format
        && format != zarr
    {
        let found = format!("Zarr v{}", format.number());
        sink.must("V2", "", found, format!("Zarr v{}, in which {text} is written", zarr.number()));
        sink.fix("zaro image upgrade");
    }
    let ome = attributes.get("ome");
    if judged.version < Version::V05 {
        if ome.is_some_and(|o| o.members().is_some()) && !KEYS.iter().any(|k| attributes.get(k).is_some()) {
            sink.must(
                "V2",
                "ome",
                "the key `ome`",
                format!("the metadata of {text} in the attributes themselves"),
            );
        }
        return;
    }
    let Some(ome) = ome.filter(|o| o.members().is_some()) else {
        if let Some(ome) = ome {
            sink.must("V2", "ome", show(ome), "an object with a version");
        } else {
            let keys: Vec<&str> = KEYS.into_iter().filter(|k| attributes.get(k).is_some()).collect();
            let found = if keys.is_empty() {
                "nothing".to_owned()
            } else {
                format!("{} outside `ome`", keys.join(", "))
            };
            sink.must("V2", "ome", found, format!("an object `ome` with \"version\": {text:?}"));
            if !keys.is_empty() {
                sink.fix("move them into `ome`, or: zaro image upgrade");
            }
        }
        return;
    };
    match ome.get("version") {
        None => {
            sink.must("V2", "ome.version", "nothing", format!("{:?}", root.unwrap_or(text)));
            sink.fix(format!("add \"version\": {:?} to `ome`", root.unwrap_or(text)));
        }
        Some(Json::String(stated)) => match root {
            Some(root) if stated != root => {
                let found = format!("{stated:?}");
                sink.must("V3", "ome.version", found, format!("{root:?}, as at the top of the hierarchy"));
            }
            _ => version_text(sink, stated, judged),
        },
        Some(other) => {
            let found = format!("{}, {}", show_or(Some(other)), other.kind());
            sink.must("V2", "ome.version", found, format!("{text:?}, a string"));
            sink.fix(format!("write {text:?} in quotes"));
        }
    }
}

fn version_text(sink: &mut Sink, stated: &str, judged: Judged) {
    let text = judged.version.text();
    let found = format!("{stated:?}");
    match Version::parse(stated) {
        Some(version) if version == judged.version => {
            if stated != text {
                // Release candidates are in the schema's list, drafts are not.
                let level = if stated.ends_with("rc0") { None } else { Some(Level::Lint) };
                if let Some(level) = level {
                    sink.add("V2", level, "ome.version", format!("{found}, a draft"), format!("{text:?}"));
                }
            }
        }
        None if is_newer(stated) && judged.newer => {
            let wanted = format!("a version up to {text:?}; judged as that, but for its axes");
            sink.lint("V2", "ome.version", found, wanted);
        }
        _ => sink.must("V2", "ome.version", found, format!("{text:?}")),
    }
}
