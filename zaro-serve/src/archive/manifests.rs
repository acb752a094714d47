//! Parsed manifests, kept in memory up to a limit.
//!
//! A manifest never changes: its name is the checksum of what it lists. So one that was parsed is right for ever, and a
//! hit costs a look into a table, however many entries the manifest has.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, Bytes};
use futures::TryStreamExt as _;
use tokio::sync::{OnceCell, mpsc};
use zaro::Result;
use zaro::manifest::{Digest, Manifest};
use zaro::store::{GetOptions, SharedStore};

/// The largest document that is read: several times the largest known.
const LARGEST: u64 = 4 << 30;

/// Pieces of a document that may wait for the parser.
const WAITING: usize = 8;

/// A Zarr's id and a version of it.
type Name = (String, Digest);

/// The manifests in memory.
#[derive(Debug)]
pub(crate) struct Manifests {
    /// Bytes that they may take; one is kept however large it is.
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Name, Entry>,
    /// Bytes of all of them.
    weight: usize,
    /// How often one was asked for.
    turn: u64,
}

#[derive(Debug, Default)]
struct Entry {
    /// Empty while it is being read: whoever else asks for it waits for the same.
    cell: Arc<OnceCell<Arc<Manifest>>>,
    weight: usize,
    /// The turn at which it was last asked for.
    used: u64,
}

impl Manifests {
    /// Up to `limit` bytes of them.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, kept: Mutex::default() }
    }

    /// The manifest at `key` of `store`, which has this name; `None` if there is none.
    pub(crate) async fn get(
        &self,
        id: &str,
        checksum: Digest,
        store: &SharedStore,
        key: &str,
    ) -> Result<Option<Arc<Manifest>>> {
        let name = (id.to_owned(), checksum);
        let cell = self.cell(&name);
        if let Some(manifest) = cell.get() {
            return Ok(Some(manifest.clone()));
        }
        let read = cell.get_or_try_init(|| async {
            match read(store, key).await {
                Ok(Some(manifest)) => Ok(Arc::new(manifest)),
                Ok(None) => Err(None),
                Err(e) => Err(Some(e)),
            }
        });
        let outcome = match read.await {
            Ok(manifest) => Ok(Some(manifest.clone())),
            Err(None) => Ok(None),
            Err(Some(e)) => Err(e),
        };
        match &outcome {
            Ok(Some(manifest)) => self.keep(&name, manifest.memory()),
            // What failed or is absent is looked for again.
            _ => self.forget(&name, &cell),
        }
        outcome
    }

    /// The manifest of this name, if it is in memory.
    pub(crate) fn at_hand(&self, id: &str, checksum: Digest) -> Option<Arc<Manifest>> {
        let kept = self.kept();
        kept.entries.get(&(id.to_owned(), checksum)).and_then(|entry| entry.cell.get().cloned())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, name: &Name) -> Arc<OnceCell<Arc<Manifest>>> {
        let mut kept = self.kept();
        kept.turn = kept.turn.wrapping_add(1);
        let turn = kept.turn;
        if let Some(entry) = kept.entries.get_mut(name) {
            entry.used = turn;
            return entry.cell.clone();
        }
        let entry = kept.entries.entry(name.clone()).or_default();
        entry.used = turn;
        entry.cell.clone()
    }

    /// Counts a manifest that was just read, and lets go of those that were not asked for for the longest time.
    fn keep(&self, name: &Name, weight: usize) {
        let (mut kept, weight) = (self.kept(), weight.max(1));
        match kept.entries.get_mut(name) {
            Some(entry) if entry.weight == 0 => entry.weight = weight,
            // Counted by another who waited for it, or let go of already.
            _ => return,
        }
        kept.weight = kept.weight.saturating_add(weight);
        // Those whose readers left before the end.
        kept.entries.retain(|_, entry| entry.weight > 0 || Arc::strong_count(&entry.cell) > 1);
        while kept.weight > self.limit {
            let others = kept.entries.iter().filter(|(other, entry)| *other != name && entry.weight > 0);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.used).map(|(other, _)| other.clone())
            else {
                return;
            };
            let gone = kept.entries.remove(&oldest).map_or(0, |entry| entry.weight);
            kept.weight = kept.weight.saturating_sub(gone);
        }
    }

    fn forget(&self, name: &Name, cell: &Arc<OnceCell<Arc<Manifest>>>) {
        let mut kept = self.kept();
        if kept.entries.get(name).is_some_and(|entry| Arc::ptr_eq(&entry.cell, cell) && !cell.initialized()) {
            kept.entries.remove(name);
        }
    }
}

