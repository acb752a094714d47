//! `zaro manifest unembargo`: end the embargo of a Zarr by removing its tag.

use clap::Args;
use zaro::Result;
use zaro::manifest::bucket::unembargo;

use super::bucket;
use crate::args::Common;
use crate::output;
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro manifest create s3://bucket/zarr/ID --embargoed
  zaro manifest unembargo s3://bucket/zarr/ID

Removes the tag embargoed from every version of every object and manifest of the Zarr; other
tags are kept. Who may read tagged objects is decided by the bucket's policy.";

/// End the embargo of a Zarr: remove the tag from its objects and manifests, including old versions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Unembargo {
    /// The Zarr, such as s3://bucket/zarr/ID
    #[arg(value_name = "URI")]
    uri: String,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

impl Unembargo {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = bucket::zarr(common, &self.uri)?;
        let watch = Watch::new(common.progress);
        let done = unembargo(&zarr, &watch.task()).await?;
        drop(watch);
        if self.json {
            let counts = [("objects", done.objects), ("manifests", done.manifests), ("seen", done.seen)];
            return output::json_line(counts.map(|(name, n)| (name, n.into())));
        }
        bucket::say(&format!(
            "removed the tag from {} object versions and {} manifest versions; {} checked",
            done.objects, done.manifests, done.seen
        ))
    }
}
