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
//! use zaro::store::memory::MemoryStore;
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
//! let zarr = blocking::wait(Zarr::from_store(Arc::new(store), OpenOptions::default()))?;
//! let array = blocking::wait(zarr.array(""))?;
//! assert_eq!(array.shape(), [2, 3]);
//!
//! let slab = array.read_blocking(&Selection::parse("::-1, :")?, &ReadOptions::default())?;
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
//! use zaro::meta::create::NewArray;
//! use zaro::meta::DataType;
//! use zaro::store::{SharedStore, memory::MemoryStore};
//! use zaro::{Order, ReadOptions, Selection, Values, WriteOptions, blocking};
//!
//! # fn main() -> zaro::Result<()> {
//! let store: SharedStore = Arc::new(MemoryStore::new());
//! let new = NewArray { shape: vec![4, 6], data_type: DataType::FLOAT64, chunks: Some(vec![2, 3]), ..NewArray::default() };
//! let array = blocking::wait(hierarchy::create_array(&store, "group/name", &new, Existing::Refuse))?;
//!
//! let row: Vec<u8> = [0.5f64, 1.5, 2.5].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let place = Selection::start_count(&[1, 2], &[1, 3]);
//! array.write_blocking(&place, Values::new(row, Order::C), &WriteOptions::default())?;
//!
//! let back = array.read_blocking(&place, &ReadOptions::default())?;
//! assert_eq!(back.to_vec::<f64>()?, [0.5, 1.5, 2.5]);
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! ```text
//!   open       an address -> a store; the one place that knows every kind of store
//!   image      OME-Zarr: levels, channels, labels, plates; pictures of them
//!   copy       a hierarchy -> another place, version, chunking, codec
//!   manifest   versions of a Zarr: checksums, manifests     reference  a Zarr whose bytes lie elsewhere
//!   create     new arrays and images that nobody sees before they are whole
//!   coords     selecting by values of coordinates           stat       what the elements of an array are like
//!   cf         packing, calendars, units                    validate   every document against the rules
//!   format     values as text, JSON, npy, csv, pictures, and back
//!   hierarchy  nodes made, edited, resized, consolidated, deleted
//!   group      a store -> nodes: groups and arrays by their path
//!   array      a selection -> chunks -> the answer, and back
//!   store      keys -> bytes        meta    JSON -> one model        codec    bytes -> values
//!   context    memory, threads and connections that all of them share
//! ```
//!
//! Layers look down only, and a test holds them to it: [`store`] and [`meta`] know nothing of each other, [`codec`]
//! knows [`meta`], [`array`](mod@array) uses all three, [`group`] uses that, and [`open`](mod@open) is on top.
//! V2 is turned into the terms of V3 when its metadata are parsed; from there on nothing asks for the version.
//! `docs/architecture.md` follows one read through all of them.
//!
//! # Key types
//!
//! * [`open()`] takes a path or URI and [`OpenOptions`], and gives a [`Zarr`].
//! * [`Zarr`] is a hierarchy: [`Zarr::array`], [`Zarr::node`], [`Zarr::children`], [`Zarr::walk`].
//! * [`Array`] is one array, cheap to clone, with caches that its clones share. [`Array::read`] is async,
//!   [`Array::read_blocking`] needs no runtime, [`Array::read_into`] fills a buffer of the caller's.
//! * [`Selection`] says which elements; [`ReadOptions`] in which [`Order`], and what a missing chunk means.
//! * [`Slab`] is the answer: little-endian bytes, a shape and a type. [`Slab::to_vec`] makes Rust numbers of it,
//!   [`Slab::item`] gives strings and other elements without a fixed size.
//! * [`Array::write`] writes [`Values`] or a [`Slab`]; [`hierarchy`] makes, edits, resizes and deletes nodes;
//!   [`copy`](mod@copy) copies them, and [`open::open_store_for_writing`] gives the store to do it in.
//! * [`Error`] has an [`ErrorKind`], which is also an exit code of the `zaro` command, and says which store, node, key
//!   and metadata field it is about. A missing chunk is not an error; a failed request is never a missing chunk.
//! * [`array::windows::View`] cuts what is larger than memory into windows; a [`format::Sink`] writes them as text, numpy
//!   files or pictures, [`format::input`] reads such files, and [`cf::Reading`] applies the CF conventions on the way.
//! * [`store::Store`] is the trait to implement for another kind of store.
//!
//! # Features
//!
//! * `cloud` (on by default): S3, GCS, Azure and HTTP(S) stores. Without it, no HTTP client is compiled.
//! * `image` (on by default): the module `image`, OME-Zarr.
//! * `testing`: the module `testing`, with a suite for implementations of [`store::Store`], a store that injects
//!   faults, and a small HTTP server for tests.

/// The Rust of the read-me, compiled so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

pub mod array;
pub mod blocking;
pub mod cf;
pub mod codec;
pub mod context;
pub mod coords;
pub mod copy;
pub mod create;
pub mod error;
pub mod format;
pub mod group;
pub mod hierarchy;
#[cfg(feature = "image")]
pub mod image;
mod journal;
pub mod manifest;
pub mod meta;
pub mod num;
pub mod open;
mod process;
pub mod reference;
pub mod stat;
pub mod store;
pub mod suggest;
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
