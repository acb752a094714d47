//! Documents of plates and wells: V32 to V35.

use std::collections::HashSet;

use super::Judged;
use super::image::version_of;
use super::labels::is_integer;
use super::report::{Sink, at, nth, show, show_or};
use crate::image::version::Version;
use crate::meta::Json;

/// A plate as far as it was understood.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenPlate {
    /// Paths of its wells, with where they are in the document.
    pub(super) wells: Vec<(String, String)>,
    pub(super) rows: Vec<String>,
    pub(super) columns: Vec<String>,
    /// The ids of its acquisitions, as text.
    pub(super) acquisitions: Vec<String>,
}

/// A well as far as it was understood: paths of its fields, with where they are in the document.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenWell {
    pub(super) fields: Vec<SeenField>,
}

/// A field of a well.
#[derive(Debug, Clone)]
pub(super) struct SeenField {
    pub(super) place: String,
    pub(super) path: String,
    pub(super) acquisition: Option<String>,
}

fn is_alphanumeric(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Whether a value is an integer of at least `least`.
fn is_at_least(value: &Json, least: i32) -> bool {
    is_integer(value) && value.as_f64().is_some_and(|n| n >= f64::from(least))
}

/// `plate` of a group.
pub(super) fn plate(sink: &mut Sink, json: &Json, place: &str, judged: Judged) -> SeenPlate {
    let mut seen = SeenPlate::default();
    if json.members().is_none() {
        sink.must("V32", place, show(json), "an object");
        return seen;
    }
    if judged.version <= Version::V04 {
        version_of(sink, json, place, judged);
    }
    seen.rows = lines(sink, json, "rows", place, judged);
    seen.columns = lines(sink, json, "columns", place, judged);
    seen.acquisitions = acquisitions(sink, json, place, judged);
    seen.wells = wells(sink, json, place, judged, &seen);
    if let Some(count) = json.get("field_count")
        && judged.version >= Version::V04
        && !is_at_least(count, 1)
    {
        sink.must("V32", at(place, "field_count"), show(count), "an integer greater than 0");
    }
    if let Some(name) = json.get("name")
        && name.as_str().is_none()
    {
        sink.must("V32", at(place, "name"), show(name), "a string");
    }
    if judged.version >= Version::V04 {
        // The version up to 0.4 is V4's.
        let wanted: &[&str] = match judged.version {
            Version::V05 => &["name", "version", "field_count"],
            _ => &["name", "field_count"],
        };
        for name in wanted.iter().filter(|name| json.get(name).is_none()) {
            sink.should("V35", at(place, name), "nothing", format!("the plate's {name}"));
        }
    }
    seen
}

/// The names of rows or columns.
fn lines(sink: &mut Sink, json: &Json, name: &str, place: &str, judged: Judged) -> Vec<String> {
    let place = at(place, name);
    let mut names: Vec<String> = Vec::new();
    let Some(items) = json.get(name).and_then(Json::items).filter(|items| !items.is_empty()) else {
        sink.must("V32", place, show_or(json.get(name)), format!("a list of the plate's {name}"));
        return names;
    };
    let mut known = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let place = at(&nth(&place, i), "name");
        match item.get("name").and_then(Json::as_str) {
            None => {
                sink.must("V32", place, show_or(item.get("name")), "a name, a string");
                names.push(String::new());
            }
            Some(text) => {
                if !is_alphanumeric(text) && judged.version >= Version::V04 {
                    sink.must("V32", place.as_str(), format!("{text:?}"), "letters and digits only");
                }
                if !known.insert(text) {
                    sink.must("V32", place, format!("{text:?} twice"), "each name once");
                }
                names.push(text.to_owned());
            }
        }
    }
    names
}

fn acquisitions(sink: &mut Sink, json: &Json, place: &str, judged: Judged) -> Vec<String> {
    let Some(list) = json.get("acquisitions") else { return Vec::new() };
    let place = at(place, "acquisitions");
    let Some(items) = list.items() else {
        sink.must("V32", place, show(list), "a list");
        return Vec::new();
    };
    let mut ids: Vec<String> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let place = nth(&place, i);
        match item.get("id") {
            Some(id)
                if is_at_least(id, 0) || (judged.version < Version::V04 && id.number_text().is_some()) =>
            {
                let text = id.to_string();
                if ids.contains(&text) {
                    sink.must("V32", at(&place, "id"), format!("{text} twice"), "each id once");
                }
                ids.push(text);
            }
            id => sink.must("V32", at(&place, "id"), show_or(id), "an integer of at least 0"),
        }
        for (name, least, wanted) in [
            ("maximumfieldcount", 1, "an integer greater than 0"),
            ("starttime", 0, "an integer of at least 0, seconds since 1970"),
            ("endtime", 0, "an integer of at least 0, seconds since 1970"),
        ] {
            // Before 0.4 any number would do.
            let is_right = |value: &Json| {
                is_at_least(value, least) || (judged.version < Version::V04 && value.number_text().is_some())
            };
            if let Some(value) = item.get(name)
                && !is_right(value)
            {
                sink.must("V32", at(&place, name), show(value), wanted);
            }
        }
        for name in ["name", "description"] {
            if let Some(value) = item.get(name)
                && value.as_str().is_none()
            {
                sink.must("V32", at(&place, name), show(value), "a string");
            }
        }
        for name in ["name", "maximumfieldcount"] {
            if item.get(name).is_none() && judged.version >= Version::V04 {
                sink.should("V35", at(&place, name), "nothing", format!("the acquisition's {name}"));
            }
        }
    }
    ids
}

