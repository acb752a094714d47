//! Converts seed masks, which are plain arrays, to label images: groups with a level for every level of the image.

use std::collections::BTreeSet;

use super::arrays::{self, WantedArray};
use super::lift::{self, GroupContext, LevelArray};
use super::plan::{Data, NodeOutcome, PlannedNode, SourceArray, UpgradePlan};
use super::tree::{UpgradeTree, parent};
use crate::error::{Error, Result, not_found};
use crate::image::document::{label_color, set_known};
use crate::image::model::{Axis, Group, Level};
use crate::image::parse;
use crate::image::version::{self, ImageVersion};
use crate::meta::create::NewArray;
use crate::meta::path::{join, shown};
use crate::meta::{ArrayMeta, DataType, Fill, Format, Json, NodeMeta};
use crate::num;

/// A mask that becomes a label image.
#[derive(Debug)]
pub(super) struct Mask {
    /// The array.
    pub(super) array: String,
    /// The group of its image.
    pub(super) image: String,
    /// Its name below `labels`.
    pub(super) name: String,
}

/// The masks of all images, and the groups they leave empty.
#[derive(Debug, Default)]
pub(super) struct Masks {
    pub(super) masks: Vec<Mask>,
    /// Groups that become empty.
    pub(super) emptied: BTreeSet<String>,
}

impl Masks {
    /// Finds the masks of a hierarchy.
    pub(super) fn of(tree: &UpgradeTree, notes: &mut Vec<String>) -> Self {
        let mut found = Self::default();
        if tree.format != Format::V2 {
            return found;
        }
        for (path, image) in tree.members.iter().filter(|(_, m)| !m.group.multiscales.is_empty()) {
            let levels = image.group.multiscales.first().map(|m| m.levels.as_slice()).unwrap_or_default();
            let first = levels.first().and_then(|l| tree.members.get(&join(path, l.path.trim_matches('/'))));
            let Some(NodeMeta::Array(first)) = first.map(|m| &m.node.meta) else { continue };
            let mut taken: BTreeSet<String> = BTreeSet::new();
            for folder in ["labels", "masks"] {
                let group = join(path, folder);
                let Some(member) = tree.members.get(&group) else { continue };
                let listed = match &member.group.listed {
                    Some(listed) => listed.iter().map(|n| n.trim_matches('/').to_owned()).collect(),
                    None => unlisted(tree, &group),
                };
                for name in listed {
                    let array = join(&group, &name);
                    let Some(NodeMeta::Array(meta)) = tree.members.get(&array).map(|m| &m.node.meta) else {
                        taken.insert(name);
                        continue;
                    };
                    if let Some(why) = unfit(meta, first) {
                        notes.push(format!("{}: {why}; kept as a plain array", shown(&array)));
                        continue;
                    }
                    let name = if taken.contains(&name) { join("masks", &name) } else { name };
                    taken.insert(name.clone());
                    found.masks.push(Mask { array, image: path.clone(), name });
                }
            }
            found.empty(tree, &join(path, "masks"));
        }
        found
    }

    /// Records which of the groups at `path` and below it become empty.
    fn empty(&mut self, tree: &UpgradeTree, path: &str) {
        if !tree.members.contains_key(path) {
            return;
        }
        let gone = |p: &str| self.masks.iter().any(|m| m.array == p);
        let left: Vec<&str> = tree
            .below(path)
            .filter(|(p, m)| match &m.node.meta {
                NodeMeta::Array(_) => !gone(p),
                // A group with attributes is kept.
                NodeMeta::Group(g) => g.attributes.members().is_some_and(|a| !a.is_empty()),
            })
            .map(|(p, _)| p)
            .collect();
        let groups =
            tree.below(path).filter(|(_, m)| matches!(m.node.meta, NodeMeta::Group(_))).map(|(p, _)| p);
        for group in groups.chain([path]) {
            if !left.iter().any(|l| *l == group || l.starts_with(&format!("{group}/"))) {
                self.emptied.insert(group.to_owned());
            }
        }
    }

