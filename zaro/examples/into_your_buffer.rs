//! Read into memory of your own, again and again, without an allocation for each answer.
//!
//! `cargo run --example into_your_buffer`

use std::sync::Arc;

use zaro::store::MemoryStore;
use zaro::{OpenOptions, ReadOptions, Result, Selection, Zarr};

pub(crate) fn main() -> Result<()> {
    let zarr = zaro::blocking::block_on(Zarr::from_store(sample()?, OpenOptions::default()))?;
    let array = zaro::blocking::block_on(zarr.array(""))?;
    let options = ReadOptions::default();

    // One frame of the film; elements are little-endian bytes.
    let mut frame = vec![0u8; 4 * 4];
    for t in 0..3 {
        array.read_into(&Selection::start_count(&[t, 0, 0], &[1, 4, 4]), &options, &mut frame)?;
        let sum: u32 = frame.iter().map(|v| u32::from(*v)).sum();
        println!("frame {t}: mean {}", sum / 16);
    }

    // A buffer of the wrong length is refused before anything is read.
    let refused = array.read_into(&Selection::all(), &options, &mut frame);
    println!("{}", refused.map_or_else(|e| e.to_string(), |()| "read".to_owned()));
    Ok(())
}

/// Three frames of 4 × 4; the last one was never written and reads as its fill value.
fn sample() -> Result<Arc<MemoryStore>> {
    let store = MemoryStore::new();
    store.put(
        "zarr.json",
        r#"{"zarr_format": 3, "node_type": "array", "shape": [3, 4, 4], "data_type": "uint8", "fill_value": 255,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 4, 4]}},
            "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]}"#,
    )?;
    store.put("c/0/0/0", vec![10; 16])?;
    store.put("c/1/0/0", vec![20; 16])?;
    Ok(Arc::new(store))
}
