//! A small archive in a folder, for tests.

use std::path::Path;

use http_body_util::BodyExt as _;
use hyper::{Method, StatusCode};
use md5::{Digest as _, Md5};
use zaro::manifest::{Builder, Digest, EntryRef, Fields, ManifestOptions, Time};
use zaro::meta::Json;

use crate::answer::Response;
use crate::app::App;
use crate::config::Config;
use crate::request::Request;

/// A Zarr with two versions.
pub(crate) const TWO: &str = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d";
/// A Zarr with one.
pub(crate) const ONE: &str = "abcdef01-0000-4000-8000-000000000000";

/// A group with an array of five numbers in two chunks.
pub(crate) const FILES: [(&str, &str); 5] = [
    (".zgroup", r#"{"zarr_format": 2}"#),
    (".zattrs", r#"{"a": 1}"#),
    (
        "x/.zarray",
        r#"{"zarr_format": 2, "shape": [5], "chunks": [3], "dtype": "|u1", "compressor": null, "fill_value": 0, "order": "C", "filters": null}"#,
    ),
    ("x/0", "\u{1}\u{2}\u{3}"),
    ("x/1", "\u{4}\u{5}\u{6}"),
];

/// An archive on disk, and a server of it.
pub(crate) struct Made {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) app: App,
    /// The versions of [`TWO`].
    pub(crate) old: Digest,
    pub(crate) new: Digest,
    /// That of [`ONE`].
    pub(crate) only: Digest,
}

fn md5(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the manifest of these files, all modified on this day, below `root`.
pub(crate) fn manifest(root: &Path, id: &str, files: &[(&str, &str)], day: &str) -> Digest {
    let mut sorted = files.to_vec();
    sorted.sort_unstable();
    let mut builder = Builder::new(Fields::ALL);
    for (key, text) in sorted {
        let (etag, version) = (md5(text), md5(key));
        let modified = Some(Time::parse(&format!("{day}T12:00:00+00:00")).unwrap());
        let size = u64::try_from(text.len()).unwrap();
        let entry = EntryRef { etag: Some(&etag), version: Some(&version), size, modified };
        builder.push(key, &entry).unwrap();
    }
    let made = builder.finish().unwrap();
    let (checksum, statistics) = (made.checksum().unwrap(), made.statistics().unwrap());
    let folder = root.join(&id[..3]).join(&id[3..6]).join(id);
    std::fs::create_dir_all(&folder).unwrap();
    let text = made.to_vec(&statistics, &ManifestOptions::default()).unwrap();
    std::fs::write(folder.join(format!("{checksum}.json")), text).unwrap();
    checksum
}

/// Writes files below `root`.
pub(crate) fn objects(root: &Path, files: &[(&str, &str)]) {
    for (key, text) in files {
        let path = root.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// An archive with its objects beside it.
pub(crate) fn made() -> Made {
    made_with(|_| {})
}

/// The same, with the server's settings changed.
pub(crate) fn made_with(set: impl FnOnce(&mut Config)) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (tree, data) = (root.join("zarr-manifest"), root.join("zarr"));
    let mut before = FILES.to_vec();
    before[1].1 = r#"{"a": 0}"#;
    before.push(("gone", "gone"));
    before.retain(|(key, _)| *key != "x/1");
    let old = manifest(&tree, TWO, &before, "2024-01-01");
    let new = manifest(&tree, TWO, &FILES, "2024-06-01");
    let only = manifest(&tree, ONE, &FILES[..2], "2023-01-01");
    objects(&data.join(TWO), &FILES);
    objects(&data.join(ONE), &FILES[..2]);
    let mut config = Config { sources: vec![format!("arch={}", root.display())], ..Config::default() };
    set(&mut config);
    Made { app: App::new(config).unwrap(), folder, old, new, only }
}

impl Made {
    /// The path of a version.
    pub(crate) fn version(&self, checksum: &Digest) -> String {
        format!("/zarrs/128/4a1/{TWO}/{checksum}.zarr")
    }

    pub(crate) async fn get(&self, target: &str) -> Response {
        self.ask(Method::GET, target, &[]).await
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        target: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Response {
        let mut request = Request::new(method, target);
        request.headers.insert("host", "127.0.0.1:8000".parse().unwrap());
        for (name, value) in headers {
            request.headers.insert(*name, value.parse().unwrap());
        }
        self.app.answer(&request).await
    }

    /// The status and the document at an address.
    pub(crate) async fn json(&self, target: &str) -> (StatusCode, Json) {
        let response = self.get(target).await;
        let status = response.status();
        let kind = response.headers().get("content-type").cloned();
        let text = bytes(response).await;
        assert_eq!(kind.unwrap(), "application/json", "{target}: {}", String::from_utf8_lossy(&text));
        (status, Json::parse(&text).unwrap().value)
    }
}

/// The body of an answer.
pub(crate) async fn bytes(response: Response) -> bytes::Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

/// A header of an answer.
pub(crate) fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}
