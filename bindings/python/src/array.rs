//! Arrays: reading into numpy's memory, and writing from it.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use zaro::coords::{self, LabelValues, Lookup, MatchMethod};
use zaro::internal::describe;
use zaro::meta::{DataType, NodeMeta};
use zaro::store::StoreExt as _;
use zaro::{Error, Index, Missing, Node, Order, ReadOptions, Selection, Slab, Values, WriteOptions, Zarr};

use crate::buffer::{Lent, Memory};
use crate::error::Result;
use crate::index::indexes;
use crate::json;
use crate::run::{ask, wait};

/// Reads of files up to this size and this many chunks are done by the calling thread alone, at once.
const SMALL: u64 = 1 << 20;
const FEW_CHUNKS: u64 = 32;

/// An open array.
#[pyclass(frozen, weakref, module = "zaro._zaro")]
pub(crate) struct Array {
    pub(crate) array: zaro::Array,
    /// What it was opened from, for coordinates.
    pub(crate) zarr: Option<Arc<Zarr>>,
    /// Numpy's type of the elements, once asked for.
    dtype: PyOnceLock<Py<PyAny>>,
}

impl Array {
    pub(crate) fn new(array: zaro::Array, zarr: Option<Arc<Zarr>>) -> Self {
        Self { array, zarr, dtype: PyOnceLock::new() }
    }

    fn dtype<'py>(&self, py: Python<'py>) -> Result<&Bound<'py, PyAny>> {
        static DTYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let made = self.dtype.get_or_try_init(py, || {
            let meta = describe(&self.array, py)?;
            let made = DTYPE.import(py, "zaro._dtype", "numpy_dtype")?.call1((meta.get_item("data_type")?,));
            Ok::<_, PyErr>(made?.unbind())
        });
        Ok(made?.bind(py))
    }

    fn rank(&self) -> usize {
        self.array.shape().len()
    }

    fn selection(&self, key: &Bound<'_, PyAny>) -> Result<Selection> {
        let found = indexes(key, self.rank(), true)?;
        Ok(Selection::new(found.ok_or_else(|| Error::usage("not an index").with_field("index"))?))
    }

    /// Whether a read is done before anybody could want to stop it.
    fn is_small(&self, wanted: &[Index], bytes: u64) -> bool {
        if bytes > SMALL || self.array.store().is_remote() || self.array.meta().data_type.is_variable() {
            return false;
        }
        let meta = self.array.meta();
        let largest = meta.grid.largest();
        let chunks = wanted.iter().zip(&meta.shape).zip(&largest).map(|((index, extent), chunk)| {
            let whole = extent.div_ceil((*chunk).max(1));
            match index {
                Index::At(_) => 1,
                Index::List(list) => u64::try_from(list.len()).unwrap_or(whole).min(whole),
                Index::Span(_, n) => (n / chunk.max(&1)).saturating_add(2).min(whole),
                Index::Slice(Some(a), Some(b), _) if *a >= 0 && b >= a => {
                    (a.abs_diff(*b) / chunk.max(&1)).saturating_add(2).min(whole)
                }
                _ => whole,
            }
        });
        chunks.fold(1u64, u64::saturating_mul) <= FEW_CHUNKS
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        wanted: Vec<Index>,
        options: ReadOptions,
        progress: Option<&Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let selection = Selection::new(wanted.clone());
        let shape = selection.resolve(self.array.meta()).map_err(|e| e.with_field("index"))?.shape;
        let size = u64::try_from(self.array.meta().data_type.size()).unwrap_or(u64::MAX);
        let bytes = shape.iter().fold(size, |a, b| a.saturating_mul(*b));
        let slab =
            if progress.is_none() && self.is_small(&wanted, bytes) {
                py.detach(|| self.array.read_slab_blocking(&selection, &options))?
            } else {
                let array = &self.array;
                wait(py, progress, |task| async move {
                    array.read_slab(&selection, &options.with_task(task)).await
                })?
            };
        self.to_numpy(py, slab)
    }

    /// A slab as an array of numpy, without a copy of its elements if they have a fixed size.
    fn to_numpy<'py>(&self, py: Python<'py>, slab: Slab) -> Result<Bound<'py, PyAny>> {
        static NDARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static ITEMS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let dtype = self.dtype(py)?;
        let order = if slab.order == Order::F { "F" } else { "C" };
        let shape = PyTuple::new(py, &slab.shape)?;
        if slab.data_type.is_variable() {
            let items = PyList::empty(py);
            for item in slab.items() {
                match slab.data_type {
                    DataType::String => items.append(PyString::new(py, text(item)?))?,
                    _ => items.append(PyBytes::new(py, item))?,
                }
            }
            let data_type = describe(&self.array, py)?.get_item("data_type")?;
            let made = ITEMS.import(py, "zaro._dtype", "from_items")?;
            return Ok(made.call1((items, data_type, dtype, shape, order))?);
        }
        let memory = Bound::new(py, Memory::new(slab.bytes))?;
        let made = NDARRAY.import(py, "numpy", "ndarray")?;
        Ok(made.call1((shape, dtype, memory, 0, py.None(), order))?)
    }
}

