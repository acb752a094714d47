//! Copies: the same elements, whatever the chunks, the codecs and the version.

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zaro::store::StoreExt as _;

use crate::common::{Model, V2, V3, put_array, put_array_without, sharding, transpose, wait};
use futures::TryStreamExt;
use zaro::copy::{Copied, CopyOptions, KeysOption, Sizes, copy};
use zaro::hierarchy::{self, Existing};
use zaro::internal::wrap::LogStore;
use zaro::meta::{DataType, Format, MemoryLayout, parse_codecs};
use zaro::store::{LocalStore, MemoryStore, RequestLog, SharedStore};
use zaro::testing::{Fault, FaultStore};
use zaro::{CancelToken, Context, ErrorKind, OpenOptions, ReadOptions, Result, Selection, Task, Zarr};

const LE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
const ZSTD: &str = r#"{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;

fn open(store: &SharedStore) -> Zarr {
    wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap()
}

fn run(from: &SharedStore, to: &SharedStore, options: &CopyOptions) -> Result<Copied> {
    wait(copy(&open(from), "the source", "", to, "", options))
}

fn all(store: &SharedStore, path: &str) -> Vec<u8> {
    wait(open(store).array(path))
        .unwrap()
        .read_slab_blocking(&Selection::all(), &ReadOptions::default())
        .unwrap()
        .bytes
}

fn keys(store: &SharedStore) -> Vec<String> {
    let mut keys: Vec<String> =
        wait(async { store.keys("").map_ok(|e| e.key).try_collect::<Vec<_>>().await }).unwrap();
    keys.sort();
    keys
}

