//! What is the same place, what may be deleted, what lies where something new is made, and steps in order.

use std::path::Path;
use std::sync::Arc;

use crate::common::wait;
use zaro::copy::{CopyOptions, copy};
use zaro::hierarchy::{self, Existing};
use zaro::meta::{DataType, Format, Json, NewArray};
use zaro::open::open_store;
use zaro::store::{LocalStore, MemoryStore, SharedStore, StoreExt as _, StoreOptions};
use zaro::testing::{Fault, FaultStore, TinyReply, TinyServer};
use zaro::{
    Array, Context, ErrorKind, OpenOptions, Order, ReadOptions, Selection, Values, WriteOptions, Zarr,
};

fn new(format: Format, shape: &[u64], chunks: &[u64]) -> NewArray {
    NewArray::default()
        .with_format(format)
        .with_shape(shape.to_vec())
        .with_data_type(DataType::UInt(16))
        .with_chunks(Some(chunks.to_vec()))
}

/// An array of `n` numbers from 1 on.
fn counted(store: &SharedStore, path: &str, format: Format, n: u64, chunk: u64) -> Array {
    let made =
        wait(hierarchy::create_array(store, path, &new(format, &[n], &[chunk]), Existing::Refuse)).unwrap();
    let values: Vec<u8> = (1..=n).flat_map(|i| u16::try_from(i % 60_000).unwrap().to_le_bytes()).collect();
    made.write_slab_blocking(
        &Selection::all(),
        Values::new(values.to_vec(), Order::C),
        &WriteOptions::default(),
    )
    .unwrap();
    made
}

fn read(store: &SharedStore, path: &str) -> Vec<u16> {
    let array = wait(hierarchy::open_array(store, path, &Context::shared())).unwrap();
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().to_vec().unwrap()
}

fn zarr(store: &SharedStore) -> Zarr {
    wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap()
}

fn local(path: &Path) -> SharedStore {
    Arc::new(LocalStore::new(path))
}

/// All files below a folder, with their content.
fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                out.push((name, std::fs::read(&path).unwrap_or_default()));
            }
        }
    }
    out.sort();
    out
}

/// A web server of all files below a folder, whose path there begins with `/data`.
fn served(folder: &Path) -> TinyServer {
    let folder = folder.to_owned();
    TinyServer::start(move |request| {
        let path = request.target.strip_prefix("/data/").unwrap_or("none").to_owned();
        match std::fs::read(folder.join(path)) {
            Ok(bytes) => TinyReply::Object(bytes),
            Err(_) => TinyReply::status(404),
        }
    })
}

#[test]
fn a_folder_and_its_web_address_are_one_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(dir.path());
    wait(hierarchy::create_group(&store, "", Format::V3, &Json::object(), Existing::Refuse)).unwrap();
    counted(&store, "g/x", Format::V3, 100, 10);
    counted(&store, "h/x", Format::V3, 100, 10);
    wait(hierarchy::consolidate(&store, "")).unwrap();
    wait(hierarchy::consolidate(&store, "g")).unwrap();
    let before = tree(dir.path());
    let server = served(dir.path());
    let web = |path: &str| {
        let uri = format!("{}/data/{path}", server.url().trim_end_matches('/'));
        wait(open_store(&uri, &StoreOptions::default())).unwrap()
    };
    let options = CopyOptions::default().with_existing(Existing::Replace);
    for (source, from, to) in
        [("", "", ""), ("g", "", "g"), ("g", "", ""), ("", "", "g"), ("g", "x", "g"), ("", "g", "g")]
    {
        let source = zarr(&web(source));
        let e = wait(copy(&source, "web", from, &store, to, &options)).unwrap_err();
        assert!(e.to_string().contains("same or nested"), "{e}");
        assert!(tree(dir.path()) == before, "from {from:?} to {to:?}");
    }
    // What is another place is replaced, though it has the same document.
    wait(copy(&zarr(&web("g")), "web", "x", &store, "h/x", &options)).unwrap();
    assert_eq!(read(&store, "h/x").len(), 100);
}

