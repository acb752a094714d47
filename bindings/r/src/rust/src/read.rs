//! Reads a part of an array into a vector of R.

use zaro::array::{ArrayView, Slab};
use zaro::cf::{Lost, Reading, related};
use zaro::meta::{DataType, Json};
use zaro::store::StoreExt as _;
use zaro::{Array, Error, Index, Order, ReadOptions, Result, Task};

use crate::call::{Call, Stop, wait};
use crate::handles::{handle, path_of};
use crate::r::{Kept, Kind};
use crate::value::{Value, of_json, whole};
use crate::widen::{Class, Seen, Target, Wanted, target};

/// A window of CF decoding: what is held besides R's vector.
const WINDOW: usize = 64 << 20;

/// What R asked for.
#[derive(Debug, Clone)]
struct Asked {
    order: Order,
    cf: bool,
    /// `double`, `integer64`, `character` or `error`.
    int64: String,
    /// Times as numbers.
    raw_time: bool,
}

impl Asked {
    fn of(args: &Value) -> Self {
        let reversed = args.text("order") == Some("reversed");
        Self {
            // R's first dimension is the fastest: the elements in C order are an array of reversed dimensions.
            order: if reversed { Order::C } else { Order::F },
            cf: args.flag("cf"),
            int64: args.text("int64").unwrap_or("double").to_owned(),
            raw_time: args.text("time") == Some("raw"),
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted { integer64: self.int64 == "integer64", raw_time: self.raw_time }
    }

    fn is_text(&self, t: &DataType) -> bool {
        self.int64 == "character" && matches!(t, DataType::Int(64) | DataType::UInt(64))
    }
}

/// The part of an array to read, and its shape in R.
struct Part {
    array: Array,
    reading: Reading,
    shape: Vec<u64>,
    names: Vec<Option<String>>,
    warnings: Vec<String>,
}

/// The indexes that R gives: per dimension NULL, a start and a count, or positions.
pub(crate) fn indexes(args: &Value, rank: usize) -> Result<Vec<Index>> {
    let kinds = args.texts("kinds");
    let items = args.get("index").items();
    if kinds.is_empty() {
        return Ok(vec![Index::All; rank]);
    }
    if kinds.len() != rank || items.len() != rank {
        return Err(Error::usage(format!("the array has {rank} dimensions, not {}", kinds.len())));
    }
    let one = |(kind, (_, item)): (&String, &(String, Value))| {
        let numbers = item.reals().into_iter().map(|x| whole(x, "index")).collect::<Result<Vec<u64>>>()?;
        let signed = |n: u64| i64::try_from(n).map_err(|_| Error::usage("an index is too large"));
        Ok(match (kind.as_str(), numbers.as_slice()) {
            ("span", [start, count]) => Index::Span(*start, *count),
            ("at", [at]) => Index::At(signed(*at)?),
            ("list", _) => Index::List(numbers.into_iter().map(signed).collect::<Result<_>>()?),
            _ => Index::All,
        })
    };
    kinds.iter().zip(items).map(one).collect()
}

fn part(
    handle: &crate::handles::Handle,
    task: &Task,
    path: &str,
    args: &Value,
    asked: &Asked,
) -> Result<Part> {
    let array = handle.array(task, path)?;
    let view = ArrayView::new(&indexes(args, array.shape().len())?, array.meta())?;
    let mut warnings = Vec::new();
    let reading = match asked.cf {
        true => {
            let beside = wait(task, related(&handle.zarr, &array))?;
            Reading::decoded(&array, view, &beside, &mut |text| warnings.push(text.to_owned()))
        }
        false => Reading::stored(&array, view),
    };
    let shape = reading.view().shape();
    let names = reading.view().names(array.meta());
    Ok(Part { array, reading, shape, names, warnings })
}

/// Reads a part of an array: a vector with dimensions and class.
pub(crate) fn read(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let (path, asked) = (path_of(args)?, Asked::of(args));
    let part = call.run(|task| part(&handle, task, &path, args, &asked))?;
    for text in &part.warnings {
        call.warn("cf", text.clone());
    }
    let n = count(&part.shape)?;
    let t = part.reading.data_type();
    let decoded = part.reading.is_decoded() || t != part.array.meta().data_type;
    let dims = match args.flag("flat") && part.shape.len() == 1 {
        // What is left of an array along one dimension is a plain vector, as in R.
        true => Value::Null,
        false => dims(&part.shape, &part.names, asked.order, &[])?,
    };
    if let (Some(calendar), false) = (part.reading.calendar(), asked.raw_time) {
        return times(call, &part, &asked, calendar, dims);
    }
    // Without decoding, "raw" times of CF are the stored numbers.
    let t = if part.reading.calendar().is_some() { part.array.meta().data_type.clone() } else { t };
    let decoded = decoded && part.reading.calendar().is_none();
    if asked.is_text(&t) {
        let slab = slab(call, &part, &asked, decoded)?;
        return Ok(dimensioned(long_text(&slab), dims));
    }
    let Some(target) = target(&t, asked.wanted()) else {
        let slab = slab(call, &part, &asked, decoded)?;
        let (value, extra) = of_slab(call, &t, &slab, &asked)?;
        let dims = match extra.is_empty() {
            true => dims,
            false => self::dims(&part.shape, &part.names, asked.order, &extra)?,
        };
        return Ok(match value {
            Value::List(fields) if matches!(t, DataType::Struct(_)) => {
                let each = |(name, field): (String, Value)| (name, dimensioned(field, copy(&dims)));
                Value::List(fields.into_iter().map(each).collect()).with("class", "zaro_struct".into())
            }
            value => dimensioned(value, dims),
        });
    };
    let length = target.length(n);
    let mut kept = Kept::new(target.kind, length)?;
    let buffer = kept.bytes(target.kind, length);
    let seen = match decoded {
        false => {
            let options = ReadOptions::default().with_order(asked.order);
            call.run(|task| {
                let options = options.with_task(task.clone());
                let at = buffer.len().saturating_sub(target.stored_bytes(n));
                let tail = buffer.get_mut(at..).unwrap_or_default();
                // Nothing is read of nothing, but a selection may still be wrong.
                part.array.read_into(&part.reading.view().selection()?, &options, tail)?;
                Ok(target.in_place(buffer, false))
            })?
        }
        true => windowed(call, &part, &asked, &target, buffer)?,
    };
    let value = Value::Kept(kept);
    let dims = match target.width {
        1 => dims,
        width => self::dims(&part.shape, &part.names, asked.order, &[u64::try_from(width).unwrap_or(0)])?,
    };
    settle(call, value, &target, &asked, seen, &t, n, dims)
}

/// What the elements turned out to hold decides about warnings, and about one type.
#[allow(clippy::too_many_arguments)]
fn settle(
    call: &Call,
    value: Value,
    target: &Target,
    asked: &Asked,
    seen: Seen,
    t: &DataType,
    n: usize,
    dims: Value,
) -> Result<Value, Stop> {
    if seen.missing_int
        && let Value::Kept(mut kept) = value
    {
        // -2147483648 is R's NA among integers: all become doubles.
        let ints = kept.bytes(Kind::Integer, n);
        let of = |b: &[u8; 4]| f64::from(i32::from_ne_bytes(*b));
        let doubles: Vec<f64> = ints.as_chunks::<4>().0.iter().map(of).collect();
        return Ok(dimensioned(Value::Real(doubles), dims));
    }
    if seen.beyond > 0 && target.class == Class::Integer64 {
        let why = match t {
            DataType::UInt(_) => "above 2^63 - 1 cannot be integer64; int64 = \"character\" is exact",
            _ => "is the NA of integer64; int64 = \"character\" is exact",
        };
        return Err(Error::unsupported(format!("an element {why}")).into());
    }
    if seen.beyond > 0 && asked.int64 == "error" {
        return Err(Error::unsupported(format!(
            "{} of {n} integers are beyond 2^53, which a double cannot hold; int64 = \"integer64\" or \"character\" is exact",
            seen.beyond
        ))
        .into());
    }
    if seen.beyond > 0 {
        call.warn(
            "precision",
            format!(
                "{} of {n} integers are beyond 2^53 and were rounded; int64 = \"integer64\" or \"character\" is exact",
                seen.beyond
            ),
        );
    }
    let value = dimensioned(value, dims);
    Ok(classed(value, target.class))
}

fn classed(value: Value, class: Class) -> Value {
    match class {
        Class::Plain => value,
        Class::Integer64 => value.with("class", "integer64".into()),
        Class::PosixCt => value
            .with("class", vec!["POSIXct".to_owned(), "POSIXt".to_owned()].into())
            .with("tzone", "UTC".into()),
        Class::Date => value.with("class", "Date".into()),
        Class::Difftime => value.with("class", "difftime".into()).with("units", "secs".into()),
    }
}

/// Decodes window by window, so that little more than R's vector is in memory.
fn windowed(
    call: &Call,
    part: &Part,
    asked: &Asked,
    target: &Target,
    buffer: &mut [u8],
) -> Result<Seen, Stop> {
    let (seen, lost) = call.run(|task| {
        let mut seen = Seen::default();
        let mut lost = Lost::default();
        let options = ReadOptions::default().with_order(asked.order).with_task(task.clone());
        let windows: Vec<ArrayView> = zaro::blocking::block_on(async {
            Ok(part.reading.windows(WINDOW, asked.order).await?.collect())
        })?;
        let mut rest = buffer;
        for window in windows {
            let slab = wait(task, part.reading.read(&window, &options, &mut lost))?;
            let size = slab.len().saturating_mul(target.width).saturating_mul(target.kind.size());
            let (now, then) = std::mem::take(&mut rest)
                .split_at_mut_checked(size)
                .ok_or_else(|| Error::invalid("a window is too long"))?;
            target.convert(&slab.bytes, now, true, &mut seen);
            rest = then;
        }
        Ok((seen, lost.messages()))
    })?;
    for text in lost {
        call.warn("cf", text);
    }
    Ok(seen)
}

/// CF times: POSIXct, or text in the calendars that POSIXct does not have.
fn times(call: &Call, part: &Part, asked: &Asked, calendar: &str, dims: Value) -> Result<Value, Stop> {
    let options = ReadOptions::default().with_order(asked.order);
    let mut lost = Lost::default();
    let out = match calendar {
        "standard" | "proleptic_gregorian" => {
            let seconds = call.run(|task| {
                let options = options.with_task(task.clone());
                wait(task, part.reading.read_seconds(part.reading.view(), &options, &mut lost))
            })?;
            let na = |x: f64| if x.is_nan() { crate::r::na_real() } else { x };
            let seconds = seconds.unwrap_or_default().into_iter().map(na).collect();
            classed(dimensioned(Value::Real(seconds), dims), Class::PosixCt)
        }
        other => {
            let slab = call.run(|task| {
                let options = options.with_task(task.clone());
                wait(task, part.reading.read(part.reading.view(), &options, &mut lost))
            })?;
            let text = |item: &[u8]| match item {
                b"NaT" => None,
                item => Some(String::from_utf8_lossy(item).into_owned()),
            };
            let texts = slab.items().map(text).collect();
            dimensioned(Value::Text(texts), dims).with("calendar", other.into())
        }
    };
    for text in lost.messages() {
        call.warn("cf", text);
    }
    Ok(out)
}

/// The elements as the library has them.
fn slab(call: &Call, part: &Part, asked: &Asked, decoded: bool) -> Result<Slab, Stop> {
    let mut lost = Lost::default();
    let slab = call.run(|task| {
        let options = ReadOptions::default().with_order(asked.order).with_task(task.clone());
        match decoded {
            true => wait(task, part.reading.read(part.reading.view(), &options, &mut lost)),
            false => part.array.read_slab_blocking(&part.reading.view().selection()?, &options),
        }
    })?;
    for text in lost.messages() {
        call.warn("cf", text);
    }
    Ok(slab)
}

/// Elements that are not numbers of a fixed size; also the extents inside an element, fastest first.
fn of_slab(call: &Call, t: &DataType, slab: &Slab, asked: &Asked) -> Result<(Value, Vec<u64>), Stop> {
    let plain = |value| Ok((value, Vec::new()));
    match t {
        DataType::String => plain(words(slab.items().map(<[u8]>::to_vec))?),
        DataType::FixedBytes(_) => {
            let cut = |item: &[u8]| {
                let end = item.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
                item.get(..end).unwrap_or_default().to_vec()
            };
            plain(words(slab.items().map(cut))?)
        }
        DataType::FixedUtf32(_) => plain(words(slab.items().map(|item| utf32(item).into_bytes()))?),
        DataType::Bytes => {
            let raw = |item: &[u8]| (String::new(), Value::Raw(item.to_vec()));
            plain(Value::List(slab.items().map(raw).collect()))
        }
        DataType::Json => {
            let one = |item: &[u8]| Ok((String::new(), of_json(&Json::parse(item)?.value)));
            plain(Value::List(slab.items().map(one).collect::<Result<_>>()?))
        }
        DataType::List(inner) => {
            let one = |item: &[u8]| {
                let n = item.len().checked_div(inner.size()).unwrap_or(0);
                let n = u64::try_from(n).unwrap_or(0);
                let inside = Slab::new(inner, &[n], Order::C, item.to_vec())?;
                Ok((String::new(), vector(call, inner, &inside, asked)?.0))
            };
            plain(Value::List(slab.items().map(one).collect::<Result<_, Stop>>()?))
        }
        DataType::Struct(fields) => {
            let size = t.size();
            let mut out = Vec::new();
            for field in fields.iter() {
                let (from, to) = (field.offset, field.offset + field.data_type.size());
                let bytes: Vec<u8> = slab
                    .bytes
                    .chunks_exact(size.max(1))
                    .flat_map(|item| item.get(from..to).unwrap_or_default().iter().copied())
                    .collect();
                let inside = Slab::new(&field.data_type, &slab.shape, slab.order, bytes)?;
                out.push((field.name.clone(), vector(call, &field.data_type, &inside, asked)?.0));
            }
            plain(Value::List(out))
        }
        DataType::SubArray(inner, shape) => {
            let each: u64 = shape.iter().map(|n| u64::try_from(*n).unwrap_or(0)).product();
            let n = u64::try_from(slab.len()).unwrap_or(0).saturating_mul(each);
            let inside = Slab::new(inner, &[n], Order::C, slab.bytes.clone())?;
            let extra = shape.iter().rev().map(|n| u64::try_from(*n).unwrap_or(0)).collect();
            Ok((vector(call, inner, &inside, asked)?.0, extra))
        }
        other => Err(Error::unsupported(format!("elements of type {other} have no form in R")).into()),
    }
}

/// Elements of any type as a vector of their own.
fn vector(call: &Call, t: &DataType, slab: &Slab, asked: &Asked) -> Result<(Value, Vec<u64>), Stop> {
    if asked.is_text(t) {
        return Ok((long_text(slab), Vec::new()));
    }
    let Some(target) = target(t, asked.wanted()) else { return of_slab(call, t, slab, asked) };
    let (n, length) = (slab.len(), target.length(slab.len()));
    let mut kept = Kept::new(target.kind, length)?;
    let mut seen = Seen::default();
    target.convert(&slab.bytes, kept.bytes(target.kind, length), false, &mut seen);
    let value = settle(call, Value::Kept(kept), &target, asked, seen, t, n, Value::Null)?;
    let extra = if target.width == 1 { Vec::new() } else { vec![u64::try_from(target.width).unwrap_or(0)] };
    Ok((value, extra))
}

/// 64-bit integers as text.
fn long_text(slab: &Slab) -> Value {
    let text = |item: &[u8]| {
        let bits: [u8; 8] = item.try_into().unwrap_or_default();
        Some(match slab.data_type {
            DataType::UInt(_) => u64::from_le_bytes(bits).to_string(),
            _ => i64::from_le_bytes(bits).to_string(),
        })
    };
    Value::Text(slab.items().map(text).collect())
}

/// Texts of R, which cannot hold a NUL.
fn words(items: impl Iterator<Item = Vec<u8>>) -> Result<Value> {
    let words: Vec<Vec<u8>> = items.collect();
    if words.iter().any(|w| w.contains(&0)) {
        return Err(Error::unsupported("a text holds a NUL character, which text in R cannot"));
    }
    Ok(Value::Words(words))
}

/// Text of 32-bit characters; padding at the end is cut.
fn utf32(item: &[u8]) -> String {
    let one = |b: &[u8; 4]| char::from_u32(u32::from_le_bytes(*b)).unwrap_or(char::REPLACEMENT_CHARACTER);
    let text: String = item.as_chunks::<4>().0.iter().map(one).collect();
    text.trim_end_matches('\0').to_owned()
}

fn count(shape: &[u64]) -> Result<usize> {
    let n = shape.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
    n.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| Error::usage("the selection is too large"))
}

