//! What unfinished work leaves: what it does, of which data, with which options, and how far it got.
//!
//! Everything that takes long and can be resumed keeps one journal, the object `.zaro-journal.json` beside the documents of
//! the node it is about: copies, conversions and upgrades in place or to another place, pyramids. So does what makes something new
//! that nobody is to see before it is whole (`create`), and begins anew when it was killed. It is put before
//! anything else, on the condition that there is none: so it decides whose place it is. It is deleted after everything
//! else. In between it says whole what is going to be done, so that whoever comes next can finish it, undo it or refuse,
//! and never takes up what is not the same: another operation, another program, other options, other data.
//!
//! | module | |
//! |---|---|
//! | `source` | which data something is made of |
//! | `owner` | who is at work, and whether they still are |
//! | `turn` | who may change the shape of an array |
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

/// The version of what is written here.
const FORMAT: u64 = 1;

/// How often progress is put, and whether the journal is still ours looked at.
const EVERY: Duration = Duration::from_secs(2);

/// What is made beside something that it replaces is not whole yet.
const MAKING: &str = "making";

/// How often a journal is looked at anew because somebody else changed it.
const ATTEMPTS: usize = 20;

/// What to do with a node that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Fail.
    #[default]
    Refuse,
    /// Replace it, with all below it. What is whole stays until the new is whole, too.
    Replace,
}

/// What a journal is about.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    /// The command.
    pub(crate) operation: &'static str,
    /// What it is made of, by [`NodeSource::json`].
    pub(crate) source: Json,
    /// What decides about the result, as an object.
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

/// The place that a journal is about, as text.
fn destination(store: &SharedStore, path: &str) -> String {
    join(&public_address(&store.to_string()), path)
}

/// The journal of a run. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Journal(Arc<SavedEntry>);

#[derive(Debug)]
struct SavedEntry {
    store: SharedStore,
    key: String,
    owner: Owner,
    state: Mutex<JournalState>,
    /// One put comes after another.
    putting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct JournalState {
    document: Json,
    put: Instant,
    /// Whether something was cleared away for this work.
    replaced: bool,
}

/// What to do in a place: see [`Journal::begin`].
pub(crate) struct Work<'a> {
    pub(crate) store: &'a SharedStore,
    pub(crate) path: &'a str,
    pub(crate) intent: &'a Intent,
    /// Whether what is there, and what others began there, may be replaced.
    pub(crate) existing: Existing,
    /// Whether all that is at the path is replaced, so that it does not matter what others began there.
    pub(crate) whole: bool,
    /// Whether the new is made beside what it replaces, so that nothing of that is in the way.
    pub(crate) aside: bool,
    /// Whether an unfinished run is not taken up, whatever it was about: that of the same operation is cleared away if it is
    /// surely dead, and all is begun anew.
    pub(crate) anew: bool,
    pub(crate) ground: &'a dyn Ground,
}

/// The place that something is made in.
#[async_trait]
pub(crate) trait Ground: Sync {
    /// Says what has to be cleared away before the work, and fails if it may not be. Gets the journal of an unfinished run that
    /// is not taken up.
    async fn in_the_way(&self, left: Option<&Json>) -> Result<Option<Json>>;

