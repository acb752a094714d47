//! `zaro manifest to-reference`: write a version as Kerchunk references.

use std::path::PathBuf;

use clap::Args;
use zaro::manifest::{StoreSource, write_parquet_references, write_references};
use zaro::reference::RECORD_SIZE;
use zaro::store::StoreExt as _;
use zaro::{Error, Result};

use super::load::{is_folder, load};
use crate::args::Common;
use crate::output::Output;
use crate::path::output_path;

const EXAMPLES: &str = "\
Examples:
  zaro manifest to-reference manifest.json \\
      --base https://dandiarchive.s3.amazonaws.com/zarr/1284a14f-fe4f-4dc3-b10d-48e5db8bf18d -o refs.json

  zaro manifest to-reference manifest.json --base https://… --from data.zarr --parquet refs.parq

Each key refers to one object, {base}/{key}?versionId={version}. Parquet stores the metadata
documents inline, so it needs --from to read them.";

/// Write a version as Kerchunk references, one versioned address per key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToReference {
    /// The manifest; - for standard input
    #[arg(value_name = "MANIFEST")]
    manifest: String,
    /// The address of the Zarr whose objects they are
    #[arg(long, value_name = "URL")]
    base: String,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    output: Option<PathBuf>,
    /// A folder to write Parquet references into, instead of JSON
    #[arg(long, value_name = "FOLDER", conflicts_with = "output", requires = "from")]
    parquet: Option<String>,
    /// Where the metadata documents can be read
    #[arg(long, value_name = "URI")]
    from: Option<String>,
}

impl ToReference {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let manifest = load(&self.manifest, common).await?;
        if let (Some(folder), Some(from)) = (&self.parquet, &self.from) {
            let options = common.source_options()?;
            let store = zaro::open::open_store(from, &options).await?;
            // A manifest names versions itself.
            let source = if is_folder(from) || from.starts_with("manifest+") {
                StoreSource::present(store, "")
            } else {
                StoreSource::versioned(store, "")
            };
            let target = zaro::open::open_store_for_writing(folder, &options.store).await?;
            let found = target.list("").await?;
            if !found.objects.is_empty() || !found.prefixes.is_empty() {
                return Err(
                    Error::conflict("the folder is not empty; it was left unchanged").with_store(target)
                );
            }
            let done =
                write_parquet_references(&manifest, &self.base, &source, target.clone(), RECORD_SIZE).await?;
            if done.left_out > 0 {
                let examples = done.examples.join(", ");
                common
                    .warn(&format!("{} keys cannot be stored in Parquet, such as {examples}", done.left_out));
            }
            return target.finish().await;
        }
        let mut out = Output::open(self.output.as_deref())?;
        write_references(&manifest, &self.base, &mut out)?;
        out.finish()
    }
}
