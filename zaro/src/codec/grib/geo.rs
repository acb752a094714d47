//! Latitudes and longitudes of the points of a GRIB grid (section 3).
//!
//! | template | grid |
//! |---|---|
//! | 3.0 | latitudes and longitudes at equal steps |
//! | 3.1 | the same around another pole |
//! | 3.10, 3.20, 3.30, 3.140 | points at equal steps on a map: Mercator, polar stereographic, Lambert conformal, Lambert equal-area |
//!
//! The order of every sum is that of eccodes, so that the answers agree to the last bit where the machine's functions
//! of angles do. That includes what is peculiar to it: steps are added up one by one and the last point is set right;
//! points of rotated grids are rounded to a millionth of a degree, by way of single precision.

use super::bits::{i32_at, octets, u8_at, u32_at};
use super::message::GribField;
use super::project::{self, Earth, GeoMap};
use crate::codec::number;
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::Float;
use crate::num;

/// One of the two coordinates of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GeoAxis {
    Latitude,
    Longitude,
}

pub(super) const DEGREES: f64 = 57.295_779_513_082_32;
pub(super) const RADIANS: f64 = 0.017_453_292_519_943_295;

fn short() -> Error {
    Error::invalid("section 3 of the GRIB message is too short")
}

/// Flags of the order of points: 0x80 against the rows, 0x40 rows go up, 0x20 columns instead of rows, 0x10 every other
/// row backwards.
pub(super) fn scanning(field: &GribField<'_>) -> Result<u8> {
    let at = match field.grid_template()? {
        0 | 1 | 40 => 71,
        10 => 59,
        20 | 30 | 31 => 64,
        140 => 63,
        n => return Err(unknown(n)),
    };
    u8_at(field.grid, at).ok_or_else(short)
}

fn unknown(template: u16) -> Error {
    unsupported!("coordinates of GRIB grid 3.{template} are not supported")
}

/// A coordinate of all points in their order; or, of a grid of latitudes and longitudes, of one row or column, if
/// that is how many are wanted.
pub(super) fn places(field: &GribField<'_>, axis: GeoAxis, n: usize) -> Result<Vec<f64>> {
    let grid = GribGrid::parse(field)?;
    let [columns, rows] = grid.counts;
    let all = columns.checked_mul(rows).filter(|all| *all == field.points);
    let all = all.ok_or_else(|| invalid!("a grid of {columns} by {rows} is not {} points", field.points))?;
    let one = if axis == GeoAxis::Latitude { rows } else { columns };
    let on_map = !matches!(grid.template, 0 | 1);
    if n != all && (n != one || grid.template != 0) {
        return Err(invalid!("the GRIB message has {all} points where {n} were expected"));
    }
    if on_map {
        if grid.scanning & 0xf0 != 0x40 {
            return Err(unsupported!(
                "coordinates on a map in scanning mode {:#x} are not supported",
                grid.scanning
            ));
        }
        return project::places(&grid.map()?, grid.counts, axis);
    }
    if grid.scanning & 0x10 != 0 {
        return Err(Error::unsupported("coordinates in rows of changing direction are not supported"));
    }
    if n != all {
        return if axis == GeoAxis::Latitude { grid.latitudes() } else { grid.longitudes() };
    }
    let (latitudes, longitudes) = (grid.latitudes()?, grid.longitudes()?);
    let pole = if grid.template == 1 { Some(grid.pole()?) } else { None };
    let place = |latitude: f64, longitude: f64| {
        let (latitude, longitude) =
            pole.as_ref().map_or((latitude, longitude), |p| p.turn(latitude, longitude));
        if axis == GeoAxis::Latitude { latitude } else { longitude }
    };
    let mut out = Vec::with_capacity(all);
    if grid.scanning & 0x20 == 0 {
        for latitude in latitudes {
            out.extend(longitudes.iter().map(|longitude| place(latitude, *longitude)));
        }
    } else {
        for longitude in longitudes {
            out.extend(latitudes.iter().map(|latitude| place(*latitude, longitude)));
        }
    }
    Ok(out)
}

