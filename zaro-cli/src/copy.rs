//! `zaro copy`: copy a Zarr to another place, version, chunking or codec.

use std::path::PathBuf;

use clap::Args;
use zaro::coords::Query;
use zaro::copy::{CopyOptions, KeysOption, Note, conversion_notes, convert_in_place_with, copy};
use zaro::hierarchy::Existing;
use zaro::internal::dtype;
use zaro::internal::path::shown;
use zaro::meta::MemoryLayout;
use zaro::{Error, OpenOptions, Result, Selection, Task, Zarr};

use crate::args::{Common, Target};
use crate::hinted;
use crate::making::{PREFIXED, parse_separator};
use crate::number;
use crate::output;
use crate::paint::plural;
use crate::path::{local_path, word};
use crate::progress::Watch;
use crate::select::Named;
use crate::storage::Storage;

const EXAMPLES: &str = "\
Examples:
  To another place, unchanged:
      zaro copy data.zarr s3://bucket/data.zarr
      zaro copy https://example.org/data.zarr data.zarr.zip
  V2 to V3; chunks stay the same bytes where the codecs allow:
      zaro copy old.zarr new.zarr --zarr-format 3
      zaro copy old.zarr --in-place --zarr-format 3
  Large shards of small chunks, re-encoded:
      zaro copy old.zarr new.zarr --zarr-format 3 --chunks 32,32,32 --shards 256,256,256 --codec zstd:3
  Long time series instead of maps, within 1 GiB of memory:
      zaro copy maps.zarr series.zarr --chunks time=10000,lat=8,lon=8 --memory 1G
  One year of two variables in a box, with their coordinates, as by xarray's sel:
      zaro copy data.zarr part.zarr --vars temperature,salinity --sel time=2000,lat=-10:10
  The first days of one array, in single precision:
      zaro copy data.zarr part.zarr --path temperature --select '0:365,:,:' --dtype float32

Rerun the same command to resume a copy that was stopped. Nothing that exists is
replaced without --overwrite. Chunks that hold only the fill value are not written.";

/// Copy a Zarr: to another place, version, chunking or codec
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Copy {
    /// What to copy: any address that can be read
    #[arg(value_name = "SRC")]
    source: String,
    /// Where to: a path, s3://, gs://, az://, or a new .zip
    #[arg(value_name = "DST", required_unless_present = "in_place", conflicts_with = "in_place")]
    target: Option<String>,
    /// The node of SRC to copy, with all below it [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
    /// The node of DST to create [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    to: String,
    /// Convert SRC to --zarr-format in place; chunks stay, or are renamed to V2 keys
    #[arg(long)]
    in_place: bool,
    /// Replace what is in DST
    #[arg(long)]
    overwrite: bool,
    /// Read source and copy again and compare every element, attribute and missing value; with --in-place, before
    /// the old documents are deleted: if anything differs, nothing is converted
    #[arg(long)]
    verify: bool,
    /// Write consolidated metadata at the end [default: if SRC has them]
    #[arg(long, overrides_with = "no_consolidate")]
    consolidate: bool,
    /// Do not write consolidated metadata
    #[arg(long)]
    no_consolidate: bool,
    /// Copy only part of an array: ranges, e.g. 0:365,:,10:20 (a single number keeps its dimension)
    #[arg(long, value_name = "RANGES", allow_hyphen_values = true, conflicts_with_all = ["sel", "isel", "vars"], help_heading = "Selection")]
    select: Option<String>,
    /// Copy only these arrays of a group, with the coordinates of their dimensions
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Selection")]
    vars: Vec<String>,
    #[command(flatten)]
    named: Named,
    /// Wait until everything is on disk (fsync)
    #[arg(long)]
    fsync: bool,
    /// Directory for temporary files while rechunking [default: the system's]
    #[arg(long, value_name = "FOLDER", value_parser = local_path())]
    temp: Option<PathBuf>,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    storage: Storage,
    /// Order of elements within a chunk: C, F, or dimensions such as 2,0,1
    #[arg(long, value_name = "ORDER", help_heading = "How it is stored")]
    order: Option<MemoryLayout>,
    /// Convert numbers to this type, e.g. float32; a number it cannot hold is an error
    #[arg(long, value_name = "TYPE", help_heading = "How it is stored")]
    dtype: Option<String>,
    /// Clamp numbers the new type cannot hold to the nearest it can
    #[arg(long, requires = "dtype", help_heading = "How it is stored")]
    clamp: bool,
    /// Separator in chunk keys
    #[arg(long, value_name = "/|.", value_parser = parse_separator, help_heading = "How it is stored")]
    separator: Option<char>,
    /// Chunk key encoding: default (c/0/0) or v2 (0.0)
    #[arg(long, value_parser = word(PREFIXED), value_name = "default|v2", hide_possible_values = true, help_heading = "How it is stored")]
    key_encoding: Option<bool>,
}