    /// Clears it away; the same may be done a second time.
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
    /// Makes the place ours: takes up an unfinished run of the very same intent, and says so, or begins a new one.
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
                // If somebody is at work on another machine after all, they find out before anything is cleared away.
                task::sleep(EVERY.saturating_mul(3)).await?;
            }
            journal.cleared(work).await?;
            return Ok((journal, resumed));
        }
        Err(Error::conflict("others begin something here again and again")
            .with_node(shown(path))
            .with_store(store))
    }

    /// Puts a journal where there is none; `None` if somebody else was faster.
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
                // A server that ignores conditions has taken the object all the same; nothing is to stay of it.
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

    /// A new journal of this intent, for those that are no whole place.
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

    /// Clears away what the journal says is in the way.
    async fn cleared(&self, work: &Work<'_>) -> Result<()> {
        let what = self.get("clear");
        if let Some(what) = what.filter(|w| *w != Json::Null) {
            self.state().replaced = !work.aside;
            if let Err(e) = work.ground.clear(&what).await {
                if work.aside {
                    // Nothing was begun.
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

    /// An error that also says what became of what was here before, if something is to be replaced.
    pub(crate) async fn told(&self, e: Error) -> Error {
        if self.is_whole_aside() && matches!(self.0.store.size(&self.0.key).await, Ok(None)) {
            // It went with what was replaced: the new is in its place.
            return e;
        }
        let replaced = self.state().replaced;
        let path = self.0.key.strip_suffix(JOURNAL).unwrap_or_default().trim_end_matches('/');
        let place = destination(&self.0.store, path);
        match self.get("aside").as_ref().and_then(Json::as_str) {
            Some(MAKING) => e.within(format_args!(
                "{place} stays as it is until the new is whole; rerun the same command to finish, or give it up by deleting \
                 .zaro-new and .zaro-journal.json there"
            )),
            Some(_) => e.within(format_args!(
                "what replaces {place} is whole; rerun the same command to finish putting it in its place"
            )),
            None if replaced => e
                .within("what was left here before is deleted, as was asked for; rerun the same command to finish"),
            None => e,
        }
    }

    /// Whether something whole is about to take the place of what it replaces.
    pub(crate) fn is_whole_aside(&self) -> bool {
        self.get("aside").is_some_and(|stage| stage.as_str() != Some(MAKING))
    }

    /// Whether something was cleared away for this work.
    pub(crate) fn has_cleared(&self) -> bool {
        self.state().replaced
    }

    /// Says how far something has come that is made beside what it replaces.
    pub(crate) async fn set_aside(&self, stage: &str) -> Result<()> {
        self.set("aside", Json::string(stage)).await
    }

    /// A member of the journal.
    pub(crate) fn get(&self, name: &str) -> Option<Json> {
        self.state().document.get(name).cloned()
    }

    /// Changes a member, without putting the journal.
    #[cfg(feature = "image")]
    pub(crate) fn keep(&self, name: &str, value: Json) {
        self.state().document.set(name, value);
    }

    /// Changes a member, and puts the journal.
    pub(crate) async fn set(&self, name: &str, value: Json) -> Result<()> {
        self.state().document.set(name, value);
        self.write().await
    }

    /// How many parts of something are done.
    pub(crate) fn done(&self, part: &str) -> u64 {
        let state = self.state();
        state.document.get("done").and_then(|d| d.get(part)).and_then(Json::as_u64).unwrap_or(0)
    }

    /// Notes how many parts of something are done; it is put now and then.
    pub(crate) async fn note(&self, part: &str, done: u64) -> Result<()> {
        // Who was faster has more to say.
        let done = done.max(self.done(part));
        {
            let mut state = self.state();
            let mut counts = state.document.get("done").cloned().unwrap_or_else(Json::object);
            counts.set(part, Json::int(done));
            state.document.set("done", counts);
        }
        self.beat().await
    }

    /// Puts the journal if it is time to: whoever lost the place finds out then.
    pub(crate) async fn beat(&self) -> Result<()> {
        if self.state().put.elapsed() < EVERY { Ok(()) } else { self.write().await }
    }

    /// Puts the journal. Fails if it is not ours any more.
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

    /// Fails if the place is somebody else's by now.
    pub(crate) async fn check(&self) -> Result<()> {
        self.ours().await.map(drop)
    }

    /// The tag of the journal, if it is still ours.
    async fn ours(&self) -> Result<ObjectMeta> {
        match self.0.store.get_for_update(&self.0.key).await? {
            Some((bytes, tag)) if Json::parse(&bytes).is_ok_and(|found| self.0.owner.owns(&found.value)) => {
                Ok(tag)
            }
            _ => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        Error::conflict("another zaro has taken over this place, or cleared it, so that this one stops")
            .with_key(&self.0.key)
            .with_store(&self.0.store)
    }

    /// Everything is whole, or undone.
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
    Error::conflict("another zaro has just begun something here").with_node(shown(path)).with_store(store)
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
            "an unfinished `zaro {command}` of an earlier version of zaro is here; finish it with that version (or delete \
             {name} if it is of no use)"
        ))
        .with_hint("overwrite", "begins anew")
        .with_node(shown(path))
        .with_store(store)),
    }
}

/// Fails if others began something that `path` lies in, or below it since it was seen, at the moment when its journal was put:
/// of two that begin at once, each looks after it has said so.
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
        Some(name) => Err(Error::conflict(format!("somebody else began something at {name:?} below this"))
            .with_node(shown(path))
            .with_store(store)),
    }
}

