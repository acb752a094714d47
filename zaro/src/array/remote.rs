//! Reading from remote stores: fetched ahead, bounded in bytes, decoded on the thread pool.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{OnceCell, Semaphore};

use super::direct::each_item;
use super::read::{Inside, Joining, Reader, permuted};
use super::select::Sel;
use crate::codec::chain::{Chain, Scratch};
use crate::codec::shard::{Shard, ShardIndex};
use crate::error::{Error, Result};
use crate::num;
use crate::store::ByteRange;

/// Chunks under way at once. What they may hold in memory is bounded apart, in bytes.
const IN_FLIGHT: usize = 128;

/// The same for small chunks, which may be parts of one object: then they come with one request, if they are asked for
/// together. How many requests that makes is the business of the store.
const SMALL_IN_FLIGHT: usize = 2048;

/// What a chunk under way takes besides its bytes, about.
const OVERHEAD: usize = 4 << 10;

/// Runs of one shard under way at once.
const RUNS_IN_FLIGHT: usize = 16;

/// A shard that is wanted whole is fetched whole, index and all, up to this decoded size.
const WHOLE_SHARD: usize = 32 << 20;

/// The bytes that may be in flight at once.
struct Budget {
    bytes: usize,
    /// In kibibytes.
    permits: Semaphore,
    most: usize,
}

impl Budget {
    fn new(bytes: usize) -> Self {
        let most = (bytes >> 10).clamp(1, Semaphore::MAX_PERMITS);
        Self { bytes, permits: Semaphore::new(most), most }
    }

    /// How ranges are joined: not so that one of them takes all there is.
    fn joining(&self) -> Joining {
        Joining { block: Joining::REMOTE.block.min(num::u64_of(self.bytes / 4)), ..Joining::REMOTE }
    }

    /// Waits until `bytes` may be held. Something larger than the whole budget waits until it is alone.
    async fn take(&self, bytes: usize) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let permits = ((bytes >> 10) + 1).min(self.most);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        self.permits.acquire_many(permits).await.map_err(|_| Error::io("the read was given up"))
    }
}

/// How many chunks are under way at once: more than usual only if they are small.
fn in_flight(reader: &Reader, budget: &Budget) -> Result<usize> {
    if reader.plan.jobs() <= IN_FLIGHT {
        return Ok(IN_FLIGHT);
    }
    let chain = reader.array.chain_at(&reader.plan.job(0).index)?;
    let size = chain.decoded().byte_size()?.saturating_add(OVERHEAD);
    Ok((budget.bytes / 2).checked_div(size).unwrap_or_default().clamp(IN_FLIGHT, SMALL_IN_FLIGHT))
}

/// Fetches and places all chunks of `reader`.
pub(super) async fn read(reader: &Arc<Reader>) -> Result<()> {
    let budget = Budget::new(reader.array.memory / 4);
    let all = stream::iter(0..reader.plan.jobs())
        .map(|i| chunk(reader, i, &budget))
        .buffer_unordered(in_flight(reader, &budget)?)
        .try_for_each(|()| async { Ok(()) });
    // All chunks that may be under way are asked for before anything else is done, so that their store can join what lies
    // together. The runtime would put this off after a few dozen of them.
    let all = tokio::task::unconstrained(all);
    // A request may hang for as long as its time-out; the caller who wants to stop does not wait for it.
    let stopped = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            reader.check_cancel()?;
        }
    };
    if reader.can_cancel() && tokio::runtime::Handle::try_current().is_ok() {
        futures::pin_mut!(all, stopped);
        match futures::future::select(all, stopped).await {
            futures::future::Either::Left((done, _)) | futures::future::Either::Right((done, _)) => done,
        }
    } else {
        all.await
    }
}

