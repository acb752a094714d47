//! `.zarray` or `.zgroup`, a zero, and `.zattrs`, to the model and to a codec chain.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use zaro::internal::meta::v2;
use zaro::meta::{Findings, Mode, NodeMeta};
use zaro::{Result, meta};
use zaro_fuzz::array;

fn read(data: &[u8], attributes: Option<&[u8]>, mode: Mode) -> Result<NodeMeta> {
    let mut f = Findings::new(mode, "/");
    let document = Arc::new(meta::parse(data, &mut f)?);
    let attributes = attributes.map(|a| meta::parse(a, &mut f)).transpose()?.map(Arc::new);
    if document.get("shape").is_some() {
        v2::array(document, attributes, &mut f).map(NodeMeta::Array)
    } else {
        v2::group(document, attributes, &mut f).map(NodeMeta::Group)
    }
}

fuzz_target!(init: zaro_fuzz::start(zaro_fuzz::documents::v2_seeds), |data: &[u8]| {
    let (document, attributes) = array::split(data);
    let attributes = (!attributes.is_empty()).then_some(attributes);
    let tolerant = read(document, attributes, Mode::Tolerant);
    let strict = read(document, attributes, Mode::Strict);
    array::agree(&tolerant, &strict);
    array::open(tolerant, Mode::Tolerant);
    array::open(strict, Mode::Strict);
});
