//! Validates `image-label` (V27, V28, V31) and the colours of masks (V38).

use std::collections::HashSet;

use super::image::version_of;
use super::report::{FindingLevel, FindingSink, Spot, show};
use crate::image::parse::packed_color;
use crate::image::version::ImageVersion;
use crate::meta::Json;

/// The maximum number of findings per list.
const MOST: usize = 20;

/// The document of a label image.
pub(super) fn image_label(sink: &mut FindingSink, label: &Spot<'_>) {
    if !sink.object("V27", label, "an object") {
        return;
    }
    match sink.judged.version {
        // Up to 0.4 a wrong version is V4, a missing one V31 if the version has that rule.
        version @ (ImageVersion::V04 | ImageVersion::V05) if !label.has("version") => {
            sink.should("V31", &label.get("version"), "nothing", format!("{:?}", version.text()));
            sink.fix(format!("add \"version\": {:?}", version.text()));
        }
        ImageVersion::V05 | ImageVersion::V06 => {}
        _ => version_of(sink, label),
    }
    colors(sink, &label.get("colors"));
    let properties = label.get("properties");
    if properties.is_some() && sink.since(ImageVersion::V02) {
        values(sink, "V28", &properties, |_, _| {});
    }
    let (source, image) = (label.get("source"), label.get("source").get("image"));
    if source.is_some() {
        sink.object("V29", &source, "an object");
    }
    if image.is_some() {
        sink.text("V29", &image, "a path, a string");
    }
}

fn colors(sink: &mut FindingSink, colors: &Spot<'_>) {
    if !colors.is_some() {
        let level = if sink.since(ImageVersion::V04) { FindingLevel::Should } else { FindingLevel::Lint };
        sink.add("V31", level, colors, "nothing", "a list of colours by label-value");
        return;
    }
    values(sink, "V27", colors, |sink, item| {
        let rgba = item.get("rgba");
        let is_byte = |n: &Json| n.as_u64().is_some_and(|n| n <= 255);
        if rgba.is_some() && !rgba.items().is_some_and(|items| items.len() == 4 && items.iter().all(is_byte))
        {
            sink.wrong("V27", &rgba, "four integers from 0 to 255");
        }
    });
    // Equal objects are counted once: a list that repeats a value with another colour is worse, and both are forbidden.
    let mut seen: HashSet<&str> = HashSet::new();
    let items = colors.items().unwrap_or_default().iter().enumerate();
    let again = items.filter_map(|(i, item)| {
        let value = item.get("label-value").and_then(Json::number_text)?;
        (!seen.insert(value)).then(|| (format!("{}[{i}].label-value", colors.place), value))
    });
    for (place, value) in again.take(MOST) {
        sink.must("V27", place, format!("{value} twice"), "each value once");
        sink.fix("keep one colour per value; readers use the last");
    }
}

/// A list of objects, each with an integer `label-value`.
fn values(
    sink: &mut FindingSink,
    rule: &'static str,
    list: &Spot<'_>,
    mut besides: impl FnMut(&mut FindingSink, &Spot<'_>),
) {
    let Some(items) = sink.some(rule, list, "a list with at least one object") else { return };
    let before = sink.findings.len();
    let mut seen: HashSet<String> = HashSet::new();
    for item in items {
        // There may be millions with the same fault.
        if sink.findings.len().saturating_sub(before) >= MOST {
            sink.must(rule, list, "more of the same", "none");
            break;
        }
        let value = item.get("label-value");
        if value.json.is_none_or(|v| !is_integer(v)) {
            sink.wrong(rule, &value, "an integer");
        }
        besides(sink, &item);
        if rule == "V28" && !seen.insert(item.json.map(Json::to_string).unwrap_or_default()) {
            sink.must(rule, &item, "a duplicate object", "each one once");
        }
    }
}

/// Whether a value is an integer, also one written as `3.0`, as in JSON Schema.
pub(super) fn is_integer(value: &Json) -> bool {
    value.as_i128().is_some()
        || value.number_text().is_some() && value.as_f64().is_some_and(|x| x.is_finite() && x.fract() == 0.0)
}

/// V38: the colours of a mask.
pub(super) fn mask_colors(sink: &mut FindingSink, attributes: &Json) {
    let color = Spot::new(attributes.get("color"), "color");
    if !color.is_some() || !sink.object("V38", &color, "an object of packed colours by pixel value") {
        return;
    }
    for (key, packed) in color.members().unwrap_or_default() {
        let place = format!("color[{key:?}]");
        if !matches!(key.as_str(), "true" | "True" | "false" | "False") && key.parse::<i128>().is_err() {
            sink.must("V38", place.as_str(), format!("the key {key:?}"), "an integer as text, or true");
        }
        if packed.as_i128().and_then(packed_color).is_none() {
            sink.must("V38", place, show(packed), "an integer of 32 bits");
        }
    }
}
