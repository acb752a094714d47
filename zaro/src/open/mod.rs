//! From an address to a store.
//!
//! The one place that knows every kind of store. [`open_store`] takes what people have at hand: a path, a URI, an
//! address copied from a browser or a viewer.

mod address;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::address::{Address, Place};
use crate::error::{Error, Result};
use crate::group::{OpenOptions, Zarr};
use crate::store::local::LocalStore;
use crate::store::memory::MemoryStore;
use crate::store::options::StoreOptions;
use crate::store::wrap::log::LogStore;
use crate::store::wrap::prefix::PrefixStore;
use crate::store::zip::ZipStore;
use crate::store::zip::create::ZipCreateStore;
use crate::store::{Listing, SharedStore, Store};

/// Opens the Zarr that `uri` names; see [`open_store`] for what that can be.
///
/// Where that is the only folder of an archive, which [`open_store`] enters by itself, paths of nodes may begin with the
/// folder's name: it is what people see when they list the archive.
pub async fn open(uri: &str, options: &OpenOptions) -> Result<Zarr> {
    let Opened { store, entered } = locate(uri, &options.store).await?;
    Ok(Zarr::from_store(store, options.clone()).await?.inside(entered))
}

/// Opens the store that `uri` names, rooted where it points to.
///
/// A path, `file://`, `s3://bucket/prefix`, `gs://`, `az://container/prefix`, `abfs(s)://container@account…/prefix`,
/// `http(s)://` or `memory:`. A `.zip` or `.ozx` on the way is opened in place, local or remote; `zip://` and
/// `zip+https://` (or any other scheme) say that something is an archive whatever its name. `https` addresses of S3,
/// GCS and Azure become those stores, so that they can be listed. Closing slashes, fragments, the name of a metadata
/// document at the end, and the prefixes and suffixes of viewers (`zarr://…`, `…|zarr3:`) are cut off.
///
/// Nothing is asked of a remote store, except for an archive. A remote store comes with repetition of failed
/// requests, a limit per host, a cache and joined ranges, as the options say. Files come with the log only, if there is
/// one.
///
/// # Errors
/// `Usage` for what is no address; `Unsupported` for kinds of store that are not known; `NotFound` for an archive
/// that does not exist.
pub async fn open_store(uri: &str, options: &StoreOptions) -> Result<SharedStore> {
    locate(uri, options).await.map(|opened| opened.store)
}

/// A store as it was found.
struct Opened {
    store: SharedStore,
    /// The folder of an archive that was entered without being asked for.
    entered: Option<String>,
}

async fn locate(uri: &str, options: &StoreOptions) -> Result<Opened> {
    let address = Address::parse(uri)?;
    let options = options.for_uri(uri.trim())?;
    match &address.place {
        Place::Local(path) => open_local(path, &address, &options).await,
        Place::Memory => within(Arc::new(MemoryStore::new()), &address.inner),
        remote => open_remote(remote, &address, &options).await,
    }
}

/// Opens the store that `uri` names for writing. It need not exist.
///
/// A path, `file://`, `s3://`, `gs://`, `az://` or `abfs(s)://`, `memory:`; or a local `.zip` or `.ozx` that does not exist,
/// which is there when [`Store::finish`] was called. Whether writing is permitted shows when it is tried.
///
/// # Errors
/// `Unsupported` for web servers and remote archives; `NotPermitted` for an archive that exists; otherwise as
/// [`open_store`].
pub async fn open_store_for_writing(uri: &str, options: &StoreOptions) -> Result<SharedStore> {
    let address = Address::parse(uri)?;
    let options = options.for_uri(uri.trim())?;
    let store: SharedStore = match &address.place {
        Place::Local(path) => match archive_in(path, address.zip) {
            Some((archive, inside)) => {
                let inside = [inside.as_str(), address.inner.as_str()].into_iter().filter(|p| !p.is_empty());
                let inside = inside.collect::<Vec<_>>().join("/");
                return Ok(within(Arc::new(ZipCreateStore::create(archive)?), &inside)?.store);
            }
            None if path.is_file() => {
                return Err(Error::unsupported(format!("{} is a file; a Zarr is a folder", path.display())));
            }
            None => folder(path, &options),
        },
        Place::Memory => Arc::new(MemoryStore::new()),
        remote => writable_remote(remote, &address, &options)?,
    };
    Ok(within(store, &address.inner)?.store)
}

