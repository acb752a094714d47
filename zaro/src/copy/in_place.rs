//! Converting a hierarchy to another Zarr version in place: only documents change, chunks stay. The exceptions: missing
//! chunks that would read differently are written (`missing.rs`); and chunks with V3 keys that begin with `c`, which V2
//! does not have, are copied to new keys, and the old ones deleted at the very end.
//!
//! At every moment one version of the hierarchy is complete: new documents lie beside the old ones until all are
//! verified (`hierarchy/transaction.rs`). A killed conversion is finished by rerunning it. If the other version is
//! requested instead, it is undone, as long as no old document was deleted.

use std::collections::HashSet;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::single::Single;
use super::target::CopyTarget;
use super::{CopyOptions, CopyRun, is_image, kept, missing, recode, verbatim};
use crate::array::Array;
use crate::boxed;
use crate::context::Context;
use crate::error::{Error, Hint, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::hierarchy::{self, Chunks, PendingChange};
use crate::journal::{Intent, Journal, Left, NodeSource, check_nodes};
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{ArrayMeta, ChunkKeys, Format, Json, Mode, NodeMeta, consolidate, convert};
use crate::num;
use crate::store::local::check_space;
use crate::store::{SharedStore, StoreExt as _};
use crate::task::{Task, Unit};

const OPERATION: &str = "copy --in-place";

/// Maximum number of documents in flight.
const AT_ONCE: usize = 16;

/// Converts the node at `path` and all below it to the version `to`, and returns the number of converted nodes: none,
/// if it already had that version and an unfinished conversion to the other one was undone.
///
/// # Errors
/// `Unsupported`, before anything is changed, if the chunks of an array would have to be re-encoded: then it has to be
/// copied.
#[boxed]
pub async fn convert_in_place(store: &SharedStore, path: &str, to: Format) -> Result<usize> {
    convert_in_place_with(store, path, to, &CopyOptions::default()).await
}

/// As [`convert_in_place`]. Of the options, only `verify` and those related to it are used: before the old documents
/// are deleted, every array is read with the old and the new ones; if anything differs or cannot be read, the
/// conversion is undone.
#[boxed]
pub async fn convert_in_place_with(
    store: &SharedStore,
    path: &str,
    to: Format,
    options: &CopyOptions,
) -> Result<usize> {
    let path = normal(path)?;
    let placed = |e: Error| e.with_node(shown(&path)).with_store(store);
    if let Some(left) = Left::find(store, &path).await? {
        // If the hierarchy was changed since, its current state is converted.
        if let Some(nodes) = take_up(store, &path, &left, to, options).await.map_err(placed)? {
            return Ok(nodes);
        }
    }
    if opened(store, to).await?.direct_node(&path).await?.is_some() {
        return Err(placed(Error::usage(format!("this is Zarr V{} already", to.number()))));
    }
    let from = other(to);
    let zarr = opened(store, from).await?;
    for above in ancestors(&path) {
        if zarr.direct_node(above).await?.is_some() {
            let (above, from) = (shown(above), from.number());
            return Err(placed(Error::usage(format!(
                "it is inside {above}, which is Zarr V{from} and would lose it; convert that instead"
            ))));
        }
    }
    let nodes = walk(&zarr, &path).await?;
    let images = images(&nodes);
    let mut made: Vec<(String, Stored)> = Vec::with_capacity(nodes.len());
    let (mut lacking, mut moved) = (Vec::new(), Moved(Vec::new()));
    for node in &nodes {
        let kept = kept(&node.path, to, |above| images.contains(above));
        let documents = documents(store, node, to, kept, &mut lacking, &mut moved)
            .await
            .map_err(|e| e.with_node(shown(&node.path)))?;
        made.push((node.path.clone(), documents));
    }
    if is_consolidated(store, &path, from).await? {
        let (name, document) = consolidate::carrying(to, &path, &made)?;
        if let Some((_, stored)) = made.first_mut() {
            stored.retain(|(own, _)| *own != name);
            stored.push((name, document));
        }
    }
    // The root comes first in a walk, so last here.
    let put: Vec<(String, Json)> = made
        .into_iter()
        .rev()
        .flat_map(|(node, stored)| stored.into_iter().rev().map(move |(name, d)| (join(&node, name), d)))
        .collect();
    let delete = old_keys(&nodes, from, &path);
    let plan =
        InPlacePlan { to, nodes: nodes.len(), change: PendingChange { put, delete, chunks: moved.old() } };
    plan.check_free(store).await?;
    moved.check(store).await?;
    // Chunks that read the same in the old version, written or not. After a kill here, the conversion restarts.
    for (old, new) in lacking {
        missing::write(&old, &new, None).await?;
    }
    let said = Json::from([("zarr_format", Json::int(to.number()))]);
    let source = documents_of(store, &path, &nodes, from);
    let journal = Journal::create_for(
        store,
        &path,
        &Intent { operation: OPERATION, source, options: said, plan: plan.json() },
    )
    .await?;
    // From now on others see that the whole hierarchy is being converted. Their earlier changes count.
    let kinds: Vec<(&str, bool)> =
        nodes.iter().map(|n| (n.path.as_str(), matches!(n.meta, NodeMeta::Array(_)))).collect();
    let settled = async {
        check_nodes(store, &kinds).await?;
        let now = walk(&opened(store, from).await?, &path).await?;
        match documents_of(store, &path, &now, from) == documents_of(store, &path, &nodes, from) {
            true => Ok(()),
            false => Err(placed(Error::conflict(
                "it was changed by somebody else meanwhile; nothing was converted, rerun the command",
            ))),
        }
    };
    if let Err(e) = settled.await {
        journal.end().await?;
        return Err(e);
    }
    if let Err(e) = moved.bring(store, &path, &nodes, &journal).await {
        plan.undo(store, journal).await?;
        return Err(e);
    }
    plan.carry_out(store, &path, journal, options).await
}

fn other(format: Format) -> Format {
    if format == Format::V3 { Format::V2 } else { Format::V3 }
}

async fn opened(store: &SharedStore, format: Format) -> Result<Zarr> {
    let options = OpenOptions { format: Some(format), use_consolidated: false, ..OpenOptions::default() };
    Zarr::from_store(store.clone(), options).await
}

fn images(nodes: &[Node]) -> HashSet<&str> {
    nodes.iter().filter(|n| is_image(&n.meta)).map(|n| n.path.as_str()).collect()
}

fn array(store: &SharedStore, path: &str, meta: &ArrayMeta, context: &Context) -> Result<Array> {
    Array::new(store.clone(), path, meta.clone(), Mode::Tolerant, Vec::new(), context)
}

/// All nodes of one version.
async fn walk(zarr: &Zarr, path: &str) -> Result<Vec<Node>> {
    let nodes = zarr.walk(path).await?;
    match zarr.take_damaged().into_iter().next() {
        Some(damaged) => Err(damaged.within("a node cannot be read and would be lost")),
        None => Ok(nodes),
    }
}

/// The old documents, as a journal records them.
fn documents_of(store: &SharedStore, path: &str, nodes: &[Node], from: Format) -> Json {
    let source = NodeSource::new(store, path, nodes.iter().map(|n| (n.path.as_str(), &n.meta)));
    let mut json = Json::object();
    json.set("zarr_format", Json::int(from.number()));
    json.set("documents", Json::string(source.documents()));
    json
}

/// Finishes, undoes or refuses an unfinished conversion; `None` if it was undone and has to be restarted.
async fn take_up(
    store: &SharedStore,
    path: &str,
    left: &Left,
    to: Format,
    options: &CopyOptions,
) -> Result<Option<usize>> {
    left.refuse_alive()?;
    if !left.is(OPERATION) {
        return Err(left.refusal(&[], false));
    }
    let plan = left.document.get("plan").and_then(|plan| InPlacePlan::parse(plan, path));
    let plan = plan.ok_or_else(|| Error::invalid("the journal of the conversion is damaged"))?;
    let begun = plan.to.number();
    if left.document.get("proved").is_some() {
        // The new documents are complete, and old ones are being deleted.
        if plan.to != to {
            let what = format!(
                "a conversion to Zarr V{begun} is almost finished here; finish it before converting back"
            );
            let finish = Hint::option("zarr_format", "finishes it").set_to(begun);
            return Err(Error::usage(what).or_hint(finish));
        }
        return plan.carry_out(store, path, left.own().await?, options).await.map(Some);
    }
    let from = other(plan.to);
    let zarr = opened(store, from).await?;
    let nodes = match zarr.direct_node(path).await? {
        Some(_) => walk(&zarr, path).await?,
        None => Vec::new(),
    };
    let same = left.document.get("source") == Some(&documents_of(store, path, &nodes, from));
    // Chunks with new keys may be outdated: they are copied again.
    if plan.to == to && same && plan.change.chunks.is_empty() {
        return plan.carry_out(store, path, left.own().await?, options).await.map(Some);
    }
    if nodes.is_empty() {
        return Err(Error::invalid(format!(
            "a conversion to Zarr V{begun} was begun here, and the documents of V{} are gone; .zaro-journal.json has the \
             new ones",
            from.number()
        )));
    }
    plan.undo(store, left.own().await?).await?;
    Ok((plan.to != to).then_some(0))
}

/// What a conversion does.
struct InPlacePlan {
    to: Format,
    /// The number of nodes.
    nodes: usize,
    change: PendingChange,
}

impl InPlacePlan {
    fn json(&self) -> Json {
        let mut plan =
            Json::from([("zarr_format", Json::int(self.to.number())), ("nodes", Json::int(self.nodes))]);
        for (name, value) in self.change.members() {
            plan.set(name, value);
        }
        plan
    }

    fn parse(json: &Json, root: &str) -> Option<Self> {
        let to = match json.get("zarr_format")?.as_u64()? {
            2 => Format::V2,
            3 => Format::V3,
            _ => return None,
        };
        let nodes = num::usize_of(json.get("nodes")?.as_u64()?).ok()?;
        Some(Self { to, nodes, change: PendingChange::parse(json, root)? })
    }

    /// Fails if a new document already exists: at nodes that have both versions.
    async fn check_free(&self, store: &SharedStore) -> Result<()> {
        let keys: Vec<String> = self.change.put.iter().map(|(key, _)| key.clone()).collect();
        let mut found = stream::iter(keys)
            .map(|key| async move { Ok::<_, Error>((store.size(&key).await?, key)) })
            .buffered(AT_ONCE)
            .try_filter_map(|(size, key)| async move { Ok(size.map(|_| key)) })
            .boxed();
        match found.try_next().await? {
            None => Ok(()),
            Some(key) => Err(Error::usage(format!(
                "a Zarr V{} document already exists here; delete it or its node first",
                self.to.number()
            ))
            .with_key(key)),
        }
    }

    async fn carry_out(
        &self,
        store: &SharedStore,
        path: &str,
        journal: Journal,
        options: &CopyOptions,
    ) -> Result<usize> {
        self.change.put(store, &journal).await?;
        if options.verify
            && journal.get("proved").is_none()
            && let Err(e) = self.verify(store, path, &journal, options).await
        {
            self.undo(store, journal).await?;
            return Err(e.within("nothing was converted"));
        }
        self.change.finish(store, path, journal).await?;
        Ok(self.nodes)
    }

    /// Reads every array with the old and with the new documents, which both exist: all must mean the same.
    async fn verify(
        &self,
        store: &SharedStore,
        path: &str,
        journal: &Journal,
        options: &CopyOptions,
    ) -> Result<()> {
        let (old, new) = (opened(store, other(self.to)).await?, opened(store, self.to).await?);
        let nodes = walk(&old, path).await?;
        let images = images(&nodes);
        let memory = options.context.memory();
        let run = CopyRun {
            options,
            memory,
            meter: Task::default().meter(Unit::Bytes, None::<u64>),
            journal: Some(journal),
        };
        for node in &nodes {
            let at = |e: Error| e.with_node(shown(&node.path));
            let made = new.direct_node(&node.path).await?;
            let differs = match (&node.meta, made.map(|node| node.meta)) {
                (NodeMeta::Group(old), Some(NodeMeta::Group(new))) => {
                    (old.attributes != new.attributes).then_some("the attributes")
                }
                (NodeMeta::Array(old), Some(NodeMeta::Array(new))) => {
                    let keys = hierarchy::keys_found(store, &node.path, old).await?;
                    let old = ArrayMeta { keys, ..old.clone() };
                    let target = CopyTarget::same(&old, new)?;
                    let array =
                        |meta: &ArrayMeta| array(store, &node.path, meta, &options.context.share_of(4));
                    recode::verify(&run, &array(&old)?, &array(&target.meta)?, &target).await.map_err(at)?;
                    let kept = kept(&node.path, self.to, |above| images.contains(above));
                    target.difference(&old, &target.meta, kept)
                }
                _ => Some("the kind of the node"),
            };
            if let Some(what) = differs {
                return Err(at(Error::invalid(format!(
                    "the new documents differ from the old ones in {what}"
                ))));
            }
        }
        Ok(())
    }

    /// Only V2 lacks keys, those that V3 has with a prefix.
    async fn undo(&self, store: &SharedStore, journal: Journal) -> Result<()> {
        let keys = |chunks: &Chunks| ChunkKeys { prefixed: false, ..chunks.keys };
        let old = self.change.chunks.iter().filter(|chunks| chunks.keys.prefixed);
        let brought: Vec<Chunks> = old.map(|c| Chunks { keys: keys(c), ..c.clone() }).collect();
        self.change.undo(store, &brought, journal).await
    }
}

/// Arrays whose chunks need other keys, before and after.
struct Moved(Vec<(Array, Array)>);

impl Moved {
    /// Their chunks under the old keys.
    fn old(&self) -> Vec<Chunks> {
        let chunks = |(old, _): &(Array, Array)| {
            let meta = old.meta();
            Chunks { path: old.path().to_owned(), keys: meta.keys, rank: meta.shape.len() }
        };
        self.0.iter().map(chunks).collect()
    }

    /// Fails if a new key exists already, or if there is not enough space for a second copy of the chunks.
    async fn check(&self, store: &SharedStore) -> Result<()> {
        let mut bytes = 0u64;
        for (old, new) in &self.0 {
            hierarchy::check_unused(store, new.path(), new.meta()).await?;
            bytes = bytes.saturating_add(verbatim::stored_bytes(store, old.path()).await?);
        }
        if bytes > 0 {
            check_space(store.free_space(), bytes).map_err(|e| e.with_store(store))?;
        }
        Ok(())
    }

    /// Copies all chunks to their new keys, which no document refers to yet.
    async fn bring(&self, store: &SharedStore, path: &str, nodes: &[Node], journal: &Journal) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let content = NodeSource::new(store, path, nodes.iter().map(|n| (n.path.as_str(), &n.meta))).exact();
        let before = content.json(&store.to_string()).await?;
        let options = CopyOptions::default();
        let single = Single::new(&options, 0).with_journal(journal, false);
        for (old, new) in &self.0 {
            let brought = async {
                single.copy(old, new, true).await?;
                missing::write(old, new, Some(&single.run)).await
            };
            brought.await.map_err(|e| e.with_node(shown(old.path())))?;
        }
        content.unchanged(&before).await
    }
}

