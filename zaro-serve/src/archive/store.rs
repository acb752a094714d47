//! The folders above the versions as a store, so that whatever lists a store lists them.

use std::fmt;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use zaro::manifest::checksum_in;
use zaro::store::{Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream, SharedStore, Store};
use zaro::{Error, Result};

/// How deep in the tree manifests are.
const LEVELS: usize = 3;

/// The tree of manifests. Each manifest is there as a file, `{checksum}.json`, and as the folder `{checksum}.zarr`,
/// which is empty here: it is the version itself, and has a store of its own. Whatever else lies in the tree is not
/// shown.
#[derive(Debug)]
pub(crate) struct TreeStore {
    inner: SharedStore,
}

impl TreeStore {
    /// Over the store whose root is the tree.
    pub(crate) fn new(inner: SharedStore) -> Self {
        Self { inner }
    }

    /// Whether a key is that of a manifest.
    fn is_manifest(key: &str) -> bool {
        key.matches('/').count() == LEVELS && checksum_in(key).is_some()
    }
}

/// The folder of the version of a manifest.
fn version_of(key: &str) -> Entry {
    Entry::Prefix(format!("{}.zarr", key.strip_suffix(".json").unwrap_or(key)))
}

impl fmt::Display for TreeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tree of manifests")
    }
}

#[async_trait]
impl Store for TreeStore {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        if Self::is_manifest(key) { self.inner.get_opts(key, options).await } else { Ok(None) }
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        if Self::is_manifest(key) { self.inner.get_stream(key, options).await } else { Ok(None) }
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        if Self::is_manifest(key) { self.inner.stat(key).await } else { Ok(None) }
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let level = prefix.split('/').filter(|part| !part.is_empty()).count();
        if level > LEVELS {
            return stream::empty().boxed();
        }
        // A manifest and its version lie side by side: a listing that goes on after the first goes on with the second.
        let after = options.after.as_deref();
        let left_over =
            after.filter(|after| level == LEVELS && !options.recursive && Self::is_manifest(after));
        let left_over = left_over.map(version_of);
        let mut options = options.clone();
        if let Some(stem) = after.and_then(|after| after.trim_end_matches('/').strip_suffix(".zarr")) {
            options.after = Some(format!("{stem}.json"));
        }
        let recursive = options.recursive;
        let entries = self.inner.list_opts(prefix, &options).map_ok(move |entry| {
            let shown = match &entry {
                Entry::Prefix(_) if level < LEVELS => vec![entry],
                Entry::Object(object) if Self::is_manifest(&object.key) && !recursive => {
                    let version = version_of(&object.key);
                    vec![entry, version]
                }
                Entry::Object(object) if Self::is_manifest(&object.key) => vec![entry],
                _ => Vec::new(),
            };
            stream::iter(shown.into_iter().map(Ok))
        });
        stream::iter(left_over.map(Ok)).chain(entries.try_flatten()).boxed()
    }
}

/// The objects of an archive whose place nobody named.
#[derive(Debug)]
pub(crate) struct Unknown;

fn unknown() -> Error {
    Error::unsupported(
        "this archive has manifests only; whoever runs the server has to name the place of the objects",
    )
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown objects")
    }
}

#[async_trait]
impl Store for Unknown {
    async fn get_opts(&self, _: &str, _: GetOptions<'_>) -> Result<Option<Object>> {
        Err(unknown())
    }

    async fn stat(&self, _: &str) -> Result<Option<ObjectMeta>> {
        Err(unknown())
    }

    fn list_opts(&self, _: &str, _: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        stream::iter([Err(unknown())]).boxed()
    }
}
