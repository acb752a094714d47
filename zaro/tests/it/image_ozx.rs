//! `.ozx`: what is packed has the order, form and comment that RFC-9 asks for, and comes out as it went in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use zaro::image::ozx;
use zaro::image::validate::{FindingLevel, archive};
use zaro::store::{
    Condition, MemoryStore, Store, StoreExt as _, StoreOptions, ZipCreateStore, ZipForm, ZipStore,
};
use zaro::testing::TinyServer;
use zaro::{ErrorKind, OpenOptions, Zarr};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/images").join(name)
}

async fn open(path: &Path) -> Zarr {
    zaro::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap()
}

async fn zip(path: &Path) -> ZipStore {
    zaro::open::open_archive(path.to_str().unwrap(), &StoreOptions::default()).await.unwrap().unwrap()
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
async fn documents_come_first_and_all_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (sample("06-omezarrpy-0.5.zarr"), dir.path().join("a.ozx"));
    let packed = ozx::pack(&open(&source).await, "", &target, 1 << 20).await.unwrap();
    assert_eq!(packed.version, "0.5");
    assert_eq!(packed.unsharded.len(), 4);
    let archive = zip(&target).await;
    let entries = archive.entries();
    assert_eq!(packed.entries, u64::try_from(entries.len()).unwrap());
    let names: Vec<&str> = entries.iter().map(|e| e.name).collect();
    assert_eq!(
        names[..7],
        [
            "zarr.json",
            "labels/zarr.json",
            "s0/zarr.json",
            "s1/zarr.json",
            "labels/cells/zarr.json",
            "labels/cells/s0/zarr.json",
            "labels/cells/s1/zarr.json",
        ]
    );
    assert!(names[7..].is_sorted() && names[7..].iter().all(|n| !n.ends_with("zarr.json")));
    assert!(archive.is_zip64() && entries.iter().all(|e| e.stored));
    assert_eq!(
        archive.comment(),
        br#"{"ome":{"version":"0.5","zipFile":{"centralDirectory":{"jsonFirst":true}}}}"#
    );
    // The same content gives the same archive.
    let again = dir.path().join("b.ozx");
    ozx::pack(&open(&source).await, "", &again, 64 << 20).await.unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&again).unwrap());
    // Read as it is, and unpacked.
    let direct = open(&target).await.array("s0").await.unwrap();
    let plain = open(&source).await.array("s0").await.unwrap();
    assert_eq!(direct.meta().shape, plain.meta().shape);
    let back = dir.path().join("back.zarr");
    let done = ozx::unpack(&archive, &back).await.unwrap();
    assert_eq!((done.files, done.bytes), (packed.entries, packed.bytes));
    assert!(files(&back) == files(&source));
    let refused = ozx::unpack(&archive, &back).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    // Nothing is left of what was in the making.
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[tokio::test]
async fn other_tools_can_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a.ozx");
    ozx::pack(&open(&sample("06-omezarrpy-0.5.zarr")).await, "", &target, 1 << 20).await.unwrap();
    let python = "import sys, json, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                  assert json.loads(z.comment)['ome']['version'] == '0.5'; \
                  assert z.infolist()[0].filename == 'zarr.json'; \
                  assert all(i.compress_type == 0 and i.extract_version == 45 for i in z.infolist())";
    assert!(Command::new("python3").args(["-c", python]).arg(&target).status().unwrap().success());
}

