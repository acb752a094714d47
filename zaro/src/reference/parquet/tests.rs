//! The same references as different writers lay them out, the rules of rows and keys, and damage at every byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;

use super::*;
use crate::reference::{Remote, Span};
use crate::store::local::LocalStore;
use crate::store::memory::MemoryStore;
use crate::testing::{Fault, FaultStore};

async fn open(store: SharedStore) -> Result<SharedMap> {
    crate::reference::parquet::open(store, &Context::shared()).await
}

/// The layouts that hold every reference of [`reference`].
const WHOLE: [&str; 7] =
    ["fastparquet", "pyarrow", "row_groups", "v2_dictionary", "delta", "split", "floats"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/parquet").join(name)
}

fn remote(url: &str, span: Option<(u64, u64)>) -> Location {
    let span = span.map(|(offset, length)| Span { offset, length });
    Location::Remote(Remote { near: Some("v".into()), ..Remote::new(url, span) })
}

/// What chunk `n` stands for, as `conformance/make_parquet_refs.py` has it.
fn reference(n: u64) -> Option<Location> {
    if n % 7 == 3 || (20..30).contains(&n) {
        return None;
    }
    Some(match n {
        34 => Location::Inline(vec![0u8, 1, 2].into()),
        _ if n % 7 == 5 => Location::Inline([format!("raw-{n}").as_bytes(), b"\0\xff"].concat().into()),
        _ if n.is_multiple_of(7) => remote(&format!("file:///d/whole-{n}.bin"), None),
        _ => remote(&format!("s3://bucket/folder/f{}.nc", n % 3), Some((1000 * n + (1 << 33), 10 + n))),
    })
}

fn key(n: u64) -> String {
    format!("v/{}.{}", n / 5, n % 5)
}

async fn opened(name: &str) -> SharedMap {
    open(Arc::new(LocalStore::new(data(name)))).await.unwrap()
}

/// A store in memory with the files of a folder.
fn in_memory(name: &str) -> MemoryStore {
    let store = MemoryStore::new();
    store.put(ZMETADATA, fs::read(data(name).join(ZMETADATA)).unwrap()).unwrap();
    for entry in fs::read_dir(data(name).join("v")).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("v/{}", path.file_name().unwrap().to_str().unwrap());
        store.put(&key, fs::read(path).unwrap()).unwrap();
    }
    store
}

#[tokio::test]
async fn every_layout_reads_the_same() {
    for name in WHOLE {
        let map = opened(name).await;
        for n in 0..35 {
            assert_eq!(map.locate(&key(n)).await.unwrap(), reference(n), "{name} {n}");
        }
        for key in ["v/7.0", "v/0.5", "v/0", "v/00.0", "v/0.0.0", "w/0.0", "0.0", "v", "", "v/.zgroup"] {
            assert_eq!(map.locate(key).await.unwrap(), None, "{name} {key}");
        }
        let keys: Vec<String> = (0..40).rev().map(key).chain([".zgroup".to_owned()]).collect();
        let all = map.locate_all(&keys).await.unwrap();
        for (n, found) in (0..40).rev().zip(&all) {
            assert_eq!(*found, if n < 35 { reference(n) } else { None }, "{name} {n}");
        }
        assert!(matches!(all.last(), Some(Some(Location::Inline(_)))));

        let entries: Vec<_> = map.entries("").try_collect().await.unwrap();
        let wanted = (0..35).filter_map(|n| Some((key(n), reference(n)?)));
        let (documents, chunks) = entries.split_at(4);
        assert_eq!(chunks, wanted.collect::<Vec<_>>(), "{name}");
        let names: Vec<_> = documents.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(names, [".zattrs", ".zgroup", "v/.zarray", "v/.zattrs"]);
        let listing = map.list("").await.unwrap();
        assert_eq!(
            (listing.objects, listing.prefixes),
            (vec![".zattrs".into(), ".zgroup".into()], vec!["v".into()])
        );
        assert_eq!(map.list("v").await.unwrap().objects.len(), 2 + chunks.len());
    }
}

#[tokio::test]
async fn columns_may_be_missing() {
    let (paths, raws) = (opened("no_raw").await, opened("only_raw").await);
    for n in 0..35 {
        let wanted = reference(n).filter(|_| n < 10);
        let inline = matches!(wanted, Some(Location::Inline(_)));
        assert_eq!(paths.locate(&key(n)).await.unwrap(), wanted.clone().filter(|_| !inline));
        assert_eq!(raws.locate(&key(n)).await.unwrap(), wanted.filter(|_| inline));
    }
}

#[tokio::test]
async fn what_is_not_read_says_so() {
    let e = opened("brotli").await.locate("v/0.0").await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    assert!(e.to_string().contains("v/refs.0.parq") && e.to_string().contains("Brotli"), "{e}");
}

