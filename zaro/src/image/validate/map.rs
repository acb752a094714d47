//! One transformation of 0.6, whatever its type: V37.

use super::Judged;
use super::labels::is_integer;
use super::report::{Sink, at, nth, plural, show, show_or};
use super::transforms::positive;
use crate::meta::Json;

/// How many axes there are at each end, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dimensions {
    pub(super) input: Option<usize>,
    pub(super) output: Option<usize>,
}

/// A node that holds the parameters of a transformation.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Where in the document.
    pub(super) place: String,
    pub(super) path: String,
    /// The shape of the matrix, as far as it is known; `None` for a field.
    pub(super) matrix: Option<[Option<usize>; 2]>,
}

/// How exact a rotation must be: documents round to four digits.
const ROUNDED: f64 = 1e-3;

/// Checks a transformation, and says how many axes come out of it.
pub(super) fn check(
    sink: &mut Sink,
    json: &Json,
    place: &str,
    dimensions: Dimensions,
    judged: Judged,
    targets: &mut Vec<Target>,
) -> Option<usize> {
    if json.members().is_none() {
        sink.must("V37", place, show(json), "an object with a type");
        return dimensions.output;
    }
    let Dimensions { input, output } = dimensions;
    match json.get("type").and_then(Json::as_str) {
        Some("identity") => {
            same(sink, place, input, output);
            input.or(output)
        }
        Some(name @ ("scale" | "translation")) => {
            same(sink, place, input, output);
            let numbers = numbers(sink, json, name, place);
            if let (Some(numbers), Some(n)) = (&numbers, input.or(output))
                && numbers.len() != n
            {
                let found = format!("{} for {n} axes", plural(numbers.len(), "number"));
                sink.must("V37", at(place, name), found, "as many numbers as axes");
            }
            if name == "scale" {
                positive(sink, numbers.as_deref(), &at(place, name), judged);
            }
            input.or(output).or(numbers.map(|n| n.len()))
        }
        Some("mapAxis") => permutation(sink, json, place, dimensions),
        Some("projectAxis") => projection(sink, json, place, dimensions),
        Some(name @ ("affine" | "rotation")) => matrix(sink, json, name, place, dimensions, targets),
        Some("sequence") => sequence(sink, json, place, dimensions, judged, targets),
        Some("byDimension") => by_dimension(sink, json, place, dimensions, judged, targets),
        Some("bijection") => {
            same(sink, place, input, output);
            for (name, dimensions) in
                [("forward", dimensions), ("inverse", Dimensions { input: output, output: input })]
            {
                match json.get(name) {
                    None => sink.must("V37", at(place, name), "nothing", "a transformation"),
                    Some(inner) => {
                        check(sink, inner, &at(place, name), dimensions, judged, targets);
                    }
                }
            }
            output.or(input)
        }
        Some(name @ ("displacements" | "coordinates")) => {
            field(sink, json, place, targets);
            if name == "displacements" {
                same(sink, place, input, output);
            }
            output
        }
        _ => {
            let wanted = "identity, scale, translation, mapAxis, projectAxis, affine, rotation, sequence, \
                          byDimension, bijection, displacements or coordinates";
            sink.must("V37", at(place, "type"), show_or(json.get("type")), wanted);
            output
        }
    }
}

/// Both ends have the same number of axes.
fn same(sink: &mut Sink, place: &str, input: Option<usize>, output: Option<usize>) {
    if let (Some(a), Some(b)) = (input, output)
        && a != b
    {
        sink.must("V37", place, format!("{a} axes in, {b} out"), "as many axes out as in");
    }
}

fn numbers(sink: &mut Sink, json: &Json, name: &str, place: &str) -> Option<Vec<f64>> {
    let found: Option<Vec<f64>> =
        json.get(name).and_then(Json::items).and_then(|items| items.iter().map(Json::as_f64).collect());
    if found.is_none() {
        sink.must("V37", at(place, name), show_or(json.get(name)), "a list of numbers, one an axis");
    }
    found
}

/// A list of axis numbers, each at most once and below `below`.
fn indices(
    sink: &mut Sink,
    json: &Json,
    name: &str,
    place: &str,
    below: Option<usize>,
) -> Option<Vec<usize>> {
    let place = at(place, name);
    let number = |v: &Json| v.as_u64().filter(|_| is_integer(v)).and_then(|n| usize::try_from(n).ok());
    let found: Option<Vec<usize>> =
        json.get(name).and_then(Json::items).and_then(|items| items.iter().map(number).collect());
    let Some(found) = found else {
        sink.must("V37", place, show_or(json.get(name)), "a list of axis numbers, from 0 on");
        return None;
    };
    for (i, n) in found.iter().enumerate() {
        if found.iter().take(i).any(|other| other == n) {
            sink.must("V37", nth(&place, i), format!("{n} twice"), "each axis at most once");
        }
        if *n >= below.unwrap_or(5) {
            let wanted = format!("a number below {}", below.unwrap_or(5));
            sink.must("V37", nth(&place, i), n.to_string(), wanted);
        }
    }
    Some(found)
}

