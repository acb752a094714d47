//! Creating nodes that become visible only when complete.
//!
//! A journal reserves the place. Then the node is created in it, in a store that withholds its documents
//! ([`WithholdStore`]): chunks go to their places at once, but are not reachable yet. When everything is complete the
//! documents are put, the one that makes it a node last, and the journal is deleted. If creation fails, nothing is
//! left. The remains of a killed process are recognised by the journal: rerunning the command deletes them and starts
//! over. Once the node is there, it is complete, though its journal may be left.

use std::sync::Arc;

use async_trait::async_trait;

use crate::array::Array;
use crate::boxed;
use crate::error::{Error, Result};
use crate::hierarchy::{self, Existing, Room};
use crate::journal::{Ground, Intent, Journal, Left, Work};
use crate::meta::path::{ancestors, normal, shown};
use crate::meta::{ArrayMeta, Format, Json, Mode, write};
use crate::store::StoreExt as _;
use crate::store::wrap::prefix::PrefixStore;
use crate::store::wrap::withhold::WithholdStore;
use crate::store::{JOURNAL, Listing, SharedStore};

/// An array being filled, which becomes visible when complete. If dropped, it is left as by a killed process.
#[derive(Debug)]
pub struct Creating {
    /// The array: write its elements to it.
    pub array: Array,
    store: SharedStore,
    path: String,
    meta: ArrayMeta,
    existing: Existing,
    place: ClaimedNode,
}

/// Starts an array with this metadata, and creates the groups above it.
#[boxed]
pub async fn array(
    store: &SharedStore,
    path: &str,
    meta: &ArrayMeta,
    existing: Existing,
) -> Result<Creating> {
    let (store, path, meta) = (store.clone(), normal(path)?, meta.clone());
    let new = New::array(&store, &path, meta.format, existing);
    let place = new.take().await?;
    let array = match hierarchy::create_from(&place.hidden, "", meta.clone(), Existing::Refuse).await {
        Ok(array) => array.unseen(),
        Err(e) => return new.finish(place, Err(e)).await,
    };
    Ok(Creating { array, store, path, meta, existing, place })
}

impl Creating {
    /// Fails if somebody else has taken over the place; to be called from time to time.
    #[boxed]
    pub async fn check(&self) -> Result<()> {
        self.place.journal.beat().await
    }

    /// Makes the array visible if it is `filled`; otherwise removes it.
    #[boxed]
    pub async fn finish(self, filled: Result<()>) -> Result<Array> {
        let Self { array, store, path, meta, existing, place } = self;
        New::array(&store, &path, meta.format, existing).finish(place, filled).await?;
        let made = Array::new(store.clone(), &path, meta, Mode::Strict, Vec::new(), array.context());
        made.map(Array::announced)
    }
}

/// Finishes a killed [`array()`], if its array is there. Fails if one is still running.
#[boxed]
pub async fn finish_array(store: &SharedStore, path: &str) -> Result<()> {
    // The version does not matter here.
    New::array(store, &normal(path)?, Format::V3, Existing::Refuse).finish_left().await
}

/// The version of a new node at the normalised path `path`: as requested, else that of its parent group, else 3.
#[boxed]
pub async fn format_for(store: &SharedStore, path: &str, asked: Option<Format>) -> Result<Format> {
    if let Some(format) = asked {
        return Ok(format);
    }
    for above in ancestors(path).into_iter().rev() {
        if let Some(node) = hierarchy::find(store, above).await? {
            return Ok(node.meta.format());
        }
    }
    Ok(Format::V3)
}

/// A node to be created.
pub(crate) struct New<'a> {
    pub(crate) store: &'a SharedStore,
    pub(crate) path: &'a str,
    pub(crate) format: Format,
    /// The command.
    pub(crate) operation: &'static str,
    pub(crate) existing: Existing,
    pub(crate) list: &'a dyn NodeList,
}

/// Something that lists new nodes, such as the labels of an image.
#[async_trait]
pub(crate) trait NodeList: Sync {
    /// Called after the node appears, or before it is removed. May be repeated.
    async fn tell(&self, there: bool) -> Result<()>;
}

/// Nothing lists it.
#[async_trait]
impl NodeList for () {
    async fn tell(&self, _: bool) -> Result<()> {
        Ok(())
    }
}

/// A place reserved for a new node.
#[derive(Debug)]
pub(crate) struct ClaimedNode {
    /// The store in whose root the node is created.
    pub(crate) hidden: SharedStore,
    pub(crate) journal: Journal,
    room: Room,
    withheld: Arc<WithholdStore>,
}

impl<'a> New<'a> {
    fn array(store: &'a SharedStore, path: &'a str, format: Format, existing: Existing) -> Self {
        Self { store, path, format, operation: "write --create", existing, list: &() }
    }

    /// Reserves the place.
    pub(crate) async fn take(&self) -> Result<ClaimedNode> {
        let Self { store, path, .. } = self;
        hierarchy::check_place(store, path, self.format).await?;
        self.finish_left().await?;
        let room = Room::find(store, path, self.existing).await?;
        let inside = Arc::new(PrefixStore::new(room.store().clone(), room.path())?);
        let withheld = Arc::new(WithholdStore::all(inside));
        let journal = self.begin(&room).await?;
        Ok(ClaimedNode { hidden: withheld.clone(), journal, room, withheld })
    }

