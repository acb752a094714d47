//! An open Zarr: its nodes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::internal::describe;
use zaro::meta::NodeMeta;
use zaro::open::open_with;
use zaro::store::StoreExt as _;
use zaro::{Node, OpenOptions};

use crate::array::Array;
use crate::error::Result;
use crate::json;
use crate::options::Options;
use crate::run::ask;
use crate::store::Store;

/// An open Zarr.
#[pyclass(frozen, weakref, module = "zaro._zaro")]
pub(crate) struct Zarr {
    pub(crate) zarr: Arc<zaro::Zarr>,
}

/// Opens the Zarr at `uri`.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, uri: &str, options: &Bound<'_, PyDict>) -> Result<Zarr> {
    let Options { source, open } = Options::new(options)?;
    let zarr = ask(py, async move { open_with(uri, &source, &open).await })?;
    Ok(Zarr { zarr: Arc::new(zarr) })
}

/// Opens the Zarr in a store that is written to, by its nodes' own documents: they are what is changed.
#[pyfunction]
pub(crate) fn open_in(py: Python<'_>, store: &Bound<'_, Store>, options: &Bound<'_, PyDict>) -> Result<Zarr> {
    let Options { open, .. } = Options::new(options)?;
    let store = store.get().store.clone();
    let own: OpenOptions = open.with_use_consolidated(false);
    let zarr = ask(py, async move { zaro::Zarr::from_store(store, own).await })?;
    Ok(Zarr { zarr: Arc::new(zarr) })
}

/// A node as a dict, with its array if it is one that can be read.
fn node<'py>(py: Python<'py>, zarr: &Arc<zaro::Zarr>, node: &Node) -> Result<Bound<'py, PyAny>> {
    let out = json::to_python(py, &describe::node(node))?;
    out.set_item("path", &node.path)?;
    let (document, fill) = match &node.meta {
        NodeMeta::Array(meta) => (&meta.document, (!meta.fill_undefined).then(|| meta.fill.0.to_vec())),
        NodeMeta::Group(meta) => (&meta.document, None),
    };
    out.set_item("document", json::to_python(py, document)?)?;
    out.set_item("fill", fill.map(|bytes| pyo3::types::PyBytes::new(py, &bytes)))?;
    if let NodeMeta::Array(meta) = &node.meta {
        let options = zarr.options();
        let open = zaro::Array::new(
            zarr.store().clone(),
            &node.path,
            meta.clone(),
            options.mode,
            node.findings.clone(),
            &options.store.context,
        );
        match open {
            Ok(array) => out.set_item("array", Bound::new(py, Array::new(array, Some(zarr.clone())))?)?,
            // One array with an unknown codec does not hide the others; who reads it is told.
            Err(e) => out.set_item("error", crate::error::exception(py, &e))?,
        }
    }
    Ok(out)
}

#[pymethods]
impl Zarr {
    /// The node at `path`.
    fn node<'py>(&self, py: Python<'py>, path: &str) -> Result<Bound<'py, PyAny>> {
        let found = ask(py, async { self.zarr.node(path).await })?;
        node(py, &self.zarr, &found)
    }

    /// The nodes directly below the group at `path`.
    fn children<'py>(&self, py: Python<'py>, path: &str) -> Result<Vec<Bound<'py, PyAny>>> {
        let found = ask(py, async { self.zarr.children(path).await })?;
        self.damaged()?;
        found.iter().map(|found| node(py, &self.zarr, found)).collect()
    }

    /// The node at `path` and all below it.
    fn walk<'py>(&self, py: Python<'py>, path: &str) -> Result<Vec<Bound<'py, PyAny>>> {
        let found = ask(py, async { self.zarr.walk(path).await })?;
        self.damaged()?;
        found.iter().map(|found| node(py, &self.zarr, found)).collect()
    }

    /// The array at `path`.
    fn array(&self, py: Python<'_>, path: &str) -> Result<Array> {
        let array = ask(py, async { self.zarr.array(path).await })?;
        Ok(Array::new(array, Some(self.zarr.clone())))
    }

    /// What was tolerated in its root.
    fn findings(&self) -> Vec<String> {
        self.zarr.findings().iter().map(|f| f.to_string()).collect()
    }

    #[getter]
    fn is_consolidated(&self) -> bool {
        self.zarr.is_consolidated()
    }

    /// Where its bytes are.
    fn store(&self) -> Store {
        Store { store: self.zarr.store().clone() }
    }

    /// What tells this state of a node's document from others: an ETag, or the identity of a file.
    fn state(&self, py: Python<'_>, path: &str) -> Result<Option<String>> {
        let state = async {
            for name in ["zarr.json", ".zarray", ".zgroup", ".zmetadata"] {
                let key = zaro::internal::path::join(path, name);
                if let Some(state) = self.zarr.store().state(&key).await? {
                    return Ok(Some(state));
                }
            }
            Ok(None)
        };
        ask(py, state)
    }
}

impl Zarr {
    /// Fails if a listing had to leave out damaged nodes.
    fn damaged(&self) -> Result<()> {
        match self.zarr.take_damaged().into_iter().next() {
            Some(e) => Err(e.into()),
            None => Ok(()),
        }
    }
}
