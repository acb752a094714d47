//! What a request costs, counted from metadata before anything is read; and the queue that all work waits in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zaro::array::ArrayView;
use zaro::meta::Json;
use zaro::{Array, Index, Selection};

use crate::answer::Fault;
use crate::config::Limits;

/// What a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    /// Chunks or shards that are asked for.
    pub(crate) chunks: u64,
    /// Bytes of all chunks that have to be decoded, in the worst case.
    pub(crate) decoded: u64,
    /// Pixels, or elements, of the answer.
    pub(crate) pixels: u64,
}

impl Cost {
    /// The cost of reading a part of an array. Chunks are decoded whole, however small the part; of shards, their inner
    /// chunks are.
    pub(crate) fn of(array: &Array, selection: &Selection) -> zaro::Result<Self> {
        let meta = array.meta();
        let indexes = selection.indexes(meta)?;
        let view = ArrayView::new(&indexes, meta)?;
        let pixels = view.count()?;
        if pixels == 0 {
            return Ok(Self::default());
        }
        let (inner, largest) = (meta.inner_chunks(), meta.grid.largest());
        let (mut chunks, mut decoded) = (1u64, u64::try_from(meta.data_type.size()).unwrap_or(1).max(1));
        for (d, (axis, extent)) in meta.grid.axes().iter().zip(&meta.shape).enumerate() {
            let (first, last, count) = bounds(&indexes, &view, d, *extent);
            let number = |at: u64| axis.chunk_at(at).map_or(0, |(number, _, _)| number);
            let touched = (number(last) - number(first).min(number(last))).saturating_add(1).min(count);
            chunks = chunks.saturating_mul(touched);
            let elements = match inner.as_ref().and_then(|inner| inner.get(d)).copied().filter(|n| *n > 0) {
                Some(n) => (last / n - first / n).saturating_add(1).min(count).saturating_mul(n),
                // From the start of the first chunk to the end of the last, unless some between are skipped.
                None => {
                    let start = axis.chunk_at(first).map_or(first, |(_, start, _)| start);
                    let end =
                        axis.chunk_at(last).map_or(last, |(_, start, length)| start.saturating_add(length));
                    let longest = largest.get(d).copied().unwrap_or(1);
                    end.saturating_sub(start).max(1).min(touched.saturating_mul(longest))
                }
            };
            decoded = decoded.saturating_mul(elements);
        }
        Ok(Self { chunks, decoded, pixels })
    }

    /// Both together; the pixels are those of the answer, not of what is read.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            chunks: self.chunks.saturating_add(other.chunks),
            decoded: self.decoded.saturating_add(other.decoded),
            pixels: self.pixels.max(other.pixels),
        }
    }

    /// This many times.
    #[must_use]
    pub(crate) fn times(self, n: u64) -> Self {
        Self {
            chunks: self.chunks.saturating_mul(n),
            decoded: self.decoded.saturating_mul(n),
            pixels: self.pixels,
        }
    }

    /// With an answer of this many pixels.
    #[must_use]
    pub(crate) fn drawing(self, pixels: u64) -> Self {
        Self { pixels, ..self }
    }

    pub(crate) fn fits(&self, limits: &Limits) -> bool {
        self.chunks <= limits.chunks && self.decoded <= limits.decoded && self.pixels <= limits.pixels
    }

    /// 413 if it is more than one request may cost, with what it would be, and the nearest level that is within.
    pub(crate) fn check(
        &self,
        limits: &Limits,
        nearest: impl FnOnce() -> Option<usize>,
    ) -> Result<(), Fault> {
        if self.fits(limits) {
            return Ok(());
        }
        let detail = "this request would cost more than one may; ask for a smaller part or a coarser level";
        let json = Json::from([
            ("detail", detail.into()),
            ("decoded_bytes", self.decoded.into()),
            ("chunks", self.chunks.into()),
            ("pixels", self.pixels.into()),
            (
                "limit",
                Json::from([
                    ("decoded_bytes", limits.decoded.into()),
                    ("chunks", limits.chunks.into()),
                    ("pixels", limits.pixels.into()),
                ]),
            ),
            ("nearest_level", nearest().map_or(Json::Null, Json::from)),
        ]);
        let mut fault = Fault::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
        fault.json = Some(json.compact());
        Err(fault)
    }
}

/// The first and the last position along a dimension, and how many there are.
fn bounds(indexes: &[Index], view: &ArrayView, d: usize, extent: u64) -> (u64, u64, u64) {
    let last = extent.saturating_sub(1);
    let kept = view.dimensions().iter().position(|of| *of == d);
    let count = kept.and_then(|i| view.shape().get(i).copied()).unwrap_or(1).max(1);
    let place = |i: u64| view.place(d, i).min(last);
    match indexes.get(d) {
        Some(Index::List(list)) => {
            let signed = i64::try_from(extent).unwrap_or(i64::MAX);
            let at = |i: &i64| if *i < 0 { i.saturating_add(signed) } else { *i };
            let least = list.iter().map(at).min().and_then(|i| u64::try_from(i).ok()).unwrap_or(0);
            let most = list.iter().map(at).max().and_then(|i| u64::try_from(i).ok()).unwrap_or(0);
            (least.min(last), most.min(last), count)
        }
        _ => {
            let (a, b) = (place(0), place(count - 1));
            (a.min(b), a.max(b), count)
        }
    }
}

