//! What remote stores are asked for, how often, and what becomes of their faults.

use crate::common;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::probe::{Probe, span};
use crate::common::{GZIP, LITTLE, Model, Rng, V2, V3, V3_GROUP, ZSTD, sharding};
use zaro::meta::Format;
use zaro::store::{ByteRange, MemoryStore, SharedStore, Store, StoreExt as _};
use zaro::{
    Array, CancelToken, ErrorKind, Missing, OpenOptions, Progress, ReadOptions, Selection, Task, Zarr,
};

fn keys(probe: &Probe) -> Vec<String> {
    probe.take().into_iter().map(|(k, _)| k).collect()
}

/// An array at the root of a probed store, opened, its requests so far forgotten.
fn probed(document: &str, data: &Model) -> (Arc<Probe>, Array) {
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", document, data);
    opened(Probe::new(store))
}

fn opened(probe: Probe) -> (Arc<Probe>, Array) {
    let probe = Arc::new(probe);
    let array = common::open_array(probe.clone()).unwrap();
    probe.take();
    (probe, array)
}

fn size(store: &dyn Store, key: &str) -> u64 {
    common::wait(store.size(key)).unwrap().unwrap()
}

// ---------------------------------------------------------------------------------------------- opening

#[test]
fn opening_asks_as_little_as_the_store_allows() {
    let array = V3::new(&[4], &[4], "uint8").document();
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", V3_GROUP).unwrap();
    store.put("a/b/zarr.json", array.clone()).unwrap();
    let probe = Arc::new(Probe::new(store));
    let zarr = common::open(probe.clone()).unwrap();
    common::wait(zarr.array("a/b")).unwrap();
    assert_eq!(keys(&probe), ["zarr.json", "a/b/zarr.json"]);

    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", array).unwrap();
    let probe = Arc::new(Probe::new(store));
    common::open_array(probe.clone()).unwrap();
    assert_eq!(keys(&probe), ["zarr.json"]);
    assert_eq!(probe.lists(), 0);
}

#[test]
fn a_consolidated_group_is_one_request() {
    let inner: Vec<String> = (0..50)
        .map(|i| format!(r#""g/a{i}":{}"#, V3::new(&[4], &[4], "uint8").document()))
        .chain([format!(r#""g":{V3_GROUP}"#)])
        .collect();
    let store = Arc::new(MemoryStore::new());
    let root = format!(
        r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":
        {{"kind":"inline","must_understand":false,"metadata":{{{}}}}}}}"#,
        inner.join(",")
    );
    store.put("zarr.json", root).unwrap();
    let probe = Arc::new(Probe::new(store).unlisted());
    let zarr = common::open(probe.clone()).unwrap();
    assert!(zarr.is_consolidated());
    common::wait(zarr.array("g/a7")).unwrap();
    assert_eq!(common::wait(zarr.children("g")).unwrap().len(), 50);
    assert_eq!(common::wait(zarr.walk("")).unwrap().len(), 52);
    assert_eq!(keys(&probe), ["zarr.json"]);
    assert_eq!(probe.lists(), 0);
}

#[test]
fn v2_consolidated_is_one_request_where_the_version_is_known() {
    let store = Arc::new(MemoryStore::new());
    let array = V2::new(&[4], &[4], "|u1").document();
    let all = format!(
        r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},"a/.zarray":{array},
        "a/.zattrs":{{"units":"m"}}}}}}"#
    );
    store.put(".zmetadata", all).unwrap();
    let probe = Arc::new(Probe::new(store).unlisted());
    let zarr = common::open(probe.clone()).unwrap();
    let a = common::wait(zarr.array("a")).unwrap();
    assert_eq!(a.meta().attributes.get("units").and_then(|u| u.as_str()), Some("m"));
    assert_eq!(keys(&probe), ["zarr.json", ".zmetadata"]);
    let options = OpenOptions::default().with_format(Some(Format::V2));
    common::wait(Zarr::from_store(probe.clone(), options)).unwrap();
    assert_eq!(keys(&probe), [".zmetadata"]);
}

