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
    Site, Store, StoreExt, changed, md5_hex,
};

/// Sizes of whole objects requested concurrently.
const SIZES_AT_ONCE: usize = 32;

/// The versions of objects that were already requested: by address, and what that is relative to.
type KnownStates = Mutex<HashMap<(Arc<str>, Option<Arc<str>>), Option<String>>>;

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

    /// Identifies the version of the bytes at `location`: the location, and the version of the object there; `None` if
    /// the target cannot tell. Objects in `seen` are not requested again.
    async fn state_of(&self, key: &str, location: &Location, seen: &KnownStates) -> Result<Option<String>> {
        let remote = match location {
            Location::Inline(bytes) => return Ok(Some(md5_hex(bytes))),
            Location::Remote(remote) => remote,
        };
        let versioned = remote.versioned();
        let pin = versioned.as_ref().unwrap_or(remote).pin.as_deref();
        let pinned = pin.is_some_and(|p| p.version.is_some() || p.etag.is_some());
        let place = (remote.url.clone(), remote.near.clone());
        let known = seen.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        let object = match known {
            _ if pinned => pin.map(|p| {
                let text = |part: &Option<String>| part.clone().unwrap_or_default();
                format!("{} {}", text(&p.version), text(&p.etag))
            }),
            Some(state) => state,
            None => {
                let asked = async {
                    let target = self.targets.target(remote).await?;
                    Ok(target.store.stat(&target.key).await?.and_then(|meta| meta.text()))
                };
                let state =
                    asked.await.map_err(|e: Error| e.within(remote.to_string()).moved_to(key, self))?;
                seen.lock().unwrap_or_else(PoisonError::into_inner).insert(place, state.clone());
                state
            }
        };
        Ok(object.map(|state| format!("{}{state}", before_state(remote))))
    }

    /// An entry with what the map itself states of it.
    fn at_no_cost(&self, KeyEntry { key, meta, .. }: KeyEntry) -> KeyEntry {
        let size = || self.map.stated_size(&key).map(|size| ObjectMeta::of_text(None, Some(size)));
        let meta = self.map.stated(&key).or_else(size).unwrap_or(meta);
        KeyEntry::new(key, meta)
    }

    async fn fetch(&self, remote: &Remote, options: GetOptions<'_>) -> Result<Object> {
        let versioned = remote.versioned();
        let remote = versioned.as_ref().unwrap_or(remote);
        let target = self.targets.target(remote).await?;
        let (options, expected) = of_target(remote, options);
        let ask = asked(remote, options)?;
        let mut got = target.store.get_opts(&target.key, ask).await?;
        check_state(expected, got.as_ref().map(|object| &object.meta))?;
        if let Some(object) = got.as_mut().filter(|_| ask.pin.is_some()) {
            object.meta = ObjectMeta::Unknown;
        }
        got.ok_or_else(unfound)
    }

    async fn stream(&self, remote: &Remote, options: GetOptions<'_>) -> Result<ObjectStream> {
        let versioned = remote.versioned();
        let remote = versioned.as_ref().unwrap_or(remote);
        let target = self.targets.target(remote).await?;
        let (options, expected) = of_target(remote, options);
        let ask = asked(remote, options)?;
        let mut got = target.store.get_stream(&target.key, ask).await?.ok_or_else(unfound)?;
        check_state(expected, Some(&got.meta))?;
        if ask.pin.is_some() {
            got.meta = ObjectMeta::Unknown;
        }
        if let Some(Span { offset, .. }) = remote.span {
            // Of what the key stands for, which begins within the object.
            let within = |range: Range<u64>| range.start.checked_sub(offset)..range.end.checked_sub(offset);
            got.range = got.range.map(within).and_then(|range| Some(range.start?..range.end?));
        }
        Ok(got)
    }
}

/// What stands before the state of the object in the state of a key: which bytes of which object it is.
fn before_state(remote: &Remote) -> String {
    let span = remote.span.map(|s| format!("{}+{}", s.offset, s.length)).unwrap_or_default();
    format!("{} {span} ", remote.url)
}

/// The options without the state of the key, as `stat` gives it, which means nothing to the object's own store; and what
/// it says of the object.
fn of_target<'a>(remote: &Remote, options: GetOptions<'a>) -> (GetOptions<'a>, Option<&'a str>) {
    let expected = match options.state {
        Some(ObjectMeta::Remote(meta)) => {
            meta.etag.as_deref().and_then(|text| text.strip_prefix(&before_state(remote)))
        }
        _ => None,
    };
    let state = options.state.filter(|_| expected.is_none());
    (GetOptions { state, ..options }, expected)
}

/// Fails if the object is in another state than expected, as far as is known.
fn check_state(expected: Option<&str>, meta: Option<&ObjectMeta>) -> Result<()> {
    match (expected, meta.and_then(ObjectMeta::text)) {
        (Some(expected), Some(found)) if expected != found => Err(changed()),
        _ => Ok(()),
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
                let state = self.state_of(key, &location, &Mutex::default()).await?;
                Ok(Some(ObjectMeta::of_text(state, Some(size))))
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
                    let state = self.state_of(&key, &location, &seen).await.unwrap_or(None);
                    meta = ObjectMeta::of_text(state, Some(size));
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
