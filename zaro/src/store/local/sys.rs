//! What of files the standard library does not have for every system: the one place that knows Unix.
//!
//! The other half is of the standard library alone. Its tests run here too, but on another system than Linux nothing of zaro was
//! ever run. What it cannot do it does not pretend to: names are not exchanged, folders not locked, files known by size
//! and times.

#[cfg(any(not(unix), test))]
#[cfg_attr(unix, allow(dead_code, reason = "on Unix there are only its tests"))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::portable::*;
#[cfg(unix)]
pub(crate) use self::unix::*;
