//! Copying arrays and hierarchies between stores, optionally rechunked, re-encoded or converted.
//!
//! An array whose chunks stay the same, byte for byte, is copied object by object (`verbatim.rs`), also from V2 to V3
//! if the codecs allow. Any other is decoded and re-encoded (`recode.rs`), in blocks that fit into the memory budget
//! (`blocks.rs`), or in smaller cells (`cells.rs`).
//!
//! If only documents have to change, a hierarchy can be converted in place ([`convert_in_place`]).
//!
//! An interrupted copy resumes when it is rerun with the same arguments and the same data (`journal`).

mod blocks;
mod cells;
mod in_place;
mod missing;
mod notes;
mod plan;
mod recode;
mod scratch;
mod single;
mod target;
mod verbatim;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::try_join_all;

use crate::array::{Array, Selection};
use crate::boxed;
use crate::context::Context;
use crate::coords::Query;
use crate::error::{Error, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::hierarchy::{self, Existing, Room};
use crate::journal::{DOCUMENTS, Intent, Journal, NodeSource, Work};
use crate::meta::create::MemoryLayout;
use crate::meta::path::{join, normal, shown};
use crate::meta::write::Stored;
use crate::meta::{
    ArrayMeta, ChunkKeys, CodecMeta, DataType, Format, GroupMeta, Json, NodeMeta, convert, write,
};
use crate::num;
use crate::store::SharedStore;
use crate::store::StoreExt as _;
use crate::store::local::check_space;
use crate::task::{Meter, Operation, Task, Unit};
#[cfg(feature = "image")]
pub(crate) use blocks::Blocks;
pub use in_place::{convert_in_place, convert_in_place_with};
use notes::conversion_note;
pub use notes::{Note, conversion_notes};
use plan::{nodes, plan};
#[cfg(feature = "image")]
pub(crate) use single::Single;
use target::CopyTarget;

/// Chunk or shard shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// One length per dimension.
    List(Vec<u64>),
    /// Lengths by dimension name; others stay. Arrays without such a dimension are not affected.
    Named(Vec<(String, u64)>),
}

