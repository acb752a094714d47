//! `zaro validate`: every rule that is broken, with its name and its place.

use std::process::ExitCode;

use clap::Args;
use zaro::meta::path::{join, name_fault, shown};
use zaro::meta::{Finding, Format, Json, Level, NodeMeta};
use zaro::store::StoreExt as _;
use zaro::{Error, ErrorKind, Node, Result, Zarr};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{Paint, plain};
use crate::stale;

const EXAMPLES: &str = "\
Examples:
  zaro validate data.zarr
  zaro validate data.zarr --strict          warnings count as errors
  zaro validate data.zarr --json | jq '.findings[].rule'

Checks the metadata of every node, whether its codecs can be built, the names of V3 nodes, and
whether consolidated metadata agree with the nodes' own. Chunks are not read.
Exit code 1 if there is an error.";

/// Check the metadata of every node against the specification
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Validate {
    #[command(flatten)]
    target: Target,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// One broken rule, whoever found it.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The rule's stable name.
    pub(crate) rule: String,
    /// How grave it is.
    pub(crate) level: Level,
    /// The node, such as `/a/b`.
    pub(crate) node: String,
    /// Where in its document.
    pub(crate) field: String,
    /// What is wrong.
    pub(crate) message: String,
}

impl Fault {
    /// A node that cannot be read.
    fn of_error(e: &Error, node: &str) -> Self {
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
        Self {
            rule: rule.into(),
            level: Level::Error,
            node: shown(node),
            field: e.field().unwrap_or_default().to_owned(),
            message,
        }
    }

    fn of_finding(f: &Finding) -> Self {
        Self {
            rule: f.rule.to_owned(),
            level: f.level,
            node: f.node.clone(),
            field: f.field.clone(),
            message: f.message.clone(),
        }
    }

    fn json(&self) -> Json {
        let mut out = Json::object();
        for (name, text) in [
            ("rule", self.rule.clone()),
            ("level", self.level.to_string()),
            ("node", self.node.clone()),
            ("field", self.field.clone()),
            ("message", self.message.clone()),
        ] {
            out.set(name, Json::String(text));
        }
        out
    }

    fn line(&self, paint: Paint) -> String {
        let level = match self.level {
            Level::Error => paint.red("error"),
            Level::Warning => paint.yellow("warning"),
        };
        let field = if self.field.is_empty() { String::new() } else { format!(" {}", plain(&self.field)) };
        let rule = format!("[{}]", self.rule);
        format!("{level}: {}{field}: {} {}\n", plain(&self.node), plain(&self.message), paint.dim(&rule))
    }
}

impl Validate {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let (nodes, faults) = match common.open_direct(&self.target.uri).await {
            Ok(zarr) => check(&zarr, &zarr.key_of(&self.target.path)?).await?,
            // A root that is there but broken is a finding; a root that cannot be reached is not.
            Err(e)
                if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) && e.node().is_some() =>
            {
                (1, vec![Fault::of_error(&e, "")])
            }
            Err(e) => return Err(e),
        };
        let errors = faults.iter().filter(|f| f.level == Level::Error).count();
        let warnings = faults.len() - errors;
        let failed = errors > 0 || (common.strict && warnings > 0);
        let text = if self.json {
            let mut out = Json::object();
            out.set("uri", Json::string(zaro::redacted(&self.target.uri)));
            out.set("ok", Json::Bool(!failed));
            out.set("nodes", Json::int(nodes));
            out.set("errors", Json::int(errors));
            out.set("warnings", Json::int(warnings));
            out.set("findings", Json::Array(faults.iter().map(Fault::json).collect()));
            format!("{}\n", out.pretty())
        } else {
            let paint = Paint::stdout(common.color);
            let mut out: String = faults.iter().map(|f| f.line(paint)).collect();
            let verdict = if failed { paint.red("not valid") } else { paint.green("valid") };
            out.push_str(&format!(
                "{verdict}: {}, {}, {}\n",
                plural(nodes, "node"),
                plural(errors, "error"),
                plural(warnings, "warning")
            ));
            out
        };
        output::print(&text)?;
        Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

fn plural(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Checks the node at `path` and all below it: how many nodes there are, and what is wrong with them.
async fn check(zarr: &Zarr, path: &str) -> Result<(usize, Vec<Fault>)> {
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
                faults.push(Fault::of_error(&e, &path));
                continue;
            }
        };
        check_node(zarr, &node, &mut faults).await;
        if matches!(node.meta, NodeMeta::Group(_)) {
            open.extend(below(zarr, &node, &mut faults).await);
        }
    }
    if path.is_empty() {
        faults.extend(zarr.zmetadata_findings().await?.iter().map(Fault::of_finding));
        stale::check(zarr, &nodes, &mut faults).await?;
    }
    // By node, what is grave first; the sort keeps the order of the document otherwise.
    faults.sort_by(|a, b| a.node.split('/').cmp(b.node.split('/')).then(b.level.cmp(&a.level)));
    Ok((nodes.len(), faults))
}

async fn check_node(zarr: &Zarr, node: &Node, faults: &mut Vec<Fault>) {
    faults.extend(node.findings.iter().map(Fault::of_finding));
    if let NodeMeta::Array(_) = node.meta
        && let Err(e) = zarr.array(&node.path).await
    {
        faults.push(Fault::of_error(&e, &node.path));
    }
    let fault = (node.meta.format() == Format::V3 && !node.path.is_empty())
        .then(|| name_fault(node.name()))
        .flatten();
    if let Some(message) = fault {
        faults.push(Fault {
            rule: "v3/node-name".into(),
            level: Level::Error,
            node: shown(&node.path),
            field: String::new(),
            message: message.into(),
        });
    }
}

/// The paths of the nodes below a group, also of those that cannot be read.
async fn below(zarr: &Zarr, node: &Node, faults: &mut Vec<Fault>) -> Vec<String> {
    let names = match zarr.store().list(&node.path).await {
        Ok(listing) => listing.prefixes,
        // A store that cannot list: what consolidated metadata name is all there is to know.
        Err(e) if e.kind() == ErrorKind::Unsupported => return stale::named_below(zarr, &node.path).await,
        Err(e) => {
            faults.push(Fault::of_error(&e, &node.path));
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

/// Whether there are metadata documents at `path`; if that cannot be told, a closer look will say why.
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
