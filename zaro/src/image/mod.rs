//! OME-Zarr images, labels and plates (OME-NGFF), from the seed version with its masks to 0.6.
//!
//! All versions are parsed into one model: axes, levels with scale and translation, channels, labels and masks, plates.
//! After that, only code that writes metadata, [`validate`] and [`upgrade`] depend on the version.
//!
//! * [`find()`] detects the object at a path of a [`Zarr`](crate::Zarr): an image, a plate, a well, a collection.
//! * [`render`] draws it; [`validate`] checks it.
//! * [`convert`] converts image files ([`open_sources`]); [`pyramid`] builds the smaller levels.
//! * [`upgrade`], [`edit`] and [`add_labels`] change existing images; [`ozx`] packs an image into one file.

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
    Acquisition, Axis, AxisKind, Channel, ChannelWindow, ColorModel, Family as CurveFamily,
    Field as WellField, LabelColor, Labels, Level, Multiscale, Omero, Plate, Well, WellPlace,
};
pub use source::{ImageSource, ImageSourceOptions, open as open_sources};
pub use summary::{ImageSummary, LabelSummary, LevelSummary, Overview as ImageOverview, PyramidSummary};
pub use version::ImageVersion;
