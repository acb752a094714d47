//! How many bytes may be in flight at once: asked for, and not yet in their place.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};

/// One for all that a context reads.
///
/// A share is taken whole, before its first byte is asked for, and nobody who holds one waits for another: so everybody gets
/// one in the end.
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

    /// The bytes there are in all.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until `bytes` may be held. Something larger than the whole budget waits until it is alone.
    pub(crate) async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(1 << 10).clamp(1, self.most)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.permits).acquire_many_owned(permits).await;
        taken.map_err(|_| Error::io("the budget for memory is closed"))
    }
}
