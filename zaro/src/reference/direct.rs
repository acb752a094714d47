//! Synchronous reads of references to local files, by the thread that decodes the chunk.

use bytes::Bytes;
use futures::FutureExt;

use super::{Location, ReferenceStore, Remote};
use crate::error::{Error, Result, invalid};
use crate::num::u64_of;
use crate::store::{Direct, DirectObject, ObjectMeta};

impl Direct for ReferenceStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        // The map is in memory and the targets are files: neither has anything to wait for.
        let waits =
            || Error::io("the target of the reference is not a local file").with_key(key).with_store(self);
        let found = self.map().locate(key).now_or_never().ok_or_else(waits)?;
        let remote = match found.map_err(|e| e.with_key(key).with_store(self))? {
            None => return Ok(None),
            Some(Location::Inline(bytes)) => return Ok(Some(Box::new(Inline(bytes)))),
            Some(Location::Remote(remote)) => remote,
        };
        let named = |e: Error| e.within(remote.to_string()).moved_to(key, self);
        if remote.pin.as_ref().is_some_and(|pin| !pin.is_empty()) {
            // Whether it holds is the business of the store.
            return Err(named(Error::unsupported("pinned versions of local files are not supported here")));
        }
        let target = self.targets().target(&remote).now_or_never().ok_or_else(waits)?.map_err(named)?;
        let direct = target.store.direct().ok_or_else(waits)?;
        let missing = || Error::not_found("the referenced object does not exist");
        let object = direct.open(&target.key).and_then(|o| o.ok_or_else(missing)).map_err(named)?;
        let (offset, length) = match remote.span {
            None => (0, object.size()),
            Some(span) => (span.offset, span.length),
        };
        if offset.checked_add(length).is_none_or(|end| end > object.size()) {
            return Err(named(invalid!(
                "short read: bytes {offset}+{length} lie outside the object, which has {} bytes",
                object.size()
            )));
        }
        let place = (key.to_owned(), self.to_string());
        Ok(Some(Box::new(ObjectSlice { object, offset, length, remote, place })))
    }
}

/// Bytes in memory.
struct Inline(Bytes);

impl DirectObject for Inline {
    fn size(&self) -> u64 {
        u64_of(self.0.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).ok();
        let part = start.and_then(|s| self.0.get(s..s.checked_add(buf.len())?));
        let part = part.ok_or_else(|| Error::invalid("the requested range ends beyond the inline data"))?;
        buf.copy_from_slice(part);
        Ok(())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

/// A byte range of an object, presented as an object.
struct ObjectSlice {
    object: Box<dyn DirectObject>,
    offset: u64,
    length: u64,
    remote: Remote,
    /// The key, and the store it is of.
    place: (String, String),
}

impl DirectObject for ObjectSlice {
    fn size(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(u64_of(buf.len())).filter(|end| *end <= self.length);
        let inside = end.and_then(|_| self.offset.checked_add(offset));
        let read = match inside {
            Some(at) => self.object.read_at(at, buf),
            None => Err(Error::invalid("the requested range ends beyond the reference")),
        };
        read.map_err(|e| e.within(self.remote.to_string()).moved_to(&self.place.0, &self.place.1))
    }

    fn meta(&self) -> ObjectMeta {
        self.object.meta()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.object.check_unchanged()
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        let (start, length) = (usize::try_from(self.offset).ok()?, usize::try_from(self.length).ok()?);
        self.object.as_bytes()?.get(start..start.checked_add(length)?)
    }
}
