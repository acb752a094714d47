//! A wrapper that retries requests after transient faults.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep};

use crate::error::{Error, Result, redacted};
use crate::num::u64_of;
use crate::store::fault::as_transient;
use crate::store::wrap::forward::forward;
use crate::store::{
    Body, ByteRange, Condition, Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream, Pin, Put,
    SharedStore, Store, StoreExt, changed, each_range,
};

/// Maximum number of attempts for a server that never responded.
const FIRST_ATTEMPTS: u32 = 6;

/// How often and how long to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first; 1 means no retry. `None` leaves it to the total time, except
    /// for a server that never responded and may not exist: that is tried six times.
    pub attempts: Option<u32>,
    /// The pause before the second attempt; doubled before each further one. The actual pause is a random time between
    /// half of it and all of it, so that many readers do not retry at once.
    pub first_pause: Duration,
    /// The longest pause, unless the server asks for more.
    pub longest_pause: Duration,
    /// No further attempt starts later than this after the first.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// Pauses from 100 ms to 10 s, within 40 s.
    fn default() -> Self {
        Self {
            attempts: None,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
            total: Duration::from_secs(40),
        }
    }
}

impl RetryPolicy {
    /// No retries.
    #[must_use]
    pub fn none() -> Self {
        Self { attempts: Some(1), ..Self::default() }
    }

    /// The pause after the `n`-th failed attempt (from 1), with an external random byte.
    fn pause(&self, n: u32, chance: u8) -> Duration {
        let factor = 1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX);
        let full = self.first_pause.saturating_mul(factor).min(self.longest_pause);
        (full / 2).saturating_add((full / 2) * u32::from(chance) / 255)
    }

    /// Retries until there is a response, a final error, or no time left. `met` is whether the server has responded
    /// once.
    pub(crate) async fn persist<T, F: Future<Output = Result<T>> + Send>(
        &self,
        met: &AtomicBool,
        ask: impl Fn() -> F + Send,
    ) -> Result<T> {
        let start = Instant::now();
        let mut tries = 1;
        loop {
            let error = match ask().await {
                Ok(answer) => {
                    met.store(true, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(e) => e,
            };
            let Some(pause) = self.pause_after(&error, tries, start, met) else {
                return Err(match tries {
                    1 => error,
                    n => error.within(format!("{n} attempts in {:.1} s", start.elapsed().as_secs_f64())),
                });
            };
            repeated(&error, tries, pause);
            sleep(pause).await;
            tries += 1;
        }
    }

    /// The pause before the next attempt; `None` if there should be none.
    fn pause_after(&self, error: &Error, tries: u32, start: Instant, met: &AtomicBool) -> Option<Duration> {
        let asked = as_transient(error)?.after().unwrap_or_default();
        let pause = self.pause(tries, chance()).max(asked);
        let late = start.elapsed().saturating_add(pause) > self.total;
        let at_most = match self.attempts {
            Some(attempts) => attempts,
            None if met.load(Ordering::Relaxed) => u32::MAX,
            None => FIRST_ATTEMPTS,
        };
        (tries < at_most && !late).then_some(pause)
    }
}

/// Emits an event that a request is retried.
fn repeated(error: &Error, tries: u32, pause: Duration) {
    let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(target: "zaro::retry", fault = &*redacted(error.message()), tries, pause_ms = ms, "retrying");
}

/// A random byte. It only spreads requests over time, so any source will do.
fn chance() -> u8 {
    let [byte, ..] = RandomState::new().hash_one(0u8).to_le_bytes();
    byte
}

/// Retries requests after a transient fault, but never for missing keys, refusals and damaged data.
///
/// Puts and deletes are retried too, since they are idempotent. There is one exception: a conditional put whose
/// response was lost may have succeeded, and then its retry is refused because of its own object. So a refused retry
/// checks whether the object is what was put, and if so, returns `Done`. If another writer put the very same bytes
/// meanwhile, that is `Done` as well: fine for chunks and documents, which are determined by their bytes, but not for a
/// counter, which needs the writer's name beside the number.
#[derive(Debug, Clone)]
pub struct RetryStore {
    inner: SharedStore,
    policy: RetryPolicy,
    met: Arc<AtomicBool>,
}

impl RetryStore {
    /// Retries the requests to `inner` according to `policy`.
    #[must_use]
    pub fn new(inner: SharedStore, policy: RetryPolicy) -> Self {
        Self { inner, policy, met: Arc::default() }
    }

    async fn persist<T, F: Future<Output = Result<T>> + Send>(
        &self,
        ask: impl Fn() -> F + Send,
    ) -> Result<T> {
        self.policy.persist(&self.met, ask).await
    }
}

/// A listing in progress.
struct RetriedListing<'a> {
    entries: BoxStream<'a, Result<Entry>>,
    prefix: String,
    options: ListOptions,
    /// The last entry returned.
    last: Option<Entry>,
    /// Whether each entry came after the previous one.
    in_order: bool,
    /// Since the last entry returned.
    tries: u32,
    start: Instant,
}

/// A body in transit.
struct Flow {
    store: RetryStore,
    key: String,
    /// The requested range, and the one known to come.
    asked: Option<ByteRange>,
    range: Option<Range<u64>>,
    pin: Option<Pin>,
    max_size: Option<u64>,
    state: ObjectMeta,
    body: Body,
    /// Bytes returned so far.
    seen: u64,
    /// Since the last of them.
    tries: u32,
    start: Instant,
}

