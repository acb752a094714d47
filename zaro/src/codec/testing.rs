//! What the tests of codecs share: data, hexadecimal, codecs as metadata name them, the rows of `testdata/codecs.txt`,
//! and the two trials every codec must pass.

use super::registry::{CodecRequest, build};
use super::{ArrayToArray, ArrayToBytes, BytesToBytes, Codec, OutputSize, Repr};
use crate::error::Result;
use crate::meta::dtype::{DataType, Float};
use crate::meta::fill::Fill;
use crate::meta::json::{Json, json};
use crate::meta::{Findings, Mode, typestr, v3};

/// The types that numpy calculates with.
pub(crate) const NUMBERS: [DataType; 12] = [
    DataType::Bool,
    DataType::Int(8),
    DataType::Int(16),
    DataType::Int(32),
    DataType::Int(64),
    DataType::UInt(8),
    DataType::UInt(16),
    DataType::UInt(32),
    DataType::UInt(64),
    DataType::Float(Float::F16),
    DataType::FLOAT32,
    DataType::FLOAT64,
];

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

/// A codec as the metadata have it.
pub(crate) fn codec(name: &str, config: &str, data_type: &DataType, strict: bool) -> Result<Codec> {
    let config = json(config);
    build(&CodecRequest { name, config: config.members().unwrap(), strict, data_type })
}

/// One over bytes, for elements of a byte.
pub(crate) fn bytes(name: &str, config: &str) -> Box<dyn BytesToBytes> {
    typed_bytes(name, config, &DataType::UINT8)
}

pub(crate) fn typed_bytes(name: &str, config: &str, data_type: &DataType) -> Box<dyn BytesToBytes> {
    let Codec::Bytes(c) = codec(name, config, data_type, false).unwrap() else { panic!("{name}") };
    c
}

pub(crate) fn to_bytes(name: &str, config: &str, data_type: &DataType) -> Box<dyn ArrayToBytes> {
    let Codec::ToBytes(c) = codec(name, config, data_type, false).unwrap() else { panic!("{name}") };
    c
}

pub(crate) fn array(name: &str, config: &str, data_type: &DataType) -> Box<dyn ArrayToArray> {
    let Codec::Array(c) = codec(name, config, data_type, false).unwrap() else { panic!("{name}") };
    c
}

/// A chunk of one dimension.
pub(crate) fn line(data_type: DataType, n: u64) -> Repr {
    Repr { shape: vec![n], data_type, fill: Fill::default() }
}

/// A row of `testdata/codecs.txt`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    config: String,
    pub(crate) plain: Vec<u8>,
    pub(crate) encoded: Vec<u8>,
    /// What `encoded` decodes to; not `plain` where something is lost.
    pub(crate) decoded: Vec<u8>,
    /// The type and the fill value as the next codec sees them.
    pub(crate) to: Option<DataType>,
    pub(crate) fill: Option<Vec<u8>>,
}

/// The rows that begin with `verb`.
pub(crate) fn rows(verb: &str) -> Vec<Row> {
    let text = include_str!("../../testdata/codecs.txt");
    let rows = text.lines().filter_map(|l| l.strip_prefix(verb)?.strip_prefix(' '));
    rows.map(|line| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let mut named = |key: &str| {
            let at = words.iter().position(|w| w.starts_with(key))?;
            words.remove(at).strip_prefix(key)
        };
        let (to, fill) = (named("to=").map(data_type), named("fill=").map(data));
        let field = |i: usize| words.get(i).map(|w| data(w)).unwrap_or_default();
        Row {
            name: words[0].to_owned(),
            data_type: data_type(words[1]),
            config: words[2].to_owned(),
            plain: field(3),
            encoded: field(4),
            decoded: field(if words.len() > 5 { 5 } else { 3 }),
            to,
            fill,
        }
    })
    .collect()
}

