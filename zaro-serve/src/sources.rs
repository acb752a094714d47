//! What is served: a name to an open store.
//!
//! A source is opened when it is first asked for, once however many ask, and kept. One that can change is looked at
//! again from time to time: [`Source`] is one state of it, and whoever holds one reads one state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::TryStreamExt as _;
use tokio::sync::OnceCell;
use zaro::manifest::bucket::{BucketZarr, document_at};
use zaro::manifest::{Digest, ManifestOptions, Time};
use zaro::open::SourceOptions;
use zaro::reference::icechunk::Version;
use zaro::store::{Entry, ListOptions, ObjectMeta, SharedStore};
use zaro::{Error, ErrorKind, OpenOptions, Result, Zarr};

use crate::answer::{Caching, Fault};
use crate::archive::{Archive, time_of};
use crate::embargo::{Candidate, Embargo, places_of};
use crate::views::View;

/// How long a source that can change is taken for unchanged.
const FRESH: Duration = Duration::from_secs(1);

/// How long references and branches are taken for unchanged, where only opening them again tells.
const FRESH_REFERENCES: Duration = Duration::from_secs(15);

/// Versions that are kept open at once, besides the named sources.
const MOST_VERSIONS: usize = 64;

/// After this time nobody changes what was there before: uploads in parts are dated by their beginning.
const SETTLED: Duration = Duration::from_secs(7 * 86_400);

/// Documents of a root whose change means that a Zarr has to be opened again.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zmetadata", ".zgroup", ".zarray", ".zattrs"];

/// One state of something that is served.
#[derive(Debug)]
pub(crate) struct Source {
    /// The name it was asked for by.
    pub(crate) name: String,
    /// The hierarchy, and with it the store.
    zarr: std::result::Result<Arc<Zarr>, String>,
    store: SharedStore,
    /// Whether it is a version, which never changes.
    pub(crate) caching: Caching,
    /// Whether only some clients may see it.
    pub(crate) private: bool,
    /// The newest date of its root documents or its file, else when it was opened: for dates of what has none.
    pub(crate) since: SystemTime,
    /// The same chunks under other documents, made when they are first asked for.
    views: tokio::sync::Mutex<BTreeMap<View, Arc<Source>>>,
}

impl Source {
    /// A store of which only keys and bytes are wanted, such as one state of an archive's Zarr.
    #[must_use]
    pub(crate) fn of_bytes(name: &str, store: SharedStore, caching: Caching, private: bool) -> Self {
        let zarr = Err("this was opened for its bytes only".to_owned());
        Self {
            name: name.to_owned(),
            zarr,
            store,
            caching,
            private,
            since: SystemTime::now(),
            views: tokio::sync::Mutex::default(),
        }
    }

    /// Its store.
    #[must_use]
    pub(crate) fn store(&self) -> &SharedStore {
        &self.store
    }

    /// One of this store, for tests.
    #[cfg(test)]
    pub(crate) fn of_store(store: SharedStore) -> Arc<Self> {
        Arc::new(Self {
            name: "test".to_owned(),
            zarr: Err("a store alone".to_owned()),
            store,
            caching: Caching::Live,
            private: false,
            since: SystemTime::UNIX_EPOCH,
            views: tokio::sync::Mutex::default(),
        })
    }

    /// Its chunks under other documents.
    pub(crate) async fn view(&self, view: View) -> std::result::Result<Arc<Source>, Fault> {
        let mut views = self.views.lock().await;
        if let Some(made) = views.get(&view) {
            return Ok(made.clone());
        }
        let made = Arc::new(view.of(self).await?);
        views.insert(view, made.clone());
        Ok(made)
    }

    /// The same source with another store.
    pub(crate) fn viewed(&self, store: SharedStore, zarr: Zarr) -> Self {
        Self {
            name: self.name.clone(),
            zarr: Ok(Arc::new(zarr)),
            store,
            caching: self.caching,
            private: self.private,
            since: self.since,
            views: tokio::sync::Mutex::default(),
        }
    }

    /// Its hierarchy; an error if the root is damaged.
    pub(crate) fn zarr(&self) -> Result<&Arc<Zarr>> {
        self.zarr.as_ref().map_err(|e| Error::invalid(e.clone()))
    }
}

/// Where a source lies.
#[derive(Debug, Clone)]
enum Place {
    /// At this address.
    At(String),
    /// In the archive, by its id.
    Archived(Arc<Archive>),
}

