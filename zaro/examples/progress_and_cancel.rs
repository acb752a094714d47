//! Watch a read, and stop it.
//!
//! `cargo run --example progress_and_cancel`

use std::sync::Arc;

use zaro::store::MemoryStore;
use zaro::{CancelToken, ErrorKind, OpenOptions, Progress, ReadOptions, Result, Selection, Task, Zarr};

pub(crate) fn main() -> Result<()> {
    let zarr = zaro::blocking::block_on(Zarr::from_store(sample()?, OpenOptions::default()))?;
    let array = zaro::blocking::block_on(zarr.array(""))?;

    // Called after every chunk, by whichever thread placed it.
    let percent = |p: Progress| p.done * 100 / p.total.unwrap_or(p.done).max(1);
    let task = Task::default().with_progress(move |p| println!("{:3} %", percent(p)));
    let options = ReadOptions::default().with_task(task);
    array.read_slab_blocking(&Selection::all(), &options)?;

    // Any thread may stop it; here the progress does, after a half.
    let cancel = CancelToken::new();
    let token = cancel.clone();
    let stop = move |p| {
        if percent(p) >= 50 {
            token.cancel();
        }
    };
    let task = Task::default().with_progress(stop).with_cancel(&cancel);
    let options = ReadOptions::default().with_task(task);
    match array.read_slab_blocking(&Selection::all(), &options) {
        Err(e) if e.kind() == ErrorKind::Cancelled => println!("stopped: {e}"),
        // The last chunks may already have been under way.
        Ok(_) => println!("too late to stop"),
        Err(e) => return Err(e),
    }
    Ok(())
}

/// A thousand numbers in ten chunks, none of them written: all read as 7.
fn sample() -> Result<Arc<MemoryStore>> {
    let store = MemoryStore::new();
    store.put(
        "zarr.json",
        r#"{"zarr_format": 3, "node_type": "array", "shape": [1000], "data_type": "uint8", "fill_value": 7,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100]}},
            "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]}"#,
    )?;
    Ok(Arc::new(store))
}
