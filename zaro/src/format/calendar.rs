//! Calendars: converts days to dates and back, and to and from ISO 8601 text.
//!
//! A day is counted from 1 January of the year 0 of its own calendar. Everything is exact in 128-bit integers, so no
//! 64-bit time of any unit overflows.
//!
//! Historical calendars have no year 0: the year before 1 is -1. Model calendars and ISO 8601 have one. Days are
//! counted with a year 0 in all of them; only the numbers of years differ.

use crate::meta::dtype::TimeUnit;

/// The calendars of the CF conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calendar {
    /// Julian up to 4 October 1582, Gregorian from the next day, the 15th, on: CF's default.
    Standard,
    /// Gregorian, also before 1582.
    ProlepticGregorian,
    /// A leap year every fourth year.
    Julian,
    /// No leap years.
    NoLeap,
    /// Only leap years.
    AllLeap,
    /// Twelve months of 30 days.
    Days360,
}

impl Calendar {
    /// The calendar with this CF name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => Self::Standard,
            "proleptic_gregorian" => Self::ProlepticGregorian,
            "julian" => Self::Julian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Days360,
            _ => return None,
        })
    }

    /// Its CF name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ProlepticGregorian => "proleptic_gregorian",
            Self::Julian => "julian",
            Self::NoLeap => "noleap",
            Self::AllLeap => "all_leap",
            Self::Days360 => "360_day",
        }
    }

    fn days_before_year(self, year: i128) -> i128 {
        let multiples = |n: i128| (year + n - 1).div_euclid(n);
        match self {
            Self::Standard | Self::ProlepticGregorian => {
                365 * year + multiples(4) - multiples(100) + multiples(400)
            }
            Self::Julian => 365 * year + multiples(4),
            Self::NoLeap => 365 * year,
            Self::AllLeap => 366 * year,
            Self::Days360 => 360 * year,
        }
    }

    fn month_lengths(self, year: i128) -> [i128; 12] {
        if self == Self::Days360 {
            return [30; 12];
        }
        let february = self.days_before_year(year + 1) - self.days_before_year(year) - 337;
        [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    }

    /// Whether the year before 1 is 0, not -1.
    fn has_year_zero(self) -> bool {
        !matches!(self, Self::Standard | Self::Julian)
    }

    /// The day number of a date; `None` if it is invalid in this calendar.
    pub(crate) fn day_of(self, year: i128, month: u32, day: u32) -> Option<i128> {
        match year {
            ..1 if self.has_year_zero() => self.day_counted(year, month, day),
            0 => None,
            ..0 => self.day_counted(year + 1, month, day),
            1.. => self.day_counted(year, month, day),
        }
    }

    /// The date of a day: year, month, day.
    pub(crate) fn date_of(self, day: i128) -> (i128, u32, u32) {
        let (year, month, date) = self.date_counted(day);
        let year = if year < 1 && !self.has_year_zero() { year - 1 } else { year };
        (year, month, date)
    }

    /// [`Self::day_of`], with a year 0 in every calendar.
    fn day_counted(self, year: i128, month: u32, day: u32) -> Option<i128> {
        if self == Self::Standard {
            return if (year, month, day) >= FIRST_GREGORIAN {
                Self::ProlepticGregorian.day_counted(year, month, day)
            } else if (year, month, day) > LAST_JULIAN {
                None
            } else {
                Some(Self::Julian.day_counted(year, month, day)? + julian_shift()?)
            };
        }
        let lengths = self.month_lengths(year);
        let before = usize::try_from(month).ok()?.checked_sub(1)?;
        let (day, length) = (i128::from(day), *lengths.get(before)?);
        if day < 1 || day > length {
            return None;
        }
        Some(self.days_before_year(year) + lengths.iter().take(before).sum::<i128>() + day - 1)
    }

    /// [`Self::date_of`], with a year 0 in every calendar.
    fn date_counted(self, day: i128) -> (i128, u32, u32) {
        if self == Self::Standard {
            let shift = julian_shift().unwrap_or_default();
            let (y, m, d) = FIRST_GREGORIAN;
            return match Self::ProlepticGregorian.day_counted(y, m, d) {
                Some(first) if day < first => Self::Julian.date_counted(day - shift),
                _ => Self::ProlepticGregorian.date_counted(day),
            };
        }
        // No year has 367 days, so these steps never pass the year sought, and shrink the distance a hundredfold.
        let mut year = 0;
        while self.days_before_year(year) > day {
            year -= 1 + (self.days_before_year(year) - day) / 367;
        }
        while self.days_before_year(year + 1) <= day {
            year += 1 + (day - self.days_before_year(year + 1)) / 367;
        }
        let mut rest = day - self.days_before_year(year);
        let mut month = 1;
        for length in self.month_lengths(year) {
            if rest < length {
                break;
            }
            rest -= length;
            month += 1;
        }
        (year, month, u32::try_from(rest + 1).unwrap_or(1))
    }
}

