//! Work under way: on the thread pool, many pieces at once, until it is done or the caller wants to stop.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::{self, FusedStream, FuturesUnordered, Stream, StreamExt};

use crate::context::Context;
use crate::error::{Error, Result};

/// How often it is looked whether the caller wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work`, which computes or reads files, on the decoding threads. What it holds is dropped before the answer comes.
pub(crate) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    Context::shared().run(work).await
}

/// How many jobs run at once.
pub(crate) fn threads() -> usize {
    Context::shared().threads()
}

/// How many jobs keep the thread pool busy: one for each thread, and one that is ready when another ends.
pub(crate) fn jobs_at_once() -> usize {
    threads().saturating_add(1)
}

/// Does `work` with every item, `at_once` at a time, begun in their order.
///
/// After a fault, which is the answer, nothing more is begun, and what is under way is waited for: when this returns,
/// nothing is done any more.
pub(crate) async fn each<I, F: Future<Output = Result<()>>>(
    at_once: usize,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> F,
) -> Result<()> {
    each_of(at_once, stream::iter(items), work).await
}

/// As [`each`], with items that come one after another.
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

/// Waits without holding up anybody else.
pub(crate) async fn sleep(time: Duration) -> Result<()> {
    if tokio::runtime::Handle::try_current().is_ok() {
        tokio::time::sleep(time).await;
        return Ok(());
    }
    crate::blocking::off(move || {
        std::thread::sleep(time);
        Ok(())
    })
    .await
}

/// Fails if the caller wants to stop.
pub(crate) fn check_cancel(cancel: Option<&AtomicBool>) -> Result<()> {
    match cancel {
        Some(cancel) if cancel.load(Ordering::Relaxed) => Err(Error::cancelled()),
        _ => Ok(()),
    }
}

/// Waits for `future`, a request that may hang for as long as its time-out; whoever wants to stop does not wait for it.
pub(crate) async fn unless_cancelled<T>(
    cancel: Option<&AtomicBool>,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    if cancel.is_none() || tokio::runtime::Handle::try_current().is_err() {
        return future.await;
    }
    let stopped = async {
        loop {
            if let Err(e) = check_cancel(cancel) {
                return e;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match select(pin!(future), pin!(stopped)).await {
        Either::Left((done, _)) => done,
        Either::Right((e, _)) => Err(e),
    }
}

/// What a mutex guards, also after a panic: nothing here is left half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of many numbered pieces are done, though not in order.
pub(crate) struct Gaps {
    upto: u64,
    ahead: BTreeSet<u64>,
}

impl Gaps {
    /// All before `first` is done.
    pub(crate) fn new(first: u64) -> Self {
        Self { upto: first, ahead: BTreeSet::new() }
    }

    /// `i` is done, too. How many are without a gap.
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
    use crate::blocking::wait;

    #[test]
    fn after_a_fault_nothing_is_begun_and_nothing_left_under_way() {
        let (begun, ended) = (AtomicUsize::new(0), std::sync::Arc::new(AtomicUsize::new(0)));
        let work = |i: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            let ended = ended.clone();
            async move {
                compute(move || {
                    std::thread::sleep(Duration::from_millis(if i == 1 { 1 } else { 40 }));
                    ended.fetch_add(1, Ordering::Relaxed);
                    if i == 1 { Err(Error::usage("no")) } else { Ok(()) }
                })
                .await
            }
        };
        assert!(wait(each(2, 0..100, work)).is_err());
        let begun = begun.into_inner();
        assert!(begun < 10, "{begun}");
        assert_eq!(ended.load(Ordering::Relaxed), begun);
        assert!(wait(compute(|| -> Result<()> { panic!("on purpose") })).is_err());
    }

    #[test]
    fn stopping_waits_for_no_request() {
        let cancel = AtomicBool::new(true);
        let began = std::time::Instant::now();
        let hangs = std::future::pending::<Result<()>>();
        assert!(wait(unless_cancelled(Some(&cancel), hangs)).is_err());
        assert!(began.elapsed() < Duration::from_millis(100));
    }
}
