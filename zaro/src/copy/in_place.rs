//! From one version to the other where it is: only documents change, chunks stay. At most, chunks that are missing are
//! written, where they would read as something else (`missing.rs`).
//!
//! At every moment one version of the hierarchy is whole: the new documents are put beside the old ones, that of the
//! root last, and only then are the old ones deleted, that of the root first. A journal is put before anything else, so
//! that a conversion that was killed is finished by beginning it again.

use std::collections::HashSet;

use super::{is_image, kept, missing};
use crate::array::Array;
use crate::blocking::wait;
use crate::error::{Error, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::hierarchy;
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{ArrayMeta, Format, Json, Mode, NodeMeta, consolidate, convert};
use crate::store::{Condition, SharedStore};

const NAME: &str = ".zaro-convert.json";

/// Converts the node at `path` and all below it to the version `to`, and says how many nodes there are.
///
/// # Errors
/// `Unsupported`, before anything is changed, if the chunks of an array would have to be coded anew or moved: then it
/// has to be copied.
pub fn convert_in_place(store: &SharedStore, path: &str, to: Format) -> Result<usize> {
    let path = normal(path)?;
    let placed = |e: Error| e.with_node(shown(&path)).with_store(store);
    let from = if to == Format::V3 { Format::V2 } else { Format::V3 };
    let key = join(&path, NAME);
    let began = match wait(store.get(&key, None))? {
        Some(text) => Some(Json::parse(&text).map_err(|e| placed(e.with_key(&key)))?.value),
        None => None,
    };
    let open = |format| {
        let options = OpenOptions { format: Some(format), use_consolidated: false, ..OpenOptions::default() };
        wait(Zarr::from_store(store.clone(), options))
    };
    if wait(open(to)?.direct_node(&path))?.is_some() {
        let Some(began) = began else {
            return Err(placed(Error::usage(format!("this is Zarr V{} already", to.number()))));
        };
        // Killed while it deleted the old documents.
        let count = delete_old(store, &began)?;
        wait(store.delete(&key))?;
        return Ok(count);
    }
    let zarr = open(from)?;
    for above in ancestors(&path) {
        if wait(zarr.direct_node(above))?.is_some() {
            let (above, from) = (shown(above), from.number());
            return Err(placed(Error::usage(format!(
                "it lies in {above}, which is Zarr V{from}, and would be lost there; convert that"
            ))));
        }
    }
    let nodes = wait(zarr.walk(&path))?;
    if let Some(damaged) = zarr.take_damaged().into_iter().next() {
        return Err(damaged.within("a node cannot be read, so that it would be lost"));
    }
    let images: HashSet<&str> = nodes.iter().filter(|n| is_image(&n.meta)).map(|n| n.path.as_str()).collect();
    let mut made: Vec<(String, Stored)> = Vec::with_capacity(nodes.len());
    let mut lacking = Vec::new();
    for node in &nodes {
        let kept = kept(&node.path, to, |above| images.contains(above));
        let documents =
            documents(store, node, to, kept, &mut lacking).map_err(|e| e.with_node(shown(&node.path)))?;
        made.push((node.path.clone(), documents));
    }
    // Chunks that read the same in the old version, written or not.
    for (old, new) in lacking {
        missing::write(&old, &new, &|| Ok(()))?;
    }
    let old = old_keys(&nodes, from, &path);
    let was_consolidated = is_consolidated(store, &path, from)?;
    let mut journal = Json::object();
    journal.set("zarr_format", Json::int(to.number()));
    journal.set("delete", Json::Array(old.iter().map(Json::string).collect()));
    put(store, &key, &journal)?;
    if was_consolidated {
        carry(&path, to, &mut made)?;
    }
    // The root comes first in a walk, so last here.
    for (node, stored) in made.iter().rev() {
        for (name, document) in stored.iter().rev() {
            put(store, &join(node, name), document)?;
        }
    }
    delete_old(store, &journal)?;
    wait(store.delete(&key))?;
    Ok(nodes.len())
}

/// The documents of a node in the version `to`.
///
/// An array whose missing chunks read as something else there is added to `lacking`, as it is and as it will be.
fn documents(
    store: &SharedStore,
    node: &Node,
    to: Format,
    kept: convert::Kept,
    lacking: &mut Vec<(Array, Array)>,
) -> Result<Stored> {
    match &node.meta {
        NodeMeta::Group(group) => Ok(write::group(&convert::group(group, to))),
        NodeMeta::Array(meta) => {
            // The new document must say where the chunks are, whatever the old one says.
            let keys = wait(hierarchy::keys_found(store, &node.path, meta))?;
            let meta = &ArrayMeta { keys, ..meta.clone() };
            let converted = convert::array(meta, to, convert::Keys::Keep, kept)?;
            let differ = converted.missing_chunks_differ(meta);
            let reason = match converted.recode {
                Some(reason) => reason,
                None if converted.meta.keys != meta.keys => {
                    format!("V{} has no such keys of chunks", to.number())
                }
                None => {
                    let array = |meta: &ArrayMeta| {
                        Array::new(
                            store.clone(),
                            &node.path,
                            meta.clone(),
                            Mode::Tolerant,
                            Vec::new(),
                            1 << 20,
                        )
                    };
                    if differ {
                        lacking.push((array(meta)?, array(&converted.meta)?));
                    }
                    return write::array(&converted.meta);
                }
            };
            Err(Error::unsupported(format!("its chunks cannot stay as they are: {reason}; copy it instead")))
        }
    }
}

/// The keys of the old documents, the root's first.
fn old_keys(nodes: &[Node], from: Format, root: &str) -> Vec<String> {
    let names: &[&str] = match from {
        Format::V3 => &["zarr.json"],
        Format::V2 => &[".zarray", ".zgroup", ".zattrs"],
    };
    let carried = (from == Format::V2).then(|| join(root, ".zmetadata"));
    let own = nodes.iter().flat_map(|n| names.iter().map(|name| join(&n.path, name)));
    carried.into_iter().chain(own).collect()
}

fn is_consolidated(store: &SharedStore, path: &str, format: Format) -> Result<bool> {
    let (name, member) = match format {
        Format::V2 => (".zmetadata", "metadata"),
        Format::V3 => ("zarr.json", "consolidated_metadata"),
    };
    Ok(match wait(store.get(&join(path, name), None))? {
        Some(text) => Json::parse(&text).is_ok_and(|d| d.value.get(member).is_some_and(|m| *m != Json::Null)),
        None => false,
    })
}

/// Adds consolidated metadata to the new documents.
fn carry(root: &str, to: Format, made: &mut [(String, Stored)]) -> Result<()> {
    let relative = |p: &str| p.strip_prefix(root).unwrap_or(p).trim_start_matches('/').to_owned();
    let nodes: Vec<(String, Stored)> = made.iter().map(|(p, s)| (relative(p), s.clone())).collect();
    let Some((_, stored)) = made.first_mut() else { return Ok(()) };
    match (to, stored.first_mut()) {
        (Format::V2, _) => stored.push((".zmetadata", consolidate::v2(&nodes))),
        (Format::V3, Some((_, document))) => {
            let below: Vec<(String, Json)> = nodes
                .into_iter()
                .filter_map(|(p, s)| Some((p, s.into_iter().next()?.1)))
                .filter(|(p, _)| !p.is_empty())
                .collect();
            *document = consolidate::v3(document, &below)?;
        }
        (Format::V3, None) => {}
    }
    Ok(())
}

fn put(store: &SharedStore, key: &str, document: &Json) -> Result<()> {
    let _ = wait(store.put(key, document.pretty().into(), Condition::Always))?;
    Ok(())
}

/// Deletes the documents that the journal lists, and says how many nodes they were of.
fn delete_old(store: &SharedStore, journal: &Json) -> Result<usize> {
    let keys: Vec<&str> = journal
        .get("delete")
        .and_then(Json::items)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .collect();
    for key in &keys {
        wait(store.delete(key))?;
    }
    let nodes: std::collections::BTreeSet<&str> =
        keys.iter().map(|k| k.rsplit_once('/').map_or("", |(node, _)| node)).collect();
    Ok(nodes.len())
}
