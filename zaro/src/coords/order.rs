//! Binary search for values in an ascending or descending list, and linear search in an unsorted one.

use std::ops::Range;

/// The sort order of the values of a coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Ascending; neighbours may be equal.
    Up,
    /// Descending; neighbours may be equal.
    Down,
    /// Neither, or some are NaN.
    None,
}

/// The sort order of `values`.
pub(super) fn direction<T: PartialOrd>(values: &[T]) -> Direction {
    let all = |holds: fn(&T, &T) -> bool| values.windows(2).all(|w| matches!(w, [a, b] if holds(a, b)));
    // NaN is not even equal to itself.
    match values {
        [one] if one.partial_cmp(one).is_none() => Direction::None,
        _ if all(|a, b| a <= b) => Direction::Up,
        _ if all(|a, b| a >= b) => Direction::Down,
        _ => Direction::None,
    }
}

/// The positions of all values from `low` to `high`, inclusive.
pub(super) fn between<T: PartialOrd>(
    values: &[T],
    direction: Direction,
    low: Option<&T>,
    high: Option<&T>,
) -> Range<usize> {
    let below = |x: &T| low.is_some_and(|low| x < low);
    let above = |x: &T| high.is_some_and(|high| x > high);
    let (start, end) = match direction {
        Direction::Up => (values.partition_point(below), values.partition_point(|x| !above(x))),
        _ => (values.partition_point(above), values.partition_point(|x| !below(x))),
    };
    start..end.max(start)
}

/// The positions of the values before and after `label`, or of those that equal it.
pub(super) fn around<T: PartialOrd>(
    values: &[T],
    direction: Direction,
    label: &T,
) -> (Option<usize>, Option<usize>) {
    let (before, at) = match direction {
        Direction::Up => (values.partition_point(|x| x <= label), values.partition_point(|x| x < label)),
        _ => (values.partition_point(|x| x >= label), values.partition_point(|x| x > label)),
    };
    (before.checked_sub(1), Some(at).filter(|at| *at < values.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whichever_way_they_go() {
        let up = [1, 2, 2, 4, 7];
        let down = [7, 4, 2, 2, 1];
        assert_eq!((direction(&up), direction(&down)), (Direction::Up, Direction::Down));
        assert_eq!(direction(&[1.0, f64::NAN]), Direction::None);
        assert_eq!(direction(&[f64::NAN]), Direction::None);
        assert_eq!(direction(&[2, 1, 3]), Direction::None);
        assert_eq!(between(&up, Direction::Up, Some(&2), Some(&4)), 1..4);
        assert_eq!(between(&down, Direction::Down, Some(&2), Some(&4)), 1..4);
        assert_eq!(between(&up, Direction::Up, Some(&5), Some(&6)), 4..4);
        assert_eq!(between(&down, Direction::Down, Some(&5), None), 0..1);
        assert_eq!(around(&up, Direction::Up, &5), (Some(3), Some(4)));
        assert_eq!(around(&down, Direction::Down, &5), (Some(0), Some(1)));
        assert_eq!(around(&up, Direction::Up, &0), (None, Some(0)));
        assert_eq!(around(&up, Direction::Up, &9), (Some(4), None));
    }
}
