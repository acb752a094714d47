//! Deleting nodes: what may be deleted, in which order, and what must not be where a new node is created.
//!
//! Only what certainly belongs to a Zarr is deleted: metadata documents, chunks with keys of their arrays, and files of
//! zaro itself. If there is anything else, nothing is deleted at all.
//!
//! A local store removes a folder with one rename. Elsewhere the marker [`DELETING`] is put first and deleted last: so
//! the remains of a killed deletion are recognised, and rerunning the command finishes it.

use bytes::Bytes;
use futures::TryStreamExt;

use super::consolidate::forget;
use super::{Existing, V2_DOCUMENTS, article, consolidate_above, find, renew};
use crate::boxed;
use crate::error::{Error, Hint, Result};
use crate::journal;
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::{ArrayMeta, Findings, Format, Json, Mode, NodeMeta, v2, v3};
use crate::store::{
    Condition, DELETING, JOURNAL, Listing, OLD_JOURNALS, REPLACEMENT, SharedStore, StoreExt as _, TURN,
    WRITING,
};

/// A disk with less free space than this is full.
const FULL: u64 = 1 << 20;

/// How many names an error lists.
const NAMED: usize = 5;

/// How many keys below a folder are searched for that of a chunk.
const LOOKED_AT: usize = 1000;

/// Name prefix of the probe objects by which [`apart`](super::apart) detects whether two stores are the same.
pub(super) const PROBE: &str = "zaro-probe-";

/// Deletes the node at `path` and everything below it; the root's path is `""`. It need not be readable, but all of it
/// must belong to a Zarr.
///
/// # Errors
/// `Usage`, before anything is changed, if there are other files.
#[boxed]
pub async fn delete(store: &SharedStore, path: &str) -> Result<()> {
    // Operations on the groups above have to end first. A half-deleted group does not matter.
    for above in ancestors(&normal(path)?) {
        if !is_half_deleted(store, above).await? {
            journal::check_settled(store, above).await?;
        }
    }
    delete_proved(store, path, false).await
}

/// As [`delete`], for an array whose document may be gone: keys that look like those of chunks count as its own.
#[cfg(feature = "image")]
pub(crate) async fn delete_unfinished(store: &SharedStore, path: &str) -> Result<()> {
    delete_proved(store, path, true).await
}

async fn delete_proved(store: &SharedStore, path: &str, unfinished: bool) -> Result<()> {
    let path = normal(path)?;
    let proved = prove_from(store, &path, unfinished).await?;
    if proved.empty {
        return renew(store, &path).await;
    }
    // On a full disk nothing can be put, and deleting is what helps.
    let is_full = || store.free_space().is_some_and(|free| free < FULL);
    // Consolidated metadata must not name what no longer exists.
    match forget(store, &path).await {
        Err(_) if is_full() => {}
        renewed => renewed?,
    }
    match delete_all(store, &path, is_full).await {
        Ok(()) => renew(store, &path).await,
        Err(e) => {
            // Restores the metadata of what could not be deleted. The original error is reported.
            let _ = consolidate_above(store, &path).await;
            Err(e)
        }
    }
}

/// Deletes everything at `path`, the documents that make it a node first.
async fn delete_all(store: &SharedStore, path: &str, is_full: impl Fn() -> bool) -> Result<()> {
    let at_once = store.direct().is_some() && !path.is_empty();
    if !at_once {
        match store.put(&join(path, DELETING), "{}\n".into(), Condition::Always).await {
            // Then documents are deleted first, so that a kill leaves no node.
            Err(_) if is_full() => {}
            put => drop(put?),
        }
        // So that a half-deleted node is never visible.
        for name in ["zarr.json", ".zmetadata"].iter().chain(&V2_DOCUMENTS) {
            store.delete(&join(path, name)).await?;
        }
    }
    store.delete_prefix(path).await
}

/// Deletes what is to be replaced, if it is a node, however damaged, or the remains of one.
pub(super) async fn replace(store: &SharedStore, path: &str) -> Result<()> {
    replaceable(store, path).await?;
    delete(store, path).await
}

/// Whether there is anything at `path`. Fails if that is neither a node nor the remains of one, and must not be
/// deleted.
async fn replaceable(store: &SharedStore, path: &str) -> Result<bool> {
    let there = store.list(path).await?;
    let known = |name: &String| name == "zarr.json" || V2_DOCUMENTS.contains(&name.as_str());
    let empty = there.objects.is_empty() && there.prefixes.is_empty();
    if !empty && !there.objects.iter().any(known) && !has_leftovers(&there) {
        let names = there.objects.iter().chain(&there.prefixes).take(NAMED).cloned().collect::<Vec<_>>();
        return Err(Error::usage(format!(
            "this is not a Zarr, so it is not deleted: it contains {}",
            names.join(", ")
        ))
        .with_node(shown(path))
        .with_store(store));
    }
    prove(store, path).await?;
    Ok(!empty)
}

