//! Validates a single transformation of 0.6, of any type: V37.

use super::labels::is_integer;
use super::report::{FindingSink, Spot, nth};
use super::transforms::positive;
use crate::format::text::plural;
use crate::meta::Json;

/// The number of input and output axes, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dimensions {
    pub(super) input: Option<usize>,
    pub(super) output: Option<usize>,
}

impl Dimensions {
    /// The number of axes, for a transformation that preserves it.
    fn either(self) -> Option<usize> {
        self.input.or(self.output)
    }

    /// Checks that input and output have the same number of axes.
    fn same(self, sink: &mut FindingSink, map: &Spot<'_>) {
        if let (Some(a), Some(b)) = (self.input, self.output)
            && a != b
        {
            sink.must("V37", map, format!("{a} axes in, {b} out"), "as many axes out as in");
        }
    }
}

/// A node that holds the parameters of a transformation.
#[derive(Debug, Clone)]
pub(super) struct ParameterNode {
    pub(super) place: String,
    pub(super) path: String,
    /// The shape of the matrix, as far as known; `None` for a field.
    pub(super) matrix: Option<[Option<usize>; 2]>,
}

/// The tolerance of rotations: documents round to four digits.
const ROUNDED: f64 = 1e-3;

/// Validates a transformation, and returns its number of output axes.
pub(super) fn check(
    sink: &mut FindingSink,
    map: &Spot<'_>,
    ends: Dimensions,
    targets: &mut Vec<ParameterNode>,
) -> Option<usize> {
    if !sink.object("V37", map, "an object with a type") {
        return ends.output;
    }
    let kind = map.get("type");
    if let Some(
        "identity" | "scale" | "translation" | "mapAxis" | "rotation" | "bijection" | "displacements",
    ) = kind.text()
    {
        ends.same(sink, map);
    }
    match kind.text() {
        Some("identity") => ends.either(),
        Some(name @ ("scale" | "translation")) => {
            let numbers = map.get(name).numbers();
            if numbers.is_none() {
                sink.wrong("V37", &map.get(name), "a list of numbers, one per axis");
            }
            let count = numbers.as_ref().map(Vec::len);
            as_many(sink, &map.get(name), count, ends.either());
            if name == "scale" {
                positive(sink, numbers.as_deref(), &map.get(name).place);
            }
            ends.either().or(count)
        }
        Some("mapAxis") => {
            let list = map.get("mapAxis");
            let below = ends.either().or(list.items().map(<[Json]>::len));
            let count = indices(sink, &list, below)?.len();
            if !as_many(sink, &list, Some(count), ends.either()) && count < 2 {
                sink.must("V37", &list, plural(count, "number"), "at least 2");
            }
            ends.either().or(Some(count))
        }
        Some("projectAxis") => projection(sink, map, ends),
        Some(name @ ("affine" | "rotation")) => matrix(sink, map, name, ends, targets),
        Some("sequence") => sequence(sink, map, ends, targets),
        Some("byDimension") => by_dimension(sink, map, ends, targets),
        Some("bijection") => {
            inner(sink, &map.get("forward"), ends, targets);
            inner(sink, &map.get("inverse"), Dimensions { input: ends.output, output: ends.input }, targets);
            ends.output.or(ends.input)
        }
        Some("displacements" | "coordinates") => {
            let path = map.get("path");
            if let Some(text) = sink.text("V37", &path, "the path of the field, a string") {
                targets.push(ParameterNode { place: path.place, path: text.to_owned(), matrix: None });
            }
            let how = map.get("interpolation");
            if how.is_some() && !matches!(how.text(), Some("nearest" | "linear" | "cubic" | "bspline-cubic"))
            {
                sink.wrong("V37", &how, "nearest, linear or cubic");
            }
            ends.output
        }
        _ => {
            let wanted = "identity, scale, translation, mapAxis, projectAxis, affine, rotation, sequence, \
                          byDimension, bijection, displacements or coordinates";
            sink.wrong("V37", &kind, wanted);
            ends.output
        }
    }
}

fn inner(sink: &mut FindingSink, map: &Spot<'_>, ends: Dimensions, targets: &mut Vec<ParameterNode>) {
    if map.is_some() {
        check(sink, map, ends, targets);
    } else {
        sink.must("V37", map, "nothing", "a transformation");
    }
}

