//! Shuffling: the first bytes of all elements, then the second bytes of all, and so on; or the same with bits.
//!
//! Elements that are whole are shuffled, and bytes after the last whole one stay where they are, as HDF5 has it and
//! blosc too. Both kinds of shuffling are transpositions, and both are made of one step, which [`lanes`] has for
//! wide registers: interleaving 2, 4, 8 or 16 rows of bytes.

use super::lanes;

/// From shuffled to plain. `from` and `to` are of one length.
pub(crate) fn unshuffle(size: usize, from: &[u8], to: &mut [u8]) {
    if size < 2 || size > from.len() {
        return copy(from, to);
    }
    let whole = from.len() / size * size;
    let (planes, rest) = from.split_at(whole);
    let (elements, tail) = to.split_at_mut(whole.min(to.len()));
    copy(rest, tail);
    let count = whole / size;
    // The wide steps do a multiple of 16 elements and say how many.
    let done = match size {
        2 => lanes::interleave::<2>(planes, elements),
        4 => lanes::interleave::<4>(planes, elements),
        8 => lanes::interleave::<8>(planes, elements),
        16 => lanes::interleave::<16>(planes, elements),
        _ => 0,
    };
    for_tiles(done, count, |start, end| {
        for (k, plane) in planes.chunks_exact(count).enumerate() {
            let from = plane.get(start..end).unwrap_or_default();
            let to = elements.get_mut(start * size..end * size).unwrap_or_default();
            for (byte, element) in from.iter().zip(to.chunks_exact_mut(size)) {
                if let Some(slot) = element.get_mut(k) {
                    *slot = *byte;
                }
            }
        }
    });
}

/// From plain to shuffled. `from` and `to` are of one length.
pub(crate) fn shuffle(size: usize, from: &[u8], to: &mut [u8]) {
    if size < 2 || size > from.len() {
        return copy(from, to);
    }
    let whole = from.len() / size * size;
    let (elements, rest) = from.split_at(whole);
    let (planes, tail) = to.split_at_mut(whole.min(to.len()));
    copy(rest, tail);
    let count = whole / size;
    let done = match size {
        2 => lanes::separate::<2>(elements, planes),
        4 => lanes::separate::<4>(elements, planes),
        8 => lanes::separate::<8>(elements, planes),
        16 => lanes::separate::<16>(elements, planes),
        _ => 0,
    };
    for_tiles(done, count, |start, end| {
        for (k, plane) in planes.chunks_exact_mut(count).enumerate() {
            let to = plane.get_mut(start..end).unwrap_or_default();
            let from = elements.get(start * size..end * size).unwrap_or_default();
            for (byte, element) in to.iter_mut().zip(from.chunks_exact(size)) {
                *byte = element.get(k).copied().unwrap_or(0);
            }
        }
    });
}

/// From bit-shuffled to plain; `scratch` is memory to work in.
///
/// The number of elements must be a multiple of 8; see [`bit_elements`].
pub(crate) fn bit_unshuffle(size: usize, from: &[u8], to: &mut [u8], scratch: &mut Vec<u8>) {
    let count = from.len() / size.max(1);
    if size == 0 || count == 0 || !count.is_multiple_of(8) {
        return copy(from, to);
    }
    let (bits, rest) = from.split_at(count * size);
    let (elements, tail) = to.split_at_mut((count * size).min(to.len()));
    copy(rest, tail);
    // Eight rows, one for each bit of a byte, become one row of bytes.
    let plane = |rows: &[u8], bytes: &mut [u8]| {
        unshuffle(8, rows, bytes);
        lanes::transpose_bits(bytes);
    };
    if size == 1 {
        return plane(bits, elements);
    }
    scratch.resize(bits.len().max(scratch.len()), 0);
    let planes = scratch.get_mut(..bits.len()).unwrap_or_default();
    for (rows, bytes) in bits.chunks_exact(count).zip(planes.chunks_exact_mut(count)) {
        plane(rows, bytes);
    }
    unshuffle(size, planes, elements);
}

