//! The tree of manifests without the Zarrs that a client may not see: nor the folders that lead to them alone.

use std::fmt;

use async_trait::async_trait;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use zaro::Result;
use zaro::store::{
    Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream, SharedStore, Store, StoreFacts,
};

/// A store without some of its folders.
#[derive(Debug)]
pub(crate) struct HidingStore {
    inner: SharedStore,
    /// The folders, without a slash at the end.
    hidden: Vec<String>,
}

impl HidingStore {
    /// Hides these folders.
    pub(crate) fn new(inner: SharedStore, hidden: Vec<String>) -> Self {
        Self { inner, hidden }
    }

    /// Whether a path is in a hidden folder, or is one.
    fn hides(&self, path: &str) -> bool {
        let below = |folder: &String| {
            path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.hidden.iter().any(below)
    }

    /// Whether a hidden folder lies somewhere below a prefix.
    fn leads(&self, prefix: &str) -> bool {
        self.hidden.iter().any(|folder| folder.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Whether anything that may be seen lies below a prefix.
    fn shows<'a>(&'a self, prefix: String) -> BoxFuture<'a, Result<bool>> {
        async move {
            let mut entries = self.inner.list_opts(&prefix, &ListOptions::default());
            while let Some(entry) = entries.try_next().await? {
                let seen = match &entry {
                    entry if self.hides(entry.path()) => false,
                    Entry::Prefix(path) if self.leads(path) => self.shows(path.clone()).await?,
                    _ => true,
                };
                if seen {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        .boxed()
    }
}

impl fmt::Display for HidingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Store for HidingStore {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        if self.hides(key) { Ok(None) } else { self.inner.get_opts(key, options).await }
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        if self.hides(key) { Ok(None) } else { self.inner.get_stream(key, options).await }
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        if self.hides(key) { Ok(None) } else { self.inner.stat(key).await }
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        if self.hides(prefix) {
            return futures::stream::empty().boxed();
        }
        let seen = self.inner.list_opts(prefix, options).try_filter_map(move |entry| async move {
            let shown = match &entry {
                entry if self.hides(entry.path()) => false,
                Entry::Prefix(path) if self.leads(path) => self.shows(path.clone()).await?,
                _ => true,
            };
            Ok(shown.then_some(entry))
        });
        seen.boxed()
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { is_writable: false, ..self.inner.facts() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use zaro::store::{MemoryStore, StoreExt as _};

    #[tokio::test]
    async fn what_is_hidden_leaves_no_folder_behind() {
        let all = Arc::new(MemoryStore::new());
        for key in [
            "abc/def/abcdef-1/x.json",
            "abc/def/abcdef-2/x.json",
            "abc/xyz/abcxyz-1/x.json",
            "uvw/xyz/uvwxyz-1/x.json",
        ] {
            MemoryStore::put(&all, key, "{}").unwrap();
        }
        let hidden = ["abc/def/abcdef-1", "abc/xyz/abcxyz-1", "uvw/xyz/uvwxyz-1"].map(str::to_owned).to_vec();
        let store = HidingStore::new(all, hidden);
        assert_eq!(store.list("").await.unwrap().prefixes, ["abc"]);
        assert_eq!(store.list("abc").await.unwrap().prefixes, ["def"]);
        assert_eq!(store.list("abc/def").await.unwrap().prefixes, ["abcdef-2"]);
        assert!(store.list("uvw").await.unwrap().prefixes.is_empty());
        assert!(store.list("abc/def/abcdef-1").await.unwrap().objects.is_empty());
        assert!(store.get("abc/def/abcdef-1/x.json", None).await.unwrap().is_none());
        assert!(store.get("abc/def/abcdef-2/x.json", None).await.unwrap().is_some());
    }
}
