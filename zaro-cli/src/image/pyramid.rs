//! `zaro image pyramid`: build the smaller (downsampled) levels of an image.

use std::process::ExitCode;

use clap::Args;
use zaro::hierarchy::Existing;
use zaro::image::pyramid::{self, Downsampling, Factors, Frame, PyramidOptions};
use zaro::image::{Axis, ImageVersion};
use zaro::meta::NodeMeta;
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::plural;
use crate::path::word;
use crate::progress::Watch;
use crate::storage::Storage;

const EXAMPLES: &str = "\
Examples:
  Levels of half the size in place, until y and x are at most 256:
      zaro image pyramid image.zarr
  Four levels in all, depth halved as well:
      zaro image pyramid image.zarr --levels 4 --factors 2,2,2
  To another place, in shards, with other codecs:
      zaro image pyramid image.zarr --to s3://bucket/image.zarr --chunks 1,1,1,512,512 \\
          --shards 1,1,1,4096,4096 --codec zstd:5
  From a plain array:
      zaro image pyramid data.zarr stack --axes zyx --pixel-size 2,0.325,0.325 --unit micrometer

mean averages the pixels merged into one, integers rounded to nearest, half up; mode takes the most
frequent value, for labels; gaussian a weighted mean of the pixels and their neighbours; decimate
the first pixel. Sizes are halved and rounded down. The new levels become visible once all are
complete; rerun the same command to resume a run that was stopped.";

/// Build the smaller (downsampled) levels of an image
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pyramid {
    #[command(flatten)]
    target: Target,
    /// Number of levels, including the largest [default: until y and x are at most 256]
    #[arg(long, value_name = "N")]
    levels: Option<usize>,
    /// Downsampling method [default: mean; mode for labels and booleans]
    #[arg(long, value_parser = word(METHODS))]
    method: Option<Downsampling>,
    /// Downsampling factor per level along y and x
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "factors")]
    factor: u64,
    /// Downsampling factors per spatial axis: z,y,x or y,x, or by name: z=2,y=4,x=4
    #[arg(long, value_name = "N,N,…", value_parser = parse_factors)]
    factors: Option<Factors>,
    /// Write a new image with all levels here, instead of adding levels in place
    #[arg(long, value_name = "URI")]
    to: Option<String>,
    /// Replace existing levels, or what is at --to
    #[arg(long)]
    overwrite: bool,
    /// Do not build levels of labels that have only one
    #[arg(long)]
    no_labels: bool,
    /// Wait until everything is on disk (fsync)
    #[arg(long)]
    fsync: bool,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    storage: Storage,
    /// Axes of a plain array, e.g. tczyx, or names separated by commas [default: its dimension names]
    #[arg(long, value_name = "AXES", help_heading = "For a plain array")]
    axes: Option<String>,
    /// Pixel size, one number per axis
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', help_heading = "For a plain array")]
    pixel_size: Option<Vec<f64>>,
    /// Unit of the spatial axes, e.g. micrometer
    #[arg(long, value_name = "UNIT", help_heading = "For a plain array")]
    unit: Option<String>,
    /// The name of the image
    #[arg(long, value_name = "TEXT", help_heading = "For a plain array")]
    name: Option<String>,
    /// OME-Zarr version: 0.4, 0.5, 0.6 [default: 0.5, or 0.4 in Zarr V2]
    #[arg(long, value_name = "VERSION", value_parser = parse_version, help_heading = "For a plain array")]
    ome_version: Option<ImageVersion>,
}

/// The values of `--method`.
const METHODS: &[(&str, &str, Downsampling)] = &[
    ("mean", "", Downsampling::Mean),
    ("mode", "", Downsampling::Mode),
    ("gaussian", "", Downsampling::Gaussian),
    ("decimate", "", Downsampling::Decimate),
];

fn lengths(text: &str) -> std::result::Result<Vec<u64>, String> {
    let length = |n: &str| match n.trim().parse::<u64>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{n:?} is not a whole number greater than 0")),
    };
    text.split(',').map(length).collect()
}

