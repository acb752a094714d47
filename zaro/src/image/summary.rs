//! What there is to say of an image before its pixels are read: sizes, levels, channels, labels.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::array::Array;
use crate::error::{ErrorKind, Result};
use crate::group::Zarr;
use crate::image::document;
use crate::image::find::{self, Found, Image, LabelImage};
use crate::image::model::{Axis, Level, Multiscale};
use crate::image::version::Version;
use crate::meta::path::join;
use crate::meta::{DataType, Json};
use crate::num;

/// Images that are looked at side by side.
const IMAGES_IN_FLIGHT: usize = 16;

/// One array of a pyramid.
#[derive(Debug, Clone)]
pub struct LevelSummary {
    /// What the document says of it.
    pub level: Level,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The shape of its chunks; of those in a shard, where there are shards.
    pub chunks: Vec<u64>,
    /// The shape of its shards.
    pub shards: Option<Vec<u64>>,
    /// The type of its pixels.
    pub data_type: DataType,
}

/// Labels or a mask, with what their arrays say.
#[derive(Debug, Clone)]
pub struct LabelSummary {
    /// What the documents say.
    pub label: LabelImage,
    /// Its levels.
    pub levels: Vec<LevelSummary>,
}

/// A pyramid, with what its arrays say.
#[derive(Debug, Clone)]
pub struct PyramidSummary {
    /// What the document says.
    pub multiscale: Multiscale,
    /// Its levels.
    pub levels: Vec<LevelSummary>,
}

/// An image.
#[derive(Debug, Clone)]
pub struct Summary {
    /// What the documents say.
    pub image: Image,
    /// Its pyramids.
    pub pyramids: Vec<PyramidSummary>,
    /// Its labels and masks.
    pub labels: Vec<LabelSummary>,
    /// Those that are listed but cannot be read, and why.
    pub missing: Vec<String>,
}

/// Everything at a path: what it is, and each image of it.
#[derive(Debug, Clone)]
pub struct Overview {
    /// What is at the path.
    pub found: Found,
    /// The images, in the order of the documents. An image that cannot be read is an error in its place.
    pub images: Vec<(String, std::result::Result<Summary, String>)>,
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

impl Summary {
    /// Looks at the arrays of an image and of its labels.
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
        let mut out = Json::object();
        out.set("path", Json::string(image.path.as_str()));
        out.set("version", Json::string(image.version.text()));
        out.set("seed", Json::Bool(image.version == Version::Seed));
        out.set("assumed", Json::Bool(image.assumed));
        let pyramids = self.pyramids.iter().map(|p| {
            let mut one = Json::object();
            one.set("name", text(p.multiscale.name.as_deref()));
            one.set("type", text(p.multiscale.method.as_deref()));
            one.set("axes", axes(&p.multiscale.axes, p.levels.first()));
            one.set("levels", levels(&p.levels));
            one
        });
        out.set("multiscales", Json::Array(pyramids.collect()));
        out.set("omero", image.omero.as_ref().map_or(Json::Null, |o| document::omero(Version::V06, o)));
        let labels = self.labels.iter().map(|l| {
            let mut one = Json::object();
            one.set("name", Json::string(l.label.name.as_str()));
            one.set("path", Json::string(l.label.path.as_str()));
            one.set("mask", Json::Bool(l.label.is_mask));
            one.set("axes", axes(&l.label.axes, l.levels.first()));
            one.set("levels", levels(&l.levels));
            let colors = l.label.labels.colors.iter().map(|c| {
                let mut color = Json::object();
                color.set("value", Json::int(c.value));
                color.set("rgba", Json::Array(c.rgba.iter().map(Json::int).collect()));
                color
            });
            one.set("colors", Json::Array(colors.collect()));
            one.set("properties", Json::int(l.label.labels.properties.len()));
            one.set("source", text(l.label.labels.source.as_deref()));
            one
        });
        out.set("labels", Json::Array(labels.collect()));
        out.set("missing", Json::Array(self.missing.iter().map(|m| Json::string(m.as_str())).collect()));
        out
    }
}

