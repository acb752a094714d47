//! From one version of OME-Zarr to another.
