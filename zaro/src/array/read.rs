//! Reading a selection: the plan, and what local and remote reads share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::place::{Output, StridedCopy};
use super::plan::{ChunkJob, ChunkPlan, inside};
use super::runs::{Joining, is_partial};
use super::select::{Sel, Selection};
use super::slab::Slab;
use super::utf32::invalid_utf32;
use super::{Array, ArrayInner, Missing, ReadOptions};
use crate::boxed;
use crate::codec::chain::{Chain, Decoded, Scratch};
use crate::codec::{Buffer, split_view, view};
use crate::context::Key;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::{Format, path};
use crate::num;
use crate::store::{GetOptions, Object};
use crate::task::{Meter, Unit};

/// How many variable-length elements are sampled in one place to estimate their size.
const SAMPLE: u64 = 100;

impl Array {
    /// Reads `selection`.
    #[boxed]
    pub async fn read_slab(&self, selection: &Selection, options: &ReadOptions) -> Result<Slab> {
        let read = async {
            let reader = Reader::new(self, selection, options, Output::zeroed)?;
            reader.fill().await?.finish()
        };
        read.await.map_err(|e| self.named(e))
    }

    /// Reads `selection` without an async runtime: local stores are read by the calling thread and the decoding
    /// threads, remote stores through the runtime of the context.
    pub fn read_slab_blocking(&self, selection: &Selection, options: &ReadOptions) -> Result<Slab> {
        let read = || {
            let reader = Reader::new(self, selection, options, Output::zeroed)?;
            reader.fill_blocking()?.finish()
        };
        read().map_err(|e| self.named(e))
    }

    /// Reads `selection` of fixed-size elements into `buffer`, which must be exactly as long as the result, and which
    /// is returned.
    ///
    /// If the future is dropped, the buffer is lost; it is dropped when the last decoding job has released it.
    pub async fn read_to<B: AsMut<[u8]> + Send + Sync + 'static>(
        &self,
        selection: &Selection,
        options: &ReadOptions,
        buffer: B,
    ) -> Result<B> {
        let read = async {
            self.refuse_variable()?;
            let reader = Reader::new(self, selection, options, |bytes| Output::owning(buffer, bytes))?;
            let mut buffer = reader.fill().await?.out.into_owner::<B>()?;
            self.inner.refuse_odd(buffer.as_mut())?;
            Ok(buffer)
        };
        read.await.map_err(|e| self.named(e))
    }

    /// The blocking form, with a borrowed buffer.
    ///
    /// After a failed read the buffer may be partly written.
    pub fn read_into(&self, selection: &Selection, options: &ReadOptions, buffer: &mut [u8]) -> Result<()> {
        let read = |out: Output| {
            self.refuse_variable()?;
            Reader::new(self, selection, options, |bytes| out.of_length(bytes))?.fill_blocking().map(drop)
        };
        // Returns when no job uses the buffer any more.
        let read = Output::lend(buffer, read).and_then(|()| self.inner.refuse_odd(buffer));
        read.map_err(|e| self.named(e))
    }

    fn refuse_variable(&self) -> Result<()> {
        if self.inner.meta.data_type.is_variable() {
            return Err(Error::usage("variable-length elements cannot be read into a buffer"));
        }
        Ok(())
    }

    /// Estimates the size of an element in memory: variable-length elements are sampled at three places.
    #[boxed]
    pub async fn item_bytes(&self) -> Result<usize> {
        let meta = &self.inner.meta;
        let fixed = meta.data_type.size();
        if !meta.data_type.is_variable() {
            return Ok(fixed);
        }
        let mut longest = 0;
        for place in 0..3u64 {
            let start: Vec<u64> =
                meta.shape.iter().map(|n| (n.saturating_sub(1) / 2).saturating_mul(place)).collect();
            let mut left = SAMPLE;
            let count = start.iter().zip(&meta.shape).rev().map(|(first, n)| {
                let count = n.saturating_sub(*first).min(left.max(1));
                left = left.checked_div(count).unwrap_or(0);
                count
            });
            let mut count: Vec<u64> = count.collect();
            count.reverse();
            let slab =
                self.read_slab(&Selection::start_count(&start, &count), &ReadOptions::default()).await?;
            let bytes: usize = slab.items().map(<[u8]>::len).sum();
            longest = longest.max(bytes.div_ceil(slab.len().max(1)));
        }
        Ok(fixed.saturating_add(longest))
    }

    /// The encoded bytes of the chunk at `index` of the grid; `None` if it is missing.
    pub(crate) async fn stored_chunk(&self, index: &[u64]) -> Result<Option<Bytes>> {
        let array = &self.inner;
        let ask = GetOptions::at_most(super::remote::longest(&*array.chain_at(index)?));
        let key = array.chunk_key(index);
        if let Some(Object { bytes, .. }) = array.store.get_opts(&key, ask).await? {
            array.found_as_stated();
            return Ok(Some(bytes));
        }
        let Some(other) = array.doubtful_key(index, &key) else { return Ok(None) };
        let Some(Object { bytes, .. }) = array.store.get_opts(&other, ask).await? else { return Ok(None) };
        array.found_under_other(&other)?;
        Ok(Some(bytes))
    }

    pub(super) fn named(&self, e: Error) -> Error {
        // Damaged bytes may come from elsewhere than the key.
        let damage = matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported);
        let origin =
            e.key().filter(|_| damage).and_then(|key| self.inner.store.origin(key)).map(|o| o.to_string());
        let e = match origin {
            Some(origin) if !e.message().contains(&origin) => e.within(origin),
            _ => e,
        };
        e.with_node(path::shown(&self.inner.path)).with_store(&self.inner.store)
    }
}

