//! What writing takes at least: the encoder on all cores, and its results into files.
//!
//! Threads take files from a counter. For each, a thread cuts the chunks out of the array (or decodes them from the
//! source), calls the encoder, and writes the file with one call, under its final name: none of the care that keeps a
//! reader from seeing half a file.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    Map, THREADS,
    common::{Clock, LEVEL, Target, load, report},
};

const ITEM: usize = 2;

/// Values in memory: a box of the array, in C order.
struct Values<'a> {
    shape: [usize; 3],
    bytes: &'a [u8],
}

impl Values<'_> {
    /// Copies the cube of `edge` at `start` out of it.
    fn cut(&self, start: [usize; 3], edge: usize, out: &mut Vec<u8>) {
        out.clear();
        for z in 0..edge {
            for y in 0..edge {
                let at = (((start[0] + z) * self.shape[1] + start[1] + y) * self.shape[2] + start[2]) * ITEM;
                out.extend_from_slice(&self.bytes[at..at + edge * ITEM]);
            }
        }
    }
}

/// A cube's places on a grid of `count`, in C order.
fn grid(count: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..count[0]).flat_map(move |a| (0..count[1]).flat_map(move |b| (0..count[2]).map(move |c| [a, b, c])))
}

/// One thread's tools.
struct Encoder {
    zstd: zstd_safe::CCtx<'static>,
    encoded: Vec<u8>,
}

impl Encoder {
    fn new() -> Self {
        let mut zstd = zstd_safe::CCtx::create();
        zstd.set_parameter(zstd_safe::CParameter::CompressionLevel(LEVEL)).expect("a level");
        Self { zstd, encoded: Vec::new() }
    }

    /// Encodes a chunk and adds it to `file`; its size.
    fn add(&mut self, chunk: &[u8], target: Target, file: &mut Vec<u8>) -> usize {
        if !target.zstd {
            file.extend_from_slice(chunk);
            return chunk.len();
        }
        self.encoded.clear();
        self.encoded.reserve(zstd_safe::compress_bound(chunk.len()));
        self.zstd.compress2(&mut self.encoded, chunk).expect("zstd");
        file.extend_from_slice(&self.encoded);
        self.encoded.len()
    }
}

/// Adds the index of a shard, with its check sum.
fn add_index(entries: &[(u64, u64)], file: &mut Vec<u8>) {
    let start = file.len();
    for (offset, size) in entries {
        file.extend_from_slice(&offset.to_le_bytes());
        file.extend_from_slice(&size.to_le_bytes());
    }
    let sum = crc32c(&file[start..]);
    file.extend_from_slice(&sum.to_le_bytes());
}

/// Bit by bit: an index is small.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

/// The metadata of what is written, so that it can be read back.
fn metadata(shape: [usize; 3], target: Target) -> String {
    let cube = |n: u64| format!("[{n},{n},{n}]");
    let bytes = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    let zstd = format!(r#",{{"name":"zstd","configuration":{{"level":{LEVEL},"checksum":false}}}}"#);
    let mut codecs = format!("{bytes}{}", if target.zstd { &zstd } else { "" });
    if target.shard.is_some() {
        codecs = format!(
            r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{},"codecs":[{codecs}],"index_codecs":[{bytes},{{"name":"crc32c"}}],"index_location":"end"}}}}"#,
            cube(target.chunk)
        );
    }
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":{shape:?},"data_type":"uint16","chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{}}}}},"chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},"fill_value":0,"codecs":[{codecs}]}}"#,
        cube(target.file())
    )
}

fn path_of(root: &Path, [a, b, c]: [usize; 3]) -> PathBuf {
    root.join(format!("c/{a}/{b}/{c}"))
}

/// Makes the folders and the metadata, then every file on all threads. `each` gets a thread's tools, the place of a file
/// on the grid, and the empty content, which it fills.
fn files<T>(to: &str, shape: [usize; 3], target: Target, tools: impl Fn() -> T + Sync, each: impl Fn(&mut T, [usize; 3], &mut Vec<u8>) + Sync) {
    let (root, edge) = (Path::new(to), target.file() as usize);
    let count = shape.map(|n| n / edge);
    for [a, b, _] in grid([count[0], count[1], 1]) {
        std::fs::create_dir_all(root.join(format!("c/{a}/{b}"))).expect("a folder");
    }
    std::fs::write(root.join("zarr.json"), metadata(shape, target)).expect("metadata");
    let (all, next): (Vec<_>, _) = (grid(count).collect(), AtomicUsize::new(0));
    let work = || {
        let (mut tools, mut content) = (tools(), Vec::new());
        while let Some(at) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            content.clear();
            each(&mut tools, *at, &mut content);
            std::fs::write(path_of(root, *at), &content).expect("a file");
        }
    };
    std::thread::scope(|s| {
        for _ in 1..THREADS {
            s.spawn(work);
        }
        work();
    });
}

pub fn write(from: &str, to: &str) {
    let (target, (shape, bytes)) = (Target::of(to), load(from));
    let shape = [0, 1, 2].map(|d| shape[d] as usize);
    let clock = Clock::start();
    let values = Values { shape, bytes: &bytes };
    let (file_edge, edge) = (target.file() as usize, target.chunk as usize);
    let per = file_edge / edge;
    files(to, shape, target, || (Encoder::new(), Vec::new()), |(encoder, chunk), at, content| {
        let mut entries = Vec::with_capacity(per * per * per);
        for inner in grid([per; 3]) {
            values.cut([0, 1, 2].map(|d| at[d] * file_edge + inner[d] * edge), edge, chunk);
            let offset = content.len() as u64;
            entries.push((offset, encoder.add(chunk, target, content) as u64));
        }
        if target.shard.is_some() {
            add_index(&entries, content);
        }
    });
    report(clock.stop(), 0);
}

/// Chunks that hold whole inner chunks of the target are decoded one by one, cut and encoded.
pub fn copy(from: &str, to: &str) {
    let (target, source) = (Target::of(to), crate::layout(from));
    let clock = Clock::start();
    let (file_edge, edge, big) = (target.file() as usize, target.chunk as usize, source.chunk[0]);
    let (per, fold, chunks) = (file_edge / edge, big / edge, file_edge / big);
    assert!(big % edge == 0 && file_edge % big == 0, "the chunks of {from} do not nest in those of {to}");
    files(to, source.shape, target, || (Encoder::new(), Vec::new(), Vec::new()), |(encoder, decoded, chunk), at, content| {
        let mut entries = vec![(u64::MAX, u64::MAX); per * per * per];
        for outer in grid([chunks; 3]) {
            let map = Map::open(&source.key([0, 1, 2].map(|d| at[d] * chunks + outer[d])), true);
            decoded.resize(big * big * big * ITEM, 0);
            // SAFETY: the destination is that long, and the frame is one we wrote.
            let n = unsafe { blosc_src::blosc_decompress_ctx(map.bytes().as_ptr().cast(), decoded.as_mut_ptr().cast(), decoded.len(), 1) };
            assert_eq!(n as usize, decoded.len());
            let values = Values { shape: [big; 3], bytes: decoded };
            for inner in grid([fold; 3]) {
                values.cut(inner.map(|i| i * edge), edge, chunk);
                let place = [0, 1, 2].map(|d| outer[d] * fold + inner[d]);
                let offset = content.len() as u64;
                entries[(place[0] * per + place[1]) * per + place[2]] = (offset, encoder.add(chunk, target, content) as u64);
            }
        }
        add_index(&entries, content);
    });
    report(clock.stop(), 0);
}
