//! One state per operation, bodies that end, and listings that may lack things.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zaro::blocking::block_on;

use zaro::copy::CopyOptions;
use zaro::open::open_store;
use zaro::store::{
    ByteRange, Condition, GetOptions, Listing, MemoryStore, Object, ObjectMeta, SharedStore, StoreExt as _,
    StoreOptions,
};
use zaro::testing::{TinyReply, TinyRequest, TinyServer};
use zaro::{Array, ErrorKind, OpenOptions, ReadOptions, Selection};

const LITTLE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;

fn document(shape: u64, chunk: u64, codecs: &str) -> String {
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":[{shape}],"data_type":"int32","fill_value":7,
        "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[{chunk}]}}}},
        "chunk_key_encoding":{{"name":"default"}},"codecs":[{codecs}]}}"#
    )
}

/// Inner chunks of 100 elements, without checksums.
fn shards() -> String {
    format!(
        r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":[100],"codecs":[{LITTLE}],
        "index_codecs":[{LITTLE}],"index_location":"end"}}}}"#
    )
}

/// A shard of 40 inner chunks, of which number `i` is all `base + i`, in this order; those not named are missing.
fn shard(base: i32, order: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut index = vec![[u8::MAX; 16]; 40];
    for &i in order {
        let value = base + i32::try_from(i).unwrap();
        index[i][..8].copy_from_slice(&u64::try_from(bytes.len()).unwrap().to_le_bytes());
        index[i][8..].copy_from_slice(&400u64.to_le_bytes());
        (0..100).for_each(|_| bytes.extend_from_slice(&value.to_le_bytes()));
    }
    index.iter().for_each(|entry| bytes.extend_from_slice(entry));
    bytes
}

fn hasty() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.retry.first_pause = Duration::from_millis(5);
    options.read_timeout = Duration::from_secs(5);
    options
}

fn options() -> OpenOptions {
    OpenOptions::default().with_store(hasty())
}

async fn array_at(server: &TinyServer, options: &OpenOptions) -> Array {
    zaro::open(&format!("{}/z", server.url()), options).await.unwrap().array("").await.unwrap()
}

async fn values(array: &Array, start: u64, count: u64) -> zaro::Result<Vec<i32>> {
    let slab = array.read_slab(&Selection::start_count(&[start], &[count]), &ReadOptions::default()).await?;
    slab.to_vec()
}

