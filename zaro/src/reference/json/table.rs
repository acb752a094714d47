//! Compact in-memory table of references: a million in a few dozen megabytes.
//!
//! Keys are stored as folder and name: folders once, names one after another. A location is three numbers. At the end
//! the names of each folder must be sorted. Writers usually sort them already, numbers by value or as text; either
//! order is accepted, so that there is nothing to sort.

use std::cmp::Ordering;

use bytes::Bytes;

use super::intern::{Interner, too_many};
use crate::error::Result;
use crate::num::u64_of;

/// Marks an inline entry in place of the address number.
const INLINE: u32 = u32::MAX;
/// Marks an invalid reference in place of the address number.
const BAD: u32 = u32::MAX - 1;
/// The length that marks a whole object.
const WHOLE: u64 = u64::MAX;

/// Why a reference is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceFault {
    Null,
    Number,
    Boolean,
    EmptyList,
    Items,
    Address,
    Offset,
    Length,
    End,
    Base64,
    Text,
}

const FAULTS: [(ReferenceFault, &str); 11] = [
    (ReferenceFault::Null, "the reference is null"),
    (ReferenceFault::Number, "the reference is a number"),
    (ReferenceFault::Boolean, "the reference is a boolean"),
    (ReferenceFault::EmptyList, "the reference is an empty list"),
    (ReferenceFault::Items, "the reference must be [url] or [url, offset, length]"),
    (ReferenceFault::Address, "the address in the reference is neither text nor null"),
    (ReferenceFault::Offset, "the offset of the reference is not a non-negative integer"),
    (ReferenceFault::Length, "the length of the reference is not a non-negative integer"),
    (ReferenceFault::End, "offset plus length of the reference overflows"),
    (ReferenceFault::Base64, "the reference begins with base64:, but the rest is not valid base64"),
    (ReferenceFault::Text, "the text of the reference is not valid UTF-8"),
];

/// The reference of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableEntry {
    /// `offset .. offset + length` of the inline bytes.
    Inline { offset: u64, length: u64 },
    /// An object, by the number of its address.
    Whole { url: u32 },
    /// A part of one.
    Span { url: u32, offset: u64, length: u64 },
    /// An invalid reference.
    Bad(ReferenceFault),
}

/// The references of a document.
#[derive(Debug, Default)]
pub(super) struct ReferenceTable {
    /// Folders with their closing slash; `""` is the root.
    folders: Interner,
    /// The folder of each entry; empty once the table is done.
    folder: Vec<u32>,
    names: Vec<u8>,
    name_ends: Vec<u32>,
    url: Vec<u32>,
    offset: Vec<u64>,
    length: Vec<u64>,
    inline: Vec<u8>,
    kept: Bytes,
    /// Entries by folder and name; empty if they were added in that order.
    order: Vec<u32>,
    /// Where each folder begins in that order.
    starts: Vec<u32>,
    /// Whether the names of each folder are sorted as text, not by the value of the numbers in them.
    textual: Vec<bool>,
    /// Numbers of folders in the order of their paths.
    by_path: Vec<u32>,
}

