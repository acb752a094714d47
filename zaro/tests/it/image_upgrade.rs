//! Upgrades of whole hierarchies: nothing lost, nothing changed that has no need to, and no moment at which a killed
//! upgrade leaves something that cannot be read and finished.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{json, wait};
use futures::TryStreamExt;
use zaro::image::upgrade::{Fate, UpgradeOptions, Upgraded, upgrade, upgrade_in_place};
use zaro::image::{Found, ImageVersion, find};
use zaro::meta::{Json, NodeMeta};
use zaro::store::{MemoryStore, SharedStore, StoreExt as _};
use zaro::testing::{Fault, FaultStore};
use zaro::{OpenOptions, ReadOptions, Result, Selection, Zarr};

const SEED: &str = "01-seed001-masks-0.1.zarr";
const IMAGE: &str = "05-omezarrpy-0.4.zarr";
const NEW: &str = "06-omezarrpy-0.5.zarr";
const PLATE: &str = "09-hcs-plate-0.4.zarr";

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/images")
}

/// A sample in memory.
fn sample(name: &str) -> Arc<MemoryStore> {
    fn add(store: &MemoryStore, folder: &Path, key: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let key = if key.is_empty() { name } else { format!("{key}/{name}") };
            if entry.path().is_dir() {
                add(store, &entry.path(), &key);
            } else {
                store.put(&key, std::fs::read(entry.path()).unwrap()).unwrap();
            }
        }
    }
    let store = MemoryStore::new();
    add(&store, &samples().join(name), "");
    Arc::new(store)
}

fn objects(store: &SharedStore) -> BTreeMap<String, Vec<u8>> {
    wait(async {
        let mut all = BTreeMap::new();
        let mut keys = store.keys("");
        while let Some(entry) = keys.try_next().await? {
            all.insert(entry.key.clone(), store.get(&entry.key, None).await?.unwrap().to_vec());
        }
        Ok::<_, zaro::Error>(all)
    })
    .unwrap()
}

fn open(store: &SharedStore) -> Zarr {
    let options = OpenOptions::default().with_use_consolidated(false);
    wait(Zarr::from_store(store.clone(), options)).unwrap()
}

/// The elements of an array.
fn elements(store: &SharedStore, path: &str) -> Vec<u8> {
    let array = wait(open(store).array(path)).unwrap();
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes
}

/// The attributes of a node.
fn attributes(store: &SharedStore, path: &str) -> Json {
    wait(open(store).node(path)).unwrap().meta.attributes().clone()
}

fn to(version: ImageVersion) -> UpgradeOptions {
    UpgradeOptions::default().with_to(version)
}

fn elsewhere(from: &SharedStore, version: ImageVersion) -> Result<(SharedStore, Upgraded)> {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let done = wait(upgrade(&open(from), "a test", "", &store, "", &to(version)))?;
    Ok((store, done))
}

/// Every array of a hierarchy.
fn arrays(store: &SharedStore) -> Vec<String> {
    let nodes = wait(open(store).walk("")).unwrap();
    nodes.into_iter().filter(|n| matches!(n.meta, NodeMeta::Array(_))).map(|n| n.path).collect()
}

/// Every group of 0.5 and later states its version, if it is OME's.
fn all_state(store: &SharedStore, version: &str) {
    for node in wait(open(store).walk("")).unwrap() {
        if let NodeMeta::Group(group) = &node.meta
            && let Some(ome) = group.attributes.get("ome")
        {
            assert_eq!(ome.get("version").and_then(Json::as_str), Some(version), "{}", node.path);
        }
    }
}

