//! Which Zarrs are under embargo, as the tags of their objects in the bucket say.
//!
//! A Zarr is hidden if any object or manifest that is looked at has the tag, or if nobody lets this server see the tags.
//! What was found is kept for a short time. A look is the same work whether there is such a Zarr or not, so that how long
//! an answer takes does not tell; and if the bucket cannot be reached, the answer is a failure for every name alike.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _, join, try_join_all};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use zaro::manifest::bucket::{BucketZarr, EMBARGOED};
use zaro::store::{Bucket, StoreOptions};
use zaro::{ErrorKind, Result};

/// Objects of a Zarr whose tags are read.
pub(crate) const OBJECTS: usize = 8;

/// Manifests of a Zarr whose tags are read: nearly always all.
pub(crate) const MANIFESTS: usize = 64;

/// Zarrs that are looked at in the same moment for a list of all.
const AT_ONCE: usize = 16;

/// How long a state is good enough for a list of names, while it is looked at again. The bytes of a Zarr never wait for
/// less than a fresh look.
const STALE: Duration = Duration::from_secs(900);

/// How long a list waits for looks that are still to be made.
const PATIENCE: Duration = Duration::from_secs(30);

/// States that are kept.
const MOST: usize = 1 << 17;

/// Where objects of a Zarr lie, and how many of them are looked at.
#[derive(Debug, Clone)]
pub(crate) struct TaggedPlace {
    pub(crate) bucket: Arc<Bucket>,
    /// With a slash at the end.
    pub(crate) prefix: String,
    pub(crate) most: usize,
}

/// The states of Zarrs, as they were a short while ago.
#[derive(Debug)]
pub(crate) struct Embargo {
    /// How long a state is taken for right.
    fresh: Duration,
    known: Mutex<HashMap<String, Arc<Slot>>>,
    /// Whether a list of all is being renewed.
    renewing: AtomicBool,
    /// Whether it was said that tags cannot be read.
    told: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    /// When it was looked at, and whether it is hidden.
    state: Mutex<Option<(Instant, bool)>>,
    /// Held by whoever looks.
    looking: tokio::sync::Mutex<()>,
}

impl Slot {
    fn state(&self, within: Duration) -> Option<bool> {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.filter(|(when, _)| when.elapsed() < within).map(|(_, hidden)| hidden)
    }
}

impl Embargo {
    pub(crate) fn new(fresh: Duration) -> Self {
        Self {
            fresh,
            known: Mutex::default(),
            renewing: AtomicBool::new(false),
            told: AtomicBool::new(false),
        }
    }

    /// Whether a Zarr is hidden, if that was looked at just now.
    pub(crate) fn known(&self, name: &str) -> Option<bool> {
        self.slots().get(name).and_then(|slot| slot.state(self.fresh))
    }

    /// Takes a Zarr that nobody has for looked at.
    pub(crate) fn note_nobody(&self, name: &str) {
        let now = Some((Instant::now(), false));
        *self.slot(name).state.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether a Zarr that lies in these places is hidden. Looked at once, however many ask.
    pub(crate) async fn look(&self, name: &str, places: &[TaggedPlace]) -> Result<bool> {
        let slot = self.slot(name);
        let _turn = slot.looking.lock().await;
        if let Some(hidden) = slot.state(self.fresh) {
            return Ok(hidden);
        }
        let hidden = self.is_tagged(places).await?;
        *slot.state.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), hidden));
        Ok(hidden)
    }

    /// Those of these Zarrs that are hidden; `None` if it takes longer than a client would wait, and whoever comes later
    /// finds more of them known.
    pub(crate) async fn hidden_among(
        self: &Arc<Self>,
        all: Vec<Candidate>,
    ) -> Result<Option<BTreeSet<String>>> {
        let (mut hidden, mut unknown, mut old) = (BTreeSet::new(), Vec::new(), Vec::new());
        for place in all {
            let slot = self.slots().get(&place.name).cloned();
            match slot.as_ref().and_then(|slot| slot.state(STALE)) {
                None => {
                    unknown.push(place);
                    continue;
                }
                Some(true) => drop(hidden.insert(place.name.clone())),
                Some(false) => {}
            }
            if slot.is_none_or(|slot| slot.state(self.fresh).is_none()) {
                old.push(place);
            }
        }
        if !old.is_empty() && !self.renewing.swap(true, Ordering::AcqRel) {
            let this = self.clone();
            tokio::spawn(async move {
                // What fails now is looked at again by the next who asks.
                let _ = this.look_at_all(old).await;
                this.renewing.store(false, Ordering::Release);
            });
        }
        if !unknown.is_empty() {
            let this = self.clone();
            // Goes on although the client may leave: the next one finds it done.
            let looking = tokio::spawn(async move { this.look_at_all(unknown).await });
            match tokio::time::timeout(PATIENCE, looking).await {
                Ok(Ok(found)) => hidden.extend(found?),
                Ok(Err(_)) | Err(_) => return Ok(None),
            }
        }
        Ok(Some(hidden))
    }

    /// Those that are hidden.
    async fn look_at_all(&self, places: Vec<Candidate>) -> Result<Vec<String>> {
        let looks: Vec<BoxFuture<'_, Result<Option<String>>>> = places
            .iter()
            .map(|place| {
                let looked = async move {
                    let hidden = self.look(&place.name, &place.places).await?;
                    Ok(hidden.then(|| place.name.clone()))
                };
                looked.boxed()
            })
            .collect();
        stream::iter(looks)
            .buffer_unordered(AT_ONCE)
            .try_filter_map(|found| async { Ok(found) })
            .try_collect()
            .await
    }

    /// Looks at tags, in two rounds of requests whatever there is: what is there, and its tags.
    async fn is_tagged(&self, places: &[TaggedPlace]) -> Result<bool> {
        let listed = try_join_all(places.iter().map(|place| async move {
            let page = place.bucket.objects(&place.prefix).try_next().await?.unwrap_or_default();
            let mut keys: Vec<String> = page.into_iter().map(|object| object.key).collect();
            sample(&mut keys, place.most);
            if keys.is_empty() {
                // Nothing is there: asked for all the same, since an answer that comes sooner would tell.
                keys.push(format!("{}.zgroup", place.prefix));
            }
            Ok::<_, zaro::Error>(keys)
        }));
        let looks = listed.await?.into_iter().zip(places);
        let looks =
            looks.flat_map(|(keys, place)| keys.into_iter().map(move |key| self.has_tag(&place.bucket, key)));
        Ok(try_join_all(looks).await?.into_iter().any(|tagged| tagged))
    }

    /// Whether an object has the tag, or nobody says.
    async fn has_tag(&self, bucket: &Arc<Bucket>, key: String) -> Result<bool> {
        // Whoever signs nothing reads as the public does, so what it can read is no secret, whatever its tags.
        let public = async {
            match bucket.is_signed() {
                true => Ok(false),
                false => match bucket.head(&key).await {
                    Ok(found) => Ok(found.is_some()),
                    Err(e) if e.kind() == ErrorKind::NotPermitted => Ok(false),
                    Err(e) => Err(e),
                },
            }
        };
        let (tags, public) = join(bucket.tags(&key, None), public).await;
        match tags {
            Ok(tags) => {
                Ok(tags.unwrap_or_default().iter().any(|(name, value)| name == EMBARGOED && value == "true"))
            }
            // A server that knows no tags has no embargo.
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(false),
            Err(e) if e.kind() == ErrorKind::NotPermitted => {
                let hidden = !public?;
                if hidden && bucket.is_signed() && !self.told.swap(true, Ordering::Relaxed) {
                    eprintln!(
                        "zaro: the tags of objects in {bucket} cannot be read, so its Zarrs are taken for embargoed; \
                         --ignore-embargo-tags serves them"
                    );
                }
                Ok(hidden)
            }
            Err(e) => Err(e),
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(name) {
            return slot.clone();
        }
        if slots.len() >= MOST {
            slots.retain(|_, slot| slot.state(self.fresh).is_some());
            if slots.len() >= MOST {
                slots.clear();
            }
        }
        slots.entry(name.to_owned()).or_default().clone()
    }
}

