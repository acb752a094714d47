//! `zaro image convert`: convert TIFF, PNG, JPEG or numpy files to OME-Zarr.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use zaro::hierarchy::Existing;
use zaro::image::convert::{ConvertOptions, Converted, convert};
use zaro::image::pyramid::Downsampling;
use zaro::image::{ImageSource, ImageSourceOptions, ImageVersion, open_sources};
use zaro::internal::image::units;
use zaro::meta::Json;
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::plural;
use crate::progress::Watch;
use crate::storage::Storage;

const EXAMPLES: &str = "\
Examples:
  A TIFF file of any kind, with its pixel size and channels:
      zaro image convert stack.ome.tif stack.zarr
  One file per plane; braces name the axes of the numbers in the file names:
      zaro image convert 'img_t{t:03}_c{c}_z{z:02}.tif' image.zarr
      zaro image convert plane*.png stack.zarr --pixel-size 2,0.5,0.5 --unit micrometer
  Large shards of small chunks, to a bucket:
      zaro image convert big.tif s3://bucket/big.zarr --chunks 512,512 --shards 4096,4096
  A numpy array, to an older version:
      zaro image convert cells.npy cells.zarr --axes czyx --to 0.4

Axes t, c and z of length 1 are dropped; --keep-axes keeps those the file declares. Smaller
levels are added until y and x are small; --levels 1 adds none. A file of several images becomes
a collection (bioformats2raw.layout) with the images 0, 1, 2; --series converts one of them.";

/// Convert TIFF, PNG, JPEG or numpy files to an image
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Convert {
    /// The files: one, several, a pattern such as img_z{z}.tif or t{t}/img_z{z}.tif
    #[arg(value_name = "INPUT", required = true, num_args = 1..)]
    inputs: Vec<String>,
    /// Where to: a path, s3://, gs://, az://, or a new .ozx or .zip
    #[arg(value_name = "OUTPUT")]
    output: String,
    /// OME-Zarr version to write: 0.4, 0.5 or 0.6
    #[arg(long, value_name = "VERSION", default_value = "0.5", value_parser = parse_version)]
    to: ImageVersion,
    /// Pattern of file names: img_t{t}_c{c}_z{z}.tif
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<String>,
    /// Fill missing planes with zeros
    #[arg(long)]
    allow_missing: bool,
    /// Axes, letters of tczyx: of a numpy file, of the pages of a TIFF file, of a list of files
    #[arg(long, value_name = "LETTERS")]
    axes: Option<String>,
    /// Keep all axes the file declares, including those of length 1
    #[arg(long)]
    keep_axes: bool,
    /// Convert only this image of a file that holds several, from 0
    #[arg(long, value_name = "N")]
    series: Option<usize>,
    /// Name of the image [default: the file name]
    #[arg(long)]
    name: Option<String>,
    /// Pixel size: z,y,x or y,x or one for all [default: from the file]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pixel_size: Option<Vec<f64>>,
    /// Unit of the pixel size, e.g. micrometer or um [default: from the file]
    #[arg(long)]
    unit: Option<String>,
    /// Replace an existing output
    #[arg(long)]
    overwrite: bool,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    storage: Storage,
    /// Number of levels, including the largest
    #[arg(long, value_name = "N", help_heading = "How it is stored")]
    levels: Option<usize>,
    /// Downsampling method: mean, mode, gaussian or decimate
    #[arg(long, value_name = "METHOD", value_parser = parse_method, help_heading = "How it is stored")]
    method: Option<Downsampling>,
}

fn parse_version(text: &str) -> std::result::Result<ImageVersion, String> {
    match ImageVersion::parse(text) {
        Some(version @ (ImageVersion::V04 | ImageVersion::V05 | ImageVersion::V06)) => Ok(version),
        _ => Err("expected 0.4, 0.5 or 0.6".to_owned()),
    }
}