    /// Whether this array is a mask.
    pub(super) fn is(&self, array: &str) -> bool {
        self.masks.iter().any(|m| m.array == array)
    }

    /// The attributes of the group at `path`, `labels` or `masks` of an image, with masks listed as labels.
    pub(super) fn listed(&self, path: &str, attributes: &Json) -> Json {
        let mut attributes = attributes.clone();
        let Some(image) = parent(path) else { return attributes };
        let own: Vec<&Mask> = self.masks.iter().filter(|m| m.image == image).collect();
        if own.is_empty() {
            return attributes;
        }
        let inside = version::ome(&attributes).clone();
        let texts = |name: &str| -> Option<Vec<String>> {
            Some(inside.get(name)?.items()?.iter().filter_map(Json::as_str).map(str::to_owned).collect())
        };
        let list = |names: Vec<String>| Json::Array(names.into_iter().map(Json::string).collect());
        if path.ends_with("masks") {
            if let Some(mut listed) = texts("masks") {
                listed.retain(|n| !own.iter().any(|m| m.array == join(path, n.trim_matches('/'))));
                version::edit_ome(&mut attributes, |ome| ome.set("masks", list(listed)));
            }
            return attributes;
        }
        let mut listed = texts("labels").unwrap_or_default();
        for mask in own {
            if !listed.iter().any(|n| n.trim_matches('/') == mask.name) {
                listed.push(mask.name.clone());
            }
        }
        version::edit_ome(&mut attributes, |ome| ome.set("labels", list(listed)));
        attributes
    }
}

/// The arrays below a group without a list, descending through plain groups.
fn unlisted(tree: &UpgradeTree, group: &str) -> Vec<String> {
    let images: Vec<&str> =
        tree.below(group).filter(|(_, m)| !m.group.multiscales.is_empty()).map(|(p, _)| p).collect();
    let inside = |p: &str| images.iter().any(|i| p.starts_with(&format!("{i}/")));
    tree.below(group)
        .filter(|(p, m)| !inside(p) && (matches!(m.node.meta, NodeMeta::Array(_)) || images.contains(p)))
        .map(|(p, _)| p.strip_prefix(group).unwrap_or(p).trim_matches('/').to_owned())
        .collect()
}

/// The reason why an array cannot become labels of an image whose largest level is `image`.
fn unfit(mask: &ArrayMeta, image: &ArrayMeta) -> Option<String> {
    if mask.shape.len() != image.shape.len() {
        let (mask, image) = (mask.shape.len(), image.shape.len());
        return Some(format!("the mask has {mask} dimensions, but the image has {image}"));
    }
    match mask.data_type {
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) => None,
        _ => Some(format!("the mask has type {}, which is not an integer type", mask.data_type)),
    }
}

