//! Consolidated metadata: the documents of all nodes, carried by a group above them.
//!
//! Who makes, changes or deletes a node puts its own document first and renews the copies above after that. Who
//! consolidates looks at what is carried, walks, and puts what it saw on the condition that nobody changed it; then it
//! looks and walks again, until that changes nothing. So a node that was made after the walk had passed is either seen by
//! the next walk, or its maker finds the consolidated metadata and adds it.

use super::{ATTEMPTS, change, check_settled, need, open, text};
use crate::error::{Error, ErrorKind, Result};
use crate::group::Node;
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{Format, Json, NodeMeta, consolidate as documents};
use crate::store::{Condition, SharedStore};

/// Writes consolidated metadata into the group at `path`: the documents of all nodes below it.
pub async fn consolidate(store: &SharedStore, path: &str) -> Result<usize> {
    let path = normal(path)?;
    let placed = |e: Error| e.with_node(shown(&path)).with_store(store);
    check_settled(store, &path).await?;
    let format = need(store, &path).await?.meta.format();
    let key = join(&path, if format == Format::V3 { "zarr.json" } else { ".zmetadata" });
    let mut is_put = false;
    for _ in 0..ATTEMPTS {
        let (old, when) = match store.get_tagged(&key).await? {
            Some((bytes, tag)) => (Some(bytes), Condition::Unchanged(tag)),
            None => (None, Condition::Absent),
        };
        let nodes = nodes(store, &path, format).await?;
        let count = nodes.len();
        let old = match old {
            Some(bytes) => Json::parse(&bytes).map(|p| p.value),
            None => Err(Error::conflict("somebody else deleted it")),
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
            // A document of its own can be put without a condition, for one who is alone.
            Err(e) if e.kind() == ErrorKind::Unsupported && format == Format::V2 => {
                store.put(&key, text(&new), Condition::Always).await?.is_done()
            }
            Err(e) => return Err(e),
        };
    }
    Err(placed(Error::conflict("others made and changed nodes again and again")))
}

/// Says that a group had consolidated metadata and is to have them again.
const SUSPENDED: &str = ".zaro-consolidate.json";

/// Consolidates anew every group above `path` that carries the metadata of others: of several nodes that were put there
/// without renewing the copies.
pub(crate) async fn consolidate_above(store: &SharedStore, path: &str) -> Result<()> {
    resume_above(store, path, &[]).await
}

/// The same, also of the groups that were `suspended`: somebody else may have taken their markers away.
pub(super) async fn resume_above(store: &SharedStore, path: &str, suspended: &[String]) -> Result<()> {
    for group in ancestors(path) {
        let marked = store.size(&join(group, SUSPENDED)).await?.is_some();
        if marked || suspended.iter().any(|s| s == group) || carries(store, group).await? {
            consolidate(store, group).await?;
        }
        if marked {
            store.delete(&join(group, SUSPENDED)).await?;
        }
    }
    Ok(())
}

/// The documents of the group at `path` and of all nodes below it, by their paths from there.
async fn nodes(store: &SharedStore, path: &str, format: Format) -> Result<Vec<(String, Stored)>> {
    let placed = |e: Error| e.with_node(shown(path)).with_store(store);
    let zarr = open(store).await?;
    let nodes = zarr.walk(path).await?;
    if let Some(damaged) = zarr.take_damaged().into_iter().next() {
        return Err(damaged.within("a node cannot be read, so that it would be missing"));
    }
    let Some(Node { meta: NodeMeta::Group(_), .. }) = nodes.first() else {
        return Err(placed(Error::usage("this is an array; only a group carries the metadata of others")));
    };
    if let Some(other) = nodes.iter().find(|n| n.meta.format() != format) {
        let message = format!("{} is of another version of Zarr", shown(&other.path));
        return Err(placed(Error::unsupported(message)));
    }
    let relative = |n: &Node| n.path.strip_prefix(path).unwrap_or(&n.path).trim_start_matches('/').to_owned();
    Ok(nodes.iter().map(|n| (relative(n), write::as_stored(&n.meta))).collect())
}

