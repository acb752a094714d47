//! Errors of the library as Python exceptions.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zaro::{Error, Hint};

/// What every function here returns.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// An error of the library, or one of Python.
pub(crate) enum Failure {
    Zaro(Error),
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::Zaro(e)
    }
}

impl From<PyErr> for Failure {
    fn from(e: PyErr) -> Self {
        Self::Python(e)
    }
}

impl<'a, 'py> From<pyo3::CastError<'a, 'py>> for Failure {
    fn from(e: pyo3::CastError<'a, 'py>) -> Self {
        Self::Python(e.into())
    }
}

impl From<Failure> for PyErr {
    fn from(e: Failure) -> Self {
        match e {
            Failure::Python(e) => e,
            Failure::Zaro(e) => Python::attach(|py| exception(py, &e)),
        }
    }
}

/// The exception that `zaro._errors.make` makes of an error.
pub(crate) fn exception(py: Python<'_>, e: &Error) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let hints: Vec<String> = e.hints().iter().map(hint).collect();
    let made = MAKE.import(py, "zaro._errors", "make").and_then(|make| {
        make.call1((e.kind().as_str(), e.message(), e.store(), e.node(), e.key(), e.field(), hints))
    });
    made.map_or_else(|e| e, PyErr::from_value)
}

/// A hint as Python writes it: `overwrite=True replaces it`, `zaro.copy(separator='/') makes one`.
fn hint(hint: &Hint) -> String {
    let option = hint.option.map(|name| match &hint.value {
        Some(value) => format!("{name}={value:?}"),
        None => format!("the option {name}"),
    });
    let what = match (hint.operation, option) {
        (Some(operation), Some(option)) => format!("zaro.{} with {option}", operation.replace(' ', ".")),
        (Some(operation), None) => format!("zaro.{}", operation.replace(' ', ".")),
        (None, option) => option.unwrap_or_default(),
    };
    format!("{what} {}", hint.does)
}
