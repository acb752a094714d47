//! `/xyz/{name}/{path…}/{z}/{x}/{y}.png` and `…/tilejson.json`: fields on a grid of longitudes and latitudes, in the
//! projection of web maps.

use std::f64::consts::PI;

use zaro::array::ArrayView;
use zaro::cf::{Lost, Reading};
use zaro::coords::columns;
use zaro::internal::text::{f64_of_u64 as real, f64_of_usize};
use zaro::meta::Json;
use zaro::{Index, ReadOptions, Selection};

use super::cost::Cost;
use super::draw::Drawable;
use super::made::Made;
use super::paint::{PictureFormat, encode};
use super::planes::{Planes, width_of};
use super::stack::{Kind, Stack, no_picture, reading};
use super::tile::number;
use super::{Ask, ask, made, params};
use crate::answer::{Fault, Response};
use crate::app::App;
use crate::path::encode as encoded;
use crate::request::Request;

/// The side of a map tile.
const SIDE: u32 = 256;

/// The deepest zoom that is answered.
const DEEPEST: u64 = 24;

/// Answers a request for a map tile or the description of all.
pub(crate) async fn answer(
    app: &App,
    request: &Request,
    name: &str,
    rest: &[&str],
) -> Result<Response, Fault> {
    request.query.without(super::TOKEN).only(&params::both(&["raw"]))?;
    if let [node @ .., "tilejson.json"] = rest {
        return tilejson(&ask(app, request, name, node).await?).await;
    }
    let [node @ .., z, x, file] = rest else { return Err(Fault::not_found()) };
    let y = file.strip_suffix(".png").ok_or_else(Fault::not_found)?;
    let [Some(z), Some(x), Some(y)] = [*z, *x, y].map(number) else { return Err(Fault::not_found()) };
    if z > DEEPEST || x >> z > 0 || y >> z > 0 {
        return Err(Fault::not_found());
    }
    let ask = ask(app, request, name, node).await?;
    let ask = &ask;
    made::answer(ask, async move { tile(ask, z, x, y).await }).await
}

/// The positions of a field along longitude and latitude.
#[derive(Debug)]
struct Map {
    lat: Ruler,
    lon: Ruler,
}

/// The values of a coordinate, sorted, with their positions, and how far a value may be from the nearest.
#[derive(Debug)]
struct Ruler {
    values: Vec<(f64, u64)>,
    reach: f64,
}

impl Ruler {
    fn new(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut all = Vec::new();
        for (i, value) in values.enumerate() {
            all.push((value.filter(|v| v.is_finite())?, u64::try_from(i).ok()?));
        }
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (all.first()?.0, all.last()?.0);
        let steps = f64_of_usize(all.len().saturating_sub(1).max(1));
        let reach = if all.len() > 1 { (last - first) / steps / 2.0 * 1.000_001 } else { 0.5 };
        Some(Self { values: all, reach })
    }

    fn ends(&self) -> (f64, f64) {
        let first = self.values.first().map_or(0.0, |v| v.0);
        let last = self.values.last().map_or(0.0, |v| v.0);
        (first - self.reach, last + self.reach)
    }

    /// The position nearest to a value; `None` beyond the ends.
    fn nearest(&self, value: f64) -> Option<u64> {
        let (low, high) = self.ends();
        if value < low || value > high {
            return None;
        }
        let after = self.values.partition_point(|v| v.0 < value);
        let around = [after.checked_sub(1), Some(after)];
        let near = around.into_iter().flatten().filter_map(|i| self.values.get(i));
        near.min_by(|a, b| (a.0 - value).abs().total_cmp(&(b.0 - value).abs())).map(|v| v.1)
    }
}