#[test]
fn links_in_the_source_may_lead_into_the_destination() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (source, target) = (local(&a), local(&b));
    wait(hierarchy::create_group(&source, "", Format::V3, &Json::object(), Existing::Refuse)).unwrap();
    counted(&target, "x", Format::V3, 100, 10);
    let options = CopyOptions::default().with_existing(Existing::Replace);
    let before = tree(&b);
    let refused = |source: &SharedStore| {
        let e = wait(copy(&zarr(source), "a", "", &target, "", &options)).unwrap_err();
        assert!(e.to_string().contains("same or nested"), "{e}");
        assert!(tree(&b) == before);
    };
    // A node, then a single chunk.
    std::os::unix::fs::symlink("../b/x", a.join("x")).unwrap();
    refused(&source);
    std::fs::remove_file(a.join("x")).unwrap();
    counted(&source, "x", Format::V3, 100, 10);
    std::fs::remove_file(a.join("x/c/3")).unwrap();
    std::os::unix::fs::symlink("../../../b/x/c/3", a.join("x/c/3")).unwrap();
    refused(&source);
    // Links of the destination are removed, and not what they lead to.
    std::fs::remove_file(a.join("x/c/3")).unwrap();
    std::fs::copy(b.join("x/c/3"), a.join("x/c/3")).unwrap();
    std::fs::create_dir_all(dir.path().join("c")).unwrap();
    counted(&local(&dir.path().join("c")), "y", Format::V3, 10, 10);
    std::os::unix::fs::symlink("../c/y", b.join("y")).unwrap();
    wait(hierarchy::delete(&target, "y")).unwrap();
    assert_eq!(read(&local(&dir.path().join("c")), "y").len(), 10);
    std::os::unix::fs::symlink("../c/y", b.join("y")).unwrap();
    wait(copy(&zarr(&source), "a", "", &target, "", &options)).unwrap();
    assert_eq!(read(&local(&dir.path().join("c")), "y").len(), 10);
    assert!(!b.join("y").exists());
}

