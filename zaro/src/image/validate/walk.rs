//! Walks a hierarchy and validates a node and all that belongs to it.

use std::collections::HashSet;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::arrays::{self, Facts};
use super::document::{self, Seen};
use super::hcs::{SeenField, SeenPlate};
use super::report::{FindingLevel, FindingSink, ImageFinding, ImageReport, Spot, at, quoted};
use super::systems::ParameterNode;
use super::{ImageValidateOptions, Judged, judged, labels, layout, text_of};
use crate::error::{Error, ErrorKind, Result};
use crate::group::Zarr;
use crate::image::find;
use crate::image::parse;
use crate::image::version::{self, ImageVersion, Stated};
use crate::meta::path::{join, shown};
use crate::meta::{ArrayMeta, DataType, Format, GroupMeta, Json, NodeMeta};
use crate::num::u64_of;
use crate::store::StoreExt as _;

/// Wells and images validated concurrently.
const AT_ONCE: usize = 16;

/// The node at a path.
#[derive(Debug)]
pub(super) enum NodeFound {
    Array(Box<ArrayMeta>),
    Group(Box<GroupMeta>),
    Absent,
    /// A node with unreadable metadata, and the reason.
    Broken(String),
}

impl NodeFound {
    /// A description for a finding.
    fn found(&self) -> String {
        match self {
            Self::Array(_) => "an array".to_owned(),
            Self::Group(_) if self.image().is_none() => "a group without multiscales".to_owned(),
            Self::Group(_) => "a group".to_owned(),
            Self::Absent => "nothing".to_owned(),
            Self::Broken(why) => format!("an unreadable node: {why}"),
        }
    }

    fn image(&self) -> Option<&GroupMeta> {
        match self {
            Self::Group(meta) if document::home(&meta.attributes).0.get("multiscales").is_some() => {
                Some(meta)
            }
            _ => None,
        }
    }
}

/// The constants of a walk through a hierarchy.
#[derive(Debug)]
pub(super) struct CheckWalk<'a> {
    pub(super) zarr: &'a Zarr,
    pub(super) options: &'a ImageValidateOptions,
    /// The rules of the root.
    pub(super) judged: Judged,
    /// The version as stated by the root.
    stated: Option<String>,
    /// The Zarr version of the root.
    pub(super) format: Format,
}

/// The findings of a node and of nodes below it.
#[derive(Debug, Default)]
pub(super) struct NodeParts {
    pub(super) findings: Vec<ImageFinding>,
    pub(super) nodes: usize,
}

impl NodeParts {
    fn of(sink: FindingSink) -> Self {
        Self { findings: sink.findings, nodes: 1 }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.nodes = self.nodes.saturating_add(other.nodes);
    }
}

/// The role of an image.
#[derive(Debug, Clone, Copy)]
enum ImageRole<'a> {
    /// An image.
    Image,
    /// A label image of the image with these arrays.
    Label(&'a Facts),
}

/// Validates the node at `path` and all that belongs to it.
pub(super) async fn validate(zarr: &Zarr, path: &str, options: &ImageValidateOptions) -> Result<ImageReport> {
    let path = zarr.key_of(path)?;
    let node = zarr.node(&path).await?;
    let NodeMeta::Group(meta) = node.meta else {
        return Err(Error::invalid(
            "this is an array, not an image; open the group with the multiscales instead",
        )
        .with_node(shown(&path)));
    };
    if !document::carries(&meta.attributes) && meta.attributes.get("ome").is_none() {
        return Err(Error::invalid(
            "not an OME-Zarr: the group has no multiscales, plate, well, labels, scene or bioformats2raw.layout",
        )
        .with_node(shown(&path)));
    }
    let group = parse::group(&meta.attributes);
    let stated = version::stated(&meta.attributes);
    let (found, _) = find::version_of(zarr, &path, meta.format, &meta.attributes, &group).await?;
    let judged = match stated {
        // Masks distinguish the seed version from 0.1.
        Stated::Known(..) if options.version.is_none() => Judged::new(found),
        _ => judged(&stated, options, || found),
    };
    let walk = CheckWalk { zarr, options, judged, stated: text_of(&stated), format: meta.format };
    let part = walk.top(&path, &meta).await?;
    Ok(ImageReport::new(judged, &stated, options, part.nodes, part.findings))
}

