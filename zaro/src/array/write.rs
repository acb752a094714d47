//! Slabs to chunks.
//!
//! A write cuts its selection at chunk borders like a read. A chunk that is wholly overwritten is encoded and put
//! without being read. Of any other, everything that does not depend on the old content is encoded first; then the
//! chunk is read, changed and put back on the condition that nobody else changed it meanwhile, again and again until
//! that holds. So two writers never lose each other's elements, in one process or several, as long as the store can
//! hold such a condition.
//!
//! A chunk that is nothing but fill value, bit for bit, is left out.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use rayon::prelude::*;

use super::access::{Access, Piece, back_off, length, turn};
use super::place::{Nest, Output};
use super::plan::{Job, Plan, inside};
use super::read::permuted;
use super::select::{Part, Sel, Selection, combination, split};
use super::slab::{Order, Slab};
use super::{Array, Inner, OnProgress, Progress};
use crate::codec::chain::{Chain, Scratch, room};
use crate::codec::{Buffer, split_view, view};
use crate::error::{Error, ErrorKind, Result};
use crate::meta::dtype::VIEW_SIZE;
use crate::meta::grid::Axis;
use crate::num;
use crate::store::{Condition, Put};

/// Elements to be written, as a [`Slab`] has them, but somebody else's.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    bytes: &'a [u8],
    heaps: &'a [Vec<u8>],
    order: Order,
}

impl<'a> Values<'a> {
    /// Fixed-size elements, little-endian, in `order`.
    #[must_use]
    pub fn new(bytes: &'a [u8], order: Order) -> Self {
        Self { bytes, heaps: &[], order }
    }
}

impl<'a> From<&'a Slab> for Values<'a> {
    fn from(slab: &'a Slab) -> Self {
        Self { bytes: &slab.bytes, heaps: &slab.heaps, order: slab.order }
    }
}

