//! Replacing a node: the old one stays until the new one is complete.
//!
//! The replacement is created inside the old node, in [`REPLACEMENT`], where readers do not find it, and recorded in a
//! journal. When complete, it is put in place: by exchanging two folders where the store supports that. Elsewhere, in
//! buckets, the journal first records that it is complete; then the old node is deleted, and the new one is copied to
//! its place object by object. If that is killed, the next replacement finishes it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::TryStreamExt;

use super::consolidate::{resume_above, suspend_above};
use super::delete::{clear, clear_except, in_the_way, is_half_deleted, prove_all};
use super::{Existing, check_place, find, put_documents};
use crate::error::{Error, Result};
use crate::journal::{Ground, Intent, Journal, Left, Work};
use crate::meta::path::{join, shown};
use crate::meta::write::Stored;
use crate::meta::{Format, Json};
use crate::store::StoreExt as _;
use crate::store::wrap::prefix::PrefixStore;
use crate::store::{REPLACEMENT, SharedStore};

/// Where in [`REPLACEMENT`] the new node is created, so that the folder itself is not a node.
const ROOT: &str = "zarr";

/// The documents of a node, in the order in which they are put.
const DOCUMENTS: [&str; 5] = [".zattrs", ".zgroup", ".zarray", "zarr.json", ".zmetadata"];

/// Objects copied concurrently.
const AT_ONCE: usize = 32;

/// The place where a node is created.
#[derive(Debug)]
pub(crate) struct Room {
    /// Its destination.
    store: SharedStore,
    path: String,
    existing: Existing,
    /// The temporary place, if it is created aside.
    aside: Option<SharedStore>,
}

#[async_trait]
impl Ground for Room {
    async fn in_the_way(&self, _: Option<&Json>) -> Result<Option<Json>> {
        in_the_way(&self.store, &self.path, self.existing).await
    }

    async fn clear(&self, _: &Json) -> Result<()> {
        self.clear().await
    }
}

impl Room {
    /// The place for a new node at `path`: the path itself, or a temporary one inside, if a complete node is to be
    /// replaced. A complete replacement left by a killed process is finished.
    pub(crate) async fn find(store: &SharedStore, path: &str, existing: Existing) -> Result<Self> {
        let mut room = Self { store: store.clone(), path: path.to_owned(), existing, aside: None };
        if existing == Existing::Refuse {
            return Ok(room);
        }
        let left = Left::find(store, path).await?;
        if let Some(left) = left.as_ref().filter(|left| left.is_aside()) {
            left.refuse_alive()?;
            room.aside = Some(room.inner()?);
            room.finish_of(left).await?;
        }
        // Unfinished data need not be kept.
        let settled = Left::find(store, path).await?.is_none_or(|left| left.is_aside());
        let keep =
            settled && !is_half_deleted(store, path).await? && !matches!(find(store, path).await, Ok(None));
        room.aside = if keep { Some(room.inner()?) } else { None };
        Ok(room)
    }

    fn inner(&self) -> Result<SharedStore> {
        Ok(Arc::new(PrefixStore::new(self.store.clone(), &self.whole())?))
    }

    fn folder(&self) -> String {
        join(&self.path, REPLACEMENT)
    }

    /// The path of the complete replacement.
    fn whole(&self) -> String {
        join(&self.folder(), ROOT)
    }

    /// The store in which it is created, at [`Room::path`].
    pub(crate) fn store(&self) -> &SharedStore {
        self.aside.as_ref().unwrap_or(&self.store)
    }

    pub(crate) fn path(&self) -> &str {
        if self.is_aside() { "" } else { &self.path }
    }

    /// Whether it is created aside, before it replaces the old node.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Deletes what is in the way of a new start: everything in the place, or what an earlier run left aside.
    pub(crate) async fn clear(&self) -> Result<()> {
        if self.is_aside() {
            // Processes that started before the journal was put count.
            prove_all(&self.store, &self.path).await?;
            if matches!(find(&self.store, &self.path).await, Ok(None)) {
                return Err(Error::conflict("it was deleted by somebody else just now; rerun the command")
                    .with_node(shown(&self.path))
                    .with_store(&self.store));
            }
        }
        self.discard().await
    }

    /// Deletes what was created.
    pub(crate) async fn discard(&self) -> Result<()> {
        match self.is_aside() {
            true => self.store.delete_prefix(&self.folder()).await,
            false => clear(&self.store, &self.path).await,
        }
    }

