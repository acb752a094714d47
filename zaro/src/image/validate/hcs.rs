//! Validates documents of plates and wells: V32 to V35.

use std::collections::HashSet;

use super::image::version_of;
use super::labels::is_integer;
use super::report::{FindingLevel, FindingSink, STRING, Spot, Type};
use crate::image::version::ImageVersion;
use crate::meta::Json;

/// The parsed content of a plate.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenPlate {
    /// Paths of its wells, with their positions in the document.
    pub(super) wells: Vec<(String, String)>,
    pub(super) rows: Vec<String>,
    pub(super) columns: Vec<String>,
    /// The ids of its acquisitions, as text.
    pub(super) acquisitions: Vec<String>,
}

/// The parsed content of a well: paths of its fields, with their positions in the document.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenWell {
    pub(super) fields: Vec<SeenField>,
}

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
pub(super) fn plate(sink: &mut FindingSink, plate: &Spot<'_>) -> SeenPlate {
    let mut seen = SeenPlate::default();
    if !sink.object("V32", plate, "an object") {
        return seen;
    }
    if sink.judged.version <= ImageVersion::V04 {
        version_of(sink, plate);
    }
    seen.rows = lines(sink, plate, "rows");
    seen.columns = lines(sink, plate, "columns");
    seen.acquisitions = acquisitions(sink, &plate.get("acquisitions"));
    seen.wells = wells(sink, &plate.get("wells"), &seen);
    if sink.since(ImageVersion::V04) {
        sink.typed("V32", FindingLevel::Must, plate, &[("field_count", COUNT)]);
    }
    sink.typed("V32", FindingLevel::Must, plate, &[("name", STRING)]);
    // The version up to 0.4 is checked by V4.
    let wanted: &[&str] = match sink.judged.version {
        ImageVersion::V05 => &["name", "version", "field_count"],
        ImageVersion::V04 | ImageVersion::V06 => &["name", "field_count"],
        _ => &[],
    };
    for name in wanted.iter().filter(|name| !plate.has(name)) {
        sink.should("V35", &plate.get(name), "nothing", format!("the plate's {name}"));
    }
    seen
}

/// The names of rows or columns.
fn lines(sink: &mut FindingSink, plate: &Spot<'_>, name: &str) -> Vec<String> {
    let items = sink.some("V32", &plate.get(name), format!("a list of the plate's {name}"));
    let mut known = HashSet::new();
    let mut line = |item: Spot<'_>| {
        let name = item.get("name");
        let text = sink.text("V32", &name, "a name, a string").unwrap_or_default();
        if name.text().is_some() {
            if !is_alphanumeric(text) && sink.since(ImageVersion::V04) {
                sink.must("V32", &name, format!("{text:?}"), "letters and digits only");
            }
            if !known.insert(text.to_owned()) {
                sink.must("V32", &name, format!("{text:?} twice"), "each name once");
            }
        }
        text.to_owned()
    };
    items.unwrap_or_default().into_iter().map(&mut line).collect()
}

fn acquisitions(sink: &mut FindingSink, list: &Spot<'_>) -> Vec<String> {
    if !list.is_some() {
        return Vec::new();
    }
    // Before 0.4 any number is allowed.
    let old = !sink.since(ImageVersion::V04);
    let mut ids: Vec<String> = Vec::new();
    for item in sink.items("V32", list, "a list").unwrap_or_default() {
        let id = item.get("id");
        match id.json.filter(|id| is_at_least(id, 0) || (old && id.number_text().is_some())) {
            Some(json) => {
                let text = json.to_string();
                if ids.contains(&text) {
                    sink.must("V32", &id, format!("{text} twice"), "each id once");
                }
                ids.push(text);
            }
            None => sink.wrong("V32", &id, "an integer of at least 0"),
        }
        let any = |Type(right, wanted): Type| {
            if old { Type(|v| v.number_text().is_some(), wanted) } else { Type(right, wanted) }
        };
        sink.typed(
            "V32",
            FindingLevel::Must,
            &item,
            &[
                ("maximumfieldcount", any(COUNT)),
                ("starttime", any(MOMENT)),
                ("endtime", any(MOMENT)),
                ("name", STRING),
                ("description", STRING),
            ],
        );
        for name in ["name", "maximumfieldcount"] {
            if !item.has(name) && !old {
                sink.should("V35", &item.get(name), "nothing", format!("the acquisition's {name}"));
            }
        }
    }
    ids
}

const COUNT: Type = Type(|v| is_at_least(v, 1), "an integer greater than 0");
const MOMENT: Type = Type(|v| is_at_least(v, 0), "an integer of at least 0, seconds since 1970");

