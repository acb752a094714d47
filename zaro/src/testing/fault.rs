//! A store that fails on purpose, for tests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::error::{Error, Result};
use crate::store::fault::{transient, transient_because};
use crate::store::wrap::forward::forward;
use crate::store::{
    Condition, Entry, GetOptions, ListOptions, Object, ObjectMeta, Put, SharedStore, Store, StoreFacts,
};

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A transient fault, like a 503, with the `Retry-After` of the server.
    Passing(Option<Duration>),
    /// A dropped connection or a truncated body, noticed by the store.
    Broken,
    /// A permanent disk or network fault.
    Final,
    /// A refusal, like a 403.
    Refused,
    /// The key is reported missing although it exists.
    Missing,
    /// Only the first bytes come, unnoticed.
    Truncate(usize),
    /// One bit of the response is flipped.
    Flip,
    /// The response is delayed.
    Delay(Duration),
    /// No response ever comes.
    Hang,
    /// A put or delete takes place, but the caller sees a broken connection.
    Lost,
    /// A put is refused as if its condition failed, and does not take place.
    Conflict,
}

/// Which requests a fault applies to.
#[derive(Debug)]
struct FaultRule {
    fault: Fault,
    /// Requests counted from 1 over all keys.
    calls: std::ops::RangeInclusive<u64>,
    /// Only keys that contain this.
    key: String,
}

/// A wrapper that fails when told to. It counts as remote, and has no direct access, so that every byte is subject to
/// the rules.
#[derive(Debug)]
pub struct FaultStore {
    inner: SharedStore,
    rules: Mutex<Vec<FaultRule>>,
    calls: AtomicU64,
    now: AtomicU64,
    most: AtomicU64,
}

impl FaultStore {
    /// Wraps `inner`, without any fault so far.
    #[must_use]
    pub fn new(inner: SharedStore) -> Self {
        let [calls, now, most] = [0; 3].map(AtomicU64::new);
        Self { inner, rules: Mutex::default(), calls, now, most }
    }

    /// The `n`-th request, counted from 1, meets `fault`.
    #[must_use]
    pub fn with_call(self, n: u64, fault: Fault) -> Self {
        self.with_rule(n..=n, "", fault)
    }

    /// The first `n` requests meet `fault`.
    #[must_use]
    pub fn with_first(self, n: u64, fault: Fault) -> Self {
        self.with_rule(1..=n, "", fault)
    }

    /// Every request after the first `n` meets `fault`: a crash.
    #[must_use]
    pub fn with_all_after(self, n: u64, fault: Fault) -> Self {
        self.with_rule(n.saturating_add(1)..=u64::MAX, "", fault)
    }

    /// Every request for a key that contains `part` meets `fault`.
    #[must_use]
    pub fn with_key(self, part: &str, fault: Fault) -> Self {
        self.with_rule(0..=u64::MAX, part, fault)
    }

    /// Every request meets `fault`.
    #[must_use]
    pub fn with_all(self, fault: Fault) -> Self {
        self.with_key("", fault)
    }

    fn with_rule(self, calls: std::ops::RangeInclusive<u64>, key: &str, fault: Fault) -> Self {
        let rule = FaultRule { fault, calls, key: key.to_owned() };
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
        self
    }

    /// The number of requests so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The maximum number of concurrent requests.
    #[must_use]
    pub fn most_at_once(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }

    /// The faults that apply to this request.
    fn faults(&self, key: &str) -> Vec<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let hits = rules.iter().filter(|r| r.calls.contains(&call) && key.contains(&r.key));
        hits.map(|r| r.fault).collect()
    }

    /// Passes or fails a request; `false` means that the key is missing.
    async fn pass(&self, key: &str, faults: &[Fault]) -> Result<bool> {
        for fault in faults {
            let error = match fault {
                Fault::Passing(after) => transient_because("the server answered 503", *after, None),
                Fault::Broken => transient("the connection broke"),
                Fault::Final => Error::io("the disk is gone"),
                Fault::Refused => Error::not_permitted("the server refused (status 403)"),
                Fault::Missing => return Ok(false),
                Fault::Truncate(_) | Fault::Flip | Fault::Lost | Fault::Conflict => continue,
                Fault::Delay(time) => {
                    tokio::time::sleep(*time).await;
                    continue;
                }
                Fault::Hang => std::future::pending().await,
            };
            return Err(error.with_key(key).with_store(self));
        }
        Ok(true)
    }

    /// The visible result of a change that took place.
    fn answer<T>(&self, key: &str, faults: &[Fault], answer: T) -> Result<T> {
        match faults.contains(&Fault::Lost) {
            true => Err(transient("the connection broke").with_key(key).with_store(self)),
            false => Ok(answer),
        }
    }

    fn enter(&self) -> Inside<'_> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(self)
    }
}

/// A request in progress.
struct Inside<'a>(&'a FaultStore);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Applies faults to a response.
fn spoil(bytes: Bytes, faults: &[Fault]) -> Bytes {
    faults.iter().fold(bytes, |bytes, fault| match fault {
        Fault::Truncate(n) => bytes.slice(..(*n).min(bytes.len())),
        Fault::Flip => {
            let mut copy = bytes.to_vec();
            let middle = copy.len() / 2;
            if let Some(byte) = copy.get_mut(middle) {
                *byte ^= 1;
            }
            copy.into()
        }
        _ => bytes,
    })
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Store for FaultStore {
    forward! {
        finish sites
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let _inside = self.enter();
        let faults = self.faults(key);
        if !self.pass(key, &faults).await? {
            return Ok(None);
        }
        let got = self.inner.get_opts(key, options).await?;
        Ok(got.map(|object| Object { bytes: spoil(object.bytes, &faults), ..object }))
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let _inside = self.enter();
        let faults = self.faults(key);
        if self.pass(key, &faults).await? { self.inner.stat(key).await } else { Ok(None) }
    }

    /// A listing of one level is one request. In a recursive listing, each key is a separate request, so that it can
    /// break off anywhere.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let found = self.inner.list_opts(prefix, options);
        if options.recursive {
            let each = found.and_then(move |entry| async move {
                let faults = self.faults(entry.path());
                self.pass(entry.path(), &faults).await?;
                Ok(entry)
            });
            return each.boxed();
        }
        let prefix = prefix.to_owned();
        let asked = async move {
            let _inside = self.enter();
            let faults = self.faults(&prefix);
            let there = self.pass(&prefix, &faults).await?;
            Ok::<_, Error>(if there { found } else { futures::stream::empty().boxed() })
        };
        futures::stream::once(asked).try_flatten().boxed()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let _inside = self.enter();
        let faults = self.faults(key);
        self.pass(key, &faults).await?;
        if faults.contains(&Fault::Conflict) {
            return Ok(Put::Refused);
        }
        let put = self.inner.put(key, value, when).await?;
        self.answer(key, &faults, put)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let _inside = self.enter();
        let faults = self.faults(key);
        self.pass(key, &faults).await?;
        self.inner.delete(key).await?;
        self.answer(key, &faults, ())
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let _inside = self.enter();
        let faults = self.faults(prefix);
        self.pass(prefix, &faults).await?;
        self.inner.delete_prefix(prefix).await?;
        self.answer(prefix, &faults, ())
    }

    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let _inside = self.enter();
        let faults = self.faults(prefix);
        self.pass(prefix, &faults).await?;
        let promoted = self.inner.promote(prefix, inner).await?;
        self.answer(prefix, &faults, promoted)
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { is_remote: true, ..self.inner.facts() }
    }
}
