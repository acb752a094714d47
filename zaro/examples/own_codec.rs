//! A codec of your own: registered once, and arrays are written and read with it.
//!
//! `cargo run --example own_codec`

use std::sync::Arc;

use zaro::codec::{BytesToBytes, Codec, CodecKind, OutputSize, register};
use zaro::hierarchy::{self, Existing};
use zaro::meta::{CodecMeta, DataType, Json, NewArray};
use zaro::store::{MemoryStore, SharedStore, StoreExt};
use zaro::{Error, Order, Result, Selection, Values, WriteOptions, blocking};

/// Every byte with some of its bits turned over. A real one would compress, or encrypt.
#[derive(Debug)]
struct Flip(u8);

impl BytesToBytes for Flip {
    fn name(&self) -> &'static str {
        "example.flip"
    }

    // As many bytes as before; without this, it would be taken for a compressor.
    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded)
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        size.check(bytes.len())?;
        self.encode(bytes)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.iter().map(|b| b ^ self.0).collect())
    }
}

pub(crate) fn main() -> Result<()> {
    // Called for every array that uses the codec, with the configuration that its metadata hold.
    register("example.flip", CodecKind::Bytes, |request| {
        let bits = request.config.iter().find(|(name, _)| name == "bits").and_then(|(_, bits)| bits.as_u64());
        let bits = bits.and_then(|bits| u8::try_from(bits).ok());
        Ok(Codec::Bytes(Box::new(Flip(
            bits.ok_or_else(|| Error::invalid("\"bits\" is a number up to 255"))?,
        ))))
    })?;

    let store: SharedStore = Arc::new(MemoryStore::new());
    let new = NewArray::new(DataType::UINT8, [4])
        .with_codecs(Some(vec![CodecMeta::new("example.flip", vec![("bits".to_owned(), Json::int(15))])]));
    let array = blocking::block_on(hierarchy::create_array(&store, "", &new, Existing::Refuse))?;
    array.write_slab_blocking(
        &Selection::all(),
        Values::new(vec![0, 1, 2, 3], Order::C),
        &WriteOptions::default(),
    )?;

    let stored = blocking::block_on(store.get("c/0", None))?;
    println!("stored: {stored:?}");
    assert_eq!(stored.as_deref(), Some(&[15, 14, 13, 12][..]));
    assert_eq!(array.read_blocking::<u8>(Selection::all())?, [0, 1, 2, 3]);
    Ok(())
}
