//! Writes references as a folder of Parquet files.
//!
//! The files suit the simplest readers: one row group, pages of the first version, four columns of the types that
//! fsspec's and GDAL's readers expect (also if they are empty), zstd. `offset` and `size` are never null, since pandas
//! would turn them into floats. The same references give the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream::TryStreamExt;

use super::layout::{KeyPlace, Metadata};
use super::rows::TEXT;
use super::{ParquetMap, ZMETADATA, partition_key};
use crate::context::Context;
use crate::error::{Error, Result, usage};
use crate::meta::Json;
use crate::num::{u64_of, usize_of};
use crate::reference::{Location, ReferenceStore, Remote};
use crate::store::{Condition, SharedStore, StoreExt as _, join};

/// Default rows per partition, as kerchunk, VirtualiZarr and GDAL write.
pub const RECORD_SIZE: u64 = 100_000;

/// Memory for pending partitions.
const MEMORY: usize = 128 << 20;

/// Rows per batch.
const BATCH: u64 = 1 << 14;

const SCHEMA: &str = "message schema { optional binary path (STRING); required int64 offset; required int64 size; \
                      optional binary raw; }";

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// References of chunks.
    pub references: u64,
    /// Files of references.
    pub partitions: u64,
    /// Keys that Parquet cannot store: neither documents of nodes nor chunks of an array's grid. No reader of the array
    /// requests them.
    pub left_out: u64,
    /// The first few of them.
    pub examples: Vec<String>,
}

/// Writes references, in any order; cheapest if those of one partition follow each other.
///
/// A partition is written when it is complete, or when the memory for pending ones runs out; if more of it comes after
/// that, it is read back. `.zmetadata` is written last: without it a folder is not a store.
#[derive(Debug)]
pub(crate) struct ParquetWriter {
    target: SharedStore,
    metadata: Arc<Metadata>,
    open: BTreeMap<(usize, u64), Filling>,
    /// Partitions that were written, with the number of their references.
    closed: BTreeMap<(usize, u64), u64>,
    memory: usize,
    held: usize,
    clock: u64,
    report: Written,
}

/// A pending partition.
#[derive(Debug, Default)]
struct Filling {
    rows: Vec<ReferenceRow>,
    urls: Vec<ByteArray>,
    known: HashMap<Arc<str>, usize>,
    raws: Vec<ByteArray>,
    /// Approximate size in memory.
    bytes: usize,
    used: u64,
}

#[derive(Debug, Clone, Copy)]
struct ReferenceRow {
    row: u64,
    what: RowContent,
}

#[derive(Debug, Clone, Copy)]
enum RowContent {
    Url { url: usize, offset: i64, size: i64 },
    Raw(usize),
}

impl ParquetWriter {
    /// Into the folder that `target` is rooted at, which should be empty. `documents` are those of all nodes by key
    /// (`v/.zarray`), `record_size` the rows per partition.
    pub(crate) fn new(
        target: SharedStore,
        record_size: u64,
        documents: impl IntoIterator<Item = (String, Json)>,
    ) -> Result<Self> {
        // GDAL keeps the number in 32 bits.
        if record_size == 0 || i32::try_from(record_size).is_err() {
            return Err(usage!("the rows per partition must be 1 to {}, not {record_size}", i32::MAX));
        }
        let metadata = Arc::new(Metadata::new(documents, record_size));
        Ok(Self {
            target,
            metadata,
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            memory: MEMORY,
            held: 0,
            clock: 0,
            report: Written::default(),
        })
    }

    /// With another memory limit for pending partitions.
    #[cfg(test)]
    pub(crate) fn with_memory(self, bytes: usize) -> Self {
        Self { memory: bytes, ..self }
    }

    /// Adds the reference of `key`; if it comes twice, the last wins. Documents, given before, are skipped.
    pub(crate) async fn put(&mut self, key: &str, location: &Location) -> Result<()> {
        if key == ZMETADATA || self.metadata.documents.contains_key(key) {
            return Ok(());
        }
        let Some(KeyPlace { array, chunk }) = self.metadata.place(key).map_err(|e| e.with_key(key))? else {
            self.report.left_out += 1;
            if self.report.examples.len() < 5 {
                self.report.examples.push(key.to_owned());
            }
            return Ok(());
        };
        let (partition, row) = (chunk / self.metadata.record_size, chunk % self.metadata.record_size);
        let at = (array, partition);
        if !self.open.contains_key(&at) && self.closed.contains_key(&at) {
            self.reopen(at).await?;
        }
        self.clock += 1;
        let filling = self.open.entry(at).or_default();
        filling.used = self.clock;
        let before = filling.bytes;
        filling.add(row, location).map_err(|e| e.with_key(key))?;
        self.held = self.held.saturating_add(filling.bytes.saturating_sub(before));
        if u64_of(filling.rows.len()) >= self.rows(at) {
            self.close(at).await?;
        }
        while self.held > self.memory {
            let oldest = self.open.iter().min_by_key(|(_, f)| f.used).map(|(at, _)| *at);
            let Some(oldest) = oldest else { break };
            self.close(oldest).await?;
        }
        Ok(())
    }

