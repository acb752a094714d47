//! Changing a hierarchy in place: puts and deletes documents, and moves chunks to other keys.
//!
//! Such a change keeps a [journal](crate::journal). Chunks that cannot stay are first copied to their new keys, beside
//! the old ones; no document refers to them yet. Then the journal gets the list of everything to put and delete, so
//! that it can be finished from that alone: new documents are put from the leaves to the root and read back; the
//! journal records that they are verified; and only then are old documents deleted, the root's first, and chunks with
//! old keys. As long as nothing is deleted, and no old document overwritten, it can be undone.

use std::collections::HashSet;

use futures::TryStreamExt;

use super::{consolidate_above, text};
use crate::error::{Error, ErrorKind, Result};
use crate::journal::Journal;
use crate::meta::path::join;
use crate::meta::{ChunkKeys, Json};
use crate::num;
use crate::store::{Condition, SharedStore, StoreExt as _};
use crate::task;

/// Documents or chunks in flight.
const AT_ONCE: usize = 16;

/// Only these names are put or deleted.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// The change in a journal, once the new chunks are there.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingChange {
    /// The new documents, the root's last.
    pub(crate) put: Vec<(String, Json)>,
    /// The keys of the old documents, the root's first.
    pub(crate) delete: Vec<String>,
    /// Chunks that are obsolete in the end.
    pub(crate) chunks: Vec<Chunks>,
}

