//! All tests of `zaro` in one program, a file per topic: linking once instead of once per file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

mod common;

#[cfg(all(feature = "testing", feature = "cloud", target_os = "linux"))]
mod context;
mod copy;
mod errors;
mod examples;
#[cfg(feature = "image")]
mod format;
#[cfg(feature = "image")]
mod futures_send;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod gather;
#[cfg(feature = "grib")]
mod grib;
mod hierarchy;
mod icechunk;
#[cfg(all(feature = "image", feature = "testing", feature = "cloud"))]
mod image_ozx;
#[cfg(all(feature = "testing", feature = "image"))]
mod image_pyramid;
mod image_upgrade;
#[cfg(feature = "image")]
mod image_validate;
mod kill;
mod layers;
mod own_codec;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod places;
mod references;
mod regression;
mod remote;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod remote_http;
#[cfg(feature = "testing")]
mod replace;
#[cfg(feature = "testing")]
mod resume;
mod select;
mod shard;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod store_faults;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod store_servers;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod store_states;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod store_stream;
#[cfg(feature = "testing")]
mod store_wrap;
#[cfg(feature = "testing")]
mod store_write;
#[cfg(feature = "testing")]
mod store_zip;
mod support_table;
mod v2;
mod v3;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod version_listing;
#[cfg(all(feature = "testing", feature = "cloud"))]
mod versions;
mod write;