/// A state of a source that was chosen and is about to be opened.
struct Chosen {
    /// Its address.
    uri: String,
    options: SourceOptions,
    /// Its store, if that is open already: no address leads to a past state of a bucket.
    store: Option<SharedStore>,
    caching: Caching,
    /// What tells it from other states, if that is known before it is opened.
    stamp: Option<Stamp>,
}

/// All sources of a server.
#[derive(Debug)]
pub(crate) struct Sources {
    places: BTreeMap<String, String>,
    /// The names of the places, in the order given.
    order: Vec<String>,
    /// The first source that is an archive, once somebody asked.
    archive: OnceCell<Option<Arc<Archive>>>,
    /// Folders whose entries are sources, in the order given.
    folders: Vec<String>,
    options: SourceOptions,
    open: Mutex<HashMap<String, Arc<Slot>>>,
    /// What the tags of buckets hide; `None` if there is no bucket, or they mean nothing.
    embargo: Option<Arc<Embargo>>,
    /// What no name has in it.
    nonce: String,
}

/// A source that is open, or being opened.
#[derive(Debug, Default)]
struct Slot {
    state: tokio::sync::Mutex<Option<Opened>>,
    /// The newest state and until when it may be used without a look; so that most requests wait for nobody.
    fresh: Mutex<Option<(Arc<Source>, Instant)>>,
    used: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Opened {
    source: Arc<Source>,
    stamp: Stamp,
}

/// What tells one state of a source from another.
#[derive(Debug)]
enum Stamp {
    /// A version never changes.
    Never,
    /// The documents of the root.
    Documents(Vec<Option<ObjectMeta>>),
    /// A file: references, a manifest, an archive.
    File(PathBuf, Option<(SystemTime, u64)>),
    /// The version of an archive's Zarr that is the newest, or was at a time.
    Version { archive: Arc<Archive>, id: String, time: Option<Time>, checksum: Digest },
    /// Unknown: it has to be opened again.
    Age(Instant),
}

impl Sources {
    /// The sources `NAME=URI` or `URI`. Nothing is opened yet, but local folders are looked at.
    pub(crate) fn new(list: &[String], options: SourceOptions) -> Result<Self> {
        let mut places = BTreeMap::new();
        let mut folders = Vec::new();
        let mut order = Vec::new();
        for text in list {
            let (name, uri) = split(text);
            if name.is_none() && is_folder_of_zarrs(uri) {
                folders.push(uri.trim_end_matches('/').to_owned());
                continue;
            }
            let name = match name {
                Some(name) => name.to_owned(),
                None => name_of(uri)?,
            };
            check_name(&name)?;
            if places.insert(name.clone(), uri.to_owned()).is_some() {
                return Err(Error::usage(format!("two sources are called {name:?}; write NAME=URI")));
            }
            order.push(name);
        }
        let archive = OnceCell::new();
        let nonce = format!("{:016x}", RandomState::new().hash_one(0));
        Ok(Self { places, order, archive, folders, options, open: Mutex::default(), embargo: None, nonce })
    }

    /// Minds the embargo tags of buckets, each for this time.
    pub(crate) fn with_embargo(mut self, fresh: Option<Duration>) -> Self {
        let mut addresses = self.places.values().chain(&self.options.objects);
        let tagged = addresses.any(|uri| zaro::open::is_bucket(uri));
        self.embargo = fresh.filter(|_| tagged).map(|fresh| Arc::new(Embargo::new(fresh)));
        self
    }

    /// Whether tags may hide anything.
    pub(crate) fn has_embargo(&self) -> bool {
        self.embargo.is_some()
    }

    /// Whether the tags of a bucket hide the source of this name, without version.
    pub(crate) async fn is_embargoed(&self, base: &str) -> Result<bool> {
        let Some(embargo) = &self.embargo else { return Ok(false) };
        if let Some(known) = embargo.known(base) {
            return Ok(known);
        }
        let places = match self.address(base) {
            Some(uri) => places_of(&uri, &self.options.store)?,
            None if zaro::manifest::check_zarr_id(base).is_err() => return Ok(false),
            None => match self.archive().await? {
                Some(archive) => archive.tagged_places(base),
                None => return Ok(false),
            },
        };
        if places.is_empty() { Ok(false) } else { embargo.look(base, &places).await }
    }

