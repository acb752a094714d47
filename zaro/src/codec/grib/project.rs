//! Map projections of GRIB grids: from points at equal steps on a map to latitudes and longitudes.
//!
//! The projections are those of Snyder, "Map Projections: A Working Manual" (1987); the numbers in brackets are of its
//! equations.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use super::bits::{u8_at, u32_at};
use super::geo::{DEGREES, GeoAxis, positive};
use crate::error::{Error, Result, unsupported};

const NEARLY: f64 = 1e-10;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Earth {
    /// A sphere of this radius in metres.
    Sphere(f64),
    /// The greater and the lesser radius.
    Oblate(f64, f64),
}

impl Earth {
    /// From octets 15 to 30 of section 3; none if there are not as many.
    pub(super) fn parse(grid: &[u8]) -> Option<Result<Self>> {
        let scaled = |at: usize| {
            let (scale, value) = (u8_at(grid, at)?, u32_at(grid, at + 1)?);
            let down = scale & 0x80 != 0;
            let step = |x: f64| if down { x * 10.0 } else { x / 10.0 };
            Some((0..scale & 0x7f).fold(f64::from(value), |x, _| step(x)))
        };
        let earth = match u8_at(grid, 14)? {
            0 => Self::Sphere(6_367_470.0),
            1 => Self::Sphere(scaled(15)?),
            2 => Self::Oblate(6_378_160.0, 6_356_775.0),
            3 => Self::Oblate(scaled(20)? * 1000.0, scaled(25)? * 1000.0),
            // WGS 84 differs from GRS 80 by less than a millimetre, and eccodes takes them for one.
            4 | 5 => Self::Oblate(6_378_137.0, 6_356_752.314),
            6 => Self::Sphere(6_371_229.0),
            7 => Self::Oblate(scaled(20)?, scaled(25)?),
            8 => Self::Sphere(6_371_200.0),
            9 => Self::Oblate(6_377_563.396, 6_356_256.909),
            n => return Some(Err(unsupported!("shape {n} of the earth is not supported"))),
        };
        let fits = match earth {
            Self::Sphere(r) => r > 0.0,
            Self::Oblate(a, b) => b > 0.0 && a >= b,
        };
        Some(if fits { Ok(earth) } else { Err(Error::invalid("the earth of the GRIB message has no size")) })
    }

    /// The greater radius, and the eccentricity.
    fn axes(self) -> (f64, f64) {
        match self {
            Self::Sphere(radius) => (radius, 0.0),
            Self::Oblate(major, minor) => {
                let ratio = minor / major;
                (major, (1.0 - ratio * ratio).sqrt())
            }
        }
    }
}

/// A kind of map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapProjection {
    Mercator,
    Stereographic,
    Lambert,
    EqualArea,
}

/// A map, and the points on it. Angles are in radians, lengths in metres.
#[derive(Debug, Clone)]
pub(super) struct GeoMap {
    pub(super) kind: MapProjection,
    pub(super) earth: Earth,
    /// Where the first point is.
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    /// Where the steps are true.
    pub(super) standard: f64,
    /// The meridian that goes up.
    pub(super) meridian: f64,
    /// Where the cone cuts the earth.
    pub(super) parallels: [f64; 2],
    pub(super) steps: [f64; 2],
}

