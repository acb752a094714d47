//! Opening: from an address to a store or a Zarr.
//!
//! The only module that knows every kind of store. [`open_store`] accepts a path, a URI, or an address copied from a
//! browser or a viewer.

mod address;
mod archive;
#[cfg(feature = "cloud")]
mod bucket;
mod connect;
mod look;
#[cfg(feature = "manifest")]
mod manifest;
mod options;
#[cfg_attr(not(feature = "references"), path = "no_reference.rs")]
mod reference;
mod spot;
#[cfg(feature = "references")]
mod targets;
mod top;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::address::{Address, StoreKind, StorePlace};
use self::archive::{archive_in, is_archive, open_zip};
#[cfg(feature = "cloud")]
pub use self::bucket::{is_bucket, open_bucket};
#[cfg(feature = "cloud")]
use self::connect::connect;
use self::connect::folder;
pub use self::connect::wrapped;
#[cfg(feature = "manifest")]
pub use self::manifest::read_manifest;
pub use self::options::SourceOptions;
use self::reference::ReferenceStore;
use self::spot::StoreLocation;
pub use self::top::{from_the_top, is_of_zarr};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result, redacted};
use crate::group::{OpenOptions, Zarr};
use crate::store::StoreExt as _;
use crate::store::memory::MemoryStore;
use crate::store::options::StoreOptions;
use crate::store::wrap::prefix::PrefixStore;
use crate::store::zip::ZipStore;
use crate::store::zip::create::{ZipCreateStore, ZipForm};
use crate::store::{Listing, SharedStore, join};
use crate::suggest;

/// Opens the Zarr that `uri` names; see [`open_store`] for what that can be.
///
/// If [`open_store`] enters the only folder of an archive by itself, paths of nodes may begin with the folder's name:
/// it is what people see when they list the archive. A remote folder that is not a Zarr is checked again: it may
/// contain references in Parquet or an Icechunk repository, or be a document of references.
#[boxed]
pub async fn open(uri: &str, options: &OpenOptions) -> Result<Zarr> {
    open_with(uri, &SourceOptions::from(&options.store), options).await
}

/// The same, with `source` for reaching the store; of the store options in `options` only the context is used.
#[boxed]
pub async fn open_with(uri: &str, source: &SourceOptions, options: &OpenOptions) -> Result<Zarr> {
    let address = Address::parse(uri)?;
    let (found, reference) = locate(&address, source).await?;
    if let Some(store) = reference {
        return referenced(&found, store, uri, options).await;
    }
    if let Some(StorePlace::Local(path)) = &found.spot.place {
        check_exists(path)?;
    }
    let zarr = Zarr::from_store(found.spot.rooted()?, options.clone()).await;
    if found.is_settled() || address.kind != StoreKind::Any {
        return Ok(zarr?.inside(found.entered));
    }
    let other = match &zarr {
        Ok(zarr) if zarr.holds_references() => Some(reference::parquet(&found, &address, source).await?),
        Ok(zarr) if zarr.has_root() => None,
        Err(e) if e.kind() != ErrorKind::NotPermitted => None,
        _ => reference::second_look(&found, &address, source).await?,
    };
    match other {
        Some(store) => referenced(&found, store, uri, options).await,
        None => Ok(zarr?.inside(found.entered)),
    }
}

/// Opens the Zarr that references describe.
async fn referenced(
    found: &OpenedStore,
    store: ReferenceStore,
    uri: &str,
    options: &OpenOptions,
) -> Result<Zarr> {
    let (store, noun) = reference::shared(store);
    let zarr = Zarr::from_store(found.within(store)?, options.clone()).await?;
    if !zarr.has_root() && zarr.store().list("").await? == Listing::default() && found.beyond.is_empty() {
        return Err(Error::not_found(format!("this is {noun} that is still empty")).with_store(uri));
    }
    Ok(zarr.of_references())
}

