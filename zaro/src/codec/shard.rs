//! `sharding_indexed`: many small chunks in one object, with an index.
//!
//! V3: `{"name": "sharding_indexed", "configuration": {"chunk_shape": [32, 32], "codecs": […], "index_codecs": […],
//! "index_location": "end"}}`. The index is an array of `uint64`, two for each inner chunk of the whole shard in C
//! order: offset and size; both 2^64−1 for a chunk that is not there.
//!
//! This module handles the layout; [`array`](crate::array) decides which parts of a shard are fetched and where they
//! go. Decoding a whole shard from memory ([`ArrayToBytes::decode`]) is only for shards inside other codecs.

use super::chain::{Chain, Scratch};
use super::config::Config;
use super::{ArrayToBytes, Buffer, MAX_VARIABLE, OutputSize, Repr, output};
use crate::error::{Error, Result, invalid};
use crate::meta::fill::Fill;
use crate::meta::json::Json;
use crate::meta::{DataType, v3};
use crate::num;

/// More inner chunks than this in one shard cannot be meant (the index alone would be 1 GiB).
const MAX_INNER: u64 = 1 << 26;

/// The layout of shards of one shape.
#[derive(Debug)]
pub struct Shard {
    inner: Chain,
    counts: Vec<u64>,
    index: Chain,
    index_size: usize,
    at_end: bool,
}

/// The decoded index of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    bytes: Vec<u8>,
}

impl ShardIndex {
    /// Where inner chunk `i` lies: `(offset, size)`; `None` if it is not there. A damaged entry is an error.
    pub fn entry(&self, i: usize) -> Result<Option<(u64, u64)>> {
        let damaged = || invalid!("the shard's index has no entry {i}");
        let at = i.checked_mul(16).ok_or_else(damaged)?;
        let (a, b) = self
            .bytes
            .get(at..at.saturating_add(16))
            .and_then(|e| Some((e.first_chunk::<8>()?, e.last_chunk::<8>()?)))
            .ok_or_else(damaged)?;
        match (u64::from_le_bytes(*a), u64::from_le_bytes(*b)) {
            (u64::MAX, u64::MAX) => Ok(None),
            (offset, size) if offset.checked_add(size).is_some_and(|end| end < u64::MAX) => {
                Ok(Some((offset, size)))
            }
            (offset, size) => Err(invalid!(
                "the shard's index is damaged: inner chunk {i} at offset {offset} with {size} bytes"
            )),
        }
    }

    /// Bytes it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.len()
    }
}

impl Shard {
    /// From the codec's configuration, for shards like `shard`.
    pub fn build(configuration: &[(String, Json)], shard: &Repr, strict: bool) -> Result<Self> {
        let config = Config::new(configuration);
        let shape = config.need("chunk_shape")?;
        let shape: Vec<u64> = shape
            .items()
            .and_then(|items| items.iter().map(|v| v.as_u64().filter(|n| *n > 0)).collect())
            .ok_or_else(|| invalid!("\"chunk_shape\" must be positive integers, not {shape}"))?;
        if shape.len() != shard.shape.len() {
            return Err(invalid!(
                "\"chunk_shape\" has {} dimensions, but the shard has {}",
                shape.len(),
                shard.shape.len()
            ));
        }
        let counts: Option<Vec<u64>> =
            shard.shape.iter().zip(&shape).map(|(s, c)| (s % c == 0).then(|| s / c)).collect();
        let counts = counts.ok_or_else(|| {
            invalid!("inner chunks of {shape:?} do not divide a shard of {:?}", shard.shape)
        })?;
        let total = num::product(&counts)?;
        if total > MAX_INNER {
            return Err(invalid!("a shard of {total} inner chunks is too large"));
        }
        if strict && configuration.iter().any(|(n, v)| n == "index_location" && *v == Json::Null) {
            return Err(Error::invalid("\"index_location\" must be \"start\" or \"end\", not null"));
        }
        let at_end = match config.str("index_location")? {
            None | Some("end") => true,
            Some("start") => false,
            Some(other) => {
                return Err(invalid!("\"index_location\" must be \"start\" or \"end\", not {other:?}"));
            }
        };
        let codecs = v3::codecs(config.need("codecs")?, "codecs")?;
        let inner = Chain::build(&codecs, Repr { shape, ..shard.clone() }, strict)?;
        let index_codecs = v3::codecs(config.need("index_codecs")?, "index_codecs")?;
        let mut index_shape = counts.clone();
        index_shape.push(2);
        let index_repr =
            Repr { shape: index_shape, data_type: DataType::UINT64, fill: Fill(vec![255; 8].into()) };
        let index = Chain::build(&index_codecs, index_repr, strict).map_err(|e| e.within("index_codecs"))?;
        let OutputSize::Exact(index_size) = index.encoded_size() else {
            return Err(Error::invalid("the index codecs must give a fixed size: no compressors"));
        };
        Ok(Self { inner, counts, index, index_size, at_end })
    }

