//! `/region/{name}/{path…}?sel=&size=&format=bin|npy|csv|json|png|jpg|tif|nii`: a part of an array or an image.

use zaro::array::ArrayView;
use zaro::cf::{Lost, Reading};
use zaro::format::{Csv, JsonLists, Layout, Npy, Sink};
use zaro::image::render::{Region, Size};
use zaro::internal::text::{f64_of_u64 as real, u64_of_f64 as whole};
use zaro::meta::{DataType, Float, NodeMeta};
use zaro::{Array, Index, Order, ReadOptions, Selection, Slab};

use super::cost::{Cost, nearest};
use super::draw::Drawable;
use super::made::Made;
use super::nifti::{self, Side};
use super::paint::{PictureFormat, encode};
use super::stack::{Pick, Rung, Stack, Window, reading};
use super::typed::{self, Note};
use super::{Ask, made, params, planes};
use crate::answer::{Fault, Response};

/// What a region is asked for as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bytes,
    Npy,
    Csv,
    Json,
    Nifti,
    Picture(PictureFormat),
}

impl Form {
    fn parse(text: &str) -> Result<Self, Fault> {
        Ok(match text {
            "bin" => Self::Bytes,
            "npy" => Self::Npy,
            "csv" => Self::Csv,
            "json" => Self::Json,
            "nii" => Self::Nifti,
            other => match PictureFormat::parse(other) {
                Some(format) => Self::Picture(format),
                None => {
                    let all = "bin, npy, csv, json, nii, png, jpg or tif";
                    return Err(Fault::bad(format!("format={other:?}: {all}")));
                }
            },
        })
    }
}

/// Answers a request for a region.
pub(crate) async fn answer(ask: &Ask<'_>) -> Result<Response, Fault> {
    ask.query.only(&params::both(&["region", "size", "level", "format", "raw", "cf"]))?;
    let form = Form::parse(ask.query.get("format").unwrap_or("bin"))?;
    made::answer(ask, async move {
        let node = ask.zarr()?.node(&ask.path).await?;
        match (&node.meta, form) {
            (NodeMeta::Array(_), Form::Picture(format)) => field_picture(ask, format).await,
            (NodeMeta::Array(_), _) => part_of_array(ask, form).await,
            (NodeMeta::Group(_), Form::Picture(format)) => image_picture(ask, format).await,
            (NodeMeta::Group(_), Form::Nifti) => volume(ask).await,
            (NodeMeta::Group(_), _) => part_of_image(ask, form).await,
        }
    })
    .await
}

/// A part of an array, of any number of dimensions.
async fn part_of_array(ask: &Ask<'_>, form: Form) -> Result<Made, Fault> {
    refuse(ask, &["region", "size", "level"], "is for images and pictures; use sel= or isel=")?;
    let zarr = ask.zarr()?;
    let array = zarr.array(&ask.path).await?;
    let indexes = params::indexes(&ask.query, zarr, &array).await?;
    let view = ArrayView::new(&indexes, array.meta()).map_err(reading)?;
    let reader = match ask.query.get("cf") {
        Some("1") => {
            let related = zaro::cf::related(zarr, &array).await.map_err(reading)?;
            Reading::decoded(&array, view, &related, &mut |_| {})
        }
        None | Some("0") => Reading::stored(&array, view),
        Some(other) => return Err(Fault::bad(format!("cf={other:?}: 0 or 1"))),
    };
    let (slab, layout) = read(ask, &array, &indexes, &reader).await?;
    let is_text = matches!(form, Form::Csv | Form::Json);
    let cf = reader.is_decoded() || is_text;
    let meta = array.meta();
    let note = Note::of(meta, "0".to_owned(), reader.is_decoded());
    super::apart(move || write(form, &slab, &layout, cf, &note)).await?
}

/// Reads a part of an array, if it may cost that much.
pub(crate) async fn read(
    ask: &Ask<'_>,
    array: &Array,
    indexes: &[Index],
    reader: &Reading,
) -> Result<(Slab, Layout), Fault> {
    let cost = Cost::of(array, &Selection::new(indexes.to_vec())).map_err(reading)?;
    let _turn = ask.enter(cost, || None).await?;
    let (options, mut lost) = (ReadOptions::default(), Lost::of_text());
    let slab = reader.read(reader.view(), &options, &mut lost).await.map_err(reading)?;
    let mut layout = reader.layout(Order::C);
    let longest = |slab: &Slab| slab.items().map(|item| String::from_utf8_lossy(item).chars().count()).max();
    if slab.data_type == DataType::String {
        layout.width = longest(&slab).unwrap_or(0);
    }
    Ok((slab, layout))
}

