//! Splits an array into blocks that fit into memory, so that each source chunk is read as few times as possible.

use crate::error::{Error, Hint, Result};
use crate::num;

/// Blocks of one shape that tile an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocks {
    shape: Vec<u64>,
    block: Vec<u64>,
    counts: Vec<u64>,
}

impl Blocks {
    pub(crate) fn new(shape: &[u64], block: Vec<u64>) -> Self {
        let counts = shape.iter().zip(&block).map(|(n, b)| n.div_ceil((*b).max(1))).collect();
        Self { shape: shape.to_vec(), block, counts }
    }

    /// The number of blocks.
    pub(crate) fn count(&self) -> Result<u64> {
        num::product(&self.counts)
    }

    /// The start and the shape of block `i`, in C order.
    pub(crate) fn place(&self, i: u64) -> (Vec<u64>, Vec<u64>) {
        let mut left = i;
        let mut start = vec![0; self.counts.len()];
        for (s, (n, b)) in start.iter_mut().zip(self.counts.iter().zip(&self.block)).rev() {
            *s = left % (*n).max(1) * b;
            left /= (*n).max(1);
        }
        let count =
            start.iter().zip(&self.block).zip(&self.shape).map(|((s, b), n)| (*b).min(n - s)).collect();
        (start, count)
    }

    /// The shape of all blocks but those at the far edges.
    pub(crate) fn block(&self) -> &[u64] {
        &self.block
    }
}

/// The array to split.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockCutting<'a> {
    /// The array's shape.
    pub(super) shape: &'a [u64],
    /// The shape of the source chunks.
    pub(super) from: &'a [u64],
    /// The shape of the destination chunks; blocks consist of whole ones.
    pub(super) to: &'a [u64],
    /// Memory per element in bytes.
    pub(super) size: usize,
}

/// How the elements get from one chunking to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CopyRoute {
    /// Block by block.
    Direct(Blocks),
    /// Through an array of temporary chunks, each within one block of either side, so that every chunk is read once.
    /// `pieces` are the lengths of the temporary chunks along each dimension.
    Between { read: Blocks, pieces: Vec<Vec<u64>>, write: Blocks },
}

/// Source chunks may be read this often, on average, before temporary chunks are worth their disk space.
const REREADS: f64 = 3.0;

/// Minimum size of temporary chunks.
const SMALLEST_PIECE: u128 = 16 << 10;

/// Minimum size of blocks, if there is a choice: each costs a start and an end without parallel work.
const BLOCK: u128 = 32 << 20;

impl BlockCutting<'_> {
    /// The best route with blocks of at most `memory` bytes.
    pub(super) fn way(&self, memory: usize) -> Result<CopyRoute> {
        let most = u128::from(num::u64_of(memory));
        let least = self.bytes(self.to);
        if least > most {
            let enough = format!("{}M", (least * 6).div_ceil(1 << 20));
            let what =
                format!("a chunk or shard of the copy takes {least} bytes, which exceeds the memory budget");
            return Err(Error::usage(what).or_hint(Hint::option("memory", "is enough").set_to(enough)));
        }
        let write = self.grow(self.to, self.from, most);
        if self.rereads(&write, self.from) <= REREADS || self.bytes(self.from) > most {
            return Ok(CopyRoute::Direct(Blocks::new(self.shape, write)));
        }
        let read = BlockCutting { to: self.from, from: &write, ..*self }.grow(self.from, &write, most);
        let pieces: Vec<Vec<u64>> =
            self.shape.iter().zip(read.iter().zip(&write)).map(|(n, (r, w))| pieces(*n, *r, *w)).collect();
        let typical: Vec<u64> = read.iter().zip(&write).map(|(r, w)| *r.min(w)).collect();
        if self.bytes(&typical) < SMALLEST_PIECE {
            // Many small files would cost more than reading again.
            return Ok(CopyRoute::Direct(Blocks::new(self.shape, write)));
        }
        Ok(CopyRoute::Between {
            read: Blocks::new(self.shape, read),
            pieces,
            write: Blocks::new(self.shape, write),
        })
    }

    /// Blocks of parts of chunks, of at most `memory` bytes.
    pub(super) fn smaller(&self, memory: usize) -> Blocks {
        let mut block: Vec<u64> = self.to.iter().zip(self.shape).map(|(b, n)| *(b.min(n))).collect();
        while self.bytes(&block) > u128::from(num::u64_of(memory)) {
            match block.iter_mut().max() {
                Some(longest) if *longest > 1 => *longest = longest.div_ceil(2),
                _ => break,
            }
        }
        Blocks::new(self.shape, block)
    }

    fn bytes(&self, block: &[u64]) -> u128 {
        let clipped = block.iter().zip(self.shape).map(|(b, n)| u128::from(*(b.min(n))));
        clipped.fold(u128::from(num::u64_of(self.size)), u128::saturating_mul)
    }

    /// How often a chunk of `from` is touched, on average, when processing the blocks one by one.
    fn rereads(&self, block: &[u64], from: &[u64]) -> f64 {
        let along = |((n, b), s): ((&u64, &u64), &u64)| {
            let chunks = n.div_ceil((*s).max(1)).max(1);
            let blocks = n.div_ceil((*b).max(1)).max(1);
            // Each border of either kind starts another pair of block and chunk; common borders count once.
            let common = lcm(*b, *s).map_or(0, |l| (n.saturating_sub(1)) / l);
            float(chunks + blocks - 1 - common) / float(chunks)
        };
        self.shape.iter().zip(block).zip(from).map(along).product()
    }

    /// The block of whole chunks of `unit`, of at most `most` bytes, that touches chunks of `from` least often.
    fn grow(&self, unit: &[u64], from: &[u64], most: u128) -> Vec<u64> {
        let mut block = unit.to_vec();
        loop {
            let now = self.rereads(&block, from);
            let mut best: Option<(f64, Vec<u64>)> = None;
            for d in 0..block.len() {
                let (Some(b), Some(u), Some(s), Some(n)) =
                    (block.get(d), unit.get(d), from.get(d), self.shape.get(d))
                else {
                    continue;
                };
                if b >= n {
                    continue;
                }
                let up_to = |to: u64| to.div_ceil((*u).max(1)).saturating_mul(*u);
                let whole = up_to(*n);
                let doubled = b.saturating_mul(2).min(whole);
                let aligned = lcm(*u, *s).map(|l| b.saturating_add(1).div_ceil(l).saturating_mul(l));
                for candidate in
                    [Some(doubled), aligned.filter(|a| *a < whole), Some(whole)].into_iter().flatten()
                {
                    let mut larger = block.clone();
                    if let Some(slot) = larger.get_mut(d) {
                        *slot = candidate;
                    }
                    if self.bytes(&larger) > most {
                        continue;
                    }
                    let growth =
                        float(self.bytes(&larger).min(u128::from(u64::MAX)).try_into().unwrap_or(u64::MAX))
                            / float(self.bytes(&block).max(1).try_into().unwrap_or(u64::MAX));
                    let gain = (now / self.rereads(&larger, from)).ln() / growth.max(1.0 + f64::EPSILON).ln();
                    if gain > 1e-9 && best.as_ref().is_none_or(|(g, _)| gain > *g) {
                        best = Some((gain, larger));
                    }
                }
            }
            match best {
                Some((_, larger)) => block = larger,
                None => break,
            }
        }
        // Larger blocks save no reads any more, but very small ones are slow.
        for d in (0..block.len()).rev() {
            while let (Some(b), Some(n)) = (block.get(d).copied(), self.shape.get(d)) {
                let mut larger = block.clone();
                if let Some(slot) = larger.get_mut(d) {
                    *slot = b.saturating_mul(2);
                }
                let fits =
                    self.bytes(&larger) <= most && self.rereads(&larger, from) <= self.rereads(&block, from);
                if b >= *n || self.bytes(&block) >= BLOCK || !fits {
                    break;
                }
                block = larger;
            }
        }
        block
    }
}

