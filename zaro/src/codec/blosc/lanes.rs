//! SIMD byte and bit shuffling: SSE2, which every x86-64 has, and AVX2 if available.
//!
//! Unsafe code is limited to moves between memory and registers, each of an array of exactly a register's size, and to
//! calling AVX2 functions after detecting it. On other machines these functions do nothing and return 0, and plain
//! loops, which the compiler vectorizes, do the work.
#![allow(unsafe_code)]

/// Interleaves `N` rows of equal length, `planes`, into `out`: first bytes of all, second bytes of all, and so on.
/// `N` is 2, 4, 8 or 16. Returns how many bytes of each row were done.
pub(crate) fn interleave<const N: usize>(planes: &[u8], out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the function needs AVX2 and nothing else, and it was just found to be there.
            return unsafe { x86::interleave_avx2::<N>(planes, out) };
        }
        // SAFETY: the function needs SSE2, which every x86-64 has, and nothing else.
        unsafe { x86::interleave::<N>(planes, out) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (planes, out);
        0
    }
}

/// The inverse: separates `elements` of `N` bytes into `N` rows. Returns how many elements were done.
pub(crate) fn separate<const N: usize>(elements: &[u8], planes: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the function needs SSE2, which every x86-64 has, and nothing else.
        unsafe { x86::separate::<N>(elements, planes) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (elements, planes);
        0
    }
}

/// Transposes the bits of every 8 bytes: bit `j` of byte `i` goes to bit `i` of byte `j`. Its own inverse.
pub(crate) fn transpose_bits(bytes: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the function needs AVX2 and nothing else, and it was just found to be there.
        return unsafe { x86::transpose_bits_avx2(bytes) };
    }
    transpose_each(bytes);
}

#[inline(always)]
fn transpose_each(bytes: &mut [u8]) {
    for group in bytes.as_chunks_mut::<8>().0 {
        let mut x = u64::from_le_bytes(*group);
        // Exchanges single bits of 2 by 2 squares, then squares of 2 by 2, then of 4 by 4.
        for (shift, mask) in
            [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
        {
            let t = (x ^ (x >> shift)) & mask;
            x ^= t ^ (t << shift);
        }
        *group = x.to_le_bytes();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi8,
        _mm_unpacklo_epi8, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256,
        _mm256_setzero_si256, _mm256_unpackhi_epi8, _mm256_unpacklo_epi8,
    };

    /// Bytes in the smaller registers.
    const WIDE: usize = 16;

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(from: &[u8; WIDE]) -> __m128i {
        // SAFETY: the reference is to 16 readable bytes, and this load asks for no alignment.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn store(to: &mut [u8; WIDE], value: __m128i) {
        // SAFETY: the reference is to 16 writable bytes, and this store asks for no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_avx2(from: &[u8; 2 * WIDE]) -> __m256i {
        // SAFETY: the reference is to 32 readable bytes, and this load asks for no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    /// Interleaves the first half of the bytes in `r` with the second, as a pack of cards: the number of a byte, in
    /// bits, is turned left by one. So log2 N turns interleave N rows, and 4 more bring all back.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn turn<const N: usize>(r: [__m128i; N]) -> [__m128i; N] {
        let mut out = [_mm_setzero_si128(); N];
        let (first, second) = r.split_at(N / 2);
        for (pair, (a, b)) in out.as_chunks_mut::<2>().0.iter_mut().zip(first.iter().zip(second)) {
            *pair = [_mm_unpacklo_epi8(*a, *b), _mm_unpackhi_epi8(*a, *b)];
        }
        out
    }

    /// The same in each half of wider registers.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn turn_avx2<const N: usize>(r: [__m256i; N]) -> [__m256i; N] {
        let mut out = [_mm256_setzero_si256(); N];
        let (first, second) = r.split_at(N / 2);
        for (pair, (a, b)) in out.as_chunks_mut::<2>().0.iter_mut().zip(first.iter().zip(second)) {
            *pair = [_mm256_unpacklo_epi8(*a, *b), _mm256_unpackhi_epi8(*a, *b)];
        }
        out
    }

    #[target_feature(enable = "sse2")]
    pub(super) fn interleave<const N: usize>(planes: &[u8], out: &mut [u8]) -> usize {
        let count = planes.len() / N;
        let mut rows: [&[[u8; WIDE]]; N] = [&[]; N];
        for (row, plane) in rows.iter_mut().zip(planes.chunks_exact(count.max(1))) {
            *row = plane.as_chunks().0;
        }
        let groups = out.as_chunks_mut::<WIDE>().0.as_chunks_mut::<N>().0;
        let done = groups.len().min(count / WIDE);
        for (g, group) in groups.iter_mut().take(done).enumerate() {
            let mut r = [_mm_setzero_si128(); N];
            for (r, row) in r.iter_mut().zip(&rows) {
                if let Some(from) = row.get(g) {
                    *r = load(from);
                }
            }
            for _ in 0..N.ilog2() {
                r = turn(r);
            }
            for (to, value) in group.iter_mut().zip(r) {
                store(to, value);
            }
        }
        done * WIDE
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn interleave_avx2<const N: usize>(planes: &[u8], out: &mut [u8]) -> usize {
        let count = planes.len() / N;
        let mut rows: [&[[u8; 2 * WIDE]]; N] = [&[]; N];
        for (row, plane) in rows.iter_mut().zip(planes.chunks_exact(count.max(1))) {
            *row = plane.as_chunks().0;
        }
        let groups = out.as_chunks_mut::<WIDE>().0.as_chunks_mut::<N>().0.as_chunks_mut::<2>().0;
        let done = groups.len().min(count / (2 * WIDE));
        for (g, [low, high]) in groups.iter_mut().take(done).enumerate() {
            let mut r = [_mm256_setzero_si256(); N];
            for (r, row) in r.iter_mut().zip(&rows) {
                if let Some(from) = row.get(g) {
                    *r = load_avx2(from);
                }
            }
            for _ in 0..N.ilog2() {
                r = turn_avx2(r);
            }
            for ((low, high), value) in low.iter_mut().zip(high).zip(r) {
                store(low, _mm256_castsi256_si128(value));
                store(high, _mm256_extracti128_si256::<1>(value));
            }
        }
        done * 2 * WIDE
    }

    #[target_feature(enable = "sse2")]
    pub(super) fn separate<const N: usize>(elements: &[u8], planes: &mut [u8]) -> usize {
        let count = elements.len() / N;
        let groups = elements.as_chunks::<WIDE>().0.as_chunks::<N>().0;
        let done = groups.len().min(count / WIDE);
        for (g, group) in groups.iter().take(done).enumerate() {
            let mut r = [_mm_setzero_si128(); N];
            for (r, from) in r.iter_mut().zip(group) {
                *r = load(from);
            }
            for _ in 0..WIDE.ilog2() {
                r = turn(r);
            }
            for (plane, value) in planes.chunks_exact_mut(count).zip(r) {
                if let Some(to) = plane.get_mut(g * WIDE..).and_then(|p| p.first_chunk_mut()) {
                    store(to, value);
                }
            }
        }
        done * WIDE
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn transpose_bits_avx2(bytes: &mut [u8]) {
        super::transpose_each(bytes);
    }
}
