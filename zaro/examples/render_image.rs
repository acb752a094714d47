//! Make an OME-Zarr image of a file, look at it, and draw it.
//!
//! `cargo run --example render_image`

use std::sync::Arc;

use zaro::image::convert::{ConvertOptions, convert};
use zaro::image::render::{PngRows, Request, Size, View, render_to};
use zaro::image::{Found, ImageSourceOptions, find, open_sources};
use zaro::store::{MemoryStore, SharedStore};
use zaro::{OpenOptions, Result, Zarr, blocking};

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ramp.npy");
    std::fs::write(&file, ramp(128, 64))?;

    blocking::block_on(async {
        // TIFF, OME-TIFF, ImageJ's, PNG, JPEG and numpy's files.
        let sources: Vec<_> =
            open_sources(&[file], &ImageSourceOptions::default())?.into_iter().map(Arc::new).collect();
        let store: SharedStore = Arc::new(MemoryStore::new());
        let options = ConvertOptions::default().with_levels(Some(2));
        convert(&sources, &store, "", &options).await?;

        let zarr = Zarr::from_store(store, OpenOptions::default()).await?;
        let Found::Image(image) = find(&zarr, "").await? else { unreachable!("an image was made") };
        println!("{} with {} levels", image.version, image.multiscales.first().map_or(0, |m| m.levels.len()));

        // The level is chosen by the size asked for; only its chunks are read.
        let request =
            Request { view: View { size: Some(Size::Longest(32)), ..View::default() }, ..Request::default() };
        let mut png = PngRows::new(Vec::new());
        let drawn = render_to(&zarr, "", &request, &mut png).await?;
        let png = png.finish()?;
        println!("{drawn:?}: {} bytes of PNG", png.len());
        assert!(png.starts_with(b"\x89PNG"));
        Ok(())
    })
}

/// A numpy file of `height` by `width` bytes that grow to the right.
fn ramp(width: u8, height: u8) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({height}, {width}), }}");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((118u16).to_le_bytes());
    out.extend(format!("{header:<117}\n").into_bytes());
    out.extend((0..height).flat_map(|_| (0..width).map(|x| 2 * x)));
    out
}
