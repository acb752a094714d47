//! Reference stores: how they are told from plain ones, and opened.

use std::sync::Arc;

use super::address::{Address, Kind, Place};
use super::spot::Spot;
use super::targets::AnyTargets;
use super::{Found, SourceOptions, find};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Hint, Result};
use crate::meta::Json;
use crate::reference::icechunk::Repository;
use crate::reference::{ReferenceStore, SharedMap, json};
use crate::store::local::LocalStore;
use crate::store::{ByteRange, SharedStore, StoreExt as _};

/// The first bytes of every file of an Icechunk repository.
const ICECHUNK: &[u8] = b"ICE\xF0\x9F\xA7\x8ACHUNK";

/// Names of JSON documents, which may be references.
const JSON_NAMES: [&str; 5] = [".json", ".json.gz", ".json.zst", ".json.zstd", ".json.gzip"];

/// What a folder holds besides, or instead of, a Zarr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Parquet,
    Icechunk,
}

/// The reference store that was found; `None` if what was found is none, as far as it is known.
pub(super) async fn open(
    found: &Found,
    address: &Address,
    options: &SourceOptions,
) -> Result<Option<ReferenceStore>> {
    let Found { spot, file, .. } = found;
    let opening = Opening { name: &address.text, options };
    if address.kind != Kind::Icechunk && address.kind != Kind::Any && address.kind != Kind::Reference {
        opening.no_version()?;
    }
    match address.kind {
        Kind::Manifest => return opening.manifest(spot, address.objects.as_deref()).await.map(Some),
        Kind::Json => return opening.certain_json(spot, address).await.map(Some),
        Kind::Parquet => return opening.parquet(spot).await.map(Some),
        Kind::Icechunk => return opening.icechunk(spot).await.map(Some),
        Kind::Reference | Kind::Any => {}
    }
    if *file {
        if address.kind == Kind::Any && !begins_as_document(spot).await? {
            return Err(no_zarr(spot).await?.with_store(&address.text));
        }
        return opening.certain_json(spot, address).await.map(Some);
    }
    // What lies in an archive or on this machine is looked at; elsewhere, only what is called so.
    if !spot.remote || spot.place.is_none() {
        let spot = &unlogged(spot);
        if !spot.path.is_empty() && spot.place.is_none() && spot.store.exists(&spot.path).await? {
            return opening.certain_json(spot, address).await.map(Some);
        }
        return match folder(&spot.rooted()?).await? {
            Some(holds) => opening.folder(&found.spot, holds).await.map(Some),
            None if address.kind == Kind::Reference => Err(opening.none()),
            None => Ok(None),
        };
    }
    if is_named_json(spot, address)
        && let Some(store) = opening.json(spot).await?
    {
        return Ok(Some(store));
    }
    if address.kind == Kind::Any {
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

/// What a remote folder turns out to be that is no Zarr; `None` if it is nothing that is known.
pub(super) async fn second_look(
    found: &Found,
    address: &Address,
    options: &SourceOptions,
) -> Result<Option<ReferenceStore>> {
    let spot = &found.spot;
    let opening = Opening { name: &address.text, options };
    if icechunk_here(&spot.rooted()?).await? {
        return opening.icechunk(spot).await.map(Some);
    }
    if is_named_json(spot, address) {
        // It was looked for already.
        return Ok(None);
    }
    match opening.json(spot).await {
        // An object that is something else, or a folder that a server shows as a page.
        Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => Ok(None),
        found => found,
    }
}

/// The folder that is known to hold references in Parquet.
pub(super) async fn parquet(
    found: &Found,
    address: &Address,
    options: &SourceOptions,
) -> Result<ReferenceStore> {
    Opening { name: &address.text, options }.parquet(&found.spot).await
}

/// Whether the name at the end of the address is that of a JSON document.
fn is_named_json(spot: &Spot, address: &Address) -> bool {
    let path = match &spot.place {
        _ if !spot.path.is_empty() => spot.path.clone(),
        Some(Place::Http(url)) => url.path().to_owned(),
        _ => address.text.clone(),
    };
    let path = path.to_ascii_lowercase();
    JSON_NAMES.iter().any(|end| path.ends_with(end))
}

/// The same spot, so that looking at it is not taken down in the log of requests.
fn unlogged(spot: &Spot) -> Spot {
    match &spot.place {
        Some(Place::Local(path)) => Spot { store: Arc::new(LocalStore::new(path)), ..spot.clone() },
        _ => spot.clone(),
    }
}

/// Whether the folder that `store` begins at holds references in Parquet or an Icechunk repository.
pub(super) async fn holds_references(store: &SharedStore) -> Result<bool> {
    Ok(folder(store).await?.is_some())
}

/// What the folder that `store` begins at holds.
async fn folder(store: &SharedStore) -> Result<Option<Holds>> {
    if store.exists("zarr.json").await? {
        return Ok(None);
    }
    if let Some(bytes) = store.get(".zmetadata", None).await?
        && bytes.windows(13).any(|w| w == b"\"record_size\"")
        && Json::parse(&bytes).is_ok_and(|d| d.value.get("record_size").is_some())
    {
        return Ok(Some(Holds::Parquet));
    }
    Ok(icechunk_here(store).await?.then_some(Holds::Icechunk))
}

/// Whether an Icechunk repository begins at the root of `store`.
async fn icechunk_here(store: &SharedStore) -> Result<bool> {
    let size = store.size("repo").await.or_else(refused)?;
    if size.is_some_and(|n| n > 39) {
        let start = store.get("repo", Some(ByteRange::span(0, 12))).await?;
        return Ok(start.is_some_and(|b| *b == *ICECHUNK));
    }
    // The first edition has a file a branch.
    if store.get("refs/branch.main/ref.json", None).await.or_else(refused)?.is_some() {
        return Ok(true);
    }
    match store.list("refs").await {
        Ok(refs) => Ok(refs.prefixes.iter().any(|r| r.starts_with("branch.") || r.starts_with("tag."))),
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::NotPermitted) => Ok(false),
        Err(e) => Err(e),
    }
}

/// A server that refuses what it does not have has nothing.
fn refused<T>(e: Error) -> Result<Option<T>> {
    if e.kind() == ErrorKind::NotPermitted { Ok(None) } else { Err(e) }
}

/// What opening a reference store needs to know.
struct Opening<'a> {
    /// The address, as errors name it.
    name: &'a str,
    /// The options as the caller gave them: each target takes those for itself.
    options: &'a SourceOptions,
}

