//! Summarizes images from their metadata: sizes, levels, channels, labels.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::array::Array;
use crate::boxed;
use crate::error::{ErrorKind, Result};
use crate::group::Zarr;
use crate::image::document;
use crate::image::find::{self, Found, Image, LabelImage};
use crate::image::model::{Axis, LabelColor, Level, Multiscale, WellPlace};
use crate::image::version::ImageVersion;
use crate::meta::path::join;
use crate::meta::{DataType, Json};
use crate::num;

/// Images opened concurrently.
const IMAGES_IN_FLIGHT: usize = 16;

/// One array of a multiscale.
#[derive(Debug, Clone)]
pub struct LevelSummary {
    /// Its metadata in the document.
    pub level: Level,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The shape of its chunks; of the inner chunks, if there are shards.
    pub chunks: Vec<u64>,
    /// The shape of its shards.
    pub shards: Option<Vec<u64>>,
    /// The type of its pixels.
    pub data_type: DataType,
}

/// Labels or a mask, with facts from their arrays.
#[derive(Debug, Clone)]
pub struct LabelSummary {
    /// Its metadata.
    pub label: LabelImage,
    /// Its levels.
    pub levels: Vec<LevelSummary>,
}

/// A multiscale, with facts from its arrays.
#[derive(Debug, Clone)]
pub struct PyramidSummary {
    /// Its metadata.
    pub multiscale: Multiscale,
    /// Its levels.
    pub levels: Vec<LevelSummary>,
}

/// An image.
#[derive(Debug, Clone)]
pub struct ImageSummary {
    /// Its metadata.
    pub image: Image,
    /// Its multiscales.
    pub pyramids: Vec<PyramidSummary>,
    /// Its labels and masks.
    pub labels: Vec<LabelSummary>,
    /// Labels that are listed but cannot be read, and why.
    pub missing: Vec<String>,
}

/// The object at a path and all its images.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The object at the path.
    pub found: Found,
    /// The images, in document order. An image that cannot be read is an error in its place.
    pub images: Vec<(String, std::result::Result<ImageSummary, String>)>,
}

async fn level(array: Result<Array>, level: &Level) -> Result<LevelSummary> {
    let array = array?;
    let meta = array.meta();
    let (outer, inner) = (meta.grid.largest(), meta.inner_chunks());
    Ok(LevelSummary {
        level: level.clone(),
        shape: meta.shape.clone(),
        shards: inner.is_some().then(|| outer.clone()),
        chunks: inner.unwrap_or(outer),
        data_type: meta.data_type.clone(),
    })
}

async fn label(zarr: &Zarr, image: &Image, folder: &str, name: &str) -> Result<LabelSummary> {
    let label = image.label_image(zarr, folder, name).await?;
    let mut levels = Vec::with_capacity(label.levels.len());
    for l in &label.levels {
        levels.push(level(zarr.array(&l.path).await, l).await?);
    }
    Ok(LabelSummary { label, levels })
}

impl ImageSummary {
    /// Opens the arrays of an image and of its labels.
    #[boxed]
    pub async fn of(zarr: &Zarr, image: Image) -> Result<Self> {
        let mut pyramids = Vec::with_capacity(image.multiscales.len());
        for multiscale in &image.multiscales {
            let mut levels = Vec::with_capacity(multiscale.levels.len());
            for l in &multiscale.levels {
                levels.push(level(image.array(zarr, l).await, l).await?);
            }
            pyramids.push(PyramidSummary { multiscale: multiscale.clone(), levels });
        }
        let mut labels = Vec::new();
        let mut missing = Vec::new();
        for (folder, name) in image.label_names(zarr).await? {
            match label(zarr, &image, &folder, &name).await {
                Ok(label) => labels.push(label),
                // Labels that are missing or broken do not hide the image.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {
                    missing.push(format!("labels {name:?}: {e}"));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Self { image, pyramids, labels, missing })
    }

    /// The document of `zaro image info --json` for one image.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let image = &self.image;
        let pyramid = |p: &PyramidSummary| {
            Json::from([
                ("name", p.multiscale.name.as_deref().into()),
                ("type", p.multiscale.method.as_deref().into()),
                ("axes", axes(&p.multiscale.axes, p.levels.first())),
                ("levels", levels(&p.levels)),
            ])
        };
        let color =
            |c: &LabelColor| Json::from([("value", c.value.into()), ("rgba", c.rgba.as_slice().into())]);
        let label = |l: &LabelSummary| {
            let LabelImage { name, path, is_mask, labels, .. } = &l.label;
            Json::from([
                ("name", name.into()),
                ("path", path.into()),
                ("mask", (*is_mask).into()),
                ("axes", axes(&l.label.axes, l.levels.first())),
                ("levels", levels(&l.levels)),
                ("colors", labels.colors.iter().map(color).collect()),
                ("properties", labels.properties.len().into()),
                ("source", labels.source.as_deref().into()),
            ])
        };
        Json::from([
            ("path", (&image.path).into()),
            ("version", image.version.text().into()),
            ("seed", (image.version == ImageVersion::Seed).into()),
            ("assumed", image.assumed.into()),
            ("multiscales", self.pyramids.iter().map(pyramid).collect()),
            ("omero", image.omero.as_ref().map(|o| document::omero(ImageVersion::V06, o)).into()),
            ("labels", self.labels.iter().map(label).collect()),
            ("missing", (&self.missing).into()),
        ])
    }
}

