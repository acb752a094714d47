//! Encodes chunks for writing, merging new elements with old content where needed.

use std::cell::RefCell;

use bytes::Bytes;
use rayon::prelude::*;

use super::place::StridedCopy;
use super::plan::{ChunkJob, inside};
use super::runs::permuted;
use super::select::{ChunkPart, Sel, combination, split};
use super::write::Writer;
use crate::codec::chain::{Chain, Scratch, room};
use crate::codec::{Buffer, split_view, view};
use crate::error::{Error, Result};
use crate::meta::dtype::VIEW_SIZE;
use crate::meta::grid::ChunkAxis;
use crate::num;
use crate::store::{Condition, Direct, Put};

/// A piece of an encoded chunk.
pub(super) enum Piece<'a> {
    Owned(Vec<u8>),
    Borrowed(&'a [u8]),
}

impl AsRef<[u8]> for Piece<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Owned(v) => v,
            Self::Borrowed(b) => b,
        }
    }
}

/// The total length of the pieces.
fn length(pieces: &[Piece<'_>]) -> u64 {
    pieces.iter().map(|p| num::u64_of(p.as_ref().len())).sum()
}

pub(super) fn joined(pieces: &[Piece<'_>]) -> Result<Bytes> {
    let mut value = Vec::with_capacity(num::usize_of(length(pieces))?);
    pieces.iter().for_each(|p| value.extend_from_slice(p.as_ref()));
    Ok(value.into())
}

pub(super) fn put_pieces(
    direct: &dyn Direct,
    key: &str,
    pieces: &[Piece<'_>],
    when: &Condition,
) -> Result<Put> {
    let parts: Vec<&[u8]> = pieces.iter().map(AsRef::as_ref).collect();
    direct.put(key, &parts, when)
}

/// The new state of a chunk, as far as it is known without its old content.
pub(super) enum NewChunk {
    /// Only fill value: not stored.
    Absent,
    /// The encoded chunk.
    Encoded(Vec<u8>),
    /// The encoded chunk, which is a slice of the caller's slab.
    Given(Bytes),
    /// Parts of the old content remain.
    Mixed,
    /// Inner chunks.
    Shard {
        parts: Vec<Vec<ChunkPart>>,
        /// The touched ones: number in the shard, combination of `parts`, new state.
        touched: Vec<(u64, u64, NewChunk)>,
        /// Whether all untouched inner chunks lie outside the array.
        whole: bool,
    },
}

impl NewChunk {
    /// Whether the old content is needed.
    pub(super) fn needs_old(&self) -> bool {
        match self {
            Self::Absent | Self::Encoded(_) | Self::Given(_) => false,
            Self::Mixed => true,
            Self::Shard { touched, whole, .. } => !whole || touched.iter().any(|(_, _, f)| f.needs_old()),
        }
    }
}

/// Buffers that a thread reuses from chunk to chunk.
#[derive(Default)]
struct EncodeBuffers {
    chunk: Vec<u8>,
    scratch: Scratch,
    /// Memory of an encoded chunk that has been put.
    encoded: Vec<u8>,
}

fn with_buffers<R>(f: impl FnOnce(&mut EncodeBuffers) -> R) -> R {
    thread_local! {
        static BUFFERS: RefCell<EncodeBuffers> = RefCell::default();
    }
    let mut buffers = BUFFERS.take();
    let out = f(&mut buffers);
    if buffers.chunk.len() < 64 << 20 && buffers.encoded.capacity() < 64 << 20 {
        BUFFERS.set(buffers);
    }
    out
}

/// Reuses the memory of an encoded chunk that has been put.
pub(super) fn recycle(fresh: NewChunk) {
    if let NewChunk::Encoded(bytes) = fresh {
        with_buffers(|buffers| buffers.encoded = bytes);
    }
}

impl Writer {
    /// Encodes the part of a planned chunk that does not depend on old content.
    pub(super) fn prepare_job(
        &self,
        chain: &Chain,
        job: &ChunkJob<'_>,
        sels: &[&Sel],
        strides: &[usize],
    ) -> Result<NewChunk> {
        // Elements beyond the array as we know it may meanwhile belong to somebody who appended. So a chunk at the edge
        // is updated, not replaced, unless there is no other writer.
        let within = if self.options.assume_empty || self.options.single_writer {
            inside(&self.array.meta, job)
        } else {
            chain.decoded().shape.clone()
        };
        let within = chain
            .order()
            .map_or(within.clone(), |order| order.iter().filter_map(|d| within.get(*d).copied()).collect());
        self.prepare(chain, sels, strides, &within)
    }

    /// Encodes the values of a single-chunk write, on the calling thread.
    pub(super) fn encode_one(&mut self, chain: &Chain) -> Result<NewChunk> {
        self.serial = true;
        if self.plan.jobs() != 1 {
            return Err(Error::usage("the selection must lie within one chunk"));
        }
        let job = self.plan.job(0);
        let (sels, strides) = permuted(chain, &job.sels, &self.plan.strides);
        self.prepare_job(chain, &job, &sels, &strides)
    }

    /// Encodes what does not depend on old content. `within` is the part of the chunk inside the array; everything is
    /// in the order of [`permuted`].
    fn prepare(&self, chain: &Chain, sels: &[&Sel], strides: &[usize], within: &[u64]) -> Result<NewChunk> {
        let whole = sels.iter().zip(within).all(|(sel, n)| sel.is_all(*n));
        let Some(shard) = chain.shard() else {
            return if whole { self.encode(chain, sels, strides) } else { Ok(NewChunk::Mixed) };
        };
        let inner = shard.inner();
        let shape = &inner.decoded().shape;
        let parts: Vec<Vec<ChunkPart>> =
            sels.iter().zip(shape).map(|(s, n)| split(s, &ChunkAxis::Regular(*n))).collect::<Result<_>>()?;
        let total = num::product(&parts.iter().map(|p| num::u64_of(p.len())).collect::<Vec<_>>())?;
        let one = |i: u64| {
            self.options.task.check()?;
            let mut number = 0u64;
            let mut left = i;
            let mut at = Vec::with_capacity(parts.len());
            for p in parts.iter().rev() {
                let n = num::u64_of(p.len()).max(1);
                at.push(p.get(usize::try_from(left % n).unwrap_or(0)).map_or(0, |p| p.chunk));
                left /= n;
            }
            at.reverse();
            for (a, n) in at.iter().zip(shard.counts()) {
                number = number.saturating_mul(*n).saturating_add(*a);
            }
            let within: Vec<u64> = within
                .iter()
                .zip(shape)
                .zip(&at)
                .map(|((w, n), a)| w.saturating_sub(a.saturating_mul(*n)).min(*n))
                .collect();
            let sels = combination(&parts, i);
            let (sels, strides) = permuted(inner, &sels, strides);
            let within = inner.order().map_or(within.clone(), |order| {
                order.iter().filter_map(|d| within.get(*d).copied()).collect()
            });
            Ok((number, i, self.prepare(inner, &sels, &strides, &within)?))
        };
        let touched: Vec<(u64, u64, NewChunk)> = if total > 1 && !self.serial {
            (0..total).into_par_iter().map(one).collect::<Result<_>>()?
        } else {
            (0..total).map(one).collect::<Result<_>>()?
        };
        Ok(NewChunk::Shard { parts, touched, whole })
    }

    /// Encodes a chunk without any old content.
    fn encode(&self, chain: &Chain, sels: &[&Sel], strides: &[usize]) -> Result<NewChunk> {
        let repr = chain.viewed();
        if repr.data_type.is_variable() {
            return Ok(match self.mix_variable(chain, sels, strides, None)? {
                Some(bytes) => NewChunk::Encoded(bytes),
                None => NewChunk::Absent,
            });
        }
        let size = repr.byte_size()?;
        let nest = StridedCopy::new(&repr.shape, sels, strides, repr.data_type.size())?;
        let run = nest.as_run(size).and_then(|at| Some(at..at.checked_add(size)?));
        if let Some((at, given)) = run.and_then(|at| Some((at.clone(), self.values.get(at)?))) {
            return Ok(match () {
                () if !self.options.keep_fill && is_fill(given, &repr.fill.0) => NewChunk::Absent,
                () if chain.stores_as_is() => NewChunk::Given(self.values.slice(at)),
                () => {
                    let mut encoded = with_buffers(|buffers| std::mem::take(&mut buffers.encoded));
                    chain.encode_fixed_into(given, &mut encoded)?;
                    NewChunk::Encoded(encoded)
                }
            });
        }
        let gather = |chunk: &mut [u8]| -> Result<bool> {
            if sels.iter().zip(&repr.shape).any(|(s, n)| s.count() != *n) {
                fill(chunk, &repr.fill.0);
            }
            nest.inverse().copy_into(&self.values, chunk)?;
            Ok(!self.options.keep_fill && is_fill(chunk, &repr.fill.0))
        };
        with_buffers(|buffers| {
            let mut encoded = std::mem::take(&mut buffers.encoded);
            // What is stored as is need not be copied twice.
            let as_is = chain.stores_as_is();
            let absent = if as_is {
                encoded.resize(size, 0);
                gather(&mut encoded)?
            } else {
                let chunk = room(&mut buffers.chunk, size)?;
                let absent = gather(chunk)?;
                if !absent {
                    chain.encode_fixed_into(chunk, &mut encoded)?;
                }
                absent
            };
            if absent {
                buffers.encoded = encoded;
                return Ok(NewChunk::Absent);
            }
            Ok(NewChunk::Encoded(encoded))
        })
    }

    /// The encoded chunk, given its old content; `None` if it is only fill value.
    pub(super) fn finish<'b>(
        &'b self,
        chain: &Chain,
        fresh: &'b NewChunk,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&'b [u8]>,
    ) -> Result<Option<Vec<Piece<'b>>>> {
        let (parts, touched, whole) = match fresh {
            NewChunk::Absent => return Ok(None),
            NewChunk::Encoded(bytes) => return Ok(Some(vec![Piece::Borrowed(bytes)])),
            NewChunk::Given(bytes) => return Ok(Some(vec![Piece::Borrowed(bytes)])),
            NewChunk::Mixed => {
                return Ok(self.mix(chain, sels, strides, old)?.map(|b| vec![Piece::Owned(b)]));
            }
            NewChunk::Shard { parts, touched, whole } => (parts, touched, *whole),
        };
        let Some(shard) = chain.shard() else { return Err(Error::invalid("the chunk is not a shard")) };
        let old = match old {
            Some(bytes) => Some((shard.index_of(bytes)?, bytes)),
            None => None,
        };
        let inner = shard.inner();
        let old_part = |number: u64| -> Result<Option<&'b [u8]>> {
            let Some((index, bytes)) = &old else { return Ok(None) };
            let Some(entry) = index.entry(num::usize_of(number)?)? else { return Ok(None) };
            shard.check_entry(entry, num::u64_of(bytes.len()))?;
            let start = num::usize_of(entry.0)?;
            Ok(bytes.get(start..start.saturating_add(num::usize_of(entry.1)?)))
        };
        let count = num::product(shard.counts())?;
        let mut order: Vec<&(u64, u64, NewChunk)> = touched.iter().collect();
        order.sort_unstable_by_key(|t| t.0);
        let mut order = order.into_iter().peekable();
        let mut entries = Vec::with_capacity(num::usize_of(count)?);
        let mut pieces: Vec<Piece<'b>> = Vec::new();
        let mut at = if shard.index_at_end() { 0 } else { num::u64_of(shard.index_size()) };
        for number in 0..count {
            let new = match order.next_if(|t| t.0 == number) {
                Some((_, i, fresh)) => {
                    let (sels, strides) = permuted(inner, &combination(parts, *i), strides);
                    let old = if fresh.needs_old() { old_part(number)? } else { None };
                    self.finish(inner, fresh, &sels, &strides, old)?
                }
                None if whole => None,
                None => old_part(number)?.map(|bytes| vec![Piece::Borrowed(bytes)]),
            };
            entries.push(new.as_ref().map(|new| (at, length(new))));
            for piece in new.into_iter().flatten() {
                at = at.saturating_add(num::u64_of(piece.as_ref().len()));
                pieces.push(piece);
            }
        }
        if pieces.is_empty() && entries.iter().all(Option::is_none) && !self.options.keep_fill {
            return Ok(None);
        }
        let index = Piece::Owned(shard.write_index(&entries)?);
        let place = if shard.index_at_end() { pieces.len() } else { 0 };
        pieces.insert(place, index);
        Ok(Some(pieces))
    }

    /// A chunk with remaining old content: decoded, changed, encoded.
    fn mix(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let repr = chain.viewed();
        if repr.data_type.is_variable() {
            return self.mix_variable(chain, sels, strides, old);
        }
        let size = repr.byte_size()?;
        with_buffers(|EncodeBuffers { chunk, scratch, .. }| {
            let chunk = room(chunk, size)?;
            match old {
                Some(old) => chain.decode_into(old, chunk, scratch)?,
                None => fill(chunk, &repr.fill.0),
            }
            let nest = StridedCopy::new(&repr.shape, sels, strides, repr.data_type.size())?;
            nest.inverse().copy_into(&self.values, chunk)?;
            if !self.options.keep_fill && is_fill(chunk, &repr.fill.0) {
                return Ok(None);
            }
            chain.encode_fixed(chunk).map(Some)
        })
    }

    fn mix_variable(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        old: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let repr = chain.viewed();
        let mut scratch = Scratch::default();
        let mut chunk = match old {
            Some(old) => chain.decode(old, &mut scratch)?.into_buffer(),
            None => Buffer::default(),
        };
        if old.is_some() {
            shift_views(&mut chunk.bytes, 1)?;
        } else {
            let length = u32::try_from(repr.fill.0.len()).map_err(|_| Error::invalid("a huge fill value"))?;
            chunk.bytes = view(0, length, 0).repeat(repr.count()?);
        }
        let nest = StridedCopy::new(&repr.shape, sels, strides, VIEW_SIZE)?;
        nest.inverse().copy_into(&self.values, &mut chunk.bytes)?;
        let item = |v: &[u8]| -> Option<&[u8]> {
            let (heap, length, offset) = split_view(v)?;
            let heap = match heap {
                0 => &*repr.fill.0,
                1 => &chunk.heap,
                n => self.heaps.get(usize::try_from(n).ok()?.checked_sub(2)?)?,
            };
            let start = usize::try_from(offset).ok()?;
            heap.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        };
        let items = chunk.bytes.chunks_exact(VIEW_SIZE).map(|v| item(v).unwrap_or_default());
        if !self.options.keep_fill && items.clone().all(|i| *i == *repr.fill.0) {
            return Ok(None);
        }
        chain.encode_viewed(Buffer::variable(items)?).map(Some)
    }
}

