//! A progress bar on standard error, for reads that take longer than a second, and a way to stop them.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zaro::array::OnProgress;

/// A read as a person waits for it.
#[derive(Debug)]
pub(crate) struct Watch {
    bar: ProgressBar,
    /// Bytes of windows that are done.
    before: Arc<AtomicU64>,
    shown: Arc<AtomicBool>,
    begun: Instant,
    patience: Duration,
    wanted: bool,
    /// Set by Ctrl-C and other signals that end a process.
    pub(crate) cancel: Arc<AtomicBool>,
}

impl Watch {
    /// For a read of `total` bytes; `eager` shows the bar at once, wherever standard error goes.
    pub(crate) fn new(total: u64, eager: bool) -> Self {
        Self::styled(
            total,
            eager,
            "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
        )
    }

    /// For things that are counted; how many there are is known by those who do them.
    pub(crate) fn counting(eager: bool) -> Self {
        Self::styled(0, eager, "{wide_bar} {human_pos}/{human_len} {per_sec} {eta}")
    }

    fn styled(total: u64, eager: bool, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let cancel = Arc::new(AtomicBool::new(false));
        crate::signal::stops(&cancel);
        Self {
            bar,
            before: Arc::default(),
            shown: Arc::default(),
            begun: Instant::now(),
            patience: if eager { Duration::ZERO } else { Duration::from_secs(1) },
            wanted: eager || std::io::stderr().is_terminal(),
            cancel,
        }
    }

    /// What the library is to call.
    pub(crate) fn callback(&self) -> Option<OnProgress> {
        if !self.wanted {
            return None;
        }
        let (bar, before, shown) = (self.bar.clone(), self.before.clone(), self.shown.clone());
        let (begun, patience) = (self.begun, self.patience);
        Some(Arc::new(move |progress| {
            if begun.elapsed() >= patience && !shown.swap(true, Ordering::Relaxed) {
                bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            }
            bar.set_position(before.load(Ordering::Relaxed).saturating_add(progress.done));
        }))
    }

    /// What the library is to call that knows how much there is in all.
    pub(crate) fn callback_of_all(&self) -> Option<OnProgress> {
        let (bar, show) = (self.bar.clone(), self.callback()?);
        Some(Arc::new(move |progress| {
            bar.set_length(progress.total);
            show(progress);
        }))
    }

    /// Counts a window of `bytes` as done.
    pub(crate) fn window_done(&self, bytes: u64) {
        self.before.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
