//! 0.6: axes become coordinate systems, lists of transforms one transform each between two systems.

use super::{Draft, list, renamed};
use crate::error::{Error, Result};
use crate::meta::Json;

/// The system that all levels lead to.
pub(super) const INTRINSIC: &str = "intrinsic";

/// The system that what is said of the whole multiscale leads to.
pub(super) const WORLD: &str = "world";

impl Draft<'_> {
    /// 0.6: coordinate systems.
    pub(super) fn systems(&mut self) -> Result<()> {
        self.multiscales(|_, multiscale| {
            if multiscale.get("coordinateSystems").is_some() {
                return Ok(multiscale);
            }
            let axes = multiscale.get("axes").cloned().unwrap_or_else(|| Json::Array(Vec::new()));
            let rank = axes.items().map_or(0, <[Json]>::len);
            let mut systems = vec![system(INTRINSIC, axes.clone())];
            let whole = list(&multiscale, "coordinateTransformations").to_vec();
            let datasets = list(&multiscale, "datasets").iter().map(|dataset| {
                let mut dataset = dataset.clone();
                if let Some(path) = dataset.get("path").cloned() {
                    let steps = list(&dataset, "coordinateTransformations");
                    let ends = [("input", reference("path", path)), ("output", named(INTRINSIC))];
                    let one = single(steps, rank, ends)?;
                    dataset.set("coordinateTransformations", Json::Array(vec![one]));
                }
                Ok(dataset)
            });
            let datasets = datasets.collect::<Result<Vec<_>>>()?;
            let mut multiscale = multiscale;
            multiscale.set("datasets", Json::Array(datasets));
            if !whole.is_empty() {
                systems.push(system(WORLD, axes));
                let ends = [("input", named(INTRINSIC)), ("output", named(WORLD))];
                let one = single(&whole, rank, ends)?;
                multiscale.set("coordinateTransformations", Json::Array(vec![one]));
            }
            Ok(renamed(&multiscale, "axes", "coordinateSystems", Json::Array(systems)))
        })
    }
}

fn system(name: &str, axes: Json) -> Json {
    let mut system = Json::object();
    system.set("name", Json::string(name));
    system.set("axes", axes);
    system
}

fn reference(kind: &str, value: Json) -> Json {
    let mut object = Json::object();
    object.set(kind, value);
    object
}

fn named(name: &str) -> Json {
    reference("name", Json::string(name))
}

/// A list of transforms as one between two systems.
fn single(steps: &[Json], rank: usize, ends: [(&str, Json); 2]) -> Result<Json> {
    let mut one = match plain(steps, rank)?.as_slice() {
        [] => {
            let mut identity = Json::object();
            identity.set("type", Json::string("identity"));
            identity
        }
        [only] => only.clone(),
        several => {
            let mut sequence = Json::object();
            sequence.set("type", Json::string("sequence"));
            sequence.set("transformations", Json::Array(several.to_vec()));
            sequence
        }
    };
    for (name, end) in ends {
        one.set(name, end);
    }
    Ok(one)
}

/// What a transform is called.
pub(super) fn kind(step: &Json) -> &str {
    step.get("type").and_then(Json::as_str).unwrap_or("none")
}

/// Transforms in the one form that every version allows for a level: nothing, a scale, or a scale and a translation.
///
/// # Errors
/// `Unsupported`, naming the transform, if it is none of these.
pub(super) fn plain(steps: &[Json], rank: usize) -> Result<Vec<Json>> {
    let steps: Vec<&Json> = steps.iter().filter(|s| kind(s) != "identity").collect();
    let inline = |step: &Json, name: &str| step.get(name).is_some_and(|v| v.items().is_some());
    match steps.as_slice() {
        [] => return Ok(Vec::new()),
        [scale] if kind(scale) == "scale" && inline(scale, "scale") => return Ok(vec![(*scale).clone()]),
        [scale, moved]
            if kind(scale) == "scale"
                && inline(scale, "scale")
                && kind(moved) == "translation"
                && inline(moved, "translation") =>
        {
            return Ok(vec![(*scale).clone(), (*moved).clone()]);
        }
        _ => {}
    }
    // Others are worked out: what comes first is scaled by what comes later.
    let (mut scale, mut offset) = (vec![1.0; rank], vec![0.0; rank]);
    for step in steps {
        let name = kind(step);
        let vector: Option<Vec<f64>> =
            step.get(name).and_then(Json::items).and_then(|v| v.iter().map(Json::as_f64).collect());
        let vector = match vector {
            Some(vector) if vector.len() == rank && matches!(name, "scale" | "translation") => vector,
            _ => {
                return Err(Error::unsupported(format!(
                    "a transform of type {name:?} that is no scale or translation of {rank} numbers"
                )));
            }
        };
        for ((s, o), v) in scale.iter_mut().zip(&mut offset).zip(vector) {
            if name == "scale" {
                *s *= v;
                *o *= v;
            } else {
                *o += v;
            }
        }
    }
    let step = |name: &str, vector: Vec<f64>| {
        let mut step = Json::object();
        step.set("type", Json::string(name));
        step.set(name, Json::Array(vector.into_iter().map(Json::float).collect()));
        step
    };
    Ok(vec![step("scale", scale), step("translation", offset)])
}
