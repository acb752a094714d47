//! Graceful shutdown on signals: Ctrl-C, and those of a batch system, a shutdown or a lost terminal.
//!
//! The first signal cancels operations that can be cancelled, which then leave no partial files. If there are none, at
//! the second signal, or after ten seconds, the process ends immediately; its temporary files are removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use zaro::{CancelToken, ErrorKind};

/// Grace period for cancelled operations.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tokens of running operations that can be cancelled.
static CANCEL: Mutex<Vec<Weak<CancelToken>>> = Mutex::new(Vec::new());

/// A token that is cancelled by the first signal.
pub(crate) fn stops() -> Arc<CancelToken> {
    let cancel = Arc::new(CancelToken::new());
    CANCEL.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&cancel));
    cancel
}

/// Whether the operation is past the point where it can be cancelled.
static LATE: AtomicBool = AtomicBool::new(false);

/// From now on the first signal is ignored: the operation completes, and the exit code says so.
pub(crate) fn too_late() {
    LATE.store(true, Ordering::Relaxed);
}

/// Standard input whose reads end after a signal.
pub(crate) struct StoppableStdin {
    input: system::Input,
    cancel: Arc<CancelToken>,
}

impl StoppableStdin {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { input: system::Input::new()?, cancel: stops() })
    }
}

impl std::io::Read for StoppableStdin {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if self.cancel.is_cancelled() {
                return Err(std::io::Error::other("stopped by a signal"));
            }
            if self.input.is_ready() {
                return self.input.read(buf);
            }
        }
    }
}

pub(crate) use system::{hangups, listen};

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tokio::signal::unix::{SignalKind, signal};

    /// Unbuffered: polling the pipe does not see what a buffer holds.
    pub(super) struct Input(File);

    impl Input {
        pub(super) fn new() -> std::io::Result<Self> {
            std::io::stdin().as_fd().try_clone_to_owned().map(|pipe| Self(pipe.into()))
        }

        /// Polls briefly whether there is something to read; true also at the end, and if it cannot be polled.
        pub(super) fn is_ready(&self) -> bool {
            let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let mut waited = [PollFd::new(&self.0, PollFlags::IN)];
            !matches!(poll(&mut waited, Some(&pause)), Ok(0) | Err(rustix::io::Errno::INTR))
        }

        pub(super) fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buf)
        }
    }

    /// Waits for signals from now on; for a lost terminal only with `hangup`.
    pub(crate) fn listen(hangup: bool) {
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            // What a shell or `nohup` lets us ignore stays ignored.
            if is_ignored(kind) || (kind == SignalKind::hangup() && !hangup) {
                continue;
            }
            if let Ok(mut signal) = signal(kind) {
                tokio::spawn(async move {
                    let mut at = super::Heard::new(128 + kind.as_raw_value());
                    while signal.recv().await.is_some() {
                        at.once();
                    }
                });
            }
        }
    }

    /// Calls `heard` each time the process is told to read its settings again (SIGHUP).
    pub(crate) async fn hangups(heard: impl Fn()) {
        let Ok(mut signal) = signal(SignalKind::hangup()) else { return std::future::pending().await };
        while signal.recv().await.is_some() {
            heard();
        }
    }

    /// Whether a signal was ignored when the process started.
    fn is_ignored(kind: SignalKind) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
        u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
    }
}

/// Other systems: only Ctrl-C, and blocking input. Untested.
#[cfg(not(unix))]
mod system {
    use std::io::Read as _;

    pub(super) struct Input(std::io::Stdin);

    impl Input {
        pub(super) fn new() -> std::io::Result<Self> {
            Ok(Self(std::io::stdin()))
        }

        pub(super) fn is_ready(&self) -> bool {
            true
        }

        pub(super) fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buf)
        }
    }

    /// There is no such signal.
    pub(crate) async fn hangups(_heard: impl Fn()) {
        std::future::pending().await
    }

    /// Waits for signals from now on.
    pub(crate) fn listen(_hangup: bool) {
        tokio::spawn(async {
            let mut at = super::Heard::new(130);
            while tokio::signal::ctrl_c().await.is_ok() {
                at.once();
            }
        });
    }
}

/// How one kind of signal is handled.
struct Heard {
    /// The exit code if the process ends immediately.
    at_once: i32,
    first: bool,
}

impl Heard {
    fn new(at_once: i32) -> Self {
        Self { at_once, first: true }
    }

    fn once(&mut self) {
        let at_once = self.at_once;
        let first = std::mem::replace(&mut self.first, false);
        if first && LATE.load(Ordering::Relaxed) {
            return;
        }
        let mut told = false;
        for cancel in CANCEL.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            told |= cancel.upgrade().is_some_and(|cancel| cancel.cancel());
        }
        if !told {
            // Nothing was begun that could stop in order; that is no other end than if it had.
            end(if first { i32::from(ErrorKind::Io.exit_code()) } else { at_once });
        }
        // One that waits for input, or for a server, does not hear.
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            end(at_once);
        });
    }
}

/// Ends the process immediately.
fn end(code: i32) -> ! {
    zaro::internal::local::remove_temporaries();
    std::process::exit(code)
}
