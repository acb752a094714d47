//! Bugs that were found once, each with its story.

use crate::common;
use std::sync::Arc;
use std::time::Duration;

use crate::common::probe::Probe;
use crate::common::{BIG, GZIP, LITTLE, Model, V2, V3, sharding};
use zaro::store::{MemoryStore, SharedStore};
use zaro::{ReadOptions, Selection};

/// A chunk looked for under the stated separator while another chunk proved the other one right was never looked for
/// again, and read as fill.
#[test]
fn the_separator_turns_out_wrong_while_a_chunk_is_on_its_way() {
    let data = Model::counting(&[4, 4], 2);
    let store = Arc::new(MemoryStore::new());
    let spec = V2::new(&[4, 4], &[2, 2], "<u2").separator('/');
    common::put_array(&store, "", &spec.document(), &data);
    store.put(".zarray", spec.separator('.').document()).unwrap();
    let probe = Probe::new(store).slow("1.1", Duration::from_millis(60));
    let array = common::open_array(Arc::new(probe)).unwrap();
    assert!(common::read(&array, ":").unwrap() == data.bytes);
}

/// Chunks were known to the caches by a number that repeats itself after 2^64 chunks: one chunk was read for another.
#[test]
fn chunks_of_an_array_of_more_than_2_to_the_64_chunks_are_told_apart() {
    for codecs in [format!("{LITTLE},{GZIP}"), sharding(&[1, 2], LITTLE, LITTLE, "end")] {
        let document = V3::new(&[1 << 40, 1 << 40], &[2, 2], "uint8").codecs(codecs).document();
        let store = Arc::new(MemoryStore::new());
        // The first chunk and one whose number is 2^64.
        let small = |start: u8| Model {
            shape: vec![2, 2],
            size: 1,
            bytes: vec![start, start + 1, start + 2, start + 3],
        };
        let meta = common::model(&document.replace("1099511627776", "2")).unwrap();
        for (key, start) in [("c/0/0", 10), ("c/33554432/0", 20)] {
            common::encode(&meta, "", &small(start), |_, _, bytes| store.put(key, bytes).unwrap()).unwrap();
        }
        store.put("zarr.json", document).unwrap();
        for store in [store.clone() as SharedStore, Arc::new(Probe::new(store))] {
            let array = common::open_array(store).unwrap();
            for _ in 0..2 {
                assert_eq!(common::read(&array, "0,0").unwrap(), [10]);
                assert_eq!(common::read(&array, "67108864,0").unwrap(), [20]);
                assert_eq!(common::read(&array, "67108865,1").unwrap(), [23]);
            }
        }
    }
}

/// The end of a chunk beyond 2^64 was computed without a check.
#[test]
fn a_chunk_may_reach_beyond_2_to_the_64() {
    let document = V3::new(&[u64::MAX], &[(1 << 63) - 1], "uint8").fill("9").document();
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", document).unwrap();
    let array = common::open_array(store).unwrap();
    let window = Selection::start_count(&[u64::MAX - 3], &[3]);
    assert_eq!(array.read_slab_blocking(&window, &ReadOptions::default()).unwrap().bytes, [9, 9, 9]);
}

/// A rectilinear grid was spelt out in memory: a run of `[1, 67108864]` in each dimension took 2 GiB for each.
#[test]
fn a_rectilinear_grid_of_very_many_chunks_is_kept_as_runs() {
    let mut spec = V3::new(&[8, 1 << 41], &[], "uint8");
    spec.grid = r#"{"name":"rectilinear","configuration":{"kind":"inline",
        "chunk_shapes":[[[1,67108864]],[5,[2,1099511627776]]]}}"#
        .into();
    let grid = common::model(&spec.document()).unwrap().grid;
    assert_eq!(grid.counts(&spec.shape), [8, (1 << 40) - 1]);
    assert_eq!(grid.axes()[1].chunk_at((1 << 41) - 1), Some(((1 << 40) - 2, (1 << 41) - 1, 2)));
}

/// A fill value was made for elements of any size that numpy allows, and copied several times: gigabytes for
/// `"|V500000000"`.
#[test]
fn elements_of_absurd_size_are_refused() {
    assert!(common::model(&V2::new(&[8], &[8], "|V500000000").document()).is_err());
    assert!(common::model(&V2::new(&[8], &[8], "<U100000000").document()).is_err());
    assert!(common::model(&V3::new(&[8], &[8], "r8589934592").fill("[]").document()).is_err());
    common::model(&V2::new(&[8], &[8], "<U10000000").document()).unwrap();
}

/// A block of N5 that is smaller than its chunk was filled up to a chunk of any size: an abort for want of memory.
#[test]
fn a_small_n5_block_in_an_absurd_chunk_is_an_error() {
    let codecs = format!(
        r#"{{"name":"n5_default","configuration":{{"codecs":[{},{BIG}]}}}}"#,
        common::transpose(&[0])
    );
    let small = V3::new(&[4], &[4], "uint16").codecs(codecs);
    let huge = V3 { grid: common::regular(&[1 << 36]), ..small.clone() };
    let store = Arc::new(MemoryStore::new());
    common::put_array(&store, "", &small.document(), &Model::counting(&[4], 2));
    store.put("zarr.json", huge.document()).unwrap();
    assert!(common::read(&common::open_array(store).unwrap(), ":").is_err());
}

/// The same for a shard with a codec after it whose inner chunks are missing.
#[test]
fn a_shard_of_nothing_in_an_absurd_chunk_is_an_error() {
    let codecs = format!(r#"{},{{"name":"crc32c"}}"#, sharding(&[1 << 36], LITTLE, LITTLE, "end"));
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", V3::new(&[4], &[1 << 36], "uint16").fill("1").codecs(codecs).document()).unwrap();
    let index = [0xff; 16];
    store.put("c/0", [&index[..], &crc32c::crc32c(&index).to_le_bytes()].concat()).unwrap();
    assert!(common::read(&common::open_array(store).unwrap(), ":").is_err());
}
