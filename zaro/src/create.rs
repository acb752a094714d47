//! New nodes that nobody sees before they are whole.
//!
//! A place is taken by a journal. Then the node is made in it, in a store that holds its own documents back
//! ([`WithholdStore`]): chunks go to their places at once, but lead nowhere yet. When all is whole the
//! documents are put, the one that makes it a node last, and the journal goes. One that fails leaves nothing. What a killed
//! process left is known by the journal: the same command clears it away and begins anew. Once the node is there, it
//! is finished, though its journal may be left.

use std::sync::Arc;

use crate::array::{Array, DEFAULT_MEMORY};
use crate::blocking::wait;
use crate::error::{Error, Result};
use crate::hierarchy::{self, Existing, Room};
use crate::journal::{Intent, Journal, Left, Work};
use crate::meta::path::{ancestors, normal, shown};
use crate::meta::{ArrayMeta, Format, Json, Mode, write};
use crate::store::wrap::prefix::PrefixStore;
use crate::store::wrap::withhold::WithholdStore;
use crate::store::{JOURNAL, Listing, SharedStore};

/// Makes an array of these metadata, and the groups it lies in, and lets `fill` write its elements. Others see it when it is
/// whole. If `fill` fails, nothing of it stays. Blocks until it is done.
///
/// `fill` gets the array, and something to ask now and then whether the place is still ours.
pub fn array(
    store: &SharedStore,
    path: &str,
    meta: &ArrayMeta,
    existing: Existing,
    fill: impl FnOnce(&Array, &dyn Fn() -> Result<()>) -> Result<()>,
) -> Result<Array> {
    let path = normal(path)?;
    New::array(store, &path, meta.format, existing).make(|hidden, journal| {
        let array = wait(hierarchy::create_from(hidden, "", meta.clone(), Existing::Refuse))?;
        fill(&array, &|| journal.beat())
    })?;
    Array::new(store.clone(), &path, meta.clone(), Mode::Strict, Vec::new(), DEFAULT_MEMORY)
}

/// Finishes what an [`array()`] that was killed left, if its array is there. Fails if one is at work here.
pub fn finish_array(store: &SharedStore, path: &str) -> Result<()> {
    // The version decides about nothing here.
    New::array(store, &normal(path)?, Format::V3, Existing::Refuse).finish()
}

/// The version of a new node at the normal path `path`: what is asked for, else that of the group it lies in, else 3.
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

/// A node to be made.
pub(crate) struct New<'a> {
    pub(crate) store: &'a SharedStore,
    pub(crate) path: &'a str,
    pub(crate) format: Format,
    /// The command.
    pub(crate) operation: &'static str,
    pub(crate) existing: Existing,
    /// Done before what is there is cleared away.
    pub(crate) before: &'a dyn Fn() -> Result<()>,
    /// Done when the node is there; a second time does no harm.
    pub(crate) after: &'a dyn Fn() -> Result<()>,
}

impl<'a> New<'a> {
    fn array(store: &'a SharedStore, path: &'a str, format: Format, existing: Existing) -> Self {
        let operation = "write --create";
        Self { store, path, format, operation, existing, before: &|| Ok(()), after: &|| Ok(()) }
    }

    /// Takes the place, lets `make` make the node at the root of the store it gets, and publishes it.
    pub(crate) fn make<T>(&self, make: impl FnOnce(&SharedStore, &Journal) -> Result<T>) -> Result<T> {
        let Self { store, path, .. } = self;
        wait(hierarchy::check_place(store, path, self.format))?;
        self.finish()?;
        let room = Room::find(store, path, self.existing)?;
        let inside = Arc::new(PrefixStore::new(room.store().clone(), room.path())?);
        let withheld = Arc::new(WithholdStore::all(inside));
        let hidden: SharedStore = withheld.clone();
        let journal = self.begin(&room)?;
        let made = make(&hidden, &journal).and_then(|made| {
            // The place is still ours.
            journal.write()?;
            wait(withheld.release())?;
            publish(&hidden, room.store(), room.path())?;
            if !room.is_aside() {
                (self.after)()?;
            }
            Ok(made)
        });
        match made.and_then(|made| room.finish(&journal).map(|()| made)) {
            // What was there before was listed, if this is.
            Ok(made) if room.is_aside() => (self.after)().map(|()| made),
            Ok(made) => Ok(made),
            Err(e) => {
                // The fault itself is what has to be told.
                match self.remove(&room, &journal) {
                    Ok(true) => Err(e),
                    _ => Err(journal.told(e)),
                }
            }
        }
    }

