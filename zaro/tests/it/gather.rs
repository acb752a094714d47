//! Neighbouring ranges of one remote object, joined across chunks and variables.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zaro::blocking::block_on;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use futures::stream::{BoxStream, StreamExt};
use zaro::copy::CopyOptions;
use zaro::internal::wrap::{GatherStore, HOLD, MAX_BLOCK, MAX_GAP, MAX_RANGE};
use zaro::reference::{Location, Map, ReferenceStore, Remote, Span, Target, Targets};
use zaro::store::{
    ByteRange, Entry, GetOptions, HttpStore, ListOptions, Listing, MemoryStore, Object, ObjectMeta, Pin,
    SharedStore, Store, StoreExt as _, StoreOptions,
};
use zaro::testing::{Fault, FaultStore, TinyRequest, TinyServer};
use zaro::{ErrorKind, OpenOptions, ReadOptions, Result, Selection, Zarr};

/// Bytes that tell where they are from.
fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| ((i * 31 + i / 251) % 256) as u8).collect()
}

/// A remote store that notes the spans it is asked for.
#[derive(Debug)]
struct Noting {
    inner: Arc<FaultStore>,
    spans: Mutex<Vec<(u64, u64, Option<Pin>)>>,
}

impl fmt::Display for Noting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("noting")
    }
}

#[async_trait]
impl Store for Noting {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        if let Some(ByteRange::Span { offset, length }) = options.range {
            let pin = options.pin.filter(|p| !p.is_empty()).cloned();
            self.spans.lock().unwrap().push((offset, length, pin));
        }
        self.inner.get_opts(key, options.with_pin(None)).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.inner.stat(key).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        self.inner.list_opts(prefix, options)
    }
}

impl Noting {
    fn new(size: usize, make: impl Fn(FaultStore) -> FaultStore) -> Arc<Self> {
        let memory = MemoryStore::new();
        memory.put("k", pattern(size)).unwrap();
        let delay = Fault::Delay(Duration::from_millis(30));
        let inner = Arc::new(make(FaultStore::new(Arc::new(memory)).with_all(delay)));
        Arc::new(Self { inner, spans: Mutex::default() })
    }

    fn take(&self) -> Vec<(u64, u64)> {
        let mut spans: Vec<_> =
            std::mem::take(&mut *self.spans.lock().unwrap()).into_iter().map(|(o, n, _)| (o, n)).collect();
        spans.sort_unstable();
        spans
    }
}

async fn all(store: &GatherStore, spans: &[(u64, u64)]) -> Vec<Result<Option<Bytes>>> {
    join_all(spans.iter().map(|(o, n)| store.get("k", Some(ByteRange::span(*o, *n))))).await
}