#[test]
fn only_what_is_of_a_zarr_is_deleted() {
    let doc = r#"{"zarr_format":3,"node_type":"group"}"#;
    for (key, text, ours) in [
        ("letter.txt", "keep", false),
        ("x/notes", "keep", false),
        ("x/c/0.bak", "keep", false),
        ("x/c/0/1", "keep", false),
        ("zarr.json", r#"{"name":"my web app"}"#, false),
        ("zarr.json", "not even JSON", false),
        ("deep/er/thesis.tex", "keep", false),
        ("OME/secret.xml", "keep", false),
        // What belongs to it.
        ("zarr.json", r#"{"zarr_format":3,"node_ty"#, true),
        ("x/c/99", "beyond the border", true),
        (".zaro-copy.json", "{}", true),
        ("OME/METADATA.ome.xml", "<OME/>", true),
        ("y/.zgroup", r#"{"zarr_format":2}"#, true),
        ("y/.zattrs", "{}", true),
    ] {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let put = |key: &str, text: &str| {
            let _ = wait(store.put(key, text.to_owned().into(), zaro::store::Condition::Always)).unwrap();
        };
        put("zarr.json", doc);
        counted(&store, "x", Format::V3, 20, 10);
        put(key, text);
        let count = || {
            use futures::TryStreamExt;
            wait(async { store.keys("").try_collect::<Vec<_>>().await }).unwrap().len()
        };
        let before = count();
        for store in [store.clone(), Arc::new(FaultStore::new(store.clone()))] {
            let made =
                wait(hierarchy::create_array(&store, "", &new(Format::V3, &[3], &[3]), Existing::Replace));
            match made {
                Ok(_) => {
                    assert!(ours, "{key} {text} was deleted");
                    assert_eq!(count(), 1, "{key}");
                    put("zarr.json", doc);
                    put("x/c/0", "not all");
                    put(key, text);
                    wait(store.delete_prefix("x")).unwrap();
                    put("zarr.json", doc);
                }
                Err(e) => {
                    assert!(!ours, "{key} {text}: {e}");
                    assert_eq!(e.kind(), ErrorKind::Usage);
                    assert!(e.to_string().contains(key.rsplit('/').next().unwrap()), "{e}");
                    assert_eq!(count(), before, "{key}");
                }
            }
        }
    }
}

#[test]
fn a_folder_of_zarrs_is_no_zarr() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(dir.path());
    counted(&local(&dir.path().join("a.zarr")), "", Format::V3, 10, 10);
    let source: SharedStore = Arc::new(MemoryStore::new());
    counted(&source, "", Format::V3, 10, 10);
    let options = CopyOptions::default().with_existing(Existing::Replace);
    let e = wait(copy(&zarr(&source), "s", "", &store, "", &options)).unwrap_err();
    assert!(e.to_string().contains("a.zarr"), "{e}");
    assert_eq!(read(&store, "a.zarr").len(), 10);
}

/// A store that is as far away as a bucket, and ends after some requests.
fn ending(store: &SharedStore, after: u64) -> SharedStore {
    Arc::new(FaultStore::new(store.clone()).with_all_after(after, Fault::Final))
}

#[test]
fn a_killed_delete_is_finished_and_nothing_old_comes_back() {
    let mut seen = [false; 2];
    for after in 0..60 {
        let dir = tempfile::tempdir().unwrap();
        for store in [local(dir.path()), Arc::new(MemoryStore::new())] {
            counted(&store, "", Format::V3, 100, 10);
            let done = wait(hierarchy::delete(&ending(&store, after), "")).is_ok();
            let there = wait(hierarchy::find(&store, "")).unwrap().is_some();
            if there {
                assert_eq!(read(&store, "")[..3], [1, 2, 3], "after {after}");
            }
            let fresh = new(Format::V3, &[100], &[10]);
            if !there && !done {
                seen[0] = true;
                // Nothing is made where something may be left.
                match wait(hierarchy::create_array(&store, "", &fresh, Existing::Refuse)) {
                    Ok(_) => assert!(read(&store, "").iter().all(|v| *v == 0), "after {after}"),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Usage, "{e}"),
                }
            }
            seen[1] |= done;
            wait(hierarchy::create_array(&store, "", &fresh, Existing::Replace)).unwrap();
            assert!(read(&store, "").iter().all(|v| *v == 0), "after {after}");
            assert!(!wait(hierarchy::is_half_deleted(&store, "")).unwrap());
        }
    }
    assert_eq!(seen, [true; 2]);
}

/// A journal of a process that was killed is one of a run that is over: in one process, that is enough.
fn create_counted(store: &SharedStore, path: &str, existing: Existing, fails: bool) -> zaro::Result<Array> {
    let meta = new(Format::V3, &[40], &[10]).meta()?;
    let making = wait(zaro::create::array(store, path, &meta, existing))?;
    let filled = || {
        wait(making.check())?;
        let bytes: Vec<u8> = (1..=40u16).flat_map(u16::to_le_bytes).collect();
        making.array.write_slab_blocking(
            &Selection::all(),
            Values::new(bytes, Order::C),
            &WriteOptions::default(),
        )?;
        if fails { Err(zaro::Error::cancelled()) } else { Ok(()) }
    };
    let filled = filled();
    wait(making.finish(filled))
}

#[test]
fn an_array_that_is_filled_is_seen_when_it_is_whole() {
    let wanted: Vec<u16> = (1..=40).collect();
    // As the node's own document has it, and as the group above it carries it.
    let seen = |store: &SharedStore| -> Vec<Vec<u16>> {
        let own = wait(hierarchy::find(store, "g/x")).unwrap().map(|_| read(store, "g/x"));
        let carried = wait(zarr(store).array("g/x")).ok();
        let all = |a: Array| a.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
        own.into_iter().chain(carried.map(|a| all(a).to_vec().unwrap())).collect()
    };
    for existing in [Existing::Refuse, Existing::Replace] {
        let mut after = 0;
        loop {
            let dir = tempfile::tempdir().unwrap();
            let mut whole = 0;
            for store in [local(dir.path()), Arc::new(MemoryStore::new())] {
                let empty = Json::object();
                wait(hierarchy::create_group(&store, "", Format::V3, &empty, Existing::Refuse)).unwrap();
                if existing == Existing::Replace {
                    counted(&store, "g/x", Format::V3, 95, 10);
                }
                wait(hierarchy::consolidate(&store, "")).unwrap();
                let made = create_counted(&ending(&store, after), "g/x", existing, false);
                whole += usize::from(made.is_ok());
                let old: Vec<u16> = (1..=95).collect();
                for now in seen(&store) {
                    assert!(now == wanted || existing == Existing::Replace && now == old, "{after}: {now:?}");
                }
                // Somebody may have changed what is there since.
                let there = existing == Existing::Refuse && !seen(&store).is_empty();
                match create_counted(&store, "g/x", existing, false) {
                    Ok(_) => assert!(!there, "{after}"),
                    Err(e) => assert!(there && e.to_string().contains("already"), "{after}: {e}"),
                }
                assert_eq!(seen(&store), [wanted.clone(), wanted.clone()], "{after}");
                let left = wait(store.list("g/x")).unwrap();
                assert_eq!(left.objects, ["zarr.json"], "{after}");
            }
            if whole == 2 {
                break;
            }
            after += 1;
            assert!(after < 500);
        }
    }
}

#[test]
fn an_array_whose_filling_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(dir.path());
    assert!(create_counted(&store, "g/x", Existing::Refuse, true).is_err());
    assert_eq!(tree(dir.path()), []);
    // What somebody else put there meanwhile stays.
    let meta = new(Format::V3, &[40], &[10]).meta().unwrap();
    let making = wait(zaro::create::array(&store, "x", &meta, Existing::Refuse)).unwrap();
    std::fs::write(dir.path().join("x/thesis.txt"), "mine").unwrap();
    let e = wait(making.finish(Err(zaro::Error::cancelled())));
    assert!(e.is_err() && dir.path().join("x/thesis.txt").is_file());
    let e = create_counted(&store, "x", Existing::Refuse, false).unwrap_err();
    assert!(e.to_string().contains("other files"), "{e}");
}