fn parse_factors(text: &str) -> std::result::Result<Factors, String> {
    if !text.contains('=') {
        return lengths(text).map(Factors::Space);
    }
    let one = |part: &str| {
        let (name, n) = part.split_once('=').ok_or_else(|| format!("expected AXIS=FACTOR, not {part:?}"))?;
        let n = lengths(n)?.first().copied().unwrap_or(1);
        Ok((name.trim().to_owned(), n))
    };
    text.split(',').map(one).collect::<std::result::Result<_, String>>().map(Factors::Named)
}

/// A version of OME-Zarr.
pub(super) fn parse_version(text: &str) -> std::result::Result<ImageVersion, String> {
    ImageVersion::parse(text).ok_or_else(|| format!("{text:?} is not an OME-Zarr version, such as 0.5"))
}

/// Axes from `tczyx`, or from names with commas.
pub(super) fn parse_axes(text: &str, unit: Option<&str>) -> Vec<Axis> {
    let names: Vec<String> = if text.contains(',') {
        text.split(',').map(|n| n.trim().to_owned()).collect()
    } else {
        text.trim().chars().map(String::from).collect()
    };
    let axis = |name: &String| {
        let mut axis = Axis::named(name);
        if axis.kind == zaro::image::AxisKind::Space {
            axis.unit = unit.map(str::to_owned);
        }
        axis
    };
    names.iter().map(axis).collect()
}

impl Pyramid {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let watch = Watch::new(common.progress);
        let options = self.options(common)?.with_task(watch.task());
        let frame = self.frame();
        let begun = std::time::Instant::now();
        let built = match &self.to {
            Some(to) => {
                let lower = to.to_ascii_lowercase();
                if lower.ends_with(".zip") || lower.ends_with(".ozx") {
                    return Err(Error::unsupported(
                        "an archive cannot be modified; write the image to a folder and pack that",
                    ));
                }
                let source = common.open_any(&self.target.uri).await?;
                let at = Target { uri: to.clone(), path: String::new() };
                let (store, into) = common.open_for_writing(&at, self.fsync).await?;
                let Target { uri, path } = &self.target;
                pyramid::build_at(&source, uri, path, &frame, &store, &into, &options).await
            }
            None => {
                let (store, path) = common.open_for_writing(&self.target, self.fsync).await?;
                let node = common.zarr_in(&store).await?.node(&path).await?;
                let is_array = matches!(node.meta, NodeMeta::Array(_));
                if !is_array && self.axes.is_some() {
                    return Err(Error::usage("--axes applies to a plain array; this is a group"));
                }
                match is_array {
                    true => pyramid::build_from_array(&store, &path, &frame, &options).await,
                    false => pyramid::build(&store, &path, &options).await,
                }
            }
        };
        drop(watch);
        let built = built?;
        if self.json {
            output::json_line(built.json())?;
        } else {
            let shapes: Vec<String> =
                built.levels.iter().map(|(path, shape)| format!("{path} {shape:?}")).collect();
            common.say(&format!(
                "{}made {} by {} in {:.1} s: {}",
                if built.resumed { "resumed: " } else { "" },
                plural(built.levels.len(), "level"),
                built.method.text(),
                begun.elapsed().as_secs_f64(),
                shapes.join(", ")
            ));
            if !built.labels.is_empty() {
                common.say(&format!("also built the levels of labels: {}", built.labels.join(", ")));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self, common: &Common) -> Result<PyramidOptions> {
        Ok(PyramidOptions::default()
            .with_levels(self.levels)
            .with_method(self.method)
            .with_factors(self.factors.clone().unwrap_or(Factors::Plane(self.factor)))
            .with_chunks(self.storage.chunk_list()?)
            .with_shards(self.storage.shard_list()?)
            .with_codecs(self.storage.codecs()?)
            .with_labels(!self.no_labels)
            .with_existing(if self.overwrite { Existing::Replace } else { Existing::Refuse })
            .with_context(common.context()))
    }

    fn frame(&self) -> Frame {
        Frame {
            axes: self.axes.as_deref().map(|a| parse_axes(a, self.unit.as_deref())).unwrap_or_default(),
            scale: self.pixel_size.clone().unwrap_or_default(),
            version: self.ome_version,
            name: self.name.clone(),
        }
    }
}
