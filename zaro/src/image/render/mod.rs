//! Renders images, wells and plates to pictures on the CPU, like OMERO.
//!
//! * [`render_to`] renders the object at a path of a Zarr: an image, a well, a plate, or the planes of a stack side by
//!   side; row by row, so that the picture is never in memory as a whole.
//! * [`Renderer`] is one image, opened once and rendered part by part, as for a tile server.
//!
//! [`Settings`] say how to render and [`View`] which part. Defaults come from the image's `omero`, or else are guessed:
//! windows from the pixels, colours by the number of channels. Smaller pictures are rendered from the smallest level
//! that is large enough, whose raw pixels are averaged before anything else. The same request always gives the same
//! bytes.

mod frame;
mod look;
mod overlay;
mod paint;
mod picture;
mod quantum;
mod request;
mod samples;
mod settings;
mod source;

pub use look::{ChannelLook, Look, windows};
pub(crate) use look::{default_color, default_colors};
pub use picture::{MOST_PIXELS, Picture, PngRows, Rows, TiffRows};
pub use quantum::Curve;
pub use request::{Admit, Drawn, Request, Sheet, render_to};
pub use settings::{ChannelSetting, Depth, LabelChoice, Projection, Region, Settings, Size, View};
pub use source::Axes;

use std::ops::Range;

use crate::array::{Array, Selection};
use crate::boxed;
use crate::error::{Error, Result, usage};
use crate::group::Zarr;
use crate::image::find::{Image, LabelImage};
use crate::meta::path::{join, shown};
use crate::num;
use frame::{AxisSpan, PictureFrame, Tap};
use overlay::{Overlay, PixelGrid, Under};
use paint::{ChannelPlanes, Fit, Projected};
use samples::SampleKind;
use source::{LevelStack, PixelBlock, PixelPick, WantedPixels, scaled, scaled_range};

/// An image opened for rendering.
#[derive(Debug, Clone)]
pub struct Renderer {
    pyramid: LevelStack,
    /// The pixel grid of the largest level.
    grid: Option<PixelGrid>,
    look: Look,
    overlays: Vec<Overlay>,
    memory: usize,
}

impl Renderer {
    /// Opens an image. Unspecified windows are guessed here, once, from the smallest level.
    #[boxed]
    pub async fn open(zarr: &Zarr, image: &Image, settings: &Settings) -> Result<Self> {
        Self::open_as(zarr, image, settings, None).await
    }

    /// Opens an image to be rendered with the look of another.
    pub(crate) async fn open_as(
        zarr: &Zarr,
        image: &Image,
        settings: &Settings,
        look: Option<&Look>,
    ) -> Result<Self> {
        if !(0.0..=1.0).contains(&settings.opacity) {
            return Err(usage!("the opacity must be from 0 to 1, not {}", settings.opacity));
        }
        let named = |e: Error| e.with_node(shown(&image.path));
        let multiscale = image.multiscale(settings.multiscale.as_deref())?;
        let levels = image.levels(multiscale);
        let memory = settings.memory.max(1);
        if let Some(labels) = &image.label {
            // Label images are drawn as labels, without an image below.
            let alone =
                Overlay::open(zarr, &multiscale.axes, &levels, labels, settings.opacity, true).await?;
            let pyramid = alone.pyramid().clone();
            let none = Look::nothing(&pyramid, image.omero.as_ref())?;
            return Ok(Self { pyramid, grid: None, look: none, overlays: vec![alone], memory });
        }
        let pyramid = LevelStack::open(zarr, &levels, &multiscale.axes).await?;
        let look = match look {
            Some(look) => look.for_another(&pyramid)?,
            None => Look::of(&pyramid, image.omero.as_ref(), settings).await.map_err(named)?,
        };
        let mut overlays = Vec::new();
        for label in chosen_labels(zarr, image, &settings.labels).await? {
            overlays.push(
                Overlay::open(zarr, &label.axes, &label.levels, &label.labels, settings.opacity, false)
                    .await?,
            );
        }
        let grid = levels.first().and_then(|level| PixelGrid::of(level, &pyramid.axes));
        Ok(Self { pyramid, grid, look, overlays, memory })
    }

