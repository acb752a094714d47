//! Collects every node of a hierarchy, with its version and its role in the OME metadata.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, Zarr};
use crate::image::find;
use crate::image::model::Group;
use crate::image::parse;
use crate::image::version::{self, ImageVersion, Stated};
use crate::journal::{NodeSource, check_settled};
use crate::meta::path::{join, normal, shown};
use crate::meta::{ChunkKeys, Format, Json, NodeMeta, write};
use crate::store::SharedStore;
use crate::store::StoreExt as _;
use crate::{hierarchy, image::find::Found};

/// One node.
#[derive(Debug)]
pub(super) struct UpgradeNode {
    pub(super) node: Node,
    /// For a group: its parsed attributes.
    pub(super) group: Group,
    /// Its version.
    pub(super) version: ImageVersion,
    /// Whether it is part of an OME-Zarr, even without OME attributes.
    pub(super) ome: bool,
    /// For a group: whether it has consolidated metadata.
    pub(super) consolidated: bool,
    /// Whether it is a plain directory of labels or masks, without a group document.
    pub(super) implied: bool,
}

/// A hierarchy.
#[derive(Debug)]
pub(super) struct UpgradeTree {
    /// Its root.
    pub(super) root: String,
    pub(super) format: Format,
    pub(super) version: ImageVersion,
    /// Whether the version was inferred, since it is not stated.
    pub(super) assumed: bool,
    /// All nodes, by their paths from the root of the store.
    pub(super) members: BTreeMap<String, UpgradeNode>,
    /// Paths that are listed in metadata, but do not exist.
    pub(super) dangling: Vec<String>,
    /// Whether nodes could be listed; otherwise only those named in metadata are known.
    pub(super) listed: bool,
}

