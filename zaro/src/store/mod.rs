//! Stores (layer 1): the [`Store`] trait maps keys to bytes.
//!
//! A [`Store`] reads objects or byte ranges, returns their size and metadata, and lists prefixes. Writable stores also
//! put, optionally under a condition, and delete. Everything else — caching, retrying, coalescing of ranges, prefixes —
//! is a wrapper store, in `wrap`.
//!
//! **Missing is not failed.** `Ok(None)` means that the store is sure the key does not exist. A timeout, a refusal or a
//! short response is always an `Err`.
//!
//! **Puts are atomic.** A reader sees the old object or the new one, never a part of either.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::error::{Error, Result};

pub(crate) mod fault;
mod get;
#[cfg(feature = "cloud")]
pub(crate) mod http;
#[cfg(feature = "cloud")]
mod http_index;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod memory;
#[cfg(feature = "cloud")]
pub(crate) mod object;
pub(crate) mod options;
mod origin;
mod percent;
mod pin;
#[cfg(feature = "cloud")]
mod reply;
pub(crate) mod site;
mod stream;
pub(crate) mod wrap;
mod write;
pub(crate) mod zip;

pub use fault::transient;
pub use get::{GetOptions, LocalMeta, MAX_WHOLE, Object, ObjectMeta, RemoteMeta};
pub(crate) use get::{KeptOpen, changed, one_state};
#[cfg(feature = "cloud")]
pub use http::HttpStore;
pub use list::{Entry, KeyEntry, ListOptions, Listing};
pub use local::LocalStore;
pub use memory::MemoryStore;
#[cfg(feature = "cloud")]
pub use object::CloudStore;
#[cfg(feature = "cloud")]
pub use object::bucket::Bucket;
#[cfg(feature = "cloud")]
pub use object::tagging::Versioning;
#[cfg(feature = "cloud")]
pub use object::versions::{ObjectVersion, Pages as VersionPages};
pub use options::{OPTION_NAMES, StoreOptions};
pub use origin::Origin;
pub(crate) use percent::{percent_decode, percent_encode, percent_encode_key};
pub use pin::Pin;
pub(crate) use pin::md5_hex;
pub use site::{Relation, Site};
pub use stream::{Body, ObjectStream};
pub use wrap::log::{LoggedRequest, RequestLog, RequestMethod, RequestOutcome};
pub use wrap::prefix::PrefixStore;
pub use wrap::read_only::ReadOnlyStore;
pub use wrap::retry::RetryPolicy;
pub use write::{Condition, Put};
pub use zip::create::{
    Arrangement as ZipArrangement, EntryWriter as ZipEntryWriter, ZipCreateStore, ZipForm,
};
pub use zip::{ArchiveEntry, ZipStore};

/// The journal object of unfinished work. Files of this name are private to their owner.
pub(crate) const JOURNAL: &str = ".zaro-journal.json";

/// The lock object of a change to the shape of an array.
pub(crate) const TURN: &str = ".zaro-turn.json";

/// The folder in which a replacement for its parent is created. It is not a node; the replacement lies one level
/// deeper.
pub(crate) const REPLACEMENT: &str = ".zaro-new";

/// The folder beside an array's document in which its writers register.
pub(crate) const WRITING: &str = ".zaro-writing";

/// Journal names of earlier versions, and the command that wrote them.
pub(crate) const OLD_JOURNALS: [(&str, &str); 6] = [
    (".zaro-copy.json", "copy"),
    (".zaro-convert.json", "copy --in-place"),
    (".zaro-upgrade.json", "image upgrade"),
    (".zaro-pyramid.json", "image pyramid"),
    (".zaro-pyramid-copy.json", "image pyramid --to"),
    (".zaro-image-convert.json", "image convert"),
];

/// Whether an object of this name marks unfinished work and is not content.
#[cfg(feature = "image")]
pub(crate) fn is_journal(name: &str) -> bool {
    name == JOURNAL || name == TURN || OLD_JOURNALS.iter().any(|(old, _)| *old == name)
}

