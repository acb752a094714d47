//! Reading from remote stores: fetches ahead within a memory budget and decodes on the thread pool.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::ahead;
use super::direct::{AGAIN, ThreadBuffers, with_buffers};
use super::read::Reader;
use super::runs::{Indexed, InnerChunks, Joining, RunItem, Within, index_key, permuted};
use crate::codec::chain::Chain;
use crate::codec::shard::Shard;
use crate::context::{Budget, Key};
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::fault::copy_of;
use crate::store::{ByteRange, GetOptions, Object};

/// Chunks in flight. Their memory is limited separately, in bytes.
const IN_FLIGHT: usize = 128;

/// The same for small chunks, which may be parts of one object: if requested together, they take one request. How many
/// requests that makes is up to the store.
const SMALL_IN_FLIGHT: usize = 2048;

/// Approximate memory of a chunk in flight besides its bytes.
const OVERHEAD: usize = 4 << 10;

/// Runs of one shard in flight.
pub(super) const RUNS_IN_FLIGHT: usize = 16;

/// A fully selected shard is fetched whole, including its index, up to this decoded size.
pub(super) const WHOLE_SHARD: usize = 32 << 20;

/// How ranges are joined: not so that one of them takes the whole budget.
fn joining(budget: &Budget) -> Joining {
    Joining { block: Joining::REMOTE.block.min(num::u64_of(budget.bytes() / 4)), ..Joining::REMOTE }
}

/// The number of chunks in flight: more than usual only if they are small.
fn in_flight(reader: &Reader, budget: &Budget, readers: usize) -> Result<usize> {
    if reader.plan.jobs() <= IN_FLIGHT {
        return Ok(IN_FLIGHT);
    }
    let chain = reader.array.chain_at(&reader.plan.job(0).index)?;
    let size = chain.decoded().byte_size()?.saturating_add(OVERHEAD);
    let share = budget.bytes() / 2 / readers.max(1);
    Ok(share.checked_div(size).unwrap_or_default().clamp(IN_FLIGHT, SMALL_IN_FLIGHT))
}

/// Fetches and places all chunks of `reader`.
pub(super) async fn read(reader: &Arc<Reader>) -> Result<()> {
    let budget = reader.array.context.budget();
    let reading = reader.array.context.reading();
    reader.left.store(reader.plan.jobs(), Ordering::Relaxed);
    let all = stream::iter(0..reader.plan.jobs())
        .map(async |i| {
            chunk(reader, i, budget).await?;
            reader.left.fetch_sub(1, Ordering::Relaxed);
            Ok::<(), Error>(())
        })
        .buffer_unordered(in_flight(reader, budget, reading.number())?)
        .try_for_each(|()| async { Ok(()) });
    // Requests all chunks in flight before anything else is done, so that the store can join nearby ranges. The runtime
    // would otherwise yield after a few dozen of them.
    let all = tokio::task::unconstrained(all);
    reader.options.task.unless_cancelled(all).await
}

/// Runs `f` on the decoding threads and waits for it. The job's reference to the reader is dropped before the result
/// comes.
pub(super) async fn compute(
    reader: &Arc<Reader>,
    f: impl FnOnce(&Reader) -> Result<()> + Send + 'static,
) -> Result<()> {
    let share = reader.clone();
    reader.array.context.run(move || share.check_cancel().and_then(|()| f(&share))).await
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
            reader.array.missed.store(true, Ordering::Relaxed);
            let job = reader.plan.job(i);
            reader.missing(&job.sels, &reader.plan.strides).map_err(|e| e.with_key(&key))
        }
    }
}

/// Fetches chunk `i` from `key` and places it; `false` if it is missing.
///
/// All bytes fetched of the object are of one state. If it was replaced meanwhile, everything is fetched again; in the
/// end with one request for the whole object if it fits, which helps with servers whose `ETag` changes for the same
/// bytes.
async fn fetch(reader: &Arc<Reader>, i: usize, key: &str, budget: &Budget) -> Result<bool> {
    for _ in 0..AGAIN {
        match fetch_once(reader, i, key, budget, false).await {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                let job = reader.plan.job(i);
                if let Some(name) = reader.key(&job) {
                    reader.array.context.chunks().forget(&index_key(&name));
                }
                reader.blank(&job)?;
            }
            done => return done,
        }
    }
    fetch_once(reader, i, key, budget, true).await
}