    /// The look, with all defaults resolved.
    #[must_use]
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// Width and height of each level, the largest first.
    #[must_use]
    pub fn levels(&self) -> Vec<(u64, u64)> {
        self.pyramid.extents()
    }

    /// The number of planes along z.
    pub fn depth(&self) -> Result<u64> {
        Ok(Axes::extent(self.pyramid.first()?, self.pyramid.axes.z))
    }

    /// The number of time points.
    pub fn times(&self) -> Result<u64> {
        Ok(Axes::extent(self.pyramid.first()?, self.pyramid.axes.t))
    }

    /// The arrays of the levels, the largest first.
    #[must_use]
    pub fn arrays(&self) -> &[Array] {
        &self.pyramid.levels
    }

    /// Which dimension of these arrays each axis is.
    #[must_use]
    pub fn axes(&self) -> Axes {
        self.pyramid.axes
    }

    /// What rendering a view takes. Nothing is read, so that a server can refuse what costs too much.
    pub fn plan(&self, view: &View) -> Result<RenderPlan> {
        let drawing = self.begin(view)?;
        let (across, down) = (drawing.frame.x.count, drawing.frame.y.count);
        let mut reads = Vec::new();
        if !self.look.channels.is_empty() {
            let (array, single) = (drawing.array, drawing.is_single());
            let (layers, frame) = (drawing.layers()?, &drawing.frame);
            let wanted = WantedPixels {
                t: layers.t,
                c: layers.c.clone(),
                z: PixelPick::Run(layers.z.start, layers.z.end - layers.z.start),
                y: positions(&frame.y, 0..down, single),
                x: positions(&frame.x, 0..across, single),
            };
            reads.push((array.clone(), wanted.selection(array, &self.pyramid.axes)?));
        }
        let under = drawing.under(0..down);
        for overlay in &self.overlays {
            reads.extend(overlay.reads(&under)?);
        }
        Ok(RenderPlan { width: num::u64_of(across), height: num::u64_of(down), reads })
    }

    /// Renders a view, and passes its rows to `out`, as many at a time as fit into half of the memory budget.
    #[boxed]
    pub async fn draw_to(&self, view: &View, out: &mut dyn Rows) -> Result<()> {
        let drawing = self.begin(view)?;
        let (across, down) = (drawing.frame.x.count, drawing.frame.y.count);
        let (width, height) = picture::sides(num::u64_of(across), num::u64_of(down))?;
        out.begin(width, height)?;
        let most = (self.memory / 2 / across.saturating_mul(4).max(1)).max(1);
        let mut row = 0;
        while row < down {
            let rows = row..drawing.band(row, most);
            row = rows.end;
            out.put(&drawing.rows(rows).await?.rgba)?;
        }
        Ok(())
    }

    /// Determines the level and pixels of a view.
    fn begin(&self, view: &View) -> Result<PreparedView<'_>> {
        let frame = PictureFrame::new(&self.pyramid.extents(), view.region, view.size, view.level)?;
        let (how, z) = self.planes(&view.depth)?;
        let array = self.pyramid.levels.get(frame.level).map_or_else(|| self.pyramid.first(), Ok)?;
        let kind = SampleKind::of(&array.meta().data_type)?;
        let tones =
            paint::tones(array.context(), &self.look, &kind, frame.x.count.saturating_mul(frame.y.count));
        Ok(PreparedView { renderer: self, array, kind, tones, how, z, t: self.time(view.t)?, frame })
    }

    /// The planes of the largest level to render, and their projection.
    fn planes(&self, depth: &Depth) -> Result<(Option<Projection>, Range<u64>)> {
        let all = self.depth()?;
        let one = |z: u64| z..z.saturating_add(1);
        match depth {
            Depth::Default => match self.look.projection {
                Some(how) => Ok((Some(how), 0..all)),
                None => Ok((None, one(self.look.z.min(all.saturating_sub(1))))),
            },
            Depth::Plane(z) if *z < all => Ok((None, one(*z))),
            Depth::Plane(z) => Err(usage!("no plane {z} along z; the image has {all}, from 0")),
            Depth::Projected(how, None) => Ok((Some(*how), 0..all)),
            Depth::Projected(how, Some(z)) if z.start < z.end && z.end <= all => Ok((Some(*how), z.clone())),
            Depth::Projected(_, Some(z)) => {
                Err(usage!("no planes {}:{} along z; the image has {all}, from 0", z.start, z.end))
            }
        }
    }

    fn time(&self, t: Option<u64>) -> Result<u64> {
        let all = self.times()?;
        match t {
            None => Ok(self.look.t.min(all.saturating_sub(1))),
            Some(t) if t < all => Ok(t),
            Some(t) => Err(usage!("no time point {t}; the image has {all}, from 0")),
        }
    }
}

