//! Rows of a partition in a compact in-memory form, and the location that each stands for.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use bytes::Bytes;

use super::decode::{Heap, NULL, Raws};
use super::footer::{Footer, ReferenceColumn, RowBlock};
use super::page::{ColumnWalk, PageSource, first_span};
use crate::codec::base64::ENGINE;
use crate::error::{Error, Result, invalid};
use crate::num::{u64_of, usize_of};
use crate::reference::{Location, Remote, Span};

/// Prefix of raw bytes that are base64, as in JSON.
pub(super) const TEXT: &[u8] = b"base64:";

/// Neighbouring rows.
#[derive(Debug, Default)]
pub(super) struct ColumnRows {
    /// The first of them in the file.
    first: u64,
    count: usize,
    path: ColumnCells,
    offset: ColumnCells,
    size: ColumnCells,
    raw: ColumnCells,
    urls: Vec<Arc<str>>,
    raws: Raws,
}

/// One column, in the narrowest form its values allow.
#[derive(Debug)]
enum ColumnCells {
    /// The same in every row.
    One(i64),
    /// Never null.
    Narrow(Vec<u32>),
    Wide(Vec<i64>),
}

impl Default for ColumnCells {
    fn default() -> Self {
        Self::One(NULL)
    }
}

impl ColumnCells {
    fn pack(cells: Vec<i64>) -> Self {
        let first = cells.first().copied().unwrap_or(NULL);
        if cells.iter().all(|c| *c == first) {
            return Self::One(first);
        }
        match cells.iter().map(|c| u32::try_from(*c)).collect() {
            Ok(narrow) => Self::Narrow(narrow),
            Err(_) => Self::Wide(cells),
        }
    }

    fn get(&self, at: usize) -> i64 {
        match self {
            Self::One(cell) => *cell,
            Self::Narrow(cells) => cells.get(at).map_or(NULL, |c| i64::from(*c)),
            Self::Wide(cells) => cells.get(at).copied().unwrap_or(NULL),
        }
    }

    fn cost(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Narrow(cells) => cells.len().saturating_mul(4),
            Self::Wide(cells) => cells.len().saturating_mul(8),
        }
    }
}

impl ColumnRows {
    /// Reads the rows of `block`.
    pub(super) async fn read(file: &PageSource<'_>, footer: &Footer, block: RowBlock) -> Result<Self> {
        let end = block.first.saturating_add(block.rows);
        let count = usize_of(block.rows)?;
        let groups: Vec<_> = footer
            .groups
            .iter()
            .filter(|g| g.rows > 0 && g.first < end && g.first.saturating_add(g.rows) > block.first)
            .collect();
        let spans: Vec<_> = groups.iter().flat_map(|g| g.chunks.iter().map(first_span)).collect();
        let mut fetched = file.get_all(&spans).await?.into_iter();
        let mut columns = ReferenceColumn::ALL.map(|role| (role, None::<Vec<i64>>, heap(role)));
        for group in groups {
            let from = block.first.max(group.first);
            let to = end.min(group.first.saturating_add(group.rows));
            let (start, stop) = (usize_of(from - block.first)?, usize_of(to - block.first)?);
            for chunk in &group.chunks {
                let first = fetched
                    .next()
                    .ok_or_else(|| Error::io("the store returned fewer ranges than requested"))?;
                let Some((_, cells, heap)) = columns.iter_mut().find(|(role, ..)| *role == chunk.role) else {
                    continue;
                };
                let cells = cells.get_or_insert_with(|| vec![NULL; count]);
                let out = cells.get_mut(start..stop).unwrap_or_default();
                let wanted = from - group.first..to - group.first;
                ColumnWalk::new(file, chunk, first).rows(group.rows, wanted, out, heap).await?;
            }
        }
        let mut rows = Self { first: block.first, count, ..Self::default() };
        for (role, cells, heap) in columns {
            let packed = ColumnCells::pack(cells.unwrap_or_default());
            match role {
                ReferenceColumn::Path => rows.path = packed,
                ReferenceColumn::Offset => rows.offset = packed,
                ReferenceColumn::Size => rows.size = packed,
                ReferenceColumn::Raw => rows.raw = packed,
            }
            match heap {
                Heap::Numbers => {}
                Heap::Urls { list, .. } => rows.urls = list,
                Heap::Raws { bytes, ends } => rows.raws = Raws::new(bytes, ends),
            }
        }
        Ok(rows)
    }

    /// The rows, by their numbers in the file.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        self.first..self.first.saturating_add(u64_of(self.count))
    }

    /// The location of `row` of the file, which belongs to the array at `near`.
    pub(super) fn locate(&self, row: u64, near: &Arc<str>) -> Result<Option<Location>> {
        let Some(at) = row.checked_sub(self.first).and_then(|n| usize_of(n).ok()).filter(|n| *n < self.count)
        else {
            return Ok(None);
        };
        let lost = || invalid!("row {row} has a value that was not read");
        let raw = self.raw.get(at);
        if raw != NULL {
            let raw = usize::try_from(raw).ok().and_then(|id| self.raws.get(id)).ok_or_else(lost)?;
            return inline(raw).map(|bytes| Some(Location::Inline(bytes)));
        }
        let path = self.path.get(at);
        if path == NULL {
            return Ok(None);
        }
        let url = usize::try_from(path).ok().and_then(|id| self.urls.get(id)).ok_or_else(lost)?;
        let span = span(self.offset.get(at), self.size.get(at))
            .map_err(|e| e.within(format!("row {row}, {url}")))?;
        Ok(Some(Location::Remote(Remote { url: url.clone(), span, pin: None, near: Some(near.clone()) })))
    }

    /// Approximate size in memory.
    pub(super) fn cost(&self) -> usize {
        let cells =
            [&self.path, &self.offset, &self.size, &self.raw].map(ColumnCells::cost).iter().sum::<usize>();
        let urls: usize = self.urls.iter().map(|url| url.len().saturating_add(32)).sum();
        cells.saturating_add(urls).saturating_add(self.raws.cost())
    }
}

fn heap(role: ReferenceColumn) -> Heap {
    match role {
        ReferenceColumn::Offset | ReferenceColumn::Size => Heap::Numbers,
        ReferenceColumn::Path => Heap::Urls { list: Vec::new(), known: HashMap::new() },
        ReferenceColumn::Raw => Heap::Raws { bytes: Vec::new(), ends: Vec::new() },
    }
}

/// Inline bytes, decoded if they have the base64 prefix.
fn inline(raw: Bytes) -> Result<Bytes> {
    match raw.strip_prefix(TEXT) {
        None => Ok(raw),
        Some(text) => {
            let text: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
            let decoded = ENGINE.decode(&text);
            Ok(decoded
                .map_err(|e| Error::invalid("the raw bytes are not valid base64").with_source(e))?
                .into())
        }
    }
}

/// The byte range; `None` for the whole object, if both numbers are 0 or missing.
fn span(offset: i64, size: i64) -> Result<Option<Span>> {
    match (offset, size) {
        (NULL | 0, NULL | 0) => Ok(None),
        (NULL, _) | (_, NULL) => Err(Error::invalid("offset and size must be given together")),
        (offset, size) => match (u64::try_from(offset), u64::try_from(size)) {
            (Ok(offset), Ok(length)) => Ok(Some(Span { offset, length })),
            _ => Err(Error::invalid("offset and size must be non-negative integers")),
        },
    }
}
