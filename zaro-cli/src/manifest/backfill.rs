//! `zaro manifest backfill`: create the manifests of every Zarr in a bucket.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zaro::Result;
use zaro::manifest::bucket::{
    Backfill as How, BackfillJournal, CreateOptions, Done, EmbargoCheck, ListingSource,
};

use super::bucket;
use crate::args::Common;
use crate::output;
use crate::path::{output_path, word};
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro manifest backfill s3://bucket
  zaro manifest backfill s3://bucket --journal done.txt --json

Zarrs are looked for below zarr/, including those whose objects are all deleted. Existing manifests
are kept, so it can be stopped and rerun at any time; with a journal, Zarrs that are done are not
even listed. Exit code 1 if any Zarr is left without a manifest.";

/// Create the manifests of every Zarr in a bucket
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backfill {
    /// The bucket, such as s3://bucket
    #[arg(value_name = "URI")]
    uri: String,
    /// Journal file: Zarrs that are done are recorded in it, and skipped when rerun
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    journal: Option<PathBuf>,
    /// Zarrs processed at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,
    /// List current objects instead of versions, for a bucket without versioning
    #[arg(long)]
    plain: bool,
    /// Tag all manifests embargoed=true [default: those of Zarrs whose objects have the tag]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    embargoed: Option<bool>,
    /// Objects checked for the embargo tag: some, or every one (a request each)
    #[arg(long, value_parser = word(bucket::CHECKS), default_value = "sample", value_name = "WHICH")]
    embargo_check: EmbargoCheck,
    /// Maximum listings per Zarr until two in a row agree
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    listings: u32,
    /// Print one JSON object per Zarr, and a summary at the end
    #[arg(long)]
    json: bool,
}

impl Backfill {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let (store, path) = zaro::open::open_bucket(&self.uri, &common.store_options()?)?;
        let journal =
            self.journal.as_deref().map(|file| BackfillJournal::open(file, &store, &path)).transpose()?;
        if !self.plain {
            bucket::warn_of_versions(common, &store).await?;
        }
        let source = if self.plain { ListingSource::Objects } else { ListingSource::Versions };
        let create = CreateOptions::default().with_source(source).with_listings(self.listings);
        let how =
            How { create, at_once: self.jobs, embargoed: self.embargoed, embargo_check: self.embargo_check };
        let watch = Watch::new(common.progress);
        let mut counts = [("new", 0u64), ("kept", 0), ("replaced", 0), ("journal", 0), ("failed", 0)];
        let see = |done: Done| {
            let (outcome, text) = match &done.result {
                Ok((checksum, outcome)) => (*outcome, checksum.to_string()),
                Err(e) => ("failed", e.to_string()),
            };
            if let Some(count) = counts.iter_mut().find(|(name, _)| *name == outcome) {
                count.1 += 1;
            }
            let what = if outcome == "failed" { "error" } else { "checksum" };
            watch.suspend(|| {
                if self.json {
                    return output::json_line([
                        ("zarr", (&done.id).into()),
                        ("outcome", outcome.into()),
                        (what, (&text).into()),
                    ]);
                }
                output::print(&format!("{}  {outcome}  {text}\n", done.id))
            })
        };
        zaro::manifest::bucket::backfill(&store, &path, &how, journal.as_ref(), &watch.task(), see).await?;
        drop(watch);
        if self.json {
            output::json_line(counts.map(|(name, n)| (name, n.into())))?;
        } else {
            let text: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
            bucket::say(&text.join(", "))?;
        }
        let failed = counts.iter().any(|(name, n)| *name == "failed" && *n > 0);
        Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}
