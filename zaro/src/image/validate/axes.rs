//! Axes: V8 to V13.

use super::Judged;
use super::report::{Sink, at, nth, quoted, show, show_or};
use crate::image::model::AxisKind;
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
pub(super) fn strings(sink: &mut Sink, axes: Option<&Json>, place: &str) -> Vec<SeenAxis> {
    let Some(items) = axes.and_then(Json::items) else {
        sink.must("V8", place, show_or(axes), "a list of axis names");
        return Vec::new();
    };
    if !(2..=5).contains(&items.len()) {
        sink.must("V8", place, format!("{} of them", items.len()), "2 to 5 axes");
    }
    let mut last = None;
    for (i, item) in items.iter().enumerate() {
        let place = nth(place, i);
        let known = item.as_str().and_then(|name| TCZYX.iter().position(|n| *n == name));
        match (known, last) {
            (None, _) => sink.must("V8", place, show(item), "one of t, c, z, y, x"),
            (Some(now), Some(before)) if now == before => {
                sink.must("V8", place, format!("{} twice", show(item)), "each axis once");
            }
            (Some(now), Some(before)) if now < before => {
                sink.must("V8", place, show(axes.unwrap_or(item)), "axes in the order t, c, z, y, x");
            }
            _ => {}
        }
        last = known.or(last);
    }
    let names: Vec<&str> = items.iter().filter_map(Json::as_str).collect();
    for (i, name) in names.iter().enumerate() {
        // Neighbours were compared above.
        if names.iter().take(i.saturating_sub(1)).any(|n| n == name) {
            sink.must("V8", nth(place, i), format!("{name:?} twice"), "each axis once");
        }
    }
    names.iter().map(|name| SeenAxis { name: Some((*name).to_owned()), kind: Kind::of_name(name) }).collect()
}

/// V9 to V13: the axes of 0.4 and later, of an image or of a coordinate system. `image` says that the rules of images
/// hold, not only those of systems.
pub(super) fn objects(
    sink: &mut Sink,
    axes: Option<&Json>,
    place: &str,
    judged: Judged,
    image: bool,
) -> Vec<SeenAxis> {
    let Some(items) = axes.and_then(Json::items) else {
        sink.must("V9", place, show_or(axes), "a list of axes");
        return Vec::new();
    };
    let fewest = if image && !judged.newer { 2 } else { 1 };
    if items.len() < fewest || (items.len() > 5 && !judged.newer) {
        let found = if items.len() == 1 { "1 axis".to_owned() } else { format!("{} axes", items.len()) };
        sink.must("V9", place, found, format!("{fewest} to 5 axes"));
    }
    let mut seen: Vec<SeenAxis> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let axis = one(sink, item, &nth(place, i), judged);
        if let Some(name) = &axis.name
            && seen.iter().any(|a| a.name.as_ref() == Some(name))
        {
            sink.must("V9", at(&nth(place, i), "name"), format!("{name:?} twice"), "a name of its own");
        }
        seen.push(axis);
    }
    if !judged.newer {
        kinds(sink, &seen, place, judged, image);
    }
    seen
}

fn one(sink: &mut Sink, item: &Json, place: &str, judged: Judged) -> SeenAxis {
    if item.members().is_none() {
        sink.must("V9", place, show(item), "an object with a name");
        return SeenAxis { name: item.as_str().map(str::to_owned), kind: Kind::Untyped };
    }
    let name = item.get("name").and_then(Json::as_str).map(str::to_owned);
    let is_empty = name.as_deref() == Some("") && judged.version >= Version::V06;
    if name.is_none() || is_empty {
        sink.must("V9", at(place, "name"), show_or(item.get("name")), "the axis' name, a string");
    }
    let stated = item.get("type");
    if stated.is_some_and(|t| t.as_str().is_none()) {
        sink.must("V10", at(place, "type"), show_or(stated), "a string");
    }
    for (key, is_right) in [
        ("discrete", item.get("discrete").is_none_or(|v| v.as_bool().is_some())),
        ("longName", item.get("longName").is_none_or(|v| v.as_str().is_some())),
    ] {
        if judged.version >= Version::V06 && !is_right {
            let wanted = if key == "discrete" { "true or false" } else { "a string" };
            sink.must("V9", at(place, key), show_or(item.get(key)), wanted);
        }
    }
    let kind = Kind::of(stated.and_then(Json::as_str));
    advice(sink, item, place, kind, judged);
    SeenAxis { name, kind }
}

