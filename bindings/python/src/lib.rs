//! The compiled half of the Python package `zaro`: what the library offers, in Python's types. What users see is in
//! `python/zaro`.

mod array;
mod buffer;
mod error;
mod hierarchy;
mod image;
mod index;
mod json;
mod options;
mod references;
mod run;
mod store;
mod tools;
mod versions;
mod zarr;

use pyo3::prelude::*;

/// The module `zaro._zaro`.
#[pymodule]
mod _zaro {
    #[pymodule_export]
    use super::array::{Array, read_whole};
    #[pymodule_export]
    use super::buffer::Memory;
    #[pymodule_export]
    use super::hierarchy::{
        append, consolidate, create_array, create_group, delete, edit_attributes, resize, unconsolidate,
    };
    #[pymodule_export]
    use super::image::{image_convert, image_levels, image_overview, image_render, image_validate};
    #[pymodule_export]
    use super::references::{refs_convert, refs_stat, refs_validate};
    #[pymodule_export]
    use super::run::configure;
    #[pymodule_export]
    use super::store::{Store, open_for_writing, open_store};
    #[pymodule_export]
    use super::tools::{copy, redacted, stat, validate};
    #[pymodule_export]
    use super::versions::{checksum, manifest_at, manifest_create, manifest_history, manifest_verify};
    #[pymodule_export]
    use super::zarr::{Zarr, open, open_in};

    #[pymodule_init]
    fn init(m: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods as _;
        m.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
