//! Creates nodes and writes elements.

use zaro::array::{ArrayView, Slab};
use zaro::hierarchy::{self, Existing};
use zaro::internal::dtype;
use zaro::meta::{
    ArrayMeta, AttributesEdit, DataType, Float, Format, Json, NewArray, TimeUnit, parse_codecs,
};
use zaro::open::open_store_for_writing;
use zaro::store::{SharedStore, StoreOptions};
use zaro::{Array, Error, Index, Order, Result, Selection, Task, Values, WriteOptions};

use crate::call::{Call, Stop, wait};
use crate::handles::{forget, shape, store_options};
use crate::value::{NA_INT, Value, to_json};

/// Where to write: the store that the node's hierarchy begins at, and the node's path in it.
struct Place {
    uri: String,
    options: StoreOptions,
    path: String,
}

impl Place {
    fn of(args: &Value) -> Result<Self> {
        let store = args.get("store");
        let path = args.text("path").unwrap_or_default();
        let (uri, path) = zaro::open::from_the_top(store.word("uri")?, if path == "." { "" } else { path })?;
        let path = zaro::internal::path::normal(&path)?;
        Ok(Self { uri, options: store_options(store.get("options"))?, path })
    }

    async fn open(&self) -> Result<SharedStore> {
        let store = open_store_for_writing(&self.uri, &self.options).await?;
        zaro::open::refuse_references(&store).await?;
        Ok(store)
    }
}

/// Runs a change, and closes what is open there.
fn change<T: Send>(call: &Call, place: &Place, work: impl AsyncWork<T>) -> Result<T, Stop> {
    let done = call.run(|task| {
        wait(task, async {
            let store = place.open().await?;
            let done = work.run(task, &store, &place.path).await?;
            store.finish().await?;
            Ok(done)
        })
    });
    forget(&place.uri);
    done
}

/// An async closure that can go to another thread.
trait AsyncWork<T>: Send {
    fn run(self, task: &Task, store: &SharedStore, path: &str) -> impl Future<Output = Result<T>> + Send;
}

fn existing(args: &Value) -> Existing {
    if args.flag("overwrite") { Existing::Replace } else { Existing::Refuse }
}

fn format(args: &Value) -> Result<Option<Format>> {
    Ok(match args.number("zarr_format")? {
        None => None,
        Some(2) => Some(Format::V2),
        Some(3) => Some(Format::V3),
        Some(n) => return Err(Error::usage(format!("'zarr_format' must be 2 or 3, not {n}"))),
    })
}

fn members(args: &Value) -> Result<Vec<(String, Json)>> {
    args.get("attributes").items().iter().map(|(name, value)| Ok((name.clone(), to_json(value)?))).collect()
}

struct NewGroup(Option<Format>, Json, Existing);

impl AsyncWork<()> for NewGroup {
    async fn run(self, _: &Task, store: &SharedStore, path: &str) -> Result<()> {
        let format = zaro::create::format_for(store, path, self.0).await?;
        hierarchy::create_group(store, path, format, &self.1, self.2).await
    }
}

/// Creates a group.
pub(crate) fn create_group(call: &Call, args: &Value) -> Result<Value, Stop> {
    let work = NewGroup(format(args)?, Json::Object(members(args)?), existing(args));
    change(call, &Place::of(args)?, work)?;
    Ok(Value::Null)
}

struct Create(NewArray, Option<Format>, Existing);

impl AsyncWork<()> for Create {
    async fn run(self, _: &Task, store: &SharedStore, path: &str) -> Result<()> {
        let Self(mut new, format, existing) = self;
        new.format = zaro::create::format_for(store, path, format).await?;
        hierarchy::create_array(store, path, &new, existing).await.map(drop)
    }
}

/// Creates an array.
pub(crate) fn create(call: &Call, args: &Value) -> Result<Value, Stop> {
    let (data_type, endian) = dtype::parse(args.word("data_type")?)?;
    let sizes = |name: &str| -> Result<Option<Vec<u64>>> {
        let list = args.wholes(name)?;
        Ok((!list.is_empty()).then_some(list))
    };
    let names = match args.get("dimension_names") {
        Value::Text(names) => Some(names.clone()),
        _ => None,
    };
    let fill = args.text("fill").map(|text| dtype::fill(&data_type, text)).transpose()?;
    let mut new = NewArray::new(data_type, args.wholes("shape")?)
        .with_chunks(sizes("chunks")?)
        .with_shards(sizes("shards")?)
        .with_codecs(args.text("codecs").map(parse_codecs).transpose()?)
        .with_dimension_names(names)
        .with_fill(fill)
        .with_attributes(members(args)?);
    if let Some(endian) = endian {
        new.endian = endian;
    }
    change(call, &Place::of(args)?, Create(new, format(args)?, existing(args)))?;
    Ok(Value::Null)
}

