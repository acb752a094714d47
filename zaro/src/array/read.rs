//! One read: its plan, and what direct and remote reading share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::odd::odd_texts;
use super::place::{Nest, Output};
use super::plan::{Job, Plan, inside};
use super::select::{Part, Sel, Selection, combination, split};
use super::slab::Slab;
use super::{Array, Inner, Missing, Progress, ReadOptions};
use crate::codec::chain::{Chain, Decoded, Scratch};
use crate::codec::shard::{Shard, ShardIndex};
use crate::codec::{Buffer, split_view, view};
use crate::error::{Error, ErrorKind, Result};
use crate::meta::grid::Axis;
use crate::meta::{Format, path};
use crate::num;
use crate::store::{GetOptions, Object, ObjectMeta};

/// How many elements without a fixed size are looked at in one place to know how long they are.
const SAMPLE: u64 = 100;

impl Array {
    /// Reads `selection`.
    pub async fn read(&self, selection: &Selection, options: &ReadOptions) -> Result<Slab> {
        let reader = Reader::new(self, selection, options, None).map_err(|e| self.named(e))?;
        if self.inner.store.direct().is_some() {
            reader.direct().map_err(|e| self.named(e))?;
            return reader.finish().map_err(|e| self.named(e));
        }
        let reader = Arc::new(reader);
        let done = super::remote::read(&reader).await;
        done.map_err(|e| self.named(e))?;
        // Every decoding job has answered, and each dropped its share before it did.
        let reader = Arc::into_inner(reader).ok_or_else(|| Error::io("a decoding job is still at work"))?;
        reader.finish().map_err(|e| self.named(e))
    }

    /// Reads `selection` without an async runtime: files and memory are read by the calling thread and its pool;
    /// remote stores through a runtime of our own.
    pub fn read_blocking(&self, selection: &Selection, options: &ReadOptions) -> Result<Slab> {
        if self.inner.store.direct().is_none() {
            return crate::blocking::wait(self.read(selection, options));
        }
        let reader = Reader::new(self, selection, options, None).map_err(|e| self.named(e))?;
        reader.direct().map_err(|e| self.named(e))?;
        reader.finish().map_err(|e| self.named(e))
    }

    /// Reads `selection` of fixed-size elements into `buffer`, which must be exactly as long as the answer.
    ///
    /// Bytes of a failed read may be half written.
    pub fn read_into(&self, selection: &Selection, options: &ReadOptions, buffer: &mut [u8]) -> Result<()> {
        if self.inner.meta.data_type.is_variable() {
            return Err(self.named(Error::usage("elements without a fixed size cannot go into a buffer")));
        }
        if self.inner.store.direct().is_none() {
            let slab = self.read_blocking(selection, options)?;
            if slab.bytes.len() != buffer.len() {
                return Err(self.named(wrong_length(slab.bytes.len(), buffer.len())));
            }
            buffer.copy_from_slice(&slab.bytes);
            return Ok(());
        }
        let reader = Reader::new(self, selection, options, Some(&mut *buffer)).map_err(|e| self.named(e))?;
        // `direct` returns when all its threads are done, so the reader does not outlive the borrow.
        reader.direct().map_err(|e| self.named(e))?;
        drop(reader);
        self.inner.refuse_odd(buffer).map_err(|e| self.named(e))
    }

    /// About how many bytes an element takes in memory: those without a fixed size are read at three places to know.
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
            let slab = self.read(&Selection::start_count(&start, &count), &ReadOptions::default()).await?;
            let bytes: usize = slab.items().map(<[u8]>::len).sum();
            longest = longest.max(bytes.div_ceil(slab.len().max(1)));
        }
        Ok(fixed.saturating_add(longest))
    }

    /// The encoded bytes of the chunk at `index` of the grid; `None` if it is not there.
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
        // Damaged bytes may lie elsewhere than the key says.
        let damage = matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported);
        let origin = e.key().filter(|_| damage).and_then(|key| self.inner.store.origin(key));
        let e = match origin {
            Some(origin) if !e.message().contains(&origin) => e.within(origin),
            _ => e,
        };
        e.with_node(path::shown(&self.inner.path)).with_store(&self.inner.store)
    }
}

