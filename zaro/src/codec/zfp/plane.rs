//! Embedded coding: the bit planes of a block's coefficients, from the highest down.
//!
//! Coefficients are sorted so that later ones tend to be small. Of each plane the bits of the first `n` coefficients,
//! those already known to be non-zero or to stand before one that is, are written as they are. The others are
//! run-length coded: a bit says whether any is set; if so, the bits up to and including the first set one follow
//! (the last coefficient's bit is implied), and `n` grows past it.
//!
//! A limit on the bits of a block cuts this sequence off anywhere.
//!
//! zfp's own code goes through a plane coefficient by coefficient. Here planes are whole words, turned into
//! coefficients and back by transposing bit matrices.
#![allow(
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "counters below 256 are widened; indexes into arrays of fixed size are masked, or are loop counters \
              below that size"
)]

use super::lift::Int;
use super::stream::{Reader, Writer};

/// The planes of a small block, of less than 64 coefficients: plane `k` is in row `k % N`, from bit `k - k % N` on.
/// Transposed, a row is a coefficient.
type Lanes<const N: usize> = [u64; N];

/// The planes of a larger block: `[k][w]` has bit `k` of the coefficients `64 w ..`.
type Words<const W: usize> = [[u64; W]; 64];

/// Decodes `N` coefficients (in `W` words a plane) of which `precision` planes were kept, from at most `budget` bits.
/// Returns them and the number of bits read.
#[inline(always)]
pub(super) fn decode<T: Int, const N: usize, const W: usize>(
    from: &mut Reader<'_>,
    budget: u32,
    precision: u32,
) -> ([u64; N], u32) {
    // Apart, so that the one not used costs nothing.
    let mut lanes: Lanes<N> = [0; N];
    let mut words: Words<W> = [[0; W]; 64];
    let lowest = T::BITS.saturating_sub(precision) as usize;
    let mut left = budget;
    let mut n = 0usize;
    let mut k = T::BITS as usize;
    while k > lowest && left > 0 {
        if n == 0 {
            // Empty planes before the first coefficient: a zero each.
            from.refill();
            let run = from.zeros().min(from.have()).min(left).min((k - lowest) as u32);
            from.consume(run);
            left -= run;
            k -= run as usize;
            if k == lowest || left == 0 {
                break;
            }
        }
        k -= 1;
        let mut plane = [0; W];
        if N == 4 && left >= SHORT_BITS {
            from.refill();
            let step = READ_SHORT[n & 7][from.next_bits(SHORT_BITS) as usize & 127];
            lanes[k % N] |= u64::from(step.value) << (k - k % N);
            from.consume(u32::from(step.length));
            left -= u32::from(step.length);
            n = usize::from(step.n);
            continue;
        }
        let m = (n as u32).min(left);
        left -= m;
        read_start(from, &mut plane, m);
        while left > 0 && n < N {
            from.refill();
            left -= 1;
            let more = from.peek();
            from.consume(1);
            if !more {
                break;
            }
            let mut limit = left.min((N - 1 - n) as u32);
            loop {
                let zeros = from.zeros();
                let part = limit.min(from.have());
                if zeros < part {
                    from.consume(zeros + 1);
                    left -= zeros + 1;
                    n += zeros as usize;
                    break;
                }
                from.consume(part);
                left -= part;
                n += part as usize;
                limit -= part;
                if limit == 0 {
                    break;
                }
                from.refill();
            }
            plane[(n >> 6) & (W - 1)] |= 1 << (n & 63);
            n += 1;
        }
        if N < 64 {
            lanes[k % N] |= plane[0] << (k - k % N);
        } else {
            words[k & 63] = plane;
        }
    }
    let values = if N < 64 { transposed(lanes) } else { from_words::<T, N, W>(&words) };
    (values, budget.wrapping_sub(left))
}

/// Reads the first `n` bits of a plane.
#[inline(always)]
fn read_start<const W: usize>(from: &mut Reader<'_>, plane: &mut [u64; W], mut n: u32) {
    for word in plane {
        let part = n.min(64);
        *word = from.bits(part);
        n -= part;
        if n == 0 {
            break;
        }
    }
}

