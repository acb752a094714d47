//! Where a new reference store goes, and in which form.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use zaro::meta::Json;
use zaro::meta::path::join;
use zaro::reference::ReferenceStore;
use zaro::reference::addresses::{Addresses, Counts};
use zaro::reference::arrays::Arrays;
use zaro::reference::convert::{ConvertOptions, Converted, to_json, to_parquet};
use zaro::reference::json_write::{Compression, JsonWriter};
use zaro::store::local::{replace_folder, temporary_folder};
use zaro::store::{Condition, SharedStore, StoreExt as _};
use zaro::{Error, Result, Zarr};

use super::plural;
use crate::args::Common;
use crate::output::Output;
use crate::progress::Watch;

/// A form of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// One document
    Json,
    /// A folder, for millions of references
    Parquet,
}

/// How the new reference store is written.
#[derive(Debug, Clone, Args)]
pub(super) struct Making {
    /// The form [default: by the name: .json, .json.gz and .json.zst are JSON, .parq and .parquet Parquet]
    #[arg(long, value_name = "FORM", value_enum)]
    form: Option<Form>,
    /// Replace what is there, if it is a reference store
    #[arg(long)]
    overwrite: bool,
    /// JSON: a line for each entry
    #[arg(long)]
    pretty: bool,
    /// Parquet: chunks in each file
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    record_size: u64,
    /// Leave relative addresses as they are, wherever the new store lies
    #[arg(long)]
    keep_relative: bool,
    /// Leave out keys that Parquet has no place for: those of no array, and chunks outside the grid
    #[arg(long)]
    drop_strays: bool,
}

