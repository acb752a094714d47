//! Bytes held so that they are not asked for twice.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::num::u64_of;
use crate::store::fault::copy_of;
use crate::store::memory::slice;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, KeyEntry, Listing, Pin, Put, SharedStore, Site, Store, Tag,
    join,
};

/// Holds the answers of [`Store::get`], up to a number of bytes, the least recently used leaving first.
///
/// Callers who ask for the same range of the same key at the same time make one request together. Failures are
/// handed to those who waited but not held; neither is the knowledge that a key is missing. What is held stays until
/// it is put or deleted through this store: one that others change while it is read needs a new cache.
/// [`Store::get_tagged`] always asks.
#[derive(Debug)]
pub struct CacheStore {
    inner: SharedStore,
    state: Arc<Mutex<State>>,
    capacity: u64,
}

/// The whole object, or a range of it as it was asked for.
type Place = (Arc<str>, Option<ByteRange>);

#[derive(Debug, Default)]
struct State {
    /// By key first, so that a put finds all there is to forget.
    held: HashMap<Arc<str>, HashMap<Option<ByteRange>, Held>>,
    /// From the moment of the last use to what was used.
    order: BTreeMap<u64, Place>,
    clock: u64,
    bytes: u64,
    flights: HashMap<Place, Arc<Flight>>,
}

#[derive(Debug)]
struct Held {
    bytes: Bytes,
    used: u64,
}

/// A request under way. The channel closes when its maker is done or gone.
#[derive(Debug)]
struct Flight {
    answer: OnceLock<Result<Option<Bytes>>>,
    over: watch::Receiver<()>,
}

impl State {
    fn lookup(&mut self, place: &Place) -> Option<Bytes> {
        let now = self.clock.wrapping_add(1);
        let held = self.held.get_mut(&place.0)?.get_mut(&place.1)?;
        self.clock = now;
        self.order.remove(&held.used);
        held.used = now;
        self.order.insert(now, place.clone());
        Some(held.bytes.clone())
    }

    fn keep(&mut self, place: Place, bytes: &Bytes, capacity: u64) {
        let cost = cost(&place.0, bytes.len());
        let known = self.held.get(&place.0).is_some_and(|parts| parts.contains_key(&place.1));
        // One large object does not drive out all the small ones.
        if cost > capacity / 4 || known {
            return;
        }
        while self.bytes.saturating_add(cost) > capacity {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            let Some(parts) = self.held.get_mut(&oldest.0) else { continue };
            if let Some(gone) = parts.remove(&oldest.1) {
                self.bytes = self.bytes.saturating_sub(self::cost(&oldest.0, gone.bytes.len()));
            }
            if parts.is_empty() {
                self.held.remove(&oldest.0);
            }
        }
        self.clock = self.clock.wrapping_add(1);
        self.order.insert(self.clock, place.clone());
        self.bytes = self.bytes.saturating_add(cost);
        // A copy: a slice would keep all of the block it was cut from.
        let bytes = Bytes::copy_from_slice(bytes);
        self.held.entry(place.0).or_default().insert(place.1, Held { bytes, used: self.clock });
    }

    /// Forgets what is held of `key`, and what is on its way: it may have set out before the change.
    fn forget(&mut self, key: &str) {
        self.flights.retain(|(k, _), _| **k != *key);
        for held in self.held.remove(key).into_iter().flat_map(HashMap::into_values) {
            self.order.remove(&held.used);
            self.bytes = self.bytes.saturating_sub(cost(key, held.bytes.len()));
        }
    }

    /// The same for every key that begins with `start`.
    fn forget_all(&mut self, start: &str) {
        self.flights.retain(|(k, _), _| !k.starts_with(start));
        let keys: Vec<_> = self.held.keys().filter(|k| k.starts_with(start)).cloned().collect();
        keys.iter().for_each(|key| self.forget(key));
    }
}

