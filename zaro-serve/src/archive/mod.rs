//! An archive: Zarrs with all their versions, each of which is a manifest.
//!
//! ```text
//!   {root}/zarr-manifest/{p1}/{p2}/{id}/{checksum}.json    a version
//!   {root}/zarr/{id}/{key}                                  the objects, in the versions that manifests name
//! ```
//!
//! or the tree of manifests alone at the root, with the objects elsewhere (`--objects`).
//!
//! ```text
//!   manifests   parsed manifests in memory        versions   which Zarrs and versions there are, and since when
//!   tree        /zarrs/, the tree as folders       api        /api/, the same as JSON
//!   store       the upper folders as a store
//! ```

mod api;
mod diffs;
mod hiding;
mod manifests;
mod store;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod versions;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use zaro::manifest::{Digest, Manifest, Time, checksum_in};
use zaro::open::SourceOptions;
use zaro::store::{Bucket, Entry, ListOptions, PrefixStore, SharedStore};
use zaro::{Error, ErrorKind, Result};

pub(crate) use self::api::{answer as answer_api, in_json};
use self::diffs::Diffs;
use self::hiding::HidingStore;
use self::manifests::Manifests;
use self::store::TreeStore;
pub(crate) use self::tree::answer as answer_tree;
pub(crate) use self::versions::Version;
use self::versions::{Heads, Index};
use crate::answer::Caching;
use crate::embargo::{MANIFESTS, OBJECTS, TaggedPlace};
use crate::path::encode;
use crate::sources::Source;

/// The folder of all manifests, where objects lie beside it.
const FOLDER: &str = "zarr-manifest";

/// An archive of versions.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The name of the source it is.
    pub(crate) name: String,
    /// The tree of manifests: `{p1}/{p2}/{id}/{checksum}.json`.
    store: SharedStore,
    /// The bucket of the manifests and their prefix in it, if they are in one.
    bucket: Option<(Arc<Bucket>, String)>,
    /// Where the objects are, if that is known.
    objects: Option<Objects>,
    manifests: Manifests,
    diffs: Diffs,
    heads: Mutex<Heads>,
    index: Arc<Index>,
}

/// Where the objects of all Zarrs are: those of one lie below its id.
#[derive(Debug)]
struct Objects {
    store: SharedStore,
    /// Whether old versions of them can be read: those of a bucket.
    versioned: bool,
    place: ObjectsPlace,
}

/// How others than this server can reach the objects.
#[derive(Debug)]
enum ObjectsPlace {
    /// Not at all.
    Here,
    /// Anybody, below this address.
    Web(String),
    /// In a bucket, below this prefix: anybody, or with a signed URL.
    Bucket(Arc<Bucket>, String),
}

/// A version of a Zarr, open.
#[derive(Debug, Clone)]
pub(crate) struct OpenVersion {
    pub(crate) id: String,
    pub(crate) checksum: Digest,
    pub(crate) manifest: Arc<Manifest>,
}

