//! Timestamps in manifests and server responses: `2022-03-16T02:39:36+00:00`.

use std::fmt;

use crate::error::{Error, Result};

/// A timestamp with its UTC offset.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// Seconds since 1970, in UTC.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanos: u32,
    /// UTC offset in minutes, positive to the east.
    pub offset: i16,
}

// Timestamps are equal regardless of their offset.
impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        (self.seconds, self.nanos) == (other.seconds, other.nanos)
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

const DAY: i64 = 86_400;

impl Time {
    /// Whole seconds since 1970, in UTC.
    #[must_use]
    pub fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0, offset: 0 }
    }

    /// Seconds and nanoseconds since 1970, in UTC.
    #[must_use]
    pub fn new(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos: nanos.min(999_999_999), offset: 0 }
    }

    /// Milliseconds since 1970, in UTC.
    #[must_use]
    pub fn millis(&self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }

    /// Parses a timestamp: date, `T` or a space, time, optional fraction, and `Z` or an offset (`+02:00`, `+0200`,
    /// `+02`). Also accepts the format of S3, `2022-06-27T23:07:47.000Z`. A timestamp without an offset is refused as
    /// ambiguous.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_bytes(text.as_bytes()).ok_or_else(|| {
            Error::invalid(format!("{text:?} is not a timestamp such as 2022-03-16T02:39:36+00:00"))
        })
    }

    /// Parses what people write: a date, which is its beginning, or a timestamp; UTC if nothing else is said.
    pub fn parse_date(text: &str) -> Result<Self> {
        let text = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
        let has_zone = text.get(19..).is_some_and(|rest| rest.contains(['Z', 'z', '+', '-']));
        Self::parse(&if has_zone { text } else { format!("{text}Z") })
    }

    /// As [`Time::parse`].
    pub(crate) fn from_bytes(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(19)?;
        let head: &[u8; 19] = head.try_into().ok()?;
        let [
            y0,
            y1,
            y2,
            y3,
            b'-',
            o0,
            o1,
            b'-',
            d0,
            d1,
            b'T' | b't' | b' ',
            h0,
            h1,
            b':',
            m0,
            m1,
            b':',
            s0,
            s1,
        ] = *head
        else {
            return None;
        };
        let year = i64::from(two(y0, y1)?) * 100 + i64::from(two(y2, y3)?);
        let (month, day) = (two(o0, o1)?, two(d0, d1)?);
        let (hour, minute, second) = (two(h0, h1)?, two(m0, m1)?, two(s0, s1)?);
        // A leap second counts as the last second of its minute.
        let second = second.min(59) + if second > 60 { return None } else { 0 };
        if month == 0 || month > 12 || day == 0 || day > days_of(year, month) || hour > 23 || minute > 59 {
            return None;
        }
        let (nanos, rest) = fraction(rest)?;
        let offset = offset(rest)?;
        let seconds = days_from_civil(year, month, day) * DAY
            + i64::from(hour) * 3600
            + i64::from(minute) * 60
            + i64::from(second);
        Some(Self { seconds: seconds - i64::from(offset) * 60, nanos, offset })
    }

    /// Appends the timestamp in the output format.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        let local = self.seconds.saturating_add(i64::from(self.offset) * 60);
        let (days, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        push_padded(out, year.clamp(0, 9999), 4);
        for (mark, n) in
            [(b'-', month), (b'-', day), (b'T', rest / 3600), (b':', rest / 60 % 60), (b':', rest % 60)]
        {
            out.push(mark);
            push_padded(out, n, 2);
        }
        if self.nanos > 0 {
            out.push(b'.');
            // As in Python: six digits, or nine where six are not enough.
            if self.nanos.is_multiple_of(1000) {
                push_padded(out, i64::from(self.nanos / 1000), 6);
            } else {
                push_padded(out, i64::from(self.nanos), 9);
            }
        }
        out.push(if self.offset < 0 { b'-' } else { b'+' });
        let offset = i64::from(self.offset.unsigned_abs());
        push_padded(out, offset / 60, 2);
        out.push(b':');
        push_padded(out, offset % 60, 2);
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(32);
        self.push(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

/// A zero-padded number.
fn push_padded(out: &mut Vec<u8>, n: i64, width: u32) {
    for place in (0..width).rev() {
        let digit = n / 10i64.pow(place) % 10;
        out.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}

fn digit(b: u8) -> Option<u8> {
    b.checked_sub(b'0').filter(|d| *d < 10)
}

fn two(a: u8, b: u8) -> Option<u8> {
    Some(digit(a)? * 10 + digit(b)?)
}

/// Nanoseconds, and the rest; digits beyond the ninth are dropped.
fn fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let Some((b'.' | b',', rest)) = text.split_first() else { return Some((0, text)) };
    let length = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(length)?;
    if digits.is_empty() {
        return None;
    }
    let kept = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanos = kept.fold(0u32, |n, b| n * 10 + u32::from(b - b'0'));
    Some((nanos, rest))
}

/// Minutes east of UTC.
fn offset(text: &[u8]) -> Option<i16> {
    let (sign, hours, minutes) = match *text {
        [b'Z' | b'z'] => return Some(0),
        [s, h0, h1, b':', m0, m1] | [s, h0, h1, m0, m1] => (s, two(h0, h1)?, two(m0, m1)?),
        [s, h0, h1] => (s, two(h0, h1)?, 0),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let minutes = i16::from(hours) * 60 + i16::from(minutes);
    match sign {
        b'+' => Some(minutes),
        b'-' => Some(-minutes),
        _ => None,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: u8) -> u8 {
    match month {
        2 => 28 + u8::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a date in the Gregorian calendar. A year that starts in March has its leap day last.
fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let month = i64::from(month);
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date this many days after 1970-01-01: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * of_era + of_era / 4 - of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_form() {
        for (text, seconds, nanos, written) in [
            ("2022-03-16T02:39:36+00:00", 1_647_398_376, 0, "2022-03-16T02:39:36+00:00"),
            ("2022-03-16 02:39:36+00:00", 1_647_398_376, 0, "2022-03-16T02:39:36+00:00"),
            ("2022-03-16T02:39:36Z", 1_647_398_376, 0, "2022-03-16T02:39:36+00:00"),
            ("2022-03-16T04:39:36+02:00", 1_647_398_376, 0, "2022-03-16T04:39:36+02:00"),
            ("2022-03-15T21:09:36-0530", 1_647_398_376, 0, "2022-03-15T21:09:36-05:30"),
            ("2022-06-27T23:07:47.000Z", 1_656_371_267, 0, "2022-06-27T23:07:47+00:00"),
            ("2022-06-27T23:07:47.25Z", 1_656_371_267, 250_000_000, "2022-06-27T23:07:47.250000+00:00"),
            ("1970-01-01T00:00:00.000000001+00:00", 0, 1, "1970-01-01T00:00:00.000000001+00:00"),
            ("1969-12-31T23:59:59+00:00", -1, 0, "1969-12-31T23:59:59+00:00"),
            ("2000-02-29T00:00:00+00:00", 951_782_400, 0, "2000-02-29T00:00:00+00:00"),
            ("2016-12-31T23:59:60Z", 1_483_228_799, 0, "2016-12-31T23:59:59+00:00"),
        ] {
            let time = Time::parse(text).unwrap();
            assert_eq!((time.seconds, time.nanos), (seconds, nanos), "{text}");
            assert_eq!(time.to_string(), written);
        }
        assert_eq!(Time::parse("1969-12-31T23:59:59.999Z").unwrap().millis(), -1);
        assert_eq!(Time::parse("2022-06-27 23:07:47.5-00:30").unwrap().millis(), 1_656_373_067_500);
    }

    #[test]
    fn what_is_no_moment() {
        for bad in [
            "",
            "2022-03-16",
            "2022-03-16T02:39:36",
            "2022-13-16T02:39:36Z",
            "2022-02-29T02:39:36Z",
            "2022-03-16T24:39:36Z",
            "2022-03-16T02:39:61Z",
            "2022-03-16T02:39:36.Z",
            "2022-03-16T02:39:36+25:00",
            "2022-03-16T02:39:36Z ",
            "2022-3-16T02:39:36Z",
        ] {
            assert!(Time::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_day_of_eight_centuries() {
        for day in -146_097..146_097 {
            let (year, month, of_month) = civil_from_days(day);
            let (month, of_month) = (u8::try_from(month).unwrap(), u8::try_from(of_month).unwrap());
            assert_eq!(days_from_civil(year, month, of_month), day);
            assert!(of_month >= 1 && of_month <= days_of(year, month));
        }
    }
}
