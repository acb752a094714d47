//! Validates coordinate systems of 0.6, their connections, and scenes: V37.

use super::axes;
use super::image::{CheckedPyramid, SeenLevel, TRANSFORMS};
use super::map::{self, Dimensions};
use super::report::{FindingSink, Spot, at, nth, quoted};
use super::transforms::Placed;
use crate::error::Hint;

pub(super) use super::map::ParameterNode;

/// A coordinate system of an image that a transformation of a scene refers to.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) place: String,
    pub(super) path: String,
    pub(super) name: String,
}

/// The coordinate systems, levels and transformations of a multiscale.
pub(super) fn multiscale(
    sink: &mut FindingSink,
    multiscale: &Spot<'_>,
    datasets: &[Spot<'_>],
    pyramid: &mut CheckedPyramid,
) {
    if multiscale.has("axes") && !multiscale.has("coordinateSystems") {
        sink.must("V9", &multiscale.get("axes"), "axes, as up to 0.5", "coordinateSystems with axes");
        sink.mend_by(Hint::operation("image upgrade", "").with("to").set_to("0.6"));
        return;
    }
    let all = systems(sink, &multiscale.get("coordinateSystems"), true);
    pyramid.systems = all.iter().map(|(name, axes)| (name.clone(), axes.len())).collect();
    let mut intrinsic: Option<String> = None;
    for dataset in datasets {
        let path = dataset.get("path");
        let list = dataset.get(TRANSFORMS);
        let (placed, output) = level(sink, &list, path.text(), &pyramid.systems);
        match (&intrinsic, output) {
            (Some(first), Some(output)) if *first != output => {
                let found = format!("{output:?}, but other levels have {first:?}");
                let place = at(&nth(&list.place, 0), "output.name");
                sink.must("V37", place, found, "one coordinate system for all levels");
            }
            (None, Some(output)) => intrinsic = Some(output),
            _ => {}
        }
        if let Some(text) = path.text() {
            pyramid.levels.push(SeenLevel { path: text.to_owned(), place: path.place, placed });
        }
    }
    let axes = all.iter().find(|(name, _)| intrinsic.as_ref() == Some(name)).or(all.first());
    if let Some((_, axes)) = axes {
        pyramid.axes = axes.clone();
    }
    let mut edges: Vec<(String, String)> = Vec::new();
    let list = multiscale.get(TRANSFORMS);
    if list.is_some() {
        for item in entries(sink, &list) {
            let ends = ["input", "output"].map(|side| {
                let name = end_name(sink, &item, side)?;
                let size = known(sink, &name, &item.get(side).get("name"), &pyramid.systems);
                Some((name, size))
            });
            if let ([Some((input, _)), Some((output, _))], Some(intrinsic)) = (&ends, &intrinsic)
                && input != intrinsic
                && output != intrinsic
            {
                let found = format!("from {input:?} to {output:?}");
                let wanted = format!("the intrinsic system {intrinsic:?} as input or output");
                sink.must("V37", &item, found, wanted);
            }
            edges.extend(transformation(sink, &item, ends, &mut pyramid.targets));
        }
        names_are_unique(sink, &list);
    }
    let start = intrinsic.into_iter().collect();
    connected(sink, &pyramid.systems, &edges, start, &multiscale.get("coordinateSystems").place);
}

/// Validates a transformation between two coordinate systems, and returns their names.
fn transformation(
    sink: &mut FindingSink,
    map: &Spot<'_>,
    ends: [Option<(String, Option<usize>)>; 2],
    targets: &mut Vec<ParameterNode>,
) -> Option<(String, String)> {
    let [input, output] = ends.each_ref().map(|end| end.as_ref().and_then(|(_, size)| *size));
    map::check(sink, map, Dimensions { input, output }, targets);
    let [input, output] = ends;
    Some((input?.0, output?.0))
}

/// The number of axes of the coordinate system `name`; a finding if it does not exist.
fn known(sink: &mut FindingSink, name: &str, spot: &Spot<'_>, systems: &[(String, usize)]) -> Option<usize> {
    let found = systems.iter().find(|(n, _)| n == name).map(|(_, size)| *size);
    if found.is_none() {
        let wanted = format!("one of {}", quoted(systems.iter().map(|(n, _)| n)));
        sink.must("V37", spot, format!("{name:?}, which is not a coordinate system here"), wanted);
    }
    found
}

fn systems(sink: &mut FindingSink, list: &Spot<'_>, image: bool) -> Vec<(String, Vec<axes::SeenAxis>)> {
    let wanted = "a list of coordinate systems with axes";
    let items = if image { sink.some("V9", list, wanted) } else { sink.items("V9", list, wanted) };
    let mut all: Vec<(String, Vec<axes::SeenAxis>)> = Vec::new();
    for item in items.unwrap_or_default() {
        if !sink.object("V37", &item, "an object with name and axes") {
            continue;
        }
        let seen = axes::objects(sink, &item.get("axes"), image);
        let spot = item.get("name");
        match spot.text().filter(|name| !name.is_empty()) {
            None => sink.wrong("V37", &spot, "a name, a string"),
            Some(name) => {
                if all.iter().any(|(other, _)| other == name) {
                    sink.must("V37", &spot, format!("{name:?} twice"), "a unique name");
                }
                all.push((name.to_owned(), seen));
            }
        }
    }
    all
}

/// The transformation of a dataset, and its output coordinate system.
fn level(
    sink: &mut FindingSink,
    list: &Spot<'_>,
    path: Option<&str>,
    systems: &[(String, usize)],
) -> (Placed, Option<String>) {
    let Some([item]) = list.items() else {
        let found =
            list.items().map_or_else(|| list.show(), |items| format!("{} transformations", items.len()));
        sink.must("V37", list, found, "a list of one transformation");
        return (Placed::default(), None);
    };
    let item = Spot::new(item, nth(&list.place, 0));
    let input = item.get("input");
    match input.get("path").text() {
        None => {
            sink.wrong("V37", &input, "an object with the path of the dataset");
            if let Some(path) = path {
                sink.fix(format!("write {{\"path\": {path:?}}}"));
            }
        }
        Some(text) if path.is_some_and(|p| p != text) => {
            let wanted = format!("{:?}, the path of the dataset", path.unwrap_or_default());
            sink.must("V37", &input.get("path"), format!("{text:?}"), wanted);
        }
        Some(_) => {}
    }
    let output = end_name(sink, &item, "output");
    let size = output.as_ref().and_then(|name| known(sink, name, &item.get("output").get("name"), systems));
    let mut placed = Placed::default();
    let kind = item.get("type");
    match kind.text() {
        Some("identity") => placed.scale = size.map(|n| vec![1.0; n]),
        Some("scale") => placed.scale = item.get("scale").numbers(),
        Some("sequence") => {
            let list = item.get("transformations");
            let steps: Vec<Spot<'_>> =
                list.items().unwrap_or_default().iter().map(|s| Spot::new(s, "")).collect();
            let kinds: Vec<&str> = steps.iter().map(|s| s.get("type").text().unwrap_or("?")).collect();
            if kinds != ["scale", "translation"] {
                let found = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
                sink.must("V37", &list, format!("a sequence of {found}"), "a scale, then a translation");
            }
            if let [first, second] = steps.as_slice() {
                placed.scale = first.get("scale").numbers();
                placed.translation = second.get("translation").numbers();
            }
        }
        other => {
            let found = other.map_or_else(|| kind.show(), str::to_owned);
            sink.must("V37", &kind, found, "scale, identity, or a sequence of scale and translation");
            return (placed, output);
        }
    }
    map::check(sink, &item, Dimensions { input: size, output: size }, &mut Vec::new());
    let fits = |v: &Vec<f64>| size.is_none_or(|n| v.len() == n);
    placed.scale = placed.scale.filter(fits);
    placed.translation = placed.translation.filter(fits);
    (placed, output)
}

/// The name of the input or output coordinate system of a transformation.
fn end_name(sink: &mut FindingSink, map: &Spot<'_>, side: &str) -> Option<String> {
    let end = map.get(side);
    let name = end.get("name").text();
    if name.is_none() {
        sink.wrong("V37", &end, "an object with the name of a coordinate system");
        if let Some(name) = end.text() {
            sink.fix(format!("write {{\"name\": {name:?}}}"));
        }
    }
    name.map(str::to_owned)
}

/// The entries of a list of transformations.
fn entries<'a>(sink: &mut FindingSink, list: &Spot<'a>) -> Vec<Spot<'a>> {
    sink.some("V37", list, "a list with at least one transformation").unwrap_or_default()
}

