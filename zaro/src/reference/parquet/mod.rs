//! Kerchunk references in Parquet: a folder with `.zmetadata`, and for each array files `refs.N.parq` with one row per
//! chunk.
//!
//! ```text
//!   .zmetadata           {"metadata": {".zgroup": {…}, "v/.zarray": {…}}, "record_size": 100000}
//!   v/refs.0.parq        the rows of chunks 0 .. 99999, in C order: path, offset, size, raw
//!   group/w/refs.3.parq
//! ```
//!
//! Opening reads only `.zmetadata`. A lookup reads the end of one file, then the row group that holds the row (or a
//! part of it, where row groups are large), and caches both, up to a fixed number of bytes. A missing file, column or
//! row means that the chunk is missing; a file that exists and cannot be read is an error.
//!
//! The reader is our own: it reads single pages by range, checks every number, and allocates only in proportion to the
//! bytes read. [`ParquetWriter`] writes such folders.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::{Location, Map, SharedMap};
use crate::context::{Context, Key, owner};
use crate::error::{Error, ErrorKind, Result};
use crate::num::u64_of;
use crate::store::fault::copy_of;
use crate::store::{ByteRange, GetOptions, Listing, Object, ObjectMeta, SharedStore, StoreExt as _, join};

mod decode;
mod footer;
mod layout;
mod page;
mod rows;
#[cfg(test)]
mod tests;
mod thrift;
mod write;
#[cfg(test)]
mod write_tests;

use footer::{Footer, TAIL};
use layout::{Metadata, RowLayout};
use page::PageSource;
use rows::ColumnRows;

pub use write::RECORD_SIZE;
pub(in crate::reference) use write::documents;
pub(crate) use write::{ParquetWriter, Written};

/// The document that makes a folder a reference store.
pub(crate) const ZMETADATA: &str = ".zmetadata";

/// Bytes read from the end of a file first. Most files are not longer.
const END: u64 = 512 << 10;

/// Parts of a listing fetched concurrently.
const AT_ONCE: usize = 4;

/// With more partitions than this, a folder is listed before its files are requested.
const ASKED: u64 = 16;

/// With more partitions than this, a folder that cannot be listed is an error.
const WALKED: u64 = 1 << 20;

/// Opens the references in `store`, which is rooted at the folder of `.zmetadata`.
pub(crate) async fn open(store: SharedStore, context: &Context) -> Result<SharedMap> {
    let found = store.get(ZMETADATA, None).await?;
    let bytes = found.ok_or_else(|| Error::not_found("not there").with_key(ZMETADATA).with_store(&store))?;
    from_metadata(store, &bytes, context)
}

/// The same, for callers that have read `.zmetadata` already.
pub fn from_metadata(store: SharedStore, zmetadata: &[u8], context: &Context) -> Result<SharedMap> {
    let metadata = Metadata::parse(zmetadata).map_err(|e| e.with_key(ZMETADATA).with_store(&store))?;
    Ok(Arc::new(ParquetMap::new(store, Arc::new(metadata), context)))
}

/// The references of a folder.
#[derive(Debug)]
struct ParquetMap {
    store: SharedStore,
    metadata: Arc<Metadata>,
    /// Caches footers and rows.
    context: Context,
    owner: u64,
}

impl Drop for ParquetMap {
    fn drop(&mut self) {
        self.context.chunks().forget_owner(self.owner);
    }
}

/// A file of references.
#[derive(Debug)]
struct Partition {
    footer: Footer,
    /// The whole file, if it is short.
    whole: Option<Bytes>,
    /// The version of the file that the footer is from.
    state: ObjectMeta,
}

impl Partition {
    fn cost(&self) -> usize {
        self.footer.cost().saturating_add(self.whole.as_ref().map_or(0, Bytes::len))
    }
}

/// A requested row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WantedRow {
    array: usize,
    partition: u64,
    row: u64,
    /// Its index in the request.
    asked: usize,
}