fn permutation(sink: &mut Sink, json: &Json, place: &str, dimensions: Dimensions) -> Option<usize> {
    let Dimensions { input, output } = dimensions;
    same(sink, place, input, output);
    let length = json.get("mapAxis").and_then(Json::items).map(<[Json]>::len);
    let n = input.or(output);
    let found = indices(sink, json, "mapAxis", place, n.or(length))?;
    if let Some(n) = n
        && found.len() != n
    {
        let wrong = format!("{} for {n} axes", plural(found.len(), "number"));
        sink.must("V37", at(place, "mapAxis"), wrong, "as many numbers as axes");
    } else if found.len() < 2 {
        sink.must("V37", at(place, "mapAxis"), plural(found.len(), "number"), "at least 2");
    }
    n.or(Some(found.len()))
}

fn projection(sink: &mut Sink, json: &Json, place: &str, dimensions: Dimensions) -> Option<usize> {
    let names = ["droppedInputs", "createdOutputs"];
    if names.iter().all(|name| json.get(name).is_none()) {
        sink.must("V37", place, "nothing to do", "droppedInputs, createdOutputs or both");
        return dimensions.output;
    }
    let mut counts = [0usize; 2];
    let below = [dimensions.input, dimensions.output];
    for ((name, below), count) in names.into_iter().zip(below).zip(&mut counts) {
        if json.get(name).is_some()
            && let Some(found) = indices(sink, json, name, place, below)
        {
            *count = found.len();
            if !(1..=3).contains(&found.len()) {
                sink.must("V37", at(place, name), plural(found.len(), "number"), "1 to 3 numbers");
            }
        }
    }
    let [dropped, created] = counts;
    let out = dimensions.input.map(|n| n.saturating_sub(dropped).saturating_add(created));
    if let (Some(out), Some(wanted)) = (out, dimensions.output)
        && out != wanted
    {
        sink.must("V37", place, format!("{out} axes come out"), format!("{wanted} axes, as the output has"));
    }
    dimensions.output.or(out)
}

fn matrix(
    sink: &mut Sink,
    json: &Json,
    name: &str,
    place: &str,
    dimensions: Dimensions,
    targets: &mut Vec<Target>,
) -> Option<usize> {
    let Dimensions { input, output } = dimensions;
    let is_rotation = name == "rotation";
    let mut wanted = [output, input.map(|n| n.saturating_add(1))];
    if is_rotation {
        same(sink, place, input, output);
        wanted = [input.or(output); 2];
    }
    let rows = match (json.get(name), json.get("path")) {
        (Some(_), Some(_)) => {
            sink.must("V37", place, format!("{name} and path"), "one of the two");
            return output;
        }
        (None, Some(path)) => {
            match path.as_str() {
                None => sink.must("V37", at(place, "path"), show(path), "the path of an array, a string"),
                Some(path) => targets.push(Target {
                    place: at(place, "path"),
                    path: path.to_owned(),
                    matrix: Some(wanted),
                }),
            }
            return output;
        }
        (rows, None) => rows,
    };
    let numbers = |row: &Json| -> Option<Vec<f64>> { row.items()?.iter().map(Json::as_f64).collect() };
    let found: Option<Vec<Vec<f64>>> =
        rows.and_then(Json::items).and_then(|rows| rows.iter().map(numbers).collect());
    let Some(found) = found.filter(|rows| !rows.is_empty()) else {
        sink.must("V37", at(place, name), show_or(rows), "a matrix: a list of rows of numbers, or a path");
        return output;
    };
    let place = at(place, name);
    let width = found.first().map_or(0, Vec::len);
    if found.iter().any(|row| row.len() != width) {
        sink.must("V37", place, "rows of different lengths", "rows of the same length");
        return output;
    }
    let [rows, columns] =
        if is_rotation { [wanted[0].or(Some(width)), wanted[1].or(Some(width))] } else { wanted };
    if rows.is_some_and(|n| n != found.len()) || columns.is_some_and(|n| n != width) {
        let text = |n: Option<usize>| n.map_or_else(|| "any number of".to_owned(), |n| n.to_string());
        let wanted = format!("{} rows of {} numbers", text(rows), text(columns));
        sink.must("V37", place, format!("{} rows of {width} numbers", found.len()), wanted);
    } else if is_rotation {
        rotation(sink, &found, &place);
    }
    output.or(Some(found.len()))
}

/// A rotation is orthonormal, and does not mirror.
fn rotation(sink: &mut Sink, rows: &[Vec<f64>], place: &str) {
    for (i, a) in rows.iter().enumerate() {
        for (j, b) in rows.iter().enumerate().skip(i) {
            let product: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
            let wanted = if i == j { 1.0 } else { 0.0 };
            if !is_near(product, wanted) {
                let found = format!("rows {i} and {j} with the product {product}");
                sink.must("V37", place, found, "orthonormal rows");
                return;
            }
        }
    }
    let found = determinant(rows.to_vec());
    if !is_near(found, 1.0) {
        sink.must("V37", place, format!("the determinant {found}"), "the determinant 1");
    }
}

