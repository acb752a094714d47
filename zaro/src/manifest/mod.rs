//! Versions of a Zarr: checksums, manifests, and reading any of them.
//!
//! A *manifest* says of every object of a Zarr which version of it is meant, and how many bytes with which digest that
//! version has. Its name is the *checksum* of the Zarr, a digest of digests that a folder has as well as a bucket. So a
//! manifest is a version: it can be told from another without the data, checked against them, and read through.
//!
//! ```text
//!   text      JSON as the checksum and the proof of concept write it
//!   digest    what a directory comes to, and what an object comes to       local  a folder, hashed on all cores
//!   checksum  keys with digests, as they come -> digests of directories    cache  digests of files that did not change
//!   lanes     MD5 of several messages at once
//!   model     a manifest in memory: 64 bytes an entry (pack), and its name build  how one is made
//!   scan      JSON from a reader, token by token                           parse  a reader -> a manifest
//!   write     a manifest, or keys in order (spool) -> a manifest file      place  where manifest files are, and how
//!   verify    does it say the truth?    diff  what changed?    list  which versions are there?
//!   fetch     its objects into a folder (glob: which of them)              kerchunk  the same as references
//!   store     a version, read through: a map of references                 bucket  Zarrs in buckets that keep versions
//! ```

#[cfg(feature = "cloud")]
pub mod bucket;
pub(crate) mod build;
mod cache;
pub(crate) mod checksum;
pub(crate) mod diff;
pub(crate) mod digest;
pub(crate) mod fetch;
pub(crate) mod glob;
pub(crate) mod kerchunk;
mod lanes;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod model;
mod pack;
pub(crate) mod parse;
pub(crate) mod place;
mod spool;
pub(crate) mod store;
mod text;
pub(crate) mod verify;
pub(crate) mod write;

pub use crate::time::Time;
pub use build::Builder;
pub use checksum::TreeHasher;
pub use diff::{Change, DiffSummary, Difference, diff};
pub use digest::{Digest, ETag, Hasher, Hashing};
pub use fetch::{FetchOptions, FetchSource, Fetched, FolderSource, StoreSource, fetch};
pub use kerchunk::write as write_references;
#[cfg(feature = "parquet")]
pub use kerchunk::write_parquet as write_parquet_references;
pub use list::{ListedVersion, versions};
pub use local::{Digesting, LocalFile, LocalOptions, files as files_of_folder, manifest as of_folder};
pub use model::{Digests, Dir, Entry, EntryRef, Fields, Leaf, Manifest, Statistics, Walk};
pub use parse::{Head, parse, parse_head};
pub use place::{Stored, check_zarr_id, checksum_in, key_of, store as store_manifest};
pub use store::objects_beside;
pub use verify::{ManifestFinding, document as verify_document, folder as verify_folder};
pub use write::{Finished, ManifestLayout, ManifestOptions, ManifestStream};
