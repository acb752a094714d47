//! Validates `omero`: V23, and V24 as far as the document alone allows.

use super::report::{BOOL, FindingLevel, FindingSink, STRING, Spot, nth};
use crate::image::model::Family;
use crate::image::version::ImageVersion;

/// V23 and V24 of a document.
pub(super) fn omero(sink: &mut FindingSink, omero: &Spot<'_>) {
    // Missing members: the first versions only advise them, 0.4 requires them, and the schemas of 0.5 and 0.6 dropped
    // colour and window again.
    let (list_level, missing) = match sink.judged.version {
        ImageVersion::Seed => (FindingLevel::Lint, FindingLevel::Lint),
        ImageVersion::V01 | ImageVersion::V02 | ImageVersion::V03 => {
            (FindingLevel::Should, FindingLevel::Should)
        }
        ImageVersion::V04 => (FindingLevel::Must, FindingLevel::Must),
        ImageVersion::V05 | ImageVersion::V06 => (FindingLevel::Must, FindingLevel::Should),
    };
    // Invalid members are wrong in every version with a schema.
    let wrong =
        if sink.judged.version == ImageVersion::Seed { FindingLevel::Should } else { FindingLevel::Must };
    if omero.members().is_none() {
        sink.add("V23", wrong, omero, omero.show(), "an object with channels");
        return;
    }
    let version = omero.get("version");
    if let Some(json) = version.json.filter(|v| v.as_str().is_none()) {
        sink.lint("V4", &version, format!("{}, {}", version.show(), json.kind()), "a string");
        sink.fix(format!("write \"{}\" in quotes", version.show()));
    }
    let channels = omero.get("channels");
    match channels.items() {
        Some(items) => {
            for (i, item) in items.iter().enumerate() {
                channel(sink, &Spot::new(item, nth(&channels.place, i)), wrong, missing);
            }
        }
        None => {
            let level = if channels.is_some() { wrong } else { list_level };
            sink.add("V23", level, &channels, channels.show(), "a list of channels");
        }
    }
    let model = omero.get("rdefs").get("model");
    if model.is_some() && !matches!(model.text(), Some("color" | "greyscale")) {
        sink.lint("V24", &model, model.show(), "color or greyscale");
    }
}

fn channel(sink: &mut FindingSink, channel: &Spot<'_>, wrong: FindingLevel, missing: FindingLevel) {
    if channel.members().is_none() {
        sink.add("V23", wrong, channel, channel.show(), "an object");
        return;
    }
    let color = channel.get("color");
    match color.text() {
        Some(text) if text.len() == 6 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {}
        text => {
            let level = if color.is_some() { wrong } else { missing };
            sink.add("V23", level, &color, color.show(), "six hexadecimal digits, such as 00FF00");
            if let Some([r, g, b]) = text.and_then(crate::image::parse::color) {
                sink.fix(format!("write \"{r:02X}{g:02X}{b:02X}\""));
            }
        }
    }
    sink.typed("V23", wrong, channel, &[("label", STRING), ("active", BOOL), ("family", STRING)]);
    window(sink, &channel.get("window"), wrong, missing);
    let family = channel.get("family");
    if family.text().is_some_and(|f| Family::parse(f).is_none()) {
        sink.lint("V24", &family, family.show(), "linear, polynomial, exponential or logarithmic");
    }
    let coefficient = channel.get("coefficient");
    if coefficient.is_some() && !coefficient.number().is_some_and(|k| k.is_finite() && k > 0.0) {
        sink.lint("V24", &coefficient, coefficient.show(), "a number greater than 0");
    }
}

fn window(sink: &mut FindingSink, window: &Spot<'_>, wrong: FindingLevel, missing: FindingLevel) {
    if window.members().is_none() {
        let level = if window.is_some() { wrong } else { missing };
        sink.add("V23", level, window, window.show(), "a window, an object: min, max, start, end");
        return;
    }
    for name in ["min", "max", "start", "end"] {
        let value = window.get(name);
        if value.number().is_none() {
            sink.add("V23", wrong, &value, value.show(), "a number");
        }
    }
    let pair = |a, b| window.get(a).number().zip(window.get(b).number());
    if let Some((start, end)) = pair("start", "end").filter(|(start, end)| start >= end) {
        sink.lint("V24", window, format!("start {start}, end {end}"), "start below end");
    }
    if let Some((min, max)) = pair("min", "max").filter(|(min, max)| min > max) {
        sink.lint("V24", window, format!("min {min}, max {max}"), "min below max");
    }
}
