//! Another try for faults that may pass.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

use crate::error::Result;
use crate::store::fault::as_transient;
use crate::store::{ByteRange, Direct, Listing, SharedStore, Store};

/// How often and how long to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is made at most, the first time included. 1 means no second try.
    pub attempts: u32,
    /// The pause before the second try; doubled before each further one. The real pause is a random time between
    /// half of it and all of it, so that many readers do not come back at once.
    pub first_pause: Duration,
    /// No pause grows longer than this, unless the server asks for it.
    pub longest_pause: Duration,
    /// No further try starts later than this after the first.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// 6 attempts, pauses from 100 ms to 10 s, within 40 s.
    fn default() -> Self {
        Self {
            attempts: 6,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
            total: Duration::from_secs(40),
        }
    }
}

impl RetryPolicy {
    /// Every request is made once.
    #[must_use]
    pub fn none() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// The pause after the `n`-th failed try (from 1), with chance `0 ..= 255` taken from outside.
    fn pause(&self, n: u32, chance: u8) -> Duration {
        let factor = 1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX);
        let full = self.first_pause.saturating_mul(factor).min(self.longest_pause);
        (full / 2).saturating_add((full / 2) * u32::from(chance) / 255)
    }
}

/// A random byte. Only spreads requests over time, so any source will do.
fn chance() -> u8 {
    let [byte, ..] = RandomState::new().hash_one(0u8).to_le_bytes();
    byte
}

/// Repeats requests that met a [`Transient`](crate::store::fault::Transient) fault. Missing keys, refusals and
/// damaged data are never asked for again.
#[derive(Debug, Clone)]
pub struct RetryStore {
    inner: SharedStore,
    policy: RetryPolicy,
}

impl RetryStore {
    /// Repeats the requests made of `inner` as `policy` says.
    #[must_use]
    pub fn new(inner: SharedStore, policy: RetryPolicy) -> Self {
        Self { inner, policy }
    }

    async fn persist<T, F: Future<Output = Result<T>> + Send>(
        &self,
        ask: impl Fn() -> F + Send,
    ) -> Result<T> {
        let start = Instant::now();
        let mut tries = 1;
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(e) => e,
            };
            let Some(mark) = as_transient(&error) else { return Err(error) };
            let asked = mark.after().unwrap_or_default();
            let pause = self.policy.pause(tries, chance()).max(asked);
            if tries >= self.policy.attempts || start.elapsed().saturating_add(pause) > self.policy.total {
                return Err(match tries {
                    1 => error,
                    n => error.within(format!("{n} attempts in {:.1} s", start.elapsed().as_secs_f64())),
                });
            }
            sleep(pause).await;
            tries += 1;
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
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        self.persist(|| self.inner.get(key, range)).await
    }

    /// Each range is repeated for itself: one that failed does not repeat the others.
    async fn get_ranges(&self, key: &str, ranges: &[ByteRange]) -> Result<Option<Vec<Bytes>>> {
        let parts = try_join_all(ranges.iter().map(|r| self.get(key, Some(*r)))).await?;
        Ok(parts.into_iter().collect())
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.persist(|| self.inner.size(key)).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        self.persist(|| self.inner.list(prefix)).await
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

    #[test]
    fn pauses_double_up_to_the_longest_and_vary_by_half() {
        let p = RetryPolicy::default();
        assert_eq!(p.pause(1, 255), Duration::from_millis(100));
        assert_eq!(p.pause(1, 0), Duration::from_millis(50));
        assert_eq!(p.pause(3, 255), Duration::from_millis(400));
        assert_eq!(p.pause(90, 255), Duration::from_secs(10));
    }
}
