//! What may be deleted, in which order, and what must not lie where something new is made.
//!
//! Only what is proved to belong to a Zarr is deleted: documents that are metadata, chunks by the keys of their arrays,
//! and what zaro itself leaves. Anything else in the place, and nothing is deleted at all.
//!
//! A store at hand takes a folder away with one rename. Of any other place [`DELETING`] says first that it is being
//! deleted, and goes last: so whatever a killed process left is recognised, and the same command finishes it.

use bytes::Bytes;
use futures::TryStreamExt;

use super::consolidate::forget;
use super::{Existing, V2_DOCUMENTS, article, consolidate_above, find, renew};
use crate::error::{Error, Hint, Result};
use crate::journal;
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::{ArrayMeta, Findings, Format, Json, Mode, NodeMeta, v2, v3};
use crate::store::{
    Condition, DELETING, JOURNAL, Listing, OLD_JOURNALS, REPLACEMENT, SharedStore, StoreExt as _, TURN,
    WRITING,
};

/// With fewer bytes free than this a disk is full.
const FULL: u64 = 1 << 20;

/// How many names a refusal says.
const NAMED: usize = 5;

/// How many keys below a folder are looked at for one of a chunk.
const LOOKED_AT: usize = 1000;

/// How the objects are called by which [`apart`](super::apart) finds out whether two stores are one.
pub(super) const PROBE: &str = "zaro-probe-";

/// Deletes the node at `path` and all below it; the root's path is `""`. What is there need not be readable, but all of
/// it must be of a Zarr.
///
/// # Errors
/// `Usage`, before anything is changed, if other files lie there.
pub async fn delete(store: &SharedStore, path: &str) -> Result<()> {
    // Whoever works on all that this lies in has to come to an end first. A half-deleted group does not matter.
    for above in ancestors(&normal(path)?) {
        if !is_half_deleted(store, above).await? {
            journal::check_settled(store, above).await?;
        }
    }
    delete_proved(store, path, false).await
}

/// As [`delete`], of an array whose document may be gone already: keys that are like those of chunks are taken for its own.
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
    // On a full disk nothing can be put, and a deletion is what helps.
    let is_full = || store.free_space().is_some_and(|free| free < FULL);
    // Nobody is to be led to what is not there any more.
    match forget(store, &path).await {
        Err(_) if is_full() => {}
        renewed => renewed?,
    }
    match delete_all(store, &path, is_full).await {
        Ok(()) => renew(store, &path).await,
        Err(e) => {
            // What could not be deleted is known again, with all below it. The fault itself is what has to be told.
            let _ = consolidate_above(store, &path).await;
            Err(e)
        }
    }
}

/// Deletes everything at `path`, what makes it a node first.
async fn delete_all(store: &SharedStore, path: &str, is_full: impl Fn() -> bool) -> Result<()> {
    let at_once = store.direct().is_some() && !path.is_empty();
    if !at_once {
        match store.put(&join(path, DELETING), "{}\n".into(), Condition::Always).await {
            // Documents go first then, so that what a kill leaves is no node.
            Err(_) if is_full() => {}
            put => drop(put?),
        }
        // So that no half-deleted one is ever seen.
        for name in ["zarr.json", ".zmetadata"].iter().chain(&V2_DOCUMENTS) {
            store.delete(&join(path, name)).await?;
        }
    }
    store.delete_prefix(path).await
}

/// Deletes what is to be replaced, if it is a node, however damaged, or what is left of one.
pub(super) async fn replace(store: &SharedStore, path: &str) -> Result<()> {
    replaceable(store, path).await?;
    delete(store, path).await
}

