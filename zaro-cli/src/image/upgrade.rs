//! `zaro image upgrade`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Bring an image to another version of OME-Zarr
#[derive(Debug, Args)]
pub(crate) struct Upgrade {}

impl Upgrade {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
