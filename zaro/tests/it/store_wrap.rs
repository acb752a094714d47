//! Stores that need no server: files, memory, archives, and the wrappers around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use zaro::internal::wrap::{
    CacheStore, CoalesceStore, GatherStore, LimitStore, LogStore, RetryStore, WithholdStore,
};
use zaro::store::{
    ByteRange, Condition, Entry, GetOptions, KeyEntry, ListOptions, LocalStore, MemoryStore, Object,
    ObjectMeta, PrefixStore, RequestLog, RequestMethod, RequestOutcome, RetryPolicy, SharedStore, Store,
    StoreExt as _,
};
use zaro::testing::{Fault, FaultStore, sample_objects, store_suite};
use zaro::{Context, ErrorKind};

fn memory(objects: &[(String, Vec<u8>)]) -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    for (key, bytes) in objects {
        store.put(key, bytes.clone()).unwrap();
    }
    Arc::new(store)
}

/// A store of one key `k` that fails as told, and what counts its calls.
fn faulty(make: impl Fn(FaultStore) -> FaultStore) -> Arc<FaultStore> {
    Arc::new(make(FaultStore::new(memory(&[("k".into(), b"0123456789".to_vec())]))))
}

fn policy(attempts: u32) -> RetryPolicy {
    RetryPolicy { attempts: Some(attempts), ..RetryPolicy::default() }
}

