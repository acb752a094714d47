//! `/dzi/{id}.dzi` and `/dzi/{id}_files/{level}/{column}_{row}.{png|jpg}`: DeepZoom. How to draw is said in the
//! identifier or in the query, which OpenSeadragon keeps on each tile.

use zaro::image::render::Region;

use super::draw::Drawable;
use super::iiif::identified;
use super::made::Made;
use super::paint::{PictureFormat, encode};
use super::stack::TILE;
use super::tile::number;
use super::{Ask, made, params};
use crate::answer::{Fault, Response};
use crate::app::App;
use crate::request::{Query, Request};

/// Answers a request for a descriptor or a tile.
pub(crate) async fn answer(app: &App, request: &Request, rest: &[&str]) -> Result<Response, Fault> {
    request.query.without(super::TOKEN).only(&params::both(&["raw", "format"]))?;
    let (last, before) = rest.split_last().ok_or_else(Fault::not_found)?;
    if let Some(end) = last.strip_suffix(".dzi") {
        let id = [before, &[end]].concat().join("/");
        return descriptor(&with_query(identified(app, request, &id).await?)?).await;
    }
    let [id @ .., folder, level, tile] = rest else { return Err(Fault::not_found()) };
    let folder = folder.strip_suffix("_files").ok_or_else(Fault::not_found)?;
    let id = [id, &[folder]].concat().join("/");
    let (place, end) = tile.rsplit_once('.').ok_or_else(Fault::not_found)?;
    let format = match end {
        "png" => PictureFormat::Png,
        "jpg" | "jpeg" => PictureFormat::Jpeg,
        _ => return Err(Fault::not_found()),
    };
    let (column, row) = place.split_once('_').ok_or_else(Fault::not_found)?;
    let numbers = [level, column, row].map(number);
    let [Some(level), Some(column), Some(row)] = numbers else { return Err(Fault::not_found()) };
    let ask = with_query(identified(app, request, &id).await?)?;
    let ask = &ask;
    made::answer(ask, async move {
        let drawable = Drawable::open(ask, &ask.query).await?;
        let (region, size) = part(drawable.extent(), level, column, row).ok_or_else(Fault::not_found)?;
        encode(drawable.region(ask, region, size).await?, format).await
    })
    .await
}

/// The parameters of the identifier and those of the query together.
fn with_query(mut ask: Ask<'_>) -> Result<Ask<'_>, Fault> {
    let both = ask.query.pairs().iter().chain(ask.request.query.pairs());
    let text: Vec<String> = both
        .filter(|(key, _)| key != "format" && key != super::TOKEN)
        .map(|(key, value)| format!("{}={}", crate::path::encode(key), crate::path::encode(value)))
        .collect();
    ask.query = Query::parse(&text.join("&"));
    Ok(ask)
}

async fn descriptor(ask: &Ask<'_>) -> Result<Response, Fault> {
    let format = match ask.request.query.get("format") {
        None | Some("png") => "png",
        Some("jpg" | "jpeg") => "jpg",
        Some(other) => return Err(Fault::bad(format!("format={other:?}: png or jpg"))),
    };
    made::answer(ask, async move {
        let (width, height) = ask.stack().await?.extent();
        let xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Image xmlns=\"http://schemas.microsoft.com/deepzoom/2008\" \
             Format=\"{format}\" Overlap=\"0\" TileSize=\"{TILE}\">\
             <Size Width=\"{width}\" Height=\"{height}\"/></Image>\n"
        );
        Ok(Made::plain("application/xml", xml))
    })
    .await
}

/// The highest level: full resolution; level 0 is one pixel.
fn top(extent: (u64, u64)) -> u32 {
    let longest = extent.0.max(extent.1).max(1);
    longest.next_power_of_two().trailing_zeros()
}

/// The region of a tile in pixels of the image, and its size.
fn part(extent: (u64, u64), level: u64, column: u64, row: u64) -> Option<(Region, (u64, u64))> {
    let by = u64::from(top(extent)).checked_sub(level)?;
    let factor = 1u64.checked_shl(u32::try_from(by).ok()?)?;
    let side = |n: u64, all: u64| {
        let scaled = all.div_ceil(factor);
        let start = n.checked_mul(TILE).filter(|start| *start < scaled)?;
        let length = TILE.min(scaled - start);
        let from = start.checked_mul(factor)?;
        Some((from, length.checked_mul(factor)?.min(all.checked_sub(from)?), length))
    };
    let ((x, width, across), (y, height, down)) = (side(column, extent.0)?, side(row, extent.1)?);
    Some((Region { x, y, width, height }, (across, down)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_halve_down_to_one_pixel() {
        assert_eq!((top((1, 1)), top((1000, 600)), top((1024, 1)), top((1025, 1))), (0, 10, 10, 11));
        let (region, size) = part((1000, 600), 10, 1, 1).unwrap();
        assert_eq!((region.x, region.y, region.width, region.height, size), (512, 512, 488, 88, (488, 88)));
        let (region, size) = part((1000, 600), 9, 0, 0).unwrap();
        assert_eq!((region.width, region.height, size), (1000, 600, (500, 300)));
        assert_eq!(part((1000, 600), 0, 0, 0).unwrap().1, (1, 1));
        assert!(part((1000, 600), 11, 0, 0).is_none() && part((1000, 600), 10, 2, 0).is_none());
    }
}
