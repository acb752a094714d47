//! Validates scales and translations of 0.4 and 0.5: V16 to V18.

use super::report::{FindingLevel, FindingSink, Spot, nth};
use crate::format::text::plural;
use crate::image::version::ImageVersion;

/// The parsed scale and translation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Placed {
    pub(super) scale: Option<Vec<f64>>,
    pub(super) translation: Option<Vec<f64>>,
}

/// The transformations of a dataset (V16) or of a multiscale (V17): one scale, then at most one translation.
pub(super) fn list(
    sink: &mut FindingSink,
    rule: &'static str,
    list: &Spot<'_>,
    rank: Option<usize>,
) -> Placed {
    let mut placed = Placed::default();
    let Some(items) = sink.items(rule, list, "a list with a scale and optionally a translation") else {
        return placed;
    };
    let (mut scales, mut translations) = (0usize, 0usize);
    for item in items {
        match item.get("type").text() {
            Some("scale") => {
                scales += 1;
                if translations > 0 && scales == 1 {
                    sink.must(rule, &item, "a scale after a translation", "the scale first");
                    sink.fix("put the scale first, and multiply the translation by it");
                }
                placed.scale = vector(sink, rule, &item, "scale", rank);
                positive(sink, placed.scale.as_deref(), &item.get("scale").place);
            }
            Some("translation") => {
                translations += 1;
                placed.translation = vector(sink, rule, &item, "translation", rank);
            }
            _ => sink.wrong(rule, &item.get("type"), "scale or translation"),
        }
    }
    if scales != 1 {
        sink.must(rule, list, format!("{scales} scales"), "exactly one scale");
        if let (0, Some(rank)) = (scales, rank) {
            let ones = vec!["1"; rank].join(", ");
            sink.fix(format!("insert {{\"type\": \"scale\", \"scale\": [{ones}]}} first"));
        }
    }
    if translations > 1 {
        sink.must(rule, list, format!("{translations} translations"), "at most one translation");
    }
    placed
}

/// The numbers of a transformation, one per axis.
fn vector(
    sink: &mut FindingSink,
    rule: &'static str,
    item: &Spot<'_>,
    name: &str,
    rank: Option<usize>,
) -> Option<Vec<f64>> {
    let spot = item.get(name);
    let Some(numbers) = spot.numbers() else {
        let path = item.get("path");
        let elsewhere = path.is_some() && !spot.is_some();
        let found = if elsewhere { format!("a path ({})", path.show()) } else { spot.show() };
        sink.must(rule, &spot, found, "a list of numbers, one per axis");
        return None;
    };
    if let Some(rank) = rank.filter(|rank| *rank != numbers.len()) {
        let found = format!("{} for {rank} axes", plural(numbers.len(), "number"));
        sink.must(rule, &spot, found, "one number per axis");
        return None;
    }
    Some(numbers)
}

/// V18: scales are finite and greater than zero.
pub(super) fn positive(sink: &mut FindingSink, scale: Option<&[f64]>, place: &str) {
    // Negative numbers are used to mirror an axis; 0.6 forbids them.
    let level = if sink.since(ImageVersion::V06) { FindingLevel::Must } else { FindingLevel::Lint };
    for (i, x) in scale.unwrap_or_default().iter().enumerate() {
        if !(x.is_finite() && *x > 0.0) {
            sink.add("V18", level, nth(place, i), x.to_string(), "a finite number greater than 0");
        }
    }
}