/// The archive that a path names or leads through, and the path in it. What exists as a folder is none.
fn archive_in(path: &Path, certain: bool) -> Option<(PathBuf, String)> {
    let named = |p: &&Path| {
        p.file_name().and_then(|n| n.to_str()).is_some_and(address::is_archive_name) && !p.is_dir()
    };
    let archive = path.ancestors().find(named).or(certain.then_some(path))?;
    let inside = path.strip_prefix(archive).ok()?.to_str()?;
    Some((archive.to_owned(), inside.to_owned()))
}

/// `store`, or what lies below `prefix` in it.
fn within(store: SharedStore, prefix: &str) -> Result<Opened> {
    let store = if prefix.is_empty() { store } else { Arc::new(PrefixStore::new(store, prefix)?) };
    Ok(Opened { store, entered: None })
}

/// A folder, with every access noted if the options have a log.
fn folder(path: impl Into<PathBuf>, options: &StoreOptions) -> SharedStore {
    let store = Arc::new(LocalStore::new(path).durable(options.durable));
    match &options.log {
        Some(log) => Arc::new(LogStore::new(store, Arc::clone(log))),
        None => store,
    }
}

async fn open_local(path: &Path, address: &Address, options: &StoreOptions) -> Result<Opened> {
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
        return within(folder(path, options), &address.inner);
    }
    if !address.zip && !is_archive(&outside)? {
        return Err(Error::unsupported(format!(
            "{} is a file and no ZIP archive; a Zarr is a folder or an archive of one",
            outside.display()
        )));
    }
    let name = outside.file_name().and_then(|n| n.to_str());
    let Some(name) = name.map(str::to_owned) else {
        return Err(Error::usage(format!("{} has no name that can be a key", outside.display())));
    };
    let parent =
        outside.parent().filter(|p| !p.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    inside.extend(address.inner.split('/').filter(|p| !p.is_empty()).map(str::to_owned));
    match open_zip(folder(parent, options), &name, &inside.join("/")).await? {
        Some(opened) => Ok(opened),
        None => Err(Error::not_found(format!("there is no archive {}", outside.display()))),
    }
}

/// Whether a file begins like a ZIP archive, or is called one.
fn is_archive(path: &Path) -> Result<bool> {
    use std::io::Read;
    let named = path.file_name().and_then(|n| n.to_str()).is_some_and(address::is_archive_name);
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| Error::from(e).with_store(path.display()))?;
    file.take(4).read_to_end(&mut start).map_err(|e| Error::from(e).with_store(path.display()))?;
    Ok(named || start == b"PK\x03\x04" || start == b"PK\x05\x06")
}

/// Opens the archive behind `key`, rooted at `inside` or, without that, at the folder the archive was made of.
async fn open_zip(store: SharedStore, key: &str, inside: &str) -> Result<Option<Opened>> {
    let Some(zip) = ZipStore::open(store, key).await? else { return Ok(None) };
    let folder = zip.common_folder().filter(|f| inside.is_empty() && is_made_of(key, f)).map(str::to_owned);
    let Some(folder) = folder else { return within(Arc::new(zip), inside).map(Some) };
    // A node of the folder's own name is meant when that name is given.
    let below = zip.list(&format!("{folder}/{folder}")).await?;
    let Opened { store, .. } = within(Arc::new(zip), &folder)?;
    Ok(Some(Opened { store, entered: (below == Listing::default()).then_some(folder) }))
}

/// Whether the only folder in an archive is the Zarr that was packed, and not a node of it: it is called like the
/// archive, or like a Zarr.
fn is_made_of(archive: &str, folder: &str) -> bool {
    let stem = archive.rsplit_once('.').map_or(archive, |(stem, _)| stem);
    folder.ends_with(".zarr") || folder == stem || stem.strip_suffix(".zarr") == Some(folder)
}

