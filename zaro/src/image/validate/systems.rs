//! Coordinate systems of 0.6, how they hang together, and scenes: V37.

use super::Judged;
use super::axes;
use super::image::{Pyramid, SeenLevel};
use super::map::{self, Dimensions};
use super::report::{Sink, at, nth, quoted, show, show_or};
use super::transforms::Placed;
use crate::meta::Json;

pub(super) use super::map::Target;

/// A coordinate system that a transformation of a scene refers to in an image.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// Where in the document.
    pub(super) place: String,
    /// The path of the image.
    pub(super) path: String,
    /// The name of the system.
    pub(super) name: String,
}

const TRANSFORMS: &str = "coordinateTransformations";

/// The systems, levels and transformations of a multiscale.
pub(super) fn multiscale(
    sink: &mut Sink,
    json: &Json,
    place: &str,
    datasets: &[(String, &Json)],
    judged: Judged,
    pyramid: &mut Pyramid,
) {
    if json.get("axes").is_some() && json.get("coordinateSystems").is_none() {
        sink.must("V9", at(place, "axes"), "axes, as up to 0.5", "coordinateSystems with axes");
        sink.fix("zaro image upgrade --to 0.6");
        return;
    }
    let all = systems(sink, json.get("coordinateSystems"), &at(place, "coordinateSystems"), judged, true);
    pyramid.systems = all.iter().map(|(name, axes)| (name.clone(), axes.len())).collect();
    let mut intrinsic: Option<String> = None;
    let mut edges: Vec<(String, String)> = Vec::new();
    for (place, item) in datasets {
        let path = item.get("path").and_then(Json::as_str);
        let place_of = at(place, TRANSFORMS);
        let (placed, output) = dataset(sink, item.get(TRANSFORMS), &place_of, path, &pyramid.systems, judged);
        if let Some(output) = output {
            match &intrinsic {
                Some(first) if *first != output => {
                    let found = format!("{output:?}, where other levels have {first:?}");
                    sink.must(
                        "V37",
                        at(&nth(&place_of, 0), "output.name"),
                        found,
                        "one system for all levels",
                    );
                }
                Some(_) => {}
                None => intrinsic = Some(output),
            }
        }
        if let Some(path) = path {
            pyramid.levels.push(SeenLevel { place: at(place, "path"), path: path.to_owned(), placed });
        }
    }
    if let Some(name) = &intrinsic
        && let Some((_, axes)) = all.iter().find(|(n, _)| n == name)
    {
        pyramid.axes = axes.clone();
    } else if let Some((_, axes)) = all.first() {
        pyramid.axes = axes.clone();
    }
    if let Some(list) = json.get(TRANSFORMS) {
        let place = at(place, TRANSFORMS);
        for (i, item) in entries(sink, list, &place).into_iter().enumerate() {
            let place = nth(&place, i);
            let ends = ["input", "output"].map(|side| {
                let name = end_name(sink, item, side, &place)?;
                if !pyramid.systems.iter().any(|(n, _)| *n == name) {
                    let known = quoted(pyramid.systems.iter().map(|(n, _)| n));
                    let found = format!("{name:?}, which is no system here");
                    sink.must("V37", at(&place, &format!("{side}.name")), found, format!("one of {known}"));
                }
                Some(name)
            });
            if let ([Some(input), Some(output)], Some(intrinsic)) = (&ends, &intrinsic)
                && input != intrinsic
                && output != intrinsic
            {
                let found = format!("from {input:?} to {output:?}");
                sink.must(
                    "V37",
                    place.as_str(),
                    found,
                    format!("one end at the intrinsic system, {intrinsic:?}"),
                );
            }
            let size = |end: &Option<String>| {
                let end = end.as_ref()?;
                pyramid.systems.iter().find(|(n, _)| n == end).map(|(_, size)| *size)
            };
            let [input, output] = &ends;
            let dimensions = Dimensions { input: size(input), output: size(output) };
            map::check(sink, item, &place, dimensions, judged, &mut pyramid.targets);
            if let [Some(input), Some(output)] = ends {
                edges.push((input, output));
            }
        }
        names_are_unique(sink, list, &place);
    }
    let start = intrinsic.into_iter().collect();
    connected(sink, &pyramid.systems, &edges, start, &at(place, "coordinateSystems"));
}