/// The attribute `dim`, with names; NULL for a scalar.
fn dims(shape: &[u64], names: &[Option<String>], order: Order, first: &[u64]) -> Result<Value> {
    let mut all: Vec<(u64, Option<&str>)> =
        shape.iter().zip(names).map(|(n, name)| (*n, name.as_deref())).collect();
    if order == Order::C {
        all.reverse();
    }
    let inside = first.iter().map(|n| (*n, Some("byte")));
    let all: Vec<(u64, Option<&str>)> = inside.chain(all).collect();
    if all.is_empty() {
        return Ok(Value::Null);
    }
    let extent = |n: u64| {
        i32::try_from(n).map_err(|_| {
            Error::usage(format!("a dimension of {n} is longer than R allows (2^31 - 1); read a part of it"))
        })
    };
    let extents = Value::Int(all.iter().map(|(n, _)| extent(*n)).collect::<Result<_>>()?);
    Ok(match all.iter().any(|(_, name)| name.is_some()) {
        true => {
            let names = all.iter().map(|(_, name)| Some(name.unwrap_or_default().to_owned())).collect();
            extents.with("names", Value::Text(names))
        }
        false => extents,
    })
}

fn dimensioned(value: Value, dims: Value) -> Value {
    match dims {
        Value::Null => value,
        dims => value.with("dim", dims),
    }
}

/// Another copy of dimensions.
fn copy(dims: &Value) -> Value {
    match dims {
        Value::Int(v) => Value::Int(v.clone()),
        Value::Text(v) => Value::Text(v.clone()),
        Value::With(inner, attributes) => Value::With(
            Box::new(copy(inner)),
            attributes.iter().map(|(name, value)| (name.clone(), copy(value))).collect(),
        ),
        _ => Value::Null,
    }
}

/// Whether the objects of chunks exist; a chunk of a shard if its shard does.
pub(crate) fn present(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let at = args.wholes("chunk")?;
    let there = call.run(|task| {
        let array = handle.array(task, &path)?;
        let meta = array.meta();
        // The grid is that of the stored objects. One of varying chunks is not looked at: its chunks are read.
        let Some(extents) = meta.grid.regular_shape() else { return Ok(true) };
        let index: Vec<u64> =
            at.iter().zip(&extents).map(|(first, extent)| first.checked_div(*extent).unwrap_or(0)).collect();
        let key = meta.keys.key(array.path(), &index);
        wait(task, array.store().exists(&key))
    })?;
    Ok(there.into())
}
