//! Progress bars on standard error for operations longer than a second, and their cancellation.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zaro::{CancelToken, Progress, Task, Unit};

/// Delay before progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// The progress bar and cancellation of one operation, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    shown: Arc<Shown>,
    wanted: bool,
    /// Set by Ctrl-C and other signals that end a process.
    cancel: Arc<CancelToken>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    /// Total bytes, where the library only knows of one window at a time.
    total: Option<u64>,
    /// Bytes of completed windows.
    before: AtomicU64,
    begun: Instant,
    patience: Duration,
    drawn: AtomicBool,
}

impl Watch {
    /// For one operation; `eager` shows the bar immediately, even if standard error is not a terminal.
    pub(crate) fn new(eager: bool) -> Self {
        Self::of(None, eager)
    }

    /// For `total` bytes that are read or written window by window.
    pub(crate) fn windows(total: u64, eager: bool) -> Self {
        Self::of(Some(total), eager)
    }

    fn of(total: Option<u64>, eager: bool) -> Self {
        let shown = Shown {
            bar: ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden()),
            total,
            before: AtomicU64::new(0),
            begun: Instant::now(),
            patience: if eager { Duration::ZERO } else { PATIENCE },
            drawn: AtomicBool::new(false),
        };
        let wanted = eager || std::io::stderr().is_terminal();
        Self { shown: Arc::new(shown), wanted, cancel: crate::signal::stops() }
    }

    /// The progress callback and cancel token for the library.
    pub(crate) fn task(&self) -> Task {
        let task = Task::default().with_cancel(&self.cancel);
        if !self.wanted {
            return task;
        }
        let shown = self.shown.clone();
        task.with_progress(move |progress| shown.tell(progress))
    }

    /// Counts a window of `bytes` as done.
    pub(crate) fn window_done(&self, bytes: u64) {
        self.shown.before.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Hides the bar while `f` prints.
    pub(crate) fn suspend<T>(&self, f: impl FnOnce() -> T) -> T {
        self.shown.bar.suspend(f)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shown.bar.finish_and_clear();
    }
}

impl Shown {
    fn tell(&self, progress: Progress) {
        let total = self.total.or(progress.total);
        if self.begun.elapsed() >= self.patience && !self.drawn.swap(true, Ordering::Relaxed) {
            self.bar.set_style(style(progress.unit, total.is_some()));
            self.bar.set_message(progress.unit.text());
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(self.before.load(Ordering::Relaxed).saturating_add(progress.done));
    }
}

fn style(unit: Unit, bounded: bool) -> ProgressStyle {
    let template = match (unit, bounded) {
        (Unit::Bytes, true) => "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
        (Unit::Bytes, false) => "{spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed}",
        (_, true) => "{wide_bar} {human_pos}/{human_len} {msg} {per_sec} {eta}",
        (_, false) => "{spinner} {human_pos} {msg} {per_sec} {elapsed}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