/// V12 and V13: what an axis should have besides.
fn advice(sink: &mut Sink, item: &Json, place: &str, kind: Kind, judged: Judged) {
    let stated = item.get("type").and_then(Json::as_str);
    let more = ["coordinate", "displacement", "frequency"];
    match kind {
        Kind::Untyped => {
            if item.get("type").is_none() {
                sink.should("V12", at(place, "type"), "nothing", "a type: space, time or channel");
                if let Some(name) = item.get("name").and_then(Json::as_str)
                    && let Some(text) = AxisKind::of_name(name).text()
                {
                    sink.fix(format!("add \"type\": {text:?}"));
                }
            }
        }
        Kind::Custom if judged.version >= Version::V06 && stated.is_some_and(|t| more.contains(&t)) => {}
        Kind::Array if judged.version >= Version::V06 => {}
        Kind::Custom | Kind::Array => {
            sink.should("V12", at(place, "type"), show_or(item.get("type")), "one of space, time, channel");
        }
        Kind::Time | Kind::Channel | Kind::Space => {}
    }
    if let Some(units) = item.get("units") {
        sink.lint("V13", at(place, "units"), format!("`units` ({})", show(units)), "`unit`");
        sink.fix("rename `units` to `unit`");
    }
    let (known, word): (&[&str], _) = match kind {
        Kind::Space => (&LENGTHS, "length"),
        Kind::Time => (&TIMES, "time"),
        _ => return,
    };
    let place = at(place, "unit");
    match item.get("unit") {
        None => sink.should("V12", place, "nothing", format!("a unit of {word}")),
        // Some writers say null for none, which only the last schema forbids.
        Some(Json::Null) if judged.version < Version::V06 => {
            sink.should("V12", place, "null", format!("a unit of {word}"));
        }
        Some(unit) => match unit.as_str() {
            Some(text) if known.contains(&text) => {}
            Some(text) => {
                sink.should("V12", place, format!("{text:?}"), format!("a UDUNITS-2 name of {word}"));
                if let Some(name) = spelled_out(text).filter(|name| known.contains(name)) {
                    sink.fix(format!("write {name:?}"));
                }
            }
            None => sink.must("V12", place, show(unit), "a string"),
        },
    }
}

/// V10, V11, and the order of V12.
fn kinds(sink: &mut Sink, seen: &[SeenAxis], place: &str, judged: Judged, image: bool) {
    let count = |wanted: &[Kind]| seen.iter().filter(|a| wanted.contains(&a.kind)).count();
    let arrays = count(&[Kind::Array]);
    if judged.version >= Version::V06 && arrays > 0 && arrays == seen.len() {
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

/// The name of a unit that was abbreviated.
fn spelled_out(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "um" | "µm" | "μm" | "micron" | "microns" | "micrometers" | "micrometre" => "micrometer",
        "nm" | "nanometers" | "nanometre" => "nanometer",
        "mm" | "millimeters" | "millimetre" => "millimeter",
        "cm" => "centimeter",
        "m" => "meter",
        "pm" => "picometer",
        "Å" | "A" => "angstrom",
        "s" | "sec" | "seconds" => "second",
        "ms" => "millisecond",
        "us" | "µs" | "μs" => "microsecond",
        "min" | "minutes" => "minute",
        "h" | "hours" => "hour",
        _ => return None,
    })
}

const LENGTHS: [&str; 26] = [
    "angstrom",
    "attometer",
    "centimeter",
    "decimeter",
    "exameter",
    "femtometer",
    "foot",
    "gigameter",
    "hectometer",
    "inch",
    "kilometer",
    "megameter",
    "meter",
    "micrometer",
    "mile",
    "millimeter",
    "nanometer",
    "parsec",
    "petameter",
    "picometer",
    "terameter",
    "yard",
    "yoctometer",
    "yottameter",
    "zeptometer",
    "zettameter",
];

const TIMES: [&str; 23] = [
    "attosecond",
    "centisecond",
    "day",
    "decisecond",
    "exasecond",
    "femtosecond",
    "gigasecond",
    "hectosecond",
    "hour",
    "kilosecond",
    "megasecond",
    "microsecond",
    "millisecond",
    "minute",
    "nanosecond",
    "petasecond",
    "picosecond",
    "second",
    "terasecond",
    "yoctosecond",
    "yottasecond",
    "zeptosecond",
    "zettasecond",
];
