//! Lists the versions of a Zarr: its manifests.

use super::digest::Digest;
use super::model::Statistics;
use super::parse::parse_head;
use super::place;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{ByteRange, SharedStore, StoreExt as _, join};
use crate::time::Time;

/// A version of a Zarr: one manifest file.
#[derive(Debug)]
pub struct ListedVersion {
    /// Its checksum, which is its name.
    pub checksum: Digest,
    /// The key of the manifest in its store.
    pub key: String,
    /// What the manifest states, or why it cannot be read.
    pub statistics: Result<Statistics>,
}

impl ListedVersion {
    /// The last modification that the manifest states, if any.
    #[must_use]
    pub fn last_modified(&self) -> Option<Time> {
        self.statistics.as_ref().ok().and_then(|s| s.last_modified)
    }
}

/// Bytes of a manifest to read: statistics come first, and are short.
const HEAD: u64 = 8192;

/// The versions of the Zarr `id` whose manifests are in `store`, newest first. The store may be the parent of the
/// folder `zarr-manifest`, that folder itself, the same folder of the proof of concept, or the folder of the one Zarr.
/// Files whose names are not checksums are ignored.
#[boxed]
pub async fn versions(store: &SharedStore, id: Option<&str>) -> Result<Vec<ListedVersion>> {
    let places = match id {
        Some(id) => {
            let whole = place::folder_of(id)?;
            let short = whole.split_once('/').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
            vec![whole, short, id.to_owned()]
        }
        None => vec![String::new()],
    };
    for folder in places {
        let found = store.list(&folder).await?;
        let mut out = Vec::new();
        for name in found.objects {
            let Some(checksum) = place::checksum_in(&name) else { continue };
            let key = join(&folder, &name);
            // One that is damaged does not hide the others.
            let statistics = match head(store, &key).await {
                Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => Err(e),
                Err(e) => return Err(e),
                found => found,
            };
            out.push(ListedVersion { checksum, key, statistics });
        }
        if !out.is_empty() {
            // What changed at the same moment is told apart by name.
            out.sort_by(|a, b| {
                b.last_modified().cmp(&a.last_modified()).then_with(|| a.checksum.cmp(&b.checksum))
            });
            return Ok(out);
        }
    }
    let e = match id {
        Some(id) => Error::not_found(format!("there is no manifest of {id}")),
        None if store.list("").await?.prefixes.iter().any(|p| p == place::FOLDER) => {
            Error::not_found("there are manifests of several Zarrs here").with_hint("zarr", "selects one")
        }
        None => Error::not_found("there is no manifest here"),
    };
    Err(e.with_store(store))
}

async fn head(store: &SharedStore, key: &str) -> Result<Statistics> {
    let place = |e: Error| e.with_key(key).with_store(store);
    let gone = || place(Error::not_found("the manifest no longer exists"));
    let size = store.size(key).await?.ok_or_else(gone)?;
    let begin = store.get(key, Some(ByteRange::span(0, HEAD.min(size)))).await?.ok_or_else(gone)?;
    if let Ok(head) = parse_head(begin.as_ref()) {
        return Ok(head.statistics);
    }
    // Statistics after the entries, or none: all of it tells.
    let all = store.get(key, None).await?.ok_or_else(gone)?;
    Ok(parse_head(all.as_ref()).map_err(place)?.statistics)
}
