//! A map in memory, for tests of the tools.
#![allow(clippy::unwrap_used, reason = "test code: a panic is a failed test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};

use super::{Location, Map, ReferenceStore, Remote, Span, Target, Targets};
use crate::error::{Error, Result};
use crate::group::{OpenOptions, Zarr};
use crate::store::memory::MemoryStore;
use crate::store::{Listing, SharedStore};

/// Keys and locations, in order of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryMap(pub(crate) BTreeMap<String, Location>);

impl MemoryMap {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, key: &str, location: Location) -> Self {
        self.0.insert(key.to_owned(), location);
        self
    }

    pub(crate) fn text(self, key: &str, text: &str) -> Self {
        self.with(key, Location::Inline(Bytes::copy_from_slice(text.as_bytes())))
    }

    pub(crate) fn range(self, key: &str, url: &str, offset: u64, length: u64) -> Self {
        self.with(key, Location::Remote(Remote::new(url, Some(Span { offset, length }))))
    }

    pub(crate) fn whole(self, key: &str, url: &str) -> Self {
        self.with(key, Location::Remote(Remote::new(url, None)))
    }

    /// A V2 array of bytes.
    pub(crate) fn v2(self, path: &str, shape: &[u64], chunks: &[u64]) -> Self {
        let text = format!(
            r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{chunks:?},"dtype":"|u1","compressor":null,"fill_value":0,"order":"C","filters":null}}"#
        );
        self.text(&format!("{path}/.zarray"), &text)
    }

    /// A V3 array of bytes.
    pub(crate) fn v3(self, path: &str, shape: &[u64], chunks: &[u64]) -> Self {
        let text = format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{shape:?},"data_type":"uint8",
            "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{chunks:?}}}}},
            "chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},
            "fill_value":0,"codecs":[{{"name":"bytes"}}]}}"#
        );
        self.text(&format!("{path}/zarr.json"), &text)
    }
}

#[async_trait]
impl Map for MemoryMap {
    async fn locate(&self, key: &str) -> Result<Option<Location>> {
        Ok(self.0.get(key).cloned())
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        let start = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut out = Listing::default();
        for key in self.0.keys() {
            if let Some(rest) = key.strip_prefix(&start) {
                out.add(rest);
            }
        }
        Ok(out.sorted())
    }

    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>> {
        let start = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let found = self.0.iter().filter(move |(k, _)| k.starts_with(&start));
        futures::stream::iter(found.map(|(k, l)| Ok((k.clone(), l.clone())))).boxed()
    }
}

/// Targets in one store in memory, whose keys are the addresses after `mem:`.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryTargets(pub(crate) Arc<MemoryStore>);

#[async_trait]
impl Targets for MemoryTargets {
    async fn target(&self, remote: &Remote) -> Result<Target> {
        let Some(key) = remote.url.strip_prefix("mem:") else {
            return Err(Error::not_permitted("local files are not for this map"));
        };
        let store: SharedStore = self.0.clone();
        Ok(Target { store, key: key.to_owned() })
    }
}

/// The Zarr of a map with these targets.
pub(crate) async fn zarr_with(map: MemoryMap, targets: MemoryTargets) -> Zarr {
    let store = ReferenceStore::new("memory", Arc::new(map), Arc::new(targets));
    Zarr::from_store(Arc::new(store), OpenOptions::default()).await.unwrap()
}

/// The Zarr of a map without targets.
pub(crate) async fn zarr_of(map: MemoryMap) -> Zarr {
    zarr_with(map, MemoryTargets::default()).await
}