/// What rendering a view takes.
#[derive(Debug, Clone)]
pub struct RenderPlan {
    /// Pixels in a row of the picture.
    pub width: u64,
    /// Rows of the picture.
    pub height: u64,
    /// The arrays that are read, and the part of each.
    pub reads: Vec<(Array, Selection)>,
}

/// A view of an image, prepared for reading pixels.
struct PreparedView<'a> {
    renderer: &'a Renderer,
    frame: PictureFrame,
    /// The level to read.
    array: &'a Array,
    kind: SampleKind,
    tones: Vec<paint::Tone>,
    how: Option<Projection>,
    /// The planes of the largest level.
    z: Range<u64>,
    t: u64,
}

impl PreparedView<'_> {
    /// The end of a band of at most `most` rows from `from` on; at a chunk border if possible.
    fn band(&self, from: usize, most: usize) -> usize {
        let (span, single) = (&self.frame.y, self.is_single());
        let end = from.saturating_add(most).min(span.count);
        if end == span.count || most == 1 {
            return end;
        }
        let first = if single { span.nearest(from) } else { span.tap(from).first };
        let last = if single { span.nearest(end) } else { span.tap(end).first };
        let chunk = ChunkExtents::of(self.array, &self.renderer.pyramid.axes).rows;
        stretch(span, from, last.saturating_sub(first).max(1), single, chunk).min(end)
    }

    fn is_single(&self) -> bool {
        self.frame.x.is_single() && self.frame.y.is_single()
    }

    async fn rows(&self, rows: Range<usize>) -> Result<Picture> {
        let renderer = self.renderer;
        let mut picture = Picture::black(num::u64_of(self.frame.x.count), num::u64_of(rows.len()))?;
        if !renderer.look.channels.is_empty() {
            self.channels(&mut picture, rows.clone()).await?;
        }
        let under = self.under(rows);
        for overlay in &renderer.overlays {
            overlay.draw(&mut picture, &under).await?;
        }
        Ok(picture)
    }

    /// What overlays need to know of these rows.
    fn under(&self, rows: Range<usize>) -> Under<'_> {
        let renderer = self.renderer;
        Under {
            image: &renderer.pyramid,
            grid: renderer.grid,
            frame: &self.frame,
            rows,
            z: self.z.clone(),
            t: self.t,
            channels: renderer.look.channels.iter().map(|c| c.index).collect(),
            memory: renderer.memory / 2,
        }
    }

    /// The channels, planes and time point of the level to read.
    fn layers(&self) -> Result<Layers<'_>> {
        let (axes, first, array) = (&self.renderer.pyramid.axes, self.renderer.pyramid.first()?, self.array);
        Ok(Layers {
            array,
            axes,
            c: PixelPick::of(self.renderer.look.channels.iter().map(|c| c.index).collect()),
            origins: self.tones.iter().map(paint::Tone::origin).collect(),
            how: self.how,
            z: scaled_range(&self.z, Axes::extent(first, axes.z), Axes::extent(array, axes.z)),
            t: scaled(self.t, Axes::extent(first, axes.t), Axes::extent(array, axes.t)),
        })
    }

    /// Renders the channels of some rows, as many at a time as fit into half of the memory budget.
    async fn channels(&self, picture: &mut Picture, rows: Range<usize>) -> Result<()> {
        let renderer = self.renderer;
        let axes = &renderer.pyramid.axes;
        let (array, kind, memory) = (self.array, &self.kind, renderer.memory / 2);
        let single = self.is_single();
        let frame = PictureFrame { y: self.frame.y.part(rows), ..self.frame.clone() };
        let layers = self.layers()?;
        let chunk = ChunkExtents::of(array, axes);
        let row_bytes = picture.row_bytes();
        // Split into columns if a row of chunks exceeds the memory budget, so that chunks are decoded once.
        let reach = if single { 1 } else { tap_end(&frame.y.tap(0)).saturating_sub(frame.y.tap(0).first) };
        let widest = layers.most(kind, chunk.rows.max(reach), memory, chunk.depth);
        let mut column = 0;
        while column < frame.x.count {
            let columns = column..stretch(&frame.x, column, widest, single, chunk.columns);
            let taps: Vec<Tap> =
                if single { Vec::new() } else { columns.clone().map(|i| frame.x.tap(i)).collect() };
            let x = positions(&frame.x, columns.clone(), single);
            let width = x.count();
            let tallest = layers.most(kind, num::u64_of(width), memory, chunk.depth);
            let mut row = 0;
            while row < frame.y.count {
                let rows = row..stretch(&frame.y, row, tallest, single, chunk.rows);
                row = rows.end;
                let raw = layers.read(positions(&frame.y, rows.clone(), single), &x, chunk.depth).await?;
                let fit = if single {
                    Fit::Single
                } else {
                    Fit::Mean {
                        y: &frame.y,
                        first_row: rows.start,
                        row_offset: frame.y.tap(rows.start).first,
                        columns: &taps,
                        column_offset: taps.first().map_or(0, |tap| tap.first),
                        width,
                    }
                };
                let band = rows.start * row_bytes..rows.end * row_bytes;
                let rgba = picture.rgba.get_mut(band).unwrap_or_default();
                paint::rows(array.context(), &raw, &self.tones, &fit, rgba, row_bytes, columns.clone());
            }
            column = columns.end;
        }
        Ok(())
    }
}

