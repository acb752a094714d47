//! Shards: every layout the text allows, read whole and through random windows.

use crate::common;
use std::sync::Arc;

use crate::common::probe::{AsFiles, Probe};
use crate::common::{BIG, GZIP, LITTLE, Model, Rng, V3, ZSTD, sharding, transpose, volume};
use zaro::store::{MemoryStore, SharedStore, StoreExt as _};
use zaro::{Array, Order, ReadOptions, Selection};

const CRC: &str = r#"{"name":"crc32c"}"#;

/// Reads random windows of the array in `store`, by every way of reading, and holds them against `data`.
fn windows(name: &str, store: &Arc<MemoryStore>, data: &Model) {
    let stores: [SharedStore; 3] =
        [store.clone(), Arc::new(AsFiles(store.clone())), Arc::new(Probe::new(store.clone()))];
    let mut rng = Rng::new(name.len() as u64);
    for store in stores {
        let array = common::open_array(store).unwrap_or_else(|e| panic!("{name}: {e}"));
        let whole = array.read_slab_blocking(&Selection::all(), &ReadOptions::default());
        let whole = whole.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(whole.bytes == data.bytes, "{name}, whole, {}", array.store());
        // Opened anew, so that windows do not live on what the whole read left behind.
        let array = common::open_array(array.store().clone()).unwrap();
        for _ in 0..60 {
            let picks: Vec<_> = data.shape.iter().map(|n| common::random_index(&mut rng, *n)).collect();
            let (indexes, positions): (Vec<_>, Vec<_>) = picks.into_iter().unzip();
            let order = if rng.one_in(2) { Order::C } else { Order::F };
            let options = ReadOptions::default().with_order(order);
            let selection = Selection::new(indexes);
            let slab = array
                .read_slab_blocking(&selection, &options)
                .unwrap_or_else(|e| panic!("{name} {selection:?}: {e}"));
            let same = slab.bytes == data.select(&positions, order);
            assert!(same, "{name} {selection:?} {order:?} {}", array.store());
        }
    }
}

fn layout(name: &str, shape: &[u64], shards: &[u64], codecs: &str) {
    let data = Model::random(&mut Rng::new(7), shape, 2);
    let document = V3::new(shape, shards, "uint16").fill("999").codecs(codecs).document();
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &document, &data);
    windows(name, &store, &data);
}

#[test]
fn every_layout_reads_the_same() {
    let index = format!("{LITTLE},{CRC}");
    let inner = format!("{LITTLE},{ZSTD}");
    for (name, codecs) in [
        ("index at the end", sharding(&[3, 2, 4], &inner, &index, "end")),
        ("index at the start", sharding(&[3, 2, 4], &inner, &index, "start")),
        ("index without checksum", sharding(&[3, 2, 4], &inner, LITTLE, "end")),
        ("index big-endian", sharding(&[3, 2, 4], &inner, &format!("{BIG},{CRC}"), "start")),
        ("inner uncompressed", sharding(&[3, 2, 4], LITTLE, &index, "end")),
        ("inner big-endian", sharding(&[3, 2, 4], &format!("{BIG},{GZIP},{CRC}"), &index, "end")),
        ("one inner chunk", sharding(&[6, 4, 8], &inner, &index, "end")),
        ("inner chunks of one element", sharding(&[1, 1, 1], LITTLE, &index, "start")),
        ("gzip after", format!("{},{GZIP}", sharding(&[3, 2, 4], LITTLE, &index, "end"))),
        (
            "checksum and gzip after",
            format!("{},{CRC},{GZIP}", sharding(&[3, 2, 4], LITTLE, LITTLE, "start")),
        ),
        (
            "nested",
            sharding(
                &[3, 4, 8],
                &sharding(&[3, 2, 2], &inner, &format!("{BIG},{CRC}"), "start"),
                &index,
                "end",
            ),
        ),
        (
            "nested with gzip between",
            sharding(
                &[3, 4, 8],
                &format!("{},{GZIP}", sharding(&[3, 2, 2], LITTLE, &index, "end")),
                &index,
                "start",
            ),
        ),
        (
            "transposed inside",
            sharding(&[3, 2, 4], &format!("{},{inner}", transpose(&[2, 0, 1])), &index, "end"),
        ),
        // The shard of [6, 4, 8] is seen as [8, 6, 4] below the transpose.
        (
            "transposed outside",
            format!("{},{}", transpose(&[2, 0, 1]), sharding(&[4, 3, 2], &inner, &index, "end")),
        ),
        (
            "transposed outside and inside",
            format!(
                "{},{}",
                transpose(&[1, 2, 0]),
                sharding(&[2, 8, 3], &format!("{},{inner}", transpose(&[2, 1, 0])), &index, "start")
            ),
        ),
        (
            "transposed nested",
            format!(
                "{},{}",
                transpose(&[1, 2, 0]),
                sharding(
                    &[2, 8, 3],
                    &format!("{},{}", transpose(&[1, 0, 2]), sharding(&[4, 1, 3], &inner, &index, "start")),
                    &index,
                    "end"
                )
            ),
        ),
        (
            "a reordering index",
            sharding(&[3, 2, 4], &inner, &format!("{},{LITTLE}", transpose(&[3, 1, 0, 2])), "end"),
        ),
    ] {
        layout(name, &[11, 9, 13], &[6, 4, 8], &codecs);
    }
}