/// What has to be [cleared](clear) before something is created at `path`, as recorded in a journal. Fails if that is
/// not allowed.
pub(crate) async fn in_the_way(store: &SharedStore, path: &str, existing: Existing) -> Result<Option<Json>> {
    let placed = |e: Error| e.with_node(shown(path)).with_store(store);
    match existing {
        Existing::Refuse => match find(store, path).await? {
            Some(node) => {
                let e = Error::usage(format!("{} already exists here", article(node.meta.kind())));
                Err(placed(e.with_hint("overwrite", "replaces it")))
            }
            None => Ok(None),
        },
        Existing::Replace => Ok(replaceable(store, path).await?.then_some(Json::Bool(true))),
    }
}

/// Deletes everything at `path` but the journal, which owns the place. All of it must belong to a Zarr.
pub(crate) async fn clear(store: &SharedStore, path: &str) -> Result<()> {
    clear_except(store, path, &[]).await
}

/// The same, except for the folders `kept`.
pub(super) async fn clear_except(store: &SharedStore, path: &str, kept: &[&str]) -> Result<()> {
    let path = normal(path)?;
    prove(store, &path).await?;
    // The documents that make it a node come first, so that a half-deleted node is never visible.
    for name in ["zarr.json", ".zmetadata"].iter().chain(&V2_DOCUMENTS) {
        store.delete(&join(&path, name)).await?;
    }
    // Before its chunks are deleted, it must not be visible in consolidated metadata either.
    renew(store, &path).await?;
    let there = store.list(&path).await?;
    let objects = there.objects.iter().filter(|name| *name != JOURNAL).map(|name| join(&path, name));
    futures::stream::iter(objects.collect::<Vec<_>>().into_iter().map(Ok::<_, Error>))
        .try_for_each_concurrent(32, |key| async move { store.delete(&key).await })
        .await?;
    for name in there.prefixes.iter().filter(|name| !kept.contains(&name.as_str())) {
        store.delete_prefix(&join(&path, name)).await?;
    }
    Ok(())
}

/// Deletes the remains of an unfinished copy or deletion where there is no node.
pub(super) async fn clear_leftovers(store: &SharedStore, path: &str) -> Result<()> {
    let there = store.list(path).await?;
    if has_leftovers(&there) { delete(store, path).await } else { Ok(()) }
}

/// Whether zaro left something in a place: a marker, or a partial replacement.
fn has_leftovers(there: &Listing) -> bool {
    there.objects.iter().any(|n| is_journal(n)) || there.prefixes.iter().any(|n| n == REPLACEMENT)
}

/// Whether the node at `path` has an unfinished deletion.
#[boxed]
pub async fn is_half_deleted(store: &SharedStore, path: &str) -> Result<bool> {
    store.exists(&join(&normal(path)?, DELETING)).await
}

/// Fails if it has: finishing the deletion would delete what is created there now.
pub(super) async fn check_marker(store: &SharedStore, path: &str) -> Result<()> {
    if !is_half_deleted(store, path).await? {
        return Ok(());
    }
    Err(Error::usage("an unfinished deletion is here")
        .or_hint(Hint::option("overwrite", "finishes it"))
        .or_hint(Hint::operation("delete", "does"))
        .with_node(shown(path))
        .with_store(store))
}

/// The content of a place that wholly belongs to a Zarr.
#[derive(Debug)]
pub(super) struct Proved {
    /// Whether there is nothing.
    pub(super) empty: bool,
    /// The nodes by path, each with the document that makes it a node.
    pub(super) nodes: Vec<(String, Bytes)>,
}

/// Fails unless everything below `path` belongs to a Zarr, or was left by zaro.
pub(crate) async fn prove_all(store: &SharedStore, path: &str) -> Result<()> {
    prove(store, path).await.map(drop)
}

pub(super) async fn prove(store: &SharedStore, path: &str) -> Result<Proved> {
    prove_from(store, path, false).await
}

