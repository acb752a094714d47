//! Every codec against what other programs wrote, against damage, and against settings that cannot be: the rows of
//! `testdata/codecs.txt`.

use super::testing::{Noise, Row, hostile, line, round_trip, rows};
use super::{Buffer, BytesToBytes, Codec, OutputSize};

#[test]
fn known_bytes_are_written_and_read() {
    for row in rows("both") {
        match row.codec(false).unwrap() {
            Codec::Bytes(c) => {
                assert_eq!(c.encode(&row.plain).unwrap(), row.encoded, "{row:?}");
                c.encoded_size(OutputSize::Exact(row.plain.len())).unwrap().check(row.encoded.len()).unwrap();
                reads(&*c, &row);
                // The padding of base64 may be missing.
                let ends = 0..row.encoded.len() - if row.name == "base64" { 2 } else { 0 };
                let exact = OutputSize::Exact(row.decoded.len());
                assert!(ends.into_iter().all(|n| c.decode(&row.encoded[..n], exact).is_err()), "{row:?}");
                assert!(c.decode(&row.encoded.repeat(2), exact).is_err(), "{row:?}");
            }
            Codec::Array(c) => {
                let decoded = row.repr();
                let encoded = c.encoded(&decoded).unwrap();
                let written = c.encode(Buffer::fixed(row.plain.clone()), &decoded, &encoded).unwrap();
                assert_eq!(written.bytes, row.encoded, "{row:?}");
                let read = |bytes: &[u8]| c.decode(Buffer::fixed(bytes.to_vec()), &decoded, &encoded);
                assert_eq!(read(&row.encoded).unwrap().bytes, row.decoded, "{row:?}");
                assert!((0..row.encoded.len()).all(|end| read(&row.encoded[..end]).is_err()), "{row:?}");
                assert!(row.to.as_ref().is_none_or(|t| *t == encoded.data_type), "{row:?}");
                assert!(row.fill.as_ref().is_none_or(|f| **f == *encoded.fill.0), "{row:?}");
            }
            Codec::ToBytes(c) => {
                let r = row.repr();
                assert_eq!(c.encode(&Buffer::fixed(row.plain.clone()), &r).unwrap(), row.encoded, "{row:?}");
                assert_eq!(c.decode(&row.encoded, &r).unwrap().bytes, row.decoded, "{row:?}");
                assert_eq!(c.encoded_size(&r).unwrap(), OutputSize::Exact(row.encoded.len()));
                assert!((0..row.encoded.len()).all(|n| c.decode(&row.encoded[..n], &r).is_err()), "{row:?}");
                assert!(c.decode(&[&row.encoded[..], &[0]].concat(), &r).is_err(), "{row:?}");
            }
        }
    }
}

#[test]
fn known_bytes_are_read() {
    for row in rows("read") {
        reads(&*row.bytes(), &row);
    }
}

/// Decodes by every way, and with wrong sizes.
fn reads(c: &dyn BytesToBytes, row: &Row) {
    let n = row.decoded.len();
    for size in [OutputSize::Exact(n), OutputSize::AtMost(n), OutputSize::AtMost(10 * n + 1000)] {
        assert_eq!(c.decode(&row.encoded, size).unwrap(), row.decoded, "{row:?} {size:?}");
    }
    assert!(c.decode(&row.encoded, OutputSize::Exact(n + 1)).is_err(), "{row:?}");
    if n > 0 {
        for size in [OutputSize::Exact(n - 1), OutputSize::AtMost(n - 1)] {
            assert!(c.decode(&row.encoded, size).is_err(), "{row:?} {size:?}");
        }
    }
}

#[test]
fn data_of_all_kinds_come_back_and_damage_never_panics() {
    for row in rows("trip") {
        let c = row.bytes();
        round_trip(&*c);
        hostile(&*c, &Noise(3).smooth(3000));
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    for (verb, strict) in [("bad", false), ("strict", true)] {
        for row in rows(verb) {
            // Some settings are no settings for a type or a size, which chains ask about before they read.
            let r = line(row.data_type.clone(), 16);
            let refused = match row.codec(strict) {
                Err(_) => true,
                Ok(Codec::Array(c)) => c.encoded(&r).is_err(),
                Ok(Codec::ToBytes(c)) => c.encoded_size(&r).is_err(),
                Ok(Codec::Bytes(_)) => false,
            };
            assert!(refused, "{row:?}");
        }
    }
}
