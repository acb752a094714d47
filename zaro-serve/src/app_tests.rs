//! The server's promises, route by route, without a socket.

use std::path::Path;

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::*;

const GROUP: &str = r#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#;
const ARRAY: &str = r#"{"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 7, "codecs": [{"name": "bytes"}], "attributes": {}}"#;
const TOKEN: &str = "0123456789abcdef-token";

/// Two Zarrs, of which one is hidden, each with an array, a chunk and a page that wants to run.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["open.zarr", "hidden.zarr"] {
        let zarr = folder.path().join(name);
        let put = |key: &str, text: &str| {
            let path = zarr.join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("zarr.json", GROUP);
        put("a/zarr.json", ARRAY);
        put("a/c/0", "\x01\x02");
        put("evil.html", "<script>alert(1)</script>");
    }
    std::fs::write(folder.path().join("tokens"), format!("{TOKEN} hidden.zarr\n")).unwrap();
    folder
}

fn app(folder: &Path, change: impl FnOnce(&mut Config)) -> App {
    let mut config = Config {
        sources: vec![folder.to_str().unwrap().to_owned()],
        hidden: vec!["hidden.zarr".to_owned()],
        tokens: Some(folder.join("tokens")),
        cors: vec!["*".to_owned()],
        ..Config::default()
    };
    change(&mut config);
    App::new(config).unwrap()
}

async fn ask(app: &App, method: &str, target: &str, headers: &[(&str, &str)]) -> (Response, String) {
    let mut request = Request::new(Method::from_bytes(method.as_bytes()).unwrap(), target);
    request.headers.insert("host", HeaderValue::from_static("127.0.0.1:8000"));
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        request.headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let (parts, body) = app.answer(&request).await.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    (
        Response::from_parts(parts, empty(StatusCode::OK).into_body()),
        String::from_utf8_lossy(&bytes).into_owned(),
    )
}

