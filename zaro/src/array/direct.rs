//! Reading from files and memory: the thread that decodes a chunk reads it.

use std::cell::RefCell;

use rayon::prelude::*;

use super::plan::Job;
use super::read::{Id, Indexed, Inside, Joining, Reader, Run, is_one_piece, is_partial, permuted};
use super::select::Sel;
use crate::codec::chain::{Chain, Scratch, room};
use crate::codec::shard::Shard;
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::{Direct, DirectObject, ObjectMeta};
use std::sync::Arc;

/// How often a chunk is read again that was changed while it was read.
pub(super) const AGAIN: usize = 2;

/// What a thread keeps from chunk to chunk.
#[derive(Default)]
struct Bench {
    input: Vec<u8>,
    scratch: Scratch,
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::default();
}

/// Runs `f` with this thread's memory. Nested calls get memory of their own: the thread may be helping out another
/// chunk while it waits for parts of the first.
fn with_bench<R>(f: impl FnOnce(&mut Bench) -> R) -> R {
    let mut bench = BENCH.take();
    let out = f(&mut bench);
    // Keep what chunks usually need, not what one monster needed.
    if bench.input.len() < 64 << 20 {
        BENCH.set(bench);
    }
    out
}

/// Encoded bytes: in an object, or already in memory.
#[derive(Clone, Copy)]
enum Source<'a> {
    Object { object: &'a dyn DirectObject, offset: u64, length: u64 },
    Bytes(&'a [u8]),
}

impl<'a> Source<'a> {
    fn of(object: &'a dyn DirectObject) -> Self {
        match object.as_bytes() {
            Some(bytes) => Self::Bytes(bytes),
            None => Self::Object { object, offset: 0, length: object.size() },
        }
    }

    /// Whether all of it, or any part, comes with one read.
    fn is_one_read(&self) -> bool {
        match self {
            Self::Object { length, .. } => *length <= num::u64_of(Joining::PIECES.1),
            Self::Bytes(_) => true,
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Object { length, .. } => *length,
            Self::Bytes(b) => num::u64_of(b.len()),
        }
    }

    fn part(&self, offset: u64, length: u64) -> Result<Self> {
        if offset.checked_add(length).is_none_or(|end| end > self.length()) {
            return Err(Error::invalid(format!(
                "bytes {offset}+{length} lie outside the {} bytes that are there",
                self.length()
            )));
        }
        Ok(match self {
            Self::Object { object, offset: base, .. } => {
                Self::Object { object: *object, offset: base + offset, length }
            }
            Self::Bytes(b) => {
                let start = num::usize_of(offset)?;
                Self::Bytes(b.get(start..start + num::usize_of(length)?).unwrap_or_default())
            }
        })
    }

    /// The bytes, read into `room` unless they are in memory.
    fn read<'b>(&self, input: &'b mut Vec<u8>) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        match self {
            Self::Bytes(b) => Ok(b),
            Self::Object { object, offset, length } => {
                let buf = room(input, num::usize_of(*length)?)?;
                object.read_at(*offset, buf)?;
                Ok(buf)
            }
        }
    }
}

impl Reader {
    /// Reads everything, on the threads of the current rayon pool.
    pub(super) fn direct(&self) -> Result<()> {
        let store = self.array.store.clone();
        let Some(direct) = store.direct() else { return Err(Error::unsupported("the store is not at hand")) };
        let jobs = self.plan.jobs();
        if jobs == 1 {
            return self.chunk(direct, &self.plan.job(0));
        }
        (0..jobs).into_par_iter().try_for_each(|i| self.chunk(direct, &self.plan.job(i)))
    }

    /// Places a chunk, once more if it was replaced meanwhile.
    fn chunk(&self, direct: &dyn Direct, job: &Job<'_>) -> Result<()> {
        for _ in 0..AGAIN {
            match self.chunk_once(direct, job) {
                Err(e) if e.kind() == ErrorKind::Conflict => self.blank(job)?,
                done => return done,
            }
        }
        self.chunk_once(direct, job)
    }

