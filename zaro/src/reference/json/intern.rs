//! String interner: each string is stored once, in one contiguous buffer.

use std::hash::{BuildHasher, RandomState};

use crate::error::{Error, Result};

/// Strings by number, and numbers by string.
#[derive(Debug, Default)]
pub(super) struct Interner {
    bytes: Vec<u8>,
    /// Where each text ends.
    ends: Vec<u32>,
    /// Hash table of string numbers plus one; 0 is a free slot. The length is a power of two.
    slots: Vec<u32>,
    hasher: RandomState,
    last: u32,
}

/// The error for more strings than 32 bits can count.
pub(super) fn too_many() -> Error {
    Error::unsupported("too many references for one JSON document; use Parquet")
}

impl Interner {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &[u8] {
        let Ok(i) = usize::try_from(id) else { return &[] };
        let start = i.checked_sub(1).and_then(|i| self.ends.get(i)).copied().unwrap_or(0);
        let end = self.ends.get(i).copied().unwrap_or(start);
        let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else { return &[] };
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// All texts in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..u32::try_from(self.len()).unwrap_or(u32::MAX)).map(|id| self.get(id))
    }

    fn slot(&self, text: &[u8]) -> usize {
        let mask = u64::try_from(self.slots.len().saturating_sub(1)).unwrap_or(0);
        usize::try_from(self.hasher.hash_one(text) & mask).unwrap_or(0)
    }

    /// The number of a text; `None` if it is not here.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        let mut at = self.slot(text);
        loop {
            match self.slots.get(at)?.checked_sub(1) {
                None => return None,
                Some(id) if self.get(id) == text => return Some(id),
                Some(_) => at = at.wrapping_add(1) & self.slots.len().wrapping_sub(1),
            }
        }
    }

    /// The number of a string, which is added if it is new.
    #[inline]
    pub(super) fn add(&mut self, text: &[u8]) -> Result<u32> {
        // The same as the one before is by far the most frequent.
        if !self.ends.is_empty() && self.get(self.last) == text {
            return Ok(self.last);
        }
        let id = match self.find(text) {
            Some(id) => id,
            None => self.insert(text)?,
        };
        self.last = id;
        Ok(id)
    }

    fn insert(&mut self, text: &[u8]) -> Result<u32> {
        let id = u32::try_from(self.ends.len()).map_err(|_| too_many())?;
        // The largest numbers have meanings of their own.
        if id >= u32::MAX - 16 {
            return Err(too_many());
        }
        let end = u32::try_from(self.bytes.len().saturating_add(text.len())).map_err(|_| too_many())?;
        self.bytes.extend_from_slice(text);
        self.ends.push(end);
        if self.ends.len().saturating_mul(2) > self.slots.len() {
            self.slots = vec![0; self.slots.len().saturating_mul(2).max(64)];
            for id in 0..=id {
                self.occupy(id);
            }
        } else {
            self.occupy(id);
        }
        Ok(id)
    }

    fn occupy(&mut self, id: u32) {
        let mut at = self.slot(self.get(id));
        let mask = self.slots.len().wrapping_sub(1);
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == 0 {
                *slot = id.saturating_add(1);
                return;
            }
            at = at.wrapping_add(1) & mask;
        }
    }

    /// Frees spare capacity.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_numbers() {
        let mut i = Interner::default();
        assert_eq!(i.find(b"x"), None);
        let text = |n: u32| format!("text {}", n % 700);
        let ids: Vec<u32> = (0..5000).map(|n| i.add(text(n).as_bytes()).unwrap()).collect();
        assert_eq!(i.len(), 700);
        for (n, id) in (0u32..).zip(&ids) {
            assert_eq!(i.get(*id), text(n).as_bytes());
            assert_eq!(i.find(text(n).as_bytes()), Some(*id));
        }
        assert_eq!((i.find(b"text"), i.add(b"").unwrap(), i.find(b"")), (None, 700, Some(700)));
        assert_eq!(i.iter().count(), 701);
    }
}
