//! `zaro image add-labels`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Add labels to an image
#[derive(Debug, Args)]
pub(crate) struct AddLabels {}

impl AddLabels {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