/// Some rows of one file.
#[derive(Debug, Clone, Copy)]
struct RowSpan {
    array: usize,
    partition: u64,
    block: usize,
}

/// The key of a file of the array at `path`.
fn partition_key(path: &str, partition: u64) -> String {
    join(path, &format!("refs.{partition}.parq"))
}

impl ParquetMap {
    fn new(store: SharedStore, metadata: Arc<Metadata>, context: &Context) -> Self {
        Self { store, metadata, context: context.clone(), owner: owner() }
    }

    fn layout(&self, array: usize) -> Result<&Arc<RowLayout>> {
        self.metadata.layouts.get(array).ok_or_else(|| Error::invalid("there is no such array"))
    }

    fn file(&self, array: usize, partition: u64) -> Result<String> {
        Ok(partition_key(&self.layout(array)?.path, partition))
    }

    async fn partition(&self, array: usize, partition: u64) -> Result<Arc<Option<Partition>>> {
        let cost = |p: &Option<Partition>| p.as_ref().map_or(0, Partition::cost);
        // `None` for files that are not there. No block has this number.
        self.kept(array, partition, u64::MAX, cost, self.read_partition(array, partition)).await
    }

    async fn read_partition(&self, array: usize, partition: u64) -> Result<Option<Partition>> {
        let key = self.file(array, partition)?;
        let tail = GetOptions::range(Some(ByteRange::Suffix(END)));
        let Some(Object { bytes: mut end, meta: state }) = self.store.get_opts(&key, tail).await? else {
            return Ok(None);
        };
        let named = |e: Error| e.within(&key);
        let length = footer::length(&end).map_err(named)?;
        let all = length.saturating_add(TAIL);
        let whole = (u64_of(end.len()) < END).then(|| end.clone());
        if all > end.len() && whole.is_none() {
            let range = Some(ByteRange::Suffix(u64_of(all)));
            let longer = self.store.get_opts(&key, GetOptions::range(range).of_state(&state)).await?;
            let gone = || named(Error::io("the file was deleted since it was opened"));
            end = longer.ok_or_else(gone)?.bytes;
        }
        let Some(start) = end.len().checked_sub(all) else {
            return Err(named(Error::invalid("truncated: the file is shorter than its footer")));
        };
        let body = end.get(start..end.len().saturating_sub(TAIL)).unwrap_or_default();
        let footer = footer::parse(body, self.metadata.record_size).map_err(named)?;
        Ok(Some(Partition { footer, whole, state }))
    }

    async fn rows(&self, part: RowSpan, from: &Partition) -> Result<Arc<ColumnRows>> {
        let RowSpan { array, partition, block } = part;
        let read = async {
            let key = self.file(array, partition)?;
            let named = |e: Error| e.within(&key);
            let Some(wanted) = from.footer.blocks.get(block) else {
                return Err(named(Error::invalid("there is no such row")));
            };
            let whole = from.whole.as_ref();
            let file = PageSource { store: &self.store, key: &key, whole, state: &from.state };
            ColumnRows::read(&file, &from.footer, *wanted).await.map_err(named)
        };
        self.kept(array, partition, u64_of(block), ColumnRows::cost, read).await
    }

