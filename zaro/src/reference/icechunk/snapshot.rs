//! Icechunk snapshots: every node of a hierarchy, and the manifests that list the chunks of each array.

use std::sync::OnceLock;

use bytes::Bytes;

use super::flat::{BufferBudget, FlatTable, need};
use super::id::Id;
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::json::Json;
use crate::meta::keys::ChunkKeys;
use crate::meta::{finding::Findings, v3};
use crate::store::Listing;

/// All nodes, in the order of their paths.
#[derive(Debug)]
pub(super) struct Snapshot {
    nodes: Vec<SnapshotNode>,
}

/// A group or an array.
#[derive(Debug)]
pub(super) struct SnapshotNode {
    /// Its path without the leading slash; empty for the root.
    pub(super) path: Box<str>,
    pub(super) id: [u8; 8],
    /// Its `zarr.json`.
    pub(super) document: Bytes,
    pub(super) array: Option<ArrayNode>,
}

/// The manifests of an array.
#[derive(Debug)]
pub(super) struct ArrayNode {
    /// Sorted by their start along the first dimension.
    parts: Vec<ManifestPart>,
    /// The furthest end along the first dimension of all parts up to this one.
    reach: Vec<u32>,
    form: OnceLock<KeyForm>,
}

/// A manifest that lists chunks of an array.
#[derive(Debug)]
pub(super) struct ManifestPart {
    pub(super) manifest: Id,
    /// `[from, to)` of the chunks' indexes along each dimension; empty for all chunks.
    extents: Box<[[u32; 2]]>,
}

/// The chunk key encoding of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyForm {
    pub(super) keys: ChunkKeys,
    pub(super) rank: usize,
}

impl ManifestPart {
    /// Whether this manifest may list a chunk.
    pub(super) fn has(&self, index: &[u32]) -> bool {
        self.extents.iter().zip(index).all(|([from, to], i)| (from..to).contains(&i))
    }
}

impl Snapshot {
    /// Parses the FlatBuffers of the snapshot `id`.
    pub(super) fn parse(payload: Vec<u8>, id: Id) -> Result<Self> {
        let payload = Bytes::from(payload);
        let root = FlatTable::root(&payload)?;
        let stated = Id(need(root.fixed(0)?, "the id of the snapshot")?);
        if stated != id {
            return Err(invalid!("the file is snapshot {stated}, not {id}"));
        }
        let mut budget = BufferBudget::of(&payload);
        let mut nodes = Vec::new();
        for table in root.tables(2)?.iter() {
            nodes.push(node(&table?, &payload, &mut budget)?);
        }
        // Writers differ in whether `/` comes before other characters.
        nodes.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some([twice, _]) = nodes.array_windows().find(|[a, b]| a.path == b.path) {
            return Err(
                Error::invalid("the snapshot has this node twice").with_node(format!("/{}", twice.path))
            );
        }
        Ok(Self { nodes })
    }

    /// The node at a path.
    pub(super) fn node(&self, path: &str) -> Option<&SnapshotNode> {
        let at = self.nodes.binary_search_by(|n| (*n.path).cmp(path)).ok()?;
        self.nodes.get(at)
    }

    /// The array that a key belongs to, and what the key is below it.
    pub(super) fn array_of<'a, 'k>(
        &'a self,
        key: &'k str,
    ) -> Option<(&'a SnapshotNode, &'a ArrayNode, &'k str)> {
        let mut path = key;
        while let Some((above, _)) = path.rsplit_once('/') {
            path = above;
            if let Some(node) = self.node(path) {
                let rest = key.get(path.len().checked_add(1)?..)?;
                return Some((node, node.array.as_ref()?, rest));
            }
        }
        let root = self.node("")?;
        Some((root, root.array.as_ref()?, key))
    }

    /// All nodes below `prefix/`, and the one at `prefix` first if it is there.
    pub(super) fn below(&self, prefix: &str) -> Vec<&SnapshotNode> {
        if prefix.is_empty() {
            return self.nodes.iter().collect();
        }
        let folder = format!("{prefix}/");
        let start = self.nodes.partition_point(|n| *n.path < *folder);
        let inside = self.nodes.iter().skip(start).take_while(|n| n.path.starts_with(&folder));
        self.node(prefix).into_iter().chain(inside).collect()
    }

