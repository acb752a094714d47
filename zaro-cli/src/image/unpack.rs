//! `zaro image unpack`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Unpack an .ozx file
#[derive(Debug, Args)]
pub(crate) struct Unpack {}

impl Unpack {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
