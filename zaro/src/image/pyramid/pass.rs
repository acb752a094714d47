//! One pass over a level, which makes one or several smaller ones.
//!
//! A thread reads a cell of the level above and makes it smaller. The pixels go into the chunks of the first level they
//! belong to; who adds a chunk's last pixels encodes it, puts it, makes it smaller and adds what comes out to the chunks of the next
//! level, and so on. No thread waits for another, and since cells come in an order that finishes what was begun, there are
//! only a few chunks of each level in memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cut::{Cutting, Pass, Stage, Tiles};
use super::gaussian::{Gaussian, Region};
use super::kernel::{Kernel, advance, strides};
use super::{Method, PyramidOptions};
use crate::array::{Array, Gathering, Order, Progress, ReadOptions, Selection, Values, WriteOptions};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::num;

/// The most cells on their way from or to a remote store.
const REMOTE_CELLS: u64 = 24;

/// Makes all levels.
pub(super) fn run(
    base: &Array,
    stages: &[Stage],
    method: Method,
    memory: usize,
    options: &PyramidOptions,
    journal: &Journal,
) -> Result<()> {
    let neighbours = method == Method::Gaussian;
    let threads = num::u64_of(rayon::current_num_threads()).max(1);
    let cell_bytes = (num::u64_of(memory) / 8 / threads).clamp(1 << 20, 64 << 20);
    let cutting = Cutting { base, stages, neighbours, cell_bytes };
    let passes = cutting.passes();
    let mut total = 0u64;
    for pass in &passes {
        total = total.saturating_add(bytes_of(cutting.above(pass.first), cutting.above(pass.first).shape())?);
    }
    let bar = Bar { done: AtomicU64::new(0), total, options };
    for pass in &passes {
        let above = cutting.above(pass.first);
        let made = stages.get(pass.first..pass.first.saturating_add(pass.levels)).unwrap_or_default();
        let Some(first) = made.first() else { continue };
        let read = bytes_of(above, &pass.cell)?.saturating_mul(first.plan.step.iter().product::<u64>());
        let remote = above.store().is_remote() || first.array.store().is_remote();
        let wanted = if remote { REMOTE_CELLS.max(threads) } else { threads };
        let threads = (num::u64_of(memory) / 2 / read.max(1)).clamp(1, wanted);
        let write = WriteOptions { blank: true, cancel: options.cancel.clone(), ..WriteOptions::default() };
        let data_type = &base.meta().data_type;
        let work = Work {
            above,
            stages: made,
            kernel: if neighbours { None } else { Some(Kernel::of(method, data_type)?) },
            gaussian: if neighbours { Some(Gaussian::of(data_type, &first.plan.step)?) } else { None },
            size: data_type.size(),
            tiles: made.iter().map(|s| Tiles::new(&s.plan.shape, &s.unit)).collect(),
            open: Mutex::default(),
            shards: Mutex::default(),
            spare: Mutex::default(),
            write: &write,
            options,
            bar: &bar,
        };
        work.run(pass, &pass.order(stages), threads, journal)
            .map_err(|e| e.within(format_args!("making levels smaller than {:?}", above.shape())))?;
    }
    Ok(())
}

fn bytes_of(array: &Array, shape: &[u64]) -> Result<u64> {
    Ok(num::product(shape)?.saturating_mul(num::u64_of(array.meta().data_type.size())))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Bar<'a> {
    done: AtomicU64,
    total: u64,
    options: &'a PyramidOptions,
}

impl Bar<'_> {
    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if let Some(progress) = &self.options.progress {
            progress(Progress { done: done.min(self.total), total: self.total });
        }
    }
}

/// A chunk whose pixels are coming.
struct Chunk {
    bytes: Vec<u8>,
    /// Pixels that are not there yet.
    left: u64,
}

/// A shard whose chunks are coming.
struct Shard<'a> {
    gathering: Gathering<'a>,
    left: AtomicU64,
}

/// Which chunk or shard: of which level, and its index.
type Place = (usize, Vec<u64>);

/// What the threads share.
struct Work<'a> {
    above: &'a Array,
    stages: &'a [Stage],
    kernel: Option<Kernel>,
    gaussian: Option<Gaussian>,
    size: usize,
    tiles: Vec<Tiles>,
    open: Mutex<HashMap<Place, Arc<Mutex<Chunk>>>>,
    shards: Mutex<HashMap<Place, Arc<Shard<'a>>>>,
    /// Memory of chunks that are done.
    spare: Mutex<Vec<Vec<u8>>>,
    write: &'a WriteOptions,
    options: &'a PyramidOptions,
    bar: &'a Bar<'a>,
}

