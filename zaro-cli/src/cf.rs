//! `--cf`: the CF conventions' packing and time.
//!
//! * `scale_factor` and `add_offset` turn packed numbers into `float64`.
//! * `_FillValue` and `missing_value` become NaN, or `NaT` in times. xarray keeps the `_FillValue` of a V2 array as
//!   its fill value, so that counts too where xarray was the writer.
//! * `units` of the form `days since 1850-01-01` with a `calendar` turn numbers into ISO 8601 text. What is no moment in
//!   a thousand million years either way becomes `NaT` as well, but is counted in [`Lost`]: it was not said to be missing.

use base64::Engine as _;
use zaro::meta::dtype::{DataType, Float};
use zaro::meta::json::Json;
use zaro::meta::{ArrayMeta, Format};
use zaro::{Error, Result};

use crate::block::Block;
use crate::calendar::{self, Calendar};
use crate::number;
use crate::value;

/// What has to be done to the elements of one array.
#[derive(Debug, Clone)]
pub(crate) struct Cf {
    /// How packed elements are to be read (`_Unsigned` may differ from the array's type).
    packed: DataType,
    scale: Option<f64>,
    offset: Option<f64>,
    missing: Vec<f64>,
    missing_exact: Vec<i128>,
    time: Option<TimeAxis>,
}

/// What CF says about time, as far as it can be applied.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TimeAxis {
    calendar: Calendar,
    /// Microseconds from the calendar's day 0 to the reference.
    reference: i128,
    /// Microseconds in a unit.
    unit: f64,
}

const MICROS_PER_SECOND: i128 = 1_000_000;
const MICROS_PER_DAY: i128 = 86_400 * MICROS_PER_SECOND;

/// A thousand million years. Years of ten digits and more are no dates but fill values that nobody declared.
const FARTHEST: u128 = 1_000_000_000 * 366 * 86_400 * 1_000_000;

/// Times that have no ISO 8601 text.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Texts with codes that are no characters, which are shown as U+FFFD.
    pub(crate) texts: u64,
    count: u64,
    /// The first of them as it is stored.
    first: String,
}

impl Lost {
    fn add(&mut self, first: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = first();
        }
        self.count = self.count.saturating_add(1);
    }

    /// What to say of what was lost; nothing if nothing was.
    pub(crate) fn messages(&self) -> Vec<String> {
        let texts = (self.texts > 0).then(|| {
            let (texts, hold) = if self.texts == 1 { ("text", "holds") } else { ("texts", "hold") };
            format!("{} {texts} {hold} codes that are no characters, shown as U+FFFD [utf32]", self.texts)
        });
        texts.into_iter().chain(self.times()).collect()
    }

    fn times(&self) -> Option<String> {
        let (times, became) = if self.count == 1 { ("time", "became") } else { ("times", "all became") };
        (self.count > 0).then(|| {
            format!(
                "{} {times} out of range, no ISO 8601 dates, {became} NaT; the first is {}",
                self.count, self.first
            )
        })
    }
}

