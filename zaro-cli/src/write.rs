//! `zaro write`: elements from a file into an array.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use zaro::array::{Index, Order, Values, WriteOptions};
use zaro::create;
use zaro::hierarchy::{self, Existing, Writing};
use zaro::meta::create::NewArray;
use zaro::meta::dtype::Endian;
use zaro::meta::json::Json;
use zaro::meta::path::shown;
use zaro::meta::typestr::TypeStr;
use zaro::meta::{ArrayMeta, DataType};
use zaro::store::SharedStore;
use zaro::{Array, Error, Result, Slab, num};

use crate::args::{Common, Target};
use crate::input::cast::Cast;
use crate::input::csv::Table;
use crate::input::stream::Stream;
use crate::input::{InputFormat, Origin, json};
use crate::making::{self, Extents, Making};
use crate::path::local_path;
use crate::progress::Watch;
use crate::read::OrderArg;
use crate::select::Part;
use crate::tiles::{Cutting, Tiles};
use crate::view::View;
use crate::{output, resize};
use zaro::image::source::npy::Header;

const EXAMPLES: &str = "\
Examples:
  A numpy file into an array of its shape and type:
      zaro write data.zarr temperature --from temperature.npy
  Make the array as well:
      zaro write data.zarr temperature --from temperature.npy --create --chunks 1,90,180 --dims time,lat,lon
  One step of it, one corner of it:
      zaro write data.zarr temperature --from today.npy --select '6,:,:'
      zaro write data.zarr temperature --from corner.npy --start 0,10,20
  More steps at the end:
      zaro write data.zarr temperature --from tomorrow.npy --append time
  What another program prints:
      zaro read a.zarr x --format raw -o - | zaro write b.zarr x --from - --input-format raw

numpy files and raw elements of any size are read piece by piece, within --memory; JSON and
CSV are read whole. A chunk is written whole or not at all. Several programs may write to
one array at the same time; no element of any is lost.";

/// Write elements from a file into an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Write {
    #[command(flatten)]
    target: Target,
    /// The file to take elements from, - for standard input; its suffix (.npy .raw .bin .csv .json) says the format
    #[arg(long, value_name = "FILE", value_parser = local_path())]
    from: PathBuf,
    /// The format [default: by the suffix of FILE]
    #[arg(long, value_enum, value_name = "FORMAT")]
    input_format: Option<InputFormat>,
    /// The shape of the input, where it does not show: raw, or CSV of more than two dimensions
    #[arg(long, value_name = "N,N,…", value_parser = making::parse_extents)]
    shape: Option<Extents>,
    /// The order of raw elements: C (last dimension fastest) or F
    #[arg(
        long,
        value_enum,
        value_name = "C|F",
        default_value = "C",
        hide_possible_values = true,
        ignore_case = true
    )]
    order: OrderArg,
    /// Convert numbers to the array's type; what does not fit is refused
    #[arg(long)]
    cast: bool,
    #[command(flatten)]
    part: Part,
    /// Append along this dimension, by name or number
    #[arg(long, value_name = "DIM", conflicts_with_all = ["start", "count", "select", "sel"])]
    append: Option<String>,

    /// Make the array if it is not there, of the input's shape and type
    #[arg(long)]
    create: bool,
    /// With --create: replace an array that is there
    #[arg(long, requires = "create")]
    overwrite: bool,
    #[command(flatten)]
    making: Making,

    /// Store chunks that are nothing but fill value, too
    #[arg(long, help_heading = "How to write")]
    keep_fill: bool,
    /// Assume a single writer: needed where a store cannot tell, as some S3 servers. If somebody else writes, their writes
    /// are lost
    #[arg(long = "single-writer", alias = "alone", help_heading = "How to write")]
    alone: bool,
    /// Wait until every file is on the disk, so that it outlives a crash of the machine
    #[arg(long, help_heading = "How to write")]
    fsync: bool,
    /// Say what was written as JSON
    #[arg(long, help_heading = "How to write")]
    json: bool,
}

