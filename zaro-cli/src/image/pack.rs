//! `zaro image pack`: pack an image into one .ozx file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zaro::Result;
use zaro::image::ozx;

use crate::args::Common;
use crate::number;
use crate::output;
use crate::path::output_path;

const EXAMPLES: &str = "\
Examples:
  zaro image pack image.zarr image.ozx
  zaro image pack s3://bucket/plate.zarr plate.ozx
  zaro image pack collection.zarr second.ozx --path 1

The archive starts with the root's zarr.json, then the other documents, then chunks; nothing is
compressed a second time. Versions before 0.5 must be upgraded first.";

/// Pack an image into one .ozx file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pack {
    /// The image, plate or collection: any address that can be listed
    #[arg(value_name = "SRC")]
    source: String,
    /// Archive to create, e.g. image.ozx
    #[arg(value_name = "DST", value_parser = output_path())]
    target: PathBuf,
    /// The node of SRC to pack, with all below it [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

impl Pack {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let zarr = common.open_any(&self.source).await?;
        let packed = ozx::pack(&zarr, &self.path, &self.target, common.memory).await?;
        if !packed.unsharded.is_empty() {
            let (n, first) = (packed.unsharded.len(), packed.unsharded.iter().take(3));
            common.warn(&format!(
                "{n} array{} without shards ({}): every chunk becomes an entry; \
                 `zaro copy --shards` reduces their number",
                if n == 1 { "" } else { "s" },
                first.cloned().collect::<Vec<_>>().join(", ")
            ));
        }
        if packed.left_out > 0 {
            common.warn(&format!("{} Zarr V2 documents were left out", packed.left_out));
        }
        if self.json {
            output::json_line([
                ("version", packed.version.as_str().into()),
                ("entries", packed.entries.into()),
                ("bytes", packed.bytes.into()),
                ("unsharded", (&packed.unsharded).into()),
                ("left_out", packed.left_out.into()),
            ])?;
        } else {
            common.say(&format!(
                "packed {} entries, {}, into {}",
                packed.entries,
                number::human_bytes(packed.bytes.into()),
                self.target.display()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
