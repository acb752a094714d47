//! Plans a copy: the source nodes, and what becomes of each.

use std::collections::{BTreeSet, HashSet};

use super::target::CopyTarget;
use super::{CopyOptions, CopyStep, is_image, kept};
use crate::array::Array;
use crate::coords::DatasetPart;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::meta::NodeMeta;
use crate::meta::path::{join, shown};
use crate::store::{SharedStore, StoreExt as _};
use crate::suggest;

/// The nodes to copy, from their own documents, and the Zarr that was used if it is another.
pub(super) async fn nodes(source: &Zarr, from: &str) -> Result<(Vec<Node>, Option<Zarr>)> {
    // Consolidated metadata may be older than the nodes; it is used only where nodes cannot be listed.
    let own = if source.is_consolidated() && source.store().list("").await.is_ok() {
        let options = OpenOptions { use_consolidated: false, ..source.options().clone() };
        Some(Zarr::from_store(source.store().clone(), options).await?)
    } else {
        None
    };
    let consolidated = source;
    let source = own.as_ref().unwrap_or(source);
    let mut nodes = match source.walk(from).await {
        // A web server with index pages for some folders only: use what is known without them.
        Err(e) if e.kind() == ErrorKind::Unsupported && own.is_some() => consolidated.walk(from).await?,
        nodes => nodes?,
    };
    if own.is_some() && !source.store().lists_all() {
        // Index pages may lack nodes named by consolidated metadata.
        let listed: BTreeSet<String> = nodes.iter().map(|n| n.path.clone()).collect();
        for node in consolidated.walk(from).await?.into_iter().filter(|n| !listed.contains(&n.path)) {
            nodes.extend(source.direct_node(&node.path).await?);
        }
        nodes.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    }
    if let Some(damaged) = source.take_damaged().into_iter().next() {
        return Err(damaged.within("a node cannot be read and would be missing from the copy"));
    }
    Ok((nodes, own))
}

/// The source nodes and their copies; and their coordinates in parent groups, which are not copied.
pub(super) async fn plan(
    source: &Zarr,
    from: &str,
    to: &str,
    options: &CopyOptions,
) -> Result<(Vec<CopyStep>, BTreeSet<String>)> {
    // A quarter for the reader's cache; blocks and encoded data have the rest.
    let context = options.context.share_of(4);
    let (mut nodes, own) = nodes(source, from).await?;
    let source = own.as_ref().unwrap_or(source);
    let mut part = DatasetPart::default();
    if !options.query.is_empty() {
        part = DatasetPart::of(source, from, &nodes, &options.query)
            .await
            .map_err(|e| e.with_node(shown(from)).with_store(source.store()))?;
        nodes.retain(|n| part.arrays.contains_key(&n.path) || part.groups.contains(&n.path));
    }
    check_names(&nodes, options)?;
    let images: HashSet<String> =
        nodes.iter().filter(|n| is_image(&n.meta)).map(|n| n.path.clone()).collect();
    let in_group = nodes.first().is_some_and(|node| matches!(node.meta, NodeMeta::Group(_)));
    let mut steps = Vec::with_capacity(nodes.len());
    for node in nodes {
        let below = node.path.strip_prefix(from).unwrap_or(&node.path).trim_start_matches('/');
        let to = join(to, below);
        let format = options.format.unwrap_or(node.meta.format());
        let kept = kept(&node.path, format, |above| images.contains(above));
        let copy = match &node.meta {
            NodeMeta::Group(_) => {
                check_links(source.store(), &node.path).await?;
                None
            }
            NodeMeta::Array(meta) => {
                let mode = source.options().mode;
                let store = source.store().clone();
                let array = Array::new(store, &node.path, meta.clone(), mode, Vec::new(), &context)?;
                let target = CopyTarget::of(&array, part.arrays.get(&node.path), options, kept, in_group)
                    .map_err(|e| e.with_node(shown(&node.path)))?;
                Some((array, target))
            }
        };
        let coordinates = part.named_by_groups.get(&node.path).cloned();
        steps.push(CopyStep { to, node, copy, kept, coordinates });
    }
    Ok((steps, part.above))
}

/// Fails if there is a broken symlink in the folder of a group: it may stand for a node.
async fn check_links(store: &SharedStore, group: &str) -> Result<()> {
    if store.direct().is_none() {
        return Ok(());
    }
    for name in store.list(group).await?.objects {
        store.size(&join(group, &name)).await?;
    }
    Ok(())
}

/// Refuses lengths for a dimension that no array has: the name is misspelt.
fn check_names(nodes: &[Node], options: &CopyOptions) -> Result<()> {
    let arrays = nodes.iter().filter_map(|n| if let NodeMeta::Array(a) = &n.meta { Some(a) } else { None });
    let known: BTreeSet<&str> =
        arrays.flat_map(|a| a.dimension_names.iter().flatten().flatten().map(String::as_str)).collect();
    let shards = options.shards.iter().flatten();
    for (what, sizes) in options.chunks.iter().map(|s| ("chunks", s)).chain(shards.map(|s| ("shards", s))) {
        let mut seen = BTreeSet::new();
        for name in sizes.names() {
            if !known.contains(name) {
                let instead = suggest::instead(name, known.iter().copied());
                let instead =
                    if instead.is_empty() { "; the dimensions have no names".to_owned() } else { instead };
                return Err(Error::usage(format!("{what}: no array has a dimension {name:?}{instead}")));
            }
            if !seen.insert(name) {
                return Err(Error::usage(format!("{what}: the dimension {name:?} is named twice")));
            }
        }
    }
    Ok(())
}
