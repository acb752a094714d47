//! An array as blocks: taken out of C-ordered bytes and put back, the fastest dimension first.
//!
//! At the far edges a block reaches beyond the array. What lies there is filled with values of the block, so that it
//! costs little, and is dropped when decoded.

use super::block::Scalar;
use super::params::{Kind, Params};
use super::stream::{Reader, Writer};
use crate::error::{Error, Result};
use crate::num;

/// The extents of an array, the fastest one first, ones added up to four.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extents {
    pub(super) rank: u32,
    n: [usize; 4],
}

impl Extents {
    /// Of a shape of up to four dimensions, slowest first; none at all is one value.
    pub(super) fn new(shape: &[u64]) -> Result<Self> {
        let rank = match shape.len() {
            0 | 1 => 1,
            2 => 2,
            3 => 3,
            4 => 4,
            more => return Err(Error::unsupported(format!("zfp has 1 to 4 dimensions, not {more}"))),
        };
        let mut n = [1; 4];
        for (to, from) in n.iter_mut().zip(shape.iter().rev()) {
            *to = num::usize_of(*from)?;
        }
        num::product(shape)?;
        Ok(Self { rank, n })
    }

    /// How many values a block has.
    pub(super) fn block_size(&self) -> u32 {
        1 << (2 * self.rank)
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.n.iter().fold(1, |acc, n| acc.saturating_mul(n.div_ceil(4)))
    }

    /// How many values there are.
    fn count(&self) -> usize {
        self.n.iter().fold(1, |acc, n| acc.saturating_mul(*n))
    }

    /// Calls `f` with the first index of each block, in order.
    fn each_block(&self, mut f: impl FnMut([usize; 4]) -> Result<()>) -> Result<()> {
        let [nx, ny, nz, nw] = self.n;
        for w in (0..nw).step_by(4) {
            for z in (0..nz).step_by(4) {
                for y in (0..ny).step_by(4) {
                    for x in (0..nx).step_by(4) {
                        f([x, y, z, w])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// How much of a block at `at` is inside, in each dimension.
    #[inline(always)]
    fn inside(&self, at: [usize; 4]) -> [usize; 4] {
        let ([nx, ny, nz, nw], [x, y, z, w]) = (self.n, at);
        [(nx - x).min(4), (ny - y).min(4), (nz - z).min(4), (nw - w).min(4)]
    }

    /// Where a row of four values begins: the `r`th of the block at `at`. `None` if outside.
    #[inline(always)]
    fn row(&self, at: [usize; 4], inside: [usize; 4], r: usize) -> Option<usize> {
        let ([nx, ny, nz, _], [x, y, z, w], [_, my, mz, mw]) = (self.n, at, inside);
        let (dy, dz, dw) = (r & 3, r >> 2 & 3, r >> 4 & 3);
        (dy < my && dz < mz && dw < mw).then(|| (((w + dw) * nz + z + dz) * ny + y + dy) * nx + x)
    }
}

/// Decodes an array into little-endian bytes.
pub(super) fn decode(
    from: &mut Reader<'_>,
    kind: Kind,
    extents: Extents,
    params: &Params,
    out: &mut [u8],
) -> Result<()> {
    match kind {
        Kind::I32 => decode_as::<i32>(from, extents, params, out),
        Kind::I64 => decode_as::<i64>(from, extents, params, out),
        Kind::F32 => decode_as::<f32>(from, extents, params, out),
        Kind::F64 => decode_as::<f64>(from, extents, params, out),
    }
}

fn decode_as<T: Scalar>(
    from: &mut Reader<'_>,
    extents: Extents,
    params: &Params,
    out: &mut [u8],
) -> Result<()> {
    match extents.rank {
        1 => decode_blocks::<T, 4, 1>(from, extents, params, out),
        2 => decode_blocks::<T, 16, 1>(from, extents, params, out),
        3 => decode_blocks::<T, 64, 1>(from, extents, params, out),
        _ => decode_blocks::<T, 256, 4>(from, extents, params, out),
    }
}

fn decode_blocks<T: Scalar, const N: usize, const W: usize>(
    from: &mut Reader<'_>,
    extents: Extents,
    params: &Params,
    out: &mut [u8],
) -> Result<()> {
    extents.each_block(|at| {
        let block = T::decode::<N, W>(from, params, extents.rank);
        if from.overrun() {
            return Err(Error::invalid("ends before its last block"));
        }
        let inside = extents.inside(at);
        let [mx, ..] = inside;
        for (r, values) in block.as_chunks::<4>().0.iter().enumerate() {
            let Some(start) = extents.row(at, inside, r) else { continue };
            let row = out.get_mut(start * T::SIZE..(start + mx) * T::SIZE).unwrap_or_default();
            for (to, value) in row.chunks_exact_mut(T::SIZE).zip(values) {
                value.store(to);
            }
        }
        Ok(())
    })
}

/// Encodes an array of little-endian bytes.
pub(super) fn encode(
    to: &mut Writer,
    kind: Kind,
    extents: Extents,
    params: &Params,
    data: &[u8],
) -> Result<()> {
    match kind {
        Kind::I32 => encode_as::<i32>(to, extents, params, data),
        Kind::I64 => encode_as::<i64>(to, extents, params, data),
        Kind::F32 => encode_as::<f32>(to, extents, params, data),
        Kind::F64 => encode_as::<f64>(to, extents, params, data),
    }
}

fn encode_as<T: Scalar>(to: &mut Writer, extents: Extents, params: &Params, data: &[u8]) -> Result<()> {
    if data.len() != extents.count().saturating_mul(T::SIZE) {
        return Err(Error::invalid("the chunk has the wrong size"));
    }
    match extents.rank {
        1 => encode_blocks::<T, 4, 1>(to, extents, params, data),
        2 => encode_blocks::<T, 16, 1>(to, extents, params, data),
        3 => encode_blocks::<T, 64, 1>(to, extents, params, data),
        _ => encode_blocks::<T, 256, 4>(to, extents, params, data),
    }
}

fn encode_blocks<T: Scalar, const N: usize, const W: usize>(
    to: &mut Writer,
    extents: Extents,
    params: &Params,
    data: &[u8],
) -> Result<()> {
    extents.each_block(|at| {
        let inside = extents.inside(at);
        let [mx, my, mz, mw] = inside;
        let mut block = [T::default(); N];
        for (r, values) in block.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let Some(start) = extents.row(at, inside, r) else { continue };
            let row = data.get(start * T::SIZE..(start + mx) * T::SIZE).unwrap_or_default();
            for (bytes, value) in row.chunks_exact(T::SIZE).zip(values.iter_mut()) {
                *value = T::load(bytes);
            }
        }
        for (stride, m) in [(1, mx), (4, my), (16, mz), (64, mw)] {
            if m < 4 && stride < N {
                fill(&mut block, stride, m);
            }
        }
        T::encode::<N, W>(to, params, extents.rank, &block)
    })
}

/// Fills what lies beyond `m` of four values, in the dimension in which neighbours are `stride` apart.
fn fill<T: Copy>(block: &mut [T], stride: usize, m: usize) {
    for cube in block.chunks_exact_mut(4 * stride) {
        let (near, far) = cube.split_at_mut(2 * stride);
        let (first, second) = near.split_at_mut(stride);
        let (third, fourth) = far.split_at_mut(stride);
        if m < 2 {
            second.copy_from_slice(first);
        }
        if m < 3 {
            third.copy_from_slice(second);
        }
        fourth.copy_from_slice(first);
    }
}
