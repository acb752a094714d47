//! A wrapper that coalesces nearby ranges of one object requested by independent callers.
//!
//! The chunks of an archive file, or of a ZIP, are ranges of one object, and each is requested separately.
//! [`GatherStore`] combines concurrent requests into one. The delay is short: the first caller yields to the tasks that
//! are ready, which takes microseconds, and only while a request to the same object is in flight are later ones held,
//! for at most [`HOLD`].
//!
//! No caller depends on another. A request is driven by all its waiters, so that any of them may be dropped; a caller
//! that waited too long for the first one sends the group itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use tokio::sync::oneshot;

use super::coalesce::plan;
use crate::error::{Error, ErrorKind, Result};
use crate::store::StoreExt as _;
use crate::store::fault::copy_of;
use crate::store::memory::slice;
use crate::store::wrap::forward::forward;
use crate::store::{ByteRange, GetOptions, Object, ObjectMeta, Pin, SharedStore, Store};

/// The largest gap, in bytes, that is read rather than skipped. Smaller than for the ranges of one caller: these may be
/// of unrelated callers.
pub const MAX_GAP: u64 = 64_000;

/// The largest coalesced block, in bytes.
pub const MAX_BLOCK: u64 = 8 << 20;

/// The most bytes that wait together.
const MAX_GROUP: u64 = 4 * MAX_BLOCK;

/// A longer range is not held: the round trip costs less than its bytes.
pub const MAX_RANGE: u64 = 1 << 20;

/// The most gap bytes that are read in all requests in flight. Beyond that only adjacent ranges are joined.
pub(crate) const MAX_WASTE: u64 = 32 << 20;

/// How long a range is held while another request to the same object is in flight.
pub const HOLD: Duration = Duration::from_millis(2);

/// How often the first caller yields, as long as others arrive. Yields are counted rather than timed, so that a busy
/// machine makes no more requests than an idle one.
const MAX_TURNS: u32 = 256;

/// How often it yields again after nobody arrived.
const QUIET_TURNS: u32 = 4;

/// How long a caller waits for the first one to act.
const PATIENCE: Duration = Duration::from_millis(20);

/// Joins spans of one object requested concurrently by several callers of [`Store::get_opts`]: those at most
/// [`MAX_GAP`] apart, into blocks of at most [`MAX_BLOCK`].
///
/// A block that exceeds the end of its object is split, so that only ranges outside of it fail. Any other failure of a
/// block is returned to all its callers. Other ranges and whole objects are requested as they are.
#[derive(Debug, Clone)]
pub struct GatherStore {
    inner: SharedStore,
    pending: Arc<PendingObjects>,
}

/// An object, in the expected state.
type Place = (String, Meant);

/// The expected state of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Meant {
    pin: Option<Pin>,
    state: Option<ObjectMeta>,
}

#[derive(Debug, Default)]
struct PendingObjects {
    open: Mutex<HashMap<Place, PendingObject>>,
    wasted: AtomicU64,
}

/// Pending requests of one object. Removed when there are none.
#[derive(Debug, Default)]
struct PendingObject {
    /// Callers whose request was not sent yet.
    waiting: Vec<Waiter>,
    /// The sum of their lengths.
    bytes: u64,
    /// The number of the group: incremented whenever one is sent.
    group: u64,
    /// How often first callers yielded.
    turns: u64,
    /// Requests in flight.
    flights: usize,
}

/// A waiting caller.
#[derive(Debug)]
struct Waiter {
    range: ByteRange,
    tell: oneshot::Sender<Flight>,
}

/// A request in flight, driven by all its waiters; dropped with the last of them.
type Flight = Shared<BoxFuture<'static, Arc<Vec<SpanAnswer>>>>;

/// The result of one span.
struct SpanAnswer {
    start: u64,
    end: u64,
    got: Result<Option<Object>>,
}

