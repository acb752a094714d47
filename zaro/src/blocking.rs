//! Between async and blocking code: for callers without a runtime, and for work that would hold one up.

use crate::error::{Error, Result};

/// Runs a future of ours to its end, on a runtime of our own that is started when first needed.
///
/// Inside somebody else's runtime, which must not be blocked from within, the waiting is done by a thread of its own.
pub fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    crate::context::runtime::block_on(future)
}

/// Runs `work`, which blocks, on a thread of its own, so that whatever runtime the caller is on goes on meanwhile.
pub async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = futures::channel::oneshot::channel();
    std::thread::Builder::new()
        .name("zaro-work".into())
        .spawn(move || {
            // Nobody waits any more if it is not taken.
            let _ = done.send(work());
        })
        .map_err(|e| Error::io(format!("no thread: {e}")))?;
    answer.await.unwrap_or_else(|_| Err(Error::io("the working thread was lost")))
}