    /// The name of a source that nobody has, in place of one that a client may not see: whoever asks for that one gets the
    /// answer of this one, after the same work.
    pub(crate) fn nobody(&self, name: &str) -> String {
        let base = self.base_name(name);
        let nobody = format!("{base}-{}", self.nonce);
        if let Some(embargo) = &self.embargo {
            embargo.note_nobody(&nobody);
        }
        name.replacen(base, &nobody, 1)
    }

    /// The fault as it would be for the name that was asked for.
    pub(crate) fn veiled(&self, fault: Fault) -> Fault {
        let added = format!("-{}", self.nonce);
        let without = |text: String| if text.contains(&added) { text.replace(&added, "") } else { text };
        Fault { message: without(fault.message), json: fault.json.map(without), ..fault }
    }

    /// Those of an archive's Zarrs that tags hide; `None` if it would take too long to tell.
    pub(crate) async fn embargoed_among(
        &self,
        archive: &Archive,
        ids: impl Iterator<Item = &String>,
    ) -> Result<Option<BTreeSet<String>>> {
        let Some(embargo) = &self.embargo else { return Ok(Some(BTreeSet::new())) };
        let all = ids.map(|id| Candidate { name: id.clone(), places: archive.tagged_places(id) });
        embargo.hidden_among(all.filter(|one| !one.places.is_empty()).collect()).await
    }

    /// The archive of versions among the sources: the first that is one. It is looked for when somebody first asks, so
    /// that a server starts although a bucket cannot be reached.
    pub(crate) async fn archive(&self) -> Result<Option<Arc<Archive>>> {
        let found = self.archive.get_or_try_init(|| async {
            for name in &self.order {
                let Some(uri) = self.places.get(name).filter(|uri| may_be_archive(uri)) else { continue };
                if let Some(archive) = Archive::find(name, uri, &self.options).await? {
                    return Ok(Some(Arc::new(archive)));
                }
            }
            Ok(None)
        });
        found.await.cloned()
    }

    /// Whether a source is known to be an archive, and no Zarr itself.
    fn is_archive(&self, name: &str) -> bool {
        let found = self.archive.get().and_then(Option::as_ref);
        found.is_some_and(|archive| archive.name == name)
            || self.places.get(name).is_some_and(|uri| is_local_archive(uri))
    }

    /// Whether an archive is known to be among the sources, without asking anybody.
    pub(crate) fn has_archive(&self) -> bool {
        self.places.keys().any(|name| self.is_archive(name))
    }

    /// The name of the only source, if there is one that is not a folder of others.
    #[must_use]
    pub(crate) fn only(&self) -> Option<&str> {
        match (self.places.len(), self.folders.is_empty()) {
            (1, true) => self.places.keys().next().map(String::as_str),
            _ => None,
        }
    }

    /// The names of all sources, in order; not of their versions.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let mut out: Vec<String> =
            self.places.keys().filter(|name| !self.is_archive(name)).cloned().collect();
        for folder in &self.folders {
            let store = zaro::open::open_store(folder, &self.options).await?;
            let mut entries = store.list_opts("", &ListOptions::default());
            while let Some(entry) = entries.try_next().await? {
                let name = entry.path();
                let file = matches!(entry, Entry::Object(_));
                if check_name(name).is_ok() && !out.iter().any(|n| n == name) && (!file || is_openable(name))
                {
                    out.push(name.to_owned());
                }
            }
        }
        out.sort();
        Ok(out)
    }

    /// The address of a source by its name, without version.
    fn address(&self, name: &str) -> Option<String> {
        if let Some(uri) = self.places.get(name) {
            return Some(uri.clone());
        }
        check_name(name).ok()?;
        self.folders.iter().map(|folder| format!("{folder}/{name}")).find(|uri| {
            match Path::new(uri).metadata() {
                Ok(found) => found.is_dir() || is_openable(name),
                // Not a local folder: whoever opens it finds out.
                Err(_) => uri.contains("://"),
            }
        })
    }

    /// Where the source of this name, without version, lies.
    async fn place(&self, name: &str) -> Result<Option<Place>> {
        if let Some(uri) = self.address(name) {
            return Ok(Some(Place::At(uri)));
        }
        if zaro::manifest::check_zarr_id(name).is_err() {
            return Ok(None);
        }
        let Some(archive) = self.archive().await? else { return Ok(None) };
        let there = !archive.checksums(name).await?.is_empty();
        Ok(there.then_some(Place::Archived(archive)))
    }

