//! Journals of resumable operations: what they do, with which data and options, and how far they got.
//!
//! Every long operation that can be resumed keeps one journal, the object `.zaro-journal.json` beside the documents of
//! its node: copies, conversions and upgrades, in place or to another place, and pyramids. So does the creation of
//! nodes that become visible only when complete (`create`), which restarts after a kill. The journal is put before
//! anything else, on the condition that there is none: so it decides who owns the place. It is deleted last. In between
//! it describes the whole operation, so that the next run can finish it, undo it or refuse, and never resumes anything
//! different: another operation, another program version, other options, other data.
//!
//! | module | |
//! |---|---|
//! | `source` | identifies the source data |
//! | `owner` | identifies the running process, and whether it is alive |
//! | `turn` | the lock for changes to the shape of an array |
//!
//! See `docs/design/009-journals-and-identity.md`.

mod owner;
mod source;
mod turn;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

pub(crate) use self::owner::token;
use self::owner::{Life, Owner, life};
pub(crate) use self::source::{DOCUMENTS, NodeSource, public_address};
pub(crate) use self::turn::{Turn, check_idle, check_nodes};
use crate::error::{Error, ErrorKind, Hint, Result};
use crate::meta::Json;
use crate::meta::path::{ancestors, join, shown};
use crate::store::{
    Condition, DELETING, JOURNAL, Listing, OLD_JOURNALS, ObjectMeta, Put, SharedStore, StoreExt as _,
};
use crate::task;

/// The version of the journal format.
const FORMAT: u64 = 1;

/// How often progress is put, and ownership of the journal checked.
const EVERY: Duration = Duration::from_secs(2);

/// A replacement that is not complete yet.
const MAKING: &str = "making";

/// How often a journal is read again because somebody else changed it.
const ATTEMPTS: usize = 20;

/// How to treat an existing node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Fail.
    #[default]
    Refuse,
    /// Replace it, with everything below it. A complete node stays until the new one is complete, too.
    Replace,
}

/// What a journal is about.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    /// The command.
    pub(crate) operation: &'static str,
    /// The source data, by [`NodeSource::json`].
    pub(crate) source: Json,
    /// The options that determine the result, as an object.
    pub(crate) options: Json,
    /// What is to be made.
    pub(crate) plan: Json,
}

impl Intent {
    fn document(&self, store: &SharedStore, path: &str) -> Json {
        let mut document = Json::object();
        document.set("journal", Json::int(FORMAT));
        document.set("zaro", Json::string(env!("CARGO_PKG_VERSION")));
        document.set("operation", Json::string(self.operation));
        document.set("source", self.source.clone());
        document.set("options", self.options.clone());
        document.set("destination", Json::string(destination(store, path)));
        document.set("plan", self.plan.clone());
        document.set("done", Json::object());
        document
    }
}

/// The place of a journal, as text.
fn destination(store: &SharedStore, path: &str) -> String {
    join(&public_address(&store.to_string()), path)
}

/// The journal of a run. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Journal(Arc<SavedEntry>);

#[derive(Debug)]
struct SavedEntry {
    store: SharedStore,
    key: String,
    owner: Owner,
    state: Mutex<JournalState>,
    /// Serialises puts.
    putting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct JournalState {
    document: Json,
    put: Instant,
    /// Whether something was deleted for this operation.
    replaced: bool,
}

/// An operation to start: see [`Journal::begin`].
pub(crate) struct Work<'a> {
    pub(crate) store: &'a SharedStore,
    pub(crate) path: &'a str,
    pub(crate) intent: &'a Intent,
    /// Whether existing data, and unfinished operations of others, may be replaced.
    pub(crate) existing: Existing,
    /// Whether everything at the path is replaced, so that unfinished operations there do not matter.
    pub(crate) whole: bool,
    /// Whether the result is made beside what it replaces, so that nothing is in the way.
    pub(crate) aside: bool,
    /// Whether an unfinished run is never resumed: one of the same operation is removed if its process is certainly
    /// dead, and everything restarts.
    pub(crate) anew: bool,
    pub(crate) ground: &'a dyn Ground,
}

