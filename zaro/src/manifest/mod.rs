//! Versions of a Zarr: checksums, manifests, and reading any of them.
