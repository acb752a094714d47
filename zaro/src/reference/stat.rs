//! Statistics of a reference map: chunks, objects, bytes.
//!
//! One pass over the entries. Memory grows by a number per distinct address and array; the addresses themselves are not
//! kept, so a map with tens of millions of entries takes little more than a small one.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use futures::stream::StreamExt;

use super::arrays::{Arrays, KeyRole};
use super::{Location, Map, Remote};
use crate::boxed;
use crate::error::{ErrorKind, Result, redacted};
use crate::meta::Json;
use crate::meta::path::shown;
use crate::num::u64_of;

/// Statistics of a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferenceStat {
    /// Each array, by path.
    pub arrays: Vec<ArrayStat>,
    /// All arrays together.
    pub total: ArrayStat,
    /// Metadata documents.
    pub documents: u64,
    /// Their bytes, as far as they are inline.
    pub document_bytes: u64,
    /// Keys that are neither documents nor chunks of a grid.
    pub strays: u64,
    /// The first few of them.
    pub stray_keys: Vec<String>,
    /// Invalid entries.
    pub broken: u64,
    /// The errors of the first few of them.
    pub broken_entries: Vec<String>,
    /// Where the objects are.
    pub places: Vec<PlaceStat>,
}

/// The chunks of an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArrayStat {
    /// The array's path.
    pub path: String,
    /// Chunks in the grid.
    pub chunks: u64,
    /// Chunks in the map.
    pub present: u64,
    /// Chunks that are inline.
    pub inline: u64,
    /// Chunks that are whole objects.
    pub whole: u64,
    /// Distinct objects referred to.
    pub objects: u64,
    /// Bytes referred to, without those of whole objects whose size the map does not know.
    pub bytes: u64,
    /// Whole objects whose size the map does not know, once for each chunk.
    pub unsized_chunks: u64,
    /// Bytes that are inline.
    pub inline_bytes: u64,
}

impl ReferenceStat {
    /// As JSON, of the store at `uri`.
    #[must_use]
    pub fn json(&self, uri: &str) -> Json {
        let place = |p: &PlaceStat| {
            Json::from([
                ("prefix", redacted(&p.prefix).into_owned().into()),
                ("scheme", (&p.scheme).into()),
                ("objects", p.objects.into()),
                ("references", p.references.into()),
                ("bytes", p.bytes.into()),
            ])
        };
        let array = |a: &ArrayStat| {
            let mut out = Json::from([("path", shown(&a.path).into())]);
            a.numbers().into_iter().for_each(|(name, n)| out.set(name, n));
            out
        };
        let total: Vec<(String, Json)> =
            self.total.numbers().into_iter().map(|(name, n)| (name.to_owned(), n.into())).collect();
        Json::from([
            ("uri", redacted(uri).into_owned().into()),
            ("arrays", self.arrays.iter().map(array).collect()),
            ("total", Json::Object(total)),
            ("documents", self.documents.into()),
            ("document_bytes", self.document_bytes.into()),
            ("strays", self.strays.into()),
            ("stray_keys", (&self.stray_keys).into()),
            ("broken", self.broken.into()),
            ("places", self.places.iter().map(place).collect()),
        ])
    }
}

impl ArrayStat {
    fn numbers(&self) -> [(&'static str, u64); 9] {
        [
            ("chunks", self.chunks),
            ("present", self.present),
            ("missing", self.missing()),
            ("inline", self.inline),
            ("whole", self.whole),
            ("objects", self.objects),
            ("bytes", self.bytes),
            ("unsized", self.unsized_chunks),
            ("inline_bytes", self.inline_bytes),
        ]
    }

    /// Chunks of the grid that the map does not have.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.chunks.saturating_sub(self.present)
    }
}

/// Objects with a common address prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceStat {
    /// The common prefix of their addresses, up to a slash; empty for relative ones without a common folder.
    pub prefix: String,
    /// The scheme of the addresses: `s3`, `https`, …; `file` for paths, `relative` for relative ones, `target` for
    /// the one that the caller names.
    pub scheme: String,
    /// Distinct objects.
    pub objects: u64,
    /// Chunks that refer to them.
    pub references: u64,
    /// Bytes that are referred to.
    pub bytes: u64,
}

/// Maximum stray keys and broken entries that are named.
const NAMED: usize = 5;