fn wells(sink: &mut FindingSink, list: &Spot<'_>, plate: &SeenPlate) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut known = HashSet::new();
    for item in sink.some("V32", list, "a list of the plate's wells").unwrap_or_default() {
        let spot = item.get("path");
        let path = sink.text("V33", &spot, "a path, a string");
        if path.is_some_and(|path| !known.insert(path)) {
            sink.must("V32", &spot, format!("{} twice", spot.show()), "each well once");
        }
        // Before 0.4 the path is free, but its last parts are row and column.
        if sink.since(ImageVersion::V04) {
            indices(sink, &item, path, plate);
        }
        if let Some(path) = path {
            found.push((spot.place, path.to_owned()));
        }
    }
    found
}

/// V33: the path and the indices of a well agree.
fn indices(sink: &mut FindingSink, well: &Spot<'_>, path: Option<&str>, plate: &SeenPlate) {
    let parts: Vec<&str> = path.map(|p| p.split('/').collect()).unwrap_or_default();
    let named = match parts.as_slice() {
        [row, column] if is_alphanumeric(row) && is_alphanumeric(column) => Some((*row, *column)),
        _ => None,
    };
    if let (None, Some(path)) = (named, path) {
        let wanted = "the name of a row, a slash, the name of a column";
        sink.must("V33", &well.get("path"), format!("{path:?}"), wanted);
    }
    for (key, lines, word, name) in [
        ("rowIndex", &plate.rows, "rows", named.map(|n| n.0)),
        ("columnIndex", &plate.columns, "columns", named.map(|n| n.1)),
    ] {
        let stated = well.get(key);
        let right = name.and_then(|name| lines.iter().position(|l| l == name));
        let mut fix = right.map(|right| format!("write {right}"));
        match stated.json.filter(|v| is_at_least(v, 0)).and_then(index_of) {
            None => sink.wrong("V33", &stated, format!("the index of the well in {word}, from 0 on")),
            // If rows or columns are invalid, there is nothing to compare with.
            Some(_) if lines.is_empty() => continue,
            Some(index) => match (lines.get(index), name) {
                (None, _) => {
                    let found = format!("{index}, but there are {} {word}", lines.len());
                    sink.must("V33", &stated, found, "the index of the well, from 0 on");
                    fix = None;
                }
                (Some(line), Some(name)) if line != name => {
                    let found = format!("{index}, which is {line:?}, but the path has {name:?}");
                    sink.must("V33", &stated, found, "the same in path and index");
                }
                _ => continue,
            },
        }
        if let Some(fix) = fix {
            sink.fix(fix);
        }
    }
}

fn index_of(value: &Json) -> Option<usize> {
    match value.as_u64() {
        Some(n) => usize::try_from(n).ok(),
        None => format!("{:.0}", value.as_f64()?).parse().ok(),
    }
}

/// `well` of a group: V34 as far as the document alone allows.
pub(super) fn well(sink: &mut FindingSink, well: &Spot<'_>) -> SeenWell {
    let mut seen = SeenWell::default();
    if !sink.object("V34", well, "an object") {
        return seen;
    }
    if sink.judged.version <= ImageVersion::V04 {
        version_of(sink, well);
    }
    let mut known = HashSet::new();
    for item in sink.some("V34", &well.get("images"), "a list of the well's fields").unwrap_or_default() {
        sink.typed("V34", FindingLevel::Must, &item, &[("acquisition", Type(is_integer, "an integer"))]);
        let spot = item.get("path");
        let Some(path) = sink.text("V34", &spot, "a path, a string") else { continue };
        if let Some(wanted) = field_fault(path, sink.judged.version) {
            sink.must("V34", &spot, format!("{path:?}"), wanted);
        }
        if !known.insert(path) {
            sink.must("V34", &spot, format!("{path:?} twice"), "each field once");
        }
        let acquisition = item.get("acquisition").json.map(Json::to_string);
        seen.fields.push(SeenField { place: item.place, path: path.to_owned(), acquisition });
    }
    seen
}

/// The expected form of the path of a field, if it is invalid.
fn field_fault(path: &str, version: ImageVersion) -> Option<&'static str> {
    if version < ImageVersion::V06 {
        return (!is_alphanumeric(path)).then_some("letters and digits only");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let is_name = !path.is_empty()
        && path.bytes().all(plain)
        && !path.bytes().all(|b| b == b'.')
        && !path.starts_with("__");
    (!is_name).then_some("letters, digits, _ . -; not only dots, no leading __")
}
