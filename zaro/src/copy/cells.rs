//! Copying shards cell by cell, within the processor's cache.
//!
//! A cell is the smallest box of whole source chunks and whole inner chunks of the copy; or, in a copy without shards,
//! one of its chunks that consists of whole source chunks. Below, such a chunk is a shard of one cell. One pool job
//! reads, cuts and encodes a cell, all within the processor's cache, while others process the next cells; the job that
//! finishes the last cell of a shard puts the shard. So a shard is in memory only in encoded form, and no thread waits
//! for another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};

use super::CopyRun;
use super::blocks::{Blocks, lcm};
use super::recode::progress_of;
use super::target::CopyTarget;
use crate::array::{Array, Gathering, ReadOptions, Selection, Values, WriteOptions};
use crate::error::Result;
use crate::num;
use crate::task::{self, Gaps, lock};

/// The largest cell that roughly fits the processor's cache.
const LARGEST: u64 = 8 << 20;

/// Without shards, smaller chunks are better read many at once.
const SMALLEST_CHUNK: u64 = 64 << 10;

/// Minimum size of cells in larger shards: each costs some calls.
const SMALLEST: u64 = 512 << 10;

/// The cell for this copy, if it can be done by cells: local to local, aligned chunks, and memory for some encoded
/// shards.
pub(super) fn cell(run: &CopyRun<'_>, source: &Array, made: &Array, target: &CopyTarget) -> Option<Vec<u64>> {
    source.store().direct()?;
    made.store().direct()?;
    let (from, to) = (source.meta(), made.meta());
    if from.data_type.is_variable() || to.data_type.is_variable() || to.shape.is_empty() {
        return None;
    }
    // An irregular grid has no single cell, and a transpose permutes the dimensions below it.
    let whole = from.grid.regular_shape()?;
    to.grid.regular_shape()?;
    if made.chain().order().is_some() {
        return None;
    }
    let shards = &made.chain().decoded().shape;
    let inner = made.chain().shard().map_or(shards, |shard| &shard.inner().decoded().shape);
    // The unit that can be read by itself.
    let chunks = match source.chain().shard() {
        Some(shard) if source.chain().order().is_none() => shard.inner().decoded().shape.clone(),
        _ => whole,
    };
    if !target.region.starts_at(&chunks) {
        return None;
    }
    let along = |(((c, i), s), n): (((&u64, &u64), &u64), &u64)| match lcm(*c, *i) {
        Some(both) if s.checked_rem(both) == Some(0) => Some(both),
        // One shard covers the dimension.
        _ if s >= n => Some(*s),
        // A chunk would be read for several shards; larger blocks do better.
        _ => None,
    };
    let mut cell: Vec<u64> =
        chunks.iter().zip(inner).zip(shards).zip(&to.shape).map(along).collect::<Option<_>>()?;
    let size = num::u64_of(from.data_type.size().max(to.data_type.size()));
    let bytes = |cell: &[u64]| num::product(cell).map_or(u64::MAX, |n| n.saturating_mul(size));
    for d in (0..cell.len()).rev() {
        while let (Some(n), Some(s)) = (cell.get(d).copied(), shards.get(d)) {
            let mut larger = cell.clone();
            if let Some(slot) = larger.get_mut(d) {
                *slot = n.saturating_mul(2);
            }
            if bytes(&cell) >= SMALLEST || s.checked_rem(n.saturating_mul(2)) != Some(0) {
                break;
            }
            cell = larger;
        }
    }
    let threads = num::u64_of(made.context().threads());
    let cells = bytes(&cell);
    if made.chain().shard().is_none() && cells < SMALLEST_CHUNK {
        return None;
    }
    // Threads work on cells of neighbouring shards. A cell is in memory as read, as an inner chunk and as encoded.
    let shards_at_once = threads.saturating_mul(cells).div_ceil(bytes(shards).max(1)).saturating_add(1);
    let needed = shards_at_once
        .saturating_mul(bytes(shards))
        .saturating_add(threads.saturating_mul(cells).saturating_mul(3));
    (cells <= LARGEST && needed <= num::u64_of(run.memory / 4 * 3)).then_some(cell)
}

