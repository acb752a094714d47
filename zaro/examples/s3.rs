//! Open a Zarr in a bucket, list it, and read the corner of its first array.
//!
//! `cargo run --example s3 -- s3://BUCKET/PATH.zarr`; without an address, nothing is asked for.
//! `gs://`, `az://` and `https://` addresses work alike.

use zaro::store::StoreOptions;
use zaro::{OpenOptions, ReadOptions, Result, Selection, blocking};

pub(crate) fn main() -> Result<()> {
    let Some(address) = std::env::args().nth(1).filter(|a| a.contains("://")) else {
        println!("which Zarr? cargo run --example s3 -- s3://BUCKET/PATH.zarr");
        return Ok(());
    };

    // Keys, regions and endpoints come from the environment and from the profile of the AWS tools; public buckets
    // need none. `set` takes the names of the options of the `zaro` command.
    let mut store = StoreOptions::default();
    store.set("anonymous", "true")?;
    let options = OpenOptions::default().with_store(store);

    let zarr = blocking::block_on(zaro::open(&address, &options))?;
    let children = blocking::block_on(zarr.children(""))?;
    for node in &children {
        println!("{} ({})", node.path, node.meta.kind());
    }
    let path = children.iter().find(|n| n.meta.kind() == "array").map_or("", |n| n.path.as_str());
    let array = blocking::block_on(zarr.array(path))?;
    // Only the chunks of this corner are fetched.
    let corner = Selection::start_count(
        &vec![0; array.shape().len()],
        &array.shape().iter().map(|n| (*n).min(4)).collect::<Vec<_>>(),
    );
    let slab = array.read_slab_blocking(&corner, &ReadOptions::default())?;
    println!(
        "{path}: {} of {:?}, of which {:?} are {} bytes",
        array.meta().data_type,
        array.shape(),
        slab.shape,
        slab.bytes.len()
    );
    Ok(())
}
