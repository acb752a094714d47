//! What the Rust programs of the benchmark share: the clocks, the line they print, and the layouts they write.
#![allow(dead_code, reason = "not every program uses all of it")]

use std::time::Instant;

/// The level of zstd in everything that is written. Low, so that what is around the encoder counts.
pub const LEVEL: i32 = 1;

/// Wall and CPU time since it was started.
pub struct Clock(Instant, f64);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now(), cpu())
    }

    /// Wall seconds, CPU seconds.
    pub fn stop(&self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), cpu() - self.1)
    }
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

/// Prints the program's one line.
pub fn report((wall, cpu): (f64, f64), check: u64) {
    println!("{{\"wall\": {wall}, \"cpu\": {cpu}, \"rss\": {}, \"check\": {check}}}", peak());
}

/// Waits for a line: what is counted outside is read between two passes.
pub fn pause() {
    let _ = std::io::stdin().read_line(&mut String::new()).expect("a line");
}

/// A layout to write, as the output's name says it: `raw_64`, `zstd_64`, or `shard256_32` for shards of 256 cubed with
/// inner chunks of 32 cubed, zstd.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub shard: Option<u64>,
    pub chunk: u64,
    pub zstd: bool,
}

impl Target {
    pub fn of(path: &str) -> Self {
        let name = std::path::Path::new(path).file_stem().and_then(|n| n.to_str()).expect("a layout's name");
        let (kind, edge) = name.rsplit_once('_').expect("a layout's name");
        let chunk = edge.parse().expect("the edge of a chunk");
        match kind {
            "raw" | "zstd" => Self { shard: None, chunk, zstd: kind == "zstd" },
            shard => {
                Self { shard: shard.strip_prefix("shard").and_then(|n| n.parse().ok()), chunk, zstd: true }
            }
        }
    }

    /// The edge of the part of the array that goes into one file.
    pub fn file(&self) -> u64 {
        self.shard.unwrap_or(self.chunk)
    }
}

/// The array of a .npy file: its shape, and its uint16 values as bytes.
pub fn load(path: &str) -> (Vec<u64>, Vec<u8>) {
    use std::io::Read;
    let mut file = std::fs::File::open(path).expect("the input");
    let mut head = [0; 10];
    file.read_exact(&mut head).expect("a head");
    let mut text = vec![0; usize::from(u16::from_le_bytes([head[8], head[9]]))];
    file.read_exact(&mut text).expect("a head");
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("<u2") && text.contains("'fortran_order': False"), "{text}");
    let shape = text.split('(').nth(1).and_then(|t| t.split(')').next()).expect("a shape");
    let shape: Vec<u64> = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    let mut values = Vec::with_capacity(shape.iter().product::<u64>() as usize * 2);
    file.read_to_end(&mut values).expect("values");
    (shape, values)
}