impl Map {
    async fn of(ask: &Ask<'_>, stack: &Stack) -> Result<Self, Fault> {
        let none =
            || no_picture("map tiles need a field with coordinates of latitude and longitude in degrees");
        let array = stack.array(0)?;
        if stack.kind != Kind::Field {
            return Err(none());
        }
        let view = ArrayView::new(&[], array.meta()).map_err(reading)?;
        let all = columns(ask.zarr()?, array, &view).await.map_err(reading)?;
        let ruler = |d: usize| {
            let column = all.get(d)?;
            let extent = array.shape().get(d).copied()?;
            Ruler::new((0..extent.min(1 << 22)).map(|i| (column.label)(i).parse().ok()))
        };
        let named = |d: usize, names: &[&str]| {
            let name = array.meta().dimension_name(d).unwrap_or_default().to_ascii_lowercase();
            names.contains(&name.as_str())
        };
        let is_map =
            named(stack.axes.y, &["lat", "latitude", "y"]) && named(stack.axes.x, &["lon", "longitude", "x"]);
        let (lat, lon) = (ruler(stack.axes.y).ok_or_else(none)?, ruler(stack.axes.x).ok_or_else(none)?);
        let ((south, north), (west, east)) = (lat.ends(), lon.ends());
        let is_degrees = south >= -91.0 && north <= 91.0 && west >= -361.0 && east <= 541.0;
        if is_map && is_degrees { Ok(Self { lat, lon }) } else { Err(none()) }
    }

    /// The position along longitude, wherever the grid begins.
    fn across(&self, lon: f64) -> Option<u64> {
        [lon, lon + 360.0, lon - 360.0].into_iter().find_map(|lon| self.lon.nearest(lon))
    }
}

/// The longitude and the latitude of a place on the map, in parts of the whole from the upper left.
fn degrees(x: f64, y: f64) -> (f64, f64) {
    (x * 360.0 - 180.0, (PI * (1.0 - 2.0 * y)).sinh().atan().to_degrees())
}

async fn tile(ask: &Ask<'_>, z: u64, x: u64, y: u64) -> Result<Made, Fault> {
    let drawable = Drawable::open(ask, &ask.query).await?;
    let stack = drawable.stack.clone();
    let map = Map::of(ask, &stack).await?;
    let pick = params::pick(&ask.query, ask.zarr()?, &stack).await?;
    let tiles = real(1 << z);
    let place = |n: u64, i: u32| (real(n) + (f64::from(i) + 0.5) / f64::from(SIDE)) / tiles;
    let columns: Vec<Option<u64>> = (0..SIDE).map(|i| map.across(degrees(place(x, i), 0.0).0)).collect();
    let rows: Vec<Option<u64>> = (0..SIDE).map(|i| map.lat.nearest(degrees(0.0, place(y, i)).1)).collect();
    let side = usize::try_from(SIDE).unwrap_or(256);
    let (wanted_rows, wanted_columns) = (distinct(&rows), distinct(&columns));
    let mut numbers = vec![f64::NAN; side.saturating_mul(side)];
    if !wanted_rows.is_empty() && !wanted_columns.is_empty() {
        let array = stack.array(0)?;
        let mut indexes = vec![Index::Span(0, 1); array.shape().len()];
        let list =
            |all: &[u64]| Index::List(all.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect());
        for (d, slot) in indexes.iter_mut().enumerate() {
            if d == stack.axes.y {
                *slot = list(&wanted_rows);
            } else if d == stack.axes.x {
                *slot = list(&wanted_columns);
            } else if let Some((_, at)) = pick.fixed.iter().find(|(of, _)| *of == d) {
                *slot = Index::Span(*at, 1);
            }
        }
        let cost = Cost::of(array, &Selection::new(indexes.clone())).map_err(reading)?;
        let _turn = ask.enter(cost, || None).await?;
        let view = ArrayView::new(&indexes, array.meta()).map_err(reading)?;
        let reader = match ask.query.get("raw") {
            Some("1") => Reading::stored(array, view),
            _ => Reading::decoded(array, view, &stack.related, &mut |_| {}),
        };
        let (options, mut lost) = (ReadOptions::default(), Lost::default());
        let slab = reader.read(reader.view(), &options, &mut lost).await.map_err(reading)?;
        if width_of(&slab.data_type).is_none() {
            return Err(no_picture("its elements are not numbers"));
        }
        let mut values = Vec::new();
        super::planes::decode(&slab.data_type, &slab.bytes, &mut values);
        let by_row =
            if stack.axes.y < stack.axes.x { (wanted_columns.len(), 1) } else { (1, wanted_rows.len()) };
        let among = |all: &[u64], at: &Option<u64>| at.and_then(|at| all.binary_search(&at).ok());
        for (line, row) in numbers.chunks_exact_mut(side).zip(&rows) {
            let Some(row) = among(&wanted_rows, row) else { continue };
            for (pixel, column) in line.iter_mut().zip(&columns) {
                if let Some(column) = among(&wanted_columns, column) {
                    let value = values.get(row * by_row.0 + column * by_row.1);
                    *pixel = value.copied().unwrap_or(f64::NAN);
                }
            }
        }
    }
    let planes = Planes {
        data_type: zaro::meta::DataType::FLOAT64,
        channels: 1,
        height: side,
        width: side,
        bytes: numbers.into_iter().flat_map(f64::to_le_bytes).collect(),
        resampled: "nearest",
    };
    encode(drawable.colored(ask, planes).await?, PictureFormat::Png).await
}