fn wells(
    sink: &mut Sink,
    json: &Json,
    place: &str,
    judged: Judged,
    plate: &SeenPlate,
) -> Vec<(String, String)> {
    let place = at(place, "wells");
    let Some(items) = json.get("wells").and_then(Json::items).filter(|items| !items.is_empty()) else {
        sink.must("V32", place, show_or(json.get("wells")), "a list of the plate's wells");
        return Vec::new();
    };
    let mut found: Vec<(String, String)> = Vec::new();
    let mut known = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let place = nth(&place, i);
        let Some(path) = item.get("path").and_then(Json::as_str) else {
            sink.must("V33", at(&place, "path"), show_or(item.get("path")), "a path, a string");
            indices(sink, item, None, &place, judged, plate);
            continue;
        };
        if !known.insert(path) {
            sink.must("V32", at(&place, "path"), format!("{path:?} twice"), "each well once");
        }
        indices(sink, item, Some(path), &place, judged, plate);
        found.push((at(&place, "path"), path.to_owned()));
    }
    found
}

/// V33: the path and the indices of a well say the same.
fn indices(sink: &mut Sink, item: &Json, path: Option<&str>, place: &str, judged: Judged, plate: &SeenPlate) {
    if judged.version < Version::V04 {
        // The path is free, but its end names row and column.
        return;
    }
    let parts: Vec<&str> = path.map(|p| p.split('/').collect()).unwrap_or_default();
    let named = match parts.as_slice() {
        [row, column] if is_alphanumeric(row) && is_alphanumeric(column) => Some((*row, *column)),
        _ => None,
    };
    if let (None, Some(path)) = (named, path) {
        sink.must(
            "V33",
            at(place, "path"),
            format!("{path:?}"),
            "the name of a row, a slash, the name of a column",
        );
    }
    for (key, lines, word, name) in [
        ("rowIndex", &plate.rows, "rows", named.map(|n| n.0)),
        ("columnIndex", &plate.columns, "columns", named.map(|n| n.1)),
    ] {
        let place = at(place, key);
        let stated = item.get(key);
        let Some(index) = stated.filter(|v| is_at_least(v, 0)).and_then(index_of) else {
            sink.must("V33", place, show_or(stated), format!("the number of the well in {word}, from 0 on"));
            if let Some(right) = name.and_then(|name| lines.iter().position(|l| l == name)) {
                sink.fix(format!("write {right}"));
            }
            continue;
        };
        // If the lines themselves could not be read there is nothing to compare with.
        if lines.is_empty() {
            continue;
        }
        match (lines.get(index), name) {
            (None, _) => {
                let found = format!("{index}, and there are {} {word}", lines.len());
                sink.must("V33", place, found, "the number of the well, from 0 on");
            }
            (Some(line), Some(name)) if line != name => {
                let found = format!("{index}, which is {line:?}, where the path says {name:?}");
                sink.must("V33", place, found, "the same in path and index");
                if let Some(right) = lines.iter().position(|l| l == name) {
                    sink.fix(format!("write {right}"));
                }
            }
            _ => {}
        }
    }
}

fn index_of(value: &Json) -> Option<usize> {
    match value.as_u64() {
        Some(n) => usize::try_from(n).ok(),
        None => format!("{:.0}", value.as_f64()?).parse().ok(),
    }
}

/// `well` of a group: V34 as far as the document tells.
pub(super) fn well(sink: &mut Sink, json: &Json, place: &str, judged: Judged) -> SeenWell {
    let mut seen = SeenWell::default();
    if json.members().is_none() {
        sink.must("V34", place, show(json), "an object");
        return seen;
    }
    if judged.version <= Version::V04 {
        version_of(sink, json, place, judged);
    }
    let place = at(place, "images");
    let Some(items) = json.get("images").and_then(Json::items).filter(|items| !items.is_empty()) else {
        sink.must("V34", place, show_or(json.get("images")), "a list of the well's fields");
        return seen;
    };
    let mut known = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let place = nth(&place, i);
        let acquisition = item.get("acquisition");
        if let Some(value) = acquisition
            && !is_integer(value)
        {
            sink.must("V34", at(&place, "acquisition"), show(value), "an integer");
        }
        let Some(path) = item.get("path").and_then(Json::as_str) else {
            sink.must("V34", at(&place, "path"), show_or(item.get("path")), "a path, a string");
            continue;
        };
        if let Some(wanted) = field_fault(path, judged) {
            sink.must("V34", at(&place, "path"), format!("{path:?}"), wanted);
        }
        if !known.insert(path) {
            sink.must("V34", at(&place, "path"), format!("{path:?} twice"), "each field once");
        }
        let acquisition = acquisition.map(Json::to_string);
        seen.fields.push(SeenField { place, path: path.to_owned(), acquisition });
    }
    seen
}

/// What the path of a field should be, if it is not.
fn field_fault(path: &str, judged: Judged) -> Option<&'static str> {
    if judged.version < Version::V06 {
        return (!is_alphanumeric(path)).then_some("letters and digits only");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let is_name = !path.is_empty()
        && path.bytes().all(plain)
        && !path.bytes().all(|b| b == b'.')
        && !path.starts_with("__");
    (!is_name).then_some("letters, digits, _ . -; not only dots, not __ in front")
}
