//! Runs work on another thread, while R's own thread looks after interrupts, progress and the request log.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use zaro::{CancelToken, Error, Hint, Progress, Result, Task};

use crate::r::{Ended, Function, Jump, interrupted};
use crate::value::{Value, real};

/// How often R's thread looks up.
const POLL: Duration = Duration::from_millis(50);

/// How long work goes on before its progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why an operation has no result.
pub(crate) enum Stop {
    Failed(Error),
    /// A panic, with what it said.
    Panicked,
    Ended(Ended),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

impl From<Jump> for Stop {
    fn from(jump: Jump) -> Self {
        Self::Ended(jump.into())
    }
}

/// One call from R.
pub(crate) struct Call {
    /// R's functions to show progress and requests.
    progress: Option<Function>,
    log: Option<Function>,
    warnings: RefCell<Vec<(&'static str, String)>>,
}

/// Requests that were not shown yet.
static REQUESTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What the last panic said.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Notes a request, for those who want to see them. Called by any thread.
pub(crate) fn note_request(text: String) {
    // A lock that a fork left behind costs a line of the log, and no more.
    if let Ok(mut list) = REQUESTS.try_lock()
        && list.len() < 100_000
    {
        list.push(text);
    }
}

impl Call {
    pub(crate) fn new(args: &Value) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            std::panic::set_hook(Box::new(|info| {
                if let Ok(mut text) = PANIC.try_lock() {
                    *text = info.to_string();
                }
            }));
        });
        let log = args.function("log");
        if log.is_some()
            && let Ok(mut list) = REQUESTS.try_lock()
        {
            list.clear();
        }
        Self { progress: args.function("progress"), log, warnings: RefCell::default() }
    }

    /// Adds a warning of this class.
    pub(crate) fn warn(&self, class: &'static str, text: impl Into<String>) {
        self.warnings.borrow_mut().push((class, text.into()));
    }

    /// Does `work` on another thread. It is told to stop if the user interrupts, and is always waited for: it may hold
    /// R's memory.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce(&Task) -> Result<T> + Send) -> Result<T, Stop> {
        let token = CancelToken::new();
        let seen = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let count = seen.clone();
        let on_progress = move |p: Progress| {
            count.0.store(p.done, Ordering::Relaxed);
            count.1.store(p.total.unwrap_or(0), Ordering::Relaxed);
        };
        let task = Task::default().with_cancel(&token).with_progress(on_progress);
        let started = Instant::now();
        std::thread::scope(|scope| {
            let (send, answer) = channel();
            let job = move || {
                let done = catch_unwind(AssertUnwindSafe(|| work(&task)));
                // R's thread waits for it.
                let _ = send.send(done);
            };
            std::thread::Builder::new()
                .name("zaro-r".into())
                .spawn_scoped(scope, job)
                .map_err(|e| Error::io(format!("cannot start a thread: {e}")))?;
            let mut stop = None;
            loop {
                match answer.recv_timeout(POLL) {
                    Ok(done) => {
                        return match (stop, done) {
                            (Some(stop), _) => Err(stop),
                            (None, Ok(done)) => Ok(done?),
                            (None, Err(_)) => Err(Stop::Panicked),
                        };
                    }
                    Err(RecvTimeoutError::Disconnected) => return Err(Stop::Panicked),
                    Err(RecvTimeoutError::Timeout) if stop.is_some() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        stop = self.look_up(&seen, started).err();
                        if stop.is_some() {
                            token.cancel();
                        }
                    }
                }
            }
        })
    }

    /// What R's thread does meanwhile.
    fn look_up(&self, seen: &(AtomicU64, AtomicU64), started: Instant) -> Result<(), Stop> {
        if interrupted() {
            return Err(Stop::Ended(Ended::Interrupted(failure(&Error::cancelled()))));
        }
        self.show_requests()?;
        if let Some(progress) = self.progress.filter(|_| started.elapsed() >= PATIENCE) {
            let number = |n: &AtomicU64| Value::from(real(n.load(Ordering::Relaxed)));
            progress.call(&number(&seen.0), &number(&seen.1))?;
        }
        Ok(())
    }

    fn show_requests(&self) -> Result<(), Jump> {
        let Some(log) = self.log else { return Ok(()) };
        let list = REQUESTS.try_lock().map(|mut list| std::mem::take(&mut *list)).unwrap_or_default();
        if list.is_empty() { Ok(()) } else { log.call(&Value::from(list), &Value::Null) }
    }

    /// The result as R gets it.
    pub(crate) fn finish(&self, done: Result<Value, Stop>) -> Result<Value, Ended> {
        self.show_requests()?;
        let warnings = self.warnings.take().into_iter().map(|(class, text)| {
            (String::new(), Value::from([("class", class.into()), ("message", text.into())]))
        });
        let warnings = Value::List(warnings.collect());
        match done {
            Ok(value) => Ok(Value::from([("value", value), ("warnings", warnings)])),
            Err(Stop::Failed(e)) => Ok(failure(&e)),
            Err(Stop::Panicked) => Ok(failure_of_panic()),
            Err(Stop::Ended(ended)) => Err(ended),
        }
    }
}

