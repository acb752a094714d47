//! What was made or opened is kept for the next request: bounded in weight, made once however many ask, and made anew
//! when its source may have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use crate::answer::Fault;

/// Values by name, the least recently used of which are dropped when they weigh too much.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    slots: Mutex<HashMap<String, Slot<T>>>,
    /// The weight of all.
    budget: u64,
}

#[derive(Debug)]
struct Slot<T> {
    cell: Arc<OnceCell<Arc<T>>>,
    weight: u64,
    used: Instant,
    made: Instant,
}

impl<T> Kept<T> {
    /// Room for values that weigh `budget` together.
    pub(crate) fn new(budget: u64) -> Self {
        Self { slots: Mutex::default(), budget }
    }

    /// The value of this name, made now if there is none younger than `lasts`. Whoever asks meanwhile waits for it; if
    /// the one who makes it leaves, the next one makes it.
    pub(crate) async fn get(
        &self,
        name: &str,
        lasts: Option<Duration>,
        weigh: fn(&T) -> u64,
        make: BoxFuture<'_, Result<T, Fault>>,
    ) -> Result<Arc<T>, Fault> {
        let cell = self.cell(name, lasts);
        let mut is_new = false;
        let made = cell
            .get_or_try_init(|| async {
                is_new = true;
                make.await.map(Arc::new)
            })
            .await;
        match made {
            Ok(value) => {
                let value = value.clone();
                if is_new {
                    self.settle(name, &cell, weigh(&value));
                }
                Ok(value)
            }
            Err(fault) => {
                self.forget(name, &cell);
                Err(fault)
            }
        }
    }

    fn cell(&self, name: &str, lasts: Option<Duration>) -> Arc<OnceCell<Arc<T>>> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |slot: &Slot<T>| lasts.is_some_and(|lasts| now.duration_since(slot.made) > lasts);
        if let Some(slot) = slots.get_mut(name)
            && !(slot.cell.initialized() && is_old(slot))
        {
            slot.used = now;
            return slot.cell.clone();
        }
        let slot = Slot { cell: Arc::default(), weight: 0, used: now, made: now };
        let cell = slot.cell.clone();
        slots.insert(name.to_owned(), slot);
        cell
    }

    /// Notes the weight of a value that was made, and makes room for it.
    fn settle(&self, name: &str, cell: &Arc<OnceCell<Arc<T>>>, weight: u64) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        match slots.get_mut(name) {
            // Too large to be kept: it was for those who asked at the same time.
            Some(slot) if Arc::ptr_eq(&slot.cell, cell) && weight > self.budget => {
                slots.remove(name);
                return;
            }
            Some(slot) if Arc::ptr_eq(&slot.cell, cell) => {
                slot.weight = weight.max(1);
                slot.made = Instant::now();
            }
            _ => return,
        }
        let mut total = slots.values().fold(0u64, |sum, slot| sum.saturating_add(slot.weight));
        while total > self.budget {
            let oldest = slots.iter().filter(|(_, slot)| slot.weight > 0).min_by_key(|(_, slot)| slot.used);
            let Some((oldest, weight)) = oldest.map(|(name, slot)| (name.clone(), slot.weight)) else {
                break;
            };
            slots.remove(&oldest);
            total = total.saturating_sub(weight);
        }
    }

    /// Drops the slot of something that could not be made, unless another is making it.
    fn forget(&self, name: &str, cell: &Arc<OnceCell<Arc<T>>>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = slots.get(name).is_some_and(|slot| Arc::ptr_eq(&slot.cell, cell));
        // The map has one, the caller has one; more are waiting.
        if is_ours && Arc::strong_count(cell) <= 2 {
            slots.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_value_is_made_once_and_room_is_made_for_it() {
        let kept = Kept::<u64>::new(10);
        let made = AtomicUsize::new(0);
        let get = async |name: &str, lasts, n: u64| {
            let made = &made;
            let make = Box::pin(async move {
                tokio::task::yield_now().await;
                made.fetch_add(1, Ordering::Relaxed);
                Ok(n)
            });
            *kept.get(name, lasts, |n| *n, make).await.unwrap()
        };
        let (a, b) = tokio::join!(get("a", None, 4), get("a", None, 5));
        assert_eq!((a, b, made.load(Ordering::Relaxed)), (4, 4, 1));
        get("b", None, 4).await;
        get("a", None, 9).await;
        get("c", None, 4).await;
        assert_eq!(made.load(Ordering::Relaxed), 3);
        // b was used least recently; what is old is made anew.
        assert_eq!((get("a", None, 1).await, get("b", None, 2).await), (4, 2));
        assert_eq!(get("a", Some(Duration::ZERO), 3).await, 3);
        let failed = kept.get("d", None, |n| *n, Box::pin(async { Err(Fault::not_found()) })).await;
        assert!(failed.is_err() && !kept.slots.lock().unwrap().contains_key("d"));
    }
}