    fn begin(&self, room: &Room) -> Result<Journal> {
        let Self { store, path, existing, .. } = self;
        let nothing = Json::object;
        let intent =
            Intent { operation: self.operation, source: nothing(), options: nothing(), plan: nothing() };
        let in_the_way = |left: Option<&Json>| {
            if left.is_none() || *existing == Existing::Replace {
                return in_the_way(store, path, *existing);
            }
            if !hierarchy::is_new(&wait(store.list(path))?) {
                return Err(Error::usage(format!(
                    "an unfinished `zaro {}` is here, and other things that it did not make; move or delete these first",
                    self.operation
                ))
                .with_node(shown(path))
                .with_store(store));
            }
            hierarchy::in_the_way(store, path, Existing::Replace)
        };
        let clear = |_: &Json| {
            if !room.is_aside() {
                (self.before)()?;
            }
            room.clear()
        };
        let work = Work {
            store,
            path,
            intent: &intent,
            existing: *existing,
            whole: true,
            aside: room.is_aside(),
            anew: true,
            in_the_way: &in_the_way,
            clear: &clear,
        };
        Ok(Journal::begin(&work)?.0)
    }

    /// What was killed when the node was there already is finished: it may have been changed since.
    fn finish(&self) -> Result<()> {
        let Self { store, path, .. } = self;
        let Some(left) = Left::find(store, path)?.filter(|left| left.is(self.operation) && !left.is_aside())
        else {
            return Ok(());
        };
        left.refuse_alive()?;
        if !left.is_dead() || !matches!(wait(hierarchy::find(store, path)), Ok(Some(_))) {
            return Ok(());
        }
        let journal = left.own()?;
        wait(hierarchy::consolidate_above(store, path))?;
        (self.after)()?;
        journal.end()
    }

    /// Removes what is not whole, and says whether all is as it was. What may be seen stays, and the journal with it.
    fn remove(&self, room: &Room, journal: &Journal) -> Result<bool> {
        let Self { store, path, .. } = self;
        // Nothing is put: perhaps there is no room.
        journal.check()?;
        let remove = match room.is_aside() {
            true => !journal.is_whole_aside(),
            false => {
                wait(hierarchy::find(store, path))?.is_none() && hierarchy::is_new(&wait(store.list(path))?)
            }
        };
        if remove {
            room.discard()?;
            journal.end()?;
        }
        Ok(remove && !journal.has_cleared())
    }
}

/// The place at `path` as a store of its own, whose root is no node for others.
#[cfg(feature = "image")]
pub(crate) fn withheld(store: &SharedStore, path: &str) -> Result<SharedStore> {
    Ok(Arc::new(WithholdStore::new(Arc::new(PrefixStore::new(store.clone(), path)?))))
}

/// Puts the documents that are held back, and renews the copies that groups above carry.
pub(crate) fn publish(hidden: &SharedStore, store: &SharedStore, path: &str) -> Result<()> {
    let node = wait(hierarchy::find(hidden, ""))?;
    let node =
        node.ok_or_else(|| Error::usage("nothing was made").with_node(shown(path)).with_store(store))?;
    let stored = write::as_stored(&node.meta);
    wait(hierarchy::put_documents(store, path, node.meta.format(), stored, true))?;
    wait(hierarchy::consolidate_above(store, path))
}

/// What has to be cleared away before something is made at `path`, as a journal notes it. Nothing may be there unless it
/// is to be replaced.
pub(crate) fn in_the_way(store: &SharedStore, path: &str, existing: Existing) -> Result<Option<Json>> {
    let found = hierarchy::in_the_way(store, path, existing)?;
    let mut there = wait(store.list(path))?;
    // Somebody may have begun just now: that is told by who takes the place.
    there.objects.retain(|name| name != JOURNAL);
    if existing == Existing::Refuse && there != Listing::default() {
        return Err(Error::usage("something is here already")
            .with_hint("overwrite", "replaces it")
            .with_node(shown(path))
            .with_store(store));
    }
    Ok(found)
}
