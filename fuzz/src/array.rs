//! Arrays made of a fuzzed document and fuzzed chunks, and small reads of them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use zaro::codec::ArrayToBytes;
use zaro::internal::codec::Shard;
use zaro::meta::{DataType, Json, Mode, NodeMeta};
use zaro::store::{Entry, GetOptions, ListOptions, MemoryStore, Object, ObjectMeta, SharedStore, Store};
use zaro::{Array, Context, Index, OpenOptions, Order, ReadOptions, Result, Selection, Zarr};

use crate::{Noise, Seed, cases, documents};

/// Codec chains for `uint16`, V3.
pub const CHAINS: &[&str] = &[
    r#"[{"name":"bytes","configuration":{"endian":"little"}}]"#,
    r#"[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"gzip","configuration":{"level":1}},"crc32c"]"#,
    r#"[{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"lz4","clevel":1,"shuffle":"shuffle","typesize":2,"blocksize":0}}]"#,
    r#"[{"name":"cast_value","configuration":{"data_type":"uint8"}},{"name":"transpose","configuration":{"order":[1,0]}},"bytes",{"name":"zstd","configuration":{"level":1,"checksum":false}}]"#,
    r#"[{"name":"reshape","configuration":{"shape":[[0],2,-1]}},{"name":"zfp","configuration":{"mode":"reversible"}}]"#,
    r#"[{"name":"numcodecs.pcodec"}]"#,
    r#"[{"name":"n5_default","configuration":{"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},"gzip"]}}]"#,
    r#"[{"name":"scale_offset","configuration":{"scale":2,"offset":1}},{"name":"packbits","configuration":{"padding_encoding":"first_byte","last_bit":9}}]"#,
    r#"[{"name":"sharding_indexed","configuration":{"chunk_shape":[4,2],"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},"crc32c"],"index_location":"end"}}]"#,
    r#"[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"sharding_indexed","configuration":{"chunk_shape":[4,4],"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2,2],"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"start"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"big"}}]}}]"#,
    r#"[{"name":"sharding_indexed","configuration":{"chunk_shape":[8,4],"codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"transpose","configuration":{"order":[2,1,0]}},{"name":"bytes","configuration":{"endian":"little"}}]}},{"name":"gzip","configuration":{"level":1}}]"#,
];

/// Configurations of shards of `uint16`, with the shape of the shard.
pub const SHARDS: &[(&str, &[u64])] = &[
    (
        r#"{"chunk_shape":[4],"codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}"#,
        &[16],
    ),
    (
        r#"{"chunk_shape":[4,2],"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":1}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"big"}}],"index_location":"start"}"#,
        &[8, 8],
    ),
    (
        r#"{"chunk_shape":[4,4],"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2,2],"codecs":[{"name":"bytes","configuration":{"endian":"big"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"start"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}"#,
        &[8, 8],
    ),
    (
        r#"{"chunk_shape":[2,8],"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"transpose","configuration":{"order":[2,0,1]}},{"name":"bytes","configuration":{"endian":"little"}}]}"#,
        &[8, 8],
    ),
    (
        r#"{"chunk_shape":[],"codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},"crc32c"]}"#,
        &[],
    ),
];

/// A store whose objects are not at hand, so that the remote way of reading is taken.
#[derive(Debug)]
pub struct Far(pub Arc<MemoryStore>);

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("far:")
    }
}

#[async_trait]
impl Store for Far {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.0.get_opts(key, options).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.0.stat(key).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        self.0.list_opts(prefix, options)
    }
}

