//! `zaro ref`: inspect, check, convert and rebase reference stores.

mod convert;
mod rebase;
mod stat;
mod target;
mod validate;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use zaro::Result;

use crate::args::Common;

const EXAMPLES: &str = "\
Examples:
  zaro ref stat archive.json
  zaro ref validate s3://bucket/archive.parq --anonymous
  zaro ref convert archive.json archive.parq
  zaro ref rebase archive.json mirror.json --from s3://bucket/ --to https://mirror.example.org/";

/// Inspect, check and convert reference stores (Kerchunk, VirtualiZarr, Icechunk)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Ref {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stat(stat::Stat),
    Validate(validate::Validate),
    Convert(convert::Convert),
    Rebase(rebase::Rebase),
}

impl Ref {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        match &self.command {
            Command::Stat(c) => c.run(common).await?,
            Command::Validate(c) => return c.run(common).await,
            Command::Convert(c) => c.run(common).await?,
            Command::Rebase(c) => c.run(common).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