    /// Writes pending partitions, and `.zmetadata`. An archive still has to be [finished](crate::store::Store::finish).
    pub(crate) async fn finish(mut self) -> Result<Written> {
        while let Some(at) = self.open.keys().next().copied() {
            self.close(at).await?;
        }
        let text = self.metadata.zmetadata(Some(self.metadata.record_size));
        let put = self.target.put(ZMETADATA, text.into(), Condition::Always).await?;
        refused(put.is_done(), ZMETADATA, &self.target)?;
        self.report.references = self.closed.values().sum();
        self.report.partitions = u64_of(self.closed.len());
        Ok(self.report)
    }

    /// How many rows a partition has: no more than the array has chunks.
    fn rows(&self, (array, partition): (usize, u64)) -> u64 {
        let size = self.metadata.record_size;
        let total = self.metadata.layouts.get(array).map_or(0, |l| l.total);
        size.min(total.saturating_sub(partition.saturating_mul(size)))
    }

    fn key(&self, (array, partition): (usize, u64)) -> Result<String> {
        let layout =
            self.metadata.layouts.get(array).ok_or_else(|| Error::invalid("there is no such array"))?;
        Ok(partition_key(&layout.path, partition))
    }

    async fn close(&mut self, at: (usize, u64)) -> Result<()> {
        let Some(filling) = self.open.remove(&at) else { return Ok(()) };
        self.held = self.held.saturating_sub(filling.bytes);
        let key = self.key(at)?;
        let fault =
            |e: ParquetError| Error::invalid("the references cannot be written as Parquet").with_source(e);
        let (bytes, count) = filling.encode(self.rows(at)).map_err(|e| fault(e).with_key(&key))?;
        let put = self.target.put(&key, bytes, Condition::Always).await?;
        refused(put.is_done(), &key, &self.target)?;
        self.closed.insert(at, count);
        Ok(())
    }

    /// Reads back a partition that was written before it was complete.
    async fn reopen(&mut self, at: (usize, u64)) -> Result<()> {
        let (array, partition) = at;
        let map = ParquetMap::new(self.target.clone(), self.metadata.clone(), &Context::shared());
        let first = partition.saturating_mul(self.metadata.record_size);
        let mut filling = Filling::default();
        let mut found = map.chunks(array, first..first.saturating_add(self.rows(at)));
        while let Some((key, location)) = found.try_next().await? {
            let Some(place) = self.metadata.place(&key)? else { continue };
            filling.add(place.chunk % self.metadata.record_size, &location)?;
        }
        self.held = self.held.saturating_add(filling.bytes);
        self.open.insert(at, filling);
        Ok(())
    }
}

fn refused(done: bool, key: &str, target: &SharedStore) -> Result<()> {
    if done {
        Ok(())
    } else {
        Err(Error::conflict("the store refused the object").with_key(key).with_store(target))
    }
}

impl Filling {
    fn add(&mut self, row: u64, location: &Location) -> Result<()> {
        let what = match location {
            Location::Inline(bytes) => self.raw(bytes),
            Location::Remote(remote) => self.url(remote)?,
        };
        self.rows.push(ReferenceRow { row, what });
        self.bytes = self.bytes.saturating_add(size_of::<ReferenceRow>());
        Ok(())
    }

    fn raw(&mut self, bytes: &Bytes) -> RowContent {
        // What begins like the text of bytes would be taken for it.
        let raw = if bytes.starts_with(TEXT) {
            let mut text = TEXT.to_vec();
            text.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            ByteArray::from(text)
        } else {
            ByteArray::from(bytes.to_vec())
        };
        self.bytes = self.bytes.saturating_add(raw.len()).saturating_add(size_of::<ByteArray>() + 32);
        self.raws.push(raw);
        RowContent::Raw(self.raws.len() - 1)
    }

    fn url(&mut self, remote: &Remote) -> Result<RowContent> {
        if remote.url.is_empty() {
            return Err(Error::unsupported(
                "a Parquet reference must name its object; this one has no address",
            ));
        }
        if remote.pin.as_ref().is_some_and(|pin| pin.version.is_some()) {
            return Err(Error::unsupported("Parquet references cannot store the version of an object")
                .within(remote.to_string()));
        }
        let (offset, size) = match remote.span {
            None => (0, 0),
            // All of the file is what these numbers would mean.
            Some(span) if span.offset == 0 && span.length == 0 => return Ok(self.raw(&Bytes::new())),
            Some(span) => match (i64::try_from(span.offset), i64::try_from(span.length)) {
                (Ok(offset), Ok(size)) => (offset, size),
                _ => {
                    return Err(
                        Error::invalid("the range does not fit into 63 bits").within(remote.to_string())
                    );
                }
            },
        };
        let url = match self.known.get(&*remote.url) {
            Some(url) => *url,
            None => {
                let cost = remote.url.len().saturating_mul(2).saturating_add(128);
                self.bytes = self.bytes.saturating_add(cost);
                self.urls.push(ByteArray::from(remote.url.as_bytes().to_vec()));
                self.known.insert(remote.url.clone(), self.urls.len() - 1);
                self.urls.len() - 1
            }
        };
        Ok(RowContent::Url { url, offset, size })
    }