/// Which cell comes next, and which are not done.
struct Queue {
    block: u64,
    cell: usize,
    /// Cells of blocks that are under way.
    left: HashMap<u64, usize>,
    /// Blocks that were finished before one that came earlier.
    early: BTreeSet<u64>,
    /// All blocks before it are done.
    done: u64,
}

/// What a thread keeps from cell to cell.
#[derive(Default)]
struct Bench {
    read: Vec<u8>,
    made: Vec<u8>,
}

impl Work<'_> {
    fn run(&self, pass: &Pass, cells: &[Vec<u64>], threads: u64, journal: &Journal) -> Result<()> {
        let Some(first) = self.stages.first() else { return Ok(()) };
        let blocks = Tiles::new(&first.plan.shape, &pass.block);
        let total = blocks.count()?;
        let block: Vec<String> = pass.block.iter().map(u64::to_string).collect();
        let name = format!("levels of {} {}", self.above.path(), block.join(","));
        let before = journal.done(&name).min(total);
        for i in 0..before {
            let start = blocks.start(i);
            let made = bytes_of(self.above, &blocks.clipped(&start, &pass.block))?;
            self.bar.advance(made.saturating_mul(first.plan.step.iter().product()));
        }
        let queue =
            Queue { block: before, cell: 0, left: HashMap::new(), early: BTreeSet::new(), done: before };
        let shared = Mutex::new(queue);
        let failed = AtomicBool::new(false);
        let take = || {
            let mut queue = lock(&shared);
            if queue.block >= total {
                return None;
            }
            let (block, cell) = (queue.block, queue.cell);
            queue.left.entry(block).or_insert(cells.len());
            queue.cell += 1;
            if queue.cell >= cells.len() {
                (queue.block, queue.cell) = (block + 1, 0);
            }
            Some((block, cell))
        };
        let finish = |block: u64| -> Result<()> {
            let mut queue = lock(&shared);
            let left = queue.left.entry(block).or_insert(1);
            *left = left.saturating_sub(1);
            if *left > 0 {
                return Ok(());
            }
            queue.left.remove(&block);
            queue.early.insert(block);
            while let done = queue.done
                && queue.early.remove(&done)
            {
                queue.done += 1;
            }
            journal.note(&name, queue.done)
        };
        let step = |bench: &mut Bench| -> Result<bool> {
            if self.options.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
                return Err(Error::cancelled());
            }
            journal.beat()?;
            let Some((block, cell)) = take() else { return Ok(false) };
            let mut start = blocks.start(block);
            // The last block may be shorter than others, and a cell outside of it.
            let within = blocks.clipped(&start, &pass.block);
            let cell = cells.get(cell).map(Vec::as_slice).unwrap_or_default();
            if cell.iter().zip(&within).all(|(c, n)| c < n) {
                let left: Vec<u64> = within.iter().zip(cell).map(|(n, c)| n - c).collect();
                start.iter_mut().zip(cell).for_each(|(s, c)| *s += c);
                let count = pass.cell.iter().zip(&left).map(|(c, n)| (*c).min(*n)).collect();
                self.cell(Region { start, count }, bench)?;
            }
            finish(block)?;
            Ok(true)
        };
        let work = || {
            let mut bench = Bench::default();
            while !failed.load(Ordering::Relaxed) {
                match step(&mut bench) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => {
                        failed.store(true, Ordering::Relaxed);
                        return Err(e);
                    }
                }
            }
            Ok(())
        };
        std::thread::scope(|s| {
            let others: Vec<_> = (1..threads).map(|_| s.spawn(work)).collect();
            let mine = work();
            others.into_iter().fold(mine, |done, other| {
                done.and(other.join().unwrap_or_else(|_| Err(Error::io("a thread was lost"))))
            })
        })?;
        journal.write()
    }

    /// Reads what becomes the part `made` of the first level, and makes it.
    fn cell(&self, made: Region, bench: &mut Bench) -> Result<()> {
        let Some(stage) = self.stages.first() else { return Ok(()) };
        let (step, shape) = (&stage.plan.step, self.above.shape());
        let needed = match &self.gaussian {
            Some(gaussian) => gaussian.needs(&made, step, shape),
            None => {
                let start: Vec<u64> =
                    made.start.iter().zip(step).map(|(o, f)| o.saturating_mul(*f)).collect();
                let count = made.count.iter().zip(step).zip(start.iter().zip(shape));
                let count = count
                    .map(|((n, f), (s, all))| n.saturating_mul(*f).min(all.saturating_sub(*s)))
                    .collect();
                Region { start, count }
            }
        };
        let Bench { read, made: out } = bench;
        read.resize(num::product_usize(&needed.count)?.saturating_mul(self.size), 0);
        out.resize(num::product_usize(&made.count)?.saturating_mul(self.size), 0);
        let options = ReadOptions { cancel: self.options.cancel.clone(), ..ReadOptions::default() };
        self.above.read_into(&Selection::start_count(&needed.start, &needed.count), &options, read)?;
        match (&self.kernel, &self.gaussian) {
            (Some(kernel), _) => kernel.reduce(read, &needed.count, step, &made.count, out)?,
            (None, Some(gaussian)) => gaussian.reduce(read, &needed, step, shape, &made, out)?,
            (None, None) => return Err(Error::usage("there is no method")),
        }
        self.bar.advance(num::u64_of(out.len()).saturating_mul(step.iter().product()));
        self.add(0, &made, out)
    }

    /// Adds pixels to the chunks of a level that they belong to.
    fn add(&self, level: usize, part: &Region, pixels: &[u8]) -> Result<()> {
        let (Some(stage), Some(tiles)) = (self.stages.get(level), self.tiles.get(level)) else {
            return Ok(());
        };
        let (firsts, counts) = tiles.touched(&part.start, &part.count);
        let mut at = vec![0u64; counts.len()];
        for _ in 0..num::product(&counts)? {
            let index: Vec<u64> = firsts.iter().zip(&at).map(|(a, b)| a.saturating_add(*b)).collect();
            advance(&mut at, &counts);
            let start: Vec<u64> = index.iter().zip(&stage.unit).map(|(i, n)| i.saturating_mul(*n)).collect();
            let chunk = Region { count: tiles.clipped(&start, &stage.unit), start };
            if *chunk.start == *part.start && *chunk.count == *part.count {
                // All of it at once.
                self.put(level, &index, &chunk, pixels)?;
                continue;
            }
            let place = (level, index);
            let open = match lock(&self.open).entry(place.clone()) {
                std::collections::hash_map::Entry::Occupied(o) => o.get().clone(),
                std::collections::hash_map::Entry::Vacant(v) => {
                    let left = num::product(&chunk.count)?;
                    let mut bytes = lock(&self.spare).pop().unwrap_or_default();
                    bytes.resize(num::usize_of(left)?.saturating_mul(self.size), 0);
                    v.insert(Arc::new(Mutex::new(Chunk { bytes, left }))).clone()
                }
            };
            let whole = {
                let mut open = lock(&open);
                let placed = place_part(pixels, part, &mut open.bytes, &chunk, self.size)?;
                open.left = open.left.saturating_sub(placed);
                (open.left == 0).then(|| std::mem::take(&mut open.bytes))
            };
            if let Some(bytes) = whole {
                lock(&self.open).remove(&place);
                self.put(level, &place.1, &chunk, &bytes)?;
                lock(&self.spare).push(bytes);
            }
        }
        Ok(())
    }

    /// Puts a whole chunk, and makes it smaller.
    fn put(&self, level: usize, index: &[u64], chunk: &Region, pixels: &[u8]) -> Result<()> {
        let Some(stage) = self.stages.get(level) else { return Ok(()) };
        let selection = Selection::start_count(&chunk.start, &chunk.count);
        let values = Values::new(pixels, Order::C);
        if stage.gathers {
            self.gather(level, stage, index, &selection, values, num::product(&chunk.count)?)?;
        } else {
            stage.array.write(&selection, values, self.write)?;
        }
        let next = level.saturating_add(1);
        let (Some(smaller), Some(kernel)) = (self.stages.get(next), &self.kernel) else { return Ok(()) };
        let step = &smaller.plan.step;
        let start: Vec<u64> =
            chunk.start.iter().zip(step).map(|(s, f)| s.checked_div(*f).unwrap_or(0)).collect();
        let count: Vec<u64> = chunk
            .count
            .iter()
            .zip(step)
            .zip(start.iter().zip(&smaller.plan.shape))
            .map(|((n, f), (s, all))| n.div_ceil((*f).max(1)).min(all.saturating_sub(*s)))
            .collect();
        let made = Region { start, count };
        let length = num::product_usize(&made.count)?.saturating_mul(self.size);
        if length == 0 {
            return Ok(());
        }
        let mut out = lock(&self.spare).pop().unwrap_or_default();
        out.resize(length, 0);
        kernel.reduce(pixels, &chunk.count, step, &made.count, &mut out)?;
        self.add(next, &made, &out)?;
        lock(&self.spare).push(out);
        Ok(())
    }

    /// Adds a chunk to its shard, and puts the shard if it is the last.
    fn gather(
        &self,
        level: usize,
        stage: &Stage,
        index: &[u64],
        selection: &Selection,
        values: Values<'_>,
        pixels: u64,
    ) -> Result<()> {
        let Some(own) = self.stages.get(level) else { return Ok(()) };
        let at: Vec<u64> = index
            .iter()
            .zip(stage.unit.iter().zip(&stage.whole))
            .map(|(i, (unit, whole))| i.saturating_mul(*unit).checked_div(*whole).unwrap_or(0))
            .collect();
        let place = (level, at);
        let shard = match lock(&self.shards).entry(place.clone()) {
            std::collections::hash_map::Entry::Occupied(o) => o.get().clone(),
            std::collections::hash_map::Entry::Vacant(v) => {
                let all = Tiles::new(&stage.plan.shape, &stage.whole);
                let start: Vec<u64> =
                    place.1.iter().zip(&stage.whole).map(|(i, n)| i.saturating_mul(*n)).collect();
                let left = AtomicU64::new(num::product(&all.clipped(&start, &stage.whole))?);
                let gathering = own.array.gather(&place.1, self.write)?;
                v.insert(Arc::new(Shard { gathering, left })).clone()
            }
        };
        shard.gathering.add(selection, values)?;
        if shard.left.fetch_sub(pixels, Ordering::AcqRel) == pixels {
            lock(&self.shards).remove(&place);
            shard.gathering.put()?;
        }
        Ok(())
    }
}