async fn status(app: &App, target: &str, headers: &[(&str, &str)]) -> u16 {
    ask(app, "GET", target, headers).await.0.status().as_u16()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn keys_are_bytes_with_tags_and_ranges_and_never_active() {
    let folder = folder();
    let app = app(folder.path(), |_| {});
    let (response, body) = ask(&app, "GET", "/data/open.zarr/a/zarr.json", &[]).await;
    assert_eq!((response.status().as_u16(), body.as_str()), (200, ARRAY));
    assert_eq!(header(&response, "content-type"), "application/json");
    assert_eq!(
        (header(&response, "accept-ranges"), header(&response, "cache-control")),
        ("bytes", "no-cache")
    );
    let tag = header(&response, "etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'));
    let (same, body) = ask(&app, "GET", "/data/open.zarr/a/zarr.json", &[("if-none-match", &tag)]).await;
    assert_eq!((same.status().as_u16(), body.as_str(), header(&same, "etag")), (304, "", tag.as_str()));
    let (part, body) = ask(&app, "GET", "/data/open.zarr/a/c/0", &[("range", "bytes=-1")]).await;
    assert_eq!((part.status().as_u16(), body.as_str()), (206, "\x02"));
    assert_eq!(header(&part, "content-range"), "bytes 1-1/2");
    let (beyond, _) = ask(&app, "GET", "/data/open.zarr/a/c/0", &[("range", "bytes=9-")]).await;
    assert_eq!((beyond.status().as_u16(), header(&beyond, "content-range")), (416, "bytes */2"));
    let (head, body) = ask(&app, "HEAD", "/data/open.zarr/a/c/0", &[]).await;
    assert_eq!((head.status().as_u16(), header(&head, "content-length"), body.as_str()), (200, "2", ""));
    let (parts, body) = ask(&app, "GET", "/data/open.zarr/evil.html", &[("range", "bytes=0-0,2-3")]).await;
    assert!(
        parts.status().as_u16() == 206 && header(&parts, "content-type").starts_with("multipart/byteranges")
    );
    assert!(
        body.contains("bytes 0-0/25\r\n\r\n<\r\n")
            && header(&parts, "content-length") == body.len().to_string()
    );
    let (evil, _) = ask(&app, "GET", "/data/open.zarr/evil.html", &[]).await;
    assert_eq!(header(&evil, "content-type"), "application/octet-stream");
    assert_eq!(
        (header(&evil, "x-content-type-options"), header(&evil, "content-security-policy")),
        ("nosniff", "sandbox")
    );
}

#[tokio::test]
async fn every_answer_can_be_read_by_pages_whatever_its_status() {
    let folder = folder();
    let app = app(folder.path(), |_| {});
    for (method, target, headers, wanted) in [
        ("GET", "/data/open.zarr/zarr.json", vec![], 200),
        ("GET", "/data/open.zarr/a/c/1", vec![], 404),
        ("GET", "/data/none/zarr.json", vec![], 404),
        ("GET", "/nothing", vec![], 404),
        ("GET", "/data/open.zarr/a", vec![], 301),
        ("GET", "/data/open.zarr/a/c/0", vec![("range", "bytes=9-")], 416),
        ("GET", "/data/open.zarr/a/c/0", vec![("if-match", "\"x\"")], 412),
        ("GET", "/data/open.zarr//a", vec![], 400),
        ("GET", "/data/open.zarr/zarr.json", vec![("authorization", "Bearer wrong")], 401),
        ("PUT", "/data/open.zarr/zarr.json", vec![], 405),
        ("GET", "/data/open.zarr/zarr.json", vec![("host", "evil.example")], 421),
        ("OPTIONS", "/data/open.zarr/zarr.json", vec![("access-control-request-method", "GET")], 204),
    ] {
        let (response, _) = ask(&app, method, target, &headers).await;
        assert_eq!(response.status().as_u16(), wanted, "{method} {target} {headers:?}");
        assert_eq!(header(&response, "access-control-allow-origin"), "*", "{method} {target}");
        assert!(header(&response, "access-control-expose-headers").contains("Content-Range"));
    }
    let (preflight, _) =
        ask(&app, "OPTIONS", "/data/x", &[("access-control-request-method", "GET"), ("origin", "https://a")])
            .await;
    assert!(header(&preflight, "access-control-allow-headers").contains("Range"));
    assert_eq!((header(&preflight, "dav"), header(&preflight, "allow")), ("1, 3", METHODS));
}

#[tokio::test]
async fn what_is_hidden_does_not_exist_without_a_token() {
    let folder = folder();
    let app = app(folder.path(), |_| {});
    let right = format!("Bearer {TOKEN}");
    for route in
        ["/data/hidden.zarr/zarr.json", "/as/consolidated/hidden.zarr/zarr.json", "/data/hidden.zarr/a/c/0"]
    {
        let (hidden, hidden_body) = ask(&app, "GET", route, &[]).await;
        let (absent, absent_body) = ask(&app, "GET", &route.replace("hidden", "absent"), &[]).await;
        assert_eq!(hidden.status().as_u16(), 404, "{route}");
        // Nothing tells the one from the other.
        assert_eq!(
            (hidden.status(), hidden.headers(), hidden_body),
            (absent.status(), absent.headers(), absent_body)
        );
        assert_eq!(status(&app, route, &[("authorization", "Bearer 0123456789abcdef-wrong")]).await, 401);
        let (seen, _) = ask(&app, "GET", route, &[("authorization", &right)]).await;
        assert_eq!(seen.status().as_u16(), 200, "{route}");
        assert!(
            header(&seen, "cache-control").contains("private")
                && header(&seen, "vary").contains("Authorization")
        );
    }
    let request = |token: Option<&str>| {
        let mut request = Request::new(Method::GET, "/");
        if let Some(token) = token {
            request.headers.insert(AUTHORIZATION, HeaderValue::from_str(token).unwrap());
        }
        request
    };
    assert_eq!(app.names(&request(None)).await.unwrap(), ["open.zarr"]);
    assert_eq!(app.names(&request(Some(&right))).await.unwrap(), ["hidden.zarr", "open.zarr"]);
    assert!(app.names(&request(Some("Bearer wrong"))).await.is_err());
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    let folder = folder();
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    let app = app(folder.path(), |_| {});
    for target in [
        "/data/open.zarr/../secret.txt",
        "/data/open.zarr/..%2fsecret.txt",
        "/data/open.zarr/%2e%2e/secret.txt",
        "/data/open.zarr/..%5csecret.txt",
        "/data/..",
        "/data/%2e%2e/secret.txt",
        "/data/.%2e/x",
        "/data/open.zarr/a%00",
        "//data/open.zarr/zarr.json",
        "/data/secret.txt",
        "/data/tokens",
        "/data/open.zarr%2F..%2Fsecret.txt",
        // Empty segments, dots, and what decodes to them, once or twice.
        "/data//open.zarr/zarr.json",
        "/data/open.zarr//secret.txt",
        "/data/open.zarr/./zarr.json",
        "/data/open.zarr/%2e/zarr.json",
        "/data/open.zarr/a/%2E%2e/zarr.json",
        "/data/open.zarr/%252e%252e/secret.txt",
        "/data/open.zarr/..%252fsecret.txt",
        "/data/open.zarr/....//secret.txt",
        "/data/open.zarr/..;/secret.txt",
        "/data/open.zarr/../../../../../../etc/passwd",
        "/data/open.zarr/%2fetc%2fpasswd",
        "/data/open.zarr/%2Fsecret.txt",
        // Backslashes, controls, NUL.
        "/data/open.zarr/..\\secret.txt",
        "/data/open.zarr/a%5c..%5c..%5csecret.txt",
        "/data/open.zarr/zarr.json%00",
        "/data/open.zarr/zarr.json%00.txt",
        "/data/open.zarr/zarr.json%0d%0aX:%20y",
        "/data/open.zarr/a%7f",
        "/data/open.zarr/%c2%85",
        // What is not UTF-8: overlong forms of dots and slashes, halves of pairs, cut off.
        "/data/open.zarr/%c0%ae%c0%ae/secret.txt",
        "/data/open.zarr/..%c0%afsecret.txt",
        "/data/open.zarr/%e0%80%ae%e0%80%ae/secret.txt",
        "/data/open.zarr/%f0%80%80%ae/secret.txt",
        "/data/open.zarr/%ed%a0%80",
        "/data/open.zarr/%ff",
        "/data/open.zarr/%c3",
        // Not percent-encoding at all.
        "/data/open.zarr/%",
        "/data/open.zarr/%2",
        "/data/open.zarr/%zz",
        "/data/open.zarr/%u002e%u002e/secret.txt",
        // Lookalikes stay names.
        "/data/open.zarr/\u{ff0e}\u{ff0e}/secret.txt",
        "/data/open.zarr/%ef%bc%8e%ef%bc%8e/secret.txt",
        // Names of sources that are none.
        "/data/.",
        "/data/%2e",
        "/data/./tokens",
        "/data/.hidden",
        "/data/open.zarr@/zarr.json",
        "/data/@/zarr.json",
        "/data/open.zarr@../secret.txt",
        "/as/consolidated/../data/tokens",
        "/as/v3/%2e%2e/tokens",
        "/zarrs/../tokens",
        "/tile/../tokens",
        "\\data\\open.zarr",
        "data/open.zarr/zarr.json",
        "http://other/data/open.zarr/../tokens",
        "",
        "/as/nothing/open.zarr/zarr.json",
    ] {
        let (response, body) = ask(&app, "GET", target, &[]).await;
        assert!(matches!(response.status().as_u16(), 400 | 404), "{target}: {}", response.status());
        assert!(!body.contains("secret\n") && !body.contains(TOKEN), "{target}");
    }
}

#[tokio::test]
async fn a_file_that_changes_is_seen_by_the_next_request() {
    let folder = folder();
    let app = app(folder.path(), |_| {});
    let path = folder.path().join("open.zarr/a/c/0");
    // As old as files that are kept in memory.
    let write = |text: &str, seconds: u64| {
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    };
    let get = async || {
        let (response, body) = ask(&app, "GET", "/data/open.zarr/a/c/0", &[]).await;
        (response.status().as_u16(), body, header(&response, "etag").to_owned())
    };
    write("ab", 1_000_000);
    let first = get().await;
    assert_eq!((first.0, first.1.as_str()), (200, "ab"));
    let source = app.sources.at_hand("open.zarr").unwrap();
    let meta = source.store().stat("a/c/0").await.unwrap().unwrap();
    assert!(source.files.as_ref().unwrap().get(&meta).is_some(), "it is kept");
    assert_eq!(get().await, first);
    let (part, body) = ask(&app, "GET", "/data/open.zarr/a/c/0", &[("range", "bytes=1-")]).await;
    assert_eq!((part.status().as_u16(), body.as_str()), (206, "b"));
    // Changed in place, replaced, deleted, made a folder.
    write("cd", 1_000_001);
    let second = get().await;
    assert_eq!((second.0, second.1.as_str()), (200, "cd"));
    assert_ne!(first.2, second.2);
    let other = folder.path().join("other");
    std::fs::write(&other, "ef").unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(get().await.1, "ef");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(get().await.0, 404);
    std::fs::create_dir(&path).unwrap();
    assert_eq!(get().await.0, 301);
    assert_eq!(status(&app, "/data/open.zarr/a/c/0/x", &[]).await, 404);
}

#[tokio::test]
async fn only_files_of_open_folders_are_answered_where_clients_are_talked_to() {
    let folder = folder();
    let app = app(folder.path(), |_| {});
    let at_hand = |target: &str| app.is_at_hand(&Request::new(Method::GET, target));
    // Nothing is open yet.
    assert!(!at_hand("/data/open.zarr/zarr.json"));
    assert_eq!(status(&app, "/data/open.zarr/zarr.json", &[]).await, 200);
    assert!(at_hand("/data/open.zarr/zarr.json") && at_hand("/data/open.zarr/a/c/9"));
    for other in
        ["/data/open.zarr/", "/data/none/x", "/as/v3/open.zarr/zarr.json", "/", "/data", "/tile/open.zarr/x"]
    {
        assert!(!at_hand(other), "{other}");
    }
    assert!(!app.is_at_hand(&Request::new(Method::OPTIONS, "/data/open.zarr/zarr.json")));
}

#[tokio::test]
async fn a_view_has_other_documents_and_the_same_chunks() {
    let folder = folder();
    let app = app(folder.path(), |_| {});
    let (response, body) = ask(&app, "GET", "/as/consolidated/open.zarr/zarr.json", &[]).await;
    assert_eq!(response.status().as_u16(), 200);
    assert!(body.contains("consolidated_metadata") && body.contains("uint8"), "{body}");
    let (_, chunk) = ask(&app, "GET", "/as/consolidated/open.zarr/a/c/0", &[]).await;
    assert_eq!(chunk, "\x01\x02");
    // Nothing was written.
    assert_eq!(std::fs::read_to_string(folder.path().join("open.zarr/zarr.json")).unwrap(), GROUP);
}

#[tokio::test]
async fn one_source_can_be_served_at_the_root() {
    let folder = folder();
    let zarr = folder.path().join("open.zarr");
    let app = app(&zarr, |config| {
        config.sources = vec![zarr.to_str().unwrap().to_owned()];
        config.tokens = None;
        config.hidden.clear();
        config.bare = true;
    });
    assert_eq!(status(&app, "/a/zarr.json", &[]).await, 200);
    assert_eq!(status(&app, "/data/open.zarr/zarr.json", &[]).await, 404);
}