/// A server of one array whose chunk is what `chunk` says, by how often it was asked for.
fn serving(
    document: String,
    chunk: impl Fn(u64) -> (Vec<u8>, Vec<(&'static str, String)>) + Send + Sync + 'static,
) -> TinyServer {
    let asked = AtomicU64::new(0);
    TinyServer::start(move |r| match r.key().as_str() {
        "z/zarr.json" => TinyReply::Object(document.clone().into_bytes()),
        "z/c/0" => {
            let (bytes, headers) = chunk(asked.fetch_add(1, Ordering::SeqCst));
            let headers = headers.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            TinyReply::ObjectWith(bytes, headers)
        }
        _ => TinyReply::status(404),
    })
}

/// The ways in which servers tell one state from another.
fn telling(n: u64, way: usize) -> Vec<(&'static str, String)> {
    match way {
        0 => vec![("etag", format!("\"{n}\"")), ("last-modified", String::new())],
        1 => vec![("etag", format!("W/\"{n}\"")), ("last-modified", String::new())],
        _ => vec![("etag", String::new()), ("last-modified", format!("Sun, 15 Nov 2026 10:00:0{n} GMT"))],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_and_the_data_of_a_shard_are_of_one_state() {
    let order: Vec<usize> = (0..40).collect();
    let back: Vec<usize> = (0..40).rev().collect();
    for way in 0..3 {
        // Replaced after the index was read.
        let (old, new) = (shard(0, &order), shard(1000, &back));
        let server = serving(document(4000, 4000, &shards()), move |n| match n {
            0 => (old.clone(), telling(0, way)),
            _ => (new.clone(), telling(1, way)),
        });
        let array = array_at(&server, &options()).await;
        assert_eq!(values(&array, 150, 3).await.unwrap(), [1001; 3], "way {way}");
        // What lies together costs no more than before.
        let before = server.requests();
        assert_eq!(values(&array, 390, 20).await.unwrap(), [[1003; 10], [1004; 10]].concat(), "way {way}");
        assert!(server.requests() - before <= 2, "way {way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_new_state_lacks_is_not_left_from_the_old_one() {
    // Two runs, far apart: the first comes of the old state, the second of the new one, which lacks the first.
    let far = |base: i32, order: &[usize]| {
        let mut bytes = shard(base, order);
        let index = bytes.split_off(bytes.len() - 640);
        let mut index: Vec<u8> = index;
        let at = 20 << 20;
        if order.contains(&39) {
            bytes.resize(at, 0);
            (0..100).for_each(|_| bytes.extend_from_slice(&(base + 39).to_le_bytes()));
            index[39 * 16..39 * 16 + 8].copy_from_slice(&u64::try_from(at).unwrap().to_le_bytes());
        }
        bytes.extend_from_slice(&index);
        bytes
    };
    let (old, new) = (far(0, &[0, 39]), far(1000, &[39]));
    let server = serving(document(4000, 4000, &shards()), move |n| match n {
        0 | 1 => (old.clone(), telling(0, 0)),
        _ => (new.clone(), telling(1, 0)),
    });
    let array = array_at(&server, &options()).await;
    // Not all of it, which would be one request.
    let got = values(&array, 0, 3950).await.unwrap();
    let new: Vec<i32> = (0..40).flat_map(|i| [if i == 39 { 1039 } else { 7 }; 100]).collect();
    assert_eq!(got, new[..3950]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_says_the_same_twice_is_asked_for_all_at_once() {
    let all = shard(0, &(0..40).collect::<Vec<_>>());
    let server = serving(document(4000, 4000, &shards()), move |n| (all.clone(), telling(n % 10, 0)));
    let array = array_at(&server, &options()).await;
    assert_eq!(values(&array, 150, 3).await.unwrap(), [1; 3]);
    // What is too large for that is an error, and says why.
    let small = options().with_memory(1 << 10);
    let array = array_at(&server, &small).await;
    let e = values(&array, 150, 3).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    assert!(e.to_string().contains("changed while it was read") && e.key() == Some("c/0"), "{e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_an_uncompressed_chunk_are_of_one_state() {
    let rows = |n: i32| (0..4_000_000).flat_map(|_| n.to_le_bytes()).collect::<Vec<u8>>();
    let (old, new) = (rows(111), rows(222));
    let server = serving(document(4_000_000, 4_000_000, LITTLE), move |n| match n {
        0 => (old.clone(), telling(0, 0)),
        _ => (new.clone(), telling(1, 0)),
    });
    let array = array_at(&server, &options()).await;
    let selection = Selection::new(vec![zaro::Index::List(vec![0, 3_999_999])]);
    let slab = array.read_slab(&selection, &ReadOptions::default()).await.unwrap();
    let got: Vec<i32> = slab.to_vec().unwrap();
    assert!(got == [111, 111] || got == [222, 222], "{got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_held_to_one_state_too() {
    let (old, new) =
        (shard(0, &(0..40).collect::<Vec<_>>()), shard(1000, &(0..40).rev().collect::<Vec<_>>()));
    let document = document(4000, 4000, &shards());
    let asked = AtomicU64::new(0);
    let server = TinyServer::start(move |r| match r.key().as_str() {
        "b/z/zarr.json" => TinyReply::Object(document.clone().into_bytes()),
        "b/z/c/0" => {
            let n = asked.fetch_add(1, Ordering::SeqCst);
            let bytes = if n == 0 { old.clone() } else { new.clone() };
            TinyReply::ObjectWith(bytes, vec![("etag".into(), format!("\"{}\"", n.min(1)))])
        }
        _ => TinyReply::status(404),
    });
    let mut options = options();
    options.store.anonymous = true;
    options.store.endpoint = Some(server.url());
    let array = zaro::open("s3://b/z", &options).await.unwrap().array("").await.unwrap();
    assert_eq!(values(&array, 150, 3).await.unwrap(), [1001; 3]);
}

/// The array `z`, on a web server and in a bucket, whose server makes of each request for its chunk what `chunk` says, by how
/// often it was asked for before.
async fn in_both_stores(
    chunk: impl Fn(&TinyRequest, u64) -> TinyReply + Clone + Send + Sync + 'static,
) -> Vec<(TinyServer, Array)> {
    let mut out = Vec::new();
    for bucket in [false, true] {
        let (chunk, document) = (chunk.clone(), document(4000, 4000, &shards()));
        let asked = AtomicU64::new(0);
        let server = TinyServer::start(move |r| match r.key().as_str() {
            "b/z/zarr.json" => TinyReply::Object(document.clone().into_bytes()),
            "b/z/c/0" => chunk(r, asked.fetch_add(1, Ordering::SeqCst)),
            _ => TinyReply::status(404),
        });
        let mut options = options();
        options.store.anonymous = true;
        options.store.endpoint = Some(server.url());
        let uri = if bucket { "s3://b/z".to_owned() } else { format!("{}/b/z", server.url()) };
        let array = zaro::open(&uri, &options).await.unwrap().array("").await.unwrap();
        out.push((server, array));
    }
    out
}

/// The tags that came with requests for the chunk, in the order in which they came.
fn tags(server: &TinyServer) -> Vec<Option<String>> {
    let chunk = server.seen().into_iter().filter(|r| r.key() == "b/z/c/0" && r.method == "GET");
    chunk.map(|r| r.headers.get("if-match").cloned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_between_index_and_data_is_refused_by_the_server() {
    let (old, new) =
        (shard(0, &(0..40).collect::<Vec<_>>()), shard(1000, &(0..40).rev().collect::<Vec<_>>()));
    let refused = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refused);
    let stores = in_both_stores(move |r, n| {
        let is_new = n > 0;
        let tag = format!("\"{}\"", u8::from(is_new));
        if r.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
            count.fetch_add(1, Ordering::SeqCst);
            return TinyReply::status(412);
        }
        let bytes = if is_new { new.clone() } else { old.clone() };
        TinyReply::ObjectWith(bytes, vec![("etag".into(), tag)])
    });
    for (server, array) in stores.await {
        assert_eq!(values(&array, 150, 3).await.unwrap(), [1001; 3]);
        // The index; the data of its state, which is gone, and a look at what is there; then both anew.
        let (old, new) = (Some("\"0\"".to_owned()), Some("\"1\"".to_owned()));
        assert_eq!(tags(&server), [None, old, None, None, new], "{server:?}");
    }
    assert_eq!(refused.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_every_tag_is_read_all_the_same() {
    let all = shard(0, &(0..40).collect::<Vec<_>>());
    for status in [412, 501] {
        let all = all.clone();
        let stores = in_both_stores(move |r, _| match r.headers.get("if-match") {
            Some(_) => TinyReply::status(status),
            None => TinyReply::Object(all.clone()),
        });
        for (server, array) in stores.await {
            assert_eq!(values(&array, 150, 3).await.unwrap(), [1; 3]);
            assert_eq!(values(&array, 950, 3).await.unwrap(), [9; 3]);
            let own = Some("\"1\"".to_owned());
            assert_eq!(tags(&server), [None, own, None, None], "{status}, {server:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weak_tag_is_not_sent() {
    let all = shard(0, &(0..40).collect::<Vec<_>>());
    let stores = in_both_stores(move |_, _| {
        TinyReply::ObjectWith(all.clone(), vec![("etag".into(), "W/\"1\"".into())])
    });
    for (server, array) in stores.await {
        assert_eq!(values(&array, 150, 3).await.unwrap(), [1; 3]);
        assert_eq!(tags(&server), [None, None], "{server:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_became_too_short_for_a_range_was_changed() {
    let stores = [false, true].map(|bucket| {
        let server = TinyServer::start(|r| match r.headers.get("if-match") {
            Some(_) => TinyReply::status(412),
            None if r.number == 1 => TinyReply::Object(vec![1; 100]),
            None => TinyReply::ObjectWith(vec![2; 5], vec![("etag".into(), "\"2\"".into())]),
        });
        (server, bucket)
    });
    for (server, bucket) in stores {
        let mut options = hasty();
        (options.anonymous, options.endpoint) = (true, Some(server.url()));
        let uri = if bucket { "s3://b/".to_owned() } else { server.url() };
        let store = open_store(&uri, &options).await.unwrap();
        let part = |offset| GetOptions::range(Some(ByteRange::span(offset, 10)));
        let first = store.get_opts("k", part(0)).await.unwrap().unwrap();
        let e = store.get_opts("k", part(50).of_state(&first.meta)).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
        assert_eq!(server.requests(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cache_holds_of_an_object_is_of_one_state() {
    let asked = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&asked);
    let server = TinyServer::start(move |_| {
        let n = now.load(Ordering::SeqCst);
        let headers = vec![("etag".to_owned(), format!("\"{n}\""))];
        TinyReply::ObjectWith(vec![u8::try_from(n).unwrap(); 100], headers)
    });
    let mut options = hasty();
    options.cache = true;
    let store = open_store(&server.url(), &options).await.unwrap();
    let part = |offset| Some(ByteRange::span(offset, 10));
    let Object { bytes: first, meta: old } =
        store.get_opts("k", GetOptions::range(part(0))).await.unwrap().unwrap();
    assert_eq!(first, [0; 10].as_slice());
    asked.store(1, Ordering::SeqCst);
    // Held, so it is still what it was; but what is not held is not put beside it.
    assert_eq!(store.get("k", part(0)).await.unwrap().unwrap(), [0; 10].as_slice());
    let ask = GetOptions::range(part(20)).of_state(&old);
    assert_eq!(store.get_opts("k", ask).await.unwrap_err().kind(), ErrorKind::Conflict);
    let both = [ByteRange::span(0, 10), ByteRange::span(20, 10)];
    let (parts, state) = store.get_ranges("k", &both, None).await.unwrap().unwrap();
    assert_eq!(parts, [[1; 10].as_slice(), [1; 10].as_slice()]);
    assert!(!state.agrees(&old));
    // Half of it held, and the rest changed since.
    asked.store(2, Ordering::SeqCst);
    let more = [ByteRange::span(0, 10), ByteRange::span(40, 10)];
    let (parts, _) = store.get_ranges("k", &more, None).await.unwrap().unwrap();
    assert_eq!(parts, [[2; 10].as_slice(), [2; 10].as_slice()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_between_two_reads_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("z");
    std::fs::create_dir_all(path.join("c")).unwrap();
    std::fs::write(path.join("zarr.json"), document(4000, 4000, &shards())).unwrap();
    let chunk = path.join("c/0");
    std::fs::write(&chunk, shard(0, &(0..40).collect::<Vec<_>>())).unwrap();
    let zarr = zaro::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap();
    let array = zarr.array("").await.unwrap();
    assert_eq!(values(&array, 150, 3).await.unwrap(), [1; 3]);
    // By another program, which this array does not know of.
    std::fs::write(dir.path().join("new"), shard(1000, &(0..40).rev().collect::<Vec<_>>())).unwrap();
    std::fs::rename(dir.path().join("new"), &chunk).unwrap();
    assert_eq!(values(&array, 250, 3).await.unwrap(), [1002; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_window_over_a_compressed_shard_asks_for_nothing() {
    let zstd = format!(r#"{LITTLE},{{"name":"zstd","configuration":{{"level":1,"checksum":false}}}}"#);
    let codecs = shards().replacen(LITTLE, &zstd, 1);
    let memory: SharedStore = Arc::new(MemoryStore::new());
    let made = memory.put("zarr.json", document(4000, 4000, &codecs).into(), Condition::Always).await;
    assert!(made.unwrap().is_done());
    let zarr = zaro::Zarr::from_store(memory.clone(), OpenOptions::default()).await.unwrap();
    let all: Vec<i32> = (0..4000).collect();
    let array = zarr.array("").await.unwrap();
    let bytes: Vec<u8> = all.iter().flat_map(|n| n.to_le_bytes()).collect();
    let in_order = zaro::Values::new(bytes.to_vec(), zaro::Order::C);
    array.write_slab_blocking(&Selection::all(), in_order, &zaro::WriteOptions::default()).unwrap();
    let chunk = memory.get("c/0", None).await.unwrap().unwrap().to_vec();
    let server = serving(document(4000, 4000, &codecs), move |_| (chunk.clone(), telling(0, 0)));
    let array = array_at(&server, &options()).await;
    assert_eq!(values(&array, 150, 100).await.unwrap(), all[150..250]);
    let before = server.requests();
    assert_eq!(values(&array, 110, 80).await.unwrap(), all[110..190]);
    assert_eq!(values(&array, 201, 90).await.unwrap(), all[201..291]);
    assert_eq!(server.requests(), before, "the index and both inner chunks are at hand");
    assert_eq!(values(&array, 280, 40).await.unwrap(), all[280..320]);
    assert_eq!(server.requests(), before + 1, "one inner chunk is new");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_replaced_is_not_read_with_the_old_directory() {
    let zip =
        |value: &[u8]| zaro::testing::ZipMaker::default().make(&[("a", b"first".as_slice()), ("z/k", value)]);
    let (old, new) = (zip(&[1; 4000]), zip(&[2; 4000]));
    let replaced = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&replaced);
    let server = TinyServer::start(move |_| {
        let n = now.load(Ordering::SeqCst);
        let bytes = if n == 0 { old.clone() } else { new.clone() };
        TinyReply::ObjectWith(bytes, vec![("etag".into(), format!("\"{n}\""))])
    });
    let mut options = hasty();
    options.cache = false;
    let store = open_store(&format!("{}/a.zip", server.url()), &options).await.unwrap();
    assert_eq!(store.get("z/k", None).await.unwrap().unwrap(), [1; 4000].as_slice());
    replaced.store(1, Ordering::SeqCst);
    let e = store.get("z/k", Some(ByteRange::span(0, 10))).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_without_end_are_not_read_to_it() {
    for announced in [None, Some(1 << 50)] {
        let small = document(100, 100, LITTLE);
        let sharded = document(4000, 4000, &shards());
        let server = TinyServer::start(move |r| match r.key().as_str() {
            "chunk/zarr.json" => TinyReply::Object(small.clone().into_bytes()),
            "shard/zarr.json" => TinyReply::Object(sharded.clone().into_bytes()),
            _ => TinyReply::Endless(announced),
        });
        let document = zaro::open(&format!("{}/doc", server.url()), &options()).await;
        assert!(document.is_err());
        for node in ["chunk", "shard"] {
            let uri = format!("{}/{node}", server.url());
            let array = zaro::open(&uri, &options()).await.unwrap().array("").await.unwrap();
            let e = values(&array, 3, 1).await.unwrap_err();
            assert!(
                matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Io | ErrorKind::Unsupported),
                "{node} {announced:?}: {e}"
            );
        }
        let mut cloud = options();
        (cloud.store.anonymous, cloud.store.endpoint) = (true, Some(server.url()));
        assert!(zaro::open("s3://b/doc", &cloud).await.is_err());
        let store = open_store("s3://b/x", &cloud.store).await.unwrap();
        let e = store.list("").await.unwrap_err();
        assert!(announced.is_some() || e.to_string().contains("is too long"), "{e}");
        let most = if announced.is_none() { 3 << 30 } else { 1 << 29 };
        assert!(server.sent_endlessly() < most, "{announced:?}: {}", server.sent_endlessly());
    }
}

/// A server of a hierarchy with index pages, but for some folders, and with no answer to `HEAD`.
fn pages(
    objects: Vec<(String, Vec<u8>)>,
    refuse: impl Fn(&str) -> Option<TinyReply> + Send + Sync + 'static,
) -> TinyServer {
    TinyServer::start(move |r: &TinyRequest| {
        if r.method == "HEAD" {
            return TinyReply::status(404);
        }
        let key = r.key();
        if let Some((_, bytes)) = objects.iter().find(|(k, _)| *k == key) {
            return TinyReply::Object(bytes.clone());
        }
        let Some(folder) = key.strip_suffix('/') else { return TinyReply::status(404) };
        if let Some(reply) = refuse(folder) {
            return reply;
        }
        let mut page = "<title>Index of /</title>".to_owned();
        let mut any = false;
        for rest in objects.iter().filter_map(|(k, _)| k.strip_prefix(&format!("{folder}/"))) {
            any = true;
            let name = rest.split_inclusive('/').next().unwrap();
            page.push_str(&format!("<a href=\"{name}\">x</a>"));
        }
        if any { TinyReply::Answer(200, vec![], page.into_bytes()) } else { TinyReply::status(404) }
    })
}

fn hierarchy() -> Vec<(String, Vec<u8>)> {
    let group = br#"{"zarr_format":3,"node_type":"group"}"#.to_vec();
    let mut out = vec![("s/zarr.json".to_owned(), group.clone()), ("s/g/zarr.json".to_owned(), group)];
    for node in ["s/a", "s/g/b"] {
        out.push((format!("{node}/zarr.json"), document(50, 10, LITTLE).into_bytes()));
        for i in 0..5i32 {
            let bytes = (0..10).flat_map(|_| (i + 1).to_le_bytes()).collect();
            out.push((format!("{node}/c/{i}"), bytes));
        }
    }
    out
}

fn copied(server: &TinyServer) -> zaro::Result<Vec<i32>> {
    let zarr = block_on(zaro::open(&format!("{}/s", server.url()), &options()))?;
    let made: SharedStore = Arc::new(MemoryStore::new());
    block_on(zaro::copy::copy(&zarr, "s", "", &made, "", &CopyOptions::default()))?;
    let zarr = block_on(zaro::Zarr::from_store(made, OpenOptions::default()))?;
    let array = block_on(zarr.array("a"))?;
    block_on(values(&array, 0, 50))
}

#[test]
fn copies_from_web_servers_do_not_take_silence_for_absence() {
    let all: Vec<i32> = (1..=5).flat_map(|i| [i; 10]).collect();
    let own = b"<title>Our data portal</title>".to_vec();
    for (what, reply) in [
        ("no page", TinyReply::status(403)),
        ("not there", TinyReply::status(404)),
        ("a page of its own", TinyReply::Answer(200, vec![], own)),
        ("an empty page", TinyReply::Answer(200, vec![], b"<title>Index of /</title>".to_vec())),
    ] {
        let server = pages(hierarchy(), move |folder| folder.ends_with("/c").then(|| reply.clone()));
        assert_eq!(copied(&server).unwrap(), all, "{what}");
    }
    // A group whose members nobody knows is an error that names it.
    for reply in [TinyReply::status(403), TinyReply::status(404)] {
        let server = pages(hierarchy(), move |folder| (folder == "s/g").then(|| reply.clone()));
        let e = copied(&server).unwrap_err();
        assert!(e.kind() == ErrorKind::Unsupported && e.key() == Some("g"), "{e}");
    }
    // So is one whose page is surely not all of it.
    let whole = "<html><title>Index of /s/</title><a href='zarr.json'>z</a><a href='g/'>g</a>";
    let html = |page: &str| TinyReply::Answer(200, vec![], page.as_bytes().to_vec());
    for reply in [
        html(whole),
        html(&format!("{whole}<a href='?page=2'>more</a></html>")),
        html("<html><title>Index of /other/</title><a href='q/'>q</a></html>"),
        html("[]"),
        TinyReply::with_header(302, "location", "/elsewhere/"),
    ] {
        let server = pages(hierarchy(), move |folder| match folder {
            "elsewhere" => Some(html("<html><title>Index of /</title><a href='zarr.json'>z</a></html>")),
            folder => (folder == "s").then(|| reply.clone()),
        });
        let e = copied(&server).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    }
    // Names that begin with a dot are often not shown, so that a page of a V2 group has to name something else.
    let v2 = vec![
        ("s/.zgroup".to_owned(), br#"{"zarr_format":2}"#.to_vec()),
        ("s/a/.zarray".to_owned(), br#"{"zarr_format":2,"shape":[50],"chunks":[50],"dtype":"<i4","compressor":null,"filters":null,"fill_value":7,"order":"C"}"#.to_vec()),
    ];
    for (page, ends) in [
        ("<title>Index of /s/</title><a href='a/'>a</a>", true),
        ("<title>Index of /s/</title>", false),
        ("<title>Index of /other/</title><a href='q/'>q</a>", false),
        ("[]", false),
    ] {
        let server = pages(v2.clone(), move |folder| (folder == "s").then(|| html(page)));
        assert_eq!(
            copied(&server).map_err(|e| e.kind()),
            if ends { Ok(vec![7; 50]) } else { Err(ErrorKind::Unsupported) }
        );
    }
    // Folders that are written as files are found.
    let server = pages(hierarchy(), move |folder| {
        let page = "<title>Index of /s</title><a href=zarr.json>z</a><a href=a>a</a><a href=g>g</a>";
        (folder == "s").then(|| html(page))
    });
    assert_eq!(copied(&server).unwrap(), all);
    // A page that is too long is not taken for what of it was read.
    let server = pages(hierarchy(), |folder| (folder == "s").then_some(TinyReply::Endless(None)));
    assert!(copied(&server).unwrap_err().to_string().contains("index page"), "the page has no end");
}

#[test]
fn what_a_server_sends_in_place_of_a_chunk_is_not_copied() {
    let page = b"<!doctype html><title>Log in</title>".to_vec();
    let html = vec![("content-type".to_owned(), "text/html; charset=utf-8".to_owned())];
    for (what, reply) in [
        ("a page", TinyReply::Answer(200, html, page.clone())),
        ("bytes of another number", TinyReply::Answer(200, vec![], page)),
        ("nothing", TinyReply::Answer(200, vec![], Vec::new())),
        ("no content", TinyReply::status(204)),
    ] {
        let mut objects = hierarchy();
        objects.retain(|(key, _)| key != "s/a/c/3");
        let server = TinyServer::start(move |r: &TinyRequest| {
            let key = r.key();
            match objects.iter().find(|(k, _)| *k == key) {
                Some((_, bytes)) => TinyReply::Object(bytes.clone()),
                None if key == "s/a/c/3" => reply.clone(),
                None => TinyReply::status(404),
            }
        });
        let zarr =
            zaro::blocking::block_on(zaro::open(&format!("{}/s/a", server.url()), &options())).unwrap();
        let made: SharedStore = Arc::new(MemoryStore::new());
        let e = block_on(zaro::copy::copy(&zarr, "s", "", &made, "", &CopyOptions::default())).unwrap_err();
        assert_eq!(e.key(), Some("c/3"), "{what}: {e}");
    }
}

#[tokio::test]
async fn a_folder_that_no_page_names_is_empty() {
    let server = pages(hierarchy(), |_| None);
    let store = open_store(&format!("{}/s", server.url()), &hasty()).await.unwrap();
    assert_eq!(store.list("").await.unwrap().prefixes, ["a", "g"]);
    for absent in ["none", "none/below", "g/none"] {
        assert_eq!(store.list(absent).await.unwrap(), Listing::default(), "{absent}");
    }
    assert!(!store.lists_all());
    assert_eq!(store.size("a/c/0").await.unwrap(), Some(40), "though HEAD says 404");
    assert_eq!(store.size("a/c/9").await.unwrap(), None);
}

#[tokio::test]
async fn listings_that_go_round_end() {
    // Every folder holds itself.
    let group = br#"{"zarr_format":3,"node_type":"group"}"#;
    let server = TinyServer::start(move |r| match r.key() {
        key if key.ends_with("zarr.json") => TinyReply::Object(group.to_vec()),
        key if key.ends_with('/') => {
            let page = b"<title>Index of /</title><a href='zarr.json'>x</a><a href=\"a/\">a</a>";
            TinyReply::Answer(200, vec![], page.to_vec())
        }
        _ => TinyReply::status(404),
    });
    let zarr = zaro::open(&format!("{}/z", server.url()), &options()).await.unwrap();
    let e = zarr.walk("").await.unwrap_err();
    assert!(e.to_string().contains("nested folders"), "{e}");
    // Pages of a bucket whose tokens come again, at once and after a while.
    for length in [1, 2, 5] {
        let server = TinyServer::start(move |r| {
            let next = (r.number % length) + 1;
            let page = format!(
                "<ListBucketResult><IsTruncated>true</IsTruncated><KeyCount>0</KeyCount>\
                 <NextContinuationToken>t{next}</NextContinuationToken></ListBucketResult>"
            );
            TinyReply::Answer(200, vec![], page.into_bytes())
        });
        let mut options = hasty();
        (options.anonymous, options.endpoint) = (true, Some(server.url()));
        let store = open_store("s3://b/z", &options).await.unwrap();
        let e = store.list("").await.unwrap_err();
        assert!(e.to_string().contains("again and again"), "{length}: {e}");
        let keys: Result<Vec<_>, _> = futures::TryStreamExt::try_collect(store.keys("")).await;
        assert!(keys.unwrap_err().to_string().contains("again and again"), "{length}");
        assert!(server.requests() < 100, "{length}: {}", server.requests());
    }
}

#[tokio::test]
async fn what_is_no_listing_of_a_bucket_is_not_an_empty_one() {
    let row = |key: &str| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>\"e\"</ETag>\
             <Size>1</Size></Contents>"
        )
    };
    let page = |inner: &str| format!("<ListBucketResult>{inner}</ListBucketResult>");
    let ends = "<IsTruncated>false</IsTruncated>";
    let cut = page(&format!("{ends}{}", row("z/a")));
    for (what, answer) in [
        ("says nothing at all", page("")),
        ("does not say whether it goes on", page(&row("z/a"))),
        ("has fewer keys than it says", page(&format!("{ends}<KeyCount>5</KeyCount>{}", row("z/a")))),
        ("goes on without saying where", page(&format!("<IsTruncated>true</IsTruncated>{}", row("z/a")))),
        ("an error", "<Error><Code>InternalError</Code></Error>".to_owned()),
        ("a page of a proxy", "<html><body>proxy error</body></html>".to_owned()),
        ("another prefix", page(&format!("{ends}{}", row("elsewhere/a")))),
        ("cut off", cut.strip_suffix("</ListBucketResult>").unwrap().to_owned()),
        ("nothing", String::new()),
    ] {
        let server = TinyServer::start(move |_| TinyReply::Answer(200, vec![], answer.clone().into_bytes()));
        let mut options = hasty();
        (options.anonymous, options.endpoint) = (true, Some(server.url()));
        let store = open_store("s3://b/z", &options).await.unwrap();
        let e = store.list("").await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{what}: {e}");
        let keys: Result<Vec<_>, _> = futures::TryStreamExt::try_collect(store.keys("")).await;
        assert_eq!(keys.unwrap_err().kind(), ErrorKind::Io, "{what}");
    }
    // One that does not name the document of the group that is listed is of another time.
    let server = TinyServer::start(move |r| match r.target.contains("list-type") {
        true => TinyReply::Answer(200, vec![], page(ends).into_bytes()),
        false if r.target.ends_with("/z/zarr.json") => {
            TinyReply::Object(br#"{"zarr_format":3,"node_type":"group"}"#.to_vec())
        }
        false => TinyReply::status(404),
    });
    let mut options = options();
    (options.store.anonymous, options.store.endpoint) = (true, Some(server.url()));
    let e = zaro::open("s3://b/z", &options).await.unwrap().walk("").await.unwrap_err();
    assert!(e.to_string().contains("lacks the existing metadata document"), "{e}");
}

#[test]
fn links_that_lead_back_are_not_followed() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a.zarr");
    let group = r#"{"zarr_format":3,"node_type":"group"}"#;
    for folder in ["", "g", "g/h"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
        std::fs::write(root.join(folder).join("zarr.json"), group).unwrap();
    }
    std::fs::create_dir_all(dir.path().join("other")).unwrap();
    std::fs::write(dir.path().join("other/zarr.json"), group).unwrap();
    symlink(".", root.join("one")).unwrap();
    symlink(".", root.join("two")).unwrap();
    symlink("../..", root.join("g/h/up")).unwrap();
    symlink("..", root.join("around")).unwrap();
    symlink("../other", root.join("elsewhere")).unwrap();
    symlink("../g/h", root.join("g/beside")).unwrap();
    let nodes = zaro::blocking::block_on(async {
        let zarr = zaro::open(root.to_str().unwrap(), &OpenOptions::default()).await?;
        zarr.walk("").await
    });
    let paths: Vec<String> = nodes.unwrap().into_iter().map(|n| n.path).collect();
    assert_eq!(paths, ["", "elsewhere", "g", "g/beside", "g/h"]);
}

#[tokio::test]
async fn states_of_files_tell_when_they_were_changed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k"), [1; 100]).unwrap();
    let store = open_store(dir.path().to_str().unwrap(), &StoreOptions::default()).await.unwrap();
    let state = store.get_opts("k", GetOptions::default()).await.unwrap().unwrap().meta;
    assert_ne!(state, ObjectMeta::Unknown);
    let part = GetOptions::range(Some(ByteRange::span(0, 10))).of_state(&state);
    assert!(store.get_opts("k", part).await.unwrap().is_some());
    assert_eq!(store.get_opts("k", GetOptions::at_most(99)).await.unwrap_err().kind(), ErrorKind::Invalid);
    std::fs::write(dir.path().join("k"), [2; 101]).unwrap();
    assert_eq!(store.get_opts("k", part).await.unwrap_err().kind(), ErrorKind::Conflict);
}
