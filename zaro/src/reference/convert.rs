//! A map in another form, with the same keys and the same bytes.
//!
//! Entries go from one form to the other as they come. JSON takes them in any order. Parquet wants them by array and
//! partition: rows wait in memory until their partition is full, in a fixed number of bytes. Where that is not enough,
//! because the map has an order of its own, partitions that found no room wait for another pass over the map.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::TryStreamExt;

use super::addresses::Addresses;
use super::arrays::{Arrays, ChunkGrid, Part};
use super::json_write::JsonWriter;
use super::{Location, Map, Remote};
use crate::array::{OnProgress, Progress};
use crate::error::{Error, Result};
use crate::meta::Json;
use crate::num::u64_of;
use crate::store::Store;

/// How to convert.
#[derive(Clone, Default)]
pub struct ConvertOptions {
    /// Leave out what the form has no place for, instead of an error.
    pub drop_strays: bool,
    /// Told how many entries are done; the total is not known.
    pub progress: Option<OnProgress>,
    /// Set it to stop.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl std::fmt::Debug for ConvertOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConvertOptions").field("drop_strays", &self.drop_strays).finish_non_exhaustive()
    }
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// Metadata documents.
    pub documents: u64,
    /// Everything else.
    pub references: u64,
    /// Those of them that are inline.
    pub inline: u64,
    /// Keys that the form has no place for.
    pub dropped: u64,
    /// The first few of them.
    pub dropped_keys: Vec<String>,
}

/// Keys that are named when they are left out.
const NAMED: usize = 5;

/// Entries between two looks at whether to stop.
const STEP: u64 = 1024;

impl ConvertOptions {
    fn step(&self, done: u64) -> Result<()> {
        if !done.is_multiple_of(STEP) {
            return Ok(());
        }
        if let Some(progress) = &self.progress {
            progress(Progress { done, total: done });
        }
        match &self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(Error::cancelled()),
            _ => Ok(()),
        }
    }
}

