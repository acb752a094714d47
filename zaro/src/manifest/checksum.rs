//! The Dandi Zarr checksum: a tree hash in which the digest of a directory is computed from those of its contents.
//!
//! A directory is written as JSON — its directories, then its files, each sorted by name, each with digest, name and
//! size — and the MD5 of that, with the number of files and bytes below it, is its digest. So two directories with the
//! same digest have the same contents, wherever they are.
//!
//! [`TreeHasher`] takes keys in the order of an S3 listing, and holds one directory per level; [`Manifest::digests`]
//! computes the digests of a manifest in one pass over its table.

use md5::{Digest as _, Md5};

use super::digest::Digest;
use super::model::{Digests, Manifest};
use super::spool::Spool;
use super::text;
use crate::error::{Error, Result, invalid, usage};

/// Adds one member to the JSON of a directory, after a comma unless it is the first.
pub(super) fn push_member(
    out: &mut Vec<u8>,
    first: bool,
    digest: impl FnOnce(&mut Vec<u8>),
    name: &str,
    size: u64,
) {
    out.extend_from_slice(if first { &b"{\"digest\":"[..] } else { b",{\"digest\":" });
    digest(out);
    out.extend_from_slice(b",\"name\":");
    text::push_json(out, name);
    out.extend_from_slice(b",\"size\":");
    text::push_number(out, size);
    out.push(b'}');
}

pub(super) fn push_dir(out: &mut Vec<u8>, name: &str, digest: &Digest) {
    let quoted = |out: &mut Vec<u8>| {
        out.push(b'"');
        digest.push(out);
        out.push(b'"');
    };
    let first = out.last() == Some(&b'[');
    push_member(out, first, quoted, name, digest.size);
}

pub(super) const DIRECTORIES: &[u8] = b"{\"directories\":[";
pub(super) const FILES: &[u8] = b"],\"files\":[";
pub(super) const END: &[u8] = b"]}";

fn overflow(what: &str) -> Error {
    invalid!("the {what} of this tree do not fit into 64 bits")
}

/// Adds to the count and size of a directory.
pub(super) fn add(total: &mut (u64, u64), count: u64, size: u64) -> Result<()> {
    total.0 = total.0.checked_add(count).ok_or_else(|| overflow("files"))?;
    total.1 = total.1.checked_add(size).ok_or_else(|| overflow("sizes"))?;
    Ok(())
}

impl Manifest {
    /// The digests of all directories. The entries must have sizes and `ETag`s.
    pub fn digests(&self) -> Result<Digests> {
        if !self.fields.tell_content() {
            return Err(Error::invalid("cannot compute a checksum: the manifest has no sizes and ETags")
                .with_field("fields"));
        }
        let mut out: Vec<Digest> = Vec::with_capacity(self.dirs.len());
        let mut json = Vec::new();
        // What is in a directory comes before it.
        for index in 0..self.dirs.len() {
            let dir = self.dir_at(index);
            let mut total = (0, 0);
            json.clear();
            json.extend_from_slice(DIRECTORIES);
            for sub in dir.dirs() {
                let digest = out.get(sub.index()).copied().unwrap_or(Digest::EMPTY);
                push_dir(&mut json, sub.name(), &digest);
                add(&mut total, digest.count, digest.size)?;
            }
            json.extend_from_slice(FILES);
            for leaf in dir.files() {
                let digest = |out: &mut Vec<u8>| {
                    if leaf.is_plain() {
                        out.push(b'"');
                        leaf.push_etag(out);
                        out.push(b'"');
                    } else {
                        text::push_json(out, &leaf.etag().unwrap_or_default());
                    }
                };
                let first = json.last() == Some(&b'[');
                push_member(&mut json, first, digest, leaf.name(), leaf.size());
                add(&mut total, 1, leaf.size())?;
            }
            json.extend_from_slice(END);
            out.push(Digest { md5: Md5::digest(&json).into(), count: total.0, size: total.1 });
        }
        Ok(Digests(out))
    }

    /// The Zarr's checksum.
    pub fn checksum(&self) -> Result<Digest> {
        Ok(self.digests()?.root())
    }
}

/// Computes the checksum of sorted keys. Memory does not grow with the number of keys, only with the number of
/// directories in one directory.
pub struct TreeHasher {
    levels: Vec<DigestLevel>,
    /// The open directory, with a slash at its end; and the last key.
    path: String,
    last: Option<String>,
}

