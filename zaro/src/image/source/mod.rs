//! Reads image files: TIFF (classic, BigTIFF, OME-TIFF, ImageJ), PNG, JPEG, numpy, and sequences of files.
//!
//! An [`ImageSource`] describes a file in OME-Zarr terms (axes t, c, z, y, x, pixel sizes, channels) and reads any part
//! of it. [`open()`] detects the format by the first bytes. Reading is lazy, and limited to the strips or tiles of the
//! part requested.
//!
//! * [`ImageSource::read`] reads a part of one plane, [`ImageSource::read_block`] a block of all five axes.
//! * [`Pixels`] is the trait of file formats.

mod file;
mod natural;
pub(crate) mod npy;
mod ome;
mod pattern;
mod picture;
#[cfg(test)]
mod tests;
mod tiff;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use crate::context::install;
use crate::error::{Error, Result, usage};
use crate::image::model::{Axis, Channel};
use crate::meta::DataType;
use crate::num;

pub use ome::metadata_only;
pub use pattern::expand;

/// The axes of images, in the order of OME-Zarr.
pub(crate) const AXES: [char; 5] = ['t', 'c', 'z', 'y', 'x'];

/// The index of time among the five axes.
pub(crate) const T: usize = 0;
/// The index of channels.
pub(crate) const C: usize = 1;
/// The index of z.
pub(crate) const Z: usize = 2;
/// The index of rows.
pub(crate) const Y: usize = 3;
/// The index of columns.
pub(crate) const X: usize = 4;

/// A part of the planes at one time and depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneWindow {
    /// The time.
    pub t: u64,
    /// The channels.
    pub c: Range<u64>,
    /// The depth.
    pub z: u64,
    /// The rows.
    pub y: Range<u64>,
    /// The columns.
    pub x: Range<u64>,
}

impl PlaneWindow {
    /// The number of channels, rows and columns.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        [&self.c, &self.y, &self.x].map(|r| r.end.saturating_sub(r.start))
    }

    /// The size in bytes, with elements of `size` bytes.
    pub fn bytes(&self, size: usize) -> Result<usize> {
        let [c, y, x] = self.counts();
        num::product_usize(&[c, y, x, num::u64_of(size)])
    }
}

/// A file format that is read plane by plane.
pub(crate) trait Pixels: Send + Sync {
    /// Reads a window: little-endian, channel by channel, row by row. It must be within the image, and `out` have its
    /// size.
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()>;

    /// The channels, rows and columns that are decoded together: reading less costs as much.
    fn grain(&self) -> [u64; 3];
}

/// An image in files.
#[derive(Clone)]
pub struct ImageSource {
    /// Its name.
    pub name: String,
    /// Its extents along t, c, z, y, x.
    pub sizes: [u64; 5],
    /// The axes that the file declares, whatever their extent.
    pub declared: [bool; 5],
    /// The pixel size along each axis, if the file states it.
    pub scale: [Option<f64>; 5],
    /// The units of these.
    pub units: [Option<String>; 5],
    /// The type of its elements.
    pub data_type: DataType,
    /// Channel metadata: empty, or one per channel.
    pub channels: Vec<Channel>,
    /// Whether the first three channels are red, green and blue.
    pub is_rgb: bool,
    /// The OME-XML it came with. Several images of one file share it.
    pub xml: Option<Arc<str>>,
    /// Warnings about the file.
    pub warnings: Vec<String>,
    /// The files it is in.
    pub files: Vec<PathBuf>,
    pixels: Arc<dyn Pixels>,
}

impl fmt::Debug for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("sizes", &self.sizes)
            .field("data_type", &self.data_type)
            .finish_non_exhaustive()
    }
}

/// Options for [`open()`].
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ImageSourceOptions {
    /// The axes, in the order of the file: for numpy files, and for the pages of TIFF files that do not state them.
    /// Letters of t, c, z, y, x.
    pub axes: Option<String>,
    /// The file name pattern: see [`expand`].
    pub pattern: Option<String>,
    /// Fill missing planes with zeros.
    pub allow_missing: bool,
    /// Keep palette indexes instead of looking up colours, as for labels.
    pub indexes: bool,
}

