//! Writes manifests as JSON documents.
//!
//! Two layouts: that of the proof of concept, with one entry per line and one space per level, and one without white
//! space. Both are ASCII. Statistics come before the entries, so a document cannot be streamed directly:
//! [`ManifestStream`] takes keys as they come, spools their text to disk, and writes it after the statistics.

use std::io::Write;

use super::build::check_name;
use super::checksum::TreeHasher;
use super::digest::Digest;
use super::model::{EntryRef, Fields, Leaf, Manifest, Statistics};
use super::spool::Spool;
use super::text;
use crate::error::{Error, Result};
use crate::time::Time;

/// Layout of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ManifestLayout {
    /// One entry per line, one space per level, as in the proof of concept.
    #[default]
    Lines,
    /// No white space at all.
    Compact,
}

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ManifestOptions {
    /// Its layout.
    pub layout: ManifestLayout,
    /// A `schemaVersion` to state. The specification has none; the proof of concept states 2.
    pub schema_version: Option<u64>,
}

impl Manifest {
    /// The statistics to state: counts, and the checksum.
    pub fn statistics(&self) -> Result<Statistics> {
        let checksum = Some(self.checksum()?.to_string());
        // Deletions count, and only the document knew of those.
        let last_modified = self.newest().max(self.stated.last_modified);
        Ok(Statistics { checksum, last_modified, mismatch: self.stated.mismatch.clone(), ..self.counted() })
    }

    /// Writes the document, stating `statistics`.
    pub fn write(&self, out: impl Write, statistics: &Statistics, options: &ManifestOptions) -> Result<()> {
        let mut out = out;
        let mut buffer = Vec::with_capacity(BUFFER + 4096);
        head(&mut buffer, &self.fields, statistics, options);
        let mut tree = TreeText::new(options.layout);
        let mut walk = self.walk();
        while let Some((key, leaf)) = walk.next() {
            tree.key(&mut buffer, key);
            push_leaf(&mut buffer, &self.fields, &leaf);
            if buffer.len() >= BUFFER {
                out.write_all(&buffer)?;
                buffer.clear();
            }
        }
        tree.end(&mut buffer);
        out.write_all(&buffer)?;
        Ok(out.flush()?)
    }

    /// The document in memory.
    pub fn to_vec(&self, statistics: &Statistics, options: &ManifestOptions) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(&mut out, statistics, options)?;
        Ok(out)
    }
}

const BUFFER: usize = 1 << 16;

fn push_leaf(out: &mut Vec<u8>, fields: &Fields, leaf: &Leaf<'_>) {
    if !leaf.is_plain() {
        return push_entry(out, fields, &leaf.entry().as_ref());
    }
    let version = |out: &mut Vec<u8>| push_quoted(out, |out| leaf.push_version(out));
    let etag = |out: &mut Vec<u8>| push_quoted(out, |out| leaf.push_etag(out));
    push_values(out, fields, version, leaf.modified(), leaf.size(), etag);
}

fn push_entry(out: &mut Vec<u8>, fields: &Fields, entry: &EntryRef<'_>) {
    let version = |out: &mut Vec<u8>| push_text(out, entry.version);
    push_values(out, fields, version, entry.modified, entry.size, |out| push_text(out, entry.etag));
}

/// The list that an entry is.
fn push_values(
    out: &mut Vec<u8>,
    fields: &Fields,
    version: impl FnOnce(&mut Vec<u8>),
    modified: Option<Time>,
    size: u64,
    etag: impl FnOnce(&mut Vec<u8>),
) {
    out.push(b'[');
    if fields.version {
        version(out);
        out.push(b',');
    }
    if fields.modified {
        push_time(out, modified);
        out.push(b',');
    }
    if fields.size {
        text::push_number(out, size);
        out.push(b',');
    }
    if fields.etag {
        etag(out);
        out.push(b',');
    }
    close_list(out);
}