impl Sizes {
    /// The lengths for one array; `old` where none is given.
    fn resolve(&self, meta: &ArrayMeta, old: &[u64]) -> Result<Vec<u64>> {
        match self {
            Self::List(list) if list.len() == meta.shape.len() => Ok(list.clone()),
            Self::List(list) => Err(Error::usage(format!(
                "{} lengths are given, the array has {} dimensions (use NAME=LENGTH to select dimensions by name)",
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

    /// The dimension names, if any.
    fn names(&self) -> impl Iterator<Item = &str> {
        let named = match self {
            Self::Named(named) => named.as_slice(),
            Self::List(_) => &[],
        };
        named.iter().map(|(name, _)| name.as_str())
    }
}

/// Chunk key encoding. Unset fields follow the version and the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysOption {
    /// Whether keys begin with `c`; V3 only.
    pub prefixed: Option<bool>,
    /// The separator in chunk keys.
    pub separator: Option<char>,
}

impl KeysOption {
    /// The encoding for an array whose default is `base`.
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

/// Options of a copy. Whatever is not set stays as in the source.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct CopyOptions {
    /// The Zarr version.
    pub format: Option<Format>,
    /// The chunk shape; that of inner chunks, if there are shards.
    pub chunks: Option<Sizes>,
    /// The shard shape; `Some(None)` for no shards.
    pub shards: Option<Option<Sizes>>,
    /// The codecs, in encoding order; see [`parse_codecs`](crate::meta::parse_codecs) for their text form.
    pub codecs: Option<Vec<CodecMeta>>,
    /// The order of elements within a chunk.
    pub layout: Option<MemoryLayout>,
    /// Chunk key encoding.
    pub keys: KeysOption,
    /// The data type, for numbers; other elements are an error, or stay as they are when a group is copied. A value
    /// that cannot be represented exactly is an error.
    pub data_type: Option<DataType>,
    /// Clamp numbers outside the range of the new type.
    pub clamp: bool,
    /// Copy a part of an array; every dimension stays.
    pub region: Option<Selection>,
    /// Copy a part of a data set or an array, by dimension names and coordinate values.
    pub query: Query,
    /// How to treat an existing node.
    pub existing: Existing,
    /// Write consolidated metadata; as in the source by default.
    pub consolidate: Option<bool>,
    /// Read source and copy again and compare them: every element, and the meaning of the documents.
    pub verify: bool,
    /// Context, with threads, connections and memory.
    pub context: Context,
    /// Directory for temporary chunks while rechunking. The system's by default.
    pub temporary: Option<PathBuf>,
    /// Progress, in bytes of decoded elements, and cancellation.
    pub task: Task,
}

impl CopyOptions {
    /// The options that determine the result, in a form that is stable across versions.
    fn json(&self, consolidate: bool) -> Json {
        let sizes = |sizes: &Sizes| match sizes {
            Sizes::List(list) => Json::Array(list.iter().map(Json::int).collect()),
            Sizes::Named(named) => {
                Json::Object(named.iter().map(|(name, n)| (name.clone(), Json::int(n))).collect())
            }
        };
        let layout = |layout: &MemoryLayout| match layout {
            MemoryLayout::C => Json::string("C"),
            MemoryLayout::F => Json::string("F"),
            MemoryLayout::Axes(axes) => Json::Array(axes.iter().map(Json::int).collect()),
        };
        let mut options = Json::object();
        let mut set = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                options.set(name, value);
            }
        };
        set("zarr_format", self.format.map(|f| Json::int(f.number())));
        set("chunks", self.chunks.as_ref().map(sizes));
        set("shards", self.shards.as_ref().map(|s| s.as_ref().map_or(Json::Null, sizes)));
        set("codecs", self.codecs.as_ref().map(|c| write::write_codecs(c)));
        set("order", self.layout.as_ref().map(layout));
        set("key_prefix", self.keys.prefixed.map(Json::Bool));
        set("separator", self.keys.separator.map(|s| Json::string(s.to_string())));
        set("data_type", self.data_type.as_ref().map(|t| Json::string(t.to_string())));
        set("clamp", self.clamp.then_some(Json::Bool(true)));
        set("consolidate", Some(Json::Bool(consolidate)));
        options
    }
}

/// Summary of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Arrays.
    pub arrays: u64,
    /// Groups.
    pub groups: u64,
    /// Bytes of decoded elements.
    pub bytes: u64,
    /// Arrays whose chunks were copied unchanged.
    pub verbatim: u64,
    /// Whether an earlier copy was resumed.
    pub resumed: bool,
    /// What the copy lacks, or has in another form; see [`conversion_notes`].
    pub notes: Vec<Note>,
}

/// A copy in progress.
struct CopyRun<'a> {
    options: &'a CopyOptions,
    memory: usize,
    meter: Meter,
    /// The journal that records progress.
    journal: Option<&'a Journal>,
}

impl CopyRun<'_> {
    /// Fails if the copy was cancelled, or another process took over its place.
    async fn check(&self) -> Result<()> {
        self.options.task.check()?;
        match self.journal {
            Some(journal) => journal.beat().await,
            None => Ok(()),
        }
    }

    /// How many blocks were done in an earlier run, of the array and block shape named by `blocks`.
    fn before(&self, blocks: &str) -> u64 {
        self.journal.map_or(0, |journal| journal.done(blocks))
    }

    /// Records how many of them are done.
    async fn note(&self, blocks: &str, done: u64) -> Result<()> {
        match self.journal {
            Some(journal) => journal.note(blocks, done).await,
            None => Ok(()),
        }
    }

    /// Reports progress of `bytes`.
    fn advance(&self, bytes: u64) {
        self.meter.advance(bytes);
    }
}

/// One node of the source, and its copy.
struct CopyStep {
    /// Its path in the destination.
    to: String,
    node: Node,
    /// For an array.
    copy: Option<(Array, CopyTarget)>,
    /// What has to stay the same in another version.
    kept: convert::Kept,
    /// The new attribute `coordinates` of a group, if it differs from the source.
    coordinates: Option<String>,
}

impl CopyStep {
    /// The attributes of a group in the copy.
    fn attributes(&self, group: &GroupMeta) -> Json {
        let mut attributes = (*group.attributes).clone();
        if let Some(names) = &self.coordinates {
            attributes.set("coordinates", Json::string(names));
        }
        attributes
    }
}

