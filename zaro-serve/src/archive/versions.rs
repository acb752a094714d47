//! Which Zarrs and versions there are, and since when.
//!
//! Names tell nearly everything: a checksum has the number of entries and bytes in it. Only for dates the beginning of a
//! manifest is read, once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use zaro::manifest::{Digest, Statistics, Time, checksum_in, parse_head};
use zaro::store::{ByteRange, Entry, ListOptions, SharedStore, StoreExt as _};
use zaro::{ErrorKind, Result};

use super::{Archive, folder_of};

/// Bytes of a manifest that are read for its statistics, which come first.
const HEAD: u64 = 8192;

/// Statistics that are kept in memory.
const MOST_HEADS: usize = 1 << 16;

/// Requests at once, for heads and for folders.
const AT_ONCE: usize = 16;

/// How long the list of all Zarrs is taken for right.
const FRESH: Duration = Duration::from_secs(15);

/// How long a list is good enough while a newer one is being made.
const STALE: Duration = Duration::from_secs(900);

/// How long the versions of one Zarr are taken for right.
const FRESH_ZARR: Duration = Duration::from_secs(2);

/// Zarrs whose versions are kept in memory.
const MOST_ZARRS: usize = 4096;

/// What manifests say of themselves.
pub(crate) type Heads = HashMap<(String, Digest), Arc<Statistics>>;

/// All Zarrs, sorted by id, with the names of their versions.
pub(crate) type Ids = Vec<(String, Vec<Digest>)>;

/// Manifests by name: the id of the Zarr, and the checksum.
type Names = Vec<(String, Digest)>;

/// A version, as far as the beginning of its manifest tells.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) checksum: Digest,
    /// What the manifest states; `None` if it is damaged.
    pub(crate) statistics: Option<Arc<Statistics>>,
}

impl Version {
    /// When the Zarr was last changed.
    pub(crate) fn modified(&self) -> Option<Time> {
        self.statistics.as_ref().and_then(|statistics| statistics.last_modified)
    }
}

impl Archive {
    /// The versions of a Zarr, newest first; none if there is no such Zarr.
    pub(crate) async fn versions(&self, id: &str) -> Result<Vec<Version>> {
        let checksums = self.checksums(id).await?;
        self.described(id, &checksums).await
    }

    /// These versions with what their manifests say, newest first.
    pub(crate) async fn described(&self, id: &str, checksums: &[Digest]) -> Result<Vec<Version>> {
        let heads: Vec<BoxFuture<'_, Result<Version>>> =
            checksums.iter().map(|checksum| self.one_described(id, *checksum).boxed()).collect();
        let mut all: Vec<Version> = stream::iter(heads).buffered(AT_ONCE).try_collect().await?;
        all.sort_by(|a, b| b.modified().cmp(&a.modified()).then_with(|| a.checksum.cmp(&b.checksum)));
        Ok(all)
    }

    async fn one_described(&self, id: &str, checksum: Digest) -> Result<Version> {
        let statistics = match self.statistics(id, checksum).await {
            Ok(statistics) => statistics,
            // One that is damaged does not hide the others.
            Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => None,
            Err(e) => return Err(e),
        };
        Ok(Version { checksum, statistics })
    }

    /// What a manifest states of itself; `None` if there is no such version.
    async fn statistics(&self, id: &str, checksum: Digest) -> Result<Option<Arc<Statistics>>> {
        let name = (id.to_owned(), checksum);
        if let Some(known) = self.heads().get(&name) {
            return Ok(Some(known.clone()));
        }
        let found = match self.manifests.at_hand(id, checksum) {
            Some(manifest) => manifest.stated().clone(),
            None => match self.read_head(id, checksum).await? {
                Some(statistics) => statistics,
                None => return Ok(None),
            },
        };
        let found = Arc::new(found);
        let mut heads = self.heads();
        if heads.len() >= MOST_HEADS {
            heads.clear();
        }
        heads.insert(name, found.clone());
        Ok(Some(found))
    }

    async fn read_head(&self, id: &str, checksum: Digest) -> Result<Option<Statistics>> {
        let Some(folder) = folder_of(id) else { return Ok(None) };
        let key = format!("{folder}/{checksum}.json");
        let Some(size) = self.store.size(&key).await? else { return Ok(None) };
        let part = (HEAD < size).then(|| ByteRange::span(0, HEAD));
        let Some(begin) = self.store.get(&key, part).await? else { return Ok(None) };
        if let Ok(head) = parse_head(begin.as_ref()) {
            return Ok(Some(head.statistics));
        }
        // Statistics after the entries: all of it tells.
        Ok(self.open(id, checksum).await?.map(|version| version.manifest.stated().clone()))
    }

