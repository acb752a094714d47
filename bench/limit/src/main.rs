//! What the hardware and the codec libraries allow: reads the benchmark data without any Zarr logic, and writes them.
//!
//! `limit WORKLOAD PATH` and `limit write|copy FROM TO`, as `bench/README.md` says. The layout follows from the data set's name. Two threads
//! take chunks from a counter; each maps the chunk's file, calls the codec library on it, and places the values
//! straight into one huge-page-backed buffer. Partial reads decode a chunk again for each window: a reader with
//! a cache can be below this program there. It trusts its input, so it is no example of how to write a reader.

use std::{
    cell::RefCell,
    fs::File,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

#[path = "../../common.rs"]
mod common;
mod write;

use common::{Clock, report};

const THREADS: usize = 2;

#[derive(Clone, Copy, PartialEq)]
enum Codec {
    Raw,
    Zstd,
    Blosc,
    Zlib,
}

/// All that is known of a data set.
struct Layout {
    root: PathBuf,
    shape: [usize; 3],
    /// The shape of one file's part of the array, and of the unit that is decoded at once.
    file: [usize; 3],
    chunk: [usize; 3],
    codec: Codec,
    item: usize,
    v2: bool,
}

fn layout(path: &str) -> Layout {
    let root = PathBuf::from(path);
    let name = root.file_stem().and_then(|n| n.to_str()).expect("a data set's name").to_owned();
    let codec = match &name {
        n if n.contains("blosc") => Codec::Blosc,
        n if n.contains("zlib") => Codec::Zlib,
        n if n.contains("zstd") || n.starts_with("v3_shard256") || n.starts_with("v3_shard512") => Codec::Zstd,
        _ => Codec::Raw,
    };
    let cube = |n: usize| [n; 3];
    let float = name.contains("f32");
    let edge = name.rsplit('_').next().and_then(|n| n.parse().ok());
    let (shape, file, chunk) = match (name.as_str(), edge) {
        (n, _) if n.starts_with("tinyshard") => ([400, 400, 320], [200, 200, 160], cube(8)),
        (n, _) if n.starts_with("tiny") => ([400, 400, 320], cube(8), cube(8)),
        (n, Some(e)) if n.contains("shard512") => ([1024, 512, 512], cube(512), cube(e)),
        (n, Some(e)) if n.contains("shard") => ([1024, 512, 512], cube(256), cube(e)),
        (_, Some(e)) => ([if float { 512 } else { 1024 }, 512, 512], cube(e), cube(e)),
        _ => panic!("no layout is known for {name}"),
    };
    Layout { root, shape, file, chunk, codec, item: if float { 4 } else { 2 }, v2: name.starts_with("v2") }
}

/// A mapped file; empty files do not occur here.
struct Map(*mut libc::c_void, usize);

impl Map {
    /// `whole`: all of it will be read, so the kernel may map every page at once.
    fn open(path: &Path, whole: bool) -> Map {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let size = file.metadata().expect("size").len() as usize;
        let flags = libc::MAP_PRIVATE | if whole { libc::MAP_POPULATE } else { 0 };
        // SAFETY: a private read-only mapping of a file nobody changes during the benchmark.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        assert!(at != libc::MAP_FAILED, "mmap {}", path.display());
        Map(at, size)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is this long and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in open, unmapped once.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

// SAFETY: read-only memory.
unsafe impl Send for Map {}
unsafe impl Sync for Map {}

/// The output: anonymous memory in huge pages, written by several threads at places that do not overlap.
struct Output(*mut u8, usize);

// SAFETY: each chunk writes only its own part.
unsafe impl Send for Output {}
unsafe impl Sync for Output {}

impl Output {
    fn new(size: usize) -> Output {
        // SAFETY: a fresh anonymous mapping; the advice may be refused without harm.
        unsafe {
            let at =
                libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert!(at != libc::MAP_FAILED);
            if size >= 1 << 22 {
                libc::madvise(at, size, libc::MADV_HUGEPAGE);
            }
            Output(at.cast(), size)
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: all writers are done when this is called.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: mapped in new, unmapped once.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

thread_local! {
    static SCRATCH: RefCell<(Vec<u8>, zstd_safe::DCtx<'static>, libdeflater::Decompressor)> =
        RefCell::new((Vec::new(), zstd_safe::DCtx::create(), libdeflater::Decompressor::new()));
}

/// A box of the array: where it starts and how large it is.
#[derive(Clone, Copy)]
struct Region {
    start: [usize; 3],
    size: [usize; 3],
}

impl Layout {
    fn key(&self, at: [usize; 3]) -> PathBuf {
        let [a, b, c] = at;
        self.root.join(if self.v2 { format!("{a}.{b}.{c}") } else { format!("c/{a}/{b}/{c}") })
    }

    /// The bytes of one inner chunk inside its file.
    fn inner<'a>(&self, file: &'a [u8], within: [usize; 3]) -> &'a [u8] {
        if self.file == self.chunk {
            return file;
        }
        let per: [usize; 3] = std::array::from_fn(|d| self.file[d] / self.chunk[d]);
        let count = per[0] * per[1] * per[2];
        let entry = file.len() - 4 - 16 * count + 16 * ((within[0] * per[1] + within[1]) * per[2] + within[2]);
        let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize;
        let (offset, size) = (number(entry), number(entry + 8));
        &file[offset..offset + size]
    }

    /// Decodes the part of a chunk that lies in `region` into `out`, whose shape is the region's.
    fn place(&self, encoded: &[u8], chunk: [usize; 3], region: Region, out: &Output) {
        SCRATCH.with_borrow_mut(|(buffer, zstd, deflate)| {
            let size = self.chunk.iter().product::<usize>() * self.item;
            let values: &[u8] = if self.codec == Codec::Raw {
                encoded
            } else {
                buffer.resize(size, 0);
                match self.codec {
                    Codec::Zstd => assert_eq!(zstd.decompress(&mut buffer[..], encoded).expect("zstd"), size),
                    Codec::Zlib => assert_eq!(deflate.zlib_decompress(encoded, buffer).expect("zlib"), size),
                    // SAFETY: the destination holds `size` bytes, and the frame is one we wrote.
                    Codec::Blosc => unsafe {
                        let n = blosc_src::blosc_decompress_ctx(encoded.as_ptr().cast(), buffer.as_mut_ptr().cast(), size, 1);
                        assert_eq!(n as usize, size);
                    },
                    Codec::Raw => {}
                }
                buffer
            };
            let base: [usize; 3] = std::array::from_fn(|d| chunk[d] * self.chunk[d]);
            let low: [usize; 3] = std::array::from_fn(|d| base[d].max(region.start[d]));
            let high: [usize; 3] = std::array::from_fn(|d| (base[d] + self.chunk[d]).min(region.start[d] + region.size[d]));
            let run = (high[2] - low[2]) * self.item;
            for z in low[0]..high[0] {
                for y in low[1]..high[1] {
                    let from = (((z - base[0]) * self.chunk[1] + (y - base[1])) * self.chunk[2] + low[2] - base[2]) * self.item;
                    let to = (((z - region.start[0]) * region.size[1] + (y - region.start[1])) * region.size[2] + low[2] - region.start[2])
                        * self.item;
                    assert!(to + run <= out.1 && from + run <= values.len());
                    // SAFETY: both ranges were checked; no other chunk writes here.
                    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().add(from), out.0.add(to), run) };
                }
            }
        });
    }

    /// The chunks (or files) of a grid that a region touches.
    fn touched(region: Region, grid: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
        let first: [usize; 3] = std::array::from_fn(|d| region.start[d] / grid[d]);
        let last: [usize; 3] = std::array::from_fn(|d| (region.start[d] + region.size[d] - 1) / grid[d]);
        (first[0]..=last[0]).flat_map(move |a| (first[1]..=last[1]).flat_map(move |b| (first[2]..=last[2]).map(move |c| [a, b, c])))
    }

    /// One file's share of a region.
    fn read_file(&self, at: [usize; 3], region: Region, out: &Output) {
        let whole = self.file == self.chunk && (self.codec != Codec::Raw || region.size == self.shape);
        let map = Map::open(&self.key(at), whole);
        if self.file == self.chunk {
            return self.place(map.bytes(), at, region, out);
        }
        let start = std::array::from_fn(|d| (at[d] * self.file[d]).max(region.start[d]));
        let size = std::array::from_fn(|d| ((at[d] + 1) * self.file[d]).min(region.start[d] + region.size[d]) - start[d]);
        for chunk in Self::touched(Region { start, size }, self.chunk) {
            let within = std::array::from_fn(|d| chunk[d] - at[d] * (self.file[d] / self.chunk[d]));
            self.place(self.inner(map.bytes(), within), chunk, region, out);
        }
    }

    /// All units of work of a region, over the threads. Shards are split by rows of inner chunks.
    fn read(&self, region: Region, out: &Output) {
        let mut work: Vec<([usize; 3], Region)> = Vec::new();
        for file in Self::touched(region, self.file) {
            let layers = if self.file == self.chunk { 1 } else { 4 };
            for layer in 0..layers {
                let thick = self.file[0] / layers;
                let low = (file[0] * self.file[0] + layer * thick).max(region.start[0]);
                let high = (file[0] * self.file[0] + (layer + 1) * thick).min(region.start[0] + region.size[0]);
                if low < high && thick % self.chunk[0] == 0 || layers == 1 {
                    work.push((file, Region { start: [low, 0, 0], size: [high - low, 0, 0] }));
                } else if layer == 0 && thick % self.chunk[0] != 0 {
                    let low = (file[0] * self.file[0]).max(region.start[0]);
                    let high = ((file[0] + 1) * self.file[0]).min(region.start[0] + region.size[0]);
                    work.push((file, Region { start: [low, 0, 0], size: [high - low, 0, 0] }));
                }
            }
        }
        let next = AtomicUsize::new(0);
        let step = || {
            while let Some((file, slab)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.read_slab(*file, slab.start[0], slab.size[0], region, out);
            }
        };
        std::thread::scope(|s| {
            for _ in 1..THREADS {
                s.spawn(step);
            }
            step();
        });
    }

    /// Those chunks of a file that start in the planes `low..low + count`.
    fn read_slab(&self, at: [usize; 3], low: usize, count: usize, region: Region, out: &Output) {
        if self.file == self.chunk {
            return self.read_file(at, region, out);
        }
        let map = Map::open(&self.key(at), false);
        let mut start: [usize; 3] = std::array::from_fn(|d| (at[d] * self.file[d]).max(region.start[d]));
        let mut size: [usize; 3] = std::array::from_fn(|d| ((at[d] + 1) * self.file[d]).min(region.start[d] + region.size[d]) - start[d]);
        start[0] = low;
        size[0] = count;
        for chunk in Self::touched(Region { start, size }, self.chunk) {
            let within = std::array::from_fn(|d| chunk[d] - at[d] * (self.file[d] / self.chunk[d]));
            self.place(self.inner(map.bytes(), within), chunk, region, out);
        }
    }

    fn sum(&self, bytes: &[u8]) -> u64 {
        if self.item == 2 {
            bytes.chunks_exact(2).map(|b| u64::from(u16::from_le_bytes([b[0], b[1]]))).fold(0, u64::wrapping_add)
        } else {
            bytes.chunks_exact(4).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))).fold(0, u64::wrapping_add)
        }
    }

    fn bytes_of(&self, region: Region) -> usize {
        region.size.iter().product::<usize>() * self.item
    }

    fn windows(&self) -> u64 {
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let boxes: Vec<Region> =
            (0..1000).map(|_| Region { start: std::array::from_fn(|d| draw() % (self.shape[d] - 31)), size: [32; 3] }).collect();
        let next = AtomicUsize::new(0);
        let step = || {
            let out = Output::new(32 * 32 * 32 * self.item);
            let mut check = 0u64;
            while let Some(region) = boxes.get(next.fetch_add(1, Ordering::Relaxed)) {
                for file in Self::touched(*region, self.file) {
                    self.read_file(file, *region, &out);
                }
                check = check.wrapping_add(self.sum(out.bytes()));
            }
            check
        };
        std::thread::scope(|s| {
            let others: Vec<_> = (1..THREADS).map(|_| s.spawn(step)).collect();
            let mine = step();
            others.into_iter().map(|t| t.join().expect("thread")).fold(mine, u64::wrapping_add)
        })
    }

    fn planes(&self, axis: usize) -> u64 {
        let mut region = Region { start: [0; 3], size: self.shape };
        region.size[axis] = 1;
        let out = Output::new(self.bytes_of(region));
        (0..8).fold(0u64, |check, k| {
            region.start[axis] = (2 * k + 1) * self.shape[axis] / 16;
            self.read(region, &out);
            check.wrapping_add(self.sum(out.bytes()))
        })
    }
}

