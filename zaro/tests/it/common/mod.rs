//! Stores that tests build for themselves, a naive reading to compare with, and a store that counts and fails.
//!
//! Chunks are encoded by the library ([`Chain::encode`]); what is under test is how they are found, cut and placed.
//! Values, keys and metadata are written by hand.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

pub mod probe;

use std::sync::Arc;

use zaro::codec::{Buffer, Repr};
use zaro::internal::codec::Chain;
use zaro::internal::meta::{v2, v3};
use zaro::meta::{ArrayMeta, Findings, Json, Mode, NodeMeta};
use zaro::store::{MemoryStore, SharedStore};
use zaro::{Array, Index, OpenOptions, Order, ReadOptions, Result, Selection, Zarr};

/// Numbers that look random and are the same in every run.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// The product of extents.
pub fn volume(shape: &[u64]) -> usize {
    shape.iter().product::<u64>() as usize
}

/// The next index in C order; `false` after the last.
pub fn step(at: &mut [u64], shape: &[u64]) -> bool {
    for d in (0..at.len()).rev() {
        at[d] += 1;
        if at[d] < shape[d] {
            return true;
        }
        at[d] = 0;
    }
    false
}

/// A V3 array document, member by member.
#[derive(Debug, Clone)]
pub struct V3 {
    pub shape: Vec<u64>,
    pub data_type: String,
    pub grid: String,
    pub keys: String,
    pub fill: String,
    pub codecs: String,
    pub more: String,
}

pub const LITTLE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
pub const BIG: &str = r#"{"name":"bytes","configuration":{"endian":"big"}}"#;
pub const GZIP: &str = r#"{"name":"gzip","configuration":{"level":1}}"#;
pub const ZSTD: &str = r#"{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;

/// A regular grid.
pub fn regular(chunks: &[u64]) -> String {
    format!(r#"{{"name":"regular","configuration":{{"chunk_shape":{chunks:?}}}}}"#)
}

/// `sharding_indexed`.
pub fn sharding(inner: &[u64], codecs: &str, index_codecs: &str, location: &str) -> String {
    format!(
        r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{inner:?},"codecs":[{codecs}],
        "index_codecs":[{index_codecs}],"index_location":"{location}"}}}}"#
    )
}

/// `transpose`.
pub fn transpose(order: &[u64]) -> String {
    format!(r#"{{"name":"transpose","configuration":{{"order":{order:?}}}}}"#)
}

impl V3 {
    /// Uncompressed, little-endian, filled with zero.
    pub fn new(shape: &[u64], chunks: &[u64], data_type: &str) -> Self {
        Self {
            shape: shape.to_vec(),
            data_type: format!("\"{data_type}\""),
            grid: regular(chunks),
            keys: r#"{"name":"default"}"#.into(),
            fill: "0".into(),
            codecs: LITTLE.into(),
            more: String::new(),
        }
    }

    pub fn codecs(mut self, codecs: impl Into<String>) -> Self {
        self.codecs = codecs.into();
        self
    }

    pub fn fill(mut self, fill: &str) -> Self {
        self.fill = fill.into();
        self
    }

    pub fn names(mut self, names: &[&str]) -> Self {
        self.more = format!(r#","dimension_names":{names:?}"#);
        self
    }

    pub fn document(&self) -> String {
        let Self { shape, data_type, grid, keys, fill, codecs, more } = self;
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{shape:?},"data_type":{data_type},"chunk_grid":{grid},
            "chunk_key_encoding":{keys},"fill_value":{fill},"codecs":[{codecs}]{more}}}"#
        )
    }
}

pub const V3_GROUP: &str = r#"{"zarr_format":3,"node_type":"group"}"#;

/// A V2 array document, member by member.
#[derive(Debug, Clone)]
pub struct V2 {
    pub shape: Vec<u64>,
    pub chunks: Vec<u64>,
    pub dtype: String,
    pub fill: String,
    pub order: char,
    pub filters: String,
    pub compressor: String,
    pub separator: Option<char>,
}

impl V2 {
    /// Uncompressed, in C order, filled with zero.
    pub fn new(shape: &[u64], chunks: &[u64], dtype: &str) -> Self {
        Self {
            shape: shape.to_vec(),
            chunks: chunks.to_vec(),
            dtype: format!("\"{dtype}\""),
            fill: "0".into(),
            order: 'C',
            filters: "null".into(),
            compressor: "null".into(),
            separator: None,
        }
    }

    pub fn compressor(mut self, compressor: &str) -> Self {
        self.compressor = compressor.into();
        self
    }

    pub fn filters(mut self, filters: &str) -> Self {
        self.filters = filters.into();
        self
    }

    pub fn separator(mut self, separator: char) -> Self {
        self.separator = Some(separator);
        self
    }

