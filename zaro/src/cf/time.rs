//! CF times: `days since 1850-01-01` in a calendar, and durations.
//!
//! Everything is in nanoseconds, in 128-bit integers, so that no time that xarray writes is truncated.

use crate::error::{Error, Result, invalid, unsupported};
use crate::format::calendar::{self, Calendar};
use crate::meta::dtype::TimeUnit;
use crate::meta::float;
use crate::num;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// A billion years. Years of ten and more digits are not dates but undeclared fill values.
const FARTHEST: u128 = 1_000_000_000 * 366 * 86_400 * 1_000_000_000;

/// A time axis: calendar, unit and reference date.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeAxis {
    pub(super) calendar: Calendar,
    /// Nanoseconds from the calendar's day 0 to the reference.
    pub(super) reference: i128,
    /// Nanoseconds in a unit.
    pub(super) unit: i128,
}

/// The unit and the reference of `days since 1850-01-01`, ignoring case; `None` for units of another form.
pub(super) fn split_since(units: &str) -> Option<(&str, &str)> {
    const WORD: &str = "since";
    let lower = units.to_ascii_lowercase();
    let is_apart = |at: &usize| {
        let (before, after) = (lower.get(..*at), lower.get(at + WORD.len()..));
        before.is_some_and(|b| b.ends_with(char::is_whitespace))
            && after.is_some_and(|a| a.starts_with(char::is_whitespace))
    };
    let at = lower.match_indices(WORD).map(|(at, _)| at).find(is_apart)?;
    Some((units.get(..at)?, units.get(at.checked_add(WORD.len())?..)?.trim_start()))
}

impl TimeAxis {
    pub(super) fn parse(unit: &str, reference: &str, calendar: Calendar) -> Result<Self> {
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "nanosecond" | "nanoseconds" | "nsec" | "nsecs" | "ns" => 1,
            "microsecond" | "microseconds" | "microsec" | "microsecs" | "us" => 1_000,
            "millisecond" | "milliseconds" | "millisec" | "millisecs" | "msec" | "msecs" | "ms" => 1_000_000,
            "second" | "seconds" | "sec" | "secs" | "s" => SECOND,
            "minute" | "minutes" | "min" | "mins" => 60 * SECOND,
            "hour" | "hours" | "hr" | "hrs" | "h" => 3600 * SECOND,
            "day" | "days" | "d" => DAY,
            "week" | "weeks" => 7 * DAY,
            "month" | "months" if calendar == Calendar::Days360 => 30 * DAY,
            "year" | "years" | "common_year" | "common_years" => match calendar {
                Calendar::Days360 => 360 * DAY,
                Calendar::NoLeap => 365 * DAY,
                Calendar::AllLeap => 366 * DAY,
                _ => return Err(Error::unsupported("a year has no fixed length in this calendar")),
            },
            other => return Err(unsupported!("the time unit {other:?} has no fixed length")),
        };
        let bad = || invalid!("{reference:?} is not a date of this calendar");
        let reference = moment(reference.trim(), calendar).ok_or_else(bad)?;
        Ok(Self { calendar, reference, unit })
    }

    /// The time `nanos` after the reference as text; `None` if it is too far away to be a date.
    pub(super) fn text(&self, nanos: i128) -> Option<String> {
        let at = self.reference.saturating_add(nanos);
        (at.unsigned_abs() <= FARTHEST).then(|| calendar::moment_text(self.calendar, at, 9, true))
    }

    /// The time `nanos` after the reference in seconds from the calendar's 1970-01-01; `None` if it is too far away to
    /// be a date.
    pub(super) fn seconds(&self, nanos: i128) -> Option<f64> {
        let at = self.reference.saturating_add(nanos);
        let epoch = self.calendar.day_of(1970, 1, 1)?.checked_mul(DAY)?;
        let since = at.checked_sub(epoch).filter(|_| at.unsigned_abs() <= FARTHEST)?;
        // Whole seconds stay exact, whatever the fraction.
        let (whole, rest) = (since.div_euclid(SECOND), since.rem_euclid(SECOND));
        Some(num::f64_of_i128(whole) + num::f64_of_i128(rest) / 1e9)
    }
}

/// `n` units in nanoseconds, exactly.
pub(super) fn nanos_of_integer(n: i128, unit: i128) -> i128 {
    n.saturating_mul(unit)
}

