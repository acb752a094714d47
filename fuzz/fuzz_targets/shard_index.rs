//! Forged shards: the first byte picks a layout, the rest is the shard. It is decoded whole, and read in parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zaro::codec::ArrayToBytes;
use zaro::internal::codec::Shard;
use zaro::meta::{DataType, Json, Mode};
use zaro_fuzz::{array, cases};

fuzz_target!(init: zaro_fuzz::start(array::shard_seeds), |data: &[u8]| {
    let [first, bytes @ ..] = data else { return };
    let Some((config, shape)) = array::SHARDS.get(usize::from(*first)) else { return };
    let config = Json::parse(config.as_bytes()).expect("ours").value;
    let repr = cases::repr(shape, &DataType::UInt(16));
    let shard = Shard::build(config.members().unwrap_or_default(), &repr, false).expect("ours");
    if let Ok(index) = shard.index_of(bytes) {
        let size = u64::try_from(bytes.len()).unwrap_or(0);
        for i in 0..100 {
            if let Ok(Some(entry)) = index.entry(i)
                && shard.check_entry(entry, size).is_ok()
            {
                assert!(entry.0 + entry.1 <= size);
            }
        }
    }
    if let Ok(out) = shard.decode(bytes, &repr) {
        assert_eq!(out.bytes.len(), repr.byte_size().unwrap());
    }
    array::read(array::shard_document(config, shape).as_bytes(), bytes, Mode::Tolerant);
});
