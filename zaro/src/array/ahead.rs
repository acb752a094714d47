//! Read-ahead of inner chunks in remote shards.
//!
//! Reading a shard window by window costs a round trip each time, while the rest of the shard may cost little more than
//! one. How many windows will follow is unknown. So the time spent waiting for windows of a shard becomes an allowance:
//! whatever can be fetched in as much time, at the observed rate, is fetched along with the next window, nearest first.
//! A reader that continues soon needs no more requests; one that stops has waited at most twice as long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use rayon::prelude::*;

use super::direct::with_buffers;
use super::read::Reader;
use super::remote::{RUNS_IN_FLIGHT, WHOLE_SHARD, compute};
use super::runs::{Indexed, InnerChunks, Joining, Run, RunItem, join};
use crate::codec::chain::{Chain, Decoded};
use crate::codec::shard::Shard;
use crate::context::{Budget, Key};
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::{ByteRange, GetOptions, Object};

/// Anything faster was cached, or as good as that.
const AT_HAND: Duration = Duration::from_millis(1);

/// A shard with more inner chunks is not scanned for each window.
const MAX_ENTRIES: u64 = 1 << 16;

/// The largest read-ahead request: several concurrent ones arrive sooner, and are decoded meanwhile.
const BLOCK: u64 = 8 << 20;

/// Cost of the windows of one shard so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Time spent waiting, less the time used to read ahead.
    balance: Duration,
    /// The shortest request: the round trip.
    least: Option<Duration>,
    /// Bytes per second, beyond the round trip.
    pace: u64,
    /// Bytes read ahead.
    ahead: u64,
    /// Whether the whole shard was read ahead.
    whole: bool,
}

impl Ledger {
    /// Records that `bytes` took so long, `ahead` of which were read ahead.
    pub(super) fn note(&mut self, bytes: u64, ahead: u64, took: Duration) {
        if took < AT_HAND {
            return;
        }
        let least = self.least.map_or(took, |least| least.min(took));
        self.least = Some(least);
        // A small difference is noise.
        let beyond = took.saturating_sub(least).max(took / 16);
        let per_second = |nanos: u128| u128::from(bytes).saturating_mul(1_000_000_000).checked_div(nanos);
        let pace = per_second(beyond.as_nanos()).and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
        self.pace = pace.max(self.pace.saturating_sub(self.pace / 8));
        let share = u128::from(ahead).saturating_mul(took.saturating_sub(least).as_nanos());
        let share = share.checked_div(u128::from(bytes)).and_then(|n| u64::try_from(n).ok());
        let share = Duration::from_nanos(share.unwrap_or_default());
        self.balance = self.balance.saturating_add(took).saturating_sub(share.saturating_mul(2));
        self.ahead = self.ahead.saturating_add(ahead);
    }

    /// How many bytes of a shard of `size` bytes may be read ahead: each only once, even if it was evicted since.
    fn allowance(&self, size: u64) -> u64 {
        let bytes = u128::from(self.pace).saturating_mul(self.balance.as_nanos()) / 1_000_000_000;
        let left = if self.whole { 0 } else { size.saturating_sub(self.ahead) };
        u64::try_from(bytes).unwrap_or(u64::MAX).min(left)
    }
}

