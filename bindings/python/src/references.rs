//! Reference stores: checking, counting, converting.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::internal::reference::{local, same_base};
use zaro::meta::Mode;
use zaro::open::open_references;
use zaro::reference::{
    Addresses, Arrays, ReferenceForm, ReferenceStore, ReferenceWriting, RewriteOptions, ValidateOptions,
};
use zaro::{Error, Zarr};

use crate::error::Result;
use crate::json;
use crate::options::Options;
use crate::run::wait;

async fn opened(uri: &str, options: Options) -> zaro::Result<(ReferenceStore, Zarr)> {
    let open = options.open.with_mode(Mode::Tolerant).with_use_consolidated(false);
    let store = open_references(uri, options.source).await?;
    let zarr = Zarr::from_store(Arc::new(store.clone()), open).await?;
    Ok((store, zarr))
}

/// Checks references: that they make a Zarr, that their objects exist, and that a sample of chunks decodes (or all).
#[pyfunction]
pub(crate) fn refs_validate<'py>(
    py: Python<'py>,
    uri: &str,
    sample: Option<usize>,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let options = Options::new(options)?;
    let report = wait(py, progress.as_ref(), |task| async move {
        let (store, zarr) = opened(uri, options).await?;
        let how = ValidateOptions::default().with_sample(sample).with_task(task);
        zaro::reference::validate(&**store.map(), &**store.targets(), &zarr, &how).await
    })?;
    Ok(json::to_python(py, &report.json(uri, report.errors > 0))?)
}

/// What a reference store refers to: arrays, objects, bytes.
#[pyfunction]
pub(crate) fn refs_stat<'py>(
    py: Python<'py>,
    uri: &str,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, PyAny>> {
    let options = Options::new(options)?;
    let counted = wait(py, None, |_| async move {
        let (store, zarr) = opened(uri, options).await?;
        let (arrays, _) = Arrays::of(&zarr).await?;
        zaro::reference::stat(&**store.map(), &arrays).await
    })?;
    Ok(json::to_python(py, &counted.json(uri))?)
}

/// Writes a reference store in the form that the name of `target` says: JSON or Parquet.
#[pyfunction]
pub(crate) fn refs_convert<'py>(
    py: Python<'py>,
    uri: &str,
    target: &str,
    overwrite: bool,
    record_size: u64,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let options = Options::new(options)?;
    let has_root = options.source.references.root.is_some();
    let written = options.source.store.clone();
    let told = wait(py, progress.as_ref(), |task| async move {
        let form = ReferenceForm::of_name(target)
            .ok_or_else(|| Error::usage(format!("cannot tell the form from the name {target:?}")))?;
        let (store, zarr) = opened(uri, options).await?;
        let keep = !has_root && same_base(uri, target, form);
        let mut addresses = Addresses::new(store.targets().clone(), keep);
        let how = RewriteOptions::default().with_task(task);
        let mut writing = ReferenceWriting {
            store: &store,
            zarr: &zarr,
            addresses: &mut addresses,
            options: &how,
            overwrite,
            pretty: false,
            record_size,
        };
        let done = match (form, local(target)) {
            (ReferenceForm::Parquet, Some(folder)) => writing.parquet_folder(&folder).await?,
            (ReferenceForm::Parquet, None) => {
                let to = zaro::open::open_store_for_writing(target, &written).await?;
                writing.parquet_objects(&to, target).await?
            }
            (ReferenceForm::Json, path) => {
                let place = path.map_or_else(|| target.to_owned(), |path| path.display().to_string());
                let (folder, name) = place.rsplit_once('/').unwrap_or((".", &place));
                let to = zaro::open::open_store_for_writing(folder, &written).await?;
                writing.json_object(&to, name, target).await?
            }
        };
        Ok(done.json(Some(target), &addresses.counts()))
    })?;
    Ok(json::to_python(py, &told)?)
}
