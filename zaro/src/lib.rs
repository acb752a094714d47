//! Read, write and copy Zarr (versions 2 and 3) in local, cloud and web stores.
//!
//! zaro reads the groups and arrays of a [Zarr](https://zarr.dev) hierarchy from a folder, memory, a ZIP archive, S3,
//! GCS, Azure or any web server, and returns plain bytes in the requested order. It writes to all of these but web
//! servers (and to new archives), with atomic chunk writes that are safe with concurrent writers.
//!
//! # Reading
//!
//! This example uses an in-memory store, so that it runs anywhere. For files and buckets, [`open()`] replaces the first
//! half: `zaro::open("s3://bucket/data.zarr", &options).await?`.
//!
//! ```
//! use std::sync::Arc;
//! use zaro::store::MemoryStore;
//! use zaro::{OpenOptions, ReadOptions, Selection, Zarr, blocking};
//!
//! # fn main() -> zaro::Result<()> {
//! let store = MemoryStore::new();
//! store.put(
//!     "zarr.json",
//!     r#"{"zarr_format": 3, "node_type": "array", "shape": [2, 3], "data_type": "uint16",
//!         "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
//!         "chunk_key_encoding": {"name": "default"}, "fill_value": 7,
//!         "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#,
//! )?;
//! store.put("c/0/0", vec![1, 0, 2, 0, 3, 0, 4, 0])?; // rows 1 2 and 3 4; the chunk c/0/1 is missing
//!
//! let zarr = blocking::block_on(Zarr::from_store(Arc::new(store), OpenOptions::default()))?;
//! let array = blocking::block_on(zarr.array(""))?;
//! assert_eq!(array.shape(), [2, 3]);
//!
//! let slab = array.read_slab_blocking(&Selection::parse("::-1, :")?, &ReadOptions::default())?;
//! assert_eq!(slab.shape, [2, 3]);
//! assert_eq!(slab.to_vec::<u16>()?, [3, 4, 7, 1, 2, 7]);
//! # Ok(())
//! # }
//! ```
//!
//! # Writing
//!
//! ```
//! use std::sync::Arc;
//! use zaro::hierarchy::{self, Existing};
//! use zaro::meta::{DataType, NewArray};
//! use zaro::store::{MemoryStore, SharedStore};
//! use zaro::blocking;
//!
//! # fn main() -> zaro::Result<()> {
//! let store: SharedStore = Arc::new(MemoryStore::new());
//! let new = NewArray::new(DataType::FLOAT64, [4, 6]).with_chunks(Some(vec![2, 3]));
//! let array = blocking::block_on(hierarchy::create_array(&store, "group/name", &new, Existing::Refuse))?;
//!
//! array.write_blocking(&[1..2, 2..5], &[0.5f64, 1.5, 2.5])?;
//! assert_eq!(array.read_blocking::<f64>(&[1..2, 2..5])?, [0.5, 1.5, 2.5]);
//! # Ok(())
//! # }
//! ```
//!
//! More examples are in `examples/`: buckets, copies, images, manifests, a custom store and a custom codec.
//!
//! # Modules
//!
//! The most common items are at the root: [`open()`], [`Zarr`], [`Array`], [`Selection`], [`Slab`], [`Error`] and their
//! options.
//!
//! | | |
//! |---|---|
//! | [`open`](mod@open) | opens a store or a Zarr from an address; the only module that knows every kind of store |
//! | [`array`](mod@array) | reads and writes arrays, in windows where larger than memory |
//! | [`hierarchy`], [`create`] | creates, edits, resizes, consolidates and deletes nodes; arrays that appear when complete |
//! | [`copy`](mod@copy) | copies a hierarchy to another place, version, chunking or codec |
//! | [`coords`], [`cf`], [`stat`], [`validate`] | selection by coordinate values; packing, calendars, units; statistics; validation |
//! | [`format`](mod@format) | converts values to and from text, JSON, npy, CSV and images |
//! | `image` | OME-Zarr: levels, channels, labels, plates; creation, rendering, validation, upgrades |
//! | `manifest` | versions of a Zarr: checksums, manifests, histories |
//! | `reference` | a Zarr whose bytes are stored elsewhere: Kerchunk, Icechunk |
//! | [`store`] | maps keys to bytes; implement [`store::Store`] for a custom store |
//! | [`codec`] | decodes and encodes chunks; [`codec::register`] adds a custom codec |
//! | [`meta`] | parses metadata into one model for both versions |
//! | [`blocking`] | for programs without an async runtime |
//! | `testing` | a conformance suite for stores, a fault-injecting store, a small HTTP server |
//!
//! Modules depend only on lower ones, from [`open`](mod@open) on top to [`store`], [`meta`] and [`codec`]; a test
//! enforces it. V2 metadata is converted to V3 terms when parsed; nothing after that depends on the version.
//! `docs/architecture.md` describes the layers, and follows one read through all of them.
//!
//! # Key types
//!
//! * [`open()`] takes a path or URI and [`OpenOptions`], and returns a [`Zarr`].
//! * [`Zarr`] is a hierarchy: [`Zarr::array`], [`Zarr::node`], [`Zarr::children`], [`Zarr::walk`].
//! * [`Array`] is one array, cheap to clone, with caches that its clones share. [`Array::read`] returns Rust numbers,
//!   [`Array::read_slab`] any type in the requested order, [`Array::read_into`] fills the caller's buffer; the
//!   `_blocking` variants need no runtime.
//! * [`Selection`] selects elements; [`ReadOptions`] sets the [`Order`] and the treatment of missing chunks.
//! * [`Slab`] is the result: little-endian bytes, a shape and a type. [`Slab::to_vec`] converts it to Rust numbers,
//!   [`Slab::item`] returns strings and other variable-length elements.
//! * [`Array::write`] takes numbers, [`Array::write_slab`] [`Values`] or a [`Slab`]; [`open::open_store_for_writing`]
//!   returns a store to create nodes in.
//! * [`Context`] holds the memory, threads and connections shared by everything opened with it.
//! * [`Error`] has an [`ErrorKind`], which is also an exit code of the `zaro` command, and names the store, node, key
//!   and metadata field. A missing chunk is not an error; a failed request is never a missing chunk.
//!
//! # Features
//!
//! On by default:
//!
//! * `cloud`: S3, GCS, Azure and HTTP(S) stores. Without it, no HTTP client is compiled.
//! * `image`: the module `image`, OME-Zarr.
//! * `references`: the module `reference`; `parquet`: its Kerchunk references in Parquet.
//! * `manifest`: the module `manifest`.
//!
//! Off by default:
//!
//! * `grib`: the codecs of references to GRIB files, and PNG and JPEG 2000 tiles.
//! * `ndarray`: [`Array`]s read as arrays of the `ndarray` crate.
//! * `testing`: the module `testing`.

