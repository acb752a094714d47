//! `zarr.json` to the model and to a codec chain. What the strict reader accepts, the tolerant one does too, with the
//! same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zaro::internal::meta::v3;
use zaro::meta::{Findings, Mode, NodeMeta};
use zaro::{Result, meta};
use zaro_fuzz::array;

fn read(data: &[u8], mode: Mode) -> Result<NodeMeta> {
    let mut f = Findings::new(mode, "/");
    v3::node(meta::parse(data, &mut f)?, &mut f)
}

fuzz_target!(init: zaro_fuzz::start(zaro_fuzz::documents::v3_seeds), |data: &[u8]| {
    let (tolerant, strict) = (read(data, Mode::Tolerant), read(data, Mode::Strict));
    array::agree(&tolerant, &strict);
    array::open(tolerant, Mode::Tolerant);
    array::open(strict, Mode::Strict);
});
