//! Which objects a Zarr is made of.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Node, Zarr};
use crate::codec::shard::advance;
use crate::error::{ErrorKind, Result};
use crate::meta::path::join;
use crate::meta::{ArrayMeta, Format, NodeMeta};
use crate::num;
use crate::store::KeyEntry;
use crate::store::StoreExt as _;

/// Objects that are looked for at once.
const AT_ONCE: usize = 32;

impl Zarr {
    /// Every object below `path`, whose nodes are `nodes`: documents, chunks, and what else lies there.
    ///
    /// Where the listings of the store are whole, they tell. Elsewhere each document and each chunk that there may be is
    /// looked for, and listings only tell of other files; a folder of a group that cannot be listed is an error then.
    pub(crate) async fn stored(&self, path: &str, nodes: &[Node]) -> Result<Vec<KeyEntry>> {
        if self.store.lists_all() {
            return self.store.keys(path).try_collect().await;
        }
        let mut keys: Vec<String> = Vec::new();
        let mut arrays = BTreeMap::new();
        for node in nodes {
            let names: &[&str] = match (node.meta.format(), &node.meta) {
                (Format::V3, _) => &["zarr.json"],
                (Format::V2, NodeMeta::Array(_)) => &[".zarray", ".zattrs"],
                (Format::V2, NodeMeta::Group(_)) => &[".zgroup", ".zattrs"],
            };
            keys.extend(names.iter().map(|name| join(&node.path, name)));
            if let NodeMeta::Array(meta) = &node.meta {
                arrays.insert(node.path.as_str(), meta);
            }
        }
        keys.extend(self.other_files(path, |folder| arrays.contains_key(folder)).await?);
        keys.sort();
        keys.dedup();
        let mut found = self.sizes(keys.into_iter()).await?;
        for (path, meta) in arrays {
            found.extend(self.sizes(chunk_keys(path, meta)?).await?);
        }
        Ok(found)
    }

    /// Those of `keys` that exist, with their sizes.
    async fn sizes(&self, keys: impl Iterator<Item = String>) -> Result<Vec<KeyEntry>> {
        let looked = stream::iter(keys)
            .map(|key| async move { Ok(self.store.stat(&key).await?.map(|meta| KeyEntry::new(key, meta))) });
        looked.buffered(AT_ONCE).try_filter_map(|entry| async { Ok(entry) }).try_collect().await
    }

    /// The keys that listings name outside of arrays; none if the store shows no listing at `path`.
    ///
    /// # Errors
    /// `Unsupported`, with its name, for a folder below that the store does not list.
    pub(crate) async fn other_files(
        &self,
        path: &str,
        is_array: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut open = vec![path.to_owned()];
        while let Some(folder) = open.pop() {
            let listing = match self.store.list(&folder).await {
                Err(e) if e.kind() == ErrorKind::Unsupported && folder == path => return Ok(Vec::new()),
                listing => listing?,
            };
            let below = |name: &String| join(&folder, name);
            found.extend(listing.objects.iter().map(below));
            open.extend(listing.prefixes.iter().map(below).filter(|f| !is_array(f)));
        }
        Ok(found)
    }
}

/// The keys of all chunks that the array at `path` may have.
fn chunk_keys(path: &str, meta: &ArrayMeta) -> Result<impl Iterator<Item = String>> {
    let counts = meta.grid.counts(&meta.shape);
    let mut left = num::product(&counts)?;
    let mut at = vec![0u64; counts.len()];
    Ok(std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let key = meta.keys.key(path, &at);
        advance(&mut at, &counts);
        Some(key)
    }))
}
