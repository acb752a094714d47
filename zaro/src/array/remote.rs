//! Reading from remote stores: fetched ahead, bounded in bytes, decoded on the thread pool.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{OnceCell, Semaphore};

use super::direct::{AGAIN, each_item};
use super::read::{Id, Indexed, Inside, Item, Joining, Reader, permuted};
use super::select::Sel;
use crate::codec::chain::{Chain, Scratch};
use crate::codec::shard::Shard;
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::{ByteRange, GetOptions, Object};

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
            reader.array.missed.store(true, Ordering::Relaxed);
            let job = reader.plan.job(i);
            reader.missing(&job.sels, &reader.plan.strides).map_err(|e| e.with_key(&key))
        }
    }
}

/// Fetches chunk `i` from `key` and places it; `false` if it is not there.
///
/// Everything that is fetched of the object is of one state of it. If it was replaced meanwhile, all begins anew; at last
/// with one request for the whole object if it fits, which helps with a server that calls the same bytes now this and
/// now that.
async fn fetch(reader: &Arc<Reader>, i: usize, key: &str, budget: &Budget) -> Result<bool> {
    for _ in 0..AGAIN {
        match fetch_once(reader, i, key, budget, false).await {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                let job = reader.plan.job(i);
                if let Some(n) = job.number {
                    reader.array.indexes.forget(&(reader.generation, n));
                }
                reader.blank(&job)?;
            }
            done => return done,
        }
    }
    fetch_once(reader, i, key, budget, true).await
}

/// The same, once; in one go if `at_once` and if it fits.
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
    let number = job.number;
    let size = chain.decoded().byte_size()?;
    let at_once = at_once && size <= budget.bytes;
    if let Some(shard) = chain.shard().filter(|_| !at_once) {
        let whole = reader.wants_whole(&job);
        let known =
            number.and_then(|n| array.indexes.get(&(reader.generation, n))).is_some_and(|c| c.initialized());
        if !(whole && size <= WHOLE_SHARD.min(budget.bytes) && !known) {
            let most = longest(&chain);
            let Some(index) = index(reader, shard, key, number, most).await? else { return Ok(false) };
            let inner = shard.inner();
            // Inner chunks that an earlier read left behind are not fetched.
            let kept = |inside: &Inside, item: &Item| {
                let Some(n) = number.filter(|_| inner.shard().is_none() && inner.plain().is_none()) else {
                    return Ok(false);
                };
                let (sels, strides) = permuted(inner, &inside.sels(item), &strides);
                reader.remembered(inner, &sels, &strides, Some(Id::inner(n, &index, item)))
            };
            let size = index.state.size().unwrap_or(u64::MAX);
            let joining = budget.joining();
            let inside = reader.inside_shard(shard, &index.index, &sels, &strides, size, joining, kept)?;
            drop(sels);
            runs(reader, &chain, i, key, inside, Within::Shard(index), budget).await?;
            return Ok(true);
        }
    } else if chain.plain().is_some() && !at_once {
        if let Some((row, inside)) = reader.inside_plain(&chain, &sels, &strides, budget.joining())? {
            drop(sels);
            return runs(reader, &chain, i, key, inside, Within::Plain(row), budget).await;
        }
    } else if reader.remembered(&chain, &sels, &strides, number.map(Id::chunk))? {
        return Ok(true);
    }
    drop(sels);
    // The decoded size stands for the encoded one, which nobody knows yet.
    let _held = budget.take(size).await?;
    let ask = GetOptions::at_most(longest(&chain));
    let Some(Object { bytes, .. }) = array.store.get_opts(key, ask).await? else { return Ok(false) };
    compute(reader, move |reader| {
        let job = reader.plan.job(i);
        let (sels, strides) = permuted(&chain, &job.sels, &reader.plan.strides);
        in_memory(reader, &chain, &bytes, &sels, &strides, number.map(Id::chunk))
    })
    .await?;
    Ok(true)
}

/// The longest that an encoded chunk may be. Some writers pad, so this is more than the codecs say.
pub(super) fn longest(chain: &Chain) -> u64 {
    num::u64_of(chain.encoded_size().limit()).saturating_mul(2).saturating_add(1 << 20)
}

