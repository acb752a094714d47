//! Reads Icechunk repositories as Zarr.
//!
//! A repository is a tree of immutable files: a *snapshot* lists every node of a hierarchy, with its metadata;
//! *manifests* hold the locations of the chunks of arrays. Only branches and tags, which point to snapshots, change.
//! Opening one takes two or three small requests, whatever its size; a manifest is fetched when a chunk that it lists
//! is read.
//!
//! A chunk is in its manifest, in an object of the repository (an address relative to it, `chunks/ID`), or in an object
//! elsewhere, possibly pinned to a version.
//!
//! Versions 1 and 2 (and 2.1) of the format are read; nothing is written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use super::{Location, Map, Remote, SharedMap, Span};
use crate::boxed;
use crate::context::cache::hashed;
use crate::context::{Context, Key, owner};
use crate::error::{Error, Result, invalid};
use crate::store::fault::copy_of;
use crate::store::{Listing, SharedStore, StoreExt as _, join, percent_decode};

mod config;
mod file;
mod flat;
mod flex;
mod history;
#[cfg(test)]
mod hostile;
mod id;
mod manifest;
mod repo;
mod snapshot;

pub use config::Container;
pub use history::Commit;
pub use id::Id;
pub use repo::{Named, Version, Versions};

use file::FileKind;
use manifest::{ChunkManifest, ChunkPlace};
use repo::Repo;
use snapshot::{ArrayNode, KeyForm, ManifestPart, Snapshot, SnapshotNode};

/// Manifests fetched concurrently for many keys.
const FETCHES: usize = 8;

/// Manifests held for many keys, whatever the size of the cache.
const AT_ONCE: usize = 16;

/// Chunks per batch when all chunks of a manifest are listed.
const BATCH: usize = 1024;

/// Files larger than this are decompressed on the thread pool.
const LARGE: usize = 128 << 10;

/// Opens the repository in `store` at a version.
#[boxed]
pub async fn open(store: SharedStore, at: &Version) -> Result<SharedMap> {
    let map: SharedMap = Arc::new(Repository::open(store, at).await?);
    Ok(map)
}

/// The branches and tags of the repository in `store`.
#[boxed]
pub async fn versions(store: SharedStore) -> Result<Versions> {
    Repo::read(&store).await?.versions().await
}

/// The snapshots that a version of the repository in `store` comes from, newest first and itself among them.
#[boxed]
pub async fn history(store: SharedStore, at: &Version) -> Result<Vec<Commit>> {
    let repo = Repo::read(&store).await?;
    let from = repo.find(at).await.map_err(|e| e.with_store(&store))?;
    repo.history(from, |_| false).await
}

/// Whether there is a repository in `store`.
#[boxed]
pub async fn is_repository(store: &SharedStore) -> Result<bool> {
    repo::is_here(store).await
}

/// A repository at one of its snapshots.
#[derive(Debug)]
pub struct Repository {
    store: SharedStore,
    repo: Repo,
    id: Id,
    snapshot: Snapshot,
    /// Keeps manifests that were read.
    context: Context,
    owner: u64,
    containers: OnceCell<Vec<Container>>,
}

impl Drop for Repository {
    fn drop(&mut self) {
        self.context.chunks().forget_owner(self.owner);
    }
}

impl Repository {
    /// Opens the repository in `store` at a version.
    #[boxed]
    pub async fn open(store: SharedStore, at: &Version) -> Result<Self> {
        let named = |e: Error| e.with_store(&store);
        let repo = Repo::read(&store).await?;
        let id = repo.find(at).await.map_err(named)?;
        let key = format!("snapshots/{id}");
        let Some(bytes) = store.get(&key, None).await? else {
            let e = match at {
                Version::Snapshot(_) => repo.unknown_snapshot(id).await,
                _ => Error::not_found("the snapshot does not exist"),
            };
            return Err(named(e).with_key(key));
        };
        let (context, owner, size) = (Context::shared(), owner(), bytes.len());
        let parse = move || Snapshot::parse(file::open(&bytes, FileKind::Snapshot)?, id);
        let snapshot = compute(&context, size, parse);
        let snapshot = snapshot.await.map_err(|e| named(e).with_key(key))?;
        Ok(Self { store, repo, id, snapshot, context, owner, containers: OnceCell::new() })
    }

