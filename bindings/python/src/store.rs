//! Stores: keys to bytes, for zarr-python and fsspec.

use bytes::Bytes;
use futures::StreamExt as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::store::{ByteRange, Condition, Entry, GetOptions, ListOptions, SharedStore, StoreExt as _};

use crate::buffer::{Lent, Memory};
use crate::error::Result;
use crate::options::Options;
use crate::run::ask;

/// An open store.
#[pyclass(frozen, weakref, module = "zaro._zaro")]
pub(crate) struct Store {
    pub(crate) store: SharedStore,
}

/// Opens the store at `uri`: the files of a Zarr, or what references, a manifest or an archive show as such.
#[pyfunction]
pub(crate) fn open_store(py: Python<'_>, uri: &str, options: &Bound<'_, PyDict>) -> Result<Store> {
    let Options { source, .. } = Options::new(options)?;
    let store = ask(py, async move { zaro::open::open_store(uri, source).await })?;
    Ok(Store { store })
}

/// Opens the store that holds the node at `path` below `uri` for writing, and gives the node's path in it. The store
/// need not exist.
#[pyfunction]
pub(crate) fn open_for_writing(
    py: Python<'_>,
    uri: &str,
    path: &str,
    options: &Bound<'_, PyDict>,
) -> Result<(Store, String)> {
    let Options { source, .. } = Options::new(options)?;
    let (top, path) = zaro::open::from_the_top(uri, path)?;
    let store = ask(py, async move {
        let store = zaro::open::open_store_for_writing(&top, &source.store).await?;
        zaro::open::refuse_references(&store).await?;
        Ok(store)
    })?;
    Ok((Store { store }, path))
}

/// A range by its offset (negative: from the end) and length.
fn range(offset: Option<i64>, length: Option<u64>) -> Option<ByteRange> {
    let offset = offset?;
    Some(match (u64::try_from(offset), length) {
        (Err(_), _) => ByteRange::Suffix(offset.unsigned_abs()),
        (Ok(offset), Some(length)) => ByteRange::Span { offset, length },
        (Ok(offset), None) => ByteRange::From(offset),
    })
}

#[pymethods]
impl Store {
    /// The bytes of a key, or a range of them; `None` if it does not exist.
    #[pyo3(signature = (key, offset=None, length=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: &str,
        offset: Option<i64>,
        length: Option<u64>,
    ) -> Result<Option<Memory>> {
        let options = GetOptions::range(range(offset, length));
        let found = ask(py, async { self.store.get_opts(key, options).await })?;
        Ok(found.map(|object| Memory::new(object.bytes.into())))
    }

    /// The size of a key; `None` if it does not exist.
    fn size(&self, py: Python<'_>, key: &str) -> Result<Option<u64>> {
        ask(py, async { self.store.size(key).await })
    }

    /// Puts bytes under a key; `False` if it exists and must not.
    #[pyo3(signature = (key, value, if_absent=false))]
    fn put(&self, key: &str, value: &Bound<'_, PyAny>, if_absent: bool) -> Result<bool> {
        let bytes = Bytes::from_owner(Lent::of(value)?);
        let condition = if if_absent { Condition::Absent } else { Condition::Always };
        Ok(ask(value.py(), async { self.store.put(key, bytes, condition).await })?.is_done())
    }

    /// Deletes a key; nothing happens if it does not exist.
    fn delete(&self, py: Python<'_>, key: &str) -> Result<()> {
        ask(py, async { self.store.delete(key).await })
    }

    /// Deletes all keys that begin with `prefix` and a slash.
    fn delete_prefix(&self, py: Python<'_>, prefix: &str) -> Result<()> {
        ask(py, async { self.store.delete_prefix(prefix).await })
    }

    /// All keys below `prefix`, with their sizes.
    fn keys(&self, py: Python<'_>, prefix: &str) -> Result<Vec<(String, u64)>> {
        let list = async {
            let mut keys = self.store.keys(prefix);
            let mut out = Vec::new();
            while let Some(entry) = keys.next().await {
                let entry = entry?;
                out.push((entry.key, entry.size));
            }
            Ok(out)
        };
        ask(py, list)
    }

    /// What lies directly below `prefix`: objects with their sizes (0 without `sizes`, if finding out costs a request),
    /// and prefixes with `None`.
    #[pyo3(signature = (prefix, sizes=false))]
    fn list(&self, py: Python<'_>, prefix: &str, sizes: bool) -> Result<Vec<(String, Option<u64>)>> {
        let options = ListOptions::default().with_facts(sizes);
        let list = async {
            let mut entries = self.store.list_opts(prefix, &options);
            let mut out = Vec::new();
            while let Some(entry) = entries.next().await {
                out.push(match entry? {
                    Entry::Object(entry) => (entry.key, Some(entry.size)),
                    Entry::Prefix(prefix) => (prefix, None),
                });
            }
            Ok(out)
        };
        ask(py, list)
    }

    /// Ends what is being written: an archive gets its directory.
    fn finish(&self, py: Python<'_>) -> Result<()> {
        ask(py, async { self.store.finish().await })
    }

    #[getter]
    fn is_writable(&self) -> bool {
        self.store.is_writable()
    }

    #[getter]
    fn lists_all(&self) -> bool {
        self.store.lists_all()
    }

    fn __str__(&self) -> String {
        self.store.to_string()
    }
}
