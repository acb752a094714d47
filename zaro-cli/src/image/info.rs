//! `zaro image info`: summarize an image, plate, well or collection of images.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use zaro::image::{
    Axis, AxisKind, Channel, ColorModel, Found, ImageOverview, ImageSummary, ImageVersion, LevelSummary,
    Plate, PyramidSummary,
};
use zaro::internal::describe::times;
use zaro::internal::image::document::hex;
use zaro::internal::image::extent;
use zaro::internal::path::shown;
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{Paint, plain, plural};
use crate::shell;

const EXAMPLES: &str = "\
Examples:
  zaro image info image.zarr
  zaro image info plate.zarr
  zaro image info https://example.org/image.zarr --json

Shows every image of a plate, well or bioformats2raw layout: the first in full, the others as one
line each, unless --all is given. An image that cannot be read is shown with its error, and the
exit code is 4. Pixels are not read.";

/// Show what is in an image: sizes, levels, channels, labels
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Info {
    #[command(flatten)]
    target: Target,
    /// Show every image in full
    #[arg(short, long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        if let Some(kind) = picture_file(&self.target.uri) {
            return Err(Error::usage(format!(
                "this is a {kind} file, not a Zarr; `zaro image convert` converts it to OME-Zarr"
            ))
            .with_store(&self.target.uri));
        }
        let zarr = common.open(&self.target.uri).await?;
        let overview = ImageOverview::of(&zarr, &self.target.path).await?;
        let text = if self.json {
            let mut out = overview.to_json();
            out.set("uri", zaro::redacted(&self.target.uri).into_owned());
            format!("{}\n", out.pretty())
        } else {
            let page = Page {
                paint: Paint::stdout(common.color),
                reached_by: common.reached_by(),
                uri: &zaro::redacted(&self.target.uri),
                all: self.all,
            };
            page.overview(&overview)
        };
        output::print(&text)?;
        for summary in overview.images.iter().filter_map(|(_, summary)| summary.as_ref().ok()) {
            summary.missing.iter().for_each(|missing| common.warn(missing));
        }
        let broken = overview.images.iter().any(|(_, summary)| summary.is_err());
        Ok(if broken { ExitCode::from(4) } else { ExitCode::SUCCESS })
    }
}

/// The type of the file at a path, if it is one that can be converted.
fn picture_file(uri: &str) -> Option<&'static str> {
    let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let kind = match ending.as_str() {
        "tif" | "tiff" | "svs" | "btf" | "tf8" => "TIFF",
        "png" => "PNG",
        "jpg" | "jpeg" => "JPEG",
        "npy" => "numpy",
        "ome" => "OME-XML",
        _ => return None,
    };
    path.is_file().then_some(kind)
}

struct Page<'a> {
    paint: Paint,
    uri: &'a str,
    /// The store options of the command line, if they can be shown.
    reached_by: Option<Vec<String>>,
    all: bool,
}

/// The options to render an image: a small picture of a large image.
fn picture(summary: &ImageSummary) -> Vec<&'static str> {
    let size = if is_large(summary) { &["--size", "2048"][..] } else { &[] };
    [&["-o", "picture.png"], size].concat()
}

