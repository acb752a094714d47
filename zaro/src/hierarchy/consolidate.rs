//! Consolidated metadata: the documents of all nodes, stored in a parent group.
//!
//! Creating, changing or deleting a node puts its own document first and then updates the copies above. Consolidating
//! reads the existing copy, walks the hierarchy, and puts the result on the condition that the copy is unchanged; then
//! it repeats that until nothing changes. So a node created after the walk has passed is either found by the next walk,
//! or its creator finds the consolidated metadata and adds it.

use super::{ATTEMPTS, V2_DOCUMENTS, change, check_settled, need, open, text};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::group::Node;
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{Format, Json, NodeMeta, consolidate as documents};
use crate::store::{Condition, SharedStore, StoreExt as _};

/// Writes consolidated metadata into the group at `path`: the documents of all nodes below it.
#[boxed]
pub async fn consolidate(store: &SharedStore, path: &str) -> Result<usize> {
    let path = normal(path)?;
    let placed = |e: Error| e.with_node(shown(&path)).with_store(store);
    check_settled(store, &path).await?;
    let format = need(store, &path).await?.meta.format();
    let key = join(&path, if format == Format::V3 { "zarr.json" } else { ".zmetadata" });
    let mut is_put = false;
    for _ in 0..ATTEMPTS {
        let (old, when) = match store.get_for_update(&key).await? {
            Some((bytes, tag)) => (Some(bytes), Condition::Unchanged(tag)),
            None => (None, Condition::Absent),
        };
        let nodes = nodes(store, &path, format).await?;
        let count = nodes.len();
        let old = match old {
            Some(bytes) => Json::parse(&bytes).map(|p| p.value),
            None => Err(Error::conflict("it was deleted by somebody else meanwhile")),
        };
        let new = match format {
            Format::V2 => documents::v2(&nodes),
            Format::V3 => {
                let own = |(path, documents): (String, Stored)| Some((path, documents.into_iter().next()?.1));
                let nodes: Vec<(String, Json)> = nodes.into_iter().filter_map(own).collect();
                let root = old.as_ref().map_err(|e| placed(Error::new(e.kind(), e.message())))?;
                documents::v3(root, &nodes).map_err(placed)?
            }
        };
        if is_put && old.is_ok_and(|old| old == new) {
            return Ok(count);
        }
        is_put = match store.put(&key, text(&new), when).await {
            Ok(put) => put.is_done(),
            // A separate document can be put without a condition, by a single writer.
            Err(e) if e.kind() == ErrorKind::Unsupported && format == Format::V2 => {
                store.put(&key, text(&new), Condition::Always).await?.is_done()
            }
            Err(e) => return Err(e),
        };
    }
    Err(placed(Error::conflict(
        "other processes keep creating and changing nodes; rerun the command when they are done",
    )))
}

/// Marks a group whose consolidated metadata was removed and has to be restored.
const SUSPENDED: &str = ".zaro-consolidate.json";

/// Consolidates every group above `path` that has consolidated metadata again: after several nodes were put there
/// without updating the copies.
pub(crate) async fn consolidate_above(store: &SharedStore, path: &str) -> Result<()> {
    resume_above(store, path, &[]).await
}

/// The same, also for the groups that were `suspended`: somebody else may have removed their markers.
pub(super) async fn resume_above(store: &SharedStore, path: &str, suspended: &[String]) -> Result<()> {
    for group in ancestors(path) {
        let marked = store.exists(&join(group, SUSPENDED)).await?;
        if marked || suspended.iter().any(|s| s == group) || carries(store, group).await? {
            consolidate(store, group).await?;
        }
        if marked {
            store.delete(&join(group, SUSPENDED)).await?;
        }
    }
    Ok(())
}

/// The documents of the group at `path` and of all nodes below it, by relative path.
async fn nodes(store: &SharedStore, path: &str, format: Format) -> Result<Vec<(String, Stored)>> {
    let placed = |e: Error| e.with_node(shown(path)).with_store(store);
    let zarr = open(store).await?;
    let nodes = zarr.walk(path).await?;
    if let Some(damaged) = zarr.take_damaged().into_iter().next() {
        return Err(damaged.within("a node cannot be read and would be missing"));
    }
    let Some(Node { meta: NodeMeta::Group(_), .. }) = nodes.first() else {
        return Err(placed(Error::usage("this is an array; only groups have consolidated metadata")));
    };
    if let Some(other) = nodes.iter().find(|n| n.meta.format() != format) {
        let message = format!("{} has another Zarr version", shown(&other.path));
        return Err(placed(Error::unsupported(message)));
    }
    let relative = |n: &Node| n.path.strip_prefix(path).unwrap_or(&n.path).trim_start_matches('/').to_owned();
    Ok(nodes.iter().map(|n| (relative(n), write::as_stored(&n.meta))).collect())
}

/// Removes consolidated metadata from the group at `path`, and returns whether there was any. The nodes' own documents
/// stay.
#[boxed]
pub async fn unconsolidate(store: &SharedStore, path: &str) -> Result<bool> {
    let path = normal(path)?;
    let node = need(store, &path).await?;
    if node.meta.format() == Format::V2 {
        let key = join(&path, ".zmetadata");
        let there = store.exists(&key).await?;
        store.delete(&key).await?;
        return Ok(there);
    }
    let key = join(&path, "zarr.json");
    let changed = change(store, &key, |old| {
        Ok(old.filter(|d| d.get("consolidated_metadata").is_some()).map(|d| documents::without(&d)))
    })
    .await?;
    Ok(changed.is_some())
}

