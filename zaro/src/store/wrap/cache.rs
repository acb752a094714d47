//! Bytes held so that they are not asked for twice.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};
use crate::num::u64_of;
use crate::store::fault::copy_of;
use crate::store::memory::slice;
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, GetOptions, Object, ObjectMeta, Put, SharedStore, Store, join,
};

/// Holds the answers of [`Store::get_opts`], up to a number of bytes, the least recently used leaving first.
///
/// What is held of one object is of one state of it: when another state is met, what was held of the first is forgotten.
///
/// Callers who ask for the same range of the same key at the same time make one request together. Failures are
/// handed to those who waited but not held; neither is the knowledge that a key is missing. What is held stays until
/// it is put or deleted through this store: one that others change while it is read needs a new cache.
/// Who gets an object to change it, and who asks what is known of it, always asks the store.
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
    held: HashMap<Arc<str>, Parts>,
    /// From the moment of the last use to what was used.
    order: BTreeMap<u64, Place>,
    clock: u64,
    bytes: u64,
    /// By the state that is meant, too: what is refused to who wants another state is not refused to all.
    flights: HashMap<(Place, Option<ObjectMeta>), Arc<Flight>>,
}

/// What is held of one object, all of the same state.
#[derive(Debug, Default)]
struct Parts {
    state: ObjectMeta,
    of: HashMap<Option<ByteRange>, Held>,
}

#[derive(Debug)]
struct Held {
    bytes: Bytes,
    used: u64,
}

type Answer = Result<Option<Object>>;

/// A request under way. The channel closes when its maker is done or gone.
#[derive(Debug)]
struct Flight {
    answer: OnceLock<Answer>,
    over: watch::Receiver<()>,
}

impl State {
    fn lookup(&mut self, place: &Place) -> Option<Object> {
        let now = self.clock.wrapping_add(1);
        let parts = self.held.get_mut(&place.0)?;
        let held = parts.of.get_mut(&place.1)?;
        self.clock = now;
        self.order.remove(&held.used);
        held.used = now;
        self.order.insert(now, place.clone());
        Some(Object { bytes: held.bytes.clone(), meta: parts.state.clone() })
    }

    fn keep(&mut self, place: Place, Object { bytes, meta: state }: &Object, capacity: u64) {
        if self.held.get(&place.0).is_some_and(|parts| !parts.state.agrees(state)) {
            self.drop_held(&place.0);
        }
        let cost = cost(&place.0, bytes.len());
        let known = self.held.get(&place.0).is_some_and(|parts| parts.of.contains_key(&place.1));
        // One large object does not drive out all the small ones.
        if cost > capacity / 4 || known {
            return;
        }
        while self.bytes.saturating_add(cost) > capacity {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            let Some(parts) = self.held.get_mut(&oldest.0) else { continue };
            if let Some(gone) = parts.of.remove(&oldest.1) {
                self.bytes = self.bytes.saturating_sub(self::cost(&oldest.0, gone.bytes.len()));
            }
            if parts.of.is_empty() {
                self.held.remove(&oldest.0);
            }
        }
        self.clock = self.clock.wrapping_add(1);
        self.order.insert(self.clock, place.clone());
        self.bytes = self.bytes.saturating_add(cost);
        // A copy: a slice would keep all of the block it was cut from.
        let bytes = Bytes::copy_from_slice(bytes);
        let parts = self.held.entry(place.0).or_default();
        if parts.state == ObjectMeta::Unknown {
            parts.state = state.clone();
        }
        parts.of.insert(place.1, Held { bytes, used: self.clock });
    }

    /// Forgets what is held of `key`, and what is on its way: it may have set out before the change.
    fn forget(&mut self, key: &str) {
        self.flights.retain(|((k, _), _), _| **k != *key);
        self.drop_held(key);
    }

    /// Forgets what is held of `key`.
    fn drop_held(&mut self, key: &str) {
        for held in self.held.remove(key).into_iter().flat_map(|parts| parts.of.into_values()) {
            self.order.remove(&held.used);
            self.bytes = self.bytes.saturating_sub(cost(key, held.bytes.len()));
        }
    }

    /// The same for every key that begins with `start`.
    fn forget_all(&mut self, start: &str) {
        self.flights.retain(|((k, _), _), _| !k.starts_with(start));
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
    Ready(Object),
    Wait(Arc<Flight>),
    Fetch(Ours),
}

/// A flight of ours: taken off the table when it is dropped, whatever happens.
struct Ours {
    place: (Place, Option<ObjectMeta>),
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

    fn part(&self, key: &Arc<str>, range: Option<ByteRange>, of: Option<&ObjectMeta>) -> Result<Part> {
        let place = (Arc::clone(key), range);
        let mut state = lock(&self.state);
        // Who means another state than the one that is held has seen it.
        if of.is_some_and(|of| state.held.get(key).is_some_and(|parts| !parts.state.agrees(of))) {
            state.drop_held(key);
        }
        if let Some(object) = state.lookup(&place) {
            return Ok(Part::Ready(object));
        }
        if range.is_some()
            && let Some(whole) = state.lookup(&(Arc::clone(key), None))
        {
            return slice(&whole.bytes, range)
                .map(|bytes| Part::Ready(Object { bytes, ..whole }))
                .map_err(|e| e.with_key(key).with_store(&self.inner));
        }
        let place = (place, of.cloned());
        if let Some(flight) = state.flights.get(&place) {
            return Ok(Part::Wait(Arc::clone(flight)));
        }
        let (sender, over) = watch::channel(());
        let flight = Arc::new(Flight { answer: OnceLock::new(), over });
        state.flights.insert(place.clone(), Arc::clone(&flight));
        Ok(Part::Fetch(Ours { place, flight, state: Arc::clone(&self.state), _over: sender }))
    }

