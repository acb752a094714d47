//! Archives: whatever a writer may have made, and what nobody should have.

use std::process::Command;
use std::sync::Arc;

use zaro::internal::wrap::CoalesceStore;
use zaro::open::open_store;
use zaro::store::{ByteRange, MemoryStore, SharedStore, Store, StoreExt as _, StoreOptions, ZipStore};
use zaro::testing::{FaultStore, ZipMaker, ZipMethod, sample_objects, store_suite};
use zaro::{ErrorKind, OpenOptions};

fn memory(bytes: Vec<u8>) -> SharedStore {
    let store = MemoryStore::new();
    store.put("x.zip", bytes).unwrap();
    Arc::new(store)
}

/// The archive as a far store has it, and what counts the requests.
fn far(bytes: Vec<u8>) -> Arc<FaultStore> {
    Arc::new(FaultStore::new(memory(bytes)))
}

async fn open(store: SharedStore) -> zaro::Result<ZipStore> {
    Ok(ZipStore::open(store, "x.zip").await?.expect("it is there"))
}

fn makers() -> Vec<ZipMaker> {
    let mut out = Vec::new();
    for method in [ZipMethod::Stored, ZipMethod::Deflated] {
        let plain = || ZipMaker { method, ..ZipMaker::default() };
        out.extend([
            plain(),
            ZipMaker { zip64: true, ..plain() },
            ZipMaker { trailers: true, ..plain() },
            ZipMaker { padding: 500, ..plain() },
            ZipMaker { before: b"#!/bin/sh\n".to_vec(), comment: b"PK\x05\x06 odd".to_vec(), ..plain() },
            ZipMaker { before: vec![1; 70_000], comment: vec![b'c'; 65_535], zip64: true, ..plain() },
        ]);
    }
    out
}

#[tokio::test]
async fn archives_of_every_make_pass_the_suite_near_and_far() {
    let objects = sample_objects(true);
    let mut listed: Vec<(&str, &[u8])> = vec![("a/", b"")];
    listed.extend(objects.iter().map(|(k, v)| (k.as_str(), v.as_slice())));
    for maker in makers() {
        let bytes = maker.make(&listed);
        store_suite(&open(memory(bytes.clone())).await.unwrap(), &objects).await;
        store_suite(&open(far(bytes.clone())).await.unwrap(), &objects).await;
        store_suite(&open(Arc::new(CoalesceStore::new(far(bytes)))).await.unwrap(), &objects).await;
    }
}

#[tokio::test]
async fn a_directory_longer_than_the_tail_is_read_with_one_more_request() {
    let objects: Vec<_> = (0..5000).map(|i| (format!("some/longer/name/c/{i}"), format!("{i}"))).collect();
    let inner = far(ZipMaker::default().make(&objects));
    let store = open(inner.clone()).await.unwrap();
    assert_eq!(inner.calls(), 2, "the tail, which tells the size, and the directory");
    assert_eq!(store.list("some/longer/name/c").await.unwrap().objects.len(), 5000);
    assert_eq!(store.list("some").await.unwrap().prefixes, ["longer"]);
    assert_eq!(inner.calls(), 2);
    assert_eq!(store.get("some/longer/name/c/77", None).await.unwrap().unwrap(), "77");
    assert_eq!(inner.calls(), 3, "header and data in one");
}

#[tokio::test]
async fn a_range_of_a_stored_entry_reads_that_range() {
    let big: Vec<u8> = (0..3_000_000u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let objects = [("first", big.clone()), ("second", big.clone())];
    let inner = far(ZipMaker::default().make(&objects));
    let joined = Arc::new(CoalesceStore::with_limits(inner.clone(), 1000, 1 << 24));
    let store = open(joined).await.unwrap();
    let opened = inner.calls();
    let range = ByteRange::span(2_000_000, 100);
    assert_eq!(store.get("first", Some(range)).await.unwrap().unwrap(), big[2_000_000..2_000_100]);
    assert_eq!(inner.calls() - opened, 2, "its header and the range, at once");
    store.get("first", Some(ByteRange::Suffix(10))).await.unwrap();
    assert_eq!(inner.calls() - opened, 3);
    let near = [ByteRange::span(10, 10), ByteRange::span(50, 10)];
    store.get_ranges("first", &near, None).await.unwrap().unwrap();
    assert_eq!(inner.calls() - opened, 4, "near ranges join");
}

#[tokio::test]
async fn damaged_and_hostile_archives_are_errors() {
    let objects = sample_objects(true);
    let small: Vec<_> = objects.iter().filter(|(_, v)| v.len() < 100).take(4).cloned().collect();
    for maker in makers().into_iter().filter(|m| m.before.len() < 100) {
        let good = maker.make(&small);
        for cut in 0..good.len() {
            probe(good[..cut].to_vec(), &small).await;
        }
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                probe(bad, &small).await;
            }
        }
    }
}

