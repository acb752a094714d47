//! Looks up labels on an axis: resolves a value, a list of values or a slice to positions.

use std::ops::Range;

use super::axis::{AxisValues, CoordinateAxis, CoordinateKind};
use super::order::{Direction, around, between};
use super::{Lookup, MatchMethod};
use crate::array::Index;
use crate::cf::{Interval, span};
use crate::error::{Error, Result};
use crate::format::calendar::Calendar;
use crate::meta::dtype::Float;
use crate::meta::float;
use crate::num;

/// A parsed label.
#[derive(Debug, Clone, PartialEq)]
enum Label {
    Float(f64),
    /// The first and the last value it covers, since a date may stand for many times; and the unit it was given in.
    Whole(i128, i128, i128),
    Text(String),
}

/// The value of `NAME=`.
enum WantedLabel {
    All,
    One(Label),
    List(Vec<Label>),
    /// Start, end and step.
    Slice(Option<Label>, Option<Label>, i64),
}

impl CoordinateAxis {
    /// The positions that `text` selects: `10.5`, `[10,20]`, `-10:10`, `2000-07`, `2000-07-01:2000-08`.
    pub fn find(&self, text: &str, lookup: &Lookup) -> Result<Index> {
        let text = text.trim();
        let named = |e: Error| e.within(format_args!("{}={text}", self.name));
        let tolerance = lookup.tolerance.as_deref().map(|t| self.tolerance(t)).transpose()?;
        match self.wanted(text).map_err(named)? {
            WantedLabel::All => Ok(Index::All),
            WantedLabel::Slice(from, to, step) => self.slice(from.as_ref(), to.as_ref(), step).map_err(named),
            WantedLabel::One(label) => self.one(&label, lookup.method, tolerance).map_err(named),
            WantedLabel::List(labels) if labels.is_empty() => {
                Err(named(Error::usage(format!("an empty list selects nothing; {}", self.extent()))))
            }
            WantedLabel::List(labels) => {
                let single = |label: &Label| match self.place(label, lookup.method, tolerance)?.as_slice() {
                    [at] => Ok(*at),
                    _ => Err(Error::usage(format!("{} occurs more than once", self.shown(label)))),
                };
                let places = labels.iter().map(single).collect::<Result<Vec<usize>>>().map_err(named)?;
                Ok(Index::List(places.into_iter().map(signed).collect()))
            }
        }
    }

    /// The single position of a label, for pointwise selection.
    pub(super) fn position(&self, text: &str, lookup: &Lookup) -> Result<u64> {
        let text = text.trim();
        let named = |e: Error| e.within(format_args!("{}={text}", self.name));
        let tolerance = lookup.tolerance.as_deref().map(|t| self.tolerance(t)).transpose()?;
        let label = self.label(text).map_err(named)?;
        match self.place(&label, lookup.method, tolerance).map_err(named)?.as_slice() {
            [at] => Ok(num::u64_of(*at)),
            _ => Err(named(Error::usage("it occurs more than once; a point takes one value"))),
        }
    }

