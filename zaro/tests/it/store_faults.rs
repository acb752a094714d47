//! What networks and servers do to us: nothing of it may look like a missing key, hang, or take memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zaro::ErrorKind;
use zaro::open::open_store;
use zaro::store::{ByteRange, RequestLog, SharedStore, StoreExt as _, StoreOptions};
use zaro::testing::{Lists, TinyReply, TinyRequest, TinyServer, sample_objects, store_suite_listing};

const BODY: &[u8] = b"0123456789";

/// Quick to give up, so that tests are.
fn hasty() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.retry.first_pause = Duration::from_millis(5);
    options.read_timeout = Duration::from_millis(300);
    options
}

async fn open(server: &TinyServer) -> SharedStore {
    open_store(&format!("{}/data?secret=xyzzy", server.url()), &hasty()).await.unwrap()
}

/// Answers the first `n` requests with `fault`, then well.
fn after(n: u64, fault: TinyReply) -> TinyServer {
    TinyServer::start(move |r| if r.number <= n { fault.clone() } else { TinyReply::Object(BODY.to_vec()) })
}

#[tokio::test]
async fn a_slow_server_is_asked_once_for_what_is_near() {
    let server = TinyServer::serving(vec![("data/k", vec![1; 100_000])], Duration::from_millis(30));
    let store = open(&server).await;
    assert_eq!(server.requests(), 0, "opening asks nothing");
    let many = (0..20).map(|_| store.get("k", None));
    assert!(futures::future::join_all(many).await.iter().all(|r| r.as_ref().unwrap().is_some()));
    assert_eq!(server.requests(), 1);
    let other = open(&server).await;
    let ranges: Vec<_> = (0..50).map(|i| ByteRange::span(i * 2000, 50)).collect();
    assert_eq!(other.get_ranges("k", &ranges, None).await.unwrap().unwrap().0.len(), 50);
    assert_eq!(server.requests(), 2);
    other.get("k", Some(ByteRange::Suffix(16))).await.unwrap();
    other.get("k", Some(ByteRange::Suffix(16))).await.unwrap();
    assert_eq!(server.requests(), 3);
    assert!(server.seen().iter().all(|r| r.target.ends_with("?secret=xyzzy")), "the query stays");
}

#[tokio::test]
async fn what_passes_is_survived() {
    let short = |length| TinyReply::Short(200, vec![], length, b"0123".to_vec());
    let part = ("content-range".to_owned(), "bytes 0-9/10".to_owned());
    for fault in [
        TinyReply::Drop,
        TinyReply::status(500),
        TinyReply::status(503),
        TinyReply::with_header(503, "retry-after", "0"),
        TinyReply::with_header(429, "retry-after", "1"),
        TinyReply::status(408),
        TinyReply::Hang,
        short(10),
        TinyReply::Short(206, vec![part], 10, b"0123".to_vec()),
    ] {
        let server = after(2, fault.clone());
        let store = open(&server).await;
        let got =
            store.get("k", Some(ByteRange::span(0, 10))).await.unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        assert_eq!(got.unwrap(), BODY, "{fault:?}");
        assert_eq!(server.requests(), 3, "{fault:?}");
        let server = after(2, fault.clone());
        let store = open(&server).await;
        assert_eq!(store.get("k", None).await.unwrap().unwrap(), BODY, "{fault:?}");
    }
}

#[tokio::test]
async fn a_slow_body_that_keeps_coming_is_waited_for() {
    let server = TinyServer::start(|_| TinyReply::Slow(vec![7; 1000], 100, Duration::from_millis(100)));
    let start = Instant::now();
    assert_eq!(open(&server).await.get("k", None).await.unwrap().unwrap().len(), 1000);
    assert!(start.elapsed() > Duration::from_millis(800) && server.requests() == 1);
}

