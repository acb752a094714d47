//! A pin: the state of an object that a manifest or a reference requires.

use md5::{Digest, Md5};

use super::stream::{Body, checked};
use crate::error::{Error, Result};
use crate::num::u64_of;

/// Which state of an object is expected, and how to verify it.
///
/// Everything that is set must match. An empty pin matches any state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The version ID, in a versioned bucket.
    pub version: Option<String>,
    /// The expected `ETag`, without quotes.
    pub etag: Option<String>,
    /// The size of the whole object in bytes.
    pub size: Option<u64>,
    /// The object must not have been modified after this time, in seconds since 1970.
    pub unmodified_since: Option<i64>,
}

impl Pin {
    /// Whether any state matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses an object of another size.
    pub(crate) fn check_size(&self, size: u64) -> Result<()> {
        match self.size {
            Some(wanted) if wanted != size => Err(other(format!("it has {size} bytes instead of {wanted}"))),
            _ => Ok(()),
        }
    }

    /// Refuses an object modified later than this, in seconds since 1970.
    pub(crate) fn check_time(&self, modified: i64) -> Result<()> {
        match self.unmodified_since {
            Some(limit) if modified > limit => {
                Err(other(format!("it was modified {} s too late", modified.saturating_sub(limit))))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an object with another `ETag`.
    #[cfg(feature = "cloud")]
    pub(crate) fn check_etag(&self, etag: &str) -> Result<()> {
        let etag = bare(etag);
        match &self.etag {
            Some(wanted) if bare(wanted) != etag => {
                Err(other(format!("its ETag is {etag}, not {}", bare(wanted))))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a whole object whose bytes do not match the `ETag`, if that is an MD5.
    pub(crate) fn check_whole(&self, bytes: &[u8]) -> Result<()> {
        self.check_size(u64_of(bytes.len()))?;
        match self.md5() {
            Some(wanted) => check_md5(wanted, Md5::digest(bytes)),
            None => Ok(()),
        }
    }

    /// The same for a stream; its length is checked elsewhere.
    pub(crate) fn check_stream(&self, body: Body) -> Body {
        match self.md5().map(str::to_owned) {
            Some(wanted) => {
                let update: fn(&mut Md5, &[u8]) = |hasher, piece| hasher.update(piece);
                checked(body, Md5::new(), update, move |hasher| check_md5(&wanted, hasher.finalize()))
            }
            None => body,
        }
    }

    fn md5(&self) -> Option<&str> {
        self.etag.as_deref().map(bare).filter(|e| is_md5(e))
    }
}

fn check_md5(wanted: &str, found: impl Into<[u8; 16]>) -> Result<()> {
    let found = format!("{:032x}", u128::from_be_bytes(found.into()));
    match found.eq_ignore_ascii_case(wanted) {
        true => Ok(()),
        false => Err(other(format!("the MD5 of its bytes is {found}, not {wanted}"))),
    }
}

fn other(what: String) -> Error {
    Error::invalid(format!("the object is not in the expected state: {what}"))
}

/// Without quotes.
fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

/// Whether an `ETag` can be the MD5 of the object's bytes. That of a multipart upload cannot.
pub(crate) fn is_md5(etag: &str) -> bool {
    etag.len() == 32 && etag.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The MD5 of bytes, in lower case.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(bytes).into()))
}
