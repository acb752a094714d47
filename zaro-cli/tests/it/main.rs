//! All tests of `zaro-cli` in one program, a file per topic: linking once instead of once per file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

mod common;

mod cf;
mod copy;
mod create;
mod edit;
mod errors;
mod image_convert;
mod image_edit;
mod image_pyramid;
mod image_render;
mod image_upgrade;
mod image_validate;
mod killed;
mod list;
mod manifest;
mod meaning;
mod meta;
mod places;
mod png;
mod read;
mod reference_tools;
mod references;
mod select;
mod strict;
mod together;
mod validate;
mod versions;
mod words;
mod write;
