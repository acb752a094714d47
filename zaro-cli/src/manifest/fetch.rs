//! `zaro manifest fetch`: download a version, or a part of one, into a folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use zaro::hierarchy::{self, Existing};
use zaro::internal::glob;
use zaro::manifest::{FetchOptions, FetchSource, Fetched, FolderSource, StoreSource, fetch};
use zaro::store::{LocalStore, SharedStore};
use zaro::{Error, Result};

use super::bucket::{self, objects_of};
use super::load::{is_folder, load};
use crate::args::Common;
use crate::checksum::folder_of;
use crate::number::human_bytes;
use crate::output;
use crate::paint::plural;
use crate::path::local_path;
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro manifest fetch manifest.json copy.zarr --from data.zarr
  zaro manifest fetch manifest.json copy.zarr --from data.zarr --glob '**/zarr.json' --glob 0/0

Every file is checked by size and digest, and written atomically. Files that already have the right
bytes are not fetched again: rerun the same command to resume. Other files in the folder are an
error; --overwrite replaces them, and deletes those that are not in the version. Metadata documents
come last, and those of the root only if everything else is there, so that an incomplete download
does not open as a Zarr.
In a pattern, * matches within a name, ** anything; a pattern without them matches all below it.";

/// Fetch a version of a Zarr, or a part of it, into a folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fetch {
    /// The manifest; - for standard input
    #[arg(value_name = "MANIFEST")]
    manifest: String,
    /// The folder to fetch into
    #[arg(value_name = "FOLDER", value_parser = local_path())]
    folder: PathBuf,
    /// Where the objects are
    #[arg(long, value_name = "URI")]
    from: Option<String>,
    /// Only keys that match this glob; may be repeated
    #[arg(long, value_name = "PATTERN")]
    glob: Vec<String>,
    /// Replace another version, or another Zarr, in the directory
    #[arg(long)]
    overwrite: bool,
    /// Objects fetched at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

impl Fetch {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let manifest = load(&self.manifest, common).await?;
        let from = match &self.from {
            Some(from) => Some(from.clone()),
            None => objects_of(common, &self.manifest)?,
        };
        let Some(from) = &from else {
            return Err(Error::usage("the address of the objects is missing; add --from URI"));
        };
        let source: Box<dyn FetchSource> = if is_folder(from) {
            Box::new(FolderSource(folder_of(from)?))
        } else if bucket::is_bucket(from) {
            Box::new(bucket::zarr(common, from)?)
        } else {
            let store = zaro::open::open_store(from, common.source_options()?).await?;
            Box::new(StoreSource::versioned(store, ""))
        };
        let wanted = |key: &str| self.glob.is_empty() || self.glob.iter().any(|g| glob::matches(g, key));
        let done = Fetched::default();
        let jobs = if is_folder(from) { self.jobs.min(4) } else { self.jobs };
        if is_folder(from) {
            let to: SharedStore = Arc::new(LocalStore::new(&self.folder));
            hierarchy::check_files_apart(&[folder_of(from)?], &to, "").await?;
        }
        let existing = if self.overwrite { Existing::Replace } else { Existing::Refuse };
        let watch = Watch::new(common.progress);
        let options =
            FetchOptions::default().with_existing(existing).with_at_once(jobs.into()).with_task(watch.task());
        fetch(&manifest, &*source, &self.folder, &wanted, &options, &done).await?;
        drop(watch);
        let [files, bytes, there, unchecked] =
            [&done.files, &done.bytes, &done.there, &done.unchecked].map(|n| n.load(Ordering::Relaxed));
        if unchecked > 0 {
            common.warn(&format!(
                "the ETags of {} are not digests of their bytes; only sizes were checked",
                plural(unchecked, "file")
            ));
        }
        if self.json {
            let report = [("files", files), ("bytes", bytes), ("there", there), ("unchecked", unchecked)];
            return output::json_line(report.map(|(name, n)| (name, n.into())));
        }
        let fetched = plural(files, "file");
        common.say(&format!("fetched {fetched} ({}); {there} were already there", human_bytes(bytes.into())));
        Ok(())
    }
}
