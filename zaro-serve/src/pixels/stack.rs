//! What can be shown as a plane of pixels: an image with its levels, labels, or two dimensions of any array. And the
//! levels that are made of it: halvings of the last stored one, and zooms by powers of two.

use std::ops::Range;

use hyper::StatusCode;
use zaro::cf::Related;
use zaro::image::render::{Axes, Projection};
use zaro::image::{Found, Image, Multiscale};
use zaro::internal::text::{f64_of_u64 as real, u64_of_f64 as whole};
use zaro::meta::{ArrayMeta, DataType, NodeMeta};
use zaro::{Array, ErrorKind, Index, Selection, Zarr};

use super::cost::Cost;
use crate::answer::Fault;

/// The side of a tile.
pub(crate) const TILE: u64 = 512;

/// What a stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An image of channels.
    Image,
    /// An image of labels: its values are names, never averaged.
    Labels,
    /// Two dimensions of an array that belongs to no image.
    Field,
}

/// The levels of something that can be shown, the largest first.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) kind: Kind,
    pub(crate) arrays: Vec<Array>,
    pub(crate) axes: Axes,
    pub(crate) image: Option<(Image, Multiscale)>,
    /// What arrays beside a field say about its decoding.
    pub(crate) related: Related,
    /// The member of structs that is shown: where it is, and its type.
    pub(crate) member: Option<(usize, DataType)>,
}

/// A level, stored or made: each of its pixels covers `step` pixels of a stored level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rung {
    /// The stored level it is made of.
    pub(crate) level: usize,
    /// Pixels of that level along y and x.
    pub(crate) step: (f64, f64),
    pub(crate) height: u64,
    pub(crate) width: u64,
}

/// Rows and columns of a rung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) rows: Range<u64>,
    pub(crate) columns: Range<u64>,
}

/// Which planes: channels, a time point, one plane or a projection of several, and positions of other dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) c: Vec<u64>,
    pub(crate) t: u64,
    /// In planes of the largest level.
    pub(crate) z: Range<u64>,
    pub(crate) how: Option<Projection>,
    /// Positions along other dimensions.
    pub(crate) fixed: Vec<(usize, u64)>,
}

impl Rung {
    /// Whether its pixels are those of a stored level.
    pub(crate) fn is_stored(&self) -> bool {
        self.step == (1.0, 1.0)
    }

    /// The window of a tile; `None` if there is no such tile.
    pub(crate) fn tile(&self, row: u64, column: u64) -> Option<Window> {
        let side = |n: u64, extent: u64| {
            let start = n.checked_mul(TILE).filter(|start| *start < extent)?;
            Some(start..start.saturating_add(TILE).min(extent))
        };
        Some(Window { rows: side(row, self.height)?, columns: side(column, self.width)? })
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Window {
        Window { rows: 0..self.height, columns: 0..self.width }
    }
}

impl Window {
    pub(crate) fn height(&self) -> u64 {
        self.rows.end.saturating_sub(self.rows.start)
    }

    pub(crate) fn width(&self) -> u64 {
        self.columns.end.saturating_sub(self.columns.start)
    }

    pub(crate) fn pixels(&self) -> u64 {
        self.height().saturating_mul(self.width())
    }
}

/// 422: it exists, but there are no pixels.
pub(crate) fn no_picture(message: impl Into<String>) -> Fault {
    Fault::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}

/// An error of looking at what there is: a node that is no image is the client's mistake, not a failure.
pub(crate) fn looking(e: zaro::Error) -> Fault {
    match e.kind() {
        ErrorKind::Invalid => no_picture(Fault::from(e).message),
        _ => e.into(),
    }
}

/// An error of reading pixels. What is absent then is a failure; what cannot be asked for is not.
pub(crate) fn reading(e: zaro::Error) -> Fault {
    match e.kind() {
        ErrorKind::Usage => e.into(),
        _ => Fault::behind(&e),
    }
}

impl Stack {
    /// Opens what is at a path: an image, the only image of a collection, or an array.
    pub(crate) async fn open(
        zarr: &Zarr,
        path: &str,
        multiscale: Option<&str>,
        member: Option<&str>,
    ) -> Result<Self, Fault> {
        let mut stack = Self::found(zarr, path, multiscale).await?;
        stack.member =
            stack.arrays.first().map_or(Ok(None), |array| member_of(&array.meta().data_type, member))?;
        Ok(stack)
    }

