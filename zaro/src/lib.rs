//! zaro: open any Zarr, wherever it lives, and read it.

pub mod codec;
pub mod error;
pub mod meta;
pub mod num;
pub mod store;

pub use error::{Error, ErrorKind, Result};
