//! From one version to the other where it is: only documents change, chunks stay. At most, chunks that are missing are
//! written, where they would read as something else (`missing.rs`); and V3's keys that begin with `c`, which V2 does not
//! have, become others: the chunks are copied to them, and the old ones deleted at the very end.
//!
//! At every moment one version of the hierarchy is whole: a journal says what is going to be put and deleted; chunks are
//! brought to new keys, and new documents are put beside the old ones, that of the root last; all of these are read back
//! and compared; and only then are the old ones deleted, that of the root first, and chunks with old keys. A conversion
//! that was killed is finished by beginning it again. If the other version is asked for instead, it is undone, as long as
//! no old document was deleted.

use std::collections::{HashMap, HashSet};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::chunks::Chunks;
use super::single::Single;
use super::target::Target;
use super::{CopyOptions, Run, is_image, kept, missing, recode, verbatim};
use crate::array::Array;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::group::{Node, OpenOptions, Zarr};
use crate::hierarchy;
use crate::journal::{Intent, Journal, Left, Source, check_nodes};
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::write::{self, Stored};
use crate::meta::{ArrayMeta, ChunkKeys, Format, Json, Mode, NodeMeta, consolidate, convert};
use crate::num;
use crate::store::local::check_space;
use crate::store::{Condition, SharedStore, StoreExt as _};
use crate::task::{self, Task, Unit};

const OPERATION: &str = "copy --in-place";

/// Documents on their way at once.
const AT_ONCE: usize = 16;

/// Converts the node at `path` and all below it to the version `to`, and says how many nodes were converted: none, if it
/// was of that version, and a conversion to the other one that was not finished was undone.
///
/// # Errors
/// `Unsupported`, before anything is changed, if the chunks of an array would have to be coded anew: then it has to be
/// copied.
pub async fn convert_in_place(store: &SharedStore, path: &str, to: Format) -> Result<usize> {
    convert_in_place_with(store, path, to, &CopyOptions::default()).await
}