/// Counts a request in flight, and its gap bytes, until dropped.
struct CountedFlight {
    store: GatherStore,
    place: Arc<Place>,
    waste: u64,
}

impl Drop for CountedFlight {
    fn drop(&mut self) {
        let pending = &self.store.pending;
        pending.wasted.fetch_sub(self.waste, Ordering::Relaxed);
        if pending.landed(&self.place) {
            // Callers that were held for it need not wait any longer.
            self.store.send_off(&self.place, None);
        }
    }
}

impl PendingObjects {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, PendingObject>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts down a finished request; `true` if it was the last and somebody waits. Removes the entry of an idle
    /// object.
    fn landed(&self, place: &Place) -> bool {
        let mut open = self.lock();
        let Some(object) = open.get_mut(place) else { return false };
        object.flights = object.flights.saturating_sub(1);
        let (idle, waited_for) = (object.flights == 0, !object.waiting.is_empty());
        if idle && !waited_for {
            open.remove(place);
        }
        idle && waited_for
    }

    /// Counts a yield of the first caller. Returns how many wait in its group; `None` if it was sent.
    fn turn(&self, place: &Place, group: u64) -> Option<usize> {
        let mut open = self.lock();
        let object = open.get_mut(place).filter(|d| d.group == group)?;
        object.turns = object.turns.wrapping_add(1);
        Some(object.waiting.len())
    }

    /// How often the first caller of this group yielded; `None` if it was sent.
    fn turns(&self, place: &Place, group: u64) -> Option<u64> {
        self.lock().get(place).filter(|d| d.group == group).map(|d| d.turns)
    }
}

/// Sends a group when dropped, for whatever reason.
struct Lead<'a> {
    store: &'a GatherStore,
    place: &'a Place,
    group: u64,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.store.send_off(self.place, Some(self.group));
    }
}

impl Lead<'_> {
    /// Returns when it is time to send the group.
    async fn hold(&self, busy: bool) {
        if busy {
            tokio::time::sleep(HOLD).await;
            return;
        }
        let (mut seen, mut quiet) = (1, 0u32);
        for _ in 0..MAX_TURNS {
            tokio::task::yield_now().await;
            let Some(now) = self.store.pending.turn(self.place, self.group) else { return };
            quiet = if now == seen { quiet.saturating_add(1) } else { 0 };
            if quiet >= QUIET_TURNS {
                return;
            }
            seen = now;
        }
    }
}

impl GatherStore {
    /// Gathers the requests to `inner`.
    #[must_use]
    pub fn new(inner: SharedStore) -> Self {
        Self { inner, pending: Arc::default() }
    }

    /// How many gap bytes are being read now.
    #[must_use]
    pub fn wasted(&self) -> u64 {
        self.pending.wasted.load(Ordering::Relaxed)
    }

    /// Joins the waiting callers: returns the group, whether as its first, and whether requests are in flight.
    fn add_waiter(&self, place: &Place, waiter: Waiter, length: u64) -> (u64, bool, bool) {
        let mut open = self.pending.lock();
        let full = |d: &PendingObject| d.bytes.saturating_add(length) > MAX_GROUP;
        if let Some(group) = open.get(place).filter(|d| full(d)).map(|d| d.group) {
            drop(open);
            self.send_off(place, Some(group));
            open = self.pending.lock();
        }
        let object = open.entry(place.clone()).or_default();
        object.waiting.push(waiter);
        object.bytes = object.bytes.saturating_add(length);
        (object.group, object.waiting.len() == 1, object.flights > 0)
    }

