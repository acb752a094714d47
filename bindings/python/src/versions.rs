//! Versions of a Zarr: checksums and manifests.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::manifest::bucket::{BucketZarr, History, HistoryState, ListingSource, current, document_at};
use zaro::manifest::{
    LocalOptions, Manifest, ManifestOptions, Stored, Time, checksum_in, key_of, of_folder, store_manifest,
    verify_document, verify_folder,
};
use zaro::meta::Json;
use zaro::store::StoreOptions;
use zaro::{Error, Task};

use crate::error::Result;
use crate::json;
use crate::options::Options;
use crate::run::{context, wait};

/// The local folder that an address names.
fn folder_of(uri: &str) -> zaro::Result<PathBuf> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    match path.contains("://") {
        true => Err(Error::unsupported(format!("{uri} is neither a local folder nor a bucket"))),
        false => Ok(PathBuf::from(path)),
    }
}

fn in_bucket(uri: &str, options: &StoreOptions) -> zaro::Result<BucketZarr> {
    let (bucket, path) = zaro::open::open_bucket(uri, options)?;
    BucketZarr::new(bucket, &path)
}

/// The manifest of a Zarr as it is now.
async fn made(uri: &str, options: &StoreOptions, task: Task) -> zaro::Result<Manifest> {
    if zaro::open::is_bucket(uri) {
        return current(&in_bucket(uri, options)?, &ListingSource::Objects).await;
    }
    let folder = folder_of(uri)?;
    zaro::blocking::spawn_blocking(move || {
        of_folder(&folder, &LocalOptions::default().with_context(context()).with_task(task))
    })
    .await
}

/// The checksum of a Zarr in a folder or a bucket.
#[pyfunction]
pub(crate) fn checksum(
    py: Python<'_>,
    uri: &str,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let Options { source, .. } = Options::new(options)?;
    wait(py, progress.as_ref(), |task| async move {
        if zaro::open::is_bucket(uri) {
            let found = zaro::manifest::bucket::checksum(&in_bucket(uri, &source.store)?).await?;
            return Ok(found.to_string());
        }
        Ok(made(uri, &source.store, task).await?.checksum()?.to_string())
    })
}

/// Writes the manifest of a Zarr to a file, or to its place in a folder of manifests.
#[pyfunction]
#[pyo3(signature = (uri, output, folder, zarr, replace, options, progress))]
#[expect(clippy::too_many_arguments, reason = "one place of two forms")]
pub(crate) fn manifest_create<'py>(
    py: Python<'py>,
    uri: &str,
    output: Option<PathBuf>,
    folder: Option<PathBuf>,
    zarr: Option<&str>,
    replace: bool,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let Options { source, .. } = Options::new(options)?;
    let told = wait(py, progress.as_ref(), |task| async move {
        let manifest = made(uri, &source.store, task).await?;
        let (statistics, checksum) = (manifest.statistics()?, manifest.checksum()?);
        let path = match (folder, zarr, output) {
            (Some(folder), Some(id), _) => folder.join(key_of(id, &checksum)?),
            (_, _, Some(file)) => file,
            _ => return Err(Error::usage("name the output: a file, or a folder with the id of the Zarr")),
        };
        let stored = store_manifest(&path, &checksum, replace, |out| {
            manifest.write(out, &statistics, &ManifestOptions::default())
        })?;
        Ok(Json::from([
            ("manifest", path.display().to_string().into()),
            ("checksum", checksum.to_string().into()),
            ("entries", checksum.count.into()),
            ("bytes", checksum.size.into()),
            ("new", (stored == Stored::New).into()),
        ]))
    })?;
    Ok(json::to_python(py, &told)?)
}

/// Checks a manifest in itself, and against a folder.
#[pyfunction]
#[pyo3(signature = (uri, folder, bytes, options, progress))]
pub(crate) fn manifest_verify<'py>(
    py: Python<'py>,
    uri: &str,
    folder: Option<PathBuf>,
    bytes: bool,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let Options { source, .. } = Options::new(options)?;
    let uri = uri.strip_prefix("manifest+").unwrap_or(uri);
    let told = wait(py, progress.as_ref(), |task| async move {
        let manifest = zaro::open::read_manifest(uri, &source.store).await?;
        let (checksum, mut findings) = verify_document(&manifest, checksum_in(uri).as_ref())?;
        let entries = manifest.len();
        if let Some(folder) = folder {
            findings.extend(
                zaro::blocking::spawn_blocking(move || {
                    let options = LocalOptions::default().with_context(context()).with_task(task);
                    verify_folder(&manifest, &folder, bytes, &options)
                })
                .await?,
            );
        }
        let finding = |f: &zaro::manifest::ManifestFinding| {
            Json::from([
                ("rule", f.rule.into()),
                ("key", f.key.as_deref().into()),
                ("message", (&f.message).into()),
            ])
        };
        Ok(Json::from([
            ("ok", findings.is_empty().into()),
            ("checksum", checksum.to_string().into()),
            ("entries", entries.into()),
            ("findings", findings.iter().map(finding).collect()),
        ]))
    })?;
    Ok(json::to_python(py, &told)?)
}

/// The states that a Zarr in a bucket with versions has had.
#[pyfunction]
pub(crate) fn manifest_history<'py>(
    py: Python<'py>,
    uri: &str,
    gap: u64,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, PyAny>> {
    let Options { source, .. } = Options::new(options)?;
    let told = wait(py, None, |task| async move {
        let zarr = in_bucket(uri, &source.store)?;
        let changes = task.unless_cancelled(History::of(&zarr)).await?;
        let mut states = Vec::new();
        changes.states(gap, |state: HistoryState| {
            states.push(Json::from([
                ("since", state.since.to_string().into()),
                ("until", state.until.map(|t| t.to_string()).into()),
                ("checksum", state.checksum.to_string().into()),
                ("entries", state.checksum.count.into()),
                ("bytes", state.checksum.size.into()),
                ("put", state.put.into()),
                ("deleted", state.deleted.into()),
            ]));
            Ok(())
        })?;
        Ok(Json::from(states))
    })?;
    Ok(json::to_python(py, &told)?)
}

/// The manifest of a Zarr in a bucket with versions, as it was at a time.
#[pyfunction]
pub(crate) fn manifest_at(
    py: Python<'_>,
    uri: &str,
    time: &str,
    options: &Bound<'_, PyDict>,
) -> Result<Vec<u8>> {
    let Options { source, .. } = Options::new(options)?;
    let at = Time::parse(time).map_err(|e| Error::usage(e.message().to_owned()))?;
    wait(py, None, |task| async move {
        let zarr = in_bucket(uri, &source.store)?;
        let found = task.unless_cancelled(document_at(&zarr, at, ManifestOptions::default())).await?;
        let found = found.ok_or_else(|| Error::not_found(format!("the Zarr had no objects yet at {at}")))?;
        let mut out = Vec::new();
        found.write(&mut out)?;
        Ok(out)
    })
}