fn text(item: &[u8]) -> Result<&str> {
    std::str::from_utf8(item).map_err(|_| Error::invalid("a string is not UTF-8").into())
}

/// The model of an array as a dict; `docs/book/meta-json.md` has its fields.
fn describe<'py>(array: &zaro::Array, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let node = Node {
        path: array.path().to_owned(),
        meta: NodeMeta::Array(array.meta().clone()),
        findings: Vec::new(),
    };
    json::to_python(py, &describe::node(&node))
}

pub(crate) fn order_of(order: &str) -> Result<Order> {
    match order {
        "C" => Ok(Order::C),
        "F" => Ok(Order::F),
        _ => Err(Error::usage("order is 'C' or 'F'").into()),
    }
}

fn missing_of(missing: &str) -> Result<Missing> {
    match missing {
        "fill" => Ok(Missing::Fill),
        "error" => Ok(Missing::Error),
        _ => Err(Error::usage("missing is 'fill' or 'error'").into()),
    }
}

/// How values are looked up among coordinates.
pub(crate) fn lookup(method: Option<&str>, tolerance: Option<String>) -> Result<Lookup> {
    let method = match method {
        None | Some("exact") => MatchMethod::Exact,
        Some("nearest") => MatchMethod::Nearest,
        Some("pad" | "ffill") => MatchMethod::Pad,
        Some("backfill" | "bfill") => MatchMethod::Backfill,
        Some(other) => return Err(Error::usage(format!("there is no method {other:?}")).into()),
    };
    Ok(Lookup { method, tolerance })
}

#[pymethods]
impl Array {
    /// The model of its metadata.
    fn describe<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(describe(&self.array, py)?)
    }

    /// Its document as it is stored.
    fn document<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(json::to_python(py, &self.array.meta().document)?)
    }

    /// The fill value's bytes; `None` if the document has null.
    fn fill<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let meta = self.array.meta();
        (!meta.fill_undefined).then(|| PyBytes::new(py, &meta.fill.0))
    }

    /// What was tolerated in its metadata.
    fn findings(&self) -> Vec<String> {
        self.array.findings().iter().map(|f| f.to_string()).collect()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.array.shape())?)
    }

    #[getter]
    fn path(&self) -> &str {
        self.array.path()
    }

    #[getter(dtype)]
    fn get_dtype<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(self.dtype(py)?.clone())
    }

    /// The elements at whole numbers and slices; `NotImplemented` for anything else.
    fn getitem<'py>(&self, key: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let py = key.py();
        let Some(wanted) = indexes(key, self.rank(), false)? else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        let is_scalar = wanted.iter().all(|index| matches!(index, Index::At(_)));
        let read = self.read(py, wanted, ReadOptions::default(), None)?;
        Ok(if is_scalar { read.get_item(PyTuple::empty(py))? } else { read })
    }

    /// The same with lists, each along its own dimension.
    #[pyo3(signature = (key, order="C", missing="fill", progress=None))]
    fn read_outer<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        order: &str,
        missing: &str,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let wanted = indexes(key, self.rank(), true)?
            .ok_or_else(|| Error::usage("not an index").with_field("index"))?;
        let options = ReadOptions::default().with_order(order_of(order)?).with_missing(missing_of(missing)?);
        self.read(key.py(), wanted, options, progress.as_ref())
    }

    /// Reads into `out`, contiguous bytes of the right number.
    #[pyo3(signature = (key, out, order="C", missing="fill", progress=None))]
    fn read_into(
        &self,
        key: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        order: &str,
        missing: &str,
        progress: Option<Py<PyAny>>,
    ) -> Result<()> {
        let py = key.py();
        let selection = self.selection(key)?;
        let options = ReadOptions::default().with_order(order_of(order)?).with_missing(missing_of(missing)?);
        let lent = Lent::writable(out)?;
        let array = &self.array;
        let lent = wait(py, progress.as_ref(), |task| async move {
            array.read_to(&selection, &options.with_task(task), lent).await
        })?;
        drop(lent);
        Ok(())
    }

    /// The elements at points: `places` has the positions of all points along each of `dims`, as contiguous 64-bit
    /// numbers. The first dimension of the result is that of the points; `rest` selects along the others.
    fn read_points<'py>(
        &self,
        dims: Vec<usize>,
        places: Vec<Bound<'py, PyAny>>,
        rest: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let py = rest.py();
        let rest = indexes(rest, self.rank(), true)?
            .ok_or_else(|| Error::usage("not an index").with_field("index"))?;
        let columns: Vec<Vec<i64>> = places
            .iter()
            .map(|column| {
                let lent = Lent::of(column)?;
                let numbers = lent.as_ref().chunks_exact(8);
                Ok(numbers.map(|b| b.first_chunk().map_or(0, |b| i64::from_le_bytes(*b))).collect())
            })
            .collect::<Result<_>>()?;
        let array = &self.array;
        let slab = wait(py, None, |task| async move {
            let options = ReadOptions::default().with_task(task);
            coords::read_at(array, &dims, &columns, &rest, &options).await
        })?;
        self.to_numpy(py, slab)
    }

    /// The indexes of coordinate values along named dimensions: for each dimension a slice as three numbers, a position,
    /// a list, or `None` for everything.
    #[pyo3(signature = (labels, positions, method=None, tolerance=None))]
    fn find<'py>(
        &self,
        py: Python<'py>,
        labels: Vec<String>,
        positions: Vec<String>,
        method: Option<&str>,
        tolerance: Option<String>,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let labels = LabelValues::parse(&labels, lookup(method, tolerance)?)?;
        let positions = Selection::parse_named(&positions)?;
        let zarr = self.zarr.clone().ok_or_else(|| Error::usage("this array was opened alone"))?;
        let array = &self.array;
        let found = ask(py, async move { coords::indexes(&zarr, array, &positions, &labels).await })?;
        let found = Selection::new(found).indexes(self.array.meta())?;
        let slice = |start: Option<i64>, stop: Option<i64>, step: Option<i64>| {
            py.get_type::<pyo3::types::PySlice>().call1((start, stop, step))
        };
        let index = |index: Index| match index {
            Index::All => slice(None, None, None),
            Index::Span(start, count) => {
                let whole = |n: u64| i64::try_from(n).ok();
                slice(whole(start), start.checked_add(count).and_then(whole), None)
            }
            Index::Slice(start, stop, step) => slice(start, stop, Some(step)),
            Index::At(at) => Ok(at.into_pyobject(py)?.into_any()),
            Index::List(list) => Ok(PyList::new(py, list)?.into_any()),
        };
        Ok(found.into_iter().map(index).collect::<PyResult<_>>()?)
    }

    /// Writes contiguous elements, little-endian, to a selection.
    #[pyo3(signature = (key, values, order="C", options=None))]
    fn write(
        &self,
        key: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        order: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Result<()> {
        let py = key.py();
        let selection = self.selection(key)?;
        let values = self.values(values, &selection, order)?;
        let (options, progress) = write_options(options)?;
        let array = &self.array;
        wait(py, progress.as_ref(), |task| async move {
            array.write_slab(&selection, values, &options.with_task(task)).await
        })
    }
}

