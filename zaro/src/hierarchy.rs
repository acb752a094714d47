//! Changing a hierarchy: creating, editing, resizing, consolidating and deleting nodes.
//!
//! These are functions over a store, not methods of an opened [`Zarr`], which is a view of the state when it was
//! opened. Every document is put atomically, on the condition that it is unchanged since it was read; otherwise the
//! change is applied again to the new document. Consolidated metadata in the groups above is updated too.

mod apart;
mod consolidate;
mod delete;
mod replace;
mod resize;
mod transaction;

use std::sync::Arc;

use futures::TryStreamExt as _;

use crate::array::Array;
use crate::boxed;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, OpenOptions, Zarr, unfinished};
pub use crate::journal::Existing;
use crate::journal::{self, Turn};
use crate::meta::create::NewArray;
use crate::meta::path::{ancestors, join, name_fault, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{ArrayMeta, Format, Json, Mode, NodeMeta, edit};
use crate::store::{Condition, Put, SharedStore, StoreExt as _};

pub use apart::{check_apart, check_files_apart};
pub use consolidate::{consolidate, unconsolidate};
pub(crate) use consolidate::{consolidate_above, renew};
#[cfg(feature = "image")]
pub(crate) use delete::delete_unfinished;
pub(crate) use delete::{check_unused, check_unused_below, in_the_way, is_new, prove_all};
pub use delete::{delete, is_half_deleted};
pub(crate) use replace::Room;
pub(crate) use resize::keys_found;
pub use resize::{Appended, Appending, append, extend, resize, resize_by, waits_for};
pub(crate) use transaction::{Chunks, PendingChange};

/// How often a change to a document is retried because somebody else changed it first.
const ATTEMPTS: usize = 100;

/// The possible documents of a node.
const V2_DOCUMENTS: [&str; 3] = [".zarray", ".zgroup", ".zattrs"];

fn text(document: &Json) -> bytes::Bytes {
    let mut text = document.stored();
    text.push('\n');
    text.into()
}

/// Opens a store using the nodes' own documents.
pub(crate) async fn open(store: &SharedStore) -> Result<Zarr> {
    let options = OpenOptions { use_consolidated: false, ..OpenOptions::default() };
    Zarr::from_store(store.clone(), options).await
}

/// The node at `path`, from its own documents; `None` if it does not exist.
#[boxed]
pub async fn find(store: &SharedStore, path: &str) -> Result<Option<Node>> {
    open(store).await?.direct_node(&normal(path)?).await
}

pub(crate) async fn need(store: &SharedStore, path: &str) -> Result<Node> {
    let zarr = open(store).await?;
    match zarr.direct_node(path).await? {
        Some(node) => Ok(node),
        None => Err(zarr.absent(path).await),
    }
}

/// Creates a group and its parents. An existing group stays as it is, unless `attributes` are given and it is to be
/// replaced.
#[boxed]
pub async fn create_group(
    store: &SharedStore,
    path: &str,
    format: Format,
    attributes: &Json,
    existing: Existing,
) -> Result<()> {
    let path = normal(path)?;
    refuse_unfinished(store, &path, existing).await?;
    let stored = write::group(&write::new_group(format, attributes));
    if existing == Existing::Replace && replace::by_documents(store, &path, format, &stored).await? {
        return Ok(());
    }
    make_room(store, &path, format, existing).await?;
    make_alone(store, &path, format, stored).await
}

/// Creates an array without chunks, and its parent groups.
#[boxed]
pub async fn create_array(
    store: &SharedStore,
    path: &str,
    new: &NewArray,
    existing: Existing,
) -> Result<Array> {
    create_from(store, path, new.meta()?, existing).await
}

/// Creates an array with this metadata, without chunks, and its parent groups.
#[boxed]
pub async fn create_from(
    store: &SharedStore,
    path: &str,
    meta: ArrayMeta,
    existing: Existing,
) -> Result<Array> {
    let path = normal(path)?;
    let stored = write::array(&meta)?;
    let document = stored.first().map_or_else(|| meta.document.clone(), |(_, d)| Arc::new(d.clone()));
    let meta = ArrayMeta { document, ..meta };
    // Incompatible codecs are detected before anything is written.
    let array = new_array(store, &path, meta.clone(), &Context::shared())?;
    // Before the groups above are created; or after the old node is deleted.
    if existing == Existing::Refuse && matches!(find(store, &path).await, Ok(None)) {
        delete::check_marker(store, &path).await?;
        delete::check_unused(store, &path, &meta).await?;
    }
    refuse_unfinished(store, &path, existing).await?;
    if existing == Existing::Replace && replace::by_documents(store, &path, meta.format, &stored).await? {
        return Ok(array.announced());
    }
    make_room(store, &path, meta.format, existing).await?;
    if existing == Existing::Replace {
        delete::check_unused(store, &path, &meta).await?;
    }
    make_alone(store, &path, meta.format, stored).await?;
    Ok(array.announced())
}

/// An array that does not exist yet. Its codecs are held to the letter of the specification: what zaro alone would
/// tolerate, others could not open.
pub(crate) fn new_array(
    store: &SharedStore,
    path: &str,
    meta: ArrayMeta,
    context: &Context,
) -> Result<Array> {
    Array::new(store.clone(), path, meta, Mode::Strict, Vec::new(), context).map_err(|e| match e.kind() {
        // Nothing is invalid yet; the request is impossible.
        ErrorKind::Invalid => Error::usage(e.message()).with_node(shown(path)).with_store(store),
        _ => e,
    })
}

/// Puts the documents of a node as they are; those of the `top` one of several come last, with its parent groups.
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

/// Opens the array at `path` from its own documents, with the memory of `context` for its caches.
#[boxed]
pub async fn open_array(store: &SharedStore, path: &str, context: &Context) -> Result<Array> {
    let mut options = OpenOptions { use_consolidated: false, ..OpenOptions::default() };
    options.store.context = context.clone();
    Zarr::from_store(store.clone(), options).await?.array(path).await
}

/// Fails if a node of this version cannot be created at `path`, whatever is there now: because of its name, or its
/// parents.
pub(crate) async fn check_place(store: &SharedStore, path: &str, format: Format) -> Result<()> {
    let placed = |e: Error, at: &str| e.with_node(shown(at)).with_store(store);
    // An impossible place, such as a name that is too long, fails before parent groups are created.
    store.sites(path).try_next().await?;
    if format == Format::V3 {
        for name in path.split('/').filter(|n| !n.is_empty()) {
            if let Some(fault) = name_fault(name) {
                return Err(placed(
                    Error::usage(format!("{name:?} is not a valid node name: {fault}")),
                    path,
                ));
            }
        }
    }
    for above in ancestors(path) {
        delete::check_marker(store, above).await?;
        journal::check_settled(store, above).await?;
        match find(store, above).await? {
            Some(node) if node.meta.format() != format => {
                let message = format!(
                    "this group is Zarr V{}, so its members cannot be V{}",
                    node.meta.format().number(),
                    format.number()
                );
                return Err(placed(Error::usage(message), above));
            }
            Some(Node { meta: NodeMeta::Array(_), .. }) => {
                return Err(placed(Error::usage("this is an array; it cannot have child nodes"), above));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Fails if there is an unfinished operation at `path`, unless it is to be replaced.
async fn refuse_unfinished(store: &SharedStore, path: &str, existing: Existing) -> Result<()> {
    match unfinished(store, path).await? {
        Some(what) if existing == Existing::Refuse => {
            let e = Error::usage(what).with_hint("overwrite", "replaces it");
            Err(e.with_node(shown(path)).with_store(store))
        }
        _ => Ok(()),
    }
}

/// Makes sure that a node can be created at `path`: nothing there, and groups above.
async fn make_room(store: &SharedStore, path: &str, format: Format, existing: Existing) -> Result<()> {
    check_place(store, path, format).await?;
    for above in ancestors(path) {
        if find(store, above).await?.is_none() {
            let group = write::new_group(format, &Json::object());
            match make(store, above, write::group(&group)).await {
                // Somebody else created it meanwhile.
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                made => made?,
            }
        } else {
            renew(store, above).await?;
        }
    }
    if existing == Existing::Refuse {
        delete::check_marker(store, path).await?;
    }
    match (find(store, path).await, existing) {
        (Ok(None), Existing::Refuse) => {}
        (Ok(None), Existing::Replace) => delete::clear_leftovers(store, path).await?,
        // An unreadable node can still be replaced.
        (_, Existing::Replace) => delete::replace(store, path).await?,
        (Ok(Some(node)), Existing::Refuse) => {
            // Its creator may have been killed before the groups above were updated.
            renew(store, path).await?;
            let message = format!("{} already exists here", article(node.meta.kind()));
            let e = Error::usage(message).with_hint("overwrite", "replaces it");
            return Err(e.with_node(shown(path)).with_store(store));
        }
        (Err(e), Existing::Refuse) => return Err(e),
    }
    Ok(())
}

fn article(kind: &str) -> String {
    if kind.starts_with('a') { format!("an {kind}") } else { format!("a {kind}") }
}

/// Puts the documents of a new node; the one that makes it a node comes last.
async fn make(store: &SharedStore, path: &str, stored: Stored) -> Result<()> {
    let format = if stored.iter().any(|(name, _)| *name == "zarr.json") { Format::V3 } else { Format::V2 };
    for (i, (name, document)) in stored.iter().enumerate().rev() {
        let when = if i == 0 { Condition::Absent } else { Condition::Always };
        let key = join(path, name);
        if store.put(&key, text(document), when).await? == Put::Refused {
            return Err(made_meanwhile(store, path, key));
        }
    }
    let seen = async {
        // An operation on the parents that started meanwhile has not seen this node, and may have converted them to
        // another version, or create something here, too.
        check_place(store, path, format).await?;
        journal::check_settled(store, path).await?;
        for above in ancestors(path) {
            if find(store, above).await?.is_none() {
                return Err(Error::conflict("its parent group was deleted meanwhile")
                    .with_node(shown(above))
                    .with_store(store));
            }
        }
        renew(store, path).await
    };
    if let Err(e) = seen.await {
        // On failure, everything is undone.
        for (name, _) in &stored {
            store.delete(&join(path, name)).await?;
        }
        // The original error is reported.
        let _ = renew(store, path).await;
        return Err(e);
    }
    Ok(())
}

/// As [`make`], with concurrent creators at the same path. V2 has several documents per node, and those of two creators
/// must not mix: only one of each kind is active, and none starts during an operation on the whole.
async fn make_alone(store: &SharedStore, path: &str, format: Format, stored: Stored) -> Result<()> {
    if format == Format::V3 {
        return make(store, path, stored).await;
    }
    let turn = Turn::take(store, path).await?;
    journal::check_settled(store, path).await?;
    for key in [".zarray", ".zgroup"].map(|name| join(path, name)) {
        if store.exists(&key).await? {
            return Err(made_meanwhile(store, path, key));
        }
    }
    make(store, path, stored).await?;
    turn.done().await;
    Ok(())
}

fn made_meanwhile(store: &SharedStore, path: &str, key: String) -> Error {
    let e = Error::conflict("it was created by somebody else meanwhile").with_key(key);
    e.with_node(shown(path)).with_store(store)
}

/// Changes the document at `key`, with retries on concurrent changes. `change` gets `None` if it does not exist; if it
/// returns `None`, nothing is changed.
async fn change(
    store: &SharedStore,
    key: &str,
    change: impl Fn(Option<Json>) -> Result<Option<Json>>,
) -> Result<Option<Json>> {
    let placed = |e: Error| e.with_key(key).with_store(store);
    for _ in 0..ATTEMPTS {
        let (old, when) = match store.get_for_update(key).await? {
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
    Err(placed(Error::conflict("this document kept being changed by other writers; rerun the command")))
}

/// Changes a node's attributes. Everything else in its document stays.
#[boxed]
pub async fn edit_attributes(store: &SharedStore, path: &str, how: &edit::AttributesEdit) -> Result<()> {
    let path = normal(path)?;
    change_document(store, &path, |format, old| edit::attributes(format, old, how)).await
}

/// Sets a node's attributes to the result of `new` for the current ones; it is called again after a concurrent change,
/// so that no change is lost.
#[cfg(feature = "image")]
pub(crate) async fn change_attributes(
    store: &SharedStore,
    path: &str,
    new: impl Fn(&Json) -> Result<Json>,
) -> Result<()> {
    let path = normal(path)?;
    let none = Json::object();
    change_document(store, &path, |format, document| {
        let old = match format {
            Format::V2 => document,
            Format::V3 => document.get("attributes").unwrap_or(&none),
        };
        let Json::Object(members) = new(old)? else {
            return Err(Error::invalid("the attributes are not an object"));
        };
        edit::attributes(format, document, &edit::AttributesEdit::Replace(members))
    })
    .await
}

/// Sets the dimension names of an array, where those are in the document with its attributes.
#[cfg(feature = "image")]
pub(crate) async fn name_dimensions(store: &SharedStore, path: &str, names: &[String]) -> Result<()> {
    let names: Json = names.iter().collect();
    change_document(store, &normal(path)?, |format, document| {
        let mut document = document.clone();
        document
            .set(if format == Format::V3 { "dimension_names" } else { "_ARRAY_DIMENSIONS" }, names.clone());
        Ok(document)
    })
    .await
}

/// Changes the document with a node's attributes, and its consolidated copies.
async fn change_document(
    store: &SharedStore,
    path: &str,
    new: impl Fn(Format, &Json) -> Result<Json>,
) -> Result<()> {
    check_settled(store, path).await?;
    let format = need(store, path).await?.meta.format();
    let name = if format == Format::V3 { "zarr.json" } else { ".zattrs" };
    let converted = || {
        Error::conflict("it was converted or deleted while its attributes were changed; rerun the command")
            .with_node(shown(path))
            .with_store(store)
    };
    change(store, &join(path, name), |old| match (old, format) {
        (None, Format::V3) => Err(converted()),
        (old, _) => new(format, &old.unwrap_or_else(Json::object)).map(Some),
    })
    .await?;
    renew(store, path).await?;
    check_settled(store, path)
        .await
        .map_err(|e| e.within("started while attributes were changed, which may be lost"))?;
    if need(store, path).await?.meta.format() == format {
        return Ok(());
    }
    if format == Format::V2 {
        // It is not used in the other version.
        store.delete(&join(path, name)).await?;
    }
    Err(converted())
}

/// Fails if there is a running or unfinished operation of another process on `path` or its parents: a change would be
/// lost, or interfere. Operations of this process do not count.
#[boxed]
pub async fn check_settled(store: &SharedStore, path: &str) -> Result<()> {
    journal::check_settled_above(store, &normal(path)?).await
}