    async fn kept<V: Send + Sync + 'static>(
        &self,
        array: usize,
        partition: u64,
        block: u64,
        cost: impl FnOnce(&V) -> usize,
        make: impl Future<Output = Result<V>>,
    ) -> Result<Arc<V>> {
        let key = Key { owner: self.owner, part: [u64_of(array), partition, block, 0] };
        self.context.chunks().get_or_make(key, cost, make).await.map_err(|e| copy_of(&e))
    }

    async fn chunk(&self, array: usize, number: u64) -> Result<Option<Location>> {
        let (partition, row) = self.row(number);
        let Some(from) = &*self.partition(array, partition).await? else { return Ok(None) };
        let Some(block) = from.footer.block_of(row) else { return Ok(None) };
        let rows = self.rows(RowSpan { array, partition, block }, from).await?;
        self.located(&rows, array, partition, row)
    }

    fn located(&self, rows: &ColumnRows, array: usize, partition: u64, row: u64) -> Result<Option<Location>> {
        let found = rows.locate(row, &self.layout(array)?.path);
        found.map_err(|e| e.within(self.file(array, partition).unwrap_or_default()))
    }

    /// The partition of a chunk, and its row there.
    fn row(&self, number: u64) -> (u64, u64) {
        // Checked when it was read: never 0.
        let size = self.metadata.record_size.max(1);
        (number / size, number % size)
    }

    /// The partitions that may hold rows of these chunks.
    async fn partitions(&self, array: usize, chunks: Range<u64>) -> Result<Vec<u64>> {
        let Some(last) = chunks.end.checked_sub(1).filter(|last| *last >= chunks.start) else {
            return Ok(Vec::new());
        };
        let (first, last) = (self.row(chunks.start).0, self.row(last).0);
        let count = last - first;
        if count < ASKED {
            return Ok((first..=last).collect());
        }
        match self.store.list(&self.layout(array)?.path).await {
            Ok(listing) => {
                let number = |name: &String| {
                    let text = name.strip_prefix("refs.")?.strip_suffix(".parq")?;
                    text.parse().ok().filter(|n: &u64| n.to_string() == text)
                };
                let mut found: Vec<u64> = listing.objects.iter().filter_map(number).collect();
                found.retain(|n| (first..=last).contains(n));
                found.sort_unstable();
                Ok(found)
            }
            Err(e) if !matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::NotPermitted) => Err(e),
            Err(_) if count < WALKED => Ok((first..=last).collect()),
            Err(e) => Err(e.within(format!("{count} partitions are too many to ask for each"))),
        }
    }

    /// The blocks of a partition that hold rows of these chunks.
    async fn parts(&self, array: usize, partition: u64, chunks: &Range<u64>) -> Result<Vec<RowSpan>> {
        let Some(from) = &*self.partition(array, partition).await? else { return Ok(Vec::new()) };
        let start = partition.saturating_mul(self.metadata.record_size);
        let some = from.footer.blocks.iter().enumerate().filter(|(_, b)| {
            let first = start.saturating_add(b.first);
            first < chunks.end && first.saturating_add(b.rows) > chunks.start
        });
        Ok(some.map(|(block, _)| RowSpan { array, partition, block }).collect())
    }

    async fn references(
        &self,
        part: RowSpan,
        chunks: Range<u64>,
    ) -> Result<impl Iterator<Item = Result<(String, Location)>> + use<'_>> {
        let RowSpan { array, partition, .. } = part;
        let layout = self.layout(array)?;
        let rows = match &*self.partition(array, partition).await? {
            Some(from) => self.rows(part, from).await?,
            None => Arc::default(),
        };
        let start = partition.saturating_mul(self.metadata.record_size);
        Ok(rows.range().filter_map(move |row| {
            let number = start.checked_add(row).filter(|n| chunks.contains(n))?;
            match self.located(&rows, array, partition, row) {
                Ok(found) => found.map(|location| Ok((layout.key(number), location))),
                Err(e) => Some(Err(e.with_key(layout.key(number)).with_store(&self.store))),
            }
        }))
    }

    /// The locations of rows of one file, by their index in the request.
    async fn locate_in(&self, asked: Vec<WantedRow>) -> Result<Vec<(usize, Option<Location>)>> {
        let mut found = Vec::with_capacity(asked.len());
        let Some(WantedRow { array, partition, .. }) = asked.first().copied() else { return Ok(found) };
        let held = self.partition(array, partition).await?;
        let Some(from) = &*held else { return Ok(found) };
        let mut last: Option<(usize, Arc<ColumnRows>)> = None;
        for WantedRow { row, asked, .. } in asked {
            let Some(block) = from.footer.block_of(row) else { continue };
            let rows = match last.take() {
                Some((of, rows)) if of == block => rows,
                _ => self.rows(RowSpan { array, partition, block }, from).await?,
            };
            found.push((asked, self.located(&rows, array, partition, row)?));
            last = Some((block, rows));
        }
        Ok(found)
    }

    /// The references of these chunks, file by file.
    fn chunks(&self, array: usize, chunks: Range<u64>) -> BoxStream<'_, Result<(String, Location)>> {
        let (all, some) = (chunks.clone(), chunks.clone());
        stream::once(self.partitions(array, chunks))
            .map_ok(|numbers| stream::iter(numbers.into_iter().map(Ok::<_, Error>)))
            .try_flatten()
            .map(move |partition| {
                let chunks = all.clone();
                async move { self.parts(array, partition?, &chunks).await }
            })
            .buffered(AT_ONCE)
            .map_ok(|parts| stream::iter(parts.into_iter().map(Ok::<_, Error>)))
            .try_flatten()
            .map(move |part| {
                let chunks = some.clone();
                async move { self.references(part?, chunks).await }
            })
            .buffered(AT_ONCE)
            .map_ok(stream::iter)
            .try_flatten()
            .boxed()
    }
}

