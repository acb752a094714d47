//! `zaro manifest diff`: show what changed between two versions.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use zaro::Result;
use zaro::manifest::{Change, Difference, Digesting, LocalOptions, Manifest, diff};
use zaro::meta::Json;

use super::bucket::load_side as load;
use super::load::is_folder;
use crate::args::Common;
use crate::checksum::{HashingArgs, folder_of};
use crate::number::human_bytes;
use crate::output::{self, Output};
use crate::paint::{Paint, plain, plural};

const EXAMPLES: &str = "\
Examples:
  zaro manifest diff old.json new.json
  zaro manifest diff manifest.json data.zarr
  zaro manifest diff old.json new.json --json | jq '.removed'

Each side is a manifest, a folder, or a Zarr in a bucket (s3://bucket/zarr/ID). Directories with the
 same digest are skipped.
Lines begin with + (added), - (removed) or ~ (changed). Exit code 1 if there is a difference.";

/// Show what changed between two versions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// A manifest, - for standard input; or a folder
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The same
    #[arg(value_name = "AFTER")]
    after: String,
    /// Print only totals
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    hashing: HashingArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let (before, after);
        if is_folder(&self.before) && !is_folder(&self.after) {
            after = load(&self.after, common).await?;
            before = self.folder(&self.before, Some(&after), common)?;
        } else {
            before = match is_folder(&self.before) {
                true => self.folder(&self.before, None, common)?,
                false => load(&self.before, common).await?,
            };
            after = match is_folder(&self.after) {
                true => self.folder(&self.after, Some(&before), common)?,
                false => load(&self.after, common).await?,
            };
        }
        let paint = Paint::stdout(common.color);
        let mut out = Output::open(None)?;
        let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        let summary = diff(&before, &after, &mut |d| {
            match (self.json, self.summary) {
                (_, true) => {}
                (true, false) => match d.change {
                    Change::Added => added.push(json(&d)),
                    Change::Changed => changed.push(json(&d)),
                    Change::Removed => removed.push(json(&d)),
                },
                (false, false) => writeln!(out, "{}", line(&d, paint))?,
            }
            Ok(())
        })?;
        let counts = [("added", summary.added), ("changed", summary.changed), ("removed", summary.removed)];
        if self.json {
            let both = |(entries, bytes): (u64, u64)| {
                Json::from([("entries", entries.into()), ("bytes", bytes.into())])
            };
            let mut report = Json::from([
                ("equal", summary.is_empty().into()),
                ("before", before.checksum()?.to_string().into()),
                ("after", after.checksum()?.to_string().into()),
                ("summary", counts.map(|(word, count)| (word, both(count))).into()),
            ]);
            if !self.summary {
                report.set("added", added);
                report.set("changed", changed);
                report.set("removed", removed);
            }
            writeln!(out, "{}", output::safe(&report.pretty()))?;
        } else if summary.is_empty() {
            writeln!(out, "no difference")?;
        } else {
            let words = counts.map(|(word, (entries, bytes))| {
                format!("{word} {} ({})", plural(entries, "entry"), human_bytes(bytes.into()))
            });
            writeln!(out, "{}", words.join(", "))?;
        }
        out.finish()?;
        Ok(if summary.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// A folder, hashed as the other side was.
    fn folder(&self, uri: &str, other: Option<&Manifest>, common: &Common) -> Result<Manifest> {
        let mut options: LocalOptions<'_> = self.hashing.options();
        options.named = other;
        if let Some(other) = other.filter(|_| !self.hashing.multipart) {
            options.digesting = Digesting::As(other);
        }
        self.hashing.manifest_with(&folder_of(uri)?, &options, common)
    }
}

fn line(d: &Difference<'_>, paint: Paint) -> String {
    let size = |leaf: Option<zaro::manifest::Leaf<'_>>| leaf.map_or(0, |l| l.size());
    let key = plain(&d.key);
    match d.change {
        Change::Added => format!("{} {key}  {}", paint.green("+"), human_bytes(size(d.after).into())),
        Change::Removed => format!("{} {key}  {}", paint.red("-"), human_bytes(size(d.before).into())),
        Change::Changed => {
            let (before, after) = (human_bytes(size(d.before).into()), human_bytes(size(d.after).into()));
            format!("{} {key}  {before} -> {after}", paint.yellow("~"))
        }
    }
}

fn json(d: &Difference<'_>) -> Json {
    let mut out = Json::from([("key", (&d.key).into())]);
    for (word, leaf) in [("before", d.before), ("after", d.after)] {
        if let Some(leaf) = leaf {
            let mut side = Json::from([("size", leaf.size().into()), ("ETag", leaf.etag().into())]);
            if let Some(version) = leaf.version() {
                side.set("versionId", version);
            }
            out.set(word, side);
        }
    }
    out
}
