//! Open an array and read a window of it as numbers.
//!
//! `cargo run --example read_window`

use zaro::{OpenOptions, ReadOptions, Result, Selection};

pub(crate) fn main() -> Result<()> {
    // Any address will do here: a folder, a .zip, s3://…, https://….
    let folder = sample()?;
    let address = folder.path().display().to_string();

    // `blocking::block_on` is for programs without an async runtime; inside one, `.await` instead.
    let zarr = zaro::blocking::block_on(zaro::open(&address, &OpenOptions::default()))?;
    let array = zaro::blocking::block_on(zarr.array("temperature"))?;
    println!("{} of {:?}", array.meta().data_type, array.shape());

    // Python's slices, or `Selection::start_count(&[1, 2], &[2, 3])`.
    let window = Selection::parse("1:3, 2:5")?;
    let slab = array.read_slab_blocking(&window, &ReadOptions::default())?;
    let values: Vec<i16> = slab.to_vec()?;
    assert_eq!(values, [12, 13, 14, 22, 23, 24]);
    println!("{:?}: {values:?}", slab.shape);

    // By name of the dimensions; one position drops its dimension.
    let row = Selection::named(&[("y".into(), "-1".into())])?;
    let slab = array.read_slab_blocking(&row, &ReadOptions::default())?;
    println!("{:?}: {:?}", slab.shape, slab.to_vec::<i16>()?);
    Ok(())
}

/// A small V3 array: element (y, x) holds 10·y + x.
fn sample() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("temperature");
    std::fs::create_dir_all(array.join("c/0"))?;
    std::fs::create_dir_all(array.join("c/1"))?;
    std::fs::write(folder.path().join("zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#)?;
    std::fs::write(
        array.join("zarr.json"),
        r#"{"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "int16", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 6]}},
            "chunk_key_encoding": {"name": "default"},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "dimension_names": ["y", "x"]}"#,
    )?;
    for chunk in 0..2i16 {
        let rows = [2 * chunk, 2 * chunk + 1];
        let bytes: Vec<u8> =
            rows.iter().flat_map(|y| (0..6).flat_map(move |x| (10 * y + x).to_le_bytes())).collect();
        std::fs::write(array.join(format!("c/{chunk}/0")), bytes)?;
    }
    Ok(folder)
}