impl Row {
    pub(crate) fn codec(&self, strict: bool) -> Result<Codec> {
        codec(&self.name, &self.config, &self.data_type, strict)
    }

    pub(crate) fn bytes(&self) -> Box<dyn BytesToBytes> {
        typed_bytes(&self.name, &self.config, &self.data_type)
    }

    /// The chunk that `plain` is; its first element is the fill value.
    pub(crate) fn repr(&self) -> Repr {
        let size = self.data_type.size();
        let shape = vec![1, u64::try_from(self.plain.len() / size).unwrap()];
        Repr { shape, data_type: self.data_type.clone(), fill: Fill(self.plain[..size].into()) }
    }
}

fn data_type(name: &str) -> DataType {
    match name {
        "-" => DataType::UINT8,
        n if n.starts_with(['<', '>', '|']) => {
            typestr::parse(&Json::string(n)).unwrap().fixed().unwrap().clone()
        }
        n => v3::data_type(&Json::string(n), "", &mut Findings::new(Mode::Tolerant, "")).unwrap().0,
    }
}

/// Bytes as the table has them.
fn data(text: &str) -> Vec<u8> {
    let number = |s: &str| s.parse::<usize>().unwrap();
    let part = |text: &str| match text.split_once(':') {
        None => match text.strip_prefix('\'').and_then(|t| t.split_once("'*")) {
            Some((text, times)) => text.as_bytes().repeat(number(times)),
            None => hex(text),
        },
        Some(("ramp", n)) => (0..=255).cycle().take(number(n)).collect(),
        Some((_, rest)) => {
            let [width, count, each] = rest.split(':').map(number).collect::<Vec<_>>().try_into().unwrap();
            (0..count).flat_map(|i| (i / each).to_le_bytes().into_iter().take(width)).collect()
        }
    };
    text.split('+').flat_map(part).collect()
}

/// Encodes and decodes data of many sizes and kinds, by every way of decoding, and with wrong sizes.
pub(crate) fn round_trip(codec: &dyn BytesToBytes) {
    let mut noise = Noise(7);
    for n in [0, 1, 2, 3, 7, 8, 15, 16, 17, 100, 127, 128, 129, 1000, 4096, 4099, 70_001] {
        for data in [vec![0; n], noise.bytes(n), noise.smooth(n), b"abcd".repeat(n / 4 + 1)[..n].to_vec()] {
            let encoded = codec.encode(&data).unwrap();
            for size in [OutputSize::Exact(n), OutputSize::AtMost(n), OutputSize::AtMost(10 * n + 100_000)] {
                assert!(codec.decode(&encoded, size).unwrap() == data, "{codec:?} {n} {size:?}");
            }
            let mut out = vec![0xaa; n];
            codec.decode_into(&encoded, &mut out).unwrap();
            assert!(out == data, "{codec:?} {n} into");
            assert!(codec.decode(&encoded, OutputSize::Exact(n + 1)).is_err(), "{codec:?} {n} +1");
            assert!(codec.decode_into(&encoded, &mut vec![0; n + 1]).is_err());
            if n > 0 {
                assert!(codec.decode(&encoded, OutputSize::Exact(n - 1)).is_err(), "{codec:?} {n} -1");
                assert!(codec.decode(&encoded, OutputSize::AtMost(n - 1)).is_err());
                assert!(codec.decode_into(&encoded, &mut out[1..]).is_err());
            }
            assert!(encoded.len() <= codec.encoded_size(OutputSize::Exact(n)).unwrap().limit());
        }
    }
}

/// Cuts and bit flips of an encoding of `data`, and plain noise: whatever comes, no panic and never too much.
pub(crate) fn hostile(codec: &dyn BytesToBytes, data: &[u8]) {
    let mut noise = Noise(11);
    let encoded = codec.encode(data).unwrap();
    let attempt = |bytes: &[u8]| {
        for size in [OutputSize::Exact(data.len()), OutputSize::AtMost(2 * data.len())] {
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
