//! One state of an object, named from outside: what a manifest or a reference says the bytes must be.

use md5::{Digest, Md5};

use super::stream::{Body, checked};
use crate::error::{Error, Result};
use crate::num::u64_of;

/// Which state of an object is meant, and how to tell that an answer is of that state.
///
/// Everything that is said must hold; what is `None` may be anything. An empty pin names whatever is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The version's name in a bucket that keeps versions.
    pub version: Option<String>,
    /// The `ETag` of that state, without quotes.
    pub etag: Option<String>,
    /// How many bytes the whole object has.
    pub size: Option<u64>,
    /// The object must not have been changed after this moment, in seconds since 1970.
    pub unmodified_since: Option<i64>,
}

impl Pin {
    /// Whether any state will do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses an object of another size.
    pub(crate) fn check_size(&self, size: u64) -> Result<()> {
        match self.size {
            Some(wanted) if wanted != size => Err(other(format!("it has {size} bytes in place of {wanted}"))),
            _ => Ok(()),
        }
    }

    /// Refuses an object that was changed later, given in seconds since 1970.
    pub(crate) fn check_time(&self, modified: i64) -> Result<()> {
        match self.unmodified_since {
            Some(limit) if modified > limit => {
                Err(other(format!("it was changed {} s too late", modified.saturating_sub(limit))))
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

    /// Refuses bytes that are the whole object and not those of the `ETag`, where that is an MD5.
    pub(crate) fn check_whole(&self, bytes: &[u8]) -> Result<()> {
        self.check_size(u64_of(bytes.len()))?;
        match self.md5() {
            Some(wanted) => check_md5(wanted, Md5::digest(bytes)),
            None => Ok(()),
        }
    }

    /// The same for bytes that come as a stream; their number is checked elsewhere.
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
    Error::invalid(format!("the object is not in the state that is meant: {what}"))
}

/// Without quotes.
fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

/// Whether an `ETag` can be the MD5 of the object's bytes. Those of objects that were put in parts cannot.
pub(crate) fn is_md5(etag: &str) -> bool {
    etag.len() == 32 && etag.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The MD5 of bytes, in lower case.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(bytes).into()))
}