/// An input as far as it shows without the array.
enum Input {
    Npy(Header, Origin),
    Raw(Origin),
    Csv(Table),
    Json(Json),
}

/// The elements of an input, for a certain array.
enum Elements {
    Streamed(Stream, Cast),
    Whole(Slab),
}

/// The array as it was found.
enum Found {
    There(Array),
    /// It is to be made, like this.
    Missing(Box<ArrayMeta>),
}

impl Found {
    fn meta(&self) -> &ArrayMeta {
        match self {
            Self::There(array) => array.meta(),
            Self::Missing(meta) => meta,
        }
    }
}

/// Where in an array an input goes, before the array is touched.
struct Place {
    view: View,
    /// The shape of the input.
    shape: Vec<u64>,
    /// Along which dimension the array has to grow first, and by how much; `view` is then not yet known.
    grow: Option<(usize, u64)>,
}

/// Where the elements go: which part of which array.
struct Destination {
    array: Array,
    view: View,
    /// Whether the array was made just now.
    blank: bool,
    /// Along which dimension the array becomes longer, and from where on.
    grown: Option<(usize, u64)>,
}

impl Write {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let named = |e: Error| if e.store().is_none() { e.within(self.from.display()) } else { e };
        let mut input = self.open().map_err(named)?;
        if !self.create {
            self.refuse_idle_options()?;
        }
        let (store, path) = common.open_for_writing(&self.target, self.fsync).await?;
        let target = self.find(common, &store, &path, &mut input).await?;
        let placed = |e: Error| e.with_node(shown(&path)).with_store(&store);
        let Place { view, shape, grow } = self.place(&target, &mut input).map_err(placed)?;
        // Everything that shows of the input without reading it all is found wrong before the array is touched.
        let mut elements = self.elements(input, target.meta(), &shape).map_err(named)?;
        let (mut appending, mut writing) = (None, None);
        let destination = match (target, grow) {
            (Found::Missing(meta), _) => {
                let existing = if self.overwrite { Existing::Replace } else { Existing::Refuse };
                let made = tokio::task::block_in_place(|| {
                    create::array(&store, &path, &meta, existing, |array, check| {
                        let to = Destination {
                            array: array.clone(),
                            view: view.clone(),
                            blank: true,
                            grown: None,
                        };
                        self.write(common, &to, &mut elements, check).map_err(named)
                    })
                })?;
                store.finish().await?;
                return self.report(common, &made, None, &shape);
            }
            (Found::There(array), None) => {
                writing = Some(Writing::begin(&store, &path, array.meta()).await?);
                Destination { array, view, blank: false, grown: None }
            }
            (Found::There(_), Some((axis, count))) => {
                let begun = hierarchy::append(&store, &path, axis, count, self.alone);
                let begun = resize::patiently(common, &store, &path, begun).await?;
                let (array, start) = (begun.array.clone(), begun.start);
                appending = Some(begun);
                let span = |d| if d == axis { Index::Span(start, count) } else { Index::All };
                let indexes: Vec<Index> = (0..array.shape().len()).map(span).collect();
                let view = View::new(&indexes, array.meta())?;
                Destination { array, view, blank: false, grown: Some((axis, start)) }
            }
        };
        let written =
            tokio::task::block_in_place(|| self.write(common, &destination, &mut elements, &|| Ok(())));
        if let Err(e) = written {
            if let Some(appending) = appending {
                // What failed is what has to be told.
                let _ = appending.give_up().await;
            }
            return Err(named(e));
        }
        if let Some(writing) = writing {
            writing.check().await?;
        }
        let appended = match appending {
            Some(appending) => {
                hierarchy::check_settled(&store, &path).await?;
                Some(appending.publish().await?)
            }
            None => None,
        };
        store.finish().await?;
        let told = self.report(common, &destination.array, destination.grown, &shape);
        match appended {
            Some(appended) if told.is_err() => appended.leave(),
            appended => drop(appended),
        }
        told
    }

    /// Opens the input and reads what says its shape and type.
    fn open(&self) -> Result<Input> {
        let format = self.input_format.or_else(|| InputFormat::of_file(&self.from)).ok_or_else(|| {
            Error::usage("no format is known by that name (.npy .raw .bin .csv .json); add --input-format")
        })?;
        let mut origin = Origin::open(&self.from)?;
        Ok(match format {
            InputFormat::Npy => Input::Npy(Header::read(&mut origin)?, origin),
            InputFormat::Raw => Input::Raw(origin),
            InputFormat::Csv => Input::Csv(Table::parse(&origin.read_all()?)?),
            InputFormat::Json => Input::Json(Json::parse(&origin.read_all()?)?.value),
        })
    }

    /// An option that is for a new array only, if one was given.
    fn option_for_new(&self) -> Option<&'static str> {
        let m = &self.making;
        let given = [
            ("--dtype", m.dtype.is_some()),
            ("--chunks", m.chunks.is_some()),
            ("--shards", m.shards.is_some()),
            ("--codec", m.codec.is_some()),
            ("--fill", m.fill.is_some()),
            ("--endian", m.endian.is_some()),
            ("--separator", m.separator.is_some()),
            ("--key-encoding", m.key_encoding.is_some()),
            ("--dims", m.dims.is_some()),
            ("--attrs", m.attrs.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }

    /// Options for a new array do nothing to one that is there.
    fn refuse_idle_options(&self) -> Result<()> {
        match self.option_for_new() {
            Some(option) => Err(Error::usage(format!("{option} is for a new array; add --create"))),
            None => Ok(()),
        }
    }

    /// The array to write to, or what it is to be.
    async fn find(
        &self,
        common: &Common,
        store: &SharedStore,
        path: &str,
        input: &mut Input,
    ) -> Result<Found> {
        let there = self.create && !self.overwrite && hierarchy::find(store, path).await?.is_some();
        if there {
            tokio::task::block_in_place(|| create::finish_array(store, path))?;
        }
        if !self.create || there {
            if there && let Some(option) = self.option_for_new() {
                common.warn(&format!("the array is there already, so {option} has no effect"));
            }
            let array = common.zarr_in(store).await?.array(path).await;
            let array = array.map_err(|e| match e.is_not_found() {
                true => e.with_hint("create", "makes a new array"),
                false => e,
            })?;
            common.warn_findings(array.findings());
            return Ok(Found::There(array));
        }
        if !self.part.is_whole() {
            return Err(Error::usage(
                "a part of an array that is not there: make it first, with zaro create",
            ));
        }
        let format = making::format_for(store, path, common.format()).await?;
        let mut new = NewArray { format, ..NewArray::default() };
        (new.data_type, new.endian) = match (self.making.data_type()?, &*input) {
            (Some((t, endian)), _) => (t, endian.unwrap_or(Endian::Little)),
            (None, Input::Npy(header, _)) => (header.stored.fixed()?.clone(), Endian::Little),
            (None, _) => return Err(Error::usage("the input does not say its type; add --dtype")),
        };
        let shape = match &self.shape {
            Some(shape) => Some(shape.0.clone()),
            None => shape_of(input, &new.data_type, None, &[])?,
        };
        new.shape = shape.ok_or_else(|| Error::usage("the input does not say its shape; add --shape"))?;
        self.making.apply(&mut new)?;
        Ok(Found::Missing(Box::new(new.meta()?)))
    }

    /// Where in the array the input goes.
    fn place(&self, target: &Found, input: &mut Input) -> Result<Place> {
        let meta = target.meta();
        let t = &meta.data_type;
        // What is made now is made as long as it has to be.
        let append = self.append.as_deref().filter(|_| matches!(target, Found::There(_)));
        let axis = append.map(|name| resize::dimension(name, meta)).transpose()?;
        let said = match (&self.shape, axis) {
            (Some(shape), _) => Some(shape.0.clone()),
            (None, Some(axis)) => appended_shape(input, meta, axis)?,
            (None, None) => {
                let whole = self.part.view(meta).ok().map(|v| v.shape());
                let rank = whole.as_ref().map(Vec::len);
                shape_of(input, t, rank, whole.as_deref().unwrap_or_default())?
            }
        };
        if let (Some(Extents(shape)), Input::Npy(header, _)) = (&self.shape, &*input)
            && *shape != header.shape
        {
            return Err(Error::usage(format!("the input has the shape {:?}, not {shape:?}", header.shape)));
        }
        let Some(axis) = axis else {
            let view = self.part.view_of(meta, said.as_deref())?;
            let wanted = view.shape();
            return match said {
                Some(said) if said != wanted => {
                    let what = if self.part.is_whole() { "array" } else { "selection" };
                    Err(Error::usage(format!("the input has the shape {said:?}, the {what} {wanted:?}")))
                }
                _ => Ok(Place { view, shape: wanted, grow: None }),
            };
        };
        let mut shape = said.ok_or_else(|| Error::usage("the input does not say its shape; add --shape"))?;
        if shape.len().checked_add(1) == Some(meta.shape.len()) {
            // One step, without the dimension along which it is one.
            shape.insert(axis, 1);
        }
        let fits = shape.len() == meta.shape.len()
            && shape.iter().zip(&meta.shape).enumerate().all(|(d, (a, b))| d == axis || a == b);
        if !fits {
            return Err(Error::usage(format!(
                "the input has the shape {shape:?}, which cannot be added along dimension {axis} of {:?}",
                meta.shape
            )));
        }
        let count = shape.get(axis).copied().unwrap_or(0);
        Ok(Place { view: View::new(&[], meta)?, shape, grow: Some((axis, count)) })
    }

    /// The elements, of the array's type.
    fn elements(&self, input: Input, meta: &ArrayMeta, shape: &[u64]) -> Result<Elements> {
        let t = &meta.data_type;
        Ok(match input {
            Input::Npy(header, origin) => {
                let cast = Cast::new(header.stored.fixed()?, t, self.cast)?;
                let stream =
                    Stream::new(origin, header.length, header.stored, header.order, shape.to_vec(), false)?;
                Elements::Streamed(stream, cast)
            }
            Input::Raw(origin) => {
                if t.is_variable() {
                    return Err(Error::usage(format!(
                        "elements of type {t} have no fixed size, so they are not raw"
                    )));
                }
                let stored =
                    TypeStr { data_type: Some(t.clone()), endian: Some(Endian::Little), mixed: Vec::new() };
                let order = match self.order {
                    OrderArg::C => Order::C,
                    OrderArg::F => Order::F,
                };
                let stream = Stream::new(origin, 0, stored, order, shape.to_vec(), true)?;
                Elements::Streamed(stream, Cast::new(t, t, false)?)
            }
            Input::Csv(mut table) => {
                table.settle(t)?;
                Elements::Whole(table.elements(t, &meta.fill, shape)?)
            }
            Input::Json(value) => {
                // Without the dimension along which one step is added, if it was left out.
                let own = json::shape(&value, t, Some(shape.len()), shape)?;
                let mut slab = json::elements(&value, t, &own)?;
                slab.shape = shape.to_vec();
                Elements::Whole(slab)
            }
        })
    }

    /// Writes box by box.
    fn write(
        &self,
        common: &Common,
        to: &Destination,
        elements: &mut Elements,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let meta = to.array.meta();
        let bytes = to.view.count()?.saturating_mul(num::u64_of(meta.data_type.size()));
        let watch = Watch::new(bytes, common.progress);
        let options = WriteOptions {
            keep_fill: self.keep_fill,
            alone: self.alone,
            blank: to.blank,
            progress: watch.callback(),
            cancel: Some(watch.cancel.clone()),
        };
        let put = |view: &View, slab: &Slab| -> Result<()> {
            check()?;
            to.array.write(&view.selection()?, Values::from(slab), &options)?;
            watch.window_done(num::u64_of(slab.bytes.len()));
            if watch.cancel.load(Ordering::Relaxed) { Err(Error::cancelled()) } else { Ok(()) }
        };
        match elements {
            Elements::Whole(slab) => put(&to.view, slab)?,
            Elements::Streamed(stream, cast) => {
                let cutting = Cutting {
                    item_size: cast.item_size(),
                    budget: common.memory / 2,
                    order: stream.order,
                    sequential: !stream.is_seekable(),
                };
                for tile in Tiles::new(&to.view, meta, cutting) {
                    let shape = tile.count();
                    common.note(&format!("writing {shape:?} of {:?}", stream.shape));
                    let slab = cast.apply(stream.read(&tile)?, &shape, stream.order)?;
                    put(&to.view.narrowed(&tile.0), &slab)?;
                }
                stream.end()?;
            }
        }
        watch.finish();
        Ok(())
    }

    fn report(
        &self,
        common: &Common,
        array: &Array,
        grown: Option<(usize, u64)>,
        shape: &[u64],
    ) -> Result<()> {
        let list = |numbers: &[u64]| Json::Array(numbers.iter().map(Json::int).collect());
        common.note(&format!("wrote {shape:?} to {}", shown(array.path())));
        if !self.json {
            return Ok(());
        }
        let mut report = Json::Object(vec![
            ("path".into(), Json::string(array.path())),
            ("shape".into(), list(array.shape())),
            ("written".into(), list(shape)),
        ]);
        if let Some((axis, start)) = grown {
            report.set(
                "appended",
                Json::Object(vec![("axis".into(), Json::int(axis)), ("start".into(), Json::int(start))]),
            );
        }
        output::print(&format!("{report}\n"))
    }
}

