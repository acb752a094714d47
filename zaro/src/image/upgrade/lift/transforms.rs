//! Upgrade of attributes to 0.6: axes become coordinate systems, and each list of transforms a single transform between
//! two systems.

use super::{Draft, renamed};
use crate::error::{Result, unsupported};
use crate::image::document;
use crate::meta::Json;

/// The coordinate system that all levels map to.
pub(super) const INTRINSIC: &str = "intrinsic";

/// The coordinate system that the transforms of the whole multiscale map to.
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
            let whole = multiscale.list("coordinateTransformations").to_vec();
            let datasets = multiscale.list("datasets").iter().map(|dataset| {
                let mut dataset = dataset.clone();
                if let Some(path) = dataset.get("path").cloned() {
                    let steps = dataset.list("coordinateTransformations");
                    let one = single(steps, rank, ("path", path), INTRINSIC)?;
                    dataset.set("coordinateTransformations", vec![one]);
                }
                Ok(dataset)
            });
            let datasets = datasets.collect::<Result<Vec<_>>>()?;
            let mut multiscale = multiscale;
            multiscale.set("datasets", Json::Array(datasets));
            if !whole.is_empty() {
                systems.push(system(WORLD, axes));
                let one = single(&whole, rank, ("name", INTRINSIC.into()), WORLD)?;
                multiscale.set("coordinateTransformations", vec![one]);
            }
            Ok(renamed(&multiscale, "axes", "coordinateSystems", Json::Array(systems)))
        })
    }
}

fn system(name: &str, axes: Json) -> Json {
    Json::from([("name", name.into()), ("axes", axes)])
}

/// Combines a list of transforms into one between two coordinate systems.
fn single(steps: &[Json], rank: usize, input: (&str, Json), output: &str) -> Result<Json> {
    let output = Json::from([("name", output.into())]);
    Ok(document::between(plain(steps, rank)?, input, Some(output)))
}

/// The type of a transform.
pub(super) fn kind(step: &Json) -> &str {
    step.text("type").unwrap_or("none")
}

/// Normalizes transforms to the form that every version allows for a level: none, a scale, or a scale and a
/// translation.
///
/// # Errors
/// `Unsupported`, naming the transform, if it is none of these.
pub(super) fn plain(steps: &[Json], rank: usize) -> Result<Vec<Json>> {
    let steps: Vec<&Json> = steps.iter().filter(|s| kind(s) != "identity").collect();
    let is =
        |step: &Json, name: &str| kind(step) == name && step.get(name).is_some_and(|v| v.items().is_some());
    let in_order = steps.iter().zip(["scale", "translation"]).all(|(step, name)| is(step, name));
    if in_order && steps.len() <= 2 {
        return Ok(steps.into_iter().cloned().collect());
    }
    // Compose others: earlier transforms are scaled by later ones.
    let (mut scale, mut offset) = (vec![1.0; rank], vec![0.0; rank]);
    for step in steps {
        let name = kind(step);
        let vector = match step.numbers(name) {
            Some(vector) if vector.len() == rank && matches!(name, "scale" | "translation") => vector,
            _ => {
                return Err(unsupported!(
                    "a transform of type {name:?} is not a scale or translation of {rank} numbers"
                ));
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
    Ok(vec![document::transform("scale", &scale), document::transform("translation", &offset)])
}
