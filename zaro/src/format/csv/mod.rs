//! Lines of cells, quoted as RFC 4180 says.

mod read;
mod write;

pub use read::Table;
pub use write::{Column, Csv};
