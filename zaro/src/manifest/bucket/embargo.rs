//! Embargo: objects with a tag that the bucket's policy hides from the public.
//!
//! Manifests of an embargoed Zarr are put with the tag. When the embargo ends, the tag is removed from every version of
//! every manifest and object, since old manifests list old versions.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt, stream};

use super::BucketZarr;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::store::object::versions::ObjectVersion;
use crate::task::{Meter, Task, Unit};

/// The name of the tag; its value is `true`.
pub const EMBARGOED: &str = "embargoed";

/// Concurrent tag requests.
const AT_ONCE: usize = 32;

/// Number of objects checked with [`EmbargoCheck::Sample`].
const SAMPLE: usize = 8;

/// Which objects of a Zarr are checked for the embargo tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmbargoCheck {
    /// Some, spread over the first page of its listing: up to eight requests.
    #[default]
    Sample,
    /// Every one: a request each.
    All,
}

/// Counts of an unembargo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unembargoed {
    /// Manifest versions whose tag was removed.
    pub manifests: u64,
    /// Object versions whose tag was removed.
    pub objects: u64,
    /// Versions that were checked.
    pub seen: u64,
}

/// Removes the tag from every version of every object of the Zarr, and then of every manifest: whoever can read a
/// manifest must be able to read what it lists. A rerun resumes.
#[boxed]
pub async fn unembargo(zarr: &BucketZarr, task: &Task) -> Result<Unembargoed> {
    let meter = &task.meter(Unit::Versions, None::<u64>);
    let objects = task.unless_cancelled(clear(zarr, zarr.prefix(), meter)).await?;
    let manifests = task.unless_cancelled(clear(zarr, zarr.manifests()?, meter)).await?;
    Ok(Unembargoed { manifests, objects, seen: meter.done() })
}

impl BucketZarr {
    /// Whether the Zarr is under embargo: whether any checked object has the tag, since a manifest lists them all.
    ///
    /// A server without tagging has no embargo.
    #[boxed]
    pub async fn is_embargoed(&self, check: EmbargoCheck) -> Result<bool> {
        let mut pages = self.bucket().objects(self.prefix());
        while let Some(mut page) = pages.try_next().await? {
            if check == EmbargoCheck::Sample {
                // The first and the last of the page, and others between.
                let last = page.len().saturating_sub(1);
                let chosen: Vec<usize> = (0..SAMPLE).map(|i| i * last / (SAMPLE - 1)).collect();
                let mut at = 0..;
                page.retain(|_| at.next().is_some_and(|at| chosen.contains(&at)));
            }
            let tagged = stream::iter(page)
                .map(|object| async move { self.has_tag(&object.key).await })
                .buffer_unordered(AT_ONCE)
                .try_any(std::future::ready);
            if tagged.await? {
                return Ok(true);
            }
            if check == EmbargoCheck::Sample {
                break;
            }
        }
        Ok(false)
    }

    async fn has_tag(&self, key: &str) -> Result<bool> {
        match self.bucket().tags(key, None).await {
            Ok(tags) => Ok(tags.unwrap_or_default().iter().any(|(k, v)| k == EMBARGOED && v == "true")),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(false),
            // Those who may not see it are told nothing, least of all that there is no embargo.
            Err(e) => Err(e
                .within("cannot determine whether the Zarr is under embargo")
                .with_hint("embargoed", "says it")),
        }
    }
}

async fn clear(zarr: &BucketZarr, prefix: &str, meter: &Meter) -> Result<u64> {
    let bucket = zarr.bucket();
    let cleared = AtomicU64::new(0);
    let each = |version: ObjectVersion| {
        let cleared = &cleared;
        async move {
            if bucket.clear_tag(&version.key, Some(&version.version), EMBARGOED).await? {
                cleared.fetch_add(1, Ordering::Relaxed);
            }
            meter.advance(1);
            Ok::<_, Error>(())
        }
    };
    let real = |page: Vec<ObjectVersion>| stream::iter(page.into_iter().filter(|v| !v.deleted).map(Ok));
    bucket.versions(prefix).map_ok(real).try_flatten().try_for_each_concurrent(AT_ONCE, each).await?;
    Ok(cleared.into_inner())
}
