//! The values of a coordinate in memory: one number, time or text per position of a dimension.

use std::borrow::Cow;

use super::order::{Direction, direction};
use crate::array::windows::ArrayView;
use crate::array::{Array, Order, ReadOptions, Slab};
use crate::cf::{Cf, Interval, Lost, Reading, related};
use crate::error::{Error, Result};
use crate::format::calendar::{self, Calendar, EPOCH};
use crate::format::value::{self, Style};
use crate::group::Zarr;
use crate::meta::dtype::{DataType, Float, TimeUnit};
use crate::meta::float;
use crate::meta::path::shown;
use crate::num;

/// A missing time or integer.
pub(super) const MISSING: i128 = i128::MIN;

/// Integers up to this are exact as floats.
const EXACT: u128 = 1 << 53;

const DAY: i128 = 86_400_000_000_000;

/// The kind of values of a coordinate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CoordinateKind {
    /// Floating-point numbers.
    Floats {
        /// Their float format; labels are rounded to it.
        format: Float,
        /// Whether they were scaled, so that their last digits are rounding errors.
        scaled: bool,
    },
    /// Booleans, as 1 and 0.
    Truths,
    /// Integers that are not exact as floats.
    Integers,
    /// Times, in nanoseconds from day 0 of the calendar.
    Moments(Calendar),
    /// Durations, in nanoseconds.
    Spans,
    /// Texts.
    Texts,
}

#[derive(Debug, Clone)]
pub(super) enum AxisValues {
    Floats(Vec<f64>),
    Wholes(Vec<i128>),
    Texts(Vec<String>),
}

/// The values of the coordinate of one dimension.
#[derive(Debug, Clone)]
pub struct CoordinateAxis {
    pub(super) name: String,
    pub(super) kind: CoordinateKind,
    pub(super) values: AxisValues,
    pub(super) direction: Direction,
    /// Why these are numbers though their units declare times.
    pub(super) undecoded: Option<String>,
}

impl CoordinateAxis {
    /// Reads the coordinate `array` of the dimension `name`, window by window, within the memory budget of `zarr`.
    pub(super) async fn read(zarr: &Zarr, array: &Array, name: &str) -> Result<Self> {
        let reading = decoded(zarr, array).await?;
        let n = reading.view().count()?;
        let memory = zarr.options().store.context.memory().max(1 << 20);
        if num::usize_of(n)?.saturating_mul(16) > memory {
            return Err(Error::usage(format!(
                "the coordinate {name:?} has {n} values, which exceed the memory budget; select by index"
            ))
            .with_hint("memory", "gives more"));
        }
        let mut values = AxisBuilder::new(&reading);
        let options = ReadOptions::default();
        for window in reading.windows(memory / 4, Order::C).await? {
            let slab = reading.read_packed(&window, &options, &mut Lost::default()).await?;
            values.add(&slab)?;
        }
        Ok(values.finish(name))
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.values {
            AxisValues::Floats(v) => v.len(),
            AxisValues::Wholes(v) => v.len(),
            AxisValues::Texts(v) => v.len(),
        }
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at position `i` as text: a date in ISO 8601, a number with the digits it needs.
    #[must_use]
    pub fn text(&self, i: usize) -> Cow<'_, str> {
        match &self.values {
            AxisValues::Texts(v) => v.get(i).map(String::as_str).unwrap_or_default().into(),
            AxisValues::Floats(v) => self.text_of(v.get(i).copied().unwrap_or(f64::NAN)).into(),
            AxisValues::Wholes(v) => self.text_of_whole(v.get(i).copied().unwrap_or(MISSING)).into(),
        }
    }

    /// A number as text, in the format of the coordinate.
    pub(super) fn text_of(&self, x: f64) -> String {
        match self.kind {
            CoordinateKind::Truths => if x == 0.0 { "false" } else { "true" }.into(),
            CoordinateKind::Floats { format: format @ (Float::F16 | Float::F32), .. } => {
                let bits = float::from_f64(format, x).to_le_bytes();
                let bytes = bits.get(..format.size()).unwrap_or_default();
                value::text_of(&DataType::Float(format), bytes, Style::TEXT)
            }
            _ if x.fract() == 0.0 && x.abs() < 1e15 => format!("{x:.0}"),
            // Unpacked numbers: only the significant digits.
            CoordinateKind::Floats { scaled: true, .. } => {
                let short = format!("{x:.12e}").parse::<f64>().unwrap_or(x);
                format!("{short}")
            }
            _ => format!("{x}"),
        }
    }

    pub(super) fn text_of_whole(&self, n: i128) -> String {
        match self.kind {
            _ if n == MISSING => "NaT".into(),
            CoordinateKind::Moments(calendar) => {
                let text = calendar::moment_text(calendar, n, 9, true);
                text.strip_suffix("T00:00:00").map_or_else(|| text.clone(), str::to_owned)
            }
            CoordinateKind::Spans => match i64::try_from(n) {
                Ok(n) => calendar::timedelta64(n, TimeUnit::Nanosecond, 1).unwrap_or_default(),
                Err(_) => n.to_string(),
            },
            _ => n.to_string(),
        }
    }

