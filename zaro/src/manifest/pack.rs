//! Packs the fields of a manifest entry into 64 bytes.
//!
//! Version ids of S3 are 32 characters of a 64-letter alphabet, which are 24 bytes; MD5s are 16. Anything else — other
//! servers' ids, unusual `ETag`s — is stored as text: within the row if short, else in a separate arena.

use super::digest::ETag;
use super::text;
use crate::error::{Error, Result};
use crate::time::Time;

/// One entry. 64 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedEntry {
    version: [u8; 24],
    etag: [u8; 16],
    pub(crate) size: u64,
    seconds: u32,
    nanos: u32,
    /// Where its name is in the arena of names.
    pub(crate) name: u32,
    /// Number of parts, of a multipart `ETag`.
    parts: u16,
    /// The UTC offset in quarters of an hour.
    offset: i8,
    /// The encodings of version (three bits), `ETag` (three) and time (two).
    kinds: u8,
}

const _: () = assert!(size_of::<PackedEntry>() == 64);

/// How a text is stored in the bytes of a row.
const PACKED: u8 = 0;
const SECOND: u8 = 1;
const SHORT: u8 = 2;
const LONG: u8 = 3;
const NONE: u8 = 4;

/// How a time is stored.
const PLAIN: u8 = 0;
const BESIDE: u8 = 1;
const NEVER: u8 = 2;

/// An entry by reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The version's name.
    pub version: Option<&'a str>,
    /// When it was made.
    pub modified: Option<Time>,
    /// How many bytes.
    pub size: u64,
    /// Its `ETag`, without quotes.
    pub etag: Option<&'a str>,
}

/// Storage for what does not fit into rows.
#[derive(Debug, Default, Clone)]
pub(crate) struct Beside {
    texts: Vec<u8>,
    times: Vec<Time>,
}

fn too_much<T>(_: T) -> Error {
    Error::unsupported("a manifest cannot have more than 4 GiB of unusual version ids and ETags")
}

impl Beside {
    /// Stores `text` in `room` or in the arena; returns which.
    fn keep(&mut self, room: &mut [u8], text: &[u8]) -> Result<u8> {
        if let Some((head, tail)) = room.split_first_mut()
            && let Some(place) = tail.get_mut(..text.len())
        {
            *head = u8::try_from(text.len()).map_err(too_much)?;
            place.copy_from_slice(text);
            return Ok(SHORT);
        }
        let start = u32::try_from(self.texts.len()).map_err(too_much)?;
        let length = u32::try_from(text.len()).map_err(too_much)?;
        self.texts.extend_from_slice(text);
        for (byte, value) in room.iter_mut().zip(start.to_le_bytes().into_iter().chain(length.to_le_bytes()))
        {
            *byte = value;
        }
        Ok(LONG)
    }

    /// The text stored in `room` or in the arena.
    fn kept<'a>(&'a self, room: &'a [u8], how: u8) -> &'a [u8] {
        let found = if how == SHORT {
            room.split_first().and_then(|(length, rest)| rest.get(..usize::from(*length)))
        } else {
            match room.first_chunk::<8>() {
                Some([a, b, c, d, e, f, g, h]) => {
                    let start = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).ok();
                    let length = usize::try_from(u32::from_le_bytes([*e, *f, *g, *h])).ok();
                    start.zip(length).and_then(|(s, l)| self.texts.get(s..s.checked_add(l)?))
                }
                None => None,
            }
        };
        found.unwrap_or_default()
    }

    /// Frees spare capacity.
    pub(crate) fn shrink(&mut self) {
        self.texts.shrink_to_fit();
        self.times.shrink_to_fit();
    }

    /// How many bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        self.texts.capacity() + self.times.capacity() * size_of::<Time>()
    }
}

