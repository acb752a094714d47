//! `zaro validate`: check a Zarr against the specification and report every broken rule.

use std::process::ExitCode;

use clap::Args;
use zaro::Result;
use zaro::meta::Finding;
use zaro::validate::{Report, validate, validate_data};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{Paint, plural};
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro validate data.zarr
  zaro validate data.zarr --strict          warnings count as errors
  zaro validate data.zarr --data            every chunk is read and decoded
  zaro validate data.zarr --json | jq '.findings[].rule'

Checks the metadata of every node, whether its codecs are supported, the names of V3 nodes, and
whether consolidated metadata agree with the nodes' own. Chunks are read only with --data; each
broken chunk is an error, with its key. Exit code 1 if there is an error.";

/// Check all metadata against the specification, and chunks with --data
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Validate {
    #[command(flatten)]
    target: Target,
    /// Also read and decode every chunk
    #[arg(long)]
    data: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Validate {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let report = match common.open_direct(&self.target.uri).await {
            Ok(zarr) if self.data => {
                let watch = Watch::new(common.progress);
                validate_data(&zarr, &zarr.key_of(&self.target.path)?, &watch.task()).await?
            }
            Ok(zarr) => validate(&zarr, &zarr.key_of(&self.target.path)?).await?,
            // A root that is there but broken is a finding; a root that cannot be reached is not.
            Err(e) => Report::of_broken_root(&e).ok_or(e)?,
        };
        let (errors, warnings) = (report.errors(), report.warnings());
        let failed = errors > 0 || (common.strict && warnings > 0);
        if self.json {
            output::json(&report.json(&self.target.uri, failed))?;
        } else {
            let paint = Paint::stdout(common.color);
            let mut out: String = report.findings.iter().map(|f| line(f, paint)).collect();
            let verdict = if failed { paint.red("not valid") } else { paint.green("valid") };
            let chunks = report.chunks.map(|n| plural(n, "chunk"));
            let counts = [(errors, "error"), (warnings, "warning")].map(|(n, word)| plural(n, word));
            let counts = [plural(report.nodes, "node")].into_iter().chain(chunks).chain(counts);
            let counts = counts.collect::<Vec<_>>().join(", ");
            out.push_str(&format!("{verdict}: {counts}\n"));
            output::print(&out)?;
        }
        Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

fn line(f: &Finding, paint: Paint) -> String {
    let field = if f.field.is_empty() { String::new() } else { format!(" {}", f.field) };
    paint.finding(f.level, &format!("{}{field}: ", f.node), &f.message, f.rule)
}