    async fn found(zarr: &Zarr, path: &str, multiscale: Option<&str>) -> Result<Self, Fault> {
        let node = zarr.node(path).await?;
        if let NodeMeta::Array(_) = node.meta {
            return Self::field(zarr, zarr.array(path).await?).await;
        }
        let image = match zaro::image::find(zarr, path).await.map_err(looking)? {
            Found::Image(image) => *image,
            Found::Collection { .. } => zaro::image::image_at(zarr, path).await.map_err(looking)?,
            Found::Plate { .. } | Found::Well { .. } => {
                return Err(no_picture("a plate or a well has no pixels of its own; /thumb draws it"));
            }
        };
        let chosen = image.multiscale(multiscale).map_err(looking)?.clone();
        let mut arrays = Vec::new();
        for level in &chosen.levels {
            match image.array(zarr, level).await {
                Ok(array) => arrays.push(array),
                // Smaller levels may be missing.
                Err(e) if e.kind() == ErrorKind::NotFound && !arrays.is_empty() => break,
                Err(e) => return Err(looking(e)),
            }
        }
        let rank = arrays.first().map_or(0, |array| array.shape().len());
        let axes = Axes::of(&chosen.axes, rank).map_err(looking)?;
        let kind = if image.label.is_some() { Kind::Labels } else { Kind::Image };
        Ok(Self {
            kind,
            arrays,
            axes,
            image: Some((image, chosen)),
            related: Related::default(),
            member: None,
        })
    }

    async fn field(zarr: &Zarr, array: Array) -> Result<Self, Fault> {
        let rank = array.shape().len();
        if rank < 2 {
            return Err(no_picture(format!("a picture needs two dimensions, this array has {rank}")));
        }
        let (y, x) = plane(array.meta());
        let related = zaro::cf::related(zarr, &array).await.unwrap_or_default();
        let axes = Axes { t: None, c: None, z: None, y, x };
        Ok(Self { kind: Kind::Field, arrays: vec![array], axes, image: None, related, member: None })
    }

    pub(crate) fn array(&self, level: usize) -> Result<&Array, Fault> {
        self.arrays.get(level).ok_or_else(|| Fault::bad(format!("there is no level {level}")))
    }

    fn extent_of(&self, level: usize, axis: usize) -> u64 {
        self.arrays.get(level).and_then(|a| a.shape().get(axis)).copied().unwrap_or(0)
    }

    /// The length of the largest level along an axis; 1 if it has none.
    pub(crate) fn length(&self, axis: Option<usize>) -> u64 {
        axis.map_or(1, |axis| self.extent_of(0, axis))
    }

    /// Width and height of the largest level.
    pub(crate) fn extent(&self) -> (u64, u64) {
        (self.extent_of(0, self.axes.x), self.extent_of(0, self.axes.y))
    }

    fn stored(&self, level: usize) -> Rung {
        let (height, width) = (self.extent_of(level, self.axes.y), self.extent_of(level, self.axes.x));
        Rung { level, step: (1.0, 1.0), height, width }
    }

    /// A level that is made of a stored one, by factors of at least 1.
    fn made(&self, level: usize, step: (f64, f64), (width, height): (u64, u64)) -> Rung {
        Rung { level, step, height: height.max(1), width: width.max(1) }
    }

    /// All levels: the stored ones, then halvings of the last until one tile holds it.
    pub(crate) fn rungs(&self) -> Vec<Rung> {
        let mut all: Vec<Rung> = (0..self.arrays.len()).map(|level| self.stored(level)).collect();
        let Some(last) = all.last().copied() else { return all };
        let mut factor = 1u64;
        while last.height.max(last.width).div_ceil(factor) > TILE {
            factor = factor.saturating_mul(2);
            all.push(self.halved(last.level, factor));
        }
        all
    }

