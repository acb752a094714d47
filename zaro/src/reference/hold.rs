//! What is kept between lookups: bounded, the least recently used leaving first, and made once for all who ask for it
//! at the same time.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::error::Result;
use crate::store::fault::copy_of;

/// What the tables take for each value.
const FLAT: usize = 256;

/// Values by key, up to a number of bytes.
pub(in crate::reference) struct Hold<K, V> {
    capacity: usize,
    state: Mutex<State<K, V>>,
}

type Cell<V> = Arc<OnceCell<Result<Arc<V>>>>;

struct State<K, V> {
    held: HashMap<K, Held<V>>,
    /// Keys by time of last use.
    order: BTreeMap<u64, K>,
    clock: u64,
    bytes: usize,
}

struct Held<V> {
    cell: Cell<V>,
    used: u64,
    bytes: usize,
}

impl<K, V> fmt::Debug for Hold<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({} bytes)", self.capacity)
    }
}

impl<K: Hash + Eq + Clone, V> Hold<K, V> {
    /// Keeps up to `capacity` bytes; the value made last is kept in any case.
    pub(in crate::reference) fn new(capacity: usize) -> Self {
        let state = State { held: HashMap::new(), order: BTreeMap::new(), clock: 0, bytes: 0 };
        Self { capacity, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `key`, made if it is not held. Those who wait for one that fails get the failure, which is not
    /// kept.
    pub(in crate::reference) async fn get(
        &self,
        key: K,
        cost: impl FnOnce(&V) -> usize,
        make: impl Future<Output = Result<V>>,
    ) -> Result<Arc<V>> {
        let cell = self.cell(&key);
        if let Some(Ok(value)) = cell.get() {
            return Ok(value.clone());
        }
        let mut ours = false;
        let made = cell.get_or_init(|| {
            ours = true;
            async { make.await.map(Arc::new) }
        });
        let made = made.await;
        if ours {
            self.settle(&key, &cell, made.as_ref().ok().map(|v| cost(v)));
        }
        match made {
            Ok(value) => Ok(value.clone()),
            Err(e) => Err(copy_of(e)),
        }
    }

    fn cell(&self, key: &K) -> Cell<V> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.clock += 1;
        let now = state.clock;
        state.order.insert(now, key.clone());
        if let Some(held) = state.held.get_mut(key) {
            state.order.remove(&held.used);
            held.used = now;
            return held.cell.clone();
        }
        let cell = Cell::default();
        state.held.insert(key.clone(), Held { cell: cell.clone(), used: now, bytes: FLAT });
        state.bytes = state.bytes.saturating_add(FLAT);
        cell
    }

    /// Counts what was made, or forgets what failed, if it is still held; makes room.
    fn settle(&self, key: &K, cell: &Cell<V>, cost: Option<usize>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(held) = state.held.get_mut(key).filter(|h| Arc::ptr_eq(&h.cell, cell)) else { return };
        match cost {
            None => {
                state.order.remove(&held.used);
                state.bytes = state.bytes.saturating_sub(held.bytes);
                state.held.remove(key);
            }
            Some(cost) => {
                held.bytes = held.bytes.saturating_add(cost);
                state.bytes = state.bytes.saturating_add(cost);
            }
        }
        while state.bytes > self.capacity && state.order.len() > 1 {
            let Some((_, oldest)) = state.order.pop_first() else { break };
            if let Some(gone) = state.held.remove(&oldest) {
                state.bytes = state.bytes.saturating_sub(gone.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Error;

    #[tokio::test]
    async fn many_who_ask_at_once_share_one_making_and_one_failure() {
        let hold: Hold<u32, u32> = Hold::new(1 << 20);
        let made = AtomicUsize::new(0);
        let ask = |fail: bool| {
            let made = &made;
            hold.get(7, |_| 4, async move {
                made.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                if fail { Err(Error::invalid("no")) } else { Ok(9) }
            })
        };
        let failed = futures::future::join_all((0..10).map(|_| ask(true))).await;
        assert!(failed.iter().all(Result::is_err));
        assert_eq!(made.swap(0, Ordering::Relaxed), 1);
        let good = futures::future::join_all((0..10).map(|_| ask(false))).await;
        assert!(good.iter().all(|v| **v.as_ref().unwrap() == 9));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn room_is_made_by_the_least_recently_used() {
        let hold: Hold<u32, u32> = Hold::new(4 * (FLAT + 100));
        let made = AtomicUsize::new(0);
        for key in [0, 1, 2, 3, 0, 4, 0, 1] {
            let count = async {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(key)
            };
            assert_eq!(*hold.get(key, |_| 100, count).await.unwrap(), key);
        }
        // Only 1 was driven out, by 4, and had to be made again.
        assert_eq!(made.load(Ordering::Relaxed), 6);
        assert!(hold.lock().bytes <= hold.capacity);
    }
}