struct Resize(Vec<u64>);

impl AsyncWork<Vec<u64>> for Resize {
    async fn run(self, _: &Task, store: &SharedStore, path: &str) -> Result<Vec<u64>> {
        Ok(hierarchy::resize(store, path, &self.0).await?.shape().to_vec())
    }
}

/// Changes the shape of an array.
pub(crate) fn resize(call: &Call, args: &Value) -> Result<Value, Stop> {
    let now = change(call, &Place::of(args)?, Resize(args.wholes("shape")?))?;
    Ok(shape(&now))
}

struct Edit(AttributesEdit);

impl AsyncWork<()> for Edit {
    async fn run(self, _: &Task, store: &SharedStore, path: &str) -> Result<()> {
        hierarchy::edit_attributes(store, path, &self.0).await
    }
}

/// Changes attributes.
pub(crate) fn attributes(call: &Call, args: &Value) -> Result<Value, Stop> {
    let edit = match args.flag("replace") {
        true => AttributesEdit::Replace(members(args)?),
        false => AttributesEdit::Patch { set: members(args)?, unset: args.texts("unset") },
    };
    change(call, &Place::of(args)?, Edit(edit))?;
    Ok(Value::Null)
}

struct Consolidate;

impl AsyncWork<u64> for Consolidate {
    async fn run(self, _: &Task, store: &SharedStore, path: &str) -> Result<u64> {
        Ok(zaro::internal::text::u64_of(hierarchy::consolidate(store, path).await?))
    }
}

/// Writes consolidated metadata.
pub(crate) fn consolidate(call: &Call, args: &Value) -> Result<Value, Stop> {
    Ok(change(call, &Place::of(args)?, Consolidate)?.into())
}

struct Delete;

impl AsyncWork<()> for Delete {
    async fn run(self, _: &Task, store: &SharedStore, path: &str) -> Result<()> {
        hierarchy::delete(store, path).await
    }
}

/// Deletes a node.
pub(crate) fn delete(call: &Call, args: &Value) -> Result<Value, Stop> {
    change(call, &Place::of(args)?, Delete)?;
    Ok(Value::Null)
}

/// Elements of R, and where they go.
struct Elements<'a> {
    args: &'a Value,
    /// The dimensions of the data, in Zarr order.
    extents: Vec<u64>,
    order: Order,
    append: Option<String>,
    single_writer: bool,
}

impl AsyncWork<(Vec<u64>, u64)> for Elements<'_> {
    async fn run(self, task: &Task, store: &SharedStore, path: &str) -> Result<(Vec<u64>, u64)> {
        let options = WriteOptions::default().with_single_writer(self.single_writer).with_task(task.clone());
        let array = hierarchy::open_array(store, path, &crate::handles::context()).await?;
        let Some(along) = &self.append else {
            let view = ArrayView::new(&self.indexes(&array)?, array.meta())?;
            if view.shape() != self.extents {
                return Err(Error::usage(format!(
                    "the data are {:?}, the place for them is {:?}",
                    self.extents,
                    view.shape()
                )));
            }
            let values = self.values(array.meta())?;
            let writing = array.writing().await?;
            array.write_slab(&view.selection()?, values, &options).await?;
            writing.check().await?;
            return Ok((array.shape().to_vec(), 0));
        };
        let axis = array.meta().dimension(along)?;
        let count = self.extents.get(axis).copied().unwrap_or(0);
        let fits = array.shape().len() == self.extents.len()
            && array.shape().iter().zip(&self.extents).enumerate().all(|(d, (a, b))| d == axis || a == b);
        if !fits {
            return Err(Error::usage(format!(
                "the data are {:?}, and the array {:?}: they may differ along the dimension to append only",
                self.extents,
                array.shape()
            )));
        }
        let values = self.values(array.meta())?;
        let appending = hierarchy::append(store, path, axis, count, self.single_writer).await?;
        let start = appending.start;
        let span = |d| if d == axis { Index::Span(start, count) } else { Index::All };
        let place = Selection::new((0..self.extents.len()).map(span).collect());
        if let Err(e) = appending.array.write_slab(&place, values, &options).await {
            // What failed is what has to be told.
            let _ = appending.give_up().await;
            return Err(e);
        }
        let appended = appending.publish().await?;
        Ok((appended.array.shape().to_vec(), start))
    }
}

impl Elements<'_> {
    fn indexes(&self, array: &Array) -> Result<Vec<Index>> {
        crate::read::indexes(self.args, array.shape().len())
    }

    fn values(&self, meta: &ArrayMeta) -> Result<Values> {
        let n = self.extents.iter().product::<u64>();
        let data = self.args.get("data");
        let encoder = Encoder {
            t: &meta.data_type,
            class: self.args.text("class").unwrap_or_default(),
            na: self.args.text("na"),
        };
        let slab = encoder.slab(data, &self.extents, self.order)?;
        if zaro::internal::text::u64_of(slab.len()) != n {
            return Err(Error::usage(format!("there are {} elements, not {n}", slab.len())));
        }
        Ok(Values::from(slab))
    }
}

