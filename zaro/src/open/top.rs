//! Finds the root of the hierarchy for a change, even if an address points inside.
//!
//! `data.zarr/group` and `x` name the same node as `data.zarr` and `group/x`. A change has to see the groups above the
//! node: for their version, and for their consolidated metadata. In local folders they are searched; elsewhere, what is
//! above an address is unknown.

use std::path::{Component, Path, PathBuf};

use crate::error::Result;
use crate::meta::Json;
use crate::meta::path::{join, normal};

/// The documents that make a folder a node.
const DOCUMENTS: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// Objects in a folder that is becoming a node, or was one: operations in progress there must be seen.
const UNFINISHED: [&str; 2] = [".zaro-journal.json", ".zaro-delete.json"];

/// The address of the outermost group around `uri` and `path`, and the node's path from there.
pub fn from_the_top(uri: &str, path: &str) -> Result<(String, String)> {
    let path = normal(path)?;
    let Some((top, below)) = climb(uri) else { return Ok((uri.to_owned(), path)) };
    Ok((top, join(&below, &path)))
}

/// The outermost folder with metadata above the folder `uri`, and the path from there; `None` if there is none.
fn climb(uri: &str) -> Option<(String, String)> {
    if uri.contains([':', '|', '#', '?']) {
        return None;
    }
    let given = Path::new(uri);
    if given.components().any(|c| c == Component::ParentDir) {
        return None;
    }
    let start = std::path::absolute(given).ok()?;
    let mut top: PathBuf = start.clone();
    for above in start.ancestors().skip(1) {
        if DOCUMENTS.iter().chain(&UNFINISHED).any(|d| above.join(d).is_file()) {
            top = above.to_owned();
        } else if above.exists() {
            // A plain folder: anything above is something else. A missing folder will become a group.
            break;
        }
    }
    let below = start.strip_prefix(&top).ok()?.to_str().filter(|b| !b.is_empty())?;
    // The address of a document is that of its node.
    let below = match below.rsplit_once('/') {
        Some((folder, name)) if is_document(name) => folder,
        None if is_document(below) => "",
        _ => below,
    };
    Some((top.to_str()?.to_owned(), below.to_owned()))
}

/// Whether a name is that of a document of a node.
fn is_document(name: &str) -> bool {
    DOCUMENTS.contains(&name) || [".zattrs", ".zmetadata"].contains(&name)
}

/// Whether an existing file is a document of a node, or inside an array.
#[must_use]
pub fn is_of_zarr(path: &Path) -> bool {
    let Ok(file) = path.canonicalize() else { return false };
    if !file.is_file() {
        return false;
    }
    let is_document = file.file_name().and_then(|n| n.to_str()).is_some_and(is_document);
    let is_array = |folder: &Path| {
        let v3 = || std::fs::read(folder.join("zarr.json")).ok();
        let says_array = |bytes: Vec<u8>| {
            Json::parse(&bytes)
                .is_ok_and(|d| d.value.get("node_type").and_then(|t| t.as_str()) == Some("array"))
        };
        folder.join(".zarray").exists() || v3().is_some_and(says_array)
    };
    is_document || file.ancestors().skip(1).any(is_array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_from_the_top() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path).to_str().unwrap().to_owned();
        for folder in ["plain/data.zarr/g/h", "plain/data.zarr/other"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for document in ["plain/data.zarr/zarr.json", "plain/data.zarr/g/zarr.json"] {
            std::fs::write(at(document), "{}").unwrap();
        }
        let root = at("plain/data.zarr");
        for (uri, path, wanted) in [
            ("plain/data.zarr", "g/x", (root.clone(), "g/x")),
            ("plain/data.zarr/g", "x", (root.clone(), "g/x")),
            ("plain/data.zarr/g/", "", (root.clone(), "g")),
            ("plain/data.zarr/g/zarr.json", "", (root.clone(), "g")),
            ("plain/data.zarr/zarr.json", "x", (root.clone(), "x")),
            ("plain/data.zarr/new/x", "", (root.clone(), "new/x")),
            ("plain/new.zarr", "x", (at("plain/new.zarr"), "x")),
        ] {
            let found = from_the_top(&at(uri), path).unwrap();
            assert_eq!(found, (wanted.0, wanted.1.to_owned()), "{uri} {path}");
        }
        let remote = ("s3://bucket/a.zarr".to_owned(), "x".to_owned());
        assert_eq!(from_the_top("s3://bucket/a.zarr", "/x/").unwrap(), remote);
    }

    #[test]
    fn files_of_zarrs_are_no_outputs() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let group = make("g/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
        let chunk = make("g/x/c/0/0", "");
        assert!(!is_of_zarr(&chunk));
        make("g/x/zarr.json", r#"{"zarr_format": 3, "node_type": "array"}"#);
        make("g/y/.zarray", "{}");
        let own = make("g/manifest.json", "");
        assert!(is_of_zarr(&group) && is_of_zarr(&chunk) && is_of_zarr(&make("g/y/0.0", "")));
        assert!(!is_of_zarr(&own) && !is_of_zarr(&dir.path().join("g/x/new.npy")) && !is_of_zarr(dir.path()));
    }
}