/// A text that needs no escapes, or `null`.
fn push_quoted(out: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>) -> bool) {
    out.push(b'"');
    if push(out) {
        out.push(b'"');
    } else {
        out.pop();
        out.extend_from_slice(b"null");
    }
}

/// Ends a list whose members each have a comma after them.
fn close_list(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b']');
}

fn push_text(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(value) => text::push_json(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn push_time(out: &mut Vec<u8>, time: Option<Time>) {
    match time {
        Some(time) => {
            out.push(b'"');
            time.push(out);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Everything before the first entry.
fn head(out: &mut Vec<u8>, fields: &Fields, s: &Statistics, options: &ManifestOptions) {
    let lines = options.layout == ManifestLayout::Lines;
    let member = |out: &mut Vec<u8>, indent: usize, name: &str| {
        if lines {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', indent));
        }
        out.extend_from_slice(format!("\"{name}\":").as_bytes());
        if lines {
            out.push(b' ');
        }
    };
    out.push(b'{');
    if let Some(version) = options.schema_version {
        member(out, 1, "schemaVersion");
        text::push_number(out, version);
        out.push(b',');
    }
    member(out, 1, "fields");
    out.push(b'[');
    for name in fields.names() {
        text::push_json(out, name);
        out.push(b',');
    }
    close_list(out);
    out.push(b',');
    member(out, 1, "statistics");
    out.push(b'{');
    for (name, value) in [("entries", s.entries), ("depth", s.depth), ("totalSize", s.total_size)] {
        member(out, 2, name);
        text::push_number(out, value.unwrap_or(0));
        out.push(b',');
    }
    member(out, 2, "lastModified");
    push_time(out, s.last_modified);
    out.push(b',');
    member(out, 2, "zarrChecksum");
    push_text(out, s.checksum.as_deref());
    if let Some(mismatch) = &s.mismatch {
        out.push(b',');
        member(out, 2, "zarrChecksumMismatch");
        push_text(out, mismatch.as_deref());
    }
    if lines {
        out.extend_from_slice(b"\n ");
    }
    out.extend_from_slice(b"},");
    member(out, 1, "entries");
    out.push(b'{');
}

/// Writes sorted keys as nested objects.
#[derive(Debug)]
struct TreeText {
    layout: ManifestLayout,
    /// The open directory with a slash at its end, and the lengths of its parents.
    path: String,
    lengths: Vec<usize>,
    /// Whether nothing is in the innermost object yet.
    first: bool,
}

impl TreeText {
    fn new(layout: ManifestLayout) -> Self {
        Self { layout, path: String::new(), lengths: Vec::new(), first: true }
    }

    fn indent(&self, out: &mut Vec<u8>) {
        if self.layout == ManifestLayout::Lines {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', self.lengths.len() + 2));
        }
    }

    fn name(&mut self, out: &mut Vec<u8>, name: &str) {
        if !self.first {
            out.push(b',');
        }
        self.indent(out);
        text::push_json(out, name);
        out.extend_from_slice(if self.layout == ManifestLayout::Lines { b": " } else { b":" });
        self.first = false;
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(length) = self.lengths.pop() {
            self.path.truncate(length);
            self.indent(out);
            out.push(b'}');
            self.first = false;
        }
    }

    /// Closes and opens directories as the key requires, and writes its name; its value follows.
    fn key(&mut self, out: &mut Vec<u8>, key: &str) {
        while !key.starts_with(&self.path) {
            self.close(out);
        }
        let mut rest = key.get(self.path.len()..).unwrap_or_default();
        while let Some((dir, below)) = rest.split_once('/') {
            self.name(out, dir);
            out.push(b'{');
            self.lengths.push(self.path.len());
            self.path.push_str(dir);
            self.path.push('/');
            self.first = true;
            rest = below;
        }
        self.name(out, rest);
    }

    /// Closes everything, the document included.
    fn end(&mut self, out: &mut Vec<u8>) {
        while !self.lengths.is_empty() {
            self.close(out);
        }
        let lines = self.layout == ManifestLayout::Lines;
        if lines && !self.first {
            out.extend_from_slice(b"\n ");
        }
        out.extend_from_slice(if lines { b"}\n}" } else { b"}}" });
    }
}

/// Writes sorted keys to a document and computes its checksum, in constant memory.
#[derive(Debug)]
pub struct ManifestStream {
    fields: Fields,
    options: ManifestOptions,
    tree: TreeText,
    spool: Spool,
    hasher: TreeHasher,
    entries: u64,
    depth: u64,
    total_size: u64,
    newest: Option<Time>,
    /// Keys that are prefixes of the current one: if a slash follows, an entry and a directory have the same name.
    prefixes: Vec<String>,
}

/// A document with all its entries.
#[derive(Debug)]
pub struct Finished {
    /// What it states.
    pub statistics: Statistics,
    /// Its checksum, which is its name.
    pub checksum: Digest,
    pub(crate) fields: Fields,
    options: ManifestOptions,
    spool: Spool,
}

impl ManifestStream {
    /// For entries that have these fields, which must include sizes and `ETag`s.
    #[must_use]
    pub fn new(fields: Fields, options: ManifestOptions) -> Self {
        Self {
            fields,
            options,
            tree: TreeText::new(options.layout),
            spool: Spool::default(),
            hasher: TreeHasher::new(),
            entries: 0,
            depth: 0,
            total_size: 0,
            newest: None,
            prefixes: Vec::new(),
        }
    }

    /// Adds the next entry. Keys must be sorted by their bytes, as S3 lists them.
    pub fn push(&mut self, key: &str, entry: &EntryRef<'_>) -> Result<()> {
        let mut depth = 0u64;
        for name in key.split('/') {
            check_name(name).map_err(|e| e.with_key(key))?;
            depth += 1;
        }
        while self.prefixes.last().is_some_and(|p| !key.starts_with(p)) {
            self.prefixes.pop();
        }
        let inside = |p: &&String| key.as_bytes().get(p.len()) == Some(&b'/');
        if let Some(clash) = self.prefixes.iter().find(inside) {
            let message = format!(
                "an entry and a directory have the same name, which a manifest cannot hold: {clash:?} and {key:?}"
            );
            return Err(Error::invalid(message).with_key(key));
        }
        self.hasher.push(key, entry.size, entry.etag.unwrap_or_default())?;
        self.prefixes.push(key.to_owned());
        self.tree.key(self.spool.buffer(), key);
        push_entry(self.spool.buffer(), &self.fields, entry);
        self.spool.settle()?;
        self.entries = self.entries.saturating_add(1);
        self.depth = self.depth.max(depth.saturating_sub(1));
        self.total_size = self.total_size.checked_add(entry.size).ok_or_else(|| {
            Error::invalid("the total size of all entries does not fit into 64 bits").with_key(key)
        })?;
        self.newest = self.newest.max(entry.modified);
        Ok(())
    }

    /// Finishes the document. `changed` is the last modification of the Zarr, if later than its newest entry: deletions
    /// leave no entry.
    pub fn finish(mut self, changed: Option<Time>) -> Result<Finished> {
        self.tree.end(self.spool.buffer());
        let checksum = self.hasher.finish()?;
        let statistics = Statistics {
            entries: Some(self.entries),
            depth: Some(self.depth),
            total_size: Some(self.total_size),
            last_modified: self.newest.max(changed),
            checksum: Some(checksum.to_string()),
            mismatch: None,
        };
        Ok(Finished { statistics, checksum, fields: self.fields, options: self.options, spool: self.spool })
    }
}

impl Finished {
    /// Writes the document.
    pub fn write(mut self, mut out: impl Write) -> Result<()> {
        let mut buffer = Vec::new();
        head(&mut buffer, &self.fields, &self.statistics, &self.options);
        out.write_all(&buffer)?;
        self.spool.drain(|piece| Ok(out.write_all(piece)?))?;
        Ok(out.flush()?)
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
