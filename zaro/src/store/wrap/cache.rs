//! A wrapper that caches responses in memory.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::context::cache::hashed;
use crate::context::{Context, Key, owner};
use crate::error::{Error, ErrorKind, Result};
use crate::store::fault::copy_of;
use crate::store::memory::slice;
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, GetOptions, Object, ObjectMeta, Put, SharedStore, Store, join,
};

/// The number of parts the keys are divided into for invalidation.
const PARTS: u64 = 256;

/// A shorter response may be a slice of one network read, which is at most twice as large.
const NETWORK_BLOCK: usize = 256 << 10;

/// Caches the responses of [`Store::get_opts`] in the memory of its context, evicting the least recently used first.
///
/// All cached bytes of one object are of one state: when another state is seen, those of the first are dropped.
///
/// Concurrent callers that ask for the same range of the same key share one request. Errors are returned to all waiters
/// but not cached; nor is the fact that a key is missing. Entries stay until they are put or deleted through this
/// store, or are older than [`CacheStore::with_max_age`] and no longer the same. Reads for an update and metadata
/// requests always go to the store.
#[derive(Debug)]
pub struct CacheStore {
    inner: SharedStore,
    context: Context,
    owner: u64,
    state: Arc<Mutex<AnswerState>>,
    max_age: Option<Duration>,
}

/// The whole object, or the requested range.
type Place = (Arc<str>, Option<ByteRange>);

#[derive(Debug, Default)]
struct AnswerState {
    /// By the expected state, too: a conflict for one caller is not one for all.
    flights: HashMap<(Place, Option<ObjectMeta>), Arc<Flight>>,
    /// How often the keys of each part were invalidated. It is part of the cache keys, so that older entries are no
    /// longer found.
    forgotten: HashMap<u64, u64>,
}

/// The object state in the last response, and its time.
#[derive(Debug)]
struct LastAnswer {
    state: ObjectMeta,
    at: Instant,
}

type Answer = Result<Option<Object>>;

/// A request in flight. The channel closes when its maker is done or dropped.
#[derive(Debug)]
struct Flight {
    answer: OnceLock<Answer>,
    over: watch::Receiver<()>,
}

impl AnswerState {
    /// Drops the entries of `key`, and requests in flight: they may have been sent before the change.
    fn forget(&mut self, key: &str) {
        self.flights.retain(|((k, _), _), _| **k != *key);
        self.drop_held(key);
    }

    /// Drops the entries of `key`.
    fn drop_held(&mut self, key: &str) {
        *self.forgotten.entry(part_of(key)).or_default() += 1;
    }
}

fn part_of(key: &str) -> u64 {
    let [hash, _] = hashed(key);
    hash % PARTS
}

/// What a caller has to do for one range.
enum CachedRange {
    Ready(Object),
    Wait(Arc<Flight>),
    Fetch(Ours),
}

/// A request of our own: removed from the table when dropped, whatever happens.
struct Ours {
    place: (Place, Option<ObjectMeta>),
    flight: Arc<Flight>,
    state: Arc<Mutex<AnswerState>>,
    _over: watch::Sender<()>,
}