    /// Publishes what was created, or removes it.
    pub(crate) async fn finish<T>(&self, place: ClaimedNode, made: Result<T>) -> Result<T> {
        let ClaimedNode { journal, room, .. } = &place;
        let published = async {
            let made = made?;
            // The place is still ours.
            journal.write().await?;
            place.withheld.release().await?;
            publish(&place.hidden, room.store(), room.path()).await?;
            if !room.is_aside() {
                self.list.tell(true).await?;
            }
            room.finish(journal).await?;
            Ok(made)
        };
        match published.await {
            // The old node was listed if this one is.
            Ok(made) if room.is_aside() => self.list.tell(true).await.map(|()| made),
            Ok(made) => Ok(made),
            // The original error is reported.
            Err(e) => match self.remove(room, journal).await {
                Ok(true) => Err(e),
                _ => Err(journal.told(e).await),
            },
        }
    }

    async fn begin(&self, room: &Room) -> Result<Journal> {
        let nothing = Json::object;
        let intent =
            Intent { operation: self.operation, source: nothing(), options: nothing(), plan: nothing() };
        let work = Work {
            store: self.store,
            path: self.path,
            intent: &intent,
            existing: self.existing,
            whole: true,
            aside: room.is_aside(),
            anew: true,
            ground: &Empty { new: self, room },
        };
        Ok(Journal::begin(&work).await?.0)
    }

    /// Finishes a killed run whose node was already there: it may have been changed since.
    async fn finish_left(&self) -> Result<()> {
        let Self { store, path, .. } = self;
        let left = Left::find(store, path).await?;
        let Some(left) = left.filter(|left| left.is(self.operation) && !left.is_aside()) else {
            return Ok(());
        };
        left.refuse_alive()?;
        if !left.is_dead() || !matches!(hierarchy::find(store, path).await, Ok(Some(_))) {
            return Ok(());
        }
        let journal = left.own().await?;
        hierarchy::consolidate_above(store, path).await?;
        self.list.tell(true).await?;
        journal.end().await
    }

    /// Removes an incomplete node, and returns whether everything is as before. What may be visible stays, together
    /// with the journal.
    async fn remove(&self, room: &Room, journal: &Journal) -> Result<bool> {
        let Self { store, path, .. } = self;
        // Nothing is put: the disk may be full.
        journal.check().await?;
        let remove = match room.is_aside() {
            true => !journal.is_whole_aside(),
            false => {
                hierarchy::find(store, path).await?.is_none() && hierarchy::is_new(&store.list(path).await?)
            }
        };
        if remove {
            room.discard().await?;
            journal.end().await?;
        }
        Ok(remove && !journal.has_cleared())
    }
}

/// A place that must be empty, except for remains of the same command.
pub(crate) struct Empty<'a> {
    pub(crate) new: &'a New<'a>,
    pub(crate) room: &'a Room,
}

#[async_trait]
impl Ground for Empty<'_> {
    async fn in_the_way(&self, left: Option<&Json>) -> Result<Option<Json>> {
        let New { store, path, existing, operation, .. } = self.new;
        if left.is_none() || *existing == Existing::Replace {
            let found = hierarchy::in_the_way(store, path, *existing).await?;
            let mut there = store.list(path).await?;
            // An operation may have just started: reserving the place detects that.
            there.objects.retain(|name| name != JOURNAL);
            if *existing == Existing::Refuse && there != Listing::default() {
                return Err(Error::usage("something already exists here")
                    .with_hint("overwrite", "replaces it")
                    .with_node(shown(path))
                    .with_store(store));
            }
            return Ok(found);
        }
        if !hierarchy::is_new(&store.list(path).await?) {
            return Err(Error::usage(format!(
                "an unfinished `zaro {operation}` is here, along with other files; move or delete those first"
            ))
            .with_node(shown(path))
            .with_store(store));
        }
        hierarchy::in_the_way(store, path, Existing::Replace).await
    }

    async fn clear(&self, _: &Json) -> Result<()> {
        if !self.room.is_aside() {
            self.new.list.tell(false).await?;
        }
        self.room.clear().await
    }
}

/// The place at `path` as a separate store, whose root is not a node for others.
#[cfg(feature = "image")]
pub(crate) fn withheld(store: &SharedStore, path: &str) -> Result<SharedStore> {
    Ok(Arc::new(WithholdStore::new(Arc::new(PrefixStore::new(store.clone(), path)?))))
}

/// Puts the withheld documents, and updates consolidated metadata above.
pub(crate) async fn publish(hidden: &SharedStore, store: &SharedStore, path: &str) -> Result<()> {
    let node = hierarchy::find(hidden, "").await?;
    let node =
        node.ok_or_else(|| Error::usage("nothing was created").with_node(shown(path)).with_store(store))?;
    let stored = write::as_stored(&node.meta);
    hierarchy::put_documents(store, path, node.meta.format(), stored, true).await?;
    hierarchy::consolidate_above(store, path).await
}