    /// A stored level by a whole factor.
    pub(crate) fn halved(&self, level: usize, factor: u64) -> Rung {
        let stored = self.stored(level);
        let step = real(factor.max(1));
        let factor = factor.max(1);
        self.made(level, (step, step), (stored.width.div_ceil(factor), stored.height.div_ceil(factor)))
    }

    /// The highest zoom: that of full resolution. At zoom 0 one tile holds everything, and each step doubles.
    pub(crate) fn top_zoom(&self) -> u32 {
        let (width, height) = self.extent();
        let mut zoom = 0;
        while width.max(height).div_ceil(1 << zoom) > TILE && zoom < 62 {
            zoom += 1;
        }
        zoom
    }

    /// The level of a zoom, whatever the factors of the stored ones.
    pub(crate) fn zoom(&self, zoom: u32) -> Option<Rung> {
        let by = self.top_zoom().checked_sub(zoom)?;
        Some(self.reduced(1u64.checked_shl(by)?))
    }

    /// All of it, a whole number of times smaller than the largest level, made of the smallest level that is not
    /// smaller still.
    pub(crate) fn reduced(&self, factor: u64) -> Rung {
        let (width, height) = self.extent();
        let wanted = real(factor);
        let steps = |level: usize| {
            let own = self.stored(level);
            (wanted / ratio(height, own.height), wanted / ratio(width, own.width))
        };
        let enough = |level: &usize| {
            let (y, x) = steps(*level);
            y >= 1.0 && x >= 1.0
        };
        let level = (0..self.arrays.len()).rev().find(enough).unwrap_or(0);
        self.made(level, steps(level), (width.div_ceil(factor.max(1)), height.div_ceil(factor.max(1))))
    }

    /// The part of the stored level that a window of a rung is made of.
    pub(crate) fn source(&self, rung: &Rung, window: &Window) -> Window {
        let part = |pixels: &Range<u64>, step: f64, extent: u64| {
            let start = whole((real(pixels.start) * step + 1e-9).floor()).min(extent.saturating_sub(1));
            let end =
                whole((real(pixels.end) * step - 1e-9).ceil()).clamp(start.saturating_add(1), extent.max(1));
            start..end
        };
        let (own, axes) = (self.stored(rung.level), rung.step);
        Window {
            rows: part(&window.rows, axes.0, own.height),
            columns: part(&window.columns, axes.1, own.width),
        }
    }

    /// What is read for a window of a rung: one index per dimension, none of which is dropped.
    pub(crate) fn indexes(&self, rung: &Rung, window: &Window, pick: &Pick) -> Result<Vec<Index>, Fault> {
        let part = self.source(rung, window);
        let array = self.array(rung.level)?;
        let mut indexes = vec![Index::Span(0, 1); array.shape().len()];
        let mut set = |axis: Option<usize>, index: Index| {
            if let Some(slot) = axis.and_then(|axis| indexes.get_mut(axis)) {
                *slot = index;
            }
        };
        for (axis, at) in &pick.fixed {
            set(Some(*axis), Index::Span(*at, 1));
        }
        let scaled = |n: u64, axis: Option<usize>| {
            let (all, own) = (self.length(axis), axis.map_or(1, |a| self.extent_of(rung.level, a)));
            let at = u128::from(n) * u128::from(own) / u128::from(all.max(1));
            u64::try_from(at).unwrap_or(0).min(own.saturating_sub(1))
        };
        set(self.axes.t, Index::Span(scaled(pick.t, self.axes.t), 1));
        let z = scaled(pick.z.start, self.axes.z)..scaled(pick.z.end.saturating_sub(1), self.axes.z) + 1;
        set(self.axes.z, Index::Span(z.start, z.end.saturating_sub(z.start).max(1)));
        let channels = pick.c.iter().map(|c| i64::try_from(*c).unwrap_or(i64::MAX)).collect();
        set(self.axes.c, Index::List(channels));
        set(Some(self.axes.y), Index::Span(part.rows.start, part.height()));
        set(Some(self.axes.x), Index::Span(part.columns.start, part.width()));
        Ok(indexes)
    }