#[test]
fn of_two_that_make_an_array_one_is_refused_and_touches_nothing() {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let meta = new(Format::V3, &[40], &[10]).meta().unwrap();
    let making = wait(zaro::create::array(&store, "x", &meta, Existing::Refuse)).unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        let e = create_counted(&store, "x", existing, false).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    }
    assert_eq!(wait(store.list("x")).unwrap().prefixes, Vec::<String>::new());
    let values = Values::new(vec![7; 80], Order::C);
    let filled = making.array.write_slab_blocking(&Selection::all(), values, &WriteOptions::default());
    let made = wait(making.finish(filled));
    assert_eq!(made.unwrap().path(), "x");
    assert_eq!(read(&store, "x"), [0x0707; 40]);
}

#[test]
fn chunks_that_lie_about_are_not_taken_for_those_of_a_new_array() {
    for (format, key) in
        [(Format::V3, "x/c/1"), (Format::V2, "x/1"), (Format::V2, "x/0.1"), (Format::V2, "x/0/1")]
    {
        let rank = if key == "x/0.1" || key == "x/0/1" { 2 } else { 1 };
        let store: SharedStore = Arc::new(MemoryStore::new());
        let _ = wait(store.put(key, vec![1u8; 40].into(), zaro::store::Condition::Always)).unwrap();
        let array = new(format, &vec![40; rank], &vec![20; rank]);
        let e = wait(hierarchy::create_array(&store, "x", &array, Existing::Refuse)).unwrap_err();
        assert!(e.to_string().contains("chunks of another array"), "{key}: {e}");
        // A copy looks as well.
        let source: SharedStore = Arc::new(MemoryStore::new());
        wait(hierarchy::create_array(&source, "x", &array, Existing::Refuse)).unwrap();
        let e = wait(copy(&zarr(&source), "s", "", &store, "", &CopyOptions::default())).unwrap_err();
        assert!(e.to_string().contains("chunks of another array"), "{key}: {e}");
        let listed = wait(store.list("")).unwrap();
        assert!(listed.objects.is_empty() && listed.prefixes == ["x"], "{listed:?}");
        // Nor are they deleted: they may be what somebody has of an array whose document was lost.
        assert!(wait(hierarchy::create_array(&store, "x", &array, Existing::Replace)).is_err());
        assert!(wait(store.size(key)).unwrap().is_some());
    }
}