/// Writes elements into a part of an array, or appends them.
pub(crate) fn write(call: &Call, args: &Value) -> Result<Value, Stop> {
    let reversed = args.text("order") == Some("reversed");
    let mut extents = args.wholes("dim")?;
    if reversed {
        extents.reverse();
    }
    let work = Elements {
        args,
        extents,
        order: if reversed { Order::C } else { Order::F },
        append: args.text("append").map(str::to_owned),
        single_writer: args.flag("single_writer"),
    };
    let (now, start) = change(call, &Place::of(args)?, work)?;
    Ok(Value::from([("shape", shape(&now)), ("start", start.into())]))
}

/// R's elements to those of a type.
struct Encoder<'a> {
    t: &'a DataType,
    /// R's class of the vector: POSIXct, Date, difftime, integer64.
    class: &'a str,
    /// What a missing value becomes, as text.
    na: Option<&'a str>,
}

impl Encoder<'_> {
    fn slab(&self, data: &Value, extents: &[u64], order: Order) -> Result<Slab> {
        if self.t.is_variable() {
            let items: Vec<Vec<u8>> = match (self.t, data) {
                (DataType::Bytes, Value::List(list)) => list
                    .iter()
                    .map(|(_, item)| match item {
                        Value::Raw(bytes) => Ok(bytes.clone()),
                        _ => Err(Error::usage("bytes are a list of raw vectors")),
                    })
                    .collect::<Result<_>>()?,
                (DataType::String, Value::Text(texts)) => texts
                    .iter()
                    .map(|t| Ok(self.text(t.as_deref())?.as_bytes().to_vec()))
                    .collect::<Result<_>>()?,
                (t, _) => {
                    return Err(Error::unsupported(format!("R cannot write elements of type {t} from this")));
                }
            };
            return Slab::variable(self.t, extents, order, items.iter().map(Vec::as_slice));
        }
        let mut bytes = Vec::new();
        match data {
            Value::Logical(v) | Value::Int(v) => {
                for n in v {
                    self.number((*n != NA_INT).then(|| f64::from(*n)), &mut bytes)?;
                }
            }
            Value::Real(v) if self.class == "integer64" => {
                for x in v {
                    self.long(x.to_bits().cast_signed(), &mut bytes)?;
                }
            }
            Value::Real(v) if *self.t == DataType::FLOAT64 => {
                bytes.extend(v.iter().flat_map(|x| x.to_le_bytes()))
            }
            Value::Real(v) => {
                for x in v {
                    let missing = x.is_nan() && !matches!(self.t, DataType::Float(_) | DataType::Complex(_));
                    self.number((!missing).then_some(*x), &mut bytes)?;
                }
            }
            Value::Complex(v) => match self.t {
                DataType::Complex(f) => {
                    let part = Encoder { t: &DataType::Float(*f), ..*self };
                    for [re, im] in v {
                        part.number(Some(*re), &mut bytes)?;
                        part.number(Some(*im), &mut bytes)?;
                    }
                }
                t => return Err(Error::usage(format!("complex numbers cannot be written as {t}"))),
            },
            Value::Raw(v) => match self.t {
                DataType::UInt(8) | DataType::Raw(_) => bytes.clone_from(v),
                t => return Err(Error::usage(format!("raw bytes cannot be written as {t}"))),
            },
            Value::Text(v) => {
                for text in v {
                    self.fixed(self.text(text.as_deref())?, &mut bytes)?;
                }
            }
            _ => return Err(Error::usage("the data must be a vector or an array")),
        }
        Slab::new(self.t, extents, order, bytes)
    }

    fn missing(&self) -> Error {
        Error::usage(format!("NA cannot be written as {}; 'na' says what to write instead", self.t))
    }

    fn text<'t>(&'t self, text: Option<&'t str>) -> Result<&'t str> {
        text.or(self.na).ok_or_else(|| self.missing())
    }

    /// A text, or the text of a number, in a fixed number of bytes.
    fn fixed(&self, text: &str, out: &mut Vec<u8>) -> Result<()> {
        let long = || Error::usage(format!("{text:?} is longer than the elements of type {}", self.t));
        match self.t {
            DataType::FixedBytes(n) => {
                let rest = n.checked_sub(text.len()).ok_or_else(long)?;
                out.extend(text.bytes().chain(std::iter::repeat_n(0, rest)));
            }
            DataType::FixedUtf32(n) => {
                let rest = n.checked_sub(text.chars().count()).ok_or_else(long)?;
                out.extend(
                    text.chars()
                        .chain(std::iter::repeat_n('\0', rest))
                        .flat_map(|c| u32::from(c).to_le_bytes()),
                );
            }
            _ => self.spelled(text, out)?,
        }
        Ok(())
    }

    /// A number as the library reads it from text: exact for every type, or an error.
    fn spelled(&self, text: &str, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&dtype::fill(self.t, text)?.0);
        Ok(())
    }

    fn long(&self, n: i64, out: &mut Vec<u8>) -> Result<()> {
        match (self.t, n) {
            (_, i64::MIN) => {
                let na = self.na.ok_or_else(|| self.missing())?;
                self.spelled(na, out)?;
            }
            (DataType::Int(64) | DataType::DateTime(..) | DataType::TimeDelta(..), n) => {
                out.extend(n.to_le_bytes())
            }
            (_, n) => self.spelled(&n.to_string(), out)?,
        }
        Ok(())
    }

    #[allow(clippy::as_conversions)]
    fn number(&self, x: Option<f64>, out: &mut Vec<u8>) -> Result<()> {
        let Some(x) = x else {
            if matches!(self.t, DataType::DateTime(..) | DataType::TimeDelta(..)) {
                out.extend(i64::MIN.to_le_bytes());
                return Ok(());
            }
            let na = match (self.na, self.t) {
                (Some(na), _) => na,
                (None, DataType::Float(_)) => "NaN",
                (None, _) => return Err(self.missing()),
            };
            return self.spelled(na, out);
        };
        let wrong = || Error::usage(format!("{x} is not a value of type {}", self.t));
        let whole = |least: f64, most: f64| {
            if x.fract() == 0.0 && x >= least && x <= most { Ok(x as i64) } else { Err(wrong()) }
        };
        match self.t {
            DataType::Float(Float::F64) => out.extend(x.to_le_bytes()),
            DataType::Float(Float::F32) => out.extend((x as f32).to_le_bytes()),
            DataType::Bool => out.push(match x {
                0.0 => 0,
                1.0 => 1,
                _ => return Err(wrong()),
            }),
            DataType::Int(8) => out.extend((whole(-128.0, 127.0)? as i8).to_le_bytes()),
            DataType::UInt(8) => out.extend((whole(0.0, 255.0)? as u8).to_le_bytes()),
            DataType::Int(16) => out.extend((whole(-32_768.0, 32_767.0)? as i16).to_le_bytes()),
            DataType::UInt(16) => out.extend((whole(0.0, 65_535.0)? as u16).to_le_bytes()),
            DataType::Int(32) => out.extend((whole(-2_147_483_648.0, 2_147_483_647.0)? as i32).to_le_bytes()),
            DataType::UInt(32) => out.extend((whole(0.0, 4_294_967_295.0)? as u32).to_le_bytes()),
            DataType::DateTime(unit, scale) | DataType::TimeDelta(unit, scale) => {
                let n = self.ticks(x, *unit, *scale).ok_or_else(wrong)?;
                out.extend(n.to_le_bytes());
            }
            DataType::Complex(f) => {
                let part = Encoder { t: &DataType::Float(*f), ..*self };
                part.number(Some(x), out)?;
                part.number(Some(0.0), out)?;
            }
            // The digits of a double, whatever the type.
            _ if x.fract() == 0.0 && x.abs() < 1e19 => self.spelled(&format!("{x:.0}"), out)?,
            _ => self.spelled(&format!("{x}"), out)?,
        }
        Ok(())
    }

    /// A time of R in the units of the array.
    #[allow(clippy::as_conversions)]
    fn ticks(&self, x: f64, unit: TimeUnit, scale: u32) -> Option<i64> {
        let seconds = match self.class {
            "Date" => x * 86_400.0,
            "POSIXct" | "difftime" => x,
            // Plain numbers are ticks already.
            _ => return (x.fract() == 0.0).then_some(x as i64),
        };
        let (factor, divisor) = match unit {
            TimeUnit::Week => (604_800.0, 1.0),
            TimeUnit::Day => (86_400.0, 1.0),
            TimeUnit::Hour => (3_600.0, 1.0),
            TimeUnit::Minute => (60.0, 1.0),
            TimeUnit::Second => (1.0, 1.0),
            TimeUnit::Millisecond => (1.0, 1e3),
            TimeUnit::Microsecond => (1.0, 1e6),
            TimeUnit::Nanosecond => (1.0, 1e9),
            _ => return None,
        };
        // Whole seconds first: their product is exact where that of a fraction is not.
        let (whole, part) = (seconds.floor(), seconds - seconds.floor());
        let ticks = match divisor {
            1.0 => (seconds / factor).floor(),
            many => whole * many + (part * many).round(),
        };
        let ticks = ticks / f64::from(scale.max(1));
        (ticks.is_finite() && ticks.abs() < 9.2e18).then_some(ticks.floor() as i64)
    }
}