impl Cf {
    /// What the attributes of `meta` ask for; `None` if that is nothing. Says through `warn` what it cannot apply.
    pub(crate) fn new(meta: &ArrayMeta, warn: &mut dyn FnMut(&str)) -> Option<Self> {
        let attribute = |name: &str| meta.attributes.get(name);
        if !matches!(meta.data_type, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_)) {
            for name in ["scale_factor", "add_offset"].into_iter().filter(|n| attribute(n).is_some()) {
                warn(&format!("{name} is not applied to elements of type {}", meta.data_type));
            }
            return None;
        }
        let packed = match (&meta.data_type, attribute("_Unsigned").and_then(Json::as_str)) {
            (DataType::Int(bits), Some("true")) => DataType::UInt(*bits),
            (DataType::UInt(bits), Some("false")) => DataType::Int(*bits),
            (t, _) => t.clone(),
        };
        let mut number = |name: &str| {
            let found = attribute(name).map(|value| (value, first_number(value)));
            if let Some((value, None)) = found {
                warn(&format!("{name} is not applied: {value} is not a number"));
            }
            found.and_then(|(_, number)| number)
        };
        let mut out = Self {
            scale: number("scale_factor"),
            offset: number("add_offset"),
            missing: Vec::new(),
            missing_exact: Vec::new(),
            time: None,
            packed,
        };
        // The fill value of V2 comes before the attribute.
        let stored = from_xarray_v2(meta);
        let attributes = ["_FillValue", "missing_value"];
        for name in attributes.into_iter().skip(usize::from(stored)) {
            for one in attribute(name).map_or(&[][..], |v| v.items().unwrap_or(std::slice::from_ref(v))) {
                // Null says that there is none.
                if *one != Json::Null && !out.add_missing(one) {
                    warn(&format!("{name} is not applied: {one} is no value of type {}", out.packed));
                }
            }
        }
        if stored {
            out.add_missing_bytes(&meta.fill.0);
        }
        if let Some(units) = attribute("units").and_then(Json::as_str)
            && let Some((unit, reference)) = units.split_once(" since ")
        {
            let name = attribute("calendar").and_then(Json::as_str).unwrap_or("standard");
            match Calendar::named(name)
                .ok_or_else(|| Error::unsupported(format!("the calendar {name:?} is not known")))
            {
                Ok(calendar) => match TimeAxis::parse(unit, reference, calendar) {
                    Ok(time) => out.time = Some(time),
                    Err(e) => warn(&format!("times are left as numbers: {e}")),
                },
                Err(e) => warn(&format!("times are left as numbers: {e}")),
            }
        }
        let idle = out.scale.is_none()
            && out.offset.is_none()
            && out.missing.is_empty()
            && out.missing_exact.is_empty()
            && out.time.is_none();
        (!idle || out.packed != meta.data_type).then_some(out)
    }

    /// The type of the elements after this.
    pub(crate) fn data_type(&self) -> DataType {
        if self.time.is_some() {
            return DataType::String;
        }
        match self.packed {
            DataType::Float(Float::F32) if self.scale.is_none() && self.offset.is_none() => DataType::FLOAT32,
            DataType::Int(_) | DataType::UInt(_) if !self.changes_numbers() => self.packed.clone(),
            _ => DataType::FLOAT64,
        }
    }

    /// Whether anything is done beyond another reading of the sign.
    fn changes_numbers(&self) -> bool {
        self.scale.is_some()
            || self.offset.is_some()
            || !self.missing.is_empty()
            || !self.missing_exact.is_empty()
    }

    /// Applies this to a piece of the answer, and counts in `lost` the times that could not be written.
    pub(crate) fn apply(&self, block: Block, lost: &mut Lost) -> Block {
        let shape = block.shape.clone();
        if let Some(time) = &self.time {
            return Block::of_text(shape, block.items().map(|item| self.moment(time, item, lost)).collect());
        }
        let target = self.data_type();
        let mut out = Vec::with_capacity(block.len().saturating_mul(target.size()));
        for item in block.items() {
            match target {
                DataType::Int(_) | DataType::UInt(_) => out.extend_from_slice(item),
                DataType::Float(Float::F32) => {
                    out.extend(number::f32_of_f64(self.number(item)).to_le_bytes())
                }
                _ => out.extend(self.number(item).to_le_bytes()),
            }
        }
        Block::of_bytes(target, shape, out)
    }

    /// The unpacked number; NaN for a missing one.
    fn number(&self, item: &[u8]) -> f64 {
        match value::number(&self.packed, item) {
            Some(x) if !self.is_missing(item, x) => {
                x * self.scale.unwrap_or(1.0) + self.offset.unwrap_or(0.0)
            }
            _ => f64::NAN,
        }
    }

    fn is_missing(&self, item: &[u8], x: f64) -> bool {
        match integer(&self.packed, item) {
            Some(n) => self.missing_exact.contains(&n),
            None => self.missing.contains(&x),
        }
    }

    fn moment(&self, time: &TimeAxis, item: &[u8], lost: &mut Lost) -> String {
        let packed = self.scale.is_some() || self.offset.is_some();
        let exact = integer(&self.packed, item).filter(|_| !packed);
        let x = self.number(item);
        // NaN is how floats say that there is none.
        if x.is_nan() {
            return "NaT".into();
        }
        let micros = match exact {
            // Integers of whole microseconds need no rounding.
            Some(n) if time.unit.fract() == 0.0 => n.saturating_mul(number::i128_of_f64(time.unit)),
            _ => number::i128_of_f64(x * time.unit),
        };
        time.text(micros).unwrap_or_else(|| {
            lost.add(|| value::text_of(&self.packed, item, value::Style::TEXT));
            "NaT".into()
        })
    }

    /// Adds a missing value as attributes write it: a number, its text, or base64 of its bytes. Says whether it was one.
    fn add_missing(&mut self, value: &Json) -> bool {
        if let Some(text) = value.as_str() {
            if let Some(x) = special(text) {
                self.missing.push(x);
            } else if let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(text) {
                return self.add_missing_bytes(&bytes);
            } else {
                return false;
            }
        } else if let (Some(n), true) = (value.as_i128(), is_integer(&self.packed)) {
            // Writers disagree whether a signed or an unsigned number stands for the same bits.
            let bits = u32::try_from(self.packed.size() * 8).unwrap_or(64);
            let wrapped = match &self.packed {
                DataType::UInt(_) if n < 0 => n + (1i128 << bits),
                DataType::Int(_) if n >= 1i128 << (bits - 1) => n - (1i128 << bits),
                _ => n,
            };
            self.missing_exact.extend([n, wrapped]);
        } else if let Some(x) = value.as_f64() {
            match self.packed {
                DataType::Float(Float::F32) => self.missing.push(number::f32_of_f64(x).into()),
                DataType::Float(_) => self.missing.push(x),
                _ if x.fract() == 0.0 => self.missing_exact.push(number::i128_of_f64(x)),
                // No integer equals it.
                _ => {}
            }
        } else {
            return false;
        }
        true
    }

    /// Adds a missing value from bytes: of the packed type, or a float64, as xarray writes them. Says whether it was one.
    fn add_missing_bytes(&mut self, bytes: &[u8]) -> bool {
        if let (true, Some(n)) = (bytes.len() == self.packed.size(), integer(&self.packed, bytes)) {
            self.missing_exact.push(n);
        } else if bytes.len() == self.packed.size() {
            self.missing.extend(value::number(&self.packed, bytes));
        } else if let Some(x) = bytes.first_chunk::<8>().filter(|_| bytes.len() == 8) {
            let x = f64::from_le_bytes(*x);
            match self.packed {
                DataType::Float(Float::F32) => self.missing.push(number::f32_of_f64(x).into()),
                DataType::Float(_) => self.missing.push(x),
                _ => self.missing_exact.push(number::i128_of_f64(x)),
            }
        } else {
            return false;
        }
        true
    }
}

