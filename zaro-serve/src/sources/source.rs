//! One state of something that is served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use zaro::store::SharedStore;
use zaro::{Error, Result, Zarr};

use super::hot::Hot;
use crate::answer::{Caching, Fault};
use crate::views::View;

/// One state of something that is served.
#[derive(Debug)]
pub(crate) struct Source {
    /// The name it was asked for by.
    pub(crate) name: String,
    /// The hierarchy, and with it the store.
    pub(super) zarr: std::result::Result<Arc<Zarr>, String>,
    pub(super) store: SharedStore,
    /// Whether it is a version, which never changes.
    pub(crate) caching: Caching,
    /// Whether only some clients may see it.
    pub(crate) private: bool,
    /// The newest date of its root documents or its file, else when it was opened: for dates of what has none.
    pub(crate) since: SystemTime,
    /// The same chunks under other documents, made when they are first asked for.
    pub(super) views: tokio::sync::Mutex<BTreeMap<View, Arc<Source>>>,
    /// Its small files in memory, if it is a plain folder of this machine: then a key is a file, and nothing else.
    pub(crate) files: Option<Arc<Hot>>,
}

impl Source {
    /// A store of which only keys and bytes are wanted, such as one state of an archive's Zarr.
    #[must_use]
    pub(crate) fn of_bytes(name: &str, store: SharedStore, caching: Caching, private: bool) -> Self {
        let zarr = Err("this was opened for its bytes only".to_owned());
        Self {
            name: name.to_owned(),
            zarr,
            store,
            caching,
            private,
            since: SystemTime::now(),
            views: tokio::sync::Mutex::default(),
            files: None,
        }
    }

    /// Its store.
    #[must_use]
    pub(crate) fn store(&self) -> &SharedStore {
        &self.store
    }

    /// One of this store, for tests.
    #[cfg(test)]
    pub(crate) fn of_store(store: SharedStore) -> Arc<Self> {
        Arc::new(Self {
            name: "test".to_owned(),
            zarr: Err("a store alone".to_owned()),
            store,
            caching: Caching::Live,
            private: false,
            since: SystemTime::UNIX_EPOCH,
            views: tokio::sync::Mutex::default(),
            files: None,
        })
    }

    /// Its chunks under other documents.
    pub(crate) async fn view(&self, view: View) -> std::result::Result<Arc<Source>, Fault> {
        let mut views = self.views.lock().await;
        if let Some(made) = views.get(&view) {
            return Ok(made.clone());
        }
        let made = Arc::new(view.of(self).await?);
        views.insert(view, made.clone());
        Ok(made)
    }

    /// The same source with another store.
    pub(crate) fn viewed(&self, store: SharedStore, zarr: Zarr) -> Self {
        Self {
            name: self.name.clone(),
            zarr: Ok(Arc::new(zarr)),
            store,
            caching: self.caching,
            private: self.private,
            since: self.since,
            views: tokio::sync::Mutex::default(),
            files: None,
        }
    }

    /// Its hierarchy; an error if the root is damaged.
    pub(crate) fn zarr(&self) -> Result<&Arc<Zarr>> {
        self.zarr.as_ref().map_err(|e| Error::invalid(e.clone()))
    }
}
