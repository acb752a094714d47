use hyper::{Method, StatusCode};
use zaro::meta::Json;

use super::{Route, openapi};
use crate::archive::testing::{FILES, ONE, TWO, bytes, header, made, manifest};

#[tokio::test(flavor = "multi_thread")]
async fn every_path_is_described_and_every_description_answers() {
    let made = made();
    let fill = |path: &str| {
        path.replace("{zarr_id}", TWO)
            .replace("{version_id}", &made.old.to_string())
            .replace("{other_version_id}", &made.new.to_string())
            .replace("{time}", "2024-07-01")
    };
    let document = openapi::document();
    let mut described = Vec::new();
    for (path, operations) in document.get("paths").unwrap().members().unwrap() {
        let filled = fill(path);
        let segments: Vec<&str> = filled.trim_matches('/').split('/').skip(1).collect();
        described.push(std::mem::discriminant(&Route::of(&segments).expect(path)));
        let responses = operations.get("get").unwrap().get("responses").unwrap();
        let status = made.get(&filled).await.status();
        assert!(responses.get(status.as_str()).is_some(), "{path} {status}");
        assert!(status == StatusCode::OK || status == StatusCode::FOUND, "{path} {status}");
        for parameter in operations.get("get").unwrap().list("parameters") {
            let name = parameter.text("$ref").unwrap().rsplit('/').next().unwrap();
            let known = document.get("components").unwrap().get("parameters").unwrap();
            assert!(known.get(name).is_some(), "{name}");
        }
    }
    let text = String::new;
    let all = [
        Route::OpenApi,
        Route::Zarrs,
        Route::Zarr(text()),
        Route::Files(text()),
        Route::Versions(text()),
        Route::Version(text(), text()),
        Route::VersionFiles(text(), text()),
        Route::Diff(text(), text(), text()),
        Route::At(text(), text()),
    ];
    for route in &all {
        // Whoever adds a route is reminded here to add it to the list above.
        match route {
            Route::OpenApi | Route::Zarrs | Route::Zarr(_) | Route::Files(_) | Route::Versions(_) => {}
            Route::Version(..) | Route::VersionFiles(..) | Route::Diff(..) | Route::At(..) => {}
        }
        assert!(described.contains(&std::mem::discriminant(route)), "{route:?}");
    }
    let (status, served) = made.json("/api/openapi.json").await;
    assert_eq!((status, served), (StatusCode::OK, document));
}

