//! Detects what a file or folder contains if it is not a plain Zarr.

use std::sync::Arc;

use super::address::StorePlace;
use super::spot::StoreLocation;
use crate::error::{Error, ErrorKind, Hint, Result};
use crate::meta::Json;
use crate::store::local::LocalStore;
use crate::store::{ByteRange, SharedStore, StoreExt as _};

/// The first bytes of every file of an Icechunk repository.
const ICECHUNK: &[u8] = b"ICE\xF0\x9F\xA7\x8ACHUNK";

/// What a folder contains besides, or instead of, a Zarr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Parquet,
    Icechunk,
}

/// The same location without the request log, so that detection is not logged.
pub(super) fn unlogged(spot: &StoreLocation) -> StoreLocation {
    match &spot.place {
        Some(StorePlace::Local(path)) => {
            StoreLocation { store: Arc::new(LocalStore::new(path)), ..spot.clone() }
        }
        _ => spot.clone(),
    }
}

/// Whether the root of `store` contains references in Parquet or an Icechunk repository.
pub(super) async fn holds_references(store: &SharedStore) -> Result<bool> {
    Ok(folder(store).await?.is_some())
}

/// What the root of `store` contains.
pub(super) async fn folder(store: &SharedStore) -> Result<Option<Holds>> {
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

/// Whether the root of `store` is an Icechunk repository.
pub(super) async fn icechunk_here(store: &SharedStore) -> Result<bool> {
    let size = store.size("repo").await.or_else(refused)?;
    if size.is_some_and(|n| n > 39) {
        let start = store.get("repo", Some(ByteRange::span(0, 12))).await?;
        return Ok(start.is_some_and(|b| *b == *ICECHUNK));
    }
    // Format version 1 has a file per branch.
    if store.get("refs/branch.main/ref.json", None).await.or_else(refused)?.is_some() {
        return Ok(true);
    }
    match store.list("refs").await {
        Ok(refs) => Ok(refs.prefixes.iter().any(|r| r.starts_with("branch.") || r.starts_with("tag."))),
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::NotPermitted) => Ok(false),
        Err(e) => Err(e),
    }
}

/// A server that refuses missing keys has nothing there.
fn refused<T>(e: Error) -> Result<Option<T>> {
    if e.kind() == ErrorKind::NotPermitted { Ok(None) } else { Err(e) }
}

/// The error for a file that is not a Zarr, with a hint.
pub(super) async fn no_zarr(spot: &StoreLocation) -> Result<Error> {
    let spot = unlogged(spot);
    let size = spot.store.size(&spot.path).await?.unwrap_or(0).min(8);
    let start = spot.store.get(&spot.path, Some(ByteRange::span(0, size))).await?.unwrap_or_default();
    Ok(Error::unsupported(match &*start {
        [b'C', b'D', b'F', 1 | 2 | 5, ..] | [0x89, b'H', b'D', b'F', ..] => {
            "this is a NetCDF or HDF5 file, not a Zarr; create references to it with kerchunk or VirtualiZarr, and open those"
        }
        [b'G', b'R', b'I', b'B', ..] => {
            "this is a GRIB file, not a Zarr; create references to it with kerchunk, and open those"
        }
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => {
            let convert = Hint::operation("image convert", "converts it to OME-Zarr");
            return Ok(Error::unsupported("this is a TIFF file, not a Zarr").or_hint(convert));
        }
        _ => "this file is neither a ZIP archive nor references; a Zarr is a folder or one of these",
    }))
}

/// Whether a file starts like a JSON object, or like a compressed one.
pub(super) async fn begins_as_document(spot: &StoreLocation) -> Result<bool> {
    let spot = unlogged(spot);
    let Some(size) = spot.store.size(&spot.path).await? else { return Ok(true) };
    let start = spot.store.get(&spot.path, Some(ByteRange::span(0, size.min(64)))).await?.unwrap_or_default();
    let packed = start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start();
    Ok(packed || text.is_empty() || text.starts_with(b"{"))
}
