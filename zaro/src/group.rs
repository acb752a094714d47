//! Hierarchies of groups and arrays, opened at their root.
//!
//! Opening makes as few requests as possible: `zarr.json` first (one request for a V3 array or a consolidated V3
//! group), then `.zmetadata`, then `.zarray`, `.zgroup` and `.zattrs` concurrently. Consolidated metadata is trusted
//! without reading the nodes' own documents, unless [`OpenOptions::use_consolidated`] is off.

#[cfg(feature = "image")]
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::array::Array;
use crate::boxed;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::path::{join, name_fault, normal, shown};
use crate::meta::{self, ArrayMeta, Finding, Findings, Format, GroupMeta, Json, Mode, NodeMeta, v2, v3};
use crate::store::options::StoreOptions;
use crate::store::{GetOptions, JOURNAL, Listing, Object, SharedStore, StoreExt as _};
use crate::suggest;

/// Metadata documents fetched concurrently.
const DOCUMENTS_IN_FLIGHT: usize = 32;

/// The largest metadata document that is read: 256 MiB.
const MAX_DOCUMENT: u64 = 256 << 20;

/// Options for opening.
#[derive(Debug, Clone, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct OpenOptions {
    /// Tolerant or strict.
    pub mode: Mode,
    /// Look for this version only.
    pub format: Option<Format>,
    /// Trust consolidated metadata.
    pub use_consolidated: bool,
    /// How to reach the store, and the context to use.
    pub store: StoreOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { mode: Mode::Tolerant, format: None, use_consolidated: true, store: StoreOptions::default() }
    }
}

impl OpenOptions {
    /// Sets the context, with its memory, threads and connections.
    #[must_use]
    pub fn with_context(mut self, context: &Context) -> Self {
        self.store.context = context.clone();
        self
    }

    /// Uses a separate context with `bytes` of memory.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Self {
        let context = self.store.context.with_memory(bytes);
        self.with_context(&context)
    }
}

/// An open Zarr: a store, and its known nodes.
#[derive(Debug)]
pub struct Zarr {
    store: SharedStore,
    options: OpenOptions,
    root: Option<Node>,
    /// Whether the store refused `zarr.json` but has V2 documents: some buckets refuse missing keys if the user may not
    /// list. This is tolerated for metadata only; a refused chunk is an error.
    refuses: bool,
    /// Whether `.zmetadata` belongs to references in Parquet.
    references: AtomicBool,
    /// Damaged nodes that listings left out.
    damaged: Mutex<Vec<Error>>,
    /// Documents of nodes below the root, by path, if the root has consolidated metadata.
    consolidated: Option<BTreeMap<String, Documents>>,
    /// Irregularities in V2 consolidated metadata.
    findings: Vec<Finding>,
    /// The folder of an archive that was entered automatically: paths may begin with it.
    folder: Option<String>,
}

/// A node: a group or an array, with its path.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its path without a leading slash; `""` for the root.
    pub path: String,
    /// Its metadata.
    pub meta: NodeMeta,
    /// Irregularities in its metadata.
    pub findings: Vec<Finding>,
}

impl Node {
    /// The last part of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The documents of one node.
#[derive(Debug, Clone)]
enum Documents {
    /// `zarr.json`
    V3(Arc<Json>),
    /// `.zarray`, `.zgroup`, `.zattrs`
    V2 { array: Option<Arc<Json>>, group: Option<Arc<Json>>, attributes: Option<Arc<Json>> },
}

impl Zarr {
    /// Opens the hierarchy in `store`.
    ///
    /// A root without metadata is not an error yet: nodes may still be found below it by path.
    #[boxed]
    pub async fn from_store(store: SharedStore, options: OpenOptions) -> Result<Self> {
        let mut zarr = Self {
            store,
            options,
            root: None,
            consolidated: None,
            refuses: false,
            references: AtomicBool::new(false),
            damaged: Mutex::default(),
            findings: Vec::new(),
            folder: None,
        };
        let root = match zarr.options.format {
            Some(Format::V2) => Ok(None),
            Some(Format::V3) | None => zarr.fetch_v3("").await,
        };
        let (root, refusal) = match root {
            // The key may be missing without the user being allowed to know: V2 keys will tell.
            Err(e) if e.kind() == ErrorKind::NotPermitted && zarr.options.format.is_none() => (None, Some(e)),
            root => (root?, None),
        };
        zarr.refuses = refusal.is_some();
        if let Some(mut node) = root {
            if let NodeMeta::Group(GroupMeta { consolidated, .. }) = &mut node.meta
                && zarr.options.use_consolidated
            {
                zarr.consolidated = consolidated.take().map(flatten);
            }
            zarr.root = Some(node);
            return Ok(zarr);
        }
        if zarr.options.format != Some(Format::V3) {
            if zarr.options.use_consolidated {
                (zarr.consolidated, zarr.findings) = zarr.zmetadata().await?;
            }
            zarr.root = match zarr.consolidated.as_ref().and_then(|c| c.get("")) {
                Some(documents) => Some(zarr.interpret("", documents.clone())?),
                None => zarr.fetch_v2("").await?,
            };
        }
        match refusal {
            Some(e) if zarr.root.is_none() && zarr.consolidated.is_none() => Err(e),
            _ => Ok(zarr),
        }
    }

