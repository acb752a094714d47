//! Detecting and opening reference stores.

use std::sync::Arc;

use super::address::{Address, StoreKind, StorePlace};
use super::look::{Holds, begins_as_document, folder, icechunk_here, no_zarr, unlogged};
use super::spot::StoreLocation;
use super::targets::AnyTargets;
use super::{OpenedStore, SourceOptions, find};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
pub(super) use crate::reference::ReferenceStore;
use crate::reference::icechunk::Repository;
use crate::reference::{SharedMap, json};
use crate::store::{SharedStore, StoreExt as _};

/// Suffixes of JSON documents, which may be references.
const JSON_NAMES: [&str; 5] = [".json", ".json.gz", ".json.zst", ".json.zstd", ".json.gzip"];

/// Opens a reference store; `None` if it is not known to be one.
pub(super) async fn open(
    found: &OpenedStore,
    address: &Address,
    options: &SourceOptions,
) -> Result<Option<ReferenceStore>> {
    let OpenedStore { spot, file, .. } = found;
    let opening = Opening { name: &address.text, options };
    if address.kind != StoreKind::Icechunk
        && address.kind != StoreKind::Any
        && address.kind != StoreKind::Reference
    {
        opening.no_version()?;
    }
    match address.kind {
        StoreKind::Manifest => return opening.manifest(spot, address.objects.as_deref()).await.map(Some),
        StoreKind::Json => return opening.certain_json(spot, address).await.map(Some),
        StoreKind::Parquet => return opening.parquet(spot).await.map(Some),
        StoreKind::Icechunk => return opening.icechunk(spot).await.map(Some),
        StoreKind::Reference | StoreKind::Any => {}
    }
    if *file {
        if address.kind == StoreKind::Any && !begins_as_document(spot).await? {
            return Err(no_zarr(spot).await?.with_store(&address.text));
        }
        return opening.certain_json(spot, address).await.map(Some);
    }
    // Archives and local files are inspected; elsewhere, only names with such a suffix.
    if !spot.remote || spot.place.is_none() {
        let spot = &unlogged(spot);
        if !spot.path.is_empty() && spot.place.is_none() && spot.store.exists(&spot.path).await? {
            return opening.certain_json(spot, address).await.map(Some);
        }
        return match folder(&spot.rooted()?).await? {
            Some(holds) => opening.folder(&found.spot, holds).await.map(Some),
            None if address.kind == StoreKind::Reference => Err(opening.none()),
            None => Ok(None),
        };
    }
    if is_named_json(spot, address)
        && let Some(store) = opening.json(spot).await?
    {
        return Ok(Some(store));
    }
    if address.kind == StoreKind::Any {
        return Ok(None);
    }
    if let Some(holds) = folder(&spot.rooted()?).await? {
        return opening.folder(spot, holds).await.map(Some);
    }
    match opening.json(spot).await? {
        Some(store) => Ok(Some(store)),
        None => Err(opening.none()),
    }
}

/// Checks again what a remote folder without a Zarr is; `None` if it is nothing known.
pub(super) async fn second_look(
    found: &OpenedStore,
    address: &Address,
    options: &SourceOptions,
) -> Result<Option<ReferenceStore>> {
    let spot = &found.spot;
    let opening = Opening { name: &address.text, options };
    if icechunk_here(&spot.rooted()?).await? {
        return opening.icechunk(spot).await.map(Some);
    }
    if is_named_json(spot, address) {
        // Already checked.
        return Ok(None);
    }
    match opening.json(spot).await {
        // An object that is something else, or a folder that a server shows as a page.
        Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => Ok(None),
        found => found,
    }
}

/// Opens a folder that is known to contain references in Parquet.
pub(super) async fn parquet(
    found: &OpenedStore,
    address: &Address,
    options: &SourceOptions,
) -> Result<ReferenceStore> {
    Opening { name: &address.text, options }.parquet(&found.spot).await
}

/// Whether the address ends with the name of a JSON document.
fn is_named_json(spot: &StoreLocation, address: &Address) -> bool {
    let path = match &spot.place {
        _ if !spot.path.is_empty() => spot.path.clone(),
        Some(StorePlace::Http(url)) => url.path().to_owned(),
        _ => address.text.clone(),
    };
    let path = path.to_ascii_lowercase();
    JSON_NAMES.iter().any(|end| path.ends_with(end))
}

/// As a plain store, with a noun for messages.
pub(super) fn shared(store: ReferenceStore) -> (SharedStore, &'static str) {
    let noun = store.map().noun();
    (Arc::new(store), noun)
}

/// The parameters for opening a reference store.
struct Opening<'a> {
    /// The address, for errors.
    name: &'a str,
    /// The caller's options: each target uses those for its own address.
    options: &'a SourceOptions,
}