    /// The name of a source without its version: what decides who may see it.
    #[must_use]
    pub(crate) fn base_name<'a>(&self, name: &'a str) -> &'a str {
        match name.rsplit_once('@') {
            Some((base, _)) if !self.places.contains_key(name) => base,
            _ => name,
        }
    }

    /// The source of this name, in its newest state; `None` if there is none.
    pub(crate) async fn get(&self, name: &str, private: bool) -> Result<Option<Arc<Source>>> {
        let (base, version) = match name.rsplit_once('@') {
            Some((base, version)) if !self.places.contains_key(name) => (base, Some(version)),
            _ => (name, None),
        };
        let slot = self.slot(name);
        if let Some(slot) = &slot
            && let Some((source, until)) = &*lock(&slot.fresh)
            && Instant::now() < *until
            && source.private == private
        {
            return Ok(Some(source.clone()));
        }
        let Some(place) = self.place(base).await? else { return Ok(None) };
        let slot = slot.unwrap_or_else(|| self.new_slot(name));
        let mut state = slot.state.lock().await;
        if let Some(opened) = &*state
            && opened.source.private == private
            && opened.is_current().await
        {
            slot.renew(opened);
            return Ok(Some(opened.source.clone()));
        }
        let opened = match self.open_at(name, base, &place, version, private).await {
            Ok(opened) => opened,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                *state = None;
                *lock(&slot.fresh) = None;
                self.forget(name);
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        slot.renew(&opened);
        Ok(Some(state.insert(opened).source.clone()))
    }

    async fn open_at(
        &self,
        name: &str,
        base: &str,
        place: &Place,
        version: Option<&str>,
        private: bool,
    ) -> Result<Opened> {
        let Chosen { uri, options, store, caching, stamp } = match (place, version) {
            (Place::At(uri), None) => self.at(uri, uri.starts_with("manifest+")),
            (Place::At(uri), Some(version)) => self.version(uri, version).await?,
            (Place::Archived(archive), version) => self.archived(archive, base, version).await?,
        };
        let opening = OpenOptions::default().with_store(options.store.clone());
        let zarr = match &store {
            Some(store) => Zarr::from_store(store.clone(), opening).await,
            None => zaro::open::open_with(&uri, &options, &opening).await,
        };
        let zarr = match zarr {
            Ok(zarr) => Ok(Arc::new(zarr)),
            // The bytes of a damaged Zarr are there all the same.
            Err(e) if e.kind() == ErrorKind::Invalid => Err(e),
            Err(e) => return Err(e),
        };
        let store = match (&zarr, store) {
            (Ok(zarr), _) => zarr.store().clone(),
            (Err(_), Some(store)) => store,
            (Err(_), None) => zaro::open::open_store(&uri, &options).await?,
        };
        let referenced = zarr.as_ref().is_ok_and(|z| z.is_referenced());
        let stamp = match (stamp, local_file(&uri)) {
            (Some(stamp), _) => stamp,
            (None, Some(file)) => Stamp::File(file.clone(), file_state(&file)),
            (None, None) if referenced => Stamp::Age(Instant::now()),
            (None, None) => Stamp::Documents(documents(&store).await?),
        };
        let newest = |documents: &[Option<ObjectMeta>]| {
            documents.iter().flatten().filter_map(ObjectMeta::modified).max()
        };
        let since = match &stamp {
            Stamp::Documents(known) => newest(known),
            Stamp::File(_, state) => state.map(|(modified, _)| modified),
            // A manifest has the dates of its entries at hand.
            Stamp::Never | Stamp::Version { .. } => {
                documents(&store).await.ok().and_then(|known| newest(&known))
            }
            Stamp::Age(_) => None,
        };
        let source = Source {
            name: name.to_owned(),
            zarr: zarr.map_err(|e| e.message().to_owned()),
            store,
            caching,
            private,
            since: since.unwrap_or_else(SystemTime::now),
            views: tokio::sync::Mutex::default(),
        };
        Ok(Opened { source: Arc::new(source), stamp })
    }

    /// What is at an address, which may be that of something that can never change.
    fn at(&self, uri: &str, fixed: bool) -> Chosen {
        Chosen {
            uri: uri.to_owned(),
            options: self.options.clone(),
            store: None,
            caching: if fixed { Caching::Immutable } else { Caching::Live },
            stamp: fixed.then_some(Stamp::Never),
        }
    }

    /// A version of an archive's Zarr: a checksum, the newest at a time, or the newest of all. Only the first can be
    /// kept for ever: manifests are added, also for times past.
    async fn archived(&self, archive: &Arc<Archive>, id: &str, version: Option<&str>) -> Result<Chosen> {
        let none = || Error::not_found("there is no such version");
        let time = version.and_then(time_of);
        let (checksum, fixed) = match (version, time) {
            (None, _) => (archive.newest(id).await?.ok_or_else(none)?, false),
            (Some(_), Some(time)) => (archive.version_at(id, time).await?.ok_or_else(none)?.checksum, false),
            (Some(version), None) => (Digest::parse(version).ok_or_else(none)?, true),
        };
        let open = archive.open(id, checksum).await?.ok_or_else(none)?;
        let stamp = match fixed {
            true => Stamp::Never,
            false => Stamp::Version { archive: archive.clone(), id: id.to_owned(), time, checksum },
        };
        let (store, stamp) = (Some(archive.store_of(&open)?), Some(stamp));
        Ok(Chosen { store, stamp, ..self.at("", fixed) })
    }

    /// A Zarr in a versioned bucket as it was at a time; `None` if this is not one.
    async fn at_time(&self, uri: &str, time: Time) -> Result<Option<Chosen>> {
        if !zaro::open::is_bucket(uri) {
            return Ok(None);
        }
        let store = zaro::open::open_store(uri, &self.options).await?;
        if zaro::reference::icechunk::is_repository(&store).await? {
            return Ok(None);
        }
        let (bucket, path) = zaro::open::open_bucket(uri, &self.options.store)?;
        let zarr = BucketZarr::new(bucket, &path)?;
        let document = document_at(&zarr, time, ManifestOptions::default()).await?;
        let document =
            document.ok_or_else(|| Error::not_found("the Zarr had no objects yet at that time"))?;
        let manifest = zaro::blocking::spawn_blocking(move || {
            let mut text = Vec::new();
            document.write(&mut text)?;
            zaro::manifest::parse(text.as_slice())
        });
        let manifest = Arc::new(manifest.await?);
        let store: SharedStore = Arc::new(zaro::manifest::version_store(uri, manifest, store, true));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let past = u64::try_from(time.seconds).unwrap_or(0);
        // What began to be uploaded before may appear later, with the date of its beginning.
        let settled = past.saturating_add(SETTLED.as_secs()) < now.as_secs();
        let stamp = if settled { Stamp::Never } else { Stamp::Age(Instant::now()) };
        Ok(Some(Chosen { store: Some(store), stamp: Some(stamp), ..self.at(uri, false) }))
    }

    /// A version of what is at an address.
    async fn version(&self, uri: &str, version: &str) -> Result<Chosen> {
        if let Some(checksum) = Digest::parse(version) {
            let manifest =
                manifest_of(uri, &checksum).ok_or_else(|| Error::not_found("it has no versions"))?;
            return Ok(self.at(&manifest, true));
        }
        let time = time_of(version);
        if let Some(time) = time
            && let Some(chosen) = self.at_time(uri, time).await?
        {
            return Ok(chosen);
        }
        // A branch can move, and with it what it was; a tag and a snapshot cannot.
        let named = [
            (Version::Branch(version.to_owned()), false),
            (Version::Tag(version.to_owned()), true),
            (Version::Snapshot(version.to_owned()), true),
        ];
        let dated = time.map(|time| (Version::At("main".to_owned(), time), false));
        for (which, fixed) in named.into_iter().chain(dated) {
            let options = self.options.clone().with_version(which);
            // Not as a store: a remote one is opened without a look, and would be read in its present state.
            match zaro::open::open_references(uri, &options).await {
                Ok(_) => return Ok(Chosen { options, ..self.at(uri, fixed) }),
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::NotFound | ErrorKind::Usage | ErrorKind::Unsupported | ErrorKind::Invalid
                    ) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Error::not_found("there is no such version"))
    }

    fn slot(&self, name: &str) -> Option<Arc<Slot>> {
        lock(&self.open).get(name).cloned()
    }

    fn new_slot(&self, name: &str) -> Arc<Slot> {
        let mut open = lock(&self.open);
        let versions = open.len().saturating_sub(self.places.len());
        if versions >= MOST_VERSIONS {
            let oldest = open.iter().filter(|(name, _)| !self.places.contains_key(*name));
            let oldest = oldest.min_by_key(|(_, slot)| *lock(&slot.used)).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                open.remove(&oldest);
            }
        }
        open.entry(name.to_owned()).or_default().clone()
    }

    fn forget(&self, name: &str) {
        lock(&self.open).remove(name);
    }
}