/// A Zarr, and where it lies.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) places: Vec<TaggedPlace>,
}

/// The objects and manifests of the Zarr at an address `…/zarr/ID` of a bucket; nothing for other addresses.
pub(crate) fn places_of(uri: &str, options: &StoreOptions) -> Result<Vec<TaggedPlace>> {
    // Most addresses are no such, and a bucket is not opened for them.
    let mut parts = uri.trim_end_matches('/').rsplit('/');
    if parts.nth(1) != Some("zarr") || !zaro::open::is_bucket(uri) {
        return Ok(Vec::new());
    }
    let (bucket, path) = zaro::open::open_bucket(uri, options)?;
    let Ok(zarr) = BucketZarr::new(bucket.clone(), &path) else { return Ok(Vec::new()) };
    let Ok(manifests) = zarr.manifests() else { return Ok(Vec::new()) };
    Ok(vec![
        TaggedPlace { bucket: bucket.clone(), prefix: manifests.to_owned(), most: MANIFESTS },
        TaggedPlace { bucket, prefix: zarr.prefix().to_owned(), most: OBJECTS },
    ])
}

/// Keeps `most` of them, the first and the last among them.
fn sample(keys: &mut Vec<String>, most: usize) {
    let (last, steps) = (keys.len().saturating_sub(1), most.saturating_sub(1).max(1));
    if keys.len() > most {
        let chosen: BTreeSet<usize> = (0..most).map(|i| i.saturating_mul(last) / steps).collect();
        let mut at = 0..;
        keys.retain(|_| at.next().is_some_and(|at| chosen.contains(&at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends() {
        let of = |count: usize, most: usize| {
            let mut keys: Vec<String> = (0..count).map(|i| i.to_string()).collect();
            sample(&mut keys, most);
            (keys.len(), keys.first().cloned(), keys.last().cloned())
        };
        let ends = |n: usize, last: usize| (n, Some("0".to_owned()), Some(last.to_string()));
        assert_eq!(of(0, 8), (0, None, None));
        assert_eq!((of(1, 8), of(8, 8), of(9, 8)), (ends(1, 0), ends(8, 7), ends(8, 8)));
        assert_eq!(of(1000, 8), ends(8, 999));
    }

    #[test]
    fn only_zarrs_of_an_archive_are_looked_at() {
        let mut options = StoreOptions::default();
        options.anonymous = true;
        let prefixes = |uri: &str| -> Vec<String> {
            places_of(uri, &options).unwrap().into_iter().map(|place| place.prefix).collect()
        };
        assert_eq!(
            prefixes("s3://b/x/zarr/abcdef01-2"),
            ["x/zarr-manifest/abc/def/abcdef01-2/", "x/zarr/abcdef01-2/"]
        );
        for other in ["s3://b/x/y.zarr", "s3://b", "folder/zarr/abcdef01-2", "https://h/zarr/abcdef01-2"] {
            assert!(prefixes(other).is_empty(), "{other}");
        }
    }
}
