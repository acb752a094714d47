//! Glob patterns of keys: `*` matches within a name, `**` anything, `?` one character, `[a-z]` one of a set.

/// Whether the whole key matches the pattern. A pattern without a wildcard also matches everything below it.
#[must_use]
pub fn matches(pattern: &str, key: &str) -> bool {
    let pattern = pattern.trim_matches('/');
    if !pattern.contains(['*', '?', '[']) {
        return key.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    }
    let (p, k): (Vec<char>, Vec<char>) = (pattern.chars().collect(), key.chars().collect());
    run(&p, &k)
}

/// Backtracks to the last star, and to the last double star, on a mismatch: each at most once per character.
fn run(pattern: &[char], key: &[char]) -> bool {
    let (mut p, mut k) = (pattern, key);
    // Where to go on after one more character was given to the star.
    let mut star: Option<(&[char], &[char])> = None;
    let mut double: Option<(&[char], &[char])> = None;
    loop {
        match (p, k) {
            (['*', '*', '/', rest @ ..], _) => {
                (double, star) = (Some((p, k)), None);
                p = rest;
                continue;
            }
            (['*', '*', rest @ ..], _) => {
                (double, star) = (Some((p, k)), None);
                p = rest;
                continue;
            }
            (['*', rest @ ..], _) => {
                star = Some((p, k));
                p = rest;
                continue;
            }
            ([], []) => return true,
            (['?', rest @ ..], [c, more @ ..]) if *c != '/' => {
                (p, k) = (rest, more);
                continue;
            }
            (['[', set @ ..], [c, more @ ..]) if *c != '/' => {
                let fits = match in_set(set, *c) {
                    Some((true, rest)) => Some(rest),
                    // A set that does not end is a bracket.
                    None if *c == '[' => Some(set),
                    _ => None,
                };
                if let Some(rest) = fits {
                    (p, k) = (rest, more);
                    continue;
                }
            }
            ([a, rest @ ..], [b, more @ ..]) if a == b => {
                (p, k) = (rest, more);
                continue;
            }
            _ => {}
        }
        // It does not fit: the star takes one more, then the double star does.
        match (star, double) {
            (Some((at, [c, more @ ..])), _) if *c != '/' => {
                star = Some((at, more));
                (p, k) = (at.get(1..).unwrap_or_default(), more);
            }
            (_, Some((at, [_, more @ ..]))) => {
                (double, star) = (Some((at, more)), None);
                let skip = if at.get(2) == Some(&'/') { 3 } else { 2 };
                // `**/x` matches from the start of a name only.
                let mut from = more;
                if skip == 3 {
                    let Some(slash) = from_slash(more, key) else { return false };
                    from = slash;
                    double = Some((at, from));
                }
                (p, k) = (at.get(skip..).unwrap_or_default(), from);
            }
            _ => return false,
        }
    }
}

/// The next place of `rest`, a tail of `key`, that begins a name.
fn from_slash<'k>(rest: &'k [char], key: &'k [char]) -> Option<&'k [char]> {
    let mut rest = rest;
    loop {
        let before = key.len().checked_sub(rest.len() + 1).and_then(|i| key.get(i));
        if before == Some(&'/') {
            return Some(rest);
        }
        rest = rest.get(1..)?;
    }
}

/// Whether `c` is in the set that begins here, and what follows it; `None` if the set does not end.
fn in_set(set: &[char], c: char) -> Option<(bool, &[char])> {
    let (negated, mut rest) = match set {
        ['!' | '^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    let mut first = true;
    loop {
        rest = match rest {
            [']', after @ ..] if !first => return Some((found != negated, after)),
            [low, '-', high, after @ ..] if *high != ']' => {
                found |= (*low..=*high).contains(&c);
                after
            }
            [one, after @ ..] => {
                found |= *one == c;
                after
            }
            [] => return None,
        };
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("a/b", &["a/b", "a/b/c"][..], &["a/bc", "a", "x/a/b"][..]),
            ("a/", &["a/x", "a"], &["b"]),
            ("*.json", &["zarr.json", ".json"], &["a/zarr.json", "json"]),
            ("**/zarr.json", &["zarr.json", "a/zarr.json", "a/b/zarr.json"], &["azarr.json", "a/bzarr.json"]),
            ("a/**", &["a/b", "a/b/c"], &["ab", "b/a"]),
            ("a/*/c", &["a/b/c"], &["a/b/b/c", "a/c"]),
            ("**/c/*", &["c/0", "a/c/1", "c/c/1"], &["c/0/1/d/2"]),
            ("0.?.[0-4]", &["0.1.3"], &["0.11.3", "0.1.5", "0./.1"]),
            ("[!.]*", &["a"], &[".a", "a/b"]),
            ("[a", &["[a"], &["a"]),
            ("*a*b*c", &["xaxbxc", "abc"], &["acb"]),
            ("**", &["", "a/b"], &[]),
        ] {
            for key in yes {
                assert!(matches(pattern, key), "{pattern} {key}");
            }
            for key in no {
                assert!(!matches(pattern, key), "{pattern} {key}");
            }
        }
        let (pattern, key) = ("*a".repeat(40) + "b", "a".repeat(2000));
        assert!(!matches(&pattern, &key), "and in time");
    }
}
