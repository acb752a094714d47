//! Folders through the whole application, and through stores that fail.

#![allow(clippy::as_conversions, reason = "functions as pointers")]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper::Method;
use zaro::meta::Json;
use zaro::store::{Entry, GetOptions, KeyEntry, ListOptions, Object, ObjectMeta, Store};
use zaro::{Error, Result};

use super::*;
use crate::{App, Config};

/// Names that trip up those who write or read pages.
const ODD: [&str; 9] = ["a b", "a#b", "a?b=1", "a%41", "a&amp;b", "<b>", "q\"'", "a+b", "é日本 ..x"];

/// A group with an array and odd names.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let zarr = folder.path().join("x.zarr");
    std::fs::create_dir_all(zarr.join("a/c/0")).unwrap();
    let put = |key: &str, text: &str| std::fs::write(zarr.join(key), text).unwrap();
    put("zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    put("a/c/0/0", "chunk");
    for name in ODD {
        put(&format!("a/{name}"), name);
    }
    std::fs::create_dir(zarr.join("a/d e")).unwrap();
    std::fs::write(zarr.join("a/d e/f"), "").unwrap();
    folder
}

fn app(folder: &tempfile::TempDir, bare: bool) -> App {
    let zarr = folder.path().join("x.zarr");
    let config = Config { sources: vec![format!("x={}", zarr.display())], bare, ..Config::default() };
    App::new(config).unwrap()
}

fn get(target: &str) -> Request {
    let mut request = Request::new(Method::GET, target);
    request.headers.insert("host", HeaderValue::from_static("localhost"));
    request
}