impl Ours {
    /// Whether it is still in the table: a put meanwhile removes it, since it may return the old object.
    fn is_current(&self, state: &AnswerState) -> bool {
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

fn lock(state: &Mutex<AnswerState>) -> MutexGuard<'_, AnswerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CacheStore {
    /// Caches the responses of `inner`, in the response cache of `context`.
    #[must_use]
    pub fn new(inner: SharedStore, context: &Context) -> Self {
        Self { inner, context: context.clone(), owner: owner(), state: Arc::default(), max_age: None }
    }

    /// Revalidates entries older than `max_age`.
    #[must_use]
    pub fn with_max_age(mut self, max_age: Option<Duration>) -> Self {
        self.max_age = max_age;
        self
    }

    /// How many bytes are cached now, by all stores that share the context.
    #[must_use]
    pub fn held(&self) -> usize {
        self.context.answers().bytes()
    }

    /// The cache key of an object's state, of the whole object, or of a range.
    fn name(&self, state: &AnswerState, key: &str, what: impl Hash) -> Key {
        let forgotten = state.forgotten.get(&part_of(key)).copied().unwrap_or_default();
        let [a, b] = hashed((key, what));
        Key { owner: self.owner, part: [a, b, forgotten, 0] }
    }

    fn seen(&self, state: &AnswerState, key: &str) -> Option<Arc<LastAnswer>> {
        self.context.answers().get(&self.name(state, key, "state"))
    }

    fn keep_seen(&self, state: &AnswerState, key: &str, of: &ObjectMeta) {
        let seen = LastAnswer { state: of.clone(), at: Instant::now() };
        let gone = self.context.answers().put(self.name(state, key, "state"), Arc::new(seen), 200);
        drop(gone);
    }

    /// Caches a response; `whole` if it is not a slice of a larger block.
    fn keep(&self, state: &mut AnswerState, place: &Place, object: &Object, whole: bool) {
        let known = self.seen(state, &place.0);
        if known.as_ref().is_some_and(|seen| !seen.state.agrees(&object.meta)) {
            state.drop_held(&place.0);
        }
        let cost = object.bytes.len().saturating_add(place.0.len());
        let answers = self.context.answers();
        if !answers.takes(cost) {
            return;
        }
        if known.is_none_or(|seen| seen.state != object.meta) {
            self.keep_seen(state, &place.0, &object.meta);
        }
        // A slice would keep the whole block alive: another response, or the rest of a network read.
        let own = whole && object.bytes.len() >= NETWORK_BLOCK;
        let bytes = if own { object.bytes.clone() } else { Bytes::copy_from_slice(&object.bytes) };
        let held = Object { bytes, meta: object.meta.clone() };
        drop(answers.put(self.name(state, &place.0, place.1), Arc::new(held), cost));
    }

    /// Drops all entries, and requests in flight below `prefix`.
    fn forget_all(&self, prefix: &str) {
        let start = join(prefix, "");
        let mut state = lock(&self.state);
        state.flights.retain(|((k, _), _), _| !k.starts_with(&start));
        self.context.answers().forget_owner(self.owner);
    }

    /// Drops the entries of an object that has changed, if they are due for revalidation.
    async fn revalidate(&self, key: &str) -> Result<()> {
        let Some(max_age) = self.max_age else { return Ok(()) };
        let old = self.seen(&lock(&self.state), key).filter(|seen| seen.at.elapsed() > max_age);
        let Some(old) = old else { return Ok(()) };
        let now = self.inner.stat(key).await?;
        let same = old.state != ObjectMeta::Unknown && now.as_ref().is_some_and(|now| now.agrees(&old.state));
        let mut state = lock(&self.state);
        if same {
            self.keep_seen(&state, key, &old.state)
        } else {
            state.drop_held(key)
        }
        Ok(())
    }

    fn part(&self, key: &Arc<str>, range: Option<ByteRange>, of: Option<&ObjectMeta>) -> Result<CachedRange> {
        let place = (Arc::clone(key), range);
        let mut state = lock(&self.state);
        let held = |state: &AnswerState, range: Option<ByteRange>| {
            self.context.answers().get::<Object>(&self.name(state, key, range)).map(|o| Object::clone(&o))
        };
        let mut found = held(&state, range);
        if found.is_none() && range.is_some() {
            found = match held(&state, None) {
                Some(whole) => Some(Object {
                    bytes: slice(&whole.bytes, range).map_err(|e| e.with_key(key).with_store(&self.inner))?,
                    ..whole
                }),
                None => None,
            };
        }
        match found {
            // A caller that expects another state than the cached one has seen it.
            Some(object) if of.is_some_and(|of| !object.meta.agrees(of)) => state.drop_held(key),
            Some(object) => return Ok(CachedRange::Ready(object)),
            None => {}
        }
        let place = (place, of.cloned());
        if let Some(flight) = state.flights.get(&place) {
            return Ok(CachedRange::Wait(Arc::clone(flight)));
        }
        let (sender, over) = watch::channel(());
        let flight = Arc::new(Flight { answer: OnceLock::new(), over });
        state.flights.insert(place.clone(), Arc::clone(&flight));
        Ok(CachedRange::Fetch(Ours { place, flight, state: Arc::clone(&self.state), _over: sender }))
    }

    /// Ranges of one state: cached ones, those in flight, and the rest in one call.
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
                CachedRange::Ready(object) => {
                    object.meta.check(Some(&state)).map_err(|e| e.with_key(key).with_store(&self.inner))?;
                    state = object.meta;
                    *slot = Some(object.bytes);
                }
                CachedRange::Wait(flight) => waits.push((slot, *range, flight)),
                CachedRange::Fetch(ours) => fetches.push((slot, *range, ours)),
            }
        }
        let meant = |state: &ObjectMeta| Some(state.clone()).filter(|s| *s != ObjectMeta::Unknown);
        if !fetches.is_empty() {
            let wanted: Vec<_> = fetches.iter().map(|(_, range, _)| *range).collect();
            match self.inner.get_ranges(key, &wanted, meant(&state).as_ref()).await {
                Ok(Some((parts, of))) => {
                    for ((slot, _, ours), bytes) in fetches.into_iter().zip(parts) {
                        let object = Object { bytes: bytes.clone(), meta: of.clone() };
                        self.land(ours, &Ok(Some(object)), false);
                        *slot = Some(bytes);
                    }
                    state = of;
                }
                Ok(None) => {
                    fetches.into_iter().for_each(|(_, _, ours)| self.land(ours, &Ok(None), false));
                    return Ok(None);
                }
                Err(e) => {
                    for (_, _, ours) in fetches {
                        self.land(ours, &Err(copy_of(&e)), false);
                    }
                    return Err(e);
                }
            }
        }
        // Our own requests are done: nobody who waits for us is waited for here.
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

    /// Caches the response, which is `whole` or a slice of a larger block, and passes it to the waiters.
    fn land(&self, ours: Ours, answer: &Answer, whole: bool) {
        let copy = match answer {
            Ok(Some(object)) => {
                let mut state = lock(&self.state);
                if ours.is_current(&state) {
                    self.keep(&mut state, &ours.place.0, object, whole);
                }
                Ok(Some(object.clone()))
            }
            Ok(None) => Ok(None),
            Err(e) => {
                if e.kind() == ErrorKind::Conflict {
                    // The cached entries are of an outdated state.
                    lock(&self.state).drop_held(&ours.place.0.0);
                }
                Err(copy_of(e))
            }
        };
        // Only the maker of a request sets its response, and only here.
        let _ = ours.flight.answer.set(copy);
    }
}

