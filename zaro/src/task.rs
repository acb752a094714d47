//! Progress, cancellation and concurrency of long operations.

use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use futures::stream::{self, FusedStream, FuturesUnordered, Stream, StreamExt};
use tokio::sync::Notify;

use crate::error::{Error, Result, redacted};

/// The unit of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Bytes: of elements in memory, or of files.
    Bytes,
    /// Objects of a store, or references to them.
    Objects,
    /// Versions of objects.
    Versions,
    /// Whole Zarrs.
    Zarrs,
}

impl Unit {
    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Objects => "objects",
            Self::Versions => "versions",
            Self::Zarrs => "Zarrs",
        }
    }
}

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How many are done.
    pub done: u64,
    /// The total, if known.
    pub total: Option<u64>,
    /// What is counted.
    pub unit: Unit,
}

/// Cancels an operation, from any thread. Cheap to clone; all clones are equivalent.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Flag>);

#[derive(Default)]
struct Flag {
    set: AtomicBool,
    told: Notify,
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelToken").field(&self.is_cancelled()).finish()
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels operations with this token; `false` if it was already cancelled.
    pub fn cancel(&self) -> bool {
        let first = !self.0.set.swap(true, Ordering::SeqCst);
        self.0.told.notify_waiters();
        first
    }

    /// Whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::Relaxed)
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        let told = self.0.told.notified();
        // A cancellation after this check is not missed: `notified` counts from when it was called.
        if !self.0.set.load(Ordering::SeqCst) {
            told.await;
        }
    }
}

/// A callback for progress.
type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Progress reporting and cancellation of a long operation: part of its options. Cheap to clone; by default there is
/// neither.
///
/// ```
/// # use zaro::{CancelToken, ReadOptions, Task};
/// let cancel = CancelToken::new();
/// let task = Task::default().with_progress(|p| println!("{} {}", p.done, p.unit.text())).with_cancel(&cancel);
/// let options = ReadOptions::default().with_task(task);
/// ```
#[derive(Clone, Default)]
pub struct Task {
    progress: Option<OnProgress>,
    cancel: Option<CancelToken>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("progress", &self.progress.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

impl Task {
    /// Sets the `progress` callback, which is called by any thread, after every piece of work.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self { progress: Some(Arc::new(progress)), ..self }
    }

    /// Sets a cancel token: the operation then fails with [`ErrorKind::Cancelled`](crate::ErrorKind).
    #[must_use]
    pub fn with_cancel(self, cancel: &CancelToken) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// The same cancel token, without progress: for a part of an operation that reports the whole.
    #[must_use]
    pub fn without_progress(&self) -> Self {
        Self { progress: None, cancel: self.cancel.clone() }
    }

    /// Whether the operation is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Fails if the operation is cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Waits for `future`, a request that may hang until its timeout, unless cancelled.
    pub async fn unless_cancelled<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(cancel) = &self.cancel else { return future.await };
        self.check()?;
        // A future that is ready at once does not register a waker.
        match select(pin!(future), pin!(cancel.cancelled())).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err(Error::cancelled()),
        }
    }

    /// Counts progress towards `total`, and reports it.
    pub(crate) fn meter(&self, unit: Unit, total: impl Into<Option<u64>>) -> Meter {
        Meter { progress: self.progress.clone(), unit, total: total.into(), done: AtomicU64::new(0) }
    }
}

/// A long operation, whose start and end are reported as events with the target `zaro::operation`.
pub(crate) struct Operation {
    what: &'static str,
    place: String,
    begun: Instant,
}

impl Operation {
    /// Starts `what` with the store or node `place`; `None` if there is no subscriber.
    pub(crate) fn begin(what: &'static str, place: impl fmt::Display) -> Option<Self> {
        if !tracing::enabled!(target: "zaro::operation", tracing::Level::INFO) {
            return None;
        }
        let place = redacted(&place.to_string()).into_owned();
        tracing::info!(target: "zaro::operation", what, place, "begins");
        Some(Self { what, place, begun: Instant::now() })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(target: "zaro::operation", what = self.what, place = self.place, ms, "ends");
    }
}

/// Counts progress.
pub(crate) struct Meter {
    progress: Option<OnProgress>,
    unit: Unit,
    total: Option<u64>,
    done: AtomicU64,
}

impl Meter {
    /// Whether there is a progress callback.
    pub(crate) fn is_watched(&self) -> bool {
        self.progress.is_some()
    }