const FIRST_GREGORIAN: (i128, u32, u32) = (1582, 10, 15);
const LAST_JULIAN: (i128, u32, u32) = (1582, 10, 4);

/// The difference between Julian and Gregorian day numbers.
fn julian_shift() -> Option<i128> {
    let (y, m, d) = FIRST_GREGORIAN;
    let first = Calendar::ProlepticGregorian.day_of(y, m, d)?;
    let (y, m, d) = LAST_JULIAN;
    Some(first - 1 - Calendar::Julian.day_of(y, m, d)?)
}

/// 1 January 1970 in the Gregorian calendar.
pub(crate) const EPOCH: i128 = 719_528;

fn year_text(year: i128) -> String {
    match year {
        0..=9999 => format!("{year:04}"),
        10_000.. => format!("+{year}"),
        _ => format!("-{:04}", -year),
    }
}

/// `2001-02-03`.
fn date_text(calendar: Calendar, day: i128) -> String {
    let (y, m, d) = calendar.date_of(day);
    format!("{}-{m:02}-{d:02}", year_text(y))
}

/// `2001-02-03T04:05:06.5`: `ticks` since the beginning of day 0, with `10^digits` per second; `digits` decimals are
/// shown, or as few as needed if `trim` is set.
pub(crate) fn moment_text(calendar: Calendar, ticks: i128, digits: u32, trim: bool) -> String {
    let per_second = 10i128.pow(digits);
    let (second, fraction) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    let (day, second) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let mut out = format!("{}T{h:02}:{m:02}:{s:02}", date_text(calendar, day));
    push_fraction(&mut out, fraction, digits, trim);
    out
}

fn push_fraction(out: &mut String, fraction: i128, digits: u32, trim: bool) {
    if digits == 0 || (trim && fraction == 0) {
        return;
    }
    let width = usize::try_from(digits).unwrap_or(0);
    let text = format!("{fraction:0width$}");
    out.push('.');
    out.push_str(if trim { text.trim_end_matches('0') } else { &text });
}

/// The decimals of a second that a subsecond unit has.
pub(crate) fn decimals(unit: TimeUnit) -> Option<u32> {
    Some(match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
        TimeUnit::Picosecond => 12,
        TimeUnit::Femtosecond => 15,
        TimeUnit::Attosecond => 18,
        _ => return None,
    })
}

