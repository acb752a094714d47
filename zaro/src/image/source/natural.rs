//! Natural sort order of names: `a2` before `a10`.

use std::cmp::Ordering;

/// Compares runs of digits as numbers, everything else by character.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    loop {
        match (split(a_rest), split(b_rest)) {
            (None, None) => return a.cmp(b),
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some((x, after_x)), Some((y, after_y))) => {
                let digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
                let order = if digits(x) && digits(y) {
                    let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                    x.len().cmp(&y.len()).then_with(|| x.cmp(y))
                } else {
                    x.cmp(y)
                };
                if order != Ordering::Equal {
                    return order;
                }
                (a_rest, b_rest) = (after_x, after_y);
            }
        }
    }
}

/// The first run of digits or of other characters, and the rest.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let first = text.chars().next()?.is_ascii_digit();
    let end = text.find(|c: char| c.is_ascii_digit() != first).unwrap_or(text.len());
    text.split_at_checked(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = vec!["z10.tif", "z2.tif", "z1.tif", "a", "z02b.tif", "z", "z2"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["a", "z", "z1.tif", "z2", "z2.tif", "z02b.tif", "z10.tif"]);
        assert_eq!(compare("a1", "a01"), "a1".cmp("a01"));
    }
}