/// What to say of a file that is no Zarr, and what helps.
async fn no_zarr(spot: &Spot) -> Result<Error> {
    let spot = unlogged(spot);
    let size = spot.store.size(&spot.path).await?.unwrap_or(0).min(8);
    let start = spot.store.get(&spot.path, Some(ByteRange::span(0, size))).await?.unwrap_or_default();
    Ok(Error::unsupported(match &*start {
        [b'C', b'D', b'F', 1 | 2 | 5, ..] | [0x89, b'H', b'D', b'F', ..] => {
            "this is a NetCDF or HDF5 file, no Zarr; make references to it with kerchunk or VirtualiZarr, and open those"
        }
        [b'G', b'R', b'I', b'B', ..] => {
            "this is a GRIB file, no Zarr; make references to it with kerchunk, and open those"
        }
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => {
            let convert = Hint::operation("image convert", "makes an OME-Zarr of it");
            return Ok(Error::unsupported("this is a TIFF file, no Zarr").or_hint(convert));
        }
        _ => "a file, but neither a ZIP archive nor references; a Zarr is a folder or one of these",
    }))
}

/// Whether a file begins as a JSON object does, or as what may hold one.
async fn begins_as_document(spot: &Spot) -> Result<bool> {
    let spot = unlogged(spot);
    let Some(size) = spot.store.size(&spot.path).await? else { return Ok(true) };
    let start = spot.store.get(&spot.path, Some(ByteRange::span(0, size.min(64)))).await?.unwrap_or_default();
    let packed = start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start();
    Ok(packed || text.is_empty() || text.starts_with(b"{"))
}

