//! Metadata of images, changed in place.