/// From plain to bit-shuffled; the inverse of [`bit_unshuffle`].
pub(crate) fn bit_shuffle(size: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / size.max(1);
    if size == 0 || count == 0 || !count.is_multiple_of(8) {
        return copy(from, to);
    }
    let (elements, rest) = from.split_at(count * size);
    let (bits, tail) = to.split_at_mut((count * size).min(to.len()));
    copy(rest, tail);
    let mut planes = vec![0; elements.len()];
    shuffle(size, elements, &mut planes);
    for (bytes, rows) in planes.chunks_exact_mut(count).zip(bits.chunks_exact_mut(count)) {
        lanes::transpose_bits(bytes);
        shuffle(8, bytes, rows);
    }
}

/// How many bytes of a block of `length` are bit-shuffled; the others stay in place.
///
/// In blosc's format 2, a block whose number of elements is no multiple of 8 is not shuffled at all; later, all but
/// the last elements of it are.
pub(crate) fn bit_elements(version: u8, size: usize, length: usize) -> usize {
    let count = length / size.max(1);
    match count % 8 {
        0 => length,
        _ if version <= 2 => 0,
        odd => (count - odd) * size,
    }
}

/// Calls `f` for runs of elements small enough that all their bytes stay in the nearest cache.
fn for_tiles(start: usize, end: usize, mut f: impl FnMut(usize, usize)) {
    const TILE: usize = 128;
    let mut at = start;
    while at < end {
        let next = (at + TILE).min(end);
        f(at, next);
        at = next;
    }
}

fn copy(from: &[u8], to: &mut [u8]) {
    let n = from.len().min(to.len());
    if let (Some(from), Some(to)) = (from.get(..n), to.get_mut(..n)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Noise, hex};
    use super::*;

    #[test]
    fn bytes_of_all_sizes_and_lengths() {
        for size in 1..=33 {
            for n in (0..200).chain([1000, 1024, 4096, 10_007]) {
                let data = Noise(9).bytes(n);
                let mut expected = data.clone();
                let count = n / size;
                for i in 0..count {
                    for k in 0..size {
                        expected[k * count + i] = data[i * size + k];
                    }
                }
                let mut shuffled = vec![0; n];
                shuffle(size, &data, &mut shuffled);
                assert!(shuffled == expected, "shuffle {size} {n}");
                let mut plain = vec![0; n];
                unshuffle(size, &shuffled, &mut plain);
                assert!(plain == data, "unshuffle {size} {n}");
            }
        }
    }

    #[test]
    fn bits_of_all_sizes_and_lengths() {
        for size in 1..=17 {
            for count in (0..40).map(|n| n * 8).chain([1000, 4096]) {
                let n = count * size + size - 1;
                let data = Noise(9).bytes(n);
                let mut expected = data.clone();
                expected[..count * size].fill(0);
                for i in 0..count {
                    for bit in 0..size * 8 {
                        let value = data[i * size + bit / 8] >> (bit % 8) & 1;
                        expected[bit * count / 8 + i / 8] |= value << (i % 8);
                    }
                }
                let mut shuffled = vec![0; n];
                bit_shuffle(size, &data, &mut shuffled);
                assert!(shuffled == expected, "shuffle {size} {count}");
                let mut plain = vec![0; n];
                bit_unshuffle(size, &shuffled, &mut plain, &mut Vec::new());
                assert!(plain == data, "unshuffle {size} {count}");
            }
        }
    }

    #[test]
    fn a_known_shuffle() {
        let mut out = vec![0; 10];
        shuffle(4, &hex("00010203101112132021"), &mut out);
        assert_eq!(out, hex("00100111021203132021"));
    }

    #[test]
    fn blocks_that_blosc_leaves_alone() {
        assert_eq!(bit_elements(2, 4, 64), 64);
        assert_eq!(bit_elements(2, 4, 67), 67);
        assert_eq!(bit_elements(2, 4, 60), 0);
        assert_eq!(bit_elements(3, 4, 60), 32);
    }
}