/// The document names of a version.
fn document_names(format: Format) -> &'static [&'static str] {
    match format {
        Format::V3 => &["zarr.json"],
        Format::V2 => &[".zarray", ".zgroup", ".zattrs", ".zmetadata"],
    }
}

/// The documents of a node in the version `to`.
///
/// An array whose missing chunks read differently there is added to `lacking`, before and after; one whose chunks need
/// other keys is added to `moved`.
async fn documents(
    store: &SharedStore,
    node: &Node,
    to: Format,
    kept: convert::Kept,
    lacking: &mut Vec<(Array, Array)>,
    moved: &mut Moved,
) -> Result<Stored> {
    match &node.meta {
        NodeMeta::Group(group) => Ok(write::group(&convert::group(group, to))),
        NodeMeta::Array(meta) => {
            // The new document must say where the chunks are, whatever the old one says.
            let keys = hierarchy::keys_found(store, &node.path, meta).await?;
            let meta = &ArrayMeta { keys, ..meta.clone() };
            let converted = convert::array(meta, to, convert::Keys::Keep, kept)?;
            let differ = converted.missing_chunks_differ(meta);
            if let Some(reason) = converted.recode {
                let copy = Hint::operation("copy", "to another place re-encodes them").with("zarr_format");
                return Err(Error::unsupported(format!("its chunks cannot stay as they are: {reason}"))
                    .or_hint(copy.set_to(to.number())));
            }
            let array =
                |meta: &ArrayMeta| array(store, &node.path, meta, &Context::shared().with_memory(1 << 20));
            if converted.meta.keys != meta.keys {
                moved.0.push((array(meta)?, array(&converted.meta)?));
            } else if differ {
                lacking.push((array(meta)?, array(&converted.meta)?));
            }
            write::array(&converted.meta)
        }
    }
}

/// The keys of the old documents, the root's first.
fn old_keys(nodes: &[Node], from: Format, root: &str) -> Vec<String> {
    let own = nodes.iter().flat_map(|n| {
        let names = document_names(from).iter().filter(|name| **name != ".zmetadata" || n.path == root);
        names.map(|name| join(&n.path, name))
    });
    let (mut carried, mut others): (Vec<String>, Vec<String>) =
        own.partition(|key| key.ends_with(".zmetadata"));
    carried.append(&mut others);
    carried
}

async fn is_consolidated(store: &SharedStore, path: &str, format: Format) -> Result<bool> {
    let (name, member) = match format {
        Format::V2 => (".zmetadata", "metadata"),
        Format::V3 => ("zarr.json", "consolidated_metadata"),
    };
    Ok(match store.get(&join(path, name), None).await? {
        Some(text) => Json::parse(&text).is_ok_and(|d| d.value.get(member).is_some_and(|m| *m != Json::Null)),
        None => false,
    })
}