/// A read in progress.
pub(super) struct Reader {
    pub(super) array: Arc<ArrayInner>,
    pub(super) options: ReadOptions,
    pub(super) plan: ChunkPlan,
    /// The array's generation when the read started, for its caches.
    pub(super) generation: u64,
    out: Output,
    heaps: Mutex<Vec<Vec<u8>>>,
    /// One fill element, as stored in the output.
    fill: Vec<u8>,
    meter: Meter,
    /// Whether the read was cancelled.
    given_up: AtomicBool,
    /// Remote chunks that are not yet placed.
    pub(super) left: AtomicUsize,
}

impl Reader {
    fn new(
        array: &Array,
        selection: &Selection,
        options: &ReadOptions,
        output: impl FnOnce(usize) -> Result<Output>,
    ) -> Result<Self> {
        let meta = &array.inner.meta;
        let plan = ChunkPlan::new(meta, selection, options.order)?;
        let bytes = plan.bytes;
        let out = output(bytes)?;
        let mut heaps = Vec::new();
        let fill = if meta.data_type.is_variable() {
            let length = u32::try_from(meta.fill.0.len()).map_err(|_| Error::invalid("a huge fill value"))?;
            heaps.push(meta.fill.0.to_vec());
            view(0, length, 0).to_vec()
        } else {
            meta.fill.0.to_vec()
        };
        Ok(Self {
            array: array.inner.clone(),
            options: options.clone(),
            plan,
            generation: array.inner.generation.load(Ordering::Acquire),
            out,
            heaps: Mutex::new(heaps),
            fill,
            meter: options.task.meter(Unit::Bytes, num::u64_of(bytes)),
            given_up: AtomicBool::new(false),
            left: AtomicUsize::new(0),
        })
    }

    /// Reads everything asynchronously.
    async fn fill(self) -> Result<Self> {
        /// Stops the decoding jobs of a cancelled read.
        struct Waiting(Arc<Reader>);
        impl Drop for Waiting {
            fn drop(&mut self) {
                self.0.given_up.store(true, Ordering::Relaxed);
            }
        }
        let reader = Arc::new(self);
        let waiting = Waiting(reader.clone());
        if reader.array.store.direct().is_some() {
            let share = reader.clone();
            reader.array.context.run(move || share.direct()).await?;
        } else {
            super::remote::read(&reader).await?;
        }
        drop(waiting);
        // Every decoding job has finished, and dropped its reference before that.
        Arc::into_inner(reader).ok_or_else(|| Error::io("a decoding job is still running"))
    }

    /// Reads everything while the calling thread blocks.
    fn fill_blocking(self) -> Result<Self> {
        if self.array.store.direct().is_none() {
            return self.array.context.clone().block_on(self.fill());
        }
        // A single chunk that is not a shard is read on the calling thread.
        if self.plan.jobs() <= 1 && self.array.chain.shard().is_none() {
            self.direct()?;
        } else {
            self.array.context.install(|| self.direct())?;
        }
        Ok(self)
    }

    /// The cache key of a chunk.
    pub(super) fn key(&self, job: &ChunkJob<'_>) -> Option<Key> {
        job.number.map(|number| self.array.key(self.generation, number, 0, 0))
    }

    fn finish(self) -> Result<Slab> {
        let slab = Slab {
            data_type: self.array.meta.data_type.clone(),
            shape: self.plan.shape,
            order: self.options.order,
            bytes: self.out.into_vec(),
            heaps: self.heaps.into_inner().unwrap_or_else(PoisonError::into_inner),
        };
        self.array.refuse_odd(&slab.bytes)?;
        Ok(slab)
    }

    /// Whether the whole chunk, as far as it is inside the array, is selected.
    pub(super) fn wants_whole(&self, job: &ChunkJob<'_>) -> bool {
        let inside = inside(&self.array.meta, job);
        job.sels.iter().zip(&inside).all(|(sel, n)| sel.is_all(*n))
    }