fn wrong_length(answer: usize, buffer: usize) -> Error {
    Error::usage(format!("the answer has {answer} bytes, the buffer {buffer}"))
}

/// The index of a shard, and the state of the shard it is of: no other state's bytes are where it says.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) index: ShardIndex,
    pub(super) state: ObjectMeta,
    /// A number that no other index of this array has.
    pub(super) number: u64,
}

impl Indexed {
    pub(super) fn new(array: &Inner, index: ShardIndex, state: ObjectMeta) -> Arc<Self> {
        Arc::new(Self { index, state, number: array.numbers.fetch_add(1, Ordering::Relaxed) })
    }
}

/// The name of a decoded chunk among those that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    chunk: u64,
    /// The number of the index that says where the inner chunk is, and where it begins; zeros for a chunk without any.
    index: u64,
    offset: u64,
}

impl Id {
    pub(super) fn chunk(chunk: u64) -> Self {
        Self { chunk, index: 0, offset: 0 }
    }

    pub(super) fn inner(chunk: u64, index: &Indexed, item: &Item) -> Self {
        Self { chunk, index: index.number, offset: item.offset }
    }
}

/// A read under way.
pub(super) struct Reader {
    pub(super) array: Arc<Inner>,
    options: ReadOptions,
    pub(super) plan: Plan,
    /// The array's generation when the read began, for its caches.
    pub(super) generation: u64,
    out: Output,
    heaps: Mutex<Vec<Vec<u8>>>,
    /// One element of fill, as it lies in the answer.
    fill: Vec<u8>,
    done: AtomicU64,
    total: u64,
}

/// A part of an object to be read in one go, and the inner chunks in it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) items: Vec<Item>,
}

/// An inner chunk: where it lies, and which combination of [`Inside::parts`] it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) offset: u64,
    pub(super) length: u64,
    combination: u64,
}

/// The inner chunks of one chunk that a read needs.
pub(super) struct Inside {
    parts: Vec<Vec<Part>>,
    pub(super) runs: Vec<Run>,
}

impl Inside {
    /// What is wanted of the inner chunk `item`.
    pub(super) fn sels(&self, item: &Item) -> Vec<&Sel> {
        combination(&self.parts, item.combination)
    }
}

/// How generously neighbouring ranges are joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joining {
    /// Two ranges with at most this many bytes between them become one.
    pub(super) gap: u64,
    /// But no longer than this.
    pub(super) block: u64,
}

impl Joining {
    /// For files: a read call costs what two kilobytes cost; blocks stay in the processor's cache.
    pub(super) const LOCAL: Self = Self { gap: 2 << 10, block: 512 << 10 };
    /// The same for the pieces of one uncompressed chunk, as gap and block.
    pub(super) const PIECES: (usize, usize) = (2 << 10, 512 << 10);
    /// For remote stores: a round trip costs what a megabyte costs.
    pub(super) const REMOTE: Self = Self { gap: 1 << 20, block: 16 << 20 };
}