/// A reference store that is read.
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
    /// The form of a reference store that is called `uri`.
    fn form(&self, uri: &str) -> Result<(Form, Compression)> {
        let name = uri.trim_end_matches('/').to_ascii_lowercase();
        let compression = match name.rsplit('.').next() {
            Some("gz" | "gzip") => Compression::Gzip,
            Some("zst" | "zstd") => Compression::Zstd,
            _ => Compression::None,
        };
        let ends = |ends: &[&str]| ends.iter().any(|e| name.ends_with(e));
        let form = match self.form {
            Some(form) => form,
            None if ends(&[".json", ".json.gz", ".json.gzip", ".json.zst", ".json.zstd"]) => Form::Json,
            None if ends(&[".parq", ".parquet"]) => Form::Parquet,
            None => {
                let message = format!("{uri:?} does not tell the form: say --form json or --form parquet");
                return Err(Error::usage(message));
            }
        };
        Ok((form, compression))
    }

    /// The addresses of `source` on their way to `uri`.
    pub(super) fn addresses(
        &self,
        common: &Common,
        source: &Source<'_>,
        uri: Option<&str>,
    ) -> Result<Addresses> {
        let keep = match uri {
            _ if self.keep_relative => true,
            _ if common.has_root() => false,
            None => false,
            Some(uri) => {
                let form = self.form(uri)?.0;
                base(source.uri, holds_json(source.uri)) == base(uri, form == Form::Json)
            }
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
    ) -> Result<Converted> {
        let (form, compression) = self.form(uri)?;
        let watch = Watch::counting(common.progress);
        let options = ConvertOptions {
            drop_strays: self.drop_strays,
            progress: watch.callback_of_all(),
            cancel: Some(watch.cancel.clone()),
        };
        let done = match (form, local(uri)) {
            (Form::Json, Some(path)) => self.json_file(source, &path, compression, addresses, &options).await,
            (Form::Json, None) => {
                self.json_object(common, source, uri, compression, addresses, &options).await
            }
            (Form::Parquet, Some(path)) => {
                self.parquet_folder(common, source, &path, addresses, &options).await
            }
            (Form::Parquet, None) => self.parquet_objects(common, source, uri, addresses, &options).await,
        };
        watch.finish();
        done
    }

    async fn json_file(
        &self,
        source: &Source<'_>,
        path: &Path,
        compression: Compression,
        addresses: &mut Addresses,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        if path.is_dir() {
            return Err(Error::usage(format!(
                "{} is a folder; a document of references is a file",
                path.display()
            )));
        }
        if path.exists() && !self.overwrite {
            return Err(exists(&path.display().to_string()));
        }
        let mut out = JsonWriter::new(Output::open(Some(path))?, compression, self.pretty)?;
        let done = to_json(&**source.store.map(), addresses, &mut out, options).await?;
        out.finish()?.finish()?;
        Ok(done)
    }

    async fn json_object(
        &self,
        common: &Common,
        source: &Source<'_>,
        uri: &str,
        compression: Compression,
        addresses: &mut Addresses,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let (folder, name) =
            uri.rsplit_once('/').ok_or_else(|| Error::usage(format!("{uri:?} names no object")))?;
        let store = common.open_folder(folder).await?;
        if !self.overwrite && store.size(name).await?.is_some() {
            return Err(exists(uri));
        }
        // A put is whole, so all of it has to be at hand.
        let mut out = JsonWriter::new(Vec::new(), compression, self.pretty)?;
        let done = to_json(&**source.store.map(), addresses, &mut out, options).await?;
        let when = if self.overwrite { Condition::Always } else { Condition::Absent };
        if !store.put(name, out.finish()?.into(), when).await?.is_done() {
            return Err(exists(uri));
        }
        Ok(done)
    }

    async fn parquet_folder(
        &self,
        common: &Common,
        source: &Source<'_>,
        path: &Path,
        addresses: &mut Addresses,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let empty = path.is_dir() && std::fs::read_dir(path).map_err(fault)?.next().is_none();
        let there = path.exists() && !empty;
        if there && !self.overwrite {
            return Err(exists(&path.display().to_string()));
        }
        let ours = std::fs::read(path.join(".zmetadata")).is_ok_and(|text| is_record(&text));
        if there && !ours {
            let message = format!("{} is no folder of references; it is not replaced", path.display());
            return Err(Error::usage(message));
        }
        if there {
            only_references(&common.open_folder(&path.display().to_string()).await?).await?;
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let part = temporary_folder(parent);
        let begun = Unfinished(&part);
        let store = common.open_folder(&part.display().to_string()).await?;
        let done = self.parquet(source, store, addresses, options).await?;
        if there {
            replace_folder(&part, path).map_err(fault)?;
        } else {
            // An empty folder gives way to another.
            std::fs::rename(&part, path).map_err(fault)?;
        }
        drop(begun);
        Ok(done)
    }

    async fn parquet_objects(
        &self,
        common: &Common,
        source: &Source<'_>,
        uri: &str,
        addresses: &mut Addresses,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let trimmed = |uri: &str| uri.trim_end_matches('/').to_owned();
        if trimmed(uri) == trimmed(source.uri) {
            return Err(Error::usage(
                "a remote folder of references cannot be replaced by itself; name another",
            ));
        }
        let store = common.open_folder(uri).await?;
        if store.list("").await? != zaro::store::Listing::default() {
            if !self.overwrite {
                return Err(exists(uri));
            }
            match store.get(".zmetadata", None).await? {
                Some(text) if is_record(&text) => {}
                _ => {
                    return Err(Error::usage(format!(
                        "{uri} is no folder of references; it is not replaced"
                    )));
                }
            }
            only_references(&store).await?;
            // Without this it is no reference store; so nobody reads a mixture.
            store.delete(".zmetadata").await?;
            store.delete_prefix("").await?;
        }
        self.parquet(source, store, addresses, options).await
    }

    async fn parquet(
        &self,
        source: &Source<'_>,
        store: SharedStore,
        addresses: &mut Addresses,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let (arrays, damaged) = Arrays::of(&source.zarr).await?;
        if let Some(e) = damaged.into_iter().next() {
            return Err(e);
        }
        to_parquet(&source.store, &arrays, addresses, &store, self.record_size, options).await
    }
}

/// Takes away what was begun, unless it got its name.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

fn exists(name: &str) -> Error {
    Error::usage(format!("there is {name} already")).with_hint("overwrite", "replaces it")
}

/// Whether this is the `.zmetadata` of references in Parquet.
fn is_record(text: &[u8]) -> bool {
    Json::parse(text).is_ok_and(|d| d.value.get("record_size").is_some())
}

/// Fails if anything lies in a folder of references that is not part of them.
async fn only_references(store: &SharedStore) -> Result<()> {
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let listed = store.list(&folder).await?;
        if let Some(name) = listed.objects.iter().find(|n| !n.starts_with(".z") && !n.ends_with(".parq")) {
            let message =
                format!("{} is not part of the references; nothing is replaced", join(&folder, name));
            return Err(Error::usage(message).with_store(store));
        }
        open.extend(listed.prefixes.iter().map(|name| join(&folder, name)));
    }
    Ok(())
}