    /// Fails if the read was cancelled.
    pub(super) fn check_cancel(&self) -> Result<()> {
        if self.given_up.load(Ordering::Relaxed) {
            Err(Error::cancelled())
        } else {
            self.options.task.check()
        }
    }

    /// Reports that the elements of `sels` are in place.
    fn placed(&self, sels: &[&Sel]) {
        if self.meter.is_watched() {
            let elements: u64 = sels.iter().map(|s| s.count()).product();
            self.meter.advance(elements.saturating_mul(num::u64_of(self.array.meta.data_type.size())));
        }
    }

    /// Handles a missing chunk or inner chunk.
    pub(super) fn missing(&self, sels: &[&Sel], strides: &[usize]) -> Result<()> {
        if self.options.missing == Missing::Error {
            return Err(Error::not_found("the chunk is missing, and missing chunks are not allowed here"));
        }
        let zero = self.fill.iter().all(|b| *b == 0);
        if !(zero && self.out.is_zeroed()) {
            let shape: Vec<u64> = vec![0; sels.len()];
            StridedCopy::new(&shape, sels, strides, self.fill.len())?.fill(&self.fill, &self.out)?;
        }
        self.placed(sels);
        Ok(())
    }

    /// Resets the place of a chunk: the chunk is read again, and may have fewer inner chunks.
    pub(super) fn blank(&self, job: &ChunkJob<'_>) -> Result<()> {
        let shape: Vec<u64> = vec![0; job.sels.len()];
        StridedCopy::new(&shape, &job.sels, &self.plan.strides, self.fill.len())?.fill(&self.fill, &self.out)
    }

    /// Decodes one chunk without inner chunks, and places the selected part of it.
    ///
    /// `sels` and `strides` are in the order of the chunk's own dimensions, after leading transposes.
    pub(super) fn leaf(
        &self,
        chain: &Chain,
        bytes: &[u8],
        sels: &[&Sel],
        strides: &[usize],
        key: Option<Key>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let repr = chain.viewed();
        let size = repr.data_type.size();
        let nest = StridedCopy::new(&repr.shape, sels, strides, size)?;
        if chain.can_decode_into()
            && let Some(at) = nest.as_run(repr.byte_size()?)
        {
            self.out.window(at, repr.byte_size()?, |window| chain.decode_into(bytes, window, scratch))??;
        } else if repr.data_type.is_variable() {
            let buffer = chain.decode(bytes, scratch)?.into_buffer();
            self.place_variable(buffer, &nest)?;
        } else {
            let decoded = chain.decode(bytes, scratch)?;
            nest.copy(decoded.bytes(), &self.out)?;
            // Chunks that were costly to decode are cached if more of them may be read.
            let partial = is_partial(&repr.shape, sels);
            let worth = |key: &Key| {
                let wanted = sels.iter().fold(1u64, |n, s| n.saturating_mul(s.count()));
                let all = repr.shape.iter().fold(1u64, |n, m| n.saturating_mul(*m));
                let [_, chunk, _, offset] = key.part;
                self.array.worth_keeping((chunk, offset), wanted, all)
            };
            if let Some(key) = key.filter(|key| partial && chain.plain().is_none() && worth(key)) {
                let owned = if let Decoded::Owned(buffer) = decoded { Some(buffer) } else { None };
                self.remember(key, owned, repr.byte_size()?, scratch);
            }
        }
        self.placed(sels);
        Ok(())
    }

    /// Caches a decoded chunk of `size` bytes: `owned`, or the content of `scratch`, which gets the memory of an
    /// evicted chunk. So a full cache costs no copy and no allocation.
    pub(super) fn remember(&self, key: Key, owned: Option<Buffer>, size: usize, scratch: &mut Scratch) {
        let cache = self.array.context.chunks();
        if !cache.takes(size) {
            return;
        }
        let buffer = owned.unwrap_or_else(|| Buffer::fixed(scratch.exchange(size, Vec::new())));
        let gone = cache.put(key, Arc::new(buffer), size).into_iter().filter_map(|v| v.downcast().ok());
        if let Some(Buffer { bytes, .. }) = gone.filter_map(Arc::into_inner).last() {
            scratch.exchange(0, bytes);
        }
    }

    /// Places the selected part of a cached chunk; `false` if it is not cached.
    pub(super) fn remembered(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        key: Option<&Key>,
    ) -> Result<bool> {
        let repr = chain.viewed();
        // Uncompressed chunks are read in parts, and never cached.
        let key = key.filter(|_| chain.plain().is_none());
        let Some(buffer) = key.and_then(|key| self.array.context.chunks().get::<Buffer>(key)) else {
            return Ok(false);
        };
        StridedCopy::new(&repr.shape, sels, strides, repr.data_type.size())?
            .copy(&buffer.bytes, &self.out)?;
        self.placed(sels);
        Ok(true)
    }