/// What is before and after the first zero.
pub fn split(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|b| *b == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// What the strict reader accepts, the tolerant one accepts with the same meaning.
pub fn agree(tolerant: &Result<NodeMeta>, strict: &Result<NodeMeta>) {
    if let Ok(strict) = strict {
        assert_eq!(tolerant.as_ref().expect("the strict reader accepts it"), strict);
    }
}

/// Makes an array of its metadata, if that is what they are.
pub fn open(node: Result<NodeMeta>, mode: Mode) {
    if let Ok(NodeMeta::Array(meta)) = node {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let _ = Array::new(store, "", meta, mode, Vec::new(), &Context::shared().with_memory(1 << 20));
    }
}

/// Opens an array with this document, puts `chunk` behind the keys of its first chunks, and reads a corner of it.
pub fn read(document: &[u8], chunk: &[u8], mode: Mode) {
    let name = if document.windows(11).any(|w| w == b"\"node_type\"") { "zarr.json" } else { ".zarray" };
    let memory = Arc::new(MemoryStore::new());
    memory.put(name, document.to_vec()).expect("a good key");
    let options = OpenOptions::default().with_mode(mode).with_memory(1 << 20);
    let open = |store: SharedStore| {
        let zarr = zaro::blocking::block_on(Zarr::from_store(store, options.clone()))?;
        zaro::blocking::block_on(zarr.array(""))
    };
    let Ok(array) = open(memory.clone()) else { return };
    let mut index = vec![0; array.shape().len()];
    for n in 0..3 {
        if let Some(last) = index.last_mut() {
            *last = n;
        }
        let _ = memory.put(&array.meta().keys.key("", &index), chunk.to_vec());
    }
    let Some(counts) = corner(&array) else { return };
    let forwards = Selection::start_count(&vec![0; counts.len()], &counts);
    // Every second position, backwards.
    let backwards = Selection::new(
        counts.iter().map(|n| Index::Slice(i64::try_from(*n).ok().map(|n| n - 1), None, -2)).collect(),
    );
    let size = array.meta().data_type.size();
    let direct = array.read_slab_blocking(&forwards, &ReadOptions::default());
    if let Ok(slab) = &direct {
        assert_eq!(slab.bytes.len(), counts.iter().product::<u64>() as usize * size);
        for (i, item) in slab.items().enumerate().take(1000) {
            assert!(array.meta().data_type.is_variable() || item.len() == size, "{i}");
            assert!(slab.item(i).is_some());
        }
    }
    let fortran = ReadOptions::default().with_order(Order::F);
    let _ = array.read_slab_blocking(&backwards, &fortran);
    if !array.meta().data_type.is_variable() && direct.is_ok() {
        let mut into = vec![0xaa; counts.iter().product::<u64>() as usize * size];
        array.read_into(&forwards, &ReadOptions::default(), &mut into).expect("it could be read");
        assert!(direct.as_ref().is_ok_and(|s| s.bytes == into));
    }
    // The remote way costs ten times as much; a quarter of the inputs goes it.
    if chunk.len() % 4 == 1 {
        let far = open(Arc::new(Far(memory))).expect("it could be opened");
        let remote = far.read_slab_blocking(&forwards, &ReadOptions::default());
        if let (Ok(near), Ok(far)) = (&direct, &remote) {
            assert!(near.items().eq(far.items()), "near and far differ");
        }
        assert_eq!(direct.is_ok(), remote.is_ok(), "{direct:?} {remote:?}");
    }
}

/// The extents of a corner of at most 64 KiB in at most 256 chunks.
fn corner(array: &Array) -> Option<Vec<u64>> {
    let meta = array.meta();
    let mut elements = (1u64 << 16) / u64::try_from(meta.data_type.size().max(1)).ok()?;
    if elements == 0 {
        return None;
    }
    let mut chunks = 256u64;
    let mut counts = Vec::new();
    for (extent, length) in meta.shape.iter().zip(meta.grid.largest()).rev() {
        let n = (*extent).min(elements).min(chunks.saturating_mul(length));
        elements /= n.max(1);
        chunks = (chunks / n.div_ceil(length.max(1)).max(1)).max(1);
        counts.push(n);
    }
    counts.reverse();
    Some(counts)
}

/// Whole arrays: those of the conformance stores, and one with each chain.
pub fn seeds() -> Vec<Seed> {
    let mut out = Vec::new();
    let mut add = |name: String, document: &[u8], chunk: &[u8]| {
        out.push((name, [document, b"\0", chunk].concat()));
    };
    for document in ["zarr.json", ".zarray"] {
        for (name, document, chunk) in documents::stores(document) {
            add(name, &document, &chunk);
        }
    }
    let mut noise = Noise(3);
    for (i, codecs) in CHAINS.iter().enumerate() {
        let document = documents::v3("[16,16]", "[8,8]", "\"uint16\"", "7", codecs);
        add(format!("chain-{i}"), document.as_bytes(), &encoded(&document, &mut noise));
    }
    for (i, (t, fill)) in documents::V3_TYPES.iter().enumerate() {
        let codecs = match *t {
            "\"string\"" => r#"["vlen-utf8"]"#,
            "\"bytes\"" => r#"["vlen-bytes"]"#,
            _ => r#"[{"name":"bytes","configuration":{"endian":"big"}}]"#,
        };
        let document = documents::v3("[5,3]", "[2,3]", t, fill, codecs);
        add(format!("v3-type-{i}"), document.as_bytes(), &encoded(&document, &mut noise));
    }
    for (i, (t, fill, filters)) in documents::V2_TYPES.iter().enumerate() {
        let document = documents::v2("[5,3]", "[2,3]", t, fill, filters, r#"{"id":"zlib","level":1}"#);
        add(format!("v2-type-{i}"), document.as_bytes(), &encoded(&document, &mut noise));
    }
    out
}

/// A chunk of the array of this document, as its own codecs encode it.
fn encoded(document: &str, noise: &mut Noise) -> Vec<u8> {
    let memory = Arc::new(MemoryStore::new());
    let name = if document.contains("node_type") { "zarr.json" } else { ".zarray" };
    memory.put(name, document.as_bytes().to_vec()).expect("a good key");
    let zarr = zaro::blocking::block_on(Zarr::from_store(memory, OpenOptions::default())).expect("ours");
    let array = zaro::blocking::block_on(zarr.array("")).unwrap_or_else(|e| panic!("{document}: {e}"));
    let chunk = cases::chunk(noise, zaro::internal::codec::chain_of(&array).decoded()).expect("ours");
    zaro::internal::codec::chain_of(&array).encode(chunk).unwrap_or_default()
}

/// The document of an array of two such shards.
pub fn shard_document(config: Json, shape: &[u64]) -> String {
    let list = |v: &[u64]| Json::Array(v.iter().map(Json::int).collect()).to_string();
    let whole: Vec<u64> = shape.iter().map(|n| n * 2).collect();
    let codecs = format!(r#"[{{"name":"sharding_indexed","configuration":{config}}}]"#);
    documents::v3(&list(&whole), &list(shape), "\"uint16\"", "7", &codecs)
}

/// A shard of each layout.
pub fn shard_seeds() -> Vec<Seed> {
    let mut out = Vec::new();
    for (i, (config, shape)) in SHARDS.iter().enumerate() {
        let config = Json::parse(config.as_bytes()).expect("ours").value;
        let repr = cases::repr(shape, &DataType::UInt(16));
        let shard = Shard::build(config.members().unwrap_or_default(), &repr, false).expect("ours");
        let mut noise = Noise(5);
        let full = cases::chunk(&mut noise, &repr).expect("ours");
        let mut half = full.clone();
        let middle = half.bytes.len() / 2;
        half.bytes[middle..].fill(0);
        for (kind, chunk) in [("full", full), ("half", half)] {
            let mut seed = vec![u8::try_from(i).unwrap_or(0)];
            seed.extend(shard.encode(&chunk, &repr).expect("ours"));
            out.push((format!("{kind}-{i}"), seed));
        }
    }
    out
}