/// Coordinate systems with their axes.
fn systems(
    sink: &mut Sink,
    json: Option<&Json>,
    place: &str,
    judged: Judged,
    image: bool,
) -> Vec<(String, Vec<axes::SeenAxis>)> {
    let Some(items) = json.and_then(Json::items).filter(|items| !items.is_empty() || !image) else {
        sink.must("V9", place, show_or(json), "a list of coordinate systems with axes");
        return Vec::new();
    };
    let mut all: Vec<(String, Vec<axes::SeenAxis>)> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let place = nth(place, i);
        if item.members().is_none() {
            sink.must("V37", place, show(item), "an object with name and axes");
            continue;
        }
        let seen = axes::objects(sink, item.get("axes"), &at(&place, "axes"), judged, image);
        match item.get("name").and_then(Json::as_str).filter(|name| !name.is_empty()) {
            None => sink.must("V37", at(&place, "name"), show_or(item.get("name")), "a name, a string"),
            Some(name) => {
                if all.iter().any(|(other, _)| other == name) {
                    sink.must("V37", at(&place, "name"), format!("{name:?} twice"), "a name of its own");
                }
                all.push((name.to_owned(), seen));
            }
        }
    }
    all
}

/// The transformation of a dataset, and the system it leads to.
fn dataset(
    sink: &mut Sink,
    json: Option<&Json>,
    place: &str,
    path: Option<&str>,
    systems: &[(String, usize)],
    judged: Judged,
) -> (Placed, Option<String>) {
    let Some([item]) = json.and_then(Json::items) else {
        let found = match json.and_then(Json::items) {
            Some(items) => format!("{} transformations", items.len()),
            None => show_or(json),
        };
        sink.must("V37", place, found, "a list of one transformation");
        return (Placed::default(), None);
    };
    let place = nth(place, 0);
    let input = at(&place, "input");
    match item.get("input").and_then(|i| i.get("path")).and_then(Json::as_str) {
        None => {
            sink.must("V37", input, show_or(item.get("input")), "an object with the path of the dataset");
            if let Some(path) = path {
                sink.fix(format!("write {{\"path\": {path:?}}}"));
            }
        }
        Some(text) if path.is_some_and(|p| p != text) => {
            let wanted = format!("{:?}, the path of the dataset", path.unwrap_or_default());
            sink.must("V37", at(&input, "path"), format!("{text:?}"), wanted);
        }
        Some(_) => {}
    }
    let output = end_name(sink, item, "output", &place);
    let size = output.as_ref().and_then(|name| {
        let found = systems.iter().find(|(n, _)| n == name);
        if found.is_none() {
            let known = quoted(systems.iter().map(|(n, _)| n));
            let wrong = format!("{name:?}, which is no system here");
            sink.must("V37", at(&place, "output.name"), wrong, format!("one of {known}"));
        }
        found.map(|(_, size)| *size)
    });
    let dimensions = Dimensions { input: size, output: size };
    let mut placed = Placed::default();
    let kind = |t: &Json| t.get("type").and_then(Json::as_str).map(str::to_owned);
    let numbers = |t: &Json, name: &str| -> Option<Vec<f64>> {
        t.get(name)?.items()?.iter().map(Json::as_f64).collect()
    };
    match kind(item).as_deref() {
        Some("identity") => placed.scale = size.map(|n| vec![1.0; n]),
        Some("scale") => placed.scale = numbers(item, "scale"),
        Some("sequence") => {
            let steps = item.get("transformations").and_then(Json::items).unwrap_or_default();
            let kinds: Vec<Option<String>> = steps.iter().map(kind).collect();
            let is_right = matches!(kinds.as_slice(),
                [Some(a), Some(b)] if a == "scale" && b == "translation");
            if !is_right {
                let found = kinds.iter().map(|k| k.as_deref().unwrap_or("?")).collect::<Vec<_>>().join(", ");
                let found = format!("a sequence of {}", if found.is_empty() { "nothing" } else { &found });
                sink.must("V37", at(&place, "transformations"), found, "a scale, then a translation");
            }
            if let [first, second] = steps {
                placed.scale = numbers(first, "scale");
                placed.translation = numbers(second, "translation");
            }
        }
        other => {
            let found = other.map_or_else(|| show_or(item.get("type")), str::to_owned);
            sink.must(
                "V37",
                at(&place, "type"),
                found,
                "scale, identity, or a sequence of scale and translation",
            );
            return (placed, output);
        }
    }
    map::check(sink, item, &place, dimensions, judged, &mut Vec::new());
    let fits = |v: &Vec<f64>| size.is_none_or(|n| v.len() == n);
    placed.scale = placed.scale.filter(fits);
    placed.translation = placed.translation.filter(fits);
    (placed, output)
}

/// The name of the system at one end of a transformation.
fn end_name(sink: &mut Sink, item: &Json, side: &str, place: &str) -> Option<String> {
    let end = item.get(side);
    match end.and_then(|e| e.get("name")).and_then(Json::as_str) {
        Some(name) => Some(name.to_owned()),
        None => {
            sink.must("V37", at(place, side), show_or(end), "an object with the name of a coordinate system");
            if let Some(name) = end.and_then(Json::as_str) {
                sink.fix(format!("write {{\"name\": {name:?}}}"));
            }
            None
        }
    }
}

