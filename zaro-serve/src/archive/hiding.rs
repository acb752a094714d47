//! The tree of manifests with those Zarrs only that a client may see, and the folders that lead to them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use zaro::Result;
use zaro::store::{
    Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream, SharedStore, Store, StoreFacts,
};

/// A tree with some of its folders only. A Zarr that is not known to be shown is not: it may have come a moment ago.
#[derive(Debug)]
pub(crate) struct HidingStore {
    inner: SharedStore,
    /// The folders, three levels deep, without a slash at the end.
    shown: Arc<BTreeSet<String>>,
}

impl HidingStore {
    /// Shows these folders.
    pub(crate) fn new(inner: SharedStore, shown: Arc<BTreeSet<String>>) -> Self {
        Self { inner, shown }
    }

    fn shows(&self, path: &str) -> bool {
        leads(&self.shown, path)
    }
}

/// Whether a path is in one of these folders, three levels deep, or leads to one.
pub(crate) fn leads(folders: &BTreeSet<String>, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    match path.match_indices('/').nth(2) {
        Some((end, _)) => folders.contains(path.get(..end).unwrap_or_default()),
        None if path.is_empty() => true,
        None => {
            let below = format!("{path}/");
            let first = folders.range(below.clone()..).next();
            folders.contains(path) || first.is_some_and(|folder| folder.starts_with(&below))
        }
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
        if self.shows(key) { self.inner.get_opts(key, options).await } else { Ok(None) }
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        if self.shows(key) { self.inner.get_stream(key, options).await } else { Ok(None) }
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        if self.shows(key) { self.inner.stat(key).await } else { Ok(None) }
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        if !self.shows(prefix) {
            return futures::stream::empty().boxed();
        }
        let entries = self.inner.list_opts(prefix, options);
        entries.try_filter(|entry| std::future::ready(self.shows(entry.path()))).boxed()
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { is_writable: false, ..self.inner.facts() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let shown = BTreeSet::from(["abc/def/abcdef-2".to_owned()]);
        let store = HidingStore::new(all, Arc::new(shown));
        assert_eq!(store.list("").await.unwrap().prefixes, ["abc"]);
        assert_eq!(store.list("abc").await.unwrap().prefixes, ["def"]);
        assert_eq!(store.list("abc/def").await.unwrap().prefixes, ["abcdef-2"]);
        for none in ["uvw", "abc/xyz", "abc/de", "ab", "abc/def/abcdef-1", "abc/def/abcdef"] {
            let found = store.list(none).await.unwrap();
            assert!(found.prefixes.is_empty() && found.objects.is_empty(), "{none}");
        }
        assert!(store.get("abc/def/abcdef-1/x.json", None).await.unwrap().is_none());
        assert!(store.get("abc/def/abcdef-2/x.json", None).await.unwrap().is_some());
        let options = ListOptions::default().with_recursive(true);
        let found: Vec<Entry> = store.list_opts("", &options).try_collect().await.unwrap();
        assert_eq!(found.iter().map(Entry::path).collect::<Vec<_>>(), ["abc/def/abcdef-2/x.json"]);
    }
}