impl PendingChange {
    /// Its fields in a journal.
    pub(crate) fn members(&self) -> [(&'static str, Json); 3] {
        let put = |(key, document): &(String, Json)| {
            Json::from([("key", key.into()), ("document", document.clone())])
        };
        [
            ("delete", self.delete.iter().map(Json::string).collect()),
            ("chunks", self.chunks.iter().map(Chunks::json).collect()),
            ("put", self.put.iter().map(put).collect()),
        ]
    }

    /// The change with the fields of `json`. Whatever they are, only documents below `root` are put and deleted by
    /// name.
    pub(crate) fn parse(json: &Json, root: &str) -> Option<Self> {
        let inside = |key: &str| {
            key.strip_prefix(root)
                .is_some_and(|rest| root.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        let document = |key: &str| {
            let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
            (inside(key) && DOCUMENTS.contains(&name)).then(|| key.to_owned())
        };
        let put = |item: &Json| Some((document(item.get("key")?.as_str()?)?, item.get("document")?.clone()));
        let chunks = |item: &Json| Chunks::parse(item).filter(|chunks| inside(&chunks.path));
        let change = Self {
            put: json.get("put")?.items()?.iter().map(put).collect::<Option<_>>()?,
            delete: json
                .get("delete")?
                .items()?
                .iter()
                .map(|k| document(k.as_str()?))
                .collect::<Option<_>>()?,
            // Written by conversions up to 0.1.
            chunks: match json.get("chunks").or_else(|| json.get("moved")) {
                Some(all) => all.items()?.iter().map(chunks).collect::<Option<_>>()?,
                None => Vec::new(),
            },
        };
        let kept: HashSet<&String> = change.put.iter().map(|(key, _)| key).collect();
        (!change.delete.iter().any(|key| kept.contains(key))).then_some(change)
    }

    /// Puts the new documents and reads them back, unless that was done before.
    pub(crate) async fn put(&self, store: &SharedStore, journal: &Journal) -> Result<()> {
        if journal.get("proved").is_some() {
            return Ok(());
        }
        for (key, document) in &self.put {
            journal.beat().await?;
            let _ = store.put(key, text(document), Condition::Always).await?;
        }
        task::each(AT_ONCE, &self.put, |(key, document)| async move {
            journal.beat().await?;
            match store.get(key, None).await?.map(|bytes| Json::parse(&bytes)).transpose()? {
                Some(found) if found.value == *document => Ok(()),
                _ => Err(Error::invalid("the document read back differs from what was put").with_key(key)),
            }
        })
        .await
    }

    /// Deletes what is no longer needed, and then the journal.
    pub(crate) async fn finish(&self, store: &SharedStore, root: &str, journal: Journal) -> Result<()> {
        if journal.get("proved").is_none() {
            journal.set("proved", Json::Bool(true)).await?;
        }
        for key in &self.delete {
            journal.beat().await?;
            store.delete(key).await?;
        }
        for chunks in &self.chunks {
            journal.beat().await?;
            chunks.delete(store).await?;
        }
        match consolidate_above(store, root).await {
            // Groups above with nodes of both versions stay as they are.
            Err(e) if e.kind() != ErrorKind::Unsupported => return Err(e),
            _ => {}
        }
        journal.end().await?;
        store.finish().await
    }

    /// Deletes the new documents, the root's first, then the chunks that were `brought`, and then the journal. Nothing
    /// else was changed yet.
    pub(crate) async fn undo(&self, store: &SharedStore, brought: &[Chunks], journal: Journal) -> Result<()> {
        for (key, document) in self.put.iter().rev() {
            journal.beat().await?;
            let found = store.get(key, None).await?;
            if let Some(found) = found
                && Json::parse(&found)?.value != *document
            {
                return Err(Error::conflict(
                    "this document belongs to an unfinished conversion and was changed since; delete it, or \
                     finish the conversion",
                )
                .with_key(key));
            }
            // If it does not exist, the temporary file of a killed put may be left.
            store.delete(key).await?;
        }
        for chunks in brought {
            journal.beat().await?;
            chunks.delete(store).await?;
        }
        journal.end().await
    }
}

/// The chunks of an array with one key encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// The path of their array from the root of the store.
    pub(crate) path: String,
    pub(crate) keys: ChunkKeys,
    pub(crate) rank: usize,
}

impl Chunks {
    fn json(&self) -> Json {
        Json::from([
            ("path", (&self.path).into()),
            ("prefixed", self.keys.prefixed.into()),
            ("separator", self.keys.separator.to_string().into()),
            ("rank", self.rank.into()),
        ])
    }

    fn parse(json: &Json) -> Option<Self> {
        let keys = ChunkKeys {
            prefixed: json.get("prefixed")?.as_bool()?,
            separator: json.get("separator")?.as_str()?.chars().next()?,
        };
        let rank = num::usize_of(json.get("rank")?.as_u64()?).ok()?;
        Some(Self { path: json.get("path")?.as_str()?.to_owned(), keys, rank })
    }

    /// Deletes them, but not those with another key encoding.
    async fn delete(&self, store: &SharedStore) -> Result<()> {
        let Self { path, keys, rank } = self;
        let mut old = Vec::new();
        let mut all = store.keys(path);
        while let Some(entry) = all.try_next().await? {
            let below = entry.key.strip_prefix(path.as_str()).unwrap_or_default().trim_start_matches('/');
            if keys.index(below, *rank).is_some() {
                old.push(entry.key);
            }
        }
        task::each(AT_ONCE, old, |key| async move { store.delete(&key).await }).await?;
        // A kill after the last chunk, and before its folder was removed, leaves that.
        for name in store.list(path).await?.prefixes {
            let theirs = if keys.prefixed { name == "c" } else { name.parse::<u64>().is_ok() };
            let folder = join(path, &name);
            if theirs && store.keys(&folder).try_next().await?.is_none() {
                store.delete_prefix(&folder).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(put: &str, delete: &str, more: &str) -> Option<PendingChange> {
        let put = format!(r#"[{{"key": "{put}", "document": {{"zarr_format": 2}}}}]"#);
        let text = format!(r#"{{"zarr_format": 2, "nodes": 1, "put": {put}, "delete": ["{delete}"]{more}}}"#);
        PendingChange::parse(&Json::parse(text.as_bytes()).unwrap().value, "g")
    }

    #[test]
    fn what_a_journal_says_is_read_whoever_wrote_it_and_only_documents_below_are_touched() {
        let chunks = r#"[{"path": "g/a", "prefixed": true, "separator": "/", "rank": 2}]"#;
        for name in ["chunks", "moved"] {
            let change = parsed("g/.zgroup", "g/zarr.json", &format!(r#", "{name}": {chunks}"#)).unwrap();
            assert_eq!(change.chunks.len(), 1);
            let again: Vec<(&str, Json)> = change.members().into();
            let json = Json::Object(again.into_iter().map(|(n, v)| (n.to_owned(), v)).collect());
            let again = PendingChange::parse(&json, "g").unwrap();
            assert_eq!((again.put, again.delete, again.chunks), (change.put, change.delete, change.chunks));
        }
        assert!(parsed("g/.zgroup", "g/zarr.json", "").is_some());
        for (put, delete) in [
            ("g/.zgroup", "g/.zgroup"),
            ("g/c/0", "g/zarr.json"),
            ("g/.zgroup", "g/c/0"),
            ("gg/.zgroup", "g/zarr.json"),
            ("g/.zgroup", "zarr.json"),
        ] {
            assert!(parsed(put, delete, "").is_none(), "{put} {delete}");
        }
        assert!(parsed("g/.zgroup", "g/zarr.json", r#", "chunks": [{"path": "h/a"}]"#).is_none());
    }
}
