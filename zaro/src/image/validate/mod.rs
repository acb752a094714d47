//! Rules V1 to V39 of OME-Zarr, checked.
