//! Bridges between async and blocking code: for callers without a runtime, and for blocking work in async code.

use crate::error::{Error, Result};

/// Runs a future to completion on zaro's own runtime, which is started on first use.
///
/// Inside another runtime, which must not be blocked from within, a separate thread waits.
pub fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    crate::context::runtime::block_on(future)
}

/// Runs blocking `work` on a separate thread, so that the caller's runtime continues meanwhile.
pub async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = futures::channel::oneshot::channel();
    std::thread::Builder::new()
        .name("zaro-work".into())
        .spawn(move || {
            // Nobody waits any more if it is not received.
            let _ = done.send(work());
        })
        .map_err(|e| Error::io(format!("cannot start a thread: {e}")))?;
    answer.await.unwrap_or_else(|_| Err(Error::io("the working thread was lost")))
}
