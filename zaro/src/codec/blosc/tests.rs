use super::super::testing::{Noise, hex, hostile, round_trip};
use super::*;
use crate::meta::json::json;

const CNAMES: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

fn made(text: &str, element: usize, strict: bool) -> Blosc {
    let config = json(text);
    Blosc::from_config(&Config::new(config.members().unwrap()), element, strict).unwrap()
}

fn full(cname: &str, clevel: u32, shuffle: &str, typesize: u32, blocksize: u32) -> Blosc {
    let json = format!(
        "{{\"cname\": {cname:?}, \"clevel\": {clevel}, \"shuffle\": {shuffle:?}, \"typesize\": {typesize}, \
         \"blocksize\": {blocksize}}}"
    );
    made(&json, 2, true)
}

#[test]
fn round_trips() {
    for cname in CNAMES {
        for shuffle in ["noshuffle", "shuffle", "bitshuffle"] {
            for (typesize, blocksize, clevel) in
                [(1, 0, 5), (2, 0, 1), (4, 1000, 5), (8, 4096, 9), (7, 0, 3), (40, 333, 0)]
            {
                round_trip(&full(cname, clevel, shuffle, typesize, blocksize));
            }
        }
    }
}

#[test]
fn damage_never_panics() {
    let data = Noise(5).smooth(6000);
    for cname in CNAMES {
        for shuffle in ["noshuffle", "shuffle", "bitshuffle"] {
            hostile(&full(cname, 5, shuffle, 2, 2000), &data);
        }
    }
}

#[test]
fn hostile_headers_are_refused() {
    let codec = full("lz4", 5, "shuffle", 2, 1000);
    let good = codec.encode(&Noise(5).smooth(6000)).unwrap();
    assert!(good.len() < 6000);
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        codec.decode(&bytes, OutputSize::AtMost(1 << 30))
    };
    assert!(with(0, &[2]).is_ok());
    for (at, value) in [
        (0, &[0][..]),
        (2, &[0x25]),
        (2, &[0xe1]),
        (3, &[0]),
        (4, &[0xff; 4]),
        (4, &[0xff, 0xff, 0xff, 0x7f]),
        (8, &[0; 4]),
        (8, &[0xff; 4]),
        (8, &[1, 0, 0, 0]),
        (12, &[0xff, 0xff, 0xff, 0x7f]),
        (12, &[0; 4]),
        (16, &[0xff; 4]),
        (16, &[0xff, 0xff, 0xff, 0x7f]),
        (40, &[0xff; 4]),
        (40, &[0; 4]),
    ] {
        assert!(with(at, value).is_err(), "{at} {value:?}");
    }
}

#[test]
fn what_is_left_out() {
    let v2 = |json: &str, element: usize| made(json, element, false);
    assert_eq!(v2("{}", 4), v2("{\"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": 0}", 4));
    for (config, element, shuffle) in [
        (-1, 1, BloscShuffle::Bits),
        (-1, 8, BloscShuffle::Bytes),
        (0, 8, BloscShuffle::None),
        (2, 8, BloscShuffle::Bits),
    ] {
        assert_eq!(v2(&format!("{{\"shuffle\": {config}}}"), element).shuffle, shuffle);
    }
    // The array says the size of its elements.
    assert_eq!(v2("{\"shuffle\": \"shuffle\"}", 4).typesize, 4);
    assert_eq!(v2("{}", 1000).typesize, 1);
}

#[test]
fn frames_of_blosc_2_are_named_as_such() {
    let frame = hex("0501250800350c00000008001754060000000000000101000000000000000000");
    let e = full("lz4", 5, "shuffle", 2, 0).decode(&frame, OutputSize::AtMost(1 << 30)).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::Unsupported, "{e}");
}
