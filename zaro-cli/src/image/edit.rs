//! `zaro image edit`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Change names, colours, windows and pixel sizes
#[derive(Debug, Args)]
pub(crate) struct Edit {}

impl Edit {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
