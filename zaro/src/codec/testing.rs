//! What the tests of codecs share: data, hexadecimal, and the two trials every codec must pass.

use super::{BytesToBytes, Size};
use crate::meta::json::Json;

/// A small generator of pseudo-random numbers, the same in every run.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).unwrap()).unwrap()
    }

    /// Bytes that do not compress.
    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next().to_le_bytes()[3]).collect()
    }

    /// Little-endian 16-bit values that wander slowly, as images do.
    pub(crate) fn smooth(&mut self, n: usize) -> Vec<u8> {
        let mut v: u16 = 1000;
        let mut out = Vec::with_capacity(n + 1);
        while out.len() < n {
            v = v.wrapping_add(u16::try_from(self.next() % 16).unwrap()).wrapping_sub(7);
            out.extend_from_slice(&v.to_le_bytes());
        }
        out.truncate(n);
        out
    }
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The members of a JSON object.
pub(crate) fn members_of(json: &str) -> Vec<(String, Json)> {
    Json::parse(json.as_bytes()).unwrap().value.members().unwrap().to_vec()
}

/// Encodes and decodes data of many sizes and kinds, by every way of decoding, and with wrong sizes.
pub(crate) fn round_trip(codec: &dyn BytesToBytes) {
    let mut noise = Noise(7);
    for n in [0, 1, 2, 3, 7, 8, 15, 16, 17, 100, 127, 128, 129, 1000, 4096, 4099, 70_001] {
        for data in [vec![0; n], noise.bytes(n), noise.smooth(n), b"abcd".repeat(n / 4 + 1)[..n].to_vec()] {
            let encoded = codec.encode(&data).unwrap();
            for size in [Size::Exact(n), Size::AtMost(n), Size::AtMost(10 * n + 100_000)] {
                assert!(codec.decode(&encoded, size).unwrap() == data, "{codec:?} {n} {size:?}");
            }
            let mut out = vec![0xaa; n];
            codec.decode_into(&encoded, &mut out).unwrap();
            assert!(out == data, "{codec:?} {n} into");
            assert!(codec.decode(&encoded, Size::Exact(n + 1)).is_err(), "{codec:?} {n} +1");
            assert!(codec.decode_into(&encoded, &mut vec![0; n + 1]).is_err());
            if n > 0 {
                assert!(codec.decode(&encoded, Size::Exact(n - 1)).is_err(), "{codec:?} {n} -1");
                assert!(codec.decode(&encoded, Size::AtMost(n - 1)).is_err());
                assert!(codec.decode_into(&encoded, &mut out[1..]).is_err());
            }
            assert!(encoded.len() <= codec.encoded_size(Size::Exact(n)).unwrap().limit());
        }
    }
}

/// Cuts and bit flips of an encoding of `data`, and plain noise: whatever comes, no panic and never too much.
pub(crate) fn hostile(codec: &dyn BytesToBytes, data: &[u8]) {
    let mut noise = Noise(11);
    let encoded = codec.encode(data).unwrap();
    let attempt = |bytes: &[u8]| {
        for size in [Size::Exact(data.len()), Size::AtMost(2 * data.len())] {
            if let Ok(out) = codec.decode(bytes, size) {
                size.check(out.len()).unwrap();
            }
        }
        let _ = codec.decode_into(bytes, &mut vec![0; data.len()]);
    };
    for i in 0..200 {
        attempt(&encoded[..encoded.len() * i / 200]);
    }
    for i in 0..encoded.len().min(40) {
        attempt(&encoded[..i]);
        for bit in 0..8 {
            let mut bytes = encoded.clone();
            bytes[i] ^= 1 << bit;
            attempt(&bytes);
        }
    }
    for _ in 0..400 {
        let mut bytes = encoded.clone();
        for _ in 0..1 + noise.below(4) {
            let at = noise.below(bytes.len());
            bytes[at] ^= 1 << noise.below(8);
        }
        attempt(&bytes);
        let n = noise.below(200);
        attempt(&noise.bytes(n));
    }
}
