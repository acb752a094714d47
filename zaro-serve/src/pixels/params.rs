//! The parameters of a query that several routes share.

use zaro::coords::{LabelValues, Lookup, MatchMethod};
use zaro::image::ColorModel;
use zaro::image::render::{ChannelSetting, Depth, LabelChoice, Projection, Settings};
use zaro::{Array, Index, Selection, Zarr};

use super::stack::{Kind, Pick, Stack};
use crate::answer::Fault;
use crate::request::Query;

/// Parameters that say which planes.
pub(crate) const PLANES: [&str; 8] = ["c", "z", "t", "sel", "isel", "method", "multiscale", "member"];

/// Parameters that say how to draw.
pub(crate) const LOOKS: [&str; 6] = ["model", "labels", "opacity", "cmap", "min", "max"];

/// Parameters of two lists, and more.
pub(crate) fn both<'a>(more: &[&'a str]) -> Vec<&'a str> {
    PLANES.iter().chain(&LOOKS).chain(more).copied().collect()
}

/// The settings of a renderer.
pub(crate) fn settings(query: &Query, memory: usize) -> Result<Settings, Fault> {
    let mut settings = Settings { memory, ..Settings::default() };
    settings.multiscale = query.get("multiscale").map(str::to_owned);
    for text in query.all("c").filter(|text| !text.is_empty()) {
        settings.channels.extend(channels(text)?);
    }
    settings.model = match query.get("model") {
        None => None,
        Some("color") => Some(ColorModel::Color),
        Some("greyscale" | "gray" | "grey") => Some(ColorModel::Greyscale),
        Some(other) => return Err(Fault::bad(format!("model={other:?}: color or greyscale"))),
    };
    settings.labels = match query.get("labels") {
        None | Some("" | "none") => LabelChoice::None,
        Some("all") => LabelChoice::All,
        Some(names) => LabelChoice::Named(names.split(',').map(|n| n.trim().to_owned()).collect()),
    };
    if let Some(opacity) = query.number::<f64>("opacity")? {
        settings.opacity = opacity;
    }
    Ok(settings)
}

/// `0,2`, or one channel with its settings.
fn channels(text: &str) -> Result<Vec<ChannelSetting>, Fault> {
    if text.contains('=') {
        return Ok(vec![ChannelSetting::parse(text)?]);
    }
    Ok(text.split(',').filter(|one| !one.trim().is_empty()).map(ChannelSetting::of).collect())
}

/// `3`, `max`, `mean`, `max:2:8`.
pub(crate) fn depth(text: Option<&str>) -> Result<Depth, Fault> {
    let bad = |text: &str| Fault::bad(format!("z={text:?}: a plane, max, mean, or max:FIRST:END"));
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Depth::Default) };
    if let Ok(plane) = text.parse() {
        return Ok(Depth::Plane(plane));
    }
    let (how, range) = text.split_once(':').map_or((text, None), |(how, range)| (how, Some(range)));
    let how = match how {
        "max" => Projection::Max,
        "mean" => Projection::Mean,
        _ => return Err(bad(text)),
    };
    let range = match range {
        None => None,
        Some(range) => {
            let (from, to) = range.split_once(':').ok_or_else(|| bad(text))?;
            let number = |n: &str| n.parse::<u64>().map_err(|_| bad(text));
            Some(number(from)?..number(to)?)
        }
    };
    Ok(Depth::Projected(how, range))
}

/// Which planes of a stack are asked for; what is not said is the default plane of an image, or position 0.
pub(crate) async fn pick(query: &Query, zarr: &Zarr, stack: &Stack) -> Result<Pick, Fault> {
    if stack.kind == Kind::Field {
        let refused = ["c", "z", "t"].iter().find(|name| query.get(name).is_some());
        if let Some(name) = refused {
            return Err(Fault::bad(format!("{name}= is for images; use isel=DIMENSION=POSITION")));
        }
        let fixed = fixed(query, zarr, stack).await?;
        return Ok(Pick { c: vec![0], t: 0, z: 0..1, how: None, fixed });
    }
    if query.get("sel").or(query.get("isel")).is_some() {
        return Err(Fault::bad("sel= and isel= are for arrays; use c=, z= and t="));
    }
    let omero = stack.image.as_ref().and_then(|(image, _)| image.omero.as_ref());
    let (planes, times) = (stack.length(stack.axes.z), stack.length(stack.axes.t));
    let within = |name: &str, n: u64, all: u64| match n < all {
        true => Ok(n),
        false => Err(Fault::bad(format!("{name}={n}: there are {all}, from 0"))),
    };
    let t = match query.number::<u64>("t")? {
        Some(t) => within("t", t, times)?,
        None => omero.and_then(|o| o.default_t).filter(|t| *t < times).unwrap_or(0),
    };
    let (how, z) = match depth(query.get("z"))? {
        Depth::Default => {
            let z = omero.and_then(|o| o.default_z).filter(|z| *z < planes).unwrap_or(planes / 2);
            (None, z..z + 1)
        }
        Depth::Plane(z) => {
            let z = within("z", z, planes)?;
            (None, z..z + 1)
        }
        Depth::Projected(how, None) => (Some(how), 0..planes),
        Depth::Projected(how, Some(z)) if z.start < z.end && z.end <= planes => (Some(how), z),
        Depth::Projected(_, Some(z)) => {
            let message = format!("no planes {}:{} along z; the image has {planes}, from 0", z.start, z.end);
            return Err(Fault::bad(message));
        }
    };
    let count = stack.length(stack.axes.c);
    let mut c = Vec::new();
    for text in query.all("c").filter(|text| !text.is_empty()) {
        for one in channels(text)? {
            c.push(channel(&one.channel, stack, count)?);
        }
    }
    if c.is_empty() {
        c.extend(0..count.min(MOST_CHANNELS));
    }
    Ok(Pick { c, t, z, how, fixed: Vec::new() })
}