/// How to write.
#[derive(Clone, Default)]
pub struct WriteOptions {
    /// Store chunks that are nothing but fill value, too.
    pub keep_fill: bool,
    /// Nobody else writes to the array meanwhile: chunks of which a part is written are put back without a condition.
    /// For stores that cannot hold one. If it is not true, writes are lost.
    pub alone: bool,
    /// The array holds no chunks yet, so there are none to delete.
    pub blank: bool,
    /// Told how far the write has come, in bytes of the slab.
    pub progress: Option<OnProgress>,
    /// Set it to stop the write, which then fails with [`ErrorKind::Cancelled`]. Chunks are old or new.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("keep_fill", &self.keep_fill)
            .field("alone", &self.alone)
            .field("blank", &self.blank)
            .field("progress", &self.progress.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// How often a chunk is read and changed anew because somebody else changed it first.
const ATTEMPTS: u32 = 1000;

/// The most chunks on their way to a remote store.
const REMOTE_WRITERS: usize = 32;

impl Array {
    /// Writes `values` to `selection`, whose shape they must have.
    ///
    /// Every chunk is put whole, so that a reader, or a write that is killed, leaves each either old or new. Which
    /// chunks were written before an error is not known.
    ///
    /// Blocks until all is written. From async code, call it where blocking is allowed.
    pub fn write(&self, selection: &Selection, values: Values<'_>, options: &WriteOptions) -> Result<()> {
        let inner = &self.inner;
        let run = || {
            if !inner.store.is_writable() {
                return Err(Error::unsupported("this kind of store cannot be written to"));
            }
            let writer = Writer::new(inner, selection, values, options)?;
            inner.generation.fetch_add(1, Ordering::AcqRel);
            let done = writer.run();
            inner.generation.fetch_add(1, Ordering::AcqRel);
            done
        };
        run().map_err(|e: Error| self.named(e))
    }
}

impl Array {
    /// Writes `values` to chunks that are there, each on the condition that it is as it was before `guard` said yes.
    /// Fails if it says no.
    pub(crate) fn write_guarded(
        &self,
        selection: &Selection,
        values: Values<'_>,
        guard: &(dyn Fn() -> Result<bool> + Sync),
    ) -> Result<()> {
        let inner = &self.inner;
        let options = WriteOptions::default();
        let run = || {
            let writer = Writer { guard: Some(guard), ..Writer::new(inner, selection, values, &options)? };
            inner.generation.fetch_add(1, Ordering::AcqRel);
            let done = writer.run();
            inner.generation.fetch_add(1, Ordering::AcqRel);
            done
        };
        run().map_err(|e: Error| self.named(e))
    }
}

/// A write under way.
pub(super) struct Writer<'a> {
    array: &'a Inner,
    options: &'a WriteOptions,
    plan: Plan,
    /// The elements; views of variable-length ones number `heaps`.
    values: std::borrow::Cow<'a, [u8]>,
    /// What views point into: the fill value, room for a chunk's old content, then the slab's own.
    heaps: Vec<&'a [u8]>,
    done: AtomicU64,
    /// Whether the calling thread does it all, since its like do other parts.
    serial: bool,
    /// Asked after a chunk was read and before it is put back.
    guard: Option<&'a (dyn Fn() -> Result<bool> + Sync)>,
}

/// What is to become of one chunk, as far as it can be told without its old content.
pub(super) enum Fresh<'a> {
    /// Nothing but fill value: not stored.
    Absent,
    /// The encoded chunk.
    Encoded(Vec<u8>),
    /// The encoded chunk, which lies in the slab as it is.
    Given(&'a [u8]),
    /// Parts of the old content stay.
    Mixed,
    /// Inner chunks.
    Shard {
        parts: Vec<Vec<Part>>,
        /// Those that are touched: number in the shard, combination of `parts`, what becomes of it.
        touched: Vec<(u64, u64, Fresh<'a>)>,
        /// Whether inner chunks that are not touched lie outside the array.
        whole: bool,
    },
}

impl Fresh<'_> {
    /// Whether the old content is needed.
    pub(super) fn needs_old(&self) -> bool {
        match self {
            Self::Absent | Self::Encoded(_) | Self::Given(_) => false,
            Self::Mixed => true,
            Self::Shard { touched, whole, .. } => !whole || touched.iter().any(|(_, _, f)| f.needs_old()),
        }
    }
}

/// Memory that a thread reuses from chunk to chunk.
#[derive(Default)]
struct Bench {
    chunk: Vec<u8>,
    scratch: Scratch,
    /// What a chunk was encoded to that has been put.
    encoded: Vec<u8>,
}

fn with_bench<R>(f: impl FnOnce(&mut Bench) -> R) -> R {
    thread_local! {
        static BENCH: RefCell<Bench> = RefCell::default();
    }
    let mut bench = BENCH.take();
    let out = f(&mut bench);
    if bench.chunk.len() < 64 << 20 && bench.encoded.capacity() < 64 << 20 {
        BENCH.set(bench);
    }
    out
}

/// Keeps the memory of an encoded chunk that has been put for the next.
pub(super) fn recycle(fresh: Fresh<'_>) {
    if let Fresh::Encoded(bytes) = fresh {
        with_bench(|bench| bench.encoded = bytes);
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        array: &'a Inner,
        selection: &Selection,
        values: Values<'a>,
        options: &'a WriteOptions,
    ) -> Result<Self> {
        let plan = Plan::new(&array.meta, selection, values.order)?;
        if values.bytes.len() != plan.bytes {
            return Err(Error::usage(format!(
                "the selection takes {} bytes of values, but {} were given",
                plan.bytes,
                values.bytes.len()
            )));
        }
        let mut writer = Self {
            array,
            options,
            plan,
            values: values.bytes.into(),
            heaps: vec![&array.meta.fill.0, &[]],
            done: AtomicU64::new(0),
            serial: false,
            guard: None,
        };
        if array.meta.data_type.is_variable() {
            let shift = u32::try_from(writer.heaps.len()).unwrap_or(u32::MAX);
            writer.heaps.extend(values.heaps.iter().map(Vec::as_slice));
            shift_views(writer.values.to_mut(), shift)?;
        }
        Ok(writer)
    }

    /// Writes every chunk, on as many threads as are good for the store.
    ///
    /// They are threads of their own, not rayon's: a rayon thread that waits for the inner chunks of one shard would
    /// begin another, and with it hold more and more in memory.
    fn run(&self) -> Result<()> {
        let jobs = self.plan.jobs();
        let access = Access::of(&self.array.store);
        let threads = match access {
            Access::Direct(_) => rayon::current_num_threads(),
            Access::Remote(_) => {
                let chunk = self.array.chain.decoded().byte_size()?.max(1);
                (self.array.memory / chunk / 2).clamp(1, REMOTE_WRITERS)
            }
        };
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= jobs || failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let job = self.plan.job(i);
                let done = self
                    .key(&access, &job)
                    .and_then(|key| self.chunk(&access, &job, &key).map_err(|e| e.with_key(key)));
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                    return done;
                }
            }
        };
        if threads.min(jobs) < 2 {
            return work();
        }
        std::thread::scope(|s| {
            let others: Vec<_> = (1..threads.min(jobs)).map(|_| s.spawn(work)).collect();
            let mine = work();
            others.into_iter().fold(mine, |done, other| {
                done.and(other.join().unwrap_or_else(|_| Err(Error::io("a writing thread was lost"))))
            })
        })
    }

    /// The key of a chunk. A V2 array may have its chunks under another separator than it says; what is there is to be
    /// changed, not to be hidden by a second chunk.
    fn key(&self, access: &Access<'_>, job: &Job<'_>) -> Result<String> {
        let key = self.array.chunk_key(&job.index);
        if self.options.blank {
            return Ok(key);
        }
        if let Some(other) = self.array.doubtful_key(&job.index, &key) {
            if access.exists(&key)? {
                self.array.found_as_stated();
            } else if access.exists(&other)? {
                self.array.found_under_other(&other)?;
                return Ok(other);
            }
        }
        Ok(key)
    }

    fn chunk(&self, access: &Access<'_>, job: &Job<'_>, key: &str) -> Result<()> {
        if self.options.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
            return Err(Error::cancelled());
        }
        let chain = self.array.chain_at(&job.index)?;
        let (sels, strides) = permuted(&chain, &job.sels, &self.plan.strides);
        let fresh = self.prepare_job(&chain, job, &sels, &strides)?;
        if fresh.needs_old() || self.guard.is_some() {
            self.change(access, key, &chain, &fresh, &sels, &strides)?;
        } else {
            match self.finish(&chain, &fresh, &sels, &strides, None)? {
                Some(pieces) => {
                    let _ = access.put(key, &pieces, &Condition::Always)?;
                }
                None if self.options.blank => {}
                None => access.delete(key)?,
            }
            recycle(fresh);
        }
        if let Some(progress) = &self.options.progress {
            let elements: u64 = job.sels.iter().map(|s| s.count()).product();
            let bytes = elements.saturating_mul(num::u64_of(self.array.meta.data_type.size()));
            let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            progress(Progress { done, total: num::u64_of(self.plan.bytes) });
        }
        Ok(())
    }

    /// Reads a chunk, changes it and puts it back, until nobody came between.
    fn change(
        &self,
        access: &Access<'_>,
        key: &str,
        chain: &Chain,
        fresh: &Fresh<'_>,
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<()> {
        // Writers of this process take turns, so that none works in vain. Nothing below waits for another thread of
        // ours while it holds the turn.
        let turn = turn(&self.array.store, key);
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        for attempt in 0..ATTEMPTS {
            let old = access.get(key)?;
            if let Some(guard) = self.guard {
                if old.is_none() {
                    return Ok(());
                }
                if !guard()? {
                    return Err(Error::conflict("somebody else made the array longer"));
                }
            }
            let bytes = old.as_ref().map(|(bytes, _)| &bytes[..]);
            let pieces = match (self.finish(chain, fresh, sels, strides, bytes)?, &old) {
                (Some(pieces), _) => pieces,
                (None, None) => return Ok(()),
                (None, Some(_)) if self.options.alone => return access.delete(key),
                // Deleting knows no condition, so the fill value is stored.
                (None, Some(_)) => vec![Piece::Owned(filled(chain)?)],
            };
            let when = match &old {
                _ if self.options.alone => Condition::Always,
                None => Condition::Absent,
                Some((_, tag)) => Condition::Unchanged(tag.clone()?),
            };
            let put = access.put(key, &pieces, &when).map_err(|e| match e.kind() {
                ErrorKind::Unsupported => e
                    .within(
                        "a part of a chunk is written, and the store cannot tell whether somebody else writes the rest",
                    )
                    .with_hint("single_writer", "says that nobody does"),
                _ => e,
            })?;
            if put == Put::Done {
                return Ok(());
            }
            back_off(attempt);
        }
        Err(Error::conflict("others changed this chunk again and again while a part of it was to be written"))
    }

    /// Encodes what does not depend on old content of a chunk of the plan.
    fn prepare_job(
        &self,
        chain: &Chain,
        job: &Job<'_>,
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<Fresh<'_>> {
        // What lies beyond the array as we know it may by now belong to somebody who made it longer. So a chunk on the
        // border is changed, not replaced, unless nobody else can have written to it.
        let within = if self.options.blank || self.options.alone {
            inside(&self.array.meta, job)
        } else {
            chain.decoded().shape.clone()
        };
        let within = chain
            .order()
            .map_or(within.clone(), |order| order.iter().filter_map(|d| within.get(*d).copied()).collect());
        self.prepare(chain, sels, strides, &within)
    }

    /// Encodes, on the calling thread, what is written to the one chunk that all of it goes to.
    pub(super) fn encode_one(&mut self, chain: &Chain) -> Result<Fresh<'_>> {
        self.serial = true;
        if self.plan.jobs() != 1 {
            return Err(Error::usage("a part of one chunk was to be written, not of several"));
        }
        let job = self.plan.job(0);
        let (sels, strides) = permuted(chain, &job.sels, &self.plan.strides);
        self.prepare_job(chain, &job, &sels, &strides)
    }

    /// Encodes what does not depend on old content. `within` says how much of the chunk lies inside the array;
    /// everything is in the order of [`permuted`].
    fn prepare(&self, chain: &Chain, sels: &[&Sel], strides: &[usize], within: &[u64]) -> Result<Fresh<'_>> {
        let whole = sels.iter().zip(within).all(|(sel, n)| sel.is_all(*n));
        let Some(shard) = chain.shard() else {
            return if whole { self.encode(chain, sels, strides) } else { Ok(Fresh::Mixed) };
        };
        let inner = shard.inner();
        let shape = &inner.decoded().shape;
        let parts: Vec<Vec<Part>> =
            sels.iter().zip(shape).map(|(s, n)| split(s, &Axis::Regular(*n))).collect::<Result<_>>()?;
        let total = num::product(&parts.iter().map(|p| num::u64_of(p.len())).collect::<Vec<_>>())?;
        let one = |i: u64| {
            let mut number = 0u64;
            let mut left = i;
            let mut at = Vec::with_capacity(parts.len());
            for p in parts.iter().rev() {
                let n = num::u64_of(p.len()).max(1);
                at.push(p.get(usize::try_from(left % n).unwrap_or(0)).map_or(0, |p| p.chunk));
                left /= n;
            }
            at.reverse();
            for (a, n) in at.iter().zip(shard.counts()) {
                number = number.saturating_mul(*n).saturating_add(*a);
            }
            let within: Vec<u64> = within
                .iter()
                .zip(shape)
                .zip(&at)
                .map(|((w, n), a)| w.saturating_sub(a.saturating_mul(*n)).min(*n))
                .collect();
            let sels = combination(&parts, i);
            let (sels, strides) = permuted(inner, &sels, strides);
            let within = inner.order().map_or(within.clone(), |order| {
                order.iter().filter_map(|d| within.get(*d).copied()).collect()
            });
            Ok((number, i, self.prepare(inner, &sels, &strides, &within)?))
        };
        let touched: Vec<(u64, u64, Fresh<'_>)> = if total > 1 && !self.serial {
            (0..total).into_par_iter().map(one).collect::<Result<_>>()?
        } else {
            (0..total).map(one).collect::<Result<_>>()?
        };
        Ok(Fresh::Shard { parts, touched, whole })
    }

    /// Encodes a chunk of which nothing old stays.
    fn encode(&self, chain: &Chain, sels: &[&Sel], strides: &[usize]) -> Result<Fresh<'_>> {
        let repr = chain.viewed();
        if repr.data_type.is_variable() {
            return Ok(match self.mix_variable(chain, sels, strides, None)? {
                Some(bytes) => Fresh::Encoded(bytes),
                None => Fresh::Absent,
            });
        }
        let size = repr.byte_size()?;
        let nest = Nest::new(&repr.shape, sels, strides, repr.data_type.size())?;
        if let Some(given) = nest.as_run(size).and_then(|at| self.values.get(at..at.checked_add(size)?)) {
            return Ok(match () {
                () if !self.options.keep_fill && is_fill(given, &repr.fill.0) => Fresh::Absent,
                () if chain.stores_as_is() => Fresh::Given(given),
                () => {
                    let mut encoded = with_bench(|bench| std::mem::take(&mut bench.encoded));
                    chain.encode_fixed_into(given, &mut encoded)?;
                    Fresh::Encoded(encoded)
                }
            });
        }
        let gather = |chunk: &mut [u8]| -> Result<bool> {
            if sels.iter().zip(&repr.shape).any(|(s, n)| s.count() != *n) {
                fill(chunk, &repr.fill.0);
            }
            nest.inverse().copy(&self.values, &Output::over(chunk))?;
            Ok(!self.options.keep_fill && is_fill(chunk, &repr.fill.0))
        };
        with_bench(|bench| {
            let mut encoded = std::mem::take(&mut bench.encoded);
            // What is stored as it is need not be copied twice.
            let as_is = chain.stores_as_is();
            let absent = if as_is {
                encoded.resize(size, 0);
                gather(&mut encoded)?
            } else {
                let chunk = room(&mut bench.chunk, size)?;
                let absent = gather(chunk)?;
                if !absent {
                    chain.encode_fixed_into(chunk, &mut encoded)?;
                }
                absent
            };
            if absent {
                bench.encoded = encoded;
                return Ok(Fresh::Absent);
            }
            Ok(Fresh::Encoded(encoded))
        })
    }

    /// The encoded chunk, given its old content; `None` if it is nothing but fill value.
    pub(super) fn finish<'b>(
        &'b self,
        chain: &Chain,
        fresh: &'b Fresh<'_>,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&'b [u8]>,
    ) -> Result<Option<Vec<Piece<'b>>>> {
        let (parts, touched, whole) = match fresh {
            Fresh::Absent => return Ok(None),
            Fresh::Encoded(bytes) => return Ok(Some(vec![Piece::Borrowed(bytes)])),
            Fresh::Given(bytes) => return Ok(Some(vec![Piece::Borrowed(bytes)])),
            Fresh::Mixed => {
                return Ok(self.mix(chain, sels, strides, old)?.map(|b| vec![Piece::Owned(b)]));
            }
            Fresh::Shard { parts, touched, whole } => (parts, touched, *whole),
        };
        let Some(shard) = chain.shard() else { return Err(Error::invalid("the chunk is not a shard")) };
        let old = match old {
            Some(bytes) => Some((shard.index_of(bytes)?, bytes)),
            None => None,
        };
        let inner = shard.inner();
        let old_part = |number: u64| -> Result<Option<&'b [u8]>> {
            let Some((index, bytes)) = &old else { return Ok(None) };
            let Some(entry) = index.entry(num::usize_of(number)?)? else { return Ok(None) };
            shard.check_entry(entry, num::u64_of(bytes.len()))?;
            let start = num::usize_of(entry.0)?;
            Ok(bytes.get(start..start.saturating_add(num::usize_of(entry.1)?)))
        };
        let count = num::product(shard.counts())?;
        let mut order: Vec<&(u64, u64, Fresh<'_>)> = touched.iter().collect();
        order.sort_unstable_by_key(|t| t.0);
        let mut order = order.into_iter().peekable();
        let mut entries = Vec::with_capacity(num::usize_of(count)?);
        let mut pieces: Vec<Piece<'b>> = Vec::new();
        let mut at = if shard.index_at_end() { 0 } else { num::u64_of(shard.index_size()) };
        for number in 0..count {
            let new = match order.next_if(|t| t.0 == number) {
                Some((_, i, fresh)) => {
                    let (sels, strides) = permuted(inner, &combination(parts, *i), strides);
                    let old = if fresh.needs_old() { old_part(number)? } else { None };
                    self.finish(inner, fresh, &sels, &strides, old)?
                }
                None if whole => None,
                None => old_part(number)?.map(|bytes| vec![Piece::Borrowed(bytes)]),
            };
            entries.push(new.as_ref().map(|new| (at, length(new))));
            for piece in new.into_iter().flatten() {
                at = at.saturating_add(num::u64_of(piece.as_ref().len()));
                pieces.push(piece);
            }
        }
        if pieces.is_empty() && entries.iter().all(Option::is_none) && !self.options.keep_fill {
            return Ok(None);
        }
        let index = Piece::Owned(shard.write_index(&entries)?);
        let place = if shard.index_at_end() { pieces.len() } else { 0 };
        pieces.insert(place, index);
        Ok(Some(pieces))
    }

    /// A chunk of which parts stay: decoded, changed, encoded.
    fn mix(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let repr = chain.viewed();
        if repr.data_type.is_variable() {
            return self.mix_variable(chain, sels, strides, old);
        }
        let size = repr.byte_size()?;
        with_bench(|Bench { chunk, scratch, .. }| {
            let chunk = room(chunk, size)?;
            match old {
                Some(old) => chain.decode_into(old, chunk, scratch)?,
                None => fill(chunk, &repr.fill.0),
            }
            let nest = Nest::new(&repr.shape, sels, strides, repr.data_type.size())?;
            nest.inverse().copy(&self.values, &Output::over(chunk))?;
            if !self.options.keep_fill && is_fill(chunk, &repr.fill.0) {
                return Ok(None);
            }
            chain.encode_fixed(chunk).map(Some)
        })
    }

    fn mix_variable(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let repr = chain.viewed();
        let mut scratch = Scratch::default();
        let mut chunk = match old {
            Some(old) => chain.decode(old, &mut scratch)?.into_buffer(),
            None => Buffer::default(),
        };
        if old.is_some() {
            shift_views(&mut chunk.bytes, 1)?;
        } else {
            let length = u32::try_from(repr.fill.0.len()).map_err(|_| Error::invalid("a huge fill value"))?;
            chunk.bytes = view(0, length, 0).repeat(repr.count()?);
        }
        let nest = Nest::new(&repr.shape, sels, strides, VIEW_SIZE)?;
        nest.inverse().copy(&self.values, &Output::over(&mut chunk.bytes))?;
        let item = |v: &[u8]| -> Option<&[u8]> {
            let (heap, length, offset) = split_view(v)?;
            let heap = match heap {
                1 => &chunk.heap,
                n => *self.heaps.get(usize::try_from(n).ok()?)?,
            };
            let start = usize::try_from(offset).ok()?;
            heap.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        };
        let items = chunk.bytes.chunks_exact(VIEW_SIZE).map(|v| item(v).unwrap_or_default());
        if !self.options.keep_fill && items.clone().all(|i| *i == *repr.fill.0) {
            return Ok(None);
        }
        chain.encode_viewed(Buffer::variable(items)?).map(Some)
    }
}

