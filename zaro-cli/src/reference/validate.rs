//! `zaro ref validate`: check that everything a reference store refers to exists and decodes.

use std::process::ExitCode;

use clap::Args;
use zaro::Result;
use zaro::reference::{MapReport, ValidateOptions, validate};

use crate::args::Common;
use crate::output;
use crate::paint::{Paint, plural};
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro ref validate archive.json
  zaro ref validate archive.parq --sample 20       decode more chunks of each array
  zaro ref validate archive.json --all             decode every chunk
  zaro ref validate archive.json --json | jq -r '.findings[].url' | sort -u

Checks that every key belongs to an array and lies in its grid, that every object referred to
exists unchanged and covers the referenced ranges (one request per object), and that a sample of
the chunks of each array decodes. Exit code 1 if there is an error.

Rules: ref/metadata, ref/entry, ref/range, ref/short, ref/decode, ref/target-missing,
ref/target-refused, ref/target-changed, ref/target-unreadable, ref/target-unsupported;
as warnings ref/outside-grid and ref/stray-key.";

/// Check that everything a reference store refers to exists and decodes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Validate {
    /// The reference store: JSON (also .gz, .zst), a folder of Parquet, or an Icechunk repository
    #[arg(value_name = "URI")]
    uri: String,
    /// Chunks of each array to decode
    #[arg(long, value_name = "N", default_value_t = 2)]
    sample: usize,
    /// Decode every chunk
    #[arg(long, conflicts_with = "sample")]
    all: bool,
    /// Requests in flight at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// Findings to show; the rest are counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Validate {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let (store, zarr) = common.open_references(&self.uri).await?;
        let watch = Watch::new(common.progress);
        let options = ValidateOptions::default()
            .with_sample((!self.all).then_some(self.sample))
            .with_concurrency(self.concurrency.into())
            .with_limit(self.limit)
            .with_task(watch.task());
        let report = validate(&**store.map(), &**store.targets(), &zarr, &options).await;
        drop(watch);
        let report = report?;
        let failed = report.errors > 0 || (common.strict && report.warnings > 0);
        match self.json {
            true => output::json(&report.json(&self.uri, failed))?,
            false => output::print(&lines(&report, failed, Paint::stdout(common.color)))?,
        }
        Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

fn lines(report: &MapReport, failed: bool, paint: Paint) -> String {
    let mut out = String::new();
    for f in &report.findings {
        let place = if f.key.is_empty() { &f.node } else { &f.key };
        let url = if f.url.is_empty() { String::new() } else { format!("{}: ", zaro::redacted(&f.url)) };
        out.push_str(&paint.finding(f.level, &format!("{place}: {url}"), &f.message, f.rule));
    }
    let shown = u64::try_from(report.findings.len()).unwrap_or(u64::MAX);
    let hidden = report.errors.saturating_add(report.warnings).saturating_sub(shown);
    if hidden > 0 {
        out.push_str(&format!("… and {} more (--limit)\n", plural(hidden, "finding")));
    }
    let verdict = if failed { paint.red("not valid") } else { paint.green("valid") };
    let entries = plural(report.entries, "entry");
    out.push_str(&format!(
        "{verdict}: {entries}, {}, {}, {} decoded, {}, {}\n",
        plural(report.arrays, "array"),
        plural(report.objects, "object"),
        plural(report.decoded, "chunk"),
        plural(report.errors, "error"),
        plural(report.warnings, "warning"),
    ));
    out
}