fn check(spans: &[(u64, u64)], got: Vec<Result<Option<Bytes>>>, size: usize) {
    let whole = pattern(size);
    for ((o, n), got) in spans.iter().zip(got) {
        let (o, n) = (*o as usize, *n as usize);
        assert_eq!(got.unwrap().unwrap(), whole[o..o + n], "bytes {o}+{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn ranges_that_come_together_are_one_request_and_far_ones_are_not() {
    let noting = Noting::new(4 << 20, |s| s);
    let store = GatherStore::new(noting.clone());
    // In disorder, with one twice, one inside another, and holes.
    let near = [(9_000, 1_000), (0, 5_000), (9_000, 1_000), (100, 50), (10_000 + MAX_GAP, 10)];
    check(&near, all(&store, &near).await, 4 << 20);
    assert_eq!(noting.take(), [(0, 10_010 + MAX_GAP)]);
    let far = [(0, 10), (11 + MAX_GAP, 10), (3 << 20, 10)];
    check(&far, all(&store, &far).await, 4 << 20);
    assert_eq!(noting.take(), [(0, 10), (11 + MAX_GAP, 10), (3 << 20, 10)]);
    // What is long anyway, or no span, is asked for as it is.
    let long = [(0, MAX_RANGE + 1), (MAX_RANGE + 1, 10)];
    check(&long, all(&store, &long).await, 4 << 20);
    assert_eq!(noting.take().len(), 2);
    let end = store.get("k", Some(ByteRange::Suffix(3))).await.unwrap().unwrap();
    assert_eq!(end, pattern(4 << 20)[(4 << 20) - 3..]);
    assert_eq!(store.get("absent", Some(ByteRange::span(0, 1))).await.unwrap(), None);
    assert_eq!(store.wasted(), 0);
}

#[tokio::test(start_paused = true)]
async fn blocks_have_a_limit_and_so_has_what_nobody_asked_for() {
    let noting = Noting::new(20 << 20, |s| s);
    let store = GatherStore::new(noting.clone());
    let touching: Vec<_> = (0..4_000).map(|i| (i * 5_000, 5_000)).collect();
    check(&touching, all(&store, &touching).await, 20 << 20);
    let asked = noting.take();
    assert!(asked.len() <= 4, "{asked:?}");
    assert!(asked.iter().all(|(_, n)| *n <= MAX_BLOCK), "{asked:?}");
    assert_eq!(asked.iter().map(|(_, n)| *n).sum::<u64>(), 20_000_000);
    // Tiny pieces all over a large object: holes are read along only up to a sum.
    let noting = Noting::new(50 << 20, |s| s);
    let store = GatherStore::new(noting.clone());
    let sparse: Vec<_> = (0..900).map(|i| (i * 58_000, 4)).collect();
    check(&sparse, all(&store, &sparse).await, 50 << 20);
    assert_eq!(noting.take().len(), 900);
    assert_eq!(store.wasted(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lone_range_is_not_held() {
    let noting = Noting::new(1_000, |s| s);
    let store = GatherStore::new(noting.clone());
    let begun = tokio::time::Instant::now();
    check(&[(5, 10)], all(&store, &[(5, 10)]).await, 1_000);
    assert_eq!(begun.elapsed(), Duration::from_millis(30), "the request and nothing else");
}

#[tokio::test(start_paused = true)]
async fn while_a_request_is_under_way_later_ones_are_gathered_for_a_moment() {
    let noting = Noting::new(100_000, |s| s);
    let store = GatherStore::new(noting.clone());
    let late = |i: u64| {
        let store = &store;
        async move {
            tokio::time::sleep(Duration::from_millis(5) + Duration::from_micros(i * 10)).await;
            let begun = tokio::time::Instant::now();
            let got = store.get("k", Some(ByteRange::span(i * 100, 100))).await;
            assert!(begun.elapsed() <= Duration::from_millis(30) + HOLD * 2);
            got
        }
    };
    let first = store.get("k", Some(ByteRange::span(0, 10)));
    let (first, rest) = futures::join!(first, join_all((0..100).map(late)));
    assert!(first.unwrap().is_some());
    check(&(0..100).map(|i| (i * 100, 100)).collect::<Vec<_>>(), rest, 100_000);
    assert_eq!(noting.take(), [(0, 10), (0, 10_000)]);
}

#[tokio::test(start_paused = true)]
async fn only_those_fail_whose_bytes_are_not_there() {
    let noting = Noting::new(10_000, |s| s);
    let store = GatherStore::new(noting.clone());
    let mut spans: Vec<_> = (0..100).map(|i| (i * 100, 100)).collect();
    spans[40] = (9_990, 11);
    let got = all(&store, &spans).await;
    let requests = noting.take().len();
    assert!(requests <= 16, "{requests}");
    for (i, (span, got)) in spans.iter().zip(got).enumerate() {
        if i == 40 {
            let e = got.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Invalid);
            assert!(e.to_string().contains("9990+11"), "{e}");
        } else {
            check(&[*span], vec![got], 10_000);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_caller_of_a_failed_request_hears_why() {
    let noting = Noting::new(10_000, |s| s.with_first(1, Fault::Broken));
    let store = GatherStore::new(noting.clone());
    let spans = [(0, 10), (20, 10), (40, 10)];
    let failed = all(&store, &spans).await;
    let texts: Vec<String> = failed.into_iter().map(|r| r.unwrap_err().to_string()).collect();
    assert!(texts[0].contains("key k") && texts.iter().all(|t| *t == texts[0]), "{texts:?}");
    assert_eq!(noting.take().len(), 1);
    // A failure is not held.
    check(&spans, all(&store, &spans).await, 10_000);
}

#[tokio::test(start_paused = true)]
async fn nobody_depends_on_another_caller() {
    let noting = Noting::new(10_000, |s| s);
    let store = Arc::new(GatherStore::new(noting.clone()));
    let get = |o: u64| {
        let store = Arc::clone(&store);
        async move { store.get("k", Some(ByteRange::span(o, 10))).await.unwrap().unwrap() }
    };
    let whole = pattern(10_000);
    // The first is dropped before it sent anything off, and while the request is under way.
    for wait in [0, 10] {
        let mut first = Box::pin(get(0));
        assert!(futures::poll!(&mut first).is_pending());
        let second = tokio::spawn(get(20));
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let _ = futures::poll!(&mut first);
        drop(first);
        assert_eq!(second.await.unwrap(), whole[20..30]);
    }
    // The first exists, but nobody runs it.
    let mut first = Box::pin(get(0));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(get(20).await, whole[20..30]);
    assert_eq!(first.await, whole[0..10]);
    // All are dropped: nothing is left behind.
    let mut all: Vec<_> = (0..10).map(|i| Box::pin(get(i * 10))).collect();
    for one in &mut all {
        assert!(futures::poll!(one).is_pending());
    }
    drop(all);
    let text = format!("{store:?}");
    assert!(text.contains("open: Mutex { data: {}"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn states_of_an_object_are_not_mixed() {
    let noting = Noting::new(10_000, |s| s);
    let store = GatherStore::new(noting.clone());
    let pin = |v: &str| Pin { version: Some(v.to_owned()), ..Pin::default() };
    let (a, b, none) = (pin("a"), pin("b"), Pin::default());
    let pins = [&a, &b, &none, &a, &b, &none];
    let gets = pins.iter().zip(0..).map(|(pin, i)| {
        let store = &store;
        async move { store.get_pinned("k", Some(ByteRange::span(i * 10, 10)), pin).await }
    });
    let got = join_all(gets).await;
    check(&(0..6).map(|i| (i * 10, 10)).collect::<Vec<_>>(), got, 10_000);
    let mut asked = std::mem::take(&mut *noting.spans.lock().unwrap());
    asked.sort_by_key(|(o, _, _)| *o);
    assert_eq!(asked, [(0, 40, Some(a)), (10, 40, Some(b)), (20, 40, None)]);
}

// -------------------------------------------------------------------------------- through reference stores

#[derive(Debug, Default)]
struct Table(BTreeMap<String, Location>);

#[async_trait]
impl Map for Table {
    async fn locate(&self, key: &str) -> Result<Option<Location>> {
        Ok(self.0.get(key).cloned())
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        let start = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut found = Listing::default();
        for rest in self.0.keys().filter_map(|k| k.strip_prefix(&start)) {
            match rest.split_once('/') {
                None => found.objects.push(rest.to_owned()),
                Some((folder, _)) => found.prefixes.push(folder.to_owned()),
            }
        }
        found.prefixes.dedup();
        Ok(found)
    }

    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>> {
        let start = format!("{prefix}/");
        let all = self.0.iter().filter(move |(k, _)| k.starts_with(&start));
        futures::stream::iter(all.map(|(k, l)| Ok((k.clone(), l.clone())))).boxed()
    }
}

#[derive(Debug)]
struct OneStore(SharedStore);

#[async_trait]
impl Targets for OneStore {
    async fn target(&self, remote: &Remote) -> Result<Target> {
        Ok(Target { store: Arc::clone(&self.0), key: remote.url.to_string() })
    }
}

impl Table {
    /// An array of one dimension of bytes, in chunks of `chunk`, found where `place` says.
    fn add(&mut self, name: &str, chunks: u64, chunk: u64, place: impl Fn(u64) -> u64) {
        let meta = format!(
            r#"{{"zarr_format":2,"shape":[{}],"chunks":[{chunk}],"dtype":"|u1","fill_value":0,"order":"C",
            "filters":null,"compressor":null}}"#,
            chunks * chunk
        );
        self.0.insert(format!("{name}/.zarray"), Location::Inline(meta.into()));
        for i in 0..chunks {
            let span = Span { offset: place(i), length: chunk };
            self.0.insert(format!("{name}/{i}"), Location::Remote(Remote::new("file.nc", Some(span))));
        }
    }
}

/// A server that takes 30 ms for each request, and the arrays of `table`, whose bytes are in its one object.
async fn served(size: usize, mut table: Table) -> (TinyServer, Zarr) {
    let server = TinyServer::serving(vec![("file.nc".to_owned(), pattern(size))], Duration::from_millis(30));
    table.0.insert(".zgroup".into(), Location::Inline(r#"{"zarr_format":2}"#.into()));
    let options = StoreOptions::default();
    let http = HttpStore::new(&server.url(), &options).unwrap();
    let host = http.host();
    let target = zaro::open::wrapped(Arc::new(http), &host, &options);
    let store = ReferenceStore::new("table", Arc::new(table), Arc::new(OneStore(target)));
    let zarr = Zarr::from_store(Arc::new(store), OpenOptions::default()).await.unwrap();
    (server, zarr)
}

/// How many bytes were asked for.
fn bytes_of(seen: &[TinyRequest]) -> u64 {
    let length = |r: &TinyRequest| {
        let (first, last) = r.headers["range"].strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        last.parse::<u64>().unwrap() + 1 - first.parse::<u64>().unwrap()
    };
    seen.iter().map(length).sum()
}

async fn read(zarr: &Zarr, name: &str) -> Vec<u8> {
    let array = zarr.array(name).await.unwrap();
    array.read_slab(&Selection::all(), &ReadOptions::default()).await.unwrap().bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_small_chunks_side_by_side_are_a_handful_of_requests() {
    let mut table = Table::default();
    table.add("v", 1_000, 4_096, |i| 1_000 + i * 4_096);
    let (server, zarr) = served(5 << 20, table).await;
    let begun = Instant::now();
    let got = read(&zarr, "v").await;
    let took = begun.elapsed();
    assert_eq!(got, pattern(5 << 20)[1_000..1_000 + 4_096_000]);
    let requests = server.requests();
    println!("{requests} requests, {took:?}");
    assert!(requests <= 3, "{requests} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scattered_chunks_are_fetched_and_nothing_else() {
    let mut table = Table::default();
    table.add("v", 60, 4_096, |i| i * 80_000);
    let (server, zarr) = served(5 << 20, table).await;
    let got = read(&zarr, "v").await;
    let whole = pattern(5 << 20);
    for i in 0..60 {
        assert_eq!(got[i * 4_096..][..4_096], whole[i * 80_000..][..4_096]);
    }
    assert_eq!(server.requests(), 60);
    assert_eq!(bytes_of(&server.seen()), 60 * 4_096);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_variables_that_alternate_in_a_file_come_together() {
    let mut table = Table::default();
    table.add("a", 500, 4_096, |i| i * 8_192);
    table.add("b", 500, 4_096, |i| i * 8_192 + 4_096);
    let (server, zarr) = served(4_096_000, table).await;
    let (a, b) = futures::join!(read(&zarr, "a"), read(&zarr, "b"));
    let whole = pattern(4_096_000);
    for i in 0..500 {
        assert_eq!(a[i * 4_096..][..4_096], whole[i * 8_192..][..4_096]);
        assert_eq!(b[i * 4_096..][..4_096], whole[i * 8_192 + 4_096..][..4_096]);
    }
    let requests = server.requests();
    assert!(requests <= 4, "{requests} requests");
}

#[test]
fn a_blocking_read_of_many_more_is_still_few_requests() {
    let mut table = Table::default();
    table.add("v", 10_000, 1_024, |i| i * 1_024);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, zarr) = runtime.block_on(served(10_240_000, table));
    let array = runtime.block_on(zarr.array("v")).unwrap();
    let got = array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes;
    assert!(got == pattern(10_240_000));
    let requests = server.requests();
    println!("{requests} requests");
    assert!(requests <= 400, "{requests} requests");
}

#[test]
fn a_copy_takes_small_chunks_together() {
    let mut table = Table::default();
    table.add("v", 2_000, 1_024, |i| i * 1_024);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, zarr) = runtime.block_on(served(2_048_000, table));
    let made: SharedStore = Arc::new(MemoryStore::new());
    let copied = block_on(zaro::copy::copy(&zarr, "table", "", &made, "", &CopyOptions::default())).unwrap();
    assert_eq!(copied.verbatim, 1);
    let copy = runtime.block_on(Zarr::from_store(made, OpenOptions::default())).unwrap();
    assert!(runtime.block_on(read(&copy, "v")) == pattern(2_048_000));
    let requests = server.requests();
    println!("{requests} requests");
    assert!(requests <= 200, "{requests} requests");
}

#[tokio::test]
async fn a_row_of_a_large_uncompressed_chunk_is_all_that_is_fetched() {
    let mut table = Table::default();
    let meta = r#"{"zarr_format":2,"shape":[2000,4000],"chunks":[2000,4000],"dtype":"|u1","fill_value":0,
        "order":"C","filters":null,"compressor":null}"#;
    table.0.insert("v/.zarray".into(), Location::Inline(meta.into()));
    let span = Some(Span { offset: 777, length: 8_000_000 });
    table.0.insert("v/0.0".into(), Location::Remote(Remote::new("file.nc", span)));
    let (server, zarr) = served(8_001_000, table).await;
    let array = zarr.array("v").await.unwrap();
    let selection = Selection::parse("1234,:").unwrap();
    let got = array.read_slab(&selection, &ReadOptions::default()).await.unwrap().bytes;
    assert_eq!(got, pattern(8_001_000)[777 + 1234 * 4000..][..4000]);
    assert_eq!((server.requests(), bytes_of(&server.seen())), (1, 4000));
}