    /// Ranges of one state: those that are held, those that others have asked for, and the rest in one go.
    async fn ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        of: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        let name = Arc::from(key);
        let mut state = of.cloned().unwrap_or_default();
        let mut out: Vec<Option<Bytes>> = vec![None; ranges.len()];
        let mut waits = Vec::new();
        let mut fetches = Vec::new();
        for (slot, range) in out.iter_mut().zip(ranges) {
            match self.part(&name, Some(*range), of)? {
                Part::Ready(object) => {
                    object.meta.check(Some(&state)).map_err(|e| e.with_key(key).with_store(&self.inner))?;
                    state = object.meta;
                    *slot = Some(object.bytes);
                }
                Part::Wait(flight) => waits.push((slot, *range, flight)),
                Part::Fetch(ours) => fetches.push((slot, *range, ours)),
            }
        }
        let meant = |state: &ObjectMeta| Some(state.clone()).filter(|s| *s != ObjectMeta::Unknown);
        if !fetches.is_empty() {
            let wanted: Vec<_> = fetches.iter().map(|(_, range, _)| *range).collect();
            match self.inner.get_ranges(key, &wanted, meant(&state).as_ref()).await {
                Ok(Some((parts, of))) => {
                    for ((slot, _, ours), bytes) in fetches.into_iter().zip(parts) {
                        let object = Object { bytes: bytes.clone(), meta: of.clone() };
                        self.land(ours, &Ok(Some(object)));
                        *slot = Some(bytes);
                    }
                    state = of;
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
                None => {
                    let of = meant(&state);
                    let options =
                        GetOptions { range: Some(range), state: of.as_ref(), ..GetOptions::default() };
                    self.get_opts(key, options).await?
                }
            };
            let Some(Object { bytes, meta }) = answer else { return Ok(None) };
            if let Err(e) = meta.check(Some(&state)) {
                lock(&self.state).drop_held(key);
                return Err(e.with_key(key).with_store(&self.inner));
            }
            *slot = Some(bytes);
        }
        match out.into_iter().collect::<Option<Vec<_>>>() {
            Some(parts) => Ok(Some((parts, state))),
            None => {
                Err(Error::io("a range was left without an answer").with_key(key).with_store(&self.inner))
            }
        }
    }

    /// Holds the answer and hands it to those who wait.
    fn land(&self, ours: Ours, answer: &Answer) {
        let copy = match answer {
            Ok(Some(object)) => {
                let mut state = lock(&self.state);
                if ours.is_current(&state) {
                    state.keep(ours.place.0.clone(), object, self.capacity);
                }
                Ok(Some(object.clone()))
            }
            Ok(None) => Ok(None),
            Err(e) => {
                if e.kind() == ErrorKind::Conflict {
                    // What is held is of a state that is gone.
                    lock(&self.state).drop_held(&ours.place.0.0);
                }
                Err(copy_of(e))
            }
        };
        // Only the maker of a flight sets its answer, and only here.
        let _ = ours.flight.answer.set(copy);
    }
}

/// What the flight brought; `None` if its maker was stopped before it ended.
async fn wait(flight: &Flight) -> Option<Answer> {
    let mut over = flight.over.clone();
    // An error means that the sender is gone, which is what is waited for.
    while over.changed().await.is_ok() {}
    flight.answer.get().map(|answer| match answer {
        Ok(got) => Ok(got.clone()),
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
    forward! {
        stat list keys lists_all is_writable finish origin sites free_space is_remote
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        // What is held is held by key; a state named from outside is another thing.
        if options.for_update || options.pinned().is_some() {
            return self.inner.get_opts(key, options).await;
        }
        let name = Arc::from(key);
        loop {
            match self.part(&name, options.range, options.state)? {
                Part::Ready(object) => return Ok(Some(object)),
                Part::Wait(flight) => {
                    if let Some(answer) = wait(&flight).await {
                        return answer;
                    }
                }
                Part::Fetch(ours) => {
                    let answer = self.inner.get_opts(key, options).await;
                    self.land(ours, &answer);
                    return answer;
                }
            }
        }
    }

    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        of: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        match self.ranges(key, ranges, of).await {
            // What was held is of a state that is gone, and forgotten now.
            Err(e) if e.kind() == ErrorKind::Conflict && of.is_none() => self.ranges(key, ranges, of).await,
            answer => answer,
        }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let put = self.inner.put(key, value, when).await;
        // Whatever the answer: a put that failed may have taken place, and one that was refused says that what is
        // held is old.
        lock(&self.state).forget(key);
        put
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let deleted = self.inner.delete(key).await;
        lock(&self.state).forget(key);
        deleted
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let deleted = self.inner.delete_unchanged(key, state).await;
        lock(&self.state).forget(key);
        deleted
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let deleted = self.inner.delete_prefix(prefix).await;
        lock(&self.state).forget_all(&join(prefix, ""));
        deleted
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let copied = self.inner.copy_object(from, to).await;
        lock(&self.state).forget(to);
        copied
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let promoted = self.inner.promote(prefix, inner).await;
        lock(&self.state).forget_all(&join(prefix, ""));
        promoted
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
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