/// Adds the label image for a mask to the plan.
pub(super) fn plan(
    tree: &UpgradeTree,
    mask: &Mask,
    plan: &mut UpgradePlan,
    context: &GroupContext,
) -> Result<()> {
    let placed = |e: Error| e.with_node(shown(&mask.array));
    let Some(NodeMeta::Array(meta)) = tree.members.get(&mask.array).map(|m| &m.node.meta) else {
        return Ok(());
    };
    let Some(image) = tree.members.get(&mask.image) else { return Ok(()) };
    let shapes = levels(tree, &mask.image, &image.group, &meta.shape).map_err(placed)?;
    let axes: Vec<Axis> = image.group.multiscales.first().map(|m| m.axes.clone()).unwrap_or_default();
    let names: Vec<String> = axes.into_iter().map(|a| a.name).collect();
    let label = join(&join(&mask.image, "labels"), &mask.name);
    // A group replaces a V2 array: chunks of the array must not be mistaken for levels of the group.
    let prefix = if label == mask.array { "s" } else { "" };
    let wanted = WantedArray {
        in_place: false,
        level: true,
        names: Some(names).filter(|n| plan.to.format() == Format::V3 || n.len() == meta.shape.len()),
    };
    let mut target = arrays::target(meta, plan.to, &wanted).map_err(placed)?;
    let cast = meta.data_type == DataType::Bool;
    let mut attributes = (*meta.attributes).clone();
    attributes.remove("color");
    attributes.remove("image");
    let mut largest = NewArray::like(&target.meta)?;
    largest.attributes = attributes.members().unwrap_or_default().to_vec();
    if cast {
        largest.data_type = DataType::UINT8;
        largest.fill = Some(Fill::zero(&DataType::UINT8));
        // Filters for booleans do not apply to integers.
        largest.codecs = None;
    }
    let chunks = largest.chunks.clone().unwrap_or_else(|| target.meta.grid.largest());
    let mut known = GroupContext { arrays: Default::default(), ome: true, ..context.clone() };
    let mut datasets = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        let path = format!("{prefix}{i}");
        let fitting = chunks.iter().zip(shape).map(|(c, n)| (*c).min((*n).max(1))).collect();
        let level = if i == 0 && !cast {
            target.meta.attributes = std::sync::Arc::new(attributes.clone());
            crate::meta::write::settle(target.meta.clone())?
        } else {
            let attributes = if i == 0 { largest.attributes.clone() } else { Vec::new() };
            NewArray { shape: shape.clone(), chunks: Some(fitting), attributes, ..largest.clone() }.meta()?
        };
        known
            .arrays
            .insert(path.clone(), LevelArray { shape: shape.clone(), data_type: level.data_type.clone() });
        let source = SourceArray { path: mask.array.clone(), meta: meta.clone() };
        let data = match (i, &target.recode) {
            (0, None) if !cast => Data::Copy(source),
            (0, Some(_)) if !cast => Data::Recode(source),
            _ => Data::Sample(source),
        };
        plan.add(PlannedNode {
            path: plan.relative(&join(&label, &path)),
            what: NodeOutcome::Array { meta: Box::new(level), data },
            old: None,
        });
        datasets.push(path);
    }
    let others = others(tree, &mask.image, &image.group, &meta.shape, &shapes).map_err(placed)?;
    let pyramids: Vec<(usize, Vec<String>)> = others
        .into_iter()
        .map(|(number, levels)| {
            (number, levels.iter().filter_map(|i| datasets.get(*i).cloned()).collect::<Vec<_>>())
        })
        .collect();
    let pyramids = std::iter::once((0, datasets)).chain(pyramids).collect::<Vec<_>>();
    let document = document(mask, image.node.meta.attributes(), &pyramids, &meta.attributes);
    let lifted =
        lift::lift(&document, image.version.max(ImageVersion::V01), plan.to, &known).map_err(placed)?;
    plan.notes.extend(lifted.notes.iter().map(|n| format!("{}: {n}", shown(&label))));
    plan.notes.push(format!("{} becomes the label image {}", shown(&mask.array), shown(&label)));
    plan.add(PlannedNode {
        path: plan.relative(&label),
        what: NodeOutcome::Group(lifted.attributes),
        old: None,
    });
    let labels = plan.relative(&join(&mask.image, "labels"));
    plan.drop_chunks(&mask.array, meta);
    plan.needs_labels.insert(labels);
    Ok(())
}