/// A slab in one of the formats of numbers.
fn write(form: Form, slab: &Slab, layout: &Layout, cf: bool, note: &Note) -> Result<Made, Fault> {
    let mut out = Vec::new();
    let (mut sink, content_type): (Box<dyn Sink>, _) = match form {
        Form::Bytes => {
            let name = native(&slab.data_type).ok_or_else(|| {
                Fault::bad(format!("elements of type {} are not numbers; use format=json", slab.data_type))
            })?;
            let shape: Vec<String> = layout.shape.iter().map(u64::to_string).collect();
            let header = format!(
                "dtype={name};shape={};fill={};scale={};offset={};exact=true;resample=none",
                shape.join(","),
                note.fill,
                note.scale,
                note.offset
            );
            let made = Made::plain("application/octet-stream", slab.bytes.clone());
            return Ok(made.with("x-zaro-tile", header));
        }
        Form::Npy => (Box::<Npy>::default(), "application/x-npy"),
        Form::Csv => (Box::new(Csv::new(cf)), "text/csv; charset=utf-8"),
        Form::Json => (Box::new(JsonLists::new(cf)), "application/json"),
        Form::Nifti => {
            let sides: Vec<Side> = match layout.shape.as_slice() {
                [] => vec![Side { extent: 1, pixel: 1.0 }],
                shape => shape.iter().map(|extent| Side { extent: *extent, pixel: 1.0 }).collect(),
            };
            let bytes = nifti::file(&slab.data_type, &sides, 0, (note.scale, note.offset), &slab.bytes)?;
            return Ok(Made::plain("application/octet-stream", bytes));
        }
        Form::Picture(_) => return Err(Fault::bad("a picture has two dimensions")),
    };
    let written = sink.begin(layout, &mut out).and_then(|()| sink.block(slab, &mut out));
    written.and_then(|()| sink.end(&mut out))?;
    Ok(Made::plain(content_type, out))
}

/// The name of a type of numbers, as numpy has it.
fn native(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Bool | DataType::UInt(8 | 4 | 2) => "u1",
        DataType::Int(8 | 4 | 2) => "i1",
        DataType::UInt(16) => "u2",
        DataType::Int(16) => "i2",
        DataType::UInt(32) => "u4",
        DataType::Int(32) => "i4",
        DataType::UInt(64) => "u8",
        DataType::Int(64) | DataType::DateTime(..) | DataType::TimeDelta(..) => "i8",
        DataType::Float(Float::F16) => "f2",
        DataType::Float(Float::F32) => "f4",
        DataType::Float(Float::F64) => "f8",
        DataType::Complex(Float::F32) => "c8",
        DataType::Complex(Float::F64) => "c16",
        _ => return None,
    })
}

/// A picture of two dimensions of an array.
async fn field_picture(ask: &Ask<'_>, format: PictureFormat) -> Result<Made, Fault> {
    refuse(
        ask,
        &["region", "level", "cf"],
        "does not apply to pictures of arrays; use sel=, isel= and raw=",
    )?;
    let (stack, zarr) = (ask.stack().await?, ask.zarr()?);
    let array = stack.array(0)?;
    let indexes = params::indexes(&ask.query, zarr, array).await?;
    let (y, x) = (side(&indexes, array, stack.axes.y)?, side(&indexes, array, stack.axes.x)?);
    let mut fixed = Vec::new();
    for (d, (index, extent)) in indexes.iter().zip(array.shape()).enumerate() {
        if d == stack.axes.y || d == stack.axes.x {
            continue;
        }
        match index {
            Index::At(at) => fixed.push((d, params::place(*at, *extent)?)),
            Index::All => fixed.push((d, 0)),
            _ => return Err(Fault::bad("a picture has one position along each dimension not shown")),
        }
    }
    let pick = Pick { c: vec![0], t: 0, z: 0..1, how: None, fixed };
    let region = Region { x: x.0, y: y.0, width: x.1, height: y.1 };
    let size = size(ask, region)?;
    let drawable = Drawable::with(ask, &ask.query, stack.clone(), pick).await?;
    encode(drawable.region(ask, region, size).await?, format).await
}

/// The run of positions along a dimension that is shown.
fn side(indexes: &[Index], array: &Array, d: usize) -> Result<(u64, u64), Fault> {
    let view = ArrayView::new(indexes, array.meta()).map_err(reading)?;
    let kept = view.dimensions().iter().position(|of| *of == d);
    let Some(count) = kept.and_then(|i| view.shape().get(i).copied()).filter(|n| *n > 0) else {
        return Err(Fault::bad("a picture needs a range of rows and of columns"));
    };
    let (first, last) = (view.place(d, 0), view.place(d, count - 1));
    if matches!(indexes.get(d), Some(Index::List(_))) || last.checked_sub(first) != Some(count - 1) {
        return Err(Fault::bad("a picture needs rows and columns without gaps, in their order"));
    }
    Ok((first, count))
}

