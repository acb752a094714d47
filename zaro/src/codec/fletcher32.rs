//! HDF5's Fletcher-32: two sums of big-endian 16-bit words, modulo 65535.

/// Words that can be added before the sums must be folded: 359 would do for the worst case, this stays below it.
const RUN: usize = 358;

/// The checksum of `data`; an odd last byte is the high half of a word.
pub(crate) fn sum(data: &[u8]) -> u32 {
    let (words, odd) = data.as_chunks::<2>();
    let (mut a, mut b) = (0u32, 0u32);
    for run in words.chunks(RUN) {
        for word in run {
            a += u32::from(u16::from_be_bytes(*word));
            b += a;
        }
        (a, b) = (fold(a), fold(b));
    }
    if let [last] = odd {
        a += u32::from(*last) << 8;
        b += a;
        (a, b) = (fold(a), fold(b));
    }
    fold(b) << 16 | fold(a)
}

/// One step of reduction modulo 65535. Twice gives at most 65535, where 65535 stands for a sum that is not zero.
fn fold(n: u32) -> u32 {
    (n & 0xffff) + (n >> 16)
}

/// The checksum with the bytes of each half exchanged, as old HDF5 versions stored it.
pub(crate) fn swapped(sum: u32) -> u32 {
    (sum & 0x00ff_00ff) << 8 | (sum >> 8) & 0x00ff_00ff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_does_not_overflow() {
        assert_eq!(sum(&[0xff; 2000]), 0xffff_ffff);
        assert_eq!(sum(&[0xff; 2001]), 0xff00_ff00);
        assert_eq!(sum(&vec![0xff; 1 << 20]), 0xffff_ffff);
        assert_eq!(sum(b"x"), 0x7800_7800);
        assert_eq!(sum(b""), 0);
    }
}
