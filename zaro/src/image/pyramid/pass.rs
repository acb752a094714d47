//! Runs one pass over a level, which builds one or several smaller ones.
//!
//! A job of the thread pool reads a cell of the level above and downsamples it. The pixels go into chunks of the first
//! level; the job that completes a chunk encodes it, puts it, downsamples it and adds the result to the chunks of the
//! next level, and so on. Puts to a remote store are done by a future afterwards. No job waits for another, and the
//! order of cells completes chunks early, so that only a few chunks of each level are in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};

use super::cut::{Pass, PassPlan, Stage};
use super::gaussian::{Gaussian, LevelRegion};
use super::kernel::{Kernel, strides};
use super::{Downsampling, PyramidOptions};
use crate::array::select::Sel;
use crate::array::{Array, Gathering, Order, ReadOptions, Selection, StridedCopy, Values, WriteOptions};
use crate::codec::shard::advance;
use crate::copy::Blocks;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::num;
use crate::store::StoreExt as _;
use crate::task::{self, Gaps, Meter, Operation, Unit, lock};

/// The maximum number of cells in flight from or to a remote store.
const REMOTE_CELLS: u64 = 24;

/// Builds all levels.
pub(super) async fn run(
    base: &Array,
    stages: &[Stage],
    method: Downsampling,
    options: &PyramidOptions,
    journal: &Journal,
) -> Result<()> {
    let _operation = Operation::begin("image pyramid", base.store());
    let neighbours = method == Downsampling::Gaussian;
    let (context, memory) = (&options.context, options.context.memory());
    let threads = num::u64_of(context.threads()).max(1);
    let cell_bytes = (num::u64_of(memory) / 8 / threads).clamp(1 << 20, 64 << 20);
    let cutting = PassPlan { base, stages, neighbours, cell_bytes };
    let passes = cutting.passes();
    let mut total = 0u64;
    for pass in &passes {
        total = total.saturating_add(bytes_of(cutting.above(pass.first), cutting.above(pass.first).shape())?);
    }
    let meter = Arc::new(options.task.meter(Unit::Bytes, total));
    let quiet = options.task.without_progress();
    for pass in &passes {
        let above = cutting.above(pass.first);
        let made = stages.get(pass.first..pass.first.saturating_add(pass.levels)).unwrap_or_default();
        let Some(first) = made.first() else { continue };
        let read = bytes_of(above, &pass.cell)?.saturating_mul(first.plan.step.iter().product::<u64>());
        let remote = above.store().is_remote() || first.array.store().is_remote();
        let jobs = num::u64_of(context.jobs_at_once());
        let wanted = if remote { REMOTE_CELLS.max(jobs) } else { jobs };
        let at_once = num::usize_of((num::u64_of(memory) / 2 / read.max(1)).clamp(1, wanted))?;
        let data_type = &base.meta().data_type;
        let work = Arc::new(PassWork {
            above: above.clone(),
            stages: made.to_vec(),
            kernel: if neighbours { None } else { Some(Kernel::of(method, data_type)?) },
            gaussian: if neighbours { Some(Gaussian::of(data_type, &first.plan.step)?) } else { None },
            size: data_type.size(),
            open: Mutex::default(),
            shards: Mutex::default(),
            spare: Mutex::default(),
            reads: Mutex::default(),
            write: WriteOptions { assume_empty: true, task: quiet.clone(), ..WriteOptions::default() },
            read: ReadOptions { task: quiet.clone(), ..ReadOptions::default() },
            meter: meter.clone(),
        });
        run_pass(&work, pass, &pass.order(stages)?, at_once, journal)
            .await
            .map_err(|e| e.within(format_args!("building the levels below {:?}", above.shape())))?;
    }
    Ok(())
}

fn bytes_of(array: &Array, shape: &[u64]) -> Result<u64> {
    Ok(num::product(shape)?.saturating_mul(num::u64_of(array.meta().data_type.size())))
}

/// A chunk that is not complete yet.
struct PendingChunk {
    bytes: BytesMut,
    /// The number of missing pixels.
    left: u64,
}