fn parse_method(text: &str) -> std::result::Result<Downsampling, String> {
    Downsampling::parse(text).ok_or_else(|| "expected mean, mode, gaussian or decimate".to_owned())
}

impl Convert {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let sources = self.sources(&self.inputs)?;
        for source in &sources {
            for warning in &source.warnings {
                common.warn(&format!("{}: {warning}", source.name));
            }
        }
        let at = Target { uri: self.output.clone(), path: String::new() };
        let is_ozx = super::is_ozx(&self.output);
        if is_ozx && self.to < ImageVersion::V05 {
            return Err(Error::usage(format!("an .ozx holds OME-Zarr 0.5 or later, not {}", self.to)));
        }
        let (store, path) = common.open_for_writing(&at, false).await?;
        let files: Vec<_> = sources.iter().flat_map(|source| source.files.clone()).collect();
        zaro::hierarchy::check_files_apart(&files, &store, &path).await?;
        let watch = Watch::new(common.progress);
        let options = ConvertOptions::default()
            .with_version(Some(self.to))
            .with_chunks(self.storage.chunk_list()?)
            .with_shards(self.storage.shard_list()?.flatten())
            .with_sharded(is_ozx && self.storage.shards.is_none())
            .with_codecs(self.storage.codecs()?)
            .with_levels(self.levels)
            .with_method(self.method)
            .with_name(self.name.clone())
            .with_pixel_size(self.pixel_size.clone())
            .with_unit(self.unit.as_deref().map(unit).transpose()?)
            .with_keep_axes(self.keep_axes)
            .with_existing(if self.overwrite { Existing::Replace } else { Existing::Refuse })
            .with_context(common.context())
            .with_task(watch.task());
        let begun = std::time::Instant::now();
        let made = convert(&sources, &store, &path, &options).await;
        drop(watch);
        let made = made?;
        if self.json {
            output::json_line(made.iter().map(Converted::json).collect::<Json>())?;
            return Ok(ExitCode::SUCCESS);
        }
        for image in &made {
            common.say(&told(image));
        }
        common.note(&format!("{:.1} s", begun.elapsed().as_secs_f64()));
        Ok(ExitCode::SUCCESS)
    }

    fn sources(&self, inputs: &[String]) -> Result<Vec<Arc<ImageSource>>> {
        let (files, found) = zaro::internal::image::expand(inputs)?;
        let options = ImageSourceOptions::default()
            .with_axes(self.axes.clone())
            .with_pattern(self.pattern.clone().or(found))
            .with_allow_missing(self.allow_missing)
            .with_indexes(false);
        let mut sources = open_sources(&files, &options)?;
        if let Some(n) = self.series {
            let there = sources.len();
            if n >= there {
                return Err(Error::usage(format!(
                    "there is no image {n}: the file has {there}, counted from 0"
                )));
            }
            sources = sources.into_iter().skip(n).take(1).collect();
        }
        Ok(sources.into_iter().map(Arc::new).collect())
    }
}

/// The unit's name, also from its symbol.
fn unit(text: &str) -> Result<String> {
    let known = units::length(text);
    known.ok_or_else(|| Error::usage(format!("{text:?} is not a unit of length, such as micrometer")))
}

fn told(image: &Converted) -> String {
    let first = image.levels.first().map(Vec::as_slice).unwrap_or_default();
    let sides: Vec<String> =
        image.axes.iter().zip(first).map(|(axis, n)| format!("{} {n}", axis.name)).collect();
    let pixel: Vec<String> = image
        .axes
        .iter()
        .zip(&image.scale)
        .filter_map(|(axis, size)| Some(format!("{} {size} {}", axis.name, axis.unit.as_deref()?)))
        .collect();
    format!(
        "made {:?}: {} of {}, {}; {}",
        image.name,
        sides.join(", "),
        image.data_type,
        plural(image.levels.len(), "level"),
        if pixel.is_empty() {
            "no pixel size".to_owned()
        } else {
            format!("a pixel is {}", pixel.join(", "))
        }
    )
}
