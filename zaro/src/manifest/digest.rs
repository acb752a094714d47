//! Digests of directories (Zarr checksums) and of objects (ETags).

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use md5::{Digest as _, Md5};

use super::text;
use crate::error::{Error, Result, invalid};
use crate::num;

/// The Dandi Zarr checksum of a directory: `{md5}-{count}--{size}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    /// MD5 of the directory's JSON.
    pub md5: [u8; 16],
    /// How many files it holds, those of its directories included.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
}

impl Digest {
    /// The digest of an empty directory.
    pub const EMPTY: Self = Self {
        md5: [0x48, 0x1a, 0x2f, 0x77, 0xab, 0x78, 0x6a, 0x0f, 0x45, 0xaa, 0xfd, 0x5d, 0xb0, 0x97, 0x1c, 0xaa],
        count: 0,
        size: 0,
    };

    /// Parses exactly a digest: no upper case, no leading zeros, nothing after it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (md5, rest) = text.as_bytes().split_at_checked(32)?;
        let rest = rest.strip_prefix(b"-")?;
        let gap = rest.windows(2).position(|w| w == b"--")?;
        let (count, size) = rest.split_at_checked(gap)?;
        Some(Self {
            md5: text::unhex16(md5)?,
            count: text::parse_number(count)?,
            size: text::parse_number(size.strip_prefix(b"--")?)?,
        })
    }

    /// Appends the digest as text.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        text::push_hex(out, &self.md5);
        out.push(b'-');
        text::push_number(out, self.count);
        out.extend_from_slice(b"--");
        text::push_number(out, self.size);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}--{}", text::hex(&self.md5), self.count, self.size)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| invalid!("{text:?} is not a Zarr checksum, such as {}", Self::EMPTY))
    }
}

/// The digest in the `ETag` of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ETag {
    /// The MD5 of the bytes, of an object put in one request.
    Md5([u8; 16]),
    /// The MD5 of the MD5s of the parts of a multipart upload, and their number.
    Parts([u8; 16], u16),
}

impl ETag {
    /// Parses `text`, without quotes; `None` if it is neither of the two.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (md5, rest) = text.as_bytes().split_at_checked(32)?;
        let md5 = text::unhex16(md5)?;
        match rest.strip_prefix(b"-") {
            None if rest.is_empty() => Some(Self::Md5(md5)),
            None => None,
            Some(parts) => Some(Self::Parts(md5, u16::try_from(text::parse_number(parts)?).ok()?)),
        }
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Md5(md5) => f.write_str(&text::hex(md5)),
            Self::Parts(md5, n) => write!(f, "{}-{n}", text::hex(md5)),
        }
    }
}

/// How the digest of an object is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Hashing {
    /// Their MD5.
    #[default]
    Whole,
    /// As of a multipart upload with the archive's part size.
    Parts,
}

/// The part size of the archive's uploads: 64 MiB, more where that would give 10,000 parts.
pub(crate) fn part_size(size: u64) -> u64 {
    const PART: u64 = 64 << 20;
    const MOST: u64 = 10_000;
    if size.div_ceil(PART) >= MOST { size.div_ceil(MOST) } else { PART }
}

/// Computes the digest of an object incrementally.
#[derive(Clone, Debug)]
pub struct Hasher {
    md5: Md5,
    parts: Option<PartSizes>,
    size: u64,
    /// The expected digest, and other part sizes that may give it.
    wanted: Option<ETag>,
    others: Vec<Hasher>,
}

/// Part sizes in use for uploads, in MiB.
const PART_SIZES: [u64; 20] =
    [5, 6, 8, 10, 12, 15, 16, 20, 24, 25, 32, 48, 50, 64, 100, 128, 200, 256, 512, 1024];

/// Maximum part sizes tried: each costs as much as hashing once.
const MOST_WAYS: usize = 8;

