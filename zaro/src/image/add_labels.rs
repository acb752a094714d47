//! Labels added to an image.