/// Removes consolidated metadata from every group above `path`, until it is [restored](consolidate_above): meanwhile
/// readers use the nodes' own documents. A marker is left in these groups, which are returned.
pub(super) async fn suspend_above(store: &SharedStore, path: &str) -> Result<Vec<String>> {
    let mut suspended = Vec::new();
    for group in ancestors(path) {
        if carries(store, group).await? {
            let _ = store.put(&join(group, SUSPENDED), "{}\n".into(), Condition::Always).await?;
            unconsolidate(store, group).await?;
            suspended.push(group.to_owned());
        }
    }
    Ok(suspended)
}

/// Whether the group at `path` has consolidated metadata.
async fn carries(store: &SharedStore, path: &str) -> Result<bool> {
    Ok(match store.get(&join(path, "zarr.json"), None).await? {
        Some(text) => Json::parse(&text).is_ok_and(|p| p.value.get("consolidated_metadata").is_some()),
        None => store.exists(&join(path, ".zmetadata")).await?,
    })
}

/// Updates the copies of the documents of the node at `path` in the groups above it.
pub(crate) async fn renew(store: &SharedStore, path: &str) -> Result<()> {
    renew_copies(store, path, false).await
}

/// Removes them: the node is about to be deleted.
pub(super) async fn forget(store: &SharedStore, path: &str) -> Result<()> {
    renew_copies(store, path, true).await
}

async fn renew_copies(store: &SharedStore, path: &str, forget: bool) -> Result<()> {
    // A V2 group also holds copies of its own documents.
    for group in ancestors(path).into_iter().chain([path]) {
        for format in [Format::V3, Format::V2] {
            renew_in(store, group, path, format, forget).await?;
        }
    }
    Ok(())
}

/// The same in one group. The new documents are read after the one they are put into: of two that change a node, the
/// last one reads, and puts, its final state.
async fn renew_in(store: &SharedStore, group: &str, path: &str, format: Format, forget: bool) -> Result<()> {
    let relative = path.strip_prefix(group).unwrap_or(path).trim_start_matches('/');
    let key = join(group, if format == Format::V3 { "zarr.json" } else { ".zmetadata" });
    let placed = |e: Error| e.with_key(&key).with_store(store);
    if relative.is_empty() && format == Format::V3 {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        let Some((bytes, tag)) = store.get_for_update(&key).await? else { return Ok(()) };
        let old = Json::parse(&bytes).map_err(placed)?.value;
        let carrier = match format {
            Format::V3 => old.get("consolidated_metadata"),
            Format::V2 => Some(&old),
        };
        let Some(mut carrier) = carrier.cloned() else { return Ok(()) };
        let Some(Json::Object(mut entries)) = carrier.get("metadata").cloned() else { return Ok(()) };
        let now = if forget { Vec::new() } else { documents_at(store, path, format).await? };
        let below = format!("{relative}/");
        match format {
            _ if now.is_empty() => entries.retain(|(p, _)| p != relative && !p.starts_with(&below)),
            // The node was deleted.
            Format::V2 => {
                let gone = V2_DOCUMENTS.iter().filter(|name| !now.iter().any(|(n, _)| n == *name));
                let gone: Vec<String> = gone.map(|name| join(relative, name)).collect();
                entries.retain(|(p, _)| !gone.contains(p));
            }
            Format::V3 => {}
        }
        for (name, document) in now {
            let place = if format == Format::V3 { relative.to_owned() } else { join(relative, name) };
            match entries.iter_mut().find(|(p, _)| *p == place) {
                Some(entry) => entry.1 = document,
                None => insert(&mut entries, place, document),
            }
        }
        carrier.set("metadata", Json::Object(entries));
        let mut new = old.clone();
        match format {
            Format::V3 => new.set("consolidated_metadata", carrier),
            Format::V2 => new = carrier,
        }
        if new == old || store.put(&key, text(&new), Condition::Unchanged(tag)).await?.is_done() {
            return Ok(());
        }
    }
    Err(placed(Error::conflict("this document kept being changed by other writers; rerun the command")))
}

/// The documents of the node at `path`, as stored in groups above it; empty if there is no node of this version.
async fn documents_at(store: &SharedStore, path: &str, format: Format) -> Result<Stored> {
    let names: &[&'static str] = if format == Format::V3 { &["zarr.json"] } else { &V2_DOCUMENTS };
    let mut stored = Stored::new();
    for name in names {
        if let Some((bytes, _)) = store.get_for_update(&join(path, name)).await? {
            let document =
                Json::parse(&bytes).map_err(|e| e.with_key(join(path, name)).with_store(store))?.value;
            stored.push((*name, if format == Format::V3 { documents::without(&document) } else { document }));
        }
    }
    // Attributes alone are not a node.
    let is_node = stored.iter().any(|(name, _)| *name != ".zattrs");
    Ok(if is_node { stored } else { Stored::new() })
}

/// Inserts a document in walk order: zarr-python finds the nodes of a group only if they are adjacent.
fn insert(entries: &mut Vec<(String, Json)>, path: String, document: Json) {
    entries.push((path, document));
    entries.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
}