/// As [`convert_in_place`]. Of the options, `verify` and what belongs to it are heeded: before the old documents are
/// deleted, every array is read by the old and by the new ones; if anything differs or cannot be read, the conversion is
/// undone.
pub async fn convert_in_place_with(
    store: &SharedStore,
    path: &str,
    to: Format,
    options: &CopyOptions,
) -> Result<usize> {
    let path = normal(path)?;
    let placed = |e: Error| e.with_node(shown(&path)).with_store(store);
    if let Some(left) = Left::find(store, &path).await? {
        // If the hierarchy was changed since, what is there now is converted.
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
                "it lies in {above}, which is Zarr V{from}, and would be lost there; convert that"
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
        carry(&path, to, &mut made)?;
    }
    // The root comes first in a walk, so last here.
    let put: Vec<(String, Json)> = made
        .into_iter()
        .rev()
        .flat_map(|(node, stored)| stored.into_iter().rev().map(move |(name, d)| (join(&node, name), d)))
        .collect();
    let delete = old_keys(&nodes, from, &path);
    let plan = Plan { to, nodes: nodes.len(), put, delete, moved: moved.old() };
    plan.check_free(store).await?;
    moved.check(store).await?;
    // Chunks that read the same in the old version, written or not. Who is killed here begins anew.
    for (old, new) in lacking {
        missing::write(&old, &new, None).await?;
    }
    let mut said = Json::object();
    said.set("zarr_format", Json::int(to.number()));
    let source = documents_of(store, &path, &nodes, from);
    let journal = Journal::create_for(
        store,
        &path,
        &Intent { operation: OPERATION, source, options: said, plan: plan.json() },
    )
    .await?;
    // Others see from now on that all of this is worked on. What they did before counts.
    let kinds: Vec<(&str, bool)> =
        nodes.iter().map(|n| (n.path.as_str(), matches!(n.meta, NodeMeta::Array(_)))).collect();
    let settled = async {
        check_nodes(store, &kinds).await?;
        let now = walk(&opened(store, from).await?, &path).await?;
        match documents_of(store, &path, &now, from) == documents_of(store, &path, &nodes, from) {
            true => Ok(()),
            false => Err(placed(Error::conflict(
                "somebody else changed it at the same time; nothing was converted",
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
        Some(damaged) => Err(damaged.within("a node cannot be read, so that it would be lost")),
        None => Ok(nodes),
    }
}

/// What a journal says of the old documents.
fn documents_of(store: &SharedStore, path: &str, nodes: &[Node], from: Format) -> Json {
    let source = Source::new(store, path, nodes.iter().map(|n| (n.path.as_str(), &n.meta)));
    let mut json = Json::object();
    json.set("zarr_format", Json::int(from.number()));
    json.set("documents", Json::string(source.documents()));
    json
}

/// Finishes, undoes or refuses what somebody else began; `None` if it was undone and is to be begun anew.
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
    let plan = left.document.get("plan").and_then(Plan::parse);
    let plan = plan.ok_or_else(|| Error::invalid("the journal of the conversion is damaged"))?;
    let begun = plan.to.number();
    if left.document.get("proved").is_some() {
        // The new documents are whole, and old ones are deleted.
        if plan.to != to {
            return Err(Error::usage(format!(
                "a conversion to Zarr V{begun} is all but finished here; finish it with --zarr-format {begun}, and then \
                 convert it back"
            )));
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
    // Chunks with new keys may be those of yesterday: they are brought anew.
    if plan.to == to && same && plan.moved.is_empty() {
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

/// What a conversion puts and deletes.
struct Plan {
    to: Format,
    /// How many nodes there are.
    nodes: usize,
    /// The new documents, that of the root last.
    put: Vec<(String, Json)>,
    /// The keys of the old ones, that of the root first.
    delete: Vec<String>,
    /// Chunks that have other keys in the new version, as they are in the old one.
    moved: Vec<Chunks>,
}

impl Plan {
    fn json(&self) -> Json {
        let put = self.put.iter().map(|(key, document)| {
            let mut put = Json::object();
            put.set("key", Json::string(key.as_str()));
            put.set("document", document.clone());
            put
        });
        let mut plan = Json::object();
        plan.set("zarr_format", Json::int(self.to.number()));
        plan.set("nodes", Json::int(self.nodes));
        plan.set("put", Json::Array(put.collect()));
        plan.set("delete", Json::Array(self.delete.iter().map(Json::string).collect()));
        if !self.moved.is_empty() {
            plan.set("moved", Json::Array(self.moved.iter().map(Chunks::json).collect()));
        }
        plan
    }

    fn parse(json: &Json) -> Option<Self> {
        let put = |item: &Json| Some((item.get("key")?.as_str()?.to_owned(), item.get("document")?.clone()));
        let plan = Self {
            to: match json.get("zarr_format")?.as_u64()? {
                2 => Format::V2,
                3 => Format::V3,
                _ => return None,
            },
            nodes: num::usize_of(json.get("nodes")?.as_u64()?).ok()?,
            put: json.get("put")?.items()?.iter().map(put).collect::<Option<_>>()?,
            delete: json
                .get("delete")?
                .items()?
                .iter()
                .map(|k| k.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
            moved: match json.get("moved") {
                Some(moved) => moved.items()?.iter().map(Chunks::parse).collect::<Option<_>>()?,
                None => Vec::new(),
            },
        };
        // Whatever it says, nothing is put but new documents, and nothing deleted but old ones.
        let is = |key: &str, format: Format| {
            document_names(format).contains(&key.rsplit_once('/').map_or(key, |(_, name)| name))
        };
        let new = !plan.put.is_empty() && plan.put.iter().all(|(key, _)| is(key, plan.to));
        // V2 alone lacks keys, those of V3.
        let moved = plan.moved.iter().all(|chunks| plan.to == Format::V2 && chunks.keys.prefixed);
        (new && moved && plan.delete.iter().all(|key| is(key, other(plan.to)))).then_some(plan)
    }

    /// Fails if there are documents where new ones are to be: of nodes that have both versions.
    async fn check_free(&self, store: &SharedStore) -> Result<()> {
        let keys: Vec<String> = self.put.iter().map(|(key, _)| key.clone()).collect();
        let mut found = stream::iter(keys)
            .map(|key| async move { Ok::<_, Error>((store.size(&key).await?, key)) })
            .buffered(AT_ONCE)
            .try_filter_map(|(size, key)| async move { Ok(size.map(|_| key)) })
            .boxed();
        match found.try_next().await? {
            None => Ok(()),
            Some(key) => Err(Error::usage(format!(
                "a document of Zarr V{} is here already; delete it, or what it is of, first",
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
        if journal.get("proved").is_none() {
            for (key, document) in &self.put {
                journal.beat().await?;
                let _ = store.put(key, document.stored().into(), Condition::Always).await?;
            }
            self.prove(store).await?;
            if options.verify
                && let Err(e) = self.verify(store, path, &journal, options).await
            {
                self.undo(store, journal).await?;
                return Err(e.within("nothing was converted"));
            }
            journal.set("proved", Json::Bool(true)).await?;
        }
        for key in &self.delete {
            journal.beat().await?;
            store.delete(key).await?;
        }
        for chunks in &self.moved {
            journal.beat().await?;
            chunks.delete(store).await?;
        }
        journal.end().await?;
        store.finish().await?;
        Ok(self.nodes)
    }

    /// Reads all new documents back: every node must be there, as it is to be.
    async fn prove(&self, store: &SharedStore) -> Result<()> {
        let zarr = opened(store, self.to).await?;
        let zarr = &zarr;
        let wanted: HashMap<&str, &Json> = self.put.iter().map(|(key, d)| (key.as_str(), d)).collect();
        let wanted = &wanted;
        let mut paths: Vec<&str> =
            self.put.iter().map(|(key, _)| key.rsplit_once('/').map_or("", |(node, _)| node)).collect();
        paths.dedup();
        if paths.len() != self.nodes {
            return Err(Error::invalid("the documents of the conversion are not those of its nodes"));
        }
        task::each(AT_ONCE, paths, |path| async move {
            let wrong = || Error::invalid("what was put is not what is read").with_node(shown(path));
            let node = zarr.direct_node(path).await?.ok_or_else(wrong)?;
            for (name, found) in write::as_stored(&node.meta) {
                let key = join(path, name);
                let wanted = wanted.get(key.as_str()).map(|d| consolidate::without(d));
                if wanted != Some(consolidate::without(&found)) {
                    return Err(wrong());
                }
            }
            Ok(())
        })
        .await
    }

    /// Reads every array by the old and by the new documents, which both are there: all must mean the same.
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
        let run = Run {
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
                    let target = Target::same(&old, new)?;
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

    /// Deletes the new documents, that of the root first, and then chunks with new keys. Nothing else was changed yet.
    async fn undo(&self, store: &SharedStore, journal: Journal) -> Result<()> {
        for (key, document) in self.put.iter().rev() {
            journal.beat().await?;
            let found = store.get(key, None).await?;
            if let Some(found) = found
                && Json::parse(&found)?.value != *document
            {
                return Err(Error::conflict(
                    "this document was to be put by a conversion that was not finished, and was changed since; delete it, or \
                     finish the conversion",
                )
                .with_key(key));
            }
            // Where there is none, the temporary file of a put that was killed may be left.
            store.delete(key).await?;
        }
        for chunks in &self.moved {
            journal.beat().await?;
            Chunks { keys: without_prefix(chunks.keys), ..chunks.clone() }.delete(store).await?;
        }
        journal.end().await
    }
}

/// The keys of V2 that are nearest to these.
fn without_prefix(keys: ChunkKeys) -> ChunkKeys {
    ChunkKeys { prefixed: false, ..keys }
}

/// Arrays whose chunks need other keys, as they are and as they will be.
struct Moved(Vec<(Array, Array)>);

impl Moved {
    /// Their chunks as the old documents have them.
    fn old(&self) -> Vec<Chunks> {
        let chunks = |(old, _): &(Array, Array)| {
            let meta = old.meta();
            Chunks { path: old.path().to_owned(), keys: meta.keys, rank: meta.shape.len() }
        };
        self.0.iter().map(chunks).collect()
    }

    /// Fails if anything has the new keys already, or if there is no room for the chunks twice.
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

    /// Brings all chunks to their new keys, of which no document speaks yet.
    async fn bring(&self, store: &SharedStore, path: &str, nodes: &[Node], journal: &Journal) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let content = Source::new(store, path, nodes.iter().map(|n| (n.path.as_str(), &n.meta))).exact();
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

/// The names of documents of a version.
fn document_names(format: Format) -> &'static [&'static str] {
    match format {
        Format::V3 => &["zarr.json"],
        Format::V2 => &[".zarray", ".zgroup", ".zattrs", ".zmetadata"],
    }
}

/// The documents of a node in the version `to`.
///
/// An array whose missing chunks read as something else there is added to `lacking`, as it is and as it will be; one whose
/// chunks need other keys is added to `moved`.
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
                let to = to.number();
                return Err(Error::unsupported(format!(
                    "its chunks cannot stay as they are: {reason}; copy it instead, with zaro copy SRC DST --zarr-format {to}"
                )));
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
