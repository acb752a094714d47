//! `zaro image unpack`: unpack an .ozx file into a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zaro::image::ozx;
use zaro::{Error, Result};

use crate::args::Common;
use crate::number;
use crate::output;
use crate::path::local_path;

const EXAMPLES: &str = "\
Examples:
  zaro image unpack image.ozx image.zarr
  zaro image unpack https://example.org/image.ozx image.zarr

The checksum of every entry is verified. An .ozx need not be unpacked to be read: all other
commands open it in place. To unpack to a remote store: zaro copy image.ozx s3://…";

/// Unpack an .ozx file into a folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Unpack {
    /// The archive: a path or an address
    #[arg(value_name = "SRC")]
    source: String,
    /// The folder to create
    #[arg(value_name = "DST", value_parser = local_path())]
    target: PathBuf,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

impl Unpack {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let archive = zaro::open::open_archive(&self.source, &common.store_options()?).await?;
        let Some(archive) = archive else {
            return Err(Error::not_found("archive not found").with_store(&self.source));
        };
        let done = ozx::unpack(&archive, &self.target).await?;
        if self.json {
            output::json_line([("files", done.files.into()), ("bytes", done.bytes.into())])?;
        } else {
            let bytes = number::human_bytes(done.bytes.into());
            common.say(&format!("unpacked {} files, {bytes}, into {}", done.files, self.target.display()));
        }
        Ok(ExitCode::SUCCESS)
    }
}