/// One coordinate of all points, row by row.
pub(super) fn places(map: &GeoMap, [columns, rows]: [usize; 2], axis: GeoAxis) -> Result<Vec<f64>> {
    let [dx, dy] = map.steps;
    let n = columns.saturating_mul(rows);
    let mut out = Vec::with_capacity(n);
    let pick =
        |(latitude, longitude): (f64, f64)| if axis == GeoAxis::Latitude { latitude } else { longitude };
    let index = |i: usize| u32::try_from(i).map_or(0.0, f64::from);
    match (map.kind, map.earth) {
        (MapProjection::Stereographic, Earth::Sphere(radius)) => {
            let map = Stereographic::new(map, radius);
            let mut y = 0.0;
            for _ in 0..rows {
                let mut x = 0.0;
                for _ in 0..columns {
                    out.push(pick(map.place(x, y)));
                    x += dx;
                }
                y += dy;
            }
        }
        (MapProjection::Stereographic, Earth::Oblate(..)) => {
            return Err(Error::unsupported(
                "coordinates on a polar stereographic map of an oblate earth are not supported",
            ));
        }
        (MapProjection::Lambert, Earth::Sphere(radius)) => {
            let map = RoundLambert::new(map, radius)?;
            for j in 0..rows {
                let y = map.start.1 + index(j) * dy;
                out.extend((0..columns).map(|i| pick(map.place(map.start.0 + index(i) * dx, y))));
            }
        }
        (MapProjection::Lambert, Earth::Oblate(..)) => {
            let map = OblateLambert::new(map)?;
            for j in 0..rows {
                for i in 0..columns {
                    out.push(pick(map.place(index(i) * dx, index(j) * dy)?));
                }
            }
        }
        (MapProjection::EqualArea, earth) => {
            let map = EqualArea::new(map, earth)?;
            let mut y = map.start.1;
            for _ in 0..rows {
                let mut x = map.start.0;
                for _ in 0..columns {
                    out.push(pick(map.place(x, y)?));
                    x += dx / map.unit;
                }
                y += dy / map.unit;
            }
        }
        (MapProjection::Mercator, _) => {
            let map = Mercator::new(map)?;
            for j in 0..rows {
                for i in 0..columns {
                    out.push(pick(map.place(index(i) * dx, index(j) * dy)?));
                }
            }
        }
    }
    Ok(out)
}

/// An angle from -180 to 180 degrees, in radians.
fn folded(angle: f64) -> f64 {
    if angle > PI {
        angle - 2.0 * PI
    } else if angle < -PI {
        angle + 2.0 * PI
    } else {
        angle
    }
}

/// `t` of a latitude [15-9].
fn small_t(eccentricity: f64, latitude: f64) -> f64 {
    let con = eccentricity * latitude.sin();
    let con = ((1.0 - con) / (1.0 + con)).powf(0.5 * eccentricity);
    (0.5 * (FRAC_PI_2 - latitude)).tan() / con
}

/// The latitude of a `t` [7-9], by iteration.
fn latitude_of(eccentricity: f64, t: f64) -> Result<f64> {
    let mut latitude = FRAC_PI_2 - 2.0 * t.atan();
    for _ in 0..=15 {
        let con = eccentricity * latitude.sin();
        let power = ((1.0 - con) / (1.0 + con)).powf(0.5 * eccentricity);
        let change = FRAC_PI_2 - 2.0 * (t * power).atan() - latitude;
        latitude += change;
        if change.abs() <= NEARLY {
            return Ok(latitude);
        }
    }
    Err(Error::invalid("the projection of the GRIB message gives no valid coordinates"))
}

/// A plane that touches or cuts the sphere around a pole.
struct Stereographic {
    radius: f64,
    sign: f64,
    meridian: f64,
    /// `m` and `t` of the latitude where steps are true, unless that is the pole.
    cut: Option<(f64, f64)>,
    start: (f64, f64),
}