    /// The file, with `total` rows, and how many references it holds.
    fn encode(mut self, total: u64) -> Result<(Bytes, u64), ParquetError> {
        // Of those with one row the last counts: the sort keeps their order.
        self.rows.sort_by_key(|r| r.row);
        self.rows.reverse();
        self.rows.dedup_by_key(|r| r.row);
        self.rows.reverse();
        // Addresses repeat; and pandas, behind fastparquet, makes NaN of gaps in a column of text without a dictionary.
        let properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("zaro".to_owned())
            .set_statistics_enabled(EnabledStatistics::None)
            // Without these, fastparquet does not see that there are no nulls, and makes floats of the numbers.
            .set_column_statistics_enabled("offset".into(), EnabledStatistics::Chunk)
            .set_column_statistics_enabled("size".into(), EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_dictionary_enabled(false)
            .set_column_dictionary_enabled("path".into(), true)
            .set_dictionary_page_size_limit(usize::MAX)
            .build();
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        let path = |what: RowContent| match what {
            RowContent::Url { url, .. } => self.urls.get(url).cloned(),
            RowContent::Raw(_) => None,
        };
        let raw = |what: RowContent| match what {
            RowContent::Raw(raw) => self.raws.get(raw).cloned(),
            RowContent::Url { .. } => None,
        };
        let number = |what: RowContent, second: bool| match what {
            RowContent::Url { size, .. } if second => size,
            RowContent::Url { offset, .. } => offset,
            RowContent::Raw(_) => 0,
        };
        texts(&mut group, &self.rows, total, path)?;
        numbers(&mut group, &self.rows, total, |what| number(what, false))?;
        numbers(&mut group, &self.rows, total, |what| number(what, true))?;
        texts(&mut group, &self.rows, total, raw)?;
        group.close()?;
        Ok((file.into_inner()?.into(), u64_of(self.rows.len())))
    }
}

/// Calls `see` with all rows in batches: the number of the first, how many, and those that exist.
fn batches(
    rows: &[ReferenceRow],
    total: u64,
    mut see: impl FnMut(u64, usize, &[ReferenceRow]) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let mut left = rows;
    let mut first = 0;
    while first < total {
        let count = BATCH.min(total - first);
        let here = left.partition_point(|r| r.row < first + count);
        let (now, later) = left.split_at(here);
        see(first, usize_of(count).map_err(|e| ParquetError::General(e.to_string()))?, now)?;
        left = later;
        first += count;
    }
    Ok(())
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn texts(
    group: &mut Group<'_>,
    rows: &[ReferenceRow],
    total: u64,
    value: impl Fn(RowContent) -> Option<ByteArray>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    batches(rows, total, |first, count, rows| {
        levels.clear();
        levels.resize(count, 0i16);
        values.clear();
        for row in rows {
            let slot = usize::try_from(row.row - first).ok().and_then(|n| levels.get_mut(n));
            if let (Some(slot), Some(value)) = (slot, value(row.what)) {
                *slot = 1;
                values.push(value);
            }
        }
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).map(|_| ())
    })?;
    column.close()
}

fn numbers(
    group: &mut Group<'_>,
    rows: &[ReferenceRow],
    total: u64,
    value: impl Fn(RowContent) -> i64,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let mut values = Vec::new();
    batches(rows, total, |first, count, rows| {
        values.clear();
        values.resize(count, 0i64);
        for row in rows {
            if let Some(slot) = usize::try_from(row.row - first).ok().and_then(|n| values.get_mut(n)) {
                *slot = value(row.what);
            }
        }
        column.typed::<Int64Type>().write_batch(&values, None, None).map(|_| ())
    })?;
    column.close()
}

/// The documents of all nodes.
pub(in crate::reference) async fn documents(source: &ReferenceStore) -> Result<Vec<(String, Json)>> {
    let mut out = Vec::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let mut is_array = false;
        for name in ["zarr.json", ".zgroup", ".zarray", ".zattrs"] {
            let key = join(&path, name);
            let Some(text) = source.get(&key, None).await? else { continue };
            let document = Json::parse(&text).map_err(|e| e.with_key(&key).with_store(source))?.value;
            let kind = document.get("node_type").and_then(Json::as_str);
            is_array |= name == ".zarray" || kind == Some("array");
            out.push((key, document));
        }
        if !is_array {
            let below = source.map().list(&path).await?.prefixes;
            open.extend(below.iter().map(|name| join(&path, name)));
        }
    }
    Ok(out)
}
