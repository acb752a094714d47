//! `zaro list`: list the nodes of a hierarchy, one per line.

use clap::Args;
use zaro::internal::path;
use zaro::meta::NodeMeta;
use zaro::{Node, Result};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{Paint, plain};

const EXAMPLES: &str = "\
Examples:
  What is directly below the root:
      zaro list data.zarr
  Every array anywhere, by its path:
      zaro list data.zarr -r --json | jq -r '.[] | select(.kind == \"array\") | .path'

Each line is a path, a kind, and for arrays type and shape. Chunks are never listed.";

/// List the groups and arrays in a Zarr
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,
    /// List recursively, not only the next level
    #[arg(short, long)]
    recursive: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = common.open(&self.target.uri).await?;
        let top = zarr.node(&self.target.path).await?;
        if matches!(top.meta, NodeMeta::Group(_)) {
            common.warn_findings(&top.findings);
            common.warn_both(&zarr, &top.path, top.meta.format()).await?;
        }
        let nodes = match &top.meta {
            NodeMeta::Array(_) => vec![top],
            NodeMeta::Group(_) if self.recursive => {
                let mut nodes = zarr.walk(&self.target.path).await?;
                nodes.retain(|n| n.path != top.path);
                nodes
            }
            NodeMeta::Group(_) => zarr.children(&self.target.path).await?,
        };
        for node in &nodes {
            common.warn_findings(&node.findings);
            common.warn_both(&zarr, &node.path, node.meta.format()).await?;
        }
        if self.json {
            output::json(&nodes.iter().map(zaro::internal::describe::summary).collect())?;
        } else {
            output::print(&lines(&nodes, Paint::stdout(common.color)))?;
        }
        common.fail_on_damaged(&zarr)
    }
}

fn lines(nodes: &[Node], paint: Paint) -> String {
    let names: Vec<String> = nodes.iter().map(|n| plain(&path::shown(&n.path)).into_owned()).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (node, name) in nodes.iter().zip(&names) {
        let padding = " ".repeat(width - name.chars().count().min(width));
        match &node.meta {
            NodeMeta::Group(_) => out.push_str(&format!("{}{padding}  group\n", paint.blue(name))),
            NodeMeta::Array(a) => {
                let t = a.data_type.to_string();
                let shape: Vec<String> = a.shape.iter().map(u64::to_string).collect();
                let shape = if shape.is_empty() { "scalar".to_owned() } else { shape.join("x") };
                out.push_str(&format!(
                    "{}{padding}  array  {}  {shape}\n",
                    paint.bold(name),
                    paint.cyan(&plain(&t))
                ));
            }
        }
    }
    out
}
