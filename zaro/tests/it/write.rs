//! Writing: what is read afterwards is what a naive writer would have made of it.

use std::sync::Arc;

use crate::common::{Model, Rng, V2, V3, open_array, random_index, sharding, step, transpose, volume};
use zaro::store::{LocalStore, MemoryStore, Store, StoreExt as _};
use zaro::{Array, Order, ReadOptions, Selection, Values, WriteOptions, blocking};

/// Puts `values`, in `order`, at the positions into the model.
fn put(model: &mut Model, positions: &[Vec<u64>], values: &[u8], order: Order) {
    let counts: Vec<u64> = positions.iter().map(|p| p.len() as u64).collect();
    if volume(&counts) == 0 {
        return;
    }
    let mut at = vec![0; counts.len()];
    loop {
        let mut index = 0usize;
        let dims: Vec<usize> =
            if order == Order::C { (0..at.len()).collect() } else { (0..at.len()).rev().collect() };
        for d in dims {
            index = index * counts[d] as usize + at[d] as usize;
        }
        let place: Vec<u64> = at.iter().zip(positions).map(|(a, p)| p[*a as usize]).collect();
        let value = &values[index * model.size..(index + 1) * model.size];
        model.paint(&place, &vec![1; place.len()], value);
        if !step(&mut at, &counts) {
            return;
        }
    }
}

fn empty(document: &str) -> Array {
    let store = MemoryStore::new();
    let name = if document.contains("\"zarr_format\": 2") || document.contains("\"zarr_format\":2") {
        ".zarray"
    } else {
        "zarr.json"
    };
    store.put(name, document.to_owned()).unwrap();
    open_array(Arc::new(store)).unwrap()
}

fn all(array: &Array) -> Vec<u8> {
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes
}

