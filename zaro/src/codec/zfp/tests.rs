//! Streams of the C library (zfp 1.0.1) and of the Python package zfpy 1.0.1, and hostile ones.

use super::*;
use crate::ErrorKind;
use crate::codec::testing::{Noise, hex, to_bytes};
use crate::meta::fill::Fill;

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

fn zfp(mode: ZfpMode) -> Zfp {
    Zfp { mode: Some(mode), header: false }
}

fn zfpy(mode: ZfpMode) -> Zfp {
    Zfp { mode: Some(mode), header: true }
}

fn made(name: &str, config: &str) -> Box<dyn ArrayToBytes> {
    to_bytes(name, config, &DataType::FLOAT32)
}

const EXPERT: ZfpMode = ZfpMode::Expert { min_bits: 60, max_bits: 333, max_prec: 20, min_exp: -3 };

/// The rows of `testdata/zfp.txt` that begin with `word`, as their words.
fn rows(word: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let rows = include_str!("../../../testdata/zfp.txt").lines().map(|l| l.split(' ').collect::<Vec<_>>());
    rows.filter(move |row| row[0] == word)
}

fn mode(text: &str) -> ZfpMode {
    let (name, number) = text.split_once(':').unwrap_or((text, "0"));
    match name {
        "reversible" => ZfpMode::Reversible,
        "rate" => ZfpMode::Rate(number.parse().unwrap()),
        "precision" => ZfpMode::Precision(number.parse().unwrap()),
        "accuracy" => ZfpMode::Accuracy(number.parse().unwrap()),
        _ => EXPERT,
    }
}

#[test]
fn streams_are_those_of_the_c_library() {
    for row in rows("c") {
        let shape: Vec<u64> = row[1].split('x').map(|n| n.parse().unwrap()).collect();
        let (repr, mode) = (repr(&shape, data_type(row[2])), mode(row[3]));
        let chunk = Buffer::fixed(sample(shape.iter().product::<u64>().try_into().unwrap(), row[2]));
        let encoded = zfp(mode).encode(&chunk, &repr).unwrap();
        let crc = |bytes: &[u8]| format!("{:08x}", crc32fast::hash(bytes));
        assert_eq!((encoded.len().to_string(), crc(&encoded)), (row[4].into(), row[5].into()), "{row:?}");
        zfp(mode).encoded_size(&repr).unwrap().check(encoded.len()).unwrap();
        let decoded = zfp(mode).decode(&encoded, &repr).unwrap();
        assert_eq!(crc(&decoded.bytes), row[6], "{row:?}");
        if mode == ZfpMode::Reversible {
            assert_eq!(decoded, chunk, "{row:?}");
        }
        let with_header = zfpy(mode).encode(&chunk, &repr).unwrap();
        assert_eq!(zfpy(ZfpMode::Reversible).decode(&with_header, &repr).unwrap(), decoded, "{row:?}");
    }
}

#[test]
fn headers_are_those_of_zfpy() {
    let repr = repr(&[10], DataType::FLOAT32);
    let chunk = Buffer::fixed(sample(10, "float32"));
    for row in rows("zfpy") {
        let expected = hex(row[2]);
        assert_eq!(zfpy(mode(row[1])).encode(&chunk, &repr).unwrap(), expected, "{row:?}");
        zfpy(mode(row[1])).decode(&expected, &repr).unwrap();
    }
}

