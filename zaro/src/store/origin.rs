//! Where bytes come from that a store takes from elsewhere.

use std::fmt;
use std::sync::Arc;

use crate::error::redacted;

/// How many characters of an address messages show: it may be anything, and a message should still be read.
const LONGEST_SHOWN: usize = 1000;

/// The place that the bytes behind a key are taken from: enough to send a client there in place of the bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The address, secrets and all. A relative one is relative to what names it; empty for the target that the caller names.
    pub address: Arc<str>,
    /// Which bytes of it, as offset and length; all of them without.
    pub range: Option<(u64, u64)>,
    /// Which version of the object, in a bucket that keeps versions.
    pub version: Option<String>,
}

impl fmt::Display for Origin {
    /// For messages: without the secrets of the address.
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
