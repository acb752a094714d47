//! Addresses and names as text, and a look at what lies at local ones.

use std::path::{Path, PathBuf};

use zaro::manifest::Digest;
use zaro::{Error, Result};

use super::opening::DOCUMENTS;

/// The file at a local address, if it is one and not a folder.
pub(super) fn local_file(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    let path = ["manifest+", "reference+json://", "virtualizarr://", "zip://"]
        .iter()
        .find_map(|scheme| path.strip_prefix(scheme))
        .unwrap_or(path);
    let path = PathBuf::from(path);
    path.is_file().then_some(path)
}

/// The address of the manifest of a version of the Zarr at `uri`, which lies at `…/zarr/ID`.
pub(super) fn manifest_of(uri: &str, checksum: &Digest) -> Option<String> {
    let uri = uri.trim_end_matches('/');
    let (above, id) = uri.rsplit_once('/')?;
    let base = above.strip_suffix("zarr").filter(|base| base.is_empty() || base.ends_with('/'))?;
    let key = zaro::manifest::key_of(id, checksum).ok()?;
    Some(format!("manifest+{base}{key}"))
}

/// `NAME=URI`, or a URI alone: an equals sign after a slash, a colon or a question mark belongs to the URI.
pub(super) fn split(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, uri)) if !name.is_empty() && !uri.is_empty() && !name.contains(['/', ':', '?', '\\']) => {
            (Some(name), uri)
        }
        _ => (None, text),
    }
}

/// The name of a source that was given none: the last part of its address.
pub(super) fn name_of(uri: &str) -> Result<String> {
    let path = uri.split(['?', '#']).next().unwrap_or(uri).trim_end_matches('/');
    let last = path.rsplit(['/', ':', '|']).find(|part| !part.is_empty() && *part != ".").unwrap_or_default();
    let name = match last {
        "" | ".." => {
            let here = std::path::absolute(uri)
                .ok()
                .and_then(|p| Some(p.canonicalize().ok()?.file_name()?.to_str()?.to_owned()));
            here.unwrap_or_default()
        }
        last => last.to_owned(),
    };
    check_name(&name).map_err(|e| e.within(uri))?;
    Ok(name)
}

/// A name is one segment of a path.
pub(super) fn check_name(name: &str) -> Result<()> {
    let bad = name.is_empty()
        || name.starts_with('.')
        || name.contains(['/', '\\'])
        || name.chars().any(char::is_control);
    if bad {
        Err(Error::usage(format!("{name:?} cannot be the name of a source; write NAME=URI")))
    } else {
        Ok(())
    }
}

/// An address of this machine as a path.
pub(super) fn local_path(uri: &str) -> &Path {
    Path::new(uri.strip_prefix("file://").unwrap_or(uri))
}

/// Whether an address is that of a folder of this machine.
pub(super) fn local_folder(uri: &str) -> bool {
    local_path(uri).is_dir()
}

/// Whether a local file is a source: an archive or references. JSON may be anything: a look at its beginning tells.
pub(super) fn is_source(path: &Path, name: &str) -> bool {
    is_openable(name) && (!name.to_ascii_lowercase().ends_with(".json") || is_references(path))
}

/// Whether a JSON document begins as references do, in either form: with `refs` or what goes with them, or with keys of a
/// Zarr at the top.
fn is_references(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(16 << 10).read_to_end(&mut start));
    if read.is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&start);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let Some(first) = text.strip_prefix('{').map(str::trim_start) else { return false };
    let documents = [".zgroup\"", ".zarray\"", ".zattrs\"", ".zmetadata\"", "zarr.json\""];
    // A metadata document of a Zarr has its format at the top, references have other documents as members.
    ["\"refs\"", "\"templates\"", "\"gen\""].iter().any(|key| first.contains(key))
        || documents.iter().any(|name| text.contains(name))
}

/// Whether a file of this name may be a source: an archive or references.
pub(super) fn is_openable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".zip", ".ozx", ".json", ".json.gz", ".json.zst"].iter().any(|end| name.ends_with(end))
}

/// Whether a local folder is an archive of versions: with its objects beside the manifests, or manifests only.
pub(super) fn is_local_archive(uri: &str) -> bool {
    is_archive(local_path(uri))
}

pub(super) fn is_archive(path: &Path) -> bool {
    if path.join("zarr-manifest").is_dir() {
        return true;
    }
    // The first folder of each level tells: three letters, three more, an id that begins with them.
    let first = |path: &Path| path.read_dir().ok()?.flatten().find(|e| e.path().is_dir()).map(|e| e.path());
    let name = |path: &Path| path.file_name().and_then(|n| n.to_str()).map(str::to_owned);
    let parts = first(path).and_then(|a| {
        let b = first(&a)?;
        let c = first(&b)?;
        Some((name(&a)?, name(&b)?, name(&c)?))
    });
    parts.is_some_and(|(a, b, c)| a.len() == 3 && b.len() == 3 && c.starts_with(&format!("{a}{b}")))
}

/// Whether an archive of versions may be at an address: a plain folder, local or remote.
pub(super) fn may_be_archive(uri: &str) -> bool {
    let plain = ["file://", "s3://", "gs://", "az://", "http://", "https://"];
    let is_plain = plain.iter().any(|scheme| uri.starts_with(scheme)) || !uri.contains("://");
    is_plain && !uri.starts_with("manifest+") && !is_openable(uri)
}

/// Whether a local folder is no Zarr itself, so that its entries are what is served.
pub(super) fn is_folder_of_zarrs(uri: &str) -> bool {
    let path = local_path(uri);
    if !path.is_dir() {
        return false;
    }
    let has = |name: &str| path.join(name).exists();
    let is_repository = has("repo") || (has("refs") && has("snapshots"));
    !DOCUMENTS.iter().any(|name| has(name)) && !is_repository && !is_archive(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_command_line_or_the_address() {
        assert_eq!(split("brain=s3://b/x.zarr"), (Some("brain"), "s3://b/x.zarr"));
        assert_eq!(split("https://h/x?a=b"), (None, "https://h/x?a=b"));
        assert_eq!(split("dir/a=b"), (None, "dir/a=b"));
        for (uri, name) in [
            ("s3://b/x.zarr/", "x.zarr"),
            ("https://h/a/b.zarr?x=1", "b.zarr"),
            ("data.zarr", "data.zarr"),
            ("manifest+dir/abc.json", "abc.json"),
        ] {
            assert_eq!(name_of(uri).unwrap(), name, "{uri}");
        }
        assert!(check_name("a/b").is_err() && check_name("").is_err() && check_name(".x").is_err());
    }

    #[test]
    fn a_version_has_its_manifest_beside_its_objects() {
        let id = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d";
        let checksum = Digest::parse("6ddc4625befef8d6f9796835648162be-509--710206390").unwrap();
        let wanted = format!("manifest+s3://b/zarr-manifest/128/4a1/{id}/{checksum}.json");
        assert_eq!(manifest_of(&format!("s3://b/zarr/{id}/"), &checksum).unwrap(), wanted);
        assert_eq!(manifest_of(&format!("s3://b/x/{id}"), &checksum), None);
    }
}
