//! zaro: open any Zarr, wherever it lives, and read it.

pub mod array;
pub mod blocking;
pub mod codec;
pub mod error;
pub mod group;
pub mod meta;
pub mod num;
pub mod open;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use array::{Array, Element, Index, Missing, Order, Progress, ReadOptions, Selection, Slab};
pub use error::{Error, ErrorKind, Result};
pub use group::{Node, OpenOptions, Zarr};
pub use open::open;
