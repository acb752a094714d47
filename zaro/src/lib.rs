//! zaro: open any Zarr, wherever it lives, and read it.

pub mod codec;
pub mod error;
pub mod meta;
pub mod num;
pub mod open;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use error::{Error, ErrorKind, Result};
