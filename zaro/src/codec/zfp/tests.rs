//! Streams of the C library (zfp 1.0.1) and of the Python package zfpy 1.0.1, and hostile ones.

use super::*;
use crate::ErrorKind;
use crate::codec::Codec;
use crate::codec::registry::{Request, build};
use crate::meta::fill::Fill;
use crate::meta::json::Json;

fn repr(shape: &[u64], data_type: DataType) -> Repr {
    Repr { shape: shape.to_vec(), data_type, fill: Fill(vec![0; 8].into()) }
}

fn data_type(name: &str) -> DataType {
    match name {
        "int32" => DataType::Int(32),
        "int64" => DataType::Int(64),
        "float32" => DataType::FLOAT32,
        _ => DataType::FLOAT64,
    }
}

/// Values that are exact in every type.
fn sample(count: i64, name: &str) -> Vec<u8> {
    let values = (0..count).map(|i| i32::try_from((i * i * 37 + i * 1013) % 1999 - 999).unwrap());
    match name {
        "int32" => values.flat_map(i32::to_le_bytes).collect(),
        "int64" => values.flat_map(|v| (i64::from(v) << 20).to_le_bytes()).collect(),
        "float32" => {
            values.flat_map(|v| (f32::from(i16::try_from(v).unwrap()) / 8.0).to_le_bytes()).collect()
        }
        _ => values.flat_map(|v| (f64::from(v) / 8.0).to_le_bytes()).collect(),
    }
}

fn zfp(mode: Mode) -> Zfp {
    Zfp { mode: Some(mode), header: false }
}

