//! `/value`, `/series`, `/histogram`: single numbers, a line of them, and how they are distributed.

use std::time::Instant;

use zaro::array::{ArrayView, ArrayWindow};
use zaro::cf::{Lost, Reading};
use zaro::coords::columns;
use zaro::format::{Column, Csv, JsonLists, Layout, Sink as _};
use zaro::internal::text::{f64_of_u64 as real, f64_of_usize, u64_of_f64 as whole};
use zaro::meta::{ArrayMeta, DataType, Json, NodeMeta};
use zaro::{Array, Index, Order, ReadOptions, Selection, Slab};

use super::cost::Cost;
use super::made::Made;
use super::params;
use super::planes::{self, decode, width_of};
use super::region::read;
use super::stack::{Window, reading};
use super::{Ask, made};
use crate::answer::{Fault, Response};
use crate::config::Limits;

/// Values in one answer of `/value`.
const MOST_VALUES: u64 = 1 << 16;

/// How many times more than others a series may decode, and how many times more chunks it may read: it holds only a
/// window of them at a time.
const MORE_DECODED: u64 = 64;
const MORE_CHUNKS: u64 = 16;

/// Bytes of a series that are decoded at a time.
const WINDOW: u64 = 64 << 20;

/// Bins of a histogram.
const MOST_BINS: usize = 65_536;

/// An array and a part of it.
struct Part {
    array: Array,
    indexes: Vec<Index>,
    /// The name of each dimension.
    names: Vec<String>,
}

/// The array and the part that are asked for: of an array by `sel=` and `isel=`, of an image by `x=`, `y=`, `z=`, `t=`
/// and `c=`.
async fn part(ask: &Ask<'_>) -> Result<Part, Fault> {
    let (zarr, query) = (ask.zarr()?, &ask.query);
    let node = zarr.node(&ask.path).await?;
    if let NodeMeta::Array(meta) = &node.meta {
        if let Some(name) = ["x", "y", "z", "t", "c", "level"].into_iter().find(|n| query.get(n).is_some()) {
            return Err(Fault::bad(format!("{name}= is for images; use sel= or isel=")));
        }
        let array = zarr.array(&ask.path).await?;
        let indexes = params::indexes(query, zarr, &array).await?;
        let name = |d: usize| meta.dimension_name(d).map_or_else(|| format!("dim{d}"), str::to_owned);
        let names = (0..meta.shape.len()).map(name).collect();
        return Ok(Part { array, indexes, names });
    }
    let stack = ask.stack().await?;
    let array = stack.array(query.number("level")?.unwrap_or(0))?.clone();
    let mut indexes = vec![Index::At(0); array.shape().len()];
    let mut names: Vec<String> = (0..indexes.len()).map(|d| format!("dim{d}")).collect();
    let axes = stack.axes;
    let all = [("t", axes.t), ("c", axes.c), ("z", axes.z), ("y", Some(axes.y)), ("x", Some(axes.x))];
    for (name, axis) in all {
        let Some(axis) = axis else {
            if query.get(name).is_some() {
                return Err(Fault::bad(format!("the image has no axis {name}")));
            }
            continue;
        };
        let index = match query.get(name) {
            Some(text) => Index::parse(text)?,
            // All channels of a pixel, unless one is asked for.
            None if name == "c" => Index::All,
            None => Index::At(0),
        };
        if let (Some(slot), Some(own)) = (indexes.get_mut(axis), names.get_mut(axis)) {
            *slot = index;
            *own = name.to_owned();
        }
    }
    Ok(Part { array, indexes, names })
}

/// Whether elements are decoded by the CF conventions.
async fn reader(ask: &Ask<'_>, part: &Part, decoded: bool) -> Result<Reading, Fault> {
    let view = ArrayView::new(&part.indexes, part.array.meta()).map_err(reading)?;
    if !decoded {
        return Ok(Reading::stored(&part.array, view));
    }
    let related = zaro::cf::related(ask.zarr()?, &part.array).await.map_err(reading)?;
    Ok(Reading::decoded(&part.array, view, &related, &mut |_| {}))
}

/// What an attribute says, as text.
fn attribute(array: &Array, name: &str) -> Json {
    array.meta().attributes.get(name).filter(|value| value.as_str().is_some()).cloned().unwrap_or(Json::Null)
}

/// Elements as JSON, exactly.
fn lists(slabs: &[Slab], layout: &Layout) -> zaro::Result<String> {
    let mut out = Vec::new();
    let mut sink = JsonLists::new(true);
    sink.begin(layout, &mut out)?;
    slabs.iter().try_for_each(|slab| sink.block(slab, &mut out))?;
    sink.end(&mut out)?;
    Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
}

