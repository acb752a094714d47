//! A listing page waiting for its reader, packed into about a third of the memory.
//!
//! Each key is stored as the length of the prefix shared with the previous key and the rest; everything else is stored
//! as is.

use super::versions::ObjectVersion;

/// A page, packed.
#[derive(Debug)]
pub(super) struct PackedPage(Vec<u8>);

impl PackedPage {
    pub(super) fn new(page: &[ObjectVersion]) -> Self {
        let mut out = Vec::with_capacity(page.len().saturating_mul(100));
        let mut before: &[u8] = &[];
        for entry in page {
            let key = entry.key.as_bytes();
            let shared = key.iter().zip(before).take_while(|(a, b)| a == b).count();
            push_number(&mut out, crate::num::u64_of(shared));
            push_text(&mut out, key.get(shared..).unwrap_or_default());
            push_text(&mut out, entry.version.as_bytes());
            push_text(&mut out, entry.etag.as_bytes());
            push_number(&mut out, entry.size);
            out.extend_from_slice(&entry.modified.to_le_bytes());
            out.push(u8::from(entry.latest) | u8::from(entry.deleted) << 1);
            before = key;
        }
        out.shrink_to_fit();
        Self(out)
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.len()
    }

    pub(super) fn unpack(&self) -> Vec<ObjectVersion> {
        let mut rest = self.0.as_slice();
        let mut key: Vec<u8> = Vec::new();
        let mut out = Vec::new();
        while let Some(entry) = take_entry(&mut rest, &mut key) {
            out.push(entry);
        }
        debug_assert!(rest.is_empty());
        out
    }
}

fn take_entry(rest: &mut &[u8], key: &mut Vec<u8>) -> Option<ObjectVersion> {
    let shared = usize::try_from(take_number(rest)?).ok()?;
    key.truncate(shared);
    key.extend_from_slice(take_text(rest)?);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (version, etag) = (text(take_text(rest)?), text(take_text(rest)?));
    let size = take_number(rest)?;
    let (modified, after) = rest.split_first_chunk()?;
    let (flags, after) = after.split_first()?;
    *rest = after;
    Some(ObjectVersion {
        key: text(key),
        version,
        etag,
        size,
        modified: i64::from_le_bytes(*modified),
        latest: flags & 1 != 0,
        deleted: flags & 2 != 0,
    })
}

/// LEB128: seven bits per byte, the lowest first.
fn push_number(out: &mut Vec<u8>, mut n: u64) {
    loop {
        let [low, ..] = n.to_le_bytes();
        n >>= 7;
        if n == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(n)
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, crate::num::u64_of(text.len()));
    out.extend_from_slice(text);
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let entry = |key: &str, size, modified, flags: (bool, bool)| ObjectVersion {
            key: key.to_owned(),
            version: format!("v{size}"),
            etag: "d8f0549d9d6be70f0eb596421fd2c926".repeat(usize::from(size % 2 == 0)),
            size,
            modified,
            latest: flags.0,
            deleted: flags.1,
        };
        let page = vec![
            entry("", 0, 0, (false, false)),
            entry("a/é", 127, -1, (true, false)),
            // These two letters share their first byte.
            entry("a/è", 128, i64::MAX, (false, true)),
            entry("a/è", u64::MAX, i64::MIN, (true, true)),
            entry("b", 1 << 40, 1, (true, false)),
        ];
        assert_eq!(PackedPage::new(&page).unpack(), page);
        assert_eq!(PackedPage::new(&[]).unpack(), []);
    }
}