impl Archive {
    /// The archive at `uri`, if there is one. `name` is that of the source.
    pub(crate) async fn find(name: &str, uri: &str, options: &SourceOptions) -> Result<Option<Self>> {
        let found = async {
            let root = zaro::open::open_store(uri, options).await?;
            if is_folder(&root, FOLDER).await? {
                let tree: SharedStore = Arc::new(PrefixStore::new(root, FOLDER)?);
                return Ok(Some((tree, true)));
            }
            Ok(is_tree(&root).await?.then_some((root, false)))
        };
        let (store, beside) = match found.await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            // What cannot be listed, or is no folder at all, is no archive.
            Err(e) if is_none(&e) => return Ok(None),
            Err(e) => return Err(e),
        };
        let place = match (&options.objects, beside) {
            (Some(objects), _) => Some(objects.trim_end_matches('/').to_owned()),
            (None, true) => Some(format!("{}/zarr", uri.trim_end_matches('/'))),
            (None, false) => None,
        };
        let objects = match place {
            Some(place) => Some(Objects::at(&place, options).await?),
            None => None,
        };
        let bucket = match zaro::open::is_bucket(uri) {
            false => None,
            true => {
                let (bucket, path) = zaro::open::open_bucket(uri, &options.store)?;
                let folder = if beside { FOLDER } else { "" };
                let prefix = [path.trim_matches('/'), folder].join("/");
                Some((bucket, prefix.trim_matches('/').to_owned()))
            }
        };
        let limit = options.store.context.memory() / 4;
        Ok(Some(Self {
            name: name.to_owned(),
            index: Arc::new(Index::new(store.clone())),
            store,
            bucket,
            objects,
            manifests: Manifests::new(limit),
            diffs: Diffs::new(limit / 4),
            heads: Mutex::default(),
        }))
    }

    /// The versions of a Zarr, by their names alone; none if there is no such Zarr.
    pub(crate) async fn checksums(&self, id: &str) -> Result<Vec<Digest>> {
        match folder_of(id) {
            Some(folder) => self.index.of_zarr(id, &folder).await,
            None => Ok(Vec::new()),
        }
    }

    /// All Zarrs with the names of their versions, sorted by id; as they were some seconds ago.
    pub(crate) async fn zarrs(&self) -> Result<Arc<Vec<(String, Vec<Digest>)>>> {
        self.index.all().await
    }

    /// The version of a Zarr; `None` if there is none.
    pub(crate) async fn open(&self, id: &str, checksum: Digest) -> Result<Option<OpenVersion>> {
        let Some(folder) = folder_of(id) else { return Ok(None) };
        let key = format!("{folder}/{checksum}.json");
        let manifest = self.manifests.get(id, checksum, &self.store, &key).await?;
        Ok(manifest.map(|manifest| OpenVersion { id: id.to_owned(), checksum, manifest }))
    }

    /// The bytes of a version.
    pub(crate) fn store_of(&self, version: &OpenVersion) -> Result<SharedStore> {
        let name = format!("{}@{}", version.id, version.checksum);
        let objects: SharedStore = match &self.objects {
            Some(objects) => Arc::new(PrefixStore::new(objects.store.clone(), &version.id)?),
            None => Arc::new(store::Unknown),
        };
        let versioned = self.objects.as_ref().is_none_or(|objects| objects.versioned);
        Ok(Arc::new(zaro::manifest::version_store(&name, version.manifest.clone(), objects, versioned)))
    }

    /// The same as a source of bytes, which never change.
    pub(crate) fn source_of(&self, version: &OpenVersion, private: bool) -> Result<Arc<Source>> {
        let name = format!("{}@{}", version.id, version.checksum);
        Ok(Arc::new(Source::of_bytes(&name, self.store_of(version)?, Caching::Immutable, private)))
    }

    /// The folders above the versions, as a source with the Zarrs of these ids only if there are any; the manifests are
    /// in it, too.
    pub(crate) fn tree(&self, caching: Caching, private: bool, shown: Option<&[String]>) -> Arc<Source> {
        let mut store: SharedStore = Arc::new(TreeStore::new(self.store.clone()));
        if let Some(shown) = shown {
            let shown: BTreeSet<String> = shown.iter().filter_map(|id| folder_of(id)).collect();
            store = Arc::new(HidingStore::new(store, Arc::new(shown)));
        }
        Arc::new(Source::of_bytes(&self.name, store, caching, private))
    }

    /// Where the objects and the manifests of a Zarr have tags.
    pub(crate) fn tagged_places(&self, id: &str) -> Vec<TaggedPlace> {
        let Some(folder) = folder_of(id) else { return Vec::new() };
        let below = |prefix: &str, path: &str| format!("{prefix}/{path}/").trim_start_matches('/').to_owned();
        let manifests = self.bucket.as_ref().map(|(bucket, prefix)| TaggedPlace {
            bucket: bucket.clone(),
            prefix: below(prefix, &folder),
            most: MANIFESTS,
        });
        let objects = match self.objects.as_ref().map(|objects| &objects.place) {
            Some(ObjectsPlace::Bucket(bucket, prefix)) => {
                Some(TaggedPlace { bucket: bucket.clone(), prefix: below(prefix, id), most: OBJECTS })
            }
            _ => None,
        };
        manifests.into_iter().chain(objects).collect()
    }

    /// The address at which anybody can read this version of an object: of this version, or none.
    pub(crate) fn public_url(&self, version: &OpenVersion, key: &str) -> Option<String> {
        let name = version.manifest.get(key)?.version()?;
        match &self.objects.as_ref()?.place {
            ObjectsPlace::Here => None,
            ObjectsPlace::Web(base) => {
                Some(format!("{base}/{}/{}?versionId={}", version.id, encode(key), encode(&name)))
            }
            ObjectsPlace::Bucket(bucket, prefix) => {
                bucket.public_url(&path_in(prefix, &version.id, key), Some(&name))
            }
        }
    }

    /// An address at which whoever has it can read this version of an object, with one kind of request and for this
    /// time; `None` if nothing can be signed.
    pub(crate) async fn signed_url(
        &self,
        version: &OpenVersion,
        key: &str,
        head: bool,
        lasts: Duration,
    ) -> Result<Option<String>> {
        let name = version.manifest.get(key).and_then(|entry| entry.version());
        match (self.objects.as_ref().map(|objects| &objects.place), name) {
            (Some(ObjectsPlace::Bucket(bucket, prefix)), Some(name)) if !lasts.is_zero() => {
                bucket.signed_url(&path_in(prefix, &version.id, key), Some(&name), head, lasts).await
            }
            _ => Ok(None),
        }
    }

    /// The newest version that is not newer than `time`, by what its manifest says.
    pub(crate) async fn version_at(&self, id: &str, time: Time) -> Result<Option<Version>> {
        let all = self.versions(id).await?;
        Ok(all.into_iter().find(|version| version.modified().is_some_and(|modified| modified <= time)))
    }

    /// The newest version.
    pub(crate) async fn newest(&self, id: &str) -> Result<Option<Digest>> {
        let checksums = self.checksums(id).await?;
        self.newest_of(id, &checksums).await
    }

    /// The newest of these versions. Nothing is read if there is only one, as there mostly is.
    pub(crate) async fn newest_of(&self, id: &str, checksums: &[Digest]) -> Result<Option<Digest>> {
        match checksums {
            [] => Ok(None),
            [only] => Ok(Some(*only)),
            several => Ok(self.described(id, several).await?.first().map(|version| version.checksum)),
        }
    }
}

