//! A line on standard error that says how far the hashing of a folder is, on a terminal and after a second.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget};
use zaro::manifest::local::Seen;

/// Shown until it is dropped.
#[derive(Debug)]
pub(crate) struct Spinner {
    seen: Arc<Seen>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Says `word` and what was seen; at once if `eager`, wherever standard error goes.
    pub(crate) fn start(word: &'static str, eager: bool) -> Self {
        let (seen, end) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let wanted = eager || std::io::stderr().is_terminal();
        let thread = wanted.then(|| {
            let (seen, end) = (Arc::clone(&seen), Arc::clone(&end));
            std::thread::spawn(move || {
                let begun = Instant::now();
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
                let mut shown = false;
                while !end.load(Ordering::Relaxed) {
                    if !shown && (eager || begun.elapsed() > Duration::from_secs(1)) {
                        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
                        shown = true;
                    }
                    let files = seen.files.load(Ordering::Relaxed);
                    let bytes = HumanBytes(seen.bytes.load(Ordering::Relaxed));
                    bar.set_message(format!("{word} {files} files, {bytes}"));
                    bar.tick();
                    std::thread::park_timeout(Duration::from_millis(100));
                }
                bar.finish_and_clear();
            })
        });
        Self { seen, end, thread }
    }

    /// Where the work counts.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
