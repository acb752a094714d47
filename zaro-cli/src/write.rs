//! `zaro write`: write elements from a file into an array.

use std::path::PathBuf;

use clap::Args;
use zaro::array::ArrayView;
use zaro::format::{Elements, Input, RawOrigin};
use zaro::hierarchy::{self, Existing};
use zaro::internal::path::shown;
use zaro::internal::text::u64_of;
use zaro::meta::{ArrayMeta, Endian, Json, NewArray};
use zaro::store::SharedStore;
use zaro::{Array, Error, Index, Order, Result, Slab, WriteOptions, create};

use crate::args::{Common, Target};
use crate::format::Format;
use crate::making::{self, Extents, Making};
use crate::path::{local_path, word};
use crate::progress::Watch;
use crate::read::ORDERS;
use crate::select::ArrayPart;
use crate::{output, resize, signal};

const EXAMPLES: &str = "\
Examples:
  A numpy file into an array of its shape and type:
      zaro write data.zarr temperature --from temperature.npy
  Create the array as well:
      zaro write data.zarr temperature --from temperature.npy --create --chunks 1,90,180 --dims time,lat,lon
  One step of it, one corner of it:
      zaro write data.zarr temperature --from today.npy --select '6,:,:'
      zaro write data.zarr temperature --from corner.npy --start 0,10,20
  Append more steps:
      zaro write data.zarr temperature --from tomorrow.npy --append time
  From the output of another program:
      zaro read a.zarr x --format raw -o - | zaro write b.zarr x --from - --input-format raw

numpy files and raw elements of any size are streamed, within --memory; JSON and CSV are read
whole. A chunk is written atomically. Several programs may write to one array concurrently; no
element of any is lost.";

/// Write elements from a file into an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Write {
    #[command(flatten)]
    target: Target,
    /// Input file, - for standard input; its extension (.npy .raw .bin .csv .json) sets the format
    #[arg(long, value_name = "FILE", value_parser = local_path())]
    from: PathBuf,
    /// Input format [default: by the extension of FILE]
    #[arg(long, value_parser = word(Format::INPUTS), value_name = "FORMAT")]
    input_format: Option<Format>,
    /// Shape of the input where the format does not tell: raw, or CSV of more than two dimensions
    #[arg(long, value_name = "N,N,…", value_parser = making::parse_extents)]
    shape: Option<Extents>,
    /// Element order of raw input: C (last dimension fastest) or F
    #[arg(long, value_parser = word(ORDERS), value_name = "C|F", default_value = "C", hide_possible_values = true, ignore_case = true)]
    order: Order,
    /// Convert numbers to the array's type; a number that does not fit is an error
    #[arg(long)]
    cast: bool,
    #[command(flatten)]
    part: ArrayPart,
    /// Append along this dimension, by name or number
    #[arg(long, value_name = "DIM", conflicts_with_all = ["start", "count", "select", "sel"])]
    append: Option<String>,

    /// Create the array if it does not exist, with the input's shape and type
    #[arg(long)]
    create: bool,
    /// With --create: replace an existing array
    #[arg(long, requires = "create")]
    overwrite: bool,
    #[command(flatten)]
    making: Making,

    /// Also store chunks that hold nothing but the fill value
    #[arg(long, help_heading = "How to write")]
    keep_fill: bool,
    /// Assume a single writer: needed where a store has no conditional puts, as some S3 servers. Concurrent writes
    /// are lost
    #[arg(long = "single-writer", alias = "alone", help_heading = "How to write")]
    alone: bool,
    /// Wait until every file is on disk (fsync), so that it survives a crash of the machine
    #[arg(long, help_heading = "How to write")]
    fsync: bool,
    /// Print a JSON summary
    #[arg(long, help_heading = "How to write")]
    json: bool,
}

