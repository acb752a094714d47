//! Converts a reference map to another form (JSON or Parquet), with the same keys and bytes.
//!
//! Entries are streamed in the order of the map; [`ParquetWriter`] buffers rows until their partition is complete.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::TryStreamExt;

use super::addresses::{Addresses, Counts};
use super::arrays::{Arrays, KeyRole, is_document};
use super::json_write::JsonWriter;
#[cfg(feature = "parquet")]
use super::parquet::{self, ParquetWriter};
use super::{Location, Map, ReferenceStore, Remote};
use crate::boxed;
use crate::error::{Error, Result, redacted};
use crate::meta::Json;
use crate::num::u64_of;
use crate::store::SharedStore;
use crate::task::{Task, Unit};

/// How to convert.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct RewriteOptions {
    /// Drop keys that the form cannot store, instead of an error.
    pub drop_strays: bool,
    /// Progress, in entries, and cancellation.
    pub task: Task,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Metadata documents.
    pub documents: u64,
    /// All other entries.
    pub references: u64,
    /// References that are inline.
    pub inline: u64,
    /// Keys that the form cannot store.
    pub dropped: u64,
    /// The first few of them.
    pub dropped_keys: Vec<String>,
}

impl Rewritten {
    /// As JSON, with the counts of changed addresses; for a store written to `uri`.
    #[must_use]
    pub fn json(&self, uri: Option<&str>, counts: &Counts) -> Json {
        Json::from([
            ("uri", uri.map(|uri| redacted(uri).into_owned()).into()),
            ("documents", self.documents.into()),
            ("references", self.references.into()),
            ("inline", self.inline.into()),
            ("dropped", self.dropped.into()),
            ("absolute", counts.absolute.into()),
            ("versioned", counts.versioned.into()),
            ("unpinned", counts.unpinned.into()),
            ("unnamed", counts.unnamed.into()),
        ])
    }
}

/// Maximum dropped keys that are named.
const NAMED: usize = 5;

/// Entries between two checks for cancellation.
const STEP: u64 = 1024;

impl RewriteOptions {
    fn step(&self, done: u64) -> Result<()> {
        if !done.is_multiple_of(STEP) {
            return Ok(());
        }
        self.task.meter(Unit::Objects, None::<u64>).set(done);
        self.task.check()
    }
}

/// Writes `map` as Kerchunk's JSON. The document is complete when `out` is finished.
pub async fn to_json<W: Write>(
    map: &dyn Map,
    addresses: &mut Addresses,
    out: &mut JsonWriter<W>,
    options: &RewriteOptions,
) -> Result<Rewritten> {
    let mut done = Rewritten::default();
    let mut entries = map.entries("");
    while let Some((key, location)) = entries.try_next().await? {
        let url = match &location {
            Location::Inline(_) => Arc::from(""),
            Location::Remote(remote) => addresses.of(remote).await.map_err(|e| e.with_key(&key))?,
        };
        out.put(&key, &location, &url)?;
        done.count(&key, &location);
        options.step(done.documents.saturating_add(done.references))?;
    }
    Ok(done)
}

impl Rewritten {
    fn count(&mut self, key: &str, location: &Location) {
        if is_document(key) {
            self.documents += 1;
            return;
        }
        self.references += 1;
        self.inline += u64::from(matches!(location, Location::Inline(_)));
    }

    #[cfg(feature = "parquet")]
    fn drop(&mut self, key: &str, why: &str, options: &RewriteOptions) -> Result<()> {
        if !options.drop_strays {
            let message = format!("{why}, which Parquet cannot store");
            let e = Error::unsupported(message).with_hint("drop_strays", "drops it");
            return Err(e.with_key(key));
        }
        self.dropped += 1;
        if self.dropped_keys.len() < NAMED {
            self.dropped_keys.push(key.to_owned());
        }
        Ok(())
    }
}

/// Writes the map of `source`, whose arrays are `arrays`, as Kerchunk's Parquet into the folder that `target` is rooted
/// at, which should be empty. Documents that are not inline are fetched; `.zmetadata` is written last.
#[cfg(feature = "parquet")]
#[boxed]
pub async fn to_parquet(
    source: &ReferenceStore,
    arrays: &Arrays,
    addresses: &mut Addresses,
    target: &SharedStore,
    record_size: u64,
    options: &RewriteOptions,
) -> Result<Rewritten> {
    let documents = parquet::documents(source).await?;
    let mut done = Rewritten { documents: u64_of(documents.len()), ..Rewritten::default() };
    let mut writer = ParquetWriter::new(target.clone(), record_size, documents)?;
    let (mut hint, mut seen) = (0, 0u64);
    let mut entries = source.map().entries("");
    while let Some((key, location)) = entries.try_next().await? {
        seen += 1;
        options.step(seen)?;
        match arrays.part(&key, &mut hint) {
            KeyRole::Document => {}
            KeyRole::Chunk { .. } => {
                let location = rewritten(&key, location, addresses).await?;
                done.count(&key, &location);
                writer.put(&key, &location).await?;
            }
            KeyRole::Outside { .. } => {
                done.drop(&key, "the chunk lies outside the grid of its array", options)?
            }
            KeyRole::Stray => done.drop(&key, "the key is neither a document nor a chunk", options)?,
        }
    }
    drop(entries);
    writer.finish().await?;
    target.finish().await?;
    Ok(done)
}

