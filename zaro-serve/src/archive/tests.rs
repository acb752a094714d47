//! `/zarrs/`, and versions as names, over a small archive in a folder.

use hyper::{Method, StatusCode};

use super::testing::{FILES, ONE, TWO, bytes, header, made, made_with, manifest, objects};
use super::time_of;
use crate::app::App;
use crate::config::Config;
use crate::request::Request;

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_its_bytes_with_its_own_tag_for_ever() {
    let made = made();
    for (key, text) in FILES {
        let path = format!("{}/{key}", made.version(&made.new));
        let response = made.get(&path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(header(&response, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&response, "etag").len(), 34);
        assert_eq!(header(&response, "last-modified"), "Sat, 01 Jun 2024 12:00:00 GMT");
        assert_eq!(bytes(response).await, text.as_bytes());
    }
    let path = format!("{}/x/0", made.version(&made.new));
    let part = made.ask(Method::GET, &path, &[("range", "bytes=1-1")]).await;
    assert_eq!((part.status(), header(&part, "content-range")), (StatusCode::PARTIAL_CONTENT, "bytes 1-1/3"));
    assert_eq!(bytes(part).await, "\u{2}".as_bytes());
    // The stored ETag is the MD5 of the bytes.
    let tag = "\"5289df737df57326fcdd22597afb1fac\"";
    let same = made.ask(Method::GET, &path, &[("if-none-match", tag)]).await;
    assert_eq!((same.status(), header(&same, "etag")), (StatusCode::NOT_MODIFIED, tag));
    let head = made.ask(Method::HEAD, &path, &[]).await;
    assert_eq!((head.status(), header(&head, "content-length")), (StatusCode::OK, "3"));
    assert!(bytes(head).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_version_has_not_is_absent_and_what_is_lost_is_no_404() {
    let made = made();
    let (old, new) = (made.version(&made.old), made.version(&made.new));
    for absent in [
        format!("{new}/gone"),
        format!("{new}/x/9"),
        format!("{new}/x/0/1"),
        format!("{old}/x/1"),
        format!("/zarrs/128/4a1/{ONE}/{}.zarr/.zgroup", made.only),
        format!("/zarrs/128/4a1/{TWO}/{}.zarr/.zgroup", made.only),
        format!("/zarrs/128/4a2/{TWO}/{}.zarr/.zgroup", made.new),
        format!("/zarrs/128/4a1/{TWO}/{}.json/x", made.new),
        format!("/zarrs/128/4a1/{TWO}/{}", made.new),
        format!("/zarrs/128/4a1/{TWO}/zarr.zarr/"),
        "/zarrs/999/".to_owned(),
        "/zarrs/128/999/".to_owned(),
        "/zarrs/.git/".to_owned(),
    ] {
        assert_eq!(made.get(&absent).await.status(), StatusCode::NOT_FOUND, "{absent}");
    }
    // The folder has the newer bytes only, and the object is listed: that is a failure, not an absent chunk.
    for lost in [format!("{old}/gone"), format!("{old}/.zattrs")] {
        let response = made.get(&lost).await;
        let status = response.status();
        let text = bytes(response).await;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(
            status == StatusCode::BAD_GATEWAY || status == StatusCode::SERVICE_UNAVAILABLE,
            "{lost} {status} {text}"
        );
        assert!(!text.contains(made.folder.path().to_str().unwrap()), "{text}");
    }
    assert_eq!(made.get(&format!("{old}/x/0")).await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_listed_at_every_level() {
    let made = made();
    let listed = |path: String| {
        let made = &made;
        async move {
            let (status, list) = made.json(&format!("{path}?format=json")).await;
            assert_eq!(status, StatusCode::OK, "{path}");
            let names = list.list("entries").iter().map(|row| row.text("name").unwrap().to_owned());
            names.collect::<Vec<_>>()
        }
    };
    assert_eq!(listed("/zarrs/".into()).await, ["128", "abc"]);
    assert_eq!(listed("/zarrs/128/".into()).await, ["4a1"]);
    assert_eq!(listed("/zarrs/128/4a1/".into()).await, [TWO]);
    let mut wanted = Vec::new();
    for checksum in [made.old, made.new] {
        wanted.extend([format!("{checksum}.json"), format!("{checksum}.zarr")]);
    }
    wanted.sort();
    assert_eq!(listed(format!("/zarrs/128/4a1/{TWO}/")).await, wanted);
    let version = made.version(&made.new);
    assert_eq!(listed(format!("{version}/")).await, [".zattrs", ".zgroup", "x"]);
    assert_eq!(listed(format!("{version}/x/")).await, [".zarray", "0", "1"]);
    // Without the slash it is elsewhere.
    for path in ["/zarrs/128".to_owned(), version.clone(), format!("{version}/x")] {
        let response = made.get(&path).await;
        assert_eq!(response.status(), StatusCode::MOVED_PERMANENTLY);
        assert_eq!(header(&response, "location"), format!("{path}/"));
    }
    let page = bytes(made.get(&format!("{version}/")).await).await;
    assert!(String::from_utf8_lossy(&page).contains("<a href=\"x/\">x/</a>"));
    // A listing can be continued after each of its entries.
    let tree =
        made.app.sources.archive().await.unwrap().unwrap().tree(crate::answer::Caching::Live, false, None);
    use futures::TryStreamExt as _;
    use zaro::store::{Entry, ListOptions};
    let folder = format!("128/4a1/{TWO}");
    let all: Vec<Entry> =
        tree.store().list_opts(&folder, &ListOptions::default()).try_collect().await.unwrap();
    for (at, entry) in all.iter().enumerate() {
        let options = ListOptions::default().with_after(Some(entry.cursor()));
        let rest: Vec<Entry> = tree.store().list_opts(&folder, &options).try_collect().await.unwrap();
        assert_eq!(rest, all[at + 1..], "{entry:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_have_a_slash_or_not_and_the_tree_any_case() {
    let made = made();
    let entry = format!("{}/x/0", made.version(&made.new));
    let propfind = Method::from_bytes(b"PROPFIND").unwrap();
    for path in [entry.clone(), format!("{entry}/")] {
        for depth in ["0", "1"] {
            let response = made.ask(propfind.clone(), &path, &[("depth", depth)]).await;
            assert_eq!(response.status(), StatusCode::MULTI_STATUS, "{path}");
            let text = bytes(response).await;
            assert!(String::from_utf8_lossy(&text).contains("getcontentlength"), "{path}");
        }
        let response = made.get(&path.replacen("/zarrs/", "/Zarrs/", 1)).await;
        assert_eq!((response.status(), bytes(response).await.len()), (StatusCode::OK, 3), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_itself_can_be_had() {
    let made = made();
    let path = format!("/zarrs/128/4a1/{TWO}/{}.json", made.new);
    let response = made.get(&path).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(header(&response, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header(&response, "content-type"), "application/json");
    let text = bytes(response).await;
    assert_eq!(zaro::manifest::parse(text.as_ref()).unwrap().checksum().unwrap(), made.new);
    let part = made.ask(Method::GET, &path, &[("range", "bytes=0-0")]).await;
    assert_eq!((part.status(), bytes(part).await.as_ref()), (StatusCode::PARTIAL_CONTENT, &b"{"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_sent_to_public_objects_and_pages_are_not() {
    let objects = "https://data.example/zarr".to_owned();
    let made = made_with(|config| {
        config.redirect = true;
        config.options.objects = Some(objects.clone());
    });
    let path = format!("{}/x/0", made.version(&made.new));
    for method in [Method::GET, Method::HEAD] {
        let response = made.ask(method, &path, &[]).await;
        assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
        let version = "41e7d8bd4e4b2f8b2f4b6e0e0a8a4a3f";
        let to = header(&response, "location");
        assert!(to.starts_with(&format!("{objects}/{TWO}/x/0?versionId=")), "{to}");
        assert_eq!(to.len() - to.rfind('=').unwrap() - 1, version.len());
        assert_eq!(header(&response, "content-length"), "0");
        assert_eq!(header(&response, "access-control-allow-origin"), "");
    }
    // Names are encoded, one segment at a time.
    let odd = [("a b/é#?%", "1")];
    let checksum = manifest(&made.folder.path().join("zarr-manifest"), ONE, &odd, "2024-01-01");
    let path = format!("/zarrs/abc/def/{ONE}/{checksum}.zarr/a%20b/%C3%A9%23%3F%25");
    let response = made.get(&path).await;
    let to = header(&response, "location");
    assert!(to.starts_with(&format!("{objects}/{ONE}/a%20b/%C3%A9%23%3F%25?versionId=")), "{to}");
    // Nor does a hidden archive exist for those without a token.
    let hidden = made_with(|config| {
        config.redirect = true;
        config.hidden = vec!["arch".to_owned()];
    });
    let response = hidden.get(&format!("{}/x/0", hidden.version(&hidden.new))).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    // A hidden Zarr leaves no trace in the tree and in the API.
    let hidden = made_with(|config| config.hidden = vec![TWO.to_owned()]);
    for target in [hidden.version(&hidden.new), format!("/zarrs/128/4a1/{TWO}/"), format!("/api/zarr/{TWO}/")]
    {
        assert_eq!(hidden.get(&target).await.status(), StatusCode::NOT_FOUND, "{target}");
    }
    for target in
        ["/zarrs/", "/zarrs/128/", "/zarrs/128/4a1/", "/api/zarr/", &format!("/data/{TWO}/zarr.json")]
    {
        let page = bytes(hidden.get(target).await).await;
        assert!(!String::from_utf8_lossy(&page).contains(TWO), "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_have_public_addresses_and_pages_get_the_bytes() {
    let mut options = zaro::store::StoreOptions::default();
    options.anonymous = true;
    let bucket = |options: &zaro::store::StoreOptions| zaro::open::open_bucket("s3://dandiarchive", options);
    let (open, _) = bucket(&options).unwrap();
    assert_eq!(
        open.public_url("zarr/i/a b", Some("x.Y")).unwrap(),
        "https://dandiarchive.s3.amazonaws.com/zarr/i/a%20b?versionId=x.Y"
    );
    options.endpoint = Some("http://127.0.0.1:9".to_owned());
    let (open, _) = bucket(&options).unwrap();
    assert_eq!(open.public_url("k", None).unwrap(), "http://127.0.0.1:9/dandiarchive/k");
    // A page is not sent away: it gets the bytes from here, local files in this case.
    let made = made_with(|config| config.redirect = true);
    let path = format!("{}/x/0", made.version(&made.new));
    let response = made.ask(Method::GET, &path, &[("sec-fetch-mode", "cors")]).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(header(&response, "vary").contains("Sec-Fetch-Mode"));
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_names() {
    let made = made();
    let attributes = |name: String| {
        let made = &made;
        async move {
            let response = made.get(&format!("/data/{name}/.zgroup")).await;
            let (status, caching) = (response.status(), header(&response, "cache-control").to_owned());
            let x = made.get(&format!("/data/{name}/x/1")).await.status();
            (status.as_u16(), caching, x.as_u16())
        }
    };
    let (forever, live) = ("public, max-age=31536000, immutable".to_owned(), "no-cache".to_owned());
    let (old, new) = (made.old, made.new);
    assert_eq!(attributes(TWO.to_owned()).await, (200, live.clone(), 200));
    assert_eq!(attributes(format!("{TWO}@{new}")).await, (200, forever.clone(), 200));
    assert_eq!(attributes(format!("{TWO}@{old}")).await, (200, forever.clone(), 404));
    assert_eq!(attributes(format!("{TWO}@2024-06-02")).await, (200, live.clone(), 200));
    assert_eq!(attributes(format!("{TWO}@2024-06-01T12:00:00Z")).await, (200, live.clone(), 200));
    assert_eq!(attributes(format!("{TWO}@2024-06-01T11:59:59")).await, (200, live.clone(), 404));
    assert_eq!(attributes(format!("{TWO}@2023-12-31")).await.0, 404);
    assert_eq!(attributes(format!("{TWO}@main")).await.0, 404);
    assert_eq!(attributes("00000000-0000-4000-8000-000000000000".to_owned()).await.0, 404);
    assert_eq!(attributes(ONE.to_owned()).await, (200, live, 404));
    // A new version is seen.
    let mut files = FILES.to_vec();
    files.retain(|(key, _)| *key != "x/1");
    let third = manifest(&made.folder.path().join("zarr-manifest"), TWO, &files, "2025-01-01");
    assert_eq!(attributes(format!("{TWO}@{third}")).await, (200, forever, 404));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_manifests_alone_is_an_archive_whose_bytes_are_elsewhere() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("manifests");
    let checksum = manifest(&folder, TWO, &FILES, "2024-01-01");
    std::fs::write(folder.join("README.md"), "not shown").unwrap();
    std::fs::write(folder.join("128/4a1").join(TWO).join(".json"), "{}").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    objects(&elsewhere.path().join(TWO), &FILES);
    let mut config = Config { sources: vec![folder.display().to_string()], ..Config::default() };
    let ask = |config: &Config, path: String| {
        let app = App::new(config.clone()).unwrap();
        let mut request = Request::new(Method::GET, &path);
        request.headers.insert("host", "localhost".parse().unwrap());
        async move { app.answer(&request).await }
    };
    let entry = format!("/zarrs/128/4a1/{TWO}/{checksum}.zarr/x/0");
    assert_eq!(ask(&config, entry.clone()).await.status(), StatusCode::NOT_IMPLEMENTED);
    let list = ask(&config, "/zarrs/?format=json".to_owned()).await;
    let list = String::from_utf8(bytes(list).await.to_vec()).unwrap();
    assert!(list.contains("{\"name\":\"128\",\"type\":\"folder\""), "{list}");
    config.options.objects = Some(elsewhere.path().display().to_string());
    let response = ask(&config, entry).await;
    assert_eq!((response.status(), bytes(response).await.len()), (StatusCode::OK, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_an_archive_has_neither_tree_nor_api() {
    let folder = tempfile::tempdir().unwrap();
    objects(&folder.path().join("a.zarr"), &FILES);
    let source = folder.path().join("a.zarr").display().to_string();
    let app = App::new(Config { sources: vec![source], ..Config::default() }).unwrap();
    for path in ["/zarrs/", "/api/zarr/", "/api/openapi.json"] {
        let mut request = Request::new(Method::GET, path);
        request.headers.insert("host", "localhost".parse().unwrap());
        assert_eq!(app.answer(&request).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn times_may_lack_their_zone_or_all_of_the_clock() {
    let seconds = |text: &str| time_of(text).map(|time| time.seconds);
    assert_eq!(seconds("2024-05-01"), Some(1_714_521_600));
    assert_eq!(seconds("2024-05-01T00:00:10"), Some(1_714_521_610));
    assert_eq!(seconds("2024-05-01T02:00:00+02:00"), Some(1_714_521_600));
    assert_eq!(seconds("2024-05-01 00:00:00Z"), Some(1_714_521_600));
    for bad in ["main", "2024-13-01", "2024-05", "20240501", "2024-05-01T", ""] {
        assert_eq!(seconds(bad), None, "{bad}");
    }
}
