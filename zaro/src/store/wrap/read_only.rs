//! A wrapper that refuses writes.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::store::wrap::forward::forward;
use crate::store::{Condition, Direct, DirectObject, ObjectMeta, Put, SharedStore, Store, StoreFacts};

/// Reads from `inner`, and refuses every put and delete with [`NotPermitted`](crate::ErrorKind::NotPermitted).
#[derive(Debug, Clone)]
pub struct ReadOnlyStore {
    inner: SharedStore,
}

impl ReadOnlyStore {
    /// Protects `inner` from changes.
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
    forward! {
        finish get_opts get_stream get_ranges stat list_opts origin sites free_space
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { is_writable: false, ..self.inner.facts() }
    }

    async fn put(&self, key: &str, _: Bytes, _: Condition) -> Result<Put> {
        Err(self.refusal(key))
    }

    async fn delete(&self, key: &str) -> Result<()> {
        Err(self.refusal(key))
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let _ = state;
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

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Direct for ReadOnlyStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.inner.direct() {
            Some(direct) => direct.open(key),
            None => Err(Error::io("direct access to the store was lost").with_store(self)),
        }
    }

    fn put(&self, key: &str, _: &[&[u8]], _: &Condition) -> Result<Put> {
        Err(self.refusal(key))
    }

    fn delete(&self, key: &str) -> Result<()> {
        Err(self.refusal(key))
    }
}