#[tokio::test]
async fn what_does_not_pass_is_an_error_and_never_a_missing_key() {
    for (fault, kind, requests) in [
        (TinyReply::Drop, ErrorKind::Io, 3),
        (TinyReply::Hang, ErrorKind::Io, 3),
        (TinyReply::status(503), ErrorKind::Io, 3),
        (TinyReply::Short(200, vec![], 10, b"0123".to_vec()), ErrorKind::Io, 3),
        // More than anything may have: not waited for, and not asked for again.
        (TinyReply::Short(200, vec![], 1 << 60, b"0123".to_vec()), ErrorKind::Invalid, 1),
        (TinyReply::status(403), ErrorKind::NotPermitted, 1),
        (TinyReply::status(401), ErrorKind::NotPermitted, 1),
        (TinyReply::status(400), ErrorKind::Io, 1),
        (TinyReply::status(501), ErrorKind::Io, 1),
        (TinyReply::status(302), ErrorKind::Io, 1),
        (TinyReply::with_header(302, "location", "/data/k?secret=xyzzy"), ErrorKind::Io, 9),
    ] {
        let server = after(u64::MAX, fault.clone());
        let mut options = hasty();
        options.retry.attempts = Some(3);
        let store = open_store(&format!("{}/data?secret=xyzzy", server.url()), &options).await.unwrap();
        let error = store.get("k", None).await.unwrap_err();
        assert_eq!((error.kind(), server.requests()), (kind, requests), "{fault:?}: {error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("key k") && text.contains("/data") && !text.contains("xyzzy"), "{text}");
        assert!(store.get("k", Some(ByteRange::Suffix(3))).await.is_err(), "{fault:?}");
        assert!(
            store.get_ranges("k", &[ByteRange::span(0, 1), ByteRange::From(9)], None).await.is_err(),
            "{fault:?}"
        );
        // The size is what is announced.
        assert!(matches!(fault, TinyReply::Short(..)) || store.size("k").await.is_err(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_ends_in_a_time_out() {
    let server = after(u64::MAX, TinyReply::Hang);
    let mut options = hasty();
    options.retry.total = Duration::from_millis(700);
    let store = open_store(&server.url(), &options).await.unwrap();
    let start = Instant::now();
    let error = store.get("k", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("too long"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
    let nobody = open_store("http://127.0.0.1:9/x", &options).await.unwrap();
    assert_eq!(nobody.get("k", None).await.unwrap_err().kind(), ErrorKind::Io);
}

/// A server of the samples that is good but for what `twist` does to its replies.
fn samples(twist: impl Fn(&TinyRequest, TinyReply) -> TinyReply + Send + Sync + 'static) -> TinyServer {
    TinyServer::start(move |request| {
        let key = request.key();
        let object = sample_objects(false).into_iter().find(|(k, _)| *k == key);
        twist(request, object.map_or(TinyReply::status(404), |(_, bytes)| TinyReply::Object(bytes)))
    })
}

#[tokio::test]
async fn odd_but_honest_servers_pass_the_suite() {
    let ignores_ranges = samples(|_, reply| match reply {
        TinyReply::Object(bytes) => TinyReply::Answer(200, vec![], bytes),
        other => other,
    });
    let refuses_head = samples(|r, reply| if r.method == "HEAD" { TinyReply::status(405) } else { reply });
    let signed_for_get = samples(|r, reply| if r.method == "HEAD" { TinyReply::status(403) } else { reply });
    let gone = samples(|_, reply| match reply {
        TinyReply::Answer(404, ..) => TinyReply::status(410),
        other => other,
    });
    for server in [ignores_ranges, refuses_head, signed_for_get, gone] {
        let store = open_store(&server.url(), &hasty()).await.unwrap();
        store_suite_listing(&*store, &sample_objects(false), Lists::Nothing).await;
    }
}

#[tokio::test]
async fn every_third_request_failing_is_no_hindrance() {
    let server = samples(|r, reply| if r.number % 3 == 0 { TinyReply::Drop } else { reply });
    let store = open_store(&server.url(), &hasty()).await.unwrap();
    store_suite_listing(&*store, &sample_objects(false), Lists::Nothing).await;
}

#[tokio::test]
async fn a_server_that_lies_about_its_ranges_is_found_out() {
    let range = |text: &'static str, body: &'static [u8]| {
        TinyServer::start(move |_| {
            TinyReply::Answer(206, vec![("content-range".into(), text.into())], body.to_vec())
        })
    };
    for (server, kind) in [
        (range("bytes 1-4/10", b"1234"), ErrorKind::Io),
        (range("bytes 0-3/10", b"012"), ErrorKind::Io),
        (range("bytes 0-2/3", b"012"), ErrorKind::Invalid),
        (range("bytes 0-18446744073709551615/18446744073709551615", b"0123"), ErrorKind::Io),
    ] {
        let mut options = hasty();
        options.retry.attempts = Some(2);
        let store = open_store(&server.url(), &options).await.unwrap();
        let answer = store.get("k", Some(ByteRange::span(0, 4))).await;
        // A range without a name is taken if it has the right length.
        if let Err(e) = answer {
            assert_eq!(e.kind(), kind, "{e}");
        } else {
            assert_eq!(answer.unwrap().unwrap(), "0123");
        }
    }
}

#[tokio::test]
async fn a_coded_body_is_not_taken_for_the_object() {
    let coded = |coding: &'static str| {
        let header = ("Content-Encoding".to_owned(), coding.to_owned());
        let server = TinyServer::start(move |_| TinyReply::Answer(200, vec![header.clone()], BODY.to_vec()));
        let mut options = hasty();
        options.add_header("Accept-Encoding: gzip").unwrap();
        (server, options)
    };
    for coding in ["gzip", "br", "identity, zstd", "deflate"] {
        let (server, options) = coded(coding);
        let store = open_store(&format!("{}/data", server.url()), &options).await.unwrap();
        let words =
            format!("Content-Encoding: {}, which was not requested", coding.rsplit(' ').next().unwrap());
        for range in
            [None, Some(ByteRange::span(0, 4)), Some(ByteRange::Suffix(4)), Some(ByteRange::span(0, 0))]
        {
            let error = store.get("k", range).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            let text = error.to_string();
            assert!(text.contains(&words) && text.contains("key k"), "{coding} {range:?}: {text}");
        }
        assert!(store.size("k").await.is_err(), "the size of a coded body is not the object's");
        assert!(store.list("").await.unwrap_err().to_string().contains(&words));
        let asked = server.seen();
        assert!(asked.iter().all(|r| r.headers.get("accept-encoding").unwrap() == "identity"), "{asked:?}");
    }
    for coding in ["identity", "Identity", "", "aws-chunked", "UTF-8"] {
        let (server, options) = coded(coding);
        let store = open_store(&format!("{}/data", server.url()), &options).await.unwrap();
        assert_eq!(store.get("k", None).await.unwrap().unwrap(), BODY, "{coding}");
        assert_eq!(store.get("k", Some(ByteRange::span(2, 2))).await.unwrap().unwrap(), "23", "{coding}");
        assert_eq!(store.size("k").await.unwrap(), Some(10), "{coding}");
    }
}

#[tokio::test]
async fn redirects_are_followed_without_our_headers() {
    let target = after(0, TinyReply::Drop);
    let to = format!("{}/elsewhere", target.url());
    let server = TinyServer::start(move |_| TinyReply::with_header(307, "location", &to));
    let mut options = hasty();
    options.add_header("X-Token: hush").unwrap();
    let store = open_store(&server.url(), &options).await.unwrap();
    assert_eq!(store.get("k", Some(ByteRange::From(8))).await.unwrap().unwrap(), "89");
    assert_eq!(server.seen()[0].headers["x-token"], "hush");
    assert!(!target.seen()[0].headers.contains_key("x-token"));
    assert_eq!(target.seen()[0].headers["range"], "bytes=8-");
}

#[tokio::test]
async fn pages_that_are_no_index_are_not_listed() {
    for page in ["<html><title>Our data portal</title><a href='x'>", "", "{}", "[1]", "\u{0}\u{1}"] {
        let server = TinyServer::start(move |_| TinyReply::Answer(200, vec![], page.into()));
        let error = open(&server).await.list("a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{page}");
    }
    let refused = after(u64::MAX, TinyReply::status(403));
    assert_eq!(open(&refused).await.list("").await.unwrap_err().kind(), ErrorKind::Unsupported);
    let down = after(u64::MAX, TinyReply::status(503));
    assert_eq!(open(&down).await.list("").await.unwrap_err().kind(), ErrorKind::Io);
}

fn cloud(server: &TinyServer) -> StoreOptions {
    let mut options = hasty();
    options.anonymous = true;
    options.endpoint = Some(server.url());
    options.account = Some("account".into());
    options
}

#[tokio::test]
async fn buckets_meet_the_same_faults() {
    let xml = |code: &str| format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>").into_bytes();
    for uri in ["s3://b/p", "gs://b/p", "az://b/p"] {
        for fault in [
            TinyReply::Drop,
            TinyReply::Answer(503, vec![], xml("SlowDown")),
            TinyReply::with_header(429, "retry-after", "0"),
            TinyReply::Hang,
            TinyReply::Short(200, vec![], 10, b"0123".to_vec()),
        ] {
            let server = after(2, fault.clone());
            let store = open_store(uri, &cloud(&server)).await.unwrap();
            let got = store.get("k", None).await.unwrap_or_else(|e| panic!("{uri} {fault:?}: {e}"));
            assert_eq!(got.unwrap(), BODY, "{uri} {fault:?}");
            assert_eq!(server.requests(), 3, "{uri} {fault:?}");
            assert_eq!(store.get("k", Some(ByteRange::Suffix(2))).await.unwrap().unwrap(), "89");
            let beyond = store.get("j", Some(ByteRange::span(5, 10))).await.unwrap_err();
            assert_eq!(beyond.kind(), ErrorKind::Invalid);
        }
        for (fault, kind) in [
            (TinyReply::Answer(403, vec![], xml("AccessDenied")), ErrorKind::NotPermitted),
            (TinyReply::status(401), ErrorKind::NotPermitted),
            (TinyReply::Answer(400, vec![], xml("InvalidRequest")), ErrorKind::Io),
            (TinyReply::Answer(200, vec![], b"<html>not a listing".to_vec()), ErrorKind::Io),
        ] {
            let server = after(u64::MAX, fault.clone());
            let store = open_store(uri, &cloud(&server)).await.unwrap();
            let error = store.list("").await.unwrap_err();
            assert_eq!((error.kind(), server.requests()), (kind, 1), "{uri} {fault:?}: {error}");
            if !matches!(fault, TinyReply::Answer(200, ..)) {
                assert_eq!(store.get("k", None).await.unwrap_err().kind(), kind, "{uri} {fault:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_copy_is_sent_what_it_has() {
    for (status, copies) in [(200, false), (501, false), (200, true)] {
        let server = TinyServer::start(move |r| match r.headers.contains_key("x-amz-copy-source") {
            true if copies => TinyReply::Answer(
                200,
                vec![],
                b"<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>".to_vec(),
            ),
            true => TinyReply::status(status),
            false if r.method == "PUT" => TinyReply::with_header(200, "etag", "\"e\""),
            false => TinyReply::Object(BODY.to_vec()),
        });
        let store = open_store("s3://b/p", &cloud(&server)).await.unwrap();
        store.copy_object("from", "to").await.unwrap();
        let put = |r: &&zaro::testing::TinyRequest| {
            r.method == "PUT" && r.headers.get("content-length").map(String::as_str) == Some("10")
        };
        let seen = server.seen();
        let sent = seen.iter().filter(put).count();
        assert_eq!(sent, usize::from(!copies), "{status} {copies}: {seen:?}");
    }
}

#[tokio::test]
async fn a_bucket_in_another_region_is_followed_there() {
    // By what S3 does: the address of the wrong region names the right one and sends nothing.
    let moved = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&moved);
    let server = TinyServer::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => TinyReply::with_header(301, "x-amz-bucket-region", "eu-central-1"),
        _ => TinyReply::Object(BODY.to_vec()),
    });
    let log = Arc::new(RequestLog::new());
    let mut options = cloud(&server);
    options.log = Some(Arc::clone(&log));
    let store = open_store("s3://b/p", &options).await.unwrap();
    assert_eq!(store.get("k", None).await.unwrap().unwrap(), BODY);
    assert_eq!((server.requests(), log.requests()), (2, 1));
    assert_eq!(store.get("j", None).await.unwrap().unwrap(), BODY);
    assert_eq!(server.requests(), 3, "and stays there");
}
