//! Versions of a Zarr: checksums, manifests, and reading past versions.
//!
//! A *manifest* lists every object of a Zarr with its version id, size and digest. Its name is the *checksum* of the
//! Zarr, a tree hash that is the same for a folder and a bucket. So a manifest is a version: it can be compared with
//! another without the data, verified against them, and opened as a read-only Zarr.
//!
//! ```text
//!   text      JSON as in the checksum and the proof of concept
//!   digest    digests of directories and of objects                        local  a folder, hashed on all cores
//!   checksum  keys with digests -> digests of directories                  cache  digests of unchanged files
//!   lanes     MD5 of several messages at once
//!   model     a manifest in memory: 64 bytes per entry (pack)              build  builds one
//!   scan      JSON from a reader, token by token                           parse  a reader -> a manifest
//!   write     a manifest, or keys in order (spool) -> a manifest file      place  where manifest files are, and how
//!   verify    is it correct?    diff  what changed?    list  which versions exist?
//!   fetch     its objects into a folder (glob: which of them)              kerchunk  the same as references
//!   store     a version as a reference map                                 bucket  Zarrs in versioned buckets
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
pub use store::{objects_beside, version_store};
pub use verify::{ManifestFinding, document as verify_document, folder as verify_folder};
pub use write::{Finished, ManifestLayout, ManifestOptions, ManifestStream};