#[test]
fn a_killed_shrink_is_finished_and_nothing_old_comes_back() {
    for (format, chunks) in [(Format::V3, 10), (Format::V2, 10), (Format::V3, 100)] {
        for after in (0..40).chain([1000]) {
            let dir = tempfile::tempdir().unwrap();
            for store in [local(dir.path()), Arc::new(MemoryStore::new())] {
                counted(&store, "x", format, 95, chunks);
                let _ = wait(hierarchy::resize(&ending(&store, after), "x", &[15]));
                let now = read(&store, "x");
                assert!(now.len() == 95 && now[94] == 95 || now.len() == 15, "old or new: {now:?}");
                assert_eq!(now[14], 15);
                if after % 2 == 0 {
                    wait(hierarchy::resize(&store, "x", &[15])).unwrap();
                    let left = wait(store.list(if format == Format::V3 { "x/c" } else { "x" })).unwrap();
                    let numbers = left.objects.iter().filter(|n| n.parse::<u64>().is_ok()).count();
                    assert_eq!(numbers, if chunks == 10 { 2 } else { 1 });
                } else if now.len() != 15 {
                    continue;
                }
                // Growing does not wait for that.
                wait(hierarchy::extend(&store, "x", 0, 80)).unwrap();
                let now = read(&store, "x");
                assert_eq!(now[14], 15);
                assert!(now[15..].iter().all(|v| *v == 0), "after {after}: {now:?}");
            }
        }
    }
}

