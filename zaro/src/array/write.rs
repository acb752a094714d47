//! Writing slabs: encodes chunks and puts them, safely with concurrent writers.
//!
//! A write cuts its selection at chunk borders like a read. A chunk that is wholly overwritten is encoded and put
//! without being read. Of any other, everything that does not depend on old content is encoded first; then the chunk is
//! read, changed and put back on the condition that it is unchanged, with retries. So concurrent writers never lose
//! each other's elements, in one process or several, as long as the store supports conditional puts.
//!
//! A chunk of only fill value, compared bitwise, is not stored.
//!
//! Chunks are encoded on the thread pool. For local stores the same job reads and puts them; otherwise that is done by
//! futures, limited in number by the memory budget.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::encode::{NewChunk, Piece, filled, joined, put_pieces, recycle, shift_views};
use super::plan::{ChunkJob, ChunkPlan};
use super::runs::permuted;
use super::select::{Sel, Selection};
use super::slab::{Order, Slab};
use super::{Array, ArrayInner};
use crate::boxed;
use crate::codec::chain::Chain;
use crate::context::PerProcess;
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::{Condition, Direct, Put, StoreExt as _};
use crate::task::{self, Meter, Task, Unit};

/// Elements to be written, laid out as in a [`Slab`]. A `Vec` is taken without a copy, and so is foreign memory, by
/// [`Bytes::from_owner`].
#[derive(Debug, Clone)]
pub struct Values {
    bytes: Bytes,
    heaps: Arc<[Vec<u8>]>,
    order: Order,
}

impl Values {
    /// Fixed-size elements, little-endian, in `order`.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>, order: Order) -> Self {
        Self { bytes: bytes.into(), heaps: Arc::new([]), order }
    }
}

impl From<Slab> for Values {
    fn from(slab: Slab) -> Self {
        Self { bytes: slab.bytes.into(), heaps: slab.heaps.into(), order: slab.order }
    }
}

/// Options of a write.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct WriteOptions {
    /// Also store chunks of only fill value.
    pub keep_fill: bool,
    /// Assume a single writer: partly written chunks are put back without a condition. For stores without conditional
    /// puts. With concurrent writers, writes are lost.
    pub single_writer: bool,
    /// Assume that the array has no chunks yet, so that there are none to delete.
    pub assume_empty: bool,
    /// Progress, in bytes of the slab, and cancellation, after which each chunk is old or new.
    pub task: Task,
}

/// How often a chunk is read and changed again because somebody else changed it first.
const ATTEMPTS: u32 = 1000;

/// Maximum number of chunks in flight to a remote store.
const REMOTE_WRITERS: usize = 32;

/// The least that one pool job writes, if available: small chunks are batched.
const BATCH: usize = 1 << 20;

/// Called after a chunk was read and before it is put back.
pub(crate) type Guard = Arc<dyn Fn() -> BoxFuture<'static, Result<bool>> + Send + Sync>;

impl Array {
    /// Writes `values` to `selection`; the shapes must match.
    ///
    /// Every chunk is put atomically, so that a reader, or a killed write, finds each either old or new. After an error
    /// it is unknown which chunks were written. If the future is dropped, chunks in flight may still be put.
    ///
    /// A concurrent replacement or conversion of the array sees that it is being written to, and a write fails if one
    /// took place. For many small writes, hold the guard returned by [`Array::writing`].
    #[boxed]
    pub async fn write_slab(
        &self,
        selection: &Selection,
        values: Values,
        options: &WriteOptions,
    ) -> Result<()> {
        let run = async {
            let writer = self.writer(selection, values, options, None)?;
            if self.announces(options) { self.announcing(writer.run()).await } else { writer.run().await }
        };
        run.await.map_err(|e| self.named(e))
    }

    /// As [`Array::write_slab`], for callers without a runtime: blocks until everything is written.
    pub fn write_slab_blocking(
        &self,
        selection: &Selection,
        values: Values,
        options: &WriteOptions,
    ) -> Result<()> {
        let run = || {
            let writer = self.writer(selection, values, options, None)?;
            // One chunk is not worth a thread switch; and a pool thread must not wait for the pool.
            let small = writer.plan.jobs() < 2 && self.chain().shard().is_none();
            let here = small || rayon::current_thread_index().is_some();
            match self.inner.store.direct().filter(|_| here) {
                Some(direct) if !self.announces(options) => writer.batch(direct, 0..writer.plan.jobs()),
                Some(direct) => {
                    let write = async { writer.batch(direct, 0..writer.plan.jobs()) };
                    self.inner.context.block_on(self.announcing(write))
                }
                None if self.announces(options) => self.inner.context.block_on(self.announcing(writer.run())),
                None => self.inner.context.block_on(writer.run()),
            }
        };
        run().map_err(|e: Error| self.named(e))
    }