#[tokio::test(flavor = "multi_thread")]
async fn zarrs_come_in_pages() {
    let made = made();
    let (_, all) = made.json("/api/zarr/").await;
    assert_eq!(all.get("count").unwrap().as_u64(), Some(2));
    assert_eq!((all.get("next"), all.get("previous")), (Some(&Json::Null), Some(&Json::Null)));
    let wanted = format!(
        r#"{{"name":"{TWO}","zarr_id":"{TWO}","status":"Complete","checksum":"{}","file_count":5,"size":{}}}"#,
        made.new, made.new.size
    );
    assert_eq!(all.list("results")[0].compact(), wanted);
    let (_, first) = made.json("/api/zarr/?page_size=1").await;
    assert_eq!(first.text("next"), Some("http://127.0.0.1:8000/api/zarr/?page_size=1&page=2"));
    let (_, second) = made.json("/api/zarr/?page_size=1&page=2").await;
    assert_eq!(second.text("previous"), Some("http://127.0.0.1:8000/api/zarr/?page_size=1"));
    assert_eq!(second.get("next"), Some(&Json::Null));
    assert_eq!(second.list("results")[0].text("zarr_id"), Some(ONE));
    for page in ["3", "0", "-1", "x", ""] {
        let (status, error) = made.json(&format!("/api/zarr/?page_size=1&page={page}")).await;
        assert_eq!((status, error.text("detail")), (StatusCode::NOT_FOUND, Some("Invalid page.")), "{page}");
    }
    let (_, named) = made.json(&format!("/api/zarr/?name={ONE}")).await;
    assert_eq!(named.get("count").unwrap().as_u64(), Some(1));
    let (_, one) = made.json(&format!("/api/zarr/{ONE}/")).await;
    assert_eq!(one.text("checksum"), Some(made.only.to_string().as_str()));
    for absent in ["/api/zarr/nothing-here/", "/api/zarr/x/", "/api/x/", "/api/", "/api/zarr/x/y/z/"] {
        let (status, error) = made.json(absent).await;
        assert_eq!((status, error.compact().as_str()), (StatusCode::NOT_FOUND, r#"{"detail":"Not found."}"#));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_tell_what_their_names_and_manifests_say() {
    let made = made();
    let base = format!("http://127.0.0.1:8000/zarrs/128/4a1/{TWO}");
    let (_, all) = made.json(&format!("/api/zarr/{TWO}/versions/")).await;
    let [first, second] = all.list("results") else { panic!("two versions") };
    let new = made.new;
    let wanted = format!(
        r#"{{"version_id":"{new}","zarr_id":"{TWO}","checksum":"{new}","file_count":5,"size":{},"depth":1,"last_modified":"2024-06-01T12:00:00+00:00","manifest_url":"{base}/{new}.json","webdav_url":"{base}/{new}.zarr/","latest":true}}"#,
        new.size
    );
    assert_eq!(first.compact(), wanted);
    assert_eq!(second.text("version_id"), Some(made.old.to_string().as_str()));
    assert_eq!(second.get("latest"), Some(&Json::from(false)));
    let (_, one) = made.json(&format!("/api/zarr/{TWO}/versions/{new}/")).await;
    assert_eq!(one.get("statistics").unwrap().get("entries").unwrap().as_u64(), Some(5));
    assert_eq!(one.get("statistics").unwrap().text("zarrChecksum"), Some(new.to_string().as_str()));
    let (status, error) = made.json(&format!("/api/zarr/{TWO}/versions/main/")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error.as_str(), Some("The version is not a Zarr checksum."));
    let (status, _) = made.json(&format!("/api/zarr/{TWO}/versions/{}/", made.only)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // The one in force at a time.
    for (time, checksum) in
        [("2024-06-01", made.old), ("2024-06-02", new), ("2024-01-01T12:00:00Z", made.old)]
    {
        let response = made.get(&format!("/api/zarr/{TWO}/at/{time}/")).await;
        assert_eq!(response.status(), StatusCode::FOUND);
        let wanted = format!("http://127.0.0.1:8000/api/zarr/{TWO}/versions/{checksum}/");
        assert_eq!(header(&response, "location"), wanted);
    }
    assert_eq!(made.json(&format!("/api/zarr/{TWO}/at/2023-01-01/")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(made.json(&format!("/api/zarr/{TWO}/at/yesterday/")).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_with_a_cursor() {
    let made = made();
    let base = format!("/api/zarr/{TWO}/versions/{}/files/", made.new);
    let (_, all) = made.json(&base).await;
    let keys = |page: &Json| {
        page.list("results").iter().map(|f| f.text("Key").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut sorted: Vec<&str> = FILES.iter().map(|(key, _)| *key).collect();
    sorted.sort_unstable();
    assert_eq!(keys(&all), sorted);
    assert_eq!(all.get("next"), Some(&Json::Null));
    let file = &all.list("results")[3];
    assert_eq!(file.text("LastModified"), Some("2024-06-01 12:00:00+00:00"));
    assert_eq!(file.text("ETag"), Some("5289df737df57326fcdd22597afb1fac"));
    assert_eq!((file.get("Size").unwrap().as_u64(), file.text("VersionId").unwrap().len()), (Some(3), 32));
    // Page by page, through the links.
    let (mut next, mut found) = (Some(format!("{base}?limit=2")), Vec::new());
    while let Some(target) = next {
        let (status, page) = made.json(target.trim_start_matches("http://127.0.0.1:8000")).await;
        assert_eq!(status, StatusCode::OK);
        found.extend(keys(&page));
        next = page.text("next").map(str::to_owned);
    }
    assert_eq!(found, sorted);
    let (_, below) = made.json(&format!("{base}?prefix=x/")).await;
    assert_eq!(keys(&below), ["x/.zarray", "x/0", "x/1"]);
    let (_, below) = made.json(&format!("{base}?prefix=.z&after=.zattrs&limit=1")).await;
    assert_eq!((keys(&below), below.get("next")), (vec![".zgroup".to_owned()], Some(&Json::Null)));
    let (_, none) = made.json(&format!("{base}?limit=0")).await;
    assert_eq!((keys(&none).len(), none.get("next")), (0, Some(&Json::Null)));
    let (_, newest) = made.json(&format!("/api/zarr/{TWO}/files/")).await;
    assert_eq!(newest, all);
    for (query, body) in [
        ("prefix=", r#"{"prefix":["This field may not be blank."]}"#),
        ("limit=1001", r#"{"limit":["Ensure this value is less than or equal to 1000."]}"#),
        ("limit=-1", r#"{"limit":["Ensure this value is greater than or equal to 0."]}"#),
        ("limit=x", r#"{"limit":["A valid integer is required."]}"#),
        ("prefix=a/../b", r#"{"prefix":["Zarr path cannot contain \"..\" components."]}"#),
        ("download=perhaps", r#"{"download":["Must be a valid boolean."]}"#),
        ("download=true", r#"{"prefix":["This field is required."]}"#),
    ] {
        let (status, error) = made.json(&format!("{base}?{query}")).await;
        assert_eq!((status, error.compact().as_str()), (StatusCode::BAD_REQUEST, body), "{query}");
    }
    // The way to the bytes.
    for (method, query) in [(Method::GET, "prefix=x/0&download=true"), (Method::HEAD, "prefix=x/0")] {
        let response = made.ask(method, &format!("{base}?{query}"), &[]).await;
        assert_eq!(response.status(), StatusCode::FOUND);
        let to = format!("http://127.0.0.1:8000{}/x/0", made.version(&made.new));
        assert_eq!(header(&response, "location"), to);
    }
    let (status, _) = made.json(&format!("{base}?prefix=x/7&download=1")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_are_compared() {
    let made = made();
    let base = format!("/api/zarr/{TWO}/versions/{}/diff/{}/", made.old, made.new);
    let (_, all) = made.json(&base).await;
    assert_eq!(all.get("count").unwrap().as_u64(), Some(3));
    let sum = |name: &str| all.get(name).unwrap().compact();
    assert_eq!(sum("added"), r#"{"count":1,"size":3}"#);
    assert_eq!(sum("changed"), r#"{"count":1,"size":8}"#);
    assert_eq!(sum("removed"), r#"{"count":1,"size":4}"#);
    let rows: Vec<String> = all.list("results").iter().map(Json::compact).collect();
    assert_eq!(
        rows,
        [
            r#"{"Key":".zattrs","Change":"changed","Size":8,"SizeBefore":8}"#,
            r#"{"Key":"gone","Change":"removed","Size":null,"SizeBefore":4}"#,
            r#"{"Key":"x/1","Change":"added","Size":3,"SizeBefore":null}"#,
        ]
    );
    let (_, page) = made.json(&format!("{base}?page_size=2&page=2")).await;
    assert_eq!(page.list("results").len(), 1);
    let (_, same) = made.json(&format!("/api/zarr/{TWO}/versions/{0}/diff/{0}/", made.new)).await;
    assert_eq!(same.get("count").unwrap().as_u64(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_read_only_and_its_paths_end_in_a_slash() {
    let made = made();
    for method in ["POST", "DELETE", "PROPFIND", "PUT"] {
        let response = made.ask(method.parse().unwrap(), "/api/zarr/", &[]).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(header(&response, "allow"), "GET, HEAD, OPTIONS");
        let wanted = format!(r#"{{"detail":"Method \"{method}\" not allowed."}}"#);
        assert_eq!(bytes(response).await, wanted);
    }
    let response = made.get(&format!("/api/zarr/{TWO}/files?prefix=a%20b&limit=2")).await;
    assert_eq!(response.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(header(&response, "location"), format!("/api/zarr/{TWO}/files/?prefix=a%20b&limit=2"));
    // Documents have tags.
    let response = made.get("/api/zarr/").await;
    let tag: &'static str = header(&response, "etag").to_owned().leak();
    let again = made.ask(Method::GET, "/api/zarr/", &[("if-none-match", tag)]).await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_manifest_hides_no_other() {
    let made = made();
    let tree = made.folder.path().join("zarr-manifest");
    let checksum = manifest(&tree, TWO, &FILES[..1], "2024-02-01");
    let file = tree.join("128/4a1").join(TWO).join(format!("{checksum}.json"));
    std::fs::write(&file, "{\"entries\": ").unwrap();
    let (status, all) = made.json(&format!("/api/zarr/{TWO}/versions/")).await;
    assert_eq!((status, all.list("results").len()), (StatusCode::OK, 3));
    let (status, error) = made.json(&format!("/api/zarr/{TWO}/versions/{checksum}/files/")).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(!error.compact().contains(tree.to_str().unwrap()), "{}", error.compact());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_goes_on_after_any_key() {
    let made = made();
    let mut keys = ["a", "a-/x", "a.b/c", "b/0/1", "b/0/2", "b/0.x", "b.c", "b0", "b1/0/0", "c", "日/本"];
    keys.sort_unstable();
    let files = keys.map(|key| (key, "x"));
    let checksum = manifest(&made.folder.path().join("zarr-manifest"), ONE, &files, "2024-01-01");
    let base = format!("/api/zarr/{ONE}/versions/{checksum}/files/");
    let more = ["a-", "a-/", "a.b/d", "b/", "b/0", "b/0/", "b/0/15", "b/0/2/x", "b/1", "b1/0", "zz", "日/"];
    for after in keys.iter().chain(&more) {
        let (_, page) = made.json(&format!("{base}?after={}", crate::path::encode(after))).await;
        let found: Vec<&str> = page.list("results").iter().map(|f| f.text("Key").unwrap()).collect();
        let wanted: Vec<&str> = keys.iter().copied().filter(|key| key > after).collect();
        assert_eq!(found, wanted, "{after}");
    }
}
