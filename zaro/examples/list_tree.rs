//! List every group and array of a hierarchy, without touching a chunk.
//!
//! `cargo run --example list_tree`

use std::sync::Arc;

use zaro::meta::NodeMeta;
use zaro::store::MemoryStore;
use zaro::{OpenOptions, Result, Zarr};

pub(crate) fn main() -> Result<()> {
    let zarr = zaro::blocking::block_on(Zarr::from_store(sample()?, OpenOptions::default()))?;
    for node in zaro::blocking::block_on(zarr.walk(""))? {
        let depth = node.path.split('/').filter(|part| !part.is_empty()).count();
        let indent = "  ".repeat(depth);
        match &node.meta {
            NodeMeta::Group(_) => println!("{indent}{}/", node.name()),
            NodeMeta::Array(array) => {
                println!("{indent}{}  {} {:?}", node.name(), array.data_type, array.shape);
            }
        }
        // What the writer did not quite do by the book.
        for finding in &node.findings {
            println!("{indent}  {finding}");
        }
    }
    Ok(())
}

/// A V2 group with two arrays, one of them in a group of its own.
fn sample() -> Result<Arc<MemoryStore>> {
    let store = MemoryStore::new();
    let array = r#"{"zarr_format": 2, "shape": [100, 100], "chunks": [50, 50], "dtype": "<f4", "fill_value": NaN,
        "order": "C", "filters": null, "compressor": {"id": "zstd", "level": 1}}"#;
    store.put(".zgroup", r#"{"zarr_format": 2}"#)?;
    store.put("height/.zarray", array)?;
    store.put("sea/.zgroup", r#"{"zarr_format": 2}"#)?;
    store.put("sea/depth/.zarray", array)?;
    Ok(Arc::new(store))
}
