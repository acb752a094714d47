//! CSV, quoted as in RFC 4180.

mod read;
mod write;

pub use read::Table;
pub use write::{Column, Csv};
