//! Nodes made, edited, resized, consolidated and deleted.

use std::sync::Arc;

use crate::common::{json, wait};
use futures::TryStreamExt;
use zaro::hierarchy::{self, Existing};
use zaro::meta::{AttributesEdit, DataType, Format, Json, NewArray};
use zaro::store::{MemoryStore, SharedStore, StoreExt as _};
use zaro::testing::{Fault, FaultStore};
use zaro::{ErrorKind, OpenOptions, Order, ReadOptions, Selection, Values, WriteOptions, Zarr};

fn empty() -> SharedStore {
    Arc::new(MemoryStore::new())
}

fn new(format: Format, shape: &[u64], chunks: &[u64]) -> NewArray {
    NewArray::default()
        .with_format(format)
        .with_shape(shape.to_vec())
        .with_data_type(DataType::UInt(16))
        .with_chunks(Some(chunks.to_vec()))
}

fn keys(store: &SharedStore) -> Vec<String> {
    let mut keys: Vec<String> =
        wait(async { store.keys("").map_ok(|e| e.key).try_collect::<Vec<_>>().await }).unwrap();
    keys.sort();
    keys
}

/// How many chunks the array `x` has.
fn chunks(store: &SharedStore) -> usize {
    let documents = |k: &str| k.contains("/.z") || k.ends_with("zarr.json");
    keys(store).iter().filter(|k| k.starts_with("x/") && !documents(k)).count()
}

fn open(store: &SharedStore) -> Zarr {
    wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap()
}

#[test]
fn arrays_come_with_their_groups() {
    for (format, group) in [(Format::V3, "zarr.json"), (Format::V2, ".zgroup")] {
        let store = empty();
        wait(hierarchy::create_array(&store, "a/b/x", &new(format, &[4], &[2]), Existing::Refuse)).unwrap();
        let found = keys(&store);
        for place in [group.to_owned(), format!("a/{group}"), format!("a/b/{group}")] {
            assert!(found.contains(&place), "{place}: {found:?}");
        }
        let again =
            wait(hierarchy::create_array(&store, "a/b/x", &new(format, &[9], &[2]), Existing::Refuse));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Usage);
        wait(hierarchy::create_array(&store, "a/b/x", &new(format, &[9], &[2]), Existing::Replace)).unwrap();
        assert_eq!(wait(open(&store).array("a/b/x")).unwrap().shape(), [9]);
        // Nothing lies in an array, and versions do not mix.
        let array = new(format, &[4], &[2]);
        let inside = hierarchy::create_array(&store, "a/b/x/y", &array, Existing::Refuse);
        assert_eq!(wait(inside).unwrap_err().kind(), ErrorKind::Usage);
        let other = if format == Format::V3 { Format::V2 } else { Format::V3 };
        let array = new(other, &[4], &[2]);
        let mixed = hierarchy::create_array(&store, "a/z", &array, Existing::Refuse);
        assert_eq!(wait(mixed).unwrap_err().kind(), ErrorKind::Usage);
    }
}

#[test]
fn copies_in_groups_above_follow_every_change() {
    for format in [Format::V3, Format::V2] {
        let store = empty();
        wait(hierarchy::create_array(&store, "a/x", &new(format, &[4], &[2]), Existing::Refuse)).unwrap();
        wait(hierarchy::consolidate(&store, "")).unwrap();
        assert!(open(&store).is_consolidated());
        wait(hierarchy::create_array(&store, "a/y", &new(format, &[5], &[2]), Existing::Refuse)).unwrap();
        let set = AttributesEdit::Patch { set: vec![("units".into(), Json::string("K"))], unset: vec![] };
        wait(hierarchy::edit_attributes(&store, "a/y", &set)).unwrap();
        wait(hierarchy::edit_attributes(&store, "", &set)).unwrap();
        wait(hierarchy::resize(&store, "a/x", &[7])).unwrap();
        let look = |path: &str| wait(open(&store).node(path)).unwrap().meta;
        assert!(open(&store).is_consolidated());
        assert_eq!(look("a/y").attributes().get("units"), Some(&Json::string("K")));
        assert_eq!(look("").attributes().get("units"), Some(&Json::string("K")));
        assert_eq!(wait(open(&store).array("a/x")).unwrap().shape(), [7]);
        assert_eq!(wait(open(&store).walk("")).unwrap().len(), 4);
        wait(hierarchy::delete(&store, "a/x")).unwrap();
        let left: Vec<String> = wait(open(&store).walk("")).unwrap().into_iter().map(|n| n.path).collect();
        assert_eq!(left, ["", "a", "a/y"]);
        assert!(!keys(&store).iter().any(|k| k.starts_with("a/x/")));
        assert!(wait(hierarchy::unconsolidate(&store, "")).unwrap());
        assert!(!open(&store).is_consolidated());
        assert!(!wait(hierarchy::unconsolidate(&store, "")).unwrap());
        assert_eq!(wait(open(&store).walk("")).unwrap().len(), 3);
    }
}

