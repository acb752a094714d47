//! Parses the footer of a Parquet file: its columns and where their bytes are.
//!
//! Keeps only what is needed to find rows: statistics, key-value metadata and other columns are skipped.

use super::thrift::{Thrift, ThriftField, kind};
use crate::error::{Error, Result, invalid, unsupported};
use crate::num::usize_of;

/// The last bytes of every Parquet file: the length of the footer, and this.
const MAGIC: &[u8; 4] = b"PAR1";

/// The same of a file whose footer is encrypted.
const ENCRYPTED: &[u8; 4] = b"PARE";

/// The length of the footer, and the magic.
pub(super) const TAIL: usize = 8;

/// Maximum length of a footer; four columns need far less.
const MAX_FOOTER: u64 = 64 << 20;

/// Row groups with fewer rows than this are read together with their neighbours.
const JOINED_ROWS: u64 = 1 << 13;

/// Row groups with more rows than this are read in parts.
pub(super) const BLOCK_ROWS: u64 = 1 << 17;

/// The columns of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceColumn {
    Path,
    Offset,
    Size,
    Raw,
}

impl ReferenceColumn {
    pub(super) const ALL: [Self; 4] = [Self::Path, Self::Offset, Self::Size, Self::Raw];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Offset => "offset",
            Self::Size => "size",
            Self::Raw => "raw",
        }
    }

    fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"path" => Some(Self::Path),
            b"offset" => Some(Self::Offset),
            b"size" | b"length" => Some(Self::Size),
            b"raw" => Some(Self::Raw),
            _ => None,
        }
    }
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    Int32,
    Int64,
    Float,
    Double,
    Bytes,
}

impl Physical {
    fn of(n: i64) -> Option<Self> {
        match n {
            1 => Some(Self::Int32),
            2 => Some(Self::Int64),
            4 => Some(Self::Float),
            5 => Some(Self::Double),
            6 => Some(Self::Bytes),
            _ => None,
        }
    }

    /// The bytes per value, if fixed.
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Self::Int32 | Self::Float => Some(4),
            Self::Int64 | Self::Double => Some(8),
            Self::Bytes => None,
        }
    }
}

/// The bytes of one column in one row group.
#[derive(Debug, Clone)]
pub(super) struct ColumnChunk {
    pub(super) role: ReferenceColumn,
    pub(super) physical: Physical,
    /// Whether a value may be null.
    pub(super) optional: bool,
    /// Parquet's number of the compression codec.
    pub(super) codec: i64,
    pub(super) start: u64,
    pub(super) length: u64,
    /// Where its page index is, if there is one.
    pub(super) index: Option<(u64, u64)>,
}

/// A row group.
#[derive(Debug, Clone)]
pub(super) struct RowGroup {
    /// The first of its rows in the file.
    pub(super) first: u64,
    pub(super) rows: u64,
    pub(super) chunks: Vec<ColumnChunk>,
}

/// Rows that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowBlock {
    pub(super) first: u64,
    pub(super) rows: u64,
}

/// The contents of a footer.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) groups: Vec<RowGroup>,
    pub(super) blocks: Vec<RowBlock>,
}

impl Footer {
    /// The block that holds `row`; `None` beyond the last.
    pub(super) fn block_of(&self, row: u64) -> Option<usize> {
        let after = self.blocks.partition_point(|b| b.first <= row);
        let at = after.checked_sub(1)?;
        self.blocks.get(at).filter(|b| row - b.first < b.rows).map(|_| at)
    }

    /// Approximate size in memory.
    pub(super) fn cost(&self) -> usize {
        let groups = self.groups.len().saturating_mul(size_of::<RowGroup>() + 4 * size_of::<ColumnChunk>());
        groups.saturating_add(self.blocks.len().saturating_mul(size_of::<RowBlock>()))
    }
}

/// How long the footer is, from the last bytes of a file: without [`TAIL`] itself.
pub(super) fn length(end: &[u8]) -> Result<usize> {
    let tail =
        end.last_chunk::<TAIL>().ok_or_else(|| Error::invalid("not Parquet: the file is too short"))?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic == ENCRYPTED {
        return Err(Error::unsupported("the Parquet file is encrypted"));
    }
    if magic != MAGIC {
        return Err(Error::invalid("not Parquet, or truncated: the file does not end with PAR1"));
    }
    let length = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
    if length > MAX_FOOTER {
        return Err(invalid!("invalid footer length {length}"));
    }
    usize_of(length)
}

/// A column as the schema has it.
#[derive(Debug, Clone, Copy)]
struct SchemaColumn {
    role: Option<ReferenceColumn>,
    physical: Option<Physical>,
    /// 0 required, 1 optional, 2 repeated.
    repetition: i64,
    /// Whether it lies directly below the root.
    flat: bool,
}

/// Reads the footer, given without its tail, of a file of which `limit` rows count.
pub(super) fn parse(bytes: &[u8], limit: u64) -> Result<Footer> {
    let damaged = || Error::invalid("the footer is damaged");
    let mut columns = Vec::new();
    let mut groups = Vec::new();
    let mut first = 0u64;
    let mut trouble = None;
    Thrift::new(bytes)
        .fields(|t, field| match (field.id, field.kind) {
            (2, kind::LIST) => {
                columns = schema(t)?;
                Some(true)
            }
            (4, kind::LIST) => {
                let (_, count) = t.list()?;
                for _ in 0..count {
                    match group(t, &columns, first)? {
                        Ok(group) => {
                            first = first.checked_add(group.rows)?;
                            groups.push(group);
                        }
                        Err(e) => {
                            trouble.get_or_insert(e);
                        }
                    }
                }
                Some(true)
            }
            _ => Some(false),
        })
        .ok_or_else(damaged)?;
    if let Some(e) = trouble {
        return Err(e);
    }
    let known = |c: &SchemaColumn| c.role.is_some();
    if !columns.iter().any(known) {
        return Err(Error::invalid("there is no column path, offset, size or raw"));
    }
    let blocks = blocks(&groups, limit);
    Ok(Footer { groups, blocks })
}