impl Flow {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let error = match self.body.try_next().await {
                Ok(piece) => {
                    self.seen = self.seen.saturating_add(piece.as_ref().map_or(0, |p| u64_of(p.len())));
                    (self.tries, self.start) = (1, Instant::now());
                    return Ok(piece);
                }
                Err(e) => e,
            };
            let pause = self.store.policy.pause_after(&error, self.tries, self.start, &self.store.met);
            let (Some(pause), Ok(range)) = (pause, self.rest()) else { return Err(error) };
            sleep(pause).await;
            self.tries = self.tries.saturating_add(1);
            let state = Some(&self.state);
            let options = GetOptions {
                range,
                state,
                pin: self.pin.as_ref(),
                max_size: self.max_size,
                ..GetOptions::default()
            };
            self.body = match self.store.inner.get_stream(&self.key, options).await {
                Ok(Some(got)) => got.body,
                Ok(None) => return Err(changed().with_key(&self.key).with_store(&self.store)),
                // It may be transient, too.
                Err(e) => futures::stream::iter([Err(e)]).boxed(),
            };
        }
    }

    /// The remaining range; an error if it cannot be requested.
    fn rest(&self) -> Result<Option<ByteRange>, ()> {
        let seen = self.seen;
        if seen == 0 {
            return Ok(self.asked);
        }
        // Without an identifiable state, parts are not joined.
        if self.state.text().is_none() {
            return Err(());
        }
        let after = |offset: u64| offset.checked_add(seen).ok_or(());
        match (&self.range, self.asked) {
            (Some(range), _) => {
                let from = after(range.start)?;
                Ok(Some(ByteRange::span(from, range.end.saturating_sub(from))))
            }
            (None, Some(ByteRange::Span { offset, length })) => {
                Ok(Some(ByteRange::span(after(offset)?, length.saturating_sub(seen))))
            }
            (None, Some(ByteRange::From(offset))) => Ok(Some(ByteRange::From(after(offset)?))),
            (None, None) => Ok(Some(ByteRange::From(seen))),
            (None, Some(ByteRange::Suffix(_))) => Err(()),
        }
    }
}

impl fmt::Display for RetryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for RetryStore {
    forward! {
        facts delete_unchanged promote finish origin sites free_space direct
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.persist(|| self.inner.get_opts(key, options)).await
    }

    /// Resumes an interrupted body if the object is certainly in the same state; otherwise the error is returned.
    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let Some(first) = self.persist(|| self.inner.get_stream(key, options)).await? else {
            return Ok(None);
        };
        let ObjectStream { meta, range, body } = first;
        let flow = Flow {
            store: self.clone(),
            key: key.to_owned(),
            asked: options.range,
            range: range.clone(),
            pin: options.pin.cloned(),
            max_size: options.max_size,
            state: meta.clone(),
            body,
            seen: 0,
            tries: 1,
            start: Instant::now(),
        };
        let pieces = futures::stream::try_unfold(flow, |mut flow| async move {
            Ok(flow.next().await?.map(|piece| (piece, flow)))
        });
        Ok(Some(ObjectStream { meta, range, body: pieces.boxed() }))
    }

    /// Each range is retried separately: a failed one does not repeat the others.
    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        each_range(self, key, ranges, state).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.persist(|| self.inner.stat(key)).await
    }

    /// Resumes an interrupted listing if it came in order; otherwise the error is returned.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let walk = RetriedListing {
            entries: self.inner.list_opts(prefix, options),
            prefix: prefix.to_owned(),
            options: options.clone(),
            last: None,
            in_order: true,
            tries: 1,
            start: Instant::now(),
        };
        let entries = futures::stream::unfold(walk, move |mut walk| async move {
            loop {
                let error = match walk.entries.next().await? {
                    Ok(entry) => {
                        walk.in_order &= walk.last.as_ref().is_none_or(|last| last.order(&entry).is_lt());
                        walk.last = Some(entry.clone());
                        (walk.tries, walk.start) = (1, Instant::now());
                        return Some((Ok(entry), walk));
                    }
                    Err(e) => e,
                };
                let pause = self.policy.pause_after(&error, walk.tries, walk.start, &self.met);
                let Some(pause) = pause.filter(|_| walk.in_order) else {
                    walk.entries = futures::stream::empty().boxed();
                    return Some((Err(error), walk));
                };
                repeated(&error, walk.tries, pause);
                sleep(pause).await;
                if let Some(last) = &walk.last {
                    walk.options.after = Some(last.cursor());
                }
                walk.entries = self.inner.list_opts(&walk.prefix, &walk.options);
                walk.tries += 1;
            }
        });
        entries.boxed()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let tries = AtomicU32::new(0);
        let put = self.persist(|| {
            tries.fetch_add(1, Ordering::Relaxed);
            self.inner.put(key, value.clone(), when.clone())
        });
        match put.await? {
            Put::Refused if tries.load(Ordering::Relaxed) > 1 => match self.get(key, None).await? {
                Some(now) if now == value => Ok(Put::Done),
                _ => Ok(Put::Refused),
            },
            put => Ok(put),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.persist(|| self.inner.delete(key)).await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.persist(|| self.inner.delete_prefix(prefix)).await
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        self.persist(|| self.inner.copy_object(from, to)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_vary_by_half() {
        let p = RetryPolicy::default();
        assert_eq!(p.pause(1, 255), Duration::from_millis(100));
        assert_eq!(p.pause(1, 0), Duration::from_millis(50));
        assert_eq!(p.pause(3, 255), Duration::from_millis(400));
        assert_eq!(p.pause(90, 255), Duration::from_secs(10));
    }
}
