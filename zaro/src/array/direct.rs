//! Reading from local stores (files and memory): the decoding thread itself reads the chunk.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::plan::ChunkJob;
use super::read::Reader;
use super::runs::{
    Indexed, InnerChunks, Joining, Run, Within, index_key, is_one_piece, is_partial, permuted,
};
use super::select::Sel;
use crate::codec::chain::{Chain, Scratch, room};
use crate::codec::shard::Shard;
use crate::context::Key;
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::{Direct, DirectObject, ObjectMeta};
use std::sync::Arc;

/// How often a chunk is read again if it changed while it was read.
pub(super) const AGAIN: usize = 2;

/// Buffers that a thread reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct ThreadBuffers {
    input: Vec<u8>,
    pub(super) scratch: Scratch,
}

thread_local! {
    static BUFFERS: RefCell<ThreadBuffers> = RefCell::default();
}

/// Runs `f` with this thread's buffers. Nested calls get their own: the thread may work on another chunk while it waits
/// for parts of the first.
pub(super) fn with_buffers<R>(f: impl FnOnce(&mut ThreadBuffers) -> R) -> R {
    let mut buffers = BUFFERS.take();
    let out = f(&mut buffers);
    // Keep what chunks usually need, not an unusually large buffer.
    if buffers.input.len().max(buffers.scratch.bytes()) < 64 << 20 {
        BUFFERS.set(buffers);
    }
    out
}

