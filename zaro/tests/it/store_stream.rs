//! Objects as streams: what comes is whole, of one state, and within its limits, or an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use zaro::open::open_store;
use zaro::store::{
    ByteRange, GetOptions, LocalStore, MemoryStore, ObjectStream, Pin, RequestLog, SharedStore, Store,
    StoreExt as _, StoreOptions, ZipStore,
};
use zaro::testing::{TinyReply, TinyServer, ZipMaker};
use zaro::{ErrorKind, Result};

fn hasty() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.retry.first_pause = Duration::from_millis(5);
    options.read_timeout = Duration::from_secs(5);
    options.anonymous = true;
    options
}

/// What a server has, by its web address and as a bucket.
async fn in_both(server: &TinyServer, options: &StoreOptions) -> [SharedStore; 2] {
    let mut options = options.clone();
    options.endpoint = Some(server.url());
    let web = open_store(&format!("{}/b", server.url()), &options).await.unwrap();
    [web, open_store("s3://b/", &options).await.unwrap()]
}

fn content() -> Vec<u8> {
    (0..1_000_000u32).flat_map(|n| n.to_le_bytes()).collect()
}

fn tagged(tag: &str) -> Vec<(String, String)> {
    vec![("etag".to_owned(), tag.to_owned())]
}

async fn collected(stream: Result<Option<ObjectStream>>) -> Result<Vec<u8>> {
    Ok(stream?.unwrap().collect().await?.bytes.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_goes_on_where_it_was() {
    let all = content();
    let half = all.len() / 2;
    let object = all.clone();
    // The first answer to each range breaks off in the middle.
    let server = TinyServer::start(move |r| {
        let long = u64::try_from(object.len()).unwrap();
        match r.headers.get("range") {
            None => TinyReply::Short(200, tagged("\"a\""), long, object[..half].to_vec()),
            Some(_) => TinyReply::ObjectWith(object.clone(), tagged("\"a\"")),
        }
    });
    for store in in_both(&server, &hasty()).await {
        let before = server.seen().len();
        let stream = store.get_stream("k", GetOptions::default()).await.unwrap().unwrap();
        assert_eq!(stream.meta.size(), Some(4_000_000), "{store}");
        assert_eq!(stream.range, Some(0..4_000_000), "{store}");
        assert!(stream.collect().await.unwrap().bytes == all, "{store}");
        let seen = &server.seen()[before..];
        assert_eq!(seen.len(), 2, "{store}: {seen:?}");
        // Perhaps not all that was sent had come when the connection broke.
        let from = seen[1].headers["range"].strip_prefix("bytes=").unwrap().split('-').next().unwrap();
        assert!((1..=half).contains(&from.parse::<usize>().unwrap()), "{store}: {from}");
        assert_eq!(seen[1].headers["if-match"], "\"a\"", "{store}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_two_states_are_not_one_body() {
    let all = content();
    let half = all.len() / 2;
    // Broken off, and then another object; or one whose states cannot be told apart.
    for (first, then) in [("\"a\"", "\"b\""), ("", "")] {
        let object = all.clone();
        let silent = |tag: &str| {
            let mut headers = tagged(tag);
            headers.extend(tag.is_empty().then(|| ("last-modified".to_owned(), String::new())));
            headers
        };
        let server = TinyServer::start(move |r| match r.headers.get("range") {
            None => TinyReply::Short(200, silent(first), 4_000_000, object[..half].to_vec()),
            Some(_) => TinyReply::ObjectWith(vec![0; 4_000_000], silent(then)),
        });
        let [web, bucket] = in_both(&server, &hasty()).await;
        let stores = if first.is_empty() { vec![web] } else { vec![web, bucket] };
        for store in stores {
            let e = collected(store.get_stream("k", GetOptions::default()).await).await.unwrap_err();
            let wanted = if first.is_empty() { ErrorKind::Io } else { ErrorKind::Conflict };
            assert_eq!(e.kind(), wanted, "{store}: {e}");
            assert!(e.key().is_some() && e.store().is_some(), "{e}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_end_is_given_up() {
    for announced in [None, Some(1 << 50)] {
        let server = TinyServer::start(move |_| TinyReply::Endless(announced));
        let store = open_store(&server.url(), &hasty()).await.unwrap();
        let e = collected(store.get_stream("k", GetOptions::at_most(1 << 20)).await).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{announced:?}: {e}");
        assert!(server.sent_endlessly() < 1 << 28, "{}", server.sent_endlessly());
        // Who stops reading is not sent the rest.
        if announced.is_some() {
            let mut stream = store.get_stream("k", GetOptions::default()).await.unwrap().unwrap();
            assert_eq!(stream.range, Some(0..1 << 50));
            assert!(stream.body.try_next().await.unwrap().is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_its_place_until_it_ends_and_its_line_in_the_log() {
    let server = TinyServer::serving(vec![("b/k", content())], Duration::ZERO);
    let log = Arc::new(RequestLog::new());
    let mut options = hasty();
    (options.concurrency, options.log) = (1, Some(Arc::clone(&log)));
    for store in in_both(&server, &options).await {
        let before = (log.requests(), log.bytes());
        let mut stream = store.get_stream("k", GetOptions::default()).await.unwrap().unwrap();
        let first = stream.body.try_next().await.unwrap().unwrap();
        let other = store.get("k", Some(ByteRange::span(0, 4)));
        let waits = tokio::time::timeout(Duration::from_millis(100), other).await;
        assert!(waits.is_err(), "{store}: the only place is taken");
        assert_eq!(log.requests(), before.0, "{store}");
        let mut length = u64::try_from(first.len()).unwrap();
        while let Some(piece) = stream.body.try_next().await.unwrap() {
            length += u64::try_from(piece.len()).unwrap();
        }
        assert_eq!(length, 4_000_000);
        drop(stream);
        assert_eq!((log.requests(), log.bytes()), (before.0 + 1, before.1 + length), "{store}");
        assert!(store.get("k", Some(ByteRange::span(0, 4))).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_comes_in_blocks_and_must_stay_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k"), content()).unwrap();
    let store = LocalStore::new(dir.path());
    let stream = store.get_stream("k", GetOptions::default()).await.unwrap().unwrap();
    let pieces: Vec<_> = stream.body.try_collect().await.unwrap();
    assert!(pieces.len() > 10 && pieces.iter().all(|p| p.len() <= 1 << 18), "{}", pieces.len());
    assert!(pieces.concat() == content());
    // Changed after the first piece.
    let mut stream = store.get_stream("k", GetOptions::default()).await.unwrap().unwrap();
    stream.body.try_next().await.unwrap();
    std::fs::write(dir.path().join("k"), vec![0; 4_000_001]).unwrap();
    let e = stream.collect().await.unwrap_err();
    assert_eq!((e.kind(), e.key()), (ErrorKind::Conflict, Some("k")), "{e}");
    // A pin holds for all of it.
    std::fs::write(dir.path().join("k"), "hello").unwrap();
    for (etag, right) in
        [("5d41402abc4b2a76b9719d911017c592", true), ("5d41402abc4b2a76b9719d911017c593", false)]
    {
        let pin = Pin { etag: Some(etag.to_owned()), ..Pin::default() };
        let options = GetOptions::default().with_pin(Some(&pin));
        let got = collected(store.get_stream("k", options).await).await;
        assert_eq!(got.is_ok(), right, "{got:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_an_archive_is_held_against_its_checksum() {
    let all = content();
    let good = ZipMaker::default().make(&[("a", b"first".as_slice()), ("k", all.as_slice())]);
    let mut spoilt = good.clone();
    let middle = good.len() / 2;
    spoilt[middle] ^= 1;
    let asked = Arc::new(AtomicU64::new(0));
    for (archive, is_good) in [(good, true), (spoilt, false)] {
        let (bytes, count) = (archive.clone(), Arc::clone(&asked));
        let server = TinyServer::start(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            TinyReply::Object(bytes.clone())
        });
        let memory = MemoryStore::new();
        memory.put("a.zip", archive).unwrap();
        let memory: SharedStore = Arc::new(memory);
        let far = open_store(&server.url(), &hasty()).await.unwrap();
        for inner in [memory, far] {
            let zip = ZipStore::open(inner, "a.zip").await.unwrap().unwrap();
            let got = collected(zip.get_stream("k", GetOptions::default()).await).await;
            match is_good {
                true => assert!(got.unwrap() == all),
                false => assert_eq!(got.unwrap_err().kind(), ErrorKind::Invalid),
            }
            let part = GetOptions::range(Some(ByteRange::span(8, 4)));
            assert_eq!(collected(zip.get_stream("k", part).await).await.unwrap(), 2u32.to_le_bytes());
        }
    }
}