/// The size of a picture of a region: by default a pixel for each.
fn size(ask: &Ask<'_>, region: Region) -> Result<(u64, u64), Fault> {
    let Some(text) = ask.query.get("size") else { return Ok((region.width, region.height)) };
    Ok(match Size::parse(text)? {
        Size::Exactly(width, height) => (width.into(), height.into()),
        Size::Longest(longest) => {
            let by = real(u64::from(longest)) / real(region.width.max(region.height).max(1));
            let scaled = |side: u64| whole((real(side) * by).round()).max(1);
            (scaled(region.width), scaled(region.height))
        }
    })
}

/// The region of an image, clipped to it.
fn region_of(ask: &Ask<'_>, stack: &Stack) -> Result<Region, Fault> {
    let (width, height) = stack.extent();
    let Some(text) = ask.query.get("region") else { return Ok(Region { x: 0, y: 0, width, height }) };
    let asked = Region::parse(text)?;
    let clip = |start: u64, length: u64, all: u64| {
        let left = all.checked_sub(start).filter(|left| *left > 0);
        left.map(|left| length.min(left)).ok_or_else(|| {
            Fault::bad(format!("region={text}: outside the image, which is {width} x {height}"))
        })
    };
    Ok(Region {
        width: clip(asked.x, asked.width, width)?,
        height: clip(asked.y, asked.height, height)?,
        ..asked
    })
}

/// The level that is asked for, or that a size wants, and the part of it that a region is.
fn place(ask: &Ask<'_>, stack: &Stack, region: Region) -> Result<(Rung, usize, Window), Fault> {
    let rungs = stack.rungs();
    let level = match (ask.query.number::<usize>("level")?, ask.query.get("size")) {
        (Some(level), _) => level,
        (None, None) => 0,
        (None, Some(_)) => {
            let (width, height) = size(ask, region)?;
            let (all_x, all_y) = stack.extent();
            let enough = |rung: &Rung| {
                let fits = |part: u64, own: u64, all: u64, out: u64| {
                    u128::from(part) * u128::from(own) >= u128::from(out) * u128::from(all)
                };
                fits(region.width, rung.width, all_x, width)
                    && fits(region.height, rung.height, all_y, height)
            };
            rungs.iter().rposition(enough).unwrap_or(0)
        }
    };
    let rung = rungs
        .get(level)
        .copied()
        .ok_or_else(|| Fault::bad(format!("level={level}: there are {}, from 0", rungs.len())))?;
    let (width, height) = stack.extent();
    let part = |start: u64, length: u64, own: u64, all: u64| {
        let scaled = |n: u64| u128::from(n) * u128::from(own);
        let all = u128::from(all.max(1));
        let from = u64::try_from(scaled(start) / all).unwrap_or(0).min(own.saturating_sub(1));
        let to = u64::try_from(scaled(start.saturating_add(length)).div_ceil(all)).unwrap_or(own);
        from..to.clamp(from + 1, own.max(from + 1))
    };
    let window = Window {
        rows: part(region.y, region.height, rung.height, height),
        columns: part(region.x, region.width, rung.width, width),
    };
    Ok((rung, level, window))
}

/// The nearest level at which a region may be read.
fn nearest_level(ask: &Ask<'_>, stack: &Stack, asked: usize, window: &Window, pick: &Pick) -> Option<usize> {
    let rungs = stack.rungs();
    let own = rungs.get(asked)?;
    let fits = |level: usize| {
        let Some(rung) = rungs.get(level) else { return false };
        let part = |range: &std::ops::Range<u64>, from: u64, to: u64| {
            let scaled = |n: u64| u64::try_from(u128::from(n) * u128::from(to) / u128::from(from.max(1)));
            let start = scaled(range.start).unwrap_or(0).min(to.saturating_sub(1));
            start..scaled(range.end).unwrap_or(to).clamp(start + 1, to.max(start + 1))
        };
        let window = Window {
            rows: part(&window.rows, own.height, rung.height),
            columns: part(&window.columns, own.width, rung.width),
        };
        stack.cost(rung, &window, pick).is_ok_and(|cost| cost.fits(ask.limits))
    };
    nearest(asked, rungs.len(), fits)
}

