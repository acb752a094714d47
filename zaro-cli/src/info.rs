//! `zaro info`: show the tree, shapes, types, chunks, codecs and sizes of a Zarr.

use std::collections::HashMap;

use clap::Args;
use zaro::coords::DatasetSummary;
use zaro::format::shape_text;
use zaro::internal::describe::{byte_size, codec_text, main_array, size_of_item, size_text, times};
use zaro::internal::image::word;
use zaro::internal::text::human_bytes;
use zaro::internal::{describe, dtype};
use zaro::meta::{ArrayMeta, Json, NodeMeta};
use zaro::{Node, Result};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{Paint, cut, plain, plural};
use crate::shell;

const EXAMPLES: &str = "\
Examples:
  zaro info data.zarr
  zaro info data.zarr group/array
  zaro info s3://bucket/image.zarr --anonymous

For a group: dimensions, arrays with their units and names, and the ranges of coordinates, for
which their first and last chunks are read. A step is named only if all values were read.";

/// A tree longer than this is truncated, unless --all is given.
const MOST_LINES: usize = 200;

/// Show what is in a Zarr: tree, shapes, types, chunks, codecs, sizes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Info {
    #[command(flatten)]
    target: Target,
    /// Show every node and every attribute
    #[arg(short, long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = common.open(&self.target.uri).await?;
        let nodes = zarr.walk(&self.target.path).await?;
        let summary = DatasetSummary::of(&zarr, &nodes).await;
        let page = Page {
            summary: &summary,
            paint: Paint::stdout(common.color),
            reached_by: common.reached_by(),
            uri: &zaro::redacted(&self.target.uri),
            all: self.all,
        };
        for node in &nodes {
            common.warn_findings(&node.findings);
            common.warn_both(&zarr, &node.path, node.meta.format()).await?;
        }
        if self.json {
            output::json(&summary.json(&nodes, zarr.is_consolidated()))?;
            return common.fail_on_damaged(&zarr);
        }
        let text = match nodes.split_first() {
            Some((Node { path, meta: NodeMeta::Array(a), .. }, _)) => page.array(path, a),
            Some((top, below)) => page.group(top, below, zarr.is_consolidated()),
            None => String::new(),
        };
        output::print(&text)?;
        common.fail_on_damaged(&zarr)
    }
}

/// For each of the first `shown` nodes, whether the branch at each level continues below it, that is, whether a later
/// node belongs to it before the branch above ends. One pass from the end.
fn branches(depths: &[usize], shown: usize) -> Vec<Vec<bool>> {
    let mut open: Vec<bool> = Vec::new();
    let mut rows = Vec::with_capacity(shown);
    for (i, depth) in depths.iter().enumerate().rev() {
        open.resize(depth + 1, false);
        if i < shown {
            rows.push(open.clone());
        }
        if let Some(last) = open.last_mut() {
            *last = true;
        }
    }
    rows.reverse();
    rows
}

struct Page<'a> {
    summary: &'a DatasetSummary,
    paint: Paint,
    uri: &'a str,
    /// The store options of the command line, if they can be shown.
    reached_by: Option<Vec<String>>,
    all: bool,
}