/// Channels that are sent when none is named.
const MOST_CHANNELS: u64 = 16;

/// A channel by its number or its name.
fn channel(text: &str, stack: &Stack, count: u64) -> Result<u64, Fault> {
    if let Some(n) = text.parse::<u64>().ok().filter(|n| *n < count) {
        return Ok(n);
    }
    let known = stack.image.as_ref().and_then(|(image, _)| image.omero.as_ref());
    let named = known.and_then(|o| o.channels.iter().position(|c| c.label.as_deref() == Some(text)));
    let named = named.and_then(|n| u64::try_from(n).ok()).filter(|n| *n < count);
    named.ok_or_else(|| Fault::bad(format!("c={text:?}: the image has {count} channels, from 0")))
}

/// The positions along the dimensions of a field that are not shown.
async fn fixed(query: &Query, zarr: &Zarr, stack: &Stack) -> Result<Vec<(usize, u64)>, Fault> {
    let array = stack.array(0)?;
    let indexes = indexes(query, zarr, array).await?;
    let mut fixed = Vec::new();
    for (d, (index, extent)) in indexes.iter().zip(array.shape()).enumerate() {
        if d == stack.axes.y || d == stack.axes.x {
            if *index != Index::All {
                let what = "the rows and columns of a tile are chosen by its number, not by sel=";
                return Err(Fault::bad(what));
            }
            continue;
        }
        let at = match index {
            Index::All => 0,
            Index::At(at) => place(*at, *extent)?,
            _ => return Err(Fault::bad("one position along each dimension that is not shown")),
        };
        fixed.push((d, at));
    }
    Ok(fixed)
}

/// A position, negative from the end.
pub(crate) fn place(at: i64, extent: u64) -> Result<u64, Fault> {
    let from_start = if at < 0 { extent.checked_sub(at.unsigned_abs()) } else { u64::try_from(at).ok() };
    let inside = from_start.filter(|at| *at < extent);
    inside.ok_or_else(|| Fault::bad(format!("position {at} lies outside, there are {extent}")))
}

/// One index per dimension of an array, by `sel=` (values of coordinates; positions where a dimension has none) and
/// `isel=` (positions). A value need not be one of the coordinate's: the nearest is taken, unless `method=` says
/// otherwise.
pub(crate) async fn indexes(query: &Query, zarr: &Zarr, array: &Array) -> Result<Vec<Index>, Fault> {
    let method = match query.get("method") {
        None | Some("nearest") => MatchMethod::Nearest,
        Some("exact") => MatchMethod::Exact,
        Some("pad") => MatchMethod::Pad,
        Some("backfill") => MatchMethod::Backfill,
        Some(other) => {
            return Err(Fault::bad(format!("method={other:?}: nearest, exact, pad or backfill")));
        }
    };
    let positions: Vec<&str> = query.all("isel").filter(|text| !text.is_empty()).collect();
    let mut by_index = Selection::parse_named(&positions)?;
    let mut labels = Vec::new();
    for pair in query.all("sel").flat_map(split).filter(|pair| !pair.trim().is_empty()) {
        let name = pair.split('=').next().unwrap_or_default().trim();
        if has_coordinate(zarr, array.path(), name).await? {
            labels.push(pair);
        } else {
            by_index.extend(Selection::parse_named(&[pair])?);
        }
    }
    let labels = LabelValues::parse(&labels, Lookup { method, tolerance: None })?;
    Ok(zaro::coords::indexes(zarr, array, &by_index, &labels).await?)
}

/// `NAME=VALUE` by commas, except those in brackets.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut open = 0u32;
    for c in text.chars() {
        match c {
            '[' => open += 1,
            ']' => open = open.saturating_sub(1),
            ',' if open == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// Whether a dimension has a coordinate: an array of its name beside the array, or in a group above.
async fn has_coordinate(zarr: &Zarr, path: &str, name: &str) -> Result<bool, Fault> {
    let mut above = path;
    while let Some((group, _)) = above.rsplit_once('/').or((!above.is_empty()).then_some(("", above))) {
        let at = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        match zarr.node(&at).await {
            Ok(node) => return Ok(node.meta.kind() == "array"),
            Err(e) if matches!(e.kind(), zaro::ErrorKind::NotFound | zaro::ErrorKind::Usage) => {}
            Err(e) => return Err(Fault::behind(&e)),
        }
        above = group;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_and_selections_are_read() {
        assert_eq!(depth(None).unwrap(), Depth::Default);
        assert_eq!(depth(Some("3")).unwrap(), Depth::Plane(3));
        assert_eq!(depth(Some("max")).unwrap(), Depth::Projected(Projection::Max, None));
        assert_eq!(depth(Some("mean:1:4")).unwrap(), Depth::Projected(Projection::Mean, Some(1..4)));
        assert!(depth(Some("min")).is_err() && depth(Some("max:1")).is_err());
        assert_eq!(split("a=1,b=[1,2],c=x"), ["a=1", "b=[1,2]", "c=x"]);
        let query = Query::parse("c=0,2&c=1:color=FF0000&model=gray");
        let settings = settings(&query, 1).unwrap();
        assert_eq!(settings.channels.len(), 3);
        assert_eq!((place(-1, 5).unwrap(), place(4, 5).unwrap()), (4, 4));
        assert!(place(5, 5).is_err() && place(-6, 5).is_err());
    }
}