/// `x` units in nanoseconds; `None` if infinite or farther away than any date.
///
/// A float of days is seldom a whole number of seconds, even if its writer meant one. So this is the time with the
/// fewest decimals of a second to which no other float is nearer; where floats lie closer than that, the nearest
/// nanosecond.
pub(super) fn nanos_of_float(x: f64, unit: i128) -> Option<i128> {
    // With this many bits after the point, even the longest unit is exact to a thousandth of a nanosecond.
    const FINEST: u32 = 70;
    // Twice the farthest date, so that dates before and after the reference are within.
    if !x.is_finite() || x.abs() * num::f64_of_i128(unit) > 7e25 {
        return None;
    }
    let (mantissa, exponent) = float::parts(x.abs());
    let sign = if x < 0.0 { -1 } else { 1 };
    let Some(shift) = u32::try_from(-exponent).ok().filter(|shift| *shift > 0) else {
        let whole = i128::from(mantissa).checked_shl(u32::try_from(exponent).ok()?)?;
        return whole.checked_mul(unit).map(|n| sign * n);
    };
    let dropped = shift.saturating_sub(FINEST);
    let shift = shift - dropped;
    // Below 2^53 times 2^55, with `shift` bits after the point.
    let product = i128::from(mantissa.checked_shr(dropped).unwrap_or(0)) * unit;
    let rounded = |step: i128| {
        let step = step << shift;
        (product + step / 2) / step * step
    };
    let near = |n: &i128| dropped == 0 && (n - product).abs() * 2 <= unit;
    let best = (0..9).map(|digits| rounded(SECOND / 10i128.pow(digits))).find(near);
    Some(sign * (best.unwrap_or_else(|| rounded(1)) >> shift))
}

/// A date as people shorten it: `2000`, `2000-07`, `2000-07-01T12:30`. All in nanoseconds from the calendar's day 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    /// Its first nanosecond.
    pub(crate) first: i128,
    /// Its last one.
    pub(crate) last: i128,
    /// The unit it was given in; of a year and of a month, more than every other unit.
    pub(crate) unit: i128,
}

impl Interval {
    /// Stands for any unit longer than a day.
    pub(crate) const LONG: i128 = DAY + 1;

    /// Parses a date of this calendar; `None` if it is not one.
    pub(crate) fn parse(text: &str, calendar: Calendar) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_suffix('Z').unwrap_or(text);
        let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, ""));
        let unsigned = date.trim_start_matches(['-', '+']);
        // A shorter number is unlikely to be a year.
        if unsigned.split(['-', '/']).next().is_none_or(|year| year.len() < 4) {
            return None;
        }
        // One digit after a time is the step of a slice: `T05:00:T09:00:2` does not end at 09:00:02.
        let is_short = |part: &str| part.split_once('.').map_or(part, |(whole, _)| whole).len() < 2;
        if clock.trim().split(':').skip(1).any(is_short) {
            return None;
        }
        let (year, month, day) = date_parts(date)?;
        let first = calendar.day_of(year, month, day)? * DAY + time_of_day(clock.trim())?;
        let days = |year, month| calendar.day_of(year, month, 1);
        let next_year = || days(year + 1, 1).or_else(|| days(year + 2, 1));
        let (unit, end) = match (unsigned.split(['-', '/']).count(), clock.split(':').count()) {
            (1, _) if unsigned.len() < 8 => (366 * DAY, next_year()? * DAY),
            (2, _) => (31 * DAY, if month < 12 { days(year, month + 1)? } else { next_year()? } * DAY),
            _ if clock.is_empty() => (DAY, first + DAY),
            (_, 1) if clock.trim().len() <= 2 => (3600 * SECOND, first + 3600 * SECOND),
            (_, 2) => (60 * SECOND, first + 60 * SECOND),
            _ => {
                let unit = match clock.split_once('.').map_or(0, |(_, digits)| digits.len()) {
                    0 => SECOND,
                    1..=3 => 1_000_000,
                    4..=6 => 1_000,
                    _ => 1,
                };
                (unit, first + unit)
            }
        };
        Some(Self { first, last: end - 1, unit })
    }

    /// The coarsest unit, of a day or less, of which all these times are whole multiples.
    pub(crate) fn unit_of(moments: impl Iterator<Item = i128>) -> i128 {
        const UNITS: [i128; 7] = [DAY, 3600 * SECOND, 60 * SECOND, SECOND, 1_000_000, 1_000, 1];
        let mut at = 0;
        for moment in moments {
            while UNITS.get(at).is_some_and(|unit| moment.rem_euclid(*unit) != 0) {
                at += 1;
            }
        }
        UNITS.get(at).copied().unwrap_or(1)
    }
}