/// Distinguishes a missing file or folder from one without a Zarr.
fn check_exists(path: &Path) -> Result<()> {
    /// No more names in a folder than this are compared.
    const MOST: usize = 10_000;
    if path.as_os_str().is_empty() || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let mut missing = path;
    let mut folder = Path::new("");
    for above in path.ancestors().skip(1) {
        folder = above;
        if above.as_os_str().is_empty() || above.exists() {
            break;
        }
        missing = above;
    }
    let name = missing.file_name().unwrap_or_default().to_string_lossy();
    let mut what = "no such file or folder".to_owned();
    if missing != path {
        what.push_str(&format!(" ({} does not exist)", missing.display()));
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(here).into_iter().flatten().take(MOST).flatten();
    let names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    if let Some(meant) = suggest::closest(&name, names.iter().map(String::as_str)) {
        let rest = path.strip_prefix(missing).unwrap_or(Path::new(""));
        let mut meant = folder.join(meant);
        if !rest.as_os_str().is_empty() {
            meant.push(rest);
        }
        what.push_str(&format!("; did you mean {:?}?", meant.to_string_lossy()));
    }
    Err(Error::not_found(what).with_store(path.display()))
}

/// Opens the store at `uri`, rooted there.
///
/// A path, `file://`, `s3://bucket/prefix`, `gs://`, `az://container/prefix`, `abfs(s)://container@account…/prefix`,
/// `http(s)://` or `memory:`. A `.zip` or `.ozx` on the way is opened in place, local or remote; `zip://` and
/// `zip+https://` (or any other scheme) declare an archive whatever its name. `https` URLs of S3, GCS and Azure become
/// those stores, so that they can be listed. Trailing slashes, fragments, the name of a metadata document at the end,
/// and the prefixes and suffixes of viewers (`zarr://…`, `…|zarr3:`) are removed.
///
/// Reference stores are detected by their content, and by `reference+json://`, `reference+parquet://`,
/// `virtualizarr://`, `kerchunk://`, `reference://::URL`, `icechunk://`, `icechunk+s3://…`, `manifest+URI` before the
/// address.
///
/// No request is sent to a remote store, except for an archive and for names ending in `.json` (also `.gz`, `.zst`),
/// which may be documents of references. A remote store comes with retries, a limit per host, a cache and coalesced
/// ranges, according to the options. Local stores only have the log, if there is one.
///
/// # Errors
/// `Usage` for an invalid address; `Unsupported` for an unknown kind of store; `NotFound` for an archive that does not
/// exist.
pub async fn open_store(uri: &str, options: impl Into<SourceOptions>) -> Result<SharedStore> {
    open_source(uri, &options.into()).await
}

#[boxed]
async fn open_source(uri: &str, options: &SourceOptions) -> Result<SharedStore> {
    let (found, reference) = locate(&Address::parse(uri)?, options).await?;
    match reference {
        Some(store) => found.within(reference::shared(store).0),
        None => found.spot.rooted(),
    }
}

/// Opens the archive at `uri`, with the entries as they are; `None` if it is something else, or inside an archive.
#[boxed]
pub async fn open_archive(uri: &str, options: &StoreOptions) -> Result<Option<ZipStore>> {
    let address = Address::parse(uri)?;
    let options = options.for_uri(&address.text)?;
    if address.kind != StoreKind::Any || !address.inner.is_empty() {
        return Ok(None);
    }
    let (folder, name) = match &address.place {
        StorePlace::Local(path) => {
            if !path.is_file() || (!address.zip && !is_archive(path)?) {
                return Ok(None);
            }
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Ok(None) };
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            (StorePlace::Local(parent.to_owned()), name.to_owned())
        }
        #[cfg(feature = "cloud")]
        remote => match remote.archive(address.zip) {
            Some((folder, name, inside)) if inside.is_empty() => (folder, name),
            _ => return Ok(None),
        },
        #[cfg(not(feature = "cloud"))]
        _ => return Ok(None),
    };
    ZipStore::open(StoreLocation::at(folder, &options)?.store, &name).await
}

/// Opens the reference store at `uri`: its map tells where bytes are stored, and its targets how to get there.
///
/// # Errors
/// `NotFound` if it is not a reference store; otherwise as [`open_store`].
#[cfg(feature = "references")]
pub async fn open_references(uri: &str, options: impl Into<SourceOptions>) -> Result<ReferenceStore> {
    open_map(uri, &options.into()).await
}

#[cfg(feature = "references")]
#[boxed]
async fn open_map(uri: &str, options: &SourceOptions) -> Result<ReferenceStore> {
    let address = Address::parse(uri)?;
    let (found, reference) = locate(&address, options).await?;
    if let Some(store) = reference {
        return Ok(store);
    }
    let other = match found.is_settled() {
        true => None,
        false => {
            let said = Address { kind: StoreKind::Reference, ..address.clone() };
            match reference::open(&found, &said, options).await {
                Ok(store) => store,
                Err(e) if e.is_not_found() => reference::second_look(&found, &address, options).await?,
                Err(e) => return Err(e),
            }
        }
    };
    other.ok_or_else(|| Error::not_found("this is not a reference store").with_store(uri))
}

