//! A pyramid somewhere else: the largest level is copied, and the others are made there. And those of labels, which follow
//! their image's.

use super::journal::{COPY, Journal, LEVELS};
use super::places::Places;
use super::{Built, Factors, Frame, Method, PyramidOptions, attributes, build, build_from_array, follow};
use crate::blocking::wait;
use crate::copy::{CopyOptions, Sizes, copy};
use crate::error::{Error, ErrorKind, Result};
use crate::group::Zarr;
use crate::hierarchy::{self, Existing};
use crate::image::find;
use crate::image::model::Axis;
use crate::meta::path::{join, normal, shown};
use crate::meta::{Json, NodeMeta, edit};
use crate::store::SharedStore;

/// Makes at `to` of `store` an image of the one, or of the plain array, that is at `from` of `source`: its largest
/// level with smaller ones, its metadata, its labels and masks. Blocks until it is done.
///
/// `name` tells sources apart: what was begun of another one is not taken up.
pub fn build_at(
    source: &Zarr,
    name: &str,
    from: &str,
    frame: &Frame,
    store: &SharedStore,
    to: &str,
    options: &PyramidOptions,
) -> Result<Built> {
    let (from, to) = (source.key_of(from)?, normal(to)?);
    let placed = |e: Error| e.with_node(shown(&to)).with_store(store);
    let node = wait(source.node(&from))?;
    // What is copied: from where, to where below the image.
    let mut parts: Vec<(String, String)> = Vec::new();
    let attributes = match &node.meta {
        NodeMeta::Array(_) => {
            parts.push((from.clone(), "0".to_owned()));
            None
        }
        NodeMeta::Group(_) => {
            let image = wait(find::image_at(source, &from))?;
            let multiscale = image.multiscale(None)?;
            let first = Places::of(&image.attributes).map_err(|e| e.with_node(shown(&image.path)))?.first;
            parts.push((join(&image.path, &first), first));
            for below in ["labels", "masks"] {
                let at = join(&image.path, below);
                match wait(source.node(&at)) {
                    Ok(_) => parts.push((at, below.to_owned())),
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            let rank = multiscale.axes.len();
            Some(attributes::with_levels(&image.attributes, image.version, rank, &[], None)?)
        }
    };
    let nodes: Vec<String> = parts.iter().map(|(path, _)| path.clone()).collect();
    wait(hierarchy::check_apart(source.store(), &from, &nodes, store, &to, options.existing))?;
    let settings = format!("{name} {from:?} {:?} {:?} {:?}", options.chunks, options.shards, options.codecs);
    let old = Journal::find(store, &to, COPY)?;
    let (mut journal, resumed) = match old {
        Some(old) if old.is_of(&settings) => (old, true),
        old => {
            if options.existing == Existing::Refuse {
                let listed = wait(store.list(&to))?;
                if old.is_some() || !(listed.objects.is_empty() && listed.prefixes.is_empty()) {
                    return Err(placed(Error::usage(
                        "something is here already; replace it with --overwrite",
                    )));
                }
            } else {
                clear(store, &to, old.is_some())?;
            }
            (Journal::begin(store, &to, COPY, &settings, &[])?, false)
        }
    };
    if journal.done("copied") == 0 {
        let format = node.meta.format();
        wait(hierarchy::check_place(store, &to, format))?;
        for (i, (part, below)) in parts.iter().enumerate() {
            let at = join(&to, below);
            // A copy is there when it is whole.
            if wait(hierarchy::find(store, &at))?.is_none() {
                copy(source, name, part, store, &at, &copying(options, i == 0))?;
            }
        }
        if wait(hierarchy::find(store, &to))?.is_none() {
            wait(hierarchy::create_group(store, &to, format, &Json::object(), Existing::Refuse))?;
        }
        if let Some(attributes) = &attributes {
            let set = attributes.members().unwrap_or_default().to_vec();
            let how = edit::Attributes::Patch { set, unset: Vec::new() };
            wait(hierarchy::edit_attributes(store, &to, &how))?;
        }
        journal.note("copied", 1)?;
        journal.write()?;
    }
    // It may have been stopped after the very last level.
    let whole = PyramidOptions {
        existing: if resumed && Journal::find(store, &to, LEVELS)?.is_none() {
            Existing::Replace
        } else {
            Existing::Refuse
        },
        chunks: None,
        shards: None,
        codecs: None,
        ..options.clone()
    };
    let built = match attributes {
        Some(_) => build(store, &to, &whole)?,
        None => build_from_array(store, &join(&to, "0"), frame, &whole)?,
    };
    journal.end()?;
    Ok(Built { resumed: resumed || built.resumed, ..built })
}

/// How the largest level is copied, or what belongs to the image.
fn copying(options: &PyramidOptions, is_level: bool) -> CopyOptions {
    let mut copying =
        CopyOptions { memory: options.memory, cancel: options.cancel.clone(), ..CopyOptions::default() };
    if is_level {
        copying.chunks = options.chunks.clone().map(Sizes::List);
        copying.shards = options.shards.clone().map(|s| s.map(Sizes::List));
        copying.codecs.clone_from(&options.codecs);
    }
    copying
}

/// Deletes what is to be replaced.
fn clear(store: &SharedStore, to: &str, unfinished: bool) -> Result<()> {
    if unfinished {
        // Nothing but what an earlier call left.
        return wait(hierarchy::delete(store, to));
    }
    wait(hierarchy::replace(store, to))
}

/// Gives labels of the image at `path` that have one level as many as the image has, by their mode; with
/// [`Existing::Replace`] also those that have others. Says which.
pub fn build_labels(store: &SharedStore, path: &str, options: &PyramidOptions) -> Result<Vec<String>> {
    let zarr = super::opened(store)?;
    let image = wait(find::image_at(&zarr, path))?;
    let multiscale = image.multiscale(None)?;
    let arrays = wait(image.arrays(&zarr, multiscale))?;
    let shapes: Vec<Vec<u64>> = arrays.iter().map(|a| a.shape().to_vec()).collect();
    let mut made = Vec::new();
    for label in wait(image.labels(&zarr))? {
        let few = label.levels.len() == 1 || options.existing == Existing::Replace;
        if label.is_mask || label.levels.len() == shapes.len() || !few {
            continue;
        }
        let Some(first) = label.levels.first() else { continue };
        let shape = wait(zarr.array(&first.path))?.shape().to_vec();
        // Some have fewer axes than their image.
        let named = |axis: &Axis| multiscale.axis(&axis.name);
        let Some(axes) = label.axes.iter().map(named).collect::<Option<Vec<usize>>>() else { continue };
        let pick = |s: &Vec<u64>| axes.iter().filter_map(|d| s.get(*d)).copied().collect::<Vec<u64>>();
        let followed: Vec<Vec<u64>> = shapes.iter().map(pick).collect();
        let labels = PyramidOptions {
            method: Some(Method::Mode),
            levels: None,
            factors: Factors::Levels(follow(&shape, &followed)),
            chunks: None,
            shards: None,
            codecs: None,
            progress: None,
            ..options.clone()
        };
        build(store, &label.path, &labels)?;
        made.push(label.name);
    }
    Ok(made)
}