/// The same, once; with a single request if `at_once` and if it fits.
async fn fetch_once(
    reader: &Arc<Reader>,
    i: usize,
    key: &str,
    budget: &Budget,
    at_once: bool,
) -> Result<bool> {
    let array = &reader.array;
    let job = reader.plan.job(i);
    let chain = array.chain_at(&job.index)?;
    let (sels, strides) = permuted(&chain, &job.sels, &reader.plan.strides);
    let name = reader.key(&job);
    let size = chain.decoded().byte_size()?;
    let at_once = at_once && size <= budget.bytes();
    if let Some(shard) = chain.shard().filter(|_| !at_once) {
        let whole = reader.wants_whole(&job);
        let known = || {
            let key = name.as_ref().map(index_key);
            key.is_some_and(|key| array.context.chunks().get::<Indexed>(&key).is_some())
        };
        if !whole || size > WHOLE_SHARD.min(budget.bytes()) || known() {
            let Some(index) = index(reader, shard, key, name.as_ref(), longest(&chain)).await? else {
                return Ok(false);
            };
            let inner = shard.inner();
            // Cached inner chunks are not fetched.
            let kept = |inside: &InnerChunks, item: &RunItem| {
                let Some(name) = name.as_ref().filter(|_| inner.shard().is_none()) else { return Ok(false) };
                let (sels, strides) = permuted(inner, &inside.sels(item), &strides);
                reader.remembered(inner, &sels, &strides, Some(&index.inner_key(name, item)))
            };
            let size = index.state.size().unwrap_or(u64::MAX);
            let joining = joining(budget);
            let mut inside =
                reader.inside_shard(shard, &index.index, &sels, &strides, size, joining, kept)?;
            drop(sels);
            if let Some(name) = &name
                && ahead::fetch(reader, &chain, key, &inside, &index, name, budget).await?
            {
                inside.leave_out(kept)?;
            }
            let wanted: u64 = inside.runs.iter().map(|run| run.length).sum();
            let began = Instant::now();
            runs(reader, &chain, key, inside, Within::Shard(index.clone(), name), budget).await?;
            // A concurrent read-ahead has better figures.
            if let Ok(mut ledger) = index.ledger.try_lock() {
                ledger.note(wanted, 0, began.elapsed());
            }
            return Ok(true);
        }
    } else if chain.plain().is_some() && !at_once {
        if let Some((row, inside)) = reader.inside_plain(&chain, &sels, &strides, joining(budget))? {
            drop(sels);
            return runs(reader, &chain, key, inside, Within::Plain(row), budget).await;
        }
    } else if reader.remembered(&chain, &sels, &strides, name.as_ref())? {
        return Ok(true);
    }
    drop(sels);
    // The decoded size stands for the encoded one, which is not known yet.
    let mut held = budget.take(size).await?;
    let ask = GetOptions::at_most(longest(&chain));
    let Some(Object { bytes, .. }) = array.store.get_opts(key, ask).await? else { return Ok(false) };
    Budget::keep(&mut held, bytes.len());
    compute(reader, move |reader| {
        let job = reader.plan.job(i);
        let (sels, strides) = permuted(&chain, &job.sels, &reader.plan.strides);
        match chain.shard() {
            Some(_) => reader.in_memory(&chain, &bytes, &sels, &strides),
            None => with_buffers(|buffers| {
                reader.leaf(&chain, &bytes, &sels, &strides, name, &mut buffers.scratch)
            }),
        }
    })
    .await?;
    Ok(true)
}

/// The maximum length of an encoded chunk. Some writers pad, so this is more than the codecs say.
pub(super) fn longest(chain: &Chain) -> u64 {
    num::u64_of(chain.encoded_size().limit()).saturating_mul(2).saturating_add(1 << 20)
}

