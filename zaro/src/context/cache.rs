//! An in-memory LRU cache of limited size, for values that may be needed again.

use std::any::Any;
use std::collections::hash_map::{Entry, RandomState};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::error::{Error, Result};

/// Bookkeeping memory per value.
const FLAT: usize = 200;

/// The key of a value: its owner, and which of the owner's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) owner: u64,
    pub(crate) part: [u64; 4],
}

/// A value of any kind.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// A value that is being made, or has been.
type Cell<V> = OnceCell<std::result::Result<Arc<V>, Arc<Error>>>;

/// Values by key.
pub(crate) struct Cache {
    capacity: AtomicUsize,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    /// By owner first, so that all values of one can be dropped.
    held: HashMap<u64, HashMap<[u64; 4], CachedValue>>,
    /// Keys by time of last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
}

struct CachedValue {
    value: Value,
    bytes: usize,
    used: u64,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.lock().bytes, self.capacity())
    }
}

/// A unique owner number.
pub(crate) fn owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Hashes a key that is not a number. Collisions are not to be expected: it has 128 bits, and is seeded randomly.
pub(crate) fn hashed(what: impl Hash) -> [u64; 2] {
    static STATE: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    let [a, b] = &*STATE;
    [a.hash_one(&what), b.hash_one(&what)]
}

impl CacheState {
    fn held(&mut self, key: &Key) -> Option<&mut CachedValue> {
        self.held.get_mut(&key.owner)?.get_mut(&key.part)
    }

    fn get(&mut self, key: &Key) -> Option<Value> {
        let now = self.clock + 1;
        let held = self.held(key)?;
        let (value, used) = (held.value.clone(), std::mem::replace(&mut held.used, now));
        self.clock = now;
        self.order.remove(&used);
        self.order.insert(now, *key);
        Some(value)
    }

    fn remove(&mut self, key: &Key) -> Option<Value> {
        let Entry::Occupied(mut parts) = self.held.entry(key.owner) else { return None };
        let held = parts.get_mut().remove(&key.part)?;
        if parts.get().is_empty() {
            parts.remove();
        }
        self.order.remove(&held.used);
        self.bytes -= held.bytes;
        Some(held.value)
    }

    fn put(&mut self, key: Key, value: Value, bytes: usize) -> Option<Value> {
        let old = self.remove(&key);
        self.clock += 1;
        self.held
            .entry(key.owner)
            .or_default()
            .insert(key.part, CachedValue { value, bytes, used: self.clock });
        self.order.insert(self.clock, key);
        self.bytes += bytes;
        old
    }

    /// Evicts values until they fit `capacity`, but never the one used last.
    fn make_room(&mut self, capacity: usize, gone: &mut Vec<Value>) {
        while self.bytes > capacity && self.order.len() > 1 {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            let oldest = *oldest;
            gone.extend(self.remove(&oldest));
        }
    }
}