/// An object with one more member, whose value is JSON already.
fn with_raw(object: &Json, name: &str, value: &str) -> String {
    let text = object.compact();
    let open = text.strip_suffix('}').unwrap_or(&text);
    format!("{open},\"{name}\":{value}}}")
}

/// Answers a request for values.
pub(crate) async fn value(ask: &Ask<'_>) -> Result<Response, Fault> {
    ask.query.only(&["sel", "isel", "method", "cf", "x", "y", "z", "t", "c", "level", "multiscale"])?;
    made::answer(ask, async move {
        let part = part(ask).await?;
        let reader = reader(ask, &part, ask.query.get("cf") == Some("1")).await?;
        let few = Limits { pixels: MOST_VALUES.min(ask.limits.pixels), ..ask.limits.clone() };
        let ask = &Ask {
            limits: &few,
            source: ask.source.clone(),
            path: ask.path.clone(),
            query: ask.query.clone(),
            base: String::new(),
            ..*ask
        };
        let (slab, layout) = read(ask, &part.array, &part.indexes, &reader).await?;
        let view = ArrayView::new(&part.indexes, part.array.meta()).map_err(reading)?;
        let places = columns(ask.zarr()?, &part.array, &view).await.map_err(reading)?;
        let mut coords = Json::object();
        for (column, name) in places.iter().zip(&part.names).filter(|(column, _)| column.dimension.is_none())
        {
            coords.set(name, (column.label)(0));
        }
        let kept: Vec<String> =
            view.dimensions().iter().filter_map(|d| part.names.get(*d).cloned()).collect();
        let object = Json::from([
            ("path", part.array.path().into()),
            ("data_type", layout.data_type.to_string().into()),
            ("dims", kept.into()),
            ("shape", layout.shape.clone().into()),
            ("coords", coords),
            ("units", attribute(&part.array, "units")),
        ]);
        let text = with_raw(&object, "value", &lists(&[slab], &layout)?);
        Ok(Made::plain("application/json", text))
    })
    .await
}

/// Answers a request for the elements along one dimension.
pub(crate) async fn series(ask: &Ask<'_>) -> Result<Response, Fault> {
    let names = [
        "along",
        "sel",
        "isel",
        "method",
        "raw",
        "points",
        "format",
        "x",
        "y",
        "z",
        "t",
        "c",
        "level",
        "multiscale",
    ];
    ask.query.only(&names)?;
    let is_csv = match ask.query.get("format") {
        None | Some("json") => false,
        Some("csv") => true,
        Some(other) => return Err(Fault::bad(format!("format={other:?}: json or csv"))),
    };
    let points = ask.query.number::<usize>("points")?;
    made::answer(ask, async move {
        let mut part = part(ask).await?;
        let along = along(ask.query.get("along"), &mut part)?;
        let reader = reader(ask, &part, ask.query.get("raw") != Some("1")).await?;
        let view = reader.view().clone();
        let (slabs, layout) = line(ask, &part, along, &reader).await?;
        let places = columns(ask.zarr()?, &part.array, &view).await.map_err(reading)?;
        let name = part.names.get(along).cloned().unwrap_or_default();
        let units = attribute(&part.array, "units");
        let title = attribute(&part.array, "long_name");
        let path = part.array.path().to_owned();
        super::apart(move || {
            let count: usize = slabs.iter().map(Slab::len).sum();
            let kept = thinned(&slabs, count, points);
            let slabs = match &kept {
                Some(kept) => vec![only(&slabs, kept)?],
                None => slabs,
            };
            let shown = u64::try_from(kept.as_ref().map_or(count, Vec::len)).unwrap_or(u64::MAX);
            let layout = Layout { shape: vec![shown], ..layout };
            let at = move |i: u64| match &kept {
                Some(kept) => usize::try_from(i).ok().and_then(|i| kept.get(i)).copied().unwrap_or(i),
                None => i,
            };
            let mut fixed = Json::object();
            let mut line = None;
            for column in places {
                match column.dimension {
                    None => fixed.set(&column.name, (column.label)(0)),
                    Some(_) => line = Some(column),
                }
            }
            let line = line.ok_or_else(|| Fault::bad("along= names no dimension"))?;
            if is_csv {
                let label = move |i: u64| (line.label)(at(i));
                let column = Column { name, dimension: Some(0), label: Box::new(label) };
                let value = path.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or("value");
                let mut csv = Csv::new(true).long(vec![column], value);
                let mut out = Vec::new();
                csv.begin(&layout, &mut out)?;
                slabs.iter().try_for_each(|slab| csv.block(slab, &mut out))?;
                csv.end(&mut out)?;
                return Ok(Made::plain("text/csv; charset=utf-8", out));
            }
            let labels: Vec<String> = (0..shown).map(|i| (line.label)(at(i))).collect();
            let object = Json::from([
                ("path", path.into()),
                ("along", name.into()),
                ("coords", fixed),
                ("units", units),
                ("long_name", title),
                ("count", u64::try_from(count).unwrap_or(u64::MAX).into()),
                ("labels", labels.into()),
            ]);
            Ok(Made::plain("application/json", with_raw(&object, "values", &lists(&slabs, &layout)?)))
        })
        .await?
    })
    .await
}

