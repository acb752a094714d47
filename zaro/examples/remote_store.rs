//! A store of your own: three functions, and everything reads from it.
//!
//! This one stands for a server far away: it takes its time, and says what it was asked for. Real remote stores open by
//! address (`zaro::open("s3://…")`) and come with repetition of failed requests and a cache.
//!
//! `cargo run --example remote_store`

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use zaro::store::{Entry, GetOptions, ListOptions, MemoryStore, Object, ObjectMeta, Store};
use zaro::{OpenOptions, ReadOptions, Result, Selection, Zarr};

/// A server far away.
#[derive(Debug)]
struct FarAway(MemoryStore);

impl fmt::Display for FarAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("far-away:")
    }
}

#[async_trait::async_trait]
impl Store for FarAway {
    // `Ok(None)` says that the key does not exist, for sure. Whatever went wrong on the way is an error.
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        println!("  GET {key} {:?}", options.range);
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.get_opts(key, options).await
    }

    // What is known of an object without reading it; with more than its size, states of it can be told apart.
    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.0.stat(key).await
    }

    // Entries as they are asked for: a store of millions of objects asks for the next page when this one is gone through.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        println!("  LIST {prefix:?}");
        self.0.list_opts(prefix, options)
    }
}

pub(crate) fn main() -> Result<()> {
    let store = Arc::new(FarAway(sample()?));
    println!("opening:");
    let zarr = zaro::blocking::block_on(Zarr::from_store(store, OpenOptions::default()))?;
    let array = zaro::blocking::block_on(zarr.array(""))?;

    // Only two of the four inner chunks lie in the window; they are neighbours, so they come in one request, after the
    // index of the shard.
    println!("a window:");
    let slab = array.read_slab_blocking(&Selection::parse("1:6")?, &ReadOptions::default())?;
    assert_eq!(slab.to_vec::<u8>()?, [1, 2, 3, 4, 5]);

    println!("another window; the index is known by now:");
    let slab = array.read_slab_blocking(&Selection::parse("14:")?, &ReadOptions::default())?;
    assert_eq!(slab.to_vec::<u8>()?, [14, 15]);
    Ok(())
}

/// The numbers 0 to 15 in one shard of four inner chunks.
fn sample() -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store.put(
        "zarr.json",
        r#"{"zarr_format": 3, "node_type": "array", "shape": [16], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16]}},
            "chunk_key_encoding": {"name": "default"},
            "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [4],
                "codecs": [{"name": "bytes"}],
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]}"#,
    )?;
    let mut shard: Vec<u8> = (0..16).collect();
    for offset in [0u64, 4, 8, 12] {
        shard.extend(offset.to_le_bytes());
        shard.extend(4u64.to_le_bytes());
    }
    store.put("c/0", shard)?;
    Ok(store)
}
