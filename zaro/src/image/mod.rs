//! OME-Zarr: images in Zarr, of every version from the seed's masks to 0.6.
//!
//! A version is lowered to one [`model`] when it is [parsed](parse): axes, levels with scale and translation, channels,
//! labels and masks, plates. After that nothing asks for the version, but [`document`], which writes metadata back,
//! [`validate`], whose rules differ, and [`upgrade`].
//!
//! * [`find::find`] says what is at a path of a [`Zarr`](crate::Zarr): an image, a plate, a well, a collection.
//! * [`render`] draws it; [`validate`] checks it.
//! * [`convert`] makes images of files ([`source`]), [`pyramid`] their smaller levels.
//! * [`upgrade`], [`edit`] and [`add_labels`] change what is there; [`ozx`] packs it into one file.

pub mod add_labels;
pub mod convert;
pub mod document;
pub mod edit;
pub mod find;
pub mod model;
pub mod ozx;
pub mod parse;
pub mod pyramid;
pub mod render;
pub mod source;
pub mod summary;
pub mod units;
pub mod upgrade;
pub mod validate;
pub mod version;
pub mod word;

pub use find::{Found, Image, LabelImage, find};
pub use model::{Axis, Channel, Labels, Level, Multiscale, Omero, Plate, Well};
pub use version::Version;
