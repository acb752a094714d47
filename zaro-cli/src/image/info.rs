//! `zaro image info`.

use std::process::ExitCode;

use clap::Args;
use zaro::{Error, Result};

use crate::args::Common;

/// What is in an image: sizes, levels, channels, labels
#[derive(Debug, Args)]
pub(crate) struct Info {}

impl Info {
    /// Runs the command.
    pub(crate) async fn run(&self, _common: &Common) -> Result<ExitCode> {
        Err(Error::unsupported("not built yet"))
    }
}
