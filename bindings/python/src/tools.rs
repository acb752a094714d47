//! Copying, validating, statistics.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::coords::{LabelValues, Query};
use zaro::copy::{CopyOptions, KeysOption, Sizes};
use zaro::meta::{Json, Mode};
use zaro::open::{from_the_top, open_store_for_writing, open_with, refuse_references};
use zaro::stat::StatOptions;
use zaro::validate::Report;
use zaro::{Error, Selection};

use crate::array::{Array, lookup};
use crate::error::Result;
use crate::hierarchy::{codecs, data_type, existing};
use crate::json;
use crate::options::{Options, format};
use crate::run::wait;

/// A text without the secrets of addresses.
#[pyfunction]
pub(crate) fn redacted(text: &str) -> String {
    zaro::redacted(text).into_owned()
}

/// Lengths by position or by name.
fn sizes(given: &Bound<'_, PyAny>) -> Result<Sizes> {
    match given.cast::<PyDict>() {
        Ok(named) => Ok(Sizes::Named(
            named.iter().map(|(n, v)| Ok((n.extract()?, v.extract()?))).collect::<PyResult<_>>()?,
        )),
        Err(_) => Ok(Sizes::List(given.extract()?)),
    }
}

/// The options of a copy, from a dict.
fn copy_options(given: &Bound<'_, PyDict>) -> Result<CopyOptions> {
    let mut options = CopyOptions::default().with_context(crate::run::context());
    let (mut query, mut keys) = (Query::default(), KeysOption::default());
    let (mut labels, mut method, mut tolerance) = (Vec::<String>::new(), None::<String>, None);
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        let flag = || value.extract::<bool>();
        match name.extract::<&str>()? {
            "zarr_format" => options.format = Some(format(value.extract()?)?),
            "chunks" => options.chunks = Some(sizes(&value)?),
            "shards" => {
                options.shards = Some(match value.extract::<bool>() {
                    Ok(_) => None,
                    Err(_) => Some(sizes(&value)?),
                });
            }
            "codecs" => options.codecs = Some(codecs(&value)?),
            "order" => options.layout = Some(value.extract::<String>()?.parse().map_err(Error::usage)?),
            "dtype" => options.data_type = Some(data_type(&value.extract::<String>()?)?),
            "clamp" => options.clamp = flag()?,
            "select" => options.region = Some(Selection::parse(&value.extract::<String>()?)?),
            "vars" => query.variables = value.extract()?,
            "isel" => query.by_index = Selection::parse_named(&value.extract::<Vec<String>>()?)?,
            "sel" => labels = value.extract()?,
            "method" => method = Some(value.extract()?),
            "tolerance" => tolerance = Some(value.extract()?),
            "overwrite" => options.existing = existing(flag()?),
            "consolidate" => options.consolidate = Some(flag()?),
            "verify" => options.verify = flag()?,
            "separator" => keys.separator = Some(value.extract()?),
            "key_encoding" => keys.prefixed = Some(value.extract::<&str>()? == "default"),
            "memory" => options.context = options.context.with_memory(value.extract()?),
            "temp" => options.temporary = Some(value.extract::<PathBuf>()?),
            other => return Err(Error::usage(format!("there is no option {other:?} for a copy")).into()),
        }
    }
    query.labels = LabelValues::parse(&labels, lookup(method.as_deref(), tolerance)?)?;
    options.query = query;
    options.keys = keys;
    Ok(options)
}

/// Copies the node at `path` of `source` to `to` in `target`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "two places, each with its options")]
pub(crate) fn copy<'py>(
    py: Python<'py>,
    source: &str,
    path: &str,
    source_options: &Bound<'py, PyDict>,
    target: &str,
    to: &str,
    target_options: &Bound<'py, PyDict>,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let Options { source: how, open } = Options::new(source_options)?;
    let Options { source: written, .. } = Options::new(target_options)?;
    let options = copy_options(options)?;
    let copied = wait(py, progress.as_ref(), |task| async move {
        let zarr = open_with(source, &how, &open).await?;
        let (uri, to) = from_the_top(target, to)?;
        let store = open_store_for_writing(&uri, &written.store).await?;
        refuse_references(&store).await?;
        zaro::copy::copy(&zarr, source, path, &store, &to, &options.with_task(task)).await
    })?;
    let notes: Json = copied.notes.iter().map(|note| Json::from(&note.text)).collect();
    let told = Json::from([
        ("arrays", copied.arrays.into()),
        ("groups", copied.groups.into()),
        ("bytes", copied.bytes.into()),
        ("verbatim", copied.verbatim.into()),
        ("resumed", copied.resumed.into()),
        ("notes", notes),
    ]);
    Ok(json::to_python(py, &told)?)
}

/// Checks the metadata of all nodes from `path` on, and with `data` every chunk.
#[pyfunction]
pub(crate) fn validate<'py>(
    py: Python<'py>,
    uri: &str,
    path: &str,
    data: bool,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let Options { source, open } = Options::new(options)?;
    let strict = open.mode == Mode::Strict;
    let open = open.with_mode(Mode::Tolerant).with_use_consolidated(false);
    let report = wait(py, progress.as_ref(), |task| async move {
        match open_with(uri, &source, &open).await {
            Ok(zarr) if data => zaro::validate::validate_data(&zarr, &zarr.key_of(path)?, &task).await,
            Ok(zarr) => zaro::validate::validate(&zarr, &zarr.key_of(path)?).await,
            // A root that is there but broken is a finding; one that cannot be reached is not.
            Err(e) => Report::of_broken_root(&e).ok_or(e),
        }
    })?;
    let failed = report.errors() > 0 || (strict && report.warnings() > 0);
    Ok(json::to_python(py, &report.json(uri, failed))?)
}

/// Statistics of an array, in one pass within the memory budget.
#[pyfunction]
pub(crate) fn stat<'py>(
    py: Python<'py>,
    array: &Bound<'py, Array>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let array = array.get();
    let zarr = array.zarr.clone().ok_or_else(|| Error::usage("this array was opened alone"))?;
    let found = wait(py, progress.as_ref(), |task| async move {
        zaro::stat::stat(&zarr, &array.array, &StatOptions::default().with_task(task)).await
    })?;
    Ok(json::to_python(py, &found.json())?)
}