/// The pixels of the level for these pixels of the picture.
fn positions(span: &AxisSpan, pixels: Range<usize>, single: bool) -> PixelPick {
    if single {
        return PixelPick::of(pixels.map(|i| span.nearest(i)).collect());
    }
    let start = span.tap(pixels.start).first;
    let end = tap_end(&span.tap(pixels.end.saturating_sub(1)));
    PixelPick::Run(start, end.saturating_sub(start))
}

/// One past the last pixel of a tap.
fn tap_end(tap: &Tap) -> u64 {
    tap.first.saturating_add(num::u64_of(tap.weights.len()))
}

/// The end of a run of picture pixels from `from` on that needs at most `most` pixels of the level, but at least one;
/// at a chunk border if possible, so that chunks are decoded once.
fn stretch(span: &AxisSpan, from: usize, most: u64, single: bool, chunk: u64) -> usize {
    let last_of = |i: usize| if single { span.nearest(i) } else { tap_end(&span.tap(i)).saturating_sub(1) };
    let start = if single { span.nearest(from) } else { span.tap(from).first };
    // Repeated pixels take memory each.
    let end = if single {
        span.count.min(from.saturating_add(num::usize_of(most).unwrap_or(usize::MAX)))
    } else {
        span.count
    };
    let limit = start.saturating_add(most);
    if last_of(end.saturating_sub(1)) < limit && end == span.count {
        return end;
    }
    let border = limit / chunk.max(1) * chunk.max(1);
    let limit = if border > start { border } else { limit };
    // Monotonic, so bisection finds it.
    let (mut low, mut high) = (from + 1, end.max(from + 1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if last_of(middle - 1) < limit { low = middle } else { high = middle - 1 }
    }
    low
}

/// The extents of a chunk along z, y and x.
#[derive(Debug, Clone, Copy)]
struct ChunkExtents {
    depth: u64,
    rows: u64,
    columns: u64,
}

impl ChunkExtents {
    fn of(array: &Array, axes: &Axes) -> Self {
        let largest = array.meta().grid.largest();
        let side = |axis: Option<usize>| axis.and_then(|i| largest.get(i)).copied().unwrap_or(1).max(1);
        Self { depth: side(axes.z), rows: side(Some(axes.y)), columns: side(Some(axes.x)) }
    }
}

/// The part of a level to read: channels, a time point, planes.
struct Layers<'a> {
    array: &'a Array,
    axes: &'a Axes,
    c: PixelPick,
    /// The offset subtracted from the intensities of each channel.
    origins: Vec<i128>,
    how: Option<Projection>,
    z: Range<u64>,
    t: u64,
}