/// A shard that is not complete yet.
struct PendingShard {
    gathering: Arc<Gathering>,
    left: AtomicU64,
}

/// Which chunk or shard: of which level, and its index.
type Place = (usize, Vec<u64>);

/// A put that is done after the job, since threads of the pool must not wait for a server.
enum Later {
    Chunk(Array, Selection, Bytes),
    Shard(Arc<Gathering>),
}

/// The shared state of the jobs.
struct PassWork {
    above: Array,
    stages: Vec<Stage>,
    kernel: Option<Kernel>,
    gaussian: Option<Gaussian>,
    size: usize,
    open: Mutex<HashMap<Place, Arc<Mutex<PendingChunk>>>>,
    shards: Mutex<HashMap<Place, Arc<PendingShard>>>,
    /// Reusable buffers of finished chunks.
    spare: Mutex<Vec<BytesMut>>,
    /// Reusable buffers of cells.
    reads: Mutex<Vec<Vec<u8>>>,
    write: WriteOptions,
    read: ReadOptions,
    meter: Arc<Meter>,
}

/// The pending cells.
struct Queue {
    /// The cells left per block in progress.
    left: HashMap<u64, usize>,
    blocks: Gaps,
}

async fn run_pass(
    work: &Arc<PassWork>,
    pass: &Pass,
    cells: &[Vec<u64>],
    at_once: usize,
    journal: &Journal,
) -> Result<()> {
    let Some(first) = work.stages.first() else { return Ok(()) };
    let blocks = &Blocks::new(&first.plan.shape, pass.block.clone());
    let total = blocks.count()?;
    let block: Vec<String> = pass.block.iter().map(u64::to_string).collect();
    let name = &format!("levels of {} {}", work.above.path(), block.join(","));
    let before = journal.done(name).min(total);
    for i in 0..before {
        let made = bytes_of(&work.above, &blocks.place(i).1)?;
        work.meter.advance(made.saturating_mul(first.plan.step.iter().product()));
    }
    let queue = &Mutex::new(Queue { left: HashMap::new(), blocks: Gaps::new(before) });
    let all = (before..total).flat_map(|block| (0..cells.len()).map(move |cell| (block, cell)));
    task::each(at_once, all, |(block, cell)| async move {
        work.read.task.check()?;
        journal.beat().await?;
        // The last block may be shorter, and a cell outside of it.
        let (mut start, within) = blocks.place(block);
        let cell = cells.get(cell).map(Vec::as_slice).unwrap_or_default();
        if cell.iter().zip(&within).all(|(c, n)| c < n) {
            let left: Vec<u64> = within.iter().zip(cell).map(|(n, c)| n - c).collect();
            start.iter_mut().zip(cell).for_each(|(s, c)| *s += c);
            let count = pass.cell.iter().zip(&left).map(|(c, n)| (*c).min(*n)).collect();
            work.cell(LevelRegion { start, count }).await?;
        }
        let done = {
            let mut queue = lock(queue);
            let left = queue.left.entry(block).or_insert(cells.len());
            *left = left.saturating_sub(1);
            if *left > 0 {
                return Ok(());
            }
            queue.left.remove(&block);
            queue.blocks.close(block)
        };
        journal.note(name, done).await
    })
    .await?;
    journal.write().await
}

