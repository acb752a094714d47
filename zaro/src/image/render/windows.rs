//! Windows for every channel of an image, from its pixels.

use crate::error::Result;
use crate::group::Zarr;
use crate::image::find::Image;
use crate::image::model::Window;
use crate::image::render::look;
use crate::image::render::source::{Axes, Pyramid};
use crate::meta::path::join;

/// Windows in which most of each channel can be seen: `start` and `end` leave a few of the darkest and brightest pixels
/// of the smallest level out. `min` and `max` are left alone.
pub async fn windows(zarr: &Zarr, image: &Image, multiscale: Option<&str>) -> Result<Vec<Window>> {
    let multiscale = image.multiscale(multiscale)?;
    let paths: Vec<String> =
        multiscale.levels.iter().map(|level| join(&image.path, level.path.trim_matches('/'))).collect();
    let pyramid = Pyramid::open(zarr, &paths, &multiscale.axes).await?;
    let t = image.omero.as_ref().and_then(|o| o.default_t).unwrap_or(0);
    let mut all = Vec::new();
    for channel in 0..Axes::extent(pyramid.first()?, pyramid.axes.c) {
        let (start, end) = look::guess(&pyramid, channel, t).await?;
        all.push(Window { start: Some(start), end: Some(end), min: None, max: None });
    }
    Ok(all)
}
