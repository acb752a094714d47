//! `zaro image convert` as its users meet it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

#[test]
fn placeholder() {}
