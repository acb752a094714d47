//! `zaro manifest gc`: what no manifest names.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zaro::manifest::Manifest;
use zaro::manifest::bucket::{Garbage, collect, delete};
use zaro::meta::json::{Document, Json};
use zaro::{Error, Result};

use super::bucket;
use crate::args::Common;
use crate::number::human_bytes;
use crate::output::{self, Output};
use crate::paint::{plain, plural};
use crate::path::{local_path, output_path};

const EXAMPLES: &str = "\
Examples:
  zaro manifest gc s3://bucket/zarr/ID
  zaro manifest gc s3://bucket/zarr/ID --list garbage.jsonl
  zaro manifest gc s3://bucket/zarr/ID --list garbage.jsonl --yes

The first two only report. The third deletes what the list names, after looking again that
no manifest names it. What is there now and delete markers always stay, and so does
everything while there is no manifest at all.
Exit code 1 if a manifest names objects that are gone.";

/// Report versions of objects that no manifest names; delete them only if told twice
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
    /// Write what could go to this file, one JSON object a line; with --yes, delete what it names
    #[arg(long, value_name = "FILE", value_parser = output_path())]
    list: Option<PathBuf>,
    /// Delete what the list names
    #[arg(long, requires = "list")]
    yes: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Gc {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let zarr = bucket::zarr(common, &self.uri)?;
        let list = match &self.list {
            Some(path) if self.yes => Some(read_list(path)?),
            // Another file in its place stays.
            Some(path) if path.metadata().is_ok_and(|m| m.is_file() && m.len() > 0) => {
                read_list(path).map_err(|e| {
                    let what =
                        "the file is there and is no list of versions that could go, so it was left alone";
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
                "there is no manifest of this Zarr, so all its history would go; zaro manifest create makes one",
            ));
        }
        let mut deleted = None;
        if let Some(list) = list {
            let bar = bucket::counter(None, "versions deleted", common.progress);
            deleted = Some(delete(&zarr, &garbage, &list, |n| bar.set_position(n)).await?);
            bar.finish_and_clear();
            let found: HashSet<(&str, &str)> =
                garbage.versions.iter().map(|g| (g.key.as_str(), g.version.as_str())).collect();
            let stay: Vec<String> = list
                .iter()
                .filter(|(key, version)| !found.contains(&(key.as_str(), version.as_str())))
                .map(|(key, version)| format!("{key} ({version})"))
                .collect();
            if !stay.is_empty() {
                let number = plural(stay.len(), "entry");
                let some: Vec<String> = stay.iter().take(5).map(|s| plain(s).into_owned()).collect();
                common.warn(&format!(
                    "{number} of the list may not go and stayed, such as {}",
                    some.join(", ")
                ));
            }
        } else if let Some(path) = &self.list {
            let mut out = Output::open(Some(path.as_path()))?;
            for g in &garbage.versions {
                let line = Json::Object(vec![
                    ("key".into(), Json::string(g.key.as_str())),
                    ("versionId".into(), Json::string(g.version.as_str())),
                    ("size".into(), Json::int(g.size)),
                ]);
                writeln!(out, "{line}")?;
            }
            out.finish()?;
        }
        if !garbage.unreadable.is_empty() {
            let number = plural(garbage.unreadable.len(), "old version");
            common.warn(&format!("{number} of manifests cannot be read, and keep nothing"));
        }
        self.report(&garbage, deleted)?;
        Ok(if garbage.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn report(&self, garbage: &Garbage, deleted: Option<(u64, u64)>) -> Result<()> {
        if self.json {
            let broken = garbage.broken.iter().map(|(checksum, gone)| {
                Json::Object(vec![
                    ("checksum".into(), Json::string(checksum.to_string())),
                    ("gone".into(), Json::int(*gone)),
                ])
            });
            return bucket::print_json([
                ("manifests", Json::int(garbage.manifests)),
                ("versions", Json::int(garbage.all.0)),
                ("size", Json::int(garbage.all.1)),
                ("deleteMarkers", Json::int(garbage.markers)),
                ("unnamed", Json::int(garbage.versions.len())),
                ("unnamedSize", Json::int(garbage.size)),
                ("broken", Json::Array(broken.collect())),
                ("deleted", deleted.map_or(Json::Null, |(n, _)| Json::int(n))),
                ("deletedSize", deleted.map_or(Json::Null, |(_, n)| Json::int(n))),
            ]);
        }
        for (checksum, gone) in &garbage.broken {
            output::print(&format!("{checksum}: {gone} of its objects are gone\n"))?;
        }
        output::print(&format!(
            "{} of {} versions ({} of {}) are named by none of {} manifests and are not there now\n",
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

/// Keys and versions of a list that was written before.
fn read_list(path: &std::path::Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read(path).map_err(|e| Error::from(e).with_store(path.display()))?;
    let mut out = Vec::new();
    for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let Document { value, .. } = Json::parse(line).map_err(|e| e.with_store(path.display()))?;
        let field = |name: &str| value.get(name).and_then(Json::as_str).map(str::to_owned);
        let (Some(key), Some(version)) = (field("key"), field("versionId")) else {
            return Err(Error::invalid("a line without key and versionId").with_store(path.display()));
        };
        out.push((key, version));
    }
    Ok(out)
}
