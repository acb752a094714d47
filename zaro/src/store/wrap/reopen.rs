//! A wrapper that reopens a store in a forked child process.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};

use crate::context::PerProcess;
use crate::error::{Error, Result};
use crate::store::fault::copy_of;
use crate::store::wrap::forward::forward;
use crate::store::{Entry, GetOptions, ListOptions, Object, ObjectMeta, SharedStore, Store};

/// A remote store whose connections and pending requests belong to one process.
pub(crate) struct ReopenStore {
    inner: Current,
}

struct Current {
    store: PerProcess<SharedStore>,
    open: Box<dyn Fn() -> SharedStore + Send + Sync>,
}

impl Deref for Current {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &**self.store.get(&self.open)
    }
}

impl ReopenStore {
    /// The store returned by `open`: now, and once in each forked child that uses it.
    pub(crate) fn around(
        open: impl Fn() -> Result<SharedStore> + Send + Sync + 'static,
    ) -> Result<SharedStore> {
        let first = open()?;
        let name = first.to_string();
        let store = PerProcess::holding(first);
        let again = move || open().unwrap_or_else(|error| Arc::new(Unopened { name: name.clone(), error }));
        let open = Box::new(again);
        Ok(Arc::new(Self { inner: Current { store, open } }))
    }
}

impl fmt::Debug for ReopenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.inner, f)
    }
}

impl fmt::Display for ReopenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.inner, f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for ReopenStore {
    forward! {
        get_opts get_stream get_ranges stat list_opts facts put delete delete_unchanged delete_prefix copy_object promote finish
        origin sites free_space direct
    }
}

/// A store that could not be reopened.
#[derive(Debug)]
struct Unopened {
    name: String,
    error: Error,
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[async_trait]
impl Store for Unopened {
    async fn get_opts(&self, _: &str, _: GetOptions<'_>) -> Result<Option<Object>> {
        Err(copy_of(&self.error))
    }

    async fn stat(&self, _: &str) -> Result<Option<ObjectMeta>> {
        Err(copy_of(&self.error))
    }

    fn list_opts(&self, _: &str, _: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        futures::stream::once(async { Err(copy_of(&self.error)) }).boxed()
    }
}
