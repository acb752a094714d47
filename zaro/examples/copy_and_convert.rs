//! Copy a Zarr, and give the copy another version, other chunks and another codec on the way.
//!
//! `cargo run --example copy_and_convert`

use std::sync::Arc;

use zaro::array::bytes_of;
use zaro::copy::{CopyOptions, Sizes, copy};
use zaro::hierarchy::{self, Existing};
use zaro::meta::{DataType, Format, NewArray, parse_codecs};
use zaro::store::{MemoryStore, SharedStore};
use zaro::{Context, OpenOptions, Order, Result, Selection, Values, WriteOptions, Zarr, blocking};

pub(crate) fn main() -> Result<()> {
    blocking::block_on(async {
        let from: SharedStore = Arc::new(MemoryStore::new());
        let new = NewArray::default()
            .with_format(Format::V2)
            .with_shape(vec![8, 8])
            .with_data_type(DataType::UINT64)
            .with_chunks(Some(vec![1, 8]));
        let array = hierarchy::create_array(&from, "numbers", &new, Existing::Refuse).await?;
        let values = bytes_of(&(0..64).collect::<Vec<u64>>());
        array.write_slab(&Selection::all(), Values::new(values, Order::C), &WriteOptions::default()).await?;

        // With the same arguments, a copy that was interrupted goes on where it was.
        let to: SharedStore = Arc::new(MemoryStore::new());
        let source = Zarr::from_store(from, OpenOptions::default()).await?;
        let options = CopyOptions::default()
            .with_format(Some(Format::V3))
            .with_chunks(Some(Sizes::List(vec![4, 4])))
            .with_shards(Some(Some(Sizes::List(vec![8, 8]))))
            .with_codecs(Some(parse_codecs("zstd")?))
            .with_verify(true);
        let done = copy(&source, "memory", "numbers", &to, "numbers", &options).await?;
        println!("{done:?}");

        let copy = hierarchy::open_array(&to, "numbers", &Context::shared()).await?;
        assert_eq!(copy.meta().format, Format::V3);
        assert_eq!(copy.read::<u64>([7..8, 5..8]).await?, [61, 62, 63]);
        Ok(())
    })
}