/// Runs `f` on the thread pool and waits for it. The job's share of the reader is gone before the answer comes.
async fn compute(reader: &Arc<Reader>, f: impl FnOnce(&Reader) -> Result<()> + Send + 'static) -> Result<()> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let share = reader.clone();
    rayon::spawn(move || {
        // A panic on this pool would end the program. There should be none; if there is, one read has failed.
        let work = std::panic::AssertUnwindSafe(|| share.check_cancel().and_then(|()| f(&share)));
        let done = std::panic::catch_unwind(work).unwrap_or_else(|_| Err(Error::io("decoding panicked")));
        drop(share);
        // Nobody listens if the read was given up.
        let _ = tell.send(done);
    });
    told.await.map_err(|_| Error::io("a decoding thread was lost"))?
}

async fn chunk(reader: &Arc<Reader>, i: usize, budget: &Budget) -> Result<()> {
    reader.check_cancel()?;
    let index = reader.plan.job(i).index;
    let key = reader.array.chunk_key(&index);
    match fetch(reader, i, &key, budget).await.map_err(|e| e.with_key(&key))? {
        true => {
            reader.array.found_as_stated();
            Ok(())
        }
        false => {
            if let Some(other) = reader.array.doubtful_key(&index, &key)
                && fetch(reader, i, &other, budget).await.map_err(|e| e.with_key(&other))?
            {
                return reader.array.found_under_other(&other);
            }
            let job = reader.plan.job(i);
            reader.missing(&job.sels, &reader.plan.strides).map_err(|e| e.with_key(&key))
        }
    }
}

/// Fetches chunk `i` from `key` and places it; `false` if it is not there.
async fn fetch(reader: &Arc<Reader>, i: usize, key: &str, budget: &Budget) -> Result<bool> {
    let array = &reader.array;
    let job = reader.plan.job(i);
    let chain = array.chain_at(&job.index)?;
    let (sels, strides) = permuted(&chain, &job.sels, &reader.plan.strides);
    let number = job.number;
    if let Some(shard) = chain.shard() {
        let size = chain.decoded().byte_size()?;
        let whole = reader.wants_whole(&job);
        let known =
            number.and_then(|n| array.indexes.get(&(reader.generation, n))).is_some_and(|c| c.initialized());
        if !(whole && size <= WHOLE_SHARD.min(budget.bytes) && !known) {
            let Some(index) = index(reader, shard, key, number).await? else { return Ok(false) };
            let inside = reader.inside_shard(shard, &index, &sels, &strides, u64::MAX, budget.joining())?;
            drop(sels);
            runs(reader, &chain, i, key, inside, None, budget).await?;
            return Ok(true);
        }
    } else if chain.plain().is_some() {
        if let Some((row, inside)) = reader.inside_plain(&chain, &sels, &strides, budget.joining())? {
            drop(sels);
            return runs(reader, &chain, i, key, inside, Some(row), budget).await;
        }
    } else if reader.remembered(&chain, &sels, &strides, number.map(|n| (n, 0)))? {
        return Ok(true);
    }
    drop(sels);
    // The decoded size stands for the encoded one, which nobody knows yet.
    let _held = budget.take(chain.decoded().byte_size()?).await?;
    let Some(bytes) = array.store.get(key, None).await? else { return Ok(false) };
    compute(reader, move |reader| {
        let job = reader.plan.job(i);
        let (sels, strides) = permuted(&chain, &job.sels, &reader.plan.strides);
        in_memory(reader, &chain, &bytes, &sels, &strides, number.map(|n| (n, 0)))
    })
    .await?;
    Ok(true)
}

/// Places what is wanted of an encoded chunk that is in memory.
fn in_memory(
    reader: &Reader,
    chain: &Chain,
    bytes: &[u8],
    sels: &[&Sel],
    strides: &[usize],
    id: Option<(u64, u64)>,
) -> Result<()> {
    match chain.shard() {
        Some(shard) => reader.shard_in_memory(shard, bytes, sels, strides),
        None => reader.leaf(chain, bytes, sels, strides, id, &mut Scratch::default()),
    }
}