impl PackedEntry {
    /// Packs an entry whose name is at `name`.
    pub(crate) fn new(name: u32, entry: &EntryRef<'_>, beside: &mut Beside) -> Result<Self> {
        let mut row = Self {
            version: [0; 24],
            etag: [0; 16],
            size: entry.size,
            seconds: 0,
            nanos: 0,
            name,
            parts: 0,
            offset: 0,
            kinds: 0,
        };
        let version = match entry.version {
            None => NONE,
            Some(id) => match pack_id(id.as_bytes()) {
                Some(packed) => {
                    row.version = packed;
                    PACKED
                }
                None => match pack_uuid(id.as_bytes()) {
                    Some(packed) => {
                        for (to, from) in row.version.iter_mut().zip(packed) {
                            *to = from;
                        }
                        SECOND
                    }
                    None => beside.keep(&mut row.version, id.as_bytes())?,
                },
            },
        };
        let etag = match entry.etag {
            None => NONE,
            Some(tag) => match ETag::parse(tag) {
                Some(ETag::Md5(md5)) => {
                    row.etag = md5;
                    PACKED
                }
                Some(ETag::Parts(md5, parts)) => {
                    (row.etag, row.parts) = (md5, parts);
                    SECOND
                }
                None => beside.keep(&mut row.etag, tag.as_bytes())?,
            },
        };
        let time = row.keep_time(entry.modified, beside)?;
        row.kinds = version | etag << 3 | time << 6;
        Ok(row)
    }

    fn keep_time(&mut self, time: Option<Time>, beside: &mut Beside) -> Result<u8> {
        let Some(time) = time else { return Ok(NEVER) };
        let quarters = i8::try_from(time.offset / 15).ok().filter(|_| time.offset % 15 == 0);
        if let (Ok(seconds), Some(quarters)) = (u32::try_from(time.seconds), quarters) {
            (self.seconds, self.nanos, self.offset) = (seconds, time.nanos, quarters);
            return Ok(PLAIN);
        }
        self.seconds = u32::try_from(beside.times.len()).map_err(too_much)?;
        beside.times.push(time);
        Ok(BESIDE)
    }

    /// When the entry was made.
    pub(crate) fn modified(&self, beside: &Beside) -> Option<Time> {
        match self.kinds >> 6 {
            PLAIN => Some(Time {
                seconds: i64::from(self.seconds),
                nanos: self.nanos,
                offset: i16::from(self.offset) * 15,
            }),
            BESIDE => usize::try_from(self.seconds).ok().and_then(|i| beside.times.get(i)).copied(),
            _ => None,
        }
    }

    /// Appends the version's name; whether there is one.
    pub(crate) fn push_version(&self, beside: &Beside, out: &mut Vec<u8>) -> bool {
        match self.kinds & 7 {
            PACKED => unpack_id(&self.version, out),
            SECOND => {
                let (packed, _) = self.version.split_at(16);
                for (i, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                    if i > 0 {
                        out.push(b'-');
                    }
                    text::push_hex(out, packed.get(part).unwrap_or_default());
                }
            }
            NONE => return false,
            how => out.extend_from_slice(beside.kept(&self.version, how)),
        }
        true
    }

    /// Appends the `ETag`; whether there is one.
    pub(crate) fn push_etag(&self, beside: &Beside, out: &mut Vec<u8>) -> bool {
        match self.kinds >> 3 & 7 {
            PACKED => text::push_hex(out, &self.etag),
            SECOND => {
                text::push_hex(out, &self.etag);
                out.push(b'-');
                text::push_number(out, u64::from(self.parts));
            }
            NONE => return false,
            how => out.extend_from_slice(beside.kept(&self.etag, how)),
        }
        true
    }