/// The level nearest to `asked`, of `count`, that fits.
pub(crate) fn nearest(asked: usize, count: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let away = |n: usize| [asked.checked_add(n), asked.checked_sub(n)];
    (1..count.max(1)).flat_map(away).flatten().find(|level| *level < count && fits(*level))
}

/// Bytes that one permit stands for.
const UNIT: u64 = 64 << 10;

/// How long work waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many may wait.
const MOST_WAITING: usize = 1024;

/// The queue that work waits in until the bytes it decodes are free, out of half of the memory.
#[derive(Debug)]
pub(crate) struct Gate {
    free: Arc<Semaphore>,
    all: u32,
    waiting: AtomicUsize,
}

impl Gate {
    /// A gate for work on `memory` bytes at once.
    pub(crate) fn new(memory: usize) -> Self {
        let units = u64::try_from(memory).unwrap_or(u64::MAX) / UNIT;
        let all = u32::try_from(units).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        let permits = usize::try_from(all).unwrap_or(usize::MAX >> 4);
        Self { free: Arc::new(Semaphore::new(permits)), all, waiting: AtomicUsize::new(0) }
    }

    /// Waits for a turn; it ends when what is returned is dropped. 503 if it does not come soon.
    pub(crate) async fn enter(&self, cost: Cost) -> Result<OwnedSemaphorePermit, Fault> {
        // What is larger than the gate has it alone.
        let units = u32::try_from(cost.decoded.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX).min(self.all);
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(units) {
            return Ok(permit);
        }
        let place = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            return Err(Fault::busy());
        }
        let turn = tokio::time::timeout(PATIENCE, self.free.clone().acquire_many_owned(units)).await;
        drop(place);
        match turn {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Fault::busy()),
        }
    }
}

/// A place in the queue, given up also by those who leave.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::meta::{DataType, NewArray};
    use zaro::store::{MemoryStore, SharedStore};

    #[tokio::test]
    async fn whole_chunks_are_counted() {
        let store: SharedStore = Arc::new(MemoryStore::default());
        let new = NewArray::new(DataType::UInt(16), [100, 100]).with_chunks(Some(vec![10, 50]));
        let array = zaro::hierarchy::create_array(&store, "a", &new, Default::default()).await.unwrap();
        let cost = |text: &str| Cost::of(&array, &Selection::parse(text).unwrap()).unwrap();
        assert_eq!(cost("0:1,0:1"), Cost { chunks: 1, decoded: 1000, pixels: 1 });
        assert_eq!(cost("5,0:51"), Cost { chunks: 2, decoded: 2000, pixels: 51 });
        assert_eq!(cost(":,:"), Cost { chunks: 20, decoded: 20_000, pixels: 10_000 });
        assert_eq!(cost("::-1,[99,3]"), Cost { chunks: 20, decoded: 20_000, pixels: 200 });
        assert_eq!(cost("0:0,:"), Cost::default());
        let limits = Limits { chunks: 19, ..Limits::default() };
        let fault = cost(":,:").check(&limits, || Some(2)).unwrap_err();
        assert_eq!(fault.status, StatusCode::PAYLOAD_TOO_LARGE);
        let json = fault.json.unwrap();
        assert!(json.contains("\"chunks\":20") && json.contains("\"nearest_level\":2"), "{json}");
        let new = new.with_shards(Some(vec![100, 100]));
        let sharded = zaro::hierarchy::create_array(&store, "s", &new, Default::default()).await.unwrap();
        let cost = Cost::of(&sharded, &Selection::parse("0:11,0:1").unwrap()).unwrap();
        assert_eq!(cost, Cost { chunks: 1, decoded: 2000, pixels: 11 });
        // A document may claim anything.
        let huge = NewArray::new(DataType::UInt(8), [1 << 40, 1 << 40]).with_chunks(Some(vec![1, 1]));
        let huge = zaro::hierarchy::create_array(&store, "h", &huge, Default::default()).await.unwrap();
        assert!(
            Cost::of(&huge, &Selection::all()).is_err()
                || !Cost::of(&huge, &Selection::all()).unwrap().fits(&limits)
        );
    }

    #[tokio::test]
    async fn work_waits_for_its_bytes() {
        let gate = Gate::new(1 << 20);
        let cost = |decoded| Cost { chunks: 1, decoded, pixels: 1 };
        let first = gate.enter(cost(1 << 30)).await.unwrap();
        let second = gate.enter(cost(1));
        let short = tokio::time::timeout(Duration::from_millis(20), second).await;
        assert!(short.is_err() && gate.waiting.load(Ordering::Relaxed) == 0);
        drop(first);
        assert!(gate.enter(cost(1)).await.is_ok());
    }

    #[test]
    fn the_nearest_level_may_be_finer() {
        assert_eq!(nearest(2, 5, |l| l >= 4), Some(4));
        assert_eq!(nearest(4, 5, |l| l <= 1), Some(1));
        assert_eq!(nearest(0, 1, |_| true), None);
    }
}