/// Copies the node at `from_path` of `source`, and all below it, to `to_path` of `store`.
///
/// `name` is the address of the source, for the journal, without user, password and query. An unfinished copy is
/// resumed only if address, data and options are the same.
#[boxed]
pub async fn copy(
    source: &Zarr,
    name: &str,
    from_path: &str,
    store: &SharedStore,
    to_path: &str,
    options: &CopyOptions,
) -> Result<Copied> {
    let _operation = Operation::begin("copy", store);
    let to = normal(to_path)?;
    let room = Room::find(store, &to, options.existing).await?;
    let planned = PlannedCopy::of(source, from_path, room.store(), room.path(), options).await?;
    planned.check_place(store, &to).await?;
    if options.verify {
        planned.verify_meaning()?;
    }
    planned.check_destination(store, &to, &room).await?;
    let intent = planned.intent(name).await?;
    let mut again = nodes(&source.reopened().await?, &planned.from).await?.0;
    if !options.query.is_empty() {
        let wanted: HashSet<&str> = planned.steps.iter().map(|s| s.node.path.as_str()).collect();
        again.retain(|node| wanted.contains(node.path.as_str()));
    }
    planned.content().same_documents(&NodeSource::new(
        source.store(),
        &planned.from,
        again.iter().map(|n| (n.path.as_str(), &n.meta)),
    ))?;
    let (journal, resumed) = Journal::begin(&Work {
        store,
        path: &to,
        intent: &intent,
        existing: options.existing,
        whole: true,
        aside: room.is_aside(),
        anew: false,
        ground: &room,
    })
    .await?;
    let copied = async {
        let copied = planned.make(&journal, resumed, &intent).await?;
        room.finish(&journal).await?;
        store.finish().await?;
        Ok(copied)
    };
    match copied.await {
        Ok(copied) => Ok(copied),
        Err(e) => Err(journal.told(e).await),
    }
}

/// Fails if unchanged chunks are known not to fit, even after the old data is deleted.
async fn look_for_room(room: &Room, arrays: Vec<&Array>) -> Result<()> {
    let store = room.store();
    let Some(free) = store.free_space() else { return Ok(()) };
    let mut bytes = 0u64;
    for array in arrays {
        bytes = bytes.saturating_add(verbatim::stored_bytes(array.store(), array.path()).await?);
    }
    if bytes > free {
        let there = verbatim::stored_bytes(store, room.path()).await?;
        check_space(Some(free.saturating_add(there)), bytes).map_err(|e| e.with_store(store))?;
    }
    Ok(())
}

/// As [`copy`], as a part of an operation with its own journal. Does nothing if it was done before.
#[cfg(feature = "image")]
pub(crate) async fn copy_within(
    source: &Zarr,
    from_path: &str,
    store: &SharedStore,
    to_path: &str,
    options: &CopyOptions,
    journal: &Journal,
    resumed: bool,
) -> Result<()> {
    let part = format!("copy of {to_path}");
    if journal.done(&part) > 0 {
        return Ok(());
    }
    let planned = PlannedCopy::of(source, from_path, store, to_path, options).await?;
    planned.check_place(store, &planned.to).await?;
    planned.run(journal, resumed).await?;
    planned.publish(journal, resumed).await?;
    journal.note(&part, 1).await
}

/// Fails if [`copy_within`] is impossible; changes nothing. For before the journal begins.
#[cfg(feature = "image")]
pub(crate) async fn check_within(
    source: &Zarr,
    from_path: &str,
    store: &SharedStore,
    to_path: &str,
    options: &CopyOptions,
) -> Result<()> {
    PlannedCopy::of(source, from_path, store, to_path, options).await.map(drop)
}

/// A copy that passed all checks.
struct PlannedCopy<'a> {
    source: &'a SharedStore,
    mode: crate::meta::Mode,
    store: &'a SharedStore,
    from: String,
    to: String,
    options: &'a CopyOptions,
    consolidate: bool,
    steps: Vec<CopyStep>,
    /// Coordinates above the copied node.
    above: BTreeSet<String>,
}