/// Parses a duration: `36h`, `2 days`, `-90min`, `PT3600S`. Returns its nanoseconds, and those of its unit.
pub(crate) fn span(text: &str) -> Option<(i128, i128)> {
    let text = text.trim();
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let text = text.strip_prefix('P').unwrap_or(text).trim_start_matches('T');
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at_checked(at)?;
    let unit = match unit.trim() {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "microsecond" | "microseconds" => 1_000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "S" | "sec" | "second" | "seconds" => SECOND,
        "m" | "M" | "min" | "minute" | "minutes" => 60 * SECOND,
        "h" | "H" | "hour" | "hours" => 3600 * SECOND,
        "d" | "D" | "day" | "days" => DAY,
        "w" | "W" | "week" | "weeks" => 7 * DAY,
        _ => return None,
    };
    let nanos = nanos_of_float(sign * number.parse::<f64>().ok()?, unit)?;
    Some((nanos, unit))
}

/// The nanoseconds of a unit of xarray's durations, whose names are in full and in lower case.
pub(super) fn span_unit(units: &str) -> Option<i128> {
    Some(match units {
        "nanoseconds" => 1,
        "microseconds" => 1_000,
        "milliseconds" => 1_000_000,
        "seconds" => SECOND,
        "minutes" => 60 * SECOND,
        "hours" => 3600 * SECOND,
        "days" => DAY,
        _ => return None,
    })
}

/// The unit of durations in memory, by the attribute `dtype` (`timedelta64[s]`), and its nanoseconds.
pub(super) fn span_target(dtype: &str) -> Option<(TimeUnit, i128)> {
    let name = dtype.strip_prefix("timedelta64")?;
    let name = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    Some(match name {
        "s" | "m" | "h" | "D" => (TimeUnit::Second, SECOND),
        "ms" => (TimeUnit::Millisecond, 1_000_000),
        "us" => (TimeUnit::Microsecond, 1_000),
        _ => (TimeUnit::Nanosecond, 1),
    })
}

/// The name of a time zone after a reference; it is not applied.
pub(super) fn zone_name(reference: &str) -> Option<&str> {
    let name = reference.trim_end().rsplit([' ', '\t', ',']).next()?;
    let is_name = name.len() > 1 && name.bytes().all(|b| b.is_ascii_alphabetic());
    (is_name && !matches!(name, "UTC" | "GMT") && name.len() < reference.trim_end().len()).then_some(name)
}

/// Nanoseconds of a time such as `1850-01-01`, `1850-1-1 00:00:0.0`, `20000101`, `2000-01-01T12:00Z`, also with an
/// offset such as ` +01:30`.
fn moment(text: &str, calendar: Calendar) -> Option<i128> {
    // Tabs and commas count as spaces.
    let text = text.replace(|c: char| c.is_whitespace() || c == ',', " ");
    let text = text.strip_suffix(zone_name(&text).unwrap_or_default()).unwrap_or(&text);
    let text = text.trim_end_matches("UTC").trim_end_matches("GMT").trim_end_matches('Z').trim();
    let (date, rest) = match text.find([' ', 'T']) {
        Some(i) => (text.get(..i)?, text.get(i + 1..)?.trim()),
        None => (text, ""),
    };
    let (year, month, day) = date_parts(date)?;
    let zone_at = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '+' | '-' | ' ')).map(|(i, _)| i);
    let (clock, zone) = match zone_at {
        _ if rest.starts_with(['+', '-']) => ("", rest),
        Some(i) => (rest.get(..i)?, rest.get(i..)?.trim()),
        None => (rest, ""),
    };
    let offset = match zone.strip_prefix('-') {
        Some(zone) => -time_of_day(zone)?,
        None => time_of_day(zone.strip_prefix('+').unwrap_or(zone))?,
    };
    Some(calendar.day_of(year, month, day)? * DAY + time_of_day(clock)? - offset)
}

