//! Standard output with every write error reported.
//!
//! Rust's own handle ignores errors of a standard output that is closed or not open for writing. A user who redirected
//! it needs to know.

// SAFETY: the one `unsafe` is the attribute that puts a function into the list of those that run before `main`. The
// function has the type that the list asks for, takes nothing, cannot unwind (it neither allocates much nor panics), and
// does no more than look at two paths and set an atomic flag.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use zaro::{Error, Result};

/// Whether standard output was closed when the program began. Before `main`, Rust opens `/dev/null` in its place.
static CLOSED: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "see the head of this file")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    let is_there = |path: &str| std::fs::symlink_metadata(path).is_ok();
    // Where there is no such folder nothing is known.
    CLOSED.store(is_there("/proc/self/fd") && !is_there("/proc/self/fd/1"), Ordering::Relaxed);
}

/// Standard output as a file.
pub(crate) fn open() -> Result<File> {
    let fault = |e: std::io::Error| Error::from(e).within("standard output");
    if CLOSED.load(Ordering::Relaxed) {
        return Err(Error::io("standard output is closed"));
    }
    handle().map_err(fault)
}

#[cfg(unix)]
fn handle() -> std::io::Result<File> {
    use std::os::fd::AsFd as _;
    std::io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Untested.
#[cfg(windows)]
fn handle() -> std::io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    std::io::stdout().as_handle().try_clone_to_owned().map(File::from)
}

#[cfg(not(any(unix, windows)))]
fn handle() -> std::io::Result<File> {
    Err(std::io::ErrorKind::Unsupported.into())
}
