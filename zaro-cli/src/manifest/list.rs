//! `zaro manifest list`: the versions of a Zarr.

use clap::Args;
use zaro::Result;
use zaro::manifest::list::{self, Version};
use zaro::meta::json::Json;

use crate::args::Common;
use crate::number::human_bytes;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zaro manifest list archive --zarr 1284a14f-fe4f-4dc3-b10d-48e5db8bf18d
  zaro manifest list archive/zarr-manifest/128/4a1/1284a14f-fe4f-4dc3-b10d-48e5db8bf18d

Newest first. Only the head of each manifest is read.";

/// List the versions of a Zarr: its manifests, newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// The place of the folder zarr-manifest, or the folder of one Zarr's manifests
    #[arg(value_name = "URI")]
    uri: String,
    /// The id of the Zarr
    #[arg(long, value_name = "ID")]
    zarr: Option<String>,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

impl List {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let store = zaro::open::open_store(&self.uri, &common.store_options()?).await?;
        let versions = list::versions(&store, self.zarr.as_deref()).await?;
        let text = if self.json {
            format!("{}\n", Json::Array(versions.iter().map(json).collect()).pretty())
        } else {
            versions.iter().map(line).collect()
        };
        output::print(&text)
    }
}

fn line(v: &Version) -> String {
    let time = v.statistics.last_modified.map_or_else(|| "-".to_owned(), |t| t.to_string());
    format!(
        "{time:<25}  {:>9} entries  {:>10}  {}\n",
        v.checksum.count,
        human_bytes(v.checksum.size.into()),
        v.checksum
    )
}

fn json(v: &Version) -> Json {
    let mut out = Json::object();
    out.set("checksum", Json::string(v.checksum.to_string()));
    out.set("entries", Json::int(v.checksum.count));
    out.set("size", Json::int(v.checksum.size));
    out.set("depth", v.statistics.depth.map_or(Json::Null, Json::int));
    let time = v.statistics.last_modified;
    out.set("lastModified", time.map_or(Json::Null, |t| Json::String(t.to_string())));
    out.set("manifest", Json::string(v.key.as_str()));
    out
}