/// Encodes the `precision` highest planes of `N` coefficients in at most `budget` bits; returns how many those were.
#[inline(always)]
pub(super) fn encode<T: Int, const N: usize, const W: usize>(
    to: &mut Writer,
    budget: u32,
    precision: u32,
    values: &[u64; N],
) -> u32 {
    let lowest = T::BITS.saturating_sub(precision);
    let significant = 64 - values.iter().fold(0, |acc, v| acc | v).leading_zeros();
    let mut out = Capped { to, left: budget };
    // Empty planes before the first coefficient: a zero each.
    out.put(0, T::BITS - significant.max(lowest));
    if significant <= lowest {
        return budget.wrapping_sub(out.left);
    }
    let lanes: Lanes<N> = if N < 64 { transposed(*values) } else { [0; N] };
    let words: Words<W> = if N < 64 { [[0; W]; 64] } else { to_words::<T, N, W>(values) };
    let mut n = 0usize;
    for k in (lowest as usize..significant as usize).rev() {
        if out.left == 0 {
            break;
        }
        let mut plane = words[k & 63];
        if N < 64 {
            plane[0] = lanes[k % N] >> (k - k % N) & ((1 << N) - 1);
        }
        let plane = &plane;
        if N == 4 && out.left >= SHORT_BITS {
            let step = WRITE_SHORT[n & 7][plane[0] as usize & 15];
            out.put(u64::from(step.value), u32::from(step.length));
            n = usize::from(step.n);
            continue;
        }
        let mut start = n as u32;
        for word in plane {
            let part = start.min(64);
            out.put(word & mask(part), part);
            start -= part;
            if start == 0 {
                break;
            }
        }
        while n < N && out.left > 0 {
            let one = next_one::<N, W>(plane, n);
            if one == N {
                out.put(0, 1);
                break;
            }
            let run = (one - n) as u32;
            let closed = u32::from(one < N - 1);
            if run <= 62 {
                out.put(1 | u64::from(closed) << (run + 1), run + 1 + closed);
            } else {
                out.put(1, 1);
                let mut zeros = run;
                while zeros > 0 {
                    let part = zeros.min(64);
                    out.put(0, part);
                    zeros -= part;
                }
                out.put(u64::from(closed), closed);
            }
            n = one + 1;
        }
    }
    budget.wrapping_sub(out.left)
}

/// The most bits of a plane of four coefficients.
const SHORT_BITS: u32 = 7;

/// A plane of four coefficients, looked up.
#[derive(Clone, Copy)]
struct Step {
    /// The plane (when reading) or its code (when writing).
    value: u8,
    /// The length of the code.
    length: u8,
    /// The next `n`.
    n: u8,
}

impl Step {
    const NONE: Self = Self { value: 0, length: 0, n: 0 };
}

/// By `n` and the next seven bits.
static READ_SHORT: [[Step; 128]; 8] = {
    let mut table = [[Step::NONE; 128]; 8];
    let mut n = 0;
    while n <= 4 {
        let mut code = 0;
        while code < 128 {
            table[n][code] = read_short(n, code as u8);
            code += 1;
        }
        n += 1;
    }
    table
};

/// By `n` and the plane.
static WRITE_SHORT: [[Step; 16]; 8] = {
    let mut table = [[Step::NONE; 16]; 8];
    let mut n = 0;
    while n <= 4 {
        let mut code = 128;
        while code > 0 {
            code -= 1;
            let step = read_short(n, code as u8);
            // Of the codes that read as this plane, the one with nothing behind it is the last that comes here.
            table[n][step.value as usize] = Step { value: code as u8, ..step };
        }
        n += 1;
    }
    table
};

/// Reads a plane of four coefficients from `code`.
const fn read_short(n: usize, code: u8) -> Step {
    let mut value = code & ((1 << n) - 1);
    let mut at = n;
    let mut n = n;
    while n < 4 {
        let more = code >> at & 1 == 1;
        at += 1;
        if !more {
            break;
        }
        while n < 3 {
            let set = code >> at & 1 == 1;
            at += 1;
            if set {
                break;
            }
            n += 1;
        }
        value |= 1 << n;
        n += 1;
    }
    Step { value, length: at as u8, n: n as u8 }
}

