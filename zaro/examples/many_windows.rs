//! Read many windows of one array at once: clones of an `Array` share what they know.
//!
//! `cargo run --example many_windows`

use std::sync::Arc;

use zaro::store::MemoryStore;
use zaro::{OpenOptions, ReadOptions, Result, Selection, Zarr};

pub(crate) fn main() -> Result<()> {
    // The budget for everything beside the answers: decoded chunks that are kept, indexes, bytes in flight.
    let options = OpenOptions::default().with_memory(64 << 20);
    let zarr = zaro::blocking::block_on(Zarr::from_store(sample()?, options))?;
    let array = zaro::blocking::block_on(zarr.array(""))?;

    let window = |i: u64| Selection::start_count(&[i * 7 % 90, i * 13 % 90], &[10, 10]);
    let total = std::thread::scope(|scope| -> Result<u64> {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let array = array.clone();
                scope.spawn(move || -> Result<u64> {
                    let mut sum = 0;
                    for i in (worker..200).step_by(4) {
                        let slab = array.read_slab_blocking(&window(i), &ReadOptions::default())?;
                        sum += slab.to_vec::<u16>()?.iter().map(|v| u64::from(*v)).sum::<u64>();
                    }
                    Ok(sum)
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap_or(Ok(0))).sum()
    })?;
    println!("200 windows of 10 × 10, mean {}", total / 20_000);
    Ok(())
}

/// 100 × 100 numbers in chunks of 25 × 25: element (y, x) holds y.
fn sample() -> Result<Arc<MemoryStore>> {
    let store = MemoryStore::new();
    store.put(
        ".zarray",
        r#"{"zarr_format": 2, "shape": [100, 100], "chunks": [25, 25], "dtype": "<u2", "fill_value": 0, "order": "C",
            "filters": null, "compressor": null}"#,
    )?;
    for row in 0..4u16 {
        let bytes: Vec<u8> = (0..25).flat_map(|y| (row * 25 + y).to_le_bytes().repeat(25)).collect();
        for column in 0..4 {
            store.put(&format!("{row}.{column}"), bytes.clone())?;
        }
    }
    Ok(Arc::new(store))
}