/// Section 3, of a grid that has rows and columns.
struct GribGrid<'a> {
    section: &'a [u8],
    template: u16,
    scanning: u8,
    /// Points in a row, and rows.
    counts: [usize; 2],
}

impl<'a> GribGrid<'a> {
    fn parse(field: &GribField<'a>) -> Result<Self> {
        let template = field.grid_template()?;
        if !matches!(template, 0 | 1 | 10 | 20 | 30 | 140) {
            return Err(unknown(template));
        }
        let grid = Self { section: field.grid, template, scanning: scanning(field)?, counts: [0; 2] };
        let counts = [grid.count(30)?, grid.count(34)?];
        Ok(Self { counts, ..grid })
    }

    fn count(&self, at: usize) -> Result<usize> {
        match u32_at(self.section, at).ok_or_else(short)? {
            0 | u32::MAX => Err(Error::unsupported("grids whose rows differ in length are not supported")),
            n => num::usize_of(n.into()),
        }
    }

    fn angle(&self, at: usize) -> Result<f64> {
        Ok(float(i32_at(self.section, at).ok_or_else(short)?) / 1_000_000.0)
    }

    fn length(&self, at: usize) -> Result<f64> {
        Ok(f64::from(u32_at(self.section, at).ok_or_else(short)?) / 1000.0)
    }

    /// Fails if angles are not in millionths of a degree.
    fn plain_angles(&self) -> Result<()> {
        match u32_at(self.section, 38).ok_or_else(short)? {
            0 | u32::MAX => Ok(()),
            _ => Err(Error::unsupported("a GRIB grid with its own unit of angles is not supported")),
        }
    }

    fn latitudes(&self) -> Result<Vec<f64>> {
        self.plain_angles()?;
        let (first, last) = (self.angle(46)?, self.angle(55)?);
        let up = self.scanning & 0x40 != 0;
        if if up { first > last } else { last > first } {
            return Err(Error::invalid("the latitudes of the grid contradict its scanning mode"));
        }
        let [_, rows] = self.counts;
        let step = match u32_at(self.section, 67).ok_or_else(short)? {
            u32::MAX => (first - last).abs() / intervals(rows)?,
            n => f64::from(n) / 1_000_000.0,
        };
        Ok(line(first, if up { step } else { -step }, rows, last))
    }

    fn longitudes(&self) -> Result<Vec<f64>> {
        self.plain_angles()?;
        let (mut first, last) = (self.angle(50)?, self.angle(59)?);
        let back = self.scanning & 0x80 != 0;
        let [columns, _] = self.counts;
        let (from, to) = if back { (last, first) } else { (first, last) };
        let mut step = f64::from(u32_at(self.section, 63).ok_or_else(short)?) / 1_000_000.0;
        if columns > 1 {
            // Where both ends are the same, the grid goes round the earth.
            let way = if to > from { to - from } else { to + 360.0 - from };
            step = way / intervals(columns)?;
        }
        if !back && first + (intervals(columns)? - 1.0) * step > 360.0 {
            first -= 360.0;
        }
        let last = if last > 0.0 { positive(last) } else { last };
        Ok(line(first, if back { -step } else { step }, columns, last))
    }

    fn pole(&self) -> Result<Pole> {
        let angle = octets(self.section, 80).map(f32::from_be_bytes).ok_or_else(short)?;
        Ok(Pole::new(self.angle(72)?, self.angle(76)?, angle.into()))
    }