/// The response of the request; `None` if its maker was dropped before it ended.
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
    // Streams are too large to be cached.
    forward! {
        get_stream stat list_opts facts finish origin sites free_space
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        // Entries are cached by key; a pinned state is something else.
        if options.for_update || options.pinned().is_some() {
            return self.inner.get_opts(key, options).await;
        }
        self.revalidate(key).await?;
        let name = Arc::from(key);
        loop {
            match self.part(&name, options.range, options.state)? {
                CachedRange::Ready(object) => return Ok(Some(object)),
                CachedRange::Wait(flight) => {
                    if let Some(answer) = wait(&flight).await {
                        return answer;
                    }
                }
                CachedRange::Fetch(ours) => {
                    let answer = self.inner.get_opts(key, options).await;
                    self.land(ours, &answer, true);
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
        self.revalidate(key).await?;
        match self.ranges(key, ranges, of).await {
            // The entries were of an outdated state, and are dropped now.
            Err(e) if e.kind() == ErrorKind::Conflict && of.is_none() => self.ranges(key, ranges, of).await,
            answer => answer,
        }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let put = self.inner.put(key, value, when).await;
        // Whatever the outcome: a failed put may have taken place, and a refused one means that the entries are
        // outdated.
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
        self.forget_all(prefix);
        deleted
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let copied = self.inner.copy_object(from, to).await;
        lock(&self.state).forget(to);
        copied
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let promoted = self.inner.promote(prefix, inner).await;
        self.forget_all(prefix);
        promoted
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl Drop for CacheStore {
    fn drop(&mut self) {
        self.context.answers().forget_owner(self.owner);
    }
}

impl CacheStore {
    fn inside(&self) -> Result<&dyn Direct> {
        self.inner
            .direct()
            .ok_or_else(|| Error::io("direct access to the store was lost").with_store(&self.inner))
    }
}

/// Bypasses the cache, but still invalidates entries.
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