    /// Caches manifests in the memory of `context`.
    #[must_use]
    pub fn with_context(mut self, context: &Context) -> Self {
        self.context = context.clone();
        self
    }

    /// The snapshot that is read.
    #[must_use]
    pub fn snapshot(&self) -> Id {
        self.id
    }

    /// The virtual chunk containers of the repository's configuration, with their store options.
    pub async fn containers(&self) -> Result<&[Container]> {
        let known = self.containers.get_or_try_init(|| self.repo.containers()).await?;
        Ok(known)
    }

    async fn manifest(&self, id: Id) -> Result<Arc<ChunkManifest>> {
        let fetch = async {
            let key = format!("manifests/{id}");
            let at = |e: Error| e.with_key(&key).with_store(&self.store);
            let Some(bytes) = self.store.get(&key, None).await? else {
                return Err(at(Error::not_found("the manifest that lists the chunk does not exist")));
            };
            let size = bytes.len();
            let parse = move || ChunkManifest::parse(file::open(&bytes, FileKind::Manifest)?, id);
            compute(&self.context, size, parse).await.map_err(at)
        };
        let [a, b] = hashed(id);
        let key = Key { owner: self.owner, part: [a, b, 0, 0] };
        self.context.chunks().get_or_make(key, ChunkManifest::bytes, fetch).await.map_err(|e| copy_of(&e))
    }

