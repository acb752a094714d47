//! Read in Fortran order, as R, Julia and MATLAB keep arrays, without a second transpose.
//!
//! `cargo run --example fortran_order`

use std::sync::Arc;

use zaro::store::MemoryStore;
use zaro::{OpenOptions, Order, ReadOptions, Result, Selection, Zarr};

pub(crate) fn main() -> Result<()> {
    let zarr = zaro::blocking::block_on(Zarr::from_store(sample()?, OpenOptions::default()))?;
    let array = zaro::blocking::block_on(zarr.array(""))?;

    // The shape stays [2, 3]; only the order in memory differs.
    let rows = array.read_slab_blocking(&Selection::all(), &ReadOptions::default())?;
    let options = ReadOptions::default().with_order(Order::F);
    let columns = array.read_slab_blocking(&Selection::all(), &options)?;
    println!("C order: {:?}", rows.to_vec::<u8>()?);
    println!("F order: {:?}", columns.to_vec::<u8>()?);
    assert_eq!(rows.bytes, [1, 2, 3, 4, 5, 6]);
    assert_eq!(columns.bytes, [1, 4, 2, 5, 3, 6]);
    assert_eq!(rows.shape, columns.shape);
    Ok(())
}

/// `[[1, 2, 3], [4, 5, 6]]`, in chunks of one row.
fn sample() -> Result<Arc<MemoryStore>> {
    let store = MemoryStore::new();
    store.put(
        "zarr.json",
        r#"{"zarr_format": 3, "node_type": "array", "shape": [2, 3], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 3]}},
            "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]}"#,
    )?;
    store.put("c/0/0", vec![1, 2, 3])?;
    store.put("c/1/0", vec![4, 5, 6])?;
    Ok(Arc::new(store))
}
