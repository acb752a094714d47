//! Registration of writers: whoever replaces or converts an array must wait for concurrent writes, and these must not
//! write into the new array.
//!
//! A write through an opened array registers beside the array's document ([`Turn::writing`]), and finally checks that
//! the array is still the same. Arrays under construction need no registration: their place has a journal.
//!
//! Registration costs a few requests. A [`Writing`] guard serves all writes through the array and its clones; and with
//! successive writes, it is kept until there was none for a while.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;

use super::{Array, ArrayInner, WriteOptions};
use crate::boxed;
use crate::context::runtime;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::{self, Turn};
use crate::meta::path::{join, shown};
use crate::meta::{Format, Json};
use crate::store::{SharedStore, StoreExt as _};

/// Writes within this time after another share a registration.
const TOGETHER: Duration = Duration::from_millis(500);

/// The registration of a writer: the array as it was when the write started.
#[derive(Debug)]
pub struct Writing {
    store: SharedStore,
    path: String,
    key: String,
    /// The document of the array as it was opened.
    document: Arc<Json>,
    /// The state of its document, where the store reports one.
    state: Option<String>,
    turn: Turn,
}

/// The registration state of an array.
#[derive(Debug, Default)]
pub(super) struct Writers(tokio::sync::Mutex<Now>);

#[derive(Debug, Default)]
struct Now {
    held: Weak<Writing>,
    /// The registration kept between successive writes.
    kept: Option<Arc<Writing>>,
    /// When the last write ended.
    last: Option<Instant>,
    /// Whether the store is private memory, invisible to others.
    private: Option<bool>,
}

impl Now {
    fn is_recent(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < TOGETHER)
    }
}

impl Array {
    /// The same array, visible to others: its writers register.
    pub(crate) fn announced(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.writers = Some(Arc::default());
        }
        self
    }

    /// The same array, not visible to others yet.
    pub(crate) fn unseen(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.writers = None;
        }
        self
    }

    /// Registers a writer until the guard is dropped: for many writes that belong together.
    ///
    /// # Errors
    /// `Conflict` if an operation on the whole array or its parents is in progress, or if the array is no longer as it
    /// was opened.
    #[boxed]
    pub async fn writing(&self) -> Result<Arc<Writing>> {
        let Some(writers) = &self.inner.writers else {
            return Writing::begin(&self.inner, Turn::alone()).await.map(Arc::new);
        };
        let mut now = writers.0.lock().await;
        if let Some(held) = now.held.upgrade() {
            return Ok(held);
        }
        if now.private.is_none() {
            let at_hand = self.store().direct().is_some();
            let site = if at_hand { self.store().sites(self.path()).try_next().await? } else { None };
            now.private = Some(site.is_some_and(|site| site.is_own()));
        }
        if now.private == Some(true) {
            return Writing::begin(&self.inner, Turn::alone()).await.map(Arc::new);
        }
        journal::check_settled_above(self.store(), self.path()).await?;
        let turn = Turn::writing(self.store(), self.path()).await?;
        let writing = Arc::new(Writing::begin(&self.inner, turn).await?);
        now.held = Arc::downgrade(&writing);
        if now.is_recent() {
            now.kept = Some(writing.clone());
            runtime::spawn(let_go(Arc::downgrade(writers)))?;
        }
        Ok(writing)
    }

    /// Whether a write registers.
    pub(super) fn announces(&self, options: &WriteOptions) -> bool {
        self.inner.writers.is_some() && !options.single_writer
    }

    /// Runs `write`, registered and checked as by [`Array::writing`].
    pub(super) async fn announcing(&self, write: impl Future<Output = Result<()>>) -> Result<()> {
        let Some(writers) = &self.inner.writers else { return write.await };
        let writing = self.writing().await?;
        let mut done = write.await;
        if done.is_ok() {
            done = writing.check().await;
        }
        writers.0.lock().await.last = Some(Instant::now());
        match Arc::into_inner(writing) {
            Some(writing) => done.and(writing.turn.end().await),
            None => done,
        }
    }
}

/// Ends the registration when no write came for a while, or when the array is dropped.
async fn let_go(writers: Weak<Writers>) {
    loop {
        tokio::time::sleep(TOGETHER).await;
        let Some(writers) = writers.upgrade() else { return };
        let mut now = writers.0.lock().await;
        let kept = if now.is_recent() { None } else { now.kept.take() };
        let over = now.kept.is_none();
        drop(now);
        // The last owner must not block on a request in the runtime that makes the request.
        let rest = Arc::into_inner(writers).and_then(|writers| writers.0.into_inner().kept);
        for writing in [kept, rest].into_iter().flatten().filter_map(Arc::into_inner) {
            let _ = writing.turn.end().await;
        }
        if over {
            return;
        }
    }
}

impl Writing {
    async fn begin(array: &ArrayInner, turn: Turn) -> Result<Self> {
        let (store, path) = (array.store.clone(), array.path.clone());
        // Of two that start at once, each checks after registering.
        journal::check_settled_above(&store, &path).await?;
        let name = if array.meta.format == Format::V3 { "zarr.json" } else { ".zarray" };
        let (key, document) = (join(&path, name), array.meta.document.clone());
        let mut writing = Self { store, path, key, document, state: None, turn };
        writing.state = writing.now().await?;
        // Earlier reads may be of an array that no longer exists; it may have been extended.
        match writing.stored().await? {
            Some(now) if settings(&now) == settings(&writing.document) && grown(&writing.document, &now) => {
                Ok(writing)
            }
            _ => Err(writing.conflict()),
        }
    }

    /// Fails if elements written since may be lost.
    #[boxed]
    pub async fn check(&self) -> Result<()> {
        let lost = |e: Error| e.within("started while elements were written, which may be lost");
        journal::check_settled_above(&self.store, &self.path).await.map_err(lost)?;
        if self.now().await? == self.state {
            return Ok(());
        }
        // Attributes and lengths may change. An identical document was put there by a replacement of the array.
        match self.stored().await? {
            Some(now) if settings(&now) == settings(&self.document) && now != *self.document => Ok(()),
            _ => Err(self.conflict()),
        }
    }

    /// The current state of the array's document.
    async fn now(&self) -> Result<Option<String>> {
        match self.store.state(&self.key).await {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            state => state,
        }
    }

    async fn stored(&self) -> Result<Option<Json>> {
        let bytes = self.store.get(&self.key, None).await?;
        bytes.map(|bytes| Ok(Json::parse(&bytes)?.value)).transpose()
    }

    fn conflict(&self) -> Error {
        Error::conflict("the array was replaced or converted while it was written to; write it again")
            .with_node(shown(&self.path))
            .with_store(&self.store)
    }
}

/// The fields that determine how elements are stored.
fn settings(document: &Json) -> Json {
    let mut document = crate::meta::consolidate::without(document);
    document.remove("attributes");
    document.remove("shape");
    document
}

/// Whether no dimension has shrunk.
fn grown(then: &Json, now: &Json) -> bool {
    let shape = |d: &Json| d.get("shape")?.items()?.iter().map(Json::as_u64).collect::<Option<Vec<u64>>>();
    let (then, now) = (shape(then).unwrap_or_default(), shape(now).unwrap_or_default());
    then.len() == now.len() && then.iter().zip(&now).all(|(then, now)| now >= then)
}