async fn text(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// The entries of a page, decoded, as a program finds them.
fn entries(page: &str) -> Vec<String> {
    let found = page.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let decoded = found.filter(|href| *href != "../").map(|href| {
        assert!(href.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%/".contains(&b)), "{href}");
        percent_encoding::percent_decode_str(href).decode_utf8().unwrap().into_owned()
    });
    decoded.collect()
}

#[tokio::test]
async fn a_folder_is_a_page_that_programs_can_read() {
    let folder = tree();
    let app = app(&folder, false);
    let response = app.answer(&get("/data/x/a/")).await;
    assert_eq!(response.status(), 200);
    let headers = response.headers().clone();
    assert_eq!(headers.get("content-type").unwrap(), HTML);
    assert_eq!(headers.get("x-content-type-options").unwrap(), "nosniff");
    assert!(
        headers.get("content-security-policy").unwrap().to_str().unwrap().starts_with("default-src 'none'")
    );
    assert!(headers.get("vary").unwrap().to_str().unwrap().contains("Accept"));
    let page = text(response).await;
    let mut found = entries(&page);
    let mut wanted: Vec<String> = ODD.iter().map(|name| (*name).to_owned()).collect();
    wanted.extend(["c/".to_owned(), "d e/".to_owned()]);
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    assert!(page.lines().any(|line| line == "<title>Index of /data/x/a/</title>"));
    assert!(page.matches("<table").count() == 1 && !page.contains("<b>") && !page.contains("://"));
    // Each leads where it says.
    for name in ODD {
        let path = format!("/data/x/a/{}", crate::path::encode(name));
        assert_eq!(text(app.answer(&get(&path)).await).await, name);
    }
    let row = page.lines().find(|line| line.contains("a%20b")).unwrap();
    assert!(row.ends_with("<td>3") && row.contains("-20"), "{row}");
    let mut head = get("/data/x/a/");
    head.method = Method::HEAD;
    let response = app.answer(&head).await;
    assert_eq!((response.status().as_u16(), text(response).await.as_str()), (200, ""));
}

#[tokio::test]
async fn folders_end_in_a_slash_and_are_never_empty() {
    let folder = tree();
    std::fs::create_dir(folder.path().join("x.zarr/empty")).unwrap();
    let app = app(&folder, false);
    for (target, status) in [
        ("/data/x/", 200),
        ("/data/x/a/d%20e/", 200),
        ("/data/x", 301),
        ("/data", 301),
        ("/data/x/a", 301),
        ("/data/x/a/d%20e", 301),
        ("/data/x/empty/", 404),
        ("/data/x/nothing/", 404),
        ("/data/x/nothing", 404),
        ("/data/x/zarr.json/", 404),
        ("/data/nothing/", 404),
        ("/data/x/a%2Fc/", 404),
    ] {
        let response = app.answer(&get(target)).await;
        assert_eq!(response.status(), status, "{target}");
        if status == 301 {
            assert_eq!(response.headers().get("location").unwrap(), &format!("{target}/"));
        }
    }
}

#[tokio::test]
async fn json_comes_in_pages_to_those_who_ask() {
    let folder = tree();
    let app = app(&folder, false);
    let mut target = "/data/x/a/?format=json&limit=4".to_owned();
    let (mut names, mut pages) = (Vec::new(), 0);
    loop {
        let response = app.answer(&get(&target)).await;
        assert_eq!(response.headers().get("content-type").unwrap(), "application/json");
        let link = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        let document = Json::parse(text(response).await.as_bytes()).unwrap().value;
        let entries = document.list("entries");
        assert!(entries.len() <= 4);
        for entry in entries {
            names.push((entry.text("name").unwrap().to_owned(), entry.text("type").unwrap().to_owned()));
            if entry.text("type") == Some("file") {
                assert_eq!(
                    entry.get("size").unwrap().as_u64().unwrap(),
                    names.last().unwrap().0.len() as u64
                );
                assert!(entry.text("modified").unwrap().starts_with("20"));
            }
        }
        pages += 1;
        let next = document.text("next").map(str::to_owned);
        assert_eq!(link, next.as_ref().map(|next| format!("<{next}>; rel=\"next\"")));
        match next {
            Some(next) => target = next,
            None => break,
        }
    }
    assert_eq!((pages, names.len()), (3, ODD.len() + 2));
    assert!(names.contains(&("d e".to_owned(), "folder".to_owned())));
    let mut accepts = get("/data/x/");
    accepts.headers.insert("accept", HeaderValue::from_static("application/json"));
    assert_eq!(app.answer(&accepts).await.headers().get("content-type").unwrap(), "application/json");
    for (target, status) in [("/data/x/none/?format=json", 404), ("/data/x/?format=json&limit=0", 400)] {
        assert_eq!(app.answer(&get(target)).await.status(), status, "{target}");
    }
}

#[tokio::test]
async fn the_names_of_the_sources_are_at_the_root() {
    let folder = tree();
    let app = app(&folder, false);
    let page = text(app.answer(&get("/")).await).await;
    assert_eq!(entries(&page), ["data/"]);
    assert!(page.contains("<a class=\"source\" href=\"/data/x/\">x</a>") && !page.contains("href=\"/\""));
    assert_eq!(entries(&text(app.answer(&get("/data/")).await).await), ["x/"]);
    for target in ["/?format=json", "/data/?format=json"] {
        let document = text(app.answer(&get(target)).await).await;
        assert_eq!(
            document,
            r#"{"entries":[{"name":"x","type":"folder","size":null,"modified":null}],"next":null}"#
        );
    }
    let bare = super::tests::app(&folder, true);
    let page = text(bare.answer(&get("/")).await).await;
    assert_eq!(entries(&page), ["a/", "zarr.json"]);
    assert!(page.contains("<title>Index of /</title>") && !page.contains("../"));
}

/// A store of `good` objects in one folder, whose listing then ends, or fails.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) good: usize,
    pub(crate) fails: Option<fn() -> Error>,
    /// How many were asked for.
    pub(crate) asked: AtomicUsize,
    pub(crate) sizes: bool,
}

impl Listed {
    pub(crate) fn new(good: usize, fails: Option<fn() -> Error>) -> Arc<Self> {
        Arc::new(Self { good, fails, asked: AtomicUsize::new(0), sizes: true })
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret://place")
    }
}

#[async_trait]
impl Store for Listed {
    async fn get_opts(&self, _: &str, _: GetOptions<'_>) -> Result<Option<Object>> {
        Ok(None)
    }

    async fn stat(&self, _: &str) -> Result<Option<ObjectMeta>> {
        Ok(None)
    }

    fn list_opts(&self, _: &str, _: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let good = (0..self.good).map(|at| {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let meta = zaro::store::RemoteMeta { size: self.sizes.then_some(9), ..Default::default() };
            Ok(Entry::Object(KeyEntry::new(format!("k{at:07}"), meta.into())))
        });
        stream::iter(good.chain(self.fails.map(|fails| Err(fails().with_store(self))))).boxed()
    }
}

#[tokio::test]
async fn a_listing_that_fails_is_never_taken_for_complete() {
    let request = get("/data/x/");
    let folder = |good, fails| {
        let source = Source::of_store(Listed::new(good, fails));
        let request = request.clone();
        async move { super::folder(&source, "", &request).await }
    };
    let io: fn() -> Error = || Error::io("the connection was lost");
    for (fails, status) in [
        (io, 502),
        ((|| Error::io("it timed out")) as fn() -> Error, 504),
        (|| Error::unsupported("cannot list"), 501),
        (|| Error::not_found("no such bucket"), 502),
    ] {
        let fault = folder(0, Some(fails)).await.unwrap_err();
        assert_eq!(fault.status, status);
        assert!(!text(fault.response()).await.contains("secret"));
    }
    for good in [1, 40, 5000] {
        let response = folder(good, Some(io)).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err(), "{good}");
    }
    let whole = text(folder(5000, None).await.unwrap()).await;
    assert_eq!(entries(&whole).len(), 5000);
    assert_eq!(folder(0, None).await.unwrap_err().status, 404);
}