/// Whether anything is at `path`. Fails if that is no node, nor what is left of one, so that it must not be deleted.
async fn replaceable(store: &SharedStore, path: &str) -> Result<bool> {
    let there = store.list(path).await?;
    let known = |name: &String| name == "zarr.json" || V2_DOCUMENTS.contains(&name.as_str());
    let empty = there.objects.is_empty() && there.prefixes.is_empty();
    if !empty && !there.objects.iter().any(known) && !has_leftovers(&there) {
        let names = there.objects.iter().chain(&there.prefixes).take(NAMED).cloned().collect::<Vec<_>>();
        return Err(Error::usage(format!(
            "this is not a Zarr, so it is not deleted: it holds {}",
            names.join(", ")
        ))
        .with_node(shown(path))
        .with_store(store));
    }
    prove(store, path).await?;
    Ok(!empty)
}

/// What has to be [cleared](clear) away before something is made at `path`, as a journal notes it. Fails if it may not be.
pub(crate) async fn in_the_way(store: &SharedStore, path: &str, existing: Existing) -> Result<Option<Json>> {
    let placed = |e: Error| e.with_node(shown(path)).with_store(store);
    match existing {
        Existing::Refuse => match find(store, path).await? {
            Some(node) => {
                let e = Error::usage(format!("there is {} here already", article(node.meta.kind())));
                Err(placed(e.with_hint("overwrite", "replaces it")))
            }
            None => Ok(None),
        },
        Existing::Replace => Ok(replaceable(store, path).await?.then_some(Json::Bool(true))),
    }
}

/// Deletes all that is at `path` but the journal, by which the place is somebody's. All of it must be of a Zarr.
pub(crate) async fn clear(store: &SharedStore, path: &str) -> Result<()> {
    clear_except(store, path, &[]).await
}

/// The same, without the folders called `kept`.
pub(super) async fn clear_except(store: &SharedStore, path: &str, kept: &[&str]) -> Result<()> {
    let path = normal(path)?;
    prove(store, &path).await?;
    // What makes it a node comes first, so that no half-deleted one is ever seen.
    for name in ["zarr.json", ".zmetadata"].iter().chain(&V2_DOCUMENTS) {
        store.delete(&join(&path, name)).await?;
    }
    // Before its chunks go, nobody is to know it by a copy either.
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

/// Deletes what an unfinished copy or deletion left where no node is.
pub(super) async fn clear_leftovers(store: &SharedStore, path: &str) -> Result<()> {
    let there = store.list(path).await?;
    if has_leftovers(&there) { delete(store, path).await } else { Ok(()) }
}

/// Whether zaro left something in a place: what it notes there, or what it made aside, also without a note.
fn has_leftovers(there: &Listing) -> bool {
    there.objects.iter().any(|n| is_journal(n)) || there.prefixes.iter().any(|n| n == REPLACEMENT)
}

/// Whether a deletion of the node at `path` was begun and not finished.
pub async fn is_half_deleted(store: &SharedStore, path: &str) -> Result<bool> {
    store.exists(&join(&normal(path)?, DELETING)).await
}

/// Fails if it was: whoever finishes it would delete what is made there now.
pub(super) async fn check_marker(store: &SharedStore, path: &str) -> Result<()> {
    if !is_half_deleted(store, path).await? {
        return Ok(());
    }
    Err(Error::usage("a deletion of what was here has not come to its end")
        .or_hint(Hint::option("overwrite", "finishes it"))
        .or_hint(Hint::operation("delete", "does"))
        .with_node(shown(path))
        .with_store(store))
}

/// What was found in a place of which all is of a Zarr.
#[derive(Debug)]
pub(super) struct Proved {
    /// Whether nothing is there.
    pub(super) empty: bool,
    /// The nodes, by path, with the document that makes each one.
    pub(super) nodes: Vec<(String, Bytes)>,
}

/// Fails unless everything below `path` is of a Zarr, or left by zaro.
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
        "nothing is deleted, because some of what is here is not part of a Zarr: {}{more}; \
         move that away, or name another place",
        foreign.join(", ")
    ))
    .with_node(shown(path))
    .with_store(store))
}