/// The leaf columns, in order.
fn schema(t: &mut Thrift<'_>) -> Option<Vec<SchemaColumn>> {
    let (_, count) = t.list()?;
    let mut columns = Vec::new();
    // How many elements are left of the groups that are open, outermost first; the root's come first.
    let mut open: Vec<i64> = Vec::new();
    for _ in 0..count {
        let (mut physical, mut repetition, mut role, mut children) = (None, 0, None, 0);
        t.fields(|t, field| {
            match field.id {
                1 => physical = Physical::of(t.int()?),
                3 => repetition = t.int()?,
                4 => role = ReferenceColumn::of(t.binary()?),
                5 => children = t.int()?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        while open.last() == Some(&0) {
            open.pop();
        }
        let depth = open.len();
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if children > 0 {
            open.push(children);
        } else if depth > 0 {
            columns.push(SchemaColumn { role, physical, repetition, flat: depth == 1 });
        }
    }
    Some(columns)
}

/// Parses a row group; the inner error is for a well-formed file without references.
fn group(t: &mut Thrift<'_>, columns: &[SchemaColumn], first: u64) -> Option<Result<RowGroup>> {
    let mut chunks = Vec::new();
    let mut rows = 0;
    let mut trouble = None;
    t.fields(|t, field| match (field.id, field.kind) {
        (1, kind::LIST) => {
            let (_, count) = t.list()?;
            for n in 0..count {
                match chunk(t, columns.get(n))? {
                    Ok(Some(chunk)) => chunks.push(chunk),
                    Ok(None) => {}
                    Err(e) => {
                        trouble.get_or_insert(e);
                    }
                }
            }
            Some(true)
        }
        (3, _) => {
            rows = u64::try_from(t.int()?).ok()?;
            Some(true)
        }
        _ => Some(false),
    })?;
    Some(match trouble {
        Some(e) => Err(e),
        None => Ok(RowGroup { first, rows, chunks }),
    })
}

/// Parses a column of a row group; the inner `None` is for a column that references do not have.
fn chunk(t: &mut Thrift<'_>, column: Option<&SchemaColumn>) -> Option<Result<Option<ColumnChunk>>> {
    let (mut elsewhere, mut described) = (false, false);
    let (mut index_offset, mut index_length) = (None, None);
    let (mut codec, mut length, mut data, mut dictionary) = (0, 0, 0, None);
    t.fields(|t, field| match (field.id, field.kind) {
        (1, _) => {
            elsewhere = !t.binary()?.is_empty();
            Some(true)
        }
        (3, kind::STRUCT) => {
            described = true;
            t.fields(|t, field: ThriftField| {
                match field.id {
                    4 => codec = t.int()?,
                    7 => length = t.int()?,
                    9 => data = t.int()?,
                    11 => dictionary = Some(t.int()?),
                    _ => return Some(false),
                }
                Some(true)
            })?;
            Some(true)
        }
        (4, _) => {
            index_offset = u64::try_from(t.int()?).ok();
            Some(true)
        }
        (5, _) => {
            index_length = u64::try_from(t.int()?).ok();
            Some(true)
        }
        _ => Some(false),
    })?;
    let Some(column) = column else {
        return Some(Err(Error::invalid("a row group has more columns than the schema")));
    };
    let Some(role) = column.role.filter(|_| column.flat) else { return Some(Ok(None)) };
    let name = role.name();
    let fault = |what: &str| Some(Err(invalid!("the column {name:?} {what}")));
    let Some(physical) = column.physical else { return fault("has a type that references cannot have") };
    if column.repetition > 1 {
        return fault("is a list");
    }
    if elsewhere {
        return Some(Err(unsupported!("the column {name:?} lies in another file")));
    }
    if !described {
        return Some(Err(unsupported!("the column {name:?} is encrypted, or not described")));
    }
    // Some writers say 0 for "no dictionary".
    let start = match dictionary {
        Some(d) if d > 0 && d < data => d,
        _ => data,
    };
    let (Ok(start), Ok(length)) = (u64::try_from(start), u64::try_from(length)) else {
        return fault("has a negative position");
    };
    if start.checked_add(length).is_none() {
        return fault("has a position that overflows");
    }
    let index = index_offset.zip(index_length).filter(|(_, n)| *n > 0);
    let optional = column.repetition == 1;
    Some(Ok(Some(ColumnChunk { role, physical, optional, codec, start, length, index })))
}

/// Splits the rows so that little is read for one of them: small row groups together, large ones in parts. Rows from
/// `limit` on have no chunk in the array and are left out.
fn blocks(groups: &[RowGroup], limit: u64) -> Vec<RowBlock> {
    let mut out: Vec<RowBlock> = Vec::new();
    // Whether the last block may take up more.
    let mut open = false;
    for group in groups {
        let rows = group.rows.min(limit.saturating_sub(group.first));
        match out.last_mut().filter(|b| open && b.rows.saturating_add(rows) <= JOINED_ROWS) {
            Some(last) => last.rows += rows,
            None => {
                let mut at = 0;
                while at < rows {
                    let part = BLOCK_ROWS.min(rows - at);
                    out.push(RowBlock { first: group.first.saturating_add(at), rows: part });
                    at += part;
                }
                open = rows < JOINED_ROWS;
            }
        }
    }
    out
}