/// Checks that a list has one number per axis, if both are known; returns whether it does not.
fn as_many(sink: &mut FindingSink, list: &Spot<'_>, count: Option<usize>, axes: Option<usize>) -> bool {
    let Some((count, n)) = count.zip(axes).filter(|(count, n)| count != n) else { return false };
    sink.must("V37", list, format!("{} for {n} axes", plural(count, "number")), "one number per axis");
    true
}

/// A list of axis numbers, each at most once and below `below`.
fn indices(sink: &mut FindingSink, list: &Spot<'_>, below: Option<usize>) -> Option<Vec<usize>> {
    let number = |v: &Json| v.as_u64().filter(|_| is_integer(v)).and_then(|n| usize::try_from(n).ok());
    let found = list.items().and_then(|items| items.iter().map(number).collect::<Option<Vec<usize>>>());
    if found.is_none() {
        sink.wrong("V37", list, "a list of axis numbers, from 0 on");
    }
    let found = found?;
    for (i, n) in found.iter().enumerate() {
        if found.iter().take(i).any(|other| other == n) {
            sink.must("V37", nth(&list.place, i), format!("{n} twice"), "each axis at most once");
        }
        let below = below.unwrap_or(5);
        if *n >= below {
            sink.must("V37", nth(&list.place, i), n.to_string(), format!("a number below {below}"));
        }
    }
    Some(found)
}

fn projection(sink: &mut FindingSink, map: &Spot<'_>, ends: Dimensions) -> Option<usize> {
    let lists = [(map.get("droppedInputs"), ends.input), (map.get("createdOutputs"), ends.output)];
    if lists.iter().all(|(list, _)| !list.is_some()) {
        sink.must("V37", map, "neither", "droppedInputs, createdOutputs or both");
        return ends.output;
    }
    let [dropped, created] = lists.map(|(list, below)| {
        let count = if list.is_some() { indices(sink, &list, below).map(|found| found.len()) } else { None };
        if let Some(count) = count.filter(|count| !(1..=3).contains(count)) {
            sink.must("V37", &list, plural(count, "number"), "1 to 3 numbers");
        }
        count.unwrap_or(0)
    });
    let out = ends.input.map(|n| n.saturating_sub(dropped).saturating_add(created));
    if let (Some(out), Some(wanted)) = (out, ends.output)
        && out != wanted
    {
        sink.must("V37", map, format!("{out} output axes"), format!("{wanted} axes, as in the output"));
    }
    ends.output.or(out)
}

fn matrix(
    sink: &mut FindingSink,
    map: &Spot<'_>,
    name: &str,
    ends: Dimensions,
    targets: &mut Vec<ParameterNode>,
) -> Option<usize> {
    let is_rotation = name == "rotation";
    let mut wanted =
        if is_rotation { [ends.either(); 2] } else { [ends.output, ends.input.map(|n| n.saturating_add(1))] };
    let (list, path) = (map.get(name), map.get("path"));
    match (list.json, path.json) {
        (Some(_), Some(_)) => {
            sink.must("V37", map, format!("{name} and path"), "one of the two");
            return ends.output;
        }
        (None, Some(_)) => {
            if let Some(text) = sink.text("V37", &path, "the path of an array, a string") {
                targets.push(ParameterNode {
                    place: path.place,
                    path: text.to_owned(),
                    matrix: Some(wanted),
                });
            }
            return ends.output;
        }
        (_, None) => {}
    }
    let numbers = |row: &Json| -> Option<Vec<f64>> { row.items()?.iter().map(Json::as_f64).collect() };
    let found = list.items().and_then(|rows| rows.iter().map(numbers).collect::<Option<Vec<Vec<f64>>>>());
    let Some(found) = found.filter(|rows| !rows.is_empty()) else {
        sink.wrong("V37", &list, "a matrix: a list of rows of numbers, or a path");
        return ends.output;
    };
    let width = found.first().map_or(0, Vec::len);
    if found.iter().any(|row| row.len() != width) {
        sink.must("V37", &list, "rows of different lengths", "rows of the same length");
        return ends.output;
    }
    if is_rotation {
        wanted = wanted.map(|n| n.or(Some(width)));
    }
    let [rows, columns] = wanted;
    if rows.is_some_and(|n| n != found.len()) || columns.is_some_and(|n| n != width) {
        let text = |n: Option<usize>| n.map_or_else(|| "any number of".to_owned(), |n| n.to_string());
        let wanted = format!("{} rows of {} numbers", text(rows), text(columns));
        sink.must("V37", &list, format!("{} rows of {width} numbers", found.len()), wanted);
    } else if is_rotation {
        rotation(sink, &found, &list);
    }
    ends.output.or(Some(found.len()))
}

