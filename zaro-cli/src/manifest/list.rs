//! `zaro manifest list`: list the versions of a Zarr.

use clap::Args;
use zaro::manifest::{Digest, ListedVersion, versions};
use zaro::meta::Json;
use zaro::{Error, Result};

use super::bucket::{is_bucket, split_zarr, zarr};
use crate::args::Common;
use crate::number::human_bytes;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zaro manifest list archive --zarr 1284a14f-fe4f-4dc3-b10d-48e5db8bf18d
  zaro manifest list archive/zarr-manifest/128/4a1/1284a14f-fe4f-4dc3-b10d-48e5db8bf18d

Newest first, by the last modification in each manifest. A state that was restored keeps its
old date; --current marks the one that is current, which takes a listing of the Zarr. Only the
head of each manifest is read.";

/// List the versions of a Zarr: its manifests, newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Parent of the folder zarr-manifest, or the folder of one Zarr's manifests
    #[arg(value_name = "URI")]
    uri: String,
    /// The id of the Zarr
    #[arg(long, value_name = "ID")]
    zarr: Option<String>,
    /// Mark the current version and list it first (lists the objects of a Zarr in a bucket)
    #[arg(long)]
    current: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        // The Zarr itself stands for where its manifests are.
        let (uri, id) = match (split_zarr(&self.uri), &self.zarr) {
            (Some((base, id)), None) => (base, Some(id)),
            (_, id) => (self.uri.as_str(), id.as_deref()),
        };
        let store = zaro::open::open_store(uri, common.source_options()?).await?;
        let mut versions = versions(&store, id).await?;
        let now = if self.current { Some(current(common, uri, id).await?) } else { None };
        versions.sort_by_key(|v| Some(v.checksum) != now);
        for version in &versions {
            if let Err(e) = &version.statistics {
                common.warn(&format!("{}: {e}", version.key));
            }
        }
        if let Some(now) = now.filter(|now| versions.first().is_none_or(|v| v.checksum != *now)) {
            common.warn(&format!("the current version has no manifest; its checksum is {now}"));
        }
        let text = if self.json {
            format!("{}\n", versions.iter().map(|v| json(v, now)).collect::<Json>().pretty())
        } else {
            versions.iter().map(|v| line(v, now)).collect()
        };
        output::print(&text)
    }
}

/// The checksum of the Zarr as it is now.
async fn current(common: &Common, base: &str, id: Option<&str>) -> Result<Digest> {
    let Some(id) = id.filter(|_| is_bucket(base)) else {
        return Err(Error::usage("--current needs a Zarr in a bucket, such as s3://bucket/zarr/ID"));
    };
    let zarr = zarr(common, &format!("{}/zarr/{id}", base.trim_end_matches('/')))?;
    zaro::manifest::bucket::checksum(&zarr).await
}

fn line(v: &ListedVersion, now: Option<Digest>) -> String {
    let time = v.last_modified().map_or_else(|| "-".to_owned(), |t| t.to_string());
    let mark = match &v.statistics {
        Err(_) => "  (cannot be read)",
        Ok(_) if now == Some(v.checksum) => "  (current)",
        Ok(_) => "",
    };
    format!(
        "{time:<25}  {:>9} entries  {:>10}  {}{mark}\n",
        v.checksum.count,
        human_bytes(v.checksum.size.into()),
        v.checksum
    )
}

fn json(v: &ListedVersion, now: Option<Digest>) -> Json {
    let mut out = Json::from([
        ("checksum", v.checksum.to_string().into()),
        ("entries", v.checksum.count.into()),
        ("size", v.checksum.size.into()),
        ("depth", v.statistics.as_ref().ok().and_then(|s| s.depth).into()),
        ("lastModified", v.last_modified().map(|t| t.to_string()).into()),
    ]);
    if let Some(now) = now {
        out.set("current", v.checksum == now);
    }
    if let Err(e) = &v.statistics {
        out.set("error", e.to_string());
    }
    out.set("manifest", &v.key);
    out
}
