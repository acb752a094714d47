//! Every codec: the first byte picks one with its configuration and type, the second what it must decode to, the
//! rest is decoded. Whatever comes out has the size that was asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zaro::codec::{Buffer, Codec, OutputSize};
use zaro_fuzz::cases::{CASES, SHAPES, SIZES, repr, seeds};

fuzz_target!(init: zaro_fuzz::start(seeds), |data: &[u8]| {
    let [first, second, bytes @ ..] = data else { return };
    let Some(case) = CASES.get(usize::from(*first)) else { return };
    let Ok((codec, data_type)) = case.build(false) else { return };
    let shape = SHAPES[usize::from(*second) % SHAPES.len()];
    match codec {
        Codec::Bytes(codec) => {
            let size = SIZES[usize::from(*second) % SIZES.len()];
            let _ = codec.encoded_size(size);
            if let Ok(out) = codec.decode(bytes, size) {
                assert!(size.check(out.len()).is_ok(), "{size:?}: {}", out.len());
            }
            if let OutputSize::Exact(n @ ..=1_048_576) = size {
                let mut into = vec![0xaa; n];
                let direct = codec.decode_into(bytes, &mut into);
                let decoded = codec.decode(bytes, size);
                assert_eq!(direct.is_ok(), decoded.is_ok(), "decode_into and decode differ");
                assert!(decoded.is_err() || decoded.ok() == Some(into));
            }
        }
        Codec::ToBytes(codec) => {
            let repr = repr(shape, &data_type);
            if codec.encoded_size(&repr).is_err() {
                return;
            }
            if let Ok(out) = codec.decode(bytes, &repr) {
                assert_eq!(out.bytes.len(), repr.byte_size().unwrap());
                if data_type.is_variable() {
                    for i in 0..repr.count().unwrap() {
                        assert!(out.item(i).is_some());
                    }
                }
            }
        }
        Codec::Array(codec) => {
            let repr = repr(shape, &data_type);
            let Ok(encoded) = codec.encoded(&repr) else { return };
            let size = encoded.byte_size().unwrap();
            assert_eq!(encoded.fill.0.len(), if data_type.is_variable() { 0 } else { encoded.data_type.size() });
            // As it is, most of the time of a length that a chain would not let through; and with the right length.
            let _ = codec.decode(Buffer::fixed(bytes.to_vec()), &repr, &encoded);
            if size <= 1 << 22 {
                let mut right = bytes.to_vec();
                right.resize(size, 0);
                if let Ok(out) = codec.decode(Buffer::fixed(right), &repr, &encoded) {
                    assert_eq!(out.bytes.len(), repr.byte_size().unwrap());
                }
            }
        }
    }
});
