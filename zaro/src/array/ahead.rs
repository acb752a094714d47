//! Inner chunks of a remote shard that are fetched before anybody asks for them.
//!
//! Who reads a shard window by window waits for a round trip each time, and all the rest of the shard may cost little more than one. Nobody
//! knows how many windows will come. So the time that was waited for windows of a shard is an allowance: what can be fetched in as much
//! time, at the pace that was seen, is fetched along with the next window, what lies nearest to it first. Who goes on is soon done with
//! requests; who does not has waited twice as long at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use rayon::prelude::*;

use super::direct::with_bench;
use super::read::Reader;
use super::remote::{RUNS_IN_FLIGHT, WHOLE_SHARD, compute};
use super::runs::{Indexed, InnerChunks, Joining, Run, RunItem, join};
use crate::codec::chain::{Chain, Decoded};
use crate::codec::shard::Shard;
use crate::context::{Budget, Key};
use crate::error::{Error, ErrorKind, Result};
use crate::num;
use crate::store::{ByteRange, GetOptions, Object};

/// What comes sooner was at hand, or as good as that.
const AT_HAND: Duration = Duration::from_millis(1);

/// A shard with more inner chunks is not gone through for each window.
const MAX_ENTRIES: u64 = 1 << 16;

/// The longest request for what nobody asked for yet: several at once come sooner, and are decoded while others come.
const BLOCK: u64 = 8 << 20;

/// What the windows of one shard cost so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Time that was waited, less what was used to fetch ahead.
    balance: Duration,
    /// The shortest that a request took: the round trip.
    least: Option<Duration>,
    /// Bytes a second, beyond the round trip.
    pace: u64,
    /// Bytes that were fetched ahead.
    ahead: u64,
    /// Whether all of the shard was.
    whole: bool,
}

impl Ledger {
    /// Notes that `bytes` took so long, `ahead` of which nobody had asked for.
    pub(super) fn note(&mut self, bytes: u64, ahead: u64, took: Duration) {
        if took < AT_HAND {
            return;
        }
        let least = self.least.map_or(took, |least| least.min(took));
        self.least = Some(least);
        // A small difference is chance.
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

    /// How many bytes may be fetched ahead of a shard of `size` bytes: each is only once, even if it was driven out since.
    fn allowance(&self, size: u64) -> u64 {
        let bytes = u128::from(self.pace).saturating_mul(self.balance.as_nanos()) / 1_000_000_000;
        let left = if self.whole { 0 } else { size.saturating_sub(self.ahead) };
        u64::try_from(bytes).unwrap_or(u64::MAX).min(left)
    }
}

/// Fetches what `inside` wants and more, and keeps it decoded; `false` if it is not time for that, and nothing was done.
///
/// One does it at a time; others do without. What cannot be had is left to who asks for it.
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
    // Who wants the better part of it needs no help.
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
                return Err(Error::io("the shard vanished while it was read"));
            };
            meta.check(Some(&index.state))?;
            compute(reader, move |reader| {
                runs.get(n).map_or(Ok(()), |run| keep(reader, &chain, &index, &name, run, &bytes))
            })
            .await
        }
    };
    // All are waited for: no job may have a part in the reader after this.
    let done: Vec<Result<()>> =
        stream::iter(0..runs.len()).map(one).buffer_unordered(RUNS_IN_FLIGHT).collect().await;
    ledger.note(bytes, bytes.saturating_sub(wanted), began.elapsed());
    ledger.whole |= whole || done.iter().any(Result::is_err);
    let stops = |e: &Error| matches!(e.kind(), ErrorKind::Conflict | ErrorKind::Cancelled);
    done.into_iter().filter_map(Result::err).find(stops).map_or(Ok(true), Err)
}

/// Whether the inner chunks of a shard are kept when they are decoded, and all of them may be.
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

/// The inner chunks that are not kept, those nearest to `inside` first, about `most` bytes of them, and whether that is all. What cannot be right is left
/// out.
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

/// Decodes and keeps the inner chunks of a run. What is damaged is left out: whoever wants it will be told.
fn keep(reader: &Reader, chain: &Chain, index: &Indexed, name: &Key, run: &Run, bytes: &[u8]) -> Result<()> {
    let Some(inner) = chain.shard().map(Shard::inner) else { return Ok(()) };
    let size = inner.decoded().byte_size()?;
    run.items.par_iter().try_for_each(|item| {
        reader.check_cancel()?;
        let start = num::usize_of(item.offset.saturating_sub(run.offset))?;
        let part = bytes.get(start..start.saturating_add(num::usize_of(item.length)?)).unwrap_or_default();
        with_bench(|bench| {
            let owned = match inner.decode(part, &mut bench.scratch) {
                Ok(Decoded::Owned(buffer)) => Some(buffer),
                Ok(Decoded::Borrowed(_)) => None,
                Err(_) => return,
            };
            reader.remember(index.inner_key(name, item), owned, size, &mut bench.scratch);
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