/// Fetches the inner chunks in `inside` and more, and caches them decoded; `false` if nothing was to be done.
///
/// Only one task does this at a time; others go on without. Failures are left to the reads that need the bytes.
pub(super) async fn fetch(
    reader: &Arc<Reader>,
    chain: &Arc<Chain>,
    key: &str,
    inside: &InnerChunks,
    index: &Arc<Indexed>,
    name: &Key,
    budget: &Budget,
) -> Result<bool> {
    let (Some(shard), Some(size)) = (chain.shard(), index.state.size()) else { return Ok(false) };
    let Ok(mut ledger) = index.ledger.try_lock() else { return Ok(false) };
    let allowance = ledger.allowance(size);
    let wanted: u64 = inside.runs.iter().map(|run| run.length).sum();
    let asked: u64 = inside.runs.iter().flat_map(|run| &run.items).map(|item| item.length).sum();
    // A read of most of the shard needs no read-ahead.
    if asked == 0 || asked > size / 2 || allowance == 0 || !keeps(reader, chain, budget) {
        return Ok(false);
    }
    let (items, whole) = nearest(reader, shard, index, name, inside, size, wanted.saturating_add(allowance));
    let block = BLOCK.min(num::u64_of(budget.bytes() / 4));
    let runs = Arc::new(join(items, Joining { block, ..Joining::REMOTE }));
    let bytes: u64 = runs.iter().map(|run| run.length).sum();
    let began = Instant::now();
    let one = |n: usize| {
        let (runs, chain, index, name) = (runs.clone(), chain.clone(), index.clone(), *name);
        async move {
            let Some(run) = runs.get(n) else { return Ok(()) };
            let _held = budget.take(num::usize_of(run.length)?).await?;
            let range = Some(ByteRange::span(run.offset, run.length));
            let ask = GetOptions { range, state: Some(&index.state), ..GetOptions::default() };
            let Some(Object { bytes, meta }) = reader.array.store.get_opts(key, ask).await? else {
                return Err(Error::io("the shard was deleted while it was read"));
            };
            meta.check(Some(&index.state))?;
            compute(reader, move |reader| {
                runs.get(n).map_or(Ok(()), |run| keep(reader, &chain, &index, &name, run, &bytes))
            })
            .await
        }
    };
    // Waits for all: no job may hold on to the reader after this.
    let done: Vec<Result<()>> =
        stream::iter(0..runs.len()).map(one).buffer_unordered(RUNS_IN_FLIGHT).collect().await;
    ledger.note(bytes, bytes.saturating_sub(wanted), began.elapsed());
    ledger.whole |= whole || done.iter().any(Result::is_err);
    let stops = |e: &Error| matches!(e.kind(), ErrorKind::Conflict | ErrorKind::Cancelled);
    done.into_iter().filter_map(Result::err).find(stops).map_or(Ok(true), Err)
}

/// Whether decoded inner chunks of a shard are cached, and all of them fit.
fn keeps(reader: &Reader, chain: &Chain, budget: &Budget) -> bool {
    let Some(shard) = chain.shard() else { return false };
    let inner = shard.inner();
    let size = chain.decoded().byte_size().unwrap_or(usize::MAX);
    inner.shard().is_none()
        && inner.plain().is_none()
        && !inner.decoded().data_type.is_variable()
        && size <= WHOLE_SHARD.min(budget.bytes())
        && reader.array.context.chunks().takes(size)
        && num::product(shard.counts()).is_ok_and(|n| n <= MAX_ENTRIES)
}

/// The inner chunks that are not cached, those nearest to `inside` first, about `most` bytes of them, and whether that
/// is all. Invalid entries are left out.
fn nearest(
    reader: &Reader,
    shard: &Shard,
    index: &Indexed,
    name: &Key,
    inside: &InnerChunks,
    size: u64,
    most: u64,
) -> (Vec<RunItem>, bool) {
    let cache = reader.array.context.chunks();
    let count = num::product_usize(shard.counts()).unwrap_or_default();
    let entries = (0..count).filter_map(|n| index.index.entry(n).ok().flatten());
    let there = entries.filter(|entry| shard.check_entry(*entry, size).is_ok());
    let items = there.map(|(offset, length)| RunItem::at(offset, length));
    let missing = items.filter(|item| !cache.has(&index.inner_key(name, item)));
    let distance = |item: &RunItem| {
        let end = item.offset.saturating_add(item.length);
        let after = inside.runs.partition_point(|run| run.offset <= item.offset);
        let before = after.checked_sub(1).and_then(|n| inside.runs.get(n));
        let before = before.map(|run| item.offset.saturating_sub(run.offset.saturating_add(run.length)));
        let after = inside.runs.get(after).map(|run| run.offset.saturating_sub(end));
        before.into_iter().chain(after).min().unwrap_or_default()
    };
    let mut items: Vec<(u64, RunItem)> = missing.map(|item| (distance(&item), item)).collect();
    items.sort_unstable_by_key(|(distance, item)| (*distance, item.offset));
    let (all, mut bytes) = (items.len(), 0u64);
    let taken = items.into_iter().take_while(|(distance, item)| {
        bytes = bytes.saturating_add(item.length);
        *distance == 0 || bytes <= most
    });
    let taken: Vec<RunItem> = taken.map(|(_, item)| item).collect();
    let whole = taken.len() == all;
    (taken, whole)
}

