//! `zaro manifest history`: show every past state of a Zarr in a versioned bucket.

use std::path::{Path, PathBuf};

use clap::Args;
use zaro::manifest::bucket::{History as Changes, HistoryState, document_at};
use zaro::manifest::{ManifestOptions, Time};
use zaro::{Error, Result};

use super::bucket;
use crate::args::Common;
use crate::number::human_bytes;
use crate::output::{self, Output};
use crate::path::output_path;

const EXAMPLES: &str = "\
Examples:
  zaro manifest history s3://bucket/zarr/ID
  zaro manifest history s3://bucket/zarr/ID --gap 3600
  zaro manifest history s3://bucket/zarr/ID --at 2026-11-15T12:00:00Z -o then.json
  zaro info manifest+then.json --objects s3://bucket/zarr/ID

The states are derived from the versions of the objects; no manifest need exist.";

/// Show every past state of a Zarr in a versioned bucket, or its state at a time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct History {
    /// The Zarr, such as s3://bucket/zarr/ID
    #[arg(value_name = "URI")]
    uri: String,
    /// Only the state at this time, e.g. 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// With --at: write the manifest of that state here; - for standard output
    #[arg(short, long, value_name = "FILE", requires = "at", value_parser = output_path())]
    output: Option<PathBuf>,
    /// Changes within this many seconds of each other count as one state
    #[arg(long, value_name = "SECONDS", default_value_t = 0, conflicts_with = "at")]
    gap: u64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl History {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = bucket::zarr(common, &self.uri)?;
        bucket::warn_of_versions(common, zarr.bucket()).await?;
        if let Some(at) = &self.at {
            let at = Time::parse_date(at).map_err(|e| Error::usage(e.message().to_owned()))?;
            let document = document_at(&zarr, at, ManifestOptions::default()).await?;
            let Some(document) = document else {
                return Err(
                    Error::not_found(format!("the Zarr had no objects yet at {at}")).with_store(&zarr)
                );
            };
            let (checksum, statistics) = (document.checksum, document.statistics.clone());
            if let Some(path) = &self.output {
                let mut out = Output::open(Some(path.as_path()).filter(|p| *p != Path::new("-")))?;
                document.write(&mut out)?;
                out.finish()?;
                if path == Path::new("-") {
                    return Ok(());
                }
            }
            if self.json {
                return output::json_line([
                    ("at", at.to_string().into()),
                    ("checksum", checksum.to_string().into()),
                    ("entries", checksum.count.into()),
                    ("totalSize", checksum.size.into()),
                    ("lastModified", statistics.last_modified.map(|t| t.to_string()).into()),
                ]);
            }
            return output::print(&format!("{checksum}\n"));
        }
        let changes = Changes::of(&zarr).await?;
        if changes.changes() == 0 {
            return Err(Error::not_found("no objects found, current or past").with_store(&zarr));
        }
        changes.states(self.gap, |state| self.show(&state))
    }

    fn show(&self, state: &HistoryState) -> Result<()> {
        let HistoryState { since, until, checksum, put, deleted } = state;
        if self.json {
            return output::json_line([
                ("since", since.to_string().into()),
                ("until", until.map(|t| t.to_string()).into()),
                ("checksum", checksum.to_string().into()),
                ("entries", checksum.count.into()),
                ("totalSize", checksum.size.into()),
                ("put", (*put).into()),
                ("deleted", (*deleted).into()),
            ]);
        }
        let size = human_bytes(checksum.size.into());
        output::print(&format!("{since}  {checksum}  {size}  +{put} -{deleted}\n"))
    }
}