#[tokio::test]
async fn a_part_of_a_hierarchy_and_large_objects() {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    let group =
        |ome: &str| format!(r#"{{"zarr_format":3,"node_type":"group","attributes":{{"ome":{ome}}}}}"#);
    let large: Vec<u8> = (0..20u32 << 20).map(|i| u8::try_from(i % 251).unwrap()).collect();
    store.put("zarr.json", group(r#"{"version":"0.5","bioformats2raw.layout":3}"#)).unwrap();
    store.put("1/zarr.json", group(r#"{"version":"0.5","multiscales":[]}"#)).unwrap();
    store.put("1/c/0/0", large.clone()).unwrap();
    store.put("1/.zattrs", "{}").unwrap();
    store.put("10/zarr.json", group(r#"{"version":"0.5"}"#)).unwrap();
    let zarr = Zarr::from_store(Arc::new(store), OpenOptions::default()).await.unwrap();
    let target = dir.path().join("one.ozx");
    let packed = ozx::pack(&zarr, "1", &target, 16 << 20).await.unwrap();
    assert_eq!((packed.entries, packed.left_out), (2, 1));
    let archive = zip(&target).await;
    assert_eq!(archive.entries().iter().map(|e| e.name).collect::<Vec<_>>(), ["zarr.json", "c/0/0"]);
    // A whole entry is held against its checksum, so that of the pieces is right.
    assert!(archive.get("c/0/0", None).await.unwrap().unwrap() == large);
    ozx::unpack(&archive, &dir.path().join("one.zarr")).await.unwrap();
    assert!(std::fs::read(dir.path().join("one.zarr/c/0/0")).unwrap() == large);
    // A damaged entry is found, and nothing is left behind.
    drop(archive);
    let mut bytes = std::fs::read(&target).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&target, bytes).unwrap();
    let error = ozx::unpack(&zip(&target).await, &dir.path().join("bad.zarr")).await.unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    assert!(!dir.path().join("bad.zarr").exists());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// The documents lie together at the start and the directory at the end, and a chunk is a range.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_on_a_server_takes_few_requests() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a.ozx");
    ozx::pack(&open(&sample("06-omezarrpy-0.5.zarr")).await, "", &target, 1 << 20).await.unwrap();
    let bytes = std::fs::read(&target).unwrap();
    let server = TinyServer::serving(vec![("a.ozx", bytes)], Duration::ZERO);
    let uri = format!("{}/a.ozx", server.url().trim_end_matches('/'));
    let zarr = zaro::open(&uri, &OpenOptions::default()).await.unwrap();
    let array = zarr.array("s1").await.unwrap();
    let there = server.requests();
    assert!(there <= 5, "{there} requests to open an array: {:?}", server.seen());
    assert_eq!(array.meta().shape, [2, 3, 16, 24]);
    let before = server.requests();
    let key = array.meta().keys.key("s1", &[0, 0, 0, 0]);
    assert!(zarr.store().get(&key, None).await.unwrap().is_some());
    assert!(server.requests() - before <= 1);
}

#[tokio::test]
async fn what_cannot_be_packed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a.ozx");
    let error =
        ozx::pack(&open(&sample("05-omezarrpy-0.4.zarr")).await, "", &target, 1 << 20).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("upgrade"), "{error}");
    let image = open(&sample("06-omezarrpy-0.5.zarr")).await;
    let error = ozx::pack(&image, "s0", &target, 1 << 20).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!target.exists());
    std::fs::write(&target, "mine").unwrap();
    let error = ozx::pack(&image, "", &target, 1 << 20).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPermitted);
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
}

#[tokio::test]
async fn archives_of_others_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let document = r#"{"zarr_format":3,"node_type":"group","attributes":{"ome":{"version":"0.5"}}}"#;
    let array = r#"{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":["bytes"]}"#;
    let make = async |name: &str, form: ZipForm, entries: &[(&str, &str)]| {
        let path = dir.path().join(name);
        let store = ZipCreateStore::create_as(&path, form).unwrap();
        for (key, text) in entries {
            let put = store.put(key, text.as_bytes().to_vec().into(), Condition::Always).await.unwrap();
            assert!(put.is_done());
        }
        store.finish().await.unwrap();
        archive::check(&zip(&path).await).await.unwrap()
    };
    let rules = |found: &[zaro::image::validate::ImageFinding]| -> Vec<(&'static str, FindingLevel)> {
        found.iter().map(|f| (f.rule, f.level)).collect()
    };
    let right = ZipForm { zip64: true, comment: ozx::comment("0.5"), in_order: true, arranged: None };
    let found = make("right.ozx", right.clone(), &[("zarr.json", document), ("x", "1")]).await;
    assert!(found.is_empty(), "{found:?}");
    let found = make("plain.ozx", ZipForm::default(), &[("a", "1"), ("zarr.json", document)]).await;
    assert_eq!(
        rules(&found),
        [("Z2", FindingLevel::Should), ("Z4", FindingLevel::Should), ("Z5", FindingLevel::Should)]
    );
    let found = make("below.ozx", right.clone(), &[("x.zarr/zarr.json", document)]).await;
    assert_eq!(rules(&found), [("Z1", FindingLevel::Must)]);
    let other = ZipForm { comment: ozx::comment("0.6"), ..right.clone() };
    let found = make("other.ozx", other, &[("zarr.json", document), ("a/zarr.json", array)]).await;
    assert_eq!(rules(&found), [("Z2", FindingLevel::Should), ("Z6", FindingLevel::Should)]);
    // Compressed, by another tool.
    let path = dir.path().join("packed.ozx");
    let python = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED); \
                  z.writestr('zarr.json', sys.argv[2]); z.comment = b'{\"ome\":{\"version\":\"0.5\"}}'; z.close()";
    assert!(
        Command::new("python3").args(["-c", python]).arg(&path).arg(document).status().unwrap().success()
    );
    let found = archive::check(&zip(&path).await).await.unwrap();
    assert_eq!(rules(&found), [("Z3", FindingLevel::Should), ("Z4", FindingLevel::Should)]);
    ozx::unpack(&zip(&path).await, &dir.path().join("packed.zarr")).await.unwrap();
    assert_eq!(std::fs::read(dir.path().join("packed.zarr/zarr.json")).unwrap(), document.as_bytes());
}

