//! A wrapper in which a new node is created before it becomes visible to others.

use std::cmp::Ordering;
use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::error::{Error, Result};
use crate::store::memory::MemoryStore;
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, Entry, GetOptions, JOURNAL, ListOptions, Object, ObjectMeta,
    ObjectStream, Origin, Put, SharedStore, Store, StoreExt as _,
};

/// The documents that make a folder a node.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// How many documents are put concurrently.
const PUTS_AT_ONCE: usize = 16;

/// A store whose root becomes a node only for its holder: the documents of the root, and optionally of the nodes below
/// it, are kept in memory, and everything else goes straight to the inner store.
///
/// It starts without documents and without a journal, whatever the inner store has. Once the node is complete, its
/// creator reads the documents here and puts them where others see them.
#[derive(Debug)]
pub struct WithholdStore {
    inner: SharedStore,
    held: MemoryStore,
    /// Whether the documents of nodes below the root are withheld, too.
    all: bool,
}

impl WithholdStore {
    /// Wraps a store whose root is to become a node.
    #[must_use]
    pub fn new(inner: SharedStore) -> Self {
        Self { inner, held: MemoryStore::new(), all: false }
    }

    /// The same, withholding the documents of all nodes below the root until they are [released](Self::release).
    #[must_use]
    pub fn all(inner: SharedStore) -> Self {
        Self { all: true, ..Self::new(inner) }
    }

    /// Puts the documents of nodes below the root into the inner store.
    pub async fn release(&self) -> Result<()> {
        let below = self.held.keys("").try_filter(|entry| std::future::ready(entry.key.contains('/')));
        below
            .map_ok(|entry| async move {
                let Some(document) = self.held.get(&entry.key, None).await? else { return Ok(()) };
                self.inner.put(&entry.key, document, Condition::Always).await.map(drop)
            })
            .try_buffer_unordered(PUTS_AT_ONCE)
            .try_collect()
            .await
    }

    /// Whether a key is withheld.
    fn holds(&self, key: &str) -> bool {
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        key == JOURNAL || DOCUMENTS.contains(&name) && (self.all || folder.is_empty())
    }

    /// The store of a key.
    fn of(&self, key: &str) -> &dyn Store {
        if self.holds(key) { &self.held } else { &*self.inner }
    }

    fn direct_of(&self, key: &str) -> Result<&dyn Direct> {
        self.of(key)
            .direct()
            .ok_or_else(|| Error::io("direct access to the store was lost").with_store(&self.inner))
    }
}

impl fmt::Display for WithholdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for WithholdStore {
    forward! {
        facts finish sites free_space
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.of(key).get_opts(key, options).await
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        self.of(key).get_stream(key, options).await
    }

    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        self.of(key).get_ranges(key, ranges, state).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.of(key).stat(key).await
    }

    /// Merges the few withheld entries into the listing in order.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let others = self.inner.list_opts(prefix, options).try_filter(|entry| {
            std::future::ready(matches!(entry, Entry::Prefix(_)) || !self.holds(entry.path()))
        });
        let held = self.held.list_opts(prefix, options).peekable();
        let merged =
            futures::stream::unfold((others.peekable(), held), |(mut others, mut held)| async move {
                let order = match (Pin::new(&mut others).peek().await, Pin::new(&mut held).peek().await) {
                    (Some(Ok(other)), Some(Ok(held))) => other.order(held),
                    (_, None) | (Some(Err(_)), _) => Ordering::Less,
                    (None, Some(_)) | (_, Some(Err(_))) => Ordering::Greater,
                };
                let next = match order {
                    Ordering::Less => others.next().await,
                    Ordering::Greater => held.next().await,
                    // A folder in both.
                    Ordering::Equal => others.next().await.and(held.next().await),
                };
                next.map(|entry| (entry, (others, held)))
            });
        merged.boxed()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.of(key).put(key, value, when).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.of(key).delete(key).await
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        self.of(key).delete_unchanged(key, state).await
    }

    /// Except the root: its owner is not known here.
    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        match prefix {
            "" => {
                Err(Error::unsupported("a node under construction cannot be deleted as a whole")
                    .with_store(self))
            }
            _ => {
                self.held.delete_prefix(prefix).await?;
                self.inner.delete_prefix(prefix).await
            }
        }
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        match (self.holds(from), self.holds(to)) {
            (false, false) => self.inner.copy_object(from, to).await,
            _ => Err(Error::unsupported("a withheld document cannot be copied")
                .with_key(from)
                .with_store(self)),
        }
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let _ = (prefix, inner);
        Ok(false)
    }

    fn origin(&self, key: &str) -> Option<Origin> {
        self.of(key).origin(key)
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Direct for WithholdStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        self.direct_of(key)?.open(key)
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        self.direct_of(key)?.put(key, parts, when)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.direct_of(key)?.delete(key)
    }
}
