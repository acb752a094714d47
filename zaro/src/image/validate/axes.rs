//! Validates axes: V8 to V13.

use super::report::{BOOL, FindingLevel, FindingSink, STRING, Spot, nth, quoted};
use crate::image::model::{AxisKind, USUAL};
use crate::image::units;
use crate::image::version::ImageVersion;
use crate::meta::Json;

/// The parsed content of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenAxis {
    pub(super) name: Option<String>,
    /// Its type, stated or inferred from its name.
    kind: Option<String>,
}

impl SeenAxis {
    fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), kind: AxisKind::of_name(name).text().map(str::to_owned) }
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    /// Its rank in the order of axes.
    fn rank(&self) -> u8 {
        match self.kind.as_deref() {
            Some("time") => 0,
            Some("space" | "array") => 2,
            _ => 1,
        }
    }
}

/// The axes of versions without named axes.
pub(super) fn implied() -> Vec<SeenAxis> {
    USUAL.iter().map(|name| SeenAxis::named(name)).collect()
}

/// V8: the axes of 0.3.
pub(super) fn strings(sink: &mut FindingSink, axes: &Spot<'_>) -> Vec<SeenAxis> {
    let Some(items) = sink.items("V8", axes, "a list of axis names") else { return Vec::new() };
    if !(2..=5).contains(&items.len()) {
        sink.must("V8", axes, format!("{} of them", items.len()), "2 to 5 axes");
    }
    let mut last = None;
    for item in &items {
        let known = item.text().and_then(|name| USUAL.iter().position(|n| *n == name));
        match (known, last) {
            (None, _) => sink.wrong("V8", item, "one of t, c, z, y, x"),
            (Some(now), Some(before)) if now == before => {
                sink.must("V8", item, format!("{} twice", item.show()), "each axis once");
            }
            (Some(now), Some(before)) if now < before => {
                sink.must("V8", item, axes.show(), "axes in the order t, c, z, y, x");
            }
            _ => {}
        }
        last = known.or(last);
    }
    let names: Vec<&str> = items.iter().filter_map(Spot::text).collect();
    for (i, name) in names.iter().enumerate() {
        // Adjacent ones were compared above.
        if names.iter().take(i.saturating_sub(1)).any(|n| n == name) {
            sink.must("V8", nth(&axes.place, i), format!("{name:?} twice"), "each axis once");
        }
    }
    names.into_iter().map(SeenAxis::named).collect()
}

/// V9 to V13: the axes of 0.4 and later, of an image or of a coordinate system. `image` means that the rules of images
/// apply, not only those of coordinate systems.
pub(super) fn objects(sink: &mut FindingSink, axes: &Spot<'_>, image: bool) -> Vec<SeenAxis> {
    let Some(items) = sink.items("V9", axes, "a list of axes") else { return Vec::new() };
    let newer = sink.judged.newer;
    let fewest = if image && !newer { 2 } else { 1 };
    if items.len() < fewest || (items.len() > 5 && !newer) {
        let found = if items.len() == 1 { "1 axis".to_owned() } else { format!("{} axes", items.len()) };
        sink.must("V9", axes, found, format!("{fewest} to 5 axes"));
    }
    let mut seen: Vec<SeenAxis> = Vec::new();
    for item in items {
        let axis = one(sink, &item);
        if let Some(name) = &axis.name
            && seen.iter().any(|a| a.name.as_ref() == Some(name))
        {
            sink.must("V9", &item.get("name"), format!("{name:?} twice"), "a unique name");
        }
        seen.push(axis);
    }
    if !newer {
        kinds(sink, &seen, &axes.place, image);
    }
    seen
}

fn one(sink: &mut FindingSink, axis: &Spot<'_>) -> SeenAxis {
    if !sink.object("V9", axis, "an object with a name") {
        return SeenAxis { name: axis.text().map(str::to_owned), kind: None };
    }
    let name = axis.get("name");
    if name.text().is_none_or(|n| n.is_empty() && sink.since(ImageVersion::V06)) {
        sink.wrong("V9", &name, "the name of the axis, a string");
    }
    sink.typed("V10", FindingLevel::Must, axis, &[("type", STRING)]);
    if sink.since(ImageVersion::V06) {
        sink.typed("V9", FindingLevel::Must, axis, &[("discrete", BOOL), ("longName", STRING)]);
    }
    advice(sink, axis);
    SeenAxis { name: name.text().map(str::to_owned), kind: axis.get("type").text().map(str::to_owned) }
}

