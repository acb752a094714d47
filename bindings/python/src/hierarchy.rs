//! Creating nodes and changing them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::hierarchy::{self, Existing};
use zaro::internal::dtype;
use zaro::meta::{
    AttributesEdit, ChunkKeys, CodecMeta, DataType, Endian, Fill, Format, Json, NewArray, default_chunks,
    parse_codecs,
};
use zaro::store::SharedStore;
use zaro::{Error, Index, Selection};

use crate::array::{Array, write_options};
use crate::error::Result;
use crate::json;
use crate::options::format;
use crate::run::{ask, context, wait};
use crate::store::Store;

pub(crate) fn existing(overwrite: bool) -> Existing {
    if overwrite { Existing::Replace } else { Existing::Refuse }
}

/// Codecs as text (`zstd:5`) or as a list of V3's objects.
pub(crate) fn codecs(given: &Bound<'_, PyAny>) -> Result<Vec<CodecMeta>> {
    Ok(match given.extract::<String>() {
        Ok(text) => parse_codecs(&text)?,
        Err(_) => parse_codecs(&json::from_python(given)?.compact())?,
    })
}

/// What describes a new array, from a dict.
fn described(given: &Bound<'_, PyDict>, format: Format) -> Result<NewArray> {
    let mut new = NewArray::default().with_format(format);
    let (mut separator, mut prefixed, mut chunks_are_shapes) = (None, None, false);
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        match name.extract::<&str>()? {
            "shape" => new.shape = value.extract()?,
            "dtype" => {
                let (data_type, endian) = dtype::parse(&value.extract::<String>()?)?;
                new.data_type = data_type;
                new.endian = endian.unwrap_or(Endian::Little);
            }
            "chunks" => {
                new.chunks = Some(value.extract()?);
                chunks_are_shapes = true;
            }
            "shards" => new.shards = Some(value.extract()?),
            "codecs" => new.codecs = Some(codecs(&value)?),
            "fill" => new.fill = Some(Fill(value.extract::<Vec<u8>>()?.into())),
            "fill_undefined" => new.fill_undefined = value.extract()?,
            "dims" => new.dimension_names = Some(value.extract()?),
            "attributes" => new.attributes = json::members(&value)?,
            "order" => {
                new.layout = value.extract::<String>()?.parse().map_err(Error::usage)?;
            }
            "separator" => separator = Some(value.extract::<char>()?),
            "key_encoding" => {
                prefixed = Some(match value.extract::<&str>()? {
                    "default" => true,
                    "v2" => false,
                    _ => return Err(Error::usage("key_encoding is 'default' or 'v2'").into()),
                });
            }
            other => return Err(Error::usage(format!("there is no option {other:?} for a new array")).into()),
        }
    }
    if separator.is_some() || prefixed.is_some() {
        let prefixed = prefixed.unwrap_or(format == Format::V3);
        let separator = separator.unwrap_or(if prefixed { '/' } else { '.' });
        new.keys = Some(ChunkKeys { prefixed, separator });
    }
    if new.shards.is_some() && !chunks_are_shapes {
        new.chunks = Some(default_chunks(&new.shape, &new.data_type));
    }
    Ok(new)
}

async fn format_of(store: &SharedStore, path: &str, wanted: Option<Format>) -> zaro::Result<Format> {
    zaro::create::format_for(store, path, wanted).await
}

/// Creates an array, and the groups above it.
#[pyfunction]
#[pyo3(signature = (store, path, described, zarr_format=None, overwrite=false))]
pub(crate) fn create_array(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    path: &str,
    described: &Bound<'_, PyDict>,
    zarr_format: Option<u8>,
    overwrite: bool,
) -> Result<Array> {
    let store = store.get().store.clone();
    let wanted = zarr_format.map(format).transpose()?;
    let found = ask(py, format_of(&store, path, wanted))?;
    let new = self::described(described, found)?;
    let array = wait(py, None, |_| async {
        let array = hierarchy::create_array(&store, path, &new, existing(overwrite)).await?;
        array.with_context(&context())
    })?;
    Ok(Array::new(array, None))
}