/// A hierarchy with arrays of both kinds of chunks and a few chunks missing.
fn source(format: Format) -> (SharedStore, Model) {
    let store = MemoryStore::new();
    let data = Model::counting(&[20, 13, 9], 4);
    let group = if format == Format::V3 {
        (
            "zarr.json",
            r#"{"zarr_format":3,"node_type":"group","attributes":{"title":"t"},"own":{"must_understand":false}}"#,
        )
    } else {
        (".zgroup", r#"{"zarr_format":2}"#)
    };
    store.put(group.0, group.1).unwrap();
    store.put(&format!("g/{}", group.0), group.1).unwrap();
    let documents = match format {
        Format::V3 => [
            V3::new(&[20, 13, 9], &[8, 5, 4], "int32")
                .codecs(format!("{LE},{ZSTD}"))
                .names(&["t", "y", "x"])
                .document(),
            V3::new(&[20, 13, 9], &[8, 8, 8], "int32")
                .codecs(sharding(&[4, 2, 8], &format!("{},{LE}", transpose(&[2, 1, 0])), LE, "end"))
                .document(),
        ],
        Format::V2 => [
            V2::new(&[20, 13, 9], &[8, 5, 4], "<i4")
                .compressor(r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}"#)
                .document(),
            V2::new(&[20, 13, 9], &[7, 13, 2], ">i4")
                .separator('/')
                .filters(r#"[{"id":"delta","dtype":">i4"}]"#)
                .compressor(r#"{"id":"zlib","level":1}"#)
                .document(),
        ],
    };
    put_array(&store, "a", &documents[0], &data);
    put_array_without(&store, "g/b", &documents[1], &data, &[vec![0, 0, 0]]);
    (Arc::new(store), data)
}

#[test]
fn every_change_keeps_the_elements() {
    let named =
        |names: &[(&str, u64)]| Sizes::Named(names.iter().map(|(n, l)| ((*n).to_owned(), *l)).collect());
    let options = [
        CopyOptions::default(),
        CopyOptions::default().with_format(Some(Format::V3)),
        CopyOptions::default().with_format(Some(Format::V2)),
        CopyOptions::default().with_chunks(Some(Sizes::List(vec![3, 13, 5]))),
        CopyOptions::default().with_chunks(Some(named(&[("t", 1), ("x", 9)]))),
        CopyOptions::default()
            .with_format(Some(Format::V3))
            .with_chunks(Some(Sizes::List(vec![2, 3, 4])))
            .with_shards(Some(Some(Sizes::List(vec![10, 6, 12]))))
            .with_codecs(Some(parse_codecs("zstd:2+crc32c").unwrap())),
        CopyOptions::default()
            .with_format(Some(Format::V3))
            .with_shards(Some(None))
            .with_codecs(Some(parse_codecs("none").unwrap()))
            .with_layout(Some(MemoryLayout::F)),
        CopyOptions::default()
            .with_format(Some(Format::V2))
            .with_chunks(Some(Sizes::List(vec![5, 5, 5])))
            .with_codecs(Some(parse_codecs("gzip:1").unwrap()))
            .with_layout(Some(MemoryLayout::F)),
    ];
    for from in [Format::V3, Format::V2] {
        for (n, options) in options.iter().enumerate() {
            if from == Format::V2 && matches!(options.chunks, Some(Sizes::Named(_))) {
                // Its dimensions have no names, and none is passed over.
                continue;
            }
            let (store, _) = source(from);
            let made: SharedStore = Arc::new(MemoryStore::new());
            let copied = run(&store, &made, &options.clone().with_verify(true))
                .unwrap_or_else(|e| panic!("{n} of {from:?}: {e}"));
            assert_eq!((copied.arrays, copied.groups), (2, 2));
            for path in ["a", "g/b"] {
                assert!(all(&store, path) == all(&made, path), "{n} of {from:?}: {path}");
            }
            let zarr = open(&made);
            for node in wait(zarr.walk("")).unwrap() {
                assert_eq!(node.meta.format(), options.format.unwrap_or(from));
                assert!(node.findings.is_empty(), "{:?}", node.findings);
            }
            assert!(!keys(&made).iter().any(|k| k.contains(".zaro")), "{:?}", keys(&made));
        }
    }
}

#[test]
fn a_plain_copy_is_the_same_bytes() {
    for format in [Format::V3, Format::V2] {
        let (store, _) = source(format);
        let made: SharedStore = Arc::new(MemoryStore::new());
        let copied = run(&store, &made, &CopyOptions::default()).unwrap();
        assert_eq!(copied.verbatim, 2);
        for key in keys(&store) {
            let get = |s: &SharedStore| wait(s.get(&key, None)).unwrap();
            if key.ends_with(".zattrs") || key.contains(".z") || key.ends_with("zarr.json") {
                assert_eq!(
                    common::json(std::str::from_utf8(&get(&store).unwrap()).unwrap()),
                    common::json(std::str::from_utf8(&get(&made).unwrap()).unwrap())
                );
            } else {
                assert_eq!(get(&store), get(&made), "{key}");
            }
        }
        // V2 to V3 leaves the chunks as they are, too, where the codecs allow.
        let up: SharedStore = Arc::new(MemoryStore::new());
        let copied = run(&store, &up, &CopyOptions::default().with_format(Some(Format::V3))).unwrap();
        assert_eq!(copied.verbatim, 2, "{format:?}");
    }
}

#[test]
fn parts_and_other_types() {
    let (store, data) = source(Format::V3);
    let made: SharedStore = Arc::new(MemoryStore::new());
    let options = CopyOptions::default()
        .with_region(Some(Selection::parse("2:18:3,::-1,4:").unwrap()))
        .with_chunks(Some(Sizes::List(vec![2, 3, 2])));
    wait(copy(&open(&store), "s", "a", &made, "x/y", &options)).unwrap();
    let positions = [(2..18).step_by(3).collect(), (0..13).rev().collect(), (4..9).collect()];
    assert!(all(&made, "x/y") == data.select(&positions, zaro::Order::C));
    let cast = CopyOptions::default().with_data_type(Some(DataType::FLOAT64));
    wait(copy(&open(&store), "s", "a", &made, "f", &cast)).unwrap();
    let got: Vec<f64> = wait(open(&made).array("f"))
        .unwrap()
        .read_slab_blocking(&Selection::all(), &ReadOptions::default())
        .unwrap()
        .to_vec()
        .unwrap();
    let want: Vec<f64> =
        data.bytes.chunks(4).map(|b| f64::from(i32::from_le_bytes(b.try_into().unwrap()))).collect();
    assert_eq!(got, want);
    let narrow = CopyOptions::default().with_data_type(Some(DataType::UINT8));
    let e = wait(copy(&open(&store), "s", "a", &made, "n", &narrow)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
}

#[test]
fn keys_change_in_what_is_said_alone() {
    let with = |prefixed, separator| CopyOptions::default().with_keys(KeysOption { prefixed, separator });
    let key = |format: Format, options: &CopyOptions| {
        let made: SharedStore = Arc::new(MemoryStore::new());
        run(&source(format).0, &made, options).unwrap();
        keys(&made).into_iter().find(|k| k.starts_with("a/") && !k.contains('z')).unwrap()
    };
    assert_eq!(key(Format::V2, &with(None, None)), "a/0.0.0");
    assert_eq!(key(Format::V2, &with(None, Some('/'))), "a/0/0/0");
    assert_eq!(key(Format::V3, &with(None, Some('.'))), "a/c.0.0.0");
    assert_eq!(key(Format::V3, &with(Some(false), None)), "a/0.0.0");
    let down = with(None, Some('/')).with_format(Some(Format::V2));
    assert_eq!(key(Format::V3, &down), "a/0/0/0");
    let up = with(None, Some('.')).with_format(Some(Format::V3));
    assert_eq!(key(Format::V2, &up), "a/c.0.0.0");
}

#[test]
fn a_fill_value_is_rounded_like_any_element() {
    let store = MemoryStore::new();
    let data = Model { shape: vec![2], size: 8, bytes: [0.1f64, 0.2].map(f64::to_le_bytes).concat() };
    let document = V3::new(&[2], &[1], "float64").fill("0.1").document();
    put_array_without(&store, "", &document, &data, &[vec![0]]);
    let made: SharedStore = Arc::new(MemoryStore::new());
    let options = CopyOptions::default().with_data_type(Some(DataType::FLOAT32)).with_verify(true);
    let store: SharedStore = Arc::new(store);
    run(&store, &made, &options).unwrap();
    assert_eq!(all(&made, ""), [0.1f32, 0.2].map(f32::to_le_bytes).concat());
}

#[test]
fn another_type_needs_no_other_codecs() {
    let data = Model { shape: vec![6], size: 1, bytes: (0..6).collect() };
    let blosc = r#"{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":1,"blocksize":0}}"#;
    let delta = r#"{"name":"numcodecs.delta","configuration":{"dtype":"|u1"}}"#;
    let inner = sharding(&[1], r#"{"name":"bytes"},{"name":"crc32c"}"#, LE, "end");
    for codecs in [format!(r#"{delta},{{"name":"bytes"}},{blosc}"#), sharding(&[3], &inner, LE, "end")] {
        let store = MemoryStore::new();
        put_array(&store, "", &V3::new(&[6], &[3], "uint8").codecs(codecs).document(), &data);
        let (store, made): (SharedStore, SharedStore) = (Arc::new(store), Arc::new(MemoryStore::new()));
        let options = CopyOptions::default().with_data_type(Some(DataType::Int(32))).with_verify(true);
        run(&store, &made, &options).unwrap();
        assert_eq!(all(&made, ""), (0..6i32).flat_map(i32::to_le_bytes).collect::<Vec<u8>>());
        let text = wait(made.get("zarr.json", None)).unwrap().unwrap();
        let text = String::from_utf8_lossy(&text).replace([' ', '\n'], "");
        assert!(!text.contains("delta") && !text.contains(r#""typesize":1"#), "{text}");
    }
}

#[test]
fn shards_in_shards_go_where_chunks_are_asked_for() {
    let store = MemoryStore::new();
    let data = Model::counting(&[8, 12], 4);
    let inner = sharding(&[2, 1], &format!("{LE},{ZSTD}"), LE, "end");
    let document =
        V3::new(&[8, 12], &[8, 6], "int32").codecs(sharding(&[4, 3], &inner, LE, "end")).document();
    put_array(&store, "", &document, &data);
    let store: SharedStore = Arc::new(store);
    let none = CopyOptions::default().with_shards(Some(None));
    let odd = CopyOptions::default().with_chunks(Some(Sizes::List(vec![3, 5])));
    for options in [none.clone().with_chunks(odd.chunks.clone()), none, odd] {
        let made: SharedStore = Arc::new(MemoryStore::new());
        run(&store, &made, &options).unwrap();
        assert!(all(&made, "") == data.bytes);
        let text = wait(made.get("zarr.json", None)).unwrap().unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("sharding"), "{options:?}");
    }
}

#[test]
fn what_is_there_is_not_overwritten_unasked() {
    let (store, _) = source(Format::V3);
    let made: SharedStore = Arc::new(MemoryStore::new());
    run(&store, &made, &CopyOptions::default()).unwrap();
    assert_eq!(run(&store, &made, &CopyOptions::default()).unwrap_err().kind(), ErrorKind::Usage);
    let again = CopyOptions::default().with_existing(Existing::Replace).with_format(Some(Format::V2));
    run(&store, &made, &again).unwrap();
    assert!(!keys(&made).iter().any(|k| k.ends_with("zarr.json")));
    assert!(all(&store, "a") == all(&made, "a"));
}

#[test]
fn shards_are_gathered_from_cells() {
    let shape = [40u64, 27, 22];
    let mut data = Model::counting(&shape, 4);
    // Cells, inner chunks and whole shards of nothing but fill value.
    data.bytes[..17 * 27 * 22 * 4].fill(0);
    let sources = [
        V3::new(&shape, &[8, 8, 8], "int32").codecs(format!("{LE},{ZSTD}")),
        V3::new(&shape, &[5, 9, 22], "int32"),
        V3::new(&shape, &[16, 16, 16], "int32").codecs(sharding(&[4, 8, 8], LE, LE, "end")),
        V3::new(&shape, &[16, 8, 8], "int32").codecs(format!("{},{LE}", transpose(&[2, 0, 1]))),
    ];
    let targets = [
        ([8, 8, 8], [16, 16, 16], "zstd:1", MemoryLayout::C),
        ([4, 4, 4], [16, 8, 24], "none", MemoryLayout::C),
        ([2, 8, 11], [40, 32, 22], "zstd:1+crc32c", MemoryLayout::F),
        ([16, 16, 16], [16, 16, 16], "none", MemoryLayout::C),
        ([3, 5, 7], [9, 25, 28], "zstd:1", MemoryLayout::C),
        ([5, 3, 11], [15, 9, 22], "gzip:1", MemoryLayout::F),
    ];
    let regions = [None, Some("16:37,8:,:16"), Some("1:30,::-1,3:20")];
    for source in &sources {
        let store = MemoryStore::new();
        put_array(&store, "", &source.document(), &data);
        let store: SharedStore = Arc::new(store);
        for (chunks, shards, codecs, layout) in &targets {
            for region in regions {
                let options = CopyOptions::default()
                    .with_chunks(Some(Sizes::List(chunks.to_vec())))
                    .with_shards(Some(Some(Sizes::List(shards.to_vec()))))
                    .with_codecs(Some(parse_codecs(codecs).unwrap()))
                    .with_layout(Some(layout.clone()))
                    .with_region(region.map(|r| Selection::parse(r).unwrap()));
                let made: SharedStore = Arc::new(MemoryStore::new());
                run(&store, &made, &options).unwrap();
                let positions: [Vec<u64>; 3] = match region {
                    None => [(0..40).collect(), (0..27).collect(), (0..22).collect()],
                    Some("16:37,8:,:16") => [(16..37).collect(), (8..27).collect(), (0..16).collect()],
                    _ => [(1..30).collect(), (0..27).rev().collect(), (3..20).collect()],
                };
                let what = format!("{chunks:?} {shards:?} {codecs} {layout:?} {region:?}");
                assert!(all(&made, "") == data.select(&positions, zaro::Order::C), "{what}");
                assert!(
                    region.is_some() || !keys(&made).contains(&"c/0/0/0".to_owned()) || shards[0] > 17,
                    "{what}"
                );
                let cast = options.with_data_type(Some(DataType::Int(64)));
                let cast_made: SharedStore = Arc::new(MemoryStore::new());
                run(&store, &cast_made, &cast).unwrap();
                let narrow: Vec<u8> = all(&cast_made, "").chunks(8).flat_map(|b| b[..4].to_vec()).collect();
                assert!(narrow == all(&made, ""), "{what}");
            }
        }
    }
}

#[test]
fn large_chunks_are_gathered_from_whole_ones() {
    let shape = [100u64, 90, 33];
    let mut data = Model::counting(&shape, 4);
    data.bytes[..65 * 90 * 33 * 4].fill(0);
    let store = MemoryStore::new();
    put_array(&store, "", &V3::new(&shape, &[16, 32, 16], "int32").document(), &data);
    let store: SharedStore = Arc::new(store);
    for codecs in ["none", "zstd:1", "gzip:1+crc32c"] {
        for chunks in [[32, 32, 32], [64, 64, 16], [16, 32, 48]] {
            let made: SharedStore = Arc::new(MemoryStore::new());
            let options = CopyOptions::default()
                .with_chunks(Some(Sizes::List(chunks.to_vec())))
                .with_codecs(Some(parse_codecs(codecs).unwrap()))
                .with_verify(true);
            run(&store, &made, &options).unwrap();
            assert!(all(&made, "") == data.bytes, "{codecs} {chunks:?}");
            assert!(!keys(&made).contains(&"c/0/0/0".to_owned()), "{codecs} {chunks:?}");
        }
    }
}

/// A transposing rechunk of an array many times larger than the memory, with what was read of the source.
#[test]
fn a_transpose_larger_than_memory_reads_each_chunk_once() {
    let shape = [256u64, 256, 64];
    let data = Model::counting(&shape, 4);
    let store = MemoryStore::new();
    put_array(&store, "", &V3::new(&shape, &[1, 256, 64], "int32").document(), &data);
    let reads = Arc::new(AtomicU64::new(0));
    let counter = reads.clone();
    let log = Arc::new(RequestLog::with_sink(move |r| {
        counter.fetch_add(u64::from(r.key.starts_with("c/")), Ordering::Relaxed);
    }));
    let logged: SharedStore = Arc::new(LogStore::new(Arc::new(store), log));
    let dir = std::env::temp_dir().join(format!("zaro-copy-test-{}", std::process::id()));
    let made: SharedStore = Arc::new(LocalStore::new(&dir));
    let options = CopyOptions::default()
        .with_chunks(Some(Sizes::List(vec![256, 4, 4])))
        .with_context(Context::shared().with_memory(6 * data.bytes.len() / 20))
        .with_verify(false);
    run(&logged, &made, &options).unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 256, "each source chunk once");
    assert!(all(&made, "") == data.bytes);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_copy_that_was_stopped_goes_on() {
    let shape = [64u64, 64, 64];
    let data = Model::counting(&shape, 4);
    let store = MemoryStore::new();
    put_array(&store, "", &V3::new(&shape, &[8, 64, 64], "int32").document(), &data);
    let store: SharedStore = Arc::new(store);
    for (chunks, shards, memory) in [
        (vec![4, 64, 64], None, 3 << 20),
        (vec![64, 4, 4], None, 1 << 20),
        (vec![4, 16, 16], Some(Sizes::List(vec![16, 64, 64])), 8 << 20),
    ] {
        let made: SharedStore = Arc::new(MemoryStore::new());
        for stop in 1..6u64 {
            let cancel = CancelToken::new();
            let (seen, flag) = (AtomicU64::new(0), cancel.clone());
            let options = CopyOptions::default()
                .with_chunks(Some(Sizes::List(chunks.clone())))
                .with_shards(Some(shards.clone()))
                .with_context(Context::shared().with_memory(memory))
                .with_task(Task::default().with_cancel(&cancel).with_progress(move |_| {
                    if seen.fetch_add(1, Ordering::Relaxed) >= stop {
                        flag.cancel();
                    }
                }));
            match run(&store, &made, &options) {
                Err(e) => assert_eq!(e.kind(), ErrorKind::Cancelled, "{e}"),
                Ok(_) => break,
            }
            // With other settings it is another copy.
            let other = CopyOptions::default().with_format(Some(Format::V2));
            assert_eq!(run(&store, &made, &other).unwrap_err().kind(), ErrorKind::Usage);
        }
        if hierarchy_is_unfinished(&made) {
            let options = CopyOptions::default()
                .with_chunks(Some(Sizes::List(chunks.clone())))
                .with_shards(Some(shards.clone()))
                .with_context(Context::shared().with_memory(memory * 3))
                .with_verify(true);
            assert!(run(&store, &made, &options).unwrap().resumed);
        }
        assert!(all(&made, "") == data.bytes);
        assert!(!hierarchy_is_unfinished(&made));
    }
}

fn hierarchy_is_unfinished(store: &SharedStore) -> bool {
    keys(store).iter().any(|k| k.ends_with(".zaro-journal.json"))
}

#[test]
fn conversion_in_place_leaves_chunks_alone() {
    for consolidated in [false, true] {
        let (store, _) = source(Format::V2);
        if consolidated {
            wait(hierarchy::consolidate(&store, "")).unwrap();
        }
        let (a, b) = (all(&store, "a"), all(&store, "g/b"));
        let chunks = |store: &SharedStore| {
            keys(store)
                .into_iter()
                .filter(|k| !k.contains(".z") && !k.ends_with("zarr.json"))
                .collect::<Vec<_>>()
        };
        let before = chunks(&store);
        assert_eq!(wait(zaro::copy::convert_in_place(&store, "", Format::V3)).unwrap(), 4);
        assert_eq!(chunks(&store), before);
        assert!(!keys(&store).iter().any(|k| k.contains(".z")), "{:?}", keys(&store));
        assert_eq!(open(&store).is_consolidated(), consolidated);
        assert!(all(&store, "a") == a && all(&store, "g/b") == b);
        assert_eq!(
            wait(zaro::copy::convert_in_place(&store, "", Format::V3)).unwrap_err().kind(),
            ErrorKind::Usage
        );
        // And back, since the keys are still V2's.
        wait(zaro::copy::convert_in_place(&store, "", Format::V2)).unwrap();
        assert!(!keys(&store).iter().any(|k| k.ends_with("zarr.json")));
        assert_eq!(open(&store).is_consolidated(), consolidated);
        assert!(all(&store, "a") == a && all(&store, "g/b") == b);
    }
    // A node below a group of the other version would be found by nobody.
    let (store, _) = source(Format::V2);
    let before = keys(&store);
    let e = wait(zaro::copy::convert_in_place(&store, "g/b", Format::V3)).unwrap_err();
    assert_eq!((e.kind(), keys(&store)), (ErrorKind::Usage, before), "{e}");
    // What would have to be coded anew is refused before anything is changed.
    let (store, _) = source(Format::V3);
    let before = keys(&store);
    assert_eq!(
        wait(zaro::copy::convert_in_place(&store, "", Format::V2)).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    assert_eq!(keys(&store), before);
}

#[test]
fn a_conversion_that_fails_anywhere_can_be_finished() {
    // Everything fails from the n-th request on; look at what is there, and begin again.
    for n in 0.. {
        let (inner, _) = source(Format::V2);
        let want = (all(&inner, "a"), all(&inner, "g/b"));
        let failing: SharedStore = Arc::new(FaultStore::new(inner.clone()).with_all_after(n, Fault::Final));
        let done = wait(zaro::copy::convert_in_place(&failing, "", Format::V3));
        assert!(all(&inner, "a") == want.0 && all(&inner, "g/b") == want.1, "after {n} requests");
        if done.is_ok() {
            assert!(n > 30);
            return;
        }
        wait(zaro::copy::convert_in_place(&inner, "", Format::V3))
            .unwrap_or_else(|e| panic!("after {n} requests: {e}"));
        assert!(!keys(&inner).iter().any(|k| k.contains(".z")), "after {n} requests: {:?}", keys(&inner));
        assert!(all(&inner, "a") == want.0 && all(&inner, "g/b") == want.1, "finished after {n} requests");
    }
}

#[test]
fn old_consolidated_metadata_hide_nothing() {
    for format in [Format::V3, Format::V2] {
        let (store, _) = source(format);
        wait(hierarchy::consolidate(&store, "")).unwrap();
        // Somebody adds an array and does not consolidate again: as if the old document came back.
        let key = if format == Format::V3 { "zarr.json" } else { ".zmetadata" };
        let old = wait(store.get(key, None)).unwrap().unwrap();
        let new = zaro::meta::NewArray::default().with_format(format).with_shape(vec![3]);
        wait(hierarchy::create_array(&store, "late", &new, Existing::Refuse)).unwrap();
        let _ = wait(async { store.put(key, old, zaro::store::Condition::Always).await }).unwrap();
        let made: SharedStore = Arc::new(MemoryStore::new());
        assert_eq!(run(&store, &made, &CopyOptions::default()).unwrap().arrays, 3);
        assert!(wait(open(&made).array("late")).is_ok());
    }
}

#[test]
fn a_copy_is_seen_when_it_is_whole() {
    let (store, _) = source(Format::V3);
    for n in 0.. {
        let inner: SharedStore = Arc::new(MemoryStore::new());
        let failing: SharedStore = Arc::new(FaultStore::new(inner.clone()).with_all_after(n, Fault::Final));
        let options = CopyOptions::default().with_chunks(Some(Sizes::List(vec![4, 4, 4])));
        let done = run(&store, &failing, &options);
        // Whatever is readable is right.
        let zarr = open(&inner);
        for path in ["a", "g/b"] {
            if wait(zarr.array(path)).is_ok() {
                assert!(all(&inner, path) == all(&store, path), "after {n} requests");
            }
        }
        if done.is_ok() {
            assert!(n > 50);
            return;
        }
        run(&store, &inner, &options).unwrap_or_else(|e| panic!("going on after {n} requests: {e}"));
        for path in ["a", "g/b"] {
            assert!(all(&inner, path) == all(&store, path), "gone on after {n} requests");
        }
    }
}

#[test]
fn conversion_in_place_finds_chunks_under_another_separator() {
    let store = MemoryStore::new();
    store.put(".zarray", V2::new(&[4, 4], &[2, 2], "|u1").separator('.').document()).unwrap();
    for key in ["0/0", "0/1", "1/0", "1/1"] {
        store.put(key, vec![1, 2, 3, 4]).unwrap();
    }
    let store: SharedStore = Arc::new(store);
    let before = all(&store, "");
    wait(hierarchy::resize(&store, "", &[3, 3])).unwrap();
    wait(hierarchy::resize(&store, "", &[4, 4])).unwrap();
    let cut = all(&store, "");
    assert_eq!(cut, [1, 2, 1, 0, 3, 4, 3, 0, 1, 2, 1, 0, 0, 0, 0, 0]);
    assert_ne!(before, cut);
    wait(zaro::copy::convert_in_place(&store, "", Format::V3)).unwrap();
    assert_eq!(all(&store, ""), cut);
}

#[test]
fn a_place_that_cannot_be_is_refused_before_anything_is_copied() {
    let (store, _) = source(Format::V3);
    let (made, _) = source(Format::V2);
    let before = keys(&made);
    for (to, options) in
        [("new", CopyOptions::default()), ("a/inside", CopyOptions::default().with_format(Some(Format::V2)))]
    {
        let e = wait(copy(&open(&store), "s", "a", &made, to, &options)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
        assert_eq!(keys(&made), before);
    }
}

/// With more chunks than can be announced at once, and every worker failing at the same time.
#[test]
fn a_copy_that_fails_everywhere_ends() {
    let store = MemoryStore::new();
    let shape = [3000u64];
    put_array(&store, "", &V3::new(&shape, &[1], "uint8").document(), &Model::counting(&shape, 1));
    let store: SharedStore = Arc::new(store);
    let inner: SharedStore = Arc::new(MemoryStore::new());
    let failing: SharedStore = Arc::new(FaultStore::new(inner).with_key("c/", Fault::Final));
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(run(&store, &failing, &CopyOptions::default()).is_err()));
    assert!(answer.recv_timeout(std::time::Duration::from_secs(60)).expect("the copy hangs"));
}

/// Shards that fit into memory as they are encoded, but not as they are compared.
#[test]
fn large_shards_are_verified_in_parts() {
    let store = MemoryStore::new();
    let shape = [2048u64, 1024];
    let data = Model::counting(&shape, 1);
    put_array(&store, "", &V3::new(&shape, &[256, 256], "uint8").document(), &data);
    let (store, made): (SharedStore, SharedStore) = (Arc::new(store), Arc::new(MemoryStore::new()));
    let options = CopyOptions::default()
        .with_shards(Some(Some(Sizes::List(vec![1024, 1024]))))
        .with_context(Context::shared().with_memory(7 << 20))
        .with_verify(true);
    run(&store, &made, &options).unwrap();
    assert!(all(&made, "") == data.bytes);
}

/// Shards behind a transpose, and shards in shards: shapes inside are said in the order of what is around them.
#[test]
fn elements_of_transposed_and_nested_shards_are_put_into_any_order() {
    let data = Model::counting(&[8, 6, 4], 4);
    let shard = |inner: &[u64], codecs: &str| sharding(inner, codecs, LE, "end");
    let (turn, back) = (transpose(&[1, 0, 2]), transpose(&[2, 0, 1]));
    let chains = [
        (vec![4, 1, 4], format!("{turn},{}", shard(&[1, 4, 2], LE))),
        (vec![4, 1, 4], format!("{turn},{},{ZSTD}", shard(&[1, 4, 2], LE))),
        (vec![4, 1, 4], format!("{turn},{}", shard(&[1, 4, 2], &format!("{back},{LE}")))),
        (vec![8, 6, 4], shard(&[4, 2, 4], &shard(&[2, 1, 4], LE))),
        (vec![8, 6, 4], shard(&[4, 2, 4], &format!("{turn},{}", shard(&[1, 2, 4], &format!("{back},{LE}"))))),
    ];
    let zstd = parse_codecs("zstd").unwrap();
    for (chunks, chain) in &chains {
        let store = MemoryStore::new();
        put_array(&store, "", &V3::new(&[8, 6, 4], chunks, "int32").codecs(chain.clone()).document(), &data);
        let store: SharedStore = Arc::new(store);
        for layout in
            [None, Some(MemoryLayout::C), Some(MemoryLayout::F), Some(MemoryLayout::Axes(vec![2, 0, 1]))]
        {
            for codecs in [None, Some(zstd.clone())] {
                for (chunks, shards) in
                    [(None, None), (None, Some(None)), (Some(vec![2, 3, 4]), Some(Some(vec![4, 6, 4])))]
                {
                    let options = CopyOptions::default()
                        .with_layout(layout.clone())
                        .with_codecs(codecs.clone())
                        .with_chunks(chunks.map(Sizes::List))
                        .with_shards(shards.map(|s| s.map(Sizes::List)))
                        .with_verify(true);
                    let made: SharedStore = Arc::new(MemoryStore::new());
                    run(&store, &made, &options).unwrap_or_else(|e| panic!("{chain} {options:?}: {e}"));
                    assert!(all(&made, "") == all(&store, ""), "{chain} {options:?}");
                }
            }
        }
    }
}
