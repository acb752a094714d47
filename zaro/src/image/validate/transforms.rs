//! Scales and translations of 0.4 and 0.5: V16 to V18.

use super::Judged;
use super::report::{Level, Sink, at, nth, show, show_or};
use crate::image::version::Version;
use crate::meta::Json;

/// A scale and a translation, as far as they were understood.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Placed {
    pub(super) scale: Option<Vec<f64>>,
    pub(super) translation: Option<Vec<f64>>,
}

/// The transformations of a dataset (V16) or of a multiscale (V17): one scale, then at most one translation.
pub(super) fn list(
    sink: &mut Sink,
    rule: &'static str,
    json: Option<&Json>,
    place: &str,
    rank: Option<usize>,
    judged: Judged,
) -> Placed {
    let mut placed = Placed::default();
    let Some(items) = json.and_then(Json::items) else {
        sink.must(rule, place, show_or(json), "a list with a scale, and perhaps a translation");
        return placed;
    };
    let (mut scales, mut translations) = (0usize, 0usize);
    for (i, item) in items.iter().enumerate() {
        let place = nth(place, i);
        match item.get("type").and_then(Json::as_str) {
            Some("scale") => {
                scales += 1;
                if translations > 0 && scales == 1 {
                    sink.must(rule, place.as_str(), "a scale after a translation", "the scale first");
                    sink.fix("apply the scale to the translation's values when the order is changed");
                }
                placed.scale = vector(sink, rule, item, "scale", &place, rank);
                positive(sink, placed.scale.as_deref(), &at(&place, "scale"), judged);
            }
            Some("translation") => {
                translations += 1;
                placed.translation = vector(sink, rule, item, "translation", &place, rank);
            }
            _ => sink.must(rule, at(&place, "type"), show_or(item.get("type")), "scale or translation"),
        }
    }
    if scales != 1 {
        sink.must(rule, place, format!("{scales} scales"), "exactly one scale");
        if let (0, Some(rank)) = (scales, rank) {
            sink.fix(format!("add {{\"type\": \"scale\", \"scale\": {}}} in front", ones(rank)));
        }
    }
    if translations > 1 {
        sink.must(rule, place, format!("{translations} translations"), "at most one translation");
    }
    placed
}

fn ones(rank: usize) -> String {
    format!("[{}]", vec!["1"; rank].join(", "))
}

/// The numbers of a transformation, one an axis.
fn vector(
    sink: &mut Sink,
    rule: &'static str,
    item: &Json,
    name: &str,
    place: &str,
    rank: Option<usize>,
) -> Option<Vec<f64>> {
    let place = at(place, name);
    let Some(items) = item.get(name).and_then(Json::items) else {
        let found = match item.get("path") {
            Some(path) if item.get(name).is_none() => format!("a path ({})", show(path)),
            _ => show_or(item.get(name)),
        };
        sink.must(rule, place, found, "a list of numbers, one an axis");
        return None;
    };
    let numbers: Option<Vec<f64>> = items.iter().map(Json::as_f64).collect();
    let Some(numbers) = numbers else {
        sink.must(rule, place, show_or(item.get(name)), "a list of numbers, one an axis");
        return None;
    };
    if let Some(rank) = rank
        && numbers.len() != rank
    {
        let found = format!("{} for {rank} axes", super::report::plural(numbers.len(), "number"));
        sink.must(rule, place, found, "as many numbers as axes");
        return None;
    }
    Some(numbers)
}

/// V18: scales are finite and greater than zero.
pub(super) fn positive(sink: &mut Sink, scale: Option<&[f64]>, place: &str, judged: Judged) {
    // Negative numbers are in use, to mirror an axis; 0.6 ended that.
    let level = if judged.version >= Version::V06 { Level::Must } else { Level::Lint };
    for (i, x) in scale.unwrap_or_default().iter().enumerate() {
        if !(x.is_finite() && *x > 0.0) {
            sink.add("V18", level, nth(place, i), x.to_string(), "a finite number greater than 0");
        }
    }
}
