//! `zaro checksum`: compute the Dandi Zarr checksum.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use zaro::manifest::bucket::{ListingSource, current};
use zaro::manifest::{Digesting, Digests, Dir, LocalOptions, Manifest, of_folder};
use zaro::meta::Json;
use zaro::{Error, Result};

use crate::args::Common;
use crate::manifest::bucket;
use crate::output::{self, Output};
use crate::paint::plain;
use crate::path::output_path;
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro checksum data.zarr
  zaro checksum data.zarr --tree
  zaro checksum s3://bucket/zarr/ID --anonymous
  zaro checksum data.zarr --cache ~/.cache/zaro-digests

Prints {md5}-{files}--{bytes}, the checksum of a Zarr in the Dandi Archive. Files and folders
named .dandi, .datalad, .git, .gitattributes and .gitmodules are ignored, as by the archive's
own client; so are links to folders. Links to files count as the files.";

/// Compute the Dandi Zarr checksum of a folder or of a Zarr in a bucket
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Checksum {
    /// The folder, or s3://bucket/zarr/ID
    #[arg(value_name = "URI")]
    uri: String,
    #[command(flatten)]
    hashing: HashingArgs,
    /// Print the digest of every directory, not only the root
    #[arg(long)]
    tree: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How the files of a folder are hashed.
#[derive(Debug, Clone, Args)]
pub(crate) struct HashingArgs {
    /// Include files the archive's client leaves out
    #[arg(long)]
    pub(crate) all_files: bool,
    /// Use multipart ETags as digests, as new Zarrs of the archive do
    #[arg(long)]
    pub(crate) multipart: bool,
    /// Cache digests in this file, and hash only files that have changed
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    pub(crate) cache: Option<PathBuf>,
}

impl HashingArgs {
    /// The options as the library takes them.
    pub(crate) fn options(&self) -> LocalOptions<'static> {
        LocalOptions::default()
            .with_all_files(self.all_files)
            .with_digesting(if self.multipart { Digesting::Parts } else { Digesting::Whole })
            .with_cache(self.cache.clone())
    }

    /// Hashes the folder into a manifest, with a progress bar.
    pub(crate) fn manifest(&self, folder: &Path, common: &Common) -> Result<Manifest> {
        self.manifest_with(folder, &self.options(), common)
    }

    /// The same with other options.
    pub(crate) fn manifest_with(
        &self,
        folder: &Path,
        options: &LocalOptions<'_>,
        common: &Common,
    ) -> Result<Manifest> {
        let watch = Watch::new(common.progress);
        of_folder(folder, &options.clone().with_task(watch.task()))
    }
}

/// The local folder that an address names; an error if it is not a local path.
pub(crate) fn folder_of(uri: &str) -> Result<PathBuf> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if path.contains("://") {
        return Err(Error::unsupported(format!("{uri} is not a local folder")));
    }
    Ok(PathBuf::from(path))
}

impl Checksum {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let in_bucket = bucket::is_bucket(&self.uri);
        if in_bucket && !self.tree && !self.json {
            let checksum = zaro::manifest::bucket::checksum(&bucket::zarr(common, &self.uri)?).await?;
            return output::print(&format!("{checksum}\n"));
        }
        let manifest = match in_bucket {
            true => current(&bucket::zarr(common, &self.uri)?, &ListingSource::Objects).await?,
            false => self.hashing.manifest(&folder_of(&self.uri)?, common)?,
        };
        let digests = manifest.digests()?;
        let root = digests.root();
        let mut out = Output::open(None)?;
        if self.json {
            let mut report = Json::from([
                ("checksum", root.to_string().into()),
                ("files", root.count.into()),
                ("bytes", root.size.into()),
            ]);
            if self.tree {
                let mut list = Vec::new();
                each_dir(&manifest.root(), "", &digests, &mut |path, digest| {
                    list.push(Json::from([("path", path.into()), ("digest", digest.into())]));
                    Ok(())
                })?;
                report.set("directories", list);
            }
            writeln!(out, "{}", output::safe(&report.pretty()))?;
        } else if self.tree {
            each_dir(&manifest.root(), "", &digests, &mut |path, digest| {
                let path = if path.is_empty() { "." } else { path };
                Ok(writeln!(out, "{digest}  {}", plain(path))?)
            })?;
        } else {
            writeln!(out, "{root}")?;
        }
        out.finish()
    }
}

/// Calls `tell` for a directory and every directory below it.
fn each_dir(
    dir: &Dir<'_>,
    path: &str,
    digests: &Digests,
    tell: &mut dyn FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    tell(path, &digests.of(dir).to_string())?;
    for sub in dir.dirs() {
        let below = if path.is_empty() { sub.name().to_owned() } else { format!("{path}/{}", sub.name()) };
        each_dir(&sub, &below, digests, tell)?;
    }
    Ok(())
}
