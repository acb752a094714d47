//! Get options, returned bytes and object metadata. The metadata identifies the state of the object, so that parts of
//! two different states are never combined.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::{ByteRange, Pin};
use crate::error::{Error, Result};
use crate::num::u64_of;

/// The largest object that is read whole unless the caller sets a limit: 1 GiB.
pub const MAX_WHOLE: u64 = 1 << 30;

/// Options of a get, besides the key.
#[derive(Debug, Clone, Copy, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct GetOptions<'a> {
    /// The byte range to read; `None` for the whole object.
    pub range: Option<ByteRange>,
    /// The expected state, as returned by an earlier get; if the object is in another state, that is a `Conflict`.
    pub state: Option<&'a ObjectMeta>,
    /// The expected state, as named by a manifest or a reference; any other state is an error.
    pub pin: Option<&'a Pin>,
    /// Maximum size of the whole object in bytes, [`MAX_WHOLE`] by default. A larger object is an error before all of
    /// it was received.
    pub max_size: Option<u64>,
    /// Read in order to update: the response comes from the store itself, never from a cache, and its metadata can be
    /// used in [`Condition::Unchanged`](super::Condition::Unchanged).
    pub for_update: bool,
}

impl<'a> GetOptions<'a> {
    /// A range, or the whole object, in any state.
    #[must_use]
    pub fn range(range: Option<ByteRange>) -> Self {
        Self { range, ..Self::default() }
    }

    /// The whole object in any state, if it has at most this many bytes.
    #[must_use]
    pub fn at_most(max_size: u64) -> Self {
        Self { max_size: Some(max_size), ..Self::default() }
    }

    /// The same, but only in this state.
    #[must_use]
    pub fn of_state(self, state: &'a ObjectMeta) -> Self {
        Self { state: Some(state), ..self }
    }

    /// The pin, unless it is empty.
    pub(crate) fn pinned(&self) -> Option<&'a Pin> {
        self.pin.filter(|pin| !pin.is_empty())
    }

    /// The `If-Match` value: the strong `ETag` of the expected state. An `ETag` without quotes violates the standard
    /// and is not sent, since the server's reaction is unpredictable.
    #[cfg(feature = "cloud")]
    pub(crate) fn if_match(&self) -> Option<&'a str> {
        let Some(ObjectMeta::Remote(remote)) = self.state else { return None };
        remote.strong().filter(|etag| etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'))
    }

    /// Refuses a pin, for stores that cannot identify the state of an object.
    pub(crate) fn refuse_pin(&self) -> Result<()> {
        match self.pinned() {
            None => Ok(()),
            Some(_) => Err(Error::unsupported(
                "this kind of store cannot identify the state of an object (ETag, version)",
            )),
        }
    }

    /// Maximum size of the whole object.
    pub(crate) fn largest(&self) -> u64 {
        self.max_size.or(self.pin.and_then(|pin| pin.size)).unwrap_or(MAX_WHOLE)
    }

    /// Maximum size of the response.
    pub(crate) fn bound(&self) -> u64 {
        match self.range {
            Some(ByteRange::Span { length, .. }) => length,
            Some(ByteRange::Suffix(n)) => n,
            Some(ByteRange::From(_)) | None => self.largest(),
        }
    }

    /// Refuses a response, or an announced length, of more bytes than requested.
    pub(crate) fn check_length(&self, length: u64) -> Result<()> {
        if length <= self.bound() { Ok(()) } else { Err(self.too_long()) }
    }

    /// The error for a response of more bytes than requested.
    pub(crate) fn too_long(&self) -> Error {
        Error::invalid(format!("the object is larger than the limit of {} bytes", self.bound()))
    }

    /// Checks a response against the request.
    pub(crate) fn check(&self, object: &Object) -> Result<()> {
        object.meta.check(self.state)?;
        self.check_length(u64_of(object.bytes.len()))
    }
}

/// The requested bytes and the metadata of their object.
#[derive(Debug, Clone, Default)]
pub struct Object {
    /// The whole object, or the requested range.
    pub bytes: Bytes,
    /// Metadata of the whole object: what came with the bytes; no extra request is made for it.
    pub meta: ObjectMeta,
}