// Shared code is unused if the features that use it are off; with all features, the lint is active.
#![cfg_attr(
    not(all(
        feature = "cloud",
        feature = "image",
        feature = "manifest",
        feature = "parquet",
        feature = "references",
        feature = "testing"
    )),
    allow(dead_code, unused_imports, unused_macros, unreachable_pub)
)]

/// The Rust code of the README, compiled so that it stays correct.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

/// Makes an `async fn` a plain function that returns a boxed future. The code of a future is compiled where it is first
/// polled: without this, in every program, test and example anew instead of here, once.
pub(crate) use async_recursion::async_recursion as boxed;

pub mod array;
pub mod blocking;
pub mod cf;
pub mod codec;
mod context;
pub mod coords;
pub mod copy;
pub mod create;
mod error;
pub mod format;
mod group;
pub mod hierarchy;
#[cfg(feature = "image")]
pub mod image;
#[doc(hidden)]
pub mod internal;
mod journal;
#[cfg(feature = "manifest")]
pub mod manifest;
pub mod meta;
mod num;
pub mod open;
mod process;
#[cfg(feature = "references")]
pub mod reference;
pub mod stat;
pub mod store;
mod suggest;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;
pub mod validate;

pub use array::{
    Array, Element, Index, Missing, Order, ReadOptions, Selection, Slab, Values, WriteOptions, Writing,
};
pub use context::{Context, ContextOptions};
pub use error::{Error, ErrorKind, Hint, Result, redacted};
pub use group::{Node, OpenOptions, Zarr};
pub use open::open;
pub use task::{CancelToken, Progress, Task, Unit};