/// V12 and V13: recommended members of an axis.
fn advice(sink: &mut FindingSink, axis: &Spot<'_>) {
    let stated = axis.get("type");
    match stated.text() {
        None if !stated.is_some() => {
            sink.should("V12", &stated, "nothing", "a type: space, time or channel");
            if let Some(text) = axis.get("name").text().and_then(|name| AxisKind::of_name(name).text()) {
                sink.fix(format!("add \"type\": {text:?}"));
            }
        }
        None | Some("time" | "channel" | "space") => {}
        Some("array" | "coordinate" | "displacement" | "frequency") if sink.since(ImageVersion::V06) => {}
        Some(_) => sink.should("V12", &stated, stated.show(), "one of space, time, channel"),
    }
    let units = axis.get("units");
    if units.is_some() {
        sink.lint("V13", &units, format!("`units` ({})", units.show()), "`unit`");
        sink.fix("rename `units` to `unit`");
    }
    let (meant, word): (fn(&str) -> Option<String>, _) = match stated.text() {
        Some("space") => (units::length, "length"),
        Some("time") => (units::time, "time"),
        _ => return,
    };
    let unit = axis.get("unit");
    match unit.json {
        None => sink.should("V12", &unit, "nothing", format!("a unit of {word}")),
        // Some writers use null, which only the last schema forbids.
        Some(Json::Null) if !sink.since(ImageVersion::V06) => {
            sink.should("V12", &unit, "null", format!("a unit of {word}"));
        }
        Some(_) => match sink.text("V12", &unit, "a string") {
            Some(text) if meant(text).as_deref() != Some(text) => {
                sink.should("V12", &unit, format!("{text:?}"), format!("a UDUNITS-2 name of {word}"));
                if let Some(name) = meant(text) {
                    sink.fix(format!("write {name:?}"));
                }
            }
            _ => {}
        },
    }
}

/// V10, V11, and the order of V12.
fn kinds(sink: &mut FindingSink, seen: &[SeenAxis], place: &str, image: bool) {
    let count = |kind: &str| seen.iter().filter(|a| a.is(kind)).count();
    let arrays = count("array");
    if sink.since(ImageVersion::V06) && arrays > 0 && arrays == seen.len() {
        return;
    }
    let space = count("space");
    // A coordinate system of a field or a table of values need not be that of an image.
    if !(2..=3).contains(&space) {
        let found = format!("{space} of type space");
        sink.must("V10", place, found, "2 or 3 axes of type space");
        let named = ["z", "y", "x"];
        let untyped = seen.iter().filter(|a| a.kind.is_none());
        let lacking: Vec<&str> =
            untyped.filter_map(|a| a.name.as_deref()).filter(|n| named.contains(n)).collect();
        if !lacking.is_empty() {
            sink.fix(format!("give {} the type space", lacking.join(", ")));
        }
    }
    let time = count("time");
    if time > 1 {
        sink.must("V10", place, format!("{time} of type time"), "at most one axis of type time");
    }
    let others = seen.len().saturating_sub(space).saturating_sub(time);
    if others > 1 && image {
        let found = format!("{others} of neither type time nor space");
        sink.must("V10", place, found, "at most one axis of type channel, of another type or without a type");
    }
    let ranks: Vec<u8> = seen.iter().map(SeenAxis::rank).collect();
    if !ranks.is_sorted() {
        let names: Vec<&str> = seen.iter().map(|a| a.name.as_deref().unwrap_or("?")).collect();
        sink.must("V11", place, names.join(", "), "time first, then channel or other, then space");
    }
    let names: Vec<&str> = seen.iter().filter(|a| a.is("space")).filter_map(|a| a.name.as_deref()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    if sorted == ["x", "y", "z"] && names != ["z", "y", "x"] {
        sink.should("V12", place, quoted(&names), "spatial axes in the order z, y, x");
    }
}
