//! Reads, checks, decompresses and decodes the pages of a Parquet column.

use std::ops::Range;

use bytes::Bytes;

use super::decode::{Heap, Hybrid, PageValues};
use super::footer::ColumnChunk;
use super::thrift::{Thrift, ThriftField, kind};
use crate::codec::config::Config;
use crate::codec::gzip::Gzip;
use crate::codec::zstd;
use crate::codec::{BytesToBytes, OutputSize};
use crate::error::{Error, Result, invalid, unsupported};
use crate::num::{u64_of, usize_of};
use crate::store::{ByteRange, ObjectMeta, SharedStore};

/// Columns of a row group up to this size are fetched whole.
const WHOLE: u64 = 4 << 20;

/// Longer ones are fetched in windows of this size.
const WINDOW: u64 = 1 << 20;

/// The size of the first window, to see what their pages are like.
const FIRST: u64 = 64 << 10;

/// Maximum length of a page header: statistics can be long, but not so long.
const MAX_HEADER: u64 = 16 << 20;

/// Upper bound of snappy's compression ratio.
const SNAPPY_RATIO: usize = 64;

/// The file that pages are read from.
#[derive(Debug)]
pub(super) struct PageSource<'a> {
    pub(super) store: &'a SharedStore,
    pub(super) key: &'a str,
    /// All its bytes, if they were read.
    pub(super) whole: Option<&'a Bytes>,
    /// The version to read.
    pub(super) state: &'a ObjectMeta,
}

impl PageSource<'_> {
    /// Several parts at once.
    pub(super) async fn get_all(&self, spans: &[(u64, u64)]) -> Result<Vec<Bytes>> {
        if let Some(whole) = self.whole {
            let cut = |&(offset, length): &(u64, u64)| {
                let (start, length) = ByteRange::span(offset, length).resolve(u64_of(whole.len()))?;
                let start = usize_of(start)?;
                Ok(whole.slice(start..start.saturating_add(usize_of(length)?)))
            };
            return spans.iter().map(cut).collect();
        }
        let ranges: Vec<_> = spans.iter().map(|&(offset, length)| ByteRange::span(offset, length)).collect();
        let found = self.store.get_ranges(self.key, &ranges, Some(self.state)).await?;
        found.map(|(parts, _)| parts).ok_or_else(|| Error::io("the file was deleted since it was opened"))
    }

    async fn get(&self, offset: u64, length: u64) -> Result<Bytes> {
        let mut parts = self.get_all(&[(offset, length)]).await?;
        parts.pop().ok_or_else(|| Error::io("the store returned fewer ranges than requested"))
    }
}

/// The first bytes of `chunk` to fetch, before its pages are known.
pub(super) fn first_span(chunk: &ColumnChunk) -> (u64, u64) {
    (chunk.start, if chunk.length <= WHOLE { chunk.length } else { FIRST })
}

/// A parsed page header.
#[derive(Debug, Clone, Copy, Default)]
struct PageHeader {
    kind: i64,
    unpacked: usize,
    packed: u64,
    crc: Option<u32>,
    /// Values, nulls included: a row each, since no column is nested.
    rows: u64,
    encoding: i64,
    /// The encoding of the levels of a data page of the first version.
    levels: i64,
    nulls: i64,
    /// The lengths of the levels of a data page of the second version.
    level_bytes: usize,
    repeat_bytes: usize,
    packed_values: bool,
}

const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_2: i64 = 3;

