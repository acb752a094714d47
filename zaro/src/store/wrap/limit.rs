//! At most so many requests to one host at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, Result};
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, GetOptions, KeyEntry, Listing, Object, ObjectMeta, Put, SharedStore, Store,
    each_range,
};

/// The places at each host, shared by every store of this process that names the same host and the same limit.
static HOSTS: LazyLock<Mutex<Hosts>> = LazyLock::new(Mutex::default);

/// By host and limit.
type Hosts = HashMap<(String, usize), Arc<Semaphore>>;

/// Lets at most so many requests to one host run at a time; further ones wait.
#[derive(Debug, Clone)]
pub struct LimitStore {
    inner: SharedStore,
    places: Arc<Semaphore>,
}

impl LimitStore {
    /// At most `limit` requests at a time to `host`, together with every other store made with the same two.
    #[must_use]
    pub fn new(inner: SharedStore, host: &str, limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
        let places = hosts.entry((host.to_owned(), limit)).or_insert_with(|| Arc::new(Semaphore::new(limit)));
        Self { inner, places: Arc::clone(places) }
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>> {
        self.places.acquire().await.map_err(|e| Error::io("the request queue is closed").with_source(e))
    }
}

impl fmt::Display for LimitStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for LimitStore {
    forward! {
        lists_all is_writable finish origin sites free_space direct is_remote
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let _place = self.place().await?;
        self.inner.get_opts(key, options).await
    }

    /// Each range takes a place of its own.
    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        each_range(self, key, ranges, state).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let _place = self.place().await?;
        self.inner.stat(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        let _place = self.place().await?;
        self.inner.list(prefix).await
    }

    /// Takes no place: who reads the stream may need one for what it does with each key.
    fn keys(&self, prefix: &str) -> BoxStream<'_, Result<KeyEntry>> {
        self.inner.keys(prefix)
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let _place = self.place().await?;
        self.inner.put(key, value, when).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let _place = self.place().await?;
        self.inner.delete(key).await
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let _place = self.place().await?;
        self.inner.delete_unchanged(key, state).await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let _place = self.place().await?;
        self.inner.delete_prefix(prefix).await
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let _place = self.place().await?;
        self.inner.copy_object(from, to).await
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let _place = self.place().await?;
        self.inner.promote(prefix, inner).await
    }
}
