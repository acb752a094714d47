//! Renders one picture of an image, the fields of a well, the wells of a plate, or the planes of a stack.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::boxed;
use crate::error::{Error, ErrorKind, Result, usage};
use crate::group::Zarr;
use crate::image::find::{Found, Image, find, image_at};
use crate::image::model::{Plate, Well};
use crate::image::render::picture::{Picture, Rows, sides};
use crate::image::render::settings::{Depth, Settings, Size, View};
use crate::image::render::{Look, PreparedView, RenderPlan, Renderer};
use crate::meta::path::{join, shown};
use crate::num;

/// The default longer side of a plate or a sheet.
const SHEET: u32 = 2048;

/// Wells or fields rendered concurrently.
const AT_ONCE: usize = 8;
/// The number of images of a plate from which windows are guessed.
const GUESSED_FROM: usize = 24;

/// A rendering request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The rendering settings.
    pub settings: Settings,
    /// The part; for a plate, well or sheet, the size is that of the whole picture, and the level that of each image.
    pub view: View,
    /// The image of a collection: its number, from 0, or its path.
    pub image: Option<String>,
    /// The plate acquisition.
    pub acquisition: Option<i64>,
    /// The field of each well, from 0.
    pub field: Option<usize>,
    /// Render the planes of a stack side by side.
    pub sheet: Option<Sheet>,
    /// Pixels between the pictures of a plate, a well or a sheet.
    pub gap: u32,
    /// Asked before each image of a plate or a well is read.
    pub admit: Option<Admit>,
}

/// Decides by what an image takes whether it is read: the images of a plate need not be alike.
#[derive(Clone)]
#[allow(clippy::type_complexity, reason = "one function, named by the struct")]
pub struct Admit(pub Arc<dyn Fn(&RenderPlan) -> Result<()> + Send + Sync>);

impl fmt::Debug for Admit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admit")
    }
}

/// The planes to render side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// The range along z; default: all.
    pub z: Option<Range<u64>>,
    /// Only every nth.
    pub step: u64,
}

/// The result of rendering a picture.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The look of its images.
    pub look: Look,
    /// Notes on what was left out or is otherwise notable.
    pub notes: Vec<String>,
}

/// Renders the object at `path`, and passes the rows to `out`, as many at a time as the memory budget allows.
#[boxed]
pub async fn render_to(zarr: &Zarr, path: &str, request: &Request, out: &mut dyn Rows) -> Result<Drawn> {
    let path = zarr.key_of(path)?;
    let found = match &request.image {
        None => find(zarr, &path).await?,
        Some(name) => named_image(zarr, &path, name).await?,
    };
    match found {
        Found::Image(image) => one(zarr, &image, request, out).await,
        Found::Plate { path, plate, .. } => plate_picture(zarr, &path, &plate, request, out).await,
        Found::Well { path, well, .. } => well_picture(zarr, &path, &well, request, out).await,
        Found::Collection { images, path, .. } => match images.as_slice() {
            [] => Err(Error::not_found("the collection has no images").with_node(shown(&path))),
            [only] => one(zarr, &image_at(zarr, only).await?, request, out).await,
            several => Err(usage!("this has several images: {}", choices(&path, several))
                .with_hint("image", "selects one")
                .with_node(shown(&path))),
        },
    }
}

/// The images of a collection with their numbers.
fn choices(path: &str, images: &[String]) -> String {
    let below = |image: &String| {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        image.strip_prefix(&prefix).unwrap_or(image).to_owned()
    };
    let mut all: Vec<String> =
        images.iter().take(20).enumerate().map(|(i, image)| format!("{i} ({})", below(image))).collect();
    if images.len() > 20 {
        all.push(format!("... {} in total", images.len()));
    }
    all.join(", ")
}