impl Opening<'_> {
    /// Refuses options that apply to Icechunk repositories only: otherwise something else would be read than requested.
    fn no_version(&self) -> Result<()> {
        if self.options.version.is_none() {
            return Ok(());
        }
        let what = "branches, tags and snapshots exist only in Icechunk repositories, and this is not one";
        Err(Error::usage(what).with_store(self.name))
    }

    fn none(&self) -> Error {
        Error::not_found("no references found here, neither a JSON document nor a folder of Parquet")
            .with_store(self.name)
    }

    /// A map, with targets relative to `base`.
    async fn store(&self, map: SharedMap, base: StoreLocation) -> Result<ReferenceStore> {
        Ok(ReferenceStore::new(self.name, map, self.targets(base).await?))
    }

    async fn targets(&self, base: StoreLocation) -> Result<Arc<AnyTargets>> {
        let guarded = base.remote;
        let Some(root) = &self.options.references.root else {
            return Ok(Arc::new(AnyTargets::new(base, false, guarded, self.options)));
        };
        let address = Address::parse(root)?;
        let found = find(&address, &self.options.for_uri(&address.text)?).await?;
        Ok(Arc::new(AnyTargets::new(found.spot, true, guarded, self.options)))
    }

    async fn folder(&self, spot: &StoreLocation, holds: Holds) -> Result<ReferenceStore> {
        if holds == Holds::Parquet {
            self.no_version()?;
        }
        match holds {
            Holds::Parquet => self.parquet(spot).await,
            Holds::Icechunk => self.icechunk(spot).await,
        }
    }

    /// Kerchunk's Parquet in the folder `spot`.
    async fn parquet(&self, spot: &StoreLocation) -> Result<ReferenceStore> {
        let map = parquet_map(&spot.rooted()?, &self.options.store.context).await?;
        self.store(map, spot.clone()).await
    }

    /// An Icechunk repository in the folder `spot`, whose own chunks have relative addresses (`chunks/ID`).
    async fn icechunk(&self, spot: &StoreLocation) -> Result<ReferenceStore> {
        let version = self.options.version.clone().unwrap_or_default();
        let repository =
            Repository::open(spot.rooted()?, &version).await?.with_context(&self.options.store.context);
        let options = self.with_containers(&repository).await?;
        // Its own chunks stay its own, whatever root is named.
        let targets = AnyTargets::new(spot.clone(), false, spot.remote, &options);
        Ok(ReferenceStore::new(self.name, Arc::new(repository), Arc::new(targets)))
    }

    /// The options, completed by the repository's settings for its virtual chunks where the caller sets nothing.
    ///
    /// A repository may be anybody's: it may name a server only for unsigned requests, and only the caller may agree to
    /// costs.
    async fn with_containers(&self, repository: &Repository) -> Result<SourceOptions> {
        let mut options = self.options.clone();
        // Settings that cannot be read may not be needed; if they are, reading the chunk reports an error.
        for container in repository.containers().await.unwrap_or_default() {
            let prefix = &container.url_prefix;
            // A prefix with other characters could pass for an option of its own.
            let plain = prefix.strip_prefix("s3://").is_some_and(|p| !p.contains([':', '=']));
            let said = self.options.for_uri(prefix)?;
            let value =
                |name: &str| container.options.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
            let open = value("anonymous") == Some("true") && said.profile.is_none();
            let settings = [
                ("region", value("region").filter(|_| said.region.is_none())),
                ("anonymous", Some("true").filter(|_| open)),
                ("endpoint", value("endpoint_url").filter(|_| open && said.endpoint.is_none())),
            ];
            for (name, value) in settings {
                if let Some(value) = value.filter(|_| plain) {
                    // Invalid settings are ignored.
                    let _ = options.store.add_override(&format!("{prefix}:{name}={value}"));
                }
            }
        }
        Ok(options)
    }

    /// One version of a Zarr, by its manifest.
    async fn manifest(&self, spot: &StoreLocation, objects: Option<&str>) -> Result<ReferenceStore> {
        let objects = objects.or(self.options.objects.as_deref());
        #[cfg(feature = "manifest")]
        return super::manifest::open(self.name, spot, objects, self.options).await;
        #[cfg(not(feature = "manifest"))]
        {
            let _ = (spot, objects);
            Err(Error::without("manifest").with_store(self.name))
        }
    }

    /// The document at `spot`, which must exist.
    async fn certain_json(&self, spot: &StoreLocation, address: &Address) -> Result<ReferenceStore> {
        match self.json(spot).await? {
            Some(store) => Ok(store),
            None if address.kind == StoreKind::Any => Err(self.none()),
            None => Err(Error::not_found("no such document").with_store(self.name)),
        }
    }

    /// The document at `spot`; `None` if it does not exist.
    async fn json(&self, spot: &StoreLocation) -> Result<Option<ReferenceStore>> {
        // A location taken for a folder is an object of its parent.
        let spot = match &spot.place {
            Some(place) if spot.path.is_empty() => match place.split() {
                Some((above, name)) => {
                    let near = self.options.for_uri(self.name)?;
                    StoreLocation { path: name, ..StoreLocation::at(above, &near)? }
                }
                None => return Ok(None),
            },
            _ => spot.clone(),
        };
        let map = json::open(&spot.store, &spot.path, &self.options.references.templates).await;
        let Some(map) = map.map_err(|e| e.with_store(self.name))? else { return Ok(None) };
        self.no_version()?;
        let Some(base) = spot.above(&self.options.store) else { return Ok(None) };
        let targets = self.targets(base).await?;
        let local = map.urls().all(|url| url.is_ok_and(|url| targets.is_local(url)));
        Ok(Some(ReferenceStore::new(self.name, Arc::new(map), targets).at_hand(local)))
    }
}

/// The map of Kerchunk's Parquet: the root of `store` has the `.zmetadata`.
///
/// Relative addresses are tried as in `Remote::near`: from the folder, its parent, and the array's folder.
async fn parquet_map(store: &SharedStore, context: &Context) -> Result<SharedMap> {
    #[cfg(feature = "parquet")]
    return crate::reference::parquet::open(Arc::clone(store), context).await;
    #[cfg(not(feature = "parquet"))]
    {
        let _ = context;
        Err(Error::without("parquet").with_store(store))
    }
}
