//! Parses the directories (IFDs) of TIFF files: classic TIFF and BigTIFF, either byte order.

use std::collections::HashSet;

use crate::error::{Error, Result, invalid};
use crate::image::source::file::{Handle, SourceFile};
use crate::num;

/// The maximum bytes of a tag's value.
const MAX_VALUE: u64 = 1 << 28;

/// The maximum tags of a directory.
const MAX_TAGS: u64 = 1 << 12;

#[derive(Debug, Clone)]
pub(super) struct Tiff {
    pub(super) input: SourceFile,
    pub(super) is_big_endian: bool,
    is_big_tiff: bool,
    first: u64,
}

/// A tag: its type, count and value or offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TagEntry {
    tag: u16,
    kind: u16,
    pub(super) count: u64,
    /// The value itself if it is short, else its offset.
    field: [u8; 8],
}

#[derive(Debug, Clone)]
pub(super) struct Ifd {
    entries: Vec<TagEntry>,
}

fn damaged(what: &str) -> Error {
    invalid!("the TIFF file is damaged: {what}")
}

impl Tiff {
    pub(super) fn open(input: SourceFile) -> Result<Self> {
        let head = input.head(16)?;
        let is_big_endian = head.first() == Some(&b'M');
        let mut tiff = Self { input, is_big_endian, is_big_tiff: false, first: 0 };
        let short = |at: usize| head.get(at..at + 2).map(|b| tiff.uint(b));
        let cut = || damaged("it ends in its header");
        let magic = short(2).ok_or_else(cut)?;
        let is_big_tiff = magic == 43;
        let first = if is_big_tiff {
            if short(4) != Some(8) {
                return Err(Error::unsupported(
                    "BigTIFF files with offsets of other than 8 bytes are not supported",
                ));
            }
            head.get(8..16)
        } else {
            head.get(4..8)
        };
        tiff.first = tiff.uint(first.ok_or_else(cut)?);
        tiff.is_big_tiff = is_big_tiff;
        Ok(tiff)
    }

    /// An unsigned number of up to eight bytes.
    fn uint(&self, bytes: &[u8]) -> u64 {
        let join = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
        if self.is_big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
    }

    /// The directory at `at`, and the offset of the next one; 0 if there is none.
    fn ifd(&self, handle: &Handle, at: u64) -> Result<(Ifd, u64)> {
        let (head, size, link) = if self.is_big_tiff { (8u64, 20u64, 8u64) } else { (2, 12, 4) };
        let count = self.uint(&handle.bytes(at, num::usize_of(head)?)?);
        if count == 0 || count > MAX_TAGS {
            return Err(damaged(&format!("a directory has {count} tags")));
        }
        let start = at.saturating_add(head);
        let tags = count.saturating_mul(size);
        let bytes = handle.bytes(start, num::usize_of(tags)?)?;
        let entry = |b: &[u8]| -> Option<TagEntry> {
            let (count, value) = if self.is_big_tiff {
                (b.get(4..12)?, b.get(12..20)?)
            } else {
                (b.get(4..8)?, b.get(8..12)?)
            };
            let mut field = [0; 8];
            field.get_mut(..value.len())?.copy_from_slice(value);
            Some(TagEntry {
                tag: u16::try_from(self.uint(b.get(..2)?)).ok()?,
                kind: u16::try_from(self.uint(b.get(2..4)?)).ok()?,
                count: self.uint(count),
                field,
            })
        };
        let entries = bytes.chunks_exact(num::usize_of(size)?).filter_map(entry).collect();
        // Some writers omit the link at the end of the file.
        let next = match handle.bytes(start.saturating_add(tags), num::usize_of(link)?) {
            Ok(bytes) => self.uint(&bytes),
            Err(_) => 0,
        };
        Ok((Ifd { entries }, next))
    }