/// Counts what is in `map`, whose arrays are `arrays`.
#[boxed]
pub async fn stat(map: &dyn Map, arrays: &Arrays) -> Result<ReferenceStat> {
    let mut out = ReferenceStat {
        arrays: arrays
            .list()
            .iter()
            .map(|a| ArrayStat { path: a.path.clone(), chunks: a.chunks, ..ArrayStat::default() })
            .collect(),
        ..ReferenceStat::default()
    };
    let mut objects = Objects::default();
    let mut of_array: Vec<DistinctObjects> =
        arrays.list().iter().map(|_| DistinctObjects::default()).collect();
    let mut hint = 0;
    let mut entries = map.entries("");
    while let Some(entry) = entries.next().await {
        let (key, location) = match entry {
            Ok(entry) => entry,
            // The others are counted all the same.
            Err(e) if e.key().is_some() && e.kind() == ErrorKind::Invalid => {
                out.broken += 1;
                if out.broken_entries.len() < NAMED {
                    out.broken_entries.push(e.to_string());
                }
                continue;
            }
            Err(e) => return Err(e),
        };
        let array = match arrays.part(&key, &mut hint) {
            KeyRole::Document => {
                out.documents += 1;
                if let Location::Inline(bytes) = &location {
                    out.document_bytes = out.document_bytes.saturating_add(u64_of(bytes.len()));
                }
                continue;
            }
            KeyRole::Chunk { array, .. } => array,
            KeyRole::Outside { .. } | KeyRole::Stray => {
                out.strays += 1;
                if out.stray_keys.len() < NAMED {
                    out.stray_keys.push(key);
                }
                continue;
            }
        };
        let (Some(stat), Some(seen)) = (out.arrays.get_mut(array), of_array.get_mut(array)) else { continue };
        stat.present += 1;
        match location {
            Location::Inline(bytes) => {
                stat.inline += 1;
                stat.inline_bytes = stat.inline_bytes.saturating_add(u64_of(bytes.len()));
            }
            Location::Remote(remote) => {
                let size = map.known_size(&remote);
                stat.whole += u64::from(remote.span.is_none());
                stat.unsized_chunks += u64::from(size.is_none());
                stat.bytes = stat.bytes.saturating_add(size.unwrap_or_default());
                seen.add(objects.id(&remote, size.unwrap_or_default()));
            }
        }
    }
    for (stat, seen) in out.arrays.iter_mut().zip(&of_array) {
        stat.objects = u64_of(seen.ids.len());
        out.total.add(stat);
    }
    out.total.objects = u64_of(objects.ids.len());
    out.places = objects.places();
    Ok(out)
}

impl ArrayStat {
    fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.chunks, other.chunks),
            (&mut self.present, other.present),
            (&mut self.inline, other.inline),
            (&mut self.whole, other.whole),
            (&mut self.bytes, other.bytes),
            (&mut self.unsized_chunks, other.unsized_chunks),
            (&mut self.inline_bytes, other.inline_bytes),
        ];
        for (sum, n) in sums {
            *sum = sum.saturating_add(n);
        }
    }
}

/// The distinct objects of one array.
#[derive(Debug, Default)]
struct DistinctObjects {
    ids: HashSet<u64>,
    last: Option<u64>,
}

impl DistinctObjects {
    fn add(&mut self, id: u64) {
        if self.last != Some(id) {
            self.ids.insert(id);
            self.last = Some(id);
        }
    }
}

/// The distinct objects of a map. Addresses are identified by two hashes of 64 bits: a collision of both is less likely
/// than a hardware fault.
#[derive(Debug, Default)]
pub(super) struct Objects {
    first: RandomState,
    second: RandomState,
    ids: HashMap<(u64, u64), u64>,
    last: Option<(Arc<str>, u64, String)>,
    places: BTreeMap<String, PlaceStat>,
}

impl Objects {
    pub(super) fn places(&self) -> Vec<PlaceStat> {
        self.places.values().cloned().collect()
    }