impl Slot {
    fn renew(&self, opened: &Opened) {
        let now = Instant::now();
        let until = match opened.stamp {
            Stamp::Never => now + Duration::from_secs(3600),
            Stamp::Age(_) | Stamp::Version { .. } => now + FRESH_REFERENCES,
            _ => now + FRESH,
        };
        *lock(&self.fresh) = Some((opened.source.clone(), until));
        *lock(&self.used) = Some(now);
    }
}

impl Opened {
    /// Whether the source is still in this state. If nobody can tell now, it is taken for unchanged: what is read will.
    async fn is_current(&self) -> bool {
        match &self.stamp {
            Stamp::Never => true,
            Stamp::Age(opened) => opened.elapsed() < FRESH_REFERENCES,
            Stamp::File(file, state) => file_state(file) == *state,
            Stamp::Version { archive, id, time, checksum } => {
                let now = match time {
                    Some(time) => archive.version_at(id, *time).await.map(|v| v.map(|v| v.checksum)),
                    None => archive.newest(id).await,
                };
                now.map_or(true, |now| now == Some(*checksum))
            }
            Stamp::Documents(known) => match documents(&self.source.store).await {
                Ok(now) => now == *known,
                Err(_) => true,
            },
        }
    }
}

async fn documents(store: &SharedStore) -> Result<Vec<Option<ObjectMeta>>> {
    futures::future::try_join_all(DOCUMENTS.iter().map(|name| async {
        match store.stat(name).await {
            // A folder of this name, or a server that refuses what it does not have.
            Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::NotPermitted) => Ok(None),
            other => other,
        }
    }))
    .await
}

