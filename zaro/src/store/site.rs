//! Physical locations of stored bytes, to tell whether two addresses mean the same place.
//!
//! Two addresses can name one place: a symlink, `file://`, an endpoint with and without a port, a bucket and its web
//! URL. So places are compared as the opened stores know them, never as written: files by device and inode of their
//! parent folders, everything remote by host and path.

use std::ffi::OsString;
use std::io::ErrorKind as IoKind;
use std::path::{Component, Path, PathBuf};

use super::local::sys;
use crate::error::{Error, Result};
use crate::num;

/// The relation of two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// They are the same place.
    Same,
    /// The first is inside the second.
    Inside,
    /// The second is inside the first.
    Contains,
    /// They share nothing, as far as is known.
    Apart,
}

/// The location of a folder or an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site(SiteKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum SiteKind {
    File(FileSite),
    /// Host with port, and path.
    Host(String, Vec<String>),
    /// Something that only this process has, by its number.
    Own(usize, Vec<String>),
    /// An archive entry.
    Entry(Box<Site>, Vec<String>),
}

/// Device and inode, where available.
type FileId = [u64; 2];

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileSite {
    /// The file or folder and its parents, the outermost first; without what does not exist.
    ids: Vec<FileId>,
    /// The part of the path that does not exist yet.
    rest: Vec<OsString>,
}

impl Site {
    /// The file or folder at `path`, which need not exist. Symlinks are followed.
    pub fn file(path: &Path) -> Result<Self> {
        let fault = |e: std::io::Error| Error::from(e).with_store(path.display());
        let mut there = std::path::absolute(path).map_err(fault)?;
        let mut rest: Vec<OsString> = Vec::new();
        let found = loop {
            match std::fs::canonicalize(&there) {
                Ok(found) => break found,
                Err(e) if matches!(e.kind(), IoKind::NotFound | IoKind::NotADirectory) => {}
                Err(e) => return Err(fault(e)),
            }
            match there.components().next_back() {
                Some(Component::Normal(name)) => rest.insert(0, name.to_owned()),
                Some(Component::ParentDir) => {
                    return Err(fault(IoKind::NotFound.into()));
                }
                _ => {}
            }
            if !there.pop() {
                break PathBuf::from("/");
            }
        };
        // The system reports a name that is too long only once its parent folder exists.
        if let (Some(longest), Some(most)) =
            (rest.iter().max_by_key(|name| name.len()), sys::longest_name(&found))
            && num::u64_of(longest.len()) > most
        {
            let what = format!("a name is longer than the {most} bytes that this file system allows");
            return Err(Error::usage(what).with_store(path.display()));
        }
        let mut ids = Vec::new();
        for folder in found.ancestors() {
            ids.insert(0, sys::id_at(folder).map_err(fault)?);
        }
        Ok(Self(SiteKind::File(FileSite { ids, rest })))
    }

    /// What a server has at `path`.
    #[must_use]
    pub fn host(host: &str, path: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
            _ => (host.as_str(), ""),
        };
        let name = match name.trim_end_matches('.') {
            "localhost" | "[::1]" => "127.0.0.1",
            // AWS bucket names are the same in all regions.
            aws if aws.ends_with(".amazonaws.com") => "s3.amazonaws.com",
            other => other,
        };
        Self(SiteKind::Host(format!("{name}:{port}"), parts(path)))
    }

    /// Something that only this process has, such as memory; `number` distinguishes them.
    #[must_use]
    pub fn own(number: usize, path: &str) -> Self {
        Self(SiteKind::Own(number, parts(path)))
    }

    /// Whether only this process has it, as far as is known.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.0, SiteKind::Own(..))
    }

    /// What lies below `path` in the archive at this place.
    #[must_use]
    pub fn entry(self, path: &str) -> Self {
        Self(SiteKind::Entry(Box::new(self), parts(path)))
    }

    /// The relation of this place to `other`.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        match (other.holds(self), self.holds(other)) {
            (true, true) => Relation::Same,
            (true, false) => Relation::Inside,
            (false, true) => Relation::Contains,
            (false, false) => Relation::Apart,
        }
    }

    /// Whether `other` is this place or inside it.
    fn holds(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (SiteKind::File(a), SiteKind::File(b)) => a.holds(b),
            (SiteKind::Host(a, path), SiteKind::Host(b, below)) => a == b && below.starts_with(path),
            (SiteKind::Own(a, path), SiteKind::Own(b, below)) => a == b && below.starts_with(path),
            (SiteKind::Entry(a, path), SiteKind::Entry(b, below)) => {
                (a.relation(b) == Relation::Same && below.starts_with(path)) || self.holds(b)
            }
            // An archive is where its file is.
            (_, SiteKind::Entry(archive, _)) => self.holds(archive),
            _ => false,
        }
    }
}

