//! `.zmetadata` of a Parquet reference store: the documents of all nodes, and the row layout of each array.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result, invalid};
use crate::meta::json::{self, Json};
use crate::meta::{ChunkKeys, Grid};
use crate::num::{self, product};
use crate::reference::arrays;

/// Maximum rows per partition.
const MAX_RECORD_SIZE: u64 = 1 << 32;

/// The parsed `.zmetadata`.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Rows per partition.
    pub(super) record_size: u64,
    /// The text of each document, by key.
    pub(super) documents: BTreeMap<String, Bytes>,
    /// The layouts of the arrays.
    pub(super) layouts: Vec<Arc<RowLayout>>,
    /// Positions in `layouts` by path, or why the chunks of an array cannot be found.
    by_path: BTreeMap<String, Result<usize, String>>,
    /// Whether documents of V3 are among them.
    v3: bool,
}

/// Maps the chunks of an array to rows.
#[derive(Debug)]
pub(super) struct RowLayout {
    pub(super) path: Arc<str>,
    /// Chunks along each dimension.
    counts: Vec<u64>,
    /// All chunks.
    pub(super) total: u64,
    keys: ChunkKeys,
}

/// The chunk of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyPlace {
    /// The number of the array.
    pub(super) array: usize,
    /// The number of the chunk, in C order.
    pub(super) chunk: u64,
}

/// Checks a number of rows per partition.
pub(super) fn check_record_size(n: u64) -> Result<u64> {
    if n == 0 || n > MAX_RECORD_SIZE {
        return Err(invalid!("must be 1 to {MAX_RECORD_SIZE}, not {n}").with_field("record_size"));
    }
    Ok(n)
}