/// The file at a local address, if it is one and not a folder.
fn local_file(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    let path = ["manifest+", "reference+json://", "virtualizarr://", "zip://"]
        .iter()
        .find_map(|scheme| path.strip_prefix(scheme))
        .unwrap_or(path);
    let path = PathBuf::from(path);
    path.is_file().then_some(path)
}

fn file_state(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = path.metadata().ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// The address of the manifest of a version of the Zarr at `uri`, which lies at `…/zarr/ID`.
fn manifest_of(uri: &str, checksum: &Digest) -> Option<String> {
    let uri = uri.trim_end_matches('/');
    let (above, id) = uri.rsplit_once('/')?;
    let base = above.strip_suffix("zarr").filter(|base| base.is_empty() || base.ends_with('/'))?;
    let key = zaro::manifest::key_of(id, checksum).ok()?;
    Some(format!("manifest+{base}{key}"))
}

/// `NAME=URI`, or a URI alone: an equals sign after a slash, a colon or a question mark belongs to the URI.
fn split(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, uri)) if !name.is_empty() && !uri.is_empty() && !name.contains(['/', ':', '?', '\\']) => {
            (Some(name), uri)
        }
        _ => (None, text),
    }
}

/// The name of a source that was given none: the last part of its address.
fn name_of(uri: &str) -> Result<String> {
    let path = uri.split(['?', '#']).next().unwrap_or(uri).trim_end_matches('/');
    let last = path.rsplit(['/', ':', '|']).find(|part| !part.is_empty() && *part != ".").unwrap_or_default();
    let name = match last {
        "" | ".." => {
            let here = std::path::absolute(uri)
                .ok()
                .and_then(|p| Some(p.canonicalize().ok()?.file_name()?.to_str()?.to_owned()));
            here.unwrap_or_default()
        }
        last => last.to_owned(),
    };
    check_name(&name).map_err(|e| e.within(uri))?;
    Ok(name)
}

/// A name is one segment of a path.
fn check_name(name: &str) -> Result<()> {
    let bad = name.is_empty()
        || name.starts_with('.')
        || name.contains(['/', '\\'])
        || name.chars().any(char::is_control);
    if bad {
        Err(Error::usage(format!("{name:?} cannot be the name of a source; write NAME=URI")))
    } else {
        Ok(())
    }
}

