//! OME-Zarr: images in Zarr, of every version from the seed's masks to 0.6.
//!
//! A version is lowered to one model when it is parsed: axes, levels with scale and translation, channels,
//! labels and masks, plates. After that nothing asks for the version, but what writes metadata back,
//! [`validate`], whose rules differ, and [`upgrade`].
//!
//! * [`find()`] says what is at a path of a [`Zarr`](crate::Zarr): an image, a plate, a well, a collection.
//! * [`render`] draws it; [`validate`] checks it.
//! * [`convert`] makes images of files ([`open_sources`]), [`pyramid`] their smaller levels.
//! * [`upgrade`], [`edit`] and [`add_labels`] change what is there; [`ozx`] packs it into one file.

pub mod add_labels;
pub mod convert;
pub(crate) mod document;
pub mod edit;
pub(crate) mod find;
pub(crate) mod model;
pub mod ozx;
pub(crate) mod parse;
pub mod pyramid;
pub mod render;
pub(crate) mod source;
pub(crate) mod summary;
pub(crate) mod units;
pub mod upgrade;
pub mod validate;
pub(crate) mod version;
pub(crate) mod word;

pub use find::{Found, Image, LabelImage, find, image_at, images};
pub use model::{
    Acquisition, Axis, AxisKind, Channel, ColorModel, Family as CurveFamily, Field as WellField, LabelColor,
    Labels, Level, Multiscale, Omero, Plate, Well, WellPlace, Window as ChannelWindow,
};
pub use source::{ImageSource, ImageSourceOptions, open as open_sources};
pub use summary::{
    LabelSummary, LevelSummary, Overview as ImageOverview, PyramidSummary, Summary as ImageSummary,
};
pub use version::ImageVersion;
