//! `image-label`: V27, V28, V31. And the colours of masks: V38.

use std::collections::HashSet;

use super::Judged;
use super::image::version_of;
use super::report::{Level, Sink, at, nth, show, show_or};
use crate::image::parse::packed_color;
use crate::image::version::Version;
use crate::meta::Json;

/// How many faults of one list are told.
const MOST: usize = 20;

/// The document of a label image.
pub(super) fn image_label(sink: &mut Sink, json: &Json, place: &str, judged: Judged) {
    if json.members().is_none() {
        sink.must("V27", place, show(json), "an object");
        return;
    }
    match judged.version {
        // Up to 0.4 a wrong version is V4, a missing one V31 where that exists.
        Version::V04 if json.get("version").is_none() => {
            sink.should("V31", at(place, "version"), "nothing", "\"0.4\"");
            sink.fix("add \"version\": \"0.4\"");
        }
        Version::Seed | Version::V01 | Version::V02 | Version::V03 | Version::V04 => {
            version_of(sink, json, place, judged);
        }
        Version::V05 if json.get("version").is_none() => {
            sink.should("V31", at(place, "version"), "nothing", "\"0.5\"");
            sink.fix("add \"version\": \"0.5\"");
        }
        Version::V05 | Version::V06 => {}
    }
    colors(sink, json, place, judged);
    if let Some(list) = json.get("properties")
        && judged.version >= Version::V02
    {
        values(sink, "V28", list, &at(place, "properties"), |_, _, _| {});
    }
    if let Some(source) = json.get("source")
        && source.members().is_none()
    {
        sink.must("V29", at(place, "source"), show(source), "an object");
    }
    if let Some(image) = json.get("source").and_then(|s| s.get("image"))
        && image.as_str().is_none()
    {
        sink.must("V29", at(place, "source.image"), show(image), "a path, a string");
    }
}

fn colors(sink: &mut Sink, json: &Json, place: &str, judged: Judged) {
    let place = at(place, "colors");
    let Some(list) = json.get("colors") else {
        let level = if judged.version >= Version::V04 { Level::Should } else { Level::Lint };
        sink.add("V31", level, place, "nothing", "a list of colours by label-value");
        return;
    };
    let mut seen: HashSet<&str> = HashSet::new();
    let mut repeated = 0;
    values(sink, "V27", list, &place, |sink, item, place| {
        if let Some(rgba) = item.get("rgba") {
            let bytes = rgba.items().is_some_and(|items| {
                items.len() == 4 && items.iter().all(|n| n.as_u64().is_some_and(|n| n <= 255))
            });
            if !bytes {
                sink.must("V27", at(place, "rgba"), show(rgba), "four integers from 0 to 255");
            }
        }
    });
    // Objects that are the same are counted once: a list that repeats a value with another colour is worse, and both
    // are forbidden.
    for (i, item) in list.items().unwrap_or_default().iter().enumerate() {
        if let Some(value) = item.get("label-value").and_then(Json::number_text)
            && !seen.insert(value)
        {
            repeated += 1;
            if repeated > MOST {
                break;
            }
            let found = format!("{value} once more");
            sink.must("V27", at(&nth(&place, i), "label-value"), found, "each value once");
            sink.fix("keep one colour a value; readers take the last");
        }
    }
}

/// A list of objects, each with an integer `label-value`.
fn values(
    sink: &mut Sink,
    rule: &'static str,
    list: &Json,
    place: &str,
    mut besides: impl FnMut(&mut Sink, &Json, &str),
) {
    let Some(items) = list.items().filter(|items| !items.is_empty()) else {
        sink.must(rule, place, show(list), "a list with at least one object");
        return;
    };
    let before = sink.findings.len();
    let mut seen: HashSet<String> = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        // There may be millions, all with the same fault.
        if sink.findings.len().saturating_sub(before) >= MOST {
            sink.must(rule, place, "more such faults", "none");
            break;
        }
        let place = nth(place, i);
        if item.get("label-value").is_none_or(|v| !is_integer(v)) {
            let found = show_or(item.get("label-value"));
            sink.must(rule, at(&place, "label-value"), found, "an integer");
        }
        besides(sink, item, &place);
        if rule == "V28" && !seen.insert(item.to_string()) {
            sink.must(rule, place, "the same object once more", "each one once");
        }
    }
}

/// Whether a value is an integer, also one written as `3.0`, as JSON Schema has it.
pub(super) fn is_integer(value: &Json) -> bool {
    value.as_i128().is_some()
        || value.number_text().is_some() && value.as_f64().is_some_and(|x| x.is_finite() && x.fract() == 0.0)
}

/// V38: the colours of a mask.
pub(super) fn mask_colors(sink: &mut Sink, attributes: &Json) {
    let Some(color) = attributes.get("color") else { return };
    let Some(members) = color.members() else {
        sink.must("V38", "color", show(color), "an object of packed colours by pixel value");
        return;
    };
    for (key, packed) in members {
        let place = format!("color[{key:?}]");
        if !matches!(key.as_str(), "true" | "True" | "false" | "False") && key.parse::<i128>().is_err() {
            sink.must("V38", place.as_str(), format!("the key {key:?}"), "an integer as text, or true");
        }
        if packed.as_i128().and_then(packed_color).is_none() {
            sink.must("V38", place, show(packed), "an integer of 32 bits");
        }
    }
}
