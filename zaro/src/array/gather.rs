//! Chunks, above all shards, whose elements come bit by bit, from many threads, and are encoded as they come.
//!
//! What a shard is made of need never be in memory at once, only what it is encoded to. So a copy keeps to the memory
//! that is near the processor: a part is decoded, cut and encoded by one thread before it begins the next.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::access::Access;
use super::write::{Fresh, Values, WriteOptions, Writer, recycle};
use super::{Array, Selection};
use crate::codec::chain::Chain;
use crate::error::{Error, Result};
use crate::store::Condition;

/// A new chunk that is being gathered.
pub(crate) struct Gathering<'a> {
    array: &'a Array,
    options: &'a WriteOptions,
    chain: Arc<Chain>,
    key: String,
    /// Inner chunks by their number in the shard; of a chunk without any, itself.
    parts: Mutex<Vec<(u64, u64, Fresh<'static>)>>,
}

impl Array {
    /// Begins the chunk at `index` of the grid. What it held is replaced, so [all of it](Gathering::add) must come.
    pub(crate) fn gather<'a>(&'a self, index: &[u64], options: &'a WriteOptions) -> Result<Gathering<'a>> {
        let chain = self.inner.chain_at(index).map_err(|e| self.named(e))?;
        let key = self.inner.chunk_key(index);
        Ok(Gathering { array: self, options, chain, key, parts: Mutex::default() })
    }
}

impl Gathering<'_> {
    /// Adds elements: whole inner chunks, or what the array has of them; all at once, if there are none. Encodes them on the calling thread.
    pub(crate) fn add(&self, selection: &Selection, values: Values<'_>) -> Result<()> {
        let add = || {
            let mut writer = Writer::new(&self.array.inner, selection, values, self.options)?;
            let touched = match writer.encode_one(&self.chain)? {
                Fresh::Shard { touched, .. } => touched,
                whole => vec![(0, 0, whole)],
            };
            let owned: Vec<_> = touched
                .into_iter()
                .map(|(number, i, fresh)| Ok((number, i, owned(fresh)?)))
                .collect::<Result<_>>()?;
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).extend(owned);
            Ok(())
        };
        add().map_err(|e: Error| self.array.named(e.with_key(&self.key)))
    }

    /// Puts the chunk.
    pub(crate) fn put(&self) -> Result<()> {
        let inner = &self.array.inner;
        let put = || {
            let mut touched = std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
            let chunk = match self.chain.shard() {
                Some(_) => Fresh::Shard { parts: Vec::new(), touched, whole: true },
                None => touched.pop().map_or(Fresh::Absent, |(_, _, chunk)| chunk),
            };
            let nothing = vec![0; self.array.shape().len()];
            let writer = Writer::new(
                inner,
                &Selection::start_count(&nothing, &nothing),
                Values::new(&[], super::Order::C),
                self.options,
            )?;
            if let Some(pieces) = writer.finish(&self.chain, &chunk, &[], &[], None)? {
                let _ = Access::of(&inner.store).put(&self.key, &pieces, &Condition::Always)?;
            }
            recycle(chunk);
            Ok(())
        };
        inner.generation.fetch_add(1, Ordering::AcqRel);
        let done = put().map_err(|e: Error| self.array.named(e.with_key(&self.key)));
        inner.generation.fetch_add(1, Ordering::AcqRel);
        done
    }
}

/// The same without a borrow of the elements, which are gone before the shard is put.
fn owned(fresh: Fresh<'_>) -> Result<Fresh<'static>> {
    Ok(match fresh {
        Fresh::Absent => Fresh::Absent,
        Fresh::Encoded(bytes) => Fresh::Encoded(bytes),
        Fresh::Given(bytes) => Fresh::Encoded(bytes.to_vec()),
        Fresh::Mixed => return Err(Error::usage("a part of an inner chunk was to be written")),
        Fresh::Shard { parts, touched, whole } => {
            let touched =
                touched.into_iter().map(|(n, i, f)| Ok((n, i, owned(f)?))).collect::<Result<_>>()?;
            Fresh::Shard { parts, touched, whole }
        }
    })
}
