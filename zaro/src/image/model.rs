//! The one model of images: what every version says, in the words of the newest.

use crate::image::version::ImageVersion;
use crate::meta::{DataType, Json};

/// What an axis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisKind {
    /// `time`
    Time,
    /// `channel`
    Channel,
    /// `space`
    Space,
    /// Of a type of its own, or of none.
    Other,
}

/// The axes of all images before they had names, in this order.
pub(crate) const USUAL: [&str; 5] = ["t", "c", "z", "y", "x"];

/// One dimension of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name: `t`, `c`, `z`, `y`, `x`, or another.
    pub name: String,
    /// What it is, also where the document does not say: `t` is time, `c` channel, `z`, `y`, `x` space.
    pub kind: AxisKind,
    /// Its unit, such as `micrometer`.
    pub unit: Option<String>,
}

impl Axis {
    /// An axis without a unit, of the kind that its name tells.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), kind: AxisKind::of_name(name), unit: None }
    }

    /// The last `rank` of t, c, z, y, x, which are those of images that do not name their axes; all if they are fewer.
    #[must_use]
    pub fn usual(rank: usize) -> Vec<Self> {
        USUAL.iter().skip(USUAL.len().saturating_sub(rank)).map(|name| Self::named(name)).collect()
    }
}

impl AxisKind {
    /// The kind that a name tells.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "t" | "time" => Self::Time,
            "c" | "channel" => Self::Channel,
            "z" | "y" | "x" => Self::Space,
            _ => Self::Other,
        }
    }

    /// From the `type` of documents.
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

/// The least and the greatest pixel of a type of integers, or of booleans.
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
    /// The size of a pixel along each axis, those of the whole multiscale multiplied in. `None` before 0.4, where
    /// only the shapes of the arrays tell.
    pub scale: Option<Vec<f64>>,
    /// Where the centre of the first pixel lies, those of the whole multiscale added. Zeros are left out.
    pub translation: Option<Vec<f64>>,
}

/// One pyramid: the same picture in several resolutions.
#[derive(Debug, Clone, PartialEq)]
pub struct Multiscale {
    /// Its name.
    pub name: Option<String>,
    /// Its axes. Before 0.3 they are t, c, z, y, x.
    pub axes: Vec<Axis>,
    /// Its levels, the largest first.
    pub levels: Vec<Level>,
    /// `type`: how the smaller levels were made.
    pub method: Option<String>,
}

impl Multiscale {
    /// Where the axis `name` is.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|a| a.name.eq_ignore_ascii_case(name))
    }
}

/// Chooses a pyramid: the only one; else the first of that name which has levels; else the first.
#[must_use]
pub(crate) fn choose<'a>(all: &'a [Multiscale], name: Option<&str>) -> Option<&'a Multiscale> {
    let named = || {
        let name = name?;
        all.iter().find(|m| m.name.as_deref() == Some(name) && !m.levels.is_empty())
    };
    if all.len() == 1 { all.first() } else { named().or_else(|| all.first()) }
}

/// How intensities become grey values.
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
    /// From its word; `None` for one that is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Linear, Self::Polynomial, Self::Logarithmic, Self::Exponential];
        all.into_iter().find(|family| family.text().eq_ignore_ascii_case(text))
    }

    /// Its word.
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

/// The intensities of a channel that are told apart. Each number is missing where the document has none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Window {
    /// Drawn as black.
    pub start: Option<f64>,
    /// Drawn as the full colour.
    pub end: Option<f64>,
    /// The least that `start` can sensibly be.
    pub min: Option<f64>,
    /// The most that `end` can sensibly be.
    pub max: Option<f64>,
}

/// How one channel is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// Its name.
    pub label: Option<String>,
    /// Whether it is drawn.
    pub active: bool,
    /// Red, green, blue. `None` if the document has none that can be read.
    pub color: Option<[u8; 3]>,
    /// The curve.
    pub family: Family,
    /// The curve's exponent.
    pub coefficient: f64,
    /// Whether bright and dark are exchanged.
    pub inverted: bool,
    /// The intensities that are told apart.
    pub window: Window,
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
            window: Window::default(),
        }
    }
}

/// How channels become one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorModel {
    /// Their colours are added up.
    #[default]
    Color,
    /// The first active one, in grey.
    Greyscale,
}

impl ColorModel {
    /// Its word.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Color => "color",
            Self::Greyscale => "greyscale",
        }
    }
}

/// How an image is drawn: `omero`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Omero {
    /// Its name.
    pub name: Option<String>,
    /// One a channel.
    pub channels: Vec<Channel>,
    /// The plane to show, along z.
    pub default_z: Option<u64>,
    /// The plane to show, along t.
    pub default_t: Option<u64>,
    /// How channels become one picture; `None` if it is not said.
    pub model: Option<ColorModel>,
    /// `rdefs.projection`, as it is written: `normal`, `intmax`, `intmean`.
    pub projection: Option<String>,
}

/// What a label's colours are for: the colour of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelColor {
    /// The value of the pixels.
    pub value: i128,
    /// Red, green, blue, alpha.
    pub rgba: [u8; 4],
}

/// What is known of the objects of a label image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Labels {
    /// The colours of values. Of two for one value, the last counts.
    pub colors: Vec<LabelColor>,
    /// `properties`, as they are written.
    pub properties: Vec<Json>,
    /// The image it is of, a path from the label. `../../` if nothing is said.
    pub source: Option<String>,
}

/// Where a well is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WellPlace {
    /// Its path, from the plate.
    pub path: String,
    /// Its row, from 0.
    pub row: usize,
    /// Its column, from 0.
    pub column: usize,
}

/// A run of a microscope over a plate.
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
    /// The wells that are there.
    pub wells: Vec<WellPlace>,
    /// The runs.
    pub acquisitions: Vec<Acquisition>,
}

/// One image of a well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its path, from the well.
    pub path: String,
    /// The run it is of.
    pub acquisition: Option<i64>,
}

/// A well: the fields that were imaged in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Well {
    /// Its fields.
    pub fields: Vec<Field>,
}

/// Everything that the attributes of one group say.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Group {
    /// The version, if it is stated and known.
    pub version: Option<ImageVersion>,
    /// The pyramids.
    pub multiscales: Vec<Multiscale>,
    /// How they are drawn.
    pub omero: Option<Omero>,
    /// `image-label`, if this is a label image.
    pub label: Option<Labels>,
    /// The labels or masks below this group, if it is the group of them.
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
