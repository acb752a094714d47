//! Signals that end a process: Ctrl-C, and those of a batch system, a shut-down or a lost terminal.
//!
//! Whoever can stop in order is told to, and then leaves no half file behind. If nobody can, at the second signal, or
//! after ten seconds, the process ends there and then; its temporary files go with it.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use zaro::{CancelToken, ErrorKind};

/// How long they have for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Those who can stop in order, as long as they are there.
static CANCEL: Mutex<Vec<Weak<CancelToken>>> = Mutex::new(Vec::new());

/// A token that the first signal sets.
pub(crate) fn stops() -> Arc<CancelToken> {
    let cancel = Arc::new(CancelToken::new());
    CANCEL.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&cancel));
    cancel
}

/// Whether what was to be done is all but done.
static LATE: AtomicBool = AtomicBool::new(false);

/// From now on a first signal comes too late: what was begun happens, and the exit code says so.
pub(crate) fn too_late() {
    LATE.store(true, Ordering::Relaxed);
}

/// Standard input, whose reader does not wait on after a signal.
pub(crate) struct StoppableStdin {
    /// Not buffered: what a buffer holds is not seen by who waits for the pipe.
    pipe: File,
    cancel: Arc<CancelToken>,
}

impl StoppableStdin {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { pipe: std::io::stdin().as_fd().try_clone_to_owned()?.into(), cancel: stops() })
    }
}

impl std::io::Read for StoppableStdin {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if self.cancel.is_cancelled() {
                return Err(std::io::Error::other("stopped by a signal"));
            }
            let mut waited = [rustix::event::PollFd::new(&self.pipe, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut waited, Some(&pause)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // What cannot be waited for is read; so is the end.
                _ => return self.pipe.read(buf),
            }
        }
    }
}

/// Waits for signals from now on.
pub(crate) fn listen() {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        // What a shell or `nohup` lets us ignore stays ignored.
        if is_ignored(kind) {
            continue;
        }
        if let Ok(signal) = signal(kind) {
            tokio::spawn(wait(signal, kind));
        }
    }
}

async fn wait(mut signal: Signal, kind: SignalKind) {
    let at_once = 128 + kind.as_raw_value();
    let mut first = true;
    while signal.recv().await.is_some() {
        if first && LATE.load(Ordering::Relaxed) {
            first = false;
            continue;
        }
        let mut told = false;
        for cancel in CANCEL.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            told |= cancel.upgrade().is_some_and(|cancel| cancel.cancel());
        }
        if !told {
            // Nothing was begun that could stop in order; that is no other end than if it had.
            end(if first { i32::from(ErrorKind::Io.exit_code()) } else { at_once });
        }
        first = false;
        // One that waits for input, or for a server, does not hear.
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            end(at_once);
        });
    }
}

/// Ends the process there and then.
fn end(code: i32) -> ! {
    zaro::store::local::remove_temporaries();
    std::process::exit(code)
}

/// Whether a signal was to be ignored when the process began.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}