fn names_are_unique(sink: &mut FindingSink, list: &Spot<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, item) in list.items().unwrap_or_default().iter().enumerate() {
        let name = Spot::new(item.get("name"), at(&nth(&list.place, i), "name"));
        if !name.is_some() {
            continue;
        }
        match sink.text("V37", &name, "a string") {
            // The specification forbids it, but its own examples of scenes do it.
            Some(text) if seen.contains(&text) => {
                sink.should("V37", &name, format!("{text:?} twice"), "a unique name");
            }
            text => seen.extend(text),
        }
    }
}

/// Reports coordinate systems that cannot be reached from the first, or from those in `reached`.
fn connected(
    sink: &mut FindingSink,
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
            if has_a != has_b {
                reached.push(if has_a { b } else { a }.clone());
            }
        }
        if reached.len() == before {
            break;
        }
    }
    let lost: Vec<&String> = systems.iter().map(|(n, _)| n).filter(|n| !reached.contains(n)).collect();
    if !lost.is_empty() {
        let found = format!("no transformation to {}", quoted(lost));
        sink.must("V37", place, found, "all coordinate systems connected by transformations");
    }
}

/// `scene` of a group: the coordinate systems of images that it refers to, and nodes with parameters.
pub(super) fn scene(sink: &mut FindingSink, scene: &Spot<'_>) -> (Vec<Reference>, Vec<ParameterNode>) {
    let (mut references, mut targets) = (Vec::new(), Vec::new());
    if !sink.object("V37", scene, "an object with coordinateTransformations") {
        return (references, targets);
    }
    let list = scene.get("coordinateSystems");
    let own = if list.is_some() { systems(sink, &list, false) } else { Vec::new() };
    let list = scene.get(TRANSFORMS);
    if !list.is_some() {
        sink.must("V37", &list, "nothing", "a list of transformations");
        return (references, targets);
    }
    let mut edges = Vec::new();
    // An image is one node of the graph: its coordinate systems are connected with each other.
    let mut nodes: Vec<(String, usize)> =
        own.iter().map(|(name, axes)| (format!("#{name}"), axes.len())).collect();
    for item in entries(sink, &list) {
        let ends = ["input", "output"].map(|side| {
            let name = end_name(sink, &item, side)?;
            let end = item.get(side);
            let odd = end.members().unwrap_or_default().iter().find(|(k, _)| k != "name" && k != "path");
            if let Some((key, _)) = odd {
                sink.must("V37", &end.get(key), format!("the key {key:?}"), "name and path only");
            }
            let path = end.get("path");
            if !path.is_some() {
                let found = own.iter().find(|(n, _)| *n == name);
                if found.is_none() {
                    let wrong = format!("{name:?}, which is not a coordinate system of the scene");
                    sink.must("V37", &end.get("name"), wrong, "a coordinate system of the scene, or a path");
                }
                return Some((format!("#{name}"), found.map(|(_, axes)| axes.len())));
            }
            let path = sink.text("V37", &path, "the path of an image, a string")?;
            references.push(Reference { place: end.place, path: path.to_owned(), name });
            nodes.push((path.to_owned(), 0));
            Some((path.to_owned(), None))
        });
        edges.extend(transformation(sink, &item, ends, &mut targets));
    }
    names_are_unique(sink, &list);
    nodes.dedup();
    connected(sink, &nodes, &edges, Vec::new(), &list.place);
    (references, targets)
}