/// The index of the shard at `key`: one request, however many ask; `None` if there is no shard.
async fn index(
    reader: &Reader,
    shard: &Shard,
    key: &str,
    number: Option<u64>,
) -> Result<Option<Arc<ShardIndex>>> {
    let cell = match number {
        Some(n) => reader.array.indexes.get_or_put((reader.generation, n), shard.index_size(), OnceCell::new),
        None => Arc::new(OnceCell::new()),
    };
    let size = num::u64_of(shard.index_size());
    let range = if shard.index_at_end() { ByteRange::Suffix(size) } else { ByteRange::span(0, size) };
    let load = || async {
        match reader.array.store.get(key, Some(range)).await {
            Ok(Some(bytes)) => shard.read_index(&bytes).map(Arc::new).map_err(Gone::Failed),
            Ok(None) => Err(Gone::Missing),
            Err(e) => Err(Gone::Failed(e)),
        }
    };
    match cell.get_or_try_init(load).await {
        Ok(index) => Ok(Some(index.clone())),
        Err(Gone::Missing) => Ok(None),
        Err(Gone::Failed(e)) => Err(e),
    }
}

/// Why there is no index.
enum Gone {
    Missing,
    Failed(Error),
}

/// Fetches runs of chunk `i` and places their inner chunks, or rows of an uncompressed chunk if `row` is their shape.
///
/// `false` if the object is not there.
async fn runs(
    reader: &Arc<Reader>,
    chain: &Arc<Chain>,
    i: usize,
    key: &str,
    inside: Inside,
    row: Option<Vec<u64>>,
    budget: &Budget,
) -> Result<bool> {
    // Runs hold selections of their own, so the plan must outlive every job.
    let inside = Arc::new(inside);
    let row = Arc::new(row);
    let one = |n: usize| {
        let (inside, row, chain) = (inside.clone(), row.clone(), chain.clone());
        async move {
            let Some(run) = inside.runs.get(n) else { return Ok(true) };
            let _held = budget.take(num::usize_of(run.length)?).await?;
            let range = ByteRange::span(run.offset, run.length);
            let Some(bytes) = reader.array.store.get(key, Some(range)).await? else { return Ok(false) };
            compute(reader, move |reader| place_run(reader, &chain, i, &inside, n, row.as_deref(), &bytes))
                .await?;
            Ok::<bool, Error>(true)
        }
    };
    let found: Vec<bool> =
        stream::iter(0..inside.runs.len()).map(one).buffer_unordered(RUNS_IN_FLIGHT).try_collect().await?;
    match (found.iter().all(|f| *f), row.is_some()) {
        (true, _) => Ok(true),
        (false, true) => Ok(false),
        (false, false) => Err(Error::io("the shard vanished while it was read")),
    }
}

fn place_run(
    reader: &Reader,
    chain: &Chain,
    i: usize,
    inside: &Inside,
    n: usize,
    row: Option<&[u64]>,
    bytes: &Bytes,
) -> Result<()> {
    let Some(run) = inside.runs.get(n) else { return Ok(()) };
    let (_, strides) = permuted(chain, &[], &reader.plan.strides);
    let number = reader.plan.job(i).number;
    let mut scratch = Scratch::default();
    let scratch = std::cell::RefCell::new(&mut scratch);
    each_item(run, bytes, |item, bytes| {
        let sels = inside.sels(item);
        match (row, chain.shard()) {
            (Some(row), _) => reader.plain_row(chain, row, bytes, &sels, &strides),
            (None, Some(shard)) => {
                let inner = shard.inner();
                let (sels, strides) = permuted(inner, &sels, &strides);
                match inner.shard() {
                    Some(nested) => reader.shard_in_memory(nested, bytes, &sels, &strides),
                    None => {
                        let id = number.map(|n| (n, item.offset.wrapping_add(1)));
                        reader.leaf(inner, bytes, &sels, &strides, id, &mut scratch.borrow_mut())
                    }
                }
            }
            (None, None) => Ok(()),
        }
    })
}
