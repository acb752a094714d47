//! zarrs under the command line of `bench/README.md`: `zarrs-peer WORKLOAD PATH`, `zarrs-peer write FROM TO`.
//!
//! The sync file system store, bytes rather than typed vectors (that saves a copy), the crate's defaults; sharded arrays are read in
//! parts through the crate's own cache of shard indexes.
//!
//! Addresses go through `object_store`, with as many requests under way as zaro makes: a whole array through the async API, windows through the
//! crate's adapter, because its caches are sync. `zarrs-peer twice URL cache` keeps decoded chunks (which are whole shards) in its cache.

use std::{
    error::Error,
    ops::Range,
    sync::{Arc, LazyLock},
};

use zarrs::{
    array::{
        Array, ArrayBuilder, ArrayBytes, ArrayMetadata, ArrayShardedExt, ArrayShardedReadableExt, ArrayShardedReadableExtCache, ArraySubset, CodecOptions,
        chunk_cache::{ChunkCache, ChunkCacheDecodedLruSizeLimit},
        codec::ZstdCodec,
        data_type,
    },
    filesystem::FilesystemStore,
    group::Group,
    node::NodeMetadata,
    storage::{
        AsyncReadableStorageTraits, ReadableStorageTraits,
        storage_adapter::async_to_sync::{AsyncToSyncBlockOn, AsyncToSyncStorageAdapter},
    },
};
use zarrs_object_store::AsyncObjectStore;

#[path = "../../common.rs"]
mod common;

use common::{Clock, LEVEL, Target, pause, report};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The check sum of uint16 values, or of float32 bit patterns.
fn sum(bytes: &ArrayBytes<'_>, item: usize) -> Result<u64> {
    let ArrayBytes::Fixed(bytes) = bytes else { return Err("not numbers".into()) };
    Ok(if item == 2 {
        bytes.chunks_exact(2).map(|b| u64::from(u16::from_le_bytes([b[0], b[1]]))).fold(0, u64::wrapping_add)
    } else {
        bytes.chunks_exact(4).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))).fold(0, u64::wrapping_add)
    })
}

/// Requests under way at once, as of zaro.
const REQUESTS: usize = 64;

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime"));

struct BlockOn;

impl AsyncToSyncBlockOn for BlockOn {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        RUNTIME.block_on(future)
    }
}

fn far(url: &str) -> Result<Arc<dyn AsyncReadableStorageTraits>> {
    let client = object_store::ClientOptions::new().with_allow_http(true).with_pool_max_idle_per_host(REQUESTS);
    let store = object_store::http::HttpBuilder::new().with_url(url).with_client_options(client).build()?;
    Ok(Arc::new(AsyncObjectStore::new(store)))
}

/// As many chunks at once as there may be requests.
fn options() -> CodecOptions {
    CodecOptions::default().with_concurrent_target(REQUESTS).with_chunk_concurrent_minimum(REQUESTS)
}

/// The whole array behind an address.
fn read_far(url: &str) -> Result<()> {
    let clock = Clock::start();
    let read = async {
        let array = Array::async_open(far(url)?, "/").await?;
        let all: ArrayBytes<'_> = array.async_retrieve_array_subset_opt(&array.subset_all(), &options()).await?;
        let times = clock.stop();
        let item = array.data_type().fixed_size().ok_or("not numbers")?;
        report(times, sum(&all, item)?);
        Ok(())
    };
    RUNTIME.block_on(read)
}

/// Windows inside the first 256 cubed, two passes.
fn twice(store: Arc<dyn ReadableStorageTraits>, cached: bool) -> Result<()> {
    let mut clock = Clock::start();
    let array = Arc::new(Array::open(store, "/")?);
    let item = array.data_type().fixed_size().ok_or("not numbers")?;
    let (indexes, chunks) = (ArrayShardedReadableExtCache::new(&array), ChunkCacheDecodedLruSizeLimit::new(array.clone(), 256 << 20));
    let options = options();
    for pass in 0..2 {
        let mut check = 0u64;
        for ranges in windows(&[256; 3]) {
            let subset = ArraySubset::new_with_ranges(&ranges);
            let part: ArrayBytes<'_> = match cached {
                true => chunks.retrieve_array_subset(&subset, &options)?,
                false => array.retrieve_array_subset_sharded_opt(&indexes, &subset, &options)?,
            };
            check = check.wrapping_add(sum(&part, item)?);
        }
        report(clock.stop(), check);
        if pass == 0 {
            pause();
            clock = Clock::start();
        }
    }
    Ok(())
}

