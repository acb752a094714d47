//! `zaro image`: commands for OME-Zarr images.

mod add_labels;
mod convert;
mod edit;
mod info;
mod pack;
mod pyramid;
mod render;
mod unpack;
mod upgrade;
mod validate;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use zaro::Result;

use crate::args::Common;

const EXAMPLES: &str = "\
Examples:
  zaro image info image.zarr
  zaro image validate image.zarr
  zaro image render image.zarr -o picture.png
  zaro image convert stack.tif image.zarr
  zaro image pyramid image.zarr";

/// Inspect, validate, edit, render and create OME-Zarr images
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Image {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(Box<info::Info>),
    Validate(Box<validate::Validate>),
    Render(Box<render::Render>),
    Pyramid(Box<pyramid::Pyramid>),
    Convert(Box<convert::Convert>),
    Upgrade(Box<upgrade::Upgrade>),
    Edit(Box<edit::Edit>),
    AddLabels(Box<add_labels::AddLabels>),
    Pack(Box<pack::Pack>),
    Unpack(Box<unpack::Unpack>),
}

impl Image {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        match &self.command {
            Command::Info(c) => c.run(common).await,
            Command::Validate(c) => c.run(common).await,
            Command::Render(c) => c.run(common).await,
            Command::Pyramid(c) => c.run(common).await,
            Command::Convert(c) => c.run(common).await,
            Command::Upgrade(c) => c.run(common).await,
            Command::Edit(c) => c.run(common).await,
            Command::AddLabels(c) => c.run(common).await,
            Command::Pack(c) => c.run(common).await,
            Command::Unpack(c) => c.run(common).await,
        }
    }
}

/// Whether an address ends in `.ozx`, a file format with its own rules.
pub(crate) fn is_ozx(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    path.trim_end_matches('/').to_ascii_lowercase().ends_with(".ozx")
}