/// Numbers of an image: `[channel][row][column]`.
async fn part_of_image(ask: &Ask<'_>, form: Form) -> Result<Made, Fault> {
    refuse(ask, &params::LOOKS, "is for pictures")?;
    refuse(ask, &["cf", "raw"], "is for arrays")?;
    let stack = ask.stack().await?;
    let pick = params::pick(&ask.query, ask.zarr()?, &stack).await?;
    let (rung, level, window) = place(ask, &stack, region_of(ask, &stack)?)?;
    let cost = stack.cost(&rung, &window, &pick)?;
    let _turn = ask.enter(cost, || nearest_level(ask, &stack, level, &window, &pick)).await?;
    let planes = planes::read(&stack, &rung, &window, &pick, true).await?;
    let note = Note::of(stack.array(rung.level)?.meta(), level.to_string(), false);
    if form == Form::Bytes {
        return typed::made(planes, &note);
    }
    super::apart(move || {
        let side = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let shape = vec![side(planes.channels), side(planes.height), side(planes.width)];
        let slab = Slab::new(&planes.data_type, &shape, Order::C, planes.bytes)?;
        let names = ["c", "y", "x"].map(|name| Some(name.to_owned())).to_vec();
        let layout = Layout { shape, names, data_type: planes.data_type, order: Order::C, width: 0 };
        write(form, &slab, &layout, false, &note)
    })
    .await?
}

/// A picture of a region of an image.
async fn image_picture(ask: &Ask<'_>, format: PictureFormat) -> Result<Made, Fault> {
    refuse(ask, &["cf", "raw"], "is for arrays")?;
    let drawable = Drawable::open(ask, &ask.query).await?;
    let stack = &drawable.stack;
    let region = region_of(ask, stack)?;
    if ask.query.get("level").is_some() && ask.query.get("size").is_none() {
        let (rung, _, window) = place(ask, stack, region)?;
        return encode(drawable.window(ask, &rung, &window, || None).await?, format).await;
    }
    encode(drawable.region(ask, region, size(ask, region)?).await?, format).await
}

/// All planes of one channel of an image, as a volume.
async fn volume(ask: &Ask<'_>) -> Result<Made, Fault> {
    refuse(ask, &params::LOOKS, "is for pictures")?;
    refuse(ask, &["cf", "raw", "z"], "does not apply to a volume")?;
    let stack = ask.stack().await?;
    let pick = params::pick(&ask.query, ask.zarr()?, &stack).await?;
    let pick = Pick { z: 0..stack.length(stack.axes.z), c: pick.c.into_iter().take(1).collect(), ..pick };
    let (rung, level, window) = place(ask, &stack, region_of(ask, &stack)?)?;
    if !rung.is_stored() {
        let stored = stack.arrays.len();
        return Err(Fault::bad(format!("a volume is of one of the {stored} stored levels, from 0")));
    }
    let axes = stack.axes;
    if axes.z.is_some_and(|z| z > axes.y) || axes.y > axes.x {
        return Err(Fault::bad("the axes of this image are not in the order z, y, x; read the array itself"));
    }
    let indexes = stack.indexes(&rung, &window, &pick)?;
    let array = stack.array(rung.level)?;
    let cost = Cost::of(array, &Selection::new(indexes.clone())).map_err(reading)?;
    let _turn = ask.enter(cost, || nearest_level(ask, &stack, level, &window, &pick)).await?;
    let slab = array.read_slab(&Selection::new(indexes), &ReadOptions::default()).await.map_err(reading)?;
    let multiscale = stack.image.as_ref().map(|(_, multiscale)| multiscale);
    let scale = multiscale.and_then(|m| m.levels.get(rung.level)).and_then(|l| l.scale.clone());
    let side = |axis: usize| Side {
        extent: slab.shape.get(axis).copied().unwrap_or(1),
        pixel: scale.as_ref().and_then(|s| s.get(axis)).copied().filter(|s| *s > 0.0).unwrap_or(1.0),
    };
    let sides: Vec<Side> = axes.z.into_iter().chain([axes.y, axes.x]).map(side).collect();
    let unit = multiscale.and_then(|m| m.axes.get(axes.x)).and_then(|axis| axis.unit.clone());
    super::apart(move || {
        let unit = nifti::unit_code(unit.as_deref());
        let bytes = nifti::file(&slab.data_type, &sides, unit, (1.0, 0.0), &slab.bytes)?;
        Ok(Made::plain("application/octet-stream", bytes))
    })
    .await?
}

/// 400 for parameters that would have no effect.
fn refuse(ask: &Ask<'_>, names: &[&str], why: &str) -> Result<(), Fault> {
    match names.iter().find(|name| ask.query.get(name).is_some()) {
        Some(name) => Err(Fault::bad(format!("{name}= {why}"))),
        None => Ok(()),
    }
}