/// A datetime64 as ISO 8601, as precise as its unit; `None` for one without a unit.
pub(crate) fn datetime64(value: i64, unit: TimeUnit, scale: u32) -> Option<String> {
    if value == i64::MIN {
        return Some("NaT".into());
    }
    let calendar = Calendar::ProlepticGregorian;
    let n = i128::from(value) * i128::from(scale);
    Some(match unit {
        TimeUnit::Generic => return None,
        TimeUnit::Year => year_text(1970 + n),
        TimeUnit::Month => format!("{}-{:02}", year_text(1970 + n.div_euclid(12)), n.rem_euclid(12) + 1),
        TimeUnit::Week => date_text(calendar, EPOCH + n * 7),
        TimeUnit::Day => date_text(calendar, EPOCH + n),
        TimeUnit::Hour => {
            format!("{}T{:02}", date_text(calendar, EPOCH + n.div_euclid(24)), n.rem_euclid(24))
        }
        TimeUnit::Minute => {
            let (day, minute) = (n.div_euclid(1440), n.rem_euclid(1440));
            format!("{}T{:02}:{:02}", date_text(calendar, EPOCH + day), minute / 60, minute % 60)
        }
        below => {
            let digits = decimals(below)?;
            moment_text(calendar, n + EPOCH * 86_400 * 10i128.pow(digits), digits, false)
        }
    })
}

/// Parses a datetime64 from ISO 8601: `2020`, `2020-01-31`, `2020-01-31T12:30:00.25Z`. `None` if the text is not a
/// date, or falls between two steps of the unit.
pub(crate) fn parse_datetime64(text: &str, unit: TimeUnit, scale: u32) -> Option<i64> {
    const SECOND: i128 = 1_000_000_000_000_000_000;
    if text == "NaT" {
        return Some(i64::MIN);
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let (sign, digits) = match date.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, date),
    };
    let mut parts = digits.split('-');
    let year = sign * parts.next()?.parse::<i128>().ok().filter(|y| *y < 1_000_000_000)?;
    let month: u32 = parts.next().map_or(Some(1), |m| m.parse().ok()).filter(|m| (1..=12).contains(m))?;
    let day: u32 = parts.next().map_or(Some(1), |d| d.parse().ok())?;
    if parts.next().is_some() {
        return None;
    }
    let day_number = Calendar::ProlepticGregorian.day_of(year, month, day)?;
    let mut clock = time.split(':').filter(|p| !p.is_empty());
    let hours: i128 = clock.next().map_or(Some(0), |h| h.parse().ok()).filter(|h| (0..24).contains(h))?;
    let minutes: i128 = clock.next().map_or(Some(0), |m| m.parse().ok()).filter(|m| (0..60).contains(m))?;
    let (seconds, fraction) = clock.next().map_or(("0", ""), |s| s.split_once('.').unwrap_or((s, "")));
    let seconds: i128 = seconds.parse().ok().filter(|s| (0..60).contains(s))?;
    if clock.next().is_some() || fraction.len() > 18 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: i128 = format!("{fraction:0<18}").parse().ok()?;
    let within = (hours * 3600 + minutes * 60 + seconds) * SECOND + fraction;
    let whole = |n: i128, step: i128| (n.rem_euclid(step) == 0).then(|| n.div_euclid(step));
    let n = match unit {
        TimeUnit::Generic => return None,
        TimeUnit::Year if (month, day, within) == (1, 1, 0) => year - 1970,
        TimeUnit::Month if (day, within) == (1, 0) => (year - 1970) * 12 + i128::from(month) - 1,
        TimeUnit::Year | TimeUnit::Month => return None,
        other => {
            let moment = (day_number - EPOCH) * 86_400 * SECOND + within;
            let step = match other {
                TimeUnit::Week => 7 * 86_400 * SECOND,
                TimeUnit::Day => 86_400 * SECOND,
                TimeUnit::Hour => 3600 * SECOND,
                TimeUnit::Minute => 60 * SECOND,
                below => 10i128.pow(18 - decimals(below)?),
            };
            whole(moment, step)?
        }
    };
    i64::try_from(whole(n, scale.into())?).ok()
}