#[test]
fn numcodecs_data_are_read_whatever_the_metadata_say() {
    let stream = hex(
        "7a667005370000200000c0ca0d48032099fa1375cafb7898252a98e58b47ed18e28c0361caa2b1fd3d67c6fbc69808180800000000000000",
    );
    let codec = made("numcodecs.zfpy", r#"{"mode": 4, "tolerance": 0.01, "rate": -1, "precision": -1}"#);
    let values = sample(12, "float64");
    let decoded = codec.decode(&stream, &repr(&[3, 4], DataType::FLOAT64)).unwrap();
    for (got, want) in decoded.bytes.as_chunks::<8>().0.iter().zip(values.as_chunks::<8>().0) {
        assert!((f64::from_le_bytes(*got) - f64::from_le_bytes(*want)).abs() <= 0.01);
    }
    assert_eq!(codec.encode(&Buffer::fixed(values), &repr(&[3, 4], DataType::FLOAT64)).unwrap(), stream);
    // Filters of numcodecs flatten; what counts is how many values there are, and of what type.
    for codec in [made("v2.zfpy", "{}"), made("v2.zfpy", r#"{"mode": 1}"#)] {
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
    let codec = zfp(ZfpMode::Precision(16));
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
            let encoded = zfp(ZfpMode::Reversible).encode(&chunk, &repr).unwrap();
            assert_eq!(
                zfp(ZfpMode::Reversible).decode(&encoded, &repr).unwrap(),
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
    let encoded = zfp(ZfpMode::Reversible).encode(&chunk, &all).unwrap();
    assert_eq!(zfp(ZfpMode::Reversible).decode(&encoded, &all).unwrap(), chunk);
    assert!(zfp(ZfpMode::Precision(20)).encode(&chunk, &all).is_err());
    let finite = Buffer::fixed(chunk.bytes[8..].to_vec());
    zfp(ZfpMode::Precision(20)).encode(&finite, &repr(&[6], DataType::FLOAT32)).unwrap();
}

#[test]
fn no_dimension_is_one_value_and_none_is_empty() {
    let repr0 = repr(&[], DataType::FLOAT64);
    let chunk = Buffer::fixed(1.25f64.to_le_bytes().to_vec());
    for codec in [zfp(ZfpMode::Reversible), zfpy(ZfpMode::Reversible)] {
        let encoded = codec.encode(&chunk, &repr0).unwrap();
        assert_eq!(codec.decode(&encoded, &repr0).unwrap(), chunk);
        let empty = repr(&[3, 0], DataType::FLOAT64);
        let encoded = codec.encode(&Buffer::default(), &empty).unwrap();
        assert_eq!(codec.decode(&encoded, &empty).unwrap(), Buffer::default());
    }
}

#[test]
fn what_zfp_cannot_hold() {
    let codec = zfp(ZfpMode::Reversible);
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
    assert!(zfpy(ZfpMode::Reversible).encode(&chunk, &wide).is_err());
    zfp(ZfpMode::Reversible).encode(&chunk, &wide).unwrap();
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
        made("zfp", config).encoded_size(&repr(&[4, 4], DataType::FLOAT32)).unwrap();
    }
}

#[test]
fn short_streams_are_found_out() {
    let repr = repr(&[5, 6], DataType::FLOAT64);
    let chunk = Buffer::fixed(sample(30, "float64"));
    for codec in [zfp(ZfpMode::Reversible), zfpy(ZfpMode::Reversible), zfp(ZfpMode::Rate(9.0)), zfpy(EXPERT)]
    {
        let encoded = codec.encode(&chunk, &repr).unwrap();
        for length in 0..encoded.len() - 8 {
            assert!(codec.decode(&encoded[..length], &repr).is_err(), "{codec:?} {length}");
        }
    }
    // A few bytes do not make a large chunk.
    let large = Repr { shape: vec![1 << 40], ..repr };
    assert!(zfp(ZfpMode::Reversible).decode(&[0; 100], &large).is_err());
}

#[test]
fn hostile_streams_end() {
    let mut noise = Noise(1);
    let mut random = || noise.next();
    let mut sound = 0;
    for round in 0..2000 {
        let mut bytes: Vec<u8> = (0..random() % 700).map(|_| random().to_le_bytes()[3]).collect();
        let shape: &[u64] = [&[10][..], &[5, 6], &[3, 5, 4], &[2, 3, 5, 4]][round % 4];
        let name = ["int32", "int64", "float32", "float64"][round / 4 % 4];
        let repr = repr(shape, data_type(name));
        let mode = match random() % 5 {
            0 => ZfpMode::Reversible,
            1 => ZfpMode::Rate(7.0),
            2 => ZfpMode::Precision(40),
            3 => ZfpMode::Accuracy(1e-3),
            _ => ZfpMode::Expert {
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