/// Resolves `path` relative to the node at `base`; `None` if it is invalid or outside the Zarr.
pub(super) fn resolve(base: &str, path: &str) -> Option<String> {
    if path.contains("://") || path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').filter(|p| !p.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

impl CheckWalk<'_> {
    /// Opens the node at a path. Store errors are returned; invalid documents are not errors.
    pub(super) async fn look(&self, path: &str) -> Result<NodeFound> {
        let found = match self.zarr.key_of(path) {
            // Also nodes of the other Zarr version, which readers do not look for.
            Ok(path) => match self.zarr.direct_node(&path).await {
                // Some buckets deny access to missing keys; the version of the root tells which keys to request.
                Err(e) if e.kind() == ErrorKind::NotPermitted => find::node_at(self.zarr, &path).await,
                found => found,
            },
            Err(e) => Err(e),
        };
        match found {
            Ok(None) => Ok(NodeFound::Absent),
            Ok(Some(node)) => Ok(match node.meta {
                NodeMeta::Array(meta) => NodeFound::Array(Box::new(meta)),
                NodeMeta::Group(meta) => NodeFound::Group(Box::new(meta)),
            }),
            Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Usage) => {
                Ok(NodeFound::Broken(e.message().to_owned()))
            }
            Err(e) => Err(e),
        }
    }

    /// V3: a node of another Zarr version than the root.
    pub(super) fn other_format(&self, sink: &mut FindingSink, format: Format) {
        let found = format!("Zarr v{} below Zarr v{}", format.number(), self.format.number());
        sink.must("V3", "", found, "one Zarr version in the whole hierarchy");
    }

    /// The version stated by the root, which groups below have to repeat.
    pub(super) fn root(&self) -> Option<&str> {
        self.stated.as_deref()
    }

    /// The rules for a group below the root.
    pub(super) fn judged_below(&self, attributes: &Json) -> Judged {
        if self.judged.version >= ImageVersion::V05 || self.options.version.is_some() {
            return self.judged;
        }
        match version::stated(attributes) {
            Stated::Known(version, _) if version < ImageVersion::V05 => {
                // A stated 0.1 below a seed root means seed.
                let is_seed = self.judged.version == ImageVersion::Seed && version == ImageVersion::V01;
                if is_seed { self.judged } else { Judged::new(version) }
            }
            _ => self.judged,
        }
    }

    /// The document of a group; `top` means that it is the root.
    fn document(&self, path: &str, meta: &GroupMeta, top: bool) -> (FindingSink, Seen) {
        let judged = if top { self.judged } else { self.judged_below(&meta.attributes) };
        let mut sink = FindingSink::new(path, judged);
        let root = if top { None } else { self.stated.as_deref() };
        let format = if top || meta.format == self.format { Some(meta.format) } else { None };
        if !top && meta.format != self.format {
            self.other_format(&mut sink, meta.format);
        }
        let seen = document::group(&mut sink, &meta.attributes, format, root);
        (sink, seen)
    }

    async fn top(&self, path: &str, meta: &GroupMeta) -> Result<NodeParts> {
        let (ome, _) = document::home(&meta.attributes);
        let mut part = if ome.get("multiscales").is_some() {
            self.image(path, meta, true, ImageRole::Image).await?.0
        } else {
            let (mut sink, seen) = self.document(path, meta, true);
            self.targets(path, &seen.targets, &mut sink).await?;
            NodeParts::of(sink)
        };
        // The document was validated; only its references matter now.
        let (FindingSink { judged, .. }, seen) = self.document(path, meta, true);
        if let Some(plate) = &seen.plate {
            part.join(self.plate(path, plate, seen.base).await?);
        }
        if let Some(well) = &seen.well {
            part.join(self.well(path, &well.fields, &[]).await?);
        }
        if let Some(listed) = &seen.labels {
            part.join(self.listed_labels(path, listed, &Facts::default(), judged).await?);
        }
        if seen.layout {
            part.join(layout::check(self, path, seen.plate.is_some()).await?);
        }
        if !seen.references.is_empty() {
            part.join(self.scene(path, &seen).await?);
        }
        Ok(part)
    }

    /// Validates the group at `path` as an image that another node refers to, with findings in `part`; a finding of
    /// `rule` if it is not an image.
    pub(super) async fn needed_image(
        &self,
        path: &str,
        rule: &'static str,
        place: &str,
        sink: &mut FindingSink,
        part: &mut NodeParts,
    ) -> Result<Option<Facts>> {
        let look = self.look(path).await?;
        let Some(meta) = look.image() else {
            let found = format!("{} at {}", look.found(), shown(path));
            self.lacking(sink, rule, place, &look, found, "an image: a group with multiscales");
            return Ok(None);
        };
        let (image, facts) = self.image(path, meta, false, ImageRole::Image).await?;
        part.join(image);
        Ok(Some(facts))
    }

    /// Adds a finding for an unexpected node at a path; a missing node may be allowed.
    pub(super) fn lacking(
        &self,
        sink: &mut FindingSink,
        rule: &'static str,
        place: &str,
        look: &NodeFound,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        if !(matches!(look, NodeFound::Absent) && self.options.metadata_only) {
            sink.must(rule, place, found, wanted);
        }
    }

    /// Validates an image: its document, arrays and labels.
    async fn image(
        &self,
        path: &str,
        meta: &GroupMeta,
        top: bool,
        role: ImageRole<'_>,
    ) -> Result<(NodeParts, Facts)> {
        let (mut sink, seen) = self.document(path, meta, top);
        let judged = sink.judged;
        let mut below = Vec::new();
        let mut all: Vec<Facts> = Vec::new();
        for pyramid in &seen.pyramids {
            all.push(arrays::check(self, path, pyramid, &mut sink, &mut below).await?);
            self.targets(path, &pyramid.targets, &mut sink).await?;
        }
        let nodes = all.iter().map(|f| f.arrays.iter().flatten().count()).sum::<usize>();
        let facts = all.into_iter().next().unwrap_or_default();
        let (ome, base) = document::home(&meta.attributes);
        arrays::omero(&mut sink, &Spot::new(ome, base).get("omero"), &facts);
        if let (Some(source), Some(label)) = (&seen.source, ome.get("image-label")) {
            self.source(path, source, label, &at(base, "image-label.source.image"), &mut sink).await?;
        }
        if ome.get("image-label").is_some() || matches!(role, ImageRole::Label(_)) {
            label_types(&mut sink, &facts, &seen);
        }
        if let ImageRole::Label(image) = role {
            if ome.get("image-label").is_none() && judged.version >= ImageVersion::V04 {
                sink.should("V31", at(base, "image-label"), "nothing", "an object with colors");
            }
            sizes(&mut sink, &facts, image, &seen);
        }
        let mut part = NodeParts::of(sink);
        part.findings.extend(below);
        part.nodes = part.nodes.saturating_add(nodes);
        if matches!(role, ImageRole::Image) {
            part.join(self.labels(path, &facts, judged).await?);
            part.join(self.masks(path, &facts, judged).await?);
        }
        Ok((part, facts))
    }

    /// V29: the target of `source.image`.
    async fn source(
        &self,
        path: &str,
        source: &str,
        label: &Json,
        place: &str,
        sink: &mut FindingSink,
    ) -> Result<()> {
        // Nodes outside the opened Zarr cannot be checked.
        let Some(image) = resolve(path, source) else { return Ok(()) };
        let look = self.look(&image).await?;
        if look.image().is_none() {
            let stated = label.get("source").and_then(|s| s.get("image")).is_some();
            let how = if stated { "" } else { ", the default" };
            let found = format!("{source:?}{how}, where there is {}", look.found());
            self.lacking(sink, "V29", place, &look, found, "the path of the image");
        }
        Ok(())
    }

    /// V37: arrays and fields with parameters of transformations.
    async fn targets(&self, path: &str, targets: &[ParameterNode], sink: &mut FindingSink) -> Result<()> {
        for target in targets {
            let Some(node) = resolve(path, target.path.trim_start_matches('/')) else { continue };
            let look = self.look(&node).await?;
            let found = format!("{:?}, where there is {}", target.path, look.found());
            let wanted = match (&look, target.matrix) {
                (NodeFound::Absent | NodeFound::Broken(_), _) => "a node with parameters".to_owned(),
                (NodeFound::Array(meta), Some([rows, columns])) => {
                    let fits = |n: Option<&u64>, w: Option<usize>| w.is_none_or(|w| n == Some(&u64_of(w)));
                    let shape = &meta.shape;
                    if shape.len() == 2 && fits(shape.first(), rows) && fits(shape.get(1), columns) {
                        continue;
                    }
                    let text = |n: Option<usize>| n.map_or_else(|| "any".to_owned(), |n| n.to_string());
                    let wanted = format!("a matrix of shape [{}, {}]", text(rows), text(columns));
                    let found = format!("an array of shape {shape:?}");
                    sink.must("V37", target.place.as_str(), found, wanted);
                    continue;
                }
                (NodeFound::Group(_), Some(_)) => "an array with a matrix".to_owned(),
                (NodeFound::Array(_) | NodeFound::Group(_), None) => continue,
            };
            self.lacking(sink, "V37", &target.place, &look, found, wanted);
        }
        Ok(())
    }

    /// V25: the labels of an image.
    async fn labels(&self, path: &str, image: &Facts, judged: Judged) -> Result<NodeParts> {
        let folder = join(path, "labels");
        let look = self.look(&folder).await?;
        let NodeFound::Group(meta) = &look else {
            let mut sink = FindingSink::new(&folder, judged);
            // An array of this name may be a level.
            let level =
                if matches!(look, NodeFound::Array(_)) { FindingLevel::Lint } else { FindingLevel::Must };
            if !matches!(look, NodeFound::Absent) {
                sink.add("V25", level, "", look.found(), "a labels group");
                return Ok(NodeParts::of(sink));
            }
            return Ok(NodeParts::default());
        };
        let (mut sink, seen) = self.document(&folder, meta, false);
        let (ome, base) = document::home(&meta.attributes);
        if ome.get("labels").is_none() {
            sink.must("V25", at(base, "labels"), "nothing", "a list of the labels' paths");
            if let Ok(children) = self.zarr.children(&folder).await
                && !children.is_empty()
            {
                let names = quoted(children.iter().map(|n| n.name().to_owned()));
                sink.fix(format!("add \"labels\": [{names}]"));
            }
        }
        let mut part = NodeParts::of(sink);
        if let Some(listed) = &seen.labels {
            part.join(self.listed_labels(&folder, listed, image, judged).await?);
        }
        Ok(part)
    }

    async fn listed_labels(
        &self,
        folder: &str,
        listed: &[(String, String)],
        image: &Facts,
        judged: Judged,
    ) -> Result<NodeParts> {
        let parts = stream::iter(listed.to_vec()).map(|(place, name)| async move {
            let (place, name) = (place.as_str(), name.as_str());
            let mut sink = FindingSink::new(folder, judged);
            let path = join(folder, name.trim_matches('/'));
            let mut part = NodeParts::default();
            let look = self.look(&path).await?;
            match look.image() {
                Some(meta) => {
                    part.join(Box::pin(self.image(&path, meta, false, ImageRole::Label(image))).await?.0);
                }
                None => {
                    let wanted = format!("a group with multiscales at {name:?}");
                    self.lacking(&mut sink, "V25", place, &look, look.found(), wanted);
                    if matches!(look, NodeFound::Array(_)) {
                        sink.mend("image upgrade", "converts plain arrays to label images");
                    }
                }
            }
            if judged.version >= ImageVersion::V05 {
                self.between(folder, name, &mut part).await?;
            }
            part.findings.append(&mut sink.findings);
            Ok::<_, Error>(part)
        });
        collect(parts.buffered(AT_ONCE)).await
    }

    /// V30: groups between labels and a label have no metadata.
    async fn between(&self, folder: &str, name: &str, part: &mut NodeParts) -> Result<()> {
        let name = name.trim_matches('/');
        for (i, _) in name.match_indices('/') {
            let path = join(folder, name.get(..i).unwrap_or_default());
            if let NodeFound::Group(meta) = self.look(&path).await?
                && meta.attributes.members().is_some_and(|m| !m.is_empty())
            {
                let mut sink = FindingSink::new(&path, self.judged);
                let keys = meta.attributes.members().unwrap_or_default().iter().map(|(k, _)| k);
                sink.must("V30", "", format!("the attributes {}", quoted(keys)), "a group without metadata");
                part.findings.append(&mut sink.findings);
            }
        }
        Ok(())
    }

    /// V38: seed masks.
    async fn masks(&self, path: &str, image: &Facts, judged: Judged) -> Result<NodeParts> {
        let folder = join(path, "masks");
        let NodeFound::Group(meta) = self.look(&folder).await? else { return Ok(NodeParts::default()) };
        if judged.version != ImageVersion::Seed {
            return Ok(NodeParts::default());
        }
        let mut sink = FindingSink::new(&folder, judged);
        let listed = Spot::new(meta.attributes.get("masks"), "masks");
        let items = if listed.is_some() {
            sink.items("V38", &listed, "a list of the masks' paths").unwrap_or_default()
        } else {
            // Unlisted nodes may still be masks.
            sink.lint("V38", &listed, "nothing", "a list of the masks' paths");
            Vec::new()
        };
        let mut part = NodeParts::default();
        for item in items {
            let Some(name) = sink.text("V38", &item, "a path, a string") else { continue };
            let mask = join(&folder, name.trim_matches('/'));
            let look = self.look(&mask).await?;
            match (&look, look.image()) {
                (NodeFound::Array(meta), _) => {
                    let mut own = FindingSink::new(&mask, judged);
                    mask_array(&mut own, meta, image);
                    part.join(NodeParts::of(own));
                }
                // The interim form: a group of levels.
                (_, Some(meta)) => {
                    part.join(Box::pin(self.image(&mask, meta, false, ImageRole::Label(image))).await?.0);
                }
                _ => {
                    let wanted = format!("an array at {name:?}");
                    self.lacking(&mut sink, "V38", &item.place, &look, look.found(), wanted);
                }
            }
        }
        part.join(NodeParts::of(sink));
        Ok(part)
    }

    /// V34, V35: the nodes that a plate refers to.
    async fn plate(&self, path: &str, plate: &SeenPlate, base: &'static str) -> Result<NodeParts> {
        let mut sink = FindingSink::new(path, self.judged);
        let mut rows = HashSet::new();
        for (place, well) in &plate.wells {
            let Some((row, _)) = well.trim_matches('/').rsplit_once('/') else { continue };
            if !rows.insert(row) {
                continue;
            }
            // In Zarr v2 a directory works, but the specification requires groups.
            let look = self.look(&join(path, row)).await?;
            if !matches!(look, NodeFound::Group(_)) {
                let found = format!("{} at {row:?}", look.found());
                self.lacking(&mut sink, "V34", place, &look, found, "a group for the row");
            }
        }
        if sink.since(ImageVersion::V04) {
            self.empty_lines(path, plate, base, &mut sink).await;
        }
        let mut part = NodeParts { findings: sink.findings, nodes: rows.len() };
        let wells = stream::iter(plate.wells.clone()).map(|(place, well)| async move {
            let (place, well) = (place.as_str(), well.as_str());
            let mut sink = FindingSink::new(path, self.judged);
            let node = join(path, well.trim_matches('/'));
            let wanted = format!("a group with `well` at {well:?}");
            let mut part = NodeParts::default();
            let look = self.look(&node).await?;
            if let NodeFound::Group(meta) = &look {
                let (own, seen) = self.document(&node, meta, false);
                part.join(NodeParts::of(own));
                match seen.well {
                    Some(seen) => part.join(self.well(&node, &seen.fields, &plate.acquisitions).await?),
                    None => sink.must("V34", place, "a group without `well`", wanted),
                }
            } else {
                self.lacking(&mut sink, "V34", place, &look, look.found(), wanted);
            }
            part.findings.append(&mut sink.findings);
            Ok::<_, Error>(part)
        });
        part.join(collect(wells.buffered(AT_ONCE)).await?);
        Ok(part)
    }

    /// V35: no groups for rows and wells without images.
    async fn empty_lines(&self, path: &str, plate: &SeenPlate, base: &'static str, sink: &mut FindingSink) {
        // Needs a store that can list.
        let Ok(listing) = self.zarr.store().list(path).await else { return };
        let used: HashSet<&str> = plate
            .wells
            .iter()
            .flat_map(|(_, well)| [well.as_str(), well.rsplit_once('/').map_or("", |(row, _)| row)])
            .collect();
        for row in plate.rows.iter().filter(|row| listing.prefixes.contains(row)) {
            if !used.contains(row.as_str()) {
                let found = format!("a group for row {row:?}, which has no wells");
                sink.should("V35", at(base, "plate.wells"), found, "no group for it");
                continue;
            }
            let Ok(inner) = self.zarr.store().list(&join(path, row)).await else { return };
            for column in plate.columns.iter().filter(|c| inner.prefixes.contains(c)) {
                let well = format!("{row}/{column}");
                if !used.contains(well.as_str()) {
                    let found = format!("a group {well:?}, which is not a well");
                    sink.should("V35", at(base, "plate.wells"), found, "no group for it");
                }
            }
        }
    }

    /// V34: the fields of a well.
    async fn well(&self, path: &str, fields: &[SeenField], acquisitions: &[String]) -> Result<NodeParts> {
        let parts = stream::iter(fields.to_vec()).map(|field| async move {
            let mut sink = FindingSink::new(path, self.judged);
            let found = match &field.acquisition {
                None if acquisitions.len() > 1 => Some("nothing"),
                Some(id) if !acquisitions.is_empty() && !acquisitions.contains(id) => Some(id.as_str()),
                _ => None,
            };
            if let Some(found) = found {
                let wanted = format!("one of the plate's acquisitions: {}", acquisitions.join(", "));
                sink.must("V34", at(&field.place, "acquisition"), found, wanted);
            }
            let node = join(path, field.path.trim_matches('/'));
            let mut part = NodeParts::default();
            self.needed_image(&node, "V34", &at(&field.place, "path"), &mut sink, &mut part).await?;
            part.findings.append(&mut sink.findings);
            Ok::<_, Error>(part)
        });
        collect(parts.buffered(AT_ONCE)).await
    }

    /// V37: the images of a scene.
    async fn scene(&self, path: &str, seen: &Seen) -> Result<NodeParts> {
        let mut sink = FindingSink::new(path, self.judged);
        let mut part = NodeParts::default();
        let mut done: Vec<(String, Vec<String>)> = Vec::new();
        for reference in &seen.references {
            let place = at(&reference.place, "path");
            let Some(node) = resolve(path, &reference.path) else {
                sink.must("V37", place, format!("{:?}", reference.path), "a path in this hierarchy");
                continue;
            };
            if !done.iter().any(|(other, _)| *other == node) {
                let found = self.needed_image(&node, "V37", &place, &mut sink, &mut part).await?;
                let (Some(_), NodeFound::Group(meta)) = (found, self.look(&node).await?) else { continue };
                let (_, seen) = self.document(&node, &meta, false);
                let names = seen.pyramids.iter().flat_map(|p| p.systems.iter().map(|(n, _)| n.clone()));
                done.push((node.clone(), names.collect()));
            }
            if let Some((_, names)) = done.iter().find(|(other, _)| *other == node)
                && !names.contains(&reference.name)
            {
                let found = format!("{:?}, which is not a coordinate system of that image", reference.name);
                let wanted = format!("one of {}", quoted(names));
                sink.must("V37", at(&reference.place, "name"), found, wanted);
            }
        }
        part.findings.append(&mut sink.findings);
        Ok(part)
    }
}

