//! `zaro read`: read a part of an array and write it in a format.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zaro::array::{ArrayView, Steady};
use zaro::cf::{Lost, Reading, Related, related};
use zaro::coords::{columns, read_points};
use zaro::format::{Colormap, Column, Csv, Drawing, JsonLists, Layout, Npy, Picture, Raw, Sink, shape_text};
use zaro::internal::local::{check_space, free_space};
use zaro::internal::path::{join, shown};
use zaro::internal::table;
use zaro::internal::text::{number, u64_of};
use zaro::meta::DataType;
use zaro::{Array, Error, ErrorKind, Missing, Order, ReadOptions, Result, Slab, Zarr};

use crate::args::{Common, Target};
use crate::format::Format;
use crate::output::Output;
use crate::paint::{Paint, plain};
use crate::path::{output_path, word};
use crate::progress::Watch;
use crate::select::{ArrayPart, points};

const EXAMPLES: &str = "\
Examples:
  A table of an array's corners:
      zaro read data.zarr temperature
  One time step as a picture, by its position or by its date:
      zaro read data.zarr temperature --isel time=0 -o map.png
      zaro read data.zarr temperature --sel time=2000-07-01 -o map.png
  A month of a box, and the place nearest to 150.4 degrees east:
      zaro read data.zarr temperature --sel time=2000-07,lat=-10:10,lon=150.4 --method nearest
  The same as a table with coordinates, and one value per station of a list:
      zaro read data.zarr temperature --sel time=2000-07 --cf --format csv --coords
      zaro read data.zarr temperature --points stations.csv --method nearest
  A block, as a numpy file:
      zaro read data.zarr temperature --start 0,10,20 --count 1,4,4 -o block.npy
  Every second row backwards, as JSON:
      zaro read data.zarr temperature --select '0,::-2,:' --format json
  The last column of every row, however many dimensions there are:
      zaro read data.zarr temperature --select '...,-1' --format csv
  Unpacked numbers and readable times:
      zaro read data.zarr time --cf --format csv
  From a public bucket:
      zaro read s3://bucket/data.zarr temperature --anonymous --isel time=0,lat=0:3

A picture of numbers leaves NaN, _FillValue, missing_value and a fill value other than
zero transparent. Row 0 is at the top; flip it with --select '::-1,:'.";

/// Default maximum pixels of a picture along a side.
const MAX_SIZE: u16 = 2048;

/// Read a part of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Read {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    part: ArrayPart,

    /// Output file (- for standard output); its extension (.npy .csv .json .png .raw .bin) sets the format
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    output: Option<PathBuf>,
    /// Output format [default: by the extension of FILE, else table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Element order of raw and npy output: C (last dimension fastest) or F
    #[arg(long, value_parser = word(ORDERS), value_name = "C|F", default_value = "C", hide_possible_values = true, ignore_case = true)]
    order: Order,
    /// Apply the CF conventions: scale_factor, add_offset, _FillValue, missing_value, and times as ISO 8601
    #[arg(long)]
    cf: bool,
    /// Fail on missing chunks instead of using the fill value
    #[arg(long)]
    complete: bool,
    /// CSV: one line per element, with its indices and a header
    #[arg(long)]
    long: bool,
    /// CSV: one line per element, with its coordinate values and a header
    #[arg(long)]
    coords: bool,

    /// One value per point: lat=10,lon=20.5 (may be repeated), or a CSV file with a header of dimension names
    #[arg(long, value_name = "FILE|NAME=VALUE,…", allow_hyphen_values = true, help_heading = "Selection")]
    points: Vec<String>,
    /// The same by position, counted from 0
    #[arg(long, value_name = "FILE|NAME=INDEX,…", conflicts_with = "points", help_heading = "Selection")]
    ipoints: Vec<String>,

    /// Colour map of a picture
    #[arg(long, value_parser = word(COLORMAPS), value_name = "NAME", default_value = "viridis", help_heading = "Picture")]
    colormap: Colormap,
    /// Values mapped to the first and last colour [default: the 1st and 99.9th percentiles]
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true, value_parser = parse_range, help_heading = "Picture")]
    range: Option<(f64, f64)>,
    /// Maximum pixels along a side; larger arrays are averaged
    #[arg(long, value_name = "PIXELS", default_value_t = MAX_SIZE, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Picture")]
    max_size: u16,
}

