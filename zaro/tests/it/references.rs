//! Reference stores in JSON, as users meet them: samples by their real writers, targets of every kind, and what must
//! be an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zaro::open::{SourceOptions, open_with};
use zaro::reference::ReferenceOptions;
use zaro::store::{GetOptions, StoreExt as _, StoreOptions};
use zaro::testing::{TinyReply, TinyServer, ZipMaker};
use zaro::{Error, ErrorKind, Index, OpenOptions, ReadOptions, Result, Selection, Slab, Zarr};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/references")
}

fn sample(name: &str) -> String {
    samples().join(name).to_str().unwrap().to_owned()
}

fn options(set: impl FnOnce(&mut SourceOptions)) -> SourceOptions {
    let mut options = SourceOptions::default();
    options.store.retry.attempts = Some(1);
    set(&mut options);
    options
}

async fn open(uri: &str, options: &SourceOptions) -> Result<Zarr> {
    open_with(uri, options, &OpenOptions::default()).await
}

async fn read_with(uri: &str, path: &str, options: &SourceOptions) -> Result<Slab> {
    let array = open(uri, options).await?.array(path).await?;
    array.read_slab(&Selection::all(), &ReadOptions::default()).await
}

async fn read(uri: &str, path: &str) -> Result<Slab> {
    read_with(uri, path, &options(|_| ())).await
}

async fn u8s(uri: &str, path: &str, options: &SourceOptions) -> Result<Vec<u8>> {
    read_with(uri, path, options).await?.to_vec::<u8>()
}

/// A document with an array `v` of `n` bytes, a chunk each, and these references.
fn document(n: usize, refs: &str) -> String {
    let refs = if refs.is_empty() { String::new() } else { format!(", {refs}") };
    format!(
        r#"{{"version": 1, "refs": {{".zgroup": {{"zarr_format": 2}}, "v/.zarray": {{"zarr_format": 2, "shape": [{n}],
        "chunks": [1], "dtype": "|u1", "compressor": null, "filters": null, "order": "C", "fill_value": 7}}{refs}}}}}"#
    )
}

/// A folder with files in it.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    dir
}