/// The image `name` of the object at `path`.
async fn named_image(zarr: &Zarr, path: &str, name: &str) -> Result<Found> {
    let inside = join(path, name.trim_matches('/'));
    match find(zarr, path).await {
        Ok(Found::Collection { images, path, .. }) => {
            let numbered = name.parse::<usize>().ok().and_then(|i| images.get(i));
            let named = images.iter().find(|image| **image == inside);
            // Series of a layout are named 0, 1, 2: a name takes precedence over a number.
            match named.or(numbered) {
                Some(image) => find(zarr, image).await,
                None => Err(usage!("no image {name:?}; the images are {}", choices(&path, &images))
                    .with_node(shown(&path))),
            }
        }
        Ok(_) => find(zarr, &inside).await,
        Err(e) => Err(e),
    }
}

/// Rejects options that apply only to single images.
fn whole_only(request: &Request, what: &str) -> Result<()> {
    if request.view.region.is_some() {
        return Err(usage!("a part of {what} cannot be rendered; give the path of an image in it"));
    }
    if request.sheet.is_some() {
        return Err(usage!("a sheet shows one image, not {what}; give the path of an image in it"));
    }
    Ok(())
}

async fn one(zarr: &Zarr, image: &Image, request: &Request, out: &mut dyn Rows) -> Result<Drawn> {
    if request.acquisition.is_some() || request.field.is_some() {
        return Err(
            Error::usage("only plates and wells have acquisitions and fields").with_node(shown(&image.path))
        );
    }
    let renderer = Renderer::open(zarr, image, &request.settings).await?;
    match &request.sheet {
        None => renderer.draw_to(&request.view, out).await?,
        Some(sheet) => sheet_picture(&renderer, sheet, request, out).await?,
    }
    let mut notes = Vec::new();
    if renderer.look().channels.is_empty() && image.label.is_none() {
        notes.push("no channel is active: the picture is black".to_owned());
    }
    Ok(Drawn { look: renderer.look().clone(), notes })
}

/// Pictures of equal size in rows and columns.
struct ContactSheet {
    width: u32,
    rows: usize,
    cell: (u32, u32),
    gap: u32,
    memory: usize,
}

impl ContactSheet {
    /// Computes the size of the whole picture, and begins it.
    fn begin(
        rows: usize,
        columns: usize,
        cell: (u32, u32),
        request: &Request,
        out: &mut dyn Rows,
    ) -> Result<Self> {
        let side = |n: usize, cell: u32| {
            let n = num::u64_of(n);
            n.saturating_mul(u64::from(cell))
                .saturating_add(n.saturating_sub(1).saturating_mul(u64::from(request.gap)))
        };
        let (width, height) = sides(side(columns, cell.0), side(rows, cell.1))?;
        out.begin(width, height)?;
        Ok(Self { width, rows, cell, gap: request.gap, memory: request.settings.memory })
    }

    /// The view of each picture.
    fn view(&self, view: View) -> View {
        View { size: Some(Size::Exactly(self.cell.0, self.cell.1)), ..view }
    }

