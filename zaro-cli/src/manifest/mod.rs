//! `zaro manifest`: commands for manifests, the versions of a Zarr.

mod backfill;
pub(crate) mod bucket;
mod create;
mod diff;
mod embargo;
mod fetch;
mod gc;
mod history;
mod list;
mod load;
mod show;
mod to_reference;
mod tree;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use zaro::Result;

use crate::args::Common;

const EXAMPLES: &str = "\
Examples:
  zaro manifest create data.zarr --zarr 1284a14f-fe4f-4dc3-b10d-48e5db8bf18d --to archive
  zaro manifest list archive --zarr 1284a14f-fe4f-4dc3-b10d-48e5db8bf18d
  zaro manifest verify manifest.json --folder data.zarr --bytes
  zaro manifest diff old.json new.json
  zaro manifest create s3://bucket/zarr/ID

A manifest is one version of a Zarr: every object with its version, size, digest and time. It
is named after the checksum of the Zarr, which zaro checksum prints.";

/// Create, check and use manifests: versions of a Zarr
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Manifest {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Create),
    Verify(verify::Verify),
    Show(show::Show),
    Tree(tree::Tree),
    Diff(diff::Diff),
    List(list::List),
    Fetch(fetch::Fetch),
    History(history::History),
    Backfill(backfill::Backfill),
    Unembargo(embargo::Unembargo),
    Gc(gc::Gc),
    ToReference(to_reference::ToReference),
}

impl Manifest {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        match &self.command {
            Command::Create(c) => c.run(common).await?,
            Command::Verify(c) => return c.run(common).await,
            Command::Show(c) => c.run(common).await?,
            Command::Tree(c) => c.run(common).await?,
            Command::Diff(c) => return c.run(common).await,
            Command::List(c) => c.run(common).await?,
            Command::Fetch(c) => c.run(common).await?,
            Command::History(c) => c.run(common).await?,
            Command::Backfill(c) => return c.run(common).await,
            Command::Unembargo(c) => c.run(common).await?,
            Command::Gc(c) => return c.run(common).await,
            Command::ToReference(c) => c.run(common).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