    /// Calls `f` for every directory of the file in order, without `SubIFDs`.
    pub(super) fn each_ifd(&self, mut f: impl FnMut(&Handle, &Ifd) -> Result<()>) -> Result<()> {
        let handle = self.input.handle()?;
        let mut seen = HashSet::new();
        let mut at = self.first;
        while at != 0 {
            if !seen.insert(at) {
                return Err(damaged("its directories form a cycle"));
            }
            let place = |e: Error| e.within(format_args!("directory {}", seen.len() - 1));
            let (ifd, next) = self.ifd(&handle, at).map_err(place)?;
            f(&handle, &ifd).map_err(place)?;
            at = next;
        }
        if seen.is_empty() {
            return Err(damaged("it has no directory"));
        }
        Ok(())
    }

    pub(super) fn value(&self, handle: &Handle, entry: &TagEntry) -> Result<Vec<u8>> {
        let place = |e: Error| e.within(format_args!("tag {}", entry.tag));
        let size = match entry.kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16 | 17 | 18 => 8,
            other => return Err(place(damaged(&format!("unknown value type {other}")))),
        };
        let length = entry.count.checked_mul(size).filter(|n| *n <= MAX_VALUE);
        let length = length.ok_or_else(|| place(damaged("a value is too large")))?;
        let inline = if self.is_big_tiff { 8 } else { 4 };
        if length <= inline {
            return Ok(entry.field.get(..num::usize_of(length)?).unwrap_or_default().to_vec());
        }
        let offset = self.uint(entry.field.get(..num::usize_of(inline)?).unwrap_or_default());
        handle.bytes(offset, num::usize_of(length)?).map_err(place)
    }

    pub(super) fn uints(&self, handle: &Handle, entry: &TagEntry) -> Result<Vec<u64>> {
        let bytes = self.value(handle, entry)?;
        let width = match entry.kind {
            1 | 7 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            other => {
                return Err(damaged(&format!("tag {} has values of type {other}, not integers", entry.tag)));
            }
        };
        Ok(bytes.chunks_exact(width).map(|b| self.uint(b)).collect())
    }

    /// The first number of a tag, if there is one.
    pub(super) fn number(&self, handle: &Handle, ifd: &Ifd, tag: u16) -> Result<Option<u64>> {
        match ifd.get(tag) {
            Some(entry) => Ok(self.uints(handle, entry)?.first().copied()),
            None => Ok(None),
        }
    }

    /// The first fraction of a tag, numerator and denominator, if there is a valid one.
    pub(super) fn fraction(&self, handle: &Handle, ifd: &Ifd, tag: u16) -> Result<Option<(f64, f64)>> {
        let Some(entry) = ifd.get(tag) else { return Ok(None) };
        let bytes = self.value(handle, entry)?;
        let part = |range: std::ops::Range<usize>| bytes.get(range).map(|b| self.uint(b));
        Ok(match entry.kind {
            5 => match (part(0..4), part(4..8)) {
                (Some(over), Some(under)) if under != 0 => Some((float(over), float(under))),
                _ => None,
            },
            12 => part(0..8).map(|n| (f64::from_bits(n), 1.0)),
            11 => part(0..4).and_then(|n| u32::try_from(n).ok()).map(|n| (f32::from_bits(n).into(), 1.0)),
            _ => None,
        })
    }

    /// Text, as UTF-8 or else Latin-1, without trailing NULs.
    pub(super) fn text(&self, handle: &Handle, ifd: &Ifd, tag: u16) -> Result<Option<String>> {
        let Some(entry) = ifd.get(tag).filter(|e| matches!(e.kind, 1 | 2 | 7)) else { return Ok(None) };
        let bytes = self.value(handle, entry)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let bytes = bytes.get(..end).unwrap_or_default();
        Ok(Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|b| char::from(*b)).collect(),
        }))
    }
}

/// Numbers of 32 bits are exact as floats.
fn float(n: u64) -> f64 {
    u32::try_from(n).map_or(f64::NAN, f64::from)
}

impl Ifd {
    pub(super) fn get(&self, tag: u16) -> Option<&TagEntry> {
        self.entries.iter().find(|e| e.tag == tag)
    }
}
