//! One way to draw what is at a path: an image by its renderer, a field by a colour map.

use std::sync::Arc;

use zaro::format::Colormap;
use zaro::image::render::{Picture, Region, RenderPlan, Renderer, Size, View};
use zaro::{Index, Selection};

use super::cost::Cost;
use super::params;
use super::planes;
use super::stack::{Kind, Pick, Rung, Stack, Window, looking, reading};
use super::{Ask, paint};
use crate::answer::Fault;
use crate::request::Query;

/// Something that can be drawn, with everything about it settled but the part.
#[derive(Debug)]
pub(crate) struct Drawable {
    pub(crate) stack: Arc<Stack>,
    brush: Brush,
}

#[derive(Debug)]
enum Brush {
    Image(Box<Renderer>, View),
    Field { pick: Pick, map: Colormap, range: Option<(f64, f64)>, transparent: Vec<f64>, stored: bool },
}

/// The part of a channel that a renderer looks at to guess a window, along each side.
const MIDDLE: u64 = 2048;

impl Drawable {
    /// Opens what is at the path of `ask`, with the parameters of a query. Guessing the windows of channels reads
    /// pixels, which is part of the cost.
    pub(crate) async fn open(ask: &Ask<'_>, query: &Query) -> Result<Arc<Self>, Fault> {
        let known: Vec<&str> = params::both(&["raw"]);
        let mut name = format!("{}\0{}", ask.state(), ask.path);
        for (key, value) in query.pairs().iter().filter(|(key, _)| known.contains(&key.as_str())) {
            name.push_str(&format!("\0{key}\0{value}"));
        }
        let open = Box::pin(Self::opened(ask, query));
        ask.pixels.drawables.get(&name, ask.lasts(), |_| 1, open).await
    }

    async fn opened(ask: &Ask<'_>, query: &Query) -> Result<Self, Fault> {
        let stack = ask.stack().await?;
        let pick = params::pick(query, ask.zarr()?, &stack).await?;
        Self::with(ask, query, stack, pick).await
    }

    /// The same, of planes that are known already.
    pub(crate) async fn with(
        ask: &Ask<'_>,
        query: &Query,
        stack: Arc<Stack>,
        pick: Pick,
    ) -> Result<Self, Fault> {
        let zarr = ask.zarr()?;
        if let Some((image, _)) = &stack.image {
            if let Some(name) = ["cmap", "min", "max"].into_iter().find(|name| query.get(name).is_some()) {
                return Err(Fault::bad(format!("{name}= is for fields; use c=CHANNEL:window=LOW:HIGH")));
            }
            let memory = usize::try_from(ask.limits.decoded).unwrap_or(usize::MAX).min(128 << 20);
            let settings = params::settings(query, memory)?;
            let guess = guess_cost(&stack, &pick)?;
            let turn = ask.enter(guess, || None).await?;
            let renderer = Renderer::open(zarr, image, &settings).await.map_err(looking)?;
            drop(turn);
            let view =
                View { depth: params::depth(query.get("z"))?, t: query.number("t")?, ..View::default() };
            return Ok(Self { stack: stack.clone(), brush: Brush::Image(Box::new(renderer), view) });
        }
        if let Some(name) = ["model", "labels", "opacity"].into_iter().find(|n| query.get(n).is_some()) {
            return Err(Fault::bad(format!("{name}= is for images")));
        }
        let stored = query.get("raw").is_some_and(|raw| raw == "1");
        let range = match (query.number::<f64>("min")?, query.number::<f64>("max")?) {
            (Some(low), Some(high)) if low <= high => Some((low, high)),
            (None, None) => None,
            _ => return Err(Fault::bad("min= and max= go together, min first")),
        };
        let meta = stack.array(0)?.meta();
        let is_decoded = !stored && zaro::cf::Cf::new(meta, &stack.related, &mut |_| {}).is_some();
        let transparent = if is_decoded { Vec::new() } else { zaro::internal::table::transparent(meta) };
        let map = paint::colormap(query.get("cmap"))?;
        Ok(Self { stack: stack.clone(), brush: Brush::Field { pick, map, range, transparent, stored } })
    }

    /// Width and height of the largest level.
    pub(crate) fn extent(&self) -> (u64, u64) {
        self.stack.extent()
    }

