//! JSON as Python objects, and back.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString};
use zaro::meta::Json;

use crate::error::Result;

/// The Python object of a document. Whole numbers of any size stay exact.
pub(crate) fn to_python<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match json {
        Json::Null => py.None().into_bound(py),
        Json::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Json::String(s) => PyString::new(py, s).into_any(),
        Json::Number(_) => number(py, json)?,
        Json::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| to_python(py, item)).collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Json::Object(members) => {
            let dict = PyDict::new(py);
            for (name, value) in members {
                dict.set_item(name, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

fn number<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    static INT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let text = json.number_text().unwrap_or_default();
    let whole = text.strip_prefix('-').unwrap_or(text);
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(json.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any());
    }
    match json.as_i64() {
        Some(n) => Ok(n.into_pyobject(py)?.into_any()),
        None => INT.import(py, "builtins", "int")?.call1((text,)),
    }
}

/// The document of a Python object: what `json.dumps` makes of it, numpy's numbers included.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> Result<Json> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let text = DUMPS.import(value.py(), "zaro._json", "dumps")?.call1((value,))?;
    Ok(Json::parse(text.extract::<String>()?.as_bytes())?.value)
}

/// The members of a Python dict.
pub(crate) fn members(value: &Bound<'_, PyAny>) -> Result<Vec<(String, Json)>> {
    match from_python(value)? {
        Json::Object(members) => Ok(members),
        _ => Err(zaro::Error::usage("attributes are a dict").into()),
    }
}