/// The other multiscales of the image, by number, that the levels of the labels fit.
fn others(
    tree: &UpgradeTree,
    image: &str,
    group: &Group,
    mask: &[u64],
    shapes: &[Vec<u64>],
) -> Result<Vec<(usize, Vec<usize>)>> {
    let Some(largest) = group.multiscales.first().and_then(|m| m.levels.first()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (number, multiscale) in group.multiscales.iter().enumerate().skip(1) {
        let wanted = shapes_of(tree, image, std::iter::once(largest).chain(&multiscale.levels), mask)?;
        let places: Option<Vec<usize>> =
            wanted.iter().skip(1).map(|shape| shapes.iter().position(|s| s == shape)).collect();
        found.extend(places.map(|places| (number, places)));
    }
    Ok(found)
}

/// The shapes of the levels of a mask: those of the image, but 1 where the mask has length 1.
fn levels(tree: &UpgradeTree, image: &str, group: &Group, mask: &[u64]) -> Result<Vec<Vec<u64>>> {
    let Some(multiscale) = group.multiscales.first() else { return Ok(vec![mask.to_vec()]) };
    shapes_of(tree, image, multiscale.levels.iter(), mask)
}

/// Like `levels` for any multiscale whose first level is the image's largest.
fn shapes_of<'a>(
    tree: &UpgradeTree,
    image: &str,
    levels: impl Iterator<Item = &'a Level>,
    mask: &[u64],
) -> Result<Vec<Vec<u64>>> {
    let mut shapes = Vec::new();
    let mut largest: Option<Vec<u64>> = None;
    for level in levels {
        let path = join(image, level.path.trim_matches('/'));
        let Some(NodeMeta::Array(meta)) = tree.members.get(&path).map(|m| &m.node.meta) else {
            return Err(not_found!("the level {path:?} of its image does not exist"));
        };
        let first = largest.get_or_insert_with(|| meta.shape.clone());
        let along = |((m, n), l): ((&u64, &u64), &u64)| match *n {
            n if n == *m => *l,
            0 => *m,
            // Neither the image's length nor 1: in proportion.
            n => (u128::from(*m) * u128::from(*l) / u128::from(n))
                .try_into()
                .unwrap_or(*m)
                .clamp(1, (*m).max(1)),
        };
        let shape: Vec<u64> = mask.iter().zip(first.iter()).zip(&meta.shape).map(along).collect();
        num::product(&shape)?;
        shapes.push(shape);
    }
    if let Some(first) = shapes.first_mut() {
        *first = mask.to_vec();
    }
    Ok(shapes)
}

/// The attributes of the label image in the version of its image. `pyramids` are the indexes of the image's
/// multiscales, and the paths of levels.
fn document(mask: &Mask, image: &Json, pyramids: &[(usize, Vec<String>)], attributes: &Json) -> Json {
    let of_image = version::ome(image).list("multiscales");
    let multiscales = pyramids.iter().map(|(number, levels)| {
        let theirs = of_image.get(*number);
        let datasets = theirs.map(|m| m.list("datasets")).unwrap_or_default();
        let datasets = levels.iter().enumerate().map(|(i, path)| {
            let mut dataset = Json::from([("path", path.into())]);
            let transforms = datasets.get(i).and_then(|d| d.get("coordinateTransformations"));
            set_known(&mut dataset, "coordinateTransformations", transforms.cloned());
            dataset
        });
        let name = theirs.filter(|_| *number > 0).and_then(|m| m.text("name"));
        let mut multiscale = Json::from([("name", name.unwrap_or(&mask.name).into())]);
        for name in ["axes", "coordinateTransformations"] {
            set_known(&mut multiscale, name, theirs.and_then(|m| m.get(name)).cloned());
        }
        multiscale.set("datasets", datasets.collect::<Json>());
        set_known(&mut multiscale, "type", (levels.len() > 1).then_some("nearest"));
        multiscale
    });
    let colors: Json = parse::mask(attributes).colors.iter().map(label_color).collect();
    let mut label = Json::object();
    set_known(&mut label, "colors", Some(colors).filter(|c| c.items().is_some_and(|c| !c.is_empty())));
    label.set("source", Json::from([("image", source_of(mask, attributes).into())]));
    Json::from([("multiscales", multiscales.collect()), ("image-label", label)])
}

/// The relative path from the label image to its image. A mask states that of an array of the image, if any; only a
/// path outside the image is kept.
fn source_of(mask: &Mask, attributes: &Json) -> String {
    match parse::mask(attributes).source {
        Some(said) if said.contains("://") => said,
        _ => "../".repeat(mask.name.split('/').count() + 1),
    }
}