#[tokio::test]
async fn documents_keep_their_numbers() {
    let map = opened("fastparquet").await;
    let Some(Location::Inline(text)) = map.locate(".zattrs").await.unwrap() else { panic!() };
    assert_eq!(text, "{\"title\":\"Ä\",\"gap\":NaN}");
    let Some(Location::Inline(text)) = map.locate(ZMETADATA).await.unwrap() else { panic!() };
    assert!(text.ends_with(b",\"zarr_consolidated_format\":1}"));
}

fn zarray(shape: &str, chunks: &str, more: &str) -> String {
    format!(
        r#"{{"zarr_format":2,"shape":{shape},"chunks":{chunks},"dtype":"<f4","fill_value":null,"order":"C",
            "filters":null,"compressor":null{more}}}"#
    )
}

/// A map with these documents over the files of `fastparquet`, whose first file is that of every array named.
async fn map_of(documents: &[(&str, String)], record_size: &str, files: &[&str]) -> Result<SharedMap> {
    let store = MemoryStore::new();
    let members: Vec<String> = documents.iter().map(|(key, text)| format!("{key:?}:{text}")).collect();
    let text = format!("{{\"metadata\":{{{}}},\"record_size\":{record_size}}}", members.join(","));
    store.put(ZMETADATA, text).unwrap();
    for file in files {
        store.put(file, fs::read(data("fastparquet/v/refs.0.parq")).unwrap()).unwrap();
    }
    open(Arc::new(store)).await
}

fn near(n: u64, path: &str) -> Option<Location> {
    reference(n).map(|location| match location {
        Location::Remote(remote) => Location::Remote(Remote { near: Some(path.into()), ..remote }),
        inline => inline,
    })
}

#[tokio::test]
async fn keys_are_taken_apart_by_the_array_they_belong_to() {
    let v3 = |rank: &str, shape: &str| {
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{shape},"data_type":"int8","fill_value":0,"codecs":[],
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{rank}}}}},
                "chunk_key_encoding":{{"name":"default"}}}}"#
        )
    };
    let documents = [
        (".zgroup", "{\"zarr_format\":2}".to_owned()),
        ("a/b/slash/.zarray", zarray("[3,4]", "[2,1]", ",\"dimension_separator\":\"/\"")),
        ("scalar/.zarray", zarray("[]", "[]", "")),
        ("empty/.zarray", zarray("[0,4]", "[0,1]", "")),
        ("broken/.zarray", "{\"shape\":[1]}".to_owned()),
        ("text/.zarray", format!("{:?}", zarray("[8]", "[1]", ""))),
        ("three/zarr.json", v3("[1,1]", "[2,4]")),
        ("three0/zarr.json", v3("[]", "[]")),
        (".zarray", zarray("[8]", "[1]", "")),
    ];
    let files = ["a/b/slash", "scalar", "empty", "broken", "text", "three", "three0"]
        .map(|a| format!("{a}/refs.0.parq"));
    let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
    files.push("refs.0.parq");
    let map = map_of(&documents, "10", &files).await.unwrap();
    for (key, n, path) in [
        ("a/b/slash/0/2", 2, "a/b/slash"),
        ("a/b/slash/1/2", 6, "a/b/slash"),
        ("a/b/slash/1.2", 6, "a/b/slash"),
        ("scalar/0", 0, "scalar"),
        ("scalar/", 0, "scalar"),
        ("text/7", 7, "text"),
        ("three/c/1/1", 5, "three"),
        ("three0/c", 0, "three0"),
        ("4", 4, ""),
    ] {
        assert_eq!(map.locate(key).await.unwrap(), near(n, path), "{key}");
    }
    for key in [
        "a/b/slash/2/0",
        "a/b/slash/0",
        "a/b/slash",
        "a/b/0",
        "scalar/1",
        "empty/0.0",
        "three/1/1",
        "8",
        "broken/.zattrs",
    ] {
        assert_eq!(map.locate(key).await.unwrap(), None, "{key}");
    }
    assert_eq!(map.locate("broken/0").await.unwrap_err().kind(), ErrorKind::Invalid);

    let keys = |prefix: &'static str| {
        let entries = map.entries(prefix);
        async { entries.map_ok(|(key, _)| key).try_collect::<Vec<_>>().await.unwrap() }
    };
    assert_eq!(
        keys("a/b/slash").await,
        [
            "a/b/slash/.zarray",
            "a/b/slash/0/0",
            "a/b/slash/0/1",
            "a/b/slash/0/2",
            "a/b/slash/1/0",
            "a/b/slash/1/1",
            "a/b/slash/1/2",
            "a/b/slash/1/3"
        ]
    );
    assert_eq!(
        keys("a/b/slash/1").await,
        ["a/b/slash/1/0", "a/b/slash/1/1", "a/b/slash/1/2", "a/b/slash/1/3"]
    );
    assert_eq!(keys("three/c/0").await, ["three/c/0/0", "three/c/0/1", "three/c/0/2"]);
    assert!(keys("a/b/slash/1/1").await.is_empty() && keys("empty/0").await.is_empty());
    assert_eq!(keys("scalar").await, ["scalar/.zarray", "scalar/0"]);
    let listing = map.list("a/b/slash").await.unwrap();
    assert_eq!((listing.objects, listing.prefixes), (vec![".zarray".into()], vec!["0".into(), "1".into()]));
    assert_eq!(map.list("a").await.unwrap().prefixes, ["b"]);
    // The root is an array here, so its chunks lie beside the groups.
    let listing = map.list("").await.unwrap();
    assert_eq!(listing.objects, [".zarray", ".zgroup", "0", "1", "2", "4", "5", "6", "7"]);
    // A reader of V3 finds nodes by listing.
    assert_eq!(map.locate(ZMETADATA).await.unwrap(), None);
}