    fn map(&self) -> Result<GeoMap> {
        let earth = Earth::parse(self.section).ok_or_else(short)??;
        if self.template == 140 {
            // eccodes has its own idea of a degree here, and it shows in the last bits.
            let unit = 0f64.acos() / 90.0;
            let standard = self.angle(46)? * unit;
            return Ok(GeoMap {
                kind: project::MapProjection::EqualArea,
                earth,
                latitude: self.angle(38)? * unit,
                longitude: self.angle(42)? * unit,
                standard,
                meridian: self.angle(50)? * unit,
                parallels: [standard; 2],
                steps: [self.length(55)?, self.length(59)?],
            });
        }
        let (latitude, longitude) = (self.angle(38)? * RADIANS, self.angle(42)? * RADIANS);
        let standard = self.angle(47)? * RADIANS;
        let (steps, meridian) = if self.template == 10 {
            let turned = f64::from(u32_at(self.section, 60).ok_or_else(short)?) / 1_000_000.0;
            ([self.length(64)?, self.length(68)?], turned)
        } else {
            ([self.length(55)?, self.length(59)?], self.angle(51)?)
        };
        let parallels = match self.template {
            30 => [self.angle(65)? * RADIANS, self.angle(69)? * RADIANS],
            _ => [standard; 2],
        };
        let kind = match self.template {
            10 => project::MapProjection::Mercator,
            20 => project::MapProjection::Stereographic,
            _ => project::MapProjection::Lambert,
        };
        Ok(GeoMap {
            kind,
            earth,
            latitude,
            longitude,
            standard,
            meridian: meridian * RADIANS,
            parallels,
            steps,
        })
    }
}

/// The number of steps between `n` points.
fn intervals(n: usize) -> Result<f64> {
    u32::try_from(n).map(|n| f64::from(n) - 1.0).map_err(|_| short())
}

/// An integer of 32 bits and a sign.
fn float(n: i64) -> f64 {
    let magnitude = u32::try_from(n.unsigned_abs()).map_or(0.0, f64::from);
    if n < 0 { -magnitude } else { magnitude }
}

/// `n` points from `first` on, the last of which is known.
fn line(first: f64, step: f64, n: usize, last: f64) -> Vec<f64> {
    let mut out: Vec<f64> = std::iter::successors(Some(first), |at| Some(at + step)).take(n).collect();
    if let Some(end) = out.last_mut() {
        *end = last;
    }
    out
}

/// A longitude in degrees, from 0 to 360.
pub(super) fn positive(mut longitude: f64) -> f64 {
    if !longitude.is_finite() || longitude.abs() > 1e6 {
        return longitude;
    }
    while longitude < 0.0 {
        longitude += 360.0;
    }
    while longitude > 360.0 {
        longitude -= 360.0;
    }
    longitude
}

/// The pole that a rotated grid has in place of the south pole.
struct Pole {
    sin_tilt: f64,
    cos_tilt: f64,
    sin_turn: f64,
    cos_turn: f64,
    angle: f64,
}

impl Pole {
    fn new(latitude: f64, longitude: f64, angle: f64) -> Self {
        let (tilt, turn) = (RADIANS * -(90.0 + latitude), RADIANS * -longitude);
        Self { sin_tilt: tilt.sin(), cos_tilt: tilt.cos(), sin_turn: turn.sin(), cos_turn: turn.cos(), angle }
    }

    /// The place on earth of a place on the rotated grid.
    fn turn(&self, latitude: f64, longitude: f64) -> (f64, f64) {
        let (latitude, longitude) = (latitude * RADIANS, longitude * RADIANS);
        let from = [longitude.cos() * latitude.cos(), longitude.sin() * latitude.cos(), latitude.sin()];
        let [x, y, z] = from;
        let (st, ct, so, co) = (self.sin_tilt, self.cos_tilt, self.sin_turn, self.cos_turn);
        let to = [ct * co * x + so * y + st * co * z, -ct * so * x + co * y - st * so * z, -st * x + ct * z];
        let [x, y, z] = to;
        let rounded = |angle: f64| number::round(Float::F32, angle * 1_000_000.0).round() / 1_000_000.0;
        (rounded(z.clamp(-1.0, 1.0).asin() * DEGREES), rounded(y.atan2(x) * DEGREES) - self.angle)
    }
}