    /// Bytes `offset .. offset + length`, in one request with whatever else is wanted nearby.
    async fn gathered(&self, place: &Place, offset: u64, length: u64) -> Result<Option<Object>> {
        let range = ByteRange::span(offset, length);
        let (tell, told) = oneshot::channel();
        let (group, first, busy) = self.add_waiter(place, Waiter { range, tell }, length);
        let flight = if first {
            let lead = Lead { store: self, place, group };
            lead.hold(busy).await;
            drop(lead);
            told.await
        } else {
            self.follow(place, group, told).await
        };
        let parts = flight.map_err(|_| Error::io("a range was left without an answer"))?.await;
        let end = offset.saturating_add(length);
        let mut covering: Vec<&SpanAnswer> =
            parts.iter().filter(|p| p.start <= offset && end <= p.end).collect();
        covering.sort_by_key(|p| p.got.is_err());
        let Some(part) = covering.first() else {
            return Err(Error::io("a range was left without an answer"));
        };
        let Object { bytes, meta } = match &part.got {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(None),
            Err(e) => return Err(copy_of(e)),
        };
        let own = slice(bytes, Some(ByteRange::span(offset.saturating_sub(part.start), length)))?;
        // A piece must not keep all of the block.
        let piece = own.len() < bytes.len();
        let bytes = if piece { Bytes::copy_from_slice(&own) } else { own };
        Ok(Some(Object { bytes, meta: meta.clone() }))
    }

    /// Waits until the first caller sends the group; if it does nothing, sends the group itself.
    ///
    /// The first caller may not be polled any more, perhaps because it waits for us.
    async fn follow(
        &self,
        place: &Place,
        group: u64,
        mut told: oneshot::Receiver<Flight>,
    ) -> Result<Flight, oneshot::error::RecvError> {
        let mut turns = self.pending.turns(place, group);
        loop {
            if let Ok(flight) = tokio::time::timeout(PATIENCE, &mut told).await {
                return flight;
            }
            let now = self.pending.turns(place, group);
            if now == turns {
                self.send_off(place, Some(group));
                return told.await;
            }
            turns = now;
        }
    }

    /// Sends the requests of all waiters of `place`, or of this group if it still waits.
    fn send_off(&self, place: &Place, group: Option<u64>) {
        let mut waiters = {
            let mut open = self.pending.lock();
            let Some(object) = open.get_mut(place) else { return };
            if group.is_some_and(|g| g != object.group) {
                return;
            }
            object.group = object.group.wrapping_add(1);
            object.bytes = 0;
            // The entry stays until all requests in flight are counted.
            object.flights = object.flights.saturating_add(1);
            std::mem::take(&mut object.waiting)
        };
        // These callers are gone.
        waiters.retain(|waiter| !waiter.tell.is_closed());
        let mut ranges: Vec<ByteRange> = waiters.iter().map(|waiter| waiter.range).collect();
        ranges.sort_unstable_by_key(|r| bounds(*r));
        ranges.dedup();
        let mut blocks = joined(&ranges, MAX_GAP);
        let waste: u64 = blocks.iter().map(|b| b.waste).sum();
        if self.wasted().saturating_add(waste) > MAX_WASTE {
            blocks = joined(&ranges, 0);
        }
        let place = Arc::new(place.clone());
        let mut flights: Vec<((u64, u64), Flight)> = Vec::with_capacity(blocks.len());
        for block in blocks {
            let bounds = around(&block.ranges);
            self.pending.wasted.fetch_add(block.waste, Ordering::Relaxed);
            if let Some(object) = self.pending.lock().get_mut(&*place) {
                object.flights = object.flights.saturating_add(1);
            }
            let counted =
                CountedFlight { store: self.clone(), place: Arc::clone(&place), waste: block.waste };
            let flight = async move {
                let parts = fetch(&counted.store.inner, &counted.place, block.ranges).await;
                drop(counted);
                Arc::new(parts)
            };
            flights.push((bounds, flight.boxed().shared()));
        }
        for waiter in waiters {
            let (start, end) = bounds(waiter.range);
            // Blocks are in order and disjoint.
            let at = flights.partition_point(|(b, _)| b.0 <= start).saturating_sub(1);
            if let Some((_, flight)) = flights.get(at).filter(|(b, _)| b.0 <= start && end <= b.1) {
                // Fails if the caller is gone.
                let _ = waiter.tell.send(flight.clone());
            }
        }
        self.pending.landed(&place);
    }

