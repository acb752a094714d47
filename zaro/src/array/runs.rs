//! Which byte ranges of a chunk to read: the inner chunks of a shard, or the rows of an uncompressed chunk, joined into
//! runs; and placing them into the output. The same for local and remote stores.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Mutex;

use super::ArrayInner;
use super::ahead::Ledger;
use super::read::Reader;
use super::select::{ChunkPart, Sel, combination, split};
use crate::codec::chain::{Chain, Scratch};
use crate::codec::shard::{Shard, ShardIndex};
use crate::context::Key;
use crate::error::Result;
use crate::meta::grid::ChunkAxis;
use crate::num;
use crate::store::ObjectMeta;

/// The index of a shard, and the state of the shard it belongs to: its offsets are valid for that state only.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) index: ShardIndex,
    pub(super) state: ObjectMeta,
    /// A number unique among the indexes of this array.
    pub(super) number: u64,
    /// What was fetched of a remote shard, and how long it took.
    pub(super) ledger: Mutex<Ledger>,
}

impl Indexed {
    pub(super) fn new(array: &ArrayInner, index: ShardIndex, state: ObjectMeta) -> Self {
        let number = array.numbers.fetch_add(1, Ordering::Relaxed);
        Self { index, state, number, ledger: Mutex::default() }
    }

    /// The cache key of the decoded inner chunk `item` of the chunk with the key `chunk`.
    pub(super) fn inner_key(&self, chunk: &Key, item: &RunItem) -> Key {
        let [generation, number, ..] = chunk.part;
        Key { part: [generation, number, self.number, item.offset], ..*chunk }
    }
}

/// The cache key of the index of the shard with the key `chunk`.
pub(super) fn index_key(chunk: &Key) -> Key {
    let [generation, number, ..] = chunk.part;
    // No index has this number.
    Key { part: [generation, number, u64::MAX, 0], ..*chunk }
}

/// What runs are parts of.
pub(super) enum Within {
    /// A shard, with its index, and its cache key if decoded inner chunks are cached.
    Shard(Arc<Indexed>, Option<Key>),
    /// An uncompressed chunk, by rows of this shape.
    Plain(Vec<u64>),
}

/// A part of an object to be read at once, and the inner chunks in it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) items: Vec<RunItem>,
}

/// An inner chunk: where it is, and which combination of [`InnerChunks::parts`] it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunItem {
    pub(super) offset: u64,
    pub(super) length: u64,
    combination: u64,
}

impl RunItem {
    /// One without any selected part.
    pub(super) fn at(offset: u64, length: u64) -> Self {
        Self { offset, length, combination: 0 }
    }
}

/// The inner chunks of one chunk that a read needs.
pub(super) struct InnerChunks {
    parts: Vec<Vec<ChunkPart>>,
    pub(super) runs: Vec<Run>,
}

impl InnerChunks {
    /// The selection within the inner chunk `item`.
    pub(super) fn sels(&self, item: &RunItem) -> Vec<&Sel> {
        combination(&self.parts, item.combination)
    }

    /// Drops the inner chunks that `placed` reports as placed, and runs that become empty.
    pub(super) fn leave_out(&mut self, placed: impl Fn(&Self, &RunItem) -> Result<bool>) -> Result<()> {
        for mut run in std::mem::take(&mut self.runs) {
            let mut left = Vec::new();
            for item in run.items {
                if !placed(self, &item)? {
                    left.push(item);
                }
            }
            run.items = left;
            self.runs.extend(Some(run).filter(|run| !run.items.is_empty()));
        }
        Ok(())
    }
}

/// How generously neighbouring ranges are joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joining {
    /// Two ranges with at most this many bytes between them become one.
    pub(super) gap: u64,
    /// Up to this length.
    pub(super) block: u64,
}

impl Joining {
    /// For files: a read call costs as much as two kilobytes; blocks stay in the processor's cache.
    pub(super) const LOCAL: Self = Self { gap: 2 << 10, block: 512 << 10 };
    /// The same for the pieces of one uncompressed chunk, as gap and block.
    pub(super) const PIECES: (usize, usize) = (2 << 10, 512 << 10);
    /// For remote stores: a round trip costs as much as a megabyte.
    pub(super) const REMOTE: Self = Self { gap: 1 << 20, block: 16 << 20 };
}

