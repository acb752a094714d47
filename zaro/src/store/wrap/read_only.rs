//! A store that nobody can change through this door.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::{Error, Result};
use crate::store::{
    Ask, ByteRange, Condition, Direct, DirectObject, KeyEntry, Listing, ObjectState, Pin, Put, SharedStore,
    Site, Store, Tag,
};

/// Reads as `inner` does, and refuses every put and delete with [`NotPermitted`](crate::ErrorKind::NotPermitted).
#[derive(Debug, Clone)]
pub struct ReadOnlyStore {
    inner: SharedStore,
}

impl ReadOnlyStore {
    /// `inner`, safe from changes.
    #[must_use]
    pub fn new(inner: SharedStore) -> Self {
        Self { inner }
    }

    fn refusal(&self, key: &str) -> Error {
        Error::not_permitted("the store was opened for reading only").with_key(key).with_store(self)
    }
}

impl fmt::Display for ReadOnlyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for ReadOnlyStore {
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        self.inner.get(key, range).await
    }

    async fn get_with(&self, key: &str, ask: Ask<'_>) -> Result<Option<(Bytes, ObjectState)>> {
        self.inner.get_with(key, ask).await
    }

    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        of: Option<&ObjectState>,
    ) -> Result<Option<(Vec<Bytes>, ObjectState)>> {
        self.inner.get_ranges(key, ranges, of).await
    }

    async fn get_pinned(&self, key: &str, range: Option<ByteRange>, pin: &Pin) -> Result<Option<Bytes>> {
        self.inner.get_pinned(key, range, pin).await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.inner.size(key).await
    }

    async fn state(&self, key: &str) -> Result<Option<String>> {
        self.inner.state(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        self.inner.list(prefix).await
    }

    fn keys(&self, prefix: &str) -> BoxStream<'_, Result<KeyEntry>> {
        self.inner.keys(prefix)
    }

    fn lists_all(&self) -> bool {
        self.inner.lists_all()
    }

    fn is_writable(&self) -> bool {
        false
    }

    async fn put(&self, key: &str, _: Bytes, _: Condition) -> Result<Put> {
        Err(self.refusal(key))
    }

    async fn get_tagged(&self, key: &str) -> Result<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        Err(self.refusal(key))
    }

    async fn delete_unchanged(&self, key: &str, tag: &Tag) -> Result<Put> {
        let _ = tag;
        Err(self.refusal(key))
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        Err(self.refusal(prefix))
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(self.refusal(from))
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let _ = inner;
        Err(self.refusal(prefix))
    }

    /// Nothing was put, so nothing is left to do.
    async fn finish(&self) -> Result<()> {
        Ok(())
    }

    fn origin(&self, key: &str) -> Option<String> {
        self.inner.origin(key)
    }

    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        self.inner.sites(prefix)
    }

    fn free_space(&self) -> Option<u64> {
        self.inner.free_space()
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Direct for ReadOnlyStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.inner.direct() {
            Some(direct) => direct.open(key),
            None => Err(Error::io("the store is no longer at hand").with_store(self)),
        }
    }

    fn put(&self, key: &str, _: &[&[u8]], _: &Condition) -> Result<Put> {
        Err(self.refusal(key))
    }

    fn delete(&self, key: &str) -> Result<()> {
        Err(self.refusal(key))
    }
}