impl Metadata {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let Json::Object(members) = Json::parse(bytes)?.value else {
            return Err(Error::invalid("must hold an object"));
        };
        let (mut metadata, mut record_size) = (None, None);
        for (name, value) in members {
            match name.as_str() {
                "metadata" => metadata = Some(value),
                "record_size" => record_size = Some(value),
                _ => {}
            }
        }
        let Some(record_size) = record_size else {
            return Err(Error::invalid("\"record_size\" is missing: not a Parquet reference store")
                .with_field("record_size"));
        };
        let Some(rows) = whole_number(&record_size) else {
            let wrong = format!("must be an integer, not {record_size}");
            return Err(Error::invalid(wrong).with_field("record_size"));
        };
        let Some(Json::Object(documents)) = metadata else {
            return Err(Error::invalid("\"metadata\" must be an object").with_field("metadata"));
        };
        let parsed = documents.into_iter().map(|(key, value)| match value {
            // Documents as text, as other consolidated metadata have them.
            Json::String(text) => (key, Json::parse(text.as_bytes()).map_or(Json::String(text), |d| d.value)),
            value => (key, value),
        });
        Ok(Self::new(parsed, check_record_size(rows)?))
    }

    /// From documents by their keys.
    pub(super) fn new(documents: impl IntoIterator<Item = (String, Json)>, record_size: u64) -> Self {
        let mut out = Self {
            record_size,
            documents: BTreeMap::new(),
            layouts: Vec::new(),
            by_path: BTreeMap::new(),
            v3: false,
        };
        for (key, document) in documents {
            let (path, name) = key.rsplit_once('/').unwrap_or(("", &key));
            let layout = match name {
                ".zarray" => Some(v2(path, &document)),
                "zarr.json" => {
                    out.v3 = true;
                    let is_array = document.get("node_type").and_then(Json::as_str) == Some("array");
                    is_array.then(|| v3(path, &document))
                }
                _ => None,
            };
            if let Some(layout) = layout {
                let number = layout.map_err(|e| e.to_string()).map(|layout| {
                    out.layouts.push(Arc::new(layout));
                    out.layouts.len() - 1
                });
                out.by_path.insert(path.to_owned(), number);
            }
            // Bare `NaN` stays as it was: an attribute that is a number stays one.
            out.documents.insert(key, document.compact().into());
        }
        out
    }

    /// The chunk of `key`; `None` if there is no such chunk.
    pub(super) fn place(&self, key: &str) -> Result<Option<KeyPlace>> {
        let Some((number, below)) = self.array_of(key) else { return Ok(None) };
        match number {
            Ok(array) => {
                let layout = self.layouts.get(*array);
                Ok(layout.and_then(|l| l.number(below)).map(|chunk| KeyPlace { array: *array, chunk }))
            }
            Err(_) if below.starts_with(['.', 'z']) => Ok(None),
            Err(why) => Err(Error::invalid(why.clone())),
        }
    }

    /// The array nearest above `key`, and what follows its path.
    fn array_of<'a>(&self, key: &'a str) -> Option<(&Result<usize, String>, &'a str)> {
        let ends = key.rmatch_indices('/').map(|(at, _)| at);
        for at in ends {
            let (path, below) = (key.get(..at)?, key.get(at + 1..)?);
            if let Some(number) = self.by_path.get(path) {
                return Some((number, below));
            }
        }
        self.by_path.get("").map(|number| (number, key))
    }

    /// The arrays that have keys below `prefix/`, and which of their chunks those are.
    pub(super) fn below(&self, prefix: &str) -> Vec<(usize, Range<u64>)> {
        let some = |(n, layout): (usize, &Arc<RowLayout>)| layout.below(prefix).map(|range| (n, range));
        let mut found: Vec<_> = self.layouts.iter().enumerate().filter_map(some).collect();
        found.sort_by(|a, b| {
            self.layouts.get(a.0).map(|l| &l.path).cmp(&self.layouts.get(b.0).map(|l| &l.path))
        });
        found
    }

    /// The documents below `prefix/`, with what follows it.
    pub(super) fn documents_below<'a>(
        &'a self,
        prefix: &str,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Bytes)> + use<'a> {
        let start = crate::store::join(prefix, "");
        self.documents
            .iter()
            .filter_map(move |(key, text)| Some((key.as_str(), key.strip_prefix(&start)?, text)))
    }

    /// The consolidated metadata that a reader of V2 looks for.
    pub(super) fn consolidated(&self) -> Option<Bytes> {
        (!self.v3).then(|| self.zmetadata(None).into())
    }

    /// `.zmetadata`, with the number of rows if given: without it, these are plain consolidated metadata.
    pub(super) fn zmetadata(&self, record_size: Option<u64>) -> String {
        let mut out = String::from("{\"metadata\":{");
        for (n, (key, text)) in self.documents.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            json::write_string(key, &mut out);
            out.push(':');
            out.push_str(std::str::from_utf8(text).unwrap_or("null"));
        }
        out.push('}');
        match record_size {
            Some(n) => out.push_str(&format!(",\"record_size\":{n}")),
            None => out.push_str(",\"zarr_consolidated_format\":1"),
        }
        out.push('}');
        out
    }
}

impl RowLayout {
    fn new(path: &str, shape: &[u64], grid: &Grid, keys: ChunkKeys) -> Result<Self> {
        let counts = grid.counts(shape);
        let total = product(&counts)?;
        Ok(Self { path: path.into(), counts, total, keys })
    }

    /// The number of the chunk whose key below the array is `below`.
    pub(super) fn number(&self, below: &str) -> Option<u64> {
        match arrays::Place::of(below, self.keys, &self.counts) {
            arrays::Place::Chunk(number) => Some(number),
            arrays::Place::Outside | arrays::Place::Nowhere => None,
        }
    }

    /// The key of chunk `number`.
    pub(super) fn key(&self, number: u64) -> String {
        self.keys.key(&self.path, &num::index_of(number, &self.counts))
    }