#[tokio::test]
async fn memory_and_files_pass_the_suite() {
    store_suite(&*memory(&sample_objects(true)), &sample_objects(true)).await;
    let dir = tempfile::tempdir().unwrap();
    let objects = sample_objects(false);
    for (key, bytes) in &objects {
        let path = dir.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    store_suite(&LocalStore::new(dir.path()), &objects).await;
}

#[tokio::test]
async fn every_wrapper_passes_the_suite_around_stores_at_hand_and_far_away() {
    let objects = sample_objects(true);
    let near: SharedStore = memory(&objects);
    let far: SharedStore = Arc::new(FaultStore::new(Arc::clone(&near)));
    for store in [near, far] {
        let s = || Arc::clone(&store);
        store_suite(&CacheStore::new(s(), &Context::shared().with_memory(8 * (1 << 20))), &objects).await;
        store_suite(&CacheStore::new(s(), &Context::shared().with_memory(8)), &objects).await;
        store_suite(&CoalesceStore::new(s()), &objects).await;
        store_suite(&CoalesceStore::with_limits(s(), 0, 10), &objects).await;
        store_suite(&GatherStore::new(s()), &objects).await;
        store_suite(&LimitStore::new(s(), &Context::shared(), "suite", 2), &objects).await;
        store_suite(&LogStore::new(s(), Arc::new(RequestLog::with_sink(|_| ()))), &objects).await;
        store_suite(&RetryStore::new(s(), policy(2)), &objects).await;
        store_suite(&PrefixStore::new(s(), "").unwrap(), &objects).await;
        let all = zaro::open::wrapped(s(), "suite", &Default::default());
        store_suite(&*all, &objects).await;
    }
}

#[tokio::test]
async fn a_prefix_shows_what_is_below_it_and_nothing_beside() {
    let inside = sample_objects(true);
    let mut objects: Vec<_> = inside.iter().map(|(k, v)| (format!("p/q/{k}"), v.clone())).collect();
    objects.extend(["p/q2/x", "p/q-", "p", "r"].map(|k| (k.to_owned(), b"beside".to_vec())));
    let store = PrefixStore::new(memory(&objects), "p/q").unwrap();
    store_suite(&store, &inside).await;
    assert_eq!(store.to_string(), "memory:/p/q");
    for bad in ["/p", "p/", ".."] {
        assert!(PrefixStore::new(memory(&[]), bad).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_what_will_not_is_not() {
    for fault in [Fault::Passing(None), Fault::Broken] {
        let inner = faulty(|s| s.with_first(3, fault));
        let store = RetryStore::new(inner.clone(), policy(6));
        assert_eq!(store.get("k", None).await.unwrap().unwrap(), "0123456789");
        assert_eq!(inner.calls(), 4, "{fault:?}");
    }
    for (fault, kind) in [(Fault::Refused, ErrorKind::NotPermitted), (Fault::Final, ErrorKind::Io)] {
        let inner = faulty(|s| s.with_all(fault));
        let store = RetryStore::new(inner.clone(), policy(6));
        assert_eq!(store.get("k", None).await.unwrap_err().kind(), kind);
        assert_eq!(inner.calls(), 1, "{fault:?}");
    }
    let inner = faulty(|s| s);
    let store = RetryStore::new(inner.clone(), policy(6));
    assert_eq!(store.get("absent", None).await.unwrap(), None);
    assert!(store.get("k", Some(ByteRange::span(5, 6))).await.is_err());
    assert_eq!(inner.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn tries_are_limited_in_number_and_in_time() {
    let inner = faulty(|s| s.with_all(Fault::Broken));
    let error = RetryStore::new(inner.clone(), policy(3)).get("k", None).await.unwrap_err();
    assert_eq!((error.kind(), inner.calls()), (ErrorKind::Io, 3));
    assert!(error.to_string().contains("3 attempts"), "{error}");

    let inner = faulty(|s| s.with_all(Fault::Broken));
    let start = tokio::time::Instant::now();
    let forever =
        RetryPolicy { attempts: Some(1000), total: Duration::from_secs(20), ..RetryPolicy::default() };
    assert!(RetryStore::new(inner, forever).list("").await.is_err());
    assert!(start.elapsed() <= Duration::from_secs(20));

    // A server that asks for more patience than there is, is not waited for.
    let inner = faulty(|s| s.with_all(Fault::Passing(Some(Duration::from_secs(3600)))));
    let start = tokio::time::Instant::now();
    assert!(RetryStore::new(inner, policy(6)).size("k").await.is_err());
    assert_eq!(start.elapsed(), Duration::ZERO);
    let inner = faulty(|s| s.with_call(1, Fault::Passing(Some(Duration::from_secs(7)))));
    let start = tokio::time::Instant::now();
    assert!(RetryStore::new(inner, policy(6)).size("k").await.is_ok());
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn one_bad_range_repeats_alone() {
    let inner = faulty(|s| s.with_call(2, Fault::Broken));
    let store = RetryStore::new(inner.clone(), policy(6));
    let ranges = [ByteRange::span(0, 2), ByteRange::span(4, 2), ByteRange::Suffix(1)];
    let (got, _) = store.get_ranges("k", &ranges, None).await.unwrap().unwrap();
    assert_eq!(got, ["01", "45", "9"]);
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn callers_of_the_same_range_share_one_request() {
    let inner = faulty(|s| s.with_all(Fault::Delay(Duration::from_secs(1))));
    let store = CacheStore::new(inner.clone(), &Context::shared().with_memory(8 * (1 << 20)));
    let range = Some(ByteRange::span(2, 3));
    let many = (0..50).map(|_| store.get("k", range));
    for got in futures::future::join_all(many).await {
        assert_eq!(got.unwrap().unwrap(), "234");
    }
    assert_eq!(inner.calls(), 1);
    assert_eq!(store.get("k", range).await.unwrap().unwrap(), "234");
    let both = store.get_ranges("k", &[ByteRange::span(2, 3), ByteRange::span(0, 1)], None).await;
    let (both, _) = both.unwrap().unwrap();
    assert_eq!((both, inner.calls()), (vec!["234".into(), "0".into()], 2));
    // With all of it held, every range is known.
    store.get("k", None).await.unwrap();
    assert_eq!(store.get("k", Some(ByteRange::Suffix(4))).await.unwrap().unwrap(), "6789");
    assert!(store.get("k", Some(ByteRange::From(11))).await.is_err());
    assert_eq!(inner.calls(), 3);
    // What is known of it now is asked of the store itself.
    assert_eq!(store.size("k").await.unwrap(), Some(10));
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn failures_and_missing_keys_are_not_held_but_shared_by_those_who_wait() {
    let inner = faulty(|s| s.with_all(Fault::Delay(Duration::from_secs(1))).with_call(1, Fault::Broken));
    let store = CacheStore::new(inner.clone(), &Context::shared().with_memory(8 * (1 << 20)));
    let (a, b) = futures::join!(store.get("k", None), store.get("k", None));
    assert!(a.is_err() && b.is_err());
    assert_eq!(inner.calls(), 1);
    assert!(store.get("k", None).await.unwrap().is_some());
    for _ in 0..2 {
        let (a, b) = futures::join!(store.get("absent", None), store.get("absent", None));
        assert_eq!((a.unwrap(), b.unwrap()), (None, None));
    }
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_caller_that_was_stopped_asks_for_itself() {
    let inner = faulty(|s| s.with_call(1, Fault::Hang));
    let store = Arc::new(CacheStore::new(inner.clone(), &Context::shared().with_memory(8 * (1 << 20))));
    let first = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.get("k", None).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            store
                .get_ranges("k", &[ByteRange::From(0)], None)
                .await
                .map(|_| ())
                .and(store.get("k", None).await)
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.abort();
    assert_eq!(second.await.unwrap().unwrap().unwrap(), "0123456789");
    assert_eq!(inner.calls(), 3);
}

#[tokio::test]
async fn the_cache_stays_within_its_bytes_and_forgets_the_oldest() {
    let objects: Vec<_> = (0..10).map(|i| (format!("k{i}"), vec![i; 1000])).collect();
    let inner = Arc::new(FaultStore::new(memory(&objects)));
    let store = CacheStore::new(inner.clone(), &Context::shared().with_memory(8 * (5 * 1300)));
    for (key, _) in &objects {
        store.get("k0", None).await.unwrap();
        store.get(key, None).await.unwrap();
        assert!(store.held() <= 5 * 1300);
    }
    assert_eq!(inner.calls(), 10, "k0 was used all along and stays");
    store.get("k1", None).await.unwrap();
    assert_eq!(inner.calls(), 11, "k1 was not and has gone");
}

#[tokio::test]
async fn near_ranges_make_one_request_and_far_ones_several() {
    let inner = Arc::new(FaultStore::new(memory(&[("k".into(), vec![7; 5 << 20])])));
    let store = CoalesceStore::new(inner.clone());
    let near: Vec<_> = (0..100).map(|i| ByteRange::span(i * 3000, 100)).collect();
    assert_eq!(store.get_ranges("k", &near, None).await.unwrap().unwrap().0.len(), 100);
    assert_eq!(inner.calls(), 1);
    let far = [ByteRange::span(0, 10), ByteRange::span(10 + (1 << 20) + 1, 10), ByteRange::Suffix(5)];
    store.get_ranges("k", &far, None).await.unwrap().unwrap();
    assert_eq!(inner.calls(), 4);
    assert_eq!(store.get_ranges("absent", &far, None).await.unwrap(), None);
    assert_eq!(store.get_ranges("k", &[], None).await.unwrap().unwrap().0, Vec::<bytes::Bytes>::new());
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_run_at_once_than_the_host_allows() {
    let inner = faulty(|s| s.with_all(Fault::Delay(Duration::from_millis(10))));
    let (a, b) = (
        LimitStore::new(inner.clone(), &Context::shared(), "a host", 3),
        LimitStore::new(inner.clone(), &Context::shared(), "a host", 3),
    );
    let ranges: Vec<_> = (0..10).map(|i| ByteRange::span(i, 1)).collect();
    let (x, y) = futures::join!(a.get_ranges("k", &ranges, None), b.get_ranges("k", &ranges, None));
    assert!(x.is_ok() && y.is_ok());
    assert_eq!((inner.most_at_once(), inner.calls()), (3, 20));
}

#[tokio::test]
async fn the_log_counts_and_tells() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let log = Arc::new(RequestLog::with_sink(move |r| sink.lock().unwrap().push(r.clone())));
    let store = LogStore::new(faulty(|s| s.with_call(4, Fault::Refused)), Arc::clone(&log));
    store.get("k", Some(ByteRange::Suffix(3))).await.unwrap();
    store.size("absent").await.unwrap();
    store.list("").await.unwrap();
    store.get("k", None).await.unwrap_err();
    assert_eq!((log.requests(), log.bytes()), (4, 3));
    let lines = lines.lock().unwrap();
    let seen: Vec<_> = lines.iter().map(|r| (r.method, r.key.as_str(), r.bytes)).collect();
    assert_eq!(
        seen,
        [
            (RequestMethod::Get, "k", 3),
            (RequestMethod::Size, "absent", 0),
            (RequestMethod::List, "", 1),
            (RequestMethod::Get, "k", 0)
        ]
    );
    assert_eq!(lines[1].outcome, RequestOutcome::Missing);
    assert!(lines[0].to_string().starts_with("get memory:/k bytes=-3 -> 3 bytes, "), "{}", lines[0]);
    assert!(lines[3].to_string().contains("not-permitted"), "{}", lines[3]);
}

#[tokio::test]
async fn the_log_tells_of_direct_reads_too() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k"), b"0123456789").unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let log = Arc::new(RequestLog::with_sink(move |r| sink.lock().unwrap().push(r.clone())));
    let store = LogStore::new(Arc::new(LocalStore::new(dir.path())), Arc::clone(&log));
    let direct = store.direct().unwrap();
    let object = direct.open("k").unwrap().unwrap();
    object.read_at(0, &mut [0; 10]).unwrap();
    object.read_at(4, &mut [0; 3]).unwrap();
    assert!(object.read_at(4, &mut [0; 30]).is_err());
    assert!(direct.open("absent").unwrap().is_none());
    assert!(direct.open("folder").is_err());
    assert_eq!((log.requests(), log.bytes()), (5, 13));
    let seen: Vec<_> =
        lines.lock().unwrap().iter().map(|r| (r.key.clone(), r.range, r.bytes, r.outcome.clone())).collect();
    assert_eq!(seen[0], ("k".to_owned(), None, 10, RequestOutcome::Found));
    assert_eq!(seen[1], ("k".to_owned(), Some(ByteRange::span(4, 3)), 3, RequestOutcome::Found));
    assert!(matches!(seen[2].3, RequestOutcome::Failed(ErrorKind::Invalid, _)));
    assert_eq!((seen[3].0.as_str(), &seen[3].3), ("absent", &RequestOutcome::Missing));
    assert!(matches!(seen[4].3, RequestOutcome::Failed(ErrorKind::Invalid, _)));
    // Memory is not read but is there.
    let held = LogStore::new(memory(&[("k".to_owned(), b"0123".to_vec())]), Arc::clone(&log));
    assert_eq!(held.direct().unwrap().open("k").unwrap().unwrap().as_bytes(), Some(&b"0123"[..]));
    assert_eq!((log.requests(), log.bytes()), (6, 17));
}

#[tokio::test]
async fn no_remote_fault_becomes_a_missing_key() {
    for fault in [Fault::Passing(None), Fault::Broken, Fault::Final, Fault::Refused] {
        let options = {
            let mut o = zaro::store::StoreOptions::default();
            o.retry = RetryPolicy {
                attempts: Some(2),
                first_pause: Duration::from_millis(1),
                ..Default::default()
            };
            o
        };
        let store = zaro::open::wrapped(faulty(|s| s.with_all(fault)), &format!("{fault:?}"), &options);
        assert!(store.get("k", None).await.is_err());
        assert!(store.get_ranges("k", &[ByteRange::From(0), ByteRange::span(0, 2)], None).await.is_err());
        assert!(store.size("k").await.is_err());
        assert!(store.list("").await.is_err());
    }
}

#[tokio::test]
async fn documents_are_held_back_until_they_are_released() {
    let memory: SharedStore = Arc::new(MemoryStore::new());
    let store = WithholdStore::all(memory.clone());
    let put = |key: &'static str| store.put(key, bytes::Bytes::from_static(b"x"), Condition::Absent);
    for key in ["zarr.json", "0/zarr.json", "0/c/0", "g/.zgroup", "g/.zattrs"] {
        assert!(put(key).await.unwrap().is_done());
        assert!(!put(key).await.unwrap().is_done(), "it is there for who made it");
    }
    let names = |found: &[KeyEntry]| {
        let mut names: Vec<_> = found.iter().map(|e| e.key.clone()).collect();
        names.sort();
        names
    };
    let all = |store: SharedStore| async move {
        let found: Vec<KeyEntry> = futures::TryStreamExt::try_collect(store.keys("")).await.unwrap();
        found
    };
    assert_eq!(names(&all(memory.clone()).await), ["0/c/0"]);
    let listed = store.list("").await.unwrap();
    assert_eq!((listed.objects, listed.prefixes), (vec!["zarr.json".into()], vec!["0".into(), "g".into()]));
    assert_eq!(store.list("0").await.unwrap().objects, ["zarr.json"]);
    store.release().await.unwrap();
    assert_eq!(names(&all(memory).await), ["0/c/0", "0/zarr.json", "g/.zattrs", "g/.zgroup"]);
}

/// A store of very many objects that counts how many of them were asked for.
#[derive(Debug, Default)]
struct Endless(AtomicU64);

impl std::fmt::Display for Endless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("endless:")
    }
}

#[async_trait::async_trait]
impl Store for Endless {
    async fn get_opts(&self, _: &str, _: GetOptions<'_>) -> zaro::Result<Option<Object>> {
        Ok(None)
    }

    async fn stat(&self, _: &str) -> zaro::Result<Option<ObjectMeta>> {
        Ok(None)
    }

    fn list_opts(&self, _: &str, _: &ListOptions) -> BoxStream<'_, zaro::Result<Entry>> {
        let entry = |i: u64| {
            self.0.store(i, Ordering::Relaxed);
            Ok(Entry::Object(KeyEntry::new(format!("p/c/{i:09}"), ObjectMeta::Unknown)))
        };
        futures::stream::iter((0..u64::MAX).map(entry)).boxed()
    }
}

/// A listing of a million keys is never in memory: what is pulled ahead of its reader is a page at most.
#[tokio::test]
async fn a_million_keys_do_not_sit_in_memory() {
    let endless = Arc::new(Endless::default());
    let shared: SharedStore = endless.clone();
    let far = zaro::open::wrapped(shared, "endless", &zaro::store::StoreOptions::default());
    let below: SharedStore = Arc::new(PrefixStore::new(far, "p").unwrap());
    let held = WithholdStore::new(below);
    let mut keys = held.keys("");
    for i in 0..1_000_000u64 {
        assert_eq!(keys.try_next().await.unwrap().unwrap().key, format!("c/{i:09}"));
        let ahead = endless.0.load(Ordering::Relaxed).saturating_sub(i);
        assert!(ahead <= 1000, "{ahead} entries were pulled ahead of their reader");
    }
}

/// The same of files and of memory, where it can be told by what a listing sees that was made after it began.
#[tokio::test]
async fn pages_are_pulled_as_the_listing_is_read() {
    let memory = MemoryStore::new();
    for i in 0..2500 {
        memory.put(&format!("{i:05}"), "x").unwrap();
    }
    let mut keys = memory.keys("");
    assert_eq!(keys.try_next().await.unwrap().unwrap().key, "00000");
    memory.put("02400-later", "x").unwrap();
    let left: Vec<KeyEntry> = keys.try_collect().await.unwrap();
    assert_eq!(left.len(), 2500, "the rest, and what was put meanwhile");
}