/// Reads a line of elements, window by window: what is decoded at a time is bounded, and what is decoded in all may be
/// far more than for other requests, because a line through an array touches many chunks for a few bytes of each. Windows
/// end where chunks do, so that each chunk is read once.
async fn line(
    ask: &Ask<'_>,
    part: &Part,
    along: usize,
    reader: &Reading,
) -> Result<(Vec<Slab>, Layout), Fault> {
    let (meta, view) = (part.array.meta(), reader.view());
    let kept = view.dimensions();
    // Texts of single characters have a dimension more, and are short.
    if kept.as_slice() != [along] {
        let (slab, layout) = read(ask, &part.array, &part.indexes, reader).await?;
        return Ok((vec![slab], layout));
    }
    let count = view.shape().first().copied().unwrap_or(0);
    let mut first = part.indexes.clone();
    if let Some(slot) = first.get_mut(along).filter(|_| count > 0) {
        *slot = Index::Span(view.place(along, 0), 1);
    }
    let one = Cost::of(&part.array, &Selection::new(first)).map_err(reading)?;
    let borders = borders(meta, along, view, count);
    let chunks = u64::try_from(borders.len().saturating_sub(1)).unwrap_or(u64::MAX);
    let all = one.times(chunks).drawing(count);
    let limits = Limits {
        decoded: ask.limits.decoded.saturating_mul(MORE_DECODED),
        chunks: ask.limits.chunks.saturating_mul(MORE_CHUNKS),
        ..ask.limits.clone()
    };
    all.check(&limits, || None)?;
    let window = WINDOW.min(ask.limits.decoded);
    let together = usize::try_from((window / one.decoded.max(1)).max(1)).unwrap_or(usize::MAX);
    let (begun, mut slabs, mut layout) = (Instant::now(), Vec::new(), reader.layout(Order::C));
    let mut at = 0usize;
    while let Some(from) = borders.get(at).copied().filter(|from| *from < count) {
        at = at.saturating_add(together).min(borders.len().saturating_sub(1));
        let to = borders.get(at).copied().unwrap_or(count);
        let window = view.narrowed(&ArrayWindow(vec![(from, to.saturating_sub(from))]));
        let share = one.times(u64::try_from(together).unwrap_or(u64::MAX).min(chunks));
        let turn = ask.pixels.gate.enter(share).await?;
        let slab =
            reader.read(&window, &ReadOptions::default(), &mut Lost::of_text()).await.map_err(reading)?;
        drop(turn);
        if slab.data_type == DataType::String {
            let longest = slab.items().map(|item| String::from_utf8_lossy(item).chars().count()).max();
            layout.width = layout.width.max(longest.unwrap_or(0));
        }
        slabs.push(slab);
        if begun.elapsed() > ask.limits.answer_time / 2 && to < count {
            let said = format!(
                "{to} of {count} positions took {} s; ask for fewer at a time, with isel= or sel=",
                begun.elapsed().as_secs()
            );
            return Err(Fault::new(hyper::StatusCode::PAYLOAD_TOO_LARGE, said));
        }
    }
    Ok((slabs, layout))
}

/// The positions of a line at which another chunk begins, from 0 on, and their number at the end.
fn borders(meta: &ArrayMeta, along: usize, view: &ArrayView, count: u64) -> Vec<u64> {
    let inner = meta.inner_chunks().and_then(|inner| inner.get(along).copied()).filter(|n| *n > 0);
    let axis = meta.grid.axes().get(along);
    let chunk = |i: u64| {
        let place = view.place(along, i);
        match inner {
            Some(n) => place / n,
            None => axis.and_then(|axis| axis.chunk_at(place)).map_or(0, |(number, _, _)| number),
        }
    };
    let mut out: Vec<u64> =
        (0..count).filter(|i| *i == 0 || chunk(*i) != chunk(i.saturating_sub(1))).collect();
    out.push(count);
    out
}

