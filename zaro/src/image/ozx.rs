//! A whole OME-Zarr in one file.
