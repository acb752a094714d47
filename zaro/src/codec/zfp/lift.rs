//! The decorrelating transforms of a block, one dimension after the other, and the order of its coefficients.
//!
//! Lossy blocks use zfp's near-orthogonal transform, which loses the lowest bits; reversible blocks use repeated
//! differences. Both wrap on overflow, which only hostile or non-finite data reach.

/// The integers that blocks are made of: `i32` and `i64`.
pub(super) trait Int: Copy + Default + PartialEq {
    /// Their width.
    const BITS: u32;
    /// How many bits are needed to write a number of bit planes, less one.
    const PRECISION_BITS: u32;
    /// The smallest.
    const MIN: Self;
    /// Wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// Wrapping difference.
    fn minus(self, other: Self) -> Self;
    /// Half, rounded down.
    fn half(self) -> Self;
    /// The number to base -2, whose high bits are zero for small numbers of either sign.
    fn to_negabinary(self) -> u64;
    /// The inverse; takes the low bits.
    fn from_negabinary(bits: u64) -> Self;
}

macro_rules! int {
    ($signed:ty, $unsigned:ty, $precision_bits:expr, $low:expr) => {
        impl Int for $signed {
            const BITS: u32 = <$signed>::BITS;
            const PRECISION_BITS: u32 = $precision_bits;
            const MIN: Self = <$signed>::MIN;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn half(self) -> Self {
                self >> 1
            }

            #[inline(always)]
            fn to_negabinary(self) -> u64 {
                const MASK: $unsigned = <$unsigned>::MAX / 3 * 2;
                u64::from(self.cast_unsigned().wrapping_add(MASK) ^ MASK)
            }

            #[inline(always)]
            fn from_negabinary(bits: u64) -> Self {
                const MASK: $unsigned = <$unsigned>::MAX / 3 * 2;
                let bits: $unsigned = $low(bits);
                (bits ^ MASK).wrapping_sub(MASK).cast_signed()
            }
        }
    };
}

int!(i32, u32, 5, low32);
int!(i64, u64, 6, std::convert::identity);

#[inline(always)]
#[allow(clippy::as_conversions, reason = "the high half is meant to go")]
fn low32(bits: u64) -> u32 {
    bits as u32
}

/// Applies `step` along the dimension in which neighbours are `S` apart.
#[inline(always)]
fn along<T: Int, const S: usize>(block: &mut [T], step: impl Fn([T; 4]) -> [T; 4]) {
    for cube in block.chunks_exact_mut(4 * S) {
        let (xy, zw) = cube.split_at_mut(2 * S);
        let (x, y) = xy.split_at_mut(S);
        let (z, w) = zw.split_at_mut(S);
        for (((x, y), z), w) in x.iter_mut().zip(y).zip(z).zip(w) {
            [*x, *y, *z, *w] = step([*x, *y, *z, *w]);
        }
    }
}

/// Applies `step` along all dimensions, the fastest one first.
#[inline(always)]
fn forward<T: Int, const N: usize>(block: &mut [T; N], step: impl Fn([T; 4]) -> [T; 4] + Copy) {
    along::<T, 1>(block, step);
    along::<T, 4>(block, step);
    along::<T, 16>(block, step);
    along::<T, 64>(block, step);
}

/// Applies `step` along all dimensions, the fastest one last.
#[inline(always)]
fn backward<T: Int, const N: usize>(block: &mut [T; N], step: impl Fn([T; 4]) -> [T; 4] + Copy) {
    along::<T, 64>(block, step);
    along::<T, 16>(block, step);
    along::<T, 4>(block, step);
    along::<T, 1>(block, step);
}

/// The lossy transform.
#[inline(always)]
pub(super) fn lossy_forward<T: Int, const N: usize>(block: &mut [T; N]) {
    forward(block, |[mut x, mut y, mut z, mut w]| {
        x = x.plus(w).half();
        w = w.minus(x);
        z = z.plus(y).half();
        y = y.minus(z);
        x = x.plus(z).half();
        z = z.minus(x);
        w = w.plus(y).half();
        y = y.minus(w);
        w = w.plus(y.half());
        y = y.minus(w.half());
        [x, y, z, w]
    });
}

/// Its inverse, but for the lowest bits.
#[inline(always)]
pub(super) fn lossy_backward<T: Int, const N: usize>(block: &mut [T; N]) {
    backward(block, |[mut x, mut y, mut z, mut w]| {
        y = y.plus(w.half());
        w = w.minus(y.half());
        y = y.plus(w);
        w = w.minus(y.minus(w));
        z = z.plus(x);
        x = x.minus(z.minus(x));
        y = y.plus(z);
        z = z.minus(y.minus(z));
        w = w.plus(x);
        x = x.minus(w.minus(x));
        [x, y, z, w]
    });
}