/// Places what is wanted of an encoded chunk that is in memory.
fn in_memory(
    reader: &Reader,
    chain: &Chain,
    bytes: &[u8],
    sels: &[&Sel],
    strides: &[usize],
    id: Option<Id>,
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
    most: u64,
) -> Result<Option<Arc<Indexed>>> {
    let cell = match number {
        Some(n) => reader.array.indexes.get_or_put((reader.generation, n), shard.index_size(), OnceCell::new),
        None => Arc::new(OnceCell::new()),
    };
    let size = num::u64_of(shard.index_size());
    let range = if shard.index_at_end() { ByteRange::Suffix(size) } else { ByteRange::span(0, size) };
    let load = || async {
        let ask = GetOptions { range: Some(range), max_size: Some(most), ..GetOptions::default() };
        match reader.array.store.get_opts(key, ask).await {
            Ok(Some(Object { bytes, meta })) => match shard.read_index(&bytes) {
                Ok(index) => Ok(Indexed::new(&reader.array, index, meta)),
                Err(e) => Err(Gone::Failed(e)),
            },
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

/// What runs are parts of.
enum Within {
    /// A shard, with its index.
    Shard(Arc<Indexed>),
    /// An uncompressed chunk, by rows of this shape.
    Plain(Vec<u64>),
}

/// Fetches runs of chunk `i` and places their inner chunks, or rows of an uncompressed chunk.
///
/// On a `Conflict` nothing is under way any more that could still place something.
///
/// `false` if the object is not there.
async fn runs(
    reader: &Arc<Reader>,
    chain: &Arc<Chain>,
    i: usize,
    key: &str,
    inside: Inside,
    within: Within,
    budget: &Budget,
) -> Result<bool> {
    // Runs hold selections of their own, so the plan must outlive every job.
    let inside = Arc::new(inside);
    let within = Arc::new(within);
    // The state that all runs are of: that of the index, or else of the run that comes first.
    let state = match &*within {
        Within::Shard(index) => OnceLock::from(index.state.clone()),
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
            compute(reader, move |reader| place_run(reader, &chain, i, &inside, n, &within, &bytes)).await?;
            Ok::<bool, Error>(true)
        }
    };
    let mut all = stream::iter(0..inside.runs.len()).map(one).buffer_unordered(RUNS_IN_FLIGHT);
    let mut found = true;
    while let Some(done) = all.next().await {
        match done {
            Ok(there) => found &= there,
            // The others are waited for: what they place must not come after what is placed next.
            Err(e) if e.kind() == ErrorKind::Conflict => drop(conflict.set(e)),
            Err(e) => return Err(e),
        }
    }
    drop(all);
    match (conflict.into_inner(), found, &*within) {
        (Some(e), ..) => Err(e),
        (None, true, _) => Ok(true),
        (None, false, Within::Plain(_)) => Ok(false),
        (None, false, Within::Shard(_)) => Err(Error::io("the shard vanished while it was read")),
    }
}

fn place_run(
    reader: &Reader,
    chain: &Chain,
    i: usize,
    inside: &Inside,
    n: usize,
    within: &Within,
    bytes: &Bytes,
) -> Result<()> {
    let Some(run) = inside.runs.get(n) else { return Ok(()) };
    let (_, strides) = permuted(chain, &[], &reader.plan.strides);
    let number = reader.plan.job(i).number;
    let mut scratch = Scratch::default();
    let scratch = std::cell::RefCell::new(&mut scratch);
    each_item(run, bytes, |item, bytes| {
        let sels = inside.sels(item);
        match (within, chain.shard()) {
            (Within::Plain(row), _) => reader.plain_row(chain, row, bytes, &sels, &strides),
            (Within::Shard(index), Some(shard)) => {
                let inner = shard.inner();
                let (sels, strides) = permuted(inner, &sels, &strides);
                match inner.shard() {
                    Some(nested) => reader.shard_in_memory(nested, bytes, &sels, &strides),
                    None => {
                        let id = number.map(|n| Id::inner(n, index, item));
                        reader.leaf(inner, bytes, &sels, &strides, id, &mut scratch.borrow_mut())
                    }
                }
            }
            (Within::Shard(_), None) => Ok(()),
        }
    })
}
