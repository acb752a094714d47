//! Identifies the source data of an operation: its location and state.
//!
//! Documents are identified by their text. Chunks are identified by what the store reports without reading them: inode,
//! size and time of a file, the `ETag` of an object, the checksum of an archive entry, the location and state of a
//! reference target ([`ObjectMeta::text`](crate::store::ObjectMeta::text)). They are combined independently of order,
//! since listings have none.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{StreamExt, TryStreamExt};
use md5::{Digest, Md5};

use crate::error::{Error, ErrorKind, Result};
use crate::meta::path::join;
use crate::meta::{ArrayMeta, Json, NodeMeta, write};
use crate::num;
use crate::store::{SharedStore, StoreExt as _, md5_hex};

/// The document names.
pub(crate) const DOCUMENTS: [&str; 4] = ["zarr.json", ".zarray", ".zgroup", ".zattrs"];

/// States requested concurrently where no listing has them.
const AT_ONCE: usize = 32;

/// Nodes of a store, as the source of an operation.
pub(crate) struct NodeSource<'a> {
    store: &'a SharedStore,
    /// The common root of all nodes.
    root: &'a str,
    nodes: HashMap<&'a str, &'a NodeMeta>,
    /// Whether chunks have the keys that the metadata says.
    exact: bool,
    /// How many other objects there were when it was last listed.
    others: AtomicU64,
}

impl<'a> NodeSource<'a> {
    pub(crate) fn new(
        store: &'a SharedStore,
        root: &'a str,
        nodes: impl Iterator<Item = (&'a str, &'a NodeMeta)>,
    ) -> Self {
        Self { store, root, nodes: nodes.collect(), exact: false, others: AtomicU64::new(0) }
    }

    /// The same, where chunk keys are known to be as the metadata says: others are ignored.
    pub(crate) fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// How many objects below the root are neither documents nor chunks of the nodes; 0 if unknown.
    pub(crate) fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// The source for a journal. `name` is its address as typed.
    pub(crate) async fn json(&self, name: &str) -> Result<Json> {
        let mut source = Json::object();
        source.set("address", Json::string(public_address(name)));
        source.set("path", Json::string(self.root));
        source.set("documents", Json::string(self.documents()));
        let (chunks, times) = self.chunks().await?.map(|s| s.texts()).unzip();
        source.set("chunks", chunks.map_or(Json::Null, Json::string));
        source.set("times", times.map_or(Json::Null, Json::string));
        Ok(source)
    }

    /// Fails if the source has changed since `json` was made.
    pub(crate) async fn unchanged(&self, json: &Json) -> Result<()> {
        let was = json.get("times").and_then(Json::as_str);
        if was.is_some() && self.chunks().await?.map(|s| s.texts().1).as_deref() != was {
            return Err(Error::conflict(
                "the source was changed meanwhile, so the result would be inconsistent; it was not published",
            )
            .with_hint("overwrite", "starts over")
            .with_store(self.store));
        }
        Ok(())
    }

    /// Fails unless the documents equal those read `again`, after [`NodeSource::json`]: otherwise a concurrent change
    /// of both documents and chunks before that would go unnoticed.
    pub(crate) fn same_documents(&self, again: &NodeSource<'_>) -> Result<()> {
        if self.documents() == again.documents() {
            return Ok(());
        }
        Err(Error::conflict(
            "the metadata was changed by somebody else meanwhile; nothing was done, rerun the command",
        )
        .with_store(self.store))
    }

    /// A digest of the documents of all nodes.
    pub(crate) fn documents(&self) -> String {
        let mut nodes: Vec<(&&str, &&NodeMeta)> = self.nodes.iter().collect();
        nodes.sort_by_key(|(path, _)| **path);
        let mut text = String::new();
        for (path, meta) in nodes {
            for (name, document) in write::as_stored(meta) {
                text.push_str(&format!("{path}\n{name}\n{document}\n"));
            }
        }
        md5_hex(text.as_bytes())
    }

