//! Minimal reader of Thrift's compact protocol, for Parquet's headers.
//!
//! Everything returns `None` if the bytes are truncated or invalid; the caller knows what was being read. Nothing is
//! allocated.

use crate::num::usize_of;

/// How deeply skipped values may nest.
const MAX_DEPTH: u32 = 32;

/// The type codes in use.
pub(super) mod kind {
    pub(in super::super) const TRUE: u8 = 1;
    pub(in super::super) const FALSE: u8 = 2;
    pub(in super::super) const LIST: u8 = 9;
    pub(in super::super) const STRUCT: u8 = 12;
}

/// A position in bytes of the protocol.
#[derive(Debug, Clone)]
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// One field of a structure: its number and the type of its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThriftField {
    pub(super) id: i16,
    pub(super) kind: u8,
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut out = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            out |= part << shift;
            if byte & 0x80 == 0 {
                return Some(out);
            }
        }
        None
    }

    /// An integer of any width.
    pub(super) fn int(&mut self) -> Option<i64> {
        let n = self.varint()?;
        let half = i64::try_from(n >> 1).ok()?;
        Some(if n & 1 == 0 { half } else { !half })
    }

    /// A string or bytes.
    pub(super) fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize_of(self.varint()?).ok()?;
        let end = self.at.checked_add(length)?;
        let out = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(out)
    }

    /// The header of a list: the type and number of its items, checked against the bytes left.
    pub(super) fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize_of(self.varint()?).ok()?,
            n => usize::from(n),
        };
        // An item takes a byte at least.
        (count <= self.bytes.len().checked_sub(self.at)?).then_some((head & 0x0f, count))
    }

    /// Calls `see` with each field of a structure; it returns whether it has read the value.
    pub(super) fn fields(
        &mut self,
        mut see: impl FnMut(&mut Self, ThriftField) -> Option<bool>,
    ) -> Option<()> {
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => i16::try_from(self.int()?).ok()?,
                step => id.checked_add(i16::from(step))?,
            };
            let field = ThriftField { id, kind: head & 0x0f };
            if !see(self, field)? {
                self.skip(field.kind, 0, false)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: u32, in_list: bool) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            // A boolean field has its value in its type, one in a list has a byte.
            1 | 2 => {
                if in_list {
                    self.byte()?;
                }
            }
            3 => {
                self.byte()?;
            }
            4..=6 => {
                self.varint()?;
            }
            7 => self.forward(8)?,
            8 => {
                self.binary()?;
            }
            9 | 10 => {
                let (item, count) = self.list()?;
                for _ in 0..count {
                    self.skip(item, depth + 1, true)?;
                }
            }
            11 => {
                let count = self.varint()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        self.skip(kinds >> 4, depth + 1, true)?;
                        self.skip(kinds & 0x0f, depth + 1, true)?;
                    }
                }
            }
            12 => {
                loop {
                    let head = self.byte()?;
                    if head == 0 {
                        break;
                    }
                    // The number of a field that is skipped does not matter.
                    if head >> 4 == 0 {
                        self.int()?;
                    }
                    self.skip(head & 0x0f, depth + 1, false)?;
                }
            }
            13 => self.forward(16)?,
            _ => return None,
        }
        Some(())
    }

    fn forward(&mut self, n: usize) -> Option<()> {
        let end = self.at.checked_add(n)?;
        self.bytes.get(self.at..end)?;
        self.at = end;
        Some(())
    }
}