impl UpgradeTree {
    /// Collects everything at `root` and below it. `separators` are those of arrays that are known already.
    pub(super) async fn gather(zarr: &Zarr, root: &str, separators: &BTreeMap<String, char>) -> Result<Self> {
        let found = find::find(zarr, root).await;
        let (version, assumed) = match &found {
            Ok(Found::Image(image)) => (image.version, image.assumed),
            Ok(
                Found::Plate { version, .. }
                | Found::Well { version, .. }
                | Found::Collection { version, .. },
            ) => {
                let node = zarr.node(root).await?;
                (*version, !matches!(version::stated(node.meta.attributes()), Stated::Known(..)))
            }
            // May be a plain group with images in it.
            Err(e) if e.kind() == ErrorKind::Invalid => (ImageVersion::V04, true),
            Err(_) => return Err(found.err().unwrap_or_else(Error::cancelled)),
        };
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let mut open = vec![root.to_owned()];
        let mut dangling = Vec::new();
        let mut listed = true;
        let format = zarr.node(root).await?.meta.format();
        let mut implied: BTreeSet<String> = BTreeSet::new();
        // Intermediate directories need not be groups, so a walk misses nodes below them; metadata name these.
        let mut named: BTreeSet<String> = BTreeSet::new();
        while let Some(path) = open.pop() {
            let walked = match zarr.walk(&path).await {
                Err(e) if e.kind() == ErrorKind::NotFound && path != root => {
                    match path.rsplit('/').next() {
                        // These are optional, and old writers did not make them groups.
                        Some("labels" | "masks") if listed => {
                            match plain_folder(zarr, &path, format).await? {
                                Some(node) => {
                                    implied.insert(path);
                                    vec![node]
                                }
                                None => continue,
                            }
                        }
                        Some("labels" | "masks" | "OME") => continue,
                        _ => {
                            dangling.push(path);
                            continue;
                        }
                    }
                }
                // A store that cannot list: only nodes named in metadata are known.
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    listed = false;
                    match zarr.direct_node(&path).await? {
                        Some(node) => vec![node],
                        None => continue,
                    }
                }
                walked => walked?,
            };
            for node in walked {
                if nodes.contains_key(&node.path) {
                    continue;
                }
                if let NodeMeta::Group(_) = &node.meta {
                    let mut below = references(&node)?;
                    if listed
                        && node.name() == "masks"
                        && parse::group(node.meta.attributes()).listed.is_none()
                    {
                        let masks = find::unlisted(zarr, &node.path).await?;
                        below.extend(masks.iter().map(|mask| join(&node.path, mask)));
                    }
                    if listed {
                        below.extend(below_plain_folders(zarr, &node.path).await?);
                    }
                    for below in below {
                        if named.insert(below.clone()) {
                            open.push(below);
                        }
                    }
                }
                nodes.insert(node.path.clone(), node);
            }
            open.retain(|p| !nodes.contains_key(p));
        }
        if let Some(damaged) = zarr.take_damaged().into_iter().next() {
            return Err(damaged.within("a node cannot be read and would be lost"));
        }
        let mut tree = Self {
            root: root.to_owned(),
            format,
            version,
            assumed,
            members: BTreeMap::new(),
            dangling,
            listed,
        };
        for (path, node) in nodes {
            if node.meta.format() != format {
                let message = format!(
                    "this is Zarr V{}, but its parent group is V{}",
                    node.meta.format().number(),
                    format.number()
                );
                return Err(Error::invalid(message).with_node(shown(&path)));
            }
            let mut member = tree.member(zarr, node, separators).await?;
            member.implied = implied.contains(&path);
            tree.members.insert(path, member);
        }
        tree.settle_version();
        match found {
            Err(e) if !tree.members.values().any(|m| m.ome) => Err(e),
            _ => Ok(tree),
        }
    }

    async fn member(
        &self,
        zarr: &Zarr,
        node: Node,
        separators: &BTreeMap<String, char>,
    ) -> Result<UpgradeNode> {
        let mut node = node;
        let attributes = node.meta.attributes();
        let group = match &node.meta {
            NodeMeta::Group(_) => parse::group(attributes),
            NodeMeta::Array(_) => Group::default(),
        };
        let above = parent(&node.path).and_then(|p| self.members.get(p));
        let version = match (version::stated(attributes), above) {
            // The whole tree distinguishes the seed version from 0.1.
            _ if node.path == self.root => self.version,
            (Stated::Known(version, _), _) => version,
            (_, above) if group.multiscales.is_empty() => above.map_or(self.version, |m| m.version),
            _ => version::assumed(attributes, self.format, None, false),
        };
        let name = node.name();
        let ome = matches!(node.meta, NodeMeta::Group(_))
            && (is_ome(&group)
                || above.is_some_and(|above| {
                    matches!(name, "labels" | "masks") && !above.group.multiscales.is_empty()
                        || name == "OME" && above.group.layout
                }));
        let consolidated = match &node.meta {
            NodeMeta::Array(_) => false,
            NodeMeta::Group(group) if group.consolidated.is_some() => true,
            NodeMeta::Group(_) if self.format == Format::V2 => {
                zarr.store().exists(&join(&node.path, ".zmetadata")).await?
            }
            // Consolidated metadata of the root were removed from it on opening.
            NodeMeta::Group(group) => group.document.get("consolidated_metadata").is_some(),
        };
        let path = node.path.clone();
        if let NodeMeta::Array(meta) = &mut node.meta {
            // The separator of the chunk keys may differ from that of the document.
            meta.keys = match separators.get(&path) {
                Some(separator) => ChunkKeys { separator: *separator, ..meta.keys },
                None => match hierarchy::keys_found(zarr.store(), &path, meta).await {
                    Err(e) if e.kind() == ErrorKind::Unsupported => meta.keys,
                    keys => keys?,
                },
            };
        }
        Ok(UpgradeNode { node, group, version, ome, consolidated, implied: false })
    }

    /// The nodes as the source of an operation.
    pub(super) fn content<'a>(&'a self, store: &'a SharedStore) -> NodeSource<'a> {
        NodeSource::new(store, &self.root, self.members.iter().map(|(path, m)| (path.as_str(), &m.node.meta)))
    }

    /// If the root does not state its version, uses that of the nodes in it.
    fn settle_version(&mut self) {
        if !self.assumed {
            return;
        }
        let stated = self.members.values().find_map(|m| {
            match (&m.node.meta, version::stated(m.node.meta.attributes())) {
                (NodeMeta::Group(_), Stated::Known(version, _)) => Some(version),
                _ => None,
            }
        });
        let Some(root) = self.members.get(&self.root) else { return };
        match stated {
            Some(version) if root.group.multiscales.is_empty() => {
                (self.version, self.assumed) = (version, false);
            }
            None if root.group.layout && self.format == Format::V2 => self.version = ImageVersion::V04,
            _ => {}
        }
        let version = self.version;
        if let Some(root) = self.members.get_mut(&self.root) {
            root.version = version;
        }
    }

    /// The nodes below `path`.
    pub(super) fn below<'a>(
        &'a self,
        path: &str,
    ) -> impl Iterator<Item = (&'a str, &'a UpgradeNode)> + use<'a> {
        let start = if path.is_empty() { String::new() } else { format!("{path}/") };
        let own = path.to_owned();
        self.members
            .iter()
            .filter(move |(p, _)| **p != own && p.starts_with(&start))
            .map(|(p, m)| (p.as_str(), m))
    }
}

