//! [`ReferenceStore`]: a map and its targets as a store.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use super::{Location, Remote, SharedMap, Span, Targets};
use crate::error::{Error, Result, redacted};
use crate::num::{u64_of, usize_of};
use crate::store::list::{FolderNames, walk, with_facts};
use crate::store::{
    ByteRange, Direct, Entry, GetOptions, KeyEntry, ListOptions, Object, ObjectMeta, ObjectStream, Origin,
    RemoteMeta, Site, Store, StoreExt, md5_hex,
};

/// Sizes of whole objects requested concurrently.
const SIZES_AT_ONCE: usize = 32;

/// The states of target objects that were already requested: by address, and what that is relative to.
type KnownStates = Mutex<HashMap<(Arc<str>, Option<Arc<str>>), ObjectMeta>>;

/// A read-only store whose bytes are at the locations of a [`Map`](super::Map).
#[derive(Debug, Clone)]
pub struct ReferenceStore {
    /// The address of the map, as errors name it.
    name: Arc<str>,
    map: SharedMap,
    targets: Arc<dyn Targets>,
    /// Whether every reference is inline or to a local file.
    at_hand: bool,
}

impl ReferenceStore {
    /// The keys of `map`, with their bytes from `targets`; `name` is the address of the map.
    pub fn new(name: impl Into<Arc<str>>, map: SharedMap, targets: Arc<dyn Targets>) -> Self {
        Self { name: name.into(), map, targets, at_hand: false }
    }

    /// Sets whether the map is in memory and every target a local file, so that decoding threads may read directly.
    #[must_use]
    pub fn at_hand(self, at_hand: bool) -> Self {
        Self { at_hand, ..self }
    }

    /// The map.
    #[must_use]
    pub fn map(&self) -> &SharedMap {
        &self.map
    }

    /// The targets.
    #[must_use]
    pub fn targets(&self) -> &Arc<dyn Targets> {
        &self.targets
    }

    /// The size of the object at `location`.
    async fn size_of(&self, key: &str, location: &Location) -> Result<u64> {
        let remote = match location {
            Location::Inline(bytes) => return Ok(u64_of(bytes.len())),
            Location::Remote(remote) => remote,
        };
        if let Some(size) = self.map.known_size(remote) {
            return Ok(size);
        }
        let asked = async {
            if let Some(versioned) = remote.versioned() {
                // Stores tell the sizes of what is there now; the size of a version is that of its bytes.
                let all = self.fetch(&versioned, GetOptions::default()).await?;
                return Ok(u64_of(all.bytes.len()));
            }
            let target = self.targets.target(remote).await?;
            let size = target.store.size(&target.key).await?;
            size.ok_or_else(unfound)
        };
        asked.await.map_err(|e: Error| e.within(remote.to_string()).moved_to(key, self))
    }

    /// The metadata of the `size` bytes at `location`; without a state if the target cannot tell it. Objects in `seen`
    /// are not requested again.
    async fn meta_of(
        &self,
        key: &str,
        location: &Location,
        size: u64,
        seen: &KnownStates,
    ) -> Result<ObjectMeta> {
        let remote = match location {
            Location::Inline(bytes) => return Ok(ObjectMeta::of_text(Some(md5_hex(bytes)), Some(size))),
            Location::Remote(remote) => remote,
        };
        let versioned = remote.versioned();
        let pin = versioned.as_ref().unwrap_or(remote).pin.as_deref();
        if let Some(pin) = pin.filter(|p| p.version.is_some() || p.etag.is_some()) {
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            let state = format!("{}{} {}", place_of(remote), text(&pin.version), text(&pin.etag));
            return Ok(ObjectMeta::of_text(Some(state), Some(size)));
        }
        let place = (remote.url.clone(), remote.near.clone());
        let known = seen.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        let object = match known {
            Some(object) => object,
            None => {
                let asked = async {
                    let target = self.targets.target(remote).await?;
                    Ok(target.store.stat(&target.key).await?.unwrap_or_default())
                };
                let object: ObjectMeta =
                    asked.await.map_err(|e: Error| e.within(remote.to_string()).moved_to(key, self))?;
                seen.lock().unwrap_or_else(PoisonError::into_inner).insert(place, object.clone());
                object
            }
        };
        Ok(as_key(remote, &object, Some(size)))
    }

    /// An entry with what the map itself states of it.
    fn at_no_cost(&self, KeyEntry { key, meta, .. }: KeyEntry) -> KeyEntry {
        let size = || self.map.stated_size(&key).map(|size| ObjectMeta::of_text(None, Some(size)));
        let meta = self.map.stated(&key).or_else(size).unwrap_or(meta);
        KeyEntry::new(key, meta)
    }

