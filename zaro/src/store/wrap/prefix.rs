//! A store rooted at a prefix of another.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Result;
use crate::store::{ByteRange, Direct, DirectObject, Listing, SharedStore, Store, check_key, check_prefix};

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
        Ok(if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) })
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
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        self.inner.get(&self.full(key)?, range).await
    }

    async fn get_ranges(&self, key: &str, ranges: &[ByteRange]) -> Result<Option<Vec<Bytes>>> {
        self.inner.get_ranges(&self.full(key)?, ranges).await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.inner.size(&self.full(key)?).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        if prefix.is_empty() {
            self.inner.list(&self.prefix).await
        } else {
            self.inner.list(&self.full(prefix)?).await
        }
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

impl Direct for PrefixStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.inner.direct() {
            Some(direct) => direct.open(&self.full(key)?),
            None => Ok(None),
        }
    }
}