impl Page<'_> {
    fn overview(&self, overview: &ImageOverview) -> String {
        let p = self.paint;
        let mut out = String::new();
        let mut head = |path: &str, what: String| {
            let place = shell::place(self.uri, path);
            out.push_str(&format!("{}\n{}\n", p.blue(&plain(&place)), p.dim(&plain(&what))));
        };
        let count = plural(overview.images.len(), "image");
        match &overview.found {
            Found::Image(image) => {
                let kind = if image.label.is_some() { "labels" } else { "image" };
                head(&image.path, format!("OME-Zarr {} {kind}{}", image.version, assumed(image.assumed)));
            }
            Found::Plate { path, plate, version } => {
                head(path, format!("OME-Zarr {version} plate, {}", plate_text(plate, &count)));
                out.push_str(&grid(plate));
            }
            Found::Well { path, version, .. } => head(path, format!("OME-Zarr {version} well, {count}")),
            Found::Collection { path, version, .. } => {
                head(path, format!("OME-Zarr {version} collection, {count}"));
            }
        }
        let single = matches!(overview.found, Found::Image(_));
        for (i, (path, summary)) in overview.images.iter().enumerate() {
            match summary {
                Ok(summary) if single => self.image(summary, "", &mut out),
                Ok(summary) if i == 0 || self.all => {
                    out.push_str(&format!("{}\n", p.blue(&plain(&shown(path)))));
                    self.image(summary, "  ", &mut out);
                }
                Ok(summary) => {
                    out.push_str(&format!("{}  {}\n", p.blue(&plain(&shown(path))), plain(&line(summary))));
                }
                Err(e) => out.push_str(&format!("{}  {}\n", p.blue(&plain(&shown(path))), p.red(&plain(e)))),
            }
        }
        if let Some((path, Ok(first))) = overview.images.first() {
            let line = |by: &[String]| shell::line(&["image", "render"], self.uri, path, &picture(first), by);
            out.push_str(&shell::hint([self.reached_by.as_deref().and_then(line)].into_iter(), p));
        }
        out
    }

    fn image(&self, summary: &ImageSummary, indent: &str, out: &mut String) {
        let p = self.paint;
        let mut row = |name: &str, text: String| {
            let name = format!("{indent}  {name:<10}");
            out.push_str(&format!("{}{}\n", p.dim(&name), plain(&text)));
        };
        let name = summary.image.omero.as_ref().and_then(|o| o.name.clone());
        if let Some(name) = name.or_else(|| summary.pyramids.first().and_then(|m| m.multiscale.name.clone()))
        {
            row("name", name);
        }
        let several = summary.pyramids.len() > 1;
        for pyramid in &summary.pyramids {
            if several {
                row("pyramid", pyramid.multiscale.name.clone().unwrap_or_else(|| "(unnamed)".into()));
            }
            for (i, level) in pyramid.levels.iter().enumerate() {
                if i == 0 {
                    row("size", sizes(&pyramid.multiscale.axes, level));
                    if let Some(physical) = physical(&pyramid.multiscale.axes, level) {
                        row("extent", physical);
                    }
                }
                row(if i == 0 { "levels" } else { "" }, level_text(level));
            }
        }
        if let Some(omero) = &summary.image.omero {
            for (i, channel) in omero.channels.iter().enumerate() {
                row(if i == 0 { "channels" } else { "" }, channel_text(i, channel));
            }
            let mut shown = Vec::new();
            shown.extend(omero.default_z.map(|z| format!("z {z}")));
            shown.extend(omero.default_t.map(|t| format!("t {t}")));
            shown.extend(omero.model.map(|m| match m {
                ColorModel::Color => "colour".to_owned(),
                ColorModel::Greyscale => "greyscale".to_owned(),
            }));
            if !shown.is_empty() {
                row("shown", shown.join(", "));
            }
        }
        for (i, l) in summary.labels.iter().enumerate() {
            let kind = if l.label.is_mask { "mask" } else { "labels" };
            let size = l
                .levels
                .first()
                .map_or(String::new(), |level| format!("{} {}", times(&level.shape), level.data_type));
            let levels = plural(l.levels.len(), "level");
            let colors = plural(l.label.labels.colors.len(), "colour");
            row(
                if i == 0 { "labels" } else { "" },
                format!("{} ({kind})  {size}, {levels}, {colors}", l.label.name),
            );
        }
    }
}

/// Whether a picture of the whole image would be too large to look at, or to make.
fn is_large(summary: &ImageSummary) -> bool {
    let first = summary.pyramids.first().and_then(|p| Some((&p.multiscale.axes, p.levels.first()?)));
    let sides = first.map(|(axes, level)| axes.iter().zip(&level.shape)).into_iter().flatten();
    sides.filter(|(axis, _)| axis.kind == AxisKind::Space).any(|(_, n)| *n > 8192)
}

fn assumed(assumed: bool) -> &'static str {
    if assumed { " (no version stated; guessed from the metadata)" } else { "" }
}

fn sizes(axes: &[Axis], level: &LevelSummary) -> String {
    let names: Vec<String> = axes.iter().zip(&level.shape).map(|(a, n)| format!("{} {n}", a.name)).collect();
    format!("{}  {}", names.join(", "), level.data_type)
}