#[tokio::test]
async fn entries_that_lead_elsewhere_are_told_of_and_nothing_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ozx");
    let store = ZipCreateStore::create(&path).unwrap();
    for key in ["zarr.json", "aa/x", "0/c/0"] {
        let _ = store.put(key, "{}".into(), Condition::Absent).await.unwrap();
    }
    store.finish().await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for (name, told) in [("../x", "\"../x\""), ("/a/x", "\"/a/x\""), ("a//x", "\"a//x\"")] {
        // In the local header and in the directory.
        let mut changed = bytes.clone();
        let places: Vec<usize> = (0..bytes.len() - 4).filter(|i| &bytes[*i..*i + 4] == b"aa/x").collect();
        assert_eq!(places.len(), 2);
        places.iter().for_each(|at| changed[*at..*at + 4].copy_from_slice(name.as_bytes()));
        std::fs::write(&path, changed).unwrap();
        let e = ozx::unpack(&zip(&path).await, &dir.path().join("out")).await.unwrap_err();
        assert!(e.message().contains(told), "{e}");
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["a.ozx"]);
    }
}

#[tokio::test]
async fn archives_that_other_commands_make_follow_the_rules_too() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a.ozx");
    let store =
        zaro::open::open_store_for_writing(target.to_str().unwrap(), &StoreOptions::default()).await.unwrap();
    for (key, value) in files(&sample("06-omezarrpy-0.5.zarr")) {
        let _ = store.put(&key, value.into(), Condition::Always).await.unwrap();
    }
    let _ = store.put("gone", "x".into(), Condition::Always).await.unwrap();
    store.delete("gone").await.unwrap();
    store.finish().await.unwrap();
    let zip = zip(&target).await;
    let found = archive::check(&zip).await.unwrap();
    let rules: Vec<&str> = found.iter().filter(|f| f.level >= FindingLevel::Should).map(|f| f.rule).collect();
    // Its arrays have no shards, which is another matter.
    assert_eq!(rules, ["Z6"], "{found:?}");
    let out = dir.path().join("out");
    ozx::unpack(&zip, &out).await.unwrap();
    assert_eq!(files(&out), files(&sample("06-omezarrpy-0.5.zarr")));
}