    pub fn document(&self) -> String {
        let Self { shape, chunks, dtype, fill, order, filters, compressor, separator } = self;
        let separator = separator.map_or(String::new(), |s| format!(r#","dimension_separator":"{s}""#));
        format!(
            r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{chunks:?},"dtype":{dtype},"fill_value":{fill},
            "order":"{order}","filters":{filters},"compressor":{compressor}{separator}}}"#
        )
    }
}

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}")).value
}

/// What the library makes of an array document of either version.
pub fn model(document: &str) -> Result<ArrayMeta> {
    let mut f = Findings::new(Mode::Tolerant, "/");
    let document = Json::parse(document.as_bytes())?.value;
    if document.get("zarr_format").and_then(Json::as_u64) == Some(2) {
        return v2::array(Arc::new(document), None, &mut f);
    }
    match v3::node(document, &mut f)? {
        NodeMeta::Array(meta) => Ok(meta),
        NodeMeta::Group(_) => panic!("a group"),
    }
}

/// An array in memory, C order: what a naive reader works on.
#[derive(Debug, Clone)]
pub struct Model {
    pub shape: Vec<u64>,
    pub size: usize,
    pub bytes: Vec<u8>,
}

impl Model {
    /// All elements differ from their neighbours: element `i` holds `i` in a base that leaves no byte constant.
    pub fn counting(shape: &[u64], size: usize) -> Self {
        let bytes = (0..volume(shape) as u64)
            .flat_map(|i| (i + 1).wrapping_mul(0x0101_0101_0100_0193).to_le_bytes().into_iter().take(size))
            .collect();
        Self { shape: shape.to_vec(), size, bytes }
    }

    pub fn random(rng: &mut Rng, shape: &[u64], size: usize) -> Self {
        Self { shape: shape.to_vec(), size, bytes: rng.bytes(volume(shape) * size) }
    }

    pub fn element(&self, at: &[u64]) -> &[u8] {
        let offset = at.iter().zip(&self.shape).fold(0, |o, (a, n)| o * n + a) as usize * self.size;
        &self.bytes[offset..offset + self.size]
    }

    /// Sets all elements of the block at `start` of `count` to `value`.
    pub fn paint(&mut self, start: &[u64], count: &[u64], value: &[u8]) {
        let mut at = vec![0; count.len()];
        if count.contains(&0) {
            return;
        }
        loop {
            let here = at.iter().zip(start).zip(&self.shape).fold(0, |o, ((a, s), n)| o * n + a + s) as usize;
            self.bytes[here * self.size..][..self.size].copy_from_slice(value);
            if !step(&mut at, count) {
                return;
            }
        }
    }

    /// The elements at `positions` of each dimension, one by one.
    pub fn select(&self, positions: &[Vec<u64>], order: Order) -> Vec<u8> {
        let mut shape: Vec<u64> = positions.iter().map(|p| p.len() as u64).collect();
        let mut out = Vec::with_capacity(volume(&shape) * self.size);
        if shape.contains(&0) {
            return out;
        }
        // Fortran order is C order of the reversed dimensions.
        let fortran = order == Order::F;
        if fortran {
            shape.reverse();
        }
        let mut at = vec![0; shape.len()];
        loop {
            let index: Vec<u64> = (0..at.len())
                .map(|d| positions[d][at[if fortran { at.len() - 1 - d } else { d }] as usize])
                .collect();
            out.extend_from_slice(self.element(&index));
            if !step(&mut at, &shape) {
                return out;
            }
        }
    }
}

/// Cuts `data` into the chunks of `meta`, pads those at the edge, encodes them and calls `put(key, chunk index, bytes)`.
pub fn encode(
    meta: &ArrayMeta,
    path: &str,
    data: &Model,
    mut put: impl FnMut(String, &[u64], Vec<u8>),
) -> Result<()> {
    let counts = meta.grid.counts(&meta.shape);
    let mut index = vec![0; counts.len()];
    if counts.contains(&0) {
        return Ok(());
    }
    loop {
        let shape = meta.grid.chunk_shape(&index).unwrap();
        let start: Vec<u64> = index
            .iter()
            .zip(meta.grid.axes())
            .map(|(i, axis)| (0..*i).map(|k| axis.length(k).unwrap()).sum())
            .collect();
        let mut chunk = Vec::with_capacity(volume(&shape) * data.size);
        let mut at = vec![0; shape.len()];
        loop {
            let here: Vec<u64> = at.iter().zip(&start).map(|(a, s)| a + s).collect();
            if here.iter().zip(&meta.shape).all(|(h, n)| h < n) {
                chunk.extend_from_slice(data.element(&here));
            } else {
                chunk.extend_from_slice(&meta.fill.0);
            }
            if !step(&mut at, &shape) {
                break;
            }
        }
        let repr = Repr { shape, data_type: meta.data_type.clone(), fill: meta.fill.clone() };
        let bytes = Chain::build(&meta.codecs, repr, false)?.encode(Buffer::fixed(chunk))?;
        put(meta.keys.key(path, &index), &index, bytes);
        if !step(&mut index, &counts) {
            return Ok(());
        }
    }
}

