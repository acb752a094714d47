//! `zaro image add-labels`: add a label image from an array or a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use zaro::hierarchy::Existing;
use zaro::image::add_labels::{self, AddLabelsOptions, LabelSource, collect_colors, read_properties};
use zaro::image::{ImageSourceOptions, Labels, open_sources};
use zaro::{Error, Result};

use super::pyramid::parse_axes;
use crate::args::{Common, Target};
use crate::output;
use crate::path::local_path;
use crate::progress::Watch;
use crate::storage::Storage;

const EXAMPLES: &str = "\
Examples:
  From a TIFF or numpy file of whole numbers:
      zaro image add-labels image.zarr cells --from cells.tif
      zaro image add-labels image.zarr cells --from cells.npy --axes zyx
  From an array of a Zarr, with colours of values:
      zaro image add-labels image.zarr nuclei --from masks.zarr/nuclei \\
          --colors 1=FF0000FF --colors 2=00FF0080
      zaro image add-labels image.zarr nuclei --from masks.zarr/nuclei --colors colors.json
  In the format before 0.1, a plain array below masks:
      zaro image add-labels old.zarr original/0 --from roi.npy --as-mask --colors 1=00800080

Labels have the image's axes; along each their size is that of the image, or 1. They get as many
levels as the image, downsampled by mode. A file of colours is JSON in the form of image-label, or
lines such as 1=FF0000FF or 1,255,0,0,255.";

/// Add labels to an image
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddLabels {
    /// The Zarr that the image is in
    #[arg(value_name = "URI")]
    uri: String,
    /// Name of the labels; may be a path below `labels`
    #[arg(value_name = "NAME")]
    name: String,
    /// Pixels: a TIFF, PNG or .npy file, or an array of a Zarr
    #[arg(long, value_name = "FILE|URI")]
    from: String,
    /// The image inside the Zarr [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    image: String,
    /// The axes of the pixels, such as zyx [default: as the file says, or the last ones of the image]
    #[arg(long, value_name = "AXES")]
    axes: Option<String>,
    /// Colour of a label value as red,green,blue,alpha, or a file of colours; may be repeated
    #[arg(long, value_name = "VALUE=RRGGBBAA|FILE")]
    colors: Vec<String>,
    /// Properties of label values: a JSON file with a list of objects that each have a label-value
    #[arg(long, value_name = "FILE", value_parser = local_path())]
    properties: Option<PathBuf>,
    /// Write a plain array below `masks`, as images before 0.1 did
    #[arg(long)]
    as_mask: bool,
    /// Replace labels of this name
    #[arg(long)]
    overwrite: bool,
    /// Wait until everything is on disk (fsync)
    #[arg(long)]
    fsync: bool,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    storage: Storage,
}

impl AddLabels {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let properties = self.properties.as_deref().map(read_properties).transpose()?.unwrap_or_default();
        let labels = Labels { colors: collect_colors(&self.colors)?, properties, source: None };
        let from = self.source(common).await?;
        let at = Target { uri: self.uri.clone(), path: self.image.clone() };
        let (store, path) = common.open_for_writing(&at, self.fsync).await?;
        let watch = Watch::new(common.progress);
        let options = AddLabelsOptions::default()
            .with_labels(labels)
            .with_as_mask(self.as_mask)
            .with_chunks(self.storage.chunk_list()?)
            .with_shards(self.storage.shard_list()?.flatten())
            .with_codecs(self.storage.codecs()?)
            .with_existing(if self.overwrite { Existing::Replace } else { Existing::Refuse })
            .with_context(common.context())
            .with_task(watch.task());
        let added = add_labels::add(&store, &path, &self.name, &from, &options).await;
        drop(watch);
        let added = added?;
        if self.json {
            output::json_line(added.json())?;
        } else {
            let shapes: Vec<String> = added.levels.iter().map(|s| format!("{s:?}")).collect();
            common.say(&format!("added {} ({}): {}", added.path, added.data_type, shapes.join(", ")));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where the pixels come from: an existing file that is not a folder, or an array.
    async fn source(&self, common: &Common) -> Result<LabelSource> {
        let local = Path::new(self.from.strip_prefix("file://").unwrap_or(&self.from));
        let ending = local.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        if local.is_file() && !["zip", "ozx", "json"].contains(&ending.as_str()) {
            let options = ImageSourceOptions::default().with_axes(self.axes.clone()).with_indexes(true);
            let mut all = open_sources(&[local.to_owned()], &options)?;
            let first = all.drain(..).next().ok_or_else(|| Error::invalid("the file contains no image"))?;
            for warning in &first.warnings {
                common.warn(warning);
            }
            return Ok(LabelSource::File(Arc::new(first)));
        }
        let zarr = common.open_any(&self.from).await?;
        let array = zarr.array("").await?;
        let axes = self.axes.as_deref().map(|a| parse_axes(a, None)).unwrap_or_default();
        Ok(LabelSource::Array(Box::new(array), axes))
    }
}
