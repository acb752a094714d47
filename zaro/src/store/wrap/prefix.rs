//! A wrapper for the part of a store below a prefix.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};

use crate::error::{Error, Result};
use crate::store::list::failed;
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, Entry, GetOptions, ListOptions, Object, ObjectMeta,
    ObjectStream, Origin, Put, SharedStore, Site, Store, check_key, check_prefix, join,
};

/// The part of a store below a prefix, as a store.
#[derive(Debug, Clone)]
pub struct PrefixStore {
    inner: SharedStore,
    prefix: String,
}

impl PrefixStore {
    /// The part of `inner` below `prefix`, which is `""` or a valid key.
    pub fn new(inner: SharedStore, prefix: &str) -> Result<Self> {
        check_prefix(prefix)?;
        Ok(Self { inner, prefix: prefix.to_owned() })
    }

    fn full(&self, key: &str) -> Result<String> {
        check_key(key)?;
        Ok(join(&self.prefix, key))
    }

    /// The same for a prefix, which may be `""`.
    fn full_prefix(&self, prefix: &str) -> Result<String> {
        if prefix.is_empty() { Ok(self.prefix.clone()) } else { self.full(prefix) }
    }
}

impl fmt::Display for PrefixStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix.is_empty() { self.inner.fmt(f) } else { write!(f, "{}/{}", self.inner, self.prefix) }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for PrefixStore {
    forward! {
        facts finish free_space
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.inner.get_opts(&self.full(key)?, options).await
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        self.inner.get_stream(&self.full(key)?, options).await
    }

    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        self.inner.get_ranges(&self.full(key)?, ranges, state).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.inner.stat(&self.full(key)?).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let full = match self.full_prefix(prefix) {
            Ok(full) => full,
            Err(e) => return failed(e),
        };
        let after = options.after.as_ref().map(|after| join(&self.prefix, after));
        let skip = join(&self.prefix, "").len();
        let entries = self.inner.list_opts(&full, &ListOptions { after, ..options.clone() });
        let below = move |entry: Entry| match entry.path().get(skip..).map(str::to_owned) {
            Some(rest) => Ok(entry.moved(rest)),
            None => Err(Error::io("a listing returned a key outside its prefix").with_key(entry.path())),
        };
        entries.map(move |entry| entry.and_then(below)).boxed()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.inner.put(&self.full(key)?, value, when).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.inner.delete(&self.full(key)?).await
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        self.inner.delete_unchanged(&self.full(key)?, state).await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.inner.delete_prefix(&self.full_prefix(prefix)?).await
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        self.inner.copy_object(&self.full(from)?, &self.full(to)?).await
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        check_key(inner)?;
        self.inner.promote(&self.full_prefix(prefix)?, inner).await
    }

    fn origin(&self, key: &str) -> Option<Origin> {
        self.full(key).ok().and_then(|key| self.inner.origin(&key))
    }

    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        match self.full_prefix(prefix) {
            Ok(full) => self.inner.sites(&full),
            Err(e) => futures::stream::iter([Err(e)]).boxed(),
        }
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl PrefixStore {
    /// Direct access to the inner store, which was there when ours was requested.
    fn inside(&self) -> Result<&dyn Direct> {
        self.inner
            .direct()
            .ok_or_else(|| Error::io("direct access to the store was lost").with_store(&self.inner))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Direct for PrefixStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        self.inside()?.open(&self.full(key)?)
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        self.inside()?.put(&self.full(key)?, parts, when)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.inside()?.delete(&self.full(key)?)
    }
}