    fn wanted(&self, text: &str) -> Result<WantedLabel> {
        if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            let labels = super::text::split(list, ',').into_iter().filter(|t| !t.trim().is_empty());
            return labels.map(|t| self.label(t)).collect::<Result<_>>().map(WantedLabel::List);
        }
        let colons = super::text::outside(text, ':');
        let is_label = match &self.values {
            // A text with a colon is a label if the axis has it, else a slice.
            AxisValues::Texts(v) => colons.is_empty() || v.iter().any(|t| t == text),
            _ => self.parse(text).is_some(),
        };
        if text == ":" {
            return Ok(WantedLabel::All);
        }
        if is_label {
            return self.label(text).map(WantedLabel::One);
        }
        let end = |t: &str| if t.trim().is_empty() { Some(None) } else { self.parse(t).map(Some) };
        // Times have colons, too: split where both ends can be parsed.
        for at in colons {
            let (Some(left), Some(right)) = (text.get(..at), text.get(at + 1..)) else { continue };
            let Some(from) = end(left) else { continue };
            if let Some(to) = end(right) {
                return Ok(WantedLabel::Slice(from, to, 1));
            }
            let stepped = right.rsplit_once(':').and_then(|(right, step)| {
                Some((end(right)?, step.trim().parse::<i64>().ok().filter(|step| *step > 0)?))
            });
            if let Some((to, step)) = stepped {
                return Ok(WantedLabel::Slice(from, to, step));
            }
        }
        self.label(text).map(WantedLabel::One)
    }

    fn label(&self, text: &str) -> Result<Label> {
        self.parse(text).ok_or_else(|| {
            if let Some(why) = &self.undecoded {
                return Error::usage(format!(
                    "{:?} is not a number that cannot be a year, such as 10 or 1980.0; the times of {:?} stay numbers: {why}; {}",
                    text.trim(),
                    self.name,
                    self.extent()
                ))
                .with_hint("isel", "selects by index");
            }
            let example = match self.kind {
                CoordinateKind::Floats { .. } | CoordinateKind::Integers => {
                    "a number, such as 10.5, 10:20 or [10,20]"
                }
                CoordinateKind::Truths => "true or false",
                CoordinateKind::Moments(_) => "a date, such as 2000-07, 2000-07-01T12:00 or 2000:2001-06",
                CoordinateKind::Spans => "a duration, such as 36h, 2D or 0h:12h",
                CoordinateKind::Texts => "a text",
            };
            Error::usage(format!("{:?} is not {example}; {}", text.trim(), self.extent()))
        })
    }

    fn parse(&self, text: &str) -> Option<Label> {
        let text = super::text::unquoted(text.trim());
        // Along times that could not be decoded, a year would be taken for a number.
        if self.undecoded.is_some() && Interval::parse(text, Calendar::Standard).is_some() {
            return None;
        }
        match self.kind {
            CoordinateKind::Texts => Some(Label::Text(text.to_owned())),
            CoordinateKind::Moments(calendar) => {
                Interval::parse(text, calendar).map(|i| Label::Whole(i.first, i.last, i.unit))
            }
            CoordinateKind::Spans => {
                span(text).map(|(n, unit)| Label::Whole(n, n.saturating_add(unit - 1), 1))
            }
            CoordinateKind::Integers => text.parse().ok().map(|n| Label::Whole(n, n, 1)),
            CoordinateKind::Truths => match text {
                "true" => Some(Label::Float(1.0)),
                "false" => Some(Label::Float(0.0)),
                _ => text.parse().ok().map(Label::Float),
            },
            CoordinateKind::Floats { format, .. } => {
                let x = text.parse::<f64>().ok()?;
                // Rounded to the coordinate's type: 0.1 as float32 differs from 0.1 as float64.
                Some(Label::Float(match format {
                    Float::F64 => x,
                    small => float::to_f64(small, float::from_f64(small, x)),
                }))
            }
        }
    }

    fn tolerance(&self, text: &str) -> Result<f64> {
        let found = match self.kind {
            CoordinateKind::Moments(_) | CoordinateKind::Spans => {
                span(text).map(|(n, _)| num::f64_of_i128(n))
            }
            _ => text.trim().parse().ok(),
        };
        found.filter(|t: &f64| *t >= 0.0).ok_or_else(|| {
            Error::usage(format!(
                "invalid tolerance {text:?} for {:?}: expected a distance such as 0.5 or 12h",
                self.name
            ))
        })
    }

    fn shown(&self, label: &Label) -> String {
        match label {
            Label::Float(x) => self.text_of(*x),
            Label::Whole(first, ..) => self.text_of_whole(*first),
            Label::Text(text) => format!("{text:?}"),
        }
    }

    /// A single label: its dimension is dropped, unless the label covers several values or occurs more than once.
    fn one(&self, label: &Label, method: MatchMethod, tolerance: Option<f64>) -> Result<Index> {
        if let (CoordinateKind::Moments(_), Label::Whole(first, last, unit)) = (self.kind, label) {
            // As in pandas and cftime: a date coarser than the axis is a range; in model calendars every date is.
            let is_range = match method {
                MatchMethod::Exact => *unit > self.unit() || self.is_of_model(),
                _ => *unit >= Interval::LONG,
            };
            let places = if is_range { self.range(*first, *last) } else { Vec::new() };
            if !places.is_empty() {
                return Ok(index(&places));
            }
            if is_range && method == MatchMethod::Exact {
                return Err(self.nothing(format_args!("lies in this period")));
            }
        }
        match self.place(label, method, tolerance)?.as_slice() {
            [at] => Ok(Index::At(signed(*at))),
            several => Ok(index(several)),
        }
    }

    fn range(&self, first: i128, last: i128) -> Vec<usize> {
        match &self.values {
            AxisValues::Wholes(v) if self.direction != Direction::None => {
                between(v, self.direction, Some(&first), Some(&last)).collect()
            }
            AxisValues::Wholes(v) => positions(v, |x| (first..=last).contains(x)),
            _ => Vec::new(),
        }
    }

    /// The positions of a label: all that equal it, or else the one that `method` selects; at least one.
    fn place(&self, label: &Label, method: MatchMethod, tolerance: Option<f64>) -> Result<Vec<usize>> {
        let found = match (&self.values, label) {
            (AxisValues::Floats(v), Label::Float(x)) if x.is_nan() => positions(v, |y| y.is_nan()),
            (AxisValues::Floats(v), Label::Float(x)) => self.equal(v, x),
            (AxisValues::Wholes(v), Label::Whole(x, ..)) => self.equal(v, x),
            (AxisValues::Texts(v), Label::Text(x)) => self.equal(v, x),
            _ => Vec::new(),
        };
        if !found.is_empty() {
            return Ok(found);
        }
        let near = match (&self.values, label) {
            // Nothing is near NaN.
            (AxisValues::Floats(_), Label::Float(x)) if x.is_nan() => None,
            (AxisValues::Floats(v), Label::Float(x)) => self.near(v, x, method, |a, b| (a - b).abs()),
            (AxisValues::Wholes(v), Label::Whole(x, ..)) => {
                self.near(v, x, method, |a, b| num::f64_of_i128(a.saturating_sub(*b).saturating_abs()))
            }
            _ => None,
        };
        let scaled = matches!(self.kind, CoordinateKind::Floats { scaled: true, .. });
        match near {
            // The last digits of an unpacked number are rounding errors.
            Some((at, gap)) if method == MatchMethod::Exact && scaled && gap <= self.rounding() => {
                Ok(vec![at])
            }
            Some((at, gap)) if method != MatchMethod::Exact && tolerance.is_none_or(|t| gap <= t) => {
                Ok(self.alike(at))
            }
            _ if method != MatchMethod::Exact && self.direction == Direction::None => Err(Error::usage(
                format!("no value equals it, and {}, so the nearest cannot be determined", self.extent()),
            )),
            Some((at, _)) if method != MatchMethod::Exact => {
                Err(self.nothing(format_args!("is within the tolerance; the nearest is {}", self.text(at))))
            }
            Some((at, _)) => Err(self
                .nothing(format_args!("equals it; the nearest is {}", self.text(at)))
                .with_hint("method", "nearest selects it")),
            None => Err(self.nothing(format_args!("equals it"))),
        }
    }

    /// The error for a label that selects nothing.
    fn nothing(&self, why: std::fmt::Arguments<'_>) -> Error {
        Error::usage(format!("no value of {:?} {why}; {}", self.name, self.extent()))
    }

    fn equal<T: PartialOrd>(&self, values: &[T], label: &T) -> Vec<usize> {
        match self.direction {
            Direction::None => positions(values, |x| x == label),
            sorted => between(values, sorted, Some(label), Some(label)).collect(),
        }
    }

    /// The position that `method` selects, and its distance. For `Exact`, the nearest, to name it in the message.
    fn near<T: PartialOrd>(
        &self,
        values: &[T],
        label: &T,
        method: MatchMethod,
        gap: impl Fn(&T, &T) -> f64,
    ) -> Option<(usize, f64)> {
        if self.direction == Direction::None {
            return None;
        }
        let (before, after) = around(values, self.direction, label);
        let with_gap = |at: Option<usize>| at.and_then(|at| Some((at, gap(values.get(at)?, label))));
        let (before, after) = (with_gap(before), with_gap(after));
        match method {
            MatchMethod::Pad => before,
            MatchMethod::Backfill => after,
            MatchMethod::Nearest | MatchMethod::Exact => match (before, after) {
                // On a tie, the larger.
                (Some(b), Some(a)) if b.1 < a.1 || (b.1 == a.1 && self.direction == Direction::Down) => {
                    Some(b)
                }
                (before, after) => after.or(before),
            },
        }
    }

    /// The positions of all values equal to that at `at`.
    fn alike(&self, at: usize) -> Vec<usize> {
        let same = match &self.values {
            AxisValues::Floats(v) => v.get(at).map(|x| self.equal(v, x)),
            AxisValues::Wholes(v) => v.get(at).map(|x| self.equal(v, x)),
            AxisValues::Texts(v) => v.get(at).map(|x| self.equal(v, x)),
        };
        same.filter(|places| !places.is_empty()).unwrap_or_else(|| vec![at])
    }

    /// The rounding error of an unpacked number.
    fn rounding(&self) -> f64 {
        match &self.values {
            AxisValues::Floats(v) => v.iter().fold(0f64, |most, x| most.max(x.abs())) * 8.0 * f64::EPSILON,
            _ => 0.0,
        }
    }

    /// Everything between two labels, inclusive, in either order.
    fn slice(&self, from: Option<&Label>, to: Option<&Label>, step: i64) -> Result<Index> {
        let is_nan = |label: Option<&Label>| matches!(label, Some(Label::Float(x)) if x.is_nan());
        if self.direction != Direction::None && (is_nan(from) || is_nan(to)) {
            return Err(Error::usage(format!("a slice does not begin or end at NaN; {}", self.extent())));
        }
        let range = match &self.values {
            _ if self.direction == Direction::None => self.slice_of_places(from, to)?,
            AxisValues::Floats(v) => {
                let x = |label: Option<&Label>| match label {
                    Some(Label::Float(x)) => Some(*x),
                    _ => None,
                };
                self.ordered(v, x(from), x(to), x(from), x(to))
            }
            AxisValues::Wholes(v) => {
                let first = |label: Option<&Label>| match label {
                    Some(Label::Whole(first, ..)) => Some(*first),
                    _ => None,
                };
                let last = |label: Option<&Label>| match label {
                    Some(Label::Whole(_, last, _)) => Some(*last),
                    _ => None,
                };
                self.ordered(v, first(from), first(to), last(from), last(to))
            }
            AxisValues::Texts(v) => {
                let text = |label: Option<&Label>| match label {
                    Some(Label::Text(text)) => Some(text.clone()),
                    _ => None,
                };
                self.ordered(v, text(from), text(to), text(from), text(to))
            }
        };
        if range.is_empty() {
            return Err(self.nothing(format_args!("lies in this range")));
        }
        let (start, end) = (num::u64_of(range.start), num::u64_of(range.end));
        Ok(match step {
            1 => Index::Span(start, end - start),
            step => Index::Slice(Some(signed(range.start)), Some(signed(range.end)), step),
        })
    }

    /// The positions between two ends, each with its first and its last value. A missing end means the start or end of
    /// the axis.
    fn ordered<T: PartialOrd>(
        &self,
        values: &[T],
        from: Option<T>,
        to: Option<T>,
        from_last: Option<T>,
        to_last: Option<T>,
    ) -> Range<usize> {
        let down = self.direction == Direction::Down;
        let (low, high) = match (&from, &to_last) {
            (Some(a), Some(b)) if a > b => (to.as_ref(), from_last.as_ref()),
            (Some(_), Some(_)) => (from.as_ref(), to_last.as_ref()),
            // An open slice follows the direction of the axis: `10:` is everything from 10 on.
            (Some(_), None) if down => (None, from_last.as_ref()),
            (None, Some(_)) if down => (to.as_ref(), None),
            _ => (from.as_ref(), to_last.as_ref()),
        };
        between(values, self.direction, low, high)
    }

    /// A slice of an unsorted axis, from one existing value to another.
    fn slice_of_places(&self, from: Option<&Label>, to: Option<&Label>) -> Result<Range<usize>> {
        let end = |label: Option<&Label>, open: usize| match label {
            None => Ok(open),
            Some(label) => match self.place(label, MatchMethod::Exact, None).as_deref() {
                Ok([at]) => Ok(*at),
                _ => Err(Error::usage(format!(
                    "{}: a slice needs two existing values, each of which occurs once",
                    self.extent()
                ))),
            },
        };
        let last = self.len().saturating_sub(1);
        let (start, end) = (end(from, 0)?, end(to, last)?);
        Ok(start..end.saturating_add(1).max(start))
    }
}