    /// The number of the object of one more reference of `bytes`.
    pub(super) fn id(&mut self, remote: &Remote, bytes: u64) -> u64 {
        let (id, site) = match &self.last {
            Some((url, id, site)) if **url == *remote.url => (*id, site.clone()),
            _ => {
                let url: &str = &remote.url;
                let next = u64_of(self.ids.len());
                let hashes = (self.first.hash_one(url), self.second.hash_one(url));
                let id = *self.ids.entry(hashes).or_insert(next);
                let (scheme, site) = site(url);
                if id == next {
                    let place = self.places.entry(site.to_owned()).or_insert_with(|| PlaceStat {
                        prefix: folder(url).to_owned(),
                        scheme: scheme.to_owned(),
                        ..PlaceStat::default()
                    });
                    place.objects += 1;
                    let common = common_folder(&place.prefix, url);
                    place.prefix.truncate(common);
                }
                self.last = Some((remote.url.clone(), id, site.to_owned()));
                (id, site.to_owned())
            }
        };
        if let Some(place) = self.places.get_mut(&site) {
            place.references += 1;
            place.bytes = place.bytes.saturating_add(bytes);
        }
        id
    }
}

/// The scheme of an address, and the part of it that names a server or a bucket.
fn site(url: &str) -> (&str, &str) {
    if url.is_empty() {
        return ("target", "");
    }
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.find('/').unwrap_or(rest.len());
            let end = scheme.len().saturating_add(3).saturating_add(authority);
            (scheme, url.get(..end).unwrap_or(url))
        }
        None if url.starts_with('/') => ("file", "/"),
        None => ("relative", "."),
    }
}

/// An address up to its last slash.
fn folder(url: &str) -> &str {
    url.rfind('/').and_then(|at| url.get(..=at)).unwrap_or_default()
}

/// How much of `prefix`, which ends with a slash or is empty, `url` begins with, up to a slash.
fn common_folder(prefix: &str, url: &str) -> usize {
    let same = prefix.bytes().zip(url.bytes()).take_while(|(a, b)| a == b).count();
    let common = prefix.as_bytes().get(..same).unwrap_or_default();
    common.iter().rposition(|b| *b == b'/').map_or(0, |at| at.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MemoryMap, zarr_of};
    use super::*;

    #[tokio::test]
    async fn chunks_objects_and_bytes_are_counted() {
        let map = MemoryMap::new()
            .text(".zgroup", r#"{"zarr_format":2}"#)
            .v2("a", &[10], &[2])
            .range("a/0", "s3://b/x/1.nc", 100, 2)
            .range("a/1", "s3://b/x/1.nc", 102, 2)
            .range("a/3", "s3://b/x/y/2.nc", 0, 3)
            .whole("a/4", "https://h/o")
            .range("a/5", "s3://b/x/far.nc", 0, 3)
            .v2("b", &[], &[])
            .text("b/0", "\u{e9}")
            .text("readme", "hello");
        let (arrays, _) = Arrays::of(&zarr_of(map.clone()).await).await.unwrap();
        let stat = stat(&map, &arrays).await.unwrap();
        let a = ArrayStat {
            path: "a".into(),
            chunks: 5,
            present: 4,
            whole: 1,
            objects: 3,
            bytes: 7,
            unsized_chunks: 1,
            ..ArrayStat::default()
        };
        assert_eq!(stat.arrays[0], a);
        assert_eq!(stat.arrays[0].missing(), 1);
        assert_eq!((stat.arrays[1].inline, stat.arrays[1].inline_bytes), (1, 2));
        assert_eq!((stat.total.present, stat.total.objects, stat.total.chunks), (5, 3, 6));
        assert_eq!((stat.documents, stat.strays), (3, 2));
        assert_eq!(stat.stray_keys, ["a/5", "readme"]);
        let places: Vec<(&str, &str, u64, u64)> = stat
            .places
            .iter()
            .map(|p| (p.prefix.as_str(), p.scheme.as_str(), p.objects, p.references))
            .collect();
        assert_eq!(places, [("https://h/", "https", 1, 1), ("s3://b/x/", "s3", 2, 3)]);
    }

    #[test]
    fn addresses_have_schemes_and_common_folders() {
        assert_eq!(site("s3://b/k"), ("s3", "s3://b"));
        assert_eq!(site("file:///a/b"), ("file", "file://"));
        assert_eq!(site("/a/b"), ("file", "/"));
        assert_eq!(site("a/b"), ("relative", "."));
        assert_eq!(site(""), ("target", ""));
        assert_eq!(common_folder("s3://b/x/", "s3://b/xy/1"), 7);
        assert_eq!(common_folder("data/", "other/x"), 0);
        assert_eq!(common_folder("/a/", "/a/b"), 3);
    }
}