#[test]
fn what_lies_beyond_the_border_does_not_come_into_sight() {
    for remote in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let files = local(dir.path());
        let store: SharedStore =
            if remote { Arc::new(FaultStore::new(files.clone())) } else { files.clone() };
        // Written by somebody who took the array to be longer than it is.
        let long = counted(&store, "x", Format::V3, 95, 10);
        wait(hierarchy::resize(&store, "x", &[15])).unwrap();
        let values: Vec<u8> = (1..=95u16).flat_map(u16::to_le_bytes).collect();
        long.write_slab_blocking(
            &Selection::all(),
            Values::new(values.to_vec(), Order::C),
            &WriteOptions::default().with_single_writer(true),
        )
        .unwrap();
        let new = wait(hierarchy::append(&store, "x", 0, 10, remote)).unwrap();
        assert_eq!(new.start, 15);
        let array = &new.array;
        assert!(
            array
                .read_slab_blocking(&Selection::start_count(&[15], &[10]), &ReadOptions::default())
                .unwrap()
                .bytes
                == vec![0; 20]
        );
        let rows = [9u16; 10].map(u16::to_le_bytes).concat();
        array
            .write_slab_blocking(
                &Selection::start_count(&[15], &[10]),
                Values::new(rows.to_vec(), Order::C),
                &WriteOptions::default(),
            )
            .unwrap();
        assert_eq!(read(&store, "x").len(), 15);
        wait(new.publish()).unwrap();
        assert_eq!(read(&store, "x")[14..], [15, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
        wait(hierarchy::resize(&store, "x", &[95])).unwrap();
        let now = read(&store, "x");
        assert_eq!(now[24], 9);
        assert!(now[25..].iter().all(|v| *v == 0), "{now:?}");
    }
}

#[test]
fn what_is_appended_while_an_array_shrinks_stays() {
    let remote: SharedStore = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let dir = tempfile::tempdir().unwrap();
    for (name, store) in [("files", local(dir.path())), ("remote", remote)] {
        for round in 0..6 {
            let path = format!("x{round}");
            counted(&store, &path, Format::V3, 4001, 4);
            std::thread::scope(|s| {
                s.spawn(|| wait(hierarchy::resize(&store, &path, &[2])).unwrap());
                for number in 0..2u16 {
                    let (store, path) = (&store, &path);
                    s.spawn(move || {
                        let length = || {
                            wait(hierarchy::open_array(store, path, &Context::shared())).unwrap().shape()[0]
                        };
                        while length() == 4001 {
                            std::thread::yield_now();
                        }
                        for _ in 0..10 {
                            let new = wait(hierarchy::append(store, path, 0, 7, false)).unwrap();
                            let rows = [60_001 + number; 7].map(u16::to_le_bytes).concat();
                            let place = Selection::start_count(&[new.start], &[7]);
                            new.array
                                .write_slab_blocking(
                                    &place,
                                    Values::new(rows.to_vec(), Order::C),
                                    &WriteOptions::default(),
                                )
                                .unwrap();
                            wait(new.publish()).unwrap();
                        }
                    });
                }
            });
            let now = read(&store, &path);
            assert_eq!(now.len(), 142);
            for number in 0..2 {
                let kept = now.iter().filter(|v| **v == 60_001 + number).count();
                assert_eq!(kept, 70, "{name} {round}: {now:?}");
            }
        }
    }
}

#[test]
fn nodes_that_are_made_while_others_consolidate_are_listed() {
    for format in [Format::V2, Format::V3] {
        for round in 0..4 {
            let store: SharedStore = Arc::new(MemoryStore::new());
            let group = |path: &str| {
                wait(hierarchy::create_group(&store, path, format, &Json::object(), Existing::Refuse))
                    .unwrap();
            };
            group("");
            (0..20).for_each(|i| group(&format!("g{i}")));
            std::thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        for _ in 0..5 {
                            wait(hierarchy::consolidate(&store, "")).unwrap();
                        }
                    });
                }
                for who in 0..2 {
                    let group = &group;
                    s.spawn(move || (0..15).for_each(|i| group(&format!("new{who}-{i}"))));
                }
                s.spawn(|| {
                    (0..10).for_each(|i| wait(hierarchy::delete(&store, &format!("g{i}"))).unwrap());
                });
            });
            let zarr = zarr(&store);
            assert!(zarr.is_consolidated());
            let names: Vec<String> = wait(zarr.walk("")).unwrap().into_iter().map(|n| n.path).collect();
            assert_eq!(names.len(), 1 + 10 + 30, "{format:?} {round}: {names:?}");
        }
    }
}

#[test]
fn a_copy_is_listed_by_the_groups_above_it() {
    for format in [Format::V2, Format::V3] {
        let store: SharedStore = Arc::new(MemoryStore::new());
        wait(hierarchy::create_group(&store, "", format, &Json::object(), Existing::Refuse)).unwrap();
        wait(hierarchy::consolidate(&store, "")).unwrap();
        let source: SharedStore = Arc::new(MemoryStore::new());
        counted(&source, "g/x", format, 10, 10);
        wait(copy(&zarr(&source), "s", "", &store, "new", &CopyOptions::default())).unwrap();
        let names: Vec<String> = wait(zarr(&store).walk("")).unwrap().into_iter().map(|n| n.path).collect();
        assert_eq!(names, ["", "new", "new/g", "new/g/x"]);
    }
}

