//! Verifies that everything a manifest lists still exists, by one listing or by reading every byte.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use futures::{StreamExt, TryStreamExt, stream};

use super::BucketZarr;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::digest::Hasher;
use crate::manifest::fetch::FetchSource;
use crate::manifest::model::Manifest;
use crate::manifest::verify::ManifestFinding;
use crate::manifest::{ETag, Entry};
use crate::num;
use crate::store::ByteRange;
use crate::task::{Task, Unit};

/// The result of comparing a manifest with a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketVerdict {
    /// Entries that exist as stated.
    pub found: u64,
    /// Entries whose version is gone.
    pub gone: u64,
    /// Entries with another size or `ETag` than stated.
    pub differing: u64,
    /// The first faults: key and message.
    pub faults: Vec<(String, String)>,
    /// Object versions listed, without delete markers.
    pub versions: u64,
}

impl BucketVerdict {
    /// Whether everything exists as stated.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.gone == 0 && self.differing == 0
    }

    /// The findings, with a summary of those that are not named.
    #[must_use]
    pub fn findings(self) -> Vec<ManifestFinding> {
        let named = num::u64_of(self.faults.len());
        let more = self.gone.saturating_add(self.differing).saturating_sub(named);
        let named = self.faults.into_iter().map(|(key, what)| ManifestFinding::of("object", key, what));
        let more = (more > 0)
            .then(|| ManifestFinding::new("object", format!("{more} more objects are gone or differ")));
        named.chain(more).collect()
    }
}

/// Compares a manifest with the versions of its Zarr's objects; names at most `max_faults` faults.
///
/// A manifest without versions is compared with the current objects.
#[boxed]
pub async fn verify(zarr: &BucketZarr, manifest: &Manifest, max_faults: usize) -> Result<BucketVerdict> {
    let fields = manifest.fields();
    let mut pages = if fields.version {
        zarr.bucket().versions(zarr.prefix())
    } else {
        zarr.bucket().objects(zarr.prefix())
    };
    let mut out = BucketVerdict::default();
    // 8 bytes an entry instead of its name: two that collide may hide one fault in 10^7 manifests of a million.
    let hasher = RandomState::new();
    let mut met: HashSet<u64> = HashSet::with_capacity(manifest.len());
    while let Some(page) = pages.try_next().await? {
        for version in page.iter().filter(|v| !v.deleted) {
            out.versions += 1;
            let Some(path) = zarr.path_of(version) else { continue };
            let Some(leaf) = manifest.get(path) else { continue };
            if fields.version && leaf.version().as_deref() != Some(version.version.as_str()) {
                continue;
            }
            met.insert(hasher.hash_one(path));
            let fault = if fields.size && leaf.size() != version.size {
                Some(format!("has {} bytes, not {}", version.size, leaf.size()))
            } else if fields.etag && leaf.etag().as_deref() != Some(version.etag.as_str()) {
                Some(format!("has the ETag {}, not {}", version.etag, leaf.etag().unwrap_or_default()))
            } else {
                None
            };
            match fault {
                None => out.found += 1,
                Some(what) => {
                    out.differing += 1;
                    if out.faults.len() < max_faults {
                        out.faults.push((path.to_owned(), what));
                    }
                }
            }
        }
    }
    let mut walk = manifest.walk();
    while let Some((key, leaf)) = walk.next() {
        if !met.contains(&hasher.hash_one(key)) {
            out.gone += 1;
            if out.faults.len() < max_faults {
                let what = match leaf.version() {
                    Some(version) => format!("its version {version} does not exist"),
                    None => "does not exist".to_owned(),
                };
                out.faults.push((key.to_owned(), what));
            }
        }
    }
    Ok(out)
}

/// Reads every byte of the objects that a manifest lists and compares digests. Calls `done` for each object.
#[boxed]
pub async fn verify_bytes(
    zarr: &BucketZarr,
    manifest: &Manifest,
    task: &Task,
) -> Result<Vec<ManifestFinding>> {
    let mut entries: Vec<(String, Entry)> = Vec::new();
    let mut walk = manifest.walk();
    while let Some((key, leaf)) = walk.next() {
        entries.push((key.to_owned(), leaf.entry()));
    }
    let meter = &task.meter(Unit::Objects, num::u64_of(entries.len()));
    let checks = stream::iter(entries).map(|(key, entry)| async move {
        let what = match read(zarr, &key, &entry).await {
            Ok(what) => what,
            // The store compares the state that came with the one that is meant.
            Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::NotFound) => {
                Some(e.message().to_owned())
            }
            Err(e) => return Err(e),
        };
        meter.advance(1);
        Ok(what.map(|what| ManifestFinding::of("bytes", key, what)))
    });
    let found = checks.buffer_unordered(16).try_collect();
    let found: Vec<Option<ManifestFinding>> = task.unless_cancelled(found).await?;
    let mut found: Vec<ManifestFinding> = found.into_iter().flatten().collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// Reads one object in parts; returns what is wrong with it, if anything.
async fn read(source: &BucketZarr, key: &str, entry: &Entry) -> Result<Option<String>> {
    const PIECE: u64 = 32 << 20;
    let digest = entry.etag.as_deref().and_then(ETag::parse);
    let mut hasher = Hasher::wanting(digest, entry.size);
    loop {
        let at = hasher.size();
        let length = PIECE.min(entry.size.saturating_sub(at));
        let range = (length < entry.size).then(|| ByteRange::span(at, length));
        let piece = source.read(key, entry, range).await?;
        let piece = piece.ok_or_else(|| Error::not_found("its version does not exist"))?;
        hasher.update(&piece);
        if hasher.size() >= entry.size || piece.is_empty() {
            break;
        }
    }
    let found = hasher.finish();
    Ok(match digest {
        Some(wanted @ ETag::Parts(..)) if wanted != found => Some(format!(
            "its digest is {found}, not {wanted}; it may have been uploaded with an unusual part size"
        )),
        Some(wanted) if wanted != found => Some(format!("its digest is {found}, not {wanted}")),
        _ => None,
    })
}