impl<'a> PlannedCopy<'a> {
    /// Inspects the source, and fails if the copy is impossible.
    async fn of(
        source: &'a Zarr,
        from_path: &str,
        store: &'a SharedStore,
        to_path: &str,
        options: &'a CopyOptions,
    ) -> Result<Self> {
        let (from, to) = (normal(from_path)?, normal(to_path)?);
        let (steps, above) = plan(source, &from, &to, options).await?;
        let is_group = steps.first().is_some_and(|s| s.copy.is_none());
        if is_group && options.region.is_some() {
            let what = "a part can be copied of one array only, and this is a group, whose arrays would no longer match";
            return Err(Error::usage(what).with_node(shown(&from)).with_store(source.store()));
        }
        let consolidate = is_group && options.consolidate.unwrap_or(source.is_consolidated());
        let mode = source.options().mode;
        let source = source.store();
        let planned = Self { source, mode, store, from, to, options, consolidate, steps, above };
        let run = planned.start(None, 0);
        for (step, array, target) in planned.arrays().filter(|(_, _, target)| !target.verbatim) {
            // Those of the source stay as they are, even if only tolerated.
            if options.codecs.is_some() {
                hierarchy::new_array(store, &step.to, target.meta.clone(), &options.context)?;
            }
            recode::check(&run, array, &planned.making(step, target)?, target)
                .map_err(|e| e.with_node(shown(&step.node.path)))?;
        }
        Ok(planned)
    }

    /// Fails if the copy cannot be at `to` of `store`, whatever is there.
    async fn check_place(&self, store: &SharedStore, to: &str) -> Result<()> {
        let Some(top) = self.steps.first() else { return Ok(()) };
        let format = self.options.format.unwrap_or(top.node.meta.format());
        hierarchy::check_place(store, to, format).await
    }

    /// Fails if the destination is the source, has data that would mix with the copy, or lacks space for it.
    async fn check_destination(&self, store: &SharedStore, to: &str, room: &Room) -> Result<()> {
        let Self { source, from, options, .. } = self;
        let nodes: Vec<String> = self.steps.iter().map(|s| s.node.path.clone()).collect();
        hierarchy::check_apart(source, from, &nodes, store, to, options.existing).await?;
        let made = self.arrays().map(|(step, _, target)| (step.to.as_str(), &target.meta));
        hierarchy::check_unused_below(store, to, made, options.existing).await?;
        look_for_room(room, self.arrays().filter(|(_, _, t)| t.verbatim).map(|(_, array, _)| array).collect())
            .await
    }

    /// Makes the whole copy.
    async fn make(&self, journal: &Journal, resumed: bool, intent: &Intent) -> Result<Copied> {
        let mut copied = self.run(journal, resumed).await?;
        let content = self.content();
        // For a remote archive this costs too much if only a part was copied.
        if self.from.is_empty() || !self.source.is_remote() {
            self.source.finish().await.map_err(|e| e.within("checking what was not copied"))?;
        }
        content.unchanged(&intent.source).await?;
        self.publish(journal, resumed).await?;
        if self.options.verify
            && let Err(e) = verify_documents(self.store, &self.steps).await
        {
            // It must not be mistaken for the copy.
            for name in DOCUMENTS {
                self.store.delete(&join(&self.to, name)).await?;
            }
            return Err(e);
        }
        copied.notes = self.notes(content.others());
        Ok(copied)
    }

    fn arrays(&self) -> impl Iterator<Item = (&CopyStep, &Array, &CopyTarget)> {
        self.steps.iter().filter_map(|s| s.copy.as_ref().map(|(array, target)| (s, array, target)))
    }

    /// An array of the copy, which is not visible before it is complete: its documents come last.
    fn making(&self, step: &CopyStep, target: &CopyTarget) -> Result<Array> {
        let context = &self.options.context.share_of(4);
        Array::new(self.store.clone(), &step.to, target.meta.clone(), self.mode, Vec::new(), context)
    }

    fn start<'r>(&'r self, journal: Option<&'r Journal>, total: u64) -> CopyRun<'r> {
        let meter = self.options.task.meter(Unit::Bytes, total);
        CopyRun { options: self.options, memory: self.options.context.memory(), meter, journal }
    }

