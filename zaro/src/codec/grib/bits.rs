//! Bits of a byte string, most significant first, and the numbers of GRIB's octets.

/// A place among the bits of `data`.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    pub(super) fn left(&self) -> usize {
        self.data.len().saturating_mul(8).saturating_sub(self.at)
    }

    /// The next `n` bits as a number; none if there are not as many, or if they are more than 64.
    #[inline]
    pub(super) fn read(&mut self, n: u32) -> Option<u64> {
        if n > 56 {
            let high = self.read(n.checked_sub(32).filter(|n| *n <= 32)?)?;
            return Some(high << 32 | self.read(32)?);
        }
        let width = usize::try_from(n).ok()?;
        if n == 0 {
            return Some(0);
        }
        if width > self.left() {
            return None;
        }
        let (rest, shift) = (self.data.get(self.at / 8..)?, self.at % 8);
        self.at += width;
        let window = if let Some(eight) = rest.first_chunk::<8>() {
            u64::from_be_bytes(*eight)
        } else {
            let mut eight = [0; 8];
            for (to, from) in eight.iter_mut().zip(rest) {
                *to = *from;
            }
            u64::from_be_bytes(eight)
        };
        Some(window << shift >> (64 - n))
    }

    /// How many zero bits come before the next one bit, which is taken too. None if there is no such bit.
    #[inline]
    pub(super) fn zeros(&mut self) -> Option<u64> {
        let mut count = 0;
        loop {
            let (byte, shift) = (self.data.get(self.at / 8)?, self.at % 8);
            let zeros = (byte << shift).leading_zeros();
            if let Some(here) = usize::try_from(zeros).ok().filter(|z| *z < 8 - shift) {
                self.at += here + 1;
                return Some(count + u64::from(zeros));
            }
            count += crate::num::u64_of(8 - shift);
            self.at += 8 - shift;
        }
    }

    /// Goes on to the next whole byte.
    pub(super) fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }
}

/// Octets `from..from + N`, counted from 0.
pub(super) fn octets<const N: usize>(section: &[u8], from: usize) -> Option<[u8; N]> {
    section.get(from..)?.first_chunk::<N>().copied()
}

pub(super) fn u8_at(section: &[u8], from: usize) -> Option<u8> {
    section.get(from).copied()
}

pub(super) fn u16_at(section: &[u8], from: usize) -> Option<u16> {
    octets(section, from).map(u16::from_be_bytes)
}

pub(super) fn u32_at(section: &[u8], from: usize) -> Option<u32> {
    octets(section, from).map(u32::from_be_bytes)
}

/// Two octets, whose first bit is a sign.
pub(super) fn i16_at(section: &[u8], from: usize) -> Option<i32> {
    u16_at(section, from).map(|n| signed(n.into(), 16)).and_then(|n| i32::try_from(n).ok())
}

/// Four octets, whose first bit is a sign.
pub(super) fn i32_at(section: &[u8], from: usize) -> Option<i64> {
    u32_at(section, from).map(|n| signed(n.into(), 32))
}

/// A number of `bits` bits, whose first is a sign.
pub(super) fn signed(n: u64, bits: u32) -> i64 {
    let Some(sign) = bits.checked_sub(1).and_then(|b| 1u64.checked_shl(b)) else { return 0 };
    let magnitude = i64::try_from(n & (sign - 1)).unwrap_or(i64::MAX);
    if n & sign == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_from_the_top() {
        let data: Vec<u8> = (0..40).map(|i: u8| i.wrapping_mul(37) ^ 0x5a).collect();
        let text: String = data.iter().map(|b| format!("{b:08b}")).collect();
        for n in 1..=64u32 {
            let (mut bits, mut at) = (Bits::new(&data), 0);
            while let Some(got) = bits.read(n) {
                let end = at + usize::try_from(n).unwrap();
                assert_eq!(got, u64::from_str_radix(&text[at..end], 2).unwrap(), "{n} at {at}");
                at = end;
            }
            assert!(text.len() - at < usize::try_from(n).unwrap());
        }
        assert_eq!(Bits::new(&[]).read(0), Some(0));
        assert_eq!(Bits::new(&data).read(65), None);
    }

    #[test]
    fn runs_of_zeros_reach_over_bytes() {
        let mut bits = Bits::new(&[0b0010_0000, 0, 0b0000_0011, 0]);
        assert_eq!(bits.zeros(), Some(2));
        assert_eq!(bits.zeros(), Some(5 + 8 + 6));
        assert_eq!(bits.zeros(), Some(0));
        assert_eq!(bits.zeros(), None);
    }

    #[test]
    fn signs_are_bits() {
        assert_eq!(i16_at(&[0x80, 3], 0), Some(-3));
        assert_eq!(i16_at(&[0x7f, 0xff], 0), Some(32767));
        assert_eq!(i32_at(&[0x80, 0, 0, 1], 0), Some(-1));
        assert_eq!((signed(5, 0), signed(3, 1), signed(3, 2), signed(1 << 63, 64)), (0, 0, -1, 0));
    }
}