/// `z 4 × 1.5 micrometer = 6, …`, of the axes with a size.
fn physical(axes: &[Axis], level: &LevelSummary) -> Option<String> {
    let said = axes.iter().enumerate().filter(|(_, a)| a.unit.is_some());
    let parts: Vec<String> = said
        .filter_map(|(i, axis)| {
            let (pixel, whole) = extent(level, i)?;
            let unit = axis.unit.as_deref().unwrap_or_default();
            Some(format!("{} {} {unit} ({} each)", axis.name, short(whole), short(pixel)))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// At most six digits, without trailing zeros.
fn short(x: f64) -> String {
    let text = format!("{x:.6}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn level_text(level: &LevelSummary) -> String {
    let mut out = format!("{}  {}, chunks {}", level.level.path, times(&level.shape), times(&level.chunks));
    if let Some(shards) = &level.shards {
        out.push_str(&format!(", shards {}", times(shards)));
    }
    let list = |list: &[f64]| list.iter().map(|x| short(*x)).collect::<Vec<_>>().join(", ");
    if let Some(scale) = &level.level.scale {
        out.push_str(&format!(", scale {}", list(scale)));
    }
    if let Some(translation) = &level.level.translation {
        out.push_str(&format!(", translation {}", list(translation)));
    }
    out
}

fn channel_text(i: usize, channel: &Channel) -> String {
    let mut out = format!("{i}  {}", channel.label.as_deref().unwrap_or("(unnamed)"));
    if let Some(color) = channel.color {
        out.push_str(&format!("  #{}", hex(color)));
    }
    if let (Some(start), Some(end)) = (channel.window.start, channel.window.end) {
        out.push_str(&format!("  {} to {}", short(start), short(end)));
    }
    if channel.family != zaro::image::CurveFamily::Linear {
        out.push_str(&format!("  {} {}", channel.family.text(), short(channel.coefficient)));
    }
    if channel.inverted {
        out.push_str("  inverted");
    }
    if !channel.active {
        out.push_str("  (not shown)");
    }
    out
}

/// An image in one line.
fn line(summary: &ImageSummary) -> String {
    let first = |p: &PyramidSummary| p.levels.first().map(|l| sizes(&p.multiscale.axes, l));
    let size = summary.pyramids.first().and_then(first).unwrap_or_default();
    let levels = plural(summary.pyramids.first().map_or(0, |p| p.levels.len()), "level");
    let mut out = format!("{size}, {levels}");
    if !summary.labels.is_empty() {
        out.push_str(&format!(
            ", labels {}",
            summary.labels.iter().map(|l| l.label.name.as_str()).collect::<Vec<_>>().join(", ")
        ));
    }
    if summary.image.version == ImageVersion::Seed {
        out.push_str(", seed");
    }
    out
}

fn plate_text(plate: &Plate, images: &str) -> String {
    let mut out = String::new();
    if let Some(name) = &plate.name {
        out.push_str(&format!("{name:?}, "));
    }
    out.push_str(&format!(
        "{} × {}, {}, {images}",
        plural(plate.rows.len(), "row"),
        plural(plate.columns.len(), "column"),
        plural(plate.wells.len(), "well")
    ));
    if !plate.acquisitions.is_empty() {
        out.push_str(&format!(", {}", plural(plate.acquisitions.len(), "acquisition")));
    }
    out
}

/// Maximum places drawn; the largest plates in use have 1536 wells.
const MOST_PLACES: usize = 1 << 14;

/// The wells as a map, with a dot for an empty place; nothing if there are too many to show.
fn grid(plate: &Plate) -> String {
    if plate.rows.len().saturating_mul(plate.columns.len()) > MOST_PLACES {
        return String::new();
    }
    let width = plate.columns.iter().map(|c| c.chars().count()).max().unwrap_or(1);
    let left = plate.rows.iter().map(|r| r.chars().count()).max().unwrap_or(1);
    let mut out = format!("  {:left$}", "");
    for column in &plate.columns {
        out.push_str(&format!(" {:>width$}", plain(column)));
    }
    out.push('\n');
    let wells: HashSet<(usize, usize)> = plate.wells.iter().map(|w| (w.row, w.column)).collect();
    for (r, row) in plate.rows.iter().enumerate() {
        out.push_str(&format!("  {:left$}", plain(row)));
        for c in 0..plate.columns.len() {
            let there = wells.contains(&(r, c));
            out.push_str(&format!(" {:>width$}", if there { "●" } else { "·" }));
        }
        out.push('\n');
    }
    out
}
