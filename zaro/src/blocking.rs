//! Between async and blocking code: for callers without a runtime, and for work that would hold one up.

use std::future::Future;
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// Runs a future of ours to its end, on a runtime of our own that is started when first needed.
///
/// Inside somebody else's runtime, which must not be blocked from within, the waiting is done by a thread of its own.
pub fn wait<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    static RUNTIME: OnceLock<std::io::Result<tokio::runtime::Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("zaro-io")
            .enable_all()
            .build()
    });
    let runtime = match runtime {
        Ok(r) => r,
        Err(e) => return Err(Error::io(format!("no runtime for the network: {e}"))),
    };
    if tokio::runtime::Handle::try_current().is_err() {
        return runtime.block_on(future);
    }
    std::thread::scope(|s| {
        s.spawn(|| runtime.block_on(future))
            .join()
            .unwrap_or_else(|_| Err(Error::io("the waiting thread was lost")))
    })
}

/// Runs `work`, which blocks, on a thread of its own, so that whatever runtime the caller is on goes on meanwhile.
pub async fn off<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
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