/// An encoded chunk of only fill value.
pub(super) fn filled(chain: &Chain) -> Result<Vec<u8>> {
    let repr = chain.viewed();
    if repr.data_type.is_variable() {
        return chain.encode_viewed(Buffer::variable(std::iter::repeat_n(&*repr.fill.0, repr.count()?))?);
    }
    let mut chunk = vec![0; repr.byte_size()?];
    fill(&mut chunk, &repr.fill.0);
    chain.encode_fixed(&chunk)
}

/// Shifts the heap numbers of views by `by`.
pub(super) fn shift_views(views: &mut [u8], by: u32) -> Result<()> {
    for v in views.chunks_exact_mut(VIEW_SIZE) {
        let (heap, length, offset) = split_view(v).ok_or_else(|| Error::invalid("a broken view"))?;
        v.copy_from_slice(&view(heap.saturating_add(by), length, offset));
    }
    Ok(())
}

/// Fills a chunk with one element.
fn fill(chunk: &mut [u8], element: &[u8]) {
    match element.first() {
        Some(first) if element.iter().all(|b| b == first) => chunk.fill(*first),
        Some(_) => chunk.chunks_exact_mut(element.len()).for_each(|e| e.copy_from_slice(element)),
        None => {}
    }
}

/// Whether a chunk is the same element repeated, compared bitwise.
fn is_fill(chunk: &[u8], element: &[u8]) -> bool {
    // If the first element is the fill value and each equals its predecessor, all are.
    let shifted = chunk.get(element.len()..).unwrap_or_default();
    chunk.starts_with(element)
        && chunk.get(..shifted.len()).is_some_and(|start| {
            // Most chunks differ early, so do not start with a long comparison.
            let near = shifted.len().min(4096);
            start.get(..near) == shifted.get(..near) && start == shifted
        })
}
