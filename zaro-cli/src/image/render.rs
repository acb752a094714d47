//! `zaro image render`: render an image, plate or well to a PNG or TIFF.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use zaro::image::ColorModel;
use zaro::image::render::{
    ChannelSetting, Depth, LabelChoice, PngRows, Projection, Region, Request, Rows, Settings, Sheet, Size,
    TiffRows, View, render_to,
};
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::output::Output;
use crate::path::{output_path, word};

const EXAMPLES: &str = "\
Examples:
  zaro image render image.zarr -o picture.png
  zaro image render image.zarr -o small.png --size 512 --labels all
  zaro image render image.zarr -o cells.tif --crop 1000,2000,512,512 --project max --z 10:20
  zaro image render image.zarr -o two.png --channel DAPI:color=00FFFF --channel 1:window=100:2000,inverted=true
  zaro image render plate.zarr -o plate.png --acquisition 1 --gap 2
  zaro image render image.zarr -o planes.png --contact-sheet --z 0:40:4
  zaro image render s3://bucket/image.zarr -o - --size 256 | display

The extension sets the file format: .png, .tif or .tiff; - is a PNG on standard output. Settings that are not given come
from the image's omero block; without one, windows are guessed from the pixels. Plates show the first field of each
well, wells all fields.";

/// Render an image, plate or well to a PNG or TIFF
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Render {
    #[command(flatten)]
    target: Target,
    /// Output file (.png, .tif or .tiff); - for a PNG on standard output
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    output: PathBuf,

    /// Part of the image, in pixels of its largest level
    #[arg(long, value_name = "X,Y,W,H", help_heading = "What to draw")]
    crop: Option<String>,
    /// Longer side of the picture, or both [default: the size of the level]
    #[arg(long, value_name = "N|WxH", help_heading = "What to draw")]
    size: Option<String>,
    /// Level, 0 for the largest [default: the smallest that fills --size; else 0]
    #[arg(long, value_name = "N", help_heading = "What to draw")]
    level: Option<usize>,
    /// The plane, from 0; with --project planes, START:STOP, with --contact-sheet also START:STOP:STEP [default: the
    /// image's own, or the middle one]
    #[arg(long, value_name = "N", help_heading = "What to draw")]
    z: Option<String>,
    /// Time point, from 0 [default: the image's own, or the first]
    #[arg(long, value_name = "N", help_heading = "What to draw")]
    t: Option<u64>,
    /// Project all planes, or those given by --z, into one
    #[arg(long, value_name = "max|mean", value_parser = word(PROJECTIONS), hide_possible_values = true, help_heading = "What to draw")]
    project: Option<Projection>,
    /// Draw planes side by side
    #[arg(long, conflicts_with = "project", help_heading = "What to draw")]
    contact_sheet: bool,
    /// Which image of several: its number, from 0, or its path
    #[arg(long, value_name = "N|PATH", help_heading = "What to draw")]
    image: Option<String>,
    /// Which pyramid of several, by name [default: the first]
    #[arg(long, value_name = "NAME", help_heading = "What to draw")]
    multiscale: Option<String>,
    /// Plate acquisition, by its id
    #[arg(long, value_name = "ID", help_heading = "What to draw")]
    acquisition: Option<i64>,
    /// The field of each well, from 0 [default: of a plate the first, of a well all]
    #[arg(long, value_name = "N", help_heading = "What to draw")]
    field: Option<usize>,

    /// Channels to draw, by number (from 0) or name, separated by commas [default: the active ones]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "How to draw it")]
    channels: Vec<String>,
    /// A channel to draw with its settings, such as
    /// 0:color=FF0000,window=100:2000,family=polynomial,coefficient=2,inverted=true; may be repeated
    #[arg(long, value_name = "CHANNEL[:KEY=VALUE,...]", help_heading = "How to draw it")]
    channel: Vec<String>,
    /// Add colours, or draw the first channel in grey [default: the image's own]
    #[arg(long, value_name = "color|greyscale", value_parser = word(MODELS), hide_possible_values = true, help_heading = "How to draw it")]
    model: Option<ColorModel>,
    /// Labels or masks to overlay, by name, or all; may be repeated
    #[arg(long, value_name = "NAME|all", help_heading = "How to draw it")]
    labels: Vec<String>,
    /// Label opacity
    #[arg(long, value_name = "0..1", default_value_t = 1.0, help_heading = "How to draw it")]
    opacity: f64,
    /// Pixels between the images of a plate, a well or a contact sheet
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "How to draw it")]
    gap: u32,
}

/// The values of `--project`.
const PROJECTIONS: &[(&str, &str, Projection)] =
    &[("max", "", Projection::Max), ("mean", "", Projection::Mean)];

/// The values of `--model`.
const MODELS: &[(&str, &str, ColorModel)] =
    &[("color|colour", "", ColorModel::Color), ("greyscale|grayscale", "", ColorModel::Greyscale)];

/// Format of the output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileType {
    Png,
    Tiff,
}

