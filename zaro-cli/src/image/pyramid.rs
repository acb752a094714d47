//! `zaro image pyramid`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Make the smaller levels of an image
#[derive(Debug, Args)]
pub(crate) struct Pyramid {}

impl Pyramid {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
