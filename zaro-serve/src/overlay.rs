//! A store with changes that are kept in memory: whoever writes to it changes nothing below.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use zaro::store::{
    Condition, Entry, GetOptions, KeyEntry, ListOptions, Object, ObjectMeta, ObjectStream, Put, RemoteMeta,
    SharedStore, Store, StoreExt as _, StoreFacts,
};
use zaro::{Error, Result};

use crate::answer::hash_tag;

/// The change of one key.
#[derive(Debug, Clone)]
enum Change {
    /// It has these bytes.
    Put(Bytes),
    /// It has the bytes of another key of the store below.
    Alias(String),
    /// It is not there.
    Deleted,
}

/// A store over another. Documents are few and small; objects that are copied are not held, only named.
#[derive(Debug)]
pub(crate) struct OverlayStore {
    inner: SharedStore,
    changes: RwLock<BTreeMap<String, Change>>,
}

impl OverlayStore {
    /// No change yet.
    pub(crate) fn new(inner: SharedStore) -> Self {
        Self { inner, changes: RwLock::default() }
    }

    fn changes(&self) -> RwLockReadGuard<'_, BTreeMap<String, Change>> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Change>> {
        self.changes.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, key: &str) -> Option<Change> {
        self.changes().get(key).cloned()
    }

    /// The entries directly or anywhere below a prefix that were put here, in order.
    fn put_below(&self, prefix: &str, options: &ListOptions) -> Vec<Entry> {
        let start = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut out: Vec<Entry> = Vec::new();
        for (key, change) in self.changes().range(start.clone()..) {
            let Some(rest) = key.strip_prefix(&start) else { break };
            let entry = match (change, rest.split_once('/').filter(|_| !options.recursive)) {
                (Change::Deleted, _) => continue,
                (_, Some((folder, _))) => Entry::Prefix(format!("{start}{folder}")),
                (Change::Put(bytes), None) => Entry::Object(KeyEntry::new(key.clone(), meta_of(bytes))),
                (Change::Alias(_), None) => Entry::Object(KeyEntry::new(key.clone(), ObjectMeta::Unknown)),
            };
            let is_past = options.after.as_ref().is_some_and(|after| entry.cursor() <= *after);
            if !is_past && out.last() != Some(&entry) {
                out.push(entry);
            }
        }
        out.sort_by_key(Entry::cursor);
        out
    }
}

/// What is known of bytes that were put here.
fn meta_of(bytes: &Bytes) -> ObjectMeta {
    let text = String::from_utf8_lossy(bytes);
    RemoteMeta {
        etag: Some(hash_tag(&["document", &text])),
        size: u64::try_from(bytes.len()).ok(),
        ..RemoteMeta::default()
    }
    .into()
}