fn zfpy(mode: Mode) -> Zfp {
    Zfp { mode: Some(mode), header: true }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn made(name: &str, config: &str) -> Result<Box<dyn ArrayToBytes>> {
    let config = Json::parse(config.as_bytes())?.value;
    let request =
        Request { name, config: config.members().unwrap(), strict: true, data_type: &DataType::FLOAT32 };
    match build(&request)? {
        Codec::ToBytes(codec) => Ok(codec),
        other => panic!("{other:?}"),
    }
}

const EXPERT: Mode = Mode::Expert { min_bits: 60, max_bits: 333, max_prec: 20, min_exp: -3 };

/// Shape, type, mode; length and CRC-32 of the stream; CRC-32 of what it decodes to.
type Row = (&'static [u64], &'static str, Mode, usize, u32, u32);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (&[10], "int32", Mode::Reversible, 32, 0x4d100c07, 0xc031d81c),
    (&[10], "int32", Mode::Rate(11.5), 24, 0x09a770c0, 0xd17881c6),
    (&[10], "int32", Mode::Precision(14), 8, 0x6522df69, 0xe9ec3db1),
    (&[10], "int32", Mode::Accuracy(0.25), 32, 0xa916de13, 0xd114ef0b),
    (&[10], "int32", EXPERT, 24, 0xa3c1ca20, 0xe9ec3db1),
    (&[10], "int64", Mode::Reversible, 40, 0xb484e4f2, 0xf999de96),
    (&[10], "int64", Mode::Rate(11.5), 24, 0x84c90542, 0xd8afe723),
    (&[10], "int64", Mode::Precision(14), 8, 0x6522df69, 0x8e2318e6),
    (&[10], "int64", Mode::Accuracy(0.25), 64, 0x04125dc3, 0xf999de96),
    (&[10], "int64", EXPERT, 24, 0xa3c1ca20, 0x8e2318e6),
    (&[10], "float32", Mode::Reversible, 24, 0x7448fd3e, 0xa4c4edb4),
    (&[10], "float32", Mode::Rate(11.5), 24, 0xf13e770a, 0x8d0772b5),
    (&[10], "float32", Mode::Precision(14), 24, 0x33801d95, 0x32ed2608),
    (&[10], "float32", Mode::Accuracy(0.25), 24, 0x74063ba5, 0x931fbb4d),
    (&[10], "float32", EXPERT, 24, 0x33801d95, 0x32ed2608),
    (&[10], "float64", Mode::Reversible, 32, 0xdb95494c, 0x8ee9f554),
    (&[10], "float64", Mode::Rate(11.5), 24, 0x6be30137, 0x5f383b1c),
    (&[10], "float64", Mode::Precision(14), 32, 0xa5ba5925, 0xbfc79df7),
    (&[10], "float64", Mode::Accuracy(0.25), 24, 0xdc296090, 0x9c4f4f1b),
    (&[10], "float64", EXPERT, 32, 0xa5ba5925, 0xbfc79df7),
    (&[5, 6], "int32", Mode::Reversible, 96, 0x6dbc1265, 0x8d443234),
    (&[5, 6], "int32", Mode::Rate(11.5), 96, 0xea56c9a0, 0x77ddcdd2),
    (&[5, 6], "int32", Mode::Precision(14), 8, 0x6522df69, 0x395d7a27),
    (&[5, 6], "int32", Mode::Accuracy(0.25), 72, 0x83c15fba, 0x77ddcdd2),
    (&[5, 6], "int32", EXPERT, 32, 0x190a55ad, 0x395d7a27),
    (&[5, 6], "int64", Mode::Reversible, 104, 0x639f9143, 0x5617a767),
    (&[5, 6], "int64", Mode::Rate(11.5), 96, 0xc741cbbf, 0x7d42cd0e),
    (&[5, 6], "int64", Mode::Precision(14), 8, 0x6522df69, 0xbc612413),
    (&[5, 6], "int64", Mode::Accuracy(0.25), 200, 0x1f88b876, 0x5617a767),
    (&[5, 6], "int64", EXPERT, 32, 0x190a55ad, 0xbc612413),
    (&[5, 6], "float32", Mode::Reversible, 88, 0xb236db2e, 0x708d7021),
    (&[5, 6], "float32", Mode::Rate(11.5), 96, 0x317f9ce4, 0x4e160537),
    (&[5, 6], "float32", Mode::Precision(14), 80, 0xd0e2eecc, 0xfd5894cc),
    (&[5, 6], "float32", Mode::Accuracy(0.25), 88, 0x7021f6f7, 0x377d17ad),
    (&[5, 6], "float32", EXPERT, 96, 0x177a5290, 0x12b7c774),
    (&[5, 6], "float64", Mode::Reversible, 88, 0xe74436df, 0x35c3da6d),
    (&[5, 6], "float64", Mode::Rate(11.5), 96, 0xa666da4c, 0x3eacb006),
    (&[5, 6], "float64", Mode::Precision(14), 88, 0x0111ed6f, 0x4ebd1b8f),
    (&[5, 6], "float64", Mode::Accuracy(0.25), 88, 0x4151ad2b, 0x3fe437c6),
    (&[5, 6], "float64", EXPERT, 96, 0x67d6cdaf, 0xd7064480),
    (&[3, 5, 4], "int32", Mode::Reversible, 224, 0xc965b8c7, 0x875e2c85),
    (&[3, 5, 4], "int32", Mode::Rate(11.5), 184, 0x55709ab6, 0x6b39c3dc),
    (&[3, 5, 4], "int32", Mode::Precision(14), 8, 0x6522df69, 0xbc612413),
    (&[3, 5, 4], "int32", Mode::Accuracy(0.25), 136, 0xa9a6b7a2, 0x6b39c3dc),
    (&[3, 5, 4], "int32", EXPERT, 16, 0xecbb4b55, 0xbc612413),
    (&[3, 5, 4], "int64", Mode::Reversible, 224, 0x73e70d32, 0xc398d09f),
    (&[3, 5, 4], "int64", Mode::Rate(11.5), 184, 0x62d0263d, 0x3d0f54c8),
    (&[3, 5, 4], "int64", Mode::Precision(14), 8, 0x6522df69, 0xfbbac38d),
    (&[3, 5, 4], "int64", Mode::Accuracy(0.25), 408, 0xa909e62f, 0xc398d09f),
    (&[3, 5, 4], "int64", EXPERT, 16, 0xecbb4b55, 0xfbbac38d),
    (&[3, 5, 4], "float32", Mode::Reversible, 168, 0x501de40e, 0xcfee9709),
    (&[3, 5, 4], "float32", Mode::Rate(11.5), 184, 0xbab59c33, 0x3f724318),
    (&[3, 5, 4], "float32", Mode::Precision(14), 160, 0xedad1a1c, 0xfcc8a373),
    (&[3, 5, 4], "float32", Mode::Accuracy(0.25), 200, 0xb69536af, 0x07d292ad),
    (&[3, 5, 4], "float32", EXPERT, 88, 0x006a64ec, 0x0225f706),
    (&[3, 5, 4], "float64", Mode::Reversible, 168, 0x463750f4, 0xe399430c),
    (&[3, 5, 4], "float64", Mode::Rate(11.5), 184, 0x03dc6c4e, 0x02e4b714),
    (&[3, 5, 4], "float64", Mode::Precision(14), 160, 0x43d703b2, 0x496a5efe),
    (&[3, 5, 4], "float64", Mode::Accuracy(0.25), 200, 0xddda1b52, 0x2be35944),
    (&[3, 5, 4], "float64", EXPERT, 88, 0xa771bd8d, 0xf7d0afa5),
    (&[2, 3, 5, 4], "int32", Mode::Reversible, 888, 0x8fb2f89a, 0x75ba0288),
    (&[2, 3, 5, 4], "int32", Mode::Rate(11.5), 736, 0x61e923c4, 0x730fe359),
    (&[2, 3, 5, 4], "int32", Mode::Precision(14), 8, 0x6522df69, 0xfbbac38d),
    (&[2, 3, 5, 4], "int32", Mode::Accuracy(0.25), 496, 0x7b1cf098, 0x730fe359),
    (&[2, 3, 5, 4], "int32", EXPERT, 16, 0xecbb4b55, 0xfbbac38d),
    (&[2, 3, 5, 4], "int64", Mode::Reversible, 888, 0xfa9166f6, 0x5e3c5306),
    (&[2, 3, 5, 4], "int64", Mode::Rate(11.5), 736, 0x1b1bbd7c, 0x7fd67ca8),
    (&[2, 3, 5, 4], "int64", Mode::Precision(14), 8, 0x6522df69, 0x38e2007b),
    (&[2, 3, 5, 4], "int64", Mode::Accuracy(0.25), 1560, 0x67b33ec8, 0x5e3c5306),
    (&[2, 3, 5, 4], "int64", EXPERT, 16, 0xecbb4b55, 0x38e2007b),
    (&[2, 3, 5, 4], "float32", Mode::Reversible, 632, 0xe591463b, 0xf173dfcc),
    (&[2, 3, 5, 4], "float32", Mode::Rate(11.5), 736, 0xf86b5828, 0x517dcc63),
    (&[2, 3, 5, 4], "float32", Mode::Precision(14), 600, 0xdc358671, 0xdea8b1e0),
    (&[2, 3, 5, 4], "float32", Mode::Accuracy(0.25), 864, 0x1ff847f6, 0x76988cdb),
    (&[2, 3, 5, 4], "float32", EXPERT, 88, 0x56d38077, 0xd2be3e3a),
    (&[2, 3, 5, 4], "float64", Mode::Reversible, 632, 0x671e256d, 0x0316c840),
    (&[2, 3, 5, 4], "float64", Mode::Rate(11.5), 736, 0xbe878c26, 0xcd3bf950),
    (&[2, 3, 5, 4], "float64", Mode::Precision(14), 600, 0x6701b221, 0xbd37f949),
    (&[2, 3, 5, 4], "float64", Mode::Accuracy(0.25), 864, 0xaff170a6, 0xf587cad0),
    (&[2, 3, 5, 4], "float64", EXPERT, 88, 0x6bac2b01, 0x2a006a88),
];