async fn prove_from(store: &SharedStore, path: &str, unfinished: bool) -> Result<Proved> {
    let mut proved = Proved { empty: true, nodes: Vec::new() };
    let mut foreign: Vec<String> = Vec::new();
    let mut open = vec![(path.to_owned(), unfinished)];
    while let Some((at, unfinished)) = open.pop() {
        let listing = store.list(&at).await?;
        proved.empty &= listing.objects.is_empty() && listing.prefixes.is_empty();
        check_idle(store, &at, &listing).await?;
        let place = NodeFolder::read(store, &at, &listing, unfinished).await?;
        foreign.extend(listing.objects.iter().filter(|n| !place.owns(n)).map(|n| join(&at, n)));
        for name in &listing.prefixes {
            let below = join(&at, name);
            if place.arrays.is_empty() || !is_chunk_like(name) {
                open.push((below, place.unfinished));
                continue;
            }
            foreign_below(store, &at, &below, &place, &mut foreign).await?;
        }
        proved.nodes.extend(place.document.map(|d| (at, d)));
        if foreign.len() > NAMED {
            break;
        }
    }
    if foreign.is_empty() {
        return Ok(proved);
    }
    let more = if foreign.len() > NAMED { " and more" } else { "" };
    foreign.truncate(NAMED);
    Err(Error::usage(format!(
        "nothing is deleted, because this contains files that are not part of a Zarr: {}{more}; \
         move them away, or name another place",
        foreign.join(", ")
    ))
    .with_node(shown(path))
    .with_store(store))
}

/// Fails if another process is working in a folder, according to its listing.
async fn check_idle(store: &SharedStore, at: &str, listing: &Listing) -> Result<()> {
    let there = |name: &str| listing.objects.iter().any(|n| n == name);
    if there(JOURNAL) {
        journal::check_alive(store, at).await?;
    }
    journal::check_idle(store, at, there(TURN), listing.prefixes.iter().any(|n| n == WRITING)).await
}

/// Adds what does not belong to the array at `at` in its folder `below`. For files the names are enough: a broken
/// symlink is deleted all the same.
async fn foreign_below(
    store: &SharedStore,
    at: &str,
    below: &str,
    place: &NodeFolder,
    foreign: &mut Vec<String>,
) -> Result<()> {
    let owns = |key: &str| place.owns(key.strip_prefix(at).unwrap_or(key).trim_start_matches('/'));
    if store.direct().is_none() {
        let mut keys = store.keys(below).try_filter(|entry| std::future::ready(!owns(&entry.key)));
        while let Some(entry) = keys.try_next().await?.filter(|_| foreign.len() <= NAMED) {
            foreign.push(entry.key);
        }
        return Ok(());
    }
    let mut open = vec![below.to_owned()];
    while let Some(folder) = open.pop() {
        let listing = store.list(&folder).await?;
        let keys = listing.objects.iter().map(|name| join(&folder, name));
        foreign.extend(keys.filter(|key| !owns(key)).take(NAMED));
        open.extend(listing.prefixes.iter().map(|name| join(&folder, name)));
    }
    Ok(())
}

/// A folder, and what in it belongs to a Zarr.
struct NodeFolder {
    folder: String,
    /// Metadata documents.
    documents: Vec<&'static str>,
    /// The arrays here: one, or one of each version.
    arrays: Vec<ArrayMeta>,
    /// There may be chunks of an unreadable array, or of an unfinished copy.
    unfinished: bool,
    /// The document that makes it a node.
    document: Option<Bytes>,
}

impl NodeFolder {
    async fn read(store: &SharedStore, at: &str, listing: &Listing, unfinished: bool) -> Result<Self> {
        let mut place = Self {
            folder: at.rsplit('/').next().unwrap_or(at).to_owned(),
            documents: Vec::new(),
            arrays: Vec::new(),
            unfinished: unfinished || has_leftovers(listing),
            document: None,
        };
        let names = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];
        for name in names.iter().filter(|n| listing.objects.iter().any(|o| o == **n)) {
            if let Some(text) = store.get(&join(at, name), None).await? {
                place.judge(name, text);
            }
        }
        Ok(place)
    }

    /// Checks whether the text of a document is metadata.
    fn judge(&mut self, name: &'static str, text: Bytes) {
        let parsed = Json::parse(&text).ok().map(|p| p.value);
        let is_node = matches!(name, "zarr.json" | ".zarray" | ".zgroup");
        let ours = match &parsed {
            Some(document) if is_node => document.get("zarr_format").is_some(),
            Some(document) => document.members().is_some(),
            // Perhaps truncated; but it must have been JSON.
            None => text.first().is_none_or(|b| *b == b'{'),
        };
        if !ours {
            return;
        }
        self.documents.push(name);
        let mut findings = Findings::new(Mode::Tolerant, "/");
        let meta = match (name, parsed) {
            ("zarr.json", Some(document)) => v3::shared(document.into(), &mut findings).ok(),
            (".zarray", Some(document)) => {
                v2::array(document.into(), None, &mut findings).ok().map(NodeMeta::Array)
            }
            _ => None,
        };
        match meta {
            Some(NodeMeta::Array(meta)) => self.arrays.push(meta),
            Some(NodeMeta::Group(_)) => {}
            None => self.unfinished |= matches!(name, "zarr.json" | ".zarray"),
        }
        if is_node && self.document.is_none() {
            self.document = Some(text);
        }
    }

    /// Whether the object `key` here belongs to a Zarr.
    fn owns(&self, key: &str) -> bool {
        self.documents.contains(&key)
            || is_journal(key)
            || key.starts_with(PROBE)
            // A hierarchy of several images has this file.
            || (self.folder == "OME" && key == "METADATA.ome.xml")
            || self.arrays.iter().any(|a| is_chunk(a, key))
            || (self.unfinished && key.split('/').all(is_chunk_like))
    }
}