    fn chunk_once(&self, direct: &dyn Direct, job: &Job<'_>) -> Result<()> {
        self.check_cancel()?;
        let array = &self.array;
        let chain = array.chain_at(&job.index)?;
        let (sels, strides) = permuted(&chain, &job.sels, &self.plan.strides);
        let leaf = chain.shard().is_none();
        let id = job.number.map(Id::chunk);
        if leaf && chain.plain().is_none() && self.remembered(&chain, &sels, &strides, id)? {
            return Ok(());
        }
        let mut key = array.chunk_key(&job.index);
        let mut object = direct.open(&key)?;
        if object.is_some() {
            array.found_as_stated();
        } else if let Some(other) = array.doubtful_key(&job.index, &key) {
            object = direct.open(&other)?;
            if object.is_some() {
                array.found_under_other(&other)?;
                key = other;
            }
        }
        let done = match &object {
            None => self.missing(&sels, &strides),
            Some(object) => {
                let source = Source::of(object.as_ref());
                let top = Some((object.as_ref(), job.number));
                let done = self.encoded(&chain, source, &sels, &strides, id, top);
                // A file that is written in place was perhaps read half before and half after.
                let one_piece = chain.order().is_none() && is_one_piece(&chain.decoded().shape, &job.sels);
                let in_parts =
                    !source.is_one_read() || !one_piece && is_partial(&chain.decoded().shape, &job.sels);
                let whole = chain.shard().is_none() && !(in_parts && chain.plain().is_some());
                match if whole && done.is_ok() { Ok(()) } else { object.check_unchanged() } {
                    Ok(()) => done,
                    Err(changed) => Err(changed),
                }
            }
        };
        done.map_err(|e| e.with_key(&key))
    }

    /// Places what is wanted of an encoded chunk. `sels` are in the order of [`permuted`].
    ///
    /// `id` names the chunk for the caches; `top` is the object, and the number of the chunk, if the chunk is a whole
    /// object, whose index may be kept.
    fn encoded(
        &self,
        chain: &Chain,
        source: Source<'_>,
        sels: &[&Sel],
        strides: &[usize],
        id: Option<Id>,
        top: Option<(&dyn DirectObject, Option<u64>)>,
    ) -> Result<()> {
        if let Some(shard) = chain.shard() {
            let index = self.index(shard, source, top)?;
            let inside = self.inside_local(shard, &index, source, sels, strides)?;
            let kept = top.and_then(|(_, number)| number).map(|number| (number, &*index));
            return self.shard(shard, source, &inside, strides, kept);
        }
        if self.plain(chain, source, sels, strides)? {
            return Ok(());
        }
        with_bench(|bench| {
            let Bench { input, scratch } = bench;
            self.leaf(chain, source.read(input)?, sels, strides, id, scratch)
        })
    }

    /// Places what is wanted of an uncompressed chunk without reading all of it; `false` if it is not one, or if all of
    /// it has to be read, and nothing was done.
    fn plain(&self, chain: &Chain, source: Source<'_>, sels: &[&Sel], strides: &[usize]) -> Result<bool> {
        let (Some(codec), Source::Object { object, offset, length }) = (chain.plain(), source) else {
            return Ok(false);
        };
        if chain.encoded_size().check(usize::try_from(length).unwrap_or(usize::MAX)).is_err() {
            return Ok(false);
        }
        let read = |at: usize, buf: &mut [u8]| {
            object.read_at(offset.saturating_add(num::u64_of(at)), buf)?;
            codec.decode_in_place(buf, &chain.viewed().data_type);
            Ok(())
        };
        if with_bench(|bench| self.pull(chain, sels, strides, &mut bench.input, &read))? {
            return Ok(true);
        }
        let Some((row, inside)) = self.inside_plain(chain, sels, strides, Joining::LOCAL)? else {
            return Ok(false);
        };
        with_bench(|bench| {
            inside.runs.iter().try_for_each(|run| {
                let block = source.part(run.offset, run.length)?.read(&mut bench.input)?;
                each_item(run, block, |item, bytes| {
                    self.plain_row(chain, &row, bytes, &inside.sels(item), strides)
                })
            })
        })?;
        Ok(true)
    }