    /// The chain of the inner chunks.
    #[must_use]
    pub fn inner(&self) -> &Chain {
        &self.inner
    }

    /// How many inner chunks lie along each dimension.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The encoded size of the index.
    #[must_use]
    pub fn index_size(&self) -> usize {
        self.index_size
    }

    /// Whether the index is at the end of the shard, not the start.
    #[must_use]
    pub fn index_at_end(&self) -> bool {
        self.at_end
    }

    /// Decodes the index from its encoded bytes.
    pub fn read_index(&self, bytes: &[u8]) -> Result<ShardIndex> {
        if bytes.len() != self.index_size {
            return Err(invalid!(
                "the shard is shorter than its index, which takes {} bytes",
                self.index_size
            ));
        }
        let mut scratch = Scratch::default();
        let decoded = self.index.decode(bytes, &mut scratch).map_err(|e| e.within("the shard's index"))?;
        let mut bytes = decoded.into_buffer().bytes;
        if let Some(order) = self.index.order() {
            // Nobody transposes an index, but the text allows it.
            bytes = super::transpose::inverse(&bytes, &self.index.viewed().shape, order, 8)?;
        }
        Ok(ShardIndex { bytes })
    }

    /// Fails if an inner chunk does not lie inside a shard of `size` bytes, outside its index.
    pub fn check_entry(&self, (offset, length): (u64, u64), size: u64) -> Result<()> {
        let index = num::u64_of(self.index_size);
        let (low, high) = if self.at_end { (0, size.saturating_sub(index)) } else { (index, size) };
        if offset >= low && offset.saturating_add(length) <= high {
            Ok(())
        } else {
            Err(invalid!(
                "the shard's index is damaged: an inner chunk at offset {offset} with {length} bytes does not fit \
                 into a shard of {size} bytes"
            ))
        }
    }

    /// Encodes an index: for each inner chunk its offset and size, `None` for one that is not there.
    pub fn write_index(&self, entries: &[Option<(u64, u64)>]) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(entries.len().saturating_mul(16));
        for entry in entries {
            let (offset, size) = entry.unwrap_or((u64::MAX, u64::MAX));
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        self.index.encode(Buffer::fixed(bytes))
    }

    /// The index of a shard that is wholly in memory.
    pub fn index_of(&self, shard: &[u8]) -> Result<ShardIndex> {
        let bytes = if self.at_end {
            shard.len().checked_sub(self.index_size).and_then(|at| shard.get(at..))
        } else {
            shard.get(..self.index_size)
        };
        self.read_index(bytes.unwrap_or_default())
    }
}

