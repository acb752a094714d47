//! `zaro manifest create`: create a manifest of a Zarr as it is now.

use std::path::{Path, PathBuf};

use clap::Args;
use zaro::manifest::{ManifestLayout, ManifestOptions, Stored, check_zarr_id, key_of, store_manifest};
use zaro::{Error, Result};

use super::bucket::{self, BucketCreate, Destination};
use crate::args::Common;
use crate::checksum::{HashingArgs, folder_of};
use crate::output;
use crate::path::{local_path, output_path, word};

const EXAMPLES: &str = "\
Examples:
  zaro manifest create data.zarr -o manifest.json
  zaro manifest create data.zarr --zarr 1284a14f-fe4f-4dc3-b10d-48e5db8bf18d --to archive
  zaro manifest create data.zarr -o - --layout compact | jq .statistics
  zaro manifest create s3://bucket/zarr/ID

With --to, the manifest is written to zarr-manifest/{3}/{3}/{ID}/{checksum}.json below that folder.
An existing manifest with the same checksum is kept; anything else in its place is an error,
unless --replace is given. A manifest of a folder has no version ids. That of a Zarr in a bucket
goes to its usual place in the bucket by default.";

/// Create a manifest of a Zarr as it is now
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The Zarr: a folder, or s3://bucket/zarr/ID
    #[arg(value_name = "URI")]
    uri: String,
    /// Root directory to store the manifest below, by Zarr id
    #[arg(long, value_name = "FOLDER", conflicts_with = "output", value_parser = local_path())]
    to: Option<PathBuf>,
    /// The id of the Zarr
    #[arg(long, value_name = "ID")]
    zarr: Option<String>,
    /// The file to write; - for standard output
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    output: Option<PathBuf>,
    /// Replace a different manifest in its place
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    writing: WritingArgs,
    #[command(flatten)]
    hashing: HashingArgs,
    #[command(flatten)]
    bucket: BucketCreate,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

/// How a manifest is written.
#[derive(Debug, Clone, Args)]
pub(crate) struct WritingArgs {
    /// Layout: one entry per line, or no white space
    #[arg(long, value_parser = word(LAYOUTS), default_value = "lines")]
    layout: ManifestLayout,
    /// Write a schemaVersion, as the proof of concept does (2) and the specification does not
    #[arg(long, value_name = "N")]
    schema_version: Option<u64>,
}

/// The values of `--layout`.
const LAYOUTS: &[(&str, &str, ManifestLayout)] =
    &[("lines", "", ManifestLayout::Lines), ("compact", "", ManifestLayout::Compact)];

impl WritingArgs {
    /// The options as the library takes them.
    pub(crate) fn options(&self) -> ManifestOptions {
        ManifestOptions::default().with_layout(self.layout).with_schema_version(self.schema_version)
    }
}

impl Create {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        if bucket::is_bucket(&self.uri) {
            let to = match (&self.to, &self.output) {
                (Some(folder), _) => Destination::Folder(folder),
                (None, Some(file)) => Destination::File(file),
                (None, None) => Destination::Bucket,
            };
            if let Some(id) = self
                .zarr
                .as_ref()
                .filter(|id| Some(id.as_str()) != self.uri.trim_end_matches('/').rsplit('/').next())
            {
                return Err(Error::usage(format!(
                    "--zarr {id} differs from the id at the end of the address; leave it out for a Zarr in a bucket"
                )));
            }
            let write = self.writing.options();
            return bucket::create(common, &self.uri, &self.bucket, to, write, self.replace, self.json).await;
        }
        if self.to.is_none() && self.output.is_none() {
            return Err(Error::usage("name the output: --to FOLDER with --zarr ID, or -o FILE"));
        }
        // An id that is none is found before the work, not after it.
        if let Some(id) = &self.zarr {
            check_zarr_id(id)?;
        }
        let manifest = self.hashing.manifest(&folder_of(&self.uri)?, common)?;
        let statistics = manifest.statistics()?;
        let checksum = manifest.checksum()?;
        let options = self.writing.options();
        let path = match (&self.to, &self.zarr, &self.output) {
            (Some(folder), Some(id), _) => folder.join(key_of(id, &checksum)?),
            (_, _, Some(file)) if file == Path::new("-") => {
                return manifest.write(std::io::stdout().lock(), &statistics, &options);
            }
            (_, _, Some(file)) => file.clone(),
            _ => return Err(Error::usage("--to needs --zarr")),
        };
        let stored =
            store_manifest(&path, &checksum, self.replace, |out| manifest.write(out, &statistics, &options))?;
        if self.json {
            return output::json_line([
                ("manifest", path.display().to_string().into()),
                ("checksum", checksum.to_string().into()),
                ("entries", checksum.count.into()),
                ("bytes", checksum.size.into()),
                ("new", (stored == Stored::New).into()),
            ]);
        }
        if stored == Stored::Kept {
            common.say("this version already has a manifest; it was kept");
        }
        output::print(&format!("{}\n", path.display()))
    }
}