/// A directory of labels or masks that is not a group, as a group: with its `.zattrs`, or a list of the nodes in it.
/// `None` if it is empty.
async fn plain_folder(zarr: &Zarr, path: &str, format: Format) -> Result<Option<Node>> {
    let found = find::unlisted(zarr, path).await?;
    if found.is_empty() {
        return Ok(None);
    }
    let mut attributes = match zarr.store().get(&join(path, ".zattrs"), None).await? {
        Some(bytes) if format == Format::V2 => {
            Json::parse(&bytes).map_err(|e| e.with_key(join(path, ".zattrs")))?.value
        }
        _ => Json::object(),
    };
    if path.rsplit('/').next() == Some("labels") && parse::group(&attributes).listed.is_none() {
        match format {
            Format::V2 => attributes.set("labels", found),
            Format::V3 => attributes.set("ome", Json::from([("labels", found.into())])),
        }
    }
    let meta = NodeMeta::Group(write::new_group(format, &attributes));
    Ok(Some(Node { path: path.to_owned(), meta, findings: Vec::new() }))
}

/// The nodes in directories below the group at `path` that are not nodes themselves.
async fn below_plain_folders(zarr: &Zarr, path: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![path.to_owned()];
    // Consolidated nodes are known without listing directories, which may be impossible.
    while let Some(here) = open.pop().filter(|_| !zarr.is_consolidated()) {
        let nodes = zarr.children(&here).await?;
        let plain = |name: &String| !name.starts_with('.') && !nodes.iter().any(|n| n.name() == name);
        if here != path {
            // Skip nodes that are being created, or were left unfinished.
            check_settled(zarr.store(), &here).await?;
        }
        let folders = zarr.store().list(&here).await?.prefixes;
        open.extend(folders.iter().filter(|name| plain(name)).map(|name| join(&here, name)));
        if here != path {
            found.extend(nodes.into_iter().map(|node| node.path));
        }
    }
    Ok(found)
}

/// The parent of a path.
pub(super) fn parent(path: &str) -> Option<&str> {
    if path.is_empty() { None } else { Some(path.rsplit_once('/').map_or("", |(above, _)| above)) }
}

fn is_ome(group: &Group) -> bool {
    !group.multiscales.is_empty()
        || group.omero.is_some()
        || group.label.is_some()
        || group.listed.is_some()
        || group.plate.is_some()
        || group.well.is_some()
        || group.layout
        || group.series.is_some()
        || group.version.is_some()
}

/// The nodes named in a group's metadata.
fn references(node: &Node) -> Result<Vec<String>> {
    let group = parse::group(node.meta.attributes());
    let levels = group.multiscales.iter().flat_map(|m| &m.levels).map(|l| l.path.as_str());
    let listed = group.listed.iter().flatten().map(String::as_str);
    let wells = group.plate.iter().flat_map(|p| &p.wells).map(|w| w.path.as_str());
    let fields = group.well.iter().flat_map(|w| &w.fields).map(|f| f.path.as_str());
    let images = [(!group.multiscales.is_empty()).then_some(["labels", "masks"])];
    let images = images.iter().flatten().flatten().copied();
    let ome = group.layout.then_some("OME");
    // The images of a layout are listed in `OME`, relative to its parent group.
    let above = parent(&node.path).unwrap_or_default();
    let series = group.series.iter().flatten().map(|s| Ok(join(above, &normal(s)?)));
    let below = levels.chain(listed).chain(wells).chain(fields).chain(images).chain(ome);
    below.map(|p| Ok(join(&node.path, &normal(p)?))).chain(series).collect()
}