    /// The chunks whose keys lie below `prefix/`.
    fn below(&self, prefix: &str) -> Option<Range<u64>> {
        let all = Some(0..self.total);
        if prefix.is_empty() || *self.path == *prefix {
            return all;
        }
        if self.path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')) {
            return all;
        }
        let below = if self.path.is_empty() {
            prefix
        } else {
            prefix.strip_prefix(&*self.path)?.strip_prefix('/')?
        };
        let below = match (self.keys.prefixed, below) {
            (true, "c") => return all.filter(|_| !self.counts.is_empty() && self.keys.separator == '/'),
            (true, below) => below.strip_prefix("c/")?,
            (false, below) => below,
        };
        if self.keys.separator != '/' {
            return None;
        }
        // The first numbers of an index are a run of chunks.
        let mut run = 0..self.total;
        let mut counts = self.counts.iter();
        for part in below.split('/') {
            let number: u64 = part.parse().ok()?;
            let count = *counts.next()?;
            if number >= count || number.to_string() != part {
                return None;
            }
            let each = (run.end - run.start).checked_div(count)?;
            run.start += number * each;
            run.end = run.start + each;
        }
        // A key itself is not below itself.
        counts.next().map(|_| run)
    }
}

/// The layout of an array from its `.zarray`. Other errors of the document are reported when the array is opened.
fn v2(path: &str, document: &Json) -> Result<RowLayout> {
    let shape = extents(document.get("shape"), "shape")?;
    let chunks = extents(document.get("chunks"), "chunks")?;
    if shape.len() != chunks.len() {
        return Err(Error::invalid("\"shape\" and \"chunks\" have different lengths"));
    }
    let separator = match document.get("dimension_separator").and_then(Json::as_str) {
        Some("/") => '/',
        _ => '.',
    };
    let keys = ChunkKeys { prefixed: false, separator };
    RowLayout::new(path, &shape, &Grid::regular(&some_length(&chunks, &shape))?, keys)
}

/// The layout of an array from its `zarr.json`.
fn v3(path: &str, document: &Json) -> Result<RowLayout> {
    let shape = extents(document.get("shape"), "shape")?;
    let grid = document.get("chunk_grid").ok_or_else(|| Error::invalid("\"chunk_grid\" is missing"))?;
    let configuration = grid.get("configuration").unwrap_or(&Json::Null);
    let grid = match grid.get("name").and_then(Json::as_str) {
        Some("rectilinear") => Grid::rectilinear(configuration, &shape)?,
        _ => {
            let chunks = extents(configuration.get("chunk_shape"), "chunk_shape")?;
            if shape.len() != chunks.len() {
                return Err(Error::invalid("\"shape\" and \"chunk_shape\" have different lengths"));
            }
            Grid::regular(&some_length(&chunks, &shape))?
        }
    };
    let encoding = document.get("chunk_key_encoding");
    let name = encoding.and_then(|e| e.as_str().or_else(|| e.get("name")?.as_str())).unwrap_or("default");
    let prefixed = name != "v2";
    let given = encoding.and_then(|e| e.get("configuration")?.get("separator")?.as_str());
    let separator = match given {
        Some(".") => '.',
        Some("/") => '/',
        _ if prefixed => '/',
        _ => '.',
    };
    RowLayout::new(path, &shape, &grid, ChunkKeys { prefixed, separator })
}

/// Chunks of length 0 are written for dimensions without elements.
fn some_length(chunks: &[u64], shape: &[u64]) -> Vec<u64> {
    chunks.iter().zip(shape).map(|(c, n)| if *n == 0 { (*c).max(1) } else { *c }).collect()
}

fn extents(value: Option<&Json>, name: &str) -> Result<Vec<u64>> {
    let numbers = value.and_then(Json::items).and_then(|items| items.iter().map(Json::as_u64).collect());
    numbers.ok_or_else(|| invalid!("{name:?} must be a list of non-negative integers"))
}

/// A non-negative integer, also one that is written as `100000.0`.
fn whole_number(value: &Json) -> Option<u64> {
    let text = value.number_text()?;
    text.parse().ok().or_else(|| text.strip_suffix(".0")?.parse().ok())
}
