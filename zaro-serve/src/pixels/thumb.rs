//! `/thumb/{name}/{path…}?size=256&format=png|jpg`: anything that can be drawn, in one small picture.

use std::sync::{Arc, Mutex, PoisonError};

use zaro::image::Found;
use zaro::image::render::{Admit, Picture, Region, Renderer, Request as Rendering, Size, View, render_to};
use zaro::meta::NodeMeta;

use super::cost::Cost;
use super::draw::{Drawable, plan_cost, view_cost};
use super::paint::{PictureFormat, encode};
use super::stack::{looking, reading};
use super::{Ask, made, params};
use crate::answer::{Fault, Response};

/// The longer side, if none is asked for.
const SIZE: u32 = 256;

/// Answers a request for a thumbnail.
pub(crate) async fn answer(ask: &Ask<'_>) -> Result<Response, Fault> {
    let query = &ask.query;
    query.only(&params::both(&["size", "format", "raw", "field", "acquisition", "image"]))?;
    let size = query.number::<u32>("size")?.unwrap_or(SIZE);
    if size == 0 {
        return Err(Fault::bad("size=0: a picture has at least one pixel"));
    }
    let format = match query.get("format") {
        None => PictureFormat::Png,
        Some(text) => PictureFormat::parse(text)
            .filter(|format| *format != PictureFormat::Tiff)
            .ok_or_else(|| Fault::bad(format!("format={text:?}: png or jpg")))?,
    };
    made::answer(ask, async move { encode(picture(ask, size).await?, format).await }).await
}

async fn picture(ask: &Ask<'_>, size: u32) -> Result<Picture, Fault> {
    let query = &ask.query;
    let zarr = ask.zarr()?;
    let node = zarr.node(&ask.path).await?;
    let several = match &node.meta {
        NodeMeta::Array(_) => None,
        NodeMeta::Group(_) => match zaro::image::find(zarr, &ask.path).await.map_err(looking)? {
            Found::Image(_) => None,
            Found::Collection { images, .. } if images.len() == 1 => None,
            found => Some(found),
        },
    };
    if let Some(found) = several {
        return table(ask, &found, size).await;
    }
    let wrong = ["field", "acquisition", "image"].into_iter().find(|name| query.get(name).is_some());
    if let Some(name) = wrong {
        return Err(Fault::bad(format!("{name}= is for plates, wells and collections")));
    }
    let drawable = Drawable::open(ask, query).await?;
    let (width, height) = drawable.extent();
    let longest = width.max(height);
    if longest == 0 {
        return Err(Fault::bad("there are no pixels"));
    }
    if drawable.stack.image.is_none() {
        let rung = drawable.stack.reduced(longest.div_ceil(size.into()));
        return drawable.window(ask, &rung, &rung.whole(), || None).await;
    }
    // It is never larger than the image.
    let scaled = |side: u64| {
        let longer = u64::from(size).min(longest);
        let near =
            (u128::from(longer) * u128::from(side) * 2 + u128::from(longest)) / (u128::from(longest) * 2);
        u64::try_from(near).unwrap_or(longer).max(1)
    };
    let whole = Region { x: 0, y: 0, width, height };
    drawable.region(ask, whole, (scaled(width), scaled(height))).await
}

/// Several images in one picture: the wells of a plate, the fields of a well, one image of a collection. What it costs
/// is taken to be what the first image costs, times their number; each is counted again before it is read, so that it
/// never costs more than a request may, however different they are.
async fn table(ask: &Ask<'_>, found: &Found, size: u32) -> Result<Picture, Fault> {
    let (query, zarr) = (&ask.query, ask.zarr()?);
    let memory = usize::try_from(ask.limits.decoded).unwrap_or(usize::MAX).min(128 << 20);
    let settings = params::settings(query, memory)?;
    let view = View {
        size: Some(Size::Longest(size)),
        depth: params::depth(query.get("z"))?,
        t: query.number("t")?,
        ..View::default()
    };
    let mut image = query.get("image").map(str::to_owned);
    let (first, count) = match found {
        Found::Plate { path, plate, .. } => {
            let mut first = None;
            for place in &plate.wells {
                let at = join(path, &place.path);
                if let Ok(Found::Well { path, well, .. }) = zaro::image::find(zarr, &at).await {
                    first = well.fields.first().map(|field| join(&path, &field.path));
                    if first.is_some() {
                        break;
                    }
                }
            }
            (first, plate.wells.len())
        }
        Found::Well { path, well, .. } => {
            (well.fields.first().map(|field| join(path, &field.path)), well.fields.len())
        }
        Found::Collection { images, .. } => {
            // The first stands for all, unless another is asked for.
            image.get_or_insert_with(|| "0".to_owned());
            (images.first().cloned(), 1)
        }
        Found::Image(image) => (Some(image.path.clone()), 1),
    };
    let Some(first) = first else { return Err(Fault::new(hyper::StatusCode::NOT_FOUND, "it has no images")) };
    let count = u64::try_from(count.max(1)).unwrap_or(u64::MAX);
    let opened = zaro::image::image_at(zarr, &first).await.map_err(looking)?;
    let renderer = Renderer::open(zarr, &opened, &settings).await.map_err(looking)?;
    let across = u64::from(size).checked_div(isqrt(count)).unwrap_or(1).max(1);
    let cell = View { size: Some(Size::Longest(u32::try_from(across).unwrap_or(size))), ..view.clone() };
    let cost: Cost = view_cost(&renderer, &cell)?.times(count).drawing(u64::from(size).pow(2));
    let _turn = ask.enter(cost, || None).await?;
    let spent = Arc::new(Mutex::new(Cost::default()));
    let request = Rendering {
        settings,
        view,
        image,
        acquisition: query.number("acquisition")?,
        field: query.number("field")?,
        sheet: None,
        gap: 0,
        admit: Some(Admit(Arc::new({
            let (spent, limits) = (spent.clone(), ask.limits.clone());
            move |plan| {
                let mut spent = spent.lock().unwrap_or_else(PoisonError::into_inner);
                *spent = spent.and(plan_cost(plan)?).drawing(spent.pixels);
                match spent.fits(&limits) {
                    true => Ok(()),
                    false => Err(zaro::Error::usage("the images of this plate cost too much")),
                }
            }
        }))),
    };
    let mut picture = Picture { width: 0, height: 0, rgba: Vec::new() };
    let drawn = render_to(zarr, &ask.path, &request, &mut picture).await;
    let spent = *spent.lock().unwrap_or_else(PoisonError::into_inner);
    spent.check(ask.limits, || None)?;
    drawn.map_err(reading)?;
    Ok(picture)
}

fn join(path: &str, name: &str) -> String {
    let name = name.trim_matches('/');
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

fn isqrt(n: u64) -> u64 {
    n.isqrt().max(1)
}