#[test]
fn one_dimension_and_none() {
    layout("one dimension", &[100], &[30], &sharding(&[5], LITTLE, LITTLE, "end"));
    layout("no dimension", &[], &[], &sharding(&[], LITTLE, LITTLE, "end"));
    layout("shard larger than the array", &[5, 5], &[12, 12], &sharding(&[4, 3], LITTLE, LITTLE, "end"));
}

#[test]
fn missing_inner_chunks_are_fill() {
    // The encoder leaves out inner chunks that hold nothing but fill.
    let shape = [12, 12];
    for (name, codecs) in [
        ("flat", sharding(&[3, 3], LITTLE, LITTLE, "end")),
        ("compressed after", format!("{},{GZIP}", sharding(&[3, 3], LITTLE, LITTLE, "start"))),
        ("nested", sharding(&[6, 6], &sharding(&[3, 2], LITTLE, LITTLE, "end"), LITTLE, "end")),
    ] {
        let mut data = Model::random(&mut Rng::new(3), &shape, 2);
        let fill = 999u16.to_le_bytes();
        data.paint(&[0, 3], &[3, 3], &fill);
        data.paint(&[6, 6], &[6, 6], &fill);
        data.paint(&[3, 0], &[3, 6], &fill);
        let document = V3::new(&shape, &[12, 12], "uint16").fill("999").codecs(codecs).document();
        let store = Arc::new(MemoryStore::new());
        common::put_array(&store, "", &document, &data);
        windows(name, &store, &data);
        // Where missing chunks are an error, missing inner chunks are too.
        let array = common::open_array(store).unwrap();
        let options = ReadOptions::default().with_missing(zaro::Missing::Error);
        let missing = array.read_slab_blocking(&Selection::parse("3:6,0:3").unwrap(), &options);
        if name != "compressed after" {
            assert!(missing.unwrap_err().is_not_found(), "{name}");
            assert!(
                array.read_slab_blocking(&Selection::parse("0:3,0:3").unwrap(), &options).is_ok(),
                "{name}"
            );
        }
    }
}

