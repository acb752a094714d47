//! Icechunk repositories, made by the library that others use (`conformance/make_icechunk.py`), read and damaged.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use zaro::manifest::Time;
use zaro::meta::Json;
use zaro::open::{SourceOptions, open_store};
use zaro::reference::icechunk::{self, Repository, Version};
use zaro::reference::{Location, Map, ReferenceStore, Remote, Span, Target, Targets};
use zaro::store::{
    ByteRange, Entry, GetOptions, ListOptions, Listing, MemoryStore, Object, ObjectMeta, Pin, RemoteMeta,
    SharedStore, Store, StoreExt as _, ZipStore,
};
use zaro::{Context, ErrorKind, OpenOptions, ReadOptions, Result, Selection, Zarr};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/icechunk/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn expected(format: u8) -> Json {
    let all = Json::parse(&data("expected.json")).unwrap().value;
    all.get(&format!("v{format}")).unwrap().clone()
}

/// The objects of a repository, to be changed at will.
async fn files(format: u8) -> BTreeMap<String, Bytes> {
    let memory = MemoryStore::new();
    memory.put("x.zip", data(&format!("v{format}.zip"))).unwrap();
    let zip = ZipStore::open(Arc::new(memory), "x.zip").await.unwrap().unwrap();
    let keys: Vec<_> = zip.keys("").try_collect().await.unwrap();
    let mut out = BTreeMap::new();
    for entry in keys {
        let bytes = zip.get(&entry.key, None).await.unwrap().unwrap();
        out.insert(entry.key, bytes);
    }
    assert!(out.len() > 20);
    out
}

fn memory(files: &BTreeMap<String, Bytes>) -> SharedStore {
    let store = MemoryStore::new();
    for (key, bytes) in files {
        store.put(key, bytes.clone()).unwrap();
    }
    Arc::new(store)
}

async fn repository(format: u8) -> SharedStore {
    memory(&files(format).await)
}

/// Objects that follow from their names: what virtual chunks lie in.
#[derive(Debug, Default)]
struct Made {
    pins: Mutex<Vec<Pin>>,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("made")
    }
}

#[async_trait]
impl Store for Made {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.pins.lock().unwrap().extend(options.pin.cloned());
        let Some(ByteRange::Span { offset, length }) = options.range else {
            panic!("a whole object was asked for")
        };
        let byte = |i: u64| ((i * 7 + key.len() as u64) % 251) as u8;
        Ok(Some((offset..offset + length).map(byte).collect::<Bytes>().into()))
    }

    async fn stat(&self, _: &str) -> Result<Option<ObjectMeta>> {
        Ok(Some(RemoteMeta { size: Some(1 << 20), ..RemoteMeta::default() }.into()))
    }

    fn list_opts(&self, _: &str, _: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        futures::stream::empty().boxed()
    }
}

/// Relative addresses in the repository, all others made.
#[derive(Debug)]
struct Here {
    repository: SharedStore,
    made: Arc<Made>,
}

#[async_trait]
impl Targets for Here {
    async fn target(&self, remote: &Remote) -> Result<Target> {
        Ok(match remote.url.strip_prefix("s3://") {
            Some(rest) => {
                let (bucket, key) = rest.split_once('/').unwrap();
                assert!(matches!(bucket, "archive" | "named"));
                Target { store: self.made.clone(), key: key.to_owned() }
            }
            None => Target { store: self.repository.clone(), key: remote.url.to_string() },
        })
    }
}

fn store_of(map: Repository, repository: &SharedStore) -> (SharedStore, Arc<Made>) {
    let made = Arc::new(Made::default());
    let targets = Here { repository: repository.clone(), made: made.clone() };
    (Arc::new(ReferenceStore::new("repository", Arc::new(map), Arc::new(targets))), made)
}

