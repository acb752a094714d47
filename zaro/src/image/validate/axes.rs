//! Axes: V8 to V13.

use super::report::{BOOL, Level, STRING, Sink, Spot, nth, quoted};
use crate::image::model::AxisKind;
use crate::image::units;
use crate::image::version::Version;
use crate::meta::Json;

/// An axis as far as it was understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenAxis {
    pub(super) name: Option<String>,
    pub(super) kind: Kind,
}

/// What an axis says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Time,
    Channel,
    Space,
    /// `array`, of 0.6.
    Array,
    Custom,
    Untyped,
}

impl Kind {
    fn of(text: Option<&str>) -> Self {
        match text {
            Some("time") => Self::Time,
            Some("channel") => Self::Channel,
            Some("space") => Self::Space,
            Some("array") => Self::Array,
            Some(_) => Self::Custom,
            None => Self::Untyped,
        }
    }

    fn of_name(name: &str) -> Self {
        match AxisKind::of_name(name) {
            AxisKind::Time => Self::Time,
            AxisKind::Channel => Self::Channel,
            AxisKind::Space => Self::Space,
            AxisKind::Other => Self::Custom,
        }
    }

    /// Its place in the order of axes.
    fn rank(self) -> u8 {
        match self {
            Self::Time => 0,
            Self::Channel | Self::Custom | Self::Untyped => 1,
            Self::Space | Self::Array => 2,
        }
    }
}

/// The order of axes that the first versions know.
pub(super) const TCZYX: [&str; 5] = ["t", "c", "z", "y", "x"];

/// The axes of versions that name none.
pub(super) fn implied() -> Vec<SeenAxis> {
    TCZYX.iter().map(|n| SeenAxis { name: Some((*n).to_owned()), kind: Kind::of_name(n) }).collect()
}

/// V8: the axes of 0.3.
pub(super) fn strings(sink: &mut Sink, axes: &Spot<'_>) -> Vec<SeenAxis> {
    let Some(items) = sink.items("V8", axes, "a list of axis names") else { return Vec::new() };
    if !(2..=5).contains(&items.len()) {
        sink.must("V8", axes, format!("{} of them", items.len()), "2 to 5 axes");
    }
    let mut last = None;
    for item in &items {
        let known = item.text().and_then(|name| TCZYX.iter().position(|n| *n == name));
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
        // Neighbours were compared above.
        if names.iter().take(i.saturating_sub(1)).any(|n| n == name) {
            sink.must("V8", nth(&axes.place, i), format!("{name:?} twice"), "each axis once");
        }
    }
    names.iter().map(|name| SeenAxis { name: Some((*name).to_owned()), kind: Kind::of_name(name) }).collect()
}

/// V9 to V13: the axes of 0.4 and later, of an image or of a coordinate system. `image` says that the rules of images
/// hold, not only those of systems.
pub(super) fn objects(sink: &mut Sink, axes: &Spot<'_>, image: bool) -> Vec<SeenAxis> {
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
            sink.must("V9", &item.get("name"), format!("{name:?} twice"), "a name of its own");
        }
        seen.push(axis);
    }
    if !newer {
        kinds(sink, &seen, &axes.place, image);
    }
    seen
}

fn one(sink: &mut Sink, axis: &Spot<'_>) -> SeenAxis {
    if !sink.object("V9", axis, "an object with a name") {
        return SeenAxis { name: axis.text().map(str::to_owned), kind: Kind::Untyped };
    }
    let name = axis.get("name");
    if name.text().is_none_or(|n| n.is_empty() && sink.since(Version::V06)) {
        sink.wrong("V9", &name, "the axis' name, a string");
    }
    sink.typed("V10", Level::Must, axis, &[("type", STRING)]);
    if sink.since(Version::V06) {
        sink.typed("V9", Level::Must, axis, &[("discrete", BOOL), ("longName", STRING)]);
    }
    let kind = Kind::of(axis.get("type").text());
    advice(sink, axis, kind);
    SeenAxis { name: name.text().map(str::to_owned), kind }
}

