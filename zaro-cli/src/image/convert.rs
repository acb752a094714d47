//! `zaro image convert`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Make an image of TIFF, PNG, JPEG or numpy files
#[derive(Debug, Args)]
pub(crate) struct Convert {}

impl Convert {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
