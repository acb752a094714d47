//! `zaro image pack`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Pack an image into one .ozx file
#[derive(Debug, Args)]
pub(crate) struct Pack {}

impl Pack {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