/// Whether a file of this name may be a source: an archive or references.
fn is_openable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".zip", ".ozx", ".json", ".json.gz", ".json.zst"].iter().any(|end| name.ends_with(end))
}

/// Whether a local folder is an archive of versions: with its objects beside the manifests, or manifests only.
fn is_local_archive(uri: &str) -> bool {
    is_archive(Path::new(uri.strip_prefix("file://").unwrap_or(uri)))
}

fn is_archive(path: &Path) -> bool {
    if path.join("zarr-manifest").is_dir() {
        return true;
    }
    // The first folder of each level tells: three letters, three more, an id that begins with them.
    let first = |path: &Path| path.read_dir().ok()?.flatten().find(|e| e.path().is_dir()).map(|e| e.path());
    let name = |path: &Path| path.file_name().and_then(|n| n.to_str()).map(str::to_owned);
    let parts = first(path).and_then(|a| {
        let b = first(&a)?;
        let c = first(&b)?;
        Some((name(&a)?, name(&b)?, name(&c)?))
    });
    parts.is_some_and(|(a, b, c)| a.len() == 3 && b.len() == 3 && c.starts_with(&format!("{a}{b}")))
}

/// Whether an archive of versions may be at an address: a plain folder, local or remote.
fn may_be_archive(uri: &str) -> bool {
    let plain = ["file://", "s3://", "gs://", "az://", "http://", "https://"];
    let is_plain = plain.iter().any(|scheme| uri.starts_with(scheme)) || !uri.contains("://");
    is_plain && !uri.starts_with("manifest+") && !is_openable(uri)
}

/// Whether a local folder is no Zarr itself, so that its entries are what is served.
fn is_folder_of_zarrs(uri: &str) -> bool {
    let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
    if !path.is_dir() {
        return false;
    }
    let has = |name: &str| path.join(name).exists();
    let is_repository = has("repo") || (has("refs") && has("snapshots"));
    !DOCUMENTS.iter().any(|name| has(name)) && !is_repository && !is_archive(path)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_command_line_or_the_address() {
        assert_eq!(split("brain=s3://b/x.zarr"), (Some("brain"), "s3://b/x.zarr"));
        assert_eq!(split("https://h/x?a=b"), (None, "https://h/x?a=b"));
        assert_eq!(split("dir/a=b"), (None, "dir/a=b"));
        for (uri, name) in [
            ("s3://b/x.zarr/", "x.zarr"),
            ("https://h/a/b.zarr?x=1", "b.zarr"),
            ("data.zarr", "data.zarr"),
            ("manifest+dir/abc.json", "abc.json"),
        ] {
            assert_eq!(name_of(uri).unwrap(), name, "{uri}");
        }
        assert!(check_name("a/b").is_err() && check_name("").is_err() && check_name(".x").is_err());
    }

    #[test]
    fn a_version_has_its_manifest_beside_its_objects() {
        let id = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d";
        let checksum = Digest::parse("6ddc4625befef8d6f9796835648162be-509--710206390").unwrap();
        let wanted = format!("manifest+s3://b/zarr-manifest/128/4a1/{id}/{checksum}.json");
        assert_eq!(manifest_of(&format!("s3://b/zarr/{id}/"), &checksum).unwrap(), wanted);
        assert_eq!(manifest_of(&format!("s3://b/x/{id}"), &checksum), None);
    }

    #[tokio::test]
    async fn a_source_is_opened_once_and_again_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let zarr = folder.path().join("a.zarr");
        std::fs::create_dir(&zarr).unwrap();
        let document = |text: &str| std::fs::write(zarr.join("zarr.json"), text).unwrap();
        document(r#"{"zarr_format": 3, "node_type": "group"}"#);
        let sources =
            Sources::new(&[folder.path().to_str().unwrap().to_owned()], SourceOptions::default()).unwrap();
        assert_eq!(sources.names().await.unwrap(), ["a.zarr"]);
        assert!(sources.get("b.zarr", false).await.unwrap().is_none());
        let first = sources.get("a.zarr", false).await.unwrap().unwrap();
        let second = sources.get("a.zarr", false).await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        document(r#"{"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}"#);
        tokio::time::sleep(FRESH).await;
        let third = sources.get("a.zarr", false).await.unwrap().unwrap();
        assert!(!Arc::ptr_eq(&first, &third));
        assert!(third.zarr().is_ok() && sources.get("a.zarr@nothing", false).await.unwrap().is_none());
    }
}