/// The location and address of an entry in the new map.
#[cfg(feature = "parquet")]
async fn rewritten(key: &str, location: Location, addresses: &mut Addresses) -> Result<Location> {
    let Location::Remote(remote) = location else { return Ok(location) };
    let url = addresses.of(&remote).await.map_err(|e| e.with_key(key))?;
    // Parquet has no other way to say that there are no bytes: without a size, the whole object is meant.
    if remote.span.is_some_and(|s| s.length == 0) {
        return Ok(Location::Inline(Bytes::new()));
    }
    if url.is_empty() {
        let message = "the reference names no object, which Parquet cannot store";
        return Err(Error::usage(message).with_hint("target", "names it").with_key(key));
    }
    Ok(Location::Remote(Remote::new(url, remote.span)))
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use std::collections::BTreeMap;

    use super::super::json_write::Compression;
    use super::super::testing::{MemoryMap, MemoryTargets, zarr_of};
    use super::super::{SharedMap, Span};
    use super::*;
    use crate::meta::Json;
    use crate::store::memory::MemoryStore;

    fn addresses() -> Addresses {
        Addresses::new(Arc::new(MemoryTargets::default()), true)
    }

    async fn parquet(map: &MemoryMap, options: &RewriteOptions) -> Result<(SharedMap, Rewritten)> {
        let (arrays, _) = Arrays::of(&zarr_of(map.clone()).await).await?;
        let source = ReferenceStore::new("memory", Arc::new(map.clone()), Arc::new(MemoryTargets::default()));
        let target: SharedStore = Arc::new(MemoryStore::new());
        let done = to_parquet(&source, &arrays, &mut addresses(), &target, 3, options).await?;
        Ok((parquet::open(target, &crate::context::Context::shared()).await?, done))
    }

    async fn all(map: &dyn Map) -> Result<BTreeMap<String, Location>> {
        let entries: Vec<_> = map.entries("").try_collect().await?;
        // What a relative address may be near is no part of where it leads.
        let plain = |location| match location {
            Location::Remote(remote) => Location::Remote(Remote { near: None, ..remote }),
            inline => inline,
        };
        Ok(entries.into_iter().map(|(key, location)| (key, plain(location))).collect())
    }

    fn large() -> MemoryMap {
        let mut map = MemoryMap::new().text(".zgroup", r#"{"zarr_format":2}"#).v2("a", &[40], &[1]);
        map = map.v2("b", &[7], &[1]).v2("c", &[], &[]).whole("c/0", "https://h/whole");
        // In the order of text, 10 comes before 2.
        for i in (0..40).filter(|i| *i != 5) {
            map = map.range(&format!("a/{i}"), "s3://b/k", i, 1);
        }
        map.text("b/6", "base64:z")
    }

    #[tokio::test]
    async fn parquet_has_the_same_entries() {
        let map = large();
        let (made, done) = parquet(&map, &RewriteOptions::default()).await.unwrap();
        assert_eq!((done.documents, done.references, done.inline, done.dropped), (4, 41, 1, 0));
        assert_eq!(all(&*made).await.unwrap(), map.0);
    }

    #[tokio::test]
    async fn what_has_no_place_is_refused_or_left_out() {
        for (key, why) in [("readme", "neither"), ("a/41", "outside")] {
            let map = large().text(key, "{ text");
            let e = parquet(&map, &RewriteOptions::default()).await.err().unwrap();
            assert!(e.to_string().contains(key) && e.to_string().contains(why), "{e}");
        }
        let map = large().text("readme", "text").text("a/41", "x").text(".zmetadata", "{}");
        let options = RewriteOptions { drop_strays: true, ..RewriteOptions::default() };
        let (made, done) = parquet(&map, &options).await.unwrap();
        assert_eq!((done.dropped, done.dropped_keys), (2, vec!["a/41".to_owned(), "readme".to_owned()]));
        assert_eq!(all(&*made).await.unwrap(), large().0);
    }

    #[tokio::test]
    async fn what_parquet_cannot_say_is_said_otherwise() {
        let map = large().range("a/5", "s3://b/k", 9, 0);
        let (made, _) = parquet(&map, &RewriteOptions::default()).await.unwrap();
        assert_eq!(made.locate("a/5").await.unwrap(), Some(Location::Inline(Bytes::new())));
        let unnamed =
            large().with("a/5", Location::Remote(Remote::new("", Some(Span { offset: 0, length: 1 }))));
        let e = parquet(&unnamed, &RewriteOptions::default()).await.err().unwrap();
        assert!(e.to_string().contains("a/5"), "{e}");
    }

    #[tokio::test]
    async fn json_has_every_entry() {
        let map = large().text("readme", "text");
        let mut out = JsonWriter::new(Vec::new(), Compression::None, false).unwrap();
        let done = to_json(&map, &mut addresses(), &mut out, &RewriteOptions::default()).await.unwrap();
        assert_eq!((done.documents, done.references, done.inline), (4, 42, 2));
        let text = out.finish().unwrap();
        let refs = Json::parse(&text).unwrap().value;
        let keys: Vec<&str> =
            refs.get("refs").unwrap().members().unwrap().iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(keys, map.0.keys().collect::<Vec<_>>());
    }
}