/// The orders of `--order`.
pub(crate) const ORDERS: &[(&str, &str, Order)] = &[("C", "", Order::C), ("F", "", Order::F)];

/// The colour maps of `--colormap`.
const COLORMAPS: &[(&str, &str, Colormap)] = &[
    ("viridis", "Dark violet over green to yellow", Colormap::Viridis),
    ("magma", "Black over purple to pale yellow", Colormap::Magma),
    ("gray", "Black to white", Colormap::Gray),
];

fn parse_range(text: &str) -> std::result::Result<(f64, f64), String> {
    let numbers =
        text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    match numbers {
        Some((low, high)) if low < high => Ok((low, high)),
        _ => Err("expected two numbers, the lower one first, such as 0,255".into()),
    }
}

impl Read {
    /// Prints the whole array at `uri`, one element per line: the public conformance contract.
    pub(crate) async fn print_lines(uri: &str, common: &Common) -> Result<()> {
        let array = common.open(uri).await?.array("").await?;
        let view = ArrayView::new(&[], array.meta())?;
        refuse_endless(&array, &view, Format::Csv, true, false)?;
        let steady = array.steady().await?;
        let reading = Reading::stored(&array, view);
        let (order, complete, as_text) = (Order::C, false, true);
        let job =
            ReadJob { array: &array, steady: &steady, reading: &reading, order, complete, as_text, common };
        job.write(&mut Csv::lines(), Output::open(None)?).await
    }

    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = common.open(&self.target.uri).await?;
        let array = zarr.array(&self.target.path).await?;
        common.warn_findings(array.findings());
        common.warn_both(&zarr, array.path(), array.meta().format).await?;
        let meta = array.meta();
        self.part.look_up(&zarr, &array).await.map_err(|e| placed(e, &array))?;
        let view = self.part.view(meta).map_err(|e| placed(e, &array))?;
        let reading = if self.cf {
            let beside = beside(&zarr, &array, common).await;
            Reading::decoded(&array, view.clone(), &beside, &mut |message| common.warn(message))
        } else {
            Reading::stored(&array, view.clone())
        };
        let format = self.form();
        if let (None, Some(path)) = (self.format, &self.output)
            && Format::of_file(path).is_none()
            && path.as_os_str() != "-"
        {
            return Err(Error::usage(format!(
                "{}: unknown extension (known are .npy .csv .json .png .raw .bin); add --format",
                path.display()
            )));
        }
        let pointwise = !self.points.is_empty() || !self.ipoints.is_empty();
        if format != Format::Table && !pointwise {
            refuse_endless(&array, &view, format, self.part.is_whole(), self.output.is_some())?;
        }
        if format == Format::Png && self.output.is_none() && std::io::stdout().is_terminal() {
            return Err(Error::usage("a picture cannot be written to a terminal; add -o FILE.png"));
        }
        for message in self.idle_options(format, &meta.data_type) {
            common.warn(&message);
        }
        let order = match format {
            Format::Raw | Format::Npy => self.order,
            _ => Order::C,
        };
        let as_text = matches!(format, Format::Table | Format::Csv | Format::Json);
        let (steady, complete, view) = (array.steady().await?, self.complete, reading.view());
        let job =
            ReadJob { array: &array, steady: &steady, reading: &reading, order, complete, as_text, common };
        let mut sink: Box<dyn Sink> = match format {
            Format::Table if pointwise => Box::new(table::Whole(mark(common))),
            Format::Table => return job.print_table(self.output.as_deref()).await,
            Format::Csv => {
                let csv = Csv::new(self.cf);
                Box::new(match self.coords || self.long {
                    _ if pointwise => csv,
                    true if self.coords => csv.long(columns(&zarr, &array, view).await?, array_name(&array)),
                    true => csv.long(Column::places(view, &view.names(meta)), "value"),
                    false => csv,
                })
            }
            Format::Json => Box::new(JsonLists::new(self.cf)),
            Format::Npy => {
                if table::loses_its_type(&reading.data_type()) {
                    common.warn(&format!(
                        "numpy has no type {}; its bytes are written as type V",
                        meta.data_type
                    ));
                }
                Box::<Npy>::default()
            }
            Format::Raw => Box::new(Raw),
            Format::Png => Box::new(Picture::new(Drawing {
                colormap: self.colormap,
                range: self.range,
                max_size: self.max_size.into(),
                transparent: if reading.is_decoded() { Vec::new() } else { table::transparent(meta) },
            })),
        };
        if pointwise {
            return self.read_points(&zarr, &job, sink).await;
        }
        let layout = reading.layout(order);
        if format == Format::Png
            && number(&layout.data_type, &[0; 8]).is_some()
            && let Err(e) = table::dimensions(&layout)
        {
            return Err(placed(Error::usage(format!("{}{}", e.message(), advice(&layout))), &array));
        }
        if let (Some(path), Format::Npy | Format::Raw) = (&self.output, format)
            && !meta.data_type.is_variable()
            && (path.is_file() || !path.exists())
        {
            let bytes = view.count()?.saturating_mul(u64_of(meta.data_type.size()));
            check_space(free_space(path), bytes).map_err(|e| e.within(path.display()))?;
        }
        job.write(sink.as_mut(), Output::open(self.output.as_deref())?).await
    }

    /// The format asked for.
    fn form(&self) -> Format {
        self.format.or_else(|| self.output.as_deref().and_then(Format::of_file)).unwrap_or(Format::Table)
    }

    /// One value per point.
    async fn read_points(&self, zarr: &Zarr, job: &ReadJob<'_>, mut sink: Box<dyn Sink>) -> Result<()> {
        let (array, lookup) = (job.array, self.part.named.lookup());
        let points = points(if self.points.is_empty() { &self.ipoints } else { &self.points })?;
        let rest = self.part.indexes(array.meta(), None)?;
        let watch = job.watch(1)?;
        let (options, lookup) = (job.options(&watch), (!self.points.is_empty()).then_some(&lookup));
        let slab = read_points(zarr, array, &points, lookup, &rest, &options).await;
        let mut lost = job.lost();
        let slab = job.reading.apply(slab.map_err(|e| placed(e, array))?, &mut lost)?;
        drop(watch);
        job.steady.check().await?;
        job.warn_after(&lost);
        let names = points.dimensions(array, &rest);
        if let (true, Format::Csv) = (self.coords || self.long, self.form()) {
            let columns = points.columns(zarr, array, lookup, &rest).await?;
            sink = Box::new(Csv::new(self.cf).long(columns, array_name(array)));
        }
        let (shape, data_type) = (slab.shape.clone(), slab.data_type.clone());
        let width = slab.items().map(|item| String::from_utf8_lossy(item).chars().count()).max().unwrap_or(0);
        let mut out = Output::open(self.output.as_deref())?;
        sink.begin(&Layout { shape, names, data_type, order: Order::C, width }, &mut out)?;
        sink.block(&slab, &mut out)?;
        sink.end(&mut out)?;
        out.finish()
    }

    /// Warnings about options that the output format ignores, where a reader of the output would expect an effect.
    fn idle_options(&self, format: Format, data_type: &DataType) -> Vec<String> {
        let picture = format == Format::Png;
        let idle = [
            (
                "--order F",
                self.order == Order::F && !matches!(format, Format::Raw | Format::Npy),
                "C order is used",
            ),
            ("--long", self.long && format != Format::Csv, "it applies to csv"),
            ("--coords", self.coords && format != Format::Csv, "it applies to csv"),
            ("--range", self.range.is_some() && !picture, "it applies to pictures; values are not clipped"),
            ("--colormap", self.colormap != Colormap::Viridis && !picture, "it applies to pictures"),
            (
                "--max-size",
                self.max_size != MAX_SIZE && !picture,
                "it applies to pictures; all elements are written",
            ),
            (
                "--cf",
                self.cf
                    && format == Format::Raw
                    && matches!(data_type, DataType::DateTime(..) | DataType::TimeDelta(..)),
                "times stay integers in their unit",
            ),
        ];
        let name = format.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
        idle.iter()
            .filter(|(_, is_idle, _)| *is_idle)
            .map(|(option, _, why)| format!("{option} has no effect on {name}: {why}"))
            .collect()
    }
}

