use super::super::testing::{Noise, hostile, members_of, round_trip};
use super::*;

const CNAMES: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

fn v3(json: &str) -> Result<Blosc> {
    let members = members_of(json);
    Blosc::from_config(&Config::new(&members), 2, true)
}

fn v2(json: &str, element: usize) -> Result<Blosc> {
    let members = members_of(json);
    Blosc::from_config(&Config::new(&members), element, false)
}

fn full(cname: &str, clevel: u32, shuffle: &str, typesize: u32, blocksize: u32) -> Blosc {
    v3(&format!(
        "{{\"cname\": {cname:?}, \"clevel\": {clevel}, \"shuffle\": {shuffle:?}, \"typesize\": {typesize}, \
         \"blocksize\": {blocksize}}}"
    ))
    .unwrap()
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
        codec.decode(&bytes, Size::AtMost(1 << 30))
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
fn parts_are_as_the_whole() {
    let data = Noise(8).smooth(50_001);
    let mut noise = Noise(9);
    for shuffle in ["noshuffle", "shuffle", "bitshuffle"] {
        for clevel in [0, 5] {
            let frame = full("lz4", clevel, shuffle, 2, 4096).encode(&data).unwrap();
            assert_eq!(decoded_length(&frame).unwrap(), data.len());
            for _ in 0..100 {
                let start = noise.below(data.len());
                let n = noise.below(data.len() - start + 1);
                let mut out = vec![0; n];
                decode_range(&frame, start, &mut out).unwrap();
                assert!(out == data[start..start + n]);
            }
            assert!(decode_range(&frame, 50_000, &mut [0; 2]).is_err());
            assert!(decode_range(&frame, usize::MAX, &mut [0; 2]).is_err());
        }
    }
}

#[test]
fn v3_configuration() {
    let rest = "\"clevel\": 5, \"blocksize\": 0";
    assert!(v3(&format!("{{\"cname\": \"lz4\", \"shuffle\": \"noshuffle\", {rest}}}")).is_ok());
    for bad in [
        "\"cname\": \"lz4\", \"shuffle\": \"shuffle\"",
        "\"cname\": \"lz5\", \"shuffle\": \"noshuffle\"",
        "\"cname\": \"lz4\", \"shuffle\": \"none\"",
        "\"cname\": \"lz4\", \"shuffle\": 1, \"typesize\": 2",
        "\"cname\": \"lz4\", \"shuffle\": \"shuffle\", \"typesize\": 0",
        "\"cname\": \"lz4\", \"shuffle\": \"shuffle\", \"typesize\": -1",
        "\"cname\": \"lz4\"",
    ] {
        assert!(v3(&format!("{{{bad}, {rest}}}")).is_err(), "{bad}");
    }
    for clevel in ["10", "-1", "1.5"] {
        assert!(
            v3(&format!(
                "{{\"cname\": \"lz4\", \"clevel\": {clevel}, \"shuffle\": \"noshuffle\", \"blocksize\": 0}}"
            ))
            .is_err()
        );
    }
    // Leniently, the array says the size of its elements.
    assert_eq!(v2("{\"shuffle\": \"shuffle\"}", 4).unwrap().typesize, 4);
}

#[test]
fn v2_configuration() {
    assert_eq!(
        v2("{}", 4).unwrap(),
        v2("{\"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": 0}", 4).unwrap()
    );
    assert_eq!(v2("{\"shuffle\": -1}", 1).unwrap().shuffle, Shuffle::Bits);
    assert_eq!(v2("{\"shuffle\": -1}", 8).unwrap().shuffle, Shuffle::Bytes);
    assert_eq!(v2("{\"shuffle\": 0}", 8).unwrap().shuffle, Shuffle::None);
    assert_eq!(v2("{\"shuffle\": 2}", 8).unwrap().shuffle, Shuffle::Bits);
    assert!(v2("{\"shuffle\": 3}", 8).is_err());
    assert!(v2("{\"shuffle\": 1.0}", 8).is_err());
    assert_eq!(v2("{}", 1000).unwrap().typesize, 1);
}