/// The dimension of a series; all others become single positions, 0 if none is asked for.
fn along(asked: Option<&str>, part: &mut Part) -> Result<usize, Fault> {
    let along = match asked {
        Some(name) => part.names.iter().position(|own| own == name).ok_or_else(|| {
            Fault::bad(format!("along={name:?}: the dimensions are {}", part.names.join(", ")))
        })?,
        None => return Err(Fault::bad(format!("along= names one of {}", part.names.join(", ")))),
    };
    for (d, index) in part.indexes.iter_mut().enumerate() {
        match index {
            Index::At(_) if d == along => *index = Index::All,
            Index::At(_) => {}
            Index::All if d != along => *index = Index::At(0),
            _ if d != along => {
                let name = part.names.get(d).cloned().unwrap_or_default();
                return Err(Fault::bad(format!("a series has one position along {name}")));
            }
            _ => {}
        }
    }
    Ok(along)
}

/// Which elements of a line to keep, so that a plot of at most `points` looks the same: the least and the greatest of
/// each part. `None` if there are no more than that, or they are no numbers.
fn thinned(slabs: &[Slab], count: usize, points: Option<usize>) -> Option<Vec<u64>> {
    let points = points?.max(2);
    if count <= points || slabs.iter().any(|slab| width_of(&slab.data_type).is_none()) {
        return None;
    }
    let (mut numbers, mut some) = (Vec::with_capacity(count), Vec::new());
    for slab in slabs {
        decode(&slab.data_type, &slab.bytes, &mut some);
        numbers.append(&mut some);
    }
    let parts = (points / 2).max(1);
    let mut kept = Vec::new();
    for n in 0..parts {
        let start = n.saturating_mul(numbers.len()) / parts;
        let end = (n + 1).saturating_mul(numbers.len()) / parts;
        let part = numbers.get(start..end).unwrap_or_default();
        let known = || part.iter().enumerate().filter(|(_, x)| !x.is_nan());
        let least = known().min_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i);
        let most = known().max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i);
        // A part without numbers keeps its gap.
        let (a, b) = (least.unwrap_or(0), most.unwrap_or(0));
        let place = |i: usize| u64::try_from(start.saturating_add(i)).unwrap_or(u64::MAX);
        kept.push(place(a.min(b)));
        if a != b {
            kept.push(place(a.max(b)));
        }
    }
    Some(kept)
}

/// These elements of a line.
fn only(slabs: &[Slab], kept: &[u64]) -> Result<Slab, Fault> {
    let mut bytes = Vec::new();
    let (mut slabs, mut before) = (slabs.iter().peekable(), 0usize);
    let data_type = slabs.peek().map_or(DataType::UInt(8), |slab| slab.data_type.clone());
    // They are in order, so each slab is passed once.
    for i in kept {
        let place = usize::try_from(*i).unwrap_or(usize::MAX);
        while let Some(slab) = slabs.peek().filter(|slab| place.saturating_sub(before) >= slab.len()) {
            before = before.saturating_add(slab.len());
            slabs.next();
        }
        let item = slabs.peek().and_then(|slab| slab.item(place.saturating_sub(before)));
        bytes.extend_from_slice(item.unwrap_or_default());
    }
    let shape = [u64::try_from(kept.len()).unwrap_or(u64::MAX)];
    Ok(Slab::new(&data_type, &shape, Order::C, bytes)?)
}

/// Pixels of a plane that a histogram is made from, along each side.
const MIDDLE: u64 = 2048;