/// A shard whose cells are being processed.
struct OpenShard {
    number: u64,
    start: Vec<u64>,
    cells: Blocks,
    /// Unfinished cells.
    left: AtomicU64,
    gathering: Gathering,
}

/// All cells, shard by shard.
struct ShardCells<'a> {
    made: &'a Array,
    options: &'a WriteOptions,
    shards: &'a Blocks,
    cell: &'a [u64],
    /// The next shard.
    shard: u64,
    total: u64,
    /// The shard whose cells are being handed out, and the next of them.
    open: Option<(Arc<OpenShard>, u64)>,
}

impl ShardCells<'_> {
    fn take(&mut self) -> Result<Option<(Arc<OpenShard>, u64)>> {
        loop {
            if let Some((open, cell)) = &mut self.open
                && *cell < open.cells.count()?
            {
                *cell += 1;
                return Ok(Some((open.clone(), *cell - 1)));
            }
            if self.shard >= self.total {
                return Ok(None);
            }
            let (start, count) = self.shards.place(self.shard);
            let index: Vec<u64> =
                start.iter().zip(self.shards.block()).map(|(s, n)| s / (*n).max(1)).collect();
            let cells = Blocks::new(&count, self.cell.to_vec());
            let left = AtomicU64::new(cells.count()?);
            let gathering = self.made.gather(&index, self.options)?;
            self.open = Some((Arc::new(OpenShard { number: self.shard, start, cells, left, gathering }), 0));
            self.shard += 1;
        }
    }
}

impl Iterator for ShardCells<'_> {
    type Item = Result<(Arc<OpenShard>, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

pub(super) async fn copy(
    run: &CopyRun<'_>,
    source: &Array,
    made: &Array,
    target: &CopyTarget,
    cell: &[u64],
) -> Result<()> {
    let shards = Blocks::new(made.shape(), made.chain().decoded().shape.clone());
    let path = &progress_of(made, &shards);
    let options = WriteOptions {
        assume_empty: true,
        task: run.options.task.without_progress(),
        ..WriteOptions::default()
    };
    let first = run.before(path);
    let gaps = &Mutex::new(Gaps::new(first));
    let cells = ShardCells {
        made,
        options: &options,
        shards: &shards,
        cell,
        shard: first,
        total: shards.count()?,
        open: None,
    };
    // Buffers reused from cell to cell.
    let spare = &Arc::new(Mutex::new(Vec::new()));
    task::each(made.context().jobs_at_once(), cells, |next| async move {
        run.check().await?;
        let (open, i) = next?;
        let (mut start, count) = open.cells.place(i);
        start.iter_mut().zip(&open.start).for_each(|(a, b)| *a += b);
        let elements = num::product(&count)?;
        let options = ReadOptions { task: run.options.task.without_progress(), ..ReadOptions::default() };
        let (number, job) = (open.number, (source.clone(), target.region.part(&start, &count)));
        let (cast, spare) = (target.cast.clone(), spare.clone());
        let (bytes, whole) = made
            .context()
            .run(move || {
                let (source, part) = job;
                let mut buffer: BytesMut = lock(&spare).pop().unwrap_or_default();
                buffer.resize(num::usize_of(elements)?.saturating_mul(source.meta().data_type.size()), 0);
                source.read_into(&part, &options, &mut buffer)?;
                let values: Bytes = match cast {
                    Some(cast) => cast.apply(buffer.into(), elements)?.into(),
                    None => buffer.freeze(),
                };
                let place = Selection::start_count(&start, &count);
                open.gathering.add(&place, Values::new(values.clone(), options.order))?;
                let bytes = num::u64_of(values.len());
                // Slices of it that are stored as is keep it alive.
                lock(&spare).extend(values.try_into_mut().ok());
                let whole = open.left.fetch_sub(1, Ordering::AcqRel) == 1;
                if whole {
                    open.gathering.put_at_hand()?;
                }
                Ok((bytes, whole))
            })
            .await?;
        run.advance(bytes);
        if !whole {
            return Ok(());
        }
        let done = lock(gaps).close(number);
        run.note(path, done).await
    })
    .await
}