#[test]
fn every_sample_goes_to_every_version_with_the_same_pixels() {
    for name in [SEED, IMAGE, NEW, PLATE] {
        let old: SharedStore = sample(name);
        let before = objects(&old);
        for version in [ImageVersion::V04, ImageVersion::V05, ImageVersion::V06] {
            let (new, _) = elsewhere(&old, version).unwrap();
            let here: SharedStore = sample(name);
            wait(upgrade_in_place(&here, "", &to(version))).unwrap();
            for store in [&new, &here] {
                for path in arrays(&old).iter().filter(|p| !p.starts_with("masks/")) {
                    assert_eq!(elements(store, path), elements(&old, path), "{name} {path} {version}");
                }
                assert_eq!(arrays(store).len(), arrays(&new).len());
                all_state(store, version.text());
                let left: Vec<String> = objects(store)
                    .into_keys()
                    .filter(|k| k.contains(".zaro-") || k.contains("masks"))
                    .collect();
                assert!(left.is_empty(), "{name} {left:?}");
                let other = if version >= ImageVersion::V05 { "/.z" } else { "zarr.json" };
                assert!(!objects(store).keys().any(|k| format!("/{k}").contains(other)), "{name} {version}");
            }
            let wanted = wait(find(&open(&new), "")).unwrap();
            let found = match wanted {
                Found::Image(image) => image.version,
                Found::Plate { version, .. } => version,
                _ => panic!("neither an image nor a plate"),
            };
            assert_eq!(found, version, "{name}");
        }
        assert_eq!(objects(&old), before, "the source stays as it is");
    }
}

#[test]
fn chunks_stay_where_they_are() {
    let store: SharedStore = sample(IMAGE);
    let chunks = |store: &SharedStore| -> BTreeMap<String, Vec<u8>> {
        objects(store).into_iter().filter(|(k, _)| !k.contains(".z") && !k.ends_with("zarr.json")).collect()
    };
    let before = chunks(&store);
    let done = wait(upgrade_in_place(&store, "", &to(ImageVersion::V06))).unwrap();
    assert_eq!(done.count(Fate::Stay), 4);
    assert_eq!(chunks(&store), before);
    // And back again, for which keys have to be those of before, which they are.
    let done = wait(upgrade_in_place(&store, "", &to(ImageVersion::V04))).unwrap();
    assert_eq!(done.count(Fate::Stay), 4);
    assert_eq!(chunks(&store), before);
    let again = wait(upgrade_in_place(&store, "", &to(ImageVersion::V04))).unwrap();
    assert_eq!(again.changed, 0);
}

#[test]
fn attributes_come_back_the_same() {
    fn sorted(json: &Json) -> String {
        match json {
            Json::Object(members) => {
                let mut members: Vec<String> =
                    members.iter().map(|(n, v)| format!("{n}:{}", sorted(v))).collect();
                members.sort();
                format!("{{{}}}", members.join(","))
            }
            Json::Array(items) => items.iter().map(sorted).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        }
    }
    for name in [IMAGE, PLATE] {
        let old: SharedStore = sample(name);
        let new: SharedStore = sample(name);
        for version in [ImageVersion::V05, ImageVersion::V06, ImageVersion::V05, ImageVersion::V04] {
            wait(upgrade_in_place(&new, "", &to(version))).unwrap();
        }
        for node in wait(open(&old).walk("")).unwrap() {
            if let NodeMeta::Group(group) = &node.meta {
                let back = attributes(&new, &node.path);
                // The sample's wells and fields do not all state their version.
                let (mut a, mut b) = (sorted(&group.attributes), sorted(&back));
                for text in [&mut a, &mut b] {
                    *text = text.replace(",version:\"0.4\"", "").replace("version:\"0.4\",", "");
                }
                assert_eq!(a, b, "{name} {}", node.path);
            }
        }
    }
}

#[test]
fn masks_become_labels() {
    let old: SharedStore = sample(SEED);
    let (new, done) = elsewhere(&old, ImageVersion::V05).unwrap();
    assert_eq!(done.from, ImageVersion::Seed);
    assert_eq!((done.count(Fate::Recode), done.count(Fate::Sample)), (4, 1));
    assert_eq!(
        attributes(&new, "labels").to_string(),
        r#"{"ome":{"version":"0.5","labels":["original/0"]}}"#
    );
    assert_eq!(attributes(&new, "labels/original").to_string(), "{}");
    let label = attributes(&new, "labels/original/0");
    assert_eq!(
        label.get("ome").unwrap().get("image-label").unwrap().to_string(),
        r#"{"colors":[{"label-value":1,"rgba":[0,128,0,128]},{"label-value":2,"rgba":[255,0,0,128]},{"label-value":3,"rgba":[255,255,255,255]}],"source":{"image":"../../../"},"version":"0.5"}"#
    );
    assert_eq!(elements(&new, "labels/original/0/0"), elements(&old, "masks/original/0"));
    // Every other pixel.
    let (large, small) = (elements(&new, "labels/original/0/0"), elements(&new, "labels/original/0/1"));
    for y in 0..16 {
        for x in 0..24 {
            assert_eq!(small[(y * 24 + x) * 8], large[(y * 2 * 48 + x * 2) * 8], "{y} {x}");
        }
    }
    let image = wait(zaro::image::image_at(&open(&new), "")).unwrap();
    let labels = wait(image.labels(&open(&new))).unwrap();
    assert_eq!(labels.len(), 1);
    assert_eq!(labels[0].levels.len(), 2);
    assert_eq!(labels[0].labels.colors.len(), 3);
}

