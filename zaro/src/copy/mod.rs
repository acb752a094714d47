//! Copying: any node that can be read to any store that can be written to, changed on the way as asked.
//!
//! An array whose chunks stay as they are, byte for byte, is copied object by object (`verbatim.rs`), also from V2 to V3
//! where the codecs allow. Any other is decoded and encoded anew (`recode.rs`), in blocks that fit into the memory given
//! (`blocks.rs`), or in cells that are smaller still (`cells.rs`).
//!
//! Where only documents have to change, a hierarchy is converted in its place ([`convert_in_place`]).
//!
//! A copy that was killed goes on where it was when it is begun again with the same words (`journal.rs`).

mod blocks;
mod cells;
mod in_place;
mod journal;
mod missing;
mod recode;
#[cfg(feature = "image")]
mod single;
mod target;
mod verbatim;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::array::{Array, OnProgress, Progress, Selection};
use crate::blocking::wait;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::hierarchy::{self, Existing};
use crate::meta::create::Layout;
use crate::meta::path::{join, normal, shown};
use crate::meta::{ArrayMeta, ChunkKeys, CodecMeta, DataType, Format, NodeMeta, convert, write};
use crate::num;
use crate::store::SharedStore;
use crate::store::local::check_space;
use crate::suggest;
pub use in_place::convert_in_place;
use journal::Journal;
#[cfg(feature = "image")]
pub(crate) use single::Single;
use target::Target;

/// Lengths of chunks or shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// One for each dimension.
    List(Vec<u64>),
    /// Some, by the dimension's name; the others stay. Arrays without such a dimension are not concerned.
    Named(Vec<(String, u64)>),
}

impl Sizes {
    /// The lengths for one array, of which `old` stay where nothing else is said.
    fn resolve(&self, meta: &ArrayMeta, old: &[u64]) -> Result<Vec<u64>> {
        match self {
            Self::List(list) if list.len() == meta.shape.len() => Ok(list.clone()),
            Self::List(list) => Err(Error::usage(format!(
                "{} lengths are given, the array has {} dimensions (say NAME=LENGTH for some of many arrays)",
                list.len(),
                meta.shape.len()
            ))),
            Self::Named(named) => {
                let names = meta.dimension_names.as_deref().unwrap_or_default();
                let length = |(d, old): (usize, &u64)| {
                    let name = names.get(d).and_then(Option::as_ref);
                    named.iter().find(|(n, _)| Some(n) == name).map_or(*old, |(_, length)| *length)
                };
                Ok(old.iter().enumerate().map(length).collect())
            }
        }
    }

    /// The names of dimensions, if there are any.
    fn names(&self) -> impl Iterator<Item = &str> {
        let named = match self {
            Self::Named(named) => named.as_slice(),
            Self::List(_) => &[],
        };
        named.iter().map(|(name, _)| name.as_str())
    }
}

/// How keys of chunks are made. What is left out stays as the version and the source have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysOption {
    /// Whether they begin with `c`; V3 only.
    pub prefixed: Option<bool>,
    /// What stands between the numbers.
    pub separator: Option<char>,
}

impl KeysOption {
    /// The keys of an array that would else have the keys `base`.
    fn of(self, base: ChunkKeys) -> ChunkKeys {
        let prefixed = self.prefixed.unwrap_or(base.prefixed);
        let usual = match prefixed {
            _ if prefixed == base.prefixed => base.separator,
            true => '/',
            false => '.',
        };
        ChunkKeys { prefixed, separator: self.separator.unwrap_or(usual) }
    }
}

