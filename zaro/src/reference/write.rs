//! Writes a reference store atomically to a file, folder or bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::addresses::Addresses;
#[cfg(feature = "parquet")]
use super::arrays::Arrays;
#[cfg(feature = "parquet")]
use super::convert::to_parquet;
use super::convert::{RewriteOptions, Rewritten, to_json};
use super::json_write::{Compression, JsonWriter};
use super::{Map as _, ReferenceStore};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result, usage};
use crate::group::Zarr;
use crate::meta::Json;
use crate::meta::path::join;
use crate::store::local::{LocalStore, replace_folder, temporary_folder};
use crate::store::{Condition, Listing, SharedStore, StoreExt as _};

/// A form of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceForm {
    /// One document.
    Json,
    /// A folder, for millions of references.
    Parquet,
}

impl ReferenceForm {
    /// The form by the extension of a name.
    #[must_use]
    pub fn of_name(uri: &str) -> Option<Self> {
        let name = uri.trim_end_matches('/').to_ascii_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|e| name.ends_with(e));
        if ends(&[".json", ".json.gz", ".json.gzip", ".json.zst", ".json.zstd"]) {
            return Some(Self::Json);
        }
        ends(&[".parq", ".parquet"]).then_some(Self::Parquet)
    }
}

impl Compression {
    /// How a document of this name is compressed.
    #[must_use]
    pub fn of_name(uri: &str) -> Self {
        match uri.trim_end_matches('/').to_ascii_lowercase().rsplit('.').next() {
            Some("gz" | "gzip") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// A reference store to write, with its options.
#[derive(Debug)]
pub struct ReferenceWriting<'a> {
    /// The references.
    pub store: &'a ReferenceStore,
    /// The hierarchy of the references.
    pub zarr: &'a Zarr,
    /// How addresses are rewritten.
    pub addresses: &'a mut Addresses,
    /// How to convert.
    pub options: &'a RewriteOptions,
    /// Replace what is there, if it is a reference store.
    pub overwrite: bool,
    /// JSON: one line per entry.
    pub pretty: bool,
    /// Parquet: chunks per file.
    pub record_size: u64,
}

impl ReferenceWriting<'_> {
    /// Fails if there is something, unless it may be replaced.
    pub fn check_free(&self, there: bool, name: &str) -> Result<()> {
        if there && !self.overwrite { Err(exists(name)) } else { Ok(()) }
    }

    /// Fails if `key` of the store `name` exists, unless it is a reference document that may be replaced.
    #[boxed]
    pub async fn check_document(&self, store: &SharedStore, key: &str, name: &str) -> Result<()> {
        self.check_free(store.exists(key).await?, name)?;
        let no_references = || usage!("{name} is not a reference document and was not replaced");
        let map = match super::json::open(store, key, &[]).await {
            Ok(Some(map)) => map,
            Ok(None) => return Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::Io | ErrorKind::NotPermitted) => return Err(e),
            Err(e) => return Err(no_references().with_source(e)),
        };
        // Any object of texts would do for the oldest form; this one is a Zarr.
        for document in ["zarr.json", ".zgroup", ".zarray", ".zmetadata"] {
            if map.locate(document).await?.is_some() {
                return Ok(());
            }
        }
        Err(no_references())
    }

    /// Writes a JSON document into `out`, which is returned when it is complete.
    pub async fn json<W: std::io::Write>(
        &mut self,
        out: W,
        compression: Compression,
    ) -> Result<(W, Rewritten)> {
        let mut out = JsonWriter::new(out, compression, self.pretty)?;
        let done = to_json(&**self.store.map(), self.addresses, &mut out, self.options).await?;
        Ok((out.finish()?, done))
    }

    /// Writes the JSON document `name` of a store, at the address `uri`.
    #[boxed]
    pub async fn json_object(&mut self, to: &SharedStore, name: &str, uri: &str) -> Result<Rewritten> {
        self.check_document(to, name, uri).await?;
        // A put is whole, so all of it has to be at hand.
        let (bytes, done) = self.json(Vec::new(), Compression::of_name(uri)).await?;
        let when = if self.overwrite { Condition::Always } else { Condition::Absent };
        if !to.put(name, bytes.into(), when).await?.is_done() {
            return Err(exists(uri));
        }
        Ok(done)
    }