#[tokio::test]
async fn record_sizes_are_checked() {
    let documents = [("v/.zarray", zarray("[35]", "[1]", ""))];
    for (size, good) in [
        ("10", true),
        ("10.0", true),
        ("0", false),
        ("-1", false),
        ("1.5", false),
        ("\"10\"", false),
        ("null", false),
        ("18446744073709551615", false),
        ("1e5", false),
    ] {
        let map = map_of(&documents, size, &[]).await;
        match map {
            Ok(_) => assert!(good, "{size}"),
            Err(e) => {
                assert!(!good && e.kind() == ErrorKind::Invalid && e.field() == Some("record_size"), "{e}")
            }
        }
    }
    let store = MemoryStore::new();
    store.put(ZMETADATA, "{\"metadata\":{}}").unwrap();
    assert!(open(Arc::new(store)).await.unwrap_err().to_string().contains("record_size"));
    assert!(open(Arc::new(MemoryStore::new())).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn numbers_beyond_32_bits_find_their_partition() {
    let documents = [("v/.zarray", zarray("[5000000000000]", "[1]", ""))];
    let map = map_of(&documents, "10", &["v/refs.400000000000.parq"]).await.unwrap();
    assert_eq!(map.locate("v/4000000000002").await.unwrap(), near(2, "v"));
    assert_eq!(map.locate("v/4000000000012").await.unwrap(), None);
    // The folder is listed, not half a trillion files asked for.
    let found: Vec<_> = map.entries("v").try_collect().await.unwrap();
    assert_eq!(found.len(), 1 + (0..10).filter_map(reference).count());
}

#[tokio::test]
async fn a_file_longer_than_its_partition_and_shorter_than_its_rows() {
    let documents = [("v/.zarray", zarray("[35]", "[1]", ""))];
    // Rows from 4 on are those of no chunk.
    let map = map_of(&documents, "4", &["v/refs.0.parq", "v/refs.8.parq"]).await.unwrap();
    assert_eq!(map.locate("v/2").await.unwrap(), reference(2));
    assert_eq!(map.locate("v/4").await.unwrap(), None);
    assert_eq!(map.locate("v/34").await.unwrap(), reference(2));
    let found: Vec<_> = map.entries("v").try_collect().await.unwrap();
    assert_eq!(found.len(), 1 + 3 + 3);
    let map = map_of(&documents, "30", &["v/refs.0.parq"]).await.unwrap();
    assert_eq!(map.locate("v/9").await.unwrap(), reference(9));
    assert_eq!(map.locate("v/10").await.unwrap(), None);
}

#[tokio::test]
async fn no_damage_is_a_panic_or_a_chunk_that_is_missing_elsewhere() {
    for name in WHOLE {
        let good = fs::read(data(name).join("v/refs.0.parq")).unwrap();
        let store = Arc::new(in_memory(name));
        let look = || async {
            let map = open(store.clone()).await.unwrap();
            let _ = map.entries("").try_collect::<Vec<_>>().await;
            map.locate("v/0.1").await
        };
        for length in 0..good.len() {
            store.put("v/refs.0.parq", good[..length].to_vec()).unwrap();
            let e = look().await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Invalid, "{name} cut to {length}: {e}");
            assert!(e.to_string().contains("v/refs.0.parq"), "{e}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            store.put("v/refs.0.parq", bad).unwrap();
            let _ = look().await;
        }
    }
}

#[tokio::test]
async fn a_file_is_asked_for_once() {
    let store = Arc::new(FaultStore::new(Arc::new(in_memory("row_groups"))));
    let map = open(store.clone()).await.unwrap();
    let keys: Vec<String> = (0..10).map(key).collect();
    futures::future::try_join_all(keys.iter().map(|key| map.locate(key))).await.unwrap();
    // Files that are not there are remembered too.
    map.locate("v/4.0").await.unwrap();
    map.locate("v/4.1").await.unwrap();
    assert_eq!(store.calls(), 3);
}

#[tokio::test]
async fn a_fault_is_no_missing_chunk_and_is_not_kept() {
    let store = FaultStore::new(Arc::new(in_memory("fastparquet"))).with_call(2, Fault::Final);
    let map = open(Arc::new(store)).await.unwrap();
    assert_eq!(map.locate("v/0.1").await.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(map.locate("v/0.1").await.unwrap(), reference(1));
}
