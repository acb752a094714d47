//! File operations that the standard library lacks on some systems: the only module with Unix-specific code.
//!
//! The portable half uses only the standard library. Its tests run on Unix too, but zaro was never run on anything but
//! Linux. What it cannot do, it does not pretend to: names are not exchanged, folders are not locked, files are
//! identified by size and times.

#[cfg(any(not(unix), test))]
#[cfg_attr(unix, allow(dead_code, reason = "on Unix there are only its tests"))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::portable::*;
#[cfg(unix)]
pub(crate) use self::unix::*;