/// The place of an operation.
#[async_trait]
pub(crate) trait Ground: Sync {
    /// Returns what has to be deleted first, and fails if that is not allowed. Gets the journal of an unfinished run
    /// that is not resumed.
    async fn in_the_way(&self, left: Option<&Json>) -> Result<Option<Json>>;

    /// Deletes it; may be repeated.
    async fn clear(&self, what: &Json) -> Result<()>;
}

impl Work<'_> {
    fn mark(&self, document: &mut Json) {
        if self.aside {
            document.set("aside", Json::string(MAKING));
        }
    }
}

impl Journal {
    /// Takes ownership of the place: resumes an unfinished run of the very same intent, and says so, or starts a new
    /// one.
    pub(crate) async fn begin(work: &Work<'_>) -> Result<(Self, bool)> {
        let Work { store, path, intent, .. } = work;
        for above in ancestors(path) {
            check_settled(store, above).await?;
        }
        for _ in 0..ATTEMPTS {
            let Some(left) = Left::find(store, path).await? else {
                if !(work.whole && work.existing == Existing::Replace) {
                    refuse_old(store, path).await?;
                }
                let mut document = intent.document(store, path);
                let before = store.list(path).await?;
                let what = work.ground.in_the_way(None).await?;
                let fresh = work.whole && what.is_none();
                if let Some(what) = what {
                    document.set("clear", what);
                }
                work.mark(&mut document);
                let Some(journal) = Self::create(store, path, document).await? else { continue };
                if let Err(e) = alone(store, path, fresh.then_some(&before)).await {
                    journal.end().await?;
                    return Err(e);
                }
                journal.cleared(work).await?;
                return Ok((journal, false));
            };
            left.refuse_alive()?;
            let differences = left.differences(intent);
            let taken_up = match work.aside {
                true => left.aside() == Some(MAKING),
                false => work.existing == Existing::Refuse && !left.is_aside(),
            };
            let resumed = !work.anew && differences.is_empty() && taken_up;
            let anew = work.anew && left.is(intent.operation) && left.is_dead();
            if !resumed
                && !anew
                && (work.existing == Existing::Refuse || !work.whole && !left.is(intent.operation))
            {
                return Err(left.refusal(&differences, work.existing == Existing::Refuse));
            }
            let document = match resumed {
                true => left.document.clone(),
                false => {
                    let mut document = intent.document(store, path);
                    let what = work.ground.in_the_way(Some(&left.document)).await?;
                    document.set("clear", what.unwrap_or(Json::Null));
                    work.mark(&mut document);
                    document
                }
            };
            let elsewhere = life(&left.document) == Life::Unknown;
            let Some(journal) = left.take(document).await? else { continue };
            if elsewhere && !resumed {
                // If a process on another machine is alive after all, it notices before anything is deleted.
                task::sleep(EVERY.saturating_mul(3)).await?;
            }
            journal.cleared(work).await?;
            return Ok((journal, resumed));
        }
        Err(Error::conflict("other operations keep starting here; rerun the command when they are done")
            .with_node(shown(path))
            .with_store(store))
    }

    /// Puts a new journal; `None` if somebody else was faster.
    pub(crate) async fn create(store: &SharedStore, path: &str, document: Json) -> Result<Option<Self>> {
        Self::create_at(store, join(path, JOURNAL), document).await
    }

    async fn create_at(store: &SharedStore, key: String, mut document: Json) -> Result<Option<Self>> {
        let owner = Owner::new();
        document.set("owner", owner.json());
        match store.put(&key, text(&document), Condition::Absent).await {
            Ok(Put::Done) => Ok(Some(Self::of(store, key, owner, document))),
            Ok(Put::Refused) => Ok(None),
            Err(e) => {
                // A server that ignores conditions stored the object all the same; remove it.
                if e.kind() == ErrorKind::Unsupported
                    && let Ok(Some(bytes)) = store.get(&key, None).await
                    && Json::parse(&bytes).is_ok_and(|found| owner.owns(&found.value))
                {
                    let _ = store.delete(&key).await;
                }
                Err(e)
            }
        }
    }