    /// Whether a range may be held, as `(offset, length)`.
    fn held(&self, range: Option<ByteRange>) -> Option<(u64, u64)> {
        match range {
            Some(ByteRange::Span { offset, length })
                if (1..=MAX_RANGE).contains(&length)
                    && offset.checked_add(length).is_some()
                    && self.inner.is_remote()
                    && tokio::runtime::Handle::try_current().is_ok() =>
            {
                Some((offset, length))
            }
            _ => None,
        }
    }
}

/// Ranges that one request answers, in order.
struct Joined {
    ranges: Vec<ByteRange>,
    /// The number of gap bytes.
    waste: u64,
}

/// The first byte of a span, and the first after it.
fn bounds(range: ByteRange) -> (u64, u64) {
    match range {
        ByteRange::Span { offset, length } => (offset, offset.saturating_add(length)),
        ByteRange::Suffix(_) | ByteRange::From(_) => (0, 0),
    }
}

/// The first byte of some spans, and the first after all of them.
fn around(ranges: &[ByteRange]) -> (u64, u64) {
    ranges.iter().map(|r| bounds(*r)).fold((u64::MAX, 0), |(s, e), (a, b)| (s.min(a), e.max(b)))
}

/// The requests that answer `ranges`, which are in order.
fn joined(ranges: &[ByteRange], gap: u64) -> Vec<Joined> {
    let blocks = plan(ranges, gap, MAX_BLOCK);
    let made = blocks.into_iter().map(|block| {
        let ranges: Vec<ByteRange> = block.members.iter().filter_map(|i| ranges.get(*i)).copied().collect();
        let (mut waste, mut reached) = (0u64, None::<u64>);
        for (start, end) in ranges.iter().map(|r| bounds(*r)) {
            waste = waste.saturating_add(reached.map_or(0, |r| start.saturating_sub(r)));
            reached = Some(reached.map_or(end, |r| r.max(end)));
        }
        Joined { ranges, waste }
    });
    made.collect()
}

/// Requests all `ranges` at once and, if they exceed the object, each half of them separately.
fn fetch(
    inner: &SharedStore,
    place: &Arc<Place>,
    ranges: Vec<ByteRange>,
) -> BoxFuture<'static, Vec<SpanAnswer>> {
    let (inner, place) = (Arc::clone(inner), Arc::clone(place));
    async move {
        let (start, end) = around(&ranges);
        let range = Some(ByteRange::span(start, end.saturating_sub(start)));
        let Meant { pin, state } = &place.1;
        let options = GetOptions { range, pin: pin.as_ref(), state: state.as_ref(), ..GetOptions::default() };
        match inner.get_opts(&place.0, options).await {
            Err(e) if e.kind() == ErrorKind::Invalid && ranges.len() > 1 => {
                let (head, tail) = ranges.split_at(ranges.len() / 2);
                let halves = [head, tail].map(|half| fetch(&inner, &place, half.to_vec()));
                join_all(halves).await.into_iter().flatten().collect()
            }
            got => vec![SpanAnswer { start, end, got }],
        }
    }
    .boxed()
}

impl fmt::Display for GatherStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for GatherStore {
    forward! {
        get_stream get_ranges stat list_opts facts put delete delete_unchanged delete_prefix copy_object promote finish
        origin sites free_space direct
    }

    /// Joined with requests of the same state. The ranges of one caller are joined by the inner store.
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        match self.held(options.range).filter(|_| !options.for_update) {
            None => self.inner.get_opts(key, options).await,
            Some((offset, length)) => {
                let meant = Meant { pin: options.pinned().cloned(), state: options.state.cloned() };
                let got = self.gathered(&(key.to_owned(), meant), offset, length).await;
                got.map_err(|e| e.with_key(key).with_store(self))
            }
        }
    }
}
