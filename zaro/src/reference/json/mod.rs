//! Kerchunk references in JSON.
//!
//! A document, of version 0 (keys and references) or 1 (`refs`, `templates`, `gen`), is streamed into a compact table.
//! A fault of a single reference is an error when that is read; a fault of the document is an error when it is opened.

mod document;
mod feed;
mod generate;
mod intern;
mod table;
mod template;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};

use self::document::Parsed;
use self::intern::Interner;
use self::table::{ReferenceTable, TableEntry, said};
use super::{Location, Map, Remote, Span};
use crate::error::{Error, Result};
use crate::store::{Listing, SharedStore};

/// The references of a document, in memory.
#[derive(Debug)]
pub struct JsonMap {
    table: ReferenceTable,
    urls: Interner,
    failed: Vec<(u32, String)>,
}

/// Reads the document behind `key` of `store`, plain or compressed with gzip or zstd, with `templates` in place of its
/// own of the same names. `None` if there is no such key.
///
/// # Errors
/// `Invalid` if it is not a reference document.
pub(crate) async fn open(
    store: &SharedStore,
    key: &str,
    templates: &[(String, String)],
) -> Result<Option<JsonMap>> {
    match feed::read(store, key, templates).await? {
        Some(parsed) => JsonMap::new(parsed).map(Some),
        None => Ok(None),
    }
}

impl JsonMap {
    /// The references of a document in memory.
    pub fn parse(bytes: &[u8], templates: &[(String, String)]) -> Result<Self> {
        let mut feed = feed::Feed::new();
        feed.push(bytes)?;
        Self::new(feed.finish(templates)?)
    }

    fn new(parsed: Parsed) -> Result<Self> {
        let Parsed { table, urls, failed } = parsed;
        let is_node = |name: &[u8]| matches!(name, b".zarray" | b".zgroup" | b"zarr.json" | b".zmetadata");
        // A document about something else has no node in it.
        if table.len() > 0 && !table.below(Vec::new()).any(|(_, name, _)| is_node(name)) {
            return Err(Error::invalid("not a reference document: this JSON has no group and no array"));
        }
        Ok(Self { table, urls, failed })
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.below(Vec::new()).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.below(Vec::new()).next().is_none()
    }

    /// The distinct addresses of references, or the error of one that cannot be expanded.
    pub fn urls(&self) -> impl Iterator<Item = Result<&str>> {
        (0..u32::try_from(self.urls.len()).unwrap_or(u32::MAX)).map(|id| self.url(id))
    }

    fn url(&self, id: u32) -> Result<&str> {
        if let Ok(at) = self.failed.binary_search_by_key(&id, |(id, _)| *id)
            && let Some((_, why)) = self.failed.get(at)
        {
            return Err(Error::invalid(why.as_str()));
        }
        std::str::from_utf8(self.urls.get(id)).map_err(|_| Error::invalid("the address is not valid UTF-8"))
    }

    fn location(&self, entry: TableEntry) -> Result<Location> {
        let remote =
            |url: u32, span| Ok(Location::Remote(Remote::new(Arc::<str>::from(self.url(url)?), span)));
        match entry {
            TableEntry::Inline { offset, length } => Ok(Location::Inline(self.table.inline(offset, length))),
            TableEntry::Whole { url } => remote(url, None),
            TableEntry::Span { url, offset, length } => remote(url, Some(Span { offset, length })),
            TableEntry::Bad(fault) => Err(Error::invalid(said(fault))),
        }
    }

    /// The chunk of an array without dimensions, which has three names: `0` (V2), `c` (V3), and the empty one that
    /// VirtualiZarr writes.
    fn scalar(&self, folder: &[u8], name: &[u8]) -> Option<TableEntry> {
        let (document, others): (&[u8], [&[u8]; 2]) = match name {
            b"0" => (b".zarray", [b"", b"c"]),
            b"c" => (b"zarr.json", [b"", b"0"]),
            _ => return None,
        };
        self.table.find_in(folder, document)?;
        others.iter().find_map(|other| self.table.find_in(folder, other))
    }

    fn find(&self, key: &str) -> Option<TableEntry> {
        let key = key.as_bytes();
        self.table.find(key).or_else(|| {
            let cut = key.iter().rposition(|b| *b == b'/').map_or(0, |at| at.saturating_add(1));
            let (folder, name) = key.split_at_checked(cut)?;
            self.scalar(folder, name)
        })
    }

    /// The name of an entry in listings: an empty name is the chunk of a scalar.
    fn shown<'a>(&self, folder: &[u8], name: &'a [u8]) -> &'a [u8] {
        match name {
            b"" if self.table.find_in(folder, b"zarr.json").is_some() => b"c",
            b"" => b"0",
            name => name,
        }
    }
}

/// A folder's path with its closing slash.
fn folder_of(prefix: &str) -> Vec<u8> {
    if prefix.is_empty() { Vec::new() } else { format!("{prefix}/").into_bytes() }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[async_trait]
impl Map for JsonMap {
    async fn locate(&self, key: &str) -> Result<Option<Location>> {
        self.find(key).map(|entry| self.location(entry)).transpose()
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        let folder = folder_of(prefix);
        let names = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
        let mut out = Listing::default();
        out.objects.extend(self.table.names_in(&folder).map(|name| text(self.shown(&folder, name))));
        out.prefixes.extend(self.table.folders_in(&folder).into_iter().filter(|n| names(n)).map(text));
        Ok(out.sorted())
    }

    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>> {
        let all = self.table.below(folder_of(prefix)).filter(|(folder, name, _)| {
            !(name.is_empty() && self.table.find_in(folder, self.shown(folder, name)).is_some())
        });
        let all: Box<dyn Iterator<Item = _> + Send> = Box::new(all.map(|(folder, name, entry)| {
            let key = text(&[folder, self.shown(folder, name)].concat());
            match self.location(entry) {
                Ok(location) => Ok((key, location)),
                Err(e) => Err(e.with_key(key)),
            }
        }));
        stream::iter(all).boxed()
    }

    fn stated_size(&self, key: &str) -> Option<u64> {
        match self.find(key)? {
            TableEntry::Inline { length, .. } | TableEntry::Span { length, .. } => Some(length),
            TableEntry::Whole { .. } | TableEntry::Bad(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