    /// The source data.
    fn content(&self) -> NodeSource<'_> {
        let nodes = self.steps.iter().map(|s| (s.node.path.as_str(), &s.node.meta));
        NodeSource::new(self.source, &self.from, nodes)
    }

    async fn intent(&self, name: &str) -> Result<Intent> {
        let mut options = self.options.json(self.consolidate);
        let mut plan = Json::object();
        plan.set("nodes", Json::int(self.steps.len()));
        plan.set("documents", Json::string(self.documents()?));
        let regions = self
            .arrays()
            .filter_map(|(step, array, target)| Some((step.to.clone(), target.region.json(array.meta())?)));
        let regions: Vec<(String, Json)> = regions.collect();
        if !regions.is_empty() {
            options.set("select", Json::Object(regions));
        }
        Ok(Intent { operation: "copy", source: self.content().json(name).await?, options, plan })
    }

    /// A digest of all documents to be put.
    fn documents(&self) -> Result<String> {
        let mut text = String::new();
        for step in &self.steps {
            for (name, document) in self.stored(step)?.1 {
                text.push_str(&format!("{}\n{name}\n{document}\n", step.to));
            }
        }
        Ok(crate::store::md5_hex(text.as_bytes()))
    }

    /// Copies the elements of all arrays.
    async fn run(&self, journal: &Journal, resumed: bool) -> Result<Copied> {
        let bytes: Vec<u64> = self.arrays().map(|(_, _, t)| decoded_bytes(&t.meta)).collect::<Result<_>>()?;
        let total = bytes.iter().fold(0, |a: u64, b| a.saturating_add(*b));
        let run = self.start(Some(journal), total);
        for (step, array, target) in self.arrays() {
            let made = self.making(step, target)?;
            let copied = async {
                if !target.verbatim {
                    return recode::copy(&run, array, &made, target).await;
                }
                verbatim::copy(&run, array, &made, resumed).await?;
                missing::write(array, &made, Some(&run)).await
            };
            copied.await.map_err(|e| e.within(format_args!("copying {}", shown(&step.node.path))))?;
        }
        if self.options.verify {
            for (step, array, target) in self.arrays() {
                recode::verify(&run, array, &self.making(step, target)?, target)
                    .await
                    .map_err(|e| e.within(format_args!("verifying {}", shown(&step.to))))?;
            }
        }
        let count = |n: usize| num::u64_of(n);
        Ok(Copied {
            arrays: count(self.arrays().count()),
            groups: count(self.steps.len() - self.arrays().count()),
            bytes: total,
            verbatim: count(self.arrays().filter(|(_, _, target)| target.verbatim).count()),
            resumed,
            notes: Vec::new(),
        })
    }

    /// Fails, before anything is copied, if the documents of the copy do not mean the same as those of the source.
    fn verify_meaning(&self) -> Result<()> {
        for (step, array, target) in self.arrays() {
            if let Some(what) = target.difference(array.meta(), &target.meta, step.kept) {
                return Err(differing(what, &step.to));
            }
        }
        Ok(())
    }

    /// Notes about the copy. `others` is the number of source objects that are not part of the Zarr.
    fn notes(&self, others: u64) -> Vec<Note> {
        let format = self.options.format;
        let mut notes: Vec<Note> = self
            .steps
            .iter()
            .filter_map(|s| conversion_note(&s.node, format.unwrap_or(s.node.meta.format())))
            .collect();
        if let Some(to) = &self.options.data_type {
            let kept = self.arrays().filter(|(_, _, t)| t.cast.is_none() && t.meta.data_type != *to);
            notes.extend(kept.map(|(step, array, _)| {
                let t = &array.meta().data_type;
                format!("{}: its elements are not numbers and stay {t}", shown(&step.node.path)).into()
            }));
        }
        notes.extend(self.above.iter().map(|path| {
            let from = shown(&self.from);
            format!(
                "the coordinate {} is above {from} and was not copied; copy the group that contains both",
                shown(path)
            )
            .into()
        }));
        match others {
            // What was left out was not selected.
            _ if !self.options.query.is_empty() => {}
            0 => {}
            1 => notes.push("1 other file, which is not part of the Zarr, was not copied".to_owned().into()),
            n => {
                notes.push(format!("{n} other files, which are not part of the Zarr, were not copied").into())
            }
        }
        notes
    }

    /// The documents of a node of the copy.
    fn stored(&self, step: &CopyStep) -> Result<(Format, Stored)> {
        Ok(match (&step.node.meta, &step.copy) {
            (NodeMeta::Array(old), Some((_, target))) if *old != target.meta => {
                (target.meta.format, write::array(&target.meta)?)
            }
            (NodeMeta::Group(group), _)
                if self.options.format.is_some_and(|f| f != group.format) || step.coordinates.is_some() =>
            {
                let attributes = Arc::new(step.attributes(group));
                let mut group = GroupMeta { attributes, consolidated: None, ..group.clone() };
                if let Some(format) = self.options.format.filter(|f| *f != group.format) {
                    group = convert::group(&group, format);
                }
                (group.format, write::group(&group))
            }
            // Unchanged, including fields unknown to zaro.
            (meta, _) => (meta.format(), write::as_stored(meta)),
        })
    }

    /// Whether a group of the source has consolidated metadata.
    async fn carries(&self, node: &Node) -> Result<bool> {
        match &node.meta {
            NodeMeta::Group(group) if group.format == Format::V2 => {
                self.source.exists(&join(&node.path, ".zmetadata")).await
            }
            NodeMeta::Group(group) => Ok(group.consolidated.as_ref().is_some_and(|below| !below.is_empty())),
            NodeMeta::Array(_) => Ok(false),
        }
    }

    /// Puts the documents of all nodes; that of the top comes last, so that the copy appears when it is complete.
    async fn publish(&self, journal: &Journal, resumed: bool) -> Result<()> {
        // The place is still ours.
        journal.write().await?;
        for (i, step) in self.steps.iter().enumerate().rev() {
            let (format, stored) = self.stored(step)?;
            // An earlier run may have come this far; otherwise somebody else created it meanwhile.
            let there = i == 0 && resumed && hierarchy::find(self.store, &step.to).await?.is_some();
            hierarchy::put_documents(self.store, &step.to, format, stored, i == 0 && !there).await?;
        }
        hierarchy::consolidate_above(self.store, &self.to).await?;
        // Groups below the top that had consolidated metadata get it in the copy.
        if self.options.consolidate != Some(false) {
            let mut carriers = Vec::new();
            for some in self.steps.get(1..).unwrap_or_default().chunks(16) {
                let carry = try_join_all(some.iter().map(|step| self.carries(&step.node))).await?;
                carriers.extend(some.iter().zip(carry).filter(|(_, carries)| *carries).map(|(step, _)| step));
            }
            for step in carriers.into_iter().rev() {
                hierarchy::consolidate(self.store, &step.to).await?;
            }
        }
        if self.consolidate {
            hierarchy::consolidate(self.store, &self.to).await?;
        }
        Ok(())
    }
}

