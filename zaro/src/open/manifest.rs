//! Opening one version of a Zarr from its manifest.

use std::path::Path;
use std::sync::Arc;

use super::address::{Address, StorePlace};
use super::spot::StoreLocation;
use super::{SourceOptions, find};
use crate::boxed;
use crate::error::{Error, Result};
use crate::manifest::store::{objects_beside, version_store};
use crate::manifest::{Manifest, parse};
use crate::reference::ReferenceStore;
use crate::store::StoreExt as _;
use crate::store::options::StoreOptions;

/// Reads the manifest at `uri`: a file, or an object of a store.
#[boxed]
pub async fn read_manifest(uri: &str, options: &StoreOptions) -> Result<Manifest> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if !path.contains("://") {
        let path = Path::new(path);
        let place = |e: Error| e.with_store(path.display());
        if path.is_dir() {
            return Err(place(Error::usage("this is a folder; a manifest is a file")));
        }
        return parse(std::fs::File::open(path).map_err(|e| place(e.into()))?).map_err(place);
    }
    let (folder, name) = uri.rsplit_once('/').unwrap_or(("", uri));
    let text = super::open_store(folder, options).await?.get(name, None).await?;
    let text = text.ok_or_else(|| Error::not_found("no such manifest").with_store(uri))?;
    parse(text.as_ref()).map_err(|e| e.with_store(uri))
}

/// The version described by the manifest at `spot`. Its objects are at `objects`, or at the location derived from that
/// of the manifest.
pub(super) async fn open(
    name: &str,
    spot: &StoreLocation,
    objects: Option<&str>,
    options: &SourceOptions,
) -> Result<ReferenceStore> {
    let near = options.for_uri(name)?;
    // A location taken for a folder is an object of its parent.
    let spot = match &spot.place {
        Some(place) if spot.path.is_empty() => match place.split() {
            Some((above, file)) => StoreLocation { path: file, ..StoreLocation::at(above, &near)? },
            None => return Err(Error::usage("a manifest cannot be here").with_store(name)),
        },
        _ => spot.clone(),
    };
    let text = spot.store.get(&spot.path, None).await?;
    let text = text.ok_or_else(|| Error::not_found("no such manifest").with_store(name))?;
    let manifest = parse(&*text).map_err(|e| e.with_store(name))?;
    drop(text);
    let objects = match objects {
        Some(uri) => {
            let address = Address::parse(uri)?;
            find(&address, &options.for_uri(&address.text)?).await?.spot
        }
        None => beside(name, &spot, &manifest, &near)?,
    };
    // Only buckets have versions; elsewhere sizes and digests tell.
    let is_bucket = matches!(objects.place, Some(StorePlace::S3 { .. } | StorePlace::Http(_)));
    Ok(version_store(name, Arc::new(manifest), objects.rooted()?, is_bucket))
}

/// The location of the objects, derived from that of the manifest.
fn beside(
    name: &str,
    spot: &StoreLocation,
    manifest: &Manifest,
    options: &StoreOptions,
) -> Result<StoreLocation> {
    let unknown = || {
        let what = "the location of this manifest's objects cannot be derived from its own";
        Error::usage(what).with_hint("objects", "sets it").with_store(name)
    };
    let below = |folder: &str| match (folder.is_empty(), spot.path.as_str()) {
        (true, path) => path.to_owned(),
        (false, path) => format!("{folder}/{path}"),
    };
    let place = match spot.place.as_ref().ok_or_else(unknown)? {
        StorePlace::S3 { bucket, path, aws } => {
            let path = objects_beside(&below(path.trim_matches('/'))).ok_or_else(unknown)?;
            StorePlace::S3 { bucket: bucket.clone(), path, aws: aws.clone() }
        }
        StorePlace::Local(folder) if !manifest.fields().version => {
            let folder = std::path::absolute(folder)?;
            let folder = folder.to_str().ok_or_else(unknown)?;
            let path = objects_beside(&below(folder)).ok_or_else(unknown)?;
            StorePlace::Local(path.into())
        }
        _ => return Err(unknown()),
    };
    StoreLocation::at(place, options)
}
