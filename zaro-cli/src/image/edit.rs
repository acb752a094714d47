//! `zaro image edit`: change names, colours, contrast windows and pixel sizes.

use std::process::ExitCode;

use clap::Args;
use zaro::image::add_labels::parse_color;
use zaro::image::edit::{self, ChannelEdit, Edit as Changes, Which};
use zaro::image::{ColorModel, LabelColor};
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::path::word;

const EXAMPLES: &str = "\
Examples:
  Names and colours of channels, by number or name:
      zaro image edit image.zarr --channel 0:label=DNA,color=0000FF --channel GFP:color=00FF00
  The contrast window (values drawn as black and as full colour), given or from the pixels:
      zaro image edit image.zarr --channel 0:window=100:2000
      zaro image edit image.zarr --auto
  The size of a pixel, in all levels:
      zaro image edit image.zarr --pixel-size z=2,y=0.325,x=0.325 --unit z,y,x=micrometer
  The default plane, and the name:
      zaro image edit image.zarr --default-z 12 --default-t 0 --name 'Embryo 3'
  The colour of label 7:
      zaro image edit image.zarr --label-color cells:7=FF00FF80

Only metadata are changed, never chunks; unknown keys are kept. Keys of a channel: label, color,
window=START:END, min, max, family, coefficient, inverted, active.";

/// Change names, colours, windows and pixel sizes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Edit {
    #[command(flatten)]
    target: Target,
    /// The image's name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// The pyramid to change, where there are several [default: the first]
    #[arg(long, value_name = "NAME")]
    multiscale: Option<String>,
    /// Change a channel: its number or name, then what changes; may be repeated
    #[arg(long, value_name = "CHANNEL:KEY=VALUE,...", value_parser = ChannelEdit::parse)]
    channel: Vec<(Which, ChannelEdit)>,
    /// Set contrast windows from the pixels of the smallest level
    #[arg(long)]
    auto: bool,
    /// The size of a pixel: z=2,y=0.5,x=0.5
    #[arg(long, value_name = "AXIS=SIZE,...", value_parser = parse_sizes)]
    pixel_size: Vec<Vec<(String, f64)>>,
    /// Units: z,y,x=micrometer; may be repeated
    #[arg(long, value_name = "AXES=UNIT", value_parser = parse_units)]
    unit: Vec<(Vec<String>, String)>,
    /// The plane to show, along z
    #[arg(long, value_name = "N")]
    default_z: Option<u64>,
    /// The plane to show, along t
    #[arg(long, value_name = "N")]
    default_t: Option<u64>,
    /// Colour model: draw channels in colour or in greyscale
    #[arg(long, value_parser = word(MODELS))]
    model: Option<ColorModel>,
    /// The colour of a label: its name, the value, red green blue alpha; may be repeated
    #[arg(long, value_name = "LABELS:VALUE=RRGGBBAA", value_parser = parse_label_color)]
    label_color: Vec<(String, LabelColor)>,
}

/// The values of `--model`.
const MODELS: &[(&str, &str, ColorModel)] =
    &[("color", "", ColorModel::Color), ("greyscale", "", ColorModel::Greyscale)];

fn split<'a>(text: &'a str, by: char, wanted: &str) -> std::result::Result<(&'a str, &'a str), String> {
    text.split_once(by).filter(|(a, _)| !a.is_empty()).ok_or_else(|| format!("{text:?} is not {wanted}"))
}

fn number(text: &str) -> std::result::Result<f64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|x: &f64| x.is_finite())
        .ok_or_else(|| format!("{text:?} is not a number"))
}

fn parse_sizes(text: &str) -> std::result::Result<Vec<(String, f64)>, String> {
    text.split(',')
        .map(|part| {
            let (axis, size) = split(part, '=', "AXIS=SIZE")?;
            Ok((axis.trim().to_owned(), number(size)?))
        })
        .collect()
}

fn parse_units(text: &str) -> std::result::Result<(Vec<String>, String), String> {
    let (axes, unit) = split(text, '=', "AXES=UNIT")?;
    Ok((axes.split(',').map(|a| a.trim().to_owned()).collect(), unit.to_owned()))
}

fn parse_label_color(text: &str) -> std::result::Result<(String, LabelColor), String> {
    let (name, rest) =
        text.rsplit_once(':').ok_or_else(|| format!("{text:?} is not LABELS:VALUE=RRGGBBAA"))?;
    Ok((name.to_owned(), parse_color(rest).map_err(|e| e.message().to_owned())?))
}

impl Edit {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let units = self.unit.iter().flat_map(|(axes, unit)| axes.iter().map(|a| (a.clone(), unit.clone())));
        let mut changes = Changes {
            name: self.name.clone(),
            multiscale: self.multiscale.clone(),
            channels: self.channel.clone(),
            pixel_sizes: self.pixel_size.concat(),
            units: units.collect(),
            default_z: self.default_z,
            default_t: self.default_t,
            model: self.model,
            windows: None,
        };
        let nothing = Changes { multiscale: self.multiscale.clone(), ..Changes::default() };
        if changes == nothing && self.label_color.is_empty() && !self.auto {
            return Err(Error::usage("nothing to change; see --help for the options"));
        }
        let (store, path) = common.open_for_writing(&self.target, false).await?;
        if self.auto {
            changes.windows = Some(edit::windows(&store, &path, self.multiscale.as_deref()).await?);
        }
        if changes != nothing {
            edit::edit(&store, &path, &changes).await?;
        }
        let mut names: Vec<&str> = self.label_color.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        for name in names {
            let of = self.label_color.iter().filter(|(n, _)| n == name);
            let colors: Vec<LabelColor> = of.map(|(_, color)| *color).collect();
            edit::edit_colors(&store, &path, name, &colors).await?;
        }
        store.finish().await?;
        Ok(ExitCode::SUCCESS)
    }
}
