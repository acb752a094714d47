//! `zaro stat`: show sizes, ranges, means and histograms of arrays.

use clap::Args;
use zaro::Result;
use zaro::internal::path::shown;
use zaro::internal::text::{human_bytes, plain, plural};
use zaro::meta::{Json, NodeMeta};
use zaro::stat::{self, StatOptions};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::Paint;
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro stat data.zarr temperature
  zaro stat data.zarr --json

Reads all elements, within --memory. Numbers are unpacked with scale_factor and add_offset;
values that are missing by _FillValue or missing_value are left out. For a group, shows every
array.";

/// The widest bar of a histogram.
const BAR: u64 = 40;

/// Show stored sizes, ranges, means, missing elements and histograms of arrays
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stat {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stat {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = common.open(&self.target.uri).await?;
        let nodes = zarr.walk(&self.target.path).await?;
        let mut all = Vec::new();
        for node in nodes.iter().filter(|node| matches!(node.meta, NodeMeta::Array(_))) {
            let array = zarr.array(&node.path).await?;
            let watch = Watch::new(common.progress);
            let options = StatOptions::default().with_task(watch.task());
            let stat = stat::stat(&zarr, &array, &options).await?;
            drop(watch);
            if self.json {
                let mut json = Json::from([("path", shown(&node.path).into())]);
                for (name, value) in stat.json().members().unwrap_or_default() {
                    json.set(name, value.clone());
                }
                all.push(json);
            } else {
                output::print(&text(&shown(&node.path), &stat, Paint::stdout(common.color)))?;
            }
        }
        if self.json {
            let one = matches!(nodes.first().map(|node| &node.meta), Some(NodeMeta::Array(_)));
            output::json(&if one { all.pop().unwrap_or(Json::Null) } else { Json::Array(all) })?;
        }
        common.fail_on_damaged(&zarr)
    }
}

fn text(path: &str, stat: &stat::Stat, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.bold(&plain(path)));
    let mut row = |name: &str, text: String| {
        out.push_str(&format!("{}{text}\n", paint.dim(&format!("  {name:<12}"))));
    };
    let bytes = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| human_bytes(n.into()));
    let ratio = stat.ratio().map_or(String::new(), |ratio| format!(", ratio {ratio:.2}"));
    row("stored", format!("{} of {}{ratio}", bytes(stat.stored), bytes(stat.decoded)));
    let present = stat.present.map_or("unknown".to_owned(), |n| n.to_string());
    row("chunks", format!("{present} of {} present", stat.chunks));
    row("elements", stat.elements.to_string());
    let counts = [
        (stat.fill, "fill value"),
        (stat.missing, "missing"),
        (stat.nan, "NaN"),
        (stat.infinite, "infinite"),
    ];
    for (n, name) in counts.into_iter().filter(|(n, _)| *n > 0) {
        row(name, n.to_string());
    }
    let Some(numbers) = stat.numbers.as_ref().filter(|n| n.count > 0) else { return out };
    row("numbers", numbers.count.to_string());
    row("min", numbers.min.clone());
    row("max", numbers.max.clone());
    row("mean", numbers.mean.to_string());
    row("std", numbers.std.to_string());
    row("histogram", format!("{} of width {}", plural(numbers.histogram.len(), "bin"), numbers.width));
    let most = numbers.histogram.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    for (from, n) in &numbers.histogram {
        let length = usize::try_from(n.saturating_mul(BAR).div_ceil(most)).unwrap_or(0);
        out.push_str(&format!("  {from:>14}  {:<40}  {n}\n", "█".repeat(length)));
    }
    out
}