/// Copies the pixels of `part` that lie in `chunk` to their place there, and says how many there are.
fn place_part(pixels: &[u8], part: &Region, bytes: &mut [u8], chunk: &Region, size: usize) -> Result<u64> {
    let outside = || Error::invalid("pixels lie outside of their chunk");
    let rank = part.start.len();
    let first: Vec<u64> = part.start.iter().zip(&chunk.start).map(|(a, b)| (*a).max(*b)).collect();
    let ends = |r: &Region| -> Vec<u64> {
        r.start.iter().zip(&r.count).map(|(s, n)| s.saturating_add(*n)).collect()
    };
    let end: Vec<u64> = ends(part).iter().zip(&ends(chunk)).map(|(a, b)| (*a).min(*b)).collect();
    let count: Vec<u64> = end.iter().zip(&first).map(|(e, s)| e.saturating_sub(*s)).collect();
    let (from, to) = (strides(&part.count, size)?, strides(&chunk.count, size)?);
    let line = num::usize_of(count.last().copied().unwrap_or(1))?.saturating_mul(size);
    let leading = count.get(..rank.saturating_sub(1)).unwrap_or_default();
    let mut at = vec![0u64; leading.len()];
    for _ in 0..num::product(leading)? {
        let (mut source, mut target) = (0usize, 0usize);
        for d in 0..rank {
            let of = |list: &[u64]| list.get(d).copied().unwrap_or(0);
            let here = of(&first).saturating_add(of(&at));
            let along = |r: &Region, strides: &[usize]| -> Result<usize> {
                let steps = num::usize_of(here.saturating_sub(of(&r.start)))?;
                Ok(steps.saturating_mul(strides.get(d).copied().unwrap_or(0)))
            };
            source = source.saturating_add(along(part, &from)?);
            target = target.saturating_add(along(chunk, &to)?);
        }
        let source = pixels.get(source..source.saturating_add(line)).ok_or_else(outside)?;
        bytes.get_mut(target..target.saturating_add(line)).ok_or_else(outside)?.copy_from_slice(source);
        advance(&mut at, leading);
    }
    num::product(&count)
}