/// Year, month and day of `2000-1-31`, `-44-3-15`, `2000/01/31`, `20000131`, `2000-01`, `2000`.
fn date_parts(date: &str) -> Option<(i128, u32, u32)> {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    // Eight digits are a compact ISO 8601 date; any other run of more than four is ambiguous.
    if digits(date) && date.len() > 4 {
        let (year, rest) = date.split_at_checked(4)?;
        let (month, day) = rest.split_at_checked(2).filter(|_| date.len() == 8)?;
        return Some((year.parse().ok()?, month.parse().ok()?, day.parse().ok()?));
    }
    let (sign, date) = match date.strip_prefix('-') {
        Some(date) => (-1, date),
        None => (1, date.strip_prefix('+').unwrap_or(date)),
    };
    let separator = if date.contains('/') { '/' } else { '-' };
    let mut parts = date.split(separator);
    // `01/02/2000` is ambiguous: January or February.
    let year = parts.next().filter(|y| digits(y) && (separator == '-' || y.len() == 4))?;
    let year: i128 = year.parse::<u32>().ok()?.into();
    let mut part =
        || parts.next().map_or(Some(1), |p| p.parse::<u32>().ok().filter(|_| p.len() <= 2 && digits(p)));
    let (month, day) = (part()?, part()?);
    parts.next().is_none().then_some((sign * year, month, day))
}

