//! Copying cell by cell.
//!
//! A cell is the smallest box that is made of whole chunks of the source and of whole inner chunks of the copy; or, in a
//! copy without shards, a chunk of it that is made of whole chunks of the source. Below, such a chunk is a shard of one
//! cell. One thread reads it, cuts it and encodes it, all near the processor, while others do the same with the next cells; who finishes the
//! last cell of a shard puts the shard. So a shard is in memory only as it is encoded, and no thread waits for another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Run;
use super::blocks::{Blocks, lcm};
use super::recode::{Gaps, lock, on_threads, progress_of, read};
use super::target::Target;
use crate::array::{Array, Gathering, ReadOptions, Selection, Values, WriteOptions};
use crate::error::Result;
use crate::num;

/// The largest cell that is still near the processor, more or less.
const LARGEST: u64 = 8 << 20;

/// Without shards, smaller chunks are better read many at once.
const SMALLEST_CHUNK: u64 = 64 << 10;

/// Cells are not to be smaller than this if shards have more: each costs some calls.
const SMALLEST: u64 = 512 << 10;

/// The cell for this copy, if it can go by cells: files to files, chunks that begin together, and memory for
/// some encoded shards.
pub(super) fn cell(run: &Run<'_>, source: &Array, made: &Array, target: &Target) -> Option<Vec<u64>> {
    source.store().direct()?;
    made.store().direct()?;
    let (from, to) = (source.meta(), made.meta());
    if from.data_type.is_variable() || to.data_type.is_variable() || to.shape.is_empty() {
        return None;
    }
    // A grid of many lengths has no one cell, and dimensions below a transpose have other lengths than above.
    let whole = from.grid.regular_shape()?;
    to.grid.regular_shape()?;
    if made.chain().order().is_some() {
        return None;
    }
    let shards = &made.chain().decoded().shape;
    let inner = made.chain().shard().map_or(shards, |shard| &shard.inner().decoded().shape);
    // What a part of can be read by itself.
    let chunks = match source.chain().shard() {
        Some(shard) if source.chain().order().is_none() => shard.inner().decoded().shape.clone(),
        _ => whole,
    };
    if !target.region.starts_at(&chunks) {
        return None;
    }
    let along = |(((c, i), s), n): (((&u64, &u64), &u64), &u64)| match lcm(*c, *i) {
        Some(both) if s.checked_rem(both) == Some(0) => Some(both),
        // One shard has all there is.
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
    let threads = num::u64_of(rayon::current_num_threads());
    let cells = bytes(&cell);
    if made.chain().shard().is_none() && cells < SMALLEST_CHUNK {
        return None;
    }
    // Threads are at work on cells of neighbouring shards. A cell is there as read, as an inner chunk and as encoded.
    let shards_at_once = threads.saturating_mul(cells).div_ceil(bytes(shards).max(1)).saturating_add(1);
    let needed = shards_at_once
        .saturating_mul(bytes(shards))
        .saturating_add(threads.saturating_mul(cells).saturating_mul(3));
    (cells <= LARGEST && needed <= num::u64_of(run.memory / 4 * 3)).then_some(cell)
}

/// A shard whose cells are under way.
struct Open<'a> {
    number: u64,
    start: Vec<u64>,
    cells: Blocks,
    /// Cells that are not done.
    left: AtomicU64,
    gathering: Gathering<'a>,
}

/// The next cell to be taken: of which shard, and its number there.
struct Next<'a> {
    shard: u64,
    open: Option<(Arc<Open<'a>>, u64)>,
}

pub(super) fn copy(run: &Run<'_>, source: &Array, made: &Array, target: &Target, cell: &[u64]) -> Result<()> {
    let shards = Blocks::new(made.shape(), made.chain().decoded().shape.clone());
    let total = shards.count()?;
    let path = progress_of(made, &shards);
    let options = WriteOptions { blank: true, cancel: run.options.cancel.clone(), ..WriteOptions::default() };
    let first = run.before(&path);
    let gaps = Mutex::new(Gaps::new(first));
    let next = Mutex::new(Next { shard: first, open: None });
    let failed = AtomicBool::new(false);
    let take = || -> Result<Option<(Arc<Open<'_>>, u64)>> {
        let mut next = lock(&next);
        loop {
            if let Some((open, cell)) = &mut next.open
                && *cell < open.cells.count()?
            {
                *cell += 1;
                return Ok(Some((open.clone(), *cell - 1)));
            }
            if next.shard >= total {
                return Ok(None);
            }
            let (start, count) = shards.place(next.shard);
            let index: Vec<u64> = start.iter().zip(shards.block()).map(|(s, n)| s / (*n).max(1)).collect();
            let cells = Blocks::new(&count, cell.to_vec());
            let left = AtomicU64::new(cells.count()?);
            let gathering = made.gather(&index, &options)?;
            next.open = Some((Arc::new(Open { number: next.shard, start, cells, left, gathering }), 0));
            next.shard += 1;
        }
    };
    let step = |buffer: &mut Vec<u8>| -> Result<bool> {
        run.check()?;
        let Some((open, i)) = take()? else { return Ok(false) };
        let (mut start, count) = open.cells.place(i);
        start.iter_mut().zip(&open.start).for_each(|(a, b)| *a += b);
        let selection = Selection::start_count(&start, &count);
        if target.cast.is_some() {
            open.gathering.add(&selection, Values::from(&read(run, source, target, &start, &count)?))?;
        } else {
            let size = source.meta().data_type.size();
            let bytes = num::product_usize(&count)?.saturating_mul(size);
            buffer.resize(bytes, 0);
            let options = ReadOptions { cancel: run.options.cancel.clone(), ..ReadOptions::default() };
            source.read_into(&target.region.part(&start, &count), &options, buffer)?;
            open.gathering.add(&selection, Values::new(buffer, options.order))?;
            run.advance(num::u64_of(bytes));
        }
        if open.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            open.gathering.put()?;
            let mut gaps = lock(&gaps);
            run.note(&path, gaps.close(open.number))?;
        }
        Ok(true)
    };
    on_threads(rayon::current_num_threads(), || {
        let mut buffer = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            match step(&mut buffer) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(e);
                }
            }
        }
        Ok(())
    })
}
