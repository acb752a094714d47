//! Parses addresses: paths, URIs, and URLs copied from browsers and viewers.

use std::path::{Path, PathBuf};

use url::Url;

use crate::error::{Error, Result};
use crate::store::{check_prefix, percent_decode};

/// Names of metadata documents that people copy along with the address of their folder.
const DOCUMENTS: &[&str] = &["zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata"];

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: StorePlace,
    /// Whether it explicitly names an archive.
    pub(super) zip: bool,
    /// A path within the place: within the archive, if it is one.
    pub(super) inner: String,
    /// The kind of store, if named.
    pub(super) kind: StoreKind,
    /// The address without the kind of store.
    pub(super) text: String,
    /// The location of a manifest's objects (`manifest+URI::OBJECTS`).
    pub(super) objects: Option<String>,
}

/// The kind of store named by an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// None: detected from the content.
    Any,
    /// A reference store, JSON or Parquet.
    Reference,
    /// Kerchunk's JSON.
    Json,
    /// Kerchunk's Parquet.
    Parquet,
    /// An Icechunk repository.
    Icechunk,
    /// A manifest of one version.
    Manifest,
}

impl StoreKind {
    /// The kind of store that `text` begins with, and the rest.
    fn of(text: &str) -> (Self, &str) {
        let lower = text.to_ascii_lowercase();
        let rest = |prefix: &str| lower.starts_with(prefix).then(|| text.get(prefix.len()..).unwrap_or(""));
        for (prefix, kind) in [
            ("reference+json://", Self::Json),
            ("reference+parquet://", Self::Parquet),
            ("virtualizarr://", Self::Reference),
            ("kerchunk://", Self::Reference),
            ("reference://", Self::Reference),
            ("reference::", Self::Reference),
            ("icechunk://", Self::Icechunk),
            ("icechunk+", Self::Icechunk),
            ("manifest+", Self::Manifest),
        ] {
            if let Some(rest) = rest(prefix) {
                // `reference://::URL`, as fsspec writes it.
                return (kind, rest.strip_prefix("::").unwrap_or(rest));
            }
        }
        (Self::Any, text)
    }
}

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StorePlace {
    Local(PathBuf),
    Memory,
    /// `aws` for a bucket of AWS itself, with its region if the address names it.
    S3 {
        bucket: String,
        path: String,
        aws: Option<Option<String>>,
    },
    Gcs {
        bucket: String,
        path: String,
    },
    Azure {
        account: Option<String>,
        container: String,
        path: String,
        sas: Option<String>,
    },
    Http(Url),
}

/// Whether a name is that of a ZIP archive.
pub(super) fn is_archive_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.len() > 4 && (name.ends_with(".zip") || name.ends_with(".ozx"))
}

impl Address {
    /// Parses an address.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::usage("the address is empty"));
        }
        // A path that exists as written is taken literally, including special characters.
        let (mut kind, mut text) = StoreKind::of(text);
        let mut objects = None;
        if kind == StoreKind::Manifest
            && let Some((manifest, place)) = text.split_once("::")
        {
            (text, objects) = (manifest, Some(place.to_owned()));
        }
        if text.is_empty() {
            return Err(Error::usage("the address names a kind of store, but no location"));
        }
        if !text.contains("://") && Path::new(text).exists() {
            let place = StorePlace::Local(PathBuf::from(trimmed(text)));
            let text = text.to_owned();
            return Ok(Self { place, zip: false, inner: String::new(), kind, text, objects });
        }
        let mut parts = text.split('|');
        let mut uri = parts.next().unwrap_or_default().to_owned();
        let mut zip = false;
        let mut inner = Vec::new();
        for part in parts {
            let (format, path) = part.split_once(':').unwrap_or((part, ""));
            match format {
                "zip" => zip = true,
                "zarr" | "zarr2" | "zarr3" => {}
                "icechunk" => kind = StoreKind::Icechunk,
                other => {
                    return Err(Error::unsupported(format!("{other:?} in {text:?} is not a known format")));
                }
            }
            inner.push(trimmed(path.trim_start_matches('/')).to_owned());
        }
        for prefix in ["zarr://", "zarr2://", "zarr3://"] {
            if let Some(rest) = uri.strip_prefix(prefix) {
                uri = rest.to_owned();
            }
        }
        let lower = uri.to_ascii_lowercase();
        if let Some(rest) =
            ["zip+", "zip://"].iter().find_map(|p| lower.starts_with(p).then(|| uri.get(p.len()..)))
        {
            let rest = rest.unwrap_or_default();
            // `zip://path/inside::address`, the order of fsspec.
            match rest.split_once("::") {
                Some((path, address)) => {
                    inner.push(trimmed(path.trim_start_matches('/')).to_owned());
                    uri = address.to_owned();
                }
                None => uri = rest.to_owned(),
            }
            zip = true;
        }
        let inner = inner.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("/");
        check_prefix(&inner)
            .map_err(|_| Error::usage(format!("{inner:?} is not a path within an archive")))?;
        Ok(Self { place: StorePlace::parse(&uri)?, zip, inner, kind, text: text.to_owned(), objects })
    }
}