/// Decodes and caches the inner chunks of a run. Damaged ones are left out: a read of them reports the error.
fn keep(reader: &Reader, chain: &Chain, index: &Indexed, name: &Key, run: &Run, bytes: &[u8]) -> Result<()> {
    let Some(inner) = chain.shard().map(Shard::inner) else { return Ok(()) };
    let size = inner.decoded().byte_size()?;
    run.items.par_iter().try_for_each(|item| {
        reader.check_cancel()?;
        let start = num::usize_of(item.offset.saturating_sub(run.offset))?;
        let part = bytes.get(start..start.saturating_add(num::usize_of(item.length)?)).unwrap_or_default();
        with_buffers(|buffers| {
            let owned = match inner.decode(part, &mut buffers.scratch) {
                Ok(Decoded::Owned(buffer)) => Some(buffer),
                Ok(Decoded::Borrowed(_)) => None,
                Err(_) => return,
            };
            reader.remember(index.inner_key(name, item), owned, size, &mut buffers.scratch);
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(30);

    /// How long `n` windows take, of 1/25 of a shard each, over a line of so many bytes a second; and how many requests.
    fn windows(n: u64, size: u64, line: u64) -> (Duration, u64) {
        let time = |bytes: u64| ROUND_TRIP + Duration::from_millis(bytes * 1000 / line);
        let mut ledger = Ledger::default();
        ledger.note(0, 0, ROUND_TRIP);
        assert_eq!(ledger.allowance(size), 0, "nothing is fetched ahead of the first window");
        let (mut all, mut requests, mut had) = (Duration::ZERO, 0, 0);
        for _ in 0..n {
            if had >= size {
                break;
            }
            let wanted = (size - had).min(size / 25);
            let ahead = ledger.allowance(size).min(size - had - wanted);
            let took = time(wanted + ahead);
            ledger.note(wanted + ahead, ahead, took);
            (all, requests, had) = (all + took, requests + 1, had + wanted + ahead);
        }
        (all, requests)
    }

    #[test]
    fn a_fast_line_brings_all_at_once_and_a_slow_one_never_takes_more_than_twice_as_long() {
        assert!(windows(100, 20 << 20, 1 << 30).1 <= 3);
        for line in [1 << 20, 10 << 20, 100 << 20, 1 << 30] {
            for n in 1..25u32 {
                let (took, _) = windows(n.into(), 20 << 20, line);
                let alone = (ROUND_TRIP + Duration::from_millis((20 << 20) * 40 / line)) * n;
                assert!(took <= alone * 2, "{line} {n}: {took:?} for {alone:?}");
            }
        }
    }

    #[test]
    fn what_is_at_hand_is_not_fetched_ahead() {
        let mut ledger = Ledger::default();
        ledger.note(1 << 20, 0, Duration::from_micros(300));
        assert_eq!(ledger.allowance(1 << 20), 0);
        ledger.note(1 << 20, 0, Duration::from_millis(30));
        assert_eq!(ledger.allowance(1 << 20), 1 << 20);
        ledger.note(1 << 20, 1 << 20, Duration::from_millis(31));
        ledger.note(1 << 20, 0, Duration::from_millis(300));
        assert_eq!(ledger.allowance(1 << 20), 0);
    }
}