/// Whatever comes of it, it is no panic, and no wrong content of a whole entry under a right name.
async fn probe(bytes: Vec<u8>, objects: &[(String, Vec<u8>)]) {
    let Ok(store) = open(memory(bytes)).await else { return };
    for (key, content) in objects {
        if let Ok(Some(got)) = store.get(key, None).await {
            assert!(got == *content || store.size(key).await.unwrap() != Some(content.len() as u64));
        }
        let _ = store.get(key, Some(ByteRange::span(1, 2))).await;
        let _ = store.get(key, Some(ByteRange::Suffix(3))).await;
        if let Ok(Some(object)) = store.direct().unwrap().open(key) {
            let _ = object.read_at(0, &mut [0; 4]);
        }
    }
    let _ = store.list("").await;
}

#[tokio::test]
async fn a_forged_size_takes_no_memory() {
    let mut maker = ZipMaker { method: ZipMethod::Deflated, zip64: true, ..ZipMaker::default() };
    let bytes = maker.make(&[("k", vec![0u8; 100])]);
    // The real size in the directory's ZIP64 field, after the name.
    let directory = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    for size in [u64::MAX, 1 << 40, 1 << 31] {
        let mut bad = bytes.clone();
        bad[directory + 46 + 1 + 4..][..8].copy_from_slice(&size.to_le_bytes());
        let store = open(memory(bad)).await.unwrap();
        assert_eq!(store.get("k", None).await.unwrap_err().kind(), ErrorKind::Invalid, "{size}");
    }
    maker.encrypted = true;
    let store = open(memory(maker.make(&[("k", b"secret")]))).await.unwrap();
    let error = store.get("k", None).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Unsupported, Some("k")));
}

#[tokio::test]
async fn the_last_of_several_entries_of_one_name_counts() {
    let store =
        open(memory(ZipMaker::default().make(&[("k", "old"), ("j", "x"), ("k", "new")]))).await.unwrap();
    assert_eq!(store.get("k", None).await.unwrap().unwrap(), "new");
    assert_eq!(store.list("").await.unwrap().objects, ["j", "k"]);
    let traps = ["../up", "/root", "a//b", "ok"].map(|k| (k, "v"));
    let store = open(memory(ZipMaker::default().make(&traps))).await.unwrap();
    assert_eq!(store.list("").await.unwrap().objects, ["ok"]);
}

