//! Make a group and a sharded, compressed array in it, write to it, and append to it.
//!
//! `cargo run --example write_array`

use zaro::array::bytes_of;
use zaro::hierarchy::{self, Existing};
use zaro::meta::{AttributesEdit, DataType, Format, Json, NewArray, parse_codecs};
use zaro::{Order, Result, Selection, Values, WriteOptions, blocking};

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // Any address that can be written to: a folder, s3://…, gs://…, az://….
    let address = folder.path().join("weather.zarr").display().to_string();

    blocking::block_on(async {
        let store = zaro::open::open_store_for_writing(&address, &Default::default()).await?;
        hierarchy::create_group(&store, "", Format::V3, &Json::object(), Existing::Refuse).await?;
        let new = NewArray::new(DataType::FLOAT32, [2, 6])
            .with_chunks(Some(vec![1, 3]))
            .with_shards(Some(vec![4, 6]))
            .with_codecs(Some(parse_codecs("zstd:5+crc32c")?))
            .with_dimension_names(Some(vec![Some("time".to_owned()), Some("x".to_owned())]));
        let array = hierarchy::create_array(&store, "t2m", &new, Existing::Refuse).await?;

        // Chunks are old or new whatever happens, and elements that nobody writes are the fill value.
        let row = bytes_of(&[270.5f32, 271.0, 271.5]);
        let place = Selection::start_count(&[1, 2], &[1, 3]);
        array.write_slab(&place, Values::new(row, Order::C), &WriteOptions::default()).await?;

        // One more row along the first dimension; the array that is given back has the new shape.
        let (array, at) = hierarchy::extend(&store, "t2m", 0, 1).await?;
        let row = bytes_of(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        array
            .write_slab(
                &Selection::start_count(&[at, 0], &[1, 6]),
                Values::new(row, Order::C),
                &WriteOptions::default(),
            )
            .await?;
        let units =
            AttributesEdit::Patch { set: vec![("units".to_owned(), Json::string("K"))], unset: vec![] };
        hierarchy::edit_attributes(&store, "t2m", &units).await?;
        hierarchy::consolidate(&store, "").await?;

        let values = array.read::<f32>([1..3, 2..4]).await?;
        println!("{:?} holds {values:?}", array.shape());
        assert_eq!(values, [270.5, 271.0, 3.0, 4.0]);
        Ok(())
    })
}
