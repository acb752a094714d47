//! Writers of an array, as others see them: whoever replaces or converts all of it must not pass before their elements are
//! there, and they must not write into what it has become.
//!
//! A write through an array that was opened says so beside the array's document ([`Turn::writing`]), and looks at the end whether
//! the array is still the same. Arrays that are being made are nobody else's business: their place has a journal.
//!
//! Saying so costs some requests. A [`Writing`] that is held serves all writes through the array and its clones; and where one
//! write follows another, it is held until none came for a while.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;

use super::{Array, ArrayInner, WriteOptions};
use crate::context::runtime;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::{self, Turn};
use crate::meta::path::{join, shown};
use crate::meta::{Format, Json};
use crate::store::{SharedStore, StoreExt as _};

/// Writes that come in this time after another belong together.
const TOGETHER: Duration = Duration::from_millis(500);

/// An array as it was when somebody began to write elements to it.
#[derive(Debug)]
pub struct Writing {
    store: SharedStore,
    path: String,
    key: String,
    /// The document of the array as it was opened.
    document: Arc<Json>,
    /// The state of its document, where the store can tell.
    state: Option<String>,
    turn: Turn,
}

/// What an array knows of the writes through it.
#[derive(Debug, Default)]
pub(super) struct Writers(tokio::sync::Mutex<Now>);

#[derive(Debug, Default)]
struct Now {
    held: Weak<Writing>,
    /// It, while writes follow each other.
    kept: Option<Arc<Writing>>,
    /// When a write came to its end.
    last: Option<Instant>,
    /// Whether nobody else can see the store: it is memory.
    private: Option<bool>,
}

impl Now {
    fn is_recent(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < TOGETHER)
    }
}

impl Array {
    /// The same array, one that others may know: whoever writes to it says so.
    pub(crate) fn announced(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.writers = Some(Arc::default());
        }
        self
    }

    /// The same array, one that nobody else is to know yet.
    pub(crate) fn unseen(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.writers = None;
        }
        self
    }

    /// Says that elements are written, for as long as the answer lives: for many writes that belong together.
    ///
    /// # Errors
    /// `Conflict` if somebody works on all that the array lies in, or if it is not there any more as it was opened.
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

    /// Whether others are told of a write.
    pub(super) fn announces(&self, options: &WriteOptions) -> bool {
        self.inner.writers.is_some() && !options.single_writer
    }

    /// Does `write`, said and looked at as [`Array::writing`] does.
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

/// Ends what is kept when no write came for a while, or when the array is gone.
async fn let_go(writers: Weak<Writers>) {
    loop {
        tokio::time::sleep(TOGETHER).await;
        let Some(writers) = writers.upgrade() else { return };
        let mut now = writers.0.lock().await;
        let kept = if now.is_recent() { None } else { now.kept.take() };
        let over = now.kept.is_none();
        drop(now);
        // The last owner must not wait for a request where the request is made.
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
        // Of two that begin at once, each looks after it has said so.
        journal::check_settled_above(&store, &path).await?;
        let name = if array.meta.format == Format::V3 { "zarr.json" } else { ".zarray" };
        let (key, document) = (join(&path, name), array.meta.document.clone());
        let mut writing = Self { store, path, key, document, state: None, turn };
        writing.state = writing.now().await?;
        // What was read of it before that may be of an array that is no more; it may have become longer.
        match writing.stored().await? {
            Some(now) if settings(&now) == settings(&writing.document) && grown(&writing.document, &now) => {
                Ok(writing)
            }
            _ => Err(writing.conflict()),
        }
    }

    /// Fails if elements that were written since may be lost.
    pub async fn check(&self) -> Result<()> {
        let lost = |e: Error| e.within("begun while elements were written, which may be lost");
        journal::check_settled_above(&self.store, &self.path).await.map_err(lost)?;
        if self.now().await? == self.state {
            return Ok(());
        }
        // Attributes and lengths may change. One that is the same to the letter was put there by who replaced the array.
        match self.stored().await? {
            Some(now) if settings(&now) == settings(&self.document) && now != *self.document => Ok(()),
            _ => Err(self.conflict()),
        }
    }

    /// The state of the document of the array.
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
        Error::conflict("somebody replaced or converted the array while it was written to; write it again")
            .with_node(shown(&self.path))
            .with_store(&self.store)
    }
}

/// What decides how elements are stored.
fn settings(document: &Json) -> Json {
    let mut document = crate::meta::consolidate::without(document);
    document.remove("attributes");
    document.remove("shape");
    document
}

/// Whether no dimension has become shorter.
fn grown(then: &Json, now: &Json) -> bool {
    let shape = |d: &Json| d.get("shape")?.items()?.iter().map(Json::as_u64).collect::<Option<Vec<u64>>>();
    let (then, now) = (shape(then).unwrap_or_default(), shape(now).unwrap_or_default());
    then.len() == now.len() && then.iter().zip(&now).all(|(then, now)| now >= then)
}
