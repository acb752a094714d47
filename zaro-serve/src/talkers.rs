//! Threads that talk to clients: each has its connections to itself, and waits for them alone.
//!
//! A runtime that shares its connections among threads wakes one thread for what another has seen, several times a
//! request. Here a request that a local file answers is read, answered and sent by one thread, which no other wakes.
//! Nothing else may be done there, since all clients of a thread would wait for it: other answers are made by the
//! workers of the server's own runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use zaro::{Error, Result};

/// What a thread is given: a conversation to begin.
type Conversation = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The threads. They end when this is dropped, and cut off who still talks.
#[derive(Debug)]
pub(crate) struct Talkers(Vec<Talker>);

#[derive(Debug)]
struct Talker {
    conversations: UnboundedSender<Conversation>,
    /// How many conversations there are.
    count: Arc<AtomicUsize>,
}

impl Talkers {
    /// Starts a thread for each processor.
    pub(crate) fn start() -> Result<Self> {
        let count = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 64);
        (0..count).map(|_| Talker::start()).collect::<Result<_>>().map(Self)
    }

    /// Has the thread with the fewest conversations begin another.
    pub(crate) fn give(&self, conversation: Conversation) {
        if let Some(least) = self.0.iter().min_by_key(|talker| talker.count.load(Relaxed)) {
            least.count.fetch_add(1, Relaxed);
            // Sending fails only if the thread is gone, and then the connection is closed.
            let _ = least.conversations.send(conversation);
        }
    }
}

impl Talker {
    fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::from(e).within("starting a thread for connections"))?;
        let (conversations, mut given) = unbounded_channel::<Conversation>();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let talk = move || {
            runtime.block_on(async {
                while let Some(begin) = given.recv().await {
                    let counted = counted.clone();
                    tokio::spawn(async move {
                        let _counted = Counted(counted);
                        begin().await;
                    });
                }
            });
            runtime.shutdown_background();
        };
        let started = std::thread::Builder::new().name("zaro-talk".to_owned()).spawn(talk);
        started.map_err(|e| Error::from(e).within("starting a thread for connections"))?;
        Ok(Self { conversations, count })
    }
}

/// A conversation that is counted until it ends, however it does.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Has the workers of a runtime do something, which is given up if nobody waits for it any more. `None` if it panicked.
pub(crate) async fn on<T: Send + 'static>(
    workers: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut working = Abandoned(workers.spawn(work));
    (&mut working.0).await.ok()
}

/// Work that ends when this is dropped.
struct Abandoned<T>(JoinHandle<T>);

impl<T> Drop for Abandoned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn conversations_are_spread_and_counted() {
        let talkers = Talkers::start().unwrap();
        let (done, mut ended) = unbounded_channel::<std::thread::ThreadId>();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let threads = talkers.0.len();
        for _ in 0..threads * 2 {
            let (done, gate) = (done.clone(), gate.clone());
            talkers.give(Box::new(move || {
                Box::pin(async move {
                    let _open = gate.acquire().await;
                    let _ = done.send(std::thread::current().id());
                })
            }));
        }
        assert!(talkers.0.iter().all(|talker| talker.count.load(Relaxed) == 2));
        gate.add_permits(threads * 2);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..threads * 2 {
            *seen.entry(ended.recv().await.unwrap()).or_insert(0) += 1;
        }
        assert!(seen.len() == threads && seen.values().all(|count| *count == 2));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(talkers.0.iter().all(|talker| talker.count.load(Relaxed) == 0));
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_given_up() {
        let handle = Handle::current();
        assert_eq!(on(&handle, async { 7 }).await, Some(7));
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let long = on(&handle, async move {
            tokio::time::sleep(Duration::from_secs(600)).await;
            drop(held);
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), long).await.is_err());
        let gone = tokio::time::timeout(Duration::from_secs(5), dropped).await;
        assert!(gone.unwrap().is_err(), "it was dropped, not finished");
    }
}