/// Writes `map` as Kerchunk's JSON. The document is whole when `out` is finished.
pub async fn to_json<W: Write>(
    map: &dyn Map,
    addresses: &mut Addresses,
    out: &mut JsonWriter<W>,
    options: &ConvertOptions,
) -> Result<Converted> {
    let mut done = Converted::default();
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

impl Converted {
    fn count(&mut self, key: &str, location: &Location) {
        if super::arrays::is_document(key) {
            self.documents += 1;
            return;
        }
        self.references += 1;
        self.inline += u64::from(matches!(location, Location::Inline(_)));
    }

    fn drop(&mut self, key: &str, why: &str, options: &ConvertOptions) -> Result<()> {
        if !options.drop_strays {
            let message = format!("{why}: Parquet has no place for it; it can be left out");
            return Err(Error::unsupported(message).with_key(key));
        }
        self.dropped += 1;
        if self.dropped_keys.len() < NAMED {
            self.dropped_keys.push(key.to_owned());
        }
        Ok(())
    }
}

/// Rows of a partition, by their place in it.
pub type Rows = Vec<(u64, Location)>;

/// An array and one of its partitions.
type Id = (usize, u64);

/// Takes rows of Parquet, partition by partition.
#[async_trait]
pub trait Partitions: Send {
    /// How many rows a partition has.
    fn record_size(&self) -> u64;

    /// Writes partition `number` of `array`: rows by their place in it, in order.
    async fn write(&mut self, array: &ChunkGrid, number: u64, rows: Rows) -> Result<()>;

    /// Ends with the documents, by key, each of them the text of a JSON value.
    async fn finish(&mut self, documents: Vec<(String, Bytes)>) -> Result<()>;
}

/// Bytes of rows that wait for their partition to be full.
pub const ROOM: usize = 64 << 20;

/// Writes `map`, whose arrays are `arrays`, as Kerchunk's Parquet. Documents that lie elsewhere are read from `store`,
/// the store that the map is.
///
/// Rows that wait take `room` bytes at most, unless one partition takes more.
pub async fn to_parquet(
    map: &dyn Map,
    store: &dyn Store,
    arrays: &Arrays,
    addresses: &mut Addresses,
    out: &mut dyn Partitions,
    options: &ConvertOptions,
    room: usize,
) -> Result<Converted> {
    let mut done = Converted::default();
    let mut documents = BTreeMap::new();
    let mut waiting = Waiting::new(out.record_size(), room)?;
    loop {
        let mut hint = 0;
        let mut entries = map.entries("");
        let mut seen = 0u64;
        while let Some((key, location)) = entries.try_next().await? {
            seen += 1;
            options.step(seen)?;
            match arrays.part(&key, &mut hint) {
                Part::Chunk { array, number } => {
                    let at = match waiting.takes(array, number, arrays)? {
                        Taken::At(at) => at,
                        Taken::Later => continue,
                        Taken::Twice => {
                            done.drop(&key, "another key names the same chunk", options)?;
                            continue;
                        }
                    };
                    let location = rewritten(&key, location, addresses).await?;
                    done.count(&key, &location);
                    if let Some(rows) = waiting.add(at, location)? {
                        out.write(arrays.at(array)?, at.partition, rows).await?;
                    }
                }
                // Everything else was seen by the first pass.
                _ if waiting.passes > 0 => {}
                Part::Document => {
                    if let Some(text) = document(&key, &location, store, &mut done, options).await? {
                        done.documents += 1;
                        documents.insert(key, text);
                    }
                }
                Part::Outside { .. } => {
                    done.drop(&key, "the chunk lies outside the grid of its array", options)?
                }
                Part::Stray => done.drop(&key, "the key is neither a document nor a chunk", options)?,
            }
        }
        drop(entries);
        for ((array, partition), rows) in waiting.rest() {
            out.write(arrays.at(array)?, partition, rows).await?;
        }
        if !waiting.again() {
            break;
        }
    }
    out.finish(documents.into_iter().collect()).await?;
    Ok(done)
}

/// The text of a document; `None` for one that is left out.
async fn document(
    key: &str,
    location: &Location,
    store: &dyn Store,
    done: &mut Converted,
    options: &ConvertOptions,
) -> Result<Option<Bytes>> {
    if key == ".zmetadata" {
        // The store's own takes its place, and holds the same.
        return Ok(None);
    }
    let text = match location {
        Location::Inline(text) => text.clone(),
        Location::Remote(_) => match store.get(key, None).await? {
            Some(text) => text,
            None => return Ok(None),
        },
    };
    match Json::parse(&text) {
        Ok(_) => Ok(Some(text)),
        Err(e) => done.drop(key, &format!("not JSON ({})", e.message()), options).map(|()| None),
    }
}

/// What the new map says.
async fn rewritten(key: &str, location: Location, addresses: &mut Addresses) -> Result<Location> {
    let Location::Remote(remote) = location else { return Ok(location) };
    let url = addresses.of(&remote).await.map_err(|e| e.with_key(key))?;
    // Parquet has no other way to say that there are no bytes: without a size, the whole object is meant.
    if remote.span.is_some_and(|s| s.length == 0) {
        return Ok(Location::Inline(Bytes::new()));
    }
    if url.is_empty() {
        let message = "the reference names no object, which Parquet cannot say; --target names it";
        return Err(Error::usage(message).with_key(key));
    }
    Ok(Location::Remote(Remote::new(url, remote.span)))
}

/// Rows that wait for their partition to be full.
struct Waiting {
    record_size: u64,
    room: usize,
    used: usize,
    partitions: BTreeMap<Id, Rows>,
    /// Partitions that found no room, with their rows counted.
    later: HashMap<Id, u64>,
    /// What is to be done in this pass, unless it is the first: how many rows each partition has.
    wanted: HashMap<Id, u64>,
    passes: u32,
    /// What is done.
    written: HashSet<Id>,
}

/// What becomes of a row.
enum Taken {
    At(At),
    /// It is for another pass, or was for one before.
    Later,
    /// Its partition is full already.
    Twice,
}

/// A row that has a place.
#[derive(Debug, Clone, Copy)]
struct At {
    array: usize,
    partition: u64,
    row: u64,
    /// The partition is full with this many.
    full: u64,
}

/// What a row takes besides its bytes.
const ROW: usize = size_of::<(u64, Location)>();

impl Waiting {
    fn new(record_size: u64, room: usize) -> Result<Self> {
        if record_size == 0 {
            return Err(Error::usage("a partition must have at least one row"));
        }
        Ok(Self {
            record_size,
            room,
            used: 0,
            partitions: BTreeMap::new(),
            later: HashMap::new(),
            wanted: HashMap::new(),
            passes: 0,
            written: HashSet::new(),
        })
    }

    /// Whether the row of a chunk is taken in this pass.
    fn takes(&mut self, array: usize, number: u64, arrays: &Arrays) -> Result<Taken> {
        let (partition, row) = (number / self.record_size, number % self.record_size);
        let id = (array, partition);
        let full = match self.wanted.get(&id) {
            Some(rows) => *rows,
            None if self.passes == 0 && self.written.contains(&id) => return Ok(Taken::Twice),
            None if self.passes == 0 => {
                let start = partition.saturating_mul(self.record_size);
                arrays.at(array)?.chunks.saturating_sub(start).min(self.record_size)
            }
            None => return Ok(Taken::Later),
        };
        let known = self.partitions.contains_key(&id);
        if !known && (self.later.contains_key(&id) || (self.used >= self.room && !self.partitions.is_empty()))
        {
            *self.later.entry(id).or_default() += 1;
            return Ok(Taken::Later);
        }
        Ok(Taken::At(At { array, partition, row, full }))
    }

    /// Adds a row; the whole partition if it is full now.
    fn add(&mut self, at: At, location: Location) -> Result<Option<Rows>> {
        let id = (at.array, at.partition);
        self.used = self.used.saturating_add(cost(&location));
        let rows = self.partitions.entry(id).or_default();
        rows.push((at.row, location));
        if u64_of(rows.len()) < at.full {
            return Ok(None);
        }
        let mut whole = sorted(std::mem::take(rows));
        if self.passes == 0 && u64_of(whole.len()) < at.full {
            // A chunk came twice, by other keys; the others are still to come.
            std::mem::swap(rows, &mut whole);
            return Ok(None);
        }
        self.partitions.remove(&id);
        let freed = whole.iter().map(|(_, l)| cost(l)).fold(0usize, usize::saturating_add);
        self.used = self.used.saturating_sub(freed);
        self.wanted.remove(&id);
        self.written.insert(id);
        Ok(Some(whole))
    }

    /// What still waits when a pass has ended: nothing will be added to it.
    fn rest(&mut self) -> Vec<(Id, Rows)> {
        self.used = 0;
        let rest = std::mem::take(&mut self.partitions);
        rest.into_iter().map(|(id, rows)| (id, sorted(rows))).collect()
    }

    /// Whether there is something left for another pass.
    fn again(&mut self) -> bool {
        self.passes += 1;
        self.wanted = std::mem::take(&mut self.later);
        !self.wanted.is_empty()
    }
}

fn cost(location: &Location) -> usize {
    match location {
        Location::Inline(bytes) => ROW.saturating_add(bytes.len()),
        Location::Remote(_) => ROW,
    }
}

/// In order, with no row twice: the last one counts, as it does for keys.
fn sorted(mut rows: Rows) -> Rows {
    rows.sort_by_key(|(row, _)| *row);
    rows.reverse();
    rows.dedup_by_key(|(row, _)| *row);
    rows.reverse();
    rows
}

#[cfg(test)]
mod tests {
    use super::super::ReferenceStore;
    use super::super::json_write::Compression;
    use super::super::testing::{MemoryMap, MemoryTargets, zarr_of};
    use super::super::{SharedMap, Span};
    use super::*;

    /// What was written, and the most partitions that came at once.
    #[derive(Default)]
    struct Kept {
        rows: BTreeMap<(String, u64), Rows>,
        documents: Vec<(String, Bytes)>,
    }

    #[async_trait]
    impl Partitions for Kept {
        fn record_size(&self) -> u64 {
            3
        }

        async fn write(&mut self, array: &ChunkGrid, number: u64, rows: Rows) -> Result<()> {
            let before = self.rows.insert((array.path.clone(), number), rows);
            assert!(before.is_none(), "partition {number} of {} was written twice", array.path);
            Ok(())
        }

        async fn finish(&mut self, documents: Vec<(String, Bytes)>) -> Result<()> {
            self.documents = documents;
            Ok(())
        }
    }

    fn addresses() -> Addresses {
        Addresses::new(Arc::new(MemoryTargets::default()), true)
    }

    async fn parquet(map: &MemoryMap, room: usize, options: &ConvertOptions) -> Result<(Kept, Converted)> {
        let (arrays, _) = Arrays::of(&zarr_of(map.clone()).await).await?;
        let mut kept = Kept::default();
        let shared: SharedMap = Arc::new(map.clone());
        let store = ReferenceStore::new("memory", shared, Arc::new(MemoryTargets::default()));
        let done = to_parquet(map, &store, &arrays, &mut addresses(), &mut kept, options, room).await?;
        Ok((kept, done))
    }

    fn large() -> MemoryMap {
        let mut map = MemoryMap::new().text(".zgroup", r#"{"zarr_format":2}"#).v2("a", &[40], &[1]);
        map = map.v2("b", &[7], &[1]);
        // In the order of text, 10 comes before 2.
        for i in (0..40).filter(|i| *i != 5) {
            map = map.range(&format!("a/{i}"), "s3://b/k", i, 1);
        }
        map.text("b/6", "z")
    }

    #[tokio::test]
    async fn rows_arrive_whole_however_little_room_there_is() {
        let mut answers = Vec::new();
        for room in [1, 400, 2000, ROOM] {
            let (kept, done) = parquet(&large(), room, &ConvertOptions::default()).await.unwrap();
            assert_eq!((done.documents, done.references, done.inline, done.dropped), (3, 40, 1, 0));
            assert_eq!(kept.documents.len(), 3);
            answers.push(kept.rows);
        }
        assert!(answers.windows(2).all(|w| w[0] == w[1]));
        let rows = &answers[0];
        assert_eq!(rows.len(), 15);
        let (a1, b2) = (&rows[&("a".to_owned(), 1)], &rows[&("b".to_owned(), 2)]);
        assert_eq!(a1.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1]);
        let span = Some(Span { offset: 4, length: 1 });
        assert_eq!(a1[1].1, Location::Remote(Remote::new("s3://b/k", span)));
        assert_eq!(b2[..], [(0, Location::Inline(Bytes::from_static(b"z")))]);
    }

    #[tokio::test]
    async fn what_has_no_place_is_refused_or_left_out() {
        for (key, why) in [("readme", "neither"), ("a/41", "outside"), ("a/.zattrs", "not JSON")] {
            let map = large().text(key, "{ text");
            let e = parquet(&map, ROOM, &ConvertOptions::default()).await.err().unwrap();
            assert!(e.to_string().contains(key) && e.to_string().contains(why), "{e}");
        }
        let map = large().text("readme", "text").text("a/41", "x").text(".zmetadata", "{}");
        let options = ConvertOptions { drop_strays: true, ..ConvertOptions::default() };
        let (kept, done) = parquet(&map, ROOM, &options).await.unwrap();
        assert_eq!((done.dropped, done.dropped_keys), (2, vec!["a/41".to_owned(), "readme".to_owned()]));
        assert_eq!(kept.documents.len(), 3);
    }

    #[tokio::test]
    async fn chunks_that_are_named_twice_lose_no_others() {
        let map = MemoryMap::new().v2("a", &[1, 5], &[1, 1]);
        let map = (0..5).fold(map, |m, i| m.range(&format!("a/0/{i}"), "s3://b/k", i, 1));
        // Comes first, as text.
        let map = map.range("a/0.1", "s3://b/k", 100, 1);
        let (kept, _) = parquet(&map, ROOM, &ConvertOptions::default()).await.unwrap();
        let numbers: Vec<usize> = kept.rows.values().map(Vec::len).collect();
        assert_eq!(numbers, [3, 2]);
        let twice = MemoryMap::new().v2("s", &[], &[]).text("s/0", "x").text("s/", "y");
        assert!(parquet(&twice, ROOM, &ConvertOptions::default()).await.is_err());
    }

    #[tokio::test]
    async fn what_parquet_cannot_say_is_said_otherwise() {
        let (kept, _) =
            parquet(&large().range("a/5", "s3://b/k", 9, 0), ROOM, &ConvertOptions::default()).await.unwrap();
        assert_eq!(kept.rows[&("a".to_owned(), 1)][2].1, Location::Inline(Bytes::new()));
    }

    #[tokio::test]
    async fn json_has_every_entry() {
        let map = large().text("readme", "text");
        let mut out = JsonWriter::new(Vec::new(), Compression::None, false).unwrap();
        let done = to_json(&map, &mut addresses(), &mut out, &ConvertOptions::default()).await.unwrap();
        assert_eq!((done.documents, done.references, done.inline), (3, 41, 2));
        let text = out.finish().unwrap();
        let refs = Json::parse(&text).unwrap().value;
        let keys: Vec<&str> =
            refs.get("refs").unwrap().members().unwrap().iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(keys, map.0.keys().collect::<Vec<_>>());
    }
}