#[test]
fn what_shrinks_and_grows_again_is_fill() {
    for format in [Format::V3, Format::V2] {
        for large in [false, true] {
            // So many chunks that those there are listed, not asked for.
            let wide = if large { 1 << 20 } else { 6 };
            let store = empty();
            let array = wait(hierarchy::create_array(
                &store,
                "x",
                &new(format, &[9, wide], &[4, 4]),
                Existing::Refuse,
            ))
            .unwrap();
            let values: Vec<u8> = (1..=54u16).flat_map(u16::to_le_bytes).collect();
            let block = Selection::start_count(&[0, 0], &[9, 6]);
            array
                .write_slab_blocking(&block, Values::new(values.to_vec(), Order::C), &WriteOptions::default())
                .unwrap();
            assert_eq!(chunks(&store), 6);
            wait(hierarchy::resize(&store, "x", &[5, 3])).unwrap();
            assert_eq!(chunks(&store), 2);
            let array = wait(hierarchy::resize(&store, "x", &[9, 6])).unwrap();
            let got: Vec<u16> = array
                .read_slab_blocking(&Selection::all(), &ReadOptions::default())
                .unwrap()
                .to_vec()
                .unwrap();
            for (i, v) in got.iter().enumerate() {
                let inside = i / 6 < 5 && i % 6 < 3;
                let written = u16::try_from(i).unwrap() + 1;
                assert_eq!(*v, if inside { written } else { 0 }, "at {i}");
            }
        }
    }
}

#[test]
fn what_several_append_is_whole_and_none_is_lost() {
    let store = empty();
    wait(hierarchy::create_array(&store, "x", &new(Format::V3, &[0, 2], &[3, 2]), Existing::Refuse)).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u16 {
            let store = &store;
            s.spawn(move || {
                for _ in 0..10 {
                    let new = wait(hierarchy::append(store, "x", 0, 1, false)).unwrap();
                    let value = [t.to_le_bytes(), (t + 100).to_le_bytes()].concat();
                    let row = Selection::start_count(&[new.start, 0], &[1, 2]);
                    new.array
                        .write_slab_blocking(
                            &row,
                            Values::new(value.to_vec(), Order::C),
                            &WriteOptions::default(),
                        )
                        .unwrap();
                    wait(new.publish()).unwrap();
                }
            });
        }
    });
    let array = wait(open(&store).array("x")).unwrap();
    assert_eq!(array.shape(), [40, 2]);
    let got: Vec<u16> =
        array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().to_vec().unwrap();
    for t in 0..4u16 {
        assert_eq!(got.chunks(2).filter(|r| **r == [t, t + 100]).count(), 10);
    }
}

#[test]
fn an_append_that_is_given_up_has_not_happened() {
    let store = empty();
    wait(hierarchy::create_array(&store, "x", &new(Format::V3, &[2], &[4]), Existing::Refuse)).unwrap();
    let all = |store: &SharedStore| -> Vec<u16> {
        let array = wait(open(store).array("x")).unwrap();
        array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().to_vec().unwrap()
    };
    let begun = wait(hierarchy::append(&store, "x", 0, 3, false)).unwrap();
    let values = [7u16; 3].map(u16::to_le_bytes).concat();
    let rows = Selection::start_count(&[2], &[3]);
    begun
        .array
        .write_slab_blocking(&rows, Values::new(values.to_vec(), Order::C), &WriteOptions::default())
        .unwrap();
    assert_eq!(all(&store), [0, 0]);
    drop(begun);
    // What it wrote does not come into sight later.
    wait(hierarchy::extend(&store, "x", 0, 3)).unwrap();
    assert_eq!(all(&store), [0; 5]);
    // Others who change the shape without asking are told.
    let begun = wait(hierarchy::append(&store, "x", 0, 3, false)).unwrap();
    wait(hierarchy::append(&store, "x", 0, 1, true)).and_then(|other| wait(other.publish())).unwrap();
    let refused = wait(begun.publish()).unwrap_err();
    assert_eq!(refused.kind(), zaro::ErrorKind::Conflict);
    assert_eq!(all(&store), [0; 6]);
    let names = wait(store.list("x")).unwrap().objects;
    assert_eq!(names, ["zarr.json"]);
}

/// The group above carries the metadata, and cannot be told.
#[test]
fn what_the_groups_above_cannot_be_told_has_not_happened() {
    for format in [Format::V2, Format::V3] {
        let store = empty();
        let array = |path: &str, store: &SharedStore| {
            wait(hierarchy::create_array(store, path, &new(format, &[2], &[4]), Existing::Refuse))
        };
        array("g/x", &store).unwrap();
        wait(hierarchy::consolidate(&store, "g")).unwrap();
        let name = if format == Format::V3 { "g/zarr.json" } else { "g/.zmetadata" };
        let faulty: SharedStore = Arc::new(FaultStore::new(store.clone()).with_key(name, Fault::Conflict));
        let shape = |path: &str| {
            let zarr = wait(zaro::Zarr::from_store(store.clone(), OpenOptions::default())).unwrap();
            wait(zarr.array(path)).map(|a| a.shape().to_vec())
        };
        let append = |store: &SharedStore| {
            wait(hierarchy::append(store, "g/x", 0, 3, false)).and_then(|begun| wait(begun.publish()))
        };
        append(&faulty).unwrap_err();
        assert_eq!(shape("g/x").unwrap(), [2]);
        append(&store).unwrap();
        assert_eq!(shape("g/x").unwrap(), [5]);
        array("g/y", &faulty).unwrap_err();
        assert!(shape("g/y").is_err());
        array("g/y", &store).unwrap();
        assert_eq!(shape("g/y").unwrap(), [2]);
    }
}