/// Waits for `future`, and drops it when the task is cancelled.
pub(crate) fn wait<T: Send>(task: &Task, future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    zaro::blocking::block_on(task.unless_cancelled(future))
}

/// A failure as R gets it: a list that R makes a condition of.
pub(crate) fn failure(e: &Error) -> Value {
    let hints: Vec<String> = e.hints().iter().map(hint).collect();
    let mut message = zaro::redacted(&format!("{e:#}")).into_owned();
    for (n, hint) in hints.iter().enumerate() {
        message.push_str(if n == 0 { "; " } else { ", or " });
        message.push_str(hint);
    }
    let error = Value::from([
        ("kind", e.kind().as_str().into()),
        ("message", message.into()),
        ("store", e.store().map(|s| zaro::redacted(s).into_owned()).into()),
        ("node", e.node().into()),
        ("key", e.key().into()),
        ("field", e.field().into()),
        ("hints", if hints.is_empty() { Value::Null } else { hints.into() }),
    ]);
    Value::from([("error", error)])
}

/// A hint in the words of R: `method = "nearest" selects it`, `zaro_copy() …`.
fn hint(hint: &Hint) -> String {
    let option = hint.option.map(|option| match &hint.value {
        Some(value) => format!("{option} = \"{value}\""),
        None => option.to_owned(),
    });
    match (hint.operation, option) {
        (Some(operation), Some(option)) => {
            format!("zaro_{}({option}) {}", operation.replace(' ', "_"), hint.does)
        }
        (Some(operation), None) => format!("zaro_{}() {}", operation.replace(' ', "_"), hint.does),
        (None, Some(option)) => format!("{option} {}", hint.does),
        (None, None) => hint.does.to_owned(),
    }
}

/// The failure after a panic: a bug of ours, but not the end of the session.
pub(crate) fn failure_of_panic() -> Value {
    let said = PANIC.try_lock().map(|mut text| std::mem::take(&mut *text)).unwrap_or_default();
    let message = format!("this is a bug in zaro: {said}");
    Value::from([("error", Value::from([("kind", "panic".into()), ("message", message.into())]))])
}

/// Work that panics, fails with a given text, or takes its time: for the tests of the package.
#[allow(clippy::panic, reason = "the tests of the package try what a panic does to R")]
pub(crate) fn trial(call: &Call, args: &Value) -> Result<Value, Stop> {
    let what = args.word("what")?.to_owned();
    let text = args.text("text").unwrap_or_default().to_owned();
    let seconds = args.get("seconds").reals().first().copied().unwrap_or(0.0);
    call.run(move |task| match what.as_str() {
        "panic" => std::panic::panic_any(text),
        "error" => Err(Error::io(text)),
        _ => {
            let started = Instant::now();
            while started.elapsed().as_secs_f64() < seconds {
                task.check()?;
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        }
    })?;
    Ok(Value::Null)
}
