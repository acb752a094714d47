//! An in-memory store, for tests, bindings and small data.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use super::list::{failed, of_sorted};
use super::{
    ByteRange, Condition, Direct, DirectObject, Entry, GetOptions, ListOptions, Object, ObjectMeta,
    ObjectStream, Put, Store, StoreFacts, check_key, check_prefix, join,
};
use crate::error::{Error, Result};
use crate::num::u64_of;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: RwLock<MemoryObjects>,
}

#[derive(Debug, Default)]
struct MemoryObjects {
    objects: BTreeMap<String, StoredObject>,
    /// Number of puts so far.
    puts: u64,
}

/// An object, and the number of its put.
#[derive(Debug, Clone)]
struct StoredObject {
    bytes: Bytes,
    put: u64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `value` behind `key`, replacing what was there.
    pub fn put(&self, key: &str, value: impl Into<Bytes>) -> Result<()> {
        self.put_if(key, value.into(), &Condition::Always).map(|_| ())
    }

    fn put_if(&self, key: &str, bytes: Bytes, when: &Condition) -> Result<Put> {
        check_key(key).map_err(|e| e.with_store(self))?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let now = state.objects.get(key).map(|held| held.put);
        let holds = match when {
            Condition::Always => true,
            Condition::Absent => now.is_none(),
            Condition::Unchanged(seen) => {
                now == Some(seen.local().map_err(|e| e.with_key(key).with_store(self))?.id[0])
            }
        };
        if !holds {
            return Ok(Put::Refused);
        }
        state.puts += 1;
        let held = StoredObject { bytes, put: state.puts };
        state.objects.insert(key.to_owned(), held);
        Ok(Put::Done)
    }

    fn remove(&self, key: &str) -> Result<()> {
        check_key(key).map_err(|e| e.with_store(self))?;
        self.state.write().unwrap_or_else(PoisonError::into_inner).objects.remove(key);
        Ok(())
    }

    fn held(&self, key: &str) -> Result<Option<StoredObject>> {
        check_key(key).map_err(|e| e.with_store(self))?;
        Ok(self.state.read().unwrap_or_else(PoisonError::into_inner).objects.get(key).cloned())
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory:")
    }
}

/// The `range` of `bytes`, sharing their memory.
pub(crate) fn slice(bytes: &Bytes, range: Option<ByteRange>) -> Result<Bytes> {
    let Some(range) = range else { return Ok(bytes.clone()) };
    let (offset, length) = range.resolve(u64_of(bytes.len()))?;
    let start = crate::num::usize_of(offset)?;
    let length = crate::num::usize_of(length)?;
    Ok(bytes.slice(start..start + length))
}

#[async_trait]
impl Store for MemoryStore {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let named = |e: Error| e.with_key(key).with_store(self);
        if options.pin.is_some_and(|pin| pin.version.is_some() || pin.unmodified_since.is_some()) {
            return Err(named(Error::unsupported("objects in memory have neither versions nor times")));
        }
        let Some(held) = self.held(key)? else { return Ok(None) };
        let read = || {
            options.pin.map_or(Ok(()), |pin| pin.check_whole(&held.bytes))?;
            let object = Object { bytes: slice(&held.bytes, options.range)?, meta: held.meta() };
            options.check(&object)?;
            Ok(object)
        };
        read().map(Some).map_err(named)
    }

    /// Streaming takes no extra memory, so any size is allowed.
    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let options = GetOptions { max_size: options.max_size.or(Some(u64::MAX)), ..options };
        Ok(self.get_opts(key, options).await?.map(|object| ObjectStream::of(object, options.range)))
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        Ok(self.held(key)?.map(|held| held.meta()))
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        if let Err(e) = check_prefix(prefix) {
            return failed(e.with_store(self));
        }
        of_sorted(prefix, options, |from, see| {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let mut there = state.objects.range::<str, _>((from, Bound::Unbounded));
            while there.next().is_some_and(|(key, held)| see(key, &|| held.meta())) {}
            Ok(())
        })
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: true, is_remote: false }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.put_if(key, value, &when)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.remove(key)
    }

    async fn delete_unchanged(&self, key: &str, seen: &ObjectMeta) -> Result<Put> {
        let seen = seen.local().map_err(|e| e.with_key(key).with_store(self))?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.objects.get(key).map(|held| held.put) != Some(seen.id[0]) {
            return Ok(Put::Refused);
        }
        state.objects.remove(key);
        Ok(Put::Done)
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        check_prefix(prefix).map_err(|e| e.with_store(self))?;
        let start = join(prefix, "");
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.objects.retain(|key, _| !key.starts_with(&start));
        Ok(())
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}

impl Direct for MemoryStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.held(key)? {
            Some(held) => Ok(Some(Box::new(held))),
            None => Ok(None),
        }
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        self.put_if(key, parts.concat().into(), when)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.remove(key)
    }
}

impl DirectObject for StoredObject {
    fn size(&self) -> u64 {
        u64_of(self.bytes.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let part = slice(&self.bytes, Some(ByteRange::span(offset, u64_of(buf.len()))))?;
        buf.copy_from_slice(&part);
        Ok(())
    }

    fn meta(&self) -> ObjectMeta {
        ObjectMeta::of_put(self.put, self.size())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}
