//! A manifest as a reference map: each key refers to one version of one object.
//!
//! A key that is not in the manifest is missing, without a request. One that is must exist in that version: it is
//! requested by version id, and the response must have the size and the `ETag` the manifest states.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};

use super::model::{Leaf, Manifest};
use crate::error::Result;
use crate::reference::{Location, Map, ReferenceStore, Remote, Target, Targets};
use crate::store::{Listing, ObjectMeta, Pin, RemoteMeta, SharedStore, check_prefix, join};

/// Entries per batch when all are listed.
const BATCH: usize = 1000;

/// Maps the keys of a version of a Zarr to its objects.
#[derive(Debug, Clone)]
pub(crate) struct ManifestMap {
    manifest: Arc<Manifest>,
    /// Prefix of keys: empty, or an address with a trailing slash.
    base: Arc<str>,
    /// Whether versions are requested; folders have none.
    versions: bool,
}

impl ManifestMap {
    /// The map of a manifest whose objects are below `base`: an address, or `""` for the root of the targets.
    #[must_use]
    pub(crate) fn new(manifest: Arc<Manifest>, base: &str) -> Self {
        let base = match base {
            "" => Arc::from(""),
            base => Arc::from(format!("{}/", base.trim_end_matches('/'))),
        };
        Self { manifest, base, versions: true }
    }

    /// For objects without versions, such as files: only sizes and digests are compared.
    #[must_use]
    pub(crate) fn without_versions(mut self) -> Self {
        self.versions = false;
        self
    }

    fn location(&self, key: &str, leaf: &Leaf<'_>) -> Location {
        let fields = self.manifest.fields();
        // An object that was put while the bucket kept no versions has one that is called so.
        let pin = Pin {
            version: leaf.version().filter(|_| self.versions),
            etag: leaf.etag(),
            size: fields.size.then(|| leaf.size()),
            unmodified_since: None,
        };
        let mut remote = Remote::new(format!("{}{key}", self.base), None);
        remote.pin = Some(Arc::new(pin)).filter(|p| !p.is_empty());
        Location::Remote(remote)
    }
}

#[async_trait]
impl Map for ManifestMap {
    fn noun(&self) -> &'static str {
        "a manifest"
    }

    async fn locate(&self, key: &str) -> Result<Option<Location>> {
        Ok(self.manifest.get(key).map(|leaf| self.location(key, &leaf)))
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        check_prefix(prefix)?;
        let Some(dir) = self.manifest.dir(prefix) else { return Ok(Listing::default()) };
        Ok(Listing {
            objects: dir.files().map(|leaf| leaf.name().to_owned()).collect(),
            prefixes: dir.dirs().map(|dir| dir.name().to_owned()).collect(),
        })
    }

    /// The stored `ETag` tells the states of an object apart, and the manifest has it.
    fn stated(&self, key: &str) -> Option<ObjectMeta> {
        let (leaf, fields) = (self.manifest.get(key)?, self.manifest.fields());
        if !fields.tell_content() {
            return None;
        }
        let meta = RemoteMeta {
            etag: Some(format!("\"{}\"", leaf.etag()?)),
            modified: leaf.modified().map(|time| time.seconds),
            size: Some(leaf.size()),
            version: leaf.version().filter(|_| self.versions),
        };
        Some(meta.into())
    }

    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>> {
        let mut walk = self.manifest.walk_below(prefix);
        let batches = std::iter::from_fn(move || {
            let mut batch = Vec::new();
            while batch.len() < BATCH
                && let Some((key, leaf)) = walk.next()
            {
                batch.push(Ok((key.to_owned(), self.location(key, &leaf))));
            }
            (!batch.is_empty()).then_some(batch)
        });
        stream::iter(batches.flatten()).boxed()
    }
}

/// All objects are in one store, and addresses are its keys.
#[derive(Debug)]
struct OneStore(SharedStore);

#[async_trait]
impl Targets for OneStore {
    async fn target(&self, remote: &Remote) -> Result<Target> {
        Ok(Target { store: Arc::clone(&self.0), key: remote.url.to_string() })
    }
}

/// The version of a Zarr that `manifest` describes, as a store. Its objects are in `objects`, rooted at the Zarr; if
/// those are `versioned`, as in a bucket, each is requested by its version, else only sizes and digests are compared.
/// `name` is what errors call it.
#[must_use]
pub fn version_store(
    name: &str,
    manifest: Arc<Manifest>,
    objects: SharedStore,
    versioned: bool,
) -> ReferenceStore {
    let map = ManifestMap::new(manifest, "");
    let map = if versioned { map } else { map.without_versions() };
    ReferenceStore::new(name, Arc::new(map), Arc::new(OneStore(objects)))
}

/// The prefix of the objects of a manifest at `path` of a bucket: `…zarr/ID` for
/// `…zarr-manifest/abc/def/ID/CHECKSUM.json`. `None` if the path does not have this form.
#[must_use]
pub fn objects_beside(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let [base @ .., "zarr-manifest", first, second, id, name] = parts.as_slice() else { return None };
    if !name.ends_with(".json") || !id.starts_with(&format!("{first}{second}")) {
        return None;
    }
    Some(join(&base.join("/"), &format!("zarr/{id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_tells_where_its_objects_are_by_where_it_is() {
        let at = |path: &str| objects_beside(path);
        let id = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d";
        let name = "6ddc4625befef8d6f9796835648162be-509--710206390.json";
        assert_eq!(at(&format!("zarr-manifest/128/4a1/{id}/{name}")).unwrap(), format!("zarr/{id}"));
        assert_eq!(at(&format!("x/y/zarr-manifest/128/4a1/{id}/{name}")).unwrap(), format!("x/y/zarr/{id}"));
        assert_eq!(at(&format!("zarr-manifest/128/4a2/{id}/{name}")), None);
        assert_eq!(at(&format!("manifests/128/4a1/{id}/{name}")), None);
        assert_eq!(at(name), None);
    }
}
