//! Reads and writes the end record and the central directory of a ZIP archive.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::num::u64_of;
use crate::store::check_key;

/// How much is read from the end first: enough for the longest comment, the ZIP64 records, and the directory of a
/// thousand entries.
pub(super) const TAIL: u64 = 128 << 10;

/// The largest central directory that is read: 512 MiB, some five million entries.
pub(super) const MAX_DIRECTORY: u64 = 512 << 20;

const END: &[u8] = b"PK\x05\x06";
const END64: &[u8] = b"PK\x06\x06";
const LOCATOR64: &[u8] = b"PK\x06\x07";
const ENTRY: &[u8] = b"PK\x01\x02";
/// A digital signature, which may follow the directory entries.
const SIGNATURE: &[u8] = b"PK\x05\x05";

/// The length of a local header without its name and extra fields.
const LOCAL: u64 = 30;

/// One file of the archive.
#[derive(Debug)]
pub(super) struct ZipEntry {
    /// Offset of its local header.
    pub(super) header: u64,
    /// Offset of what follows it.
    pub(super) end: u64,
    /// Its compressed length.
    pub(super) packed: u64,
    /// Its uncompressed length.
    pub(super) size: u64,
    pub(super) crc: u32,
    /// The length of its raw name, and a checksum of that: its local header must match.
    pub(super) name: (u16, u32),
    pub(super) method: u16,
    pub(super) encrypted: bool,
    /// Whether a data descriptor may follow its data.
    pub(super) trailer: bool,
    /// Offset of its data, once its local header was read.
    pub(super) data: OnceLock<u64>,
}

impl ZipEntry {
    /// The length of its local header without extra fields.
    pub(super) fn local(&self) -> u64 {
        LOCAL.saturating_add(self.name.0.into())
    }
}

/// Names and entries.
pub(super) type Entries = Vec<(Box<str>, ZipEntry)>;

/// Where the central directory is, and the shift of all offsets if something precedes the archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DirectoryLocation {
    pub(super) start: u64,
    pub(super) length: u64,
    shift: u64,
    count: u64,
    /// Whether there is a ZIP64 end record.
    pub(super) zip64: bool,
    /// The archive comment.
    pub(super) comment: Vec<u8>,
}

