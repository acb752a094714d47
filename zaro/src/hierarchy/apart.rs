//! Checks that source and destination are different places.
//!
//! Replacing a place first deletes what is there. If the source is the same place, inside or around it, or has
//! references or symlinks that lead into it, that would delete the source. Addresses do not tell: places are compared
//! as the opened stores know them ([`Store::sites`](crate::store::Store::sites)). Servers can have several names, so if
//! the source is remote a small object is put into the destination, and must not appear in the source.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use futures::TryStreamExt;

use super::Existing;
use super::delete::{PROBE, prove};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::path::{join, shown};
use crate::store::{Condition, Listing, Relation, SharedStore, Site, StoreExt as _};

/// The documents that make a folder a node.
const NODES: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// Fails if `from` of `source` and the new `to` of `store` are the same or nested places. `nodes` are the paths of what
/// is read below `from`.
#[boxed]
pub async fn check_apart(
    source: &SharedStore,
    from: &str,
    nodes: &[String],
    store: &SharedStore,
    to: &str,
    existing: Existing,
) -> Result<()> {
    let refusal = || {
        Error::usage("source and destination are the same or nested; name another destination")
            .with_node(shown(to))
            .with_store(store)
    };
    let Some(own) = store.sites(to).try_next().await? else { return Ok(()) };
    let there = store.list(to).await? != Listing::default();
    let mut sites = source.sites(from);
    while let Some(site) = sites.try_next().await? {
        if site.relation(&own) != Relation::Apart {
            return Err(refusal());
        }
        // In an empty place, there are no symlinks and references.
        if !there {
            return Ok(());
        }
    }
    if there && existing == Existing::Replace && source.is_remote() {
        let probe = Probe { source, from, nodes, store, to };
        if probe.finds_itself().await? {
            return Err(refusal());
        }
    }
    Ok(())
}

/// Fails if a source file is inside the new `to` of `store`.
#[boxed]
pub async fn check_files_apart(files: &[std::path::PathBuf], store: &SharedStore, to: &str) -> Result<()> {
    let Some(own) = store.sites(to).try_next().await? else { return Ok(()) };
    for file in files {
        if Site::file(file)?.relation(&own) != Relation::Apart {
            return Err(Error::usage(format!(
                "{} lies in what is to be written; name another destination",
                file.display()
            ))
            .with_node(shown(to))
            .with_store(store));
        }
    }
    Ok(())
}

/// Checks with a probe object whether two stores are the same.
struct Probe<'a> {
    source: &'a SharedStore,
    from: &'a str,
    nodes: &'a [String],
    store: &'a SharedStore,
    to: &'a str,
}

impl Probe<'_> {
    /// Whether the destination, or a part of either, appears in the source. Only nodes with identical documents can be
    /// the same, so usually nothing is put.
    async fn finds_itself(&self) -> Result<bool> {
        let there = prove(self.store, self.to).await?;
        let root = document(self.source, self.from).await?;
        for (path, _) in there.nodes.iter().filter(|(_, d)| Some(d) == root.as_ref()) {
            if self.is_seen(path, self.from).await? {
                return Ok(true);
            }
        }
        let Some((_, own)) = there.nodes.iter().find(|(path, _)| path == self.to) else { return Ok(false) };
        for node in self.nodes.iter().filter(|n| *n != self.from) {
            if document(self.source, node).await?.as_ref() == Some(own) && self.is_seen(self.to, node).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an object put into the folder `into` of the destination appears in the folder `node` of the source.
    async fn is_seen(&self, into: &str, node: &str) -> Result<bool> {
        let name = format!("{PROBE}{:016x}.json", RandomState::new().hash_one(into));
        let text = Bytes::from(format!("{{\"probe\": \"{name}\"}}\n"));
        let key = join(into, &name);
        let _ = self.store.put(&key, text.clone(), Condition::Always).await?;
        let seen = self.source.get(&join(node, &name), None).await;
        self.store.delete(&key).await?;
        match seen {
            Ok(seen) => Ok(seen == Some(text)),
            // Some servers answer this for missing keys.
            Err(e) if e.kind() == ErrorKind::NotPermitted => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The document that makes `path` a node.
async fn document(store: &SharedStore, path: &str) -> Result<Option<Bytes>> {
    for name in NODES {
        if let Some(text) = store.get(&join(path, name), None).await? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}