fn distinct(all: &[Option<u64>]) -> Vec<u64> {
    let mut out: Vec<u64> = all.iter().flatten().copied().collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The latitude at which the map ends.
const EDGE: f64 = 85.051_128_779_806_6;

async fn tilejson(ask: &Ask<'_>) -> Result<Response, Fault> {
    made::answer(ask, async move {
        let stack = ask.stack().await?;
        let map = Map::of(ask, &stack).await?;
        let ((south, north), (west, east)) = (map.lat.ends(), map.lon.ends());
        let whole = east - west >= 359.0;
        let turn = |lon: f64| if lon > 180.0 { lon - 360.0 } else { lon };
        let (west, east) = if whole { (-180.0, 180.0) } else { (turn(west), turn(east)) };
        let bounds = [west, south.max(-EDGE), east, north.min(EDGE)];
        let pixel = (map.lon.reach * 2.0).max(1e-6);
        let mut zoom = 0u64;
        while 360.0 / (f64::from(SIDE) * real(1 << zoom)) > pixel && zoom < DEEPEST {
            zoom += 1;
        }
        let folder = ask.request.path.strip_suffix("tilejson.json").unwrap_or(&ask.request.path);
        let query: Vec<String> = ask
            .query
            .pairs()
            .iter()
            .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
            .collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let json = Json::from([
            ("tilejson", "3.0.0".into()),
            ("name", ask.path.as_str().into()),
            ("scheme", "xyz".into()),
            ("tiles", Json::Array(vec![format!("{}{folder}{{z}}/{{x}}/{{y}}.png{query}", ask.base).into()])),
            ("minzoom", 0u64.into()),
            ("maxzoom", zoom.into()),
            ("bounds", bounds.iter().map(|n| Json::float(*n)).collect()),
        ]);
        Ok(Made::plain("application/json", json.compact()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_mercators() {
        let (lon, lat) = degrees(0.5, 0.5);
        assert!(lon.abs() < 1e-9 && lat.abs() < 1e-9);
        let (lon, lat) = degrees(0.0, 0.0);
        assert!((lon + 180.0).abs() < 1e-9 && (lat - EDGE).abs() < 1e-9);
    }

    #[test]
    fn a_value_finds_its_position_in_either_direction_and_around_the_world() {
        let down = Ruler::new([10.0, 5.0, 0.0].into_iter().map(Some)).unwrap();
        assert_eq!(
            [9.0, 4.0, 12.4, 12.6, -2.6].map(|v| down.nearest(v)),
            [Some(0), Some(1), Some(0), None, None]
        );
        let lon = Ruler::new((0..360).map(|i| Some(f64::from(i) + 0.5))).unwrap();
        let map = Map { lat: down, lon };
        assert_eq!(
            [0.2, -0.2, 179.9, -179.9].map(|v| map.across(v)),
            [Some(0), Some(359), Some(179), Some(180)]
        );
    }
}