/// Whether readers of this V2 array take its fill value as `_FillValue`, as xarray does.
fn from_xarray_v2(meta: &ArrayMeta) -> bool {
    meta.format == Format::V2 && meta.dimension_names.is_some() && !meta.fill_undefined
}

fn is_integer(t: &DataType) -> bool {
    matches!(t, DataType::Int(_) | DataType::UInt(_))
}

fn integer(t: &DataType, bytes: &[u8]) -> Option<i128> {
    match t {
        DataType::Int(_) => value::signed(bytes).map(i128::from),
        DataType::UInt(_) => value::unsigned(bytes).map(i128::from),
        _ => None,
    }
}

fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A number, the text of one, or a list whose only item is one.
fn first_number(value: &Json) -> Option<f64> {
    match value {
        Json::Array(items) => match items.as_slice() {
            [one] => first_number(one),
            _ => None,
        },
        Json::String(s) => s.trim().parse().ok(),
        other => other.as_f64(),
    }
}

impl TimeAxis {
    fn parse(unit: &str, reference: &str, calendar: Calendar) -> Result<Self> {
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "nanosecond" | "nanoseconds" | "nsec" | "nsecs" | "ns" => 1e-3,
            "microsecond" | "microseconds" | "microsec" | "microsecs" | "us" => 1.0,
            "millisecond" | "milliseconds" | "millisec" | "millisecs" | "msec" | "msecs" | "ms" => 1e3,
            "second" | "seconds" | "sec" | "secs" | "s" => 1e6,
            "minute" | "minutes" | "min" | "mins" => 60e6,
            "hour" | "hours" | "hr" | "hrs" | "h" => 3600e6,
            "day" | "days" | "d" => 86_400e6,
            "week" | "weeks" => 7.0 * 86_400e6,
            "month" | "months" if calendar == Calendar::Days360 => 30.0 * 86_400e6,
            "year" | "years" | "common_year" | "common_years" => match calendar {
                Calendar::Days360 => 360.0 * 86_400e6,
                Calendar::NoLeap => 365.0 * 86_400e6,
                Calendar::AllLeap => 366.0 * 86_400e6,
                _ => return Err(Error::unsupported("a year has no fixed length in this calendar")),
            },
            other => return Err(Error::unsupported(format!("the time unit {other:?} has no fixed length"))),
        };
        let bad = || Error::invalid(format!("{reference:?} is not a date"));
        let reference = micros(reference.trim(), calendar).ok_or_else(bad)?;
        Ok(Self { calendar, reference, unit })
    }

    /// The moment so long after the reference; `None` for one too far away to be a date.
    fn text(&self, micros: i128) -> Option<String> {
        let at = self.reference.saturating_add(micros);
        (at.unsigned_abs() <= FARTHEST).then(|| calendar::moment_text(self.calendar, at, 6, true))
    }
}

