//! `/iiif/{id}/…`: the IIIF Image API 3.0, level 2.
//!
//! An identifier is the name and the path, with slashes as `%2F`, and then parameters: `brain%2F0;z=3;t=0;c=0,2`.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use zaro::image::render::{Picture, Region};
use zaro::internal::text::{f64_of_u64 as real, u64_of_f64 as whole};
use zaro::meta::Json;

use super::draw::Drawable;
use super::made::Made;
use super::paint::{PictureFormat, encode};
use super::stack::TILE;
use super::{Ask, ask, made, params};
use crate::answer::{Fault, Response, empty};
use crate::app::App;
use crate::path::encode as encoded;
use crate::request::{Query, Request};

const CONTEXT: &str = "http://iiif.io/api/image/3/context.json";
const TYPE: &str = "application/ld+json;profile=\"http://iiif.io/api/image/3/context.json\"";
const PROFILE: &str = "<http://iiif.io/api/image/3/level2.json>;rel=\"profile\"";

/// An identifier as a request for its node, with its parameters.
pub(crate) async fn identified<'a>(app: &'a App, request: &'a Request, id: &str) -> Result<Ask<'a>, Fault> {
    let mut parts = id.split(';');
    let place = parts.next().unwrap_or_default();
    let (name, path) = place.split_once('/').unwrap_or((place, ""));
    if path.split('/').any(str::is_empty) && !path.is_empty() {
        return Err(Fault::not_found());
    }
    let mut pairs = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(Fault::not_found)?;
        pairs.push(format!("{}={}", encoded(key), encoded(value)));
    }
    let query = Query::parse(&pairs.join("&"));
    query.only(&params::both(&["raw"]))?;
    let node: Vec<&str> = if path.is_empty() { Vec::new() } else { path.split('/').collect() };
    let mut ask = ask(app, request, name, &node).await?;
    ask.query = query;
    Ok(ask)
}

/// Answers a request for a picture or its description.
pub(crate) async fn answer(app: &App, request: &Request, rest: &[&str]) -> Result<Response, Fault> {
    request.query.without(super::TOKEN).only(&[])?;
    match rest {
        [id] => {
            // It must exist to be described.
            let ask = identified(app, request, id).await?;
            ask.zarr()?.node(&ask.path).await?;
            let mut response = empty(StatusCode::SEE_OTHER);
            let to = format!("{}/info.json", request.path.trim_end_matches('/'));
            if let Ok(to) = HeaderValue::from_str(&to) {
                response.headers_mut().insert(LOCATION, to);
            }
            Ok(response)
        }
        [id, "info.json"] => info(&identified(app, request, id).await?).await,
        [id, region, size, rotation, last] => {
            let ask = identified(app, request, id).await?;
            let wanted = Wanted::parse(region, size, rotation, last)?;
            let ask = &ask;
            made::answer(ask, async move {
                let drawable = Drawable::open(ask, &ask.query).await?;
                Ok(picture(ask, &drawable, &wanted).await?.with("link", PROFILE.to_owned()))
            })
            .await
        }
        _ => Err(Fault::not_found()),
    }
}

async fn info(ask: &Ask<'_>) -> Result<Response, Fault> {
    made::answer(ask, async move {
        let stack = ask.stack().await?;
        let (width, height) = stack.extent();
        let id = ask.request.path.strip_suffix("/info.json").unwrap_or(&ask.request.path);
        let mut factors = vec![1u64];
        while let Some(last) = factors.last().copied()
            && width.max(height).div_ceil(last) > TILE
        {
            factors.push(last.saturating_mul(2));
        }
        let mut sizes: Vec<Json> = Vec::new();
        for factor in factors.iter().rev() {
            let (w, h) = (width.div_ceil(*factor), height.div_ceil(*factor));
            if w.saturating_mul(h) <= ask.limits.pixels {
                sizes.push(Json::from([("width", w.into()), ("height", h.into())]));
            }
        }
        let tile = Json::from([("width", TILE.into()), ("scaleFactors", factors.into())]);
        let json = Json::from([
            ("@context", CONTEXT.into()),
            ("id", format!("{}{id}", ask.base).into()),
            ("type", "ImageService3".into()),
            ("protocol", "http://iiif.io/api/image".into()),
            ("profile", "level2".into()),
            ("width", width.into()),
            ("height", height.into()),
            ("maxArea", ask.limits.pixels.into()),
            ("sizes", Json::Array(sizes)),
            ("tiles", Json::Array(vec![tile])),
            ("extraFormats", ["tif"].as_slice().into()),
            ("extraQualities", ["bitonal"].as_slice().into()),
            ("extraFeatures", ["mirroring", "sizeUpscaling", "profileLinkHeader"].as_slice().into()),
        ]);
        Ok(Made::plain(TYPE, json.compact()).with("link", PROFILE.to_owned()))
    })
    .await
}

