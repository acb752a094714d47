//! Icechunk manifests: the locations of the chunks of one or more arrays.
//!
//! A manifest is kept in its stored form: a chunk is found by binary search in its bytes. The addresses of virtual
//! chunks may be compressed one by one with a dictionary in the manifest.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zstd_safe::{DCtx, DDict, get_error_name};

use super::flat::{FlatTable, Tables, need};
use super::id::Id;
use crate::error::{Error, Result, invalid, unsupported};
use crate::num::usize_of;
use crate::reference::Span;
use crate::store::Pin;

/// Maximum length of a decompressed address.
const MAX_ADDRESS: u64 = 64 << 10;

/// A manifest in memory.
pub(super) struct ChunkManifest {
    payload: Vec<u8>,
    addresses: Mutex<IcechunkAddresses>,
}

/// Where a chunk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChunkPlace {
    /// In the manifest.
    Inline(Bytes),
    /// In an object of the repository.
    Native(Id, Span),
    /// In an object elsewhere, possibly pinned to a version.
    Virtual(Arc<str>, Span, Option<Arc<Pin>>),
}

/// Decompresses addresses.
struct IcechunkAddresses {
    dictionary: Option<DDict<'static>>,
    context: Option<DCtx<'static>>,
    /// The last address, compressed and plain: neighbouring chunks mostly lie in the same object.
    last: Option<(Vec<u8>, Arc<str>)>,
}

impl fmt::Debug for ChunkManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest").field("bytes", &self.payload.len()).finish_non_exhaustive()
    }
}

impl ChunkManifest {
    /// Parses the FlatBuffers of the manifest `id`.
    pub(super) fn parse(payload: Vec<u8>, id: Id) -> Result<Self> {
        let root = FlatTable::root(&payload)?;
        let stated = Id(need(root.fixed(0)?, "the id of the manifest")?);
        if stated != id {
            return Err(invalid!("the file is manifest {stated}, not {id}"));
        }
        let dictionary = match (root.list(2, 1)?, root.u8(3, 1)?) {
            (None, _) | (_, 0) => None,
            (Some(bytes), 1) => Some(
                DDict::try_create(bytes)
                    .ok_or_else(|| Error::invalid("the dictionary of the manifest's addresses is damaged"))?,
            ),
            (_, other) => {
                return Err(unsupported!("unknown compression of addresses ({other})"));
            }
        };
        let addresses = Mutex::new(IcechunkAddresses { dictionary, context: None, last: None });
        Ok(Self { payload, addresses })
    }

    /// Its size in memory.
    pub(super) fn bytes(&self) -> usize {
        self.payload.capacity()
    }