    /// The array and the index of the chunk of a key.
    fn chunk(&self, key: &str) -> Result<Option<ChunkRef<'_>>> {
        let Some((node, array, rest)) = self.snapshot.array_of(key) else { return Ok(None) };
        let form = array.form(&node.document).map_err(|e| e.with_node(format!("/{}", node.path)))?;
        let Some(index) = form.keys.index(rest, form.rank) else { return Ok(None) };
        let index = index.into_iter().map(|n| u32::try_from(n).ok()).collect::<Option<Vec<u32>>>();
        Ok(index.map(|index| ChunkRef { node, array, index }))
    }

    /// The metadata document of a node, if the key is one.
    fn document(&self, key: &str) -> Option<Location> {
        let path = if key == "zarr.json" { "" } else { key.strip_suffix("/zarr.json")? };
        Some(Location::Inline(self.snapshot.node(path)?.document.clone()))
    }

    async fn find(
        &self,
        chunk: &ChunkRef<'_>,
        held: &HashMap<Id, Arc<ChunkManifest>>,
    ) -> Result<Option<Location>> {
        for part in chunk.array.parts_with(&chunk.index) {
            let Some(manifest) = held.get(&part.manifest) else { continue };
            let at = |e: Error| e.with_key(format!("manifests/{}", part.manifest)).with_store(&self.store);
            if let Some(place) = manifest.find(chunk.node.id, &chunk.index).map_err(at)? {
                return self.location(place).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn manifest_for(&self, id: Id, key: &str) -> Result<(Id, Arc<ChunkManifest>)> {
        Ok((id, self.manifest(id).await.map_err(|e| looking_up(e, key))?))
    }

    /// Looks chunks up in the manifests that list them; each manifest with a key for error messages.
    async fn fill(&self, chunks: Vec<Asked<'_, '_>>, wanted: BTreeMap<Id, &str>) -> Result<()> {
        let fetch: Vec<_> = wanted.into_iter().map(|(id, key)| self.manifest_for(id, key)).collect();
        let held: HashMap<Id, Arc<ChunkManifest>> =
            stream::iter(fetch).buffer_unordered(FETCHES).try_collect().await?;
        for (slot, key, chunk) in chunks {
            *slot = self.find(&chunk, &held).await.map_err(|e| looking_up(e, key))?;
        }
        Ok(())
    }

    async fn location(&self, place: ChunkPlace) -> Result<Location> {
        Ok(match place {
            ChunkPlace::Inline(bytes) => Location::Inline(bytes),
            // Nothing needs to be fetched for no bytes, and not every store can.
            ChunkPlace::Native(_, Span { length: 0, .. }) => Location::Inline(bytes::Bytes::new()),
            ChunkPlace::Native(id, span) => Location::Remote(Remote::new(format!("chunks/{id}"), Some(span))),
            ChunkPlace::Virtual(address, span, pin) => {
                let url = self.address(address).await?;
                Location::Remote(Remote { url, span: Some(span), pin, near: None })
            }
        })
    }

    /// Resolves a stored address to one that a store can be opened by.
    async fn address(&self, stored: Arc<str>) -> Result<Arc<str>> {
        let whole: Arc<str> = match stored.strip_prefix("vcc://") {
            None => stored,
            Some(inside) => {
                let (name, path) = inside.split_once('/').unwrap_or((inside, ""));
                let known = self.containers().await?;
                let container = known.iter().find(|c| c.name.as_deref() == Some(name));
                let container = container.ok_or_else(|| {
                    invalid!("{stored}: the repository has no virtual chunk container {name:?}")
                })?;
                format!("{}{path}", container.url_prefix).into()
            }
        };
        // Keys of buckets are written as in URLs; here they are plain.
        let bucket =
            whole.split_once("://").is_some_and(|(scheme, _)| !matches!(scheme, "http" | "https" | "file"));
        if bucket && whole.contains('%') {
            let plain = percent_decode(&whole);
            return Ok(plain.ok_or_else(|| invalid!("{whole}: the address is not valid UTF-8"))?.into());
        }
        Ok(whole)
    }

    /// The chunks of an array that one of its manifests lists, in batches.
    fn batches<'a>(
        &'a self,
        node: &'a SnapshotNode,
        part: &'a ManifestPart,
    ) -> impl futures::Stream<Item = Result<Vec<(Vec<u32>, ChunkPlace)>>> + Send + 'a {
        stream::try_unfold(0, move |start| async move {
            let manifest = self.manifest(part.manifest).await?;
            let mut some = manifest.some(node.id, start, BATCH)?;
            let next = start.saturating_add(some.len());
            if some.is_empty() {
                return Ok(None);
            }
            some.retain(|(index, _)| part.has(index));
            Ok(Some((some, next)))
        })
    }

    /// The document of a node and its chunks.
    fn node_entries<'a>(&'a self, node: &'a SnapshotNode) -> BoxStream<'a, Result<(String, Location)>> {
        let document = (join(&node.path, "zarr.json"), Location::Inline(node.document.clone()));
        let document = stream::once(async { Ok(document) });
        let Some(array) = &node.array else { return document.boxed() };
        let named = |e: Error| e.with_node(format!("/{}", node.path));
        let form = match array.form(&node.document).map_err(named) {
            Ok(form) => form,
            Err(e) => return document.chain(stream::once(async { Err(e) })).boxed(),
        };
        let parts = stream::iter(array.parts()).map(move |part| self.batches(node, part)).flatten();
        let each = parts.map_ok(|some| stream::iter(some.into_iter().map(Ok::<_, Error>))).try_flatten();
        let chunks = each.and_then(move |(index, place)| async move {
            let index: Vec<u64> = index.into_iter().map(u64::from).collect();
            Ok((form.keys.key(&node.path, &index), self.location(place).await?))
        });
        document.chain(chunks.map_err(named)).boxed()
    }

    /// The chunks of an array whose keys begin with `inside/`, one step deep.
    async fn list_chunks(&self, node: &SnapshotNode, array: &ArrayNode, inside: &str) -> Result<Listing> {
        let form = array.form(&node.document).map_err(|e| e.with_node(format!("/{}", node.path)))?;
        let mut listing = Listing::default();
        let KeyForm { keys, rank } = form;
        if inside.is_empty() && keys.prefixed && keys.separator == '/' && rank > 0 {
            if !array.parts().is_empty() {
                listing.prefixes.push("c".to_owned());
            }
            return Ok(listing);
        }
        let folder = if inside.is_empty() { String::new() } else { format!("{inside}/") };
        let mut names = BTreeSet::new();
        let mut key = String::new();
        for part in array.parts() {
            let manifest = self.manifest(part.manifest).await?;
            manifest.each_index(node.id, |index| {
                if !part.has(index) {
                    return;
                }
                let index: Vec<u64> = index.iter().copied().map(u64::from).collect();
                keys.write("", &index, &mut key);
                let Some(rest) = key.strip_prefix(&*folder) else { return };
                let (name, is_object) = rest.split_once('/').map_or((rest, true), |(name, _)| (name, false));
                if !names.contains(&(is_object, name.to_owned())) {
                    names.insert((is_object, name.to_owned()));
                }
            })?;
        }
        for (is_object, name) in names {
            if is_object { listing.objects.push(name) } else { listing.prefixes.push(name) }
        }
        Ok(listing)
    }
}

