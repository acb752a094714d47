//! Upgrade steps of attributes up to 0.4.

use super::{Draft, edit, edit_each};
use crate::error::Result;
use crate::image::model::{Axis, AxisKind, USUAL, integers};
use crate::image::{document, parse};
use crate::meta::Json;

/// Words in the `type` of multiscales whose downsampled pixels are centred on the pixels they represent.
const CENTRED: [&str; 7] = ["mean", "average", "gaussian", "area", "bin_shrink", "binning", "resize"];

impl Draft<'_> {
    /// 0.3: axes have names.
    pub(super) fn named_axes(&mut self) -> Result<()> {
        self.multiscales(|draft, mut multiscale| {
            if multiscale.get("axes").is_some() || multiscale.get("coordinateSystems").is_some() {
                return Ok(multiscale);
            }
            let rank = match multiscale.list("datasets").iter().find_map(|d| d.text("path")) {
                Some(path) => draft.level(path)?.shape.len(),
                None => USUAL.len(),
            };
            if rank != USUAL.len() {
                draft.notes.push(format!(
                    "the arrays have {rank} dimensions, which are assumed to be the last of t, c, z, y, x"
                ));
            }
            multiscale.set("axes", Axis::usual(rank).into_iter().map(|axis| axis.name).collect::<Json>());
            Ok(multiscale)
        })
    }

    /// 0.4: axes have types, levels a scale, wells their row and column.
    pub(super) fn typed_axes(&mut self) -> Result<()> {
        self.multiscales(|draft, mut multiscale| {
            let axes = multiscale.list("axes").iter().map(typed).collect();
            multiscale.set("axes", Json::Array(axes));
            let centred = is_centred(&multiscale);
            let mut first: Option<Vec<u64>> = None;
            let mut datasets = Vec::new();
            for mut dataset in multiscale.list("datasets").to_vec() {
                if let Some(path) = dataset.text("path")
                    && dataset.get("coordinateTransformations").is_none()
                {
                    let shape = &draft.level(path)?.shape;
                    let largest = first.get_or_insert_with(|| shape.clone());
                    dataset.set("coordinateTransformations", scaled(largest, shape, centred));
                }
                datasets.push(dataset);
            }
            multiscale.set("datasets", Json::Array(datasets));
            Ok(multiscale)
        })?;
        self.places();
        self.channels();
        Ok(())
    }

    /// Sets the rows and columns of wells, which before 0.4 are only in their paths.
    fn places(&mut self) {
        let Some(plate) = self.ome.get("plate").filter(|p| p.members().is_some()).cloned() else { return };
        let known = parse::group(&Json::from([("plate", plate)])).plate.map(|p| p.wells).unwrap_or_default();
        let mut lost = Vec::new();
        edit(&mut self.ome, "plate", |plate| {
            edit_each(plate, "wells", |well| {
                let path = well.text("path").unwrap_or_default().to_owned();
                match known.iter().find(|w| w.path == path) {
                    Some(place) => {
                        well.set("rowIndex", Json::int(place.row));
                        well.set("columnIndex", Json::int(place.column));
                    }
                    None => lost.push(format!("the well {path:?} is not in a row and column of its plate")),
                }
                if path.trim_matches('/').split('/').count() > 2 {
                    lost.push(format!("the path of the well {path:?} is more than a row and a column"));
                }
            });
        });
        self.notes.append(&mut lost);
    }

    /// Adds what 0.4 requires of every channel: a colour and a complete window.
    fn channels(&mut self) {
        let first =
            self.ome.list("multiscales").first().and_then(|m| m.list("datasets").first()?.text("path"));
        let range = first.and_then(|path| integers(&self.context.arrays.get(path)?.data_type));
        let mut filled = false;
        edit(&mut self.ome, "omero", |omero| {
            edit_each(omero, "channels", |channel| {
                if channel.get("color").is_none() {
                    channel.set("color", Json::string("FFFFFF"));
                    filled = true;
                }
                let Some((least, most)) = range else { return };
                let mut window = channel.inner("window");
                for (name, value) in [("min", least), ("max", most), ("start", least), ("end", most)] {
                    if window.get(name).is_none() {
                        window.set(name, value);
                        filled = true;
                    }
                }
                channel.set("window", window);
            });
        });
        if filled {
            self.notes.push(
                "omero had channels without a colour or a complete window; set to white and the range of the type"
                    .into(),
            );
        }
    }
}

/// An axis of 0.4 from one of 0.3.
fn typed(axis: &Json) -> Json {
    let Some(name) = axis.as_str() else { return axis.clone() };
    let mut object = Json::from([("name", name.into())]);
    document::set_known(&mut object, "type", AxisKind::of_name(name).text());
    object
}

/// Whether the levels are known to be averages of blocks, and not every other pixel.
fn is_centred(multiscale: &Json) -> bool {
    let said = multiscale.text("type");
    let method = multiscale.get("metadata").and_then(|m| m.text("method"));
    said.or(method).is_some_and(|word| {
        let word = word.to_ascii_lowercase();
        CENTRED.iter().any(|c| word.contains(c)) && !word.contains("nearest")
    })
}

/// The transforms of a level, from its factors relative to the largest level.
fn scaled(largest: &[u64], shape: &[u64], centred: bool) -> Json {
    #[allow(clippy::as_conversions, clippy::cast_precision_loss, reason = "extents, to be divided")]
    let ratio = |(large, small): (&u64, &u64)| if *small == 0 { 1.0 } else { *large as f64 / *small as f64 };
    let scale: Vec<f64> = largest.iter().zip(shape).map(ratio).collect();
    let offset: Vec<f64> = scale.iter().map(|s| if centred { (s - 1.0) / 2.0 } else { 0.0 }).collect();
    document::transforms(&scale, &offset).into()
}