    async fn fetch(&self, remote: &Remote, options: GetOptions<'_>) -> Result<Object> {
        let (versioned, state) = (remote.versioned(), target_state(remote, options.state));
        let remote = versioned.as_ref().unwrap_or(remote);
        let target = self.targets.target(remote).await?;
        let ask = asked(remote, GetOptions { state: state.as_ref(), ..options })?;
        let mut object = target.store.get_opts(&target.key, ask).await?.ok_or_else(unfound)?;
        object.meta =
            if ask.pin.is_some() { ObjectMeta::Unknown } else { as_key(remote, &object.meta, None) };
        object.meta.check(options.state)?;
        Ok(object)
    }

    async fn stream(&self, remote: &Remote, options: GetOptions<'_>) -> Result<ObjectStream> {
        let (versioned, state) = (remote.versioned(), target_state(remote, options.state));
        let remote = versioned.as_ref().unwrap_or(remote);
        let target = self.targets.target(remote).await?;
        let ask = asked(remote, GetOptions { state: state.as_ref(), ..options })?;
        let mut got = target.store.get_stream(&target.key, ask).await?.ok_or_else(unfound)?;
        got.meta = if ask.pin.is_some() { ObjectMeta::Unknown } else { as_key(remote, &got.meta, None) };
        got.meta.check(options.state)?;
        if let Some(Span { offset, .. }) = remote.span {
            // Of what the key stands for, which begins within the object.
            let within = |range: Range<u64>| range.start.checked_sub(offset)..range.end.checked_sub(offset);
            got.range = got.range.map(within).and_then(|range| Some(range.start?..range.end?));
        }
        Ok(got)
    }
}

/// The place of a reference, which is part of its state: another range of the same object is another value.
fn place_of(remote: &Remote) -> String {
    let span = remote.span.map(|s| format!("{}+{}", s.offset, s.length)).unwrap_or_default();
    format!("{} {span} ", remote.url)
}

/// The metadata of a key whose bytes are in an object with these: what `get` and `stat` both say, so that the one
/// holds against the other.
fn as_key(remote: &Remote, object: &ObjectMeta, size: Option<u64>) -> ObjectMeta {
    let modified = match object {
        ObjectMeta::Unknown => return ObjectMeta::of_text(None, size.or(remote.span.map(|s| s.length))),
        ObjectMeta::Local(local) => local.modified.map(|(seconds, _)| seconds),
        ObjectMeta::Remote(remote) => remote.modified,
    };
    let size = size.or_else(|| remote.span.map_or(object.size(), |span| Some(span.length)));
    let etag = object.text().map(|text| place_of(remote) + &text);
    RemoteMeta { etag, modified, size, version: None }.into()
}

/// The state of the target object that is part of the state of a key, as a server knows it (`If-Match`). A state that
/// is not of this form is the target's own.
fn target_state(remote: &Remote, state: Option<&ObjectMeta>) -> Option<ObjectMeta> {
    let state = state?;
    let text = state.text().unwrap_or_default();
    match text.strip_prefix(place_of(remote).as_str()) {
        // Not an `ETag`, but size and time: compared when the answer is here.
        Some(of_object) if of_object.contains(char::is_whitespace) => None,
        Some(of_object) => Some(ObjectMeta::of_text(Some(format!("\"{of_object}\"")), None)),
        None => Some(state.clone()),
    }
}

/// The request for the object of a reference.
fn asked<'a>(remote: &'a Remote, options: GetOptions<'a>) -> Result<GetOptions<'a>> {
    let range = match (remote.span, options.range) {
        (None, range) => range,
        (Some(Span { offset, length }), None) => Some(ByteRange::span(offset, length)),
        (Some(Span { offset, length }), Some(range)) => {
            let (start, wanted) = range.resolve(length)?;
            let from =
                offset.checked_add(start).ok_or_else(|| Error::invalid("the end of the range overflows"))?;
            Some(ByteRange::span(from, wanted))
        }
    };
    let pin = remote.pin.as_deref();
    // A state that is named already is not one that may change.
    let state = options.state.filter(|_| pin.is_none());
    Ok(GetOptions { range, pin, state, ..options })
}

fn unfound() -> Error {
    Error::not_found("the referenced object does not exist")
}

impl fmt::Display for ReferenceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.name))
    }
}

/// The requested range of inline bytes.
fn slice(bytes: &Bytes, range: Option<ByteRange>) -> Result<Bytes> {
    let Some(range) = range else { return Ok(bytes.clone()) };
    let (offset, length) = range.resolve(u64_of(bytes.len()))?;
    let start = usize_of(offset)?;
    Ok(bytes.slice(start..start.saturating_add(usize_of(length)?)))
}