#[test]
fn what_links_stand_for_is_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a");
    let store = local(&at);
    counted(&store, "g/x", Format::V3, 50, 10);
    let target = || local(&dir.path().join("copy"));
    let refused = |what: &str| {
        let e = wait(copy(&zarr(&store), "a", "", &target(), "", &CopyOptions::default())).unwrap_err();
        assert!(e.to_string().contains(what), "{e}");
        std::fs::remove_dir_all(dir.path().join("copy")).ok();
    };
    let link = |to: &str, name: &str| {
        let name = at.join(name);
        if name.symlink_metadata().is_ok() {
            std::fs::remove_file(&name).unwrap();
        }
        std::os::unix::fs::symlink(to, name).unwrap();
    };
    link("../../annex/none", "g/x/c/3");
    let listed = wait(store.list("g/x/c")).unwrap();
    assert_eq!(listed.objects, ["0", "1", "2", "3", "4"], "a listing says them");
    assert!(wait(store.get("g/x/c/3", None)).is_err() && wait(store.size("g/x/c/3")).is_err());
    refused("leads nowhere");
    link("3", "g/x/c/3");
    refused("g/x/c/3");
    // A folder in its place, with nothing in it.
    std::fs::remove_file(at.join("g/x/c/3")).unwrap();
    std::fs::create_dir(at.join("g/x/c/3")).unwrap();
    let here = wait(store.get("g/x/c/3", None)).unwrap_err();
    let direct = store.direct().unwrap().open("g/x/c/3").map(drop).unwrap_err();
    assert_eq!((here.kind(), here.to_string()), (direct.kind(), direct.to_string()));
    refused("found a folder where an object is expected");
    std::fs::remove_dir(at.join("g/x/c/3")).unwrap();
    wait(copy(&zarr(&store), "a", "", &target(), "", &CopyOptions::default())).unwrap();
    std::fs::remove_dir_all(dir.path().join("copy")).unwrap();
    // A node.
    link("../annex/node", "g/y");
    refused("leads nowhere");
    assert!(wait(store.get("g/y/zarr.json", None)).unwrap_err().to_string().contains("leads nowhere"));
    assert_eq!(wait(store.get("g/z/zarr.json", None)).unwrap(), None);
}

#[test]
fn what_does_not_fit_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    let source = local(&dir.path().join("a"));
    counted(&source, "x", Format::V3, 50, 10);
    // As large as no disk, of nothing.
    let chunk = std::fs::File::options().write(true).open(dir.path().join("a/x/c/3")).unwrap();
    chunk.set_len(1 << 42).unwrap();
    for to in [dir.path().join("b"), dir.path().join("b.zip")] {
        let target: SharedStore = match to.extension() {
            Some(_) => Arc::new(zaro::store::ZipCreateStore::create(&to).unwrap()),
            None => local(&to),
        };
        if target.free_space().is_none_or(|free| free > 1 << 42) {
            continue;
        }
        let e = wait(copy(&zarr(&source), "a", "", &target, "", &CopyOptions::default())).unwrap_err();
        assert!(e.to_string().contains("not enough space"), "{e}");
        drop(target);
        assert!(!to.exists());
    }
}

#[test]
fn a_relative_resize_that_fails_is_made_once() {
    for change in [-40i64, 40] {
        for call in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let store = local(dir.path());
            wait(hierarchy::create_group(&store, "", Format::V3, &Json::object(), Existing::Refuse)).unwrap();
            counted(&store, "x", Format::V3, 95, 10);
            wait(hierarchy::consolidate(&store, "")).unwrap();
            let by = |old: &[u64]| Ok(vec![old[0].checked_add_signed(change).unwrap()]);
            let failing = Arc::new(FaultStore::new(store.clone()).with_call(call, Fault::Final));
            let failed = wait(hierarchy::resize_by(&(failing.clone() as SharedStore), "x", by)).is_err();
            let now = read(&store, "x");
            assert!(now[54] == 55 && (now.len() == 95 || now.len() as i64 == 95 + change), "call {call}");
            if failed {
                wait(hierarchy::resize_by(&store, "x", by)).unwrap();
            }
            let now = read(&store, "x");
            assert_eq!(now.len() as i64, 95 + change, "call {call}");
            assert!(now.iter().enumerate().all(|(i, v)| usize::from(*v) == if i < 95 { i + 1 } else { 0 }));
            assert!(!failed || !dir.path().join("x/.zaro-turn.json").exists(), "call {call}");
            if failing.calls() < call {
                assert!(call > 10);
                break;
            }
        }
    }
}
