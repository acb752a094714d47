//! Writes chunks that are missing in the source and would read differently in the copy.
//!
//! For CF-aware readers, the fill value of a V2 array marks missing elements; in V3 it does not, so that a copy may
//! have another one (see [`convert::missing`](crate::meta::convert::missing)). Chunks missing in the source are then
//! written out, and read as before in either version.

use super::CopyRun;
use super::blocks::Blocks;
use crate::array::{Array, ReadOptions, Selection, WriteOptions};
use crate::error::Result;
use crate::store::StoreExt as _;
use crate::task;

/// Chunks in flight, for local and remote stores.
const LOCAL: usize = 2;
const REMOTE: usize = 16;

/// Writes the chunks missing in `made`, which has the same chunks as `source`, if they would read differently there.
pub(super) async fn write(source: &Array, made: &Array, run: Option<&CopyRun<'_>>) -> Result<()> {
    let meta = made.meta();
    if meta.fill == source.meta().fill {
        return Ok(());
    }
    let Some(shape) = meta.grid.regular_shape() else { return Ok(()) };
    let chunks = &Blocks::new(&meta.shape, shape);
    let at_once = if made.store().is_remote() { REMOTE } else { LOCAL };
    task::each(at_once, 0..chunks.count()?, |i| async move {
        if let Some(run) = run {
            run.check().await?;
        }
        let (start, count) = chunks.place(i);
        let index: Vec<u64> = start.iter().zip(chunks.block()).map(|(s, n)| s / (*n).max(1)).collect();
        let key = made.meta().keys.key(made.path(), &index);
        if made.store().size(&key).await.map_err(|e| e.with_key(&key))?.is_some() {
            return Ok(());
        }
        let part = Selection::start_count(&start, &count);
        let slab = source.read_slab(&part, &ReadOptions::default()).await?;
        made.write_slab(&part, slab.into(), &WriteOptions { assume_empty: true, ..WriteOptions::default() })
            .await
    })
    .await
}
