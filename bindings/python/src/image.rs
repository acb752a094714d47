//! OME-Zarr images.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::image::ImageOverview;
use zaro::image::render::{
    ChannelSetting, Depth, LabelChoice, Projection, Region, Request, Rows, Size, View, render_to,
};
use zaro::image::validate::{ImageValidateOptions, validate};
use zaro::{Error, Zarr};

use crate::array::Array;
use crate::buffer::Memory;
use crate::error::Result;
use crate::json;
use crate::run::{ask, wait};

fn opened(zarr: &Bound<'_, crate::zarr::Zarr>) -> std::sync::Arc<Zarr> {
    zarr.get().zarr.clone()
}

/// What the images at `path` are: levels, axes, channels, labels.
#[pyfunction]
pub(crate) fn image_overview<'py>(
    py: Python<'py>,
    zarr: &Bound<'py, crate::zarr::Zarr>,
    path: &str,
) -> Result<Bound<'py, PyAny>> {
    let zarr = opened(zarr);
    let overview = ask(py, async { ImageOverview::of(&zarr, path).await })?;
    Ok(json::to_python(py, &overview.to_json())?)
}

/// The levels of the image at `path`, the finest first, and its labels.
#[pyfunction]
pub(crate) fn image_levels(
    py: Python<'_>,
    zarr: &Bound<'_, crate::zarr::Zarr>,
    path: &str,
) -> Result<(Vec<Array>, Vec<String>)> {
    let zarr = opened(zarr);
    let (arrays, labels) = ask(py, async {
        let zaro::image::Found::Image(image) = zaro::image::find(&zarr, path).await? else {
            return Err(Error::usage("this is a collection of images; name one of them"));
        };
        let labels = image.labels(&zarr).await?;
        let arrays = image.arrays(&zarr, image.multiscale(None)?).await?;
        Ok((arrays, labels.into_iter().map(|label| label.path).collect()))
    })?;
    Ok((arrays.into_iter().map(|array| Array::new(array, Some(zarr.clone()))).collect(), labels))
}

/// Rows of RGBA in memory.
#[derive(Default)]
struct Pixels {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

impl Rows for Pixels {
    fn begin(&mut self, width: u32, height: u32) -> zaro::Result<()> {
        (self.width, self.height) = (width, height);
        let bytes = u64::from(width).saturating_mul(height.into()).saturating_mul(4);
        let most = || Error::usage(format!("{width} x {height} pixels are more than there is memory for"));
        let bytes = usize::try_from(bytes).map_err(|_| most())?;
        self.bytes.try_reserve_exact(bytes).map_err(|_| most())
    }

    fn put(&mut self, row: &[u8]) -> zaro::Result<()> {
        self.bytes.extend_from_slice(row);
        Ok(())
    }
}

/// How an image is drawn, from a dict.
fn request(given: &Bound<'_, PyDict>) -> Result<Request> {
    let mut request = Request::default();
    let (mut z, mut project) = (None::<(u64, u64)>, None);
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        match name.extract::<&str>()? {
            "channels" => {
                let channels: Vec<String> = value.extract()?;
                request.settings.channels =
                    channels.iter().map(|c| ChannelSetting::parse(c)).collect::<zaro::Result<_>>()?;
            }
            "labels" => {
                request.settings.labels = match value.extract::<bool>() {
                    Ok(true) => LabelChoice::All,
                    Ok(false) => LabelChoice::None,
                    Err(_) => LabelChoice::Named(value.extract()?),
                }
            }
            "opacity" => request.settings.opacity = value.extract()?,
            "multiscale" => request.settings.multiscale = Some(value.extract()?),
            "image" => request.image = Some(value.extract()?),
            "crop" => {
                let (x, y, width, height) = value.extract()?;
                request.view.region = Some(Region { x, y, width, height });
            }
            "size" => {
                request.view.size = Some(match value.extract::<u32>() {
                    Ok(longest) => Size::Longest(longest),
                    Err(_) => {
                        let (width, height) = value.extract()?;
                        Size::Exactly(width, height)
                    }
                });
            }
            "level" => request.view.level = Some(value.extract()?),
            "t" => request.view.t = Some(value.extract()?),
            "z" => {
                z = Some(match value.extract::<u64>() {
                    Ok(plane) => (plane, plane.saturating_add(1)),
                    Err(_) => value.extract()?,
                });
            }
            "project" => {
                project = Some(match value.extract::<&str>()? {
                    "max" => Projection::Max,
                    "mean" => Projection::Mean,
                    _ => return Err(Error::usage("project is 'max' or 'mean'").into()),
                });
            }
            other => return Err(Error::usage(format!("there is no option {other:?} for a picture")).into()),
        }
    }
    let View { depth, .. } = &mut request.view;
    *depth = match (project, z) {
        (Some(how), z) => Depth::Projected(how, z.map(|(a, b)| a..b)),
        (None, Some((a, b))) if b == a.saturating_add(1) => Depth::Plane(a),
        (None, Some(_)) => return Err(Error::usage("several planes need project='max' or 'mean'").into()),
        (None, None) => Depth::Default,
    };
    Ok(request)
}