/// The entries of a list of transformations.
fn entries<'a>(sink: &mut Sink, list: &'a Json, place: &str) -> Vec<&'a Json> {
    match list.items() {
        Some(items) if !items.is_empty() => items.iter().collect(),
        _ => {
            sink.must("V37", place, show(list), "a list with at least one transformation");
            Vec::new()
        }
    }
}

fn names_are_unique(sink: &mut Sink, list: &Json, place: &str) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, item) in list.items().unwrap_or_default().iter().enumerate() {
        let Some(name) = item.get("name") else { continue };
        let place = at(&nth(place, i), "name");
        match name.as_str() {
            None => sink.must("V37", place, show(name), "a string"),
            // The text forbids it, and the specification's own examples of scenes do it.
            Some(text) if seen.contains(&text) => {
                sink.should("V37", place, format!("{text:?} twice"), "a name of its own");
            }
            Some(text) => seen.push(text),
        }
    }
}

/// Says which systems cannot be reached from the first, or from those in `reached`.
fn connected(
    sink: &mut Sink,
    systems: &[(String, usize)],
    edges: &[(String, String)],
    mut reached: Vec<String>,
    place: &str,
) {
    if reached.is_empty() {
        reached.extend(systems.first().map(|(name, _)| name.clone()));
    }
    loop {
        let before = reached.len();
        for (a, b) in edges {
            let (has_a, has_b) = (reached.contains(a), reached.contains(b));
            if has_a && !has_b {
                reached.push(b.clone());
            } else if has_b && !has_a {
                reached.push(a.clone());
            }
        }
        if reached.len() == before {
            break;
        }
    }
    let lost: Vec<&String> = systems.iter().map(|(n, _)| n).filter(|n| !reached.contains(n)).collect();
    if !lost.is_empty() {
        let found = format!("{} without a transformation that leads there", quoted(lost));
        sink.must("V37", place, found, "all systems connected by transformations");
    }
}

/// `scene` of a group: the systems of images that it refers to, and nodes with parameters.
pub(super) fn scene(
    sink: &mut Sink,
    json: &Json,
    place: &str,
    judged: Judged,
) -> (Vec<Reference>, Vec<Target>) {
    let (mut references, mut targets) = (Vec::new(), Vec::new());
    if json.members().is_none() {
        sink.must("V37", place, show(json), "an object with coordinateTransformations");
        return (references, targets);
    }
    let own: Vec<(String, usize)> = match json.get("coordinateSystems") {
        None => Vec::new(),
        found => systems(sink, found, &at(place, "coordinateSystems"), judged, false)
            .into_iter()
            .map(|(name, axes)| (name, axes.len()))
            .collect(),
    };
    let list_place = at(place, TRANSFORMS);
    let Some(list) = json.get(TRANSFORMS) else {
        sink.must("V37", list_place, "nothing", "a list of transformations");
        return (references, targets);
    };
    let mut edges = Vec::new();
    // An image is one node of the graph: its systems are connected among themselves.
    let mut nodes: Vec<(String, usize)> = own.iter().map(|(name, n)| (format!("#{name}"), *n)).collect();
    for (i, item) in entries(sink, list, &list_place).into_iter().enumerate() {
        let place = nth(&list_place, i);
        let ends = ["input", "output"].map(|side| {
            let name = end_name(sink, item, side, &place)?;
            let end = item.get(side)?;
            let place = at(&place, side);
            let odd = end.members().unwrap_or_default().iter().find(|(k, _)| k != "name" && k != "path");
            if let Some((key, _)) = odd {
                sink.must("V37", at(&place, key), format!("the key {key:?}"), "name and path only");
            }
            match end.get("path") {
                None => {
                    let found = own.iter().find(|(n, _)| *n == name);
                    if found.is_none() {
                        let wrong = format!("{name:?}, which is no system of the scene");
                        sink.must("V37", at(&place, "name"), wrong, "a system of the scene, or a path");
                    }
                    Some((format!("#{name}"), found.map(|(_, n)| *n)))
                }
                Some(path) => match path.as_str() {
                    None => {
                        sink.must("V37", at(&place, "path"), show(path), "the path of an image, a string");
                        None
                    }
                    Some(path) => {
                        references.push(Reference { place, path: path.to_owned(), name });
                        nodes.push((path.to_owned(), 0));
                        Some((path.to_owned(), None))
                    }
                },
            }
        });
        let size = |end: &Option<(String, Option<usize>)>| end.as_ref().and_then(|(_, size)| *size);
        let dimensions = Dimensions { input: size(&ends[0]), output: size(&ends[1]) };
        map::check(sink, item, &place, dimensions, judged, &mut targets);
        if let [Some((a, _)), Some((b, _))] = ends {
            edges.push((a, b));
        }
    }
    names_are_unique(sink, list, &list_place);
    nodes.dedup();
    connected(sink, &nodes, &edges, Vec::new(), &list_place);
    (references, targets)
}