impl Page<'_> {
    fn format(&self, node: &NodeMeta) -> String {
        format!("Zarr V{} {}", node.format().number(), node.kind())
    }

    /// A group and what is below it.
    fn group(&self, top: &Node, below: &[Node], consolidated: bool) -> String {
        let p = self.paint;
        let arrays =
            below.iter().filter_map(|n| if let NodeMeta::Array(a) = &n.meta { Some(a) } else { None });
        let (mut count, mut bytes) = (0, 0u128);
        for a in arrays {
            count += 1;
            bytes = bytes.saturating_add(if a.data_type.is_variable() { 0 } else { byte_size(a) });
        }
        let groups = below.len() - count;
        let place = shell::place(self.uri, &top.path);
        let mut facts = vec![self.format(&top.meta), plural(count, "array")];
        if groups > 0 {
            facts.push(plural(groups, "group"));
        }
        facts.push(format!("{} uncompressed", human_bytes(bytes)));
        if consolidated {
            facts.push("consolidated".into());
        }
        let mut out = format!("{}\n{}\n", p.blue(&plain(&place)), p.dim(&facts.join(", ")));
        self.attributes(top.meta.attributes(), "", &mut out);
        let dimensions = self.summary.dimensions.iter().map(|(name, n)| format!("{name}: {n}"));
        let dimensions = dimensions.collect::<Vec<_>>().join(", ");
        if !dimensions.is_empty() {
            out.push_str(&format!("{} {}\n", p.dim("dimensions"), plain(&dimensions)));
        }
        self.images(top, below, &mut out);
        self.tree(top, below, &mut out);
        if let Some(node) = main_array(below) {
            out.push_str(&self.hint(&[(&["info"], &node.path, &[]), (&["read"], &node.path, &[])]));
        }
        out
    }

    /// The lines of the tree.
    fn tree(&self, top: &Node, below: &[Node], out: &mut String) {
        let p = self.paint;
        let depth_of = |path: &str| if path.is_empty() { 0 } else { path.split('/').count() };
        let base = depth_of(&top.path);
        let name_width = below
            .iter()
            .filter(|n| matches!(n.meta, NodeMeta::Array(_)))
            .map(|n| 4 * (depth_of(&n.path) - base) + n.name().chars().count())
            .max()
            .unwrap_or(0)
            .min(40);
        let shown = if self.all { below.len() } else { below.len().min(MOST_LINES) };
        let depths: Vec<usize> = below.iter().map(|n| depth_of(&n.path) - base).collect();
        for ((node, depth), goes_on) in below.iter().zip(&depths).zip(branches(&depths, shown)) {
            let goes_on = |level: usize| goes_on.get(level).copied().unwrap_or(false);
            let depth = *depth;
            let mut branch = String::new();
            for level in 1..depth {
                branch.push_str(if goes_on(level) { "│   " } else { "    " });
            }
            branch.push_str(if goes_on(depth) { "├── " } else { "└── " });
            let name = plain(node.name());
            match &node.meta {
                NodeMeta::Group(_) => {
                    out.push_str(&format!("{}{}{}\n", p.dim(&branch), p.blue(&name), self.image_note(node)));
                }
                NodeMeta::Array(a) => {
                    let width = name_width.saturating_sub(4 * depth);
                    let padding = " ".repeat(width.saturating_sub(name.chars().count()));
                    out.push_str(&format!(
                        "{}{}{padding}  {}\n",
                        p.dim(&branch),
                        p.bold(&name),
                        self.line(a)
                    ));
                    let more = self.summary.variables.get(&node.path).map(|v| v.line()).unwrap_or_default();
                    if !more.is_empty() {
                        let bars = (1..=depth).map(|level| if goes_on(level) { "│   " } else { "    " });
                        out.push_str(&format!("{}{}\n", p.dim(&bars.collect::<String>()), plain(&more)));
                    }
                }
            }
        }
        if shown < below.len() {
            out.push_str(&format!(
                "{}\n",
                p.dim(&format!("… and {} more; --all shows them", below.len() - shown))
            ));
        }
    }

    /// An array in one line.
    fn line(&self, a: &ArrayMeta) -> String {
        let p = self.paint;
        let names = a.dimension_names.clone().unwrap_or_default();
        let mut facts = vec![p.cyan(&plain(&cut(&dtype::for_people(&a.data_type), 40))).into_owned()];
        facts.push(if a.shape.is_empty() {
            "scalar".into()
        } else {
            plain(&shape_text(&a.shape, &names)).into_owned()
        });
        facts.push(p.dim(&plain(&describe::storage(a).join(", "))).into_owned());
        facts.join("  ")
    }

    /// One array, in full.
    fn array(&self, path: &str, a: &ArrayMeta) -> String {
        let p = self.paint;
        let place = shell::place(self.uri, path);
        let kind = format!("Zarr V{} array", a.format.number());
        let mut out = format!("{}\n{}\n", p.bold(&plain(&place)), p.dim(&kind));
        let mut row = |name: &str, text: String| {
            let name = format!("  {name:<12}");
            out.push_str(&format!("{}{text}\n", p.dim(&name)));
        };
        let names = a.dimension_names.clone().unwrap_or_default();
        row(
            "shape",
            if a.shape.is_empty() {
                "scalar".into()
            } else {
                plain(&shape_text(&a.shape, &names)).into_owned()
            },
        );
        row("type", plain(&dtype::for_people(&a.data_type)).into_owned());
        row("fill value", plain(&cut(&describe::fill(a).to_string(), 80)).into_owned());
        let counts = a.grid.counts(&a.shape);
        let total = counts.iter().fold(1u128, |acc, n| acc.saturating_mul(u128::from(*n)));
        let unit = |shape: &[u64]| {
            let n = shape.iter().fold(size_of_item(a), |acc, n| acc.saturating_mul(u128::from(*n)));
            if a.data_type.is_variable() { String::new() } else { format!(", {} each", human_bytes(n)) }
        };
        let largest = a.grid.largest();
        let pieces = format!("{} = {total}", times(&counts));
        let pieces = if counts.len() < 2 { total.to_string() } else { pieces };
        match (a.inner_chunks(), a.grid.regular_shape()) {
            (Some(inner), _) => {
                row("shards", format!("{}  ({pieces}{})", times(&largest), unit(&largest)));
                row("chunks", format!("{}  (inside a shard{})", times(&inner), unit(&inner)));
            }
            (None, Some(shape)) if shape.is_empty() => {}
            (None, Some(shape)) => row("chunks", format!("{}  ({pieces}{})", times(&shape), unit(&shape))),
            (None, None) => row("chunks", format!("varying, up to {}  ({pieces})", times(&largest))),
        }
        let codecs: Vec<String> = a.codecs.iter().map(codec_text).collect();
        row("codecs", plain(&codecs.join(" → ")).into_owned());
        row("first key", a.keys.key("", &vec![0; a.shape.len()]));
        row(
            "size",
            match a.data_type.is_variable() {
                true => "variable length".into(),
                false => format!("{} uncompressed", size_text(a)),
            },
        );
        let range = self.summary.variables.get(path).and_then(|v| v.range.as_ref());
        if let Some(range) = range {
            row("values", plain(&range.to_string()).into_owned());
        }
        self.attributes(&zaro::cf::readable(a), "  ", &mut out);
        let picture;
        let more: &[&str] = match a.shape.len() {
            0 | 1 => &[],
            n => {
                picture = [vec!["0"; n - 2], vec![":", ":"]].concat().join(",");
                &["--select", &picture, "-o", "picture.png"]
            }
        };
        out.push_str(&self.hint(&[(&["read"], path, more)]));
        out
    }

    /// Attributes, shortened to one line each.
    fn attributes(&self, attributes: &Json, indent: &str, out: &mut String) {
        const MOST: usize = 12;
        let p = self.paint;
        let members: Vec<_> = attributes
            .members()
            .unwrap_or_default()
            .iter()
            .filter(|(n, _)| {
                self.all
                    || !matches!(
                        n.as_str(),
                        "_ARRAY_DIMENSIONS" | "multiscales" | "ome" | "omero" | "plate" | "well"
                    )
            })
            .collect();
        if members.is_empty() {
            return;
        }
        let most = if self.all { members.len() } else { MOST };
        for (name, value) in members.iter().take(most) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let text = if self.all { text } else { cut(&text, 80).into_owned() };
            out.push_str(&format!("{indent}{} {}\n", p.dim(&format!("@{}", plain(name))), plain(&text)));
        }
        if members.len() > most {
            out.push_str(&format!(
                "{indent}{}\n",
                p.dim(&format!("… and {} more attributes", members.len() - most))
            ));
        }
    }

    /// The images of the top group, with their levels.
    fn images(&self, node: &Node, below: &[Node], out: &mut String) {
        let p = self.paint;
        let images = word::words(node.meta.attributes());
        if images.is_empty() {
            return;
        }
        let nodes: HashMap<&str, &Node> = below.iter().map(|n| (n.path.as_str(), n)).collect();
        for image in images {
            out.push_str(&format!("{}\n", p.green(&plain(&image.text))));
            for level in image.levels.iter().take(12) {
                let path = level.path.as_str();
                let full = zaro::internal::path::join(&node.path, path);
                let shape = nodes.get(full.as_str()).and_then(|n| match &n.meta {
                    NodeMeta::Array(a) => Some(times(&a.shape)),
                    NodeMeta::Group(_) => None,
                });
                let scale = level.scale.as_ref().map_or(String::new(), |s| {
                    format!("  scale {}", s.iter().map(f64::to_string).collect::<Vec<_>>().join(" × "))
                });
                let line = format!("  {path}  {}{scale}", shape.unwrap_or_else(|| "missing".into()));
                out.push_str(&format!("{}\n", plain(&line)));
            }
        }
    }

    /// A short note on the first image of a group further down.
    fn image_note(&self, node: &Node) -> String {
        match word::words(node.meta.attributes()).first() {
            Some(image) => format!("  {}", self.paint.green(&plain(&image.text))),
            None => String::new(),
        }
    }

    /// What to do next: command lines that can be pasted.
    fn hint(&self, lines: &[(&[&str], &str, &[&str])]) -> String {
        let line = |(command, path, more): &(&[&str], &str, &[&str])| {
            shell::line(command, self.uri, path, more, self.reached_by.as_deref()?)
        };
        shell::hint(lines.iter().map(line), self.paint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_go_on_until_their_end() {
        // a, a/x, a/x/y, a/z, b
        let rows = branches(&[1, 2, 3, 2, 1], 5);
        let at = |row: usize, level: usize| rows[row].get(level).copied().unwrap_or(false);
        assert!(at(0, 1) && at(1, 1) && at(1, 2) && at(2, 1) && at(2, 2) && !at(2, 3));
        assert!(at(3, 1) && !at(3, 2) && !at(4, 1));
        assert_eq!(branches(&[1, 1, 1], 2).len(), 2);
    }
}
