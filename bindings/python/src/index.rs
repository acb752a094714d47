//! Python's indexes as those of the library.

use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyList, PySlice, PyTuple};
use zaro::{Error, Index};

use crate::error::Result;

/// The indexes of `key` for an array of `rank` dimensions: whole numbers, slices and `...`; and if `outer`, lists of
/// numbers, each of which selects along its own dimension. `None` if there is anything else in it.
pub(crate) fn indexes(key: &Bound<'_, PyAny>, rank: usize, outer: bool) -> Result<Option<Vec<Index>>> {
    let items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
        Ok(items) => items.iter().collect(),
        Err(_) => vec![key.clone()],
    };
    let is_ellipsis = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyEllipsis>();
    let given = items.iter().filter(|item| !is_ellipsis(item)).count();
    let missing = rank.checked_sub(given).ok_or_else(|| {
        Error::usage(format!("the selection has {given} dimensions, the array {rank}")).with_field("index")
    })?;
    let mut out = Vec::with_capacity(rank);
    for item in &items {
        if is_ellipsis(item) {
            if items.iter().filter(|item| is_ellipsis(item)).count() > 1 {
                return Err(Error::usage("only one ... is allowed").with_field("index").into());
            }
            out.extend(std::iter::repeat_n(Index::All, missing));
        } else if let Some(index) = index(item, outer)? {
            out.push(index);
        } else {
            return Ok(None);
        }
    }
    out.resize(rank, Index::All);
    Ok(Some(out))
}

fn index(item: &Bound<'_, PyAny>, outer: bool) -> Result<Option<Index>> {
    let py = item.py();
    if let Ok(slice) = item.cast::<PySlice>() {
        let [start, stop, step] = ["start", "stop", "step"].map(|name| bound(&slice.getattr(name)?));
        return Ok(Some(match (start?, stop?, step?.unwrap_or(1)) {
            (_, _, 0) => {
                return Err(Error::usage("the step of a slice must not be 0").with_field("step").into());
            }
            (None, None, 1) => Index::All,
            (start, stop, step) => Index::Slice(start, stop, step.max(-i64::MAX)),
        }));
    }
    // A bool is a mask, not a position.
    if item.is_instance_of::<pyo3::types::PyBool>() {
        return Ok(None);
    }
    if let Ok(list) = item.cast::<PyList>() {
        return if outer { Ok(Some(Index::List(list.extract()?))) } else { Ok(None) };
    }
    match item.extract::<i64>() {
        Ok(at) => Ok(Some(Index::At(at))),
        Err(e) if e.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) => {
            Err(Error::usage("the position lies outside the array").with_field("index").into())
        }
        Err(_) => Ok(None),
    }
}

/// One end of a slice; numbers beyond 64 bits mean the end.
fn bound(value: &Bound<'_, PyAny>) -> Result<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.extract::<i64>() {
        Ok(n) => Ok(Some(n)),
        Err(e) if e.is_instance_of::<pyo3::exceptions::PyOverflowError>(value.py()) => {
            Ok(Some(if value.lt(0)? { -i64::MAX } else { i64::MAX }))
        }
        Err(e) => Err(e.into()),
    }
}