/// An encoded chunk that is nothing but fill value.
fn filled(chain: &Chain) -> Result<Vec<u8>> {
    let repr = chain.viewed();
    if repr.data_type.is_variable() {
        return chain.encode_viewed(Buffer::variable(std::iter::repeat_n(&*repr.fill.0, repr.count()?))?);
    }
    let mut chunk = vec![0; repr.byte_size()?];
    fill(&mut chunk, &repr.fill.0);
    chain.encode_fixed(&chunk)
}

/// Moves views `by` heaps on.
fn shift_views(views: &mut [u8], by: u32) -> Result<()> {
    for v in views.chunks_exact_mut(VIEW_SIZE) {
        let (heap, length, offset) = split_view(v).ok_or_else(|| Error::invalid("a broken view"))?;
        v.copy_from_slice(&view(heap.saturating_add(by), length, offset));
    }
    Ok(())
}

/// Fills a chunk with one element.
fn fill(chunk: &mut [u8], element: &[u8]) {
    match element.first() {
        Some(first) if element.iter().all(|b| b == first) => chunk.fill(*first),
        Some(_) => chunk.chunks_exact_mut(element.len()).for_each(|e| e.copy_from_slice(element)),
        None => {}
    }
}

/// Whether a chunk is the same element over and over, compared as bits.
fn is_fill(chunk: &[u8], element: &[u8]) -> bool {
    // If the first element is the fill value and each equals the one before it, all are.
    let shifted = chunk.get(element.len()..).unwrap_or_default();
    chunk.starts_with(element)
        && chunk.get(..shifted.len()).is_some_and(|start| {
            // Most chunks differ early; do not begin with a long comparison.
            let near = shifted.len().min(4096);
            start.get(..near) == shifted.get(..near) && start == shifted
        })
}