impl Array {
    /// The elements of `values`: contiguous bytes, or for types of variable length a list of bytes.
    pub(crate) fn values(
        &self,
        values: &Bound<'_, PyAny>,
        selection: &Selection,
        order: &str,
    ) -> Result<Values> {
        let order = order_of(order)?;
        let data_type = &self.array.meta().data_type;
        if !data_type.is_variable() {
            return Ok(Values::new(Bytes::from_owner(Lent::of(values)?), order));
        }
        let items: Vec<Bound<'_, PyBytes>> = values.extract()?;
        let shape = selection.resolve(self.array.meta())?.shape;
        Ok(Slab::variable(data_type, &shape, order, items.iter().map(|item| item.as_bytes()))?.into())
    }
}

/// The options of a write, and its progress callback.
pub(crate) fn write_options(given: Option<&Bound<'_, PyDict>>) -> Result<(WriteOptions, Option<Py<PyAny>>)> {
    let (mut options, mut progress) = (WriteOptions::default(), None);
    for (name, value) in given.into_iter().flatten() {
        match name.extract::<&str>()? {
            "keep_fill" => options.keep_fill = value.extract()?,
            "single_writer" => options.single_writer = value.extract()?,
            "assume_empty" => options.assume_empty = value.extract()?,
            "progress" => progress = (!value.is_none()).then(|| value.unbind()),
            other => return Err(Error::usage(format!("there is no option {other:?} for writing")).into()),
        }
    }
    Ok((options, progress))
}

/// Reads whole arrays at once: what is small of many of them, such as coordinates, in the time of the slowest.
#[pyfunction]
pub(crate) fn read_whole<'py>(
    py: Python<'py>,
    arrays: Vec<Bound<'py, Array>>,
) -> Result<Vec<Bound<'py, PyAny>>> {
    let open: Vec<zaro::Array> = arrays.iter().map(|a| a.get().array.clone()).collect();
    let slabs = wait(py, None, |task| async move {
        let read = open.iter().map(|array| {
            let options = ReadOptions::default().with_task(task.clone());
            async move { array.read_slab(&Selection::all(), &options).await }
        });
        futures::future::try_join_all(read).await
    })?;
    arrays.iter().zip(slabs).map(|(array, slab)| array.get().to_numpy(py, slab)).collect()
}