#[test]
fn streams_are_those_of_the_c_library() {
    for (shape, name, mode, length, stream, values) in ROWS {
        let label = format!("{shape:?} {name} {mode:?}");
        let repr = repr(shape, data_type(name));
        let chunk = Buffer::fixed(sample(shape.iter().product::<u64>().try_into().unwrap(), name));
        let encoded = zfp(*mode).encode(&chunk, &repr).unwrap();
        assert_eq!((encoded.len(), crc32fast::hash(&encoded)), (*length, *stream), "{label}");
        zfp(*mode).encoded_size(&repr).unwrap().check(encoded.len()).unwrap();
        let decoded = zfp(*mode).decode(&encoded, &repr).unwrap();
        assert_eq!(crc32fast::hash(&decoded.bytes), *values, "{label}");
        if *mode == Mode::Reversible {
            assert_eq!(decoded, chunk, "{label}");
        }
        let with_header = zfpy(*mode).encode(&chunk, &repr).unwrap();
        assert_eq!(zfpy(Mode::Reversible).decode(&with_header, &repr).unwrap(), decoded, "{label}");
    }
}

#[test]
fn headers_are_those_of_zfpy() {
    let repr = repr(&[10], DataType::FLOAT32);
    let chunk = Buffer::fixed(sample(10, "float32"));
    for (mode, text) in [
        (
            Mode::Reversible,
            "7a667005920000000000008819ae6b807817cebc325c59e27a03c9be335cd28989c1d81800000000",
        ),
        (
            Mode::Rate(16.0),
            "7a667005920000000000f0030dc5ce44abfdd5aa0d254ab33854af3a0d972a282008820200000000",
        ),
        (
            Mode::Precision(20),
            "7a66700592000000000030810dc5ce44abfdd5aa0000404389d22c0ed5ab0e0500a0e152050504415000000000000000",
        ),
        (
            Mode::Accuracy(0.5),
            "7a66700592000000000020cb0dc5ce44abfd554389d22c0ed5abe152050504410000000000000000",
        ),
        (
            // No error at all is none of the simple modes: the long form.
            Mode::Accuracy(0.0),
            "7a667005920000000000f0ff008088e0af87d750ec4cb4da5fad0a0000000000000000349428cde250bdea500000000000\
             0000001a2e555040100405000000000000000000000000",
        ),
    ] {
        let expected = hex(&text.replace(' ', ""));
        assert_eq!(zfpy(mode).encode(&chunk, &repr).unwrap(), expected, "{mode:?}");
        zfpy(mode).decode(&expected, &repr).unwrap();
    }
}