impl Copy {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let Some(target) = &self.target else { return self.in_place(common).await };
        let source = common.open_any(&self.source).await?;
        let at = Target { uri: target.clone(), path: self.to.clone() };
        let (store, to) = common.open_for_writing(&at, self.fsync).await?;
        let watch = Watch::new(common.progress);
        let mut options = self.options(common)?;
        options.task = watch.task();
        let begun = std::time::Instant::now();
        let copied = copy(&source, &self.source, &self.path, &store, &to, &options).await;
        drop(watch);
        let copied = copied?;
        for note in &copied.notes {
            common.warn(&noted(note));
        }
        let seconds = begun.elapsed().as_secs_f64();
        if self.json {
            return output::json_line([
                ("arrays", copied.arrays.into()),
                ("groups", copied.groups.into()),
                ("bytes", copied.bytes.into()),
                ("verbatim", copied.verbatim.into()),
                ("resumed", copied.resumed.into()),
                ("verified", self.verify.into()),
            ]);
        }
        let mut text = format!(
            "{}copied {} and {}, {} of elements, in {seconds:.1} s",
            if copied.resumed { "resumed: " } else { "" },
            plural(copied.arrays, "array"),
            plural(copied.groups, "group"),
            number::human_bytes(copied.bytes.into()),
        );
        if copied.verbatim > 0 {
            text.push_str(&format!("; {} with chunks copied verbatim", copied.verbatim));
        }
        if self.verify {
            text.push_str("; verified");
        }
        common.say(&text);
        Ok(())
    }

    async fn in_place(&self, common: &Common) -> Result<()> {
        let changes = self.storage.chunks.is_some()
            || self.storage.shards.is_some()
            || self.storage.codec.is_some()
            || self.order.is_some()
            || self.dtype.is_some()
            || self.select.is_some()
            || !self.vars.is_empty()
            || !self.named.is_empty()
            || self.separator.is_some()
            || self.key_encoding.is_some();
        let Some(format) = common.format() else {
            return Err(Error::usage("--in-place needs the version to convert to: add --zarr-format 2 or 3"));
        };
        if changes {
            return Err(Error::usage(
                "--in-place changes only the version; to re-encode chunks, copy to another place",
            ));
        }
        let at = Target { uri: self.source.clone(), path: self.path.clone() };
        let (store, path) = common.open_for_writing(&at, self.fsync).await?;
        let options = self.options(common)?;
        let old = OpenOptions::default().with_use_consolidated(false);
        // What cannot be read is refused by the conversion.
        let notes = match Zarr::from_store(store.clone(), old).await {
            Ok(old) => conversion_notes(&old, &path, format).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let nodes = convert_in_place_with(&store, &path, format, &options).await?;
        for note in &notes {
            common.warn(&noted(note));
        }
        if nodes == 0 {
            let (path, format) = (shown(&self.path), format.number());
            common.say(&format!("rolled back an unfinished conversion: {path} is V{format} again"));
            return Ok(());
        }
        common.say(&format!(
            "converted {nodes} nodes below {} to V{}; chunk bytes are unchanged{}",
            shown(&self.path),
            format.number(),
            if self.verify { "; verified" } else { "" }
        ));
        Ok(())
    }

    fn options(&self, common: &Common) -> Result<CopyOptions> {
        let keys = KeysOption { prefixed: self.key_encoding, separator: self.separator };
        Ok(CopyOptions::default()
            .with_format(common.format())
            .with_chunks(self.storage.chunks.clone())
            .with_shards(self.storage.shards.clone().map(|s| s.0))
            .with_codecs(self.storage.codecs()?)
            .with_layout(self.order.clone())
            .with_keys(keys)
            .with_data_type(self.dtype.as_deref().map(dtype::parse).transpose()?.map(|(t, _)| t))
            .with_clamp(self.clamp)
            .with_region(self.select.as_deref().map(Selection::parse).transpose()?)
            .with_query(Query {
                variables: self.vars.clone(),
                by_index: self.named.indexes()?,
                labels: self.named.labels()?,
            })
            .with_existing(if self.overwrite { Existing::Replace } else { Existing::Refuse })
            .with_consolidate(match (self.consolidate, self.no_consolidate) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            })
            .with_verify(self.verify)
            .with_context(common.context())
            .with_temporary(self.temp.clone())
            .with_task(Task::default()))
    }
}

fn noted(note: &Note) -> String {
    match &note.hint {
        Some(hint) => format!("{}; {}", note.text, hinted(hint)),
        None => note.text.clone(),
    }
}