    /// Places variable-length elements, and keeps their heap.
    fn place_variable(&self, mut buffer: Buffer, nest: &StridedCopy) -> Result<()> {
        let mut heaps = self.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(heaps.len()).map_err(|_| Error::invalid("too many chunks in one read"))?;
        for v in buffer.bytes.chunks_exact_mut(crate::meta::dtype::VIEW_SIZE) {
            if let Some((_, length, offset)) = split_view(v) {
                v.copy_from_slice(&view(number, length, offset));
            }
        }
        heaps.push(std::mem::take(&mut buffer.heap));
        drop(heaps);
        nest.copy(&buffer.bytes, &self.out)
    }

    /// Places the selected part of a local uncompressed chunk, of which `read` reads any part; `false` if the selection
    /// is not regular, and nothing was done.
    pub(super) fn pull(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        scratch: &mut Vec<u8>,
        read: &dyn Fn(usize, &mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let repr = chain.viewed();
        let nest = StridedCopy::new(&repr.shape, sels, strides, repr.data_type.size())?;
        if !nest.is_regular() {
            return Ok(false);
        }
        nest.pull(repr.byte_size()?, &self.out, Joining::PIECES, scratch, read)?;
        self.placed(sels);
        Ok(true)
    }

    /// Places a row of an uncompressed chunk.
    pub(super) fn plain_row(
        &self,
        chain: &Chain,
        row: &[u64],
        bytes: &[u8],
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<()> {
        let data_type = &chain.viewed().data_type;
        let nest = StridedCopy::new(row, sels, strides, data_type.size())?;
        match chain.plain() {
            Some(codec) if !codec.is_identity(data_type) => {
                let mut own = bytes.to_vec();
                codec.decode_in_place(&mut own, data_type);
                nest.copy(&own, &self.out)?;
            }
            _ => nest.copy(bytes, &self.out)?,
        }
        self.placed(sels);
        Ok(())
    }
}

/// Detection of a V2 array's chunk separator.
///
/// If the metadata names the wrong separator, or none, every chunk would look missing, and the array would read as fill
/// value. So the first chunks that are not found are looked up with the other separator, until one chunk has been found
/// where the metadata says.
impl ArrayInner {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const AS_STATED: u8 = 1;
    pub(super) const OTHER: u8 = 2;

    /// The key of chunk `index`.
    pub(super) fn chunk_key(&self, index: &[u64]) -> String {
        if self.separator.load(Ordering::Relaxed) == Self::OTHER {
            self.meta.keys.other_separator().key(&self.path, index)
        } else {
            self.meta.keys.key(&self.path, index)
        }
    }

    /// The key to try when chunk `index` was not found under `tried`, if it may have the other separator.
    ///
    /// Another thread may have detected the separator after `tried` was made: what counts is what was tried.
    pub(super) fn doubtful_key(&self, index: &[u64], tried: &str) -> Option<String> {
        let doubt = self.meta.format == Format::V2
            && index.len() > 1
            && self.separator.load(Ordering::Relaxed) != Self::AS_STATED;
        doubt.then(|| self.meta.keys.other_separator().key(&self.path, index)).filter(|other| other != tried)
    }

    /// Fails on invalid UTF-32, if the read is strict.
    fn refuse_odd(&self, bytes: &[u8]) -> Result<()> {
        if !self.strict || self.meta.data_type.is_variable() {
            return Ok(());
        }
        match invalid_utf32(&self.meta.data_type, bytes) {
            0 => Ok(()),
            n => Err(Error::invalid(format!("invalid UTF-32 code points in {n} elements"))),
        }
    }

    /// Records that a chunk was found where the metadata says.
    pub(super) fn found_as_stated(&self) {
        if self.separator.load(Ordering::Relaxed) == Self::UNKNOWN {
            // Lost if another thread found the opposite; then both kinds of keys exist, and nothing is wrong.
            let _ = self.separator.compare_exchange(
                Self::UNKNOWN,
                Self::AS_STATED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Records that a chunk was found with the other separator.
    pub(super) fn found_under_other(&self, key: &str) -> Result<()> {
        if self.strict {
            return Err(Error::invalid(format!(
                "the chunks are stored with the separator {:?}, but \"dimension_separator\" says {:?}",
                self.meta.keys.other_separator().separator,
                self.meta.keys.separator
            ))
            .with_key(key));
        }
        self.separator.store(Self::OTHER, Ordering::Relaxed);
        Ok(())
    }
}

impl Array {
    /// Whether chunks are stored with another separator than the metadata says (V2).
    #[must_use]
    pub fn separator_differs(&self) -> bool {
        self.inner.separator.load(Ordering::Relaxed) == ArrayInner::OTHER
    }
}