#[test]
fn masks_of_booleans_and_masks_in_the_place_of_labels() {
    let store = sample(SEED);
    // As the service had them: not under masks, not listed, of booleans with 255 for true, with a wrong fill value.
    let array = r#"{"zarr_format":2,"shape":[1,1,1,32,48],"chunks":[1,1,1,32,48],"dtype":"|b1","compressor":null,
        "fill_value":false,"order":"C","filters":null}"#;
    store.put("labels/.zgroup", r#"{"zarr_format":2}"#).unwrap();
    store.put("labels/17/.zarray", array).unwrap();
    store
        .put("labels/17/.zattrs", r#"{"color":{"true":16711808},"image":{"array":"../../0/"},"mine":1}"#)
        .unwrap();
    let mut chunk = vec![0u8; 32 * 48];
    chunk[5] = 255;
    chunk[2 * 48 + 4] = 1;
    store.put("labels/17/0.0.0.0.0", chunk).unwrap();
    let store: SharedStore = store;
    for (version, level) in [(ImageVersion::V04, "labels/17/s0"), (ImageVersion::V05, "labels/17/s0")] {
        let here: SharedStore = Arc::new(MemoryStore::new());
        for (key, bytes) in objects(&store) {
            let _ = wait(here.put(&key, bytes.into(), zaro::store::Condition::Always)).unwrap();
        }
        wait(upgrade_in_place(&here, "", &to(version))).unwrap();
        let values = elements(&here, level);
        assert_eq!(values.len(), 32 * 48);
        assert_eq!(
            (values[5], values[2 * 48 + 4], values.iter().map(|v| u64::from(*v)).sum::<u64>()),
            (1, 1, 2)
        );
        let small = elements(&here, "labels/17/s1");
        assert_eq!((small[24 + 2], small.iter().map(|v| u64::from(*v)).sum::<u64>()), (1, 1));
        let image = wait(zaro::image::image_at(&open(&here), "")).unwrap();
        let labels = wait(image.labels(&open(&here))).unwrap();
        let names: Vec<&str> = labels.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["17", "original/0"]);
        assert_eq!(labels[0].labels.colors[0].rgba, [0, 255, 0, 128]);
        assert!(attributes(&here, level).to_string().contains("mine"));
        assert!(!objects(&here).keys().any(|k| k == "labels/17/.zarray" || k == "labels/17/0.0.0.0.0"));
    }
}