async fn check_arrays(zarr: &Zarr, expected: &Json) {
    let mut found = 0;
    for node in zarr.walk("").await.unwrap() {
        let Ok(array) = zarr.array(&node.path).await else { continue };
        let slab = array.read_slab(&Selection::all(), &ReadOptions::default()).await.unwrap();
        let path = node.path.trim_start_matches('/');
        let wanted = expected.get(path).unwrap_or_else(|| panic!("{path} should not be there"));
        assert_eq!(wanted.get("bytes").unwrap().as_u64().unwrap(), slab.bytes.len() as u64, "{path}");
        assert_eq!(
            wanted.get("crc").unwrap().as_u64().unwrap(),
            u64::from(crc32fast::hash(&slab.bytes)),
            "{path}"
        );
        found += 1;
    }
    assert_eq!(found, expected.members().unwrap().len());
}

#[tokio::test]
async fn every_version_reads_as_it_was_written() {
    for format in [1, 2] {
        let repository = repository(format).await;
        let expected = expected(format);
        let names = |kind: &str| expected.get(kind).unwrap().members().unwrap().to_vec();
        let mut versions =
            vec![(Version::default(), expected.get("branches").unwrap().get("main").unwrap().clone())];
        versions.extend(names("branches").into_iter().map(|(n, id)| (Version::Branch(n), id)));
        versions.extend(names("tags").into_iter().map(|(n, id)| (Version::Tag(n), id)));
        let ids =
            names("snapshots").into_iter().map(|(id, _)| (Version::Snapshot(id.clone()), Json::string(id)));
        versions.extend(ids);
        assert_eq!(versions.len(), 7);
        for (version, id) in versions {
            let map = Repository::open(repository.clone(), &version).await.unwrap();
            assert_eq!(map.snapshot().to_string(), id.as_str().unwrap());
            let (store, _) = store_of(map, &repository);
            let zarr = Zarr::from_store(store, OpenOptions::default()).await.unwrap();
            check_arrays(&zarr, expected.get("snapshots").unwrap().get(id.as_str().unwrap()).unwrap()).await;
        }
    }
}

