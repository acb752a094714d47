//! The manifests in memory: each is fetched once, however many ask for it at once, and the least recently used go when
//! there is no room.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use super::id::Id;
use super::manifest::Manifest;
use crate::error::Result;

type Cell = Arc<OnceCell<Arc<Manifest>>>;

/// Manifests by id, bounded in bytes.
#[derive(Debug)]
pub(super) struct Manifests {
    capacity: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<Id, Held>,
    /// Ids by time of last use.
    order: BTreeMap<u64, Id>,
    bytes: u64,
    clock: u64,
}

#[derive(Debug)]
struct Held {
    cell: Cell,
    bytes: u64,
    used: u64,
}

impl Manifests {
    /// At most `capacity` bytes, or the one that was asked for last if that alone is larger.
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, state: Mutex::default() }
    }

    /// The manifest `id`; `fetch` gets it if it is not there.
    pub(super) async fn get<F: Future<Output = Result<Manifest>>>(
        &self,
        id: Id,
        fetch: impl FnOnce() -> F,
    ) -> Result<Arc<Manifest>> {
        let cell = self.cell(id);
        let manifest = cell.get_or_try_init(|| async { fetch().await.map(Arc::new) }).await?.clone();
        self.weigh(id, &cell, manifest.bytes());
        Ok(manifest)
    }

    fn cell(&self, id: Id) -> Cell {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        state.clock += 1;
        let now = state.clock;
        let fresh = || Held { cell: Cell::default(), bytes: 0, used: now };
        let held = state.held.entry(id).or_insert_with(fresh);
        state.order.remove(&held.used);
        held.used = now;
        state.order.insert(now, id);
        held.cell.clone()
    }

    /// Counts what has come, and makes room.
    fn weigh(&self, id: Id, cell: &Cell, bytes: u64) {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        match state.held.get_mut(&id) {
            Some(held) if Arc::ptr_eq(&held.cell, cell) && held.bytes == 0 => held.bytes = bytes,
            _ => return,
        }
        state.bytes = state.bytes.saturating_add(bytes);
        while state.bytes > self.capacity {
            // What is still on its way has no weight yet.
            let old = |(_, other): &(&u64, &Id)| {
                **other != id && state.held.get(other).is_some_and(|h| h.bytes > 0)
            };
            let Some((used, oldest)) = state.order.iter().find(old).map(|(used, id)| (*used, *id)) else {
                break;
            };
            state.order.remove(&used);
            if let Some(gone) = state.held.remove(&oldest) {
                state.bytes = state.bytes.saturating_sub(gone.bytes);
            }
        }
    }
}