/// Puts an array with all its chunks at `path`.
pub fn put_array(store: &MemoryStore, path: &str, document: &str, data: &Model) {
    put_array_without(store, path, document, data, &[]);
}

/// The same, but leaves out the chunks at `absent`.
pub fn put_array_without(store: &MemoryStore, path: &str, document: &str, data: &Model, absent: &[Vec<u64>]) {
    let meta = model(document).unwrap_or_else(|e| panic!("{e}: {document}"));
    let name = if meta.format.number() == 2 { ".zarray" } else { "zarr.json" };
    store.put(&zaro::internal::path::join(path, name), document.to_owned()).unwrap();
    encode(&meta, path, data, |key, index, bytes| {
        if !absent.iter().any(|a| a == index) {
            store.put(&key, bytes).unwrap();
        }
    })
    .unwrap_or_else(|e| panic!("{e}: {document}"));
}

/// Waits for a future of the library.
pub fn wait<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    zaro::blocking::block_on(future)
}

pub fn open(store: SharedStore) -> Result<Zarr> {
    wait(Zarr::from_store(store, OpenOptions::default()))
}

pub fn open_strict(store: SharedStore) -> Result<Zarr> {
    wait(Zarr::from_store(store, OpenOptions::default().with_mode(Mode::Strict)))
}

/// The array at the root of `store`.
pub fn open_array(store: SharedStore) -> Result<Array> {
    let zarr = open(store)?;
    wait(zarr.array(""))
}

/// An array at the root of a store of its own, in memory.
pub fn memory_array(document: &str, data: &Model) -> Array {
    let store = Arc::new(MemoryStore::new());
    put_array(&store, "", document, data);
    open_array(store).unwrap_or_else(|e| panic!("{e}: {document}"))
}

pub fn fortran() -> ReadOptions {
    ReadOptions::default().with_order(Order::F)
}

/// Reads `selection` text with the default options.
pub fn read(array: &Array, selection: &str) -> Result<Vec<u8>> {
    Ok(array.read_slab_blocking(&Selection::parse(selection)?, &ReadOptions::default())?.bytes)
}

/// A random index into a dimension of `extent`, and the positions it means.
pub fn random_index(rng: &mut Rng, extent: u64) -> (Index, Vec<u64>) {
    let n = extent as i64;
    let from_end = |rng: &mut Rng, i: u64| if rng.one_in(4) { i as i64 - n } else { i as i64 };
    match rng.below(if extent == 0 { 3 } else { 8 }) {
        0 => (Index::All, (0..extent).collect()),
        1 | 2 => {
            let start = rng.below(extent + 1);
            let count = rng.below(extent - start + 1);
            (Index::Span(start, count), (start..start + count).collect())
        }
        3 => {
            let i = rng.below(extent);
            (Index::At(from_end(rng, i)), vec![i])
        }
        4 => {
            let list: Vec<u64> = (0..rng.below(6)).map(|_| rng.below(extent)).collect();
            (Index::List(list.iter().map(|i| from_end(rng, *i)).collect()), list)
        }
        _ => {
            let step = rng.within(1, 4) as i64 * if rng.one_in(2) { -1 } else { 1 };
            // Also outside the array, where slices are clamped.
            let bound = |rng: &mut Rng| (!rng.one_in(3)).then(|| rng.below(2 * extent + 6) as i64 - n - 3);
            let (start, stop) = (bound(rng), bound(rng));
            (Index::Slice(start, stop, step), python_slice(start, stop, step, n))
        }
    }
}

/// What Python's `range(n)[start:stop:step]` gives, counted out from the definition: `i = start + k·step`, as long as
/// `i` has not reached `stop`.
fn python_slice(start: Option<i64>, stop: Option<i64>, step: i64, n: i64) -> Vec<u64> {
    let absolute = |i: i64| if i < 0 { i + n } else { i };
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let start = start.map_or(if step > 0 { low } else { high }, |i| absolute(i).clamp(low, high));
    let stop = stop.map_or(if step > 0 { high } else { low }, |i| absolute(i).clamp(low, high));
    let mut out = Vec::new();
    let mut i = start;
    while if step > 0 { i < stop } else { i > stop } {
        out.push(i as u64);
        i += step;
    }
    out
}
