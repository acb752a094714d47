//! `zaro manifest to-reference`: a version for readers of Kerchunk's references.

use std::path::PathBuf;

use clap::Args;
use zaro::Result;
use zaro::manifest::kerchunk;

use super::load::load;
use crate::args::Common;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zaro manifest to-reference manifest.json \\
      --base https://dandiarchive.s3.amazonaws.com/zarr/1284a14f-fe4f-4dc3-b10d-48e5db8bf18d -o refs.json

Each key stands for one object, {base}/{key}?versionId={version}.";

/// Write a version as Kerchunk references, one versioned address a key
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
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ToReference {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let manifest = load(&self.manifest, common).await?;
        let mut out = Output::open(self.output.as_deref())?;
        kerchunk::write(&manifest, &self.base, &mut out)?;
        out.finish()
    }
}