impl Stereographic {
    fn new(map: &GeoMap, radius: f64) -> Self {
        let sign = if map.standard < 0.0 { -1.0 } else { 1.0 };
        let at_pole = (map.standard.abs() - FRAC_PI_2).abs() <= NEARLY;
        let along = sign * map.standard;
        let cut = (!at_pole).then(|| (along.cos(), (0.5 * (FRAC_PI_2 - along)).tan()));
        let angle = sign * (map.longitude - map.meridian);
        let t = (0.5 * (FRAC_PI_2 - sign * map.latitude)).tan();
        let height = match cut {
            Some((small_m, small_t)) => radius * small_m * t / small_t,
            None => 2.0 * radius * t,
        };
        let start = (-(sign * height * angle.sin()), -(-sign * height * angle.cos()));
        Self { radius, sign, meridian: map.meridian, cut, start }
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = ((x - self.start.0) * self.sign, (y - self.start.1) * self.sign);
        let distance = (x * x + y * y).sqrt();
        let t = match self.cut {
            Some((small_m, small_t)) => distance * small_t / (self.radius * small_m),
            None => distance / (self.radius * 2.0),
        };
        let latitude = self.sign * (FRAC_PI_2 - 2.0 * t.atan());
        let longitude =
            if distance == 0.0 { self.sign * self.meridian } else { self.sign * x.atan2(-y) + self.meridian };
        (latitude * DEGREES, positive(longitude * DEGREES))
    }
}

/// How quickly meridians meet on a cone, which must not be a cylinder.
fn cone(n: f64) -> Result<f64> {
    if n.is_finite() && n != 0.0 {
        Ok(n)
    } else {
        Err(Error::invalid("the Lambert projection has no valid cone"))
    }
}

/// A cone that touches or cuts a sphere.
struct RoundLambert {
    radius: f64,
    n: f64,
    f: f64,
    rho: f64,
    meridian: f64,
    start: (f64, f64),
}

impl RoundLambert {
    fn new(map: &GeoMap, radius: f64) -> Result<Self> {
        let [first, second] = map.parallels;
        let tangent = |latitude: f64| (FRAC_PI_4 + latitude / 2.0).tan();
        let n = cone(if (first - second).abs() < 1e-9 {
            first.sin()
        } else {
            (first.cos() / second.cos()).ln() / (tangent(second) / tangent(first)).ln()
        })?;
        let f = (first.cos() * tangent(first).powf(n)) / n;
        let here = radius * f * tangent(map.latitude).powf(-n);
        let rho = f * tangent(map.standard).powf(-n);
        let angle = n * folded(map.longitude - map.meridian);
        let start = (here * angle.sin(), radius * rho - here * angle.cos());
        Ok(Self { radius, n, f, rho, meridian: map.meridian, start })
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let (mut x, mut y) = (x / self.radius, self.rho - y / self.radius);
        let mut rho = x.hypot(y);
        if rho == 0.0 {
            return (if self.n > 0.0 { FRAC_PI_2 } else { -FRAC_PI_2 } * DEGREES, 0.0);
        }
        if self.n < 0.0 {
            (rho, x, y) = (-rho, -x, -y);
        }
        let latitude = 2.0 * (self.f / rho).powf(1.0 / self.n).atan() - FRAC_PI_2;
        let longitude = x.atan2(y) / self.n;
        (latitude * DEGREES, positive((longitude + self.meridian) * DEGREES))
    }
}

/// A cone that touches or cuts an oblate earth.
struct OblateLambert {
    major: f64,
    eccentricity: f64,
    n: f64,
    f: f64,
    rho: f64,
    meridian: f64,
    start: (f64, f64),
}

impl OblateLambert {
    fn new(map: &GeoMap) -> Result<Self> {
        let (major, eccentricity) = map.earth.axes();
        let [first, second] = map.parallels;
        let small_m = |latitude: f64| {
            let con = eccentricity * latitude.sin();
            latitude.cos() / (1.0 - con * con).sqrt()
        };
        let (t1, t2) = (small_t(eccentricity, first), small_t(eccentricity, second));
        let n = cone(if (first - second).abs() > NEARLY {
            (small_m(first) / small_m(second)).ln() / (t1 / t2).ln()
        } else {
            first.sin()
        })?;
        let f = small_m(first) / (n * t1.powf(n));
        let rho = major * f * small_t(eccentricity, map.standard).powf(n);
        let here = if (map.latitude.abs() - FRAC_PI_2).abs() > NEARLY {
            major * f * small_t(eccentricity, map.latitude).powf(n)
        } else if map.latitude * n > 0.0 {
            0.0
        } else {
            return Err(Error::invalid("the first point is not on the Lambert map"));
        };
        let angle = n * folded(map.longitude - map.meridian);
        let start = (-(here * angle.sin()), -(rho - here * angle.cos()));
        Ok(Self { major, eccentricity, n, f, rho, meridian: map.meridian, start })
    }