fn usize_from(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl ReferenceTable {
    pub(super) fn len(&self) -> usize {
        self.url.len()
    }

    /// Adds an entry; of several with one key the last wins.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], entry: TableEntry) -> Result<()> {
        let cut = key.iter().rposition(|b| *b == b'/').map_or(0, |at| at.saturating_add(1));
        let (folder, name) = key.split_at_checked(cut).unwrap_or((key, &[]));
        let folder = self.folders.add(folder)?;
        let end = u32::try_from(self.names.len().saturating_add(name.len())).map_err(|_| too_many())?;
        self.folder.push(folder);
        self.names.extend_from_slice(name);
        self.name_ends.push(end);
        let (url, offset, length) = match entry {
            TableEntry::Inline { offset, length } => (INLINE, offset, length),
            TableEntry::Whole { url } => (url, 0, WHOLE),
            TableEntry::Span { url, offset, length } => (url, offset, length),
            TableEntry::Bad(fault) => (BAD, u64_of(FAULTS.iter().position(|f| f.0 == fault).unwrap_or(0)), 0),
        };
        self.url.push(url);
        self.offset.push(offset);
        self.length.push(length);
        Ok(())
    }

    /// Stores inline bytes and returns their entry. `write` appends them to the buffer it gets.
    pub(super) fn keep(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<ReferenceFault>) -> TableEntry {
        let start = self.inline.len();
        if let Some(fault) = write(&mut self.inline) {
            self.inline.truncate(start);
            return TableEntry::Bad(fault);
        }
        TableEntry::Inline { offset: u64_of(start), length: u64_of(self.inline.len().saturating_sub(start)) }
    }

    #[inline]
    fn name(&self, entry: u32) -> &[u8] {
        let i = usize_from(entry);
        let start = i.checked_sub(1).and_then(|i| self.name_ends.get(i)).copied().unwrap_or(0);
        let end = self.name_ends.get(i).copied().unwrap_or(start);
        self.names.get(usize_from(start)..usize_from(end)).unwrap_or_default()
    }

    fn entry(&self, entry: u32) -> Option<TableEntry> {
        let i = usize_from(entry);
        let (url, offset, length) = (*self.url.get(i)?, *self.offset.get(i)?, *self.length.get(i)?);
        Some(match (url, length) {
            (INLINE, length) => TableEntry::Inline { offset, length },
            (BAD, _) => {
                let fault = usize::try_from(offset).ok().and_then(|i| FAULTS.get(i));
                TableEntry::Bad(fault.map_or(ReferenceFault::Null, |f| f.0))
            }
            (url, WHOLE) => TableEntry::Whole { url },
            (url, length) => TableEntry::Span { url, offset, length },
        })
    }

    /// Renumbers addresses: those of the first `written` entries by the first list, others by the second.
    pub(super) fn renumber(&mut self, written: usize, first: &[u32], others: &[u32]) {
        for (i, url) in self.url.iter_mut().enumerate().filter(|(_, u)| **u < BAD) {
            let numbers = if i < written { first } else { others };
            *url = numbers.get(usize_from(*url)).copied().unwrap_or(*url);
        }
    }

    /// Sorts the table. Entries for which `gone` holds are left out.
    pub(super) fn finish(&mut self, gone: impl Fn(usize) -> bool) -> Result<()> {
        u32::try_from(self.len()).map_err(|_| too_many())?;
        let mut starts = vec![0u32; self.folders.len().saturating_add(1)];
        let mut last = 0;
        let (mut sorted, mut all) = (true, true);
        for (i, folder) in self.folder.iter().enumerate() {
            if gone(i) {
                all = false;
                continue;
            }
            sorted &= *folder >= last;
            last = *folder;
            if let Some(n) = starts.get_mut(usize_from(*folder).saturating_add(1)) {
                *n = n.saturating_add(1);
            }
        }
        let mut sum = 0u32;
        for n in &mut starts {
            sum = sum.saturating_add(*n);
            *n = sum;
        }
        let mut order: Vec<u32> = Vec::new();
        self.textual = vec![false; self.folders.len()];
        if !(sorted && all && self.is_in_order(&starts)) {
            let mut next = starts.clone();
            order = vec![0; usize_from(sum)];
            for (i, (folder, entry)) in self.folder.iter().zip(0u32..).enumerate() {
                if gone(i) {
                    continue;
                }
                if let Some(place) = next.get_mut(usize_from(*folder)) {
                    if let Some(slot) = order.get_mut(usize_from(*place)) {
                        *slot = entry;
                    }
                    *place = place.saturating_add(1);
                }
            }
            self.sort(&mut order, &mut starts);
        }
        self.order = order;
        self.starts = starts;
        self.folder = Vec::new();
        self.by_path = (0..u32::try_from(self.folders.len()).unwrap_or(0)).collect();
        let folders = &self.folders;
        self.by_path.sort_unstable_by(|a, b| folders.get(*a).cmp(folders.get(*b)));
        self.kept = Bytes::from(std::mem::take(&mut self.inline));
        self.folders.shrink();
        for numbers in [&mut self.name_ends, &mut self.url] {
            numbers.shrink_to_fit();
        }
        for numbers in [&mut self.offset, &mut self.length] {
            numbers.shrink_to_fit();
        }
        self.names.shrink_to_fit();
        Ok(())
    }

    /// Whether the entries, already grouped by folder, are in one of the two orders; notes which.
    fn is_in_order(&mut self, starts: &[u32]) -> bool {
        let mut textual = std::mem::take(&mut self.textual);
        let mut fine = true;
        for (bounds, textual) in starts.windows(2).zip(&mut textual) {
            let [from, to] = bounds else { continue };
            let ordered = |order: fn(&[u8], &[u8]) -> Ordering| {
                let pairs =
                    (from.saturating_add(1)..*to).map(|i| (self.name(i.saturating_sub(1)), self.name(i)));
                pairs.into_iter().all(|(a, b)| order(a, b) == Ordering::Less)
            };
            *textual = !ordered(natural);
            fine = fine && (!*textual || ordered(by_text));
        }
        self.textual = textual;
        fine
    }

    /// Sorts the entries of each folder; of several with one name the last is kept.
    fn sort(&mut self, order: &mut Vec<u32>, starts: &mut [u32]) {
        let mut textual = std::mem::take(&mut self.textual);
        let (mut from, mut kept) = (0usize, 0usize);
        for (start, textual) in starts.iter_mut().skip(1).zip(&mut textual) {
            let end = usize_from(*start);
            let Some(part) = order.get_mut(from..end) else { break };
            *textual = !part.is_sorted_by(|a, b| natural(self.name(*a), self.name(*b)) == Ordering::Less);
            if *textual && !part.is_sorted_by(|a, b| self.name(*a) < self.name(*b)) {
                // By number next, which is the order they came in.
                part.sort_unstable_by(|a, b| self.name(*a).cmp(self.name(*b)).then(a.cmp(b)));
            }
            for i in from..end {
                let Some(entry) = order.get(i).copied() else { break };
                let next = order.get(i.saturating_add(1)).filter(|_| i.saturating_add(1) < end).copied();
                if next.is_some_and(|next| self.name(next) == self.name(entry)) {
                    continue;
                }
                if let Some(slot) = order.get_mut(kept) {
                    *slot = entry;
                }
                kept = kept.saturating_add(1);
            }
            from = end;
            *start = u32::try_from(kept).unwrap_or(u32::MAX);
        }
        order.truncate(kept);
        self.textual = textual;
    }

    /// The places of a folder's entries in the order.
    fn places(&self, folder: u32) -> std::ops::Range<u32> {
        let at = |i: usize| self.starts.get(i).copied().unwrap_or(0);
        let i = usize_from(folder);
        at(i)..at(i.saturating_add(1))
    }

    fn at(&self, place: u32) -> u32 {
        if self.order.is_empty() {
            place
        } else {
            self.order.get(usize_from(place)).copied().unwrap_or(u32::MAX)
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<TableEntry> {
        let cut = key.iter().rposition(|b| *b == b'/').map_or(0, |at| at.saturating_add(1));
        let (folder, name) = key.split_at_checked(cut)?;
        self.find_in(folder, name)
    }

    /// The reference of `name` in `folder`, which ends with a slash.
    pub(super) fn find_in(&self, folder: &[u8], name: &[u8]) -> Option<TableEntry> {
        let number = self.folders.find(folder)?;
        let places = self.places(number);
        let order = match self.textual.get(usize_from(number)) {
            Some(true) => by_text,
            _ => natural,
        };
        let (mut low, mut high) = (places.start, places.end);
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.at(middle);
            match order(self.name(entry), name) {
                Ordering::Equal => return self.entry(entry),
                Ordering::Less => low = middle.saturating_add(1),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub(super) fn names_in(&self, folder: &[u8]) -> impl Iterator<Item = &[u8]> {
        let places = self.folders.find(folder).map_or(0..0, |f| self.places(f));
        places.map(|place| self.name(self.at(place)))
    }

    /// The names of folders directly below one, each once.
    pub(super) fn folders_in(&self, folder: &[u8]) -> Vec<&[u8]> {
        let mut out: Vec<&[u8]> = Vec::new();
        let mut at = self.by_path.partition_point(|f| self.folders.get(*f) <= folder);
        while let Some(path) = self.by_path.get(at).map(|f| self.folders.get(*f)) {
            let Some(rest) = path.strip_prefix(folder) else { break };
            let Some(end) = rest.iter().position(|b| *b == b'/') else { break };
            let below = path.get(..folder.len().saturating_add(end).saturating_add(1)).unwrap_or_default();
            out.extend(rest.get(..end));
            // All that lies below this one is passed over.
            let later = self.by_path.get(at..).unwrap_or_default();
            at = at.saturating_add(later.partition_point(|f| self.folders.get(*f).starts_with(below)).max(1));
        }
        out
    }

    /// Every entry below `folder`, as folder, name and reference.
    pub(super) fn below(&self, folder: Vec<u8>) -> impl Iterator<Item = (&[u8], &[u8], TableEntry)> {
        let start = self.by_path.partition_point(|f| self.folders.get(*f) < folder.as_slice());
        let inside = self.by_path.get(start..).unwrap_or_default().iter().copied();
        inside.take_while(move |f| self.folders.get(*f).starts_with(&folder)).flat_map(move |f| {
            self.places(f).filter_map(move |place| {
                let entry = self.at(place);
                Some((self.folders.get(f), self.name(entry), self.entry(entry)?))
            })
        })
    }

    /// The bytes of an inline entry.
    pub(super) fn inline(&self, offset: u64, length: u64) -> Bytes {
        let (Ok(start), Ok(length)) = (usize::try_from(offset), usize::try_from(length)) else {
            return Bytes::new();
        };
        match start.checked_add(length) {
            Some(end) if end <= self.kept.len() => self.kept.slice(start..end),
            _ => Bytes::new(),
        }
    }
}

/// The message of a fault.
pub(super) fn said(fault: ReferenceFault) -> &'static str {
    FAULTS.iter().find(|f| f.0 == fault).map_or("the reference is invalid", |f| f.1)
}

/// The order of names as text.
fn by_text(a: &[u8], b: &[u8]) -> Ordering {
    a.cmp(b)
}

/// Natural order of names: numbers with fewer digits first, so that `2.0` comes before `10.0`.
#[inline]
fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let before = a.get(..common).unwrap_or_default();
    let digits = before.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let run = |text: &[u8]| {
        let rest = text.get(common..).unwrap_or_default();
        digits.saturating_add(rest.iter().take_while(|b| b.is_ascii_digit()).count())
    };
    let (left, right) = (run(a), run(b));
    if left > 0 && right > 0 && left != right {
        return left.cmp(&right);
    }
    a.get(common).cmp(&b.get(common))
}

#[cfg(test)]
mod tests;
