//! A whole read: a metadata document, a zero, and the bytes of its first chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zaro::meta::Mode;
use zaro_fuzz::array;

fuzz_target!(init: zaro_fuzz::start(array::seeds), |data: &[u8]| {
    let (document, chunk) = array::split(data);
    array::read(document, chunk, Mode::Tolerant);
    array::read(document, chunk, Mode::Strict);
});