/// Microseconds to a moment such as `1850-01-01`, `1850-1-1 00:00:0.0`, `2000-01-01T12:00Z` or with ` +01:30` behind.
fn micros(text: &str, calendar: Calendar) -> Option<i128> {
    let text = text.trim_end_matches("UTC").trim_end_matches("GMT").trim_end_matches('Z').trim();
    let (date, rest) = match text.find([' ', 'T']) {
        Some(i) => (text.get(..i)?, text.get(i + 1..)?.trim()),
        None => (text, ""),
    };
    let (sign, date) = match date.strip_prefix('-') {
        Some(date) => (-1, date),
        None => (1, date.strip_prefix('+').unwrap_or(date)),
    };
    let mut parts = date.split('-');
    let year: i128 = parts.next()?.parse::<u32>().ok()?.into();
    let month = parts.next().map_or(Some(1), |m| m.parse().ok())?;
    let day = parts.next().map_or(Some(1), |d| d.parse().ok())?;
    if parts.next().is_some() {
        return None;
    }
    let zone_at = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '+' | '-' | ' ')).map(|(i, _)| i);
    let (clock, zone) = match zone_at {
        _ if rest.starts_with(['+', '-']) => ("", rest),
        Some(i) => (rest.get(..i)?, rest.get(i..)?.trim()),
        None => (rest, ""),
    };
    let offset = match zone.strip_prefix('-') {
        Some(zone) => -clock_micros(zone)?,
        None => clock_micros(zone.strip_prefix('+').unwrap_or(zone))?,
    };
    Some(calendar.day_of(sign * year, month, day)? * MICROS_PER_DAY + clock_micros(clock)? - offset)
}

/// Microseconds of `12`, `12:30`, `12:30:01.5`, `0130`; nothing is midnight.
fn clock_micros(text: &str) -> Option<i128> {
    if text.is_empty() {
        return Some(0);
    }
    if text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()) {
        return clock_micros(&format!("{}:{}", text.get(..2)?, text.get(2..)?));
    }
    let mut parts = text.split(':');
    let hours: i128 = parts.next()?.parse::<u32>().ok()?.into();
    let minutes: i128 = parts.next().map_or(Some(0), |m| m.parse::<u32>().ok())?.into();
    let seconds =
        parts.next().map_or(Some(0.0), |s| s.parse::<f64>().ok()).filter(|s| (0.0..3600.0).contains(s))?;
    if parts.next().is_some() {
        return None;
    }
    Some((hours * 3600 + minutes * 60) * MICROS_PER_SECOND + number::i128_of_f64(seconds * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64, units: &str, calendar: &str) -> String {
        let (unit, reference) = units.split_once(" since ").unwrap();
        let axis = TimeAxis::parse(unit, reference, Calendar::named(calendar).unwrap()).unwrap();
        axis.text(number::i128_of_f64(value * axis.unit)).unwrap_or_default()
    }

    #[test]
    fn times_follow_their_calendar() {
        assert_eq!(text(59.5, "days since 1850-01-01", "standard"), "1850-03-01T12:00:00");
        assert_eq!(text(59.0, "days since 2000-1-1 00:00:0.0", "noleap"), "2000-03-01T00:00:00");
        assert_eq!(text(59.0, "days since 2001-01-01", "all_leap"), "2001-02-29T00:00:00");
        assert_eq!(text(59.0, "days since 2001-01-01", "360_day"), "2001-02-30T00:00:00");
        assert_eq!(text(1.0, "days since 1582-10-04", "standard"), "1582-10-15T00:00:00");
        assert_eq!(text(1.0, "days since 1582-10-04", "proleptic_gregorian"), "1582-10-05T00:00:00");
        assert_eq!(text(0.0, "days since 1900-02-29", "julian"), "1900-02-29T00:00:00");
        assert_eq!(text(1.5, "hours since 2000-01-01T12:00Z", "standard"), "2000-01-01T13:30:00");
        assert_eq!(
            text(0.25, "seconds since 1970-01-01 00:00:00 +01:30", "standard"),
            "1969-12-31T22:30:00.25"
        );
        assert_eq!(text(-1.0, "days since 0001-01-01", "proleptic_gregorian"), "0000-12-31T00:00:00");
        assert_eq!(
            text(360.0 * 50_000_000.0, "days since 0000-01-01", "360_day"),
            "+50000000-01-01T00:00:00"
        );
        for far in [1e15, -1e15, 9.969_209_968_386_869e36, f64::MAX, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(text(far, "days since 1850-01-01", "standard"), "", "{far}");
        }
    }

    #[test]
    fn what_has_no_fixed_length_is_not_guessed() {
        assert!(TimeAxis::parse("months", "2000-01-01", Calendar::Standard).is_err());
        assert!(TimeAxis::parse("months", "2000-01-01", Calendar::Days360).is_ok());
        assert!(TimeAxis::parse("days", "yesterday", Calendar::Standard).is_err());
        assert!(TimeAxis::parse("days", "2001-02-29", Calendar::Standard).is_err());
    }
}