/// The index of the shard at `key`: one request for all concurrent callers; `None` if the shard does not exist.
async fn index(
    reader: &Reader,
    shard: &Shard,
    key: &str,
    name: Option<&Key>,
    most: u64,
) -> Result<Option<Arc<Indexed>>> {
    let size = num::u64_of(shard.index_size());
    let range = if shard.index_at_end() { ByteRange::Suffix(size) } else { ByteRange::span(0, size) };
    let load = async {
        let ask = GetOptions { range: Some(range), max_size: Some(most), ..GetOptions::default() };
        let began = Instant::now();
        match reader.array.store.get_opts(key, ask).await? {
            Some(Object { bytes, meta }) => {
                let mut index = Indexed::new(&reader.array, shard.read_index(&bytes)?, meta);
                // Too short to measure the rate.
                index.ledger.get_mut().note(0, 0, began.elapsed());
                Ok(index)
            }
            // Not cached: it may be written later.
            None => Err(Error::not_found(NO_SHARD)),
        }
    };
    let loaded = match name {
        Some(name) => {
            let cache = reader.array.context.chunks();
            let cost = |index: &Indexed| index.index.memory();
            cache.get_or_make(index_key(name), cost, load).await.map_err(|e| copy_of(&e))
        }
        None => load.await.map(Arc::new),
    };
    match loaded {
        Ok(index) => Ok(Some(index)),
        Err(e) if e.kind() == ErrorKind::NotFound && e.message() == NO_SHARD => Ok(None),
        Err(e) => Err(e),
    }
}

/// Marks a missing shard, for those that wait for its index.
const NO_SHARD: &str = "there is no such shard";

/// Fetches runs of a chunk and places their inner chunks, or rows of an uncompressed chunk.
///
/// After a `Conflict`, nothing is in flight that could still place elements.
///
/// `false` if the object is missing.
async fn runs(
    reader: &Arc<Reader>,
    chain: &Arc<Chain>,
    key: &str,
    inside: InnerChunks,
    within: Within,
    budget: &Budget,
) -> Result<bool> {
    // Runs have their own selections, so the plan must outlive every job.
    let inside = Arc::new(inside);
    let within = Arc::new(within);
    // The state of all runs: that of the index, or else of the first run to arrive.
    let state = match &*within {
        Within::Shard(index, _) => OnceLock::from(index.state.clone()),
        Within::Plain(_) => OnceLock::new(),
    };
    let conflict = OnceLock::new();
    let one = |n: usize| {
        let (inside, within, chain) = (inside.clone(), within.clone(), chain.clone());
        let (state, conflict) = (&state, &conflict);
        async move {
            let Some(run) = inside.runs.get(n).filter(|_| conflict.get().is_none()) else { return Ok(true) };
            let _held = budget.take(num::usize_of(run.length)?).await?;
            let range = Some(ByteRange::span(run.offset, run.length));
            let ask = GetOptions { range, state: state.get(), ..GetOptions::default() };
            let got = reader.array.store.get_opts(key, ask).await?;
            let Some(Object { bytes, meta }) = got else { return Ok(false) };
            meta.check(Some(state.get_or_init(|| meta.clone())))?;
            let place = move |reader: &Reader| {
                let Some(run) = inside.runs.get(n) else { return Ok(()) };
                let (_, strides) = permuted(&chain, &[], &reader.plan.strides);
                with_buffers(|ThreadBuffers { scratch, .. }| {
                    reader.place_run(&chain, &inside, run, &within, &strides, scratch, || Ok(&bytes[..]))
                })
            };
            compute(reader, place).await?;
            Ok::<bool, Error>(true)
        }
    };
    let mut all = stream::iter(0..inside.runs.len()).map(one).buffer_unordered(RUNS_IN_FLIGHT);
    let mut found = true;
    while let Some(done) = all.next().await {
        match done {
            Ok(there) => found &= there,
            // Waits for the others: what they place must not come after what is placed next.
            Err(e) if e.kind() == ErrorKind::Conflict => drop(conflict.set(e)),
            Err(e) => return Err(e),
        }
    }
    drop(all);
    match (conflict.into_inner(), found, &*within) {
        (Some(e), ..) => Err(e),
        (None, true, _) => Ok(true),
        (None, false, Within::Plain(_)) => Ok(false),
        (None, false, Within::Shard(..)) => Err(Error::io("the shard was deleted while it was read")),
    }
}
