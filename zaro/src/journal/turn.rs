//! The lock for changes to the shape of an array, and the registration of its writers.
//!
//! Appended elements lie beyond the end of an array until its shape changes. Meanwhile nobody else may change the
//! shape, nor clear what lies beyond. So whoever changes a shape first puts the object `.zaro-turn.json` beside the
//! array's document, on the condition that there is none, and deletes it at the end; others wait. It holds no secrets
//! and is readable by all who can read the array: the next writer has to know whether its owner is alive.
//!
//! For a process on another machine only its heartbeat tells, every few seconds.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use tokio::sync::oneshot;

use super::owner::{Life, life};
use super::{EVERY, Journal, Left};
use crate::context::runtime;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::Json;
use crate::meta::path::{join, shown};
use crate::store::{SharedStore, StoreExt as _, TURN, WRITING};
use crate::task;

/// After this long without a heartbeat, a process on another machine counts as dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest pause between two checks.
const PAUSE: Duration = Duration::from_millis(250);

/// Fails if somebody works on one of these nodes (arrays or not), or in a folder of a group that is to become one, or
/// left an unfinished operation there: for operations on all of them, after they put their journal.
pub(crate) async fn check_nodes(store: &SharedStore, nodes: &[(&str, bool)]) -> Result<()> {
    let known: HashSet<&str> = nodes.iter().map(|(path, _)| *path).collect();
    let known = &known;
    let each = nodes.iter().map(Ok);
    futures::stream::iter(each)
        .try_for_each_concurrent(32, |(path, is_array)| async move {
            super::check_settled(store, path).await?;
            if *is_array {
                return check_idle(store, path, true, true).await;
            }
            for name in store.list(path).await?.prefixes {
                let below = join(path, &name);
                if !known.contains(below.as_str()) {
                    super::check_settled(store, &below).await?;
                }
            }
            Ok(())
        })
        .await
}

/// Fails if another process changes the shape of the array at `path`, or writes elements to it.
pub(crate) async fn check_idle(store: &SharedStore, path: &str, turn: bool, writing: bool) -> Result<()> {
    if turn && let Some(who) = at_work(store, &join(path, TURN)).await? {
        return Err(busy(store, path, "changes the shape of", &who));
    }
    if !writing {
        return Ok(());
    }
    let folder = join(path, WRITING);
    for name in store.list(&folder).await?.objects {
        let mark = join(&folder, &name);
        if let Some(who) = at_work(store, &mark).await? {
            return Err(busy(store, path, "writes to", &who));
        }
        // Nobody should wait for a dead writer again.
        if store.get(&mark, None).await?.is_some_and(|text| !matches!(life_of(&text), Life::Alive(_))) {
            let _ = store.delete(&mark).await;
        }
    }
    Ok(())
}

/// A description of the process that holds the lock `key`, if any. A process on another machine is checked for its
/// heartbeat.
async fn at_work(store: &SharedStore, key: &str) -> Result<Option<String>> {
    let Some(before) = store.get(key, None).await? else { return Ok(None) };
    let who = other(&before);
    if who.is_none() || life_of(&before) != Life::Unknown {
        return Ok(who);
    }
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        task::sleep(EVERY).await?;
        match store.get(key, None).await? {
            None => return Ok(None),
            Some(now) if now != before => return Ok(who),
            Some(_) => {}
        }
    }
    Ok(None)
}

fn life_of(text: &[u8]) -> Life {
    Json::parse(text).map_or(Life::Unknown, |found| life(&found.value))
}

fn busy(store: &SharedStore, path: &str, does: &str, who: &str) -> Error {
    Error::conflict(format!("somebody {does} this array ({who}); wait until it ends"))
        .with_node(shown(path))
        .with_store(store)
}

/// A description of the process that holds this lock or journal, if it is another one that may be running.
fn other(text: &[u8]) -> Option<String> {
    match life_of(text) {
        Life::Dead => None,
        Life::Alive(process) if process == u64::from(std::process::id()) => None,
        Life::Alive(process) => Some(format!("process {process}")),
        Life::Unknown => Some(format!(
            "a process on another machine, which counts as dead after {} seconds without a heartbeat",
            PATIENCE.as_secs()
        )),
    }
}

/// The lock on the shape of an array, until ended or dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<HeldTurn>);

