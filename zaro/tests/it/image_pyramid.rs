//! Pyramids and labels in a remote store that comes to its end at every request: nobody sees what is not whole, and the
//! same call goes on.

use std::sync::Arc;

use futures::TryStreamExt;
use zaro::blocking::block_on;
use zaro::hierarchy::{self, Existing};
use zaro::image::add_labels::{self, AddLabelsOptions, LabelSource};
use zaro::image::pyramid::{self, Downsampling, Factors, Frame, PyramidOptions};
use zaro::image::{Axis, ImageVersion, Level, Multiscale, image_at};
use zaro::internal::image::document;
use zaro::meta::{DataType, NewArray, NodeMeta};
use zaro::store::{MemoryStore, SharedStore, StoreExt as _};
use zaro::testing::{Fault, FaultStore};
use zaro::{OpenOptions, Order, ReadOptions, Selection, Values, WriteOptions, Zarr};

fn pixels() -> Vec<u8> {
    (0..50u32 * 37).map(|i| (i * i / 11) as u8).collect()
}

/// An image of one level, 50 by 37.
fn image(version: ImageVersion) -> SharedStore {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let axes = vec![Axis::named("y"), Axis::named("x")];
    let mut new = NewArray::default()
        .with_shape(vec![50, 37])
        .with_chunks(Some(vec![8, 8]))
        .with_data_type(DataType::UInt(8));
    document::prepare(&mut new, version, &axes);
    let level = Level { path: "0".into(), scale: Some(vec![1.0, 1.0]), translation: None };
    let multiscale = Multiscale { name: None, axes, levels: vec![level], method: None };
    let attributes = document::image(version, &multiscale, None, None);
    block_on(hierarchy::create_group(&store, "", version.format(), &attributes, Existing::Refuse)).unwrap();
    let array = block_on(hierarchy::create_array(&store, "0", &new, Existing::Refuse)).unwrap();
    array
        .write_slab_blocking(&Selection::all(), Values::new(pixels(), Order::C), &WriteOptions::default())
        .unwrap();
    store
}

fn zarr(store: &SharedStore) -> Zarr {
    let options = OpenOptions::default().with_use_consolidated(false);
    block_on(Zarr::from_store(store.clone(), options)).unwrap()
}

/// The pixels of all levels that the image at `path` names; each must be readable.
fn levels(store: &SharedStore, path: &str) -> Vec<Vec<u8>> {
    let zarr = zarr(store);
    let image = block_on(image_at(&zarr, path)).unwrap();
    let arrays = block_on(image.arrays(&zarr, &image.multiscales[0])).unwrap();
    arrays
        .iter()
        .map(|a| a.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes)
        .collect()
}

/// Whether there is a journal anywhere.
fn unfinished(store: &SharedStore) -> bool {
    let keys = block_on(async { store.keys("").map_ok(|e| e.key).try_collect::<Vec<_>>().await }).unwrap();
    keys.iter().any(|k| k.contains(".zaro-"))
}

fn options() -> PyramidOptions {
    PyramidOptions::default().with_levels(Some(4))
}

/// `store`, which ends after `n` requests.
fn ending(store: &SharedStore, n: u64) -> (SharedStore, Arc<FaultStore>) {
    let faulty = Arc::new(FaultStore::new(store.clone()).with_all_after(n, Fault::Final));
    (faulty.clone(), faulty)
}

/// Calls `work` with a store that ends after 0, 1, 2 … requests, until it comes to its end; `fresh` makes the
/// store, `check` looks at it after each end.
fn at_every_request(
    step: u64,
    fresh: &dyn Fn() -> SharedStore,
    work: &dyn Fn(&SharedStore) -> zaro::Result<()>,
    check: &dyn Fn(&SharedStore, bool),
) {
    let mut n = 0;
    loop {
        let store = fresh();
        let (faulty, _) = ending(&store, n);
        let whole = work(&faulty).is_ok();
        check(&store, whole);
        if whole {
            assert!(n > 20, "only {n} requests");
            return;
        }
        n += step;
    }
}