/// Draws the image at `path`: RGBA, with its width and height, and what is to be said about it.
#[pyfunction]
pub(crate) fn image_render(
    py: Python<'_>,
    zarr: &Bound<'_, crate::zarr::Zarr>,
    path: &str,
    options: &Bound<'_, PyDict>,
) -> Result<(Memory, u32, u32, Vec<String>)> {
    let zarr = opened(zarr);
    let mut request = request(options)?;
    request.settings.memory = crate::run::context().memory() / 2;
    let (pixels, notes) = wait(py, None, |task| async move {
        let mut pixels = Pixels::default();
        let drawn = task.unless_cancelled(render_to(&zarr, path, &request, &mut pixels)).await?;
        Ok((pixels, drawn.notes))
    })?;
    Ok((Memory::new(pixels.bytes), pixels.width, pixels.height, notes))
}

/// Checks the image's metadata against its specification.
#[pyfunction]
pub(crate) fn image_validate<'py>(
    py: Python<'py>,
    zarr: &Bound<'py, crate::zarr::Zarr>,
    path: &str,
    uri: &str,
    strict: bool,
) -> Result<Bound<'py, PyAny>> {
    let zarr = opened(zarr);
    let options = ImageValidateOptions::default();
    let report = ask(py, async { validate(&zarr, path, &options).await })?;
    Ok(json::to_python(py, &report.json(uri, report.is_valid(strict)))?)
}

/// Converts pictures of microscopes and others (TIFF, OME-TIFF, PNG, JPEG, npy) to an image.
#[pyfunction]
pub(crate) fn image_convert<'py>(
    py: Python<'py>,
    files: Vec<std::path::PathBuf>,
    store: &Bound<'py, crate::store::Store>,
    path: &str,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let store = store.get().store.clone();
    let mut how = zaro::image::convert::ConvertOptions::default().with_context(crate::run::context());
    for (name, value) in options {
        if value.is_none() {
            continue;
        }
        match name.extract::<&str>()? {
            "levels" => how.levels = Some(value.extract()?),
            "chunks" => how.chunks = Some(value.extract()?),
            "shards" => how.shards = Some(value.extract()?),
            "codecs" => how.codecs = Some(crate::hierarchy::codecs(&value)?),
            "name" => how.name = Some(value.extract()?),
            "pixel_size" => how.pixel_size = Some(value.extract()?),
            "unit" => how.unit = Some(value.extract()?),
            "overwrite" => how.existing = crate::hierarchy::existing(value.extract()?),
            other => return Err(Error::usage(format!("there is no option {other:?} for converting")).into()),
        }
    }
    let made = wait(py, progress.as_ref(), |task| async move {
        let open = move || zaro::image::open_sources(&files, &zaro::image::ImageSourceOptions::default());
        let sources = zaro::blocking::spawn_blocking(open).await?;
        let sources: Vec<_> = sources.into_iter().map(std::sync::Arc::new).collect();
        zaro::image::convert::convert(&sources, &store, path, &how.with_task(task)).await
    })?;
    let told: zaro::meta::Json = made.iter().map(zaro::image::convert::Converted::json).collect();
    Ok(json::to_python(py, &told)?)
}
