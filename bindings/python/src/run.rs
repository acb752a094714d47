//! Waiting for the library: without the interpreter lock, stoppable by Ctrl-C, with progress.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zaro::{CancelToken, Context, ContextOptions, Progress, Task};

use crate::error::{Failure, Result};

/// How often Python is asked for signals, and told of progress.
const TICK: Duration = Duration::from_millis(50);

/// What opens use after `set_memory` or `set_threads`; before, the shared context.
static CONTEXT: RwLock<Option<(Context, ContextOptions)>> = RwLock::new(None);

/// The context of what is opened now.
pub(crate) fn context() -> Context {
    let set = CONTEXT.read().unwrap_or_else(PoisonError::into_inner);
    set.as_ref().map_or_else(Context::shared, |(context, _)| context.clone())
}

/// Sets the memory or the threads of all that is opened from now on, one budget for all of it.
#[pyfunction]
#[pyo3(signature = (memory=None, threads=None))]
pub(crate) fn configure(memory: Option<usize>, threads: Option<usize>) -> (usize, usize) {
    let mut set = CONTEXT.write().unwrap_or_else(PoisonError::into_inner);
    let mut options = set.as_ref().map_or_else(ContextOptions::default, |(_, options)| options.clone());
    if memory.is_none() && threads.is_none() {
        let context = set.as_ref().map_or_else(Context::shared, |(context, _)| context.clone());
        return (context.memory(), context.threads());
    }
    options.memory = memory.unwrap_or(options.memory);
    options.threads = threads.or(options.threads);
    let context = Context::new(options.clone());
    let now = (context.memory(), context.threads());
    *set = Some((context, options));
    now
}

/// Whether the calling thread is the one that Python gives signals to.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static OWN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?.getattr("ident")?;
    OWN.import(py, "threading", "get_ident")?.call0()?.eq(main)
}

/// Progress that is handed to Python by the waiting thread.
#[derive(Default)]
struct Seen(Mutex<Option<Progress>>);

/// Runs what `work` makes, which is given a task that Ctrl-C cancels, and tells `progress` (a callable of what is done
/// and the total) how far it is. Nothing of it goes on when this returns.
pub(crate) fn wait<T, F>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(Task) -> F + Send,
) -> Result<T>
where
    T: Send,
    F: Future<Output = zaro::Result<T>> + Send,
{
    let cancel = CancelToken::new();
    let seen = Arc::new(Seen::default());
    let mut task = Task::default().with_cancel(&cancel);
    if progress.is_some() {
        let seen = seen.clone();
        task = task.with_progress(move |now| {
            *seen.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        });
    }
    let listens = progress.is_some() || is_main(py)?;
    let mut broken: Option<PyErr> = None;
    let tell = |last: bool| -> PyResult<()> {
        Python::attach(|py| {
            let now = match last {
                true => seen.0.lock().unwrap_or_else(PoisonError::into_inner).take(),
                false => *seen.0.lock().unwrap_or_else(PoisonError::into_inner),
            };
            if let (Some(progress), Some(now)) = (progress, now) {
                progress.call1(py, (now.done, now.total))?;
            }
            py.check_signals()
        })
    };
    let done = py.detach(|| {
        context().block_on(async {
            let mut work = pin!(work(task));
            if !listens {
                return Ok(work.await);
            }
            let mut told = Instant::now();
            loop {
                match select(work, pin!(tokio::time::sleep(TICK))).await {
                    Either::Left((done, _)) => return Ok(done),
                    Either::Right((_, rest)) => work = rest,
                }
                if broken.is_none() && told.elapsed() >= TICK {
                    told = Instant::now();
                    if let Err(e) = tell(false) {
                        cancel.cancel();
                        broken = Some(e);
                    }
                }
            }
        })
    });
    if let Some(e) = broken {
        return Err(Failure::Python(e));
    }
    let done = done??;
    if listens {
        tell(true)?;
    }
    Ok(done)
}

/// Runs what `work` makes, which may be dropped at any point when Ctrl-C stops it: opening, listing.
pub(crate) fn ask<T: Send>(py: Python<'_>, work: impl Future<Output = zaro::Result<T>> + Send) -> Result<T> {
    wait(py, None, |task| async move { task.unless_cancelled(work).await })
}