#[tokio::test]
async fn a_damaged_name_is_not_a_missing_chunk() {
    let whole = ZipMaker::default().make(&[("zarr.json", "{}"), ("a/c/0", "0"), ("a/c/1", "1")]);
    let name = whole.windows(5).rposition(|w| w == b"a/c/1").unwrap();
    // Names that are no keys are found out at once, others when the work is done.
    let damages: [(&[u8], bool); 7] = [
        (b"\0/c/1", true),
        (b"a\\c/1", true),
        (b"a/c//", true),
        (b"\x80/c/1", true),
        (b"a/c/x", false),
        (b"b/c/1", false),
        (b"a/c/1", false),
    ];
    for (damage, at_once) in damages {
        let mut bytes = whole.clone();
        bytes[name..][..5].copy_from_slice(damage);
        for store in [memory(bytes.clone()), far(bytes)] {
            let opened = open(store).await;
            assert_eq!(opened.is_err(), at_once, "{damage:?}");
            let Ok(store) = opened else { continue };
            assert!(store.get("a/c/0", None).await.unwrap().is_some());
            let end = store.finish().await;
            assert_eq!(end.is_ok(), damage == b"a/c/1", "{damage:?} {end:?}");
            assert!(end.err().is_none_or(|e| e.kind() == ErrorKind::Invalid));
        }
    }
    // The name taken for a comment, which leaves an entry without one.
    let mut bytes = whole.clone();
    bytes[name - 46 + 28..][..6].copy_from_slice(&[0, 0, 0, 0, 5, 0]);
    assert_eq!(open(memory(bytes)).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn archives_open_by_path_with_the_folder_they_were_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let options = StoreOptions::default();
    let wrapped = ZipMaker::default().make(&[("x.zarr/zarr.json", "{}"), ("x.zarr/c/0", "0")]);
    std::fs::write(at("x.zarr.zip"), &wrapped).unwrap();
    std::fs::write(at("y.bin"), &wrapped).unwrap();
    std::fs::write(at("z.ozx"), ZipMaker::default().make(&[("node/zarr.json", "{}")])).unwrap();
    std::fs::write(at("text"), "hello").unwrap();
    for uri in [
        at("x.zarr.zip"),
        format!("file://{}/", at("x.zarr.zip")),
        format!("zip://{}", at("x.zarr.zip")),
        format!("zip+file://{}", at("y.bin")),
        at("y.bin"),
        at("x.zarr.zip/x.zarr"),
        format!("{}|zip:x.zarr|zarr3:", at("x.zarr.zip")),
        format!("{}/zarr.json", at("x.zarr.zip/x.zarr")),
    ] {
        let store = open_store(&uri, &options).await.unwrap();
        assert_eq!(store.get("zarr.json", None).await.unwrap().unwrap(), "{}", "{uri}");
        assert!(store.direct().is_some() && !store.is_remote(), "{uri}");
    }
    // A node of that name is not taken for the folder that was packed.
    let store = open_store(&at("z.ozx"), &options).await.unwrap();
    assert_eq!(store.list("").await.unwrap().prefixes, ["node"]);
    for (uri, kind) in [
        (at("text"), ErrorKind::Unsupported),
        (at("text/below"), ErrorKind::Unsupported),
        (format!("zip://{}", at("absent.zip")), ErrorKind::NotFound),
        (format!("zip://{}", at("text")), ErrorKind::Invalid),
    ] {
        let error = open_store(&uri, &options).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{uri}: {error}");
    }
}

#[tokio::test]
async fn what_lies_beside_the_folder_of_an_archive_does_not_hide_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.zip");
    let zarr = ("zs.zarr/zarr.json", "{}");
    for (beside, entered) in [
        (&[("__MACOSX/zs.zarr/._zarr.json", "x"), ("__MACOSX/._zs.zarr", "x")][..], true),
        (&[(".DS_Store", "x"), (".git/config", "x"), ("README.md", "x")], true),
        (&[("docs/index.html", "x")], true),
        // The root itself is a Zarr, or there is another.
        (&[("zarr.json", "{}")], false),
        (&[(".zgroup", "{}")], false),
        (&[("other.zarr/.zgroup", "{}")], false),
    ] {
        let objects = [&[zarr, ("zs.zarr/c/0", "0")], beside].concat();
        std::fs::write(&path, ZipMaker::default().make(&objects)).unwrap();
        let store = open_store(path.to_str().unwrap(), &StoreOptions::default()).await.unwrap();
        assert_eq!(store.get("c/0", None).await.unwrap().is_some(), entered, "{beside:?}");
    }
}