/// A writer that stops silently when its bits are used up.
struct Capped<'a> {
    to: &'a mut Writer,
    left: u32,
}

impl Capped<'_> {
    #[inline(always)]
    fn put(&mut self, value: u64, n: u32) {
        if n <= self.left {
            self.to.put(value, n);
            self.left -= n;
        } else {
            self.to.put(value & mask(self.left), self.left);
            self.left = 0;
        }
    }
}

/// The low `n <= 64` bits set.
#[inline(always)]
fn mask(n: u32) -> u64 {
    u64::MAX.checked_shr(64 - n).unwrap_or(0)
}

/// The first set bit of a plane from `n < N` on, or `N`.
#[inline(always)]
fn next_one<const N: usize, const W: usize>(plane: &[u64; W], n: usize) -> usize {
    let mut word = n >> 6;
    let mut bits = plane[word & (W - 1)] & (u64::MAX << (n & 63));
    while bits == 0 {
        word += 1;
        if word >= W {
            return N;
        }
        bits = plane[word & (W - 1)];
    }
    (word << 6) + bits.trailing_zeros() as usize
}

/// Turns the planes of a large block into coefficients.
#[inline(always)]
fn from_words<T: Int, const N: usize, const W: usize>(words: &Words<W>) -> [u64; N] {
    let mut values = [0; N];
    for (w, group) in values.as_chunks_mut::<64>().0.iter_mut().enumerate().take(W) {
        if T::BITS == 64 {
            *group = transposed(words.map(|plane| plane[w]));
        } else {
            // Two matrices of 32 by 32, side by side.
            let mut rows = [0; 32];
            for (row, plane) in rows.iter_mut().zip(words) {
                *row = plane[w];
            }
            for (i, row) in transposed(rows).into_iter().enumerate() {
                group[i] = row & 0xffff_ffff;
                group[i + 32] = row >> 32;
            }
        }
    }
    values
}

/// The inverse.
#[inline(always)]
fn to_words<T: Int, const N: usize, const W: usize>(values: &[u64; N]) -> Words<W> {
    let mut words = [[0; W]; 64];
    for (w, group) in values.as_chunks::<64>().0.iter().enumerate().take(W) {
        if T::BITS == 64 {
            for (row, plane) in transposed(*group).into_iter().zip(&mut words) {
                plane[w] = row;
            }
        } else {
            let mut rows = [0; 32];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = group[i] | group[i + 32] << 32;
            }
            for (row, plane) in transposed(rows).into_iter().zip(&mut words) {
                plane[w] = row;
            }
        }
    }
    words
}

/// Transposes the `M` by `M` bit matrices that lie side by side in `M` rows of 64 bits.
#[inline(always)]
fn transposed<const M: usize>(mut rows: [u64; M]) -> [u64; M] {
    swap_quarters::<M, 32>(&mut rows, 0x0000_0000_ffff_ffff);
    swap_quarters::<M, 16>(&mut rows, 0x0000_ffff_0000_ffff);
    swap_quarters::<M, 8>(&mut rows, 0x00ff_00ff_00ff_00ff);
    swap_quarters::<M, 4>(&mut rows, 0x0f0f_0f0f_0f0f_0f0f);
    swap_quarters::<M, 2>(&mut rows, 0x3333_3333_3333_3333);
    swap_quarters::<M, 1>(&mut rows, 0x5555_5555_5555_5555);
    rows
}

/// In every square of `2 J` rows and columns, swaps the upper right quarter with the lower left one.
#[inline(always)]
fn swap_quarters<const M: usize, const J: usize>(rows: &mut [u64; M], keep: u64) {
    if 2 * J > M {
        return;
    }
    for square in rows.chunks_exact_mut(2 * J) {
        let (upper, lower) = square.split_at_mut(J);
        for (a, b) in upper.iter_mut().zip(lower) {
            let swap = (*a >> J ^ *b) & keep;
            *b ^= swap;
            *a ^= swap << J;
        }
    }
}
