//! What is replaced stays until the new is whole, whatever fails on the way.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;

use crate::common::{V3, wait};
use zaro::copy::{Copied, CopyOptions, Sizes, copy};
use zaro::hierarchy::{self, Existing};
use zaro::internal::meta::edit;
use zaro::internal::wrap::LogStore;
use zaro::meta::{DataType, Json, NewArray};
use zaro::store::{
    Condition, LocalStore, MemoryStore, RequestLog, RequestMethod, SharedStore, StoreExt as _,
};
use zaro::testing::{Fault, FaultStore};
use zaro::{
    Array, Context, OpenOptions, Order, ReadOptions, Result, Selection, Values, WriteOptions, Zarr, create,
};

const LE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;

fn put(store: &SharedStore, key: &str, bytes: impl Into<bytes::Bytes>) {
    let _ = wait(store.put(key, bytes.into(), Condition::Always)).unwrap();
}

/// A V3 group with an array `a` of 4 chunks, all of whose elements are `value`.
fn fill(store: &SharedStore, at: &str, value: u8) {
    put(store, &format!("{at}zarr.json"), r#"{"zarr_format":3,"node_type":"group"}"#);
    let document = V3::new(&[8, 8], &[4, 4], "uint8").codecs(LE).document();
    put(store, &format!("{at}a/zarr.json"), document);
    for chunk in ["0/0", "0/1", "1/0", "1/1"] {
        put(store, &format!("{at}a/c/{chunk}"), vec![value; 16]);
    }
}

/// A group with another array, `b`, of which nothing may be left.
fn old(store: &SharedStore, at: &str) {
    put(store, &format!("{at}zarr.json"), r#"{"zarr_format":3,"node_type":"group","attributes":{"old":1}}"#);
    put(store, &format!("{at}b/zarr.json"), V3::new(&[2], &[2], "uint8").codecs(LE).document());
    put(store, &format!("{at}b/c/0"), vec![9, 9]);
}

fn keys(store: &SharedStore) -> Vec<(String, Vec<u8>)> {
    let found: Vec<String> =
        wait(async { store.keys("").map_ok(|e| e.key).try_collect::<Vec<_>>().await }).unwrap();
    let mut keys: Vec<(String, Vec<u8>)> = found
        .into_iter()
        .map(|key| (key.clone(), wait(store.get(&key, None)).unwrap().unwrap_or_default().to_vec()))
        .collect();
    keys.sort();
    keys
}

fn zarr(store: &SharedStore) -> Zarr {
    wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap()
}

/// What a reader sees at `at`: the element of `a` or `b`, or nothing.
fn seen(store: &SharedStore, at: &str) -> Option<(&'static str, u8)> {
    let own = seen_by(store, at, false);
    if own.is_some() {
        assert_eq!(seen_by(store, at, true), own, "consolidated metadata are of another state");
    }
    // Nor by who knows the array.
    for (name, value) in [("a", 5), ("b", 9)] {
        let Ok(array) = wait(hierarchy::open_array(store, &format!("{at}{name}"), &Context::shared())) else {
            continue;
        };
        let elements = array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes;
        assert!(elements.iter().all(|e| *e == value || *e == 6), "half of it");
    }
    own
}

fn seen_by(store: &SharedStore, at: &str, use_consolidated: bool) -> Option<(&'static str, u8)> {
    let options = OpenOptions::default().with_use_consolidated(use_consolidated);
    let zarr = wait(Zarr::from_store(store.clone(), options)).ok()?;
    wait(zarr.node(at.trim_end_matches('/'))).ok()?;
    let mut found = Vec::new();
    for name in ["a", "b"] {
        let Ok(array) = wait(zarr.array(&format!("{at}{name}"))) else { continue };
        let elements = array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes;
        assert!(elements.iter().all(|e| *e == elements[0]), "half of it");
        found.push((name, elements[0]));
    }
    assert_eq!(found.len(), 1, "neither the old nor the new: {found:?}");
    found.pop()
}

fn options() -> CopyOptions {
    CopyOptions::default().with_existing(Existing::Replace)
}

fn run(source: &SharedStore, store: &SharedStore, to: &str, options: &CopyOptions) -> Result<Copied> {
    wait(copy(&zarr(source), "source", "", store, to, options))
}

fn memory() -> SharedStore {
    Arc::new(MemoryStore::new())
}

/// Lets every request from the `after`th on fail, for each `after`, and looks each time. `at_once` says that the store can
/// exchange the new for the old in one step.
fn failing(make: &dyn Fn() -> (SharedStore, Option<tempfile::TempDir>), to: &str, at_once: bool) {
    let source = memory();
    fill(&source, "", 5);
    let at = if to.is_empty() { String::new() } else { format!("{to}/") };
    let recut = options().with_chunks(Some(Sizes::List(vec![2, 8])));
    for way in [options(), recut] {
        // Where it lies in a group, that has consolidated metadata.
        let consolidate = |store: &SharedStore| {
            if !to.is_empty() {
                wait(hierarchy::consolidate(store, "")).unwrap();
            }
        };
        let (whole, _dir) = make();
        run(&source, &whole, to, &way).unwrap();
        consolidate(&whole);
        let expected = keys(&whole);
        let (mut nothing, mut resumed, mut kept) = (0, 0, 0);
        for after in 0.. {
            let (store, _dir) = make();
            old(&store, &at);
            consolidate(&store);
            let dying: SharedStore =
                Arc::new(FaultStore::new(store.clone()).with_all_after(after, Fault::Final));
            if run(&source, &dying, to, &way).is_ok() {
                assert!(after > 20);
                assert_eq!(keys(&store), expected);
                break;
            }
            match seen(&store, &at) {
                Some(("b", 9)) => kept += 1,
                None if !at_once => nothing += 1,
                other => assert_eq!(other, Some(("a", 5)), "after {after}"),
            }
            let again = run(&source, &store, to, &way).unwrap();
            resumed += usize::from(again.resumed);
            let left = keys(&store);
            assert_eq!(left, expected, "after {after}");
        }
        assert!(kept > 5 && resumed > 0, "{kept} {resumed}");
        // While the new is copied to its place, nothing is seen.
        assert_eq!(nothing > 0, !at_once, "{nothing}");
    }
}

#[test]
fn a_copy_that_fails_leaves_the_old_in_a_bucket() {
    for to in ["", "g"] {
        let make = || {
            let store = memory();
            if !to.is_empty() {
                put(&store, "zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#);
            }
            (store, None)
        };
        failing(&make, to, false);
    }
}

#[test]
fn a_copy_that_fails_leaves_the_old_in_a_folder() {
    let make = || {
        let dir = tempfile::tempdir().unwrap();
        let store: SharedStore = Arc::new(LocalStore::new(dir.path().join("d.zarr")));
        (store, Some(dir))
    };
    failing(&make, "", true);
}

#[test]
fn an_interrupted_replacement_is_not_finished_with_other_data() {
    let (source, store) = (memory(), memory());
    fill(&source, "", 5);
    old(&store, "");
    let dying: SharedStore =
        Arc::new(FaultStore::new(store.clone()).with_key(".zaro-new/zarr/a/c/1/1", Fault::Final));
    let e = run(&source, &dying, "", &options()).unwrap_err();
    assert!(e.to_string().contains("stays as it is"), "{e}");
    assert_eq!(seen(&store, ""), Some(("b", 9)));
    // Nobody writes to what is about to be replaced, and nobody takes it for a copy that is to be finished.
    let change = edit::AttributesEdit::Patch { set: vec![("u".into(), Json::int(1))], unset: Vec::new() };
    let patched = hierarchy::edit_attributes(&store, "b", &change);
    assert!(wait(patched).unwrap_err().to_string().contains("unfinished"));
    let e = run(&source, &store, "", &CopyOptions::default()).unwrap_err();
    assert_eq!(e.hints()[0].option, Some("overwrite"), "{e}");
    fill(&source, "", 6);
    assert!(!run(&source, &store, "", &options()).unwrap().resumed);
    assert_eq!(seen(&store, ""), Some(("a", 6)));
    let names = |store| keys(store).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(names(&store), names(&source));
}

#[test]
fn an_array_that_cannot_be_written_leaves_the_old() {
    let store = memory();
    old(&store, "");
    let before = keys(&store);
    let new = NewArray::new(DataType::UInt(8), [4]);
    let meta = new.meta().unwrap();
    let create = |filled| wait(wait(create::array(&store, "b", &meta, Existing::Replace))?.finish(filled));
    let failed = create(Err(zaro::Error::usage("no input")));
    assert!(failed.unwrap_err().to_string().contains("no input"));
    assert_eq!(keys(&store), before);
    create(Ok(())).unwrap();
    assert_eq!(wait(zarr(&store).array("b")).unwrap().shape(), [4]);
    assert!(keys(&store).iter().all(|(key, _)| !key.contains("zaro") && key != "b/c/0"));
}

#[test]
fn what_was_made_aside_and_is_nobodys_any_more_is_in_nobodys_way() {
    let source = memory();
    fill(&source, "", 5);
    let lost = || {
        let store = memory();
        old(&store, "");
        fill(&store, "g/.zaro-new/zarr/", 6);
        store
    };
    let store = lost();
    run(&source, &store, "g", &options()).unwrap();
    assert_eq!(seen(&store, "g/"), Some(("a", 5)));
    assert!(keys(&store).iter().all(|(key, _)| !key.contains("zaro")));
    let store = lost();
    wait(hierarchy::delete(&store, "")).unwrap();
    assert_eq!(keys(&store), []);
}

#[test]
fn files_that_come_meanwhile_are_not_deleted_with_the_old() {
    let source = memory();
    fill(&source, "", 5);
    for after in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let store: SharedStore = Arc::new(LocalStore::new(dir.path().join("d.zarr")));
        old(&store, "");
        let dying: SharedStore = Arc::new(FaultStore::new(store.clone()).with_all_after(after, Fault::Final));
        if run(&source, &dying, "", &options()).is_ok() {
            assert!(after > 20);
            break;
        }
        put(&store, "notes.txt", "mine");
        let e = run(&source, &store, "", &options()).unwrap_err();
        assert!(e.to_string().contains("notes.txt"), "after {after}: {e}");
        assert_eq!(wait(store.get("notes.txt", None)).unwrap().unwrap(), "mine");
        wait(store.delete("notes.txt")).unwrap();
        run(&source, &store, "", &options()).unwrap();
        assert_eq!(seen(&store, ""), Some(("a", 5)));
    }
}

#[test]
fn who_writes_to_an_array_that_was_replaced_meanwhile_is_told_before_and_after() {
    let store = memory();
    old(&store, "");
    let opened = wait(hierarchy::open_array(&store, "b", &Context::shared())).unwrap();
    let writing = wait(opened.writing()).unwrap();
    // In this process nobody is in their own way.
    let new = NewArray::new(DataType::UInt(16), [2]);
    wait(hierarchy::create_array(&store, "b", &new, Existing::Replace)).unwrap();
    assert!(wait(writing.check()).unwrap_err().to_string().contains("replaced"));
    drop(writing);
    let e = wait(opened.writing()).unwrap_err();
    assert!(e.to_string().contains("replaced"), "{e}");
    assert!(keys(&store).iter().all(|(key, _)| !key.contains(".zaro")));
}

#[test]
fn every_write_through_an_opened_array_is_seen_by_who_replaces_it() {
    let marked = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = marked.clone();
    let log = RequestLog::with_sink(move |request| {
        if request.method == RequestMethod::Put && request.key.contains(".zaro-writing") {
            noted.lock().unwrap().insert(request.key.clone());
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let files: SharedStore = Arc::new(LocalStore::new(dir.path()));
    let store: SharedStore = Arc::new(LogStore::new(files, Arc::new(log)));
    let marks = || marked.lock().unwrap().len();
    let data_type = DataType::UInt(16);
    let new = NewArray::default().with_shape(vec![64]).with_chunks(Some(vec![1])).with_data_type(data_type);
    wait(hierarchy::create_array(&store, "a", &new, Existing::Refuse)).unwrap();
    let array = wait(hierarchy::open_array(&store, "a", &Context::shared())).unwrap();
    let write = |array: &Array, at: u64| {
        let place = Selection::start_count(&[at], &[1]);
        wait(array.write_slab(&place, Values::new(vec![7, 0], Order::C), &WriteOptions::default()))
    };
    write(&array, 0).unwrap();
    assert_eq!(marks(), 1);
    assert!(keys(&store).iter().all(|(key, _)| !key.contains(".zaro")), "nothing is left of one write");
    // Where one follows another, it is said once for all of them, and not longer than the array is open.
    (1..64).for_each(|at| write(&array, at).unwrap());
    assert!(marks() <= 3, "{}", marks());
    drop(array);
    assert!(keys(&store).iter().all(|(key, _)| !key.contains(".zaro")));
    // Who holds it says it once.
    let array = wait(hierarchy::open_array(&store, "a", &Context::shared())).unwrap();
    let (held, before) = (wait(array.writing()).unwrap(), marks());
    write(&array, 5).unwrap();
    assert_eq!(marks(), before);
    drop(held);
    // Appending has a turn of its own, which says the same.
    let appending = wait(hierarchy::append(&store, "a", 0, 1, false)).unwrap();
    write(&appending.array, 64).unwrap();
    wait(appending.publish()).unwrap();
    assert_eq!(marks(), before);
    // What was opened before it was replaced is not written to.
    wait(hierarchy::create_array(&store, "a", &new.with_shape(vec![9]), Existing::Replace)).unwrap();
    assert!(write(&array, 0).unwrap_err().to_string().contains("replaced"));
}
