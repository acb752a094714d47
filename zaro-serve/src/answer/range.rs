//! `Range: bytes=…` of an object whose size is known.

use std::ops::Range;

/// More ranges than this are answered with the whole object: nobody needs them, and each costs a part of its own.
const MOST: usize = 16;

/// What a `Range` header asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// The whole object: no range, an empty list, another unit, or so many ranges that they come to more than the object.
    Whole,
    /// These bytes, in the order asked for; at least one range, none empty.
    Parts(Vec<Range<u64>>),
    /// None of them lies in the object, or the header is damaged: 416.
    Unsatisfiable,
}

/// Parses a `Range` header for an object of `size` bytes.
pub(crate) fn parse(header: &str, size: u64) -> Ranges {
    let list = match header.split_once('=') {
        Some((unit, list)) if unit.trim().eq_ignore_ascii_case("bytes") && !list.is_empty() => list,
        _ => return Ranges::Whole,
    };
    let mut parts = Vec::new();
    let mut total = 0u64;
    for spec in list.split(',') {
        let Some(part) = one(spec.trim(), size) else { return Ranges::Unsatisfiable };
        if part.start < part.end {
            total = total.saturating_add(part.end - part.start);
            parts.push(part);
        } else if part.start == 0 {
            // All of nothing.
            return Ranges::Whole;
        }
    }
    match parts.is_empty() {
        true => Ranges::Unsatisfiable,
        false if total > size || parts.len() > MOST => Ranges::Whole,
        false => Ranges::Parts(parts),
    }
}

/// The bytes of one specification, cut to the object; empty if it lies outside. `None` if it is damaged.
fn one(spec: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(size.saturating_sub(number(last)?)..size),
        (false, true) => Some(number(first)?..size),
        (false, false) => Some(number(first)?..number(last)?.saturating_add(1).min(size)),
    }
}

/// Digits only; a number that does not fit is an error.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_object() {
        use Ranges::{Unsatisfiable, Whole};
        let parts = |list: &[(u64, u64)]| Ranges::Parts(list.iter().map(|(a, b)| *a..*b).collect());
        for (header, size, wanted) in [
            ("bytes=0-0", 10, parts(&[(0, 1)])),
            ("bytes=2-5", 10, parts(&[(2, 6)])),
            ("bytes=2-", 10, parts(&[(2, 10)])),
            ("bytes=-3", 10, parts(&[(7, 10)])),
            ("bytes=-30", 10, parts(&[(0, 10)])),
            ("bytes=5-50", 10, parts(&[(5, 10)])),
            ("BYTES = 1-2", 10, parts(&[(1, 3)])),
            ("bytes=0-1, 4-5", 10, parts(&[(0, 2), (4, 6)])),
            ("bytes=0-1,90-", 10, parts(&[(0, 2)])),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-12", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=5-3", 10, Unsatisfiable),
            ("bytes=a-b", 10, Unsatisfiable),
            ("bytes=", 10, Whole),
            ("bytes=-", 10, Unsatisfiable),
            ("bytes=1-2-3", 10, Unsatisfiable),
            ("bytes=+1-2", 10, Unsatisfiable),
            ("bytes=0-99999999999999999999", 10, Unsatisfiable),
            ("items=0-1", 10, Whole),
            ("nonsense", 10, Whole),
            ("bytes=0-9,0-9", 10, Whole),
            ("bytes=0-", 0, Whole),
            ("bytes=-5", 0, Whole),
            ("bytes=1-", 0, Unsatisfiable),
        ] {
            assert_eq!(parse(header, size), wanted, "{header} of {size}");
        }
        let many =
            |n: u64| format!("bytes={}", (0..n).map(|i| format!("{i}-{i}")).collect::<Vec<_>>().join(","));
        assert!(matches!(parse(&many(16), 100), Ranges::Parts(_)));
        assert_eq!(parse(&many(17), 100), Ranges::Whole);
    }
}