fn at(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

fn web(objects: &[(&str, &[u8])]) -> TinyServer {
    TinyServer::serving(objects.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect(), Duration::ZERO)
}

/// Arrays of each sample: path, shape, and the CRC-32 of their values, which were checked against the files themselves.
type Sample = (&'static str, &'static [(&'static str, &'static [u64], u32)]);

const EXPECTED: &[Sample] = &[
    (
        "classic.kerchunk.v1.json",
        &[
            ("c", &[5, 4], 0x54aa00b8),
            ("sh", &[7], 0x3a71f7d4),
            ("time", &[7], 0x4c59ab0c),
            ("v", &[7, 5], 0x126d2b2e),
            ("x", &[5], 0x4c6b0437),
        ],
    ),
    (
        "combined.kerchunk.v1.json",
        &[
            ("area", &[9, 12], 0xd629b44a),
            ("count", &[9, 12], 0x80052858),
            ("crs", &[], 0xce766288),
            ("flags", &[9, 12], 0x57a724ed),
            ("lat", &[9], 0x3adb638b),
            ("lon", &[12], 0x547ff60d),
            ("sst", &[10, 9, 12], 0x2ada0d06),
            ("time", &[10], 0x466200d9),
            ("wind", &[10, 9, 12], 0x5b82931e),
        ],
    ),
    (
        "sst_0.kerchunk.v0.json",
        &[
            ("area", &[9, 12], 0xd629b44a),
            ("count", &[9, 12], 0x80052858),
            ("crs", &[], 0xce766288),
            ("flags", &[9, 12], 0x57a724ed),
            ("lat", &[9], 0x3adb638b),
            ("lon", &[12], 0x547ff60d),
            ("sst", &[4, 9, 12], 0xca2e48ac),
            ("time", &[4], 0xe1ee77a9),
            ("wind", &[4, 9, 12], 0x0c424c7b),
        ],
    ),
    (
        "sst_0.kerchunk.v1.json",
        &[
            ("area", &[9, 12], 0xd629b44a),
            ("count", &[9, 12], 0x80052858),
            ("crs", &[], 0xce766288),
            ("flags", &[9, 12], 0x57a724ed),
            ("lat", &[9], 0x3adb638b),
            ("lon", &[12], 0x547ff60d),
            ("sst", &[4, 9, 12], 0xca2e48ac),
            ("time", &[4], 0xe1ee77a9),
            ("wind", &[4, 9, 12], 0x0c424c7b),
        ],
    ),
    (
        "sst_0.kerchunk.v1.json.gz",
        &[
            ("area", &[9, 12], 0xd629b44a),
            ("count", &[9, 12], 0x80052858),
            ("crs", &[], 0xce766288),
            ("flags", &[9, 12], 0x57a724ed),
            ("lat", &[9], 0x3adb638b),
            ("lon", &[12], 0x547ff60d),
            ("sst", &[4, 9, 12], 0xca2e48ac),
            ("time", &[4], 0xe1ee77a9),
            ("wind", &[4, 9, 12], 0x0c424c7b),
        ],
    ),
    (
        "sst_0.virtualizarr.json",
        &[
            ("area", &[9, 12], 0xd629b44a),
            ("checked", &[9, 12], 0x634f8c19),
            ("count", &[9, 12], 0x80052858),
            ("crs", &[], 0xce766288),
            ("flags", &[9, 12], 0x57a724ed),
            ("lat", &[9], 0x3adb638b),
            ("lon", &[12], 0x547ff60d),
            ("sst", &[4, 9, 12], 0xca2e48ac),
            ("time", &[4], 0xe1ee77a9),
            ("wind", &[4, 9, 12], 0x0c424c7b),
        ],
    ),
    ("templates_simple.v1.json", &[("v", &[12, 4, 5], 0x44667f02)]),
];

#[tokio::test]
async fn samples_of_real_writers_read_as_their_files_do() {
    for (name, arrays) in EXPECTED {
        let zarr = zaro::open(&sample(name), &OpenOptions::default()).await.unwrap();
        let nodes = zarr.walk("").await.unwrap();
        for (path, shape, crc) in *arrays {
            let array = zarr.array(path).await.unwrap();
            assert_eq!(array.shape(), *shape, "{name} {path}");
            let slab = array.read_slab(&Selection::all(), &ReadOptions::default()).await.unwrap();
            assert_eq!(crc32fast::hash(&slab.bytes), *crc, "{name} {path}");
        }
        assert!(nodes.len() > arrays.len() / 2, "{name}: {} nodes", nodes.len());
        assert!(zarr.take_damaged().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn text_and_good_edges() {
    let zarr = zaro::open(&sample("sst_0.kerchunk.v1.json"), &OpenOptions::default()).await.unwrap();
    let station = zarr.array("station").await.unwrap();
    let slab = station.read_slab(&Selection::all(), &ReadOptions::default()).await.unwrap();
    assert_eq!(slab.shape, [9]);
    let uri = sample("edge_cases.v1.json");
    for (path, wanted) in [
        ("e", &[65, 66, 0, 72, 68, 7, 87, 0][..]),
        ("utf8", &[195, 169]),
        ("slash", b"abcd"),
        ("scalar0", &[83]),
        ("scalar_empty_key", &[83]),
        ("zero", &[]),
    ] {
        assert_eq!(u8s(&uri, path, &SourceOptions::default()).await.unwrap(), wanted, "{path}");
    }
}

#[tokio::test]
async fn a_reference_that_cannot_be_read_is_an_error_and_never_fill() {
    let dir = folder(&[("data.bin", b"0123456789"), ("folder/x", b"")]);
    for (bad, kind, said) in [
        ("null", ErrorKind::Invalid, "null"),
        ("[]", ErrorKind::Invalid, "empty list"),
        ("5", ErrorKind::Invalid, "number"),
        ("true", ErrorKind::Invalid, "boolean"),
        (r#"["data.bin", 2]"#, ErrorKind::Invalid, "[url, offset, length]"),
        (r#"["data.bin", 2, 1, 1]"#, ErrorKind::Invalid, "[url, offset, length]"),
        (r#"["data.bin", -2, 1]"#, ErrorKind::Invalid, "offset"),
        (r#"["data.bin", 2, -1]"#, ErrorKind::Invalid, "length"),
        (r#"["data.bin", "2", 1]"#, ErrorKind::Invalid, "offset"),
        (r#"["data.bin", 2.5, 1]"#, ErrorKind::Invalid, "offset"),
        (r#"["data.bin", 2, 0]"#, ErrorKind::Invalid, ""),
        (r#"["data.bin", 10, 1]"#, ErrorKind::Invalid, "data.bin, bytes 10+1"),
        (r#"["data.bin", 9, 2]"#, ErrorKind::Invalid, "10 bytes"),
        (r#"["data.bin", 3, 5]"#, ErrorKind::Invalid, ""),
        (r#"["data.bin"]"#, ErrorKind::Invalid, ""),
        (r#"["gone.bin", 0, 1]"#, ErrorKind::NotFound, "gone.bin, bytes 0+1"),
        (r#"["folder", 0, 1]"#, ErrorKind::Invalid, "folder"),
        (r#"["../../../../../../../../../no/such/file", 0, 1]"#, ErrorKind::NotFound, ""),
        (r#"["ftp://host/x", 0, 1]"#, ErrorKind::Unsupported, "ftp"),
        (r#"["tar://x::data.tar", 0, 1]"#, ErrorKind::Unsupported, "tar"),
        (r#"["zip://x::data.bin", 0, 1]"#, ErrorKind::Invalid, ""),
        (r#"["zip://x::gone.zip", 0, 1]"#, ErrorKind::NotFound, ""),
        (r#"["http://127.0.0.1:9/x", 0, 1]"#, ErrorKind::Io, "http://127.0.0.1:9/x, bytes 0+1"),
        (r#"[null, 0, 1]"#, ErrorKind::Usage, "option target"),
        (r#""base64:@@@""#, ErrorKind::Invalid, "base64"),
        (r#""too long""#, ErrorKind::Invalid, ""),
        (r#""""#, ErrorKind::Invalid, ""),
    ] {
        std::fs::write(at(&dir, "r.json"), document(3, &format!(r#""v/1": {bad}, "v/2": "x""#))).unwrap();
        let e: Error = read(&at(&dir, "r.json"), "v").await.expect_err(bad);
        assert_eq!(e.kind(), kind, "{bad}: {e}");
        assert_eq!(e.key(), Some("v/1"), "{bad}: {e}");
        assert!(e.to_string().contains(said), "{bad}: {e}");
        // What is beside it can be read.
        let array = open(&at(&dir, "r.json"), &options(|_| ())).await.unwrap().array("v").await.unwrap();
        for (i, wanted) in [(0, 7), (2, b'x')] {
            let one =
                array.read_slab(&Selection::new(vec![Index::At(i)]), &ReadOptions::default()).await.unwrap();
            assert_eq!(one.to_vec::<u8>().unwrap(), [wanted], "{bad}");
        }
    }
}

#[tokio::test]
async fn local_targets_by_every_form_of_address() {
    let dir =
        folder(&[("sub/r.json", b""), ("sub/a b.bin", b"0123"), ("up.bin", b"4567"), ("c%20d.bin", b"89")]);
    let full = |name: &str| at(&dir, name);
    let refs = format!(
        r#""v/0": ["a b.bin", 0, 1], "v/1": ["./a b.bin", 1, 1], "v/2": ["../up.bin", 0, 1], "v/3": ["{0}", 1, 1],
        "v/4": ["file://{0}", 2, 1], "v/5": ["file:{0}", 3, 1], "v/6": ["file://{1}", 2, 1], "v/7": ["file://{2}", 1, 1],
        "v/8": ["x/../../up.bin", 3, 1]"#,
        full("up.bin"),
        full("sub/a%20b.bin"),
        full("c%20d.bin"),
    );
    std::fs::write(full("sub/r.json"), document(9, &refs)).unwrap();
    assert_eq!(u8s(&full("sub/r.json"), "v", &options(|_| ())).await.unwrap(), b"014567297");
}

#[tokio::test]
async fn root_target_and_templates_are_the_callers_to_name() {
    let text = document(3, r#""v/0": ["x.bin", 0, 1], "v/1": [null, 1, 1], "v/2": ["{{t}}/x.bin", 2, 1]"#)
        .replacen("\"refs\"", "\"templates\": {\"t\": \"/nowhere\"}, \"refs\"", 1);
    let dir = folder(&[("r.json", text.as_bytes()), ("data/x.bin", b"0123"), ("other.bin", b"4567")]);
    let named = options(|o| {
        o.references = ReferenceOptions::default()
            .with_root(at(&dir, "data"))
            .with_target(at(&dir, "other.bin"))
            .with_template("t", at(&dir, "data"));
    });
    assert_eq!(u8s(&at(&dir, "r.json"), "v", &named).await.unwrap(), b"052");
    assert_eq!(read(&at(&dir, "r.json"), "v").await.unwrap_err().kind(), ErrorKind::NotFound);
    // The same from a server, whose references may go where the caller points, and no further.
    let server = web(&[("r.json", text.as_bytes())]);
    assert_eq!(
        u8s(&format!("{}/r.json", server.url()), "v", &named).await.unwrap_err().kind(),
        ErrorKind::NotPermitted
    );
    let escape = document(1, r#""v/0": ["../other.bin", 0, 1]"#);
    let server = web(&[("r.json", escape.as_bytes())]);
    let e = u8s(&format!("{}/r.json", server.url()), "v", &named).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage, "a template that it does not have: {e}");
    let named = options(|o| o.references = ReferenceOptions::default().with_root(at(&dir, "data")));
    let e = u8s(&format!("{}/r.json", server.url()), "v", &named).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotPermitted, "{e}");
}

#[tokio::test]
async fn a_document_from_elsewhere_never_reaches_local_files() {
    let dir = folder(&[("secret.bin", b"S")]);
    let path = at(&dir, "secret.bin");
    for url in [
        path.clone(),
        format!("file://{path}"),
        format!("file:{path}"),
        format!("zip://x::{path}"),
        format!("simplecache::file://{path}"),
    ] {
        let text = document(1, &format!(r#""v/0": ["{url}", 0, 1]"#));
        let server = web(&[("d/r.json", text.as_bytes())]);
        let uri = format!("{}/d/r.json", server.url());
        let e = read(&uri, "v").await.unwrap_err();
        assert_eq!((e.kind(), e.key()), (ErrorKind::NotPermitted, Some("v/0")), "{url}: {e}");
        if !url.starts_with("zip") {
            let allowed = options(|o| o.references.allow_local = true);
            assert_eq!(u8s(&uri, "v", &allowed).await.unwrap(), b"S", "{url}");
        }
    }
    // Paths that climb stay on the server.
    let text = document(1, &format!(r#""v/0": ["../../../../..{path}", 0, 1]"#));
    let server = web(&[("d/r.json", text.as_bytes())]);
    assert_eq!(
        read(&format!("{}/d/r.json", server.url()), "v").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn several_servers_each_with_its_own_options() {
    let strict = |wanted: &'static str, body: &'static [u8]| {
        TinyServer::start(move |request| match request.headers.get("x-key").map(String::as_str) {
            Some(key) if key == wanted => TinyReply::Object(body.to_vec()),
            _ => TinyReply::status(403),
        })
    };
    let (one, two) = (strict("a", b"0123"), strict("b", b"4567"));
    let refs = format!(
        r#""v/0": ["{0}/x/y.nc", 0, 1], "v/1": ["{1}/z?versionId=1%2F2", 1, 1], "v/2": ["{1}/a%2Bb%2Fc.nc", 2, 1]"#,
        one.url(),
        two.url()
    );
    let dir = folder(&[("r.json", document(3, &refs).as_bytes())]);
    let keys = options(|o| {
        o.store.add_override(&format!("{}:header=X-Key: a", one.url())).unwrap();
        o.store.add_override(&format!("{}:header=X-Key: b", two.url())).unwrap();
    });
    assert_eq!(u8s(&at(&dir, "r.json"), "v", &keys).await.unwrap(), b"056");
    let targets: Vec<String> = two.seen().into_iter().map(|r| r.target).collect();
    assert!(targets.contains(&"/z?versionId=1%2F2".to_owned()), "{targets:?}");
    assert!(targets.contains(&"/a%2Bb%2Fc.nc".to_owned()), "{targets:?}");
    let e = read(&at(&dir, "r.json"), "v").await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotPermitted, "{e}");
    assert!(e.to_string().contains(", bytes "), "{e}");
}

#[tokio::test]
async fn faults_of_servers_are_errors_with_key_address_and_range() {
    for (reply, kind) in [
        (TinyReply::status(404), ErrorKind::NotFound),
        (TinyReply::status(403), ErrorKind::NotPermitted),
        (TinyReply::status(500), ErrorKind::Io),
        (TinyReply::Drop, ErrorKind::Io),
        (TinyReply::Object(vec![1; 3]), ErrorKind::Invalid),
        (
            TinyReply::Short(206, vec![("content-range".into(), "bytes 2-3/9".into())], 2, vec![1]),
            ErrorKind::Io,
        ),
    ] {
        let shown = format!("{reply:?}");
        let server = TinyServer::start(move |_| reply.clone());
        let refs = format!(r#""v/0": ["{}/x.nc", 2, 2]"#, server.url());
        let dir = folder(&[("r.json", document(1, &refs).as_bytes())]);
        let e = read(&at(&dir, "r.json"), "v").await.unwrap_err();
        assert_eq!((e.kind(), e.key()), (kind, Some("v/0")), "{shown}: {e}");
        assert!(e.to_string().contains(&format!("{}/x.nc, bytes 2+2", server.url())), "{shown}: {e}");
    }
}

#[tokio::test]
async fn documents_anywhere_and_under_any_name() {
    let text = document(2, r#""v/0": ["data/x.bin", 1, 1], "v/1": ["../x.bin", 2, 1]"#);
    let server = web(&[
        ("d/refs.json", text.as_bytes()),
        ("d/refs", text.as_bytes()),
        ("d/data/x.bin", b"0123"),
        ("x.bin", b"4567"),
        ("a/b/refs.json", text.as_bytes()),
        ("a/b/data/x.bin", b"0123"),
        ("a/x.bin", b"4567"),
    ]);
    for uri in ["d/refs.json", "d/refs", "d/refs.json?sig=1", "a/b/refs.json?sig=1", "a/b/refs.json"] {
        let uri = format!("{}/{uri}", server.url());
        assert_eq!(u8s(&uri, "v", &options(|_| ())).await.unwrap(), b"16", "{uri}");
        for scheme in ["reference+json://", "reference://::", "kerchunk://", "virtualizarr://"] {
            let uri = format!("{scheme}{uri}");
            assert_eq!(u8s(&uri, "v", &options(|_| ())).await.unwrap(), b"16", "{uri}");
        }
    }
    // A node below the document.
    let dir = folder(&[
        ("refs.json", text.as_bytes()),
        ("data/x.bin", b"0123"),
        ("text.txt", b"no JSON"),
        ("o.json", b"{\"a\": 1}"),
    ]);
    let zarr = open(&at(&dir, "refs.json/v"), &options(|_| ())).await.unwrap();
    assert_eq!(zarr.array("").await.unwrap().shape(), [2]);
    assert!(read(&at(&dir, "text.txt"), "").await.is_err());
    assert!(read(&at(&dir, "o.json"), "").await.is_err());
    assert_eq!(read(&at(&dir, "none.json"), "v").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(zaro::open::open_references(&at(&dir, "refs.json"), &StoreOptions::default()).await.is_ok());
    let e = zaro::open::open_references(&at(&dir, "data"), &StoreOptions::default()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn documents_and_targets_inside_archives() {
    let text = document(2, r#""v/0": ["data/x.bin", 1, 1], "v/1": ["zip://in/y.bin::../two.zip", 2, 1]"#);
    let whole = document(1, r#""v/0": ["data/x.bin", 3, 1]"#);
    let one = ZipMaker::default().make(&[
        ("refs.json", whole.as_bytes()),
        ("data/x.bin", &b"0123"[..]),
        ("n/q", b""),
    ]);
    let two = ZipMaker::default().make(&[("in/y.bin", b"4567")]);
    let dir = folder(&[
        ("one.zip", &one),
        ("two.zip", &two),
        ("d/r.json", text.as_bytes()),
        ("d/data/x.bin", b"0123"),
    ]);
    assert_eq!(u8s(&at(&dir, "d/r.json"), "v", &options(|_| ())).await.unwrap(), b"16");
    assert_eq!(u8s(&at(&dir, "one.zip/refs.json"), "v", &options(|_| ())).await.unwrap(), b"3");
    let server = web(&[("one.zip", &one), ("two.zip", &two)]);
    let uri = format!("{}/one.zip/refs.json", server.url());
    assert_eq!(u8s(&uri, "v", &options(|_| ())).await.unwrap(), b"3");
    let uri = format!("zip://refs.json::{}/one.zip", server.url());
    assert_eq!(u8s(&uri, "v", &options(|_| ())).await.unwrap(), b"3");
}

#[tokio::test]
async fn plain_zarrs_cost_what_they_did() {
    let group = br#"{"zarr_format": 3, "node_type": "group"}"#;
    let server = web(&[("x/zarr.json", group)]);
    open(&format!("{}/x", server.url()), &options(|_| ())).await.unwrap().node("").await.unwrap();
    assert_eq!(server.requests(), 1);
    let consolidated = br#"{"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}"#;
    let server = web(&[("x/.zmetadata", consolidated)]);
    open(&format!("{}/x", server.url()), &options(|o| o.store.cache = false))
        .await
        .unwrap()
        .node("")
        .await
        .unwrap();
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_part_of_an_uncompressed_chunk_is_all_that_is_fetched() {
    let data: Vec<u8> = (0..1u32 << 20).flat_map(u32::to_le_bytes).collect();
    let text = |url: &str| {
        format!(
            r#"{{".zgroup": "{{\"zarr_format\": 2}}", "v/.zarray": {{"zarr_format": 2, "shape": [1024, 1024], "chunks": [1024, 1024],
            "dtype": "<u4", "compressor": null, "filters": null, "order": "C", "fill_value": null}},
            "v/0.0": ["{url}", 0, 4194304]}}"#
        )
    };
    let server = web(&[("big.bin", &data)]);
    let dir = folder(&[
        ("r.json", text(&format!("{}/big.bin", server.url())).as_bytes()),
        ("l.json", text("big.bin").as_bytes()),
        ("big.bin", &data),
    ]);
    let part = Selection::parse("500, 10:20").unwrap();
    for name in ["r.json", "l.json"] {
        let zarr = open(&at(&dir, name), &options(|_| ())).await.unwrap();
        let slab = zarr.array("v").await.unwrap().read_slab(&part, &ReadOptions::default()).await.unwrap();
        assert_eq!(slab.to_vec::<u32>().unwrap(), (512_010..512_020).collect::<Vec<_>>(), "{name}");
    }
    let fetched: u64 = server
        .seen()
        .iter()
        .filter_map(|r| r.headers.get("range")?.strip_prefix("bytes=")?.split_once('-'))
        .map(|(a, b)| b.parse::<u64>().unwrap() - a.parse::<u64>().unwrap() + 1)
        .sum();
    assert!(fetched > 0 && fetched <= 1 << 20, "{fetched} bytes of 4 MiB for ten elements");
}

#[tokio::test]
async fn listings_and_sizes_come_from_the_document() {
    let store =
        zaro::open::open_store(&sample("combined.kerchunk.v1.json"), &StoreOptions::default()).await.unwrap();
    let root = store.list("").await.unwrap();
    assert!(root.prefixes.contains(&"sst".to_owned()) && root.objects.contains(&".zgroup".to_owned()));
    assert_eq!(store.size("crs/0").await.unwrap(), Some(4));
    assert_eq!(store.size("crs/1").await.unwrap(), None);
    assert!(store.put("x", bytes::Bytes::new(), zaro::store::Condition::Always).await.is_err());
    let keys: Vec<_> = futures::TryStreamExt::try_collect::<Vec<_>>(store.keys("crs")).await.unwrap();
    assert_eq!(keys.len(), 3);
    let group = Zarr::from_store(store, OpenOptions::default()).await.unwrap();
    assert_eq!(group.children("").await.unwrap().len(), 10);
}

/// What a look at a key says holds when it is read, also where the key is a part of an object that a server tags; and
/// a change in between is found out, by the server (`If-Match`) or by what comes with the bytes.
#[tokio::test]
async fn the_state_of_a_key_is_that_of_its_target() {
    for tagged in [true, false] {
        let state = Arc::new(AtomicU64::new(1));
        let now = state.clone();
        let server = TinyServer::start(move |_| {
            let n = now.load(Ordering::SeqCst);
            let headers = match tagged {
                true => [("etag", format!("\"state-{n}\"")), ("last-modified", String::new())],
                false => {
                    [("etag", String::new()), ("last-modified", format!("Sun, 15 Nov 2026 10:00:0{n} GMT"))]
                }
            };
            let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
            TinyReply::ObjectWith(b"0123456789".to_vec(), headers)
        });
        let url = format!("{}/data", server.url());
        let refs = document(3, &format!(r#""0":["{url}",2,3],"1":["{url}"],"2":"inline""#));
        let dir = folder(&[("r.json", refs.as_bytes())]);
        let zarr = open(&at(&dir, "r.json"), &options(|_| ())).await.unwrap();
        let store = zarr.store();
        for (key, bytes) in [("0", "234"), ("1", "0123456789"), ("2", "inline")] {
            let meta = store.stat(key).await.unwrap().unwrap();
            assert_eq!(meta.size(), Some(bytes.len().try_into().unwrap()), "{key}");
            let ask = GetOptions::default().of_state(&meta);
            let got = store.get_opts(key, ask).await.unwrap().unwrap();
            assert_eq!(got.bytes, bytes, "{key}");
            let streamed = store.get_stream(key, ask).await.unwrap().unwrap();
            assert_eq!(streamed.collect().await.unwrap().bytes, bytes, "{key}");
            if key == "2" {
                continue;
            }
            assert_eq!(meta, got.meta, "{key}: a look and a read say the same");
            let sent = server.seen().last().unwrap().headers.get("if-match").cloned();
            assert_eq!(sent, tagged.then(|| "\"state-1\"".to_owned()), "{key}");
            state.store(2, Ordering::SeqCst);
            let e = store.get_opts(key, ask).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Conflict, "{key}: {e:?}");
            assert!(store.get_stream(key, ask).await.is_err(), "{key}");
            state.store(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn damage_names_the_place_of_the_bytes() {
    // A chunk of one byte, of which there are three: found out when it is decoded.
    let text = document(1, r#""v/0": ["data.bin", 1, 3]"#);
    let dir = folder(&[("refs.json", text.as_bytes()), ("data.bin", b"abcdef")]);
    let web = web(&[("refs.json", text.as_bytes()), ("data.bin", b"abcdef")]);
    for uri in [at(&dir, "refs.json"), format!("{}/refs.json", web.url().trim_end_matches('/'))] {
        let e = read(&uri, "v").await.unwrap_err();
        assert_eq!((e.kind(), e.key()), (ErrorKind::Invalid, Some("v/0")), "{e}");
        assert!(e.to_string().contains("data.bin, bytes 1+3"), "{e}");
    }
}