// ---------------------------------------------------------------------------------------------- reading

/// Four shards of 64 × 64, inner chunks of 16 × 16, uncompressed so that places are known.
fn sharded() -> (V3, Model) {
    let codecs = sharding(&[16, 16], LITTLE, LITTLE, "end");
    (V3::new(&[128, 128], &[64, 64], "uint16").codecs(codecs), Model::counting(&[128, 128], 2))
}

/// Who goes through a shard window by window, and waits for each, soon has all of it; each byte is fetched ahead once.
#[test]
fn a_shard_that_is_read_window_by_window_is_fetched_ahead() {
    let codecs = sharding(&[16, 16], &format!("{LITTLE},{ZSTD}"), LITTLE, "end");
    let spec = V3::new(&[256, 256], &[256, 256], "uint16").codecs(codecs);
    let mut rng = Rng::new(7);
    let data = Model::random(&mut rng, &[256, 256], 2);
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &spec.document(), &data);
    let total = size(&*store, "c/0/0");
    let (probe, array) = opened(Probe::new(store).delay(Duration::from_millis(4)));
    let mut rng = Rng::new(8);
    let windows: Vec<(u64, u64)> = (0..200).map(|_| (rng.below(246), rng.below(246))).collect();
    let pass = || {
        for (y, x) in &windows {
            let read = common::read(&array, &format!("{y}:{},{x}:{}", y + 10, x + 10)).unwrap();
            for (i, pixel) in read.as_chunks::<2>().0.iter().enumerate() {
                let at = [y + (i / 10) as u64, x + (i % 10) as u64];
                assert_eq!(pixel, data.element(&at));
            }
        }
        probe.take()
    };
    let log = pass();
    assert!(log.len() < 20, "{log:?}");
    let bytes: u64 = log.iter().map(|(_, range)| span(*range, total)).map(|s| s.end - s.start).sum();
    assert!(bytes < 2 * total, "{bytes} of {total}: {log:?}");
    assert!(pass().is_empty());
}

#[test]
fn an_index_is_fetched_once_for_many_windows() {
    let (spec, data) = sharded();
    let (probe, array) = probed(&spec.document(), &data);
    for i in 0..40 {
        common::read(&array, &format!("{i},{i}:{}", i + 5)).unwrap();
    }
    let log = probe.take();
    let suffixes = log.iter().filter(|(_, r)| matches!(r, Some(ByteRange::Suffix(_)))).count();
    assert_eq!(suffixes, 1, "{log:?}");
    assert!(log.iter().all(|(k, _)| k == "c/0/0"));
}