impl Layers<'_> {
    /// The number of planes read at a time.
    fn step(&self, depth: u64) -> u64 {
        if self.how.is_some() { depth.min(self.z.end - self.z.start).max(1) } else { 1 }
    }

    /// The number of rows (or columns) of `across` pixels that fit into memory, if chunks are that deep.
    fn most(&self, kind: &SampleKind, across: u64, memory: usize, depth: u64) -> u64 {
        let pixel = num::u64_of(kind.size())
            .saturating_mul(self.step(depth))
            // Projected planes are floats, with a count each.
            .saturating_add(if self.how.is_some() { 12 } else { 0 });
        let line = across.saturating_mul(num::u64_of(self.origins.len())).saturating_mul(pixel);
        (num::u64_of(memory) / line.max(1)).max(1)
    }

    async fn read(&self, y: PixelPick, x: &PixelPick, depth: u64) -> Result<ChannelPlanes> {
        let wanted = |z: Range<u64>| WantedPixels {
            t: self.t,
            c: self.c.clone(),
            z: PixelPick::Run(z.start, z.end - z.start),
            y: y.clone(),
            x: x.clone(),
        };
        let Some(how) = self.how else {
            let z = self.z.start..self.z.start + 1;
            return Ok(ChannelPlanes::Block(PixelBlock::read(self.array, self.axes, &wanted(z)).await?));
        };
        let mut planes: Option<Projected> = None;
        let mut z = self.z.start;
        while z < self.z.end {
            // At the borders of chunks.
            let end = (z / self.step(depth) + 1).saturating_mul(self.step(depth)).min(self.z.end);
            let block = PixelBlock::read(self.array, self.axes, &wanted(z..end)).await?;
            planes
                .get_or_insert_with(|| Projected::new(how, &self.origins, block.rows, block.width))
                .add(self.array.context(), &block);
            z = end;
        }
        let mut planes = planes.ok_or_else(|| Error::usage("no planes to render"))?;
        planes.finish();
        Ok(ChannelPlanes::Projected(planes))
    }
}

/// The requested labels.
async fn chosen_labels(zarr: &Zarr, image: &Image, choice: &LabelChoice) -> Result<Vec<LabelImage>> {
    let LabelChoice::Named(names) = choice else {
        return if *choice == LabelChoice::All { image.labels(zarr).await } else { Ok(Vec::new()) };
    };
    // Only requested labels are opened: others may be broken.
    let all = image.label_names(zarr).await?;
    let mut chosen = Vec::new();
    for name in names {
        let bare = name.trim_matches('/');
        let found = all.iter().find(|(folder, name)| name == bare || join(folder, name) == bare);
        let Some((folder, name)) = found else {
            let known: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(usage!("no labels {name:?}; the image has {known}").with_node(shown(&image.path)));
        };
        chosen.push(image.label_image(zarr, folder, name).await?);
    }
    Ok(chosen)
}