    /// What a window of a rung costs.
    pub(crate) fn cost(&self, rung: &Rung, window: &Window, pick: &Pick) -> Result<Cost, Fault> {
        let indexes = self.indexes(rung, window, pick)?;
        let read = Cost::of(self.array(rung.level)?, &Selection::new(indexes)).map_err(reading)?;
        let channels = u64::try_from(pick.c.len().max(1)).unwrap_or(u64::MAX);
        Ok(read.drawing(window.pixels().saturating_mul(channels)))
    }

    /// The part of a window in pixels of the largest level that is drawn for a window of a rung, exactly: the renderer
    /// takes all pixels of a level that a region touches.
    pub(crate) fn region(&self, rung: &Rung, window: &Window) -> zaro::image::render::Region {
        let (width, height) = self.extent();
        let own = self.stored(rung.level);
        let side = |pixels: &Range<u64>, whole_side: u64, own_side: u64, step: f64, covered: u64| {
            if step == 1.0 {
                let up = |n: u64| u128::from(n) * u128::from(whole_side);
                let own_side = u128::from(own_side.max(1));
                let start = u64::try_from(up(pixels.start).div_ceil(own_side)).unwrap_or(u64::MAX);
                let end = u64::try_from(up(pixels.end) / own_side).unwrap_or(u64::MAX);
                return (start, end.saturating_sub(start).max(1));
            }
            let by = real(whole_side) / real(covered.max(1));
            let by = if (by - by.round()).abs() * real(covered) < by.max(1.0) { by.round() } else { by };
            let start = whole((real(pixels.start) * by).floor());
            let end = whole((real(pixels.end) * by).ceil()).min(whole_side);
            (start, end.saturating_sub(start).max(1))
        };
        let (x, across) = side(&window.columns, width, own.width, rung.step.1, rung.width);
        let (y, down) = side(&window.rows, height, own.height, rung.step.0, rung.height);
        zaro::image::render::Region { x, y, width: across, height: down }
    }
}

/// Where the member of this name is in a struct, and its type; members of members after a point. `None` for elements that
/// are no structs.
fn member_of(data_type: &DataType, name: Option<&str>) -> Result<Option<(usize, DataType)>, Fault> {
    let (mut at, mut own, mut rest) = (0usize, data_type.clone(), name);
    loop {
        let DataType::Struct(fields) = &own else {
            return match rest {
                None => Ok(name.map(|_| (at, own))),
                Some(name) => {
                    Err(Fault::bad(format!("member={name}: elements of type {own} have no members")))
                }
            };
        };
        let there = || fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ");
        let Some(wanted) = rest else {
            return Err(no_picture(format!(
                "elements are structs; name one of their members, member={}",
                there()
            )));
        };
        // A name may have points itself.
        let found = fields.iter().find_map(|field| {
            let behind = wanted.strip_prefix(field.name.as_str())?;
            let below = behind.strip_prefix('.');
            (behind.is_empty() || below.is_some()).then_some((field, below))
        });
        let (field, below) =
            found.ok_or_else(|| Fault::bad(format!("member={wanted}: there are {}", there())))?;
        (at, own, rest) = (at.saturating_add(field.offset), field.data_type.clone(), below);
    }
}

/// How many pixels of the largest level one of a smaller level covers: a whole number where rounding explains the rest.
fn ratio(full: u64, own: u64) -> f64 {
    let by = real(full) / real(own.max(1));
    let near = whole(by.round()).max(1);
    let explains = full.div_ceil(near) == own || full / near == own;
    if explains { real(near) } else { by }
}

/// The dimensions of a field that are its rows and columns: those named like latitude and longitude, or y and x; else
/// the last two.
fn plane(meta: &ArrayMeta) -> (usize, usize) {
    let rank = meta.shape.len();
    let named = |names: &[&str]| {
        (0..rank).find(|d| {
            meta.dimension_name(*d).is_some_and(|name| names.contains(&name.to_ascii_lowercase().as_str()))
        })
    };
    match (named(&["lat", "latitude", "y"]), named(&["lon", "longitude", "x"])) {
        (Some(y), Some(x)) => (y, x),
        _ => (rank.saturating_sub(2), rank.saturating_sub(1)),
    }
}