impl ArrayToBytes for Shard {
    fn name(&self) -> &'static str {
        "sharding_indexed"
    }

    fn encoded_size(&self, _decoded: &Repr) -> Result<OutputSize> {
        let chunks = num::product_usize(&self.counts)?;
        let each = self.inner.encoded_size().limit();
        // Gaps are allowed between inner chunks; twice the content is beyond any writer.
        Ok(OutputSize::AtMost(each.saturating_mul(chunks).saturating_mul(2).saturating_add(self.index_size)))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        let index = self.index_of(bytes)?;
        let size = decoded.data_type.size();
        let variable = decoded.data_type.is_variable();
        let mut out = Buffer::default();
        let fill = if variable {
            out.heap.extend_from_slice(&decoded.fill.0);
            super::view(0, u32::try_from(decoded.fill.0.len()).unwrap_or(0), 0).to_vec()
        } else {
            decoded.fill.0.to_vec()
        };
        out.bytes = output::filled(&fill, decoded.count()?, bytes.len())?;
        let inner_shape = &self.inner.decoded().shape;
        let mut at = vec![0u64; self.counts.len()];
        for i in 0..num::product_usize(&self.counts)? {
            if let Some((offset, length)) = index.entry(i)? {
                self.check_entry((offset, length), num::u64_of(bytes.len()))?;
                let (start, end) = (num::usize_of(offset)?, num::usize_of(offset + length)?);
                let mut scratch = Scratch::default();
                let mut chunk = self
                    .inner
                    .decode(bytes.get(start..end).unwrap_or_default(), &mut scratch)
                    .map_err(|e| e.within(format_args!("inner chunk {at:?}")))?
                    .into_buffer();
                if let Some(order) = self.inner.order() {
                    chunk.bytes =
                        super::transpose::inverse(&chunk.bytes, &self.inner.viewed().shape, order, size)?;
                }
                if variable {
                    rebase(&mut chunk.bytes, out.heap.len())?;
                    out.heap.append(&mut chunk.heap);
                    if out.heap.len() > MAX_VARIABLE {
                        return Err(Error::invalid("the shard decodes to more than expected"));
                    }
                }
                paste(&chunk.bytes, inner_shape, &mut out.bytes, &decoded.shape, &at, size);
            }
            advance(&mut at, &self.counts);
        }
        Ok(out)
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let size = decoded.data_type.size();
        let inner_shape = &self.inner.decoded().shape;
        let variable = decoded.data_type.is_variable();
        let mut out = if self.at_end { Vec::new() } else { vec![0; self.index_size] };
        let mut entries = Vec::new();
        let mut at = vec![0u64; self.counts.len()];
        for _ in 0..num::product_usize(&self.counts)? {
            let bytes = cut(&chunk.bytes, &decoded.shape, inner_shape, &at, size);
            let absent = !variable && bytes.chunks(size.max(1)).all(|e| *e == *decoded.fill.0);
            if absent {
                entries.push(None);
            } else {
                let heap = if variable { chunk.heap.clone() } else { Vec::new() };
                let encoded = self.inner.encode(Buffer { bytes, heap })?;
                entries.push(Some((num::u64_of(out.len()), num::u64_of(encoded.len()))));
                out.extend_from_slice(&encoded);
            }
            advance(&mut at, &self.counts);
        }
        let index = self.write_index(&entries)?;
        if self.at_end {
            out.extend_from_slice(&index);
        } else if let Some(head) = out.get_mut(..index.len()) {
            head.copy_from_slice(&index);
        }
        Ok(out)
    }
}

/// Moves views by `by` bytes of heap.
fn rebase(views: &mut [u8], by: usize) -> Result<()> {
    for v in views.chunks_exact_mut(16) {
        let (heap, length, offset) = super::split_view(v).ok_or_else(|| Error::invalid("a broken view"))?;
        v.copy_from_slice(&super::view(heap, length, offset + num::u64_of(by)));
    }
    Ok(())
}

/// The next index in C order.
pub(crate) fn advance(at: &mut [u64], counts: &[u64]) {
    for (a, n) in at.iter_mut().zip(counts).rev() {
        *a += 1;
        if *a < *n {
            return;
        }
        *a = 0;
    }
}

/// Calls `f(offset in the block, offset in the whole, length)` for each row of the block at block index `at`.
fn rows(block: &[u64], whole: &[u64], at: &[u64], size: usize, f: &mut dyn FnMut(usize, usize, usize)) {
    let as_usize = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
    let row = block.last().map_or(1, as_usize) * size;
    let outer = block.len().saturating_sub(1);
    let count: usize = block.iter().take(outer).map(as_usize).product();
    let mut index = vec![0u64; outer];
    for i in 0..count {
        let mut offset = 0usize;
        for d in 0..block.len() {
            let within = index.get(d).copied().unwrap_or(0);
            let (Some(b), Some(w), Some(a)) = (block.get(d), whole.get(d), at.get(d)) else { return };
            offset = offset * as_usize(w) + as_usize(&(a * b + within));
        }
        f(i * row, offset * size, row);
        advance(&mut index, block);
    }
}

/// Copies a block into its place in the whole.
fn paste(block: &[u8], block_shape: &[u64], whole: &mut [u8], whole_shape: &[u64], at: &[u64], size: usize) {
    rows(block_shape, whole_shape, at, size, &mut |from, to, n| {
        if let (Some(src), Some(dst)) = (block.get(from..from + n), whole.get_mut(to..to + n)) {
            dst.copy_from_slice(src);
        }
    });
}

/// Copies a block out of its place in the whole.
fn cut(whole: &[u8], whole_shape: &[u64], block_shape: &[u64], at: &[u64], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    rows(block_shape, whole_shape, at, size, &mut |_, from, n| {
        out.extend_from_slice(whole.get(from..from + n).unwrap_or_default());
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn an_empty_shard_inside_other_codecs_claims_no_memory() {
        let text = r#"{"chunk_shape":[1099511627776],"codecs":["bytes"],"index_codecs":[
            {"name":"bytes","configuration":{"endian":"little"}}]}"#;
        let config = json(text);
        let repr = Repr { shape: vec![1 << 41], data_type: DataType::UINT8, fill: Fill(vec![1].into()) };
        let shard = Shard::build(config.members().unwrap(), &repr, true).unwrap();
        assert!(shard.decode(&[255; 32], &repr).is_err());
    }
}
