//! Damages every byte of a snapshot, a manifest and the repo file: reading gives errors or other values, never a panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::{self, FileKind};
use super::id::Id;
use super::manifest::ChunkManifest;
use super::repo;
use super::snapshot::Snapshot;
use crate::blocking::block_on;
use crate::error::Result;
use crate::store::memory::MemoryStore;
use crate::store::zip::ZipStore;
use crate::store::{KeyEntry, StoreExt as _};
use futures::TryStreamExt;

/// The decompressed files of a repository.
fn payloads(zip: &'static [u8]) -> BTreeMap<String, Vec<u8>> {
    let memory = MemoryStore::new();
    memory.put("x.zip", zip).unwrap();
    let zip = block_on(ZipStore::open(Arc::new(memory), "x.zip")).unwrap().unwrap();
    let keys: Vec<KeyEntry> = block_on(zip.keys("").try_collect()).unwrap();
    let kinds =
        [("snapshots/", FileKind::Snapshot), ("manifests/", FileKind::Manifest), ("repo", FileKind::Repo)];
    let one = |entry: KeyEntry| {
        let (_, kind) = kinds.iter().find(|(start, _)| entry.key.starts_with(start))?;
        let bytes = block_on(zip.get(&entry.key, None)).unwrap().unwrap();
        Some((entry.key, file::open(&bytes, *kind).unwrap()))
    };
    keys.into_iter().filter_map(one).collect()
}

/// Reads all of a file; returns how much there was.
fn look(key: &str, payload: Vec<u8>) -> Result<usize> {
    let Some((folder, id)) = key.split_once('/') else {
        return repo::known(&payload).map(|_| 1);
    };
    let id = Id::parse(id)?;
    let mut seen = 0;
    if folder == "snapshots" {
        let snapshot = Snapshot::parse(payload, id)?;
        let _ = snapshot.list("grp");
        for node in snapshot.below("") {
            if let Some(array) = &node.array {
                array.form(&node.document)?;
                seen += array.parts_with(&[1, 1]).count() + array.parts().len();
            }
        }
        return Ok(seen);
    }
    let manifest = ChunkManifest::parse(payload, id)?;
    for node in manifest.nodes()? {
        manifest.find(node, &[1])?;
        manifest.each_index(node, |_| seen += 1)?;
        manifest.some(node, 0, usize::MAX)?;
    }
    Ok(seen)
}

#[test]
fn damage_of_every_byte_is_an_error_or_another_value() {
    let files = [
        payloads(include_bytes!("../../../tests/data/icechunk/v1.zip")),
        payloads(include_bytes!("../../../tests/data/icechunk/v2.zip")),
    ];
    for files in &files {
        let largest = |folder: &str| {
            let of = files.iter().filter(|(k, _)| k.starts_with(folder));
            of.max_by_key(|(_, v)| v.len()).map(|(k, _)| k.as_str())
        };
        for key in ["snapshots/", "manifests/", "repo"].into_iter().filter_map(largest) {
            let good = &files[key];
            assert!(look(key, good.clone()).unwrap() > 0, "{key}");
            let mut noticed = 0;
            // Cut there, one bit changed, all bits set, in turn.
            for at in 0..good.len() {
                let mut bad = good.clone();
                match at % 3 {
                    0 => bad.truncate(at),
                    1 => bad[at] ^= 1 << (at % 8),
                    _ => bad[at] = 0xff,
                }
                noticed += usize::from(look(key, bad).is_err());
            }
            assert!(noticed > good.len() / 3, "{key}: {noticed} of {}", good.len());
        }
    }
}