/// Reads the documents of the copy, own and consolidated ones, and fails unless they mean the same as those of the
/// source.
async fn verify_documents(store: &SharedStore, steps: &[CopyStep]) -> Result<()> {
    let consolidated = Zarr::from_store(store.clone(), OpenOptions::default()).await?;
    // Consolidated metadata of a parent is not part of this copy.
    let is_root = steps.first().is_some_and(|step| step.to.is_empty());
    for step in steps {
        let own = hierarchy::find(store, &step.to).await?;
        let carried = if is_root && consolidated.is_consolidated() {
            Some(consolidated.node(&step.to).await?)
        } else {
            None
        };
        let lost = || Error::invalid("the copy lacks this node").with_node(shown(&step.to));
        for meta in [&own.ok_or_else(lost)?.meta].into_iter().chain(carried.as_ref().map(|node| &node.meta)) {
            let differs = match (&step.node.meta, meta, &step.copy) {
                (NodeMeta::Group(old), NodeMeta::Group(new), _) => {
                    (step.attributes(old) != *new.attributes).then_some("the attributes")
                }
                (NodeMeta::Array(old), NodeMeta::Array(new), Some((_, target))) => {
                    target.difference(old, new, step.kept)
                }
                _ => Some("the kind of the node"),
            };
            if let Some(what) = differs {
                return Err(differing(what, &step.to));
            }
        }
    }
    Ok(())
}

fn differing(what: &str, node: &str) -> Error {
    Error::invalid(format!("the copy differs from the source in {what}")).with_node(shown(node))
}

pub(crate) fn decoded_bytes(meta: &ArrayMeta) -> Result<u64> {
    Ok(num::product(&meta.shape)?.saturating_mul(num::u64_of(meta.data_type.size())))
}

/// Whether this is a group of an OME-Zarr image, whose arrays are its levels.
fn is_image(meta: &NodeMeta) -> bool {
    let attributes = meta.attributes();
    let ome = attributes.get("ome").unwrap_or(attributes);
    matches!(meta, NodeMeta::Group(_)) && ome.get("multiscales").is_some()
}

/// What a conversion of the array at `path` keeps.
///
/// Image levels are not variables, although V3 names their dimensions: V2 readers expect a fill value.
fn kept(path: &str, to: Format, is_image: impl Fn(&str) -> bool) -> convert::Kept {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    if to == Format::V2 && is_image(above) { convert::Kept::Fill } else { convert::Kept::Meaning }
}