    /// Draws a window of a rung.
    pub(crate) async fn window(
        &self,
        ask: &Ask<'_>,
        rung: &Rung,
        window: &Window,
        nearest: impl FnOnce() -> Option<usize>,
    ) -> Result<Picture, Fault> {
        match &self.brush {
            Brush::Image(renderer, view) => {
                let region = self.stack.region(rung, window);
                let size = (!rung.is_stored()).then(|| exactly(window)).transpose()?;
                let level = (self.stack.kind == Kind::Image).then_some(rung.level);
                let level = if rung.is_stored() { Some(rung.level) } else { level };
                let view = View { region: Some(region), size, level, ..view.clone() };
                rendered(ask, renderer, &view, nearest).await
            }
            Brush::Field { pick, map, range, transparent, stored } => {
                let cost = self.stack.cost(rung, window, pick)?;
                let _turn = ask.enter(cost, nearest).await?;
                let planes = planes::read(&self.stack, rung, window, pick, *stored).await?;
                let range = match range {
                    Some(range) => Some(*range),
                    // All of it tells its own range.
                    None if *window == rung.whole() => None,
                    None => Some(self.guessed(ask, pick, transparent, *stored).await?),
                };
                colored(planes, *map, range, transparent.clone()).await
            }
        }
    }

    /// Colours numbers of a field, with the range that all parts of it share.
    pub(crate) async fn colored(&self, ask: &Ask<'_>, planes: planes::Planes) -> Result<Picture, Fault> {
        let Brush::Field { pick, map, range, transparent, stored } = &self.brush else {
            return Err(Fault::bad("this is an image, not a field"));
        };
        let range = match range {
            Some(range) => *range,
            None => self.guessed(ask, pick, transparent, *stored).await?,
        };
        colored(planes, *map, Some(range), transparent.clone()).await
    }

    /// Draws a region, given in pixels of the largest level, in a size.
    pub(crate) async fn region(
        &self,
        ask: &Ask<'_>,
        region: Region,
        (width, height): (u64, u64),
    ) -> Result<Picture, Fault> {
        let side = |n: u64| u32::try_from(n).map_err(|_| Fault::bad("the picture is too large"));
        match &self.brush {
            Brush::Image(renderer, view) => {
                let size = Some(Size::Exactly(side(width)?, side(height)?));
                let view = View { region: Some(region), size, ..view.clone() };
                rendered(ask, renderer, &view, || None).await
            }
            Brush::Field { .. } => {
                // The coarsest whole factor that is enough, then the nearest pixel of it.
                let factor = (region.width / width.max(1)).min(region.height / height.max(1)).max(1);
                let rung = self.stack.reduced(factor);
                let part = |start: u64, length: u64, all: u64| {
                    let from = (start / factor).min(all.saturating_sub(1));
                    from..start.saturating_add(length).div_ceil(factor).clamp(from + 1, all.max(from + 1))
                };
                let window = Window {
                    rows: part(region.y, region.height, rung.height),
                    columns: part(region.x, region.width, rung.width),
                };
                let picture = self.window(ask, &rung, &window, || None).await?;
                super::apart(move || stretched(&picture, side(width)?, side(height)?)).await?
            }
        }
    }

    /// The range of a field that tiles of it share: from all of it if that is affordable, else from its middle.
    async fn guessed(
        &self,
        ask: &Ask<'_>,
        pick: &Pick,
        transparent: &[f64],
        stored: bool,
    ) -> Result<(f64, f64), Fault> {
        let stack = &self.stack;
        let name = format!("{}\0{}\0{:?}\0{stored}", ask.state(), ask.path, pick.fixed);
        let guess = Box::pin(async {
            let (width, height) = stack.extent();
            let rung = stack.reduced((width.max(height) / 1024).max(1));
            let mut choice = (rung, rung.whole());
            if !stack.cost(&choice.0, &choice.1, pick)?.fits(ask.limits) {
                let rung = stack.reduced(1);
                let middle = |n: u64| n.saturating_sub(1024) / 2..(n.saturating_add(1024) / 2).min(n);
                choice = (rung, Window { rows: middle(height), columns: middle(width) });
            }
            let cost = stack.cost(&choice.0, &choice.1, pick)?;
            cost.check(ask.limits, || None)?;
            let planes = planes::read(stack, &choice.0, &choice.1, pick, stored).await?;
            let transparent = transparent.to_vec();
            super::apart(move || paint::usual_range(&shown(&planes, &transparent))).await
        });
        ask.pixels.ranges.get(&name, ask.lasts(), |_| 1, guess).await.map(|range| *range)
    }
}