impl Cache {
    /// A cache of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: AtomicUsize::new(capacity), state: Mutex::default() }
    }

    fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity.
    pub(crate) fn resize(&self, capacity: usize) {
        let mut gone = Vec::new();
        let mut state = self.lock();
        self.capacity.store(capacity, Ordering::Relaxed);
        state.make_room(capacity, &mut gone);
        // Dropped without the lock: it may take long.
        drop(state);
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of bytes cached.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns the value of a key.
    pub(crate) fn get<V: Any + Send + Sync>(&self, key: &Key) -> Option<Arc<V>> {
        self.lock().get(key)?.downcast().ok()
    }

    /// Whether a value is cached; does not count as a use.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.lock().held(key).is_some()
    }

    /// Whether a value of `bytes` would be cached: not if it takes more than a quarter of the capacity.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes <= self.capacity() / 4
    }

    /// Caches `value`, if [`Cache::takes`] allows it. Evicted values are returned, so that their memory can be reused.
    pub(crate) fn put(&self, key: Key, value: Value, bytes: usize) -> Vec<Value> {
        if !self.takes(bytes) {
            return Vec::new();
        }
        let mut state = self.lock();
        let mut gone = Vec::from_iter(state.put(key, value, bytes.saturating_add(FLAT)));
        state.make_room(self.capacity(), &mut gone);
        gone
    }

    /// Returns the value of a key, made if it is not cached: once for all concurrent callers. If that fails, all of
    /// them share the error, which is not cached. A value made this way is cached whatever its size, if need be alone.
    pub(crate) async fn get_or_make<V: Any + Send + Sync>(
        &self,
        key: Key,
        cost: impl FnOnce(&V) -> usize,
        make: impl Future<Output = Result<V>>,
    ) -> std::result::Result<Arc<V>, Arc<Error>> {
        let cell = {
            let mut state = self.lock();
            let cell = match state.get(&key).map(|value| value.downcast::<V>()) {
                Some(Ok(made)) => return Ok(made),
                Some(Err(value)) => value.downcast::<Cell<V>>().ok(),
                None => None,
            };
            cell.unwrap_or_else(|| {
                let cell = Arc::<Cell<V>>::default();
                drop(state.put(key, cell.clone(), FLAT));
                cell
            })
        };
        let mut ours = false;
        let made = cell.get_or_init(|| {
            ours = true;
            async { make.await.map(Arc::new).map_err(Arc::new) }
        });
        let made = made.await;
        if ours {
            let mut gone = Vec::new();
            let mut state = self.lock();
            let address = Arc::as_ptr(&cell).cast::<()>();
            // Dropped or evicted meanwhile, perhaps with another in its place: then there is nothing to cache.
            if state.held(&key).is_some_and(|h| Arc::as_ptr(&h.value).cast::<()>() == address) {
                match made {
                    Ok(value) => {
                        let bytes = cost(value).saturating_add(FLAT);
                        gone.extend(state.put(key, value.clone(), bytes));
                        state.make_room(self.capacity(), &mut gone);
                    }
                    Err(_) => gone.extend(state.remove(&key)),
                }
            }
            drop(state);
        }
        made.clone()
    }

    /// Drops the value of a key.
    pub(crate) fn forget(&self, key: &Key) {
        let gone = self.lock().remove(key);
        drop(gone);
    }

    /// Drops all values of an owner.
    pub(crate) fn forget_owner(&self, owner: u64) {
        let mut state = self.lock();
        let gone = state.held.remove(&owner);
        for held in gone.iter().flat_map(HashMap::values) {
            state.order.remove(&held.used);
            state.bytes -= held.bytes;
        }
        // Dropped without the lock: it may take long.
        drop(state);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn key(n: u64) -> Key {
        Key { owner: n / 10, part: [n, 0, 0, 0] }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = Cache::new(4 * (FLAT + 100));
        let put = |n: u64| cache.put(key(n), Arc::new(n), 100);
        assert!((0..4).all(|n| put(n).is_empty()));
        assert_eq!(cache.get::<u64>(&key(0)).as_deref(), Some(&0));
        let gone: Vec<_> = put(40).into_iter().filter_map(|v| v.downcast::<u64>().ok()).collect();
        assert_eq!(gone, [Arc::new(1)]);
        assert!(cache.get::<u64>(&key(1)).is_none());
        assert!(cache.put(key(5), Arc::new(5u64), 2 * (FLAT + 100)).is_empty(), "too large to keep");
        assert!(cache.get::<u64>(&key(5)).is_none());
        cache.forget_owner(0);
        assert_eq!(cache.bytes(), FLAT + 100);
        cache.forget(&key(40));
        assert_eq!(cache.bytes(), 0);
    }

    #[tokio::test]
    async fn many_who_ask_at_once_share_one_making_and_one_failure() {
        let cache = Cache::new(1 << 20);
        let made = AtomicUsize::new(0);
        let ask = |fail: bool| {
            let made = &made;
            cache.get_or_make(key(7), |_: &u32| 4, async move {
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
    async fn what_was_made_last_is_kept_even_if_it_is_large() {
        let cache = Cache::new(4 * (FLAT + 100));
        let made = AtomicUsize::new(0);
        for (n, bytes, wanted) in
            [(0, 100, 1), (1, 100, 2), (2, 5000, 3), (2, 5000, 3), (3, 100, 4), (2, 100, 5)]
        {
            let make = async {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(n)
            };
            assert_eq!(*cache.get_or_make(key(n), |_| bytes, make).await.unwrap(), n);
            assert_eq!(made.load(Ordering::Relaxed), wanted, "{n} {bytes}");
        }
        assert!(cache.bytes() <= cache.capacity());
    }
}