/// Runs of all `items`, in the order of their offsets.
pub(super) fn join(mut items: Vec<RunItem>, joining: Joining) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    items.sort_unstable_by_key(|i| i.offset);
    for item in items {
        let end = item.offset.saturating_add(item.length);
        match runs.last_mut() {
            Some(run)
                if item.offset <= run.offset.saturating_add(run.length).saturating_add(joining.gap)
                    && end.saturating_sub(run.offset) <= joining.block =>
            {
                run.length = run.length.max(end - run.offset);
                run.items.push(item);
            }
            _ => runs.push(Run { offset: item.offset, length: item.length, items: vec![item] }),
        }
    }
    runs
}

impl Reader {
    /// The inner chunks of a shard that are needed, joined into runs; missing ones are handled.
    ///
    /// `size` is the size of the shard, `u64::MAX` if unknown; index entries are checked against it. `placed` reports
    /// inner chunks that are already in place.
    #[expect(clippy::too_many_arguments, reason = "all of them say what is wanted")]
    pub(super) fn inside_shard(
        &self,
        shard: &Shard,
        index: &ShardIndex,
        sels: &[&Sel],
        strides: &[usize],
        size: u64,
        joining: Joining,
        placed: impl Fn(&InnerChunks, &RunItem) -> Result<bool>,
    ) -> Result<InnerChunks> {
        let inner = &shard.inner().decoded().shape;
        let entry = |number| {
            let entry = index.entry(usize::try_from(number).unwrap_or(usize::MAX))?;
            if let Some(entry) = entry {
                shard.check_entry(entry, size)?;
            }
            Ok(entry)
        };
        self.inside(inner, shard.counts(), sels, strides, joining, entry, placed)
    }

    /// The rows of an uncompressed chunk that are needed, as if each were an inner chunk.
    ///
    /// `None` if reading the whole chunk is no worse.
    pub(super) fn inside_plain(
        &self,
        chain: &Chain,
        sels: &[&Sel],
        strides: &[usize],
        joining: Joining,
    ) -> Result<Option<(Vec<u64>, InnerChunks)>> {
        let repr = chain.viewed();
        let shape = &repr.shape;
        let size = num::u64_of(repr.data_type.size());
        // The longest tail of dimensions whose blocks are no larger than a gap that would be read anyway.
        let (mut tail, mut block) = (shape.len(), size);
        while let Some(n) = tail.checked_sub(1).and_then(|d| shape.get(d)) {
            let larger = block.saturating_mul(*n);
            if larger > joining.gap.max(4096) {
                break;
            }
            block = larger;
            tail -= 1;
        }
        let rows: u64 = sels.iter().take(tail).map(|s| s.count()).product();
        let whole = num::u64_of(repr.byte_size()?);
        if tail == 0 || rows.saturating_mul(block).saturating_mul(2) > whole {
            return Ok(None);
        }
        let mut row = vec![1; tail];
        row.extend(shape.iter().skip(tail));
        let mut counts: Vec<u64> = shape.iter().take(tail).copied().collect();
        counts.resize(shape.len(), 1);
        let entry = |number| Ok(Some((number * block, block)));
        let inside = self.inside(&row, &counts, sels, strides, joining, entry, |_, _| Ok(false))?;
        Ok(Some((row, inside)))
    }