impl Objects {
    async fn at(place: &str, options: &SourceOptions) -> Result<Self> {
        // The option is for manifests; this is a plain folder.
        let mut options = options.clone();
        options.objects = None;
        let store = zaro::open::open_store(place, &options).await?;
        let is_web = ["http://", "https://"].iter().any(|scheme| place.starts_with(scheme));
        let is_bucket = zaro::open::is_bucket(place);
        // A query may be a signature, and headers may be a credential.
        let is_open = is_web && options.store.headers.is_empty() && !place.contains(['?', '@', '#']);
        let place = if is_bucket {
            let (bucket, prefix) = zaro::open::open_bucket(place, &options.store)?;
            ObjectsPlace::Bucket(bucket, prefix.trim_matches('/').to_owned())
        } else if is_open {
            ObjectsPlace::Web(place.to_owned())
        } else {
            ObjectsPlace::Here
        };
        Ok(Self { store, versioned: is_web || is_bucket, place })
    }
}

/// The key of a Zarr's object in a bucket.
fn path_in(prefix: &str, id: &str, key: &str) -> String {
    [prefix, id, key].join("/").trim_start_matches('/').to_owned()
}

/// Whether the manifests of a Zarr are below a folder of the tree.
pub(crate) fn is_below(id: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    folder.is_empty()
        || folder_of(id).is_some_and(|own| {
            own.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

/// The id of a Zarr that could be below a folder of the tree, and that nobody has.
pub(crate) fn nobody_below(folder: &str) -> Option<String> {
    let parts: Vec<&str> = folder.trim_end_matches('/').split('/').collect();
    let id = match parts.as_slice() {
        [first] => format!("{first}00000-0000-0000-0000-000000000000"),
        [first, second] => format!("{first}{second}00-0000-0000-0000-000000000000"),
        _ => return None,
    };
    zaro::manifest::check_zarr_id(&id).is_ok().then_some(id)
}

/// The folder of a Zarr's manifests in the tree; `None` if this cannot be the id of one.
fn folder_of(id: &str) -> Option<String> {
    zaro::manifest::check_zarr_id(id).ok()?;
    Some(format!("{}/{}/{id}", id.get(..3)?, id.get(3..6)?))
}

/// A date, which is its beginning, or a time.
pub(crate) fn time_of(text: &str) -> Option<Time> {
    Time::parse_date(text).ok()
}

/// Whether an error says that there is nothing to list.
fn is_none(e: &Error) -> bool {
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::Unsupported,
        ErrorKind::NotPermitted,
        ErrorKind::Invalid,
        ErrorKind::Usage,
    ];
    kinds.contains(&e.kind())
}

async fn is_folder(store: &SharedStore, key: &str) -> Result<bool> {
    match store.list_opts(key, &ListOptions::default()).try_next().await {
        Ok(entry) => Ok(entry.is_some()),
        Err(e) if is_none(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether the root of a store is a tree of manifests: by the first of them.
async fn is_tree(store: &SharedStore) -> Result<bool> {
    let mut at = String::new();
    for level in 0..3 {
        let mut entries = store.list_opts(&at, &ListOptions::default());
        let mut below = None;
        while let Some(entry) = entries.try_next().await? {
            let Entry::Prefix(path) = entry else { continue };
            let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
            if level == 2 || name.len() == 3 {
                below = Some((path, name));
            }
            // Others would not be there, too.
            break;
        }
        drop(entries);
        match below {
            Some((path, name)) if level < 2 || folder_of(&name).as_deref() == Some(&path) => at = path,
            _ => return Ok(false),
        }
    }
    let mut entries = store.list_opts(&at, &ListOptions::default());
    while let Some(entry) = entries.try_next().await? {
        if checksum_in(entry.path()).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
