//! `omero`: V23, and V24 as far as the document tells.

use super::Judged;
use super::report::{Level, Sink, at, nth, show, show_or};
use crate::image::model::Family;
use crate::image::version::Version;
use crate::meta::Json;

/// V23 and V24 of a document.
pub(super) fn omero(sink: &mut Sink, json: &Json, place: &str, judged: Judged) {
    // What is missing: the first versions only advised it, 0.4 requires it, and the schemas of 0.5 and 0.6 gave colour
    // and window up again.
    let (list_level, part_level) = match judged.version {
        Version::Seed => (Level::Lint, Level::Lint),
        Version::V01 | Version::V02 | Version::V03 => (Level::Should, Level::Should),
        Version::V04 => (Level::Must, Level::Must),
        Version::V05 | Version::V06 => (Level::Must, Level::Should),
    };
    // What is there, but wrong, is wrong in every version with a schema.
    let wrong = if judged.version == Version::Seed { Level::Should } else { Level::Must };
    if json.members().is_none() {
        sink.add("V23", wrong, place, show(json), "an object with channels");
        return;
    }
    if let Some(version) = json.get("version").filter(|v| v.as_str().is_none()) {
        sink.lint("V4", at(place, "version"), format!("{}, {}", show(version), version.kind()), "a string");
        sink.fix(format!("write \"{}\" in quotes", show(version)));
    }
    let channels = at(place, "channels");
    match (json.get("channels"), json.get("channels").and_then(Json::items)) {
        (None, _) => sink.add("V23", list_level, channels, "nothing", "a list of channels"),
        (Some(other), None) => sink.add("V23", wrong, channels, show(other), "a list of channels"),
        (_, Some(items)) => {
            for (i, item) in items.iter().enumerate() {
                channel(sink, item, &nth(&channels, i), wrong, part_level);
            }
        }
    }
    if let Some(model) = json.get("rdefs").and_then(|r| r.get("model"))
        && !matches!(model.as_str(), Some("color" | "greyscale"))
    {
        sink.lint("V24", at(place, "rdefs.model"), show(model), "color or greyscale");
    }
}

fn channel(sink: &mut Sink, json: &Json, place: &str, wrong: Level, missing: Level) {
    if json.members().is_none() {
        sink.add("V23", wrong, place, show(json), "an object");
        return;
    }
    let color = at(place, "color");
    match json.get("color") {
        None => sink.add("V23", missing, color, "nothing", "six hexadecimal digits, such as 00FF00"),
        Some(value) => match value.as_str() {
            Some(text) if text.len() == 6 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {}
            text => {
                sink.add("V23", wrong, color, show(value), "six hexadecimal digits, such as 00FF00");
                if let Some([r, g, b]) = text.and_then(crate::image::parse::color) {
                    sink.fix(format!("write \"{r:02X}{g:02X}{b:02X}\""));
                }
            }
        },
    }
    for (name, is_right, wanted) in [
        ("label", json.get("label").is_none_or(|v| v.as_str().is_some()), "a string"),
        ("active", json.get("active").is_none_or(|v| v.as_bool().is_some()), "true or false"),
        ("family", json.get("family").is_none_or(|v| v.as_str().is_some()), "a string"),
    ] {
        if !is_right {
            sink.add("V23", wrong, at(place, name), show_or(json.get(name)), wanted);
        }
    }
    window(sink, json.get("window"), &at(place, "window"), wrong, missing);
    if let Some(family) = json.get("family").and_then(Json::as_str)
        && Family::parse(family).is_none()
    {
        let wanted = "linear, polynomial, exponential or logarithmic";
        sink.lint("V24", at(place, "family"), format!("{family:?}"), wanted);
    }
    if let Some(coefficient) = json.get("coefficient")
        && !coefficient.as_f64().is_some_and(|k| k.is_finite() && k > 0.0)
    {
        sink.lint("V24", at(place, "coefficient"), show(coefficient), "a number greater than 0");
    }
}

fn window(sink: &mut Sink, json: Option<&Json>, place: &str, wrong: Level, missing: Level) {
    let Some(json) = json else {
        sink.add("V23", missing, place, "nothing", "a window: min, max, start, end");
        return;
    };
    if json.members().is_none() {
        sink.add("V23", wrong, place, show(json), "an object: min, max, start, end");
        return;
    }
    for name in ["min", "max", "start", "end"] {
        match json.get(name) {
            None => sink.add("V23", wrong, at(place, name), "nothing", "a number"),
            Some(value) if value.as_f64().is_none() => {
                sink.add("V23", wrong, at(place, name), show(value), "a number");
            }
            Some(_) => {}
        }
    }
    let number = |name: &str| json.get(name).and_then(Json::as_f64);
    if let (Some(start), Some(end)) = (number("start"), number("end"))
        && start >= end
    {
        sink.lint("V24", place, format!("start {start}, end {end}"), "start below end");
    }
    if let (Some(min), Some(max)) = (number("min"), number("max"))
        && min > max
    {
        sink.lint("V24", place, format!("min {min}, max {max}"), "min below max");
    }
}
