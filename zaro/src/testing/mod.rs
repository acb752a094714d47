//! Test utilities for stores: a conformance suite, a store that fails on purpose, a web server that misbehaves, and
//! custom ZIP archives.
//!
//! This is test code: failures panic with the expected and the actual result.

mod fault;
mod server;
mod suite;
mod writes;
mod zip;

pub use fault::{Fault, FaultStore};
pub use server::{TinyReply, TinyRequest, TinyServer};
pub use suite::{Lists, sample_objects, store_suite, store_suite_listing};
pub use writes::{count_of, count_up, write_suite, write_suite_listing};
pub use zip::{ZipMaker, ZipMethod};