/// Takes consolidated metadata away from the group at `path`, and says whether there were any. The nodes' own documents
/// stay.
pub async fn unconsolidate(store: &SharedStore, path: &str) -> Result<bool> {
    let path = normal(path)?;
    let node = need(store, &path).await?;
    if node.meta.format() == Format::V2 {
        let key = join(&path, ".zmetadata");
        let there = store.size(&key).await?.is_some();
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

/// Renews the copies of the node at `path` as it is: whoever changed it may have been killed before that.
pub(crate) async fn renew(store: &SharedStore, path: &str) -> Result<()> {
    match super::find(store, path).await? {
        Some(node) => renew_copies(store, path, Some(write::as_stored(&node.meta))).await,
        None => Ok(()),
    }
}

/// Takes consolidated metadata away from every group above `path`, until they are [put again](consolidate_above): whoever
/// reads meanwhile reads the nodes' own documents. A marker says that there were some.
/// Says which groups these were.
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

/// Whether the group at `path` carries the metadata of others.
async fn carries(store: &SharedStore, path: &str) -> Result<bool> {
    Ok(match store.get(&join(path, "zarr.json"), None).await? {
        Some(text) => Json::parse(&text).is_ok_and(|p| p.value.get("consolidated_metadata").is_some()),
        None => store.size(&join(path, ".zmetadata")).await?.is_some(),
    })
}

/// Renews the copies of a node's documents that groups above it carry; `None` if the node is gone.
pub(super) async fn renew_copies(store: &SharedStore, path: &str, stored: Option<Stored>) -> Result<()> {
    // A V2 group carries its own documents, too.
    for group in ancestors(path).into_iter().chain([path]) {
        let relative = path.strip_prefix(group).unwrap_or(path).trim_start_matches('/');
        renew_v3(store, group, relative, stored.as_ref()).await?;
        renew_v2(store, group, relative, stored.as_ref()).await?;
    }
    Ok(())
}

async fn renew_v3(store: &SharedStore, group: &str, relative: &str, stored: Option<&Stored>) -> Result<()> {
    let key = join(group, "zarr.json");
    if relative.is_empty() || store.get(&key, None).await?.is_none() {
        return Ok(());
    }
    change(store, &key, |old| {
        let Some(mut old) = old else { return Ok(None) };
        let Some(mut carried) = old.get("consolidated_metadata").cloned() else { return Ok(None) };
        let Some(Json::Object(mut entries)) = carried.get("metadata").cloned() else { return Ok(None) };
        let below = format!("{relative}/");
        match stored.and_then(|s| s.iter().find(|(name, _)| *name == "zarr.json")) {
            None => entries.retain(|(p, _)| p != relative && !p.starts_with(&below)),
            Some((_, document)) => {
                let document = documents::without(document);
                match entries.iter_mut().find(|(p, _)| p == relative) {
                    Some(entry) => entry.1 = document,
                    None => insert(&mut entries, relative.to_owned(), document),
                }
            }
        }
        let before = old.clone();
        carried.set("metadata", Json::Object(entries));
        old.set("consolidated_metadata", carried);
        Ok(Some(old).filter(|new| *new != before))
    })
    .await
    .map(drop)
}

/// Adds a document in the order of a walk: zarr-python finds the nodes of a group only where they stand together.
fn insert(entries: &mut Vec<(String, Json)>, path: String, document: Json) {
    entries.push((path, document));
    entries.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
}

async fn renew_v2(store: &SharedStore, group: &str, relative: &str, stored: Option<&Stored>) -> Result<()> {
    let key = join(group, ".zmetadata");
    if store.get(&key, None).await?.is_none() {
        return Ok(());
    }
    change(store, &key, |old| {
        let Some(mut old) = old else { return Ok(None) };
        let Some(Json::Object(mut entries)) = old.get("metadata").cloned() else { return Ok(None) };
        match stored {
            None => {
                let below = format!("{relative}/");
                entries.retain(|(p, _)| !p.starts_with(&below));
            }
            Some(stored) => {
                for (name, document) in stored {
                    let place = join(relative, name);
                    match entries.iter_mut().find(|(p, _)| *p == place) {
                        Some(entry) => entry.1 = document.clone(),
                        None => insert(&mut entries, place, document.clone()),
                    }
                }
            }
        }
        let before = old.clone();
        old.set("metadata", Json::Object(entries));
        Ok(Some(old).filter(|new| *new != before))
    })
    .await
    .map(drop)
}