/// The part sizes that split `size` bytes into `count` parts, the archive's own first. An `ETag` does not state it.
fn part_sizes(size: u64, count: u16) -> Vec<u64> {
    let count = u64::from(count);
    // A part that holds everything may as well be larger.
    if count <= 1 {
        return vec![part_size(size).max(size)];
    }
    // Some programs take the smallest number of whole mebibytes that does.
    let even = size.div_ceil(count).div_ceil(1 << 20) << 20;
    let usual = PART_SIZES.iter().flat_map(|n| [n << 20, n.saturating_mul(1_000_000)]);
    let mut out: Vec<u64> = Vec::new();
    for part in [part_size(size), even].into_iter().chain(usual) {
        if part > 0 && size.div_ceil(part) == count && !out.contains(&part) {
            out.push(part);
        }
    }
    out.truncate(MOST_WAYS);
    out
}

#[derive(Clone, Debug)]
struct PartSizes {
    /// Hash of the MD5s of completed parts.
    done: Md5,
    count: u16,
    /// The part size, and the bytes left in the current part.
    length: u64,
    left: u64,
}

impl Hasher {
    /// For an object of `size` bytes, which matters to multipart digests only.
    #[must_use]
    pub fn new(hashing: Hashing, size: u64) -> Self {
        let parts = (hashing == Hashing::Parts).then(|| {
            let length = part_size(size);
            PartSizes { done: Md5::new(), count: 0, length, left: length }
        });
        Self { md5: Md5::new(), parts, size: 0, wanted: None, others: Vec::new() }
    }

    /// For an object of `size` bytes that should have the digest `wanted`; if that is multipart, with any part size
    /// that gives as many parts.
    #[must_use]
    pub fn wanting(wanted: Option<ETag>, size: u64) -> Self {
        let Some(ETag::Parts(_, count)) = wanted else { return Self::new(Hashing::Whole, size) };
        let mut ways = part_sizes(size, count).into_iter();
        let mut first = ways.next().map_or_else(|| Self::new(Hashing::Parts, size), Self::with_part_size);
        first.wanted = wanted;
        first.others = ways.map(Self::with_part_size).collect();
        first
    }

    /// For an object whose parts have `length` bytes each.
    #[must_use]
    pub fn with_part_size(length: u64) -> Self {
        let length = length.max(1);
        let parts = Some(PartSizes { done: Md5::new(), count: 0, length, left: length });
        Self { md5: Md5::new(), parts, size: 0, wanted: None, others: Vec::new() }
    }

    /// Adds more bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        for other in &mut self.others {
            other.update(bytes);
        }
        self.size = self.size.saturating_add(num::u64_of(bytes.len()));
        let Some(parts) = &mut self.parts else { return self.md5.update(bytes) };
        while !bytes.is_empty() {
            let take = usize::try_from(parts.left).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at_checked(take).unwrap_or((bytes, &[]));
            self.md5.update(now);
            parts.left -= num::u64_of(take);
            if parts.left == 0 {
                parts.done.update(self.md5.finalize_reset());
                parts.count = parts.count.saturating_add(1);
                parts.left = parts.length;
            }
            bytes = later;
        }
    }

    /// Bytes hashed so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The digest of all bytes: the expected one, if any part size gives it.
    #[must_use]
    pub fn finish(mut self) -> ETag {
        let (wanted, others) = (self.wanted.take(), std::mem::take(&mut self.others));
        let own = self.own();
        if wanted != Some(own)
            && let Some(found) = others.into_iter().map(Self::own).find(|found| wanted == Some(*found))
        {
            return found;
        }
        own
    }

    fn own(mut self) -> ETag {
        match self.parts {
            None => ETag::Md5(self.md5.finalize().into()),
            Some(mut parts) => {
                if parts.left < parts.length {
                    parts.done.update(self.md5.finalize_reset());
                    parts.count = parts.count.saturating_add(1);
                }
                ETag::Parts(parts.done.finalize().into(), parts.count)
            }
        }
    }
}