    /// A new journal of this intent, for operations that are not about a whole place.
    pub(crate) async fn create_for(store: &SharedStore, path: &str, intent: &Intent) -> Result<Self> {
        refuse_old(store, path).await?;
        Self::create(store, path, intent.document(store, path)).await?.ok_or_else(|| taken(store, path))
    }

    fn of(store: &SharedStore, key: String, owner: Owner, document: Json) -> Self {
        Self(Arc::new(SavedEntry {
            store: store.clone(),
            key,
            owner,
            state: Mutex::new(JournalState { document, put: Instant::now(), replaced: false }),
            putting: tokio::sync::Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes what the journal lists as in the way.
    async fn cleared(&self, work: &Work<'_>) -> Result<()> {
        let what = self.get("clear");
        if let Some(what) = what.filter(|w| *w != Json::Null) {
            self.state().replaced = !work.aside;
            if let Err(e) = work.ground.clear(&what).await {
                if work.aside {
                    // Nothing was started.
                    self.end().await?;
                    return Err(e);
                }
                return Err(self.told(e).await);
            }
        }
        let had = self.get("clear").is_some();
        self.state().document.remove("clear");
        if had { self.write().await } else { Ok(()) }
    }

    /// Adds what happened to the existing data, if something is to be replaced.
    pub(crate) async fn told(&self, e: Error) -> Error {
        if self.is_whole_aside() && matches!(self.0.store.size(&self.0.key).await, Ok(None)) {
            // It was removed with the replaced data: the new data is in place.
            return e;
        }
        let replaced = self.state().replaced;
        let path = self.0.key.strip_suffix(JOURNAL).unwrap_or_default().trim_end_matches('/');
        let place = destination(&self.0.store, path);
        match self.get("aside").as_ref().and_then(Json::as_str) {
            Some(MAKING) => e.within(format_args!(
                "{place} stays as it is until the replacement is complete; rerun the same command to finish, or give up by deleting \
                 .zaro-new and .zaro-journal.json there"
            )),
            Some(_) => e.within(format_args!(
                "the replacement of {place} is complete; rerun the same command to put it in place"
            )),
            None if replaced => e
                .within("the previous data here is deleted, as requested; rerun the same command to finish"),
            None => e,
        }
    }

    /// Whether a complete replacement is about to be put in place.
    pub(crate) fn is_whole_aside(&self) -> bool {
        self.get("aside").is_some_and(|stage| stage.as_str() != Some(MAKING))
    }

    /// Whether something was deleted for this operation.
    pub(crate) fn has_cleared(&self) -> bool {
        self.state().replaced
    }

    /// Records the stage of a replacement.
    pub(crate) async fn set_aside(&self, stage: &str) -> Result<()> {
        self.set("aside", Json::string(stage)).await
    }

    /// A field of the journal.
    pub(crate) fn get(&self, name: &str) -> Option<Json> {
        self.state().document.get(name).cloned()
    }

    /// Sets a field, without putting the journal.
    #[cfg(feature = "image")]
    pub(crate) fn keep(&self, name: &str, value: Json) {
        self.state().document.set(name, value);
    }

    /// Sets a field, and puts the journal.
    pub(crate) async fn set(&self, name: &str, value: Json) -> Result<()> {
        self.state().document.set(name, value);
        self.write().await
    }

    /// How many parts of something are done.
    pub(crate) fn done(&self, part: &str) -> u64 {
        let state = self.state();
        state.document.get("done").and_then(|d| d.get(part)).and_then(Json::as_u64).unwrap_or(0)
    }

    /// Records how many parts of something are done; it is put from time to time.
    pub(crate) async fn note(&self, part: &str, done: u64) -> Result<()> {
        // Another task may be further.
        let done = done.max(self.done(part));
        {
            let mut state = self.state();
            let mut counts = state.document.get("done").cloned().unwrap_or_else(Json::object);
            counts.set(part, Json::int(done));
            state.document.set("done", counts);
        }
        self.beat().await
    }

    /// Puts the journal if it is time: a lost place is noticed then.
    pub(crate) async fn beat(&self) -> Result<()> {
        if self.state().put.elapsed() < EVERY { Ok(()) } else { self.write().await }
    }

    /// Puts the journal. Fails if it is no longer ours.
    pub(crate) async fn write(&self) -> Result<()> {
        // Nobody else need put it now.
        self.state().put = Instant::now();
        let _one = self.0.putting.lock().await;
        let tag = self.ours().await?;
        let bytes = text(&self.state().document);
        let SavedEntry { store, key, .. } = &*self.0;
        match store.put(key, bytes.clone(), Condition::Unchanged(tag)).await {
            Ok(Put::Done) => Ok(()),
            Ok(Put::Refused) => Err(self.lost()),
            // Files without locks, and some servers: it was ours a moment ago.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                store.put(key, bytes, Condition::Always).await.map(drop)
            }
            Err(e) => Err(e),
        }
    }

    /// Fails if the place now belongs to somebody else.
    pub(crate) async fn check(&self) -> Result<()> {
        self.ours().await.map(drop)
    }

    /// The state of the journal object, if it is still ours.
    async fn ours(&self) -> Result<ObjectMeta> {
        match self.0.store.get_for_update(&self.0.key).await? {
            Some((bytes, tag)) if Json::parse(&bytes).is_ok_and(|found| self.0.owner.owns(&found.value)) => {
                Ok(tag)
            }
            _ => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        Error::conflict("another zaro process has taken over or deleted this place, so this one stops")
            .with_key(&self.0.key)
            .with_store(&self.0.store)
    }

    /// Ends the operation: everything is complete, or undone.
    pub(crate) async fn end(&self) -> Result<()> {
        self.ours().await?;
        self.0.store.delete(&self.0.key).await
    }
}

fn text(document: &Json) -> Bytes {
    let mut text = document.stored();
    text.push('\n');
    text.into()
}

fn taken(store: &SharedStore, path: &str) -> Error {
    Error::conflict("another zaro process has just started an operation here")
        .with_node(shown(path))
        .with_store(store)
}

/// Fails if an earlier version of zaro left something unfinished here.
async fn refuse_old(store: &SharedStore, path: &str) -> Result<()> {
    let sizes = OLD_JOURNALS.iter().map(|(name, _)| {
        let key = join(path, name);
        async move { store.size(&key).await }
    });
    let sizes = futures::future::try_join_all(sizes).await?;
    match sizes.iter().zip(OLD_JOURNALS).find(|(size, _)| size.is_some()) {
        None => Ok(()),
        Some((_, (name, command))) => Err(Error::usage(format!(
            "an unfinished `zaro {command}` of an earlier version of zaro is here; finish it with that version (or, to discard it, delete \
             {name})"
        ))
        .with_hint("overwrite", "starts over")
        .with_node(shown(path))
        .with_store(store)),
    }
}

/// Fails if others started something above `path`, or below it since it was listed, when its journal was put: of two
/// that start at once, each checks after putting its journal.
async fn alone(store: &SharedStore, path: &str, seen: Option<&Listing>) -> Result<()> {
    for above in ancestors(path) {
        check_settled(store, above).await?;
    }
    check_idle(store, path, true, false).await?;
    let Some(seen) = seen else { return Ok(()) };
    let now = store.list(path).await?;
    let documents =
        now.objects.iter().filter(|name| !name.starts_with(".zaro-") && !seen.objects.contains(name));
    match now.prefixes.iter().filter(|name| !seen.prefixes.contains(name)).chain(documents).next() {
        None => Ok(()),
        Some(name) => {
            Err(Error::conflict(format!("somebody else started an operation at {name:?} below this"))
                .with_node(shown(path))
                .with_store(store))
        }
    }
}

/// Fails if everything at `path` is subject to an operation that is running or unfinished: by another process that
/// keeps a journal, or deletes it.
pub(crate) async fn check_settled(store: &SharedStore, path: &str) -> Result<()> {
    let (marker, journal) = (join(path, DELETING), join(path, JOURNAL));
    let (deleting, journal) = futures::try_join!(store.size(&marker), store.get(&journal, None))?;
    if deleting.is_some() {
        return Err(Error::conflict("an unfinished deletion is here")
            .or_hint(Hint::operation("delete", "finishes it"))
            .with_node(shown(path))
            .with_store(store));
    }
    let Some(bytes) = journal else { return Ok(()) };
    let document = Json::parse(&bytes).map(|d| d.value).unwrap_or(Json::Null);
    let operation = command(document.get("operation").and_then(Json::as_str).unwrap_or("?"));
    let e = match life(&document) {
        Life::Alive(process) if process == u64::from(std::process::id()) => return Ok(()),
        Life::Alive(process) => Error::conflict(format!(
            "another zaro (process {process}) is running here: {operation}; wait until it ends"
        )),
        _ => {
            let what = format!("unfinished work of {operation} is here; rerun the same command to finish it");
            match document.get("aside").and_then(Json::as_str) {
                Some("whole") => {
                    Error::conflict(format!("{what} (the complete result is in .zaro-new/zarr)"))
                        .with_hint("overwrite", "of any other command finishes it, too")
                }
                _ => Error::conflict(what),
            }
        }
    };
    Err(e.with_node(shown(path)).with_store(store))
}

/// The same for `path` and all its parents.
pub(crate) async fn check_settled_above(store: &SharedStore, path: &str) -> Result<()> {
    let above = ancestors(path).into_iter().chain([path]);
    futures::future::try_join_all(above.map(|at| check_settled(store, at))).await.map(drop)
}

/// Fails if another process keeps the journal at `path`, or may do so on another machine.
pub(crate) async fn check_alive(store: &SharedStore, path: &str) -> Result<()> {
    let Some(left) = Left::find(store, path).await? else { return Ok(()) };
    match life(&left.document) {
        Life::Alive(process) if process == u64::from(std::process::id()) => Ok(()),
        _ => left.refuse_alive(),
    }
}

/// A journal found in a place: abandoned or active.
pub(crate) struct Left {
    store: SharedStore,
    path: String,
    key: String,
    pub(crate) document: Json,
    tag: ObjectMeta,
}

impl Left {
    /// The journal at a path, if there is one.
    pub(crate) async fn find(store: &SharedStore, path: &str) -> Result<Option<Self>> {
        Self::named(store, path, JOURNAL).await
    }

    async fn named(store: &SharedStore, path: &str, name: &str) -> Result<Option<Self>> {
        let key = join(path, name);
        let Some((bytes, tag)) = store.get_for_update(&key).await? else { return Ok(None) };
        let parsed = Json::parse(&bytes).map(|d| d.value).unwrap_or(Json::Null);
        // An unreadable journal can never be resumed.
        let document = if parsed.get("journal").is_some() { parsed } else { Json::object() };
        Ok(Some(Self { store: store.clone(), path: path.to_owned(), key, document, tag }))
    }

    fn text(&self, name: &str) -> &str {
        self.document.get(name).and_then(Json::as_str).unwrap_or("?")
    }

    /// Whether it is of this operation.
    pub(crate) fn is(&self, operation: &str) -> bool {
        self.text("operation") == operation
    }

    /// Fails if its owner is still running.
    pub(crate) fn refuse_alive(&self) -> Result<()> {
        let Life::Alive(process) = life(&self.document) else { return Ok(()) };
        Err(Error::conflict(format!(
            "another zaro (process {process}) is running here: {}; wait until it ends, or stop it",
            command(self.text("operation"))
        ))
        .with_node(shown(&self.path))
        .with_store(&self.store))
    }

    /// The stage of a replacement.
    pub(crate) fn aside(&self) -> Option<&str> {
        self.document.get("aside").and_then(Json::as_str)
    }

    /// Whether it is of a replacement.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside().is_some()
    }

    /// Whether its owner is certainly dead.
    pub(crate) fn is_dead(&self) -> bool {
        life(&self.document) == Life::Dead
    }

    /// Why `intent` cannot resume this; empty if it can.
    pub(crate) fn differences(&self, intent: &Intent) -> Vec<String> {
        let new = intent.document(&self.store, &self.path);
        let mut found = Vec::new();
        let differs = |name: &str| self.document.get(name) != new.get(name);
        if differs("operation") {
            return vec![format!("it belongs to {}", command(self.text("operation")))];
        }
        if differs("journal") || differs("zaro") {
            let (was, is) = (self.text("zaro"), env!("CARGO_PKG_VERSION"));
            found.push(format!("it was started by zaro {was}, and this is {is}"));
        }
        let both = |group: &str, name: &str| {
            let of = |document: &Json| document.get(group).and_then(|g| g.get(name)).cloned();
            (of(&self.document), of(&new))
        };
        let shown_as = |value: Option<Json>| value.map_or("nothing".to_owned(), |v| v.to_string());
        for name in ["address", "path"] {
            let (was, is) = both("source", name);
            if was != is {
                found.push(format!("its source was {}, not {}", shown_as(was), shown_as(is)));
            }
        }
        let (was, is) = both("source", "documents");
        if was != is {
            found.push("the metadata of its source has changed".to_owned());
        }
        match both("source", "chunks") {
            (Some(Json::Null) | None, _) | (_, Some(Json::Null) | None)
                if intent.source.get("chunks").is_some() =>
            {
                found.push("whether its source's chunks have changed is unknown".to_owned());
            }
            (Some(Json::Null) | None, _) | (_, Some(Json::Null) | None) => {}
            (was, is) if was != is => found.push("chunks of its source have changed".to_owned()),
            _ => {}
        }
        let members =
            |document: &Json| document.get("options").and_then(Json::members).unwrap_or_default().to_vec();
        let mut names: Vec<String> = members(&self.document).into_iter().map(|(name, _)| name).collect();
        names.extend(
            members(&new)
                .into_iter()
                .map(|(name, _)| name)
                .filter(|n| !names.contains(n))
                .collect::<Vec<_>>(),
        );
        for name in names {
            let (was, is) = both("options", &name);
            if was != is {
                found.push(format!("{name} was {}, not {}", shown_as(was), shown_as(is)));
            }
        }
        if differs("destination") {
            found.push(format!("it was started at {}", self.text("destination")));
        }
        if found.is_empty() && differs("plan") {
            found.push("its planned result differs".to_owned());
        }
        found
    }

    /// The error that describes what is here, and how to continue.
    pub(crate) fn refusal(&self, differences: &[String], overwrite: bool) -> Error {
        let what = command(self.text("operation"));
        let why = match differences {
            [] => String::new(),
            all => format!(", which cannot be resumed ({})", all.join("; ")),
        };
        let here = format!("unfinished work of {what} is here{why}");
        let e = match overwrite {
            true => Error::usage(format!("{here}; finish it with its own command and data"))
                .with_hint("overwrite", "starts over"),
            false => Error::usage(format!("{here}; finish it first, with its own command")),
        };
        e.with_node(shown(&self.path)).with_store(&self.store)
    }

    /// Takes ownership with `document`; `None` if somebody else changed it first.
    pub(crate) async fn take(&self, mut document: Json) -> Result<Option<Journal>> {
        self.refuse_alive()?;
        let owner = Owner::new();
        document.set("owner", owner.json());
        let key = self.key.clone();
        let put = match self.store.put(&key, text(&document), Condition::Unchanged(self.tag.clone())).await {
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                self.store.put(&key, text(&document), Condition::Always).await?
            }
            put => put?,
        };
        Ok(put.is_done().then(|| Journal::of(&self.store, key, owner, document)))
    }

    /// The same, where failing is an error.
    pub(crate) async fn own(&self) -> Result<Journal> {
        self.take(self.document.clone()).await?.ok_or_else(|| taken(&self.store, &self.path))
    }
}

/// An operation as a command name.
fn command(operation: &str) -> String {
    match operation {
        "?" => "an unknown command".to_owned(),
        operation => format!("`zaro {operation}`"),
    }
}