impl From<Bytes> for Object {
    /// Without metadata.
    fn from(bytes: Bytes) -> Self {
        Self { bytes, meta: ObjectMeta::Unknown }
    }
}

/// What a store knows about an object: enough to tell one state of it from another. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ObjectMeta {
    /// Nothing: the store cannot tell states apart.
    #[default]
    Unknown,
    /// Identity of a local object (file or memory).
    Local(LocalMeta),
    /// As reported by a server.
    Remote(Arc<RemoteMeta>),
}

/// Identity of a file or an object in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LocalMeta {
    /// A number unique to this state of the object: device and inode of a file, or the number of the put for an object
    /// in memory.
    pub id: [u64; 2],
    /// Its size in bytes.
    pub size: u64,
    /// Last modification: seconds since 1970, and nanoseconds.
    pub modified: Option<(i64, i64)>,
    /// Keeps the file open, so that its inode is not reused.
    pub(crate) open: KeptOpen,
}

/// A file that is kept open; ignored in comparisons.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptOpen {
    _file: Option<Arc<File>>,
}

impl From<File> for KeptOpen {
    fn from(file: File) -> Self {
        Self { _file: Some(Arc::new(file)) }
    }
}

impl PartialEq for KeptOpen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptOpen {}

impl Hash for KeptOpen {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Object metadata reported by a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RemoteMeta {
    /// Its `ETag`, as sent.
    pub etag: Option<String>,
    /// Last modification, in seconds since 1970.
    pub modified: Option<i64>,
    /// The size of the whole object.
    pub size: Option<u64>,
    /// The version ID, in a versioned bucket.
    pub version: Option<String>,
}

impl RemoteMeta {
    /// The `ETag`, if it is a strong one.
    fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|e| !e.starts_with("W/"))
    }

    fn agrees(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        if !same(self.size, other.size) {
            return false;
        }
        match (self.strong(), other.strong()) {
            (Some(a), Some(b)) => a == b,
            _ => same(self.etag.as_deref(), other.etag.as_deref()) && same(self.modified, other.modified),
        }
    }
}

impl From<RemoteMeta> for ObjectMeta {
    fn from(meta: RemoteMeta) -> Self {
        Self::Remote(Arc::new(meta))
    }
}

impl ObjectMeta {
    /// An object in memory: the number of its put, and its size.
    pub(crate) fn of_put(put: u64, size: u64) -> Self {
        Self::Local(LocalMeta { id: [put, 0], size, ..LocalMeta::default() })
    }

    /// An object of this size, with a text unique to its state.
    pub(crate) fn of_text(etag: Option<String>, size: Option<u64>) -> Self {
        RemoteMeta { etag, size, ..RemoteMeta::default() }.into()
    }

    /// The size of the object, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Local(local) => Some(local.size),
            Self::Remote(remote) => remote.size,
        }
    }

    /// The last modification time, if known.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanos) = match self {
            Self::Unknown => return None,
            Self::Local(local) => local.modified?,
            Self::Remote(remote) => (remote.modified?, 0),
        };
        let since = Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).unwrap_or(0));
        if seconds < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) }
    }

    /// The version ID, in a versioned bucket.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Remote(remote) => remote.version.as_deref(),
            Self::Unknown | Self::Local(_) => None,
        }
    }

    /// A text that identifies this state of the object: its `ETag` without quotes, if that is a strong one, or size and
    /// time. A second line may differ although nothing changed: the inode, which some file systems make up. The device
    /// number is left out, since it may change on restart.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Local(LocalMeta { id: [_, inode], size, modified: Some((seconds, nanos)), .. }) => {
                Some(format!("{size} {seconds}.{nanos:09}\n{inode}"))
            }
            Self::Local(local) => Some(local.id[0].to_string()),
            Self::Remote(remote) => match (remote.strong(), remote.modified, remote.size) {
                (Some(etag), ..) => Some(etag.trim_matches('"').to_owned()),
                (None, Some(modified), Some(size)) => Some(format!("{size} {modified}")),
                _ => None,
            },
        }
    }

    /// Whether both may be the same state, as far as is known.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Remote(a), Self::Remote(b)) => Arc::ptr_eq(a, b) || a.agrees(b),
            (Self::Local(a), Self::Local(b)) => a == b,
            _ => true,
        }
    }

    /// Fails if another state is expected.
    pub fn check(&self, of: Option<&Self>) -> Result<()> {
        match of {
            Some(other) if !self.agrees(other) => Err(changed()),
            _ => Ok(()),
        }
    }

    /// The identity of a local object, for a conditional put; a `Usage` error if this belongs to another kind of store.
    pub(crate) fn local(&self) -> Result<&LocalMeta> {
        match self {
            Self::Local(local) => Ok(local),
            _ => Err(foreign()),
        }
    }

    /// The metadata of a remote object, for a conditional put; a `Usage` error if this belongs to another kind of
    /// store.
    #[cfg(feature = "cloud")]
    pub(crate) fn remote(&self) -> Result<&RemoteMeta> {
        match self {
            Self::Remote(remote) => Ok(remote),
            _ => Err(foreign()),
        }
    }
}