    /// Finishes: everything is created. A replacement is put in place.
    pub(crate) async fn finish(&self, journal: &Journal) -> Result<()> {
        if !self.is_aside() {
            return journal.end().await;
        }
        // Only a Zarr is replaced, whatever others put there meanwhile.
        prove_all(&self.store, &self.path).await?;
        // From here on it is not resumed, but finished.
        journal.set_aside("whole").await?;
        self.put_in_place(journal).await
    }

    /// Finishes a complete replacement left by a killed process.
    async fn finish_of(&self, left: &Left) -> Result<()> {
        match left.aside() {
            Some("whole") if find(self.store(), "").await?.is_some() => {
                prove_all(&self.store, &self.path).await?;
                self.put_in_place(&left.own().await?).await
            }
            Some("placed") => self.placed(&left.own().await?, &[]).await,
            _ => Ok(()),
        }
    }

    async fn put_in_place(&self, journal: &Journal) -> Result<()> {
        let Self { store, path, .. } = self;
        // Consolidated metadata of the old node must not describe the new one.
        let suspended = suspend_above(store, path).await?;
        if store.promote(path, &join(REPLACEMENT, ROOT)).await? {
            // The journal was removed with the old node.
            return resume_above(store, path, &suspended).await;
        }
        // Before deleting the old node: puts still work here, and the place is ours.
        journal.write().await?;
        clear_except(store, path, &[REPLACEMENT]).await?;
        self.copy_back(journal).await?;
        self.placed(journal, &suspended).await
    }

    /// Copies the new node, object by object, to its place. Documents come after everything else, those of the root
    /// last, so that nobody finds half an array.
    async fn copy_back(&self, journal: &Journal) -> Result<()> {
        let (store, from) = (&self.store, self.whole());
        let to = |key: &str| join(&self.path, key.strip_prefix(&from).unwrap_or(key).trim_start_matches('/'));
        let rank = |key: &str| DOCUMENTS.iter().position(|name| key.rsplit('/').next() == Some(name));
        let documents = Mutex::new(Vec::new());
        store
            .keys(&from)
            .try_for_each_concurrent(AT_ONCE, |entry| {
                let (to, documents) = (to(&entry.key), &documents);
                let rank = rank(&entry.key);
                async move {
                    if let Some(rank) = rank {
                        let depth = usize::MAX - entry.key.split('/').count();
                        documents
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((depth, rank, entry.key));
                        return Ok(());
                    }
                    journal.beat().await?;
                    store.copy_object(&entry.key, &to).await
                }
            })
            .await?;
        let mut documents = documents.into_inner().unwrap_or_else(PoisonError::into_inner);
        documents.sort();
        for (_, _, key) in documents {
            store.copy_object(&key, &to(&key)).await?;
        }
        Ok::<_, Error>(())
    }

    /// The new node is in place; deletes the temporary place and updates the groups above, also those that were
    /// `suspended`.
    async fn placed(&self, journal: &Journal, suspended: &[String]) -> Result<()> {
        journal.set_aside("placed").await?;
        self.store.delete_prefix(&self.folder()).await?;
        resume_above(&self.store, &self.path, suspended).await?;
        journal.end().await
    }
}

/// Replaces a complete node at `path` by one that consists of documents alone. `false` if there is none, and nothing
/// was done.
pub(super) async fn by_documents(
    store: &SharedStore,
    path: &str,
    format: Format,
    stored: &Stored,
) -> Result<bool> {
    check_place(store, path, format).await?;
    let room = Room::find(store, path, Existing::Replace).await?;
    if !room.is_aside() {
        return Ok(false);
    }
    let nothing = Json::object;
    let intent = Intent { operation: "create", source: nothing(), options: nothing(), plan: nothing() };
    let (journal, _) = Journal::begin(&Work {
        store,
        path,
        intent: &intent,
        existing: Existing::Replace,
        whole: true,
        aside: true,
        anew: true,
        ground: &room,
    })
    .await?;
    let made = async {
        put_documents(room.store(), room.path(), format, stored.clone(), true).await?;
        room.finish(&journal).await
    };
    match made.await {
        Ok(()) => Ok(true),
        Err(e) if journal.is_whole_aside() => Err(journal.told(e).await),
        Err(e) => {
            // The original error is reported.
            if room.discard().await.is_ok() {
                let _ = journal.end().await;
            }
            Err(e)
        }
    }
}
