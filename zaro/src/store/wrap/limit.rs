//! A wrapper that limits the number of concurrent requests per host.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::store::stream::holding;
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream, Put, SharedStore,
    Store, each_range,
};

/// The most listing entries that are read ahead.
const PAGE: usize = 1000;

/// Limits the number of concurrent requests to one host; further ones wait.
#[derive(Debug, Clone)]
pub struct LimitStore {
    inner: SharedStore,
    places: Arc<Semaphore>,
}

impl LimitStore {
    /// At most `limit` concurrent requests to `host`, shared with every other store of `context` made with the same
    /// two.
    #[must_use]
    pub fn new(inner: SharedStore, context: &Context, host: &str, limit: usize) -> Self {
        Self { inner, places: context.host(host, limit) }
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>> {
        place(&self.places).await
    }
}

/// A request slot, until it is dropped.
pub(crate) async fn place(places: &Semaphore) -> Result<SemaphorePermit<'_>> {
    places.acquire().await.map_err(closed)
}

fn closed(e: AcquireError) -> Error {
    Error::io("the request queue is closed").with_source(e)
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
        facts finish origin sites free_space direct
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let _place = self.place().await?;
        self.inner.get_opts(key, options).await
    }

    /// The slot is held until the last byte has come.
    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        let got = self.inner.get_stream(key, options).await?;
        Ok(got.map(|got| ObjectStream { body: holding(got.body, place), ..got }))
    }

    /// Each range takes its own slot.
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

    /// A slot is held while a page is requested, and not while the reader processes it, which may need one.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let pages = self.inner.list_opts(prefix, options).ready_chunks(PAGE);
        let entries = futures::stream::unfold(pages, move |mut pages| async move {
            let place = match self.place().await {
                Ok(place) => place,
                Err(e) => return Some((vec![Err(e)], pages)),
            };
            let page = pages.next().await?;
            drop(place);
            Some((page, pages))
        });
        entries.flat_map(futures::stream::iter).boxed()
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
