//! What is served: a name to an open store.
//!
//! A source is opened when it is first asked for, once however many ask, and kept. One that can change is looked at
//! again from time to time: [`Source`] is one state of it, and whoever holds one reads one state.

mod address;
mod hot;
mod opening;
mod source;
mod visiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use tokio::sync::OnceCell;
use zaro::open::SourceOptions;
use zaro::store::{Entry, ListOptions};
use zaro::{Error, ErrorKind, Result};

use self::address::{
    check_name, is_folder_of_zarrs, is_local_archive, is_source, local_path, may_be_archive, name_of, split,
};
use self::hot::Hot;
pub(crate) use self::hot::MOST as SMALL_FILE;
use self::opening::Opened;
pub(crate) use self::source::Source;
use self::visiting::Visiting;
pub(crate) use self::visiting::name_for;
use crate::answer::Fault;
use crate::archive::Archive;
use crate::embargo::{Candidate, Embargo, places_of};

/// Versions that are kept open at once, besides the named sources.
const MOST_VERSIONS: usize = 64;

/// Where a source lies.
#[derive(Debug, Clone)]
enum Place {
    /// At this address.
    At(String),
    /// In the archive, by its id.
    Archived(Arc<Archive>),
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
    /// Small files in memory.
    hot: Arc<Hot>,
    /// The bytes that open versions may hold.
    versions_memory: u64,
    /// Addresses that clients opened.
    visiting: Visiting,
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
    /// The bytes that it holds.
    weight: AtomicU64,
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
        let share = u64::try_from(options.store.context.memory() / 8).unwrap_or(u64::MAX);
        Ok(Self {
            places,
            order,
            archive: OnceCell::new(),
            folders,
            options,
            open: Mutex::default(),
            hot: Arc::new(Hot::new(share)),
            versions_memory: share,
            visiting: Visiting::default(),
            embargo: None,
            nonce: format!("{:016x}", RandomState::new().hash_one(0)),
        })
    }

    /// Minds the embargo tags of buckets, each for this time; `openable` are the addresses below which clients may open
    /// more.
    pub(crate) fn with_embargo(mut self, fresh: Option<Duration>, openable: &[String]) -> Self {
        let mut addresses = self.places.values().chain(&self.options.objects).chain(openable);
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
        let uri = self.address(base).or_else(|| self.visiting.address(base));
        // By its address, where it has one: before somebody opened that, the name was nobody's.
        let name = uri.as_deref().unwrap_or(base);
        if let Some(known) = embargo.known(name) {
            return Ok(known);
        }
        let places = match &uri {
            Some(uri) => places_of(uri, &self.options.store)?,
            None if zaro::manifest::check_zarr_id(base).is_err() => return Ok(false),
            None => match self.archive().await? {
                Some(archive) => archive.tagged_places(base),
                None => return Ok(false),
            },
        };
        if places.is_empty() { Ok(false) } else { embargo.look(name, &places).await }
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
                if check_name(name).is_err() || out.iter().any(|n| n == name) {
                    continue;
                }
                let is_file = matches!(entry, Entry::Object(_));
                if !is_file || is_source(&local_path(folder).join(name), name) {
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
            let path = local_path(uri);
            path.metadata().is_ok_and(|found| found.is_dir() || is_source(path, name))
        })
    }

    /// Where the source of this name, without version, lies.
    async fn place(&self, name: &str) -> Result<Option<Place>> {
        if let Some(uri) = self.address(name) {
            return Ok(Some(Place::At(uri)));
        }
        if let Some(uri) = self.visiting.address(name) {
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
        if let Some(source) = self.at_hand(name).filter(|source| source.private == private) {
            return Ok(Some(source));
        }
        let Some(place) = self.place(base).await? else { return Ok(None) };
        let slot = self.slot(name).unwrap_or_else(|| self.new_slot(name));
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
        slot.weight.store(opened.weight, Relaxed);
        slot.renew(&opened);
        let source = state.insert(opened).source.clone();
        drop(state);
        self.make_room(name);
        Ok(Some(source))
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

    /// Closes the versions that were used least recently, until those that are open hold no more than they may.
    fn make_room(&self, last: &str) {
        let mut open = lock(&self.open);
        loop {
            let versions = || {
                open.iter()
                    .filter(|(name, slot)| !self.places.contains_key(*name) && slot.weight.load(Relaxed) > 0)
            };
            let total = versions().fold(0u64, |sum, (_, slot)| sum.saturating_add(slot.weight.load(Relaxed)));
            if total <= self.versions_memory {
                return;
            }
            let others = versions().filter(|(name, _)| *name != last);
            let oldest = others.min_by_key(|(_, slot)| *lock(&slot.used)).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { return };
            open.remove(&oldest);
        }
    }

    fn forget(&self, name: &str) {
        lock(&self.open).remove(name);
    }

    /// The source of this name, if it is open and was looked at a moment ago: without waiting for anybody.
    pub(crate) fn at_hand(&self, name: &str) -> Option<Arc<Source>> {
        let slot = self.slot(name)?;
        let fresh = lock(&slot.fresh);
        fresh.as_ref().filter(|(_, until)| Instant::now() < *until).map(|(source, _)| source.clone())
    }
}

impl Slot {
    fn renew(&self, opened: &Opened) {
        let now = Instant::now();
        *lock(&self.fresh) = Some((opened.source.clone(), now + opened.lasts()));
        *lock(&self.used) = Some(now);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        tokio::time::sleep(opening::FRESH).await;
        let third = sources.get("a.zarr", false).await.unwrap().unwrap();
        assert!(!Arc::ptr_eq(&first, &third));
        assert!(third.zarr().is_ok() && sources.get("a.zarr@nothing", false).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn of_the_files_in_a_folder_only_references_and_archives_are_sources() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("refs.json", r#"{"version": 1, "refs": {".zgroup": "{\"zarr_format\": 2}"}}"#),
            ("flat.json", r#" { ".zgroup": "{\"zarr_format\": 2}" }"#),
            ("notes.json", r#"{"author": "somebody", "versions": [1, 2]}"#),
            ("list.json", r#"["refs"]"#),
            ("broken.json", "{"),
            ("notes.txt", "refs"),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let list = [folder.path().to_str().unwrap().to_owned()];
        let sources = Sources::new(&list, SourceOptions::default()).unwrap();
        assert_eq!(sources.names().await.unwrap(), ["flat.json", "refs.json"]);
        assert!(sources.get("flat.json", false).await.unwrap().is_some());
        assert!(sources.get("notes.json", false).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn open_versions_hold_no_more_than_their_share() {
        use crate::archive::testing::{ONE, TWO, made};
        let mut made = made();
        let ids = [format!("{TWO}@{}", made.old), format!("{TWO}@{}", made.new), ONE.to_owned()];
        let sources = &mut made.app.sources;
        sources.versions_memory = 0;
        for id in &ids {
            assert!(sources.get(id, false).await.unwrap().is_some(), "{id}");
        }
        // The last one stays whatever it weighs: somebody reads it.
        assert_eq!(lock(&sources.open).len(), 1);
        sources.versions_memory = u64::MAX;
        for id in &ids {
            assert!(sources.get(id, false).await.unwrap().is_some(), "{id}");
        }
        assert_eq!(lock(&sources.open).len(), ids.len());
    }
}