    /// The nodes directly below `prefix`, as folders, and its document.
    pub(super) fn list(&self, prefix: &str) -> Listing {
        let mut out = Listing::default();
        if self.node(prefix).is_some() {
            out.objects.push("zarr.json".to_owned());
        }
        let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut at = self.nodes.partition_point(|n| *n.path < *folder);
        while let Some(path) = self.nodes.get(at).map(|n| &*n.path) {
            let Some(rest) = path.strip_prefix(&*folder) else { break };
            let name = rest.split('/').next().unwrap_or(rest);
            if !name.is_empty() {
                out.prefixes.push(name.to_owned());
            }
            // Past all that lies below this child: `0` is what follows the slash.
            let next = if path.len() > folder.len() + name.len() {
                format!("{folder}{name}0")
            } else {
                String::new()
            };
            at = self.nodes.partition_point(|n| *n.path < *next).max(at + 1);
        }
        out.sorted()
    }
}

impl ArrayNode {
    /// The manifests that may list the chunk.
    pub(super) fn parts_with<'a>(&'a self, index: &'a [u32]) -> impl Iterator<Item = &'a ManifestPart> {
        let first = index.first().copied().unwrap_or(0);
        let end = self.parts.partition_point(|p| p.begin() <= first);
        let begin = self.reach.partition_point(|reach| *reach <= first).min(end);
        let some = self.parts.get(begin..end).unwrap_or_default();
        some.iter().filter(move |p| p.has(index))
    }

    /// All its manifests.
    pub(super) fn parts(&self) -> &[ManifestPart] {
        &self.parts
    }

    /// Its chunk key encoding, from its document.
    pub(super) fn form(&self, document: &[u8]) -> Result<KeyForm> {
        if let Some(form) = self.form.get() {
            return Ok(*form);
        }
        let document = Json::parse(document)?.value;
        let field = |name: &str| {
            document.get(name).ok_or_else(|| Error::invalid("the field is missing").with_field(name))
        };
        let keys = v3::keys(field("chunk_key_encoding")?, &mut Findings::default())?;
        let shape = field("shape")?.items();
        let rank = shape.ok_or_else(|| Error::invalid("must be a list").with_field("shape"))?.len();
        Ok(*self.form.get_or_init(|| KeyForm { keys, rank }))
    }
}

impl ManifestPart {
    fn begin(&self) -> u32 {
        self.extents.first().map_or(0, |[from, _]| *from)
    }
}

fn node(table: &FlatTable<'_>, payload: &Bytes, budget: &mut BufferBudget) -> Result<SnapshotNode> {
    let id = need(table.fixed(0)?, "the id of a node")?;
    let path = need(table.text(1)?, "the path of a node")?;
    let at = |e: Error| e.with_node(path);
    let bare = path.strip_prefix('/').unwrap_or(path);
    if !bare.is_empty() && bare.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(at(invalid!("{path:?} is not the path of a node")));
    }
    budget.take(path.len()).map_err(at)?;
    let document = payload.slice_ref(need(table.list(2, 1)?, "the document of a node").map_err(at)?);
    let array = match table.u8(3, 0)? {
        1 => Some(array(&need(table.table(4)?, "what an array consists of")?, budget).map_err(at)?),
        2 => None,
        kind => return Err(at(unsupported!("the node is of an unknown kind ({kind})"))),
    };
    Ok(SnapshotNode { path: bare.into(), id, document, array })
}

fn array(table: &FlatTable<'_>, budget: &mut BufferBudget) -> Result<ArrayNode> {
    let manifests = table.tables(2)?;
    let mut parts = Vec::new();
    for part in manifests.iter() {
        let part = part?;
        let manifest = Id(need(part.fixed(0)?, "the id of a manifest")?);
        let extents = part.list(1, 8)?.unwrap_or_default();
        budget.take(extents.len().saturating_add(12))?;
        let (ranges, _) = extents.as_chunks::<8>();
        let range = |[a, b, c, d, e, f, g, h]: &[u8; 8]| {
            [u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h])]
        };
        parts.push(ManifestPart { manifest, extents: ranges.iter().map(range).collect() });
    }
    parts.sort_by_key(ManifestPart::begin);
    let mut furthest = 0;
    let ends = parts.iter().map(|p| p.extents.first().map_or(u32::MAX, |[_, to]| *to));
    let reach = ends
        .map(|to| {
            furthest = to.max(furthest);
            furthest
        })
        .collect();
    Ok(ArrayNode { parts, reach, form: OnceLock::new() })
}