/// Without trailing slashes, the name of a document, and the slashes before that.
fn trimmed(path: &str) -> &str {
    let path = strip_slashes(path);
    match path.rsplit_once('/') {
        Some((folder, name)) if DOCUMENTS.contains(&name) => strip_slashes(folder),
        _ => path,
    }
}

/// Without trailing slashes, unless nothing else is left.
fn strip_slashes(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if path.starts_with('/') => "/",
        bare => bare,
    }
}

fn without_fragment(text: &str) -> &str {
    text.split_once('#').map_or(text, |(before, _)| before)
}

/// A bucket and a path in it, which must be a valid prefix.
fn bucket_and_path(rest: &str) -> Result<(String, String)> {
    let rest = without_fragment(rest);
    let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = trimmed(&format!("/{path}")).trim_start_matches('/').to_owned();
    bucket_and_key(&format!("{bucket}/{path}"))
}

/// The same, unchanged: the path of an object, whatever its name.
fn bucket_and_key(rest: &str) -> Result<(String, String)> {
    let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(Error::usage("the address names no bucket"));
    }
    check_prefix(path).map_err(|_| Error::usage(format!("{path:?} cannot be the start of a key")))?;
    Ok((bucket.to_owned(), path.to_owned()))
}

impl StorePlace {
    fn parse(uri: &str) -> Result<Self> {
        let Some((scheme, rest)) = uri.split_once("://") else {
            if uri == "memory:" {
                return Ok(Self::Memory);
            }
            let whole = Path::new(uri);
            let path = if whole.exists() { uri } else { without_fragment(uri) };
            return Ok(Self::Local(PathBuf::from(trimmed(path))));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = without_fragment(rest);
                let path = path.strip_prefix("localhost").filter(|p| p.starts_with('/')).unwrap_or(path);
                let decoded = percent_decode(path)
                    .ok_or_else(|| Error::usage(format!("the path of {uri:?} is not UTF-8")))?;
                Ok(Self::Local(PathBuf::from(trimmed(&decoded))))
            }
            "memory" => Ok(Self::Memory),
            "s3" | "s3a" | "s3n" => {
                bucket_and_path(rest).map(|(bucket, path)| Self::S3 { bucket, path, aws: None })
            }
            "gs" | "gcs" => bucket_and_path(rest).map(|(bucket, path)| Self::Gcs { bucket, path }),
            "az" | "azure" | "abfs" | "abfss" | "adl" => azure(rest, bucket_and_path),
            "http" | "https" => {
                let mut url =
                    Url::parse(uri).map_err(|e| Error::usage(format!("{uri:?} is not a valid URL: {e}")))?;
                url.set_fragment(None);
                let path = trimmed(url.path()).to_owned();
                url.set_path(&path);
                Ok(hosted(&url).unwrap_or(Self::Http(url)))
            }
            s => Err(Error::unsupported(format!(
                "{s}:// is not a known kind of store; known are file, s3, gs, az, abfs(s), http(s), memory, zip+…, \
                 reference+json, reference+parquet, icechunk+…, manifest+…"
            ))),
        }
    }

    /// The location of one object, as named by a reference: nothing is cut off, a server stays a server, and a file
    /// path is a file. `None` for a relative path.
    pub(super) fn of_object(uri: &str) -> Result<Option<Self>> {
        if let Some(path) = file_path(uri)? {
            return Ok(Some(Self::Local(path)));
        }
        let Some((scheme, rest)) = uri.split_once("://").filter(|(s, _)| !s.contains('/')) else {
            return Ok(None);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" | "s3n" => {
                bucket_and_key(rest).map(|(bucket, path)| Some(Self::S3 { bucket, path, aws: None }))
            }
            "gs" | "gcs" => bucket_and_key(rest).map(|(bucket, path)| Some(Self::Gcs { bucket, path })),
            "az" | "azure" | "abfs" | "abfss" | "adl" => azure(rest, bucket_and_key).map(Some),
            "http" | "https" => {
                let mut url = Url::parse(uri)
                    .map_err(|e| Error::invalid(format!("{uri:?} is not a valid URL: {e}")))?;
                url.set_fragment(None);
                Ok(Some(Self::Http(url)))
            }
            s => Err(Error::unsupported(format!(
                "{s}:// cannot be the target of a reference; allowed are file, s3, gs, az, abfs(s), http(s)"
            ))),
        }
    }

    /// The parent folder, and the name in it; `None` at the root.
    pub(super) fn split(&self) -> Option<(Self, String)> {
        let cut = |path: &str| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            (!name.is_empty()).then(|| (folder.to_owned(), name.to_owned()))
        };
        let mut place = self.clone();
        let name = match &mut place {
            Self::S3 { path, .. } | Self::Gcs { path, .. } | Self::Azure { path, .. } => {
                let (folder, name) = cut(path)?;
                *path = folder;
                name
            }
            Self::Http(url) => {
                let (folder, name) = cut(url.path())?;
                url.set_path(&folder);
                percent_decode(&name)?
            }
            Self::Local(path) => {
                let name = path.file_name()?.to_str()?.to_owned();
                path.pop();
                if path.as_os_str().is_empty() {
                    path.push(".");
                }
                name
            }
            Self::Memory => return None,
        };
        Some((place, name))
    }

    /// The archive that the path names or leads through: its location, its name, and the path in it. `certain` if the
    /// last part is explicitly an archive.
    #[cfg(feature = "cloud")]
    pub(super) fn archive(&self, certain: bool) -> Option<(Self, String, String)> {
        let path = match self {
            Self::S3 { path, .. } | Self::Gcs { path, .. } | Self::Azure { path, .. } => path.clone(),
            Self::Http(url) => url.path().trim_start_matches('/').to_owned(),
            Self::Local(_) | Self::Memory => return None,
        };
        let decode = |part: &str| match self {
            Self::Http(_) => percent_decode(part),
            _ => Some(part.to_owned()),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let named = parts.iter().position(|p| decode(p).is_some_and(|p| is_archive_name(&p)));
        let at = named.or_else(|| certain.then(|| parts.len().checked_sub(1)).flatten())?;
        let name = decode(parts.get(at)?).filter(|n| !n.is_empty())?;
        let inside = decode(&parts.get(at.checked_add(1)?..)?.join("/"))?;
        let folder = parts.get(..at)?.join("/");
        let mut place = self.clone();
        match &mut place {
            Self::S3 { path, .. } | Self::Gcs { path, .. } | Self::Azure { path, .. } => *path = folder,
            Self::Http(url) => url.set_path(&folder),
            Self::Local(_) | Self::Memory => {}
        }
        Some((place, name, inside))
    }
}