#[test]
fn numcodecs_data_are_read_whatever_the_metadata_say() {
    let stream = hex(
        "7a667005370000200000c0ca0d48032099fa1375cafb7898252a98e58b47ed18e28c0361caa2b1fd3d67c6fbc69808180800000000000000",
    );
    let codec =
        made("numcodecs.zfpy", r#"{"mode": 4, "tolerance": 0.01, "rate": -1, "precision": -1}"#).unwrap();
    let values = sample(12, "float64");
    let decoded = codec.decode(&stream, &repr(&[3, 4], DataType::FLOAT64)).unwrap();
    for (got, want) in decoded.bytes.as_chunks::<8>().0.iter().zip(values.as_chunks::<8>().0) {
        assert!((f64::from_le_bytes(*got) - f64::from_le_bytes(*want)).abs() <= 0.01);
    }
    assert_eq!(codec.encode(&Buffer::fixed(values), &repr(&[3, 4], DataType::FLOAT64)).unwrap(), stream);
    // Filters of numcodecs flatten; what counts is how many values there are, and of what type.
    for codec in [made("v2.zfpy", "{}").unwrap(), made("v2.zfpy", r#"{"mode": 1}"#).unwrap()] {
        assert_eq!(codec.decode(&stream, &repr(&[12], DataType::FLOAT64)).unwrap(), decoded);
        assert!(codec.decode(&stream, &repr(&[3, 5], DataType::FLOAT64)).is_err());
        assert!(codec.decode(&stream, &repr(&[3, 4], DataType::Int(64))).is_err());
        assert!(codec.decode(&stream, &repr(&[3, 4], DataType::FLOAT32)).is_err());
        assert!(codec.decode(&stream[..9], &repr(&[3, 4], DataType::FLOAT64)).is_err());
        assert!(codec.decode(&stream[3..], &repr(&[3, 4], DataType::FLOAT64)).is_err());
    }
}

#[test]
fn small_integers_are_moved_up() {
    let bytes: Vec<u8> = (0..16u16).map(|i| u8::try_from(i * 53 % 256).unwrap()).collect();
    let stream = hex("c48c4199f4101c19f30123016000200000000000000000000000000000000000");
    let codec = zfp(Mode::Precision(16));
    let unsigned = repr(&[4, 4], DataType::UINT8);
    assert_eq!(codec.encode(&Buffer::fixed(bytes.clone()), &unsigned).unwrap(), stream);
    assert_eq!(codec.decode(&stream, &unsigned).unwrap().bytes, bytes);
    let signed = repr(&[4, 4], DataType::INT8);
    let shifted: Vec<u8> = bytes.iter().map(|b| b.wrapping_sub(128)).collect();
    assert_eq!(codec.encode(&Buffer::fixed(shifted.clone()), &signed).unwrap(), stream);
    assert_eq!(codec.decode(&stream, &signed).unwrap().bytes, shifted);

    let stream = hex("e411eb51c19e21900046030000c00000014001c00180018001c0000000000000");
    let words: Vec<u8> =
        (0..16u32).flat_map(|i| u16::try_from(i * 5003 % 65536).unwrap().to_le_bytes()).collect();
    let unsigned = repr(&[4, 4], DataType::UInt(16));
    assert_eq!(codec.encode(&Buffer::fixed(words), &unsigned).unwrap(), stream);
    let decoded = codec.decode(&stream, &unsigned).unwrap();
    assert_eq!(decoded.bytes[..6], [1, 0, 0x8b, 0x13, 0x15, 0x27]);
}

#[test]
fn reversible_mode_keeps_every_type() {
    let types = [
        (DataType::Int(2), vec![0xfe, 0xff, 0, 1]),
        (DataType::UInt(2), vec![0, 1, 2, 3]),
        (DataType::Int(4), vec![0xf8, 0xff, 0, 7]),
        (DataType::UInt(4), vec![0, 1, 8, 15]),
        (DataType::Int(8), (0..=255).collect()),
        (DataType::UInt(8), (0..=255).rev().collect()),
        (DataType::Int(16), (0..=255).collect()),
        (DataType::UInt(16), (0..=255).collect()),
        (DataType::UInt(32), (0..128).collect()),
        (DataType::UInt(64), (0..128).collect()),
        (DataType::Float(Float::F16), (0..124).collect()),
        (DataType::Float(Float::BF16), (0..124).collect()),
        (DataType::TimeDelta(crate::meta::dtype::TimeUnit::Day, 1), (0..=255).collect()),
    ];
    for (data_type, bytes) in types {
        let count = bytes.len() / data_type.size();
        for shape in [vec![count], vec![1, count], vec![2, count / 2, 1], vec![1, 1, count / 2, 2]] {
            let repr = repr(&shape.iter().map(|n| num::u64_of(*n)).collect::<Vec<_>>(), data_type.clone());
            let chunk = Buffer::fixed(bytes.clone());
            let encoded = zfp(Mode::Reversible).encode(&chunk, &repr).unwrap();
            assert_eq!(
                zfp(Mode::Reversible).decode(&encoded, &repr).unwrap(),
                chunk,
                "{data_type} {shape:?}"
            );
        }
    }
}

#[test]
fn odd_floats() {
    let odd = [f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE / 8.0, f32::MAX, -1.5e-30, 0.1, 7.0];
    let bytes: Vec<u8> = odd.iter().flat_map(|x| x.to_le_bytes()).collect();
    let all = repr(&[8], DataType::FLOAT32);
    let chunk = Buffer::fixed(bytes);
    let encoded = zfp(Mode::Reversible).encode(&chunk, &all).unwrap();
    assert_eq!(zfp(Mode::Reversible).decode(&encoded, &all).unwrap(), chunk);
    assert!(zfp(Mode::Precision(20)).encode(&chunk, &all).is_err());
    let finite = Buffer::fixed(chunk.bytes[8..].to_vec());
    zfp(Mode::Precision(20)).encode(&finite, &repr(&[6], DataType::FLOAT32)).unwrap();
}

#[test]
fn no_dimension_is_one_value_and_none_is_empty() {
    let repr0 = repr(&[], DataType::FLOAT64);
    let chunk = Buffer::fixed(1.25f64.to_le_bytes().to_vec());
    for codec in [zfp(Mode::Reversible), zfpy(Mode::Reversible)] {
        let encoded = codec.encode(&chunk, &repr0).unwrap();
        assert_eq!(codec.decode(&encoded, &repr0).unwrap(), chunk);
        let empty = repr(&[3, 0], DataType::FLOAT64);
        let encoded = codec.encode(&Buffer::default(), &empty).unwrap();
        assert_eq!(codec.decode(&encoded, &empty).unwrap(), Buffer::default());
    }
}

#[test]
fn what_zfp_cannot_hold() {
    let codec = zfp(Mode::Reversible);
    let big = Buffer::fixed(u32::MAX.to_le_bytes().to_vec());
    assert_eq!(
        codec.encode(&big, &repr(&[1], DataType::UInt(32))).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    let repr5 = repr(&[1, 1, 1, 1, 1], DataType::FLOAT32);
    assert_eq!(codec.encoded_size(&repr5).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(codec.encoded_size(&repr(&[4], DataType::Bool)).is_err());
    assert!(codec.encoded_size(&repr(&[4], DataType::Complex(Float::F32))).is_err());
    let wide = repr(&[1, 1, 1, 5000], DataType::Int(32));
    let chunk = Buffer::fixed(vec![0; 20_000]);
    assert!(zfpy(Mode::Reversible).encode(&chunk, &wide).is_err());
    zfp(Mode::Reversible).encode(&chunk, &wide).unwrap();
}

#[test]
fn configurations() {
    for config in [
        r#"{"mode": "reversible"}"#,
        r#"{"mode": "fixed_rate", "rate": 10.5}"#,
        r#"{"mode": "fixed_precision", "precision": 19}"#,
        r#"{"mode": "fixed_accuracy", "tolerance": 0.05}"#,
        r#"{"mode": "expert", "minbits": 1, "maxbits": 13, "maxprec": 19, "minexp": -2}"#,
    ] {
        made("zfp", config).unwrap().encoded_size(&repr(&[4, 4], DataType::FLOAT32)).unwrap();
    }
    for config in [
        r#"{}"#,
        r#"{"mode": "fast"}"#,
        r#"{"mode": "fixed_rate"}"#,
        r#"{"mode": "fixed_rate", "rate": "8"}"#,
        r#"{"mode": "fixed_rate", "rate": 0}"#,
        r#"{"mode": "fixed_rate", "rate": 1e300}"#,
        r#"{"mode": "fixed_accuracy", "tolerance": "Infinity"}"#,
        r#"{"mode": "fixed_precision", "precision": -1}"#,
        r#"{"mode": "reversible", "more": 1}"#,
        r#"{"mode": "expert", "minbits": 9, "maxbits": 8, "maxprec": 19, "minexp": -2}"#,
        r#"{"mode": "expert", "minbits": 1, "maxbits": 13, "maxprec": 0, "minexp": -2}"#,
        r#"{"mode": "expert", "minbits": 4294967295, "maxbits": 4294967295, "maxprec": 9, "minexp": -2}"#,
    ] {
        let size = made("zfp", config).and_then(|c| c.encoded_size(&repr(&[4, 4], DataType::FLOAT32)));
        assert!(size.is_err(), "{config}");
    }
}

#[test]
fn short_streams_are_found_out() {
    let repr = repr(&[5, 6], DataType::FLOAT64);
    let chunk = Buffer::fixed(sample(30, "float64"));
    for codec in [zfp(Mode::Reversible), zfpy(Mode::Reversible), zfp(Mode::Rate(9.0)), zfpy(EXPERT)] {
        let encoded = codec.encode(&chunk, &repr).unwrap();
        for length in 0..encoded.len() - 8 {
            assert!(codec.decode(&encoded[..length], &repr).is_err(), "{codec:?} {length}");
        }
    }
    // A few bytes do not make a large chunk.
    let large = Repr { shape: vec![1 << 40], ..repr };
    assert!(zfp(Mode::Reversible).decode(&[0; 100], &large).is_err());
}

#[test]
fn hostile_streams_end() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut sound = 0;
    for round in 0..2000 {
        let mut bytes: Vec<u8> = (0..random() % 700).map(|_| random().to_le_bytes()[3]).collect();
        let shape: &[u64] = [&[10][..], &[5, 6], &[3, 5, 4], &[2, 3, 5, 4]][round % 4];
        let name = ["int32", "int64", "float32", "float64"][round / 4 % 4];
        let repr = repr(shape, data_type(name));
        let mode = match random() % 5 {
            0 => Mode::Reversible,
            1 => Mode::Rate(7.0),
            2 => Mode::Precision(40),
            3 => Mode::Accuracy(1e-3),
            _ => Mode::Expert {
                min_bits: 0,
                max_bits: u32::try_from(random() % 40).unwrap() + 1,
                max_prec: 64,
                min_exp: i32::try_from(random() % 5000).unwrap() - 2500,
            },
        };
        if let Ok(decoded) = zfp(mode).decode(&bytes, &repr) {
            assert_eq!(decoded.bytes.len(), repr.byte_size().unwrap());
        }
        // A sound type and shape, any mode: the shape ends in the middle of a byte.
        let header = zfpy(mode).encode(&Buffer::fixed(vec![0; repr.byte_size().unwrap()]), &repr).unwrap();
        if bytes.len() > 10 {
            bytes[..10].copy_from_slice(&header[..10]);
            bytes[10] = bytes[10] & 0xf0 | header[10] & 0x0f;
            if let Ok(decoded) = zfpy(mode).decode(&bytes, &repr) {
                assert_eq!(decoded.bytes.len(), repr.byte_size().unwrap());
                sound += 1;
            }
        }
    }
    assert!(sound > 100, "{sound}");
}