/// Reads and parses a manifest as its bytes arrive: the text is never in memory as a whole, and no thread that answers
/// requests is kept busy.
async fn read(store: &SharedStore, key: &str) -> Result<Option<Manifest>> {
    let options = GetOptions::default().with_max_size(Some(LARGEST));
    let Some(object) = store.get_stream(key, options).await? else { return Ok(None) };
    let (sender, receiver) = mpsc::channel(WAITING);
    let parsing = zaro::blocking::spawn_blocking(move || {
        zaro::manifest::parse(Pieces { receiver, piece: Bytes::new() })
    });
    let mut body = object.body;
    let passing_on = async move {
        while let Some(piece) = body.try_next().await? {
            // The parser has given up, and says why.
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let (parsed, passed_on): (_, Result<()>) = futures::join!(parsing, passing_on);
    // Half of a document does not parse, but that is not what is wrong with it.
    passed_on?;
    parsed.map(Some)
}

/// Pieces of a stream as a reader, for a thread of its own.
struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let length = out.len().min(self.piece.len());
        if let Some(out) = out.get_mut(..length) {
            self.piece.copy_to_slice(out);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::manifest::{Builder, EntryRef, Fields, ManifestOptions};
    use zaro::store::MemoryStore;

    /// A store with manifests of `count` entries each, and their names.
    fn made(counts: &[u64]) -> (SharedStore, Vec<(Digest, String)>) {
        let store = MemoryStore::new();
        let mut names = Vec::new();
        for count in counts {
            let mut builder = Builder::new(Fields::ALL);
            for i in 0..*count {
                let entry = EntryRef {
                    etag: Some("d41d8cd98f00b204e9800998ecf8427e"),
                    size: i,
                    ..EntryRef::default()
                };
                builder.push(&format!("c/{i:06}"), &entry).unwrap();
            }
            let manifest = builder.finish().unwrap();
            let statistics = manifest.statistics().unwrap();
            let checksum = manifest.checksum().unwrap();
            let text = manifest.to_vec(&statistics, &ManifestOptions::default()).unwrap();
            store.put(&format!("{checksum}.json"), text).unwrap();
            names.push((checksum, format!("{checksum}.json")));
        }
        (Arc::new(store), names)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_manifest_is_parsed_once_however_many_ask() {
        let (store, names) = made(&[5000]);
        let manifests = Manifests::new(usize::MAX);
        let (checksum, key) = &names[0];
        let all = (0..20).map(|_| manifests.get("id-000", *checksum, &store, key));
        let all = futures::future::try_join_all(all).await.unwrap();
        let first = all[0].clone().unwrap();
        assert!(all.iter().all(|one| Arc::ptr_eq(one.as_ref().unwrap(), &first)));
        assert_eq!(first.len(), 5000);
        assert_eq!(manifests.kept().weight, first.memory());
        // Another Zarr with the same content has other versions of its objects.
        let other = manifests.get("id-001", *checksum, &store, key).await.unwrap().unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_limit_holds_and_the_least_used_go_first() {
        let (store, names) = made(&[1000, 1001, 1002, 1003]);
        let one = {
            let all = Manifests::new(usize::MAX);
            all.get("id-000", names[0].0, &store, &names[0].1).await.unwrap().unwrap().memory()
        };
        let manifests = Manifests::new(one * 5 / 2);
        for at in [0, 1, 0, 2, 0, 3] {
            let (checksum, key) = &names[at];
            manifests.get("id-000", *checksum, &store, key).await.unwrap().unwrap();
        }
        let kept: Vec<bool> = names.iter().map(|n| manifests.at_hand("id-000", n.0).is_some()).collect();
        assert_eq!(kept, [true, false, false, true]);
        assert!(manifests.kept().weight <= one * 5 / 2);
        // One is kept even if it is larger than all that may be.
        let small = Manifests::new(1);
        for (checksum, key) in &names {
            small.get("id-000", *checksum, &store, key).await.unwrap().unwrap();
        }
        assert_eq!(small.kept().entries.len(), 1);
        assert!(small.at_hand("id-000", names[3].0).is_some());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_absent_or_damaged_is_not_kept() {
        let (store, names) = made(&[1]);
        let manifests = Manifests::new(usize::MAX);
        assert!(manifests.get("id-000", names[0].0, &store, "none.json").await.unwrap().is_none());
        let broken = MemoryStore::new();
        broken.put("a.json", "{\"entries\": {\"a\": [1").unwrap();
        let broken: SharedStore = Arc::new(broken);
        let e = manifests.get("id-000", names[0].0, &broken, "a.json").await.unwrap_err();
        assert_eq!(e.kind(), zaro::ErrorKind::Invalid);
        assert!(manifests.kept().entries.is_empty());
        assert!(manifests.get("id-000", names[0].0, &store, &names[0].1).await.unwrap().is_some());
    }
}
