//! Maps keys of a reference store to arrays and chunk numbers.
//!
//! The tools for maps go through millions of keys in the map's own order. Each key is classified here, without
//! allocating: a document, a chunk of an array's grid, a chunk outside it, or a stray key.

use std::collections::HashMap;

use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, Zarr};
use crate::meta::{ArrayMeta, ChunkKeys, NodeMeta};
use crate::num;

/// The names of metadata documents.
const DOCUMENTS: [&str; 5] = [".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"];

/// The arrays of a hierarchy, by path.
#[derive(Debug, Default)]
pub struct Arrays {
    list: Vec<ChunkGrid>,
    by_path: HashMap<String, usize>,
}

/// The chunk grid of one array.
#[derive(Debug)]
pub struct ChunkGrid {
    /// The array's path as in keys: `""` or `a/b`.
    pub path: String,
    /// Its metadata.
    pub meta: ArrayMeta,
    /// How many chunks there are along each dimension.
    pub counts: Vec<u64>,
    /// How many chunks there are; `u64::MAX` if there are more.
    pub chunks: u64,
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRole {
    /// A metadata document, by its name.
    Document,
    /// A chunk of an array in the list, by its number in C order.
    Chunk {
        /// Which array.
        array: usize,
        /// Which chunk.
        number: u64,
    },
    /// A chunk key outside the array's grid.
    Outside {
        /// Which array.
        array: usize,
    },
    /// A key that belongs to no array.
    Stray,
}

impl Arrays {
    /// The arrays of `zarr`, and the errors of those whose metadata cannot be read.
    #[boxed]
    pub async fn of(zarr: &Zarr) -> Result<(Self, Vec<Error>)> {
        let nodes = match zarr.walk("").await {
            // No document at the root: there may be nodes below it all the same.
            Err(e) if e.kind() == ErrorKind::NotFound => rootless(zarr).await?,
            nodes => nodes?,
        };
        Ok((Self::from_nodes(nodes), zarr.take_damaged()))
    }

    /// The arrays among `nodes`.
    #[must_use]
    pub fn from_nodes(nodes: Vec<Node>) -> Self {
        let mut out = Self::default();
        for Node { path, meta, .. } in nodes {
            if let NodeMeta::Array(meta) = meta {
                out.by_path.insert(path.clone(), out.list.len());
                out.list.push(ChunkGrid::new(path, meta));
            }
        }
        out
    }

    /// All of them, by path.
    #[must_use]
    pub fn list(&self) -> &[ChunkGrid] {
        &self.list
    }

    /// The array at this position in the list.
    pub fn at(&self, array: usize) -> Result<&ChunkGrid> {
        self.list.get(array).ok_or_else(|| Error::invalid("there is no such array"))
    }

    /// Classifies `key`. `hint` is the array of the previous key: most keys follow one of their own array.
    pub fn part(&self, key: &str, hint: &mut usize) -> KeyRole {
        if is_document(key) {
            return KeyRole::Document;
        }
        let Some((array, grid, rest)) = self.owner(key, hint) else { return KeyRole::Stray };
        match Place::of(rest, grid.meta.keys, &grid.counts) {
            Place::Chunk(number) => KeyRole::Chunk { array, number },
            Place::Outside => KeyRole::Outside { array },
            Place::Nowhere => KeyRole::Stray,
        }
    }

    /// The array that `key` lies below, and the rest of the key.
    fn owner<'k>(&self, key: &'k str, hint: &mut usize) -> Option<(usize, &ChunkGrid, &'k str)> {
        if let Some(grid) = self.list.get(*hint)
            && let Some(rest) = below(key, &grid.path)
        {
            return Some((*hint, grid, rest));
        }
        let paths = key.rmatch_indices('/').filter_map(|(at, _)| key.get(..at)).chain([""]);
        let (array, path) = paths.filter_map(|p| Some((*self.by_path.get(p)?, p))).next()?;
        *hint = array;
        Some((array, self.list.get(array)?, below(key, path)?))
    }
}

/// The nodes below a root without documents.
async fn rootless(zarr: &Zarr) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for node in zarr.children("").await? {
        match node.meta {
            NodeMeta::Array(_) => nodes.push(node),
            NodeMeta::Group(_) => nodes.extend(zarr.walk(&node.path).await?),
        }
    }
    Ok(nodes)
}

/// What follows `path/` in `key`.
fn below<'k>(key: &'k str, path: &str) -> Option<&'k str> {
    if path.is_empty() { Some(key) } else { key.strip_prefix(path)?.strip_prefix('/') }
}

/// Whether a key is that of a metadata document.
#[must_use]
pub(crate) fn is_document(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    DOCUMENTS.contains(&name)
}

/// Where a key lies in a grid.
pub(super) enum Place {
    Chunk(u64),
    Outside,
    Nowhere,
}

