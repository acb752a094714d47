//! `zaro completions`: print shell completion scripts.

use clap::Args;
use clap_complete::Shell;
use zaro::Result;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  bash:  zaro completions bash > ~/.local/share/bash-completion/completions/zaro
  zsh:   zaro completions zsh > ~/.zfunc/_zaro
  fish:  zaro completions fish > ~/.config/fish/completions/zaro.fish";

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "zaro", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}