fn foreign() -> Error {
    Error::usage("the put condition belongs to another kind of store")
}

/// The object changed since it was last seen.
pub(crate) fn changed() -> Error {
    Error::conflict("the object was changed while it was read")
}

/// Parts of one object, if all are of the same state; `None` if the object does not exist.
pub(crate) fn one_state(parts: Vec<Option<Object>>) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
    let mut state = ObjectMeta::Unknown;
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(Object { bytes, meta }) = part else { return Ok(None) };
        meta.check(Some(&state))?;
        if state == ObjectMeta::Unknown {
            state = meta;
        }
        out.push(bytes);
    }
    Ok(Some((out, state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(etag: Option<&str>, modified: Option<i64>, size: Option<u64>) -> ObjectMeta {
        RemoteMeta { etag: etag.map(str::to_owned), modified, size, version: None }.into()
    }

    #[test]
    fn a_strong_etag_tells_and_else_everything_that_was_said() {
        let (a, b) = (Some("\"a\""), Some("\"b\""));
        assert!(said(a, Some(1), None).agrees(&said(a, Some(2), None)), "the same bytes elsewhere");
        assert!(!said(a, Some(1), None).agrees(&said(b, Some(1), None)));
        assert!(!said(a, None, Some(1)).agrees(&said(a, None, Some(2))));
        assert!(!said(None, Some(1), None).agrees(&said(None, Some(2), None)));
        assert!(!said(Some("W/\"a\""), None, None).agrees(&said(Some("W/\"b\""), None, None)));
        assert!(!said(Some("W/\"a\""), Some(1), None).agrees(&said(Some("W/\"a\""), Some(2), None)));
        assert!(said(a, None, Some(1)).agrees(&said(None, Some(1), Some(1))), "nothing to compare");
        assert!(ObjectMeta::Unknown.agrees(&said(a, None, None)));
        assert!(!ObjectMeta::of_put(1, 1).agrees(&ObjectMeta::of_put(2, 1)));
    }

    #[cfg(feature = "cloud")]
    #[test]
    fn only_strong_tags_in_quotes_are_sent() {
        let sent = |state: &ObjectMeta| GetOptions::default().of_state(state).if_match().map(str::to_owned);
        assert_eq!(sent(&said(Some("\"a\""), None, None)).as_deref(), Some("\"a\""));
        for unfit in [Some("W/\"a\""), Some("a"), Some("\"\""), Some("\""), None] {
            assert_eq!(sent(&said(unfit, Some(1), Some(1))), None, "{unfit:?}");
        }
        assert_eq!(sent(&ObjectMeta::of_put(1, 1)), None);
    }

    #[test]
    fn parts_of_two_states_are_not_put_together() {
        let part =
            |etag| Some(Object { bytes: Bytes::from_static(b"x"), meta: said(Some(etag), None, None) });
        assert_eq!(one_state(vec![part("a"), part("a")]).unwrap().unwrap().0.len(), 2);
        assert!(one_state(vec![part("a"), part("b")]).is_err());
        assert!(one_state(vec![part("a"), None]).unwrap().is_none());
        let unknown = Some(Object::default());
        assert!(one_state(vec![unknown, part("a"), part("b")]).is_err());
    }
}