/// The path of what lies on this machine.
fn local(uri: &str) -> Option<PathBuf> {
    match uri.strip_prefix("file://") {
        Some(path) => Some(PathBuf::from(path)),
        None if uri.contains("://") => None,
        None => Some(PathBuf::from(uri.trim_end_matches('/'))),
    }
}

/// Whether what is at `uri` is a document, as far as can be told without asking for it.
fn holds_json(uri: &str) -> bool {
    match local(uri) {
        Some(path) => path.is_file(),
        None => uri.to_ascii_lowercase().contains(".json"),
    }
}

/// What relative addresses of a reference store at `uri` are relative to.
fn base(uri: &str, json: bool) -> String {
    let whole = match local(uri) {
        Some(path) => std::path::absolute(&path).unwrap_or(path).display().to_string(),
        None => uri.trim_end_matches('/').to_owned(),
    };
    match whole.rsplit_once('/') {
        Some((folder, _)) if json => folder.to_owned(),
        _ => whole,
    }
}

/// Says what was done.
pub(super) fn report(common: &Common, uri: &str, done: &Converted, counts: &Counts) {
    let inline = if done.inline > 0 { format!(", {} of them inline", done.inline) } else { String::new() };
    common.say(&format!(
        "wrote {}: {}, {}{inline}",
        zaro::redacted(uri),
        plural(done.documents, "document"),
        plural(done.references, "reference")
    ));
    if counts.absolute > 0 {
        common.say(&format!(
            "{} had relative addresses, which are absolute now, since they would mean something else from there \
             (--keep-relative leaves them)",
            plural(counts.absolute, "reference")
        ));
    }
    if counts.versioned > 0 {
        let n = plural(counts.versioned, "reference");
        common.say(&format!("{n} named a version of an object, which is part of the address now"));
    }
    if counts.unpinned > 0 {
        common.warn(&format!(
            "{} named the state of an object by its ETag or its time, which this form cannot hold: readers will not \
             notice if the object changes",
            plural(counts.unpinned, "reference")
        ));
    }
    if counts.unnamed > 0 {
        let n = plural(counts.unnamed, "reference");
        common.warn(&format!("{n} named no object, and still do not (--target names it)"));
    }
    if done.dropped > 0 {
        let more = if done.dropped > 5 { ", …" } else { "" };
        let names = done.dropped_keys.join(", ");
        common.warn(&format!("left out {}: {names}{more}", plural(done.dropped, "key")));
    }
}

/// The same for programs.
pub(super) fn report_json(uri: Option<&str>, done: &Converted, counts: &Counts) -> Json {
    let mut out = Json::object();
    out.set("uri", uri.map_or(Json::Null, |uri| Json::string(zaro::redacted(uri))));
    for (name, n) in [
        ("documents", done.documents),
        ("references", done.references),
        ("inline", done.inline),
        ("dropped", done.dropped),
        ("absolute", counts.absolute),
        ("versioned", counts.versioned),
        ("unpinned", counts.unpinned),
        ("unnamed", counts.unnamed),
    ] {
        out.set(name, Json::int(n));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_tell_whether_relative_addresses_mean_the_same() {
        assert_eq!(base("s3://b/x/a.json", true), base("s3://b/x/b.json.gz", true));
        assert_ne!(base("s3://b/x/a.json", true), base("s3://b/a.json", true));
        assert_ne!(base("a.json", true), base("a.parq", false));
        assert_eq!(base("a.parq/", false), base("./a.parq", false));
        assert!(base("a.json", true).starts_with('/'));
    }
}