/// The array to write to.
enum Found {
    There(Array),
    /// It does not exist, and is to be created like this.
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

/// Where in an array the input is written, before the array is modified.
struct Place {
    view: ArrayView,
    /// The shape of the input.
    shape: Vec<u64>,
    /// Along which dimension the array has to grow first, and by how much; then `view` is not yet known.
    grow: Option<(usize, u64)>,
}

/// Where the elements are written: which part of which array.
struct Destination {
    array: Array,
    view: ArrayView,
    /// Whether the array was just created.
    blank: bool,
    /// The dimension that is appended along, and from which index on.
    grown: Option<(usize, u64)>,
}

impl Write {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let named = |e: Error| if e.store().is_none() { e.within(self.from.display()) } else { e };
        let mut input = self.open()?;
        if !self.create {
            self.refuse_idle_options()?;
        }
        let folder = PathBuf::from(self.target.uri.strip_prefix("file://").unwrap_or(&self.target.uri));
        let is_new = !folder.exists();
        let (store, path) = common.open_for_writing(&self.target, self.fsync).await?;
        let target = self.find(common, &store, &path, &mut input).await?;
        let placed = |e: Error| e.with_node(shown(&path)).with_store(&store);
        if let (Found::There(array), false) = (&target, self.part.named.is_empty()) {
            self.part.look_up(&common.zarr_in(&store).await?, array).await.map_err(placed)?;
        }
        let Place { view, shape, grow } = self.place(&target, &mut input).map_err(placed)?;
        // Everything that shows of the input without reading it all is found wrong before the array is touched.
        let elements = input.elements(target.meta(), &shape, self.order, self.cast).map_err(named)?;
        let (mut appending, mut writing) = (None, None);
        let destination = match (target, grow) {
            (Found::Missing(meta), _) => {
                let existing = if self.overwrite { Existing::Replace } else { Existing::Refuse };
                let making = create::array(&store, &path, &meta, existing).await?;
                let to = Destination { array: making.array.clone(), view, blank: true, grown: None };
                let written = self.write(common, &to, elements, Some(&making)).await.map_err(named);
                let made = making.finish(written).await;
                if made.is_err() && is_new {
                    // Nothing is to be left of it; what is not empty stays.
                    let _ = std::fs::remove_dir(&folder);
                }
                let made = made?;
                store.finish().await?;
                return self.report(common, &made, None, &shape);
            }
            (Found::There(array), None) => {
                writing = Some(array.writing().await?);
                Destination { array, view, blank: false, grown: None }
            }
            (Found::There(_), Some((axis, count))) => {
                let begun = hierarchy::append(&store, &path, axis, count, self.alone);
                let begun = resize::patiently(common, &store, &path, begun).await?;
                let (array, start) = (begun.array.clone(), begun.start);
                appending = Some(begun);
                let span = |d| if d == axis { Index::Span(start, count) } else { Index::All };
                let indexes: Vec<Index> = (0..array.shape().len()).map(span).collect();
                let view = ArrayView::new(&indexes, array.meta())?;
                Destination { array, view, blank: false, grown: Some((axis, start)) }
            }
        };
        if let Err(e) = self.write(common, &destination, elements, None).await {
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
                // An exit code that says "stopped" would be that of an append which has not happened.
                signal::too_late();
                Some(appending.publish().await?)
            }
            None => None,
        };
        store.finish().await?;
        let told = self.report(common, &destination.array, destination.grown, &shape);
        match appended {
            Some(appended) if told.is_err() => appended.leave().await,
            appended => drop(appended),
        }
        told
    }

    /// Opens the input and reads its shape and type.
    fn open(&self) -> Result<Input> {
        let named = |e: Error| e.within(self.from.display());
        let read: fn(RawOrigin) -> Result<Input> =
            match self.input_format.or_else(|| Format::of_file(&self.from)) {
                Some(Format::Npy) => Input::npy,
                Some(Format::Raw) => |origin| Ok(Input::Raw(origin)),
                Some(Format::Csv) => Input::csv,
                Some(Format::Json) => Input::json,
                Some(Format::Table | Format::Png) | None => {
                    return Err(named(Error::usage(
                        "unknown extension (known are .npy .raw .bin .csv .json); add --input-format",
                    )));
                }
            };
        let origin = match self.from.as_os_str() == "-" {
            true => RawOrigin::Pipe(Box::new(signal::StoppableStdin::new()?)),
            // Its errors name the file.
            false => RawOrigin::open(&self.from)?,
        };
        read(origin).map_err(named)
    }

    /// An option that is for a new array only, if one was given.
    fn option_for_new(&self) -> Option<&'static str> {
        let m = &self.making;
        let given = [
            ("--dtype", m.dtype.is_some()),
            ("--chunks", m.storage.chunks.is_some()),
            ("--shards", m.storage.shards.is_some()),
            ("--codec", m.storage.codec.is_some()),
            ("--fill", m.fill.is_some()),
            ("--endian", m.endian.is_some()),
            ("--separator", m.separator.is_some()),
            ("--key-encoding", m.key_encoding.is_some()),
            ("--dims", m.dims.is_some()),
            ("--attrs", m.attrs.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }

    /// Refuses options that only apply to a new array.
    fn refuse_idle_options(&self) -> Result<()> {
        match self.option_for_new() {
            Some(option) => Err(Error::usage(format!("{option} applies to a new array only; add --create"))),
            None => Ok(()),
        }
    }

    /// Finds the array to write to, or describes the one to create.
    async fn find(
        &self,
        common: &Common,
        store: &SharedStore,
        path: &str,
        input: &mut Input,
    ) -> Result<Found> {
        let there = self.create && !self.overwrite && hierarchy::find(store, path).await?.is_some();
        if there {
            create::finish_array(store, path).await?;
        }
        if !self.create || there {
            if there && let Some(option) = self.option_for_new() {
                common.warn(&format!("the array already exists, so {option} has no effect"));
            }
            let array = common.zarr_in(store).await?.array(path).await;
            let array = array.map_err(|e| match e.is_not_found() {
                true => e.with_hint("create", "creates a new array"),
                false => e,
            })?;
            common.warn_findings(array.findings());
            return Ok(Found::There(array));
        }
        if !self.part.is_whole() {
            return Err(Error::usage(
                "cannot write a part of an array that does not exist; create it first, with zaro create",
            ));
        }
        let format = create::format_for(store, path, common.format()).await?;
        let mut new = NewArray::default().with_format(format);
        (new.data_type, new.endian) = match (self.making.data_type()?, &*input) {
            (Some((t, endian)), _) => (t, endian.unwrap_or(Endian::Little)),
            (None, Input::Npy(header, _)) => (header.stored.fixed()?.clone(), Endian::Little),
            (None, _) => return Err(Error::usage("the type of the input is unknown; add --dtype")),
        };
        let shape = match &self.shape {
            Some(shape) => Some(shape.0.clone()),
            None => input.shape(&new.data_type, None, &[])?,
        };
        new.shape = shape.ok_or_else(|| Error::usage("the shape of the input is unknown; add --shape"))?;
        self.making.apply(&mut new)?;
        Ok(Found::Missing(Box::new(new.meta()?)))
    }

    /// Where in the array the input is written.
    fn place(&self, target: &Found, input: &mut Input) -> Result<Place> {
        let meta = target.meta();
        // What is made now is made as long as it has to be.
        let append = self.append.as_deref().filter(|_| matches!(target, Found::There(_)));
        let axis = append.map(|name| resize::dimension(name, meta)).transpose()?;
        let said = match (&self.shape, axis) {
            (Some(shape), _) => Some(shape.0.clone()),
            (None, Some(axis)) => input.appended_shape(meta, axis)?,
            (None, None) => {
                let whole = self.part.view(meta).ok().map(|v| v.shape());
                let rank = whole.as_ref().map(Vec::len);
                input.shape(&meta.data_type, rank, whole.as_deref().unwrap_or_default())?
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
        let mut shape = said.ok_or_else(|| Error::usage("the shape of the input is unknown; add --shape"))?;
        if shape.len().checked_add(1) == Some(meta.shape.len()) {
            // One step, without the dimension along which it is one.
            shape.insert(axis, 1);
        }
        let fits = shape.len() == meta.shape.len()
            && shape.iter().zip(&meta.shape).enumerate().all(|(d, (a, b))| d == axis || a == b);
        if !fits {
            return Err(Error::usage(format!(
                "the input has the shape {shape:?}, which cannot be appended along dimension {axis} of {:?}",
                meta.shape
            )));
        }
        let count = shape.get(axis).copied().unwrap_or(0);
        Ok(Place { view: ArrayView::new(&[], meta)?, shape, grow: Some((axis, count)) })
    }

    /// Writes window by window.
    async fn write(
        &self,
        common: &Common,
        to: &Destination,
        elements: Elements,
        making: Option<&create::Creating>,
    ) -> Result<()> {
        let meta = to.array.meta();
        let bytes = to.view.count()?.saturating_mul(u64_of(meta.data_type.size()));
        let watch = Watch::windows(bytes, common.progress);
        let options = WriteOptions::default()
            .with_keep_fill(self.keep_fill)
            .with_single_writer(self.alone)
            .with_assume_empty(to.blank)
            .with_task(watch.task());
        let (watched, options) = (&watch, &options);
        let put = |view: ArrayView, slab: Slab| async move {
            if let Some(making) = making {
                making.check().await?;
            }
            let bytes = u64_of(slab.bytes.len());
            to.array.write_slab(&view.selection()?, slab.into(), options).await?;
            watched.window_done(bytes);
            options.task.check()
        };
        elements.each(&to.view, meta, common.memory / 2, put).await?;
        Ok(())
    }

    fn report(
        &self,
        common: &Common,
        array: &Array,
        grown: Option<(usize, u64)>,
        shape: &[u64],
    ) -> Result<()> {
        common.note(&format!("wrote {shape:?} to {}", shown(array.path())));
        if !self.json {
            return Ok(());
        }
        let mut report = Json::from([
            ("path", array.path().into()),
            ("shape", array.shape().into()),
            ("written", shape.into()),
        ]);
        if let Some((axis, start)) = grown {
            report.set("appended", Json::from([("axis", axis.into()), ("start", start.into())]));
        }
        output::json_line(report)
    }
}
