//! Object ids: random bytes in Crockford's base 32.

use std::fmt;

use crate::error::{Result, usage};

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The id of a snapshot, a manifest or a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 12]);

impl Id {
    /// Parses an id, in either case; letters that look like digits are read as digits.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || usage!("{text:?} is not a snapshot id; expected 20 letters and digits");
        let mut out = [0; 12];
        let (mut bits, mut held, mut count) = (0u32, 0u32, 0);
        let mut room = out.iter_mut();
        for c in text.chars() {
            let digit = match c.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                c => c,
            };
            let value = DIGITS.iter().position(|d| char::from(*d) == digit).ok_or_else(wrong)?;
            bits = bits << 5 | u32::try_from(value).map_err(|_| wrong())?;
            held += 5;
            count += 1;
            if held >= 8 {
                held -= 8;
                let byte = u8::try_from(bits >> held & 0xff).map_err(|_| wrong())?;
                *room.next().ok_or_else(wrong)? = byte;
                bits &= (1 << held) - 1;
            }
        }
        if count == 20 && bits == 0 { Ok(Self(out)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut bits, mut held) = (0u32, 0u32);
        let mut out = String::with_capacity(20);
        // A byte more, so that the last digit has all its bits.
        for byte in self.0.iter().chain(&[0]) {
            bits = bits << 8 | u32::from(*byte);
            held += 8;
            while held >= 5 && out.len() < 20 {
                held -= 5;
                let value = usize::try_from(bits >> held & 31).unwrap_or_default();
                out.push(char::from(DIGITS.get(value).copied().unwrap_or(b'0')));
            }
            bits &= (1 << held) - 1;
        }
        f.write_str(&out)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_snapshot_has_a_known_name() {
        let bytes = [0x0b, 0x1c, 0xc8, 0xd6, 0x78, 0x75, 0x80, 0xf0, 0xe3, 0x3a, 0x65, 0x34];
        assert_eq!(Id(bytes).to_string(), "1CECHNKREP0F1RSTCMT0");
        assert_eq!(Id::parse("1CECHNKREP0F1RSTCMT0").unwrap(), Id(bytes));
        assert_eq!(Id::parse("icechnkrepof1rstcmto").unwrap(), Id(bytes));
    }

    #[test]
    fn every_id_survives_its_text() {
        for i in 0..96 {
            let mut bytes = [0; 12];
            bytes[i / 8] = 0x80 >> (i % 8);
            for bytes in [bytes, bytes.map(|b| !b)] {
                let text = Id(bytes).to_string();
                assert_eq!(text.len(), 20);
                assert_eq!(Id::parse(&text).unwrap(), Id(bytes));
            }
        }
    }

    #[test]
    fn what_is_no_id_is_said_to_be_none() {
        for text in [
            "",
            "main",
            "1CECHNKREP0F1RSTCMT",
            "1CECHNKREP0F1RSTCMT00",
            "1CECHNKREP0F1RSTCMTU",
            "1CECHNKREP0F1RSTCMT1",
        ] {
            assert!(Id::parse(text).is_err(), "{text}");
        }
    }
}