impl Reader {
    fn new(
        array: &Array,
        selection: &Selection,
        options: &ReadOptions,
        buffer: Option<&mut [u8]>,
    ) -> Result<Self> {
        let meta = &array.inner.meta;
        let plan = Plan::new(meta, selection, options.order)?;
        let bytes = plan.bytes;
        let out = match buffer {
            Some(buffer) if buffer.len() != bytes => return Err(wrong_length(bytes, buffer.len())),
            // The caller drops the reader before it returns the buffer.
            Some(buffer) => Output::over(buffer),
            None => Output::zeroed(bytes)?,
        };
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
            done: AtomicU64::new(0),
            total: num::u64_of(bytes),
        })
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

    /// Whether all of a chunk is wanted that lies inside the array.
    pub(super) fn wants_whole(&self, job: &Job<'_>) -> bool {
        let inside = inside(&self.array.meta, job);
        job.sels.iter().zip(&inside).all(|(sel, n)| sel.is_all(*n))
    }

    /// Fails if the caller wants to stop.
    pub(super) fn check_cancel(&self) -> Result<()> {
        match &self.options.cancel {
            Some(c) if c.load(Ordering::Relaxed) => Err(Error::cancelled()),
            _ => Ok(()),
        }
    }

    /// Whether the caller may want to stop.
    pub(super) fn can_cancel(&self) -> bool {
        self.options.cancel.is_some()
    }

    /// Notes that the elements of `sels` are in place.
    fn placed(&self, sels: &[&Sel]) {
        if let Some(progress) = &self.options.progress {
            let elements: u64 = sels.iter().map(|s| s.count()).product();
            let bytes = elements.saturating_mul(num::u64_of(self.array.meta.data_type.size()));
            let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            progress(Progress { done, total: self.total });
        }
    }

    /// Deals with a chunk, or an inner chunk, that is not there.
    pub(super) fn missing(&self, sels: &[&Sel], strides: &[usize]) -> Result<()> {
        if self.options.missing == Missing::Error {
            return Err(Error::not_found("the chunk is missing, and missing chunks are not allowed here"));
        }
        let zero = self.fill.iter().all(|b| *b == 0);
        if !(zero && self.out.is_zeroed()) {
            let shape: Vec<u64> = vec![0; sels.len()];
            Nest::new(&shape, sels, strides, self.fill.len())?.fill(&self.fill, &self.out)?;
        }
        self.placed(sels);
        Ok(())
    }

    /// Makes the place of a chunk what it is without the chunk: the chunk is read again, and may have fewer inner chunks.
    pub(super) fn blank(&self, job: &Job<'_>) -> Result<()> {
        let shape: Vec<u64> = vec![0; job.sels.len()];
        Nest::new(&shape, &job.sels, &self.plan.strides, self.fill.len())?.fill(&self.fill, &self.out)
    }

    /// Decodes one chunk without inner chunks, given whole, and places what is wanted of it.
    ///
    /// `sels` and `strides` are in the order of the chunk's own dimensions, transposes at the head already applied.
    pub(super) fn leaf(
        &self,
        chain: &Chain,
        bytes: &[u8],
        sels: &[&Sel],
        strides: &[usize],
        id: Option<Id>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let repr = chain.viewed();
        let size = repr.data_type.size();
        let nest = Nest::new(&repr.shape, sels, strides, size)?;
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
            // What took work to decode is kept if more of it may be asked for.
            let partial = is_partial(&repr.shape, sels);
            let worth = |id: &Id| {
                let wanted = sels.iter().fold(1u64, |n, s| n.saturating_mul(s.count()));
                let all = repr.shape.iter().fold(1u64, |n, m| n.saturating_mul(*m));
                self.array.worth_keeping((id.chunk, id.offset), wanted, all)
            };
            if let Some(id) = id.filter(|id| partial && chain.plain().is_none() && worth(id)) {
                let owned = if let Decoded::Owned(buffer) = decoded { Some(buffer) } else { None };
                self.remember(id, owned, repr.byte_size()?, scratch);
            }
        }
        self.placed(sels);
        Ok(())
    }

    /// Keeps a decoded chunk of `size` bytes: `owned`, or what lies in `scratch`, which gets the memory of a chunk that
    /// had to go. So a full cache costs no copy and no fresh memory.
    fn remember(&self, id: Id, owned: Option<Buffer>, size: usize, scratch: &mut Scratch) {
        let cache = &self.array.decoded;
        if !cache.takes(size) {
            return;
        }
        let buffer = owned.unwrap_or_else(|| Buffer::fixed(scratch.exchange(size, Vec::new())));
        if let Some(gone) = cache.put((self.generation, id), Arc::new(buffer), size)
            && let Some(gone) = Arc::into_inner(gone)
        {
            scratch.exchange(0, gone.bytes);
        }
    }

    /// Places what is wanted of a chunk that an earlier read left behind; `false` if there is none.
    pub(super) fn remembered(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        id: Option<Id>,
    ) -> Result<bool> {
        let repr = chain.viewed();
        let Some(buffer) = id.and_then(|id| self.array.decoded.get(&(self.generation, id))) else {
            return Ok(false);
        };
        Nest::new(&repr.shape, sels, strides, repr.data_type.size())?.copy(&buffer.bytes, &self.out)?;
        self.placed(sels);
        Ok(true)
    }

    /// Places variable-length elements, and keeps their heap.
    fn place_variable(&self, mut buffer: Buffer, nest: &Nest) -> Result<()> {
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

    /// The inner chunks of a shard that are needed, missing ones dealt with, joined into runs.
    ///
    /// `size` is the size of the shard, `u64::MAX` if unknown; entries are held against it. What `placed` says of is in
    /// its place already.
    #[expect(clippy::too_many_arguments, reason = "all of them say what is wanted")]
    pub(super) fn inside_shard(
        &self,
        shard: &Shard,
        index: &ShardIndex,
        sels: &[&Sel],
        strides: &[usize],
        size: u64,
        joining: Joining,
        placed: impl Fn(&Inside, &Item) -> Result<bool>,
    ) -> Result<Inside> {
        let inner = &shard.inner().decoded().shape;
        let entry = |number| {
            let entry = index.entry(usize::try_from(number).unwrap_or(usize::MAX))?;
            if let Some(entry) = entry {
                shard.check_entry(entry, size)?;
            }
            Ok(entry)
        };
        self.inside(inner, shard.counts(), sels, strides, joining, entry, placed)
    }

    /// The rows of an uncompressed chunk that are needed, as if each were an inner chunk.
    ///
    /// `None` if reading the chunk whole is no worse.
    pub(super) fn inside_plain(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        joining: Joining,
    ) -> Result<Option<(Vec<u64>, Inside)>> {
        let repr = chain.viewed();
        let shape = &repr.shape;
        let size = num::u64_of(repr.data_type.size());
        // The longest tail of dimensions whose blocks are no larger than a gap that would be read over anyway.
        let (mut tail, mut block) = (shape.len(), size);
        while let Some(n) = tail.checked_sub(1).and_then(|d| shape.get(d)) {
            let larger = block.saturating_mul(*n);
            if larger > joining.gap.max(4096) {
                break;
            }
            block = larger;
            tail -= 1;
        }
        let rows: u64 = sels.iter().take(tail).map(|s| s.count()).product();
        let whole = num::u64_of(repr.byte_size()?);
        if tail == 0 || rows.saturating_mul(block).saturating_mul(2) > whole {
            return Ok(None);
        }
        let mut row = vec![1; tail];
        row.extend(shape.iter().skip(tail));
        let mut counts: Vec<u64> = shape.iter().take(tail).copied().collect();
        counts.resize(shape.len(), 1);
        let entry = |number| Ok(Some((number * block, block)));
        let inside = self.inside(&row, &counts, sels, strides, joining, entry, |_, _| Ok(false))?;
        Ok(Some((row, inside)))
    }

    #[expect(clippy::too_many_arguments, reason = "all of them say what is wanted")]
    fn inside(
        &self,
        inner: &[u64],
        counts: &[u64],
        sels: &[&Sel],
        strides: &[usize],
        joining: Joining,
        entry: impl Fn(u64) -> Result<Option<(u64, u64)>>,
        placed: impl Fn(&Inside, &Item) -> Result<bool>,
    ) -> Result<Inside> {
        let parts: Vec<Vec<Part>> =
            sels.iter().zip(inner).map(|(s, n)| split(s, &Axis::Regular(*n))).collect::<Result<_>>()?;
        let total: u64 = num::product(&parts.iter().map(|p| num::u64_of(p.len())).collect::<Vec<_>>())?;
        let mut inside = Inside { parts, runs: Vec::new() };
        let mut items = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
        let mut at = vec![0usize; inside.parts.len()];
        for combination in 0..total {
            let mut number = 0u64;
            for ((parts, i), n) in inside.parts.iter().zip(&at).zip(counts) {
                number = number * n + parts.get(*i).map_or(0, |p| p.chunk);
            }
            match entry(number)? {
                Some((offset, length)) => {
                    let item = Item { offset, length, combination };
                    if !placed(&inside, &item)? {
                        items.push(item);
                    }
                }
                None => {
                    let item = Item { offset: 0, length: 0, combination };
                    self.missing(&inside.sels(&item), strides)?;
                }
            }
            for (a, parts) in at.iter_mut().zip(&inside.parts).rev() {
                *a += 1;
                if *a < parts.len() {
                    break;
                }
                *a = 0;
            }
        }
        items.sort_unstable_by_key(|i| i.offset);
        for item in items {
            let end = item.offset.saturating_add(item.length);
            match inside.runs.last_mut() {
                Some(run)
                    if item.offset <= run.offset.saturating_add(run.length).saturating_add(joining.gap)
                        && end.saturating_sub(run.offset) <= joining.block =>
                {
                    run.length = run.length.max(end - run.offset);
                    run.items.push(item);
                }
                _ => inside.runs.push(Run { offset: item.offset, length: item.length, items: vec![item] }),
            }
        }
        Ok(inside)
    }

    /// Places what is wanted of an uncompressed chunk at hand, of which `read` reads any part; `false` if the
    /// selection is not regular, and nothing was done.
    pub(super) fn pull(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        scratch: &mut Vec<u8>,
        read: &dyn Fn(usize, &mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let repr = chain.viewed();
        let nest = Nest::new(&repr.shape, sels, strides, repr.data_type.size())?;
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
        let nest = Nest::new(row, sels, strides, data_type.size())?;
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

/// Whether less than all of a chunk of `shape` is wanted.
pub(super) fn is_partial(shape: &[u64], sels: &[&Sel]) -> bool {
    shape.iter().zip(sels).any(|(n, s)| s.count() != *n)
}

/// Whether what is wanted of a chunk of `shape`, in C order, lies in one piece: one index along the first dimensions, a range along the next, and
/// all of the rest.
pub(super) fn is_one_piece(shape: &[u64], sels: &[&Sel]) -> bool {
    let is_run = |s: &Sel| matches!(s, Sel::Range { step: 1, .. });
    let mut rest = sels.iter().zip(shape).skip_while(|(s, _)| s.count() == 1);
    rest.next().is_none_or(|(s, _)| is_run(s)) && rest.all(|(s, n)| is_run(s) && s.count() == *n)
}

/// A selection and strides in the order of the dimensions below a chain's leading transposes.
pub(super) fn permuted<'a>(chain: &Chain, sels: &[&'a Sel], strides: &[usize]) -> (Vec<&'a Sel>, Vec<usize>) {
    match chain.order() {
        None => (sels.to_vec(), strides.to_vec()),
        Some(order) => (
            order.iter().filter_map(|d| sels.get(*d).copied()).collect(),
            order.iter().filter_map(|d| strides.get(*d).copied()).collect(),
        ),
    }
}

/// What is known of a V2 array's chunk separator.
///
/// Metadata that name the wrong one, or none, would make every chunk look missing, and the array read as fill. So the
/// first chunks that are not found are looked for under the other separator, until one chunk has been found where
/// the metadata say.
impl Inner {
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

    /// The key to try when chunk `index` was not found under `tried`, if its absence is in doubt.
    ///
    /// Another thread may have found out about the separator after `tried` was made: what counts is what was tried.
    pub(super) fn doubtful_key(&self, index: &[u64], tried: &str) -> Option<String> {
        let doubt = self.meta.format == Format::V2
            && index.len() > 1
            && self.separator.load(Ordering::Relaxed) != Self::AS_STATED;
        doubt.then(|| self.meta.keys.other_separator().key(&self.path, index)).filter(|other| other != tried)
    }

    /// Fails, if the reading is strict, on text that is none.
    fn refuse_odd(&self, bytes: &[u8]) -> Result<()> {
        if !self.strict || self.meta.data_type.is_variable() {
            return Ok(());
        }
        match odd_texts(&self.meta.data_type, bytes) {
            0 => Ok(()),
            n => Err(Error::invalid(format!("UTF-32 with codes that are no characters, in {n} elements"))),
        }
    }

    /// Notes that a chunk was found where the metadata say.
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

    /// Notes that a chunk was found under the other separator.
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
    /// Whether chunks turned out to be stored with another separator than the metadata say (V2).
    #[must_use]
    pub fn separator_differs(&self) -> bool {
        self.inner.separator.load(Ordering::Relaxed) == Inner::OTHER
    }
}