#[test]
fn levels_are_seen_when_all_are_whole() {
    for version in [ImageVersion::V04, ImageVersion::V06] {
        let good = image(version);
        block_on(pyramid::build(&good, "", &options())).unwrap();
        let wanted = levels(&good, "");
        assert_eq!(wanted.len(), 4);
        at_every_request(
            3,
            &|| image(version),
            &|store| block_on(pyramid::build(store, "", &options())).map(drop),
            &|store, _| {
                let seen = levels(store, "").len();
                assert!(seen == 1 || seen == 4, "{seen}");
                if seen == 1 {
                    block_on(pyramid::build(store, "", &options())).unwrap();
                }
                assert_eq!(levels(store, ""), wanted);
            },
        );
    }
}

#[test]
fn levels_that_are_replaced_are_old_or_none_or_new() {
    let old = options().with_method(Some(Downsampling::Decimate)).with_levels(Some(3));
    let new = options().with_existing(Existing::Replace);
    let fresh = || {
        let store = image(ImageVersion::V05);
        block_on(pyramid::build(&store, "", &old)).unwrap();
        store
    };
    let good = fresh();
    let before = levels(&good, "");
    block_on(pyramid::build(&good, "", &new)).unwrap();
    let after = levels(&good, "");
    at_every_request(5, &fresh, &|store| block_on(pyramid::build(store, "", &new)).map(drop), &|store, _| {
        let seen = levels(store, "");
        assert!(seen == before || seen == after || seen == before[..1]);
        block_on(pyramid::build(store, "", &new)).unwrap();
        assert_eq!(levels(store, ""), after);
    });
}

#[test]
fn an_image_is_made_elsewhere() {
    let source = image(ImageVersion::V05);
    let build = |store: &SharedStore| {
        block_on(pyramid::build_at(&zarr(&source), "source", "", &Frame::default(), store, "a/b", &options()))
            .map(drop)
    };
    let good: SharedStore = Arc::new(MemoryStore::new());
    build(&good).unwrap();
    let wanted = levels(&good, "a/b");
    assert_eq!((wanted.len(), &wanted[0]), (4, &pixels()));
    at_every_request(7, &|| Arc::new(MemoryStore::new()), &build, &|store, whole| {
        if !whole {
            build(store).unwrap();
        }
        assert_eq!(levels(store, "a/b"), wanted);
        assert!(!unfinished(store));
    });
}

#[test]
fn labels_are_listed_when_they_are_whole() {
    let fresh = || {
        let store = image(ImageVersion::V05);
        block_on(pyramid::build(&store, "", &options())).unwrap();
        store
    };
    let source = image(ImageVersion::V05);
    let NodeMeta::Array(_) = block_on(hierarchy::find(&source, "0")).unwrap().unwrap().meta else { panic!() };
    let array = block_on(zarr(&source).array("0")).unwrap();
    let from = LabelSource::Array(Box::new(array), Vec::new());
    let add = |store: &SharedStore, name: &str, existing: Existing| {
        let options = AddLabelsOptions::default().with_existing(existing);
        block_on(add_labels::add(store, "", name, &from, &options)).map(drop)
    };
    let names = |store: &SharedStore| -> Vec<String> {
        let zarr = zarr(store);
        let image = block_on(image_at(&zarr, "")).unwrap();
        block_on(image.labels(&zarr)).unwrap().into_iter().map(|l| l.name).collect()
    };
    let with_one = || {
        let store = fresh();
        add(&store, "first", Existing::Refuse).unwrap();
        store
    };
    at_every_request(11, &with_one, &|store| add(store, "second/a", Existing::Refuse), &|store, whole| {
        let listed = names(store);
        assert!(listed == ["first"] || listed == ["first", "second/a"], "{listed:?}");
        if !whole {
            add(store, "second/a", Existing::Replace).unwrap();
        }
        assert_eq!(names(store), ["first", "second/a"]);
        let image = levels(store, "");
        let labels = levels(store, "labels/second/a");
        assert_eq!(
            labels.iter().map(Vec::len).collect::<Vec<_>>(),
            image.iter().map(Vec::len).collect::<Vec<_>>()
        );
        assert_eq!(labels[0], pixels());
    });
}

#[test]
fn labels_follow_levels_that_others_rounded_up() {
    let plans = pyramid::follow(&[50, 37], &[vec![50, 37], vec![25, 19], vec![13, 10]]);
    let store = image(ImageVersion::V05);
    let options =
        PyramidOptions::default().with_method(Some(Downsampling::Mode)).with_factors(Factors::Levels(plans));
    block_on(pyramid::build(&store, "", &options)).unwrap();
    let all = levels(&store, "");
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [50 * 37, 25 * 19, 13 * 10]);
    // The last column is made of what remains.
    let pixels = pixels();
    let corner = [pixels[36], pixels[37 + 36]];
    assert_eq!(all[1][18], *corner.iter().min().unwrap());
}

