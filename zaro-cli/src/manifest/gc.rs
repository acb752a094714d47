//! `zaro manifest gc`: report and delete object versions that no manifest lists.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zaro::manifest::Manifest;
use zaro::manifest::bucket::{Garbage, collect, delete, read_list};
use zaro::{Error, Result};

use super::bucket;
use crate::args::Common;
use crate::number::human_bytes;
use crate::output::{self, Output};
use crate::paint::{plain, plural};
use crate::path::{local_path, output_path};
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro manifest gc s3://bucket/zarr/ID
  zaro manifest gc s3://bucket/zarr/ID --list garbage.jsonl
  zaro manifest gc s3://bucket/zarr/ID --list garbage.jsonl --yes

The first two only report. The third deletes what the list names, after checking again that
no manifest lists it. Current objects and delete markers are never deleted, and nothing is
deleted while there is no manifest at all.
Exit code 1 if a manifest lists objects that are gone.";

/// Report object versions that no manifest lists; delete them only with --list and --yes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Gc {
    /// The Zarr, such as s3://bucket/zarr/ID
    #[arg(value_name = "URI")]
    uri: String,
    /// Manifests to keep besides those in the bucket; may be repeated
    #[arg(long, value_name = "FILE", value_parser = local_path())]
    keep: Vec<PathBuf>,
    /// Keep only the manifests named with --keep, not those in the bucket
    #[arg(long, requires = "keep")]
    only: bool,
    /// Write the candidates to this file, one JSON object per line; with --yes, delete those it lists
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    list: Option<PathBuf>,
    /// Delete what the list contains
    #[arg(long, requires = "list")]
    yes: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Gc {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let zarr = bucket::zarr(common, &self.uri)?;
        let list = match &self.list {
            Some(path) if self.yes => Some(listed(path)?),
            // Another file in its place stays.
            Some(path) if path.metadata().is_ok_and(|m| m.is_file() && m.len() > 0) => {
                listed(path).map_err(|e| {
                    let what = "the file exists and is not a list of object versions; it was left unchanged";
                    Error::conflict(what).with_store(path.display()).with_source(e)
                })?;
                None
            }
            _ => None,
        };
        let mut kept: Vec<Manifest> = Vec::new();
        for path in &self.keep {
            let file = std::fs::File::open(path).map_err(|e| Error::from(e).with_store(path.display()))?;
            let file = std::io::BufReader::new(file);
            kept.push(zaro::manifest::parse(file).map_err(|e| e.with_store(path.display()))?);
        }
        let garbage = collect(&zarr, kept, self.only).await?;
        if list.is_some() && garbage.manifests == 0 {
            return Err(Error::not_permitted(
                "this Zarr has no manifest, so its whole history would be deleted; run zaro manifest create first",
            ));
        }
        let mut deleted = None;
        if let Some(list) = list {
            let watch = Watch::new(common.progress);
            deleted = Some(delete(&zarr, &garbage, &list, &watch.task()).await?);
            drop(watch);
            let stay = garbage.not_among(&list);
            if !stay.is_empty() {
                let number = plural(stay.len(), "entry");
                let some: Vec<String> = stay.iter().take(5).map(|s| plain(s).into_owned()).collect();
                common.warn(&format!(
                    "{number} of the list may not be deleted: kept, e.g. {}",
                    some.join(", ")
                ));
            }
        } else if let Some(path) = &self.list {
            let mut out = Output::open(Some(path.as_path()))?;
            garbage.write_list(&mut out)?;
            out.finish()?;
        }
        if !garbage.unreadable.is_empty() {
            let number = plural(garbage.unreadable.len(), "old version");
            common.warn(&format!("{number} of manifests cannot be read, so what they list is not protected"));
        }
        self.report(&garbage, deleted)?;
        Ok(if garbage.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn report(&self, garbage: &Garbage, deleted: Option<(u64, u64)>) -> Result<()> {
        if self.json {
            return output::json_line(garbage.json(deleted));
        }
        for (checksum, gone) in &garbage.broken {
            output::print(&format!("{checksum}: {gone} of its objects are gone\n"))?;
        }
        output::print(&format!(
            "{} of {} versions ({} of {}) are in none of {} manifests and not current\n",
            garbage.versions.len(),
            garbage.all.0,
            human_bytes(garbage.size.into()),
            human_bytes(garbage.all.1.into()),
            garbage.manifests
        ))?;
        match deleted {
            Some((n, size)) => bucket::say(&format!("{n} deleted ({})", human_bytes(size.into()))),
            None => Ok(()),
        }
    }
}

/// Reads the keys and versions of a list written by an earlier run.
fn listed(path: &std::path::Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read(path).map_err(|e| Error::from(e).with_store(path.display()))?;
    read_list(&text).map_err(|e| e.with_store(path.display()))
}
