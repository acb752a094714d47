//! A zero-copy reader of FlatBuffers that checks every bound.
//!
//! A table is a position in the buffer and a list of offsets to its fields, both given by the data. Nothing is
//! trusted: every access is bounds-checked, and an offset that leaves the buffer is an error. Nothing is copied or
//! visited before it is needed, which keeps a manifest of a million chunks as cheap to open as one of ten.

use crate::error::{Error, Result, invalid};
use crate::num::{u64_of, usize_of};

fn broken(what: &str) -> Error {
    invalid!("the file is damaged: {what}")
}

fn bytes_at<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N]> {
    let part = at.checked_add(N).and_then(|end| buffer.get(at..end));
    part.and_then(|p| p.try_into().ok()).ok_or_else(|| broken("a field lies outside it"))
}

fn u16_at(buffer: &[u8], at: usize) -> Result<usize> {
    bytes_at(buffer, at).map(|b| usize::from(u16::from_le_bytes(b)))
}

fn u32_at(buffer: &[u8], at: usize) -> Result<usize> {
    usize_of(u64::from(u32::from_le_bytes(bytes_at(buffer, at)?)))
}

/// The position that the offset stored at `at` points to.
fn follow(buffer: &[u8], at: usize) -> Result<usize> {
    at.checked_add(u32_at(buffer, at)?)
        .filter(|to| *to < buffer.len())
        .ok_or_else(|| broken("an offset points outside it"))
}

/// The elements of the vector that the offset at `at` points to, each `size` bytes.
fn vector(buffer: &[u8], at: usize, size: usize) -> Result<&[u8]> {
    let start = follow(buffer, at)?;
    let bytes = u32_at(buffer, start)?.checked_mul(size);
    let from = start.checked_add(4);
    let elements = from.zip(bytes).and_then(|(from, n)| buffer.get(from..from.checked_add(n)?));
    elements.ok_or_else(|| broken("a list is longer than the file"))
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| broken("a string is not valid UTF-8").with_source(e))
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlatTable<'a> {
    buffer: &'a [u8],
    at: usize,
    /// The offsets of its fields, two bytes each.
    fields: &'a [u8],
}

impl<'a> FlatTable<'a> {
    /// The root table.
    pub(super) fn root(buffer: &'a [u8]) -> Result<Self> {
        Self::new(buffer, follow(buffer, 0)?)
    }

    fn new(buffer: &'a [u8], at: usize) -> Result<Self> {
        let back = i64::from(i32::from_le_bytes(bytes_at(buffer, at)?));
        let signed = i64::try_from(at).ok().and_then(|at| at.checked_sub(back));
        let head =
            signed.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| broken("a table has no layout"))?;
        let size = u16_at(buffer, head)?;
        let fields = head.checked_add(4).zip(head.checked_add(size)).and_then(|(a, b)| buffer.get(a..b));
        Ok(Self { buffer, at, fields: fields.ok_or_else(|| broken("a table's layout lies outside it"))? })
    }

    /// The position of field `n`, if the table has it.
    fn field(&self, n: usize) -> Result<Option<usize>> {
        let Some(at) = n.checked_mul(2).filter(|at| at.saturating_add(2) <= self.fields.len()) else {
            return Ok(None);
        };
        match u16_at(self.fields, at)? {
            0 => Ok(None),
            offset => self.at.checked_add(offset).map(Some).ok_or_else(|| broken("a field lies outside it")),
        }
    }

    /// A field that is stored in the table itself; numbers, and records of fixed size.
    pub(super) fn fixed<const N: usize>(&self, n: usize) -> Result<Option<[u8; N]>> {
        self.field(n)?.map(|at| bytes_at(self.buffer, at)).transpose()
    }

    /// A number of one byte; `default` if it is not there.
    pub(super) fn u8(&self, n: usize, default: u8) -> Result<u8> {
        Ok(self.fixed(n)?.map_or(default, u8::from_le_bytes))
    }

    /// A number of four bytes; 0 if it is not there.
    pub(super) fn u32(&self, n: usize) -> Result<u32> {
        Ok(self.fixed(n)?.map_or(0, u32::from_le_bytes))
    }

    /// A number of eight bytes; 0 if it is not there.
    pub(super) fn u64(&self, n: usize) -> Result<u64> {
        Ok(self.fixed(n)?.map_or(0, u64::from_le_bytes))
    }

    /// A list of elements of `size` bytes each, as their bytes.
    pub(super) fn list(&self, n: usize, size: usize) -> Result<Option<&'a [u8]>> {
        self.field(n)?.map(|at| vector(self.buffer, at, size)).transpose()
    }

    /// A text.
    pub(super) fn text(&self, n: usize) -> Result<Option<&'a str>> {
        self.list(n, 1)?.map(utf8).transpose()
    }

    /// A list of texts; empty if it is not there.
    pub(super) fn texts(&self, n: usize, budget: &mut BufferBudget) -> Result<Vec<String>> {
        let Some(at) = self.field(n)? else { return Ok(Vec::new()) };
        let count = vector(self.buffer, at, 4)?.len() / 4;
        let first = follow(self.buffer, at)?.saturating_add(4);
        let one = |i: usize| {
            let slot = i
                .checked_mul(4)
                .and_then(|n| first.checked_add(n))
                .ok_or_else(|| broken("a list is too long"))?;
            let text = utf8(vector(self.buffer, slot, 1)?)?;
            budget.take(text.len())?;
            Ok(text.to_owned())
        };
        (0..count).map(one).collect()
    }

    /// Another table.
    pub(super) fn table(&self, n: usize) -> Result<Option<Self>> {
        self.field(n)?.map(|at| Self::new(self.buffer, follow(self.buffer, at)?)).transpose()
    }

    /// A list of tables; empty if it is not there.
    pub(super) fn tables(&self, n: usize) -> Result<Tables<'a>> {
        let Some(at) = self.field(n)? else {
            return Ok(Tables { buffer: self.buffer, first: 0, len: 0 });
        };
        let elements = vector(self.buffer, at, 4)?;
        let first = follow(self.buffer, at)?.saturating_add(4);
        Ok(Tables { buffer: self.buffer, first, len: elements.len() / 4 })
    }
}