/// The lengths of temporary chunks along one dimension: each block of `read` is cut every `write` positions.
fn pieces(extent: u64, read: u64, write: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < extent {
        let end = at.saturating_add(read).min(extent);
        while at < end {
            let n = write.min(end - at);
            out.push(n);
            at += n;
        }
    }
    out
}

pub(super) fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a.checked_div(x)?.checked_mul(b)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    reason = "for comparing costs, not for counting"
)]
fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_tile_the_array() {
        let blocks = Blocks::new(&[5, 7], vec![2, 4]);
        assert_eq!(blocks.count().unwrap(), 6);
        assert_eq!(blocks.place(0), (vec![0, 0], vec![2, 4]));
        assert_eq!(blocks.place(5), (vec![4, 4], vec![1, 3]));
        assert_eq!(Blocks::new(&[], vec![]).count().unwrap(), 1);
    }

    #[test]
    fn chunks_into_shards_are_read_once() {
        let cut = BlockCutting { shape: &[1024; 3], from: &[64; 3], to: &[256; 3], size: 2 };
        let CopyRoute::Direct(blocks) = cut.way(64 << 20).unwrap() else { panic!("not direct") };
        assert_eq!(cut.rereads(blocks.block(), cut.from), 1.0);
        let cut = BlockCutting { shape: &[1000; 3], from: &[100; 3], to: &[64; 3], size: 2 };
        let CopyRoute::Direct(blocks) = cut.way(64 << 20).unwrap() else { panic!("not direct") };
        assert!(cut.rereads(blocks.block(), cut.from) < REREADS);
    }

    #[test]
    fn transposes_go_by_pieces_in_between() {
        // 20 times the memory, planes to pencils.
        let n = 512;
        let cut = BlockCutting { shape: &[n; 3], from: &[1, n, n], to: &[n, 16, 16], size: 4 };
        let memory = 512 * 512 * 512 * 4 / 20;
        let most = u128::from(num::u64_of(memory));
        let CopyRoute::Between { read, pieces, write } = cut.way(memory).unwrap() else { panic!("direct") };
        assert_eq!(cut.rereads(read.block(), cut.from), 1.0);
        assert!(cut.bytes(read.block()) <= most && cut.bytes(write.block()) <= most);
        // Every piece lies in one block of either side, or is cut only where it is read.
        for (d, lengths) in pieces.iter().enumerate() {
            assert_eq!(lengths.iter().sum::<u64>(), n);
            let mut at = 0;
            for l in lengths {
                assert_eq!(at / read.block()[d], (at + l - 1) / read.block()[d]);
                at += l;
            }
        }
    }

    #[test]
    fn too_little_memory_says_how_much_is_needed() {
        let cut = BlockCutting { shape: &[1024; 3], from: &[64; 3], to: &[512; 3], size: 2 };
        assert!(cut.way(1 << 20).unwrap_err().hints()[0].value == Some("1536M".into()));
    }
}
