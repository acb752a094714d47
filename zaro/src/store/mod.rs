//! Layer 1: keys to bytes.
//!
//! A [`Store`] answers three questions: the bytes behind a key (all, or a range of them), how many there are, and
//! what lies directly below a prefix. Those that can be written to also put, under a condition if wanted, and delete.
//! Everything else — caching, retrying, joining neighbouring ranges, a prefix — is a store around a store, in `wrap`.
//!
//! **Missing is not failed.** `Ok(None)` means that the store is sure the key does not exist. A time-out, a refusal
//! or a short answer is always an `Err`.
//!
//! **A put is whole.** Whoever reads sees the old object or the new one, never a part of either.

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

/// The object by which unfinished work in a place is known. Files of this name are for their owner alone.
pub(crate) const JOURNAL: &str = ".zaro-journal.json";

/// The object by which somebody says that they change the shape of an array.
pub(crate) const TURN: &str = ".zaro-turn.json";

/// The folder in which something is made that is to replace what it lies in. It is no node; what is made lies one deeper.
pub(crate) const REPLACEMENT: &str = ".zaro-new";

/// The folder beside the document of an array in which everybody who writes elements to it says so.
pub(crate) const WRITING: &str = ".zaro-writing";

/// What unfinished work of earlier versions is known by, and which command it was.
pub(crate) const OLD_JOURNALS: [(&str, &str); 6] = [
    (".zaro-copy.json", "copy"),
    (".zaro-convert.json", "copy --in-place"),
    (".zaro-upgrade.json", "image upgrade"),
    (".zaro-pyramid.json", "image pyramid"),
    (".zaro-pyramid-copy.json", "image pyramid --to"),
    (".zaro-image-convert.json", "image convert"),
];

/// Whether an object of this name says that something is unfinished, and is no content.
#[cfg(feature = "image")]
pub(crate) fn is_journal(name: &str) -> bool {
    name == JOURNAL || name == TURN || OLD_JOURNALS.iter().any(|(old, _)| *old == name)
}

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

/// Keys to bytes. Cheap to share as [`SharedStore`].
///
/// Keys are Unicode, case sensitive, relative (`a/b/zarr.json`), never begin or end with a slash.
#[async_trait]
pub trait Store: Debug + Display + Send + Sync + 'static {
    /// The object behind `key`, or a part of it, as the options say, with what is known of it; `None` if the key does not exist.
    ///
    /// [`StoreExt`] has shorter forms.
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>>;

    /// The same as a stream, for what is too large to be held. Without [`GetOptions::max_size`] it may have as many bytes as
    /// the store announces, however many that are.
    ///
    /// The default holds it all.
    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        Ok(self.get_opts(key, options).await?.map(|object| ObjectStream::of(object, options.range)))
    }

    /// Several ranges of one object, in the order asked, all of one state, which is the one that is asked for, if any;
    /// `None` if the key does not exist.
    ///
    /// The default asks for all at once with [`Store::get_opts`].
    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        each_range(self, key, ranges, state).await
    }

    /// What is known of the object behind `key`; `None` if it does not exist. Nothing of it is read, and no cache asked.
    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>>;

    /// What lies below `prefix` (`""` or a path without a closing slash), in the order of [`Entry::cursor`] where the store
    /// has an order at all. Pages are asked for as the stream is polled. What changes meanwhile may or may not be seen.
    ///
    /// A prefix with nothing below it is an empty listing, and an object called `prefix` itself is not below it. A store
    /// that cannot list, or not there, says [`ErrorKind::Unsupported`](crate::ErrorKind). [`StoreExt`] has shorter forms.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>>;

    /// What holds for all of the store.
    ///
    /// The default is a store that cannot be written to, and that is remote unless there is a way past the async seam.
    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: false, is_remote: self.direct().is_none() }
    }

    /// Puts `value` behind `key` if the condition holds.
    ///
    /// After an error it is not known whether the object was written, unless the store says so; it is whole in
    /// either case. A store that cannot hold the condition says [`ErrorKind::Unsupported`](crate::ErrorKind).
    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let _ = (value, when);
        Err(unwritable(self, key))
    }

    /// Deletes the object behind `key`. One that does not exist is deleted already.
    async fn delete(&self, key: &str) -> Result<()> {
        Err(unwritable(self, key))
    }

    /// Deletes the object behind `key` if it is in this state, which was got [for an update](GetOptions::for_update);
    /// refused also if it is gone. A store that cannot hold the condition says
    /// [`ErrorKind::Unsupported`](crate::ErrorKind): no bucket can.
    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let _ = state;
        Err(Error::unsupported("this kind of store cannot delete under a condition")
            .with_key(key)
            .with_store(self))
    }

    /// Deletes every object below `prefix/`; `""` for all of the store. Objects that others put there meanwhile may
    /// or may not survive. The object `prefix/.zaro-delete.json` ([`DELETING`]) goes last, so that what a killed process
    /// left can be told from what somebody keeps there.
    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        Err(unwritable(self, prefix))
    }

    /// Puts a copy of the object behind `from` behind `to`, whatever is there. It is an error if there is none.
    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let Some(bytes) = self.get(from, None).await? else {
            return Err(Error::io("there is nothing to be copied").with_key(from).with_store(self));
        };
        self.put(to, bytes, Condition::Always).await.map(drop)
    }

    /// Puts what lies below `prefix/inner/` in the place of everything that lies below `prefix/`, in one step: at every
    /// moment others see the old or the new. `false` where that cannot be done; then nothing has changed.
    async fn promote(&self, prefix: &str, inner: &str) -> Result<bool> {
        let _ = (prefix, inner);
        Ok(false)
    }

    /// Ends the work: everything that was put is where others find it, and what was not found is not there, as far as
    /// that can be told in the end only. Only archives have something left to do.
    async fn finish(&self) -> Result<()> {
        Ok(())
    }

    /// Where the bytes behind `key` are taken from, if that is another place than this store. `None` also where that cannot be
    /// told without waiting.
    fn origin(&self, key: &str) -> Option<Origin> {
        let _ = key;
        None
    }

    /// The places that the bytes below `prefix/` come from: first that of the prefix itself, then all others that links
    /// and references lead to. Two stores that give the same or nested places share bytes.
    ///
    /// The default knows nothing but this very store.
    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        let number = std::ptr::from_ref(self).addr();
        futures::stream::iter([Ok(Site::own(number, prefix))]).boxed()
    }

    /// How many bytes there is room for, where that is known: on the disk that the files are on.
    fn free_space(&self) -> Option<u64> {
        None
    }

    /// The way past the async seam for stores whose bytes are at hand (files, memory): the thread that decodes
    /// reads for itself. `None` for everything remote.
    fn direct(&self) -> Option<&dyn Direct> {
        None
    }
}