    #[expect(clippy::too_many_arguments, reason = "all of them say what is wanted")]
    fn inside(
        &self,
        inner: &[u64],
        counts: &[u64],
        sels: &[&Sel],
        strides: &[usize],
        joining: Joining,
        entry: impl Fn(u64) -> Result<Option<(u64, u64)>>,
        placed: impl Fn(&InnerChunks, &RunItem) -> Result<bool>,
    ) -> Result<InnerChunks> {
        let parts: Vec<Vec<ChunkPart>> =
            sels.iter().zip(inner).map(|(s, n)| split(s, &ChunkAxis::Regular(*n))).collect::<Result<_>>()?;
        let total: u64 = num::product(&parts.iter().map(|p| num::u64_of(p.len())).collect::<Vec<_>>())?;
        let mut inside = InnerChunks { parts, runs: Vec::new() };
        let mut items = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
        let mut at = vec![0usize; inside.parts.len()];
        for combination in 0..total {
            let mut number = 0u64;
            for ((parts, i), n) in inside.parts.iter().zip(&at).zip(counts) {
                number = number * n + parts.get(*i).map_or(0, |p| p.chunk);
            }
            match entry(number)? {
                Some((offset, length)) => {
                    let item = RunItem { offset, length, combination };
                    if !placed(&inside, &item)? {
                        items.push(item);
                    }
                }
                None => {
                    let item = RunItem { offset: 0, length: 0, combination };
                    self.missing(&inside.sels(&item), strides)?;
                }
            }
            for (a, parts) in at.iter_mut().zip(&inside.parts).rev() {
                *a += 1;
                if *a < parts.len() {
                    break;
                }
                *a = 0;
            }
        }
        inside.runs = join(items, joining);
        Ok(inside)
    }

    /// Places the inner chunks of a run, or the rows of an uncompressed chunk; `block` returns their bytes, and is not
    /// called if all of them are cached. `strides` are in the order of the chunk's own dimensions.
    #[expect(clippy::too_many_arguments, reason = "all of them say what is wanted")]
    pub(super) fn place_run<'b>(
        &self,
        chain: &Chain,
        inside: &InnerChunks,
        run: &Run,
        within: &Within,
        strides: &[usize],
        scratch: &mut Scratch,
        block: impl FnOnce() -> Result<&'b [u8]>,
    ) -> Result<()> {
        let mut block = Some(block);
        let mut bytes: &'b [u8] = &[];
        let mut part = |item: &RunItem| -> Result<&'b [u8]> {
            if let Some(block) = block.take() {
                bytes = block()?;
            }
            let at = num::usize_of(item.offset - run.offset)?;
            Ok(bytes.get(at..at + num::usize_of(item.length)?).unwrap_or_default())
        };
        for item in &run.items {
            let sels = inside.sels(item);
            match (within, chain.shard()) {
                (Within::Plain(row), _) => self.plain_row(chain, row, part(item)?, &sels, strides)?,
                (Within::Shard(index, name), Some(shard)) => {
                    let inner = shard.inner();
                    let (sels, strides) = permuted(inner, &sels, strides);
                    let name = name.as_ref().map(|chunk| index.inner_key(chunk, item));
                    if inner.shard().is_some() {
                        self.in_memory(inner, part(item)?, &sels, &strides)?;
                    } else if !self.remembered(inner, &sels, &strides, name.as_ref())? {
                        self.leaf(inner, part(item)?, &sels, &strides, name, scratch)?;
                    }
                }
                (Within::Shard(..), None) => {}
            }
        }
        Ok(())
    }
}

/// Whether less than the whole chunk of `shape` is selected.
pub(super) fn is_partial(shape: &[u64], sels: &[&Sel]) -> bool {
    shape.iter().zip(sels).any(|(n, s)| s.count() != *n)
}

/// Whether the selected part of a C-ordered chunk of `shape` is contiguous: one index along the first dimensions, a
/// range along the next, and all of the rest.
pub(super) fn is_one_piece(shape: &[u64], sels: &[&Sel]) -> bool {
    let is_run = |s: &Sel| matches!(s, Sel::Range { step: 1, .. });
    let mut rest = sels.iter().zip(shape).skip_while(|(s, _)| s.count() == 1);
    rest.next().is_none_or(|(s, _)| is_run(s)) && rest.all(|(s, n)| is_run(s) && s.count() == *n)
}

/// A selection and strides in the order of the dimensions after a chain's leading transposes.
pub(super) fn permuted<'a>(chain: &Chain, sels: &[&'a Sel], strides: &[usize]) -> (Vec<&'a Sel>, Vec<usize>) {
    match chain.order() {
        None => (sels.to_vec(), strides.to_vec()),
        Some(order) => (
            order.iter().filter_map(|d| sels.get(*d).copied()).collect(),
            order.iter().filter_map(|d| strides.get(*d).copied()).collect(),
        ),
    }
}
