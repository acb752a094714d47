//! Suggestions for misspelt names in errors.

use std::fmt::Write as _;

/// Names longer than this are not compared: nobody typed them.
const LONGEST: usize = 200;

/// How many names a message lists.
const MOST: usize = 12;

/// The edit distance of `a` and `b`: letters changed, added, left out, or swapped with their neighbour.
/// Case-insensitive.
#[must_use]
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let letters = |s: &str| s.chars().flat_map(char::to_lowercase).take(LONGEST).collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    // Rows of the distances between prefixes of `a` (one per row) and of `b`.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(last.len());
        row.push(i + 1);
        let mut left = i + 1;
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut least = (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(left + 1);
            if j > 0 && previous == Some(y) && b.get(j - 1) == Some(x) {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
            left = least;
        }
        previous = Some(x);
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

/// The same, but a name that is a prefix of the word, or the other way round, is close.
fn farness(word: &str, name: &str) -> usize {
    let (a, b) = (word.to_lowercase(), name.to_lowercase());
    let (short, long) = if a.len() < b.len() { (&a, &b) } else { (&b, &a) };
    let begins = short.chars().count() > 2 && long.starts_with(short.as_str());
    // Twice the distance, so that there is a value between two.
    distance(word, name).saturating_mul(2).min(if begins { 1 } else { usize::MAX })
}

/// The names, closest to `word` first; equally close ones in the given order.
pub(crate) fn by_closeness<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut far: Vec<(usize, &str)> = names.into_iter().map(|n| (farness(word, n), n)).collect();
    far.sort_by_key(|(d, _)| *d);
    far.into_iter().map(|(_, n)| n).collect()
}

/// The name that `word` was probably meant to be: one that differs in few letters.
pub(crate) fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|n| (farness(word, n), n)).min_by_key(|(d, _)| *d)?;
    let letters = word.chars().count();
    // One letter in a short word, a third of a long one.
    (near.0 <= 2 * (letters / 3).max(usize::from(letters > 1))).then_some(near.1)
}

/// The suggestion for `word`, which is none of `names`: `; did you mean "lat"? There are lat, lon, time`. Empty if
/// there are no names.
pub(crate) fn instead<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    // The node itself has no name below itself.
    let names = by_closeness(word, names.into_iter().filter(|name| !name.is_empty()));
    let mut out = String::new();
    if let Some(meant) = closest(word, names.iter().copied()) {
        let _ = write!(out, "; did you mean {meant:?}?");
    }
    if !names.is_empty() && (names.len() > 1 || out.is_empty()) {
        out.push_str(if out.is_empty() { "; there are " } else { " There are " });
        out.push_str(&listed(&names));
    }
    out
}

/// The first names, and how many there are in total.
#[must_use]
pub(crate) fn listed(names: &[&str]) -> String {
    let mut text = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        let _ = write!(text, ", … ({} in all)", names.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_what_fingers_get_wrong() {
        for (a, b, d) in [
            ("", "", 0),
            ("lat", "lat", 0),
            ("LAT", "lat", 0),
            ("tme", "time", 1),
            ("tiem", "time", 1),
            ("temprature", "temperature", 1),
            ("lattitude", "latitude", 1),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), d, "{a} {b}");
            assert_eq!(distance(b, a), d, "{b} {a}");
        }
    }

    #[test]
    fn what_is_far_is_not_suggested() {
        let names = ["time", "lat", "lon"];
        assert_eq!(closest("tme", names), Some("time"));
        assert_eq!(closest("Lat", names), Some("lat"));
        assert_eq!(closest("latitude", names), Some("lat"));
        assert_eq!(closest("mon", ["lon", "month"]), Some("month"));
        assert_eq!(closest("pressure", names), None);
        assert_eq!(closest("x", names), None);
        assert_eq!(instead("lom", names), "; did you mean \"lon\"? There are lon, lat, time");
        assert_eq!(instead("pressure", ["x"]), "; there are x");
        assert_eq!(instead("x", []), "");
        assert_eq!(instead("x", [""]), "");
    }
}
