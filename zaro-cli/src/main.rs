//! The `zaro` command: open any Zarr, wherever it lives; look at it, read it, write it, check it.
//!
//! One file per command (`info`, `list`, `meta`, `read`, `validate`, `stat`, `serve`, `demo`, `completions`, `man`, and those
//! that write: `create`, `write`, `resize`, `attrs`, `consolidate`, `delete`), each with its options, help and
//! examples; `args` has the options that all of them share. The work is done by the library, [`zaro`]; this crate has
//! only what a terminal needs: options, text, colours and progress.
//!
//! Data go to standard output, everything else to standard error. Exit codes are those of
//! [`zaro::ErrorKind::exit_code`], and 1 for findings of `zaro validate`. `docs/book/reading.md` is the guide.

mod args;
mod attrs;
mod checksum;
mod completions;
mod conformance;
mod consolidate;
mod copy;
mod create;
mod delete;
mod demo;
mod demo_image;
mod format;
mod image;
mod info;
mod list;
mod making;
mod man;
mod manifest;
mod meta;
mod output;
mod paint;
mod path;
mod progress;
mod read;
mod reference;
mod resize;
mod select;
mod serve;
mod shell;
mod signal;
mod stat;
mod stdout;
mod storage;
mod validate;
mod write;

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
pub(crate) use zaro::internal::text as number;
use zaro::{Error, ErrorKind, Hint, Result};

use crate::args::Common;
use crate::paint::{Paint, plain};

const EXAMPLES: &str = "\
Examples:
  Show what is in a Zarr:
      zaro info data.zarr
  Look at an array, then at a picture of a slice of it:
      zaro read data.zarr temperature
      zaro read data.zarr temperature --select '0,:,:' -o map.png
  A public bucket, a web server, a ZIP archive:
      zaro info s3://bucket/data.zarr --anonymous
      zaro info https://example.org/data.zarr
      zaro list archive.zarr.zip -r
  Create an array from a numpy file, and append to it:
      zaro write data.zarr temperature --from temperature.npy --create
      zaro write data.zarr temperature --from tomorrow.npy --append time
  Check it:
      zaro validate data.zarr

Exit codes: 0 ok, 1 findings, 2 usage, 3 not found, 4 invalid data, 5 unsupported,
6 input/output or network, 7 not permitted.";

/// Open any Zarr, wherever it lives: look at it, read it, write it, check it
#[derive(Debug, Parser)]
#[command(name = "zaro", version, after_help = EXAMPLES, arg_required_else_help = true, override_usage = "zaro [OPTIONS] <COMMAND>")]
struct Cli {
    /// The public conformance contract: print the array in this directory, one element per line
    #[arg(long = "array_path", value_name = "DIR", hide = true)]
    array_path: Option<String>,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Info),
    List(list::List),
    Meta(meta::Meta),
    Read(Box<read::Read>),
    Validate(validate::Validate),
    Stat(stat::Stat),
    Ref(reference::Ref),
    Copy(Box<copy::Copy>),
    Create(Box<create::Create>),
    Write(Box<write::Write>),
    Resize(resize::Resize),
    Attrs(attrs::Attrs),
    Consolidate(consolidate::Consolidate),
    Delete(delete::Delete),
    Checksum(checksum::Checksum),
    Manifest(Box<manifest::Manifest>),
    Image(image::Image),
    Serve(Box<serve::Serve>),
    Demo(demo::Demo),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Turns a failed thread start into an ordinary error. Libraries that start threads panic or hang when the system is
/// out of threads or of memory for one; this ends the command at once instead.
fn watch_for_lack_of_threads() {
    const WORDS: [&str; 5] = [
        "OS can't spawn worker thread",
        "failed to spawn thread",
        "global thread pool",
        "alternative stack",
        "guard page",
    ];
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
        if WORDS.iter().any(|words| text.contains(words)) {
            let _ =
                writeln!(std::io::stderr(), "zaro: error: the system is out of threads or memory: {text}");
            std::process::exit(ErrorKind::Io.exit_code().into());
        }
        usual(info);
    }));
}

/// The command line, with options shown only where they apply: store options in the long help only, and not for
/// commands that open no store.
fn command() -> clap::Command {
    let short = |a: clap::Arg| {
        let of_stores = a.get_help_heading() == Some(args::STORE_OPTIONS);
        if of_stores { a.hide_short_help(true) } else { a }
    };
    let mut command = Cli::command().mut_args(short);
    let shared: Vec<clap::Arg> = command.get_arguments().filter(|a| a.is_global_set()).cloned().collect();
    for name in ["completions", "man", "demo"] {
        let hidden = shared.iter().map(|a| a.clone().hide(true));
        command = command.mut_subcommand(name, |c| c.args(hidden));
    }
    // What they write to is no reference store, repository or manifest.
    for name in ["create", "write", "resize", "attrs", "consolidate", "delete"] {
        let of_reading = shared.iter().filter(|a| args::OF_READING.contains(&a.get_id().as_str()));
        let hidden: Vec<clap::Arg> = of_reading.map(|a| a.clone().hide(true)).collect();
        command = command.mut_subcommand(name, |c| c.args(hidden));
    }
    command
}