impl Overview {
    /// Looks at what is at `path`, and at each image of it.
    pub async fn of(zarr: &Zarr, path: &str) -> Result<Self> {
        let found = find::find(zarr, path).await?;
        if let Found::Image(image) = &found {
            let summary = Summary::of(zarr, (**image).clone()).await?;
            return Ok(Self { images: vec![(image.path.clone(), Ok(summary))], found });
        }
        let paths = find::images(zarr, path).await?;
        let images = stream::iter(paths)
            .map(|path| async move {
                let summary = async { Summary::of(zarr, find::image_at(zarr, &path).await?).await };
                match summary.await {
                    Ok(summary) => Ok((path, Ok(summary))),
                    // One bad image does not hide the others; a store that cannot be read is another matter.
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
        let mut out = Json::object();
        let (kind, version, path) = match &self.found {
            Found::Image(image) => ("image", image.version, &image.path),
            Found::Plate { version, path, .. } => ("plate", *version, path),
            Found::Well { version, path, .. } => ("well", *version, path),
            Found::Collection { version, path, .. } => ("collection", *version, path),
        };
        out.set("kind", Json::string(kind));
        out.set("version", Json::string(version.text()));
        out.set("path", Json::string(path.as_str()));
        if let Found::Plate { plate, .. } = &self.found {
            let names =
                |list: &[String]| Json::Array(list.iter().map(|n| Json::string(n.as_str())).collect());
            out.set("name", text(plate.name.as_deref()));
            out.set("rows", names(&plate.rows));
            out.set("columns", names(&plate.columns));
            let wells = plate.wells.iter().map(|w| {
                let mut well = Json::object();
                well.set("path", Json::string(join(path, &w.path)));
                well.set("row", Json::int(w.row));
                well.set("column", Json::int(w.column));
                well
            });
            out.set("wells", Json::Array(wells.collect()));
            out.set(
                "acquisitions",
                Json::Array(plate.acquisitions.iter().map(|a| Json::int(a.id)).collect()),
            );
        }
        let images = self.images.iter().map(|(path, summary)| match summary {
            Ok(summary) => summary.to_json(),
            Err(e) => {
                let mut out = Json::object();
                out.set("path", Json::string(path.as_str()));
                out.set("error", Json::string(e.as_str()));
                out
            }
        });
        out.set("images", Json::Array(images.collect()));
        out
    }
}

fn text(text: Option<&str>) -> Json {
    text.map_or(Json::Null, Json::string)
}

/// The size of a pixel along dimension `i`, and of the whole, where the document says so.
#[must_use]
pub fn extent(level: &LevelSummary, i: usize) -> Option<(f64, f64)> {
    let pixel = *level.level.scale.as_ref()?.get(i)?;
    let count = num::f64_of_u64(*level.shape.get(i)?);
    Some((pixel, pixel * count))
}

fn axes(axes: &[Axis], first: Option<&LevelSummary>) -> Json {
    let items = axes.iter().enumerate().map(|(i, axis)| {
        let mut out = Json::object();
        out.set("name", Json::string(axis.name.as_str()));
        out.set("type", text(axis.kind.text()));
        out.set("unit", text(axis.unit.as_deref()));
        let size = first.and_then(|l| l.shape.get(i));
        out.set("size", size.map_or(Json::Null, Json::int));
        let extent = first.and_then(|l| extent(l, i));
        out.set("pixelSize", extent.map_or(Json::Null, |(pixel, _)| Json::float(pixel)));
        out.set("extent", extent.map_or(Json::Null, |(_, whole)| Json::float(whole)));
        out
    });
    Json::Array(items.collect())
}

fn levels(levels: &[LevelSummary]) -> Json {
    let ints = |list: &[u64]| Json::Array(list.iter().map(Json::int).collect());
    let floats = |list: &Option<Vec<f64>>| {
        list.as_ref().map_or(Json::Null, |l| Json::Array(l.iter().map(|x| Json::float(*x)).collect()))
    };
    let items = levels.iter().map(|l| {
        let mut out = Json::object();
        out.set("path", Json::string(l.level.path.as_str()));
        out.set("shape", ints(&l.shape));
        out.set("chunks", ints(&l.chunks));
        out.set("shards", l.shards.as_deref().map_or(Json::Null, ints));
        out.set("dataType", Json::string(l.data_type.to_string()));
        out.set("scale", floats(&l.level.scale));
        out.set("translation", floats(&l.level.translation));
        out
    });
    Json::Array(items.collect())
}