/// A byte range of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteRange {
    /// Bytes `offset .. offset + length`. A store returns exactly that many bytes or an error.
    Span {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// The last bytes of the object; all of it if it is shorter.
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

/// Maps keys to bytes. Cheap to share as [`SharedStore`].
///
/// Keys are Unicode, case sensitive, relative (`a/b/zarr.json`), never begin or end with a slash.
#[async_trait]
pub trait Store: Debug + Display + Send + Sync + 'static {
    /// Returns the object behind `key`, or a range of it, with its metadata; `None` if the key does not exist.
    ///
    /// [`StoreExt`] has shorter forms.
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>>;

    /// The same as a stream, for large objects. Without [`GetOptions::max_size`], the size announced by the store is
    /// the only limit.
    ///
    /// The default holds the whole object in memory.
    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        Ok(self.get_opts(key, options).await?.map(|object| ObjectStream::of(object, options.range)))
    }

    /// Returns several ranges of one object, in the given order and all of the same state (the expected one, if any);
    /// `None` if the key does not exist.
    ///
    /// The default requests all of them concurrently with [`Store::get_opts`].
    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        each_range(self, key, ranges, state).await
    }

    /// Returns the metadata of the object behind `key`; `None` if it does not exist. Nothing is read, and caches are
    /// bypassed.
    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>>;

    /// Lists what lies below `prefix` (`""` or a path without a trailing slash), in the order of [`Entry::cursor`] if
    /// the store has an order. Pages are requested as the stream is polled. Concurrent changes may or may not be seen.
    ///
    /// A prefix with nothing below it is an empty listing, and an object called `prefix` itself is not below it. A
    /// store that cannot list here returns [`ErrorKind::Unsupported`](crate::ErrorKind). [`StoreExt`] has shorter
    /// forms.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>>;

    /// Properties of the whole store.
    ///
    /// The default is a store that is read-only, and remote unless it has [`Store::direct`].
    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: false, is_remote: self.direct().is_none() }
    }

    /// Puts `value` behind `key` if the condition holds.
    ///
    /// After an error it is unknown whether the object was written, unless the store says so; it is whole in either
    /// case. A store that does not support the condition returns [`ErrorKind::Unsupported`](crate::ErrorKind).
    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let _ = (value, when);
        Err(unwritable(self, key))
    }

    /// Deletes the object behind `key`. Deleting a missing object succeeds.
    async fn delete(&self, key: &str) -> Result<()> {
        Err(unwritable(self, key))
    }

    /// Deletes the object behind `key` if it is in this state, which was read [for an update](GetOptions::for_update);
    /// also refused if it no longer exists. A store without conditional deletes returns
    /// [`ErrorKind::Unsupported`](crate::ErrorKind): no bucket has them.
    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let _ = state;
        Err(Error::unsupported("this kind of store does not support conditional deletes")
            .with_key(key)
            .with_store(self))
    }

    /// Deletes every object below `prefix/`; `""` for the whole store. Objects that others put there concurrently may
    /// or may not survive. The object `prefix/.zaro-delete.json` ([`DELETING`]) is deleted last, so that the remains of
    /// a killed deletion can be recognised.
    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        Err(unwritable(self, prefix))
    }

    /// Copies the object behind `from` to `to`, replacing what is there. Fails if `from` does not exist.
    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let Some(bytes) = self.get(from, None).await? else {
            return Err(Error::io("the object to copy does not exist").with_key(from).with_store(self));
        };
        self.put(to, bytes, Condition::Always).await.map(drop)
    }

    /// Replaces everything below `prefix/` by what lies below `prefix/inner/`, atomically: others see the old or the
    /// new. `false` where that is not supported; then nothing has changed.
    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let _ = (prefix, inner);
        Ok(false)
    }

    /// Finishes the work: everything that was put becomes visible, and final checks are made. Only archives have
    /// anything to do here.
    async fn finish(&self) -> Result<()> {
        Ok(())
    }

    /// The origin of the bytes behind `key`, if that is outside this store. `None` also where it is unknown without a
    /// request.
    fn origin(&self, key: &str) -> Option<Origin> {
        let _ = key;
        None
    }

    /// The places where the bytes below `prefix/` are stored: first that of the prefix itself, then all others that
    /// symlinks and references lead to. Two stores with the same or nested places share bytes.
    ///
    /// The default knows nothing but this store.
    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        let number = std::ptr::from_ref(self).addr();
        futures::stream::iter([Ok(Site::own(number, prefix))]).boxed()
    }

    /// Free space in bytes, where known: on the disk with the files.
    fn free_space(&self) -> Option<u64> {
        None
    }

    /// Blocking access for local stores (files, memory): the decoding thread itself reads. `None` for remote stores.
    fn direct(&self) -> Option<&dyn Direct> {
        None
    }
}

/// Properties of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFacts {
    /// Whether a listing is complete. That of a web server is a page made for people, which may omit entries: absence
    /// from it proves nothing.
    pub lists_all: bool,
    /// Whether [`Store::put`] and [`Store::delete`] are supported. They may still be refused.
    pub is_writable: bool,
    /// Whether a round trip is expensive, so that ranges should be joined generously.
    pub is_remote: bool,
}

