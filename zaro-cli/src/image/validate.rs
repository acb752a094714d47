//! `zaro image validate`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Check images against the rules of their version
#[derive(Debug, Args)]
pub(crate) struct Validate {}

impl Validate {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
