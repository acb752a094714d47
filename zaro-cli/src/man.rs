//! `zaro man`: manual pages, made of the same texts as `--help`.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man as Page;
use zaro::{Error, Result};

use crate::{Cli, output};

const EXAMPLES: &str = "\
Examples:
  Read it at once:
      zaro man | man -l -
  Install a page for every command:
      zaro man ~/.local/share/man/man1";

/// Print the manual page, or write one for every command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// A folder to write the pages to: zaro.1, zaro-read.1, …
    dir: Option<PathBuf>,
}

impl Man {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<()> {
        let mut command = Cli::command();
        command.build();
        let Some(dir) = &self.dir else {
            return output::print(&String::from_utf8_lossy(&page(command)?));
        };
        let fault = |e: std::io::Error| Error::from(e).within(dir.display());
        std::fs::create_dir_all(dir).map_err(fault)?;
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
        for sub in visible.cloned().collect::<Vec<_>>() {
            let name = format!("zaro-{}", sub.get_name());
            let file = dir.join(format!("{name}.1"));
            // A page's name is the whole command line's.
            std::fs::write(file, page(sub.name(name))?).map_err(fault)?;
        }
        std::fs::write(dir.join("zaro.1"), page(command)?).map_err(fault)
    }
}

fn page(command: Command) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    Page::new(command).render(&mut out)?;
    Ok(out)
}
