//! Progress on standard error, for what takes longer than a second, and a way to stop it.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use zaro::array::OnProgress;
use zaro::manifest::Seen;

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
        bar.set_style(style(template));
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

/// A bar that counts, on standard error; hidden where nobody looks.
pub(crate) fn counter(total: Option<u64>, what: &'static str, eager: bool) -> ProgressBar {
    let template = match total {
        Some(_) => "{wide_bar} {pos}/{len} {msg} {eta}",
        None => "{spinner} {pos} {msg} {elapsed}",
    };
    let bar = ProgressBar::with_draw_target(total, target(eager)).with_style(style(template));
    bar.set_message(what);
    bar
}

/// Standard error, if somebody looks there.
fn target(eager: bool) -> ProgressDrawTarget {
    let shown = eager || std::io::stderr().is_terminal();
    if shown { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A line that says how far the hashing of a folder is, after a second, until it is dropped.
#[derive(Debug)]
pub(crate) struct Spinner {
    seen: Arc<Seen>,
    bar: ProgressBar,
}

impl Spinner {
    /// Says `word` and what was seen; at once if `eager`, wherever standard error goes.
    pub(crate) fn start(word: &'static str, eager: bool) -> Self {
        let seen = Arc::new(Seen::default());
        let counted = Arc::clone(&seen);
        let text = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            if eager || state.elapsed() > Duration::from_secs(1) {
                let [files, bytes] = [&counted.files, &counted.bytes].map(|n| n.load(Ordering::Relaxed));
                let _ = write!(out, "{word} {files} files, {}", HumanBytes(bytes));
            }
        };
        let bar = ProgressBar::with_draw_target(None, target(eager));
        bar.set_style(style("{seen}").with_key("seen", text));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { seen, bar }
    }

    /// Where the work counts.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
