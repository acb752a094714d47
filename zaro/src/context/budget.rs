//! The memory budget for bytes in flight: requested, and not yet in place.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};

/// One budget for all reads of a context.
///
/// A share is taken as a whole, before its first byte is requested, and no holder of a share waits for another: so
/// everybody gets one in the end.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    /// In kibibytes.
    permits: Arc<Semaphore>,
    most: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let most = (bytes >> 10).clamp(1, Semaphore::MAX_PERMITS);
        Self { bytes, permits: Arc::new(Semaphore::new(most)), most }
    }

    /// The total budget in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until `bytes` may be held. A request larger than the whole budget waits until it is alone.
    pub(crate) async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(1 << 10).clamp(1, self.most)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.permits).acquire_many_owned(permits).await;
        taken.map_err(|_| Error::io("the memory budget is closed"))
    }

    /// Gives back what `held` is more than `bytes`.
    pub(crate) fn keep(held: &mut OwnedSemaphorePermit, bytes: usize) {
        let excess = held.num_permits().saturating_sub(bytes.div_ceil(1 << 10).max(1));
        drop(held.split(excess));
    }
}
