//! Fork safety: values that a forked child process must not share with its parent.
//!
//! After `fork` only the forking thread continues. A lock held by another thread stays locked forever, a runtime and a
//! pool have no threads, and two processes would share one connection. So each process makes its own.
#![allow(unsafe_code, reason = "see the comments at each place")]

use std::fmt;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

#[cfg(unix)]
extern "C" fn forked() {
    // Only an atomic operation is allowed here.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Distinguishes a process from its parents.
pub(super) fn generation() -> u64 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        #[cfg(unix)]
        // SAFETY: `forked` is a function without state that lives as long as the program. If there is no memory for it the
        // child is not told apart, as without the call.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

/// A value that is made on first use, and again in each forked child.
pub(crate) struct PerProcess<T> {
    slot: AtomicPtr<Stamped<T>>,
}

struct Stamped<T> {
    generation: u64,
    value: T,
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerProcess")
    }
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { slot: AtomicPtr::new(ptr::null_mut()) }
    }

    /// With the value of this process.
    #[cfg(feature = "cloud")]
    pub(crate) fn holding(value: T) -> Self {
        let held = Box::new(Stamped { generation: generation(), value });
        Self { slot: AtomicPtr::new(Box::into_raw(held)) }
    }
}

impl<T: Send + Sync> PerProcess<T> {
    /// The value of this process. Two threads that ask at once for the first time may both make one; one is used.
    pub(crate) fn get(&self, make: impl Fn() -> T) -> &T {
        let now = generation();
        loop {
            let seen = self.slot.load(Ordering::Acquire);
            // SAFETY: what the slot holds came from `Box::into_raw` below and is freed by `Drop` alone, which has `self` by
            // itself: a value of another process is left where it is, so references to it stay good.
            if let Some(held) = unsafe { seen.as_ref() }
                && held.generation == now
            {
                return &held.value;
            }
            let fresh = Box::into_raw(Box::new(Stamped { generation: now, value: make() }));
            let put = self.slot.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire);
            if put.is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let held = *self.slot.get_mut();
        // SAFETY: as in `get`; and nobody holds a reference, since `self` is here by itself.
        if unsafe { held.as_ref() }.is_some_and(|h| h.generation == generation()) {
            // SAFETY: it came from `Box::into_raw`, and the slot is gone after this. What is of the parent's stays: to drop it
            // could wait for threads that are not there.
            drop(unsafe { Box::from_raw(held) });
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_makes_its_own() {
        let number = AtomicU64::new(0);
        let cell = PerProcess::new();
        let ask = || *cell.get(|| number.fetch_add(1, Ordering::Relaxed) + 1);
        assert_eq!((ask(), ask()), (1, 1));
        // SAFETY: the child only loads and stores numbers and allocates, and leaves without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = if (ask(), ask()) == (2, 2) { 0 } else { 1 };
            // SAFETY: no destructor has to run.
            unsafe { libc::_exit(code) }
        }
        let mut status = 0;
        // SAFETY: `child` is ours and `status` a place for its answer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(ask(), 1);
    }
}
