//! What tests of stores, here and elsewhere, have in common: a suite that every store passes, a store that fails on
//! purpose, a web server that misbehaves, and archives made to order.
//!
//! These are test code: they panic with what was expected and what came.

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