/// The path of `file:///p`, `file:/p`, `file://localhost/p` and `/p`; `None` for everything else.
///
/// Percent-encoding is decoded only if no file has the literal name: few writers encode names.
fn file_path(uri: &str) -> Result<Option<PathBuf>> {
    let rest = match uri.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("file:") => uri.get(5..).unwrap_or_default(),
        _ => return Ok(uri.starts_with('/').then(|| PathBuf::from(uri))),
    };
    let path = rest.strip_prefix("//").map_or(rest, |p| p.strip_prefix("localhost").unwrap_or(p));
    let path = if path.starts_with('/') { path } else { rest.strip_prefix("//").unwrap_or(rest) };
    if !path.starts_with('/') {
        return Err(Error::invalid(format!("{uri:?} is not a file URI: it has no absolute path")));
    }
    let written = PathBuf::from(path);
    if !path.contains('%') || written.exists() {
        return Ok(Some(written));
    }
    Ok(Some(percent_decode(path).map_or(written, PathBuf::from)))
}

/// `container@account.host/path`, `account.blob.core.windows.net/container/path` or `container/path`.
fn azure(rest: &str, split: fn(&str) -> Result<(String, String)>) -> Result<StorePlace> {
    let (first, path) = split(rest)?;
    if let Some((container, host)) = first.split_once('@') {
        let account = host.split('.').next().unwrap_or(host).to_owned();
        return Ok(StorePlace::Azure {
            account: Some(account),
            container: container.to_owned(),
            path,
            sas: None,
        });
    }
    match first.strip_suffix(".blob.core.windows.net").or_else(|| first.strip_suffix(".dfs.core.windows.net"))
    {
        Some(account) => {
            let (container, path) = split(&path)?;
            Ok(StorePlace::Azure { account: Some(account.to_owned()), container, path, sas: None })
        }
        None => Ok(StorePlace::Azure { account: None, container: first, path, sas: None }),
    }
}

