//! PROPFIND through the whole application.

use http_body_util::BodyExt as _;
use hyper::Method;
use quick_xml::events::Event;
use zaro::store::MemoryStore;

use super::*;
use crate::listing::Walk;
use crate::sources::Source;
use crate::{App, Config};

const NAMES: [&str; 5] = ["a b", "a#b?", "<b>&\"", "é", "._secret"];

fn app(bare: bool) -> (tempfile::TempDir, App) {
    let folder = tempfile::tempdir().unwrap();
    let zarr = folder.path().join("x");
    std::fs::create_dir_all(zarr.join("g/c/0")).unwrap();
    std::fs::create_dir_all(zarr.join(".git")).unwrap();
    let put = |key: &str, text: &str| std::fs::write(zarr.join(key), text).unwrap();
    put("zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    put("g/c/0/0", "chunk");
    put(".git/config", "x");
    for name in NAMES {
        put(&format!("g/{name}"), name);
    }
    let config = Config { sources: vec![format!("x={}", zarr.display())], bare, ..Config::default() };
    (folder, App::new(config).unwrap())
}

fn propfind(target: &str, depth: &str, body: &str) -> Request {
    let mut request = Request::new(Method::from_bytes(b"PROPFIND").unwrap(), target);
    request.headers.insert("host", HeaderValue::from_static("localhost"));
    if !depth.is_empty() {
        request.headers.insert("depth", HeaderValue::from_str(depth).unwrap());
    }
    request.body = body.to_owned().into();
    request
}

async fn text(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// The text of all elements of this name; also checks that the document is well-formed.
fn values(xml: &str, element: &str) -> Vec<String> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let (mut out, mut within) = (Vec::new(), None::<String>);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) if start.name().as_ref() == element.as_bytes() => {
                within = Some(String::new())
            }
            Event::Empty(start) if start.name().as_ref() == element.as_bytes() => out.push(String::new()),
            Event::Text(text) => {
                if let Some(within) = &mut within {
                    within.push_str(std::str::from_utf8(&text).unwrap());
                }
            }
            Event::GeneralRef(entity) => {
                if let Some(within) = &mut within {
                    within.push_str(&format!("&{};", std::str::from_utf8(&entity).unwrap()));
                }
            }
            Event::End(end) if end.name().as_ref() == element.as_bytes() => out.extend(within.take()),
            Event::Eof => return out,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_folder_has_its_members() {
    let (_folder, app) = app(false);
    let response = app.answer(&propfind("/data/x/g/", "1", "")).await;
    assert_eq!(response.status(), 207);
    assert_eq!(response.headers().get("content-type").unwrap(), XML);
    let xml = text(response).await;
    let mut hrefs = values(&xml, "D:href");
    assert_eq!(hrefs.remove(0), "/data/x/g/");
    hrefs.sort();
    let wanted = [
        "/data/x/g/%3Cb%3E%26%22",
        "/data/x/g/%C3%A9",
        "/data/x/g/a%20b",
        "/data/x/g/a%23b%3F",
        "/data/x/g/c/",
    ];
    assert_eq!(hrefs, wanted);
    // One propstat and one date each, folders included.
    let count = |element: &str| values(&xml, element).len();
    assert_eq!((count("D:propstat"), count("D:getlastmodified"), count("D:resourcetype")), (6, 6, 6));
    assert_eq!((count("D:getcontentlength"), count("D:getetag"), count("D:collection")), (4, 4, 2));
    assert!(values(&xml, "D:status").iter().all(|status| status == "HTTP/1.1 200 OK"));
    // The tag is that of the object itself.
    let mut get = propfind("/data/x/g/a%20b", "", "");
    get.method = Method::GET;
    let tag = app.answer(&get).await.headers().get("etag").unwrap().to_str().unwrap().to_owned();
    assert!(values(&xml, "D:getetag").contains(&tag.replace('"', "&quot;")), "{tag} {xml}");
    // Without the slash it is the same folder.
    assert_eq!(text(app.answer(&propfind("/data/x/g", "1", "")).await).await, xml);
}

#[tokio::test]
async fn depths_reach_as_far_as_they_say() {
    let (_folder, app) = app(false);
    for (target, depth, status, count) in [
        ("/data/x/", "0", 207, 1),
        ("/data/x", "0", 207, 1),
        ("/data/x/g/c/0/", "0", 207, 1),
        ("/data/x/g/c/0", "0", 207, 1),
        ("/data/x/zarr.json", "0", 207, 1),
        ("/data/x/zarr.json", "1", 207, 1),
        ("/data/x/zarr.json", "infinity", 207, 1),
        ("/data/x/", "1", 207, 3),
        ("/data/x/", "infinity", 207, 10),
        ("/data/x/", "Infinity", 207, 10),
        ("/data/x/", "", 207, 10),
        ("/data/x/", "2", 400, 0),
        ("/data/x/zarr.json/", "0", 404, 0),
        ("/data/x/nothing", "0", 404, 0),
        ("/data/x/nothing/", "1", 404, 0),
        ("/data/x/nothing/", "infinity", 404, 0),
        ("/data/x/.git/", "1", 404, 0),
        ("/data/x/.git/config", "0", 404, 0),
        ("/data/x/g/._secret", "0", 404, 0),
        ("/data/nothing/", "0", 404, 0),
        ("/", "0", 207, 1),
        ("/", "1", 207, 2),
        ("/data/", "1", 207, 2),
        ("/data", "1", 207, 2),
        ("/", "infinity", 403, 0),
    ] {
        let response = app.answer(&propfind(target, depth, "")).await;
        assert_eq!(response.status(), status, "{target} {depth}");
        let body = text(response).await;
        assert_eq!(body.matches("<D:response>").count(), count, "{target} {depth} {body}");
        if status == 403 {
            assert_eq!(values(&body, "D:propfind-finite-depth").len(), 1);
        }
    }
    let all = text(app.answer(&propfind("/data/x/", "infinity", "")).await).await;
    let hrefs = values(&all, "D:href");
    let at = |href: &str| hrefs.iter().position(|one| one == href).unwrap();
    assert!(at("/data/x/g/") < at("/data/x/g/c/") && at("/data/x/g/c/0/") < at("/data/x/g/c/0/0"));
}

#[tokio::test]
async fn a_bare_source_is_at_the_root() {
    let (_folder, app) = app(true);
    let xml = text(app.answer(&propfind("/", "1", "")).await).await;
    assert_eq!(values(&xml, "D:href"), ["/", "/g/", "/zarr.json"]);
}

#[tokio::test]
async fn properties_are_found_by_name() {
    let (_folder, app) = app(false);
    let ask = |names: &str| {
        format!("<propfind xmlns='DAV:' xmlns:o='http://owncloud.org/ns'><prop>{names}</prop></propfind>")
    };
    let of = async |target: &str, body: &str| text(app.answer(&propfind(target, "0", body)).await).await;
    let known = of("/data/x/zarr.json", &ask("<getcontentlength/><supportedlock/>")).await;
    assert_eq!(values(&known, "D:status"), ["HTTP/1.1 200 OK"]);
    assert_eq!(values(&known, "D:getcontentlength"), ["40"]);
    let mixed =
        of("/data/x/", &ask("<resourcetype/><getcontentlength/><o:checksums/><quota-used-bytes/>")).await;
    assert_eq!(values(&mixed, "D:status"), ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found"]);
    assert_eq!(values(&mixed, "P:checksums").len(), 1);
    let none = of("/data/x/", &ask("<a xmlns='u:v'/>")).await;
    assert_eq!(values(&none, "D:status"), ["HTTP/1.1 404 Not Found"]);
    let names = of("/data/x/zarr.json", "<propfind xmlns='DAV:'><propname/></propfind>").await;
    assert_eq!((values(&names, "D:getetag"), values(&names, "D:propstat").len()), (vec![String::new()], 1));
    let bad = app.answer(&propfind("/data/x/", "0", "<foo>")).await;
    assert_eq!(bad.status(), 400);
}

#[tokio::test]
async fn what_is_not_at_hand_is_not_promised() {
    let store = MemoryStore::new();
    for at in 0..50 {
        store.put(&format!("a/b{at}/c"), "x").unwrap();
    }
    let source = Source::of_store(std::sync::Arc::new(store));
    let mut walk = Walk::of(&source, "");
    walk.all = true;
    let time = Duration::from_secs(60);
    // 50 objects in 51 folders.
    assert!(walk.is_at_hand(101, time).await.unwrap());
    assert!(!walk.is_at_hand(100, time).await.unwrap());
    // Where each object would have to be asked for, nothing is at hand.
    let mut unsized_store = std::sync::Arc::into_inner(crate::listing::tests::Listed::new(3, None)).unwrap();
    unsized_store.sizes = false;
    let source = Source::of_store(std::sync::Arc::new(unsized_store));
    let walk = Walk { all: true, ..Walk::of(&source, "") };
    assert!(!walk.is_at_hand(100, time).await.unwrap());
}