/// Shorter forms of the [`Store`] methods.
#[async_trait]
pub trait StoreExt: Store {
    /// The bytes behind `key`, or the `range` of them; `None` if the key does not exist.
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        Ok(self.get_opts(key, GetOptions::range(range)).await?.map(|object| object.bytes))
    }

    /// The same for the state that `pin` names; an error if the object is in another state.
    async fn get_pinned(&self, key: &str, range: Option<ByteRange>, pin: &Pin) -> Result<Option<Bytes>> {
        let options = GetOptions { range, pin: Some(pin), ..GetOptions::default() };
        Ok(self.get_opts(key, options).await?.map(|object| object.bytes))
    }

    /// The whole object behind `key`, for an update: with its state for [`Condition::Unchanged`].
    async fn get_for_update(&self, key: &str) -> Result<Option<(Bytes, ObjectMeta)>> {
        let options = GetOptions { for_update: true, max_size: Some(MAX_PUT), ..GetOptions::default() };
        Ok(self.get_opts(key, options).await?.map(|object| (object.bytes, object.meta)))
    }

    /// The names directly below `prefix`.
    async fn list(&self, prefix: &str) -> Result<Listing> {
        Listing::collect(prefix, self.list_opts(prefix, &ListOptions::default())).await
    }

    /// Every object below `prefix/` (`""` for all of the store).
    fn keys(&self, prefix: &str) -> BoxStream<'_, Result<KeyEntry>> {
        let objects = |entry| {
            std::future::ready(Ok(match entry {
                Entry::Object(object) => Some(object),
                Entry::Prefix(_) => None,
            }))
        };
        self.list_opts(prefix, &ListOptions::objects()).try_filter_map(objects).boxed()
    }

    /// [`StoreFacts::lists_all`].
    fn lists_all(&self) -> bool {
        self.facts().lists_all
    }

    /// [`StoreFacts::is_writable`].
    fn is_writable(&self) -> bool {
        self.facts().is_writable
    }

    /// [`StoreFacts::is_remote`].
    fn is_remote(&self) -> bool {
        self.facts().is_remote
    }

    /// Whether `key` exists.
    async fn exists(&self, key: &str) -> Result<bool> {
        Ok(self.stat(key).await?.is_some())
    }

    /// The size of the object behind `key`; `None` if it does not exist.
    async fn size(&self, key: &str) -> Result<Option<u64>> {
        match self.stat(key).await? {
            None => Ok(None),
            Some(meta) => match meta.size() {
                Some(size) => Ok(Some(size)),
                None => Err(Error::unsupported("the size of the object is not known")
                    .with_key(key)
                    .with_store(self)),
            },
        }
    }

    /// A text that identifies the state of the object behind `key` ([`ObjectMeta::text`]); `None` if it does not exist.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) if the store cannot identify states.
    async fn state(&self, key: &str) -> Result<Option<String>> {
        match self.stat(key).await?.map(|meta| meta.text()) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text)),
            Some(None) => Err(Error::unsupported(
                "this kind of store cannot identify the state of an object (ETag, version)",
            )
            .with_key(key)
            .with_store(self)),
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A store behind a shared pointer.
pub type SharedStore = Arc<dyn Store>;

/// The largest object for a conditional put, and so the largest that is read for an update: 5 GiB.
const MAX_PUT: u64 = 5 << 30;

/// The marker object of a deletion in progress, or of one that was killed.
pub const DELETING: &str = ".zaro-delete.json";

pub(crate) fn unwritable(store: &(impl Display + ?Sized), key: &str) -> Error {
    Error::unsupported("this kind of store cannot be written to").with_key(key).with_store(store)
}

/// Blocking access to local objects.
pub trait Direct: Send + Sync {
    /// Opens `key`; `None` if it does not exist.
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>>;

    /// Puts the concatenated parts behind `key` if the condition holds; as [`Store::put`].
    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        let _ = (parts, when);
        Err(Error::unsupported("this kind of store cannot be written to").with_key(key))
    }

    /// Deletes the object behind `key`; as [`Store::delete`].
    fn delete(&self, key: &str) -> Result<()> {
        Err(Error::unsupported("this kind of store cannot be written to").with_key(key))
    }
}

/// One opened object of a [`Direct`] store.
pub trait DirectObject: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Fills `buf` from `offset` on, wholly or with an error.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Its metadata, in the state that was opened.
    fn meta(&self) -> ObjectMeta {
        ObjectMeta::Unknown
    }

    /// The same, fit for [`Condition::Unchanged`].
    fn meta_for_update(&self) -> Result<ObjectMeta> {
        Ok(self.meta())
    }

    /// Fails if the object changed since it was opened: parts read from it may be of different states.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// All its bytes, if they are already in memory.
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// Requests all ranges concurrently, each by itself.
pub(crate) async fn each_range<S: Store + ?Sized>(
    store: &S,
    key: &str,
    ranges: &[ByteRange],
    state: Option<&ObjectMeta>,
) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
    let each = ranges
        .iter()
        .map(|r| store.get_opts(key, GetOptions { range: Some(*r), state, ..GetOptions::default() }));
    one_state(futures::future::try_join_all(each).await?).map_err(|e| e.with_key(key).with_store(store))
}

/// `prefix/name`, or `name` below the root.
pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
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
