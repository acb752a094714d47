//! `zaro delete`: delete a node and everything below it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use zaro::image::add_labels::unlist;
use zaro::internal::path::shown;
use zaro::meta::NodeMeta;
use zaro::store::SharedStore;
use zaro::{Error, ErrorKind, Node, Result, hierarchy};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{plain, plural};

const EXAMPLES: &str = "\
Examples:
  zaro delete data.zarr winter
  zaro delete data.zarr --yes
  zaro delete s3://bucket/data.zarr winter/temperature --yes

Shows what will be deleted and asks first. Without a PATH the whole Zarr is deleted. If there is
no Zarr node, or there are files that are not part of a Zarr, nothing is deleted. Rerun the same
command to resume a delete that was stopped.";

/// Delete a node and everything below it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Delete {
    #[command(flatten)]
    target: Target,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

impl Delete {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let (store, path) = common.open_for_writing(&self.target, false).await?;
        let found = hierarchy::find(&store, &path).await;
        let is_node = matches!(found, Ok(Some(_)));
        if !is_node && hierarchy::is_half_deleted(&store, &path).await? {
            // It was asked for before.
            delete(&store, &path).await?;
            store.finish().await?;
            common.say("finished a deletion that was stopped");
            return Ok(());
        }
        if matches!(found, Ok(None)) && self.yes && unlist(&store, &path).await? {
            // Labels whose deletion was stopped when they were gone, and still listed.
            hierarchy::delete(&store, &path).await?;
            store.finish().await?;
            common.say("finished a deletion that was stopped");
            return Ok(());
        }
        let zarr = common.zarr_in(&store).await?;
        let nodes = zarr.walk(&path).await?;
        for e in zarr.take_damaged() {
            common.warn(&format!("will be deleted too, though it cannot be read: {e}"));
        }
        let what = described(&path, &nodes);
        if !self.yes {
            confirm(&what, &store.to_string())?;
        }
        delete(&store, &path).await?;
        store.finish().await?;
        if self.json {
            return output::json_line([("path", path.into()), ("nodes", nodes.len().into())]);
        }
        common.note(&format!("deleted {what}"));
        Ok(())
    }
}

/// Deletes a node; if it is a label image, also removes it from the list of labels.
async fn delete(store: &SharedStore, path: &str) -> Result<()> {
    hierarchy::delete(store, path).await?;
    unlist(store, path).await.map(drop)
}

/// A short description of what will be deleted.
fn described(path: &str, nodes: &[Node]) -> String {
    let below = nodes.iter().filter(|n| n.path != path);
    let arrays = below.clone().filter(|n| matches!(n.meta, NodeMeta::Array(_))).count();
    let groups = below.count() - arrays;
    let kind = nodes.first().map_or("node", |n| n.meta.kind());
    let whole = if path.is_empty() { ", with everything in this store" } else { "" };
    if kind == "array" {
        return format!("the array {}{whole}", shown(path));
    }
    let below = format!("{} and {} below it", plural(arrays, "array"), plural(groups, "group"));
    format!("the group {} with {below}{whole}", shown(path))
}

/// Asks on the terminal; fails unless the answer is yes.
fn confirm(what: &str, store: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Error::usage(format!("this would delete {what}; add --yes to do it")).with_store(store));
    }
    let mut err = std::io::stderr();
    write!(err, "{}: delete {}? [y/N] ", plain(store), plain(what))?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Error::new(ErrorKind::Cancelled, "nothing was deleted")),
    }
}