    /// Renders the pictures of a row, each in its column, as many of their rows at a time as the memory budget allows.
    async fn put_row(
        &self,
        number: usize,
        cells: &[(usize, PreparedView<'_>)],
        out: &mut dyn Rows,
    ) -> Result<()> {
        let bytes = num::usize_of(u64::from(self.width) * 4)?;
        let height = num::usize_of(u64::from(self.cell.1))?;
        let step = num::usize_of(u64::from(self.cell.0).saturating_add(u64::from(self.gap)))?;
        let most = (self.memory / 2 / bytes.max(1)).max(1);
        let mut row = 0;
        while row < height {
            let rows = row..row.saturating_add(most).min(height);
            let mut band = Picture::black(self.width.into(), num::u64_of(rows.len()))?;
            let mut parts: Vec<BoxFuture<'_, Result<(usize, Picture)>>> = Vec::new();
            for (column, drawing) in cells {
                let rows = rows.clone();
                parts.push(async move { Ok((*column, drawing.rows(rows).await?)) }.boxed());
            }
            let mut parts = stream::iter(parts).buffered(AT_ONCE);
            while let Some((column, part)) = parts.try_next().await? {
                band.put(&part, column.saturating_mul(step), 0);
            }
            drop(parts);
            out.put(&band.rgba)?;
            row = rows.end;
        }
        if self.gap > 0 && number.saturating_add(1) < self.rows {
            let between = Picture::black(self.width.into(), 1)?;
            for _ in 0..self.gap {
                out.put(&between.rgba)?;
            }
        }
        Ok(())
    }
}

/// The size of each picture of a table. By default it is `own`, with the longer side of the table limited to `most`.
fn cell(
    own: (u32, u32),
    rows: usize,
    columns: usize,
    request: &Request,
    most: Option<u32>,
) -> Result<(u32, u32)> {
    let lines =
        |n: usize| u32::try_from(n.max(1)).map_err(|_| Error::usage("too many images for one picture"));
    let (rows, columns) = (lines(rows)?, lines(columns)?);
    let inner = |side: u32, n: u32| {
        let gaps = request.gap.saturating_mul(n - 1);
        (side.saturating_sub(gaps) / n).max(1)
    };
    let fit = |longest: u32| {
        // The largest that fits both ways.
        let across = f64::from(inner(longest, columns)) / f64::from(own.0.max(1));
        let down = f64::from(inner(longest, rows)) / f64::from(own.1.max(1));
        let by = across.min(down);
        let side = |n: u32| {
            let scaled = crate::num::u64_of_f64(f64::from(n) * by + 1e-6);
            u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
        };
        (side(own.0), side(own.1))
    };
    Ok(match request.view.size {
        Some(Size::Longest(longest)) => fit(longest),
        Some(Size::Exactly(width, height)) => (inner(width, columns), inner(height, rows)),
        None => match most {
            Some(most) => {
                let fitted = fit(most);
                if fitted.0 < own.0 { fitted } else { own }
            }
            None => own,
        },
    })
}

fn square(n: usize) -> (usize, usize) {
    let mut columns = 1usize;
    while columns.saturating_mul(columns) < n {
        columns += 1;
    }
    (n.div_ceil(columns), columns)
}

fn side(n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::usage("the image is too large for one picture"))
}

/// Renders the planes of a stack in an approximately square table.
async fn sheet_picture(
    renderer: &Renderer,
    sheet: &Sheet,
    request: &Request,
    out: &mut dyn Rows,
) -> Result<()> {
    if request.view.depth != Depth::Default {
        return Err(Error::usage(
            "a sheet shows all planes; it cannot be combined with a single plane or a projection",
        ));
    }
    let all = renderer.depth()?;
    let range = sheet.z.clone().unwrap_or(0..all);
    if range.start >= range.end || range.end > all || sheet.step == 0 {
        return Err(usage!("no planes {}:{} along z; the image has {all}, from 0", range.start, range.end));
    }
    let planes: Vec<u64> = range.step_by(num::usize_of(sheet.step)?).collect();
    let (rows, columns) = square(planes.len());
    let probe = View { size: None, depth: Depth::Default, ..request.view.clone() };
    let frame = super::PictureFrame::new(&renderer.levels(), probe.region, None, probe.level)?;
    let own = (side(num::u64_of(frame.x.count))?, side(num::u64_of(frame.y.count))?);
    let most = if request.view.level.is_some() { None } else { Some(SHEET) };
    let cell = cell(own, rows, columns, request, most)?;
    let table = ContactSheet::begin(rows, columns, cell, request, out)?;
    for (row, planes) in planes.chunks(columns).enumerate() {
        let drawing =
            |z: &u64| renderer.begin(&table.view(View { depth: Depth::Plane(*z), ..probe.clone() }));
        let cells = planes.iter().map(drawing).enumerate().map(|(column, d)| Ok((column, d?)));
        table.put_row(row, &cells.collect::<Result<Vec<_>>>()?, out).await?;
    }
    Ok(())
}

/// The requested fields of a well, by path.
fn fields(path: &str, well: &Well, request: &Request) -> Result<Vec<String>> {
    let of_run = |run: Option<i64>| request.acquisition.is_none_or(|asked| run == Some(asked));
    let all: Vec<String> = well
        .fields
        .iter()
        .filter(|f| of_run(f.acquisition))
        .map(|f| join(path, f.path.trim_matches('/')))
        .collect();
    match request.field {
        None => Ok(all),
        Some(n) => match all.get(n) {
            Some(field) => Ok(vec![field.clone()]),
            None => Err(usage!("no field {n}; the well has {}, from 0", all.len()).with_node(shown(path))),
        },
    }
}

async fn well_picture(
    zarr: &Zarr,
    path: &str,
    well: &Well,
    request: &Request,
    out: &mut dyn Rows,
) -> Result<Drawn> {
    whole_only(request, "a well")?;
    let fields = fields(path, well, request)?;
    if fields.is_empty() {
        return Err(Error::not_found("the well has no such fields").with_node(shown(path)));
    }
    let (rows, columns) = square(fields.len());
    let cells = fields.into_iter().enumerate().map(|(i, field)| (field, i / columns, i % columns)).collect();
    table(zarr, cells, (rows, columns), request, &Default { level: 0, most: None }, out).await
}

async fn plate_picture(
    zarr: &Zarr,
    path: &str,
    plate: &Plate,
    request: &Request,
    out: &mut dyn Rows,
) -> Result<Drawn> {
    whole_only(request, "a plate")?;
    if let Some(run) = request.acquisition
        && !plate.acquisitions.iter().any(|a| a.id == run)
        && !plate.acquisitions.is_empty()
    {
        let known: Vec<String> = plate.acquisitions.iter().map(|a| a.id.to_string()).collect();
        let message = format!("no acquisition {run}; the plate has {}", known.join(", "));
        return Err(Error::usage(message).with_node(shown(path)));
    }
    let mut cells = Vec::new();
    let mut missing = Vec::new();
    let wells = plate.wells.clone().into_iter().map(|place| async move {
        let at = join(path, place.path.trim_matches('/'));
        (place, find(zarr, &at).await, at)
    });
    let mut wells = stream::iter(wells).buffered(AT_ONCE);
    while let Some((place, found, at)) = wells.next().await {
        match found {
            Ok(Found::Well { path, well, .. }) => {
                let all = fields(&path, &well, &Request { field: None, ..request.clone() })?;
                // Wells need not have as many fields as the first.
                if let Some(field) = all.get(request.field.unwrap_or(0)) {
                    cells.push((field.clone(), place.row, place.column));
                }
            }
            Ok(_) => {
                return Err(
                    Error::invalid("the plate lists this as a well, but it is not one").with_node(shown(&at))
                );
            }
            Err(e) if e.kind() == ErrorKind::NotFound => missing.push(place.path),
            Err(e) => return Err(e),
        }
    }
    drop(wells);
    if cells.is_empty() {
        return Err(Error::not_found("the plate has no such fields").with_node(shown(path)));
    }
    let lines = |declared: usize, used: Option<usize>| declared.max(used.map_or(0, |n| n + 1));
    let rows = lines(plate.rows.len(), cells.iter().map(|c| c.1).max());
    let columns = lines(plate.columns.len(), cells.iter().map(|c| c.2).max());
    let standard = Default { level: usize::MAX, most: Some(2 * SHEET) };
    let mut drawn = table(zarr, cells, (rows, columns), request, &standard, out).await?;
    drawn
        .notes
        .extend(missing.iter().map(|well| format!("the well {well} does not exist and is left black")));
    Ok(drawn)
}

/// The defaults of a table: the level of its images, and the longer side.
struct Default {
    level: usize,
    most: Option<u32>,
}

/// Renders images in rows and columns, all with the look of the first.
async fn table(
    zarr: &Zarr,
    cells: Vec<(String, usize, usize)>,
    (rows, columns): (usize, usize),
    request: &Request,
    standard: &Default,
    out: &mut dyn Rows,
) -> Result<Drawn> {
    let mut notes = Vec::new();
    let mut images = Vec::new();
    let opened = cells
        .into_iter()
        .map(|(path, row, column)| async move { (image_at(zarr, &path).await, path, row, column) });
    let mut opened = stream::iter(opened).buffered(AT_ONCE);
    while let Some((image, path, row, column)) = opened.next().await {
        match image {
            Ok(image) => images.push((image, row, column)),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                notes.push(format!("the field {path} does not exist and is left black"));
            }
            Err(e) => return Err(e),
        }
    }
    drop(opened);
    let Some((first, ..)) = images.first() else {
        return Err(Error::not_found("none of the images exists"));
    };
    let renderer = Renderer::open(zarr, first, &request.settings).await?;
    let mut look = renderer.look().clone();
    if look.is_guessed() {
        // One image is not enough to guess windows: others may be brighter.
        for (image, ..) in images.iter().step_by(images.len().div_ceil(GUESSED_FROM)).skip(1) {
            look.widen(Renderer::open(zarr, image, &request.settings).await?.look());
        }
    }
    let levels = renderer.levels();
    if let Some(level) = request.view.level.filter(|l| *l >= levels.len()) {
        let message = format!("no level {level}; the images have {}, from 0", levels.len());
        return Err(Error::usage(message).with_node(shown(&first.path)));
    }
    let level = request.view.level.unwrap_or(standard.level).min(levels.len().saturating_sub(1));
    let (width, height) = levels.get(level).copied().unwrap_or((1, 1));
    let most = if request.view.level.is_some() { None } else { standard.most };
    let cell = cell((side(width)?, side(height)?), rows, columns, request, most)?;
    let table = ContactSheet::begin(rows, columns, cell, request, out)?;
    let look = &look;
    // Several are rendered concurrently and share the memory budget.
    let memory = request.settings.memory / columns.clamp(1, AT_ONCE);
    let settings = &Settings { memory, ..request.settings.clone() };
    // Row by row from the top; of two in one place, the last wins.
    images.sort_by_key(|(_, row, _)| *row);
    let mut images = images.as_slice();
    for row in 0..rows {
        let (here, later) = images.split_at(images.iter().take_while(|(_, r, _)| *r == row).count());
        images = later;
        let mut opened: Vec<BoxFuture<'_, Result<(usize, Renderer)>>> = Vec::new();
        for (image, _, column) in here {
            let renderer = Renderer::open_as(zarr, image, settings, Some(look));
            opened.push(async move { Ok((*column, renderer.await?)) }.boxed());
        }
        let renderers: Vec<(usize, Renderer)> = stream::iter(opened).buffered(AT_ONCE).try_collect().await?;
        let mut drawings = Vec::new();
        for (column, renderer) in &renderers {
            let last = renderer.levels().len().saturating_sub(1);
            let level = request.view.level.map(|l| l.min(last));
            let view = table.view(View { level, ..request.view.clone() });
            if let Some(Admit(admit)) = &request.admit {
                admit(&renderer.plan(&view)?)?;
            }
            drawings.push((*column, renderer.begin(&view)?));
        }
        table.put_row(row, &drawings, out).await?;
    }
    Ok(Drawn { look: look.clone(), notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers hand requests from thread to thread.
    #[allow(dead_code, reason = "it is enough that it compiles")]
    fn requests_can_be_sent(zarr: &Zarr, request: &Request, picture: &mut Picture) {
        fn sent<T: Send>(_: T) {}
        sent(render_to(zarr, "", request, picture));
    }

    #[test]
    fn tables_are_about_square() {
        assert_eq!(
            [1, 2, 3, 4, 5, 9, 10].map(square),
            [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, 3), (3, 4)]
        );
    }

    #[test]
    fn cells_share_the_size_that_is_asked_for() {
        let sized = |size: Option<Size>, gap: u32| Request {
            view: View { size, ..View::default() },
            gap,
            ..Request::default()
        };
        assert_eq!(cell((100, 50), 2, 3, &sized(None, 0), None).unwrap(), (100, 50));
        assert_eq!(cell((100, 50), 2, 3, &sized(None, 0), Some(150)).unwrap(), (50, 25));
        assert_eq!(cell((100, 50), 2, 3, &sized(Some(Size::Longest(600)), 0), None).unwrap(), (200, 100));
        assert_eq!(cell((100, 50), 2, 3, &sized(Some(Size::Longest(604)), 2), None).unwrap(), (200, 100));
        assert_eq!(cell((10, 10), 1, 2, &sized(Some(Size::Exactly(7, 5)), 0), None).unwrap(), (3, 5));
    }
}
