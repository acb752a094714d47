//! Copying an array by decoding and encoding it, block by block.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Run;
use super::blocks::{Blocks, Cutting, Way};
use super::cells;
use super::scratch::Scratch;
use super::target::{Region, Target};
use crate::array::{Array, ReadOptions, Selection, Slab, Values, WriteOptions};
use crate::blocking::wait;
use crate::error::{Error, Result};
use crate::meta::{ArrayMeta, Json, Mode, v3};
use crate::num;
use crate::store::local::LocalStore;

/// Blocks under way at once: while one is written, the other is read.
const AT_ONCE: usize = 2;

/// Fails if there is not enough memory for this copy.
pub(super) fn check(run: &Run<'_>, source: &Array, made: &Array, target: &Target) -> Result<()> {
    if cells::cell(run, source, made, target).is_some() {
        return Ok(());
    }
    let (from, to) = (target.region.chunks(source.meta()), made.meta().grid.largest());
    let size = source.meta().data_type.size().max(made.meta().data_type.size());
    Cutting { shape: made.shape(), from: &from, to: &to, size }.way(run.memory / 6).map(drop)
}

/// Copies the elements that `target` takes of `source` to `made`.
pub(super) fn copy(run: &Run<'_>, source: &Array, made: &Array, target: &Target) -> Result<()> {
    let from = target.region.chunks(source.meta());
    let to = made.meta().grid.largest();
    let size = item_size(run, source, made)?;
    let cutting = Cutting { shape: made.shape(), from: &from, to: &to, size };
    if let Some(cell) = cells::cell(run, source, made, target) {
        return cells::copy(run, source, made, target, &cell);
    }
    // Two blocks, as much again while they are encoded, a quarter for the reader: just below all of it.
    let write = |slab: &Slab, start: &[u64], count: &[u64]| {
        let options =
            WriteOptions { blank: true, cancel: run.options.cancel.clone(), ..WriteOptions::default() };
        made.write(&Selection::start_count(start, count), Values::from(slab), &options)
    };
    let way = match cutting.way(run.memory / 6)? {
        // Temporary chunks hold elements of a fixed size only.
        Way::Between { write, .. } if source.meta().data_type.is_variable() => Way::Direct(write),
        way => way,
    };
    match way {
        Way::Direct(blocks) => {
            let path = progress_of(made, &blocks);
            each(run, &blocks, run.before(&path), &|n| run.note(&path, n), |start, count| {
                write(&read(run, source, target, start, count)?, start, count)
            })
        }
        Way::Between { read: reading, pieces, write: writing } => {
            let path = progress_of(made, &writing);
            let before = run.before(&path);
            if before >= writing.count()? {
                return Ok(());
            }
            // Temporary chunks are never those of another run, which could be of other elements.
            let scratch = Scratch::new(run.options.temporary.as_deref())?;
            let between = between(&scratch, made.meta(), &pieces)?;
            each(run, &reading, 0, &|_| Ok(()), |start, count| {
                let slab = read(run, source, target, start, count)?;
                let options = WriteOptions { blank: true, alone: true, ..WriteOptions::default() };
                between.write(&Selection::start_count(start, count), Values::from(&slab), &options)
            })?;
            // What was read into temporary chunks counts as nothing: the bar is about what is written.
            run.done.store(
                run.done.load(Ordering::Relaxed).saturating_sub(super::decoded_bytes(made.meta())?),
                Ordering::Relaxed,
            );
            let all = Target {
                meta: made.meta().clone(),
                region: Region::all(made.meta()),
                cast: None,
                verbatim: false,
            };
            each(run, &writing, before, &|n| run.note(&path, n), |start, count| {
                write(&read(run, &between, &all, start, count)?, start, count)
            })
        }
    }
}

/// What an element takes in between, where it has its type of before the cast or after it. Those without a fixed size: about,
/// but not so much that a chunk does not fit.
fn item_size(run: &Run<'_>, source: &Array, made: &Array) -> Result<usize> {
    let size = source.meta().data_type.size().max(made.meta().data_type.size());
    if !source.meta().data_type.is_variable() {
        return Ok(size);
    }
    let extents = made.meta().grid.largest();
    let chunk =
        extents.iter().zip(made.shape()).fold(1u64, |all, (chunk, n)| all.saturating_mul(*chunk.min(n)));
    let most = num::u64_of(run.memory / 8) / chunk.max(1);
    Ok(wait(source.item_bytes())?.min(usize::try_from(most).unwrap_or(usize::MAX)).max(size))
}

