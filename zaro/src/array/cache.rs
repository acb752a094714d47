//! What a reader keeps from one read to the next, bounded in bytes.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The least recently used values go first when there is no room.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    capacity: usize,
    turn: Mutex<()>,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K, V> {
    values: HashMap<K, Held<V>>,
    /// Keys by time of last use.
    order: BTreeMap<u64, K>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Held<V> {
    value: Arc<V>,
    bytes: usize,
    used: u64,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// A cache of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { values: HashMap::new(), order: BTreeMap::new(), bytes: 0, clock: 0 };
        Self { capacity, turn: Mutex::default(), state: Mutex::new(state) }
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        let held = state.values.get_mut(key)?;
        state.clock += 1;
        state.order.remove(&held.used);
        held.used = state.clock;
        state.order.insert(state.clock, key.clone());
        Some(held.value.clone())
    }

    /// The value of `key`, or a new one from `make`, kept at once so that all who ask get the same.
    pub(crate) fn get_or_put(&self, key: K, bytes: usize, make: impl FnOnce() -> V) -> Arc<V> {
        // Held between looking and putting.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.get(&key).unwrap_or_else(|| {
            let value = Arc::new(make());
            self.put(key, value.clone(), bytes);
            value
        })
    }

    /// Forgets the value of `key`.
    pub(crate) fn forget(&self, key: &K) {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = guard.values.remove(key) {
            guard.order.remove(&held.used);
            guard.bytes -= held.bytes;
        }
    }

    /// Whether a value of `bytes` would be kept: not if it alone would take more than a quarter of the room.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes <= self.capacity / 4
    }

    /// Keeps `value`, if [`Cache::takes`] says so. What had to go for it is given back.
    pub(crate) fn put(&self, key: K, value: Arc<V>, bytes: usize) -> Option<Arc<V>> {
        if !self.takes(bytes) {
            return None;
        }
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        state.clock += 1;
        let used = state.clock;
        let mut gone = None;
        if let Some(old) = state.values.insert(key.clone(), Held { value, bytes, used }) {
            state.order.remove(&old.used);
            state.bytes -= old.bytes;
            gone = Some(old.value);
        }
        state.order.insert(used, key);
        state.bytes += bytes;
        while state.bytes > self.capacity {
            let Some((_, oldest)) = state.order.pop_first() else { break };
            if let Some(held) = state.values.remove(&oldest) {
                state.bytes -= held.bytes;
                gone = Some(held.value);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = Cache::new(100);
        for k in 0..4 {
            cache.put(k, Arc::new(k), 25);
        }
        assert!(cache.get(&0).is_some());
        cache.put(4, Arc::new(4), 25);
        assert!(cache.get(&1).is_none());
        assert!(cache.get(&0).is_some());
        cache.put(5, Arc::new(5), 26);
        assert!(cache.get(&5).is_none(), "too large to keep");
    }
}