/// What holds for all of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFacts {
    /// Whether a listing has everything that is there. That of a web server is a page made for people, which may leave
    /// things out: it gives names to look for, and says nothing of what it does not name.
    pub lists_all: bool,
    /// Whether [`Store::put`] and [`Store::delete`] are there at all. They may still be refused.
    pub is_writable: bool,
    /// Whether a round trip is expensive, so that ranges should be joined generously.
    pub is_remote: bool,
}

/// Shorter forms of what a [`Store`] does.
#[async_trait]
pub trait StoreExt: Store {
    /// The bytes behind `key`, or the `range` of them; `None` if the key does not exist.
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        Ok(self.get_opts(key, GetOptions::range(range)).await?.map(|object| object.bytes))
    }

    /// The same, of the state of the object that `pin` names; an error if what is there is another state.
    async fn get_pinned(&self, key: &str, range: Option<ByteRange>, pin: &Pin) -> Result<Option<Bytes>> {
        let options = GetOptions { range, pin: Some(pin), ..GetOptions::default() };
        Ok(self.get_opts(key, options).await?.map(|object| object.bytes))
    }

    /// All of the object behind `key`, to be changed: with the state for [`Condition::Unchanged`].
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

    /// Whether there is an object behind `key`.
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

    /// A text that tells the state of the object behind `key` from others ([`ObjectMeta::text`]); `None` if it does not
    /// exist. A store that cannot tell is an [`ErrorKind::Unsupported`](crate::ErrorKind).
    async fn state(&self, key: &str) -> Result<Option<String>> {
        match self.stat(key).await?.map(|meta| meta.text()) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text)),
            Some(None) => {
                Err(Error::unsupported("this kind of store cannot tell the states of an object apart")
                    .with_key(key)
                    .with_store(self))
            }
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A store behind a shared pointer.
pub type SharedStore = Arc<dyn Store>;

/// The largest object that can be put under a condition, and so the largest that is read to be changed: 5 GiB.
const MAX_PUT: u64 = 5 << 30;

/// What lies in a place while everything else there is deleted, and after a deletion that was killed.
pub const DELETING: &str = ".zaro-delete.json";

pub(crate) fn unwritable(store: &(impl Display + ?Sized), key: &str) -> Error {
    Error::unsupported("this kind of store cannot be written to").with_key(key).with_store(store)
}

/// Blocking access to objects at hand.
pub trait Direct: Send + Sync {
    /// Opens `key`; `None` if it does not exist.
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>>;

    /// Puts the parts, one after another, behind `key` if the condition holds; as [`Store::put`].
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

    /// What is known of it, in the state that was opened.
    fn meta(&self) -> ObjectMeta {
        ObjectMeta::Unknown
    }

    /// The same, fit for [`Condition::Unchanged`].
    fn meta_for_update(&self) -> Result<ObjectMeta> {
        Ok(self.meta())
    }

    /// Fails if the object was changed since it was opened: what was read in parts is then of no state at all.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// All its bytes, if they are in memory already.
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// Asks for all ranges at once, each by itself.
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