    /// Whether version and `ETag` need no escapes when written as JSON.
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |how: u8| how <= SECOND || how == NONE;
        plain(self.kinds & 7) && plain(self.kinds >> 3 & 7)
    }

    /// The digest in the `ETag`.
    pub(crate) fn etag(&self) -> Option<ETag> {
        match self.kinds >> 3 & 7 {
            PACKED => Some(ETag::Md5(self.etag)),
            SECOND => Some(ETag::Parts(self.etag, self.parts)),
            _ => None,
        }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";

const PLACES: [u8; 256] = text::places(ALPHABET);

/// 32 characters of the alphabet in 24 bytes.
fn pack_id(text: &[u8]) -> Option<[u8; 24]> {
    let (groups, rest) = text.as_chunks::<4>();
    if groups.len() != 8 || !rest.is_empty() {
        return None;
    }
    let mut out = [0; 24];
    let (places, _) = out.as_chunks_mut::<3>();
    let place = |b: u8| PLACES.get(usize::from(b)).copied().unwrap_or(255);
    let mut all = 0;
    for (to, from) in places.iter_mut().zip(groups) {
        let [a, b, c, d] = from.map(place);
        all |= a | b | c | d;
        *to = [a << 2 | b >> 4 & 3, b << 4 | c >> 2 & 15, c << 6 | d & 63];
    }
    (all < 64).then_some(out)
}

fn unpack_id(packed: &[u8; 24], out: &mut Vec<u8>) {
    let (groups, _) = packed.as_chunks::<3>();
    let symbol = |n: u8| ALPHABET.get(usize::from(n & 63)).copied().unwrap_or(b'_');
    for [a, b, c] in groups {
        let four = [a >> 2, a << 4 | b >> 4, b << 2 | c >> 6, *c];
        out.extend_from_slice(&four.map(symbol));
    }
}

/// A UUID in lower case, as MinIO and others name versions.
fn pack_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut digits = [0; 32];
    let mut places = digits.iter_mut();
    for (i, &b) in text.iter().enumerate() {
        if matches!(i, 8 | 13 | 18 | 23) {
            if b != b'-' {
                return None;
            }
        } else if let Some(place) = places.next() {
            *place = b;
        }
    }
    text::unhex16(&digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_comes_back() {
        let long = "x".repeat(100);
        let versions = [
            None,
            Some("VI067uTlzPTTyL750Ibkx3hAUm67A_sI"),
            Some("................................"),
            Some("9_9_9_9_9_9_9_9_9_9_9_9_9_9_9_9."),
            Some("VI067uTlzPTTyL750Ibkx3hAUm67A-sI"),
            Some("null"),
            Some(""),
            Some("1284a14f-fe4f-4dc3-b10d-48e5db8bf18d"),
            Some("1284a14f-fe4f-4dc3-b10d-48e5db8bf18D"),
            Some("12345678901234567890123"),
            Some("123456789012345678901234"),
            Some("é"),
            Some(long.as_str()),
        ];
        let etags = [
            None,
            Some("d8f0549d9d6be70f0eb596421fd2c926"),
            Some("d8f0549d9d6be70f0eb596421fd2c926-2"),
            Some("d8f0549d9d6be70f0eb596421fd2c926-0"),
            Some("d8f0549d9d6be70f0eb596421fd2c926-02"),
            Some("D8F0549D9D6BE70F0EB596421FD2C926"),
            Some("\"quoted\""),
            Some(""),
            Some(long.as_str()),
        ];
        let times = [
            None,
            Some("2022-03-16T02:39:36+00:00"),
            Some("2022-03-16T02:39:36.123456+00:00"),
            Some("2022-03-16T02:39:36-05:45"),
            Some("2022-03-16T02:39:36+05:01"),
            Some("1822-03-16T02:39:36+00:00"),
            Some("9999-12-31T23:59:59+00:00"),
        ];
        let mut beside = Beside::default();
        let mut rows = Vec::new();
        for version in versions {
            for etag in etags {
                for time in times {
                    let modified = time.map(|t| Time::parse(t).unwrap());
                    let entry = EntryRef { version, modified, size: u64::MAX - 1, etag };
                    rows.push((PackedEntry::new(7, &entry, &mut beside).unwrap(), entry, time));
                }
            }
        }
        for (row, entry, time) in rows {
            let mut out = Vec::new();
            assert_eq!(row.push_version(&beside, &mut out), entry.version.is_some());
            assert_eq!(String::from_utf8(out).unwrap(), entry.version.unwrap_or_default());
            let mut out = Vec::new();
            assert_eq!(row.push_etag(&beside, &mut out), entry.etag.is_some());
            assert_eq!(String::from_utf8(out).unwrap(), entry.etag.unwrap_or_default());
            assert_eq!(row.modified(&beside).map(|t| t.to_string()), time.map(str::to_owned));
            assert_eq!((row.size, row.name), (u64::MAX - 1, 7));
            assert_eq!(row.etag(), entry.etag.and_then(ETag::parse));
        }
    }
}