/// The arrays beside this one that CF attributes refer to. If they cannot be listed, warns and reads the array alone.
async fn beside(zarr: &Zarr, array: &Array, common: &Common) -> Related {
    related(zarr, array).await.unwrap_or_else(|e| {
        common.warn(&format!(
            "{}: --cf could not read the arrays beside it, for units of bounds or text stored as characters: {e}",
            shown(array.path())
        ));
        Related::default()
    })
}

/// How the brackets of a table are coloured.
fn mark(common: &Common) -> Box<table::Mark> {
    let paint = Paint::stdout(common.color);
    Box::new(move |text| paint.dim(text).into_owned())
}

fn array_name(array: &Array) -> &str {
    array.path().rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("value")
}

/// Whether the error is in the request, not in the output.
fn is_usage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Usage | ErrorKind::Unsupported)
}

/// `e` with the array named.
fn placed(e: Error, array: &Array) -> Error {
    let document = if array.meta().format == zaro::meta::Format::V2 { ".zarray" } else { "zarr.json" };
    let e = if e.kind() == ErrorKind::Invalid { e.with_key(join(array.path(), document)) } else { e };
    e.with_node(shown(array.path())).with_store(array.store())
}

/// Refuses to print an excessive number of elements: damaged metadata may claim any shape, and missing chunks cost
/// nothing to read. With a file or `-o -` there is no limit.
fn refuse_endless(array: &Array, view: &ArrayView, format: Format, whole: bool, named: bool) -> Result<()> {
    const MOST_EVER: u64 = 1 << 48;
    const MOST_BYTES: u64 = 4 << 30;
    const MOST_NUMBERS: u64 = 1 << 28;
    const MOST_CHUNKS: u64 = 1 << 20;
    let meta = array.meta();
    let wanted = view.count().map_err(|e| placed(e, array))?;
    let bytes = wanted.saturating_mul(u64_of(meta.data_type.size()).max(1));
    if bytes > MOST_EVER {
        let message =
            format!("the metadata claim {wanted} elements, more than any store holds; select a part of them");
        return Err(placed(Error::invalid(message), array));
    }
    let text = matches!(format, Format::Csv | Format::Json);
    let chunks = meta.grid.counts(&meta.shape).iter().fold(1u64, |acc, n| acc.saturating_mul(*n));
    let endless = bytes > MOST_BYTES || (text && wanted > MOST_NUMBERS) || (whole && chunks > MOST_CHUNKS);
    if endless && !named {
        let message = format!(
            "this would print {wanted} elements of {chunks} chunks; select a part of them, or write them with \
             -o FILE (-o - for standard output)"
        );
        return Err(placed(Error::usage(message), array));
    }
    Ok(())
}

