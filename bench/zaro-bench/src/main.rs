//! zaro's side of the benchmarks: `zaro-bench WORKLOAD PATH`, as `bench/README.md` describes.

use std::sync::Arc;

use zaro::copy::{CopyOptions, Sizes};
use zaro::hierarchy::{Existing, create_array};
use zaro::meta::{DataType, Format, NewArray, parse_codecs};
use zaro::store::{LocalStore, SharedStore};
use zaro::{
    Array, Context, OpenOptions, Order, ReadOptions, Selection, Slab, Values, WriteOptions, Zarr, blocking,
};

#[path = "../../common.rs"]
mod common;

use common::{Clock, LEVEL, Target, pause, report};

fn main() -> zaro::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let (workload, path) = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "write", from, to] => return write(from, to),
        [_, "copy", from, to] => return copy(from, to),
        [_, workload, path] => (workload.to_owned(), path.to_owned()),
        _ => {
            eprintln!(
                "usage: zaro-bench read|win|twice|plane0|plane1|plane2|series|open PATH, or zaro-bench write|copy FROM TO"
            );
            std::process::exit(2);
        }
    };
    let clock = Clock::start();
    let zarr = if path.contains("://") {
        blocking::block_on(zaro::open(path, &open_options()))?
    } else {
        blocking::block_on(Zarr::from_store(Arc::new(LocalStore::new(path)), open_options()))?
    };
    let options = ReadOptions::default();
    let (times, check) = match workload {
        "read" => {
            let array = blocking::block_on(zarr.array(""))?;
            let slab = array.read_slab_blocking(&Selection::all(), &options)?;
            (clock.stop(), sum(&slab))
        }
        "win" => {
            let array = blocking::block_on(zarr.array(""))?;
            let check = windows(&array, array.shape(), &options)?;
            (clock.stop(), check)
        }
        "twice" => {
            let array = blocking::block_on(zarr.array(""))?;
            let check = windows(&array, &[256; 3], &options)?;
            report(clock.stop(), check);
            pause();
            let clock = Clock::start();
            let check = windows(&array, &[256; 3], &options)?;
            (clock.stop(), check)
        }
        "series" => {
            let array = blocking::block_on(zarr.array("v"))?;
            let shape = array.shape();
            let slab = array.read_slab_blocking(
                &Selection::start_count(&[0, shape[1] / 2, shape[2] / 2], &[shape[0], 1, 1]),
                &options,
            )?;
            (clock.stop(), sum(&slab))
        }
        "plane0" | "plane1" | "plane2" => {
            let array = blocking::block_on(zarr.array(""))?;
            let axis = usize::from(workload.as_bytes()[5] - b'0');
            let check = planes(&array, axis, &options)?;
            (clock.stop(), check)
        }
        "open" => {
            let nodes = blocking::block_on(zarr.walk(""))?;
            let mut check = 0u64;
            for node in nodes {
                if let zaro::meta::NodeMeta::Array(meta) = node.meta {
                    let array = Array::new(
                        zarr.store().clone(),
                        &node.path,
                        meta,
                        Default::default(),
                        Vec::new(),
                        &Context::shared().with_memory(1 << 20),
                    )?;
                    check += array.shape().iter().sum::<u64>();
                }
            }
            (clock.stop(), check)
        }
        other => {
            eprintln!("unknown workload {other}");
            std::process::exit(2);
        }
    };
    report(times, check);
    Ok(())
}

/// `ZARO_BENCH_MEMORY`, in MiB.
fn memory() -> Option<usize> {
    let text = std::env::var("ZARO_BENCH_MEMORY").ok()?;
    text.parse::<usize>().ok().map(|n| n << 20)
}

fn open_options() -> OpenOptions {
    match memory() {
        Some(bytes) => OpenOptions::default().with_memory(bytes),
        None => OpenOptions::default(),
    }
}

/// Writes the values of a .npy file as a new array.
fn write(from: &str, to: &str) -> zaro::Result<()> {
    let (target, (shape, values)) = (Target::of(to), common::load(from));
    let clock = Clock::start();
    let store: SharedStore = Arc::new(LocalStore::new(to));
    let rank = shape.len();
    let new = NewArray::default()
        .with_shape(shape)
        .with_data_type(DataType::UInt(16))
        .with_chunks(Some(vec![target.chunk; rank]))
        .with_shards(target.shard.map(|n| vec![n; rank]))
        .with_codecs(Some(parse_codecs(&codecs(target))?));
    let array = blocking::block_on(create_array(&store, "", &new, Existing::Refuse))?;
    array.write_slab_blocking(&Selection::all(), Values::new(values, Order::C), &WriteOptions::default())?;
    report(clock.stop(), 0);
    Ok(())
}

/// Copies an array into another layout, with the default memory.
fn copy(from: &str, to: &str) -> zaro::Result<()> {
    let target = Target::of(to);
    let clock = Clock::start();
    let source =
        blocking::block_on(Zarr::from_store(Arc::new(LocalStore::new(from)), OpenOptions::default()))?;
    let store: SharedStore = Arc::new(LocalStore::new(to));
    let options = CopyOptions::default()
        .with_format(Some(Format::V3))
        .with_chunks(Some(Sizes::List(vec![target.chunk; 3])))
        .with_shards(Some(target.shard.map(|n| Sizes::List(vec![n; 3]))))
        .with_codecs(Some(parse_codecs(&codecs(target))?))
        .with_context(memory().map_or_else(Context::shared, |bytes| Context::shared().with_memory(bytes)));
    blocking::block_on(zaro::copy::copy(&source, from, "", &store, "", &options))?;
    report(clock.stop(), 0);
    Ok(())
}

fn codecs(target: Target) -> String {
    if target.zstd { format!("zstd:{LEVEL}") } else { "none".to_owned() }
}

/// 1,000 windows of 32 cubed that start inside `within`; the sum of their values.
fn windows(array: &Array, within: &[u64], options: &ReadOptions) -> zaro::Result<u64> {
    let (mut check, mut state) = (0u64, 1u64);
    for _ in 0..1000 {
        let start: Vec<u64> = within
            .iter()
            .map(|n| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % (n - 31)
            })
            .collect();
        let slab = array.read_slab_blocking(&Selection::start_count(&start, &[32, 32, 32]), options)?;
        check = check.wrapping_add(sum(&slab));
    }
    Ok(check)
}

fn planes(array: &Array, axis: usize, options: &ReadOptions) -> zaro::Result<u64> {
    let n = array.shape()[axis];
    let mut check = 0u64;
    for k in 0..8 {
        let mut start = vec![0; array.shape().len()];
        let mut count = array.shape().to_vec();
        start[axis] = (2 * k + 1) * n / 16;
        count[axis] = 1;
        let slab = array.read_slab_blocking(&Selection::start_count(&start, &count), options)?;
        check = check.wrapping_add(sum(&slab));
    }
    Ok(check)
}

/// The sum of all values, uint16 as they are, others by bit pattern.
fn sum(slab: &Slab) -> u64 {
    match slab.data_type.size() {
        2 => slab.bytes.as_chunks::<2>().0.iter().map(|b| u64::from(u16::from_le_bytes(*b))).sum(),
        _ => slab
            .bytes
            .as_chunks::<4>()
            .0
            .iter()
            .fold(0u64, |a, b| a.wrapping_add(u64::from(u32::from_le_bytes(*b)))),
    }
}