#[test]
fn an_index_is_fetched_once_for_concurrent_reads() {
    let (spec, data) = sharded();
    for round in 0..20 {
        let store = Arc::new(MemoryStore::new());
        common::put_array(&store, "", &spec.document(), &data);
        let (probe, array) = opened(Probe::new(store).delay(Duration::from_millis(2)));
        let threads: Vec<_> = (0..16u64)
            .map(|i| {
                let (array, data) = (array.clone(), data.clone());
                std::thread::spawn(move || {
                    let got = common::read(&array, &format!("{i},:")).unwrap();
                    assert!(got == data.select(&[vec![i], (0..128).collect()], zaro::Order::C));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let log = probe.take();
        let suffixes = log.iter().filter(|(_, r)| matches!(r, Some(ByteRange::Suffix(_)))).count();
        assert_eq!(suffixes, 2, "round {round}: one for each of two shards: {log:?}");
    }
}

#[test]
fn neighbouring_inner_chunks_are_one_request() {
    let (spec, data) = sharded();
    let (probe, array) = probed(&spec.document(), &data);
    // Two inner chunks side by side, then four that have others between them, within the allowed gap.
    for (window, inner) in [("0:16,0:32", 2), ("0:32,16:48", 4)] {
        common::read(&array, window).unwrap();
        let log = probe.take();
        let ranges: Vec<_> = log.iter().filter(|(_, r)| matches!(r, Some(ByteRange::Span { .. }))).collect();
        assert_eq!(ranges.len(), 1, "{window}: {log:?}");
        let bytes = span(ranges[0].1, size(&*probe, "c/0/0"));
        assert!(bytes.end - bytes.start >= inner * 512, "{window}: {bytes:?}");
    }
}

#[test]
fn distant_inner_chunks_are_not_joined() {
    // 16 inner chunks of 1 MiB; the first and the last are wanted.
    let codecs = sharding(&[1 << 20], LITTLE, LITTLE, "start");
    let document = V3::new(&[16 << 20], &[16 << 20], "uint8").codecs(codecs).document();
    let data = Model { shape: vec![16 << 20], size: 1, bytes: vec![3; 16 << 20] };
    let (probe, array) = probed(&document, &data);
    common::read(&array, "[0,16777215]").unwrap();
    let log = probe.take();
    let total = size(&*probe, "c/0");
    let bytes: u64 = log.iter().map(|(_, r)| span(*r, total)).map(|s| s.end - s.start).sum();
    assert!(bytes < 3 << 20, "{bytes} bytes were fetched for two inner chunks of 1 MiB");
}

#[test]
fn a_small_shard_wanted_whole_is_one_request() {
    let (spec, data) = sharded();
    let (probe, array) = probed(&spec.document(), &data);
    assert!(common::read(&array, ":").unwrap() == data.bytes);
    let mut log = probe.take();
    log.sort_by(|a, b| a.0.cmp(&b.0));
    let wanted = ["c/0/0", "c/0/1", "c/1/0", "c/1/1"].map(|k| (k.to_owned(), None));
    assert_eq!(log, wanted);
}

#[test]
fn a_window_of_an_uncompressed_chunk_fetches_its_rows_only() {
    let data = Model::counting(&[2048, 1024], 4);
    let (probe, array) = probed(&V3::new(&[2048, 1024], &[2048, 1024], "uint32").document(), &data);
    let wanted = data.select(&[vec![1000], (20..30).collect()], zaro::Order::C);
    assert!(common::read(&array, "1000,20:30").unwrap() == wanted);
    let log = probe.take();
    assert_eq!(log.len(), 1, "{log:?}");
    let bytes = span(log[0].1, 8 << 20);
    assert!(bytes.start <= 4096 * 1000 && bytes.end >= 4096 * 1001, "{bytes:?}");
    assert!(bytes.end - bytes.start <= 1 << 20, "{bytes:?}");
}

#[test]
fn a_decoded_chunk_is_kept_for_the_next_window() {
    let spec = V3::new(&[100, 100], &[100, 100], "uint16").codecs(format!("{LITTLE},{ZSTD}"));
    let (probe, array) = probed(&spec.document(), &Model::counting(&[100, 100], 2));
    for i in 0..100 {
        common::read(&array, &i.to_string()).unwrap();
    }
    assert_eq!(keys(&probe), ["c/0/0"]);
}

// ---------------------------------------------------------------------------------------------- faults

#[test]
fn faults_are_errors_and_never_fill() {
    let plain = V3::new(&[64, 64], &[32, 32], "uint16");
    let kinds = [
        ("plain", plain.clone()),
        ("compressed", plain.clone().codecs(format!("{LITTLE},{GZIP}"))),
        ("sharded", plain.codecs(sharding(&[8, 8], LITTLE, LITTLE, "end"))),
    ];
    let data = Model::counting(&[64, 64], 2);
    for (name, spec) in kinds {
        let store = Arc::new(MemoryStore::new());
        common::put_array(&store, "", &spec.document(), &data);
        for (kind, message) in [
            (ErrorKind::NotPermitted, "the server refused (status 403)"),
            (ErrorKind::Io, "the server did not answer in time"),
            (ErrorKind::Io, "the server answered 503"),
        ] {
            let (_, array) = opened(Probe::new(store.clone()).fail("c/1/0", kind, message));
            for window in [":", "40,3", "32:64,0:32", "[63,0],5"] {
                let e = common::read(&array, window).unwrap_err();
                assert_eq!(e.kind(), kind, "{name} {window}: {e}");
                assert_eq!(e.key(), Some("c/1/0"), "{name} {window}: {e}");
                assert!(e.to_string().contains(message), "{name} {window}: {e}");
            }
            // The rest of the array is still there, and so is the fault.
            common::read(&array, "0:32").unwrap();
            assert!(common::read(&array, "40,3").is_err());
        }
    }
}

#[test]
fn a_fault_that_passes_leaves_no_trace() {
    let (spec, data) = sharded();
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &spec.document(), &data);
    let broken = Arc::new(AtomicBool::new(true));
    let flag = broken.clone();
    let probe = Probe::new(store).rule(move |key| {
        (key.starts_with("c/") && flag.load(Ordering::SeqCst)).then(|| zaro::Error::io("connection reset"))
    });
    let (_, array) = opened(probe);
    assert!(common::read(&array, "3,3").is_err());
    broken.store(false, Ordering::SeqCst);
    assert!(common::read(&array, ":").unwrap() == data.bytes);
    assert!(common::read(&array, "3,3").unwrap() == data.element(&[3, 3]));
}

#[test]
fn faults_of_metadata_are_errors_too() {
    let store = Arc::new(MemoryStore::new());
    store.put(".zgroup", r#"{"zarr_format":2}"#).unwrap();
    for (part, kind) in [
        ("zarr.json", ErrorKind::Io),
        (".zmetadata", ErrorKind::NotPermitted),
        (".zarray", ErrorKind::Io),
        (".zattrs", ErrorKind::NotPermitted),
    ] {
        let probe = Arc::new(Probe::new(store.clone()).fail(part, kind, "no"));
        let e = common::open(probe).unwrap_err();
        assert_eq!((e.kind(), e.key()), (kind, Some(part)), "{e}");
    }
    common::open(Arc::new(Probe::new(store))).unwrap();
}

/// Some buckets refuse what is not there to those who may not list: then V2's documents tell.
#[test]
fn a_refused_v3_document_does_not_hide_a_v2_node() {
    let store = Arc::new(MemoryStore::new());
    let refusing = |store: &Arc<MemoryStore>| {
        let probe = Probe::new(store.clone())
            .rule(|key| (!key.ends_with(".zgroup")).then(|| zaro::Error::not_permitted("no")));
        common::open(Arc::new(probe))
    };
    assert_eq!(refusing(&store).unwrap_err().kind(), ErrorKind::NotPermitted);
    store.put(".zgroup", r#"{"zarr_format":2}"#).unwrap();
    refusing(&store).unwrap();
}

#[test]
fn missing_chunks_are_fill_or_an_error_as_asked() {
    let spec = V3::new(&[4, 4], &[2, 2], "int16").fill("-5");
    let mut data = Model::counting(&[4, 4], 2);
    let store = Arc::new(MemoryStore::new());
    common::put_array_without(&store, "", &spec.document(), &data, &[vec![1, 0]]);
    data.paint(&[2, 0], &[2, 2], &(-5i16).to_le_bytes());
    for store in [store.clone() as SharedStore, Arc::new(Probe::new(store))] {
        let array = common::open_array(store).unwrap();
        assert!(common::read(&array, ":").unwrap() == data.bytes);
        let options = ReadOptions::default().with_missing(Missing::Error);
        let e = array.read_slab_blocking(&Selection::all(), &options).unwrap_err();
        assert_eq!((e.kind(), e.key()), (ErrorKind::NotFound, Some("c/1/0")), "{e}");
        array.read_slab_blocking(&Selection::parse("0:2").unwrap(), &options).unwrap();
    }
}

#[test]
fn an_array_that_is_deleted_while_it_is_read_is_an_error_if_chunks_were_missing() {
    let data = Model::counting(&[4], 1);
    let document = V3::new(&[4], &[2], "uint8").document();
    let carried = format!(
        r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":
        {{"kind":"inline","must_understand":false,"metadata":{{"g/a":{document}}}}}}}"#
    );
    for (root, whole, deleted, asked, fails) in [
        // Nothing is asked where no chunk is missing; once where one is.
        (V3_GROUP, true, true, vec![], false),
        (V3_GROUP, false, false, vec!["g/a/zarr.json"], false),
        (V3_GROUP, false, true, vec!["g/a/zarr.json", "zarr.json", "g/zarr.json"], true),
        // An array that a group carries needs no document of its own.
        (&carried, false, true, vec!["g/a/zarr.json", "zarr.json"], false),
    ] {
        let store = Arc::new(MemoryStore::new());
        store.put("zarr.json", root.to_owned()).unwrap();
        common::put_array(&store, "g/a", &document, &data);
        let probe = Arc::new(Probe::new(store.clone()));
        let array = common::wait(common::open(probe.clone()).unwrap().array("g/a")).unwrap();
        let steady = common::wait(array.steady()).unwrap();
        if !whole {
            common::wait(Store::delete(&*store, "g/a/c/1")).unwrap();
        }
        common::read(&array, ":").unwrap();
        if deleted {
            common::wait(Store::delete(&*store, "g/a/zarr.json")).unwrap();
        }
        probe.take();
        let checked = common::wait(steady.check());
        assert_eq!(keys(&probe), asked);
        assert_eq!(checked.is_err(), fails, "{checked:?}");
        if let Err(e) = checked {
            assert!(e.to_string().contains("was deleted, moved or converted while it was read"), "{e}");
        }
    }
    // A server that does not answer so says nothing.
    let store = Arc::new(MemoryStore::new());
    common::put_array_without(&store, "", &document, &data, &[vec![1]]);
    let gone = Arc::new(AtomicBool::new(false));
    let rule = gone.clone();
    let refuse = move |_: &str| rule.load(Ordering::SeqCst).then(|| zaro::Error::not_permitted("no"));
    let (_, array) = opened(Probe::new(store).rule(refuse));
    let steady = common::wait(array.steady()).unwrap();
    common::read(&array, ":").unwrap();
    gone.store(true, Ordering::SeqCst);
    common::wait(steady.check()).unwrap();
}

#[test]
fn a_wrong_separator_is_found_out() {
    let data = Model::counting(&[6, 6], 2);
    for (stated, stored) in [(None, '/'), (Some('.'), '/'), (Some('/'), '.')] {
        let mut spec = V2::new(&[6, 6], &[2, 2], "<u2");
        for compressor in ["null", r#"{"id":"zlib","level":1}"#] {
            spec.compressor = compressor.into();
            spec.separator = Some(stored);
            let store = Arc::new(MemoryStore::new());
            // The first chunks are really missing, so that the doubt lasts.
            let absent = [vec![0, 0], vec![0, 1]];
            common::put_array_without(&store, "", &spec.document(), &data, &absent);
            spec.separator = stated;
            store.put(".zarray", spec.document()).unwrap();
            let mut wanted = data.clone();
            wanted.paint(&[0, 0], &[2, 4], &[0, 0]);
            for store in [store.clone() as SharedStore, Arc::new(Probe::new(store))] {
                let array = common::open_array(store.clone()).unwrap();
                assert!(common::read(&array, ":").unwrap() == wanted.bytes, "{stated:?} {stored}");
                assert!(array.separator_differs());
                assert!(common::read(&array, "3,3").unwrap() == data.element(&[3, 3]));
                let strict = common::open_strict(store).unwrap();
                let e = common::read(&common::wait(strict.array("")).unwrap(), ":").unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
                assert!(e.to_string().contains("dimension_separator"), "{e}");
            }
        }
    }
}

#[test]
fn a_right_separator_costs_nothing_more() {
    let data = Model::counting(&[6, 6], 2);
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &V2::new(&[6, 6], &[2, 2], "<u2").document(), &data);
    let (probe, array) = opened(Probe::new(store));
    common::read(&array, ":").unwrap();
    assert_eq!(probe.take().len(), 9);
    assert!(!array.separator_differs());
}

// ---------------------------------------------------------------------------------------------- running

/// Options that note every progress report.
fn watched() -> (Arc<Mutex<Vec<Progress>>>, ReadOptions) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let task = Task::default().with_progress(move |p| sink.lock().unwrap().push(p));
    (seen, ReadOptions::default().with_task(task))
}

#[test]
fn progress_reaches_the_total() {
    let plain = V3::new(&[50, 50], &[16, 16], "uint16");
    let strings = V3::new(&[30], &[7], "string").fill("\"\"").codecs(r#"{"name":"vlen-utf8"}"#);
    for (spec, size) in [
        (plain.clone(), 2),
        (plain.clone().codecs(format!("{LITTLE},{GZIP}")), 2),
        (plain.clone().codecs(sharding(&[4, 4], LITTLE, LITTLE, "end")), 2),
        (plain.codecs(format!("{},{GZIP}", sharding(&[4, 4], LITTLE, LITTLE, "end"))), 2),
        (strings, 16),
    ] {
        let store = Arc::new(MemoryStore::new());
        let variable = size == 16;
        if variable {
            store.put("zarr.json", spec.document()).unwrap();
        } else {
            let data = Model::counting(&spec.shape, size);
            common::put_array_without(&store, "", &spec.document(), &data, &[vec![0, 2], vec![3, 3]]);
        }
        for store in [store.clone() as SharedStore, Arc::new(Probe::new(store))] {
            let array = common::open_array(store).unwrap();
            // The second time from what was kept.
            for window in [":", "3:20", "3:20", "::-3"] {
                let (seen, options) = watched();
                let slab = array.read_slab_blocking(&Selection::parse(window).unwrap(), &options).unwrap();
                let total = slab.bytes.len() as u64;
                let seen = seen.lock().unwrap();
                assert!(seen.iter().all(|p| p.total == Some(total) && p.done <= total), "{window}");
                assert_eq!(seen.iter().map(|p| p.done).max(), Some(total), "{window} {spec:?}");
            }
        }
    }
}

#[test]
fn a_cancelled_read_stops() {
    let data = Model::counting(&[64, 64], 2);
    let document = V3::new(&[64, 64], &[1, 64], "uint16").codecs(format!("{LITTLE},{GZIP}")).document();
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &document, &data);
    let stores: [SharedStore; 2] =
        [store.clone(), Arc::new(Probe::new(store).delay(Duration::from_millis(5)))];
    for store in stores {
        let array = common::open_array(store).unwrap();
        let cancel = CancelToken::new();
        let (stop, chunks) = (cancel.clone(), Arc::new(AtomicU64::new(0)));
        let count = chunks.clone();
        let progress = move |_| {
            if count.fetch_add(1, Ordering::SeqCst) == 2 {
                stop.cancel();
            }
        };
        let task = Task::default().with_progress(progress).with_cancel(&cancel);
        let options = ReadOptions::default().with_task(task);
        let e = array.read_slab_blocking(&Selection::all(), &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Cancelled, "{e}");
        assert!(chunks.load(Ordering::SeqCst) < 64, "all chunks were read all the same");
        // Nothing is left behind that would hinder the next read.
        assert!(common::read(&array, ":").unwrap() == data.bytes);
    }
}

#[test]
fn many_reads_of_one_array_at_once() {
    let data = Arc::new(Model::counting(&[96, 96], 2));
    for codecs in [format!("{LITTLE},{ZSTD}"), sharding(&[8, 8], &format!("{LITTLE},{ZSTD}"), LITTLE, "end")]
    {
        let document = V3::new(&[96, 96], &[32, 32], "uint16").codecs(codecs).document();
        let store = Arc::new(MemoryStore::new());
        common::put_array(&store, "", &document, &data);
        let (_, array) = opened(Probe::new(store).delay(Duration::from_micros(200)));
        let threads: Vec<_> = (0..8)
            .map(|t| {
                let (array, data) = (array.clone(), data.clone());
                std::thread::spawn(move || {
                    let mut rng = Rng::new(t);
                    for _ in 0..25 {
                        let picks: Vec<_> =
                            data.shape.iter().map(|n| common::random_index(&mut rng, *n)).collect();
                        let (indexes, positions): (Vec<_>, Vec<_>) = picks.into_iter().unzip();
                        let slab = array.read_slab_blocking(&Selection::new(indexes), &common::fortran());
                        assert!(slab.unwrap().bytes == data.select(&positions, zaro::Order::F));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    }
}

#[test]
fn requests_of_one_read_are_made_at_once() {
    let data = Model::counting(&[64], 1);
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &V3::new(&[64], &[1], "uint8").document(), &data);
    let (_, array) = opened(Probe::new(store).delay(Duration::from_millis(50)));
    let start = Instant::now();
    common::read(&array, ":").unwrap();
    assert!(start.elapsed() < Duration::from_millis(1600), "64 requests of 50 ms one after another");
}

/// The blocking calls work where a runtime is already running, of either kind.
fn blocking_calls() {
    let (spec, data) = sharded();
    let (_, array) = probed(&spec.document(), &data);
    assert!(common::read(&array, ":").unwrap() == data.bytes);
    let mut buffer = vec![0; data.bytes.len()];
    array.read_into(&Selection::all(), &ReadOptions::default(), &mut buffer).unwrap();
    assert!(buffer == data.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_calls_work_inside_a_runtime_of_many_threads() {
    blocking_calls();
}

#[tokio::test(flavor = "current_thread")]
async fn blocking_calls_work_inside_a_runtime_of_one_thread() {
    blocking_calls();
}

#[tokio::test(flavor = "current_thread")]
async fn reads_run_on_the_callers_runtime() {
    let (spec, data) = sharded();
    let (_, array) = probed(&spec.document(), &data);
    let options = ReadOptions::default();
    let (a, b) = (Selection::parse("0:70").unwrap(), Selection::parse("70:").unwrap());
    let (a, b) = tokio::join!(array.read_slab(&a, &options), array.read_slab(&b, &options));
    assert!([a.unwrap().bytes, b.unwrap().bytes].concat() == data.bytes);
}

#[test]
fn bytes_in_flight_stay_within_the_budget() {
    const MEMORY: usize = 2 << 20;
    // 256 chunks of 64 KiB, 16 MiB in all; shards with inner chunks that cannot be joined into few runs.
    let shape = [256, 32 << 10];
    let data = Model { shape: shape.to_vec(), size: 2, bytes: Rng::new(5).bytes(common::volume(&shape) * 2) };
    let plain = V3::new(&shape, &[1, 32 << 10], "uint16");
    let shards = V3::new(&shape, &[64, 32 << 10], "uint16");
    for (name, spec) in [
        ("plain", plain.clone()),
        ("compressed", plain.codecs(format!("{LITTLE},{ZSTD}"))),
        ("sharded", shards.codecs(sharding(&[1, 32 << 10], LITTLE, LITTLE, "end"))),
    ] {
        let store = Arc::new(MemoryStore::new());
        common::put_array(&store, "", &spec.document(), &data);
        let probe = Arc::new(Probe::new(store).delay(Duration::from_millis(1)));
        let options = OpenOptions::default().with_memory(MEMORY);
        let zarr = common::wait(Zarr::from_store(probe.clone(), options)).unwrap();
        let array = common::wait(zarr.array("")).unwrap();
        let slab = array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
        assert!(slab.bytes == data.bytes, "{name}");
        assert!(probe.most_held() <= MEMORY, "{name}: {} bytes were held at once", probe.most_held());
    }
}
