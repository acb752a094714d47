//! A location found by an address: a path in a store, and the location of the store's root.

use std::path::PathBuf;
use std::sync::Arc;

use super::address::StorePlace;
use super::connect::{connect, folder};
use crate::error::{Error, Result};
use crate::store::options::StoreOptions;
use crate::store::wrap::prefix::PrefixStore;
use crate::store::{SharedStore, join};

/// An object or folder of a store.
#[derive(Debug, Clone)]
pub(super) struct StoreLocation {
    pub(super) store: SharedStore,
    /// Its path in the store; `""` for the store's root.
    pub(super) path: String,
    /// The location of the store's root; `None` inside an archive.
    pub(super) place: Option<StorePlace>,
    /// Whether the content is from elsewhere, and must not access local files.
    pub(super) remote: bool,
}

impl StoreLocation {
    /// A location, reached with these options.
    pub(super) fn at(place: StorePlace, options: &StoreOptions) -> Result<Self> {
        let (store, remote) = match &place {
            StorePlace::Local(path) => (folder(path, options), false),
            place => (connect(place, options)?, true),
        };
        Ok(Self { store, path: String::new(), place: Some(place), remote })
    }

    /// The store rooted here.
    pub(super) fn rooted(&self) -> Result<SharedStore> {
        if self.path.is_empty() {
            return Ok(Arc::clone(&self.store));
        }
        Ok(Arc::new(PrefixStore::new(Arc::clone(&self.store), &self.path)?))
    }

    /// The parent folder; `None` at the top of an archive or bucket.
    pub(super) fn above(&self, options: &StoreOptions) -> Option<Self> {
        if self.path.is_empty() {
            let place = match self.place.as_ref()? {
                // A relative path has a parent, too.
                StorePlace::Local(path) => {
                    StorePlace::Local(std::path::absolute(path).ok()?.parent()?.to_owned())
                }
                place => place.split()?.0,
            };
            return Self::at(place, options).ok();
        }
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(Self { path: folder.to_owned(), ..self.clone() })
    }

    /// Resolves the relative path `path` from here.
    pub(super) fn below(&self, path: &str) -> Result<RelativePath> {
        let mut parts: Vec<&str> = self.path.split('/').filter(|p| !p.is_empty()).collect();
        let mut up: Vec<&str> = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.pop().is_none() => up.push(part),
                ".." => {}
                part if up.is_empty() => parts.push(part),
                part => up.push(part),
            }
        }
        if up.is_empty() {
            return Ok(RelativePath::Here(parts.join("/")));
        }
        let beyond = || Error::invalid(format!("{path:?} leads outside the store that refers to it"));
        let up = up.join("/");
        match self.place.as_ref().ok_or_else(beyond)? {
            StorePlace::Local(root) => Ok(RelativePath::Elsewhere(StorePlace::Local(climbed(root, &up)?))),
            StorePlace::Http(url) => {
                // Joined as an unencoded path, like those that stay inside.
                let mut joined = url.clone();
                let parts: Vec<&str> = up.split('/').collect();
                if let Ok(mut path) = joined.path_segments_mut() {
                    path.pop_if_empty();
                    for part in parts {
                        match part {
                            ".." => drop(path.pop()),
                            part => drop(path.push(part)),
                        }
                    }
                }
                Ok(RelativePath::Elsewhere(StorePlace::Http(joined)))
            }
            place => {
                let mut place = place.clone();
                let (StorePlace::S3 { path, .. }
                | StorePlace::Gcs { path, .. }
                | StorePlace::Azure { path, .. }) = &mut place
                else {
                    return Err(beyond());
                };
                let mut parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
                for part in up.split('/') {
                    match part {
                        ".." => drop(parts.pop().ok_or_else(beyond)?),
                        part => parts.push(part),
                    }
                }
                *path = parts.join("/");
                Ok(RelativePath::Elsewhere(place))
            }
        }
    }

    /// This with a path below it.
    pub(super) fn child(&self, path: &str) -> Self {
        let path = if path.is_empty() { self.path.clone() } else { join(&self.path, path) };
        Self { path, ..self.clone() }
    }
}

/// The result of resolving a relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RelativePath {
    /// A key of the same store.
    Here(String),
    /// Outside of its root.
    Elsewhere(StorePlace),
}

/// `root` joined with a path that leaves it. Symlinks on the way are resolved as by the system.
fn climbed(root: &std::path::Path, up: &str) -> Result<PathBuf> {
    let path = root.join(up);
    match (path.parent().map(std::fs::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        (Some(Err(e)), _) => Err(Error::from(e).with_store(path.display())),
        _ => Err(Error::invalid(format!("{up:?} names no file"))),
    }
}