#[test]
fn what_is_not_omes_comes_along() {
    let store = sample(PLATE);
    store.put("OME/METADATA.ome.xml", "<OME/>").unwrap();
    store.put("A/1/notes.txt", "a note").unwrap();
    store.put("A/1/0/tables/.zgroup", r#"{"zarr_format":2}"#).unwrap();
    store.put("A/1/0/tables/.zattrs", r#"{"own":[1,null]}"#).unwrap();
    let array = r#"{"zarr_format":2,"shape":[3],"chunks":[3],"dtype":"<f8","compressor":null,"fill_value":null,
        "order":"C","filters":null}"#;
    store.put("A/1/0/tables/x/.zarray", array).unwrap();
    store.put("A/1/0/tables/x/0", [1.5f64, 2.5, -3.0].map(f64::to_le_bytes).concat()).unwrap();
    let store: SharedStore = store;
    let (new, done) = elsewhere(&store, ImageVersion::V05).unwrap();
    assert_eq!(done.files, 2);
    assert_eq!(objects(&new)["OME/METADATA.ome.xml"], b"<OME/>");
    assert_eq!(objects(&new)["A/1/notes.txt"], b"a note");
    assert_eq!(attributes(&new, "A/1/0/tables").to_string(), r#"{"own":[1,null]}"#);
    assert_eq!(elements(&new, "A/1/0/tables/x"), elements(&store, "A/1/0/tables/x"));
    wait(upgrade_in_place(&store, "", &to(ImageVersion::V06))).unwrap();
    assert_eq!(objects(&store)["OME/METADATA.ome.xml"], b"<OME/>");
    assert_eq!(elements(&store, "A/1/0/tables/x"), elements(&new, "A/1/0/tables/x"));
}

#[test]
fn wells_move_to_their_row_and_column() {
    let store = MemoryStore::new();
    for (key, bytes) in objects(&(sample(PLATE) as SharedStore)) {
        let moved = key.starts_with("A/") || key.starts_with("B/");
        let key = if moved { format!("2020-10-10/{key}") } else { key };
        let text = String::from_utf8_lossy(&bytes)
            .replace("0.4", "0.3")
            .replace("\"path\": \"A/", "\"path\": \"2020-10-10/A/");
        let text = text.replace("\"path\": \"B/", "\"path\": \"2020-10-10/B/");
        if key.ends_with(".zattrs") {
            store.put(&key, text).unwrap();
        } else {
            store.put(&key, bytes).unwrap();
        }
    }
    store.put("2020-10-10/.zgroup", r#"{"zarr_format":2}"#).unwrap();
    let old: SharedStore = Arc::new(store);
    for version in [ImageVersion::V04, ImageVersion::V05] {
        let (new, _) = elsewhere(&old, version).unwrap();
        let here: SharedStore = Arc::new(MemoryStore::new());
        for (key, bytes) in objects(&old) {
            let _ = wait(here.put(&key, bytes.into(), zaro::store::Condition::Always)).unwrap();
        }
        wait(upgrade_in_place(&here, "", &to(version))).unwrap();
        for store in [new, here] {
            assert_eq!(elements(&store, "B/2/0/0"), elements(&old, "2020-10-10/B/2/0/0"));
            let images = wait(zaro::image::images(&open(&store), "")).unwrap();
            assert_eq!(images[0], "A/1/0");
            assert!(!objects(&store).keys().any(|k| k.starts_with("2020")), "{:?}", objects(&store).keys());
        }
    }
}

#[test]
fn consolidated_metadata_are_renewed() {
    let store: SharedStore = sample(IMAGE);
    wait(zaro::hierarchy::consolidate(&store, "")).unwrap();
    let consolidated = |store: &SharedStore| {
        let zarr = wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap();
        assert!(zarr.is_consolidated());
        let node = wait(zarr.node("labels/cells")).unwrap();
        zaro::internal::image::stated(node.meta.attributes())
    };
    let source = wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap();
    let other: SharedStore = Arc::new(MemoryStore::new());
    wait(upgrade(&source, "x", "", &other, "", &to(ImageVersion::V06))).unwrap();
    assert_eq!(format!("{:?}", consolidated(&other)), r#"Known(V06, "0.6")"#);
    for (version, wanted) in [
        (ImageVersion::V05, r#"Known(V05, "0.5")"#),
        (ImageVersion::V06, r#"Known(V06, "0.6")"#),
        (ImageVersion::V04, r#"Known(V04, "0.4")"#),
    ] {
        wait(upgrade_in_place(&store, "", &to(version))).unwrap();
        assert_eq!(format!("{:?}", consolidated(&store)), wanted);
    }
    assert!(objects(&store).contains_key(".zmetadata"));
}

#[test]
fn a_dry_run_changes_nothing_and_faults_are_found_before_anything_is_changed() {
    let store: SharedStore = sample(SEED);
    let before = objects(&store);
    let dry = to(ImageVersion::V05).with_dry_run(true);
    let done = wait(upgrade_in_place(&store, "", &dry)).unwrap();
    assert_eq!(done.arrays.len(), 5);
    assert_eq!(objects(&store), before);

    // 0.4 cannot say what this says.
    let store: SharedStore = sample(NEW);
    wait(upgrade_in_place(&store, "", &to(ImageVersion::V06))).unwrap();
    let mut root = json(&String::from_utf8(objects(&store)["zarr.json"].clone()).unwrap());
    let mut attributes = root.get("attributes").unwrap().clone();
    let mut ome = attributes.get("ome").unwrap().clone();
    ome.set("scene", json(r#"{"coordinateTransformations":[]}"#));
    attributes.set("ome", ome);
    root.set("attributes", attributes);
    let _ = wait(store.put("zarr.json", root.to_string().into(), zaro::store::Condition::Always)).unwrap();
    let before = objects(&store);
    let e = wait(upgrade_in_place(&store, "", &to(ImageVersion::V04))).unwrap_err();
    assert!(e.to_string().contains("scene"), "{e}");
    assert_eq!(objects(&store), before);
    let lossy = to(ImageVersion::V04).with_lossy(true);
    let done = wait(upgrade_in_place(&store, "", &lossy)).unwrap();
    assert!(done.notes.iter().any(|n| n.contains("scene")), "{:?}", done.notes);
    assert_eq!(elements(&store, "s0"), elements(&(sample(NEW) as SharedStore), "s0"));

    // A part of a hierarchy that says otherwise.
    let store: SharedStore = sample(PLATE);
    let e = wait(upgrade_in_place(&store, "A/1/0", &to(ImageVersion::V05))).unwrap_err();
    assert!(e.to_string().contains("is part of"), "{e}");
    assert!(wait(upgrade_in_place(&store, "A/1/0/0", &to(ImageVersion::V05))).is_err());
    let other: SharedStore = Arc::new(MemoryStore::new());
    wait(upgrade(&open(&store), "x", "A/1/0", &other, "", &to(ImageVersion::V05))).unwrap();
    assert_eq!(elements(&other, "0"), elements(&store, "A/1/0/0"));
    // There is something already.
    assert!(wait(upgrade(&open(&store), "x", "", &other, "", &to(ImageVersion::V05))).is_err());
}

/// Upgrades in place with a store that fails for ever after so many requests, then with one that does not.
fn killed(name: &str, version: ImageVersion, array: &str, stride: usize) {
    let old: SharedStore = sample(name);
    let pixels = elements(&old, array);
    let wanted: SharedStore = sample(name);
    wait(upgrade_in_place(&wanted, "", &to(version))).unwrap();
    let wanted = objects(&wanted);
    let mut after = 0;
    loop {
        let store: SharedStore = sample(name);
        let dying: SharedStore =
            Arc::new(FaultStore::new(store.clone()).with_all_after(after as u64, Fault::Final));
        let done = wait(upgrade_in_place(&dying, "", &to(version)));
        // Whatever happened, there is an image, and its pixels are right.
        assert_eq!(elements(&store, array), pixels, "{name} to {version} killed after {after}");
        assert!(matches!(wait(find(&open(&store), "")).unwrap(), Found::Image(_) | Found::Plate { .. }));
        if done.is_err() && objects(&store).contains_key(".zaro-journal.json") {
            let other = if version == ImageVersion::V06 { ImageVersion::V05 } else { ImageVersion::V06 };
            assert!(
                wait(upgrade_in_place(&store, "", &to(other))).is_err(),
                "another version is not taken up"
            );
        }
        wait(upgrade_in_place(&store, "", &to(version))).unwrap();
        let got = objects(&store);
        let differ: Vec<&String> =
            got.keys().chain(wanted.keys()).filter(|k| got.get(*k) != wanted.get(*k)).collect();
        assert!(differ.is_empty(), "{name} to {version} killed after {after}: {differ:?}");
        if done.is_ok() {
            break;
        }
        after += stride;
    }
    assert!(after > stride * 5);
}

#[test]
fn a_killed_upgrade_is_finished() {
    killed(SEED, ImageVersion::V04, "0", 67);
    killed(SEED, ImageVersion::V05, "0", 53);
    killed(IMAGE, ImageVersion::V05, "0", 1);
    killed(NEW, ImageVersion::V06, "s0", 1);
    killed(NEW, ImageVersion::V04, "s0", 7);
    killed(PLATE, ImageVersion::V06, "B/2/1/0", 31);
}

#[test]
fn a_killed_upgrade_to_another_place_is_finished() {
    let source: SharedStore = sample(SEED);
    let (wanted, _) = elsewhere(&source, ImageVersion::V05).unwrap();
    let wanted = objects(&wanted);
    for after in (0..).step_by(17) {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let dying: SharedStore = Arc::new(FaultStore::new(store.clone()).with_all_after(after, Fault::Final));
        let done = wait(upgrade(&open(&source), "x", "", &dying, "", &to(ImageVersion::V05)));
        if done.is_err() && wait(zaro::hierarchy::find(&store, "")).unwrap().is_none() {
            let begun = wait(store.size(".zaro-journal.json")).unwrap().is_some();
            let resumed = wait(upgrade(&open(&source), "x", "", &store, "", &to(ImageVersion::V05))).unwrap();
            assert_eq!(resumed.resumed, begun, "{after}");
        } else if done.is_err() {
            wait(upgrade(&open(&source), "x", "", &store, "", &to(ImageVersion::V05))).unwrap();
        }
        assert!(objects(&store) == wanted, "killed after {after}");
        if done.is_ok() {
            break;
        }
    }
}

#[test]
fn masks_that_nothing_lists_become_labels() {
    let store: SharedStore = sample(SEED);
    for key in ["masks/.zattrs", "masks/original/.zgroup"] {
        wait(store.delete(key)).unwrap();
    }
    let (new, _) = elsewhere(&store, ImageVersion::V05).unwrap();
    assert_eq!(
        attributes(&new, "labels").get("ome").unwrap().get("labels").unwrap().to_string(),
        r#"["original/0"]"#
    );
    assert_eq!(elements(&new, "labels/original/0/0"), elements(&store, "masks/original/0"));
}

#[test]
fn an_upgrade_that_turns_out_impossible_leaves_nothing() {
    // A chunk that has to be coded anew, or copied, and is damaged.
    let store: SharedStore = sample(SEED);
    let before = objects(&store);
    let chunk = before.keys().find(|k| k.starts_with("masks/") && !k.contains(".z")).unwrap().clone();
    let bad = vec![7u8; 5];
    let _ = wait(store.put(&chunk, bad.into(), zaro::store::Condition::Always)).unwrap();
    let before = objects(&store);
    let e = wait(upgrade_in_place(&store, "", &to(ImageVersion::V05))).unwrap_err();
    assert!(matches!(e.kind(), zaro::ErrorKind::Invalid | zaro::ErrorKind::Unsupported), "{e}");
    let after = objects(&store);
    let differ: Vec<&String> =
        after.keys().chain(before.keys()).filter(|k| after.get(*k) != before.get(*k)).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

#[test]
fn what_is_unfinished_is_not_taken_for_something_else() {
    let source: SharedStore = sample(IMAGE);
    let store: SharedStore = Arc::new(MemoryStore::new());
    let dying: SharedStore = Arc::new(FaultStore::new(store.clone()).with_all_after(25, Fault::Final));
    wait(upgrade(&open(&source), "x", "", &dying, "", &to(ImageVersion::V05))).unwrap_err();
    assert!(objects(&store).contains_key(".zaro-journal.json"));
    let before = objects(&store);
    let options = zaro::copy::CopyOptions::default();
    let copied = wait(zaro::copy::copy(&open(&source), "x", "", &store, "", &options)).unwrap_err();
    let in_place = wait(upgrade_in_place(&store, "", &to(ImageVersion::V05))).unwrap_err();
    let converted = wait(zaro::copy::convert_in_place(&store, "", zaro::meta::Format::V3)).unwrap_err();
    for e in [copied, in_place, converted] {
        assert!(e.to_string().contains("`zaro image upgrade`"), "{e}");
        assert_eq!(e.kind(), zaro::ErrorKind::Usage);
    }
    assert!(objects(&store) == before);
    let e = wait(open(&store).node("")).unwrap_err();
    assert!(e.to_string().contains("unfinished work of `zaro image upgrade` from"), "{e}");
}
