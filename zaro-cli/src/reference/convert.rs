//! `zaro ref convert`: write a reference store in another form, JSON or Parquet.

use clap::Args;
use zaro::Result;

use super::target::{Making, Source, report};
use crate::args::Common;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  A large document as Parquet, and back:
      zaro ref convert archive.json archive.parq
      zaro ref convert archive.parq archive.json.zst
  A tag of an Icechunk repository, for Kerchunk readers:
      zaro ref convert s3://bucket/repo v1.json --tag v1.0
  Larger files, for fewer requests:
      zaro ref convert a.parq b.parq --record-size 500000

Keys and bytes stay the same; inline data stay inline. Templates and generated entries are
expanded. Relative addresses become absolute where they would resolve differently from the new
place. The new store becomes visible only when it is complete.";

/// Write a reference store in another form: JSON or Parquet
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Convert {
    /// The reference store: JSON (also .gz, .zst), a folder of Parquet, or an Icechunk repository
    #[arg(value_name = "SRC")]
    source: String,
    /// The new one
    #[arg(value_name = "DST")]
    to: String,
    #[command(flatten)]
    making: Making,
    /// Print a JSON summary on standard output
    #[arg(long)]
    json: bool,
}

impl Convert {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let source = Source::open(common, &self.source).await?;
        let mut addresses = self.making.addresses(common, &source, Some(&self.to))?;
        let done = self.making.make(common, &source, &self.to, &mut addresses).await?;
        if self.json {
            let out = done.json(Some(&self.to), &addresses.counts());
            return output::json(&out);
        }
        report(common, &self.to, &done, &addresses.counts());
        Ok(())
    }
}