    /// Places what is wanted of a shard that is in memory. `sels` are in the order of [`permuted`].
    pub(super) fn shard_in_memory(
        &self,
        shard: &Shard,
        bytes: &[u8],
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<()> {
        let source = Source::Bytes(bytes);
        let index = self.index(shard, source, None)?;
        let inside = self.inside_local(shard, &index, source, sels, strides)?;
        self.shard(shard, source, &inside, strides, None)
    }

    /// The inner chunks that are needed of a shard at hand. Those that are kept are found when their turn comes.
    fn inside_local(
        &self,
        shard: &Shard,
        index: &Indexed,
        source: Source<'_>,
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<Inside> {
        let never = |_: &Inside, _: &super::read::Item| Ok(false);
        self.inside_shard(shard, &index.index, sels, strides, source.length(), Joining::LOCAL, never)
    }

    /// Places what is wanted of the inner chunks of a shard.
    fn shard(
        &self,
        shard: &Shard,
        source: Source<'_>,
        inside: &Inside,
        strides: &[usize],
        kept: Option<(u64, &Indexed)>,
    ) -> Result<()> {
        let chain = shard.inner();
        let nested = chain.shard().is_some();
        // Uncompressed inner chunks of which a part is wanted are read in parts.
        let in_parts = |run: &Run| {
            chain.plain().is_some()
                && matches!(source, Source::Object { .. })
                && run.items.first().is_some_and(|i| is_partial(&chain.decoded().shape, &inside.sels(i)))
        };
        let one = |run: &Run| {
            self.check_cancel()?;
            if nested || in_parts(run) {
                return run.items.iter().try_for_each(|item| {
                    let (sels, strides) = permuted(chain, &inside.sels(item), strides);
                    self.encoded(chain, source.part(item.offset, item.length)?, &sels, &strides, None, None)
                });
            }
            with_bench(|bench| {
                let Bench { input, scratch } = bench;
                let mut block: Option<&[u8]> = None;
                for item in &run.items {
                    let (sels, strides) = permuted(chain, &inside.sels(item), strides);
                    let inner_id = kept.map(|(chunk, index)| Id::inner(chunk, index, item));
                    if chain.plain().is_none() && self.remembered(chain, &sels, &strides, inner_id)? {
                        continue;
                    }
                    // Read only when the first inner chunk is not remembered.
                    let bytes = match block {
                        Some(b) => b,
                        None => source.part(run.offset, run.length)?.read(input)?,
                    };
                    block = Some(bytes);
                    let at = num::usize_of(item.offset - run.offset)?;
                    let bytes = bytes.get(at..at + num::usize_of(item.length)?).unwrap_or_default();
                    self.leaf(chain, bytes, &sels, &strides, inner_id, scratch)?;
                }
                Ok(())
            })
        };
        if inside.runs.len() == 1 {
            inside.runs.iter().try_for_each(one)
        } else {
            inside.runs.par_iter().try_for_each(one)
        }
    }

    /// The index of a shard, from the cache if it is a whole object that has not changed.
    fn index(
        &self,
        shard: &Shard,
        source: Source<'_>,
        top: Option<(&dyn DirectObject, Option<u64>)>,
    ) -> Result<Arc<Indexed>> {
        let number = top.and_then(|(_, number)| number);
        let state = top.map_or(ObjectMeta::Unknown, |(object, _)| object.meta());
        let cell = number.and_then(|n| self.array.indexes.get(&(self.generation, n)));
        if let Some(index) = cell.as_ref().and_then(|c| c.get()).filter(|i| i.state.agrees(&state)) {
            return Ok(index.clone());
        }
        let size = num::u64_of(shard.index_size());
        let offset = if shard.index_at_end() {
            source.length().checked_sub(size).ok_or_else(|| {
                Error::invalid(format!("the shard has {} bytes, its index alone {size}", source.length()))
            })?
        } else {
            0
        };
        let mut input = Vec::new();
        let index = shard.read_index(source.part(offset, size)?.read(&mut input)?)?;
        let memory = index.memory();
        let index = Indexed::new(&self.array, index, state);
        if let Some(n) = number {
            let cell = Arc::new(tokio::sync::OnceCell::new_with(Some(index.clone())));
            self.array.indexes.put((self.generation, n), cell, memory);
        }
        Ok(index)
    }
}

/// Calls `f` with each item of a run and its bytes.
pub(super) fn each_item(
    run: &Run,
    block: &[u8],
    f: impl Fn(&super::read::Item, &[u8]) -> Result<()>,
) -> Result<()> {
    for item in &run.items {
        let at = num::usize_of(item.offset - run.offset)?;
        f(item, block.get(at..at + num::usize_of(item.length)?).unwrap_or_default())?;
    }
    Ok(())
}
