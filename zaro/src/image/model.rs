//! The version-independent image model, in the terms of the newest OME-Zarr version.

use crate::image::version::ImageVersion;
use crate::meta::{DataType, Json};

/// The type of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisKind {
    /// `time`
    Time,
    /// `channel`
    Channel,
    /// `space`
    Space,
    /// A custom type, or none.
    Other,
}

/// The axes of images before 0.3, in this order.
pub(crate) const USUAL: [&str; 5] = ["t", "c", "z", "y", "x"];

/// One dimension of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name: `t`, `c`, `z`, `y`, `x`, or another.
    pub name: String,
    /// Its type, inferred from the name if the document has none: `t` is time, `c` channel, `z`, `y`, `x` space.
    pub kind: AxisKind,
    /// Its unit, such as `micrometer`.
    pub unit: Option<String>,
}

impl Axis {
    /// An axis without a unit, with the type inferred from its name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), kind: AxisKind::of_name(name), unit: None }
    }

    /// The last `rank` of t, c, z, y, x: the axes of images that do not name them. All five if `rank` is larger.
    #[must_use]
    pub fn usual(rank: usize) -> Vec<Self> {
        USUAL.iter().skip(USUAL.len().saturating_sub(rank)).map(|name| Self::named(name)).collect()
    }
}

impl AxisKind {
    /// The type inferred from a name.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "t" | "time" => Self::Time,
            "c" | "channel" => Self::Channel,
            "z" | "y" | "x" => Self::Space,
            _ => Self::Other,
        }
    }

    /// Parses the `type` of documents.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let known = [Self::Time, Self::Channel, Self::Space];
        known.into_iter().find(|kind| kind.text() == Some(text)).unwrap_or(Self::Other)
    }

    /// The `type` of documents.
    #[must_use]
    pub fn text(self) -> Option<&'static str> {
        match self {
            Self::Time => Some("time"),
            Self::Channel => Some("channel"),
            Self::Space => Some("space"),
            Self::Other => None,
        }
    }
}

/// The minimum and maximum of an integer or boolean type.
pub(crate) fn integers(data_type: &DataType) -> Option<(i128, i128)> {
    match data_type {
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) => data_type.range(),
        _ => None,
    }
}

/// One resolution of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// The path of its array, from the image's group.
    pub path: String,
    /// The pixel size along each axis, including the scale of the whole multiscale. `None` before 0.4, where only the
    /// shapes of the arrays tell.
    pub scale: Option<Vec<f64>>,
    /// The centre of the first pixel, including the translation of the whole multiscale. Omitted if zero.
    pub translation: Option<Vec<f64>>,
}

/// A multiscale (pyramid): the same image in several resolutions.
#[derive(Debug, Clone, PartialEq)]
pub struct Multiscale {
    /// Its name.
    pub name: Option<String>,
    /// Its axes. Before 0.3 they are t, c, z, y, x.
    pub axes: Vec<Axis>,
    /// Its levels, the largest first.
    pub levels: Vec<Level>,
    /// `type`: the downsampling method.
    pub method: Option<String>,
}

impl Multiscale {
    /// The index of the axis `name`.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|a| a.name.eq_ignore_ascii_case(name))
    }
}

/// Chooses a multiscale: the only one; else the first of that name that has levels; else the first.
#[must_use]
pub(crate) fn choose<'a>(all: &'a [Multiscale], name: Option<&str>) -> Option<&'a Multiscale> {
    let named = || {
        let name = name?;
        all.iter().find(|m| m.name.as_deref() == Some(name) && !m.levels.is_empty())
    };
    if all.len() == 1 { all.first() } else { named().or_else(|| all.first()) }
}

/// The intensity curve of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Evenly.
    #[default]
    Linear,
    /// v^k
    Polynomial,
    /// ln v
    Logarithmic,
    /// e^(v^k)
    Exponential,
}

impl Family {
    /// Parses its name; `None` if unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Linear, Self::Polynomial, Self::Logarithmic, Self::Exponential];
        all.into_iter().find(|family| family.text().eq_ignore_ascii_case(text))
    }

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Polynomial => "polynomial",
            Self::Logarithmic => "logarithmic",
            Self::Exponential => "exponential",
        }
    }
}

