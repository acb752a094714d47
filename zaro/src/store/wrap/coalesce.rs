//! A wrapper that coalesces nearby ranges of one `get_ranges` call.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::store::StoreExt as _;
use crate::store::memory::slice;
use crate::store::wrap::forward::forward;
use crate::store::{ByteRange, ObjectMeta, SharedStore, Store, each_range};

/// The largest gap, in bytes, that is read rather than skipped: 1 MiB, about what a round trip of 30 ms costs at 35
/// MB/s.
pub(crate) const MAX_GAP: u64 = 1 << 20;

/// The largest coalesced block, in bytes: 16 MiB. A single longer range stays one request.
pub(crate) const MAX_BLOCK: u64 = 16 << 20;

/// Joins the spans of one [`Store::get_ranges`] call that are at most `MAX_GAP` apart into blocks of at most
/// `MAX_BLOCK`, requests the blocks concurrently, and returns slices of them.
///
/// The results of one block share its memory. Suffixes and open ranges are requested as they are.
#[derive(Debug, Clone)]
pub struct CoalesceStore {
    inner: SharedStore,
    gap: u64,
    block: u64,
}

impl CoalesceStore {
    /// With the limits `MAX_GAP` and `MAX_BLOCK`.
    #[must_use]
    pub fn new(inner: SharedStore) -> Self {
        Self::with_limits(inner, MAX_GAP, MAX_BLOCK)
    }

    /// With other limits, in bytes.
    #[must_use]
    pub fn with_limits(inner: SharedStore, gap: u64, block: u64) -> Self {
        Self { inner, gap, block }
    }
}

impl fmt::Display for CoalesceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A request, and the ranges that it answers.
pub(super) struct JoinedRange {
    pub(super) range: ByteRange,
    pub(super) members: Vec<usize>,
}

/// The requests that answer `ranges`.
pub(super) fn plan(ranges: &[ByteRange], gap: u64, limit: u64) -> Vec<JoinedRange> {
    let mut spans = Vec::new();
    let mut out = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        match *range {
            ByteRange::Span { offset, length } if offset.checked_add(length).is_some() => {
                spans.push((offset, offset.saturating_add(length), i));
            }
            other => out.push(JoinedRange { range: other, members: vec![i] }),
        }
    }
    spans.sort_unstable();
    let mut open: Option<(u64, u64, Vec<usize>)> = None;
    let close = |(start, end, members): (u64, u64, Vec<usize>)| JoinedRange {
        range: ByteRange::span(start, end.saturating_sub(start)),
        members,
    };
    for (start, end, i) in spans {
        match &mut open {
            Some((first, last, members))
                if start <= last.saturating_add(gap) && end.max(*last).saturating_sub(*first) <= limit =>
            {
                *last = end.max(*last);
                members.push(i);
            }
            _ => out.extend(open.replace((start, end, vec![i])).map(close)),
        }
    }
    out.extend(open.map(close));
    out
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for CoalesceStore {
    forward! {
        get_opts get_stream stat list_opts facts put delete delete_unchanged delete_prefix copy_object promote finish
        origin sites free_space direct
    }

    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        if !self.inner.is_remote() {
            return self.inner.get_ranges(key, ranges, state).await;
        }
        let blocks = plan(ranges, self.gap, self.block);
        let joined: Vec<_> = blocks.iter().map(|block| block.range).collect();
        let fetched = each_range(&*self.inner, key, &joined, state).await?;
        let Some((fetched, state)) = fetched else { return Ok(None) };
        let mut parts = vec![None; ranges.len()];
        for (block, bytes) in blocks.iter().zip(fetched) {
            for &i in &block.members {
                let (Some(range), Some(part)) = (ranges.get(i), parts.get_mut(i)) else { continue };
                *part = Some(match (block.range, *range) {
                    (ByteRange::Span { offset: base, .. }, ByteRange::Span { offset, length }) => {
                        let within = ByteRange::span(offset.saturating_sub(base), length);
                        slice(&bytes, Some(within)).map_err(|e| e.with_key(key).with_store(self))?
                    }
                    _ => bytes.clone(),
                });
            }
        }
        match parts.into_iter().collect::<Option<Vec<_>>>() {
            Some(parts) => Ok(Some((parts, state))),
            None => Err(Error::io("a range was left without an answer").with_key(key).with_store(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ranges: &[(u64, u64)]) -> Vec<(ByteRange, Vec<usize>)> {
        let ranges: Vec<_> = ranges.iter().map(|&(o, n)| ByteRange::span(o, n)).collect();
        plan(&ranges, 10, 100).into_iter().map(|b| (b.range, b.members)).collect()
    }

    #[test]
    fn near_spans_join_in_any_order_and_far_ones_do_not() {
        assert_eq!(spans(&[(30, 5), (0, 20)]), [(ByteRange::span(0, 35), vec![1, 0])]);
        assert_eq!(spans(&[(31, 5), (0, 20)]).len(), 2);
        assert_eq!(spans(&[(0, 20), (5, 3)]), [(ByteRange::span(0, 20), vec![0, 1])]);
    }

    #[test]
    fn a_block_never_grows_past_the_limit_but_a_long_range_stays_whole() {
        assert_eq!(spans(&[(0, 60), (60, 60)]).len(), 2);
        assert_eq!(spans(&[(0, 500)]), [(ByteRange::span(0, 500), vec![0])]);
        assert_eq!(spans(&[(u64::MAX, 2), (0, 1)]).len(), 2);
    }
}