#[async_trait]
impl Map for ParquetMap {
    async fn locate(&self, key: &str) -> Result<Option<Location>> {
        if let Some(document) = self.metadata.documents.get(key) {
            return Ok(Some(Location::Inline(document.clone())));
        }
        if key == ZMETADATA {
            return Ok(self.metadata.consolidated().map(Location::Inline));
        }
        match self.metadata.place(key)? {
            Some(place) => self.chunk(place.array, place.chunk).await,
            None => Ok(None),
        }
    }

    async fn locate_all(&self, keys: &[String]) -> Result<Vec<Option<Location>>> {
        let mut out = vec![None; keys.len()];
        // In the order of rows, so that no block is read twice however little room there is.
        let mut places = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            match self.metadata.documents.get(key) {
                Some(document) => {
                    if let Some(slot) = out.get_mut(n) {
                        *slot = Some(Location::Inline(document.clone()));
                    }
                }
                None => {
                    if let Some(place) = self.metadata.place(key).map_err(|e| e.with_key(key))? {
                        let (partition, row) = self.row(place.chunk);
                        places.push(WantedRow { array: place.array, partition, row, asked: n });
                    }
                }
            }
        }
        places.sort_unstable();
        let files: Vec<Vec<WantedRow>> = places
            .chunk_by(|a, b| (a.array, a.partition) == (b.array, b.partition))
            .map(<[_]>::to_vec)
            .collect();
        let files = files.into_iter().map(|rows| self.locate_in(rows));
        let mut found = stream::iter(files).buffer_unordered(AT_ONCE);
        while let Some(some) = found.try_next().await? {
            for (n, location) in some {
                if let Some(slot) = out.get_mut(n) {
                    *slot = location;
                }
            }
        }
        Ok(out)
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        let mut listing = Listing::default();
        for (_, below, _) in self.metadata.documents_below(prefix) {
            listing.add(below);
        }
        // Arrays below are seen by their documents; the chunks of this one are asked for by name.
        let start = join(prefix, "");
        for (array, chunks) in self.metadata.below(prefix) {
            let path = &self.layout(array)?.path;
            if **path != *prefix && path.starts_with(&start) {
                continue;
            }
            let mut found = self.chunks(array, chunks);
            while let Some((key, _)) = found.try_next().await? {
                listing.add(key.strip_prefix(&start).unwrap_or(&key));
            }
        }
        Ok(listing.sorted())
    }

    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>> {
        let documents = self.metadata.documents_below(prefix);
        let documents = documents.map(|(key, _, text)| Ok((key.to_owned(), Location::Inline(text.clone()))));
        let arrays = stream::iter(self.metadata.below(prefix));
        stream::iter(documents).chain(arrays.flat_map(|(array, chunks)| self.chunks(array, chunks))).boxed()
    }
}
