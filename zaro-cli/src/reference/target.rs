//! Writing a new reference store: its destination and its form.

use clap::Args;
use zaro::internal::reference::{local, same_base};
use zaro::reference::{
    AddressCounts, Addresses, Compression, ReferenceForm, ReferenceStore, ReferenceWriting, RewriteOptions,
    Rewritten,
};
use zaro::store::{LocalStore, SharedStore};
use zaro::{Error, Result, Zarr};

use crate::args::Common;
use crate::output::Output;
use crate::paint::plural;
use crate::path::word;
use crate::progress::Watch;

/// The values of `--form`.
const FORMS: &[(&str, &str, ReferenceForm)] = &[
    ("json", "One document", ReferenceForm::Json),
    ("parquet", "A folder, for millions of references", ReferenceForm::Parquet),
];

/// How the new reference store is written.
#[derive(Debug, Clone, Args)]
pub(super) struct Making {
    /// The form [default: by the name: .json, .json.gz and .json.zst are JSON, .parq and .parquet Parquet]
    #[arg(long, value_name = "FORM", value_parser = word(FORMS))]
    form: Option<ReferenceForm>,
    /// Replace an existing reference store
    #[arg(long)]
    overwrite: bool,
    /// JSON: one line per entry
    #[arg(long)]
    pretty: bool,
    /// Parquet: references per file
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    record_size: u64,
    /// Keep relative addresses as they are, wherever the new store is
    #[arg(long)]
    keep_relative: bool,
    /// Drop keys that Parquet cannot hold: those of no array, and chunks outside the grid
    #[arg(long)]
    drop_strays: bool,
}

/// The reference store to read.
pub(super) struct Source<'a> {
    pub(super) uri: &'a str,
    pub(super) store: ReferenceStore,
    pub(super) zarr: Zarr,
}

impl<'a> Source<'a> {
    pub(super) async fn open(common: &Common, uri: &'a str) -> Result<Self> {
        let (store, zarr) = common.open_references(uri).await?;
        Ok(Self { uri, store, zarr })
    }
}

impl Making {
    /// The form of the new reference store, from the option or the name `uri`.
    fn form(&self, uri: &str) -> Result<ReferenceForm> {
        self.form.or_else(|| ReferenceForm::of_name(uri)).ok_or_else(|| {
            Error::usage(format!(
                "cannot tell the form from the name {uri:?}; add --form json or --form parquet"
            ))
        })
    }

    /// How addresses of `source` are rewritten for `uri`.
    pub(super) fn addresses(
        &self,
        common: &Common,
        source: &Source<'_>,
        uri: Option<&str>,
    ) -> Result<Addresses> {
        let keep = match uri {
            _ if self.keep_relative => true,
            Some(uri) if !common.has_root() => same_base(source.uri, uri, self.form(uri)?),
            _ => false,
        };
        Ok(Addresses::new(source.store.targets().clone(), keep))
    }

    /// Writes `source` to `uri`.
    pub(super) async fn make(
        &self,
        common: &Common,
        source: &Source<'_>,
        uri: &str,
        addresses: &mut Addresses,
    ) -> Result<Rewritten> {
        let watch = Watch::new(common.progress);
        let options = RewriteOptions::default().with_drop_strays(self.drop_strays).with_task(watch.task());
        let writing = ReferenceWriting {
            store: &source.store,
            zarr: &source.zarr,
            addresses,
            options: &options,
            overwrite: self.overwrite,
            pretty: self.pretty,
            record_size: self.record_size,
        };
        let done = self.write(common, source, uri, writing).await;
        drop(watch);
        done
    }

    async fn write(
        &self,
        common: &Common,
        source: &Source<'_>,
        uri: &str,
        mut writing: ReferenceWriting<'_>,
    ) -> Result<Rewritten> {
        let compression = Compression::of_name(uri);
        match (self.form(uri)?, local(uri)) {
            (ReferenceForm::Json, Some(path)) => {
                if path.is_dir() {
                    return Err(Error::usage(format!(
                        "{} is a folder; JSON references are written to a file",
                        path.display()
                    )));
                }
                let folder = path.parent().unwrap_or(std::path::Path::new("."));
                let name = path.file_name().and_then(|name| name.to_str());
                let name = name.ok_or_else(|| Error::usage(format!("{uri:?} has no file name")))?;
                let store: SharedStore = std::sync::Arc::new(LocalStore::new(folder));
                writing.check_document(&store, name, &path.display().to_string()).await?;
                let (out, done) = writing.json(Output::open(Some(&path))?, compression).await?;
                out.finish()?;
                Ok(done)
            }
            (ReferenceForm::Json, None) => {
                let (folder, name) = uri
                    .rsplit_once('/')
                    .ok_or_else(|| Error::usage(format!("{uri:?} has no object name")))?;
                writing.json_object(&common.open_folder(folder).await?, name, uri).await
            }
            (ReferenceForm::Parquet, Some(path)) => writing.parquet_folder(&path).await,
            (ReferenceForm::Parquet, None) => {
                if uri.trim_end_matches('/') == source.uri.trim_end_matches('/') {
                    return Err(Error::usage(
                        "remote Parquet references cannot be replaced in place; choose another destination",
                    ));
                }
                writing.parquet_objects(&common.open_folder(uri).await?, uri).await
            }
        }
    }
}

/// Reports what was written.
pub(super) fn report(common: &Common, uri: &str, done: &Rewritten, counts: &AddressCounts) {
    let inline = if done.inline > 0 { format!(", {} of them inline", done.inline) } else { String::new() };
    common.say(&format!(
        "wrote {}: {}, {}{inline}",
        zaro::redacted(uri),
        plural(done.documents, "document"),
        plural(done.references, "reference")
    ));
    if counts.absolute > 0 {
        common.say(&format!(
            "{} had relative addresses, which were made absolute, since they would resolve differently from there \
             (use --keep-relative to keep them)",
            plural(counts.absolute, "reference")
        ));
    }
    if counts.versioned > 0 {
        let n = plural(counts.versioned, "reference");
        common.say(&format!("{n} named a version of an object, which is now part of the address"));
    }
    if counts.unpinned > 0 {
        common.warn(&format!(
            "{} had the ETag or timestamp of their object, which this form cannot store: readers will not \
             notice if the object changes",
            plural(counts.unpinned, "reference")
        ));
    }
    if counts.unnamed > 0 {
        let n = plural(counts.unnamed, "reference");
        common.warn(&format!("{n} named no object, and still do not (set it with --target)"));
    }
    if done.dropped > 0 {
        let more = if done.dropped > 5 { ", …" } else { "" };
        let names = done.dropped_keys.join(", ");
        common.warn(&format!("left out {}: {names}{more}", plural(done.dropped, "key")));
    }
}
