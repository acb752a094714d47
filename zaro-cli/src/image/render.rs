//! `zaro image render`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// Draw an image, a plate or a well to a picture
#[derive(Debug, Args)]
pub(crate) struct Render {}

impl Render {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
