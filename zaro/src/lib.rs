//! Open any Zarr, version 2 or 3, wherever it lives; read it, write it, copy it.
//!
//! zaro reads the groups and arrays of a [Zarr](https://zarr.dev) hierarchy from a folder, memory, a ZIP archive, S3,
//! GCS, Azure or any web server, and gives back plain bytes in the order asked for. It writes to all of these but web
//! servers (and to new archives), so that a chunk is old or new whatever happens, and several writers lose nothing.
//!
//! # From an address to numbers
//!
//! Here with a store in memory, so that the example runs anywhere. With files and buckets, [`open()`] takes the place of
//! the first half: `zaro::open("s3://bucket/data.zarr", &options).await?`.
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
//! # And back
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
//! More programs like these are in `examples/`: buckets, copies, images, manifests, a store and a codec of your own.
//!
//! # Modules
//!
//! What is used most is here at the root: [`open()`], [`Zarr`], [`Array`], [`Selection`], [`Slab`], [`Error`] and their options.
//!
//! | | |
//! |---|---|
//! | [`open`](mod@open) | an address to a store or a Zarr; the one place that knows every kind of store |
//! | [`array`](mod@array) | windows over what is larger than memory, progress, bytes of numbers |
//! | [`hierarchy`], [`create`] | nodes made, edited, resized, consolidated, deleted; new arrays that nobody sees before they are whole |
//! | [`copy`](mod@copy) | a hierarchy to another place, version, chunking, codec |
//! | [`coords`], [`cf`], [`stat`], [`validate`] | selecting by values of coordinates; packing, calendars, units; what elements are like; every document against the rules |
//! | [`format`](mod@format) | values as text, JSON, numpy files, CSV, pictures, and back |
//! | `image` | OME-Zarr: levels, channels, labels, plates; made, drawn, checked, upgraded |
//! | `manifest` | versions of a Zarr: checksums, manifests, histories |
//! | `reference` | a Zarr whose bytes lie elsewhere: Kerchunk, Icechunk |
//! | [`store`] | keys to bytes; the trait [`store::Store`] for a store of your own |
//! | [`codec`] | bytes to values; [`codec::register`] for a codec of your own |
//! | [`meta`] | JSON to one model for both versions |
//! | [`blocking`] | for programs without an async runtime |
//! | `testing` | a suite for stores, a store that injects faults, a small HTTP server |
//!
//! Modules look down only, from [`open`](mod@open) on top to [`store`], [`meta`] and [`codec`], and a test holds them to it.
//! V2 is turned into the terms of V3 when its metadata are parsed; from there on nothing asks for the version.
//! `docs/architecture.md` has the layers, and follows one read through all of them.
//!
//! # Key types
//!
//! * [`open()`] takes a path or URI and [`OpenOptions`], and gives a [`Zarr`].
//! * [`Zarr`] is a hierarchy: [`Zarr::array`], [`Zarr::node`], [`Zarr::children`], [`Zarr::walk`].
//! * [`Array`] is one array, cheap to clone, with caches that its clones share. [`Array::read`] gives Rust
//!   numbers, [`Array::read_slab`] any type in the order asked for, [`Array::read_into`] fills the caller's buffer;
//!   those named `_blocking` need no runtime.
//! * [`Selection`] says which elements; [`ReadOptions`] in which [`Order`], and what a missing chunk means.
//! * [`Slab`] is the answer: little-endian bytes, a shape and a type. [`Slab::to_vec`] makes Rust numbers of it,
//!   [`Slab::item`] gives strings and other elements without a fixed size.
//! * [`Array::write`] takes numbers, [`Array::write_slab`] [`Values`] or a [`Slab`]; [`open::open_store_for_writing`] gives the store to make nodes in.
//! * [`Context`] has the memory, threads and connections that everything opened with it shares.
//! * [`Error`] has an [`ErrorKind`], which is also an exit code of the `zaro` command, and says which store, node, key
//!   and metadata field it is about. A missing chunk is not an error; a failed request is never a missing chunk.
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

// What features share is dead when those are left out that use it; with all of them, the lints tell.
#![cfg_attr(
    not(all(
        feature = "cloud",
        feature = "image",
        feature = "manifest",
        feature = "parquet",
        feature = "references"
    )),
    allow(dead_code, unused_imports, unused_macros, unreachable_pub)
)]

/// The Rust of the read-me, compiled so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

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
