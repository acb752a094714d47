//! Connecting to the store at a location.

use std::path::PathBuf;
use std::sync::Arc;

use super::address::StorePlace;
use crate::error::{Error, Result};
use crate::store::local::LocalStore;
use crate::store::options::StoreOptions;
use crate::store::wrap::log::LogStore;
#[cfg(feature = "cloud")]
use crate::store::wrap::reopen::ReopenStore;
use crate::store::{SharedStore, Store};

/// A local folder, with all accesses logged if the options have a log.
pub(super) fn folder(path: impl Into<PathBuf>, options: &StoreOptions) -> SharedStore {
    let store = Arc::new(LocalStore::new(path).durable(options.durable));
    match &options.log {
        Some(log) => Arc::new(LogStore::new(store, Arc::clone(log))),
        None => store,
    }
}

/// The store at a remote location, with all wrappers of remote stores.
#[cfg(feature = "cloud")]
pub(super) fn connect(place: &StorePlace, options: &StoreOptions) -> Result<SharedStore> {
    let (place, options) = (place.clone(), options.clone());
    ReopenStore::around(move || connect_here(&place, &options))
}

#[cfg(feature = "cloud")]
fn connect_here(place: &StorePlace, options: &StoreOptions) -> Result<SharedStore> {
    use crate::store::http::HttpStore;
    use crate::store::object::CloudStore;
    let cloud = match place {
        StorePlace::Http(url) => {
            let store = HttpStore::new(url.as_str(), options)?;
            let host = store.host();
            return Ok(wrapped(Arc::new(store), &host, options));
        }
        StorePlace::S3 { bucket, path, aws: None } => CloudStore::s3(bucket, path, options)?,
        StorePlace::S3 { bucket, path, aws: Some(region) } => {
            CloudStore::s3_at_aws(bucket, path, region.as_deref(), options)?
        }
        StorePlace::Gcs { bucket, path } => CloudStore::gcs(bucket, path, options)?,
        StorePlace::Azure { account, container, path, sas } => {
            CloudStore::azure(account.as_deref(), container, path, sas.as_deref(), options)?
        }
        StorePlace::Local(_) | StorePlace::Memory => return Err(Error::usage("not a remote address")),
    };
    let host = cloud.host().to_owned();
    Ok(wrapped(Arc::new(cloud), &host, options))
}

#[cfg(not(feature = "cloud"))]
pub(super) fn connect(_: &StorePlace, _: &StoreOptions) -> Result<SharedStore> {
    Err(Error::unsupported("this zaro was built without remote stores (feature `cloud`)"))
}

/// A remote store with its wrappers: `cache(gather(coalesce(retry(limit(log(store))))))`.
pub fn wrapped(store: Arc<dyn Store>, host: &str, options: &StoreOptions) -> SharedStore {
    use crate::store::wrap::{cache, coalesce, gather, limit, retry};
    let mut store = store;
    store = Arc::new(LogStore::new(store, options.log.clone()));
    store = Arc::new(limit::LimitStore::new(store, &options.context, host, options.concurrency));
    store = Arc::new(retry::RetryStore::new(store, options.retry.clone()));
    store = Arc::new(coalesce::CoalesceStore::new(store));
    store = Arc::new(gather::GatherStore::new(store));
    if options.cache {
        let cache = cache::CacheStore::new(store, &options.context).with_max_age(options.max_age);
        store = Arc::new(cache);
    }
    store
}