    /// Describes the values for messages: how many, the first, the last, and whether they are unordered.
    pub(super) fn extent(&self) -> String {
        match self.len() {
            0 => "it has no values".into(),
            1 => format!("its only value is {}", self.text(0)),
            n if self.direction == Direction::None => {
                format!("its {n} values from {} to {} are not sorted", self.text(0), self.text(n - 1))
            }
            n => format!("its {n} values range from {} to {}", self.text(0), self.text(n - 1)),
        }
    }

    /// The step between values if it is constant; up to rounding, if they are floats.
    pub(super) fn step(&self) -> Option<String> {
        let n = self.len();
        if n < 2 || self.kind == CoordinateKind::Truths {
            return None;
        }
        match &self.values {
            AxisValues::Floats(v) => {
                let (first, last) = (v.first()?, v.last()?);
                let step = (last - first) / num::f64_of_usize(n - 1);
                let slack = match self.kind {
                    CoordinateKind::Floats { format: Float::F64, .. } => 1e-9,
                    _ => 1e-5,
                };
                let slack = slack * first.abs().max(last.abs()).max(step.abs());
                let even = v.windows(2).all(|w| matches!(w, [a, b] if (b - a - step).abs() <= slack));
                (even && step.is_finite() && step != 0.0).then(|| {
                    let short = format!("{step:.6e}").parse::<f64>().unwrap_or(step);
                    format!("{short}")
                })
            }
            AxisValues::Wholes(v) => {
                let step = match v.as_slice() {
                    [a, b, ..] if !v.contains(&MISSING) => b - a,
                    _ => return None,
                };
                let even = v.windows(2).all(|w| matches!(w, [a, b] if b - a == step));
                (even && step != 0).then(|| match self.kind {
                    CoordinateKind::Moments(_) | CoordinateKind::Spans => span_text(step),
                    _ => step.to_string(),
                })
            }
            AxisValues::Texts(_) => None,
        }
    }

    /// The coarsest unit of which all times are whole multiples.
    pub(super) fn unit(&self) -> i128 {
        match &self.values {
            AxisValues::Wholes(v) => Interval::unit_of(v.iter().copied().filter(|n| *n != MISSING)),
            _ => 1,
        }
    }

    /// Whether some are times other than midnight.
    pub(super) fn has_time_of_day(&self) -> bool {
        matches!(self.kind, CoordinateKind::Moments(_)) && self.unit() < DAY
    }

    /// Whether xarray would use cftime for these times: dates of a model calendar.
    pub(super) fn is_of_model(&self) -> bool {
        const GREGORIAN: (i128, u32, u32) = (1582, 10, 15);
        let (CoordinateKind::Moments(calendar), AxisValues::Wholes(v)) = (self.kind, &self.values) else {
            return false;
        };
        let (year, month, day) = GREGORIAN;
        let first = calendar.day_of(year, month, day).map_or(MISSING, |day| day * DAY);
        match calendar {
            Calendar::ProlepticGregorian => false,
            Calendar::Standard => v.iter().any(|n| *n != MISSING && *n < first),
            _ => true,
        }
    }
}

