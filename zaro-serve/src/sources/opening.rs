//! From a name and a version to an open store, and what tells whether it is still the newest state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use zaro::manifest::bucket::{BucketZarr, document_at};
use zaro::manifest::{Digest, ManifestOptions, Time};
use zaro::open::SourceOptions;
use zaro::reference::icechunk::Version;
use zaro::store::{ObjectMeta, SharedStore};
use zaro::{Error, ErrorKind, OpenOptions, Result, Zarr};

use super::address::{local_file, local_folder, manifest_of};
use super::{Place, Source, Sources};
use crate::answer::Caching;
use crate::archive::{Archive, time_of};

/// How long a source that can change is taken for unchanged.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// How long references and branches are taken for unchanged, where only opening them again tells.
const FRESH_REFERENCES: Duration = Duration::from_secs(15);

/// What a manifest elsewhere is taken to weigh.
const REMOTE_MANIFEST: u64 = 8 << 20;

/// After this time nobody changes what was there before: uploads in parts are dated by their beginning.
const SETTLED: Duration = Duration::from_secs(7 * 86_400);

/// Documents of a root whose change means that a Zarr has to be opened again.
pub(super) const DOCUMENTS: [&str; 5] = ["zarr.json", ".zmetadata", ".zgroup", ".zarray", ".zattrs"];

/// A state of a source that was chosen and is about to be opened.
struct Chosen {
    /// Its address.
    uri: String,
    options: SourceOptions,
    /// Its store, if that is open already: no address leads to a past state of a bucket.
    store: Option<SharedStore>,
    caching: Caching,
    /// The bytes of its manifest.
    weight: u64,
    /// What tells it from other states, if that is known before it is opened.
    stamp: Option<Stamp>,
}

/// An open source, and what tells its state.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) source: Arc<Source>,
    stamp: Stamp,
    /// The bytes that it holds as long as it is open.
    pub(super) weight: u64,
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
    pub(super) async fn open_at(
        &self,
        name: &str,
        base: &str,
        place: &Place,
        version: Option<&str>,
        private: bool,
    ) -> Result<Opened> {
        let Chosen { uri, options, store, caching, weight, stamp } = match (place, version) {
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
        let is_plain = version.is_none() && !referenced && store.direct().is_some() && local_folder(&uri);
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
            files: is_plain.then(|| self.hot.clone()),
        };
        Ok(Opened { source: Arc::new(source), stamp, weight })
    }

    /// What is at an address, which may be that of something that can never change.
    fn at(&self, uri: &str, fixed: bool) -> Chosen {
        Chosen {
            uri: uri.to_owned(),
            options: self.options.clone(),
            store: None,
            caching: if fixed { Caching::Immutable } else { Caching::Live },
            weight: 0,
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
        let weight = u64::try_from(open.manifest.memory()).unwrap_or(u64::MAX);
        let (store, stamp) = (Some(archive.store_of(&open)?), Some(stamp));
        Ok(Chosen { store, stamp, weight, ..self.at("", fixed) })
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
        let weight = u64::try_from(manifest.memory()).unwrap_or(u64::MAX);
        let store: SharedStore = Arc::new(zaro::manifest::version_store(uri, manifest, store, true));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let past = u64::try_from(time.seconds).unwrap_or(0);
        // What began to be uploaded before may appear later, with the date of its beginning.
        let settled = past.saturating_add(SETTLED.as_secs()) < now.as_secs();
        let stamp = if settled { Stamp::Never } else { Stamp::Age(Instant::now()) };
        Ok(Some(Chosen { store: Some(store), stamp: Some(stamp), weight, ..self.at(uri, false) }))
    }

    /// A version of what is at an address.
    async fn version(&self, uri: &str, version: &str) -> Result<Chosen> {
        if let Some(checksum) = Digest::parse(version) {
            let manifest =
                manifest_of(uri, &checksum).ok_or_else(|| Error::not_found("it has no versions"))?;
            // In memory it is smaller than its text.
            let weight = local_file(&manifest).and_then(|file| Some(file.metadata().ok()?.len()));
            return Ok(Chosen { weight: weight.unwrap_or(REMOTE_MANIFEST), ..self.at(&manifest, true) });
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
}

impl Opened {
    /// How long it is taken for unchanged.
    pub(super) fn lasts(&self) -> Duration {
        match self.stamp {
            Stamp::Never => Duration::from_secs(3600),
            Stamp::Age(_) | Stamp::Version { .. } => FRESH_REFERENCES,
            _ => FRESH,
        }
    }

    /// Whether the source is still in this state. If nobody can tell now, it is taken for unchanged: what is read will.
    pub(super) async fn is_current(&self) -> bool {
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

fn file_state(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = path.metadata().ok()?;
    Some((meta.modified().ok()?, meta.len()))
}