/// What an address leads to.
#[derive(Debug)]
struct OpenedStore {
    /// The folder, or the object.
    spot: StoreLocation,
    /// Whether it is an object, and not an archive.
    file: bool,
    /// The part of the path beyond that object.
    beyond: String,
    /// The folder of an archive that was entered automatically.
    entered: Option<String>,
}

impl OpenedStore {
    fn folder(spot: StoreLocation) -> Self {
        Self { spot, file: false, beyond: String::new(), entered: None }
    }

    /// Whether the kind of store is known without reading a Zarr.
    fn is_settled(&self) -> bool {
        !self.spot.remote || self.spot.place.is_none()
    }

    /// The addressed part of a store.
    fn within(&self, store: SharedStore) -> Result<SharedStore> {
        if self.beyond.is_empty() {
            return Ok(store);
        }
        Ok(Arc::new(PrefixStore::new(store, &self.beyond)?))
    }
}

/// What the address leads to, and the reference store, if it is known to be one.
async fn locate(address: &Address, options: &SourceOptions) -> Result<(OpenedStore, Option<ReferenceStore>)> {
    tracing::debug!(target: "zaro::open", address = &*redacted(&address.text), "open");
    let found = find(address, &options.for_uri(&address.text)?).await?;
    let reference = reference::open(&found, address, options).await?;
    Ok((found, reference))
}

/// What the address leads to, as far as names and local files tell.
async fn find(address: &Address, options: &StoreOptions) -> Result<OpenedStore> {
    match &address.place {
        StorePlace::Local(path) => open_local(path, address, options).await,
        StorePlace::Memory => {
            let spot = StoreLocation {
                store: Arc::new(MemoryStore::new()),
                path: address.inner.clone(),
                place: Some(StorePlace::Memory),
                remote: false,
            };
            Ok(OpenedStore::folder(spot))
        }
        remote => open_remote(remote, address, options).await,
    }
}

/// Opens the store at `uri` for writing. It need not exist.
///
/// A path, `file://`, `s3://`, `gs://`, `az://` or `abfs(s)://`, `memory:`; or a new local `.zip` or `.ozx`, which
/// appears after [`Store::finish`](crate::store::Store::finish). Permissions are checked on the first write.
///
/// # Errors
/// `Unsupported` for web servers and remote archives; `NotPermitted` for an archive that exists; otherwise as
/// [`open_store`].
#[boxed]
pub async fn open_store_for_writing(uri: &str, options: &StoreOptions) -> Result<SharedStore> {
    tracing::debug!(target: "zaro::open", address = &*redacted(uri), "open for writing");
    let address = Address::parse(uri)?;
    if address.kind != StoreKind::Any {
        return Err(Error::unsupported("a reference store cannot be written to").with_store(uri));
    }
    let options = options.for_uri(&address.text)?;
    let store: SharedStore = match &address.place {
        StorePlace::Local(path) => match archive_in(path, address.zip) {
            Some((archive, inside)) => {
                let is_ozx = archive.extension().is_some_and(|e| e.eq_ignore_ascii_case("ozx"));
                let form = if is_ozx { ozx_form() } else { ZipForm::default() };
                let store = ZipCreateStore::create_as(archive, form)?;
                return rooted(Arc::new(store), &joined(&inside, &address.inner));
            }
            None if path.is_file() => {
                return Err(Error::unsupported(format!("{} is a file; a Zarr is a folder", path.display())));
            }
            None => folder(path, &options),
        },
        StorePlace::Memory => Arc::new(MemoryStore::new()),
        remote => writable_remote(remote, &address, &options)?,
    };
    rooted(store, &address.inner)
}

/// Fails if a store is known to contain references or a repository: a new Zarr in it would hide them.
#[boxed]
pub async fn refuse_references(store: &SharedStore) -> Result<()> {
    // If detection fails, there is nothing that a Zarr would hide.
    match look::holds_references(store).await.unwrap_or(false) {
        true => {
            Err(Error::unsupported("this is a reference store or a repository, which cannot be written to")
                .with_store(store))
        }
        false => Ok(()),
    }
}