    fn heads(&self) -> std::sync::MutexGuard<'_, Heads> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which Zarrs and versions there are, as they were a short while ago.
#[derive(Debug)]
pub(crate) struct Index {
    store: SharedStore,
    all: Mutex<Option<(Instant, Arc<Ids>)>>,
    /// Held by whoever lists all.
    listing: tokio::sync::Mutex<()>,
    zarrs: Mutex<HashMap<String, (Instant, Vec<Digest>)>>,
}

impl Index {
    /// Of the tree of manifests in this store.
    pub(crate) fn new(store: SharedStore) -> Self {
        Self { store, all: Mutex::default(), listing: tokio::sync::Mutex::default(), zarrs: Mutex::default() }
    }

    /// All Zarrs. A list that is too old is still used while a newer one is made.
    pub(crate) async fn all(self: &Arc<Self>) -> Result<Arc<Ids>> {
        let known = lock(&self.all).clone();
        if let Some((made, ids)) = known {
            if made.elapsed() < FRESH {
                return Ok(ids);
            }
            if made.elapsed() < STALE {
                let this = self.clone();
                // What fails now is tried again by the next who asks.
                tokio::spawn(async move { this.list_again(false).await });
                return Ok(ids);
            }
        }
        self.list_again(true).await.map(Option::unwrap_or_default)
    }

    /// Lists everything, unless somebody just did; `wait` for whoever does, or leave it to them.
    async fn list_again(&self, wait: bool) -> Result<Option<Arc<Ids>>> {
        let _turn = match (self.listing.try_lock(), wait) {
            (Ok(turn), _) => turn,
            (Err(_), false) => return Ok(None),
            (Err(_), true) => self.listing.lock().await,
        };
        let known = lock(&self.all).clone();
        if let Some((made, ids)) = known
            && made.elapsed() < FRESH
        {
            return Ok(Some(ids));
        }
        let ids = Arc::new(list_all(&self.store).await?);
        *lock(&self.all) = Some((Instant::now(), ids.clone()));
        Ok(Some(ids))
    }

    /// The versions of one Zarr, whose manifests are in `folder`.
    pub(crate) async fn of_zarr(&self, id: &str, folder: &str) -> Result<Vec<Digest>> {
        if let Some((made, known)) = lock(&self.zarrs).get(id)
            && made.elapsed() < FRESH_ZARR
        {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        let mut entries = self.store.list_opts(folder, &ListOptions::default());
        while let Some(entry) = entries.try_next().await? {
            if let Entry::Object(object) = &entry {
                found.extend(checksum_in(&object.key));
            }
        }
        let mut zarrs = lock(&self.zarrs);
        if zarrs.len() >= MOST_ZARRS {
            zarrs.clear();
        }
        zarrs.insert(id.to_owned(), (Instant::now(), found.clone()));
        Ok(found)
    }
}

/// Lists all manifests by name.
async fn list_all(store: &SharedStore) -> Result<Ids> {
    // A bucket lists a thousand at a time, whatever folders they are in; a web server only folder by folder.
    let folders = match store.lists_all() {
        true => vec![String::new()],
        false => {
            let entries = store.list_opts("", &ListOptions::default());
            entries.map_ok(|entry| entry.path().to_owned()).try_collect().await?
        }
    };
    let lists: Vec<BoxFuture<'_, Result<Names>>> =
        folders.into_iter().map(|folder| list_below(store, folder).boxed()).collect();
    let mut out: BTreeMap<String, Vec<Digest>> = BTreeMap::new();
    let mut lists = stream::iter(lists).buffer_unordered(AT_ONCE);
    while let Some(list) = lists.try_next().await? {
        for (id, checksum) in list {
            out.entry(id).or_default().push(checksum);
        }
    }
    Ok(out.into_iter().collect())
}

/// Lists the manifests below a folder: the ids of their Zarrs, and their names.
async fn list_below(store: &SharedStore, folder: String) -> Result<Names> {
    let mut found = Vec::new();
    let mut entries = store.list_opts(&folder, &ListOptions::default().with_recursive(true));
    while let Some(entry) = entries.try_next().await? {
        let Entry::Object(object) = entry else { continue };
        let parts: Vec<&str> = object.key.split('/').collect();
        let [first, second, id, _] = parts.as_slice() else { continue };
        let Some(checksum) = checksum_in(&object.key) else { continue };
        if folder_of(id).is_some_and(|folder| folder == format!("{first}/{second}/{id}")) {
            found.push(((*id).to_owned(), checksum));
        }
    }
    Ok(found)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