    fn place(&self, x: f64, y: f64) -> Result<(f64, f64)> {
        let (x, y) = (x - self.start.0, self.rho - y + self.start.1);
        let sign = if self.n <= 0.0 { -1.0 } else { 1.0 };
        let rho = sign * (x * x + y * y).sqrt();
        let angle = if rho == 0.0 { 0.0 } else { (sign * x).atan2(sign * y) };
        let latitude = if rho != 0.0 || self.n > 0.0 {
            let t = (rho / (self.major * self.f)).powf(1.0 / self.n);
            latitude_of(self.eccentricity, t)?
        } else {
            -FRAC_PI_2
        };
        let longitude = folded(angle / self.n + self.meridian);
        Ok((latitude * DEGREES, positive(longitude * DEGREES)))
    }
}

/// A cylinder around the earth.
struct Mercator {
    eccentricity: f64,
    /// The radius where steps are true.
    radius: f64,
    meridian: f64,
    start: (f64, f64),
}

impl Mercator {
    fn new(map: &GeoMap) -> Result<Self> {
        let (major, eccentricity) = map.earth.axes();
        let square = match map.earth {
            Earth::Sphere(_) => 0.0,
            Earth::Oblate(major, minor) => 1.0 - (minor / major) * (minor / major),
        };
        let sine = map.standard.sin();
        let radius = major * (map.standard.cos() / (1.0 - square * sine * sine).sqrt());
        if (map.latitude.abs() - FRAC_PI_2).abs() <= NEARLY || radius == 0.0 {
            return Err(Error::invalid("a Mercator map has no poles"));
        }
        let x = radius * folded(map.longitude - map.meridian);
        let y = 0.0 - radius * small_t(eccentricity, map.latitude).ln();
        Ok(Self { eccentricity, radius, meridian: map.meridian, start: (-x, -y) })
    }

    fn place(&self, x: f64, y: f64) -> Result<(f64, f64)> {
        let (x, y) = (x - self.start.0, y - self.start.1);
        let latitude = latitude_of(self.eccentricity, (-y / self.radius).exp())?;
        let longitude = folded(self.meridian + x / self.radius);
        Ok((latitude * DEGREES, positive(longitude * DEGREES)))
    }
}

/// A plane around any point, true to areas; of an oblate earth by way of the latitude of a sphere of equal area.
struct EqualArea {
    /// What a length on the map is divided by.
    unit: f64,
    radius: f64,
    meridian: f64,
    standard: f64,
    start: (f64, f64),
    sine: f64,
    cosine: f64,
    oblate: Option<Authalic>,
}

/// How latitudes of an oblate earth differ from those of the sphere [3-18].
struct Authalic {
    series: [f64; 3],
    /// The radius of the sphere, of an earth of radius 1 [3-13].
    rq: f64,
    /// The correction of scale at the centre [24-20].
    d: f64,
}

/// `q` of a latitude [3-12].
fn small_q(sine: f64, eccentricity: f64, square: f64) -> f64 {
    if eccentricity < 1e-7 {
        return sine + sine;
    }
    let con = eccentricity * sine;
    square * (sine / (1.0 - con * con) - (0.5 / eccentricity) * ((1.0 - con) / (1.0 + con)).ln())
}

