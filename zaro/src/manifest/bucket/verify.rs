//! Does everything a manifest names still exist? One listing tells.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use futures::TryStreamExt;

use super::BucketZarr;
use crate::error::Result;
use crate::manifest::model::Manifest;

/// What a listing says of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketVerdict {
    /// How many entries are there as they are stated.
    pub found: u64,
    /// How many entries' versions are gone.
    pub gone: u64,
    /// How many have another size or `ETag` than stated.
    pub differing: u64,
    /// The first of both, each with what is wrong.
    pub faults: Vec<(String, String)>,
    /// How many versions of objects were listed, delete markers not counted.
    pub versions: u64,
}

impl BucketVerdict {
    /// Whether all is there.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.gone == 0 && self.differing == 0
    }
}

/// Compares a manifest with the versions of its Zarr's objects; names at most `max_faults` faults.
///
/// A manifest without versions is compared with what is there now.
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