/// How to copy. What is left out stays as it is in the source.
#[derive(Clone, Default)]
pub struct CopyOptions {
    /// The version of Zarr.
    pub format: Option<Format>,
    /// The shape of chunks; of inner ones, if there are shards.
    pub chunks: Option<Sizes>,
    /// The shape of shards; `Some(None)` for none.
    pub shards: Option<Option<Sizes>>,
    /// The codecs, in encoding order; see [`short`](crate::meta::short) for their text form.
    pub codecs: Option<Vec<CodecMeta>>,
    /// The order of elements in a chunk.
    pub layout: Option<Layout>,
    /// How keys of chunks are made.
    pub keys: KeysOption,
    /// The type of elements, for numbers. One that does not fit is an error.
    pub data_type: Option<DataType>,
    /// Numbers beyond the range of the new type become its greatest or least.
    pub clamp: bool,
    /// A part of an array.
    pub region: Option<Selection>,
    /// What to do with what is there already.
    pub existing: Existing,
    /// Write consolidated metadata at the end, or not; as in the source, if nothing is said.
    pub consolidate: Option<bool>,
    /// Read source and copy once more and compare them: every element, and what the documents mean.
    pub verify: bool,
    /// Memory to use; 0 for the default.
    pub memory: usize,
    /// Where pieces in between go, if chunks have to be cut quite differently: a folder. The system's, if none.
    pub temporary: Option<PathBuf>,
    /// Told how far the copy has come, in bytes of decoded elements.
    pub progress: Option<OnProgress>,
    /// Set it to stop. What was copied stays, and the copy can go on later.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for CopyOptions {
    /// What decides about the result; a copy goes on only with the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOptions")
            .field("format", &self.format)
            .field("chunks", &self.chunks)
            .field("shards", &self.shards)
            .field("codecs", &self.codecs)
            .field("layout", &self.layout)
            .field("keys", &self.keys)
            .field("data_type", &self.data_type)
            .field("clamp", &self.clamp)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Arrays.
    pub arrays: u64,
    /// Groups.
    pub groups: u64,
    /// Bytes of elements, decoded.
    pub bytes: u64,
    /// Arrays whose chunks were copied as they are.
    pub verbatim: u64,
    /// Whether an earlier copy was taken up.
    pub resumed: bool,
}

/// Where a copy is on its way.
struct Run<'a> {
    options: &'a CopyOptions,
    memory: usize,
    done: AtomicU64,
    total: u64,
}

impl Run<'_> {
    fn check(&self) -> Result<()> {
        match &self.options.cancel {
            Some(c) if c.load(Ordering::Relaxed) => Err(Error::cancelled()),
            _ => Ok(()),
        }
    }

    /// Notes that `bytes` more are done.
    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if let Some(progress) = &self.options.progress {
            progress(Progress { done: done.min(self.total), total: self.total });
        }
    }
}

/// One node of the source, and what becomes of it.
struct Step {
    /// Its path in the destination.
    to: String,
    node: Node,
    /// For an array.
    copy: Option<(Array, Target)>,
    /// What is to be the same in another version.
    kept: convert::Kept,
}

/// Copies the node at `from_path` of `source`, and all below it, to `to_path` of `store`. Blocks until it is done.
///
/// `name` tells sources apart: an unfinished copy of another one is not taken up.
pub fn copy(
    source: &Zarr,
    name: &str,
    from_path: &str,
    store: &SharedStore,
    to_path: &str,
    options: &CopyOptions,
) -> Result<Copied> {
    let memory = if options.memory == 0 { crate::array::DEFAULT_MEMORY } else { options.memory };
    let (from_path, to_path) = (normal(from_path)?, normal(to_path)?);
    let steps = plan(source, &from_path, &to_path, options, memory)?;
    let arrays = || steps.iter().filter_map(|s| s.copy.as_ref().map(|(array, target)| (s, array, target)));
    let bytes: Vec<u64> = arrays().map(|(_, _, t)| decoded_bytes(&t.meta)).collect::<Result<_>>()?;
    let total = bytes.iter().fold(0, |a: u64, b| a.saturating_add(*b));
    let run = Run { options, memory, done: AtomicU64::new(0), total };
    // The arrays of the copy, which nobody sees before they are whole: their documents come last.
    let making = |step: &Step, target: &Target, memory: usize| {
        let meta = target.meta.clone();
        Array::new(store.clone(), &step.to, meta, source.options().mode, Vec::new(), memory)
    };
    for (step, array, target) in arrays().filter(|(_, _, target)| !target.verbatim) {
        recode::check(&run, array, &making(step, target, 0)?, target)
            .map_err(|e| e.with_node(shown(&step.node.path)))?;
    }
    if let Some(top) = steps.first() {
        let format = options.format.unwrap_or(top.node.meta.format());
        wait(hierarchy::check_place(store, &to_path, format))?;
    }
    let nodes: Vec<String> = steps.iter().map(|s| s.node.path.clone()).collect();
    wait(hierarchy::check_apart(source.store(), &from_path, &nodes, store, &to_path, options.existing))?;
    let made = arrays().map(|(step, _, target)| (step.to.as_str(), &target.meta));
    wait(hierarchy::check_unused_below(store, &to_path, made, options.existing))?;
    look_for_room(store, &to_path, arrays().filter(|(_, _, t)| t.verbatim).map(|(_, array, _)| array))?;
    let settings = format!("{from_path:?} {options:?}");
    let (mut journal, resumed) = Journal::begin(store, &to_path, name, &settings, options.existing)?;
    for (step, array, target) in arrays() {
        let made = making(step, target, memory / 4)?;
        let copied = if target.verbatim {
            verbatim::copy(&run, array, &made, resumed)
                .and_then(|()| missing::write(array, &made, &|| run.check()))
        } else {
            recode::copy(&run, array, &made, target, &mut journal)
        };
        copied.map_err(|e| e.within(format_args!("copying {}", shown(&step.node.path))))?;
    }
    if options.verify {
        for (step, array, target) in arrays() {
            recode::verify(&run, array, &making(step, target, memory / 4)?, target)
                .map_err(|e| e.within(format_args!("verifying {}", shown(&step.to))))?;
        }
    }
    publish(store, &steps, options)?;
    wait(hierarchy::consolidate_above(store, &to_path))?;
    let is_group = steps.first().is_some_and(|s| s.copy.is_none());
    if is_group && options.consolidate.unwrap_or(source.is_consolidated()) {
        wait(hierarchy::consolidate(store, &to_path))?;
    }
    if options.verify {
        verify_documents(store, &steps)?;
    }
    journal.end()?;
    wait(store.finish())?;
    let count = |n: usize| num::u64_of(n);
    Ok(Copied {
        arrays: count(arrays().count()),
        groups: count(steps.len() - arrays().count()),
        bytes: total,
        verbatim: count(arrays().filter(|(_, _, target)| target.verbatim).count()),
        resumed,
    })
}

