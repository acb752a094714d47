//! Chunks that are missing in the source, where they would read as something else in the copy.
//!
//! The fill value of a V2 array says which elements are missing to readers of the CF conventions; in V3 it does not, so
//! that a copy may have another one (see [`convert::missing`](crate::meta::convert::missing)). What is missing in the
//! source is written out then, and reads as before in either version.

use super::CopyRun;
use super::blocks::Blocks;
use crate::array::{Array, ReadOptions, Selection, WriteOptions};
use crate::error::Result;
use crate::store::StoreExt as _;
use crate::task;

/// Chunks under way at once, in files and elsewhere.
const LOCAL: usize = 2;
const REMOTE: usize = 16;

/// Writes the chunks that `made`, an array of the same chunks as `source`, lacks, if they would read as something else
/// there.
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
