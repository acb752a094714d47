//! The origin of bytes that a store takes from elsewhere.

use std::fmt;
use std::sync::Arc;

use crate::error::redacted;

/// How much of a URI is shown in messages: it may be of any length.
const LONGEST_SHOWN: usize = 1000;

/// The place where the bytes behind a key are stored: enough to redirect a client there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The URI, including secrets. A relative one is relative to the document that names it; empty for the target that
    /// the caller names.
    pub address: Arc<str>,
    /// Byte range as offset and length; `None` for the whole object.
    pub range: Option<(u64, u64)>,
    /// The version ID, in a versioned bucket.
    pub version: Option<String>,
}

impl fmt::Display for Origin {
    /// For messages: without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = if self.address.is_empty() { "the target".into() } else { redacted(&self.address) };
        match address.char_indices().nth(LONGEST_SHOWN) {
            Some((end, _)) => write!(f, "{}…", address.get(..end).unwrap_or_default())?,
            None => f.write_str(&address)?,
        }
        match self.range {
            Some((offset, length)) => write!(f, ", bytes {offset}+{length}"),
            None => Ok(()),
        }
    }
}
