//! Objects in memory: for tests, bindings and small things.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::RwLock;

use async_trait::async_trait;
use bytes::Bytes;

use super::{ByteRange, Direct, DirectObject, Listing, Store, check_key, check_prefix};
use crate::error::Result;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: RwLock<BTreeMap<String, Bytes>>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `value` behind `key`, replacing what was there.
    pub fn put(&self, key: &str, value: impl Into<Bytes>) -> Result<()> {
        check_key(key)?;
        self.objects.write().unwrap_or_else(|e| e.into_inner()).insert(key.to_owned(), value.into());
        Ok(())
    }

    fn bytes(&self, key: &str) -> Result<Option<Bytes>> {
        check_key(key)?;
        Ok(self.objects.read().unwrap_or_else(|e| e.into_inner()).get(key).cloned())
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory:")
    }
}

/// The part of `bytes` that `range` names, sharing the memory.
pub(crate) fn slice(bytes: &Bytes, range: Option<ByteRange>) -> Result<Bytes> {
    let Some(range) = range else { return Ok(bytes.clone()) };
    let (offset, length) = range.resolve(crate::num::u64_of(bytes.len()))?;
    let start = crate::num::usize_of(offset)?;
    let length = crate::num::usize_of(length)?;
    Ok(bytes.slice(start..start + length))
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        match self.bytes(key)? {
            Some(b) => slice(&b, range).map(Some).map_err(|e| e.with_key(key).with_store(self)),
            None => Ok(None),
        }
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.bytes(key)?.map(|b| crate::num::u64_of(b.len())))
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        check_prefix(prefix)?;
        let start = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let objects = self.objects.read().unwrap_or_else(|e| e.into_inner());
        let mut out = Listing::default();
        for key in objects.range(start.clone()..).map(|(k, _)| k).take_while(|k| k.starts_with(&start)) {
            let rest = key.get(start.len()..).unwrap_or_default();
            match rest.split_once('/') {
                None => out.objects.push(rest.to_owned()),
                Some((dir, _)) if out.prefixes.last().is_none_or(|l| l != dir) => {
                    out.prefixes.push(dir.to_owned());
                }
                Some(_) => {}
            }
        }
        // `a-b` sorts before `a/…` as a key but after `a` as a name.
        out.prefixes.sort();
        out.prefixes.dedup();
        Ok(out)
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}

impl Direct for MemoryStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        match self.bytes(key)? {
            Some(bytes) => Ok(Some(Box::new(Held(bytes)))),
            None => Ok(None),
        }
    }
}

/// An object whose bytes are in memory.
struct Held(Bytes);

impl DirectObject for Held {
    fn size(&self) -> u64 {
        crate::num::u64_of(self.0.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let part = slice(&self.0, Some(ByteRange::span(offset, crate::num::u64_of(buf.len()))))?;
        buf.copy_from_slice(&part);
        Ok(())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}