#[tokio::test]
async fn rows_are_made_as_they_are_taken() {
    let store = Listed::new(1_000_000, None);
    let source = Source::of_store(store.clone());
    let response = super::folder(&source, "", &get("/data/x/")).await.unwrap();
    assert!(store.asked.load(Ordering::Relaxed) < 2000);
    let mut body = response.into_body();
    let first: Bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.len() < 32 << 10);
    // What the pipe holds, and no more.
    assert!(store.asked.load(Ordering::Relaxed) < 2000, "{}", store.asked.load(Ordering::Relaxed));
}

/// A store whose index shows `listed`, as that of a web server does, and which has `.zgroup` and `.zattrs` besides.
#[derive(Debug)]
struct Page {
    listed: &'static [&'static str],
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("page")
    }
}

#[async_trait]
impl Store for Page {
    async fn get_opts(&self, _: &str, _: GetOptions<'_>) -> Result<Option<Object>> {
        Ok(None)
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let meta = zaro::store::RemoteMeta { size: Some(2), ..Default::default() };
        Ok([".zattrs", ".zgroup"].contains(&key).then(|| meta.into()))
    }

    fn facts(&self) -> zaro::store::StoreFacts {
        let mut facts = zaro::store::MemoryStore::default().facts();
        facts.lists_all = false;
        facts
    }

    fn list_opts(&self, _: &str, _: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let listed = self
            .listed
            .iter()
            .map(|name| Ok(Entry::Object(KeyEntry::new((*name).to_owned(), ObjectMeta::Unknown))));
        stream::iter(listed).boxed()
    }
}

#[tokio::test]
async fn documents_that_an_index_page_hides_are_listed() {
    for (listed, wanted) in [
        (&["a", "b"][..], &[".zattrs", ".zgroup", "a", "b"][..]),
        (&[".zgroup", "a"], &[".zgroup", "a"]),
        (&["a", ".zgroup"], &[".zattrs", ".zgroup", "a"]),
        (&[], &[".zattrs", ".zgroup"]),
    ] {
        let source = Source::of_store(Arc::new(Page { listed }));
        let page = text(super::folder(&source, "", &get("/data/x/")).await.unwrap()).await;
        assert_eq!(entries(&page), wanted);
        let next = get("/data/x/?format=json&limit=1");
        let document = text(super::folder(&source, "", &next).await.unwrap()).await;
        assert!(document.contains(wanted[0]), "{document}");
    }
}