/// The shape of an input, if it shows: of `rank` dimensions if that is known. `like` is what it should be.
fn shape_of(input: &mut Input, t: &DataType, rank: Option<usize>, like: &[u64]) -> Result<Option<Vec<u64>>> {
    Ok(match input {
        Input::Npy(header, _) => Some(header.shape.clone()),
        Input::Raw(_) => None,
        Input::Csv(table) => {
            table.settle(t)?;
            table.shape(t, rank)
        }
        Input::Json(value) => Some(json::shape(value, t, rank, like)?),
    })
}

/// The shape of an input that is added along `axis`.
fn appended_shape(input: &mut Input, meta: &ArrayMeta, axis: usize) -> Result<Option<Vec<u64>>> {
    if let Input::Raw(Origin::File(_, size)) = input {
        // As many whole steps as there are bytes for; the size is checked when it is read.
        let mut shape = meta.shape.clone();
        if let Some(n) = shape.get_mut(axis) {
            *n = 1;
        }
        let step = num::product(&shape)?.saturating_mul(num::u64_of(meta.data_type.size()));
        if let Some(n) = shape.get_mut(axis) {
            *n = size.checked_div(step).unwrap_or(0);
        }
        return Ok(Some(shape));
    }
    let (t, rank) = (&meta.data_type, meta.shape.len());
    match shape_of(input, t, Some(rank), &meta.shape)? {
        // Perhaps one step, without that dimension.
        None if rank > 0 => shape_of(input, t, Some(rank - 1), &meta.shape),
        Some(shape) if rank > 0 && matches!(input, Input::Csv(_)) => {
            // A line of a table may be a row or an element, and what fits is meant.
            let mut step = meta.shape.clone();
            step.remove(axis);
            let fits = shape.len() == rank
                && shape.iter().zip(&meta.shape).enumerate().all(|(d, (a, b))| d == axis || a == b);
            let one = if fits { None } else { shape_of(input, t, Some(rank - 1), &step)? };
            Ok(Some(one.filter(|s| *s == step).unwrap_or(shape)))
        }
        shape => Ok(shape),
    }
}