/// Fails if all that is at `path` is being worked on by somebody else, or was, without an end: by another process that keeps
/// a journal, or deletes it.
pub(crate) async fn check_settled(store: &SharedStore, path: &str) -> Result<()> {
    let (marker, journal) = (join(path, DELETING), join(path, JOURNAL));
    let (deleting, journal) = futures::try_join!(store.size(&marker), store.get(&journal, None))?;
    if deleting.is_some() {
        return Err(Error::conflict("a deletion of what was here has not come to its end")
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
            "another zaro (process {process}) is at work here: {operation}; wait for its end"
        )),
        _ => {
            let what = format!("unfinished work of {operation} is here; rerun the same command to finish it");
            match document.get("aside").and_then(Json::as_str) {
                Some("whole") => {
                    Error::conflict(format!("{what} (what is whole already lies in .zaro-new/zarr)"))
                        .with_hint("overwrite", "of any other command does, too")
                }
                _ => Error::conflict(what),
            }
        }
    };
    Err(e.with_node(shown(path)).with_store(store))
}

/// The same of `path` and of all that it lies in.
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

/// A journal that somebody left, or is keeping.
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
        // What cannot be read is a journal of nothing that can be taken up.
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

    /// Fails if its owner is still at work.
    pub(crate) fn refuse_alive(&self) -> Result<()> {
        let Life::Alive(process) = life(&self.document) else { return Ok(()) };
        Err(Error::conflict(format!(
            "another zaro (process {process}) is at work here: {}; wait for its end, or stop it",
            command(self.text("operation"))
        ))
        .with_node(shown(&self.path))
        .with_store(&self.store))
    }

    /// How far something has come that is made beside what it replaces.
    pub(crate) fn aside(&self) -> Option<&str> {
        self.document.get("aside").and_then(Json::as_str)
    }

    /// Whether it is of something that is made beside what it replaces.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside().is_some()
    }

    /// Whether its owner is surely not at work any more.
    pub(crate) fn is_dead(&self) -> bool {
        life(&self.document) == Life::Dead
    }

    /// Why this is not what `intent` would take up; nothing if it is the same.
    pub(crate) fn differences(&self, intent: &Intent) -> Vec<String> {
        let new = intent.document(&self.store, &self.path);
        let mut found = Vec::new();
        let differs = |name: &str| self.document.get(name) != new.get(name);
        if differs("operation") {
            return vec![format!("it is of {}", command(self.text("operation")))];
        }
        if differs("journal") || differs("zaro") {
            let (was, is) = (self.text("zaro"), env!("CARGO_PKG_VERSION"));
            found.push(format!("it was begun by zaro {was}, and this is {is}"));
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
            found.push("the metadata of its source were others".to_owned());
        }
        match both("source", "chunks") {
            (Some(Json::Null) | None, _) | (_, Some(Json::Null) | None)
                if intent.source.get("chunks").is_some() =>
            {
                found.push("its source cannot tell whether its chunks were changed since".to_owned());
            }
            (Some(Json::Null) | None, _) | (_, Some(Json::Null) | None) => {}
            (was, is) if was != is => found.push("chunks of its source were changed since".to_owned()),
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
            found.push(format!("it was begun at {}", self.text("destination")));
        }
        if found.is_empty() && differs("plan") {
            found.push("it was to become something else".to_owned());
        }
        found
    }

    /// The error that says what is here, and how to go on.
    pub(crate) fn refusal(&self, differences: &[String], overwrite: bool) -> Error {
        let what = command(self.text("operation"));
        let why = match differences {
            [] => String::new(),
            all => format!(", which this does not take up ({})", all.join("; ")),
        };
        let here = format!("unfinished work of {what} is here{why}");
        let e = match overwrite {
            true => Error::usage(format!("{here}; finish it with its own command and data"))
                .with_hint("overwrite", "begins anew"),
            false => Error::usage(format!("{here}; finish it first, with its own command")),
        };
        e.with_node(shown(&self.path)).with_store(&self.store)
    }

    /// Makes it ours, as `document`; `None` if somebody else changed it first.
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

    /// The same, where losing is an error.
    pub(crate) async fn own(&self) -> Result<Journal> {
        self.take(self.document.clone()).await?.ok_or_else(|| taken(&self.store, &self.path))
    }
}

/// An operation as people call it.
fn command(operation: &str) -> String {
    match operation {
        "?" => "an unknown kind".to_owned(),
        operation => format!("`zaro {operation}`"),
    }
}