/// What is no number is not near.
fn is_near(x: f64, wanted: f64) -> bool {
    (x - wanted).abs() <= ROUNDED
}

fn determinant(mut rows: Vec<Vec<f64>>) -> f64 {
    let mut product = 1.0;
    while !rows.is_empty() {
        let head = |row: &Vec<f64>| row.first().copied().unwrap_or(0.0);
        let pivot = (0..rows.len())
            .max_by(|a, b| {
                let size = |i: &usize| rows.get(*i).map_or(0.0, |r| head(r).abs());
                size(a).total_cmp(&size(b))
            })
            .unwrap_or(0);
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
        rows = rows
            .iter()
            .map(|row| {
                let factor = head(row) / lead;
                row.iter().zip(&first).skip(1).map(|(x, p)| x - factor * p).collect()
            })
            .collect();
    }
    product
}

fn sequence(
    sink: &mut Sink,
    json: &Json,
    place: &str,
    dimensions: Dimensions,
    judged: Judged,
    targets: &mut Vec<Target>,
) -> Option<usize> {
    let place = at(place, "transformations");
    let Some(steps) = json.get("transformations").and_then(Json::items).filter(|s| !s.is_empty()) else {
        sink.must("V37", place, show_or(json.get("transformations")), "a list of transformations");
        return dimensions.output;
    };
    let mut now = dimensions.input;
    for (i, step) in steps.iter().enumerate() {
        let is_last = i.saturating_add(1) == steps.len();
        // Only steps that keep the number of axes say it for themselves.
        let keeps = !matches!(
            step.get("type").and_then(Json::as_str),
            Some("projectAxis" | "affine" | "coordinates" | "byDimension" | "sequence")
        );
        let output = if is_last {
            dimensions.output
        } else if keeps {
            now
        } else {
            None
        };
        now = check(sink, step, &nth(&place, i), Dimensions { input: now, output }, judged, targets);
    }
    dimensions.output.or(now)
}

fn by_dimension(
    sink: &mut Sink,
    json: &Json,
    place: &str,
    dimensions: Dimensions,
    judged: Judged,
    targets: &mut Vec<Target>,
) -> Option<usize> {
    let place = at(place, "transformations");
    let Some(parts) = json.get("transformations").and_then(Json::items).filter(|p| !p.is_empty()) else {
        sink.must(
            "V37",
            place,
            show_or(json.get("transformations")),
            "a list of transformations with their axes",
        );
        return dimensions.output;
    };
    let mut covered: Vec<usize> = Vec::new();
    let mut whole = true;
    for (i, part) in parts.iter().enumerate() {
        let place = nth(&place, i);
        let mut axes = |name: &str, old: &str, below: Option<usize>| {
            let found = indices(sink, part, name, &place, below);
            if found.is_none() && part.get(old).is_some() {
                sink.fix(format!("`{old}` is the name that drafts had; write `{name}`"));
            }
            found
        };
        let inputs = axes("inputAxes", "input_axes", dimensions.input);
        let outputs = axes("outputAxes", "output_axes", dimensions.output);
        for n in outputs.iter().flatten() {
            if covered.contains(n) {
                sink.must("V37", at(&place, "outputAxes"), format!("{n} once more"), "each output axis once");
            }
            covered.push(*n);
        }
        whole &= outputs.is_some();
        let inner = Dimensions { input: inputs.map(|v| v.len()), output: outputs.map(|v| v.len()) };
        match part.get("transformation") {
            None => sink.must("V37", at(&place, "transformation"), "nothing", "a transformation"),
            Some(json) => {
                check(sink, json, &at(&place, "transformation"), inner, judged, targets);
            }
        }
    }
    if let Some(n) = dimensions.output.filter(|_| whole) {
        let lacking: Vec<String> = (0..n).filter(|i| !covered.contains(i)).map(|i| i.to_string()).collect();
        if !lacking.is_empty() {
            let found = format!("nothing for output axis {}", lacking.join(", "));
            sink.must("V37", place, found, "each output axis once");
        }
    }
    dimensions.output
}

fn field(sink: &mut Sink, json: &Json, place: &str, targets: &mut Vec<Target>) {
    match json.get("path").and_then(Json::as_str) {
        None => {
            sink.must("V37", at(place, "path"), show_or(json.get("path")), "the path of the field, a string")
        }
        Some(path) => {
            targets.push(Target { place: at(place, "path"), path: path.to_owned(), matrix: None });
        }
    }
    if let Some(how) = json.get("interpolation")
        && !matches!(how.as_str(), Some("nearest" | "linear" | "cubic" | "bspline-cubic"))
    {
        sink.must("V37", at(place, "interpolation"), show(how), "nearest, linear or cubic");
    }
}
