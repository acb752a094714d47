//! The async runtime for blocking callers.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use super::fork::PerProcess;
use crate::error::{Error, Result};

/// zaro's own runtime, started on first use.
fn own() -> Result<&'static Runtime> {
    static RUNTIME: PerProcess<OnceLock<std::io::Result<Runtime>>> = PerProcess::new();
    let start = || Builder::new_multi_thread().worker_threads(2).thread_name("zaro-io").enable_all().build();
    let runtime = RUNTIME.get(OnceLock::new).get_or_init(start);
    runtime.as_ref().map_err(|e| Error::io(format!("the async runtime could not be started: {e}")))
}

/// Runs a future to completion on zaro's own runtime.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    wait_on(own()?.handle(), future)
}

/// Spawns `future` on zaro's own runtime.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    own()?.spawn(future);
    Ok(())
}

/// The same on the given runtime.
///
/// Inside another runtime, which must not be blocked from within, a separate thread waits.
pub(crate) fn wait_on<T: Send>(handle: &Handle, future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    if Handle::try_current().is_err() {
        return handle.block_on(future);
    }
    std::thread::scope(|s| {
        let waiting = s.spawn(|| handle.block_on(future));
        waiting.join().unwrap_or_else(|_| Err(Error::io("the waiting thread was lost")))
    })
}