/// A separate task sends the heartbeat, and also releases the lock.
#[derive(Debug)]
struct HeldTurn {
    journal: Journal,
    over: oneshot::Sender<End>,
    ended: oneshot::Receiver<Result<()>>,
    /// The other end is dropped when it is over: for callers that cannot await.
    gone: Mutex<Receiver<()>>,
}

/// How a lock ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is released.
    Release,
    /// The same, and the recorded change is done, even if releasing fails.
    Done,
    /// It stays as a killed process would leave it.
    Leave,
}

impl Turn {
    /// Waits until nobody else holds it.
    ///
    /// Stores without conditional puts have no locks: they are for a single writer, which is reported when the document
    /// is put.
    pub(crate) async fn take(store: &SharedStore, path: &str) -> Result<Self> {
        Self::take_after(store, path, PATIENCE).await
    }

    async fn take_after(store: &SharedStore, path: &str, patience: Duration) -> Result<Self> {
        let mut document = Json::object();
        document.set("journal", Json::int(super::FORMAT));
        document.set("operation", Json::string("resize"));
        let mut seen: Option<(Json, Instant)> = None;
        let mut pause = Duration::from_millis(2);
        loop {
            let taken = match Left::named(store, path, TURN).await? {
                None => match Journal::create_at(store, join(path, TURN), document.clone()).await {
                    Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(Self(None)),
                    made => made?,
                },
                Some(left) => {
                    let same = seen.take().filter(|(document, _)| *document == left.document);
                    let since = same.map_or_else(Instant::now, |(_, since)| since);
                    let over = match life(&left.document) {
                        Life::Dead => true,
                        Life::Alive(_) => false,
                        Life::Unknown => since.elapsed() >= patience,
                    };
                    seen = Some((left.document.clone(), since));
                    let mut document = document.clone();
                    if let Some(change) = left.document.get("change") {
                        document.set("change", change.clone());
                    }
                    if over { left.take(document).await? } else { None }
                }
            };
            if let Some(journal) = taken {
                return Self::held(journal);
            }
            task::sleep(pause).await?;
            pause = pause.saturating_mul(2).min(PAUSE);
        }
    }

    /// A description of the process that holds it; `None` if it is free.
    pub(crate) async fn of_others(store: &SharedStore, path: &str) -> Result<Option<String>> {
        Ok(store.get(&join(path, TURN), None).await?.and_then(|bytes| other(&bytes)))
    }