/// What is asked for, before the image is known.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    region: WantedRegion,
    size: WantedSize,
    /// Whether the size may be larger than the region.
    upscaled: bool,
    /// Quarters of a turn, clockwise.
    quarters: u8,
    mirrored: bool,
    quality: Quality,
    format: PictureFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quality {
    Color,
    Gray,
    /// Black or white, whichever is nearer.
    Bitonal,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum WantedRegion {
    Full,
    Square,
    Pixels([u64; 4]),
    Percent([f64; 4]),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum WantedSize {
    Max,
    Width(u64),
    Height(u64),
    Percent(f64),
    Exactly(u64, u64),
    Within(u64, u64),
}

fn bad(what: &str, text: &str) -> Fault {
    Fault::bad(format!("{text:?} is not {what} of the IIIF Image API"))
}

impl Wanted {
    fn parse(region: &str, size: &str, rotation: &str, last: &str) -> Result<Self, Fault> {
        let (quality, end) = last.rsplit_once('.').ok_or_else(|| bad("a quality and a format", last))?;
        let quality = match quality {
            "default" | "color" => Quality::Color,
            "gray" => Quality::Gray,
            "bitonal" => Quality::Bitonal,
            _ => return Err(bad("a quality", quality)),
        };
        let format = match end {
            "jpg" => PictureFormat::Jpeg,
            "png" => PictureFormat::Png,
            "tif" => PictureFormat::Tiff,
            _ => return Err(bad("a format", end)),
        };
        let (upscaled, plain) = size.strip_prefix('^').map_or((false, size), |rest| (true, rest));
        let (mirrored, turn) = rotation.strip_prefix('!').map_or((false, rotation), |rest| (true, rest));
        let degrees = decimal(turn).filter(|d| *d <= 360.0).ok_or_else(|| bad("a rotation", rotation))?;
        let quarters = [(0.0, 0), (90.0, 1), (180.0, 2), (270.0, 3), (360.0, 0)];
        let Some((_, quarters)) = quarters.into_iter().find(|(d, _)| *d == degrees) else {
            return Err(Fault::new(
                StatusCode::NOT_IMPLEMENTED,
                "pictures are turned by multiples of 90 only",
            ));
        };
        Ok(Self {
            region: parse_region(region)?,
            size: parse_size(plain).ok_or_else(|| bad("a size", size))?,
            upscaled,
            quarters,
            mirrored,
            quality,
            format,
        })
    }
}

/// A number with digits and at most one point.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_plain.then(|| text.parse().ok()).flatten()
}

fn parse_region(text: &str) -> Result<WantedRegion, Fault> {
    let wrong = || bad("a region", text);
    match text {
        "full" => return Ok(WantedRegion::Full),
        "square" => return Ok(WantedRegion::Square),
        _ => {}
    }
    if let Some(list) = text.strip_prefix("pct:") {
        let numbers: Option<Vec<f64>> = list.split(',').map(decimal).collect();
        return match numbers.as_deref() {
            Some([x, y, w, h]) if *w > 0.0 && *h > 0.0 => Ok(WantedRegion::Percent([*x, *y, *w, *h])),
            _ => Err(wrong()),
        };
    }
    let numbers: Option<Vec<u64>> = text.split(',').map(super::tile::number).collect();
    match numbers.as_deref() {
        Some([x, y, w, h]) if *w > 0 && *h > 0 => Ok(WantedRegion::Pixels([*x, *y, *w, *h])),
        _ => Err(wrong()),
    }
}

fn parse_size(text: &str) -> Option<WantedSize> {
    if text == "max" {
        return Some(WantedSize::Max);
    }
    if let Some(percent) = text.strip_prefix("pct:") {
        return decimal(percent).filter(|n| *n > 0.0).map(WantedSize::Percent);
    }
    let side = |text: &str| super::tile::number(text).filter(|n| *n > 0);
    if let Some((w, h)) = text.strip_prefix('!').and_then(|both| both.split_once(',')) {
        return Some(WantedSize::Within(side(w)?, side(h)?));
    }
    let (w, h) = text.split_once(',')?;
    match (w.is_empty(), h.is_empty()) {
        (false, true) => Some(WantedSize::Width(side(w)?)),
        (true, false) => Some(WantedSize::Height(side(h)?)),
        (false, false) => Some(WantedSize::Exactly(side(w)?, side(h)?)),
        (true, true) => None,
    }
}

/// The part of an image of this extent; 400 if nothing of it lies inside.
fn settle_region(wanted: WantedRegion, (width, height): (u64, u64)) -> Result<Region, Fault> {
    let [x, y, w, h] = match wanted {
        WantedRegion::Full => [0, 0, width, height],
        WantedRegion::Square => {
            let side = width.min(height);
            [(width - side) / 2, (height - side) / 2, side, side]
        }
        WantedRegion::Pixels(all) => all,
        WantedRegion::Percent([x, y, w, h]) => {
            let of = |percent: f64, all: u64| whole((percent / 100.0 * real(all)).round());
            [of(x, width), of(y, height), of(w, width).max(1), of(h, height).max(1)]
        }
    };
    if x >= width || y >= height {
        return Err(Fault::bad(format!("the region lies outside the image, which is {width} x {height}")));
    }
    Ok(Region { x, y, width: w.min(width - x), height: h.min(height - y) })
}

/// The size of the picture; 400 if it is larger than the region without `^`, or than the server allows.
fn settle_size(wanted: &Wanted, region: Region, most: u64) -> Result<(u64, u64), Fault> {
    let (w, h) = (region.width, region.height);
    let scaled = |by: f64| {
        let side = |n: u64| whole((real(n) * by).round()).max(1);
        (side(w), side(h))
    };
    let size = match wanted.size {
        WantedSize::Max if w.saturating_mul(h) <= most => (w, h),
        WantedSize::Max => {
            let by = (real(most) / (real(w) * real(h))).sqrt();
            let side = |n: u64| whole((real(n) * by).floor()).max(1);
            (side(w), side(h))
        }
        WantedSize::Width(width) => (width, whole((real(h) * real(width) / real(w)).round()).max(1)),
        WantedSize::Height(height) => (whole((real(w) * real(height) / real(h)).round()).max(1), height),
        WantedSize::Percent(percent) => scaled(percent / 100.0),
        WantedSize::Exactly(width, height) => (width, height),
        WantedSize::Within(width, height) => {
            let by = (real(width) / real(w)).min(real(height) / real(h));
            let by = if wanted.upscaled { by } else { by.min(1.0) };
            let (x, y) = scaled(by);
            (x.min(width), y.min(height))
        }
    };
    if (size.0 > w || size.1 > h) && !wanted.upscaled {
        return Err(Fault::bad(format!(
            "{} x {} is larger than the region, {w} x {h}; ^ before the size allows it",
            size.0, size.1
        )));
    }
    if size.0.saturating_mul(size.1) > most {
        return Err(Fault::bad(format!("a picture has at most {most} pixels here")));
    }
    Ok(size)
}

async fn picture(ask: &Ask<'_>, drawable: &Drawable, wanted: &Wanted) -> Result<Made, Fault> {
    let region = settle_region(wanted.region, drawable.extent())?;
    let size = settle_size(wanted, region, ask.limits.pixels)?;
    let mut picture = drawable.region(ask, region, size).await?;
    if wanted.mirrored || wanted.quarters > 0 || wanted.quality != Quality::Color {
        let wanted = wanted.clone();
        picture = super::apart(move || turned(picture, &wanted)).await?;
    }
    encode(picture, wanted.format).await
}

/// Mirrors, then turns, then takes the colours away, as asked.
fn turned(mut picture: Picture, wanted: &Wanted) -> Picture {
    if wanted.quality != Quality::Color {
        for [r, g, b, _] in picture.rgba.as_chunks_mut::<4>().0 {
            let light = (299 * u32::from(*r) + 587 * u32::from(*g) + 114 * u32::from(*b) + 500) / 1000;
            let light = match wanted.quality {
                Quality::Bitonal if light < 128 => 0,
                Quality::Bitonal => 255,
                _ => u8::try_from(light).unwrap_or(255),
            };
            (*r, *g, *b) = (light, light, light);
        }
    }
    let (width, height) = (picture.width, picture.height);
    if !wanted.mirrored && wanted.quarters == 0 {
        return picture;
    }
    let (out_width, out_height) = if wanted.quarters % 2 == 1 { (height, width) } else { (width, height) };
    let pixels = picture.rgba.as_chunks::<4>().0;
    let mut rgba = Vec::with_capacity(picture.rgba.len());
    for y in 0..out_height {
        for x in 0..out_width {
            // Where this pixel was before the turn.
            let (from_x, from_y) = match wanted.quarters {
                0 => (x, y),
                1 => (y, height - 1 - x),
                2 => (width - 1 - x, height - 1 - y),
                _ => (width - 1 - y, x),
            };
            let from_x = if wanted.mirrored { width - 1 - from_x } else { from_x };
            let at = u64::from(from_y) * u64::from(width) + u64::from(from_x);
            rgba.extend(usize::try_from(at).ok().and_then(|at| pixels.get(at)).copied().unwrap_or_default());
        }
    }
    Picture { width: out_width, height: out_height, rgba }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_and_sizes_follow_the_standard() {
        let wanted = |region: &str, size: &str| Wanted::parse(region, size, "0", "default.jpg").unwrap();
        let settled = |region: &str, size: &str| {
            let wanted = wanted(region, size);
            let region = settle_region(wanted.region, (300, 200)).map_err(|f| f.status.as_u16())?;
            let size = settle_size(&wanted, region, 1_000_000).map_err(|f| f.status.as_u16())?;
            Ok::<_, u16>(([region.x, region.y, region.width, region.height], size))
        };
        for (region, size, expected) in [
            ("full", "max", Ok(([0, 0, 300, 200], (300, 200)))),
            ("square", "max", Ok(([50, 0, 200, 200], (200, 200)))),
            ("250,150,100,100", "max", Ok(([250, 150, 50, 50], (50, 50)))),
            ("pct:50,50,25,25", "max", Ok(([150, 100, 75, 50], (75, 50)))),
            ("full", "150,", Ok(([0, 0, 300, 200], (150, 100)))),
            ("full", ",50", Ok(([0, 0, 300, 200], (75, 50)))),
            ("full", "pct:50", Ok(([0, 0, 300, 200], (150, 100)))),
            ("full", "10,20", Ok(([0, 0, 300, 200], (10, 20)))),
            ("full", "!100,100", Ok(([0, 0, 300, 200], (100, 67)))),
            ("full", "!1000,1000", Ok(([0, 0, 300, 200], (300, 200)))),
            ("full", "^600,", Ok(([0, 0, 300, 200], (600, 400)))),
            ("full", "^!600,600", Ok(([0, 0, 300, 200], (600, 400)))),
            ("300,0,10,10", "max", Err(400)),
            ("full", "301,", Err(400)),
            ("full", "pct:101", Err(400)),
            ("full", "^3000,", Err(400)),
        ] {
            assert_eq!(settled(region, size), expected, "{region}/{size}");
        }
        let status = |region, size, rotation, last| {
            Wanted::parse(region, size, rotation, last).map_err(|f| f.status.as_u16()).err()
        };
        for (region, size, rotation, last, expected) in [
            ("0,0,0,5", "max", "0", "default.jpg", 400),
            ("a,b,c,d", "max", "0", "default.jpg", 400),
            ("0,0,1", "max", "0", "default.jpg", 400),
            ("full", "0,", "0", "default.jpg", 400),
            ("full", "full", "0", "default.jpg", 400),
            ("full", ",", "0", "default.jpg", 400),
            ("full", "max", "22.5", "default.jpg", 501),
            ("full", "max", "-90", "default.jpg", 400),
            ("full", "max", "361", "default.jpg", 400),
            ("full", "max", "0", "native.jpg", 400),
            ("full", "max", "0", "default.xyz", 400),
            ("full", "max", "0", "default", 400),
        ] {
            assert_eq!(
                status(region, size, rotation, last),
                Some(expected),
                "{region}/{size}/{rotation}/{last}"
            );
        }
    }

    #[test]
    fn turns_are_clockwise_after_the_mirror() {
        let picture = || Picture { width: 2, height: 1, rgba: [[1, 0, 0, 255], [2, 0, 0, 255]].concat() };
        let reds = |rotation: &str| {
            let wanted = Wanted::parse("full", "max", rotation, "default.png").unwrap();
            let out = turned(picture(), &wanted);
            (out.width, out.rgba.iter().step_by(4).copied().collect::<Vec<u8>>())
        };
        assert_eq!(reds("0"), (2, vec![1, 2]));
        assert_eq!(reds("90"), (1, vec![1, 2]));
        assert_eq!(reds("180"), (2, vec![2, 1]));
        assert_eq!(reds("270"), (1, vec![2, 1]));
        assert_eq!(reds("!0"), (2, vec![2, 1]));
        assert_eq!(reds("!90"), (1, vec![2, 1]));
    }
}