/// Suggests a selection with two dimensions, where a picture of more was requested.
fn advice(layout: &Layout) -> String {
    let surplus = layout.shape.iter().filter(|n| **n != 1).count().saturating_sub(2);
    if surplus == 0 {
        return String::new();
    }
    let mut left = surplus;
    let mut named = Vec::new();
    let mut indexes = Vec::new();
    for (i, n) in layout.shape.iter().enumerate() {
        if *n != 1 && left > 0 {
            left -= 1;
            indexes.push("0".to_owned());
            if let Some(Some(name)) = layout.names.get(i) {
                named.push(format!("--isel {name}=0"));
            }
        } else {
            indexes.push(":".to_owned());
        }
    }
    if named.len() == surplus {
        format!("; add {}", named.join(" "))
    } else {
        format!("; add --select '{}'", indexes.join(","))
    }
}

/// One read, independent of the output format.
struct ReadJob<'a> {
    array: &'a Array,
    /// Detects changes of the array while it is read.
    steady: &'a Steady,
    reading: &'a Reading,
    order: Order,
    complete: bool,
    /// Whether text is written as text, not as its codes.
    as_text: bool,
    common: &'a Common,
}

impl ReadJob<'_> {
    fn options(&self, watch: &Watch) -> ReadOptions {
        ReadOptions::default()
            .with_order(self.order)
            .with_missing(if self.complete { Missing::Error } else { Missing::Fill })
            .with_task(watch.task())
    }

    async fn read(&self, view: &ArrayView, watch: &Watch, lost: &mut Lost) -> Result<Slab> {
        let slab = self.reading.read(view, &self.options(watch), lost).await?;
        watch.window_done(view.count()?.saturating_mul(u64_of(self.array.meta().data_type.size())));
        Ok(slab)
    }

    fn lost(&self) -> Lost {
        if self.as_text { Lost::of_text() } else { Lost::default() }
    }

    /// Warns of what was noticed while reading: chunks under another separator, and times that cannot be formatted.
    fn warn_after(&self, lost: &Lost) {
        for message in lost.messages() {
            self.common.warn(&format!("{}: {message}", shown(self.array.path())));
        }
        if self.array.separator_differs() {
            self.common.warn(&format!(
                "{}: chunk keys use another separator than \"dimension_separator\" states [v2/separator]",
                shown(self.array.path())
            ));
        }
    }

    fn watch(&self, passes: u64) -> Result<Watch> {
        let bytes = self.reading.view().count()?.saturating_mul(u64_of(self.array.meta().data_type.size()));
        Ok(Watch::windows(bytes.saturating_mul(passes), self.common.progress))
    }

    /// Reads window by window and writes each.
    async fn write(&self, sink: &mut dyn Sink, mut out: Output) -> Result<()> {
        let mut layout = self.reading.layout(self.order);
        // Text in a numpy file has one width, which has to be known first.
        let measured = layout.data_type == DataType::String && sink.needs_width();
        let watch = self.watch(if measured { 2 } else { 1 })?;
        let windows = || self.reading.windows(self.common.memory / 2, self.order);
        if measured {
            for window in windows().await? {
                // What is lost here is counted when the same window is written.
                let block = self.read(&window, &watch, &mut Lost::default()).await?;
                let longest = block.items().map(|item| String::from_utf8_lossy(item).chars().count()).max();
                layout.width = layout.width.max(longest.unwrap_or(0));
            }
        }
        sink.begin(&layout, &mut out).map_err(|e| if is_usage(&e) { placed(e, self.array) } else { e })?;
        let mut lost = self.lost();
        for window in windows().await? {
            self.common.note(&format!("reading {:?} of {:?}", window.shape(), layout.shape));
            let block = self.read(&window, &watch, &mut lost).await?;
            sink.block(&block, &mut out)?;
            watch.task().check()?;
        }
        sink.end(&mut out)?;
        drop(watch);
        self.steady.check().await?;
        self.warn_after(&lost);
        out.finish()
    }

    /// Reads what a table shows and prints it.
    async fn print_table(&self, path: Option<&std::path::Path>) -> Result<()> {
        let (whole, shape) = (self.reading.view(), self.reading.view().shape());
        // An empty answer can still be a great many brackets.
        let lines = shape.iter().fold(1u64, |acc, n| acc.saturating_mul((*n).max(1)));
        let wide = lines > table::THRESHOLD;
        let view = if wide { whole.edges(table::EDGE) } else { Ok(whole.clone()) };
        let view = view.map_err(|e| placed(e, self.array))?;
        if view.count().map_err(|e| placed(e, self.array))? > table::MOST {
            return Err(Error::usage(format!(
                "a table of {} dimensions is too large to show; add --select or --format json",
                shape.len()
            )));
        }
        let watch = self.watch(1).map_err(|e| placed(e, self.array))?;
        if self.complete && view != *whole {
            self.common.warn("--complete checks only chunks that are read, here those of the corners shown");
        }
        let mut lost = self.lost();
        let block = self.read(&view, &watch, &mut lost).await?;
        drop(watch);
        self.steady.check().await?;
        self.warn_after(&lost);
        let mut out = Output::open(path)?;
        if path.is_none() && std::io::stdout().is_terminal() {
            let names = whole.names(self.array.meta());
            let header = format!("{} {}", self.reading.data_type(), plain(&shape_text(&shape, &names)));
            let _ = writeln!(std::io::stderr(), "{}", Paint::stderr(self.common.color).dim(&header));
        }
        table::print(&block, &shape, &mark(self.common), &mut out)?;
        out.finish()
    }
}