#[derive(Debug, Default)]
struct DigestLevel {
    /// How long the path is up to and with this directory's slash.
    length: usize,
    dirs: Vec<(String, Digest)>,
    files: Spool,
    total: (u64, u64),
}

impl std::fmt::Debug for TreeHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TreeHasher(at {:?})", self.path)
    }
}

impl Default for TreeHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl TreeHasher {
    /// An empty hasher.
    #[must_use]
    pub fn new() -> Self {
        Self { levels: vec![DigestLevel::default()], path: String::new(), last: None }
    }

    /// Adds the next key, its size and its digest, which is hashed as it is. Keys must be sorted by their bytes, as S3
    /// lists them; a file and a directory may have the same name.
    pub fn push(&mut self, key: &str, size: u64, digest: &str) -> Result<()> {
        let last = self.last.get_or_insert_default();
        if !last.is_empty() && last.as_str() >= key {
            let what = if last.as_str() == key { "comes twice" } else { "is out of order" };
            return Err(usage!("the key {what}; keys must be sorted by their bytes").with_key(key));
        }
        last.clear();
        last.push_str(key);
        if key.is_empty() || key.split('/').any(str::is_empty) {
            return Err(Error::invalid("the key has an empty path component").with_key(key));
        }
        while !key.starts_with(&self.path) {
            self.close()?;
        }
        let mut rest = key.get(self.path.len()..).unwrap_or_default();
        while let Some((dir, below)) = rest.split_once('/') {
            self.path.push_str(dir);
            self.path.push('/');
            self.levels.push(DigestLevel { length: self.path.len(), ..DigestLevel::default() });
            rest = below;
        }
        if let Some(level) = self.levels.last_mut() {
            let first = level.files.is_empty();
            push_member(level.files.buffer(), first, |out| text::push_json(out, digest), rest, size);
            level.files.settle()?;
            add(&mut level.total, 1, size)?;
        }
        Ok(())
    }

    /// Closes the innermost directory.
    fn close(&mut self) -> Result<Digest> {
        let Some(mut level) = self.levels.pop() else { return Ok(Digest::EMPTY) };
        level.dirs.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut json = DIRECTORIES.to_vec();
        for (name, digest) in &level.dirs {
            push_dir(&mut json, name, digest);
        }
        json.extend_from_slice(FILES);
        let mut md5 = Md5::new();
        md5.update(&json);
        level.files.drain(|piece| {
            md5.update(piece);
            Ok(())
        })?;
        md5.update(END);
        let digest = Digest { md5: md5.finalize().into(), count: level.total.0, size: level.total.1 };
        self.path.truncate(level.length);
        let path = self.path.strip_suffix('/').unwrap_or(&self.path);
        if let Some(parent) = self.levels.last_mut() {
            let name = path.get(parent.length..).unwrap_or_default();
            parent.dirs.push((name.to_owned(), digest));
            add(&mut parent.total, digest.count, digest.size)?;
            self.path.truncate(parent.length);
        }
        Ok(digest)
    }

    /// The digest of all keys.
    pub fn finish(mut self) -> Result<Digest> {
        while self.levels.len() > 1 {
            self.close()?;
        }
        self.close()
    }
}

/// The digest of keys in any order, each with size and digest.
#[cfg(any(test, feature = "cloud"))]
pub(crate) fn checksum_of(mut entries: Vec<(String, u64, String)>) -> Result<Digest> {
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut tree = TreeHasher::new();
    for (key, size, digest) in &entries {
        tree.push(key, *size, digest)?;
    }
    tree.finish()
}

/// A key of a bucket as a path, as by the reference implementation: empty components and `.` are dropped, so a folder
/// marker `a/` is a file `a`. `None` if nothing is left, or if it contains `..`.
#[cfg(any(test, feature = "cloud"))]
pub(crate) fn key_as_path(key: &str) -> Option<std::borrow::Cow<'_, str>> {
    let odd = |part: &str| part.is_empty() || part == ".";
    if key.split('/').any(|part| part == "..") {
        return None;
    }
    if !key.split('/').any(odd) {
        return Some(key.into());
    }
    let parts: Vec<&str> = key.split('/').filter(|part| !odd(part)).collect();
    (!parts.is_empty()).then(|| parts.join("/").into())
}

#[cfg(test)]
#[path = "checksum_tests.rs"]
mod tests;