/// A duration in the largest unit of which it is a whole multiple: `6 h`, `1 day`.
fn span_text(nanos: i128) -> String {
    const UNITS: [(i128, &str); 7] = [
        (DAY, "d"),
        (DAY / 24, "h"),
        (DAY / 1440, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let (unit, name) = UNITS.iter().find(|(unit, _)| nanos % unit == 0).unwrap_or(&(1, "ns"));
    format!("{} {name}", nanos / unit)
}

/// A coordinate, decoded by its attributes.
///
/// # Errors
/// If it does not have exactly one dimension.
pub(super) async fn decoded(zarr: &Zarr, array: &Array) -> Result<Reading> {
    let view = ArrayView::new(&[], array.meta())?;
    let beside = related(zarr, array).await.unwrap_or_default();
    let reading = Reading::decoded(array, view, &beside, &mut |_| {});
    match reading.view().shape().len() {
        1 => Ok(reading),
        n => Err(Error::usage(format!(
            "the coordinate has {n} dimensions; only one-dimensional coordinates can be looked up"
        ))
        .with_node(shown(array.path()))
        .with_hint("isel", "selects by index")),
    }
}

/// Builds an [`CoordinateAxis`], slab by slab.
pub(super) struct AxisBuilder<'a> {
    cf: Option<&'a Cf>,
    data_type: DataType,
    kind: CoordinateKind,
    values: AxisValues,
    undecoded: Option<String>,
}

impl<'a> AxisBuilder<'a> {
    pub(super) fn new(reading: &'a Reading) -> Self {
        let (cf, data_type) = (reading.cf(), reading.data_type());
        let floats = |format| CoordinateKind::Floats { format, scaled: cf.is_some_and(Cf::is_scaled) };
        let kind = match &data_type {
            _ if cf.is_some_and(Cf::is_span) => CoordinateKind::Spans,
            _ if cf.and_then(Cf::calendar).is_some() => {
                CoordinateKind::Moments(cf.and_then(Cf::calendar).unwrap_or(Calendar::Standard))
            }
            DataType::DateTime(..) => CoordinateKind::Moments(Calendar::ProlepticGregorian),
            DataType::TimeDelta(..) => CoordinateKind::Spans,
            DataType::Int(64) | DataType::UInt(64) => CoordinateKind::Integers,
            DataType::Bool => CoordinateKind::Truths,
            DataType::Int(_) | DataType::UInt(_) => floats(Float::F64),
            DataType::Float(f) => floats(*f),
            _ => CoordinateKind::Texts,
        };
        let values = match kind {
            CoordinateKind::Floats { .. } | CoordinateKind::Truths => AxisValues::Floats(Vec::new()),
            CoordinateKind::Texts => AxisValues::Texts(Vec::new()),
            _ => AxisValues::Wholes(Vec::new()),
        };
        Self { cf, data_type, kind, values, undecoded: reading.undecoded().map(str::to_owned) }
    }

    /// Adds elements as stored.
    pub(super) fn add(&mut self, slab: &Slab) -> Result<()> {
        let times = matches!(self.kind, CoordinateKind::Moments(_) | CoordinateKind::Spans);
        match (&mut self.values, self.cf) {
            (AxisValues::Wholes(v), Some(cf))
                if times && !matches!(slab.data_type, DataType::DateTime(..)) =>
            {
                v.extend(slab.items().map(|item| cf.nanoseconds(item).unwrap_or(MISSING)));
            }
            (AxisValues::Wholes(v), _) if times => {
                v.extend(slab.items().map(|item| native(&slab.data_type, item).unwrap_or(MISSING)));
            }
            (values, cf) => {
                let made = cf.map(|cf| cf.apply(slab, &mut Lost::default())).transpose()?;
                let slab = made.as_ref().unwrap_or(slab);
                match values {
                    AxisValues::Floats(v) => v.extend(
                        slab.items().map(|item| value::number(&slab.data_type, item).unwrap_or(f64::NAN)),
                    ),
                    AxisValues::Wholes(v) => v.extend(slab.items().map(|item| match slab.data_type {
                        DataType::UInt(_) => value::unsigned(item).map_or(MISSING, i128::from),
                        _ => value::signed(item).map_or(MISSING, i128::from),
                    })),
                    AxisValues::Texts(v) => {
                        v.extend(slab.items().map(|item| value::text_of(&self.data_type, item, Style::TEXT)));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, name: &str) -> CoordinateAxis {
        let Self { mut kind, mut values, undecoded, .. } = self;
        if let (CoordinateKind::Integers, AxisValues::Wholes(v)) = (kind, &values)
            && v.iter().all(|n| n.unsigned_abs() <= EXACT)
        {
            values = AxisValues::Floats(v.iter().map(|n| num::f64_of_i128(*n)).collect());
            kind = CoordinateKind::Floats { format: Float::F64, scaled: false };
        }
        let direction = match &values {
            AxisValues::Floats(v) => direction(v),
            AxisValues::Wholes(v) if v.contains(&MISSING) => Direction::None,
            AxisValues::Wholes(v) => direction(v),
            AxisValues::Texts(v) => direction(v),
        };
        CoordinateAxis { name: name.to_owned(), kind, values, direction, undecoded }
    }
}

/// Nanoseconds of a numpy datetime, from day 0 of the calendar, or timedelta.
fn native(t: &DataType, item: &[u8]) -> Option<i128> {
    let n = value::signed(item).filter(|n| *n != i64::MIN)?;
    let (DataType::DateTime(unit, scale) | DataType::TimeDelta(unit, scale)) = t else { return None };
    let n = i128::from(n).checked_mul((*scale).into())?;
    let calendar = Calendar::ProlepticGregorian;
    let start = if matches!(t, DataType::DateTime(..)) { EPOCH * DAY } else { 0 };
    let length = match unit {
        TimeUnit::Year if start > 0 => return Some(calendar.day_of(1970 + n, 1, 1)? * DAY),
        TimeUnit::Month if start > 0 => {
            let month = u32::try_from(n.rem_euclid(12)).ok()? + 1;
            return Some(calendar.day_of(1970 + n.div_euclid(12), month, 1)? * DAY);
        }
        TimeUnit::Week => 7 * DAY,
        TimeUnit::Day => DAY,
        TimeUnit::Hour => DAY / 24,
        TimeUnit::Minute => DAY / 1440,
        below => match calendar::decimals(*below)? {
            digits @ 0..=9 => 10i128.pow(9 - digits),
            digits => return Some(start + n.div_euclid(10i128.pow(digits - 9))),
        },
    };
    n.checked_mul(length)?.checked_add(start)
}
