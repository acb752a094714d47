//! Downgrades attributes from 0.6: coordinate systems become axes again. What cannot be expressed is an error, or
//! dropped if `lossy`.

use super::transforms::{INTRINSIC, WORLD, kind, plain};
use super::{Draft, renamed};
use crate::error::{Result, unsupported};
use crate::image::document;
use crate::meta::Json;

impl Draft<'_> {
    /// 0.5: axes, and transforms without systems.
    pub(super) fn no_systems(&mut self) -> Result<()> {
        if self.ome.get("scene").is_some() {
            self.leave_out("the scene")?;
            self.ome.remove("scene");
        }
        self.multiscales(Self::flattened)
    }

    /// Drops something with a note, or fails.
    fn leave_out(&mut self, what: &str) -> Result<()> {
        if !self.context.lossy {
            return Err(unsupported!("{what} cannot be expressed before 0.6").with_hint("lossy", "drops it"));
        }
        self.notes.push(format!("{what} is dropped"));
        Ok(())
    }

    fn flattened(&mut self, multiscale: Json) -> Result<Json> {
        let systems = multiscale.list("coordinateSystems").to_vec();
        let datasets = multiscale.list("datasets").to_vec();
        let leads_to =
            datasets.iter().find_map(|d| end(d.list("coordinateTransformations").first()?, "output"));
        let is = |system: &Json, name: &str| system.text("name") == Some(name);
        let intrinsic = leads_to
            .and_then(|name| systems.iter().find(|s| is(s, &name)))
            .or_else(|| systems.first())
            .cloned();
        let Some(intrinsic) = intrinsic else { return Ok(multiscale) };
        let own = intrinsic.text("name").unwrap_or(INTRINSIC).to_owned();
        let axes = intrinsic.get("axes").cloned().unwrap_or_else(|| Json::Array(Vec::new()));
        let rank = axes.items().map_or(0, <[Json]>::len);

        let mut flat = Vec::with_capacity(datasets.len());
        for mut dataset in datasets {
            let steps = opened(dataset.list("coordinateTransformations"));
            let path = dataset.text("path").unwrap_or_default();
            let steps = plain(&steps, rank).map_err(|e| e.within(format_args!("the level {path:?}")))?;
            let steps = with_scale(steps, rank);
            dataset.set("coordinateTransformations", Json::Array(steps));
            flat.push(dataset);
        }

        // One further system with the same axes is the transform of the whole multiscale; more cannot be expressed.
        let mut whole: Option<(String, Vec<Json>)> = None;
        for transform in multiscale.list("coordinateTransformations") {
            let (input, output) = (end(transform, "input"), end(transform, "output"));
            let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "?".into());
            let steps = plain(&opened(std::slice::from_ref(transform)), rank);
            match (steps, &output) {
                (Ok(steps), Some(output))
                    if whole.is_none()
                        && input.as_deref() == Some(&own)
                        && systems.iter().any(|s| is(s, output) && s.get("axes") == Some(&axes)) =>
                {
                    whole = Some((output.clone(), steps));
                }
                _ => self.leave_out(&format!(
                    "the transform {:?} from {:?} to {:?}",
                    kind(transform),
                    named(&input),
                    named(&output)
                ))?,
            }
        }
        for system in &systems {
            let name = system.text("name").unwrap_or("?");
            let used = whole.as_ref().is_some_and(|(beyond, _)| beyond == name);
            if name != own && !used {
                self.leave_out(&format!("the coordinate system {name:?}"))?;
            } else if name != INTRINSIC && name != WORLD {
                self.notes.push(format!("the name of the coordinate system {name:?} is dropped"));
            }
        }

        let mut multiscale = renamed(&multiscale, "coordinateSystems", "axes", axes);
        multiscale.set("datasets", Json::Array(flat));
        match whole {
            Some((_, steps)) => {
                multiscale.set("coordinateTransformations", Json::Array(with_scale(steps, rank)));
            }
            None => multiscale.remove("coordinateTransformations"),
        }
        Ok(multiscale)
    }
}

/// The input or output name of a transform: that of an object, or plain text in older drafts.
fn end(transform: &Json, which: &str) -> Option<String> {
    let end = transform.get(which)?;
    end.as_str().or_else(|| end.text("name")).map(str::to_owned)
}

/// Transforms without input and output; sequences are flattened.
fn opened(transforms: &[Json]) -> Vec<Json> {
    let open = |transform: &Json| match kind(transform) {
        "sequence" => opened(transform.list("transformations")),
        _ => {
            let mut transform = transform.clone();
            transform.remove("input");
            transform.remove("output");
            vec![transform]
        }
    };
    transforms.iter().flat_map(open).collect()
}

/// Before 0.6 there is always a scale.
fn with_scale(steps: Vec<Json>, rank: usize) -> Vec<Json> {
    if steps.is_empty() { vec![document::transform("scale", &vec![1.0; rank])] } else { steps }
}