/// Encoded bytes: in an object, or already in memory.
#[derive(Clone, Copy)]
enum EncodedSource<'a> {
    Object { object: &'a dyn DirectObject, offset: u64, length: u64 },
    Bytes(&'a [u8]),
}

impl<'a> EncodedSource<'a> {
    fn of(object: &'a dyn DirectObject) -> Self {
        match object.as_bytes() {
            Some(bytes) => Self::Bytes(bytes),
            None => Self::Object { object, offset: 0, length: object.size() },
        }
    }

    /// Whether all of it, or any part, takes a single read.
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
                "bytes {offset}+{length} lie outside the {} available bytes",
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
    /// Reads everything, on the current rayon pool.
    pub(super) fn direct(&self) -> Result<()> {
        let store = self.array.store.clone();
        let Some(direct) = store.direct() else {
            return Err(Error::unsupported("the store has no direct access"));
        };
        let jobs = self.plan.jobs();
        if jobs == 1 {
            return self.chunk(direct, &self.plan.job(0));
        }
        (0..jobs).into_par_iter().try_for_each(|i| self.chunk(direct, &self.plan.job(i)))
    }

    /// Places a chunk, and again if it was replaced meanwhile.
    fn chunk(&self, direct: &dyn Direct, job: &ChunkJob<'_>) -> Result<()> {
        for _ in 0..AGAIN {
            match self.chunk_once(direct, job) {
                Err(e) if e.kind() == ErrorKind::Conflict => self.blank(job)?,
                done => return done,
            }
        }
        self.chunk_once(direct, job)
    }

    fn chunk_once(&self, direct: &dyn Direct, job: &ChunkJob<'_>) -> Result<()> {
        self.check_cancel()?;
        let array = &self.array;
        let chain = array.chain_at(&job.index)?;
        let (sels, strides) = permuted(&chain, &job.sels, &self.plan.strides);
        let name = self.key(job);
        if chain.shard().is_none() && self.remembered(&chain, &sels, &strides, name.as_ref())? {
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
                let source = EncodedSource::of(object.as_ref());
                let done = self.encoded(&chain, source, &sels, &strides, name, Some(object.as_ref()));
                // A file written in place may have been read half before and half after.
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

    /// Places the selected part of an encoded chunk. `sels` are in the order of [`permuted`].
    ///
    /// `name` is the cache key of the chunk; `top` is the object if it is the whole chunk, whose index may be cached.
    fn encoded(
        &self,
        chain: &Chain,
        source: EncodedSource<'_>,
        sels: &[&Sel],
        strides: &[usize],
        name: Option<Key>,
        top: Option<&dyn DirectObject>,
    ) -> Result<()> {
        if let Some(shard) = chain.shard() {
            let index = self.index(shard, source, name.as_ref(), top)?;
            // Cached inner chunks are looked up when they are placed.
            let never = |_: &InnerChunks, _: &super::runs::RunItem| Ok(false);
            let inside = self.inside_shard(
                shard,
                &index.index,
                sels,
                strides,
                source.length(),
                Joining::LOCAL,
                never,
            )?;
            return self.shard(chain, shard, source, &inside, strides, &Within::Shard(index, name));
        }
        if self.plain(chain, source, sels, strides)? {
            return Ok(());
        }
        with_buffers(|buffers| {
            let ThreadBuffers { input, scratch } = buffers;
            self.leaf(chain, source.read(input)?, sels, strides, name, scratch)
        })
    }

    /// Places the selected part of an uncompressed chunk without reading all of it; `false` if it is compressed, or all
    /// of it has to be read, and nothing was done.
    fn plain(
        &self,
        chain: &Chain,
        source: EncodedSource<'_>,
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<bool> {
        let (Some(codec), EncodedSource::Object { object, offset, length }) = (chain.plain(), source) else {
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
        if with_buffers(|buffers| self.pull(chain, sels, strides, &mut buffers.input, &read))? {
            return Ok(true);
        }
        let Some((row, inside)) = self.inside_plain(chain, sels, strides, Joining::LOCAL)? else {
            return Ok(false);
        };
        let within = Within::Plain(row);
        with_buffers(|ThreadBuffers { input, scratch }| {
            inside.runs.iter().try_for_each(|run| {
                let part = source.part(run.offset, run.length)?;
                self.place_run(chain, &inside, run, &within, strides, scratch, || part.read(input))
            })
        })?;
        Ok(true)
    }

    /// Places the selected part of an encoded chunk or shard in memory. `sels` are in the order of [`permuted`].
    pub(super) fn in_memory(
        &self,
        chain: &Chain,
        bytes: &[u8],
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<()> {
        self.encoded(chain, EncodedSource::Bytes(bytes), sels, strides, None, None)
    }

    /// Places the selected parts of the inner chunks of a shard.
    fn shard(
        &self,
        chain: &Chain,
        shard: &Shard,
        source: EncodedSource<'_>,
        inside: &InnerChunks,
        strides: &[usize],
        within: &Within,
    ) -> Result<()> {
        let inner = shard.inner();
        let at_hand = matches!(source, EncodedSource::Bytes(_));
        // Partially selected uncompressed inner chunks, and nested shards, are read in parts.
        let in_parts = |run: &Run| {
            let partial =
                || run.items.first().is_some_and(|i| is_partial(&inner.decoded().shape, &inside.sels(i)));
            !at_hand && (inner.shard().is_some() || inner.plain().is_some() && partial())
        };
        let one = |run: &Run| {
            self.check_cancel()?;
            if in_parts(run) {
                return run.items.iter().try_for_each(|item| {
                    let (sels, strides) = permuted(inner, &inside.sels(item), strides);
                    self.encoded(inner, source.part(item.offset, item.length)?, &sels, &strides, None, None)
                });
            }
            with_buffers(|ThreadBuffers { input, scratch }| {
                let part = source.part(run.offset, run.length)?;
                self.place_run(chain, inside, run, within, strides, scratch, || part.read(input))
            })
        };
        // Threads that share every shard finish them all at the same time, and nothing is fetched meanwhile: they share
        // the last ones only.
        let queued = at_hand && self.left.load(Ordering::Relaxed) > self.array.context.threads();
        if queued || inside.runs.len() == 1 {
            inside.runs.iter().try_for_each(one)
        } else {
            inside.runs.par_iter().try_for_each(one)
        }
    }

    /// The index of a shard, from the cache if it is a whole object that has not changed.
    fn index(
        &self,
        shard: &Shard,
        source: EncodedSource<'_>,
        name: Option<&Key>,
        top: Option<&dyn DirectObject>,
    ) -> Result<Arc<Indexed>> {
        let cache = self.array.context.chunks();
        let key = name.filter(|_| top.is_some()).map(index_key);
        let state = top.map_or(ObjectMeta::Unknown, DirectObject::meta);
        let kept = key.as_ref().and_then(|key| cache.get::<Indexed>(key));
        if let Some(index) = kept.filter(|i| i.state.agrees(&state)) {
            return Ok(index);
        }
        let size = num::u64_of(shard.index_size());
        let offset = if shard.index_at_end() {
            source.length().checked_sub(size).ok_or_else(|| {
                Error::invalid(format!(
                    "the shard has {} bytes, but its index alone needs {size}",
                    source.length()
                ))
            })?
        } else {
            0
        };
        let mut input = Vec::new();
        let index = shard.read_index(source.part(offset, size)?.read(&mut input)?)?;
        let memory = index.memory();
        let index = Arc::new(Indexed::new(&self.array, index, state));
        if let Some(key) = key {
            cache.put(key, index.clone(), memory);
        }
        Ok(index)
    }
}