impl EqualArea {
    fn new(map: &GeoMap, earth: Earth) -> Result<Self> {
        let nowhere = || Error::invalid("the first point is not on the Lambert equal-area map");
        let angle = map.longitude - map.meridian;
        let (standard, meridian) = (map.standard, map.meridian);
        match earth {
            Earth::Sphere(radius) => {
                let (sine, cosine) = (standard.sin(), standard.cos());
                let (s, c) = (map.latitude.sin(), map.latitude.cos());
                let k = radius * (2.0 / (1.0 + sine * s + cosine * c * angle.cos())).sqrt();
                let start = (k * c * angle.sin(), k * (cosine * s - sine * c * angle.cos()));
                if !k.is_finite() {
                    return Err(nowhere());
                }
                Ok(Self { unit: 1.0, radius, meridian, standard, start, sine, cosine, oblate: None })
            }
            Earth::Oblate(major, minor) => {
                let flat = (major - minor) / major;
                let es = 2.0 * flat - flat * flat;
                let (rest, e) = (1.0 - es, es.sqrt());
                let whole = small_q(1.0, e, rest);
                let rq = (0.5 * whole).sqrt();
                let centre = standard.sin();
                let sine = small_q(centre, e, rest) / whole;
                let cosine = (1.0 - sine * sine).sqrt();
                let d = if cosine == 0.0 {
                    1.0
                } else {
                    standard.cos() / ((1.0 - es * centre * centre).sqrt() * rq * cosine)
                };
                let s = small_q(map.latitude.sin(), e, rest) / whole;
                let c = (1.0 - s * s).max(0.0).sqrt();
                let b = 1.0 + sine * s + cosine * c * angle.cos();
                if b.is_nan() || b.abs() < NEARLY {
                    return Err(nowhere());
                }
                let b = (2.0 / b).sqrt();
                let x = rq * d * b * c * angle.sin();
                let y = rq / d * b * (cosine * s - sine * c * angle.cos());
                let (square, cube) = (es * es, es * es * es);
                let series = [
                    es * (1.0 / 3.0) + square * (31.0 / 180.0) + cube * (517.0 / 5040.0),
                    square * (23.0 / 360.0) + cube * (251.0 / 3780.0),
                    cube * (761.0 / 45360.0),
                ];
                let oblate = Some(Authalic { series, rq, d });
                Ok(Self { unit: major, radius: 1.0, meridian, standard, start: (x, y), sine, cosine, oblate })
            }
        }
    }

    fn place(&self, x: f64, y: f64) -> Result<(f64, f64)> {
        let beyond = || Error::invalid("a point is not on the Lambert equal-area map");
        let (sine, cosine) = (self.sine, self.cosine);
        let Some(earth) = &self.oblate else {
            let degree = 0f64.acos() / 90.0;
            let rho = (x * x + y * y).sqrt();
            if rho <= 1e-20 {
                return Ok((self.standard / degree, east(self.meridian / degree)));
            }
            let c = 2.0 * (rho / (2.0 * self.radius)).asin();
            let latitude = (c.cos() * sine + y * c.sin() * cosine / rho).asin();
            let turn = (x * c.sin()).atan2(rho * cosine * c.cos() - y * sine * c.sin());
            let place = (latitude / degree, east((self.meridian + turn) / degree));
            return if place.0.is_nan() { Err(beyond()) } else { Ok(place) };
        };
        let (x, y) = (x / earth.d, y * earth.d);
        let rho = x.hypot(y);
        let half = 0.5 * rho / earth.rq;
        if rho < NEARLY || half > 1.0 {
            return Err(beyond());
        }
        let c = 2.0 * half.asin();
        let turn = (x * c.sin()).atan2(rho * cosine * c.cos() - y * sine * c.sin());
        let beta = (c.cos() * sine + y * c.sin() * cosine / rho).asin();
        let twice = beta + beta;
        let [a, b, d] = earth.series;
        let latitude = beta + a * twice.sin() + b * (twice + twice).sin() + d * (twice + twice + twice).sin();
        if latitude.is_nan() {
            Err(beyond())
        } else {
            Ok((latitude * DEGREES, (turn + self.meridian) * DEGREES))
        }
    }
}

/// A longitude that is not negative.
fn east(longitude: f64) -> f64 {
    if longitude < 0.0 { longitude + 360.0 } else { longitude }
}