#[test]
fn consolidated_metadata_have_what_several_changed_at_once() {
    for format in [Format::V2, Format::V3] {
        let store = empty();
        wait(hierarchy::create_array(&store, "g/x", &new(format, &[2], &[4]), Existing::Refuse)).unwrap();
        wait(hierarchy::consolidate(&store, "g")).unwrap();
        std::thread::scope(|s| {
            for t in 0..6u64 {
                let store = &store;
                s.spawn(move || {
                    for i in 0..8 {
                        let set = vec![(format!("a{t}"), Json::int(i))];
                        let patch = AttributesEdit::Patch { set, unset: Vec::new() };
                        wait(hierarchy::edit_attributes(store, "g/x", &patch)).unwrap();
                        wait(hierarchy::resize(store, "g/x", &[t + i + 1])).unwrap();
                    }
                });
            }
        });
        let seen = |use_consolidated: bool| {
            let options = OpenOptions::default().with_use_consolidated(use_consolidated);
            let root = zaro::store::PrefixStore::new(store.clone(), "g").unwrap();
            let zarr = wait(Zarr::from_store(Arc::new(root), options)).unwrap();
            assert_eq!(zarr.is_consolidated(), use_consolidated);
            let array = wait(zarr.array("x")).unwrap();
            (array.shape().to_vec(), array.meta().attributes.to_string())
        };
        assert_eq!(seen(true), seen(false), "{format:?}");
    }
}

#[test]
fn a_node_that_could_not_be_deleted_is_still_listed() {
    let store = empty();
    wait(hierarchy::create_array(&store, "g/x", &new(Format::V3, &[2], &[4]), Existing::Refuse)).unwrap();
    wait(hierarchy::consolidate(&store, "g")).unwrap();
    let faulty: SharedStore =
        Arc::new(FaultStore::new(store.clone()).with_key(".zaro-delete.json", Fault::Final));
    // Also what lies below one that could not be.
    wait(hierarchy::create_array(&store, "g/h/y", &new(Format::V3, &[2], &[4]), Existing::Refuse)).unwrap();
    for path in ["g/x", "g/h"] {
        wait(hierarchy::delete(&faulty, path)).unwrap_err();
    }
    let text = wait(store.get("g/zarr.json", None)).unwrap().unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(["\"x\"", "\"h\"", "\"h/y\""].iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn unknown_members_outlive_an_edit() {
    let store = empty();
    let document = r#"{"zarr_format":3,"node_type":"group","attributes":{"a":1},"mine":{"must_understand":false,"n":5}}"#;
    let _ = wait(async { store.put("zarr.json", document.into(), zaro::store::Condition::Always).await })
        .unwrap();
    let set = AttributesEdit::Patch { set: vec![("b".into(), Json::int(2))], unset: vec!["a".into()] };
    wait(hierarchy::edit_attributes(&store, "", &set)).unwrap();
    let text = wait(store.get("zarr.json", None)).unwrap().unwrap();
    let now = json(std::str::from_utf8(&text).unwrap());
    assert_eq!(
        now,
        json(
            r#"{"zarr_format":3,"node_type":"group","attributes":{"b":2},"mine":{"must_understand":false,"n":5}}"#
        )
    );
}

#[test]
fn a_node_is_not_left_alone_when_its_groups_are_deleted_while_it_is_made() {
    use std::time::Duration;
    for (format, group) in [(Format::V3, "zarr.json"), (Format::V2, ".zgroup")] {
        for call in 1.. {
            let store = empty();
            wait(hierarchy::create_group(&store, "g", format, &Json::object(), Existing::Refuse)).unwrap();
            // The maker waits at each of its steps in turn; all else is gone when it goes on.
            let slow = Fault::Delay(Duration::from_millis(40));
            let slow = Arc::new(FaultStore::new(store.clone()).with_call(call, slow));
            let made = std::thread::scope(|scope| {
                let deleted = scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(15));
                    wait(hierarchy::delete(&store, ""))
                });
                let making: SharedStore = slow.clone();
                let array = new(format, &[4], &[2]);
                let made = wait(hierarchy::create_array(&making, "g/n", &array, Existing::Refuse));
                let _ = deleted.join().unwrap();
                made
            });
            let left = keys(&store);
            assert!(left.is_empty() || left.iter().any(|k| k == group), "call {call}: {made:?}, {left:?}");
            if slow.calls() < call {
                assert!(call > 5);
                break;
            }
        }
    }
}