/// Parses a header; returns its length, too.
fn header(bytes: &[u8]) -> Option<(PageHeader, usize)> {
    let mut h = PageHeader { packed_values: true, kind: -1, ..PageHeader::default() };
    let mut t = Thrift::new(bytes);
    let length = |n: i64| usize::try_from(n).ok();
    t.fields(|t, field: ThriftField| {
        match (field.id, field.kind) {
            (1, _) => h.kind = t.int()?,
            (2, _) => h.unpacked = length(t.int()?)?,
            (3, _) => h.packed = u64::try_from(t.int()?).ok()?,
            (4, _) => h.crc = Some(i32::try_from(t.int()?).ok()?.cast_unsigned()),
            (5 | 7, kind::STRUCT) => t.fields(|t, field| {
                match field.id {
                    1 => h.rows = u64::try_from(t.int()?).ok()?,
                    2 => h.encoding = t.int()?,
                    3 if !matches!(field.kind, kind::TRUE | kind::FALSE) => h.levels = t.int()?,
                    _ => return Some(false),
                }
                Some(true)
            })?,
            (8, kind::STRUCT) => t.fields(|t, field| {
                match field.id {
                    2 => h.nulls = t.int()?,
                    3 => h.rows = u64::try_from(t.int()?).ok()?,
                    4 => h.encoding = t.int()?,
                    5 => h.level_bytes = length(t.int()?)?,
                    6 => h.repeat_bytes = length(t.int()?)?,
                    7 => h.packed_values = field.kind == kind::TRUE,
                    _ => return Some(false),
                }
                Some(true)
            })?,
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some((h, t.position()))
}

/// Iterates over the pages of a column.
#[derive(Debug)]
pub(super) struct ColumnWalk<'a> {
    file: &'a PageSource<'a>,
    chunk: &'a ColumnChunk,
    /// The window fetched last, and its offset.
    held: (u64, Bytes),
    end: u64,
}

impl<'a> ColumnWalk<'a> {
    /// Over `chunk`, of which the bytes that [`first_span`] asks for are `first`.
    pub(super) fn new(file: &'a PageSource<'a>, chunk: &'a ColumnChunk, first: Bytes) -> Self {
        Self { file, chunk, held: (chunk.start, first), end: chunk.start.saturating_add(chunk.length) }
    }

    fn damaged(&self, what: &str) -> Error {
        invalid!("the column {:?} {what}", self.chunk.role.name())
    }

    /// `length` bytes from `offset` on, which must lie within the column.
    async fn need(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let end = offset.checked_add(length).filter(|end| *end <= self.end);
        let end = end.ok_or_else(|| self.damaged("ends in the middle of a page"))?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let (start, bytes) = &self.held;
        if offset < *start || end > start.saturating_add(u64_of(bytes.len())) {
            let fetched = self.file.get(offset, length.max(WINDOW).min(self.end - offset)).await?;
            self.held = (offset, fetched);
        }
        let (start, bytes) = &self.held;
        let from = usize_of(offset - start)?;
        let to = from.saturating_add(usize_of(length)?);
        if to > bytes.len() {
            return Err(Error::io("the store returned fewer bytes than requested"));
        }
        Ok(bytes.slice(from..to))
    }

    /// The header at `at`, and its length.
    async fn header(&mut self, at: u64) -> Result<(PageHeader, u64)> {
        let left = self.end.saturating_sub(at);
        // What is held of it costs nothing; mostly it is all of it.
        let (start, held) = &self.held;
        let here = start.saturating_add(u64_of(held.len())).saturating_sub(at);
        let mut length = if at >= *start && here > 0 { here.min(left) } else { left.min(WINDOW) };
        loop {
            let bytes = self.need(at, length).await?;
            if let Some((header, read)) = header(&bytes) {
                return Ok((header, u64_of(read)));
            }
            if length >= left.min(MAX_HEADER) {
                return Err(self.damaged("has a damaged page header"));
            }
            length = length.saturating_mul(8).max(1 << 16).min(left.min(MAX_HEADER));
        }
    }

    /// Reads the `wanted` rows of a row group of `rows` into `out`, one cell per row.
    pub(super) async fn rows(
        &mut self,
        rows: u64,
        wanted: Range<u64>,
        out: &mut [i64],
        heap: &mut Heap,
    ) -> Result<()> {
        let mut jump = self.jump(&wanted).await?;
        let mut at = self.chunk.start;
        let mut row = 0u64;
        let mut cells: Option<Vec<i64>> = None;
        while row < wanted.end {
            if at >= self.end {
                return Err(self.damaged("has fewer rows than its row group"));
            }
            let (header, length) = self.header(at).await?;
            let body = at.saturating_add(length);
            let next =
                body.checked_add(header.packed).ok_or_else(|| self.damaged("has a page that is too long"))?;
            if header.kind == DICTIONARY {
                if cells.is_some() {
                    return Err(self.damaged("has two dictionaries"));
                }
                let page = self.body(&header, body).await?;
                let page = self.unpack(&page, header.unpacked)?;
                let read = heap.dictionary(&page, header.rows, self.chunk.physical);
                cells = Some(read.ok_or_else(|| self.damaged("has a damaged dictionary"))?);
            } else if matches!(header.kind, DATA | DATA_2) {
                if let Some((offset, first)) = jump.take().filter(|(offset, _)| *offset > at) {
                    (at, row) = (offset, first);
                    continue;
                }
                let end = row.saturating_add(header.rows);
                if end > rows {
                    return Err(self.damaged("has more rows than its row group"));
                }
                if end > wanted.start && end > row {
                    let from = wanted.start.max(row);
                    let to = wanted.end.min(end);
                    let (start, stop) = (usize_of(from - wanted.start)?, usize_of(to - wanted.start)?);
                    let slots = out
                        .get_mut(start..stop)
                        .ok_or_else(|| Error::invalid("rows outside of their block"))?;
                    let page = self.body(&header, body).await?;
                    self.data(&header, &page, from - row, slots, cells.as_deref(), heap)?;
                }
                row = end;
            }
            at = next;
        }
        Ok(())
    }

    /// The offset of the page that holds the first wanted row, and its first row: from the page index, where a long
    /// column has one.
    async fn jump(&self, wanted: &Range<u64>) -> Result<Option<(u64, u64)>> {
        let Some((offset, length)) = self.chunk.index else { return Ok(None) };
        if self.chunk.length <= WHOLE || wanted.start == 0 || length > MAX_HEADER {
            return Ok(None);
        }
        let bytes = self.file.get(offset, length).await?;
        let mut best = None;
        let read = Thrift::new(&bytes).fields(|t, field| {
            if (field.id, field.kind) != (1, kind::LIST) {
                return Some(false);
            }
            let (_, count) = t.list()?;
            for _ in 0..count {
                let (mut at, mut row) = (0, 0);
                t.fields(|t, field| {
                    match field.id {
                        1 => at = u64::try_from(t.int()?).ok()?,
                        3 => row = u64::try_from(t.int()?).ok()?,
                        _ => return Some(false),
                    }
                    Some(true)
                })?;
                if row <= wanted.start {
                    best = Some((at, row));
                }
            }
            Some(true)
        });
        match (read, best) {
            (Some(()), best) if best.is_none_or(|(at, _)| at >= self.chunk.start && at < self.end) => {
                Ok(best)
            }
            _ => Err(self.damaged("has a damaged page index")),
        }
    }

    /// The stored bytes of a page, checked if there is a checksum.
    async fn body(&mut self, header: &PageHeader, at: u64) -> Result<Bytes> {
        let bytes = self.need(at, header.packed).await?;
        if header.crc.is_some_and(|crc| crc != crc32fast::hash(&bytes)) {
            return Err(self.damaged("has a page with a wrong checksum"));
        }
        Ok(bytes)
    }

    /// The rows of a data page from row `skip` on, as many as there are `slots`.
    fn data(
        &self,
        header: &PageHeader,
        page: &Bytes,
        skip: u64,
        slots: &mut [i64],
        cells: Option<&[i64]>,
        heap: &mut Heap,
    ) -> Result<()> {
        let cut = || self.damaged("has a page that is too short");
        let unpacked;
        let (levels, values) = if header.kind == DATA {
            unpacked = self.unpack(page, header.unpacked)?;
            if self.chunk.optional {
                if header.levels != 3 {
                    return Err(unsupported!("unknown Parquet encoding of levels ({})", header.levels));
                }
                let (length, rest) = unpacked.split_first_chunk::<4>().ok_or_else(cut)?;
                let length = usize_of(u64::from(u32::from_le_bytes(*length)))?;
                let (levels, values) = rest.split_at_checked(length).ok_or_else(cut)?;
                (Some(levels), values)
            } else {
                (None, &*unpacked)
            }
        } else {
            let rest = page.get(header.repeat_bytes..).ok_or_else(cut)?;
            let (levels, rest) = rest.split_at_checked(header.level_bytes).ok_or_else(cut)?;
            let stored = header.repeat_bytes.saturating_add(header.level_bytes);
            if header.packed_values {
                let left = header.unpacked.checked_sub(stored).ok_or_else(cut)?;
                unpacked = self.unpack(&page.slice_ref(rest), left)?;
            } else {
                unpacked = page.slice_ref(rest);
            }
            // Some writers leave the levels out where nothing is null.
            let some = self.chunk.optional && !(levels.is_empty() && header.nulls == 0);
            (some.then_some(levels), &*unpacked)
        };
        let levels = match levels {
            Some(bytes) => Hybrid::new(bytes, 1).ok_or_else(cut)?,
            None => Hybrid::constant(1),
        };
        let Some(values) = PageValues::new(values, header.encoding, self.chunk.physical, cells) else {
            let name = self.chunk.role.name();
            return Err(unsupported!("unknown Parquet encoding of column {name:?} ({})", header.encoding));
        };
        let damaged = || self.damaged("has damaged values");
        take(levels, values.ok_or_else(damaged)?, skip, slots, heap).ok_or_else(damaged)
    }

    fn unpack(&self, bytes: &Bytes, length: usize) -> Result<Bytes> {
        unpack(self.chunk.codec, bytes, length)
            .map_err(|e| e.within(format!("a page of the column {:?}", self.chunk.role.name())))
    }
}

/// Fills `slots` with the values of rows from `skip` on; rows that are null are left as they are.
fn take(
    mut levels: Hybrid<'_>,
    mut values: PageValues<'_>,
    mut skip: u64,
    slots: &mut [i64],
    heap: &mut Heap,
) -> Option<()> {
    while skip > 0 {
        let (n, level) = levels.take(skip)?;
        if level == 1 {
            values.skip(n)?;
        }
        skip -= n;
    }
    let mut slots = slots;
    while !slots.is_empty() {
        // Packed levels come one by one; values are taken in runs.
        let mut run = 0usize;
        let mut null = 0usize;
        while run < slots.len() {
            let (n, level) = levels.take(u64_of(slots.len() - run))?;
            let n = usize_of(n).ok()?;
            if level != 1 {
                null = n;
                break;
            }
            run += n;
        }
        let (now, later) = slots.split_at_mut(run);
        values.fill(now, heap)?;
        slots = later.get_mut(null..)?;
    }
    Some(())
}

/// Decompresses a page; `length` is the size in its header.
fn unpack(codec: i64, bytes: &Bytes, length: usize) -> Result<Bytes> {
    let too_much = |ratio: usize| {
        if length > bytes.len().saturating_mul(ratio).saturating_add(1 << 10) {
            return Err(invalid!("{} bytes cannot decompress to {length}", bytes.len()));
        }
        Ok(())
    };
    if codec != 0 && length == 0 {
        return Ok(Bytes::new());
    }
    match codec {
        0 => Ok(bytes.clone()),
        1 => {
            too_much(SNAPPY_RATIO)?;
            let fault = |e: snap::Error| Error::invalid("snappy: the block is damaged").with_source(e);
            if snap::raw::decompress_len(bytes).map_err(fault)? != length {
                return Err(Error::invalid("snappy: the length of the block differs from that of its page"));
            }
            Ok(snap::raw::Decoder::new().decompress_vec(bytes).map_err(fault)?.into())
        }
        2 => {
            let gzip = Gzip::from_config(&Config::new(&[]), false)?;
            Ok(gzip.decode(bytes, OutputSize::Exact(length))?.into())
        }
        6 => {
            too_much(1 << 15)?;
            let mut out = vec![0; length];
            let n = zstd::decompress(bytes, &mut out)?;
            OutputSize::Exact(length).check(n)?;
            Ok(out.into())
        }
        n => {
            let name = match n {
                3 => "LZO",
                4 => "Brotli",
                5 | 7 => "LZ4",
                _ => "an unknown method",
            };
            Err(unsupported!("compressed with {name}; supported are none, snappy, gzip and zstd"))
        }
    }
}
