//! Transient faults: failures that may succeed when the request is retried.
//!
//! A store marks such a failure by putting [`Transient`] among the causes of its error; [`wrap::retry`] looks for it.
//! Errors without the mark — a refusal, damaged data, a range outside the object — are final.
//!
//! [`wrap::retry`]: super::wrap::retry

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::Error;

/// Marks a fault that is worth a retry: 429, 5xx, a timeout, a dropped connection, a short body.
#[derive(Debug, Default)]
pub(crate) struct Transient {
    after: Option<Duration>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Transient {
    /// How long the server asked us to wait (`Retry-After`).
    #[must_use]
    pub(crate) fn after(&self) -> Option<Duration> {
        self.after
    }
}

impl fmt::Display for Transient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.as_ref().map_or(Ok(()), |c| write!(f, "{c}"))
    }
}

impl StdError for Transient {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().and_then(|c| c.source())
    }
}

/// An I/O error that is worth a retry.
pub fn transient(message: impl Into<String>) -> Error {
    Error::io(message).with_source(Transient::default())
}

/// The same, with the cause reported by the server or the network.
pub(crate) fn transient_because(
    message: impl Into<String>,
    after: Option<Duration>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
) -> Error {
    Error::io(message).with_source(Transient { after, cause })
}

/// The mark on `error`, if it has one.
#[must_use]
pub(crate) fn as_transient(error: &Error) -> Option<&Transient> {
    let mut cause = error.source();
    while let Some(c) = cause {
        if let Some(mark) = c.downcast_ref::<Transient>() {
            return Some(mark);
        }
        cause = c.source();
    }
    None
}

/// A copy of an `Error`, for several callers that waited for one request.
///
/// The causes become part of the message, since they cannot be copied; the mark of a transient fault stays.
#[must_use]
pub(crate) fn copy_of(error: &Error) -> Error {
    let mut message = error.message().to_owned();
    let mut cause = error.source();
    while let Some(c) = cause {
        let text = c.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = c.source();
    }
    let mut copy = Error::new(error.kind(), message);
    if let Some(mark) = as_transient(error) {
        copy = copy.with_source(Transient { after: mark.after, cause: None });
    }
    if let Some(s) = error.store() {
        copy = copy.with_store(s);
    }
    if let Some(n) = error.node() {
        copy = copy.with_node(n);
    }
    if let Some(k) = error.key() {
        copy = copy.with_key(k);
    }
    if let Some(f) = error.field() {
        copy = copy.with_field(f);
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_mark_is_found_silent_and_survives_a_copy() {
        let e = transient("503 from the server").with_key("a");
        assert!(as_transient(&e).is_some());
        assert_eq!(e.to_string(), "key a: 503 from the server");
        let c = copy_of(&e);
        assert!(as_transient(&c).is_some());
        assert_eq!((c.kind(), c.to_string()), (ErrorKind::Io, e.to_string()));
        assert!(as_transient(&Error::io("disk")).is_none());
    }
}