impl FileType {
    fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match ending.as_str() {
            "png" => Ok(Self::Png),
            "tif" | "tiff" => Ok(Self::Tiff),
            _ if path == Path::new("-") => Ok(Self::Png),
            _ => Err(Error::usage(format!(
                "{}: the file name must end in .png, .tif or .tiff",
                path.display()
            ))),
        }
    }
}

/// Rows being written to a file, and the size of the picture.
struct Measured<R> {
    inner: R,
    size: (u32, u32),
}

impl<R> Measured<R> {
    fn new(inner: R) -> Self {
        Self { inner, size: (0, 0) }
    }
}

impl<R: Rows> Rows for Measured<R> {
    fn begin(&mut self, width: u32, height: u32) -> Result<()> {
        self.size = (width, height);
        self.inner.begin(width, height)
    }

    fn put(&mut self, rgba: &[u8]) -> Result<()> {
        self.inner.put(rgba)
    }
}

impl Render {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let file = FileType::of(&self.output)?;
        let request = self.request(common)?;
        // Before the work is done, so that it is not done in vain.
        let out = Output::open(Some(&self.output))?;
        let zarr = common.open(&self.target.uri).await?;
        let (drawn, (width, height), out) = match file {
            FileType::Png => {
                let mut rows = Measured::new(PngRows::new(out));
                let drawn = render_to(&zarr, &self.target.path, &request, &mut rows).await?;
                (drawn, rows.size, rows.inner.finish()?)
            }
            FileType::Tiff => {
                let mut rows = Measured::new(TiffRows::new(out));
                let drawn = render_to(&zarr, &self.target.path, &request, &mut rows).await?;
                (drawn, rows.size, rows.inner.finish()?)
            }
        };
        out.finish()?;
        for note in &drawn.notes {
            common.warn(note);
        }
        for channel in &drawn.look.channels {
            let [r, g, b] = channel.color;
            let curve = &channel.curve;
            common.note(&format!(
                "channel {}{}: {r:02X}{g:02X}{b:02X}, {} from {} to {}{}",
                channel.index,
                channel.label.as_deref().map(|label| format!(" ({label})")).unwrap_or_default(),
                curve.family.text(),
                curve.start,
                curve.end,
                if curve.inverted { ", inverted" } else { "" },
            ));
        }
        common.note(&format!("{width} x {height} pixels"));
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self, common: &Common) -> Result<Request> {
        let listed = self.channels.iter().filter(|c| !c.trim().is_empty()).map(|c| Ok(ChannelSetting::of(c)));
        let single = self.channel.iter().map(|c| ChannelSetting::parse(c));
        let labels = match self.labels.as_slice() {
            [] => LabelChoice::None,
            names if names.iter().any(|n| n == "all") => LabelChoice::All,
            names => LabelChoice::Named(names.to_vec()),
        };
        let settings = Settings {
            multiscale: self.multiscale.clone(),
            channels: listed.chain(single).collect::<Result<_>>()?,
            model: self.model,
            labels,
            opacity: self.opacity,
            memory: common.memory / 2,
        };
        let (depth, sheet) = self.planes()?;
        let view = View {
            region: self.crop.as_deref().map(Region::parse).transpose()?,
            size: self.size.as_deref().map(Size::parse).transpose()?,
            level: self.level,
            depth,
            t: self.t,
        };
        Ok(Request {
            settings,
            view,
            image: self.image.clone(),
            acquisition: self.acquisition,
            field: self.field,
            sheet,
            gap: self.gap,
            admit: None,
        })
    }

    /// The planes selected by `--z`, `--project` and `--contact-sheet`.
    fn planes(&self) -> Result<(Depth, Option<Sheet>)> {
        let fault =
            |wanted: &str| Error::usage(format!("--z {}: {wanted}", self.z.as_deref().unwrap_or_default()));
        let planes = |text: &str| -> Result<(Range<u64>, u64)> {
            let numbers: Option<Vec<u64>> = text.split(':').map(|n| n.trim().parse().ok()).collect();
            match numbers.as_deref() {
                Some([z]) => Ok((*z..z.saturating_add(1), 1)),
                Some([start, stop]) if start < stop => Ok((*start..*stop, 1)),
                Some([start, stop, step]) if start < stop && *step > 0 => Ok((*start..*stop, *step)),
                _ => Err(fault("planes are START:STOP, or START:STOP:STEP, from 0")),
            }
        };
        let asked = self.z.as_deref().map(planes).transpose()?;
        if self.contact_sheet {
            let (z, step) = asked.map_or((None, 1), |(z, step)| (Some(z), step));
            return Ok((Depth::Default, Some(Sheet { z, step })));
        }
        if asked.as_ref().is_some_and(|(_, step)| *step != 1) {
            return Err(fault("a step needs --contact-sheet"));
        }
        let z = asked.map(|(z, _)| z);
        Ok((
            match (self.project, z) {
                (Some(how), z) => Depth::Projected(how, z),
                (None, None) => Depth::Default,
                (None, Some(z)) if z.end - z.start == 1 => Depth::Plane(z.start),
                (None, Some(_)) => {
                    return Err(fault(
                        "several planes need --project max, --project mean or --contact-sheet",
                    ));
                }
            },
            None,
        ))
    }
}