/// Fails if it is known that chunks which are copied as they are do not fit, even in the place of what is there.
fn look_for_room<'a>(store: &SharedStore, to: &str, arrays: impl Iterator<Item = &'a Array>) -> Result<()> {
    let Some(free) = store.free_space() else { return Ok(()) };
    let mut bytes = 0u64;
    for array in arrays {
        bytes = bytes.saturating_add(verbatim::stored_bytes(array.store(), array.path())?);
    }
    if bytes > free {
        let there = verbatim::stored_bytes(store, to)?;
        check_space(Some(free.saturating_add(there)), bytes).map_err(|e| e.with_store(store))?;
    }
    Ok(())
}

/// Puts the documents of all nodes; that of the top comes last, so that the copy is there when it is whole.
fn publish(store: &SharedStore, steps: &[Step], options: &CopyOptions) -> Result<()> {
    for (i, step) in steps.iter().enumerate().rev() {
        let (format, stored) = match (&step.node.meta, &step.copy) {
            (NodeMeta::Array(old), Some((_, target))) if *old != target.meta => {
                (target.meta.format, write::array(&target.meta)?)
            }
            (NodeMeta::Group(group), _) if options.format.is_some_and(|f| f != group.format) => {
                let group = convert::group(group, options.format.unwrap_or(group.format));
                (group.format, write::group(&group))
            }
            // As it is, with what zaro has no word for.
            (meta, _) => (meta.format(), hierarchy::as_stored(meta)),
        };
        // An earlier run may have come so far.
        let top = i == 0 && wait(hierarchy::find(store, &step.to))?.is_none();
        wait(hierarchy::put_documents(store, &step.to, format, stored, top))?;
    }
    Ok(())
}

/// Reads the documents of the copy, own and consolidated ones, and fails unless they mean what those of the source do.
fn verify_documents(store: &SharedStore, steps: &[Step]) -> Result<()> {
    let consolidated = wait(Zarr::from_store(store.clone(), OpenOptions::default()))?;
    // Those of a group above are not of this copy.
    let is_root = steps.first().is_some_and(|step| step.to.is_empty());
    for step in steps {
        let own = wait(hierarchy::find(store, &step.to))?;
        let carried = if is_root && consolidated.is_consolidated() {
            Some(wait(consolidated.node(&step.to))?)
        } else {
            None
        };
        let lost = || Error::invalid("the copy lacks this node").with_node(shown(&step.to));
        for meta in [&own.ok_or_else(lost)?.meta].into_iter().chain(carried.as_ref().map(|node| &node.meta)) {
            let differs = match (&step.node.meta, meta, &step.copy) {
                (NodeMeta::Group(old), NodeMeta::Group(new), _) => (write::lawful(&old.attributes)
                    != write::lawful(&new.attributes))
                .then_some("the attributes"),
                (NodeMeta::Array(old), NodeMeta::Array(new), Some((_, target))) => {
                    target.difference(old, new, step.kept)
                }
                _ => Some("the kind of the node"),
            };
            if let Some(what) = differs {
                let message = format!("the copy differs from the source in {what}");
                return Err(Error::invalid(message).with_node(shown(&step.to)));
            }
        }
    }
    Ok(())
}

