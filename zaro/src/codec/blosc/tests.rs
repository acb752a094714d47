use super::super::testing::{Noise, hex, hostile, members_of, round_trip};
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

/// Frames that c-blosc wrote, of 80 numbers of 4 bytes, 0 to 9 eight times each.
#[test]
fn reads_what_c_blosc_writes() {
    let data: Vec<u8> = (0..80u32).flat_map(|i| (i / 8).to_le_bytes()).collect();
    let any = full("lz4", 5, "shuffle", 2, 0);
    for frame in [
        // blosclz, shuffle 1
        "0201110440010000400100004c000000140000003400000028000000000000000001a0000002a0000003\
             a0000004a0000005a0000006a0000007a0000008a0000009a0000000e0e400010000",
        // blosclz, shuffle 2
        "0201140440010000400100003b00000014000000230000002300ff00ffa0030100ffa0030800000000ff\
             ffffff00e00000e0030be0ff0401010000",
        // lz4, shuffle 1
        "0201310440010000400100004d0000001400000035000000130001001301010013020100130301001304\
             01001305010013060100130701001308010013090100034f000f0200d1500000000000",
        // lz4, shuffle 2
        "0201340440010000400100003a00000014000000220000002500ff02002300ff040000020020ffff0e00\
             040200080c000f0200f6500000000000",
        // lz4hc, shuffle 1
        "0201310440010000400100004b0000001400000033000000130001001301010013020100130301001304\
             010013050100130601001307010013080100130901001f000100d7500000000000",
        // lz4hc, shuffle 2
        "0201340440010000400100003900000014000000210000002500ff02002300ff040000010024ffff0a00\
             020e001f000100ff00500000000000",
        // zlib, shuffle 1
        "0201710440010000400100003b0000001400000023000000785ee5c1470100200004a0736bffc23ea485\
             903c854aa333982c36877ce60277230169",
        // zlib, shuffle 2
        "02017404400100004001000034000000140000001c000000785e63f8cf00830cffa11804feff87b1203c\
             865180150000aa850ef2",
        // zstd, shuffle 0
        "0201900440010000400100003e000000140000002600000028b52ffd604000e500005800000102030405\
             060708090aa810e807d0e310feff2d1fd8c87d32",
        // zstd, shuffle 1
        "0201910440010000400100003f000000140000002700000028b52ffd604000ed00006000000102030405\
             06070809000b9010f00e006c9a73ce396739779001",
        // zstd, shuffle 2
        "0201940440010000400100003b000000140000002300000028b52ffd604000cd00003000ff00ffffff07\
             a020830fd082f50bd4cb5a950c275bb146",
    ] {
        assert_eq!(any.decode(&hex(frame), Size::Exact(320)).unwrap(), data, "{frame}");
    }
    // Blocks of a number of elements that is no multiple of 8 are not bit-shuffled.
    let odd = "020134042c0100002c01000052000000140000003a0000001f0001000c1f0104000c1f0204000c1f0304\
             000c1f0404000c1f0504000c1f0604000c1f0704000c1f0804000cc0090000000900000009000000";
    assert_eq!(any.decode(&hex(odd), Size::Exact(300)).unwrap(), data[..300]);
    // Blocks of 256 bytes that are split, and a last one that is not; of 2 bytes, 0 to 4, 64 times each.
    let split = "02012102580200005802000047000000140000001f0000001f0001002c1f0101002c1f0201002c1f0301\
             002c1f040100135004040404040c0000001f000100ff14500000000000";
    let data: Vec<u8> = (0..300u16).flat_map(|i| (i / 64).to_le_bytes()).collect();
    assert_eq!(any.decode(&hex(split), Size::Exact(600)).unwrap(), data);
}

#[test]
fn frames_of_blosc_2_are_named_as_such() {
    let frame = hex("0501250800350c00000008001754060000000000000101000000000000000000");
    let e = full("lz4", 5, "shuffle", 2, 0).decode(&frame, Size::AtMost(1 << 30)).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::Unsupported, "{e}");
}
