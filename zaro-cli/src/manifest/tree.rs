//! `zaro manifest tree`: show the directories of a version, with their digests and sizes.

use std::io::Write as _;

use clap::Args;
use zaro::manifest::{Digests, Dir};
use zaro::meta::Json;
use zaro::{Error, Result};

use super::bucket::load_side;
use super::load::is_folder;
use crate::args::Common;
use crate::checksum::{HashingArgs, folder_of};
use crate::number::human_bytes;
use crate::output::{self, Output};
use crate::paint::plain;

const EXAMPLES: &str = "\
Examples:
  zaro manifest tree manifest.json --depth 1
  zaro manifest tree manifest.json arr_0
  zaro manifest tree data.zarr --json

Two directories with the same digest hold the same files, wherever they are.";

/// Show the directories of a version, with their digests and sizes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tree {
    /// The manifest, - for standard input; or a folder, or a Zarr in a bucket
    #[arg(value_name = "MANIFEST")]
    manifest: String,
    /// Directory to start at
    #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
    /// Levels to show below it
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    #[command(flatten)]
    hashing: HashingArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Tree {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let manifest = if is_folder(&self.manifest) {
            self.hashing.manifest(&folder_of(&self.manifest)?, common)?
        } else {
            load_side(&self.manifest, common).await?
        };
        let digests = manifest.digests()?;
        let path = self.path.trim_matches('/');
        let dir = manifest.dir(path);
        let dir = dir.ok_or_else(|| Error::not_found("no such directory in the manifest").with_key(path))?;
        let mut out = Output::open(None)?;
        let depth = self.depth.unwrap_or(u32::MAX);
        if self.json {
            writeln!(out, "{}", output::safe(&json(&dir, path, &digests, depth).pretty()))?;
        } else {
            let name = if path.is_empty() { "." } else { path };
            lines(&mut out, &dir, name, &digests, depth, 0)?;
        }
        out.finish()
    }
}

fn lines(
    out: &mut Output,
    dir: &Dir<'_>,
    name: &str,
    digests: &Digests,
    depth: u32,
    level: usize,
) -> Result<()> {
    let digest = digests.of(dir);
    let size = human_bytes(digest.size.into());
    writeln!(out, "{:indent$}{}/  {size}  {digest}", "", plain(name), indent = level * 2)?;
    if depth > 0 {
        for sub in dir.dirs() {
            lines(out, &sub, sub.name(), digests, depth - 1, level + 1)?;
        }
    }
    Ok(())
}

fn json(dir: &Dir<'_>, path: &str, digests: &Digests, depth: u32) -> Json {
    let digest = digests.of(dir);
    let mut out = Json::from([
        ("path", path.into()),
        ("digest", digest.to_string().into()),
        ("entries", digest.count.into()),
        ("size", digest.size.into()),
        ("files", dir.files().len().into()),
    ]);
    if depth > 0 {
        let below = dir.dirs().map(|sub| {
            let path = if path.is_empty() { sub.name().to_owned() } else { format!("{path}/{}", sub.name()) };
            json(&sub, &path, digests, depth - 1)
        });
        out.set("directories", below.collect::<Json>());
    }
    out
}