/// Parses the one consolidated document and adds up every array's shape.
fn open(path: &str) -> u64 {
    let v3 = Path::new(path).join("zarr.json");
    let (file, v2) = if v3.exists() { (v3, false) } else { (Path::new(path).join(".zmetadata"), true) };
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(file).expect("read")).expect("JSON");
    let nodes = if v2 { &document["metadata"] } else { &document["consolidated_metadata"]["metadata"] };
    let nodes = nodes.as_object().expect("an object");
    nodes.values().filter_map(|n| n.get("shape")?.as_array()).flatten().filter_map(serde_json::Value::as_u64).fold(0, u64::wrapping_add)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (workload, path) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "write", from, to] => return write::write(from, to),
        [_, "copy", from, to] => return write::copy(from, to),
        [_, workload, path] => (workload.to_owned(), path.to_owned()),
        _ => panic!("usage: limit WORKLOAD PATH, or limit write|copy FROM TO"),
    };
    let clock = Clock::start();
    let (times, check) = match workload {
        "open" => {
            let check = open(path);
            (clock.stop(), check)
        }
        "read" => {
            let layout = layout(path);
            let region = Region { start: [0; 3], size: layout.shape };
            let out = Output::new(layout.bytes_of(region));
            layout.read(region, &out);
            let times = clock.stop();
            (times, layout.sum(out.bytes()))
        }
        "win" => {
            let check = layout(path).windows();
            (clock.stop(), check)
        }
        plane => {
            let axis = plane.strip_prefix("plane").and_then(|n| n.parse().ok()).expect("read, win, plane0..2 or open");
            let check = layout(path).planes(axis);
            (clock.stop(), check)
        }
    };
    report(times, check);
}