impl PassWork {
    /// Reads the source of the region `made` of the first level, and builds it.
    async fn cell(self: &Arc<Self>, made: LevelRegion) -> Result<()> {
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
                LevelRegion { start, count }
            }
        };
        let place = Selection::start_count(&needed.start, &needed.count);
        let far = match self.above.store().direct() {
            Some(_) => None,
            None => Some(self.above.read_slab(&place, &self.read).await?.bytes),
        };
        let work = self.clone();
        let later = self
            .above
            .context()
            .run(move || {
                let mut later = Vec::new();
                match far {
                    Some(read_slab) => work.reduce(&read_slab, &needed, made, &mut later)?,
                    None => {
                        let length = num::product_usize(&needed.count)?.saturating_mul(work.size);
                        let mut read = lock(&work.reads).pop().unwrap_or_default();
                        read.resize(length, 0);
                        work.above.read_into(&place, &work.read, &mut read)?;
                        work.reduce(&read, &needed, made, &mut later)?;
                        lock(&work.reads).push(read);
                    }
                }
                Ok(later)
            })
            .await?;
        for put in later {
            match put {
                Later::Chunk(array, place, pixels) => {
                    array.write_slab(&place, Values::new(pixels, Order::C), &self.write).await?;
                }
                Later::Shard(gathering) => gathering.put().await?,
            }
        }
        Ok(())
    }

    /// Downsamples pixels that were read, and adds them to the first level.
    fn reduce(
        &self,
        read: &[u8],
        needed: &LevelRegion,
        made: LevelRegion,
        later: &mut Vec<Later>,
    ) -> Result<()> {
        let Some(stage) = self.stages.first() else { return Ok(()) };
        let step = &stage.plan.step;
        let mut out = self.room(num::product_usize(&made.count)?.saturating_mul(self.size));
        match (&self.kernel, &self.gaussian) {
            (Some(kernel), _) => kernel.reduce(read, &needed.count, step, &made.count, &mut out)?,
            (None, Some(gaussian)) => {
                gaussian.reduce(read, needed, step, self.above.shape(), &made, &mut out)?;
            }
            (None, None) => return Err(Error::usage("there is no method")),
        }
        self.meter.advance(num::u64_of(out.len()).saturating_mul(step.iter().product()));
        self.add(0, &made, out.freeze(), later)
    }

    /// A buffer of `bytes` bytes with arbitrary content.
    fn room(&self, bytes: usize) -> BytesMut {
        let mut room = lock(&self.spare).pop().unwrap_or_default();
        room.resize(bytes, 0);
        room
    }

    /// Returns a buffer for reuse, if it is no longer shared.
    fn give_back(&self, pixels: Bytes) {
        lock(&self.spare).extend(pixels.try_into_mut().ok());
    }

    /// Adds pixels to their chunks of a level.
    fn add(&self, level: usize, part: &LevelRegion, pixels: Bytes, later: &mut Vec<Later>) -> Result<()> {
        let Some(stage) = self.stages.get(level) else { return Ok(()) };
        let (firsts, counts) = stage.touched(&part.start, &part.count);
        let mut at = vec![0u64; counts.len()];
        for _ in 0..num::product(&counts)? {
            let index: Vec<u64> = firsts.iter().zip(&at).map(|(a, b)| a.saturating_add(*b)).collect();
            advance(&mut at, &counts);
            let start: Vec<u64> = index.iter().zip(&stage.unit).map(|(i, n)| i.saturating_mul(*n)).collect();
            let chunk = LevelRegion { count: stage.clipped(&start, &stage.unit), start };
            if *chunk.start == *part.start && *chunk.count == *part.count {
                // The whole chunk at once.
                self.put(level, &index, &chunk, &pixels, later)?;
                continue;
            }
            let place = (level, index);
            let open = match lock(&self.open).entry(place.clone()) {
                std::collections::hash_map::Entry::Occupied(o) => o.get().clone(),
                std::collections::hash_map::Entry::Vacant(v) => {
                    let left = num::product(&chunk.count)?;
                    let bytes = self.room(num::usize_of(left)?.saturating_mul(self.size));
                    v.insert(Arc::new(Mutex::new(PendingChunk { bytes, left }))).clone()
                }
            };
            let whole = {
                let mut open = lock(&open);
                let placed = place_part(&pixels, part, &mut open.bytes, &chunk, self.size)?;
                open.left = open.left.saturating_sub(placed);
                (open.left == 0).then(|| std::mem::take(&mut open.bytes))
            };
            if let Some(bytes) = whole {
                lock(&self.open).remove(&place);
                let bytes = bytes.freeze();
                self.put(level, &place.1, &chunk, &bytes, later)?;
                self.give_back(bytes);
            }
        }
        self.give_back(pixels);
        Ok(())
    }

    /// Puts a complete chunk, and downsamples it.
    fn put(
        &self,
        level: usize,
        index: &[u64],
        chunk: &LevelRegion,
        pixels: &Bytes,
        later: &mut Vec<Later>,
    ) -> Result<()> {
        let Some(stage) = self.stages.get(level) else { return Ok(()) };
        let selection = Selection::start_count(&chunk.start, &chunk.count);
        if stage.gathers {
            self.gather(level, stage, index, &selection, pixels.clone(), later)?;
        } else if stage.array.store().direct().is_some() {
            stage.array.write_slab_blocking(
                &selection,
                Values::new(pixels.clone(), Order::C),
                &self.write,
            )?;
        } else {
            later.push(Later::Chunk(stage.array.clone(), selection, pixels.clone()));
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
        let made = LevelRegion { start, count };
        let length = num::product_usize(&made.count)?.saturating_mul(self.size);
        if length == 0 {
            return Ok(());
        }
        let mut out = self.room(length);
        kernel.reduce(pixels, &chunk.count, step, &made.count, &mut out)?;
        self.add(next, &made, out.freeze(), later)
    }

    /// Adds a chunk to its shard, and puts the shard if it is complete.
    fn gather(
        &self,
        level: usize,
        stage: &Stage,
        index: &[u64],
        selection: &Selection,
        pixels: Bytes,
        later: &mut Vec<Later>,
    ) -> Result<()> {
        let count = num::u64_of(pixels.len().checked_div(self.size).unwrap_or(0));
        let at: Vec<u64> = index
            .iter()
            .zip(stage.unit.iter().zip(&stage.whole))
            .map(|(i, (unit, whole))| i.saturating_mul(*unit).checked_div(*whole).unwrap_or(0))
            .collect();
        let place = (level, at);
        let shard = match lock(&self.shards).entry(place.clone()) {
            std::collections::hash_map::Entry::Occupied(o) => o.get().clone(),
            std::collections::hash_map::Entry::Vacant(v) => {
                let start: Vec<u64> =
                    place.1.iter().zip(&stage.whole).map(|(i, n)| i.saturating_mul(*n)).collect();
                let left = AtomicU64::new(num::product(&stage.clipped(&start, &stage.whole))?);
                let gathering = Arc::new(stage.array.gather(&place.1, &self.write)?);
                v.insert(Arc::new(PendingShard { gathering, left })).clone()
            }
        };
        shard.gathering.add(selection, Values::new(pixels, Order::C))?;
        if shard.left.fetch_sub(count, Ordering::AcqRel) == count {
            lock(&self.shards).remove(&place);
            match stage.array.store().direct() {
                Some(_) => shard.gathering.put_at_hand()?,
                None => later.push(Later::Shard(shard.gathering.clone())),
            }
        }
        Ok(())
    }
}

/// Copies the pixels of `part` that are in `chunk` to their place, and returns their number.
fn place_part(
    pixels: &[u8],
    part: &LevelRegion,
    bytes: &mut [u8],
    chunk: &LevelRegion,
    size: usize,
) -> Result<u64> {
    let along = |((from, n), (to, room)): ((&u64, &u64), (&u64, &u64))| {
        let first = (*from).max(*to);
        let end = from.saturating_add(*n).min(to.saturating_add(*room));
        Sel::Range { start: first - from, step: 1, count: end.saturating_sub(first), dst: first - to }
    };
    let sides = part.start.iter().zip(&part.count).zip(chunk.start.iter().zip(&chunk.count));
    let shared: Vec<Sel> = sides.map(along).collect();
    let strides = strides(&chunk.count, size)?;
    StridedCopy::new(&part.count, &shared.iter().collect::<Vec<_>>(), &strides, size)?
        .copy_into(pixels, bytes)?;
    num::product(&shared.iter().map(Sel::count).collect::<Vec<_>>())
}