impl ImageSource {
    pub(crate) fn new(name: String, sizes: [u64; 5], data_type: DataType, pixels: Arc<dyn Pixels>) -> Self {
        Self {
            name,
            sizes,
            declared: sizes.map(|n| n != 1),
            scale: [None; 5],
            units: Default::default(),
            data_type,
            channels: Vec::new(),
            is_rgb: false,
            xml: None,
            warnings: Vec::new(),
            files: Vec::new(),
            pixels,
        }
    }

    /// The channels, rows and columns that are decoded together.
    #[must_use]
    pub fn grain(&self) -> [u64; 3] {
        self.pixels.grain()
    }

    pub(crate) fn pixels(&self) -> Arc<dyn Pixels> {
        self.pixels.clone()
    }

    /// The indexes of the axes of the resulting image: y, x and those longer than one; if `kept`, also those that the
    /// file declares.
    #[must_use]
    pub fn used(&self, kept: bool) -> Vec<usize> {
        let more = |i: usize| self.sizes.get(i).is_some_and(|n| *n != 1);
        let said = |i: usize| kept && self.declared.get(i).copied().unwrap_or(false);
        (0..5).filter(|i| *i >= Y || more(*i) || said(*i)).collect()
    }

    /// These axes of the five, with their units.
    #[must_use]
    pub fn axes(&self, used: &[usize]) -> Vec<Axis> {
        let axis = |i: &usize| {
            let name = AXES.get(*i).map_or(String::new(), char::to_string);
            Axis { unit: self.units.get(*i).cloned().flatten(), ..Axis::named(&name) }
        };
        used.iter().map(axis).collect()
    }

    /// Reads a part of the planes at one time and depth.
    pub fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let [t, c, z, y, x] = self.sizes;
        let inside = |r: &Range<u64>, n: u64| r.start <= r.end && r.end <= n;
        let fits = window.t < t
            && window.z < z
            && inside(&window.c, c)
            && inside(&window.y, y)
            && inside(&window.x, x);
        if !fits {
            return Err(usage!("{window:?} is outside an image of shape {:?}", self.sizes));
        }
        let wanted = window.bytes(self.data_type.size())?;
        if wanted != out.len() {
            return Err(usage!("the window has {wanted} bytes, but the buffer has {}", out.len()));
        }
        if wanted == 0 {
            return Ok(());
        }
        self.pixels.read(window, out)
    }

    /// Reads a block in parallel: `count` positions from `start` on, along t, c, z, y, x, in this order.
    pub fn read_block(&self, start: [u64; 5], count: [u64; 5], out: &mut [u8]) -> Result<()> {
        let [t0, c0, z0, y0, x0] = start;
        let [_, cs, zs, ys, xs] = count;
        let end = |from: u64, n: u64| from.saturating_add(n);
        let plane = num::product_usize(&[ys, xs, num::u64_of(self.data_type.size())])?;
        let total = num::product_usize(&count)?.checked_mul(self.data_type.size());
        if total != Some(out.len()) {
            return Err(usage!("a block of {count:?} does not fit a buffer of {} bytes", out.len()));
        }
        if plane == 0 || out.is_empty() {
            return Ok(());
        }
        let window =
            |t: u64, c: Range<u64>, z: u64| PlaneWindow { t, c, z, y: y0..end(y0, ys), x: x0..end(x0, xs) };
        let together = self.grain().first().copied().unwrap_or(1);
        if together <= 1 || cs == 1 {
            let all = out.par_chunks_mut(plane).enumerate();
            let one = |(i, out): (usize, &mut [u8])| {
                let i = num::u64_of(i);
                let (z, rest) = (i % zs.max(1), i / zs.max(1));
                let (c, t) = (rest % cs.max(1), rest / cs.max(1));
                let c = end(c0, c);
                self.read(&window(end(t0, t), c..end(c, 1), end(z0, z)), out)
            };
            return install(|| all.try_for_each(one));
        }
        let volume = plane.saturating_mul(num::usize_of(cs.saturating_mul(zs))?);
        let all = out.par_chunks_mut(volume.max(1)).enumerate();
        let one = |(t, out): (usize, &mut [u8])| {
            let t = end(t0, num::u64_of(t));
            if zs == 1 {
                return self.read(&window(t, c0..end(c0, cs), z0), out);
            }
            // Channels that are adjacent in the file are separated by all depths here.
            let mut planes = vec![0; plane.saturating_mul(num::usize_of(cs)?)];
            for z in 0..zs {
                self.read(&window(t, c0..end(c0, cs), end(z0, z)), &mut planes)?;
                let z = num::usize_of(z)?;
                let places = out.chunks_exact_mut(plane).skip(z).step_by(num::usize_of(zs)?);
                for (to, from) in places.zip(planes.chunks_exact(plane)) {
                    to.copy_from_slice(from);
                }
            }
            Ok(())
        };
        install(|| all.try_for_each(one))
    }
}

