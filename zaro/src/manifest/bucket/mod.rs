//! Manifests of Zarrs in versioned buckets.
//!
//! A versioned bucket holds every state a Zarr ever had, as versions of its objects, but not which of them belong
//! together. A manifest is that list, and everything here creates, checks or uses it:
//!
//! ```text
//!   create    one listing -> a manifest, in constant memory, repeated until two listings agree
//!   history   one listing -> every past state, and the state at any time
//!   verify    one listing -> does everything a manifest lists still exist?
//!   backfill  every Zarr of a bucket          embargo   tags of manifests and objects
//!   gc        versions that no manifest lists inventory S3 Inventory files in place of a listing
//! ```

mod backfill;
mod create;
mod embargo;
mod gc;
mod history;
mod inventory;
mod source;
mod verify;

use std::fmt;
use std::sync::Arc;

pub use self::backfill::{Backfill, BackfillJournal, Done, backfill};
pub use self::create::{
    CreateOptions, Created, PublishOptions, Source as ListingSource, checksum, create, current, document_at,
};
pub use self::embargo::{EMBARGOED, EmbargoCheck, Unembargoed, unembargo};
pub use self::gc::{Garbage, GarbageVersion, collect, delete, read_list};
pub use self::history::{History, State as HistoryState};
pub use self::inventory::Inventory;
pub use self::verify::{BucketVerdict, verify, verify_bytes};
use super::digest::Digest;
use crate::error::{Error, Result};
use crate::store::object::bucket::Bucket;
use crate::store::object::versions::ObjectVersion;
use crate::time::Time;

/// A Zarr in a bucket.
#[derive(Clone)]
pub struct BucketZarr {
    bucket: Arc<Bucket>,
    /// Prefix of its objects' keys, with a slash at the end.
    prefix: String,
    /// Prefix of its manifests, with a slash at the end, if it can be derived from the address of the Zarr.
    manifests: Option<String>,
    id: String,
}

impl BucketZarr {
    /// The Zarr at `path` of the bucket. One at `…zarr/ID` has its manifests at `…zarr-manifest/{3}/{3}/ID/`, the
    /// threes being the first letters of its name.
    pub fn new(bucket: Arc<Bucket>, path: &str) -> Result<Self> {
        let path = path.trim_matches('/');
        let (above, id) = path.rsplit_once('/').unwrap_or(("", path));
        if id.is_empty() {
            return Err(
                Error::usage("the address names only a bucket; add the path of the Zarr").with_store(&bucket)
            );
        }
        let base = match above.rsplit_once('/') {
            Some((base, "zarr")) => Some(format!("{base}/")),
            None if above == "zarr" => Some(String::new()),
            _ => None,
        };
        let letters = |from: usize| id.chars().skip(from).take(3).collect::<String>();
        let manifests = base
            .filter(|_| id.chars().count() >= 6)
            .map(|base| format!("{base}zarr-manifest/{}/{}/{id}/", letters(0), letters(3)));
        Ok(Self { bucket, prefix: format!("{path}/"), manifests, id: id.to_owned() })
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    /// Prefix of its objects' keys, with a slash at the end.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The last component of its address.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Prefix of its manifests, with a slash at the end.
    pub fn manifests(&self) -> Result<&str> {
        self.manifests.as_deref().ok_or_else(|| {
            Error::usage(
                "only Zarrs at zarr/ID, with an ID of six or more characters, have a place for manifests in a bucket; \
                 name a folder or a file for this manifest",
            )
            .with_store(self)
        })
    }

    /// The key of the manifest with this checksum.
    pub fn manifest_key(&self, checksum: &Digest) -> Result<String> {
        Ok(format!("{}{checksum}.json", self.manifests()?))
    }

    /// The path of a version's key in the Zarr; `None` if it is not below the Zarr.
    fn path_of<'a>(&self, version: &'a ObjectVersion) -> Option<&'a str> {
        version.key.strip_prefix(&self.prefix)
    }
}

/// The time a version was put.
fn time_of(version: &ObjectVersion) -> Time {
    let nanos = u32::try_from(version.modified.rem_euclid(1000)).unwrap_or(0).saturating_mul(1_000_000);
    Time::new(version.modified.div_euclid(1000), nanos)
}

impl fmt::Display for BucketZarr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.prefix.trim_end_matches('/'))
    }
}

impl fmt::Debug for BucketZarr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketZarr({self})")
    }
}
