//! Reference stores: a Zarr whose bytes lie elsewhere.
//!
//! A reference store is two things: a [`Map`] from keys to the locations of their bytes, and [`Targets`], which turns
//! an address into a store. Kerchunk's JSON and Parquet, Icechunk repositories and manifests of versions are maps;
//! [`ReferenceStore`] makes a [`Store`](crate::store::Store) of any of them, so whatever reads a Zarr reads an archive
//! of NetCDF files, or a past version of a bucket, without knowing.
//!
//! **Missing is not failed.** A key that is not in the map is missing. A key in the map whose bytes cannot be read
//! exactly as stated is an error with key, address, range and cause; never a fill value.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::store::{Listing, ObjectMeta, Origin, Pin, SharedStore};

pub(crate) mod addresses;
pub(crate) mod arrays;
pub(crate) mod convert;
mod direct;
pub mod icechunk;
pub(crate) mod json;
pub(crate) mod json_write;
mod options;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod stat;
mod store;
#[cfg(test)]
mod testing;
pub(crate) mod validate;
pub(crate) mod write;

pub use addresses::{Addresses, Counts as AddressCounts};
pub use arrays::Arrays;
#[cfg(feature = "parquet")]
pub use convert::to_parquet;
pub use convert::{RewriteOptions, Rewritten, to_json};
pub use json::JsonMap;
pub use json_write::{Compression, JsonWriter};
pub use options::ReferenceOptions;
#[cfg(feature = "parquet")]
pub use parquet::RECORD_SIZE;
pub use stat::{ArrayStat, PlaceStat, ReferenceStat, stat};
pub use store::ReferenceStore;
pub use validate::{MapFinding, MapReport, ValidateOptions, validate};
pub use write::{ReferenceForm, ReferenceWriting};

/// Where the bytes of a key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In the map itself.
    Inline(Bytes),
    /// In another object.
    Remote(Remote),
}

/// Bytes of an object somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The address as the map has it: whole, or relative to a place that [`Targets`] knows. Empty for the target that
    /// the caller names (`null` in Kerchunk's JSON).
    pub url: Arc<str>,
    /// The byte range; `None` for the whole object.
    pub span: Option<Span>,
    /// The version of the object.
    pub pin: Option<Arc<Pin>>,
    /// The path of the array that the entry belongs to, if relative addresses may be relative to it (as GDAL reads
    /// those of Parquet).
    pub near: Option<Arc<str>>,
}

/// `offset .. offset + length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

impl Remote {
    /// A whole object, or a part of one.
    pub fn new(url: impl Into<Arc<str>>, span: Option<Span>) -> Self {
        Self { url: url.into(), span, pin: None, near: None }
    }

    /// Its address, byte range and version.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            address: Arc::clone(&self.url),
            range: self.span.map(|s| (s.offset, s.length)),
            version: self.pin.as_ref().and_then(|pin| pin.version.clone()),
        }
    }
}

impl Remote {
    /// Splits a version off the address: fsspec writes versions of objects in buckets as
    /// `s3://bucket/key?versionId=…`. `None` if there is none, or for a web address, which is requested unchanged.
    pub(crate) fn versioned(&self) -> Option<Self> {
        let (object, version) = self.url.rsplit_once("?versionId=")?;
        if !object.starts_with("s3://") || version.is_empty() {
            return None;
        }
        let mut pin = self.pin.as_deref().cloned().unwrap_or_default();
        pin.version = Some(version.to_owned());
        Some(Self { url: object.into(), pin: Some(Arc::new(pin)), ..self.clone() })
    }
}

impl fmt::Display for Remote {
    /// Without the secrets of the address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.origin(), f)
    }
}

/// Maps keys to the locations of their bytes.
#[async_trait]
pub trait Map: Debug + Send + Sync + 'static {
    /// The location of `key`; `None` only if there is certainly no such key.
    async fn locate(&self, key: &str) -> Result<Option<Location>>;

    /// Locates several keys, in the order given. Worth overriding where neighbours are stored together.
    async fn locate_all(&self, keys: &[String]) -> Result<Vec<Option<Location>>> {
        let mut out = Vec::with_capacity(keys.len());
        for key in keys {
            out.push(self.locate(key).await?);
        }
        Ok(out)
    }

    /// What lies directly below `prefix`, as [`StoreExt::list`](crate::store::StoreExt::list).
    async fn list(&self, prefix: &str) -> Result<Listing>;

    /// Streams every key below `prefix/` (`""` for all) with its location, in the map's own order, without holding all
    /// of them.
    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>>;

    /// What this is, for messages.
    fn noun(&self) -> &'static str {
        "a set of references"
    }

    /// What the map itself states of the object at `key`, if that tells its states apart; then nobody is asked.
    fn stated(&self, key: &str) -> Option<ObjectMeta> {
        let _ = key;
        None
    }

    /// The size of a remote object, if the map knows it without a request.
    fn known_size(&self, remote: &Remote) -> Option<u64> {
        remote.span.map(|s| s.length).or_else(|| remote.pin.as_ref().and_then(|p| p.size))
    }

    /// The size of the object at `key`, if the map itself has it at hand.
    fn stated_size(&self, key: &str) -> Option<u64> {
        self.stated(key)?.size()
    }
}

/// A map behind a shared pointer.
pub type SharedMap = Arc<dyn Map>;

/// Resolves addresses to stores: which are allowed, with which options, and what relative ones are relative to.
#[async_trait]
pub trait Targets: Debug + Send + Sync + 'static {
    /// The store that holds the object at this address, and its key there.
    async fn target(&self, remote: &Remote) -> Result<Target>;

    /// Refuses an address that is not allowed, such as a local file in a remote map. Makes no request.
    fn permits(&self, url: &str) -> Result<()> {
        let _ = url;
        Ok(())
    }
}

/// An object of a store.
#[derive(Debug, Clone)]
pub struct Target {
    /// The store, wrapped as all remote stores are; shared by addresses that can share one.
    pub store: SharedStore,
    /// The key in it.
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_in_the_address_of_an_object_in_a_bucket_is_its_pin() {
        let at = |url: &str| Remote::new(url, None).versioned();
        let found = at("s3://b/a b%20?x?versionId=v.1").unwrap();
        assert_eq!((&*found.url, found.pin.unwrap().version.as_deref()), ("s3://b/a b%20?x", Some("v.1")));
        assert_eq!(at("https://h/a?versionId=v"), None);
        assert_eq!(at("s3://b/a?versionId="), None);
        assert_eq!(at("s3://b/a"), None);
    }
}