/// The part of `bytes` that was asked for.
fn slice(bytes: &Bytes, options: &GetOptions<'_>) -> Result<Object> {
    let meta = meta_of(bytes);
    meta.check(options.state)?;
    let Some(range) = options.range else { return Ok(Object { bytes: bytes.clone(), meta }) };
    let (offset, length) = range.resolve(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    let at = |n: u64| usize::try_from(n).map_err(|_| Error::invalid("the range is too large"));
    let start = at(offset)?;
    Ok(Object { bytes: bytes.slice(start..start.saturating_add(at(length)?)), meta })
}

impl fmt::Display for OverlayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Store for OverlayStore {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        match self.change(key) {
            None => self.inner.get_opts(key, options).await,
            Some(Change::Alias(of)) => self.inner.get_opts(&of, options).await,
            Some(Change::Deleted) => Ok(None),
            Some(Change::Put(bytes)) => slice(&bytes, &options).map(Some),
        }
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        match self.change(key) {
            None => self.inner.get_stream(key, options).await,
            Some(Change::Alias(of)) => self.inner.get_stream(&of, options).await,
            Some(Change::Deleted) => Ok(None),
            Some(Change::Put(bytes)) => {
                let object = slice(&bytes, &options)?;
                let body = stream::iter([Ok(object.bytes)]).boxed();
                Ok(Some(ObjectStream { meta: object.meta, range: None, body }))
            }
        }
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        match self.change(key) {
            None => self.inner.stat(key).await,
            Some(Change::Alias(of)) => self.inner.stat(&of).await,
            Some(Change::Deleted) => Ok(None),
            Some(Change::Put(bytes)) => Ok(Some(meta_of(&bytes))),
        }
    }

    /// The listing below, without what was deleted or replaced, merged in order with what was put. A folder below stays,
    /// though everything in it may be deleted.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let put = stream::iter(self.put_below(prefix, options)).peekable();
        let below = self.inner.list_opts(prefix, options).try_filter(|entry| {
            let changed = matches!(entry, Entry::Object(_)) && self.changes().contains_key(entry.path());
            std::future::ready(!changed)
        });
        let merged = stream::unfold((below.peekable(), put), |(mut below, mut put)| async move {
            let order = match (Pin::new(&mut below).peek().await, Pin::new(&mut put).peek().await) {
                (Some(Ok(one)), Some(other)) => one.cursor().cmp(&other.cursor()),
                (Some(_), _) | (None, None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let next = match order {
                Ordering::Less => below.next().await,
                Ordering::Greater => put.next().await.map(Ok),
                // A folder in both.
                Ordering::Equal => put.next().await.and(below.next().await),
            };
            next.map(|entry| (entry, (below, put)))
        });
        merged.boxed()
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { is_writable: true, ..self.inner.facts() }
    }

    /// Only one writer at a time uses an overlay, so that looking first is enough.
    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let holds = match when {
            Condition::Always => true,
            Condition::Absent => self.stat(key).await?.is_none(),
            Condition::Unchanged(state) => self.stat(key).await?.is_some_and(|now| now.agrees(&state)),
        };
        if !holds {
            return Ok(Put::Refused);
        }
        self.changing().insert(key.to_owned(), Change::Put(value));
        Ok(Put::Done)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.changing().insert(key.to_owned(), Change::Deleted);
        Ok(())
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        match self.stat(key).await? {
            Some(now) if now.agrees(state) => self.delete(key).await.map(|()| Put::Done),
            _ => Ok(Put::Refused),
        }
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let keys: Vec<String> = self.keys(prefix).map_ok(|entry| entry.key).try_collect().await?;
        self.changing().extend(keys.into_iter().map(|key| (key, Change::Deleted)));
        Ok(())
    }

    /// Copies nothing: the new key stands for the old one.
    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let change = match self.change(from) {
            Some(Change::Deleted) => return Err(Error::io("the object to copy does not exist").within(from)),
            Some(change) => change,
            None => Change::Alias(from.to_owned()),
        };
        self.changing().insert(to.to_owned(), change);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use zaro::store::MemoryStore;

    #[tokio::test]
    async fn changes_are_seen_above_and_not_below() {
        let below = Arc::new(MemoryStore::new());
        for key in ["a/zarr.json", "a/c/0", "a/c/1", "b"] {
            MemoryStore::put(&below, key, key.to_owned()).unwrap();
        }
        let inner: SharedStore = below.clone();
        let store = OverlayStore::new(inner.clone());
        for (key, text, when) in
            [("a/zarr.json", "new", Condition::Always), ("a/.zattrs", "{}", Condition::Absent)]
        {
            assert!(store.put(key, Bytes::from(text), when).await.unwrap().is_done());
        }
        store.delete("b").await.unwrap();
        store.copy_object("a/c/0", "labels/c/0").await.unwrap();
        assert!(!store.put("a/c/1", Bytes::new(), Condition::Absent).await.unwrap().is_done());
        let names = |store: &dyn Store, prefix: &str, recursive: bool| {
            let options = ListOptions::default().with_recursive(recursive);
            let entries: Vec<Result<Entry>> =
                futures::executor::block_on_stream(store.list_opts(prefix, &options)).collect();
            entries.into_iter().map(|e| e.unwrap().cursor()).collect::<Vec<_>>()
        };
        assert_eq!(names(&store, "", false), ["a/", "labels/"]);
        assert_eq!(names(&store, "a", false), ["a/.zattrs", "a/c/", "a/zarr.json"]);
        assert_eq!(names(&store, "", true), ["a/.zattrs", "a/c/0", "a/c/1", "a/zarr.json", "labels/c/0"]);
        assert_eq!(names(&*inner, "", true), ["a/c/0", "a/c/1", "a/zarr.json", "b"]);
        assert_eq!(store.get("labels/c/0", None).await.unwrap().unwrap(), "a/c/0");
        assert_eq!(store.get("a/zarr.json", None).await.unwrap().unwrap(), "new");
        assert!(store.get("b", None).await.unwrap().is_none());
        let (bytes, state) = store.get_for_update("a/zarr.json").await.unwrap().unwrap();
        assert_eq!(bytes, "new");
        assert!(store.put("a/zarr.json", bytes, Condition::Unchanged(state)).await.unwrap().is_done());
        store.delete_prefix("a").await.unwrap();
        assert_eq!(names(&store, "", true), ["labels/c/0"]);
    }
}