    fn chunks(&self, node: [u8; 8]) -> Result<Option<Tables<'_>>> {
        let arrays = FlatTable::root(&self.payload)?.tables(1)?;
        let found = arrays.search(|a| Ok(need(a.fixed(0)?, "the id of an array")?.cmp(&node)))?;
        found.map(|a| a.tables(1)).transpose()
    }

    /// The arrays that it has chunks of.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> Result<Vec<[u8; 8]>> {
        let arrays = FlatTable::root(&self.payload)?.tables(1)?;
        arrays.iter().map(|a| need(a?.fixed(0)?, "the id of an array")).collect()
    }

    /// Where chunk `index` of an array is; `None` if it was never written.
    pub(super) fn find(&self, node: [u8; 8], index: &[u32]) -> Result<Option<ChunkPlace>> {
        let Some(chunks) = self.chunks(node)? else { return Ok(None) };
        let found = chunks.search(|c| Ok(compare(stored_index(c)?, index)))?;
        found.map(|c| self.place(&c)).transpose()
    }

    /// Up to `count` chunks of an array from number `start` on, in the order of their indexes.
    pub(super) fn some(
        &self,
        node: [u8; 8],
        start: usize,
        count: usize,
    ) -> Result<Vec<(Vec<u32>, ChunkPlace)>> {
        let Some(chunks) = self.chunks(node)? else { return Ok(Vec::new()) };
        let numbers = (start..chunks.len()).take(count);
        let one = |i| {
            let chunk = chunks.get(i)?;
            Ok((numbers_of(stored_index(&chunk)?).collect(), self.place(&chunk)?))
        };
        numbers.map(one).collect()
    }

    /// The indexes of all chunks of an array.
    pub(super) fn each_index(&self, node: [u8; 8], mut f: impl FnMut(&[u32])) -> Result<()> {
        let Some(chunks) = self.chunks(node)? else { return Ok(()) };
        let mut index = Vec::new();
        for chunk in chunks.iter() {
            index.clear();
            index.extend(numbers_of(stored_index(&chunk?)?));
            f(&index);
        }
        Ok(())
    }

    fn place(&self, chunk: &FlatTable<'_>) -> Result<ChunkPlace> {
        let span = Span { offset: chunk.u64(2)?, length: chunk.u64(3)? };
        if span.offset.checked_add(span.length).is_none() {
            return Err(Error::invalid("the byte range of a chunk overflows"));
        }
        if let Some(id) = chunk.fixed(4)? {
            return Ok(ChunkPlace::Native(Id(id), span));
        }
        let address = match (chunk.list(8, 1)?, chunk.text(5)?, chunk.list(1, 1)?) {
            (Some(packed), ..) => self.address(packed, true)?,
            (None, Some(plain), _) => self.address(plain.as_bytes(), false)?,
            (None, None, Some(data)) => return Ok(ChunkPlace::Inline(Bytes::copy_from_slice(data))),
            (None, None, None) => return Err(Error::invalid("a chunk has no location")),
        };
        let pin = match (chunk.text(6)?, chunk.u32(7)?) {
            (Some(etag), _) => Some(Pin { etag: Some(unquoted(etag).to_owned()), ..Pin::default() }),
            (None, 0) => None,
            (None, t) => Some(Pin { unmodified_since: Some(i64::from(t)), ..Pin::default() }),
        };
        Ok(ChunkPlace::Virtual(address, span, pin.map(Arc::new)))
    }

    fn address(&self, stored: &[u8], packed: bool) -> Result<Arc<str>> {
        let mut held = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plain)) = held.last.as_ref().filter(|(last, _)| last == stored) {
            return Ok(plain.clone());
        }
        let bytes = if packed { held.unpack(stored)? } else { stored.to_vec() };
        let text = std::str::from_utf8(&bytes)
            .map_err(|e| Error::invalid("the address of a chunk is not valid UTF-8").with_source(e))?;
        let plain: Arc<str> = text.into();
        held.last = Some((stored.to_vec(), plain.clone()));
        Ok(plain)
    }
}

impl IcechunkAddresses {
    fn unpack(&mut self, stored: &[u8]) -> Result<Vec<u8>> {
        let fault = |why: &str| invalid!("the address of a chunk cannot be decompressed: {why}");
        let room = match zstd_safe::get_frame_content_size(stored) {
            Ok(size) => size.unwrap_or(MAX_ADDRESS),
            Err(_) => return Err(fault("it is not a zstd frame")),
        };
        if room > MAX_ADDRESS {
            return Err(fault("it is too long"));
        }
        let mut out = Vec::with_capacity(usize_of(room)?);
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or_else(|| fault("out of memory"))?),
        };
        let done = match &self.dictionary {
            Some(dictionary) => context.decompress_using_ddict(&mut out, stored, dictionary),
            None => context.decompress(&mut out, stored),
        };
        done.map_err(|code| fault(get_error_name(code)))?;
        Ok(out)
    }
}

fn stored_index<'a>(chunk: &FlatTable<'a>) -> Result<&'a [u8]> {
    need(chunk.list(0, 4)?, "the index of a chunk")
}

fn numbers_of(stored: &[u8]) -> impl Iterator<Item = u32> {
    stored.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n))
}

fn compare(stored: &[u8], index: &[u32]) -> Ordering {
    numbers_of(stored).cmp(index.iter().copied())
}

/// An `ETag` without quotes, for comparison.
fn unquoted(etag: &str) -> &str {
    etag.strip_prefix('"').and_then(|e| e.strip_suffix('"')).unwrap_or(etag)
}
