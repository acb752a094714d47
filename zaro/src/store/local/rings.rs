//! Symlink cycles: links to a parent folder, below which the same folders would repeat forever.

use std::path::{Path, PathBuf};

use super::sys;

/// The parent folders of a listing, looked up once a symlink makes it necessary.
pub(super) struct Rings {
    /// The folders from the root of the store to the one that is listed.
    around: Vec<PathBuf>,
    /// Whether one of them is a symlink, so that any folder below may be one of them again.
    through_link: bool,
    /// Their identities.
    known: Option<Vec<[u64; 2]>>,
}

impl Rings {
    /// For the listing of `prefix` below `root`.
    pub(super) fn new(root: &Path, prefix: &str) -> Self {
        let mut at = root.to_owned();
        let mut around = vec![at.clone()];
        for name in prefix.split('/').filter(|n| !n.is_empty()) {
            at.push(name);
            around.push(at.clone());
        }
        let is_link = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
        let through_link = around.iter().skip(1).any(is_link);
        Self { around, through_link, known: None }
    }

    /// Whether the folder at `path` is one of its own parents. `linked` if it was reached by a symlink.
    pub(super) fn closes(&mut self, path: &Path, linked: bool) -> bool {
        if !linked && !self.through_link {
            return false;
        }
        let identity = |path: &Path| sys::id_at(path).ok();
        let around = &self.around;
        let known = self.known.get_or_insert_with(|| around.iter().filter_map(|p| identity(p)).collect());
        identity(path).is_some_and(|id| known.contains(&id))
    }
}