/// The intensity window of a channel. Each number is `None` if the document has none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChannelWindow {
    /// Drawn as black.
    pub start: Option<f64>,
    /// Drawn as the full colour.
    pub end: Option<f64>,
    /// The lower bound for `start`.
    pub min: Option<f64>,
    /// The upper bound for `end`.
    pub max: Option<f64>,
}

/// Rendering settings of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// Its name.
    pub label: Option<String>,
    /// Whether it is drawn.
    pub active: bool,
    /// Red, green, blue. `None` if the document has no valid colour.
    pub color: Option<[u8; 3]>,
    /// The curve.
    pub family: Family,
    /// The curve's exponent.
    pub coefficient: f64,
    /// Whether it is inverted.
    pub inverted: bool,
    /// The intensity window.
    pub window: ChannelWindow,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            label: None,
            active: true,
            color: None,
            family: Family::Linear,
            coefficient: 1.0,
            inverted: false,
            window: ChannelWindow::default(),
        }
    }
}

/// How channels are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorModel {
    /// Their colours are added.
    #[default]
    Color,
    /// The first active one, in grey.
    Greyscale,
}

impl ColorModel {
    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Color => "color",
            Self::Greyscale => "greyscale",
        }
    }
}

/// Rendering settings of an image: `omero`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Omero {
    /// Its name.
    pub name: Option<String>,
    /// One per channel.
    pub channels: Vec<Channel>,
    /// The plane to show, along z.
    pub default_z: Option<u64>,
    /// The plane to show, along t.
    pub default_t: Option<u64>,
    /// How channels are combined; `None` if not stated.
    pub model: Option<ColorModel>,
    /// `rdefs.projection`, as it is written: `normal`, `intmax`, `intmean`.
    pub projection: Option<String>,
}

/// The colour of one label value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelColor {
    /// The value of the pixels.
    pub value: i128,
    /// Red, green, blue, alpha.
    pub rgba: [u8; 4],
}

/// The `image-label` metadata of a label image: colours and properties of its values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Labels {
    /// The colours of values. The last one for a value wins.
    pub colors: Vec<LabelColor>,
    /// `properties`, as they are written.
    pub properties: Vec<Json>,
    /// The path of its image, relative to the label image. `../../` if not stated.
    pub source: Option<String>,
}

/// The position of a well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WellPlace {
    /// Its path, from the plate.
    pub path: String,
    /// Its row, from 0.
    pub row: usize,
    /// Its column, from 0.
    pub column: usize,
}

/// A plate acquisition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquisition {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: Option<String>,
}

/// A plate of wells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plate {
    /// Its name.
    pub name: Option<String>,
    /// The names of its rows.
    pub rows: Vec<String>,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The wells that exist.
    pub wells: Vec<WellPlace>,
    /// The acquisitions.
    pub acquisitions: Vec<Acquisition>,
}

/// One image of a well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its path, from the well.
    pub path: String,
    /// The acquisition it belongs to.
    pub acquisition: Option<i64>,
}

/// A well: the fields that were imaged in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Well {
    /// Its fields.
    pub fields: Vec<Field>,
}

/// The parsed OME-Zarr attributes of one group.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Group {
    /// The version, if it is stated and known.
    pub version: Option<ImageVersion>,
    /// The multiscales.
    pub multiscales: Vec<Multiscale>,
    /// Their rendering settings.
    pub omero: Option<Omero>,
    /// `image-label`, if this is a label image.
    pub label: Option<Labels>,
    /// The listed labels or masks, if this is the group of them.
    pub listed: Option<Vec<String>>,
    /// The plate.
    pub plate: Option<Plate>,
    /// The well.
    pub well: Option<Well>,
    /// Whether this is the root of a `bioformats2raw.layout`.
    pub layout: bool,
    /// `series`: the images of such a layout, in order.
    pub series: Option<Vec<String>>,
}
