//! Reads S3 Inventory reports in CSV, as a replacement for a listing.
//!
//! The columns are given by the inventory's own `manifest.json` (`fileSchema`), which may be given in place of its
//! files, or by the caller. Keys in it are percent-encoded.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use md5::{Digest as _, Md5};

use crate::error::{Error, Result};
use crate::meta::json::Json;
use crate::store::object::versions::ObjectVersion;
use crate::store::percent_decode;
use crate::time::Time;

/// Maximum length of a line: a key has at most 1024 bytes, three times that when encoded.
const MAX_LINE: u64 = 1 << 16;

/// The files of an inventory, and their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    files: Vec<InventoryFile>,
    columns: Vec<String>,
    /// Its bucket, if its document names it.
    bucket: Option<String>,
}

/// A file of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InventoryFile {
    path: PathBuf,
    /// The MD5 of the stored file, if the document states it.
    md5: Option<String>,
}

/// The columns that a manifest needs.
const NEEDED: [&str; 7] =
    ["Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "LastModifiedDate", "ETag"];

impl Inventory {
    /// An inventory: its `manifest.json`, whose files lie beside it or below it, or one of its CSV files (also `.gz`),
    /// whose columns then have to be named (`Bucket, Key, VersionId, …`).
    pub fn open(path: &Path, schema: Option<&str>) -> Result<Self> {
        let named = |e: Error| e.with_store(path.display());
        let is_json = path.extension().is_some_and(|e| e == "json");
        let (files, columns, bucket) = if is_json {
            let text = std::fs::read(path).map_err(|e| named(e.into()))?;
            let document = Json::parse(&text).map_err(named)?.value;
            let stated = document.get("fileSchema").and_then(Json::as_str);
            let Some(columns) = schema.or(stated) else {
                return Err(named(Error::invalid("not an inventory: the document has no fileSchema")));
            };
            if document.get("fileFormat").and_then(Json::as_str).is_some_and(|f| f != "CSV") {
                return Err(named(Error::unsupported("only CSV inventories are supported")));
            }
            let folder = path.parent().unwrap_or(Path::new("."));
            let keys = document.get("files").and_then(Json::items).unwrap_or_default();
            let mut files = Vec::new();
            for file in keys {
                let Some(key) = file.get("key").and_then(Json::as_str) else {
                    return Err(named(Error::invalid("a file of the inventory has no key")));
                };
                let md5 = file.get("MD5checksum").and_then(Json::as_str).map(str::to_ascii_lowercase);
                files.push(InventoryFile { path: find(folder, key).map_err(named)?, md5 });
            }
            let bucket = document.get("sourceBucket").and_then(Json::as_str).map(plain_name);
            (files, columns.to_owned(), bucket)
        } else {
            let Some(columns) = schema else {
                return Err(named(Error::usage(
                    "a CSV file of an inventory does not name its columns; use its manifest.json, or name the columns",
                )));
            };
            (vec![InventoryFile { path: path.to_owned(), md5: None }], columns.to_owned(), None)
        };
        let columns: Vec<String> = columns.split(',').map(|c| c.trim().to_owned()).collect();
        let missing: Vec<&str> =
            NEEDED.into_iter().filter(|n| !columns.iter().any(|c| c.eq_ignore_ascii_case(n))).collect();
        if missing.is_empty() {
            return Ok(Self { files, columns, bucket });
        }
        Err(named(Error::invalid(format!(
            "the inventory lacks the {} {}, needed for a manifest; it has {}",
            if missing.len() == 1 { "column" } else { "columns" },
            missing.join(", "),
            columns.join(", ")
        ))))
    }

    /// The versions of the bucket whose keys begin with `prefix`.
    ///
    /// # Errors
    /// If it is the inventory of another bucket, or a file does not match its document.
    pub fn read(&self, bucket: &str, prefix: &str) -> Result<Vec<ObjectVersion>> {
        if let Some(own) = self.bucket.as_deref().filter(|own| *own != bucket) {
            return Err(foreign(own, bucket));
        }
        let mut out = Vec::new();
        for InventoryFile { path, md5 } in &self.files {
            let named = |e: Error| e.with_store(path.display());
            let file = File::open(path).map_err(|e| named(e.into()))?;
            let mut hashed = PartHasher { from: file, md5: Md5::new() };
            if path.extension().is_some_and(|e| e == "gz") {
                self.read_file(MultiGzDecoder::new(&mut hashed), bucket, prefix, &mut out).map_err(named)?;
            } else {
                self.read_file(&mut hashed, bucket, prefix, &mut out).map_err(named)?;
            }
            std::io::copy(&mut hashed, &mut std::io::sink()).map_err(|e| named(e.into()))?;
            let found = crate::manifest::text::hex(&hashed.md5.finalize());
            if let Some(stated) = md5.as_ref().filter(|stated| **stated != found) {
                return Err(named(Error::invalid(format!(
                    "the file has the MD5 {found}, but the inventory states {stated}"
                ))));
            }
        }
        Ok(out)
    }

    fn read_file(
        &self,
        text: impl Read,
        bucket: &str,
        prefix: &str,
        out: &mut Vec<ObjectVersion>,
    ) -> Result<()> {
        let mut text = BufReader::new(text);
        let mut line = Vec::new();
        let mut number = 0u64;
        let of = self.columns.iter().position(|c| c.eq_ignore_ascii_case("Bucket"));
        loop {
            line.clear();
            if text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            number += 1;
            let at = |what: String| Error::invalid(format!("line {number}: {what}"));
            let text = std::str::from_utf8(&line).map_err(|_| at("not Unicode".into()))?;
            let fields = split(text.trim_end_matches(['\r', '\n']))
                .ok_or_else(|| at("a quote is not closed".into()))?;
            if fields.iter().all(String::is_empty) {
                continue;
            }
            if let Some(other) = of.and_then(|at| fields.get(at)).filter(|b| *b != bucket) {
                return Err(foreign(other, bucket).within(format!("line {number}")));
            }
            if let Some(version) = self.version(&fields, prefix).map_err(at)? {
                out.push(version);
            }
        }
    }

    fn version(&self, fields: &[String], prefix: &str) -> std::result::Result<Option<ObjectVersion>, String> {
        let field = |name: &str| {
            let at = self.columns.iter().position(|c| c.eq_ignore_ascii_case(name));
            at.and_then(|at| fields.get(at)).map(String::as_str).ok_or_else(|| format!("no {name}"))
        };
        let flag = |name: &str| match field(name)?.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" | "" => Ok(false),
            other => Err(format!("{name} is {other:?}")),
        };
        let key = percent_decode(&field("Key")?.replace('+', " ")).ok_or("the key is not valid UTF-8")?;
        if !key.starts_with(prefix) {
            return Ok(None);
        }
        let deleted = flag("IsDeleteMarker")?;
        let size = match field("Size")? {
            "" if deleted => 0,
            size => size.parse().map_err(|_| format!("the size {size:?}"))?,
        };
        Ok(Some(ObjectVersion {
            key,
            version: Some(field("VersionId")?).filter(|v| !v.is_empty()).unwrap_or("null").to_owned(),
            etag: field("ETag")?.trim_matches('"').to_owned(),
            size,
            modified: Time::parse(field("LastModifiedDate")?).map_err(|e| e.to_string())?.millis(),
            latest: flag("IsLatest")?,
            deleted,
        }))
    }
}