    /// `None` for a refusal, from a store that refuses missing keys.
    fn forgive<T>(&self, found: Result<Option<T>>) -> Result<Option<T>> {
        match found {
            Err(e) if self.refuses && e.kind() == ErrorKind::NotPermitted => Ok(None),
            found => found,
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The same, with its documents read again.
    pub(crate) async fn reopened(&self) -> Result<Self> {
        Self::from_store(self.store.clone(), self.options.clone()).await
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Whether the root has consolidated metadata.
    #[must_use]
    pub fn is_consolidated(&self) -> bool {
        self.consolidated.is_some()
    }

    /// Irregularities in `.zmetadata` that belong to no single node.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The same, read again: for a Zarr that was opened without consolidated metadata.
    #[boxed]
    pub async fn zmetadata_findings(&self) -> Result<Vec<Finding>> {
        Ok(self.zmetadata().await?.1)
    }

    /// The same Zarr, whose paths may begin with `folder`, which was entered automatically.
    pub(crate) fn inside(self, folder: Option<String>) -> Self {
        Self { folder, ..self }
    }

    /// Whether the root has metadata of its own, or consolidated metadata.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some() || self.consolidated.is_some()
    }

    /// Whether this consists of references to bytes elsewhere.
    #[must_use]
    pub fn is_referenced(&self) -> bool {
        self.references.load(Ordering::Relaxed)
    }

    /// Records that it does.
    pub(crate) fn of_references(self) -> Self {
        self.references.store(true, Ordering::Relaxed);
        self
    }

    /// Whether this is a folder of references in Parquet, whose chunks are elsewhere.
    pub(crate) fn holds_references(&self) -> bool {
        self.references.load(Ordering::Relaxed)
    }

    /// Normalises a path in this Zarr: `/a/b/`, `a//b` and `a/b` are all `a/b`; the root is `""`. The name of an
    /// automatically entered archive folder is removed from the front.
    pub fn key_of(&self, path: &str) -> Result<String> {
        let path = normal(path)?;
        let rest = self.folder.as_ref().and_then(|folder| path.strip_prefix(folder.as_str()));
        match rest.map(|rest| (rest, rest.strip_prefix('/'))) {
            Some(("", _)) => Ok(String::new()),
            Some((_, Some(below))) => Ok(below.to_owned()),
            _ => Ok(path),
        }
    }

    /// The node at `path`.
    #[boxed]
    pub async fn node(&self, path: &str) -> Result<Node> {
        let path = self.key_of(path)?;
        match self.find(&path).await? {
            Some(node) => Ok(node),
            None => Err(self.absent(&path).await),
        }
    }

    /// Opens the array at `path`. If it is a group, the error lists its arrays.
    #[boxed]
    pub async fn array(&self, path: &str) -> Result<Array> {
        let node = self.node(path).await?;
        match node.meta {
            NodeMeta::Array(meta) => self.array_of(&node.path, meta, node.findings),
            NodeMeta::Group(_) => {
                let what = match self.children(&node.path).await {
                    Ok(children) => describe(&children),
                    Err(_) => "a group (its members cannot be listed here)".to_owned(),
                };
                Err(Error::not_found(format!("this is {what}; name an array"))
                    .with_node(shown(&node.path))
                    .with_store(&self.store))
            }
        }
    }

    /// Opens the array at the normalised path `path`, with known metadata.
    pub(crate) fn array_of(&self, path: &str, meta: ArrayMeta, findings: Vec<Finding>) -> Result<Array> {
        let context = &self.options.store.context;
        let array = Array::new(self.store.clone(), path, meta, self.options.mode, findings, context);
        array.map(Array::announced)
    }

    /// Whether there are V2 documents beside the `zarr.json` at `path`, where a node of `format` was found. Not checked
    /// in remote stores: it would cost two requests per node.
    #[boxed]
    pub async fn has_both_versions(&self, path: &str, format: Format) -> Result<bool> {
        if format == Format::V2 || self.options.format.is_some() || self.store.is_remote() {
            return Ok(false);
        }
        let (array, group) = (join(path, ".zarray"), join(path, ".zgroup"));
        let (array, group) = futures::try_join!(self.store.size(&array), self.store.size(&group))?;
        Ok(array.is_some() || group.is_some())
    }

    /// The nodes directly below the group at `path`, sorted by name.
    ///
    /// A damaged node does not hide the others: it is left out, and returned by [`Zarr::take_damaged`]. In strict mode
    /// it is an error.
    #[boxed]
    pub async fn children(&self, path: &str) -> Result<Vec<Node>> {
        let path = self.key_of(path)?;
        if let Some(known) = &self.consolidated {
            let below: Vec<_> = known
                .iter()
                .filter(|(p, _)| !p.is_empty() && parent(p) == path)
                .map(|(p, d)| (p.clone(), d.clone()))
                .collect();
            let found = below.into_iter().map(|(p, d)| self.leave_out(self.interpret(&p, d).map(Some)));
            return Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect());
        }
        let listing = self.listing(&path).await?;
        // V3 reserves these names; anything else that is not a node, such as a hidden folder, has no document.
        let v3 = self.root.as_ref().is_some_and(|r| r.meta.format() == Format::V3);
        let mut names = listing.prefixes;
        let mut proved = self.store.lists_all();
        if !proved {
            // A custom page: if it does not list the document that was read from the folder, it is not its index.
            proved = listing.objects.iter().any(|n| n == if v3 { "zarr.json" } else { ".zgroup" });
            if v3 && !proved {
                let what =
                    "the server's index page does not list the existing zarr.json, so it cannot be trusted";
                return Err(self.placed(Error::unsupported(what), &path));
            }
            // Some servers list folders like files; a name with a suffix is a file.
            names.extend(listing.objects.into_iter().filter(|n| !n.contains('.')));
            names.sort();
        }
        let names = names.into_iter().filter(|n| !(v3 && n.starts_with("__")));
        let found: Vec<Option<Node>> = stream::iter(names.map(|n| join(&path, &n)))
            .map(|p| async move { self.leave_out(self.find(&p).await) })
            .buffered(DOCUMENTS_IN_FLIGHT)
            .try_collect()
            .await?;
        // Many servers hide names that begin with a dot. Then the page has to name something else that exists.
        if !proved && found.iter().all(Option::is_none) {
            let what =
                "the server's index page lists nothing that is part of this group, so it cannot be trusted";
            return Err(self.placed(Error::unsupported(what), &path));
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Lists the group at `path`. A listing of a remote store that does not even contain the document of the group is
    /// not trusted.
    async fn listing(&self, path: &str) -> Result<Listing> {
        let names_document = |listing: &Listing| {
            listing.objects.iter().any(|name| ["zarr.json", ".zgroup", ".zarray"].contains(&name.as_str()))
        };
        for _ in 0..2 {
            let listing = self.store.list(path).await?;
            // The group may be created at this moment: then a second listing tells.
            if !self.store.lists_all()
                || !self.store.is_remote()
                || names_document(&listing)
                || self.find(path).await?.is_none()
            {
                return Ok(listing);
            }
        }
        let what = "the store's listing lacks the existing metadata document, so it cannot be trusted";
        Err(self.placed(Error::io(what), path))
    }

    /// The errors of nodes that listings left out since the last call.
    pub fn take_damaged(&self) -> Vec<Error> {
        std::mem::take(&mut *self.damaged.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Leaves a damaged node out of a listing. A failing store is still an error.
    fn leave_out(&self, node: Result<Option<Node>>) -> Result<Option<Node>> {
        match node {
            Err(e)
                if self.options.mode == Mode::Tolerant
                    && matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) =>
            {
                self.damaged.lock().unwrap_or_else(PoisonError::into_inner).push(e);
                Ok(None)
            }
            node => node,
        }
    }

    /// The node at `path` and everything below it, sorted by path. Chunk keys are never walked.
    #[boxed]
    pub async fn walk(&self, path: &str) -> Result<Vec<Node>> {
        let path = self.key_of(path)?;
        let top = self.node(&path).await?;
        if let Some(known) = &self.consolidated {
            let start = if path.is_empty() { String::new() } else { format!("{path}/") };
            let below = known.iter().filter(|(p, _)| !p.is_empty() && **p != path && p.starts_with(&start));
            let mut nodes = vec![top];
            for (p, d) in below {
                nodes.extend(self.leave_out(self.interpret(p, d.clone()).map(Some))?);
            }
            sort(&mut nodes);
            return Ok(nodes);
        }
        let mut nodes = vec![top];
        let mut open: Vec<String> = groups(&nodes);
        while !open.is_empty() {
            let found: Vec<Vec<Node>> = stream::iter(open)
                .map(|p| async move { self.children(&p).await })
                .buffered(DOCUMENTS_IN_FLIGHT)
                .try_collect()
                .await?;
            let found: Vec<Node> = found.into_iter().flatten().collect();
            open = groups(&found);
            nodes.extend(found);
        }
        sort(&mut nodes);
        Ok(nodes)
    }

    /// The node at the normalised path `path`, read from its own documents regardless of consolidated metadata.
    #[boxed]
    pub async fn direct_node(&self, path: &str) -> Result<Option<Node>> {
        if self.options.format != Some(Format::V2)
            && let Some(node) = self.fetch_v3(path).await?
        {
            return Ok(Some(node));
        }
        if self.options.format == Some(Format::V3) { Ok(None) } else { self.fetch_v2(path).await }
    }

    /// The node at the normalised path `path`, if it exists.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Node>> {
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        if let Some(known) = &self.consolidated {
            return match known.get(path) {
                Some(documents) => self.interpret(path, documents.clone()).map(Some),
                // Outdated metadata must not hide an existing node.
                None => self.direct_node(path).await,
            };
        }
        match self.root.as_ref().map(|r| r.meta.format()) {
            Some(Format::V3) => self.fetch_v3(path).await,
            Some(Format::V2) => self.fetch_v2(path).await,
            None => self.direct_node(path).await,
        }
    }

    /// The error for a missing node: whether the store or the node is missing, and what may have been meant.
    pub(crate) async fn absent(&self, path: &str) -> Error {
        let error = |what: String| Error::not_found(what).with_store(&self.store);
        if let Ok(Some(what)) = unfinished(&self.store, path).await {
            return error(what).with_node(shown(path));
        }
        if !self.has_root()
            && let Ok(listing) = self.store.list("").await
        {
            if listing == Listing::default() {
                return error("no Zarr here: the place does not exist or is empty".to_owned());
            }
            if path.is_empty() {
                let folders = listing.prefixes.iter().map(|p| format!("{p}/"));
                let names: Vec<String> = folders.chain(listing.objects).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                return error(format!("no Zarr metadata here; found {}", suggest::listed(&names)));
            }
        }
        let error = |what: String| error(what).with_node(shown(path));
        if path.is_empty() {
            return error("no zarr.json, .zmetadata, .zarray or .zgroup here".to_owned());
        }
        // The first missing name of the path.
        let mut around = parent(path);
        while !around.is_empty() && !matches!(self.find(around).await, Ok(Some(_))) {
            around = parent(around);
        }
        let below = path.strip_prefix(around).unwrap_or(path).trim_start_matches('/');
        let name = below.split('/').next().unwrap_or(below);
        let names = self.names_near(around, name).await;
        let mut what = "no such node".to_owned();
        if name != below {
            what.push_str(&format!(": {} has no {name:?}", shown(around)));
        }
        let meant = suggest::closest(name, names.iter().map(String::as_str));
        if let Some(meant) = meant {
            let rest = below.strip_prefix(name).unwrap_or_default();
            what.push_str(&format!("; did you mean {:?}?", format!("{}{rest}", join(around, meant))));
        }
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let between = if meant.is_some() { "" } else { ";" };
            what.push_str(&format!("{between} {} has {}", shown(around), suggest::listed(&names)));
        }
        error(what)
    }

    /// The names of nodes directly below `group`, closest to `name` first. If there are very many, only the closest.
    async fn names_near(&self, group: &str, name: &str) -> Vec<String> {
        const MOST: usize = 64;
        let names: Vec<String> = match &self.consolidated {
            Some(known) => {
                let below = known.keys().filter(|p| !p.is_empty() && parent(p) == group);
                below.map(|p| p.rsplit('/').next().unwrap_or(p).to_owned()).collect()
            }
            None => self.store.list(group).await.map(|l| l.prefixes).unwrap_or_default(),
        };
        let near = suggest::by_closeness(name, names.iter().map(String::as_str));
        let near = near.into_iter().take(MOST).map(str::to_owned);
        let nodes = stream::iter(near).map(|n| async move {
            let found = self.find(&join(group, &n)).await;
            matches!(found, Ok(Some(_))).then_some(n)
        });
        nodes.buffered(DOCUMENTS_IN_FLIGHT).filter_map(std::future::ready).collect().await
    }

    async fn document(&self, key: &str, f: &mut Findings) -> Result<Option<Json>> {
        match self.store.get_opts(key, GetOptions::at_most(MAX_DOCUMENT)).await? {
            None => Ok(None),
            Some(Object { bytes, .. }) => meta::parse(&bytes, f).map(Some).map_err(|e| e.with_key(key)),
        }
    }

    async fn fetch_v3(&self, path: &str) -> Result<Option<Node>> {
        let mut f = Findings::new(self.options.mode, shown(path));
        let key = join(path, "zarr.json");
        let document = self.document(&key, &mut f).await.map_err(|e| self.placed(e, path))?;
        let Some(document) = document else { return Ok(None) };
        for name in path.split('/').filter(|_| !path.is_empty()) {
            if let Some(fault) = name_fault(name) {
                let named = f.deviation("v3/node-name", "", format!("{name:?}: {fault}"));
                named.map_err(|e| self.placed(e.with_key(&key), path))?;
            }
        }
        let meta = v3::node(document, &mut f).map_err(|e| self.placed(e.with_key(&key), path))?;
        Ok(Some(Node { path: path.to_owned(), meta, findings: f.into_list() }))
    }

    async fn fetch_v2(&self, path: &str) -> Result<Option<Node>> {
        let fetch = async |name: &str| {
            let mut f = Findings::new(self.options.mode, shown(path));
            let document = self.forgive(self.document(&join(path, name), &mut f).await);
            let document = document.map_err(|e| self.placed(e, path))?;
            Ok::<_, Error>((document, f.into_list()))
        };
        let (array, group, attributes) =
            futures::try_join!(fetch(".zarray"), fetch(".zgroup"), fetch(".zattrs"))?;
        if array.0.is_none() && group.0.is_none() {
            return Ok(None);
        }
        let odd = [array.1, group.1, attributes.1].concat();
        let documents = Documents::V2 {
            array: array.0.map(Arc::new),
            group: group.0.map(Arc::new),
            attributes: attributes.0.map(Arc::new),
        };
        let mut node = self.interpret(path, documents)?;
        node.findings.extend(odd);
        Ok(Some(node))
    }

    /// `.zmetadata`, and its irregularities. It only repeats the nodes' own documents: if it is damaged, those are read
    /// instead.
    async fn zmetadata(&self) -> Result<(Option<BTreeMap<String, Documents>>, Vec<Finding>)> {
        let mut f = Findings::new(self.options.mode, "/");
        let nodes = match self.forgive(self.fetch_zmetadata(&mut f).await) {
            Err(e) if !f.strict() && e.kind() == ErrorKind::Invalid => {
                let read = "the nodes' own documents are read";
                f.tolerated("v2/consolidated", ".zmetadata", e.message(), read)?;
                None
            }
            nodes => nodes?,
        };
        Ok((nodes, f.into_list()))
    }

    /// `.zmetadata`: the documents of all nodes.
    async fn fetch_zmetadata(&self, f: &mut Findings) -> Result<Option<BTreeMap<String, Documents>>> {
        let placed = |e: Error| self.placed(e.with_key(".zmetadata"), "");
        let Some(document) = self.document(".zmetadata", f).await.map_err(placed)? else {
            return Ok(None);
        };
        let field = "zarr_consolidated_format";
        let version = document.get(field).map(Json::to_string);
        // References in Parquet keep their documents in a file of this name, with this field instead of the other.
        let references = document.get("record_size").is_some();
        self.references.store(references, Ordering::Relaxed);
        if version.as_deref() != Some("1") && !references {
            let wrong = version.map_or(format!("{field:?} is missing"), |v| format!("must be 1, not {v}"));
            f.tolerated("v2/consolidated-format", field, &wrong, "read as 1").map_err(placed)?;
        }
        let members = match document {
            Json::Object(members) => members.into_iter().find(|(n, _)| n == "metadata").map(|(_, v)| v),
            _ => None,
        };
        let Some(Json::Object(entries)) = members else {
            return Err(placed(Error::invalid("\"metadata\" must be an object").with_field("metadata")));
        };
        let mut nodes: BTreeMap<String, Documents> = BTreeMap::new();
        for (key, value) in entries {
            let (path, name) = key.rsplit_once('/').unwrap_or(("", &key));
            let Ok(path) = normal(path) else {
                let wrong = format!("{key:?} is not a valid node path");
                f.tolerated("v2/consolidated-path", "metadata", &wrong, "not used").map_err(placed)?;
                continue;
            };
            let empty = Documents::V2 { array: None, group: None, attributes: None };
            if let Documents::V2 { array, group, attributes } = nodes.entry(path).or_insert(empty) {
                match name {
                    ".zarray" => *array = Some(Arc::new(value)),
                    ".zgroup" => *group = Some(Arc::new(value)),
                    ".zattrs" => *attributes = Some(Arc::new(value)),
                    _ => {}
                }
            }
        }
        nodes.retain(|_, d| !matches!(d, Documents::V2 { array: None, group: None, .. }));
        Ok(Some(nodes))
    }

    fn interpret(&self, path: &str, documents: Documents) -> Result<Node> {
        let mut f = Findings::new(self.options.mode, shown(path));
        let meta = match documents {
            Documents::V3(document) => v3::shared(document, &mut f),
            Documents::V2 { array: Some(a), attributes, .. } => v2::array(a, attributes, &mut f)
                .map(NodeMeta::Array)
                .map_err(|e| e.with_key(join(path, ".zarray"))),
            Documents::V2 { group, attributes, .. } => {
                v2::group(group.unwrap_or_else(|| Arc::new(Json::object())), attributes, &mut f)
                    .map(NodeMeta::Group)
                    .map_err(|e| e.with_key(join(path, ".zgroup")))
            }
        };
        let meta = meta.map_err(|e| self.placed(e, path))?;
        Ok(Node { path: path.to_owned(), meta, findings: f.into_list() })
    }

    fn placed(&self, e: Error, path: &str) -> Error {
        e.with_node(shown(path)).with_store(&self.store)
    }
}

/// V3's inline documents by path.
fn flatten(documents: Vec<(String, Arc<Json>)>) -> BTreeMap<String, Documents> {
    documents
        .into_iter()
        .filter_map(|(path, document)| Some((normal(&path).ok()?, Documents::V3(document))))
        .collect()
}

/// Sorts by name at each level: `a/x` comes before `a-b`, unlike in text order.
fn sort(nodes: &mut [Node]) {
    nodes.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(p, _)| p)
}

fn groups(nodes: &[Node]) -> Vec<String> {
    nodes.iter().filter(|n| matches!(n.meta, NodeMeta::Group(_))).map(|n| n.path.clone()).collect()
}

/// "a group with arrays a, b and groups c".
fn describe(children: &[Node]) -> String {
    let names = |kind: &str| -> Vec<&str> {
        let names: BTreeSet<&str> =
            children.iter().filter(|c| c.meta.kind() == kind).map(Node::name).collect();
        names.into_iter().collect()
    };
    let list = |names: Vec<&str>| suggest::listed(&names);
    let (arrays, groups) = (names("array"), names("group"));
    match (arrays.is_empty(), groups.is_empty()) {
        (true, true) => "an empty group".to_owned(),
        (false, true) => format!("a group with arrays {}", list(arrays)),
        (true, false) => format!("a group with groups {}", list(groups)),
        (false, false) => format!("a group with arrays {} and groups {}", list(arrays), list(groups)),
    }
}

/// A description of unfinished work at `path`, and how to finish it; `None` if there is none.
pub(crate) async fn unfinished(store: &SharedStore, path: &str) -> Result<Option<String>> {
    let Some(bytes) = store.get(&join(path, JOURNAL), None).await? else { return Ok(None) };
    let journal = Json::parse(&bytes).map(|d| d.value).unwrap_or(Json::Null);
    let text = |json: Option<&Json>| json.and_then(Json::as_str).map(str::to_owned);
    let operation = text(journal.get("operation")).map_or(String::new(), |o| format!(" of `zaro {o}`"));
    let of = text(journal.get("source").and_then(|s| s.get("address")))
        .map_or(String::new(), |a| format!(" from {a}"));
    Ok(Some(format!("unfinished work{operation}{of} is here; rerun the same command to finish it")))
}