    /// Adds `more`.
    pub(crate) fn advance(&self, more: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        if let Some(progress) = &self.progress {
            let done = self.total.map_or(done, |total| done.min(total));
            progress(Progress { done, total: self.total, unit: self.unit });
        }
    }

    /// How many are done.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Sets how many are done, whether more or fewer than before.
    pub(crate) fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.advance(0);
    }
}

/// Runs `work` for every item, `at_once` concurrently, started in order.
///
/// After an error, which is returned, nothing more is started, and running work is awaited: when this returns, nothing
/// is running.
pub(crate) async fn each<I, F: Future<Output = Result<()>>>(
    at_once: usize,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> F,
) -> Result<()> {
    each_of(at_once, stream::iter(items), work).await
}

/// As [`each`], for a stream of items.
pub(crate) async fn each_of<I, F: Future<Output = Result<()>>>(
    at_once: usize,
    items: impl Stream<Item = I>,
    work: impl Fn(I) -> F,
) -> Result<()> {
    let mut items = pin!(items.fuse());
    let mut under_way = FuturesUnordered::new();
    let mut fault = None;
    poll_fn(|cx| {
        loop {
            while fault.is_none() && under_way.len() < at_once.max(1) {
                let Poll::Ready(Some(item)) = items.as_mut().poll_next(cx) else { break };
                under_way.push(work(item));
            }
            match under_way.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(e))) => fault = fault.take().or(Some(e)),
                Poll::Ready(None) if fault.is_some() || items.is_terminated() => return Poll::Ready(()),
                _ => return Poll::Pending,
            }
        }
    })
    .await;
    fault.map_or(Ok(()), Err)
}

/// Sleeps without blocking.
pub(crate) async fn sleep(time: Duration) -> Result<()> {
    if tokio::runtime::Handle::try_current().is_ok() {
        tokio::time::sleep(time).await;
        return Ok(());
    }
    crate::blocking::spawn_blocking(move || {
        std::thread::sleep(time);
        Ok(())
    })
    .await
}

/// Locks a mutex, also after a panic: nothing here is left half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of many numbered pieces are done, in any order.
pub(crate) struct Gaps {
    upto: u64,
    ahead: BTreeSet<u64>,
}

impl Gaps {
    /// Everything before `first` is done.
    pub(crate) fn new(first: u64) -> Self {
        Self { upto: first, ahead: BTreeSet::new() }
    }

    /// Marks `i` as done. Returns how many are done without a gap.
    pub(crate) fn close(&mut self, i: u64) -> u64 {
        self.ahead.insert(i);
        while self.ahead.remove(&self.upto) {
            self.upto += 1;
        }
        self.upto
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::blocking::block_on;
    use crate::context::Context;

    #[test]
    fn after_a_fault_nothing_is_begun_and_nothing_left_under_way() {
        let (begun, ended) = (AtomicUsize::new(0), std::sync::Arc::new(AtomicUsize::new(0)));
        let work = |i: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            let ended = ended.clone();
            async move {
                Context::shared()
                    .run(move || {
                        std::thread::sleep(Duration::from_millis(if i == 1 { 1 } else { 40 }));
                        ended.fetch_add(1, Ordering::Relaxed);
                        if i == 1 { Err(Error::usage("no")) } else { Ok(()) }
                    })
                    .await
            }
        };
        assert!(block_on(each(2, 0..100, work)).is_err());
        let begun = begun.into_inner();
        assert!(begun < 10, "{begun}");
        assert_eq!(ended.load(Ordering::Relaxed), begun);
        let panics = || -> Result<()> { panic!("on purpose") };
        assert!(block_on(Context::shared().run(panics)).is_err());
    }

    #[test]
    fn stopping_waits_for_no_request() {
        let cancel = CancelToken::new();
        let task = Task::default().with_cancel(&cancel);
        let hangs = || std::future::pending::<Result<()>>();
        std::thread::scope(|s| {
            let waiting = s.spawn(|| block_on(task.unless_cancelled(hangs())));
            std::thread::sleep(Duration::from_millis(20));
            let told = std::time::Instant::now();
            assert!(cancel.cancel() && !cancel.cancel());
            assert!(waiting.join().unwrap().is_err());
            assert!(told.elapsed() < Duration::from_millis(100));
        });
        assert!(block_on(task.unless_cancelled(hangs())).is_err(), "told before");
        assert!(block_on(Task::default().unless_cancelled(async { Ok(()) })).is_ok());
    }
}