pub(crate) fn decoded_bytes(meta: &ArrayMeta) -> Result<u64> {
    Ok(num::product(&meta.shape)?.saturating_mul(num::u64_of(meta.data_type.size())))
}

/// Fails if a link that leads nowhere lies in the folder of a group: it may stand for a node.
async fn check_links(store: &SharedStore, group: &str) -> Result<()> {
    if store.direct().is_none() {
        return Ok(());
    }
    for name in store.list(group).await?.objects {
        store.size(&join(group, &name)).await?;
    }
    Ok(())
}

/// Refuses lengths for a dimension that no array has: a name that nobody knows is a misspelt one.
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

/// Whether this is a group of an OME-Zarr image, whose arrays are its levels.
fn is_image(meta: &NodeMeta) -> bool {
    let attributes = meta.attributes();
    let ome = attributes.get("ome").unwrap_or(attributes);
    matches!(meta, NodeMeta::Group(_)) && ome.get("multiscales").is_some()
}

/// What a conversion of the array at `path` keeps.
///
/// The levels of an image are no variables, although V3 names their dimensions: in V2 their readers want a fill value.
fn kept(path: &str, to: Format, is_image: impl Fn(&str) -> bool) -> convert::Kept {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    if to == Format::V2 && is_image(above) { convert::Kept::Fill } else { convert::Kept::Meaning }
}

/// What is there, and what is to become of it.
fn plan(source: &Zarr, from: &str, to: &str, options: &CopyOptions, memory: usize) -> Result<Vec<Step>> {
    // Consolidated metadata may be older than the nodes; they count only where nodes cannot be listed.
    let own = if source.is_consolidated() && wait(source.store().list("")).is_ok() {
        let options = OpenOptions { use_consolidated: false, ..source.options().clone() };
        Some(wait(Zarr::from_store(source.store().clone(), options))?)
    } else {
        None
    };
    let consolidated = source;
    let source = own.as_ref().unwrap_or(source);
    let mut nodes = match wait(source.walk(from)) {
        // The pages of a web server, and not of all folders: what is known without them is known.
        Err(e) if e.kind() == ErrorKind::Unsupported && own.is_some() => wait(consolidated.walk(from))?,
        nodes => nodes?,
    };
    if own.is_some() && !source.store().lists_all() {
        // Pages may lack what consolidated metadata name.
        let listed: BTreeSet<String> = nodes.iter().map(|n| n.path.clone()).collect();
        for node in wait(consolidated.walk(from))?.into_iter().filter(|n| !listed.contains(&n.path)) {
            nodes.extend(wait(source.direct_node(&node.path))?);
        }
        nodes.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    }
    if let Some(damaged) = source.take_damaged().into_iter().next() {
        return Err(damaged.within("a node cannot be read, so that the copy would lack it"));
    }
    check_names(&nodes, options)?;
    let images: HashSet<String> =
        nodes.iter().filter(|n| is_image(&n.meta)).map(|n| n.path.clone()).collect();
    let mut steps = Vec::with_capacity(nodes.len());
    for node in nodes {
        let below = node.path.strip_prefix(from).unwrap_or(&node.path).trim_start_matches('/');
        let to = join(to, below);
        let format = options.format.unwrap_or(node.meta.format());
        let kept = kept(&node.path, format, |above| images.contains(above));
        let copy = match &node.meta {
            NodeMeta::Group(_) => {
                wait(check_links(source.store(), &node.path))?;
                None
            }
            NodeMeta::Array(meta) => {
                let mode = source.options().mode;
                let store = source.store().clone();
                // A quarter for what the reader keeps; blocks and what is encoded have the rest.
                let array = Array::new(store, &node.path, meta.clone(), mode, Vec::new(), memory / 4)?;
                let target = Target::of(&array, options, kept).map_err(|e| e.with_node(shown(&node.path)))?;
                Some((array, target))
            }
        };
        steps.push(Step { to, node, copy, kept });
    }
    Ok(steps)
}