/// An image of one level with labels of one level.
fn labelled() -> SharedStore {
    let store = image(ImageVersion::V05);
    let array = block_on(zarr(&store).array("0")).unwrap();
    let from = LabelSource::Array(Box::new(array), Vec::new());
    block_on(add_labels::add(&store, "", "cells", &from, &AddLabelsOptions::default())).unwrap();
    store
}

#[test]
fn labels_are_part_of_the_pyramid_that_is_finished() {
    let with_labels = options().with_labels(true);
    let good = labelled();
    assert_eq!(block_on(pyramid::build(&good, "", &with_labels)).unwrap().labels, ["cells"]);
    let wanted = (levels(&good, ""), levels(&good, "labels/cells"));
    assert_eq!(wanted.1.len(), 4);
    at_every_request(
        9,
        &labelled,
        &|store| block_on(pyramid::build(store, "", &with_labels)).map(drop),
        &|store, whole| {
            if !whole {
                block_on(pyramid::build(store, "", &with_labels)).unwrap();
            }
            assert_eq!((levels(store, ""), levels(store, "labels/cells")), wanted);
            assert!(!unfinished(store));
        },
    );
    // The same to another place, where the labels are copied first.
    let source = labelled();
    let build = |store: &SharedStore| {
        block_on(pyramid::build_at(&zarr(&source), "source", "", &Frame::default(), store, "", &with_labels))
            .map(drop)
    };
    at_every_request(23, &|| Arc::new(MemoryStore::new()), &build, &|store, whole| {
        if !whole {
            build(store).unwrap();
        }
        assert_eq!((levels(store, ""), levels(store, "labels/cells")), wanted);
        assert!(!unfinished(store));
    });
}

#[test]
fn levels_of_other_pixels_are_not_taken_up() {
    let changed = |store: &SharedStore| {
        let array = block_on(zarr(store).array("0")).unwrap();
        array
            .write_slab_blocking(
                &Selection::all(),
                Values::new([200; 50 * 37].to_vec(), Order::C),
                // As a program that knows nothing of journals.
                &WriteOptions::default().with_single_writer(true),
            )
            .unwrap();
    };
    let good = image(ImageVersion::V05);
    changed(&good);
    block_on(pyramid::build(&good, "", &options())).unwrap();
    let wanted = levels(&good, "");
    let mut refused = 0;
    for n in (0..).step_by(13) {
        let store = image(ImageVersion::V05);
        if block_on(pyramid::build(&ending(&store, n).0, "", &options())).is_ok() {
            break;
        }
        let begun = unfinished(&store);
        changed(&store);
        if begun {
            let e = block_on(pyramid::build(&store, "", &options())).unwrap_err();
            assert!(e.to_string().contains("chunks of its source have changed"), "{e}");
            refused += 1;
        }
        let anew = options().with_existing(Existing::Replace);
        block_on(pyramid::build(&store, "", &anew)).unwrap();
        assert_eq!(levels(&store, ""), wanted, "after {n} requests");
    }
    assert!(refused > 5);
}

#[test]
fn a_plain_array_that_became_an_image_is_finished() {
    let fresh = || {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let new = NewArray::default()
            .with_shape(vec![50, 37])
            .with_chunks(Some(vec![8, 8]))
            .with_data_type(DataType::UInt(8));
        let array = block_on(hierarchy::create_array(&store, "g/0", &new, Existing::Refuse)).unwrap();
        array
            .write_slab_blocking(&Selection::all(), Values::new(pixels(), Order::C), &WriteOptions::default())
            .unwrap();
        store
    };
    let frame = Frame { axes: vec![Axis::named("y"), Axis::named("x")], ..Frame::default() };
    let build =
        |store: &SharedStore| block_on(pyramid::build_from_array(store, "g/0", &frame, &options())).map(drop);
    at_every_request(5, &fresh, &build, &|store, whole| {
        if !whole {
            build(store).unwrap();
        }
        assert_eq!(levels(store, "g").len(), 4);
        assert!(!unfinished(store));
    });
}