/// The name in `arn:aws:s3:::name`, or all of it.
fn plain_name(text: &str) -> String {
    text.rsplit(':').next().unwrap_or(text).to_owned()
}

fn foreign(own: &str, bucket: &str) -> Error {
    Error::usage(format!("the inventory is of bucket {own}, not {bucket}"))
}

/// A reader that hashes what is read.
struct PartHasher<R> {
    from: R,
    md5: Md5,
}

impl<R: Read> Read for PartHasher<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.md5.update(buffer.get(..n).unwrap_or_default());
        Ok(n)
    }
}

/// Finds a file of the inventory by the last components of its key, from the folder of the document or one above.
fn find(folder: &Path, key: &str) -> Result<PathBuf> {
    let parts: Vec<&str> = key.split('/').filter(|p| !matches!(*p, "" | "." | "..")).collect();
    let folders = [Some(folder), folder.parent(), folder.parent().and_then(Path::parent)];
    for from in 0..parts.len() {
        let rest: PathBuf = parts.iter().skip(from).collect();
        for folder in folders.iter().flatten() {
            let path = folder.join(&rest);
            if path.is_file() {
                return Ok(path);
            }
        }
    }
    Err(Error::not_found(format!("the file {key:?} of the inventory was not found")))
}

/// The fields of a line; `None` if a quote is left open.
fn split(line: &str) -> Option<Vec<String>> {
    let mut out = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                chars.next();
                out.last_mut()?.push('"');
            }
            ('"', _) => quoted = !quoted,
            (',', false) => out.push(String::new()),
            (c, _) => out.last_mut()?.push(c),
        }
    }
    (!quoted).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag";

    #[test]
    fn lines_of_an_inventory() {
        let dir = tempfile::tempdir().unwrap();
        let csv = "\"b\",\"zarr/x/a%2B+b\",\"v1\",\"true\",\"false\",\"7\",\"2022-06-27T23:07:47.000Z\",\"\"\"abc\"\"\"\r\n\
             \"b\",\"zarr/x/gone\",\"v2\",\"true\",\"true\",\"\",\"2022-06-27T23:07:48.000Z\",\"\"\n\
             \"b\",\"zarr/y/a\",\"v3\",\"true\",\"false\",\"1\",\"2022-06-27T23:07:47.000Z\",\"d\"\n";
        std::fs::create_dir_all(dir.path().join("data")).unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gz, csv.as_bytes()).unwrap();
        std::fs::write(dir.path().join("data/1.csv.gz"), gz.finish().unwrap()).unwrap();
        let gz = std::fs::read(dir.path().join("data/1.csv.gz")).unwrap();
        let md5 = crate::manifest::text::hex(&Md5::digest(&gz));
        let manifest = format!(
            r#"{{"sourceBucket":"b","fileFormat":"CSV","fileSchema":"{SCHEMA}","files":[{{"key":"inv/b/all/data/1.csv.gz","MD5checksum":"{md5}"}}]}}"#
        );
        let path = dir.path().join("manifest.json");
        std::fs::write(&path, &manifest).unwrap();
        let found = Inventory::open(&path, None).unwrap().read("b", "zarr/x/").unwrap();
        let [first, second] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.key.as_str(), first.etag.as_str(), first.size), ("zarr/x/a+ b", "abc", 7));
        assert_eq!((first.modified, first.latest), (1_656_371_267_000, true));
        assert!(second.deleted && second.latest);
        // One of the files by itself.
        let alone = Inventory::open(&dir.path().join("data/1.csv.gz"), Some(SCHEMA)).unwrap();
        assert_eq!(alone.read("b", "zarr/").unwrap().len(), 3);
        // Of another bucket, by its document or by its lines; and not the file that the document means.
        let said = |e: Error| e.to_string();
        let error = said(Inventory::open(&path, None).unwrap().read("c", "zarr/x/").unwrap_err());
        assert!(error.contains("is of bucket b, not c"), "{error}");
        let error = said(alone.read("c", "zarr/").unwrap_err());
        assert!(error.contains("line 1") && error.contains("is of bucket b, not c"), "{error}");
        std::fs::write(&path, manifest.replace(&md5, &"0".repeat(32))).unwrap();
        let error = said(Inventory::open(&path, None).unwrap().read("b", "zarr/x/").unwrap_err());
        assert!(error.contains("the inventory states 00000"), "{error}");
        std::fs::write(&path, &manifest).unwrap();
        let error =
            Inventory::open(&path, Some("Bucket, Key, VersionId, IsLatest, IsDeleteMarker")).unwrap_err();
        assert!(error.to_string().contains("lacks the columns Size, LastModifiedDate, ETag"), "{error}");
    }
}