/// The form in which an `.ozx` archive is written, according to its specification.
fn ozx_form() -> ZipForm {
    #[cfg(feature = "image")]
    return crate::image::ozx::form();
    #[cfg(not(feature = "image"))]
    ZipForm::default()
}

/// The part of `store` below `path`, as a store.
fn rooted(store: SharedStore, path: &str) -> Result<SharedStore> {
    if path.is_empty() { Ok(store) } else { Ok(Arc::new(PrefixStore::new(store, path)?)) }
}

/// Joins two paths, either of which may be empty.
fn joined(outer: &str, inner: &str) -> String {
    match (outer.is_empty(), inner.is_empty()) {
        (_, true) => outer.to_owned(),
        (true, false) => inner.to_owned(),
        (false, false) => join(outer, inner),
    }
}

async fn open_local(path: &Path, address: &Address, options: &StoreOptions) -> Result<OpenedStore> {
    // The longest part of the path that is a file: an archive, with the rest of the path inside.
    let mut outside = path.to_owned();
    let mut inside: Vec<String> = Vec::new();
    while !outside.exists()
        && let (Some(parent), Some(name)) = (outside.parent().map(Path::to_owned), outside.file_name())
    {
        inside.insert(0, name.to_string_lossy().into_owned());
        outside = parent;
    }
    if !outside.is_file() {
        if address.zip {
            return Err(Error::not_found(format!("there is no archive {}", path.display())));
        }
        let spot = StoreLocation::at(StorePlace::Local(path.to_owned()), options)?;
        return Ok(OpenedStore::folder(spot.child(&address.inner)));
    }
    let name = outside.file_name().and_then(|n| n.to_str());
    let Some(name) = name.map(str::to_owned) else {
        return Err(Error::usage(format!("the name of {} cannot be a key", outside.display())));
    };
    let parent =
        outside.parent().filter(|p| !p.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    inside.extend(address.inner.split('/').filter(|p| !p.is_empty()).map(str::to_owned));
    let inside = inside.join("/");
    let spot = StoreLocation::at(StorePlace::Local(parent), options)?;
    if !address.zip && !is_archive(&outside)? {
        let spot = spot.child(&name);
        return Ok(OpenedStore { spot, file: true, beyond: inside, entered: None });
    }
    match open_zip(&spot, &name, &inside).await? {
        Some(found) => Ok(found),
        None => Err(Error::not_found(format!("there is no archive {}", outside.display()))),
    }
}

#[cfg(feature = "cloud")]
async fn open_remote(place: &StorePlace, address: &Address, options: &StoreOptions) -> Result<OpenedStore> {
    // An archive on the way: `a/b.zip/c` is the entries below `c` of `b.zip` in `a`.
    if let Some((folder, name, inside)) = place.archive(address.zip) {
        let spot = StoreLocation::at(folder, options)?;
        match open_zip(&spot, &name, &joined(&inside, &address.inner)).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if address.zip => return Err(Error::not_found(format!("there is no archive {name}"))),
            // A folder may be named like an archive.
            Ok(None) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(OpenedStore::folder(StoreLocation::at(place.clone(), options)?.child(&address.inner)))
}

/// The writable store at a remote location.
#[cfg(feature = "cloud")]
fn writable_remote(place: &StorePlace, address: &Address, options: &StoreOptions) -> Result<SharedStore> {
    if let Some((_, name, _)) = place.archive(address.zip) {
        return Err(Error::unsupported(format!(
            "{name} would be a remote archive, which cannot be written; create it locally and upload it"
        )));
    }
    if let StorePlace::Http(url) = place {
        return Err(Error::unsupported("web servers are read-only").with_store(url));
    }
    // Cached responses may be outdated, and a writer has to see the changes of others.
    let mut options = options.clone();
    options.cache = false;
    connect(place, &options)
}

#[cfg(not(feature = "cloud"))]
fn writable_remote(_: &StorePlace, _: &Address, _: &StoreOptions) -> Result<SharedStore> {
    Err(Error::unsupported("this zaro was built without remote stores (feature `cloud`)"))
}

#[cfg(not(feature = "cloud"))]
async fn open_remote(_: &StorePlace, _: &Address, _: &StoreOptions) -> Result<OpenedStore> {
    Err(Error::unsupported("this zaro was built without remote stores (feature `cloud`)"))
}