#[test]
fn strings_in_shards() {
    let words: Vec<String> = (0..60).map(|i| "é".repeat(i % 7) + &i.to_string()).collect();
    let inner = r#"{"name":"vlen-utf8"}"#;
    for codecs in [
        sharding(&[5], inner, LITTLE, "end"),
        sharding(&[10], &sharding(&[5], inner, LITTLE, "end"), LITTLE, "start"),
        format!("{},{GZIP}", sharding(&[5], inner, LITTLE, "end")),
    ] {
        let document = V3::new(&[60], &[20], "string").fill("\"?\"").codecs(codecs).document();
        let meta = common::model(&document).unwrap();
        let store = Arc::new(MemoryStore::new());
        store.put("zarr.json", document).unwrap();
        // The middle shard is left out.
        for shard in [0, 2] {
            let repr = zaro::codec::Repr {
                shape: vec![20],
                data_type: meta.data_type.clone(),
                fill: meta.fill.clone(),
            };
            let items = words[shard * 20..][..20].iter().map(|w| w.as_bytes());
            let chain = zaro::internal::codec::Chain::build(&meta.codecs, repr, true).unwrap();
            let bytes = chain.encode(zaro::codec::Buffer::variable(items).unwrap()).unwrap();
            store.put(&format!("c/{shard}"), bytes).unwrap();
        }
        for store in [store.clone() as SharedStore, Arc::new(Probe::new(store.clone()))] {
            let array = common::open_array(store).unwrap();
            let slab =
                array.read_slab_blocking(&Selection::parse("57:3:-4").unwrap(), &ReadOptions::default());
            let slab = slab.unwrap();
            let got: Vec<&str> = slab.items().map(|i| std::str::from_utf8(i).unwrap()).collect();
            let wanted: Vec<&str> = (4..58)
                .rev()
                .step_by(4)
                .map(|i| if (20..40).contains(&i) { "?" } else { words[i].as_str() })
                .collect();
            assert_eq!(got, wanted);
        }
    }
}

#[test]
fn inner_chunks_may_lie_anywhere() {
    // Written backwards, with gaps, and one inner chunk shared by two entries.
    let document = V3::new(&[8], &[8], "uint8").codecs(sharding(&[2], LITTLE, LITTLE, "end")).document();
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", document).unwrap();
    let mut shard = vec![9, 9, 9, 5, 6, 9, 9, 1, 2, 9];
    for (offset, size) in [(7u64, 2u64), (3, 2), (7, 2), (u64::MAX, u64::MAX)] {
        shard.extend(offset.to_le_bytes());
        shard.extend(size.to_le_bytes());
    }
    store.put("c/0", shard).unwrap();
    let data = Model { shape: vec![8], size: 1, bytes: vec![1, 2, 5, 6, 1, 2, 0, 0] };
    windows("scattered", &store, &data);
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let opens = |codecs: &str| -> zaro::Result<Array> {
        let store = Arc::new(MemoryStore::new());
        store.put("zarr.json", V3::new(&[12], &[12], "uint16").codecs(codecs).document())?;
        common::open_array(store)
    };
    let refused = [
        ("does not divide", sharding(&[5], LITTLE, LITTLE, "end")),
        ("zero", sharding(&[0], LITTLE, LITTLE, "end")),
        ("wrong rank", sharding(&[2, 2], LITTLE, LITTLE, "end")),
        ("compressed index", sharding(&[2], LITTLE, &format!("{LITTLE},{GZIP}"), "end")),
        ("index nowhere", sharding(&[2], LITTLE, LITTLE, "middle")),
        ("no inner codecs", sharding(&[2], "", LITTLE, "end")),
        ("unknown inner codec", sharding(&[2], &format!("{LITTLE},\"nobody\""), LITTLE, "end")),
        ("after bytes", format!("{LITTLE},{}", sharding(&[2], LITTLE, LITTLE, "end"))),
    ];
    for (name, codecs) in refused {
        assert!(opens(&codecs).is_err(), "{name}");
    }
    opens(&sharding(&[4], LITTLE, LITTLE, "end")).unwrap();
}

#[test]
fn a_damaged_index_is_an_error_by_its_checksum() {
    let index = format!("{LITTLE},{CRC}");
    let document = V3::new(&[8], &[8], "uint8").codecs(sharding(&[2], LITTLE, &index, "end")).document();
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &document, &Model::counting(&[8], 1));
    let mut shard = common::wait(store.get("c/0", None)).unwrap().unwrap().to_vec();
    let at = shard.len() - 20;
    shard[at] ^= 1;
    store.put("c/0", shard).unwrap();
    for store in [store.clone() as SharedStore, Arc::new(Probe::new(store.clone()))] {
        let e = common::read(&common::open_array(store).unwrap(), "0").unwrap_err();
        assert_eq!(e.kind(), zaro::ErrorKind::Invalid, "{e}");
        assert_eq!(e.key(), Some("c/0"), "{e}");
    }
    assert_eq!(volume(&[8]), 8);
}
