//! Layer 1: keys to bytes.
//!
//! A [`Store`] answers three questions: the bytes behind a key (all, or a range of them), how many there are, and
//! what lies directly below a prefix. Everything else — caching, retrying, joining neighbouring ranges, a prefix —
//! is a store around a store, in [`wrap`].
//!
//! **Missing is not failed.** `Ok(None)` means that the store is sure the key does not exist. A time-out, a refusal
//! or a short answer is always an `Err`.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};

pub mod fault;
#[cfg(feature = "cloud")]
pub mod http;
#[cfg(feature = "cloud")]
mod http_index;
pub mod local;
pub mod memory;
#[cfg(feature = "cloud")]
pub mod object;
pub mod options;
mod percent;
pub mod wrap;
pub mod zip;

pub(crate) use percent::percent_decode;

/// A part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteRange {
    /// Bytes `offset .. offset + length`. A store answers with exactly that many bytes or with an error.
    Span {
        /// First byte.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// The last bytes of the object; all of it if it is shorter than that.
    Suffix(u64),
    /// Everything from `offset` on.
    From(u64),
}

impl ByteRange {
    /// `offset .. offset + length`.
    #[must_use]
    pub fn span(offset: u64, length: u64) -> Self {
        Self::Span { offset, length }
    }

    /// The span this is in an object of `size` bytes, as `(offset, length)`; an error if it does not fit.
    pub fn resolve(self, size: u64) -> Result<(u64, u64)> {
        match self {
            Self::Span { offset, length } => match offset.checked_add(length) {
                Some(end) if end <= size => Ok((offset, length)),
                _ => Err(Error::invalid(format!(
                    "bytes {offset}+{length} lie outside the object, which has {size} bytes"
                ))),
            },
            Self::Suffix(n) => {
                let n = n.min(size);
                Ok((size - n, n))
            }
            Self::From(offset) if offset <= size => Ok((offset, size - offset)),
            Self::From(offset) => Err(Error::invalid(format!(
                "offset {offset} lies outside the object, which has {size} bytes"
            ))),
        }
    }
}

/// What lies directly below a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Names of objects, without the prefix, sorted.
    pub objects: Vec<String>,
    /// Names of sub-prefixes ("folders"), without the prefix and without the closing slash, sorted.
    pub prefixes: Vec<String>,
}

/// Keys to bytes. Cheap to share as [`SharedStore`].
///
/// Keys are Unicode, case sensitive, relative (`a/b/zarr.json`), never begin or end with a slash.
#[async_trait]
pub trait Store: Debug + Display + Send + Sync + 'static {
    /// The bytes behind `key`, or the `range` of them; `None` if the key does not exist.
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>>;

    /// Several ranges of one object, in the order asked; `None` if the key does not exist.
    ///
    /// The default asks for all at once with [`Store::get`].
    async fn get_ranges(&self, key: &str, ranges: &[ByteRange]) -> Result<Option<Vec<Bytes>>> {
        let parts = futures::future::try_join_all(ranges.iter().map(|r| self.get(key, Some(*r)))).await?;
        Ok(parts.into_iter().collect())
    }

    /// The size of the object behind `key`; `None` if it does not exist.
    async fn size(&self, key: &str) -> Result<Option<u64>>;

    /// What lies directly below `prefix` (`""` or a path without a closing slash). A prefix with nothing below it
    /// is an empty listing. A store that cannot list says [`ErrorKind::Unsupported`](crate::ErrorKind).
    async fn list(&self, prefix: &str) -> Result<Listing>;

    /// The way past the async seam for stores whose bytes are at hand (files, memory): the thread that decodes
    /// reads for itself. `None` for everything remote.
    fn direct(&self) -> Option<&dyn Direct> {
        None
    }

    /// Whether a round trip is expensive, so that ranges should be joined generously. `true` unless said otherwise.
    fn is_remote(&self) -> bool {
        self.direct().is_none()
    }
}

/// A store behind a shared pointer.
pub type SharedStore = Arc<dyn Store>;

/// Blocking access to objects at hand.
pub trait Direct: Send + Sync {
    /// Opens `key`; `None` if it does not exist.
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>>;
}

/// One opened object of a [`Direct`] store.
pub trait DirectObject: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Fills `buf` from `offset` on, wholly or with an error.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// All its bytes, if they are in memory already.
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// Refuses a key that could leave the store's root or is not in canonical form.
pub fn check_key(key: &str) -> Result<()> {
    let bad = key.is_empty()
        || key.split('/').any(|part| part.is_empty() || part == "." || part == "..")
        || key.contains(['\\', '\0']);
    if bad { Err(Error::invalid(format!("{key:?} is not a valid key")).with_key(key)) } else { Ok(()) }
}

/// Refuses a prefix that is not `""` or a valid key.
pub fn check_prefix(prefix: &str) -> Result<()> {
    if prefix.is_empty() { Ok(()) } else { check_key(prefix) }
}