impl FileSite {
    fn holds(&self, other: &Self) -> bool {
        let Some(own) = self.ids.last() else { return false };
        if self.rest.is_empty() {
            return other.ids.contains(own);
        }
        other.ids.last() == Some(own) && other.rest.starts_with(&self.rest)
    }
}

fn parts(path: &str) -> Vec<String> {
    path.split('/').filter(|p| !p.is_empty()).map(str::to_owned).collect()
}

/// A folder, and the targets of symlinks below it; each folder once, despite cycles.
pub(super) fn linked_from(folder: &Path) -> Result<Vec<Site>> {
    let mut sites = vec![Site::file(folder)?];
    let mut seen: std::collections::HashSet<FileId> = std::collections::HashSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let fault = |e: std::io::Error| Error::from(e).with_store(folder.display());
        // The target of a symlink may be missing; reading it reports that.
        if !folder.is_dir() || !sys::id_at(&folder).is_ok_and(|id| seen.insert(id)) {
            continue;
        }
        for entry in super::local::read_dir(&folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let kind = entry.file_type().map_err(fault)?;
            if kind.is_symlink() && entry.path().exists() {
                sites.push(Site::file(&entry.path())?);
            }
            if kind.is_dir() || kind.is_symlink() {
                open.push(entry.path());
            }
        }
    }
    Ok(sites)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_inodes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |p: &str| dir.path().join(p);
        std::fs::create_dir_all(at("a/x/c")).unwrap();
        std::fs::create_dir_all(at("b")).unwrap();
        std::os::unix::fs::symlink(at("a/x"), at("b/y")).unwrap();
        std::os::unix::fs::symlink("a", at("l")).unwrap();
        let site = |p: &str| Site::file(&at(p)).unwrap();
        for (first, second, relation) in [
            ("a", "l", Relation::Same),
            ("a", "b/../a/.", Relation::Same),
            ("a", "b/y", Relation::Contains),
            ("b/y/c", "a", Relation::Inside),
            ("a", "b", Relation::Apart),
            ("a", "l/new/deeper", Relation::Contains),
            ("new/deeper", "new", Relation::Inside),
            ("new", "newer", Relation::Apart),
            ("a/new", "l/new", Relation::Same),
            (".", "a", Relation::Contains),
        ] {
            assert_eq!(site(first).relation(&site(second)), relation, "{first} {second}");
        }
        let links = linked_from(&at("b")).unwrap();
        assert!(links.iter().any(|s| s.relation(&site("a")) == Relation::Inside));
        // A ring of links comes to its end.
        std::os::unix::fs::symlink(".", at("a/ring")).unwrap();
        assert!(linked_from(&at("a")).unwrap().len() < 4);
    }

    #[test]
    fn servers_are_known_by_host_and_path() {
        for (first, second, relation) in [
            (("localhost:9000", "b/a.zarr"), ("127.0.0.1:9000", "/b//a.zarr/"), Relation::Same),
            (("h:80", "b/a"), ("H:80", "b/a/x"), Relation::Contains),
            (("h:80", "b/ab"), ("h:80", "b/a"), Relation::Apart),
            (("h:80", "b"), ("h:81", "b"), Relation::Apart),
            (
                ("s3.eu-west-1.amazonaws.com:443", "b"),
                ("s3.us-east-1.amazonaws.com:443", "b"),
                Relation::Same,
            ),
        ] {
            let (a, b) = (Site::host(first.0, first.1), Site::host(second.0, second.1));
            assert_eq!(a.relation(&b), relation, "{first:?} {second:?}");
        }
        let archive = Site::host("h:80", "b/x.zip").entry("a");
        assert_eq!(archive.relation(&Site::host("h:80", "b")), Relation::Inside);
        assert_eq!(archive.relation(&Site::host("h:80", "b/x.zip").entry("a")), Relation::Same);
        assert_eq!(archive.relation(&Site::host("h:80", "c")), Relation::Apart);
    }
}
