//! Neighbouring ranges of one object, asked for together.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::BoxStream;

use crate::error::{Error, Result};
use crate::store::memory::slice;
use crate::store::{
    Ask, ByteRange, Condition, Direct, KeyEntry, Listing, ObjectState, Pin, Put, SharedStore, Site, Store,
    Tag, one_state,
};

/// The largest hole, in bytes, that is read along rather than left out: 1 MiB, about what a round trip of 30 ms
/// costs at 35 MB/s.
pub const MAX_GAP: u64 = 1 << 20;

/// The largest block, in bytes, made by joining: 16 MiB. A single range that is longer stays one request.
pub const MAX_BLOCK: u64 = 16 << 20;

/// Joins the spans of one [`Store::get_ranges`] call that lie at most [`MAX_GAP`] apart into blocks of at most
/// [`MAX_BLOCK`], asks for the blocks at once, and answers by slicing them.
///
/// The answers of one block share its memory. Suffixes and open ranges are asked for as they are.
#[derive(Debug, Clone)]
pub struct CoalesceStore {
    inner: SharedStore,
    gap: u64,
    block: u64,
}

impl CoalesceStore {
    /// With the limits [`MAX_GAP`] and [`MAX_BLOCK`].
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

/// A request, and which of the ranges asked for it answers.
pub(super) struct Block {
    pub(super) range: ByteRange,
    pub(super) members: Vec<usize>,
}

/// The requests that answer `ranges`.
pub(super) fn plan(ranges: &[ByteRange], gap: u64, limit: u64) -> Vec<Block> {
    let mut spans = Vec::new();
    let mut out = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        match *range {
            ByteRange::Span { offset, length } if offset.checked_add(length).is_some() => {
                spans.push((offset, offset.saturating_add(length), i));
            }
            other => out.push(Block { range: other, members: vec![i] }),
        }
    }
    spans.sort_unstable();
    let mut open: Option<(u64, u64, Vec<usize>)> = None;
    let close = |(start, end, members): (u64, u64, Vec<usize>)| Block {
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
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        self.inner.get(key, range).await
    }

    async fn get_with(&self, key: &str, ask: Ask<'_>) -> Result<Option<(Bytes, ObjectState)>> {
        self.inner.get_with(key, ask).await
    }

    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        of: Option<&ObjectState>,
    ) -> Result<Option<(Vec<Bytes>, ObjectState)>> {
        if !self.inner.is_remote() {
            return self.inner.get_ranges(key, ranges, of).await;
        }
        let blocks = plan(ranges, self.gap, self.block);
        let each =
            blocks.iter().map(|b| self.inner.get_with(key, Ask { range: Some(b.range), of, most: None }));
        let fetched = one_state(try_join_all(each).await?).map_err(|e| e.with_key(key).with_store(self))?;
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

    async fn get_pinned(&self, key: &str, range: Option<ByteRange>, pin: &Pin) -> Result<Option<Bytes>> {
        self.inner.get_pinned(key, range, pin).await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.inner.size(key).await
    }

    async fn state(&self, key: &str) -> Result<Option<String>> {
        self.inner.state(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        self.inner.list(prefix).await
    }

    fn keys(&self, prefix: &str) -> BoxStream<'_, Result<KeyEntry>> {
        self.inner.keys(prefix)
    }

    fn lists_all(&self) -> bool {
        self.inner.lists_all()
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.inner.put(key, value, when).await
    }

    async fn get_tagged(&self, key: &str) -> Result<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.inner.delete(key).await
    }

    async fn delete_unchanged(&self, key: &str, tag: &Tag) -> Result<Put> {
        self.inner.delete_unchanged(key, tag).await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.inner.delete_prefix(prefix).await
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        self.inner.copy_object(from, to).await
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        self.inner.promote(prefix, inner).await
    }

    async fn finish(&self) -> Result<()> {
        self.inner.finish().await
    }

    fn origin(&self, key: &str) -> Option<String> {
        self.inner.origin(key)
    }

    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        self.inner.sites(prefix)
    }

    fn free_space(&self) -> Option<u64> {
        self.inner.free_space()
    }

    fn direct(&self) -> Option<&dyn Direct> {
        self.inner.direct()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
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
