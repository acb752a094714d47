//! Room for something new, also where something old is: the old stays until the new is whole.
//!
//! What replaces a node is made inside of it, in [`REPLACEMENT`], where nobody finds it. A journal in the place says
//! so. When it is whole it is put in the place of the old: by one exchange of folders where the store can do that. Elsewhere,
//! in buckets, the journal says first that the new is whole; then the old goes, and the new is copied to its place object by object.
//! One that was killed there is finished by whoever comes to replace it next.

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

/// Where in [`REPLACEMENT`] the new is made, so that this itself is no node.
const ROOT: &str = "zarr";

/// What makes a node, in the order in which it is put.
const DOCUMENTS: [&str; 5] = [".zattrs", ".zgroup", ".zarray", "zarr.json", ".zmetadata"];

/// Objects copied at once.
const AT_ONCE: usize = 32;

/// Where something new is made.
#[derive(Debug)]
pub(crate) struct Room {
    /// Where it is to be.
    store: SharedStore,
    path: String,
    existing: Existing,
    /// Where it is made, if that is another place.
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
    /// Room at `path`: the place itself, or, if something whole is there that is to be replaced, one aside. What somebody
    /// who replaced it left when all was made is finished.
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
        // Of what is unfinished itself there is nothing whole to keep.
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

    /// Where the new is when it is whole.
    fn whole(&self) -> String {
        join(&self.folder(), ROOT)
    }

    /// The store in which it is made, at [`Room::path`].
    pub(crate) fn store(&self) -> &SharedStore {
        self.aside.as_ref().unwrap_or(&self.store)
    }

    pub(crate) fn path(&self) -> &str {
        if self.is_aside() { "" } else { &self.path }
    }

    /// Whether it is made beside what it replaces.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Deletes what is in the way of who begins: all that is in the place, or what an earlier run left aside.
    pub(crate) async fn clear(&self) -> Result<()> {
        if self.is_aside() {
            // Who was at work before the journal said whose place it is counts.
            prove_all(&self.store, &self.path).await?;
            if matches!(find(&self.store, &self.path).await, Ok(None)) {
                return Err(Error::conflict("somebody deleted it just now; rerun the command")
                    .with_node(shown(&self.path))
                    .with_store(&self.store));
            }
        }
        self.discard().await
    }

    /// Deletes what was made.
    pub(crate) async fn discard(&self) -> Result<()> {
        match self.is_aside() {
            true => self.store.delete_prefix(&self.folder()).await,
            false => clear(&self.store, &self.path).await,
        }
    }

    /// Ends the work: all is made. What was made aside is put in its place.
    pub(crate) async fn finish(&self, journal: &Journal) -> Result<()> {
        if !self.is_aside() {
            return journal.end().await;
        }
        // Nothing but a Zarr is replaced, whatever others put there meanwhile.
        prove_all(&self.store, &self.path).await?;
        // From here on it is not taken up, but finished.
        journal.set_aside("whole").await?;
        self.put_in_place(journal).await
    }

    /// Finishes what a killed run left when all was made, if it came so far.
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
        // Nobody is to know the new by what is carried of the old.
        let suspended = suspend_above(store, path).await?;
        if store.promote(path, &join(REPLACEMENT, ROOT)).await? {
            // The journal went with the old.
            return resume_above(store, path, &suspended).await;
        }
        // Before the old goes: something can still be put here, and the place is ours.
        journal.write().await?;
        clear_except(store, path, &[REPLACEMENT]).await?;
        self.copy_back(journal).await?;
        self.placed(journal, &suspended).await
    }

    /// Copies the new, object by object, to its place. Documents come after everything else, those of the root last, so that
    /// nobody finds half an array.
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

    /// The new is in its place; what is aside is deleted, and the groups above know it, also those that were `suspended`.
    async fn placed(&self, journal: &Journal, suspended: &[String]) -> Result<()> {
        journal.set_aside("placed").await?;
        self.store.delete_prefix(&self.folder()).await?;
        resume_above(&self.store, &self.path, suspended).await?;
        journal.end().await
    }
}

/// Replaces what is at `path`, if that is whole, by a node that consists of documents alone. `false` if nothing is, and
/// nothing was done.
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
            // The fault itself is what has to be told.
            if room.discard().await.is_ok() {
                let _ = journal.end().await;
            }
            Err(e)
        }
    }
}