/// Whether there is an unfinished operation.
fn is_begun(there: &Listing) -> bool {
    there.objects.iter().any(|n| n == JOURNAL || OLD_JOURNALS.iter().any(|(old, _)| n == old))
}

/// The names of zaro's own files.
fn is_journal(name: &str) -> bool {
    name.starts_with(".zaro-")
}

/// Whether the listing shows nothing but the content of a new array, image or collection of images.
pub(crate) fn is_new(there: &Listing) -> bool {
    let documents = ["zarr.json", ".zmetadata"];
    let known = |name: &str| documents.contains(&name) || V2_DOCUMENTS.contains(&name) || is_journal(name);
    there.objects.iter().all(|name| known(name) || is_chunk_like(name))
        && there.prefixes.iter().all(|name| name == "OME" || is_chunk_like(name) || is_journal(name))
}

/// Whether a key below an array is that of a chunk, inside its shape or not. V2 arrays may use another separator than
/// their metadata says.
fn is_chunk(meta: &ArrayMeta, key: &str) -> bool {
    let rank = meta.shape.len();
    let other = || meta.format == Format::V2 && meta.keys.other_separator().index(key, rank).is_some();
    meta.keys.index(key, rank).is_some() || other()
}

/// Whether a name can be a part of a chunk key.
fn is_chunk_like(name: &str) -> bool {
    let numbers = name.strip_prefix("c.").unwrap_or(name);
    name == "c" || numbers.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Fails if the array `meta` would find existing chunks at `path`.
pub(crate) async fn check_unused(store: &SharedStore, path: &str, meta: &ArrayMeta) -> Result<()> {
    let placed = |e: Error| e.with_node(shown(path)).with_store(store);
    let there = store.list(path).await?;
    let mut found: Vec<String> =
        there.objects.iter().filter(|n| is_chunk(meta, n)).take(NAMED).cloned().collect();
    for folder in there.prefixes.iter().filter(|n| is_chunk_like(n)) {
        let below = join(path, folder);
        let mut keys = store.keys(&below);
        for _ in 0..LOOKED_AT {
            let Some(entry) = keys.try_next().await? else { break };
            let key = entry.key.strip_prefix(path).unwrap_or(&entry.key).trim_start_matches('/');
            if is_chunk(meta, key) {
                found.push(key.to_owned());
                break;
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.truncate(NAMED);
    let found = found.join(", ");
    Err(placed(match is_begun(&there) {
        true => Error::usage(format!("an unfinished copy is here: rerun its command ({found})"))
            .with_hint("overwrite", "starts over"),
        false => Error::usage(format!(
            "there are chunks of another array here, which would become part of the new one; delete them first ({found})"
        )),
    }))
}

/// The same for a copy of several arrays below `path`, unless existing data is to be replaced or resumed.
pub(crate) async fn check_unused_below<'a>(
    store: &SharedStore,
    path: &str,
    arrays: impl Iterator<Item = (&'a str, &'a ArrayMeta)>,
    existing: Existing,
) -> Result<()> {
    if existing == Existing::Refuse {
        check_marker(store, path).await?;
    }
    let there = store.list(path).await?;
    let begun = is_begun(&there);
    if existing == Existing::Replace || begun || there == Listing::default() {
        return Ok(());
    }
    // An existing node is refused elsewhere.
    if super::find(store, path).await?.is_some() {
        return Ok(());
    }
    for (at, meta) in arrays {
        check_unused(store, at, meta).await?;
    }
    Ok(())
}
