//! Validates a hierarchy: the metadata of every node against the specification and, on request, the data of every
//! chunk.

mod data;
mod stale;

use crate::array::Array;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{Node, Zarr};
use crate::meta::path::{join, name_fault, shown};
use crate::meta::{ArrayMeta, Finding, Format, Json, Level, Mode, NodeMeta};
use crate::store::StoreExt as _;
use crate::task::{Operation, Task, Unit};

/// The result of a validation.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of nodes checked.
    pub nodes: usize,
    /// The findings by node, the most severe first.
    pub findings: Vec<Finding>,
    /// The number of chunks, or shards, of the arrays whose data were read; `None` if data were not checked.
    pub chunks: Option<u64>,
}

impl Report {
    /// The report for a root that exists but cannot be opened; `None` if the error says that it cannot be reached.
    #[must_use]
    pub fn of_broken_root(e: &Error) -> Option<Self> {
        let broken = matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) && e.node().is_some();
        broken.then(|| Self { nodes: 1, findings: vec![unreadable(e, "")], chunks: None })
    }

    /// The number of errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|f| f.level == Level::Error).count()
    }

    /// The number of warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.findings.len() - self.errors()
    }

    /// Sorts by node, the most severe first; otherwise in document order.
    fn sort(&mut self) {
        self.findings.sort_by(|a, b| a.node.split('/').cmp(b.node.split('/')).then(b.level.cmp(&a.level)));
    }

    /// The report of `uri` as JSON; `failed` says whether the hierarchy counts as invalid.
    #[must_use]
    pub fn json(&self, uri: &str, failed: bool) -> Json {
        let mut json = Json::from([
            ("uri", crate::error::redacted(uri).as_ref().into()),
            ("ok", (!failed).into()),
            ("nodes", self.nodes.into()),
            ("errors", self.errors().into()),
            ("warnings", self.warnings().into()),
            ("findings", self.findings.iter().map(Finding::json).collect()),
        ]);
        if let Some(chunks) = self.chunks {
            json.set("chunks", chunks);
        }
        json
    }
}

/// The finding for a node that cannot be read.
fn unreadable(e: &Error, node: &str) -> Finding {
    let rule = match e.kind() {
        ErrorKind::Unsupported => "node/unsupported",
        ErrorKind::Io | ErrorKind::NotPermitted => "node/unreadable",
        ErrorKind::NotFound => "node/missing",
        _ => "node/invalid",
    };
    let message = match e.key() {
        Some(key) => format!("{key}: {}", e.message()),
        None => e.message().to_owned(),
    };
    let field = e.field().unwrap_or_default().to_owned();
    Finding { rule, level: Level::Error, node: shown(node), field, message }
}

/// Validates the metadata of the node at `path` and of all nodes below it; from the root, also consolidated metadata.
#[boxed]
pub async fn validate(zarr: &Zarr, path: &str) -> Result<Report> {
    let mut faults = Vec::new();
    let mut nodes: Vec<String> = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let first = nodes.is_empty();
        nodes.push(path.clone());
        let node = match zarr.node(&path).await {
            Ok(node) => node,
            Err(e) if first && e.is_not_found() => return Err(e),
            Err(e) => {
                faults.push(unreadable(&e, &path));
                continue;
            }
        };
        check_node(zarr, &node, &mut faults).await;
        if matches!(node.meta, NodeMeta::Group(_)) {
            open.extend(below(zarr, &node, &mut faults).await);
        }
    }
    if path.is_empty() {
        faults.extend(zarr.zmetadata_findings().await?);
        stale::check(zarr, &nodes, &mut faults).await?;
    }
    let mut report = Report { nodes: nodes.len(), findings: faults, chunks: None };
    report.sort();
    Ok(report)
}

/// Like [`validate`], and reads and decodes every chunk. Each one that fails is an error in the report, with its key.
/// `task` can cancel it.
#[boxed]
pub async fn validate_data(zarr: &Zarr, path: &str, task: &Task) -> Result<Report> {
    let _operation = Operation::begin("validate", zarr.store());
    let mut report = task.unless_cancelled(validate(zarr, path)).await?;
    report.chunks = Some(0);
    let nodes = task.unless_cancelled(zarr.walk(path)).await?;
    let arrays = || {
        nodes
            .iter()
            .filter_map(|n| if let NodeMeta::Array(meta) = &n.meta { Some((&n.path, meta)) } else { None })
    };
    let total = arrays().fold(0u64, |all, (_, meta)| all.saturating_add(data::bytes(meta, &meta.shape)));
    let meter = task.meter(Unit::Bytes, total);
    for (path, _) in arrays() {
        data::check(zarr, path, &mut report, task, &meter).await?;
    }
    // Nodes that the walk leaves out were reported already.
    zarr.take_damaged();
    report.sort();
    Ok(report)
}

async fn check_node(zarr: &Zarr, node: &Node, faults: &mut Vec<Finding>) {
    faults.extend(node.findings.iter().cloned());
    if let NodeMeta::Array(meta) = &node.meta {
        match zarr.array(&node.path).await {
            Ok(_) => faults.extend(tolerated_codecs(zarr, &node.path, meta)),
            Err(e) => faults.push(unreadable(&e, &node.path)),
        }
    }
    let fault = (node.meta.format() == Format::V3 && !node.path.is_empty())
        .then(|| name_fault(node.name()))
        .flatten();
    if let Some(message) = fault {
        faults.push(Finding {
            rule: "v3/node-name",
            level: Level::Error,
            node: shown(&node.path),
            field: String::new(),
            message: message.into(),
        });
    }
}

/// The finding for codec settings that zaro reads over, but the specification does not allow: other readers may refuse
/// them.
fn tolerated_codecs(zarr: &Zarr, path: &str, meta: &ArrayMeta) -> Option<Finding> {
    let context = &zarr.options().store.context;
    let strict = Array::new(zarr.store().clone(), path, meta.clone(), Mode::Strict, Vec::new(), context);
    let e = strict.err().filter(|e| e.kind() == ErrorKind::Invalid)?;
    Some(Finding {
        rule: "codec/settings",
        level: Level::Warning,
        node: shown(path),
        field: "codecs".to_owned(),
        message: e.message().to_owned(),
    })
}

/// The paths of all nodes below a group, including those that cannot be read.
async fn below(zarr: &Zarr, node: &Node, faults: &mut Vec<Finding>) -> Vec<String> {
    let names = match zarr.store().list(&node.path).await {
        Ok(listing) => listing.prefixes,
        // A store that cannot list: only the nodes in consolidated metadata are known.
        Err(e) if e.kind() == ErrorKind::Unsupported => return stale::named_below(zarr, &node.path).await,
        Err(e) => {
            faults.push(unreadable(&e, &node.path));
            return Vec::new();
        }
    };
    let mut paths = Vec::new();
    for name in names.iter().rev() {
        let path = join(&node.path, name);
        if is_node(zarr, &path, node.meta.format()).await {
            paths.push(path);
        }
    }
    paths
}

/// Whether there are metadata documents at `path`. True if that fails: opening the node will report why.
async fn is_node(zarr: &Zarr, path: &str, format: Format) -> bool {
    let names: &[&str] = match format {
        Format::V3 => &["zarr.json"],
        Format::V2 => &[".zarray", ".zgroup"],
    };
    for name in names {
        match zarr.store().size(&join(path, name)).await {
            Ok(None) => {}
            _ => return true,
        }
    }
    false
}