#[tokio::test]
async fn the_folder_of_an_archive_may_be_named_or_not() {
    let group = r#"{"zarr_format":3,"node_type":"group"}"#;
    let with_members = r#"{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline",
        "must_understand":false,"metadata":{"a":{"zarr_format":3,"node_type":"group"}}}}"#;
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, objects: &[(&str, &str)]| {
        let path = dir.path().join(name);
        std::fs::write(&path, ZipMaker::default().make(objects)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let options = OpenOptions::default();
    for root in [group, with_members] {
        let uri = write("archive.zip", &[("foo.zarr/zarr.json", root), ("foo.zarr/a/zarr.json", group)]);
        for (uri, path) in [
            (uri.clone(), ""),
            (uri.clone(), "foo.zarr"),
            (uri.clone(), "/foo.zarr/"),
            (format!("{uri}/foo.zarr"), ""),
        ] {
            let zarr = zaro::open(&uri, &options).await.unwrap();
            let children = zarr.children(path).await.unwrap();
            assert_eq!(children.iter().map(|n| n.path.as_str()).collect::<Vec<_>>(), ["a"], "{uri} {path}");
            assert_eq!(zarr.walk(path).await.unwrap().len(), 2, "{uri} {path}");
        }
        for (uri, path) in [
            (uri.clone(), "a"),
            (uri.clone(), "foo.zarr/a"),
            (format!("{uri}/foo.zarr"), "a"),
            (format!("{uri}/foo.zarr/a"), ""),
        ] {
            zaro::open(&uri, &options).await.unwrap().node(path).await.unwrap_or_else(|e| panic!("{e}"));
        }
        let zarr = zaro::open(&uri, &options).await.unwrap();
        assert_eq!(zarr.node("foo.zarrs/a").await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    // A node called like the folder it is in.
    let uri = write(
        "x.zip",
        &[
            ("x/zarr.json", group),
            ("x/x/zarr.json", group),
            ("x/x/y/zarr.json", group),
            ("x/z/zarr.json", group),
        ],
    );
    let zarr = zaro::open(&uri, &options).await.unwrap();
    assert_eq!(zarr.node("x").await.unwrap().path, "x");
    assert_eq!(zarr.node("x/y").await.unwrap().path, "x/y");
    assert_eq!(zarr.node("z").await.unwrap().path, "z");
    // Any other folder has to be named, and the error says so.
    let uri = write("data.zip", &[("foo/zarr.json", group), ("foo/a/zarr.json", group)]);
    let zarr = zaro::open(&uri, &options).await.unwrap();
    let error = zarr.node("").await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("foo/"), "{error}");
    assert_eq!(zarr.node("foo/a").await.unwrap().path, "foo/a");
    assert_eq!(zaro::open(&format!("{uri}/foo"), &options).await.unwrap().node("a").await.unwrap().path, "a");
}

#[tokio::test]
async fn archives_of_pythons_zipfile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.zip");
    let script = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("stored", b"s" * 1000, zipfile.ZIP_STORED)
    z.writestr("deflated", b"d" * 100000, zipfile.ZIP_DEFLATED)
    z.writestr("n\u00e4me/\u6f22", b"u")
    with z.open("forced64", "w", force_zip64=True) as f: f.write(b"6" * 64)
    z.writestr("lzma", b"l" * 100, zipfile.ZIP_LZMA)
"#;
    match Command::new("python3").args(["-c", script]).arg(&path).status() {
        Ok(status) if status.success() => {}
        _ => return println!("skipped: there is no python3 here"),
    }
    let store = open_store(path.to_str().unwrap(), &StoreOptions::default()).await.unwrap();
    assert_eq!(store.get("stored", None).await.unwrap().unwrap(), vec![b's'; 1000]);
    assert_eq!(store.get("deflated", None).await.unwrap().unwrap(), vec![b'd'; 100_000]);
    assert_eq!(store.get("näme/漢", None).await.unwrap().unwrap(), "u");
    assert_eq!(store.get("forced64", Some(ByteRange::span(60, 4))).await.unwrap().unwrap(), "6666");
    assert_eq!(store.get("lzma", None).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn an_entry_whose_header_has_another_name_is_refused() {
    for maker in makers() {
        let mut bytes = maker.make(&[("c/0", "12345678".repeat(8))]);
        // The last of the name is that of the directory.
        let at = bytes.windows(3).rposition(|w| w == b"c/0").unwrap();
        bytes[at + 2] = b'2';
        let stores: [SharedStore; 2] = [memory(bytes.clone()), far(bytes)];
        for store in stores {
            let zip = open(store).await.unwrap();
            for range in [None, Some(ByteRange::span(3, 2))] {
                let e = zip.get("c/2", range).await.unwrap_err();
                assert!(
                    e.kind() == ErrorKind::Invalid && e.to_string().contains("local header differ"),
                    "{e}"
                );
            }
        }
    }
}