fn positions<T>(values: &[T], is_meant: impl Fn(&T) -> bool) -> Vec<usize> {
    values.iter().enumerate().filter(|(_, x)| is_meant(x)).map(|(at, _)| at).collect()
}

fn signed(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// Positions as a selection that keeps the dimension.
fn index(places: &[usize]) -> Index {
    match places {
        [first, .., last] if last - first + 1 == places.len() => {
            Index::Span(num::u64_of(*first), num::u64_of(places.len()))
        }
        [one] => Index::Span(num::u64_of(*one), 1),
        many => Index::List(many.iter().map(|at| signed(*at)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coords::axis::MISSING;
    use crate::coords::order::direction;

    fn floats(values: &[f64], format: Float) -> CoordinateAxis {
        let kind = CoordinateKind::Floats { format, scaled: false };
        let direction = direction(values);
        let values = AxisValues::Floats(values.to_vec());
        CoordinateAxis { name: "x".into(), kind, values, direction, undecoded: None }
    }

    fn days(texts: &[&str], calendar: Calendar) -> CoordinateAxis {
        let at = |text: &&str| Interval::parse(text, calendar).unwrap().first;
        let values: Vec<i128> = texts.iter().map(at).collect();
        let direction = direction(&values);
        CoordinateAxis {
            name: "t".into(),
            kind: CoordinateKind::Moments(calendar),
            values: AxisValues::Wholes(values),
            direction,
            undecoded: None,
        }
    }

    fn find(axis: &CoordinateAxis, text: &str) -> Option<Index> {
        axis.find(text, &Lookup::default()).ok()
    }

    fn by(axis: &CoordinateAxis, text: &str, method: MatchMethod, tolerance: Option<&str>) -> Option<Index> {
        axis.find(text, &Lookup { method, tolerance: tolerance.map(str::to_owned) }).ok()
    }

    #[test]
    fn numbers_are_found_whichever_way_they_go() {
        let up = floats(&[-10.0, 0.0, 10.0, 20.0], Float::F64);
        let down = floats(&[20.0, 10.0, 0.0, -10.0], Float::F64);
        assert_eq!(find(&up, "10"), Some(Index::At(2)));
        assert_eq!(find(&up, "10.5"), None);
        assert_eq!(find(&up, "-5:10"), Some(Index::Span(1, 2)));
        assert_eq!(find(&down, "-5:10"), Some(Index::Span(1, 2)));
        assert_eq!(find(&down, "10:-5"), Some(Index::Span(1, 2)));
        assert_eq!(find(&down, "10:"), Some(Index::Span(1, 3)));
        assert_eq!(find(&up, ":0"), Some(Index::Span(0, 2)));
        assert_eq!(find(&up, "::2"), Some(Index::Slice(Some(0), Some(4), 2)));
        assert_eq!(find(&up, "[20,-10]"), Some(Index::List(vec![3, 0])));
        assert_eq!((find(&up, "[]"), find(&up, "[ ]")), (None, None));
        assert_eq!(find(&up, "11:19"), None);
        assert_eq!(find(&up, ":"), Some(Index::All));
        // On a tie, the larger.
        for (axis, at) in [(&up, 2), (&down, 1)] {
            assert_eq!(by(axis, "5", MatchMethod::Nearest, None), Some(Index::At(at)));
        }
        assert_eq!(by(&up, "14", MatchMethod::Pad, None), Some(Index::At(2)));
        assert_eq!(by(&down, "14", MatchMethod::Pad, None), Some(Index::At(0)));
        assert_eq!(by(&up, "14", MatchMethod::Backfill, None), Some(Index::At(3)));
        assert_eq!(by(&up, "14", MatchMethod::Nearest, Some("3")), None);
        assert_eq!(by(&up, "25", MatchMethod::Backfill, None), None);
        for axis in [&up, &down] {
            for method in [MatchMethod::Exact, MatchMethod::Nearest, MatchMethod::Pad, MatchMethod::Backfill]
            {
                for text in ["nan", "[nan]", "nan:10", "0:nan", "NaN:"] {
                    assert_eq!(by(axis, text, method, None), None, "{text}");
                }
            }
        }
    }

    #[test]
    fn decimals_are_rounded_as_the_axis_is() {
        let axis = floats(&[f64::from(0.1f32), f64::from(0.2f32), f64::from(0.3f32)], Float::F32);
        assert_eq!(find(&axis, "0.1"), Some(Index::At(0)));
        assert_eq!(find(&axis, "0.1:0.3"), Some(Index::Span(0, 3)));
        let mut packed = floats(&[3.0 * 0.1, 4.0 * 0.1], Float::F64);
        assert_eq!(find(&packed, "0.3"), None);
        packed.kind = CoordinateKind::Floats { format: Float::F64, scaled: true };
        assert_eq!(find(&packed, "0.3"), Some(Index::At(0)));
        assert_eq!(packed.text(0), "0.3");
    }

    #[test]
    fn without_an_order_only_what_is_there_is_found() {
        let axis = floats(&[3.0, 1.0, f64::NAN, 2.0, 1.0], Float::F64);
        assert_eq!(find(&axis, "2"), Some(Index::At(3)));
        assert_eq!(find(&axis, "1"), Some(Index::List(vec![1, 4])));
        assert_eq!(find(&axis, "[1]"), None);
        assert_eq!(find(&axis, "nan"), Some(Index::At(2)));
        assert_eq!(find(&axis, "3:2"), Some(Index::Span(0, 4)));
        assert_eq!(find(&axis, "0:2"), None);
        assert_eq!(by(&axis, "2.5", MatchMethod::Nearest, None), None);
    }

    #[test]
    fn dates_may_be_short_for_many() {
        let daily = days(&["2000-06-30", "2000-07-01", "2000-07-02", "2000-08-01"], Calendar::Standard);
        assert_eq!(find(&daily, "2000-07"), Some(Index::Span(1, 2)));
        assert_eq!(find(&daily, "2000-07-01"), Some(Index::At(1)));
        assert_eq!(find(&daily, "2000-07-01:2000-08"), Some(Index::Span(1, 3)));
        assert_eq!(find(&daily, "2000-07-01T00:00:2000-07-02T12:00"), Some(Index::Span(1, 2)));
        assert_eq!(find(&daily, "2000-07-02:2000"), Some(Index::Span(2, 2)));
        // A step after a time is neither minutes nor seconds.
        let stepped = Some(Index::Slice(Some(0), Some(3), 2));
        for text in [
            "2000-06-30:2000-07-02:2",
            "2000-06-30T00:2000-07-02T00:2",
            "2000-06-30T00:00:2000-07-02T00:00:2",
            "2000-06-30T00:00:00:2000-07-02T00:00:00:2",
            "\"2000-06-30T00:00\":\"2000-07-02T00:00\":2",
        ] {
            assert_eq!(find(&daily, text), stepped, "{text}");
        }
        assert_eq!(find(&daily, "2000-08:2000-07"), Some(Index::Span(1, 3)));
        assert_eq!(find(&daily, "2001"), None);
        assert_eq!(by(&daily, "2000-07", MatchMethod::Nearest, None), Some(Index::Span(1, 2)));
        assert_eq!(by(&daily, "2000-07-20", MatchMethod::Nearest, None), Some(Index::At(3)));
        assert_eq!(by(&daily, "2000-07-20", MatchMethod::Nearest, Some("1D")), None);
        let model = days(&["2000-02-30", "2000-03-01"], Calendar::Days360);
        assert_eq!(find(&model, "2000-02-30"), Some(Index::Span(0, 1)));
        assert_eq!(find(&model, "2000-02-31"), None);
        let missing = CoordinateAxis {
            values: AxisValues::Wholes(vec![MISSING, 0]),
            direction: Direction::None,
            ..daily.clone()
        };
        assert_eq!(find(&missing, "2000"), None);
    }

    #[test]
    fn a_date_is_no_number_where_times_could_not_be_decoded() {
        let months = floats(&[0.0, 1.0, 2.0, 1980.0], Float::F64);
        assert_eq!(by(&months, "1980", MatchMethod::Nearest, None), Some(Index::At(3)));
        let months = CoordinateAxis { undecoded: Some("no fixed length".into()), ..months };
        for date in ["1980", "1980:1990", "[1980]", ":1980", "1980-07"] {
            let lookup = Lookup { method: MatchMethod::Nearest, tolerance: None };
            let e = months.find(date, &lookup).unwrap_err();
            assert!(e.to_string().contains("no fixed length"), "{date}: {e}");
        }
        assert_eq!(find(&months, "1:2"), Some(Index::Span(1, 2)));
        assert_eq!(find(&months, "1980.0"), Some(Index::At(3)));
    }

    #[test]
    fn texts_may_hold_colons_and_commas() {
        let values: Vec<String> = ["a:b", "c,d", "e"].map(str::to_owned).to_vec();
        let (kind, direction) = (CoordinateKind::Texts, direction(&values));
        let values = AxisValues::Texts(values);
        let axis = CoordinateAxis { name: "s".into(), kind, values, direction, undecoded: None };
        assert_eq!(find(&axis, "a:b"), Some(Index::At(0)));
        assert_eq!(find(&axis, "[\"c,d\",e]"), Some(Index::List(vec![1, 2])));
        assert_eq!(find(&axis, "b:e"), Some(Index::Span(1, 2)));
        assert_eq!(find(&axis, "c:"), Some(Index::Span(1, 2)));
        assert_eq!(find(&axis, "\"a:b\":\"c,d\""), Some(Index::Span(0, 2)));
        assert_eq!(find(&axis, "\"a:b\""), Some(Index::At(0)));
        assert_eq!(find(&axis, "x"), None);
    }
}