/// A required field.
pub(super) fn need<T>(field: Option<T>, what: &str) -> Result<T> {
    field.ok_or_else(|| broken(&format!("{what} is missing")))
}

/// A list of tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables<'a> {
    buffer: &'a [u8],
    first: usize,
    len: usize,
}

impl<'a> Tables<'a> {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Table `i`.
    pub(super) fn get(&self, i: usize) -> Result<FlatTable<'a>> {
        let at = i.checked_mul(4).and_then(|n| self.first.checked_add(n)).filter(|_| i < self.len);
        let at = at.ok_or_else(|| broken("a list is shorter than stated"))?;
        FlatTable::new(self.buffer, follow(self.buffer, at)?)
    }

    /// All of them.
    pub(super) fn iter(self) -> impl Iterator<Item = Result<FlatTable<'a>>> {
        (0..self.len).map(move |i| self.get(i))
    }

    /// The table for which `order` answers `Equal`, in a list that is sorted by it.
    pub(super) fn search(
        &self,
        mut order: impl FnMut(&FlatTable<'a>) -> Result<std::cmp::Ordering>,
    ) -> Result<Option<FlatTable<'a>>> {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            let table = self.get(middle)?;
            match order(&table)? {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some(table)),
            }
        }
        Ok(None)
    }
}

/// Limits what is allocated from a buffer, so that a small one whose offsets all point to the same place cannot expand
/// without bound.
#[derive(Debug)]
pub(super) struct BufferBudget(u64);

impl BufferBudget {
    /// Enough for any valid buffer of this size.
    pub(super) fn of(buffer: &[u8]) -> Self {
        Self(u64_of(buffer.len()))
    }

    /// Takes `n` bytes of it.
    pub(super) fn take(&mut self, n: usize) -> Result<()> {
        self.0 = self.0.checked_sub(u64_of(n)).ok_or_else(|| broken("it expands beyond its size"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root table with a number (7) in field 0, the text "ab" in field 1 and nothing in field 2.
    fn small() -> Vec<u8> {
        let mut b = vec![12, 0, 0, 0];
        b.extend([8, 0, 12, 0, 4, 0, 8, 0]); // its layout, at 4
        b.extend(8i32.to_le_bytes()); // the table, at 12
        b.extend(7u32.to_le_bytes());
        b.extend(4u32.to_le_bytes()); // at 20: the text is at 24
        b.extend([2, 0, 0, 0, b'a', b'b', 0]);
        b
    }

    #[test]
    fn fields_are_found_or_not_there() {
        let bytes = small();
        let root = FlatTable::root(&bytes).unwrap();
        assert_eq!(root.u32(0).unwrap(), 7);
        assert_eq!(root.text(1).unwrap(), Some("ab"));
        assert_eq!(root.text(2).unwrap(), None);
        assert_eq!(root.u64(9).unwrap(), 0);
        assert!(root.tables(5).unwrap().get(0).is_err());
    }

    #[test]
    fn whatever_leads_outside_is_an_error() {
        let good = small();
        for cut in 0..good.len() {
            let bytes = &good[..cut];
            let Ok(root) = FlatTable::root(bytes) else { continue };
            let read = root.u32(0).and_then(|_| root.text(1));
            // The text's closing zero is the only byte that may be missing.
            assert!(read.is_err() || cut == good.len() - 1, "{cut}");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(root) = FlatTable::root(&bytes) {
                    let _ = (root.u64(0), root.text(1), root.table(1).map(|t| t.map(|t| t.u64(0))));
                    let _ = root.tables(1).map(|t| t.iter().filter(Result::is_ok).count());
                }
            }
        }
    }
}