/// V12 and V13: what an axis should have besides.
fn advice(sink: &mut Sink, axis: &Spot<'_>, kind: Kind) {
    let stated = axis.get("type");
    let more = ["coordinate", "displacement", "frequency"];
    match kind {
        Kind::Untyped if !stated.is_some() => {
            sink.should("V12", &stated, "nothing", "a type: space, time or channel");
            if let Some(text) = axis.get("name").text().and_then(|name| AxisKind::of_name(name).text()) {
                sink.fix(format!("add \"type\": {text:?}"));
            }
        }
        Kind::Custom if sink.since(Version::V06) && stated.text().is_some_and(|t| more.contains(&t)) => {}
        Kind::Array if sink.since(Version::V06) => {}
        Kind::Custom | Kind::Array => {
            sink.should("V12", &stated, stated.show(), "one of space, time, channel");
        }
        Kind::Untyped | Kind::Time | Kind::Channel | Kind::Space => {}
    }
    let units = axis.get("units");
    if units.is_some() {
        sink.lint("V13", &units, format!("`units` ({})", units.show()), "`unit`");
        sink.fix("rename `units` to `unit`");
    }
    let (meant, word): (fn(&str) -> Option<String>, _) = match kind {
        Kind::Space => (units::length, "length"),
        Kind::Time => (units::time, "time"),
        _ => return,
    };
    let unit = axis.get("unit");
    match unit.json {
        None => sink.should("V12", &unit, "nothing", format!("a unit of {word}")),
        // Some writers say null for none, which only the last schema forbids.
        Some(Json::Null) if !sink.since(Version::V06) => {
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
fn kinds(sink: &mut Sink, seen: &[SeenAxis], place: &str, image: bool) {
    let count = |wanted: &[Kind]| seen.iter().filter(|a| wanted.contains(&a.kind)).count();
    let arrays = count(&[Kind::Array]);
    if sink.since(Version::V06) && arrays > 0 && arrays == seen.len() {
        return;
    }
    let space = count(&[Kind::Space]);
    // A system that holds a field or a table of values need not be an image.
    if !(2..=3).contains(&space) {
        let found = format!("{space} of type space");
        sink.must("V10", place, found, "2 or 3 axes of type space");
        let named = ["z", "y", "x"];
        let untyped = seen.iter().filter(|a| a.kind == Kind::Untyped);
        let lacking: Vec<&str> =
            untyped.filter_map(|a| a.name.as_deref()).filter(|n| named.contains(n)).collect();
        if !lacking.is_empty() {
            sink.fix(format!("give {} the type space", lacking.join(", ")));
        }
    }
    let time = count(&[Kind::Time]);
    if time > 1 {
        sink.must("V10", place, format!("{time} of type time"), "at most one axis of type time");
    }
    let others = count(&[Kind::Channel, Kind::Custom, Kind::Untyped, Kind::Array]);
    if others > 1 && image {
        let found = format!("{others} that are neither time nor space");
        sink.must("V10", place, found, "at most one axis of type channel, of another type or of none");
    }
    let ranks: Vec<u8> = seen.iter().map(|a| a.kind.rank()).collect();
    if !ranks.is_sorted() {
        let names = seen.iter().map(|a| a.name.as_deref().unwrap_or("?"));
        sink.must(
            "V11",
            place,
            names.collect::<Vec<_>>().join(", "),
            "time first, then channel or other, then space",
        );
    }
    let names: Vec<&str> =
        seen.iter().filter(|a| a.kind == Kind::Space).filter_map(|a| a.name.as_deref()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    if sorted == ["x", "y", "z"] && names != ["z", "y", "x"] {
        sink.should("V12", place, quoted(&names), "axes of space in the order z, y, x");
    }
}
