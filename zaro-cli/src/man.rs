//! `zaro man`: print or write manual pages, generated from the same texts as `--help`.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;
use zaro::{Error, Result};

use crate::output;
use crate::path::local_path;

const EXAMPLES: &str = "\
Examples:
  Read it in the terminal:
      zaro man | man -l -
  Install a page for every command:
      zaro man ~/.local/share/man/man1";

/// Print the manual page, or write one for each command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// A folder to write the pages to: zaro.1, zaro-read.1, zaro-image-render.1, …
    #[arg(value_parser = local_path())]
    dir: Option<PathBuf>,
}

impl Man {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<()> {
        // `zaro help` is in every page's list of commands else, and has no page of its own.
        let mut command = crate::command().disable_help_subcommand(true);
        command.build();
        let Some(dir) = &self.dir else {
            let mut page = Vec::new();
            Page::new(command).render(&mut page)?;
            return output::print(&String::from_utf8_lossy(&page));
        };
        std::fs::create_dir_all(dir).map_err(|e| Error::from(e).within(dir.display()))?;
        write(&command, dir)
    }
}

/// Writes the page of a command and those of the commands below it: `zaro-image.1`, `zaro-image-render.1`.
fn write(command: &Command, dir: &Path) -> Result<()> {
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write(below, dir)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    // A page is called what the whole command line is.
    Page::new(command.clone().name(name.to_owned())).render(&mut page)?;
    std::fs::write(&file, page).map_err(|e| Error::from(e).within(file.display()))
}