fn damaged(what: &str) -> Error {
    Error::invalid(format!("not a ZIP archive, or a damaged one: {what}"))
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(b.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(super) fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(b.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn is_at(b: &[u8], at: usize, word: &[u8]) -> bool {
    b.get(at..).is_some_and(|rest| rest.starts_with(word))
}

/// Locates the central directory from the last bytes of an archive of `size` bytes.
pub(super) fn locate(tail: &[u8], size: u64) -> Result<DirectoryLocation> {
    let base = size.saturating_sub(u64_of(tail.len()));
    let ends = |exact: bool| {
        (0..tail.len().saturating_sub(21)).rev().find(|&at| {
            let rest = tail.len().saturating_sub(at).saturating_sub(22);
            is_at(tail, at, END)
                && u16_at(tail, at.saturating_add(20))
                    .is_some_and(|n| if exact { usize::from(n) == rest } else { usize::from(n) <= rest })
        })
    };
    let Some(end) = ends(true).or_else(|| ends(false)) else { return Err(damaged("there is no end record")) };
    let short = || {
        Some((
            u64::from(u16_at(tail, end.checked_add(10)?)?),
            u64::from(u32_at(tail, end.checked_add(12)?)?),
            u64::from(u32_at(tail, end.checked_add(16)?)?),
        ))
    };
    let mut directory_end = end;
    let mut zip64 = false;
    let comment = tail.get(end.saturating_add(22)..).unwrap_or_default();
    let comment_length = u16_at(tail, end.saturating_add(20)).map_or(0, usize::from);
    let comment = comment.get(..comment_length).unwrap_or_default().to_vec();
    let mut found = short();
    if let Some(locator) = end.checked_sub(20).filter(|&at| is_at(tail, at, LOCATOR64)) {
        // Where the locator says, or right before it if something precedes the archive.
        let said = u64_at(tail, locator.saturating_add(8)).and_then(|o| o.checked_sub(base));
        let said = said.and_then(|o| usize::try_from(o).ok());
        let near = locator.checked_sub(56);
        let record = [said, near].into_iter().flatten().find(|&at| is_at(tail, at, END64));
        let Some(at) = record else { return Err(damaged("its ZIP64 end record is not where it should be")) };
        directory_end = at;
        zip64 = true;
        found = (|| {
            Some((
                u64_at(tail, at.checked_add(32)?)?,
                u64_at(tail, at.checked_add(40)?)?,
                u64_at(tail, at.checked_add(48)?)?,
            ))
        })();
    }
    let Some((count, length, offset)) = found else { return Err(damaged("its end record is cut off")) };
    let start = base.checked_add(u64_of(directory_end)).and_then(|e| e.checked_sub(length));
    let shift = start.and_then(|s| s.checked_sub(offset));
    match (start, shift) {
        (Some(start), Some(shift)) => Ok(DirectoryLocation { start, length, shift, count, zip64, comment }),
        _ => Err(damaged("its end record points outside the file")),
    }
}

/// Reads the central directory: names and entries, sorted by name, and separately the entries whose names are not valid
/// keys. Of several entries with one name the last counts, as for the tools that append to archives. Folders are left
/// out.
pub(super) fn read(bytes: &[u8], location: &DirectoryLocation) -> Result<(Entries, Entries)> {
    let mut out = Entries::new();
    let mut strange = Entries::new();
    let mut starts = Vec::new();
    let mut rest = bytes;
    let mut left = location.count;
    while is_at(rest, 0, ENTRY) {
        let Some((name, entry, length)) = record(rest, location) else {
            return Err(damaged("its directory is cut off or points outside"));
        };
        starts.push(entry.header);
        match name {
            Ok(name) => out.push((name, entry)),
            // Many archives have entries for folders.
            Err(name) if entry.size == 0 && name.strip_suffix('/').is_some_and(|n| check_key(n).is_ok()) => {}
            Err(name) => strange.push((name.into(), entry)),
        }
        rest = rest.get(length..).unwrap_or_default();
        left = left.saturating_sub(1);
    }
    if !(rest.is_empty() || is_at(rest, 0, SIGNATURE)) {
        return Err(damaged("its directory is cut off"));
    }
    // Old archives have a 16-bit count.
    if left & 0xFFFF != 0 {
        return Err(damaged("its directory has fewer entries than its end record says"));
    }
    starts.sort_unstable();
    for (_, entry) in &mut out {
        let next = starts.partition_point(|&s| s <= entry.header);
        entry.end = starts.get(next).copied().unwrap_or(location.start);
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    // The sort is stable, so the last of a run is the last written.
    out.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
    Ok((out, strange))
}

/// One record: its name (an error if not a valid key), the entry, and the length of the record.
fn record(
    rest: &[u8],
    location: &DirectoryLocation,
) -> Option<(std::result::Result<Box<str>, String>, ZipEntry, usize)> {
    let flags = u16_at(rest, 8)?;
    let [name_length, extra_length, comment_length] =
        [u16_at(rest, 28)?, u16_at(rest, 30)?, u16_at(rest, 32)?].map(usize::from);
    let name_end = 46usize.checked_add(name_length)?;
    let extra_end = name_end.checked_add(extra_length)?;
    let length = extra_end.checked_add(comment_length)?;
    rest.get(..length)?;
    let mut packed = u64::from(u32_at(rest, 20)?);
    let mut size = u64::from(u32_at(rest, 24)?);
    let mut header = u64::from(u32_at(rest, 42)?);
    let mut extra = rest.get(name_end..extra_end)?;
    while let (Some(id), Some(n)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let field = extra.get(4..4usize.checked_add(usize::from(n))?);
        let Some(field) = field else { break };
        if id == 1 {
            let mut at = 0;
            for value in [&mut size, &mut packed, &mut header] {
                if *value == 0xFFFF_FFFF {
                    *value = u64_at(field, at)?;
                    at += 8;
                }
            }
        }
        extra = extra.get(4usize.checked_add(usize::from(n))?..)?;
    }
    let header = header.checked_add(location.shift)?;
    // A local header has at least 30 bytes, and all data precedes the directory.
    if header.checked_add(30)?.checked_add(packed)? > location.start {
        return None;
    }
    let name = rest.get(46..name_end)?;
    let mark = (u16::try_from(name.len()).ok()?, crc32fast::hash(name));
    let plain = std::str::from_utf8(name).ok().map(|n| n.strip_prefix("./").unwrap_or(n));
    let name = match plain.filter(|n| check_key(n).is_ok()) {
        Some(name) => Ok(Box::from(name)),
        None => Err(String::from_utf8_lossy(name).into_owned()),
    };
    let entry = ZipEntry {
        header,
        end: location.start,
        packed,
        size,
        crc: u32_at(rest, 16)?,
        name: mark,
        method: u16_at(rest, 10)?,
        encrypted: flags & 0x2041 != 0,
        trailer: flags & 8 != 0,
        data: OnceLock::new(),
    };
    Some((name, entry, length))
}

/// The directory record of an uncompressed entry.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) header: u64,
    pub(super) size: u64,
    pub(super) crc: u32,
}

/// How an archive is written.
#[derive(Debug, Clone, Default)]
pub struct ZipForm {
    /// Write every size and offset in 64 bits, also those that would fit into fewer.
    pub zip64: bool,
    /// The comment of the archive.
    pub comment: String,
    /// Write and list entries in the order in which they were put. Otherwise documents, which are often put more than
    /// once, come last, and the list is sorted by name.
    pub in_order: bool,
    /// The final order of the entries, independent of the order in which they were put; all are rewritten for it.
    pub arranged: Option<Arrangement>,
}

/// The order of the entries of an archive, and its comment, determined when all entries are there.
#[derive(Debug, Clone, Copy)]
pub struct Arrangement {
    /// The sort position of an entry; entries with the same one are sorted by name.
    pub place: fn(&str) -> usize,
    /// The comment, from the document `zarr.json` at the root of the archive.
    pub comment: fn(Option<&[u8]>) -> String,
}

/// The value of a 32-bit field whose number is in the ZIP64 extra field.
const LONG: u32 = u32::MAX;

/// A number for a 32-bit field; numbers that do not fit, or all of them with `always`, are appended to `extra`.
fn short(n: u64, extra: &mut Vec<u8>, always: bool) -> [u8; 4] {
    match u32::try_from(n) {
        Ok(n) if n != LONG && !always => n.to_le_bytes(),
        _ => {
            extra.extend_from_slice(&n.to_le_bytes());
            LONG.to_le_bytes()
        }
    }
}

/// The ZIP64 extra field with the numbers that did not fit; empty if all did.
fn zip64(numbers: &[u8]) -> Result<Vec<u8>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    Ok([&1u16.to_le_bytes(), &length16(numbers)?, numbers].concat())
}

fn length16(bytes: &[u8]) -> Result<[u8; 2]> {
    match u16::try_from(bytes.len()) {
        Ok(n) => Ok(n.to_le_bytes()),
        Err(_) => Err(Error::invalid("the key is too long for a ZIP archive")),
    }
}

/// The fields common to the local header and the directory: version, flags (names are UTF-8), method, time, checksum,
/// sizes, length of the name. All times are 1980-01-01, so that the same content gives the same archive.
fn shared(name: &str, record: &Record, sizes: [[u8; 4]; 2], long: bool) -> Result<Vec<u8>> {
    let version: u16 = if long { 45 } else { 20 };
    let [packed, size] = sizes;
    Ok([
        version.to_le_bytes().as_slice(),
        &0x0800u16.to_le_bytes(),
        &[0; 4],
        &0x0021u16.to_le_bytes(),
        &record.crc.to_le_bytes(),
        &packed,
        &size,
        &length16(name.as_bytes())?,
    ]
    .concat())
}

/// The local header of an entry.
pub(super) fn local_header(name: &str, record: &Record, form: &ZipForm) -> Result<Vec<u8>> {
    let mut long = Vec::new();
    let sizes = [(); 2].map(|()| short(record.size, &mut long, form.zip64));
    let extra = zip64(&long)?;
    let fields = shared(name, record, sizes, !extra.is_empty())?;
    Ok([b"PK\x03\x04".as_slice(), &fields, &length16(&extra)?, name.as_bytes(), &extra].concat())
}

/// The central directory and the end records of an archive whose directory starts at `start`.
pub(super) fn write(entries: &[(&str, Record)], start: u64, form: &ZipForm) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let count = u64_of(entries.len());
    for (name, record) in entries {
        let mut long = Vec::new();
        let sizes = [(); 2].map(|()| short(record.size, &mut long, form.zip64));
        let header = short(record.header, &mut long, form.zip64);
        let extra = zip64(&long)?;
        // Made on Unix, a regular file readable by all.
        out.extend_from_slice(&[ENTRY, &[45, 3]].concat());
        out.extend_from_slice(&shared(name, record, sizes, !extra.is_empty())?);
        out.extend_from_slice(&length16(&extra)?);
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&(0o100_644u32 << 16).to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&extra);
    }
    let length = u64_of(out.len());
    let end = start.saturating_add(length);
    let mut long = Vec::new();
    let [length32, start32] = [length, start].map(|n| short(n, &mut long, form.zip64));
    let count16 = u16::try_from(count).ok().filter(|n| *n != u16::MAX);
    if count16.is_none() || !long.is_empty() {
        out.extend_from_slice(END64);
        out.extend_from_slice(&44u64.to_le_bytes());
        out.extend_from_slice(&[45, 3, 45, 0]);
        out.extend_from_slice(&[0; 8]);
        for n in [count, count, length, start] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(LOCATOR64);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&end.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes());
    }
    let count16 = count16.unwrap_or(u16::MAX).to_le_bytes();
    let comment = form.comment.as_bytes();
    let Ok(comment_length) = u16::try_from(comment.len()) else {
        return Err(Error::invalid("the comment is too long for a ZIP archive"));
    };
    out.extend_from_slice(&[END, &[0; 4], &count16, &count16, &length32, &start32].concat());
    out.extend_from_slice(&comment_length.to_le_bytes());
    out.extend_from_slice(comment);
    Ok(out)
}
