//! Verifies a manifest against itself and against a folder.

use std::path::Path;

use super::digest::{Digest, ETag};
use super::local::{self, Digesting, LocalOptions};
use super::model::{Manifest, Walk};
use crate::error::Result;

/// A deviation from the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFinding {
    /// The rule's stable name.
    pub rule: &'static str,
    /// The entry it is about.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl ManifestFinding {
    /// Of the manifest as a whole.
    pub fn new(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, key: None, message: message.into() }
    }

    /// Of one entry.
    pub fn of(rule: &'static str, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, key: Some(key.into()), message: message.into() }
    }
}

/// Verifies the manifest against itself: the stated checksum, and the name if there is one, must match the checksum of
/// its entries, and the stated statistics the counted ones. Returns the checksum of the entries.
pub fn document(m: &Manifest, name: Option<&Digest>) -> Result<(Digest, Vec<ManifestFinding>)> {
    let checksum = m.checksum()?;
    let stated = m.stated();
    let counted = m.counted();
    let mut out = Vec::new();
    if let Some(name) = name.filter(|n| **n != checksum) {
        out.push(ManifestFinding::new(
            "name",
            format!("its name is {name}, but the checksum of its entries is {checksum}"),
        ));
    }
    match &stated.checksum {
        Some(text) if *text == checksum.to_string() => {}
        Some(text) => out.push(ManifestFinding::new(
            "checksum",
            format!("it states the checksum {text:?}, but that of its entries is {checksum}"),
        )),
        None => out.push(ManifestFinding::new("checksum", "it states no checksum")),
    }
    for (rule, word, said, true_) in [
        ("entries", "entries", stated.entries, counted.entries),
        ("depth", "levels of depth", stated.depth, counted.depth),
        ("total-size", "bytes in all", stated.total_size, counted.total_size),
    ] {
        match said {
            Some(said) if Some(said) == true_ => {}
            Some(said) => {
                let message = format!("it states {said} {word}, but there are {}", true_.unwrap_or(0));
                out.push(ManifestFinding::new(rule, message));
            }
            None => out.push(ManifestFinding::new(rule, format!("it does not state the number of {word}"))),
        }
    }
    // A deletion is a change as well, so the time may be later than that of any entry.
    match (stated.last_modified, counted.last_modified) {
        (Some(said), Some(newest)) if said < newest => {
            let message = format!("it states the last modification {said}, but an entry is from {newest}");
            out.push(ManifestFinding::new("last-modified", message));
        }
        (None, Some(newest)) => {
            let message = format!("it states no last modification, but an entry is from {newest}");
            out.push(ManifestFinding::new("last-modified", message));
        }
        _ => {}
    }
    Ok((checksum, out))
}

/// Verifies that a folder has the same files as the manifest, with the same sizes and, if `bytes`, the same bytes.
pub fn folder(
    m: &Manifest,
    root: &Path,
    bytes: bool,
    options: &LocalOptions<'_>,
) -> Result<Vec<ManifestFinding>> {
    let digesting = if bytes { Digesting::As(m) } else { Digesting::None };
    let options = LocalOptions {
        digesting,
        all_files: options.all_files,
        cache: options.cache.clone().filter(|_| bytes),
        named: Some(m),
        context: options.context.clone(),
        task: options.task.clone(),
    };
    let files = local::files(root, &options)?;
    let mut out = Vec::new();
    let mut files = files.iter().peekable();
    let mut walk: Walk<'_> = m.walk();
    let fields = m.fields();
    while let Some((key, leaf)) = walk.next() {
        // Both are sorted by key.
        while let Some(extra) = files.next_if(|f| f.key.as_str() < key) {
            out.push(extra_file(&extra.key, extra.size));
        }
        let Some(file) = files.next_if(|f| f.key == key) else {
            out.push(ManifestFinding::of("missing", key, "the file does not exist"));
            continue;
        };
        if fields.size && file.size != leaf.size() {
            let message = format!("the file has {} bytes instead of {}", file.size, leaf.size());
            out.push(ManifestFinding::of("size", key, message));
            continue;
        }
        let (Some(found), true) = (file.digest, fields.etag) else { continue };
        match leaf.digest() {
            Some(wanted) if wanted == found => {}
            Some(wanted) => {
                let hint = match wanted {
                    ETag::Parts(..) => "; its upload may have used another part size than the archive",
                    ETag::Md5(_) => "",
                };
                let message = format!("the digest is {found} instead of {wanted}{hint}");
                out.push(ManifestFinding::of("bytes", key, message));
            }
            None => {
                let message = "its ETag is not a digest, so its bytes were not checked";
                out.push(ManifestFinding::of("unchecked", key, message));
            }
        }
    }
    out.extend(files.map(|extra| extra_file(&extra.key, extra.size)));
    Ok(out)
}

fn extra_file(key: &str, size: u64) -> ManifestFinding {
    ManifestFinding::of("extra", key, format!("a file of {size} bytes is not in the manifest"))
}