fn documents() -> Vec<(String, Vec<u64>, usize)> {
    let le = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    let be = r#"{"name":"bytes","configuration":{"endian":"big"}}"#;
    let zstd = r#"{"name":"zstd","configuration":{"level":1,"checksum":true}}"#;
    let index = format!("{le},{{\"name\":\"crc32c\"}}");
    let shape = vec![10u64, 7, 9];
    let v3 = |chunks: &[u64], codecs: String| {
        V3::new(&shape, chunks, "uint16").codecs(codecs).fill("7").document()
    };
    let documents = vec![
        v3(&[4, 3, 5], le.to_owned()),
        v3(&[4, 3, 5], format!("{be},{zstd}")),
        v3(&[10, 7, 9], format!("{}, {le}", transpose(&[2, 0, 1]))),
        v3(&[4, 4, 6], sharding(&[2, 2, 3], le, &index, "end")),
        v3(&[4, 4, 6], sharding(&[2, 4, 3], &format!("{be},{zstd}"), &index, "start")),
        v3(
            &[12, 8, 12],
            format!(
                "{},{}",
                transpose(&[1, 2, 0]),
                sharding(
                    &[4, 6, 6],
                    &format!(
                        "{}, {}",
                        transpose(&[2, 1, 0]),
                        sharding(&[3, 3, 2], &format!("{le},{zstd}"), &index, "end")
                    ),
                    &index,
                    "end"
                )
            ),
        ),
        v3(&[4, 4, 6], format!("{},{zstd}", sharding(&[2, 2, 3], le, &index, "end"))),
        V2::new(&shape, &[3, 7, 2], "<u2").compressor(r#"{"id":"zlib","level":1}"#).document(),
        V2::new(&shape, &[4, 3, 5], ">u2")
            .separator('/')
            .filters(r#"[{"id":"delta","dtype":">u2"}]"#)
            .document(),
    ];
    documents.into_iter().map(|d| (d, shape.clone(), 2)).collect()
}

#[test]
fn random_writes_are_read_back() {
    for (n, (document, shape, size)) in documents().into_iter().enumerate() {
        let mut rng = Rng::new(n as u64 + 1);
        let array = empty(&document);
        let mut model = Model { bytes: all(&array), shape: shape.clone(), size };
        let fill = model.bytes[..size].to_vec();
        for round in 0..60 {
            let (indexes, positions): (Vec<_>, Vec<_>) =
                shape.iter().map(|n| random_index(&mut rng, *n)).unzip();
            // A list with a position twice has no meaning for a write.
            if positions.iter().any(|p| (1..p.len()).any(|i| p[..i].contains(&p[i]))) {
                continue;
            }
            let counts: Vec<u64> = positions.iter().map(|p| p.len() as u64).collect();
            let values =
                if rng.one_in(4) { fill.repeat(volume(&counts)) } else { rng.bytes(volume(&counts) * size) };
            let order = *rng.pick(&[Order::C, Order::F]);
            let options =
                WriteOptions::default().with_keep_fill(rng.one_in(3)).with_single_writer(rng.one_in(3));
            array
                .write_slab_blocking(
                    &Selection::new(indexes.clone()),
                    Values::new(values.to_vec(), order),
                    &options,
                )
                .unwrap();
            put(&mut model, &positions, &values, order);
            assert!(all(&array) == model.bytes, "{document}: round {round}, {indexes:?}");
            // A reader without caches sees the same.
            let other = open_array(array.store().clone()).unwrap();
            assert!(all(&other) == model.bytes, "{document}: round {round}, another reader");
        }
        // All fill: nothing is left.
        let alone = WriteOptions::default().with_single_writer(true);
        let values = fill.repeat(volume(&shape));
        array.write_slab_blocking(&Selection::all(), Values::new(values.to_vec(), Order::C), &alone).unwrap();
        let keys = |store: &dyn Store| store_keys(store);
        assert_eq!(keys(array.store().as_ref()).len(), 1, "{document}");
    }
}

fn store_keys(store: &dyn Store) -> Vec<String> {
    use futures::TryStreamExt;
    blocking::block_on(async { store.keys("").map_ok(|e| e.key).try_collect::<Vec<_>>().await }).unwrap()
}

#[test]
fn a_slab_of_the_wrong_size_is_refused() {
    let (document, ..) = documents().remove(0);
    let array = empty(&document);
    let e = array.write_slab_blocking(
        &Selection::all(),
        Values::new([0; 3].to_vec(), Order::C),
        &WriteOptions::default(),
    );
    assert_eq!(e.unwrap_err().kind(), zaro::ErrorKind::Usage);
}

#[test]
fn threads_on_the_same_chunks_lose_nothing() {
    for (document, shape, _) in documents() {
        let dir = std::env::temp_dir().join(format!("zaro-write-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let name = if document.contains("zarr.json") || document.contains("node_type") {
            "zarr.json"
        } else {
            ".zarray"
        };
        std::fs::write(dir.join(name), &document).unwrap();
        // Each thread has every eighth element, so that all write into the same chunks.
        let count = volume(&shape);
        std::thread::scope(|s| {
            for thread in 0..8usize {
                let (dir, shape) = (&dir, &shape);
                s.spawn(move || {
                    let array = open_array(Arc::new(LocalStore::new(dir))).unwrap();
                    for i in (thread..count).step_by(8) {
                        let (i, [_, b, c]) = (i as u64, [shape[0], shape[1], shape[2]]);
                        let start = [i / (b * c), i / c % b, i % c];
                        let value = (i as u16 + 1000).to_le_bytes();
                        let selection = Selection::start_count(&start, &[1, 1, 1]);
                        array
                            .write_slab_blocking(
                                &selection,
                                Values::new(value.to_vec(), Order::C),
                                &WriteOptions::default(),
                            )
                            .unwrap();
                    }
                });
            }
        });
        let got = all(&open_array(Arc::new(LocalStore::new(&dir))).unwrap());
        let want: Vec<u8> = (0..count).flat_map(|i| (i as u16 + 1000).to_le_bytes()).collect();
        assert!(got == want, "{document}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn text_is_written_and_replaced() {
    let codecs = [
        r#"{"name":"vlen-utf8"}"#.to_owned(),
        sharding(
            &[1, 2],
            r#"{"name":"vlen-utf8"},{"name":"gzip","configuration":{"level":1}}"#,
            r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
            "end",
        ),
    ];
    for codecs in codecs {
        let document = |shape: &[u64], chunks: &[u64]| {
            V3::new(shape, chunks, "string").codecs(codecs.clone()).fill("\"-\"").document()
        };
        let source = empty(
            &V3::new(&[2, 3], &[2, 3], "string").codecs(r#"{"name":"vlen-utf8"}"#).fill("\"-\"").document(),
        );
        let store = MemoryStore::new();
        let mut words = zaro::codec::Buffer::default();
        for w in ["eins", "zwei", "", "vier", "-", "fünf"] {
            words.push(w.as_bytes()).unwrap();
        }
        let chunk = zaro::internal::codec::chain_of(&source).encode(words).unwrap();
        store
            .put(
                "zarr.json",
                V3::new(&[2, 3], &[2, 3], "string")
                    .codecs(r#"{"name":"vlen-utf8"}"#)
                    .fill("\"-\"")
                    .document(),
            )
            .unwrap();
        store.put("c/0/0", chunk).unwrap();
        let slab = open_array(Arc::new(store))
            .unwrap()
            .read_slab_blocking(&Selection::all(), &ReadOptions::default())
            .unwrap();
        let array = empty(&document(&[3, 4], &[2, 4]));
        array
            .write_slab_blocking(
                &Selection::start_count(&[1, 1], &[2, 3]),
                Values::from(slab.clone()),
                &WriteOptions::default(),
            )
            .unwrap();
        array
            .write_slab_blocking(
                &Selection::start_count(&[0, 0], &[2, 3]),
                Values::from(slab.clone()),
                &WriteOptions::default(),
            )
            .unwrap();
        let got = array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
        let got: Vec<&str> = got.items().map(|i| std::str::from_utf8(i).unwrap()).collect();
        assert_eq!(got, ["eins", "zwei", "", "-", "vier", "-", "fünf", "", "-", "vier", "-", "fünf"]);
    }
}

#[test]
fn chunks_under_another_separator_are_changed_not_hidden() {
    let store = Arc::new(MemoryStore::new());
    store.put(".zarray", V2::new(&[4, 4], &[2, 2], "|u1").separator('.').document()).unwrap();
    for key in ["0/0", "0/1", "1/0", "1/1"] {
        store.put(key, vec![1, 2, 3, 4]).unwrap();
    }
    let array = open_array(store.clone()).unwrap();
    array
        .write_slab_blocking(
            &Selection::parse("1,:").unwrap(),
            Values::new([9; 4].to_vec(), Order::C),
            &WriteOptions::default(),
        )
        .unwrap();
    assert_eq!(all(&array), [1, 2, 1, 2, 9, 9, 9, 9, 1, 2, 1, 2, 3, 4, 3, 4]);
    assert_eq!(store_keys(store.as_ref()).len(), 5);
}

/// Who knows only a shorter array does not overwrite what was appended behind it, in the same chunk.
#[test]
fn a_writer_with_an_old_shape_keeps_what_was_appended() {
    use zaro::hierarchy;
    use zaro::store::SharedStore;
    let le = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    let shards = sharding(&[2], le, le, "end");
    for codecs in [le.to_owned(), shards] {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let document = V3::new(&[4], &[8], "uint16").codecs(codecs).document();
        let _ = blocking::block_on(async {
            store.put("zarr.json", document.into(), zaro::store::Condition::Always).await
        })
        .unwrap();
        let old = open_array(store.clone()).unwrap();
        let (longer, at) = blocking::block_on(hierarchy::extend(&store, "", 0, 4)).unwrap();
        let appended = Selection::start_count(&[at], &[4]);
        let (ones, twos) = ([1, 0].repeat(4), [2, 0].repeat(4));
        longer
            .write_slab_blocking(&appended, Values::new(twos.to_vec(), Order::C), &WriteOptions::default())
            .unwrap();
        old.write_slab_blocking(
            &Selection::all(),
            Values::new(ones.to_vec(), Order::C),
            &WriteOptions::default(),
        )
        .unwrap();
        assert_eq!(all(&open_array(store).unwrap()), [ones, twos].concat());
    }
}