/// Nanoseconds of `12`, `12:30`, `12:30:01.5`, `0130`, `013000`; empty is midnight. `None` for invalid times of day.
fn time_of_day(text: &str) -> Option<i128> {
    if text.is_empty() {
        return Some(0);
    }
    if matches!(text.len(), 4 | 6) && text.bytes().all(|b| b.is_ascii_digit()) {
        let (hours, rest) = text.split_at_checked(2)?;
        let (minutes, seconds) = rest.split_at_checked(2)?;
        let seconds = if seconds.is_empty() { "0" } else { seconds };
        return time_of_day(&format!("{hours}:{minutes}:{seconds}"));
    }
    let mut parts = text.split(':');
    let whole = |text: &str, below: i128| {
        let ok = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<i128>().ok().filter(|n| ok && *n < below)
    };
    let hours = whole(parts.next()?, 24)?;
    let minutes = parts.next().map_or(Some(0), |m| whole(m, 60))?;
    let (seconds, fraction) = parts.next().map_or(("0", ""), |s| s.split_once('.').unwrap_or((s, "")));
    let seconds = whole(seconds, 60)?;
    if parts.next().is_some() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Fractions of a nanosecond are truncated, as in xarray.
    let fraction: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some((hours * 3600 + minutes * 60 + seconds) * SECOND + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(units: &str, calendar: &str) -> Result<TimeAxis> {
        let (unit, reference) = split_since(units).unwrap();
        TimeAxis::parse(unit, reference, Calendar::named(calendar).unwrap())
    }

    fn text(value: f64, units: &str, calendar: &str) -> String {
        let axis = axis(units, calendar).unwrap();
        nanos_of_float(value, axis.unit).and_then(|n| axis.text(n)).unwrap_or_default()
    }

    #[test]
    fn shortened_dates_are_intervals() {
        let of = |text, calendar| {
            let i = Interval::parse(text, Calendar::named(calendar).unwrap())?;
            let at = |nanos| calendar::moment_text(Calendar::named(calendar).unwrap(), nanos, 9, true);
            Some(format!("{} {}", at(i.first), at(i.last + 1)))
        };
        let is = |text, calendar, want: &str| assert_eq!(of(text, calendar).as_deref(), Some(want), "{text}");
        is("2000", "standard", "2000-01-01T00:00:00 2001-01-01T00:00:00");
        is("2000-02", "noleap", "2000-02-01T00:00:00 2000-03-01T00:00:00");
        is("2000-02-30", "360_day", "2000-02-30T00:00:00 2000-03-01T00:00:00");
        is("2000-12", "360_day", "2000-12-01T00:00:00 2001-01-01T00:00:00");
        is("20000701", "standard", "2000-07-01T00:00:00 2000-07-02T00:00:00");
        is("2000-07-01T12", "standard", "2000-07-01T12:00:00 2000-07-01T13:00:00");
        is("2000-07-01 12:30", "standard", "2000-07-01T12:30:00 2000-07-01T12:31:00");
        is("2000-07-01T12:30:01.5Z", "standard", "2000-07-01T12:30:01.5 2000-07-01T12:30:01.501");
        is("-0001", "standard", "-0001-01-01T00:00:00 0001-01-01T00:00:00");
        for bad in [
            "30",
            "2000-13",
            "2000-02-30",
            "x",
            "",
            "2000-07-01T25",
            "200007",
            "2000-07-01T12:3",
            "2000-07-01T12:30:1",
        ] {
            assert_eq!(of(bad, "standard"), None, "{bad}");
        }
        assert_eq!(span("36h"), Some((36 * 3600 * SECOND, 3600 * SECOND)));
        assert_eq!(span("-1.5 days"), Some((-36 * 3600 * SECOND, DAY)));
        assert_eq!((span("PT90S"), span("7")), (Some((90 * SECOND, SECOND)), None));
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

    /// As cftime counts: the calendars people lived by have no year 0, those of models have.
    #[test]
    fn years_before_the_first() {
        for calendar in ["standard", "gregorian", "julian"] {
            assert_eq!(text(-1.0, "days since 0001-01-01", calendar), "-0001-12-31T00:00:00");
            assert_eq!(text(366.0, "days since -0001-01-01", calendar), "0001-01-01T00:00:00");
            assert!(axis("days since 0000-01-01", calendar).is_err(), "{calendar}");
        }
        for calendar in ["proleptic_gregorian", "noleap", "all_leap", "360_day"] {
            assert_eq!(text(0.0, "days since 0000-01-01", calendar), "0000-01-01T00:00:00");
        }
        assert_eq!(text(2_451_545.0, "days since -4712-01-01 12:00", "julian"), "2000-12-19T12:00:00");
        assert_eq!(text(2_451_545.0, "days since -4712-01-01 12:00", "standard"), "2001-01-01T12:00:00");
        assert_eq!(text(2_451_545.0, "days since -4712-01-01 12:00", "360_day"), "2097-11-06T12:00:00");
    }

    #[test]
    fn references_come_in_many_spellings() {
        for (reference, wanted) in [
            ("20000601", "2000-06-01T00:00:00"),
            ("20000601T120000", "2000-06-01T12:00:00"),
            ("20000601 1230", "2000-06-01T12:30:00"),
            ("2000/06/01", "2000-06-01T00:00:00"),
            ("2000-06", "2000-06-01T00:00:00"),
            ("2000", "2000-01-01T00:00:00"),
            ("70-1-1", "0070-01-01T00:00:00"),
            ("12000-01-01", "+12000-01-01T00:00:00"),
            ("1992-10-8 15:15:42.5 -6:00", "1992-10-08T21:15:42.5"),
            ("2000-01-01 12:00:00.123456789", "2000-01-01T12:00:00.123456789"),
            ("2000-01-01 -6:00", "2000-01-01T06:00:00"),
        ] {
            assert_eq!(text(0.0, &format!("Days Since {reference}"), "standard"), wanted, "{reference}");
        }
        for bad in [
            "yesterday",
            "2001-02-29",
            "1582-10-10",
            "2000-01-01 25:61:61",
            "2000-01-01 24:00",
            "2000-01-01 12:60",
            "2000-01-01 12:00:60",
            "2000-01-01 12:00 +25",
            "200006",
            "2000060112",
            "2000-366",
            "01/02/2000",
            "2000-13-01",
            "2000-01-01 12:+5",
            "",
        ] {
            assert!(axis(&format!("days since {bad}"), "standard").is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_no_fixed_length_is_not_guessed() {
        assert!(axis("months since 2000-01-01", "standard").is_err());
        assert!(axis("months since 2000-01-01", "360_day").is_ok());
        assert!(axis("years since 2000-01-01", "standard").is_err());
    }

    #[test]
    fn floats_say_no_more_than_they_know() {
        // No float is 0.123 days after 54786, but this one is nearest.
        assert_eq!(text(54_786.123, "days since 1850-01-01", "standard"), "2000-01-01T02:57:07.2");
        assert_eq!(text(0.1, "days since 2000-01-01", "standard"), "2000-01-01T02:24:00");
        assert_eq!(text(1e-9, "seconds since 2000-01-01", "standard"), "2000-01-01T00:00:00.000000001");
        assert_eq!(text(5e-324, "days since 2000-01-01", "standard"), "2000-01-01T00:00:00");
        assert_eq!(text(-0.5, "nanoseconds since 2000-01-01", "standard"), "1999-12-31T23:59:59.999999999");
        // What is a whole number stays one, however large.
        assert_eq!(nanos_of_float(9_007_199_254_740_993.0, 1), Some(9_007_199_254_740_992));
        assert_eq!(nanos_of_float(1e18, 1000), Some(1_000_000_000_000_000_000_000));
        // Rounding never moves further than to half the distance of the next float, or half a nanosecond.
        let mut x = 1.0f64;
        for _ in 0..4000 {
            x = (x * 1.013 + 0.37) % 90_000.0;
            let n = nanos_of_float(x, DAY).unwrap();
            assert!((num::f64_of_i128(n) / 86_400e9 - x).abs() <= x * f64::EPSILON + 1e-14, "{x}");
        }
    }
}