    /// The states of all documents and chunks; `None` if the store does not report them.
    async fn chunks(&self) -> Result<Option<States>> {
        // Some users may read objects but neither list them nor request missing ones.
        let told = |found: Result<Option<States>>| match found {
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::NotPermitted) => Ok(None),
            found => found.map_err(|e| e.within("reading the state of the source")),
        };
        match told(self.listed().await)? {
            Some(states) => Ok(Some(states)),
            None => told(self.asked().await),
        }
    }

    /// From a listing; `None` if it has no states.
    async fn listed(&self) -> Result<Option<States>> {
        if !self.store.lists_all() {
            return Ok(None);
        }
        let mut states = States::default();
        let mut others = 0u64;
        let mut keys = self.store.keys(self.root);
        while let Some(entry) = keys.try_next().await? {
            if self.holds(&entry.key) {
                let Some(state) = &entry.meta.text() else { return Ok(None) };
                states.add(&entry.key, state);
            } else if !entry.key.ends_with(".zmetadata") {
                others = others.saturating_add(1);
            }
        }
        self.others.store(others, Ordering::Relaxed);
        Ok(Some(states))
    }

    /// From a request for each possible object; `None` if not even documents, which exist, have a state.
    async fn asked(&self) -> Result<Option<States>> {
        let documents = self.nodes.keys().flat_map(|path| DOCUMENTS.iter().map(move |name| join(path, name)));
        let mut states = self.ask(documents.collect::<Vec<_>>().into_iter(), States::default()).await?;
        if states.count == 0 {
            return Ok(None);
        }
        for (path, meta) in &self.nodes {
            let NodeMeta::Array(meta) = meta else { continue };
            let counts = meta.grid.counts(&meta.shape);
            let mut at = vec![0u64; counts.len()];
            let chunks = (0..num::product(&counts)?).map(|_| {
                let key = meta.keys.key(path, &at);
                crate::codec::shard::advance(&mut at, &counts);
                key
            });
            states = self.ask(chunks, states).await?;
        }
        Ok(Some(states))
    }

    async fn ask(&self, keys: impl Iterator<Item = String> + Send, states: States) -> Result<States> {
        futures::stream::iter(keys)
            .map(|key| async move { Ok((self.store.state(&key).await?, key)) })
            .buffer_unordered(AT_ONCE)
            .try_fold(states, |mut states, (state, key)| async move {
                if let Some(state) = state {
                    states.add(&key, &state);
                }
                Ok(states)
            })
            .await
    }

    /// Whether a key is that of a document or chunk of one of the nodes.
    fn holds(&self, key: &str) -> bool {
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        if DOCUMENTS.contains(&name) && self.nodes.contains_key(folder) {
            return true;
        }
        let mut above = Some(folder);
        while let Some(path) = above {
            if let Some(NodeMeta::Array(meta)) = self.nodes.get(path) {
                let below = key.strip_prefix(path).unwrap_or(key).trim_start_matches('/');
                return is_chunk(meta, below, self.exact);
            }
            above = match path.rsplit_once('/') {
                Some((above, _)) => Some(above),
                None if path.is_empty() => None,
                None => Some(""),
            };
        }
        false
    }
}

/// Whether a key below an array is that of a chunk. Some V2 arrays use another separator than their metadata says.
fn is_chunk(meta: &ArrayMeta, below: &str, exact: bool) -> bool {
    let rank = meta.shape.len();
    let other = || meta.keys.other_separator().index(below, rank).filter(|_| !exact);
    meta.keys.index(below, rank).or_else(other).is_some()
}

/// The states of many objects, in no order.
#[derive(Debug, Default)]
struct States {
    count: u64,
    sum: u128,
    /// Of their first lines alone, which do not change without need.
    times: u128,
}

impl States {
    fn add(&mut self, key: &str, state: &str) {
        let digest = |state: &str| {
            let mut digest = Md5::new();
            digest.update(key.as_bytes());
            digest.update([0]);
            digest.update(state.as_bytes());
            u128::from_le_bytes(digest.finalize().into())
        };
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.wrapping_add(digest(state));
        self.times = self.times.wrapping_add(digest(state.lines().next().unwrap_or_default()));
    }