/// What holding it takes: the bytes, the key, and a flat sum for the tables.
fn cost(key: &str, length: usize) -> u64 {
    u64_of(length.saturating_add(key.len()).saturating_add(200))
}

/// What a caller has to do about one range.
enum Part {
    Ready(Bytes),
    Wait(Arc<Flight>),
    Fetch(Ours),
}

/// A flight of ours: taken off the table when it is dropped, whatever happens.
struct Ours {
    place: Place,
    flight: Arc<Flight>,
    state: Arc<Mutex<State>>,
    _over: watch::Sender<()>,
}

impl Ours {
    /// Whether the table still has it: a put since it set out has taken it off, since it may bring what was before.
    fn is_current(&self, state: &State) -> bool {
        state.flights.get(&self.place).is_some_and(|f| Arc::ptr_eq(f, &self.flight))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if self.is_current(&state) {
            state.flights.remove(&self.place);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CacheStore {
    /// Holds up to `capacity` bytes of what `inner` answers.
    #[must_use]
    pub fn new(inner: SharedStore, capacity: u64) -> Self {
        Self { inner, state: Arc::default(), capacity }
    }

    /// How many bytes are held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        lock(&self.state).bytes
    }

    fn part(&self, key: &Arc<str>, range: Option<ByteRange>) -> Result<Part> {
        let place = (Arc::clone(key), range);
        let mut state = lock(&self.state);
        if let Some(bytes) = state.lookup(&place) {
            return Ok(Part::Ready(bytes));
        }
        if range.is_some()
            && let Some(whole) = state.lookup(&(Arc::clone(key), None))
        {
            return slice(&whole, range)
                .map(Part::Ready)
                .map_err(|e| e.with_key(key).with_store(&self.inner));
        }
        if let Some(flight) = state.flights.get(&place) {
            return Ok(Part::Wait(Arc::clone(flight)));
        }
        let (sender, over) = watch::channel(());
        let flight = Arc::new(Flight { answer: OnceLock::new(), over });
        state.flights.insert(place.clone(), Arc::clone(&flight));
        Ok(Part::Fetch(Ours { place, flight, state: Arc::clone(&self.state), _over: sender }))
    }

    /// Holds the answer and hands it to those who wait.
    fn land(&self, ours: Ours, answer: &Result<Option<Bytes>>) {
        let copy = match answer {
            Ok(Some(bytes)) => {
                let mut state = lock(&self.state);
                if ours.is_current(&state) {
                    state.keep(ours.place.clone(), bytes, self.capacity);
                }
                Ok(Some(bytes.clone()))
            }
            Ok(None) => Ok(None),
            Err(e) => Err(copy_of(e)),
        };
        // Only the maker of a flight sets its answer, and only here.
        let _ = ours.flight.answer.set(copy);
    }
}

/// What the flight brought; `None` if its maker was stopped before it ended.
async fn wait(flight: &Flight) -> Option<Result<Option<Bytes>>> {
    let mut over = flight.over.clone();
    // An error means that the sender is gone, which is what is waited for.
    while over.changed().await.is_ok() {}
    flight.answer.get().map(|answer| match answer {
        Ok(bytes) => Ok(bytes.clone()),
        Err(e) => Err(copy_of(e)),
    })
}

impl fmt::Display for CacheStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for CacheStore {
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        let name = Arc::from(key);
        loop {
            match self.part(&name, range)? {
                Part::Ready(bytes) => return Ok(Some(bytes)),
                Part::Wait(flight) => {
                    if let Some(answer) = wait(&flight).await {
                        return answer;
                    }
                }
                Part::Fetch(ours) => {
                    let answer = self.inner.get(key, range).await;
                    self.land(ours, &answer);
                    return answer;
                }
            }
        }
    }

    async fn get_ranges(&self, key: &str, ranges: &[ByteRange]) -> Result<Option<Vec<Bytes>>> {
        let name = Arc::from(key);
        let mut out: Vec<Option<Bytes>> = vec![None; ranges.len()];
        let mut waits = Vec::new();
        let mut fetches = Vec::new();
        for (slot, range) in out.iter_mut().zip(ranges) {
            match self.part(&name, Some(*range))? {
                Part::Ready(bytes) => *slot = Some(bytes),
                Part::Wait(flight) => waits.push((slot, *range, flight)),
                Part::Fetch(ours) => fetches.push((slot, *range, ours)),
            }
        }
        if !fetches.is_empty() {
            let wanted: Vec<_> = fetches.iter().map(|(_, range, _)| *range).collect();
            match self.inner.get_ranges(key, &wanted).await {
                Ok(Some(parts)) => {
                    for ((slot, _, ours), bytes) in fetches.into_iter().zip(parts) {
                        self.land(ours, &Ok(Some(bytes.clone())));
                        *slot = Some(bytes);
                    }
                }
                Ok(None) => {
                    fetches.into_iter().for_each(|(_, _, ours)| self.land(ours, &Ok(None)));
                    return Ok(None);
                }
                Err(e) => {
                    for (_, _, ours) in fetches {
                        self.land(ours, &Err(copy_of(&e)));
                    }
                    return Err(e);
                }
            }
        }
        // Our own flights have landed: nobody who waits for us is waited for here.
        for (slot, range, flight) in waits {
            let answer = match wait(&flight).await {
                Some(answer) => answer?,
                None => self.get(key, Some(range)).await?,
            };
            match answer {
                Some(bytes) => *slot = Some(bytes),
                None => return Ok(None),
            }
        }
        match out.into_iter().collect::<Option<Vec<_>>>() {
            Some(parts) => Ok(Some(parts)),
            None => {
                Err(Error::io("a range was left without an answer").with_key(key).with_store(&self.inner))
            }
        }
    }

    async fn get_pinned(&self, key: &str, range: Option<ByteRange>, pin: &Pin) -> Result<Option<Bytes>> {
        // What is held is held by key; a state is another thing. It passes through.
        self.inner.get_pinned(key, range, pin).await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        let whole = lock(&self.state).lookup(&(Arc::from(key), None));
        match whole {
            Some(bytes) => Ok(Some(u64_of(bytes.len()))),
            None => self.inner.size(key).await,
        }
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        self.inner.list(prefix).await
    }

    fn keys(&self, prefix: &str) -> BoxStream<'_, Result<KeyEntry>> {
        self.inner.keys(prefix)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let put = self.inner.put(key, value, when).await;
        // Whatever the answer: a put that failed may have taken place, and one that was refused says that what is
        // held is old.
        lock(&self.state).forget(key);
        put
    }

    async fn get_tagged(&self, key: &str) -> Result<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let deleted = self.inner.delete(key).await;
        lock(&self.state).forget(key);
        deleted
    }

    async fn delete_unchanged(&self, key: &str, tag: &Tag) -> Result<Put> {
        let deleted = self.inner.delete_unchanged(key, tag).await;
        lock(&self.state).forget(key);
        deleted
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let deleted = self.inner.delete_prefix(prefix).await;
        lock(&self.state).forget_all(&join(prefix, ""));
        deleted
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
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }
}

impl CacheStore {
    fn inside(&self) -> Result<&dyn Direct> {
        self.inner.direct().ok_or_else(|| Error::io("the store is no longer at hand").with_store(&self.inner))
    }
}

/// Past the cache, but not past its duty to forget.
#[deny(clippy::missing_trait_methods)]
impl Direct for CacheStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        self.inside()?.open(key)
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        let put = self.inside()?.put(key, parts, when);
        lock(&self.state).forget(key);
        put
    }

    fn delete(&self, key: &str) -> Result<()> {
        let deleted = self.inside()?.delete(key);
        lock(&self.state).forget(key);
        deleted
    }
}
