//! zarrs under the command line of `bench/README.md`: `zarrs-peer WORKLOAD PATH`.
//!
//! The sync file system store, bytes rather than typed vectors (that saves a copy), the crate's defaults; sharded arrays are read in
//! parts through the crate's own cache of shard indexes.

use std::{error::Error, ops::Range, sync::Arc, time::Instant};

use zarrs::{
    array::{
        Array, ArrayBytes, ArrayMetadata, ArrayShardedExt, ArrayShardedReadableExt, ArrayShardedReadableExtCache, ArraySubset, CodecOptions,
    },
    filesystem::FilesystemStore,
    group::Group,
    node::NodeMetadata,
};

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

/// User and system seconds of this process.
fn cpu() -> f64 {
    // SAFETY: getrusage fills the zeroed struct it is given.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut u);
        u
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(u.ru_utime) + seconds(u.ru_stime)
}

/// Peak memory of this program in bytes: `VmHWM`, which begins anew with it. `ru_maxrss` does not: it begins with the peak of
/// the process that started this one.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

struct Clock(Instant, f64);

impl Clock {
    fn start() -> Self {
        Clock(Instant::now(), cpu())
    }

    fn stop(&self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), cpu() - self.1)
    }
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

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, workload, path] = arguments.as_slice() else {
        return Err("usage: zarrs-peer WORKLOAD PATH".into());
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
    println!("{{\"wall\": {wall}, \"cpu\": {cpu}, \"rss\": {}, \"check\": {check}}}", peak());
    Ok(())
}
