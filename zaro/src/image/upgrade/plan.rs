//! Plans an upgrade: the target of every node, and the source of its elements.

use std::collections::{BTreeMap, BTreeSet};

use super::arrays::{self, WantedArray};
use super::lift::{self, GroupContext, LevelArray};
use super::masks::{self, Masks};
use super::moves::Moves;
use super::tree::{UpgradeNode, UpgradeTree, parent};
use crate::error::{Error, Result};
use crate::hierarchy::Chunks;
use crate::image::version::ImageVersion;
use crate::meta::path::{join, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{ArrayMeta, Format, Json, NodeMeta, edit};
use crate::store::md5_hex;

/// An existing array.
#[derive(Debug, Clone)]
pub(super) struct SourceArray {
    /// Its path from the root of its store.
    pub(super) path: String,
    pub(super) meta: ArrayMeta,
}

/// The source of the elements of an array.
#[derive(Debug, Clone)]
pub(super) enum Data {
    /// Its chunks are kept in place.
    Stay(SourceArray),
    /// Its chunks are copied verbatim.
    Copy(SourceArray),
    /// Its elements are decoded and encoded again.
    Recode(SourceArray),
    /// Samples of a mask, in the ratio of the shapes.
    Sample(SourceArray),
}

/// The target of a node.
#[derive(Debug, Clone)]
pub(super) enum NodeOutcome {
    /// A group with these attributes.
    Group(Json),
    /// An array.
    Array { meta: Box<ArrayMeta>, data: Data },
}

/// A node in the plan.
#[derive(Debug, Clone)]
pub(super) struct PlannedNode {
    /// Its path from the root of the hierarchy.
    pub(super) path: String,
    pub(super) what: NodeOutcome,
    /// The existing node at its path.
    pub(super) old: Option<NodeMeta>,
}

/// The plan of an upgrade.
#[derive(Debug)]
pub(super) struct UpgradePlan {
    pub(super) root: String,
    pub(super) from: ImageVersion,
    pub(super) assumed: bool,
    pub(super) to: ImageVersion,
    pub(super) was: Format,
    /// The nodes, by their paths from the root of the hierarchy.
    pub(super) nodes: BTreeMap<String, PlannedNode>,
    /// Groups with consolidated metadata.
    pub(super) consolidated: Vec<String>,
    /// The paths of all old nodes, from the root of the store.
    pub(super) old: Vec<String>,
    /// Old chunks in the same store that become obsolete, since they are copied or recoded.
    pub(super) leaves: Vec<Chunks>,
    /// Arrays whose chunk keys have another separator than their documents state.
    pub(super) separators: BTreeMap<String, char>,
    pub(super) notes: Vec<String>,
    /// Labels groups that must exist.
    pub(super) needs_labels: BTreeSet<String>,
    /// The topmost OME-Zarr groups.
    pub(super) tops: Vec<String>,
    moves: Moves,
}

impl UpgradePlan {
    /// Plans the upgrade of a hierarchy to the version `to`.
    pub(super) fn of(tree: &UpgradeTree, to: ImageVersion, in_place: bool, lossy: bool) -> Result<Self> {
        let mut plan = Self {
            root: tree.root.clone(),
            from: tree.version,
            assumed: tree.assumed,
            to,
            was: tree.format,
            nodes: BTreeMap::new(),
            consolidated: Vec::new(),
            old: tree.members.keys().cloned().collect(),
            leaves: Vec::new(),
            separators: BTreeMap::new(),
            notes: Vec::new(),
            needs_labels: BTreeSet::new(),
            tops: Vec::new(),
            moves: Moves::default(),
        };
        for path in &tree.dangling {
            plan.notes.push(format!("{}: listed in metadata, but does not exist", shown(path)));
        }
        if !tree.listed {
            plan.notes.push("the store cannot list; only nodes named in metadata are included".into());
        }
        let masks = Masks::of(tree, &mut plan.notes);
        if tree.format == Format::V2 {
            plan.moves = Moves::of(tree, to, &mut plan.notes);
        }
        let levels = level_names(tree);
        for (path, member) in &tree.members {
            if masks.is(path) || masks.emptied.contains(path) || plan.moves.emptied.contains(path) {
                continue;
            }
            let placed = |e: Error| e.with_node(shown(path));
            match &member.node.meta {
                NodeMeta::Group(_) => plan.group(tree, path, member, &masks, lossy).map_err(placed)?,
                NodeMeta::Array(meta) => {
                    let names = levels.get(path).map(Option::as_ref);
                    plan.array(path, meta, names, in_place).map_err(placed)?;
                }
            }
        }
        for (path, _) in tree.members.iter().filter(|(_, m)| m.ome) {
            let path = plan.relative(path);
            let inside = |top: &String| top.is_empty() || path.starts_with(&format!("{top}/"));
            if !plan.tops.iter().any(inside) {
                plan.tops.push(path);
            }
        }
        let context = GroupContext { lossy, ..GroupContext::default() };
        for mask in &masks.masks {
            masks::plan(tree, mask, &mut plan, &context)?;
        }
        plan.missing_groups(&masks)?;
        for (path, member) in &tree.members {
            if let NodeMeta::Array(meta) = &member.node.meta
                && meta.format == Format::V2
            {
                let stated = meta.document.text("dimension_separator").unwrap_or(".");
                if !stated.starts_with(meta.keys.separator) {
                    plan.separators.insert(path.clone(), meta.keys.separator);
                    plan.notes.push(format!(
                        "{}: its chunk keys have the separator {:?}, but its document states {stated:?}",
                        shown(path),
                        meta.keys.separator
                    ));
                }
            }
        }
        Ok(plan)
    }

    /// The new path of the node at `path`, from the root of the hierarchy.
    pub(super) fn relative(&self, path: &str) -> String {
        let moved = self.moves.new_path(path);
        let path = moved.as_deref().unwrap_or(path);
        path.strip_prefix(&self.root).unwrap_or(path).trim_start_matches('/').to_owned()
    }

    /// Whether the node at `path` moves.
    pub(super) fn moves(&self, path: &str) -> bool {
        self.moves.new_path(path).is_some()
    }

    pub(super) fn add(&mut self, planned: PlannedNode) {
        self.nodes.insert(planned.path.clone(), planned);
    }

    /// Records that the chunks of an old array become obsolete.
    pub(super) fn drop_chunks(&mut self, path: &str, meta: &ArrayMeta) {
        self.leaves.push(Chunks { path: path.to_owned(), keys: meta.keys, rank: meta.shape.len() });
    }

    fn group(
        &mut self,
        tree: &UpgradeTree,
        path: &str,
        member: &UpgradeNode,
        masks: &Masks,
        lossy: bool,
    ) -> Result<()> {
        let attributes = masks.listed(path, member.node.meta.attributes());
        let attributes = self.moves.plate(path, &attributes);
        let mut context = GroupContext { ome: member.ome, lossy, ..GroupContext::default() };
        for level in member.group.multiscales.iter().flat_map(|m| &m.levels) {
            let array = tree.members.get(&join(path, level.path.trim_matches('/'))).map(|m| &m.node.meta);
            if let Some(NodeMeta::Array(meta)) = array {
                let known = LevelArray { shape: meta.shape.clone(), data_type: meta.data_type.clone() };
                context.arrays.insert(level.path.clone(), known);
            }
        }
        let lifted = lift::lift(&attributes, member.version, self.to, &context)?;
        self.notes.extend(lifted.notes.iter().map(|n| format!("{}: {n}", shown(path))));
        let relative = self.relative(path);
        if member.consolidated {
            self.consolidated.push(relative.clone());
        }
        let old = Some(member.node.meta.clone()).filter(|_| !self.moves(path) && !member.implied);
        self.add(PlannedNode { path: relative, what: NodeOutcome::Group(lifted.attributes), old });
        Ok(())
    }

    /// `names` are those of a level's dimensions; `None` if it is not a level.
    fn array(
        &mut self,
        path: &str,
        meta: &ArrayMeta,
        names: Option<Option<&Vec<String>>>,
        in_place: bool,
    ) -> Result<()> {
        let level = names.is_some();
        // Dimension names in V2 are an xarray convention; only 0.3 requires them.
        let wants_names = self.to.format() == Format::V3
            || self.from < ImageVersion::V03 && self.to >= ImageVersion::V03
            || self.to == ImageVersion::V03;
        let names = names.flatten().filter(|_| wants_names).cloned();
        if level && names.is_none() && self.to.format() == Format::V3 {
            self.notes
                .push(format!("{}: its number of dimensions differs from the number of axes", shown(path)));
        }
        let target = arrays::target(meta, self.to, &WantedArray { in_place, level, names })?;
        let rank = meta.shape.len();
        let source = SourceArray { path: path.to_owned(), meta: meta.clone() };
        let moves = self.moves(path);
        let same = arrays::same_keys(meta.keys, target.meta.keys, rank) && !moves;
        let data = match &target.recode {
            None if in_place && same => Data::Stay(source),
            None => Data::Copy(source),
            Some(reason) => {
                self.notes.push(format!("{}: its chunks are recoded: {reason}", shown(path)));
                Data::Recode(source)
            }
        };
        if in_place && !matches!(data, Data::Stay(_)) {
            if !moves && arrays::keys_clash(meta.keys, target.meta.keys, rank) {
                return Err(Error::unsupported(
                    "its chunks have to be recoded, and would overwrite the old ones; \
                     upgrade to another place",
                ));
            }
            self.drop_chunks(path, meta);
        }
        let what = NodeOutcome::Array { meta: Box::new(target.meta), data };
        let old = Some(NodeMeta::Array(meta.clone())).filter(|_| !moves);
        self.add(PlannedNode { path: self.relative(path), what, old });
        Ok(())
    }

    /// Adds missing intermediate groups, and those of new labels.
    fn missing_groups(&mut self, masks: &Masks) -> Result<()> {
        for labels in std::mem::take(&mut self.needs_labels) {
            if !self.nodes.contains_key(&labels) {
                let context = GroupContext { ome: true, ..GroupContext::default() };
                let listed = masks.listed(&join(&self.root, &labels), &Json::object());
                let from = self.from.min(ImageVersion::V04);
                let attributes = lift::lift(&listed, from, self.to, &context)?.attributes;
                self.add(PlannedNode { path: labels, what: NodeOutcome::Group(attributes), old: None });
            }
        }
        let mut missing = BTreeSet::new();
        for path in self.nodes.keys() {
            let mut at = path.as_str();
            while let Some(above) = parent(at) {
                if !self.nodes.contains_key(above) {
                    missing.insert(above.to_owned());
                }
                at = above;
            }
        }
        for path in missing {
            self.add(PlannedNode { path, what: NodeOutcome::Group(Json::object()), old: None });
        }
        Ok(())
    }

    /// A fingerprint of this plan for the journal.
    pub(super) fn digest(&self) -> Result<Json> {
        let mut text = String::new();
        for (path, planned) in &self.nodes {
            for (name, document) in self.documents(planned)?.0 {
                text.push_str(&format!("{path}\n{name}\n{document}\n"));
            }
        }
        let digest = md5_hex(text.as_bytes());
        Ok(Json::from([("nodes", self.nodes.len().into()), ("documents", digest.into())]))
    }

    /// The documents of a node, and whether they are new.
    pub(super) fn documents(&self, planned: &PlannedNode) -> Result<(Stored, bool)> {
        let format = self.to.format();
        let old = planned.old.as_ref().filter(|o| o.format() == format);
        let stored = match (&planned.what, old) {
            (NodeOutcome::Array { meta, .. }, Some(NodeMeta::Array(old)))
                if meta.document == old.document =>
            {
                write::as_stored(&NodeMeta::Array(ArrayMeta::clone(meta)))
            }
            (NodeOutcome::Array { meta, .. }, _) => write::array(meta)?,
            (NodeOutcome::Group(attributes), Some(NodeMeta::Group(group))) => match format {
                Format::V2 => {
                    let mut stored = vec![(".zgroup", (*group.document).clone())];
                    if attributes.members().is_some_and(|m| !m.is_empty()) {
                        stored.push((".zattrs", Json::clone(attributes)));
                    }
                    stored
                }
                Format::V3 => {
                    let all = attributes.members().unwrap_or_default().to_vec();
                    let edited =
                        edit::attributes(format, &group.document, &edit::AttributesEdit::Replace(all))?;
                    vec![("zarr.json", edited)]
                }
            },
            (NodeOutcome::Group(attributes), _) => write::group(&write::new_group(format, attributes)),
        };
        let changed = old.is_none_or(|old| write::as_stored(old) != stored);
        Ok((stored, changed))
    }

    /// All arrays with the source of their elements.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (&PlannedNode, &ArrayMeta, &Data)> {
        self.nodes.values().filter_map(|p| match &p.what {
            NodeOutcome::Array { meta, data } => Some((p, &**meta, data)),
            NodeOutcome::Group(_) => None,
        })
    }
}

/// The dimension names of every level; `None` if their number differs from that of the dimensions.
fn level_names(tree: &UpgradeTree) -> BTreeMap<String, Option<Vec<String>>> {
    let mut names: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
    for (path, member) in &tree.members {
        for multiscale in &member.group.multiscales {
            for level in &multiscale.levels {
                let array = join(path, level.path.trim_matches('/'));
                let Some(NodeMeta::Array(meta)) = tree.members.get(&array).map(|m| &m.node.meta) else {
                    continue;
                };
                let rank = meta.shape.len();
                // Before 0.3 they are the last ones.
                let skipped = if member.version < ImageVersion::V03 {
                    multiscale.axes.len().saturating_sub(rank)
                } else {
                    0
                };
                let own: Vec<String> = multiscale.axes.iter().skip(skipped).map(|a| a.name.clone()).collect();
                names.entry(array).or_insert_with(|| Some(own).filter(|n| n.len() == rank));
            }
        }
    }
    names
}