/// Under which name the blocks that are done are noted. Their shape is part of it: with another, as other memory gives,
/// their number would mean something else.
pub(super) fn progress_of(made: &Array, blocks: &Blocks) -> String {
    let block: Vec<String> = blocks.block().iter().map(u64::to_string).collect();
    format!("{} {}", made.path(), block.join(","))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` with the place and size of every block from `first` on, some at a time. `note` is told how many are
/// done without a gap.
fn each(
    run: &Run<'_>,
    blocks: &Blocks,
    first: u64,
    note: &(dyn Fn(u64) -> Result<()> + Sync),
    work: impl Fn(&[u64], &[u64]) -> Result<()> + Sync,
) -> Result<()> {
    let total = blocks.count()?;
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let gaps = Mutex::new(Gaps::new(first));
    let step = || -> Result<()> {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= total || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (start, count) = blocks.place(i);
            let done = run.check().and_then(|()| work(&start, &count)).and_then(|()| {
                let mut gaps = lock(&gaps);
                note(gaps.close(i))
            });
            if let Err(e) = done {
                failed.store(true, Ordering::Relaxed);
                return Err(e);
            }
        }
    };
    on_threads(AT_ONCE, step)
}

/// Runs `step` on so many threads, one of them the caller's.
pub(super) fn on_threads(threads: usize, step: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|s| {
        let others: Vec<_> = (1..threads).map(|_| s.spawn(&step)).collect();
        let mine = step();
        others.into_iter().fold(mine, |done, other| {
            done.and(other.join().unwrap_or_else(|_| Err(Error::io("a copying thread was lost"))))
        })
    })
}

/// What is done, though not in order.
pub(super) struct Gaps {
    upto: u64,
    ahead: BTreeSet<u64>,
}

impl Gaps {
    /// All before `first` is done.
    pub(super) fn new(first: u64) -> Self {
        Self { upto: first, ahead: BTreeSet::new() }
    }

    /// `i` is done, too. How many are without a gap.
    pub(super) fn close(&mut self, i: u64) -> u64 {
        self.ahead.insert(i);
        while self.ahead.remove(&self.upto) {
            self.upto += 1;
        }
        self.upto
    }
}

/// The elements of the copy at `start`, as they are to be written.
pub(super) fn read(
    run: &Run<'_>,
    source: &Array,
    target: &Target,
    start: &[u64],
    count: &[u64],
) -> Result<Slab> {
    let options = ReadOptions { cancel: run.options.cancel.clone(), ..ReadOptions::default() };
    let mut slab = source.read_blocking(&target.region.part(start, count), &options)?;
    let elements = num::product(count)?;
    if let Some(cast) = &target.cast {
        slab.bytes = cast.apply(std::mem::take(&mut slab.bytes), elements)?;
        slab.data_type = target.meta.data_type.clone();
    }
    run.advance(elements.saturating_mul(num::u64_of(slab.data_type.size())));
    Ok(slab)
}

/// An array of uncompressed temporary chunks.
fn between(scratch: &Scratch, like: &ArrayMeta, pieces: &[Vec<u64>]) -> Result<Array> {
    if like.data_type.is_variable() {
        return Err(Error::unsupported(
            "elements without a fixed size cannot be cut so differently; use more --memory",
        ));
    }
    // The elements are only bytes here, whatever they mean; their fill value is known again at the end.
    let lengths: Vec<Json> = pieces.iter().map(|p| Json::Array(p.iter().map(Json::int).collect())).collect();
    let mut grid = Json::object();
    grid.set("kind", Json::string("inline"));
    grid.set("chunk_shapes", Json::Array(lengths));
    let meta = ArrayMeta {
        grid: crate::meta::Grid::rectilinear(&grid, &like.shape)?,
        codecs: v3::codecs(
            &Json::parse(br#"[{"name":"bytes","configuration":{"endian":"little"}}]"#)?.value,
            "codecs",
        )?,
        keys: crate::meta::ChunkKeys { prefixed: true, separator: '/' },
        format: crate::meta::Format::V3,
        ..like.clone()
    };
    Array::new(Arc::new(LocalStore::new(scratch.path())), "", meta, Mode::Tolerant, Vec::new(), 1 << 20)
}

/// Reads source and copy once more and compares them, bit for bit.
pub(super) fn verify(run: &Run<'_>, source: &Array, made: &Array, target: &Target) -> Result<()> {
    let to = made.meta().grid.largest();
    let size = item_size(run, source, made)?;
    let from = target.region.chunks(source.meta());
    let cutting = Cutting { shape: made.shape(), from: &from, to: &to, size };
    let blocks = match cutting.way(run.memory / 8) {
        Ok(Way::Direct(blocks)) => blocks,
        Ok(Way::Between { write, .. }) => write,
        // Reading needs no whole chunks.
        Err(_) => cutting.smaller(run.memory / 8),
    };
    let quiet = Run { done: AtomicU64::new(0), total: 0, ..*run };
    each(&quiet, &blocks, 0, &|_| Ok(()), |start, count| {
        let want = read(&quiet, source, target, start, count)?;
        let got = made.read_blocking(&Selection::start_count(start, count), &ReadOptions::default())?;
        let differs = want.items().zip(got.items()).position(|(a, b)| a != b);
        match differs {
            None if want.len() == got.len() => Ok(()),
            differs => {
                let mut left = num::u64_of(differs.unwrap_or(0));
                let mut at = start.to_vec();
                for (a, n) in at.iter_mut().zip(count).rev() {
                    *a += left % (*n).max(1);
                    left /= (*n).max(1);
                }
                Err(Error::invalid(format!("the copy differs from the source at {at:?}")))
            }
        }
    })
}
