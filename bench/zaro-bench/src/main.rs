//! zaro's side of the benchmarks: `zaro-bench WORKLOAD PATH`, as `bench/README.md` describes.

use std::sync::Arc;
use std::time::Instant;

use zaro::store::local::LocalStore;
use zaro::{Array, OpenOptions, ReadOptions, Selection, Slab, Zarr, blocking};

fn main() -> zaro::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, workload, path] = args.as_slice() else {
        eprintln!("usage: zaro-bench read|win|plane0|plane1|plane2|open PATH");
        std::process::exit(2);
    };
    let clock = Clock::start();
    let store = Arc::new(LocalStore::new(path));
    let zarr = blocking::wait(Zarr::from_store(store, OpenOptions::default()))?;
    let options = ReadOptions::default();
    let (times, check) = match workload.as_str() {
        "read" => {
            let array = blocking::wait(zarr.array(""))?;
            let slab = array.read_blocking(&Selection::all(), &options)?;
            (clock.stop(), sum(&slab))
        }
        "win" => {
            let array = blocking::wait(zarr.array(""))?;
            let mut check = 0u64;
            let mut state = 1u64;
            for _ in 0..1000 {
                let start: Vec<u64> = array
                    .shape()
                    .iter()
                    .map(|n| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        (state >> 33) % (n - 31)
                    })
                    .collect();
                let slab = array.read_blocking(&Selection::start_count(&start, &[32, 32, 32]), &options)?;
                check = check.wrapping_add(sum(&slab));
            }
            (clock.stop(), check)
        }
        "plane0" | "plane1" | "plane2" => {
            let array = blocking::wait(zarr.array(""))?;
            let axis = usize::from(workload.as_bytes()[5] - b'0');
            let check = planes(&array, axis, &options)?;
            (clock.stop(), check)
        }
        "open" => {
            let nodes = blocking::wait(zarr.walk(""))?;
            let mut check = 0u64;
            for node in nodes {
                if let zaro::meta::NodeMeta::Array(meta) = node.meta {
                    let array = Array::new(zarr.store().clone(), &node.path, meta, Default::default(), Vec::new(), 1 << 20)?;
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
    println!("{{\"wall\": {:.6}, \"cpu\": {:.6}, \"rss\": {}, \"check\": {check}}}", times.0, times.1, peak());
    Ok(())
}

fn planes(array: &Array, axis: usize, options: &ReadOptions) -> zaro::Result<u64> {
    let n = array.shape()[axis];
    let mut check = 0u64;
    for k in 0..8 {
        let mut start = vec![0; array.shape().len()];
        let mut count = array.shape().to_vec();
        start[axis] = (2 * k + 1) * n / 16;
        count[axis] = 1;
        let slab = array.read_blocking(&Selection::start_count(&start, &count), options)?;
        check = check.wrapping_add(sum(&slab));
    }
    Ok(check)
}

/// The sum of all values, uint16 as they are, others by bit pattern.
fn sum(slab: &Slab) -> u64 {
    match slab.data_type.size() {
        2 => slab.bytes.as_chunks::<2>().0.iter().map(|b| u64::from(u16::from_le_bytes(*b))).sum(),
        _ => slab.bytes.as_chunks::<4>().0.iter().fold(0u64, |a, b| a.wrapping_add(u64::from(u32::from_le_bytes(*b)))),
    }
}

struct Clock(Instant, f64);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), cpu())
    }

    fn stop(&self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), cpu() - self.1)
    }
}

/// User and system seconds of this process.
fn cpu() -> f64 {
    // SAFETY: the struct is plain data and the call fills it.
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