/// Opens one or several files: as one image, or as several if a file holds several.
pub fn open(files: &[PathBuf], options: &ImageSourceOptions) -> Result<Vec<ImageSource>> {
    if let Some(axes) = &options.axes {
        axis_letters(axes)?;
    }
    match files {
        [] => Err(Error::usage("no input files")),
        [one] if options.pattern.is_none() => open_file(one, options),
        // Each file of a set refers to all others.
        [first, ..] if options.pattern.is_none() && tiff::is_set(first, files)? => open_file(first, options),
        many => Ok(vec![pattern::open(many, options)?]),
    }
}

fn open_file(path: &Path, options: &ImageSourceOptions) -> Result<Vec<ImageSource>> {
    let at = |e: Error| e.with_store(path.display());
    let file = file::SourceFile::open(path)?;
    let magic = file.head(8).map_err(at)?;
    let found = match magic.as_slice() {
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => tiff::open(file, options),
        [0x89, b'P', b'N', b'G', ..] => picture::png(file, options).map(|s| vec![s]),
        [0xff, 0xd8, 0xff, ..] => picture::jpeg(file).map(|s| vec![s]),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => npy::open(file, options).map(|s| vec![s]),
        [b'<', ..] | [0xef, 0xbb, 0xbf, b'<', ..] => tiff::open_companion(file, options),
        [] => Err(Error::invalid("the file is empty")),
        _ => Err(Error::unsupported("only TIFF, OME-XML, PNG, JPEG and numpy files can be converted")),
    };
    let mut found = found.map_err(at)?;
    for source in &mut found {
        if !source.files.iter().any(|f| f == path) {
            source.files.push(path.to_owned());
        }
    }
    Ok(found)
}

/// The file name without directory and extension.
fn stem(path: &Path) -> String {
    let name = path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
    let lower = name.to_ascii_lowercase();
    for ending in [".companion.ome", ".ome.tiff", ".ome.tif", ".ome.tf2", ".ome.tf8", ".ome.btf"] {
        if lower.ends_with(ending) {
            return name.get(..name.len() - ending.len()).unwrap_or(&name).to_owned();
        }
    }
    Path::new(&name).file_stem().map_or(name.clone(), |s| s.to_string_lossy().into_owned())
}

/// The indexes of these letters among t, c, z, y, x; they must be distinct.
pub(crate) fn axis_letters(axes: &str) -> Result<Vec<usize>> {
    let mut places = Vec::new();
    for letter in axes.chars().filter(|c| *c != ',' && !c.is_whitespace()) {
        let place = AXES.iter().position(|a| *a == letter.to_ascii_lowercase());
        match place {
            Some(place) if !places.contains(&place) => places.push(place),
            _ => {
                return Err(usage!("axes must be letters of tczyx, each at most once, not {axes:?}"));
            }
        }
    }
    if !places.contains(&Y) || !places.contains(&X) {
        return Err(usage!("axes {axes:?} must include y and x"));
    }
    Ok(places)
}
