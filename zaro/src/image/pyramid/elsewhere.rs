//! A pyramid somewhere else: the largest level is copied, and the others are made there. And those of labels, which follow
//! their image's.

use super::places::Places;
use super::{Built, Factors, Frame, Method, PyramidOptions, Task, attributes, follow};
use crate::blocking::wait;
use crate::copy::{CopyOptions, Sizes, copy_within};
use crate::create;
use crate::error::{ErrorKind, Result};
use crate::group::{Node, Zarr};
use crate::hierarchy::{self, Existing, Room};
use crate::image::find;
use crate::image::model::Axis;
use crate::journal::{Intent, Journal, Source, Work};
use crate::meta::path::{join, normal, shown};
use crate::meta::{Json, NodeMeta, edit, write};
use crate::store::SharedStore;

/// Makes at `to` of `store` an image of the one, or of the plain array, that is at `from` of `source`: its largest
/// level with smaller ones, its metadata, its labels and masks. Blocks until it is done.
///
/// `name` is the address of the source, for the journal. What was begun is taken up only if address, data and options are
/// the same.
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
    let apart: Vec<String> = parts.iter().map(|(path, _)| path.clone()).collect();
    wait(hierarchy::check_apart(source.store(), &from, &apart, store, &to, options.existing))?;
    let walk = |source: &Zarr| -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for (part, _) in &parts {
            nodes.extend(wait(source.walk(part))?);
        }
        Ok(nodes)
    };
    let nodes = walk(source)?;
    let content = content_of(source, &from, &nodes);
    let mut wanted = options.json();
    wanted.set("frame", frame_json(frame));
    let mut plan = Json::object();
    plan.set("parts", Json::Array(parts.iter().map(|(_, below)| Json::string(below.as_str())).collect()));
    let intent =
        Intent { operation: "image pyramid --to", source: content.json(name)?, options: wanted, plan };
    content.same_documents(&content_of(source, &from, &walk(&wait(source.reopened())?)?))?;
    let format = node.meta.format();
    wait(hierarchy::check_place(store, &to, format))?;
    let room = Room::find(store, &to, options.existing)?;
    let (journal, resumed) = Journal::begin(&Work {
        store,
        path: &to,
        intent: &intent,
        existing: options.existing,
        whole: true,
        aside: room.is_aside(),
        anew: false,
        in_the_way: &|_| create::in_the_way(store, &to, options.existing),
        clear: &|_| room.clear(),
    })?;
    // Nobody sees the image before it is whole.
    let hidden = create::withheld(room.store(), room.path())?;
    if journal.done("copied") == 0 {
        for (i, (part, below)) in parts.iter().enumerate() {
            copy_within(source, part, &hidden, below, &copying(options, i == 0), &journal, resumed)?;
        }
        content.unchanged(&intent.source)?;
        journal.note("copied", 1)?;
        journal.write()?;
    }
    let set = attributes.iter().flat_map(|a| a.members().unwrap_or_default().to_vec()).collect();
    if wait(hierarchy::find(&hidden, ""))?.is_none() {
        let group = write::group(&write::new_group(format, &Json::object()));
        wait(hierarchy::put_documents(&hidden, "", format, group, true))?;
    }
    wait(hierarchy::edit_attributes(&hidden, "", &edit::Attributes::Patch { set, unset: Vec::new() }))?;
    // The largest level is as it is to be.
    let whole = PyramidOptions { chunks: None, shards: None, codecs: None, ..options.clone() };
    let task = match attributes {
        Some(_) => Task::of_image(&hidden, "")?,
        None => Task::of_array(&hidden, "0", frame, true)?,
    };
    let levels = task.levels(&whole)?;
    task.make(&levels, &whole, &journal, &|| Ok(()))?;
    let labels = make_labels(&hidden, "", &whole, &journal, &|| Ok(()))?;
    journal.write()?;
    // An earlier run may have come so far; then others may have changed it since.
    match wait(hierarchy::find(room.store(), room.path()))? {
        None => create::publish(&hidden, room.store(), room.path())?,
        Some(_) => wait(hierarchy::consolidate_above(room.store(), room.path()))?,
    }
    room.finish(&journal)?;
    wait(store.finish())?;
    Ok(levels.built(labels, resumed))
}

fn content_of<'a>(source: &'a Zarr, from: &'a str, nodes: &'a [Node]) -> Source<'a> {
    Source::new(source.store(), from, nodes.iter().map(|n| (n.path.as_str(), &n.meta)))
}

/// How a plain array becomes an image, as a journal has it.
fn frame_json(frame: &Frame) -> Json {
    let text = |text: &Option<String>| text.as_ref().map_or(Json::Null, |t| Json::string(t.as_str()));
    let mut json = Json::object();
    let axis = |axis: &Axis| Json::Array(vec![Json::string(axis.name.as_str()), text(&axis.unit)]);
    json.set("axes", Json::Array(frame.axes.iter().map(axis).collect()));
    json.set("scale", Json::Array(frame.scale.iter().map(|s| Json::float(*s)).collect()));
    json.set("version", frame.version.map_or(Json::Null, |v| Json::string(v.text())));
    json.set("name", text(&frame.name));
    json
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

/// Gives labels of the image at `path` that have one level as many as the image has, by their mode, if that is wanted;
/// with [`Existing::Replace`] also those that have others. Says which.
pub(super) fn make_labels(
    store: &SharedStore,
    path: &str,
    options: &PyramidOptions,
    journal: &Journal,
    unchanged: &dyn Fn() -> Result<()>,
) -> Result<Vec<String>> {
    if !options.labels {
        return Ok(Vec::new());
    }
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
        let task = Task::of_image(store, &label.path)?;
        let levels = task.levels(&labels)?;
        let part = format!("room for levels of {}", label.path);
        if journal.done(&part) == 0 {
            if let Some(paths) = task.in_the_way(&levels, labels.existing, None)? {
                task.clear(&paths)?;
            }
            journal.note(&part, 1)?;
            journal.write()?;
        }
        task.make(&levels, &labels, journal, unchanged)?;
        made.push(label.name);
    }
    Ok(made)
}