fn windows(shape: &[u64]) -> Vec<Vec<Range<u64>>> {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..1000)
        .map(|_| {
            shape
                .iter()
                .map(|n| {
                    let start = draw() % (n - 31);
                    start..start + 32
                })
                .collect()
        })
        .collect()
}

fn planes(shape: &[u64], axis: usize) -> Vec<Vec<Range<u64>>> {
    (0..8)
        .map(|k| {
            let at = (2 * k + 1) * shape[axis] / 16;
            shape.iter().enumerate().map(|(d, &n)| if d == axis { at..at + 1 } else { 0..n }).collect()
        })
        .collect()
}

/// Reads and reports: (wall, cpu, check).
fn read(workload: &str, array: &Array<FilesystemStore>, clock: &Clock) -> Result<(f64, f64, u64)> {
    let shape = array.shape();
    let item = array.data_type().fixed_size().ok_or("not numbers")?;
    let boxes = match workload {
        "read" => {
            let all = array.retrieve_array_subset::<ArrayBytes<'_>>(&array.subset_all())?;
            let (wall, cpu) = clock.stop();
            return Ok((wall, cpu, sum(&all, item)?));
        }
        "win" => windows(shape),
        "plane0" => planes(shape, 0),
        "plane1" => planes(shape, 1),
        "plane2" => planes(shape, 2),
        other => return Err(format!("unknown workload {other}").into()),
    };
    let cache = array.is_sharded().then(|| ArrayShardedReadableExtCache::new(array));
    let options = CodecOptions::default();
    let mut check = 0u64;
    for ranges in boxes {
        let subset = ArraySubset::new_with_ranges(&ranges);
        let part: ArrayBytes<'_> = match &cache {
            Some(cache) => array.retrieve_array_subset_sharded_opt(cache, &subset, &options)?,
            None => array.retrieve_array_subset(&subset)?,
        };
        check = check.wrapping_add(sum(&part, item)?);
    }
    let (wall, cpu) = clock.stop();
    Ok((wall, cpu, check))
}

fn open(store: Arc<FilesystemStore>) -> Result<u64> {
    let mut check = 0u64;
    for (_, metadata) in Group::open(store, "/")?.traverse()? {
        if let NodeMetadata::Array(array) = metadata {
            let shape = match array {
                ArrayMetadata::V3(m) => m.shape,
                ArrayMetadata::V2(m) => m.shape,
            };
            check = shape.iter().fold(check, |sum, n| sum.wrapping_add(*n));
        }
    }
    Ok(check)
}

/// Writes the values of a .npy file as a new array: one call for all of it, which goes over chunks and, in shards, over
/// inner chunks in parallel.
fn write(from: &str, to: &str) -> Result<()> {
    let (target, (shape, values)) = (Target::of(to), common::load(from));
    let clock = Clock::start();
    let store = Arc::new(FilesystemStore::new(to)?);
    let mut builder = ArrayBuilder::new(shape, vec![target.file(); 3], data_type::uint16(), 0u16);
    if target.shard.is_some() {
        builder.subchunk_shape(vec![target.chunk; 3]);
    }
    if target.zstd {
        builder.bytes_to_bytes_codecs(vec![Arc::new(ZstdCodec::new(LEVEL, false))]);
    }
    let array = builder.build(store, "/")?;
    array.store_metadata()?;
    array.store_array_subset(&array.subset_all(), ArrayBytes::new_flen(&values[..]))?;
    report(clock.stop(), 0);
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (workload, path) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "write", from, to] => return write(from, to),
        [_, "read", url] if url.contains("://") => return read_far(url),
        [_, "twice", url, rest @ ..] => {
            // One thread per request: the sync API waits in them.
            rayon::ThreadPoolBuilder::new().num_threads(REQUESTS).build_global()?;
            let store = Arc::new(AsyncToSyncStorageAdapter::new(far(url)?, BlockOn));
            return twice(store, *rest == ["cache"]);
        }
        [_, workload, path] => (workload.to_owned(), path.to_owned()),
        _ => return Err("usage: zarrs-peer WORKLOAD PATH, zarrs-peer twice URL [cache], or zarrs-peer write FROM TO".into()),
    };
    let clock = Clock::start();
    let store = Arc::new(FilesystemStore::new(path)?);
    let (wall, cpu, check) = if workload == "open" {
        let check = open(store)?;
        let (wall, cpu) = clock.stop();
        (wall, cpu, check)
    } else {
        let array = Array::open(store, "/")?;
        read(workload, &array, &clock)?
    };
    report((wall, cpu), check);
    Ok(())
}