impl Overview {
    /// Opens the object at `path` and each of its images.
    #[boxed]
    pub async fn of(zarr: &Zarr, path: &str) -> Result<Self> {
        let found = find::find(zarr, path).await?;
        if let Found::Image(image) = &found {
            let summary = ImageSummary::of(zarr, (**image).clone()).await?;
            return Ok(Self { images: vec![(image.path.clone(), Ok(summary))], found });
        }
        let paths = find::images(zarr, path).await?;
        let images = stream::iter(paths)
            .map(|path| async move {
                let summary = async { ImageSummary::of(zarr, find::image_at(zarr, &path).await?).await };
                match summary.await {
                    Ok(summary) => Ok((path, Ok(summary))),
                    // One bad image does not hide the others, but an unreadable store fails.
                    Err(e) if e.kind() == ErrorKind::Io => Err(e),
                    Err(e) => Ok((path, Err(e.to_string()))),
                }
            })
            .buffered(IMAGES_IN_FLIGHT)
            .try_collect()
            .await?;
        Ok(Self { found, images })
    }

    /// The document of `zaro image info --json`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let (kind, version, path) = match &self.found {
            Found::Image(image) => ("image", image.version, &image.path),
            Found::Plate { version, path, .. } => ("plate", *version, path),
            Found::Well { version, path, .. } => ("well", *version, path),
            Found::Collection { version, path, .. } => ("collection", *version, path),
        };
        let mut out =
            Json::from([("kind", kind.into()), ("version", version.text().into()), ("path", path.into())]);
        if let Found::Plate { plate, .. } = &self.found {
            let well = |w: &WellPlace| {
                let place = join(path, &w.path);
                Json::from([("path", place.into()), ("row", w.row.into()), ("column", w.column.into())])
            };
            out.set("name", plate.name.as_deref());
            out.set("rows", &plate.rows);
            out.set("columns", &plate.columns);
            out.set("wells", plate.wells.iter().map(well).collect::<Json>());
            out.set("acquisitions", plate.acquisitions.iter().map(|a| a.id).collect::<Json>());
        }
        let images = self.images.iter().map(|(path, summary)| match summary {
            Ok(summary) => summary.to_json(),
            Err(e) => Json::from([("path", path.into()), ("error", e.into())]),
        });
        out.set("images", images.collect::<Json>());
        out
    }
}

/// The pixel size and the total size along dimension `i`, if the document states them.
#[must_use]
pub fn extent(level: &LevelSummary, i: usize) -> Option<(f64, f64)> {
    let pixel = *level.level.scale.as_ref()?.get(i)?;
    let count = num::f64_of_u64(*level.shape.get(i)?);
    Some((pixel, pixel * count))
}

fn axes(axes: &[Axis], first: Option<&LevelSummary>) -> Json {
    let item = |(i, axis): (usize, &Axis)| {
        let extent = first.and_then(|l| extent(l, i));
        Json::from([
            ("name", (&axis.name).into()),
            ("type", axis.kind.text().into()),
            ("unit", axis.unit.as_deref().into()),
            ("size", first.and_then(|l| l.shape.get(i)).copied().into()),
            ("pixelSize", extent.map(|(pixel, _)| pixel).into()),
            ("extent", extent.map(|(_, whole)| whole).into()),
        ])
    };
    axes.iter().enumerate().map(item).collect()
}

fn levels(levels: &[LevelSummary]) -> Json {
    let item = |l: &LevelSummary| {
        Json::from([
            ("path", (&l.level.path).into()),
            ("shape", (&l.shape).into()),
            ("chunks", (&l.chunks).into()),
            ("shards", l.shards.as_deref().into()),
            ("dataType", l.data_type.to_string().into()),
            ("scale", l.level.scale.as_deref().into()),
            ("translation", l.level.translation.as_deref().into()),
        ])
    };
    levels.iter().map(item).collect()
}