/// The slot of the answer, the requested key, and its chunk.
type Asked<'o, 'k> = (&'o mut Option<Location>, &'k str, ChunkRef<'k>);

fn looking_up(e: Error, key: &str) -> Error {
    e.within(format!("looking up {key}"))
}

/// The chunk of a key.
#[derive(Debug)]
struct ChunkRef<'a> {
    node: &'a SnapshotNode,
    array: &'a ArrayNode,
    index: Vec<u32>,
}

#[async_trait]
impl Map for Repository {
    fn noun(&self) -> &'static str {
        "an Icechunk repository"
    }

    async fn locate(&self, key: &str) -> Result<Option<Location>> {
        let found = self.locate_all(&[key.to_owned()]).await?;
        Ok(found.into_iter().next().flatten())
    }

    async fn locate_all(&self, keys: &[String]) -> Result<Vec<Option<Location>>> {
        let mut out: Vec<_> = keys.iter().map(|key| self.document(key)).collect();
        let mut chunks = Vec::new();
        let mut wanted = BTreeMap::new();
        for (slot, key) in out.iter_mut().zip(keys) {
            if slot.is_none()
                && let Some(chunk) = self.chunk(key).map_err(|e| looking_up(e, key))?
            {
                wanted.extend(chunk.array.parts_with(&chunk.index).map(|p| (p.manifest, key.as_str())));
                chunks.push((slot, key.as_str(), chunk));
            }
            // All manifests at once that neighbours would wait for one after another, but not any number of them.
            if wanted.len() >= AT_ONCE {
                self.fill(std::mem::take(&mut chunks), std::mem::take(&mut wanted)).await?;
            }
        }
        self.fill(chunks, wanted).await?;
        Ok(out)
    }

    async fn list(&self, prefix: &str) -> Result<Listing> {
        let mut listing = self.snapshot.list(prefix);
        let inside = match self.snapshot.node(prefix) {
            Some(node) => node.array.as_ref().map(|array| (node, array, "")),
            None => self.snapshot.array_of(prefix),
        };
        if let Some((node, array, inside)) = inside {
            let chunks = self.list_chunks(node, array, inside).await?;
            listing.objects.extend(chunks.objects);
            listing.prefixes.extend(chunks.prefixes);
        }
        Ok(listing.sorted())
    }

    fn entries(&self, prefix: &str) -> BoxStream<'_, Result<(String, Location)>> {
        let nodes = self.snapshot.below(prefix);
        if nodes.is_empty()
            && let Some((node, ..)) = self.snapshot.array_of(prefix)
        {
            let folder = format!("{prefix}/");
            let inside = move |(key, _): &(String, Location)| std::future::ready(key.starts_with(&folder));
            return self.node_entries(node).try_filter(inside).boxed();
        }
        stream::iter(nodes).map(|node| self.node_entries(node)).flatten().boxed()
    }
}

/// Runs `f`, which works on `size` bytes: here, or on the thread pool if that would block the runtime.
async fn compute<T: Send + 'static>(
    context: &Context,
    size: usize,
    f: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if size < LARGE {
        return f();
    }
    context.run(f).await
}
