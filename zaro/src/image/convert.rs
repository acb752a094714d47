//! Files to OME-Zarr.
