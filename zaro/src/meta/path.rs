//! Node paths: normalization, joining and the rules for node names.

use crate::error::{Result, usage};

/// Normalizes a node path: `/a/b/`, `a//b` and `a/b` are all `a/b`; the root is `""`.
///
/// Back-slashes count as slashes, as in V2; `.` and `..` are refused.
pub fn normal(path: &str) -> Result<String> {
    let mut parts = Vec::new();
    for part in path.split(['/', '\\']).filter(|p| !p.is_empty()) {
        if part == "." || part == ".." {
            return Err(usage!("{path:?} is not a node path: it contains {part:?}"));
        }
        parts.push(part);
    }
    Ok(parts.join("/"))
}

/// `key` below the node `node`, a normalized path.
#[must_use]
pub fn join(node: &str, key: &str) -> String {
    if node.is_empty() {
        key.to_owned()
    } else if key.is_empty() {
        node.to_owned()
    } else {
        format!("{node}/{key}")
    }
}

/// The ancestors of `node`, from the root on; none for the root.
#[must_use]
pub fn ancestors(node: &str) -> Vec<&str> {
    if node.is_empty() {
        return Vec::new();
    }
    let below = node.match_indices('/').map(|(at, _)| node.get(..at).unwrap_or_default());
    std::iter::once("").chain(below).collect()
}

/// A node's path for display, with a leading slash.
#[must_use]
pub fn shown(node: &str) -> String {
    format!("/{node}")
}

/// Why `name` cannot be the name of a V3 node, if it cannot.
#[must_use]
pub fn name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a node name must not be empty")
    } else if name.bytes().all(|b| b == b'.') {
        Some("a node name must not consist of periods alone")
    } else if name.starts_with("__") {
        Some("a node name must not begin with two underscores")
    } else if name == "zarr.json" {
        Some("zarr.json is not a node name")
    } else {
        None
    }
}