/// A timedelta64 as an ISO 8601 duration in its own unit (`P3D`, `PT0.25S`); `None` for one without a unit.
pub(crate) fn timedelta64(value: i64, unit: TimeUnit, scale: u32) -> Option<String> {
    if value == i64::MIN {
        return Some("NaT".into());
    }
    let n = i128::from(value) * i128::from(scale);
    let (sign, n) = (if n < 0 { "-" } else { "" }, n.abs());
    Some(match unit {
        TimeUnit::Generic => return None,
        TimeUnit::Year => format!("{sign}P{n}Y"),
        TimeUnit::Month => format!("{sign}P{n}M"),
        TimeUnit::Week => format!("{sign}P{n}W"),
        TimeUnit::Day => format!("{sign}P{n}D"),
        TimeUnit::Hour => format!("{sign}PT{n}H"),
        TimeUnit::Minute => format!("{sign}PT{n}M"),
        below => {
            let digits = decimals(below)?;
            let per_second = 10i128.pow(digits);
            let mut out = format!("{sign}PT{}", n / per_second);
            push_fraction(&mut out, n % per_second, digits, true);
            out.push('S');
            out
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_survive_a_round_trip_in_every_calendar() {
        use Calendar::*;
        for calendar in [Standard, ProlepticGregorian, Julian, NoLeap, AllLeap, Days360] {
            for day in (-900_000..1_200_000).step_by(37).chain([577_735, 577_736, 577_737, 577_738]) {
                let (y, m, d) = calendar.date_of(day);
                assert_eq!(calendar.day_of(y, m, d), Some(day), "{calendar:?} {y}-{m}-{d}");
            }
        }
        assert_eq!(ProlepticGregorian.day_of(1970, 1, 1), Some(EPOCH));
        assert_eq!(Standard.day_of(1582, 10, 4).map(|d| Standard.date_of(d + 1)), Some((1582, 10, 15)));
        assert_eq!(Standard.day_of(1582, 10, 10), None);
        assert_eq!(NoLeap.day_of(2000, 2, 29), None);
        assert!(Days360.day_of(2001, 2, 30).is_some());
    }

    #[test]
    fn numpy_times_are_read_back_from_their_text() {
        let units = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];
        for unit in units.map(|u| TimeUnit::parse(u).unwrap()) {
            for scale in [1, 3, 25] {
                for n in [0, 1, -1, 17, -12_345, 1_000_003, i64::MIN] {
                    let text = datetime64(n, unit, scale).unwrap();
                    assert_eq!(parse_datetime64(&text, unit, scale), Some(n), "{text} {unit:?} {scale}");
                }
            }
        }
        let day = |text| parse_datetime64(text, TimeUnit::Day, 1);
        assert_eq!(day("1970-01-02T00:00:00Z"), Some(1));
        for bad in ["1970-01-02T12", "1970-13-01", "1970-02-30", "x", "", "1970-01-01-01", "1970-01-01T25"] {
            assert_eq!(day(bad), None, "{bad}");
        }
    }

    #[test]
    fn numpy_times_read_as_numpy_prints_them() {
        assert_eq!(datetime64(-1, TimeUnit::Nanosecond, 1).unwrap(), "1969-12-31T23:59:59.999999999");
        assert_eq!(datetime64(11_016, TimeUnit::Day, 1).unwrap(), "2000-02-29");
        assert_eq!(datetime64(-1, TimeUnit::Month, 1).unwrap(), "1969-12");
        assert_eq!(datetime64(5, TimeUnit::Second, 25).unwrap(), "1970-01-01T00:02:05");
        assert_eq!(datetime64(i64::MIN, TimeUnit::Day, 1).unwrap(), "NaT");
        assert_eq!(datetime64(i64::MAX, TimeUnit::Second, 1).unwrap(), "+292277026596-12-04T15:30:07");
        assert_eq!(timedelta64(-1500, TimeUnit::Millisecond, 1).unwrap(), "-PT1.5S");
        assert_eq!(timedelta64(3, TimeUnit::Day, 2).unwrap(), "P6D");
    }
}