#[tokio::test]
async fn a_branch_can_be_read_as_it_was_at_a_time() {
    for format in [1, 2] {
        let repository = repository(format).await;
        let history = icechunk::history(repository.clone(), &Version::default()).await.unwrap();
        let said: Vec<_> = history.iter().map(|commit| commit.message.as_str()).collect();
        assert_eq!(said, ["second", "first", "Repository initialized"]);
        if format == 1 {
            // As the icechunk library tells them.
            let times: Vec<_> = history.iter().map(|commit| commit.time.to_string()).collect();
            let wanted = ["534168", "496148", "387556"].map(|n| format!("2026-11-15T20:10:49.{n}+00:00"));
            assert_eq!(times, wanted);
        }
        assert!(history.is_sorted_by(|newer, older| newer.time > older.time));
        let dev = icechunk::history(repository.clone(), &Version::Branch("dev".into())).await.unwrap();
        assert_eq!(dev, history[1..]);
        let at = async |branch: &str, time: Time| {
            let version = Version::At(branch.to_owned(), time);
            Repository::open(repository.clone(), &version).await.map(|found| found.snapshot())
        };
        for (i, commit) in history.iter().enumerate() {
            assert_eq!(at("main", commit.time).await.unwrap(), commit.snapshot);
            // A microsecond before it, it was not there.
            let before = Time::new(commit.time.seconds, commit.time.nanos - 1000);
            match history.get(i + 1) {
                Some(older) => assert_eq!(at("main", before).await.unwrap(), older.snapshot),
                None => {
                    let e = at("main", before).await.unwrap_err();
                    assert!(
                        e.kind() == ErrorKind::NotFound && e.to_string().contains("no snapshot yet"),
                        "{e}"
                    );
                }
            }
        }
        let later = Time::parse_date("2100-01-01").unwrap();
        assert_eq!(at("dev", later).await.unwrap(), history[1].snapshot);
        assert_eq!(at("mian", later).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn what_is_there_is_named() {
    for format in [1, 2] {
        let repository = repository(format).await;
        assert!(icechunk::is_repository(&repository).await.unwrap());
        let versions = icechunk::versions(repository).await.unwrap();
        let expected = expected(format);
        assert_eq!(versions.format, format);
        for (kind, found) in [("branches", versions.branches), ("tags", versions.tags)] {
            let found: Vec<_> = found.iter().map(|n| (n.name.clone(), n.snapshot.to_string())).collect();
            let wanted = expected.get(kind).unwrap().members().unwrap();
            let wanted: Vec<_> =
                wanted.iter().map(|(n, id)| (n.clone(), id.as_str().unwrap().to_owned())).collect();
            assert_eq!(found, wanted);
        }
    }
    let empty: SharedStore = Arc::new(MemoryStore::new());
    assert!(!icechunk::is_repository(&empty).await.unwrap());
    let other = MemoryStore::new();
    other.put("repo", &b"short"[..]).unwrap();
    assert!(!icechunk::is_repository(&(Arc::new(other) as SharedStore)).await.unwrap());
}

#[tokio::test]
async fn unknown_versions_are_not_found_and_those_there_are_named() {
    for format in [1, 2] {
        let repository = repository(format).await;
        for (version, words) in [
            (
                Version::Branch("mian".into()),
                &["\"mian\" does not exist", "\"dev\"", "\"main\"", "\"höhe %x\""][..],
            ),
            (Version::Branch(String::new()), &["does not exist", "\"main\""]),
            (Version::Branch("../branch.main".into()), &["does not exist"]),
            (Version::Branch("a/b".into()), &["does not exist"]),
            (Version::Tag("v2".into()), &["\"v2\" does not exist", "\"v1.0\""]),
            (Version::Tag("gone".into()), &["\"gone\" was deleted"]),
            (Version::Snapshot("1CECHNKREP0F1RSTCMTG".into()), &["does not exist", "1CECHNKREP0F1RSTCMT0"]),
        ] {
            let e = icechunk::open(repository.clone(), &version).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
            for word in words {
                assert!(e.to_string().contains(word), "{word}: {e}");
            }
        }
        let e = icechunk::open(repository, &Version::Snapshot("main".into())).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
    }
}

#[tokio::test]
async fn keys_stand_for_what_the_manifests_say() {
    for format in [1, 2] {
        let map = Repository::open(repository(format).await, &Version::Tag("v1.0".into())).await.unwrap();
        let pin = |etag: Option<&str>, time: Option<i64>| {
            Some(Arc::new(Pin { etag: etag.map(str::to_owned), unmodified_since: time, ..Pin::default() }))
        };
        let at = |url: &str, offset: u64, length: u64, pin: Option<Arc<Pin>>| {
            let span = Some(Span { offset, length });
            Some(Location::Remote(Remote { url: url.into(), span, pin, near: None }))
        };
        let long = "s3://archive/year/1999/month-11.nc";
        for (key, wanted) in [
            ("grp/virtual/c/0/0", at("s3://archive/a/one.nc", 100, 20, None)),
            ("grp/virtual/c/0/1", at("s3://archive/a/one.nc", 5000, 20, pin(Some("0123abcd"), None))),
            ("grp/virtual/c/1/0", at("s3://archive/with space%.nc", 0, 20, pin(None, Some(1_620_097_321)))),
            ("grp/virtual/c/1/2", at("s3://named/deep/inner/two.nc", 17, 20, pin(Some("quoted"), None))),
            ("grp/virtual/c/1/1", None),
            ("grp/virtual/c/7/7", None),
            ("grp/virtual/c/4294967296/0", None),
            ("grp/virtual/c/00/0", None),
            ("grp/virtual/c/0", None),
            ("grp/virtual/0.0", None),
            ("grp/virtual/.zarray", None),
            ("grp/c/0", None),
            ("nothing/c/0", None),
            ("c/0", None),
            ("nothing/zarr.json", None),
            ("empty/c/0/0", None),
            ("many/c/119", at(long, 1190, 4, None)),
            ("many/c/120", None),
            (
                "inline/c/1",
                Some(Location::Inline([3.5f64.to_le_bytes(), 4.5f64.to_le_bytes()].concat().into())),
            ),
        ] {
            assert_eq!(map.locate(key).await.unwrap(), wanted, "{key}");
        }
        let Some(Location::Remote(native)) = map.locate("native/c/1/1").await.unwrap() else { panic!() };
        assert!(
            native.url.starts_with("chunks/") && native.url.len() == 27 && native.span.unwrap().offset == 0
        );
        let containers = map.containers().await.unwrap();
        let named = containers.iter().find(|c| c.name.as_deref() == Some("box")).unwrap();
        assert_eq!((named.url_prefix.as_str(), named.kind.as_str()), ("s3://named/deep/", "s3_compatible"));
        let option = |name: &str| named.options.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(option("endpoint_url"), Some("https://objects.example.org"));
        assert_eq!(option("anonymous"), Some("true"));
    }
}

#[tokio::test]
async fn pins_reach_the_store() {
    let repository = repository(2).await;
    let map = Repository::open(repository.clone(), &Version::default()).await.unwrap();
    let (store, made) = store_of(map, &repository);
    for key in ["grp/virtual/c/0/1", "grp/virtual/c/1/0", "grp/virtual/c/0/0"] {
        store.get(key, None).await.unwrap().unwrap();
    }
    let pins = made.pins.lock().unwrap();
    assert_eq!(pins.len(), 2);
    assert_eq!(pins[0].etag.as_deref(), Some("0123abcd"));
    assert_eq!(pins[1].unmodified_since, Some(1_620_097_321));
}

#[tokio::test]
async fn listings_and_entries_agree_with_each_other() {
    for format in [1, 2] {
        let map = Repository::open(repository(format).await, &Version::Tag("v1.0".into())).await.unwrap();
        let all: Vec<(String, Location)> = map.entries("").try_collect().await.unwrap();
        let keys: Vec<&str> = all.iter().map(|(k, _)| k.as_str()).collect();
        let count = |start: &str| keys.iter().filter(|k| k.starts_with(start)).count();
        // 28 of 36 were written, and one of them then became nothing but fill value.
        assert_eq!(count("grp/split/c/"), 27);
        assert_eq!(count("many/c/"), 120);
        assert_eq!(count("native/"), 5);
        assert_eq!(count("scalar/"), 2);
        assert_eq!(keys.iter().filter(|k| k.ends_with("zarr.json")).count(), 13);
        let asked: Vec<String> = keys.iter().map(|k| (*k).to_owned()).collect();
        let located = map.locate_all(&asked).await.unwrap();
        for ((key, wanted), found) in all.iter().zip(located) {
            assert_eq!(Some(wanted), found.as_ref(), "{key}");
        }
        // Everything that listings lead to is an entry, and the other way round.
        let mut walked = Vec::new();
        let mut open = vec![String::new()];
        while let Some(folder) = open.pop() {
            let listing = map.list(&folder).await.unwrap();
            let below =
                |name: &String| if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            walked.extend(listing.objects.iter().map(below));
            open.extend(listing.prefixes.iter().map(below));
            // What is below a folder is the same by prefix.
            let inside: Vec<(String, Location)> = map.entries(&folder).try_collect().await.unwrap();
            let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            assert_eq!(inside.len(), count(&start), "{folder}");
        }
        walked.sort();
        let mut sorted = asked.clone();
        sorted.sort();
        assert_eq!(walked, sorted);
        assert_eq!(
            map.list("").await.unwrap().prefixes,
            ["empty", "grp", "grp-x", "inline", "many", "native", "scalar"]
        );
        assert_eq!(map.list("grp/split").await.unwrap().prefixes, ["c"]);
        assert_eq!(map.list("grp/split/c/0").await.unwrap().objects, ["0", "1", "2", "3"]);
        assert_eq!(map.list("nothing").await.unwrap(), Listing::default());
    }
}

#[tokio::test]
async fn little_memory_for_manifests_is_enough() {
    let repository = repository(2).await;
    let map = Repository::open(repository.clone(), &Version::default())
        .await
        .unwrap()
        .with_context(&Context::shared().with_memory(1));
    let (store, _) = store_of(map, &repository);
    let zarr = Zarr::from_store(store, OpenOptions::default()).await.unwrap();
    let expected = expected(2);
    let id = expected.get("branches").unwrap().get("main").unwrap().as_str().unwrap();
    check_arrays(&zarr, expected.get("snapshots").unwrap().get(id).unwrap()).await;
}

#[tokio::test]
async fn what_is_named_and_not_there_is_an_error() {
    for format in [1, 2] {
        let files = files(format).await;
        for folder in ["manifests/", "chunks/"] {
            let mut less = files.clone();
            less.retain(|key, _| !key.starts_with(folder));
            let repository = memory(&less);
            let map = Repository::open(repository.clone(), &Version::default()).await.unwrap();
            let (store, _) = store_of(map, &repository);
            let e = store.get("native/c/1/1", None).await.unwrap_err();
            let said = e.to_string();
            assert!(
                said.contains(folder) && said.contains("native/c/1/1") && said.contains("does not exist"),
                "{said}"
            );
            assert_eq!(store.get("native/c/9/9", None).await.unwrap(), None);
        }
        let mut less = files.clone();
        less.retain(|key, _| !key.starts_with("snapshots/"));
        let e = icechunk::open(memory(&less), &Version::default()).await.unwrap_err();
        assert!(e.to_string().contains("snapshots/"), "{e}");
        // One file under the name of another is noticed.
        let manifests: Vec<_> = files.keys().filter(|k| k.starts_with("manifests/")).cloned().collect();
        let mut mixed = files.clone();
        for (a, b) in manifests.iter().zip(manifests.iter().skip(1)) {
            mixed.insert(a.clone(), files[b].clone());
        }
        let map = icechunk::open(memory(&mixed), &Version::default()).await.unwrap();
        let all: Result<Vec<_>> = map.entries("").try_collect().await;
        assert_eq!(all.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn repositories_are_opened_by_their_address() {
    for format in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        for (key, bytes) in files(format).await {
            let path = folder.path().join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let at = folder.path().to_str().unwrap().to_owned();
        let zip = format!("{}/tests/data/icechunk/v{format}.zip", env!("CARGO_MANIFEST_DIR"));
        let first = |x: f64| Some(Bytes::from([x.to_le_bytes(), 2.5f64.to_le_bytes()].concat()));
        for address in [at.clone(), format!("icechunk://{at}"), format!("icechunk+file://{at}"), zip] {
            let mut options = SourceOptions::default();
            let inline = |store: SharedStore| async move { store.get("inline/c/0", None).await.unwrap() };
            assert_eq!(inline(open_store(&address, &options).await.unwrap()).await, first(9.5), "{address}");
            options.version = Some(Version::Branch("höhe %x".into()));
            let store = open_store(&address, &options).await.unwrap();
            assert!(store.get("native/c/1/1", None).await.unwrap().unwrap().len() > 100);
            assert_eq!(inline(store).await, first(1.5));
            options.version = Some(Version::Tag("v1.0".into()));
            assert_eq!(inline(open_store(&address, &options).await.unwrap()).await, first(1.5));
            options.version = Some(Version::Tag("none".into()));
            let e = open_store(&address, &options).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
            assert!(e.to_string().contains("\"v1.0\""), "{e}");
        }
    }
}

/// Opens, lists and looks at everything; what comes of it does not matter, only that something does.
async fn try_all(files: &BTreeMap<String, Bytes>) -> bool {
    let store = memory(files);
    let _ = icechunk::versions(store.clone()).await;
    let Ok(map) = Repository::open(store, &Version::default()).await else { return false };
    let _ = map.containers().await;
    let _ = map.list("grp").await;
    let entries: Result<Vec<_>> = map.entries("").try_collect().await;
    let _ = map.locate("many/c/3").await;
    entries.is_ok()
}

#[tokio::test]
async fn damage_is_survived() {
    for format in [1, 2] {
        let mut files = files(format).await;
        assert!(try_all(&files).await);
        let keys: Vec<String> = files.keys().filter(|k| !k.starts_with("chunks/")).cloned().collect();
        for key in keys {
            let good = files[&key].clone();
            for at in (0..good.len()).step_by(61) {
                let mut bad = good.to_vec();
                match at % 2 {
                    0 => bad.truncate(at),
                    _ => bad[at] ^= 1 << (at % 8),
                }
                files.insert(key.clone(), bad.into());
                let _ = try_all(&files).await;
            }
            files.insert(key, good);
        }
    }
}