impl Place {
    /// The place of the chunk key `rest`, below the path of an array with `counts` chunks along each dimension.
    pub(super) fn of(rest: &str, keys: ChunkKeys, counts: &[u64]) -> Self {
        if counts.is_empty() {
            // What each writer calls the one chunk of a scalar.
            return if matches!(rest, "0" | "c" | "") { Self::Chunk(0) } else { Self::Nowhere };
        }
        let numbers = match keys.prefixed {
            false => Some(rest),
            true => rest.strip_prefix('c').and_then(|r| r.strip_prefix(keys.separator)),
        };
        let Some(numbers) = numbers else { return Self::Nowhere };
        match Self::linear(numbers, keys.separator, counts) {
            // V2 does not say which separator an array has unless it is asked for.
            Self::Nowhere if !keys.prefixed && counts.len() > 1 => {
                Self::linear(numbers, keys.other_separator().separator, counts)
            }
            place => place,
        }
    }

    fn linear(numbers: &str, separator: char, counts: &[u64]) -> Self {
        let (mut number, mut inside, mut counts) = (Some(0u64), true, counts.iter());
        for text in numbers.split(separator) {
            let (Some(count), Some(index)) = (counts.next(), index_of(text)) else { return Self::Nowhere };
            inside &= index < *count;
            number = number.and_then(|n| n.checked_mul(*count)?.checked_add(index));
        }
        match number {
            _ if counts.next().is_some() => Self::Nowhere,
            Some(number) if inside => Self::Chunk(number),
            _ => Self::Outside,
        }
    }
}

impl ChunkGrid {
    fn new(path: String, meta: ArrayMeta) -> Self {
        let counts = meta.grid.counts(&meta.shape);
        let chunks = counts.iter().fold(1u64, |acc, n| acc.saturating_mul(*n));
        Self { path, meta, counts, chunks }
    }

    /// The index of chunk `number`.
    #[must_use]
    pub fn index(&self, number: u64) -> Vec<u64> {
        num::index_of(number, &self.counts)
    }
}

/// Parses a number of a chunk key: only digits, no leading zero.
fn index_of(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MemoryMap, zarr_of};
    use super::*;

    async fn arrays() -> Arrays {
        let map = MemoryMap::new()
            .text(".zgroup", r#"{"zarr_format":2}"#)
            .text("g/.zgroup", r#"{"zarr_format":2}"#)
            .v2("g/a", &[10, 7], &[3, 4])
            .v2("s", &[], &[])
            .v3("new", &[5], &[2]);
        let (arrays, damaged) = Arrays::of(&zarr_of(map).await).await.unwrap();
        assert!(damaged.is_empty(), "{damaged:?}");
        arrays
    }

    #[tokio::test]
    async fn keys_find_their_array_and_chunk() {
        let arrays = arrays().await;
        let paths: Vec<&str> = arrays.list().iter().map(|a| a.path.as_str()).collect();
        // A V3 node in a V2 hierarchy is none of its nodes.
        assert_eq!(paths, ["g/a", "s"]);
        assert_eq!(arrays.list()[0].chunks, 8);
        let mut hint = 0;
        for (key, wanted) in [
            ("g/a/0.0", KeyRole::Chunk { array: 0, number: 0 }),
            ("g/a/3.1", KeyRole::Chunk { array: 0, number: 7 }),
            ("g/a/2/1", KeyRole::Chunk { array: 0, number: 5 }),
            ("g/a/4.0", KeyRole::Outside { array: 0 }),
            ("g/a/0.2", KeyRole::Outside { array: 0 }),
            ("g/a/18446744073709551615.18446744073709551615", KeyRole::Outside { array: 0 }),
            ("g/a/01.0", KeyRole::Stray),
            ("g/a/+1.0", KeyRole::Stray),
            ("g/a/0", KeyRole::Stray),
            ("g/a/0.0.0", KeyRole::Stray),
            ("g/a/", KeyRole::Stray),
            ("g/.zgroup", KeyRole::Document),
            ("g/a/.zattrs", KeyRole::Document),
            ("s/0", KeyRole::Chunk { array: 1, number: 0 }),
            ("s/", KeyRole::Chunk { array: 1, number: 0 }),
            ("s/c", KeyRole::Chunk { array: 1, number: 0 }),
            ("s/1", KeyRole::Stray),
            ("readme", KeyRole::Stray),
            ("g/ab/0.0", KeyRole::Stray),
            ("g/a/1.1", KeyRole::Chunk { array: 0, number: 3 }),
        ] {
            assert_eq!(arrays.part(key, &mut hint), wanted, "{key}");
        }
    }

    #[tokio::test]
    async fn indexes_and_numbers_agree() {
        let arrays = arrays().await;
        let grid = &arrays.list()[0];
        for number in 0..grid.chunks {
            let key = grid.meta.keys.key("g/a", &grid.index(number));
            assert_eq!(arrays.part(&key, &mut 0), KeyRole::Chunk { array: 0, number });
        }
    }

    #[tokio::test]
    async fn a_root_may_have_no_document() {
        let map = MemoryMap::new().v2("x", &[4], &[2]).text("g/.zgroup", r#"{"zarr_format":2}"#).v2(
            "g/y",
            &[4],
            &[2],
        );
        let (arrays, _) = Arrays::of(&zarr_of(map).await).await.unwrap();
        let paths: Vec<&str> = arrays.list().iter().map(|a| a.path.as_str()).collect();
        assert_eq!(paths, ["g/y", "x"]);
    }
}
