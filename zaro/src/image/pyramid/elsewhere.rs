//! Builds a pyramid at another location: copies the largest level, and builds the others there. Also the pyramids of
//! labels, which follow that of their image.

use super::places::LevelPaths;
use super::{Built, Downsampling, Factors, Frame, PyramidOptions, PyramidTask, attributes, follow};
use crate::boxed;
use crate::copy::{CopyOptions, Sizes, check_within, copy_within};
use crate::create::{self, Empty, New};
use crate::error::{ErrorKind, Result};
use crate::group::{Node, Zarr};
use crate::hierarchy::{self, Existing, Room};
use crate::image::find;
use crate::image::model::Axis;
use crate::journal::{Intent, Journal, NodeSource, Work};
use crate::meta::path::{join, normal, shown};
use crate::meta::{Json, NodeMeta, edit, write};
use crate::store::SharedStore;

/// Builds an image at `to` of `store` from the image or plain array at `from` of `source`: the largest level, smaller
/// ones, metadata, labels and masks.
///
/// `name` is the address of the source, for the journal. An interrupted run is resumed only if address, data and
/// options are the same.
#[boxed]
pub async fn build_at(
    source: &Zarr,
    name: &str,
    from: &str,
    frame: &Frame,
    store: &SharedStore,
    to: &str,
    options: &PyramidOptions,
) -> Result<Built> {
    let (from, to) = (source.key_of(from)?, normal(to)?);
    let node = source.node(&from).await?;
    // What to copy: source path, and path below the image.
    let mut parts: Vec<(String, String)> = Vec::new();
    let attributes = match &node.meta {
        NodeMeta::Array(meta) => {
            // Check before anything is created.
            let (_, multiscale) = super::framed(meta, "0", frame)?;
            super::check(meta, &multiscale.axes, options)?;
            parts.push((from.clone(), "0".to_owned()));
            None
        }
        NodeMeta::Group(_) => {
            let image = find::image_at(source, &from).await?;
            let multiscale = image.multiscale(None)?;
            let first = LevelPaths::of(&image.attributes).map_err(|e| e.with_node(shown(&image.path)))?.first;
            let base = source.array(&join(&image.path, &first)).await?;
            super::check(base.meta(), &multiscale.axes, options)?;
            parts.push((base.path().to_owned(), first));
            for below in ["labels", "masks"] {
                let at = join(&image.path, below);
                match source.node(&at).await {
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
    hierarchy::check_apart(source.store(), &from, &apart, store, &to, options.existing).await?;
    if let Some((part, below)) = parts.first() {
        check_within(source, part, store, &join(&to, below), &copying(options, true)).await?;
    }
    let nodes = walk(source, &parts).await?;
    let content = content_of(source, &from, &nodes);
    let mut wanted = options.json();
    wanted.set("frame", frame_json(frame));
    let mut plan = Json::object();
    plan.set("parts", Json::Array(parts.iter().map(|(_, below)| Json::string(below.as_str())).collect()));
    let intent =
        Intent { operation: "image pyramid --to", source: content.json(name).await?, options: wanted, plan };
    content.same_documents(&content_of(source, &from, &walk(&source.reopened().await?, &parts).await?))?;
    let format = node.meta.format();
    hierarchy::check_place(store, &to, format).await?;
    let room = Room::find(store, &to, options.existing).await?;
    let operation = intent.operation;
    let new = New { store, path: &to, format, operation, existing: options.existing, list: &() };
    let (journal, resumed) = Journal::begin(&Work {
        store,
        path: &to,
        intent: &intent,
        existing: options.existing,
        whole: true,
        aside: room.is_aside(),
        anew: false,
        ground: &Empty { new: &new, room: &room },
    })
    .await?;
    // The image becomes visible when it is complete.
    let hidden = create::withheld(room.store(), room.path())?;
    if journal.done("copied") == 0 {
        for (i, (part, below)) in parts.iter().enumerate() {
            copy_within(source, part, &hidden, below, &copying(options, i == 0), &journal, resumed).await?;
        }
        content.unchanged(&intent.source).await?;
        journal.note("copied", 1).await?;
        journal.write().await?;
    }
    let set = attributes.iter().flat_map(|a| a.members().unwrap_or_default().to_vec()).collect();
    if hierarchy::find(&hidden, "").await?.is_none() {
        let group = write::group(&write::new_group(format, &Json::object()));
        hierarchy::put_documents(&hidden, "", format, group, true).await?;
    }
    hierarchy::edit_attributes(&hidden, "", &edit::AttributesEdit::Patch { set, unset: Vec::new() }).await?;
    // The largest level is final.
    let whole = PyramidOptions { chunks: None, shards: None, codecs: None, ..options.clone() };
    let task = match attributes {
        Some(_) => PyramidTask::of_image(&hidden, "").await?,
        None => PyramidTask::of_array(&hidden, "0", frame, true).await?,
    };
    let mut levels = task.levels(&whole).await?;
    if task.name_dimensions(levels.base.meta()).await? {
        levels = task.levels(&whole).await?;
    }
    task.make(&levels, &whole, &journal, None).await?;
    let labels = make_labels(&hidden, "", &whole, &journal, None).await?;
    journal.write().await?;
    // An earlier run may have got this far; then it may have been changed since.
    match hierarchy::find(room.store(), room.path()).await? {
        None => create::publish(&hidden, room.store(), room.path()).await?,
        Some(_) => hierarchy::consolidate_above(room.store(), room.path()).await?,
    }
    room.finish(&journal).await?;
    store.finish().await?;
    Ok(levels.built(labels, resumed))
}

async fn walk(source: &Zarr, parts: &[(String, String)]) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for (part, _) in parts {
        nodes.extend(source.walk(part).await?);
    }
    Ok(nodes)
}

fn content_of<'a>(source: &'a Zarr, from: &'a str, nodes: &'a [Node]) -> NodeSource<'a> {
    NodeSource::new(source.store(), from, nodes.iter().map(|n| (n.path.as_str(), &n.meta)))
}

/// A [`Frame`] as JSON for the journal.
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

/// Copy options for the largest level, or for labels and masks.
fn copying(options: &PyramidOptions, is_level: bool) -> CopyOptions {
    let mut copying = CopyOptions {
        context: options.context.clone(),
        task: options.task.without_progress(),
        ..CopyOptions::default()
    };
    if is_level {
        copying.chunks = options.chunks.clone().map(Sizes::List);
        copying.shards = options.shards.clone().map(|s| s.map(Sizes::List));
        copying.codecs.clone_from(&options.codecs);
    }
    copying
}

/// Builds, if requested, the levels of labels of the image at `path` that have only one, by mode; with
/// [`Existing::Replace`] also of those that have more. Returns their names.
pub(super) async fn make_labels(
    store: &SharedStore,
    path: &str,
    options: &PyramidOptions,
    journal: &Journal,
    made_of: Option<(&NodeSource<'_>, &Json)>,
) -> Result<Vec<String>> {
    if !options.labels {
        return Ok(Vec::new());
    }
    let zarr = super::opened(store).await?;
    let image = find::image_at(&zarr, path).await?;
    let multiscale = image.multiscale(None)?;
    let arrays = image.arrays(&zarr, multiscale).await?;
    let shapes: Vec<Vec<u64>> = arrays.iter().map(|a| a.shape().to_vec()).collect();
    let mut made = Vec::new();
    for label in image.labels(&zarr).await? {
        let few = label.levels.len() == 1 || options.existing == Existing::Replace;
        if label.is_mask || label.levels.len() == shapes.len() || !few {
            continue;
        }
        let Some(first) = label.levels.first() else { continue };
        let shape = zarr.array(&first.path).await?.shape().to_vec();
        // Some have fewer axes than their image.
        let named = |axis: &Axis| multiscale.axis(&axis.name);
        let Some(axes) = label.axes.iter().map(named).collect::<Option<Vec<usize>>>() else { continue };
        let pick = |s: &Vec<u64>| axes.iter().filter_map(|d| s.get(*d)).copied().collect::<Vec<u64>>();
        let followed: Vec<Vec<u64>> = shapes.iter().map(pick).collect();
        let labels = PyramidOptions {
            method: Some(Downsampling::Mode),
            levels: None,
            factors: Factors::Levels(follow(&shape, &followed)),
            chunks: None,
            shards: None,
            codecs: None,
            task: options.task.without_progress(),
            ..options.clone()
        };
        let task = PyramidTask::of_image(store, &label.path).await?;
        let levels = task.levels(&labels).await?;
        let part = format!("room for levels of {}", label.path);
        if journal.done(&part) == 0 {
            if let Some(paths) = task.in_the_way(&levels, labels.existing, None).await? {
                task.clear(&paths).await?;
            }
            journal.note(&part, 1).await?;
            journal.write().await?;
        }
        task.make(&levels, &labels, journal, made_of).await?;
        made.push(label.name);
    }
    Ok(made)
}