impl Opening<'_> {
    /// Refuses options that mean something to Icechunk repositories only: what was asked for is not what would be read.
    fn no_version(&self) -> Result<()> {
        if self.options.version.is_none() {
            return Ok(());
        }
        let what = "branches, tags and snapshots are of Icechunk repositories, and this is none";
        Err(Error::usage(what).with_store(self.name))
    }

    fn none(&self) -> Error {
        Error::not_found("there are no references here, neither a JSON document nor a folder of Parquet")
            .with_store(self.name)
    }

    /// A map, with its targets from where `base` is on.
    async fn store(&self, map: SharedMap, base: Spot) -> Result<ReferenceStore> {
        Ok(ReferenceStore::new(self.name, map, self.targets(base).await?))
    }

    async fn targets(&self, base: Spot) -> Result<Arc<AnyTargets>> {
        let guarded = base.remote;
        let Some(root) = &self.options.references.root else {
            return Ok(Arc::new(AnyTargets::new(base, false, guarded, self.options)));
        };
        let address = Address::parse(root)?;
        let found = find(&address, &self.options.for_uri(&address.text)?).await?;
        Ok(Arc::new(AnyTargets::new(found.spot, true, guarded, self.options)))
    }

    async fn folder(&self, spot: &Spot, holds: Holds) -> Result<ReferenceStore> {
        if holds == Holds::Parquet {
            self.no_version()?;
        }
        match holds {
            Holds::Parquet => self.parquet(spot).await,
            Holds::Icechunk => self.icechunk(spot).await,
        }
    }

    /// Kerchunk's Parquet in the folder `spot`.
    async fn parquet(&self, spot: &Spot) -> Result<ReferenceStore> {
        let map = parquet_map(&spot.rooted()?, &self.options.store.context).await?;
        self.store(map, spot.clone()).await
    }

    /// An Icechunk repository in the folder `spot`, whose own chunks have relative addresses (`chunks/ID`).
    async fn icechunk(&self, spot: &Spot) -> Result<ReferenceStore> {
        let version = self.options.version.clone().unwrap_or_default();
        let repository =
            Repository::open(spot.rooted()?, &version).await?.with_context(&self.options.store.context);
        let options = self.with_containers(&repository).await?;
        // Its own chunks are its own, whatever root is named.
        let targets = AnyTargets::new(spot.clone(), false, spot.remote, &options);
        Ok(ReferenceStore::new(self.name, Arc::new(repository), Arc::new(targets)))
    }

    /// The options, with what a repository says of the places of its virtual chunks where the caller says nothing.
    ///
    /// A repository may be anybody's: it may name a server only for requests that are not signed, and what costs money
    /// is the caller's to say.
    async fn with_containers(&self, repository: &Repository) -> Result<SourceOptions> {
        let mut options = self.options.clone();
        // Settings that cannot be had may hold nothing that is needed; if they do, the chunk in question says so.
        for container in repository.containers().await.unwrap_or_default() {
            let prefix = &container.url_prefix;
            // A prefix with more in it could pass for an option of its own.
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
                    // What makes no sense is as good as unsaid.
                    let _ = options.store.add_override(&format!("{prefix}:{name}={value}"));
                }
            }
        }
        Ok(options)
    }

    /// One version of a Zarr, by its manifest.
    async fn manifest(&self, spot: &Spot, objects: Option<&str>) -> Result<ReferenceStore> {
        let objects = objects.or(self.options.objects.as_deref());
        super::manifest::open(self.name, spot, objects, self.options).await
    }

    /// The document at `spot`, which must be there.
    async fn certain_json(&self, spot: &Spot, address: &Address) -> Result<ReferenceStore> {
        match self.json(spot).await? {
            Some(store) => Ok(store),
            None if address.kind == Kind::Any => Err(self.none()),
            None => Err(Error::not_found("there is no such document").with_store(self.name)),
        }
    }

    /// The document at `spot`; `None` if there is none.
    async fn json(&self, spot: &Spot) -> Result<Option<ReferenceStore>> {
        // A place that was taken for a folder is taken for an object of the folder above it.
        let spot = match &spot.place {
            Some(place) if spot.path.is_empty() => match place.split() {
                Some((above, name)) => {
                    let near = self.options.for_uri(self.name)?;
                    Spot { path: name, ..Spot::at(above, &near)? }
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

/// The map of Kerchunk's Parquet: `store` begins at the folder with `.zmetadata`.
///
/// Relative addresses are those of `Remote::near`: from the folder, from what it lies in, from the array's folder.
async fn parquet_map(store: &SharedStore, context: &Context) -> Result<SharedMap> {
    crate::reference::parquet::open(Arc::clone(store), context).await
}