/// Answers a request for the distribution of a plane, from its smallest level.
pub(crate) async fn histogram(ask: &Ask<'_>) -> Result<Response, Fault> {
    ask.query.only(&[&params::PLANES[..], &["bins", "level", "raw"]].concat())?;
    let bins = ask.query.number::<usize>("bins")?.unwrap_or(256);
    if bins == 0 || bins > MOST_BINS {
        return Err(Fault::bad(format!("bins={bins}: 1 to {MOST_BINS}")));
    }
    made::answer(ask, async move {
        let stack = ask.stack().await?;
        let pick = params::pick(&ask.query, ask.zarr()?, &stack).await?;
        let rungs = stack.rungs();
        let last = stack.arrays.len().saturating_sub(1);
        let level = ask.query.number::<usize>("level")?.unwrap_or(last);
        let rung = rungs
            .get(level)
            .copied()
            .ok_or_else(|| Fault::bad(format!("level={level}: there are {}, from 0", rungs.len())))?;
        let mut window = rung.whole();
        let is_part = !stack.cost(&rung, &window, &pick)?.fits(ask.limits);
        if is_part {
            let middle = |n: u64| n.saturating_sub(MIDDLE) / 2..(n.saturating_add(MIDDLE) / 2).min(n);
            window = Window { rows: middle(rung.height), columns: middle(rung.width) };
        }
        let _turn = ask.enter(stack.cost(&rung, &window, &pick)?, || None).await?;
        let stored = ask.query.get("raw") == Some("1");
        let planes = planes::read(&stack, &rung, &window, &pick, stored).await?;
        super::apart(move || {
            let channels = pick.c.iter().enumerate().map(|(i, c)| {
                let mut out = distribution(planes.channel(i), bins);
                out.set("channel", *c);
                out
            });
            let object = Json::from([
                ("level", level.into()),
                ("shape", vec![planes.height, planes.width].into()),
                ("sampled", is_part.into()),
                ("channels", channels.collect::<Json>()),
            ]);
            Ok(Made::plain("application/json", object.compact()))
        })
        .await?
    })
    .await
}

/// Bins of equal width from the least to the greatest, and what windows are usually made of.
fn distribution(mut numbers: Vec<f64>, bins: usize) -> Json {
    let all = numbers.len();
    numbers.retain(|x| x.is_finite());
    numbers.sort_unstable_by(f64::total_cmp);
    let missing = all.saturating_sub(numbers.len());
    let (Some(least), Some(most)) = (numbers.first().copied(), numbers.last().copied()) else {
        return Json::from([("count", 0usize.into()), ("missing", missing.into())]);
    };
    let width = if most > least { (most - least) / f64_of_usize(bins) } else { 1.0 };
    let mut counts = vec![0u64; bins];
    for x in &numbers {
        let bin = whole(((x - least) / width).floor());
        let bin = usize::try_from(bin).unwrap_or(usize::MAX).min(bins.saturating_sub(1));
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    let last = u64::try_from(numbers.len().saturating_sub(1)).unwrap_or(0);
    let mut quantiles = Json::object();
    for part in ["0.001", "0.002", "0.01", "0.05", "0.5", "0.95", "0.99", "0.998", "0.999"] {
        let by: f64 = part.parse().unwrap_or(0.5);
        let at = usize::try_from(whole((real(last) * by).round())).unwrap_or(0);
        quantiles.set(part, numbers.get(at).copied().map_or(Json::Null, Json::float));
    }
    let mean = numbers.iter().sum::<f64>() / f64_of_usize(numbers.len());
    Json::from([
        ("count", numbers.len().into()),
        ("missing", missing.into()),
        ("min", Json::float(least)),
        ("max", Json::float(most)),
        ("mean", Json::float(mean)),
        ("bin_width", Json::float(width)),
        ("counts", counts.into()),
        ("quantiles", quantiles),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes() {
        let bytes: Vec<u8> =
            [0f32, 5.0, 1.0, 1.0, -3.0, 2.0, 2.0, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        // However they were read.
        for cut in [0, 4, 20, 32] {
            let (a, b) = bytes.split_at(cut);
            let slab = |part: &[u8]| {
                let count = u64::try_from(part.len() / 4).unwrap();
                Slab::new(&DataType::FLOAT32, &[count], Order::C, part.to_vec()).unwrap()
            };
            let slabs = [slab(a), slab(b)];
            assert_eq!(thinned(&slabs, 8, Some(4)), Some(vec![0, 1, 4, 7]));
            assert_eq!(thinned(&slabs, 8, Some(8)), None);
            assert_eq!(thinned(&slabs, 8, None), None);
            assert_eq!(only(&slabs, &[1, 4]).unwrap().to_vec::<f32>().unwrap(), [5.0, -3.0]);
        }
    }

    #[test]
    fn bins_hold_every_number_once() {
        let json = distribution(vec![0.0, 1.0, 2.0, 3.0, f64::NAN], 2);
        assert_eq!(json.get("counts").unwrap().compact(), "[2,2]");
        assert_eq!(json.get("missing").unwrap().as_u64(), Some(1));
        assert_eq!(distribution(vec![7.0; 3], 4).get("counts").unwrap().compact(), "[3,0,0,0]");
    }
}
