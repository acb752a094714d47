//! Changing a hierarchy: nodes are made, edited, resized, consolidated and deleted.
//!
//! These are functions over a store, not methods of an opened [`Zarr`], which is a view of what was there
//! when it was opened. Every document is put whole, and on the condition that nobody else changed it since it was read;
//! if somebody did, the change is made anew on what they wrote. Where a group above carries the node's metadata
//! (consolidated), its copy is renewed too.

use std::sync::Arc;

use futures::TryStreamExt;

use crate::array::{Array, DEFAULT_MEMORY, Selection, Slab, Values, WriteOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::meta::create::NewArray;
use crate::meta::path::{ancestors, join, name_fault, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{
    ArrayMeta, ChunkKeys, Findings, Format, Json, Mode, NodeMeta, consolidate as documents, edit, v2, v3,
};
use crate::num;
use crate::store::{Condition, Put, SharedStore};

/// What to do with a node that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Fail.
    #[default]
    Refuse,
    /// Delete it, with all below it, first.
    Replace,
}

/// How often a document is changed anew because somebody else changed it first.
const ATTEMPTS: usize = 100;

/// What an unfinished copy is known by.
pub(crate) const UNFINISHED: &str = ".zaro-copy.json";

/// The documents a node can have.
const V2_DOCUMENTS: [&str; 3] = [".zarray", ".zgroup", ".zattrs"];

fn text(document: &Json) -> bytes::Bytes {
    let mut text = document.pretty();
    text.push('\n');
    text.into()
}

async fn open(store: &SharedStore) -> Result<Zarr> {
    let options = OpenOptions { use_consolidated: false, ..OpenOptions::default() };
    Zarr::from_store(store.clone(), options).await
}

/// The node at `path`, as its own documents have it; `None` if there is none.
pub async fn find(store: &SharedStore, path: &str) -> Result<Option<Node>> {
    open(store).await?.direct_node(&normal(path)?).await
}

async fn need(store: &SharedStore, path: &str) -> Result<Node> {
    match find(store, path).await? {
        Some(node) => Ok(node),
        None => Err(Error::not_found("there is no such node").with_node(shown(path)).with_store(store)),
    }
}

/// Makes a group, and those it lies in. A group that is there already stays as it is, unless `attributes` are given
/// and it is to be replaced.
pub async fn create_group(
    store: &SharedStore,
    path: &str,
    format: Format,
    attributes: &Json,
    existing: Existing,
) -> Result<()> {
    let path = normal(path)?;
    make_room(store, &path, format, existing).await?;
    let group = write::new_group(format, attributes);
    make(store, &path, write::group(&group)).await
}

/// Makes an array without chunks, and the groups it lies in.
pub async fn create_array(
    store: &SharedStore,
    path: &str,
    new: &NewArray,
    existing: Existing,
) -> Result<Array> {
    create_from(store, path, new.meta()?, existing).await
}

/// Makes an array of these metadata, without chunks, and the groups it lies in.
pub async fn create_from(
    store: &SharedStore,
    path: &str,
    meta: ArrayMeta,
    existing: Existing,
) -> Result<Array> {
    let path = normal(path)?;
    let stored = write::array(&meta)?;
    // Codecs that do not fit together are found before anything is written.
    let array = Array::new(store.clone(), &path, meta.clone(), Mode::Strict, Vec::new(), DEFAULT_MEMORY)
        .map_err(|e| match e.kind() {
            // Nothing is invalid yet; something impossible was asked for.
            ErrorKind::Invalid => Error::usage(e.message()).with_node(shown(&path)).with_store(store),
            _ => e,
        })?;
    make_room(store, &path, meta.format, existing).await?;
    make(store, &path, stored).await?;
    Ok(array)
}

/// Puts the documents of a node as they are; those of the `top` one of several come last, with the groups it lies in.
pub(crate) async fn put_documents(
    store: &SharedStore,
    path: &str,
    format: Format,
    stored: Stored,
    top: bool,
) -> Result<()> {
    if top {
        make_room(store, path, format, Existing::Refuse).await?;
        return make(store, path, stored).await;
    }
    for (name, document) in stored.iter().rev() {
        let _ = store.put(&join(path, name), text(document), Condition::Always).await?;
    }
    Ok(())
}

/// The array at `path`, as its own documents have it, with `memory` for its caches.
pub async fn open_array(store: &SharedStore, path: &str, memory: usize) -> Result<Array> {
    let options = OpenOptions { use_consolidated: false, memory, ..OpenOptions::default() };
    Zarr::from_store(store.clone(), options).await?.array(path).await
}

/// Fails if a node of this version cannot be made at `path`, whatever is there now: because of its name, or of what it
/// would lie in.
pub(crate) async fn check_place(store: &SharedStore, path: &str, format: Format) -> Result<()> {
    let placed = |e: Error, at: &str| e.with_node(shown(at)).with_store(store);
    if format == Format::V3 {
        for name in path.split('/').filter(|n| !n.is_empty()) {
            if let Some(fault) = name_fault(name) {
                return Err(placed(Error::usage(format!("{name:?} cannot be a name: {fault}")), path));
            }
        }
    }
    for above in ancestors(path) {
        match find(store, above).await? {
            Some(node) if node.meta.format() != format => {
                let message = format!(
                    "this group is Zarr V{}, so what lies in it cannot be V{}",
                    node.meta.format().number(),
                    format.number()
                );
                return Err(placed(Error::usage(message), above));
            }
            Some(Node { meta: NodeMeta::Array(_), .. }) => {
                return Err(placed(Error::usage("this is an array; nothing can lie in it"), above));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Sees to it that a node can be made at `path`: nothing there, and groups above.
async fn make_room(store: &SharedStore, path: &str, format: Format, existing: Existing) -> Result<()> {
    check_place(store, path, format).await?;
    for above in ancestors(path) {
        if find(store, above).await?.is_none() {
            let group = write::new_group(format, &Json::object());
            match make(store, above, write::group(&group)).await {
                // Somebody else made it meanwhile.
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                made => made?,
            }
        }
    }
    match (find(store, path).await, existing) {
        (Ok(None), _) => {}
        // What cannot be read can still be replaced.
        (_, Existing::Replace) => replace(store, path).await?,
        (Ok(Some(node)), Existing::Refuse) => {
            let message = format!("there is {} here already", article(node.meta.kind()));
            return Err(Error::usage(message).with_node(shown(path)).with_store(store));
        }
        (Err(e), Existing::Refuse) => return Err(e),
    }
    Ok(())
}

/// Deletes what is to be replaced, if it is a node, however damaged.
pub(crate) async fn replace(store: &SharedStore, path: &str) -> Result<()> {
    let there = store.list(path).await?;
    let document = |name: &String| name == "zarr.json" || V2_DOCUMENTS.contains(&name.as_str());
    let unfinished = |name: &String| name == UNFINISHED;
    let empty = there.objects.is_empty() && there.prefixes.is_empty();
    if !empty && !there.objects.iter().any(|n| document(n) || unfinished(n)) {
        return Err(Error::usage("what is here is no Zarr; it is not deleted")
            .with_node(shown(path))
            .with_store(store));
    }
    delete(store, path).await
}

fn article(kind: &str) -> String {
    if kind.starts_with('a') { format!("an {kind}") } else { format!("a {kind}") }
}

/// Puts the documents of a new node; the one that makes it a node comes last.
async fn make(store: &SharedStore, path: &str, stored: Stored) -> Result<()> {
    for (i, (name, document)) in stored.iter().enumerate().rev() {
        let when = if i == 0 { Condition::Absent } else { Condition::Always };
        let key = join(path, name);
        if store.put(&key, text(document), when).await? == Put::Refused {
            return Err(Error::conflict("somebody else made it at the same time")
                .with_key(key)
                .with_node(shown(path))
                .with_store(store));
        }
    }
    renew_copies(store, path, Some(stored)).await
}

/// Changes the document at `key`, until nobody came between. `change` gets `None` if there is none; what it answers
/// `None` for is left alone.
async fn change(
    store: &SharedStore,
    key: &str,
    change: impl Fn(Option<Json>) -> Result<Option<Json>>,
) -> Result<Option<Json>> {
    let placed = |e: Error| e.with_key(key).with_store(store);
    for _ in 0..ATTEMPTS {
        let (old, when) = match store.get_tagged(key).await? {
            Some((bytes, tag)) => {
                (Some(Json::parse(&bytes).map_err(placed)?.value), Condition::Unchanged(tag))
            }
            None => (None, Condition::Absent),
        };
        let Some(new) = change(old).map_err(placed)? else { return Ok(None) };
        if store.put(key, text(&new), when).await?.is_done() {
            return Ok(Some(new));
        }
    }
    Err(placed(Error::conflict("others changed this document again and again")))
}

/// Changes a node's attributes. Everything else in its document stays.
pub async fn edit_attributes(store: &SharedStore, path: &str, how: &edit::Attributes) -> Result<()> {
    let path = normal(path)?;
    let node = need(store, &path).await?;
    let format = node.meta.format();
    let name = if format == Format::V3 { "zarr.json" } else { ".zattrs" };
    let changed = change(store, &join(&path, name), |old| {
        edit::attributes(format, &old.unwrap_or_else(Json::object), how).map(Some)
    })
    .await?;
    renew_copies(store, &path, changed.map(|d| vec![(name, d)])).await
}

/// Gives an array another shape.
///
/// Growing writes one document. When an array shrinks, chunks that lie outside are deleted after that, and of those that
/// reach beyond the new border the rest is filled, so that nothing old comes back when it grows again. Only chunks
/// that are there are visited.
pub async fn resize(store: &SharedStore, path: &str, shape: &[u64]) -> Result<Array> {
    let path = normal(path)?;
    let reshaped = reshape(store, &path, |_| Ok(shape.to_vec())).await?;
    let Reshaped { old, new } = reshaped;
    if old.shape().iter().zip(shape).any(|(old, new)| new < old) {
        // Only here are chunks looked for by their keys; a write finds out for itself where they are.
        let keys = keys_found(store, &path, old.meta()).await?;
        let meta = ArrayMeta { keys, ..old.meta().clone() };
        let old = Array::new(store.clone(), &path, meta, Mode::Tolerant, Vec::new(), DEFAULT_MEMORY)?;
        trim(&old, shape).await?;
    }
    Ok(new)
}

/// Makes room for `count` more positions along dimension `axis`, and says where they begin. Two callers never get the
/// same. Write there with [`Array::write`]; until then they read as fill value.
pub async fn extend(store: &SharedStore, path: &str, axis: usize, count: u64) -> Result<(Array, u64)> {
    let path = normal(path)?;
    let Reshaped { old, new } = reshape(store, &path, |old| grown(old, axis, count)).await?;
    let start = old.shape().get(axis).copied().unwrap_or(0);
    Ok((new, start))
}

/// The array as it will be with `count` more positions along dimension `axis`, and where they begin; nothing is stored.
///
/// Write there, then [`resize`]: so what is appended is seen when it is whole. Only for one writer alone: two would get
/// the same positions. [`extend`] is for several.
pub async fn lengthened(store: &SharedStore, path: &str, axis: usize, count: u64) -> Result<(Array, u64)> {
    let path = normal(path)?;
    let node = need(store, &path).await?;
    let NodeMeta::Array(mut meta) = node.meta else {
        return Err(Error::usage("this is a group, which has no shape")
            .with_node(shown(&path))
            .with_store(store));
    };
    let start = meta.shape.get(axis).copied().unwrap_or(0);
    meta.shape = grown(&meta.shape, axis, count)?;
    Ok((Array::new(store.clone(), &path, meta, Mode::Tolerant, Vec::new(), DEFAULT_MEMORY)?, start))
}

/// A shape with `count` more positions along `axis`.
fn grown(shape: &[u64], axis: usize, count: u64) -> Result<Vec<u64>> {
    let mut shape = shape.to_vec();
    let rank = shape.len();
    match shape.get_mut(axis) {
        Some(n) => *n = n.checked_add(count).ok_or_else(|| Error::usage("the array would be too large"))?,
        None => return Err(Error::usage(format!("there is no dimension {axis}, only {rank}"))),
    }
    Ok(shape)
}

struct Reshaped {
    old: Array,
    new: Array,
}

async fn reshape(
    store: &SharedStore,
    path: &str,
    shape: impl Fn(&[u64]) -> Result<Vec<u64>>,
) -> Result<Reshaped> {
    let placed = |e: Error| e.with_node(shown(path)).with_store(store);
    let node = need(store, path).await?;
    let NodeMeta::Array(meta) = node.meta else {
        return Err(placed(Error::usage("this is a group, which has no shape")));
    };
    let format = meta.format;
    let name = if format == Format::V3 { "zarr.json" } else { ".zarray" };
    let array = |document: Json| -> Result<Array> {
        let mut f = Findings::new(Mode::Tolerant, shown(path));
        let document = Arc::new(document);
        let read = match format {
            Format::V2 => v2::array(document, Some(meta.attributes.clone()), &mut f)?,
            Format::V3 => match v3::shared(document, &mut f)? {
                NodeMeta::Array(a) => a,
                NodeMeta::Group(_) => return Err(Error::conflict("somebody else made this a group")),
            },
        };
        Array::new(store.clone(), path, read, Mode::Tolerant, Vec::new(), DEFAULT_MEMORY)
    };
    let before = std::sync::Mutex::new(None);
    let changed = change(store, &join(path, name), |old| {
        let old = array(old.ok_or_else(|| Error::conflict("somebody else deleted it"))?)?;
        let changed = edit::shape(format, &old.meta().document, &shape(old.shape())?)?;
        *before.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(old);
        Ok(Some(changed))
    })
    .await
    .map_err(placed)?;
    let old = before.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (Some(changed), Some(old)) = (changed, old) else {
        return Err(placed(Error::io("the shape was not changed")));
    };
    let new = array(changed.clone())?;
    renew_copies(store, path, Some(vec![(name, changed)])).await?;
    Ok(Reshaped { old, new })
}

/// The keys of an array's chunks as they are stored: V2 arrays may have another separator than they say.
pub(crate) async fn keys_found(store: &SharedStore, path: &str, meta: &ArrayMeta) -> Result<ChunkKeys> {
    let rank = meta.shape.len();
    if meta.format != Format::V2 || rank < 2 {
        return Ok(meta.keys);
    }
    let found = store.list(path).await?;
    let flat = |keys: ChunkKeys| found.objects.iter().any(|name| keys.index(name, rank).is_some());
    let nested = found.prefixes.iter().any(|name| name.parse::<u64>().is_ok());
    let other = meta.keys.other_separator();
    let (stated, differs) =
        if meta.keys.separator == '/' { (nested, flat(other)) } else { (flat(meta.keys), nested) };
    Ok(if differs && !stated { other } else { meta.keys })
}

/// At most this many chunks are asked for one by one; if more may be there, what is there is listed.
const ASKED_FOR: u64 = 4096;

/// Deletes the chunks of `array` that lie outside `shape`, and fills what lies outside of the others.
async fn trim(array: &Array, shape: &[u64]) -> Result<()> {
    let meta = array.meta();
    let counts = meta.grid.counts(&meta.shape);
    // Chunks before these, along each dimension, lie wholly inside.
    let whole: Vec<u64> = meta
        .grid
        .axes()
        .iter()
        .zip(shape)
        .zip(&counts)
        .map(|((axis, n), count)| axis.chunk_at(*n).map_or(*count, |(number, ..)| number).min(*count))
        .collect();
    let total = num::product(&counts);
    let kept = num::product(&whole);
    let affected = |index: &[u64]| index.iter().zip(&whole).zip(&counts).any(|((i, w), n)| i >= w && i < n);
    if let (Ok(total), Ok(kept)) = (total, kept)
        && total - kept <= ASKED_FOR
        && total <= ASKED_FOR * 64
    {
        let mut at = vec![0u64; counts.len()];
        for _ in 0..total {
            if affected(&at) {
                cut(array, &at, shape).await?;
            }
            crate::codec::shard::advance(&mut at, &counts);
        }
        return Ok(());
    }
    let store = array.store().clone();
    let mut keys = store.keys(array.path());
    while let Some(entry) = keys.try_next().await? {
        let below = entry.key.strip_prefix(array.path()).map(|k| k.trim_start_matches('/'));
        let index = below.and_then(|k| array.meta().keys.index(k, counts.len()));
        if let Some(index) = index.filter(|i| affected(i)) {
            cut(array, &index, shape).await?;
        }
    }
    Ok(())
}

/// Deletes a chunk, or fills what of it lies outside `shape`.
async fn cut(array: &Array, index: &[u64], shape: &[u64]) -> Result<()> {
    let meta = array.meta();
    let places: Vec<(u64, u64)> =
        meta.grid.axes().iter().zip(index).map(|(a, i)| a.place(*i).unwrap_or((0, 0))).collect();
    let key = meta.keys.key(array.path(), index);
    if places.iter().zip(shape).any(|((first, _), n)| first >= n) {
        return array.store().delete(&key).await;
    }
    if array.store().size(&key).await?.is_none() {
        return Ok(());
    }
    let ends: Vec<u64> = places.iter().zip(&meta.shape).map(|((a, n), s)| (a + n).min(*s)).collect();
    for d in 0..shape.len() {
        let mut start: Vec<u64> = places.iter().map(|(first, _)| *first).collect();
        if let (Some(s), Some(n)) = (start.get_mut(d), shape.get(d)) {
            *s = (*s).max(*n);
        }
        let count: Vec<u64> = ends.iter().zip(&start).map(|(e, s)| e.saturating_sub(*s)).collect();
        let elements = num::product_usize(&count)?;
        if elements > 0 {
            let array = array.clone();
            let slab = Slab::filled(&meta.data_type, &meta.fill, &count)?;
            let write = move || {
                let selection = Selection::start_count(&start, &count);
                array.write(&selection, Values::from(&slab), &WriteOptions::default())
            };
            crate::blocking::off(write).await?;
        }
    }
    Ok(())
}

/// Deletes the node at `path` and all below it; the root's path is `""`. What is there need not be readable.
pub async fn delete(store: &SharedStore, path: &str) -> Result<()> {
    let path = normal(path)?;
    // First what makes it a node, so that no half-deleted one is ever seen.
    for name in ["zarr.json", ".zmetadata"].iter().chain(&V2_DOCUMENTS) {
        store.delete(&join(&path, name)).await?;
    }
    store.delete_prefix(&path).await?;
    renew_copies(store, &path, None).await
}

/// Writes consolidated metadata into the group at `path`: the documents of all nodes below it.
pub async fn consolidate(store: &SharedStore, path: &str) -> Result<usize> {
    let path = normal(path)?;
    let zarr = open(store).await?;
    let nodes = zarr.walk(&path).await?;
    let placed = |e: Error| e.with_node(shown(&path)).with_store(store);
    if let Some(damaged) = zarr.take_damaged().into_iter().next() {
        return Err(damaged.within("a node cannot be read, so that it would be missing"));
    }
    let Some(Node { meta: NodeMeta::Group(root), .. }) = nodes.first() else {
        return Err(placed(Error::usage("this is an array; only a group carries the metadata of others")));
    };
    let format = root.format;
    if let Some(other) = nodes.iter().find(|n| n.meta.format() != format) {
        let message = format!("{} is of another version of Zarr", shown(&other.path));
        return Err(placed(Error::unsupported(message)));
    }
    let relative =
        |n: &Node| n.path.strip_prefix(&path).unwrap_or(&n.path).trim_start_matches('/').to_owned();
    let stored: Vec<(String, Stored)> = nodes.iter().map(|n| (relative(n), as_stored(&n.meta))).collect();
    match format {
        Format::V2 => {
            let text = text(&documents::v2(&stored));
            let _ = store.put(&join(&path, ".zmetadata"), text, Condition::Always).await?;
        }
        Format::V3 => {
            let nodes: Vec<(String, Json)> = stored
                .into_iter()
                .filter_map(|(path, documents)| Some((path, documents.into_iter().next()?.1)))
                .collect();
            change(store, &join(&path, "zarr.json"), |old| {
                let old = old.ok_or_else(|| Error::conflict("somebody else deleted it"))?;
                documents::v3(&old, &nodes).map(Some)
            })
            .await?;
        }
    }
    Ok(nodes.len())
}

/// Takes consolidated metadata away from the group at `path`, and says whether there were any. The nodes' own documents
/// stay.
pub async fn unconsolidate(store: &SharedStore, path: &str) -> Result<bool> {
    let path = normal(path)?;
    let node = need(store, &path).await?;
    if node.meta.format() == Format::V2 {
        let key = join(&path, ".zmetadata");
        let there = store.size(&key).await?.is_some();
        store.delete(&key).await?;
        return Ok(there);
    }
    let key = join(&path, "zarr.json");
    let changed = change(store, &key, |old| {
        Ok(old.filter(|d| d.get("consolidated_metadata").is_some()).map(|d| documents::without(&d)))
    })
    .await?;
    Ok(changed.is_some())
}

/// A node's documents as they were read, with all that zaro has no word for.
pub(crate) fn as_stored(meta: &NodeMeta) -> Stored {
    let (format, document, attributes, name) = match meta {
        NodeMeta::Array(a) => (a.format, &a.document, &a.attributes, ".zarray"),
        NodeMeta::Group(g) => (g.format, &g.document, &g.attributes, ".zgroup"),
    };
    match format {
        Format::V3 => vec![("zarr.json", (**document).clone())],
        Format::V2 => {
            let mut stored = vec![(name, (**document).clone())];
            if attributes.members().is_some_and(|m| !m.is_empty()) {
                stored.push((".zattrs", (**attributes).clone()));
            }
            stored
        }
    }
}

/// Renews the copies of a node's documents that groups above it carry; `None` if the node is gone.
async fn renew_copies(store: &SharedStore, path: &str, stored: Option<Stored>) -> Result<()> {
    // A V2 group carries its own documents, too.
    for group in ancestors(path).into_iter().chain([path]) {
        let relative = path.strip_prefix(group).unwrap_or(path).trim_start_matches('/');
        renew_v3(store, group, relative, stored.as_ref()).await?;
        renew_v2(store, group, relative, stored.as_ref()).await?;
    }
    Ok(())
}

async fn renew_v3(store: &SharedStore, group: &str, relative: &str, stored: Option<&Stored>) -> Result<()> {
    let key = join(group, "zarr.json");
    if relative.is_empty() || store.get(&key, None).await?.is_none() {
        return Ok(());
    }
    change(store, &key, |old| {
        let Some(mut old) = old else { return Ok(None) };
        let Some(mut carried) = old.get("consolidated_metadata").cloned() else { return Ok(None) };
        let Some(Json::Object(mut entries)) = carried.get("metadata").cloned() else { return Ok(None) };
        let below = format!("{relative}/");
        match stored.and_then(|s| s.iter().find(|(name, _)| *name == "zarr.json")) {
            None => entries.retain(|(p, _)| p != relative && !p.starts_with(&below)),
            Some((_, document)) => {
                let document = documents::without(document);
                match entries.iter_mut().find(|(p, _)| p == relative) {
                    Some(entry) => entry.1 = document,
                    None => entries.push((relative.to_owned(), document)),
                }
            }
        }
        carried.set("metadata", Json::Object(entries));
        old.set("consolidated_metadata", carried);
        Ok(Some(old))
    })
    .await
    .map(drop)
}

async fn renew_v2(store: &SharedStore, group: &str, relative: &str, stored: Option<&Stored>) -> Result<()> {
    let key = join(group, ".zmetadata");
    if store.get(&key, None).await?.is_none() {
        return Ok(());
    }
    change(store, &key, |old| {
        let Some(mut old) = old else { return Ok(None) };
        let Some(Json::Object(mut entries)) = old.get("metadata").cloned() else { return Ok(None) };
        match stored {
            None => {
                let below = format!("{relative}/");
                entries.retain(|(p, _)| !p.starts_with(&below));
            }
            Some(stored) => {
                for (name, document) in stored {
                    let place = join(relative, name);
                    match entries.iter_mut().find(|(p, _)| *p == place) {
                        Some(entry) => entry.1 = document.clone(),
                        None => entries.push((place, document.clone())),
                    }
                }
            }
        }
        old.set("metadata", Json::Object(entries));
        Ok(Some(old))
    })
    .await
    .map(drop)
}