/// Numbers as colours, on a thread of its own.
async fn colored(
    planes: planes::Planes,
    map: Colormap,
    range: Option<(f64, f64)>,
    transparent: Vec<f64>,
) -> Result<Picture, Fault> {
    super::apart(move || {
        let numbers = shown(&planes, &transparent);
        let range = range.unwrap_or_else(|| paint::usual_range(&numbers));
        paint::colors(&numbers, (planes.width, planes.height), map, range)
    })
    .await
}

/// The numbers to colour.
fn shown(planes: &planes::Planes, transparent: &[f64]) -> Vec<f64> {
    let mut numbers = planes.channel(0);
    if !transparent.is_empty() {
        for x in numbers.iter_mut().filter(|x| transparent.contains(x)) {
            *x = f64::NAN;
        }
    }
    numbers
}

fn exactly(window: &Window) -> Result<Size, Fault> {
    let side = |n: u64| u32::try_from(n).map_err(|_| Fault::bad("the picture is too large"));
    Ok(Size::Exactly(side(window.width())?, side(window.height())?))
}

/// Draws a view, if it may cost that much.
pub(crate) async fn rendered(
    ask: &Ask<'_>,
    renderer: &Renderer,
    view: &View,
    nearest: impl FnOnce() -> Option<usize>,
) -> Result<Picture, Fault> {
    let cost = view_cost(renderer, view)?;
    let _turn = ask.enter(cost, nearest).await?;
    let mut picture = Picture { width: 0, height: 0, rgba: Vec::new() };
    renderer.draw_to(view, &mut picture).await.map_err(reading)?;
    Ok(picture)
}

/// What drawing a view costs.
pub(crate) fn view_cost(renderer: &Renderer, view: &View) -> Result<Cost, Fault> {
    let plan = renderer.plan(view)?;
    let cost = plan_cost(&plan).map_err(reading)?;
    Ok(cost.drawing(plan.width.saturating_mul(plan.height)))
}

/// What the reads of a plan cost.
pub(crate) fn plan_cost(plan: &RenderPlan) -> zaro::Result<Cost> {
    let mut cost = Cost::default();
    for (array, selection) in &plan.reads {
        cost = cost.and(Cost::of(array, selection)?);
    }
    Ok(cost)
}

/// What guessing the windows of channels costs: the middle of a plane of the smallest level, for each.
fn guess_cost(stack: &Stack, pick: &Pick) -> Result<Cost, Fault> {
    if stack.kind != Kind::Image {
        return Ok(Cost::default());
    }
    let last = stack.arrays.len().saturating_sub(1);
    let array = stack.array(last)?;
    let whole = |d: usize| array.shape().get(d).copied().unwrap_or(1);
    let mut indexes = vec![Index::Span(0, 1); array.shape().len()];
    for d in [stack.axes.y, stack.axes.x] {
        let length = whole(d).min(MIDDLE);
        if let Some(slot) = indexes.get_mut(d) {
            *slot = Index::Span((whole(d) - length) / 2, length);
        }
    }
    let one = Cost::of(array, &Selection::new(indexes)).map_err(reading)?;
    Ok(one.times(u64::try_from(pick.c.len().clamp(1, 6)).unwrap_or(1)).drawing(0))
}

/// A picture in another size, by the nearest pixel.
fn stretched(picture: &Picture, width: u32, height: u32) -> Result<Picture, Fault> {
    if (picture.width, picture.height) == (width, height) {
        return Ok(picture.clone());
    }
    let place = |i: u32, out: u32, own: u32| {
        let at = (u64::from(i) * 2 + 1) * u64::from(own) / (u64::from(out.max(1)) * 2);
        usize::try_from(at.min(u64::from(own.saturating_sub(1)))).unwrap_or(0)
    };
    let row_pixels = usize::try_from(picture.width).unwrap_or(0);
    let pixels = picture.rgba.as_chunks::<4>().0;
    let mut rgba = Vec::new();
    for y in 0..height {
        let start = place(y, height, picture.height).saturating_mul(row_pixels);
        for x in 0..width {
            let pixel = pixels.get(start + place(x, width, picture.width));
            rgba.extend(pixel.copied().unwrap_or_default());
        }
    }
    Ok(Picture { width, height, rgba })
}
