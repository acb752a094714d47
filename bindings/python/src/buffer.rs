//! Memory shared with Python, both ways, without a copy. The only `unsafe` code of the package.
//!
//! [`Memory`] gives Python the bytes of a read. They never move: the `Vec` is neither grown nor replaced after the
//! object exists, and every view holds a reference to the object, which frees it.
//!
//! [`Lent`] is memory of Python's that the library reads from or writes to. It holds the `Py_buffer`, for as long as it
//! lives the exporter keeps the memory in place and of this size. That nobody else writes to it meanwhile is the
//! caller's part, as for every function of numpy that releases the interpreter lock; elements are plain bytes here, of
//! which every pattern is valid, so that a race gives wrong elements and nothing else.
#![allow(unsafe_code, reason = "the buffer protocol is a C interface; the proof is above")]

use std::ffi::{c_int, c_void};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::Result;

/// Bytes that Python sees by the buffer protocol.
#[pyclass(frozen, module = "zaro._zaro")]
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    ///
    /// Called by Python with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view"));
        }
        let bytes = &slf.get().0;
        let length = ffi::Py_ssize_t::try_from(bytes.len())
            .map_err(|_| PyBufferError::new_err("more bytes than Python can address"))?;
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        // Writable: numpy's users change what they have read. Nothing in Rust reads it again.
        // SAFETY: `view` is Python's, the pointer and length are those of a `Vec` that the object owns and never
        // changes, and PyBuffer_FillInfo takes a reference to the object.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// Contiguous memory of a Python object.
pub(crate) struct Lent {
    buffer: PyBuffer<u8>,
}

impl Lent {
    /// The bytes of `object`, which is C-contiguous memory of unsigned bytes: `array.view(uint8)`.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Result<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(zaro::Error::usage("the memory is not contiguous").into());
        }
        Ok(Self { buffer })
    }

    /// The same, to be written to.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> Result<Self> {
        let lent = Self::of(object)?;
        if lent.buffer.readonly() {
            return Err(zaro::Error::usage("the memory cannot be written to").into());
        }
        Ok(lent)
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len_bytes()
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: contiguous, of this length, kept by the `Py_buffer`; see the head.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), self.len()) }
    }
}

impl AsMut<[u8]> for Lent {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 || self.buffer.readonly() {
            return &mut [];
        }
        // SAFETY: as above, writable, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), self.len()) }
    }
}