#[async_trait]
impl Store for ReferenceStore {
    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        let mut last: Option<Arc<str>> = None;
        let remotes = self.map.entries(prefix).filter_map(move |found| {
            let remote = match found {
                Ok((_, Location::Inline(_))) => None,
                // Neighbours are often of one object.
                Ok((_, Location::Remote(remote))) if last.as_ref() == Some(&remote.url) => None,
                Ok((key, Location::Remote(remote))) => {
                    last = Some(Arc::clone(&remote.url));
                    Some(Ok((key, remote)))
                }
                Err(e) => Some(Err(e.with_store(self))),
            };
            std::future::ready(remote)
        });
        let sites = remotes.map(move |found| async move {
            let (key, remote) = found?;
            let remote = remote.versioned().unwrap_or(remote);
            let named = |e: Error| e.within(remote.to_string()).moved_to(&key, self);
            let target = self.targets.target(&remote).await.map_err(named)?;
            match target.store.sites(&target.key).next().await {
                Some(site) => site.map_err(named),
                None => Err(named(Error::io("the location of this key is unknown"))),
            }
        });
        sites.buffered(SIZES_AT_ONCE).boxed()
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let named = |e: Error| e.with_key(key).with_store(self);
        options.refuse_pin().map_err(named)?;
        match self.map.locate(key).await.map_err(named)? {
            None => Ok(None),
            Some(Location::Inline(bytes)) => {
                let object = slice(&bytes, options.range).map(Object::from).map_err(named)?;
                options.check(&object).map_err(named)?;
                Ok(Some(object))
            }
            Some(Location::Remote(remote)) => match self.fetch(&remote, options).await {
                Ok(got) => Ok(Some(got)),
                // The reference exists, so its object must: this is never a missing chunk.
                Err(e) => Err(e.within(remote.to_string()).moved_to(key, self)),
            },
        }
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let named = |e: Error| e.with_key(key).with_store(self);
        options.refuse_pin().map_err(named)?;
        let remote = match self.map.locate(key).await.map_err(named)? {
            Some(Location::Remote(remote)) => remote,
            Some(Location::Inline(_)) | None => {
                let got = self.get_opts(key, options).await?;
                return Ok(got.map(|object| ObjectStream::of(object, options.range)));
            }
        };
        let (key, store, place) = (key.to_owned(), self.to_string(), remote.to_string());
        let moved = move |e: Error| e.within(&place).moved_to(&key, &store);
        match self.stream(&remote, options).await {
            Ok(got) => Ok(Some(got.map_err(moved))),
            Err(e) => Err(moved(e)),
        }
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        if let Some(meta) = self.map.stated(key) {
            return Ok(Some(meta));
        }
        let found = self.map.locate(key).await.map_err(|e| e.with_key(key).with_store(self))?;
        match found {
            None => Ok(None),
            Some(location) => {
                let size = self.size_of(key, &location).await?;
                Ok(Some(self.meta_of(key, &location, size, &Mutex::default()).await?))
            }
        }
    }

    /// Sorted for a listing of one level; in the order of the map for a recursive one.
    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        if !options.recursive {
            let names = walk(prefix, options, move |folder, _| async move {
                let found = self.map.list(&folder).await;
                found.map(FolderNames::from).map_err(|e| e.with_key(folder).with_store(self))
            });
            if options.facts {
                return with_facts(self, options, names);
            }
            let known = names.map_ok(|entry| match entry {
                Entry::Object(object) => Entry::Object(self.at_no_cost(object)),
                folder => folder,
            });
            return known.boxed();
        }
        let (seen, facts) = (Arc::new(Mutex::default()), options.facts);
        let mut after = options.after.clone();
        let left = self.map.entries(prefix).filter(move |found| {
            let passed = after.is_some() && found.is_ok();
            if matches!(found, Ok((key, _)) if after.as_ref() == Some(key)) {
                after = None;
            }
            std::future::ready(!passed)
        });
        let entries = left.map(move |found| {
            let seen = Arc::clone(&seen);
            async move {
                let (key, location) = found.map_err(|e| e.with_store(self))?;
                let stated = if facts { self.map.stated(&key) } else { None };
                let is_stated = stated.is_some();
                let mut meta = stated.unwrap_or_default();
                if facts && !is_stated {
                    let size = self.size_of(&key, &location).await?;
                    // What cannot be told now is not said; who asks for it by itself gets the reason.
                    let told = self.meta_of(&key, &location, size, &seen).await;
                    meta = told.unwrap_or_else(|_| ObjectMeta::of_text(None, Some(size)));
                }
                let object = KeyEntry::new(key, meta);
                Ok(Entry::Object(if facts { object } else { self.at_no_cost(object) }))
            }
        });
        entries.buffered(SIZES_AT_ONCE).boxed()
    }

    fn origin(&self, key: &str) -> Option<Origin> {
        // What was just read is known, or in the map's cache.
        match self.map.locate(key).now_or_never()?.ok()?? {
            Location::Inline(_) => None,
            Location::Remote(remote) => Some(remote.origin()),
        }
    }

    fn direct(&self) -> Option<&dyn Direct> {
        self.at_hand.then_some(self)
    }
}
