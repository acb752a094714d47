//! Parses selections: `time=2000-07,lat=-10:10,station=["a,b",c]`.

use crate::error::{Error, Result};

/// The positions of `wanted` outside brackets and quotes.
pub(super) fn outside(text: &str, wanted: char) -> Vec<usize> {
    let mut places = Vec::new();
    let (mut depth, mut quote, mut before) = (0u32, None, ',');
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            // An apostrophe inside a word is not a quote.
            (None, '"' | '\'') if matches!(before, '=' | '[' | ',' | ':') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, c) if c == wanted && depth == 0 => places.push(i),
            _ => {}
        }
        before = if c.is_whitespace() { before } else { c };
    }
    places
}

/// Splits at `at` outside brackets and quotes; a trailing one is allowed.
pub(super) fn split(text: &str, at: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for i in outside(text, at) {
        parts.push(text.get(start..i).unwrap_or_default());
        start = i + at.len_utf8();
    }
    let last = text.get(start..).unwrap_or_default();
    if !last.trim().is_empty() {
        parts.push(last);
    }
    parts
}

/// Without the quotes around it, if there are any.
pub(super) fn unquoted(text: &str) -> &str {
    let inside = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// The pairs of `NAME=VALUE,NAME=VALUE`.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let pair = |item: &str| match item.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Error::usage(format!(
            "{:?} is not of the form NAME=VALUE; put several values in brackets, as in NAME=[1,2]",
            item.trim()
        ))),
    };
    match split(text, ',') {
        none if none.is_empty() => pair(text).map(|pair| vec![pair]),
        items => items.into_iter().map(pair).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_quotes_hold_together() {
        let of = |text: &str| {
            pairs(text).map(|p| p.into_iter().map(|(n, v)| format!("{n}|{v}")).collect::<Vec<_>>()).ok()
        };
        let is = |text: &str, want: &[&str]| assert_eq!(of(text).unwrap(), want, "{text}");
        is("time=2000-07, lat=-10:10,", &["time|2000-07", "lat|-10:10"]);
        is("a=[1,2],b=3", &["a|[1,2]", "b|3"]);
        is("s=\"x,y\",t=['p,q',r]", &["s|\"x,y\"", "t|['p,q',r]"]);
        is("s=Cote d'Ivoire,t=1", &["s|Cote d'Ivoire", "t|1"]);
        for bad in ["a", "a=", "=1", "a=1,2", "", " "] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