/// Merges the parts of a stream.
async fn collect(parts: impl futures::Stream<Item = Result<NodeParts>>) -> Result<NodeParts> {
    parts
        .try_fold(NodeParts::default(), |mut all, part| async move {
            all.join(part);
            Ok(all)
        })
        .await
}

/// V26: labels are integers.
fn label_types(sink: &mut FindingSink, facts: &Facts, seen: &Seen) {
    let places = seen.pyramids.first().into_iter().flat_map(|p| &p.levels);
    for (level, meta) in places.zip(&facts.arrays) {
        if let Some(meta) = meta
            && !is_label_type(&meta.data_type)
        {
            let found = meta.data_type.to_string();
            sink.must("V26", level.place.as_str(), found, "an integer type of 8 to 64 bits");
        }
    }
}

fn is_label_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int(8 | 16 | 32 | 64) | DataType::UInt(8 | 16 | 32 | 64))
}

/// V26: a label has as many levels as its image, of the same sizes.
fn sizes(sink: &mut FindingSink, label: &Facts, image: &Facts, seen: &Seen) {
    let Some(pyramid) = seen.pyramids.first() else { return };
    if image.arrays.is_empty() {
        return;
    }
    if label.arrays.len() != image.arrays.len() {
        let found = format!("{} levels, but the image has {}", label.arrays.len(), image.arrays.len());
        sink.must("V26", at(&pyramid.place, "datasets"), found, "as many levels as the image");
        sink.mend("image pyramid", "");
    }
    for ((level, own), other) in pyramid.levels.iter().zip(&label.arrays).zip(&image.arrays) {
        let (Some(own), Some(other)) = (own, other) else { continue };
        for (i, (name, size)) in label.names.iter().zip(&own.shape).enumerate() {
            let place = image.names.iter().position(|n| n == name && n.is_some());
            let wanted = place.and_then(|place| other.shape.get(place));
            if let Some(wanted) = wanted.filter(|wanted| *wanted != size && *size != 1) {
                let name = name.as_deref().unwrap_or("?");
                let found = format!("{size} along {name}, axis {i}, but the image has {wanted}");
                sink.add("V26", FindingLevel::Should, level.place.as_str(), found, "the image's size, or 1");
            }
        }
    }
}

/// V38: a mask fits the first level of its image.
fn mask_array(sink: &mut FindingSink, meta: &ArrayMeta, image: &Facts) {
    if meta.shape.len() != 5 {
        let found = format!("{} dimensions", meta.shape.len());
        sink.must("V38", ".zarray shape", found, "5 dimensions: t, c, z, y, x");
    } else if let Some(Some(full)) = image.arrays.first()
        && meta.shape.iter().zip(&full.shape).any(|(own, other)| own != other && *own != 1)
    {
        let found = format!("{:?}, but the image has {:?}", meta.shape, full.shape);
        sink.must("V38", ".zarray shape", found, "each size that of the image, or 1");
    }
    labels::mask_colors(sink, &meta.attributes);
}