    /// Writes a local folder of Parquet.
    #[boxed]
    pub async fn parquet_folder(&mut self, path: &Path) -> Result<Rewritten> {
        let local = |path: &Path| -> SharedStore { Arc::new(LocalStore::new(path)) };
        let fault = |e: std::io::Error| Error::from(e).within(path.display());
        let empty = path.is_dir() && std::fs::read_dir(path).map_err(fault)?.next().is_none();
        let there = path.exists() && !empty;
        self.check_free(there, &path.display().to_string())?;
        if there && !path.is_dir() {
            return Err(no_folder(path.display()));
        }
        if there {
            check_references(&local(path), path.display()).await?;
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let part = temporary_folder(parent);
        let begun = PendingReferences(&part);
        let done = self.parquet(&local(&part)).await?;
        if there {
            replace_folder(&part, path).map_err(fault)?;
        } else {
            // An empty folder gives way to another.
            std::fs::rename(&part, path).map_err(fault)?;
        }
        drop(begun);
        Ok(done)
    }

    /// Writes Parquet objects to a store that holds nothing else; `name` is its name.
    #[boxed]
    pub async fn parquet_objects(&mut self, to: &SharedStore, name: &str) -> Result<Rewritten> {
        if to.list("").await? != Listing::default() {
            self.check_free(true, name)?;
            check_references(to, name).await?;
            // Without this it is no reference store; so nobody reads a mixture.
            to.delete(".zmetadata").await?;
            to.delete_prefix("").await?;
        }
        self.parquet(to).await
    }

    #[cfg(not(feature = "parquet"))]
    async fn parquet(&mut self, to: &SharedStore) -> Result<Rewritten> {
        Err(Error::without("parquet").with_store(to))
    }

    #[cfg(feature = "parquet")]
    async fn parquet(&mut self, to: &SharedStore) -> Result<Rewritten> {
        let (arrays, damaged) = Arrays::of(self.zarr).await?;
        if let Some(e) = damaged.into_iter().next() {
            return Err(e);
        }
        to_parquet(self.store, &arrays, self.addresses, to, self.record_size, self.options).await
    }
}

/// Removes the temporary folder, unless it was renamed.
struct PendingReferences<'a>(&'a Path);

impl Drop for PendingReferences<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

fn exists(name: &str) -> Error {
    usage!("{name} already exists").with_hint("overwrite", "replaces it")
}

fn no_folder(name: impl std::fmt::Display) -> Error {
    usage!("{name} is not a reference folder and was not replaced")
}

/// Fails if a folder is not a reference folder, or contains anything that is not part of the references.
async fn check_references(store: &SharedStore, name: impl std::fmt::Display) -> Result<()> {
    let record = |text: &[u8]| Json::parse(text).is_ok_and(|d| d.value.get("record_size").is_some());
    if !store.get(".zmetadata", None).await?.is_some_and(|text| record(&text)) {
        return Err(no_folder(name));
    }
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let listed = store.list(&folder).await?;
        if let Some(name) = listed.objects.iter().find(|n| !n.starts_with(".z") && !n.ends_with(".parq")) {
            let message =
                format!("{} is not part of the references; nothing was replaced", join(&folder, name));
            return Err(Error::usage(message).with_store(store));
        }
        open.extend(listed.prefixes.iter().map(|name| join(&folder, name)));
    }
    Ok(())
}

/// The path of a local address.
#[must_use]
pub fn local(uri: &str) -> Option<PathBuf> {
    match uri.strip_prefix("file://") {
        Some(path) => Some(PathBuf::from(path)),
        None if uri.contains("://") => None,
        None => Some(PathBuf::from(uri.trim_end_matches('/'))),
    }
}

/// Whether `uri` is a JSON document, as far as can be told without a request.
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

/// Whether relative addresses mean the same in a reference store at `from` and in one at `to` that is of this form.
#[must_use]
pub fn same_base(from: &str, to: &str, form: ReferenceForm) -> bool {
    base(from, holds_json(from)) == base(to, form == ReferenceForm::Json)
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