    /// For the journal: complete, and of the first lines.
    fn texts(&self) -> (String, String) {
        (format!("{:032x}-{}", self.sum, self.count), format!("{:032x}-{}", self.times, self.count))
    }
}

/// An address that may be recorded: without user, password and query, where signatures are. A path is made absolute.
pub(crate) fn public_address(text: &str) -> String {
    if !text.contains("://") {
        return real_path(Path::new(text)).display().to_string();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, mut after)) = rest.split_once("://") {
        out.push_str(&without_query(before, true));
        out.push_str("://");
        // In a chain such as `zip://a::https://b`, what follows `zip://` up to a slash ends with the next scheme.
        loop {
            let end = after.find(['/', '?', '#', '|']).unwrap_or(after.len());
            let (authority, tail) = after.split_at(end);
            let container = before.ends_with("abfs") || before.ends_with("abfss");
            match authority.rsplit_once('@') {
                // An Azure container, which is not secret.
                Some((user, _)) if container && !user.contains(':') => out.push_str(authority),
                Some((_, host)) => out.push_str(host),
                None => out.push_str(authority),
            }
            match tail.strip_prefix("//").filter(|_| authority.ends_with(':')) {
                Some(next) => {
                    out.push_str("//");
                    after = next;
                }
                None => {
                    rest = tail;
                    break;
                }
            }
        }
    }
    out.push_str(&without_query(rest, false));
    out
}

/// Removes the query: from `?` to the end, a viewer suffix (`|`), or the scheme of the next address of a chain (`::`).
fn without_query(text: &str, chained: bool) -> String {
    let Some((before, query)) = text.split_once('?') else { return text.to_owned() };
    let ends = if chained { query.rfind("::") } else { query.find('|') };
    let after = ends.and_then(|at| query.get(at..)).unwrap_or_default();
    format!("{before}{after}")
}

/// The path with symlinks resolved, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in whole.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return match whole.strip_prefix(above) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => whole.clone(),
            };
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_of_addresses() {
        for (typed, public) in [
            ("https://user:word@h:81/a/b.zarr?X-Amz-Signature=s", "https://h:81/a/b.zarr"),
            ("https://user@h/a", "https://h/a"),
            ("zip+https://u:p@h/a.zip?sig=x|zarr3:", "zip+https://h/a.zip|zarr3:"),
            ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
            (
                "abfs://container@account.dfs.core.windows.net/a?sig=x",
                "abfs://container@account.dfs.core.windows.net/a",
            ),
            ("zip://x::https://u:p@h/a?t=1", "zip://x::https://h/a"),
            ("manifest+https://u:p@h/m.json?t", "manifest+https://h/m.json"),
            ("https://h?token=x", "https://h"),
            ("https://u:a::b@h/x?q::https://u:p@i/y?t", "https://h/x::https://i/y"),
            ("http://u:p@[::1]:80/a?t", "http://[::1]:80/a"),
        ] {
            assert_eq!(public_address(typed), public, "{typed}");
        }
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(public_address("no/such.zarr"), here.join("no/such.zarr").display().to_string());
        assert_eq!(public_address("src/../src"), here.join("src").display().to_string());
    }

    #[test]
    fn states_have_no_order_but_every_change_shows() {
        let of = |all: &[(&str, &str)]| {
            let mut states = States::default();
            all.iter().for_each(|(key, state)| states.add(key, state));
            states.texts()
        };
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        for other in [&[("a", "2"), ("b", "1")][..], &[("a", "1")], &[("a", "1"), ("b", "2"), ("c", "")]] {
            assert_ne!(of(&[("a", "1"), ("b", "2")]), of(other));
        }
        let (one, other) = (of(&[("a", "1\n2")]), of(&[("a", "1\n3")]));
        assert!(one.0 != other.0 && one.1 == other.1, "the number of a file may change without need");
    }
}