/// Creates a group, and those above it.
#[pyfunction]
#[pyo3(signature = (store, path, attributes=None, zarr_format=None, overwrite=false))]
pub(crate) fn create_group(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    path: &str,
    attributes: Option<&Bound<'_, PyAny>>,
    zarr_format: Option<u8>,
    overwrite: bool,
) -> Result<()> {
    let store = store.get().store.clone();
    let attributes = attributes.map(json::from_python).transpose()?.unwrap_or_else(Json::object);
    let wanted = zarr_format.map(format).transpose()?;
    wait(py, None, |_| async {
        let format = format_of(&store, path, wanted).await?;
        hierarchy::create_group(&store, path, format, &attributes, existing(overwrite)).await
    })
}

/// Deletes a node and all below it.
#[pyfunction]
pub(crate) fn delete(py: Python<'_>, store: &Bound<'_, Store>, path: &str) -> Result<()> {
    let store = store.get().store.clone();
    wait(py, None, |_| async { hierarchy::delete(&store, path).await })
}

/// Changes attributes: sets some and removes others, or replaces all.
#[pyfunction]
pub(crate) fn edit_attributes(
    store: &Bound<'_, Store>,
    path: &str,
    set: &Bound<'_, PyAny>,
    unset: Vec<String>,
    replace: bool,
) -> Result<()> {
    let py = set.py();
    let store = store.get().store.clone();
    let set = json::members(set)?;
    let edit = if replace { AttributesEdit::Replace(set) } else { AttributesEdit::Patch { set, unset } };
    wait(py, None, |_| async { hierarchy::edit_attributes(&store, path, &edit).await })
}

/// Gives an array another shape. What is cut off is deleted.
#[pyfunction]
pub(crate) fn resize(py: Python<'_>, store: &Bound<'_, Store>, path: &str, shape: Vec<u64>) -> Result<Array> {
    let store = store.get().store.clone();
    let array = wait(py, None, |_| async {
        hierarchy::resize(&store, path, &shape).await?.with_context(&context())
    })?;
    Ok(Array::new(array, None))
}

/// Appends `count` positions along `axis`: room is taken, filled, and only then shown. Safe from many processes.
/// Returns the array and where the new part starts.
#[pyfunction]
#[pyo3(signature = (array, axis, count, values, order="C", options=None))]
pub(crate) fn append(
    py: Python<'_>,
    array: &Bound<'_, Array>,
    axis: usize,
    count: u64,
    values: &Bound<'_, PyAny>,
    order: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> Result<(Array, u64)> {
    let array = array.get();
    let (store, path) = (array.array.store().clone(), array.array.path().to_owned());
    let (options, progress) = write_options(options)?;
    let rank = array.array.shape().len();
    let begun = wait(py, None, |_| async {
        hierarchy::append(&store, &path, axis, count, options.single_writer).await
    })?;
    let start = begun.start;
    let span = |d| if d == axis { Index::Span(start, count) } else { Index::All };
    let selection = Selection::new((0..rank).map(span).collect());
    let grown = Array::new(begun.array.clone(), None);
    let values = grown.values(values, &selection, order);
    let written = values.and_then(|values| {
        wait(py, progress.as_ref(), |task| async {
            grown.array.write_slab(&selection, values, &options.with_task(task)).await
        })
    });
    if let Err(e) = written {
        // What failed is what has to be told.
        let _ = wait(py, None, |_| async { begun.give_up().await });
        return Err(e);
    }
    let appended = wait(py, None, |_| async {
        hierarchy::check_settled(&store, &path).await?;
        begun.publish().await
    })?;
    let shown = appended.array.with_context(&context())?;
    Ok((Array::new(shown, None), start))
}

/// Writes the metadata of everything below the group at `path` into it.
#[pyfunction]
pub(crate) fn consolidate(py: Python<'_>, store: &Bound<'_, Store>, path: &str) -> Result<usize> {
    let store = store.get().store.clone();
    wait(py, None, |_| async { hierarchy::consolidate(&store, path).await })
}

/// Removes consolidated metadata; `False` if there were none.
#[pyfunction]
pub(crate) fn unconsolidate(py: Python<'_>, store: &Bound<'_, Store>, path: &str) -> Result<bool> {
    let store = store.get().store.clone();
    wait(py, None, |_| async { hierarchy::unconsolidate(&store, path).await })
}

/// The data type of a name.
pub(crate) fn data_type(name: &str) -> Result<DataType> {
    Ok(dtype::parse(name)?.0)
}