/// The bucket named by an `https` URL of a provider. `None` for every other server, and for signed S3 and GCS URLs,
/// which are valid for single objects only.
fn hosted(url: &Url) -> Option<StorePlace> {
    if url.scheme() != "https" || url.port().is_some() || !url.username().is_empty() {
        return None;
    }
    let host = url.host_str()?.to_ascii_lowercase();
    let path = percent_decode(url.path().trim_start_matches('/'))?;
    check_prefix(&path).ok()?;
    let in_path = || {
        let (bucket, rest) = path.split_once('/').unwrap_or((path.as_str(), ""));
        (!bucket.is_empty()).then(|| (bucket.to_owned(), rest.to_owned()))
    };
    if let Some(account) = host.strip_suffix(".blob.core.windows.net") {
        let (container, path) = in_path()?;
        let sas = url.query().map(str::to_owned);
        if sas.as_ref().is_some_and(|q| !q.contains("sig=")) {
            return None;
        }
        return Some(StorePlace::Azure { account: Some(account.to_owned()), container, path, sas });
    }
    if url.query().is_some() {
        return None;
    }
    if matches!(host.as_str(), "storage.googleapis.com" | "storage.cloud.google.com") {
        let (bucket, path) =
            in_path().filter(|(b, _)| !matches!(b.as_str(), "storage" | "download" | "upload"))?;
        return Some(StorePlace::Gcs { bucket, path });
    }
    if let Some(bucket) = host.strip_suffix(".storage.googleapis.com") {
        return Some(StorePlace::Gcs { bucket: bucket.to_owned(), path });
    }
    let labels: Vec<&str> = host.strip_suffix(".amazonaws.com")?.split('.').collect();
    let service = labels.iter().rposition(|l| *l == "s3" || l.starts_with("s3-"))?;
    let after = labels.get(service.checked_add(1)?..)?;
    let region = match (*labels.get(service)?, after) {
        ("s3", [] | ["dualstack"]) | ("s3-external-1", []) => None,
        ("s3", [region] | ["dualstack", region]) => Some((*region).to_owned()),
        (dashed, []) => {
            let region = dashed.strip_prefix("s3-")?;
            // Not `s3-website-…`, `s3-accelerate` and other services.
            (region.split('-').count() >= 3 && !region.starts_with("website"))
                .then(|| region.to_owned())?
                .into()
        }
        _ => return None,
    };
    let (bucket, path) = match labels.get(..service)?.join(".") {
        bucket if bucket.is_empty() => in_path()?,
        bucket => (bucket, path.clone()),
    };
    Some(StorePlace::S3 { bucket, path, aws: Some(region) })
}

#[cfg(test)]
mod tests;