/// The reversible transform.
#[inline(always)]
pub(super) fn exact_forward<T: Int, const N: usize>(block: &mut [T; N]) {
    forward(block, |[x, y, z, w]| {
        let (a, b, c) = (y.minus(x), z.minus(y), w.minus(z));
        let (d, e) = (b.minus(a), c.minus(b));
        [x, a, d, e.minus(d)]
    });
}

/// Its inverse.
#[inline(always)]
pub(super) fn exact_backward<T: Int, const N: usize>(block: &mut [T; N]) {
    backward(block, |[x, a, d, f]| {
        let e = f.plus(d);
        let b = d.plus(a);
        let c = e.plus(b);
        let y = a.plus(x);
        let z = b.plus(y);
        [x, y, z, c.plus(z)]
    });
}

/// Puts coefficients into the order of their frequency and writes them to base -2.
#[inline(always)]
pub(super) fn sorted<T: Int, const N: usize>(block: &[T; N]) -> [u64; N] {
    let mut out = [0; N];
    for (to, at) in out.iter_mut().zip(order::<N>()) {
        *to = block.get(usize::from(*at)).map_or(0, |v| v.to_negabinary());
    }
    out
}

/// The inverse.
#[inline(always)]
pub(super) fn unsorted<T: Int, const N: usize>(values: &[u64; N]) -> [T; N] {
    let mut out = [T::default(); N];
    for (from, at) in values.iter().zip(order::<N>()) {
        if let Some(to) = out.get_mut(usize::from(*at)) {
            *to = T::from_negabinary(*from);
        }
    }
    out
}

/// Where in a block of `N` values the coefficients lie, lowest frequency first. They are sorted by the sum of their
/// indexes, then by the sum of the squares; among equals the order follows no rule,
/// and the tables of three and four dimensions are taken from zfp's source.
#[inline(always)]
fn order<const N: usize>() -> &'static [u8] {
    match N {
        4 => &ORDER_1,
        16 => &ORDER_2,
        64 => &ORDER_3,
        _ => &ORDER_4,
    }
}

const ORDER_1: [u8; 4] = [0, 1, 2, 3];

const ORDER_2: [u8; 16] = [0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15];

#[rustfmt::skip]
const ORDER_3: [u8; 64] = [
    0, 1, 4, 16, 20, 17, 5, 2, 8, 32, 21, 6, 18, 24, 9, 33,
    36, 3, 12, 48, 22, 25, 37, 40, 34, 10, 7, 19, 28, 13, 49, 52,
    41, 38, 26, 23, 29, 53, 11, 35, 44, 14, 50, 56, 42, 27, 39, 45,
    30, 54, 57, 60, 51, 15, 43, 46, 58, 61, 55, 31, 62, 59, 47, 63,
];

#[rustfmt::skip]
const ORDER_4: [u8; 256] = [
    0, 1, 4, 16, 64, 5, 80, 17, 68, 65, 20, 2, 8, 32, 128, 84,
    81, 69, 21, 6, 18, 66, 24, 72, 9, 96, 33, 36, 129, 132, 144, 3,
    12, 48, 192, 85, 82, 70, 22, 73, 25, 88, 37, 100, 97, 148, 145, 133,
    10, 160, 34, 136, 130, 40, 7, 19, 67, 28, 76, 13, 112, 49, 52, 193,
    196, 208, 86, 89, 101, 149, 161, 137, 41, 134, 38, 164, 26, 152, 146, 104,
    98, 74, 83, 71, 23, 77, 29, 92, 53, 116, 113, 212, 209, 197, 11, 35,
    131, 44, 140, 14, 176, 50, 56, 194, 200, 224, 90, 165, 102, 153, 150, 105,
    168, 162, 138, 42, 87, 93, 117, 213, 27, 75, 99, 39, 135, 147, 108, 45,
    141, 156, 30, 78, 177, 180, 54, 114, 120, 57, 198, 210, 216, 201, 225, 228,
    15, 240, 51, 204, 195, 60, 169, 166, 154, 106, 91, 103, 151, 109, 157, 94,
    181, 118, 121, 214, 217, 229, 163, 139, 43, 142, 46, 172, 58, 184, 178, 232,
    226, 202, 241, 205, 61, 199, 55, 244, 31, 220, 211, 124, 115, 79, 170, 167,
    155, 107, 158, 110, 173, 122, 185, 182, 233, 230, 218, 95, 245, 119, 221, 215,
    125, 242, 206, 62, 203, 59, 248, 47, 236, 227, 188, 179, 143, 171, 174, 186,
    234, 246, 222, 126, 219, 123, 249, 111, 237, 231, 189, 183, 159, 252, 243, 207,
    63, 175, 250, 187, 238, 235, 190, 253, 247, 223, 127, 254, 251, 239, 191, 255,
];
