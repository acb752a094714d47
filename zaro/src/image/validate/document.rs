//! Validates the attributes of one group: V2 to V4, and dispatch to all other rules on documents.

use super::hcs::{self, SeenPlate, SeenWell};
use super::image::{self, CheckedPyramid};
use super::report::{FindingSink, Spot};
use super::systems::{self, ParameterNode, Reference};
use super::{Judged, is_newer, labels, omero};
use crate::image::version::ImageVersion;
use crate::meta::{Format, Json};

/// The parsed content of a group's document.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The path of the OME metadata in the attributes: `ome`, or empty.
    pub(super) base: &'static str,
    pub(super) pyramids: Vec<CheckedPyramid>,
    pub(super) plate: Option<SeenPlate>,
    pub(super) well: Option<SeenWell>,
    /// Paths of labels with their positions in the document, if there is a list.
    pub(super) labels: Option<Vec<(String, String)>>,
    /// Whether there is a `bioformats2raw.layout`.
    pub(super) layout: bool,
    /// Paths of images with their positions in the document, if there is a list.
    pub(super) series: Option<Vec<(String, String)>>,
    pub(super) references: Vec<Reference>,
    pub(super) targets: Vec<ParameterNode>,
    /// `source.image` of a label image; the default if it has none.
    pub(super) source: Option<String>,
}

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

/// Whether attributes have any OME metadata.
pub(super) fn carries(attributes: &Json) -> bool {
    let has = |json: &Json| KEYS.iter().any(|key| json.get(key).is_some());
    has(attributes) || attributes.get("ome").is_some_and(has)
}

/// The object with the OME metadata, and its path: `ome` if it exists and has them, else empty.
pub(super) fn home(attributes: &Json) -> (&Json, &'static str) {
    match attributes.get("ome") {
        Some(ome @ Json::Object(_)) => (ome, "ome"),
        _ => (attributes, ""),
    }
}

/// Validates a group's attributes. `format` is the Zarr version, if there is a store; `root` the version that the root
/// of the hierarchy states, if this is not the root.
pub(super) fn group(
    sink: &mut FindingSink,
    attributes: &Json,
    format: Option<Format>,
    root: Option<&str>,
) -> Seen {
    let (ome, base) = home(attributes);
    envelope(sink, attributes, format, root);
    let mut seen = Seen { base, ..Seen::default() };
    let ome = Spot::new(ome, base);
    let there = |name: &str| Some(ome.get(name)).filter(Spot::is_some);
    if let Some(list) = there("multiscales") {
        seen.pyramids = image::multiscales(sink, &list);
    }
    if let Some(omero) = there("omero") {
        if !ome.has("multiscales") {
            let wanted = "multiscales beside it";
            sink.must("V1", &ome.get("multiscales"), "omero without multiscales", wanted);
        }
        omero::omero(sink, &omero);
    }
    if let Some(label) = there("image-label") {
        labels::image_label(sink, &label);
        seen.source = Some(label.get("source").get("image").text().unwrap_or("../../").to_owned());
    }
    if let Some(list) = there("labels") {
        seen.labels = paths(sink, "V25", &list);
    }
    seen.plate = there("plate").map(|plate| hcs::plate(sink, &plate));
    seen.well = there("well").map(|well| hcs::well(sink, &well));
    if let Some(layout) = there("bioformats2raw.layout") {
        seen.layout = true;
        if layout.number() != Some(3.0) {
            sink.wrong("V36", &layout, "the number 3");
            if layout.text() == Some("3") {
                sink.fix("write 3 without quotes");
            }
        }
    }
    if let Some(list) = there("series") {
        seen.series = paths(sink, "V36", &list);
    }
    if let Some(scene) = there("scene") {
        if sink.since(ImageVersion::V06) {
            (seen.references, seen.targets) = systems::scene(sink, &scene);
        } else {
            sink.lint("V37", &scene, "a scene", format!("no scene in {}", sink.judged.version));
        }
    }
    seen
}

/// A list of paths, with their positions in the document.
fn paths(sink: &mut FindingSink, rule: &'static str, list: &Spot<'_>) -> Option<Vec<(String, String)>> {
    let items = sink.items(rule, list, "a list of paths")?;
    let path = |item: Spot<'_>| {
        let text = sink.text(rule, &item, "a path, a string")?.to_owned();
        Some((item.place, text))
    };
    Some(items.into_iter().filter_map(path).collect())
}

/// V2 and V3: the location of the metadata, and the stated version.
fn envelope(sink: &mut FindingSink, attributes: &Json, format: Option<Format>, root: Option<&str>) {
    let version = sink.judged.version;
    let (text, zarr) = (version.text(), version.format());
    if let Some(format) = format.filter(|format| *format != zarr) {
        let found = format!("Zarr v{}", format.number());
        sink.must("V2", "", found, format!("Zarr v{}, as {text} requires", zarr.number()));
        sink.mend("image upgrade", "");
    }
    let ome = Spot::new(attributes.get("ome"), "ome");
    let outside: Vec<&str> = KEYS.into_iter().filter(|k| attributes.get(k).is_some()).collect();
    if version < ImageVersion::V05 {
        if ome.members().is_some() && outside.is_empty() {
            let wanted = format!("the metadata of {text} in the attributes themselves");
            sink.must("V2", &ome, "the key `ome`", wanted);
        }
        return;
    }
    if !ome.is_some() {
        let named = !outside.is_empty();
        let found =
            if named { format!("{} outside `ome`", outside.join(", ")) } else { "nothing".to_owned() };
        sink.must("V2", &ome, found, format!("an object `ome` with \"version\": {text:?}"));
        if named {
            sink.fix("move them into `ome`");
            sink.mend("image upgrade", "");
        }
        return;
    }
    if !sink.object("V2", &ome, "an object with a version") {
        return;
    }
    let stated = ome.get("version");
    match (stated.json, root) {
        (None, _) => {
            sink.must("V2", &stated, "nothing", format!("{:?}", root.unwrap_or(text)));
            sink.fix(format!("add \"version\": {:?} to `ome`", root.unwrap_or(text)));
        }
        (Some(Json::String(own)), Some(root)) if own != root => {
            let wanted = format!("{root:?}, as in the root of the hierarchy");
            sink.must("V3", &stated, format!("{own:?}"), wanted);
        }
        (Some(Json::String(own)), _) => version_text(sink, own),
        (Some(other), _) => {
            let found = format!("{}, {}", stated.show(), other.kind());
            sink.must("V2", &stated, found, format!("{text:?}, a string"));
            sink.fix(format!("write {text:?} in quotes"));
        }
    }
}

fn version_text(sink: &mut FindingSink, stated: &str) {
    let Judged { version: judged, newer } = sink.judged;
    let (text, found) = (judged.text(), format!("{stated:?}"));
    match ImageVersion::parse(stated) {
        // The schema lists release candidates, but not drafts.
        Some(version) if version == judged && (stated == text || stated.ends_with("rc0")) => {}
        Some(version) if version == judged => {
            sink.lint("V2", "ome.version", format!("{found}, a draft"), format!("{text:?}"));
        }
        None if is_newer(stated) && newer => {
            let wanted = format!("a version up to {text:?}; validated as that, except for its axes");
            sink.lint("V2", "ome.version", found, wanted);
        }
        _ => sink.must("V2", "ome.version", found, format!("{text:?}")),
    }
}