/// The command line `words`.
fn parse<T: Into<std::ffi::OsString> + Clone>(
    words: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
}

/// Adds a tip to use the option for a node's path, where it was given as an argument.
fn with_tip(mut e: clap::Error) -> clap::Error {
    let usage = e.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let word = e.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let has_path =
        ["zaro copy ", "zaro image upgrade ", "zaro image pack "].iter().any(|c| usage.contains(c));
    if e.kind() == clap::error::ErrorKind::UnknownArgument && has_path && !word.starts_with('-') {
        let tip = format!("to name a node, use --path {}", shell::quoted(&word));
        e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    e
}

fn main() -> ExitCode {
    watch_for_lack_of_threads();
    let cli = match parse(std::env::args_os()).map_err(with_tip) {
        Ok(cli) => cli,
        Err(e) if e.use_stderr() => {
            let _ = e.print();
            return ExitCode::from(2);
        }
        Err(e) => {
            // Help and the like, which are no faults unless they cannot be shown.
            let shown = stdout::open().map(drop).and_then(|()| Ok(e.print()?));
            return shown.map_or_else(|e| failed(&e, paint::Color::Auto), |()| ExitCode::SUCCESS);
        }
    };
    match run(&cli) {
        Ok(code) => code,
        Err(e) => failed(&e, cli.common.color),
    }
}

/// The text of an error, with hints in terms of command-line options.
fn said(e: &Error) -> String {
    let hints: Vec<String> = e.hints().iter().map(hinted).collect();
    format!("{e:#}{}{}", if hints.is_empty() { "" } else { "; " }, hints.join(", or "))
}

/// A hint: the option as it is typed, and what it does.
fn hinted(hint: &Hint) -> String {
    let operation = hint.operation.map(|o| format!("zaro {o}"));
    let option = hint.option.map(|o| format!("--{}", o.replace('_', "-")));
    let value = hint.value.as_deref().map(shell::quoted);
    let does = Some(hint.does.to_owned()).filter(|d| !d.is_empty());
    [operation, option, value, does].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn failed(e: &Error, color: paint::Color) -> ExitCode {
    if is_broken_pipe(e) {
        return ExitCode::SUCCESS;
    }
    let paint = Paint::stderr(color);
    let _ = writeln!(std::io::stderr(), "zaro: {} {}", paint.red("error:"), plain(&said(e)));
    ExitCode::from(e.kind().exit_code())
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    cli.common.share_context(runtime.handle().clone());
    let done = runtime.block_on(async {
        signal::listen(!matches!(cli.command, Some(Command::Serve(_))));
        dispatch(cli).await
    });
    // A request that nobody waits for any more is no reason to stay.
    runtime.shutdown_background();
    done
}

async fn dispatch(cli: &Cli) -> Result<ExitCode> {
    let common = &cli.common;
    match (&cli.command, &cli.array_path) {
        (Some(Command::Info(c)), _) => c.run(common).await?,
        (Some(Command::List(c)), _) => c.run(common).await?,
        (Some(Command::Meta(c)), _) => c.run(common).await?,
        (Some(Command::Read(c)), _) => c.run(common).await?,
        (Some(Command::Validate(c)), _) => return c.run(common).await,
        (Some(Command::Stat(c)), _) => c.run(common).await?,
        (Some(Command::Ref(c)), _) => return Box::pin(c.run(common)).await,
        (Some(Command::Copy(c)), _) => c.run(common).await?,
        (Some(Command::Create(c)), _) => c.run(common).await?,
        (Some(Command::Write(c)), _) => c.run(common).await?,
        (Some(Command::Resize(c)), _) => c.run(common).await?,
        (Some(Command::Attrs(c)), _) => c.run(common).await?,
        (Some(Command::Consolidate(c)), _) => c.run(common).await?,
        (Some(Command::Delete(c)), _) => c.run(common).await?,
        (Some(Command::Checksum(c)), _) => c.run(common).await?,
        (Some(Command::Manifest(c)), _) => return c.run(common).await,
        (Some(Command::Image(c)), _) => return c.run(common).await,
        (Some(Command::Serve(c)), _) => c.run(common).await?,
        (Some(Command::Demo(c)), _) => {
            for line in c.make().await? {
                let shown: Vec<String> = line.iter().map(|w| shell::quoted(w)).collect();
                output::print(&format!("\n$ zaro {}\n", shown.join(" ")))?;
                let words = std::iter::once("zaro".to_owned()).chain(line);
                let step = parse(words).map_err(|e| Error::usage(e.to_string()))?;
                Box::pin(dispatch(&step)).await?;
            }
            c.closing()?;
        }
        (Some(Command::Completions(c)), _) => c.run()?,
        (Some(Command::Man(c)), _) => c.run()?,
        (None, Some(path)) => conformance::run(path, common).await?,
        (None, None) => return Err(Error::usage("no command given; see zaro --help")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the reader of our output closed the pipe, which is not an error (`zaro list … | head`).
fn is_broken_pipe(e: &Error) -> bool {
    let source = std::error::Error::source(e);
    source
        .and_then(|s| s.downcast_ref::<std::io::Error>())
        .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
