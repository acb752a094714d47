//! Builds chunks, above all shards, from elements that arrive in parts from many threads, encoding them on arrival.
//!
//! A shard is never in memory decoded, only encoded. So a copy stays within the processor's cache: a part is decoded,
//! cut and encoded by one thread before it starts the next.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::encode::{NewChunk, Piece, joined, put_pieces, recycle};
use super::write::{Values, WriteOptions, Writer};
use super::{Array, Selection};
use crate::codec::chain::Chain;
use crate::error::{Error, Result};
use crate::store::Condition;

/// A new chunk being assembled.
pub(crate) struct Gathering {
    array: Array,
    options: WriteOptions,
    chain: Arc<Chain>,
    key: String,
    /// Inner chunks by their number in the shard; a chunk without inner chunks counts as one.
    parts: Mutex<Vec<(u64, u64, NewChunk)>>,
}

impl Array {
    /// Starts the chunk at `index` of the grid. Its old content is replaced, so [all of it](Gathering::add) must be
    /// added.
    pub(crate) fn gather(&self, index: &[u64], options: &WriteOptions) -> Result<Gathering> {
        let chain = self.inner.chain_at(index).map_err(|e| self.named(e))?;
        let key = self.inner.chunk_key(index);
        Ok(Gathering { array: self.clone(), options: options.clone(), chain, key, parts: Mutex::default() })
    }
}

impl Gathering {
    /// Adds elements: whole inner chunks, up to the edge of the array, or the whole chunk if there are none. Encodes
    /// them on the calling thread.
    pub(crate) fn add(&self, selection: &Selection, values: Values) -> Result<()> {
        let add = || {
            let mut writer = Writer::new(&self.array.inner, selection, values, &self.options)?;
            let touched = match writer.encode_one(&self.chain)? {
                NewChunk::Shard { touched, .. } => touched,
                whole => vec![(0, 0, whole)],
            };
            if touched.iter().any(|(_, _, fresh)| fresh.needs_old()) {
                return Err(Error::usage("the selection must consist of whole inner chunks"));
            }
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).extend(touched);
            Ok(())
        };
        add().map_err(|e: Error| self.array.named(e.with_key(&self.key)))
    }

    /// Puts the chunk into a local store.
    pub(crate) fn put_at_hand(&self) -> Result<()> {
        let inner = &self.array.inner;
        let direct =
            inner.store.direct().ok_or_else(|| Error::unsupported("the store has no direct access"))?;
        inner.generation.fetch_add(1, Ordering::AcqRel);
        let put = self.encoded(|pieces| put_pieces(direct, &self.key, pieces, &Condition::Always));
        inner.generation.fetch_add(1, Ordering::AcqRel);
        put.map(drop)
    }

    /// Puts the chunk into any store.
    #[cfg_attr(not(feature = "image"), allow(dead_code, reason = "pyramids alone gather for remote stores"))]
    pub(crate) async fn put(self: &Arc<Self>) -> Result<()> {
        let gathering = self.clone();
        let Some(value) = self.array.context().run(move || gathering.encoded(joined)).await? else {
            return Ok(());
        };
        let inner = &self.array.inner;
        inner.generation.fetch_add(1, Ordering::AcqRel);
        let put = inner.store.put(&self.key, value, Condition::Always);
        let put = self.options.task.unless_cancelled(put).await;
        inner.generation.fetch_add(1, Ordering::AcqRel);
        put.map(drop).map_err(|e| self.array.named(e.with_key(&self.key)))
    }

    /// Passes the encoded chunk to `then`, unless it is only fill value.
    fn encoded<T>(&self, then: impl FnOnce(&[Piece<'_>]) -> Result<T>) -> Result<Option<T>> {
        let encode = || {
            let mut touched = std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
            let chunk = match self.chain.shard() {
                Some(_) => NewChunk::Shard { parts: Vec::new(), touched, whole: true },
                None => touched.pop().map_or(NewChunk::Absent, |(_, _, chunk)| chunk),
            };
            let nothing = vec![0; self.array.shape().len()];
            let writer = Writer::new(
                &self.array.inner,
                &Selection::start_count(&nothing, &nothing),
                Values::new(Vec::new(), super::Order::C),
                &self.options,
            )?;
            let pieces = writer.finish(&self.chain, &chunk, &[], &[], None)?;
            let done = pieces.map(|pieces| then(&pieces)).transpose()?;
            recycle(chunk);
            Ok(done)
        };
        encode().map_err(|e: Error| self.array.named(e.with_key(&self.key)))
    }
}
