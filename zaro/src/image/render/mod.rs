//! Pictures of images.