/// Checks that a rotation is orthonormal, and not a reflection.
fn rotation(sink: &mut FindingSink, rows: &[Vec<f64>], list: &Spot<'_>) {
    for (i, a) in rows.iter().enumerate() {
        for (j, b) in rows.iter().enumerate().skip(i) {
            let product: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
            let wanted = if i == j { 1.0 } else { 0.0 };
            if !is_near(product, wanted) {
                let found = format!("rows {i} and {j} with the product {product}");
                sink.must("V37", list, found, "orthonormal rows");
                return;
            }
        }
    }
    let found = determinant(rows.to_vec());
    if !is_near(found, 1.0) {
        sink.must("V37", list, format!("the determinant {found}"), "the determinant 1");
    }
}

/// False for NaN.
fn is_near(x: f64, wanted: f64) -> bool {
    (x - wanted).abs() <= ROUNDED
}

fn determinant(mut rows: Vec<Vec<f64>>) -> f64 {
    let mut product = 1.0;
    let head = |row: &Vec<f64>| row.first().copied().unwrap_or(0.0);
    while !rows.is_empty() {
        let heads = rows.iter().map(|row| head(row).abs()).enumerate();
        let pivot = heads.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(i, _)| i);
        if pivot > 0 {
            rows.swap(0, pivot);
            product = -product;
        }
        let first = rows.remove(0);
        let lead = head(&first);
        product *= lead;
        if lead == 0.0 {
            return 0.0;
        }
        for row in &mut rows {
            let factor = head(row) / lead;
            *row = row.iter().zip(&first).skip(1).map(|(x, p)| x - factor * p).collect();
        }
    }
    product
}

fn sequence(
    sink: &mut FindingSink,
    map: &Spot<'_>,
    ends: Dimensions,
    targets: &mut Vec<ParameterNode>,
) -> Option<usize> {
    let steps = sink.some("V37", &map.get("transformations"), "a list of transformations");
    let Some(steps) = steps else { return ends.output };
    let mut now = ends.input;
    for (i, step) in steps.iter().enumerate() {
        let is_last = i.saturating_add(1) == steps.len();
        // Only steps that preserve the number of axes define it.
        let changes = ["projectAxis", "affine", "coordinates", "byDimension", "sequence"];
        let keeps = step.get("type").text().is_none_or(|kind| !changes.contains(&kind));
        let output = if is_last { ends.output } else { now.filter(|_| keeps) };
        now = check(sink, step, Dimensions { input: now, output }, targets);
    }
    ends.output.or(now)
}

fn by_dimension(
    sink: &mut FindingSink,
    map: &Spot<'_>,
    ends: Dimensions,
    targets: &mut Vec<ParameterNode>,
) -> Option<usize> {
    let list = map.get("transformations");
    let parts = sink.some("V37", &list, "a list of transformations with their axes");
    let Some(parts) = parts else { return ends.output };
    let mut covered: Vec<usize> = Vec::new();
    let mut whole = true;
    for part in parts {
        let mut axes = |name: &str, old: &str, below: Option<usize>| {
            let found = indices(sink, &part.get(name), below);
            if found.is_none() && part.has(old) {
                sink.fix(format!("`{old}` is the name in drafts; write `{name}`"));
            }
            found
        };
        let inputs = axes("inputAxes", "input_axes", ends.input);
        let outputs = axes("outputAxes", "output_axes", ends.output);
        for n in outputs.iter().flatten() {
            if covered.contains(n) {
                let again = format!("{n} twice");
                sink.must("V37", &part.get("outputAxes"), again, "each output axis once");
            }
            covered.push(*n);
        }
        whole &= outputs.is_some();
        let within = Dimensions { input: inputs.map(|v| v.len()), output: outputs.map(|v| v.len()) };
        inner(sink, &part.get("transformation"), within, targets);
    }
    if let Some(n) = ends.output.filter(|_| whole) {
        let lacking: Vec<String> = (0..n).filter(|i| !covered.contains(i)).map(|i| i.to_string()).collect();
        if !lacking.is_empty() {
            let found = format!("nothing for output axis {}", lacking.join(", "));
            sink.must("V37", &list, found, "each output axis once");
        }
    }
    ends.output
}