/// Fails if another process is at work in a folder, by what is listed there.
async fn check_idle(store: &SharedStore, at: &str, listing: &Listing) -> Result<()> {
    let there = |name: &str| listing.objects.iter().any(|n| n == name);
    if there(JOURNAL) {
        journal::check_alive(store, at).await?;
    }
    journal::check_idle(store, at, there(TURN), listing.prefixes.iter().any(|n| n == WRITING)).await
}

/// Adds what below the folder `below` of the array at `at` is not of it. Of files the names are enough: a link may lead
/// nowhere and is deleted all the same.
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

/// A folder, and what in it is of a Zarr.
struct NodeFolder {
    folder: String,
    /// Documents that are metadata.
    documents: Vec<&'static str>,
    /// The arrays that lie here: one, or one of each version.
    arrays: Vec<ArrayMeta>,
    /// Chunks of an array that cannot be read may lie here, or those of an unfinished copy.
    unfinished: bool,
    /// What makes it a node.
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

    /// Looks whether the text of a document is metadata.
    fn judge(&mut self, name: &'static str, text: Bytes) {
        let parsed = Json::parse(&text).ok().map(|p| p.value);
        let is_node = matches!(name, "zarr.json" | ".zarray" | ".zgroup");
        let ours = match &parsed {
            Some(document) if is_node => document.get("zarr_format").is_some(),
            Some(document) => document.members().is_some(),
            // Cut off, perhaps; but JSON is what it must have been.
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

    /// Whether the object called `key` here is of a Zarr.
    fn owns(&self, key: &str) -> bool {
        self.documents.contains(&key)
            || is_journal(key)
            || key.starts_with(PROBE)
            // The layout of several images in one hierarchy has this file.
            || (self.folder == "OME" && key == "METADATA.ome.xml")
            || self.arrays.iter().any(|a| is_chunk(a, key))
            || (self.unfinished && key.split('/').all(is_chunk_like))
    }
}

/// Whether something unfinished is here.
fn is_begun(there: &Listing) -> bool {
    there.objects.iter().any(|n| n == JOURNAL || OLD_JOURNALS.iter().any(|(old, _)| n == old))
}

/// What zaro leaves in a place while it works on it.
fn is_journal(name: &str) -> bool {
    name.starts_with(".zaro-")
}

/// Whether nothing is listed but what a new array, image or collection of images has in its folder.
pub(crate) fn is_new(there: &Listing) -> bool {
    let documents = ["zarr.json", ".zmetadata"];
    let known = |name: &str| documents.contains(&name) || V2_DOCUMENTS.contains(&name) || is_journal(name);
    there.objects.iter().all(|name| known(name) || is_chunk_like(name))
        && there.prefixes.iter().all(|name| name == "OME" || is_chunk_like(name) || is_journal(name))
}

/// Whether a key below an array is one of a chunk, inside its shape or not. V2 arrays may have another separator than
/// they say.
fn is_chunk(meta: &ArrayMeta, key: &str) -> bool {
    let rank = meta.shape.len();
    let other = || meta.format == Format::V2 && meta.keys.other_separator().index(key, rank).is_some();
    meta.keys.index(key, rank).is_some() || other()
}

/// Whether a name is one of those that keys of chunks are made of.
fn is_chunk_like(name: &str) -> bool {
    let numbers = name.strip_prefix("c.").unwrap_or(name);
    name == "c" || numbers.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Fails if the array `meta` would find chunks at `path` that nobody wrote to it.
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
            .with_hint("overwrite", "begins anew"),
        false => Error::usage(format!(
            "chunks of another array are here, which would be read as those of the new one; delete them first ({found})"
        )),
    }))
}

/// The same for a copy of several arrays below `path`, unless what is there is to be replaced or taken up.
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
    // A node is refused by who looks for one.
    if super::find(store, path).await?.is_some() {
        return Ok(());
    }
    for (at, meta) in arrays {
        check_unused(store, at, meta).await?;
    }
    Ok(())
}
