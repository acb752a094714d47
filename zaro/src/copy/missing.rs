//! Chunks that are missing in the source, where they would read as something else in the copy.
//!
//! The fill value of a V2 array says which elements are missing to readers of the CF conventions; in V3 it does not, so
//! that a copy may have another one (see [`convert::missing`](crate::meta::convert::missing)). What is missing in the
//! source is written out then, and reads as before in either version.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::blocks::Blocks;
use super::recode::on_threads;
use crate::array::{Array, ReadOptions, Selection, Values, WriteOptions};
use crate::blocking::wait;
use crate::error::Result;
use crate::store::StoreExt as _;

/// Chunks under way at once, in files and elsewhere.
const LOCAL: usize = 2;
const REMOTE: usize = 16;

/// Writes the chunks that `made`, an array of the same chunks as `source`, lacks, if they would read as something else
/// there. Calls `check` now and then, and stops at its error.
pub(super) fn write(source: &Array, made: &Array, check: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
    let meta = made.meta();
    if meta.fill == source.meta().fill {
        return Ok(());
    }
    let Some(shape) = meta.grid.regular_shape() else { return Ok(()) };
    let chunks = Blocks::new(&meta.shape, shape);
    let total = chunks.count()?;
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let step = || -> Result<()> {
        while !failed.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= total {
                break;
            }
            check().and_then(|()| one(source, made, &chunks, i)).inspect_err(|_| {
                failed.store(true, Ordering::Relaxed);
            })?;
        }
        Ok(())
    };
    on_threads(if made.store().is_remote() { REMOTE } else { LOCAL }, step)
}

/// Writes one chunk, if it is not there.
fn one(source: &Array, made: &Array, chunks: &Blocks, i: u64) -> Result<()> {
    let (start, count) = chunks.place(i);
    let index: Vec<u64> = start.iter().zip(chunks.block()).map(|(s, n)| s / (*n).max(1)).collect();
    let key = made.meta().keys.key(made.path(), &index);
    if wait(made.store().size(&key)).map_err(|e| e.with_key(&key))?.is_some() {
        return Ok(());
    }
    let part = Selection::start_count(&start, &count);
    let slab = source.read_blocking(&part, &ReadOptions::default())?;
    let options = WriteOptions { blank: true, ..WriteOptions::default() };
    made.write(&part, Values::from(&slab), &options)
}