/// Hashes `from` to its end; returns digest and size. `buffer` is scratch memory.
pub(crate) fn hash_reader(
    mut from: impl Read,
    mut hasher: Hasher,
    buffer: &mut [u8],
) -> std::io::Result<(ETag, u64)> {
    loop {
        match from.read(buffer) {
            Ok(0) => break,
            Ok(n) => hasher.update(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let size = hasher.size();
    Ok((hasher.finish(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etag(bytes: &[u8]) -> String {
        let mut hasher = Hasher::new(Hashing::Parts, num::u64_of(bytes.len()));
        // In uneven pieces, so that parts end within them.
        for piece in bytes.chunks(12_345_678) {
            hasher.update(piece);
        }
        hasher.finish().to_string()
    }

    #[test]
    fn digests_are_strict() {
        let text = "6a2bafb14509195e1a1ee982cb046d23-5--31";
        let digest: Digest = text.parse().unwrap();
        assert_eq!((digest.count, digest.size), (5, 31));
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::EMPTY.to_string(), "481a2f77ab786a0f45aafd5db0971caa-0--0");
        assert_eq!(Digest::parse("481a2f77ab786a0f45aafd5db0971caa-0--0"), Some(Digest::EMPTY));
        for bad in [
            "",
            "6a2bafb14509195e1a1ee982cb046d23",
            "6a2bafb14509195e1a1ee982cb046d23-5-31",
            "6a2bafb14509195e1a1ee982cb046d23-5--31 ",
            "6a2bafb14509195e1a1ee982cb046d23-05--31",
            "6a2bafb14509195e1a1ee982cb046d23-5---31",
            "6A2bafb14509195e1a1ee982cb046d23-5--31",
            "6a2bafb14509195e1a1ee982cb046d2-5--31",
            "6a2bafb14509195e1a1ee982cb046d23-5--18446744073709551616",
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn etags_are_told_apart() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        assert!(matches!(ETag::parse(md5), Some(ETag::Md5(_))));
        assert!(matches!(ETag::parse(&format!("{md5}-2")), Some(ETag::Parts(_, 2))));
        for bad in ["", "x", "d41d8cd98f00b204e9800998ecf8427e-", "d41d8cd98f00b204e9800998ecf8427e-70000"] {
            assert_eq!(ETag::parse(bad), None, "{bad}");
        }
        assert_eq!(ETag::parse(&format!("{md5}-02")), None, "would not be written back as it was");
    }

    #[test]
    fn parts_of_any_usual_size_are_found_out() {
        let bytes: Vec<u8> =
            (0..21_000_000u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let size = num::u64_of(bytes.len());
        for part in [5 << 20, 8 << 20, 8_000_000, 10_485_760, 7 << 20, 64 << 20, 30_000_000] {
            let mut upload = Hasher::with_part_size(part);
            upload.update(&bytes);
            let wanted = upload.finish();
            let mut check = Hasher::wanting(Some(wanted), size);
            check.update(&bytes);
            assert_eq!(check.finish(), wanted, "{part}");
            let mut damaged = Hasher::wanting(Some(wanted), size);
            damaged.update(&bytes[1..]);
            damaged.update(&bytes[..1]);
            assert_ne!(damaged.finish(), wanted, "{part}");
        }
    }

    #[test]
    fn uploads_in_parts() {
        assert_eq!(etag(b""), "d41d8cd98f00b204e9800998ecf8427e-0");
        assert_eq!(etag(b"hello"), "62109206880d38a4010a98e11243924a-1");
        assert_eq!(etag(&vec![0; (64 << 20) + 1]), "d4b4f6056a5f5a23cda477d1895a2bbd-2");
        assert_eq!(part_size(671_021_531_137), 67_102_154);
        assert_eq!(part_size(1 << 20), 64 << 20);
    }
}
