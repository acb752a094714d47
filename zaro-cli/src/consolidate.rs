//! `zaro consolidate`: write or remove consolidated metadata.

use clap::Args;
use zaro::internal::path::shown;
use zaro::meta::Json;
use zaro::{Result, hierarchy};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::plural;

const EXAMPLES: &str = "\
Examples:
  zaro consolidate data.zarr
  zaro consolidate s3://bucket/data.zarr
  zaro consolidate data.zarr --remove

One request then opens the whole hierarchy. zaro keeps the copies up to date when it
changes a node; other programs may not.";

/// Write consolidated metadata: the metadata of all nodes below a group, in one document
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Consolidate {
    #[command(flatten)]
    target: Target,
    /// Remove consolidated metadata instead
    #[arg(long)]
    remove: bool,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

impl Consolidate {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let (store, path) = common.open_for_writing(&self.target, false).await?;
        let (number, text) = if self.remove {
            let removed = hierarchy::unconsolidate(&store, &path).await?;
            let text = if removed { "removed" } else { "there were none" };
            (Json::object(), format!("{}: {text}", shown(&path)))
        } else {
            let n = hierarchy::consolidate(&store, &path).await?;
            (Json::from([("nodes", n.into())]), format!("{}: {}", shown(&path), plural(n, "node")))
        };
        store.finish().await?;
        output::print(&if self.json { format!("{number}\n") } else { format!("{text}\n") })
    }
}