    /// Registers a writer of elements of the array at `path`, until dropped. Others may do the same.
    pub(crate) async fn writing(store: &SharedStore, path: &str) -> Result<Self> {
        let mut document = Json::object();
        document.set("journal", Json::int(super::FORMAT));
        document.set("operation", Json::string("write"));
        let folder = join(path, WRITING);
        // Registrations left by killed writers.
        for name in store.list(&folder).await?.objects {
            let key = join(&folder, &name);
            if store.get(&key, None).await?.is_some_and(|text| life_of(&text) == Life::Dead) {
                store.delete(&key).await?;
            }
        }
        let key = join(&folder, &format!(".zaro-{}.json", super::token()));
        match Journal::create_at(store, key, document).await {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Self::alone()),
            made => made?.map_or_else(|| Ok(Self::alone()), Self::held),
        }
    }

    /// A lock that nobody else wants.
    pub(crate) fn alone() -> Self {
        Self(None)
    }

    fn held(journal: Journal) -> Result<Self> {
        let (over, mut told) = oneshot::channel();
        let (tell, ended) = oneshot::channel();
        let (last, gone) = channel();
        let ours = journal.clone();
        runtime::spawn(async move {
            let mut signs = 0u64;
            let end = loop {
                match tokio::time::timeout(EVERY, &mut told).await {
                    Ok(end) => break end.unwrap_or(End::Leave),
                    Err(_) => signs = signs.saturating_add(1),
                }
                // If it is lost, `check` reports that.
                let _ = ours.set("signs", Json::int(signs)).await;
            };
            let done = if end == End::Leave { Ok(()) } else { ours.end().await };
            if done.is_err() && end == End::Done {
                // It must not be taken for unfinished.
                let _ = ours.set("change", Json::Null).await;
            }
            drop(ours);
            let _ = tell.send(done);
            drop(last);
        })?;
        Ok(Self(Some(HeldTurn { journal, over, ended, gone: Mutex::new(gone) })))
    }

    /// The last shape change, from and to, of a killed process whose lock was taken over.
    pub(crate) fn change(&self) -> Option<(Vec<u64>, Vec<u64>)> {
        let change = self.0.as_ref()?.journal.get("change")?;
        let shape =
            |name: &str| change.get(name)?.items()?.iter().map(Json::as_u64).collect::<Option<Vec<u64>>>();
        Some((shape("from")?, shape("to")?))
    }

    /// Records a change before it is made.
    pub(crate) async fn note(&self, from: &[u64], to: &[u64]) -> Result<()> {
        let Some(held) = &self.0 else { return Ok(()) };
        let shape = |shape: &[u64]| Json::Array(shape.iter().map(Json::int).collect());
        let mut change = Json::object();
        change.set("from", shape(from));
        change.set("to", shape(to));
        held.journal.set("change", change).await
    }

    /// Fails if the lock was taken over because we were considered dead.
    pub(crate) async fn check(&self) -> Result<()> {
        match &self.0 {
            Some(held) => held.journal.check().await,
            None => Ok(()),
        }
    }

    /// Releases it.
    pub(crate) async fn end(self) -> Result<()> {
        self.over(End::Release).await
    }

    /// Releases it after the recorded change is done, which it is whether or not this succeeds.
    pub(crate) async fn done(self) {
        let _ = self.over(End::Done).await;
    }

    /// Leaves it as a killed process would: the next owner finds the recorded change.
    pub(crate) async fn leave(self) {
        let _ = self.over(End::Leave).await;
    }

    async fn over(mut self, end: End) -> Result<()> {
        let Some(HeldTurn { journal, over, ended, .. }) = self.0.take() else { return Ok(()) };
        drop(journal);
        let _ = over.send(end);
        ended.await.unwrap_or_else(|_| Err(Error::io("the task that holds the lock was lost")))
    }

    /// The same on drop: blocks for the one request, as the next may come at once.
    fn over_now(&mut self, end: End) {
        let Some(HeldTurn { journal, over, gone, .. }) = self.0.take() else { return };
        drop(journal);
        let _ = over.send(end);
        let _ = gone.into_inner().map(|gone| gone.recv());
    }

    /// As [`Turn::done`], on drop.
    pub(crate) fn done_now(mut self) {
        self.over_now(End::Done);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // What is left then is that of a dead process.
        self.over_now(End::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::blocking::block_on;
    use crate::store::Condition;
    use crate::store::memory::MemoryStore;

    fn store() -> SharedStore {
        Arc::new(MemoryStore::new())
    }

    fn there(store: &SharedStore) -> bool {
        block_on(store.size("a/.zaro-turn.json")).unwrap().is_some()
    }

    #[test]
    fn turns_come_one_after_another() {
        let store = store();
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    let turn = block_on(Turn::take(&store, "a")).unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    std::thread::sleep(Duration::from_millis(5));
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    block_on(turn.check()).unwrap();
                    block_on(turn.end()).unwrap();
                });
            }
        });
        assert!(!there(&store));
    }

    #[test]
    fn the_dead_lose_theirs_at_once_and_the_silent_after_a_while() {
        let store = store();
        let dead =
            r#"{"journal": 1, "owner": {"token": "x", "machine": "elsewhere", "process": 1, "began": 1}}"#;
        let put =
            |text: &str| block_on(store.put("a/.zaro-turn.json", text.to_owned().into(), Condition::Always));
        let _ = put(dead).unwrap();
        let began = Instant::now();
        let turn = block_on(Turn::take_after(&store, "a", Duration::from_millis(300))).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(300));
        // Whoever was only slow finds out.
        let lost = Turn::held(Journal::of(
            &store,
            "a/.zaro-turn.json".into(),
            super::super::Owner::new(),
            Json::object(),
        ));
        assert!(block_on(lost.unwrap().check()).is_err());
        block_on(turn.check()).unwrap();
        drop(turn);
        assert!(!there(&store));
        // What is no journal at all is nobody's, and is waited for as one elsewhere.
        let _ = put("no JSON").unwrap();
        let turn = block_on(Turn::take_after(&store, "a", Duration::from_millis(10))).unwrap();
        block_on(turn.end()).unwrap();
        assert!(!there(&store));
    }
}