    /// Writes `values` to existing chunks, each on the condition that it is unchanged since before `guard` agreed.
    /// Fails if it does not.
    pub(crate) async fn write_guarded(
        &self,
        selection: &Selection,
        values: Values,
        guard: Guard,
    ) -> Result<()> {
        let options = WriteOptions::default();
        let run = async { self.writer(selection, values, &options, Some(guard))?.run().await };
        run.await.map_err(|e| self.named(e))
    }

    fn writer(
        &self,
        selection: &Selection,
        values: Values,
        options: &WriteOptions,
        guard: Option<Guard>,
    ) -> Result<Arc<Writer>> {
        if !self.inner.store.is_writable() {
            return Err(Error::unsupported("this kind of store cannot be written to"));
        }
        let mut writer = Writer::new(&self.inner, selection, values, options)?;
        self.inner.generation.fetch_add(1, Ordering::AcqRel);
        (writer.guard, writer.changes) = (guard, true);
        Ok(Arc::new(writer))
    }
}

/// A write in progress.
pub(super) struct Writer {
    pub(super) array: Arc<ArrayInner>,
    pub(super) options: WriteOptions,
    pub(super) plan: ChunkPlan,
    /// The elements; heap numbers in views of variable-length ones are: the fill value, a chunk's old content, then
    /// `heaps`.
    pub(super) values: Bytes,
    pub(super) heaps: Arc<[Vec<u8>]>,
    meter: Meter,
    /// Whether the calling thread does everything, since other threads do other parts.
    pub(super) serial: bool,
    guard: Option<Guard>,
    /// Whether it counts as a change of chunks until dropped.
    changes: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.changes {
            self.array.generation.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Chunk locks. Few mutexes, shared by many chunks, since they are held briefly. Threads and tasks have separate ones,
/// since a task waits for threads while it holds one.
struct Turns<M>(RandomState, Vec<M>);

static OF_THREADS: PerProcess<Turns<Mutex<()>>> = PerProcess::new();
static OF_TASKS: PerProcess<Turns<tokio::sync::Mutex<()>>> = PerProcess::new();

impl<M: Default> Turns<M> {
    fn new() -> Self {
        Self(RandomState::new(), std::iter::repeat_with(M::default).take(256).collect())
    }

    fn of(&self, array: &ArrayInner, key: &str) -> Result<&M> {
        let hash = self.0.hash_one((array.store.to_string(), key));
        let turn = usize::try_from(hash % 256).ok().and_then(|i| self.1.get(i));
        turn.ok_or_else(|| Error::io("a chunk without a lock"))
    }
}

/// A random, growing pause.
fn pause(attempt: u32) -> Duration {
    let most = 1u64 << attempt.min(9);
    let salt = RandomState::new().hash_one(attempt);
    Duration::from_micros(100 + salt % (most * 200))
}

/// What to do with a chunk.
enum ChunkStep {
    Put(Bytes),
    /// It is only fill value.
    Leave,
    /// It has to be read first.
    Change(NewChunk),
}

impl Writer {
    pub(super) fn new(
        array: &Arc<ArrayInner>,
        selection: &Selection,
        values: Values,
        options: &WriteOptions,
    ) -> Result<Self> {
        let plan = ChunkPlan::new(&array.meta, selection, values.order)?;
        if values.bytes.len() != plan.bytes {
            return Err(Error::usage(format!(
                "the selection takes {} bytes of values, but {} were given",
                plan.bytes,
                values.bytes.len()
            )));
        }
        let meter = options.task.meter(Unit::Bytes, num::u64_of(plan.bytes));
        let mut bytes = values.bytes;
        if array.meta.data_type.is_variable() {
            let mut views = Vec::from(bytes);
            shift_views(&mut views, 2)?;
            bytes = views.into();
        }
        Ok(Self {
            array: array.clone(),
            options: options.clone(),
            plan,
            values: bytes,
            heaps: values.heaps,
            meter,
            serial: false,
            guard: None,
            changes: false,
        })
    }

    /// Writes every chunk.
    async fn run(self: Arc<Self>) -> Result<()> {
        let jobs = self.plan.jobs();
        let chunk = self.array.chain.decoded().byte_size()?.max(1);
        if self.guard.is_some() || self.array.store.direct().is_none() {
            let at_once = (self.array.context.memory() / chunk / 2).clamp(1, REMOTE_WRITERS);
            return task::each(at_once, 0..jobs, |i| self.chunk(i)).await;
        }
        let context = &self.array.context;
        let threads = context.threads();
        let batch = (BATCH / chunk).min(jobs / threads.saturating_mul(4).max(1)).max(1);
        // A thread that waits for the inner chunks of one shard may start another, and each keeps what it has encoded.
        let at_once = if self.array.chain.shard().is_some() { threads } else { context.jobs_at_once() };
        task::each(at_once, (0..jobs).step_by(batch), |first| {
            let writer = self.clone();
            context.run(move || match writer.array.store.direct() {
                Some(direct) => writer.batch(direct, first..first.saturating_add(batch).min(jobs)),
                None => Err(Error::unsupported("the store has no direct access")),
            })
        })
        .await
    }

    /// The key of a chunk, and an alternative: the chunks of a V2 array may be stored with another separator than its
    /// metadata says; an existing chunk is changed, not hidden by a second one.
    fn keys(&self, job: &ChunkJob<'_>) -> (String, Option<String>) {
        let key = self.array.chunk_key(&job.index);
        let other = if self.options.assume_empty { None } else { self.array.doubtful_key(&job.index, &key) };
        (key, other)
    }

    /// Writes chunks to a local store: the calling thread also reads and puts them.
    fn batch(&self, direct: &dyn Direct, jobs: Range<usize>) -> Result<()> {
        for i in jobs {
            self.options.task.check()?;
            let job = self.plan.job(i);
            let (mut key, other) = self.keys(&job);
            if let Some(other) = other {
                if direct.open(&key)?.is_some() {
                    self.array.found_as_stated();
                } else if direct.open(&other)?.is_some() {
                    self.array.found_under_other(&other)?;
                    key = other;
                }
            }
            self.chunk_at_hand(direct, &job, &key).map_err(|e| e.with_key(key))?;
            self.advance(&job);
        }
        Ok(())
    }

    fn chunk_at_hand(&self, direct: &dyn Direct, job: &ChunkJob<'_>, key: &str) -> Result<()> {
        let chain = self.array.chain_at(&job.index)?;
        let (sels, strides) = permuted(&chain, &job.sels, &self.plan.strides);
        let fresh = self.prepare_job(&chain, job, &sels, &strides)?;
        if !fresh.needs_old() {
            match self.finish(&chain, &fresh, &sels, &strides, None)? {
                Some(pieces) => put_pieces(direct, key, &pieces, &Condition::Always).map(drop)?,
                None if self.options.assume_empty => {}
                None => direct.delete(key)?,
            }
            recycle(fresh);
            return Ok(());
        }
        // Writers of this process lock the chunk, so that none works in vain. Nothing below waits for another thread of
        // ours while it holds the lock.
        let _turn =
            OF_THREADS.get(Turns::new).of(&self.array, key)?.lock().unwrap_or_else(PoisonError::into_inner);
        for attempt in 0..ATTEMPTS {
            let old = match direct.open(key)? {
                None => None,
                Some(object) => {
                    let tag = object.meta_for_update();
                    let mut bytes = vec![0; num::usize_of(object.size())?];
                    object.read_at(0, &mut bytes)?;
                    Some((bytes, tag))
                }
            };
            let bytes = old.as_ref().map(|(bytes, _)| &bytes[..]);
            let Some(pieces) = self.changed(&chain, &fresh, &sels, &strides, bytes)? else {
                return if old.is_some() { direct.delete(key) } else { Ok(()) };
            };
            let put = match &old {
                _ if self.options.single_writer => put_pieces(direct, key, &pieces, &Condition::Always),
                None => put_pieces(direct, key, &pieces, &Condition::Absent),
                Some((_, Ok(tag))) => put_pieces(direct, key, &pieces, &Condition::Unchanged(tag.clone())),
                Some((_, Err(e))) => Err(Error::new(e.kind(), e.message())),
            };
            if put.map_err(explained)? == Put::Done {
                return Ok(());
            }
            std::thread::sleep(pause(attempt));
        }
        Err(contended())
    }

    /// Writes a chunk to any store: encoded on the pool, put by this future.
    async fn chunk(self: &Arc<Self>, i: usize) -> Result<()> {
        self.options.task.check()?;
        let store = &self.array.store;
        let (mut key, other) = self.keys(&self.plan.job(i));
        if let Some(other) = other {
            if store.exists(&key).await? {
                self.array.found_as_stated();
            } else if store.exists(&other).await? {
                self.array.found_under_other(&other)?;
                key = other;
            }
        }
        let writer = self.clone();
        let written = async {
            match self.array.context.run(move || writer.step(i)).await? {
                ChunkStep::Change(fresh) => self.change(i, &key, fresh).await,
                ChunkStep::Put(value) => store.put(&key, value, Condition::Always).await.map(drop),
                ChunkStep::Leave if self.options.assume_empty => Ok(()),
                ChunkStep::Leave => store.delete(&key).await,
            }
        };
        self.options.task.unless_cancelled(written).await.map_err(|e| e.with_key(&key))?;
        self.advance(&self.plan.job(i));
        Ok(())
    }

    /// Encodes a chunk, as far as possible without its old content.
    fn step(&self, i: usize) -> Result<ChunkStep> {
        let job = self.plan.job(i);
        let chain = self.array.chain_at(&job.index)?;
        let (sels, strides) = permuted(&chain, &job.sels, &self.plan.strides);
        let fresh = self.prepare_job(&chain, &job, &sels, &strides)?;
        if fresh.needs_old() || self.guard.is_some() {
            return Ok(ChunkStep::Change(fresh));
        }
        Ok(match fresh {
            NewChunk::Encoded(bytes) => ChunkStep::Put(bytes.into()),
            NewChunk::Given(bytes) => ChunkStep::Put(bytes),
            fresh => match self.finish(&chain, &fresh, &sels, &strides, None)? {
                Some(pieces) => ChunkStep::Put(joined(&pieces)?),
                None => ChunkStep::Leave,
            },
        })
    }

    /// Reads a chunk, changes it and puts it back, until nothing came between.
    async fn change(self: &Arc<Self>, i: usize, key: &str, fresh: NewChunk) -> Result<()> {
        let store = &self.array.store;
        let fresh = Arc::new(fresh);
        let _turn = OF_TASKS.get(Turns::new).of(&self.array, key)?.lock().await;
        for attempt in 0..ATTEMPTS {
            let old = store.get_for_update(key).await?;
            if let Some(guard) = &self.guard {
                if old.is_none() {
                    return Ok(());
                }
                if !guard().await? {
                    return Err(Error::conflict("the array was extended by somebody else meanwhile"));
                }
            }
            let (writer, fresh) = (self.clone(), fresh.clone());
            let bytes = old.as_ref().map(|(bytes, _)| bytes.clone());
            let changed = self.array.context.run(move || {
                let job = writer.plan.job(i);
                let chain = writer.array.chain_at(&job.index)?;
                let (sels, strides) = permuted(&chain, &job.sels, &writer.plan.strides);
                let pieces = writer.changed(&chain, &fresh, &sels, &strides, bytes.as_deref())?;
                pieces.map(|pieces| joined(&pieces)).transpose()
            });
            let Some(value) = changed.await? else {
                return if old.is_some() { store.delete(key).await } else { Ok(()) };
            };
            let when = match old {
                _ if self.options.single_writer => Condition::Always,
                None => Condition::Absent,
                Some((_, tag)) => Condition::Unchanged(tag),
            };
            if store.put(key, value, when).await.map_err(explained)? == Put::Done {
                return Ok(());
            }
            task::sleep(pause(attempt)).await?;
        }
        Err(contended())
    }

    /// The new content of a chunk, given the old; `None` if it should not exist.
    fn changed<'b>(
        &'b self,
        chain: &Chain,
        fresh: &'b NewChunk,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&'b [u8]>,
    ) -> Result<Option<Vec<Piece<'b>>>> {
        Ok(match self.finish(chain, fresh, sels, strides, old)? {
            // Deletes are unconditional, so the fill value is stored.
            None if old.is_some() && !self.options.single_writer => Some(vec![Piece::Owned(filled(chain)?)]),
            pieces => pieces,
        })
    }

    fn advance(&self, job: &ChunkJob<'_>) {
        if self.meter.is_watched() {
            let elements: u64 = job.sels.iter().map(|s| s.count()).product();
            self.meter.advance(elements.saturating_mul(num::u64_of(self.array.meta.data_type.size())));
        }
    }
}

fn contended() -> Error {
    Error::conflict("this chunk kept being changed by other writers while a part of it was to be written")
}

/// Explains the failure of a store without conditional puts.
fn explained(e: Error) -> Error {
    match e.kind() {
        ErrorKind::Unsupported => e
            .within("part of a chunk is written, but the store has no conditional puts to protect concurrent writers")
            .with_hint("single_writer", "assumes that there are no other writers"),
        _ => e,
    }
}