#[cfg(feature = "cloud")]
async fn open_remote(place: &Place, address: &Address, options: &StoreOptions) -> Result<Opened> {
    // Where an archive may lie on the way: `a/b.zip/c` is the entries below `c` of `b.zip` in `a`.
    if let Some((folder, name, inside)) = place.archive(address.zip) {
        let folder = connect(&folder, options)?;
        let inside = [inside.as_str(), address.inner.as_str()].into_iter().filter(|p| !p.is_empty());
        match open_zip(folder, &name, &inside.collect::<Vec<_>>().join("/")).await {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) if address.zip => return Err(Error::not_found(format!("there is no archive {name}"))),
            // A folder may be called like an archive.
            Ok(None) => {}
            Err(e) => return Err(e),
        }
    }
    within(connect(place, options)?, &address.inner)
}

/// The store at a remote place that can be written to.
#[cfg(feature = "cloud")]
fn writable_remote(place: &Place, address: &Address, options: &StoreOptions) -> Result<SharedStore> {
    if let Some((_, name, _)) = place.archive(address.zip) {
        return Err(Error::unsupported(format!(
            "{name} would be a remote archive, which cannot be written; make it here and copy it there"
        )));
    }
    if let Place::Http(url) = place {
        return Err(Error::unsupported("web servers cannot be written to").with_store(url));
    }
    connect(place, options)
}

/// The store at a remote place, with everything remote stores come with.
#[cfg(feature = "cloud")]
fn connect(place: &Place, options: &StoreOptions) -> Result<SharedStore> {
    use crate::store::http::HttpStore;
    use crate::store::object::CloudStore;
    let cloud = match place {
        Place::Http(url) => {
            let store = HttpStore::new(url.as_str(), options)?;
            let host = store.host();
            return Ok(wrapped(Arc::new(store), &host, options));
        }
        Place::S3 { bucket, path, aws: None } => CloudStore::s3(bucket, path, options)?,
        Place::S3 { bucket, path, aws: Some(region) } => {
            CloudStore::s3_at_aws(bucket, path, region.as_deref(), options)?
        }
        Place::Gcs { bucket, path } => CloudStore::gcs(bucket, path, options)?,
        Place::Azure { account, container, path, sas } => {
            CloudStore::azure(account.as_deref(), container, path, sas.as_deref(), options)?
        }
        Place::Local(_) | Place::Memory => return Err(Error::usage("not a remote address")),
    };
    let host = cloud.host().to_owned();
    Ok(wrapped(Arc::new(cloud), &host, options))
}

#[cfg(not(feature = "cloud"))]
fn writable_remote(_: &Place, _: &Address, _: &StoreOptions) -> Result<SharedStore> {
    Err(Error::unsupported("this zaro was built without remote stores (feature `cloud`)"))
}

#[cfg(not(feature = "cloud"))]
async fn open_remote(_: &Place, _: &Address, _: &StoreOptions) -> Result<Opened> {
    Err(Error::unsupported("this zaro was built without remote stores (feature `cloud`)"))
}

/// A remote store as users get it: `cache(gather(coalesce(retry(limit(log(store))))))`.
pub fn wrapped(store: Arc<dyn Store>, host: &str, options: &StoreOptions) -> SharedStore {
    use crate::store::wrap::{cache, coalesce, gather, limit, retry};
    let mut store = store;
    if let Some(log) = &options.log {
        store = Arc::new(LogStore::new(store, Arc::clone(log)));
    }
    store = Arc::new(limit::LimitStore::new(store, host, options.concurrency));
    store = Arc::new(retry::RetryStore::new(store, options.retry.clone()));
    store = Arc::new(coalesce::CoalesceStore::new(store));
    store = Arc::new(gather::GatherStore::new(store));
    if options.cache > 0 {
        store = Arc::new(cache::CacheStore::new(store, options.cache));
    }
    store
}
